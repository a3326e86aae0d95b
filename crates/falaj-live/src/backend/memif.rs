//! A port at a shared memory interface (memif) of another program. Its rings carry frames, or
//! batches of frames if the other side is falaj and both sides enable batches.
//!
//! memif has no virtio-net headers, which would describe work left to the receiver (offloads). So
//! units of several packets are split, and checksums are computed, before frames are sent.

use super::{Address, Backend, BackendEntry, OpenEnd, OpenError, OpenOptions};
use crate::backend::frame;
use crate::backend::monitor::Monitor;
use crate::backend::name::InterfaceState;
use crate::backend::port::{Port, PortHandover, Received};
use crate::backend::tap::Tap;
use crate::clock::monotonic;
use crate::gso::singly;
use falaj_batch::crossing::{Crossing, CrossingCounts};
use falaj_batch::memif::link::MemifLink;
use falaj_batch::memif::session::{Agreed, MemifRole, MemifTerms};
use falaj_batch::memif::socket::{MemifSocket, SocketEvent};
use falaj_engine::batch::{BatchPolicy, Packer};
use falaj_sched::units::time::Time;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;
use std::{fmt, io};

/// The scheme with which names of memif interfaces begin.
const MEMIF: &str = "memif:";

/// Shared memory, identified by its socket: `memif:PATH`.
pub static BACKEND: BackendEntry = BackendEntry {
    help: "\
memif:PATH is memory shared with another program (memif 2.0: VPP, libmemif and others), which
connects to the socket PATH; with memif:PATH,slave falaj connects instead, and retries until the
other program listens. The path may be followed by id=NUMBER and secret=WORD. Packets are frames;
if the other program is falaj, too, --aggregate sends them in batches.",
    example: "memif:/run/memif.sock eth1 --rate 1gbit --delay 5ms",
    takes_batches: true,
    ..BackendEntry::new(MEMIF, "memif:PATH", |text| Ok(Arc::new(text.parse::<MemifName>()?)))
};

/// The name of an interface: `memif:/run/vpp/memif.sock`,
/// `memif:/run/vpp/memif.sock,slave,id=1,secret=WORD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemifName {
    /// The path of the socket; a path that begins with `@` is a name outside the file system.
    pub path: PathBuf,
    /// The role: the master listens at the socket, the slave connects to it.
    pub role: MemifRole,
    /// The interface's number.
    pub id: u32,
    /// A secret that the other side must send too; empty if there is none.
    pub secret: String,
}

impl FromStr for MemifName {
    type Err = String;

    /// Parses the text after `memif:`.
    fn from_str(text: &str) -> Result<MemifName, String> {
        const HOW: &str = "write the path of a socket and, if needed, `slave` (falaj connects to \
                           it), the interface's number, and its secret: \
                           `memif:/run/vpp/memif.sock,slave,id=1,secret=WORD`";
        let mut words = text.split(',');
        let path = words.next().filter(|path| !matches!(*path, "" | "@")).ok_or(HOW)?;
        let mut name =
            MemifName { path: path.into(), role: MemifRole::Master, id: 0, secret: String::new() };
        for word in words {
            match word.split_once('=') {
                None if word == "slave" => name.role = MemifRole::Slave,
                None if word == "master" => name.role = MemifRole::Master,
                Some(("id", id)) => {
                    name.id = id
                        .parse()
                        .map_err(|_| format!("`id={id}` is not a number up to {}", u32::MAX))?;
                }
                Some(("secret", secret)) if (1..=24).contains(&secret.len()) => {
                    name.secret = secret.into();
                }
                Some(("secret", _)) => return Err("a secret must have 1 to 24 bytes".into()),
                _ => return Err(format!("`{word}`: {HOW}")),
            }
        }
        Ok(name)
    }
}

impl fmt::Display for MemifName {
    /// Writes the name without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MEMIF}{}", self.path.display())?;
        if self.role == MemifRole::Slave {
            f.write_str(",slave")?;
        }
        if self.id != 0 {
            write!(f, ",id={}", self.id)?;
        }
        Ok(())
    }
}

impl Address for MemifName {
    fn open(&self, options: &OpenOptions) -> Result<OpenEnd, OpenError> {
        let opened = Memif::open(self, options.batches).map_err(|cause| {
            let attempt = "cannot create that socket; use a path that does not exist yet, in a directory that you may write to";
            OpenError::new(attempt, cause)
        });
        let (memif, monitor) = opened?;
        Ok((Box::new(Rc::new(memif)), monitor))
    }

    fn socket(&self) -> Option<&Path> {
        let is_file = !self.path.as_os_str().as_encoded_bytes().starts_with(b"@");
        (self.role == MemifRole::Master && is_file).then_some(&*self.path)
    }
}

/// A memif interface, whose peers may come and go.
pub struct Memif {
    name: MemifName,
    /// The descriptor of the socket, which stays the same.
    readable: OwnedFd,
    /// Readable when the state may differ from the reported one.
    news: EventFd,
    inner: RefCell<MemifState>,
}

impl fmt::Debug for Memif {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memif").field(&self.name).finish()
    }
}

struct MemifState {
    socket: MemifSocket,
    way: Option<FramePath>,
    /// Policy for batches; `None` if batches are not enabled.
    policy: Option<BatchPolicy>,
    /// The state that was reported last.
    told: InterfaceState,
    /// The latest reason for the state (why the last peer left, or why packets do not go in
    /// batches), until it is queried; and the same reason, queried or not.
    why: (Option<String>, String),
    /// Buffer for one packet of a unit with several packets.
    part: Vec<u8>,
}

/// The path of packets through the rings.
enum FramePath {
    Frames(MemifLink),
    Batches(Box<Crossing<MemifLink>>),
}

/// Default length of a batch in bytes.
const LONGEST: u32 = 1 << 16;

impl Memif {
    /// Listens or connects; also returns the monitor of changes. Packets go in batches by `policy`,
    /// if there is one and the other side supports batches.
    ///
    /// # Errors
    /// The socket cannot be created, or another process listens there.
    pub fn open(name: &MemifName, policy: Option<BatchPolicy>) -> io::Result<(Memif, Monitor)> {
        let terms = MemifTerms {
            role: name.role,
            id: name.id,
            secret: name.secret.clone(),
            batches: policy.is_some(),
            longest: Tap::MAX_UNIT.max(LONGEST as usize),
        };
        let socket = MemifSocket::open(&name.path, terms)?;
        let readable = socket.as_fd().try_clone_to_owned()?;
        let news =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let monitor = Monitor::adopt(news.as_fd().try_clone_to_owned()?);
        let why = (None, String::new());
        let inner = RefCell::new(MemifState {
            socket,
            way: None,
            policy,
            told: InterfaceState::Gone,
            why,
            part: Vec::new(),
        });
        Ok((Memif { name: name.clone(), readable, news, inner }, monitor))
    }

    /// The state, if it has changed: up while there is a peer, otherwise gone.
    pub fn look(&self) -> Option<InterfaceState> {
        let inner = &mut *self.inner.borrow_mut();
        let now = if inner.way.is_some() { InterfaceState::Up } else { InterfaceState::Gone };
        (std::mem::replace(&mut inner.told, now) != now).then_some(now)
    }

    /// The reason why there is no peer, or why packets do not go in batches, if it was not returned
    /// before.
    pub fn why(&self) -> Option<String> {
        self.inner.borrow_mut().why.0.take()
    }

    fn tell(&self) {
        // If the counter is full, the descriptor is readable already.
        let _ = self.news.write(1);
    }
}

fn now() -> Time {
    Time(monotonic())
}

impl MemifState {
    /// Starts to use rings that a peer has set up.
    fn connect(&mut self, agreed: Agreed) {
        let policy = self.policy.unwrap_or(BatchPolicy::one_by_one(LONGEST));
        let packer = agreed.batches.then(|| Packer::new(policy, 0)).and_then(Result::ok);
        self.way = Some(match packer {
            Some(packer) => FramePath::Batches(Box::new(Crossing::new(agreed.link, packer))),
            None => FramePath::Frames(agreed.link),
        });
        if self.policy.is_some() && !agreed.batches {
            let other =
                if agreed.peer.is_empty() { "a program without a name" } else { &agreed.peer };
            self.reason(format!("the other side is {other}, which does not support batches: each packet is a frame of its own"));
        }
    }

    /// Sets the reason for `why` to return, if it differs from the latest one.
    fn reason(&mut self, why: String) {
        if self.why.1 != why {
            self.why = (Some(why.clone()), why);
        }
    }

    /// Disconnects a peer that has violated the rules of the rings.
    fn broken(&mut self, error: &io::Error) -> io::Result<()> {
        self.way = None;
        let why = error.to_string();
        self.socket.drop_peer(&why)?;
        self.reason(why);
        Ok(())
    }

    /// Handles events of the socket; returns true if a peer has come or gone.
    fn look(&mut self) -> io::Result<bool> {
        let news = self.socket.look()?;
        let changed = news.is_some();
        match news {
            Some(SocketEvent::Connected(agreed)) => self.connect(agreed),
            Some(SocketEvent::Gone(why)) => {
                self.way = None;
                self.reason(why);
            }
            None => {}
        }
        if self.socket.was_rung()
            && let Some(way) = &mut self.way
        {
            way.clear()?;
        }
        Ok(changed)
    }
}

impl FramePath {
    fn clear(&mut self) -> io::Result<()> {
        match self {
            FramePath::Frames(link) => link.clear(),
            FramePath::Batches(crossing) => crossing.clear(),
        }
    }

    /// Reads one unit, and puts an empty header before it. The inner error reports a malformed
    /// packet.
    fn receive(&mut self, unit: &mut [u8]) -> io::Result<Option<io::Result<usize>>> {
        let Some((header, frame)) = unit.split_at_mut_checked(Tap::VNET_HEADER) else {
            return Ok(None);
        };
        header.fill(0);
        let invalid = |error: Box<dyn std::error::Error + Send + Sync>| {
            io::Error::new(io::ErrorKind::InvalidData, error)
        };
        let received = match self {
            FramePath::Frames(link) => {
                link.receive(frame)?.map(|length| length.map_err(|lost| invalid(lost.into())))
            }
            FramePath::Batches(crossing) => {
                crossing.poll(now())?;
                crossing
                    .receive(frame)?
                    .map(|length| length.map_err(|malformed| invalid(malformed.into())))
            }
        };
        Ok(received.map(|length| length.map(|length| Tap::VNET_HEADER + length)))
    }

    /// Requests a wake-up; returns true if there is nothing to do until the wake-up.
    fn rest(&mut self) -> io::Result<bool> {
        match self {
            FramePath::Frames(link) => link.rest(),
            FramePath::Batches(crossing) => {
                let rests = crossing.rest()?;
                if rests {
                    crossing.alarm()?;
                }
                Ok(rests)
            }
        }
    }

    fn transmit(&mut self, frame: &[u8]) -> io::Result<bool> {
        match self {
            FramePath::Frames(link) => link.send(frame),
            FramePath::Batches(crossing) => {
                let now = now();
                crossing.poll(now)?;
                let taken = crossing.offer(frame, now)?;
                crossing.alarm()?;
                Ok(taken)
            }
        }
    }
}

impl Backend for Rc<Memif> {
    fn entry(&self) -> &'static BackendEntry {
        &BACKEND
    }

    fn port(&self) -> io::Result<Box<dyn Port>> {
        Ok(Box::new(MemifPort::new(Rc::clone(self))))
    }

    fn look(&self) -> Option<InterfaceState> {
        Memif::look(self)
    }

    fn why(&self) -> Option<String> {
        Memif::why(self)
    }

    fn batches(&self) -> Option<(CrossingCounts, BatchPolicy)> {
        match &self.inner.borrow().way {
            Some(FramePath::Batches(crossing)) => Some((crossing.counts(), crossing.policy())),
            _ => None,
        }
    }
}

/// A port at a shared memory interface.
///
/// The port never reports that it is gone: another peer may connect.
#[derive(Debug)]
pub struct MemifPort {
    memif: Rc<Memif>,
}

impl MemifPort {
    /// The port at this interface.
    pub fn new(memif: Rc<Memif>) -> MemifPort {
        MemifPort { memif }
    }
}

impl Port for MemifPort {
    fn name(&self) -> String {
        format!("The peer at {}", self.memif.name)
    }

    fn longest(&self) -> usize {
        Tap::MAX_UNIT
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let inner = &mut *self.memif.inner.borrow_mut();
        let mut looked = false;
        loop {
            if let Some(way) = &mut inner.way {
                match way.receive(buffer) {
                    Ok(Some(length)) => {
                        return length.map(|length| Some(frame::received(&buffer[..length])));
                    }
                    // First clear the wake-up, then check, so that a wake-up in between is not
                    // lost.
                    Ok(None) if looked => match way.rest() {
                        Ok(true) => return Ok(None),
                        Ok(false) => continue,
                        Err(error) => {
                            inner.broken(&error)?;
                            self.memif.tell();
                        }
                    },
                    Ok(None) => {}
                    Err(error) => {
                        inner.broken(&error)?;
                        self.memif.tell();
                    }
                }
            }
            if looked {
                return Ok(None);
            }
            looked = true;
            if inner.look()? {
                self.memif.tell();
            }
        }
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        let inner = &mut *self.memif.inner.borrow_mut();
        let MemifState { way: Some(way), part, .. } = inner else { return Ok(false) };
        let mut broken = None;
        let taken = singly(unit, part, |packet| {
            frame::finish_checksum(packet);
            let frame = packet.get(Tap::VNET_HEADER..).unwrap_or(&[]);
            Ok(way.transmit(frame).unwrap_or_else(|error| {
                broken = Some(error);
                false
            }))
        })?;
        if let Some(error) = broken {
            inner.broken(&error)?;
            self.memif.tell();
        }
        Ok(taken)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.memif.readable.as_fd()
    }
}

impl PortHandover for MemifPort {}
