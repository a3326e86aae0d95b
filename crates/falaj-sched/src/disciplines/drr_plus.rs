//! DRR+: deficit round robin with a priority queue (the fast lane) for flows that keep a contract.
//!
//! Shreedhar and Varghese name it in "Efficient fair queueing using deficit round robin" (1996). A
//! low-latency flow has a contract: at most `r T` bytes of the flow arrive in any window
//! `(t - T, t]`. While the flow keeps the contract, its packets are sent before the next visit of
//! the round; the current visit ends first. The first packet beyond the contract demotes the flow
//! permanently to an ordinary flow with a quantum. Packets that the flow's full queue rejects do
//! not count. Flows in the fast lane take turns, packet by packet.
//!
//! Zhang's thesis (2.5.4) polices by a timer, here the form `timer`: each packet of a flow starts
//! the timer, and a packet that arrives before the timer expires is beyond the contract. So a
//! window may hold one packet of any size, and `r T` is the largest packet.
//!
//! # Bounds
//!
//! `V = Q' + L - 1` is the longest current visit in bytes, with `Q'` the largest quantum of the
//! other flows and `L` the largest packet. `C` is the link's rate. `R` and `S` are the sums of
//! `r_j` and of `r_j T_j` over the low-latency flows `j`.
//!
//! While a flow keeps its contract, its packets leave the fast lane after at most the time `D`. It
//! is the shortest `D` with `V + sum of r_j T_j (1 + floor(D/T_j)) <= C D`. So `D` is `(V + S)/C`
//! if that is shorter than all windows, and at most `(V + S)/(C - R)` in any case.
//!
//! An ordinary flow shares the link with all other flows by DRR, as if the low-latency flows were
//! demoted. It also waits for the fast lane: in a time `t` for at most `V + S + R t` bytes. So its
//! bounds are those of DRR on a link of rate `C - R`, with `V + S` bytes added once.
//!
//! For a low-latency flow that may break its contract, the bound is the sum of both: its packets
//! may first wait in the fast lane, and then like the packets of an ordinary flow.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Dice, Draw};
use crate::contract::guarantee::{
    ArrivalWindow, Bound, Guarantee, Guarantees, Precedence, StaircaseCurve, finite_rate,
    room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup, Value, Values};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::Place;
use crate::mechanisms::deficit::{DeficitFlow, DeficitRound, QUANTA, QUANTUM, Quanta, Visits};
use crate::mechanisms::levels::Levels;
use crate::mechanisms::low_latency::{LATENCY, of_low_latency};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{BIT_NANOS, Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "drr+",
    doc: "DRR with a fast lane for low-latency flows, each of which stays in it until it first \
          exceeds its contract",
    source: "Shreedhar and Varghese 1996; Zhang's thesis",
    cost: "O(1)",
    guarantee: "rate and delay; a shorter delay while a contract is kept",
    guarantee_source: "own derivation",
    aliases: &["deficit round robin plus"],
    scheduler: &[
        QUANTA,
        Param {
            name: "form",
            kind: Kind::Choice(&["rate", "timer"]),
            default: Some("rate"),
            doc: "`rate`: a contract allows a `rate` in any `window`; `timer`: it allows one \
                  packet, of any size, in any `window`",
        },
    ],
    flow: &[
        QUANTUM,
        LATENCY,
        Param {
            name: "rate",
            kind: Kind::Rate,
            default: Some("none; required with `latency = \"low\"`, except in the form `timer`"),
            doc: "contract of a low-latency flow: in any `window`, at most this rate times the \
                  window may arrive; the first packet beyond it makes the flow a normal one for \
                  good",
        },
        Param {
            name: "window",
            kind: Kind::Span,
            default: Some("none; required with `latency = \"low\"`"),
            doc: "length of the contract's window; `rate` times `window` is the largest burst, at \
                  least one largest packet; in the form `timer` the least time from one packet to \
                  the next",
        },
    ],
    editable: &[("quantum", "Quantum")],
    draw: Draw { fit, ..Draw::by(&[("quantum", draw::quantum)]) },
    ..Manifest::PLAIN
};

/// Draws contracts for low-latency flows only, each with room for a packet.
fn fit(setup: &mut Setup, dice: Dice<'_>) {
    let (rate, n, largest) = (setup.rate.0, setup.flows.len() as u64, setup.largest);
    for flow in &mut setup.flows {
        let quantum = flow.values.bytes("quantum").unwrap_or(largest.into());
        flow.values = Values::default().with("quantum", Value::Bytes(quantum));
        if dice(0, 1) == 0 {
            let contract = Rate(dice(rate / (20 * n), rate / (n + 1)));
            let window = contract.airtime(largest) * dice(1, 6) + Span(dice(0, 50));
            flow.values.set("latency", Value::Choice("low"));
            flow.values.set("rate", Value::Rate(contract));
            flow.values.set("window", Value::Span(window));
        }
    }
}

/// DRR+.
#[derive(Debug, Clone)]
pub struct DrrPlus {
    quanta: Quanta,
    /// Contracts of low-latency flows, with their recent arrivals.
    contracts: Vec<Option<Contract>>,
    fast: Levels,
    round: DeficitRound,
}

/// A contract: in any time of the length `window`, at most `bytes` arrive, or one packet if `timer`
/// is true.
#[derive(Debug, Clone)]
struct Contract {
    rate: Rate,
    window: Span,
    /// Maximum number of bytes in a window, `r T`.
    bytes: u64,
    /// True if a window may hold only one packet.
    timer: bool,
    /// Arrivals in the window that ends now.
    log: VecDeque<(Time, u64)>,
    sum: u64,
    broken: bool,
}

impl Contract {
    /// Counts a packet. Returns false if it exceeds the contract.
    fn admits(&mut self, bytes: u32, now: Time) -> bool {
        while let Some(&(_, old)) =
            self.log.front().filter(|&&(at, _)| now.since(at) >= self.window)
        {
            self.sum -= old;
            self.log.pop_front();
        }
        if self.timer && !self.log.is_empty() {
            return false;
        }
        self.sum += u64::from(bytes);
        match self.log.back_mut() {
            Some((at, sum)) if *at == now => *sum += u64::from(bytes),
            _ => self.log.push_back((now, bytes.into())),
        }
        self.sum <= self.bytes
    }

    fn is_that_of(&self, other: &Contract) -> bool {
        (self.rate, self.window, self.timer) == (other.rate, other.window, other.timer)
    }
}

/// The least rate that sends a packet of `bytes` bytes in each window.
fn one_packet_in(bytes: u32, window: Span) -> Rate {
    let rate = (u128::from(bytes) * u128::from(BIT_NANOS)).div_ceil(u128::from(window.0.max(1)));
    Rate(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct DrrPlusFlow {
    drr: DeficitFlow,
    /// True if the flow is a low-latency flow that has kept its contract.
    fast: bool,
}

impl AsMut<Place> for DrrPlusFlow {
    fn as_mut(&mut self) -> &mut Place {
        self.drr.as_mut()
    }
}

impl AsMut<DeficitFlow> for DrrPlusFlow {
    fn as_mut(&mut self) -> &mut DeficitFlow {
        &mut self.drr
    }
}

impl DrrPlus {
    /// Validates the setup: each contract must allow a largest packet, and all contracts together
    /// must leave capacity to the other flows.
    pub fn new(setup: &Setup) -> Result<DrrPlus, ConfigErrors> {
        finite_rate(setup, "DRR+")?;
        room_for_one(setup)?;
        let timer = setup.scheduler.choice("form") == Some("timer");
        let mut left = setup.rate.0;
        let mut contracts = Vec::new();
        for (flow, (f, low)) in setup.flows.iter().zip(of_low_latency(setup)).enumerate() {
            let refused = |param, what, help| ConfigError { flow: Some(flow), param, what, help };
            let (rate, window) = (f.values.rate("rate"), f.values.span("window"));
            if !low {
                if let Some(param) = rate.map(|_| "rate").or(window.map(|_| "window")) {
                    let what = "a contract is for flows of low latency".into();
                    return Err(refused(
                        param,
                        what,
                        "leave it out, or write `latency = \"low\"`".into(),
                    )
                    .into());
                }
                contracts.push(None);
                continue;
            }
            let missing = |param| {
                let help = if timer {
                    "its contract is that no `window` holds more than a packet"
                } else {
                    "its contract is that no `window` holds more than its `rate`: both are needed"
                };
                refused(param, format!("a flow of low latency lacks its `{param}`"), help.into())
            };
            let rate = match rate {
                Some(_) if timer => {
                    let what = "in the form `timer` a contract has no rate".into();
                    let help = "leave it out, or write `form = \"rate\"` in the scheduler".into();
                    return Err(refused("rate", what, help).into());
                }
                None if timer => None,
                rate => Some(rate.ok_or_else(|| missing("rate"))?),
            };
            let window = window.ok_or_else(|| missing("window"))?;
            let rate = rate.unwrap_or_else(|| one_packet_in(setup.largest, window));
            if rate.0 == 0 || rate.0 >= left {
                let what = format!(
                    "this contract has a rate of {rate}, but the contracts of the flows before it leave only {}",
                    Rate(left)
                );
                let (param, value) =
                    if timer { ("window", "longer window") } else { ("rate", "lower rate") };
                let help = format!(
                    "a {value}: the fast lane has priority and must leave capacity to the other \
                     flows"
                );
                return Err(refused(param, what, help).into());
            }
            left -= rate.0;
            let bytes = u128::from(rate.0) * u128::from(window.0) / u128::from(BIT_NANOS);
            if bytes < u128::from(setup.largest) {
                let what = format!(
                    "{rate} in {window} are {bytes} B, less than a packet of {} B",
                    setup.largest
                );
                return Err(refused(
                    "window",
                    what,
                    format!("at least `{}`", rate.airtime(setup.largest)),
                )
                .into());
            }
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            contracts.push(Some(Contract {
                rate,
                window,
                bytes,
                timer,
                log: VecDeque::new(),
                sum: 0,
                broken: false,
            }));
        }
        let fast = Levels::new([0].into_iter());
        Ok(DrrPlus { quanta: Quanta::new(setup)?, contracts, fast, round: DeficitRound::EMPTY })
    }

    #[inline]
    fn join(&mut self, flows: &mut Flows<DrrPlusFlow>, f: FlowId) {
        if flows.state(f).fast {
            self.fast.join(flows, 0, f);
        } else {
            self.round.join(flows, f);
        }
    }

    /// Sum of the rates and of the bursts of all contracts except that of `but`.
    fn reserved(&self, but: Option<FlowId>) -> (u64, u64) {
        let others =
            self.contracts.iter().enumerate().filter(|&(f, _)| Some(f) != but.map(FlowId::index));
        let contracts = others.filter_map(|(_, c)| c.as_ref());
        contracts.fold((0, 0), |(rate, burst), c| (rate + c.rate.0, burst.saturating_add(c.bytes)))
    }

    /// `V`: the longest visit of a flow other than `but`, in bytes.
    fn longest_visit(&self, but: Option<FlowId>) -> u64 {
        let quanta = self.quanta.flows(|j| Some(j) != but).map(|j| self.quanta.of(j));
        quanta.max().map_or(0, |quantum| quantum + self.quanta.largest - 1)
    }

    /// The visits of `f` as an ordinary flow, with the traffic of the fast lane in addition.
    fn visits_after_the_lane(&self, f: FlowId) -> Visits {
        let (rate, burst) = self.reserved(Some(f));
        let shared = self.quanta.visits_among_all(f);
        let once = if burst > 0 { self.longest_visit(None).saturating_add(burst) } else { 0 };
        Visits {
            rate: Rate(shared.rate.0 - rate),
            once: shared.once.saturating_add(once),
            ..shared
        }
    }

    /// Maximum time of a packet of `f` in the fast lane.
    fn in_the_fast_lane(&self, f: FlowId) -> Span {
        let (rate, burst) = self.reserved(None);
        let visit = self.longest_visit(Some(f));
        let any_case = Rate(self.quanta.rate.0 - rate).airtime_of_many(visit.saturating_add(burst));
        let mut time = Span::ZERO;
        // Each step adds the bytes of one window; after many steps, `any_case` is hardly longer.
        for _ in 0..1_000 {
            let of = |c: &Contract| c.bytes.saturating_mul(1 + time.0 / c.window.0);
            let all = self.contracts.iter().flatten().map(of).fold(visit, u64::saturating_add);
            let longer = self.quanta.rate.airtime_of_many(all);
            if longer == time {
                return time.min(any_case);
            }
            time = longer;
        }
        any_case
    }
}

impl Discipline for DrrPlus {
    type State = DrrPlusFlow;
    type Tag = ();
    /// Contracts are checked at arrivals.
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, flows: &mut Flows<DrrPlusFlow>) {
        for (f, &quantum) in self.quanta.each.iter().enumerate() {
            let fast = self.contracts[f].as_ref().is_some_and(|c| !c.broken);
            *flows.state_mut(FlowId(f as u32)) =
                DrrPlusFlow { drr: DeficitFlow::new(quantum), fast };
        }
    }

    /// A flow that broke its contract stays demoted, unless it gets another contract. The round,
    /// the current visit and the deficits are kept.
    fn migrate_from(&mut self, mut old: DrrPlus, flows: &mut Flows<DrrPlusFlow>, _: Time) {
        for (new, old) in self.contracts.iter_mut().zip(&mut old.contracts) {
            if let (Some(new), Some(old)) = (new, old.take())
                && new.is_that_of(&old)
            {
                *new = old;
            }
        }
        let (visits, visited) = old.round.dissolve(flows);
        let (fast, sending) = old.fast.dissolve(flows);
        for (f, &quantum) in self.quanta.each.iter().enumerate() {
            let state = flows.state_mut(FlowId(f as u32));
            state.drr.set_quantum(quantum);
            state.fast = self.contracts[f].as_ref().is_some_and(|c| !c.broken);
        }
        for f in visits.into_iter().chain(fast) {
            self.join(flows, f);
        }
        if let Some(f) = visited {
            self.round.resume(f);
        }
        if let Some(f) = sending.filter(|&f| flows.state(f).fast && self.fast.first(0) == Some(f)) {
            self.fast.take(0, f);
        }
    }

    #[inline(always)]
    fn arrived(&mut self, flows: &mut Flows<DrrPlusFlow>, f: FlowId, bytes: u32, now: Time) {
        let Some(contract) = self.contracts[f.index()].as_mut().filter(|c| !c.broken) else {
            return;
        };
        if contract.admits(bytes, now) {
            return;
        }
        contract.broken = true;
        contract.log = VecDeque::new();
        self.fast.remove(flows, 0, f);
        flows.state_mut(f).fast = false;
        if flows.head(f).is_some() {
            self.round.join(flows, f);
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<DrrPlusFlow>, f: FlowId, _: Time) {
        self.join(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<DrrPlusFlow>, _: Time, _: &Wire) -> Decision {
        loop {
            if !self.round.visiting()
                && let Some(f) = self.fast.next(flows)
            {
                return Decision::Serve(f);
            }
            if self.round.first().is_none() {
                return Decision::Idle;
            }
            if let Some(f) = self.round.visit(flows) {
                return Decision::Serve(f);
            }
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<DrrPlusFlow>, f: FlowId, sent: Sent) {
        let state = flows.state_mut(f);
        if state.fast {
            self.fast.take(0, f);
        } else {
            state.drr.pay(sent.bytes);
        }
    }

    /// Returns false while a packet counts against the flow's contract, and after the flow was
    /// demoted.
    fn is_reusable(&self, _: &Flows<DrrPlusFlow>, f: FlowId, now: Time) -> bool {
        self.contracts[f.index()].as_ref().is_none_or(|c| {
            !c.broken && c.log.back().is_none_or(|&(at, _)| now.since(at) >= c.window)
        })
    }
}

impl QueueHooks for DrrPlus {}
impl MediumHooks for DrrPlus {}

impl Guarantees for DrrPlus {
    /// See the module's documentation.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let low = self.contracts[f.index()].is_some();
        let visits = self.visits_after_the_lane(f);
        let fast = if low { self.in_the_fast_lane(f) } else { Span::ZERO };
        let mut others = Vec::new();
        if low {
            others.push(Bound {
                delay: fast,
                formula: "D: V + sum over low of r T (1 + floor(D/T)) = C D, V = Q' + L-1",
                condition: "while the flow keeps its contract",
            });
        }
        Ok(Guarantee {
            rate: visits.rate(),
            latency: visits.latency() + fast,
            rate_formula: "(C - R) Q/sum Q, R the rates of other flows of low latency",
            delay: Bound {
                delay: visits.delay(self.quanta.full_queue(f)) + fast,
                formula: if low {
                    "D + (B + V + S + sum over others of (m Q_j + L))/(C - R), m = ceil(B/Q)"
                } else {
                    "(B + V + S + sum over others of (m Q_j + L))/(C - R), m = ceil(B/Q)"
                },
                condition: "packets that found room",
            },
            others,
        })
    }

    /// Only ordinary flows have a curve: a low-latency flow may be demoted at any instant of a
    /// backlog.
    fn turns(&self, f: FlowId) -> Option<StaircaseCurve> {
        let ordinary = self.contracts[f.index()].is_none();
        ordinary.then(|| self.visits_after_the_lane(f).turns())
    }

    /// A visit begins only when the fast lane is empty, so packets of the fast lane wait for one
    /// visit at most.
    fn precedence(&self, f: FlowId) -> Precedence {
        match &self.contracts[f.index()] {
            Some(Contract { bytes, window, .. }) => Precedence {
                rank: 0,
                once: self.longest_visit(Some(f)),
                contract: Some(ArrivalWindow { bytes: *bytes, length: *window }),
                ..Precedence::default()
            },
            None => Precedence { rank: 1, ..Precedence::default() },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::disciplines::drr::Drr;
    use crate::scheduler::worked_example::{
        at_once, departures, guarantee, longest_delay, order, packets, rate, setup, time, values,
    };

    /// A is the low-latency flow.
    pub(crate) const LOW_LATENCY: &[(u64, char, u32)] = &[
        (0, 'A', 2),
        (0, 'A', 2),
        (0, 'A', 2),
        (5, 'A', 2),
        (0, 'B', 3),
        (0, 'B', 3),
        (0, 'B', 3),
        (0, 'C', 3),
        (0, 'C', 3),
        (0, 'C', 3),
        (0, 'D', 3),
        (0, 'D', 3),
    ];
    /// The order in which DRR sends.
    pub(crate) const IN_TURN: &str =
        "A1@2 B1@5 C1@8 D1@11 A2@13 A3@15 B2@18 C2@21 D2@24 A4@26 B3@29 C3@32";
    /// The order if A is sent before all others.
    pub(crate) const A_FIRST: &str =
        "A1@2 A2@4 A3@6 A4@8 B1@11 C1@14 D1@17 B2@20 C2@23 D2@26 B3@29 C3@32";

    pub(crate) fn quantum(bytes: u64) -> Values {
        values([("quantum", Value::Bytes(bytes))])
    }

    pub(crate) fn low(bytes: u64) -> Values {
        quantum(bytes).with("latency", Value::Choice("low"))
    }

    /// Three other flows with a quantum of 4 B.
    pub(crate) fn beside_three(first: Values) -> Setup {
        setup(3, [first, quantum(4), quantum(4), quantum(4)])
    }

    /// A contract: at most this number of bytes in any window in which the link sends 100 bytes.
    fn contract(flow: Values, bytes: u64) -> Values {
        flow.with("rate", rate(10 * bytes)).with("window", time(100))
    }

    #[test]
    fn drr_plus_serves_a_flow_that_keeps_its_contract_first() {
        assert_eq!(order(&beside_three(quantum(3)), Drr::new, LOW_LATENCY), IN_TURN);
        let of = |bytes| order(&beside_three(contract(low(3), bytes)), DrrPlus::new, LOW_LATENCY);
        assert_eq!(of(8), A_FIRST);
        // The second packet already exceeds the contract, while the first is on the wire: A is an
        // ordinary flow from then on. It is the first in the round, and no packet was charged to it
        // yet.
        let demoted = "A1@2 A2@4 B1@7 C1@10 D1@13 A3@15 A4@17 B2@20 C2@23 D2@26 B3@29 C3@32";
        assert_eq!(of(3), demoted);
    }

    /// Zhang's thesis, 2.5.4: a packet that arrives before the timer of the previous packet expires
    /// demotes its flow, whatever the packets' sizes are.
    #[test]
    fn the_timer_allows_one_packet_in_a_window() {
        let mut setup = beside_three(low(3).with("window", time(100)));
        setup.scheduler.set("form", Value::Choice("timer"));
        let delay = |second: u64| {
            let mut all = at_once(&"BCD".repeat(40), 3);
            all.extend([(0, 'A', 3), (second, 'A', 1)]);
            let sent = departures(&setup, DrrPlus::new, &packets(&all));
            let of_a = sent.iter().rfind(|(packet, _)| packet.flow == FlowId(0));
            of_a.map(|(packet, sent)| (sent.end - packet.arrival).as_micros_f64()).unwrap()
        };
        // In the fast lane, A waits for a current visit of 6 B at most. A demoted flow waits for a
        // visit of each other flow.
        assert!(delay(100) <= 7.0, "{}", delay(100));
        assert!(delay(99) > 7.0, "{}", delay(99));
    }

    #[test]
    fn drr_plus_demotes_for_ever() {
        let setup = beside_three(contract(low(3), 8));
        // One byte too many arrived once, long before.
        let mut later: Vec<_> =
            LOW_LATENCY.iter().map(|&(at, f, bytes)| (at + 1_000, f, bytes)).collect();
        later.extend([(0, 'A', 3), (99, 'A', 3), (99, 'A', 3)]);
        let demoted = order(&setup, DrrPlus::new, &later);
        assert_eq!(demoted, order(&beside_three(quantum(3)), Drr::new, &later));
        // When the link could have sent 100 bytes, the first packet no longer counts.
        later.truncate(LOW_LATENCY.len());
        later.extend([(0, 'A', 3), (100, 'A', 3), (100, 'A', 3)]);
        let kept = order(&setup, DrrPlus::new, &later);
        assert_ne!(kept, demoted);
        assert!(kept.contains("A4@1002 A5@1004 A6@1006 A7@1008 B1@1011"), "{kept}");
    }

    #[test]
    fn drr_plus_ends_the_visit_that_is_under_way() {
        let setup = setup(3, [contract(low(3), 8), quantum(6)]);
        let packets = [(0, 'B', 3), (0, 'B', 3), (0, 'B', 3), (1, 'A', 2), (2, 'A', 2)];
        assert_eq!(order(&setup, DrrPlus::new, &packets), "B1@3 B2@6 A1@8 A2@10 B3@13");
    }

    /// A flow that keeps its contract waits for one visit and the bursts of all contracts.
    #[test]
    fn the_fast_lane_is_as_fast_as_its_bound() {
        // The contracts allow 20 B and 30 B in any 12.5 ms.
        let contract =
            |bits| low(1_500).with("rate", Value::Rate(Rate(bits))).with("window", time(12_500));
        let setup = setup(10, [contract(12_800), contract(19_200), quantum(2_000), quantum(1_700)]);
        let bound = guarantee(&setup, DrrPlus::new, 0).others.remove(0);
        assert_eq!(bound.condition, "while the flow keeps its contract");
        // C has one byte left of its first visit.
        let mut all: Vec<_> = (0..400).map(|i| (0, 'C', if i == 199 { 9 } else { 10 })).collect();
        all.extend([(0, 'D', 10); 400]);
        // A burst of both flows arrives just after the beginning of C's second visit.
        let begins = 1_999 + 1_700;
        all.extend([(begins + 1, 'A', 10); 2]);
        all.extend([(begins + 1, 'B', 10); 3]);
        let sent = departures(&setup, DrrPlus::new, &packets(&all));
        let worst = longest_delay(&sent, 0).max(longest_delay(&sent, 1));
        assert!(worst <= bound.delay, "{worst} > {}", bound.delay);
        assert!(worst.0 * 100 >= bound.delay.0 * 96, "{worst} is far from {}", bound.delay);
    }
}
