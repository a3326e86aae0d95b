//! Errors of virtual time, each with a message and a cure.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The advice to get a kernel, as in several messages.
const CURE: &str =
    "build one with `make kernel`, or name one with --kernel; docs/how-to/virtual-time.md";

/// The error of a command that cannot run in virtual time, or whose run ended without a result.
#[derive(Debug)]
pub enum Error {
    /// The machine or its system is not x86-64 Linux.
    Machine,
    /// No kernel was named, and none is at these places.
    NoKernel(Vec<PathBuf>),
    /// The given kernel cannot be used, for this reason.
    Kernel(PathBuf, KernelFault),
    /// ptrace(2) is forbidden; with the evidence.
    Ptrace(String),
    /// No directory has enough free bytes for the guest's memory; with the directory that has the
    /// most, and its free bytes.
    Memory {
        /// Bytes that are needed.
        needed: u64,
        /// The largest number of free bytes in a directory.
        free: u64,
        /// That directory.
        place: PathBuf,
    },
    /// The given memory is less than a guest needs; with the least memory in bytes.
    TooLittle(u64),
    /// A system call failed; with its purpose.
    System(&'static str, io::Error),
    /// The guest ended by itself; with the last lines that its kernel wrote.
    Died(String),
    /// Virtual time stood still for this number of seconds of real time; with the programs that
    /// computed meanwhile.
    Stuck(u64, Vec<String>),
    /// The guest passed the limit of virtual time; with this limit in seconds.
    Endless(u64),
    /// The command did not end after a signal of this number was sent, so the guest was ended.
    Signal(i32),
    /// The reader of standard output or standard error is gone.
    ReaderGone,
}

/// A fault of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFault {
    /// The file cannot be read.
    Unreadable,
    /// It is not a program for x86-64.
    NotX86,
    /// It may not be executed by this user.
    NotExecutable,
    /// It is not user-mode Linux with CONFIG_UML_TIME_TRAVEL_SUPPORT.
    NoTimeTravel,
    /// It lacks the driver for TUN and TAP, or the file system of the host.
    Incomplete,
}

impl fmt::Display for KernelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KernelFault::Unreadable => "it cannot be read",
            KernelFault::NotX86 => "it is not a program for x86-64",
            KernelFault::NotExecutable => "it is not executable; `chmod +x` cures that",
            KernelFault::NoTimeTravel => {
                "it is not a user-mode Linux with time travel (CONFIG_UML_TIME_TRAVEL_SUPPORT)"
            }
            KernelFault::Incomplete => "it lacks CONFIG_TUN or CONFIG_HOSTFS",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Machine => f.write_str(
                "virtual time needs Linux on x86-64; without --virtual-time the command runs in \
                 real time",
            ),
            Error::NoKernel(places) => {
                let places: Vec<String> =
                    places.iter().map(|place| place.display().to_string()).collect();
                write!(f, "no kernel for virtual time at {}: {CURE}", places.join(", "))
            }
            Error::Kernel(path, fault) => {
                write!(f, "the kernel {} cannot be used: {fault}", path.display())?;
                match fault {
                    KernelFault::NotExecutable => Ok(()),
                    _ => write!(f, "; {CURE}"),
                }
            }
            Error::Ptrace(seen) => write!(
                f,
                "ptrace is forbidden here, and the guest's kernel runs its processes by it \
                 ({seen}): set kernel.yama.ptrace_scope to 2 or less; in a container, use its \
                 default seccomp profile on Linux 4.8 or newer, or add the capability SYS_PTRACE"
            ),
            Error::Memory { needed, free, place } => write!(
                f,
                "no directory has {} MiB free for the guest's memory; {} has {} MiB: write a \
                 smaller --memory, or set TMPDIR to a directory with more room whose mount allows \
                 programs (a container's /dev/shm grows by `--shm-size 2g`)",
                needed >> 20,
                place.display(),
                free >> 20
            ),
            Error::TooLittle(least) => {
                write!(f, "--memory: a guest needs {} MiB at least", least >> 20)
            }
            Error::System(what, error) => write!(f, "cannot {what}: {error}"),
            Error::Died(log) => write!(f, "the guest ended before the command did:\n{log}"),
            Error::Stuck(seconds, names) => {
                let spins = match names.as_slice() {
                    [] => "the guest's kernel".to_owned(),
                    names => format!("`{}`", names.join("`, `")),
                };
                write!(
                    f,
                    "virtual time stood still for {seconds} s of real time: {spins} computes \
                     without waiting, and no time passes meanwhile. If it waits in a loop, let it \
                     sleep there, or take --cpu counted; if it computes this long, allow more by \
                     --stuck"
                )
            }
            Error::Endless(seconds) => write!(
                f,
                "{} days of virtual time have passed: the command waits for something that never \
                 comes",
                seconds / 86_400
            ),
            Error::Signal(signal) => {
                write!(f, "the command did not end at signal {signal}; its guest was ended")
            }
            Error::ReaderGone => f.write_str("the reader of the output went away"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::System(_, error) => Some(error),
            _ => None,
        }
    }
}

/// Adds the purpose of a system call to its error.
pub(crate) trait During<T> {
    /// Adds the purpose.
    fn during(self, what: &'static str) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during(self, what: &'static str) -> Result<T, Error> {
        self.map_err(|error| Error::System(what, error.into()))
    }
}
