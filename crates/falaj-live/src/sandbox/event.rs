//! Events of a side of a sandbox.

/// The way in which a command ended: with a status or by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command returned this status. As in a shell, 127 also means that the command was not
    /// found and 126 that it could not be executed; its standard error then has the reason.
    Code(i32),
    /// A signal of this number killed it.
    Signal(i32),
}

impl Exit {
    /// The status that a shell would report: the code, or 128 + the signal's number.
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

/// An event of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideEvent {
    /// The side's command ended. Processes that the command left behind go on until the sandbox is
    /// dropped.
    Exited(Exit),
    /// A connection to this port of the side's own loopback addresses was refused. This event comes
    /// once for each port, and only from a side that [tells
    /// refusals](super::SandboxSpec::tells_refusals).
    Refused(u16),
    /// The side itself is gone, killed from outside, with all its processes. No event follows, and
    /// `Sandbox::control_fd` stays readable for ever: remove it from the poll set.
    Closed,
}
