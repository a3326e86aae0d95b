//! Service curves of two linear pieces. Each piece is part of a line, and each line has a clock:
//! the instant at which the line reaches the flow's number of bytes.

use crate::contract::params::{ConfigError, Setup};
use crate::mechanisms::weights::{Instant, duration, pace, shifted};
use crate::units::rate::Rate;
use crate::units::time::Span;
use alloc::format;

/// A curve of two pieces, in the form that its clocks need.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    rate: Rate,
    /// Time of a byte on the first and on the second line.
    paces: [Instant; 2],
    concave: bool,
    /// True if both lines are equal, so that both clocks are equal.
    single: bool,
    /// Time by which the second line is earlier than its clock (concave curve) or later (convex
    /// curve).
    shift: Instant,
}

impl Curve {
    /// A curve with the rate `first` for `time`, and `rate` after that.
    pub(crate) fn new(first: Rate, time: Span, rate: Rate) -> Curve {
        let concave = first >= rate;
        let ahead = u128::from(first.0.abs_diff(rate.0)) * u128::from(time.0);
        let (whole, part) = (ahead / u128::from(rate.0), ahead % u128::from(rate.0));
        // The end of the first piece may be beyond 2^64 ns; no packet waits as long as that.
        let whole = duration(Span(u64::try_from(whole).unwrap_or(u64::MAX)));
        // Rounded so that deadlines are never too early.
        let part = duration(Span(1)) * part;
        let up = u128::from(!concave && !part.is_multiple_of(u128::from(rate.0)));
        let shift = whole + part / u128::from(rate.0) + up;
        Curve { rate, paces: [pace(first), pace(rate)], concave, single: first == rate, shift }
    }

    /// The rate in the long run.
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// The clocks after `bytes` more bytes.
    #[inline]
    pub(crate) fn after(&self, [first, second]: [Instant; 2], bytes: u32) -> [Instant; 2] {
        let later = |clock: Instant, pace| clock.saturating_add(Instant::from(bytes) * pace);
        if self.single {
            return [later(first, self.paces[0]); 2];
        }
        [later(first, self.paces[0]), later(second, self.paces[1])]
    }

    /// Time at which the curve reaches the number of bytes that the clocks represent.
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

    /// Time at which service must begin, so that the curve can be kept later. For a concave curve
    /// it is the deadline. For a convex curve it is the second line without the wait that the first
    /// line allows.
    #[inline]
    pub(crate) fn eligible(&self, clocks: [Instant; 2]) -> Instant {
        if self.concave { self.deadline(clocks) } else { clocks[1] }
    }

    /// The clocks of a curve that has begun already, moved to `least` if they are earlier. If the
    /// curve begins with the lower rate, the wait that this rate allows is over. In this case the
    /// second clock may be earlier than `least` by the shift.
    #[inline]
    pub(crate) fn not_before(
        &self,
        [first, second]: [Instant; 2],
        least: [Instant; 2],
    ) -> [Instant; 2] {
        let waited = if self.concave { 0 } else { self.shift };
        [first.max(least[0]), second.max(least[1].saturating_sub(waited))]
    }

    /// Returns true if the clocks of both lines are not later than `now`.
    pub(crate) fn is_over(clocks: [Instant; 2], now: Instant) -> bool {
        clocks.iter().all(|&clock| clock <= now)
    }

    /// Converts the clocks of the curve `old` to this curve: their distance from now stays the same
    /// in bytes.
    pub(crate) fn inherit(&self, old: &Curve, clocks: [Instant; 2], now: Instant) -> [Instant; 2] {
        let clocks =
            [0, 1].map(|line| shifted(clocks[line], now, old.paces[line], self.paces[line]));
        if self.single { [clocks[0].max(clocks[1]); 2] } else { clocks }
    }
}

/// Maximum length of a first piece: an hour.
pub(crate) const LONGEST: Span = Span(3_600_000_000_000);

/// Refuses curves whose sum exceeds the line of the link's rate. The sum is straight between the
/// ends of the first pieces. So it is below the line everywhere if it is below the line at each of
/// these ends, and if its final slope is not steeper. The callers check that slope, the sum of the
/// rates, before.
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
                    "within {time} the flows' curves require {} B, but the link sends {} B",
                    bytes(asked),
                    bytes(there)
                ),
                help: "use a shorter burst or a lower `burst-rate`; for a flow that can wait, a \
                       `burst-rate` below its `rate`"
                    .into(),
            });
        }
    }
    Ok(())
}
