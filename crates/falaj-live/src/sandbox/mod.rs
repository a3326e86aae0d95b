//! A sandbox: two network namespaces, the sides, joined by a link whose packets pass through the
//! caller.
//!
//! ```text
//!   side a (near)                     caller                      side b (far)
//!   command - falaj0 ==TAP==> [ forwards, emulates a link ] <==TAP== falaj0 - command
//!             10.77.0.1                                             10.77.0.2
//!             fd77::1                                               fd77::2
//! ```
//!
//! Each side is a process namespace as well. Its first process makes the side, starts the command
//! and reports how it ended; whatever the command leaves behind dies with the sandbox, and the
//! sandbox dies with the caller, even by SIGKILL. Neither root nor any privilege is needed where
//! user namespaces are allowed. Where `/dev/net/tun` may not be opened, veth pairs and packet
//! sockets take the place of the TAPs ([`Join::Auto`]).
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
pub(crate) mod hosts;
mod init;
pub(crate) mod netlink;
mod network;
pub(crate) mod plan;
pub(crate) mod sys;
mod terminal;
mod userns;

use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::{fmt, fs, io};

use falaj_sched::units::rate::Rate;
use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::wait::{Id, WaitPidFlag, waitid};

pub use self::error::{Error, Step};

pub use self::hosts::{Hosts, Joint};
pub(crate) use self::network::tap_in_place;

use self::control::Message;
use self::hosts::All;
use self::plan::{Attachment, Forwards, Plan, Variable};
use self::sys::Cloned;
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

    /// The IPv6 address of the side in the first subnet; its prefix is 64 bits long. A link with an
    /// MTU below 1280 B has none.
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

/// Which addresses a link has: 10.77.N.0/24 and fd77:0:0:N::/64. One link inside of another needs
/// others than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subnet(u8);

impl Subnet {
    /// Above this they serve other ends: see [`way_out`](crate::way_out).
    const LAST: u8 = 253;
    /// The length of its IPv4 prefix.
    pub(crate) const PREFIX: u8 = 24;
    /// The length of its IPv6 prefix.
    pub(crate) const PREFIX6: u8 = 64;

    /// One that no interface of this network namespace is in, behind those that are in use: links
    /// nest in order.
    pub fn free() -> Subnet {
        Subnet::free_ones().next().unwrap_or_default()
    }

    /// All of them, in that order.
    pub(crate) fn free_ones() -> impl Iterator<Item = Subnet> {
        let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
        let used = interfaces.filter_map(|interface| {
            match interface.address?.as_sockaddr_in()?.ip().octets() {
                [10, 77, n, _] if n <= Subnet::LAST => Some(n),
                _ => None,
            }
        });
        let used: Vec<u8> = used.collect();
        let behind = used.iter().max().map_or(0, |last| last + 1);
        (behind..=Subnet::LAST).chain(0..behind).filter(move |n| !used.contains(n)).map(Subnet)
    }

    pub(crate) fn numbered(number: u8) -> Subnet {
        Subnet(number)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The IPv4 subnet, without its prefix's length.
    pub(crate) fn network(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.0, 0)
    }

    /// The IPv6 subnet, without its prefix's length.
    pub(crate) fn network6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, self.0.into(), 0, 0, 0, 0)
    }

    /// The IPv4 address of a side.
    pub fn address(self, end: End) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.0, end.number())
    }

    /// The IPv6 address of a side.
    pub fn address6(self, end: End) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, self.0.into(), 0, 0, 0, end.number().into())
    }

    /// Two addresses within it, for the way out: the far side's, and that of whoever it goes
    /// through.
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
    /// An interface of a veth pair on each side, the pair's other one in a namespace where only the
    /// caller has a packet socket; it reads and writes every packet.
    Packet,
    /// The same, and the pair's other interface sends no faster than at this rate, as a card does:
    /// by the kernel's token bucket (`tbf`), which counts whole frames without their checksums.
    Device(Rate),
    /// A pair of veth interfaces, with nothing in between: the yardstick for benchmarks.
    Veth,
    /// Two pairs of veth interfaces with a kernel bridge between them, another yardstick.
    Bridge,
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
    /// Variables added to the caller's environment and to `FALAJ_SIDE` (`a` or `b`), `FALAJ_ADDR`,
    /// `FALAJ_PEER`, `FALAJ_ADDR6` and `FALAJ_PEER6` (the IPv6 ones only if the link carries
    /// IPv6), and `MAHIMAHI_BASE`, which is `FALAJ_PEER` for scripts written for mahimahi;
    /// these win.
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
    /// Whether a TAP may hand over TCP units larger than the MTU, to be passed on as they are: far
    /// more throughput, but one unit is then many packets.
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
    /// Side b's network namespace: a name under `/run/netns`, or the number of a process there;
    /// `None`: one of its own. Of one that is there nothing is changed but that it has the
    /// link's interface as long as the sandbox lives.
    pub namespace: Option<String>,
}

/// Interfaces with an MTU of 1500 bytes and large TCP units; a user namespace if need be; no
/// commands.
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
            namespace: None,
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned this status. As in a shell, 127 also means that it was not found and 126 that it
    /// could not be executed; its standard error then says why.
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
    /// The side itself is gone, killed from outside, with all its processes. Nothing comes after
    /// this, and [`Sandbox::control_fd`] stays readable for ever: take it out of the poll set.
    Closed,
}

/// Two sides and what holds them; dropping it kills whatever still runs there.
///
/// While it lives, the caller ignores SIGINT, SIGQUIT and SIGTTOU, unless it had actions of its own
/// for them: Ctrl-C is meant for the command. (A signalfd receives an ignored signal all the same
/// if it is blocked.)
///
/// The thread that called [`Sandbox::start`] must live as long as the sandbox: the kernel takes
/// that thread's death for the caller's and kills the sides.
#[derive(Debug)]
pub struct Sandbox {
    sides: Hosts,
    subnet: Subnet,
}

impl Sandbox {
    /// Makes both sides and the link between them; the commands wait for [`Sandbox::go`].
    ///
    /// The process must have one thread only, as it is copied as it is; threads may be started
    /// afterwards.
    ///
    /// # Errors
    /// Says which step failed, why, and what to try. Nothing is left behind then.
    pub fn start(spec: Spec) -> Result<Sandbox, Error> {
        let Spec { mtu, tso, join, user_namespace, subnet, routes, resolver, near, far, namespace } =
            spec;
        let mut plans = Vec::new();
        for (end, side) in [(End::Near, near), (End::Far, far)] {
            let namespace = namespace.clone().filter(|_| end == End::Far);
            let mut at = Attachment::new(0, 0, end, subnet, mtu, true);
            let other = end.other();
            // A router's default route is the way out, and a namespace that is there has its own.
            if namespace.is_none() && !(routes && end == End::Far) {
                at.routes.push((None, subnet.address(other).into()));
            }
            // The way out is IPv4's: with no route of IPv6 programs do not try it first.
            if namespace.is_none() && !routes {
                at.routes.push((None, subnet.address6(other).into()));
            }
            let variables = vec![
                (
                    "FALAJ_SIDE".to_owned(),
                    Variable::Text(if end == End::Near { "a" } else { "b" }.to_owned()),
                ),
                ("FALAJ_ADDR".to_owned(), Variable::V4(subnet.address(end))),
                ("FALAJ_PEER".to_owned(), Variable::V4(subnet.address(other))),
                ("MAHIMAHI_BASE".to_owned(), Variable::V4(subnet.address(other))),
                ("FALAJ_ADDR6".to_owned(), Variable::V6(subnet.address6(end))),
                ("FALAJ_PEER6".to_owned(), Variable::V6(subnet.address6(other))),
            ];
            let forwards =
                if routes && end == End::Far { Forwards::WayOut } else { Forwards::Nothing };
            plans.push(Plan {
                side,
                attachments: vec![at],
                forwards,
                variables,
                names: None,
                namespace,
            });
        }
        let all = All { tso, join, user_namespace, subnet, resolver, ends: true };
        Ok(Sandbox { sides: Hosts::start(plans, &all)?, subnet })
    }

    /// Both sides, the near one first.
    pub fn sides(&mut self) -> &mut Hosts {
        &mut self.sides
    }

    /// Starts the command of a side; does nothing if it has none, or was started before.
    ///
    /// # Errors
    /// `EPIPE` if the side is gone.
    pub fn go(&mut self, end: End) -> io::Result<()> {
        self.sides.go(end.index())
    }

    /// The TAP interface of a side; `None` if the sides are joined otherwise, or it was taken.
    pub fn tap(&self, end: End) -> Option<&Tap> {
        match self.sides.joint(end.index(), 0) {
            Some(Joint::Tap(tap)) => Some(tap),
            _ => None,
        }
    }

    /// Takes the TAP interface of a side, for example to another thread. Dropping it removes the
    /// interface.
    pub fn take_tap(&mut self, end: End) -> Option<Tap> {
        self.tap(end)?;
        match self.sides.take_joint(end.index(), 0) {
            Some(Joint::Tap(tap)) => Some(tap),
            _ => None,
        }
    }

    /// The packet socket of a side that has no TAP.
    pub fn packet(&self, end: End) -> Option<&Arc<PacketSocket>> {
        match self.sides.joint(end.index(), 0) {
            Some(Joint::Packet(socket)) => Some(socket),
            _ => None,
        }
    }

    /// Why there are packet sockets where [`Join::Auto`] would rather have had TAPs.
    pub fn no_tap(&self) -> Option<&Error> {
        self.sides.no_tap()
    }

    /// Readable when [`Sandbox::read_event`] has news of this side.
    pub fn control_fd(&self, end: End) -> BorrowedFd<'_> {
        self.sides.control_fd(end.index())
    }

    /// The next news of a side, if there is any; never waits.
    ///
    /// # Errors
    /// What `recvmsg(2)` says, which is nothing in ordinary life.
    pub fn read_event(&mut self, end: End) -> io::Result<Option<Event>> {
        self.sides.read_event(end.index())
    }

    /// Passes a signal to the command of a side; does nothing if none runs.
    ///
    /// # Errors
    /// `EINVAL` if there is no such signal, `EPIPE` if the side is gone.
    pub fn signal(&self, end: End, signal: i32) -> io::Result<()> {
        self.sides.signal(end.index(), signal)
    }

    /// Packets that both sides' interfaces lost on their way out because nobody read them in time:
    /// the kernel keeps so many and drops the rest, which only it has seen. `None` if it does
    /// not say.
    pub fn unread(&self) -> Option<u64> {
        self.sides.unread()
    }

    /// Packets that reached the far side and were to go beyond it, where there is no way. `None` if
    /// the kernel does not say.
    pub fn stranded(&self) -> Option<u64> {
        let count = |file: &str, of: &str, name: &str| -> Option<u64> {
            let text =
                fs::read_to_string(format!("/proc/{}/net/{file}", self.pid(End::Far))).ok()?;
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(of));
            let at = lines.next()?.split_whitespace().position(|known| known == name)?;
            lines.next()?.split_whitespace().nth(at)?.parse().ok()
        };
        // The first is what one that is no router counts, the second what a router without a route
        // does.
        Some(count("snmp", "Ip:", "InAddrErrors")? + count("netstat", "IpExt:", "InNoRoutes")?)
    }

    /// Has the far side the end of the way out configured, once its interface is there.
    pub(crate) fn configure_way_out(&self) -> Result<(), Error> {
        self.sides.send(End::Far.index(), Message::Link, None)?;
        self.sides.await_message(End::Far.index(), Message::Ready).map(drop)
    }

    /// Has the far side answer for the near one at the way out without delay.
    pub(crate) fn answer_at_once(&self) -> Result<(), Error> {
        self.sides.send(End::Far.index(), Message::Answer, None)?;
        self.sides.await_message(End::Far.index(), Message::Ready).map(drop)
    }

    /// The link's addresses.
    pub fn subnet(&self) -> Subnet {
        self.subnet
    }

    /// Whether the sides are in a user namespace of their own.
    pub(crate) fn has_own_users(&self) -> bool {
        self.sides.has_own_users()
    }

    /// The number of a side's first process, for `nsenter --target` and the like.
    pub fn pid(&self, end: End) -> i32 {
        self.sides.pid(end.index())
    }
}

/// Whether a sandbox can be had here, found out by making one.
///
/// # Errors
/// As [`Sandbox::start`].
pub fn available() -> Result<(), Error> {
    Sandbox::start(Spec::default()).map(drop)
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
pub(crate) fn wait(child: &Cloned) {
    while waitid(Id::PIDFd(child.pidfd.as_fd()), WaitPidFlag::WEXITED | WaitPidFlag::__WALL)
        == Err(Errno::EINTR)
    {}
}
