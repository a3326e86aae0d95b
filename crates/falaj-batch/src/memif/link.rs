//! Two rings, one each way, and how their sides wake each other.

use super::ring::{BrokenMemifRing, LostFrame, MemifReceiver, MemifSender, SendOutcome};
use crate::crossing::Carrier;
use crate::wake::{Waker, nanos};
use falaj_sched::units::time::Span;
use rustix::fs::{self, OFlags};
use rustix::io::Errno;
use rustix::time::ClockId;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Who waits for room looks again after so many nanoseconds: memif has no wake-up for that.
const AGAIN: u64 = 100_000;

/// A connection's two rings.
pub struct MemifLink {
    sender: MemifSender,
    receiver: MemifReceiver,
    /// What wakes the peer.
    bell: OwnedFd,
    /// Wakes us.
    waker: Waker,
    /// The peer passes a fence before it looks whether we sleep, as memif does not ask for.
    fences: bool,
    /// Something waits for room.
    waits: bool,
    /// The longest that is taken.
    longest: usize,
}

fn broken(broken: BrokenMemifRing) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, broken)
}

impl MemifLink {
    /// Between these rings. `own` wakes us and `bell` the peer; packets are no longer than
    /// `longest`.
    ///
    /// # Errors
    /// What wakes the peer is no eventfd.
    pub(super) fn new(
        rings: (MemifSender, MemifReceiver),
        own: OwnedFd,
        bell: OwnedFd,
        fences: bool,
        longest: usize,
    ) -> io::Result<MemifLink> {
        // Whatever else it were, writing to it could do anything, or keep us.
        let kind = fs::readlink(format!("/proc/self/fd/{}", bell.as_raw_fd()), Vec::new())?;
        if kind.as_bytes() != b"anon_inode:[eventfd]" {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "what wakes the peer is no eventfd",
            ));
        }
        fs::fcntl_setfl(&bell, fs::fcntl_getfl(&bell)? | OFlags::NONBLOCK)?;
        let waker = Waker::new(own, None)?;
        let (sender, receiver) = rings;
        receiver.lay_out();
        Ok(MemifLink { sender, receiver, bell, waker, fences, waits: false, longest })
    }

    /// Sends a packet; `false` if there is no room for it.
    ///
    /// # Errors
    /// The peer broke the ring.
    pub fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        match self.sender.send(packet).map_err(broken)? {
            SendOutcome::Wake => match rustix::io::write(&self.bell, &1u64.to_ne_bytes()) {
                // It is full of wake-ups: whoever has filled it has been woken.
                Ok(_) | Err(Errno::AGAIN) => Ok(true),
                Err(error) => Err(error.into()),
            },
            SendOutcome::Quiet => Ok(true),
            SendOutcome::Full => Ok(false),
        }
    }

    /// Takes a packet, if there is one: how long it is, or that it was none.
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

    /// Asks to be woken by the next packet; `true` if there is none yet.
    ///
    /// # Errors
    /// The peer broke the ring.
    pub fn rest(&mut self) -> io::Result<bool> {
        self.receiver.mask(false);
        self.receiver.is_empty().map_err(broken)
    }

    /// Forgets the wake-ups that came.
    ///
    /// # Errors
    /// None that one could expect.
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
        // One that was none is an empty one, which whoever unpacks it refuses.
        out.truncate(received.map_or(0, |length| length.unwrap_or(0)));
        Ok(received.is_some())
    }

    fn ask_room(&mut self, _bytes: usize) -> io::Result<bool> {
        // Nobody would say; the alarm does.
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
        // The control channel says that.
        false
    }
}

impl AsFd for MemifLink {
    /// Readable when there was a wake-up, until they are [cleared](MemifLink::clear).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
