//! An existing interface, seen through a packet socket.
//!
//! With the virtio-net header (`PACKET_VNET_HDR`) the kernel says of each frame what is left to do,
//! as it does at a TAP: units of many packets and unfinished checksums are passed on as they are.
//! Without it TCP fails across veth, where ping does not. Ordinary frames are read from a ring
//! shared with the kernel (`TPACKET_V2`, which saves a system call for each; version 3 waits a
//! millisecond for its blocks to fill), longer units from the socket's queue: the ring says which.
//! Frames are sent one at a time, when they are due: many in one call (`sendmmsg`) were no faster
//! where that was measured, and nor was passing over the queueing discipline
//! (`PACKET_QDISC_BYPASS`), which would hide them from `tcpdump`.

mod claim;
pub(crate) mod open;
mod sys;
mod vlan;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::{self, c_int};
use nix::sys::socket::{
    self, AddressFamily, MsgFlags, SockFlag, SockType, getsockopt, setsockopt, sockopt,
};

pub(crate) use self::claim::claim;
pub use self::open::open;

use crate::backend::followed::FollowedInterface;
use crate::backend::frame;
use crate::backend::name::InterfaceState;
use crate::backend::port::{Port, PortHandover, Received};
use crate::backend::tap::Tap;
use crate::error::SetupStep;
use sys::PacketRing;

/// Bytes of units that may wait in the socket's queue, or be on their way out.
const ROOM: usize = 8 << 20;

/// A packet socket at an interface. What comes in there it receives, what it sends goes out there;
/// what others send out there it does not see.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    /// The name that it was asked for by.
    interface: String,
    promiscuous: bool,
    /// The interface as it was when last looked at.
    bound: Mutex<FollowedInterface>,
    /// Units that the kernel had no room for, as far as it was asked.
    unread: AtomicU64,
    /// Nobody else forwards at this interface.
    claim: Option<[OwnedFd; 2]>,
}

impl PacketSocket {
    /// A port at it.
    ///
    /// # Errors
    /// What the kernel says: a receive ring cannot be mapped.
    pub fn reader_port(self: &Arc<Self>) -> io::Result<PacketPort> {
        Ok(PacketPort::new(PacketReader::new(Arc::clone(self))?))
    }

    /// Makes and sets up a socket at an interface of the network namespace that the process is in
    /// now.
    pub(crate) fn make(interface: &str, promiscuous: bool) -> Result<OwnedFd, (SetupStep, Errno)> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // Of no protocol: nothing comes in before it is bound.
        let socket = socket::socket(AddressFamily::Packet, SockType::Raw, flags, None);
        let socket = socket.map_err(|errno| (SetupStep::PacketSocket, errno))?;
        let fd = socket.as_fd();
        let index =
            crate::sys::index(fd, interface).map_err(|errno| (SetupStep::FindInterface, errno))?;
        set_up(fd).map_err(|errno| (SetupStep::PacketOptions, errno))?;
        attach(fd, index, promiscuous).map_err(|errno| (SetupStep::FindInterface, errno))?;
        Ok(socket)
    }

    /// Waits until an interface that was just brought up, and so its peer, sends what it is given;
    /// until then the kernel throws it away. Not for long: on a machine that is so busy the
    /// first packets may be lost. Any socket of its network namespace does to ask by.
    pub(crate) fn await_carrier(socket: BorrowedFd<'_>, interface: &str) {
        for _ in 0..1000 {
            if crate::sys::flags(socket, interface)
                .is_ok_and(|flags| flags & libc::IFF_RUNNING != 0)
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes over a socket that `make` made, be it in another process.
    pub(crate) fn adopt(
        socket: OwnedFd,
        interface: &str,
        promiscuous: bool,
    ) -> Result<PacketSocket, (SetupStep, Errno)> {
        let adopted = PacketSocket {
            socket,
            interface: interface.to_owned(),
            promiscuous,
            bound: Mutex::new(FollowedInterface::gone(interface)),
            unread: AtomicU64::new(0),
            claim: None,
        };
        let now = FollowedInterface::called(adopted.as_fd(), interface);
        *adopted.bound() = now.map_err(|errno| (SetupStep::FindInterface, errno))?;
        Ok(adopted)
    }

    /// The same with a claim on the interface.
    pub(crate) fn claimed(self, claim: [OwnedFd; 2]) -> PacketSocket {
        PacketSocket { claim: Some(claim), ..self }
    }

    /// What another process needs to take it over, if an interface is claimed by it: the socket
    /// itself, and the claims.
    pub fn descriptors(&self) -> Option<[BorrowedFd<'_>; 3]> {
        let [name, number] = self.claim.as_ref()?;
        Some([self.socket.as_fd(), name.as_fd(), number.as_fd()])
    }

    /// The interface's name, as it was asked for.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    fn bound(&self) -> MutexGuard<'_, FollowedInterface> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interface's largest IP packet.
    pub fn mtu(&self) -> io::Result<u32> {
        Ok(crate::sys::mtu(self.as_fd(), &self.bound().name)?.unsigned_abs())
    }

    /// The interface's number; it tells interfaces of one network namespace apart.
    pub fn index(&self) -> i32 {
        self.bound().index
    }

    /// Looks how the interface is, whatever it is called by now, and takes one of the name that was
    /// asked for where it is gone; says how it is if that has changed.
    pub fn look(&self) -> Option<InterfaceState> {
        let mut bound = self.bound();
        let mut now = bound.look(self.as_fd(), &self.interface);
        // Another interface: the kernel has forgotten all that was asked for the first one.
        if now.index >= 0
            && now.index != bound.index
            && attach(self.as_fd(), now.index, self.promiscuous).is_err()
        {
            now = FollowedInterface::gone(&self.interface);
        }
        let changed = bound.differs(&now).then_some(now.state);
        *bound = now;
        changed
    }

    /// The interface's name at the last look, if it was asked for by another one.
    pub fn renamed(&self) -> Option<String> {
        self.bound().other_name(&self.interface)
    }

    /// Units that nobody read in time, since the socket was made.
    pub fn unread(&self) -> u64 {
        // The kernel begins anew each time it is asked.
        if let Ok(since) = sys::get::<libc::tpacket_stats>(self.as_fd(), libc::PACKET_STATISTICS) {
            self.unread.fetch_add(since.tp_drops.into(), Ordering::Relaxed);
        }
        self.unread.load(Ordering::Relaxed)
    }

    /// Reads a unit from the socket's queue.
    fn receive(&self, unit: &mut [u8]) -> Result<usize, Errno> {
        let (head, frame) = unit.split_at_mut(Tap::VNET_HEADER);
        let (length, tag) = sys::receive(self.as_fd(), &mut head[..HEADER], frame)?;
        head[HEADER..].fill(0);
        let length = length.saturating_sub(HEADER) + Tap::VNET_HEADER;
        if length > unit.len() {
            return Err(Errno::EMSGSIZE);
        }
        vlan::put_back(unit, length, tag)
    }

    /// Sends one unit, header included; `false` if the kernel did not take it: no room or memory
    /// now, or the interface is down or gone.
    ///
    /// # Errors
    /// What `sendmsg(2)` says: `EINVAL` for a header that does not fit its frame, `EMSGSIZE` for a
    /// frame beyond the mtu.
    pub fn send(&self, unit: &[u8]) -> io::Result<bool> {
        match self.offer(unit) {
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => Ok(false),
            sent => Ok(sent?),
        }
    }

    /// The same, but it is an error if there is no room or memory now.
    fn offer(&self, unit: &[u8]) -> Result<bool, Errno> {
        let Some((head, frame)) = unit.split_at_checked(Tap::VNET_HEADER) else { return Ok(false) };
        let parts = [io::IoSlice::new(&head[..HEADER]), io::IoSlice::new(frame)];
        loop {
            match socket::sendmsg::<()>(
                self.socket.as_raw_fd(),
                &parts,
                &[],
                MsgFlags::MSG_DONTWAIT,
                None,
            ) {
                Ok(_) => return Ok(true),
                Err(Errno::EINTR) => {}
                // Somebody pulled the cable. It may come back, and then all goes on.
                Err(Errno::ENETDOWN | Errno::ENXIO | Errno::ENODEV) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// What it sends may wait for the interface up to so many bytes; the kernel doubles that for
    /// what each packet takes beside its bytes, and lets a few wait whatever is said.
    fn set_room(&self, bytes: usize) -> Result<(), Errno> {
        setsockopt(&self.socket, sockopt::SndBufForce, &bytes)
            .or_else(|_| setsockopt(&self.socket, sockopt::SndBuf, &bytes))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Bytes of the socket's vnet header, which has no number of buffers. With `PACKET_VNET_HDR_SZ` it
/// would be as long as a TAP's, but what Linux 6.18 writes into the ring then begins two bytes
/// late.
const HEADER: usize = 10;

/// All that a socket is told before it is bound.
fn set_up(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    sys::set(socket, libc::PACKET_VNET_HDR, 1)?;
    sys::set(socket, libc::PACKET_IGNORE_OUTGOING, 1)?;
    sys::set(socket, libc::PACKET_AUXDATA, 1)?;
    // What is too long for the ring goes to the queue.
    sys::set(socket, libc::PACKET_COPY_THRESH, 1)?;
    // A privileged process may go beyond the system's limit; where neither is allowed, what is lost
    // is counted.
    if setsockopt(&socket, sockopt::RcvBufForce, &ROOM).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &ROOM);
    }
    if setsockopt(&socket, sockopt::SndBufForce, &ROOM).is_err() {
        let _ = setsockopt(&socket, sockopt::SndBuf, &ROOM);
    }
    sys::set_up_ring(socket)
}

/// Binds a socket to interface `index`, with frames for other Ethernet addresses if it is to be
/// `promiscuous`; the kernel ends that with the socket, or with the interface.
fn attach(socket: BorrowedFd<'_>, index: c_int, promiscuous: bool) -> Result<(), Errno> {
    sys::bind(socket, index)?;
    if promiscuous { self::promiscuous(socket, index) } else { Ok(()) }
}

/// Has an interface take frames for other Ethernet addresses as long as the socket, or the
/// interface, is there.
pub(crate) fn promiscuous(socket: BorrowedFd<'_>, index: c_int) -> Result<(), Errno> {
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sys::set(socket, libc::PACKET_ADD_MEMBERSHIP, membership)
}

/// What comes in at an interface, unit by unit.
#[derive(Debug)]
pub struct PacketReader {
    ring: PacketRing,
    socket: Arc<PacketSocket>,
    /// How often in a row there was nothing.
    nothing: u32,
}

/// So often may there be nothing until the socket is asked for an error, which would wake us for
/// ever.
const PATIENCE: u32 = 64;

impl PacketReader {
    /// A socket has one reader.
    ///
    /// # Errors
    /// The receive ring cannot be mapped.
    pub fn new(socket: Arc<PacketSocket>) -> io::Result<PacketReader> {
        Ok(PacketReader { ring: PacketRing::map(socket.as_fd())?, socket, nothing: 0 })
    }

    /// Reads one unit and says its length in bytes, header included; `None` if there is none now.
    /// Give [`Tap::MAX_UNIT`] bytes.
    ///
    /// # Errors
    /// What concerns one unit, which is lost: `EMSGSIZE` if it is longer than that, `EINVAL` if the
    /// kernel has no header for what is left to do.
    pub fn read(&mut self, unit: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let Some(frame) = self.ring.front(HEADER) else {
                self.nothing += 1;
                if self.nothing == PATIENCE {
                    self.nothing = 0;
                    // The interface went down, of which whoever looks after it hears in another
                    // way.
                    let _ = getsockopt(&self.socket.socket, sockopt::SocketError);
                }
                return Ok(None);
            };
            self.nothing = 0;
            let read = if frame.queued {
                // The news that the interface went down may stand before the unit.
                Some(self.socket.receive(unit).or_else(|_| self.socket.receive(unit)))
            } else if frame.cut {
                None
            } else {
                Some(copy(frame, unit))
            };
            self.ring.pop();
            match read {
                Some(Err(Errno::EAGAIN)) | None => {
                    // There was no room for it in the queue.
                    self.socket.unread.fetch_add(1, Ordering::Relaxed);
                }
                Some(read) => return Ok(Some(read?)),
            }
        }
    }
}

/// Copies a whole frame out of the ring.
fn copy(frame: sys::RingFrame<'_>, unit: &mut [u8]) -> Result<usize, Errno> {
    let (head, rest) = frame.bytes.split_at_checked(HEADER).ok_or(Errno::EBADMSG)?;
    let length = Tap::VNET_HEADER + rest.len();
    unit.get_mut(Tap::VNET_HEADER..length).ok_or(Errno::EMSGSIZE)?.copy_from_slice(rest);
    unit[..HEADER].copy_from_slice(head);
    unit[HEADER..Tap::VNET_HEADER].fill(0);
    vlan::put_back(unit, length, frame.tag)
}

/// A port at an existing interface.
///
/// It never says that it is gone: an interface may come back, and [`PacketSocket::look`] takes it
/// again.
#[derive(Debug)]
pub struct PacketPort {
    reader: PacketReader,
    /// The device paces a link.
    is_paced: bool,
}

impl PacketPort {
    /// Of the interface that is read there.
    pub fn new(reader: PacketReader) -> PacketPort {
        PacketPort { reader, is_paced: false }
    }
}

impl Port for PacketPort {
    fn name(&self) -> String {
        format!("The interface {}", self.reader.socket.bound().name)
    }

    fn longest(&self) -> usize {
        Tap::MAX_UNIT
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Some(length) = self.reader.read(buffer)? else { return Ok(None) };
        Ok(Some(frame::received(&buffer[..length])))
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        if self.is_paced {
            Ok(self.reader.socket.offer(unit)?)
        } else {
            self.reader.socket.send(unit)
        }
    }

    fn says_room(&self) -> bool {
        true
    }

    /// What waits in the interface's queueing discipline is charged to the socket, which so has
    /// room as the device has.
    fn pace(&mut self, backlog: Option<u32>) -> io::Result<()> {
        self.is_paced = backlog.is_some();
        Ok(self.reader.socket.set_room(backlog.map_or(ROOM, |bytes| bytes as usize))?)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.reader.socket.as_fd()
    }
}

impl PortHandover for PacketPort {
    fn position(&self) -> u64 {
        self.reader.ring.position() as u64
    }

    fn resume_at(&mut self, position: u64) {
        self.reader.ring.resume_at(position as usize);
    }
}
