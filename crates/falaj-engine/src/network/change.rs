//! Changes of a network while packets are in it.

use super::in_transit::InTransit;
use super::ingress::Ingress;
use super::{Network, reads_labels};
use crate::change::{ChangeError, Prepared};
use crate::classifier::Classifier;
use crate::counted_layer::CountedLayer;
use crate::handover::FlowMapping;
use crate::key::Key;
use crate::masks::Masks;
use crate::message::{Output, PipeId};
use crate::rules::{RouteRule, RuleSet};
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::time::Time;
use std::cmp::Reverse;

/// The classification, accounting and masks of packets that enter a pipe.
#[derive(Debug, Clone)]
pub struct IngressChange {
    /// The pipe.
    pub pipe: PipeId,
    /// Assigns packets to flows.
    pub classifier: Classifier,
    /// The layer whose bytes count.
    pub layer: CountedLayer,
    /// The masks that create queues and links for ids.
    pub masks: Masks,
}

/// The changes of flows, classification and rules that are made together with changes of pipes.
#[derive(Default)]
pub struct NetworkChange<'a> {
    /// The mapping of flows, for pipes whose flows change.
    pub flows: &'a [(PipeId, &'a [FlowMapping])],
    /// The new classification of packets, for pipes where it changes.
    pub ingress: Vec<IngressChange>,
    /// New rules.
    pub rules: Option<RuleChange>,
}

/// Rules that replace the current rules.
pub struct RuleChange {
    rules: RuleSet,
    become_others: Vec<Option<u32>>,
    bypass: u32,
}

impl RuleChange {
    /// The new rules, which name links by their places (see [`PipePlaces`]). Each current rule
    /// becomes one of the new rules, or is removed (`None`). `bypass` is the place for packets that
    /// pass no link, if a rule allows that: two pipes of [`unlimited`](super::unlimited).
    pub fn new(
        rules: Vec<RouteRule>,
        seed: u64,
        become_others: Vec<Option<u32>>,
        bypass: u32,
    ) -> RuleChange {
        RuleChange { rules: RuleSet::new(rules, seed), become_others, bypass: 2 * bypass }
    }
}

/// The places of pipes, occupied and vacant; the two directions of a link share one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipePlaces {
    /// Number of places.
    pub number: u32,
    /// The places whose links have ended and hold no packets.
    pub vacant: Vec<u32>,
    /// The place for packets that pass no link, if there is one.
    pub bypass: Option<u32>,
}

impl Network {
    /// Makes a prepared change of pipes, see [`Engine::apply`](crate::Engine::apply): the flows of
    /// these pipes are mapped, and from then on packets are classified anew. Packets between two
    /// pipes stay with their flow. If the rules change, the new rules apply to packets in a link
    /// when they leave it. `known` returns the label of a packet's handle, for pipes that read
    /// labels from now on.
    ///
    /// # Errors
    /// The errors of the engine; nothing changes then.
    pub fn apply(
        &mut self,
        change: Prepared,
        around: NetworkChange<'_>,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Result<(), ChangeError> {
        self.poll(now, out);
        if self.rules.is_some() {
            if !self.wants_labels() {
                self.learn(known);
            }
            let passing = &self.passing;
            let known = |slot: u32| {
                passing.get(slot as usize).map_or(Label::default(), |place| place.label)
            };
            self.engine.apply_with_labels(change, &known, now, &mut self.inner)?;
        } else {
            self.engine.apply_with_labels(change, known, now, out)?;
        }
        let NetworkChange { flows, ingress, rules } = around;
        self.reads_labels = reads_labels(&self.engine);
        self.places.resize(self.places.len().max(self.reads_labels.len()), Ingress::open());
        for IngressChange { pipe, classifier, layer, masks } in ingress {
            if let Some(place) = self.places.get_mut(pipe.0 as usize) {
                *place = Ingress::new(classifier, layer, masks);
            }
        }
        if !self.hops.is_empty() && !flows.is_empty() {
            let mut hops = std::mem::take(&mut self.hops).into_vec();
            for Reverse(hop) in &mut hops {
                let mappings = flows
                    .iter()
                    .find(|(pipe, _)| pipe.0 == hop.pipe)
                    .map_or(&[][..], |(_, mappings)| mappings);
                hop.flow =
                    mappings.get(hop.flow as usize).map_or(hop.flow, |mapping| mapping.flow().0);
            }
            self.hops = hops.into();
        }
        if let Some(rules) = rules {
            self.lead(rules, known);
        }
        self.sort(out);
        Ok(())
    }

    /// Sets the labels of the packets in the network, which are not tracked while no pipe reads
    /// them. The earliness that pipes have set stays.
    fn learn(&mut self, known: Known<'_>) {
        let mut within = vec![true; self.passing.len()];
        self.free.iter().for_each(|&slot| within[slot as usize] = false);
        for (place, _) in self.passing.iter_mut().zip(within).filter(|(_, within)| *within) {
            place.label = Label { earliness: place.label.earliness, ..known(place.handle) };
            place.bits = place.label.ecn;
        }
    }

    /// Replaces the rules.
    fn lead(
        &mut self,
        RuleChange { mut rules, become_others, bypass }: RuleChange,
        known: Known<'_>,
    ) {
        match self.rules.take() {
            Some(old) => {
                rules.migrate_from(&old, &become_others);
                for place in &mut self.passing {
                    place.at = place.at.and_then(|at| rules.instead_of(&old, &become_others, at));
                }
            }
            None => {
                // Without rules, packets are known by the driver's handles, and each leaves the
                // network at the end of its link.
                let number = if self.places.is_empty() { 0 } else { self.highest + 1 };
                self.passing = (0..number).map(InTransit::known_by).collect();
                self.keys = vec![Key::default(); self.passing.len()];
                self.learn(known);
            }
        }
        if rules.pass() {
            self.bypass = Some(bypass);
        }
        self.chain |= rules.chain();
        self.rules = Some(rules);
    }

    /// The places of pipes, occupied and vacant.
    pub fn places(&self) -> PipePlaces {
        let number = self.reads_labels.len() as u32 / 2;
        let pipes = |place: u32| [PipeId(2 * place), PipeId(2 * place + 1)];
        let is_vacant = |pipe: PipeId| {
            let comes = || self.hops.iter().any(|hop| hop.0.pipe == pipe.0);
            self.engine.has_ended(pipe) && self.engine.is_empty(pipe) && !comes()
        };
        let vacant = (0..number).filter(|place| pipes(*place).into_iter().all(is_vacant)).collect();
        PipePlaces { number, vacant, bypass: self.bypass.map(|pipe| pipe / 2) }
    }
}
