//! Reports of a port in the capture of a link that is paced by its device. The port reports that it
//! has no room, or that it has room again.
//!
//! Each report is an entry of a log, like [changes](super::Wanted):
//!
//! ```text
//! __REALTIME_TIMESTAMP=1800000000123456
//! SYSLOG_IDENTIFIER=falaj
//! MESSAGE=no room behind way 0
//! FALAJ_ROOM=0
//! FALAJ_WAY=0
//! FALAJ_NUMBER=7
//! FALAJ_AT=123456789
//! FALAJ_BEHIND=4711
//! ```

use falaj_sched::units::time::Time;
use std::time::Duration;

/// A report of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackpressureReport {
    /// Number of the report, from 0.
    pub number: u64,
    /// The ingress direction whose packets leave through the port.
    pub way: u32,
    /// Room in bytes; 0 if the port accepts nothing for now.
    pub bytes: u32,
    /// Time of the report, in the engine's time.
    pub at: Time,
    /// Number of packets that had arrived before the report.
    pub behind: u64,
}

impl BackpressureReport {
    /// Returns the log entry. `said` is the time of the report since 1970.
    pub(super) fn entry(&self, said: Duration) -> Vec<u8> {
        let BackpressureReport { number, way, bytes, at: Time(at), behind } = self;
        let (micros, what) = (said.as_micros(), if *bytes == 0 { "no room" } else { "room" });
        format!(
            "__REALTIME_TIMESTAMP={micros}\nSYSLOG_IDENTIFIER=falaj\nMESSAGE={what} behind way {way}\nFALAJ_ROOM={bytes}\n\
             FALAJ_WAY={way}\nFALAJ_NUMBER={number}\nFALAJ_AT={at}\nFALAJ_BEHIND={behind}\n"
        )
        .into_bytes()
    }

    /// Reads a log entry. Returns `None` if it is not an entry of falaj, or is incomplete.
    pub(super) fn parse(entry: &[u8]) -> Option<BackpressureReport> {
        // A block is padded to a multiple of four bytes.
        let end = entry.iter().rposition(|&byte| byte == b'\n')?;
        let lines = std::str::from_utf8(&entry[..end]).ok()?;
        let number = |name: &str| {
            let mut fields = lines.lines().filter_map(|line| line.split_once('='));
            fields.find(|(field, _)| *field == name)?.1.parse::<u64>().ok()
        };
        Some(BackpressureReport {
            number: number("FALAJ_NUMBER")?,
            way: u32::try_from(number("FALAJ_WAY")?).ok()?,
            bytes: u32::try_from(number("FALAJ_ROOM")?).ok()?,
            at: Time(number("FALAJ_AT")?),
            behind: number("FALAJ_BEHIND")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for (way, bytes) in [(0, 0), (1, u32::MAX)] {
            let room =
                BackpressureReport { number: 7, way, bytes, at: Time(u64::MAX - 1), behind: 12 };
            let entry = room.entry(Duration::from_secs(1_800_000_000));
            assert_eq!(BackpressureReport::parse(&entry), Some(room));
            assert_eq!(BackpressureReport::parse(&[&entry[..], &[0; 3]].concat()), Some(room));
            assert!(
                (0..entry.len() - 1)
                    .all(|length| BackpressureReport::parse(&entry[..length]).is_none())
            );
        }
        assert_eq!(
            BackpressureReport::parse(b"__REALTIME_TIMESTAMP=1\nMESSAGE=of another program\n"),
            None
        );
    }
}
