//! The smoothed round trip time and the retransmission timeout (RFC 6298).

use falaj_sched::units::time::Span;

/// Timeout before the first measurement.
const INITIAL: Span = Span::from_secs(1);
/// Minimum by which a timeout exceeds the smoothed round trip time, as in Linux; the RFC has a
/// minimum of one second for the whole timeout.
const LEAST: Span = Span::from_millis(200);
/// Maximum timeout.
const MOST: Span = Span::from_secs(60);

/// Estimates of the round trip time.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    /// Smoothed round trip time and mean deviation, in nanoseconds.
    known: Option<(u64, u64)>,
    /// The minimum round trip time.
    least: Option<Span>,
    /// Number of times that the timeout was doubled.
    doubled: u32,
}

impl RoundTrip {
    /// Adds a measurement.
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

    /// The smoothed round trip time; `None` before the first measurement.
    pub fn smoothed(&self) -> Option<Span> {
        self.known.map(|(mean, _)| Span(mean))
    }

    /// The minimum round trip time; zero before the first measurement.
    pub fn least(&self) -> Span {
        self.least.unwrap_or(Span::ZERO)
    }

    /// Time without an acknowledgement after which a tail loss probe is sent (RFC 8985, 7.2): two
    /// round trips, plus the maximum delay of an acknowledgement if only one segment is in flight.
    pub fn probe(&self, in_flight: u32) -> Option<Span> {
        let delayed = if in_flight == 1 { LEAST } else { Span::ZERO };
        Some(self.smoothed()? * 2 + delayed)
    }

    /// The retransmission timeout.
    pub fn timeout(&self) -> Span {
        let once =
            self.known.map_or(INITIAL, |(mean, varies)| Span(mean) + (Span(varies) * 4).max(LEAST));
        (once * (1 << self.doubled.min(16))).min(MOST)
    }

    /// Doubles the timeout after it has expired. Returns true if the timeout has expired for the
    /// first time since the last measurement.
    pub fn timed_out(&mut self) -> bool {
        self.doubled += 1;
        self.doubled == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measurements of 100 ms, then 200 ms: a smoothed time of 112.5 ms, and a mean deviation of
    /// 62.5 ms.
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
