//! The system calls of AF_XDP sockets, and of the XDP program that passes frames to them, that need
//! `unsafe`, each in the smallest safe-to-use wrapper.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::libc::{self, c_int, c_long, c_uint, socklen_t};

/// Types of option values and ring entries: every bit pattern is a valid value, without padding.
pub(super) trait PlainData: Copy {}
impl PlainData for c_int {}
impl PlainData for u64 {}
impl PlainData for libc::xdp_desc {}
impl PlainData for libc::xdp_umem_reg {}
impl PlainData for libc::xdp_mmap_offsets {}
impl PlainData for libc::xdp_statistics {}

/// The argument of bpf(2): a `union bpf_attr`, whose members are set by offset.
#[repr(C, align(8))]
struct BpfAttributes([u8; 128]);

impl BpfAttributes {
    fn new(words: &[(usize, u32)], addresses: &[(usize, u64)]) -> BpfAttributes {
        let mut ask = BpfAttributes([0; 128]);
        words.iter().for_each(|&(at, word)| ask.0[at..at + 4].copy_from_slice(&word.to_ne_bytes()));
        addresses
            .iter()
            .for_each(|&(at, address)| ask.0[at..at + 8].copy_from_slice(&address.to_ne_bytes()));
        ask
    }

    /// Calls bpf(2). Addresses in the argument must point to memory that outlives the call.
    fn bpf(&self, command: c_int) -> Result<c_long, Errno> {
        // SAFETY: the kernel reads the stated number of bytes, and the memory at the addresses in
        // them, which is valid by the comment above.
        Errno::result(unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                (&raw const self.0).cast::<u8>(),
                size_of::<BpfAttributes>() as c_uint,
            )
        })
    }

    fn descriptor(&self, command: c_int) -> Result<OwnedFd, Errno> {
        let fd = self.bpf(command)? as c_int;
        // SAFETY: the callers' commands return a new descriptor, which nothing else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// A map with room for one socket, for the first receive queue.
pub(super) fn map() -> Result<OwnedFd, Errno> {
    const MAP_CREATE: c_int = 0;
    const XSKMAP: u32 = 17;
    let (kind, key, value, entries) = ((0, XSKMAP), (4, 4), (8, 4), (12, 1));
    BpfAttributes::new(&[kind, key, value, entries], &[]).descriptor(MAP_CREATE)
}

/// Loads the program: arriving frames go to the socket in the map, or to the network stack while
/// the map is empty.
pub(super) fn load(map: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    const PROG_LOAD: c_int = 5;
    const XDP: u32 = 6;
    const PASS: u64 = 2;
    const REDIRECT_MAP: u64 = 51;
    /// `struct bpf_insn`, as one number: code, destination and source, offset, immediate.
    const fn instruction(code: u64, to: u64, from: u64, offset: u64, number: u64) -> u64 {
        code | to << 8 | from << 12 | offset << 16 | number << 32
    }
    let program = [
        // r2 = context.rx_queue_index
        instruction(0x61, 2, 1, 16, 0),
        // r1 = the map, in two words; the 1 means that the number is a descriptor
        instruction(0x18, 1, 1, 0, map.as_raw_fd() as u64),
        0,
        // r3 = PASS
        instruction(0xb7, 3, 0, 0, PASS),
        // return redirect_map(r1, r2, r3)
        instruction(0x85, 0, 0, 0, REDIRECT_MAP),
        instruction(0x95, 0, 0, 0, 0),
    ];
    // Converts each word to its layout in memory, which depends on the byte order, because fields
    // are smaller than a word.
    let program = program.map(as_laid_out);
    let licence = c"Dual MIT/GPL";
    let words = [(0, XDP), (4, program.len() as u32)];
    BpfAttributes::new(&words, &[(8, program.as_ptr() as u64), (16, licence.as_ptr() as u64)])
        .descriptor(PROG_LOAD)
}

/// An instruction in its layout in memory: `struct bpf_insn` has its code first, then both
/// registers, the offset and the number, each in the machine's byte order.
fn as_laid_out(instruction: u64) -> u64 {
    let [code, registers, ..] = instruction.to_le_bytes();
    let registers = if cfg!(target_endian = "big") { registers.rotate_left(4) } else { registers };
    let [a, b] = ((instruction >> 16) as u16).to_ne_bytes();
    let [c, d, e, f] = ((instruction >> 32) as u32).to_ne_bytes();
    u64::from_ne_bytes([code, registers, a, b, c, d, e, f])
}

/// Attaches the program to an interface of the process's current network namespace, as long as the
/// descriptor is open: in the driver if `native`, otherwise after the driver (generic mode).
pub(super) fn attach(program: BorrowedFd<'_>, index: u32, native: bool) -> Result<OwnedFd, Errno> {
    const LINK_CREATE: c_int = 28;
    const XDP: u32 = 37;
    const BEHIND: u32 = 1 << 1;
    const WITHIN: u32 = 1 << 2;
    let flags = if native { WITHIN } else { BEHIND };
    BpfAttributes::new(&[(0, program.as_raw_fd() as u32), (4, index), (8, XDP), (12, flags)], &[])
        .descriptor(LINK_CREATE)
}

/// Makes the program pass frames to this socket.
pub(super) fn put(map: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> Result<(), Errno> {
    const MAP_UPDATE: c_int = 2;
    let (key, value) = (0_u32, socket.as_raw_fd());
    let addresses = [(8, (&raw const key) as u64), (16, (&raw const value) as u64)];
    BpfAttributes::new(&[(0, map.as_raw_fd() as u32)], &addresses).bpf(MAP_UPDATE).map(drop)
}

/// An AF_XDP socket in the process's current network namespace.
pub(super) fn socket() -> Result<OwnedFd, Errno> {
    let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    let fd = Errno::result(unsafe { libc::socket(libc::AF_XDP, flags, 0) })?;
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes the first descriptor refer to the file of the second one.
pub(super) fn replace(descriptor: BorrowedFd<'_>, by: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: the owner of the descriptor still owns it, and it still is a socket; no memory is
    // passed.
    let done = unsafe { libc::dup3(by.as_raw_fd(), descriptor.as_raw_fd(), libc::O_CLOEXEC) };
    Errno::result(done).map(drop)
}

/// Sets an option of the socket.
pub(super) fn set<T: PlainData>(
    socket: BorrowedFd<'_>,
    option: c_int,
    value: T,
) -> Result<(), Errno> {
    let length = size_of::<T>() as socklen_t;
    // SAFETY: `value` outlives the call, and the length passed is the length of `value`.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    Errno::result(done).map(drop)
}

/// Reads an option of the socket.
pub(super) fn get<T: PlainData>(socket: BorrowedFd<'_>, option: c_int) -> Result<T, Errno> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: `value` and `length` outlive the call, which writes at most `length` bytes.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            option,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    Errno::result(done)?;
    // SAFETY: all bytes were zero before, and every bit pattern is a value of a `PlainData` type.
    Ok(unsafe { value.assume_init() })
}

/// Binds the socket to the first queue of interface `index`; the kernel copies the frames.
pub(super) fn bind(socket: BorrowedFd<'_>, index: u32) -> Result<(), Errno> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: index,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of_val(&address) as socklen_t;
    // SAFETY: the address outlives the call, and the length passed is its length.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    Errno::result(done).map(drop)
}

/// Makes the kernel process the send ring.
pub(super) fn kick(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: neither data nor an address is passed.
    let done = unsafe {
        libc::sendto(socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0)
    };
    Errno::result(done).map(drop)
}

/// Queries an interface's driver (`SIOCETHTOOL`): `answer` begins with the command, and is
/// overwritten by the kernel's answer.
fn ethtool<const N: usize>(
    socket: BorrowedFd<'_>,
    name: &str,
    mut answer: [u32; N],
) -> Result<[u32; N], Errno> {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    if name.len() >= libc::IFNAMSIZ {
        return Err(Errno::ENODEV);
    }
    // SAFETY: a zeroed ifreq is a valid one, without a name.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
    // SAFETY: the callers pass an array as long as the kernel's structure for their command; the
    // array and the ifreq outlive the call.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) })?;
    Ok(answer)
}

/// Current number of receive queues of an interface, in the network namespace of the socket.
pub(super) fn queues(socket: BorrowedFd<'_>, name: &str) -> Result<u32, Errno> {
    /// ETHTOOL_GCHANNELS: the command, four maxima, then the current numbers of rx, tx, other and
    /// combined channels.
    const CHANNELS: u32 = 0x3c;
    let mut channels = [0; 9];
    channels[0] = CHANNELS;
    let [.., rx, _, _, combined] = ethtool(socket, name, channels)?;
    Ok(rx + combined)
}

/// Returns true if an interface is one of a pair of veth interfaces.
pub(super) fn is_veth(socket: BorrowedFd<'_>, name: &str) -> bool {
    /// ETHTOOL_GDRVINFO, and `struct ethtool_drvinfo`: the command, then the driver's name in 32
    /// bytes.
    const DRIVER: u32 = 0x3;
    let mut about = [0; 49];
    about[0] = DRIVER;
    ethtool(socket, name, about)
        .is_ok_and(|about| about[1].to_ne_bytes() == *b"veth" && about[2] == 0)
}

/// Returns true if an interface's driver removes VLAN tags from arriving frames.
pub(super) fn takes_tags_out(socket: BorrowedFd<'_>, name: &str) -> bool {
    /// ETHTOOL_GFLAGS, and `struct ethtool_value`: the command, then the flags, with
    /// ETH_FLAG_RXVLAN among them.
    const FLAGS: u32 = 0x25;
    const TAKES: u32 = 1 << 8;
    ethtool(socket, name, [FLAGS, 0]).is_ok_and(|[_, flags]| flags & TAKES != 0)
}

/// Memory shared with the kernel, or registered for its use.
#[derive(Debug)]
pub(super) struct Mapping {
    memory: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Maps memory of a socket; without a socket, anonymous memory.
    pub(super) fn new(
        length: usize,
        of: Option<(BorrowedFd<'_>, libc::off_t)>,
    ) -> Result<Mapping, Errno> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, offset) = of.map_or((-1, 0), |(fd, offset)| (fd.as_raw_fd(), offset));
        let kind =
            if of.is_some() { libc::MAP_SHARED } else { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS };
        // SAFETY: the kernel chooses the address of the new mapping, so it overlaps no other
        // memory.
        let memory = unsafe {
            libc::mmap(ptr::null_mut(), length, access, kind | libc::MAP_POPULATE, fd, offset)
        };
        if memory == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let memory = NonNull::new(memory.cast()).ok_or(Errno::ENOMEM)?;
        Ok(Mapping { memory, length })
    }

    /// The address of the mapping.
    pub(super) fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    /// The part of `length` bytes at offset `at`, if it lies within the mapping.
    fn piece(&self, at: u64, length: usize) -> Option<NonNull<u8>> {
        let at = usize::try_from(at).ok()?;
        let within = at.checked_add(length)? <= self.length;
        // SAFETY: the part ends within the mapping.
        within.then(|| unsafe { self.memory.add(at) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping, which has this length, and nothing borrows from it
        // any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.length) };
    }
}

/// Memory for frames, in chunks. At any time a chunk belongs to this process or to the kernel.
#[derive(Debug)]
pub(super) struct Frames(pub(super) Mapping);

impl Frames {
    /// Bytes of a chunk that this process owns; `None` if they are not within the memory.
    pub(super) fn bytes(&self, at: u64, length: usize) -> Option<&[u8]> {
        let memory = self.0.piece(at, length)?;
        // SAFETY: the bytes are within the mapping, which lives as long as `self`. The kernel
        // writes only to chunks that are in a ring, and callers ask only for chunks that are in
        // none.
        Some(unsafe { std::slice::from_raw_parts(memory.as_ptr(), length) })
    }

    /// Bytes of a chunk that this process owns, mutable; `None` if they are not within the memory.
    pub(super) fn bytes_mut(&mut self, at: u64, length: usize) -> Option<&mut [u8]> {
        let memory = self.0.piece(at, length)?;
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        Some(unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), length) })
    }
}

/// A ring that kernel and program share: one side produces, the other consumes.
#[derive(Debug)]
pub(super) struct XdpRing<T> {
    mapping: Mapping,
    offsets: [u64; 3],
    size: u32,
    of: PhantomData<T>,
}

impl<T: PlainData> XdpRing<T> {
    /// The ring of `size` places (a power of two) at offset `at` of the socket's memory.
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        at: libc::off_t,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> Result<XdpRing<T>, Errno> {
        let length = offsets.desc as usize + size as usize * size_of::<T>();
        let mapping = Mapping::new(length, Some((socket, at)))?;
        let offsets = [offsets.producer, offsets.consumer, offsets.desc];
        // Checked once here, so that accesses need no checks.
        let words =
            offsets[..2].iter().all(|&at| at.is_multiple_of(4) && mapping.piece(at, 4).is_some());
        if !(words
            && (offsets[2] as usize).is_multiple_of(align_of::<T>())
            && size.is_power_of_two())
        {
            return Err(Errno::EPROTO);
        }
        Ok(XdpRing { mapping, offsets, size, of: PhantomData })
    }

    fn word(&self, n: usize) -> &AtomicU32 {
        // SAFETY: `new` has checked that the word is aligned and within the mapping, which lives as
        // long as `self`.
        unsafe { self.mapping.memory.add(self.offsets[n] as usize).cast::<AtomicU32>().as_ref() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(0)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(1)
    }

    fn place(&self, n: u32) -> NonNull<T> {
        let at = self.offsets[2] as usize + (n & (self.size - 1)) as usize * size_of::<T>();
        // SAFETY: the mapping has room for `size` entries after the offset, and the index is below
        // `size`.
        unsafe { self.mapping.memory.add(at).cast() }
    }

    /// Takes the oldest entry that the kernel has written, if there is one. A fill level above the
    /// size of the ring is invalid and counts as empty.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let n = self.consumer().load(Ordering::Relaxed);
        if !(1..=self.size).contains(&self.producer().load(Ordering::Acquire).wrapping_sub(n)) {
            return None;
        }
        // SAFETY: the producer's index was read with acquire ordering, so the kernel has written
        // this entry and leaves it alone.
        let value = unsafe { self.place(n).read() };
        self.consumer().store(n.wrapping_add(1), Ordering::Release);
        Some(value)
    }

    /// Writes an entry for the kernel; returns false if there is no room.
    #[inline]
    pub(super) fn push(&mut self, value: T) -> bool {
        let n = self.producer().load(Ordering::Relaxed);
        if n.wrapping_sub(self.consumer().load(Ordering::Acquire)) >= self.size {
            return false;
        }
        // SAFETY: the consumer's index was read with acquire ordering, so the kernel is done with
        // this place.
        unsafe { self.place(n).write(value) };
        self.producer().store(n.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes back the entry that was written last, if the kernel has not taken it. The kernel reads
    /// the ring only after a call of `kick`.
    pub(super) fn take_back(&mut self) -> Option<T> {
        let n = self.producer().load(Ordering::Relaxed);
        if self.consumer().load(Ordering::Acquire) == n {
            return None;
        }
        let n = n.wrapping_sub(1);
        // SAFETY: this process has written the entry, and the kernel does not touch it.
        let value = unsafe { self.place(n).read() };
        self.producer().store(n, Ordering::Release);
        Some(value)
    }
}
