//! Changes while packets pass.

use super::in_transit::InTransit;
use super::ingress::Ingress;
use super::{Network, heeds};
use crate::account::Account;
use crate::change::{ChangeError, Prepared};
use crate::classifier::Classifier;
use crate::handover::FlowMapping;
use crate::key::Key;
use crate::masks::Masks;
use crate::message::{Output, PipeId};
use crate::rules::{RouteRule, RuleSet};
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::time::Time;
use std::cmp::Reverse;

/// Which packets are whose, what of them counts, and which are many, at the entrance of a pipe.
#[derive(Debug, Clone)]
pub struct IngressChange {
    /// The pipe.
    pub pipe: PipeId,
    /// Whose.
    pub classifier: Classifier,
    /// What counts.
    pub account: Account,
    /// What makes queues and links of its own.
    pub masks: Masks,
}

/// What changes around pipes, with them.
#[derive(Default)]
pub struct NetworkChange<'a> {
    /// What becomes of flows, where these are others.
    pub flows: &'a [(PipeId, &'a [FlowMapping])],
    /// How packets are sorted from then on, where that is another.
    pub sorted: Vec<IngressChange>,
    /// Other rules.
    pub rules: Option<RuleChange>,
}

/// Rules that take over from those that there are.
pub struct RuleChange {
    rules: RuleSet,
    become_others: Vec<Option<u32>>,
    bypass: u32,
}

impl RuleChange {
    /// These rules, whose links are the engine's places. Of those that there were each becomes one
    /// of these, or goes. `bypass` is the place for what passes no link, where a rule lets it:
    /// two pipes of [`unlimited`](super::unlimited).
    pub fn new(
        rules: Vec<RouteRule>,
        seed: u64,
        become_others: Vec<Option<u32>>,
        bypass: u32,
    ) -> RuleChange {
        RuleChange { rules: RuleSet::new(rules, seed), become_others, bypass: 2 * bypass }
    }
}

/// Where pipes are, and where others may begin: up and down of a link are one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipePlaces {
    /// So many there are.
    pub number: u32,
    /// Those whose links have ended and hold nothing any more.
    pub vacant: Vec<u32>,
    /// That of what passes no link, if there is one.
    pub bypass: Option<u32>,
}

impl Network {
    /// Makes a prepared change of pipes, see [`Engine::apply`](crate::Engine::apply): flows of
    /// these pipes become what is said of them, and from then on packets are sorted anew.
    /// Packets between two pipes go where their flow goes. Where there are other rules, packets
    /// in a link go on behind it with those. What packets are like that are within is `known` of
    /// their handles, to whoever looks at that from now on.
    ///
    /// # Errors
    /// Those of the engine; nothing changes.
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
        let NetworkChange { flows, sorted, rules } = around;
        self.heeds = heeds(&self.engine);
        self.places.resize(self.places.len().max(self.heeds.len()), Ingress::open());
        for IngressChange { pipe, classifier, account, masks } in sorted {
            if let Some(place) = self.places.get_mut(pipe.0 as usize) {
                *place = Ingress::new(classifier, account, masks);
            }
        }
        if !self.hops.is_empty() && !flows.is_empty() {
            let mut hops = std::mem::take(&mut self.hops).into_vec();
            for Reverse(hop) in &mut hops {
                let fates = flows
                    .iter()
                    .find(|(pipe, _)| pipe.0 == hop.pipe)
                    .map_or(&[][..], |(_, fates)| fates);
                hop.flow = fates.get(hop.flow as usize).map_or(hop.flow, |fate| fate.flow().0);
            }
            self.hops = hops.into();
        }
        if let Some(rules) = rules {
            self.lead(rules, known);
        }
        self.sort(out);
        Ok(())
    }

    /// While nobody looks at labels nobody tells them: those of the packets that are within now,
    /// but for what pipes said of them.
    fn learn(&mut self, known: Known<'_>) {
        let mut within = vec![true; self.passing.len()];
        self.free.iter().for_each(|&slot| within[slot as usize] = false);
        for (place, _) in self.passing.iter_mut().zip(within).filter(|(_, within)| *within) {
            place.label = Label { earliness: place.label.earliness, ..known(place.handle) };
            place.bits = place.label.ecn;
        }
    }

    /// Other rules from now on.
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
                // Packets that are within are known by their drivers' own handles; each leaves
                // behind its link.
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

    /// Where pipes are, and where others may begin.
    pub fn places(&self) -> PipePlaces {
        let number = self.heeds.len() as u32 / 2;
        let pipes = |place: u32| [PipeId(2 * place), PipeId(2 * place + 1)];
        let is_vacant = |pipe: PipeId| {
            let comes = || self.hops.iter().any(|hop| hop.0.pipe == pipe.0);
            self.engine.has_ended(pipe) && self.engine.is_empty(pipe) && !comes()
        };
        let vacant = (0..number).filter(|place| pipes(*place).into_iter().all(is_vacant)).collect();
        PipePlaces { number, vacant, bypass: self.bypass.map(|pipe| pipe / 2) }
    }
}
