//! Proportional integral controller enhanced: Pan and others, RFC 8033.
//!
//! Packets are dropped at their arrival, with a probability that is updated each period: it grows
//! with the excess of the delay over the target, and with the increase of the delay since the last
//! update. Steps and constants are those of the RFC's appendix A; derandomization is that of
//! appendix B. The delay is the delay of the last packet that left.

use super::policy::PieParameters;
use super::settings::{ECN, in_range, marks};
use super::verdict::{Level, Verdict};
use crate::contract::params::{ConfigError, Kind, Param, Values};
use crate::units::time::{Span, Time};

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "target",
        kind: Kind::Span,
        default: Some("15ms"),
        doc: "target queueing delay (QDELAY_REF), up to 4s",
    },
    Param {
        name: "update",
        kind: Kind::Span,
        default: Some("15ms"),
        doc: "time between two updates of the drop probability (T_UPDATE), up to 4s",
    },
    Param {
        name: "burst",
        kind: Kind::Span,
        default: Some("150ms"),
        doc: "time for which a burst after an idle period passes without drops (MAX_BURST), up to \
              4s",
    },
    ECN,
];

impl PieParameters {
    pub(crate) fn new(values: &Values) -> Result<PieParameters, ConfigError> {
        let default = PieParameters::default();
        Ok(PieParameters {
            target: in_range("target", values.span("target").unwrap_or(default.target))?,
            update: in_range("update", values.span("update").unwrap_or(default.update))?,
            burst: in_range("burst", values.span("burst").unwrap_or(default.burst))?,
            ecn: marks(values),
        })
    }
}

/// The probability 1. Probabilities are stored in units of 2^-64.
const ONE: i128 = 1 << 64;
/// Per second, alpha is an eighth and beta one and a quarter.
const ALPHA: (i128, i128) = (ONE / 8, 1_000_000_000);
const BETA: (i128, i128) = (ONE * 5 / 4, 1_000_000_000);
/// Pairs `(n, by)`: below a probability of `1/n`, changes are divided by `by`. The first pair that
/// applies counts.
const SCALES: [(i128, i128); 6] =
    [(1_000_000, 2048), (100_000, 512), (10_000, 128), (1000, 32), (100, 8), (10, 2)];

/// PIE of one queue.
#[derive(Clone, Copy, Debug)]
pub struct Pie {
    of: PieParameters,
    mean_pktsize: u32,
    drop_prob: i128,
    /// Sum of the probabilities since the last drop.
    accu_prob: i128,
    qdelay: Span,
    qdelay_old: Span,
    burst_allowance: Span,
    /// Time of the next update of the probability.
    update: Time,
}

impl Pie {
    /// State of an empty queue.
    pub fn new(of: PieParameters, largest: u32) -> Pie {
        Pie {
            of,
            mean_pktsize: largest,
            drop_prob: 0,
            accu_prob: 0,
            qdelay: Span::ZERO,
            qdelay_old: Span::ZERO,
            burst_allowance: of.burst,
            update: Time::ZERO + of.update,
        }
    }

    /// Returns the verdict on a packet that arrives. `draw` is a random number.
    pub fn comes(&mut self, level: Level, capable: bool, now: Time, draw: u64) -> Verdict {
        self.catch_up(now);
        if self.burst_allowance > Span::ZERO || !self.drop_early(level, draw) {
            return Verdict::Pass;
        }
        if self.of.ecn && capable && self.drop_prob <= ONE / 10 {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    fn drop_early(&mut self, level: Level, draw: u64) -> bool {
        // No packet of a short queue is dropped.
        let short = self.qdelay_old.0 < self.of.target.0 / 2 && self.drop_prob < ONE / 5;
        if short || u64::from(level.bytes) <= 2 * u64::from(self.mean_pktsize) {
            return false;
        }
        if self.drop_prob == 0 {
            self.accu_prob = 0;
        }
        self.accu_prob += self.drop_prob;
        let hit = self.accu_prob >= ONE * 85 / 100
            && (self.accu_prob >= ONE * 85 / 10 || i128::from(draw) < self.drop_prob);
        if hit {
            self.accu_prob = 0;
        }
        hit
    }

    /// Records that a packet leaves after a queueing delay of `stayed`, or that the queue is empty:
    /// `stayed` is then zero.
    pub fn leaves(&mut self, stayed: Span, now: Time) {
        self.catch_up(now);
        self.qdelay = stayed;
    }

    /// Performs all updates due until now. Updates change nothing more once the probability and the
    /// delays are zero and the burst allowance is full.
    fn catch_up(&mut self, now: Time) {
        while self.update <= now {
            let at_rest = self.drop_prob == 0
                && (self.qdelay, self.qdelay_old) == (Span::ZERO, Span::ZERO)
                && self.burst_allowance == self.of.burst;
            if at_rest {
                let periods = now.since(self.update).0 / self.of.update.0 + 1;
                self.update += self.of.update * periods;
                return;
            }
            self.calculate_drop_prob();
            self.update += self.of.update;
        }
    }

    fn calculate_drop_prob(&mut self) {
        let (now, old, target) = (
            i128::from(self.qdelay.0),
            i128::from(self.qdelay_old.0),
            i128::from(self.of.target.0),
        );
        let mut p = ALPHA.0 * (now - target) / ALPHA.1 + BETA.0 * (now - old) / BETA.1;
        if let Some((_, by)) = SCALES.iter().find(|(below, _)| self.drop_prob * below < ONE) {
            p /= by;
        }
        if self.drop_prob >= ONE / 10 {
            p = p.min(ONE / 50);
        }
        self.drop_prob += p;
        let half = self.of.target.0 / 2;
        let calm = self.qdelay.0 < half && self.qdelay_old.0 < half;
        if calm {
            // There is no congestion: the probability decays.
            self.drop_prob = self.drop_prob * 98 / 100;
        }
        self.drop_prob = self.drop_prob.clamp(0, ONE);
        self.qdelay_old = self.qdelay;
        self.burst_allowance = Span(self.burst_allowance.0.saturating_sub(self.of.update.0));
        if self.drop_prob == 0 && calm {
            self.burst_allowance = self.of.burst;
        }
    }

    pub(crate) fn migrate_from(&mut self, old: Pie) {
        let PieParameters { burst, .. } = self.of;
        *self = Pie { of: self.of, mean_pktsize: self.mean_pktsize, ..old };
        self.burst_allowance = self.burst_allowance.min(burst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::draws::Draws;

    fn prob(pie: &Pie) -> f64 {
        pie.drop_prob as f64 / ONE as f64
    }

    /// Computed by hand, with the delay `q`: 0.125 s^-1 (q - 15 ms) + 1.25 s^-1 (q - q_old), scaled
    /// by a factor for the range of the probability.
    #[test]
    fn the_probability_goes_as_worked_out_by_hand() {
        let mut pie = Pie::new(PieParameters::default(), 1000);
        let mut see = |ms, expected: f64| {
            pie.qdelay = Span::from_millis(ms);
            pie.calculate_drop_prob();
            assert!(
                (prob(&pie) - expected).abs() < 1e-12,
                "{ms} ms: {}, not {expected}",
                prob(&pie)
            );
            pie.drop_prob as f64 / ONE as f64
        };
        // From 0 to 55 ms: 0.125 x 0.040 + 1.25 x 0.055 = 0.07375, divided by 2048.
        let mut p = see(55, 0.07375 / 2048.0);
        // The probability is below 10^-4, so the change is divided by 128: 0.125 x 0.040.
        p = see(55, p + 0.005 / 128.0);
        p = see(55, p + 0.005 / 128.0);
        // Above 10^-4 the change is divided by 32. The delay is 100 ms longer.
        p = see(155, p + (0.125 * 0.140 + 1.25 * 0.1) / 32.0);
        // Above 10^-3 the change is divided by 8. The delay falls by 10 ms.
        p = see(145, p + (0.125 * 0.130 - 1.25 * 0.010) / 8.0);
        // The probability never falls below zero.
        assert!(p < 0.01);
        see(95, 0.0);
        // A large step: above a probability of a tenth, it rises by at most 2 % at once.
        pie.drop_prob = ONE / 5;
        pie.qdelay = Span::from_secs(3);
        pie.calculate_drop_prob();
        assert!((prob(&pie) - 0.22).abs() < 1e-12);
        // The delay was zero at the last two updates: the probability changes by minus alpha times
        // 15 ms, and then decays by 2 %.
        (pie.qdelay, pie.qdelay_old) = (Span::ZERO, Span::ZERO);
        pie.calculate_drop_prob();
        assert!((prob(&pie) - (0.22 - 0.125 * 0.015) * 0.98).abs() < 1e-12);
    }

    #[test]
    fn a_burst_is_let_in_and_then_as_many_are_dropped_as_the_probability_says() {
        let mut pie = Pie::new(PieParameters::default(), 1000);
        let mut draws = Draws::new(3, 0);
        let full = Level { packets: 50, bytes: 50_000 };
        pie.leaves(Span::from_millis(100), Time(1));
        for ms in 0..150 {
            assert_eq!(pie.comes(full, false, Time(ms * 1_000_000), 0), Verdict::Pass, "{ms} ms");
        }
        // At a probability just below 5 %, a gap between drops has at least 18 packets: 17 and a
        // random part of mean 20. It has at most 171 packets.
        pie.comes(full, false, Time(150_000_000), 0);
        let (mut drops, mut gap, n) = (0, 0, 200_000);
        for _ in 0..n {
            (pie.drop_prob, pie.qdelay_old) = (ONE / 20, Span::from_millis(20));
            gap += 1;
            if pie.comes(full, false, Time(150_000_001), draws.draw()) == Verdict::Drop {
                assert!((18..=171).contains(&gap) || drops == 0, "{gap}");
                (drops, gap) = (drops + 1, 0);
            }
        }
        // A gap is 17 plus a geometric random number of mean 20 and standard deviation sqrt(380).
        // The truncation at 171 changes little.
        let mean = f64::from(n) / 37.0;
        let deviation = (380.0 * f64::from(n) / 37.0f64.powi(3)).sqrt();
        assert!(
            (f64::from(drops) - mean).abs() < 4.0 * deviation + 0.01 * mean,
            "{drops}, not {mean}"
        );
    }

    #[test]
    fn a_pause_is_made_up_for() {
        let mut slow = Pie::new(PieParameters::default(), 1000);
        (slow.drop_prob, slow.qdelay, slow.burst_allowance) =
            (ONE / 2, Span::from_millis(40), Span::ZERO);
        let mut quick = slow;
        slow.leaves(Span::ZERO, Time(1));
        quick.leaves(Span::ZERO, Time(1));
        for ms in 0..100_000 {
            slow.catch_up(Time(ms * 1_000_000));
        }
        quick.catch_up(Time(99_999_000_000));
        assert_eq!((slow.drop_prob, slow.update), (quick.drop_prob, quick.update));
        assert_eq!((slow.drop_prob, slow.burst_allowance), (0, Span::from_millis(150)));
    }
}
