//! Packets on their own way through this host, held by the kernel until they are due (NFQUEUE).
//!
//! A rule of the host's firewall gives packets to a numbered queue. The kernel keeps each one and
//! shows it; what is handed over here is a verdict, after which the packet goes on where it was
//! going. So a packet leaves where it came in, and one that the link drops has to be told of as
//! well. `nfq` and `libnetfilter_queue` keep a packet's bytes with its verdict; here they are the
//! forwarder's, and the verdict is made from a number.

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
use crate::backend::frame::{mark, turn};
use crate::backend::port::{Port, PortHandover, Received};
use crate::backend::tap::Tap;

/// Packets that the kernel holds at most, waiting ones and those that are on their way through the
/// link.
const PACKETS: u32 = 1 << 18;
/// Bytes of messages that may wait for us.
const ROOM: usize = 8 << 20;
/// Bytes of the longest message: a packet, and what the kernel says of it.
const LONGEST: usize = (64 << 10) + 4096;

/// Where in a unit stands what the kernel knows: the number, and whether its bytes were changed
/// here. To all others it is a virtio-net header that says nothing: the first two bytes are none.
const CHANGED: usize = 2;
const NUMBER: usize = 4;
/// Behind it an Ethernet header is made, so that it is a frame.
const ETHERNET: usize = 14;
const PACKET: usize = Tap::VNET_HEADER + ETHERNET;

/// Queues of the firewall by number: `nfqueue:N`.
pub static BACKEND: BackendEntry = BackendEntry {
    help: "\
nfqueue:N is queue N of this host's firewall, for packets whose way cannot be moved: a rule gives them to
the queue, and when they are due they go on as if nothing had been. The first queue is up, the second down:
  iptables -A FORWARD -o eth1 -j NFQUEUE --queue-num 1   (nft: oif eth1 queue num 1)
Without falaj the kernel drops what such a rule takes, unless it has --queue-bypass (nft: queue num 1 bypass).",
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
            // A queue never changes: nothing is told.
            let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
            let silent = EventFd::from_value_and_flags(0, flags)?;
            let monitor = Monitor::adopt(silent.as_fd().try_clone_to_owned()?);
            Ok((Box::new(Rc::new(Nfqueue::open(self.0, options.fail_open)?)), monitor))
        };
        opened().map_err(|cause| {
            let attempt = format!(
                "cannot take queue {} of the firewall; that takes CAP_NET_ADMIN, and a queue that nobody else has",
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

/// A queue, and the packets in it.
#[derive(Debug)]
pub struct Nfqueue {
    socket: OwnedFd,
    number: u16,
    fail_open: bool,
    held: RefCell<BTreeSet<u32>>,
    /// Dropped by the kernel because there was no room.
    lost: Cell<u64>,
    /// Where the kernel says how many, if that is not this namespace's.
    counts: Option<Rc<File>>,
}

impl Nfqueue {
    /// Takes the queue of this number. What finds no room in it goes on if it is to `fail_open`,
    /// and is dropped else; the same for what is in it when it ends.
    ///
    /// # Errors
    /// Somebody else has it, or may not be had.
    pub fn open(number: u16, fail_open: bool) -> io::Result<Nfqueue> {
        Ok(Nfqueue::adopt(take_queue(number, fail_open)?, number, fail_open, None))
    }

    /// A queue that this socket has; `counts` is what the kernel counts where that is another
    /// namespace's.
    fn adopt(socket: OwnedFd, number: u16, fail_open: bool, counts: Option<Rc<File>>) -> Nfqueue {
        let (held, lost) = (RefCell::new(BTreeSet::new()), Cell::new(0));
        Nfqueue { socket, number, fail_open, held, lost, counts }
    }

    fn say(&self, message: &[u8]) -> Result<(), Errno> {
        say(&self.socket, message)
    }

    /// Packets that nobody read in time, since it was taken.
    pub fn unread(&self) -> u64 {
        let text = match &self.counts {
            Some(counts) => read_again(counts),
            None => fs::read_to_string("/proc/net/netfilter/nfnetlink_queue"),
        };
        let text = text.unwrap_or_default();
        // Number, reader, held, copied how, how much, dropped as it was full, dropped as the reader
        // was.
        let ours = |line: &&str| line.split_whitespace().next() == Some(&self.number.to_string());
        if let Some(line) = text.lines().find(ours) {
            self.lost.set(
                line.split_whitespace().skip(5).take(2).filter_map(|n| n.parse::<u64>().ok()).sum(),
            );
        }
        self.lost.get()
    }

    /// What becomes of a packet that has no verdict yet; says whether it had none.
    fn judge(&self, unit: &[u8], verdict: PacketVerdict) -> Result<bool, Errno> {
        let (Some(number), Some(packet)) =
            (unit.get(NUMBER..).and_then(<[u8]>::first_chunk), unit.get(PACKET..))
        else {
            return Ok(false);
        };
        let id = u32::from_ne_bytes(*number);
        // One that was doubled has gone on already.
        if !self.held.borrow_mut().remove(&id) {
            return Ok(false);
        }
        let payload = (unit[CHANGED] != 0 && verdict == PacketVerdict::Accept).then_some(packet);
        self.say(&message::verdict(self.number, id, verdict, payload)).map(|()| true)
    }
}

impl Drop for Nfqueue {
    fn drop(&mut self) {
        // The kernel drops what is left by itself.
        if self.fail_open {
            for &id in self.held.borrow().iter() {
                let _ = self.say(&message::verdict(self.number, id, PacketVerdict::Accept, None));
            }
        }
    }
}

/// Takes the queue of this number, as [`Nfqueue::open`] does.
fn take_queue(number: u16, fail_open: bool) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket =
        socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkNetFilter)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    if setsockopt(&socket, sockopt::RcvBufForce, &ROOM).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &ROOM);
    }
    say(&socket, &message::bind(number, PACKETS, fail_open))?;
    // The kernel answers before it returns.
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

/// A file of the kernel's as it is now.
fn read_again(mut file: &File) -> io::Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// A port at a queue; what comes in leaves at the same one.
#[derive(Debug)]
pub struct NfqueuePort {
    queue: Rc<Nfqueue>,
    message: Box<[u8]>,
}

impl NfqueuePort {
    /// Of this queue.
    pub fn new(queue: Rc<Nfqueue>) -> NfqueuePort {
        NfqueuePort { queue, message: vec![0; LONGEST].into() }
    }
}

/// The kernel's own bytes are not what goes on.
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
                // News that some were lost, which the kernel counts.
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
                // A verdict that came too late, say.
                KernelMessage::Answer(_) | KernelMessage::Nothing => {}
            }
        }
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        Ok(self.queue.judge(unit, PacketVerdict::Accept)?)
    }

    fn dropped(&mut self, unit: &[u8]) {
        // It cannot be held for ever: where this fails there is no memory, and it goes with the
        // queue.
        let _ = self.queue.judge(unit, PacketVerdict::Drop);
    }

    fn corrupt(&self, unit: &mut [u8], corrupt: &Corrupt) {
        // As at a wire: a bit of the Ethernet header is none of the packet.
        turn(unit, corrupt);
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
