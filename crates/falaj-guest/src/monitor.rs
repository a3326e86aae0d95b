//! The host's side of a running guest: passes input and signals to the guest and its output to the
//! host, with a watchdog that checks if virtual time passes.

use crate::beat::{self, Beat};
use crate::boot::{self, CpuTime, GuestConfig};
use crate::error::{During, Error};
use crate::exit::{self, Exit};
use crate::init::HOSTNAME;
use crate::input::Input;
use crate::job::{Job, Order, Stream, WindowSize};
use crate::message::Message;
use crate::reaper::Reaper;
use crate::relay::Relay;
use crate::spinning;
use crate::spool::{Spool, names};
use crate::terminal::{self, RawTerminal};
use crate::watchdog::{Alarm, Watchdog};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::fstat;
use nix::unistd::{Pid, geteuid};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

/// Interval of the watchdog's checks, if nothing else happens.
const STEP: Duration = Duration::from_millis(20);
/// Limit on the output that waits for its reader, in bytes. Beyond it the guest is stopped, until
/// at most a quarter of the limit waits.
const BACKLOG: u64 = 32 << 20;

/// The end of a command in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The command's exit status.
    pub exit: Exit,
    /// Virtual time from the command's start to its end.
    pub virtual_time: Duration,
    /// Real time, the guest's start included.
    pub real_time: Duration,
}

/// Runs a command in a guest, with this process's standard streams, and forwards signals to it. The
/// process must be single-threaded; signals that are forwarded stay blocked in it.
///
/// # Errors
/// A guest cannot run here, or it ended before the command did.
pub fn run(config: &GuestConfig, job: Job) -> Result<Ended, Error> {
    let began = Instant::now();
    boot::check_ptrace()?;
    let spool = Spool::make(config.memory)?;
    let reaper = Reaper::start(spool.path())?;
    let mut signals = take_signals()?;
    let input = Input::open(&spool)?;
    let order = order(config, job, input.stream);
    spool.write(names::ORDER, &order.to_bytes())?;
    let raw = if input.stream == Stream::Terminal { RawTerminal::take() } else { None };
    let relays = relays(&spool, &order)?;
    let (line, guests_end) = line()?;
    let child = boot::start(config, &spool, &guests_end)?;
    drop(guests_end);
    reaper.watch(child.id());
    let mut running = Running {
        config,
        guest: Guest { child, is_stopped: false },
        line,
        unsent: Vec::new(),
        sent: 0,
        relays,
        input: input.rest,
        pieces: 0,
        signals_heard: 0,
        watchdog: Watchdog::new(config.stuck, config.cpu == CpuTime::Free),
        clock: None,
    };
    if !input.begun.is_empty() {
        running.pass_input(&spool, &input.begun)?;
    }
    if input.stream == Stream::Pipe && running.input.is_none() {
        running.tell(&Message::EndOfInput);
    }
    let result = running.forward(&spool, &mut signals);
    drop(running);
    drop(raw);
    reaper.dismiss();
    let (exit, virtual_time) = result?;
    Ok(Ended { exit, virtual_time, real_time: began.elapsed() })
}

/// Blocks these signals: from now on they are read instead of ending the program.
fn take_signals() -> Result<SignalFd, Error> {
    let mut set = SigSet::empty();
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGWINCH,
    ] {
        set.add(signal);
    }
    set.thread_block().during("block signals")?;
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .during("receive signals")
}

fn order(config: &GuestConfig, job: Job, input: Stream) -> Order {
    let stream = |is_terminal| if is_terminal { Stream::Terminal } else { Stream::Pipe };
    let output = stream(io::stdout().is_terminal());
    let errors = match stream(io::stderr().is_terminal()) {
        // One stream for both keeps the order in which output and errors were written.
        Stream::Pipe if output == Stream::Pipe && are_one() => Stream::Output,
        stream => stream,
    };
    let of_user = PathBuf::from(format!("/tmp/falaj-{}", geteuid()));
    let hidden = Some(of_user).filter(|path| path.is_dir() && !job.directory.starts_with(path));
    Order {
        job,
        streams: [input, output, errors],
        window: terminal::size().unwrap_or(WindowSize { rows: 24, columns: 80 }),
        host_processes_output: input != Stream::Terminal,
        seed: config.seed,
        host: std::fs::read_to_string(HOSTNAME).unwrap_or_default().trim_end().into(),
        hidden: hidden.into_iter().collect(),
    }
}

/// Returns true if standard output and standard error are the same file.
fn are_one() -> bool {
    let (Ok(output), Ok(errors)) = (fstat(io::stdout()), fstat(io::stderr())) else { return false };
    (output.st_dev, output.st_ino) == (errors.st_dev, errors.st_ino)
}

fn relays(spool: &Spool, order: &Order) -> Result<Vec<Relay>, Error> {
    let [_, output, errors] = order.streams;
    let own = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned().map(File::from);
    let mut relays = Vec::new();
    if output == Stream::Pipe {
        let to = own(&io::stdout()).during("write to standard output")?;
        relays.push(Relay::start(&spool.file(names::OUTPUT), to)?);
    }
    if errors == Stream::Pipe {
        let to = own(&io::stderr()).during("write to standard error")?;
        relays.push(Relay::start(&spool.file(names::ERRORS), to)?);
    }
    if order.streams.contains(&Stream::Terminal) {
        let to = if io::stdout().is_terminal() {
            own(&io::stdout())
        } else if io::stderr().is_terminal() {
            own(&io::stderr())
        } else {
            // Input is echoed at the terminal where it is typed.
            File::options().write(true).open("/dev/tty")
        };
        relays
            .push(Relay::start(&spool.file(names::TERMINAL), to.during("write to the terminal")?)?);
    }
    Ok(relays)
}

/// Creates the line to the guest: the host's end, which never blocks, and the guest's end.
fn line() -> Result<(File, OwnedFd), Error> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let (reader, writer) = io::pipe().during("make a pipe")?;
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).during("make a pipe")?;
    Ok((File::from(OwnedFd::from(writer)), reader.into()))
}

/// The guest's processes, which are ended when this is dropped.
#[derive(Debug)]
struct Guest {
    child: Child,
    is_stopped: bool,
}

impl Guest {
    fn group(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Stops the guest's kernel, and with it the guest's time, or continues it.
    fn stop(&mut self, stop: bool) {
        if stop != self.is_stopped {
            let signal = if stop { Signal::SIGSTOP } else { Signal::SIGCONT };
            let _ = nix::sys::signal::kill(self.group(), signal);
            self.is_stopped = stop;
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = killpg(self.group(), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// The host's state of a running guest.
struct Running<'a> {
    config: &'a GuestConfig,
    guest: Guest,
    line: File,
    /// Bytes for which the line had no room.
    unsent: Vec<u8>,
    /// Number of messages so far.
    sent: u64,
    relays: Vec<Relay>,
    /// Standard input, until its end.
    input: Option<File>,
    /// Number of pieces of standard input that were passed on.
    pieces: u32,
    signals_heard: u32,
    watchdog: Watchdog,
    clock: Option<File>,
}

impl Running<'_> {
    /// Runs until the guest is gone and all its output has been passed on.
    fn forward(
        &mut self,
        spool: &Spool,
        signals: &mut SignalFd,
    ) -> Result<(Exit, Duration), Error> {
        loop {
            self.wait(signals, self.takes_input(spool));
            while let Ok(Some(info)) = signals.read_signal() {
                self.signal(info.ssi_signo as i32)?;
            }
            self.read_input(spool)?;
            self.send();
            let backlog = self.relays.iter().map(Relay::backlog).max().unwrap_or(0);
            let limit = if self.guest.is_stopped { BACKLOG / 4 } else { BACKLOG };
            self.guest.stop(backlog > limit);
            if self.relays.iter().any(Relay::is_broken) {
                return Err(Error::ReaderGone);
            }
            if self.guest.child.try_wait().during("wait for the guest")?.is_some() {
                break;
            }
            self.watch(spool)?;
        }
        self.relays.iter().for_each(Relay::end_of_output);
        while !self.relays.iter().all(Relay::is_done) {
            self.wait(signals, false);
            while let Ok(Some(info)) = signals.read_signal() {
                self.signal(info.ssi_signo as i32)?;
            }
        }
        if self.relays.iter().any(Relay::is_broken) {
            return Err(Error::ReaderGone);
        }
        let text = std::fs::read_to_string(spool.file(names::EXIT)).unwrap_or_default();
        exit::from_text(&text).ok_or_else(|| boot::why_it_died(spool))
    }

    /// Sleeps until there is something to do.
    fn wait(&self, signals: &SignalFd, takes_input: bool) {
        let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        if let Some(input) = self.input.as_ref().filter(|_| takes_input) {
            fds.push(PollFd::new(input.as_fd(), PollFlags::POLLIN));
        }
        let step = PollTimeout::try_from(STEP).unwrap_or(PollTimeout::ZERO);
        // In any case, everything that is ready is handled.
        let _ = poll(&mut fds, step);
    }

    /// Forwards a signal. At the third signal that ends programs by default (SIGUSR1 and SIGUSR2 do
    /// not count), the guest is ended.
    fn signal(&mut self, signal: i32) -> Result<(), Error> {
        if signal == Signal::SIGWINCH as i32 {
            if let Some(size) = terminal::size() {
                self.tell(&Message::Window(size));
            }
            return Ok(());
        }
        let ends = ![Signal::SIGUSR1 as i32, Signal::SIGUSR2 as i32].contains(&signal);
        if ends {
            self.signals_heard += 1;
            if self.signals_heard >= 3 {
                return Err(Error::Signal(signal));
            }
            self.watchdog.expect_answer(signal, self.sent + 1);
        }
        self.tell(&Message::Signal(u8::try_from(signal).unwrap_or(0)));
        Ok(())
    }

    fn tell(&mut self, message: &Message) {
        message.write_to(&mut self.unsent);
        self.sent += 1;
        self.send();
    }

    fn send(&mut self) {
        while !self.unsent.is_empty() {
            match self.line.write(&self.unsent) {
                Ok(length) => drop(self.unsent.drain(..length)),
                // The line is full, or the guest is gone, which is noticed elsewhere.
                Err(_) => return,
            }
        }
    }

    /// Returns true if the guest has taken all pieces of input, except possibly the last one.
    fn takes_input(&self, spool: &Spool) -> bool {
        let before = self.pieces.checked_sub(2);
        before.is_none_or(|piece| !spool.file(&names::input_piece(piece)).exists())
    }

    /// Reads available input, if the guest has room for it.
    fn read_input(&mut self, spool: &Spool) -> Result<(), Error> {
        let takes_input = self.takes_input(spool);
        let Some(input) = self.input.as_mut().filter(|_| takes_input) else { return Ok(()) };
        let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        if !poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
            return Ok(());
        }
        let mut bytes = [0; 65_536];
        match input.read(&mut bytes) {
            Ok(0) | Err(_) => {
                self.input = None;
                self.tell(&Message::EndOfInput);
                Ok(())
            }
            Ok(length) => self.pass_input(spool, &bytes[..length]),
        }
    }

    fn pass_input(&mut self, spool: &Spool, bytes: &[u8]) -> Result<(), Error> {
        spool.write(&names::input_piece(self.pieces), bytes)?;
        self.tell(&Message::Input(self.pieces));
        self.pieces += 1;
        Ok(())
    }

    /// Checks that time passes.
    fn watch(&mut self, spool: &Spool) -> Result<(), Error> {
        if self.guest.is_stopped {
            self.watchdog.pause(Instant::now());
            return Ok(());
        }
        if self.clock.is_none() {
            self.clock = File::open(spool.file(names::CLOCK)).ok();
        }
        let mut bytes = [0; beat::LENGTH];
        let read = self.clock.as_ref().map(|clock| clock.read_exact_at(&mut bytes, 0));
        let beat = match read {
            Some(Ok(())) => Beat::from_bytes(bytes),
            _ => Beat::default(),
        };
        match self.watchdog.look(Instant::now(), beat, self.sent) {
            None => Ok(()),
            Some(Alarm::Ask) => {
                self.tell(&Message::Ping);
                Ok(())
            }
            Some(Alarm::Stuck) => Err(Error::Stuck(
                self.config.stuck.as_secs(),
                spinning::computing(self.guest.child.id(), &self.config.kernel.path),
            )),
            Some(Alarm::Endless(seconds)) => Err(Error::Endless(seconds)),
            Some(Alarm::Deaf(signal)) => Err(Error::Signal(signal)),
        }
    }
}
