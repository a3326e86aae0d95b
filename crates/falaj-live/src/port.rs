//! A port: where units enter and leave. One file for each kind.

use crate::sandbox::{End, INTERFACE};
use crate::tap::Tap;
use falaj_engine::account::Account;
use falaj_engine::classifier::Classifier;
use falaj_sched::queue::FlowId;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A unit that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its bytes in the buffer.
    pub length: usize,
    /// Its length as the link accounts it; what counts as nothing is taken for one byte.
    pub bytes: u32,
    /// The flow that it belongs to; `None` if no rule takes it.
    pub flow: Option<FlowId>,
}

/// Where units enter and leave.
///
/// An error `EBADF`, `EBADFD` or `ENODEV` says that the port is gone and ends
/// the run; any other concerns one unit, which is then lost and counted.
pub trait Port {
    /// What people call it, at the beginning of a sentence.
    fn name(&self) -> String;
    /// Bytes that a buffer must have to hold any unit of this port.
    fn longest(&self) -> usize;
    /// Reads one unit, if there is one; never waits.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>>;
    /// Hands one unit over; `false` if it was not taken.
    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool>;
    /// Readable when a unit may be received; the same descriptor always.
    fn readable(&self) -> BorrowedFd<'_>;
}

/// A side of a sandbox. Packets are classified and accounted here, as the
/// link behind it wants them.
pub struct TapPort {
    end: End,
    tap: Tap,
    classifier: Classifier,
    account: Account,
    longest: usize,
}

const ETHERNET: usize = 14;

impl TapPort {
    /// `mtu` bounds a unit unless the kernel may hand over larger ones (`tso`).
    /// Of a frame that is longer (whoever lives behind the interface may raise
    /// its mtu) so much is read that the link finds it too large.
    pub fn new(end: End, tap: Tap, classifier: Classifier, account: Account, mtu: u32, tso: bool) -> TapPort {
        let longest = if tso { Tap::MAX_UNIT } else { Tap::VNET_HEADER + 18 + mtu as usize };
        TapPort { end, tap, classifier, account, longest }
    }
}

impl Port for TapPort {
    fn name(&self) -> String {
        format!("The link's interface {INTERFACE} at end {}", self.end)
    }

    fn longest(&self) -> usize {
        self.longest
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Some(length) = self.tap.read(buffer)? else { return Ok(None) };
        let frame = &buffer[Tap::VNET_HEADER.min(length)..length];
        let network = frame.len().saturating_sub(ETHERNET) as u32;
        Ok(Some(Received { length, bytes: self.account.from_ip(network), flow: self.classifier.flow(frame) }))
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        self.tap.write(unit)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }
}
