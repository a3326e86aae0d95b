//! What this host allows, asked of it.

use crate::nfqueue::Queue;
use crate::sandbox::{Error, Sandbox, Spec, UserNamespace};
use nix::sys::resource::{Resource, getrlimit};
use std::io;

/// Whether a sandbox can be had without root.
///
/// # Errors
/// As [`Sandbox::start`].
pub fn user_namespaces() -> Result<(), Error> {
    Sandbox::start(Spec { user_namespace: UserNamespace::Always, ..Spec::default() }).map(drop)
}

/// Whether packets of interfaces that are there can be read and written.
///
/// # Errors
/// What the kernel says, usually that this is for `CAP_NET_RAW`.
pub fn packet_sockets() -> io::Result<()> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    Ok(socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).map(drop)?)
}

/// Whether packets of the firewall's rules can be held.
///
/// # Errors
/// What the kernel says, usually that this is for `CAP_NET_ADMIN`.
pub fn queues() -> io::Result<()> {
    // The last one: people begin at the first.
    Queue::open(u16::MAX, true).map(drop)
}

/// Bytes of memory that may be locked; `None`: as many as there are.
///
/// # Errors
/// What the kernel says.
pub fn lockable_memory() -> io::Result<Option<u64>> {
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
    let any = caps::has_cap(None, caps::CapSet::Effective, caps::Capability::CAP_IPC_LOCK).unwrap_or(false);
    Ok((!any && soft != nix::libc::RLIM_INFINITY).then_some(soft))
}
