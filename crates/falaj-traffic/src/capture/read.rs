//! Reads captures of falaj and of other programs.

use super::link_type::LinkType;
use super::zstd;
use super::{BackpressureReport, Change, FIRST, OURS, Taken, VERSION};
use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::section_header::SectionHeaderOption;
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};
use std::fmt;
use std::io::{Cursor, Read};

/// A capture that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The scenario, if falaj wrote the capture.
    pub scenario: Option<String>,
    /// The packets in order of arrival.
    pub packets: Vec<Packet>,
    /// The packets' frames, one after the other.
    frames: Vec<u8>,
    /// Changes of the link between the packets, in order.
    pub changes: Vec<Change>,
    /// Reports of the ports that pace the link, in order.
    pub rooms: Vec<BackpressureReport>,
    /// The position at which the file breaks off, if it is incomplete, for example because its
    /// writer was killed.
    pub broken: Option<Broken>,
}

/// The position up to which a capture can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The offset in bytes up to which the file was read.
    pub at: usize,
    /// The length of the file in bytes.
    pub of: usize,
    /// The error at this position; `None` if the file is cut off there.
    pub why: Option<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { at, of, why } = self;
        match why {
            None => write!(
                f,
                "the file was cut off: the block that begins at byte {at} is not complete, and the \
                 file ends at byte {of}"
            ),
            Some(why) => write!(f, "the block at byte {at} of {of} cannot be read: {why}"),
        }
    }
}

/// A packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Index of the interface at which the packet arrived.
    pub way: u32,
    /// Time of arrival, in nanoseconds since 1970.
    pub at: u64,
    /// Length of its frame in bytes.
    pub length: u32,
    /// Offset of the captured part of its frame in `frames`, and its length; see
    /// [`Capture::frame`].
    frame: (usize, u32),
    /// The engine's input and verdict, if falaj wrote them.
    pub taken: Option<Box<Taken>>,
}

impl Capture {
    /// The captured beginning of a packet's frame.
    pub fn frame(&self, packet: &Packet) -> &[u8] {
        let (from, length) = packet.frame;
        self.frames.get(from..from + length as usize).unwrap_or_default()
    }
}

/// The reason why a capture cannot be read.
#[derive(Debug)]
pub enum Unreadable {
    /// The file is neither pcap nor pcapng.
    Malformed(PcapError),
    /// Its packets are from a type of link that falaj cannot read.
    UnknownLink(DataLink),
    /// The file is compressed by the program with this name, and not by gzip or zstd.
    Packed(&'static str),
    /// The file is cut off before anything can be read. Has its length in bytes.
    CutOff(usize),
    /// The file is larger than [`LARGEST`].
    TooLarge,
    /// A later version of falaj wrote it, with this version of the format.
    Later(u32),
}

/// Maximum size of a capture in bytes: the data for a replay are kept in memory.
pub const LARGEST: u64 = 4 << 30;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Malformed(why) => write!(f, "this is neither pcap nor pcapng: {why}"),
            Unreadable::UnknownLink(kind) => {
                write!(
                    f,
                    "its packets are of link type {kind:?}; falaj reads Ethernet, raw IP, \
                     loopback, Linux's cooked headers, PPP and 802.11"
                )
            }
            Unreadable::Packed(by) => {
                write!(
                    f,
                    "the file is compressed: decompress it first by `{by} -d FILE`; files \
                     compressed by gzip or zstd can be read directly"
                )
            }
            Unreadable::CutOff(length) => {
                write!(
                    f,
                    "the file was cut off within its header, at byte {length}; copy it again, or \
                     make a new capture"
                )
            }
            Unreadable::TooLarge => {
                let most = LARGEST >> 30;
                write!(
                    f,
                    "the file is larger than {most} GiB, the maximum; extract a part: `editcap -r \
                     FILE PART 1-5000000`"
                )
            }
            Unreadable::Later(version) => write!(
                f,
                "a later falaj wrote this file, with format version {version}; this falaj reads \
                 versions up to {VERSION}: use the falaj that wrote it"
            ),
        }
    }
}
impl std::error::Error for Unreadable {}

/// Reads a capture of falaj or another program, up to the position at which it breaks off. Reading
/// takes about as much memory as the file has bytes. In a capture of falaj, about half of that
/// memory is for the engine's inputs and verdicts.
///
/// # Errors
/// The file is not a capture, or its packets are from a type of link that falaj cannot read.
pub fn read(from: impl Read) -> Result<Capture, Unreadable> {
    of_at_most(from, LARGEST)
}

pub(super) fn of_at_most(from: impl Read, largest: u64) -> Result<Capture, Unreadable> {
    let mut capture = Capture::default();
    let broken = scan(from, largest, &mut |item| match item {
        CaptureItem::Scenario(text) => capture.scenario = Some(text),
        CaptureItem::Packet(arrival) => {
            let from = capture.frames.len();
            capture.frames.extend_from_slice(arrival.frame);
            capture.packets.push(Packet {
                way: arrival.way,
                at: arrival.at,
                length: arrival.length,
                frame: (from, arrival.frame.len() as u32),
                taken: arrival.taken().map(Box::new),
            });
        }
        CaptureItem::Entry(entry) => {
            capture.changes.extend(Change::parse(entry));
            capture.rooms.extend(BackpressureReport::parse(entry));
        }
    })?;
    capture.broken = broken;
    // falaj writes a packet when the engine has decided on it. Here the packets are sorted by
    // arrival.
    capture.packets.sort_by_key(|p| (p.taken.as_ref().map_or(u64::MAX, |t| t.number), p.at));
    capture.changes.sort_by_key(|change| change.number);
    capture.rooms.sort_by_key(|room| room.number);
    Ok(capture)
}

/// Reads the packets of a capture of falaj or another program, in the order of the file. Only a
/// piece of the file is in memory at a time: some 256 KiB, or more if a block is longer. Returns
/// the position at which the file breaks off, if it is incomplete.
///
/// # Errors
/// The file is not a capture, or its packets are from a type of link that falaj cannot read.
pub fn arrivals(
    from: impl Read,
    mut visit: impl FnMut(&CapturedPacket<'_>),
) -> Result<Option<Broken>, Unreadable> {
    scan(from, LARGEST, &mut |item| {
        if let CaptureItem::Packet(arrival) = item {
            visit(&arrival);
        }
    })
}

/// A packet as it is in the file.
#[derive(Clone, Copy, Debug)]
pub struct CapturedPacket<'a> {
    /// Index of the interface at which the packet arrived.
    pub way: u32,
    /// Time of arrival, in nanoseconds since 1970.
    pub at: u64,
    /// Length of its frame in bytes.
    pub length: u32,
    /// The captured beginning of its frame.
    pub frame: &'a [u8],
    comment: Option<&'a str>,
}

impl CapturedPacket<'_> {
    /// The engine's input and verdict, if falaj wrote them.
    pub fn taken(&self) -> Option<Taken> {
        Taken::parse(self.comment?, self.way)
    }
}

/// An item of a capture.
enum CaptureItem<'a> {
    Scenario(String),
    Packet(CapturedPacket<'a>),
    /// A log entry of a capture that falaj wrote.
    Entry(&'a [u8]),
}

/// A file that is read piece by piece. Only the part that is not parsed yet is in memory.
struct Pieces<R> {
    from: R,
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that are parsed.
    parsed: usize,
    /// Number of bytes of the file read so far, and the maximum allowed.
    read: u64,
    largest: u64,
    ended: bool,
    /// True if the file is decompressed while it is read, which may fail in the middle.
    packed: bool,
    failed: Option<String>,
}

impl<R: Read> Pieces<R> {
    /// Minimum number of bytes read at once.
    const PIECE: usize = 256 << 10;

    fn new(from: R, largest: u64, packed: bool) -> Result<Pieces<R>, Unreadable> {
        let mut pieces = Pieces {
            from,
            buffer: Vec::new(),
            parsed: 0,
            read: 0,
            largest,
            ended: false,
            packed,
            failed: None,
        };
        pieces.more()?;
        Ok(pieces)
    }

    /// The bytes that are read but not parsed yet.
    fn rest(&self) -> &[u8] {
        &self.buffer[self.parsed..]
    }

    /// Marks all but the last `left` bytes of the buffer as parsed.
    fn parsed_up_to(&mut self, left: usize) {
        self.parsed = self.buffer.len() - left;
    }

    /// The offset in the file at which the unparsed rest begins.
    fn at(&self) -> usize {
        self.read as usize - self.rest().len()
    }

    /// Reads as many bytes as the unparsed rest has, so that the rest doubles in size, but at least
    /// [`PIECE`](Pieces::PIECE) bytes.
    fn more(&mut self) -> Result<(), Unreadable> {
        self.buffer.drain(..self.parsed);
        self.parsed = 0;
        let wanted = (self.buffer.len().max(Self::PIECE) as u64).min(self.largest + 1 - self.read);
        let before = self.buffer.len();
        match self.from.by_ref().take(wanted).read_to_end(&mut self.buffer) {
            Ok(_) => {}
            Err(error) if self.packed => self.failed = Some(error.to_string()),
            Err(error) => return Err(Unreadable::Malformed(PcapError::IoError(error))),
        }
        let read = (self.buffer.len() - before) as u64;
        self.read += read;
        self.ended = read < wanted || self.failed.is_some();
        if self.read > self.largest { Err(Unreadable::TooLarge) } else { Ok(()) }
    }

    /// Returns the length of the file. Reads the file to its end, without keeping its contents.
    fn length(&mut self) -> Result<usize, Unreadable> {
        while !self.ended {
            self.parsed_up_to(0);
            self.more()?;
        }
        Ok(self.read as usize)
    }

    /// Handles the end of the file, which is between two blocks. Reports an error if decompression
    /// failed.
    fn end(&mut self) -> Result<Option<Broken>, Unreadable> {
        match self.failed.clone() {
            Some(why) => self.breaks_off(Some(format!("it cannot be unpacked: {why}"))),
            None => Ok(None),
        }
    }

    /// Reports that nothing more can be read. `why` is the reason, or `None` if the file is cut
    /// off.
    fn breaks_off(&mut self, why: Option<String>) -> Result<Option<Broken>, Unreadable> {
        let at = self.at();
        Ok(Some(Broken { at, of: self.length()?, why }))
    }

    /// Handles a block that cannot be parsed. If more bytes may complete the block, reads them;
    /// otherwise reports the position at which the file breaks off. The block has its own length at
    /// offset `at`; this length does not include `beside` bytes.
    fn unparsed(
        &mut self,
        error: &PcapError,
        (at, beside): (usize, usize),
        order: Endianness,
    ) -> Result<Option<Broken>, Unreadable> {
        let rest = self.rest();
        let length = rest.get(at..).and_then(<[u8]>::first_chunk).map(|length| match order {
            Endianness::Big => u32::from_be_bytes(*length),
            Endianness::Little => u32::from_le_bytes(*length),
        });
        let whole = rest.len().saturating_sub(beside);
        let cut_off = length.is_none_or(|length| length as usize > whole);
        match (cut_off, error) {
            (true, PcapError::IncompleteBuffer) if !self.ended => {
                self.more()?;
                Ok(None)
            }
            (true, _) => self.breaks_off(None),
            (false, PcapError::IncompleteBuffer) => {
                self.breaks_off(Some("its length does not match its contents".to_owned()))
            }
            (false, error) => self.breaks_off(Some(error.to_string())),
        }
    }
}

fn scan(
    mut from: impl Read,
    largest: u64,
    visit: &mut dyn FnMut(CaptureItem<'_>),
) -> Result<Option<Broken>, Unreadable> {
    const MAGIC: u64 = 6;
    let mut first = Vec::new();
    let read = from.by_ref().take(MAGIC).read_to_end(&mut first);
    read.map_err(|error| Unreadable::Malformed(PcapError::IoError(error)))?;
    if let Some(by) = packed_by(&first) {
        return Err(Unreadable::Packed(by));
    }
    let (gzip, zstd) = (first.starts_with(&[0x1f, 0x8b]), zstd::begins(&first));
    let all = Cursor::new(first).chain(from);
    if gzip {
        contents(Pieces::new(flate2::read::MultiGzDecoder::new(all), largest, true)?, visit)
    } else if zstd {
        contents(Pieces::new(zstd::ZstdFrames::new(all), largest, true)?, visit)
    } else {
        contents(Pieces::new(all, largest, false)?, visit)
    }
}

/// Returns the name of the program that compressed a file, if it is neither gzip nor zstd.
fn packed_by(first: &[u8]) -> Option<&'static str> {
    const MAGIC: [(&[u8], &str); 2] =
        [(b"BZh", "bzip2"), (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz")];
    MAGIC.iter().find(|(magic, _)| first.starts_with(magic)).map(|(_, by)| *by)
}

fn contents<R: Read>(
    mut pieces: Pieces<R>,
    visit: &mut dyn FnMut(CaptureItem<'_>),
) -> Result<Option<Broken>, Unreadable> {
    let read = if pieces.rest().starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) { pcapng } else { pcap };
    read(&mut pieces, visit)
}

/// Passes a packet to `visit` as an Ethernet frame. The frame's length is the length of the whole
/// packet, even if fewer bytes were captured; it is never less than the captured bytes.
fn packet(
    visit: &mut dyn FnMut(CaptureItem<'_>),
    kind: LinkType,
    scratch: &mut Vec<u8>,
    packet: CapturedPacket<'_>,
) {
    let length = packet.length.max(packet.frame.len() as u32);
    let framed = kind.frame(packet.frame, length, scratch);
    let frame = if framed.is_some() { &scratch[..] } else { packet.frame };
    let length = framed.unwrap_or(length);
    visit(CaptureItem::Packet(CapturedPacket { length, frame, ..packet }));
}

/// Returns the error for a file whose header could not be read.
fn beginning(error: PcapError, length: usize) -> Unreadable {
    match error {
        PcapError::IncompleteBuffer if length > 0 => Unreadable::CutOff(length),
        error => Unreadable::Malformed(error),
    }
}

/// Returns true if the section header at the beginning of a file is not complete. The header gives
/// its own length, in the section's byte order.
fn is_longer_than_there_is(section: &[u8]) -> bool {
    let word = |at: usize| section.get(at..).and_then(<[u8]>::first_chunk).copied();
    let (Some(length), Some(magic)) = (word(4), word(8)) else { return true };
    let big = u32::from_be_bytes(magic) == 0x1a2b_3c4d;
    let length = if big { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) };
    length as usize > section.len()
}

/// Maximum number of interfaces of a section; each takes memory.
const INTERFACES: usize = 1 << 16;

fn pcapng<R: Read>(
    pieces: &mut Pieces<R>,
    visit: &mut dyn FnMut(CaptureItem<'_>),
) -> Result<Option<Broken>, Unreadable> {
    let mut file = loop {
        match PcapNgParser::new(pieces.rest()) {
            Ok((rest, file)) => {
                let left = rest.len();
                pieces.parsed_up_to(left);
                break file;
            }
            Err(PcapError::IncompleteBuffer)
                if !pieces.ended && is_longer_than_there_is(pieces.rest()) =>
            {
                pieces.more()?;
            }
            Err(error) => return Err(beginning(error, pieces.length()?)),
        }
    };
    let scenario: String = file.section().options.iter().filter_map(comment).collect();
    let version = file.section().options.iter().find_map(version);
    if let Some(later) = version.filter(|version| *version > VERSION) {
        return Err(Unreadable::Later(later));
    }
    if !scenario.is_empty() && version.is_some() {
        visit(CaptureItem::Scenario(scenario));
    }
    // For each interface: the resolution of its clock, its link type, and the maximum number of
    // captured bytes of a packet.
    let mut interfaces: Vec<(u8, LinkType, u32)> = Vec::new();
    let mut scratch = Vec::new();
    let mut last = 0;
    loop {
        if pieces.rest().is_empty() {
            if pieces.ended {
                return pieces.end();
            }
            pieces.more()?;
            continue;
        }
        let order = file.section().endianness;
        let (left, block) = match file.next_block(pieces.rest()) {
            Ok((rest, block)) => (rest.len(), block),
            Err(error) => match pieces.unparsed(&error, (4, 0), order)? {
                Some(broken) => return Ok(Some(broken)),
                None => continue,
            },
        };
        match block {
            Block::SectionHeader(_) => interfaces.clear(),
            Block::InterfaceDescription(interface) => {
                let kind = LinkType::of(interface.linktype)
                    .ok_or(Unreadable::UnknownLink(interface.linktype))?;
                let resolution = |option: &InterfaceDescriptionOption| match option {
                    InterfaceDescriptionOption::IfTsResol(power) => Some(*power),
                    _ => None,
                };
                let clock = interface.options.iter().find_map(resolution).unwrap_or(6);
                interfaces.push((clock, kind, interface.snaplen));
                if interfaces.len() > INTERFACES {
                    let why = format!("its section has more than {INTERFACES} interfaces");
                    return pieces.breaks_off(Some(why));
                }
            }
            Block::EnhancedPacket(block) => {
                // The library returns the number of ticks as if every clock counted nanoseconds.
                let ticks = block.timestamp.as_nanos() as u64;
                let of = interfaces.get(block.interface_id as usize);
                let (clock, kind, _) = of.copied().unwrap_or((9, LinkType::Ethernet, 0));
                last = nanos(ticks, clock);
                let comment = block.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Comment(text) => Some(&**text),
                    _ => None,
                });
                let captured = CapturedPacket {
                    way: block.interface_id,
                    at: last,
                    length: block.original_len,
                    frame: &block.data,
                    comment,
                };
                packet(visit, kind, &mut scratch, captured);
            }
            // Such a packet has no timestamp.
            Block::SimplePacket(block) => {
                let of = interfaces.first();
                let (_, kind, most) = of.copied().unwrap_or((9, LinkType::Ethernet, 0));
                let most =
                    if most == 0 { block.original_len } else { most.min(block.original_len) };
                let captured = CapturedPacket {
                    way: 0,
                    at: last,
                    length: block.original_len,
                    frame: &block.data[..block.data.len().min(most as usize)],
                    comment: None,
                };
                packet(visit, kind, &mut scratch, captured);
            }
            Block::SystemdJournalExport(entry) if version.is_some() => {
                visit(CaptureItem::Entry(&entry.journal_entry));
            }
            _ => {}
        }
        pieces.parsed_up_to(left);
    }
}

fn comment<'a>(option: &'a SectionHeaderOption<'_>) -> Option<&'a str> {
    match option {
        SectionHeaderOption::Comment(text) => Some(text),
        _ => None,
    }
}

/// Returns the version of the format, if falaj wrote the capture.
pub(super) fn version(option: &SectionHeaderOption<'_>) -> Option<u32> {
    match option {
        SectionHeaderOption::UserApplication(name) if name == FIRST => Some(1),
        SectionHeaderOption::UserApplication(name) => name.strip_prefix(OURS)?.parse().ok(),
        _ => None,
    }
}

/// Converts a number of ticks to nanoseconds. A tick is 10^-power seconds. If the highest bit of
/// `power` is set, it is 2^-n seconds, where `n` is the number in the other seven bits.
pub(super) fn nanos(ticks: u64, power: u8) -> u64 {
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

fn pcap<R: Read>(
    pieces: &mut Pieces<R>,
    visit: &mut dyn FnMut(CaptureItem<'_>),
) -> Result<Option<Broken>, Unreadable> {
    /// Maximum length of a file header.
    const HEADER: usize = 24;
    while pieces.rest().len() < HEADER && !pieces.ended {
        pieces.more()?;
    }
    let (left, file) = match PcapParser::new(pieces.rest()) {
        Ok((rest, file)) => (rest.len(), file),
        Err(error) => return Err(beginning(error, pieces.length()?)),
    };
    pieces.parsed_up_to(left);
    let header = file.header();
    let kind = LinkType::of(header.datalink).ok_or(Unreadable::UnknownLink(header.datalink))?;
    let tick = if header.ts_resolution == TsResolution::NanoSecond { 1 } else { 1_000 };
    let mut scratch = Vec::new();
    loop {
        if pieces.rest().is_empty() {
            if pieces.ended {
                return pieces.end();
            }
            pieces.more()?;
            continue;
        }
        // The lengths in a packet header are not compared with each other, because writers differ.
        let (left, raw) = match file.next_raw_packet(pieces.rest()) {
            Ok((rest, raw)) => (rest.len(), raw),
            Err(error) => match pieces.unparsed(&error, (8, 16), header.endianness)? {
                Some(broken) => return Ok(Some(broken)),
                None => continue,
            },
        };
        let seconds = u64::from(raw.ts_sec) * 1_000_000_000;
        let captured = CapturedPacket {
            way: 0,
            at: seconds + u64::from(raw.ts_frac) * tick,
            length: raw.orig_len,
            frame: &raw.data,
            comment: None,
        };
        packet(visit, kind, &mut scratch, captured);
        pieces.parsed_up_to(left);
    }
}
