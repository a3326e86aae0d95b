//! The order in which adapters are read: deficit round robin in processor time.
//!
//! Each adapter with readable units gets a quantum in its turn, in proportion to its weight, and is
//! read until the quantum is used up. It is charged the processing time of its units, from reading
//! to the end of queueing, and the time for writing units to it. So an adapter with a storm of tiny
//! packets, or of units that are expensive for another reason, uses no more than its share of the
//! processor while other adapters have units. Its unread units stay in the kernel, at the adapter's
//! own cost.

use falaj_sched::mechanisms::deficit::Surplus;
use std::collections::VecDeque;
use std::time::Duration;

/// Processor time of a turn at weight 1, in nanoseconds.
const QUANTUM: i64 = 10_000;

/// The credit of one adapter in processor time.
#[derive(Clone, Copy, Debug)]
struct ReadCredit {
    weight: u32,
    /// Processor time in nanoseconds that the adapter may still use in its turn; negative: a debt.
    credit: Surplus,
    /// True if the adapter was charged since its last quantum.
    served: bool,
    /// True if the adapter is in `order`.
    listed: bool,
    /// Number of times that the quantum was used up while another adapter was also in `order`.
    ended: u64,
}

/// Rounds in which the adapters are read.
#[derive(Debug, Default)]
pub(super) struct ReadRounds {
    order: VecDeque<u16>,
    of: Vec<ReadCredit>,
}

impl ReadRounds {
    /// Adds the adapter of number `n`: the next number, or the number of a removed adapter.
    pub(super) fn add(&mut self, n: u16) {
        let turn = ReadCredit {
            weight: 1,
            credit: Surplus::default(),
            served: false,
            listed: false,
            ended: 0,
        };
        match self.of.get_mut(usize::from(n)) {
            Some(gone) => {
                self.order.retain(|listed| *listed != n);
                *gone = turn;
            }
            None => self.of.push(turn),
        }
    }

    pub(super) fn set_weight(&mut self, n: u16, weight: u32) {
        if let Some(turn) = self.of.get_mut(usize::from(n)) {
            turn.weight = weight.max(1);
        }
    }

    /// Returns true if no adapter is known to be readable.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Marks these adapters as readable; some may be listed already.
    pub(super) fn ready(&mut self, these: impl Iterator<Item = u16>) {
        for n in these {
            if let Some(turn) = self.of.get_mut(usize::from(n))
                && !std::mem::replace(&mut turn.listed, true)
            {
                self.order.push_back(n);
            }
        }
    }

    /// The adapter to be read now; it stays the same until its quantum is used up, or it has no
    /// more units.
    pub(super) fn next(&mut self) -> Option<u16> {
        // A debt is at most the time of one unit, so the loop ends after a few rounds.
        loop {
            let n = *self.order.front()?;
            let turn = self.of.get_mut(usize::from(n))?;
            if turn.credit.is_positive() {
                return Some(n);
            }
            turn.credit.add(QUANTUM * i64::from(turn.weight));
            if self.order.len() > 1 {
                turn.ended += u64::from(std::mem::take(&mut turn.served));
                self.order.rotate_left(1);
            }
        }
    }

    /// Charges processor time to an adapter.
    pub(super) fn charge(&mut self, n: u16, cost: Duration) {
        if let Some(turn) = self.of.get_mut(usize::from(n)) {
            turn.credit.pay(i64::try_from(cost.as_nanos()).unwrap_or(i64::MAX));
            turn.served = true;
        }
    }

    /// Notes that an adapter has no more units: its credit expires, a debt stays.
    pub(super) fn out_of_units(&mut self, n: u16) {
        if let Some(turn) = self.of.get_mut(usize::from(n)) {
            turn.credit.forfeit();
            if self.order.front() == Some(&n) {
                self.order.pop_front();
                turn.listed = false;
            }
        }
    }

    /// Number of times that this adapter's turn ended while it and another adapter had more units.
    pub(super) fn ended(&self, n: u16) -> u64 {
        self.of.get(usize::from(n)).map_or(0, |turn| turn.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads adapters that always have units, until `until` nanoseconds are spent. `costs` are the
    /// nanoseconds for one unit of each adapter. Returns the time and the number of units of each.
    fn run(costs: &[u64], weights: &[u32], until: u64) -> Vec<(u64, u64)> {
        let mut turns = ReadRounds::default();
        for (n, weight) in weights.iter().enumerate() {
            turns.add(n as u16);
            turns.set_weight(n as u16, *weight);
        }
        turns.ready(0..costs.len() as u16);
        let mut of = vec![(0, 0); costs.len()];
        while of.iter().map(|(spent, _)| spent).sum::<u64>() < until {
            let n = turns.next().unwrap();
            let cost = costs[usize::from(n)];
            turns.charge(n, Duration::from_nanos(cost));
            of[usize::from(n)].0 += cost;
            of[usize::from(n)].1 += 1;
        }
        of
    }

    #[test]
    fn time_is_divided_by_weight_whatever_units_cost() {
        // Three adapters: many units of 0.5 us, units of 40 us, and units of 3 us.
        let of = run(&[500, 40_000, 3_000], &[1, 1, 1], 30_000_000);
        for (spent, _) in &of {
            assert!(spent.abs_diff(10_000_000) <= 60_000, "{of:?}");
        }
        let of = run(&[500, 40_000], &[1, 3], 40_000_000);
        assert!(
            of[0].0.abs_diff(10_000_000) <= 80_000 && of[1].0.abs_diff(30_000_000) <= 80_000,
            "{of:?}"
        );
    }

    #[test]
    fn an_idle_adapter_saves_no_credit_and_keeps_its_debt() {
        let mut turns = ReadRounds::default();
        turns.add(0);
        turns.add(1);
        turns.ready(0..2);
        let first = turns.next().unwrap();
        turns.out_of_units(first);
        assert_eq!(turns.of[usize::from(first)].credit, Surplus::default());
        let second = turns.next().unwrap();
        assert_ne!(first, second);
        turns.charge(second, Duration::from_micros(35));
        turns.out_of_units(second);
        assert!(turns.is_empty() && turns.next().is_none());
        turns.ready([second, first].into_iter());
        // The debt of 25 us is two and a half quanta: the other adapter has its turns meanwhile.
        assert_eq!(turns.next(), Some(first));
        turns.charge(first, Duration::from_micros(10));
        assert_eq!((turns.next(), turns.ended(second)), (Some(first), 1));
    }
}
