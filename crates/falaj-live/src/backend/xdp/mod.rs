//! An existing interface, seen through an AF_XDP socket: root's way, and the cheapest for small
//! packets.
//!
//! A program of six instructions at the interface sends what comes in to the socket, before the
//! machine's own network stack sees it. Frames are copied into memory that we share with the
//! kernel, and out of it; nothing is asked of the driver but that it runs the program, or, where it
//! cannot, that it be run behind it.
//!
//! Here are no notes of what is left to do (virtio-net headers), so what would need one is dealt
//! with or refused:
//!
//! | left to do | |
//! |---|---|
//! | checksums | computed when the frame is read: see [`complete`] |
//! | units of many packets | a veth interface makes none while the program is within its driver, and is refused otherwise |
//! | frames longer than a chunk | an mtu that would allow them is refused |
//! | several receive queues | refused: there is a socket for one |

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

/// Chunks that wait for frames, or hold some that were not read yet.
const COMING: u32 = 4096;
/// Chunks for frames on their way out, which is over when they are copied.
const GOING: u32 = 512;

/// An AF_XDP socket at an interface. What comes in there it receives, and nobody else does; what it
/// sends goes out there.
#[derive(Debug)]
pub struct XdpSocket {
    place: InterfaceName,
    /// The same descriptor always, whichever socket it is.
    descriptor: OwnedFd,
    bound: RefCell<BoundInterface>,
    /// Nobody else forwards at this interface.
    _claim: [OwnedFd; 2],
}

#[derive(Debug)]
struct BoundInterface {
    /// A packet socket that receives nothing: the interface is promiscuous as long as it lives,
    /// and may be asked by it.
    control: OwnedFd,
    /// As it was when last looked at.
    interface: FollowedInterface,
    /// `None` while there is no interface.
    shared: Option<XdpMemory>,
    /// What was lost at sockets that are no more.
    lost: u64,
    /// How often in a row there was nothing.
    nothing: u32,
}

/// What belongs to one socket at one interface.
#[derive(Debug)]
struct XdpMemory {
    /// The program is at the interface as long as this is open.
    _program: OwnedFd,
    chunks: Chunks,
}

/// So often may there be nothing until the socket is asked for an error, which would wake us for
/// ever.
const PATIENCE: u32 = 64;

/// Whether the kernel takes such programs and sockets from this process.
///
/// # Errors
/// Which step failed, why, and what to try.
pub fn available() -> Result<(), Error> {
    let failed = |step| move |errno| Error::new(step, None, errno);
    sys::socket().map_err(failed(SetupStep::XdpSocket))?;
    let map = sys::map().map_err(failed(SetupStep::LoadProgram))?;
    sys::load(map.as_fd()).map(drop).map_err(failed(SetupStep::LoadProgram))
}

/// Opens a socket at an interface, and what tells of changes there, as [`packet::open`] does; the
/// interface is promiscuous meanwhile.
///
/// # Errors
/// Says which step failed, why, and what to try.
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

/// Makes what has to be made in the interface's network namespace: what it is asked by, the socket,
/// the map, the program at its place.
fn make(interface: &str) -> Result<Vec<OwnedFd>, (SetupStep, Errno)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    // Of no protocol: nothing comes in.
    let control = sockets::socket(AddressFamily::Packet, SockType::Raw, flags, None);
    let control = control.map_err(|errno| (SetupStep::PacketSocket, errno))?;
    let asked = control.as_fd();
    let index =
        crate::sys::index(asked, interface).map_err(|errno| (SetupStep::FindInterface, errno))?;
    // Drivers that do not say have one.
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
        // Behind veth's driver whole units would come, which are longer than a chunk.
        Err(errno) if sys::is_veth(asked, interface) => Err((SetupStep::XdpUnits, errno)),
        Err(_) => sys::attach(program.as_fd(), number, false)
            .map_err(|errno| (SetupStep::AttachProgram, errno)),
        Ok(attached) => Ok(attached),
    };
    Ok(vec![control, socket, map, attached?])
}

/// Takes over what [`make`] made, be it in another process: memory and rings are this one's.
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
    /// Binds a socket to an interface, with memory of ours.
    fn new(
        socket: BorrowedFd<'_>,
        program: OwnedFd,
        index: u32,
    ) -> Result<XdpMemory, (SetupStep, Errno)> {
        let memory = |errno| (SetupStep::XdpMemory, errno);
        let rings = |errno| (SetupStep::XdpRings, errno);
        let length = CHUNK * (COMING + GOING) as usize;
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
            (libc::XDP_UMEM_FILL_RING, COMING),
            (libc::XDP_UMEM_COMPLETION_RING, GOING),
            (libc::XDP_RX_RING, COMING),
            (libc::XDP_TX_RING, GOING),
        ] {
            sys::set(socket, ring, size as libc::c_int).map_err(rings)?;
        }
        let at: libc::xdp_mmap_offsets = sys::get(socket, libc::XDP_MMAP_OFFSETS).map_err(rings)?;
        let page = |page: libc::c_ulonglong| page as libc::off_t;
        let fill = XdpRing::new(socket, page(libc::XDP_UMEM_PGOFF_FILL_RING), &at.fr, COMING)
            .map_err(rings)?;
        let sent = XdpRing::new(socket, page(libc::XDP_UMEM_PGOFF_COMPLETION_RING), &at.cr, GOING)
            .map_err(rings)?;
        let received =
            XdpRing::new(socket, libc::XDP_PGOFF_RX_RING, &at.rx, COMING).map_err(rings)?;
        let send = XdpRing::new(socket, libc::XDP_PGOFF_TX_RING, &at.tx, GOING).map_err(rings)?;
        let chunks = Chunks::new(frames, [fill, sent], [received, send], (COMING, GOING));
        // Whoever was bound there just now may still be on his way out.
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

    /// Reads one frame behind an empty header.
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

    /// Sends one frame; `false` if the kernel did not take it.
    fn transmit(&mut self, socket: BorrowedFd<'_>, frame: &[u8]) -> Result<bool, Errno> {
        if !self.chunks.send(frame)? {
            return Ok(false);
        }
        // It asks again where it was short of memory for a moment.
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
        // What the kernel has not had must not go out later, when it is not due any more.
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

    /// The interface's number; it tells interfaces of one network namespace apart.
    pub fn index(&self) -> i32 {
        self.bound.borrow().interface.index
    }

    /// Whether the interface's driver takes VLAN tags out of frames before they come here, and so
    /// for good.
    pub fn loses_tags(&self) -> bool {
        let bound = self.bound.borrow();
        sys::takes_tags_out(bound.control.as_fd(), &bound.interface.name)
    }

    /// Looks how the interface is, whatever it is called by now, and takes one of the name that was
    /// asked for where it is gone; says how it is if that has changed.
    pub fn look(&self) -> Option<InterfaceState> {
        let bound = &mut *self.bound.borrow_mut();
        let asked = &self.place.interface;
        let mut now = bound.interface.look(bound.control.as_fd(), asked);
        if now.index != bound.interface.index {
            // It went, and all that belonged to it.
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

    /// The interface's name at the last look, if it was asked for by another one.
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

    /// Frames that nobody read in time, since the first socket was made.
    pub fn unread(&self) -> u64 {
        self.bound.borrow().lost + lost(self.descriptor.as_fd())
    }
}

/// Frames that a socket had no room for.
fn lost(socket: BorrowedFd<'_>) -> u64 {
    sys::get::<libc::xdp_statistics>(socket, libc::XDP_STATISTICS).map_or(0, |counted| {
        // Where the kernel copies frames, one that finds no free place counts as dropped, and as a
        // look at an empty ring besides; where the device writes them itself, as the latter alone.
        counted.rx_dropped.max(counted.rx_fill_ring_empty_descs) + counted.rx_ring_full
    })
}

/// A port at an existing interface.
///
/// It never says that it is gone: an interface may come back, and [`XdpSocket::look`] takes it
/// again.
#[derive(Debug)]
pub struct XdpPort {
    socket: Rc<XdpSocket>,
}

impl XdpPort {
    /// Of the interface that is read there.
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
            if bound.nothing == PATIENCE {
                bound.nothing = 0;
                // The interface went away, of which whoever looks after it hears in another way.
                let _ = getsockopt(&self.socket.descriptor, sockopt::SocketError);
            }
            return Ok(None);
        };
        bound.nothing = 0;
        Ok(Some(frame::received(&buffer[..read?])))
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        let Some((head, frame)) = unit.split_at_checked(Tap::VNET_HEADER) else { return Ok(false) };
        // Nobody would do what is left to do.
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
