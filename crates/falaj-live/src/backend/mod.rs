//! Backends: where units enter and leave, one file or folder each.
//!
//! What an end of a bridge may be stands in one table, [`BACKENDS`]: how its name is written, how
//! it is read from there ([`Address`]), and what it is when it is open ([`Backend`], whose [`Port`]
//! the event loop reads and writes). A new backend is its own file, and here a line for the file
//! and one in the table.

mod address;
pub mod batch;
pub(crate) mod followed;
pub(crate) mod frame;
pub mod interface;
pub mod loopback;
pub mod memif;
pub mod monitor;
pub mod name;
pub mod nfqueue;
pub mod packet;
pub mod port;
pub mod tap;
pub mod vhost_user;
pub mod xdp;

pub use address::{Address, EndName, OpenEnd, OpenError, OpenOptions};
pub use monitor::Monitor;
pub use name::{InterfaceName, InterfaceState};
pub use port::{Port, PortHandover, Received};

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What an end of a bridge may be. The last one takes every name that begins like none of the
/// others.
pub static BACKENDS: &[&BackendEntry] =
    &[&vhost_user::BACKEND, &memif::BACKEND, &nfqueue::BACKEND, &interface::BACKEND];

/// A backend, as the table lists it.
#[derive(Debug)]
pub struct BackendEntry {
    /// Beginning of the names of its ends: `vhost:`. Empty: none of its own.
    pub scheme: &'static str,
    /// How such a name is written: `vhost:PATH`.
    pub form: &'static str,
    /// Description for the help of `falaj bridge`; lines of 100 columns at most.
    pub help: &'static str,
    /// Arguments of `falaj bridge`, as an example.
    pub example: &'static str,
    /// Reads what stands behind the scheme.
    ///
    /// # Errors
    /// What to write instead.
    pub parse: fn(&str) -> Result<Arc<dyn Address>, String>,
    /// Opening one starts threads. Other network namespaces are entered by a process that has one
    /// thread, so that these ends are opened last.
    pub starts_threads: bool,
    /// Packets go on by their own way: they leave at the end where they came in. Such an end may
    /// fail open.
    pub returns_packets: bool,
    /// Packets may cross in batches.
    pub takes_batches: bool,
}

impl BackendEntry {
    /// A backend without peculiarities, to be completed.
    pub(crate) const fn new(
        scheme: &'static str,
        form: &'static str,
        parse: fn(&str) -> Result<Arc<dyn Address>, String>,
    ) -> BackendEntry {
        BackendEntry {
            scheme,
            form,
            help: "",
            example: "",
            parse,
            starts_threads: false,
            returns_packets: false,
            takes_batches: false,
        }
    }
}

/// An end of a bridge that is open. Of one link either both ends are AF_XDP sockets or none is:
/// other backends pass units on with a note of what is left to do, which AF_XDP sockets could not.
pub trait Backend: fmt::Debug {
    /// Its line in the table.
    fn entry(&self) -> &'static BackendEntry;

    /// A port at it.
    ///
    /// # Errors
    /// What the kernel says: a receive ring cannot be mapped.
    fn port(&self) -> io::Result<Box<dyn Port>>;

    /// Largest IP packet of the interface; `None` where that is another's affair.
    ///
    /// # Errors
    /// What the kernel says; the interface may be gone.
    fn mtu(&self) -> io::Result<Option<u32>> {
        Ok(None)
    }

    /// Returns true if VLAN tags of frames that come in are lost.
    fn loses_tags(&self) -> bool {
        false
    }

    /// Looks how it is. An interface is followed by its number, however it is called meanwhile;
    /// where it is gone, one of its name that has appeared is taken. Returns the new state if it
    /// has changed.
    fn look(&self) -> Option<InterfaceState> {
        None
    }

    /// The name that the interface had at the last look, if it was opened by another one.
    fn renamed(&self) -> Option<String> {
        None
    }

    /// Why it is as it is, if there is more to say and that was not said before.
    fn why(&self) -> Option<String> {
        None
    }

    /// Number of units lost because they were not read in time.
    fn unread(&self) -> u64 {
        0
    }

    /// What another process needs to take it over, beside what tells of changes; `None`: it cannot.
    fn descriptors(&self) -> Option<[BorrowedFd<'_>; 3]> {
        None
    }
}
