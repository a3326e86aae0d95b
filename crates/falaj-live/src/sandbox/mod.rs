//! A sandbox: two network namespaces (the sides), joined by a link whose packets pass through the
//! caller.
//!
//! ```text
//!   side a (near)                     caller                      side b (far)
//!   command - falaj0 ==TAP==> [ forwards, emulates a link ] <==TAP== falaj0 - command
//!             10.77.0.1                                             10.77.0.2
//!             fd77::1                                               fd77::2
//! ```
//!
//! Each side has its own process namespace as well. Its first process makes the side, starts the
//! command and reports how the command ended. Processes that the command leaves behind die with the
//! sandbox, and the sandbox dies with the caller, even if SIGKILL ends the caller. Neither root nor
//! any privilege is needed where user namespaces are allowed. Where `/dev/net/tun` is missing or
//! may not be opened, veth pairs and packet sockets replace the TAPs ([`Join::Auto`]).
//!
//! ```no_run
//! use falaj_live::sandbox::{End, SideEvent, Sandbox, SandboxSide, SandboxSpec};
//!
//! let ping = SandboxSide::command(["ping", "-c", "3", "10.77.0.2"]);
//! let mut sandbox = Sandbox::start(SandboxSpec { near: ping, ..SandboxSpec::default() })?;
//! sandbox.go(End::Near)?;
//! // … copy units between sandbox.tap(End::Near) and sandbox.tap(End::Far) until
//! while let Some(event) = sandbox.read_event(End::Near)? {
//!     if let SideEvent::Exited(exit) = event {
//!         std::process::exit(exit.shell_code());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod control;
mod event;
pub(crate) mod hosts;
mod init;
pub(crate) mod netlink;
mod network;
pub(crate) mod plan;
mod refusals;
mod spec;
mod terminal;
mod userns;

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::{fs, io};

pub use self::event::{Exit, SideEvent};
pub use self::hosts::{Hosts, Joint, SideHandover};
pub(crate) use self::network::tap_in_place;
pub(crate) use self::spec::NAT_INTERFACE;
pub use self::spec::{INTERFACE, Join, SandboxSide, SandboxSpec, UserNamespace};
pub use crate::link_end::{End, Subnet};

use self::control::SideMessage;
use self::hosts::All;
use self::plan::{Attachment, Forwards, SidePlan, Variable};
use crate::backend::packet::PacketSocket;
use crate::backend::tap::Tap;
use crate::error::Error;
use crate::host_port::FarForwarder;
use crate::listening::{self, Transport};

/// Two sides, and the caller's handles of them. Dropping the value kills all processes that still
/// run there.
///
/// While the sandbox lives, the caller ignores SIGINT, SIGQUIT and SIGTTOU, because Ctrl-C is meant
/// for the command. Signals for which the caller had actions of its own are not ignored. (A
/// signalfd still receives an ignored signal if it is blocked.)
///
/// The thread that called [`Sandbox::start`] must live as long as the sandbox: the kernel treats
/// the death of that thread as the death of the caller, and kills the sides.
#[derive(Debug)]
pub struct Sandbox {
    sides: Hosts,
    subnet: Subnet,
    _host_ports: Option<FarForwarder>,
}

impl Sandbox {
    /// Makes both sides and the link between them; the commands wait for [`Sandbox::go`].
    ///
    /// The process must have only one thread, because it is cloned as it is; threads may be started
    /// afterwards.
    ///
    /// # Errors
    /// The step that failed, the reason, and a remedy. Everything made so far is removed.
    pub fn start(spec: SandboxSpec) -> Result<Sandbox, Error> {
        let SandboxSpec {
            mtu,
            tso,
            join,
            user_namespace,
            subnet,
            routes,
            resolver,
            near,
            far,
            namespace,
            host_ports,
            tells_refusals,
        } = spec;
        let mut plans = Vec::new();
        for (end, side) in [(End::Near, near), (End::Far, far)] {
            let namespace = namespace.clone().filter(|_| end == End::Far);
            let mut at = Attachment::new(0, 0, end, subnet, mtu, true);
            let other = end.other();
            // A router's default route is the way out, and an existing namespace has its own
            // default route.
            if namespace.is_none() && !(routes && end == End::Far) {
                at.routes.push((None, subnet.address(other).into()));
            }
            // The way out carries only IPv4. Without a route for IPv6, programs do not try IPv6
            // first.
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
            plans.push(SidePlan {
                side,
                attachments: vec![at],
                forwards,
                variables,
                names: None,
                namespace,
                host_ports: host_ports.clone(),
                tells_refusals: tells_refusals && end == End::Near,
            });
        }
        let all = All { tso, join, user_namespace, subnet, resolver, ends: true };
        let sides = Hosts::start(plans, &all)?;
        let forwarder = (!host_ports.is_empty()).then(|| sides.forward_host_ports()).transpose()?;
        Ok(Sandbox { sides, subnet, _host_ports: forwarder })
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

    /// The TAP interface of a side; `None` if the sides are joined in another way, or the interface
    /// was taken.
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

    /// The reason why [`Join::Auto`] used packet sockets instead of TAPs, if it did.
    pub fn no_tap(&self) -> Option<&Error> {
        self.sides.no_tap()
    }

    /// Readable when [`Sandbox::read_event`] has an event of this side.
    pub fn control_fd(&self, end: End) -> BorrowedFd<'_> {
        self.sides.control_fd(end.index())
    }

    /// The next event of a side, if there is any; never waits.
    ///
    /// # Errors
    /// The errors of `recvmsg(2)`, of which none is expected.
    pub fn read_event(&mut self, end: End) -> io::Result<Option<SideEvent>> {
        self.sides.read_event(end.index())
    }

    /// Passes a signal to the command of a side; does nothing if none runs.
    ///
    /// # Errors
    /// `EINVAL` if there is no such signal, `EPIPE` if the side is gone.
    pub fn signal(&self, end: End, signal: i32) -> io::Result<()> {
        self.sides.signal(end.index(), signal)
    }

    /// Number of packets that both sides' interfaces dropped on their way out because falaj did not
    /// read them in time: the kernel queues a limited number and drops the rest. Only the kernel
    /// counts these drops; `None` if it does not report them.
    pub fn unread(&self) -> Option<u64> {
        self.sides.unread()
    }

    /// Number of packets that reached the far side and were addressed beyond it, without a route
    /// there. `None` if the kernel does not report them.
    pub fn stranded(&self) -> Option<u64> {
        let count = |file: &str, of: &str, name: &str| -> Option<u64> {
            let text =
                fs::read_to_string(format!("/proc/{}/net/{file}", self.pid(End::Far))).ok()?;
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(of));
            let at = lines.next()?.split_whitespace().position(|known| known == name)?;
            lines.next()?.split_whitespace().nth(at)?.parse().ok()
        };
        // A far side that is not a router counts these packets in `InAddrErrors`; a router
        // without a route counts them in `InNoRoutes`.
        Some(count("snmp", "Ip:", "InAddrErrors")? + count("netstat", "IpExt:", "InNoRoutes")?)
    }

    /// Ports at which programs at this end listen, at any address; empty where `/proc` hides them.
    pub fn listening(&self, end: End) -> BTreeSet<(Transport, u16)> {
        listening::ports_of(self.pid(end).unsigned_abs())
    }

    /// Configures the far side's end of the way out, once its interface is there.
    pub(crate) fn configure_way_out(&self) -> Result<(), Error> {
        self.sides.send(End::Far.index(), SideMessage::Link, None)?;
        self.sides.await_message(End::Far.index(), SideMessage::Ready).map(drop)
    }

    /// Lets the far side answer ARP requests for the near side at the way out without delay.
    pub(crate) fn answer_at_once(&self) -> Result<(), Error> {
        self.sides.send(End::Far.index(), SideMessage::Answer, None)?;
        self.sides.await_message(End::Far.index(), SideMessage::Ready).map(drop)
    }

    /// The link's addresses.
    pub fn subnet(&self) -> Subnet {
        self.subnet
    }

    /// Returns true if the sides are in a user namespace of their own.
    pub(crate) fn has_own_users(&self) -> bool {
        self.sides.has_own_users()
    }

    /// The number of a side's first process, for `nsenter --target` and the like.
    pub fn pid(&self, end: End) -> i32 {
        self.sides.pid(end.index())
    }
}

/// Checks whether a sandbox can be made on this host, by making one.
///
/// # Errors
/// The errors of [`Sandbox::start`].
pub fn available() -> Result<(), Error> {
    Sandbox::start(SandboxSpec::default()).map(drop)
}
