//! Where control sockets stand: a directory that is its user's alone, in it one socket for each
//! process.

use anyhow::{Context, Result, ensure};
use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Where directories stand on a machine that has none for its users.
const TEMPORARY: &str = "/tmp";

/// Where sockets stand that nobody placed elsewhere: one directory, or, where somebody else has
/// taken its name, several.
pub(crate) fn directories() -> Vec<PathBuf> {
    if let Some(directory) = of_the_session() {
        return vec![directory];
    }
    let entries = fs::read_dir(TEMPORARY).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("falaj-"));
    let mut directories: Vec<PathBuf> =
        ours.map(|entry| entry.path()).filter(|path| is_own(path)).collect();
    directories.sort();
    directories
}

fn of_the_session() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty())?;
    Some(PathBuf::from(runtime).join("falaj"))
}

/// Is this a directory that is its user's alone?
fn is_own(directory: &Path) -> bool {
    fs::symlink_metadata(directory)
        .is_ok_and(|is| is.is_dir() && is.uid() == geteuid().as_raw() && is.mode() & 0o077 == 0)
}

/// A place of this process's own. What others that were killed have left there goes.
pub(crate) fn of_this_process() -> Result<PathBuf> {
    let directory = match (of_the_session(), directories().first()) {
        (Some(directory), _) => make(&directory).map(|()| directory)?,
        (None, Some(directory)) => directory.clone(),
        // Under a name that anybody may take, others have as many as they like.
        (None, None) => {
            let named =
                |n| PathBuf::from(TEMPORARY).join(format!("falaj-{}{}", geteuid(), numbered(n)));
            (0..100)
                .map(named)
                .find(|directory| make(directory).is_ok())
                .context("no directory can be made in /tmp")?
        }
    };
    for path in sockets() {
        clear(&path);
    }
    // Processes of two namespaces may have one number.
    let named = |n| directory.join(format!("{}{}.sock", std::process::id(), numbered(n)));
    let free = (0..100).map(named).find(|path| fs::symlink_metadata(path).is_err());
    free.with_context(|| format!("no name is free in {}", directory.display()))
}

fn numbered(n: u32) -> String {
    if n == 0 { String::new() } else { format!("-{n}") }
}

fn make(directory: &Path) -> Result<()> {
    let shown = directory.display();
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot make the directory {shown}"));
        }
        _ => {}
    }
    ensure!(is_own(directory), "{shown} is not a directory that is its user's alone");
    Ok(())
}

/// All sockets there are, in the order of their names.
pub(crate) fn sockets() -> Vec<PathBuf> {
    let entries = directories()
        .into_iter()
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .flatten();
    let is_socket = |path: &PathBuf| path.extension() == Some("sock".as_ref());
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_socket).collect();
    paths.sort();
    paths
}

/// Takes a socket away that nobody listens at any more.
fn clear(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|is| is.file_type().is_socket());
    let refused = || {
        UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    if is_socket && refused() {
        let _ = fs::remove_file(path);
    }
}

/// Listens there, for this user alone; where a process that is gone has left a socket, it is
/// replaced.
pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
    clear(path);
    // The program still has one thread.
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    let listener = bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            io::Error::new(error.kind(), "there is something already, and it is in use")
        }
        _ => error,
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
