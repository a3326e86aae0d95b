//! A port: where units enter and leave the event loop.

use super::frame;
use crate::gso::Train;
use falaj_engine::key::Key;
use falaj_engine::message::Corrupt;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Ecn;
use std::io;
use std::os::fd::BorrowedFd;

/// A unit that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its bytes in the buffer.
    pub length: usize,
    /// The flow that it belongs to, if the port knows; else its key says it.
    pub flow: Option<FlowId>,
    /// Length of its IP packet, or of each but the last.
    pub bytes: u32,
    /// Length of its last packet.
    pub last: u32,
    /// Several packets in one piece.
    pub train: Option<Train>,
}

impl Received {
    /// A unit that is one packet.
    pub fn packet(length: usize, bytes: u32, flow: Option<FlowId>) -> Received {
        Received { length, flow, bytes, last: bytes, train: None }
    }

    /// How many packets it is.
    pub fn packets(&self) -> u32 {
        self.train.map_or(1, |train| train.packets()) as u32
    }
}

/// How a port goes on in another process; the ports of many cannot.
pub trait PortHandover {
    /// Returns true if it has read what it has not given yet.
    fn holds_units(&self) -> bool {
        false
    }
    /// The descriptor by which another process goes on at it, if it can.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Where its reader is, beside what the kernel knows.
    fn position(&self) -> u64 {
        0
    }
    /// Its reader goes on there.
    fn resume_at(&mut self, position: u64) {
        let _ = position;
    }
}

/// Where units enter and leave: Ethernet frames behind a virtio-net header, unless a kind says
/// otherwise.
///
/// An error `EBADF`, `EBADFD` or `ENODEV` says that the port is gone and ends
/// the run; any other concerns one unit, which is then lost and counted.
pub trait Port: PortHandover {
    /// What people call it, at the beginning of a sentence.
    fn name(&self) -> String;
    /// Bytes that a buffer must have to hold any unit of this port.
    fn longest(&self) -> usize;
    /// Reads one unit, if there is one; never waits.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>>;
    /// Hands one unit over; `false` if it was not taken.
    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool>;
    /// Does it say when it has room, so that the device behind it may pace a link?
    fn says_room(&self) -> bool {
        false
    }
    /// From now on the device paces a link, and is handed so many bytes ahead of time at most;
    /// `None`: no link any more. Of ports that [say when they have room](Port::says_room),
    /// which from then on refuse what they have none for: [`transmit`](Port::transmit)
    /// fails with `EAGAIN`, and the port becomes writable when it has room; or with `ENOBUFS` or
    /// `ENOMEM`, of which nobody says when it is over. What it refused is handed over later.
    ///
    /// # Errors
    /// What the kernel says.
    fn pace(&mut self, backlog: Option<u32>) -> io::Result<()> {
        let _ = backlog;
        Ok(())
    }
    /// Does it take datagrams that leave together in one piece? Others are handed over one by one.
    fn takes_trains(&self) -> bool {
        false
    }
    /// A unit of one packet that this port has read will not be handed over to any.
    fn dropped(&mut self, unit: &[u8]) {
        let _ = unit;
    }
    /// For a unit that this port has just read there is no memory: it goes nowhere.
    fn found_no_memory(&mut self, unit: &[u8], packets: u32) {
        let _ = packets;
        self.dropped(unit);
    }
    /// Which of several that share the port, and the memory for units on their way, has read this
    /// one or gets it.
    fn owner(&self, unit: &[u8]) -> Option<u16> {
        let _ = unit;
        None
    }
    /// What rules, masks and policies look at of a unit that this port has read and that is not of
    /// a flow that it knows.
    fn key(&self, unit: &[u8]) -> Key {
        frame::key(unit)
    }
    /// Turns a bit of a unit that this port has read, so that it is found wrong
    /// at the far end as it would be behind a real link.
    fn corrupt(&self, unit: &mut [u8], corrupt: &Corrupt) {
        frame::turn(unit, corrupt);
    }
    /// Writes these ECN bits into a unit that this port has read, where its ends look at them: that
    /// it met congestion.
    fn mark(&self, unit: &mut [u8], ecn: Ecn) {
        frame::mark(unit, ecn);
    }
    /// Readable when a unit may be received, and writable when it has room; the same descriptor
    /// always.
    fn readable(&self) -> BorrowedFd<'_>;
}

/// Is this the end of a port, and not of one unit?
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use nix::libc::{EBADF, EBADFD, ENODEV};
    matches!(error.raw_os_error(), Some(EBADF | EBADFD | ENODEV))
}
