//! Reading a capture, whoever has written it.

use super::{Change, FIRST, OURS, Room, Taken, VERSION};
use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::section_header::SectionHeaderOption;
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{DataLink, Endianness, PcapError};
use std::fmt;
use std::io::Read;

/// A capture that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The scenario, where falaj has written it.
    pub scenario: Option<String>,
    /// Its packets in order of arrival.
    pub packets: Vec<Packet>,
    /// Changes of the link between them, in order.
    pub changes: Vec<Change>,
    /// What ports said that pace the link, in order.
    pub rooms: Vec<Room>,
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
            None => write!(
                f,
                "it was cut off: what begins at byte {at} is not whole, and the file ends at byte {of}"
            ),
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

/// A capture of more bytes is not read: its packets are kept in memory, and what is known of each
/// takes several times as much.
pub const LARGEST: u64 = 4 << 30;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Malformed(why) => write!(f, "this is neither pcap nor pcapng: {why}"),
            Unreadable::NotEthernet(kind) => {
                write!(
                    f,
                    "its packets are of link type {kind:?}; what can be read are Ethernet frames"
                )
            }
            Unreadable::CutOff(length) => {
                write!(
                    f,
                    "it was cut off within its header, at byte {length}; copy it anew, or capture once more"
                )
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

pub(super) fn of_at_most(from: impl Read, largest: u64) -> Result<Capture, Unreadable> {
    let mut bytes = Vec::new();
    from.take(largest + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Unreadable::Malformed(PcapError::IoError(e)))?;
    if bytes.len() as u64 > largest {
        return Err(Unreadable::TooLarge);
    }
    let mut capture = Capture::default();
    let read = if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) { pcapng } else { pcap };
    read(&bytes, &mut capture)?;
    // Ours are written when they are decided; what counts is when they came.
    capture.packets.sort_by_key(|p| (p.taken.map_or(u64::MAX, |t| t.number), p.at));
    capture.changes.sort_by_key(|change| change.number);
    capture.rooms.sort_by_key(|room| room.number);
    Ok(capture)
}

/// The file's header could not be read.
fn beginning(error: PcapError, length: usize) -> Unreadable {
    match error {
        PcapError::IncompleteBuffer if length > 0 => Unreadable::CutOff(length),
        error => Unreadable::Malformed(error),
    }
}

/// Nothing more can be read. What stands there says at this place how long it is, and that beside
/// so many bytes more.
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
    let (mut rest, mut file) =
        PcapNgParser::new(bytes).map_err(|error| beginning(error, bytes.len()))?;
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
                capture.broken =
                    broken(&error, (4, 0), file.section().endianness, rest, bytes.len());
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
                capture.rooms.extend(Room::parse(&entry.journal_entry));
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
pub(super) fn version(option: &SectionHeaderOption<'_>) -> Option<u32> {
    match option {
        SectionHeaderOption::UserApplication(name) if name == FIRST => Some(1),
        SectionHeaderOption::UserApplication(name) => name.strip_prefix(OURS)?.parse().ok(),
        _ => None,
    }
}

/// Ticks of a clock of 10^-power seconds; or, with its highest bit, of 2^-power.
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

fn pcap(bytes: &[u8], capture: &mut Capture) -> Result<(), Unreadable> {
    let (mut rest, file) = PcapParser::new(bytes).map_err(|error| beginning(error, bytes.len()))?;
    if file.header().datalink != DataLink::ETHERNET {
        return Err(Unreadable::NotEthernet(file.header().datalink));
    }
    while !rest.is_empty() {
        let (behind, packet) = match file.next_packet(rest) {
            Ok(read) => read,
            Err(error) => {
                capture.broken =
                    broken(&error, (8, 16), file.header().endianness, rest, bytes.len());
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
