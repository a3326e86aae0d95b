//! The first process of a side: it makes the network, starts the command, and waits.
//!
//! It is process 1 of the side's process namespace. The kernel therefore kills every process of the
//! side when process 1 dies, and process 1 dies with the caller (a parent-death signal, and the end
//! of the control socket). No process can outlive a sandbox. If another process is to continue with
//! a side, that process gets the control socket too, and the parent-death signal is cleared.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;
use nix::unistd::Pid;

use super::control::{self, SideMessage, SideReply};
use super::event::Exit;
use super::network::{self, SideNetwork};
use super::plan::{SidePlan, Variable};
use super::refusals::Refusals;
use super::spec::Join;
use super::userns;
use crate::error::SetupStep;
use crate::host_port;
use crate::link_end::{End, Subnet};
use crate::process;

/// The data that the first process of a side needs.
pub(super) struct SideInit {
    pub(super) plan: SidePlan,
    pub(super) control: OwnedFd,
    /// The end of the link at which the side is.
    pub(super) end: End,
    pub(super) tso: bool,
    pub(super) join: Join,
    /// True if the side is in a user namespace of its own.
    pub(super) own_users: bool,
    pub(super) subnet: Subnet,
    /// The content of `/etc/resolv.conf`; `None`: unchanged.
    pub(super) resolver: Option<String>,
    /// The namespace of a bridge between the sides, which lives as long as this side.
    pub(super) between: Option<OwnedFd>,
    /// Reports connections that are refused at the side's loopback interface, once the side is up.
    pub(super) refusals: Option<Refusals>,
}

/// The message and descriptor that the caller gets for an interface.
type Handed = (SideMessage, Option<OwnedFd>);

impl SideInit {
    /// Runs as process 1 of the side; the result is its exit status.
    ///
    /// It runs in a copy of a process that had one thread, so it may allocate and lock.
    pub(super) fn run(mut self) -> i32 {
        // The copies of the caller's descriptors are closed first: as long as this process holds
        // the caller's end of the control socket, its own end cannot report the caller's death.
        let mut keep = vec![self.control.as_raw_fd()];
        keep.extend(
            [&self.plan.side.stdin, &self.plan.side.stdout, &self.plan.side.stderr]
                .into_iter()
                .flatten()
                .map(AsRawFd::as_raw_fd),
        );
        process::close_all_but(&mut keep);
        match self.start() {
            Ok(signals) => self.serve(&signals),
            Err((step, errno)) => {
                // If even this message cannot be sent, the caller is gone.
                let _ = control::send(&self.control, SideMessage::Failed(step, errno as i32), None);
                1
            }
        }
    }

    fn start(&mut self) -> Result<SignalFd, (SetupStep, Errno)> {
        // If the caller ignores SIGCHLD, this process has inherited that, and the command's status
        // would be lost.
        process::restore_default(libc::SIGCHLD);
        let signals = prctl::set_pdeathsig(Signal::SIGKILL)
            .and_then(|()| SigSet::all().thread_block())
            .and_then(|()| {
                SignalFd::with_flags(&SigSet::all(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            })
            .map_err(|errno| (SetupStep::Signals, errno))?;
        let files = [("/etc/resolv.conf", &self.resolver), ("/etc/hosts", &self.plan.names)];
        mounts(&files.map(|(file, text)| Some((file, text.as_deref()?))));
        let mut network = match self.plan.namespace {
            Some(_) => SideNetwork::found()?,
            None => SideNetwork::prepare()?,
        };
        let mut handed = Vec::new();
        for n in 0..self.plan.attachments.len() {
            handed.push(self.attach(&mut network, n)?);
        }
        network::forward(self.plan.forwards);
        let host_ports = self.host_ports().map_err(|errno| (SetupStep::HostPort, errno))?;
        // Best effort: this serves only a hint, and a host may refuse such sockets.
        self.refusals = self.plan.tells_refusals.then(Refusals::watch).and_then(Result::ok);
        if self.own_users {
            userns::give_capabilities();
        }
        // This process sends these descriptors and keeps no copy, so that an interface loses its
        // carrier when the caller closes the interface's descriptor.
        for (message, descriptor) in handed {
            control::send(&self.control, message, descriptor.as_ref().map(AsFd::as_fd))
                .map_err(|errno| (SetupStep::HandOver, errno))?;
        }
        for socket in host_ports {
            control::send(&self.control, SideMessage::HostPort, Some(socket.as_fd()))
                .map_err(|errno| (SetupStep::HandOver, errno))?;
        }
        if !self.plan.host_ports.is_empty() {
            control::send(&self.control, SideMessage::Ready, None)
                .map_err(|errno| (SetupStep::HandOver, errno))?;
        }
        Ok(signals)
    }

    /// On the near side, starts to forward the ports of the host; on the far side, makes the
    /// sockets for the caller's forwarder.
    fn host_ports(&self) -> Result<Vec<OwnedFd>, Errno> {
        let ports = &self.plan.host_ports;
        let Some(at) = self.plan.attachments.first().filter(|_| !ports.is_empty()) else {
            return Ok(Vec::new());
        };
        let six = network::has_ipv6(&at.name).then(|| self.subnet.address6(End::Far));
        let four = self.subnet.address(End::Far);
        match self.end {
            End::Near => host_port::start_near(ports, (four, six)).map(|()| Vec::new()),
            End::Far => {
                let addresses: Vec<IpAddr> =
                    [four.into()].into_iter().chain(six.map(IpAddr::V6)).collect();
                host_port::far_sockets(ports, &addresses)
            }
        }
    }

    /// Makes one interface.
    fn attach(
        &mut self,
        network: &mut SideNetwork,
        n: usize,
    ) -> Result<Handed, (SetupStep, Errno)> {
        let at = &self.plan.attachments[n];
        let packet = |network: &mut SideNetwork, why: Option<(SetupStep, Errno)>| {
            let message = SideMessage::Packet(
                why.map(|(step, _)| step),
                why.map_or(0, |(_, errno)| errno as i32),
            );
            let rate = if let Join::Device(rate) = self.join { Some(rate) } else { None };
            Ok((message, Some(network.add_packet(at, self.tso, rate)?)))
        };
        match (self.join, self.end) {
            (Join::Auto | Join::Tap, _) => match network.add_tap(at, self.tso) {
                Ok(tap) => Ok((SideMessage::Ready, Some(tap.into()))),
                Err(why @ (SetupStep::OpenTun | SetupStep::CreateTap, _))
                    if self.join == Join::Auto =>
                {
                    packet(network, Some(why))
                }
                Err(failure) => Err(failure),
            },
            (Join::Packet | Join::Device(_), _) => packet(network, None),
            (Join::Veth, End::Near) => {
                let there = self.link()?.ok_or((SetupStep::CreateVeth, Errno::EPROTO))?;
                network.add_veth(at, there.as_fd())?;
                Ok((SideMessage::Ready, None))
            }
            (Join::Bridge, End::Near) => {
                let there = self.link()?.ok_or((SetupStep::CreateBridge, Errno::EPROTO))?;
                network.join_bridge(at, there)?;
                Ok((SideMessage::Ready, None))
            }
            (Join::Bridge, End::Far) => {
                let between = network.add_bridge(at)?;
                control::send(&self.control, SideMessage::Namespace, Some(between.as_fd()))
                    .map_err(|errno| (SetupStep::HandOver, errno))?;
                self.link()?;
                SideNetwork::await_carrier(at)?;
                self.between = Some(between);
                Ok((SideMessage::Ready, None))
            }
            (Join::Veth, End::Far) => {
                let namespace =
                    network::network_namespace().map_err(|errno| (SetupStep::CreateVeth, errno))?;
                control::send(&self.control, SideMessage::Namespace, Some(namespace.as_fd()))
                    .map_err(|errno| (SetupStep::HandOver, errno))?;
                self.link()?;
                network.complete_veth(at)?;
                Ok((SideMessage::Ready, None))
            }
        }
    }

    /// Waits for the message to make the link.
    fn link(&self) -> Result<Option<OwnedFd>, (SetupStep, Errno)> {
        match control::receive(&self.control, true) {
            Ok(SideReply::Message(SideMessage::Link, fd)) => Ok(fd),
            Ok(_) => Err((SetupStep::Answer, Errno::EPROTO)),
            Err(errno) => Err((SetupStep::Answer, errno)),
        }
    }

    /// Starts the command on request, reaps processes that end, and passes signals on, until the
    /// caller is gone.
    fn serve(&mut self, signals: &SignalFd) -> i32 {
        let mut command: Option<Pid> = None;
        loop {
            let mut waiting = vec![
                PollFd::new(self.control.as_fd(), PollFlags::POLLIN),
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            ];
            waiting.extend(self.refusals.iter().map(|r| PollFd::new(r.as_fd(), PollFlags::POLLIN)));
            if poll(&mut waiting, PollTimeout::NONE).is_err() {
                continue; // EINTR, which stopping and continuing the process can cause
            }
            loop {
                match control::receive(&self.control, false) {
                    Ok(SideReply::Message(SideMessage::Go, _)) => match self.spawn() {
                        Some(Ok(pid)) => command = Some(pid),
                        Some(Err(exit)) => self.report(exit),
                        None => {}
                    },
                    Ok(SideReply::Message(SideMessage::Link, _)) => {
                        self.tell(network::configure_way_out(self.subnet));
                    }
                    Ok(SideReply::Message(SideMessage::Answer, _)) => {
                        self.tell(network::answer_at_once());
                    }
                    Ok(SideReply::Message(SideMessage::Signal(signal), _)) => {
                        pass_on(signal, command);
                    }
                    Ok(SideReply::Message(SideMessage::Outlive, _)) => {
                        let cleared = prctl::set_pdeathsig(None);
                        self.tell(cleared.map_err(|errno| (SetupStep::Signals, errno)));
                    }
                    Ok(SideReply::Nothing) => break,
                    Ok(SideReply::Message(..) | SideReply::Closed) | Err(_) => return 0,
                }
            }
            while let Ok(Some(info)) = signals.read_signal() {
                let signal = info.ssi_signo as i32;
                // Passes on only signals that a process outside of the sandbox sent to this very
                // process. Signals of the terminal (Ctrl-C, a new window size, a hang-up) reach the
                // command without help, because it is in the same process group. A sender's process
                // number is visible here only if the sender is inside, and then the sender can
                // signal the command directly.
                if PASSED.contains(&signal) && info.ssi_code == libc::SI_USER && info.ssi_pid == 0 {
                    pass_on(signal, command);
                }
            }
            let mut ended = None;
            while let Some((pid, status)) = process::reap() {
                if command == Some(Pid::from_raw(pid)) {
                    // The number is forgotten first, because it may be reused for another process.
                    command = None;
                    ended = Some(match status.signal() {
                        Some(signal) => Exit::Signal(signal),
                        None => Exit::Code(status.code().unwrap_or(-1)),
                    });
                }
            }
            // The caller learns of refused connections before it learns that the command has ended.
            while let Some(port) = self.refusals.as_mut().and_then(Refusals::next) {
                let _ = control::send(&self.control, SideMessage::Refused(port), None);
            }
            if let Some(exit) = ended {
                self.report(exit);
            }
        }
    }

    /// Reports the outcome of a task to the caller, which waits for it.
    fn tell(&self, done: Result<(), (SetupStep, Errno)>) {
        let message = match done {
            Ok(()) => SideMessage::Ready,
            Err((step, errno)) => SideMessage::Failed(step, errno as i32),
        };
        // If the caller is gone, the next poll reports that.
        let _ = control::send(&self.control, message, None);
    }

    fn report(&self, exit: Exit) {
        // If the caller is gone, the next poll reports that.
        let _ = control::send(&self.control, SideMessage::Exited(exit), None);
    }

    /// Starts the command, if there is one that was not started yet. Returns an exit status if it
    /// cannot be started.
    fn spawn(&mut self) -> Option<Result<Pid, Exit>> {
        let side = &mut self.plan.side;
        let words = side.command.take()?;
        let streams = [side.stdin.take(), side.stdout.take(), side.stderr.take()];
        let Some((program, arguments)) = words.split_first() else {
            return Some(Err(Exit::Code(127)));
        };
        let error_stream = streams[2].as_ref().and_then(|stderr| stderr.try_clone().ok());
        let stream = |fd: Option<OwnedFd>| fd.map_or_else(Stdio::inherit, Stdio::from);
        let [stdin, stdout, stderr] = streams.map(stream);

        let mut command = Command::new(program);
        command.args(arguments).stdin(stdin).stdout(stdout).stderr(stderr);
        let six = self.plan.attachments.first().is_some_and(|at| network::has_ipv6(&at.name));
        for (name, value) in &self.plan.variables {
            match value {
                Variable::Text(text) => command.env(name, text),
                Variable::V4(address) => command.env(name, address.to_string()),
                Variable::V6(address) if six => command.env(name, address.to_string()),
                Variable::V6(_) | Variable::Unset => command.env_remove(name),
            };
        }
        let given =
            side.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let path = given.or_else(|| env::var_os("PATH")).unwrap_or_default();
        command.envs(side.env.drain(..));
        process::start_unblocked(&mut command);
        Some(match command.spawn() {
            Ok(child) => Ok(Pid::from_raw(child.id() as i32)),
            Err(error) => {
                // If a directory of PATH may not be searched, exec reports EACCES for a command
                // that does not exist.
                let found = match error.kind() {
                    io::ErrorKind::NotFound => false,
                    io::ErrorKind::PermissionDenied => is_somewhere(program, &path),
                    _ => true,
                };
                let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
                let why = if found { errno.desc() } else { "command not found" };
                let line = format!("falaj: {}: {why}\n", program.display());
                let _ = match error_stream {
                    Some(stderr) => File::from(stderr).write_all(line.as_bytes()),
                    None => io::stderr().write_all(line.as_bytes()),
                };
                Err(Exit::Code(if found { 126 } else { 127 }))
            }
        })
    }
}

/// Returns true if there is a file of the program's name where `exec` looks for it.
fn is_somewhere(program: &OsStr, path: &OsStr) -> bool {
    if program.as_bytes().contains(&b'/') {
        return true;
    }
    env::split_paths(path).any(|directory| directory.join(program).is_file())
}

/// Signals that are passed on to the command if a process outside of the sandbox sends them to
/// process 1.
const PASSED: [i32; 7] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGQUIT,
    libc::SIGWINCH,
];

fn pass_on(signal: i32, command: Option<Pid>) {
    if let (Some(pid), Ok(signal)) = (command, Signal::try_from(signal)) {
        // ESRCH is not a failure: the command ended and its status will be reported.
        let _ = kill(pid, signal);
    }
}

/// Shows the side its own processes in `/proc` and its own interfaces in `/sys`, and replaces the
/// content of `files`. Best effort: containers may refuse these mounts, and few programs need them.
fn mounts(files: &[Option<(&str, &str)>]) {
    let none = None::<&str>;
    // Without this call, later mounts would appear outside of the sandbox too.
    if mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).is_err() {
        return;
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // The control groups are mounted again in the new /sys, because programs read their limits
    // there.
    let cgroup = open(
        "/sys/fs/cgroup",
        OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    );
    let _ = mount(Some("proc"), "/proc", Some("proc"), flags, none);
    // The new files are in a tmpfs at /sys, which is hidden once the side's own /sys is mounted
    // over it.
    if files.iter().any(Option::is_some)
        && mount(Some("falaj"), "/sys", Some("tmpfs"), flags, none).is_ok()
    {
        for (n, (file, text)) in files.iter().flatten().enumerate() {
            let new = format!("/sys/{n}");
            let _ = std::fs::write(&new, text)
                .and_then(|()| Ok(mount(Some(new.as_str()), *file, none, MsFlags::MS_BIND, none)?));
        }
    }
    if mount(Some("sysfs"), "/sys", Some("sysfs"), flags, none).is_ok()
        && let Ok(cgroup) = cgroup
    {
        let old = format!("/proc/self/fd/{}", cgroup.as_raw_fd());
        let _ = mount(
            Some(old.as_str()),
            "/sys/fs/cgroup",
            none,
            MsFlags::MS_BIND | MsFlags::MS_REC,
            none,
        );
    }
}
