//! CUBIC: the window is a cubic function of the time since the last loss, flat where that was (RFC
//! 9438).

use super::Acked;
use falaj_sched::units::time::Time;

/// How steep it is, in segments a second cubed.
const C: f64 = 0.4;
/// What is left of the window after a loss.
const BETA: f64 = 0.7;
/// No window is smaller after a loss.
const LEAST: f64 = 2.0;

/// The window of CUBIC.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: f64,
    /// Up to here it doubles each round trip.
    threshold: f64,
    /// Where the curve is flat.
    flat: f64,
    /// When this curve began; none yet since the last loss.
    since: Option<Time>,
    /// So many seconds after its beginning it is flat.
    flat_after: f64,
    /// What Reno's window would be, of the same mean as the one that loses three tenths instead of
    /// half.
    friendly: f64,
    /// The window before the last loss.
    before: f64,
}

impl Cubic {
    /// At the beginning.
    pub fn new(initial: u32) -> Cubic {
        Cubic {
            window: initial.into(),
            threshold: f64::INFINITY,
            flat: 0.0,
            since: None,
            flat_after: 0.0,
            friendly: 0.0,
            before: 0.0,
        }
    }

    /// In segments.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// The curve, so many seconds after its beginning.
    fn curve(&self, seconds: f64) -> f64 {
        C * (seconds - self.flat_after).powi(3) + self.flat
    }

    /// Segments have arrived.
    pub fn acked(&mut self, acked: &Acked) {
        if acked.recovering || !acked.limited {
            return;
        }
        let segments = f64::from(acked.segments);
        if self.window < self.threshold {
            self.window = (self.window + segments).min(self.threshold);
            return;
        }
        let since = *self.since.get_or_insert_with(|| {
            // It is flat at its beginning where the window is larger already.
            self.flat = self.flat.max(self.window);
            self.flat_after = ((self.flat - self.window) / C).cbrt();
            self.friendly = self.window;
            acked.now
        });
        let seconds = acked.now.since(since).as_secs_f64();
        let more =
            if self.friendly < self.before { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        self.friendly += more * segments / self.window;
        if self.curve(seconds) < self.friendly {
            self.window = self.window.max(self.friendly);
        } else {
            // What it is to be a round trip later.
            let target = self
                .curve(seconds + acked.round_trip.as_secs_f64())
                .clamp(self.window, 1.5 * self.window);
            self.window += segments * (target - self.window) / self.window;
        }
    }

    /// Segments are lost, or marked.
    pub fn congested(&mut self) {
        // One that did not come as far as the last time leaves room to others.
        self.flat =
            if self.window < self.flat { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.before = self.window;
        self.threshold = (self.window * BETA).max(LEAST);
        self.window = self.threshold;
        self.since = None;
    }

    /// Nothing has arrived for long.
    pub fn timed_out(&mut self, first: bool) {
        if first {
            self.congested();
        }
        // The curve begins where slow start ends.
        self.flat = 0.0;
        self.window = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::tests::{ack, mean_window};
    use super::super::{Congestion, Tcp};
    use super::*;
    use falaj_sched::units::time::Span;

    /// 1,000 segments were too many: 700, flat at 1,000 after cbrt(300 / 0.4) = 9.09 s, and 1,300
    /// as much later. Figure 2 of RFC 9438 in numbers.
    #[test]
    fn the_window_follows_the_curve() {
        let mut cubic = Cubic::new(1_000);
        cubic.congested();
        assert!((cubic.window() - 700.0).abs() < 1e-9);
        // A round trip of 100 ms: each acknowledges the window.
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
            // It is where the curve is within a round trip: it was to reach that.
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

    /// The flat part is lower where the window did not come as far as before: fast convergence.
    #[test]
    fn who_loses_room_leaves_some() {
        let mut cubic = Cubic::new(100);
        cubic.congested();
        cubic.congested();
        assert!((cubic.flat - 70.0 * 0.85).abs() < 1e-9 && (cubic.window() - 49.0).abs() < 1e-9);
    }

    /// RFC 9438, 5.1: with deterministic loss the mean is 1.054 RTT^0.75 / p^0.75 segments; 187 for
    /// 100 ms and one in 10,000. That is without fast convergence, which here takes each window
    /// that ends a segment below the one before it for a neighbour.
    #[test]
    fn the_mean_window_is_that_of_the_rfc() {
        let tcp = Tcp { congestion: Congestion::Cubic, ..Tcp::without_end(Span::from_millis(50)) };
        let mean = mean_window(&tcp, |number| number % 10_000 == 9_999);
        assert!((0.88..1.0).contains(&(mean / 187.0)), "{mean}");
    }
}
