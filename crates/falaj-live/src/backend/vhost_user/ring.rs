//! One ring of a guest's network card: descriptors in memory that the guest may write to while
//! falaj reads it.
//!
//! Nothing in that memory is trusted. Each access translates its address, and an address outside of
//! the guest's memory is an error of that unit only. A limited number of descriptors of a chain is
//! followed, even if the chain is a loop. An index beyond the size of the ring is rejected. In
//! every case each chain is returned to the guest.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{Ordering, fence};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use crate::backend::tap::Tap;

/// Maximum number of entries of a ring. QEMU accepts no more for a card of this kind.
const ENTRIES: u16 = 1024;
/// Maximum number of descriptors of a chain. No driver makes longer chains, because a chain has to
/// fit the ring.
const DESCRIPTORS: usize = ENTRIES as usize;

/// Offsets in the available ring and the used ring, in bytes (virtio 1.2, sections 2.7.6 and
/// 2.7.8): both begin with flags and an index, of 16 bits each.
const INDEX: u64 = 2;
const ELEMENTS: u64 = 4;
/// Sizes in bytes of an element of the available ring, and of the used ring.
const AVAILABLE: u64 = 2;
const USED: u64 = 8;
/// The driver's flag for no interrupts.
const NO_INTERRUPT: u16 = 1;

/// A ring, and the descriptors by which both sides wake each other.
pub(super) struct Virtqueue {
    queue: Queue,
    /// True if the front-end has enabled the ring.
    pub(super) enabled: bool,
    /// Descriptor by which the guest notifies falaj that it has sent something.
    pub(super) kick: Option<File>,
    /// Descriptor by which falaj notifies the guest that buffers were used.
    call: Option<File>,
    /// True if the guest has been requested to kick.
    asked: bool,
    /// Heads and lengths of the chains of the unit that is being passed.
    chains: Vec<(u16, u32)>,
    /// Places in the guest's memory for the bytes of that unit.
    pieces: Vec<(GuestAddress, usize)>,
}

impl Virtqueue {
    pub(super) fn new() -> Virtqueue {
        let queue = Queue::new(ENTRIES).expect("a power of two");
        Virtqueue {
            queue,
            enabled: false,
            kick: None,
            call: None,
            asked: true,
            chains: Vec::new(),
            pieces: Vec::new(),
        }
    }

    /// Sets the number of entries.
    ///
    /// # Errors
    /// The number is not a power of two, or too large.
    pub(super) fn set_entries(&mut self, entries: u32) -> Result<(), ()> {
        self.queue.try_set_size(u16::try_from(entries).map_err(drop)?).map_err(drop)
    }

    /// Sets the addresses of the ring's parts: descriptors, available, used.
    ///
    /// # Errors
    /// An address is not aligned as required.
    pub(super) fn set_addresses(&mut self, parts: [GuestAddress; 3]) -> Result<(), ()> {
        self.queue.try_set_desc_table_address(parts[0]).map_err(drop)?;
        self.queue.try_set_avail_ring_address(parts[1]).map_err(drop)?;
        self.queue.try_set_used_ring_address(parts[2]).map_err(drop)
    }

    /// Sets the index of the next entry to read.
    pub(super) fn set_next(&mut self, next: u16) {
        self.queue.set_next_avail(next);
    }

    pub(super) fn next(&self) -> u16 {
        self.queue.next_avail()
    }

    /// Sets the descriptor for notifications of used buffers.
    pub(super) fn set_call(&mut self, call: Option<File>) -> Result<(), Errno> {
        if let Some(call) = &call {
            // The descriptor may be of any kind, but a write to it must not block.
            let flags = OFlag::from_bits_retain(fcntl(call.as_fd(), FcntlArg::F_GETFL)?);
            fcntl(call.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        }
        self.call = call;
        Ok(())
    }

    /// Starts the ring, if it lies within the guest's memory.
    ///
    /// # Errors
    /// The ring does not lie within the guest's memory.
    pub(super) fn start(&mut self, memory: &GuestMemoryMmap, event_index: bool) -> Result<(), ()> {
        self.queue.set_event_idx(event_index);
        self.queue.set_ready(true);
        if !self.queue.is_valid(memory) {
            self.queue.set_ready(false);
            return Err(());
        }
        let used = self.queue.used_idx(memory, Ordering::Acquire).map_err(drop)?;
        self.queue.set_next_used(used.0);
        self.asked = true;
        Ok(())
    }

    pub(super) fn stop(&mut self) {
        self.queue.set_ready(false);
    }

    /// Returns true if the ring is started and enabled.
    pub(super) fn runs(&self) -> bool {
        self.queue.ready() && self.enabled
    }

    /// Reads a unit that the guest has sent with a header of `header` bytes; `None` if there is
    /// none.
    pub(super) fn take(
        &mut self,
        memory: &GuestMemoryMmap,
        header: usize,
        unit: &mut [u8],
    ) -> Option<Result<usize, Errno>> {
        let chain = self.queue.pop_descriptor_chain(memory)?;
        if std::mem::take(&mut self.asked) {
            // If this fails, the only effect is a needless wake-up.
            let _ = self.queue.disable_notification(memory);
        }
        let head = chain.head_index();
        let missing = Tap::VNET_HEADER - header;
        let read = read(chain.readable(), memory, &mut unit[missing..]);
        self.chains.clear();
        self.chains.push((head, 0));
        let given_back = self.give_back(memory);
        Some(given_back.and(read).and_then(|length| {
            if length < header {
                return Err(Errno::EBADMSG);
            }
            unit.copy_within(missing..Tap::VNET_HEADER, 0);
            unit[header..Tap::VNET_HEADER].fill(0);
            Ok(missing + length)
        }))
    }

    /// Makes the guest notify when it sends a unit; returns true if it has already sent one.
    pub(super) fn ask(&mut self, memory: &GuestMemoryMmap) -> bool {
        self.asked = true;
        self.queue.enable_notification(memory).unwrap_or(false)
    }

    /// Passes a unit to the guest with a header of `header` bytes, in one chain, or in as many as
    /// it needs if `mergeable`; returns false if there is no room.
    pub(super) fn put(
        &mut self,
        memory: &GuestMemoryMmap,
        header: usize,
        mergeable: bool,
        unit: &[u8],
    ) -> Result<bool, Errno> {
        let (head, frame) = unit.split_at_checked(Tap::VNET_HEADER).ok_or(Errno::EBADMSG)?;
        let mut left = header + frame.len();
        self.chains.clear();
        self.pieces.clear();
        while left > 0 {
            let full = !mergeable && !self.chains.is_empty();
            let chain = if full { None } else { self.queue.pop_descriptor_chain(memory) };
            let Some(chain) = chain else {
                self.chains.iter().for_each(|_| self.queue.go_to_previous_position());
                return Ok(false);
            };
            let (head, before) = (chain.head_index(), left);
            for descriptor in chain.writable().take(DESCRIPTORS) {
                let length = left.min(descriptor.len() as usize);
                self.pieces.push((descriptor.addr(), length));
                left -= length;
                if left == 0 {
                    break;
                }
            }
            self.chains.push((head, (before - left) as u32));
        }
        let mut own = [0; Tap::VNET_HEADER];
        own.copy_from_slice(head);
        own[10..].copy_from_slice(&(self.chains.len() as u16).to_le_bytes());
        let written = write(&self.pieces, memory, [&own[..header], frame]);
        if written.is_err() {
            self.chains.iter_mut().for_each(|chain| chain.1 = 0);
        }
        self.give_back(memory).and(written).map(|()| true)
    }

    /// Returns all chains to the guest at once, because a unit over several chains must become
    /// visible as a whole. Notifies the guest if it asked for that.
    fn give_back(&mut self, memory: &GuestMemoryMmap) -> Result<(), Errno> {
        let done = self.used(memory);
        if done.is_err() {
            // The ring itself is no longer in the guest's memory, so it is stopped.
            self.queue.set_ready(false);
        }
        if done? && let Some(call) = &mut self.call {
            // If the counter is full, the descriptor is readable already.
            let _ = call.write(&1_u64.to_ne_bytes());
        }
        Ok(())
    }

    /// Publishes the used chains; returns true if the guest asked for a notification.
    fn used(&mut self, memory: &GuestMemoryMmap) -> Result<bool, Errno> {
        let at = |ring: u64, offset: u64| {
            ring.checked_add(offset).map(GuestAddress).ok_or(Errno::EFAULT)
        };
        let fault = |_| Errno::EFAULT;
        let (size, used) = (self.queue.size(), self.queue.used_ring());
        let first = self.queue.next_used();
        let mut next = first;
        for &(head, length) in &self.chains {
            let mut element = [0; USED as usize];
            element[..4].copy_from_slice(&u32::from(head).to_le_bytes());
            element[4..].copy_from_slice(&length.to_le_bytes());
            memory
                .write_slice(&element, at(used, ELEMENTS + USED * u64::from(next % size))?)
                .map_err(fault)?;
            next = next.wrapping_add(1);
        }
        memory.store(next.to_le(), at(used, INDEX)?, Ordering::Release).map_err(fault)?;
        self.queue.set_next_used(next);
        // The guest's request must be read after the index is written.
        fence(Ordering::SeqCst);
        let available = self.queue.avail_ring();
        let word =
            |offset| memory.load::<u16>(at(available, offset)?, Ordering::Relaxed).map_err(fault);
        if self.queue.event_idx_enabled() {
            let event = u16::from_le(word(ELEMENTS + AVAILABLE * u64::from(size))?);
            return Ok(next.wrapping_sub(event).wrapping_sub(1) < next.wrapping_sub(first));
        }
        Ok(u16::from_le(word(0)?) & NO_INTERRUPT == 0)
    }
}

/// Reads the contents of all these descriptors.
fn read(
    descriptors: impl Iterator<Item = Descriptor>,
    memory: &GuestMemoryMmap,
    to: &mut [u8],
) -> Result<usize, Errno> {
    let mut at = 0_usize;
    for descriptor in descriptors.take(DESCRIPTORS) {
        let end = at.checked_add(descriptor.len() as usize).ok_or(Errno::EMSGSIZE)?;
        let part = to.get_mut(at..end).ok_or(Errno::EMSGSIZE)?;
        memory.read_slice(part, descriptor.addr()).map_err(|_| Errno::EFAULT)?;
        at = end;
    }
    Ok(at)
}

/// Writes the parts one after the other into these places, which together are long enough.
fn write(
    places: &[(GuestAddress, usize)],
    memory: &GuestMemoryMmap,
    parts: [&[u8]; 2],
) -> Result<(), Errno> {
    let [mut from, mut then] = parts;
    for &(mut at, mut room) in places {
        while room > 0 {
            if from.is_empty() {
                from = std::mem::take(&mut then);
            }
            let (now, rest) = from.split_at(room.min(from.len()));
            memory.write_slice(now, at).map_err(|_| Errno::EFAULT)?;
            at = at.checked_add(now.len() as u64).ok_or(Errno::EFAULT)?;
            room -= now.len();
            from = rest;
        }
    }
    Ok(())
}
