//! Paths of control sockets: a directory for its user alone, with one socket for each process.

use anyhow::{Context, Result, ensure};
use falaj_live::listening::name_process_at;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{geteuid, mkdtemp};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The parent of the directory if `XDG_RUNTIME_DIR` is not set.
const TEMPORARY: &str = "/tmp";

/// The directories of sockets without `--control`: the directory in `XDG_RUNTIME_DIR` or, without
/// this variable, all directories of the user in `/tmp` whose name begins with `falaj-`.
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

/// Returns true if this is a directory that this user owns, and that no other user can open.
fn is_own(directory: &Path) -> bool {
    fs::symlink_metadata(directory)
        .is_ok_and(|is| is.is_dir() && is.uid() == geteuid().as_raw() && is.mode() & 0o077 == 0)
}

/// A path for this process. Sockets left by killed processes are removed.
pub(crate) fn of_this_process() -> Result<PathBuf> {
    let directory = match (of_the_session(), directories().first()) {
        (Some(directory), _) => make(&directory).map(|()| directory)?,
        (None, Some(directory)) => directory.clone(),
        (None, None) => make_in(Path::new(TEMPORARY))?,
    };
    for path in sockets() {
        clear(&path);
    }
    // Processes of two namespaces may have the same number.
    let named = |n| directory.join(format!("{}{}.sock", std::process::id(), numbered(n)));
    let free = (0..100).map(named).find(|path| fs::symlink_metadata(path).is_err());
    free.with_context(|| format!("no name is free in {}", directory.display()))
}

/// Creates a directory named after the user's number or, if another user has taken that name, with
/// a random suffix.
fn make_in(temporary: &Path) -> Result<PathBuf> {
    let directory = temporary.join(format!("falaj-{}", geteuid()));
    if make(&directory).is_ok() {
        return Ok(directory);
    }
    mkdtemp(&temporary.join(format!("falaj-{}-XXXXXX", geteuid())))
        .with_context(|| format!("no directory can be made in {}", temporary.display()))
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
    ensure!(is_own(directory), "{shown} is not a directory that only its user can open");
    Ok(())
}

/// All existing sockets, in the order of their names.
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

/// Removes a socket at which no process listens. A socket stays if its process does not answer, or
/// if it is of another type; the check does not block.
fn clear(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|is| is.file_type().is_socket());
    if is_socket && connects(path) == Err(Errno::ECONNREFUSED) {
        let _ = fs::remove_file(path);
    }
}

/// Returns an error if no process listens there.
fn connects(path: &Path) -> Result<(), Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)
}

/// Listens at a path, for this user alone; a socket left by a dead process is replaced. The process
/// must be single-threaded.
///
/// # Errors
/// The path exists, and a process listens there or it is not a socket of a dead process; or the
/// directory is not writable.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    clear(path);
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    let listener = bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            let why = "the path exists already: a socket in use, or another kind of file";
            name_process_at(io::Error::new(error.kind(), why), path)
        }
        _ => error,
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    fn place(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("falaj-sockets-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    #[test]
    fn what_is_in_use_stays_and_what_was_left_goes() {
        let path = place("used");
        let first = bind(&path).expect("free");
        assert!(bind(&path).is_err());
        // Its queue is full, and connecting would block.
        let mut waiting = Vec::new();
        while waiting.len() < 10_000 && connects(&path).is_ok() {
            waiting.push(UnixStream::connect(&path));
        }
        assert!(bind(&path).is_err() && path.exists());
        drop((first, waiting));
        drop(bind(&path).expect("nobody listens any more"));
        fs::remove_file(&path).expect("it is ours");
        // A socket of another type.
        let other = UnixDatagram::bind(&path).expect("free");
        assert!(bind(&path).is_err() && path.exists());
        drop(other);
        fs::remove_file(&path).expect("it is ours");
        fs::write(&path, "a file").expect("free");
        assert!(bind(&path).is_err() && path.exists());
        fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn a_name_that_is_taken_is_not_needed() {
        let temporary = place("shared");
        fs::create_dir(&temporary).expect("free");
        let named = temporary.join(format!("falaj-{}", geteuid()));
        fs::write(&named, "squatted").expect("free");
        let made = make_in(&temporary).expect("another name");
        assert!(is_own(&made) && made != named);
        assert!(make_in(&temporary).is_ok_and(|other| other != made));
        fs::remove_file(&named).expect("it is ours");
        assert_eq!(make_in(&temporary).expect("free now"), named);
        fs::remove_dir_all(&temporary).expect("it is ours");
    }
}
