//! The host's standard input: read completely beforehand if possible, else piece by piece.

use crate::error::{During, Error};
use crate::job::Stream;
use crate::spool::{Spool, names};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat, major, minor};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Longest wait for the end of a pipe, so that all its input is in the spool before the command
/// starts.
const WAIT: Duration = Duration::from_millis(200);

/// Standard input.
#[derive(Debug)]
pub(crate) struct Input {
    /// The kind of stream by which the guest gets this input.
    pub(crate) stream: Stream,
    /// For input that is passed on piece by piece: the part that was already read.
    pub(crate) begun: Vec<u8>,
    /// For input that is passed on piece by piece: the source of the rest.
    pub(crate) rest: Option<File>,
}

impl Input {
    /// Reads as much as possible before the guest starts.
    pub(crate) fn open(spool: &Spool) -> Result<Input, Error> {
        let stdin = io::stdin();
        let Ok(fd) = stdin.as_fd().try_clone_to_owned() else { return Ok(Input::nothing()) };
        let is = fstat(&fd).during("look at standard input")?;
        let kind = SFlag::from_bits_truncate(is.st_mode) & SFlag::S_IFMT;
        if stdin.is_terminal() {
            let rest = Some(File::from(fd));
            return Ok(Input { stream: Stream::Terminal, begun: Vec::new(), rest });
        }
        // /dev/null
        if kind == SFlag::S_IFCHR && (major(is.st_rdev), minor(is.st_rdev)) == (1, 3) {
            return Ok(Input::nothing());
        }
        if kind == SFlag::S_IFREG {
            let mut file = File::from(fd);
            let mut copy =
                File::create(spool.file(names::INPUT)).during("write to the guest's spool")?;
            io::copy(&mut file, &mut copy).during("read standard input")?;
            return Ok(Input { stream: Stream::File, begun: Vec::new(), rest: None });
        }
        Input::of_pipe(spool, fd)
    }

    fn nothing() -> Input {
        Input { stream: Stream::Nothing, begun: Vec::new(), rest: None }
    }

    fn of_pipe(spool: &Spool, fd: OwnedFd) -> Result<Input, Error> {
        let (began, mut file, mut begun) = (Instant::now(), File::from(fd), Vec::new());
        loop {
            let left = WAIT.saturating_sub(began.elapsed());
            if !is_readable(&file, left) {
                return Ok(Input { stream: Stream::Pipe, begun, rest: Some(file) });
            }
            let mut bytes = [0; 16_384];
            match file.read(&mut bytes) {
                Ok(0) => {
                    spool.write(names::INPUT, &begun)?;
                    return Ok(Input { stream: Stream::File, begun: Vec::new(), rest: None });
                }
                Ok(length) => begun.extend(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(Input { stream: Stream::Pipe, begun, rest: None }),
            }
        }
    }
}

/// Returns true if there is data to read or the input has ended; waits at most this long for that.
fn is_readable(file: &File, wait: Duration) -> bool {
    let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
    poll(&mut fds, wait).is_ok_and(|ready| ready > 0)
}
