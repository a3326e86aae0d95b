//! The command's streams on the guest's side: pipes or a terminal, drained into files of the host.

use crate::init::{in_spool, input_of};
use crate::job::{Order, Stream, WindowSize};
use crate::spool::names;
use crate::sys;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::PollFlags;
use nix::pty::openpty;
use nix::sys::signalfd::SignalFd;
use nix::sys::termios::{OutputFlags, SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::sys::time::TimeSpec;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Opens the line from the host: raw, and non-blocking.
pub(crate) fn open_line(device: &Path) -> io::Result<File> {
    let flags = nix::libc::O_NOCTTY | nix::libc::O_NONBLOCK;
    let line = File::options().read(true).write(true).custom_flags(flags).open(device)?;
    let mut settings = tcgetattr(&line)?;
    cfmakeraw(&mut settings);
    tcsetattr(&line, SetArg::TCSANOW, &settings)?;
    Ok(line)
}

/// The streams before the command is started: both ends of each stream.
pub(crate) struct Streams {
    pump: Pump,
    ends: CommandEnds,
}

/// The command's ends of its streams.
pub(crate) struct CommandEnds {
    streams: [Option<OwnedFd>; 3],
    terminal: Option<OwnedFd>,
}

impl CommandEnds {
    /// Connects the ends to a command that is to be started; returns the descriptor of its
    /// terminal.
    pub(crate) fn connect(self, command: &mut Command) -> Option<RawFd> {
        let [input, output, errors] = self.streams;
        let stdio = |fd: Option<OwnedFd>| fd.map_or_else(Stdio::null, Stdio::from);
        command.stdin(stdio(input)).stdout(stdio(output)).stderr(stdio(errors));
        // The terminal stays open: the child makes it its controlling terminal before it executes
        // the command.
        self.terminal.map(|terminal| {
            let number = terminal.as_raw_fd();
            std::mem::forget(terminal);
            number
        })
    }
}

/// A source of the command's output, and its destination.
struct Outlet {
    from: File,
    to: File,
    is_open: bool,
}

impl Outlet {
    /// Passes on all available output.
    fn pass_on(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16_384];
        while self.is_open {
            match self.from.read(&mut bytes) {
                // Reading from a terminal that no process has open any more fails.
                Ok(0) => self.is_open = false,
                Err(error) if error.raw_os_error() == Some(nix::libc::EIO) => self.is_open = false,
                Ok(length) => self.to.write_all(&bytes[..length])?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The causes that woke the init.
pub(crate) struct Woken {
    pub(crate) by_time: bool,
    pub(crate) by_line: bool,
    pub(crate) by_child: bool,
}

/// The init's ends of the command's streams.
pub(crate) struct Pump {
    outlets: Vec<Outlet>,
    /// The command's input, if the host passes it on piece by piece.
    inlet: Option<File>,
    /// Bytes for which the inlet had no room.
    unread: Vec<u8>,
    /// True if the inlet is closed after these bytes.
    is_last: bool,
    terminal: Option<File>,
}

impl Streams {
    /// Opens the streams of the order.
    pub(crate) fn open(order: &Order, spool: &Path) -> io::Result<Streams> {
        let [input, output, errors] = order.streams;
        let mut pump = Pump {
            outlets: Vec::new(),
            inlet: None,
            unread: Vec::new(),
            is_last: false,
            terminal: None,
        };
        let mut terminal = None;
        if order.streams.contains(&Stream::Terminal) {
            let both = openpty(None, None)?;
            // The command has its own copies as its standard streams.
            for end in [&both.master, &both.slave] {
                fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
            }
            let mut settings = tcgetattr(&both.slave)?;
            if order.host_processes_output {
                settings.output_flags.remove(OutputFlags::OPOST);
            }
            tcsetattr(&both.slave, SetArg::TCSANOW, &settings)?;
            sys::set_window_size(&both.slave, order.window);
            let master = File::from(both.master);
            pump.outlet(master.try_clone()?.into(), spool, names::TERMINAL)?;
            pump.terminal = Some(master);
            terminal = Some(both.slave);
        }
        let mut end = |stream: Stream, name: &str| -> io::Result<Option<OwnedFd>> {
            match stream {
                Stream::Terminal => terminal.as_ref().map(OwnedFd::try_clone).transpose(),
                Stream::Pipe => {
                    let (reader, writer) = io::pipe()?;
                    pump.outlet(reader.into(), spool, name)?;
                    Ok(Some(writer.into()))
                }
                _ => Ok(None),
            }
        };
        let out = end(output, names::OUTPUT)?;
        let err = match errors {
            Stream::Output => out.as_ref().map(OwnedFd::try_clone).transpose()?,
            errors => end(errors, names::ERRORS)?,
        };
        let into = match input {
            Stream::Pipe => {
                let (reader, writer) = io::pipe()?;
                pump.inlet = Some(without_waiting(writer.into())?);
                reader.into()
            }
            Stream::Terminal => match &terminal {
                Some(terminal) => terminal.try_clone()?,
                None => input_of(order, spool)?.into(),
            },
            _ => input_of(order, spool)?.into(),
        };
        if input == Stream::Terminal {
            pump.inlet = pump.terminal.as_ref().map(File::try_clone).transpose()?;
        }
        Ok(Streams { pump, ends: CommandEnds { streams: [Some(into), out, err], terminal } })
    }

    /// The init's side and the command's side.
    pub(crate) fn split(self) -> (Pump, CommandEnds) {
        (self.pump, self.ends)
    }
}

fn without_waiting(fd: OwnedFd) -> io::Result<File> {
    fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(fd.into())
}

impl Pump {
    fn outlet(&mut self, from: OwnedFd, spool: &Path, name: &str) -> io::Result<()> {
        // Data are in the host's file when a write returns.
        let to = File::options()
            .append(true)
            .create(true)
            .custom_flags(nix::libc::O_DSYNC)
            .open(in_spool(spool, name))?;
        self.outlets.push(Outlet { from: without_waiting(from)?, to, is_open: true });
        Ok(())
    }

    /// Waits at most this long for the command's output, room for its input, data on the line, or
    /// the end of a process.
    pub(crate) fn wait(
        &self,
        children: &SignalFd,
        line: &File,
        longest: Duration,
    ) -> io::Result<Woken> {
        use nix::poll::{PollFd, ppoll};
        let mut fds = vec![
            PollFd::new(children.as_fd(), PollFlags::POLLIN),
            PollFd::new(line.as_fd(), PollFlags::POLLIN),
        ];
        let open = self.outlets.iter().filter(|outlet| outlet.is_open);
        fds.extend(open.map(|outlet| PollFd::new(outlet.from.as_fd(), PollFlags::POLLIN)));
        if let Some(inlet) = self.inlet.as_ref().filter(|_| !self.unread.is_empty()) {
            fds.push(PollFd::new(inlet.as_fd(), PollFlags::POLLOUT));
        }
        let timeout = TimeSpec::from(longest);
        let ready = match ppoll(&mut fds, Some(timeout), None) {
            Err(nix::errno::Errno::EINTR) => 0,
            ready => ready?,
        };
        let is = |n: usize| fds[n].revents().is_some_and(|events| !events.is_empty());
        Ok(Woken { by_time: ready == 0, by_child: is(0), by_line: is(1) })
    }

    /// Passes on everything possible.
    pub(crate) fn pass_on(&mut self) -> io::Result<()> {
        for outlet in &mut self.outlets {
            outlet.pass_on()?;
        }
        self.feed();
        Ok(())
    }

    fn feed(&mut self) {
        while let Some(inlet) = &mut self.inlet {
            if self.unread.is_empty() {
                break;
            }
            match inlet.write(&self.unread) {
                Ok(length) => drop(self.unread.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The command does not read any more.
                Err(_) => {
                    (self.inlet, self.unread) = (None, Vec::new());
                }
            }
        }
        if self.is_last && self.unread.is_empty() {
            self.inlet = None;
        }
    }

    /// Returns true if all input so far has been taken, or is not read any more.
    pub(crate) fn has_room(&self) -> bool {
        self.unread.is_empty()
    }

    /// Adds input for the command.
    pub(crate) fn input(&mut self, bytes: &[u8]) {
        if self.inlet.is_some() {
            self.unread.extend(bytes);
            self.feed();
        }
    }

    /// Records that no more input comes. The command itself sees no end on a terminal, where the
    /// end of input is a character.
    pub(crate) fn end_of_input(&mut self) {
        self.is_last = true;
        self.feed();
    }

    /// Sets the size of the terminal.
    pub(crate) fn window(&self, size: WindowSize) {
        if let Some(terminal) = &self.terminal {
            sys::set_window_size(terminal, size);
        }
    }

    /// Writes a line to the destination of the command's errors.
    pub(crate) fn complain(mut self, line: &str) {
        if let Some(outlet) = self.outlets.last_mut() {
            let _ = outlet.to.write_all(line.as_bytes());
        }
    }
}
