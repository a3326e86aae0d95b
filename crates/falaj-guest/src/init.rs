//! The guest's first process: sets up the guest, runs the command, reports its end, and turns the
//! guest off.

use crate::beat::{self, Beat};
use crate::exit::{self, Exit};
use crate::job::{Order, Stream};
use crate::message::Message;
use crate::pump::{self, Pump, Streams};
use crate::spool::names;
use crate::sys;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, sync};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The path of the spool in the guest.
const SPOOL: &str = "/run/falaj-guest";
/// The spool's path on the host: the working directory of this kernel's process there.
const AT_HOST: &str = "/proc/self/cwd/.";
/// The file of a kernel's hostname.
pub(crate) const HOSTNAME: &str = "/proc/sys/kernel/hostname";
/// The guest's directory that replaces the host's XDG_RUNTIME_DIR.
const RUNTIME: &str = "/run/falaj-runtime";
/// The largest number of processes and threads at once, the kernel's own included. Each process is
/// also a process of the host.
const PROCESSES: u32 = 4000;
/// Exit statuses of shells for a command that cannot be executed, and for one that is not found.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The main function of the init; never returns.
pub fn main() -> ! {
    if let Err(error) = live() {
        // Standard error is the log, which the host reads if there was no exit report.
        let _ = writeln!(io::stderr(), "falaj's init: {error}");
    }
    sync();
    sys::power_off();
    // If turning off is not allowed, the kernel ends with its init.
    std::process::exit(1)
}

fn live() -> io::Result<()> {
    prepare()?;
    let at = |name: &str| Path::new(SPOOL).join(name);
    let order = Order::from_bytes(&fs::read(at(names::ORDER))?)
        .ok_or_else(|| io::Error::other("the order cannot be read"))?;
    settle(&order);
    let _ = sys::run_first();
    let mut set = SigSet::empty();
    set.add(Signal::SIGCHLD);
    set.thread_block()?;
    let children = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let line = pump::open_line(Path::new("/dev/tty1"))?;
    let streams = Streams::open(&order, Path::new(SPOOL))?;
    let clock = written_through(&at(names::CLOCK))?;
    let began = now();
    let mut life = Life {
        clock,
        began,
        beat: Beat { elapsed: now(), heard: 0 },
        line: Vec::new(),
        job: None,
        pieces: Vec::new(),
    };
    life.beat()?;
    let (pump, started) = start(&order, streams);
    let exit = match started {
        Ok(job) => {
            life.job = Some(job);
            life.last(pump, &children, &line)?
        }
        Err(error) => {
            let status =
                if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
            pump.complain(&format!("falaj: {}: {error}\n", order.job.command[0].to_string_lossy()));
            Exit::Code(status)
        }
    };
    let lasted = now().saturating_sub(began);
    written_through(&at(names::EXIT))?.write_all(exit::to_text(exit, lasted).as_bytes())
}

/// Mounts the file systems that programs expect.
fn prepare() -> io::Result<()> {
    let make = |path: &str, mode: u32| match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    let on = |kind: &str, path: &str, data: &str| -> io::Result<()> {
        let flags = MsFlags::MS_NOSUID;
        mount(Some(kind), path, Some(kind), flags, Some(data)).map_err(|errno| {
            io::Error::other(format!("cannot mount {kind} on {path}: {}", errno.desc()))
        })
    };
    on("proc", "/proc", "")?;
    on("sysfs", "/sys", "")?;
    on("tmpfs", "/run", "mode=755")?;
    if !Path::new("/dev/null").exists() {
        on("devtmpfs", "/dev", "")?;
    }
    make("/dev/pts", 0o755)?;
    make("/dev/shm", 0o755)?;
    on("devpts", "/dev/pts", "mode=620,ptmxmode=666")?;
    on("tmpfs", "/dev/shm", "mode=1777")?;
    for (name, to) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        let _ = symlink(to, name);
    }
    make("/run/netns", 0o755)?;
    make("/run/lock", 0o1777)?;
    make(RUNTIME, 0o700)?;
    make(SPOOL, 0o700)?;
    mount(Some("none"), SPOOL, Some("hostfs"), MsFlags::empty(), Some(AT_HOST))
        .map_err(|errno| io::Error::other(format!("cannot mount the spool: {}", errno.desc())))
}

/// Applies those settings of the order that concern the guest as a whole. A setting that this
/// kernel lacks stays as it is.
fn settle(order: &Order) {
    if let Ok(random) = File::options().read(true).write(true).open("/dev/random") {
        let _ = sys::add_entropy(&random, seed(order.seed));
    }
    let _ = fs::write(HOSTNAME, order.host.as_encoded_bytes());
    if let Ok(socket) = UdpSocket::bind(("0.0.0.0", 0)) {
        let _ = sys::loopback_up(&socket);
    }
    let limit = Path::new("/proc/sys/kernel/threads-max");
    let most = fs::read_to_string(limit).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let _ = fs::write(limit, most.unwrap_or(PROCESSES).min(PROCESSES).to_string());
    for hidden in &order.hidden {
        let _ = mount(Some("tmpfs"), hidden, Some("tmpfs"), MsFlags::empty(), Some("mode=700"));
    }
}

/// Expands a number to sixty-four bytes, different for each number (SplitMix64).
fn seed(mut number: u64) -> [u8; sys::SEED] {
    let mut seed = [0; sys::SEED];
    for bytes in seed.chunks_mut(8) {
        number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = number;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    seed
}

/// Opens a file of the spool for writing. When a write returns, its data are in the host's file.
fn written_through(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).custom_flags(nix::libc::O_DSYNC).open(path)
}

/// Virtual time since the guest began.
fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

/// Starts the command.
fn start(order: &Order, streams: Streams) -> (Pump, io::Result<Pid>) {
    let job = &order.job;
    let mut command = Command::new(&job.command[0]);
    command.args(&job.command[1..]).current_dir(&job.directory);
    command.env_clear().envs(job.environment.iter().map(|(name, value)| (name, value)));
    command.env("XDG_RUNTIME_DIR", RUNTIME);
    let (pump, ends) = streams.split();
    let terminal = ends.connect(&mut command);
    sys::as_session(&mut command, terminal);
    let started = command.spawn();
    // Closes this process's copies of the command's ends: only the command itself keeps its ends
    // open.
    drop(command);
    (pump, started.map(|child| Pid::from_raw(child.id() as i32)))
}

/// State of the init while the command runs.
struct Life {
    clock: File,
    began: Duration,
    beat: Beat,
    /// Bytes of the host's line that are not a whole message yet.
    line: Vec<u8>,
    job: Option<Pid>,
    /// Pieces of standard input that were read and that the command may not have taken yet.
    pieces: Vec<PathBuf>,
}

impl Life {
    /// Writes a beat.
    fn beat(&mut self) -> io::Result<()> {
        self.beat.elapsed = now();
        self.clock.write_all_at(&self.beat.to_bytes(), 0)
    }

    /// Runs until the command has ended and its output is passed on.
    fn last(&mut self, mut pump: Pump, children: &SignalFd, line: &File) -> io::Result<Exit> {
        let mut next = now() + beat::interval(Duration::ZERO);
        loop {
            let left = next.saturating_sub(now());
            let woken = pump.wait(children, line, left)?;
            if woken.by_time {
                self.beat()?;
                let now = self.beat.elapsed;
                next = now + beat::interval(now.saturating_sub(self.began));
            }
            pump.pass_on()?;
            if pump.has_room() {
                // The removal of these files tells the host that there is room for another piece.
                self.pieces.drain(..).try_for_each(fs::remove_file)?;
            }
            if woken.by_line {
                self.hear(line, &mut pump)?;
            }
            if woken.by_child {
                while let Ok(Some(_)) = children.read_signal() {}
                if let Some(exit) = self.reap() {
                    pump.pass_on()?;
                    // Ends the processes that the command left behind.
                    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
                    pump.pass_on()?;
                    return Ok(exit);
                }
            }
        }
    }

    /// Reaps all ended processes; returns the command's exit, if it was among them.
    fn reap(&mut self) -> Option<Exit> {
        let mut ended = None;
        loop {
            let (pid, exit) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, Exit::Code((code & 0xff) as u8)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, Exit::Signal(signal as u8)),
                Err(Errno::EINTR) => continue,
                // A real-time signal, which nix does not represent: the child is gone all the same.
                Err(Errno::EINVAL) => continue,
                _ => return ended,
            };
            if self.job == Some(pid) {
                ended = Some(exit);
            }
        }
    }

    /// Handles the host's messages.
    fn hear(&mut self, mut line: &File, pump: &mut Pump) -> io::Result<()> {
        let mut bytes = [0; 4096];
        match line.read(&mut bytes) {
            Ok(length) => self.line.extend(&bytes[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        while let Some(message) = Message::read_from(&mut self.line) {
            self.beat.heard += 1;
            match message {
                Message::Input(number) => {
                    let path = Path::new(SPOOL).join(names::input_piece(number));
                    pump.input(&fs::read(&path)?);
                    self.pieces.push(path);
                }
                Message::EndOfInput => pump.end_of_input(),
                Message::Signal(signal) => {
                    if let (Some(job), Ok(signal)) = (self.job, Signal::try_from(i32::from(signal)))
                    {
                        let _ = kill(job, signal);
                    }
                }
                Message::Window(size) => pump.window(size),
                Message::Ping => {}
            }
            self.beat()?;
        }
        Ok(())
    }
}

/// Returns true if this process runs in a guest started by this crate.
pub fn is_inside() -> bool {
    fs::read_to_string("/proc/cmdline")
        .is_ok_and(|line| line.split_whitespace().any(|word| word == "falaj.guest"))
}

/// The guest's path of a file in the spool.
pub(crate) fn in_spool(spool: &Path, name: &str) -> PathBuf {
    spool.join(name)
}

/// Opens the order's input if it is a file, else /dev/null.
pub(crate) fn input_of(order: &Order, spool: &Path) -> io::Result<File> {
    match order.streams[0] {
        Stream::File => File::open(in_spool(spool, names::INPUT)),
        _ => File::open("/dev/null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ() {
        assert_eq!(seed(1), seed(1));
        assert_ne!(seed(1)[..8], seed(2)[..8]);
        assert_ne!(seed(1)[..8], seed(1)[8..16]);
    }
}
