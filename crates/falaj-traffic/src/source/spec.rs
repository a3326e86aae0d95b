//! What a source sends, and what follows from that alone: mean, longest packet, envelope.

use super::bucket::Limit;
use super::chain::Chain;
use super::frames::{self, Frames};
use super::greedy::Envelope;
use super::recorded::Recording;
use super::size::Sizes;
use crate::tcp::Tcp;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::sync::Arc;

/// How packets follow each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Exponential gaps; the rate is the mean.
    Poisson,
    /// Equal gaps, the first packet at the start.
    Cbr,
    /// Equal gaps while on; on and off last random times with these means.
    OnOff {
        /// Mean time on.
        on: Span,
        /// Mean time off.
        off: Span,
        /// How these times are drawn.
        law: Lasting,
    },
    /// Packets come as a Markov chain says; the rate is what it comes to.
    Markovian(Chain),
    /// Frames of video at equal gaps; the rate is the mean, and lengths are the frames'.
    Video(Frames),
    /// As much as an envelope allows, as early as it does; the rate is what that comes to.
    Greedy(Envelope),
    /// As was recorded, lengths too; the rate is what that comes to.
    Recorded(Arc<Recording>),
    /// As much as arrives, and a little more: a closed loop, of which [`Source`](super::Source)
    /// sends nothing and [`crate::tcp::Connection`] all; the rate is zero.
    Tcp(Tcp),
}

/// How times on and off are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lasting {
    /// Exponential.
    Exponential,
    /// Pareto with this shape, above 1: the smaller, the more of all time is in a few long ones.
    /// Many such sources together are self-similar below 2, with a Hurst parameter of `(3 -
    /// shape) / 2` (Willinger and others 1997).
    Pareto(f64),
}

/// What a source sends.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSpec {
    /// How packets follow each other.
    pub model: Model,
    /// As the link accounts it; of an on-off source while it is on.
    pub rate: Rate,
    /// Lengths of packets as the link accounts them; of video they are the frames', and of a
    /// recording its own, up to the longest of these.
    pub sizes: Sizes,
    /// A token bucket that its packets pass, which holds the longest.
    pub limit: Option<Limit>,
    /// No packet before.
    pub start: Time,
    /// No packet at or after.
    pub stop: Time,
}

impl SourceSpec {
    /// The rate in the long run; behind a policer it may be less.
    pub fn mean_rate(&self) -> Rate {
        let rate = match &self.model {
            Model::OnOff { on, off, .. } => {
                let share =
                    u128::from(self.rate.0) * u128::from(on.0) / u128::from((*on + *off).0.max(1));
                Rate(share as u64)
            }
            _ => self.rate,
        };
        match &self.limit {
            Some(limit) => Rate(rate.0.min(limit.bucket().rate)),
            None => rate,
        }
    }

    /// The longest packet.
    pub fn largest(&self) -> u32 {
        match &self.model {
            Model::Video(frames) => frames.largest.min(frames.law.longest()),
            Model::Recorded(all) => all.packets.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0),
            _ => self.sizes.most(),
        }
    }

    /// No packet is shorter.
    pub fn smallest(&self) -> u32 {
        match &self.model {
            Model::Video(frames) => (frames.largest / 2).min(frames::SHORTEST),
            Model::Recorded(all) => all.packets.iter().map(|&(_, bytes)| bytes).min().unwrap_or(0),
            _ => self.sizes.least(),
        }
    }

    /// What it sends at most, where a packet of a length costs `cost`, as a token bucket: so many
    /// bytes at once, and the rate; `None` where any number may come at once.
    pub fn at_most(&self, cost: impl Fn(u32) -> u32) -> Option<(Rate, u32)> {
        // Of a bucket of bytes, whichever packets it lets through cost most.
        let costly = |rate: Rate, burst: u32| {
            let dearer = |(bytes, cost): (u32, u32), (other, more): (u32, u32)| {
                let more_so =
                    u64::from(more) * u64::from(bytes) > u64::from(cost) * u64::from(other);
                if more_so { (other, more) } else { (bytes, cost) }
            };
            let each =
                (self.smallest().max(1)..=self.largest().max(1)).map(|bytes| (bytes, cost(bytes)));
            let (bytes, cost) = each.reduce(dearer).unwrap_or((1, 1));
            let of = |n: u64| (u128::from(n) * u128::from(cost)).div_ceil(bytes.into());
            Some((Rate(u64::try_from(of(rate.0)).ok()?), u32::try_from(of(burst.into())).ok()?))
        };
        let (bytes, times) = self.mean_size();
        let even = |each: u32| {
            let rate = (u128::from(self.rate.0) * u128::from(each) * u128::from(times))
                .div_ceil(u128::from(bytes.max(1)));
            Some((Rate(u64::try_from(rate).unwrap_or(u64::MAX)), each))
        };
        let own = match &self.model {
            Model::Poisson | Model::Markovian(_) | Model::Recorded(_) | Model::Tcp(_) => None,
            Model::Cbr | Model::OnOff { .. } => even(cost(self.sizes.most())),
            Model::Video(frames) => {
                let pieces = frames.law.longest().div_ceil(frames.largest.max(1));
                even(cost(self.largest()).saturating_mul(pieces))
            }
            Model::Greedy(envelope) => {
                envelope.bucket(self.largest()).and_then(|b| costly(b.fills_at(), b.burst))
            }
        };
        let limited =
            self.limit.and_then(|limit| costly(limit.bucket().fills_at(), limit.bucket().burst));
        match (own, limited) {
            // Whichever lets less through in the long run.
            (Some(own), Some(limited)) if limited.0.0 < own.0.0 => Some(limited),
            (own, limited) => own.or(limited),
        }
    }

    /// Mean length of a packet, or of a frame of video: so many bytes in so many.
    pub fn mean_size(&self) -> (u64, u64) {
        match &self.model {
            Model::Video(frames) => frames.mean(),
            _ => self.sizes.mean(),
        }
    }
}
