//! Priority levels: a round of flows for each, and the guarantee of the highest.

use crate::collections::level_set::LevelSet;
use crate::contract::guarantee::{Bound, Guarantee, full_queue};
use crate::contract::params::Setup;
use crate::mechanisms::active_list::{Place, Round};
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::rate::Rate;
use alloc::vec;
use alloc::vec::Vec;

/// Rounds of flows, one for each priority in use.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    /// The priorities in use, the highest (lowest number) first.
    ranks: Vec<u64>,
    rounds: Vec<Round>,
    /// Levels whose round is not empty.
    any: LevelSet,
    /// The level whose first flow has a packet on the wire, or had it until now.
    sending: Option<u32>,
}

impl Levels {
    pub(crate) fn new(priorities: impl Iterator<Item = u64>) -> Levels {
        let mut ranks: Vec<u64> = priorities.collect();
        ranks.sort_unstable();
        ranks.dedup();
        let (rounds, any) = (vec![Round::EMPTY; ranks.len()], LevelSet::new(ranks.len()));
        Levels { ranks, rounds, any, sending: None }
    }

    /// The level of a priority that is in use.
    pub(crate) fn rank(&self, priority: u64) -> u32 {
        self.ranks.partition_point(|&p| p < priority) as u32
    }

    #[inline(always)]
    pub(crate) fn join<S: AsMut<Place>, T: Copy>(
        &mut self,
        flows: &mut Flows<S, T>,
        level: u32,
        f: FlowId,
    ) {
        let round = &mut self.rounds[level as usize];
        if round.first().is_none() {
            self.any.insert(level as usize);
        }
        round.join(flows, f);
    }

    /// The flow whose turn it is at this level.
    pub(crate) fn first(&self, level: u32) -> Option<FlowId> {
        self.rounds[level as usize].first()
    }

    /// The flow to serve next.
    #[inline(always)]
    pub(crate) fn next<S: AsMut<Place>, T: Copy>(
        &mut self,
        flows: &mut Flows<S, T>,
    ) -> Option<FlowId> {
        if let Some(level) = self.sending.take() {
            let round = &mut self.rounds[level as usize];
            match round.first() {
                Some(f) if flows.head(f).is_some() => round.rotate(flows),
                _ => _ = round.leave(flows),
            }
        }
        while let Some(level) = self.any.first() {
            let round = &mut self.rounds[level];
            while let Some(f) = round.first() {
                if flows.head(f).is_some() {
                    return Some(f);
                }
                round.leave(flows);
            }
            self.any.remove(level);
        }
        None
    }

    #[inline]
    pub(crate) fn take(&mut self, level: u32, f: FlowId) {
        debug_assert_eq!(self.rounds[level as usize].first(), Some(f));
        self.sending = Some(level);
    }

    /// Removes all flows from their rounds. The flow on the wire comes first, and is also returned
    /// separately.
    pub(crate) fn dissolve<S: AsMut<Place>, T: Copy>(
        &mut self,
        flows: &mut Flows<S, T>,
    ) -> (Vec<FlowId>, Option<FlowId>) {
        let sending =
            self.sending.take().and_then(|level| self.rounds[level as usize].leave(flows));
        let others = self.rounds.iter_mut().flat_map(|round| round.dissolve(flows));
        (sending.into_iter().chain(others).collect(), sending)
    }

    /// Removes `f` from its round; the others keep their order.
    pub(crate) fn remove<S: AsMut<Place>, T: Copy>(
        &mut self,
        flows: &mut Flows<S, T>,
        level: u32,
        f: FlowId,
    ) {
        let round = &mut self.rounds[level as usize];
        if self.sending == Some(level) && round.first() == Some(f) {
            self.sending = None;
        }
        for _ in 0..round.len() {
            if let Some(other) = round.leave(flows).filter(|&other| other != f) {
                round.join(flows, other);
            }
        }
    }
}

/// The guarantee of the flows of the highest priority.
///
/// Let `k` be the number of packets in the flow's queue when a packet arrives, including this
/// packet. At most one packet of each of the other `n - 1` flows of this priority goes before each
/// of the `k`. If there are flows of lower priority, at most one of their packets goes before all
/// `k`: the packet that was on the wire when the flow became backlogged. A queue of `b` packets has
/// `k <= b`; a queue of `B` bytes may hold `B` packets of one byte.
#[derive(Debug, Clone)]
pub(crate) struct TopLevel {
    rate: Rate,
    largest: u64,
    limits: Vec<Limit>,
    full_queues: Vec<u64>,
}

impl TopLevel {
    pub(crate) fn new(setup: &Setup) -> TopLevel {
        TopLevel {
            rate: setup.rate,
            largest: u64::from(setup.largest),
            limits: setup.flows.iter().map(|f| f.limit).collect(),
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        }
    }

    /// Bytes of the largest packet.
    pub(crate) fn largest(&self) -> u64 {
        self.largest
    }

    /// The guarantee of `f`, one of `equals` flows of the highest priority.
    pub(crate) fn service(&self, f: FlowId, equals: u64, others_below: bool) -> Guarantee {
        let (full, limit) = (self.full_queues[f.index()], self.limits[f.index()]);
        let lower = if others_below { self.largest } else { 0 };
        let turn = (equals - 1) * self.largest;
        let packets = match limit {
            Limit::Packets(b) => u64::from(b),
            Limit::Bytes(b) => b,
        };
        let bytes = packets.saturating_mul(turn).saturating_add(full).saturating_add(lower);
        Guarantee {
            rate: Rate(self.rate.0 / (1 + turn)),
            latency: self.rate.airtime_of_many(self.largest + turn + lower),
            rate_formula: if equals == 1 {
                "C"
            } else {
                "C/(1 + (n-1) L) if its packets have 1 B, C/n if all have one size"
            },
            delay: Bound {
                delay: self.rate.airtime_of_many(bytes),
                formula: match (equals, limit, others_below) {
                    (1, _, true) => "(B + L)/C",
                    (1, _, false) => "B/C",
                    (_, Limit::Packets(_), true) => {
                        "(B + b (n-1) L + L)/C, n flows of this priority"
                    }
                    (_, Limit::Packets(_), false) => "(B + b (n-1) L)/C, n flows of this priority",
                    (_, Limit::Bytes(_), true) => "(B + B (n-1) L + L)/C, n flows of this priority",
                    (_, Limit::Bytes(_), false) => "(B + B (n-1) L)/C, n flows of this priority",
                },
                condition: "packets that found room",
            },
            others: Vec::new(),
        }
    }
}
