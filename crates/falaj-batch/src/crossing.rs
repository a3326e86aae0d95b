//! Packets in batches through whatever carries them to another process: packed here,
//! unpacked there, and the same the other way.

use crate::endpoint::{Crossed, Endpoint};
use falaj_engine::batch::{Batch, BatchPackets, MalformedBatch, Packer};
use falaj_sched::units::time::Time;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Batches that wait for room in the ring; with so many no packet is taken.
const MOST_WAITING: usize = 32;

/// What carries batches to another process, and back. What it cannot tell of the other side, it
/// does not.
pub trait Carrier: AsFd {
    /// Sends one; `false` if there is no room for it now.
    fn send(&mut self, bytes: &[u8]) -> io::Result<bool>;
    /// Takes one in the place of what is in `out`; `false` if there is none.
    fn receive(&mut self, out: &mut Vec<u8>) -> io::Result<bool>;
    /// Asks when the other side will be done with the next one, which has so many bytes and left at
    /// this instant.
    fn ask_when(&mut self, bytes: usize, left: u64) {
        let _ = (bytes, left);
    }
    /// What the other side says to that, once.
    fn crossed(&mut self) -> Option<Crossed> {
        None
    }
    /// Is the other side known to have taken everything and gone to sleep?
    fn peer_is_idle(&self) -> bool {
        false
    }
    /// Asks to be woken when it does; `true` if it has.
    fn ask_idle(&mut self) -> bool {
        false
    }
    /// Asks to be woken when there may be room for so many bytes; `true` if there is.
    fn ask_room(&mut self, bytes: usize) -> io::Result<bool>;
    /// Asks to be woken by the next batch; `true` if there is none yet.
    fn rest(&mut self) -> io::Result<bool>;
    /// Is to be woken at this instant too.
    fn alarm(&mut self, at: Option<u64>) -> io::Result<()>;
    /// Forgets the wake-ups that came.
    fn clear(&mut self) -> io::Result<()>;
    /// Is the other side known to be gone?
    fn is_gone(&self) -> bool;
}

/// One side. Instants are nanoseconds of CLOCK_MONOTONIC.
pub struct Crossing<C = Endpoint> {
    endpoint: C,
    packer: Packer,
    /// Left their packer, and found the ring full.
    waiting: VecDeque<Vec<u8>>,
    /// The batch that is being unpacked, and how much of it is left.
    batch: Vec<u8>,
    left: usize,
}

/// Sends a batch, behind those that wait. When it is taken is asked for whoever tunes the
/// packer.
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

/// Lets the packer do something, and sends what leaves it.
macro_rules! packing {
    ($self:ident, $batch:ident, $do:expr) => {{
        let Crossing { endpoint, packer, waiting, .. } = $self;
        let (mut sent, tuned) = (Ok(()), packer.is_tuned());
        let done = {
            let mut out = |c: Batch<'_>| {
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
    /// What this packer packs, and what the other side's does.
    pub fn new(endpoint: C, packer: Packer) -> Crossing<C> {
        Crossing { endpoint, packer, waiting: VecDeque::new(), batch: Vec::new(), left: 0 }
    }

    /// Is there no room for what is packed? Then no packet is taken.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_WAITING
    }

    /// Packs a packet; `false` if it was not taken: no room, or longer than a batch.
    pub fn offer(&mut self, packet: &[u8], now: Time) -> io::Result<bool> {
        if self.is_full() {
            return Ok(false);
        }
        let taken = packing!(self, p, p.0.offer(packet, now, p.1))?.is_ok();
        self.look(now)?;
        Ok(taken)
    }

    /// What leaves because the other side has nothing to do.
    fn look(&mut self, now: Time) -> io::Result<()> {
        if !self.packer.is_empty() && self.packer.policy().when_idle && self.endpoint.peer_is_idle()
        {
            packing!(self, p, p.0.idle(now, p.1))?;
        }
        Ok(())
    }

    /// Sends what waited for room, and what was due by `now`.
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

    /// When to [`poll`](Crossing::poll) at the latest; `Time::NEVER` if a wake-up is enough.
    pub fn next_due(&self) -> Time {
        self.packer.next_due()
    }

    /// Takes a packet: how long it is in the buffer, or what was wrong with its batch's rest,
    /// which is lost.
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
                // Nobody packs one without packets, and they could come for ever.
                Ok(packets) if packets.left() == 0 => {
                    return Ok(Some(Err(MalformedBatch::NoLength)));
                }
                Ok(packets) => self.left = packets.left(),
                Err(malformed) => return Ok(Some(Err(malformed))),
            }
        }
    }

    fn unload(&mut self, buffer: &mut [u8]) -> Result<usize, MalformedBatch> {
        let mut packets = BatchPackets::resume(&self.batch, self.left)?;
        let packet = packets.next();
        self.left = packets.left();
        packet.unwrap_or(Err(MalformedBatch::NoLength))?.write(self.packer.before(), buffer)
    }

    /// Asks for whatever wake-up there is a reason to wait for; `true` if there is nothing to do
    /// until one.
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

    /// Has a wake-up at the next due instant too.
    pub fn alarm(&mut self) -> io::Result<()> {
        let due = self.next_due();
        self.endpoint.alarm((due != Time::NEVER).then_some(due.0))
    }

    /// Forgets the wake-ups that came.
    pub fn clear(&mut self) -> io::Result<()> {
        self.endpoint.clear()
    }

    /// Is the other side known to be gone?
    pub fn is_gone(&self) -> bool {
        self.endpoint.is_gone()
    }
}

impl<C: Carrier> AsFd for Crossing<C> {
    /// Readable when there was a wake-up, until they are [cleared](Crossing::clear).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.endpoint.as_fd()
    }
}
