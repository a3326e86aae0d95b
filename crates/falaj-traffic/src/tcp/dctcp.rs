//! DCTCP: it counts which share of the segments is marked, and takes half as much from its window
//! (RFC 8257). Otherwise it is Reno, which a mark halves.

use super::Acked;
use super::reno::Reno;

/// So much of what was known of the share is forgotten with each round trip: g of the RFC.
const FORGETS: f64 = 1.0 / 16.0;

/// The window of DCTCP.
#[derive(Clone, Debug)]
pub struct Dctcp {
    reno: Reno,
    /// The share that is marked, as known: alpha of the RFC.
    share: f64,
    /// Segments of this round trip: all, and marked ones.
    round: (u32, u32),
}

impl Dctcp {
    /// At the beginning; as long as nothing is known of marks, one is as good as a loss.
    pub fn new(initial: u32) -> Dctcp {
        Dctcp { reno: Reno::new(initial), share: 1.0, round: (0, 0) }
    }

    /// In segments.
    pub fn window(&self) -> f64 {
        self.reno.window()
    }

    /// Which share of the segments is marked, smoothed over round trips.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Segments have arrived. Those that are not marked widen the window even in a round trip in
    /// which it was reduced: where some are marked in each, it would never be widened
    /// otherwise.
    pub fn acked(&mut self, acked: &Acked) {
        if acked.round {
            self.learns();
        }
        self.round.0 += acked.segments;
        self.round.1 += acked.marked;
        let segments = acked.segments.saturating_sub(acked.marked);
        self.reno.acked(&Acked { segments, recovering: acked.repairing, ..*acked });
    }

    /// A round trip is over.
    fn learns(&mut self) {
        let (all, marked) = std::mem::take(&mut self.round);
        if all > 0 {
            self.share += FORGETS * (f64::from(marked) / f64::from(all) - self.share);
        }
    }

    /// Some segments are marked, for the first time in a round trip.
    pub fn marked(&mut self) {
        self.reno.reduced_to(1.0 - self.share / 2.0);
    }

    /// Segments are lost: half the window is, as of any other.
    pub fn congested(&mut self) {
        self.reno.congested();
    }

    /// Nothing has arrived for long.
    pub fn timed_out(&mut self, first: bool) {
        self.reno.timed_out(first);
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::tests::{ack, marked, over_threshold, through};
    use super::super::{Congestion, Tcp};
    use super::*;
    use crate::source::below;
    use falaj_engine::chance::Chance;
    use falaj_sched::units::time::Span;

    fn dctcp(way: Span) -> Tcp {
        Tcp { congestion: Congestion::Dctcp, ..Tcp::without_end(way) }
    }

    /// By hand: of ten segments two are marked, with g = 1/16: 1, then 15/16 + 0.2/16, then 15/16
    /// of that and 0.2/16.
    #[test]
    fn the_share_is_smoothed_over_round_trips() {
        let mut dctcp = Dctcp::new(10);
        for expected in [1.0, 0.95, 0.903_125] {
            assert!(
                (dctcp.share() - expected).abs() < 1e-12,
                "{} beside {expected}",
                dctcp.share()
            );
            dctcp.acked(&Acked { marked: 1, ..ack(1) });
            dctcp.acked(&Acked { marked: 1, ..ack(1) });
            (0..8).for_each(|_| dctcp.acked(&ack(1)));
            dctcp.learns();
        }
        // The first of a new round trip closes the old one.
        dctcp.acked(&Acked { marked: 1, round: true, ..ack(1) });
        assert_eq!(dctcp.round, (1, 1));
    }

    /// A mark takes half of the share that is known, a loss half of the window.
    #[test]
    fn a_mark_takes_less_than_a_loss() {
        let mut dctcp = Dctcp::new(100);
        dctcp.share = 0.2;
        dctcp.marked();
        assert_eq!(dctcp.window(), 90.0);
        dctcp.acked(&Acked { recovering: true, ..ack(9) });
        assert_eq!(dctcp.window(), 90.1);
        dctcp.acked(&Acked { recovering: true, marked: 1, ..ack(1) });
        dctcp.acked(&Acked { recovering: true, repairing: true, ..ack(9) });
        assert_eq!(dctcp.window(), 90.1);
        dctcp.congested();
        assert_eq!(dctcp.window(), 45.05);
    }

    #[test]
    fn without_marks_it_is_reno() {
        let lost = |number: u64| number % 500 == 499;
        let of = |tcp: &Tcp| through(tcp, Span::from_secs(60), lost).arrived;
        let reno = Tcp::without_end(Span::from_millis(50));
        assert_eq!(of(&dctcp(Span::from_millis(50))), of(&reno));
    }

    /// Marked at random with probability p: x of a window are. Between two reductions there are a
    /// round trip and then 1/x of one until the next mark; in a round trip the window grows by
    /// the share that is not marked, 1 - p. A reduction takes x/2. So (1 - p) (1 + 1/x) = x/2,
    /// and x is nearly 1 + sqrt 3.
    #[test]
    fn under_random_marks_a_window_has_nearly_three() {
        for one_in in [20u64, 50, 100] {
            let tcp = dctcp(Span::from_millis(50));
            let of = |seconds: u64| {
                let mut chance = Chance::new(1, 2, 3);
                let all =
                    marked(&tcp, Span::from_secs(seconds), |_| below(&mut chance, one_in) == 0);
                assert_eq!((all.told.retransmitted, all.told.timeouts), (0, 0));
                all.arrived as f64
            };
            let (begins, all) = (of(20), of(320));
            let window = (all - begins) / 300.0 * 0.1;
            let grows = 1.0 - 1.0 / one_in as f64;
            let expected = (grows + (grows * grows + 2.0 * grows).sqrt()) * one_in as f64;
            assert!(
                (0.93..1.02).contains(&(window / expected)),
                "one in {one_in}: {window} beside {expected}"
            );
        }
    }

    /// One connection and a queue that marks whom it finds more than K packets before: the window
    /// goes up to what the path and K hold, W, and a round trip beyond; the share of marks is
    /// about sqrt(2 / W), and the queue is at most K and one more (Alizadeh and others 2010, 3.3).
    /// 100 Mbit/s: 120 us for each packet; 12 ms there and back hold a hundred of them.
    #[test]
    fn a_threshold_keeps_the_queue_at_it_and_the_link_busy() {
        let service = Span::from_micros(120);
        for threshold in [20, 40] {
            let of = |seconds| {
                over_threshold(
                    &dctcp(Span::from_millis(6)),
                    Span::from_secs(seconds),
                    (service, threshold),
                )
            };
            // In the first second it learns what marks are worth.
            let ((begins, _), (ran, marks)) = (of(1), of(20));
            let busy = (ran.arrived - begins.arrived) as f64 * 120e-6 / 19.0;
            assert!(busy > 0.99, "{threshold}: {busy}");
            let share = marks as f64 / ran.told.segments as f64;
            let expected = (2.0 / (100.0 + threshold as f64)).sqrt();
            assert!(
                (0.8..1.25).contains(&(share / expected)),
                "{threshold}: {share} beside {expected}"
            );
            let most = ran.told.round_trip.quantile(0.99).unwrap().as_secs_f64();
            let at_threshold = 0.012 + 120e-6 * threshold as f64;
            assert!(
                (1.0..1.05).contains(&(most / at_threshold)),
                "{threshold}: {most} beside {at_threshold}"
            );
        }
    }
}
