//! The end of a simulation's warm-up: MSER-5 (White, Cobb and Spratt, "A comparison of five
//! steady-state truncation heuristics for simulation", 2000).
//!
//! The beginning is cut at the point after which the mean of the rest seems most precise. At this
//! point, the sum of the squared deviations in the rest, divided by the square of the number of
//! observations in the rest, is smallest. Observations are taken in batches of five.

/// Number of observations in a batch.
pub const BATCH: usize = 5;

/// Minimum number of batches for a result.
pub const FEWEST: usize = 20;

/// At least 1/4 of the batches is kept: with fewer, a few similar batches at the end would seem
/// very precise.
const LEFT: usize = 4;

/// The result of MSER-5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The number of observations to cut, perhaps 0.
    At(usize),
    /// The cut would be at least this number of observations, which is more than half of them. The
    /// measured quantity changes until the end, and no cut helps.
    Late(usize),
    /// There are too few observations for a result.
    Unknown,
}

/// The number of observations before the steady state; an observation is `None` if it was not made.
pub fn cut(observations: &[Option<f64>]) -> Cut {
    let mean = |batch: &[Option<f64>]| {
        let made: Vec<f64> = batch.iter().flatten().copied().collect();
        (!made.is_empty()).then(|| made.iter().sum::<f64>() / made.len() as f64)
    };
    // The mean of each batch, with the index of its first observation.
    let batches: Vec<(usize, f64)> = observations
        .chunks_exact(BATCH)
        .enumerate()
        .filter_map(|(n, batch)| Some((n * BATCH, mean(batch)?)))
        .collect();
    if batches.len() < FEWEST {
        return Cut::Unknown;
    }
    // Computed from the last batch backwards: number, mean, and sum of the squared deviations from
    // the mean.
    let (mut n, mut mean, mut squares) = (0.0, 0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (first, &(_, value)) in batches.iter().enumerate().rev() {
        n += 1.0;
        let away = value - mean;
        mean += away / n;
        squares += away * (value - mean);
        let error = squares / (n * n);
        if (batches.len() - first) * LEFT >= batches.len() && error <= best.0 {
            best = (error, first);
        }
    }
    match best.1 {
        0 => Cut::At(0),
        first if batches[first].0 * 2 > observations.len() => Cut::Late(batches[first].0),
        first => Cut::At(batches[first].0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_engine::chance::Chance;

    /// A thousand values with noise, 200 batches of 5.
    fn series(of: impl Fn(usize) -> f64) -> Vec<Option<f64>> {
        let noise = Chance::new(7, 0, 0);
        (0..1000).map(|i| Some(of(i) + noise.draw(i as u64) as f64 / u64::MAX as f64)).collect()
    }

    #[test]
    fn a_beginning_is_cut_off_and_a_trend_is_none() {
        let Cut::At(step) = cut(&series(|i| if i < 150 { 0.0 } else { 10.0 })) else {
            panic!("a step")
        };
        assert!((150..=165).contains(&step), "{step}");
        // The decay is at a thousandth of its height after 345 observations.
        let Cut::At(decay) = cut(&series(|i| 10.0 * (-(i as f64) / 50.0).exp())) else {
            panic!("a decay")
        };
        assert!((100..350).contains(&decay), "{decay}");
        assert!(matches!(cut(&series(|i| i as f64)), Cut::Late(_)));
        let Cut::At(still) = cut(&series(|_| 0.0)) else { panic!("noise alone") };
        assert!(still < 300, "{still}");
    }

    #[test]
    fn what_does_not_change_is_not_cut() {
        assert_eq!(cut(&[Some(3.0); 1000]), Cut::At(0));
        assert_eq!(cut(&[None; 1000]), Cut::Unknown);
        // Only every tenth observation was made; batches without observations do not count.
        let sparse: Vec<Option<f64>> = series(|i| if i < 200 { 0.0 } else { 9.0 })
            .into_iter()
            .enumerate()
            .map(|(i, v)| v.filter(|_| i % 10 == 0))
            .collect();
        assert_eq!(cut(&sparse), Cut::At(200));
    }
}
