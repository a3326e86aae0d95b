//! The ports' shares of the processor: deficit round robin in time.
//!
//! In each round a port may read for a quantum. Its turn is broken off when something is to be handed over, and goes on
//! afterwards with what is left of the quantum; a round is over when nobody was broken off who has some left. Were each
//! turn a new one, a port whose packets leave at once would be broken off at its first packet every time, while one whose
//! packets wait or are lost took all of its quantum.

use falaj_sched::time::{Span, Time};

/// What a port may take of the processor in a round, if it has so much to read.
const QUANTUM: i64 = 20_000;

#[derive(Clone, Copy, Debug)]
struct Share {
    /// What is left of the quantum, in nanoseconds; below zero a debt. One unit may be as dear as several quanta.
    left: i64,
    /// Its turn was broken off.
    goes_on: bool,
}

const FRESH: Share = Share { left: QUANTUM, goes_on: false };

/// What each port may still take, by port.
#[derive(Debug)]
pub(super) struct Shares {
    ports: Vec<Share>,
    /// Who read last, and from when on it has not been charged for that.
    reads: Option<(usize, Time)>,
}

impl Shares {
    pub(super) fn new(ports: usize) -> Shares {
        Shares { ports: vec![FRESH; ports], reads: None }
    }

    /// The ports are about to be read: begins a round if the last one is over.
    #[inline]
    pub(super) fn look(&mut self) {
        if !self.ports.iter().any(|share| share.goes_on && share.left > 0) {
            for share in &mut self.ports {
                // Whatever it owes, it reads one unit.
                share.left = (share.left.min(0) + QUANTUM).max(1);
            }
        }
    }

    /// Has it anything left in this round?
    #[inline]
    pub(super) fn may_read(&self, port: usize) -> bool {
        self.ports[port].left > 0
    }

    /// Was it broken off?
    #[inline]
    pub(super) fn goes_on(&self, port: usize) -> bool {
        self.ports[port].goes_on
    }

    /// A port has read the first unit of its turn; says when that is over.
    #[inline]
    pub(super) fn begins(&mut self, port: usize, now: Time) -> Time {
        self.charge(now);
        self.reads = Some((port, now));
        now + Span(self.ports[port].left.max(0) as u64)
    }

    /// Its turn ends, with more to be read or without. In the latter case neither a debt nor what is left is its next turn's.
    #[inline]
    pub(super) fn ends(&mut self, port: usize, goes_on: bool) {
        self.ports[port] = if goes_on { Share { goes_on, ..self.ports[port] } } else { FRESH };
    }

    /// Whoever read last has done so until now, the queueing of its last unit among it.
    #[inline]
    pub(super) fn charge(&mut self, now: Time) {
        if let Some((port, since)) = self.reads.take() {
            let share = &mut self.ports[port];
            let took = i64::try_from(now.since(since).0).unwrap_or(i64::MAX);
            share.left = share.left.saturating_sub(took).max(-QUANTUM);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each of two ports has taken that never run dry, after so many looks. Their units take so long, and a turn is
    /// broken off at the first one or goes on while there is something left.
    fn taken(each: [u64; 2], broken_off: [bool; 2], looks: u32) -> [f64; 2] {
        let (mut shares, mut now, mut took) = (Shares::new(2), Time::ZERO, [0.0; 2]);
        for _ in 0..looks {
            shares.charge(now);
            shares.look();
            for port in 0..2 {
                if !shares.may_read(port) {
                    continue;
                }
                let over = shares.begins(port, now);
                loop {
                    now += Span(each[port]);
                    took[port] += each[port] as f64;
                    if now >= over || broken_off[port] {
                        break;
                    }
                }
                shares.ends(port, true);
            }
            shares.charge(now);
            // What is handed over, and whoever waits, is nobody's.
            now += Span(5_000);
        }
        took
    }

    #[test]
    fn whatever_units_cost_and_whoever_is_broken_off_both_take_the_same() {
        for each in [[200, 200], [200, 1_000], [30_000, 1_000], [30_000, 300], [7_000, 19_000]] {
            for broken_off in [[false; 2], [true, false], [false, true], [true; 2]] {
                let [a, b] = taken(each, broken_off, 100_000);
                // A debt is forgiven beyond a quantum.
                assert!((0.75..1.6).contains(&(a / b)), "{each:?}, {broken_off:?}: {a} and {b}");
            }
        }
    }

    #[test]
    fn a_round_lasts_while_somebody_who_was_broken_off_has_some_left() {
        let mut shares = Shares::new(2);
        shares.look();
        assert_eq!(shares.begins(0, Time(100)), Time(100 + QUANTUM as u64));
        shares.ends(0, true);
        shares.begins(1, Time(25_000));
        shares.ends(1, true);
        shares.charge(Time(26_000));
        shares.look();
        assert_eq!([0, 1].map(|port| (shares.may_read(port), shares.goes_on(port))), [(false, true), (true, true)]);
        shares.begins(1, Time(30_000));
        shares.ends(1, false);
        shares.charge(Time(31_000));
        shares.look();
        assert!(shares.may_read(0), "nobody else has more");
        assert_eq!(shares.begins(0, Time(40_000)), Time(40_000 + 15_100), "what was taken beyond the last is paid");
        shares.ends(0, true);
        shares.charge(Time(1_000_000));
        shares.look();
        assert_eq!(shares.begins(0, Time(1_000_000)), Time(1_000_001), "it reads one unit, whatever it owes");
    }
}
