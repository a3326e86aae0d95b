//! Two rings, one in each direction, and the wake-ups of their sides.

use super::ring::{BrokenMemifRing, LostFrame, MemifReceiver, MemifSender, SendOutcome};
use crate::crossing::Carrier;
use crate::wake::{Waker, nanos};
use falaj_sched::units::time::Span;
use rustix::fs::{self, OFlags};
use rustix::io::Errno;
use rustix::time::ClockId;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Retry interval of a sender that waits for room, in nanoseconds: memif has no wake-up for that.
const AGAIN: u64 = 100_000;

/// A connection's two rings.
pub struct MemifLink {
    sender: MemifSender,
    receiver: MemifReceiver,
    /// The eventfd that wakes the peer.
    bell: OwnedFd,
    /// Wakes this side.
    waker: Waker,
    /// True if the peer executes a memory fence before it checks whether this side sleeps; memif
    /// does not require that.
    fences: bool,
    /// True if a packet waits for room.
    waits: bool,
    /// The length of the longest packet that is accepted.
    longest: usize,
}

fn broken(broken: BrokenMemifRing) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, broken)
}

impl MemifLink {
    /// A link over these rings. The eventfd `own` wakes this side, and `bell` wakes the peer. A
    /// packet has at most `longest` bytes.
    ///
    /// # Errors
    /// `bell` is not an eventfd.
    pub(super) fn new(
        rings: (MemifSender, MemifReceiver),
        own: OwnedFd,
        bell: OwnedFd,
        fences: bool,
        longest: usize,
    ) -> io::Result<MemifLink> {
        // A write to anything else could have any effect, or block.
        let kind = fs::readlink(format!("/proc/self/fd/{}", bell.as_raw_fd()), Vec::new())?;
        if kind.as_bytes() != b"anon_inode:[eventfd]" {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the descriptor that wakes the peer is not an eventfd",
            ));
        }
        fs::fcntl_setfl(&bell, fs::fcntl_getfl(&bell)? | OFlags::NONBLOCK)?;
        let waker = Waker::new(own, None)?;
        let (sender, receiver) = rings;
        receiver.lay_out();
        Ok(MemifLink { sender, receiver, bell, waker, fences, waits: false, longest })
    }

    /// Sends a packet; returns false if there is no room for it.
    ///
    /// # Errors
    /// The peer broke the ring.
    pub fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        match self.sender.send(packet).map_err(broken)? {
            SendOutcome::Wake => match rustix::io::write(&self.bell, &1u64.to_ne_bytes()) {
                // The counter is full of wake-ups, so the peer has been woken.
                Ok(_) | Err(Errno::AGAIN) => Ok(true),
                Err(error) => Err(error.into()),
            },
            SendOutcome::Quiet => Ok(true),
            SendOutcome::Full => Ok(false),
        }
    }

    /// Receives a packet, if there is one; returns its length, or an inner error if it is
    /// malformed.
    ///
    /// # Errors
    /// The peer broke the ring.
    pub fn receive(&mut self, out: &mut [u8]) -> io::Result<Option<Result<usize, LostFrame>>> {
        let received = self.receiver.receive(out).map_err(broken)?;
        if received.is_some() && self.fences {
            self.receiver.mask(true);
        }
        Ok(received)
    }

    /// Requests a wake-up by the next packet; returns true if there is none yet.
    ///
    /// # Errors
    /// The peer broke the ring.
    pub fn rest(&mut self) -> io::Result<bool> {
        self.receiver.mask(false);
        self.receiver.is_empty().map_err(broken)
    }

    /// Clears past wake-ups.
    ///
    /// # Errors
    /// None is expected.
    pub fn clear(&mut self) -> io::Result<()> {
        self.waker.wait(Some(Span::ZERO)).map(drop)
    }
}

impl Carrier for MemifLink {
    fn send(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let sent = MemifLink::send(self, bytes)?;
        self.waits = !sent;
        Ok(sent)
    }

    fn receive(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        out.resize(self.longest, 0);
        let received = MemifLink::receive(self, out)?;
        // A malformed packet becomes an empty one, which the unpacker rejects.
        out.truncate(received.map_or(0, |length| length.unwrap_or(0)));
        Ok(received.is_some())
    }

    fn ask_room(&mut self, _bytes: usize) -> io::Result<bool> {
        // There is no such wake-up; the alarm replaces it.
        Ok(false)
    }

    fn rest(&mut self) -> io::Result<bool> {
        MemifLink::rest(self)
    }

    fn alarm(&mut self, at: Option<u64>) -> io::Result<()> {
        let again = self.waits.then(|| nanos(ClockId::Monotonic) + AGAIN);
        self.waker.alarm(at.into_iter().chain(again).min())
    }

    fn clear(&mut self) -> io::Result<()> {
        MemifLink::clear(self)
    }

    fn is_gone(&self) -> bool {
        // The control channel reports that the peer is gone.
        false
    }
}

impl AsFd for MemifLink {
    /// Readable when there was a wake-up, until wake-ups are [cleared](MemifLink::clear).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
