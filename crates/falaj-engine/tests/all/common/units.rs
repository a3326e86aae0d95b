//! The units of virtual time of WF2Q+ and QFQ, by their definition.

/// The largest number of units in a byte at weight 1: 2^38 times the largest power of two that is
/// at most the smallest weight. QFQ has this number of units.
pub fn most_units_of_a_byte(weights: &[u64]) -> u64 {
    let mut most = 1 << 38;
    for _ in 0..weights.iter().min().expect("flows").ilog2() {
        most *= 2;
    }
    most
}

/// The number of units in a byte at weight 1 under WF2Q+. It is a multiple of all weights; of their
/// sum and of frequent factors of sums, each if the result still fits; and of the largest power of
/// two that still fits. `None` if the weights alone have no common multiple that small.
pub fn units_of_a_byte(weights: &[u64]) -> Option<u64> {
    let common = |a: u64, b: u64| {
        let (mut divisor, mut rest) = (b, a % b);
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        a * (b / divisor)
    };
    let most = most_units_of_a_byte(weights);
    let mut all = 1;
    for &weight in weights {
        all = Some(common(all, weight)).filter(|&all| all <= most)?;
    }
    for other in [weights.iter().sum(), 16, 9, 25, 7, 11, 13, 125, 65_536, 27, 17, 19, 23] {
        all = Some(common(all, other)).filter(|&all| all <= most).unwrap_or(all);
    }
    while 2 * all <= most {
        all *= 2;
    }
    Some(all)
}
