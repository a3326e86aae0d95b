//! A port's share of the processor: deficit round robin in time.

use falaj_sched::time::{Span, Time};

/// What a port's turn takes of the processor, if it has so much to read.
const QUANTUM: Span = Span::from_micros(20);

/// What a port has taken beyond its last turn. One unit may be as dear as several turns, and each turn reads one at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    debt: Span,
}

impl Share {
    /// A turn begins; says when it is over.
    #[inline]
    pub(super) fn begins(self, now: Time) -> Time {
        now + Span(QUANTUM.0 - self.debt.0)
    }

    /// The turn ends that was to be over then.
    #[inline]
    pub(super) fn ends(&mut self, over: Time, now: Time) {
        self.debt = now.since(over).min(QUANTUM);
    }

    /// There is nothing more to be read: neither a debt nor what is left is the next turn's.
    #[inline]
    pub(super) fn is_done(&mut self) {
        self.debt = Span::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_beyond_a_turn_is_the_next_ones() {
        // One port's units take 30 us each, the other's one: in the same number of turns both take the same time.
        let mut shares = [Share::default(); 2];
        let (mut now, mut took) = (Time::ZERO, [Span::ZERO; 2]);
        for _ in 0..1000 {
            for (n, each) in [Span::from_micros(30), Span::from_micros(1)].into_iter().enumerate() {
                let began = now;
                let mut over = Time::NEVER;
                loop {
                    now += each;
                    if over == Time::NEVER {
                        over = shares[n].begins(began);
                    }
                    if now >= over {
                        break;
                    }
                }
                shares[n].ends(over, now);
                took[n] += now.since(began);
            }
        }
        let [dear, cheap] = took.map(|took| took.0 as f64);
        assert!((1.0..1.6).contains(&(dear / cheap)), "{took:?}");
        let mut share = Share::default();
        share.ends(Time(0), Time(QUANTUM.0 / 2));
        assert_eq!(share.begins(Time::ZERO), Time(QUANTUM.0 / 2));
        share.ends(Time(0), Time::NEVER);
        assert_eq!(share.begins(Time(7)), Time(7), "it reads one unit then");
        share.is_done();
        assert_eq!(share.begins(Time::ZERO), Time::ZERO + QUANTUM);
    }
}
