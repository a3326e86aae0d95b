//! The messages of memif's control channel: 128 bytes each, in the byte order of the machine.

use std::fmt;

/// Bytes of each.
pub const LENGTH: usize = 128;
/// Version 2.0, the only one there is.
pub const VERSION: u16 = 0x200;
/// Bytes of a name, the zero at its end included.
const NAME: usize = 32;
/// Bytes of a secret.
pub const SECRET: usize = 24;
/// Bytes of what is said at the end.
const WHY: usize = 96;

/// What the master says first: what it can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Which program it is.
    pub name: String,
    /// The first and the last version that it speaks.
    pub versions: (u16, u16),
    /// The largest number of a region.
    pub max_region: u16,
    /// And of a ring to the slave.
    pub max_m2s_ring: u16,
    /// And of one to the master.
    pub max_s2m_ring: u16,
    /// The size of the largest ring, as a power of two.
    pub max_log2_ring_size: u8,
}

/// What the slave answers: which interface it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Init {
    /// The version that it speaks.
    pub version: u16,
    /// The interface's number.
    pub id: u32,
    /// What packets are: [`ETHERNET`] or something else.
    pub mode: u8,
    /// What may be asked for.
    pub secret: [u8; SECRET],
    /// Which program it is.
    pub name: String,
}

/// Packets are Ethernet frames.
pub const ETHERNET: u8 = 0;

/// A ring that the slave has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddRing {
    /// Its packets go from the slave to the master.
    pub to_master: bool,
    /// Its number, in its direction.
    pub index: u16,
    /// The region that it is in.
    pub region: u16,
    /// And where.
    pub offset: u32,
    /// Its size, as a power of two.
    pub log2_ring_size: u8,
    /// Bytes before each packet of which we know nothing.
    pub private_header: u16,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemifMessage {
    /// The master is done with the slave's last one.
    Ack,
    /// The master's first.
    Hello(Hello),
    /// The slave's first.
    Init(Init),
    /// With the descriptor of memory.
    AddRegion {
        /// Its number.
        index: u16,
        /// Its bytes.
        size: u64,
    },
    /// With the descriptor that wakes whoever takes packets from it.
    AddRing(AddRing),
    /// That was all.
    Connect {
        /// What the slave calls its interface.
        interface: String,
    },
    /// It begins.
    Connected {
        /// What the master calls its own.
        interface: String,
    },
    /// It ends.
    Disconnect {
        /// A number that nobody has given a meaning.
        code: u32,
        /// Why.
        why: String,
    },
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedMessage {
    /// So many of them.
    Length(usize),
    /// Of a kind that there is not.
    Kind(u16),
}

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MalformedMessage::Length(bytes) => {
                write!(f, "a message of {bytes} B; memif's have {LENGTH} B")
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

/// The ring's packets go to the master.
const TO_MASTER: u16 = 1;

/// A message as it is written.
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

    /// Cut off where it is too long, with a zero at its end.
    fn text<const ROOM: usize>(self, text: &str) -> Writing {
        let mut field = [0; ROOM];
        let fits =
            (0..ROOM.min(text.len() + 1)).rfind(|&at| text.is_char_boundary(at)).unwrap_or(0);
        field[..fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.put(&field)
    }
}

/// A message as it is read. All fields together are shorter than a message.
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

    /// As it may be shown: to a zero or its end, and nothing that would move a terminal's cursor.
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
    /// As its bytes.
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

    /// From bytes of any kind.
    ///
    /// # Errors
    /// They are no message.
    pub fn from_bytes(bytes: &[u8]) -> Result<MemifMessage, MalformedMessage> {
        let all: &[u8; LENGTH] =
            bytes.try_into().map_err(|_| MalformedMessage::Length(bytes.len()))?;
        let mut read = Reading(all, 0);
        // Fields are read in their order.
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
