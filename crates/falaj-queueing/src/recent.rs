//! Recent measurements of one quantity, robust to outliers: a machine that stalls for milliseconds
//! makes some measurements unlike all others.

/// Number of measurements kept.
const KEPT: usize = 63;
/// Ratio of the standard deviation to the median absolute deviation, for normal values.
const NORMAL: f64 = 1.4826;
/// Ratio of the standard error of a median to the standard error of a mean, for normal values.
const MEDIAN: f64 = 1.2533;

/// The last [`KEPT`] measurements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    found: Vec<f64>,
    next: usize,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Recent {
    /// Adds a measurement, and replaces the oldest if there are [`KEPT`].
    pub(crate) fn add(&mut self, value: f64) {
        if self.found.len() < KEPT {
            self.found.push(value);
        } else {
            self.found[self.next] = value;
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// The median; `None` without measurements.
    pub(crate) fn middle(&self) -> Option<f64> {
        (!self.found.is_empty()).then(|| median(self.found.clone()))
    }

    /// The median and its standard error; `None` with fewer than three measurements.
    pub(crate) fn known(&self) -> Option<(f64, f64)> {
        // With only two measurements, either one may be the outlier.
        if self.found.len() < 3 {
            return None;
        }
        let middle = self.middle()?;
        let off = median(self.found.iter().map(|value| (value - middle).abs()).collect());
        Some((middle, MEDIAN * NORMAL * off / (self.found.len() as f64).sqrt()))
    }

    /// The median and its standard error, or `first` with fewer than three measurements.
    pub(crate) fn or(&self, first: (f64, f64)) -> (f64, f64) {
        self.known().unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_that_are_far_off_do_not_count() {
        let mut recent = Recent::default();
        assert_eq!(recent.or((7.0, 2.0)), (7.0, 2.0));
        for i in 0..100 {
            recent.add(if i % 5 == 0 { 1e6 } else { 10.0 + f64::from(i % 3) });
        }
        let (middle, off) = recent.known().expect("enough");
        assert!((10.0..=12.0).contains(&middle) && off > 0.0 && off < 1.0, "{middle} {off}");
        // After [`KEPT`] measurements of another size, no earlier one is left.
        (0..KEPT).for_each(|_| recent.add(3.0));
        assert_eq!(recent.known(), Some((3.0, 0.0)));
    }
}
