//! A part of a sweep's tasks, for one machine of several.

use super::Sweep;
use std::fmt;
use std::str::FromStr;

/// A part of the tasks: `2/8` is the second of eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    pub(super) index: u64,
    pub(super) count: u64,
}

impl Shard {
    /// The number of tasks of a sweep in this shard.
    pub fn tasks(self, sweep: &Sweep) -> u64 {
        (sweep.tasks() + self.count - self.index) / self.count
    }

    /// Divides the tasks of this shard into `parts` parts, or into one part per task if there are
    /// fewer tasks. For example, the third shard of eight becomes the third, the eleventh and so on
    /// of `8 * parts`.
    pub fn split(self, sweep: &Sweep, parts: u64) -> Vec<Shard> {
        let parts = parts.min(self.tasks(sweep)).max(1);
        (0..parts)
            .map(|n| Shard { index: self.index + self.count * n, count: self.count * parts })
            .collect()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;
    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = || {
            format!(
                "`{text}` is not a shard; write `1/8` for the first of eight, and `8/8` for the last"
            )
        };
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let (index, count) =
            (index.parse().map_err(|_| wrong())?, count.parse().map_err(|_| wrong())?);
        if index == 0 || index > count { Err(wrong()) } else { Ok(Shard { index, count }) }
    }
}
