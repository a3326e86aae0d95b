//! Packets on their own path through this host, held by the kernel until they are due (NFQUEUE).
//!
//! A rule of the host's firewall passes packets to a numbered queue. The kernel keeps each packet
//! and copies it to the reader. To send a packet here means to give a verdict, after which the
//! packet continues on its path. So a packet leaves where it came in, and a packet that the link
//! drops needs a verdict as well. The libraries `nfq` and `libnetfilter_queue` keep a packet's
//! bytes with its verdict; here the forwarder has the bytes, and a verdict needs only the packet's
//! number.

pub mod attached;
mod message;
mod table;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::{fmt, fs, io};

use falaj_engine::Corrupt;
use falaj_sched::units::label::Ecn;
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    setsockopt, socket, sockopt,
};

use self::message::{KernelMessage, PacketVerdict};
use super::{Address, Backend, BackendEntry, Monitor, OpenEnd, OpenError, OpenOptions};
use crate::backend::frame::{flip, mark};
use crate::backend::port::{Port, PortHandover, Received};
use crate::backend::tap::Tap;

/// The largest number of packets that the kernel holds: unread packets and packets in transit
/// through the link.
const PACKETS: u32 = 1 << 18;
/// Size of the socket's buffer for unread messages, in bytes.
const ROOM: usize = 8 << 20;
/// Bytes of the longest message: a packet and its attributes.
const LONGEST: usize = (64 << 10) + 4096;

/// Offsets of two fields before the packet in a unit: whether falaj changed the packet's bytes, and
/// the kernel's number of the packet. Other code reads these fields as part of an empty virtio-net
/// header, whose first two bytes are zero.
const CHANGED: usize = 2;
const NUMBER: usize = 4;
/// Bytes of the Ethernet header that follows the virtio-net header, so that the unit is a frame.
const ETHERNET: usize = 14;
const PACKET: usize = Tap::VNET_HEADER + ETHERNET;

/// Queues of the firewall, identified by number: `nfqueue:N`.
pub static BACKEND: BackendEntry = BackendEntry {
    help: "\
nfqueue:N is queue N of this host's firewall, for packets whose route cannot be changed: a rule
sends them to the queue, and when they are due they continue on their way, unchanged. The first
queue is up, the second down:
  iptables -A FORWARD -o eth1 -j NFQUEUE --queue-num 1   (nft: oif eth1 queue num 1)
Without falaj the kernel drops the packets of such a rule, unless it has --queue-bypass (nft: queue
num 1 bypass).",
    example: "nfqueue:1 nfqueue:2 --rate 10mbit --delay 40ms",
    returns_packets: true,
    ..BackendEntry::new("nfqueue:", "nfqueue:N", |number| match number.parse() {
        Ok(number) => Ok(Arc::new(NfqueueNumber(number))),
        Err(_) => Err("write a queue's number, 0 to 65535: `nfqueue:5`".into()),
    })
};

/// The number of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NfqueueNumber(u16);

impl fmt::Display for NfqueueNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nfqueue:{}", self.0)
    }
}

impl Address for NfqueueNumber {
    fn open(&self, options: &OpenOptions) -> Result<OpenEnd, OpenError> {
        let opened = || -> io::Result<OpenEnd> {
            // A queue never changes, so the monitor has no notifications.
            let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
            let silent = EventFd::from_value_and_flags(0, flags)?;
            let monitor = Monitor::adopt(silent.as_fd().try_clone_to_owned()?);
            Ok((Box::new(Rc::new(Nfqueue::open(self.0, options.fail_open)?)), monitor))
        };
        opened().map_err(|cause| {
            let attempt = format!(
                "cannot use queue {} of the firewall; that needs CAP_NET_ADMIN, and a queue that no other program uses",
                self.0
            );
            OpenError::new(attempt, cause)
        })
    }
}

impl Backend for Rc<Nfqueue> {
    fn entry(&self) -> &'static BackendEntry {
        &BACKEND
    }

    fn port(&self) -> io::Result<Box<dyn Port>> {
        Ok(Box::new(NfqueuePort::new(Rc::clone(self))))
    }

    fn unread(&self) -> u64 {
        Nfqueue::unread(self)
    }
}

/// A queue, and the packets that the kernel holds in it.
#[derive(Debug)]
pub struct Nfqueue {
    socket: OwnedFd,
    number: u16,
    fail_open: bool,
    held: RefCell<BTreeSet<u32>>,
    /// Packets dropped by the kernel for lack of room.
    lost: Cell<u64>,
    /// The file of the kernel's counters for the queue's namespace; `None`: that of this namespace.
    counts: Option<Rc<File>>,
}

impl Nfqueue {
    /// Binds the queue of this number. If `fail_open`, packets pass when the queue has no room for
    /// them, and packets in the queue pass when it is closed; otherwise all these are dropped.
    ///
    /// # Errors
    /// Another process has the queue, or the privilege is missing.
    pub fn open(number: u16, fail_open: bool) -> io::Result<Nfqueue> {
        Ok(Nfqueue::adopt(take_queue(number, fail_open)?, number, fail_open, None))
    }

    /// The queue of this socket; `counts` is the file of the kernel's counters for its namespace
    /// (`None`: this namespace).
    fn adopt(socket: OwnedFd, number: u16, fail_open: bool, counts: Option<Rc<File>>) -> Nfqueue {
        let (held, lost) = (RefCell::new(BTreeSet::new()), Cell::new(0));
        Nfqueue { socket, number, fail_open, held, lost, counts }
    }

    fn say(&self, message: &[u8]) -> Result<(), Errno> {
        say(&self.socket, message)
    }

    /// Number of packets that were not read in time, since the queue was bound.
    pub fn unread(&self) -> u64 {
        let text = match &self.counts {
            Some(counts) => read_again(counts),
            None => fs::read_to_string("/proc/net/netfilter/nfnetlink_queue"),
        };
        let text = text.unwrap_or_default();
        // Fields: number, reader, packets held, copy mode, copy range, packets dropped because the
        // queue was full, packets dropped because the socket's buffer was full.
        let ours = |line: &&str| line.split_whitespace().next() == Some(&self.number.to_string());
        if let Some(line) = text.lines().find(ours) {
            self.lost.set(
                line.split_whitespace().skip(5).take(2).filter_map(|n| n.parse::<u64>().ok()).sum(),
            );
        }
        self.lost.get()
    }

    /// Gives a verdict on a packet that has none yet; returns true if it had none.
    fn judge(&self, unit: &[u8], verdict: PacketVerdict) -> Result<bool, Errno> {
        let (Some(number), Some(packet)) =
            (unit.get(NUMBER..).and_then(<[u8]>::first_chunk), unit.get(PACKET..))
        else {
            return Ok(false);
        };
        let id = u32::from_ne_bytes(*number);
        // The first copy of a duplicated packet has got the verdict already.
        if !self.held.borrow_mut().remove(&id) {
            return Ok(false);
        }
        let payload = (unit[CHANGED] != 0 && verdict == PacketVerdict::Accept).then_some(packet);
        self.say(&message::verdict(self.number, id, verdict, payload)).map(|()| true)
    }
}

impl Drop for Nfqueue {
    fn drop(&mut self) {
        // Without `fail_open` the kernel itself drops the packets that are left.
        if self.fail_open {
            for &id in self.held.borrow().iter() {
                let _ = self.say(&message::verdict(self.number, id, PacketVerdict::Accept, None));
            }
        }
    }
}

/// Binds the queue of this number, as [`Nfqueue::open`] does.
fn take_queue(number: u16, fail_open: bool) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket =
        socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkNetFilter)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    if setsockopt(&socket, sockopt::RcvBufForce, &ROOM).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &ROOM);
    }
    say(&socket, &message::bind(number, PACKETS, fail_open))?;
    // The kernel answers before `send` returns.
    let mut answer = [0; 4096];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    match message::read(&answer[..length]) {
        KernelMessage::Answer(0) => {}
        KernelMessage::Answer(error) => return Err(io::Error::from_raw_os_error(error)),
        _ => return Err(Errno::EPROTO.into()),
    }
    say(&socket, &message::begin(number))?;
    Ok(socket)
}

fn say(socket: &OwnedFd, message: &[u8]) -> Result<(), Errno> {
    loop {
        match send(socket.as_raw_fd(), message, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EINTR) => {}
            said => return said.map(drop),
        }
    }
}

/// Reads the current contents of a kernel file.
fn read_again(mut file: &File) -> io::Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// A port at a queue; packets leave at the queue where they came in.
#[derive(Debug)]
pub struct NfqueuePort {
    queue: Rc<Nfqueue>,
    message: Box<[u8]>,
}

impl NfqueuePort {
    /// The port of this queue.
    pub fn new(queue: Rc<Nfqueue>) -> NfqueuePort {
        NfqueuePort { queue, message: vec![0; LONGEST].into() }
    }
}

/// Notes that the bytes of the unit differ from those that the kernel holds.
fn note_change(unit: &mut [u8]) {
    if let Some(changed) = unit.get_mut(CHANGED) {
        *changed = 1;
    }
}

impl Port for NfqueuePort {
    fn name(&self) -> String {
        format!("The queue {} of the firewall", self.queue.number)
    }

    fn longest(&self) -> usize {
        PACKET + (64 << 10)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        loop {
            let length = match recv(
                self.queue.socket.as_raw_fd(),
                &mut self.message,
                MsgFlags::MSG_DONTWAIT,
            ) {
                Ok(length) => length,
                Err(Errno::EAGAIN) => return Ok(None),
                // This error reports lost packets, which the kernel counts.
                Err(Errno::EINTR | Errno::ENOBUFS) => continue,
                Err(errno) => return Err(errno.into()),
            };
            match message::read(&self.message[..length]) {
                KernelMessage::Packet { id, protocol, payload } => {
                    self.queue.held.borrow_mut().insert(id);
                    let length = PACKET + payload.len();
                    let unit = buffer.get_mut(..length).ok_or(Errno::EMSGSIZE)?;
                    unit[..PACKET].fill(0);
                    unit[NUMBER..NUMBER + 4].copy_from_slice(&id.to_ne_bytes());
                    unit[PACKET - 2..PACKET].copy_from_slice(&protocol);
                    unit[PACKET..].copy_from_slice(payload);
                    return Ok(Some(Received::packet(length, payload.len() as u32, None)));
                }
                KernelMessage::Cut { id } => {
                    self.queue.say(&message::verdict(
                        self.queue.number,
                        id,
                        PacketVerdict::Drop,
                        None,
                    ))?;
                    return Err(Errno::EMSGSIZE.into());
                }
                // These are ignored, for example the error that answers a late verdict.
                KernelMessage::Answer(_) | KernelMessage::Nothing => {}
            }
        }
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        Ok(self.queue.judge(unit, PacketVerdict::Accept)?)
    }

    fn dropped(&mut self, unit: &[u8]) {
        // If this fails for lack of memory, the kernel drops the packet when the queue is closed.
        let _ = self.queue.judge(unit, PacketVerdict::Drop);
    }

    fn corrupt(&self, unit: &mut [u8], corrupt: &Corrupt) {
        // As on a wire: a flipped bit of the Ethernet header does not change the packet.
        flip(unit, corrupt);
        note_change(unit);
    }

    fn mark(&self, unit: &mut [u8], ecn: Ecn) {
        mark(unit, ecn);
        note_change(unit);
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.queue.socket.as_fd()
    }
}

impl PortHandover for NfqueuePort {}
