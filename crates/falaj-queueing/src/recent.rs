//! What was found of one quantity lately, of which a few findings may be far off: a machine that
//! stalls for milliseconds makes some epochs unlike all others.

/// Findings that are kept.
const KEPT: usize = 63;
/// The standard deviation over the median distance from the median, if these are normal.
const NORMAL: f64 = 1.4826;
/// The standard error of a median over that of a mean, likewise.
const MEDIAN: f64 = 1.2533;

/// The last of them.
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
    /// One more, in the place of the oldest.
    pub(crate) fn add(&mut self, value: f64) {
        if self.found.len() < KEPT {
            self.found.push(value);
        } else {
            self.found[self.next] = value;
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// The one in the middle; `None` before there is any.
    pub(crate) fn middle(&self) -> Option<f64> {
        (!self.found.is_empty()).then(|| median(self.found.clone()))
    }

    /// The same, and how far that may be off (one standard error); `None` before there are enough
    /// to tell.
    pub(crate) fn known(&self) -> Option<(f64, f64)> {
        // Of two nobody knows which one is far off.
        if self.found.len() < 3 {
            return None;
        }
        let middle = self.middle()?;
        let off = median(self.found.iter().map(|value| (value - middle).abs()).collect());
        Some((middle, MEDIAN * NORMAL * off / (self.found.len() as f64).sqrt()))
    }

    /// The same, or what it is taken for until then, and how far that may be off.
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
        // As many of another size as are kept, and none of the others is left.
        (0..KEPT).for_each(|_| recent.add(3.0));
        assert_eq!(recent.known(), Some((3.0, 0.0)));
    }
}
