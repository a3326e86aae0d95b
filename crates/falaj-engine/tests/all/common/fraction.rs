//! Exact numbers for naive models.

use std::cmp::Ordering;

/// A fraction in lowest terms, its denominator above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction(i128, i128);

impl Fraction {
    pub const ZERO: Fraction = Fraction(0, 1);

    /// `n/d`.
    pub fn new(n: impl Into<i128>, d: impl Into<i128>) -> Fraction {
        let (n, d) = (n.into(), d.into());
        let (mut a, mut b) = (n.abs(), d);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Fraction(n / a, d / a)
    }
    pub fn of(n: impl Into<i128>) -> Fraction {
        Fraction(n.into(), 1)
    }
    pub fn plus(self, o: Fraction) -> Fraction {
        Fraction::new(self.0 * o.1 + o.0 * self.1, self.1 * o.1)
    }
    pub fn minus(self, o: Fraction) -> Fraction {
        self.plus(Fraction(-o.0, o.1))
    }
    /// The product with `n/d`.
    pub fn times(self, n: impl Into<i128>, d: impl Into<i128>) -> Fraction {
        Fraction::new(self.0 * n.into(), self.1 * d.into())
    }
    pub fn by(self, o: Fraction) -> Fraction {
        self.times(o.0, o.1)
    }
    /// The quotient by a positive fraction.
    pub fn over(self, o: Fraction) -> Fraction {
        self.times(o.1, o.0)
    }
    /// The largest multiple of `step` at or below it.
    pub fn floor(self, step: Fraction) -> Fraction {
        Fraction::new((self.0 * step.1).div_euclid(self.1 * step.0) * step.0, step.1)
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, o: &Fraction) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}

impl Ord for Fraction {
    fn cmp(&self, o: &Fraction) -> Ordering {
        (self.0 * o.1).cmp(&(o.0 * self.1))
    }
}
