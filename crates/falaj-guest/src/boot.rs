//! Boots the guest: the kernel's command line, environment and descriptors.

use crate::epoch::Epoch;
use crate::error::{During, Error};
use crate::kernel::Kernel;
use crate::spool::{Spool, names};
use crate::sys;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

/// The argument by which this program recognizes that it is the guest's init.
pub const INIT: &str = "guest-init";
/// Least memory of a guest, in bytes.
pub const LEAST_MEMORY: u64 = 96 << 20;

/// The library between the kernel and the C library: `shim/shim.rs`.
const SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim.so"));

/// The virtual time that computing takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuTime {
    /// None: virtual time passes only while everything waits. Results are exact and the same in
    /// each run.
    #[default]
    Free,
    /// The time that computing takes on the host. Only waiting is skipped, and no two runs are
    /// equal.
    Counted,
}

impl CpuTime {
    /// Names of the modes.
    pub const NAMES: [&'static str; 2] = ["free", "counted"];
}

impl fmt::Display for CpuTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(CpuTime::NAMES[*self as usize])
    }
}

impl FromStr for CpuTime {
    type Err = String;
    fn from_str(name: &str) -> Result<CpuTime, String> {
        match name {
            "free" => Ok(CpuTime::Free),
            "counted" => Ok(CpuTime::Counted),
            _ => Err("the time of computing is `free` or `counted`".into()),
        }
    }
}

/// Configuration of a guest.
#[derive(Clone, Debug)]
pub struct GuestConfig {
    /// The kernel that the guest boots.
    pub kernel: Kernel,
    /// The virtual time that computing takes.
    pub cpu: CpuTime,
    /// The start of the guest's clock.
    pub epoch: Epoch,
    /// Memory of the guest, in bytes.
    pub memory: u64,
    /// Seed of all random numbers in the guest.
    pub seed: u64,
    /// The guest is ended if no virtual time passes within this real time.
    pub stuck: std::time::Duration,
}

/// The kernel's command line. It must be the same in each run, because the kernel also derives its
/// first random numbers from it.
fn command_line(config: &GuestConfig, init: &Path) -> Vec<OsString> {
    // The kernel splits its command line at spaces outside of quotes.
    let quote = if init.as_os_str().to_string_lossy().contains(' ') { "\"" } else { "" };
    let mode = match config.cpu {
        CpuTime::Free => "inf-cpu",
        CpuTime::Counted => "",
    };
    let mut words: Vec<OsString> = [
        format!("mem={}M", config.memory >> 20),
        "root=/dev/root rootfstype=hostfs rootflags=/ rw quiet".into(),
        // The first console is the log. The second console is the line from the host.
        format!("con=null con0=fd:0,fd:1 con1=fd:{},fd:1 ssl=null", sys::LINE),
        if mode.is_empty() { "time-travel".into() } else { format!("time-travel={mode}") },
        format!("time-travel-start={}", config.epoch.nanos()),
        "random.trust_cpu=off random.trust_bootloader=off".into(),
        "falaj.guest".into(),
    ]
    .iter()
    .flat_map(|words: &String| words.split(' ').map(OsString::from).collect::<Vec<_>>())
    .collect();
    let mut word = OsString::from("init=");
    [OsStr::new(quote), init.as_os_str(), OsStr::new(quote)]
        .iter()
        .for_each(|part| word.push(part));
    words.push(word);
    words.push("--".into());
    words.push(INIT.into());
    words
}

/// Starts the guest's kernel, with `line` as its line from the host.
pub(crate) fn start(config: &GuestConfig, spool: &Spool, line: &OwnedFd) -> Result<Child, Error> {
    if config.memory < LEAST_MEMORY {
        return Err(Error::TooLittle(LEAST_MEMORY));
    }
    let init = std::env::current_exe().during("find this program's own file")?;
    let log = File::create(spool.file(names::LOG)).during("write to the guest's spool")?;
    let mut command = Command::new(&config.kernel.path);
    command.args(command_line(config, &init));
    // The init finds the spool as the working directory of its kernel.
    command
        .current_dir(spool.path())
        .env_clear()
        .env("TMPDIR", spool.place())
        .env("HOME", spool.path());
    command.stdin(Stdio::null());
    command.stdout(log.try_clone().during("write to the guest's spool")?).stderr(log);
    if !SHIM.is_empty() && config.kernel.shares_libraries {
        spool.write(names::SHIM, SHIM)?;
        command.env("LD_PRELOAD", spool.file(names::SHIM));
    }
    sys::as_guest(&mut command, line.as_raw_fd());
    command.spawn().during("start the guest's kernel")
}

/// The error of a guest that ended without an exit report, from the log of its kernel.
pub(crate) fn why_it_died(spool: &Spool) -> Error {
    /// Number of lines of the log that are shown.
    const SHOWN: usize = 12;
    let log = std::fs::read(spool.file(names::LOG)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let told = |line: &&str| {
        // Leaves out messages about consoles that are not used.
        !line.starts_with("Using a channel type")
            && !line.starts_with("setup_one_line failed")
            && !line.starts_with("epollctl add err")
            && !line.trim().is_empty()
    };
    let lines: Vec<&str> = log.lines().filter(told).collect();
    let refused = ["check_ptrace", "start_ptraced_child", "PTRACE_TRACEME failed"];
    if let Some(line) = lines.iter().find(|line| refused.iter().any(|word| line.contains(word))) {
        return Error::Ptrace((*line).to_owned());
    }
    // The log shows the cause, and after it the stack trace.
    let end = lines.iter().position(|line| line.starts_with("CPU: ")).unwrap_or(lines.len());
    Error::Died(lines[end.saturating_sub(SHOWN)..end].join("\n"))
}

/// Checks that the system's settings do not forbid ptrace outright.
///
/// # Errors
/// The settings forbid ptrace. If a container forbids it in another way, starting the guest fails.
pub fn check_ptrace() -> Result<(), Error> {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "3" => Err(Error::Ptrace("kernel.yama.ptrace_scope is 3".into())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::NamedBy;
    use std::time::Duration;

    #[test]
    fn the_command_line_says_all() {
        let kernel = Kernel {
            path: "/k".into(),
            named_by: NamedBy::Option,
            release: String::new(),
            shares_libraries: true,
        };
        let mut config = GuestConfig {
            kernel,
            cpu: CpuTime::Free,
            epoch: Epoch::default(),
            memory: 256 << 20,
            seed: 1,
            stuck: Duration::from_secs(30),
        };
        let line = |config: &GuestConfig| {
            let words = command_line(config, Path::new("/a b/falaj"));
            let words: Vec<String> =
                words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
            format!(" {} ", words.join(" "))
        };
        let free = line(&config);
        for word in [
            "mem=256M",
            "time-travel=inf-cpu",
            "time-travel-start=1767225600000000000",
            "con1=fd:200,fd:1",
            "init=\"/a b/falaj\" -- guest-init",
        ] {
            assert!(free.contains(&format!(" {word} ")), "{word}: {free}");
        }
        config.cpu = CpuTime::Counted;
        assert!(line(&config).contains(" time-travel "));
    }
}
