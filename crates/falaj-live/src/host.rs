//! What this host allows, asked of it.

use crate::backend::nfqueue::Nfqueue;
use crate::error::Error;
use crate::sandbox::{Sandbox, SandboxSpec, UserNamespace};
use nix::sys::resource::{Resource, getrlimit};
use std::fs;
use std::io;
use std::path::Path;

/// Whether a sandbox can be had without root.
///
/// # Errors
/// As [`Sandbox::start`].
pub fn user_namespaces() -> Result<(), Error> {
    Sandbox::start(SandboxSpec { user_namespace: UserNamespace::Always, ..SandboxSpec::default() })
        .map(drop)
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
    Nfqueue::open(u16::MAX, true).map(drop)
}

/// Bytes of memory that units on their way may take: a part of what the process may have, so that
/// what is kept of each besides its bytes fits too, or as much as a long and fast link wants.
pub fn memory_for_packets() -> usize {
    const MOST: u64 = 1 << 30;
    const PART: u64 = 4;
    let of_the_process = getrlimit(Resource::RLIMIT_AS).map_or(u64::MAX, |(soft, _)| soft);
    let least = of_the_process.min(memory_of_the_group().unwrap_or(u64::MAX));
    usize::try_from((least / PART).min(MOST)).unwrap_or(usize::MAX)
}

/// What the process's control group may have, or one that it is in.
fn memory_of_the_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    // Of the first version, and of the second.
    let limits =
        groups.lines().filter_map(|line| match line.splitn(3, ':').collect::<Vec<_>>()[..] {
            [_, "memory", path] => Some(("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes")),
            [_, "", path] => Some(("/sys/fs/cgroup", path, "memory.max")),
            _ => None,
        });
    let of = |(root, path, name): (&str, &str, &str)| {
        let group = Path::new(root).join(path.trim_start_matches('/'));
        let limits = group
            .ancestors()
            .take_while(|group| group.starts_with(root))
            .map(|group| group.join(name));
        limits.filter_map(|limit| fs::read_to_string(limit).ok()?.trim().parse::<u64>().ok()).min()
    };
    limits.filter_map(of).min()
}

/// Bytes of memory that may be locked; `None`: as many as there are.
///
/// # Errors
/// What the kernel says.
pub fn lockable_memory() -> io::Result<Option<u64>> {
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
    let any = caps::has_cap(None, caps::CapSet::Effective, caps::Capability::CAP_IPC_LOCK)
        .unwrap_or(false);
    Ok((!any && soft != nix::libc::RLIM_INFINITY).then_some(soft))
}
