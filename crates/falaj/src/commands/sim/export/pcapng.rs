//! The first replication as a capture: each packet at its arrival, with a comment that gives its
//! queueing delay. For a scenario without rules, `falaj sim --replay` makes the same decisions
//! about the packets.

use super::{PacketRecord, RecordOutcome, Runs};
use anyhow::{Context, Result, ensure};
use falaj_scenario::{Source, Towards};
use falaj_sim::headers;
use falaj_sim::scenario::pipe_of;
use falaj_traffic::capture::{Taken, Verdict, Writer};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

pub(super) fn write(path: &Path, runs: &Runs<'_>, text: &str) -> Result<()> {
    let scenario = runs.scenario;
    let mut packets: Vec<PacketRecord> = Vec::new();
    runs.each(0, |packet| packets.push(packet))?;
    // A stable sort: packets of a flow that arrived at the same instant stay in the order in which
    // they were sent or dropped.
    packets.sort_by_key(|packet| (packet.arrival, packet.pipe, packet.flow));
    let way = |pipe: usize| if pipe.is_multiple_of(2) { "up" } else { "down" };
    let names: Vec<String> = (0..2 * scenario.links.len())
        .map(|pipe| format!("{} {}", scenario.links[pipe / 2].name, way(pipe)))
        .collect();
    let ways: Vec<&str> = names.iter().map(String::as_str).collect();
    // With rules, a packet is recorded once for each link that it passes. A replay cannot connect
    // these records, so the capture then has no scenario.
    let text = if scenario.rules.is_empty() { text } else { "" };
    let file = BufWriter::new(File::create(path)?);
    let mut writer = Writer::new(file, text, &ways, Duration::ZERO)?;
    let mut frame = Vec::new();
    for (number, packet) in packets.iter().enumerate() {
        let accounts =
            scenario.links[packet.pipe.0 as usize / 2].direction(direction(packet)).layer;
        let length = accounts.to_ip(packet.bytes);
        headers_of(runs, packet, length, &mut frame)?;
        let verdict = match packet.fate {
            RecordOutcome::Sent { start, end, due } => Verdict::Sent { start, end, due },
            RecordOutcome::Lost { why } => Verdict::Dropped(why),
        };
        let taken = Taken {
            number: number as u64,
            way: packet.pipe.0,
            flow: packet.flow.0,
            bytes: packet.bytes,
            length: None,
            part: None,
            arrival: packet.arrival,
            verdict,
        };
        writer.write(&taken, &frame)?;
    }
    writer.sink().flush()?;
    Ok(())
}

fn direction(packet: &PacketRecord) -> Towards {
    if packet.pipe.0.is_multiple_of(2) { Towards::Up } else { Towards::Down }
}

/// Builds a frame as sent by the first source that feeds this flow; or, with rules, by the first
/// source in this direction.
fn headers_of(
    runs: &Runs<'_>,
    packet: &PacketRecord,
    length: u32,
    frame: &mut Vec<u8>,
) -> Result<()> {
    let sources = &runs.scenario.traffic;
    let feeds =
        |s: &Source| pipe_of(s.link, s.towards) == packet.pipe && s.flow == packet.flow.index();
    let alike = |s: &Source| s.towards == direction(packet);
    let source = sources.iter().position(feeds).or_else(|| sources.iter().position(alike));
    let number = source.context("a packet that no source sends")?;
    let ip = usize::try_from(length)?;
    ensure!(
        u16::try_from(ip).is_ok(),
        "a packet of {ip} B is longer than IPv4 allows: no capture has it"
    );
    let header = headers::frame(&sources[number], number, 0);
    frame.clear();
    frame.extend_from_slice(&header);
    frame.resize(ETHERNET + ip.max(header.len() - ETHERNET), 0);
    let (whole, datagram) = (frame.len() - ETHERNET, frame.len() - ETHERNET - 20);
    frame[16..18].copy_from_slice(&(whole as u16).to_be_bytes());
    frame[38..40].copy_from_slice(&(datagram as u16).to_be_bytes());
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// Returns the checksum of an IPv4 header whose checksum field is still zero.
fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 =
        header.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
