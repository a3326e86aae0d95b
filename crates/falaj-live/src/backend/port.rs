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
    /// The unit's length in the buffer, in bytes.
    pub length: usize,
    /// The unit's flow, if the port determines it; otherwise the flow follows from the key.
    pub flow: Option<FlowId>,
    /// Length in bytes of the unit's IP packet, or of each of its packets but the last.
    pub bytes: u32,
    /// Length in bytes of its last packet.
    pub last: u32,
    /// The packets of the unit if it has several; `None` if it is one packet.
    pub train: Option<Train>,
}

impl Received {
    /// A unit that consists of one packet.
    pub fn packet(length: usize, bytes: u32, flow: Option<FlowId>) -> Received {
        Received { length, flow, bytes, last: bytes, train: None }
    }

    /// Number of packets in the unit.
    pub fn packets(&self) -> u32 {
        self.train.map_or(1, |train| train.packets()) as u32
    }
}

/// Handover of a port to another process. Most ports do not support it.
pub trait PortHandover {
    /// Returns true if the port has read units that it has not returned yet.
    fn holds_units(&self) -> bool {
        false
    }
    /// The descriptor that another process needs to take over the port; `None` if not supported.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Position of the port's reader in a ring that it shares with the kernel; the kernel itself
    /// does not store it. 0 if there is no such ring.
    fn position(&self) -> u64 {
        0
    }
    /// Sets the position of the port's reader.
    fn resume_at(&mut self, position: u64) {
        let _ = position;
    }
}

/// A place where units enter and leave. A unit is an Ethernet frame after a virtio-net header,
/// unless an implementation documents another form.
///
/// An error `EBADF`, `EBADFD` or `ENODEV` means that the port is gone, and ends the run. Any other
/// error concerns one unit, which is then lost and counted.
pub trait Port: PortHandover {
    /// The port's name for users, for the beginning of a sentence.
    fn name(&self) -> String;
    /// Length in bytes of a buffer that holds any unit of this port.
    fn longest(&self) -> usize;
    /// Reads one unit, if there is one; never blocks.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>>;
    /// Sends one unit; returns false if the unit was not accepted.
    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool>;
    /// Returns true if the port reports when it has room, so that the device behind it may pace a
    /// link.
    fn says_room(&self) -> bool {
        false
    }
    /// Starts or stops pacing of a link by the device. While the device paces, at most `backlog`
    /// bytes are handed to it ahead of time; `None` stops pacing. Only for ports that [report when
    /// they have room](Port::says_room).
    ///
    /// A pacing port without room for a unit refuses it: [`transmit`](Port::transmit) fails with
    /// `EAGAIN`. When the port becomes writable, the unit is sent again. If `transmit` fails with
    /// `ENOBUFS` or `ENOMEM` instead, the port does not report when there is room again.
    ///
    /// # Errors
    /// The kernel's error.
    fn pace(&mut self, backlog: Option<u32>) -> io::Result<()> {
        let _ = backlog;
        Ok(())
    }
    /// Returns true if the port accepts several datagrams as one unit. To other ports they are sent
    /// one by one.
    fn takes_trains(&self) -> bool {
        false
    }
    /// Notifies the port that a unit of one packet, which the port has read, is dropped.
    fn dropped(&mut self, unit: &[u8]) {
        let _ = unit;
    }
    /// Notifies the port that a unit that it has just read is dropped for lack of memory.
    fn found_no_memory(&mut self, unit: &[u8], packets: u32) {
        let _ = packets;
        self.dropped(unit);
    }
    /// The index of the adapter that this unit comes from or goes to, if several adapters share the
    /// port and the memory for units; otherwise `None`.
    fn owner(&self, unit: &[u8]) -> Option<u16> {
        let _ = unit;
        None
    }
    /// The key of a unit that this port has read, for rules, masks and policies. It is not needed
    /// if the port determines the flow.
    fn key(&self, unit: &[u8]) -> Key {
        frame::key(unit)
    }
    /// Flips a bit of a unit that this port has read, so that the receiver detects the error, as
    /// with an error on a real link.
    fn corrupt(&self, unit: &mut [u8], corrupt: &Corrupt) {
        frame::flip(unit, corrupt);
    }
    /// Writes these ECN bits into a unit that this port has read and whose endpoints support ECN.
    fn mark(&self, unit: &mut [u8], ecn: Ecn) {
        frame::mark(unit, ecn);
    }
    /// The descriptor to poll: readable when a unit may be received, writable when there is room.
    /// It is always the same descriptor.
    fn readable(&self) -> BorrowedFd<'_>;
}

/// Returns true if the error means that the port is gone, and not only one unit.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use nix::libc::{EBADF, EBADFD, ENODEV};
    matches!(error.raw_os_error(), Some(EBADF | EBADFD | ENODEV))
}
