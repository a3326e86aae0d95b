//! Signals that are read from a descriptor, which can be polled together with packets and timers.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
pub use nix::sys::signal::Signal;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{getpid, getsid};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

/// The signals by which users and other programs stop or control a program, read from a descriptor.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// From now on, these signals are read here instead of ending the program. Call it after a
    /// sandbox was started, so that the signals of the sandbox's sides stay as they are.
    pub fn take() -> io::Result<Signals> {
        let mut set = SigSet::empty();
        for signal in [
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGQUIT,
            Signal::SIGUSR1,
            Signal::SIGUSR2,
        ] {
            set.add(signal);
        }
        set.thread_block()?;
        Ok(Signals(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// The next signal, from any sender.
    pub fn next_of_any(&mut self) -> io::Result<Option<i32>> {
        Ok(self.0.read_signal()?.map(|info| info.ssi_signo as i32))
    }

    /// The next signal that is for this process alone: sent by a process, or the hang-up of a
    /// terminal whose session this process leads. Other signals of a terminal reach every process
    /// in its foreground, and are skipped.
    pub fn next_sent(&mut self) -> io::Result<Option<i32>> {
        while let Some(info) = self.0.read_signal()? {
            let signal = info.ssi_signo as i32;
            if info.ssi_code <= 0 || signal == Signal::SIGHUP as i32 && leads_session() {
                return Ok(Some(signal));
            }
        }
        Ok(None)
    }
}

/// Returns true if this process leads its session. Then the kernel notifies only this process when
/// the terminal is gone.
fn leads_session() -> bool {
    getsid(None).is_ok_and(|leader| leader == getpid())
}

/// Makes a command start with no signal blocked, whatever signals this process reads.
pub fn start_unblocked(command: &mut std::process::Command) {
    crate::process::start_unblocked(command);
}

/// Makes the kernel kill a command as soon as the thread that starts it ends, for whatever reason,
/// so that the command never stays behind.
pub fn end_with_this_thread(command: &mut std::process::Command) {
    crate::process::end_with_this_thread(command);
}

/// Sends a signal to a process, and waits until the process has ended; returns false if that takes
/// longer than `patience`.
///
/// # Errors
/// There is no such process, or it belongs to another user.
pub fn end(process: u32, signal: Signal, patience: Duration) -> io::Result<bool> {
    let pidfd = crate::process::pidfd_open(process as i32)?;
    crate::process::pidfd_signal(pidfd.as_fd(), signal as i32)?;
    let mut ended = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    Ok(poll(&mut ended, patience)? > 0)
}

/// A descriptor that is readable as soon as this child has ended, to be polled with signals and
/// packets.
///
/// # Errors
/// No descriptor is available, or the kernel is older than 5.3.
pub fn end_of(child: &Child) -> io::Result<OwnedFd> {
    Ok(crate::process::pidfd_open(child.id() as i32)?)
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn what_a_thread_has_started_ends_with_it() {
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("60");
            end_with_this_thread(&mut command);
            command.spawn().expect("there is sleep")
        };
        let mut child = std::thread::spawn(start).join().expect("it starts one");
        let status = child.wait().expect("it is a child");
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32), "{status}");
    }
}
