//! A sandbox: two network namespaces, the sides, joined by a link whose packets pass through the caller.
//!
//! ```text
//!   side a (near)                     caller                      side b (far)
//!   command - falaj0 ==TAP==> [ forwards, emulates a link ] <==TAP== falaj0 - command
//!             10.77.0.1                                             10.77.0.2
//!             fd77::1                                               fd77::2
//! ```
//!
//! Each side is a process namespace as well. Its first process makes the side, starts the command and reports how it
//! ended; whatever the command leaves behind dies with the sandbox, and the sandbox dies with the caller, even by
//! SIGKILL. Neither root nor any privilege is needed where user namespaces are allowed. Where `/dev/net/tun` may not be
//! opened, veth pairs and packet sockets take the place of the TAPs ([`Join::Auto`]).
//!
//! ```no_run
//! use falaj_live::sandbox::{End, Event, Sandbox, Side, Spec};
//!
//! let ping = Side::command(["ping", "-c", "3", "10.77.0.2"]);
//! let mut sandbox = Sandbox::start(Spec { near: ping, ..Spec::default() })?;
//! sandbox.go(End::Near)?;
//! // … copy units between sandbox.tap(End::Near) and sandbox.tap(End::Far) until
//! while let Some(event) = sandbox.read_event(End::Near)? {
//!     if let Event::Exited(exit) = event {
//!         std::process::exit(exit.shell_code());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod control;
mod error;
mod init;
pub(crate) mod netlink;
mod network;
pub(crate) mod sys;
mod terminal;
mod userns;

use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::{fmt, fs, io};

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::wait::{Id, WaitPidFlag, waitid};

pub use self::error::{Error, Step};

use self::control::{Message, Received};
use self::init::Init;
use self::sys::Cloned;
use self::terminal::Terminal;
use self::userns::Identity;
use crate::packet::PacketSocket;
use crate::tap::Tap;

/// The name of the link's interface, the same on both sides.
pub const INTERFACE: &str = "falaj0";

/// One end of the link, and the side behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// Side a, where `COMMAND` runs.
    Near,
    /// Side b, where the peer's command runs.
    Far,
}

impl End {
    /// Both ends, near first.
    pub const BOTH: [End; 2] = [End::Near, End::Far];

    /// The opposite end.
    pub fn other(self) -> End {
        match self {
            End::Near => End::Far,
            End::Far => End::Near,
        }
    }

    /// 0 for near, 1 for far: an index into what exists once per end.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The IPv4 address of the side in the first subnet; its prefix is 24 bits long.
    pub fn address(self) -> Ipv4Addr {
        Subnet::default().address(self)
    }

    /// The IPv6 address of the side in the first subnet; its prefix is 64 bits long. A link with an MTU below 1280 B has
    /// none.
    pub fn address6(self) -> Ipv6Addr {
        Subnet::default().address6(self)
    }

    /// The Ethernet address of the side's interface.
    pub fn mac(self) -> [u8; 6] {
        [0x02, 0xfa, 0x1a, 0, 0, self.number()]
    }

    fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// `near` or `far`.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Near => "near",
            End::Far => "far",
        })
    }
}

/// Which addresses a link has: 10.77.N.0/24 and fd77:0:0:N::/64. One link inside of another needs others than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subnet(u8);

impl Subnet {
    /// Above this they serve other ends: see [`way_out`](crate::way_out).
    const LAST: u8 = 253;

    /// One that no interface of this network namespace is in, behind those that are in use: links nest in order.
    pub fn free() -> Subnet {
        let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
        let used = interfaces.filter_map(|interface| match interface.address?.as_sockaddr_in()?.ip().octets() {
            [10, 77, n, _] if n <= Subnet::LAST => Some(n),
            _ => None,
        });
        let used: Vec<u8> = used.collect();
        let behind = used.iter().max().map_or(0, |last| last + 1);
        Subnet((behind..=Subnet::LAST).chain(0..behind).find(|n| !used.contains(n)).unwrap_or(0))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The IPv4 address of a side.
    pub fn address(self, end: End) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.0, end.number())
    }

    /// The IPv6 address of a side.
    pub fn address6(self, end: End) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, self.0.into(), 0, 0, 0, end.number().into())
    }

    /// Two addresses within it, for the way out: the far side's, and that of whoever it goes through.
    pub(crate) fn way_out(self) -> [Ipv4Addr; 2] {
        [130, 129].map(|n| Ipv4Addr::new(10, 77, self.0, n))
    }
}

/// How the two sides are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// As `Tap`, or as `Packet` where there is no `/dev/net/tun` or it may not be opened.
    #[default]
    Auto,
    /// A TAP interface on each side; the caller reads and writes every packet.
    Tap,
    /// An interface of a veth pair on each side, the pair's other one in a namespace where only the caller has a packet
    /// socket; it reads and writes every packet.
    Packet,
    /// A pair of veth interfaces, with nothing in between: the yardstick for benchmarks.
    Veth,
}

/// When to make a user namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserNamespace {
    /// If the caller is not root, or root without `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`.
    #[default]
    Auto,
    /// Always, as root too.
    Always,
}

/// What runs on one side.
#[derive(Debug, Default)]
pub struct Side {
    /// The command and its arguments, looked up in `PATH`; `None` leaves the side without one.
    pub command: Option<Vec<OsString>>,
    /// The command's standard input; `None`: the caller's.
    pub stdin: Option<OwnedFd>,
    /// The command's standard output; `None`: the caller's.
    pub stdout: Option<OwnedFd>,
    /// The command's standard error; `None`: the caller's.
    pub stderr: Option<OwnedFd>,
    /// Variables added to the caller's environment and to `FALAJ_SIDE` (`a` or `b`), `FALAJ_ADDR`, `FALAJ_PEER`,
    /// `FALAJ_ADDR6` and `FALAJ_PEER6` (the IPv6 ones only if the link carries IPv6), and `MAHIMAHI_BASE`, which is
    /// `FALAJ_PEER` for scripts written for mahimahi; these win.
    pub env: Vec<(OsString, OsString)>,
}

impl Side {
    /// A side that runs this command with the caller's standard streams.
    pub fn command<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Side {
        Side { command: Some(words.into_iter().map(Into::into).collect()), ..Side::default() }
    }
}

/// What a sandbox is to be.
#[derive(Debug)]
pub struct Spec {
    /// The link's largest IP packet in bytes, 68 to 65521. Below 1280 the link carries no IPv6.
    pub mtu: u16,
    /// Whether a TAP may hand over TCP units larger than the MTU, to be passed on as they are: far more throughput,
    /// but one unit is then many packets.
    pub tso: bool,
    /// How the sides are joined.
    pub join: Join,
    /// When to make a user namespace.
    pub user_namespace: UserNamespace,
    /// The link's addresses.
    pub subnet: Subnet,
    /// Whether the far side is a router: it passes on what is not for itself, once there is a
    /// [way out](crate::way_out).
    pub routes: bool,
    /// What `/etc/resolv.conf` is to hold on both sides; `None`: what the caller's holds.
    pub resolver: Option<String>,
    /// Side a.
    pub near: Side,
    /// Side b.
    pub far: Side,
}

/// Interfaces with an MTU of 1500 bytes and large TCP units; a user namespace if need be; no commands.
impl Default for Spec {
    fn default() -> Spec {
        Spec {
            mtu: 1500,
            tso: true,
            join: Join::default(),
            user_namespace: UserNamespace::default(),
            subnet: Subnet::default(),
            routes: false,
            resolver: None,
            near: Side::default(),
            far: Side::default(),
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned this status. As in a shell, 127 also means that it was not found and 126 that it could not be
    /// executed; its standard error then says why.
    Code(i32),
    /// A signal of this number killed it.
    Signal(i32),
}

impl Exit {
    /// The status by which a shell would report it: the code, or 128 + the signal's number.
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

/// News from a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its command ended. What it left running goes on until the sandbox is dropped.
    Exited(Exit),
    /// The side itself is gone, killed from outside, with all its processes. Nothing comes after this, and
    /// [`Sandbox::control_fd`] stays readable for ever: take it out of the poll set.
    Closed,
}

/// Two sides and what holds them; dropping it kills whatever still runs there.
///
/// While it lives, the caller ignores SIGINT, SIGQUIT and SIGTTOU, unless it had actions of its own for them:
/// Ctrl-C is meant for the command. (A signalfd receives an ignored signal all the same if it is blocked.)
///
/// The thread that called [`Sandbox::start`] must live as long as the sandbox: the kernel takes that thread's death for
/// the caller's and kills the sides.
#[derive(Debug)]
pub struct Sandbox {
    sides: [Held; 2],
    no_tap: Option<Error>,
    subnet: Subnet,
    own_users: bool,
    terminal: Terminal,
}

/// The caller's hold on one side.
#[derive(Debug)]
struct Held {
    init: Cloned,
    control: OwnedFd,
    tap: Option<Tap>,
    /// In place of the TAP.
    packet: Option<Arc<PacketSocket>>,
    /// There is a command that was not started yet.
    waiting: bool,
    /// The command was started and has not been seen to end.
    running: bool,
    closed: bool,
}

impl Held {
    /// Kills process 1 of the side, and with it all others there.
    fn kill(&self) {
        // Fails only if it is dead already.
        let _ = sys::pidfd_signal(self.init.pidfd.as_fd(), nix::libc::SIGKILL);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.kill();
        // Process 1 can be waited for only when all others of the side are gone.
        wait(&self.init);
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Both at once: the kernel takes tens of milliseconds to remove one side's interface, and the other side
        // should not go on meanwhile, alone.
        for side in &self.sides {
            side.kill();
        }
    }
}

impl Sandbox {
    /// Makes both sides and the link between them; the commands wait for [`Sandbox::go`].
    ///
    /// The process must have one thread only, as it is copied as it is; threads may be started afterwards.
    ///
    /// # Errors
    /// Says which step failed, why, and what to try. Nothing is left behind then.
    pub fn start(spec: Spec) -> Result<Sandbox, Error> {
        let both = |step| move |errno| Error::new(step, None, errno);
        if fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
            return Err(Error { step: Step::OneThread, end: None, errno: 0 });
        }
        let own_users = spec.user_namespace == UserNamespace::Always || userns::needed();
        let waiting = [&spec.near, &spec.far].map(|side| side.command.is_some()).into_iter();
        let mut controls = Vec::with_capacity(2);
        let mut inits = Vec::with_capacity(2);
        for (end, side) in [(End::Near, spec.near), (End::Far, spec.far)] {
            let (ours, theirs) = control::pair().map_err(both(Step::Sockets))?;
            controls.push(ours);
            inits.push(Init {
                end,
                side,
                control: theirs,
                mtu: spec.mtu,
                tso: spec.tso,
                join: spec.join,
                own_users,
                subnet: spec.subnet,
                routes: spec.routes,
                resolver: spec.resolver.clone(),
            });
        }
        let born =
            if own_users { launch(inits, Identity::of_caller()) } else { clone_inits(inits, CloneFlags::empty()) };
        // From here on the sides are held, and dropping them ends them.
        let mut sides = Vec::with_capacity(2);
        let mut failure = None;
        for ((cloned, control), waiting) in born.into_iter().zip(controls).zip(waiting) {
            match cloned {
                Ok(init) => {
                    sides.push(Held { init, control, tap: None, packet: None, waiting, running: false, closed: false })
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let sides = match (failure, <[Held; 2]>::try_from(sides)) {
            (None, Ok(sides)) => sides,
            (failure, _) => return Err(failure.unwrap_or(Error::new(Step::Namespaces, None, Errno::EPROTO))),
        };
        let mut sandbox = Sandbox { sides, no_tap: None, subnet: spec.subnet, own_users, terminal: Terminal::hold() };
        sandbox.join(spec.join)?;
        Ok(sandbox)
    }

    /// Sees to it that both sides get their end of the link.
    fn join(&mut self, join: Join) -> Result<(), Error> {
        if join == Join::Veth {
            let namespace = self.await_message(End::Far, Message::Namespace)?;
            self.send_link(End::Near, namespace)?;
            self.await_message(End::Near, Message::Ready)?;
            self.send_link(End::Far, None)?;
            self.await_message(End::Far, Message::Ready)?;
        } else {
            for end in End::BOTH {
                let failed = |step, errno| Error::new(step, Some(end), errno);
                match self.await_any(end)? {
                    (Message::Ready, Some(tap)) => self.sides[end.index()].tap = Some(Tap::adopt(tap)),
                    (Message::Packet(step, errno), Some(socket)) => {
                        let socket = PacketSocket::adopt(socket, network::OUTER, false);
                        let socket = socket.map_err(|(step, errno)| failed(step, errno))?;
                        self.sides[end.index()].packet = Some(Arc::new(socket));
                        self.no_tap = step.map(|step| Error { step, end: Some(end), errno }).or(self.no_tap);
                    }
                    _ => return Err(failed(Step::HandOver, Errno::EPROTO)),
                }
            }
        }
        Ok(())
    }

    fn send_link(&self, end: End, namespace: Option<OwnedFd>) -> Result<(), Error> {
        let sent = control::send(&self.sides[end.index()].control, Message::Link, namespace.as_ref().map(AsFd::as_fd));
        sent.map_err(|errno| Error::new(Step::HandOver, Some(end), errno))
    }

    fn await_message(&self, end: End, expected: Message) -> Result<Option<OwnedFd>, Error> {
        match self.await_any(end)? {
            (message, fd) if message == expected => Ok(fd),
            _ => Err(Error { step: Step::Answer, end: Some(end), errno: 0 }),
        }
    }

    fn await_any(&self, end: End) -> Result<(Message, Option<OwnedFd>), Error> {
        match control::receive(&self.sides[end.index()].control, true) {
            Ok(Received::Message(Message::Failed(step, errno), _)) => Err(Error { step, end: Some(end), errno }),
            Ok(Received::Message(message, fd)) => Ok((message, fd)),
            Ok(_) => Err(Error { step: Step::Answer, end: Some(end), errno: 0 }),
            Err(errno) => Err(Error::new(Step::Answer, Some(end), errno)),
        }
    }

    /// Starts the command of a side; does nothing if it has none, or was started before.
    ///
    /// # Errors
    /// `EPIPE` if the side is gone.
    pub fn go(&mut self, end: End) -> io::Result<()> {
        let side = &mut self.sides[end.index()];
        if side.waiting {
            control::send(&side.control, Message::Go, None)?;
            side.waiting = false;
            side.running = true;
        }
        Ok(())
    }

    /// The TAP interface of a side; `None` if the sides are joined otherwise, or it was taken.
    pub fn tap(&self, end: End) -> Option<&Tap> {
        self.sides[end.index()].tap.as_ref()
    }

    /// Takes the TAP interface of a side, for example to another thread. Dropping it removes the interface.
    pub fn take_tap(&mut self, end: End) -> Option<Tap> {
        self.sides[end.index()].tap.take()
    }

    /// The packet socket of a side that has no TAP.
    pub fn packet(&self, end: End) -> Option<&Arc<PacketSocket>> {
        self.sides[end.index()].packet.as_ref()
    }

    /// Why there are packet sockets where [`Join::Auto`] would rather have had TAPs.
    pub fn no_tap(&self) -> Option<&Error> {
        self.no_tap.as_ref()
    }

    /// Readable when [`Sandbox::read_event`] has news of this side.
    pub fn control_fd(&self, end: End) -> BorrowedFd<'_> {
        self.sides[end.index()].control.as_fd()
    }

    /// The next news of a side, if there is any; never waits.
    ///
    /// # Errors
    /// What `recvmsg(2)` says, which is nothing in ordinary life.
    pub fn read_event(&mut self, end: End) -> io::Result<Option<Event>> {
        let side = &mut self.sides[end.index()];
        if side.closed {
            return Ok(None);
        }
        let event = match control::receive(&side.control, false)? {
            Received::Nothing => return Ok(None),
            Received::Message(Message::Exited(exit), _) => Event::Exited(exit),
            Received::Message(..) => return Err(Errno::EPROTO.into()),
            Received::Closed => {
                side.closed = true;
                Event::Closed
            }
        };
        side.running = false;
        // While the other side's command runs, the terminal may be that one's.
        if !self.sides.iter().any(|side| side.running) {
            self.terminal.take_back();
        }
        Ok(Some(event))
    }

    /// Passes a signal to the command of a side; does nothing if none runs.
    ///
    /// # Errors
    /// `EINVAL` if there is no such signal, `EPIPE` if the side is gone.
    pub fn signal(&self, end: End, signal: i32) -> io::Result<()> {
        nix::sys::signal::Signal::try_from(signal)?;
        Ok(control::send(&self.sides[end.index()].control, Message::Signal(signal), None)?)
    }

    /// Packets that both sides' interfaces lost on their way out because nobody read them in time: the kernel keeps so
    /// many and drops the rest, which only it has seen. `None` if it does not say.
    pub fn unread(&self) -> Option<u64> {
        /// The column of /proc/net/dev, counted after the interface's name.
        const DROPPED_OUTGOING: usize = 11;
        let of = |end| -> Option<u64> {
            if let Some(packet) = self.packet(end) {
                return Some(packet.unread());
            }
            let text = fs::read_to_string(format!("/proc/{}/net/dev", self.pid(end))).ok()?;
            let line = text.lines().find_map(|line| line.trim_start().strip_prefix(INTERFACE)?.strip_prefix(':'))?;
            line.split_whitespace().nth(DROPPED_OUTGOING)?.parse().ok()
        };
        Some(of(End::Near)? + of(End::Far)?)
    }

    /// Packets that reached the far side and were to go beyond it, where there is no way. `None` if the kernel does not
    /// say.
    pub fn stranded(&self) -> Option<u64> {
        let count = |file: &str, of: &str, name: &str| -> Option<u64> {
            let text = fs::read_to_string(format!("/proc/{}/net/{file}", self.pid(End::Far))).ok()?;
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(of));
            let at = lines.next()?.split_whitespace().position(|known| known == name)?;
            lines.next()?.split_whitespace().nth(at)?.parse().ok()
        };
        // The first is what one that is no router counts, the second what a router without a route does.
        Some(count("snmp", "Ip:", "InAddrErrors")? + count("netstat", "IpExt:", "InNoRoutes")?)
    }

    /// Has the far side the end of the way out configured, once its interface is there.
    pub(crate) fn configure_way_out(&self) -> Result<(), Error> {
        self.send_link(End::Far, None)?;
        self.await_message(End::Far, Message::Ready).map(drop)
    }

    /// Has the far side answer for the near one at the way out without delay.
    pub(crate) fn answer_at_once(&self) -> Result<(), Error> {
        let sent = control::send(&self.sides[End::Far.index()].control, Message::Answer, None);
        sent.map_err(|errno| Error::new(Step::HandOver, Some(End::Far), errno))?;
        self.await_message(End::Far, Message::Ready).map(drop)
    }

    /// The link's addresses.
    pub fn subnet(&self) -> Subnet {
        self.subnet
    }

    /// Whether the sides are in a user namespace of their own.
    pub(crate) fn has_own_users(&self) -> bool {
        self.own_users
    }

    /// The number of a side's first process, for `nsenter --target` and the like.
    pub fn pid(&self, end: End) -> i32 {
        self.sides[end.index()].init.pid
    }
}

/// Whether a sandbox can be had here, found out by making one.
///
/// # Errors
/// As [`Sandbox::start`].
pub fn available() -> Result<(), Error> {
    Sandbox::start(Spec::default()).map(drop)
}

/// Clones the first processes of the sides into namespaces of their own.
fn clone_inits(inits: Vec<Init>, flags: CloneFlags) -> Vec<Result<Cloned, Error>> {
    let flags = flags | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
    inits
        .into_iter()
        .map(|init| {
            let end = init.end;
            sys::clone_process(flags, || init.run()).map_err(|errno| Error::new(Step::Namespaces, Some(end), errno))
        })
        .collect()
}

/// Clones the first processes of the sides from within a new user namespace.
fn launch(inits: Vec<Init>, identity: Identity) -> Vec<Result<Cloned, Error>> {
    let both = |step, errno| vec![Err(Error::new(step, None, errno))];
    let (ours, theirs) = match control::pair() {
        Ok(pair) => pair,
        Err(errno) => return both(Step::Sockets, errno),
    };
    let launcher = sys::clone_process(CloneFlags::CLONE_NEWUSER, move || {
        let born = match identity.map() {
            Ok(()) => clone_inits(inits, CloneFlags::CLONE_PARENT),
            Err(errno) => both(Step::UserMap, errno),
        };
        for cloned in born {
            let _ = match &cloned {
                Ok(init) => control::send(&theirs, Message::Born(init.pid), Some(init.pidfd.as_fd())),
                Err(error) => control::send(&theirs, Message::Failed(error.step, error.errno), None),
            };
        }
        0
    });
    let launcher = match launcher {
        Ok(launcher) => launcher,
        Err(errno) => return both(Step::UserNamespace, errno),
    };
    let mut born = Vec::with_capacity(2);
    while born.len() < 2 {
        born.push(match control::receive(&ours, true) {
            Ok(Received::Message(Message::Born(pid), Some(pidfd))) => Ok(Cloned { pid, pidfd }),
            Ok(Received::Message(Message::Failed(step, errno), _)) => Err(Error { step, end: None, errno }),
            Err(errno) => Err(Error::new(Step::Namespaces, None, errno)),
            Ok(_) => break,
        });
    }
    wait(&launcher);
    born
}

/// Does something in a copy of the process, which ends with it; waits for that.
///
/// The process must have one thread only, as it is copied as it is.
pub(crate) fn run_apart(what: impl FnOnce()) -> Result<(), Error> {
    if fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
        return Err(Error { step: Step::OneThread, end: None, errno: 0 });
    }
    let copy = sys::clone_process(CloneFlags::empty(), || {
        what();
        0
    });
    let copy = copy.map_err(|errno| Error::new(Step::EnterNamespace, None, errno))?;
    wait(&copy);
    Ok(())
}

/// Waits until a child is dead and reaps it; returns at once if it was reaped already.
fn wait(child: &Cloned) {
    while waitid(Id::PIDFd(child.pidfd.as_fd()), WaitPidFlag::WEXITED | WaitPidFlag::__WALL) == Err(Errno::EINTR) {}
}
