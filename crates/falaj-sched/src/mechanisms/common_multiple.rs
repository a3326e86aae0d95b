//! Common multiples: in units of a common multiple of all weights, the virtual time of a byte is a
//! whole number at each weight.

/// Returns the least common multiple of `of` and all `values`, if it is at most `most`; without
/// values, returns `of`. No value may be 0.
pub(crate) fn multiple(of: u64, values: impl IntoIterator<Item = u64>, most: u64) -> Option<u64> {
    values.into_iter().try_fold(of, |all, value| {
        let (mut a, mut b) = (value, all % value);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        all.checked_mul(value / a).filter(|&all| all <= most)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_common_multiple_up_to_a_bound() {
        assert_eq!(multiple(1, [4, 6, 1], 12), Some(12));
        assert_eq!(multiple(1, [4, 6], 11), None);
        assert_eq!(multiple(10, [], 1), Some(10));
        assert_eq!(multiple(1 << 63, [3], u64::MAX), None);
    }
}
