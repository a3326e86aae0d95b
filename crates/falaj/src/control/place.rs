//! Where control sockets stand: a directory that is its user's alone, in it one socket for each process.

use anyhow::{Context, Result, bail};
use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Where sockets stand that nobody placed elsewhere.
pub(crate) fn directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => PathBuf::from(runtime).join("falaj"),
        None => PathBuf::from(format!("/tmp/falaj-{}", geteuid())),
    }
}

/// A place of this process's own. What others that were killed have left there goes.
pub(super) fn of_this_process() -> Result<PathBuf> {
    let directory = directory();
    let shown = directory.display();
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot make the directory {shown}"));
        }
        _ => {}
    }
    let is = fs::symlink_metadata(&directory).with_context(|| format!("cannot look at {shown}"))?;
    if !is.is_dir() || is.uid() != geteuid().as_raw() || is.mode() & 0o077 != 0 {
        bail!("{shown} is not a directory that is its user's alone");
    }
    for path in sockets() {
        clear(&path);
    }
    let name = |n: u32| if n == 0 { format!("{}.sock", std::process::id()) } else { format!("{}-{n}.sock", std::process::id()) };
    // Processes of two namespaces may have one number.
    let free = (0..100).map(|n| directory.join(name(n))).find(|path| fs::symlink_metadata(path).is_err());
    free.with_context(|| format!("no name is free in {shown}"))
}

/// All that stand in the directory, in the order of their names.
pub(super) fn sockets() -> Vec<PathBuf> {
    let entries = fs::read_dir(directory()).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|p| p.extension() == Some("sock".as_ref())).collect();
    paths.sort();
    paths
}

/// Takes a socket away that nobody listens at any more.
fn clear(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|is| is.file_type().is_socket());
    let refused = || UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_socket && refused() {
        let _ = fs::remove_file(path);
    }
}

/// Listens there, for this user alone; where a process that is gone has left a socket, it is replaced.
pub(super) fn bind(path: &Path) -> io::Result<UnixListener> {
    clear(path);
    // The program still has one thread.
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    let listener = bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => io::Error::new(error.kind(), "there is something already, and it is in use"),
        _ => error,
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
