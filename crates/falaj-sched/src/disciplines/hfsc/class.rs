//! A class: its configured curves, and its position on each curve.

use crate::contract::params::{ConfigError, FlowSetup};
use crate::contract::transmission::Sent;
use crate::mechanisms::bucket::begun;
use crate::mechanisms::curve::{Curve, LONGEST};
use crate::mechanisms::weights::{Instant, instant};
use crate::units::rate::Rate;
use crate::units::time::{Span, Time};
use alloc::format;

/// Virtual times have units of 2^-40 ns; keys are virtual times without the last 20 bits.
const KEY: u32 = 20;
/// A virtual time is at most an hour ahead of its node's, so that keys can be compared although
/// they wrap around.
const FAR: Instant = instant(Time(3_600_000_000_000));

/// A curve of two pieces: the first slope, the time for which it holds, and the second slope.
pub(super) type Pieces = (Rate, Span, Rate);

/// Reads a curve of a flow from its parameters.
pub(super) fn curve(
    flow: usize,
    f: &FlowSetup,
    [rate, first, time]: [&'static str; 3],
) -> Result<Option<Pieces>, ConfigError> {
    let refused = |param, what: &str, help: &str| {
        Err(ConfigError { flow: Some(flow), param, what: what.into(), help: help.into() })
    };
    let (second, slope, lasts) = (f.values.rate(rate), f.values.rate(first), f.values.span(time));
    for (param, value) in [(rate, second), (first, slope)] {
        if value == Some(Rate(0)) {
            return refused(
                param,
                "a slope of 0 never ends",
                "any rate above 0; leave the curve out for none",
            );
        }
    }
    if lasts.is_some_and(|lasts| lasts > LONGEST) {
        return refused(
            time,
            "it lasts too long",
            "at most 3600s: it is for a burst at the start of a backlog",
        );
    }
    // A first piece of zero length is ignored.
    let lasts = lasts.filter(|&lasts| lasts > Span::ZERO);
    let Some(second) = second else {
        let given = if slope.is_some() {
            Some(first)
        } else {
            lasts.filter(|l| *l > Span::ZERO).map(|_| time)
        };
        return match given {
            Some(param) => {
                let help = format!("give it a `{rate}` too: the slope after the first one");
                refused(param, "it is the first piece of a curve that has no second", &help)
            }
            None => Ok(None),
        };
    };
    Ok(Some((slope.unwrap_or(second), lasts.unwrap_or(Span::ZERO), second)))
}

/// The curves of a class. Each curve occupies a cache line.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Class {
    pub(super) real_time: Option<Curve>,
    pub(super) sharing: Curve,
    pub(super) limit: Option<Curve>,
}

/// The clocks of the two lines that form a curve.
pub(super) type Clocks = [Instant; 2];

/// State of a class for link-sharing, and the orders in which it is entered.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared {
    pub(super) sharing: Clocks,
    pub(super) place: Place,
    /// True if the clocks for link-sharing have advanced since the class was entered in its node's
    /// order.
    pub(super) moved: bool,
    /// For a leaf: the calendar in which it is entered for its real-time curve.
    pub(super) timed: Timed,
    /// True if the leaf's clocks for the real-time curve, or its head, have changed since that
    /// entry.
    pub(super) moved_on: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Timed {
    #[default]
    Nowhere,
    Held,
    Eligible,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Place {
    #[default]
    Nowhere,
    Sharing,
    Limited,
}

impl Class {
    /// Time from which the class is below its upper limit. `clocks` is called only if there is a
    /// limit.
    #[inline]
    pub(super) fn limit(&self, clocks: impl FnOnce() -> Clocks) -> Time {
        self.limit.as_ref().map_or(Time::ZERO, |curve| begun(curve.deadline(clocks())))
    }

    #[inline]
    pub(super) fn key(&self, shared: &Shared) -> u64 {
        (self.sharing.deadline(shared.sharing) >> KEY) as u64
    }

    /// Charges a packet. If it was sent `by_sharing`, `now` is the virtual time of the node that
    /// chose the class; otherwise it was sent for a real-time curve.
    #[inline]
    pub(super) fn send(
        &self,
        shared: &mut Shared,
        now: &mut Instant,
        by_sharing: bool,
        sent: Sent,
    ) {
        if by_sharing {
            // A class does not accumulate the service that its limit withheld.
            shared.sharing = self.sharing.not_before(shared.sharing, [*now; 2]);
            *now = (*now).max(self.sharing.deadline(shared.sharing));
        }
        shared.sharing =
            self.sharing.after(shared.sharing, sent.bytes).map(|clock| clock.min(*now + FAR));
        shared.moved = true;
    }

    /// Charges a packet to its limit.
    #[inline]
    pub(super) fn use_limit(&self, clocks: &mut [Clocks], class: u32, largest: u32, sent: Sent) {
        if let Some(curve) = &self.limit {
            // A class that could not use its limit because of other classes catches up by at most
            // one packet.
            let packet = curve.after([0; 2], largest);
            let least = packet.map(|packet| instant(sent.start).saturating_sub(packet));
            let clocks = &mut clocks[class as usize];
            *clocks = curve.after(curve.not_before(*clocks, least), sent.bytes);
        }
    }

    /// The state of this class, taken over from the state `shared` of the class `old`; `node` is
    /// the virtual time of its node.
    pub(super) fn inherit(&self, old: &Class, shared: &Shared, node: Instant) -> Shared {
        Shared {
            sharing: self
                .sharing
                .inherit(&old.sharing, shared.sharing, node)
                .map(|clock| clock.min(node + FAR)),
            ..Shared::default()
        }
    }
}

/// The clocks of a curve after a change. A curve that did not exist before begins now.
pub(super) fn clocks(
    was: &Option<Curve>,
    is: &Option<Curve>,
    clocks: Clocks,
    now: Instant,
) -> Clocks {
    match (was, is) {
        (Some(was), Some(is)) => is.inherit(was, clocks, now),
        _ => [now; 2],
    }
}
