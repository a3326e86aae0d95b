//! Ports: where units enter and leave the event loop.

use super::frame;
use crate::gso::Train;
use falaj_engine::key::Key;
use falaj_engine::message::Corrupt;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Ecn;
use std::io;
use std::os::fd::BorrowedFd;

/// A unit that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Number of its bytes in the buffer.
    pub length: usize,
    /// The flow that it belongs to, if the port determines it; otherwise its key does.
    pub flow: Option<FlowId>,
    /// Length of its IP packet, or of each packet but the last.
    pub bytes: u32,
    /// Length of its last packet.
    pub last: u32,
    /// Several packets in one unit.
    pub train: Option<Train>,
}

impl Received {
    /// A unit that is one packet.
    pub fn packet(length: usize, bytes: u32, flow: Option<FlowId>) -> Received {
        Received { length, flow, bytes, last: bytes, train: None }
    }

    /// Number of its packets.
    pub fn packets(&self) -> u32 {
        self.train.map_or(1, |train| train.packets()) as u32
    }
}

/// Handover of a port to another process, which most ports do not support.
pub trait PortHandover {
    /// Returns true if it has read units that it has not returned yet.
    fn holds_units(&self) -> bool {
        false
    }
    /// The descriptor by which another process takes it over, if supported.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// The position of its reader, beside the kernel's own state.
    fn position(&self) -> u64 {
        0
    }
    /// Sets the position of its reader.
    fn resume_at(&mut self, position: u64) {
        let _ = position;
    }
}

/// A place where units enter and leave: Ethernet frames after a virtio-net header, unless an
/// implementation says otherwise.
///
/// An error `EBADF`, `EBADFD` or `ENODEV` means that the port is gone and ends the run; any other
/// concerns one unit, which is then lost and counted.
pub trait Port: PortHandover {
    /// Its name for users, at the beginning of a sentence.
    fn name(&self) -> String;
    /// Length in bytes of a buffer that holds any unit of this port.
    fn longest(&self) -> usize;
    /// Reads one unit, if there is one; never blocks.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>>;
    /// Sends one unit; returns false if it was not taken.
    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool>;
    /// Returns true if it reports when it has room, so that the device behind it may pace a link.
    fn says_room(&self) -> bool {
        false
    }
    /// From now on the device paces a link, and is handed at most this number of bytes ahead of
    /// time; `None`: it paces no link any more. This is for ports that [report when they have
    /// room](Port::says_room). From then on such a port refuses a unit for which it has no room,
    /// and the unit is sent again later. [`transmit`](Port::transmit) fails with `EAGAIN`, and the
    /// port becomes writable when it has room. Or it fails with `ENOBUFS` or `ENOMEM`, and the end
    /// of that state is not reported.
    ///
    /// # Errors
    /// The kernel's error.
    fn pace(&mut self, backlog: Option<u32>) -> io::Result<()> {
        let _ = backlog;
        Ok(())
    }
    /// Returns true if it accepts datagrams that leave together as one unit. To
    /// other ports they are sent one by one.
    fn takes_trains(&self) -> bool {
        false
    }
    /// Notifies the port that a unit of one packet that it has read is dropped.
    fn dropped(&mut self, unit: &[u8]) {
        let _ = unit;
    }
    /// Notifies the port that there is no memory for a unit that it has just read: it is dropped.
    fn found_no_memory(&mut self, unit: &[u8], packets: u32) {
        let _ = packets;
        self.dropped(unit);
    }
    /// The index of the source or destination of this unit among several that share the port and
    /// the memory for units; `None`: they are not distinguished.
    fn owner(&self, unit: &[u8]) -> Option<u16> {
        let _ = unit;
        None
    }
    /// The key of a unit that this port has read, for rules, masks and policies, unless the port
    /// knows its flow.
    fn key(&self, unit: &[u8]) -> Key {
        frame::key(unit)
    }
    /// Flips a bit of a unit that this port has read, so that the far end detects the error as it
    /// would behind a real link.
    fn corrupt(&self, unit: &mut [u8], corrupt: &Corrupt) {
        frame::turn(unit, corrupt);
    }
    /// Writes these ECN bits into a unit that this port has read and whose endpoints support ECN.
    fn mark(&self, unit: &mut [u8], ecn: Ecn) {
        frame::mark(unit, ecn);
    }
    /// Readable when a unit may be received, and writable when there is room; always the same
    /// descriptor.
    fn readable(&self) -> BorrowedFd<'_>;
}

/// Returns true if the port is gone, so that the error does not concern just one unit.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use nix::libc::{EBADF, EBADFD, ENODEV};
    matches!(error.raw_os_error(), Some(EBADF | EBADFD | ENODEV))
}
