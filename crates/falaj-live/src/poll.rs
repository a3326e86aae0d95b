//! Waiting for descriptors, without setup for each wait.
#![allow(unsafe_code)]

use falaj_sched::units::time::Span;
use nix::errno::Errno;
use nix::libc;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// A set of descriptors to poll. It holds only their numbers: the caller keeps them open while the
/// set is used.
#[derive(Default)]
pub(crate) struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    /// Replaces the set by these descriptors, polled for reading.
    pub(crate) fn set<'fd>(&mut self, fds: impl Iterator<Item = BorrowedFd<'fd>>) {
        self.0.clear();
        self.0.extend(fds.map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }));
    }

    /// Sets whether this descriptor is polled for reading, and for room to write.
    pub(crate) fn set_interest(&mut self, i: usize, reading: bool, room: bool) {
        let events = |wanted: bool, what| if wanted { what } else { 0 };
        self.0[i].events = events(reading, libc::POLLIN) | events(room, libc::POLLOUT);
    }

    /// Waits for one of the descriptors, for `timeout` at most; with zero it returns at once. A
    /// signal ends the wait as if the time were over.
    pub(crate) fn wait(&mut self, timeout: Span) -> io::Result<()> {
        let timeout = libc::timespec {
            tv_sec: (timeout.0 / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout.0 % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the array and the time outlive the call, the length is the array's; a null signal
        // mask leaves the thread's mask as it is.
        let n = unsafe {
            libc::ppoll(
                self.0.as_mut_ptr(),
                self.0.len() as libc::nfds_t,
                &raw const timeout,
                ptr::null(),
            )
        };
        match Errno::result(n) {
            Ok(_) => Ok(()),
            Err(Errno::EINTR) => {
                self.0.iter_mut().for_each(|fd| fd.revents = 0);
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Number of descriptors.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if this descriptor was readable, or had an error.
    #[inline]
    pub(crate) fn is_readable(&self, i: usize) -> bool {
        self.0[i].revents & !libc::POLLOUT != 0
    }

    /// The first of these descriptors that was readable, or had an error.
    pub(crate) fn first_readable(&self, mut among: Range<usize>) -> Option<usize> {
        among.find(|&i| self.is_readable(i))
    }

    /// Returns true if this descriptor was polled for room to write, and had room.
    #[inline]
    pub(crate) fn has_room(&self, i: usize) -> bool {
        self.0[i].revents & libc::POLLOUT != 0
    }
}
