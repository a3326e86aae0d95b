//! DCTCP: it counts which share of the segments is marked, and takes half as much from its window
//! (RFC 8257). Otherwise it is Reno, which a mark halves.
//!
//! This is Linux's DCTCP. The share is a whole number of 1/1024, and one below 16 of them, of which
//! a sixteenth would be less than one, is forgotten within a round trip. So once marks have been
//! rare, they reduce nothing before a quarter of a round trip's segments is marked.

use super::Acked;
use super::reno::Reno;

/// The share is counted in parts of this.
const PARTS: u32 = 1024;
/// g of the RFC: a round trip counts for one part of this.
const SMOOTHED: u32 = 16;

/// The window of DCTCP.
#[derive(Clone, Debug)]
pub struct Dctcp {
    reno: Reno,
    /// The smoothed share that is marked, in parts of 1024: alpha of the RFC.
    share: u32,
    /// Segments of this round trip: all, and marked ones.
    round: (u32, u32),
}

impl Dctcp {
    /// At the beginning; as long as nothing is known of marks, one is as good as a loss.
    pub fn new(initial: u32) -> Dctcp {
        Dctcp { reno: Reno::new(initial), share: PARTS, round: (0, 0) }
    }

    /// In segments.
    pub fn window(&self) -> f64 {
        self.reno.window()
    }

    /// Which share of the segments is marked, smoothed over round trips.
    pub fn share(&self) -> f64 {
        f64::from(self.share) / f64::from(PARTS)
    }

    /// Segments have arrived. As in Linux, the window does not grow in the round trip behind a
    /// mark.
    pub fn acked(&mut self, acked: &Acked) {
        if acked.round {
            self.learns();
        }
        self.round.0 += acked.segments;
        self.round.1 += acked.marked;
        self.reno.acked(acked);
    }

    /// A round trip is over.
    fn learns(&mut self) {
        let (all, marked) = std::mem::take(&mut self.round);
        let forgotten = self.share / SMOOTHED;
        self.share -= if forgotten == 0 { self.share } else { forgotten };
        self.share = (self.share + marked * (PARTS / SMOOTHED) / all.max(1)).min(PARTS);
    }

    /// Some segments are marked, for the first time in a round trip. As in Linux, a reduction has
    /// whole segments: where half the share has less than one, the window stays.
    pub fn marked(&mut self) {
        let window = self.window().floor();
        let left = window - (window * self.share() / 2.0).floor();
        self.reno.reduced_to(left / self.window());
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
    use super::super::connection::tests::{ack, over_threshold, through};
    use super::super::{Congestion, Tcp};
    use super::*;
    use falaj_sched::units::time::Span;

    fn dctcp(way: Span) -> Tcp {
        Tcp { congestion: Congestion::Dctcp, ..Tcp::without_end(way) }
    }

    /// By hand, in parts of 1024: of ten segments two are marked, 64 * 2 / 10 = 12 of them. 1024
    /// less 64, and 12: 972; less 60, and 12: 924.
    #[test]
    fn the_share_is_smoothed_over_round_trips() {
        let mut dctcp = Dctcp::new(10);
        for expected in [1024, 972, 924] {
            assert_eq!(dctcp.share, expected);
            dctcp.acked(&Acked { marked: 1, ..ack(1) });
            dctcp.acked(&Acked { marked: 1, ..ack(1) });
            (0..8).for_each(|_| dctcp.acked(&ack(1)));
            dctcp.learns();
        }
        // The first of a new round trip closes the old one.
        dctcp.acked(&Acked { marked: 1, round: true, ..ack(1) });
        assert_eq!(dctcp.round, (1, 1));
    }

    /// After many round trips without marks, 24 % in each are 15 parts, and are forgotten each
    /// time; 26 % are 16, and stay: less 1, and 16.
    #[test]
    fn less_than_a_quarter_is_forgotten_once_marks_were_rare() {
        let mut dctcp = Dctcp::new(10);
        (0..100).for_each(|_| dctcp.learns());
        assert_eq!(dctcp.share, 0);
        for (marked, expected) in [(24, 15), (24, 15), (26, 16), (26, 31), (26, 46)] {
            dctcp.round = (100, marked);
            dctcp.learns();
            assert_eq!(dctcp.share, expected);
        }
    }

    /// A mark takes half of the share that is known, a loss half of the window.
    #[test]
    fn a_mark_takes_less_than_a_loss() {
        let mut dctcp = Dctcp::new(100);
        dctcp.share = 205;
        dctcp.marked();
        assert_eq!(dctcp.window(), 90.0);
        dctcp.acked(&Acked { recovering: true, ..ack(9) });
        assert_eq!(dctcp.window(), 90.0);
        dctcp.acked(&ack(9));
        assert_eq!(dctcp.window(), 90.1);
        // 0.9 of a segment is none.
        dctcp.share = 20;
        dctcp.marked();
        assert_eq!(dctcp.window(), 90.0);
        dctcp.acked(&ack(9));
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
