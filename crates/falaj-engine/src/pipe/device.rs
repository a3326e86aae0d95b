//! A link that its device paces: packets are handed over ahead of time, a few at once.
//!
//! The device sends what it holds at the link's rate, one packet behind the other, so what it was
//! handed ends at an instant that is known. The discipline is asked at that instant as soon as
//! there is room, which is before it comes: to the discipline, a transmission begins where the one
//! before it ends, and it is never asked about a time before that. Packets that come meanwhile come
//! to it at that instant; that is sooner than they could go, and all that a device-paced link does
//! otherwise than one that falaj paces. It is at most as long as the device takes for its
//! `backlog`, and so much later is what is promised.
//!
//! Where the discipline has nobody go before a later instant, nothing is handed over before that
//! comes: the device would send at once. So phases that pass unused stay unused.
//!
//! Whether a flow has run empty is concluded when that is so, and not ahead of time: the last
//! packet of a flow is in its queue until the device has sent it, and who goes next is decided
//! then, or when the flow gets another one. Else a flow whose packets keep coming would seem to
//! have run empty as often as the device takes all that wait; it would lose its turn, and of the
//! rate that it is promised as much as its queue is shorter than the device's.
//!
//! What it was handed ends when it was to end, also where the rate changes. If that is more than
//! 100 ms away and the new rate is higher, it ends by the new rate, and the discipline begins
//! afresh: it was asked about times that are not to come yet.
//!
//! A device that has room for a largest packet no more is let alone until half of the rest has
//! gone, so that those who hand over wake up once for many packets. A port that refuses what it is
//! handed is asked no more until it has room: who goes next is not decided before it can go.

use super::spec::PipeSpec;
use falaj_sched::disciplines::fifo;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

/// Who paces a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// falaj: a packet is handed over when it is due.
    #[default]
    Falaj,
    /// The device behind its port, which is handed packets ahead of time and sends them at the
    /// link's rate.
    Device {
        /// It holds so many bytes at most, as the link accounts them; at least a largest packet.
        backlog: u32,
    },
}

/// What is known of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceState {
    /// What it was handed has left by then, at the link's rate.
    until: Time,
    /// It has room for a largest packet as long as what it holds takes no longer than this.
    full: Span,
    /// Once it was full, it is asked again when what it holds takes no longer than this.
    low: Span,
    backlog: u32,
    /// What the discipline decides depends on which flows have run empty.
    concludes: bool,
    /// The port takes nothing for now.
    refuses: bool,
    /// falaj paces the link again, and begins when the device has sent what it was handed.
    yields: bool,
}

/// Whether the device may be handed a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceRoom {
    /// It may: its transmission begins then.
    From(Time),
    /// Not before this instant; [`Time::NEVER`]: not before the port says so.
    Not(Time),
}

impl DeviceState {
    pub(super) fn new(spec: &PipeSpec) -> Option<DeviceState> {
        let Pace::Device { backlog } = spec.pace else { return None };
        let full = spec.setup.rate.airtime(backlog.saturating_sub(spec.setup.largest));
        let (low, concludes) = (Span(full.0 / 2), spec.kind != fifo::MANIFEST.kind);
        Some(DeviceState {
            until: Time::ZERO,
            full,
            low,
            backlog,
            concludes,
            refuses: false,
            yields: false,
        })
    }

    /// Does the discipline mind whether a flow has run empty?
    pub(super) fn concludes(&self) -> bool {
        self.concludes
    }

    /// The instant at which the discipline is, which never goes back.
    #[inline]
    pub(super) fn clock(&self, now: Time) -> Time {
        now.max(self.until)
    }

    /// May the device be handed a packet?
    pub(super) fn room(&self, now: Time) -> DeviceRoom {
        let start = self.clock(now);
        match start - now {
            _ if self.refuses => DeviceRoom::Not(Time::NEVER),
            held if held > self.full => DeviceRoom::Not(Time(start.0 - self.low.0)),
            _ => DeviceRoom::From(start),
        }
    }

    /// It was handed a packet, whose last bit leaves then.
    pub(super) fn handed(&mut self, end: Time) {
        self.until = end;
    }

    /// When what it holds has left, if the link has another rate from `now` on. It was handed that
    /// ahead of time, and is done with it when it was to be; unless that is so far away that the
    /// link would be blocked, as after a rate that was set by mistake.
    pub(super) fn until_by_rate(&self, old: Rate, new: Rate, now: Time) -> Time {
        const LONG: Span = Span::from_millis(100);
        if self.until.since(now) <= LONG || new <= old {
            return self.until;
        }
        let work = u128::from(self.until.since(now).0) * u128::from(old.0);
        let nanos = if new.is_unlimited() { 0 } else { work.div_ceil(u128::from(new.0)) };
        now + Span(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// When half of what it may hold is left before the end of what it was handed.
    pub(super) fn low_before(&self, end: Time) -> Time {
        Time(end.0.saturating_sub(self.low.0))
    }

    /// Has it sent all that it was handed?
    pub(super) fn is_empty(&self, now: Time) -> bool {
        self.until <= now
    }

    /// When it has.
    pub(super) fn until(&self) -> Time {
        self.until
    }

    /// Its port has room for so many bytes, or for nothing. A device that has less room than by the
    /// link's rate is slower.
    pub(super) fn reports(&mut self, room: u32, now: Time, rate: Rate) {
        self.refuses = room == 0;
        if room > 0 {
            self.until = self.until.max(now + rate.airtime(self.backlog.saturating_sub(room)));
        }
    }

    /// Goes on from what was known of the device before a change; where falaj paces the link from
    /// then on, that waits for it.
    pub(super) fn migrate_from(
        new: Option<DeviceState>,
        old: Option<DeviceState>,
        now: Time,
    ) -> Option<DeviceState> {
        match (new, old) {
            (Some(new), Some(DeviceState { until, refuses, .. })) => {
                Some(DeviceState { until, refuses, ..new })
            }
            (None, Some(old)) => {
                Some(DeviceState { yields: true, ..old }).filter(|old| !old.is_empty(now))
            }
            (new, None) => new,
        }
    }

    /// Does it wait for the end of what was handed over, so that falaj may pace the link?
    pub(super) fn yields(&self) -> bool {
        self.yields
    }
}
