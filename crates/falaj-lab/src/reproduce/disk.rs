//! Disk load beside the network load: a process that writes, in its own control group if possible.

use super::group::Group;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Number of bytes that are written repeatedly, and synced to the disk each time.
const BYTES: usize = 16 << 20;

/// The parameters of the process, which are sent to it first: the times, from its start, between
/// which it writes. The process ends at `to`, or when its standard input is closed before.
#[derive(Serialize, Deserialize)]
struct Times {
    from: Duration,
    to: Duration,
}

/// The first message of the process.
#[derive(Serialize, Deserialize)]
struct Begun {
    /// A remark on the process's control group.
    group: String,
    /// Directories that the process removes at its end.
    directories: Vec<PathBuf>,
}

/// The last message of the process.
#[derive(Serialize, Deserialize)]
struct Ended {
    written: u64,
    /// CPU time of the thread that writes.
    spent: Duration,
}

/// The results of the load.
#[derive(Clone, Debug)]
pub(super) struct Done {
    /// Bytes that were written and synced to the disk.
    pub(super) written: u64,
    /// CPU time of the thread that writes.
    pub(super) spent: Duration,
    /// The control group of the process, or the reason why it has none.
    pub(super) group: String,
}

/// The process that writes from one instant to another. It ends at the latest when this value is
/// dropped.
pub(super) struct DiskLoad {
    process: Child,
    says: BufReader<ChildStdout>,
    begun: Begun,
}

impl DiskLoad {
    /// A load that writes from `from` to `to` after the start of its process.
    pub(super) fn between(from: Duration, to: Duration) -> Result<DiskLoad> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        // Ctrl-C reaches only this process and not the new one. This process then ends the load, so
        // that the load can clean up.
        command.arg("disk-load").stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().context("the load of the disk")?;
        let (mut input, output) =
            process.stdin.take().zip(process.stdout.take()).context("both are pipes")?;
        // The load's input stays open until the load is to end.
        writeln!(input, "{}", serde_json::to_string(&Times { from, to })?)?;
        process.stdin = Some(input);
        let mut says = BufReader::new(output);
        let begun = line(&mut says)?;
        Ok(DiskLoad { process, says, begun })
    }

    /// Ends the load; returns its results.
    pub(super) fn end(mut self) -> Result<Done> {
        drop(self.process.stdin.take());
        let ended: Ended = line(&mut self.says)?;
        ensure!(self.process.wait()?.success(), "the load of the disk failed");
        Ok(Done {
            written: ended.written,
            spent: ended.spent,
            group: std::mem::take(&mut self.begun.group),
        })
    }
}

impl Drop for DiskLoad {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
        // The process itself removes its directories, unless it was killed.
        self.begun.directories.iter().for_each(|directory| drop(fs::remove_dir(directory)));
    }
}

fn line<T: for<'a> Deserialize<'a>>(says: &mut impl BufRead) -> Result<T> {
    let mut line = String::new();
    says.read_line(&mut line)?;
    // The process has reported its errors itself.
    serde_json::from_str(&line).context("the load of the disk failed")
}

/// `falaj disk-load`: the process that writes.
pub fn main() -> Result<ExitCode> {
    let mut input = BufReader::new(std::io::stdin());
    let mut told = String::new();
    input.read_line(&mut told)?;
    let times: Times =
        serde_json::from_str(&told).context("this command is for falaj's own use")?;
    let file = tempfile::tempfile().context("no file for the load of the disk")?;
    let group = Group::enter(&file);
    let began = Instant::now();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let listen = move || {
        let _ = input.read_to_end(&mut Vec::new());
        stopped.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new().name("listen".into()).spawn(listen)?;
    say(&Begun { group: group.to_string(), directories: group.directories() })?;
    let written = write(file, began, &times, &stop);
    drop(group);
    say(&Ended { written: written.context("the load of the disk")?, spent: spent() })?;
    Ok(ExitCode::SUCCESS)
}

fn say(what: &impl Serialize) -> Result<()> {
    // The parent process may be gone, which must not prevent the cleanup.
    let _ = writeln!(std::io::stdout(), "{}", serde_json::to_string(what)?);
    Ok(())
}

fn write(mut file: File, began: Instant, times: &Times, stop: &AtomicBool) -> std::io::Result<u64> {
    let (bytes, mut written) = (vec![0x5a; BYTES], 0);
    while !stop.load(Ordering::Relaxed) && began.elapsed() < times.to {
        if began.elapsed() < times.from {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        written += BYTES as u64;
    }
    Ok(written)
}

/// CPU time of this thread.
fn spent() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}
