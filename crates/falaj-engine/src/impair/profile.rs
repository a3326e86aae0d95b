//! Profiles: air time in addition to a packet's own, such as contention, acknowledgements, failed
//! attempts. Profile is dummynet's word for the measured distribution of this time.

use super::event::{Draw, RngStream};
use super::transit::{Impairment, ImpairmentState, Irregularity, LinkDelays, Transit};
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::units::probability::Probability;
use falaj_sched::units::time::Span;
use std::sync::Arc;

/// Time of each packet beyond its own transmission.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    points: Arc<[(Probability, Span)]>,
    loss_level: Probability,
    /// True if the link is occupied for that time, and the next packet waits.
    pub occupies: bool,
}

impl Profile {
    /// The distribution function as pairs of a probability and the time that this fraction of
    /// packets does not exceed, interpolated linearly; in order, from a probability of 0 to a
    /// probability of 1. `None` if the points are not such a function. A packet whose draw is at or
    /// above `loss_level` takes its additional time, and is then lost.
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

    /// The longest additional time.
    pub fn most(&self) -> Span {
        self.points.last().map_or(Span::ZERO, |p| p.1)
    }

    /// The fraction of packets that is lost.
    pub fn loss(&self) -> f64 {
        1.0 - self.loss_level.as_f64()
    }

    /// The additional time of a packet, and true if the packet is lost afterwards.
    #[inline]
    fn of(&self, draw: Draw) -> (Span, bool) {
        let draw = draw.independent();
        let after = self.points.partition_point(|p| !p.0.hits(draw));
        let (low, high) = (self.points[after - 1], self.points[after]);
        let part = u128::from(draw - low.0.of_all()) * u128::from(high.1.0 - low.1.0);
        let extra = part / u128::from(high.0.of_all() - low.0.of_all());
        (Span(low.1.0 + extra as u64), !self.loss_level.hits(draw))
    }
}

impl Impairment for Profile {
    fn state(&self, _: &LinkDelays) -> Box<dyn ImpairmentState> {
        Box::new(self.clone())
    }

    fn words(&self) -> String {
        format!("profile up to {}", self.most())
    }

    fn widen(&self, delays: &mut LinkDelays) {
        if !self.occupies {
            delays.beyond += self.most();
        }
    }

    fn no_guarantee(&self) -> Option<NoGuarantee> {
        let why = "packets occupy the link for as long as the profile says, so that no bound holds";
        self.occupies.then(|| NoGuarantee(why.into()))
    }

    fn loses(&self) -> bool {
        self.loss() > 0.0
    }

    fn irregularity(&self) -> Option<Irregularity> {
        Some(Irregularity::Instants)
    }
}

/// A profile has no state.
impl ImpairmentState for Profile {
    fn on_wire(&mut self, packet: &mut Transit) {
        let (beyond, failed) = self.of(packet.draw(RngStream::Profile));
        match self.occupies {
            true => packet.end += beyond,
            false => packet.beyond += beyond,
        }
        packet.lost |= failed;
    }
}
