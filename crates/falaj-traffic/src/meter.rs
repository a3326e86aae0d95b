//! Delays of a flow's packets.

use falaj_sched::time::Span;
use hdrhistogram::Histogram;

/// Delays: number, exact mean, least and largest, percentiles to three digits.
#[derive(Clone, Debug)]
pub struct Meter {
    histogram: Histogram<u64>,
    sum: u128,
    min: Span,
    max: Span,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new()
    }
}

impl Meter {
    /// Nothing measured yet. Memory depends on the longest delay alone.
    pub fn new() -> Meter {
        let histogram = Histogram::new(3).expect("three digits are allowed");
        Meter { histogram, sum: 0, min: Span::MAX, max: Span::ZERO }
    }

    /// Counts one delay.
    #[inline]
    pub fn record(&mut self, delay: Span) {
        self.record_n(delay, 1);
    }

    /// Counts one delay so many times.
    #[inline]
    pub fn record_n(&mut self, delay: Span, times: u64) {
        self.sum += u128::from(delay.0) * u128::from(times);
        self.min = self.min.min(delay);
        self.max = self.max.max(delay);
        self.histogram.record_n(delay.0, times).expect("the histogram grows as it must");
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
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

    /// The delay that this share (0 to 1) of them does not exceed, to three digits.
    pub fn quantile(&self, share: f64) -> Option<Span> {
        (self.count() > 0).then(|| Span(self.histogram.value_at_quantile(share)).min(self.max))
    }

    /// What was counted, from the least on: a delay, and how many were as long, to three digits.
    pub fn counts(&self) -> impl Iterator<Item = (Span, u64)> {
        self.histogram.iter_recorded().map(|step| (Span(step.value_iterated_to()), step.count_at_value()))
    }

    /// Counts all that `other` counted.
    pub fn add(&mut self, other: &Meter) {
        self.histogram.add(&other.histogram).expect("the histogram grows as it must");
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
}
