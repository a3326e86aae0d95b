//! A link that its device paces: packets are handed to the device ahead of time, a few at once.
//!
//! The device sends its packets at the link's rate, one after the other, so their end is a known
//! instant. As soon as the device has room, which is before that instant, the discipline decides
//! for that instant. To the discipline, a transmission begins where the previous transmission ends,
//! and it never decides for an earlier time. Packets that arrive meanwhile reach the discipline at
//! that instant, since they could not be sent earlier. This is the only difference from a link that
//! falaj paces. Because of this difference, a packet can be later by at most the time in which the
//! device sends `backlog` bytes, and the guaranteed delay is longer by that time.
//!
//! If the discipline lets no packet go before a later instant, none is handed over before that
//! instant, because the device would send it at once. So unused phases stay unused.
//!
//! The pipe does not conclude ahead of time that a flow has run empty. The last packet of a flow is
//! in its queue until the device has sent it, and the next decision is made then, or when the flow
//! gets another packet. Otherwise a flow whose packets keep coming would seem to run empty whenever
//! the device takes all its queued packets. It would lose its turn, and a part of its guaranteed
//! rate, because its queue is shorter than the backlog of the device.
//!
//! Packets that the device has been handed keep their end, even if the rate changes. If that end is
//! more than 100 ms away and the new rate is higher, their end follows from the new rate, and the
//! discipline begins afresh, because it has decided for times that have not come yet.
//!
//! A device without room for a largest packet is offered no packet until half of its room is free,
//! so that the driver wakes up once for many packets. A port that refuses a packet is offered no
//! other until it has room, so no packet is chosen before it can be sent.

use super::spec::PipeSpec;
use falaj_sched::disciplines::fifo;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

/// The pacing of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// falaj paces the link: a packet is delivered when it is due.
    #[default]
    Falaj,
    /// The device behind the port paces the link: falaj hands packets to it ahead of time, and it
    /// sends them at the link's rate.
    Device {
        /// The largest number of bytes that it holds, as the link accounts them; at least a largest
        /// packet.
        backlog: u32,
    },
}

/// State of the device, as the pipe knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceState {
    /// The end of the packets that it was handed, at the link's rate.
    until: Time,
    /// Longest backlog, as a time at the link's rate, with which a largest packet still fits.
    full: Span,
    /// Longest backlog with which a device that was full is offered packets again.
    low: Span,
    backlog: u32,
    /// True if decisions of the discipline depend on which flows have run empty.
    concludes: bool,
    /// True while the port refuses packets.
    refuses: bool,
    /// True if falaj paces the link again, from the time at which the device has sent its packets.
    yields: bool,
}

/// The device's readiness for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceRoom {
    /// It has room; the packet's transmission begins then.
    From(Time),
    /// It has no room before this instant; [`Time::NEVER`]: not before the port reports room.
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

    /// Returns true if the discipline depends on which flows have run empty.
    pub(super) fn concludes(&self) -> bool {
        self.concludes
    }

    /// The current instant of the discipline, which never goes back.
    #[inline]
    pub(super) fn clock(&self, now: Time) -> Time {
        now.max(self.until)
    }

    /// Checks if the device may be handed a packet.
    pub(super) fn room(&self, now: Time) -> DeviceRoom {
        let start = self.clock(now);
        match start - now {
            _ if self.refuses => DeviceRoom::Not(Time::NEVER),
            held if held > self.full => DeviceRoom::Not(Time(start.0 - self.low.0)),
            _ => DeviceRoom::From(start),
        }
    }

    /// Records that the device was handed a packet whose last bit leaves at `end`.
    pub(super) fn handed(&mut self, end: Time) {
        self.until = end;
    }

    /// The end of the packets that it was handed, if the link has another rate from `now` on. They
    /// keep their end, unless that is so far away that the link would be blocked, as after a rate
    /// that was set by mistake.
    pub(super) fn until_by_rate(&self, old: Rate, new: Rate, now: Time) -> Time {
        const LONG: Span = Span::from_millis(100);
        if self.until.since(now) <= LONG || new <= old {
            return self.until;
        }
        let work = u128::from(self.until.since(now).0) * u128::from(old.0);
        let nanos = if new.is_unlimited() { 0 } else { work.div_ceil(u128::from(new.0)) };
        now + Span(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The instant before `end` at which half of the device's room is still filled.
    pub(super) fn low_before(&self, end: Time) -> Time {
        Time(end.0.saturating_sub(self.low.0))
    }

    /// Returns true if it has sent all packets that it was handed.
    pub(super) fn is_empty(&self, now: Time) -> bool {
        self.until <= now
    }

    /// The instant at which it has sent all its packets.
    pub(super) fn until(&self) -> Time {
        self.until
    }

    /// Its port reports room for `room` bytes, or for none. A device that has less room than the
    /// link's rate implies is slower than that rate.
    pub(super) fn reports(&mut self, room: u32, now: Time, rate: Rate) {
        self.refuses = room == 0;
        if room > 0 {
            self.until = self.until.max(now + rate.airtime(self.backlog.saturating_sub(room)));
        }
    }

    /// Takes over the state of the device at a change; if falaj paces the link from then on, it
    /// waits for the device to be done.
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

    /// Returns true if falaj is to pace the link once the device has sent its packets.
    pub(super) fn yields(&self) -> bool {
        self.yields
    }
}
