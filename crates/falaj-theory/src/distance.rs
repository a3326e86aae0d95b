//! Delay and backlog: the distances between an arrival curve and a service curve.

use crate::curve::{Curve, Exact, exact};
use num_bigint::BigInt;
use num_traits::Zero;

/// The largest distance between two curves, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distance {
    /// Length of the distance: nanoseconds for a delay, bytes for a backlog.
    pub length: Exact,
    /// The time, on the arrival curve, at which the distance is reached or approached.
    pub at: Exact,
    /// The value of the arrival curve at that time, in bytes.
    pub level: Exact,
}

impl Distance {
    /// The distance with `by` nanoseconds or bytes added.
    #[must_use]
    pub fn longer(self, by: impl Into<BigInt>) -> Distance {
        Distance { length: self.length + exact(by), ..self }
    }
}

impl Curve {
    /// The horizontal deviation from this arrival curve to `service`, which bounds the delay of
    /// every byte (Le Boudec and Thiran, 1.4.2). `None` if there is no bound.
    ///
    /// If both curves count packets at their last bits, this bounds the time from last bit in to
    /// last bit out, and no time for a packet is added. The service curves of
    /// [`falaj_sched::contract::guarantee::Guarantee`] count in this way. (In section 1.7.1 of the
    /// book, a server sends bits, and a packetizer behind it lowers the service curve by the
    /// largest packet. Here the latency of the service curve includes this effect.)
    pub fn delay(&self, service: &Curve) -> Option<Distance> {
        if self.last_slope() > service.last_slope() {
            return None;
        }
        let mut most =
            Distance { length: Exact::zero(), at: Exact::zero(), level: self.at(&Exact::zero()) };
        let mut see = |served: Option<Exact>, at: &Exact, level: Exact| {
            let length = served? - at;
            if length > most.length {
                most = Distance { length, at: at.clone(), level };
            }
            Some(())
        };
        let levels: Vec<Exact> =
            service.pieces().iter().flat_map(|p| [p.value.clone(), p.after.clone()]).collect();
        let lefts: Vec<Exact> = service
            .stretches()
            .filter_map(|(p, end)| Some(&p.after + &p.slope * (end? - &p.at)))
            .collect();
        for (p, end) in self.stretches() {
            see(service.reached(&p.value), &p.at, p.value.clone())?;
            if p.slope.is_zero() {
                see(service.reached(&p.after), &p.at, p.after.clone())?;
                continue;
            }
            // The distance is linear between the levels at which the service curve bends or jumps,
            // so the ends of these sections are enough.
            let top = end.map(|end| &p.after + &p.slope * (end - &p.at));
            let inside =
                |level: &&Exact| **level > p.after && top.as_ref().is_none_or(|top| *level < top);
            see(service.exceeded(&p.after), &p.at, p.after.clone())?;
            for level in levels.iter().chain(&lefts).filter(inside) {
                let at = &p.at + (level - &p.after) / &p.slope;
                see(service.reached(level), &at, level.clone())?;
                see(service.exceeded(level), &at, level.clone())?;
            }
            if let (Some(end), Some(top)) = (end, top) {
                see(service.reached(&top), end, top)?;
            }
        }
        Some(most)
    }

    /// The vertical deviation from this arrival curve to `service`, which bounds the bytes in the
    /// queue, including the packet that is being sent (Le Boudec and Thiran, 1.4.1). `None` if
    /// there is no bound.
    pub fn backlog(&self, service: &Curve) -> Option<Distance> {
        if self.last_slope() > service.last_slope() {
            return None;
        }
        let zero = Exact::zero();
        let mut most = Distance { length: zero.clone(), at: zero.clone(), level: self.at(&zero) };
        let mut see = |sent: Exact, served: Exact, at: &Exact| {
            let length = &sent - served;
            if length > most.length {
                most = Distance { length, at: at.clone(), level: sent };
            }
        };
        for t in self.pieces().iter().chain(service.pieces()).map(|p| &p.at) {
            see(self.before(t), service.before(t), t);
            see(self.at(t), service.at(t), t);
            see(self.after(t), service.after(t), t);
        }
        Some(most)
    }

    /// The curve's value just before `t`; zero at time zero.
    fn before(&self, t: &Exact) -> Exact {
        let earlier = self.pieces()[..self.pieces().partition_point(|p| p.at < *t)].last();
        earlier.map_or_else(Exact::zero, |p| &p.after + &p.slope * (t - &p.at))
    }

    /// The infimum of the times at which the curve is at least `level`; `None` if it never is.
    fn reached(&self, level: &Exact) -> Option<Exact> {
        self.stretches().find_map(|(p, end)| {
            if p.value >= *level || p.after >= *level {
                return Some(p.at.clone());
            }
            if p.slope.is_zero() {
                return None;
            }
            let t = &p.at + (level - &p.after) / &p.slope;
            end.is_none_or(|end| t <= *end).then_some(t)
        })
    }

    /// The infimum of the times at which the curve is above `level`; `None` if it never is.
    fn exceeded(&self, level: &Exact) -> Option<Exact> {
        self.stretches().find_map(|(p, end)| {
            if p.value > *level || p.after > *level {
                return Some(p.at.clone());
            }
            if p.slope.is_zero() {
                return None;
            }
            let t = &p.at + (level - &p.after) / &p.slope;
            end.is_none_or(|end| t < *end).then_some(t)
        })
    }
}
