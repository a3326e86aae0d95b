//! Token buckets before a source: what does not conform waits (a shaper), or is never sent (a
//! policer).

use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::Time;
use serde::{Deserialize, Serialize};

/// At most `burst` bytes at once, and `rate` in the long run: (sigma, rho).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Bits in a second; above zero.
    pub rate: u64,
    /// Bytes; the largest packet at least.
    pub burst: u32,
}

impl Bucket {
    /// How fast it fills.
    pub fn fills_at(&self) -> Rate {
        Rate(self.rate)
    }
}

/// What becomes of packets that a bucket has no tokens for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// They wait, in a queue without end; none overtakes.
    Shaped(Bucket),
    /// They are not sent.
    Policed(Bucket),
}

impl Limit {
    /// The bucket.
    pub fn bucket(&self) -> &Bucket {
        match self {
            Limit::Shaped(bucket) | Limit::Policed(bucket) => bucket,
        }
    }
}

/// How full a bucket is, exactly: when it will be full, in nanoseconds times its rate.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    bucket: Bucket,
    full: u128,
}

impl Tokens {
    /// A full bucket.
    pub(super) fn new(bucket: Bucket) -> Tokens {
        Tokens { bucket, full: 0 }
    }

    /// The first nanosecond at which there are so many.
    pub(super) fn has(&self, bytes: u32) -> Time {
        let depth = u128::from(self.bucket.burst) * u128::from(BIT_NANOS);
        let since = (self.full + work(bytes)).saturating_sub(depth);
        Time(u64::try_from(since.div_ceil(self.bucket.rate.max(1).into())).unwrap_or(u64::MAX))
    }

    /// So many were taken at `at`, at which they were there.
    pub(super) fn take(&mut self, at: Time, bytes: u32) {
        let now = u128::from(at.0) * u128::from(self.bucket.rate);
        self.full = self.full.max(now) + work(bytes);
    }
}

fn work(bytes: u32) -> u128 {
    u128::from(bytes) * u128::from(BIT_NANOS)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::source::Packet;

    /// Do these packets keep to a bucket? No two of them, and what lies between, exceed the burst
    /// and what the rate has brought since. A nanosecond is let pass, as instants are whole.
    pub(crate) fn conforms(packets: &[Packet], bucket: Bucket) -> bool {
        // By a virtual queue that the bucket's rate drains: its length, in bits times nanoseconds,
        // never exceeds the burst.
        let (mut queued, mut last) = (0i128, Time::ZERO);
        let rate = i128::from(bucket.rate);
        packets.iter().all(|packet| {
            queued = (queued - i128::from((packet.at - last).0) * rate).max(0)
                + work(packet.bytes) as i128;
            last = packet.at;
            queued <= work(bucket.burst) as i128 + rate
        })
    }

    #[test]
    fn tokens_come_at_the_rate_and_are_no_more_than_the_burst() {
        // A byte each 3 ns and a bit.
        let bucket = Bucket { rate: 2_666_666_666, burst: 1000 };
        let mut tokens = Tokens::new(bucket);
        assert_eq!(tokens.has(1000), Time::ZERO);
        tokens.take(Time::ZERO, 600);
        assert_eq!(tokens.has(400), Time::ZERO);
        // 100 B more than there are: 300.000000075 ns.
        assert_eq!(tokens.has(500), Time(301));
        assert_eq!(tokens.has(1001), Time(1804), "it waits for one that never comes, at the rate");
        tokens.take(Time(1_000_000), 1000);
        assert_eq!(tokens.has(1), Time(1_000_004));
    }
}
