//! Deficit round robin.
//!
//! Shreedhar and Varghese, "Efficient fair queueing using deficit round
//! robin" (1995). Each visit gives a flow its quantum; it sends while its
//! deficit covers the head, keeps the rest for the next visit, and loses it
//! when it runs empty. Whether it ran empty is seen after the transmission
//! ended ("lazy reset"): a packet that came meanwhile keeps the flow's turn.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Draw};
use crate::contract::guarantee::{Guarantees, Promise, StaircaseCurve, finite_rate};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoPromise;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::deficit::{DeficitFlow, DeficitRound, QUANTA, QUANTUM, Quanta};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;

/// How it is named and set.
pub const MANIFEST: Manifest = Manifest {
    kind: "drr",
    doc: "deficit round robin: shares in proportion to the quanta, O(1)",
    source: "Shreedhar and Varghese 1995",
    cost: "O(1)",
    guarantee: "rate and delay",
    guarantee_source: "Boyer, Stea and Sofack 2012; Tabatabaee and Le Boudec 2021",
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
    /// Validates the setup: a quantum below the largest packet makes a
    /// decision cost more than O(1), and has to be allowed.
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

    /// The round and the deficits stay, these as far as they are below what a
    /// flow may carry over under the new quantum.
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
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        Ok(self.quanta.promise(f))
    }

    fn turns(&self, f: FlowId) -> Option<StaircaseCurve> {
        self.quanta.visits(f, |j| j != f).turns()
    }

    fn serves_strictly(&self) -> bool {
        true
    }

    fn service_behind(&self, f: FlowId, server: &Promise) -> Result<Promise, NoPromise> {
        Ok(self.service(f)?.after(server.latency))
    }
}
