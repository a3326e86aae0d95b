//! Any number of sides, each in separate namespaces, and the caller's handles of them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::{fs, io};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sched::CloneFlags;

use super::control::{self, SideMessage, SideReply};
use super::event::SideEvent;
use super::init::SideInit;
use super::network;
use super::plan::{SidePlan, interface};
use super::spec::{Join, UserNamespace};
use super::terminal::Terminal;
use super::userns::{self, Identity};
use crate::backend::packet::PacketSocket;
use crate::backend::tap::Tap;
use crate::error::{Error, SetupStep};
use crate::host_port::FarForwarder;
use crate::link_end::{End, Subnet};
use crate::netns;
use crate::process::{self, Cloned, wait};

/// The settings that all sides have in common.
pub(crate) struct All {
    pub(crate) tso: bool,
    pub(crate) join: Join,
    pub(crate) user_namespace: UserNamespace,
    /// The addresses of the way out.
    pub(crate) subnet: Subnet,
    pub(crate) resolver: Option<String>,
    /// True if the sides are the ends of one link, the near one first.
    pub(crate) ends: bool,
}

/// The descriptor by which packets of a side's interface are read and written.
#[derive(Debug)]
pub enum Joint {
    /// The interface is a TAP.
    Tap(Tap),
    /// The interface is one of a veth pair, with a packet socket at the other interface of the
    /// pair.
    Packet(Arc<PacketSocket>),
}

/// Sides by their numbers, and the caller's handles of them. Dropping the value kills all processes
/// that still run there.
///
/// The rules for the caller's signals and thread are those of a [`Sandbox`](super::Sandbox).
#[derive(Debug)]
pub struct Hosts {
    held: Vec<SideHandles>,
    ends: bool,
    no_tap: Option<Error>,
    own_users: bool,
    terminal: Terminal,
}

/// The caller's handles of one side.
#[derive(Debug)]
struct SideHandles {
    init: Cloned,
    control: OwnedFd,
    /// The descriptor for each interface; `None` if it was taken, or there is none.
    joints: Vec<Option<Joint>>,
    /// True if the side has a command that was not started yet.
    waiting: bool,
    /// True if the command was started and its end was not reported yet.
    running: bool,
    closed: bool,
    /// True if another process continues with the side.
    left: bool,
}

/// Copies of the caller's handles of a side, with which another process continues.
#[derive(Debug)]
pub struct SideHandover {
    init: OwnedFd,
    control: OwnedFd,
}

impl SideHandover {
    /// Number of descriptors.
    pub const DESCRIPTORS: usize = 2;

    /// From now on the side does not end with this process, but when all descriptors of its control
    /// socket are closed. Returns the descriptors that the other process needs; does not wait for
    /// the side's answer.
    ///
    /// # Errors
    /// The side is gone, or it does not read its messages.
    pub fn descriptors(&self) -> io::Result<[OwnedFd; SideHandover::DESCRIPTORS]> {
        control::send(&self.control, SideMessage::Outlive, None)?;
        Ok([self.init.try_clone()?, self.control.try_clone()?])
    }
}

impl SideHandles {
    /// Kills process 1 of the side, and with it all other processes there.
    fn kill(&self) {
        // This fails only if the process is dead already.
        let _ = process::pidfd_signal(self.init.pidfd.as_fd(), nix::libc::SIGKILL);
    }
}

impl Drop for SideHandles {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        self.kill();
        // Process 1 can be waited for only when all other processes of the side are gone.
        wait(&self.init);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // All sides are killed at once. The kernel takes tens of milliseconds to remove one side's
        // interface, and the other sides should not run on alone in that time.
        for side in self.held.iter().filter(|side| !side.left) {
            side.kill();
        }
    }
}

impl Hosts {
    /// Makes the sides and the interfaces of each; the commands wait for [`Hosts::go`].
    pub(crate) fn start(plans: Vec<SidePlan>, all: &All) -> Result<Hosts, Error> {
        let failed = |step| move |errno| Error::new(step, None, errno);
        if fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
            return Err(Error { step: SetupStep::OneThread, end: None, errno: 0 });
        }
        let own_users = all.user_namespace == UserNamespace::Always || userns::needed();
        let wanted: Vec<(bool, usize)> = plans
            .iter()
            .map(|plan| (plan.side.command.is_some(), plan.attachments.len()))
            .collect();
        let (mut controls, mut inits) = (Vec::new(), Vec::new());
        for (n, plan) in plans.into_iter().enumerate() {
            let (ours, theirs) = control::pair().map_err(failed(SetupStep::Sockets))?;
            controls.push(ours);
            inits.push(SideInit {
                plan,
                control: theirs,
                end: if n == 0 { End::Near } else { End::Far },
                tso: all.tso,
                join: all.join,
                own_users,
                subnet: all.subnet,
                resolver: all.resolver.clone(),
                between: None,
                refusals: None,
            });
        }
        let results = clone_sides(inits, own_users);
        // From here on, dropping the handles ends the sides.
        let mut held = Vec::new();
        let mut failure = None;
        for ((cloned, control), &(waiting, interfaces)) in
            results.into_iter().zip(controls).zip(&wanted)
        {
            let joints = (0..interfaces).map(|_| None).collect();
            match cloned {
                Ok(init) => held.push(SideHandles {
                    init,
                    control,
                    joints,
                    waiting,
                    running: false,
                    closed: false,
                    left: false,
                }),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if failure.is_some() || held.len() != wanted.len() {
            return Err(failure.unwrap_or(Error::new(SetupStep::Namespaces, None, Errno::EPROTO)));
        }
        let mut hosts =
            Hosts { held, ends: all.ends, no_tap: None, own_users, terminal: Terminal::hold() };
        hosts.join(all.join)?;
        Ok(hosts)
    }

    /// Continues with sides that another process has made, by the descriptors of [`SideHandover`].
    /// Each side must have one interface.
    ///
    /// # Errors
    /// A side is gone, or does not answer.
    pub fn adopt(sides: Vec<[OwnedFd; SideHandover::DESCRIPTORS]>) -> Result<Hosts, Error> {
        let mut held = Vec::new();
        for [pidfd, control] in sides {
            let failed = |errno| Error::new(SetupStep::HandOver, None, errno);
            await_outliving(&control).map_err(failed)?;
            let pid = process::pid_of(pidfd.as_fd()).map_err(|_| failed(Errno::ESRCH))?;
            held.push(SideHandles {
                init: Cloned { pid, pidfd },
                control,
                joints: vec![None],
                waiting: false,
                running: false,
                closed: false,
                // The sides belong to the other process until this process has taken over
                // everything.
                left: true,
            });
        }
        let terminal = Terminal::hold();
        Ok(Hosts { held, ends: false, no_tap: None, own_users: false, terminal })
    }

    /// Copies of a side's handles, for another process.
    ///
    /// # Errors
    /// The process has too many descriptors.
    pub fn handover(&self, side: usize) -> io::Result<SideHandover> {
        let SideHandles { init, control, .. } = &self.held[side];
        Ok(SideHandover { init: init.pidfd.try_clone()?, control: control.try_clone()? })
    }

    /// Sets whether the sides belong to another process, and do not end with this object.
    pub fn set_left(&mut self, left: bool) {
        self.held.iter_mut().for_each(|side| side.left = left);
    }

    /// Gives all sides their ends of the links.
    fn join(&mut self, join: Join) -> Result<(), Error> {
        if matches!(join, Join::Veth | Join::Bridge) {
            let [near, far] = End::BOTH.map(End::index);
            let namespace = self.await_message(far, SideMessage::Namespace)?;
            self.send(near, SideMessage::Link, namespace)?;
            self.await_message(near, SideMessage::Ready)?;
            self.send(far, SideMessage::Link, None)?;
            self.await_message(far, SideMessage::Ready)?;
            return Ok(());
        }
        for side in 0..self.held.len() {
            for n in 0..self.held[side].joints.len() {
                let failed = |step, errno| Error::new(step, self.end(side), errno);
                let joint = match self.await_any(side)? {
                    (SideMessage::Ready, Some(tap)) => Joint::Tap(Tap::adopt(tap)),
                    (SideMessage::Packet(step, errno), Some(socket)) => {
                        let socket = PacketSocket::adopt(socket, network::OUTER, false);
                        let socket = socket.map_err(|(step, errno)| failed(step, errno))?;
                        let why = step.map(|step| Error { step, end: self.end(side), errno });
                        self.no_tap = why.or(self.no_tap);
                        Joint::Packet(Arc::new(socket))
                    }
                    _ => return Err(failed(SetupStep::HandOver, Errno::EPROTO)),
                };
                self.held[side].joints[n] = Some(joint);
            }
        }
        Ok(())
    }

    /// The end of the link at which a side is; `None` if the sides are not the ends of one link.
    fn end(&self, side: usize) -> Option<End> {
        End::BOTH.get(side).copied().filter(|_| self.ends)
    }

    pub(crate) fn send(
        &self,
        side: usize,
        message: SideMessage,
        namespace: Option<OwnedFd>,
    ) -> Result<(), Error> {
        let sent =
            control::send(&self.held[side].control, message, namespace.as_ref().map(AsFd::as_fd));
        sent.map_err(|errno| Error::new(SetupStep::HandOver, self.end(side), errno))
    }

    pub(crate) fn await_message(
        &self,
        side: usize,
        expected: SideMessage,
    ) -> Result<Option<OwnedFd>, Error> {
        match self.await_any(side)? {
            (message, fd) if message == expected => Ok(fd),
            _ => Err(Error { step: SetupStep::Answer, end: self.end(side), errno: 0 }),
        }
    }

    fn await_any(&self, side: usize) -> Result<(SideMessage, Option<OwnedFd>), Error> {
        let end = self.end(side);
        match control::receive(&self.held[side].control, true) {
            Ok(SideReply::Message(SideMessage::Failed(step, errno), _)) => {
                Err(Error { step, end, errno })
            }
            Ok(SideReply::Message(message, fd)) => Ok((message, fd)),
            Ok(_) => Err(Error { step: SetupStep::Answer, end, errno: 0 }),
            Err(errno) => Err(Error::new(SetupStep::Answer, end, errno)),
        }
    }

    /// Starts the forwarder of the host's ports, as soon as both sides listen for them.
    pub(super) fn forward_host_ports(&self) -> Result<FarForwarder, Error> {
        self.await_message(End::Near.index(), SideMessage::Ready)?;
        let mut sockets = Vec::new();
        loop {
            match self.await_any(End::Far.index())? {
                (SideMessage::HostPort, Some(socket)) => sockets.push(socket),
                (SideMessage::Ready, None) => break,
                _ => return Err(Error { step: SetupStep::Answer, end: Some(End::Far), errno: 0 }),
            }
        }
        FarForwarder::start(sockets).map_err(|error| Error {
            step: SetupStep::HostPort,
            end: None,
            errno: error.raw_os_error().unwrap_or_default(),
        })
    }

    /// Starts the command of a side; does nothing if it has none, or was started before.
    ///
    /// # Errors
    /// `EPIPE` if the side is gone.
    pub fn go(&mut self, side: usize) -> io::Result<()> {
        let side = &mut self.held[side];
        if side.waiting {
            control::send(&side.control, SideMessage::Go, None)?;
            side.waiting = false;
            side.running = true;
        }
        Ok(())
    }

    pub(crate) fn joint(&self, side: usize, n: usize) -> Option<&Joint> {
        self.held[side].joints.get(n)?.as_ref()
    }

    /// Takes the `n`-th interface of a side. Dropping a TAP removes the interface.
    pub(crate) fn take_joint(&mut self, side: usize, n: usize) -> Option<Joint> {
        self.held[side].joints.get_mut(n)?.take()
    }

    /// The reason for packet sockets where [`Join::Auto`] prefers TAPs.
    pub fn no_tap(&self) -> Option<&Error> {
        self.no_tap.as_ref()
    }

    /// Number of sides.
    pub fn count(&self) -> usize {
        self.held.len()
    }

    /// Readable when [`Hosts::read_event`] has an event of this side.
    pub fn control_fd(&self, side: usize) -> BorrowedFd<'_> {
        self.held[side].control.as_fd()
    }

    /// The next event of a side, if there is any; never waits.
    ///
    /// # Errors
    /// The errors of `recvmsg(2)`, of which none is expected.
    pub fn read_event(&mut self, side: usize) -> io::Result<Option<SideEvent>> {
        let side = &mut self.held[side];
        if side.closed {
            return Ok(None);
        }
        let event = match control::receive(&side.control, false)? {
            SideReply::Nothing => return Ok(None),
            SideReply::Message(SideMessage::Refused(port), _) => {
                return Ok(Some(SideEvent::Refused(port)));
            }
            SideReply::Message(SideMessage::Exited(exit), _) => SideEvent::Exited(exit),
            SideReply::Message(..) => return Err(Errno::EPROTO.into()),
            SideReply::Closed => {
                side.closed = true;
                SideEvent::Closed
            }
        };
        side.running = false;
        // While another side's command runs, that command may own the terminal.
        if !self.held.iter().any(|side| side.running) {
            self.terminal.take_back();
        }
        Ok(Some(event))
    }

    /// Returns true if the side is gone, and its descriptor has no further events.
    pub fn is_closed(&self, side: usize) -> bool {
        self.held[side].closed
    }

    /// Passes a signal to the command of a side; does nothing if none runs.
    ///
    /// # Errors
    /// `EINVAL` if there is no such signal, `EPIPE` if the side is gone.
    pub fn signal(&self, side: usize, signal: i32) -> io::Result<()> {
        nix::sys::signal::Signal::try_from(signal)?;
        Ok(control::send(&self.held[side].control, SideMessage::Signal(signal), None)?)
    }

    /// Number of packets that all sides' interfaces dropped on their way out because falaj did not
    /// read them in time. `None` if the kernel does not report it.
    pub fn unread(&self) -> Option<u64> {
        /// The index of the column of /proc/net/dev, counted from 0 after the interface's name.
        const DROPPED_OUTGOING: usize = 11;
        let of = |side: &SideHandles, n: usize| -> Option<u64> {
            if let Some(Joint::Packet(packet)) = &side.joints[n] {
                return Some(packet.unread());
            }
            let text = fs::read_to_string(format!("/proc/{}/net/dev", side.init.pid)).ok()?;
            let name = interface(n);
            let line = text
                .lines()
                .find_map(|line| line.trim_start().strip_prefix(&name)?.strip_prefix(':'))?;
            line.split_whitespace().nth(DROPPED_OUTGOING)?.parse().ok()
        };
        self.held.iter().flat_map(|side| (0..side.joints.len()).map(move |n| of(side, n))).sum()
    }

    /// Returns true if the sides are in a user namespace of their own.
    pub(crate) fn has_own_users(&self) -> bool {
        self.own_users
    }

    /// The number of a side's first process, for `nsenter --target` and the like.
    pub fn pid(&self, side: usize) -> i32 {
        self.held[side].init.pid
    }
}

/// Waits until a side confirms that it outlives the process that made it.
fn await_outliving(control: &OwnedFd) -> Result<(), Errno> {
    /// The timeout in ms; a side answers at once, unless it is stopped.
    const PATIENCE: u16 = 2_000;
    let mut said = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
    if poll(&mut said, PATIENCE)? == 0 {
        return Err(Errno::ETIMEDOUT);
    }
    let mut answered = Err(Errno::EPROTO);
    loop {
        // There is one answer for each request, also for those of earlier processes that gave up.
        match control::receive(control, false)? {
            SideReply::Message(SideMessage::Ready, _) => answered = Ok(()),
            SideReply::Message(SideMessage::Failed(_, errno), _) => {
                answered = Err(Errno::from_raw(errno));
            }
            SideReply::Nothing => return answered,
            SideReply::Message(..) => return Err(Errno::EPROTO),
            SideReply::Closed => return Err(Errno::EPIPE),
        }
    }
}

/// Clones the first processes of the sides, each in its namespaces. The results are in the order of
/// the sides.
fn clone_sides(inits: Vec<SideInit>, own_users: bool) -> Vec<Result<Cloned, Error>> {
    let count = inits.len();
    let (mut own, mut there) = (Vec::new(), Vec::new());
    for (n, init) in inits.into_iter().enumerate() {
        if init.plan.namespace.is_some() { there.push((n, init)) } else { own.push((n, init)) }
    }
    let mut results: Vec<Option<Result<Cloned, Error>>> = (0..count).map(|_| None).collect();
    let (numbers, inits): (Vec<usize>, Vec<SideInit>) = own.into_iter().unzip();
    let cloned = if own_users {
        let identity = Identity::of_caller();
        launch(inits, CloneFlags::CLONE_NEWUSER, move || {
            identity.map().map_err(|errno| (SetupStep::UserMap, errno))
        })
    } else {
        clone_inits(inits, CloneFlags::empty())
    };
    numbers.into_iter().zip(cloned).for_each(|(n, cloned)| results[n] = Some(cloned));
    for (n, init) in there {
        let namespace = init.plan.namespace.clone().unwrap_or_default();
        let enter =
            move || netns::enter(&namespace).map_err(|errno| (SetupStep::EnterNamespace, errno));
        results[n] = launch(vec![init], CloneFlags::empty(), enter).pop();
    }
    results.into_iter().flatten().collect()
}

/// Clones the first processes of sides into namespaces of their own.
fn clone_inits(inits: Vec<SideInit>, flags: CloneFlags) -> Vec<Result<Cloned, Error>> {
    let flags = flags | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
    inits
        .into_iter()
        .map(|init| {
            let network = if init.plan.namespace.is_some() {
                CloneFlags::empty()
            } else {
                CloneFlags::CLONE_NEWNET
            };
            process::clone_process(flags | network, || init.run())
                .map_err(|errno| Error::new(SetupStep::Namespaces, None, errno))
        })
        .collect()
}

/// Clones the first processes of sides from within another user namespace or network namespace, by
/// a process that has entered it.
fn launch(
    inits: Vec<SideInit>,
    flags: CloneFlags,
    go: impl FnOnce() -> Result<(), (SetupStep, Errno)>,
) -> Vec<Result<Cloned, Error>> {
    let all = |step, errno| vec![Err(Error::new(step, None, errno))];
    let count = inits.len();
    if count == 0 {
        return Vec::new();
    }
    let (ours, theirs) = match control::pair() {
        Ok(pair) => pair,
        Err(errno) => return all(SetupStep::Sockets, errno),
    };
    let step = if flags.is_empty() { SetupStep::EnterNamespace } else { SetupStep::UserNamespace };
    let launcher = process::clone_process(flags, move || {
        let results = match go() {
            Ok(()) => clone_inits(inits, CloneFlags::CLONE_PARENT),
            Err((step, errno)) => all(step, errno),
        };
        for cloned in results {
            let _ = match &cloned {
                Ok(init) => {
                    control::send(&theirs, SideMessage::Cloned(init.pid), Some(init.pidfd.as_fd()))
                }
                Err(error) => {
                    control::send(&theirs, SideMessage::Failed(error.step, error.errno), None)
                }
            };
        }
        0
    });
    let launcher = match launcher {
        Ok(launcher) => launcher,
        Err(errno) => return all(step, errno),
    };
    let mut results = Vec::with_capacity(count);
    while results.len() < count {
        results.push(match control::receive(&ours, true) {
            Ok(SideReply::Message(SideMessage::Cloned(pid), Some(pidfd))) => {
                Ok(Cloned { pid, pidfd })
            }
            Ok(SideReply::Message(SideMessage::Failed(step, errno), _)) => {
                Err(Error { step, end: None, errno })
            }
            Err(errno) => Err(Error::new(SetupStep::Namespaces, None, errno)),
            Ok(_) => break,
        });
    }
    wait(&launcher);
    results
}
