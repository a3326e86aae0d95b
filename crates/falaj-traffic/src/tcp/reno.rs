//! Reno: a segment more each round trip, half at a loss (RFC 5681; growth by what is acknowledged,
//! RFC 3465).

use super::Acked;

/// No window is smaller after a loss.
const LEAST: f64 = 2.0;

/// The window of Reno.
#[derive(Clone, Debug)]
pub struct Reno {
    window: f64,
    /// Up to here it doubles each round trip.
    threshold: f64,
}

impl Reno {
    /// At the beginning.
    pub fn new(initial: u32) -> Reno {
        Reno { window: initial.into(), threshold: f64::INFINITY }
    }

    /// In segments.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// Segments have arrived.
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

    /// Segments are lost, or marked.
    pub fn congested(&mut self) {
        self.reduced_to(0.5);
    }

    /// So much is left of the window.
    pub fn reduced_to(&mut self, share: f64) {
        self.threshold = (self.window * share).max(LEAST);
        self.window = self.threshold;
    }

    /// Nothing has arrived for long.
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

    /// 20 segments, half of them after a loss; then as many acknowledgements as the window has make
    /// it one more, which adds two to its square with each.
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

    /// The sawtooth: where one segment of each 1/p is lost, the mean window is sqrt(3/2p) (Mathis
    /// and others 1997). A little is missing: the round trip in which the lost one is sent
    /// again, with half the window, is none of the model's. The more round trips there are
    /// between losses, the less that weighs.
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
