//! The messages of memif's control channel: 128 bytes each, in the byte order of the machine.

use std::fmt;

/// Length of a message in bytes.
pub const LENGTH: usize = 128;
/// Version 2.0 of memif, the only one that is supported.
pub const VERSION: u16 = 0x200;
/// Length of a name in bytes, its terminating zero included.
const NAME: usize = 32;
/// Length of a secret in bytes.
pub const SECRET: usize = 24;
/// Length of the reason of a disconnect in bytes.
const WHY: usize = 96;

/// The master's first message: its capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Name of the program.
    pub name: String,
    /// The lowest and the highest version that the master supports.
    pub versions: (u16, u16),
    /// The largest index of a region.
    pub max_region: u16,
    /// The largest index of a ring to the slave.
    pub max_m2s_ring: u16,
    /// The largest index of a ring to the master.
    pub max_s2m_ring: u16,
    /// Base-2 logarithm of the number of descriptors of the largest ring.
    pub max_log2_ring_size: u8,
}

/// The slave's answer: the interface that it requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Init {
    /// The version that the slave uses.
    pub version: u16,
    /// The interface's number.
    pub id: u32,
    /// The kind of packets: [`ETHERNET`] or another kind.
    pub mode: u8,
    /// The secret, which may be required.
    pub secret: [u8; SECRET],
    /// Name of the program.
    pub name: String,
}

/// Packets are Ethernet frames.
pub const ETHERNET: u8 = 0;

/// A ring that the slave has created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddRing {
    /// True if its direction is from the slave to the master.
    pub to_master: bool,
    /// Index of the ring among the rings of its direction.
    pub index: u16,
    /// Index of the region that contains the ring.
    pub region: u16,
    /// Offset of the ring in the region, in bytes.
    pub offset: u32,
    /// Base-2 logarithm of the number of its descriptors.
    pub log2_ring_size: u8,
    /// Number of bytes with a private meaning before each packet.
    pub private_header: u16,
}

/// A message of the control channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemifMessage {
    /// The master has processed the slave's last message.
    Ack,
    /// The master's first message.
    Hello(Hello),
    /// The slave's first message.
    Init(Init),
    /// A region, with the descriptor of its memory.
    AddRegion {
        /// Index of the region.
        index: u16,
        /// Size of the region in bytes.
        size: u64,
    },
    /// A ring, with the eventfd that wakes its receiver.
    AddRing(AddRing),
    /// The slave is done with regions and rings.
    Connect {
        /// The slave's name of its interface.
        interface: String,
    },
    /// The connection is established.
    Connected {
        /// The master's name of its interface.
        interface: String,
    },
    /// The connection ends.
    Disconnect {
        /// A number without a defined meaning.
        code: u32,
        /// The reason, as text.
        why: String,
    },
}

/// The error for bytes that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedMessage {
    /// The number of bytes is wrong.
    Length(usize),
    /// The type is unknown.
    Kind(u16),
}

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MalformedMessage::Length(bytes) => {
                write!(f, "a message of {bytes} B; messages of memif have {LENGTH} B")
            }
            MalformedMessage::Kind(kind) => {
                write!(f, "a message of kind {kind}, which memif does not have")
            }
        }
    }
}

impl std::error::Error for MalformedMessage {}

mod kind {
    pub(super) const ACK: u16 = 1;
    pub(super) const HELLO: u16 = 2;
    pub(super) const INIT: u16 = 3;
    pub(super) const ADD_REGION: u16 = 4;
    pub(super) const ADD_RING: u16 = 5;
    pub(super) const CONNECT: u16 = 6;
    pub(super) const CONNECTED: u16 = 7;
    pub(super) const DISCONNECT: u16 = 8;
}

/// The flag of a ring whose direction is to the master.
const TO_MASTER: u16 = 1;

/// A message that is being written.
struct Writing {
    bytes: [u8; LENGTH],
    at: usize,
}

impl Writing {
    fn put(mut self, field: &[u8]) -> Writing {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
        self
    }

    /// Writes a text, truncated if it is too long, with a terminating zero.
    fn text<const ROOM: usize>(self, text: &str) -> Writing {
        let mut field = [0; ROOM];
        let fits =
            (0..ROOM.min(text.len() + 1)).rfind(|&at| text.is_char_boundary(at)).unwrap_or(0);
        field[..fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.put(&field)
    }
}

/// A message that is being read. All fields together are shorter than a message.
struct Reading<'a>(&'a [u8; LENGTH], usize);

impl Reading<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.0[self.1..self.1 + N]);
        self.1 += N;
        field
    }

    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    /// Reads a text in displayable form: up to a zero or its end, without control characters.
    fn text<const ROOM: usize>(&mut self) -> String {
        let field: [u8; ROOM] = self.take();
        let until = field.iter().position(|byte| *byte == 0).unwrap_or(ROOM);
        String::from_utf8_lossy(&field[..until])
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect()
    }
}

impl MemifMessage {
    /// Encodes the message.
    pub fn to_bytes(&self) -> [u8; LENGTH] {
        let of = |kind: u16| Writing { bytes: [0; LENGTH], at: 0 }.put(&kind.to_ne_bytes());
        let written = match self {
            MemifMessage::Ack => of(kind::ACK),
            MemifMessage::Hello(hello) => of(kind::HELLO)
                .text::<NAME>(&hello.name)
                .put(&hello.versions.0.to_ne_bytes())
                .put(&hello.versions.1.to_ne_bytes())
                .put(&hello.max_region.to_ne_bytes())
                .put(&hello.max_m2s_ring.to_ne_bytes())
                .put(&hello.max_s2m_ring.to_ne_bytes())
                .put(&[hello.max_log2_ring_size]),
            MemifMessage::Init(init) => of(kind::INIT)
                .put(&init.version.to_ne_bytes())
                .put(&init.id.to_ne_bytes())
                .put(&[init.mode])
                .put(&init.secret)
                .text::<NAME>(&init.name),
            MemifMessage::AddRegion { index, size } => {
                of(kind::ADD_REGION).put(&index.to_ne_bytes()).put(&size.to_ne_bytes())
            }
            MemifMessage::AddRing(ring) => of(kind::ADD_RING)
                .put(&if ring.to_master { TO_MASTER } else { 0 }.to_ne_bytes())
                .put(&ring.index.to_ne_bytes())
                .put(&ring.region.to_ne_bytes())
                .put(&ring.offset.to_ne_bytes())
                .put(&[ring.log2_ring_size])
                .put(&ring.private_header.to_ne_bytes()),
            MemifMessage::Connect { interface } => of(kind::CONNECT).text::<NAME>(interface),
            MemifMessage::Connected { interface } => of(kind::CONNECTED).text::<NAME>(interface),
            MemifMessage::Disconnect { code, why } => {
                of(kind::DISCONNECT).put(&code.to_ne_bytes()).text::<WHY>(why)
            }
        };
        written.bytes
    }

    /// Decodes a message from any bytes.
    ///
    /// # Errors
    /// The bytes are not a message.
    pub fn from_bytes(bytes: &[u8]) -> Result<MemifMessage, MalformedMessage> {
        let all: &[u8; LENGTH] =
            bytes.try_into().map_err(|_| MalformedMessage::Length(bytes.len()))?;
        let mut read = Reading(all, 0);
        // Fields are read in order.
        Ok(match read.u16() {
            kind::ACK => MemifMessage::Ack,
            kind::HELLO => MemifMessage::Hello(Hello {
                name: read.text::<NAME>(),
                versions: (read.u16(), read.u16()),
                max_region: read.u16(),
                max_m2s_ring: read.u16(),
                max_s2m_ring: read.u16(),
                max_log2_ring_size: read.u8(),
            }),
            kind::INIT => MemifMessage::Init(Init {
                version: read.u16(),
                id: read.u32(),
                mode: read.u8(),
                secret: read.take(),
                name: read.text::<NAME>(),
            }),
            kind::ADD_REGION => {
                MemifMessage::AddRegion { index: read.u16(), size: u64::from_ne_bytes(read.take()) }
            }
            kind::ADD_RING => MemifMessage::AddRing(AddRing {
                to_master: read.u16() & TO_MASTER != 0,
                index: read.u16(),
                region: read.u16(),
                offset: read.u32(),
                log2_ring_size: read.u8(),
                private_header: read.u16(),
            }),
            kind::CONNECT => MemifMessage::Connect { interface: read.text::<NAME>() },
            kind::CONNECTED => MemifMessage::Connected { interface: read.text::<NAME>() },
            kind::DISCONNECT => {
                MemifMessage::Disconnect { code: read.u32(), why: read.text::<WHY>() }
            }
            other => return Err(MalformedMessage::Kind(other)),
        })
    }
}
