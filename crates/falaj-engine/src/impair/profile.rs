//! Air time beside a packet's own: contention, acknowledgements, attempts that
//! fail. dummynet calls the distribution that was measured of it a profile.

use super::event::Draw;
use falaj_sched::units::probability::Probability;
use falaj_sched::units::time::Span;
use std::sync::Arc;

/// How long each packet takes beyond its own transmission.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    points: Arc<[(Probability, Span)]>,
    loss_level: Probability,
    /// The link is occupied for that time, and the next packet waits.
    pub occupies: bool,
}

impl Profile {
    /// The distribution function: probabilities, and the times up to which so
    /// many packets take, with straight lines between; in order, from a
    /// probability of 0 to one of 1. `None` if it is none. A packet whose draw
    /// is at or above the loss level takes its time, and is lost.
    pub fn new(
        points: Vec<(Probability, Span)>,
        loss_level: Probability,
        occupies: bool,
    ) -> Option<Profile> {
        let ordered = points.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1);
        let whole =
            points.first()?.0 == Probability::NEVER && points.last()?.0 == Probability::ALWAYS;
        (ordered && whole).then(|| Profile { points: points.into(), loss_level, occupies })
    }

    /// The longest time.
    pub fn most(&self) -> Span {
        self.points.last().map_or(Span::ZERO, |p| p.1)
    }

    /// The part of packets that is lost.
    pub fn loss(&self) -> f64 {
        1.0 - self.loss_level.as_f64()
    }

    /// How long a packet takes, and whether it is lost then.
    #[inline]
    pub(crate) fn of(&self, draw: Draw) -> (Span, bool) {
        let draw = draw.independent();
        let after = self.points.partition_point(|p| !p.0.hits(draw));
        let (low, high) = (self.points[after - 1], self.points[after]);
        let part = u128::from(draw - low.0.of_all()) * u128::from(high.1.0 - low.1.0);
        let extra = part / u128::from(high.0.of_all() - low.0.of_all());
        (Span(low.1.0 + extra as u64), !self.loss_level.hits(draw))
    }
}
