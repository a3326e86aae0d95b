//! Units of axes.

/// Nanoseconds.
pub(crate) const TIME: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
/// Bytes.
pub(crate) const DATA: [(f64, &str); 4] = [(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")];
/// Bits in a second.
pub(crate) const RATE: [(f64, &str); 4] = [(1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s")];

/// How many of the least there are in one of an axis that goes so far, and that unit's name.
pub(crate) fn unit(most: f64, units: &[(f64, &'static str)]) -> (f64, &'static str) {
    *units.iter().rev().find(|(one, _)| most >= 2.0 * one).unwrap_or(&units[0])
}

/// Digits behind the point, where an axis goes so far.
pub(crate) fn digits(most: f64) -> usize {
    if most < 2.0 { 2 } else { usize::from(most < 20.0) }
}
