//! A TAP interface with the virtio-net header, seen from the user-space side.
//!
//! The header makes the interface both fast and correct. The kernel passes TCP units of up to 64 KB
//! and unfinished checksums *with* a note of the unfinished work, and accepts them back in the same
//! form. A unit that is passed on unchanged, header included, is therefore always correct.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc::EINVAL;
use nix::sys::stat::Mode;
use nix::unistd;

use super::frame::received;
use super::port::{Port, PortHandover, Received};
use crate::error::SetupStep;
use crate::{gso, sys};

/// The descriptor of one TAP interface.
///
/// One `read` takes one unit and one `write` gives one. A unit is [`Tap::VNET_HEADER`] bytes of
/// virtio-net header (version 1, little endian), then the Ethernet frame without its FCS. The
/// descriptor never blocks. The interface has a carrier while the `Tap` lives, and vanishes with
/// it, unless it was created to stay.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
}

impl Tap {
    /// Bytes of virtio-net header in front of each frame.
    pub const VNET_HEADER: usize = gso::VNET_HEADER;

    /// Bytes of the longest unit: the header, an Ethernet header with one VLAN tag, and 64 KiB of
    /// IP. A buffer of this length never truncates.
    pub const MAX_UNIT: usize = Self::VNET_HEADER + 18 + 65_536;

    /// Creates the interface `name` in the network namespace that the process is in now.
    ///
    /// With `tso` the kernel may pass TCP units larger than the MTU (IPv4 and IPv6) and, since
    /// Linux 6.2, units of UDP datagrams. Checksums may be unfinished in any case, as the header
    /// says.
    ///
    /// If `stays`, the interface outlives its descriptor, but then has no carrier. An existing
    /// interface without a carrier is reused.
    pub(crate) fn create(name: &str, tso: bool, stays: bool) -> Result<Tap, (SetupStep, Errno)> {
        let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let fd = open("/dev/net/tun", flags, Mode::empty())
            .map_err(|errno| (SetupStep::OpenTun, errno))?;
        sys::tap_configure(fd.as_fd(), name, Self::VNET_HEADER as i32, tso, stays)
            .map_err(|errno| (SetupStep::CreateTap, errno))?;
        Ok(Tap { fd })
    }

    /// Takes over the descriptor of a TAP interface that `create` has created in another process.
    pub(crate) fn adopt(fd: OwnedFd) -> Tap {
        Tap { fd }
    }

    /// The Ethernet address of the interface.
    pub(crate) fn mac(&self) -> Result<[u8; 6], Errno> {
        sys::mac(self.as_fd(), "")
    }

    /// From now on the kernel passes only units of one packet.
    ///
    /// # Errors
    /// The interface was deleted.
    pub fn take_single_packets(&self) -> io::Result<()> {
        Ok(sys::tap_without_tso(self.as_fd())?)
    }

    /// Reads one unit and returns its length in bytes, header included; `None` if there is none
    /// now.
    ///
    /// A unit longer than `unit` is truncated without notice: pass a buffer of [`Tap::MAX_UNIT`]
    /// bytes.
    ///
    /// # Errors
    /// The error of `read(2)`, for example `EBADFD` after the interface was deleted; never `EAGAIN`
    /// or `EINTR`.
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

    /// Writes one unit, header included; returns false if the kernel did not accept it: no room or
    /// memory now, or the interface is administratively down.
    ///
    /// # Errors
    /// The error of `write(2)`: `EINVAL` for a header that does not fit its frame, `EBADFD` after
    /// the interface was deleted; never `EAGAIN` or `EINTR`.
    pub fn write(&self, unit: &[u8]) -> io::Result<bool> {
        loop {
            match unistd::write(&self.fd, unit) {
                Ok(_) => return Ok(true),
                // The kernel reports EIO for an interface that is down. Its user may take it down
                // at any time, and that does not end the forwarder, as an unplugged cable does not.
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM | Errno::EIO) => {
                    return Ok(false);
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
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

/// A port at the TAP interface of a sandbox's side.
pub struct TapPort {
    name: String,
    tap: Tap,
    /// False after the kernel has rejected a unit of several datagrams, as kernels before 6.2 do.
    takes_trains: bool,
    part: Vec<u8>,
}

impl TapPort {
    /// A port at `tap`. `name` names the owner of the TAP; messages have it after "The link's".
    pub fn new(name: String, tap: Tap) -> TapPort {
        TapPort { name, tap, takes_trains: true, part: Vec::new() }
    }

    /// Returns the TAP, for another process.
    pub fn into_tap(self) -> Tap {
        self.tap
    }
}

impl Port for TapPort {
    fn name(&self) -> String {
        format!("The link's {}", self.name)
    }

    fn longest(&self) -> usize {
        Tap::MAX_UNIT
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Some(length) = self.tap.read(buffer)? else { return Ok(None) };
        Ok(Some(received(&buffer[..length])))
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        match self.tap.write(unit) {
            Err(error) if error.raw_os_error() == Some(EINVAL) && gso::is_of_datagrams(unit) => {
                self.takes_trains = false;
                gso::singly(unit, &mut self.part, |packet| self.tap.write(packet))
            }
            written => written,
        }
    }

    fn takes_trains(&self) -> bool {
        self.takes_trains
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }
}

impl PortHandover for TapPort {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.tap.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel without support for units of datagrams.
    #[test]
    fn where_trains_of_datagrams_are_not_taken_they_go_one_by_one() {
        use nix::sys::signal::{SigSet, Signal};
        // A descriptor that answers every write with EINVAL.
        let signals = nix::sys::signalfd::SignalFd::new(&SigSet::from(Signal::SIGUSR2)).unwrap();
        let refuses = signals.as_fd().try_clone_to_owned().unwrap();
        let mut port = TapPort::new(String::new(), Tap::adopt(refuses));
        let mut unit = vec![1, 5, 0, 0, 100, 0, 34, 0, 6, 0, 0, 0];
        unit.resize(Tap::VNET_HEADER + 14 - 2, 2);
        unit.extend([0x08, 0x00, 0x45]);
        unit.resize(Tap::VNET_HEADER + 14 + 20 + 8 + 250, 0);
        assert_eq!(received(&unit).packets(), 3);
        let tcp = {
            let mut tcp = unit.clone();
            (tcp[1], tcp[8], tcp[58]) = (1, 16, 0x50);
            tcp
        };
        assert_eq!(received(&tcp).packets(), 3);
        for (unit, takes) in [(&tcp, true), (&unit, false), (&tcp, false)] {
            assert_eq!(port.transmit(unit).unwrap_err().raw_os_error(), Some(EINVAL));
            assert_eq!(port.takes_trains(), takes);
        }
    }
}
