//! Captures: what entered a live link and what became of it, in one file that
//! packet analysers open and that can be replayed.
//!
//! The file is pcapng. Each packet stands at its arrival, with a comment that
//! says, exactly, what the engine was told and what it decided:
//!
//! ```text
//! number=17 flow=0 bytes=1514 ip=1500 in=123456789 start=123500000 end=123621120 due=163621120 delay=164331ns
//! number=18 flow=0 bytes=1514 ip=1500 in=123456789 dropped=queue-full
//! number=19 flow=0 bytes=1514 ip=1500 in=123456800 waiting
//! number=20 flow=0 bytes=1514 ip=1500 part=3 in=123456900 waiting
//! ```
//!
//! Instants are nanoseconds of the engine's time. The scenario is the comment of
//! the section, in as many pieces as it takes. Where
//! there are rules, `part` is there for them, and packets that they do not let in too. Changes of the link stand between, as
//! entries of a log ([`Wanted`]). Interfaces are the link's ways in: 0
//! at the near end, 1 at the far end. A capture of another program's, pcap or
//! pcapng, has arrivals alone.
//!
//! The section names the program that wrote it: `falaj` alone in the first version of this format, which had no changes and `ip` with rules only;
//! `falaj, journal 2` since.

mod change;

pub use change::{Change, Wanted};

use falaj_engine::Why;
use falaj_sched::time::Time;
use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::blocks::systemd_journal_export::SystemdJournalExportBlock;
use pcap_file::pcapng::{Block, PcapNgParser, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};
use std::fmt;
use std::io::{Read, Write};
use std::time::Duration;

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
    /// Where there are rules: of several that came in one piece, which one; the headers of the first count for all.
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
    Dropped(Why),
    /// It was still queued when the capture ended.
    Waiting,
}

const WHYS: [(Why, &str); 8] = [
    (Why::QueueFull, "queue-full"),
    (Why::TooLarge, "too-large"),
    (Why::Discipline, "discipline"),
    (Why::Lost, "lost"),
    (Why::Rule, "rule"),
    (Why::Unmatched, "unmatched"),
    (Why::Policy, "policy"),
    (Why::Changed, "changed"),
];

/// Why a packet was lost, in a word: `queue-full`.
pub fn word(why: Why) -> &'static str {
    WHYS.iter().find(|(other, _)| *other == why).map_or("", |(_, name)| name)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Sent { start, end, due } => write!(f, "start={} end={} due={}", start.0, end.0, due.0),
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
    fn parse(comment: &str, way: u32) -> Option<Taken> {
        let field = |name: &str| {
            let words = comment.split_ascii_whitespace();
            words.filter_map(|w| w.split_once('=')).find(|(n, _)| *n == name).map(|(_, value)| value)
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

/// An option's length is a 16-bit number.
const LONGEST_COMMENT: usize = 60_000;
/// What the section says of who wrote it: this, and the version of the format.
const OURS: &str = "falaj, journal ";
const VERSION: u32 = 2;
/// Before there were versions.
const FIRST: &str = "falaj";
/// Of each packet so many bytes are kept: all headers.
const KEPT: usize = 128;

/// Writes a capture.
pub struct Writer<W: Write> {
    file: PcapNgWriter<W>,
    /// The engine's time zero, since 1970.
    zero: Duration,
}

impl<W: Write> Writer<W> {
    /// Begins a capture of this scenario's link; `ways` are the names of the ways in.
    ///
    /// # Errors
    /// What the file says.
    pub fn new(to: W, scenario: &str, ways: &[&str], zero: Duration) -> std::io::Result<Writer<W>> {
        let mut options = vec![SectionHeaderOption::UserApplication(format!("{OURS}{VERSION}").into())];
        options.extend(pieces(scenario).map(|piece| SectionHeaderOption::Comment(piece.to_owned().into())));
        let section = SectionHeaderBlock { options, ..SectionHeaderBlock::default() };
        let mut file = PcapNgWriter::with_section_header(to, section).map_err(io)?;
        for way in ways {
            let name = InterfaceDescriptionOption::IfName((*way).into());
            let options = vec![name, InterfaceDescriptionOption::IfTsResol(9)];
            let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: KEPT as u32, options };
            file.write_pcapng_block(interface).map_err(io)?;
        }
        Ok(Writer { file, zero })
    }

    /// Writes a packet; of the frame its beginning.
    ///
    /// # Errors
    /// What the file says.
    pub fn write(&mut self, taken: &Taken, frame: &[u8]) -> std::io::Result<()> {
        let block = EnhancedPacketBlock {
            interface_id: taken.way,
            timestamp: self.zero + Duration::from_nanos(taken.arrival.0),
            original_len: frame.len() as u32,
            data: frame[..frame.len().min(KEPT)].into(),
            options: vec![EnhancedPacketOption::Comment(taken.to_string().into())],
        };
        self.file.write_pcapng_block(block).map_err(io)?;
        Ok(())
    }

    /// Writes a change of the link.
    ///
    /// # Errors
    /// What the file says.
    pub fn change(&mut self, change: &Change) -> std::io::Result<()> {
        let journal_entry = change.entry(self.zero + Duration::from_nanos(change.at.0)).into();
        self.file.write_pcapng_block(SystemdJournalExportBlock { journal_entry }).map_err(io)?;
        Ok(())
    }

    /// Where it is written to.
    pub fn sink(&mut self) -> &mut W {
        self.file.get_mut()
    }
}

/// A text in pieces that fit an option.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let at = (0..=rest.len().min(LONGEST_COMMENT)).rev().find(|&at| rest.is_char_boundary(at));
        let (piece, after) = rest.split_at(at.unwrap_or(0));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn io(error: PcapError) -> std::io::Error {
    match error {
        PcapError::IoError(error) => error,
        error => std::io::Error::other(error),
    }
}

/// A capture that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The scenario, where falaj has written it.
    pub scenario: Option<String>,
    /// Its packets in order of arrival.
    pub packets: Vec<Packet>,
    /// Changes of the link between them, in order.
    pub changes: Vec<Change>,
    /// Where it breaks off, if it does, as where its writer was killed.
    pub broken: Option<Broken>,
}

/// The end of what can be read of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The byte from which on nothing can be read, of so many.
    pub at: usize,
    /// Of so many.
    pub of: usize,
    /// What is wrong there; `None` if it is cut off there.
    pub why: Option<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { at, of, why } = self;
        match why {
            None => write!(f, "it was cut off: what begins at byte {at} is not whole, and the file ends at byte {of}"),
            Some(why) => write!(f, "what stands at byte {at} of {of} cannot be read: {why}"),
        }
    }
}

/// A packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The interface that it came in by.
    pub way: u32,
    /// When, in nanoseconds since 1970.
    pub at: u64,
    /// Its frame's length.
    pub length: u32,
    /// The beginning of its frame.
    pub frame: Vec<u8>,
    /// What falaj says of it.
    pub taken: Option<Taken>,
}

/// Why a capture cannot be read.
#[derive(Debug)]
pub enum Unreadable {
    /// It is neither pcap nor pcapng.
    Malformed(PcapError),
    /// Its packets are no Ethernet frames.
    NotEthernet(DataLink),
    /// It is cut off before anything can be read of it.
    CutOff(usize),
    /// It has more bytes than [`LARGEST`].
    TooLarge,
    /// A later falaj wrote it, with this version of the format.
    Later(u32),
}

/// A capture of more bytes is not read: its packets are kept in memory, and what is known of each takes several times as much.
pub const LARGEST: u64 = 4 << 30;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Malformed(why) => write!(f, "this is neither pcap nor pcapng: {why}"),
            Unreadable::NotEthernet(kind) => {
                write!(f, "its packets are of link type {kind:?}; what can be read are Ethernet frames")
            }
            Unreadable::CutOff(length) => {
                write!(f, "it was cut off within its header, at byte {length}; copy it anew, or capture once more")
            }
            Unreadable::TooLarge => {
                let most = LARGEST >> 30;
                write!(
                    f,
                    "it has more than {most} GiB, which are read at most; take a part: `editcap -r FILE PART 1-5000000`"
                )
            }
            Unreadable::Later(version) => write!(
                f,
                "it was written by a later falaj, as a journal of version {version}; this one reads up to {VERSION}: take the falaj that wrote it"
            ),
        }
    }
}
impl std::error::Error for Unreadable {}

/// Reads a capture, whoever has written it, as far as it goes.
///
/// # Errors
/// It is no capture of Ethernet frames.
pub fn read(from: impl Read) -> Result<Capture, Unreadable> {
    of_at_most(from, LARGEST)
}

fn of_at_most(from: impl Read, largest: u64) -> Result<Capture, Unreadable> {
    let mut bytes = Vec::new();
    from.take(largest + 1).read_to_end(&mut bytes).map_err(|e| Unreadable::Malformed(PcapError::IoError(e)))?;
    if bytes.len() as u64 > largest {
        return Err(Unreadable::TooLarge);
    }
    let mut capture = Capture::default();
    let read = if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) { pcapng } else { pcap };
    read(&bytes, &mut capture)?;
    // Ours are written when they are decided; what counts is when they came.
    capture.packets.sort_by_key(|p| (p.taken.map_or(u64::MAX, |t| t.number), p.at));
    capture.changes.sort_by_key(|change| change.number);
    Ok(capture)
}

/// The file's header could not be read.
fn beginning(error: PcapError, length: usize) -> Unreadable {
    match error {
        PcapError::IncompleteBuffer if length > 0 => Unreadable::CutOff(length),
        error => Unreadable::Malformed(error),
    }
}

/// Nothing more can be read. What stands there says at this place how long it is, and that beside so many bytes more.
fn broken(
    error: &PcapError,
    (at, beside): (usize, usize),
    order: Endianness,
    rest: &[u8],
    of: usize,
) -> Option<Broken> {
    let length = rest.get(at..).and_then(<[u8]>::first_chunk).map(|length| match order {
        Endianness::Big => u32::from_be_bytes(*length),
        Endianness::Little => u32::from_le_bytes(*length),
    });
    let cut_off = length.is_none_or(|length| length as usize > rest.len().saturating_sub(beside));
    let why = (!cut_off).then(|| match error {
        PcapError::IncompleteBuffer => "its length is not that of what is in it".to_owned(),
        error => error.to_string(),
    });
    Some(Broken { at: of - rest.len(), of, why })
}

fn pcapng(bytes: &[u8], capture: &mut Capture) -> Result<(), Unreadable> {
    let (mut rest, mut file) = PcapNgParser::new(bytes).map_err(|error| beginning(error, bytes.len()))?;
    let scenario: String = file.section().options.iter().filter_map(comment).collect();
    let version = file.section().options.iter().find_map(version);
    if let Some(later) = version.filter(|version| *version > VERSION) {
        return Err(Unreadable::Later(later));
    }
    capture.scenario = Some(scenario).filter(|text| !text.is_empty() && version.is_some());
    // Of each interface, the power of ten of its clock.
    let mut clocks: Vec<u8> = Vec::new();
    while !rest.is_empty() {
        let (behind, block) = match file.next_block(rest) {
            Ok(read) => read,
            Err(error) => {
                capture.broken = broken(&error, (4, 0), file.section().endianness, rest, bytes.len());
                break;
            }
        };
        rest = behind;
        match block {
            Block::SectionHeader(_) => clocks.clear(),
            Block::InterfaceDescription(interface) => {
                if interface.linktype != DataLink::ETHERNET {
                    return Err(Unreadable::NotEthernet(interface.linktype));
                }
                let resolution = |option: &InterfaceDescriptionOption| match option {
                    InterfaceDescriptionOption::IfTsResol(power) => Some(*power),
                    _ => None,
                };
                clocks.push(interface.options.iter().find_map(resolution).unwrap_or(6));
            }
            Block::EnhancedPacket(packet) => {
                // The library takes every clock for one of nanoseconds.
                let ticks = packet.timestamp.as_nanos() as u64;
                let clock = clocks.get(packet.interface_id as usize).copied().unwrap_or(9);
                let comment = packet.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Comment(text) => Some(text),
                    _ => None,
                });
                capture.packets.push(Packet {
                    way: packet.interface_id,
                    at: nanos(ticks, clock),
                    length: packet.original_len,
                    frame: packet.data.to_vec(),
                    taken: comment.and_then(|text| Taken::parse(text, packet.interface_id)),
                });
            }
            Block::SystemdJournalExport(entry) if version.is_some() => {
                capture.changes.extend(Change::parse(&entry.journal_entry));
            }
            _ => {}
        }
    }
    Ok(())
}

fn comment<'a>(option: &'a SectionHeaderOption<'_>) -> Option<&'a str> {
    match option {
        SectionHeaderOption::Comment(text) => Some(text),
        _ => None,
    }
}

/// Which version of the format, if falaj has written it.
fn version(option: &SectionHeaderOption<'_>) -> Option<u32> {
    match option {
        SectionHeaderOption::UserApplication(name) if name == FIRST => Some(1),
        SectionHeaderOption::UserApplication(name) => name.strip_prefix(OURS)?.parse().ok(),
        _ => None,
    }
}

/// Ticks of a clock of 10^-power seconds; or, with its highest bit, of 2^-power.
fn nanos(ticks: u64, power: u8) -> u64 {
    let ticks = u128::from(ticks);
    let binary = u32::from(power & 0x7f);
    let nanos = match power {
        0..=9 => ticks * 10_u128.pow(9 - u32::from(power)),
        10..=38 => ticks / 10_u128.pow(u32::from(power) - 9),
        0x80..=0xbf => (ticks * 1_000_000_000) >> binary,
        _ => 0,
    };
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

fn pcap(bytes: &[u8], capture: &mut Capture) -> Result<(), Unreadable> {
    let (mut rest, file) = PcapParser::new(bytes).map_err(|error| beginning(error, bytes.len()))?;
    if file.header().datalink != DataLink::ETHERNET {
        return Err(Unreadable::NotEthernet(file.header().datalink));
    }
    while !rest.is_empty() {
        let (behind, packet) = match file.next_packet(rest) {
            Ok(read) => read,
            Err(error) => {
                capture.broken = broken(&error, (8, 16), file.header().endianness, rest, bytes.len());
                break;
            }
        };
        rest = behind;
        capture.packets.push(Packet {
            way: 0,
            at: u64::try_from(packet.timestamp.as_nanos()).unwrap_or(u64::MAX),
            length: packet.orig_len,
            frame: packet.data.to_vec(),
            taken: None,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken() -> Vec<Taken> {
        let sent = Verdict::Sent { start: Time(2_000), end: Time(3_211), due: Time(u64::MAX - 1) };
        let dropped = WHYS.map(|(why, _)| Verdict::Dropped(why));
        let verdicts = [sent, Verdict::Waiting].into_iter().chain(dropped);
        let one = |(i, verdict): (usize, Verdict)| {
            let number = i as u64;
            let (length, part) = ((i % 3 < 2).then_some(1500), (i % 3 == 0).then_some(i as u32));
            Taken {
                number,
                way: i as u32 % 2,
                flow: 7,
                bytes: 1514,
                length,
                part,
                arrival: Time(1000 + number),
                verdict,
            }
        };
        verdicts.enumerate().map(one).collect()
    }

    fn written(scenario: &str, taken: &[Taken]) -> Vec<u8> {
        let mut file = Vec::new();
        let zero = Duration::from_secs(1_800_000_000);
        let mut writer = Writer::new(&mut file, scenario, &["near", "far"], zero).expect("memory");
        changes(scenario).iter().rev().for_each(|change| writer.change(change).expect("memory"));
        taken.iter().for_each(|t| writer.write(t, &[t.number as u8; 200]).expect("memory"));
        file
    }

    fn changes(scenario: &str) -> Vec<Change> {
        let wanted = |n: usize| Wanted { what: "x".repeat(n), scenario: scenario.repeat(n), ..Wanted::default() };
        (0..4).map(|n| Change { number: n, at: Time(n), behind: n, wanted: wanted(n as usize) }).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let long = "# a comment\n".repeat(20_000);
        for scenario in ["", "[link.l]\nrate = \"1mbit\"\n", &long] {
            let mut out_of_order = taken();
            out_of_order.reverse();
            let capture = read(&written(scenario, &out_of_order)[..]).expect("what was just written");
            assert_eq!((capture.scenario.as_deref().unwrap_or(""), capture.broken), (scenario, None));
            assert_eq!(capture.changes, changes(scenario));
            let packets = capture.packets;
            assert_eq!(packets.iter().filter_map(|p| p.taken).collect::<Vec<_>>(), taken());
            assert!(packets.iter().all(|p| p.frame == [p.taken.expect("ours").number as u8; KEPT] && p.length == 200));
            assert_eq!(packets[1].at, 1_800_000_000_000_001_001);
        }
    }

    #[test]
    fn clocks_of_other_programs() {
        assert_eq!([nanos(5, 6), nanos(5, 9), nanos(5, 0), nanos(1500, 12)], [5000, 5, 5_000_000_000, 1]);
        assert_eq!([nanos(1 << 32, 0x80 | 32), nanos(u64::MAX, 0), nanos(1, 255)], [1_000_000_000, u64::MAX, 0]);
    }

    #[test]
    fn an_ordinary_pcap() {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
        for i in 0_u8..3 {
            file.extend([10, 0, 0, 0, i, 0, 0, 0, 4, 0, 0, 0, 0xdc, 5, 0, 0, i, i, i, i]);
        }
        let capture = read(&file[..]).expect("a pcap");
        assert_eq!(capture.scenario, None);
        let of = |p: &Packet| (p.at, p.length, p.frame.clone());
        assert_eq!(of(&capture.packets[2]), (10_000_002_000, 1500, vec![2; 4]));
        file[20] = 101;
        assert!(matches!(read(&file[..]), Err(Unreadable::NotEthernet(DataLink::RAW))));
    }

    #[test]
    fn versions_are_told_apart() {
        let text = "[link.l]\n";
        let now = written(text, &taken());
        let as_of = |version: &str| {
            let mark = format!("{OURS}{VERSION}");
            let at = now.windows(mark.len()).position(|w| w == mark.as_bytes()).expect("it is marked");
            let mut other = now.clone();
            // As long as it was, so that no length before it is wrong.
            let version = format!("{version:\0<length$}", length = mark.len());
            other[at..at + mark.len()].copy_from_slice(version.as_bytes());
            read(&other[..])
        };
        assert!(matches!(as_of("falaj, journal 3"), Err(Unreadable::Later(3))));
        let said = as_of("falaj, journal 9").expect_err("later").to_string();
        assert!(said.contains("version 9") && said.contains("up to 2"), "{said}");
        assert_eq!(as_of("another program!").expect("a capture").scenario, None);
        assert_eq!([FIRST, "falaj, journal 2", "falaj 2"].map(|name| version(&of(name))), [Some(1), Some(2), None]);
        fn of(name: &str) -> SectionHeaderOption<'_> {
            SectionHeaderOption::UserApplication(name.into())
        }
    }

    #[test]
    fn what_is_cut_off_says_where() {
        let good = written("[link.l]\n", &taken());
        let at = |length: usize| {
            read(&good[..length]).map(|capture| capture.broken.map(|broken| (broken.at, broken.of, broken.why)))
        };
        let last = good.len() - 1;
        let (begin, end, why) = at(last).expect("its beginning is good").expect("it is cut off");
        assert!(begin < last && end == last && why.is_none(), "{begin} {end} {why:?}");
        assert!(matches!(at(20), Err(Unreadable::CutOff(20))));
        let length = good.len() as u64;
        assert!(of_at_most(&good[..], length).is_ok());
        let said = of_at_most(&good[..], length - 1).expect_err("a byte too many").to_string();
        assert!(said.contains("more than 4 GiB") && said.contains("editcap -r"), "{said}");
        let mut bad = good.clone();
        bad[begin + 4..begin + 8].copy_from_slice(&13_u32.to_be_bytes());
        let broken = read(&bad[..]).expect("its beginning is good").broken.expect("a length that is none");
        assert_eq!((broken.at, broken.of), (begin, good.len()));
        assert!(broken.to_string().starts_with(&format!("what stands at byte {begin} of {}", good.len())), "{broken}");
    }

    /// Whatever the file holds, reading it ends without a panic.
    #[test]
    fn files_of_any_kind() {
        use falaj_engine::chance::Chance;
        let good = written("[link.l]\n", &taken());
        let (chance, mut drawn) = (Chance::new(1, 0, 0), 0);
        let mut draw = |below: usize| {
            drawn += 1;
            (chance.draw(drawn) % below as u64) as usize
        };
        for _ in 0..3000 {
            let mut bad = good.clone();
            for _ in 0..=draw(4) {
                let at = draw(bad.len());
                bad[at] = draw(256) as u8;
            }
            bad.truncate(draw(2 * good.len()));
            let _ = read(&bad[..]);
        }
        let whole = read(&good[..]).expect("what was just written").packets.len();
        for length in good.len() - 300..good.len() {
            let read = read(&good[..length]).expect("its beginning is good");
            assert!(read.packets.len() < whole, "{length} of {}", good.len());
        }
    }
}
