//! An existing interface, seen through a packet socket.
//!
//! With the virtio-net header (`PACKET_VNET_HDR`) the kernel notes the unfinished work of each
//! frame, as it does at a TAP: units of many packets and unfinished checksums are passed on
//! unchanged. Without the header TCP fails across veth, while ping works.
//!
//! Ordinary frames are read from a ring shared with the kernel (`TPACKET_V2`), which saves a system
//! call for each. Version 3 is not used, because it would wait a millisecond for its blocks to
//! fill. Longer units are read from the socket's queue; the ring marks them. Frames are sent one at
//! a time, when they are due. Two other ways were not measurably faster: several frames in one call
//! (`sendmmsg`), and bypassing the queueing discipline (`PACKET_QDISC_BYPASS`), which would also
//! hide frames from `tcpdump`.

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
pub(crate) use self::sys::bind;

use crate::backend::followed::FollowedInterface;
use crate::backend::frame;
use crate::backend::name::InterfaceState;
use crate::backend::port::{Port, PortHandover, Received};
use crate::backend::tap::Tap;
use crate::error::SetupStep;
use sys::PacketRing;

/// Size in bytes of the socket's receive queue, and of its send buffer.
const ROOM: usize = 8 << 20;

/// A packet socket at an interface. It receives the frames that arrive at the interface, and sends
/// frames out there. It does not receive frames that other programs send.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    /// The interface's name at opening.
    interface: String,
    promiscuous: bool,
    /// The interface as it was at the last check.
    bound: Mutex<FollowedInterface>,
    /// Number of units for which the kernel had no room, as of the last query.
    unread: AtomicU64,
    /// The claim that excludes other forwarders at this interface.
    claim: Option<[OwnedFd; 2]>,
}

impl PacketSocket {
    /// Returns a port at this socket.
    ///
    /// # Errors
    /// The kernel's error: a receive ring cannot be mapped.
    pub fn reader_port(self: &Arc<Self>) -> io::Result<PacketPort> {
        Ok(PacketPort::new(PacketReader::new(Arc::clone(self))?))
    }

    /// Creates and sets up a socket at an interface of the process's current network namespace.
    pub(crate) fn make(interface: &str, promiscuous: bool) -> Result<OwnedFd, (SetupStep, Errno)> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // The socket has no protocol, so that it receives nothing before it is bound.
        let socket = socket::socket(AddressFamily::Packet, SockType::Raw, flags, None);
        let socket = socket.map_err(|errno| (SetupStep::PacketSocket, errno))?;
        let fd = socket.as_fd();
        let index =
            crate::sys::index(fd, interface).map_err(|errno| (SetupStep::FindInterface, errno))?;
        set_up(fd).map_err(|errno| (SetupStep::PacketOptions, errno))?;
        attach(fd, index, promiscuous).map_err(|errno| (SetupStep::FindInterface, errno))?;
        Ok(socket)
    }

    /// Waits until an interface that was just brought up can send frames; then its peer can send
    /// too. Before that the kernel drops frames. The wait is at most about one second: on a very
    /// busy machine the first packets may be lost. `socket` may be any socket of the network
    /// namespace.
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

    /// Takes over a socket that `make` has created, in this or another process.
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

    /// The socket with a claim on the interface.
    pub(crate) fn claimed(self, claim: [OwnedFd; 2]) -> PacketSocket {
        PacketSocket { claim: Some(claim), ..self }
    }

    /// The descriptors that another process needs to take over the socket, if the socket has a
    /// claim: the socket itself, and the two claims.
    pub fn descriptors(&self) -> Option<[BorrowedFd<'_>; 3]> {
        let [name, number] = self.claim.as_ref()?;
        Some([self.socket.as_fd(), name.as_fd(), number.as_fd()])
    }

    /// The interface's name at opening.
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

    /// The interface's number, which is unique in a network namespace.
    pub fn index(&self) -> i32 {
        self.bound().index
    }

    /// Checks the state of the interface, even if it was renamed. If it is gone, binds to an
    /// interface with its original name, if there is one. Returns the state if it has changed.
    pub fn look(&self) -> Option<InterfaceState> {
        let mut bound = self.bound();
        let mut now = bound.look(self.as_fd(), &self.interface);
        // If this is another interface, the kernel has dropped the settings of the earlier one.
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

    /// The interface's name at the last check, if it differs from the original name.
    pub fn renamed(&self) -> Option<String> {
        self.bound().other_name(&self.interface)
    }

    /// Number of units that were not read in time, since the socket was created.
    pub fn unread(&self) -> u64 {
        // The kernel resets its counter at each query.
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

    /// Sends one unit, header included; returns false if the kernel did not accept it: no room or
    /// memory now, or the interface is down or gone.
    ///
    /// # Errors
    /// The error of `sendmsg(2)`: `EINVAL` for a header that does not fit its frame, `EMSGSIZE` for
    /// a frame longer than the MTU.
    pub fn send(&self, unit: &[u8]) -> io::Result<bool> {
        match self.offer(unit) {
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => Ok(false),
            sent => Ok(sent?),
        }
    }

    /// Like [`send`](PacketSocket::send), but lack of room or memory is an error.
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
                // As after unplugging a cable: the interface may come back, and sending continues.
                Err(Errno::ENETDOWN | Errno::ENXIO | Errno::ENODEV) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Limits the bytes that wait at the interface. The kernel doubles the limit, to allow for the
    /// overhead of packets, and has a minimum for it.
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

/// Bytes of the socket's virtio-net header, which lacks the field with the number of buffers. With
/// `PACKET_VNET_HDR_SZ` it would be as long as a TAP's, but then Linux 6.18 writes it into the ring
/// two bytes too late.
const HEADER: usize = 10;

/// Sets all options that must be set before the socket is bound.
fn set_up(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    sys::set(socket, libc::PACKET_VNET_HDR, 1)?;
    sys::set(socket, libc::PACKET_IGNORE_OUTGOING, 1)?;
    sys::set(socket, libc::PACKET_AUXDATA, 1)?;
    // Frames that are too long for the ring go to the queue.
    sys::set(socket, libc::PACKET_COPY_THRESH, 1)?;
    // A privileged process may exceed the system's limit on buffers. If no larger buffer is
    // allowed, more units may be lost; they are counted.
    if setsockopt(&socket, sockopt::RcvBufForce, &ROOM).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &ROOM);
    }
    if setsockopt(&socket, sockopt::SndBufForce, &ROOM).is_err() {
        let _ = setsockopt(&socket, sockopt::SndBuf, &ROOM);
    }
    sys::set_up_ring(socket)
}

/// Binds a socket to interface `index`, with frames for other Ethernet addresses if `promiscuous`;
/// the kernel ends that mode with the socket or the interface.
fn attach(socket: BorrowedFd<'_>, index: c_int, promiscuous: bool) -> Result<(), Errno> {
    sys::bind(socket, index)?;
    if promiscuous { self::promiscuous(socket, index) } else { Ok(()) }
}

/// Makes an interface accept frames for other Ethernet addresses as long as the socket and the
/// interface exist.
pub(crate) fn promiscuous(socket: BorrowedFd<'_>, index: c_int) -> Result<(), Errno> {
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sys::set(socket, libc::PACKET_ADD_MEMBERSHIP, membership)
}

/// Reads the units that arrive at an interface.
#[derive(Debug)]
pub struct PacketReader {
    ring: PacketRing,
    socket: Arc<PacketSocket>,
    /// Number of consecutive reads without a unit.
    nothing: u32,
}

/// Number of consecutive empty reads after which a pending error of the socket is cleared. Such an
/// error would wake the event loop again and again.
const EMPTY_READS: u32 = 64;

impl PacketReader {
    /// The reader of a socket. A socket can have only one reader.
    ///
    /// # Errors
    /// The receive ring cannot be mapped.
    pub fn new(socket: Arc<PacketSocket>) -> io::Result<PacketReader> {
        Ok(PacketReader { ring: PacketRing::map(socket.as_fd())?, socket, nothing: 0 })
    }

    /// Reads one unit and returns its length in bytes, header included; `None` if there is none
    /// now. Pass a buffer of [`Tap::MAX_UNIT`] bytes.
    ///
    /// # Errors
    /// An error concerns one unit, which is lost: `EMSGSIZE` if it is longer than the buffer,
    /// `EINVAL` if no virtio-net header can describe its unfinished work.
    pub fn read(&mut self, unit: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let Some(frame) = self.ring.front(HEADER) else {
                self.nothing += 1;
                if self.nothing == EMPTY_READS {
                    self.nothing = 0;
                    // The pending error says that the interface went down; the monitor reports that
                    // too.
                    let _ = getsockopt(&self.socket.socket, sockopt::SocketError);
                }
                return Ok(None);
            };
            self.nothing = 0;
            let read = if frame.queued {
                // The first call may return a pending error (the interface went down) instead of
                // the unit.
                Some(self.socket.receive(unit).or_else(|_| self.socket.receive(unit)))
            } else if frame.cut {
                None
            } else {
                Some(copy(frame, unit))
            };
            self.ring.pop();
            match read {
                Some(Err(Errno::EAGAIN)) | None => {
                    // The socket's queue had no room for the unit.
                    self.socket.unread.fetch_add(1, Ordering::Relaxed);
                }
                Some(read) => return Ok(Some(read?)),
            }
        }
    }
}

/// Copies a complete frame out of the ring.
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
/// The port never reports that it is gone: an interface may come back, and [`PacketSocket::look`]
/// binds to it again.
#[derive(Debug)]
pub struct PacketPort {
    reader: PacketReader,
    /// True if the interface's device paces a link.
    is_paced: bool,
}

impl PacketPort {
    /// The port of this reader's interface.
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

    /// The kernel charges packets in the interface's queueing discipline to the socket, so the
    /// socket has room when the device has room.
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
