//! Packets of a capture, sent once more.

use falaj_sched::units::rate::{BIT_NANOS, Rate};
use serde::{Deserialize, Serialize};

/// When packets come and how long they are; one packet at least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Nanoseconds since the first, never going back, and bytes as the link accounts them.
    pub packets: Vec<(u64, u32)>,
    /// After so many nanoseconds it begins anew; `None`: it ends.
    pub again: Option<u64>,
}

/// No more packets of a capture are sent than these.
pub const PACKETS_MAX: usize = 1_000_000;

impl Recording {
    /// Its rate, over all of its time and a gap more, as many as there are packets.
    pub fn rate(&self) -> Rate {
        let bytes: u128 = self.packets.iter().map(|&(_, bytes)| u128::from(bytes)).sum();
        let time = self.again.unwrap_or_else(|| self.period()).max(1);
        Rate(u64::try_from(bytes * u128::from(BIT_NANOS) / u128::from(time)).unwrap_or(u64::MAX))
    }

    /// How long it lasts, if behind the last packet there is a gap of the mean length.
    pub fn period(&self) -> u64 {
        let (last, gaps) =
            (self.packets.last().map_or(0, |&(at, _)| at), self.packets.len().max(2) as u64 - 1);
        // A second, where no two packets say what a gap is.
        if last == 0 { 1_000_000_000 } else { last.saturating_add(last / gaps) }
    }

    /// The packet of this number since the beginning.
    pub(super) fn packet(&self, number: u64) -> Option<(u64, u32)> {
        let all = self.packets.len() as u64;
        let (turn, n) = (number / all.max(1), number % all.max(1));
        let &(at, bytes) = self.packets.get(n as usize)?;
        match (turn, self.again) {
            (0, _) => Some((at, bytes)),
            (_, Some(period)) => Some((at.saturating_add(period.saturating_mul(turn)), bytes)),
            (_, None) => None,
        }
    }
}
