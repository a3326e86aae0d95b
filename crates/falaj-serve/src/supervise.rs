//! `falaj serve --fail-open BRIDGE`: a small process that starts the service again when it was
//! killed or failed, and until then has the kernel's own bridge join its interfaces.
//!
//! It reads no packet, no request and, apart from the file at its start, nothing: there is little
//! in it that could fail too.

use super::manager::Watchdog;
use super::ports;
use super::upgrade::SUPERVISED;
use crate::service::Args;
use anyhow::{Context, Result, bail};
use falaj_live::kernel_bridge;
use falaj_live::signals::{Signals, end_of, start_unblocked};
use falaj_terminal::file;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

/// The service is started again after that, and after twice as long each time that it does not
/// last.
const AGAIN: Duration = Duration::from_secs(1);
const AT_MOST: Duration = Duration::from_secs(30);
/// Who has run for so long has lasted.
const LASTED: Duration = Duration::from_secs(60);

pub(super) fn main(args: &Args, bridge: &str) -> Result<ExitCode> {
    let (name, text) = file::text(&args.file)?;
    let interfaces = ports::here(&file::parse(&text, &name)?)?;
    if interfaces.is_empty() {
        bail!(
            "--fail-open joins interfaces that are there, such as `eth1`, and this file has none"
        );
    }
    let mut signals = Signals::take()?;
    // Who cannot be started now has no rights, or no file: that is said, and nothing is joined that
    // was not.
    let mut service = begin(bridge, &interfaces)?;
    let mut watchdog = Watchdog::new();
    let mut pause = AGAIN;
    loop {
        let began = Instant::now();
        let Some(status) = attend(&mut service, &mut signals)? else {
            // As it was told to.
            let status = service.wait()?;
            return Ok(ExitCode::from(
                status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
            ));
        };
        join(bridge, &interfaces, &format!("the service ended ({status})"));
        pause = if began.elapsed() >= LASTED { AGAIN } else { pause };
        if rest(pause, &mut signals, &mut watchdog)? {
            return Ok(ExitCode::FAILURE);
        }
        pause = (pause * 2).min(AT_MOST);
        service = loop {
            watchdog.is_alive();
            match begin(bridge, &interfaces) {
                Ok(service) => break service,
                Err(error) => {
                    join(bridge, &interfaces, &format!("the service does not start ({error:#})"));
                }
            }
            if rest(pause, &mut signals, &mut watchdog)? {
                return Ok(ExitCode::FAILURE);
            }
            pause = (pause * 2).min(AT_MOST);
        };
    }
}

/// Starts the service at interfaces that no bridge joins.
fn begin(bridge: &str, interfaces: &[String]) -> Result<Child> {
    kernel_bridge::unplug(interfaces).context("cannot take the interfaces out of their bridge")?;
    start(bridge)
}

/// Has the bridge join the interfaces, and says so.
fn join(bridge: &str, interfaces: &[String], why: &str) {
    match kernel_bridge::plug(bridge, interfaces) {
        Ok(()) => note!("warning: {why}: bridge {bridge} joins {}", interfaces.join(", ")),
        Err(error) => note!("warning: {why}, and bridge {bridge} does not join all: {error}"),
    }
}

/// The same command without what makes it a supervisor.
fn start(bridge: &str) -> Result<Child> {
    let mut words = Vec::new();
    let mut before = std::env::args_os().skip(1).peekable();
    while let Some(word) = before.next() {
        if word == "--fail-open" {
            before.next();
        } else if word.to_str() != Some(&format!("--fail-open={bridge}")) {
            words.push(word);
        }
    }
    // After an upgrade its file may be another's, or gone; what this process runs is there as long
    // as it is.
    let program = std::env::current_exe().ok().filter(|file| file.exists());
    let mut command = Command::new(program.unwrap_or_else(|| "/proc/self/exe".into()));
    // The watchdog is whoever tells that packets pass, whose number a service manager cannot have
    // known.
    start_unblocked(command.args(words).env_remove("WATCHDOG_PID").env(SUPERVISED, "1"));
    command.spawn().context("cannot start the service")
}

/// Passes signals on, until the service has ended by itself: its status, at once. `None`: it was
/// told to end.
fn attend(service: &mut Child, signals: &mut Signals) -> Result<Option<std::process::ExitStatus>> {
    let over = end_of(service).context("cannot see when the service ends")?;
    loop {
        let watched = [signals.as_fd(), over.as_fd()];
        wait(&mut watched.map(|fd| PollFd::new(fd, PollFlags::POLLIN)), PollTimeout::NONE)?;
        while let Some(number) = signals.next_of_any()? {
            let signal = Signal::try_from(number)?;
            // If it is gone, that is seen below.
            let _ = kill(Pid::from_raw(i32::try_from(service.id())?), signal);
            if matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT) {
                return Ok(None);
            }
        }
        if let Some(status) = service.try_wait()? {
            return Ok(Some(status));
        }
    }
}

/// Waits; says whether it was told to end. While the bridge joins them, nobody else tells a service
/// manager that all is well.
fn rest(pause: Duration, signals: &mut Signals, watchdog: &mut Watchdog) -> Result<bool> {
    let until = Instant::now() + pause;
    while Instant::now() < until {
        watchdog.is_alive();
        let left = until
            .saturating_duration_since(Instant::now())
            .min(watchdog.at_most().unwrap_or(pause));
        // Rounded up, so that the last part of a millisecond is not spun away.
        let left = left + Duration::from_millis(1);
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        wait(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], left)?;
        while let Some(number) = signals.next_of_any()? {
            if matches!(
                Signal::try_from(number)?,
                Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT
            ) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Until one of them is readable, or the time is over.
fn wait(watched: &mut [PollFd<'_>], at_most: PollTimeout) -> Result<()> {
    match poll(watched, at_most) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
