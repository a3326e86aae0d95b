//! Changes of the link while packets are on their way.

use super::{Forwarder, LiveFlow};
use falaj_engine::account::Account;
use falaj_engine::change::Fate;
use falaj_engine::classifier::Classifier;
use falaj_engine::each::Masks;
use falaj_engine::{Output, PipeId, Prepared, Unfit, Why};
use falaj_sched::queue::FlowId;
use falaj_sched::time::Time;

/// Which packets are whose, and what of them counts, at the entrance of a pipe.
pub struct Rules {
    /// The pipe.
    pub pipe: PipeId,
    /// Whose.
    pub classifier: Classifier,
    /// What counts.
    pub account: Account,
    /// What makes queues and links of its own.
    pub masks: Masks,
}

/// What becomes of a pipe's flows.
pub struct Flows {
    /// The pipe.
    pub pipe: PipeId,
    /// Of each that there is.
    pub fates: Vec<Fate>,
    /// How many there are from now on.
    pub number: usize,
}

/// A change that was found good, apart from what happened since.
pub struct Change {
    /// Of the pipes.
    pub engine: Prepared,
    /// Of their flows, where these are others.
    pub flows: Vec<Flows>,
    /// Of what the ports do, where that is another.
    pub rules: Vec<Rules>,
}

/// A change that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// When.
    pub at: Time,
    /// Packets that waited and were dropped by it.
    pub dropped: u64,
}

impl Forwarder {
    /// Makes a change now, all of it or nothing. Packets that have left their queue are
    /// handed over when they were to be.
    ///
    /// # Errors
    /// Packets wait that would be too large, or another change came between.
    pub fn change(&mut self, change: Change) -> Result<Changed, Unfit> {
        let now = self.clock.now();
        let Change { engine, flows, rules } = change;
        // What was decided before the change names flows as they were.
        self.engine.poll(now, &mut self.out);
        self.note();
        self.engine.apply(engine, now, &mut self.out)?;
        let by_change = |output: &&Output| matches!(output, Output::Drop(dropped) if dropped.why == Why::Changed);
        let dropped = self.out.iter().filter(by_change).count() as u64;
        for Flows { pipe, fates, number } in flows {
            self.flows_become(pipe, &fates, number);
        }
        // What the change decided on names flows as they are from now on.
        self.note();
        for Rules { pipe, classifier, account, masks } in rules {
            for attached in self.ports.iter_mut().filter(|attached| attached.pipe == pipe) {
                attached.port.sort_by(classifier.clone(), account, masks.clone());
            }
        }
        Ok(Changed { at: now, dropped })
    }

    fn flows_become(&mut self, pipe: PipeId, fates: &[Fate], number: usize) {
        let become_other = |flow: FlowId| fates.get(flow.index()).map_or(flow, |fate| fate.flow());
        let p = pipe.0 as usize;
        let old = std::mem::take(&mut self.flows[p]);
        let active = std::mem::take(&mut self.active[p]);
        self.flows[p] = vec![LiveFlow::default(); number];
        self.active[p] = vec![Time::NEVER; number];
        for (f, (flow, active)) in old.into_iter().zip(active).enumerate() {
            match fates.get(f) {
                Some(Fate::Is(is)) => (self.flows[p][is.index()], self.active[p][is.index()]) = (flow, active),
                Some(_) => self.gone[p].add(&flow),
                None => (self.flows[p][f], self.active[p][f]) = (flow, active),
            }
        }
        for waiting in self.waiting.iter_mut().flatten().filter(|waiting| self.ports[waiting.port].pipe == pipe) {
            waiting.flow = become_other(waiting.flow);
        }
        self.releases.flows_become(pipe, become_other);
        let ports = &self.ports;
        self.units.flows_become(|port| ports[port].pipe == pipe, become_other);
    }
}
