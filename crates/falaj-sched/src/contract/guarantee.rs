//! The guarantees that a discipline gives to a flow: formula, source and condition.

use crate::contract::discipline::Discipline;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Setup};
use crate::queues::queue::{FlowId, Limit};
use crate::units::rate::Rate;
use crate::units::time::Span;
use alloc::format;
use alloc::vec::Vec;

/// The flows whose guarantees break if packets are dropped after they were queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropImpact {
    /// No flow's.
    Nobody,
    /// The guarantee of the packets' own flow.
    Own,
    /// The guarantees of all flows.
    All,
}

/// The guarantees of a discipline to each flow, and their conditions. Plans and trees of
/// disciplines query them.
pub trait Guarantees: Discipline {
    /// The guarantee of flow `f` of the scenario.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee>;

    /// The curve of flow `f` for service in turns, if it is known. Delay bounds of flows that
    /// conform to an envelope may be smaller with it.
    fn turns(&self, f: FlowId) -> Option<StaircaseCurve> {
        let _ = f;
        None
    }

    /// Limits on the visits of flow `f`, if flows share the link by visits. Bounds from the
    /// envelopes of some of its rivals follow.
    fn visits(&self, f: FlowId) -> Option<VisitLimits> {
        let _ = f;
        None
    }

    /// The flows whose packets may leave before those of `f`: all of them in any order, unless
    /// overridden. Bounds from the envelopes of these flows follow.
    fn precedence(&self, f: FlowId) -> Precedence {
        let _ = f;
        Precedence::default()
    }

    /// The curve that defines the deadlines of packets of `f`, if it guarantees more than a rate
    /// and a latency, or if only flows that conform to an envelope have guarantees.
    fn deadlines(&self, f: FlowId) -> Option<Deadlines> {
        let _ = f;
        None
    }

    /// The phase of flow `f`, if the flows take turns in phases in which no other flow sends. Mean
    /// delays follow.
    fn phase(&self, f: FlowId) -> Option<RingPhase> {
        let _ = f;
        None
    }

    /// The condition, beside a backlog, for the rate that [`service`](Guarantees::service)
    /// guarantees.
    fn rate_condition(&self) -> Option<RateCondition> {
        None
    }

    /// The flows whose guarantee breaks if queue management drops packets that were already queued.
    fn harm_of_drops(&self) -> DropImpact {
        // A discipline that sees arrivals has counted the packets that are dropped later.
        if self.only_over_queues() { DropImpact::Own } else { DropImpact::Nobody }
    }

    /// Largest difference between the delays of two packets of `f`, counted from their first
    /// arrival at a chain of such links.
    fn jitter(&self, f: FlowId) -> Option<Bound> {
        let _ = f;
        None
    }

    /// Returns true if the rate that [`service`](Guarantees::service) guarantees holds over any
    /// interval in which the flow is backlogged, not only from the start of the backlog on. Only
    /// such a flow is a server that can give guarantees in turn (a strict service curve).
    fn serves_strictly(&self) -> bool {
        false
    }

    /// Additional delay beyond a [guarantee](Guarantees::service) after a change, until the link
    /// has been idle.
    fn settling(&self) -> Settling {
        Settling::Unknown
    }

    /// Returns true if its flows must be queues, and may not be divided by other disciplines. That
    /// is so if it [sees arrivals](Discipline::SEES_ARRIVALS), which are not visible above a
    /// division.
    fn only_over_queues(&self) -> bool {
        Self::SEES_ARRIVALS
    }

    /// The reason why it can divide a link only, and not a flow of another discipline; `None` for
    /// most.
    fn only_on_a_link(&self) -> Option<&'static str> {
        None
    }

    /// The guarantee of flow `f` if this discipline serves a flow of another discipline instead of
    /// a link. The guarantee `server` of that flow [holds over any interval of
    /// backlog](Guarantees::serves_strictly); this discipline was built for its rate.
    fn service_behind(&self, f: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee> {
        let _ = (f, server);
        Err(NoGuarantee("no bound is known for this discipline below another".into()))
    }
}

/// A guarantee to one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantee {
    /// A flow that stays backlogged gets at least this rate after `latency`, counted in packets
    /// whose last bit has left; under some disciplines on a [further
    /// condition](crate::contract::guarantee::Guarantees::rate_condition).
    pub rate: Rate,
    /// The latency of the rate-latency service curve.
    pub latency: Span,
    /// Formula and source of the rate.
    pub rate_formula: &'static str,
    /// Bound on the time of a packet from its last bit in to its last bit out, if it is queued.
    pub delay: Bound,
    /// Further bounds: tighter ones under a condition, or looser and older ones.
    pub others: Vec<Bound>,
}

impl Guarantee {
    /// This guarantee with the latency and all delays longer by `by`, as on a device-paced
    /// link, where a packet waits behind those that the device already holds.
    #[must_use]
    pub fn later(self, by: Span) -> Guarantee {
        let later = |bound: Bound| Bound { delay: bound.delay + by, ..bound };
        let others = self.others.into_iter().map(later).collect();
        Guarantee { latency: self.latency + by, delay: later(self.delay), others, ..self }
    }

    /// The guarantee of a discipline whose bounds count only the work that a server of constant
    /// rate does before a packet has left. Behind a server that does the same work with `latency`
    /// added, in any interval, all of it is that much later (Le Boudec and Thiran 2001, theorem
    /// 1.4.2 for a rate-latency server).
    pub(crate) fn after(self, latency: Span) -> Guarantee {
        let later = |bound: Bound| Bound { delay: bound.delay + latency, ..bound };
        let condition = "packets that found room; C is the rate guaranteed above, and the latency \
                         there is added";
        Guarantee {
            latency: self.latency + latency,
            delay: Bound { condition, ..later(self.delay) },
            others: self.others.into_iter().map(later).collect(),
            ..self
        }
    }
}

/// A service curve of a flow that is served in turns, more precise than a rate and a latency.
/// Counted from the beginning of any backlog, the packet that ends with the `n`-th byte of the flow
/// has left when this curve reaches `n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaircaseCurve {
    /// Rate of service within a turn.
    pub rate: Rate,
    /// Time until the first turn begins.
    pub latency: Span,
    /// The first turns, each with the number of its repetitions.
    pub first: Vec<(u64, StairTurn)>,
    /// The turns that follow, in order and then again from the beginning; not empty.
    pub cycle: Vec<StairTurn>,
}

/// A turn of a flow, and the pause after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StairTurn {
    /// Bytes that the flow sends in the turn.
    pub bytes: u64,
    /// Bytes that other flows send at the link's rate until the next turn.
    pub others: u64,
    /// Additional time until the next turn.
    pub idle: Span,
}

/// Limits on the visits of a flow. From the beginning of a backlog on, its first `S` bytes need at
/// most `m = ceil(S / quantum)` visits, and until the last of them has left, any other flow `j`
/// sends at most `m quantum_j + carried_j` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitLimits {
    /// Bytes that each visit adds, not zero.
    pub quantum: u64,
    /// Bound on the bytes that the flow has carried over from earlier visits.
    pub carried: u64,
}

/// The phase of a flow in a ring of phases, which follow one another in the order of the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPhase {
    /// The longest time of the phase. A packet is sent in it if it fits in the rest.
    pub length: Span,
    /// True if the phase goes on while the flow has no packet; false if it ends then.
    pub stays_empty: bool,
    /// True if the phase ends when the next packet does not fit in the rest.
    pub skips_tail: bool,
}

/// The place of a flow among the flows of a work-conserving link. While the flow has packets, any
/// packet of a flow whose rank is the same or lower may be served before them. Flows of higher
/// ranks together send no more than `once` bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precedence {
    /// Rank 0 is served first.
    pub rank: u32,
    /// Bytes that flows of higher ranks still send after the link began to serve this rank.
    pub once: u64,
    /// The flow has this rank while it keeps to this limit, and the discipline lets no packet
    /// beyond it pass at this rank; `None`: in any case.
    pub contract: Option<ArrivalWindow>,
}

/// A limit on arrivals: at most `bytes` in any window `(t - length, t]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalWindow {
    /// The most bytes that a window holds.
    pub bytes: u64,
    /// The length of a window, not zero.
    pub length: Span,
}

/// The condition, beside a backlog, for a guaranteed rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateCondition {
    /// The rate counts from an instant at which the flow owes nothing: a flow that became empty may
    /// have been served a packet before its time.
    OwesNothing,
    /// As before, and more than two of the largest packets are queued all the time. It applies to
    /// disciplines that stamp packets at their arrival and send them at most `L/C` after their
    /// stamps: then the next packet arrives before the stamps have run out (own derivation). With
    /// fewer packets it may arrive later, and the flow loses the service that it did not use until
    /// then.
    Queued,
}

impl RateCondition {
    /// The condition in words.
    pub fn words(self) -> &'static str {
        match self {
            RateCondition::OwesNothing => "once it owes nothing",
            RateCondition::Queued => {
                "once it owes nothing, as long as more than 2 L of it are queued"
            }
        }
    }
}

/// Delay of packets beyond their guarantee after a change of shares, rates or flows, until the link
/// has been idle; in addition to the packet on the wire at the change. Each value was derived and
/// attacked (`docs/decisions/0008-change-by-succession.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settling {
    /// Unknown: until the link has been idle nothing is guaranteed.
    Unknown,
    /// The time of this number of the largest packets at the flow's own rate: `n L/r`.
    OwnPackets(u32),
    /// The time of a largest packet of each flow on the link: `N L/C`.
    PacketOfEach,
}

impl Settling {
    /// The additional time, for a flow with this guarantee on a link with this setup.
    pub fn time(self, setup: &Setup, guarantee: &Guarantee) -> Option<Span> {
        let largest = u64::from(setup.largest);
        match self {
            Settling::Unknown => None,
            Settling::OwnPackets(0) => Some(Span::ZERO),
            Settling::OwnPackets(n) => (guarantee.rate.0 > 0)
                .then(|| guarantee.rate.airtime_of_many(u64::from(n) * largest)),
            Settling::PacketOfEach => {
                Some(setup.rate.airtime_of_many(setup.leaves().len() as u64 * largest))
            }
        }
    }
}

/// A curve of two pieces that defines deadlines. Take the curve from some instant before the packet
/// arrived: the packet has left at most `late` after the curve reaches all bytes that its flow has
/// sent since, the packet included. So a flow that conforms to an envelope waits at most the
/// horizontal distance from the envelope to the curve, plus `late`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Slope of the first piece.
    pub first: Rate,
    /// Length of the first piece.
    pub time: Span,
    /// Slope of the second piece.
    pub rate: Rate,
    /// The longest time by which a packet leaves after its deadline.
    pub late: Span,
}

impl Deadlines {
    /// Packets leave at most `late` after the deadlines of this curve. If the curve begins slowly,
    /// only its second line is used: its deadlines are later by the distance that it is behind.
    pub(crate) fn new((first, time, rate): (Rate, Span, Rate), late: Span) -> Deadlines {
        match first > rate && time > Span::ZERO {
            true => Deadlines { first, time, rate, late },
            false => Deadlines {
                first: rate,
                time: Span::ZERO,
                rate,
                late: late + behind(first, time, rate),
            },
        }
    }
}

/// Distance by which a curve that begins slowly is behind a line of its second slope.
pub(crate) fn behind(first: Rate, time: Span, rate: Rate) -> Span {
    let missing = u128::from(rate.0.saturating_sub(first.0)) * u128::from(time.0);
    Span(u64::try_from(missing.div_ceil(rate.0.into())).unwrap_or(u64::MAX))
}

/// A bound on a packet's delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Largest delay; never exceeded.
    pub delay: Span,
    /// The formula, named as in its source.
    pub formula: &'static str,
    /// The condition under which it holds.
    pub condition: &'static str,
}

/// The largest number of bytes in a queue with this limit.
pub(crate) fn full_queue(setup: &Setup, limit: Limit) -> u64 {
    match limit {
        Limit::Packets(n) => u64::from(setup.largest) * u64::from(n),
        Limit::Bytes(n) => n,
    }
}

/// Refuses a link without a rate: `what` needs one to divide.
pub(crate) fn finite_rate(setup: &Setup, what: &'static str) -> Result<(), ConfigError> {
    if setup.rate.is_unlimited() {
        return Err(ConfigError {
            flow: None,
            param: "rate",
            what: format!("{what} divides the time of a link, and an unlimited link takes none"),
            help: "give the link a `rate`, or choose `fifo`".into(),
        });
    }
    Ok(())
}

/// Refuses flows' queues that have no room for a packet of the largest size.
pub(crate) fn without_room(setup: &Setup) -> Vec<ConfigError> {
    let flows = setup.flows.iter().enumerate();
    flows.filter_map(|(flow, f)| admits_one(setup, f.limit, Some(flow)).err()).collect()
}

/// Checks that each flow's queue has room for a packet of the largest size; for a discipline
/// without other checks.
pub(crate) fn room_for_one(setup: &Setup) -> Result<(), ConfigErrors> {
    ConfigErrors::of(without_room(setup))
}

/// Checks that one limit, of `flow` or of the scheduler, admits a packet of the largest size.
pub(crate) fn admits_one(
    setup: &Setup,
    limit: Limit,
    flow: Option<usize>,
) -> Result<(), ConfigError> {
    let enough = match limit {
        Limit::Packets(n) => n > 0,
        Limit::Bytes(n) => n >= u64::from(setup.largest),
    };
    if enough {
        return Ok(());
    }
    Err(ConfigError {
        flow,
        param: "queue",
        what: format!("a queue of {limit} never admits a packet of {} B", setup.largest),
        help: format!("at least `1p` or `{}B`", setup.largest),
    })
}
