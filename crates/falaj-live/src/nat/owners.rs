//! The links that need the host to forward. Each of them holds a lock on a file of its own, and the
//! kernel releases the lock if the link's process is killed.
//!
//! ```text
//! /run/falaj-forwarding-NAMESPACE/lock        held while something is changed here
//!                                /switched-on forwarding was off before the first owner came
//!                                /N           the file of link N, locked while the link exists
//! ```
//!
//! Each network namespace has its own setting for forwarding, and so its own directory.

use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const SWITCHED_ON: &str = "switched-on";

/// All owners, locked against changes by other processes.
pub(super) struct Owners {
    directory: PathBuf,
    _lock: Flock<File>,
}

/// One owner: a link that needs forwarding.
pub(super) struct Owner {
    directory: PathBuf,
    number: u8,
    _lock: Flock<File>,
}

impl Owners {
    /// Opens the directory, and waits for its lock.
    ///
    /// # Errors
    /// The system's error; the directory may belong to another user.
    pub(super) fn open() -> io::Result<Owners> {
        let namespace = fs::metadata("/proc/self/ns/net")?.ino();
        Owners::at(Path::new("/run").join(format!("falaj-forwarding-{namespace}")))
    }

    fn at(directory: PathBuf) -> io::Result<Owners> {
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let lock = locked(&directory.join(LOCK), FlockArg::LockExclusive)?;
        Ok(Owners { directory, _lock: lock })
    }

    /// The numbers of links that were killed.
    pub(super) fn dead(&self) -> io::Result<Vec<u8>> {
        let mut dead = Vec::new();
        for number in self.numbers()? {
            let path = self.directory.join(number.to_string());
            match locked(&path, FlockArg::LockExclusiveNonblock) {
                Ok(_) => dead.push(number),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(dead)
    }

    /// Removes the record of a link, after its changes were undone.
    pub(super) fn remove(&mut self, number: u8) -> io::Result<()> {
        fs::remove_file(self.directory.join(number.to_string()))
    }

    /// Adds an owner. `switches_on` is true if the owner switches forwarding on, false if
    /// forwarding is on already.
    pub(super) fn join(self, number: u8, switches_on: bool) -> io::Result<Owner> {
        let Owners { directory, .. } = &self;
        if switches_on {
            File::create(directory.join(SWITCHED_ON))?;
        }
        let path = directory.join(number.to_string());
        let lock = locked(&path, FlockArg::LockExclusiveNonblock)?;
        Ok(Owner { directory: directory.clone(), number, _lock: lock })
    }

    fn numbers(&self) -> io::Result<Vec<u8>> {
        let entries = fs::read_dir(&self.directory)?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }
}

impl Owner {
    /// Removes the owner. Returns true if it was the last owner, and forwarding was off before the
    /// first owner came.
    pub(super) fn leave(self) -> bool {
        let Ok(mut owners) = Owners::at(self.directory.clone()) else { return false };
        let _ = owners.remove(self.number);
        let alone = owners.numbers().is_ok_and(|numbers| numbers.is_empty());
        alone && fs::remove_file(self.directory.join(SWITCHED_ON)).is_ok()
    }
}

fn locked(path: &Path, how: FlockArg) -> io::Result<Flock<File>> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    Flock::lock(file, how).map_err(|(_, errno)| errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("falaj-owners-{}-{name}", std::process::id()))
    }

    #[test]
    fn the_last_owner_switches_off_what_the_first_switched_on() {
        let directory = place("last");
        let owners = || Owners::at(directory.clone()).expect("ours");
        let first = owners().join(1, true).expect("free");
        let second = owners().join(2, false).expect("free");
        assert!(owners().join(2, false).is_err(), "a link has its number for itself");
        assert!(!first.leave());
        let third = owners().join(3, false).expect("free");
        assert!(!third.leave());
        assert!(second.leave());
        // Forwarding was on before.
        assert!(!owners().join(1, false).expect("free").leave());
        fs::remove_dir_all(directory).expect("ours");
    }

    #[test]
    fn killed_owners_are_found() {
        let directory = place("killed");
        let owners = || Owners::at(directory.clone()).expect("ours");
        // The lock of the owner is released, and its file remains, as if its process was killed.
        drop(owners().join(7, true).expect("free"));
        let alive = owners().join(8, false).expect("free");
        let mut now = owners();
        assert_eq!(now.dead().expect("readable"), [7]);
        now.remove(7).expect("it is there");
        drop(now);
        assert!(alive.leave(), "the one that was killed had switched it on");
        fs::remove_dir_all(directory).expect("ours");
    }
}
