//! An existing interface, seen through an AF_XDP socket: requires root, and is the cheapest backend
//! for small packets.
//!
//! An XDP program of six instructions at the interface passes arriving frames to the socket, before
//! the host's network stack sees them. Frames are copied into memory shared with the kernel, and
//! out of it. So the driver needs support for XDP only, not for AF_XDP. Without support for XDP the
//! kernel runs the program after the driver (generic mode).
//!
//! Frames have no virtio-net header, which elsewhere describes work that was left to the receiver
//! (offloads). So falaj completes such work here, or refuses the interface:
//!
//! | work left to the receiver | handling |
//! |---|---|
//! | checksums | computed when the frame is read: see [`complete`] |
//! | segmentation: units of many packets | a veth interface makes none while its driver runs the program, and is refused otherwise |
//! | frames longer than a chunk | an MTU that would allow them is refused |
//! | several receive queues | refused, because one socket serves one queue |

mod checksum;
pub(crate) mod chunks;
mod sys;

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{self as sockets, AddressFamily, SockFlag, SockType, getsockopt, sockopt};

pub use self::checksum::complete;
pub use self::chunks::LARGEST_MTU;

use crate::backend::followed::FollowedInterface;
use crate::backend::monitor::Monitor;
use crate::backend::name::{InterfaceName, InterfaceState};
use crate::backend::port::{Port, PortHandover, Received};
use crate::backend::tap::Tap;
use crate::backend::{frame, packet};
use crate::error::{Error, SetupStep};
use crate::netns::made_in;
use chunks::{CHUNK, Chunks};
use sys::{Frames, Mapping, XdpRing};

/// Number of chunks for arriving frames, free or unread.
const RX_CHUNKS: u32 = 4096;
/// Number of chunks for frames that are being sent; a chunk is free again once the kernel has
/// copied its frame.
const TX_CHUNKS: u32 = 512;

/// An AF_XDP socket at an interface. It is the only receiver of frames that arrive there, and sends
/// frames there.
#[derive(Debug)]
pub struct XdpSocket {
    place: InterfaceName,
    /// Always the same descriptor, even if the socket is replaced.
    descriptor: OwnedFd,
    bound: RefCell<BoundInterface>,
    /// The claim that excludes other forwarders at this interface.
    _claim: [OwnedFd; 2],
}

#[derive(Debug)]
struct BoundInterface {
    /// A packet socket that receives nothing. It keeps the interface promiscuous while it is open,
    /// and queries about the interface go through it.
    control: OwnedFd,
    /// The interface as it was at the last check.
    interface: FollowedInterface,
    /// Program, memory and rings; `None` while the interface is gone.
    shared: Option<XdpMemory>,
    /// Number of frames that earlier sockets of this port have lost.
    lost: u64,
    /// Number of consecutive reads without a frame.
    nothing: u32,
}

/// The resources of one socket at one interface.
#[derive(Debug)]
struct XdpMemory {
    /// The program stays at the interface as long as this is open.
    _program: OwnedFd,
    chunks: Chunks,
}

/// Number of consecutive empty reads after which a pending error of the socket is cleared. Such an
/// error makes the socket readable all the time, and so would wake the event loop without end.
const EMPTY_READS: u32 = 64;

/// Checks that this process may load an XDP program and open an AF_XDP socket.
///
/// # Errors
/// The step that failed, its cause, and a remedy.
pub fn available() -> Result<(), Error> {
    let failed = |step| move |errno| Error::new(step, None, errno);
    sys::socket().map_err(failed(SetupStep::XdpSocket))?;
    let map = sys::map().map_err(failed(SetupStep::LoadProgram))?;
    sys::load(map.as_fd()).map(drop).map_err(failed(SetupStep::LoadProgram))
}

/// Opens a socket at an interface, with the monitor of its changes, as [`packet::open`] does. The
/// interface is promiscuous until the socket is dropped.
///
/// # Errors
/// The step that failed, its cause, and a remedy.
pub fn open(place: &InterfaceName) -> Result<(XdpSocket, Monitor), Error> {
    let monitor_and_socket = || {
        let monitor = Monitor::make().map_err(|errno| (SetupStep::Netlink, errno))?;
        let [name, number] = packet::claim(&place.interface)?;
        let made = make(&place.interface)?;
        Ok([monitor, name, number].into_iter().chain(made).collect())
    };
    let mut made = made_in(place.namespace.as_deref(), monitor_and_socket)?;
    let monitor = Monitor::adopt(made.remove(0));
    let claim = [made.remove(0), made.remove(0)];
    let (control, socket, shared, interface) = take(made, &place.interface)?;
    let bound = RefCell::new(BoundInterface {
        control,
        interface,
        shared: Some(shared),
        lost: 0,
        nothing: 0,
    });
    Ok((XdpSocket { place: place.clone(), descriptor: socket, bound, _claim: claim }, monitor))
}

/// Creates all that has to be created in the interface's network namespace: the control socket, the
/// AF_XDP socket, the map, and the attached program.
fn make(interface: &str) -> Result<Vec<OwnedFd>, (SetupStep, Errno)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    // The socket has no protocol, so it receives nothing.
    let control = sockets::socket(AddressFamily::Packet, SockType::Raw, flags, None);
    let control = control.map_err(|errno| (SetupStep::PacketSocket, errno))?;
    let asked = control.as_fd();
    let index =
        crate::sys::index(asked, interface).map_err(|errno| (SetupStep::FindInterface, errno))?;
    // A driver that does not report the number of queues is assumed to have one.
    if sys::queues(asked, interface).is_ok_and(|queues| queues > 1) {
        return Err((SetupStep::XdpQueues, Errno::from_raw(0)));
    }
    let mtu =
        crate::sys::mtu(asked, interface).map_err(|errno| (SetupStep::FindInterface, errno))?;
    if mtu.unsigned_abs() > LARGEST_MTU {
        return Err((SetupStep::XdpMtu, Errno::from_raw(0)));
    }
    packet::promiscuous(asked, index).map_err(|errno| (SetupStep::FindInterface, errno))?;
    let socket = sys::socket().map_err(|errno| (SetupStep::XdpSocket, errno))?;
    let map = sys::map().map_err(|errno| (SetupStep::LoadProgram, errno))?;
    let program = sys::load(map.as_fd()).map_err(|errno| (SetupStep::LoadProgram, errno))?;
    let number = index.unsigned_abs();
    let attached = match sys::attach(program.as_fd(), number, true) {
        Err(errno @ (Errno::EBUSY | Errno::EPERM)) => Err((SetupStep::AttachProgram, errno)),
        // In generic mode veth hands over units of many packets, which are longer than a chunk.
        Err(errno) if sys::is_veth(asked, interface) => Err((SetupStep::XdpUnits, errno)),
        Err(_) => sys::attach(program.as_fd(), number, false)
            .map_err(|errno| (SetupStep::AttachProgram, errno)),
        Ok(attached) => Ok(attached),
    };
    Ok(vec![control, socket, map, attached?])
}

/// Takes over the descriptors that [`make`] has created, in this or another process; memory and
/// rings belong to this process.
fn take(
    made: Vec<OwnedFd>,
    interface: &str,
) -> Result<(OwnedFd, OwnedFd, XdpMemory, FollowedInterface), Error> {
    let failed = |step| move |errno| Error::new(step, None, errno);
    let [control, socket, map, program] =
        <[OwnedFd; 4]>::try_from(made).map_err(|_| failed(SetupStep::XdpSocket)(Errno::EPROTO))?;
    let now = FollowedInterface::called(control.as_fd(), interface)
        .map_err(failed(SetupStep::FindInterface))?;
    let shared = XdpMemory::new(socket.as_fd(), program, now.index.unsigned_abs())
        .map_err(|(step, errno)| Error::new(step, None, errno))?;
    sys::put(map.as_fd(), socket.as_fd()).map_err(failed(SetupStep::BindXdp))?;
    Ok((control, socket, shared, now))
}

impl XdpMemory {
    /// Binds a socket to an interface, with memory of this process.
    fn new(
        socket: BorrowedFd<'_>,
        program: OwnedFd,
        index: u32,
    ) -> Result<XdpMemory, (SetupStep, Errno)> {
        let memory = |errno| (SetupStep::XdpMemory, errno);
        let rings = |errno| (SetupStep::XdpRings, errno);
        let length = CHUNK * (RX_CHUNKS + TX_CHUNKS) as usize;
        let frames = Frames(Mapping::new(length, None).map_err(memory)?);
        let about = libc::xdp_umem_reg {
            addr: frames.0.address(),
            len: length as u64,
            chunk_size: CHUNK as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        sys::set(socket, libc::XDP_UMEM_REG, about).map_err(memory)?;
        for (ring, size) in [
            (libc::XDP_UMEM_FILL_RING, RX_CHUNKS),
            (libc::XDP_UMEM_COMPLETION_RING, TX_CHUNKS),
            (libc::XDP_RX_RING, RX_CHUNKS),
            (libc::XDP_TX_RING, TX_CHUNKS),
        ] {
            sys::set(socket, ring, size as libc::c_int).map_err(rings)?;
        }
        let at: libc::xdp_mmap_offsets = sys::get(socket, libc::XDP_MMAP_OFFSETS).map_err(rings)?;
        let page = |page: libc::c_ulonglong| page as libc::off_t;
        let fill = XdpRing::new(socket, page(libc::XDP_UMEM_PGOFF_FILL_RING), &at.fr, RX_CHUNKS)
            .map_err(rings)?;
        let sent =
            XdpRing::new(socket, page(libc::XDP_UMEM_PGOFF_COMPLETION_RING), &at.cr, TX_CHUNKS)
                .map_err(rings)?;
        let received =
            XdpRing::new(socket, libc::XDP_PGOFF_RX_RING, &at.rx, RX_CHUNKS).map_err(rings)?;
        let send =
            XdpRing::new(socket, libc::XDP_PGOFF_TX_RING, &at.tx, TX_CHUNKS).map_err(rings)?;
        let chunks = Chunks::new(frames, [fill, sent], [received, send], (RX_CHUNKS, TX_CHUNKS));
        // An earlier socket at this interface may still be closing.
        let mut bound = Err(Errno::EBUSY);
        for _ in 0..200 {
            bound = sys::bind(socket, index);
            if bound != Err(Errno::EBUSY) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        bound.map_err(|errno| (SetupStep::BindXdp, errno))?;
        Ok(XdpMemory { _program: program, chunks })
    }

    /// Reads one frame into `unit`, after an empty virtio-net header; `None` if no frame waits.
    fn receive(&mut self, unit: &mut [u8]) -> Option<Result<usize, Errno>> {
        let read = self.chunks.receive(|frame| {
            let whole = Tap::VNET_HEADER + frame.len();
            unit.get_mut(Tap::VNET_HEADER..whole)?.copy_from_slice(frame);
            unit[..Tap::VNET_HEADER].fill(0);
            complete(&mut unit[..whole]);
            Some(whole)
        })?;
        Some(read.flatten().ok_or(Errno::EMSGSIZE))
    }

    /// Sends one frame; `false` if the kernel did not accept it.
    fn transmit(&mut self, socket: BorrowedFd<'_>, frame: &[u8]) -> Result<bool, Errno> {
        if !self.chunks.send(frame)? {
            return Ok(false);
        }
        // Tries again if the kernel was short of memory for a moment.
        let mut kicked = sys::kick(socket);
        for _ in 0..3 {
            if !matches!(kicked, Err(Errno::EAGAIN | Errno::EINTR)) {
                break;
            }
            kicked = sys::kick(socket);
        }
        if kicked.is_ok() {
            return Ok(true);
        }
        // A frame that the kernel has not accepted must not leave later, when it is no longer due.
        self.chunks.take_back();
        Ok(false)
    }
}

impl XdpSocket {
    /// The interface's largest IP packet.
    pub fn mtu(&self) -> io::Result<u32> {
        let bound = self.bound.borrow();
        Ok(crate::sys::mtu(bound.control.as_fd(), &bound.interface.name)?.unsigned_abs())
    }

    /// The interface's number, which is unique in a network namespace.
    pub fn index(&self) -> i32 {
        self.bound.borrow().interface.index
    }

    /// Returns true if the interface's driver removes VLAN tags from frames before they arrive
    /// here, so that they are lost.
    pub fn loses_tags(&self) -> bool {
        let bound = self.bound.borrow();
        sys::takes_tags_out(bound.control.as_fd(), &bound.interface.name)
    }

    /// Checks the state of the interface, even if it was renamed. If it is gone, attaches to an
    /// interface with its original name, if there is one. Returns the state if it has changed.
    pub fn look(&self) -> Option<InterfaceState> {
        let bound = &mut *self.bound.borrow_mut();
        let asked = &self.place.interface;
        let mut now = bound.interface.look(bound.control.as_fd(), asked);
        if now.index != bound.interface.index {
            // The earlier interface is gone, with all its resources.
            bound.lost += lost(self.descriptor.as_fd());
            bound.shared = None;
            if now.index >= 0 {
                now = self.attach_anew(bound).unwrap_or_else(|_| FollowedInterface::gone(asked));
            }
        }
        let changed = bound.interface.differs(&now).then_some(now.state);
        bound.interface = now;
        changed
    }

    /// The interface's name at the last check, if it differs from the original name.
    pub fn renamed(&self) -> Option<String> {
        self.bound.borrow().interface.other_name(&self.place.interface)
    }

    fn attach_anew(&self, bound: &mut BoundInterface) -> Result<FollowedInterface, Error> {
        let made = made_in(self.place.namespace.as_deref(), || make(&self.place.interface))?;
        let (control, socket, shared, now) = take(made, &self.place.interface)?;
        sys::replace(self.descriptor.as_fd(), &socket)
            .map_err(|errno| Error::new(SetupStep::XdpSocket, None, errno))?;
        (bound.control, bound.shared) = (control, Some(shared));
        Ok(now)
    }

    /// Number of frames that were not read in time, since the first socket was created.
    pub fn unread(&self) -> u64 {
        self.bound.borrow().lost + lost(self.descriptor.as_fd())
    }
}

/// Number of frames for which a socket had no room.
fn lost(socket: BorrowedFd<'_>) -> u64 {
    sys::get::<libc::xdp_statistics>(socket, libc::XDP_STATISTICS).map_or(0, |counted| {
        // If no chunk is free for a frame, and the kernel copies frames, both `rx_dropped` and
        // `rx_fill_ring_empty_descs` count it; if the device writes frames itself, only the second
        // does.
        counted.rx_dropped.max(counted.rx_fill_ring_empty_descs) + counted.rx_ring_full
    })
}

/// A port at an existing interface.
///
/// The port never reports that it is gone: an interface may come back, and [`XdpSocket::look`]
/// attaches to it again.
#[derive(Debug)]
pub struct XdpPort {
    socket: Rc<XdpSocket>,
}

impl XdpPort {
    /// The port of this socket's interface.
    pub fn new(socket: Rc<XdpSocket>) -> XdpPort {
        XdpPort { socket }
    }
}

impl Port for XdpPort {
    fn name(&self) -> String {
        format!("The interface {}", self.socket.bound.borrow().interface.name)
    }

    fn longest(&self) -> usize {
        Tap::VNET_HEADER + CHUNK
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let bound = &mut *self.socket.bound.borrow_mut();
        let Some(read) = bound.shared.as_mut().and_then(|shared| shared.receive(buffer)) else {
            bound.nothing += 1;
            if bound.nothing == EMPTY_READS {
                bound.nothing = 0;
                // An error here means that the interface is gone, which the monitor reports.
                let _ = getsockopt(&self.socket.descriptor, sockopt::SocketError);
            }
            return Ok(None);
        };
        bound.nothing = 0;
        Ok(Some(frame::received(&buffer[..read?])))
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        let Some((head, frame)) = unit.split_at_checked(Tap::VNET_HEADER) else { return Ok(false) };
        // Nothing behind this port would compute the checksum or split the unit.
        if head[0] & 1 != 0 || head[1] != 0 {
            return Err(Errno::EINVAL.into());
        }
        match &mut self.socket.bound.borrow_mut().shared {
            Some(shared) => Ok(shared.transmit(self.socket.descriptor.as_fd(), frame)?),
            None => Ok(false),
        }
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.socket.descriptor.as_fd()
    }
}

impl PortHandover for XdpPort {}
