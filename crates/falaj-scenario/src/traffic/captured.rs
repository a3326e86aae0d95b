//! Reads the packets of a capture for a source that replays them.

use crate::diagnostics::Problem;
use crate::model::Direction;
use crate::read::{Datum, Fields};
use crate::suggest::quoted;
use falaj_engine::classifier::Match;
use falaj_engine::key::Key;
use falaj_sched::contract::params::Values;
use falaj_traffic::capture;
use falaj_traffic::source::recorded::{PACKETS_MAX, Recording};
use std::fs::File;
use std::path::Path;

/// Length of an Ethernet header, in bytes.
const ETHERNET: u32 = 14;

/// Reads the selected packets, with speed and scale applied. Lengths are those of the IP packets.
pub(crate) fn recording(
    fields: &Fields<'_>,
    given: &Values,
    beside: &Path,
    problems: &mut Vec<Problem>,
) -> Option<Recording> {
    let field = fields.field("capture")?;
    let Some(Datum::Name(name)) = field.datum else { return None };
    let factor =
        |key: &str, least: f64, most: f64, problems: &mut Vec<Problem>| match fields.field(key) {
            None => Some(1.0),
            Some(field) => match field.datum {
                Some(Datum::Decimal(factor)) if (least..=most).contains(&factor) => Some(factor),
                Some(Datum::Decimal(factor)) => {
                    let why = format!("`{key}`: {factor} is out of range");
                    problems.push(
                        Problem::error(field.at.clone(), why)
                            .help(format!("write a number from {least} to {most}")),
                    );
                    None
                }
                _ => None,
            },
        };
    let speed = factor("speed", 1e-6, 1e6, problems)?;
    let scale = factor("scale", 1e-3, 1e3, problems)?;
    let select: &[Match] = match fields.field("select").map(|field| &field.datum) {
        None => &[],
        Some(Some(Datum::Rules(rules))) => rules,
        Some(_) => return None,
    };
    let mut refuse = |why: String, help: String| {
        problems.push(Problem::error(field.at.clone(), format!("`capture`: {why}")).help(help));
        None
    };
    let file = match File::open(beside.join(name)) {
        Ok(file) => file,
        Err(error) => {
            return refuse(
                format!("{} cannot be read: {error}", quoted(name)),
                "name a pcap or pcapng file, which may be compressed by gzip or zstd".into(),
            );
        }
    };
    // The selected packets, up to the maximum that a source can send. Each has its instant, its
    // packet number if falaj wrote the capture, and its length.
    let (mut packets, mut all, mut selected) = (Vec::new(), 0_usize, 0_usize);
    let read = capture::arrivals(file, |arrival| {
        all += 1;
        let takes = |rule: &Match| rule.takes(&Key::of_ethernet(arrival.frame));
        if select.is_empty() || select.iter().any(takes) {
            selected += 1;
            if selected <= PACKETS_MAX {
                let number = arrival.taken().map_or(u64::MAX, |taken| taken.number);
                packets.push((arrival.at, number, arrival.length));
            }
        }
    });
    let broken = match read {
        Ok(broken) => broken,
        Err(why) => {
            return refuse(
                format!("{}: {why}", quoted(name)),
                "name a pcap or pcapng file, which may be compressed by gzip or zstd".into(),
            );
        }
    };
    if selected > PACKETS_MAX {
        let help = format!("at most {PACKETS_MAX}: `select` fewer, or cut the file");
        return refuse(format!("{} has {selected} packets", quoted(name)), help);
    }
    packets.sort_by_key(|&(at, number, _)| (at, number));
    let Some(first) = packets.first().map(|packet| packet.0) else {
        let what = if select.is_empty() { "has no packets" } else { "has none of these" };
        return refuse(
            format!("{} {what}, of {all} packets", quoted(name)),
            "another file, or another `select`".into(),
        );
    };
    if let Some(broken) = broken {
        let why = format!("`capture`: {} breaks off: {broken}", quoted(name));
        let help = "the source sends the packets before";
        problems.push(Problem::warning(field.at.clone(), why).help(help));
    }
    let packet = |&(at, _, length): &(u64, u64, u32)| {
        let at = (at - first) as f64 / speed;
        let length = f64::from(length.saturating_sub(ETHERNET).max(1)) * scale;
        (at as u64, length.round().max(1.0) as u32)
    };
    let mut recording = Recording { packets: packets.iter().map(packet).collect(), again: None };
    if given.choice("repeat") == Some("yes") {
        recording.again = Some(recording.period());
    }
    Some(recording)
}

/// The recording with lengths as this direction accounts them, cut to `largest`. If lengths were
/// cut, a warning gives the number of these packets.
pub(crate) fn fit(
    recording: &Recording,
    direction: &Direction,
    largest: u32,
    fields: &Fields<'_>,
    problems: &mut Vec<Problem>,
) -> Recording {
    let mut longer = 0u64;
    let packets = recording.packets.iter().map(|&(at, length)| {
        let bytes = direction.layer.from_ip(length);
        longer += u64::from(bytes > largest);
        (at, bytes.clamp(1, largest))
    });
    let packets = packets.collect();
    if let (true, Some(field)) = (longer > 0, fields.field("capture")) {
        let why = format!(
            "{longer} packets of the capture are longer than {largest}B, and are sent with {largest}B"
        );
        let help =
            "the source's `size` is the largest; captures before segmentation have longer ones";
        problems.push(Problem::warning(field.at.clone(), why).help(help));
    }
    Recording { packets, ..*recording }
}
