//! The round trip time, smoothed, and the timeout that follows (RFC 6298).

use falaj_sched::units::time::Span;

/// Before anything is known.
const INITIAL: Span = Span::from_secs(1);
/// A timeout is longer than the mean by this at least, as in Linux; the RFC has a second for the
/// whole timeout.
const LEAST: Span = Span::from_millis(200);
/// None is longer.
const MOST: Span = Span::from_secs(60);

/// What is known of the round trip.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    /// Smoothed, and how far it varies, in nanoseconds.
    known: Option<(u64, u64)>,
    /// The shortest.
    least: Option<Span>,
    /// How often the timeout was doubled.
    doubled: u32,
}

impl RoundTrip {
    /// One was measured.
    pub fn measured(&mut self, sample: Span) {
        self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
        self.known = Some(match self.known {
            None => (sample.0, sample.0 / 2),
            Some((mean, varies)) => {
                let off = mean.abs_diff(sample.0);
                ((7 * mean + sample.0) / 8, (3 * varies + off) / 4)
            }
        });
        self.doubled = 0;
    }

    /// Smoothed; `None` before anything is known.
    pub fn smoothed(&self) -> Option<Span> {
        self.known.map(|(mean, _)| Span(mean))
    }

    /// The shortest that was measured; nothing before.
    pub fn least(&self) -> Span {
        self.least.unwrap_or(Span::ZERO)
    }

    /// Time without an acknowledgement after which a tail loss probe is sent (RFC 8985, 7.2): two
    /// round trips; the longest delay of an acknowledgement more if one segment alone is under way.
    pub fn probe(&self, in_flight: u32) -> Option<Span> {
        let delayed = if in_flight == 1 { LEAST } else { Span::ZERO };
        Some(self.smoothed()? * 2 + delayed)
    }

    /// So long is waited for an acknowledgement.
    pub fn timeout(&self) -> Span {
        let once =
            self.known.map_or(INITIAL, |(mean, varies)| Span(mean) + (Span(varies) * 4).max(LEAST));
        (once * (1 << self.doubled.min(16))).min(MOST)
    }

    /// It was waited in vain: twice as long from now on. It was the first time since something was
    /// measured, or not.
    pub fn timed_out(&mut self) -> bool {
        self.doubled += 1;
        self.doubled == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 ms, then 200 ms: a mean of 112.5 ms, and 62.5 ms that it varies.
    #[test]
    fn as_the_rfc_computes_it() {
        let mut trip = RoundTrip::default();
        assert_eq!(trip.timeout(), Span::from_secs(1));
        trip.measured(Span::from_millis(100));
        assert_eq!(trip.timeout(), Span::from_millis(300));
        trip.measured(Span::from_millis(200));
        assert_eq!((trip.smoothed(), trip.timeout()), (Some(Span(112_500_000)), Span(362_500_000)));
        assert!(trip.timed_out() && !trip.timed_out());
        assert_eq!(trip.timeout(), Span(4 * 362_500_000));
        (0..100).for_each(|_| trip.measured(Span::from_millis(10)));
        assert_eq!(trip.timeout(), trip.smoothed().unwrap() + LEAST);
        (0..100).for_each(|_| assert!(trip.timeout() <= MOST, "{}", trip.timed_out()));
    }
}
