//! Beats: reports of the elapsed virtual time from the guest to the host.

use std::time::Duration;

/// A report that the guest's init writes periodically, and after each message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Virtual time since the guest began.
    pub(crate) elapsed: Duration,
    /// Number of messages from the host that the guest has received.
    pub(crate) heard: u64,
}

/// Length of a beat in bytes.
pub(crate) const LENGTH: usize = 16;

impl Beat {
    pub(crate) fn to_bytes(self) -> [u8; LENGTH] {
        let nanos = u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX);
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&nanos.to_le_bytes());
        bytes[8..].copy_from_slice(&self.heard.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; LENGTH]) -> Beat {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b));
        Beat { elapsed: Duration::from_nanos(number(&bytes[..8])), heard: number(&bytes[8..]) }
    }
}

/// Interval to the next beat when `elapsed` of virtual time has passed. Even a busy guest needs far
/// less real time than the watchdog's patience for 250 ms of virtual time. Later intervals are
/// longer, so that a guest that sleeps for days is seldom woken. If a busy guest needs more than
/// the watchdog's patience for such an interval, the watchdog sends it a message, and the guest
/// answers with a beat.
pub(crate) fn interval(elapsed: Duration) -> Duration {
    match elapsed.as_secs() {
        0..600 => Duration::from_millis(250),
        600..3600 => Duration::from_secs(1),
        _ => Duration::from_secs(10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_arrives_as_it_was_written() {
        let beat = Beat { elapsed: Duration::new(3, 7), heard: u64::MAX - 1 };
        assert_eq!(Beat::from_bytes(beat.to_bytes()), beat);
    }
}
