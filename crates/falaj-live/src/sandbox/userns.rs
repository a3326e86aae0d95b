//! The user namespace that makes a sandbox possible without root.
//!
//! A process that has just made a user namespace holds every capability in it, and so over all
//! namespaces that are made inside. The caller itself stays outside: a launcher, cloned into the
//! user namespace, clones the sides' first processes as children of the caller (`CLONE_PARENT`) and
//! ends.

use std::fs;

use caps::{CapSet, Capability};
use nix::errno::Errno;
use nix::unistd::{Gid, Uid};

/// The capabilities of the command in its namespaces; ping, tcpdump and ip need them.
const GIVEN: [Capability; 3] =
    [Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW, Capability::CAP_NET_BIND_SERVICE];

/// The caller's user and group, which keep their numbers inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    uid: Uid,
    gid: Gid,
}

impl Identity {
    /// The caller's identity outside of the namespace.
    pub(super) fn of_caller() -> Identity {
        Identity { uid: Uid::effective(), gid: Gid::effective() }
    }

    /// Maps the identity into the user namespace that this process has just made.
    pub(super) fn map(self) -> Result<(), Errno> {
        // The kernel requires this of unprivileged processes before they map groups: otherwise a
        // process could leave a group that exists to deny it access. Kernels before 3.19 lack the
        // file.
        match write("/proc/self/setgroups", "deny") {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        write("/proc/self/uid_map", &format!("{0} {0} 1", self.uid))?;
        write("/proc/self/gid_map", &format!("{0} {0} 1", self.gid))
    }
}

fn write(path: &str, text: &str) -> Result<(), Errno> {
    fs::write(path, text).map_err(|e| e.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}

/// Returns true if the process must make a user namespace to be allowed to make the other
/// namespaces.
pub(super) fn needed() -> bool {
    let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    !(Uid::effective().is_root()
        && has(Capability::CAP_SYS_ADMIN)
        && has(Capability::CAP_NET_ADMIN))
}

/// Lets commands that start from now on keep the network capabilities, which `exec` would remove
/// for all users but root.
///
/// Best effort: a command without them runs too, and gets the kernel's error where it needs one.
pub(super) fn give_capabilities() {
    for capability in GIVEN {
        let _ = caps::raise(None, CapSet::Inheritable, capability)
            .and_then(|()| caps::raise(None, CapSet::Ambient, capability));
    }
}
