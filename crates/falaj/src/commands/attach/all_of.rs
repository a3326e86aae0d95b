//! A link for each container of a project: one `falaj attach` process for each. A signal ends all
//! of them.

use super::target::containers_of;
use anyhow::{Context, Result};
use falaj_live::signals::{Signals, end_of, end_with_this_thread, start_unblocked};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, ExitStatus};

/// Attaches to each container by running this command again, with the container instead of the
/// project.
pub(super) fn main(project: &str) -> Result<ExitCode> {
    let containers = containers_of(project)?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let signals = Signals::take()?;
    let mut attached = Vec::new();
    for container in &containers {
        let mut command = Command::new(&program);
        command.args(words(std::env::args_os().skip(1), container));
        start_unblocked(&mut command);
        end_with_this_thread(&mut command);
        attached.push(command.spawn().with_context(|| format!("cannot attach to {container}"))?);
    }
    let mut worst = 0;
    while !attached.is_empty() {
        let ends = attached.iter().map(end_of).collect::<Result<Vec<_>, _>>()?;
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let others = ends.iter().map(|end| readable(end.as_fd()));
        let mut watched: Vec<PollFd<'_>> =
            [readable(signals.as_fd())].into_iter().chain(others).collect();
        let _ = poll(&mut watched, PollTimeout::NONE);
        if watched[0].any().unwrap_or(false) {
            // This process has not waited for the children yet, so their process IDs cannot have
            // been reused.
            let ids = attached.iter().filter_map(|child| i32::try_from(child.id()).ok());
            for id in ids {
                // A child that has just ended is not an error.
                let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
            }
            for child in &mut attached {
                worst = worst.max(code(child.wait().ok()));
            }
            break;
        }
        // If one container is gone, the links of the others continue.
        attached.retain_mut(|child| match child.try_wait() {
            Ok(None) => true,
            ended => {
                worst = worst.max(code(ended.ok().flatten()));
                false
            }
        });
    }
    Ok(ExitCode::from(worst))
}

/// Returns the exit status of a process; 1 if it was killed or its status is unknown.
fn code(status: Option<ExitStatus>) -> u8 {
    status.and_then(|status| u8::try_from(status.code()?).ok()).unwrap_or(1)
}

/// Returns the same arguments, with a target instead of a project.
fn words(all: impl Iterator<Item = OsString>, container: &str) -> Vec<OsString> {
    const OPTION: &str = "--all-of";
    let mut out = Vec::new();
    let mut all = all.peekable();
    while let Some(word) = all.next() {
        let text = word.to_string_lossy().into_owned();
        if text == OPTION {
            all.next();
        } else if !text.starts_with(&format!("{OPTION}=")) {
            out.push(word);
        }
        // The target directly follows the command name, so that a scenario file is the second
        // argument.
        if out.len() == 1 && text == "attach" {
            out.push(container.into());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_stands_in_the_place_of_the_project() {
        let of = |line: &str| {
            let words = words(line.split(' ').map(OsString::from), "docker:abc");
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        for line in
            ["attach --all-of shop --delay 5ms x.toml", "attach --all-of=shop --delay 5ms x.toml"]
        {
            assert_eq!(of(line), "attach docker:abc --delay 5ms x.toml");
        }
        assert_eq!(of("attach x.toml --all-of shop"), "attach docker:abc x.toml");
    }
}
