//! Fair queueing with pacing, like Linux's `fq` (Dumazet 2013).
//!
//! A hash distributes connections over queues. Queues take turns as in DRR, new queues before old
//! ones; a queue sends one quantum in each turn. With a maximum rate, a queue that has spent its
//! quantum is held until the quantum's time at that rate has passed, even if the link is free. So a
//! burst is at most a quantum, which its last packet may exceed; only a new queue may first send
//! `initial-quantum`. Held queues are ordered by the ends of their pauses.
//!
//! Here packets carry no departure times, and connections have no rates of their own, so there is
//! nothing like the kernel's horizon and the pacing rates of sockets.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Draw};
use crate::contract::guarantee::{Guarantee, Guarantees, finite_rate};
use crate::contract::hooks::{DropCause, MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Idling, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::{Place, Round};
use crate::mechanisms::connection_queues::{ConnectionQueues, QUEUES};
use crate::mechanisms::deficit::{SURPLUS_QUANTUM, Surplus, surplus_quantum};
use crate::queues::aqm::none_besides;
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::label::Label;
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "fq",
    doc: "fair queueing with pacing: a hash assigns connections to queues, which share the link as \
          by DRR, each up to a maximum rate",
    source: "Linux's fq (Dumazet 2013)",
    cost: "O(1), O(log N) with a maximum rate",
    guarantee: "nothing",
    guarantee_source: "—",
    purposes: &[Purpose::Connections, Purpose::Cap],
    aliases: &["fair queue", "fair queue packet scheduler", "sch fq", "pacing", "pacer"],
    example: Example { scheduler: "flow-max-rate = \"20mbit\"", calls: "", rest: "" },
    scheduler: &[
        Param {
            name: "limit",
            kind: Kind::Count { min: 1, max: 1 << 20 },
            default: Some("10000"),
            doc: "the maximum number of packets in all queues together; beyond it the packet that \
                  arrives is dropped",
        },
        Param {
            name: "flow-limit",
            kind: Kind::Count { min: 1, max: 1 << 20 },
            default: Some("100"),
            doc: "the maximum number of packets in a queue, the one on the wire included; beyond \
                  it the packet that arrives is dropped",
        },
        QUEUES,
        Param { default: Some("two largest packets"), ..SURPLUS_QUANTUM },
        Param {
            name: "initial-quantum",
            kind: Kind::Bytes,
            default: Some("ten largest packets"),
            doc: "bytes that a queue may send in its first turn, and again after it has been empty \
                  for 3s; at most 1GiB",
        },
        Param {
            name: "flow-max-rate",
            kind: Kind::Rate,
            default: Some("unlimited"),
            doc: "maximum rate of a queue, and so of each connection: a queue that has spent its \
                  quantum is held until the quantum's time at this rate has passed",
        },
        Param {
            name: "low-rate-threshold",
            kind: Kind::Rate,
            default: Some("550kbit"),
            doc: "up to this `flow-max-rate` a queue is held after each packet, for the packet's \
                  time, and not after each quantum",
        },
        Param {
            name: "refill-delay",
            kind: Kind::Span,
            default: Some("40ms"),
            doc: "a queue that has been empty for longer may send at least a quantum in its first \
                  turn; otherwise it has what was left of its last one",
        },
    ],
    idles: Some(Idling {
        why: "connections have a maximum rate",
        only_with: Some("flow-max-rate"),
    }),
    draw: Draw::by(&[
        ("quantum", draw::quantum),
        ("limit", draw::packets),
        ("flow-limit", draw::packets),
    ]),
    ..Manifest::PLAIN
};

/// A queue that has been empty for this time counts as a new one.
const FORGOTTEN: Span = Span::from_secs(3);

/// State of a queue.
#[derive(Clone, Debug, Default)]
pub struct PacedFlow {
    place: Place,
    credit: Surplus,
    /// End of the queue's last pause; zero if there was no pause.
    paused_until: Time,
    /// Time at which the queue was empty at its turn, and left the round.
    emptied: Time,
}

impl AsMut<Place> for PacedFlow {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

/// The rule for pauses, if queues have a maximum rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pacing {
    rate: Rate,
    /// True if a pause follows each packet, false if it follows each quantum.
    each_packet: bool,
}

/// Fair queueing with pacing.
#[derive(Debug, Clone)]
pub struct Fq {
    quantum: i64,
    initial: i64,
    limit: u64,
    flow_limit: u32,
    refill: Span,
    pacing: Option<Pacing>,
    queues: ConnectionQueues,
    label: Label,
    /// The round of queues that were empty before. The next field is the round of the other queues.
    new: Round,
    old: Round,
    /// Queues that are held, ordered by the ends of their pauses, then by their numbers.
    held: Tournament<Time>,
    /// Number of queued packets, without the packet on the wire.
    waiting: u64,
}

impl Fq {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Fq, ConfigErrors> {
        none_besides(setup, "fq")?;
        let values = &setup.scheduler;
        let rate = values.rate("flow-max-rate").filter(|rate| !rate.is_unlimited());
        if rate.is_none() {
            finite_rate(setup, "fq")?;
        }
        let low = values.rate("low-rate-threshold").unwrap_or(Rate::from_bits(550_000));
        let largest = u64::from(setup.largest);
        let initial = values.bytes("initial-quantum").unwrap_or(10 * largest);
        if !(1..=1 << 30).contains(&initial) {
            return Err(ConfigError {
                flow: None,
                param: "initial-quantum",
                what: format!("an initial quantum of {initial} B is out of range"),
                help: "from 1 B to 1 GiB".into(),
            }
            .into());
        }
        let queues = ConnectionQueues::new(setup)?;
        Ok(Fq {
            quantum: surplus_quantum(setup, 2 * largest)?,
            initial: initial as i64,
            limit: values.count("limit").unwrap_or(10_000),
            flow_limit: values.count("flow-limit").unwrap_or(100) as u32,
            refill: values.span("refill-delay").unwrap_or(Span::from_millis(40)),
            pacing: rate.map(|rate| Pacing { rate, each_packet: rate <= low }),
            queues,
            label: Label::default(),
            new: Round::EMPTY,
            old: Round::EMPTY,
            held: Tournament::new(queues.number()),
            waiting: 0,
        })
    }

    /// Sets the pause of a queue that has sent a packet, if a pause is due now.
    #[inline]
    fn pace(&self, state: &mut PacedFlow, sent: Sent) {
        let Some(Pacing { rate, each_packet }) = self.pacing else { return };
        let mut bytes = u64::from(sent.bytes);
        if each_packet {
            state.credit.clear();
        } else if state.credit.is_positive() {
            return;
        } else {
            bytes = bytes.max(self.quantum as u64);
        }
        let mut pause = rate.airtime_of_many(bytes);
        // If the queue waited for other queues after its last pause, this pause is shorter by that
        // time, but by half at most.
        if state.paused_until > Time::ZERO {
            pause = pause - Span(pause.0 / 2).min(sent.start.since(state.paused_until));
        }
        state.paused_until = sent.start + pause;
    }
}

impl Discipline for Fq {
    type State = PacedFlow;
    type Tag = ();
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, flows: &mut Flows<PacedFlow>) {
        for f in (0..flows.len() as u32).map(FlowId) {
            flows.state_mut(f).credit = Surplus::new(self.initial);
        }
    }

    /// The number of queues is kept: if a connection moved to another queue, its packets would be
    /// reordered. The rest of each pause is scaled to the new rate; without a maximum rate, before
    /// or after the change, it is skipped.
    fn migrate_from(&mut self, old: Fq, flows: &mut Flows<PacedFlow>, now: Time) {
        let Fq { quantum, initial, limit, flow_limit, refill, pacing, .. } = *self;
        let before = old.pacing;
        *self = Fq { quantum, initial, limit, flow_limit, refill, pacing, ..old };
        if before.map(|pacing| pacing.rate) == pacing.map(|pacing| pacing.rate) {
            return;
        }
        for f in (0..self.queues.number() as u32).map(FlowId) {
            let state = flows.state_mut(f);
            let rest = state.paused_until.since(now);
            let scaled = match (before, pacing) {
                (Some(before), Some(now)) => {
                    u128::from(rest.0) * u128::from(before.rate.0) / u128::from(now.rate.0)
                }
                _ => 0,
            };
            let scaled = Span(u64::try_from(scaled).unwrap_or(u64::MAX));
            state.paused_until = state.paused_until.min(now) + scaled;
            let until = state.paused_until;
            if self.held.tag(f).is_some() {
                self.held.set(f, until);
            }
        }
    }

    #[inline(always)]
    fn arrived(&mut self, _: &mut Flows<PacedFlow>, _: FlowId, _: u32, _: Time) {
        self.waiting += 1;
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<PacedFlow>, f: FlowId, now: Time) {
        let before = self.new.len();
        self.new.join(flows, f);
        if self.new.len() > before {
            let (initial, quantum) = (self.initial, self.quantum);
            let state = flows.state_mut(f);
            let empty = now.since(state.emptied);
            if empty > FORGOTTEN {
                state.credit = Surplus::new(initial);
            } else if empty > self.refill {
                state.credit = state.credit.max(Surplus::new(quantum));
            }
        }
    }

    /// Called only after a change of discipline, when the packet that the old discipline had on the
    /// wire has left.
    fn head_changed(&mut self, flows: &mut Flows<PacedFlow>, _: FlowId, _: Time) {
        self.waiting = (0..flows.len() as u32).map(|f| u64::from(flows.packets(FlowId(f)))).sum();
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<PacedFlow>, now: Time, _: &Wire) -> Decision {
        while let Some((_, f)) = self.held.first().filter(|(until, _)| *until <= now) {
            self.held.remove(f);
            self.old.join(flows, f);
        }
        loop {
            let (is_new, f) = match (self.new.first(), self.old.first()) {
                (Some(f), _) => (true, f),
                (None, Some(f)) => (false, f),
                (None, None) => {
                    let first = self.held.first();
                    return first.map_or(Decision::Idle, |(until, _)| Decision::NotBefore(until));
                }
            };
            let in_debt = !flows.state(f).credit.is_positive();
            let is_empty = flows.head(f).is_none();
            let until = flows.state(f).paused_until;
            if !in_debt && !is_empty && until <= now {
                return Decision::Serve(f);
            }
            if is_new {
                self.new.leave(flows);
            } else {
                self.old.leave(flows);
            }
            if in_debt {
                flows.state_mut(f).credit.add(self.quantum);
                self.old.join(flows, f);
            } else if !is_empty {
                self.held.set(f, until);
            } else if is_new && self.old.first().is_some() {
                // The empty queue first joins the old queues, so that new queues cannot starve
                // them.
                self.old.join(flows, f);
            } else {
                flows.state_mut(f).emptied = now;
            }
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<PacedFlow>, f: FlowId, sent: Sent) {
        self.waiting -= 1;
        let state = flows.state_mut(f);
        state.credit.pay(i64::from(sent.bytes));
        self.pace(state, sent);
    }
}

impl QueueHooks for Fq {
    #[inline]
    fn announce(&mut self, label: Label) {
        self.label = label;
    }

    #[inline]
    fn wants_labels(&self) -> bool {
        true
    }

    #[inline]
    fn place(&self, flow: FlowId) -> FlowId {
        self.queues.place(self.label.connection, flow)
    }

    fn own_queues(&self) -> Option<(usize, Limit)> {
        Some((self.queues.number(), Limit::Packets(self.flow_limit)))
    }

    #[inline]
    fn is_full(&self, _: &Flows<PacedFlow>) -> bool {
        self.waiting >= self.limit
    }

    /// Handles the drop of a head: a queue without packets is no longer held.
    fn head_dropped(
        &mut self,
        flows: &mut Flows<PacedFlow>,
        f: FlowId,
        _: u32,
        _: DropCause,
        now: Time,
    ) {
        self.waiting -= 1;
        if flows.head(f).is_none() && self.held.tag(f).is_some() {
            self.held.remove(f);
            flows.state_mut(f).emptied = now;
        }
    }

    fn dropped_behind_head(&mut self, _: &mut Flows<PacedFlow>, _: FlowId, _: u32, _: Time) {
        self.waiting -= 1;
    }
}

impl MediumHooks for Fq {
    fn seed(&mut self, seed: u64) {
        self.queues.seed(seed);
    }
}

impl Guarantees for Fq {
    fn service(&self, _: FlowId) -> Result<Guarantee, NoGuarantee> {
        let why = "connections share queues by a hash";
        Err(NoGuarantee(format!("{why}; `drr` with a queue for each flow gives guarantees")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::{Value, Values};
    use crate::scheduler::worked_example::{
        THREE_FLOWS, at_once, order, rate, setup, time, values,
    };
    use std::vec::Vec;

    /// Three flows with packets of up to 4 B, and a quantum and an initial quantum of 4 B.
    fn of<const N: usize>(more: [(&'static str, Value); N]) -> Setup {
        let four = Values::default()
            .with("quantum", Value::Bytes(4))
            .with("initial-quantum", Value::Bytes(4));
        let scheduler = more.into_iter().fold(four, |all, (name, value)| all.with(name, value));
        Setup { scheduler, ..setup(4, (0..3).map(|_| values([]))) }
    }

    #[test]
    fn flows_have_queues_of_their_own() {
        let fq = Fq::new(&of([])).expect("a valid setup");
        let mut queues: Vec<_> = (0..3).map(|f| fq.place(FlowId(f))).collect();
        queues.sort();
        queues.dedup();
        assert_eq!(queues.len(), 3);
    }

    /// A has spent its quantum at 4, B at 8. C is a new queue and is served first. At 14 it owes 2
    /// B, and moves behind the old queues of A and B.
    #[test]
    fn new_queues_go_before_old_ones() {
        let sent = order(&of([]), Fq::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 B1@8 C1@11 C2@14 A3@16 A4@18 B2@19 B3@22");
        // An initial quantum of 8 B covers all packets of A.
        let longer = of([("initial-quantum", Value::Bytes(8))]);
        let sent = order(&longer, Fq::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 A3@6 A4@8 B1@12 B2@13 B3@16 C1@19 C2@22");
    }

    /// A byte takes 2 us at the maximum rate, a quantum 8 us. A has spent its quantum when its
    /// second packet starts at 2, and is held until 10. Its fourth packet starts at 12, which is 2
    /// us late, so the next pause is shorter by 2 us.
    #[test]
    fn a_quantum_at_a_time_leaves_at_the_maximum_rate() {
        let paced = of([("flow-max-rate", rate(500))]);
        let sent = order(&paced, Fq::new, &at_once("AAAAAA", 2));
        assert_eq!(sent, "A1@2 A2@4 A3@12 A4@14 A5@20 A6@22");
        // The maximum rate is for each queue, so B sends while A is held.
        let sent = order(&paced, Fq::new, &at_once("AAAABB", 2));
        assert_eq!(sent, "A1@2 A2@4 B1@6 B2@8 A3@12 A4@14");
    }

    #[test]
    fn below_the_threshold_each_packet_has_a_pause() {
        let paced = of([("flow-max-rate", rate(500)), ("low-rate-threshold", rate(500))]);
        let sent = order(&paced, Fq::new, &at_once("AAAA", 2));
        assert_eq!(sent, "A1@2 A2@6 A3@10 A4@14");
    }

    /// If a packet is longer than a quantum, the pause is as long as the packet needs at the
    /// maximum rate.
    #[test]
    fn a_packet_above_the_quantum_has_its_own_time() {
        let paced = of([("quantum", Value::Bytes(1)), ("flow-max-rate", rate(500))]);
        let sent = order(&paced, Fq::new, &at_once("AAA", 4));
        assert_eq!(sent, "A1@4 A2@12 A3@20");
    }

    /// A has 1 B of its quantum left when it becomes empty at 3. B has sent half of a quantum when
    /// A has packets again. If they come before `refill-delay` has passed, the 1 B covers one
    /// packet, and then B sends its other half. If they come later, A has a full quantum, which
    /// covers both packets.
    #[test]
    fn an_idle_queue_has_a_quantum_again() {
        let refill = of([("refill-delay", time(20))]);
        let with_return = |at| {
            let bs = [(1, 'B', 2); 16];
            [&[(0, 'A', 3)], &bs[..], &[(at, 'A', 2), (at, 'A', 2)]].concat()
        };
        let sent = order(&refill, Fq::new, &with_return(8));
        assert!(sent.starts_with("A1@3 B1@5 B2@7 B3@9 A2@11 B4@13 A3@15 B5@17"), "{sent}");
        let sent = order(&refill, Fq::new, &with_return(32));
        assert!(sent.ends_with("B14@31 B15@33 A2@35 A3@37 B16@39"), "{sent}");
    }

    #[test]
    fn a_free_link_without_a_rate_has_nothing_to_share() {
        let unlimited = |more| Setup { rate: Rate::UNLIMITED, ..more };
        assert!(Fq::new(&unlimited(of([]))).is_err());
        assert!(Fq::new(&unlimited(of([("flow-max-rate", rate(1))]))).is_ok());
    }
}
