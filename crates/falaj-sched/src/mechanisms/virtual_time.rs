//! The virtual time that the worst-case fair disciplines share (WF2Q+, QFQ and QFQ+). It rises by
//! the work done, divided by the sum of the weights of the flows that share the link.
//!
//! The choice of weights matters. If the weights of all configured flows are summed, virtual time
//! hardly moves on a link with few active flows. The link then serves flows in long turns instead
//! of evenly: idle neighbors of weight 128 000 in all make QFQ twice as bursty as DRR. If only the
//! weights of backlogged flows are summed, virtual time runs ahead without limit. The reason: a
//! flow that was served early and then falls silent no longer counts, and a newly backlogged flow
//! gets less.
//!
//! Here a flow counts while it has packets, and after that until virtual time has reached its last
//! finish. The fluid system has the same rule, so the lags of all flows that count add up to zero
//! (Stoica and Abdel-Wahab 1995). The weights of silent flows are removed in slots of their
//! rounding, at most one slot too late. A virtual time that is too slow is corrected by a jump to
//! the first start, as in WF2Q+. A virtual time that is too fast would break guarantees.
//!
//! A byte of the lightest flow takes from 2^37 to 2^38 units of virtual time: see [`unit`]. If a
//! byte must be a whole number of units at each weight, it takes at least half of that: see
//! [`exact_byte`]. Otherwise a flow's share is too small by at most `r/2^37` of it, where `r` is
//! the ratio of its weight to the smallest: 1/2,000,000 at a ratio of 65,536, and 1/32 at the
//! largest ratio. Guarantees include this error.
//!
//! Instants are compared by the sign of their difference, as serial numbers are. The lap number
//! rises by one at each quarter of the range of virtual time, and by two when the link becomes
//! idle. An instant of two laps ago has expired.

use crate::contract::params::{ConfigError, Kind, Param, Setup};
use crate::mechanisms::common_multiple::multiple;
use crate::mechanisms::epoch_sweep::EpochSweep;
use crate::mechanisms::flow_tag::{
    BYTE, CLASSES, FINEST, FRACTION, HEAVIEST, LARGEST, Place, Share, ahead, class, floor, inverse,
    shift,
};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Rate;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

/// The `weight` of a flow.
pub(crate) const WEIGHT: Param = Param {
    name: "weight",
    kind: Kind::Count { min: 1, max: HEAVIEST as u64 },
    default: Some("1"),
    doc: "the flow's weight: flows with packets share the link in proportion to their weights",
};

/// Exponent of the number of parts of a byte: a byte has 2^`PARTS` parts.
pub(crate) const PARTS: u32 = 24;
/// Virtual time is summed in fine units, of which a unit has 2^`FINE`, so that rounding errors do
/// not accumulate.
const FINE: u32 = 64 - FRACTION;
/// Half a unit: virtual time is the sum, rounded to the nearest unit.
const HALF: u128 = 1 << (FINE - 1);
/// In QFQ and QFQ+, a flow whose start is at most `SOON` units after virtual time counts as
/// started, because virtual time is rounded.
pub(crate) const SOON: i64 = 1 << 8;
/// No flow.
pub(crate) const NONE: u32 = u32::MAX;

/// Returns true if no flow is being served, or if the last packet of that flow has left.
#[inline]
pub(crate) fn is_free(in_hand: u32, flows: &Flows<Share>) -> bool {
    in_hand == NONE || flows.head(FlowId(in_hand)).is_none()
}

/// Frequent divisors of weights and of their sums, in the order in which they are tried.
const DIVISORS: [u64; 12] = [16, 9, 25, 7, 11, 13, 125, 65_536, 27, 17, 19, 23];

/// Virtual time of a byte at weight 1: [`BYTE`], multiplied by the largest power of two that is not
/// above the smallest weight. So only ratios of weights matter, and each power of two is exact.
pub(crate) fn unit(weights: impl IntoIterator<Item = u32>) -> u128 {
    u128::from(BYTE) << weights.into_iter().min().unwrap_or(1).ilog2()
}

/// Virtual time of a byte at weight 1, chosen so that nothing is rounded. Starts and finishes are
/// exact sums if all weights divide it, and virtual time is exact while the sum of the weights
/// divides it. So flows whose finishes are equal by definition have equal tags, and the flow's
/// number decides. The result is a multiple of all weights, of their sum if possible, of the
/// `DIVISORS` that fit, and then of the largest possible power of two; it is above half of
/// [`unit`]. If the weights have no common multiple that small, the result is [`unit`].
fn exact_byte(weights: &[u32]) -> u128 {
    let unit = unit(weights.iter().copied());
    let most = u64::try_from(unit).unwrap_or(u64::MAX);
    let Some(mut of) = multiple(1, weights.iter().map(|&w| w.into()), most) else { return unit };
    let sum = weights.iter().map(|&w| u64::from(w)).sum::<u64>().max(1);
    for divisor in [sum].into_iter().chain(DIVISORS) {
        of = multiple(of, [divisor], most).unwrap_or(of);
    }
    u128::from(of) << (unit / u128::from(of)).ilog2()
}

/// Property of starts that a change of the unit of virtual time keeps, apart from rounding.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keeps {
    /// The distances of starts from virtual time, as in WF2Q+. A start that is equal to virtual
    /// time stays so.
    Distances,
    /// The slots of starts, as in QFQ. A start at a multiple of the rounding stays there.
    Slots,
}

/// Virtual time, and the weights by which the work is divided.
#[derive(Debug, Clone)]
pub(crate) struct VirtualTime {
    fine: u128,
    sum: u64,
    /// Virtual time of a byte at weight 1.
    byte: u128,
    /// Virtual time of a byte in fine units, divided by `divided_by`, the sum of weights when this
    /// value was last needed.
    reciprocal: u64,
    divided_by: u64,
    laps: u64,
    sweep: EpochSweep,
    /// `silent`: classes that have silent flows. `leaving`: for each class, the weights of its
    /// silent flows by the slot of their last finish, which is the current slot or one of the next
    /// three.
    silent: u64,
    leaving: [[u64; 4]; CLASSES],
}

impl VirtualTime {
    pub(crate) fn new(weights: &Weights) -> VirtualTime {
        VirtualTime {
            fine: HALF,
            sum: 0,
            byte: weights.byte,
            reciprocal: 0,
            divided_by: 0,
            laps: 2,
            sweep: EpochSweep::default(),
            silent: 0,
            leaving: [[0; 4]; CLASSES],
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        (self.fine >> FINE) as u64
    }

    #[inline]
    fn lap(&self) -> u64 {
        self.laps.wrapping_add((self.fine >> (FINE + 62)) as u64)
    }

    /// Returns the flows to pass to [`over`](VirtualTime::over) before a flow joins.
    #[inline]
    pub(crate) fn due(&mut self, shares: usize) -> Range<usize> {
        self.sweep.due(self.lap(), shares)
    }

    /// Marks a flow that fell silent in an expired lap as not counted.
    pub(crate) fn over(&self, share: &mut Share) {
        if share.place() == Place::Silent && !self.counts(share) {
            share.set_place(Place::Away);
        }
    }

    /// Records that a flow has a packet again, and determines the start of its head.
    #[inline]
    pub(crate) fn join(&mut self, share: &mut Share, weight: u32) {
        let now = self.now();
        if self.counts(share) {
            self.leaving[usize::from(share.class())][slot(share)] -= u64::from(weight);
            if ahead(share.start, now) < 0 {
                share.start = now;
            }
        } else {
            self.sum += u64::from(weight);
            share.start = now;
        }
        share.set_place(Place::Present);
    }

    /// Returns true for a silent flow whose weight is still in the sum.
    #[inline]
    fn counts(&self, share: &Share) -> bool {
        share.place() == Place::Silent
            && share.silent_for(self.lap()) <= 1
            && ahead(share.start, floor(self.now(), shift(share.class()))) >= 0
    }

    /// Returns true if a flow without packets is ahead of the others.
    pub(crate) fn owes(&self, share: &Share) -> bool {
        self.counts(share) && ahead(share.start, self.now()) > 0
    }

    /// Records that a flow has become empty.
    #[inline]
    pub(crate) fn leave(&mut self, share: &mut Share, weight: u32) {
        let now = self.now();
        if ahead(share.start, now) <= 0 {
            share.set_place(Place::Away);
            self.sum -= u64::from(weight);
            return;
        }
        let shift = shift(share.class());
        let furthest = floor(now, shift).wrapping_add((4 << shift) - 1);
        if ahead(share.start, furthest) > 0 {
            share.start = furthest;
        }
        share.fall_silent(self.lap());
        let class = usize::from(share.class());
        if self.silent & 1 << class == 0 {
            self.silent |= 1 << class;
            self.leaving[class] = [0; 4];
        }
        self.leaving[class][slot(share)] += u64::from(weight);
    }

    /// Records that the link is empty, and with it the fluid system.
    #[inline]
    pub(crate) fn rest(&mut self) {
        (self.sum, self.silent) = (0, 0);
        self.laps = self.laps.wrapping_add(2);
        // Rounding remainders are discarded too.
        self.fine = self.fine >> FINE << FINE | HALF;
    }

    /// Changes from the unit of `old` to that of `new`. The lap stays.
    pub(crate) fn rescale(&mut self, old: &Weights, new: &Weights) {
        let lap = self.lap();
        self.fine = new.in_unit(self.fine, old);
        self.laps = self.laps.wrapping_add(lap.wrapping_sub(self.lap()));
        (self.byte, self.divided_by) = (new.byte, 0);
    }

    /// Adds the work of `bytes` of a packet of `share`, which has this weight.
    #[inline]
    pub(crate) fn work(&mut self, bytes: u32, share: &Share, weight: u32) {
        if self.sum == u64::from(weight) {
            self.rise(u128::from(u64::from(bytes) * share.inverse()) << FINE);
        } else {
            let reciprocal = self.reciprocal();
            self.rise(u128::from(bytes) * u128::from(reciprocal));
        }
    }

    /// Adds work in parts of a byte: 2^`PARTS` parts are one byte.
    #[inline]
    pub(crate) fn work_parts(&mut self, parts: u64, share: &Share, weight: u32) {
        if self.sum == u64::from(weight) {
            self.rise((u128::from(parts) * u128::from(share.inverse())) << (FINE - PARTS));
        } else {
            let reciprocal = self.reciprocal();
            self.rise((u128::from(parts) * u128::from(reciprocal)) >> PARTS);
        }
    }

    #[inline]
    fn reciprocal(&mut self) -> u64 {
        if self.sum != self.divided_by {
            (self.divided_by, self.reciprocal) = (self.sum, reciprocal(self.byte, self.sum));
        }
        self.reciprocal
    }

    /// Moves virtual time forward to `start`, because no flow may be served before that.
    #[inline]
    pub(crate) fn leap(&mut self, start: u64) {
        let by = ahead(start, self.now());
        if by > 0 {
            self.rise((by as u128) << FINE);
            self.fine = self.fine >> FINE << FINE | HALF;
        }
    }

    #[inline]
    fn rise(&mut self, by: u128) {
        let before = self.now();
        self.fine = self.fine.wrapping_add(by);
        if self.silent != 0 {
            self.let_go(before);
        }
    }

    /// Removes the weights whose slot has passed.
    fn let_go(&mut self, before: u64) {
        let now = self.now();
        // Only the classes of which virtual time has passed a multiple of the rounding.
        let Some(highest) = (before ^ now).checked_ilog2().and_then(|bit| bit.checked_sub(FINEST))
        else {
            return;
        };
        let mut classes = self.silent & (u64::MAX >> (63 - highest));
        while classes != 0 {
            let class = classes.trailing_zeros() as usize;
            classes &= classes - 1;
            let shift = shift(class as u8);
            let from = before >> shift;
            let passed = floor(now, shift).wrapping_sub(floor(before, shift)) >> shift;
            let leaving = &mut self.leaving[class];
            for slot in 0..passed.min(4) {
                self.sum -= core::mem::take(&mut leaving[(from.wrapping_add(slot) & 3) as usize]);
            }
            if *leaving == [0; 4] {
                self.silent &= !(1 << class);
            }
        }
    }

    /// Returns true if no flow counts.
    pub(crate) fn rests(&self) -> bool {
        self.sum == 0
    }

    /// Counts the weight of a flow again after `rest`, according to its place.
    pub(crate) fn count(&mut self, share: &mut Share, weight: u32) {
        if share.place() != Place::Away {
            self.sum += u64::from(weight);
        }
        if share.place() == Place::Silent {
            self.leave(share, weight);
        }
    }

    /// Changes the weight of one flow from `old` to `new`, as [`reweigh`](VirtualTime::reweigh)
    /// does; the cost does not depend on the number of flows.
    pub(crate) fn reweigh_one(&mut self, share: &mut Share, old: u32, new: u32, largest: u32) {
        let now = self.now();
        let owes = self.owes(share);
        let counted = share.place() == Place::Present || self.counts(share);
        if share.place() == Place::Silent && counted {
            self.leaving[usize::from(share.class())][slot(share)] -= u64::from(old);
        }
        if counted {
            self.sum -= u64::from(old);
        }
        share.weigh_from([now; 2], self.byte, new, largest, true);
        match share.place() {
            Place::Present => self.sum += u64::from(new),
            Place::Silent if owes => {
                self.sum += u64::from(new);
                self.leave(share, new);
            }
            Place::Silent | Place::Away => share.set_place(Place::Away),
        }
    }

    /// Changes the weights of flows. A flow that keeps its weight keeps its distance from virtual
    /// time in bytes. A flow with a new weight is not compensated for a lag that it had at the old
    /// weight. So no positive lag arises, and unchanged flows are served as if the others had left
    /// and returned.
    pub(crate) fn reweigh(
        &mut self,
        flows: &mut Flows<Share>,
        old: &Weights,
        new: &Weights,
        keeps: Keeps,
    ) {
        let was = self.clone();
        self.rescale(old, new);
        let instants = match keeps {
            Keeps::Distances => [was.now(), self.now()],
            Keeps::Slots => new.whole_instants([was.now(), self.now()], old),
        };
        let rescales = old.byte != new.byte || old.largest != new.largest;
        let mut silent = Vec::new();
        let mut sum = 0;
        for (f, &weight) in new.all.iter().enumerate() {
            let f = FlowId(f as u32);
            let share = flows.state_mut(f);
            let Some(&before) = old.all.get(f.index()) else {
                *share = Share::new(self.byte, weight, new.largest);
                continue;
            };
            let counts = share.place() == Place::Present || was.owes(share);
            if rescales || before != weight {
                share.weigh_from(instants, self.byte, weight, new.largest, before != weight);
            }
            if !counts {
                share.set_place(Place::Away);
                continue;
            }
            sum += u64::from(weight);
            if share.place() == Place::Silent {
                silent.push(f);
            }
        }
        (self.sum, self.silent) = (sum, 0);
        for f in silent {
            self.leave(flows.state_mut(f), new.all[f.index()]);
        }
    }
}

/// Increase of virtual time per byte of work, in fine units, with this sum of weights.
#[inline]
fn reciprocal(byte: u128, sum: u64) -> u64 {
    let sum = sum.max(1);
    // A byte of 2^38 units would exceed the range of 64 bits by one. A division of 128 bits, which
    // takes longer, is needed only if no flow has the weight 1.
    match (byte as u64, byte >> 64) {
        (BYTE, 0) => u64::MAX / sum,
        (byte, 0) if byte < BYTE => (byte << FINE) / sum,
        _ => u64::try_from((byte << FINE) / u128::from(sum)).unwrap_or(u64::MAX),
    }
}

#[inline]
fn slot(share: &Share) -> usize {
    (share.start >> shift(share.class()) & 3) as usize
}

/// The weights of all flows, and the values that guarantees use.
#[derive(Debug, Clone)]
pub(crate) struct Weights {
    pub(crate) all: Vec<u32>,
    pub(crate) largest: u32,
    pub(crate) rate: Rate,
    /// Virtual time of a byte at weight 1.
    pub(crate) byte: u128,
    sum: u64,
}

impl Weights {
    /// Returns these weights with a unit of virtual time for which nothing is rounded, if there is
    /// one.
    pub(crate) fn exact(self) -> Weights {
        Weights { byte: exact_byte(&self.all), ..self }
    }

    /// Validates the weights. Values that the format of virtual time cannot hold are errors.
    pub(crate) fn new(setup: &Setup) -> Result<Weights, ConfigError> {
        if setup.largest > LARGEST {
            return Err(ConfigError {
                flow: None,
                param: "kind",
                what: format!("packets of {} B are too large for its virtual time", setup.largest),
                help: format!("at most {LARGEST} B: lower the link's `mtu`, or choose `drr`"),
            });
        }
        let mut all = Vec::new();
        for (flow, f) in setup.flows.iter().enumerate() {
            let weight = f.values.count("weight").unwrap_or(1);
            if weight == 0 || weight > u64::from(HEAVIEST) {
                return Err(ConfigError {
                    flow: Some(flow),
                    param: "weight",
                    what: format!("a weight of {weight} is out of range"),
                    help: format!(
                        "from 1 to {HEAVIEST}: only the ratio to the other weights counts"
                    ),
                });
            }
            all.push(weight as u32);
        }
        let sum = all.iter().map(|&w| u64::from(w)).sum();
        let byte = unit(all.iter().copied());
        Ok(Weights { all, largest: setup.largest, rate: setup.rate, byte, sum })
    }

    /// The weight of a flow.
    #[inline]
    pub(crate) fn of(&self, f: FlowId) -> u32 {
        self.all[f.index()]
    }

    /// Returns true if the unit of virtual time that `old` has suits these weights too.
    pub(crate) fn has_unit_of(&self, old: &Weights) -> bool {
        unit(self.all.iter().copied()) == unit(old.all.iter().copied())
    }

    /// Converts a virtual time from the unit of `old` to that of these weights, rounded down. For a
    /// unit that is not a power of two, the next lower power of two is used.
    pub(crate) fn in_unit(&self, time: u128, old: &Weights) -> u128 {
        let (is, was) = (self.byte.ilog2(), old.byte.ilog2());
        match is.checked_sub(was) {
            Some(finer) => time << finer,
            None => time >> (was - is),
        }
    }

    /// Virtual time `was` in the unit of `old` and `now` in this one, both rounded down to the last
    /// instant that is whole in both units, if the units are powers of two.
    pub(crate) fn whole_instants(&self, [was, now]: [u64; 2], old: &Weights) -> [u64; 2] {
        let (of, before) = (self.byte.ilog2(), old.byte.ilog2());
        [floor(was, before.saturating_sub(of)), floor(now, of.saturating_sub(before))]
    }

    /// Initializes the flows, which are empty.
    pub(crate) fn start(&self, flows: &mut Flows<Share>) {
        for (f, &weight) in self.all.iter().enumerate() {
            *flows.state_mut(FlowId(f as u32)) = Share::new(self.byte, weight, self.largest);
        }
    }

    /// Virtual time of a byte of a flow.
    pub(crate) fn inverse(&self, f: FlowId) -> u64 {
        inverse(self.byte, self.all[f.index()])
    }

    fn reciprocal(&self) -> u64 {
        reciprocal(self.byte, self.sum)
    }

    /// The rate of a flow if all flows are backlogged: the increase of virtual time per byte of
    /// work, in bytes of this flow.
    pub(crate) fn rate(&self, f: FlowId) -> Rate {
        self.rate_of(self.inverse(f))
    }

    /// The rate of a flow with this virtual time per byte, if all flows are backlogged.
    pub(crate) fn rate_of(&self, inverse: u64) -> Rate {
        let inverse = u128::from(inverse) << FINE;
        Rate((u128::from(self.rate.0) * u128::from(self.reciprocal()) / inverse) as u64)
    }

    /// Virtual time of `bytes` of a flow.
    pub(crate) fn of_bytes(&self, f: FlowId, bytes: u64) -> u128 {
        u128::from(bytes) * u128::from(self.inverse(f))
    }

    /// The rounding of a flow.
    pub(crate) fn rounding(&self, f: FlowId) -> u128 {
        1 << shift(class(self.inverse(f), self.largest))
    }

    /// The largest number of bytes that a busy link sends while virtual time rises by `time`.
    pub(crate) fn work(&self, time: u128) -> u64 {
        let reciprocal = u128::from(self.reciprocal());
        let per_whole = (1u128 << 64) / reciprocal + 1;
        // time 2^26 / reciprocal, without losing the upper bits.
        let work = match time.checked_mul(1 << FINE) {
            Some(fine) => fine.div_ceil(reciprocal),
            None => (time >> FRACTION).saturating_add(1).saturating_mul(per_whole),
        };
        u64::try_from(work).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(weight: u32) -> Share {
        Share::new(BYTE.into(), weight, 1500)
    }

    /// The link becomes idle again and again until the 32-bit number of the lap repeats.
    #[test]
    fn a_flow_idle_since_before_the_laps_wrap_does_not_count() {
        let weights = Weights {
            all: alloc::vec![1, 1],
            rate: Rate::from_bits(1),
            byte: BYTE.into(),
            largest: 1500,
            sum: 2,
        };
        let mut time = VirtualTime::new(&weights);
        let mut shares = [share(1), share(1)];
        shares.iter_mut().for_each(|share| time.join(share, 1));
        shares[0].charge(1500);
        time.leave(&mut shares[0], 1);
        assert!(time.owes(&shares[0]));
        let lap = time.lap();
        shares[1].set_place(Place::Away);
        time.rest();
        while time.lap() - lap < 1 << 32 {
            time.laps += (1 << 12) - 2;
            time.rest();
            for other in time.due(2) {
                time.over(&mut shares[other]);
            }
        }
        time.laps -= time.lap() - lap - (1 << 32);
        assert_eq!(shares[0].silent_for(time.lap()), 0, "as if in this lap");
        assert!(!time.owes(&shares[0]));
        time.join(&mut shares[0], 1);
        assert_eq!((time.sum, shares[0].start), (1, time.now()));
    }
}
