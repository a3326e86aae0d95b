//! A guest and its monitor, as a network card sees them: a front-end that shares memory, and a
//! driver that fills rings.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use vhost::vhost_user::Frontend;
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

pub(crate) const HEADER: usize = 12;
pub(crate) const SIZE: u16 = 16;
pub(crate) const MEMORY: usize = 1 << 20;
/// The monitor's alleged address of the guest's memory.
pub(crate) const MONITOR: u64 = 0x7000_0000_0000;
pub(crate) const TO_GUEST: usize = 0;
pub(crate) const FROM_GUEST: usize = 1;
/// Features that are always requested: virtio 1, and rings that are enabled by a message.
pub(crate) const LEAST: u64 = 1 << 32 | 1 << 30;
pub(crate) const MRG_RXBUF: u64 = 1 << 15;
pub(crate) const CSUM: u64 = 1 << 1;
pub(crate) const TSO4: u64 = 1 << 7;
pub(crate) const EVENT_IDX: u64 = 1 << 29;
pub(crate) const WRITE: u16 = 2;
pub(crate) const NEXT: u16 = 1;

/// A guest and its monitor.
pub(crate) struct Guest {
    pub(crate) frontend: Frontend,
    pub(crate) memory: GuestMemoryMmap,
    pub(crate) file: File,
    pub(crate) kicks: [EventFd; 2],
    pub(crate) calls: [EventFd; 2],
    /// Number of descriptors that `offer` has made available so far, by ring.
    pub(crate) made: [u16; 2],
}

/// Addresses of a ring's parts: descriptors, available, used.
pub(crate) fn parts(ring: usize) -> [u64; 3] {
    let base = 0x1000 + 0x4000 * ring as u64;
    [base, base + 0x1000, base + 0x2000]
}

impl Guest {
    /// Connects a guest that does not run yet.
    pub(crate) fn connect(path: &Path, features: u64) -> Guest {
        let mut stream = UnixStream::connect(path).expect("it listens");
        // Like QEMU, enables a ring before features are negotiated, and does not repeat the
        // message. The device then enables all rings.
        let enable = [18, 1, 8, 0, 1].map(u32::to_le_bytes).concat();
        stream.write_all(&enable).expect("it is read");
        let frontend = Frontend::from_stream(stream, 2);
        let name = nix::sys::memfd::memfd_create("guest", nix::sys::memfd::MFdFlags::empty())
            .expect("memory");
        let file = File::from(name);
        file.set_len(MEMORY as u64).expect("the memfd grows to 1 MiB");
        let offset = FileOffset::new(file.try_clone().expect("a descriptor"), 0);
        let memory =
            GuestMemoryMmap::from_ranges_with_files([(GuestAddress(0), MEMORY, Some(offset))])
                .expect("it maps");
        let event = || EventFd::new(EFD_NONBLOCK).expect("a descriptor");
        let (kicks, calls) = ([event(), event()], [event(), event()]);
        frontend.set_owner().expect("the device accepts an owner");
        let offered = frontend.get_features().expect("the device offers features");
        assert_eq!(offered & features, features, "all of it is offered");
        frontend.set_features(features).expect("the device accepts the features");
        Guest { frontend, memory, file, kicks, calls, made: [0; 2] }
    }

    pub(crate) fn start(path: &Path, features: u64) -> Guest {
        let mut guest = Guest::connect(path, features);
        guest.share(MEMORY as u64).expect("the device maps the memory");
        guest.run([0; 2]);
        guest
    }

    pub(crate) fn share(&self, size: u64) -> vhost::Result<()> {
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: size,
            userspace_addr: MONITOR,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        };
        self.frontend.set_mem_table(&[region]).map(drop)
    }

    pub(crate) fn run(&mut self, bases: [u16; 2]) {
        for ring in [TO_GUEST, FROM_GUEST] {
            let [descriptors, available, used] = parts(ring).map(|at| MONITOR + at);
            let about = VringConfigData {
                queue_max_size: SIZE,
                queue_size: SIZE,
                flags: 0,
                desc_table_addr: descriptors,
                used_ring_addr: used,
                avail_ring_addr: available,
                log_addr: None,
            };
            let frontend = &mut self.frontend;
            frontend.set_vring_num(ring, SIZE).expect("a power of two");
            frontend.set_vring_base(ring, bases[ring]).expect("a number");
            frontend.set_vring_addr(ring, &about).expect("within the memory");
            frontend.set_vring_call(ring, &self.calls[ring]).expect("a descriptor");
            frontend.set_vring_kick(ring, &self.kicks[ring]).expect("a descriptor");
        }
    }

    pub(crate) fn word(&self, at: u64) -> u16 {
        self.memory.read_obj(GuestAddress(at)).expect("within the memory")
    }

    pub(crate) fn set_word(&self, at: u64, word: u16) {
        self.memory.write_obj(word, GuestAddress(at)).expect("within the memory");
    }

    pub(crate) fn descriptor(
        &self,
        ring: usize,
        index: u16,
        (at, length): (u64, u32),
        flags: u16,
        next: u16,
    ) {
        let place = parts(ring)[0] + 16 * u64::from(index);
        self.memory.write_obj(at, GuestAddress(place)).expect("within the memory");
        self.memory.write_obj(length, GuestAddress(place + 8)).expect("within the memory");
        self.set_word(place + 12, flags);
        self.set_word(place + 14, next);
    }

    /// Makes a chain of these places available; each gets a descriptor.
    pub(crate) fn offer(&mut self, ring: usize, places: &[(u64, u32)]) {
        let flags = if ring == TO_GUEST { WRITE } else { 0 };
        let first = self.made[ring];
        for (i, &place) in (0_u16..).zip(places) {
            let more = if usize::from(i) + 1 < places.len() { NEXT } else { 0 };
            let at = first.wrapping_add(i);
            self.descriptor(ring, at % SIZE, place, flags | more, at.wrapping_add(1) % SIZE);
        }
        self.make_available(ring, first % SIZE);
        self.made[ring] = first.wrapping_add(places.len() as u16);
    }

    pub(crate) fn make_available(&mut self, ring: usize, head: u16) {
        let available = parts(ring)[1];
        let index = self.word(available + 2);
        self.set_word(available + 4 + 2 * u64::from(index % SIZE), head);
        // The entry must be visible before the index.
        fence(Ordering::SeqCst);
        self.set_word(available + 2, index.wrapping_add(1));
    }

    /// Sends a unit in pieces of these lengths.
    pub(crate) fn sends(&mut self, unit: &[u8], pieces: &[usize]) {
        let mut at = 0x40000;
        let mut places = Vec::new();
        let mut rest = unit;
        for &piece in pieces.iter().chain([&usize::MAX]) {
            let (now, then) = rest.split_at(piece.min(rest.len()));
            self.memory.write_slice(now, GuestAddress(at)).expect("within the memory");
            places.push((at, now.len() as u32));
            (at, rest) = (at + 0x10000, then);
            if rest.is_empty() {
                break;
            }
        }
        self.offer(FROM_GUEST, &places);
        self.kicks[FROM_GUEST].write(1).expect("room");
    }

    pub(crate) fn used(&self, ring: usize) -> u16 {
        self.word(parts(ring)[2] + 2)
    }

    /// Length of the used chain of this number.
    pub(crate) fn used_length(&self, ring: usize, number: u16) -> u32 {
        let at = parts(ring)[2] + 4 + 8 * u64::from(number % SIZE) + 4;
        self.memory.read_obj(GuestAddress(at)).expect("within the memory")
    }

    pub(crate) fn bytes(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_slice(&mut bytes, GuestAddress(at)).expect("within the memory");
        bytes
    }
}
