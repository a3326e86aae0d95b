//! Fair queueing with buckets of virtual time.
//!
//! Self-clocked fair queueing (Golestani 1994): the head with the least virtual finish time is
//! served, and its finish time becomes the virtual time. Here finish times are rounded down to one
//! of 4096 buckets. Within a bucket the order is first come, first served. The first bucket that is
//! not empty is found with two find-first-set operations (approximate fair queueing with
//! find-first-set, as in Eiffel, 2019). The disadvantage is an error of up to a bucket's width,
//! which is 1/2046 to 1/4092 of the virtual time of the largest packet at the lowest weight. Also,
//! virtual time depends only on finish times, so a newly backlogged flow waits for a packet of each
//! other flow; WF2Q+ and QFQ serve it earlier.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, DropImpact, Guarantee, Guarantees, Settling, finite_rate, full_queue, room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::contract::wfi::{ROUNDED, WfiFormula};
use crate::mechanisms::epoch_sweep::EpochSweep;
use crate::mechanisms::flow_tag::{Place, Share, ahead};
use crate::mechanisms::virtual_time::{NONE, WEIGHT, Weights, is_free};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "ffs",
    doc: "fair queueing with finish times rounded down to one of 4096 buckets: flows share the \
          link in proportion to their weights, O(1)",
    source: "Golestani 1994; buckets as in Saeed et al. 2019",
    cost: "O(1)",
    guarantee: "rate and delay",
    guarantee_source: "Golestani 1994, plus the width of a bucket",
    flow: &[WEIGHT],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    wfi: Some(WfiFormula {
        formula: "phi N L + L + two buckets",
        condition: None,
        bytes: |f| {
            let (link, flows) = (f64::from(f.link), f.flows as f64);
            // A bucket is at most 1/2046 of the longest time that a packet takes.
            let buckets = 2.0 * f.phi * f.weights * link / 2046.0 / f.lightest;
            f.phi * flows * link + link + buckets + ROUNDED
        },
    }),
    ..Manifest::PLAIN
};

const BUCKETS: usize = 4096;

/// Fair queueing with buckets of virtual time.
#[derive(Debug, Clone)]
pub struct Ffs {
    /// Virtual time, which is the start of a bucket. All queued heads finish in this bucket or
    /// later.
    now: u64,
    /// Number of laps of virtual time, 2^62 units each, plus two for each idle period. Idle flows
    /// expire by this number.
    laps: u64,
    sweep: EpochSweep,
    buckets: Buckets,
    /// The flow in service, or the only flow with packets, which is in no bucket; [`NONE`] if there
    /// is no such flow.
    in_hand: u32,
    weights: Weights,
    full_queues: Vec<u64>,
}

/// A list of flows for each bucket, and bits for the buckets that are not empty.
#[derive(Debug, Clone)]
struct Buckets {
    /// Width of a bucket, as a power of two.
    width: u32,
    /// Bit n is set if word n of `full` is not zero.
    words: u64,
    /// A bit for each bucket, which is set if the bucket is not empty.
    full: Box<[u64]>,
    /// First and last flow of each bucket.
    ends: Box<[[u32; 2]]>,
}

impl Buckets {
    fn new(width: u32) -> Buckets {
        let (full, ends) = (vec![0; BUCKETS / 64], vec![[NONE; 2]; BUCKETS]);
        Buckets { width, words: 0, full: full.into(), ends: ends.into() }
    }

    #[inline]
    fn index(&self, time: u64) -> usize {
        (time >> self.width) as usize % BUCKETS
    }

    #[inline]
    fn append(&mut self, flows: &mut Flows<Share>, f: FlowId, finish: u64) {
        let bucket = self.index(finish);
        flows.state_mut(f).set_next(NONE);
        let [first, last] = &mut self.ends[bucket];
        if self.full[bucket / 64] & 1 << (bucket % 64) == 0 {
            self.full[bucket / 64] |= 1 << (bucket % 64);
            self.words |= 1 << (bucket / 64);
            *first = f.0;
        } else {
            flows.state_mut(FlowId(*last)).set_next(f.0);
        }
        *last = f.0;
    }

    /// The first bucket that is not empty, searched from the bucket of `now` on, with wrap-around.
    #[inline]
    fn first(&self, now: u64) -> Option<usize> {
        if self.words == 0 {
            return None;
        }
        let from = self.index(now);
        let here = self.full[from / 64] & (u64::MAX << (from % 64));
        if here != 0 {
            return Some(from / 64 * 64 + here.trailing_zeros() as usize);
        }
        // The word of `from` is searched again at the end, for its lower bits.
        let turn = (from / 64 + 1) as u32 % 64;
        let word = (self.words.rotate_right(turn).trailing_zeros() + turn) as usize % 64;
        Some(word * 64 + self.full[word].trailing_zeros() as usize)
    }

    /// Returns true if a finish time belongs to a later bucket than `bucket`, counted from `now`
    /// on.
    #[inline]
    fn is_behind(&self, bucket: usize, now: u64, finish: u64) -> bool {
        let place = bucket.wrapping_sub(self.index(now)) % BUCKETS;
        ahead(finish, now) >> self.width > place as i64
    }

    /// Removes the first flow of this bucket, whose state is `share`.
    #[inline]
    fn remove_first(&mut self, bucket: usize, share: &Share) {
        if share.next() != NONE {
            self.ends[bucket][0] = share.next();
            return;
        }
        self.full[bucket / 64] &= !(1 << (bucket % 64));
        if self.full[bucket / 64] == 0 {
            self.words &= !(1 << (bucket / 64));
        }
    }
}

impl Ffs {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Ffs, ConfigErrors> {
        finite_rate(setup, "fair queueing")?;
        room_for_one(setup)?;
        let weights = Weights::new(setup)?;
        // Queued heads have finish times of at most virtual time, plus the longest packet and two
        // buckets.
        let longest = (0..weights.all.len() as u32)
            .map(|f| weights.of_bytes(FlowId(f), weights.largest.into()));
        let width = (longest.max().unwrap_or(1) as u64)
            .div_ceil(BUCKETS as u64 - 4)
            .next_power_of_two()
            .ilog2();
        Ok(Ffs {
            now: 0,
            laps: 2,
            sweep: EpochSweep::default(),
            buckets: Buckets::new(width),
            in_hand: NONE,
            weights,
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    #[inline]
    fn insert(&mut self, flows: &mut Flows<Share>, f: FlowId) {
        // A head that replaced a longer one may finish before virtual time.
        let finish = flows.state(f).finish(flows.head(f).unwrap_or(0));
        let finish = if ahead(finish, self.now) < 0 { self.now } else { finish };
        self.buckets.append(flows, f, finish);
    }

    /// Returns true if the last finish time of a flow without packets is later than virtual time.
    #[inline]
    fn owes(&self, share: &Share) -> bool {
        share.place() == Place::Silent
            && share.silent_for(self.laps) <= 1
            && ahead(share.start, self.now) > 0
    }
}

impl Discipline for Ffs {
    type State = Share;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<Share>) {
        self.weights.start(flows);
    }

    /// The distance of heads from the virtual time stays the same in bytes, except for the rounding
    /// to the new buckets. A flow owes at most a bucket.
    fn migrate_from(&mut self, old: Ffs, flows: &mut Flows<Share>, _: Time) {
        (self.laps, self.sweep, self.in_hand) = (old.laps, old.sweep, old.in_hand);
        let now = self.weights.in_unit(old.now.into(), &old.weights) as u64;
        self.now = now >> self.buckets.width << self.buckets.width;
        for f in 0..self.weights.all.len() {
            let (weight, f) = (self.weights.all[f], FlowId(f as u32));
            let share = flows.state_mut(f);
            if f.index() >= old.weights.all.len() {
                *share = Share::new(self.weights.byte, weight, self.weights.largest);
                continue;
            }
            let has_changed = weight != old.weights.of(f);
            if has_changed && share.place() != Place::Present {
                share.start = old.now;
            }
            if has_changed || self.weights.byte != old.weights.byte {
                let Weights { byte, largest, .. } = self.weights;
                share.weigh_from([old.now, now], byte, weight, largest, false);
            }
            if ahead(share.start, self.now) > 1 << self.buckets.width {
                share.start = self.now.wrapping_add(1 << self.buckets.width);
            }
            if share.place() == Place::Present && f.0 != self.in_hand {
                self.insert(flows, f);
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<Share>, f: FlowId, _: Time) {
        let share = flows.state(f);
        if share.place() == Place::Present {
            return;
        }
        let free = self.buckets.words == 0 && is_free(self.in_hand, flows);
        if free && self.in_hand != NONE {
            flows.state_mut(FlowId(self.in_hand)).set_place(Place::Away);
            self.laps = self.laps.wrapping_add(2);
        }
        for other in self.sweep.due(self.laps, flows.len()) {
            let share = flows.state_mut(FlowId(other as u32));
            if share.place() == Place::Silent && share.silent_for(self.laps) > 1 {
                share.set_place(Place::Away);
            }
        }
        let share = flows.state(f);
        let start = if self.owes(share) { share.start } else { self.now };
        let share = flows.state_mut(f);
        share.start = start;
        share.set_place(Place::Present);
        if free {
            self.in_hand = f.0;
        } else {
            self.insert(flows, f);
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<Share>, _: Time, _: &Wire) -> Decision {
        loop {
            if self.in_hand != NONE {
                let f = FlowId(self.in_hand);
                let alone = self.buckets.words == 0;
                if flows.head(f).is_some() {
                    if alone {
                        return Decision::Serve(f);
                    }
                    self.insert(flows, f);
                } else {
                    let share = flows.state_mut(f);
                    share.fall_silent(self.laps);
                    if alone {
                        self.laps = self.laps.wrapping_add(2);
                    }
                }
                self.in_hand = NONE;
            }
            let Some(bucket) = self.buckets.first(self.now) else { return Decision::Idle };
            let f = FlowId(self.buckets.ends[bucket][0]);
            let Some(bytes) = flows.head(f) else {
                // The flow's only packet was removed without being transmitted.
                self.buckets.remove_first(bucket, flows.state(f));
                self.in_hand = f.0;
                continue;
            };
            let finish = flows.state(f).finish(bytes);
            if !self.buckets.is_behind(bucket, self.now, finish) {
                return Decision::Serve(f);
            }
            // The head was replaced by a longer one, which belongs to a later bucket. A shorter
            // head stays in its bucket.
            self.buckets.remove_first(bucket, flows.state(f));
            self.buckets.append(flows, f, finish);
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<Share>, f: FlowId, sent: Sent) {
        let share = flows.state_mut(f);
        if self.in_hand != f.0 {
            let bucket = self.buckets.first(self.now).expect("the served flow is in a bucket");
            self.buckets.remove_first(bucket, share);
            self.in_hand = f.0;
        }
        share.charge(sent.bytes);
        let before = self.now;
        // A shorter head that replaced a longer head may have a finish time before virtual time.
        if ahead(share.start, before) < 0 {
            share.start = before;
        }
        self.now = share.start >> self.buckets.width << self.buckets.width;
        self.laps = self.laps.wrapping_add((self.now >> 62).wrapping_sub(before >> 62) & 3);
    }

    fn is_reusable(&self, flows: &Flows<Share>, f: FlowId, _: Time) -> bool {
        !self.owes(flows.state(f))
    }
}

impl QueueHooks for Ffs {}
impl MediumHooks for Ffs {}

impl Guarantees for Ffs {
    /// Until virtual time reaches the bucket of a packet's finish time, each other flow gets two
    /// amounts: the service between the present virtual time and the end of that bucket, and one
    /// packet more. That packet began before the present virtual time and finishes after it. So the
    /// bound is that of self-clocked fair queueing, with `sum of the others' L/C`, plus a bucket.
    /// The head of a backlogged flow starts at most a bucket after virtual time.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let Weights { rate, largest, .. } = self.weights;
        let largest = u64::from(largest);
        let others = self.weights.all.len() as u64 - 1;
        let after = |bytes: u64, buckets: u128| {
            let time = self.weights.of_bytes(f, bytes) + (buckets << self.buckets.width);
            rate.airtime_of_many(self.weights.work(time).saturating_add(others * largest + 1))
        };
        Ok(Guarantee {
            rate: self.weights.rate(f),
            latency: after(largest, 1),
            rate_formula: "C w/sum w",
            delay: Bound {
                delay: after(self.full_queues[f.index()].saturating_add(largest), 2),
                formula: "((B + L) W/w + 2 W q + (N - 1) L)/C, W = sum w, q the width of a bucket",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(1)
    }

    /// A shorter head that replaces a longer one stays in its bucket. So it may wait longer than
    /// its own finish time requires, and the flow is not compensated for this.
    fn harm_of_drops(&self) -> DropImpact {
        DropImpact::Own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{THREE_FLOWS, order, weights};

    /// All other packets arrive while A1 is served; its finish time of 1 is the virtual time. The
    /// finish times are 5, 6 and 9 for B, 4 and 7 for C. A4 has the finish time 4 too, but C1
    /// was in the bucket first: A4 joins the bucket only when it becomes the head of A.
    #[test]
    fn three_flows_of_different_packets() {
        let sent = order(&weights(4, &[2, 1, 1]), Ffs::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 A3@6 C1@9 A4@11 B1@15 B2@16 C2@19 B3@22");
    }
}
