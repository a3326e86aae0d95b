//! DCTCP: it measures the fraction of marked segments, and reduces its window by half of that
//! fraction (RFC 8257). Otherwise it is like Reno, which halves its window at a mark.
//!
//! This file follows DCTCP in Linux. The fraction is stored in whole units of 1/1024, and decays by
//! a sixteenth each round trip. Below 16 units the decay would be less than one unit, so the
//! fraction is set to zero. After a time with rare marks, marks therefore do not reduce the window
//! until a quarter of the segments of a round trip is marked.

use super::Acked;
use super::reno::Reno;

/// Units of the marked fraction.
const PARTS: u32 = 1024;
/// 1/g of the RFC: a round trip has the weight g = 1/16 in the smoothed fraction.
const SMOOTHED: u32 = 16;

/// The window of DCTCP.
#[derive(Clone, Debug)]
pub struct Dctcp {
    reno: Reno,
    /// The smoothed marked fraction, in units of 1/1024: alpha of the RFC.
    share: u32,
    /// Segments of this round trip: the number of all, and the number of marked segments.
    round: (u32, u32),
}

impl Dctcp {
    /// The initial state; until the marked fraction has been measured, a mark has the effect of a
    /// loss.
    pub fn new(initial: u32) -> Dctcp {
        Dctcp { reno: Reno::new(initial), share: PARTS, round: (0, 0) }
    }

    /// The congestion window in segments.
    pub fn window(&self) -> f64 {
        self.reno.window()
    }

    /// The marked fraction of segments, smoothed over round trips.
    pub fn share(&self) -> f64 {
        f64::from(self.share) / f64::from(PARTS)
    }

    /// Handles newly acknowledged segments. As in Linux, the window does not grow in the round trip
    /// after a mark.
    pub fn acked(&mut self, acked: &Acked) {
        if acked.round {
            self.learns();
        }
        self.round.0 += acked.segments;
        self.round.1 += acked.marked;
        self.reno.acked(acked);
    }

    /// Updates the marked fraction at the end of a round trip.
    fn learns(&mut self) {
        let (all, marked) = std::mem::take(&mut self.round);
        let forgotten = self.share / SMOOTHED;
        self.share -= if forgotten == 0 { self.share } else { forgotten };
        self.share = (self.share + marked * (PARTS / SMOOTHED) / all.max(1)).min(PARTS);
    }

    /// Handles the first marked segments of a round trip. As in Linux, a reduction is in whole
    /// segments: if the reduction is less than one segment, the window does not change.
    pub fn marked(&mut self) {
        let window = self.window().floor();
        let left = window - (window * self.share() / 2.0).floor();
        self.reno.reduced_to(left / self.window());
    }

    /// Handles lost segments: the window is halved, as in Reno.
    pub fn congested(&mut self) {
        self.reno.congested();
    }

    /// Handles a retransmission timeout; `first` is true unless timeouts follow each other.
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

    /// Computed by hand, in units of 1/1024. Two of ten segments are marked, which adds 64 * 2 / 10
    /// = 12 units. So the fraction becomes 1024 - 64 + 12 = 972, then 972 - 60 + 12 = 924.
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
        // The first acknowledgement of a new round trip ends the old one.
        dctcp.acked(&Acked { marked: 1, round: true, ..ack(1) });
        assert_eq!(dctcp.round, (1, 1));
    }

    /// After many round trips without marks, 24 % marked segments give 15 units, which are set to
    /// zero each time. 26 % give 16 units, which are kept; each round trip then subtracts 1 and
    /// adds 16.
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

    /// A mark reduces the window by half of the measured fraction, a loss by half of the window.
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
        // A reduction by 0.9 of a segment is rounded to zero.
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

    /// One connection, and a queue that marks packets that find more than K packets before them.
    /// The window grows to W, which is the capacity of the path plus K, and grows for one more
    /// round trip. The marked fraction is about sqrt(2 / W), and the queue has at most K + 1
    /// packets (Alizadeh and others 2010, 3.3). At 100 Mbit/s a packet takes 120 us; the capacity
    /// at a round trip of 12 ms is a hundred packets.
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
            // In the first second the connection measures the marked fraction.
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
