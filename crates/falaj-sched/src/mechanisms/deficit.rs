//! Deficits: the bytes that flows of a round may send at each visit.
//!
//! There are two rules. In a `DeficitRound` a flow sends while its deficit covers the head, as in
//! DRR. With a [`Surplus`] a flow sends while the surplus is positive, and bytes beyond it become a
//! debt, as in fq_codel. This rule does not need the length of the head in advance.

use crate::contract::guarantee::{
    Bound, Guarantee, StairTurn, StaircaseCurve, full_queue, without_room,
};
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::mechanisms::active_list::{Place, Round};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Rate;
use crate::units::time::Span;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// The parameter of disciplines that visit flows with a deficit.
pub(crate) const QUANTUM: Param = Param {
    name: "quantum",
    kind: Kind::Bytes,
    default: Some("one largest packet"),
    doc: "bytes that the flow may send at each visit of the round, with the rest carried over \
          while it has packets; flows share the link in proportion to their quanta",
};

/// The parameter that allows quanta below a packet.
pub(crate) const QUANTA: Param = Param {
    name: "quanta",
    kind: Kind::Choice(&["packet", "any"]),
    default: Some("packet"),
    doc: "smallest allowed quantum: `packet` demands one largest packet, so that each decision is \
          O(1); `any` allows a 64th of it, at the cost of visits that send nothing",
};

/// The parameter of disciplines whose queues spend a [`Surplus`].
pub(crate) const SURPLUS_QUANTUM: Param = Param {
    doc: "bytes that a queue may send in its turn, with the rest carried over while it has \
          packets; at least a sixteenth of the largest packet",
    ..QUANTUM
};

/// Maximum number of quanta in the largest packet. It is also the maximum number of turns that a
/// queue waits after such a packet.
const TURNS: u32 = 16;

/// The quantum of queues that spend a [`Surplus`]; `default` if none is set.
pub(crate) fn surplus_quantum(setup: &Setup, default: u64) -> Result<i64, ConfigError> {
    let quantum = setup.scheduler.bytes("quantum").unwrap_or(default);
    let least = u64::from(setup.largest.div_ceil(TURNS));
    if quantum < least || quantum > 1 << 30 {
        return Err(ConfigError {
            flow: None,
            param: "quantum",
            what: format!("a quantum of {quantum} B is out of range"),
            help: format!("at least {least} B, a sixteenth of the largest packet; at most 1 GiB"),
        });
    }
    Ok(quantum as i64)
}

/// State of a flow that is visited with a deficit.
#[derive(Debug, Clone, Default)]
pub struct DeficitFlow {
    quantum: u32,
    deficit: u32,
    place: Place,
}

impl AsMut<Place> for DeficitFlow {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

impl AsMut<DeficitFlow> for DeficitFlow {
    fn as_mut(&mut self) -> &mut DeficitFlow {
        self
    }
}

impl DeficitFlow {
    /// State of a flow that was never visited.
    pub(crate) fn new(quantum: u32) -> DeficitFlow {
        DeficitFlow { quantum, ..DeficitFlow::default() }
    }

    /// Sets another quantum, and limits the carried deficit to it.
    pub(crate) fn set_quantum(&mut self, quantum: u32) {
        self.quantum = quantum;
        self.deficit = self.deficit.min(quantum);
    }

    /// Charges a packet.
    #[inline]
    pub(crate) fn pay(&mut self, bytes: u32) {
        self.deficit -= bytes;
    }
}

/// The quanta of the flows, and the other values for their bounds.
#[derive(Debug, Clone)]
pub(crate) struct Quanta {
    pub(crate) each: Vec<u32>,
    pub(crate) rate: Rate,
    pub(crate) largest: u64,
    /// Sum of the quanta.
    total: u64,
    full_queues: Vec<u64>,
}

impl Quanta {
    /// Validates the quanta and the queues.
    pub(crate) fn new(setup: &Setup) -> Result<Quanta, ConfigErrors> {
        let mut refused = without_room(setup);
        let mut each = Vec::new();
        let (least, of) = match setup.scheduler.choice("quanta") {
            Some("any") => (setup.largest.div_ceil(64), "a 64th of the largest packet"),
            _ => (setup.largest, "the largest packet"),
        };
        for (flow, f) in setup.flows.iter().enumerate() {
            let quantum = f.values.bytes("quantum").unwrap_or(u64::from(setup.largest));
            if quantum < u64::from(least) || quantum > 1 << 30 {
                refused.push(ConfigError {
                    flow: Some(flow),
                    param: "quantum",
                    what: format!("a quantum of {quantum} B is out of range"),
                    help: format!(
                        "at least {least} B, {of} as the link accounts it; at most 1 GiB"
                    ),
                });
            }
            each.push(quantum as u32);
        }
        ConfigErrors::of(refused)?;
        Ok(Quanta {
            total: each.iter().map(|&quantum| u64::from(quantum)).sum(),
            each,
            rate: setup.rate,
            largest: u64::from(setup.largest).max(1),
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    pub(crate) fn of(&self, f: FlowId) -> u64 {
        u64::from(self.each[f.index()])
    }

    /// The maximum number of bytes that the queue of `f` holds.
    pub(crate) fn full_queue(&self, f: FlowId) -> u64 {
        self.full_queues[f.index()]
    }

    /// The flows for which `which` returns true.
    pub(crate) fn flows(&self, which: impl Fn(FlowId) -> bool) -> impl Iterator<Item = FlowId> {
        (0..self.each.len() as u32).map(FlowId).filter(move |&f| which(f))
    }

    /// Returns the guarantee of `f` in a round of all flows.
    ///
    /// A packet that fills its queue to `B` bytes needs at most `m = ceil(B/Q)` visits of its flow,
    /// which has the quantum `Q`. In any `m` consecutive visits another flow `j` sends less than
    /// `m Q_j` plus one packet. The latency of the service curve is `[(F - Q)(1 + L/Q) + sum L]/C`,
    /// where `F` is the sum of the quanta, `L` the largest packet and `C` the link's rate (Boyer,
    /// Stea and Sofack 2012). Only completed packets count here, so the sum includes a last `L` of
    /// the flow itself.
    pub(crate) fn guarantee(&self, f: FlowId) -> Guarantee {
        let visits = self.visits_among_all(f);
        Guarantee {
            rate: visits.rate(),
            latency: visits.latency(),
            rate_formula: "C Q/sum Q",
            delay: Bound {
                delay: visits.delay(self.full_queue(f)),
                formula: "(B + sum over others of (m Q_j + L))/C, m = ceil(B/Q)",
                condition: "packets that found room",
            },
            others: Vec::new(),
        }
    }

    /// Returns the visits of `f` in a round of all flows.
    pub(crate) fn visits_among_all(&self, f: FlowId) -> Visits {
        let quantum = self.of(f);
        let once = (self.each.len() as u64 - 1) * self.largest;
        let between = self.total - quantum;
        Visits { rate: self.rate, largest: self.largest, quantum, between, once }
    }

    /// Returns the visits of `f` in a round of `f` and `others`. Takes a step for each flow.
    pub(crate) fn visits(&self, f: FlowId, others: impl Fn(FlowId) -> bool) -> Visits {
        let between = self.flows(&others).map(|j| self.of(j)).sum();
        let once = self.flows(&others).count() as u64 * self.largest;
        Visits { rate: self.rate, largest: self.largest, quantum: self.of(f), between, once }
    }
}

/// The visits of a flow: until the end of its `m`-th visit, other flows send at most
/// `m * between + once` bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visits {
    /// Rate of the link, or the part of it that is left for these flows.
    pub(crate) rate: Rate,
    pub(crate) largest: u64,
    pub(crate) quantum: u64,
    pub(crate) between: u64,
    pub(crate) once: u64,
}

impl Visits {
    pub(crate) fn rate(&self) -> Rate {
        let share = u128::from(self.rate.0) * u128::from(self.quantum)
            / u128::from(self.quantum + self.between);
        Rate(share as u64)
    }

    /// The last of `bytes` leaves in visit `ceil(bytes/Q)`. Let `X` be `between` and `K` be `once`.
    /// If `S` bytes have left and a packet of `L` bytes is next, it leaves before
    /// `[S + L + ceil((S+L)/Q) X + K]/C`. So a curve of rate `r = C Q/(Q+X)` holds from
    /// `[X (1 + L/Q) + K + L]/C` on.
    pub(crate) fn latency(&self) -> Span {
        let carry = (u128::from(self.between) * u128::from(self.largest))
            .div_ceil(u128::from(self.quantum));
        let carry = u64::try_from(carry).unwrap_or(u64::MAX);
        self.rate.airtime_of_many((self.between + self.once + self.largest).saturating_add(carry))
    }

    /// Returns the service curve as a staircase, instead of a line below it. The last of `S` bytes
    /// has left when the link has sent `S + ceil(S/Q) X + K` bytes in all, with `X` and `K` as in
    /// `latency`. This is the non-convex curve of Tabatabaee and Le Boudec ("Deficit round-robin: a
    /// second network calculus analysis", 2021). They count bits as they leave, so the flow may
    /// have any deficit; here only packets that have left completely count.
    pub(crate) fn turns(&self) -> StaircaseCurve {
        StaircaseCurve {
            rate: self.rate,
            latency: self.rate.airtime_of_many(self.between + self.once),
            first: Vec::new(),
            cycle: vec![StairTurn { bytes: self.quantum, others: self.between, idle: Span::ZERO }],
        }
    }

    /// Time until the last of `bytes` has left.
    pub(crate) fn delay(&self, bytes: u64) -> Span {
        let others = bytes.div_ceil(self.quantum).saturating_mul(self.between);
        self.rate.airtime_of_many(others.saturating_add(bytes).saturating_add(self.once))
    }
}

/// A round of flows that are visited with a deficit.
#[derive(Debug, Clone)]
pub(crate) struct DeficitRound {
    round: Round,
    /// True if the first flow has got its quantum for this visit.
    visited: bool,
}

impl DeficitRound {
    pub(crate) const EMPTY: DeficitRound = DeficitRound { round: Round::EMPTY, visited: false };

    /// The flow of the current visit, or of the next one.
    #[inline]
    pub(crate) fn first(&self) -> Option<FlowId> {
        self.round.first()
    }

    /// Returns true if a visit has begun.
    #[inline]
    pub(crate) fn visiting(&self) -> bool {
        self.visited
    }

    /// Number of flows.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.round.len()
    }

    /// Removes all flows, in order; also returns the flow of the current visit.
    pub(crate) fn dissolve<S: AsMut<Place>, T: Copy>(
        &mut self,
        flows: &mut Flows<S, T>,
    ) -> (Vec<FlowId>, Option<FlowId>) {
        let visited = self.first().filter(|_| self.visited);
        self.visited = false;
        (self.round.dissolve(flows), visited)
    }

    /// Continues the visit of `f`, if `f` is the first flow.
    pub(crate) fn resume(&mut self, f: FlowId) {
        self.visited = self.first() == Some(f);
    }

    #[inline]
    pub(crate) fn join<S: AsMut<DeficitFlow> + AsMut<Place>, T: Copy>(
        &mut self,
        flows: &mut Flows<S, T>,
        f: FlowId,
    ) {
        self.round.join(flows, f);
    }

    /// Ends the current visit if its flow has become empty. Disciplines that may serve another flow
    /// before the next [`visit`](DeficitRound::visit) need this. Returns true if the visit was
    /// ended.
    #[inline]
    pub(crate) fn conclude<S: AsMut<DeficitFlow> + AsMut<Place>, T: Copy>(
        &mut self,
        flows: &mut Flows<S, T>,
    ) -> bool {
        let empty = self.visited && self.first().is_some_and(|f| flows.head(f).is_none());
        empty && self.visit(flows).is_none()
    }

    /// Begins or continues a visit of the first flow: returns the flow that may send now, or `None`
    /// when the visit is over.
    #[inline]
    pub(crate) fn visit<S: AsMut<DeficitFlow> + AsMut<Place>, T: Copy>(
        &mut self,
        flows: &mut Flows<S, T>,
    ) -> Option<FlowId> {
        let f = self.round.first()?;
        let Some(bytes) = flows.head(f) else {
            self.close(flows);
            return None;
        };
        let state: &mut DeficitFlow = flows.state_mut(f).as_mut();
        if !self.visited {
            state.deficit += state.quantum;
            self.visited = true;
        }
        if bytes <= state.deficit {
            return Some(f);
        }
        self.visited = false;
        self.round.rotate(flows);
        None
    }

    /// Ends the visit of the first flow. The flow loses the rest of its deficit, and remains in the
    /// round if it has packets.
    #[inline]
    pub(crate) fn close<S: AsMut<DeficitFlow> + AsMut<Place>, T: Copy>(
        &mut self,
        flows: &mut Flows<S, T>,
    ) {
        let Some(f) = self.round.first() else { return };
        self.visited = false;
        let state: &mut DeficitFlow = flows.state_mut(f).as_mut();
        state.deficit = 0;
        if flows.head(f).is_some() {
            self.round.rotate(flows);
        } else {
            self.round.leave(flows);
        }
    }
}

/// A deficit that may be overdrawn: the flow may send while the deficit is positive, and bytes
/// beyond it are subtracted from the next quanta.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Surplus(i64);

impl Surplus {
    /// A surplus of one quantum.
    #[inline]
    pub fn new(quantum: i64) -> Surplus {
        Surplus(quantum)
    }

    /// Returns true if there is something left to spend.
    #[inline]
    pub fn is_positive(self) -> bool {
        self.0 > 0
    }

    /// Adds a visit's quantum.
    #[inline]
    pub fn add(&mut self, quantum: i64) {
        self.0 += quantum;
    }

    /// Subtracts the cost in bytes; the result may be a debt.
    #[inline]
    pub fn pay(&mut self, cost: i64) {
        self.0 = self.0.saturating_sub(cost);
    }

    /// Gives up a positive rest, and cancels a debt.
    #[inline]
    pub fn clear(&mut self) {
        self.0 = 0;
    }

    /// Gives up a positive rest; a debt stays.
    #[inline]
    pub fn forfeit(&mut self) {
        self.0 = self.0.min(0);
    }
}
