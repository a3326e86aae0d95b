//! Fair queueing with PIE, like Linux's `fq_pie` (Tahiliani and others 2019).
//!
//! A hash distributes connections over queues. Queues take turns as in fq_codel (RFC 8290), new
//! queues before old ones; PIE (RFC 8033) keeps each queue short. It drops or marks packets at
//! their arrival, by the delay of the packet that left the same queue last. If all queues together
//! are at the limit, the packet that arrives is dropped.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Draw};
use crate::contract::guarantee::{Guarantee, Guarantees, finite_rate};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::Place;
use crate::mechanisms::arrival_stamp::ArrivalStamp;
use crate::mechanisms::connection_queues::{ConnectionQueues, QUEUES};
use crate::mechanisms::deficit::{SURPLUS_QUANTUM, surplus_quantum};
use crate::mechanisms::new_and_old::{DeficitTurn, NewAndOld};
use crate::queues::aqm::none_besides;
use crate::queues::aqm::pie::{self, State};
use crate::queues::aqm::policy::PieParameters;
use crate::queues::aqm::verdict::Verdict;
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::draws::Draws;
use crate::units::label::Label;
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};
use alloc::format;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "fq_pie",
    doc: "fair queueing with PIE: a hash assigns connections to queues, which share the link as by \
          DRR and are each kept short by PIE",
    source: "Linux's fq_pie (Tahiliani and others 2019); RFC 8290, RFC 8033",
    cost: "O(1)",
    guarantee: "nothing",
    guarantee_source: "—",
    purposes: &[Purpose::Connections],
    aliases: &["flow queue pie", "fair queue pie", "sch fq pie"],
    scheduler: &[
        Param {
            name: "limit",
            kind: Kind::Count { min: 1, max: 1 << 20 },
            default: Some("10240"),
            doc: "the maximum number of packets in all queues together; beyond it the packet that \
                  arrives is dropped",
        },
        QUEUES,
        SURPLUS_QUANTUM,
        pie::PARAMS[0],
        pie::PARAMS[1],
        pie::PARAMS[2],
        pie::PARAMS[3],
        pie::PARAMS[4],
        pie::PARAMS[5],
        pie::PARAMS[6],
    ],
    draw: Draw::by(&[("quantum", draw::quantum), ("limit", draw::packets)]),
    ..Manifest::PLAIN
};

/// State of a queue.
#[derive(Clone, Debug, Default)]
pub struct FqPieFlow {
    turn: DeficitTurn,
    /// Queued bytes, without the packet on the wire.
    waiting: u64,
    pie: State,
}

impl AsMut<Place> for FqPieFlow {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.turn.place
    }
}

impl AsMut<DeficitTurn> for FqPieFlow {
    fn as_mut(&mut self) -> &mut DeficitTurn {
        &mut self.turn
    }
}

/// Fair queueing with PIE.
#[derive(Debug, Clone)]
pub struct FqPie {
    pie: PieParameters,
    largest: u32,
    limit: u64,
    queues: ConnectionQueues,
    label: Label,
    rounds: NewAndOld,
    /// Number of queued packets, without the packet on the wire.
    waiting: u64,
    marked: bool,
    draws: Draws,
}

impl FqPie {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<FqPie, ConfigErrors> {
        finite_rate(setup, "fq_pie")?;
        none_besides(setup, "fq_pie")?;
        Ok(FqPie {
            pie: PieParameters::new(&setup.scheduler)?,
            largest: setup.largest,
            limit: setup.scheduler.count("limit").unwrap_or(10_240),
            queues: ConnectionQueues::new(setup)?,
            label: Label::default(),
            rounds: NewAndOld::new(surplus_quantum(setup, u64::from(setup.largest))?),
            waiting: 0,
            marked: false,
            draws: Draws::new(0, 0),
        })
    }
}

impl Discipline for FqPie {
    type State = FqPieFlow;
    type Tag = ArrivalStamp;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, flows: &mut Flows<FqPieFlow, ArrivalStamp>) {
        for f in (0..flows.len() as u32).map(FlowId) {
            flows.state_mut(f).pie = State::new(&self.pie);
        }
    }

    /// The number of queues is kept: if a connection moved to another queue, its packets would be
    /// reordered.
    fn migrate_from(&mut self, old: FqPie, flows: &mut Flows<FqPieFlow, ArrivalStamp>, _: Time) {
        let FqPie { pie, largest, limit, .. } = *self;
        let rounds = old.rounds.clone().with_quantum(self.rounds.quantum());
        for f in (0..flows.len() as u32).map(FlowId) {
            flows.state_mut(f).pie.limit_burst(&pie);
        }
        *self = FqPie { pie, largest, limit, rounds, ..old };
    }

    #[inline(always)]
    fn arrived(
        &mut self,
        flows: &mut Flows<FqPieFlow, ArrivalStamp>,
        f: FlowId,
        bytes: u32,
        now: Time,
    ) -> ArrivalStamp {
        let Label { ecn, waited, .. } = core::mem::take(&mut self.label);
        flows.state_mut(f).waiting += u64::from(bytes);
        self.waiting += 1;
        ArrivalStamp::new(now.before(waited), ecn)
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<FqPieFlow, ArrivalStamp>, f: FlowId, _: Time) {
        self.rounds.join(flows, f);
    }

    /// Called only after a change of discipline, when the packet that the old discipline had on the
    /// wire has left.
    fn head_changed(&mut self, flows: &mut Flows<FqPieFlow, ArrivalStamp>, f: FlowId, _: Time) {
        flows.state_mut(f).waiting = u64::from(flows.bytes(f));
        self.waiting = (0..flows.len() as u32).map(|f| u64::from(flows.packets(FlowId(f)))).sum();
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<FqPieFlow, ArrivalStamp>, _: Time, _: &Wire) -> Decision {
        self.rounds.next(flows).map_or(Decision::Idle, |(f, _)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<FqPieFlow, ArrivalStamp>, f: FlowId, sent: Sent) {
        let arrival = flows.head_tag(f).arrival();
        let state = flows.state_mut(f);
        state.turn.deficit.pay(i64::from(sent.bytes));
        state.waiting -= u64::from(sent.bytes);
        self.waiting -= 1;
        // The delay of a queue in which no packet waits is zero.
        let delay = if state.waiting > 0 { sent.start.since(arrival) } else { Span::ZERO };
        state.pie.leaves(&self.pie, delay, sent.start);
    }
}

impl QueueHooks for FqPie {
    #[inline]
    fn announce(&mut self, label: Label) {
        self.label = label;
    }

    #[inline]
    fn place(&self, flow: FlowId) -> FlowId {
        self.queues.place(self.label.connection, flow)
    }

    fn own_queues(&self) -> Option<(usize, Limit)> {
        Some((self.queues.number(), Limit::Packets(u32::MAX)))
    }

    #[inline]
    fn is_full(&self, _: &Flows<FqPieFlow, ArrivalStamp>) -> bool {
        self.waiting >= self.limit
    }

    #[inline]
    fn verdict_at_arrival(
        &mut self,
        flows: &mut Flows<FqPieFlow, ArrivalStamp>,
        f: FlowId,
        _: u32,
        now: Time,
    ) -> Verdict {
        let (capable, draw) = (self.label.ecn.is_capable(), self.draws.draw());
        let FqPieFlow { pie, waiting, .. } = flows.state_mut(f);
        let verdict = pie.comes(&self.pie, self.largest, *waiting, capable, now, draw);
        self.marked = verdict == Verdict::Mark;
        verdict
    }

    #[inline]
    fn marked(&mut self) -> bool {
        core::mem::take(&mut self.marked)
    }

    #[inline]
    fn manages_queues(&self) -> bool {
        true
    }
}

impl MediumHooks for FqPie {
    fn seed(&mut self, seed: u64) {
        self.queues.seed(seed);
        self.draws = Draws::new(seed, 0);
    }
}

impl Guarantees for FqPie {
    fn service(&self, _: FlowId) -> Result<Guarantee, NoGuarantee> {
        let why = "connections share queues by a hash, and packets are dropped to keep the others' \
                   delays short";
        Err(NoGuarantee(format!("{why}; `drr` with a queue for each flow gives guarantees")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::{Value, Values};
    use crate::scheduler::Scheduler;
    use crate::scheduler::instance::SchedulerInstance;
    use crate::scheduler::worked_example::{THREE_FLOWS, order, packet, setup, values};
    use crate::units::label::Ecn;
    use crate::units::probability::Probability;
    use alloc::vec::Vec;

    /// Three flows with packets of up to 4 B, and a quantum of 4 B.
    fn of<const N: usize>(more: [(&'static str, Value); N]) -> Setup {
        let four = Values::default().with("quantum", Value::Bytes(4));
        let scheduler = more.into_iter().fold(four, |all, (name, value)| all.with(name, value));
        Setup { scheduler, ..setup(4, (0..3).map(|_| values([]))) }
    }

    /// A has spent its quantum at 4, B at 8. C is a new queue and is served first. At 14 it owes 2
    /// B, and moves behind the old queues of A and B. PIE lets the burst pass.
    #[test]
    fn new_queues_go_before_old_ones() {
        let sent = order(&of([]), FqPie::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 B1@8 C1@11 C2@14 A3@16 A4@18 B2@19 B3@22");
    }

    /// Sends a packet of A each 0.9 ms for 10 s, on a link that takes 1 ms for a packet. Returns
    /// the milliseconds at which packets were dropped, and those at which packets were marked.
    fn overload(ecn: Ecn, most: Probability) -> [Vec<u64>; 2] {
        let scheduler = values([
            ("ecn", Value::Choice("yes")),
            ("ecn-probability", Value::Probability(most)),
            ("queues", Value::Count(1)),
        ]);
        let setup = Setup { scheduler, ..setup(1_000, [values([])]) };
        let mut scheduler = SchedulerInstance::new(&setup, FqPie::new(&setup).expect("valid"));
        let (mut wire, mut end) = (Wire::new(setup.rate), None);
        let mut out = [Vec::new(), Vec::new()];
        for n in 0..11_000 {
            let now = Time::ZERO + Span::from_micros(n * 900);
            while let Some(at) = end.filter(|end| *end <= now) {
                scheduler.finish(FlowId(0), at);
                end = match scheduler.next(at, &wire) {
                    Decision::Serve(queue) => Some(scheduler.take(queue, at, &mut wire).1.end),
                    _ => None,
                };
            }
            scheduler.announce(Label { ecn, ..Label::default() });
            if scheduler.arrive(packet(now, 0, 1_000), now).is_err() {
                assert!(scheduler.by_policy());
                out[0].push(n * 9 / 10);
            } else if scheduler.marked() {
                out[1].push(n * 9 / 10);
            }
            assert!(!scheduler.marked(), "a packet is marked once");
            if end.is_none() {
                assert_eq!(scheduler.next(now, &wire), Decision::Serve(FlowId(0)));
                end = Some(scheduler.take(FlowId(0), now, &mut wire).1.end);
            }
        }
        out
    }

    /// The link can send nine of ten packets, so PIE drops a tenth of them. The queue does not
    /// react to marks. So packets are marked until the probability is above `ecn-probability`.
    #[test]
    fn packets_are_dropped_or_marked_at_their_arrival() {
        let tenth = Probability::of(1, 10);
        let [dropped, marked] = overload(Ecn::Not, tenth);
        assert!(marked.is_empty());
        assert!(dropped[0] > 150, "the burst passes: {}", dropped[0]);
        let later = dropped.iter().filter(|ms| **ms > 5_000).count();
        assert!((500..=600).contains(&later), "a tenth of 5500: {later}");
        let [dropped, marked] = overload(Ecn::Ect0, tenth);
        assert!(marked.len() > 5 && marked.last() < dropped.first(), "{marked:?}");
        let [dropped, marked] = overload(Ecn::Ect0, Probability::ALWAYS);
        assert!(dropped.is_empty() && marked.len() > 1_000, "{}", marked.len());
        let [dropped, marked] = overload(Ecn::Ect0, Probability::NEVER);
        assert!(dropped.len() > 500 && marked.is_empty(), "{}", dropped.len());
    }
}
