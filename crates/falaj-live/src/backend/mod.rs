//! Backends: the ends at which units enter and leave a link, one file or folder each.
//!
//! One table, [`BACKENDS`], lists the kinds of ends of a bridge: the form of their names, the
//! parsed name ([`Address`]), and the open end ([`Backend`], whose [`Port`] the event loop reads
//! and writes). A new backend is a new file, with one line here for the file and one in the table.

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

use falaj_batch::crossing::CrossingCounts;
use falaj_engine::batch::BatchPolicy;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The kinds of ends of a bridge. The last kind accepts every name without a scheme of the others.
pub static BACKENDS: &[&BackendEntry] =
    &[&vhost_user::BACKEND, &memif::BACKEND, &nfqueue::BACKEND, &interface::BACKEND];

/// The entry of a backend in the table.
#[derive(Debug)]
pub struct BackendEntry {
    /// Scheme with which the names of its ends begin, such as `vhost:`; empty: no scheme.
    pub scheme: &'static str,
    /// Form of the names of its ends, such as `vhost:PATH`.
    pub form: &'static str,
    /// Description for the help of `falaj bridge`; lines of 100 columns at most.
    pub help: &'static str,
    /// Arguments of `falaj bridge`, as an example.
    pub example: &'static str,
    /// Parses the text after the scheme.
    ///
    /// # Errors
    /// The expected form.
    pub parse: fn(&str) -> Result<Arc<dyn Address>, String>,
    /// True if opening an end starts threads. Only a single-threaded process can enter other
    /// network namespaces, so these ends are opened last.
    pub starts_threads: bool,
    /// True if packets return to the path that they came from: they leave at the end where they
    /// came in. Such an end can let packets pass that falaj does not handle (fail open).
    pub returns_packets: bool,
    /// True if the end can exchange packets in batches.
    pub takes_batches: bool,
}

impl BackendEntry {
    /// An entry with empty texts and no special properties; the caller completes it.
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

/// An open end of a bridge. The ends of a link are either both AF_XDP sockets or neither: units of
/// other backends may have several packets or an unfinished checksum, as their virtio-net header
/// notes, and AF_XDP sockets can send neither.
pub trait Backend: fmt::Debug {
    /// The entry of this end's backend in the table.
    fn entry(&self) -> &'static BackendEntry;

    /// Returns a port at this end.
    ///
    /// # Errors
    /// The kernel's error: a receive ring cannot be mapped.
    fn port(&self) -> io::Result<Box<dyn Port>>;

    /// Largest IP packet of the interface, in bytes; `None` if the end has no limit of its own.
    ///
    /// # Errors
    /// The kernel's error; the interface may be gone.
    fn mtu(&self) -> io::Result<Option<u32>> {
        Ok(None)
    }

    /// Returns true if arriving frames lose their VLAN tags.
    fn loses_tags(&self) -> bool {
        false
    }

    /// Checks the state of the end. An interface is followed by its number, even if it is renamed;
    /// if it is gone, a new interface with its name is used. Returns the new state if it has
    /// changed.
    fn look(&self) -> Option<InterfaceState> {
        None
    }

    /// The present name of the interface, if it was opened by another name.
    fn renamed(&self) -> Option<String> {
        None
    }

    /// The reason for the present state, if there is one that was not returned before.
    fn why(&self) -> Option<String> {
        None
    }

    /// Number of units lost because they were not read in time.
    fn unread(&self) -> u64 {
        0
    }

    /// The counters of batches that cross here, and the present policy; `None` without batches.
    fn batches(&self) -> Option<(CrossingCounts, BatchPolicy)> {
        None
    }

    /// The descriptors that another process needs to take over the end, beside the monitor's
    /// descriptor; `None` if that is not supported.
    fn descriptors(&self) -> Option<[BorrowedFd<'_>; 3]> {
        None
    }
}
