//! The guarantees that a discipline gives to a flow, with formulas, sources and conditions.

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
    /// No flow's guarantee breaks.
    NoFlow,
    /// Only the guarantee of the packets' own flow breaks.
    Own,
    /// The guarantees of all flows break.
    All,
}

/// The guarantees of a discipline to each flow, and their conditions. Plans and trees of
/// disciplines query them.
pub trait Guarantees: Discipline {
    /// The guarantee of flow `f` of the scenario.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee>;

    /// The service curve of flow `f` as a staircase of turns, if it is known. With it, delay bounds
    /// of flows that conform to an envelope may be smaller.
    fn turns(&self, f: FlowId) -> Option<StaircaseCurve> {
        let _ = f;
        None
    }

    /// Limits on the service of other flows while `f` is backlogged, if flows share the link by
    /// visits (the turns of a round robin) or in proportion to weights. The limits of all flows are
    /// of the same kind. From them and the envelopes of some flows, bounds can be computed.
    fn limits(&self, f: FlowId) -> Option<ServiceLimits> {
        let _ = f;
        None
    }

    /// The rank that decides which flows' packets may leave before those of `f`. By default all
    /// flows have the same rank. From this and the envelopes of these flows, bounds can be
    /// computed.
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

    /// The phase of flow `f`, if the flows take turns in phases in which no other flow sends. From
    /// it, mean delays can be computed.
    fn phase(&self, f: FlowId) -> Option<RingPhase> {
        let _ = f;
        None
    }

    /// The condition, in addition to a backlog, for the rate that [`service`](Guarantees::service)
    /// guarantees.
    fn rate_condition(&self) -> Option<RateCondition> {
        None
    }

    /// The flows whose guarantees break if queue management drops packets that were already queued.
    fn harm_of_drops(&self) -> DropImpact {
        // A discipline that sees arrivals has already counted the packets that are dropped later.
        if self.only_over_queues() { DropImpact::Own } else { DropImpact::NoFlow }
    }

    /// Bound on the difference between the delays of two packets of `f`, if they pass a chain of
    /// links with this discipline; delays count from the arrival at the first link.
    fn jitter(&self, f: FlowId) -> Option<Bound> {
        let _ = f;
        None
    }

    /// Returns true if the rate that [`service`](Guarantees::service) guarantees holds over any
    /// interval in which the flow is backlogged, not only from the start of the backlog on (a
    /// strict service curve). Only a flow with such a guarantee can be divided into flows with
    /// guarantees of their own.
    fn serves_strictly(&self) -> bool {
        false
    }

    /// Additional delay beyond a [guarantee](Guarantees::service) after a change, until the link
    /// has been idle.
    fn settling(&self) -> Settling {
        Settling::Unknown
    }

    /// Returns true if no other discipline may divide the flows. That is so if this discipline
    /// [sees arrivals](Discipline::SEES_ARRIVALS), which are not visible if a flow is divided.
    fn only_over_queues(&self) -> bool {
        Self::SEES_ARRIVALS
    }

    /// The reason why the discipline can only divide a link, and not a flow of another discipline;
    /// `None` if it can divide both, as most disciplines can.
    fn only_on_a_link(&self) -> Option<&'static str> {
        None
    }

    /// The guarantee of flow `f` if this discipline divides a flow of another discipline instead of
    /// a link. `server` is the guarantee of that divided flow; it [holds over any interval of
    /// backlog](Guarantees::serves_strictly), and this discipline was built for its rate.
    fn service_behind(&self, f: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee> {
        let _ = (f, server);
        Err(NoGuarantee("no bound is known for this discipline below another".into()))
    }
}

/// A guarantee to one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantee {
    /// A flow that stays backlogged gets at least this rate after `latency`. Only packets whose
    /// last bit has left count. Some disciplines have a [further
    /// condition](crate::contract::guarantee::Guarantees::rate_condition).
    pub rate: Rate,
    /// The latency of the service curve, which is a rate after a latency.
    pub latency: Span,
    /// Formula and source of the rate.
    pub rate_formula: &'static str,
    /// Bound on the time of a packet from its last bit in to its last bit out, if it is queued.
    pub delay: Bound,
    /// Further bounds, which are tighter under a condition, or looser and from older sources.
    pub others: Vec<Bound>,
}

impl Guarantee {
    /// This guarantee with the latency and all delays longer by `by`, as on a device-paced link:
    /// there a packet waits behind the packets that the device already holds.
    #[must_use]
    pub fn later(self, by: Span) -> Guarantee {
        let later = |bound: Bound| Bound { delay: bound.delay + by, ..bound };
        let others = self.others.into_iter().map(later).collect();
        Guarantee { latency: self.latency + by, delay: later(self.delay), others, ..self }
    }

    /// This guarantee with `latency` added to all delays, for a discipline that divides a flow. The
    /// discipline's bounds must count only the work that a server of constant rate does before a
    /// packet has left. If the server does the same work in any interval with the additional
    /// latency, all of the work is later by that latency (Le Boudec and Thiran 2001, theorem 1.4.2
    /// for a rate-latency server).
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

/// A service curve of a flow that is served in turns, which is more precise than a rate and a
/// latency. Time and bytes count from the beginning of any backlog: the packet that ends with the
/// flow's `n`-th byte has left when the curve reaches `n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaircaseCurve {
    /// Rate of service within a turn.
    pub rate: Rate,
    /// Time until the first turn begins.
    pub latency: Span,
    /// The first turns, each with the number of times that it occurs.
    pub first: Vec<(u64, StairTurn)>,
    /// The turns after the first ones. They repeat in this order without end; not empty.
    pub cycle: Vec<StairTurn>,
}

/// A turn of a flow, and the pause after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StairTurn {
    /// Bytes that the flow sends in the turn.
    pub bytes: u64,
    /// Bytes that other flows send at the link's rate before the flow's next turn.
    pub others: u64,
    /// Additional time until the next turn.
    pub idle: Span,
}

/// Limits on the service of a flow relative to that of another flow, which is backlogged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceLimits {
    /// Flows share the link by visits, the turns of a round robin.
    Visits(VisitLimits),
    /// Flows share the link in proportion to weights.
    Proportion(ProportionalLimits),
}

/// Limits on the visits of a flow, its turns in a round robin. From the beginning of a backlog on,
/// the flow's first `S` bytes need at most `m = ceil(S / quantum)` visits. Until the last of these
/// bytes has left, any other flow `j` sends at most `m quantum_j + carried_j` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitLimits {
    /// Bytes that each visit adds; above zero.
    pub quantum: u64,
    /// Bound on the bytes that the flow carries over from earlier visits.
    pub carried: u64,
}

/// Limits on the service of flows that share the link in proportion to weights `w`. From the
/// beginning of a backlog of flow `i` on, until the flow's first `S` bytes have left, any other
/// flow `j` sends at most `(S + ahead_i) w_j/d_i + extra_j` bytes, where `d` is `divisor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProportionalLimits {
    /// The flow's weight, in a unit that all flows share; above zero.
    pub weight: u64,
    /// The flow's weight, or slightly less if weights are rounded; above zero.
    pub divisor: u64,
    /// Bound on the bytes of the flow that were sent before their time, before the backlog began.
    pub ahead: u64,
    /// Bound on the bytes that the flow may send in addition to its share; zero for a fluid server.
    pub extra: u64,
    /// Bytes of the flow's largest packet; zero for a fluid server.
    pub packet: u64,
    /// True if backlogs, bytes and limits are those of a work-conserving fluid server, which the
    /// packets follow.
    pub fluid: bool,
    /// The longest time by which a packet leaves later than by these limits, or than the fluid
    /// server finishes it.
    pub late: Span,
}

/// The phase of a flow in a ring of phases, which follow one another in the order of the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPhase {
    /// The longest time of the phase. A packet is sent in the phase if it fits in the rest of it.
    pub length: Span,
    /// True if the phase continues while the flow has no packet; false if it then ends.
    pub stays_empty: bool,
    /// True if the phase ends when the next packet does not fit in the rest.
    pub skips_tail: bool,
}

/// The rank of a flow among the flows of a work-conserving link. While the flow has packets, any
/// packet of a flow with the same or a lower rank number may be served before them. Flows with
/// higher rank numbers together send at most `once` bytes before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precedence {
    /// Rank 0 is served first.
    pub rank: u32,
    /// Maximum number of bytes that flows with higher rank numbers together still send before the
    /// flow's packets.
    pub once: u64,
    /// The flow has this rank only while it keeps to this limit, and the discipline serves no
    /// packet beyond the limit at this rank; `None` if the flow always has this rank.
    pub contract: Option<ArrivalWindow>,
    /// Time from a packet's arrival to its deadline; packets are served in the order of their
    /// deadlines. `None` if they have no deadlines.
    pub deadline: Option<Span>,
}

/// A limit on arrivals: at most `bytes` arrive in any window `(t - length, t]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalWindow {
    /// The most bytes that a window holds.
    pub bytes: u64,
    /// The length of a window; above zero.
    pub length: Span,
}

/// The condition, in addition to a backlog, for a guaranteed rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateCondition {
    /// The rate counts from an instant at which the flow has no service in advance. A flow that has
    /// become empty may have some, because one of its packets was sent before its time.
    OwesNothing,
    /// The flow has no service in advance, and at all times its queue has more bytes than two
    /// largest packets. The condition applies to disciplines that assign a time stamp to each
    /// packet at its arrival, and send the packet at most `L/C` after its stamp; `L` is the largest
    /// packet, `C` the link's rate. Under the condition, the next packet arrives before the latest
    /// stamp is reached (own derivation). If fewer bytes are queued, the next packet may arrive
    /// after that, and the flow loses the service that it did not use in the meantime.
    Queued,
}

impl RateCondition {
    /// The condition in words.
    pub fn words(self) -> &'static str {
        match self {
            RateCondition::OwesNothing => "once it has no service in advance",
            RateCondition::Queued => {
                "once it has no service in advance, as long as more than 2 L of it are queued"
            }
        }
    }
}

/// Delay of packets beyond their guarantee after a change of weights, rates or flows, until the
/// link has been idle. The transmission time of the packet on the wire at the change adds to this
/// delay. Each value was derived and tested (`docs/decisions/0008-change-by-succession.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settling {
    /// The delay is unknown: until the link has been idle, nothing is guaranteed.
    Unknown,
    /// The time of `n` largest packets of length `L` at the flow's guaranteed rate `r`: `n L/r`.
    OwnPackets(u32),
    /// The time of a largest packet of each of the `N` flows at the link's rate `C`: `N L/C`.
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

/// A curve of two pieces that defines deadlines. For each packet there is an instant, not after its
/// arrival, at which the curve begins. The packet's bytes and those that arrived in its flow
/// between that instant and the packet are counted. The packet has left at most `late` after the
/// curve reaches this number. So packets of a flow that conforms to an envelope wait at most for
/// the horizontal distance from the envelope to the curve, plus `late`.
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
    /// Deadlines by a curve of a first rate, its time, and a second rate. Packets leave at most
    /// `late` after their deadlines. If the first rate is the lower one, only a line of the second
    /// rate is used, and `late` grows by the time that the curve is `behind` this line.
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

/// Time by which a curve whose first rate is the lower one is later than a line of the second rate.
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
    /// The condition under which the bound holds.
    pub condition: &'static str,
}

/// The largest number of bytes in a queue with this limit.
pub(crate) fn full_queue(setup: &Setup, limit: Limit) -> u64 {
    match limit {
        Limit::Packets(n) => u64::from(setup.largest) * u64::from(n),
        Limit::Bytes(n) => n,
    }
}

/// Refuses a link with an unlimited rate, for the discipline `what`, which needs a rate to divide.
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

/// Returns an error for each flow whose queue has no room for a packet of the largest size.
pub(crate) fn without_room(setup: &Setup) -> Vec<ConfigError> {
    let flows = setup.flows.iter().enumerate();
    flows.filter_map(|(flow, f)| admits_one(setup, f.limit, Some(flow)).err()).collect()
}

/// Checks that each flow's queue has room for a packet of the largest size; for a discipline
/// without other checks.
pub(crate) fn room_for_one(setup: &Setup) -> Result<(), ConfigErrors> {
    ConfigErrors::of(without_room(setup))
}

/// Checks that a queue's limit admits a packet of the largest size. The limit is that of `flow`, or
/// of the scheduler without a `flow`.
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
