//! Confinement of a link's process: with Landlock the kernel restricts the process to the files
//! that it still uses, even if its user may open other files.
//!
//! A Landlock rule applies to a directory and everything beneath it, or to one file. A file that is
//! replaced by renaming is reachable through its directory only, so access is given to a file's
//! directory. Directories with files of other programs, such as `/etc`, are the exception: access
//! to a file that is only read is for that file alone, as it exists at the start.
//!
//! A thread confines itself and the threads that it starts. Processes that were started before,
//! those that open adapters and those of namespaces, are not confined.

use anyhow::{Context, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The newest version of Landlock whose file restrictions are used.
const NEWEST: ABI = ABI::V5;

/// Directories with files of many programs. If one file in such a directory is read, access is
/// given to that file alone.
const SHARED: &[&str] = &[
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/local",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/run",
    "/var/tmp",
];

/// Files that falaj and its libraries read while a link runs: those about the machine's processors,
/// limits and interface counters, and the libraries that a discipline's plug-in needs.
const READ: &[&str] = &[
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
];

/// Returns `Ok` if this kernel has Landlock.
///
/// # Errors
/// This kernel has no Landlock, or it is off.
pub fn available() -> Result<(), String> {
    let created = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(Ruleset::create)
        .map_err(|error| error.to_string())?;
    Option::<OwnedFd>::from(created)
        .map(drop)
        .ok_or_else(|| "this kernel has none, or it is off (CONFIG_SECURITY_LANDLOCK, lsm=)".into())
}

/// The files and ports that a process uses after its start.
#[derive(Debug, Default)]
pub struct Confinement {
    opened: BTreeMap<PathBuf, BitFlags<AccessFs>>,
    ports: Vec<u16>,
}

impl Confinement {
    /// Access to the files that every link's process reads.
    pub fn new() -> Confinement {
        let mut new = Confinement::default();
        READ.iter().for_each(|path| new.open(Path::new(path), AccessFs::from_read(NEWEST)));
        if let Some(paths) = std::env::var_os("LD_LIBRARY_PATH") {
            let directories = std::env::split_paths(&paths).filter(|path| !is_shared(path));
            directories.for_each(|path| new.open(&path, AccessFs::from_read(NEWEST)));
        }
        new.open(Path::new("/dev/null"), AccessFs::from_file(NEWEST));
        new
    }

    fn open(&mut self, path: &Path, access: BitFlags<AccessFs>) {
        *self.opened.entry(path.to_owned()).or_default() |= access & !AccessFs::Execute;
    }

    /// Gives access to a file that is read again, also after it was replaced. A symbolic link is
    /// followed, and its target may be replaced as well.
    pub fn read(&mut self, file: &Path) {
        let target = file.canonicalize().ok();
        for file in std::iter::once(file).chain(target.as_deref()) {
            match directory_of(file) {
                Some(directory) if !is_shared(&directory) => {
                    self.open(&directory, AccessFs::ReadFile | AccessFs::ReadDir);
                }
                _ => self.open(file, AccessFs::ReadFile.into()),
            }
        }
    }

    /// Gives access to a file that is written, read and replaced, and to temporary files beside it.
    /// The access includes its whole directory. Warns if the directory has files of other programs.
    pub fn replace(&mut self, option: &str, file: &Path) {
        let Some(directory) = directory_of(file) else { return };
        if is_shared(&directory) {
            note!(
                "warning: {option} {}: all of {} stays open to the service for writing: give the \
                 file a directory of its own",
                file.display(),
                directory.display()
            );
        }
        let access = AccessFs::ReadFile
            | AccessFs::ReadDir
            | AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::MakeReg
            | AccessFs::RemoveFile;
        self.open(&directory, access);
    }

    /// Gives access for a socket at this path that is created, and removed at the end.
    pub fn socket(&mut self, path: &Path) {
        if let Some(directory) = directory_of(path) {
            self.open(&directory, AccessFs::MakeSock | AccessFs::RemoveFile | AccessFs::ReadDir);
        }
    }

    /// Gives access to files below this directory for reading, and for creating sockets.
    pub fn directory(&mut self, directory: &Path) {
        let access =
            AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::MakeSock | AccessFs::RemoveFile;
        self.open(directory, access);
    }

    /// Permits a TCP socket to listen at this port.
    pub fn listen(&mut self, port: u16) {
        self.ports.push(port);
    }

    /// Confines this thread and those that it starts, permanently. If the kernel supports Landlock
    /// only in part or not at all, prints a note and continues.
    ///
    /// # Errors
    /// The kernel has Landlock and refuses it.
    pub fn begin(&self) -> Result<()> {
        let status = self.restrict().context("cannot confine itself by Landlock")?;
        match status {
            RulesetStatus::FullyEnforced => {}
            RulesetStatus::PartiallyEnforced => note!(
                "this kernel's Landlock is older than falaj's: some kinds of access to files stay \
                 open, and TCP"
            ),
            RulesetStatus::NotEnforced => note!(
                "this kernel has no Landlock: the process can open all files that its user can open"
            ),
        }
        Ok(())
    }

    fn restrict(&self) -> Result<RulesetStatus> {
        let mut ruleset = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .create()?;
        for (path, access) in &self.opened {
            // A rule needs a file that exists.
            let Ok(opened) = PathFd::new(path) else { continue };
            let kinds = if path.is_dir() { *access } else { *access & AccessFs::from_file(NEWEST) };
            ruleset = ruleset.add_rule(PathBeneath::new(opened, kinds))?;
        }
        for port in &self.ports {
            ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
        }
        Ok(ruleset.restrict_self()?.ruleset)
    }
}

/// The directory of a file, with symbolic links resolved; `None` if it does not exist.
fn directory_of(file: &Path) -> Option<PathBuf> {
    let file = std::path::absolute(file).ok()?;
    file.parent()?.canonicalize().ok()
}

/// Returns true if the directory holds files of many programs, or is a user's home.
fn is_shared(directory: &Path) -> bool {
    SHARED.iter().any(|shared| directory == Path::new(shared))
        || std::env::var_os("HOME").is_some_and(|home| directory == Path::new(&home))
        || directory.parent() == Some(Path::new("/home"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// Runs `then` on a confined thread, if the kernel has Landlock.
    fn confined(confinement: Confinement, then: impl FnOnce() + Send + 'static) {
        if let Err(why) = available() {
            eprintln!("left out: {why}");
            return;
        }
        let thread = thread::spawn(move || {
            assert_eq!(confinement.restrict().unwrap(), RulesetStatus::FullyEnforced);
            // A thread that it starts is confined too.
            thread::spawn(then).join()
        });
        thread.join().unwrap().unwrap();
    }

    fn denied<T>(done: std::io::Result<T>) {
        assert_eq!(done.err().map(|error| error.kind()), Some(ErrorKind::PermissionDenied));
    }

    #[test]
    fn what_was_not_named_is_closed() {
        let all = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let directory = all.path().join(name);
            fs::create_dir(&directory).unwrap();
            let file = directory.join("file");
            fs::write(&file, "before").unwrap();
            file
        };
        let (read, kept, socket, other) =
            (place("read"), place("kept"), place("socket"), place("other"));
        let mut confinement = Confinement::new();
        confinement.read(&read);
        confinement.replace("--state", &kept);
        confinement.socket(&socket);
        confined(confinement, move || {
            assert_eq!(fs::read_to_string(&read).unwrap(), "before");
            denied(fs::write(&read, "after"));
            denied(fs::remove_file(&read));
            let beside = kept.with_extension("new");
            fs::write(&beside, "after").unwrap();
            fs::rename(&beside, &kept).unwrap();
            assert_eq!(fs::read_to_string(&kept).unwrap(), "after");
            denied(fs::create_dir(kept.with_extension("directory")));
            denied(fs::read(&socket));
            let named = socket.with_extension("sock");
            drop(UnixListener::bind(&named).unwrap());
            fs::remove_file(named).unwrap();
            denied(fs::read(&other));
            denied(fs::write(&other, "after"));
            denied(fs::File::create(other.with_extension("new")));
            denied(UnixListener::bind(other.with_extension("sock")));
            denied(fs::read("/etc/passwd"));
            assert!(fs::read("/proc/self/status").is_ok());
            denied(fs::File::options().write(true).open("/proc/self/comm"));
        });
        assert_eq!(fs::read_to_string(all.path().join("other/file")).unwrap(), "before");
    }

    #[test]
    fn a_file_is_read_again_when_another_took_its_place() {
        let all = tempfile::tempdir().unwrap();
        let (here, there) = (all.path().join("here"), all.path().join("there"));
        [&here, &there].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
        fs::write(there.join("1"), "first").unwrap();
        let link = here.join("link");
        std::os::unix::fs::symlink(there.join("1"), &link).unwrap();
        let mut confinement = Confinement::new();
        confinement.read(&link);
        // As programs do that renew certificates.
        fs::write(there.join("2"), "second").unwrap();
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(there.join("2"), &link).unwrap();
        confined(confinement, move || assert_eq!(fs::read_to_string(&link).unwrap(), "second"));
    }

    #[test]
    fn a_file_among_those_of_others_is_opened_alone() {
        let mut confinement = Confinement::new();
        confinement.read(Path::new("/etc/passwd"));
        confined(confinement, || {
            assert!(fs::read("/etc/passwd").is_ok());
            denied(fs::read("/etc/group"));
            denied(fs::read_dir("/etc"));
        });
    }

    #[test]
    fn tcp_listens_at_its_port_and_connects_nowhere() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = other.local_addr().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut confinement = Confinement::new();
        confinement.listen(free.port());
        confined(confinement, move || {
            drop(TcpListener::bind(free).unwrap());
            denied(TcpListener::bind("127.0.0.1:0"));
            denied(TcpStream::connect(address));
        });
    }
}
