//! The specification of a source, and properties derived from it: mean rate, packet lengths,
//! envelope.

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

/// The process of packet arrivals.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Exponentially distributed gaps between packets; the rate is the mean.
    Poisson,
    /// Equal gaps between packets, the first packet at the start.
    Cbr,
    /// Equal gaps while on; on and off periods are random with these means.
    OnOff {
        /// Mean on period.
        on: Span,
        /// Mean off period.
        off: Span,
        /// The distribution of the periods.
        law: PeriodLaw,
    },
    /// A Markovian arrival process, which determines the rate.
    Markovian(Chain),
    /// Video frames at equal gaps, each sent as one or more packets; the rate is the mean.
    Video(Frames),
    /// Greedy: as many bytes as an envelope allows, as early as the envelope allows; the envelope
    /// determines the rate.
    Greedy(Envelope),
    /// Times and lengths of a recording, which determine the rate.
    Recorded(Arc<Recording>),
    /// A closed loop, driven by acknowledgements: [`crate::tcp::Connection`] sends all packets, and
    /// [`Source`](super::Source) none; the rate is zero.
    Tcp(Tcp),
}

/// Distributions of on and off periods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PeriodLaw {
    /// Exponential.
    Exponential,
    /// Pareto with this shape, which is above 1. The smaller the shape, the larger the part of the
    /// time that is in a few long periods. With shapes below 2, many such sources together are
    /// self-similar with a Hurst parameter of `(3 - shape) / 2` (Willinger and others 1997).
    Pareto(f64),
}

/// The specification of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSpec {
    /// The process of packet arrivals.
    pub model: Model,
    /// Rate, counted as the link accounts bytes. For an on-off source it is the rate during on
    /// periods.
    pub rate: Rate,
    /// Lengths of packets, as the link accounts them. Video derives the lengths from its frames
    /// instead. A recording has its own lengths; when a scenario is read, lengths above the maximum
    /// of `sizes` are cut to it.
    pub sizes: Sizes,
    /// A token bucket that limits the source's packets. Its burst is at least the largest packet.
    pub limit: Option<Limit>,
    /// No packet is sent before this time.
    pub start: Time,
    /// No packet is sent at or after this time.
    pub stop: Time,
}

impl SourceSpec {
    /// The long-term rate, at most the rate of the limit; a policer may lower it further.
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

    /// Maximum packet length in bytes.
    pub fn largest(&self) -> u32 {
        match &self.model {
            Model::Video(frames) => frames.largest.min(frames.law.longest()),
            Model::Recorded(all) => all.packets.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0),
            _ => self.sizes.most(),
        }
    }

    /// Minimum packet length in bytes.
    pub fn smallest(&self) -> u32 {
        match &self.model {
            Model::Video(frames) => (frames.largest / 2).min(frames::SHORTEST),
            Model::Recorded(all) => all.packets.iter().map(|&(_, bytes)| bytes).min().unwrap_or(0),
            _ => self.sizes.least(),
        }
    }

    /// A token bucket that bounds the source, as rate and burst in bytes, where a packet of some
    /// length counts as `cost(length)` bytes. `None` if neither the model nor a limit bounds the
    /// source, or if the rate or the burst exceeds its type. The models without a bound are
    /// Poisson, Markovian, recorded and TCP.
    pub fn at_most(&self, cost: impl Fn(u32) -> u32) -> Option<(Rate, u32)> {
        // The buckets below count lengths. To convert them to costs, the bound assumes the packet
        // length with the highest cost per byte.
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
            // The result is the bucket with the lower long-term rate.
            (Some(own), Some(limited)) if limited.0.0 < own.0.0 => Some(limited),
            (own, limited) => own.or(limited),
        }
    }

    /// Mean length of a packet, or of a video frame, as a fraction: a total of bytes, and the
    /// number of packets or frames with that total.
    pub fn mean_size(&self) -> (u64, u64) {
        match &self.model {
            Model::Video(frames) => frames.mean(),
            _ => self.sizes.mean(),
        }
    }
}
