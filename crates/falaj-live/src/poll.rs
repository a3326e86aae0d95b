//! Waiting for descriptors, with nothing built for each wait.
#![allow(unsafe_code)]

use falaj_sched::units::time::Span;
use nix::errno::Errno;
use nix::libc;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Descriptors to be read from. It knows their numbers only: whoever fills it
/// keeps them open while it is used.
#[derive(Default)]
pub(crate) struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    /// Watches these, and nothing else any more.
    pub(crate) fn set<'fd>(&mut self, fds: impl Iterator<Item = BorrowedFd<'fd>>) {
        self.0.clear();
        self.0.extend(fds.map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }));
    }

    /// Does it matter for now whether this one may be read from, and whether it has room?
    pub(crate) fn heed(&mut self, i: usize, reading: bool, room: bool) {
        let events = |heed: bool, what| if heed { what } else { 0 };
        self.0[i].events = events(reading, libc::POLLIN) | events(room, libc::POLLOUT);
    }

    /// Waits for one of them, `timeout` at most; only looks, where that is zero. A signal ends the
    /// wait as if the time were over.
    pub(crate) fn wait(&mut self, timeout: Span) -> io::Result<()> {
        let timeout = libc::timespec {
            tv_sec: (timeout.0 / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout.0 % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the array and the time outlive the call, the length is the array's; a null mask
        // changes no mask.
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

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Had this one something to read, or to complain about?
    #[inline]
    pub(crate) fn is_readable(&self, i: usize) -> bool {
        self.0[i].revents & !libc::POLLOUT != 0
    }

    /// The first of these that had something to read, or to complain about.
    pub(crate) fn first_readable(&self, mut among: Range<usize>) -> Option<usize> {
        among.find(|&i| self.is_readable(i))
    }

    /// Had this one room, where that mattered?
    #[inline]
    pub(crate) fn has_room(&self, i: usize) -> bool {
        self.0[i].revents & libc::POLLOUT != 0
    }
}
