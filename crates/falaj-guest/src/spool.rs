//! The directory through which host and guest exchange files.
//!
//! The guest writes its output into files of the host. Each write completes within its system call,
//! so no virtual time passes meanwhile, and the speed of the reader makes no difference. The file
//! system of this directory also holds the guest's memory.

use crate::error::{During, Error};
use nix::sys::statvfs::{FsFlags, statvfs};
use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Names of the files.
pub(crate) mod names {
    /// The guest's instructions: [`Order`](crate::job::Order).
    pub(crate) const ORDER: &str = "order";
    /// The complete standard input.
    pub(crate) const INPUT: &str = "input";
    /// The command's output: standard output, standard error, its terminal.
    pub(crate) const OUTPUT: &str = "output";
    pub(crate) const ERRORS: &str = "errors";
    pub(crate) const TERMINAL: &str = "terminal";
    /// The elapsed virtual time: [`Beat`](crate::beat::Beat).
    pub(crate) const CLOCK: &str = "clock";
    /// The command's end: [`Exit`](crate::exit::Exit).
    pub(crate) const EXIT: &str = "exit";
    /// The log of the guest's kernel.
    pub(crate) const LOG: &str = "log";
    /// A piece of standard input that arrives while the command runs.
    pub(crate) fn input_piece(number: u32) -> String {
        format!("input.{number}")
    }
    /// The shared library that the guest's kernel is started with.
    pub(crate) const SHIM: &str = "shim.so";
}

/// Room in bytes in addition to the guest's memory, for output that waits for its reader.
const BESIDE: u64 = 64 << 20;

/// A directory accessible to this user only, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
}

impl Spool {
    /// Creates a directory in a file system that has room for the guest's memory (`memory` bytes)
    /// and allows execution.
    pub(crate) fn make(memory: u64) -> Result<Spool, Error> {
        let needed = memory + BESIDE;
        let given = env::var_os("TMPDIR").filter(|path| !path.is_empty()).map(PathBuf::from);
        let places: Vec<PathBuf> = given
            .into_iter()
            .chain(["/dev/shm", "/tmp", "/var/tmp"].map(PathBuf::from))
            .filter_map(|path| fs::canonicalize(path).ok())
            .collect();
        let mut most = (0, PathBuf::from("/dev/shm"));
        for place in places {
            let Some(free) = free(&place) else { continue };
            if free < needed {
                most = most.max((free, place));
                continue;
            }
            if let Some(path) = make_in(&place) {
                return Ok(Spool { path });
            }
        }
        Err(Error::Memory { needed, free: most.0, place: most.1 })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that contains this directory.
    pub(crate) fn place(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The path of a file.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        fs::write(self.file(name), bytes).during("write to the guest's spool")
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Free bytes in a directory whose mount allows execution and writing.
fn free(place: &Path) -> Option<u64> {
    let is = statvfs(place).ok()?;
    if is.flags().intersects(FsFlags::ST_NOEXEC | FsFlags::ST_RDONLY) {
        return None;
    }
    Some(is.blocks_available() * is.fragment_size())
}

fn make_in(place: &Path) -> Option<PathBuf> {
    let id = std::process::id();
    (0..100)
        .map(|n| place.join(format!("falaj-guest-{id}-{n}")))
        .find(|path| DirBuilder::new().mode(0o700).create(path).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spool_is_its_users_alone_and_goes() {
        let spool = Spool::make(1 << 20).expect("this machine has a MiB of room");
        spool.write(names::ORDER, b"x").unwrap();
        let path = spool.path().to_owned();
        use std::os::unix::fs::MetadataExt;
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        drop(spool);
        assert!(!path.exists());
    }

    #[test]
    fn memory_that_no_machine_has_is_refused() {
        let error = Spool::make(1 << 60).unwrap_err();
        let Error::Memory { needed, free, .. } = &error else { panic!("{error:?}") };
        assert!(needed > free);
        assert!(error.to_string().contains("--memory"), "{error}");
    }
}
