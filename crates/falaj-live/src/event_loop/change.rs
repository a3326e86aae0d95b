//! Changes of the link while packets are in transit.

use super::{Forwarder, LiveFlow};
use falaj_engine::handover::FlowMapping;
use falaj_engine::network::{NetworkChange, PipePlaces, Route};
use falaj_engine::transaction::{FlowChange, Transaction};
use falaj_engine::{ChangeError, DropReason, Output, PipeId, ecn};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Label;
use falaj_sched::units::time::Time;
use falaj_traffic::capture::Wanted;
use std::any::Any;
use std::cell::RefCell;

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedChange {
    /// The instant of the change.
    pub at: Time,
    /// Number of queued packets that the change dropped.
    pub dropped: u64,
}

impl Forwarder {
    /// Makes a change now, as a whole or not at all. Packets that have left their queue keep their
    /// time of delivery.
    ///
    /// # Errors
    /// Queued packets would be too large, a device is to pace a link although its port does not
    /// report when it has room, or another change was made since this one was prepared.
    pub fn change(&mut self, change: Transaction) -> Result<AppliedChange, ChangeError> {
        let now = self.clock.now();
        let Transaction { engine, flows, ingress, rules, order } = change;
        // Outputs decided before the change use the old numbers of flows.
        self.network.poll(now, &mut self.out);
        self.note();
        let mappings: Vec<(PipeId, &[FlowMapping])> =
            flows.iter().map(|flows| (flows.pipe, &flows.mappings[..])).collect();
        let begin: Vec<PipeId> = engine.begins().collect();
        self.may_be_paced(engine.by_devices())?;
        let (other_rules, heeded) = (rules.is_some(), self.network.wants_labels());
        let (units, ports, cut) = (&self.units, &self.ports, RefCell::new(&mut self.cut));
        let known = |handle: u32| match units.packet_of(handle) {
            Some(packet) => {
                let mut cut = cut.borrow_mut();
                let bytes = units.part(packet.unit, packet.index, packet.index + 1, &mut cut);
                ecn::label(&ports[units.port(packet.unit)].port.key(bytes))
            }
            None => Label::default(),
        };
        let around = NetworkChange { flows: &mappings, ingress, rules };
        self.guarantees.change_begins(now);
        let applied = self.network.apply(engine, around, &known, now, &mut self.out);
        if applied.is_err() {
            self.guarantees.change_ends(now);
        }
        applied?;
        let by_change = |output: &&Output| match output {
            Output::Drop(dropped) => dropped.why == DropReason::Changed,
            _ => false,
        };
        let dropped = self.out.iter().filter(by_change).count() as u64;
        if !(flows.is_empty() && begin.is_empty() && self.order == order) {
            self.occupancy_log.forget();
        }
        for FlowChange { pipe, mappings, number } in flows {
            self.renumber_flows(pipe, &mappings, number);
        }
        self.pipes_begin(&begin);
        self.order = order;
        // Units that wait at a port may have been read without the keys (header fields) that are
        // needed now.
        if other_rules || !heeded && self.network.wants_labels() {
            self.sort_anew();
        }
        // Outputs decided by the change use the new numbers of flows.
        self.note();
        self.guarantees.change_ends(now);
        // Ports were checked before. A port that fails now gets packets as if its device paced no
        // link.
        let _ = self.pace();
        Ok(AppliedChange { at: now, dropped })
    }

    /// Records a change in the capture, if there is one.
    pub fn write_down(&mut self, wanted: Wanted, at: Time) {
        if let Some(recorder) = &mut self.recorder {
            recorder.changed(wanted, at, self.arrived);
        }
    }

    /// See [`falaj_engine::Engine::take_deferred_drops`].
    pub fn take_deferred_drops(&mut self) -> Vec<Box<dyn Any + Send>> {
        self.network.take_deferred_drops()
    }

    /// The places of pipes, occupied and vacant; no packet of a vacant place is in transit.
    pub fn places(&self) -> PipePlaces {
        let mut places = self.network.places();
        let released = |place: &u32| {
            (2 * place..2 * place + 2).all(|pipe| !self.releases.has_any_of(PipeId(pipe)))
        };
        places.vacant.retain(released);
        places
    }

    fn pipes_begin(&mut self, begin: &[PipeId]) {
        let flows = self.network.flows();
        self.flows.resize(flows.len(), Vec::new());
        self.active.resize(flows.len(), Vec::new());
        for p in begin.iter().map(|pipe| pipe.0 as usize) {
            self.flows[p] = vec![LiveFlow::among(flows.iter().sum()); flows[p]];
            self.active[p] = vec![Time::NEVER; flows[p]];
        }
    }

    /// Discards the routes of units that wait at ports, and reads their keys again, so that the
    /// present rules route them.
    fn sort_anew(&mut self) {
        for (port, waiting) in self.ports.iter().zip(&mut self.waiting) {
            if let Some(waiting) = waiting {
                waiting.entry = None;
                let unit =
                    self.units.part(waiting.unit, 0, waiting.received.packets(), &mut self.cut);
                waiting.key = port.port.key(unit);
            }
        }
    }

    fn renumber_flows(&mut self, pipe: PipeId, mappings: &[FlowMapping], number: usize) {
        let become_other =
            |flow: FlowId| mappings.get(flow.index()).map_or(flow, |mapping| mapping.flow());
        let p = pipe.0 as usize;
        let old = std::mem::take(&mut self.flows[p]);
        let active = std::mem::take(&mut self.active[p]);
        let all = self.flows.iter().map(Vec::len).sum::<usize>() + number;
        self.flows[p] = vec![LiveFlow::among(all); number];
        self.active[p] = vec![Time::NEVER; number];
        for (f, (flow, active)) in old.into_iter().zip(active).enumerate() {
            match mappings.get(f) {
                Some(FlowMapping::Is(is)) => {
                    (self.flows[p][is.index()], self.active[p][is.index()]) = (flow, active);
                }
                // The flow was removed: the engine counts it among removed flows, and its
                // measurements are dropped.
                Some(_) => {}
                None => (self.flows[p][f], self.active[p][f]) = (flow, active),
            }
        }
        let entries =
            self.waiting.iter_mut().flatten().filter_map(|waiting| waiting.entry.as_mut());
        for Route { flow, .. } in entries.filter(|entry| entry.pipe == pipe) {
            *flow = become_other(*flow);
        }
        self.releases.renumber_flows(pipe, become_other);
    }
}
