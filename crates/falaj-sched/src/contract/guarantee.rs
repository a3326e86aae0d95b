//! What a discipline guarantees to a flow: by which formula, from where, and
//! under which condition.

use crate::contract::discipline::Discipline;
use crate::contract::no_guarantee::NoPromise;
use crate::contract::params::{ConfigError, ConfigErrors, Setup};
use crate::queues::queue::{FlowId, Limit};
use crate::units::rate::Rate;
use crate::units::time::Span;
use alloc::format;
use alloc::vec::Vec;

/// Whose promise is broken by packets that are thrown out of a queue after they found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropImpact {
    /// Nobody's.
    Nobody,
    /// That of their own flow.
    Own,
    /// Those of all flows.
    All,
}

/// The guarantees of a discipline to each flow, and the conditions under which they hold: plans
/// and trees of disciplines ask for them.
pub trait Guarantees: Discipline {
    /// What flow `f` of the scenario is promised.
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise>;

    /// How flow `f` is served, more finely than its promise says, where that is known: the
    /// delays of those that keep to an envelope may be shorter by it.
    fn turns(&self, f: FlowId) -> Option<StaircaseCurve> {
        let _ = f;
        None
    }

    /// The flows whose packets may leave before those of `f`: all of them in any order, unless it
    /// says otherwise. Bounds from the envelopes of these flows follow.
    fn precedence(&self, f: FlowId) -> Precedence {
        let _ = f;
        Precedence::default()
    }

    /// The curve by which the packets of `f` have deadlines, where it promises more than a rate and
    /// a latency, or where only those that keep to an envelope are promised anything.
    fn deadlines(&self, f: FlowId) -> Option<Deadlines> {
        let _ = f;
        None
    }

    /// What must hold, beside a backlog, for the rate that [`service`](Guarantees::service)
    /// promises.
    fn rate_condition(&self) -> Option<RateCondition> {
        None
    }

    /// The flows whose guarantee breaks where a policy of queues drops packets that had found room.
    fn harm_of_drops(&self) -> DropImpact {
        // Who looks at packets when they arrive has counted those that are thrown out later.
        if self.only_over_queues() { DropImpact::Own } else { DropImpact::Nobody }
    }

    /// By how much the delays of two packets of `f` differ at most, from where they first came to a
    /// chain of such links.
    fn jitter(&self, f: FlowId) -> Option<Bound> {
        let _ = f;
        None
    }

    /// Returns true if the rate that [`service`](Guarantees::service) promises is kept over any
    /// interval in which the flow is backlogged, not only from the start of the
    /// backlog on. Only such a flow is a server that can promise on (a strict
    /// service curve).
    fn serves_strictly(&self) -> bool {
        false
    }

    /// What may come on top of a [promise](Guarantees::service) after a change, until the link has
    /// rested.
    fn settling(&self) -> Settling {
        Settling::Unknown
    }

    /// Returns true if its flows must be queues, and may not be divided by other disciplines: so
    /// where it [sees arrivals](Discipline::SEES_ARRIVALS), which are not seen above a division.
    fn only_over_queues(&self) -> bool {
        Self::SEES_ARRIVALS
    }

    /// Why it can divide a link only, and not a flow of another discipline; most can.
    fn only_on_a_link(&self) -> Option<&'static str> {
        None
    }

    /// What flow `f` is promised where no link is served but a flow of another
    /// discipline, which is promised `server`, strictly; this discipline was built
    /// for that rate.
    fn service_behind(&self, f: FlowId, server: &Promise) -> Result<Promise, NoPromise> {
        let _ = (f, server);
        Err(NoPromise("no bound is known for this discipline below another".into()))
    }
}

/// A guarantee to one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// A flow that stays backlogged gets at least this rate once `latency` has
    /// passed, counted in packets whose last bit has left; under some disciplines on a
    /// [further condition](crate::contract::guarantee::Guarantees::rate_condition).
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
    /// The same where all of it comes so much later, as on a link that is handed packets ahead of
    /// time.
    #[must_use]
    pub fn later(self, by: Span) -> Promise {
        let later = |bound: Bound| Bound { delay: bound.delay + by, ..bound };
        let others = self.others.into_iter().map(later).collect();
        Promise { latency: self.latency + by, delay: later(self.delay), others, ..self }
    }

    /// What a discipline promises whose bounds count only the work that a server
    /// of constant rate does before a packet has left: behind a server that
    /// does as much with `latency` added, in any interval, all of it comes that
    /// much later (Le Boudec and Thiran 2001, theorem 1.4.2 for a rate-latency server).
    pub(crate) fn after(self, latency: Span) -> Promise {
        let later = |bound: Bound| Bound { delay: bound.delay + latency, ..bound };
        let condition =
            "packets that found room; C is the rate promised above, and the latency there is added";
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
pub struct StaircaseCurve {
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

/// The place of a flow among the flows of a work-conserving link. While it has packets, flows of
/// its own rank and of lower ranks are served in any order, and those of higher ranks send no more
/// than `once` bytes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precedence {
    /// Rank 0 is served first.
    pub rank: u32,
    /// Bytes that flows of higher ranks still send after the link began to serve this rank.
    pub once: u64,
    /// The flow has this rank as long as it keeps to this limit, and the discipline lets no packet
    /// beyond it pass at this rank; `None`: whatever it sends.
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

/// What must hold, beside a backlog, for a rate that is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateCondition {
    /// It counts from an instant at which the flow owes nothing: who ran empty may have been sent a
    /// packet before its time.
    OwesNothing,
    /// The same, and more than two of the largest packets are queued all the time. So it is where
    /// packets are stamped when they arrive and leave at most `L/C` after their stamps say:
    /// then the next one comes before the stamps have run out (own derivation). With less it
    /// may come after, and what the flow did not use until then is lost to it.
    Queued,
}

impl RateCondition {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            RateCondition::OwesNothing => "from when it owes nothing",
            RateCondition::Queued => {
                "from when it owes nothing, as long as more than 2 L of it are queued"
            }
        }
    }
}

/// By how much later than promised packets may leave after a change of shares, rates or flows,
/// until the link has rested; beside what is on the wire at the change. Each line was derived and
/// attacked (`docs/decisions/0008-change-by-succession.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settling {
    /// That is not known: until the link has rested nothing is promised.
    Unknown,
    /// The time of so many of the largest packets at the flow's own rate: `n L/r`.
    OwnPackets(u32),
    /// The time of a largest packet of each flow on the link: `N L/C`.
    PacketOfEach,
}

impl Settling {
    /// The time, of a flow with this promise on a link with this setup.
    pub fn time(self, setup: &Setup, promise: &Promise) -> Option<Span> {
        let largest = u64::from(setup.largest);
        match self {
            Settling::Unknown => None,
            Settling::OwnPackets(0) => Some(Span::ZERO),
            Settling::OwnPackets(n) => {
                (promise.rate.0 > 0).then(|| promise.rate.airtime_of_many(u64::from(n) * largest))
            }
            Settling::PacketOfEach => {
                Some(setup.rate.airtime_of_many(setup.leaves().len() as u64 * largest))
            }
        }
    }
}

/// A curve of two pieces by which packets have deadlines: a packet has left `late` after the curve,
/// begun at some instant before it came, reaches all that its flow has sent since, with the packet
/// itself. Who keeps to an envelope therefore waits no longer than from the envelope to the curve,
/// and `late`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Slope of the first piece.
    pub first: Rate,
    /// How long that lasts.
    pub time: Span,
    /// Slope from then on.
    pub rate: Rate,
    /// How long after its deadline a packet has left at the latest.
    pub late: Span,
}

impl Deadlines {
    /// Packets leave so long after the deadlines of this curve. Of one that begins slowly only its
    /// second line is looked at: its deadlines are later by what it is behind.
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

/// By how much a curve that begins slowly is behind a line of its second slope.
pub(crate) fn behind(first: Rate, time: Span, rate: Rate) -> Span {
    let missing = u128::from(rate.0.saturating_sub(first.0)) * u128::from(time.0);
    Span(u64::try_from(missing.div_ceil(rate.0.into())).unwrap_or(u64::MAX))
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

/// The most bytes that a queue with this limit holds.
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

/// Refuses the flows' queues in which not even one packet of the largest size fits.
pub(crate) fn without_room(setup: &Setup) -> Vec<ConfigError> {
    let flows = setup.flows.iter().enumerate();
    flows.filter_map(|(flow, f)| admits_one(setup, f.limit, Some(flow)).err()).collect()
}

/// The same, for who looks at nothing else.
pub(crate) fn room_for_one(setup: &Setup) -> Result<(), ConfigErrors> {
    ConfigErrors::of(without_room(setup))
}

/// The same for one limit, of `flow` or of the scheduler.
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
