//! Packets in containers through one side of a pair of rings: packed here,
//! unpacked there, and the same the other way.

use crate::endpoint::Endpoint;
use falaj_engine::container::{Container, Malformed, Packer, Packets};
use falaj_sched::time::{Span, Time};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Containers that wait for room in the ring; with so many no packet is taken.
const MOST_WAITING: usize = 32;

/// One side. Instants are nanoseconds of CLOCK_MONOTONIC.
pub struct Crossing {
    endpoint: Endpoint,
    packer: Packer,
    /// Left their packer, and found the ring full.
    waiting: VecDeque<Vec<u8>>,
    /// The container that is being unpacked, and how much of it is left.
    container: Vec<u8>,
    left: usize,
}

/// Sends a container, behind those that wait. When it is taken is asked for whoever tunes the packer.
fn send(
    endpoint: &mut Endpoint,
    waiting: &mut VecDeque<Vec<u8>>,
    container: &Container<'_>,
    tuned: bool,
) -> io::Result<()> {
    let behind = !waiting.is_empty();
    if tuned && !behind {
        endpoint.ask_when(container.bytes.len(), container.left.0);
    }
    if behind || !endpoint.send(container.bytes)? {
        waiting.push_back(container.bytes.to_vec());
    }
    Ok(())
}

/// Lets the packer do something, and sends what leaves it.
macro_rules! packing {
    ($self:ident, $container:ident, $do:expr) => {{
        let Crossing { endpoint, packer, waiting, .. } = $self;
        let (mut sent, tuned) = (Ok(()), packer.is_tuned());
        let done = {
            let mut out = |c: Container<'_>| {
                if sent.is_ok() {
                    sent = send(endpoint, waiting, &c, tuned);
                }
            };
            let $container = (packer, &mut out);
            $do
        };
        sent.map(|()| done)
    }};
}

impl Crossing {
    /// What this packer packs, and what the other side's does.
    pub fn new(endpoint: Endpoint, packer: Packer) -> Crossing {
        Crossing { endpoint, packer, waiting: VecDeque::new(), container: Vec::new(), left: 0 }
    }

    /// Is there no room for what is packed? Then no packet is taken.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_WAITING
    }

    /// Packs a packet; `false` if it was not taken: no room, or longer than a container.
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
        if !self.packer.is_empty() && self.packer.policy().when_idle && self.endpoint.peer_is_idle() {
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

    /// Takes a packet: how long it is in the buffer, or what was wrong with its container's rest, which is lost.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Result<usize, Malformed>>> {
        loop {
            if self.left > 0 {
                return Ok(Some(self.unload(buffer)));
            }
            if !self.endpoint.receive(&mut self.container)? {
                return Ok(None);
            }
            match Packets::resume(&self.container, usize::MAX) {
                Ok(packets) => self.left = packets.left(),
                Err(malformed) => return Ok(Some(Err(malformed))),
            }
        }
    }

    fn unload(&mut self, buffer: &mut [u8]) -> Result<usize, Malformed> {
        let mut packets = Packets::resume(&self.container, self.left)?;
        let packet = packets.next();
        self.left = packets.left();
        packet.unwrap_or(Err(Malformed::NoLength))?.write(self.packer.before(), buffer)
    }

    /// Asks for whatever wake-up there is a reason to wait for; `true` if there is nothing to do until one.
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
        self.endpoint.wait(Some(Span::ZERO))
    }

    /// Is the other side known to be gone?
    pub fn is_gone(&self) -> bool {
        self.endpoint.is_gone()
    }
}

impl AsFd for Crossing {
    /// Readable when there was a wake-up, until they are [cleared](Crossing::clear).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.endpoint.as_fd()
    }
}
