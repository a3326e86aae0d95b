//! The system calls of a packet socket that need `unsafe`, each in the smallest safe-to-use
//! wrapper.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::libc::{self, c_int, socklen_t};

/// Types of option values: every bit pattern is a valid value, and there is no padding.
pub(super) trait OptionValue: Copy {}
impl OptionValue for c_int {}
impl OptionValue for libc::tpacket_req {}
impl OptionValue for libc::tpacket_stats {}
impl OptionValue for libc::packet_mreq {}

/// Sets an option of the packet layer.
pub(super) fn set<T: OptionValue>(
    socket: BorrowedFd<'_>,
    option: c_int,
    value: T,
) -> Result<(), Errno> {
    // SAFETY: `value` outlives the call, and the length passed is the length of `value`.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            (&raw const value).cast(),
            size_of::<T>() as socklen_t,
        )
    };
    Errno::result(done).map(drop)
}

/// Reads an option of the packet layer.
pub(super) fn get<T: OptionValue>(socket: BorrowedFd<'_>, option: c_int) -> Result<T, Errno> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: `value` and `length` outlive the call, which writes at most `length` bytes.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            value.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    Errno::result(done)?;
    // SAFETY: all bytes were zero before, and every bit pattern is a value of an `OptionValue`
    // type.
    Ok(unsafe { value.assume_init() })
}

/// Receives the frames of interface `index`, of all protocols, from now on.
pub(crate) fn bind(socket: BorrowedFd<'_>, index: c_int) -> Result<(), Errno> {
    // SAFETY: all zeroes are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::sa_family_t;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    let length = size_of_val(&address) as socklen_t;
    // SAFETY: the address outlives the call, and the length passed is its length.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    Errno::result(done).map(drop)
}

/// A VLAN tag that the kernel has removed from a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VlanTag {
    pub(super) tpid: u16,
    pub(super) tci: u16,
}

impl VlanTag {
    fn of(status: u32, tci: u16, tpid: u16) -> Option<VlanTag> {
        let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
            tpid
        } else {
            libc::ETH_P_8021Q as u16
        };
        (status & libc::TP_STATUS_VLAN_VALID != 0).then_some(VlanTag { tpid, tci })
    }
}

/// Receives one frame from the socket's queue into two buffers, `first` before `then`. Returns the
/// frame's length and its VLAN tag; a length above that of the buffers means a truncated frame.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    first: &mut [u8],
    then: &mut [u8],
) -> Result<(usize, Option<VlanTag>), Errno> {
    /// Room for one control message with auxiliary data, aligned for its header.
    #[repr(align(8))]
    struct ControlBuffer([u8; 64]);
    let mut control = ControlBuffer([0; 64]);
    let mut parts = [first, then]
        .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
    // SAFETY: all zeroes are a valid msghdr, without address, buffers or control data.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: no other code uses the buffers and the control data during the call, they outlive it,
    // and the lengths passed are theirs.
    let length =
        Errno::result(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) })?;
    let mut tag = None;
    // SAFETY: the kernel has filled in the control data and its length, and the macros stay within
    // these data. A control message of this type contains a tpacket_auxdata, which is read without
    // need for alignment.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(header) = next.as_ref() {
            if header.cmsg_level == libc::SOL_PACKET && header.cmsg_type == libc::PACKET_AUXDATA {
                let data: libc::tpacket_auxdata =
                    ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                tag = VlanTag::of(data.tp_status, data.tp_vlan_tci, data.tp_vlan_tpid);
            }
            next = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok((length as usize, tag))
}

/// Bytes for one frame in a ring: an Ethernet frame of ordinary length with tags and headers.
/// Longer frames come through the socket's queue; otherwise the ring would need 64 KB for each
/// frame.
const FRAME: usize = 2048;
/// Number of frames that can wait in the kernel for the forwarder, as many as at a TAP interface.
const FRAMES: usize = 8192;
/// Bytes of a block in which memory is allocated.
const BLOCK: usize = 1 << 16;

/// Makes the kernel put received frames into a ring in memory that it shares with the process.
pub(super) fn set_up_ring(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set(socket, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as c_int)?;
    let request = libc::tpacket_req {
        tp_block_size: BLOCK as u32,
        tp_block_nr: (FRAMES * FRAME / BLOCK) as u32,
        tp_frame_size: FRAME as u32,
        tp_frame_nr: FRAMES as u32,
    };
    set(socket, libc::PACKET_RX_RING, request)
}

/// The receive ring of a socket after [`set_up_ring`]: frames in their order of arrival.
#[derive(Debug)]
pub(super) struct PacketRing {
    memory: NonNull<u8>,
    next: usize,
}

// SAFETY: in this process only this object uses the memory, and the kernel does not care which
// thread uses it.
unsafe impl Send for PacketRing {}

/// A received frame in the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingFrame<'a> {
    /// The vnet header and after it the frame, up to the part that fits.
    pub(super) bytes: &'a [u8],
    /// True if the frame is truncated.
    pub(super) cut: bool,
    /// True if the whole frame is also in the socket's queue.
    pub(super) queued: bool,
    /// The VLAN tag that the kernel has removed.
    pub(super) tag: Option<VlanTag>,
}

impl PacketRing {
    /// Maps the ring of a socket.
    pub(super) fn map(socket: BorrowedFd<'_>) -> Result<PacketRing, Errno> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses the address of the new mapping, so it overlaps no other
        // memory.
        let memory = unsafe {
            libc::mmap(ptr::null_mut(), FRAMES * FRAME, access, flags, socket.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let memory = NonNull::new(memory.cast()).ok_or(Errno::ENOMEM)?;
        Ok(PacketRing { memory, next: 0 })
    }

    /// The index of the next frame.
    pub(super) fn position(&self) -> usize {
        self.next
    }

    /// Continues at the frame of this index, where another reader of the ring has ended.
    pub(super) fn resume_at(&mut self, position: usize) {
        self.next = position % FRAMES;
    }

    fn frame(&self) -> NonNull<u8> {
        // SAFETY: `next` is below FRAMES, so this stays within the mapping.
        unsafe { self.memory.add(self.next * FRAME) }
    }

    /// The frame's status word, by which kernel and reader pass the frame to each other.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: each frame begins with a tpacket2_hdr, whose first member is the status word.
        // Frames are aligned to their size, and the mapping lives as long as `self`.
        unsafe { self.frame().cast::<AtomicU32>().as_ref() }
    }

    /// The oldest frame, if there is one; `header` is the length of the socket's vnet header.
    #[inline]
    pub(super) fn front(&self, header: usize) -> Option<RingFrame<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the status was read with acquire ordering and says that the frame is the
        // reader's. The kernel does not touch the frame until `pop` gives it back. `pop` needs
        // exclusive access to `self`, so the frame is not written while the slice lives.
        let all = unsafe { std::slice::from_raw_parts(self.frame().as_ptr(), FRAME) };
        // SAFETY: a tpacket2_hdr is shorter than a frame. It is read without need for alignment,
        // and every bit pattern is a value of its type.
        let about: libc::tpacket2_hdr = unsafe { ptr::read_unaligned(all.as_ptr().cast()) };
        let frame = usize::from(about.tp_mac);
        let bytes =
            all.get(frame.saturating_sub(header)..frame + about.tp_snaplen as usize).unwrap_or(&[]);
        Some(RingFrame {
            bytes,
            cut: about.tp_snaplen < about.tp_len || bytes.is_empty(),
            queued: status & libc::TP_STATUS_COPY != 0,
            tag: VlanTag::of(status, about.tp_vlan_tci, about.tp_vlan_tpid),
        })
    }

    /// Returns the oldest frame to the kernel.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % FRAMES;
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping, which has this length, and nothing borrows from it
        // any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), FRAMES * FRAME) };
    }
}
