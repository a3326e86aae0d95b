//! A ring of descriptors, in either role and direction.
//!
//! The slave owns all buffers. In a ring to the master it puts packets in them, says so by `head`,
//! and has them back when the master moves `tail`; in the other one it lays out empty ones by
//! `head`, and the master fills them and says so by `tail`.
//!
//! Whatever the peer may write is read once and checked. A descriptor that leads nowhere costs that
//! packet; an index that cannot be ends the ring.

use super::message::AddRing;
use super::region::Region;
use crate::memory::SharedMemory;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

/// What a ring begins with.
const COOKIE: u32 = 0x03E3_1F20;
/// Where its parts are: a line for each side, then the descriptors.
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
const DESCRIPTORS: usize = 128;
/// Bytes of a descriptor.
const DESCRIPTOR: usize = 16;
/// The largest ring: indices have 16 bits, and a full ring is no empty one.
pub const MAX_LOG2: u8 = 14;
/// Whoever takes packets is awake.
const NO_INTERRUPT: u16 = 1;
/// A descriptor is not the packet's last.
const NEXT: u16 = 1;

/// Size of the rings that we make, as a power of two.
pub(super) const OUR_LOG2: u8 = 10;
/// Bytes of the buffers that we make.
pub const BUFFER: usize = 2048;

/// The peer's indices make no sense, or its ring is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenMemifRing(&'static str);

impl fmt::Display for BrokenMemifRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BrokenMemifRing {}

/// A packet that was none: its descriptors lead out of the memory, or it is too long, or its end is
/// missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostFrame;

impl fmt::Display for LostFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a packet whose descriptors lead nowhere, or that is too long")
    }
}

impl std::error::Error for LostFrame {}

/// Bytes of a ring.
pub fn length(log2: u8) -> usize {
    DESCRIPTORS + (DESCRIPTOR << log2)
}

/// A ring within a region.
struct MemifRing<M> {
    region: M,
    at: usize,
    log2: u8,
}

/// A descriptor, as it was read.
struct Descriptor {
    flags: u16,
    region: u16,
    length: u32,
    offset: u32,
}

impl<M: Region> MemifRing<M> {
    fn new(region: M, at: usize, log2: u8) -> Result<MemifRing<M>, BrokenMemifRing> {
        if log2 > MAX_LOG2 {
            return Err(BrokenMemifRing("a ring is larger than it was said that it may be"));
        }
        if !region.has(at, length(log2)) {
            return Err(BrokenMemifRing("a ring is not within its region"));
        }
        Ok(MemifRing { region, at, log2 })
    }

    fn size(&self) -> u16 {
        1 << self.log2
    }

    #[inline]
    fn load(&self, index: usize, order: Ordering) -> u16 {
        self.region.load16(self.at + index, order)
    }

    #[inline]
    fn store(&self, index: usize, value: u16, order: Ordering) {
        self.region.store16(self.at + index, value, order);
    }

    /// Where the descriptor of an index is.
    #[inline]
    fn slot(&self, index: u16) -> usize {
        self.at + DESCRIPTORS + DESCRIPTOR * usize::from(index & (self.size() - 1))
    }

    /// Read once.
    #[inline]
    fn descriptor(&self, index: u16) -> Descriptor {
        let at = self.slot(index);
        let first = self.region.load64(at).to_ne_bytes();
        let second = self.region.load64(at + 8).to_ne_bytes();
        let [a, b, c, d, e, f, g, h] = first;
        let [o0, o1, o2, o3, ..] = second;
        Descriptor {
            flags: u16::from_ne_bytes([a, b]),
            region: u16::from_ne_bytes([c, d]),
            length: u32::from_ne_bytes([e, f, g, h]),
            offset: u32::from_ne_bytes([o0, o1, o2, o3]),
        }
    }

    #[inline]
    fn describe(&self, index: u16, flags: u16, length: u32) {
        let at = self.slot(index);
        self.region.store16(at, flags, Relaxed);
        self.region.store32(at + 4, length);
    }

    /// How far the other side is beyond `own`, which is a ring's length at most.
    #[inline]
    fn beyond(&self, index: usize, own: u16) -> Result<u16, BrokenMemifRing> {
        let there = self.load(index, Acquire).wrapping_sub(own);
        if there > self.size() {
            Err(BrokenMemifRing("the peer's index of a ring cannot be"))
        } else {
            Ok(there)
        }
    }
}

/// Whose the buffers are, and so which role we have.
enum Buffers<M> {
    /// The slave's, in these regions: we are the master.
    Theirs(Arc<[M]>),
    /// Ours, one for each descriptor, from here on: we are the slave.
    Ours(M, usize),
}

impl<M: Region> Buffers<M> {
    /// Where the buffer of a descriptor is, and its bytes: as it says, or, of ours, as we know.
    fn place(
        &self,
        ring: &MemifRing<M>,
        index: u16,
        descriptor: &Descriptor,
    ) -> Option<(&M, usize)> {
        match self {
            Buffers::Theirs(regions) => Some((
                regions.get(usize::from(descriptor.region))?,
                usize::try_from(descriptor.offset).ok()?,
            )),
            Buffers::Ours(region, from) => {
                Some((region, from + BUFFER * usize::from(index & (ring.size() - 1))))
            }
        }
    }

    fn is_ours(&self) -> bool {
        matches!(self, Buffers::Ours(..))
    }
}

/// The side from which packets come.
pub struct MemifSender<M = Arc<SharedMemory>> {
    ring: MemifRing<M>,
    buffers: Buffers<M>,
    own: u16,
}

/// The side that takes them.
pub struct MemifReceiver<M = Arc<SharedMemory>> {
    ring: MemifRing<M>,
    buffers: Buffers<M>,
    own: u16,
    masked: bool,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// It is in the ring, and the peer is to be woken.
    Wake,
    /// It is in the ring, and the peer is awake.
    Quiet,
    /// There is no room for it now.
    Full,
}

/// The master's rings: where the slave has said that they are, to the slave first.
///
/// # Errors
/// They are not there.
pub fn of_master<M: Region>(
    regions: &[M],
    rings: [&AddRing; 2],
) -> Result<(MemifSender<M>, MemifReceiver<M>), BrokenMemifRing> {
    let all: Arc<[M]> = regions.into();
    let [to_slave, to_master] = rings.map(|ring| {
        let region = regions
            .get(usize::from(ring.region))
            .ok_or(BrokenMemifRing("a ring is in a region that there is not"))?;
        let at = usize::try_from(ring.offset)
            .map_err(|_| BrokenMemifRing("a ring is not within its region"))?;
        let ring = MemifRing::new(region.clone(), at, ring.log2_ring_size)?;
        if ring.region.load32(ring.at) != COOKIE {
            return Err(BrokenMemifRing("a ring does not begin with memif's cookie"));
        }
        Ok(ring)
    });
    let (to_slave, to_master) = (to_slave?, to_master?);
    let sender = MemifSender {
        own: to_slave.load(TAIL, Relaxed),
        ring: to_slave,
        buffers: Buffers::Theirs(Arc::clone(&all)),
    };
    let receiver = MemifReceiver {
        own: to_master.load(TAIL, Relaxed),
        ring: to_master,
        buffers: Buffers::Theirs(all),
        masked: false,
    };
    Ok((sender, receiver))
}

/// Words of the slave's region: two rings, then a buffer for each descriptor.
pub fn words(log2: u8) -> usize {
    2 * (length(log2) + (BUFFER << log2)) / size_of::<u64>()
}

/// The slave's rings, in a region of as many [`words`]: to the master first.
///
/// # Errors
/// It has fewer.
pub fn of_slave<M: Region>(
    region: &M,
    log2: u8,
) -> Result<(MemifSender<M>, MemifReceiver<M>), BrokenMemifRing> {
    let buffers = 2 * length(log2);
    let ring = |which: usize| {
        let ring = MemifRing::new(region.clone(), which * length(log2), log2)?;
        ring.region.store32(ring.at, COOKIE);
        let from = buffers + which * (BUFFER << log2);
        for index in 0..ring.size() {
            let at = ring.slot(index);
            let offset = (from + BUFFER * usize::from(index)) as u32;
            ring.region.store32(at + 8, offset);
            ring.describe(index, 0, BUFFER as u32);
        }
        Ok((ring, Buffers::Ours(region.clone(), from)))
    };
    let ((to_master, ours), (to_slave, too)) = (ring(0)?, ring(1)?);
    let sender = MemifSender { ring: to_master, buffers: ours, own: 0 };
    let receiver = MemifReceiver { ring: to_slave, buffers: too, own: 0, masked: false };
    Ok((sender, receiver))
}

impl<M: Region> MemifSender<M> {
    /// Descriptors that are free.
    #[inline]
    fn room(&self) -> Result<u16, BrokenMemifRing> {
        match self.buffers {
            Buffers::Theirs(_) => self.ring.beyond(HEAD, self.own),
            Buffers::Ours(..) => {
                let behind = self.own.wrapping_sub(self.ring.load(TAIL, Acquire));
                self.ring
                    .size()
                    .checked_sub(behind)
                    .ok_or(BrokenMemifRing("the peer's index of a ring cannot be"))
            }
        }
    }

    /// Sends a packet, over several buffers if it must be.
    ///
    /// # Errors
    /// The ring makes no sense.
    pub fn send(&mut self, packet: &[u8]) -> Result<SendOutcome, BrokenMemifRing> {
        let room = self.room()?;
        let (mut left, mut used) = (packet, 0);
        while used == 0 || !left.is_empty() {
            if used == room {
                return Ok(SendOutcome::Full);
            }
            let index = self.own.wrapping_add(used);
            let descriptor = self.ring.descriptor(index);
            let capacity = if self.buffers.is_ours() { BUFFER } else { descriptor.length as usize };
            let (now, later) = left.split_at(left.len().min(capacity));
            let place = self.buffers.place(&self.ring, index, &descriptor);
            if capacity == 0 || !place.is_some_and(|(region, at)| region.write(at, now)) {
                return Err(BrokenMemifRing("a buffer of the peer's is not within its regions"));
            }
            self.ring.describe(index, if later.is_empty() { 0 } else { NEXT }, now.len() as u32);
            (left, used) = (later, used + 1);
        }
        self.own = self.own.wrapping_add(used);
        let index = if self.buffers.is_ours() { HEAD } else { TAIL };
        self.ring.store(index, self.own, Release);
        // Either we see that the peer sleeps, or it sees that there is something.
        M::fence();
        let awake = self.ring.load(FLAGS, Relaxed) & NO_INTERRUPT != 0;
        Ok(if awake { SendOutcome::Quiet } else { SendOutcome::Wake })
    }
}

impl<M: Region> MemifReceiver<M> {
    /// Descriptors with something in them.
    #[inline]
    fn ready(&self) -> Result<u16, BrokenMemifRing> {
        self.ring.beyond(if self.buffers.is_ours() { TAIL } else { HEAD }, self.own)
    }

    /// Is there a packet?
    pub fn is_empty(&self) -> Result<bool, BrokenMemifRing> {
        Ok(self.ready()? == 0)
    }

    /// Takes a packet, if there is one, and says how long it is.
    ///
    /// # Errors
    /// The ring makes no sense.
    pub fn receive(
        &mut self,
        out: &mut [u8],
    ) -> Result<Option<Result<usize, LostFrame>>, BrokenMemifRing> {
        let ready = self.ready()?;
        if ready == 0 {
            return Ok(None);
        }
        let (mut length, mut used, mut whole) = (0, 0, true);
        loop {
            let index = self.own.wrapping_add(used);
            let descriptor = self.ring.descriptor(index);
            used += 1;
            let bytes = descriptor.length as usize;
            let fits = !self.buffers.is_ours() || bytes <= BUFFER;
            let place = self.buffers.place(&self.ring, index, &descriptor);
            let out = out.get_mut(length..).and_then(|out| out.get_mut(..bytes));
            whole &= match (place, out) {
                (Some((region, at)), Some(out)) if fits && whole => region.read(at, out),
                _ => false,
            };
            length = length.saturating_add(bytes);
            if descriptor.flags & NEXT == 0 {
                break;
            }
            if used == ready {
                whole = false;
                break;
            }
        }
        self.release(used);
        Ok(Some(if whole { Ok(length) } else { Err(LostFrame) }))
    }

    /// Gives buffers back.
    fn release(&mut self, used: u16) {
        let own = self.own;
        self.own = own.wrapping_add(used);
        if self.buffers.is_ours() {
            (0..used).for_each(|n| self.ring.describe(own.wrapping_add(n), 0, BUFFER as u32));
            self.lay_out();
        } else {
            self.ring.store(TAIL, self.own, Release);
        }
    }

    /// Of ours: the master may fill all that is free.
    pub fn lay_out(&self) {
        if self.buffers.is_ours() {
            let head = self.own.wrapping_add(self.ring.size());
            self.ring.store(HEAD, head, Release);
        }
    }

    /// Asks to be woken by the next packet, or not to be.
    pub fn mask(&mut self, masked: bool) {
        if self.masked != masked {
            self.masked = masked;
            self.ring.store(FLAGS, if masked { NO_INTERRUPT } else { 0 }, Relaxed);
            // Either the peer sees that we sleep, or we see that there is something.
            M::fence();
        }
    }
}
