//! The engine's input and verdict for a packet, and the comment that contains them.

use falaj_engine::DropReason;
use falaj_sched::units::time::Time;
use std::fmt;

/// The engine's input for a packet, and its decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Position in the order of arrival at the engine, from 0.
    pub number: u64,
    /// The ingress direction, which determines the pipe.
    pub way: u32,
    /// The flow, by its number at the packet's arrival.
    pub flow: u32,
    /// Length in bytes, as the link accounts it.
    pub bytes: u32,
    /// Length of the IP packet in bytes, if it is known.
    pub length: Option<u32>,
    /// If there are rules: the index among the packets of one unit that arrived together. The
    /// headers of the first packet apply to all of them.
    pub part: Option<u32>,
    /// Time of arrival.
    pub arrival: Time,
    /// The packet's fate.
    pub verdict: Verdict,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet was sent.
    Sent {
        /// Departure of its first bit from the queue.
        start: Time,
        /// Departure of its last bit from the queue.
        end: Time,
        /// Arrival of its last bit at the far end.
        due: Time,
    },
    /// The packet was dropped or lost.
    Dropped(DropReason),
    /// The packet was still queued when the capture ended.
    Waiting,
}

pub(super) const WHYS: [(DropReason, &str); 8] = [
    (DropReason::QueueFull, "queue-full"),
    (DropReason::TooLarge, "too-large"),
    (DropReason::Discipline, "discipline"),
    (DropReason::Lost, "lost"),
    (DropReason::Rule, "rule"),
    (DropReason::Unmatched, "unmatched"),
    (DropReason::Policy, "policy"),
    (DropReason::Changed, "changed"),
];

/// Returns the reason of a loss as one word: `queue-full`.
pub fn word(why: DropReason) -> &'static str {
    WHYS.iter().find(|(other, _)| *other == why).map_or("", |(_, name)| name)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Sent { start, end, due } => {
                write!(f, "start={} end={} due={}", start.0, end.0, due.0)
            }
            Verdict::Dropped(why) => write!(f, "dropped={}", word(*why)),
            Verdict::Waiting => f.write_str("waiting"),
        }
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taken { number, flow, bytes, length, part, arrival, verdict, .. } = self;
        write!(f, "number={number} flow={flow} bytes={bytes} ")?;
        if let Some(length) = length {
            write!(f, "ip={length} ")?;
        }
        if let Some(part) = part {
            write!(f, "part={part} ")?;
        }
        write!(f, "in={} {verdict}", arrival.0)?;
        match verdict {
            Verdict::Sent { end, .. } => write!(f, " delay={}ns", end.since(*arrival).0),
            _ => Ok(()),
        }
    }
}

impl Taken {
    /// Reads a packet's comment. Returns `None` if falaj did not write it.
    pub(super) fn parse(comment: &str, way: u32) -> Option<Taken> {
        let field = |name: &str| {
            let words = comment.split_ascii_whitespace();
            words
                .filter_map(|w| w.split_once('='))
                .find(|(n, _)| *n == name)
                .map(|(_, value)| value)
        };
        let number = |name: &str| field(name)?.parse::<u64>().ok();
        let short = |name: &str| field(name)?.parse::<u32>().ok();
        let verdict = if let Some(why) = field("dropped") {
            Verdict::Dropped(WHYS.iter().find(|(_, name)| *name == why)?.0)
        } else if comment.split_ascii_whitespace().any(|word| word == "waiting") {
            Verdict::Waiting
        } else {
            let instant = |name| number(name).map(Time);
            Verdict::Sent { start: instant("start")?, end: instant("end")?, due: instant("due")? }
        };
        Some(Taken {
            number: number("number")?,
            way,
            flow: short("flow")?,
            bytes: short("bytes")?.max(1),
            length: short("ip"),
            part: short("part"),
            arrival: Time(number("in")?),
            verdict,
        })
    }
}
