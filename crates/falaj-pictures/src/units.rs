//! Units of axes.

/// Units of time, in nanoseconds.
pub const TIME: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
/// Units of data, in bytes.
pub const DATA: [(f64, &str); 4] = [(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")];
/// Units of rates, in bits per second.
pub const RATE: [(f64, &str); 4] =
    [(1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s")];

/// For an axis up to `most`: the size of its unit, in the smallest unit, and the unit's name.
pub fn unit(most: f64, units: &[(f64, &'static str)]) -> (f64, &'static str) {
    *units.iter().rev().find(|(one, _)| most >= 2.0 * one).unwrap_or(&units[0])
}

/// Number of digits after the decimal point on an axis with at most `labels` labels: as many as the
/// step between labels needs, so that no two labels are the same if the axis begins far from zero.
pub fn digits(from: f64, to: f64, labels: usize) -> usize {
    let least = (to - from) / (labels + 1) as f64;
    // The step between labels is the next of 1, 2, 5 and 10 above this.
    let power = least.log10().floor();
    let power = if least / 10f64.powf(power) >= 5.0 { power + 1.0 } else { power };
    (-power).clamp(0.0, 12.0) as usize
}
