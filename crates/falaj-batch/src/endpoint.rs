//! One side of a pair of rings, one ring in each direction: byte strings that the peer writes are
//! read here. The descriptors of the memory and of the eventfds are sent over a Unix socket, called
//! the line. The line stays open, and its end shows that the peer is gone.

use crate::crossing::Carrier;
use crate::memory::SharedMemory;
use crate::ring::{BrokenRing, CONTROL, Popped, Pushed, RingReader, RingWriter, Took};
use crate::wake::{Waker, nanos};
use falaj_sched::units::time::Span;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg,
    send, sendmsg, socketpair,
};
use rustix::time::ClockId;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Contents of the first message besides its descriptors: the format of the memory.
const HELLO: &[u8] = b"falaj ring pair 1";
/// Number of descriptors of a pair: its memory, and the eventfds that wake either side.
const OWN: usize = 3;
/// Largest length in bytes of a message over the line after the first message.
const MESSAGE: usize = 256;
/// Largest number of further descriptors that are sent with those of a pair.
const MORE: usize = 5;

/// Shortest interval between two readings of this side's processor time, which it reports to the
/// peer, in nanoseconds.
const TELL_EVERY: u64 = 1_000_000;

/// Time of polling, in nanoseconds, for a string that the peer holds back until this side is idle;
/// the peer is woken only after that. A peer that is awake sends the string within a fraction of
/// that time, so that neither side has to sleep and be woken.
const LINGER: u64 = 1_000;

/// A pair of connected sockets, one for each side.
pub fn line() -> io::Result<[OwnedFd; 2]> {
    let (a, b) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok([a, b])
}

/// Size in words of the string area of one ring, if the memory of the pair has this number of
/// words; `None` if no pair has memory of this size.
fn room(words: usize) -> Option<usize> {
    let room = (words / 2).checked_sub(CONTROL)?;
    (words == 2 * (room + CONTROL) && room.is_power_of_two()).then_some(room)
}

/// One side of a pair.
pub struct Endpoint {
    writer: RingWriter<Arc<SharedMemory>>,
    reader: RingReader<Arc<SharedMemory>>,
    /// The eventfd that wakes the peer.
    bell: OwnedFd,
    /// Wakes this side when the peer rings, the line ends, or a timer expires.
    waker: Waker,
    /// True if the peer is woken for each string, even if it is known to be awake.
    always_ring: bool,
    gone: bool,
    /// Number of wake-ups that were sent.
    rung: u64,
    /// Time of departure, in nanoseconds, of the string on which the peer is to report.
    asked: Option<u64>,
    /// The peer's last report of its processor time.
    spent: Took,
    /// The last reading of this side's processor time, for reports to the peer, and its instant.
    told: Took,
}

/// The peer's report on a string, limited to possible values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossed {
    /// Time from the string's departure until the peer was done with it.
    pub took: Span,
    /// Processor time that the peer has spent since the last report.
    pub spent: Span,
}

impl Endpoint {
    /// Creates a pair with room for `bytes` in each direction (a power of two), and sends the peer
    /// its side over the line, with the descriptors `more`.
    pub fn create(line: OwnedFd, bytes: usize, more: &[BorrowedFd<'_>]) -> io::Result<Endpoint> {
        let invalid = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "the size of a ring must be a power of two, at least 64 B",
            )
        };
        if !bytes.is_power_of_two() || bytes < 64 || more.len() > MORE {
            return Err(invalid());
        }
        let (memory, shared) = SharedMemory::create(2 * (bytes / size_of::<u64>() + CONTROL))?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let (own, peer) = (eventfd(0, flags)?, eventfd(0, flags)?);
        let mut fds = vec![memory.as_fd(), peer.as_fd(), own.as_fd()];
        fds.extend_from_slice(more);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(OWN + MORE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(invalid());
        }
        sendmsg(&line, &[IoSlice::new(HELLO)], &mut control, SendFlags::NOSIGNAL)?;
        Endpoint::new(&shared, false, own, peer, line)
    }

    /// Takes the side that the peer has sent over the line, and the further descriptors.
    pub fn accept(line: OwnedFd) -> io::Result<(Endpoint, Vec<OwnedFd>)> {
        let invalid = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut hello = [0; HELLO.len() + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(OWN + MORE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(
            &line,
            &mut [IoSliceMut::new(&mut hello)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let fds: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        if &hello[..got.bytes] != HELLO || got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(invalid("the message over the line is not a ring pair of a known version"));
        }
        let mut fds = fds.into_iter();
        let (Some(memory), Some(own), Some(peer)) = (fds.next(), fds.next(), fds.next()) else {
            return Err(invalid("a ring pair came without its descriptors"));
        };
        Ok((Endpoint::new(&SharedMemory::open(memory)?, true, own, peer, line)?, fds.collect()))
    }

    fn new(
        shared: &Arc<SharedMemory>,
        accepted: bool,
        own: OwnedFd,
        bell: OwnedFd,
        line: OwnedFd,
    ) -> io::Result<Endpoint> {
        use crate::ring::Memory;
        let invalid = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the shared memory does not have the length of a ring pair",
            )
        };
        let room = room(shared.words().len()).ok_or_else(invalid)?;
        let mut bases = [0, CONTROL + room];
        if accepted {
            bases.reverse();
        }
        let writer = RingWriter::new(Arc::clone(shared), bases[0], room).ok_or_else(invalid)?;
        let reader = RingReader::new(Arc::clone(shared), bases[1], room).ok_or_else(invalid)?;
        let waker = Waker::new(own, Some(line))?;
        let (always_ring, gone, rung) = (false, false, 0);
        let never = Took { at: 0, spent: 0 };
        let (asked, spent, told) = (None, never, never);
        Ok(Endpoint { writer, reader, bell, waker, always_ring, gone, rung, asked, spent, told })
    }

    /// Wakes the peer for each string from now on, even if it is known to be awake.
    pub fn always_ring(&mut self) {
        self.always_ring = true;
    }

    /// Sends the peer a message over the line, which wakes it.
    ///
    /// # Errors
    /// The message is too long, or the peer is gone or does not read its messages.
    pub fn tell(&self, message: &[u8]) -> io::Result<()> {
        let Some(line) = self.waker.line().filter(|_| message.len() <= MESSAGE) else {
            return Err(Errno::MSGSIZE.into());
        };
        send(line, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Receives the peer's next message over the line, if there is one.
    pub fn told(&mut self) -> Option<Vec<u8>> {
        let mut message = vec![0; MESSAGE];
        let (length, _) = recv(self.waker.line()?, &mut message, RecvFlags::DONTWAIT).ok()?;
        message.truncate(length);
        // An empty message is the end of the line.
        (length > 0).then_some(message)
    }

    /// Wakes the peer.
    fn ring(&mut self) -> io::Result<()> {
        self.rung += 1;
        match rustix::io::write(&self.bell, &1u64.to_ne_bytes()) {
            // The counter is full of wake-ups, so the peer has been woken.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Number of times that the peer was woken.
    pub fn rung(&self) -> u64 {
        self.rung
    }

    /// Length of the longest string in bytes.
    pub fn longest(&self) -> usize {
        self.writer.longest()
    }

    /// Sends a string; returns false if there is no room for it now.
    ///
    /// # Errors
    /// The string never fits, or the peer broke the ring.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<bool> {
        match self.writer.push(bytes).map_err(broken)? {
            Pushed::Wake => self.ring()?,
            Pushed::Quiet if self.always_ring => self.ring()?,
            Pushed::Quiet => {}
            Pushed::Full => return Ok(false),
            Pushed::TooLong => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a batch is longer than the ring",
                ));
            }
        }
        Ok(true)
    }

    /// Receives a string, which replaces the contents of `out`; returns false if there is none.
    ///
    /// # Errors
    /// The peer broke the ring.
    pub fn receive(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        self.answer();
        match self.reader.pop(out).map_err(broken)? {
            Popped::Empty => return Ok(false),
            Popped::Wake => self.ring()?,
            Popped::Quiet => {}
        }
        Ok(true)
    }

    /// If the peer asked about the last string, reports that this side is done with it: the reader
    /// now wants the next string.
    #[inline]
    fn answer(&mut self) {
        if self.reader.is_asked() {
            let at = nanos(ClockId::Monotonic);
            // Reading the thread's clock costs a system call.
            if at.saturating_sub(self.told.at) >= TELL_EVERY {
                self.told = Took { at, spent: nanos(ClockId::ThreadCPUTime) };
            }
            self.reader.answer(Took { at, ..self.told });
        }
    }

    /// Asks the peer to report when it is done with the next string, which has this number of bytes
    /// and left at this instant, in nanoseconds of CLOCK_MONOTONIC. The call has no effect while a
    /// report is outstanding.
    pub fn ask_when(&mut self, bytes: usize, left: u64) {
        if self.asked.is_none() {
            self.writer.ask_when(bytes);
            self.asked = Some(left);
        }
    }

    /// The peer's report, if [`ask_when`](Endpoint::ask_when) asked for one; returned once.
    pub fn crossed(&mut self) -> Option<Crossed> {
        let left = self.asked?;
        let told = self.writer.took()?;
        self.asked = None;
        // The report is limited to possible values: no string was taken before it left or in the
        // future, and no thread spends more processor time than has passed.
        let at = told.at.clamp(left, nanos(ClockId::Monotonic).max(left));
        let most =
            if self.spent.at == 0 { 0 } else { (at + TELL_EVERY).saturating_sub(self.spent.at) };
        let spent = told.spent.saturating_sub(self.spent.spent).min(most);
        self.spent = Took { at, spent: told.spent };
        Some(Crossed { took: Span(at - left), spent: Span(spent) })
    }

    /// Returns true if the peer has taken everything and gone to sleep.
    #[inline]
    pub fn peer_is_idle(&self) -> bool {
        self.writer.is_idle()
    }

    /// Requests a wake-up when the peer goes to sleep; returns true if it already has.
    pub fn ask_idle(&mut self) -> bool {
        self.writer.ask_idle()
    }

    /// Requests a wake-up when a string of `bytes` bytes fits and at least half of the ring is
    /// free; returns true if this much is free already.
    pub fn ask_room(&mut self, bytes: usize) -> io::Result<bool> {
        self.writer.ask_room(bytes).map_err(broken)
    }

    /// Requests a wake-up by the next string. Returns true if there is none yet: the caller may
    /// then [`wait`](Endpoint::wait).
    pub fn rest(&mut self) -> io::Result<bool> {
        self.answer();
        let rest = self.reader.rest().map_err(broken)?;
        if rest.wake {
            if self.linger()? {
                return Ok(false);
            }
            self.ring()?;
        }
        Ok(rest.empty)
    }

    /// Polls for a string for a moment; returns true if one came.
    fn linger(&mut self) -> io::Result<bool> {
        let until = nanos(ClockId::Monotonic) + LINGER;
        loop {
            if self.reader.look().map_err(broken)? {
                return Ok(true);
            }
            if nanos(ClockId::Monotonic) >= until {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
    }

    /// Sets an additional wake-up at this instant, in nanoseconds of CLOCK_MONOTONIC, in place of
    /// an earlier one; `None`: no such wake-up.
    pub fn alarm(&mut self, at: Option<u64>) -> io::Result<()> {
        self.waker.alarm(at)
    }

    /// Waits for a wake-up, for `timeout` at most; returns at once if the peer is gone, as no
    /// wake-up would come.
    pub fn wait(&mut self, timeout: Option<Span>) -> io::Result<()> {
        self.gone |= self.waker.wait(if self.gone { Some(Span::ZERO) } else { timeout })?;
        Ok(())
    }

    /// Returns true if the peer is known to be gone. Strings that it has sent before can still be
    /// received.
    pub fn is_gone(&self) -> bool {
        self.gone
    }
}

fn broken(broken: BrokenRing) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, broken)
}

impl AsFd for Endpoint {
    /// Readable when the peer has sent a wake-up or is gone, or the [alarm](Endpoint::alarm) has
    /// expired, until the next [`wait`](Endpoint::wait).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

impl Carrier for Endpoint {
    fn send(&mut self, bytes: &[u8]) -> io::Result<bool> {
        Endpoint::send(self, bytes)
    }

    fn receive(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        Endpoint::receive(self, out)
    }

    fn ask_when(&mut self, bytes: usize, left: u64) {
        Endpoint::ask_when(self, bytes, left);
    }

    fn crossed(&mut self) -> Option<Crossed> {
        Endpoint::crossed(self)
    }

    fn peer_is_idle(&self) -> bool {
        Endpoint::peer_is_idle(self)
    }

    fn ask_idle(&mut self) -> bool {
        Endpoint::ask_idle(self)
    }

    fn ask_room(&mut self, bytes: usize) -> io::Result<bool> {
        Endpoint::ask_room(self, bytes)
    }

    fn rest(&mut self) -> io::Result<bool> {
        Endpoint::rest(self)
    }

    fn alarm(&mut self, at: Option<u64>) -> io::Result<()> {
        Endpoint::alarm(self, at)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.wait(Some(Span::ZERO))
    }

    fn is_gone(&self) -> bool {
        Endpoint::is_gone(self)
    }
}
