//! QFQ+ by its definition, for naive models.

use super::fraction::Fraction;
use std::collections::VecDeque;

/// Length of the largest packet in bytes.
pub const LARGEST: u32 = 4;

/// Examines every aggregate at each decision, in exact fractions. Weights, and the numbers of flows
/// in an aggregate, are powers of two.
#[derive(Clone)]
pub struct Naive {
    now: Fraction,
    aggregates: Vec<Aggregate>,
    queues: Vec<VecDeque<u32>>,
    deficits: Vec<u32>,
    in_hand: Option<usize>,
}

#[derive(Clone)]
struct Aggregate {
    flows: Vec<usize>,
    weight: i128,
    sigma: Fraction,
    start: Fraction,
    budget: u32,
    /// Turns of its flows; `visited`: the first flow has got its quantum.
    turns: VecDeque<usize>,
    visited: bool,
    present: bool,
    /// True if it is empty, but the fluid system still serves it.
    silent: bool,
}

impl Naive {
    pub fn new(weights: &[u64]) -> Naive {
        Naive {
            now: Fraction::ZERO,
            aggregates: Naive::divide(weights),
            queues: vec![VecDeque::new(); weights.len()],
            deficits: vec![0; weights.len()],
            in_hand: None,
        }
    }

    /// Divides the flows into aggregates of up to eight flows of one weight, in order.
    fn divide(weights: &[u64]) -> Vec<Aggregate> {
        let mut aggregates: Vec<(u64, Vec<usize>)> = Vec::new();
        for (f, &w) in weights.iter().enumerate() {
            match aggregates.iter_mut().find(|(other, flows)| *other == w && flows.len() < 8) {
                Some((_, flows)) => flows.push(f),
                None => aggregates.push((w, vec![f])),
            }
        }
        let aggregate = |(w, flows): (u64, Vec<usize>)| {
            assert!(w.is_power_of_two() && flows.len().is_power_of_two());
            Aggregate {
                weight: i128::from(w) * flows.len() as i128,
                sigma: Fraction::new(LARGEST, w),
                flows,
                start: Fraction::ZERO,
                budget: 0,
                turns: VecDeque::new(),
                visited: false,
                present: false,
                silent: false,
            }
        };
        aggregates.into_iter().map(aggregate).collect()
    }

    fn rise(&mut self, to: Fraction) {
        self.now = if to > self.now { to } else { self.now };
        for a in &mut self.aggregates {
            a.silent &= a.start.floor(a.sigma) >= self.now.floor(a.sigma);
        }
    }

    fn others(&self, a: usize) -> bool {
        (0..self.aggregates.len()).any(|b| b != a && self.aggregates[b].present)
    }

    fn of(&self, f: usize) -> usize {
        self.aggregates.iter().position(|a| a.flows.contains(&f)).unwrap()
    }

    pub fn arrive(&mut self, f: usize, bytes: u32) {
        let a = self.of(f);
        let (alone, now) = (self.in_hand.is_none() && !self.others(a), self.now);
        self.queues[f].push_back(bytes);
        let aggregate = &mut self.aggregates[a];
        if !aggregate.turns.contains(&f) {
            aggregate.turns.push_back(f);
        }
        if !aggregate.present {
            if !aggregate.silent || aggregate.start < now {
                aggregate.start = now;
            }
            (aggregate.present, aggregate.silent) = (true, false);
            if alone {
                aggregate.budget = 0;
                self.in_hand = Some(a);
            }
        }
    }

    /// The flow of an aggregate that deficit round robin serves next.
    fn head(&mut self, a: usize) -> Option<usize> {
        let aggregate = &mut self.aggregates[a];
        while let Some(&f) = aggregate.turns.front() {
            let Some(&bytes) = self.queues[f].front() else {
                aggregate.turns.pop_front();
                (aggregate.visited, self.deficits[f]) = (false, 0);
                continue;
            };
            if !aggregate.visited {
                self.deficits[f] += LARGEST;
                aggregate.visited = true;
            }
            if bytes <= self.deficits[f] {
                return Some(f);
            }
            aggregate.visited = false;
            aggregate.turns.rotate_left(1);
        }
        None
    }

    /// The flows of which one may be served; all are equally valid.
    pub fn choose(&mut self) -> Vec<usize> {
        loop {
            if let Some(a) = self.in_hand {
                let (head, alone) = (self.head(a), !self.others(a));
                let now = self.now;
                let aggregate = &mut self.aggregates[a];
                match head {
                    Some(f) if self.queues[f][0] <= aggregate.budget => return vec![f],
                    Some(f) if alone => {
                        let start = aggregate.start.floor(aggregate.sigma);
                        self.rise(start);
                        return vec![f];
                    }
                    Some(_) => {}
                    None => {
                        (aggregate.present, aggregate.silent) =
                            (false, !alone && aggregate.start > now);
                    }
                }
                if head.is_none() && alone {
                    self.aggregates.iter_mut().for_each(|a| a.silent = false);
                }
                self.in_hand = None;
            }
            let present: Vec<usize> =
                (0..self.aggregates.len()).filter(|&a| self.aggregates[a].present).collect();
            let start = |a: usize| self.aggregates[a].start.floor(self.aggregates[a].sigma);
            let finish =
                |a: usize| start(a).plus(self.aggregates[a].sigma).plus(self.aggregates[a].sigma);
            let Some(soonest) = present.iter().map(|&a| start(a)).min() else { return Vec::new() };
            let now = self.now.max(soonest);
            let started: Vec<usize> = present.into_iter().filter(|&a| start(a) <= now).collect();
            let first = started.iter().map(|&a| finish(a)).min().expect("the soonest has started");
            let best: Vec<usize> = started.into_iter().filter(|&a| finish(a) == first).collect();
            self.rise(now);
            // Only the aggregate that is chosen begins a visit.
            let heads: Vec<Option<usize>> = best.iter().map(|&a| self.clone().head(a)).collect();
            match heads.iter().position(|head| head.is_none()) {
                // A change has removed the packets of this aggregate's flows; the aggregate stays
                // in hand until that is noticed.
                Some(n) => self.in_hand = Some(best[n]),
                None => return heads.into_iter().flatten().collect(),
            }
        }
    }

    /// A packet of `f` goes on the wire; returns its length.
    pub fn begin(&mut self, f: usize) -> u32 {
        let (a, bytes) = (self.of(f), self.queues[f][0]);
        assert_eq!(self.head(a), Some(f), "it was offered");
        let aggregate = &mut self.aggregates[a];
        if self.in_hand != Some(a) || aggregate.budget < bytes {
            aggregate.budget = LARGEST * aggregate.flows.len() as u32;
        }
        self.in_hand = Some(a);
        aggregate.budget -= bytes;
        self.deficits[f] -= bytes;
        aggregate.start = aggregate.start.plus(Fraction::new(bytes, aggregate.weight));
        let sum: i128 =
            self.aggregates.iter().filter(|a| a.present || a.silent).map(|a| a.weight).sum();
        self.rise(self.now.plus(Fraction::new(bytes, sum)));
        bytes
    }

    /// The packet of `f` has left.
    pub fn left(&mut self, f: usize) {
        self.queues[f].pop_front();
    }

    /// Changes the weights, or adds flows. An aggregate of the same flows continues from the same
    /// start. Any other aggregate has the largest debt of the aggregates from which its flows come,
    /// up to two roundings, and no credit. Flows keep their turns and deficits, a visit continues
    /// if its flow is the first, and no aggregate is in hand.
    pub fn change(&mut self, weights: &[u64]) {
        let (before, now) =
            (std::mem::replace(&mut self.aggregates, Naive::divide(weights)), self.now);
        self.queues.resize(weights.len(), VecDeque::new());
        self.deficits.resize(weights.len(), 0);
        self.in_hand = None;
        // A deficit is at most a quantum, also just after the quantum was added.
        self.deficits.iter_mut().for_each(|deficit| *deficit = (*deficit).min(LARGEST));
        for (a, old) in before
            .iter()
            .enumerate()
            .filter(|(_, old)| old.present || old.silent && old.start > now)
        {
            for &f in &old.flows {
                let (b, two) = (self.of(f), Fraction::of(2));
                let new = &mut self.aggregates[b];
                let same = (a, old.weight, old.flows.len()) == (b, new.weight, new.flows.len());
                let most = now.plus(new.sigma.by(two));
                let start = if same { old.start } else { old.start.max(now).min(most) };
                if !new.silent || start > new.start {
                    (new.start, new.silent) = (start, true);
                }
            }
        }
        for old in &before {
            for &f in &old.turns {
                let b = self.of(f);
                self.aggregates[b].turns.push_back(f);
                self.aggregates[b].present = true;
            }
            if let Some(&f) = old.turns.front().filter(|_| old.visited) {
                let b = self.of(f);
                self.aggregates[b].visited = self.aggregates[b].turns.front() == Some(&f);
            }
        }
        for new in &mut self.aggregates {
            new.silent &= !new.present && new.start > now;
        }
    }
}
