//! `falaj serve --fail-open BRIDGE`: a small process that restarts the service whenever it ends,
//! until this process itself receives a signal to end. Until the restart the kernel's own bridge
//! joins the interfaces.
//!
//! At its start this process reads the scenario. After that it reads neither packets nor requests,
//! so there is little in it that could fail.

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

/// Delay before the service is restarted; it doubles each time that the service ends early.
const AGAIN: Duration = Duration::from_secs(1);
const AT_MOST: Duration = Duration::from_secs(30);
/// A service that ran for this time did not end early.
const LASTED: Duration = Duration::from_secs(60);

pub(super) fn main(args: &Args, bridge: &str) -> Result<ExitCode> {
    let (name, text) = file::text(&args.file)?;
    let interfaces = ports::here(&file::parse(&text, &name)?)?;
    if interfaces.is_empty() {
        bail!("--fail-open joins existing interfaces, such as `eth1`, but this file has none");
    }
    let mut signals = Signals::take()?;
    // If the service cannot be started now, for lack of privileges or of a file, the error is
    // reported, and no interface is joined to the bridge.
    let mut service = begin(bridge, &interfaces)?;
    let mut watchdog = Watchdog::new();
    let mut pause = AGAIN;
    loop {
        let began = Instant::now();
        let Some(status) = attend(&mut service, &mut signals)? else {
            // The service has received a signal to end.
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

/// Removes the interfaces from their bridge and starts the service.
fn begin(bridge: &str, interfaces: &[String]) -> Result<Child> {
    kernel_bridge::unplug(interfaces).context("cannot take the interfaces out of their bridge")?;
    start(bridge)
}

/// Joins the interfaces to the bridge, and prints that.
fn join(bridge: &str, interfaces: &[String], why: &str) {
    match kernel_bridge::plug(bridge, interfaces) {
        Ok(()) => note!("warning: {why}: bridge {bridge} joins {}", interfaces.join(", ")),
        Err(error) => {
            note!("warning: {why}, and bridge {bridge} cannot join all interfaces: {error}");
        }
    }
}

/// Starts the same command without the supervisor's option.
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
    // After an upgrade the program's file may be a different program or may be removed. The program
    // of this process is available as long as the process runs.
    let program = std::env::current_exe().ok().filter(|file| file.exists());
    let mut command = Command::new(program.unwrap_or_else(|| "/proc/self/exe".into()));
    // The service sends the watchdog's notifications. `WATCHDOG_PID` names the supervisor; with it
    // the service would ignore the watchdog, so the variable is removed.
    start_unblocked(command.args(words).env_remove("WATCHDOG_PID").env(SUPERVISED, "1"));
    command.spawn().context("cannot start the service")
}

/// Passes signals on until the service ends by itself, then returns the service's status. Returns
/// `None` if this process received a signal to end.
fn attend(service: &mut Child, signals: &mut Signals) -> Result<Option<std::process::ExitStatus>> {
    let over = end_of(service).context("cannot see when the service ends")?;
    loop {
        let watched = [signals.as_fd(), over.as_fd()];
        wait(&mut watched.map(|fd| PollFd::new(fd, PollFlags::POLLIN)), PollTimeout::NONE)?;
        while let Some(number) = signals.next_of_any()? {
            let signal = Signal::try_from(number)?;
            // If the process has ended, the check below notices it.
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

/// Waits before a restart. Returns true if the process received a signal to end. Meanwhile it sends
/// the watchdog's notifications, because no other process sends them while the bridge is in place.
fn rest(pause: Duration, signals: &mut Signals, watchdog: &mut Watchdog) -> Result<bool> {
    let until = Instant::now() + pause;
    while Instant::now() < until {
        watchdog.is_alive();
        let left = until
            .saturating_duration_since(Instant::now())
            .min(watchdog.at_most().unwrap_or(pause));
        // The timeout is rounded up, so that the last part of a millisecond is not a busy loop.
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

/// Waits until one of the descriptors is readable, or until the timeout.
fn wait(watched: &mut [PollFd<'_>], at_most: PollTimeout) -> Result<()> {
    match poll(watched, at_most) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
