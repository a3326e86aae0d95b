//! Processes that are copies of this one, and their signals and descriptors: the system calls that
//! need `unsafe`, each in the smallest safe-to-use wrapper.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitStatus};
use std::{fs, mem, ptr};

use nix::errno::Errno;
use nix::libc::{self, c_int, c_long, c_uint, c_ulong};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::error::{Error, SetupStep};

/// A cloned process: its number, and a descriptor that always refers to the cloned process.
#[derive(Debug)]
pub(crate) struct Cloned {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
}

/// Runs `child` in a new process with the namespaces that `flags` requests; the result of `child`
/// is the exit status.
///
/// The caller must be single-threaded. Then the copy is a complete, consistent process and may do
/// anything, also allocate memory. With more threads, a lock that another thread holds would stay
/// locked in the copy for ever.
pub(crate) fn clone_process(
    flags: CloneFlags,
    child: impl FnOnce() -> i32,
) -> Result<Cloned, Errno> {
    let mut pidfd: c_int = -1;
    // With CLONE_PARENT the child inherits our exit signal, and the call may not name one.
    let exit_signal = if flags.contains(CloneFlags::CLONE_PARENT) { 0 } else { libc::SIGCHLD };
    let flags = flags.bits() | libc::CLONE_PIDFD | exit_signal;
    // SAFETY: without CLONE_VM and with a null stack this is fork(2): the child goes on with a copy
    // of this memory. With CLONE_PIDFD the third argument is where the kernel puts the
    // descriptor. The arguments after it, whose order differs between architectures, are unused
    // and zero.
    let pid = unsafe {
        #[cfg(not(target_arch = "s390x"))]
        let pid = libc::syscall(
            libc::SYS_clone,
            flags as c_ulong,
            ptr::null_mut::<u8>(),
            &raw mut pidfd,
            0 as c_ulong,
            0 as c_ulong,
        );
        #[cfg(target_arch = "s390x")]
        let pid = libc::syscall(
            libc::SYS_clone,
            ptr::null_mut::<u8>(),
            flags as c_ulong,
            &raw mut pidfd,
            0 as c_ulong,
            0 as c_ulong,
        );
        pid
    };
    match Errno::result(pid)? {
        0 => {
            // A panic must not unwind into the copied frames of the parent and run its destructors
            // a second time.
            let status = catch_unwind(AssertUnwindSafe(child)).unwrap_or(70);
            // SAFETY: _exit has no preconditions; exit handlers belong to the parent and must not
            // run here.
            unsafe { libc::_exit(status) }
        }
        pid => Ok(Cloned { pid: pid as i32, pidfd: adopt(pidfd) }),
    }
}

/// Owns a descriptor that a system call has just returned.
pub(crate) fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: the callers pass a descriptor that a system call has just returned, and that nothing
    // else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Sends a signal to the process behind a pidfd.
pub(crate) fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    // SAFETY: with a null siginfo the call behaves as kill(2) does; no memory is passed.
    let done = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            ptr::null::<u8>(),
            0 as c_uint,
        )
    };
    Errno::result(done).map(drop)
}

/// A descriptor of a process. The number of a child that has not been waited for yet cannot refer
/// to another process.
pub(crate) fn pidfd_open(child: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, c_long::from(child), 0 as c_long) };
    Errno::result(fd).map(|fd| adopt(fd as RawFd))
}

/// Closes every descriptor from 3 up except those in `keep`.
///
/// Only for a process that is a new copy: objects in it that still own these descriptors must never
/// be dropped.
pub(crate) fn close_all_but(keep: &mut [RawFd]) {
    keep.sort_unstable();
    let mut first: c_uint = 3;
    for &fd in keep.iter().filter(|&&fd| fd >= 3) {
        let fd = fd as c_uint;
        if fd > first {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, c_uint::MAX);
}

fn close_range(first: c_uint, last: c_uint) {
    // SAFETY: the process is a new copy in which nothing uses these descriptors any more.
    let done = unsafe {
        libc::syscall(libc::SYS_close_range, c_long::from(first), c_long::from(last), 0 as c_long)
    };
    if done == 0 {
        return;
    }
    // Kernels before 5.9 do not have this call, and some containers forbid it.
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|&fd| (first..=last).contains(&(fd as c_uint))) {
        // SAFETY: as above; closing the directory's own descriptor a second time is a harmless
        // EBADF.
        unsafe { libc::close(fd) };
    }
}

/// Reaps one dead child, if there is one; returns its process number and exit status.
///
/// `nix::waitpid` is not used: it reports death by a real-time signal as an error, and the child's
/// number is lost.
pub(crate) fn reap() -> Option<(i32, ExitStatus)> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
    (pid > 0).then(|| (pid, ExitStatus::from_raw(status)))
}

/// Makes the command start with no signal blocked, whatever this process blocks.
pub(crate) fn start_unblocked(command: &mut Command) {
    // SAFETY: between fork and exec only sigprocmask runs, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| SigSet::empty().thread_set_mask().map_err(io::Error::from));
    }
}

/// Makes the kernel kill the command as soon as the thread that starts it ends, for whatever
/// reason.
pub(crate) fn end_with_this_thread(command: &mut Command) {
    let parent = Pid::this();
    let tie = move || match prctl::set_pdeathsig(Signal::SIGKILL) {
        // If the parent has ended before this point, the signal is never sent.
        Ok(()) if Pid::parent() != parent => Err(Errno::ESRCH.into()),
        done => done.map_err(io::Error::from),
    };
    // SAFETY: between fork and exec only prctl and getppid run, which are async-signal-safe.
    unsafe {
        command.pre_exec(tie);
    }
}

/// Ignores `signal` if its action is the default one; returns true if it was the default one.
pub(crate) fn ignore_if_default(signal: i32) -> bool {
    // SAFETY: both structures are valid for the calls, and SIG_IGN is a valid action.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        if libc::sigaction(signal, ptr::null(), &raw mut action) != 0
            || action.sa_sigaction != libc::SIG_DFL
        {
            return false;
        }
        action.sa_sigaction = libc::SIG_IGN;
        libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0
    }
}

/// Gives `signal` its default action.
pub(crate) fn restore_default(signal: i32) {
    // SAFETY: the zeroed structure means SIG_DFL with no flags and an empty mask.
    unsafe {
        let action: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// Runs a function in a copy of the process, and waits until the copy has ended.
///
/// The process must be single-threaded, because it is copied as it is.
pub(crate) fn run_apart(what: impl FnOnce()) -> Result<(), Error> {
    if fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
        return Err(Error { step: SetupStep::OneThread, end: None, errno: 0 });
    }
    let copy = clone_process(CloneFlags::empty(), || {
        what();
        0
    });
    let copy = copy.map_err(|errno| Error::new(SetupStep::EnterNamespace, None, errno))?;
    wait(&copy);
    Ok(())
}

/// Waits until a process is dead, and reaps it if it is a child; returns at once if it was already
/// reaped.
pub(crate) fn wait(process: &Cloned) {
    loop {
        let options = WaitPidFlag::WEXITED | WaitPidFlag::__WALL;
        match waitid(Id::PIDFd(process.pidfd.as_fd()), options) {
            Err(Errno::EINTR) => {}
            // For a child of another process: its descriptor becomes readable when it is dead.
            Err(Errno::ECHILD) => {
                let mut dead = [PollFd::new(process.pidfd.as_fd(), PollFlags::POLLIN)];
                if poll(&mut dead, PollTimeout::NONE) != Err(Errno::EINTR) {
                    return;
                }
            }
            _ => return,
        }
    }
}

/// The ID of the process behind a pidfd, as this process sees it.
pub(crate) fn pid_of(pidfd: BorrowedFd<'_>) -> io::Result<i32> {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    let number = told.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
    // The ID of a process that is gone is -1.
    number.filter(|&pid| pid > 0).ok_or_else(|| Errno::ESRCH.into())
}
