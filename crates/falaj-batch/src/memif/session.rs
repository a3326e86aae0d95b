//! The dialog over the control channel, in both roles, until the rings are set up.
//!
//! ```text
//! master                      slave
//!   HELLO      ->
//!              <-  INIT            ACK ->
//!              <-  ADD_REGION ...  ACK ->   (a descriptor with each)
//!              <-  ADD_RING ...    ACK ->   (a descriptor with each)
//!              <-  CONNECT
//!   CONNECTED  ->
//! ```
//!
//! **Batches.** memif has no batches: packets of a ring are frames. If both sides are falaj, they
//! may agree to send batches instead of frames. They negotiate this by their names, which other
//! programs ignore: the master's name says that it supports or wants batches, and the slave's name
//! that both sides use them.

use super::channel::Channel;
use super::link::MemifLink;
use super::message::{AddRing, ETHERNET, Hello, Init, MemifMessage, SECRET, VERSION};
use super::ring::{self, MAX_LOG2, OUR_LOG2};
use crate::memory::SharedMemory;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The largest number of regions of a slave.
const MOST_REGIONS: usize = 32;
/// The largest number of messages that one [`turn`](Session::turn) handles.
const TURN: usize = 64;

/// The name of falaj without batches.
const FRAMES: &str = "falaj";
/// The name of a master that supports batches, or of a slave if both sides use them.
const BATCHES: &str = "falaj, batches";
/// The name of a master that wants batches.
const WANTED: &str = "falaj, batches wanted";

/// The role of a side: it determines which side creates the memory, and which connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemifRole {
    /// Listens, and uses the slave's memory.
    Master,
    /// Connects, and creates the memory.
    Slave,
}

/// The terms of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemifTerms {
    /// Role of this side.
    pub role: MemifRole,
    /// The interface's number.
    pub id: u32,
    /// Secret of both sides; empty: none.
    pub secret: String,
    /// True if batches are used instead of frames, if the other side supports them.
    pub batches: bool,
    /// Bytes of the longest packet or batch.
    pub longest: usize,
}

impl MemifTerms {
    fn secret(&self) -> [u8; SECRET] {
        let mut secret = [0; SECRET];
        self.secret.bytes().zip(&mut secret).for_each(|(byte, to)| *to = byte);
        secret
    }
}

/// The result of a session.
pub struct Agreed {
    /// The two rings of the connection.
    pub link: MemifLink,
    /// True if packets of the rings are batches.
    pub batches: bool,
    /// Name of the program on the other side.
    pub peer: String,
}

/// One connection, from its first message to its end.
pub struct Session {
    channel: Channel,
    terms: MemifTerms,
    stage: Stage,
    peer: String,
    batches: bool,
}

enum Stage {
    /// Master: the slave has not requested an interface yet.
    Asked,
    /// Master: memory and rings are being announced.
    Parts { regions: Vec<Arc<SharedMemory>>, rings: [Option<(AddRing, OwnedFd)>; 2] },
    /// Slave: the master has not sent a message yet.
    New,
    /// Slave: the master acknowledges the messages one by one.
    Telling { rest: VecDeque<(MemifMessage, Option<OwnedFd>)>, ours: Ours },
    /// The dialog is complete.
    Connected,
}

/// Resources that the slave has created.
struct Ours {
    rings: (ring::MemifSender, ring::MemifReceiver),
    /// The eventfds that wake the master and the slave.
    bells: [OwnedFd; 2],
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

const NOT_NOW: &str = "a message that is not allowed at this point";

/// Returns true if two secrets are equal, in a time that does not depend on their contents.
fn same(a: &[u8; SECRET], b: &[u8; SECRET]) -> bool {
    a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

impl Session {
    /// A session over a connected socket; the master sends first.
    ///
    /// # Errors
    /// The peer is gone already.
    pub fn new(socket: OwnedFd, terms: MemifTerms) -> io::Result<Session> {
        let channel = Channel::new(socket);
        let stage = match terms.role {
            MemifRole::Slave => Stage::New,
            MemifRole::Master => {
                let hello = Hello {
                    name: if terms.batches { WANTED } else { BATCHES }.into(),
                    versions: (VERSION, VERSION),
                    max_region: MOST_REGIONS as u16 - 1,
                    max_m2s_ring: 0,
                    max_s2m_ring: 0,
                    max_log2_ring_size: MAX_LOG2,
                };
                channel.send(&MemifMessage::Hello(hello), None)?;
                Stage::Asked
            }
        };
        Ok(Session { channel, terms, stage, peer: String::new(), batches: false })
    }

    /// Reads the peer's messages; returns the result when the dialog is complete.
    ///
    /// # Errors
    /// The session has ended: the peer is gone or ended it, or sent an invalid message. The peer
    /// gets the error, except if its bytes were no message.
    pub fn turn(&mut self) -> io::Result<Option<Agreed>> {
        for _ in 0..TURN {
            let Some((message, fd)) = self.channel.receive()? else { break };
            match self.step(message, fd) {
                Ok(None) => {}
                Ok(agreed) => return Ok(agreed),
                Err(error) => {
                    self.end(&error.to_string());
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Tells the peer that the session ends, and why.
    pub fn end(&self, why: &str) {
        // Fails if the peer is gone, which then needs no message.
        let _ = self.channel.send(&MemifMessage::Disconnect { code: 0, why: why.into() }, None);
    }

    /// Returns true if the dialog is complete.
    pub fn is_connected(&self) -> bool {
        matches!(self.stage, Stage::Connected)
    }

    fn step(&mut self, message: MemifMessage, fd: Option<OwnedFd>) -> io::Result<Option<Agreed>> {
        if let MemifMessage::Disconnect { why, .. } = message {
            let what = match why.is_empty() {
                true => "the other side ended the connection and gave no reason".to_owned(),
                false => format!("the other side ended the connection: {why}"),
            };
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, what));
        }
        let mut done = None;
        self.stage = match (mem::replace(&mut self.stage, Stage::Connected), message) {
            (Stage::Asked, MemifMessage::Init(init)) => self.asked(init)?,
            (Stage::Parts { mut regions, rings }, MemifMessage::AddRegion { index, size }) => {
                let fd = fd.ok_or(refused("a region without its memory"))?;
                if usize::from(index) != regions.len() || regions.len() >= MOST_REGIONS {
                    return Err(refused("a region with a number that is not the next one"));
                }
                regions.push(SharedMemory::open_first(fd, size)?);
                self.channel.send(&MemifMessage::Ack, None)?;
                Stage::Parts { regions, rings }
            }
            (Stage::Parts { regions, mut rings }, MemifMessage::AddRing(ring)) => {
                let fd =
                    fd.ok_or(refused("a ring without the descriptor that wakes its reader"))?;
                let place = &mut rings[usize::from(ring.to_master)];
                if ring.index != 0 || place.is_some() {
                    return Err(refused("more than one ring in a direction"));
                }
                if ring.private_header != 0 {
                    return Err(refused("private headers are not accepted"));
                }
                *place = Some((ring, fd));
                self.channel.send(&MemifMessage::Ack, None)?;
                Stage::Parts { regions, rings }
            }
            (Stage::Parts { regions, rings }, MemifMessage::Connect { .. }) => {
                let [Some((to_slave, bell)), Some((to_master, own))] = rings else {
                    return Err(refused("a ring is missing: one in each direction is needed"));
                };
                let rings =
                    ring::of_master(&regions, [&to_slave, &to_master]).map_err(io::Error::other)?;
                done = Some(self.agreed(rings, own, bell)?);
                self.channel.send(&MemifMessage::Connected { interface: FRAMES.into() }, None)?;
                Stage::Connected
            }
            (Stage::New, MemifMessage::Hello(hello)) => self.hello(hello)?,
            (Stage::Telling { mut rest, ours }, MemifMessage::Ack) => {
                let (message, fd) = rest.pop_front().ok_or(refused(NOT_NOW))?;
                self.channel.send(&message, fd.as_ref().map(AsFd::as_fd))?;
                Stage::Telling { rest, ours }
            }
            (Stage::Telling { rest, ours }, MemifMessage::Connected { .. }) if rest.is_empty() => {
                let [bell, own] = ours.bells;
                done = Some(self.agreed(ours.rings, own, bell)?);
                Stage::Connected
            }
            _ => return Err(refused(NOT_NOW)),
        };
        Ok(done)
    }

    fn agreed(
        &self,
        rings: (ring::MemifSender, ring::MemifReceiver),
        own: OwnedFd,
        bell: OwnedFd,
    ) -> io::Result<Agreed> {
        let fences = self.peer.starts_with(FRAMES);
        let link = MemifLink::new(rings, own, bell, fences, self.terms.longest)?;
        Ok(Agreed { link, batches: self.batches, peer: self.peer.clone() })
    }

    /// Handles the slave's request for an interface.
    fn asked(&mut self, init: Init) -> io::Result<Stage> {
        if init.version != VERSION {
            return Err(refused("a version that is not 2.0"));
        }
        if init.id != self.terms.id {
            return Err(refused("the interface here has another number"));
        }
        if init.mode != ETHERNET {
            return Err(refused("packets are not Ethernet frames"));
        }
        if !self.terms.secret.is_empty() && !same(&init.secret, &self.terms.secret()) {
            return Err(refused("the secret differs"));
        }
        self.batches = init.name == BATCHES;
        self.peer = init.name;
        self.channel.send(&MemifMessage::Ack, None)?;
        Ok(Stage::Parts { regions: Vec::new(), rings: [None, None] })
    }

    /// Handles the master's capabilities.
    fn hello(&mut self, hello: Hello) -> io::Result<Stage> {
        if !(hello.versions.0..=hello.versions.1).contains(&VERSION) {
            return Err(refused("version 2.0 is not among those of the other side"));
        }
        self.batches = hello.name == WANTED || self.terms.batches && hello.name == BATCHES;
        self.peer = hello.name;
        let init = Init {
            version: VERSION,
            id: self.terms.id,
            mode: ETHERNET,
            secret: self.terms.secret(),
            name: if self.batches { BATCHES } else { FRAMES }.into(),
        };
        let log2 = OUR_LOG2.min(hello.max_log2_ring_size);
        let words = ring::words(log2);
        let (memory, shared) = SharedMemory::create(words)?;
        let rings = ring::of_slave(&shared, log2).map_err(io::Error::other)?;
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bells = [bell()?, bell()?];
        let ring =
            |to_master: bool, bell: &OwnedFd| -> io::Result<(MemifMessage, Option<OwnedFd>)> {
                let offset = if to_master { 0 } else { ring::length(log2) as u32 };
                let ring = AddRing {
                    to_master,
                    index: 0,
                    region: 0,
                    offset,
                    log2_ring_size: log2,
                    private_header: 0,
                };
                Ok((MemifMessage::AddRing(ring), Some(bell.try_clone()?)))
            };
        let size = (words * size_of::<u64>()) as u64;
        let rest = [
            (MemifMessage::AddRegion { index: 0, size }, Some(memory)),
            ring(true, &bells[0])?,
            ring(false, &bells[1])?,
            (MemifMessage::Connect { interface: FRAMES.into() }, None),
        ];
        self.channel.send(&MemifMessage::Init(init), None)?;
        Ok(Stage::Telling { rest: rest.into(), ours: Ours { rings, bells } })
    }
}

impl AsFd for Session {
    /// Readable when [`turn`](Session::turn) has something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
