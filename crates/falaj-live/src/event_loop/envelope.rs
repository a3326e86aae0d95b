//! Checks that a flow conforms to its envelope, by the instants at which its packets are read.
//!
//! While the host does not run the link's thread (a stall), packets wait in the kernel, and are
//! read together afterwards (a bunch). Their times of arrival are unknown. A bunch is not counted
//! against the flow if it would have conformed by arriving evenly during the stall.

use super::run_delay::Stall;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

/// Credit in bits, times 10^9, so that it is a whole number for any rate and instant.
type Credit = u128;
const BIT: Credit = 1_000_000_000;

/// A bunch is read at most this long after the stall.
const BUNCH: Span = Span::from_millis(5);

/// Conformance of a packet to its flow's envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conformance {
    /// The packet conforms.
    Within,
    /// The packet does not conform by the time at which it was read. It may have conformed when it
    /// arrived, because the thread was stalled.
    Bunched,
    /// The packet does not conform.
    Beyond,
}

/// The envelope of a flow, and its credit.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    buckets: Vec<Bucket>,
    /// Time of the last packet's arrival.
    last: Time,
    /// Time of the latest observation that showed a stall.
    stood_still: Option<Time>,
}

/// One bucket of an envelope.
#[derive(Clone, Debug)]
struct Bucket {
    rate: Credit,
    most: Credit,
    /// Credit by the instants at which packets were read; a nonconforming packet uses none.
    read: Credit,
    /// Credit on the assumption that bunches arrived evenly during stalls. Until the bunch is read,
    /// this credit may exceed `most` by `more`, the credit that accrued during the stall.
    even: Credit,
    more: Credit,
}

impl Bucket {
    /// Adds credit for the time `passed`; for the last `stalled` of it the thread was stalled. Once
    /// the stall is over, no credit above `most` is kept.
    fn fill(&mut self, passed: Span, stalled: Span, is_over: bool) {
        let comes = self.rate * Credit::from(passed.0);
        let more = if is_over { 0 } else { self.more };
        self.more = more.max(self.rate * Credit::from(stalled.0));
        self.read = (self.read + comes).min(self.most);
        self.even = (self.even + comes).min(self.most + self.more);
    }
}

impl Envelope {
    /// An envelope of these rates and bursts in bytes, with full credit.
    pub(super) fn new(buckets: &[(Rate, u64)]) -> Envelope {
        let bucket = |&(rate, burst): &(Rate, u64)| {
            let most = Credit::from(burst) * 8 * BIT;
            Bucket { rate: rate.0.into(), most, read: most, even: most, more: 0 }
        };
        Envelope {
            buckets: buckets.iter().map(bucket).collect(),
            last: Time::ZERO,
            stood_still: None,
        }
    }

    /// Sets the time of the last packet's arrival.
    pub(super) fn set_last(&mut self, last: Time) {
        self.last = last;
    }

    /// Checks a packet that is read now; `stall` is the last stall of the thread that was observed.
    pub(super) fn arrived(&mut self, bytes: u32, now: Time, stall: Stall) -> Conformance {
        let cost = Credit::from(bytes) * 8 * BIT;
        let passed = now.since(self.last);
        self.last = now;
        let is_new = self.stood_still.is_none_or(|seen| seen < stall.seen);
        let is_recent = |seen: Time| now.since(seen) <= BUNCH;
        let stalled = if is_new && is_recent(stall.seen) { stall.span } else { Span::ZERO };
        if stalled > Span::ZERO {
            self.stood_still = Some(stall.seen);
        }
        let is_over = !self.stood_still.is_some_and(is_recent);
        self.buckets.iter_mut().for_each(|bucket| bucket.fill(passed, stalled, is_over));
        let is_within = self.buckets.iter().all(|bucket| bucket.read >= cost);
        let may_be = self.buckets.iter().all(|bucket| bucket.even >= cost);
        for bucket in &mut self.buckets {
            if is_within {
                bucket.read -= cost;
            }
            if is_within || may_be {
                bucket.even = bucket.even.saturating_sub(cost);
            }
        }
        match (is_within, may_be) {
            (true, _) => Conformance::Within,
            (false, true) => Conformance::Bunched,
            (false, false) => Conformance::Beyond,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 8 Mbit/s, one byte per microsecond, and a burst of 2000 B.
    fn envelope() -> Envelope {
        Envelope::new(&[(Rate(8_000_000), 2_000)])
    }

    const NONE: Stall = Stall { seen: Time::ZERO, span: Span::ZERO };

    #[test]
    fn a_bunch_is_not_the_flows_fault_where_the_thread_stood_still() {
        // 500 B every 500 us, the most that conforms; the thread stalls for 10 ms.
        let bunch = |span: Span, packets: usize| {
            let mut envelope = envelope();
            for n in 0..4 {
                let at = Time(n * MS / 2);
                assert_eq!(envelope.arrived(500, at, NONE), Conformance::Within);
            }
            let at = Time(12 * MS);
            let stall = Stall { seen: at, span };
            let all: Vec<_> = (0..packets).map(|_| envelope.arrived(500, at, stall)).collect();
            let count = |how| all.iter().filter(|&&one| one == how).count();
            [Conformance::Within, Conformance::Bunched, Conformance::Beyond].map(count)
        };
        // Four packets conform by the time of reading, the others may have conformed in the 10 ms
        // before.
        assert_eq!(bunch(Span::from_millis(10), 20), [4, 16, 0]);
        // More packets than may have conformed in that time.
        assert_eq!(bunch(Span::from_millis(10), 27), [4, 20, 3]);
        // No stall, or a shorter one.
        assert_eq!(bunch(Span::ZERO, 20), [4, 0, 16]);
        assert_eq!(bunch(Span::from_millis(2), 20), [4, 4, 12]);
    }

    #[test]
    fn a_later_burst_is_the_flows_own() {
        let mut envelope = envelope();
        let stall = Stall { seen: Time(20 * MS), span: Span::from_millis(20) };
        assert_eq!(envelope.arrived(500, Time(20 * MS), stall), Conformance::Within);
        let at = Time(40 * MS);
        let all = [(); 5].map(|()| envelope.arrived(500, at, stall));
        assert_eq!(all[3..], [Conformance::Within, Conformance::Beyond]);
    }
}
