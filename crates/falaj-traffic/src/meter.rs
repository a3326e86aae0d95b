//! Delays of a flow's packets.

use falaj_sched::time::Span;
use hdrhistogram::{Counter, Histogram};

/// Delays: number, exact mean, least and largest, and percentiles: to three digits, or, of one among many, to half an octave.
#[derive(Clone, Debug)]
pub struct Meter {
    counts: Counts,
    count: u64,
    sum: u128,
    min: Span,
    max: Span,
}

/// How often each delay was counted. Until there is one this takes no memory.
#[derive(Clone, Debug)]
enum Counts {
    /// Of up to [`FEW`] in all: in half of the memory, so that of many flows more fits into a processor's caches.
    Few(Option<Box<Histogram<u32>>>),
    Many(Box<Histogram<u64>>),
    Coarse(Option<Box<Octaves>>),
}

/// So many may be the same.
const FEW: u64 = u32::MAX as u64;
/// Delays up to a minute have their places from the first on: whoever counts them asks for memory once, and what a program
/// takes does not depend on how late a packet was.
const LONG: u64 = (1 << 36) - 1;
const GROWS: &str = "the histogram grows as it must";

#[cold]
fn fine<T: Counter>() -> Box<Histogram<T>> {
    let mut fine = Histogram::new_with_bounds(1, LONG, 3).expect("three digits are allowed");
    fine.auto(true);
    Box::new(fine)
}

fn steps<T: Counter>(histogram: &Histogram<T>) -> impl Iterator<Item = (Span, u64)> {
    histogram.iter_recorded().map(|step| (Span(step.value_iterated_to()), step.count_at_value().as_u64()))
}

/// The same counts, with room for more.
#[cold]
fn many(few: Option<&Histogram<u32>>) -> Box<Histogram<u64>> {
    let mut many = fine();
    few.into_iter().flat_map(steps).for_each(|(delay, times)| many.record_n(delay.0, times).expect(GROWS));
    many
}

/// Half octaves from a microsecond to 17 s; what is less, or more, is in the first or the last.
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

    /// The largest delay that is counted there.
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
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new()
    }
}

impl Meter {
    /// Nothing measured yet. With the first delay comes memory for all up to a minute, 108 KiB, and twice that from four thousand million on.
    pub const fn new() -> Meter {
        Meter::with(Counts::Few(None))
    }

    /// The same for one among thousands: 192 bytes of memory, percentiles to half an octave.
    pub const fn coarse() -> Meter {
        Meter::with(Counts::Coarse(None))
    }

    const fn with(counts: Counts) -> Meter {
        Meter { counts, count: 0, sum: 0, min: Span::MAX, max: Span::ZERO }
    }

    /// Counts one delay.
    #[inline]
    pub fn record(&mut self, delay: Span) {
        self.record_n(delay, 1);
    }

    /// How often delays that were counted as the same as this one have been.
    #[inline]
    fn counted(&self, delay: Span) -> u64 {
        match &self.counts {
            Counts::Few(Some(few)) => few.count_at(delay.0).into(),
            Counts::Many(many) => many.count_at(delay.0),
            Counts::Few(None) | Counts::Coarse(_) => 0,
        }
    }

    /// Counts several, in this order. Looks at all of their places before: of many meters no cache has these, and looking
    /// alone a processor waits for all of them at once.
    pub fn record_all(&mut self, delays: impl Iterator<Item = Span> + Clone) {
        std::hint::black_box(delays.clone().map(|delay| self.counted(delay)).fold(0, u64::wrapping_add));
        delays.for_each(|delay| self.record(delay));
    }

    /// Counts one delay so many times.
    #[inline]
    pub fn record_n(&mut self, delay: Span, times: u64) {
        self.sum += u128::from(delay.0) * u128::from(times);
        self.min = self.min.min(delay);
        self.max = self.max.max(delay);
        self.count += times;
        self.count_at(delay, times);
    }

    /// Once `count` has these in it.
    #[inline]
    fn count_at(&mut self, delay: Span, times: u64) {
        match &mut self.counts {
            Counts::Many(histogram) => histogram.record_n(delay.0, times).expect(GROWS),
            Counts::Few(few) if self.count > FEW => {
                let mut many = many(few.as_deref());
                many.record_n(delay.0, times).expect(GROWS);
                self.counts = Counts::Many(many);
            }
            Counts::Few(few) => {
                let few = match few {
                    Some(few) => few,
                    None => few.insert(fine()),
                };
                few.record_n(delay.0, times as u32).expect(GROWS);
            }
            Counts::Coarse(octaves) => {
                let place = &mut octaves.get_or_insert_with(|| Box::new(Octaves([0; Octaves::PLACES]))).0
                    [Octaves::place(delay)];
                *place = place.saturating_add(u32::try_from(times).unwrap_or(u32::MAX));
            }
        }
    }

    /// Becomes what `other` is, in the memory that it has already.
    pub fn set_to(&mut self, other: &Meter) {
        match (&mut self.counts, &other.counts) {
            (Counts::Few(Some(own)), Counts::Few(Some(few))) => own.set_to(&**few).expect(GROWS),
            (Counts::Many(own), Counts::Many(many)) => own.set_to(&**many).expect(GROWS),
            (Counts::Coarse(Some(own)), Counts::Coarse(Some(octaves))) => own.0 = octaves.0,
            (own, counts) => *own = counts.clone(),
        }
        (self.count, self.sum, self.min, self.max) = (other.count, other.sum, other.min, other.max);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean in nanoseconds; `None` without any.
    pub fn mean_nanos(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The largest, exactly.
    pub fn max(&self) -> Option<Span> {
        (self.count() > 0).then_some(self.max)
    }

    /// The least, exactly.
    pub fn min(&self) -> Option<Span> {
        (self.count() > 0).then_some(self.min)
    }

    /// The delay that this share (0 to 1) of them does not exceed, to three digits, or to the end of its half octave.
    pub fn quantile(&self, share: f64) -> Option<Span> {
        let delay = match &self.counts {
            Counts::Few(histogram) => histogram.as_ref().map(|h| Span(h.value_at_quantile(share))),
            Counts::Many(histogram) => Some(Span(histogram.value_at_quantile(share))),
            Counts::Coarse(octaves) => octaves
                .as_ref()
                .and_then(|octaves| {
                    let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
                    let mut so_far = 0;
                    octaves.counts().find(|(_, times)| {
                        so_far += times;
                        so_far >= wanted
                    })
                })
                .map(|(delay, _)| delay),
        };
        delay.map(|delay| delay.min(self.max))
    }

    /// What was counted, from the least on: a delay, and how many were as long, to three digits or a half octave.
    pub fn counts(&self) -> impl Iterator<Item = (Span, u64)> {
        let (few, many, coarse) = match &self.counts {
            Counts::Few(histogram) => (histogram.as_deref(), None, None),
            Counts::Many(histogram) => (None, Some(&**histogram), None),
            Counts::Coarse(octaves) => (None, None, octaves.as_deref()),
        };
        let fine = few.into_iter().flat_map(steps).chain(many.into_iter().flat_map(steps));
        let coarse = coarse.into_iter().flat_map(Octaves::counts);
        fine.chain(coarse.map(|(delay, times)| (delay.min(self.max), times)))
    }

    /// Counts all that `other` counted.
    pub fn add(&mut self, other: &Meter) {
        self.count += other.count;
        match (&mut self.counts, &other.counts) {
            (Counts::Many(own), Counts::Many(more)) => own.add(more.as_ref()).expect(GROWS),
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

    /// Whatever it was before.
    #[test]
    fn a_meter_becomes_another() {
        let of = |mut meter: Meter, delays: &[(u64, u64)]| {
            delays.iter().for_each(|&(delay, times)| meter.record_n(Span(delay), times));
            meter
        };
        let kinds = || {
            let delays = [(7_000, 3), (2 * LONG, 1)];
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
            (meter.counts().collect::<Vec<_>>(), meter.count(), meter.mean_nanos(), meter.min(), meter.max(), quantiles)
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

    /// Counts that had little room know as much as those that had more, and go on where there is too little.
    #[test]
    fn few_become_many() {
        let spans = |n: u64| (0..n).map(|i| Span(1_000 + i % 700 * 997));
        let all = |meter: &mut Meter| spans(1_000).for_each(|delay| meter.record(delay));
        // One delay has as many as there is room for, and then each of the others one more.
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
        // Whichever is added to the other.
        let mut little = Meter::new();
        all(&mut little);
        let sum = |mut first: Meter, second: &Meter| {
            first.add(second);
            first
        };
        let (one, other) = (sum(little.clone(), &at_once), sum(at_once, &little));
        assert!(one.counts().eq(other.counts()) && one.count() == 2 * FEW + 2_000);
        assert_eq!(sum(little.clone(), &little).counts().map(|(_, times)| times).sum::<u64>(), 2_000);
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
        // The median stands between 393,216 and 524,288 ns.
        assert_eq!((meter.quantile(0.5), meter.quantile(1.0)), (Some(Span(524_287)), Some(Span(1_001_000))));
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
