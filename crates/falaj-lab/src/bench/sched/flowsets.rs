//! Sets of flows in the notation of dummynet's test program: a list of `weight:length:flows`,
//! separated by commas. Weight and length may be ranges `low-high-steps`; the defaults of empty
//! fields are 1, 1000 and 1. Numbers may have the suffixes `k` (1024), `K` (1000), `m`, `M`. A
//! number of packets may also have the suffix `n`, which multiplies it by the number of flows.

use anyhow::{Result, bail, ensure};
use std::str::FromStr;

/// Flows with the same parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flowset {
    pub(super) weight: u32,
    /// Length of each packet of these flows, in bytes.
    pub(super) bytes: u32,
    pub(super) flows: u32,
}

/// All flows of a run, with the text from which they were parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flowsets {
    pub(super) text: String,
    pub(super) sets: Vec<Flowset>,
}

impl Flowsets {
    pub(super) fn flows(&self) -> u32 {
        self.sets.iter().map(|set| set.flows).sum()
    }
    pub(super) fn largest(&self) -> u32 {
        self.sets.iter().map(|set| set.bytes).max().unwrap_or(1)
    }
    /// The sum of the weights of all flows.
    pub(super) fn weights(&self) -> u64 {
        self.sets.iter().map(|set| u64::from(set.weight) * u64::from(set.flows)).sum()
    }
    /// The set of each flow, in the order of the flows.
    pub(super) fn each(&self) -> impl Iterator<Item = Flowset> + '_ {
        self.sets.iter().flat_map(|set| std::iter::repeat_n(*set, set.flows as usize))
    }
    /// This number of flows of weight 1 with packets of 1000 B.
    pub(super) fn equal(flows: u32) -> Flowsets {
        Flowsets {
            text: format!("1::{}", short(flows)),
            sets: vec![Flowset { weight: 1, bytes: 1000, flows }],
        }
    }
}

/// Maximum number of flows; more would not fit in memory with their packets.
const MOST_FLOWS: u64 = 1 << 22;

impl FromStr for Flowsets {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> Result<Flowsets> {
        let mut sets = Vec::new();
        for one in text.split(',') {
            let fields: Vec<&str> = one.split(':').collect();
            ensure!(fields.len() <= 3, "`{one}` has more than `weight:length:flows`");
            let field = |i: usize| fields.get(i).map_or("", |field| field.trim());
            let flows = if field(2).is_empty() { 1 } else { number(field(2))? };
            for weight in range(field(0), 1, 65_536)? {
                for bytes in range(field(1), 1000, 1 << 16)? {
                    ensure!(
                        (1..=MOST_FLOWS).contains(&flows),
                        "`{one}` has {flows} flows; 1 to {MOST_FLOWS} will do"
                    );
                    sets.push(Flowset { weight, bytes, flows: flows as u32 });
                }
            }
        }
        let flows: u64 = sets.iter().map(|set| u64::from(set.flows)).sum();
        ensure!(flows <= MOST_FLOWS, "`{text}` has {flows} flows; up to {MOST_FLOWS} will do");
        Ok(Flowsets { text: text.to_owned(), sets })
    }
}

/// Parses a range `low-high-steps` within 1 to `most`; the default of `steps` is 2.
fn range(text: &str, default: u64, most: u64) -> Result<Vec<u32>> {
    let mut parts = text.split('-');
    let low = match parts.next().unwrap_or_default() {
        "" if text.is_empty() => default,
        low => number(low)?,
    };
    let high = parts.next().map_or(Ok(low), number)?;
    let steps = parts.next().map_or(Ok(if high == low { 1 } else { 2 }), number)?;
    ensure!(parts.next().is_none(), "`{text}` is not `low-high-steps`");
    ensure!(
        low >= 1 && low <= high && high <= most,
        "`{text}`: from 1 to {most}, the lower end first"
    );
    ensure!((1..=1024).contains(&steps), "`{text}` has {steps} steps; 1 to 1024 will do");
    Ok((0..steps).map(|i| (low + (high - low) * i / (steps - 1).max(1)) as u32).collect())
}

fn number(text: &str) -> Result<u64> {
    let (digits, times) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm') => (&text[..text.len() - 1], 1 << 20),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    match digits.parse::<u64>().ok().and_then(|n| n.checked_mul(times)) {
        Some(n) => Ok(n),
        None => bail!("`{text}` is not a number; write `512`, `8k` (1024) or `8K` (1000)"),
    }
}

/// A number in its shortest notation.
pub(super) fn short(n: u32) -> String {
    match n {
        _ if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{}m", n >> 20),
        _ if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{}k", n >> 10),
        _ => n.to_string(),
    }
}

/// A number of packets: absolute, or `n` times the number of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packets {
    count: u64,
    each: bool,
}

impl Packets {
    pub(super) const fn all(count: u64) -> Packets {
        Packets { count, each: false }
    }
    pub(super) const fn each(count: u64) -> Packets {
        Packets { count, each: true }
    }
    pub(super) fn of(self, flows: u32) -> u64 {
        if self.each { self.count.saturating_mul(flows.into()) } else { self.count }
    }
}

impl FromStr for Packets {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> Result<Packets> {
        match text.strip_suffix('n') {
            Some(count) => Ok(Packets::each(number(count)?)),
            None => Ok(Packets::all(number(text)?)),
        }
    }
}

impl std::fmt::Display for Packets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.count, if self.each { "n" } else { "" })
    }
}

/// A number with a suffix, for the command line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub(super) u64);

impl FromStr for Number {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> Result<Number> {
        number(text).map(Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(text: &str) -> Vec<(u32, u32, u32)> {
        let all: Flowsets = text.parse().expect("valid flowsets");
        all.sets.iter().map(|s| (s.weight, s.bytes, s.flows)).collect()
    }

    #[test]
    fn flowsets_are_read_as_dummynet_reads_them() {
        assert_eq!(sets("1::512,8::64"), [(1, 1000, 512), (8, 1000, 64)]);
        assert_eq!(sets("1k:64"), [(1024, 64, 1)]);
        assert_eq!(sets("::"), [(1, 1000, 1)]);
        assert_eq!(
            sets("1-3:10-20:2K"),
            [(1, 10, 2000), (1, 20, 2000), (3, 10, 2000), (3, 20, 2000)]
        );
        assert_eq!(
            sets("1-9-5"),
            [(1, 1000, 1), (3, 1000, 1), (5, 1000, 1), (7, 1000, 1), (9, 1000, 1)]
        );
        assert_eq!(sets("4:100-100-3:1"), [(4, 100, 1); 3]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "0",
            "x",
            "1:2:3:4",
            "5-1",
            "1:0",
            "1::0",
            "1:99999999",
            "1::9m",
            "1-2-0",
            "1-2-3-4",
            "-1",
            "é",
        ] {
            assert!(text.parse::<Flowsets>().is_err(), "{text}");
        }
        for text in ["", "n", "-1", "3q", "99999999999999m"] {
            assert!(text.parse::<Packets>().is_err(), "{text}");
        }
    }

    #[test]
    fn packets_may_go_with_the_flows() {
        let of = |text: &str| text.parse::<Packets>().expect("valid").of(8);
        assert_eq!((of("20n"), of("1"), of("2k"), of("2kn")), (160, 1, 2048, 16_384));
        assert_eq!(
            (short(65_536), short(3 << 20), short(1000)),
            ("64k".into(), "3m".into(), "1000".into())
        );
    }
}
