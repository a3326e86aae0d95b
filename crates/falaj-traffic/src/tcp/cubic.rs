//! CUBIC: the window is a cubic function of the time since the last loss, flat at the window of
//! that loss (RFC 9438), as in Linux.
//!
//! Where the RFC and Linux differ, this file follows Linux. Windows are whole segments. The
//! Reno-friendly window always grows by 0.53 segments in a round trip (RFC 8312, 4.2), also above
//! the window of the last loss, where RFC 9438 has one segment. The curve is evaluated one minimum
//! round trip ahead. Time is counted in ticks. The window's growth is computed from the curve at
//! most once in a tick, and not for three ticks while the window does not change. At round trips
//! shorter than a tick, CUBIC therefore grows like Reno: in whole segments the curve begins about
//! one segment above the window, and it is not evaluated again before the next tick. Until then the
//! window grows by that segment in each round trip.
//!
//! Slow start ends early (HyStart, Ha and Rhee 2011, as in Linux): when acknowledgements have come
//! without a pause for half the minimum round trip time, or when the round trip time has grown.

use super::Acked;
use falaj_sched::units::time::{Span, Time};

/// Scaling factor of the curve, in segments per second cubed.
const C: f64 = 0.4;
/// Fraction of the window that is left after a loss.
const BETA: f64 = 0.7;
/// Number of windows to acknowledge until the Reno-friendly window grows by a segment. With this
/// number, its mean is that of a Reno connection, which halves its window at losses.
const FRIENDLY: f64 = (1.0 + BETA) / (1.0 - BETA) / 3.0;
/// A tick of the kernel's clock. It is 10 ms in the kernel with which the model is compared; other
/// kernels have 1 or 4 ms.
const TICK: u64 = 10_000_000;
/// Number of ticks (1/32 s) after which growth is computed again, even if the window has not
/// changed.
const COMPUTED: u64 = 3;
/// Minimum window after a loss, in segments.
const LEAST: f64 = 2.0;
/// Number of acknowledged segments per segment of growth. `FASTEST` is the minimum. `FIRST` is the
/// maximum before the first loss, and from a timeout to the next loss. `FLAT` is the value where
/// the curve is flat, in windows.
const FASTEST: f64 = 2.0;
const FIRST: f64 = 20.0;
const FLAT: f64 = 100.0;

/// The window of CUBIC.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: f64,
    /// Slow start threshold: below it the window doubles each round trip.
    threshold: f64,
    /// The window at the last loss, or a smaller one for fast convergence; zero before the first
    /// loss, and after a timeout.
    flat: f64,
    /// The window at which the present curve is flat.
    origin: f64,
    /// Tick at which the present curve began; `None` from a loss until the next curve begins.
    since: Option<u64>,
    /// Time from the beginning of the curve to its flat point, in seconds.
    flat_after: f64,
    /// The Reno-friendly window: the window of a Reno connection that gives up three tenths at a
    /// loss and grows more slowly. Its mean is that of a Reno connection that gives up half.
    friendly: f64,
    /// Segments acknowledged since the Reno-friendly window last grew.
    friendly_acked: f64,
    /// Segments acknowledged since the window last grew, and the number after which it grows by
    /// one.
    acked: f64,
    every: f64,
    /// The tick in which growth was last computed from the curve, and the window at that time.
    computed: Option<(u64, f64)>,
    /// The minimum round trip time.
    shortest: Span,
    /// Detects that slow start has filled the path.
    start: HyStart,
}

impl Cubic {
    /// The initial state, with this window in segments.
    pub fn new(initial: u32) -> Cubic {
        Cubic {
            window: initial.into(),
            threshold: f64::INFINITY,
            flat: 0.0,
            origin: 0.0,
            since: None,
            flat_after: 0.0,
            friendly: 0.0,
            friendly_acked: 0.0,
            acked: 0.0,
            every: f64::INFINITY,
            computed: None,
            shortest: Span(u64::MAX),
            start: HyStart::default(),
        }
    }

    /// The congestion window in segments.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// The curve in whole segments, this number of seconds after its beginning.
    fn curve(&self, seconds: f64) -> f64 {
        self.origin + (C * (seconds - self.flat_after).powi(3)).trunc()
    }

    /// Handles newly acknowledged segments.
    pub fn acked(&mut self, acked: &Acked) {
        self.shortest = self.shortest.min(acked.round_trip);
        if acked.recovering || !acked.limited {
            return;
        }
        let segments = f64::from(acked.segments);
        if self.window < self.threshold {
            self.window = (self.window + segments).min(self.threshold);
            if self.start.is_full(acked, self.window, self.shortest) {
                self.threshold = self.window;
            }
            return;
        }
        self.grows(acked.now.0 / TICK, segments);
        // If the growth was computed late, surplus acknowledgements together count for one segment.
        if self.acked >= self.every {
            self.acked = 0.0;
            self.window += 1.0;
        }
        self.acked += segments;
        if self.acked >= self.every {
            self.window += (self.acked / self.every).floor();
            self.acked %= self.every;
        }
    }

    /// Computes the number of acknowledged segments after which the window grows by one, if this
    /// computation is due.
    fn grows(&mut self, tick: u64, segments: f64) {
        self.friendly_acked += segments;
        let stays = |(at, window)| window == self.window && tick - at <= COMPUTED;
        if self.computed.is_some_and(stays) {
            return;
        }
        if self.since.is_none() || self.computed.is_none_or(|(at, _)| at != tick) {
            self.computed = Some((tick, self.window));
            self.every = self.by_curve(tick, segments);
        }
        self.every = self.every.min(self.by_friendly()).max(FASTEST);
    }

    /// Number of segments to acknowledge per segment of growth, so that the window reaches `target`
    /// in a round trip.
    fn to_reach(&self, target: f64) -> f64 {
        (self.window / (target - self.window)).floor()
    }

    fn by_curve(&mut self, tick: u64, segments: f64) -> f64 {
        let since = *self.since.get_or_insert_with(|| {
            // If the window is larger already, the curve is flat at its beginning.
            self.origin = self.flat.max(self.window);
            self.flat_after = ((self.origin - self.window) / C).cbrt();
            (self.friendly, self.friendly_acked) = (self.window, segments);
            tick
        });
        let ticks = tick - since + self.shortest.0.div_ceil(TICK);
        let target = self.curve((ticks * TICK) as f64 / 1e9);
        let every = if target > self.window { self.to_reach(target) } else { FLAT * self.window };
        if self.flat == 0.0 { every.min(FIRST) } else { every }
    }

    fn by_friendly(&mut self) -> f64 {
        let for_one = (FRIENDLY * self.window).floor();
        while self.friendly_acked > for_one {
            self.friendly_acked -= for_one;
            self.friendly += 1.0;
        }
        if self.friendly > self.window { self.to_reach(self.friendly) } else { f64::INFINITY }
    }

    /// Handles lost or marked segments.
    pub fn congested(&mut self) {
        // Fast convergence: a connection whose window did not reach its value at the previous loss
        // leaves bandwidth to others.
        let left = if self.window < self.flat { f64::midpoint(1.0, BETA) } else { 1.0 };
        self.flat = (self.window * left).floor();
        self.threshold = (self.window * BETA).floor().max(LEAST);
        self.window = self.threshold;
        self.since = None;
        self.acked = 0.0;
    }

    /// Handles a retransmission timeout; `first` is true unless timeouts follow each other.
    pub fn timed_out(&mut self, first: bool) {
        if first {
            self.congested();
        }
        // The curve will begin at the window at which slow start ends.
        (self.flat, self.computed, self.start) = (0.0, None, HyStart::default());
        self.window = 1.0;
    }
}

/// HyStart: the state of the present round trip of slow start.
#[derive(Clone, Copy, Debug)]
struct HyStart {
    /// `began`: beginning of the round trip. `last`: time of the last acknowledgement that came
    /// without a pause.
    began: Time,
    last: Time,
    /// The minimum round trip time that was measured in this round trip, and the number of
    /// measurements.
    shortest: Span,
    measured: u32,
}

impl Default for HyStart {
    fn default() -> HyStart {
        HyStart { began: Time::ZERO, last: Time::ZERO, shortest: Span(u64::MAX), measured: 0 }
    }
}

impl HyStart {
    /// Minimum window at which slow start may end early, in segments.
    const FROM: f64 = 16.0;
    /// Acknowledgements with at most this gap count as without a pause.
    const PAUSE: Span = Span::from_millis(2);
    /// Maximum time for which a sender holds segments to send them together.
    const HELD: Span = Span::from_millis(1);
    /// Number of measurements after which the round trip time counts as known.
    const MEASURED: u32 = 8;
    /// Lower and upper bound of the growth of the round trip time that ends slow start. Within
    /// these bounds it is an eighth of the minimum round trip time.
    const GROWN: (Span, Span) = (Span::from_millis(4), Span::from_millis(16));

    /// Returns true if slow start ends at this acknowledgement.
    fn is_full(&mut self, acked: &Acked, window: f64, shortest: Span) -> bool {
        if acked.round {
            *self = HyStart { began: acked.now, last: acked.now, ..HyStart::default() };
        }
        if window < HyStart::FROM {
            return false;
        }
        if acked.now.since(self.last) <= HyStart::PAUSE {
            self.last = acked.now;
            if acked.now.since(self.began).0 > (shortest + HyStart::HELD).0 / 2 {
                return true;
            }
        }
        self.shortest = self.shortest.min(acked.round_trip);
        self.measured += 1;
        let grown = Span(shortest.0 / 8).clamp(HyStart::GROWN.0, HyStart::GROWN.1);
        self.measured > HyStart::MEASURED && self.shortest > shortest + grown
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::tests::{ack, mean_window};
    use super::super::{Congestion, Tcp};
    use super::*;
    use falaj_sched::units::time::Span;

    /// Figure 2 of RFC 9438 in numbers. A window of 1,000 segments was too large, so the window
    /// falls to 700. The curve is flat at 1,000 after cbrt(300 / 0.4) = 9.09 s, and reaches 1,300
    /// after twice that time.
    #[test]
    fn the_window_follows_the_curve() {
        let mut cubic = Cubic::new(1_000);
        cubic.congested();
        assert!((cubic.window() - 700.0).abs() < 1e-9);
        // A round trip of 100 ms, in which the whole window is acknowledged.
        let round = Span::from_millis(100);
        let (mut now, mut seen) = (Time::ZERO, Vec::new());
        for _ in 0..=183 {
            let segments = cubic.window() as u32;
            (0..segments).for_each(|_| cubic.acked(&Acked { now, round_trip: round, ..ack(1) }));
            seen.push(cubic.window());
            now += round;
        }
        let at = |seconds: f64| seen[(seconds * 10.0) as usize];
        for (seconds, window) in
            [(0.0, 700.0), (4.5, 961.3), (9.1, 1_000.0), (13.6, 1_036.7), (18.2, 1_302.0)]
        {
            // The window is between the curve and its value a round trip ahead, which is its
            // target.
            let [soon, late] = [seconds, seconds + 0.1]
                .map(|s| 0.4 * (s - (300.0f64 / 0.4).cbrt()).powi(3) + 1_000.0);
            assert!(
                (soon - 3.0..late + 3.0).contains(&at(seconds)),
                "{seconds} s: {} of {soon}",
                at(seconds)
            );
            assert!((at(seconds) - window).abs() < 12.0, "{seconds} s: {}", at(seconds));
        }
    }

    /// Fast convergence: the flat part is lower if the window did not reach the previous one: 70 *
    /// 0.85 = 59.5, in whole segments.
    #[test]
    fn fast_convergence_lowers_the_flat_part() {
        let mut cubic = Cubic::new(100);
        cubic.congested();
        cubic.congested();
        assert!(cubic.flat == 59.0 && cubic.window() == 49.0);
    }

    /// After a loss at 16 segments the window is 11, with a round trip of 40 ms. The growth by the
    /// curve, which begins at 16 - 0.4 * 12.5, is soon less than a segment. The Reno-friendly
    /// window grows by a segment for each 1.9 windows: 20 is reached after 9 * 1.9 = 17 round
    /// trips, or a few more, because growth is computed once in each. RFC 9438 would take 5 * 1.9 +
    /// 4 = 13.5.
    #[test]
    fn a_small_window_grows_by_half_a_segment_each_round_trip() {
        let mut cubic = Cubic::new(16);
        cubic.congested();
        assert_eq!(cubic.window(), 11.0);
        let (mut now, round) = (Time::ZERO, Span::from_millis(40));
        let mut rounds = 0;
        while cubic.window() < 20.0 {
            let segments = cubic.window() as u32;
            (0..segments).for_each(|_| cubic.acked(&Acked { now, round_trip: round, ..ack(1) }));
            now += round;
            rounds += 1;
        }
        assert!((17..=21).contains(&rounds), "{rounds}");
    }

    /// After a loss at 10 segments the window is 7. The curve begins one segment above: 10 - 2.97
    /// in whole segments is 8. Within a tick the curve is not evaluated again, and the window grows
    /// by one for each 7 acknowledged segments. From the next tick on the curve demands no growth,
    /// and the window stays the same.
    #[test]
    fn growth_is_computed_once_in_a_tick() {
        let acked = |cubic: &mut Cubic, now: Time, acks: u32| {
            let short = Acked { now, round_trip: Span::from_millis(1), ..ack(1) };
            (0..acks).for_each(|_| cubic.acked(&short));
        };
        let mut cubic = Cubic::new(10);
        cubic.congested();
        acked(&mut cubic, Time(0), 21);
        assert_eq!(cubic.window(), 10.0);
        acked(&mut cubic, Time(TICK), 7);
        assert_eq!(cubic.window(), 10.0);
    }

    /// Slow start with a round trip of 40 ms. From 16 segments on, it ends in two cases: nine
    /// measurements in one round trip are all more than 5 ms longer, or acknowledgements have come
    /// for 20.5 ms without a pause of 2 ms.
    #[test]
    fn slow_start_ends_where_the_path_is_full() {
        let base = Span::from_millis(40);
        let at = |ms: f64, round_trip: Span| Acked {
            now: Time((ms * 1e6) as u64),
            round_trip,
            ..ack(1)
        };
        for (grown, ends) in [(Span::from_millis(6), true), (Span::from_millis(4), false)] {
            let mut cubic = Cubic::new(20);
            cubic.acked(&Acked { round: true, ..at(0.0, base) });
            // The acknowledgements are three milliseconds apart, so each follows a pause.
            cubic.acked(&Acked { round: true, ..at(40.0, base + grown) });
            (1..9).for_each(|n| cubic.acked(&at(40.0 + 3.0 * f64::from(n), base + grown)));
            assert_eq!(cubic.threshold.is_finite(), ends, "{grown:?}");
        }
        for (apart, ends) in [(1.5, true), (2.5, false)] {
            let mut cubic = Cubic::new(20);
            cubic.acked(&Acked { round: true, ..at(0.0, base) });
            (1..=14).for_each(|n| cubic.acked(&at(apart * f64::from(n), base)));
            assert_eq!(cubic.threshold.is_finite(), ends, "{apart} ms apart");
        }
    }

    /// RFC 9438, 5.1: with deterministic loss the mean is 1.054 RTT^0.75 / p^0.75 segments; this is
    /// 187 for 100 ms and one loss in 10,000. With windows of whole segments, the window is back at
    /// its value W of the loss once less than one segment is missing. That is (1 / 0.4)^(1/3) =
    /// 1.36 s before the curve is there, and one more round trip earlier, because growth looks
    /// ahead. From then on losses repeat at the same W, whatever it is. The largest possible W is
    /// 257, with which the window is back at W just when the next loss comes. In this case K = (0.3
    /// W / 0.4)^(1/3) = 5.78 s, and 10,000 segments take K - 1.46 s = 4.31 s, a mean of 232.
    #[test]
    fn the_mean_window_is_that_of_the_rfc() {
        let tcp = Tcp { congestion: Congestion::Cubic, ..Tcp::without_end(Span::from_millis(50)) };
        let mean = mean_window(&tcp, |number| number % 10_000 == 9_999);
        assert!((187.0..232.0).contains(&mean), "{mean}");
    }
}
