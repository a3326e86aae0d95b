//! Token buckets. The state of a bucket is one number: the instant at which the bucket will be
//! full.
//!
//! A bucket of `burst` bytes fills at `rate`. The instant at which it will hold `n` tokens is
//! `burst - n` byte times before it will be full; see [`Bucket::has`]. The time of a byte is
//! rounded up once, so no flow ever gets more than the rate, and rounding errors do not accumulate.

use crate::contract::params::{ConfigError, ConfigErrors, FlowSetup, Kind, Param, Setup};
use crate::mechanisms::weights::{Instant, instant, pace, rescaled};
use crate::queues::queue::FlowId;
use crate::units::rate::Rate;
use crate::units::time::Time;
use alloc::format;
use alloc::vec::Vec;

/// Fill rate of a flow's bucket.
pub(crate) const RATE: Param = Param {
    name: "rate",
    kind: Kind::Rate,
    default: None,
    doc: "maximum rate of the flow in the long run, at which its token bucket fills",
};

/// Size of a flow's bucket.
pub(crate) const BURST: Param = Param {
    name: "burst",
    kind: Kind::Bytes,
    default: Some("the bytes of 1ms at `rate`, at least one largest packet"),
    doc: "size of the flow's token bucket: bytes that it may send at once after a pause; at least \
          one largest packet",
};

/// Returns the first nanosecond at or after `tag`.
#[inline]
pub(crate) fn begun(tag: Instant) -> Time {
    const PART: Instant = instant(Time(1)) - 1;
    Time(u64::try_from(tag.saturating_add(PART) / (PART + 1)).unwrap_or(u64::MAX))
}

/// A bucket's rate and size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    pub(crate) rate: Rate,
    /// Size of the bucket in bytes.
    pub(crate) burst: u64,
    pace: Instant,
    /// Time to fill an empty bucket.
    depth: Instant,
}

impl Bucket {
    pub(crate) fn new(rate: Rate, burst: u64) -> Bucket {
        let pace = pace(rate);
        Bucket { rate, burst, pace, depth: pace.saturating_mul(burst.into()) }
    }

    /// Time to fill an empty bucket.
    #[inline]
    pub(crate) fn depth(&self) -> Instant {
        self.depth
    }

    /// Time at which a bucket that will be full at `full` holds `bytes` tokens.
    #[inline]
    pub(crate) fn has(&self, bytes: u32, full: Instant) -> Instant {
        self.after(full, bytes).saturating_sub(self.depth)
    }

    /// Time at which the bucket will be full after `bytes` were sent at `at`. Their tokens must
    /// have been available then.
    #[inline]
    pub(crate) fn spend(&self, full: Instant, at: Instant, bytes: u32) -> Instant {
        self.after(full.max(at), bytes)
    }

    fn after(&self, full: Instant, bytes: u32) -> Instant {
        full.saturating_add(self.pace.saturating_mul(bytes.into()))
    }

    /// Time at which this bucket will be full if it replaces the bucket `old` at `since`. The
    /// number of missing bytes stays the same, but at most the whole bucket.
    pub(crate) fn inherit(&self, old: &Bucket, full: Instant, since: Instant) -> Instant {
        match full.checked_sub(since) {
            Some(missing) => {
                since.saturating_add(rescaled(missing, old.pace, self.pace).min(self.depth))
            }
            None => full,
        }
    }
}

/// Default burst in bytes: what the rate carries in a millisecond, but at least one largest packet.
pub(crate) fn usual_burst(rate: Rate, largest: u32) -> u64 {
    (rate.0 / 8_000).max(largest.into())
}

/// The flows' buckets.
pub(crate) fn buckets(setup: &Setup) -> Result<Vec<Bucket>, ConfigErrors> {
    let all = setup.flows.iter().enumerate().map(|(flow, f)| bucket(setup, flow, f));
    Ok(all.collect::<Result<_, _>>()?)
}

/// The bucket of one flow; errors name the flow by the number `flow`.
pub(crate) fn bucket(setup: &Setup, flow: usize, f: &FlowSetup) -> Result<Bucket, ConfigError> {
    let refused = |param, what, help| ConfigError { flow: Some(flow), param, what, help };
    let rate = match f.values.rate("rate") {
        Some(rate) if rate.0 > 0 => rate,
        Some(_) => {
            return Err(refused(
                "rate",
                "at a rate of 0 nothing is ever sent".into(),
                "any rate above 0".into(),
            ));
        }
        None => {
            let help =
                format!("a rate that the flow never exceeds, such as the link's {}", setup.rate);
            return Err(refused("rate", "is missing".into(), help));
        }
    };
    let burst = f.values.bytes("burst").unwrap_or(usual_burst(rate, setup.largest));
    if burst < setup.largest.into() {
        let what = format!("a bucket of {burst} B never holds a packet of {} B", setup.largest);
        return Err(refused("burst", what, format!("at least `{}B`", setup.largest)));
    }
    Ok(Bucket::new(rate, burst))
}

/// Sum of the sizes of these buckets in bytes, and sum of their rates in bits per second.
pub(crate) fn sums<'a>(buckets: impl Iterator<Item = &'a Bucket>) -> (u64, u128) {
    buckets.fold((0, 0), |(bytes, rates), b| {
        (bytes.saturating_add(b.burst), rates + u128::from(b.rate.0))
    })
}

/// The ids of the flows of a setup with this number of flows.
pub(crate) fn ids(flows: usize) -> impl Iterator<Item = FlowId> {
    (0..flows as u32).map(FlowId)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket of ten bytes that gets a byte each 8 ns: each packet of 3 B waits for the bytes
    /// that the bucket lacks.
    #[test]
    fn a_bucket_lets_its_burst_through_and_then_its_rate() {
        let bucket = Bucket::new(Rate::from_mbit(1000), 10);
        let (mut full, mut at) = (0, instant(Time(800)));
        let mut sent = Vec::new();
        for _ in 0..7 {
            at = at.max(bucket.has(3, full));
            full = bucket.spend(full, at, 3);
            sent.push(begun(at).0 - 800);
        }
        assert_eq!(sent, [0, 0, 0, 16, 40, 64, 88]);
        assert_eq!(begun(full), Time(800 + 21 * 8));
    }

    #[test]
    fn tokens_that_are_missing_stay_as_many() {
        let slow = Bucket::new(Rate::from_mbit(500), 10);
        let fast = Bucket::new(Rate::from_mbit(1000), 10);
        let full = fast.spend(instant(Time(100)), instant(Time(100)), 6);
        assert_eq!(begun(slow.inherit(&fast, full, instant(Time(108)))), Time(108 + 5 * 16));
        assert_eq!(
            begun(Bucket::new(fast.rate, 4).inherit(&fast, full, instant(Time(108)))),
            Time(108 + 4 * 8)
        );
        assert_eq!(slow.inherit(&fast, full, instant(Time(1_000))), full);
    }
}
