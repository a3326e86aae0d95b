//! The messages of a netfilter queue (nfnetlink) as bytes: messages to the kernel, and from it.

/// A verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketVerdict {
    Drop = 0,
    Accept = 1,
}

/// Bytes before a message's attributes: the headers of netlink and nfnetlink.
const HEADERS: usize = 20;
/// `NFNL_SUBSYS_QUEUE`, in the upper byte of a message's type.
const SUBSYSTEM: u16 = 3 << 8;
const PACKET: u16 = 0;
const VERDICT: u16 = 1;
const CONFIG: u16 = 2;
/// `NLMSG_ERROR`, which is also the type of an acknowledgement.
const ERROR: u16 = 2;

const REQUEST: u16 = 1;
const ACK: u16 = 4;

/// Attributes of a packet and its verdict.
mod about {
    pub(super) const PACKET: u16 = 1;
    pub(super) const VERDICT: u16 = 2;
    pub(super) const PAYLOAD: u16 = 10;
    pub(super) const WHOLE_LENGTH: u16 = 13;
}

/// Attributes of a queue.
mod config {
    pub(super) const COMMAND: u16 = 1;
    pub(super) const PARAMETERS: u16 = 2;
    pub(super) const LENGTH: u16 = 3;
    pub(super) const MASK: u16 = 4;
    pub(super) const FLAGS: u16 = 5;
    pub(super) const BIND: u8 = 1;
    pub(super) const COPY_PACKETS: u8 = 2;
    pub(super) const FAIL_OPEN: u32 = 1;
}

/// A message to the kernel.
pub(super) struct MessageBuilder(Vec<u8>);

impl MessageBuilder {
    /// A message about an object of an address family; `resource` is the number of the object.
    pub(super) fn new(kind: u16, flags: u16, family: u8, resource: u16) -> MessageBuilder {
        const VERSION: u8 = 0;
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((REQUEST | flags).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend([family, VERSION]);
        bytes.extend(resource.to_be_bytes());
        MessageBuilder(bytes)
    }

    /// A message about a queue, for all families.
    fn of_queue(kind: u16, flags: u16, queue: u16) -> MessageBuilder {
        MessageBuilder::new(SUBSYSTEM | kind, flags, 0, queue)
    }

    pub(super) fn with(mut self, attribute: u16, parts: &[&[u8]]) -> MessageBuilder {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.0.extend((4 + length as u16).to_ne_bytes());
        self.0.extend(attribute.to_ne_bytes());
        parts.iter().for_each(|part| self.0.extend(*part));
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds a finished attribute.
    pub(super) fn append(&mut self, attribute: &[u8]) {
        self.0.extend(attribute);
    }

    pub(super) fn done(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// Asks for a queue with room for `packets` packets; the kernel sends an acknowledgement.
pub(super) fn bind(queue: u16, packets: u32, fail_open: bool) -> Vec<u8> {
    let flags = if fail_open { config::FAIL_OPEN } else { 0 };
    MessageBuilder::of_queue(CONFIG, ACK, queue)
        .with(config::COMMAND, &[&[config::BIND, 0, 0, 0]])
        .with(config::LENGTH, &[&packets.to_be_bytes()])
        .with(config::FLAGS, &[&flags.to_be_bytes()])
        .with(config::MASK, &[&config::FAIL_OPEN.to_be_bytes()])
        .done()
}

/// Asks the kernel to deliver the queue's packets, with their whole payload.
pub(super) fn begin(queue: u16) -> Vec<u8> {
    let whole = 0xffff_u32.to_be_bytes();
    MessageBuilder::of_queue(CONFIG, 0, queue)
        .with(config::PARAMETERS, &[&whole, &[config::COPY_PACKETS]])
        .done()
}

/// The verdict on a packet, with its new payload if it was changed.
pub(super) fn verdict(
    queue: u16,
    id: u32,
    verdict: PacketVerdict,
    payload: Option<&[u8]>,
) -> Vec<u8> {
    let about = [(verdict as u32).to_be_bytes(), id.to_be_bytes()];
    let message =
        MessageBuilder::of_queue(VERDICT, 0, queue).with(about::VERDICT, &[&about[0], &about[1]]);
    payload
        .into_iter()
        .fold(message, |message, payload| message.with(about::PAYLOAD, &[payload]))
        .done()
}

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelMessage<'a> {
    /// A packet.
    Packet {
        id: u32,
        /// EtherType of the packet, as in an Ethernet header.
        protocol: [u8; 2],
        payload: &'a [u8],
    },
    /// A packet whose payload is truncated.
    Cut { id: u32 },
    /// An acknowledgement: 0, or an error number.
    Answer(i32),
    /// Any other message.
    Nothing,
}

/// Parses one message.
pub(super) fn read(bytes: &[u8]) -> KernelMessage<'_> {
    read_it(bytes).unwrap_or(KernelMessage::Nothing)
}

fn read_it(bytes: &[u8]) -> Option<KernelMessage<'_>> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let message = bytes.get(..length)?;
    let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
    if kind == ERROR {
        return Some(KernelMessage::Answer(-i32::from_ne_bytes(
            *message.get(16..)?.first_chunk()?,
        )));
    }
    if kind != SUBSYSTEM | PACKET {
        return None;
    }
    let (mut head, mut payload, mut whole) = (None, &[][..], None);
    let mut rest = message.get(HEADERS..)?;
    while let Some((&[a, b, c, d], behind)) = rest.split_first_chunk() {
        // The two upper bits of an attribute's type are flags.
        let (length, kind) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]) & 0x3fff);
        let value = behind.get(..usize::from(length).checked_sub(4)?)?;
        match kind {
            about::PACKET => head = value.first_chunk::<6>(),
            about::PAYLOAD => payload = value,
            about::WHOLE_LENGTH => whole = Some(u32::from_be_bytes(*value.first_chunk()?)),
            _ => {}
        }
        rest = rest.get(usize::from(length).next_multiple_of(4)..).unwrap_or(&[]);
    }
    let &[a, b, c, d, e, f] = head?;
    let id = u32::from_be_bytes([a, b, c, d]);
    match whole {
        Some(whole) if whole as usize > payload.len() => Some(KernelMessage::Cut { id }),
        _ => Some(KernelMessage::Packet { id, protocol: [e, f], payload }),
    }
}

/// Parses any bytes as kernel messages: nothing panics, and payloads lie within the bytes.
#[cfg_attr(not(test), allow(dead_code, reason = "for tests and fuzzers"))]
pub(super) fn hostile(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((length, _)) = rest.split_first_chunk::<4>() {
        if let KernelMessage::Packet { id, payload, .. } = read(rest) {
            let (all, within) = (rest.as_ptr_range(), payload.as_ptr_range());
            assert!(payload.is_empty() || all.start <= within.start && within.end <= all.end);
            let _ =
                verdict(0, id, PacketVerdict::Accept, Some(&payload[..payload.len().min(1_000)]));
        }
        let next = (u32::from_ne_bytes(*length) as usize).next_multiple_of(4).max(4);
        rest = rest.get(next..).unwrap_or(&[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let message = MessageBuilder::of_queue(PACKET, 0, 5);
        attributes
            .iter()
            .fold(message, |message, &(kind, value)| message.with(kind, &[value]))
            .done()
    }

    #[test]
    fn a_packet_is_read() {
        let payload = [7; 21];
        let head = [0, 0, 1, 2, 0x86, 0xdd, 3];
        let said =
            packet(&[(3, &[0; 4]), (about::PACKET, &head), (about::PAYLOAD | 0x8000, &payload)]);
        assert_eq!(
            read(&said),
            KernelMessage::Packet { id: 258, protocol: [0x86, 0xdd], payload: &payload }
        );
        let long = packet(&[
            (about::PACKET, &head),
            (about::PAYLOAD, &payload),
            (about::WHOLE_LENGTH, &22_u32.to_be_bytes()),
        ]);
        assert_eq!(read(&long), KernelMessage::Cut { id: 258 });
        assert_eq!(read(&packet(&[(about::PAYLOAD, &payload)])), KernelMessage::Nothing);
        let mut answer = vec![36, 0, 0, 0, 2, 0];
        answer.resize(16, 0);
        answer.extend((-1_i32).to_ne_bytes());
        answer.resize(36, 0);
        assert_eq!(read(&answer), KernelMessage::Answer(1));
    }

    proptest! {
        /// For any bytes, nothing panics, and payloads lie within them.
        #[test]
        fn anything_may_be_said(
            bytes in prop::collection::vec(any::<u8>(), 0..100), kind in 0..4_u16,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let mut message =
                packet(&[(about::PACKET, &[1; 7]), (kind * 5, &bytes), (about::PAYLOAD, &bytes)]);
            for (at, value) in changes {
                let at = at.index(message.len());
                message[at] = value;
            }
            hostile(&message);
            hostile(&bytes);
        }
    }
}
