//! What is known of a packet, and the comment that says so.

use falaj_engine::DropReason;
use falaj_sched::units::time::Time;
use std::fmt;

/// What the engine was told of a packet, and what it decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// In order of arrival at the engine, from 0.
    pub number: u64,
    /// Which way in, and so which pipe.
    pub way: u32,
    /// The flow, as flows were numbered when it came.
    pub flow: u32,
    /// Length as the link accounts it.
    pub bytes: u32,
    /// Length of the IP packet, where it is known.
    pub length: Option<u32>,
    /// Where there are rules: of several that came in one piece, which one; the headers of the
    /// first count for all.
    pub part: Option<u32>,
    /// When it arrived.
    pub arrival: Time,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was sent.
    Sent {
        /// First bit out of the queue.
        start: Time,
        /// Last bit out of the queue.
        end: Time,
        /// Last bit at the far end.
        due: Time,
    },
    /// It was lost.
    Dropped(DropReason),
    /// It was still queued when the capture ended.
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

/// Why a packet was lost, in a word: `queue-full`.
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
    /// Reads a packet's comment; `None` if it is not one of ours.
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
