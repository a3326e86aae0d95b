//! Delays of a flow's packets.

use falaj_sched::units::time::Span;
use histogram::{Histogram, Histogram32};

/// A meter of delays: their number, exact mean, minimum and maximum, and percentiles. Percentiles
/// are precise to three digits, or to half an octave in a coarse meter.
#[derive(Clone, Debug)]
pub struct Meter {
    counts: Counts,
    count: u64,
    sum: u128,
    min: Span,
    max: Span,
}

/// The histogram of delays. It takes no memory until the first delay.
#[derive(Clone, Debug)]
enum Counts {
    /// Up to [`FEW`] delays in all, none of them [`LONG`] or longer. This variant takes a quarter
    /// of the memory of `Many`, so that the meters of more flows fit into a processor's caches.
    Few(Option<Box<Histogram32>>),
    Many(Box<Histogram>),
    Coarse(Option<Box<Octaves>>),
}

/// Maximum count of a 32-bit bucket.
const FEW: u64 = u32::MAX as u64;
/// The buckets of all delays below this limit, about a minute, exist from the first delay on. So
/// memory is allocated once, and a program's memory does not depend on the delays of packets.
const LONG: Span = Span(1 << 36);
/// log2 of the buckets per octave. An octave has 1024 buckets, or one per nanosecond if it is
/// shorter than 1024 ns. This gives three digits.
const PLACES: u8 = 10;
const ALL_FIT: &str = "the caller checked that the delay has a bucket";

#[cold]
fn few() -> Box<Histogram32> {
    Box::new(Histogram32::new(PLACES, LONG.0.ilog2() as u8).expect("less than all of 64 bits"))
}

/// Converts the counts to 64 bits.
#[cold]
fn many(few: Option<&Histogram32>) -> Box<Histogram> {
    let mut many = Histogram::new(PLACES, 64).expect("64 bits are all");
    for (place, &times) in few.into_iter().flat_map(|few| few.as_slice().iter().enumerate()) {
        many.as_mut_slice()[place] = times.into();
    }
    Box::new(many)
}

/// The delays that were counted, in ascending order, and the count of each.
fn steps<T: Copy + Into<u64>>(places: &[T]) -> impl Iterator<Item = (Span, u64)> {
    let counted =
        |(place, &times): (usize, &T)| (times.into() > 0).then(|| (last(place), times.into()));
    places.iter().enumerate().filter_map(counted)
}

/// The largest delay of a bucket.
fn last(place: usize) -> Span {
    let octaves = (place as u64 >> PLACES).saturating_sub(1);
    let first = place as u64 - (octaves << PLACES);
    Span((first << octaves) + ((1 << octaves) - 1))
}

/// Removes one delay from its bucket; returns false if the bucket is empty.
fn take_one<T: Copy + Into<u64> + std::ops::SubAssign + From<u8>>(
    places: &mut [T],
    delay: Span,
) -> bool {
    let place = places.get_mut(place(delay)).filter(|place| (**place).into() > 0);
    place.map(|place| *place -= T::from(1)).is_some()
}

/// The bucket of a delay: the first bucket whose largest delay is not below this delay.
fn place(delay: Span) -> usize {
    let octaves = u64::from(delay.0.max(1).ilog2()).saturating_sub(PLACES.into());
    ((octaves << PLACES) + (delay.0 >> octaves)) as usize
}

/// A histogram of half octaves from a microsecond to 17 s; the first bucket also counts shorter
/// delays, and the last bucket longer delays.
#[derive(Clone, Debug)]
struct Octaves([u32; Octaves::PLACES]);

impl Octaves {
    const FIRST: u32 = 10;
    const PLACES: usize = 48;

    fn place(delay: Span) -> usize {
        let octave = delay.0.checked_ilog2().unwrap_or(0);
        if octave < Octaves::FIRST {
            return 0;
        }
        let half = delay.0 >> (octave - 1) & 1;
        (2 * (octave - Octaves::FIRST) as usize + half as usize).min(Octaves::PLACES - 1)
    }

    /// The largest delay of a bucket.
    fn last(place: usize) -> Span {
        if place == Octaves::PLACES - 1 {
            return Span::MAX;
        }
        let octave = Octaves::FIRST + place as u32 / 2;
        let half = 1 << (octave - 1);
        Span(if place.is_multiple_of(2) { 3 * half - 1 } else { 4 * half - 1 })
    }

    fn counts(&self) -> impl Iterator<Item = (Span, u64)> {
        let of = |(place, times): (usize, &u32)| (Octaves::last(place), u64::from(*times));
        self.0.iter().enumerate().filter(|(_, times)| **times > 0).map(of)
    }

    fn quantile(&self, share: f64, count: u64) -> Option<Span> {
        let wanted = (count as f64 * share).ceil().max(1.0) as u64;
        let mut so_far = 0;
        let (delay, _) = self.counts().find(|(_, times)| {
            so_far += times;
            so_far >= wanted
        })?;
        Some(delay)
    }
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new()
    }
}

impl Meter {
    /// An empty meter. The first delay allocates memory for all delays up to a minute, 108 KiB.
    /// With a longer delay, or more than four thousand million delays, the meter takes 440 KiB.
    pub const fn new() -> Meter {
        Meter::with(Counts::Few(None))
    }

    /// A small meter, of which a program can have thousands: 192 bytes of memory, percentiles to
    /// half an octave.
    pub const fn coarse() -> Meter {
        Meter::with(Counts::Coarse(None))
    }

    const fn with(counts: Counts) -> Meter {
        Meter { counts, count: 0, sum: 0, min: Span::MAX, max: Span::ZERO }
    }

    /// Counts a delay.
    #[inline]
    pub fn record(&mut self, delay: Span) {
        self.record_n(delay, 1);
    }

    /// Counts several delays of less than four seconds, in nanoseconds.
    pub fn record_short(&mut self, delays: &[u32]) {
        let number = delays.len() as u64;
        match &mut self.counts {
            Counts::Few(Some(few)) if self.count + number <= FEW => {
                for &delay in delays {
                    few.increment(delay.into()).expect(ALL_FIT);
                }
            }
            _ => return delays.iter().for_each(|&delay| self.record(Span(delay.into()))),
        }
        let nanos = || delays.iter().map(|&delay| u64::from(delay));
        self.count += number;
        self.sum += u128::from(nanos().sum::<u64>());
        self.min = nanos().map(Span).fold(self.min, Span::min);
        self.max = nanos().map(Span).fold(self.max, Span::max);
    }

    /// Counts the same delay `times` times.
    #[inline]
    pub fn record_n(&mut self, delay: Span, times: u64) {
        self.sum += u128::from(delay.0) * u128::from(times);
        self.min = self.min.min(delay);
        self.max = self.max.max(delay);
        self.count += times;
        self.count_at(delay, times);
    }

    /// Replaces a counted delay by another one. If the old delay was the minimum or the maximum,
    /// that value is afterwards known only to three digits, or to the end of its half octave.
    pub fn correct(&mut self, old: Span, new: Span) {
        let found = match &mut self.counts {
            Counts::Few(Some(few)) if old < LONG => take_one(few.as_mut_slice(), old),
            Counts::Many(many) => take_one(many.as_mut_slice(), old),
            Counts::Coarse(Some(octaves)) => {
                let place = &mut octaves.0[Octaves::place(old)];
                let found = *place > 0;
                *place = place.saturating_sub(1);
                found
            }
            _ => false,
        };
        if !found {
            return;
        }
        (self.count, self.sum) = (self.count - 1, self.sum.saturating_sub(old.0.into()));
        let largest = self.counts().last().map_or(Span::ZERO, |(delay, _)| delay.min(old));
        let least = self.counts().next().map_or(Span::MAX, |(delay, _)| delay.max(old));
        if old == self.max {
            self.max = largest;
        }
        if old == self.min {
            self.min = least;
        }
        self.record(new);
    }

    /// Adds to the histogram; the field `count` already includes these delays.
    #[inline]
    fn count_at(&mut self, delay: Span, times: u64) {
        match &mut self.counts {
            Counts::Many(many) => many.add(delay.0, times).expect(ALL_FIT),
            Counts::Few(few) if self.count > FEW || delay >= LONG => {
                let mut many = many(few.as_deref());
                many.add(delay.0, times).expect(ALL_FIT);
                self.counts = Counts::Many(many);
            }
            Counts::Few(Some(few)) => few.add(delay.0, times as u32).expect(ALL_FIT),
            Counts::Few(none) => none.insert(few()).add(delay.0, times as u32).expect(ALL_FIT),
            Counts::Coarse(octaves) => {
                let place = &mut octaves
                    .get_or_insert_with(|| Box::new(Octaves([0; Octaves::PLACES])))
                    .0[Octaves::place(delay)];
                *place = place.saturating_add(u32::try_from(times).unwrap_or(u32::MAX));
            }
        }
    }

    /// Copies `other` into this meter, and reuses this meter's memory.
    pub fn set_to(&mut self, other: &Meter) {
        match (&mut self.counts, &other.counts) {
            (Counts::Few(Some(own)), Counts::Few(Some(few))) => {
                own.as_mut_slice().copy_from_slice(few.as_slice());
            }
            (Counts::Many(own), Counts::Many(many)) => {
                own.as_mut_slice().copy_from_slice(many.as_slice());
            }
            (Counts::Coarse(Some(own)), Counts::Coarse(Some(octaves))) => own.0 = octaves.0,
            (own, counts) => *own = counts.clone(),
        }
        (self.count, self.sum, self.min, self.max) = (other.count, other.sum, other.min, other.max);
    }

    /// The number of delays counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean in nanoseconds; `None` if nothing was counted.
    pub fn mean_nanos(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The maximum; exact unless it was [corrected](Meter::correct).
    pub fn max(&self) -> Option<Span> {
        (self.count() > 0).then_some(self.max)
    }

    /// The minimum; exact unless it was [corrected](Meter::correct).
    pub fn min(&self) -> Option<Span> {
        (self.count() > 0).then_some(self.min)
    }

    /// The quantile for a share from 0 to 1: this share of the packets has at most the returned
    /// delay. It is precise to three digits, or to the end of a half octave.
    pub fn quantile(&self, share: f64) -> Option<Span> {
        let delay = match &self.counts {
            Counts::Few(few) => few.as_ref().and_then(|few| few.quantile_bucket(share).ok()?),
            Counts::Many(many) => many.quantile_bucket(share).ok().flatten(),
            Counts::Coarse(octaves) => {
                return octaves.as_ref()?.quantile(share, self.count).map(|d| d.min(self.max));
            }
        };
        delay.map(|step| Span(step.end()).min(self.max))
    }

    /// The histogram in ascending order: delays, precise to three digits or half an octave, and the
    /// count of each.
    pub fn counts(&self) -> impl Iterator<Item = (Span, u64)> {
        let (few, many, coarse) = match &self.counts {
            Counts::Few(few) => {
                (few.as_deref().map_or(&[][..], Histogram32::as_slice), &[][..], None)
            }
            Counts::Many(many) => (&[][..], many.as_slice(), None),
            Counts::Coarse(octaves) => (&[][..], &[][..], octaves.as_deref()),
        };
        let coarse = coarse.into_iter().flat_map(Octaves::counts);
        steps(few)
            .chain(steps(many))
            .chain(coarse.map(|(delay, times)| (delay.min(self.max), times)))
    }

    /// Adds all delays of `other`.
    pub fn add(&mut self, other: &Meter) {
        self.count += other.count;
        match (&mut self.counts, &other.counts) {
            (Counts::Many(own), Counts::Many(more)) => {
                let places = own.as_mut_slice().iter_mut().zip(more.as_slice());
                places.for_each(|(own, more)| *own += more);
            }
            _ => other.counts().for_each(|(delay, times)| self.count_at(delay, times)),
        }
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_counts_exactly_where_it_says_so() {
        let mut meter = Meter::new();
        assert_eq!((meter.max(), meter.mean_nanos(), meter.quantile(0.5)), (None, None, None));
        for i in 1..=1000 {
            meter.record(Span(i * 1001));
        }
        assert_eq!((meter.min(), meter.max()), (Some(Span(1_001)), Some(Span(1_001_000))));
        assert_eq!(meter.mean_nanos(), Some(500.5 * 1001.0));
        let median = meter.quantile(0.5).unwrap().0 as f64;
        assert!((median / 500_500.0 - 1.0).abs() < 0.001, "{median}");
        let mut twice = meter.clone();
        twice.add(&meter);
        assert_eq!(twice.counts().map(|(_, times)| times).sum::<u64>(), 2000);
        assert_eq!((twice.count(), twice.mean_nanos()), (2000, meter.mean_nanos()));
    }

    /// A meter in which a delay was corrected equals a meter that counted the right delay. If the
    /// maximum was corrected, it is known to three digits or half an octave.
    #[test]
    fn a_delay_is_corrected() {
        for new in [Meter::new, Meter::coarse] {
            let (mut meter, mut right) = (new(), new());
            for delay in [3_000, 70_000, 5 * LONG.0] {
                meter.record(Span(delay));
            }
            [3_000, 70_000, 9_000].into_iter().for_each(|delay| right.record(Span(delay)));
            meter.correct(Span(5 * LONG.0), Span(9_000));
            assert_eq!((meter.count(), meter.mean_nanos()), (3, right.mean_nanos()));
            assert_eq!(meter.min(), right.min());
            let longest = meter.max().unwrap();
            assert!((70_000..=98_303).contains(&longest.0), "{longest}");
            assert_eq!(meter.quantile(0.5), right.quantile(0.5));
            // Correcting a delay that was never counted changes nothing.
            meter.correct(Span(1 << 45), Span(1));
            assert_eq!(meter.count(), 3);
        }
        let mut few = Meter::new();
        few.record(Span(40));
        few.correct(Span(40), Span(1_000_000));
        assert_eq!((few.min(), few.max()), (Some(Span(1_000_000)), Some(Span(1_000_000))));
    }

    /// A meter becomes a copy of another meter, whatever it was before.
    #[test]
    fn a_meter_becomes_another() {
        let of = |mut meter: Meter, delays: &[(u64, u64)]| {
            delays.iter().for_each(|&(delay, times)| meter.record_n(Span(delay), times));
            meter
        };
        let kinds = || {
            let delays = [(7_000, 3), (2 * LONG.0, 1)];
            let many = [(7_000, 2 * FEW), (90_000, 5)];
            [
                Meter::new(),
                of(Meter::new(), &delays),
                of(Meter::new(), &[(1, 1)]),
                of(Meter::new(), &many),
                Meter::coarse(),
                of(Meter::coarse(), &delays),
                of(Meter::coarse(), &many),
            ]
        };
        let known = |meter: &Meter| {
            let quantiles = [0.0, 0.5, 1.0].map(|share| meter.quantile(share));
            (
                meter.counts().collect::<Vec<_>>(),
                meter.count(),
                meter.mean_nanos(),
                meter.min(),
                meter.max(),
                quantiles,
            )
        };
        for other in kinds() {
            for mut meter in kinds() {
                meter.set_to(&other);
                assert_eq!(known(&meter), known(&other));
                meter.record(Span(12));
                assert_eq!(meter.count(), other.count() + 1);
            }
        }
    }

    /// Counts of 32 bits lose nothing when they are moved to 64 bits, and further delays are
    /// counted.
    #[test]
    fn few_become_many() {
        let spans = |n: u64| (0..n).map(|i| Span(1_000 + i % 700 * 997));
        let all = |meter: &mut Meter| spans(1_000).for_each(|delay| meter.record(delay));
        // One delay is counted almost as often as 32 bits allow, and a thousand delays once each:
        // together more often than 32 bits allow.
        let most = Span(5_000_000);
        let (mut before, mut after, mut at_once) = (Meter::new(), Meter::new(), Meter::new());
        before.record_n(most, FEW - 500);
        all(&mut before);
        all(&mut after);
        after.record_n(most, FEW - 500);
        at_once.record_n(most, 2 * FEW);
        all(&mut at_once);
        assert!(matches!((&before.counts, &after.counts), (Counts::Many(_), Counts::Many(_))));
        assert!(before.counts().eq(after.counts()));
        assert_eq!((before.count(), before.mean_nanos()), (after.count(), after.mean_nanos()));
        for meter in [&before, &after, &at_once] {
            assert_eq!(meter.counts().map(|(_, times)| times).sum::<u64>(), meter.count());
            assert_eq!(meter.quantile(0.5), Some(most));
        }
        // Adding is commutative.
        let mut little = Meter::new();
        all(&mut little);
        let sum = |mut first: Meter, second: &Meter| {
            first.add(second);
            first
        };
        let (one, other) = (sum(little.clone(), &at_once), sum(at_once, &little));
        assert!(one.counts().eq(other.counts()) && one.count() == 2 * FEW + 2_000);
        assert_eq!(
            sum(little.clone(), &little).counts().map(|(_, times)| times).sum::<u64>(),
            2_000
        );
    }

    /// The buckets are the same as those of the library, for single and for several delays.
    #[test]
    fn places_end_where_the_library_says() {
        let (few, many) = (few(), many(None));
        let ends = |(place, is): (usize, histogram::Bucket)| {
            assert_eq!(last(place), Span(is.end()), "{place}");
        };
        few.iter().enumerate().for_each(ends);
        many.iter().enumerate().for_each(ends);
        assert_eq!(
            (last(few.as_slice().len() - 1), last(many.as_slice().len() - 1)),
            (Span(LONG.0 - 1), Span::MAX)
        );
        let delays: Vec<u32> = (0..=32).map(|bit| (1u64 << bit).saturating_sub(1) as u32).collect();
        for longer in [None, Some(LONG)] {
            let (mut single, mut several) = (Meter::new(), Meter::new());
            for meter in [&mut single, &mut several] {
                longer.into_iter().for_each(|delay| meter.record(delay));
                meter.record(Span(7));
            }
            delays.iter().for_each(|&delay| single.record(Span(delay.into())));
            several.record_short(&delays);
            assert_eq!(format!("{single:?}"), format!("{several:?}"));
        }
    }

    #[test]
    fn one_among_many_is_small_and_tells_half_octaves() {
        let mut meter = Meter::coarse();
        assert_eq!((meter.count(), meter.quantile(0.5), meter.counts().next()), (0, None, None));
        for i in 1..=1000 {
            meter.record(Span(i * 1001));
        }
        assert_eq!((meter.min(), meter.max()), (Some(Span(1_001)), Some(Span(1_001_000))));
        assert_eq!(meter.mean_nanos(), Some(500.5 * 1001.0));
        // The median's half octave is 393,216 to 524,288 ns.
        assert_eq!(
            (meter.quantile(0.5), meter.quantile(1.0)),
            (Some(Span(524_287)), Some(Span(1_001_000)))
        );
        for delay in [0, 1, 1023, 1024, 1535, 1536, 2047, 2048, 1 << 33, 3 << 33] {
            let place = Octaves::place(Span(delay));
            assert!(Octaves::last(place) >= Span(delay), "{delay}");
            assert!(place == 0 || Octaves::last(place - 1) < Span(delay), "{delay}");
        }
        meter.record(Span::MAX);
        assert_eq!(meter.quantile(1.0), Some(Span::MAX));
        let mut fine = Meter::new();
        fine.add(&meter);
        assert_eq!((fine.count(), fine.max()), (1001, Some(Span::MAX)));
        let mut coarse = Meter::coarse();
        coarse.add(&fine);
        assert_eq!(coarse.counts().map(|(_, times)| times).sum::<u64>(), 1001);
        assert!(std::mem::size_of::<Octaves>() + std::mem::size_of::<Meter>() <= 256);
    }
}
