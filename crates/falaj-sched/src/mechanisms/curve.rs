//! Service curves of two linear pieces. Each piece has a clock: the instant at which its line
//! reaches the bytes of the flow.

use crate::contract::params::{ConfigError, Setup};
use crate::mechanisms::weights::{Instant, duration, pace, shifted};
use crate::units::rate::Rate;
use crate::units::time::Span;
use alloc::format;

/// A curve of two pieces, as the clocks of its two lines need it.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    rate: Rate,
    /// Time of a byte on the first and on the second line.
    paces: [Instant; 2],
    concave: bool,
    /// True if both lines are equal, so that both clocks show the same.
    single: bool,
    /// Distance by which the second line is earlier (concave) or later than its clock.
    shift: Instant,
}

impl Curve {
    /// The first rate for a time, then the second.
    pub(crate) fn new(first: Rate, time: Span, rate: Rate) -> Curve {
        let concave = first >= rate;
        let ahead = u128::from(first.0.abs_diff(rate.0)) * u128::from(time.0);
        let (whole, part) = (ahead / u128::from(rate.0), ahead % u128::from(rate.0));
        // The end of the first piece may be beyond 2^64 ns; no wait is that long.
        let whole = duration(Span(u64::try_from(whole).unwrap_or(u64::MAX)));
        // Rounded so that deadlines are late rather than early.
        let part = duration(Span(1)) * part;
        let up = u128::from(!concave && !part.is_multiple_of(u128::from(rate.0)));
        let shift = whole + part / u128::from(rate.0) + up;
        Curve { rate, paces: [pace(first), pace(rate)], concave, single: first == rate, shift }
    }

    /// The rate in the long run.
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// The clocks after `bytes` more.
    #[inline]
    pub(crate) fn after(&self, [first, second]: [Instant; 2], bytes: u32) -> [Instant; 2] {
        let later = |clock: Instant, pace| clock.saturating_add(Instant::from(bytes) * pace);
        if self.single {
            return [later(first, self.paces[0]); 2];
        }
        [later(first, self.paces[0]), later(second, self.paces[1])]
    }

    /// Time at which the curve reaches the bytes for which the clocks stand.
    #[inline]
    pub(crate) fn deadline(&self, [first, second]: [Instant; 2]) -> Instant {
        if self.single {
            first
        } else if self.concave {
            first.max(second.saturating_sub(self.shift))
        } else {
            first.min(second.saturating_add(self.shift))
        }
    }

    /// Time at which service must begin so that the curve can be kept later: the curve itself if it
    /// is the lower of its lines; otherwise the second line, without the wait that the first one
    /// allows.
    #[inline]
    pub(crate) fn eligible(&self, clocks: [Instant; 2]) -> Instant {
        if self.concave { self.deadline(clocks) } else { clocks[1] }
    }

    /// The clocks, moved to `least` if they are earlier, for a curve that has begun already. If the
    /// curve begins with the lower rate, the wait that this allows is over: the second clock may
    /// then be earlier than `least` by the shift.
    #[inline]
    pub(crate) fn not_before(
        &self,
        [first, second]: [Instant; 2],
        least: [Instant; 2],
    ) -> [Instant; 2] {
        let waited = if self.concave { 0 } else { self.shift };
        [first.max(least[0]), second.max(least[1].saturating_sub(waited))]
    }

    /// Returns true if the clocks of both lines show no more than `now`.
    pub(crate) fn is_over(clocks: [Instant; 2], now: Instant) -> bool {
        clocks.iter().all(|&clock| clock <= now)
    }

    /// The clocks under a successor of this curve: their distance from now stays the same in bytes.
    pub(crate) fn inherit(&self, old: &Curve, clocks: [Instant; 2], now: Instant) -> [Instant; 2] {
        let clocks =
            [0, 1].map(|line| shifted(clocks[line], now, old.paces[line], self.paces[line]));
        if self.single { [clocks[0].max(clocks[1]); 2] } else { clocks }
    }
}

/// Maximum length of a first piece: an hour.
pub(crate) const LONGEST: Span = Span(3_600_000_000_000);

/// Refuses curves whose sum exceeds the link's line. The curves are straight between the ends of
/// their first pieces: their sum is below the line everywhere if it is at each of these ends, and
/// in slope.
pub(crate) fn fits(setup: &Setup, pieces: &[(Rate, Span, Rate)]) -> Result<(), ConfigError> {
    let link = u128::from(setup.rate.0);
    let product = |rate: Rate, time: u64| u128::from(rate.0) * u128::from(time);
    let at = |then: u64| -> u128 {
        let curve = |&(first, time, rate): &(Rate, Span, Rate)| {
            product(first, then.min(time.0)) + product(rate, then.saturating_sub(time.0))
        };
        pieces.iter().map(curve).sum()
    };
    for (flow, &(_, time, _)) in pieces.iter().enumerate() {
        let (asked, there) = (at(time.0), link * u128::from(time.0));
        if asked > there {
            let bytes = |bits: u128| bits / 8_000_000_000;
            return Err(ConfigError {
                flow: Some(flow),
                param: "burst-time",
                what: format!(
                    "within {time} the flows' curves ask for {} B, and the link sends {} B",
                    bytes(asked),
                    bytes(there)
                ),
                help: "a shorter burst, a lower `burst-rate`, or one below the `rate` for a flow that can wait".into(),
            });
        }
    }
    Ok(())
}
