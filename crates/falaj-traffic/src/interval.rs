//! Confidence intervals over independent replications.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean with the half-width of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean over the replications.
    pub mean: f64,
    /// Half of the 95 % interval's width (Student); `None` for less than two replications.
    pub half_width: Option<f64>,
    /// Standard error of the mean; `None` for less than two replications.
    pub standard_error: Option<f64>,
}

impl Estimate {
    /// The estimate from one value per replication; `None` if there are no values.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (!values.is_empty()).then(|| Estimate::around(mean, values))
    }

    /// The estimate if all replications together give a more precise value, `centre`, than the mean
    /// of their values. Quantiles are such a case, because a short replication underestimates them.
    /// The interval lies around `centre` (sectioning: Asmussen and Glynn 2007, III.5a).
    pub fn around(centre: f64, values: &[f64]) -> Estimate {
        let n = values.len() as f64;
        let standard_error = (values.len() > 1).then(|| {
            let variance = values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / (n - 1.0);
            (variance / n).sqrt()
        });
        let half_width = standard_error.map(|error| {
            let student =
                StudentsT::new(0.0, 1.0, n - 1.0).expect("degrees of freedom are positive");
            error * student.inverse_cdf(0.975)
        });
        Estimate { mean: centre, half_width, standard_error }
    }

    /// Half the interval's width as a fraction of the mean; `None` if the interval is not known, or
    /// if the mean is zero.
    pub fn relative(&self) -> Option<f64> {
        self.half_width.filter(|_| self.mean != 0.0).map(|half| half / self.mean.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let e = Estimate::of(&[10.0, 12.0, 14.0, 16.0]).unwrap();
        assert_eq!(e.mean, 13.0);
        // t(3; 0.975) = 3.1824 from the tables; s = 2.5820.
        assert!((e.half_width.unwrap() - 3.1824 * 2.5820 / 2.0).abs() < 1e-3, "{e:?}");
        assert_eq!(Estimate::of(&[1.0]).unwrap().half_width, None);
        assert_eq!(Estimate::of(&[]), None);
        assert!((e.relative().unwrap() - e.half_width.unwrap() / 13.0).abs() < 1e-15);
        assert_eq!(Estimate::of(&[0.0, 0.0]).unwrap().relative(), None);
        // Around 14, the sum of squares is 16 + 4 + 0 + 4.
        let around = Estimate::around(14.0, &[10.0, 12.0, 14.0, 16.0]);
        assert_eq!((around.mean, around.standard_error), (14.0, Some(f64::sqrt(24.0 / 3.0 / 4.0))));
    }
}
