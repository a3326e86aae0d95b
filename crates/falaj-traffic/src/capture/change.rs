//! Changes of a link in its capture: the new scenario, the time of the change, and the number of
//! packets before it.
//!
//! Each change is an entry of a log, in the format that pcapng has for the journal of systemd. Its
//! fields have one line each; the scenario's text follows its length.
//!
//! ```text
//! __REALTIME_TIMESTAMP=1800000000123456
//! SYSLOG_IDENTIFIER=falaj
//! MESSAGE=link.rate=5mbit
//! FALAJ_CHANGE=0
//! FALAJ_AT=123456789
//! FALAJ_BEHIND=4711
//! FALAJ_DROP=0
//! FALAJ_VACANT=
//! FALAJ_SCENARIO
//! ```

use falaj_sched::units::time::Time;
use std::time::Duration;

/// A change requested of a running link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The settings in words, for people who read the log.
    pub what: String,
    /// The new scenario.
    pub scenario: String,
    /// True if queued packets that no longer fit may be dropped.
    pub drop: bool,
    /// Vacant places in the engine, which new links occupy.
    pub vacant: Vec<u32>,
}

/// A change of the link that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Number of the change, from 0.
    pub number: u64,
    /// Time of the change, in the engine's time.
    pub at: Time,
    /// Number of packets that had arrived before the change.
    pub behind: u64,
    /// The requested change.
    pub wanted: Wanted,
}

/// The field of the scenario, whose text has several lines.
const SCENARIO: &[u8] = b"FALAJ_SCENARIO\n";

impl Change {
    /// Returns the log entry. `made` is the time of the change since 1970.
    pub(super) fn entry(&self, made: Duration) -> Vec<u8> {
        let Change {
            number,
            at: Time(at),
            behind,
            wanted: Wanted { what, scenario, drop, vacant },
        } = self;
        let vacant: Vec<String> = vacant.iter().map(u32::to_string).collect();
        let (micros, what, vacant) =
            (made.as_micros(), what.replace(['\n', '\r'], " "), vacant.join(" "));
        let drop = u8::from(*drop);
        let lines = format!(
            "__REALTIME_TIMESTAMP={micros}\nSYSLOG_IDENTIFIER=falaj\nMESSAGE={what}\nFALAJ_CHANGE={number}\n\
             FALAJ_AT={at}\nFALAJ_BEHIND={behind}\nFALAJ_DROP={drop}\nFALAJ_VACANT={vacant}\n"
        );
        let length = (scenario.len() as u64).to_le_bytes();
        [lines.as_bytes(), SCENARIO, &length[..], scenario.as_bytes(), &b"\n"[..]].concat()
    }

    /// Reads a log entry. Returns `None` if it is not an entry of falaj, or is incomplete.
    pub(super) fn parse(entry: &[u8]) -> Option<Change> {
        let at = entry.windows(SCENARIO.len()).position(|window| window == SCENARIO)?;
        let (lines, rest) =
            (std::str::from_utf8(&entry[..at]).ok()?, &entry[at + SCENARIO.len()..]);
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let scenario = rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let field = |name: &str| {
            lines.lines().filter_map(|line| line.split_once('=')).find(|(n, _)| *n == name)
        };
        let text = |name: &str| field(name).map(|(_, value)| value);
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        let vacant = text("FALAJ_VACANT")?.split_ascii_whitespace().map(|place| place.parse().ok());
        Some(Change {
            number: number("FALAJ_CHANGE")?,
            at: Time(number("FALAJ_AT")?),
            behind: number("FALAJ_BEHIND")?,
            wanted: Wanted {
                what: text("MESSAGE")?.to_owned(),
                scenario: std::str::from_utf8(scenario).ok()?.to_owned(),
                drop: number("FALAJ_DROP")? != 0,
                vacant: vacant.collect::<Option<_>>()?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let scenario = "[link.a]\nrate = \"1mbit\" # FALAJ_SCENARIO\n\n".repeat(3);
        let wanted =
            Wanted { what: "a.rate=1mbit\nb".into(), scenario, drop: true, vacant: vec![3, 40] };
        let change = Change { number: 7, at: Time(u64::MAX - 1), behind: 12, wanted };
        let entry = change.entry(Duration::from_secs(1_800_000_000));
        let read = Change::parse(&entry).expect("what was just written");
        assert_eq!(read.wanted.what, "a.rate=1mbit b");
        assert_eq!(Change { wanted: change.wanted.clone(), ..read }, change);
        // A block is padded to a multiple of four bytes.
        assert!(Change::parse(&[&entry[..], &[0; 3]].concat()).is_some());
        for length in 0..entry.len() - 1 {
            assert_eq!(Change::parse(&entry[..length]), None, "{length}");
        }
        let none = Wanted { vacant: Vec::new(), ..Wanted::default() };
        let change = Change { wanted: none, ..change };
        assert_eq!(Change::parse(&change.entry(Duration::ZERO)), Some(change));
        assert_eq!(Change::parse(b"__REALTIME_TIMESTAMP=1\nMESSAGE=of another program\n"), None);
    }
}
