//! Deficit round robin.
//!
//! Shreedhar and Varghese, "Efficient fair queueing using deficit round robin" (1995). Each visit
//! gives a flow its quantum. The flow sends while its deficit covers the head. It keeps the rest of
//! the deficit for the next visit, and loses it when its queue is empty. The queue is tested only
//! after the end of the transmission ("lazy reset"): if a packet arrives during the transmission,
//! the flow's turn continues.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Draw};
use crate::contract::guarantee::{
    Guarantee, Guarantees, ServiceLimits, Settling, StaircaseCurve, VisitLimits, finite_rate,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::deficit::{DeficitFlow, DeficitRound, QUANTA, QUANTUM, Quanta};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "drr",
    doc: "deficit round robin: flows share the link in proportion to their quanta, O(1)",
    source: "Shreedhar and Varghese 1995",
    cost: "O(1)",
    guarantee: "rate and delay",
    guarantee_source: "Boyer, Stea and Sofack 2012; Tabatabaee and Le Boudec 2021",
    purposes: &[Purpose::Share],
    aliases: &["deficit round robin"],
    example: Example { scheduler: "", calls: "quantum = \"6000B\"", rest: "quantum = \"3000B\"" },
    scheduler: &[QUANTA],
    flow: &[QUANTUM],
    editable: &[("quantum", "Quantum")],
    draw: Draw::by(&[("quantum", draw::quantum)]),
    ..Manifest::PLAIN
};

/// Deficit round robin.
#[derive(Debug, Clone)]
pub struct Drr {
    quanta: Quanta,
    round: DeficitRound,
}

impl Drr {
    /// Validates the setup. A quantum below the largest packet makes a decision cost more than
    /// O(1), so it must be allowed explicitly.
    pub fn new(setup: &Setup) -> Result<Drr, ConfigErrors> {
        finite_rate(setup, "deficit round robin")?;
        Ok(Drr { quanta: Quanta::new(setup)?, round: DeficitRound::EMPTY })
    }
}

impl Discipline for Drr {
    type State = DeficitFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<DeficitFlow>) {
        for (f, &quantum) in self.quanta.each.iter().enumerate() {
            *flows.state_mut(FlowId(f as u32)) = DeficitFlow::new(quantum);
        }
    }

    /// The round and the deficits are kept. A deficit is reduced to the most that a flow may carry
    /// over with the new quantum.
    fn migrate_from(&mut self, old: Drr, flows: &mut Flows<DeficitFlow>, _: Time) {
        self.round = old.round;
        for (f, &quantum) in self.quanta.each.iter().enumerate() {
            flows.state_mut(FlowId(f as u32)).set_quantum(quantum);
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<DeficitFlow>, f: FlowId, _: Time) {
        self.round.join(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<DeficitFlow>, _: Time, _: &Wire) -> Decision {
        while self.round.first().is_some() {
            if let Some(f) = self.round.visit(flows) {
                return Decision::Serve(f);
            }
        }
        Decision::Idle
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<DeficitFlow>, f: FlowId, sent: Sent) {
        flows.state_mut(f).pay(sent.bytes);
    }
}

impl QueueHooks for Drr {}
impl MediumHooks for Drr {}

impl Guarantees for Drr {
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        Ok(self.quanta.guarantee(f))
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(0)
    }

    fn turns(&self, f: FlowId) -> Option<StaircaseCurve> {
        Some(self.quanta.visits_among_all(f).turns())
    }

    fn limits(&self, f: FlowId) -> Option<ServiceLimits> {
        let (quantum, carried) = (self.quanta.of(f), self.quanta.largest);
        Some(ServiceLimits::Visits(VisitLimits { quantum, carried }))
    }

    fn serves_strictly(&self) -> bool {
        true
    }

    fn service_behind(&self, f: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee> {
        Ok(self.service(f)?.after(server.latency))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contract::params::Value;
    use crate::queues::queue::{Limit, Packet};
    use crate::scheduler::worked_example::{
        THREE_FLOWS, departures, guarantee, longest_delay, order, packet, setup, values,
    };
    use crate::units::time::Span;
    use std::vec::Vec;

    fn quanta(largest: u32, quanta: &[u64]) -> Setup {
        setup(largest, quanta.iter().map(|&n| values([("quantum", Value::Bytes(n))])))
    }

    #[test]
    fn drr_serves_in_proportion_to_the_quanta() {
        let sent = order(&quanta(4, &[4, 4, 4]), Drr::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 B1@8 C1@11 A3@13 A4@15 B2@16 B3@19 C2@22");
        let sent = order(&quanta(4, &[8, 4, 4]), Drr::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 A3@6 A4@8 B1@12 C1@15 B2@16 B3@19 C2@22");
        // If quanta are smaller than a packet, deficits accumulate from visit to visit.
        let any = |n: [u64; 3]| {
            let scheduler = values([("quanta", Value::Choice("any"))]);
            order(&Setup { scheduler, ..quanta(4, &n) }, Drr::new, THREE_FLOWS)
        };
        assert_eq!(any([2, 2, 2]), "A1@2 A2@4 B1@8 C1@11 A3@13 B2@14 C2@17 A4@19 B3@22");
        assert_eq!(any([4, 2, 2]), "A1@2 A2@4 A3@6 A4@8 B1@12 C1@15 B2@16 C2@19 B3@22");
    }

    /// If a packet arrives while the flow's last packet is on the wire, the flow keeps its turn and
    /// its deficit. With a reset at the start of that transmission, B would be sent first.
    #[test]
    fn drr_looks_whether_a_flow_is_empty_after_its_last_bit() {
        let setup = quanta(4, &[4, 4]);
        let meanwhile = [(0, 'A', 2), (0, 'B', 4), (0, 'B', 4), (1, 'A', 2)];
        assert_eq!(order(&setup, Drr::new, &meanwhile), "A1@2 A2@4 B1@8 B2@12");
        // A packet that arrives with the last bit is too late for the turn.
        let too_late = [(0, 'A', 2), (0, 'B', 4), (0, 'B', 4), (2, 'A', 2)];
        assert_eq!(order(&setup, Drr::new, &too_late), "A1@2 B1@6 A2@8 B2@12");
    }

    /// A queue is filled with 30001 B just after each of `n` other flows has sent one byte in its
    /// first visit. The remaining 1499 B of each do not cover its next packet of 1500 B, and are
    /// carried over. Returns that instant and the packets.
    pub(crate) fn a_burst_behind_what_others_carried_over(n: u32) -> (Time, Vec<Packet>) {
        let others = (1..=n).flat_map(|flow| {
            let sizes = [1, 1_500, 1_499].into_iter().chain([1_500; 60]);
            sizes.map(move |bytes| packet(Time::ZERO, flow, bytes))
        });
        let at = Time::ZERO + Span::from_micros(n.into()) + Span(1);
        let burst = [1].into_iter().chain([1_500; 20]).map(|bytes| packet(at, 0, bytes));
        (at, others.chain(burst).collect())
    }

    /// The bound is reached within the time of a few bytes.
    #[test]
    fn the_bound_of_drr_is_reached() {
        for n in [1, 3, 16] {
            let mut setup = quanta(1_500, &std::vec![1_500; n as usize + 1]);
            setup.flows[0].limit = Limit::Bytes(30_001);
            let (_, packets) = a_burst_behind_what_others_carried_over(n);
            let worst = longest_delay(&departures(&setup, Drr::new, &packets), 0);
            let bound = guarantee(&setup, Drr::new, 0).delay.delay;
            let few_bytes = Span::from_micros(u64::from(n) + 1);
            assert!(worst <= bound && bound - worst <= few_bytes, "{n}: {worst}, bound {bound}");
        }
    }
}
