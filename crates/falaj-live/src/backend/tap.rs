//! A TAP interface with the virtio-net header, seen from the user-space side.
//!
//! The header is what makes it fast and right at once: the kernel hands over TCP units of up to 64
//! KB and unfinished checksums *with* a note of what is left to do, and takes them back the same
//! way. Passing a unit on unchanged, header and all, is therefore always correct.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd;

use crate::error::Step;
use crate::sys;

/// The descriptor of one TAP interface.
///
/// One `read` takes one unit and one `write` gives one: [`Tap::VNET_HEADER`] bytes of virtio-net
/// header (version 1, little endian), then the Ethernet frame without its FCS. The descriptor never
/// blocks. The interface has a carrier while the `Tap` lives, and vanishes with it.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
}

impl Tap {
    /// Bytes of virtio-net header in front of each frame.
    pub const VNET_HEADER: usize = 12;

    /// Bytes of the longest unit: the header, an Ethernet header with one VLAN tag, and 64 KiB of
    /// IP. A buffer of this length never truncates.
    pub const MAX_UNIT: usize = Self::VNET_HEADER + 18 + 65_536;

    /// Makes the interface `name` in the network namespace that the process is in now.
    ///
    /// With `tso` the kernel may hand over TCP units larger than the MTU (IPv4 and IPv6); checksums
    /// may be left unfinished in any case, as the header says.
    ///
    /// If it `stays`, it outlives its descriptor, without a carrier then; one that is there and has
    /// none is taken.
    pub(crate) fn create(name: &str, tso: bool, stays: bool) -> Result<Tap, (Step, Errno)> {
        let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let fd =
            open("/dev/net/tun", flags, Mode::empty()).map_err(|errno| (Step::OpenTun, errno))?;
        sys::tap_configure(fd.as_fd(), name, Self::VNET_HEADER as i32, tso, stays)
            .map_err(|errno| (Step::CreateTap, errno))?;
        Ok(Tap { fd })
    }

    /// Takes over the descriptor of a TAP interface that `create` made in another process.
    pub(crate) fn adopt(fd: OwnedFd) -> Tap {
        Tap { fd }
    }

    /// The Ethernet address of the interface.
    pub(crate) fn mac(&self) -> Result<[u8; 6], Errno> {
        sys::mac(self.as_fd(), "")
    }

    /// Reads one unit and says its length in bytes, header included; `None` if there is none now.
    ///
    /// A unit longer than `unit` is cut off without notice: give [`Tap::MAX_UNIT`] bytes.
    ///
    /// # Errors
    /// What `read(2)` says, for example `EBADFD` after the interface was deleted; never `EAGAIN` or
    /// `EINTR`.
    pub fn read(&self, unit: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match unistd::read(&self.fd, unit) {
                Ok(length) => return Ok(Some(length)),
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Writes one unit, header included; `false` if the kernel did not take it: no room or memory
    /// now, or the interface is administratively down.
    ///
    /// # Errors
    /// What `write(2)` says: `EINVAL` for a header that does not fit its frame, `EBADFD` after the
    /// interface was deleted; never `EAGAIN` or `EINTR`.
    pub fn write(&self, unit: &[u8]) -> io::Result<bool> {
        loop {
            match unistd::write(&self.fd, unit) {
                Ok(_) => return Ok(true),
                // EIO is how the kernel says "interface down": whoever lives behind it may do that
                // at any time, and a cable pulled out is no reason for the
                // forwarder to end.
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM | Errno::EIO) => {
                    return Ok(false);
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Does what is left to do for a checksum, and takes the note of it away: whoever gets the unit
    /// checks it.
    pub(crate) fn finish_checksum(unit: &mut [u8]) {
        const NEEDED: u8 = 1;
        let Some((header, frame)) = unit.split_at_mut_checked(Tap::VNET_HEADER) else { return };
        let note = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (needed, start, offset) = (header[0] & NEEDED != 0, note(6), note(8));
        // Neither unfinished nor known to be right.
        header[0] = 0;
        let Some(rest) = frame.get_mut(start..).filter(|rest| needed && rest.len() >= offset + 2)
        else {
            return;
        };
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        let mut sum: u32 = rest.chunks(2).map(word).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        // A UDP checksum of zero would say that there is none.
        let sum = match !(sum as u16) {
            0 => 0xffff,
            sum => sum,
        };
        rest[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

impl From<Tap> for OwnedFd {
    fn from(tap: Tap) -> OwnedFd {
        tap.fd
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
