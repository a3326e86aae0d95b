//! What a discipline guarantees to a flow: by which formula, from where, and
//! under which condition.

use crate::params::{Refusals, Refused, Setup};
use crate::queue::Limit;
use crate::rate::Rate;
use crate::time::Span;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A guarantee to one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// A flow that stays backlogged gets at least this rate once `latency` has
    /// passed, counted in packets whose last bit has left.
    pub rate: Rate,
    /// The latency of the rate-latency service curve.
    pub latency: Span,
    /// Formula and source of the rate.
    pub rate_formula: &'static str,
    /// No packet that gets in stays longer, from its last bit in to its last
    /// bit out.
    pub delay: Bound,
    /// Further bounds, tighter under a condition or looser and older.
    pub others: Vec<Bound>,
}

impl Promise {
    /// What a discipline promises whose bounds count only the work that a server
    /// of constant rate does before a packet has left: behind a server that
    /// does as much with `latency` added, in any interval, all of it comes that
    /// much later (Le Boudec and Thiran 2001, theorem 1.4.2 for a rate-latency server).
    pub(crate) fn after(self, latency: Span) -> Promise {
        let later = |bound: Bound| Bound { delay: bound.delay + latency, ..bound };
        let condition = "packets that found room; C is the rate promised above, and the latency there is added";
        Promise {
            latency: self.latency + latency,
            delay: Bound { condition, ..later(self.delay) },
            others: self.others.into_iter().map(later).collect(),
            ..self
        }
    }
}

/// How a flow is served in turns: a finer service curve than a rate and a latency, which it
/// touches once a turn. Counted like that one, in any time in which the flow stays backlogged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// How fast it is served within a turn.
    pub rate: Rate,
    /// Nothing until then.
    pub latency: Span,
    /// Bytes of the first turn.
    pub first: u64,
    /// Bytes of each later one.
    pub turn: u64,
    /// Bytes that others send between two turns.
    pub between: u64,
}

/// A bound on a packet's delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Never exceeded.
    pub delay: Span,
    /// The formula, named as in its source.
    pub formula: &'static str,
    /// What must hold for it.
    pub condition: &'static str,
}

/// Why there is no guarantee, and what would bring one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPromise(pub String);

/// The most bytes that a queue with this limit holds.
pub(crate) fn full_queue(setup: &Setup, limit: Limit) -> u64 {
    match limit {
        Limit::Packets(n) => u64::from(setup.largest) * u64::from(n),
        Limit::Bytes(n) => n,
    }
}

/// Refuses a link without a rate: `what` needs one to divide.
pub(crate) fn finite_rate(setup: &Setup, what: &'static str) -> Result<(), Refused> {
    if setup.rate.is_unlimited() {
        return Err(Refused {
            flow: None,
            param: "rate",
            what: format!("{what} divides the time of a link, and an unlimited link takes none"),
            help: "give the link a `rate`, or choose `fifo`".into(),
        });
    }
    Ok(())
}

/// Refuses the flows' queues in which not even one packet of the largest size fits.
pub(crate) fn without_room(setup: &Setup) -> Vec<Refused> {
    let flows = setup.flows.iter().enumerate();
    flows.filter_map(|(flow, f)| admits_one(setup, f.limit, Some(flow)).err()).collect()
}

/// The same, for who looks at nothing else.
pub(crate) fn room_for_one(setup: &Setup) -> Result<(), Refusals> {
    Refusals::of(without_room(setup))
}

/// The same for one limit, of `flow` or of the scheduler.
pub(crate) fn admits_one(setup: &Setup, limit: Limit, flow: Option<usize>) -> Result<(), Refused> {
    let enough = match limit {
        Limit::Packets(n) => n > 0,
        Limit::Bytes(n) => n >= u64::from(setup.largest),
    };
    if enough {
        return Ok(());
    }
    Err(Refused {
        flow,
        param: "queue",
        what: format!("a queue of {limit} never admits a packet of {} B", setup.largest),
        help: format!("at least `1p` or `{}B`", setup.largest),
    })
}
