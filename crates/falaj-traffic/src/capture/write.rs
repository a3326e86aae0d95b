//! Writes captures.

use super::{BackpressureReport, Change, OURS, Taken, VERSION};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::blocks::systemd_journal_export::SystemdJournalExportBlock;
use pcap_file::{DataLink, PcapError};
use std::io::Write;
use std::time::Duration;

/// Maximum length of one comment in bytes; the length of an option is a 16-bit number.
const LONGEST_COMMENT: usize = 60_000;
/// Number of bytes of each frame that are captured: enough for all headers.
pub(super) const KEPT: usize = 128;

/// A capture that is being written.
pub struct Writer<W: Write> {
    file: PcapNgWriter<W>,
    /// Time zero of the engine, as time since 1970.
    zero: Duration,
}

impl<W: Write> Writer<W> {
    /// Begins a capture of this scenario's link; `ways` are the names of the ingress directions.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn new(to: W, scenario: &str, ways: &[&str], zero: Duration) -> std::io::Result<Writer<W>> {
        let mut options =
            vec![SectionHeaderOption::UserApplication(format!("{OURS}{VERSION}").into())];
        options.extend(
            pieces(scenario).map(|piece| SectionHeaderOption::Comment(piece.to_owned().into())),
        );
        let section = SectionHeaderBlock { options, ..SectionHeaderBlock::default() };
        let mut file = PcapNgWriter::with_section_header(to, section).map_err(io)?;
        for way in ways {
            let name = InterfaceDescriptionOption::IfName((*way).into());
            let options = vec![name, InterfaceDescriptionOption::IfTsResol(9)];
            let interface = InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: KEPT as u32,
                options,
            };
            file.write_pcapng_block(interface).map_err(io)?;
        }
        Ok(Writer { file, zero })
    }

    /// Writes a packet with the beginning of its frame.
    ///
    /// # Errors
    /// Errors of writing.
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
    /// Errors of writing.
    pub fn change(&mut self, change: &Change) -> std::io::Result<()> {
        self.log(change.entry(self.zero + Duration::from_nanos(change.at.0)))
    }

    /// Writes a report of a port.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn room(&mut self, room: &BackpressureReport) -> std::io::Result<()> {
        self.log(room.entry(self.zero + Duration::from_nanos(room.at.0)))
    }

    fn log(&mut self, entry: Vec<u8>) -> std::io::Result<()> {
        let journal_entry = entry.into();
        self.file.write_pcapng_block(SystemdJournalExportBlock { journal_entry }).map_err(io)?;
        Ok(())
    }

    /// Returns the writer to which the capture is written.
    pub fn sink(&mut self) -> &mut W {
        self.file.get_mut()
    }
}

/// Splits a text into pieces that fit into an option.
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
