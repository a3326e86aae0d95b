//! Runs a script in a sandbox, where stand-ins for `tc`, `ipfw` and other programs record their
//! commands and do nothing.
//!
//! The script runs in new namespaces. It sees the system's programs and libraries read-only, an
//! empty directory in memory, no network, and only the sandbox's own processes. Inside, it runs as
//! root; outside, as the calling user, or as `nobody` if root calls. It may run for 10 s, and pause
//! a thousand times by `sleep`; the pauses take no time.

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Programs replaced by a stand-in. `sudo` has a stand-in too, which runs its command.
const STAND_INS: &str = "tc ip ipfw dnctl pfctl sleep usleep sysctl modprobe rmmod lsmod kldload \
                         iptables ip6tables iptables-restore ip6tables-restore ipset nft ethtool \
                         ifconfig brctl bridge tcset tcdel docker podman ssh systemctl service \
                         logger";

/// Number of pauses after which a script is ended.
pub(super) const PAUSES: usize = 1000;

/// The user `nobody`, which owns nothing.
const NOBODY: u32 = 65534;

/// The commands that a script has run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    /// The commands, one per line. An endless script ends with an endless pause.
    pub(super) commands: String,
    /// True if the script was ended because it reached the last allowed pause ([`PAUSES`]).
    pub(super) is_endless: bool,
    /// The status of a script that failed, and its first message.
    pub(super) failed: Option<(i32, String)>,
}

/// Runs a script with these arguments.
///
/// # Errors
/// The sandbox cannot be made, or the script neither ends nor reaches its last allowed pause within
/// 10 s.
pub(super) fn run(script: &str, args: &[String]) -> Result<Recorded> {
    let sandbox = |user: Option<u32>| {
        let mut sandbox = Command::new("unshare");
        sandbox
            .args(["--user", "--map-root-user", "--mount", "--net", "--pid", "--ipc", "--uts"])
            .args(["--fork", "--kill-child", "sh", "-c", include_str!("sandbox.sh"), "sandbox"])
            .args(args)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("FALAJ_STAND_INS", STAND_INS)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(user) = user {
            sandbox.uid(user).gid(user);
        }
        sandbox.spawn()
    };
    let mut started = sandbox(nix::unistd::geteuid().is_root().then_some(NOBODY));
    // EINVAL: this user namespace has no user `nobody`. Its root is an ordinary user outside, so
    // the script may run as this root.
    if started.as_ref().is_err_and(|error| error.raw_os_error() == Some(Errno::EINVAL as i32)) {
        started = sandbox(None);
    }
    let mut sandbox = started.context("cannot run `unshare` of util-linux")?;
    let mut input = sandbox.stdin.take().context("no pipe")?;
    // If the sandbox cannot be made, it does not read the script, and writing fails; its error
    // message is read below.
    let _ = input.write_all(script.as_bytes());
    drop(input);
    let output = sandbox.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut parts = said.splitn(3, '\n');
    let (Some(ended), Some(message), Some(commands)) = (parts.next(), parts.next(), parts.next())
    else {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!(
            "cannot make a sandbox for the script: {}; it needs user namespaces",
            why.trim().lines().next().unwrap_or("unknown")
        )
    };
    let numbers = ended.split_once(' ').context("no status of the script")?;
    let (status, pauses): (i32, usize) = (numbers.0.parse()?, numbers.1.trim().parse()?);
    let is_endless = pauses >= PAUSES;
    ensure!(is_endless || status != 124, "the script has not ended after 10 s");
    let failed = (status != 0 && !is_endless).then(|| (status, message.to_owned()));
    let rest = if is_endless { "sleep infinity\n" } else { "" };
    Ok(Recorded { commands: format!("{commands}{rest}"), is_endless, failed })
}
