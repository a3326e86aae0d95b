//! The host's terminal while the guest uses it.

use crate::job::WindowSize;
use crate::sys;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use std::io;
use std::os::fd::AsFd;

/// A terminal in raw mode, restored when this is dropped.
#[derive(Debug)]
pub(crate) struct RawTerminal(Termios);

impl RawTerminal {
    /// Takes the terminal of standard input; `None` if that is not a terminal, or another program
    /// uses it now.
    pub(crate) fn take() -> Option<RawTerminal> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin).ok()?;
        if tcgetpgrp(&stdin).ok()? != getpgrp() {
            return None;
        }
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&stdin, SetArg::TCSADRAIN, &raw).ok()?;
        Some(RawTerminal(before))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &self.0);
    }
}

/// The size of the terminal at standard input, output or error.
pub(crate) fn size() -> Option<WindowSize> {
    let of = |fd: &dyn Fn() -> Option<WindowSize>| fd();
    of(&|| sys::window_size(&io::stdin().as_fd()))
        .or_else(|| sys::window_size(&io::stdout().as_fd()))
        .or_else(|| sys::window_size(&io::stderr().as_fd()))
}
