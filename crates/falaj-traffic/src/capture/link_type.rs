//! Captures of links other than Ethernet; their packets are converted to Ethernet frames.

use pcap_file::DataLink;

/// Length of an Ethernet header in bytes.
const ETHERNET: usize = 14;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// The EtherType of a frame without a known protocol, for example without data or with encrypted
/// data.
const NONE: u16 = 0;

/// The kind of header before an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkType {
    Ethernet,
    /// No header.
    Raw,
    /// Four bytes: the address family, in the byte order of the machine that wrote it.
    Null,
    Ppp,
    /// PPP over Ethernet, without the frame's header.
    Pppoe,
    /// Linux's "cooked" header, as in captures of the interface `any`.
    Sll,
    Sll2,
    Wifi,
    /// 802.11 after a header with measurements.
    Radiotap,
}

impl LinkType {
    pub(super) fn of(kind: DataLink) -> Option<LinkType> {
        Some(match kind {
            DataLink::ETHERNET => LinkType::Ethernet,
            // 12 and 14 are the numbers of raw IP on some systems.
            DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 | DataLink::Unknown(12 | 14) => {
                LinkType::Raw
            }
            DataLink::NULL | DataLink::LOOP => LinkType::Null,
            DataLink::PPP | DataLink::PPP_HDLC => LinkType::Ppp,
            DataLink::PPP_ETHER => LinkType::Pppoe,
            DataLink::LINUX_SLL => LinkType::Sll,
            DataLink::LINUX_SLL2 => LinkType::Sll2,
            DataLink::IEEE802_11 => LinkType::Wifi,
            DataLink::IEEE802_11_RADIOTAP => LinkType::Radiotap,
            _ => return None,
        })
    }

    /// Writes a packet, whose length on its link was `length`, into `frame` as an Ethernet frame.
    /// Returns the length that the frame had before the capture truncated it; `None` if the packet
    /// is an Ethernet frame already.
    pub(super) fn frame(self, data: &[u8], length: u32, frame: &mut Vec<u8>) -> Option<u32> {
        if self == LinkType::Ethernet {
            return None;
        }
        let Payload { protocol, source, header, trailer } = self.payload(data);
        let kept = data.get(header..).unwrap_or_default();
        frame.clear();
        frame.extend([0; 6]);
        frame.extend(source);
        frame.extend(protocol.to_be_bytes());
        frame.extend(kept);
        let bytes = length.saturating_sub((header + trailer) as u32);
        Some(bytes.max(kept.len().saturating_sub(trailer) as u32) + ETHERNET as u32)
    }

    fn payload(self, data: &[u8]) -> Payload {
        match self {
            LinkType::Ethernet | LinkType::Raw => Payload::behind(data, 0),
            LinkType::Null => Payload::behind(data, 4),
            LinkType::Ppp => ppp(data, 0),
            LinkType::Pppoe => ppp(data, 6),
            LinkType::Sll => cooked(data, 16, 14, 6),
            LinkType::Sll2 => cooked(data, 20, 0, 12),
            LinkType::Wifi => wifi(data, 0, false),
            LinkType::Radiotap => radiotap(data),
        }
    }
}

/// The part of a packet between its header and its trailer.
struct Payload {
    /// The EtherType of its protocol.
    protocol: u16,
    source: [u8; 6],
    /// Length of the header.
    header: usize,
    /// Length of the trailer.
    trailer: usize,
}

impl Payload {
    fn of(protocol: u16, header: usize) -> Payload {
        Payload { protocol, source: [0; 6], header, trailer: 0 }
    }

    /// An IP packet behind a header. The first four bits of an IP packet are its version.
    fn behind(data: &[u8], header: usize) -> Payload {
        let protocol = match data.get(header).map(|first| first >> 4) {
            Some(4) => IPV4,
            Some(6) => IPV6,
            _ => NONE,
        };
        Payload::of(protocol, header)
    }
}

fn be16(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| u16::from_be_bytes(*bytes))
}

/// Parses PPP (RFC 1661): an optional address byte and control byte, then the protocol in one or
/// two bytes. Also parses Cisco's HDLC, which has EtherTypes.
fn ppp(data: &[u8], mut at: usize) -> Payload {
    let Some(start) = be16(data, at) else { return Payload::of(NONE, at) };
    if matches!(start, 0x0f00 | 0x8f00) {
        return Payload::of(be16(data, at + 2).unwrap_or(NONE), at + 4);
    }
    if start == 0xff03 {
        at += 2;
    }
    let short = data.get(at).is_some_and(|first| first & 1 == 1);
    let (protocol, bytes) = match data.get(at) {
        Some(first) if short => (u16::from(*first), 1),
        _ => (be16(data, at).unwrap_or(0), 2),
    };
    let protocol = match protocol {
        0x21 => IPV4,
        0x57 => IPV6,
        _ => NONE,
    };
    Payload::of(protocol, at + bytes)
}

/// Parses Linux's cooked headers: an EtherType, and the sender's address.
fn cooked(data: &[u8], header: usize, protocol: usize, source: usize) -> Payload {
    let mut made = Payload::of(be16(data, protocol).unwrap_or(NONE), header);
    if let Some(address) = data.get(source..).and_then(<[u8]>::first_chunk) {
        made.source = *address;
    }
    made
}

/// Parses 802.11: a header of at least 24 bytes, then LLC and SNAP. `has_sum` is true if the frame
/// ends with a checksum.
fn wifi(data: &[u8], start: usize, has_sum: bool) -> Payload {
    let sum = if has_sum { 4 } else { 0 };
    let none = Payload { trailer: sum, ..Payload::of(NONE, start) };
    let Some(&[control, flags]) = data.get(start..).and_then(<[u8]>::first_chunk) else {
        return none;
    };
    let is_data = control & 0x0c == 0x08 && control & 0x40 == 0;
    let is_encrypted = flags & 0x40 != 0;
    if !is_data || is_encrypted {
        return none;
    }
    let relayed = if flags & 3 == 3 { 6 } else { 0 };
    let (quality, ordered) = match (control & 0x80 != 0, flags & 0x80 != 0) {
        (true, true) => (2, 4),
        (true, false) => (2, 0),
        _ => (0, 0),
    };
    let llc = start + 24 + relayed + quality + ordered;
    match data.get(llc..).and_then(<[u8]>::first_chunk) {
        Some([0xaa, 0xaa, 3, 0, 0, 0, high, low]) => Payload {
            protocol: u16::from_be_bytes([*high, *low]),
            source: data.get(start + 10..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; 6]),
            header: llc + 8,
            trailer: sum,
        },
        _ => none,
    }
}

/// Parses Radiotap: the header contains its own length, and a flag that is set if the frame ends
/// with its checksum.
fn radiotap(data: &[u8]) -> Payload {
    let Some(&[low, high]) = data.get(2..).and_then(<[u8]>::first_chunk) else {
        return Payload::of(NONE, 0);
    };
    let start = usize::from(u16::from_le_bytes([low, high]));
    let word =
        |at: usize| data.get(at..).and_then(<[u8]>::first_chunk).map(|w| u32::from_le_bytes(*w));
    let Some(present) = word(4) else { return Payload::of(NONE, start) };
    let mut at = 8;
    let mut last = present;
    while last >> 31 == 1 && at < start {
        last = word(at).unwrap_or(0);
        at += 4;
    }
    // A timestamp may precede the flags, aligned to eight bytes.
    if present & 1 != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    let has_sum = present & 2 != 0 && at < start && data.get(at).is_some_and(|f| f & 0x10 != 0);
    wifi(data, start, has_sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(kind: DataLink, data: &[u8], length: u32) -> (Vec<u8>, u32) {
        let mut frame = Vec::new();
        let length = LinkType::of(kind).expect("a known type").frame(data, length, &mut frame);
        (frame, length.expect("no Ethernet"))
    }

    #[test]
    fn packets_of_other_links_are_frames() {
        let four = [0x45, 0, 0, 60, 1];
        let six = [0x60, 1, 2];
        let with = |header: &[u8], packet: &[u8]| [header, packet].concat();
        let radiotap = with(
            &[0, 0, 17, 0, 3, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x10],
            &with(&[0x88, 1], &with(&[9; 24], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45, 7])),
        );
        for (kind, data, length, protocol, rest, bytes) in [
            (DataLink::RAW, four.to_vec(), 60, IPV4, &four[..], 74),
            (DataLink::Unknown(12), six.to_vec(), 90, IPV6, &six[..], 104),
            (DataLink::NULL, with(&[2, 0, 0, 0], &four), 64, IPV4, &four[..], 74),
            (DataLink::LOOP, with(&[0, 0, 0, 24], &six), 94, IPV6, &six[..], 104),
            (DataLink::PPP, with(&[0xff, 3, 0, 0x21], &four), 64, IPV4, &four[..], 74),
            (DataLink::PPP, with(&[0x57], &six), 91, IPV6, &six[..], 104),
            (DataLink::PPP_HDLC, with(&[0x0f, 0, 8, 0], &four), 64, IPV4, &four[..], 74),
            (
                DataLink::PPP_ETHER,
                with(&[0x11, 0, 0, 1, 0, 7, 0, 0x21], &four),
                68,
                IPV4,
                &four,
                74,
            ),
            (DataLink::LINUX_SLL, with(&[0; 14], &with(&[8, 6], &[1])), 44, 0x0806, &[1], 42),
            (DataLink::LINUX_SLL2, with(&[8, 0], &with(&[0; 18], &four)), 80, IPV4, &four, 74),
            (DataLink::IEEE802_11_RADIOTAP, radiotap, 17 + 26 + 8 + 60 + 4, IPV4, &[0x45, 7], 74),
            // A frame that is not a data frame is kept whole. Nothing is kept of a frame that is
            // cut off within its header.
            (DataLink::IEEE802_11, vec![0x80, 0, 5], 100, NONE, &[0x80, 0, 5], 114),
            (DataLink::LINUX_SLL, vec![1, 2], 60, NONE, &[], 58),
        ] {
            let (frame, length) = made(kind, &data, length);
            assert_eq!(
                (&frame[12..14], &frame[14..]),
                (&protocol.to_be_bytes()[..], rest),
                "{kind:?}"
            );
            assert_eq!(length, bytes, "{kind:?}");
        }
        let mut frame = vec![7];
        assert_eq!(LinkType::Ethernet.frame(&[1], 1, &mut frame), None);
        assert_eq!(LinkType::of(DataLink::BLUETOOTH_HCI_H4), None);
    }

    #[test]
    fn any_bytes_are_a_frame() {
        use falaj_engine::chance::Chance;
        let (chance, mut drawn) = (Chance::new(2, 0, 0), 0);
        let mut draw = |below: u64| {
            drawn += 1;
            chance.draw(drawn) % below
        };
        let kinds = [0, 9, 12, 50, 51, 101, 105, 108, 113, 127, 276, 228, 229].map(DataLink::from);
        for _ in 0..20_000 {
            let data: Vec<u8> = (0..draw(60)).map(|_| draw(256) as u8).collect();
            let kind = kinds[draw(kinds.len() as u64) as usize];
            let (frame, length) = made(kind, &data, draw(100) as u32);
            assert!(frame.len() >= ETHERNET && length >= ETHERNET as u32, "{kind:?} {data:?}");
        }
    }
}
