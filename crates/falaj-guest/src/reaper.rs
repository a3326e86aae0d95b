//! A process that clears up after the process of [`run`](crate::run), however that ends, even by a
//! signal that no program can catch.

use crate::error::{During, Error};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::io::{self, BufRead, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The argument by which this program recognizes that it is the reaper.
pub(crate) const REAPER: &str = "guest-reaper";
/// The message to a reaper that has nothing to do.
const DISMISSED: &str = "dismissed";

/// The reaper's process.
#[derive(Debug)]
pub(crate) struct Reaper {
    child: Child,
    line: PipeWriter,
}

impl Reaper {
    /// Starts a reaper for this directory.
    pub(crate) fn start(spool: &Path) -> Result<Reaper, Error> {
        let program = std::env::current_exe().during("find this program's own file")?;
        let (reader, line) = io::pipe().during("make a pipe")?;
        // In a group of its own, so that no key at the terminal reaches it.
        let child = Command::new(program)
            .arg(REAPER)
            .arg(spool)
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()
            .during("start a process")?;
        Ok(Reaper { child, line })
    }

    /// Tells the reaper to end this group of processes too.
    pub(crate) fn watch(&self, group: u32) {
        let _ = writeln!(&self.line, "{group}");
    }

    /// Dismisses the reaper, as everything is cleared up already.
    pub(crate) fn dismiss(mut self) {
        let _ = writeln!(&self.line, "{DISMISSED}");
        drop(self.line);
        let _ = self.child.wait();
    }
}

/// The main function of the reaper: waits until the line from the other process ends, and clears
/// up.
pub(crate) fn reap(spool: &OsStr) {
    let mut group = None;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        if line == DISMISSED {
            return;
        }
        group = line.parse::<i32>().ok().filter(|group| *group > 1).or(group);
    }
    if let Some(group) = group {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = std::fs::remove_dir_all(spool);
}
