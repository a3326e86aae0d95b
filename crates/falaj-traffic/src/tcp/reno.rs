//! Reno: growth by one segment each round trip, reduction by half at a loss (RFC 5681; growth by
//! acknowledged bytes, RFC 3465).

use super::Acked;

/// Minimum window after a loss, in segments.
const LEAST: f64 = 2.0;

/// The window of Reno.
#[derive(Clone, Debug)]
pub struct Reno {
    window: f64,
    /// Slow start threshold: below it the window doubles each round trip.
    threshold: f64,
}

impl Reno {
    /// The initial state, with this window in segments.
    pub fn new(initial: u32) -> Reno {
        Reno { window: initial.into(), threshold: f64::INFINITY }
    }

    /// The congestion window in segments.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// Handles newly acknowledged segments.
    pub fn acked(&mut self, acked: &Acked) {
        if acked.recovering || !acked.limited {
            return;
        }
        let segments = f64::from(acked.segments);
        if self.window < self.threshold {
            self.window = (self.window + segments).min(self.threshold);
        } else {
            self.window += segments / self.window;
        }
    }

    /// Handles lost or marked segments.
    pub fn congested(&mut self) {
        self.reduced_to(0.5);
    }

    /// Reduces the window to this fraction.
    pub fn reduced_to(&mut self, share: f64) {
        self.threshold = (self.window * share).max(LEAST);
        self.window = self.threshold;
    }

    /// Handles a retransmission timeout; `first` is true unless timeouts follow each other.
    pub fn timed_out(&mut self, first: bool) {
        if first {
            self.threshold = (self.window / 2.0).max(LEAST);
        }
        self.window = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::tests::{ack, mean_window};
    use super::super::{Congestion, Tcp};
    use super::*;
    use falaj_sched::units::time::Span;

    /// Ten segments are acknowledged in the first round trip, then twenty, then forty.
    #[test]
    fn slow_start_doubles() {
        let mut reno = Reno::new(10);
        for round in [20.0, 40.0, 80.0] {
            (0..reno.window() as u32).for_each(|_| reno.acked(&ack(1)));
            assert_eq!(reno.window(), round);
        }
    }

    /// A window of 20 segments is halved by a loss. Then the acknowledgements of one window add one
    /// segment, so each acknowledgement adds two to the square of the window.
    #[test]
    fn a_segment_more_each_round_trip() {
        let mut reno = Reno::new(20);
        reno.congested();
        assert_eq!(reno.window(), 10.0);
        for acks in 1..=150 {
            reno.acked(&ack(1));
            let window = (100.0 + 2.0 * f64::from(acks)).sqrt();
            assert!(
                (reno.window() - window).abs() < 0.05,
                "{acks}: {} beside {window}",
                reno.window()
            );
        }
        assert!((reno.window() - 20.0).abs() < 0.05, "{}", reno.window());
    }

    #[test]
    fn after_a_timeout_it_starts_slowly_up_to_half() {
        let mut reno = Reno::new(20);
        reno.timed_out(true);
        reno.timed_out(false);
        assert_eq!(reno.window(), 1.0);
        (0..9).for_each(|_| reno.acked(&ack(1)));
        assert_eq!(reno.window(), 10.0);
        reno.acked(&ack(1));
        assert_eq!(reno.window(), 10.1);
    }

    #[test]
    fn what_does_not_fill_its_window_does_not_widen_it() {
        let mut reno = Reno::new(10);
        reno.acked(&Acked { limited: false, ..ack(1) });
        reno.acked(&Acked { recovering: true, ..ack(1) });
        assert_eq!(reno.window(), 10.0);
    }

    /// The sawtooth: if one segment in 1/p is lost, the mean window is sqrt(3/2p) (Mathis and
    /// others 1997). The measured value is slightly lower, because the formula leaves out the round
    /// trip in which the lost segment is sent again with half the window. The difference is smaller
    /// if there are more round trips between losses.
    #[test]
    fn the_mean_window_is_that_of_the_sawtooth() {
        for (every, least) in [(1_000u64, 0.94), (10_000, 0.97)] {
            let tcp =
                Tcp { congestion: Congestion::Reno, ..Tcp::without_end(Span::from_millis(50)) };
            let mean = mean_window(&tcp, |number| number % every == every - 1);
            let formula = (1.5 * every as f64).sqrt();
            assert!(
                (least..1.0).contains(&(mean / formula)),
                "1 in {every}: {mean} beside {formula}"
            );
        }
    }
}
