//! The end of a command, as the guest's init records it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// The way in which the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this status.
    Code(u8),
    /// It was ended by this signal.
    Signal(u8),
}

impl Exit {
    /// The status as in a shell: the exit status, or 128 plus the signal.
    pub fn shell_code(self) -> u8 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => signal.saturating_add(128),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Exit {
        let byte = |number: i32| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
        match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(byte(code)),
            (None, signal) => Exit::Signal(byte(signal.unwrap_or(0))),
        }
    }
}

/// Formats the exit, and the virtual time from the command's start to its end.
pub(crate) fn to_text(exit: Exit, lasted: Duration) -> String {
    let (word, number) = match exit {
        Exit::Code(code) => ("code", code),
        Exit::Signal(signal) => ("signal", signal),
    };
    format!("{word} {number} {}\n", lasted.as_nanos())
}

/// Parses a text of `to_text`; `None` if it is another text, or incomplete.
pub(crate) fn from_text(text: &str) -> Option<(Exit, Duration)> {
    let mut words = text.strip_suffix('\n')?.split(' ');
    let (word, number, lasted) = (words.next()?, words.next()?, words.next()?);
    let exit = match word {
        "code" => Exit::Code(number.parse().ok()?),
        "signal" => Exit::Signal(number.parse().ok()?),
        _ => return None,
    };
    Some((exit, Duration::from_nanos(lasted.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_arrives_as_it_was_written() {
        for exit in [Exit::Code(0), Exit::Code(255), Exit::Signal(9)] {
            let lasted = Duration::new(86_400, 1);
            let text = to_text(exit, lasted);
            assert_eq!(from_text(&text), Some((exit, lasted)));
            assert_eq!(from_text(text.trim_end()), None, "its end is missing");
        }
        assert_eq!(Exit::from(ExitStatus::from_raw(0x0300)), Exit::Code(3));
        assert_eq!(Exit::from(ExitStatus::from_raw(15)), Exit::Signal(15));
        assert_eq!((Exit::Code(3).shell_code(), Exit::Signal(2).shell_code()), (3, 130));
    }
}
