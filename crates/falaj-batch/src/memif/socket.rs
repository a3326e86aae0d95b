//! A named socket with one peer after the other: the master listens, and the slave connects,
//! repeatedly if necessary.

use super::message::SECRET;
use super::session::{Agreed, MemifRole, MemifTerms, Session};
use crate::wake::{Alarm, nanos};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{self, FileType};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};
use rustix::time::ClockId;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Time in nanoseconds for a peer to complete the dialog, while others wait.
const PATIENCE: u64 = 2_000_000_000;
/// Pause in nanoseconds before the next peer is accepted, so that a peer that connects again and
/// again does not occupy a processor.
const PAUSE: u64 = 10_000_000;
/// Time in nanoseconds until the slave tries again.
const AGAIN: u64 = 500_000_000;
/// The largest number of waiting peers.
const WAITING: i32 = 4;

/// Sources of events.
const LISTENER: u64 = 0;
const CHANNEL: u64 = 1;
const ALARM: u64 = 2;
const LINK: u64 = 3;

/// An event of the socket.
pub enum SocketEvent {
    /// The rings are set up.
    Connected(Agreed),
    /// A peer, connected or in the dialog, is gone; with the reason.
    Gone(String),
}

/// A socket for one peer at a time.
pub struct MemifSocket {
    path: PathBuf,
    terms: MemifTerms,
    listener: Option<OwnedFd>,
    session: Option<Session>,
    /// Readable when there is a reason to call [`look`](MemifSocket::look).
    woken: OwnedFd,
    alarm: Alarm,
    /// True if the link had a wake-up.
    rung: bool,
}

/// The address of a path: a name in the file system, or an abstract name if it begins with `@`.
fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    let bytes = path.as_os_str().as_bytes();
    Ok(match bytes.split_first() {
        Some((b'@', name)) => SocketAddrUnix::new_abstract_name(name)?,
        _ => SocketAddrUnix::new(OsStr::from_bytes(bytes))?,
    })
}

fn is_abstract(path: &Path) -> bool {
    path.as_os_str().as_bytes().starts_with(b"@")
}

fn seqpacket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Binds a socket of this name; a stale socket at which no process listens is removed.
fn listening(path: &Path) -> io::Result<OwnedFd> {
    let address = address(path)?;
    let is_socket = fs::lstat(path)
        .is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::Socket);
    if is_socket && connect(seqpacket()?, &address) == Err(Errno::CONNREFUSED) {
        fs::unlink(path)?;
    }
    let listener = seqpacket()?;
    bind(&listener, &address)?;
    listen(&listener, WAITING)?;
    Ok(listener)
}

impl MemifSocket {
    /// Listens at a socket of this name, or tries to connect to it.
    ///
    /// # Errors
    /// The secret is too long or the name is invalid; for a master, the socket cannot be created,
    /// or another process listens there. For a slave it is not an error if no process listens yet.
    pub fn open(path: &Path, terms: MemifTerms) -> io::Result<MemifSocket> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        if terms.secret.len() > SECRET {
            return Err(invalid(format!("a secret of memif has {SECRET} B at most")));
        }
        let woken = epoll::create(CreateFlags::CLOEXEC)?;
        let alarm = Alarm::new()?;
        epoll::add(&woken, &alarm, EventData::new_u64(ALARM), EventFlags::IN)?;
        let listener = match terms.role {
            MemifRole::Master => Some(listening(path)?),
            MemifRole::Slave => {
                address(path)?;
                None
            }
        };
        let mut socket = MemifSocket {
            path: path.to_owned(),
            terms,
            listener,
            session: None,
            woken,
            alarm,
            rung: false,
        };
        socket.ready()?;
        Ok(socket)
    }

    /// Gets ready for the next peer.
    fn ready(&mut self) -> io::Result<()> {
        self.alarm.set(None)?;
        if let Some(listener) = &self.listener {
            epoll::add(&self.woken, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
            return Ok(());
        }
        let socket = seqpacket()?;
        match connect(&socket, &address(&self.path)?) {
            Ok(()) => self.begin(socket),
            // No process listens, or it is busy.
            Err(_) => self.alarm.set(Some(nanos(ClockId::Monotonic) + AGAIN)),
        }
    }

    fn begin(&mut self, socket: OwnedFd) -> io::Result<()> {
        let Ok(session) = Session::new(socket, self.terms.clone()) else { return self.pause() };
        epoll::add(
            &self.woken,
            &session,
            EventData::new_u64(CHANNEL),
            EventFlags::IN | EventFlags::RDHUP,
        )?;
        self.session = Some(session);
        self.alarm.set(Some(nanos(ClockId::Monotonic) + PATIENCE))
    }

    /// Sets the alarm that ends the pause before the next peer.
    fn pause(&mut self) -> io::Result<()> {
        let pause = if self.terms.role == MemifRole::Master { PAUSE } else { AGAIN };
        self.alarm.set(Some(nanos(ClockId::Monotonic) + pause))
    }

    fn accept(&mut self) -> io::Result<()> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let accepted = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        if matches!(accepted, Err(Errno::AGAIN)) {
            return Ok(());
        }
        // Other peers wait meanwhile.
        epoll::delete(&self.woken, listener)?;
        match accepted {
            Ok(socket) => self.begin(socket),
            // Perhaps no descriptors are available.
            Err(_) => self.pause(),
        }
    }

    /// Ends the current session, and tells the peer why.
    ///
    /// # Errors
    /// None that are expected.
    pub fn drop_peer(&mut self, why: &str) -> io::Result<()> {
        if let Some(session) = self.session.take() {
            session.end(why);
            // Dropping it ends the watch on its descriptors.
            drop(session);
            self.pause()?;
        }
        Ok(())
    }

    /// Handles events. After [`SocketEvent::Gone`] the earlier link is invalid.
    ///
    /// # Errors
    /// None that are expected.
    pub fn look(&mut self) -> io::Result<Option<SocketEvent>> {
        let mut events =
            [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 4];
        let n = match epoll::wait(
            &self.woken,
            &mut events,
            Some(&Timespec { tv_sec: 0, tv_nsec: 0 }),
        ) {
            Err(Errno::INTR) => 0,
            n => n?,
        };
        let mut news = None;
        for event in &events[..n] {
            let more = match event.data.u64() {
                LINK => {
                    self.rung = true;
                    None
                }
                LISTENER => {
                    self.accept()?;
                    None
                }
                ALARM => self.late()?,
                _ => self.turn()?,
            };
            news = more.or(news);
        }
        Ok(news)
    }

    /// The alarm has expired.
    fn late(&mut self) -> io::Result<Option<SocketEvent>> {
        match &self.session {
            None => self.ready().map(|()| None),
            Some(session) if session.is_connected() => self.alarm.set(None).map(|()| None),
            Some(_) => {
                let why = "the peer did not complete the dialog in time";
                self.drop_peer(why)?;
                Ok(Some(SocketEvent::Gone(why.into())))
            }
        }
    }

    fn turn(&mut self) -> io::Result<Option<SocketEvent>> {
        let Some(session) = &mut self.session else { return Ok(None) };
        match session.turn() {
            Ok(None) => Ok(None),
            Ok(Some(agreed)) => {
                epoll::add(&self.woken, &agreed.link, EventData::new_u64(LINK), EventFlags::IN)?;
                self.alarm.set(None)?;
                Ok(Some(SocketEvent::Connected(agreed)))
            }
            Err(error) => {
                self.session = None;
                self.pause()?;
                Ok(Some(SocketEvent::Gone(error.to_string())))
            }
        }
    }

    /// Returns true if the link had a wake-up since the last call.
    pub fn was_rung(&mut self) -> bool {
        std::mem::take(&mut self.rung)
    }
}

impl Drop for MemifSocket {
    fn drop(&mut self) {
        self.session.iter().for_each(|session| session.end("falaj ends"));
        if self.listener.is_some() && !is_abstract(&self.path) {
            let _ = fs::unlink(&self.path);
        }
    }
}

impl AsFd for MemifSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}
