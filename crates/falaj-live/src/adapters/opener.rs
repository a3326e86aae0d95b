//! The process that opens adapters' ports once the link runs. It is separate from the link's
//! process, which created it when it still had a single thread.
//!
//! Only a single-threaded process can enter other network namespaces, and the link's process has
//! several threads. A caller that has given up the privileges for opening can still send requests
//! to the opener. A request is a line of words on a socket that only the link's own process can
//! reach. For each request the opener makes a copy of itself, which executes the request, so that
//! the opener stays in its namespace.

use super::spaces::{self, Addresses, Space};
use crate::backend::batch::start_apart;
use crate::backend::packet::open::{claimed, take_over};
use crate::backend::packet::{PacketPort, PacketSocket};
use crate::backend::tap::{Tap, TapPort};
use crate::backend::{InterfaceName, Monitor};
use crate::error::{Error, SetupStep};
use crate::netns::enter;
use crate::process::{self, Cloned, run_apart, wait};
use crate::sandbox::control::{self, SideMessage, SideReply};
use crate::sandbox::{INTERFACE, tap_in_place};
use crate::sys;
use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, recv, send, setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;

/// Time to wait for an answer of the opener, in seconds. After a timeout the opener cannot be used
/// any more.
const PATIENCE: i64 = 5;

/// Signals that the opener ignores, because they are meant for the link's process.
const IGNORED: [i32; 3] = [nix::libc::SIGINT, nix::libc::SIGTERM, nix::libc::SIGHUP];

/// Maximum length of a request in bytes; it suffices, since names of interfaces are short.
const LINE: usize = 512;

type Failure = (SetupStep, Errno);

/// The process that opens ports.
#[derive(Debug)]
pub struct Opener {
    socket: OwnedFd,
    process: Cloned,
}

/// An opened interface; any thread may open it for the link's thread.
pub struct OpenedInterface {
    /// The interface's packet socket.
    pub socket: Arc<PacketSocket>,
    /// A port at that socket.
    pub port: PacketPort,
    /// The monitor of the interface's changes.
    pub monitor: Monitor,
}

impl OpenedInterface {
    /// Takes over the four descriptors that another process has opened: the packet socket, the
    /// monitor, and the two sockets of the claim.
    ///
    /// # Errors
    /// The interface is gone, or `opened` does not hold these four descriptors.
    pub fn adopt(place: &InterfaceName, opened: Vec<OwnedFd>) -> Result<OpenedInterface, Error> {
        let failed = |(step, errno)| Error::new(step, None, errno);
        let (socket, monitor) = take_over(opened, &place.interface, true).map_err(failed)?;
        let socket = Arc::new(socket);
        let port = socket.reader_port().map_err(|error| {
            let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
            failed((SetupStep::Interface, errno))
        })?;
        Ok(OpenedInterface { socket, port, monitor })
    }
}

/// Takes over the TAP of an adapter, which another process has opened. Returns a port at the TAP,
/// and its Ethernet address.
///
/// # Errors
/// The descriptor is not a TAP's.
pub fn adopt_tap(tap: OwnedFd, name: &str) -> Result<(TapPort, [u8; 6]), Error> {
    let tap = Tap::adopt(tap);
    // A TAP that was kept from an earlier link still has its Ethernet address.
    let mac = tap.mac().map_err(|errno| Error::new(SetupStep::CreateTap, None, errno))?;
    Ok((TapPort::new(format!("interface of {name}"), tap), mac))
}

/// A TAP to be created in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapWanted {
    /// The namespace.
    pub space: Space,
    /// The subnet.
    pub at: Addresses,
    /// MTU of the TAP, in bytes.
    pub mtu: u16,
    /// True if the TAP is kept, without a carrier, when the link's process ends. A TAP that was
    /// kept earlier is then reused.
    pub stays: bool,
}

impl Drop for Opener {
    fn drop(&mut self) {
        // No further requests are possible.
        let _ =
            nix::sys::socket::shutdown(self.socket.as_raw_fd(), nix::sys::socket::Shutdown::Both);
        // A stopped process would not end without this signal.
        let _ = kill(Pid::from_raw(self.process.pid), Signal::SIGKILL);
        wait(&self.process);
    }
}

impl Opener {
    /// Starts the opener. The caller must be single-threaded. The opener begins with copies of the
    /// caller's descriptors, and closes them first of all.
    ///
    /// # Errors
    /// No other process can be created now.
    pub fn start() -> Result<Opener, Error> {
        Opener::start_for(Vec::new())
    }

    /// Starts the opener as [`Opener::start`] does, and gives it a command for
    /// `start_command`; the first word is the program.
    ///
    /// # Errors
    /// As [`Opener::start`].
    pub fn start_for(command: Vec<OsString>) -> Result<Opener, Error> {
        let failed = |step| move |errno| Error::new(step, None, errno);
        let (ours, theirs) = control::pair().map_err(failed(SetupStep::Sockets))?;
        setsockopt(&ours, ReceiveTimeout, &TimeVal::seconds(PATIENCE))
            .map_err(failed(SetupStep::Sockets))?;
        let process = process::clone_process(CloneFlags::empty(), || {
            process::close_all_but(&mut [theirs.as_raw_fd()]);
            // The opener ends with the link's process, and not before: signals of a terminal or a
            // service manager are for that process.
            for signal in IGNORED {
                process::ignore_if_default(signal);
            }
            open_for(&theirs, &command);
            0
        });
        Ok(Opener { socket: ours, process: process.map_err(failed(SetupStep::Namespaces))? })
    }

    /// Opens a packet socket at an interface, with a port, and the monitor of its changes.
    ///
    /// # Errors
    /// The step that failed, its cause, and a remedy.
    pub fn interface(&self, place: &InterfaceName) -> Result<OpenedInterface, Error> {
        OpenedInterface::adopt(place, self.ask(&format!("packet {place}"))?)
    }

    /// Creates a TAP in an existing namespace, or reuses the TAP that was kept there; also returns
    /// its Ethernet address.
    ///
    /// # Errors
    /// As for [`interface`](Opener::interface).
    pub fn tap(&self, wanted: &TapWanted, name: &str) -> Result<(TapPort, [u8; 6]), Error> {
        let TapWanted { space, at, mtu, stays } = wanted;
        let namespace = space.namespace.as_deref().unwrap_or_default();
        // Place 0 in the request means that the namespace has no place in the subnet.
        let (place, number) = (space.place.unwrap_or(0), at.number());
        let mac = u64::from_be_bytes(std::array::from_fn(|n| {
            n.checked_sub(2).map_or(0, |n| space.mac[n])
        }));
        let mut opened =
            self.ask(&format!("tap {namespace} {mac} {place} {number} {mtu} {stays}"))?;
        let opened = opened.pop();
        adopt_tap(
            opened.ok_or_else(|| Error::new(SetupStep::CreateTap, None, Errno::EPROTO))?,
            name,
        )
    }

    /// The Ethernet address of a TAP that was kept in a namespace, if there is one.
    ///
    /// # Errors
    /// There is no such namespace, or entering it is not allowed.
    pub fn stayed(&self, namespace: &str) -> Result<Option<[u8; 6]>, Error> {
        let socket = self.ask(&format!("socket {namespace}"))?.pop();
        let failed = |errno| Error::new(SetupStep::HandOver, None, errno);
        let socket = socket.ok_or_else(|| failed(Errno::EPROTO))?;
        match sys::mac(socket.as_fd(), INTERFACE) {
            Ok(mac) => Ok(Some(mac)),
            Err(Errno::ENODEV) => Ok(None),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Starts the command given to [`Opener::start_for`]. The new process is not a child of this
    /// one.
    ///
    /// # Errors
    /// The command cannot be started, or none was given.
    pub fn start_command(&self) -> Result<(), Error> {
        self.ask("start").map(drop)
    }

    /// Starts a guest (`falaj aggregate guest`) with this batch policy, and returns the link's end
    /// of the pair of sockets between them. The guest is no child of this process, and ends when
    /// the link's end is closed.
    ///
    /// # Errors
    /// The guest cannot be started.
    pub fn guest(&self, batches: &str) -> Result<OwnedFd, Error> {
        // Words of a request are separated by spaces.
        let batches: String = batches.split_whitespace().collect();
        let line = self.ask(&format!("guest {batches}"))?.pop();
        line.ok_or_else(|| Error::new(SetupStep::Program, None, Errno::EPROTO))
    }

    fn ask(&self, line: &str) -> Result<Vec<OwnedFd>, Error> {
        let failed = |errno| Error::new(SetupStep::HandOver, None, errno);
        if line.len() > LINE {
            return Err(failed(Errno::ENAMETOOLONG));
        }
        send(self.socket.as_raw_fd(), line.as_bytes(), MsgFlags::MSG_NOSIGNAL).map_err(failed)?;
        let mut opened = Vec::new();
        loop {
            match control::receive(&self.socket, true).map_err(failed)? {
                // An answer that comes later would be taken for the answer to the next request, so
                // the socket is shut down.
                SideReply::Nothing => {
                    let fd = self.socket.as_raw_fd();
                    let _ = nix::sys::socket::shutdown(fd, nix::sys::socket::Shutdown::Both);
                    return Err(failed(Errno::ETIMEDOUT));
                }
                SideReply::Message(SideMessage::Ready, Some(fd)) => opened.push(fd),
                SideReply::Message(SideMessage::Go, _) => return Ok(opened),
                SideReply::Message(SideMessage::Failed(step, errno), _) => {
                    return Err(Error { step, end: None, errno });
                }
                _ => return Err(failed(Errno::EPIPE)),
            }
        }
    }
}

/// Executes requests until the other side has closed the socket.
fn open_for(socket: &OwnedFd, command: &[OsString]) {
    let mut line = [0; LINE];
    loop {
        let length = match recv(socket.as_raw_fd(), &mut line, MsgFlags::empty()) {
            Err(Errno::EINTR) => continue,
            Ok(length) if length > 0 => length,
            _ => return,
        };
        let text = String::from_utf8_lossy(&line[..length]).into_owned();
        let done = run_apart(|| {
            let opened = if text == "start" { start(command) } else { open(&text) };
            let last = match opened {
                Ok(opened) => {
                    let sent = opened.iter().try_for_each(|fd| {
                        control::send(socket, SideMessage::Ready, Some(fd.as_fd()))
                    });
                    sent.map_or_else(
                        |errno| SideMessage::Failed(SetupStep::HandOver, errno as i32),
                        |()| SideMessage::Go,
                    )
                }
                Err((step, errno)) => SideMessage::Failed(step, errno as i32),
            };
            // If the answer cannot be sent, the caller is gone.
            let _ = control::send(socket, last, None);
        });
        if let Err(Error { step, errno, .. }) = done {
            let _ = control::send(socket, SideMessage::Failed(step, errno), None);
        }
    }
}

/// The failure to start a program.
fn not_started(error: &std::io::Error) -> Failure {
    (SetupStep::Program, Errno::from_raw(error.raw_os_error().unwrap_or_default()))
}

/// Starts a command that outlives this copy of the opener.
fn start(command: &[OsString]) -> Result<Vec<OwnedFd>, Failure> {
    let (program, words) = command.split_first().ok_or((SetupStep::Program, Errno::EINVAL))?;
    IGNORED.iter().for_each(|&signal| process::restore_default(signal));
    let mut command = Command::new(program);
    process::start_unblocked(command.args(words));
    command.spawn().map_err(|error| not_started(&error))?;
    Ok(Vec::new())
}

/// Starts a guest that outlives this copy of the opener; returns the link's end of their sockets.
fn guest(batches: &str) -> Result<Vec<OwnedFd>, Failure> {
    let started = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        process::start_unblocked(command.args(["aggregate", "guest", batches]));
        start_apart(command)
    });
    Ok(vec![started.map_err(|error| not_started(&error))?])
}

fn open(line: &str) -> Result<Vec<OwnedFd>, Failure> {
    let wrong = || (SetupStep::HandOver, Errno::EINVAL);
    let words: Vec<&str> = line.split(' ').collect();
    let go = |namespace: &str| enter(namespace).map_err(|errno| (SetupStep::EnterNamespace, errno));
    match words[..] {
        ["packet", place] => {
            let place: InterfaceName = place.parse().map_err(|_| wrong())?;
            place.namespace.as_deref().map_or(Ok(()), go)?;
            claimed(&place.interface, true)
        }
        ["tap", namespace, mac, place, number, mtu, stays] => {
            let [_, _, mac @ ..] = mac.parse::<u64>().map_err(|_| wrong())?.to_be_bytes();
            let place = Some(place.parse().map_err(|_| wrong())?).filter(|&place| place > 0);
            let space = Space { namespace: Some(namespace.to_owned()), mac, place };
            let at = Addresses::numbered(number.parse().map_err(|_| wrong())?);
            let mtu = mtu.parse().map_err(|_| wrong())?;
            go(namespace)?;
            let attachment = spaces::attachment(&space, &[uplink(at), space.clone()], at, mtu);
            Ok(vec![tap_in_place(&attachment, stays == "true")?.into()])
        }
        ["guest", batches] => guest(batches),
        // A socket created in a namespace can query the interfaces of that namespace from anywhere.
        ["socket", namespace] => {
            go(namespace)?;
            let made =
                socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
            Ok(vec![made.map_err(|errno| (SetupStep::Interface, errno))?])
        }
        _ => Err(wrong()),
    }
}

fn uplink(at: Addresses) -> Space {
    Space::placed(None, at, Addresses::UPLINK)
}
