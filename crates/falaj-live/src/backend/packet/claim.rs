//! Claims of interfaces: an interface belongs to one link at a time, because two links would
//! forward each of its frames twice.
//!
//! The owner holds two Unix sockets in the abstract namespace, whose names state the claim. One
//! name contains the interface's name, the other its number. A renamed interface stays claimed by
//! its number. Another interface that gets the old name is claimed by that name, because the owner
//! binds to it if its own interface vanishes. Such a socket name is not a file: the kernel keeps it
//! in the interface's own network namespace, and releases it when the owner has ended, in whatever
//! way. Any process may bind a name, so a name counts only if root or the asking user holds it.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen, socket,
};
use nix::unistd::geteuid;

use crate::error::SetupStep;

/// Claims an interface of the process's current network namespace, by its name and by its number,
/// for as long as the descriptors are open.
pub(crate) fn claim(interface: &str) -> Result<[OwnedFd; 2], (SetupStep, Errno)> {
    let number = stream().and_then(|asking| crate::sys::index(asking.as_fd(), interface));
    let number = number.map_err(|errno| (SetupStep::FindInterface, errno))?;
    Ok([claimed(&called(interface))?, claimed(&numbered(number))?])
}

fn claimed(what: &str) -> Result<OwnedFd, (SetupStep, Errno)> {
    let name = UnixAddr::new_abstract(what.as_bytes());
    name.and_then(|name| take(&name)).map_err(|errno| (SetupStep::Claim, errno))
}

fn called(interface: &str) -> String {
    format!("falaj/interface/{interface}")
}

/// The socket's name for an interface number. No interface can have the name `number/1`, because
/// names of interfaces contain no slash.
fn numbered(index: i32) -> String {
    format!("falaj/interface/number/{index}")
}

fn take(name: &UnixAddr) -> Result<OwnedFd, Errno> {
    let ours = stream()?;
    match bind(ours.as_raw_fd(), name) {
        Ok(()) => listen(&ours, Backlog::new(1)?)?,
        Err(Errno::EADDRINUSE) if is_claimed(name)? => return Err(Errno::EBUSY),
        // Another user's process holds the name, or it was released just now. The descriptor then
        // has no name.
        Err(Errno::EADDRINUSE) => {}
        Err(errno) => return Err(errno),
    }
    Ok(ours)
}

fn stream() -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::Stream, flags, None)
}

/// Returns true if a process whose claim is valid for this user holds this name.
fn is_claimed(name: &UnixAddr) -> Result<bool, Errno> {
    let asking = stream()?;
    match connect(asking.as_raw_fd(), name) {
        Ok(()) => Ok(counts(getsockopt(&asking, PeerCredentials)?.uid(), geteuid().as_raw())),
        // No process listens: it has ended since, or the name is not a claim.
        Err(Errno::ECONNREFUSED) => Ok(false),
        // The queue of unanswered connections is full. Then the kernel's list of sockets shows the
        // owner. An owner that is not visible to this process counts as a claim.
        Err(Errno::EAGAIN) => Ok(holder(name).is_none_or(|uid| counts(uid, geteuid().as_raw()))),
        Err(errno) => Err(errno),
    }
}

/// The user of the process that holds a name, if the caller may see it.
fn holder(name: &UnixAddr) -> Option<u32> {
    let called = format!("@{}", String::from_utf8_lossy(name.as_abstract()?));
    // Fields: number, references, protocol, flags, type, state, inode, name. The flags are those of
    // a listening socket.
    let sockets = fs::read_to_string("/proc/thread-self/net/unix").ok()?;
    let inode = sockets.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(3) == Some(&"00010000") && words.get(7) == Some(&&called[..]))
            .then(|| words[6].to_owned())
    })?;
    let socket = format!("socket:[{inode}]");
    let holds = |process: &fs::DirEntry| {
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| target.as_os_str() == socket.as_str())
    };
    let process = fs::read_dir("/proc").ok()?.flatten().find(holds)?;
    process.metadata().ok().map(|is| is.uid())
}

/// Returns true if a claim by user `holder` is valid for user `asking`.
fn counts(holder: u32, asking: u32) -> bool {
    holder == asking || holder == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_one_holder() {
        let name = format!("test-{}", std::process::id());
        let held = claimed(&called(&name)).expect("free");
        // Any number of processes may ask.
        for _ in 0..10 {
            let again = claimed(&called(&name)).map(drop);
            assert_eq!(again, Err((SetupStep::Claim, Errno::EBUSY)));
        }
        assert!(claimed(&called(&format!("{name}-other"))).is_ok());
        drop(held);
        assert!(claimed(&called(&name)).is_ok());
    }

    /// The owner of a name is found even if its queue of connections is full.
    #[test]
    fn the_holder_of_a_name_is_known_without_an_answer() {
        let interface = format!("test-full-{}", std::process::id());
        let name = UnixAddr::new_abstract(called(&interface).as_bytes()).expect("short");
        assert_eq!(holder(&name), None);
        let _held = claimed(&called(&interface)).expect("free");
        let mut asking = Vec::new();
        let full = loop {
            let socket = stream().expect("a socket");
            let asked = connect(socket.as_raw_fd(), &name);
            asking.push(socket);
            if asked.is_err() {
                break asked;
            }
        };
        assert_eq!(full, Err(Errno::EAGAIN));
        assert_eq!(holder(&name), Some(geteuid().as_raw()));
    }

    #[test]
    fn another_users_name_is_no_claim() {
        assert!(counts(7, 7) && counts(0, 7) && counts(0, 0));
        assert!(!counts(7, 8) && !counts(7, 0));
    }
}
