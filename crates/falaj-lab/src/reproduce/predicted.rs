//! The distance from the mean of our runs within which a further run lies with a given probability.
//! A published value counts as a further run.

/// Two-sided quantiles of Student's t, by the number of runs.
pub(super) type StudentTable = &'static [(usize, f64)];

/// The level of 99 %, for papers with some tens of values.
pub(super) const T_99: StudentTable = &[(4, 5.841), (8, 3.499)];
/// The level of 99.9 %, for papers with some hundreds of values.
pub(super) const T_999: StudentTable = &[(8, 5.408)];

/// The mean of the runs, and the distance from this mean within which the level's percentage of
/// further runs lies. The distance is not a number if the table has no entry for this number of
/// runs.
pub(super) fn predicted(runs: &[f64], level: StudentTable) -> (f64, f64) {
    let n = runs.len() as f64;
    let mean = runs.iter().sum::<f64>() / n;
    let variance = runs.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let student = level.iter().find(|(number, _)| *number == runs.len());
    let student = student.map_or(f64::NAN, |(_, student)| *student);
    (mean, student * (variance * (1.0 + 1.0 / n)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 9, 10, 10, 11 have a variance of 2/3; 5.841 * sqrt(2/3 * 5/4) = 5.332.
    #[test]
    fn a_further_run_is_as_far_as_students_t_says() {
        let (mean, most) = predicted(&[9.0, 10.0, 10.0, 11.0], T_99);
        assert_eq!(mean, 10.0);
        assert!((most - 5.332).abs() < 1e-3, "{most}");
        let (_, most) = predicted(&[1.0, 1.0], T_99);
        assert!(most.is_nan(), "no quantile for two runs");
    }
}
