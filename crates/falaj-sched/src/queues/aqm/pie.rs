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
use crate::units::probability::Probability;
use crate::units::time::{Span, Time};
use alloc::format;

/// The largest gain, in sixteenths per second.
const MAX_GAIN: u32 = 32;

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
    Param {
        name: "alpha",
        kind: GAIN,
        default: Some("2"),
        doc: "gain on the delay beyond `target`, in sixteenths per second",
    },
    Param {
        name: "beta",
        kind: GAIN,
        default: Some("20"),
        doc: "gain on the growth of the delay since the last update, in sixteenths per second",
    },
    ECN,
    Param {
        name: "ecn-probability",
        kind: Kind::Probability,
        default: Some("10%"),
        doc: "the highest drop probability at which packets are marked; above it they are dropped, \
              even with `ecn`",
    },
];

/// The kind of a gain, in sixteenths per second.
pub const GAIN: Kind = Kind::Count { min: 0, max: MAX_GAIN as u64 };

impl PieParameters {
    pub(crate) fn new(values: &Values) -> Result<PieParameters, ConfigError> {
        let default = PieParameters::default();
        Ok(PieParameters {
            target: in_range("target", values.span("target").unwrap_or(default.target))?,
            update: in_range("update", values.span("update").unwrap_or(default.update))?,
            burst: in_range("burst", values.span("burst").unwrap_or(default.burst))?,
            alpha: gain("alpha", values.count("alpha").unwrap_or(default.alpha.into()))?,
            beta: gain("beta", values.count("beta").unwrap_or(default.beta.into()))?,
            ecn: marks(values),
            ecn_ceiling: values.probability("ecn-probability").unwrap_or(default.ecn_ceiling),
        })
    }

    /// The highest drop probability at which a packet is marked.
    fn marked_up_to(&self) -> i128 {
        match self.ecn_ceiling {
            Probability::ALWAYS => ONE,
            ceiling => ceiling.of_all().into(),
        }
    }
}

/// A gain of at most [`MAX_GAIN`].
fn gain(param: &'static str, sixteenths: u64) -> Result<u32, ConfigError> {
    u32::try_from(sixteenths).ok().filter(|gain| *gain <= MAX_GAIN).ok_or_else(|| ConfigError {
        flow: None,
        param,
        what: format!("a gain of {sixteenths} is out of range"),
        help: format!("from 0 to {MAX_GAIN} sixteenths per second"),
    })
}

/// The probability 1. Probabilities are stored in units of 2^-64.
const ONE: i128 = 1 << 64;
/// The gain of a sixteenth per second, for delays in nanoseconds: the probability, and the delay
/// for which it is meant.
const SIXTEENTH: (i128, i128) = (ONE / 16, 1_000_000_000);
/// Pairs `(n, by)`: below a probability of `1/n`, changes are divided by `by`. The first pair that
/// applies counts.
const SCALES: [(i128, i128); 6] =
    [(1_000_000, 2048), (100_000, 512), (10_000, 128), (1000, 32), (100, 8), (10, 2)];

/// PIE of one queue.
#[derive(Clone, Copy, Debug)]
pub struct Pie {
    of: PieParameters,
    mean_pktsize: u32,
    state: State,
}

impl Pie {
    /// State of an empty queue.
    pub fn new(of: PieParameters, largest: u32) -> Pie {
        Pie { of, mean_pktsize: largest, state: State::new(&of) }
    }

    /// Returns the verdict on a packet that arrives. `draw` is a random number.
    pub fn comes(&mut self, level: Level, capable: bool, now: Time, draw: u64) -> Verdict {
        let Pie { of, mean_pktsize, state } = self;
        state.comes(of, *mean_pktsize, level.bytes.into(), capable, now, draw)
    }

    /// Records that a packet leaves after a queueing delay of `stayed`, or that the queue is empty:
    /// `stayed` is then zero.
    pub fn leaves(&mut self, stayed: Span, now: Time) {
        self.state.leaves(&self.of, stayed, now);
    }

    pub(crate) fn migrate_from(&mut self, old: Pie) {
        self.state = old.state;
        self.state.limit_burst(&self.of);
    }
}

/// The variable state, by the RFC's names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    drop_prob: i128,
    /// Sum of the probabilities since the last drop.
    accu_prob: i128,
    qdelay: Span,
    qdelay_old: Span,
    burst_allowance: Span,
    /// Time of the next update of the probability.
    update: Time,
}

/// The parameters are stored elsewhere.
impl State {
    /// State of an empty queue.
    pub(crate) fn new(of: &PieParameters) -> State {
        State { burst_allowance: of.burst, update: Time::ZERO + of.update, ..State::default() }
    }

    /// Returns the verdict on a packet that arrives at a queue of this number of bytes.
    /// `mean_pktsize` is in bytes, `draw` is a random number.
    pub(crate) fn comes(
        &mut self,
        of: &PieParameters,
        mean_pktsize: u32,
        queued: u64,
        capable: bool,
        now: Time,
        draw: u64,
    ) -> Verdict {
        self.catch_up(of, now);
        // No packet of a short queue is dropped.
        let short = queued <= 2 * u64::from(mean_pktsize);
        if self.burst_allowance > Span::ZERO || short || !self.drop_early(of, draw) {
            return Verdict::Pass;
        }
        if of.ecn && capable && self.drop_prob <= of.marked_up_to() {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    fn drop_early(&mut self, of: &PieParameters, draw: u64) -> bool {
        if self.qdelay_old.0 < of.target.0 / 2 && self.drop_prob < ONE / 5 {
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
    pub(crate) fn leaves(&mut self, of: &PieParameters, stayed: Span, now: Time) {
        self.catch_up(of, now);
        self.qdelay = stayed;
    }

    /// Performs all updates due until now. Updates change nothing more once the probability and the
    /// delays are zero and the burst allowance is full.
    fn catch_up(&mut self, of: &PieParameters, now: Time) {
        while self.update <= now {
            let at_rest = self.drop_prob == 0
                && (self.qdelay, self.qdelay_old) == (Span::ZERO, Span::ZERO)
                && self.burst_allowance == of.burst;
            if at_rest {
                let periods = now.since(self.update).0 / of.update.0 + 1;
                self.update += of.update * periods;
                return;
            }
            self.calculate_drop_prob(of);
            self.update += of.update;
        }
    }

    fn calculate_drop_prob(&mut self, of: &PieParameters) {
        let (now, old, target) =
            (i128::from(self.qdelay.0), i128::from(self.qdelay_old.0), i128::from(of.target.0));
        let change = |gain: u32, delay: i128| SIXTEENTH.0 * i128::from(gain) * delay / SIXTEENTH.1;
        let mut p = change(of.alpha, now - target) + change(of.beta, now - old);
        if let Some((_, by)) = SCALES.iter().find(|(below, _)| self.drop_prob * below < ONE) {
            p /= by;
        }
        if self.drop_prob >= ONE / 10 {
            p = p.min(ONE / 50);
        }
        self.drop_prob += p;
        let half = of.target.0 / 2;
        let calm = self.qdelay.0 < half && self.qdelay_old.0 < half;
        if calm {
            // There is no congestion: the probability decays.
            self.drop_prob = self.drop_prob * 98 / 100;
        }
        self.drop_prob = self.drop_prob.clamp(0, ONE);
        self.qdelay_old = self.qdelay;
        self.burst_allowance = Span(self.burst_allowance.0.saturating_sub(of.update.0));
        if self.drop_prob == 0 && calm {
            self.burst_allowance = of.burst;
        }
    }

    /// Limits the burst allowance to that of new parameters.
    pub(crate) fn limit_burst(&mut self, of: &PieParameters) {
        self.burst_allowance = self.burst_allowance.min(of.burst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Value;
    use crate::units::draws::Draws;

    fn prob(pie: &State) -> f64 {
        pie.drop_prob as f64 / ONE as f64
    }

    /// Computed by hand, with the delay `q`: 0.125 s^-1 (q - 15 ms) + 1.25 s^-1 (q - q_old), scaled
    /// by a factor for the range of the probability.
    #[test]
    fn the_probability_goes_as_worked_out_by_hand() {
        let of = PieParameters::default();
        let mut pie = State::new(&of);
        let mut see = |ms, expected: f64| {
            pie.qdelay = Span::from_millis(ms);
            pie.calculate_drop_prob(&of);
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
        pie.calculate_drop_prob(&of);
        assert!((prob(&pie) - 0.22).abs() < 1e-12);
        // The delay was zero at the last two updates: the probability changes by minus alpha times
        // 15 ms, and then decays by 2 %.
        (pie.qdelay, pie.qdelay_old) = (Span::ZERO, Span::ZERO);
        pie.calculate_drop_prob(&of);
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
            (pie.state.drop_prob, pie.state.qdelay_old) = (ONE / 20, Span::from_millis(20));
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
        let of = PieParameters::default();
        let mut slow = State::new(&of);
        (slow.drop_prob, slow.qdelay, slow.burst_allowance) =
            (ONE / 2, Span::from_millis(40), Span::ZERO);
        let mut quick = slow;
        slow.leaves(&of, Span::ZERO, Time(1));
        quick.leaves(&of, Span::ZERO, Time(1));
        for ms in 0..100_000 {
            slow.catch_up(&of, Time(ms * 1_000_000));
        }
        quick.catch_up(&of, Time(99_999_000_000));
        assert_eq!((slow.drop_prob, slow.update), (quick.drop_prob, quick.update));
        assert_eq!((slow.drop_prob, slow.burst_allowance), (0, Span::from_millis(150)));
    }

    /// The gains are those of Linux's `pie alpha 4 beta 8`: 0.25 and 0.5 per second.
    #[test]
    fn gains_are_in_sixteenths_per_second() {
        let of = PieParameters { alpha: 4, beta: 8, ..PieParameters::default() };
        let mut pie = State { drop_prob: ONE / 5, ..State::new(&of) };
        (pie.qdelay, pie.qdelay_old) = (Span::from_millis(35), Span::from_millis(25));
        pie.calculate_drop_prob(&of);
        assert!((prob(&pie) - (0.2 + 0.25 * 0.020 + 0.5 * 0.010)).abs() < 1e-12);
        let values = |alpha| Values::default().with("alpha", Value::Count(alpha));
        assert_eq!(PieParameters::new(&values(32)).map(|of| of.alpha), Ok(32));
        assert!(PieParameters::new(&values(33)).is_err());
    }

    /// At a sum of probabilities of 8.5 each packet is dropped or marked.
    #[test]
    fn packets_are_marked_up_to_a_probability() {
        let verdict = |ceiling, drop_prob, capable| {
            let of = PieParameters { ecn: true, ecn_ceiling: ceiling, ..PieParameters::default() };
            let (accu_prob, burst_allowance) = (9 * ONE, Span::ZERO);
            let qdelay_old = of.target;
            let full =
                State { drop_prob, accu_prob, burst_allowance, qdelay_old, ..State::new(&of) };
            { full }.comes(&of, 1000, 10_000, capable, Time::ZERO, 0)
        };
        let tenth = PieParameters::default().ecn_ceiling;
        assert_eq!(verdict(tenth, ONE / 10, true), Verdict::Mark);
        assert_eq!(verdict(tenth, ONE / 10 + 1, true), Verdict::Drop);
        assert_eq!(verdict(tenth, ONE / 10, false), Verdict::Drop);
        assert_eq!(verdict(Probability::of(1, 4), ONE / 4, true), Verdict::Mark);
        assert_eq!(verdict(Probability::ALWAYS, ONE, true), Verdict::Mark);
        assert_eq!(verdict(Probability::NEVER, 1, true), Verdict::Drop);
    }
}
