//! Token buckets behind a source: packets that do not conform wait (a shaper), or are not sent (a
//! policer).

use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::Time;
use serde::{Deserialize, Serialize};

/// A token bucket, (sigma, rho): at most `burst` bytes at once, and `rate` in the long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Rate in bits per second; above zero.
    pub rate: u64,
    /// Burst in bytes; at least the largest packet.
    pub burst: u32,
}

impl Bucket {
    /// The rate at which the bucket fills.
    pub fn fills_at(&self) -> Rate {
        Rate(self.rate)
    }
}

/// The treatment of packets for which a bucket has no tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// The packets wait in an unlimited FIFO queue.
    Shaped(Bucket),
    /// The packets are not sent.
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

/// The exact fill level of a bucket: the time at which it will be full, in nanoseconds times its
/// rate.
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

    /// The first nanosecond at which the bucket has tokens for `bytes`. If these exceed the burst,
    /// the time is computed as if the bucket could hold them.
    pub(super) fn has(&self, bytes: u32) -> Time {
        let depth = u128::from(self.bucket.burst) * u128::from(BIT_NANOS);
        let since = (self.full + work(bytes)).saturating_sub(depth);
        Time(u64::try_from(since.div_ceil(self.bucket.rate.max(1).into())).unwrap_or(u64::MAX))
    }

    /// Takes `bytes` at the time `at`. The bucket must have these tokens then, as [`Tokens::has`]
    /// determined.
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

    /// Returns true if the packets conform to a bucket: from any packet to any later one, their
    /// bytes do not exceed the burst plus the bytes of the rate in that time. A nanosecond is
    /// tolerated, because times are whole nanoseconds.
    pub(crate) fn conforms(packets: &[Packet], bucket: Bucket) -> bool {
        // The check simulates a virtual queue that is served at the bucket's rate: its length, in
        // nanoseconds times the rate, never exceeds the burst.
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
        // A byte takes slightly more than 3 ns.
        let bucket = Bucket { rate: 2_666_666_666, burst: 1000 };
        let mut tokens = Tokens::new(bucket);
        assert_eq!(tokens.has(1000), Time::ZERO);
        tokens.take(Time::ZERO, 600);
        assert_eq!(tokens.has(400), Time::ZERO);
        // The bucket lacks 100 B, which take 300.000000075 ns.
        assert_eq!(tokens.has(500), Time(301));
        // 1001 B exceed the burst; the time is computed as if the bucket could hold them.
        assert_eq!(tokens.has(1001), Time(1804));
        tokens.take(Time(1_000_000), 1000);
        assert_eq!(tokens.has(1), Time(1_000_004));
    }
}
