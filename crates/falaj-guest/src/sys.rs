//! The system calls that need `unsafe`, each in the smallest safe wrapper.
#![allow(unsafe_code)]

use crate::job::WindowSize;
use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, setsid};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The descriptor number of the line from the host in the guest's kernel: the same in each run, as
/// it is on the kernel's command line. Lower numbers may be in use.
pub(crate) const LINE: RawFd = 200;

/// Prepares to start the guest's kernel in a group of its own and with no signal blocked. The
/// kernel is killed when this thread ends, has its memory at fixed addresses if that is allowed,
/// leaves no core file, and inherits this descriptor as [`LINE`].
pub(crate) fn as_guest(command: &mut Command, line: RawFd) {
    let parent = Pid::this();
    let prepare = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if Pid::parent() != parent {
            // The parent ended before the death signal was set.
            return Err(io::Error::from(Errno::ESRCH));
        }
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the structure outlives the call; the descriptor is open in this process.
        unsafe {
            // An invalid value only queries the current personality.
            let persona = libc::personality(0xffff_ffff);
            if persona >= 0 {
                libc::personality((persona | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong);
            }
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            Errno::result(libc::dup2(line, LINE))?;
        }
        SigSet::empty().thread_set_mask().map_err(io::Error::from)
    };
    command.process_group(0);
    // SAFETY: between fork and exec only system calls run that are async-signal-safe.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Prepares to start a command in a session of its own with no signal blocked; a given terminal
/// becomes the session's controlling terminal.
pub(crate) fn as_session(command: &mut Command, terminal: Option<RawFd>) {
    let prepare = move || {
        setsid()?;
        if let Some(terminal) = terminal {
            // SAFETY: the call takes a number; the descriptor is open in this process.
            Errno::result(unsafe { libc::ioctl(terminal, libc::TIOCSCTTY, 0) })?;
        }
        SigSet::empty().thread_set_mask().map_err(io::Error::from)
    };
    // SAFETY: as above.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// The size of a terminal.
pub(crate) fn window_size(terminal: &impl AsFd) -> Option<WindowSize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the structure outlives the call, which fills it.
    let done =
        unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (done == 0).then_some(WindowSize { rows: size.ws_row, columns: size.ws_col })
}

/// Sets the size of a terminal; without effect on other files.
pub(crate) fn set_window_size(terminal: &impl AsFd, size: WindowSize) {
    let size =
        libc::winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the structure outlives the call, which reads it.
    unsafe {
        libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCSWINSZ, &raw const size);
    }
}

/// Length of a seed in bytes.
pub(crate) const SEED: usize = 64;

/// The kernel's `struct rand_pool_info`, with a buffer of this length.
#[repr(C)]
struct Pool {
    bits: libc::c_int,
    bytes: libc::c_int,
    seed: [u8; SEED],
}

/// Adds a seed to the kernel's entropy and credits it in full.
pub(crate) fn add_entropy(random: &impl AsFd, seed: [u8; SEED]) -> Result<(), Errno> {
    // _IOW('R', 3, int[2])
    const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
    let pool = Pool { bits: 8 * SEED as libc::c_int, bytes: SEED as libc::c_int, seed };
    // SAFETY: the structure outlives the call, which reads it; its length is in it.
    let done = unsafe { libc::ioctl(random.as_fd().as_raw_fd(), RNDADDENTROPY, &raw const pool) };
    Errno::result(done).map(drop)
}

/// Brings the loopback interface up; any Internet socket can make the request.
pub(crate) fn loopback_up(socket: &impl AsFd) -> Result<(), Errno> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: all of the structure may be zero. It outlives the calls, which read and fill it, and
    // both calls use its member for the flags.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        Errno::result(libc::ioctl(fd, libc::SIOCGIFFLAGS, &raw mut request))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        Errno::result(libc::ioctl(fd, libc::SIOCSIFFLAGS, &raw const request)).map(drop)
    }
}

/// Gives this thread the highest real-time priority; its children do not inherit it.
pub(crate) fn run_first() -> Result<(), Errno> {
    let param = libc::sched_param { sched_priority: 99 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call reads `param`, which outlives it, and concerns this thread alone.
    Errno::result(unsafe { libc::sched_setscheduler(0, policy, &raw const param) }).map(drop)
}

/// Turns the machine off; returns if that is not allowed.
pub(crate) fn power_off() {
    // SAFETY: the call takes a number.
    unsafe {
        libc::reboot(libc::RB_POWER_OFF);
    }
}
