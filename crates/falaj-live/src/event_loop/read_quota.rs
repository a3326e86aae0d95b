//! Divides processor time among the ports, by deficit round robin.
//!
//! In each round a port may read for a quantum. Its turn is interrupted when a delivery is due, and
//! continues afterwards with the rest of the quantum; a round is over when no interrupted port has
//! any quantum left. If each turn began with a new quantum, a port whose packets leave at once
//! would be interrupted at its first packet every time, while a port whose packets are queued or
//! lost would use its whole quantum.

use falaj_sched::units::time::{Span, Time};

/// Processor time in nanoseconds that a port may use in a round.
const QUANTUM: i64 = 20_000;

#[derive(Clone, Copy, Debug)]
struct ReadQuota {
    /// The rest of the quantum, in nanoseconds; negative: a debt. One unit may cost several quanta.
    left: i64,
    /// True if the port's turn was interrupted.
    goes_on: bool,
}

/// The quota of each port, by port.
#[derive(Debug)]
pub(super) struct ReadQuotas(Vec<ReadQuota>);

impl ReadQuotas {
    pub(super) fn new(ports: usize) -> ReadQuotas {
        ReadQuotas(vec![ReadQuota { left: QUANTUM, goes_on: false }; ports])
    }

    /// Called before the ports are read: begins a round if the previous round is over.
    #[inline]
    pub(super) fn begin(&mut self) {
        if !self.0.iter().any(|share| share.goes_on && share.left > 0) {
            for share in &mut self.0 {
                // A port may read one unit even if its debt is large.
                share.left = (share.left.min(0) + QUANTUM).max(1);
            }
        }
    }

    /// Returns true if the port has quota left in this round.
    #[inline]
    pub(super) fn may_read(&self, port: usize) -> bool {
        self.0[port].left > 0
    }

    /// Returns true if the port's turn was interrupted.
    #[inline]
    pub(super) fn goes_on(&self, port: usize) -> bool {
        self.0[port].goes_on
    }

    /// End of the port's turn, if it begins now.
    #[inline]
    pub(super) fn over(&self, port: usize, now: Time) -> Time {
        now + Span(self.0[port].left.max(0) as u64)
    }

    /// Charges a port for a turn of length `took`, from before its first unit was read until its
    /// last unit was queued. `goes_on` is true if the turn was interrupted.
    #[inline]
    pub(super) fn took(&mut self, port: usize, took: Span, goes_on: bool) {
        let took = i64::try_from(took.0).unwrap_or(i64::MAX);
        let left = self.0[port].left.saturating_sub(took).max(-QUANTUM);
        self.0[port] = ReadQuota { left, goes_on };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time in nanoseconds used by each of two ports that always have units, if the loop polls
    /// the ports `looks` times. `each` has the times to read a unit and to queue it. With
    /// `broken_off`, a turn is interrupted at its first unit; otherwise it continues while there is
    /// quota left.
    fn taken(each: [[u64; 2]; 2], broken_off: [bool; 2], looks: u32) -> [f64; 2] {
        let (mut shares, mut now, mut took) = (ReadQuotas::new(2), Time::ZERO, [0.0; 2]);
        for _ in 0..looks {
            shares.begin();
            for port in 0..2 {
                if !shares.may_read(port) {
                    continue;
                }
                let (began, [read, queue]) = (now, each[port]);
                let over = shares.over(port, began);
                loop {
                    let arrived = now + Span(read);
                    now = arrived + Span(queue);
                    if arrived >= over || broken_off[port] {
                        break;
                    }
                }
                took[port] += now.since(began).0 as f64;
                shares.took(port, now.since(began), true);
            }
            // The time of deliveries and of waiting is charged to no port.
            now += Span(5_000);
        }
        took
    }

    #[test]
    fn both_ports_get_equal_time_whatever_units_cost() {
        let units = [[150, 50], [700, 300], [10_000, 4_500], [25_000, 5_000], [100, 18_000]];
        for each in units.into_iter().flat_map(|a| units.map(|b| [a, b])) {
            for broken_off in [[false; 2], [true, false], [false, true], [true; 2]] {
                let [a, b] = taken(each, broken_off, 100_000);
                // Debt beyond a quantum is forgiven.
                assert!((0.6..1.6).contains(&(a / b)), "{each:?}, {broken_off:?}: {a} and {b}");
            }
        }
    }

    #[test]
    fn a_round_lasts_while_an_interrupted_port_has_quota_left() {
        let mut shares = ReadQuotas::new(2);
        shares.begin();
        assert_eq!(shares.over(0, Time(100)), Time(100 + QUANTUM as u64));
        shares.took(0, Span(24_900), true);
        shares.took(1, Span(1_000), true);
        shares.begin();
        assert_eq!(
            [0, 1].map(|port| (shares.may_read(port), shares.goes_on(port))),
            [(false, true), (true, true)]
        );
        // A port that has no more units gets no additional quota in the same round.
        shares.took(1, Span(4_000), false);
        assert_eq!(shares.over(1, Time(0)), Time(15_000));
        shares.begin();
        assert!(shares.may_read(0), "nobody else has more");
        assert_eq!(
            shares.over(0, Time(40_000)),
            Time(40_000 + 15_100),
            "what was taken beyond the last is paid"
        );
        shares.took(0, Span(1_000_000), true);
        shares.begin();
        assert_eq!(shares.over(0, Time(0)), Time(1), "it reads one unit, whatever it owes");
    }
}
