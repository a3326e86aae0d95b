//! The specification of a sandbox: its link, its addresses, and the commands on its two sides.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use falaj_sched::units::rate::Rate;

use crate::host_port::HostPort;
use crate::link_end::Subnet;

/// The name of the link's interface, the same on both sides.
pub const INTERFACE: &str = "falaj0";

/// The far side's interface to the Internet, where there is a [way out](crate::nat).
pub(crate) const NAT_INTERFACE: &str = "out0";

/// The kind of connection between the two sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// As `Tap`, or as `Packet` where there is no `/dev/net/tun` or it may not be opened.
    #[default]
    Auto,
    /// A TAP interface on each side; the caller reads and writes every packet.
    Tap,
    /// An interface of a veth pair on each side. The other interface of the pair is in a namespace
    /// where only the caller has a packet socket; the caller reads and writes every packet.
    Packet,
    /// As `Packet`, but the pair's other interface sends at most at this rate, as a network card
    /// does: by the kernel's token bucket (`tbf`), which counts whole frames without their
    /// checksums.
    Device(Rate),
    /// A pair of veth interfaces, with nothing in between: a baseline for benchmarks.
    Veth,
    /// Two pairs of veth interfaces with a kernel bridge between them, another baseline.
    Bridge,
}

/// The condition for making a user namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserNamespace {
    /// A user namespace is made if the caller is not root, or is root but lacks `CAP_SYS_ADMIN` or
    /// `CAP_NET_ADMIN`.
    #[default]
    Auto,
    /// A user namespace is always made, even for root.
    Always,
}

/// The command of one side, with its streams and environment.
#[derive(Debug, Default)]
pub struct SandboxSide {
    /// The command and its arguments, looked up in `PATH`; `None`: the side has no command.
    pub command: Option<Vec<OsString>>,
    /// The command's standard input; `None`: the caller's.
    pub stdin: Option<OwnedFd>,
    /// The command's standard output; `None`: the caller's.
    pub stdout: Option<OwnedFd>,
    /// The command's standard error; `None`: the caller's.
    pub stderr: Option<OwnedFd>,
    /// Variables added to the caller's environment. The sandbox itself sets `FALAJ_SIDE` (`a` or
    /// `b`), `FALAJ_ADDR`, `FALAJ_PEER`, `FALAJ_ADDR6` and `FALAJ_PEER6` (the last two only if the
    /// link carries IPv6), and `MAHIMAHI_BASE`, which has the value of `FALAJ_PEER`, for scripts
    /// written for mahimahi. A variable given here replaces a variable of the same name.
    pub env: Vec<(OsString, OsString)>,
}

impl SandboxSide {
    /// A side that runs this command with the caller's standard streams.
    pub fn command<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> SandboxSide {
        SandboxSide {
            command: Some(words.into_iter().map(Into::into).collect()),
            ..SandboxSide::default()
        }
    }
}

/// The specification of a sandbox.
#[derive(Debug)]
pub struct SandboxSpec {
    /// The link's largest IP packet in bytes, 68 to 65521. Below 1280 the link carries no IPv6.
    pub mtu: u16,
    /// True if an interface may pass units that are larger than the MTU: many TCP segments or UDP
    /// datagrams in one. They are forwarded unchanged. The throughput is then far higher, but one
    /// unit consists of many packets.
    pub tso: bool,
    /// The kind of connection between the sides.
    pub join: Join,
    /// The condition for making a user namespace.
    pub user_namespace: UserNamespace,
    /// The link's addresses.
    pub subnet: Subnet,
    /// True if the far side is a router: it forwards packets for other hosts, once there is a [way
    /// out](crate::nat).
    pub routes: bool,
    /// The content of `/etc/resolv.conf` on both sides; `None`: the caller's.
    pub resolver: Option<String>,
    /// Side a, at the near end of the link.
    pub near: SandboxSide,
    /// Side b, at the far end of the link.
    pub far: SandboxSide,
    /// Side b's network namespace: a name under `/run/netns`, or the ID of a process in the
    /// namespace; `None`: a namespace of its own. An existing namespace is not changed, except that
    /// it has the link's interface as long as the sandbox lives.
    pub namespace: Option<String>,
    /// Ports of the host that side a reaches at its own loopback addresses.
    pub host_ports: Vec<HostPort>,
    /// True if side a reports connections to its own loopback addresses that are refused, with
    /// [`SideEvent::Refused`](super::SideEvent::Refused).
    pub tells_refusals: bool,
}

/// Interfaces with an MTU of 1500 bytes and units of many packets; a user namespace if it is
/// needed; no commands.
impl Default for SandboxSpec {
    fn default() -> SandboxSpec {
        SandboxSpec {
            mtu: 1500,
            tso: true,
            join: Join::default(),
            user_namespace: UserNamespace::default(),
            subnet: Subnet::default(),
            routes: false,
            resolver: None,
            near: SandboxSide::default(),
            far: SandboxSide::default(),
            namespace: None,
            host_ports: Vec::new(),
            tells_refusals: false,
        }
    }
}
