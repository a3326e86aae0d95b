//! Memory in chunks, and the four rings that pass chunks between this process and the kernel. At
//! any time a chunk belongs to one of the two.
//!
//! The kernel writes the rings, and a wrong value in them does no harm: frames are read only from
//! within the memory, and only chunks for sending are written to. A call handles at most as many
//! entries as a ring has places.

use std::ops::Range;

use nix::errno::Errno;
use nix::libc::xdp_desc;

use super::sys::{Frames, XdpRing};

/// Bytes of a chunk, which holds one frame.
pub(super) const CHUNK: usize = 4096;
/// Bytes that the kernel leaves free before a frame.
const HEADROOM: usize = 256;
/// Bytes of a frame in addition to its IP packet: an Ethernet header and two tags.
const BESIDE: usize = 22;
/// The largest MTU whose frames fit.
pub const LARGEST_MTU: u32 = (CHUNK - HEADROOM - BESIDE) as u32;

/// The memory for frames, and its four rings.
#[derive(Debug)]
pub(super) struct Chunks {
    frames: Frames,
    /// Free chunks for arriving frames.
    fill: XdpRing<u64>,
    received: XdpRing<xdp_desc>,
    send: XdpRing<xdp_desc>,
    /// Chunks whose frames the kernel has sent.
    sent: XdpRing<u64>,
    /// The numbers of the chunks for sending.
    going: Range<u64>,
    /// Offsets of the chunks for sending that are free.
    free: Vec<u64>,
}

/// Offset of chunk `n` in the memory, in bytes.
fn place(n: u64) -> u64 {
    n * CHUNK as u64
}

impl Chunks {
    /// Passes the first `coming` chunks to the kernel, for arriving frames; the next `going` chunks
    /// are for sending.
    pub(super) fn new(
        frames: Frames,
        [mut fill, sent]: [XdpRing<u64>; 2],
        [received, send]: [XdpRing<xdp_desc>; 2],
        (coming, going): (u32, u32),
    ) -> Chunks {
        (0..coming).for_each(|n| {
            fill.push(place(n.into()));
        });
        let going = coming.into()..u64::from(coming) + u64::from(going);
        Chunks {
            frames,
            fill,
            received,
            send,
            sent,
            free: going.clone().map(place).collect(),
            going,
        }
    }

    /// Calls `read` with the next frame that arrived, if there is one; the inner `None` means that
    /// the frame lies outside of the memory.
    #[inline]
    pub(super) fn receive<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<Option<T>> {
        let about = self.received.pop()?;
        let read = self.frames.bytes(about.addr, about.len as usize).map(read);
        // The ring of free chunks has room, because the kernel took this chunk from it.
        self.fill.push(about.addr & !(CHUNK as u64 - 1));
        Some(read)
    }

    /// Queues a frame for the kernel; returns false if there is no room.
    ///
    /// # Errors
    /// `EMSGSIZE`: the frame is longer than a chunk.
    #[inline]
    pub(super) fn send(&mut self, frame: &[u8]) -> Result<bool, Errno> {
        while let Some(chunk) = self.sent.pop() {
            let number = chunk / CHUNK as u64;
            // A chunk that is reported twice must not become free twice.
            if self.going.contains(&number)
                && (self.free.len() as u64) < self.going.end - self.going.start
            {
                self.free.push(place(number));
            }
        }
        if frame.len() > CHUNK {
            return Err(Errno::EMSGSIZE);
        }
        let Some(chunk) = self.free.pop() else { return Ok(false) };
        let put = self.frames.bytes_mut(chunk, frame.len()).is_some_and(|place| {
            place.copy_from_slice(frame);
            self.send.push(xdp_desc { addr: chunk, len: frame.len() as u32, options: 0 })
        });
        if !put {
            self.free.push(chunk);
        }
        Ok(put)
    }

    /// Takes back the last frame that was queued, if the kernel has not taken it.
    pub(super) fn take_back(&mut self) {
        if let Some(back) = self.send.take_back() {
            self.free.push(back.addr);
        }
    }
}

/// Simulates a kernel that behaves as `bytes` say, correctly at first and then arbitrarily. Checks
/// that no frame is read from outside of the memory, that no chunk for arriving frames is written
/// to, and that no loop is endless. While the kernel is correct, frames must pass unchanged and in
/// order.
#[cfg_attr(not(test), allow(dead_code, reason = "for tests and fuzzers"))]
pub(super) fn hostile(bytes: &[u8]) {
    use super::sys::Mapping;
    use nix::libc::{off_t, xdp_ring_offset};
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use std::collections::VecDeque;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    const PAGE: u64 = 4096;
    const RX_CHUNKS: u32 = 8;
    const TX_CHUNKS: u32 = 4;
    const FILL: u64 = 0;
    const SENT: u64 = 1;
    const RECEIVED: u64 = 2;
    const SEND: u64 = 3;
    let &[producer, consumer, places, ref bytes @ ..] = bytes else { return };

    // The kernel's side of the rings is a file: both sides see the same memory.
    let file = memfd_create("rings", MFdFlags::MFD_CLOEXEC).map(File::from).expect("memory");
    file.set_len(5 * PAGE).expect("memory");
    // Invalid offsets of rings are refused.
    let offsets = |producer, consumer, desc| xdp_ring_offset { producer, consumer, desc, flags: 0 };
    let odd = offsets(u64::from(producer) * 20, u64::from(consumer) * 20, u64::from(places));
    let fits =
        [odd.producer, odd.consumer].iter().all(|at| at % 4 == 0 && at + 4 <= odd.desc + 16 * 8)
            && odd.desc % 8 == 0;
    assert_eq!(XdpRing::<xdp_desc>::new(file.as_fd(), 4 * PAGE as off_t, &odd, 8).is_ok(), fits);

    let at = offsets(0, 64, 128);
    let words =
        |n: u64, size| XdpRing::new(file.as_fd(), (n * PAGE) as off_t, &at, size).expect("a ring");
    let descriptors =
        |n: u64, size| XdpRing::new(file.as_fd(), (n * PAGE) as off_t, &at, size).expect("a ring");
    let memory = CHUNK * (RX_CHUNKS + TX_CHUNKS) as usize;
    let mut chunks = Chunks::new(
        Frames(Mapping::new(memory, None).expect("memory")),
        [words(FILL, RX_CHUNKS), words(SENT, TX_CHUNKS)],
        [descriptors(RECEIVED, RX_CHUNKS), descriptors(SEND, TX_CHUNKS)],
        (RX_CHUNKS, TX_CHUNKS),
    );
    let word = |ring: u64, n: u64| {
        let mut word = [0; 4];
        file.read_exact_at(&mut word, ring * PAGE + n * 64).expect("a word");
        u32::from_ne_bytes(word)
    };
    let set = |ring: u64, n: u64, value: u32| {
        file.write_all_at(&value.to_ne_bytes(), ring * PAGE + n * 64).expect("a word");
    };
    let place_of = |ring: u64, n: u32, size: u32, long: u64| {
        ring * PAGE + 128 + u64::from(n & (size - 1)) * long
    };
    // The simulated kernel takes entries from a ring, and puts entries into a ring.
    let take = |ring: u64, size: u32, long: usize| {
        let n = word(ring, 1);
        (word(ring, 0) != n).then(|| {
            let mut value = [0; 16];
            file.read_exact_at(&mut value[..long], place_of(ring, n, size, long as u64))
                .expect("a place");
            set(ring, 1, n.wrapping_add(1));
            value
        })
    };
    let put = |ring: u64, size: u32, value: &[u8]| {
        let n = word(ring, 0);
        file.write_all_at(value, place_of(ring, n, size, value.len() as u64)).expect("a place");
        set(ring, 0, n.wrapping_add(1));
    };
    let descriptor = |addr: u64, len: u32| {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&addr.to_ne_bytes());
        value[8..12].copy_from_slice(&len.to_ne_bytes());
        value
    };
    let number = |value: &[u8]| u64::from_ne_bytes(*value.first_chunk().expect("eight bytes"));

    let mut good = true;
    let (mut came, mut went): (VecDeque<Vec<u8>>, VecDeque<Vec<u8>>) = Default::default();
    for piece in bytes.chunks(6).take(400) {
        let &[what, a, b, c, d, e] = piece else { break };
        let value = u32::from_ne_bytes([a, b, c, d]);
        let text =
            |length: usize| (0..length).map(|n| a.wrapping_add(n as u8)).collect::<Vec<u8>>();
        match what % 8 {
            // A frame arrives.
            0 | 1 => {
                let Some(chunk) = take(FILL, RX_CHUNKS, 8) else { continue };
                let frame = text(usize::from(b) * 8);
                // The frame begins after the bytes that the kernel leaves free.
                let addr = number(&chunk).wrapping_add(256);
                match chunks.frames.bytes_mut(addr, frame.len()) {
                    Some(place) => place.copy_from_slice(&frame),
                    None => assert!(!good),
                }
                put(RECEIVED, RX_CHUNKS, &descriptor(addr, frame.len() as u32));
                came.push_back(frame);
            }
            2 => {
                let read = chunks.receive(<[u8]>::to_vec);
                if good {
                    assert_eq!(read, came.pop_front().map(Some));
                } else {
                    assert!(read.flatten().is_none_or(|frame| frame.len() <= memory));
                }
            }
            3 | 4 => {
                let frame = text(usize::from(b) * 17);
                let put = chunks.send(&frame);
                assert_eq!(put.is_err(), frame.len() > CHUNK);
                // The kernel is short of memory.
                if put == Ok(true) && what & 0x80 != 0 {
                    chunks.take_back();
                } else if put == Ok(true) {
                    went.push_back(frame);
                }
            }
            // The kernel sends a queued frame.
            5 => {
                let Some(about) = take(SEND, TX_CHUNKS, 16) else { continue };
                let (addr, length) = (
                    number(&about),
                    u32::from_ne_bytes([about[8], about[9], about[10], about[11]]),
                );
                let frame = chunks.frames.bytes(addr, length as usize).map(<[u8]>::to_vec);
                if good {
                    assert_eq!(frame, went.pop_front());
                    assert!(
                        chunks.going.contains(&(addr / CHUNK as u64)),
                        "not where frames come in"
                    );
                }
                put(SENT, TX_CHUNKS, &addr.to_ne_bytes());
            }
            // From here on the positions of the rings and their contents may be arbitrary.
            6 => {
                good = false;
                set(
                    u64::from(e % 4),
                    u64::from(e / 4 % 2),
                    if e & 8 == 0 { value % 16 } else { value },
                );
            }
            _ => {
                good = false;
                let addr = if e & 4 == 0 {
                    u64::from(value) % (memory as u64 + 64)
                } else {
                    u64::from(value) << (e % 33)
                };
                let (ring, size) = [
                    (FILL, RX_CHUNKS),
                    (SENT, TX_CHUNKS),
                    (RECEIVED, RX_CHUNKS),
                    (SEND, TX_CHUNKS),
                ][usize::from(e % 4)];
                match ring {
                    FILL | SENT => put(ring, size, &addr.to_ne_bytes()),
                    _ => put(ring, size, &descriptor(addr, value.rotate_left(u32::from(e)))),
                }
            }
        }
        assert!(chunks.free.len() <= TX_CHUNKS as usize);
        if good {
            let unseen = |ring| word(ring, 0).wrapping_sub(word(ring, 1));
            assert_eq!(unseen(FILL) as usize + came.len(), RX_CHUNKS as usize, "no chunk is lost");
            assert_eq!(
                chunks.free.len() as u32 + unseen(SEND) + unseen(SENT),
                TX_CHUNKS,
                "nor one for sending"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_good_kernel_passes_frames_in_order(
            steps in prop::collection::vec((0..6_u8, any::<bool>(), any::<[u8; 5]>()), 0..300),
        ) {
            let mut bytes = vec![0, 4, 128];
            for (what, short, rest) in &steps {
                bytes.push(*what | u8::from(*short) << 7);
                bytes.extend(rest);
            }
            hostile(&bytes);
        }

        #[test]
        fn anything_may_stand_in_the_rings(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            hostile(&bytes);
        }
    }
}
