//! Packets in batches through a carrier to another process: packed here, unpacked there, and the
//! same in the other direction.

use crate::endpoint::{Crossed, Endpoint};
use falaj_engine::batch::{Batch, BatchPackets, BatchPolicy, MalformedBatch, Packer};
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// While this number of batches waits for room in the ring, no packet is accepted.
const MOST_WAITING: usize = 32;

/// A carrier of batches to another process, and back. Methods about the state of the other side
/// have defaults for carriers that do not know this state.
pub trait Carrier: AsFd {
    /// Sends a batch; returns false if there is no room for it now.
    fn send(&mut self, bytes: &[u8]) -> io::Result<bool>;
    /// Receives a batch, which replaces the contents of `out`; returns false if there is none.
    fn receive(&mut self, out: &mut Vec<u8>) -> io::Result<bool>;
    /// Asks the other side to report when it is done with the next batch, which has this number of
    /// bytes and left at this instant.
    fn ask_when(&mut self, bytes: usize, left: u64) {
        let _ = (bytes, left);
    }
    /// The other side's report, if [`ask_when`](Carrier::ask_when) asked for one; returned once.
    fn crossed(&mut self) -> Option<Crossed> {
        None
    }
    /// Returns true if the other side is known to have taken everything and gone to sleep.
    fn peer_is_idle(&self) -> bool {
        false
    }
    /// Requests a wake-up when the other side goes to sleep; returns true if it already has.
    fn ask_idle(&mut self) -> bool {
        false
    }
    /// Requests a wake-up when there may be room for `bytes` bytes; returns true if there is.
    fn ask_room(&mut self, bytes: usize) -> io::Result<bool>;
    /// Requests a wake-up by the next batch; returns true if there is none yet.
    fn rest(&mut self) -> io::Result<bool>;
    /// Sets an additional wake-up at this instant, in place of an earlier one; `None`: no such
    /// wake-up.
    fn alarm(&mut self, at: Option<u64>) -> io::Result<()>;
    /// Clears past wake-ups.
    fn clear(&mut self) -> io::Result<()>;
    /// Returns true if the other side is known to be gone.
    fn is_gone(&self) -> bool;
}

/// Counters of one side of a crossing, since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrossingCounts {
    /// Batches that left this side, and the packets in them.
    pub sent: BatchCounts,
    /// Total time that these packets waited in their batches.
    pub waited: Span,
    /// Batches that came from the other side, and the packets taken out of them.
    pub received: BatchCounts,
}

/// Numbers of batches and of packets in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchCounts {
    /// Number of batches.
    pub batches: u64,
    /// Number of packets in them.
    pub packets: u64,
}

impl CrossingCounts {
    fn count(&mut self, batch: &Batch<'_>) {
        self.sent.batches += 1;
        self.sent.packets += u64::from(batch.packets);
        self.waited += batch.waited;
    }
}

/// One side of a crossing. Instants are nanoseconds of CLOCK_MONOTONIC.
pub struct Crossing<C = Endpoint> {
    endpoint: C,
    packer: Packer,
    /// Batches that have left the packer and wait for room in the ring.
    waiting: VecDeque<Vec<u8>>,
    /// The batch that is being unpacked, and the number of its bytes that are left.
    batch: Vec<u8>,
    left: usize,
    counts: CrossingCounts,
}

/// Sends a batch, after those that wait. If the packer is tuned and no batch waits, asks the other
/// side to report when it is done with the batch.
fn send(
    endpoint: &mut impl Carrier,
    waiting: &mut VecDeque<Vec<u8>>,
    batch: &Batch<'_>,
    tuned: bool,
) -> io::Result<()> {
    let behind = !waiting.is_empty();
    if tuned && !behind {
        endpoint.ask_when(batch.bytes.len(), batch.left.0);
    }
    if behind || !endpoint.send(batch.bytes)? {
        waiting.push_back(batch.bytes.to_vec());
    }
    Ok(())
}

/// Runs an operation of the packer, and sends the batches that leave the packer.
macro_rules! packing {
    ($self:ident, $batch:ident, $do:expr) => {{
        let Crossing { endpoint, packer, waiting, counts, .. } = $self;
        let (mut sent, tuned) = (Ok(()), packer.is_tuned());
        let done = {
            let mut out = |c: Batch<'_>| {
                counts.count(&c);
                if sent.is_ok() {
                    sent = send(endpoint, waiting, &c, tuned);
                }
            };
            let $batch = (packer, &mut out);
            $do
        };
        sent.map(|()| done)
    }};
}

impl<C: Carrier> Crossing<C> {
    /// Creates a crossing that packs with this packer, and unpacks the batches of the other side.
    pub fn new(endpoint: C, packer: Packer) -> Crossing<C> {
        let (waiting, batch, counts) = (VecDeque::new(), Vec::new(), CrossingCounts::default());
        Crossing { endpoint, packer, waiting, batch, left: 0, counts }
    }

    /// The counters of this side.
    pub fn counts(&self) -> CrossingCounts {
        self.counts
    }

    /// The policy of this side now.
    pub fn policy(&self) -> BatchPolicy {
        self.packer.policy()
    }

    /// Packs with another packer from now on; open batches leave first.
    pub fn repack(&mut self, packer: Packer, now: Time) -> io::Result<()> {
        packing!(self, p, p.0.flush(now, p.1))?;
        self.packer = packer;
        Ok(())
    }

    /// Returns true if there is no room for batches; no packet is accepted then.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_WAITING
    }

    /// Packs a packet; returns false if it was not accepted: no room, or longer than a batch.
    pub fn offer(&mut self, packet: &[u8], now: Time) -> io::Result<bool> {
        if self.is_full() {
            return Ok(false);
        }
        let taken = packing!(self, p, p.0.offer(packet, now, p.1))?.is_ok();
        self.look(now)?;
        Ok(taken)
    }

    /// Sends the batches that leave because the other side is idle.
    fn look(&mut self, now: Time) -> io::Result<()> {
        if !self.packer.is_empty() && self.packer.policy().when_idle && self.endpoint.peer_is_idle()
        {
            packing!(self, p, p.0.idle(now, p.1))?;
        }
        Ok(())
    }

    /// Sends the batches that waited for room, and those due by `now`.
    pub fn poll(&mut self, now: Time) -> io::Result<()> {
        while let Some(first) = self.waiting.front() {
            if !self.endpoint.send(first)? {
                break;
            }
            self.waiting.pop_front();
        }
        if let Some(crossed) = self.endpoint.crossed() {
            self.packer.crossed(crossed.took);
            self.packer.spent(crossed.spent);
        }
        packing!(self, p, p.0.poll(now, p.1))?;
        self.look(now)
    }

    /// The latest instant for the next [`poll`](Crossing::poll); `Time::NEVER` if a wake-up is
    /// enough.
    pub fn next_due(&self) -> Time {
        self.packer.next_due()
    }

    /// Writes the next received packet into the buffer and returns its length; `None` if there is
    /// none now. If a batch ends within a packet or its length, the rest of that batch is lost.
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
    ) -> io::Result<Option<Result<usize, MalformedBatch>>> {
        loop {
            if self.left > 0 {
                return Ok(Some(self.unload(buffer)));
            }
            if !self.endpoint.receive(&mut self.batch)? {
                return Ok(None);
            }
            match BatchPackets::resume(&self.batch, usize::MAX) {
                // Batches without packets are invalid: an endless number of them would block this
                // loop.
                Ok(packets) if packets.left() == 0 => {
                    return Ok(Some(Err(MalformedBatch::NoLength)));
                }
                Ok(packets) => {
                    self.left = packets.left();
                    self.counts.received.batches += 1;
                }
                Err(malformed) => return Ok(Some(Err(malformed))),
            }
        }
    }

    fn unload(&mut self, buffer: &mut [u8]) -> Result<usize, MalformedBatch> {
        let mut packets = BatchPackets::resume(&self.batch, self.left)?;
        let packet = packets.next();
        self.left = packets.left();
        self.counts.received.packets += 1;
        packet.unwrap_or(Err(MalformedBatch::NoLength))?.write(self.packer.before(), buffer)
    }

    /// Requests all wake-ups for which there is a reason; returns true if there is nothing to do
    /// until the next wake-up.
    pub fn rest(&mut self) -> io::Result<bool> {
        if let Some(first) = self.waiting.front()
            && self.endpoint.ask_room(first.len())?
        {
            return Ok(false);
        }
        let holds_back = !self.packer.is_empty() && self.packer.policy().when_idle;
        if holds_back && self.endpoint.ask_idle() {
            return Ok(false);
        }
        self.endpoint.rest()
    }

    /// Sets an additional wake-up at the next due instant.
    pub fn alarm(&mut self) -> io::Result<()> {
        let due = self.next_due();
        self.endpoint.alarm((due != Time::NEVER).then_some(due.0))
    }

    /// Clears past wake-ups.
    pub fn clear(&mut self) -> io::Result<()> {
        self.endpoint.clear()
    }

    /// Returns true if the other side is known to be gone.
    pub fn is_gone(&self) -> bool {
        self.endpoint.is_gone()
    }
}

impl Crossing<Endpoint> {
    /// Sends the other side a message beside the batches.
    ///
    /// # Errors
    /// As [`Endpoint::tell`].
    pub fn tell(&self, message: &[u8]) -> io::Result<()> {
        self.endpoint.tell(message)
    }

    /// Receives the other side's next message, if there is one.
    pub fn told(&mut self) -> Option<Vec<u8>> {
        self.endpoint.told()
    }
}

impl<C: Carrier> AsFd for Crossing<C> {
    /// Readable when there was a wake-up, until wake-ups are [cleared](Crossing::clear).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.endpoint.as_fd()
    }
}
