//! Signals and the foreground of the terminal that the caller and its commands share.
//!
//! The caller and its commands are in one process group, so that Ctrl-C reaches the command as if
//! falaj were not there. The caller must survive that Ctrl-C, to report how the command ended. A
//! command that takes the foreground of the terminal for itself, as an interactive shell does,
//! cannot give it back: the caller's process group has no number in the command's namespace.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;

use nix::libc::{O_NOCTTY, SIGINT, SIGQUIT, SIGTTOU};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};

use crate::process;

/// The state of the caller's terminal; dropping it restores signal actions and the foreground
/// process group.
#[derive(Debug)]
pub(super) struct Terminal {
    /// The terminal, if there is one and the caller was in its foreground.
    foreground: Option<File>,
    /// Signals that the caller ignores until this value is dropped.
    ignored: Vec<i32>,
}

impl Terminal {
    pub(super) fn hold() -> Terminal {
        let terminal =
            File::options().read(true).write(true).custom_flags(O_NOCTTY).open("/dev/tty").ok();
        Terminal {
            foreground: terminal.filter(|terminal| tcgetpgrp(terminal) == Ok(getpgrp())),
            ignored: [SIGINT, SIGQUIT, SIGTTOU]
                .into_iter()
                .filter(|&s| process::ignore_if_default(s))
                .collect(),
        }
    }

    /// Takes the terminal's foreground back from a command that has ended.
    pub(super) fn take_back(&self) {
        if let Some(terminal) = &self.foreground
            && tcgetpgrp(terminal) != Ok(getpgrp())
        {
            // This fails only if the terminal itself is gone; then there is nothing to take back.
            let _ = tcsetpgrp(terminal, getpgrp());
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
        for &signal in &self.ignored {
            process::restore_default(signal);
        }
    }
}
