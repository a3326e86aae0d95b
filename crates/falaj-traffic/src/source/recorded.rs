//! Replays the packets of a capture.

use falaj_sched::units::rate::{BIT_NANOS, Rate};
use serde::{Deserialize, Serialize};

/// Times and lengths of packets; at least one packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// For each packet: nanoseconds since the first packet, which never decrease, and bytes as the
    /// link accounts them.
    pub packets: Vec<(u64, u32)>,
    /// Period in nanoseconds after which the recording is repeated; `None` if it is not repeated.
    pub again: Option<u64>,
}

/// Maximum number of packets of a recording.
pub const PACKETS_MAX: usize = 1_000_000;

impl Recording {
    /// The recording's mean rate over one period. The period is `again`, or the length of the
    /// recording with a mean gap after the last packet.
    pub fn rate(&self) -> Rate {
        let bytes: u128 = self.packets.iter().map(|&(_, bytes)| u128::from(bytes)).sum();
        let time = self.again.unwrap_or_else(|| self.period()).max(1);
        Rate(u64::try_from(bytes * u128::from(BIT_NANOS) / u128::from(time)).unwrap_or(u64::MAX))
    }

    /// The recording's length in nanoseconds, with a mean gap after the last packet.
    pub fn period(&self) -> u64 {
        let (last, gaps) =
            (self.packets.last().map_or(0, |&(at, _)| at), self.packets.len().max(2) as u64 - 1);
        // One second if there are no two packets with a gap between them.
        if last == 0 { 1_000_000_000 } else { last.saturating_add(last / gaps) }
    }

    /// Returns the time and the length of the packet with this number, counted from the beginning.
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
