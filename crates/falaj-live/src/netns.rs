//! Other network namespaces: entering them, and creating descriptors there.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};

use crate::error::{Error, SetupStep};
use crate::process::run_apart;
use crate::sandbox::control::{self, SideMessage, SideReply};

/// Creates descriptors in the network namespace of that name or process; without a name, in the
/// namespace of this process.
pub(crate) fn made_in(
    namespace: Option<&str>,
    make: impl FnOnce() -> Result<Vec<OwnedFd>, (SetupStep, Errno)>,
) -> Result<Vec<OwnedFd>, Error> {
    let failed = |(step, errno)| Error::new(step, None, errno);
    let Some(namespace) = namespace else { return make().map_err(failed) };
    let (ours, theirs) = control::pair().map_err(|errno| failed((SetupStep::Sockets, errno)))?;
    run_apart(|| {
        let made = enter(namespace)
            .map_err(|errno| (SetupStep::EnterNamespace, errno))
            .and_then(|()| make());
        // If the answer cannot be sent, the receiver is gone.
        let _ = match made {
            Ok(made) => made
                .iter()
                .try_for_each(|fd| control::send(&theirs, SideMessage::Ready, Some(fd.as_fd()))),
            Err((step, errno)) => {
                control::send(&theirs, SideMessage::Failed(step, errno as i32), None)
            }
        };
    })?;
    let mut made = Vec::new();
    loop {
        match control::receive(&ours, false) {
            Ok(SideReply::Message(SideMessage::Ready, Some(fd))) => made.push(fd),
            Ok(SideReply::Message(SideMessage::Failed(step, errno), _)) => {
                return Err(Error { step, end: None, errno });
            }
            _ if made.is_empty() => {
                return Err(Error { step: SetupStep::EnterNamespace, end: None, errno: 0 });
            }
            _ => return Ok(made),
        }
    }
}

/// Enters the network namespace of that name or process permanently.
pub(crate) fn enter(namespace: &str) -> Result<(), Errno> {
    let open = |path: PathBuf| {
        File::open(path).map_err(|e| e.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
    };
    let network =
        match (open(PathBuf::from("/run/netns").join(namespace)), namespace.parse::<u32>()) {
            (Err(Errno::ENOENT), Ok(process)) => open(format!("/proc/{process}/ns/net").into())?,
            (file, _) => file?,
        };
    match (setns(&network, CloneFlags::CLONE_NEWNET), namespace.parse::<u32>()) {
        // Entering is denied, but it may be allowed in the namespace's own user namespace.
        (Err(Errno::EPERM), Ok(process)) => {
            setns(open(format!("/proc/{process}/ns/user").into())?, CloneFlags::CLONE_NEWUSER)?;
            setns(&network, CloneFlags::CLONE_NEWNET)
        }
        (entered, _) => entered,
    }
}
