//! Capabilities and limits of this host.

use crate::backend::nfqueue::Nfqueue;
use crate::error::Error;
use crate::sandbox::{Sandbox, SandboxSpec, UserNamespace};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::SockaddrStorage;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// Checks that a sandbox can be started without root.
///
/// # Errors
/// As [`Sandbox::start`].
pub fn user_namespaces() -> Result<(), Error> {
    Sandbox::start(SandboxSpec { user_namespace: UserNamespace::Always, ..SandboxSpec::default() })
        .map(drop)
}

/// Checks that packets of existing interfaces can be read and written.
///
/// # Errors
/// The kernel's error, usually that `CAP_NET_RAW` is required.
pub fn packet_sockets() -> io::Result<()> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    Ok(socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).map(drop)?)
}

/// Checks that firewall rules can pass packets to a queue of this process.
///
/// # Errors
/// The kernel's error, usually that `CAP_NET_ADMIN` is required.
pub fn queues() -> io::Result<()> {
    // The last queue number, because users begin with the first.
    Nfqueue::open(u16::MAX, true).map(drop)
}

/// Returns true if this network namespace has an interface of that name.
pub fn has_interface(name: &str) -> bool {
    if_nametoindex(name).is_ok()
}

/// Name of the interface of this network namespace that has this address.
pub fn interface_of(address: IpAddr) -> Option<String> {
    let is_it = |found: &SockaddrStorage| match address {
        IpAddr::V4(address) => found.as_sockaddr_in().is_some_and(|it| it.ip() == address),
        IpAddr::V6(address) => found.as_sockaddr_in6().is_some_and(|it| it.ip() == address),
    };
    let mut all = getifaddrs().ok()?;
    all.find(|one| one.address.as_ref().is_some_and(is_it)).map(|one| one.interface_name)
}

/// Number of bytes for packets in transit, with their records and captures: a quarter of the memory
/// that the process, its control group or the machine may use, but no more than a long and fast
/// link needs (1 GiB).
pub fn memory_for_packets() -> usize {
    const MOST: u64 = 1 << 30;
    usize::try_from((memory() / 4).min(MOST)).unwrap_or(usize::MAX)
}

/// Limit of the process's resident memory in bytes, above which masks create no more queues and
/// links: half of the memory that the process, its control group or the machine may use.
pub fn memory_with_masks() -> usize {
    usize::try_from(memory() / 2).unwrap_or(usize::MAX)
}

/// Bytes that the process, its control group or the machine may use, whichever is least.
fn memory() -> u64 {
    let of_the_process = getrlimit(Resource::RLIMIT_AS).map_or(u64::MAX, |(soft, _)| soft);
    let limits = [Some(of_the_process), memory_of_the_group(), memory_of_the_machine()];
    limits.into_iter().flatten().min().unwrap_or(u64::MAX)
}

/// The machine's memory, in bytes.
fn memory_of_the_machine() -> Option<u64> {
    let told = fs::read_to_string("/proc/meminfo").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The memory limit of the process's control group, or of a control group that contains it.
fn memory_of_the_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    least_of_the_groups(&groups, &mounts, |file| fs::read_to_string(file).ok())
}

/// The least limit of these control groups and of the groups that contain them. Their file system
/// is found wherever it is mounted, because `/sys/fs/cgroup` may be hidden.
fn least_of_the_groups(
    groups: &str,
    mounts: &str,
    read: impl Fn(&Path) -> Option<String>,
) -> Option<u64> {
    // The control groups of version 1 and of version 2.
    let groups =
        groups.lines().filter_map(|line| match line.splitn(3, ':').collect::<Vec<_>>()[..] {
            [_, controllers, path] if controllers.split(',').any(|one| one == "memory") => {
                Some(("cgroup", path, "memory.limit_in_bytes"))
            }
            [_, "", path] => Some(("cgroup2", path, "memory.max")),
            _ => None,
        });
    let mounted = |kind: &'static str| {
        let usual = if kind == "cgroup" { "/sys/fs/cgroup/memory" } else { "/sys/fs/cgroup" };
        // Fields of a mount: its number, its parent's number, the device, the root, the mount
        // point, options; after a dash the type, the source, and options of the file system.
        let elsewhere = mounts.lines().filter_map(move |line| {
            let (place, system) = line.split_once(" - ")?;
            let place: Vec<&str> = place.split(' ').collect();
            let (own, options) = (system.split(' ').next()?, system.rsplit(' ').next()?);
            let of_memory = kind == "cgroup2" || options.split(',').any(|one| one == "memory");
            (own == kind && of_memory).then_some((*place.get(3)?, *place.get(4)?))
        });
        std::iter::once(("/", usual)).chain(elsewhere)
    };
    let of = |(kind, path, name): (&'static str, &str, &str)| {
        let limits = mounted(kind).flat_map(|(root, place)| {
            let group = Path::new(path);
            let within = group.strip_prefix(root).or_else(|_| group.strip_prefix("/"));
            let group = Path::new(place).join(within.unwrap_or(group));
            let all: Vec<_> = group
                .ancestors()
                .take_while(|group| group.starts_with(place))
                .map(|group| group.join(name))
                .collect();
            all
        });
        limits.filter_map(|limit| read(&limit)?.trim().parse::<u64>().ok()).min()
    };
    groups.filter_map(of).min()
}

/// Bytes of memory that may be locked; `None`: unlimited.
///
/// # Errors
/// The kernel's error.
pub fn lockable_memory() -> io::Result<Option<u64>> {
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
    let any = caps::has_cap(None, caps::CapSet::Effective, caps::Capability::CAP_IPC_LOCK)
        .unwrap_or(false);
    Ok((!any && soft != nix::libc::RLIM_INFINITY).then_some(soft))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_control_groups_are_found_wherever_they_are_mounted() {
        let limits = |files: &'static [(&str, &str)], groups: &str, mounts: &str| {
            let read = |file: &Path| {
                let found = files.iter().find(|(name, _)| Path::new(name) == file);
                found.map(|(_, text)| (*text).to_owned())
            };
            least_of_the_groups(groups, mounts, read)
        };
        let second: &[_] = &[
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "4096000\n"),
            ("/sys/fs/cgroup/memory.max", "9999999\n"),
        ];
        assert_eq!(limits(second, "0::/a/b\n", ""), Some(4_096_000));
        assert_eq!(limits(second, "0::/other\n", ""), Some(9_999_999));
        // `/sys/fs/cgroup` is hidden, and mounted elsewhere: the whole hierarchy, or this group
        // alone.
        let whole: &[_] = &[("/run/groups/a/memory.max", "5000\n")];
        let mount =
            "30 1 0:26 / /run/groups rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(limits(whole, "0::/a/b\n", mount), Some(5_000));
        let part: &[_] = &[("/mine/memory.max", "6000\n")];
        let mount = "30 1 0:26 /a/b /mine rw - cgroup2 none rw\n";
        assert_eq!(limits(part, "0::/a/b\n", mount), Some(6_000));
        // Version 1, alone or with another controller.
        let first: &[_] = &[("/groups/m/a/memory.limit_in_bytes", "7000\n")];
        let mount = "30 1 0:26 / /groups/m rw - cgroup cgroup rw,hugetlb,memory\n\
                     31 1 0:27 / /groups/c rw - cgroup cgroup rw,cpu\n";
        assert_eq!(limits(first, "4:hugetlb,memory:/a\n5:cpu:/a\n", mount), Some(7_000));
        assert_eq!(limits(first, "5:cpu:/a\n", mount), None);
    }

    #[test]
    fn packets_take_a_part_of_what_the_machine_has() {
        let all = memory_of_the_machine().expect("Linux tells");
        assert!(memory_for_packets() as u64 <= all / 4);
    }
}
