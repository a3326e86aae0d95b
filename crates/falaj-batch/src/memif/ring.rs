//! A ring of descriptors, in either role and direction.
//!
//! The slave owns all buffers. In a ring to the master it fills them with packets and announces
//! them by `head`; it gets them back when the master moves `tail`. In the other ring it provides
//! empty buffers by `head`; the master fills them and announces them by `tail`.
//!
//! Everything that the peer may write is read once and checked. A packet with an invalid descriptor
//! is lost; an impossible index ends the ring.

use super::message::AddRing;
use super::region::Region;
use crate::memory::SharedMemory;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

/// The constant in the first word of a ring.
const COOKIE: u32 = 0x03E3_1F20;
/// Offsets in bytes of the parts of a ring: a cache line for each side, then the descriptors.
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
const DESCRIPTORS: usize = 128;
/// Size of a descriptor in bytes.
const DESCRIPTOR: usize = 16;
/// Base-2 logarithm of the size of the largest ring: indices have 16 bits, and a full ring must
/// differ from an empty one.
pub const MAX_LOG2: u8 = 14;
/// Flag that a receiver sets while it is awake and needs no wake-up.
const NO_INTERRUPT: u16 = 1;
/// Flag of a descriptor that is not the last of its packet.
const NEXT: u16 = 1;

/// Base-2 logarithm of the size of the rings that this side creates.
pub(super) const OUR_LOG2: u8 = 10;
/// Size in bytes of each buffer that this side creates.
pub const BUFFER: usize = 2048;

/// The peer's indices are impossible, or its ring is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenMemifRing(&'static str);

impl fmt::Display for BrokenMemifRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BrokenMemifRing {}

/// A malformed packet: its descriptors lead out of the memory, it is too long, or its end is
/// missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostFrame;

impl fmt::Display for LostFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a packet with invalid descriptors, or longer than allowed")
    }
}

impl std::error::Error for LostFrame {}

/// Length in bytes of a ring of `2^log2` descriptors.
pub fn length(log2: u8) -> usize {
    DESCRIPTORS + (DESCRIPTOR << log2)
}

/// A ring within a region.
struct MemifRing<M> {
    region: M,
    at: usize,
    log2: u8,
}

/// A descriptor as it was read.
struct Descriptor {
    flags: u16,
    region: u16,
    length: u32,
    offset: u32,
}

impl<M: Region> MemifRing<M> {
    fn new(region: M, at: usize, log2: u8) -> Result<MemifRing<M>, BrokenMemifRing> {
        if log2 > MAX_LOG2 {
            return Err(BrokenMemifRing("a ring is larger than its agreed maximum"));
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

    /// Offset of the descriptor of an index.
    #[inline]
    fn slot(&self, index: u16) -> usize {
        self.at + DESCRIPTORS + DESCRIPTOR * usize::from(index & (self.size() - 1))
    }

    /// Reads a descriptor, once.
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

    /// Distance of the other side's index from `own`. More than the size of the ring is an error.
    #[inline]
    fn beyond(&self, index: usize, own: u16) -> Result<u16, BrokenMemifRing> {
        let there = self.load(index, Acquire).wrapping_sub(own);
        if there > self.size() {
            Err(BrokenMemifRing("the peer's index of a ring is impossible"))
        } else {
            Ok(there)
        }
    }
}

/// The owner of the buffers, which determines the role of this side.
enum Buffers<M> {
    /// The slave's buffers, in these regions: this side is the master.
    Theirs(Arc<[M]>),
    /// Own buffers, one for each descriptor, from this offset on: this side is the slave.
    Ours(M, usize),
}

impl<M: Region> Buffers<M> {
    /// The region of a descriptor's buffer, and its offset there: from the descriptor or, for own
    /// buffers, from its index.
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

/// The sending side of a ring.
pub struct MemifSender<M = Arc<SharedMemory>> {
    ring: MemifRing<M>,
    buffers: Buffers<M>,
    own: u16,
}

/// The receiving side of a ring.
pub struct MemifReceiver<M = Arc<SharedMemory>> {
    ring: MemifRing<M>,
    buffers: Buffers<M>,
    own: u16,
    masked: bool,
}

/// The outcome of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// It is in the ring, and the peer has to be woken.
    Wake,
    /// It is in the ring, and the peer is awake.
    Quiet,
    /// There is no room for it now.
    Full,
}

/// The master's ends of the rings at the places that the slave has announced: the ring to the slave
/// first.
///
/// # Errors
/// There is no ring at one of these places.
pub fn of_master<M: Region>(
    regions: &[M],
    rings: [&AddRing; 2],
) -> Result<(MemifSender<M>, MemifReceiver<M>), BrokenMemifRing> {
    let all: Arc<[M]> = regions.into();
    let [to_slave, to_master] = rings.map(|ring| {
        let region = regions
            .get(usize::from(ring.region))
            .ok_or(BrokenMemifRing("a ring is in a region that does not exist"))?;
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

/// Size of the slave's region in words: two rings, then a buffer for each descriptor.
pub fn words(log2: u8) -> usize {
    2 * (length(log2) + (BUFFER << log2)) / size_of::<u64>()
}

/// The slave's ends of the rings in a region of [`words`] words: the ring to the master first.
///
/// # Errors
/// The region has fewer words.
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
    /// Number of free descriptors.
    #[inline]
    fn room(&self) -> Result<u16, BrokenMemifRing> {
        match self.buffers {
            Buffers::Theirs(_) => self.ring.beyond(HEAD, self.own),
            Buffers::Ours(..) => {
                let behind = self.own.wrapping_sub(self.ring.load(TAIL, Acquire));
                self.ring
                    .size()
                    .checked_sub(behind)
                    .ok_or(BrokenMemifRing("the peer's index of a ring is impossible"))
            }
        }
    }

    /// Sends a packet, over several buffers if necessary.
    ///
    /// # Errors
    /// The ring is malformed.
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
        // Either this side sees that the peer sleeps, or the peer sees the packet.
        M::fence();
        let awake = self.ring.load(FLAGS, Relaxed) & NO_INTERRUPT != 0;
        Ok(if awake { SendOutcome::Quiet } else { SendOutcome::Wake })
    }
}

impl<M: Region> MemifReceiver<M> {
    /// Number of filled descriptors.
    #[inline]
    fn ready(&self) -> Result<u16, BrokenMemifRing> {
        self.ring.beyond(if self.buffers.is_ours() { TAIL } else { HEAD }, self.own)
    }

    /// Returns true if there is no packet.
    pub fn is_empty(&self) -> Result<bool, BrokenMemifRing> {
        Ok(self.ready()? == 0)
    }

    /// Receives a packet, if there is one, and returns its length.
    ///
    /// # Errors
    /// The ring is malformed.
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

    /// Returns this number of buffers to the sender.
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

    /// If the buffers are this side's own, lets the master fill all of them.
    pub fn lay_out(&self) {
        if self.buffers.is_ours() {
            let head = self.own.wrapping_add(self.ring.size());
            self.ring.store(HEAD, head, Release);
        }
    }

    /// Requests a wake-up by the next packet or, if `masked`, cancels the request.
    pub fn mask(&mut self, masked: bool) {
        if self.masked != masked {
            self.masked = masked;
            self.ring.store(FLAGS, if masked { NO_INTERRUPT } else { 0 }, Relaxed);
            // Either the peer sees that this side sleeps, or this side sees the packet.
            M::fence();
        }
    }
}
