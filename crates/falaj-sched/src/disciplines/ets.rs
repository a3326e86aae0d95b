//! Enhanced transmission selection (IEEE 802.1Qaz): flows with a strict priority are served first;
//! the other flows share the rest of the link by deficit round robin.
//!
//! It works like Linux's `ets`, except that flows are not bands: several flows may have the same
//! priority, and then take turns; each of the other flows has its own quantum. A flow with a
//! priority interrupts a visit between two packets.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Dice, Draw};
use crate::contract::guarantee::{Guarantee, Guarantees, finite_rate, room_for_one};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup, Value, Values};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::Place;
use crate::mechanisms::deficit::{DeficitFlow, DeficitRound, QUANTUM, Quanta};
use crate::mechanisms::levels::{Levels, TopLevel};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "ets",
    doc: "enhanced transmission selection: flows with a priority go first, and the other flows \
          share the rest by DRR",
    source: "IEEE 802.1Qaz; Linux's sch_ets",
    cost: "O(1)",
    guarantee: "rate and delay, to the highest priority; without priorities, to all flows",
    guarantee_source: "as `priority` and `drr`",
    purposes: &[Purpose::Precedence],
    aliases: &["enhanced transmission selection"],
    example: Example { scheduler: "", calls: "priority = 0", rest: "" },
    flow: &[
        Param {
            name: "priority",
            kind: Kind::Count { min: 0, max: 65_535 },
            default: Some("none: the flow shares what flows with a priority leave"),
            doc: "the strict priority of the flow: 0 is served first; flows of one priority take \
                  turns, one packet each; cannot be combined with `quantum`",
        },
        QUANTUM,
    ],
    editable: &[("quantum", "Quantum")],
    draw: Draw { fit, ..Draw::by(&[("quantum", draw::quantum)]) },
    ..Manifest::PLAIN
};

/// Draws a priority or a quantum for each flow; often no flow has a priority.
fn fit(setup: &mut Setup, dice: Dice<'_>) {
    let largest = u64::from(setup.largest);
    let strict = dice(0, 2);
    for flow in &mut setup.flows {
        flow.values = match dice(0, 2) < strict {
            true => Values::default().with("priority", Value::Count(dice(0, 2))),
            false => Values::default().with("quantum", Value::Bytes(largest + dice(0, 20))),
        };
    }
}

/// Enhanced transmission selection.
#[derive(Debug, Clone)]
pub struct Ets {
    priorities: Vec<Option<u64>>,
    quanta: Quanta,
    strict: Levels,
    round: DeficitRound,
    guaranteed: TopLevel,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct EtsFlow {
    drr: DeficitFlow,
    /// Priority level of a strict flow.
    level: Option<u32>,
}

impl AsMut<Place> for EtsFlow {
    fn as_mut(&mut self) -> &mut Place {
        self.drr.as_mut()
    }
}

impl AsMut<DeficitFlow> for EtsFlow {
    fn as_mut(&mut self) -> &mut DeficitFlow {
        &mut self.drr
    }
}

impl Ets {
    /// Validates the setup: a flow may have a priority or a quantum, but not both.
    pub fn new(setup: &Setup) -> Result<Ets, ConfigErrors> {
        finite_rate(setup, "enhanced transmission selection")?;
        room_for_one(setup)?;
        let priorities: Vec<Option<u64>> =
            setup.flows.iter().map(|f| f.values.count("priority")).collect();
        let both =
            |f: usize| priorities[f].is_some() && setup.flows[f].values.bytes("quantum").is_some();
        if let Some(flow) = (0..priorities.len()).find(|&f| both(f)) {
            return Err(ConfigError {
                flow: Some(flow),
                param: "quantum",
                what: "a flow with a priority has no quantum".into(),
                help: "leave out one of the two".into(),
            }
            .into());
        }
        Ok(Ets {
            strict: Levels::new(priorities.iter().copied().flatten()),
            priorities,
            quanta: Quanta::new(setup)?,
            round: DeficitRound::EMPTY,
            guaranteed: TopLevel::new(setup),
        })
    }

    #[inline]
    fn join(&mut self, flows: &mut Flows<EtsFlow>, f: FlowId) {
        match flows.state(f).level {
            Some(level) => self.strict.join(flows, level, f),
            None => self.round.join(flows, f),
        }
    }
}

impl Discipline for Ets {
    type State = EtsFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<EtsFlow>) {
        for (f, &quantum) in self.quanta.each.iter().enumerate() {
            let level = self.priorities[f].map(|p| self.strict.rank(p));
            *flows.state_mut(FlowId(f as u32)) = EtsFlow { drr: DeficitFlow::new(quantum), level };
        }
    }

    /// State is kept as in strict priority and DRR. A flow that gets or loses its priority joins
    /// its new round last.
    fn migrate_from(&mut self, mut old: Ets, flows: &mut Flows<EtsFlow>, _: Time) {
        let (strict, sending) = old.strict.dissolve(flows);
        let (shares, visited) = old.round.dissolve(flows);
        for (f, &quantum) in self.quanta.each.iter().enumerate() {
            let state = flows.state_mut(FlowId(f as u32));
            state.drr.set_quantum(quantum);
            state.level = self.priorities[f].map(|p| self.strict.rank(p));
        }
        let (stay, change) =
            strict.into_iter().partition::<Vec<_>, _>(|&f| flows.state(f).level.is_some());
        for f in stay.into_iter().chain(shares).chain(change) {
            self.join(flows, f);
        }
        if let Some((f, level)) = sending.and_then(|f| Some((f, flows.state(f).level?))) {
            self.strict.take(level, f);
        }
        if let Some(f) = visited {
            self.round.resume(f);
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<EtsFlow>, f: FlowId, _: Time) {
        self.join(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<EtsFlow>, _: Time, _: &Wire) -> Decision {
        self.round.conclude(flows);
        if let Some(f) = self.strict.next(flows) {
            return Decision::Serve(f);
        }
        while self.round.first().is_some() {
            if let Some(f) = self.round.visit(flows) {
                return Decision::Serve(f);
            }
        }
        Decision::Idle
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<EtsFlow>, f: FlowId, sent: Sent) {
        let state = flows.state_mut(f);
        match state.level {
            Some(level) => self.strict.take(level, f),
            None => state.drr.pay(sent.bytes),
        }
    }
}

impl QueueHooks for Ets {}
impl MediumHooks for Ets {}

impl Guarantees for Ets {
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let top = self.priorities.iter().flatten().min();
        match (self.priorities[f.index()], top) {
            (Some(own), Some(&top)) if own == top => {
                let equals = self.priorities.iter().filter(|&&p| p == Some(own)).count();
                Ok(self.guaranteed.service(f, equals as u64, equals < self.priorities.len()))
            }
            (_, Some(top)) => Err(NoGuarantee(format!(
                "flows of priority {top} may fill the link: the rest depends on how much \
                 they send; divide the link by `drr` or `virtual-links`"
            ))),
            (_, None) => Ok(self.quanta.guarantee(f)),
        }
    }

    /// Returns true, as for strict priority and DRR, whose guarantees this discipline combines.
    fn serves_strictly(&self) -> bool {
        true
    }

    fn service_behind(&self, f: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee> {
        Ok(self.service(f)?.after(server.latency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disciplines::drr::Drr;
    use crate::scheduler::worked_example::{order, setup, values};

    #[test]
    fn strict_flows_come_before_visits_and_interrupt_them() {
        let priority = |n| values([("priority", Value::Count(n))]);
        let quantum = |bytes| values([("quantum", Value::Bytes(bytes))]);
        let mixed = setup(4, [priority(1), priority(0), quantum(6), quantum(4)]);
        let packets = [
            (0, 'C', 3),
            (0, 'C', 3),
            (0, 'D', 4),
            (0, 'C', 2),
            (1, 'A', 2),
            (2, 'A', 2),
            (3, 'B', 1),
        ];
        let sent = order(&mixed, Ets::new, &packets);
        assert_eq!(sent, "C1@3 A1@5 B1@6 A2@8 C2@11 D1@15 C3@17");
        let ets = Ets::new(&mixed).unwrap();
        let guaranteed = [0, 1, 2, 3].map(|flow| ets.service(FlowId(flow)).is_ok());
        assert_eq!(guaranteed, [false, true, false, false]);
        let visits = setup(4, [quantum(6), quantum(4)]);
        let (ets, drr) = (Ets::new(&visits).unwrap(), Drr::new(&visits).unwrap());
        assert_eq!(ets.service(FlowId(0)), drr.service(FlowId(0)), "alone they share by DRR");
    }
}
