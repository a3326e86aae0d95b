//! Errors in setting up a sandbox or an end of a link, with hints.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::unistd::Uid;

use crate::link_end::End;

/// A step of setting up a sandbox or an end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupStep {
    /// Making sure that the process is single-threaded.
    OneThread,
    /// Making the sockets between the caller and its sandbox.
    Sockets,
    /// Making the user namespace.
    UserNamespace,
    /// Mapping the caller's user and group into the user namespace.
    UserMap,
    /// Making the network, process and mount namespaces.
    Namespaces,
    /// Setting up the handling of signals in the first process of a side.
    Signals,
    /// Opening a netlink socket.
    Netlink,
    /// Bringing the loopback interface up.
    Loopback,
    /// Opening `/dev/net/tun`.
    OpenTun,
    /// Making the TAP interface.
    CreateTap,
    /// Making the pair of veth interfaces.
    CreateVeth,
    /// Configuring the interface (MTU, Ethernet address, queue length).
    Interface,
    /// Giving the interface its addresses.
    Addresses,
    /// Setting the neighbor entries of a side: the Ethernet addresses of its peers.
    Neighbours,
    /// Setting the routes, such as the default route.
    Routes,
    /// Handing the interface over to the caller.
    HandOver,
    /// Waiting for a side, which ended without an answer.
    Answer,
    /// Entering the network namespace of an interface.
    EnterNamespace,
    /// Opening a packet socket.
    PacketSocket,
    /// Finding an interface and attaching to it.
    FindInterface,
    /// Setting up a packet socket: its header, its receive ring.
    PacketOptions,
    /// Limiting the rate of an interface by a token bucket.
    TokenBucket,
    /// Opening an AF_XDP socket.
    XdpSocket,
    /// Loading the XDP program for the socket.
    LoadProgram,
    /// Attaching that program to the interface.
    AttachProgram,
    /// Sharing memory with the kernel.
    XdpMemory,
    /// Making the rings of an AF_XDP socket.
    XdpRings,
    /// Binding an AF_XDP socket to the interface.
    BindXdp,
    /// Making sure that the interface has one receive queue.
    XdpQueues,
    /// Making sure that the interface's frames fit.
    XdpMtu,
    /// Making sure that no units of many packets arrive.
    XdpUnits,
    /// Making a kernel bridge.
    CreateBridge,
    /// Claiming an interface for one link.
    Claim,
    /// Starting another instance of the program.
    Program,
    /// Listening at a port of the host.
    HostPort,
    /// Binding to a queue of the firewall.
    FirewallQueue,
    /// Adding firewall rules that pass packets to queues.
    FirewallRules,
}

/// All steps; the index of a step is its number on the control socket.
const STEPS: [SetupStep; 37] = [
    SetupStep::OneThread,
    SetupStep::Sockets,
    SetupStep::UserNamespace,
    SetupStep::UserMap,
    SetupStep::Namespaces,
    SetupStep::Signals,
    SetupStep::Netlink,
    SetupStep::Loopback,
    SetupStep::OpenTun,
    SetupStep::CreateTap,
    SetupStep::CreateVeth,
    SetupStep::Interface,
    SetupStep::Addresses,
    SetupStep::Neighbours,
    SetupStep::Routes,
    SetupStep::HandOver,
    SetupStep::Answer,
    SetupStep::EnterNamespace,
    SetupStep::PacketSocket,
    SetupStep::FindInterface,
    SetupStep::PacketOptions,
    SetupStep::TokenBucket,
    SetupStep::XdpSocket,
    SetupStep::LoadProgram,
    SetupStep::AttachProgram,
    SetupStep::XdpMemory,
    SetupStep::XdpRings,
    SetupStep::BindXdp,
    SetupStep::XdpQueues,
    SetupStep::XdpMtu,
    SetupStep::XdpUnits,
    SetupStep::CreateBridge,
    SetupStep::Claim,
    SetupStep::Program,
    SetupStep::HostPort,
    SetupStep::FirewallQueue,
    SetupStep::FirewallRules,
];

impl SetupStep {
    pub(crate) fn number(self) -> i32 {
        self as i32
    }

    pub(crate) fn from_number(number: i32) -> Option<SetupStep> {
        STEPS.get(usize::try_from(number).ok()?).copied()
    }

    fn failed(self) -> &'static str {
        match self {
            SetupStep::OneThread => "the process has more than one thread",
            SetupStep::Sockets => "cannot make a socket pair",
            SetupStep::UserNamespace => "cannot make a user namespace",
            SetupStep::UserMap => "cannot map your user into a user namespace",
            SetupStep::Namespaces => "cannot make network, process and mount namespaces",
            SetupStep::Signals => "cannot set up the handling of signals",
            SetupStep::Netlink => "cannot open a netlink socket",
            SetupStep::Loopback => "cannot bring the loopback interface up",
            SetupStep::OpenTun => "cannot open /dev/net/tun",
            SetupStep::CreateTap => "cannot make a TAP interface",
            SetupStep::CreateVeth => "cannot make a pair of veth interfaces",
            SetupStep::Interface => "cannot configure the interface",
            SetupStep::Addresses => "cannot set the addresses of the interface",
            SetupStep::Neighbours => "cannot set the neighbour entries",
            SetupStep::Routes => "cannot set the default routes",
            SetupStep::HandOver => "cannot hand the interface over",
            SetupStep::Answer => "the side's first process ended without an answer",
            SetupStep::EnterNamespace => "cannot enter the network namespace",
            SetupStep::PacketSocket => "cannot open a packet socket",
            SetupStep::FindInterface => "cannot attach to the interface",
            SetupStep::PacketOptions => "cannot set up the packet socket",
            SetupStep::TokenBucket => "cannot limit the rate of an interface",
            SetupStep::XdpSocket => "cannot open an AF_XDP socket",
            SetupStep::LoadProgram => "cannot load the XDP program",
            SetupStep::AttachProgram => "cannot attach the XDP program to the interface",
            SetupStep::XdpMemory => "cannot share memory with the AF_XDP socket",
            SetupStep::XdpRings => "cannot set up the AF_XDP socket",
            SetupStep::BindXdp => "cannot bind the AF_XDP socket to the interface",
            SetupStep::XdpQueues => {
                "the interface has several receive queues, but an AF_XDP socket serves only one"
            }
            SetupStep::XdpMtu => {
                "the interface's MTU is too large for the frames of an AF_XDP socket"
            }
            SetupStep::CreateBridge => "cannot make a kernel bridge",
            SetupStep::Claim => "cannot reserve the interface for this link",
            SetupStep::Program => "cannot start the program again",
            SetupStep::HostPort => "cannot make a port of the host available",
            SetupStep::FirewallQueue => "cannot use a queue of the firewall",
            SetupStep::FirewallRules => "cannot add rules to the firewall",
            SetupStep::XdpUnits => {
                "the XDP program cannot run within veth's driver, and outside of it units of many \
                 packets arrive"
            }
        }
    }
}

/// The reason why a sandbox or an end of a link could not be set up: the failed step, the side, the
/// system's error, and a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The step that failed.
    pub step: SetupStep,
    /// The side; `None` if the error does not concern one side alone.
    pub end: Option<End>,
    /// The system's error number (`errno`), 0 if the failure did not come from a system call.
    pub errno: i32,
}

impl Error {
    pub(crate) fn new(step: SetupStep, end: Option<End>, errno: Errno) -> Error {
        Error { step, end, errno: errno as i32 }
    }

    /// A hint for the user, if there is one; one or more sentences without a final full stop.
    pub fn hint(&self) -> Option<String> {
        let errno = Errno::from_raw(self.errno);
        match self.step {
            SetupStep::OneThread => Some("start the sandbox before the first thread".into()),
            SetupStep::OpenTun => tun_hint(errno),
            SetupStep::CreateTap if errno == Errno::EPERM => {
                Some("you may not configure this network namespace: run as root".into())
            }
            SetupStep::CreateVeth if errno == Errno::EOPNOTSUPP => Some(
                "the kernel has no veth interfaces: modprobe veth, or use TAP interfaces".into(),
            ),
            SetupStep::CreateBridge if errno == Errno::EOPNOTSUPP => {
                Some("the kernel has no bridges: modprobe bridge".into())
            }
            SetupStep::UserNamespace | SetupStep::UserMap | SetupStep::Namespaces => {
                namespace_hint(errno)
            }
            SetupStep::Loopback | SetupStep::Interface | SetupStep::Addresses
                if errno == Errno::EPERM =>
            {
                namespace_hint(errno)
            }
            SetupStep::Interface if errno == Errno::EINVAL => {
                Some("the MTU is out of range (68 to 65521)".into())
            }
            SetupStep::EnterNamespace => match errno {
                Errno::ENOENT => {
                    Some("write a name under /run/netns, or the ID of a process".into())
                }
                Errno::EPERM | Errno::EACCES => {
                    Some("you may not enter this namespace: run as root".into())
                }
                _ => None,
            },
            SetupStep::PacketSocket if errno == Errno::EPERM => Some(
                "that needs CAP_NET_RAW: run as root, or once: setcap cap_net_raw+ep $(command -v \
                 falaj)"
                    .into(),
            ),
            SetupStep::FirewallQueue | SetupStep::FirewallRules if errno == Errno::EPERM => {
                Some("that needs CAP_NET_ADMIN in the network namespace: run as root".into())
            }
            SetupStep::FirewallQueue => {
                Some("the kernel needs NETFILTER_NETLINK_QUEUE: modprobe nfnetlink_queue".into())
            }
            SetupStep::FirewallRules => Some(
                "the kernel needs nftables of Linux 5.12, and nft_queue: modprobe nft_queue".into(),
            ),
            SetupStep::FindInterface if errno == Errno::ENODEV => {
                Some("`ip link` lists the interfaces of that namespace".into())
            }
            SetupStep::TokenBucket if errno == Errno::ENOENT => {
                Some("the kernel has no token bucket: CONFIG_NET_SCH_TBF".into())
            }
            SetupStep::PacketOptions if errno == Errno::ENOPROTOOPT => {
                Some("Linux 4.20 or later is needed".into())
            }
            SetupStep::XdpSocket if errno == Errno::EAFNOSUPPORT => {
                Some("the kernel was built without AF_XDP (CONFIG_XDP_SOCKETS)".into())
            }
            SetupStep::XdpSocket | SetupStep::LoadProgram | SetupStep::AttachProgram
                if errno == Errno::EPERM =>
            {
                Some(
                    "that needs root (CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW); root of a user \
                     namespace is not enough"
                        .into(),
                )
            }
            SetupStep::AttachProgram if errno == Errno::EBUSY => {
                Some("another program is attached: ip link set dev INTERFACE xdp off".into())
            }
            SetupStep::AttachProgram if errno == Errno::EINVAL => {
                Some("Linux 5.9 or later is needed".into())
            }
            SetupStep::XdpMemory if errno == Errno::ENOBUFS || errno == Errno::EPERM => {
                Some("18 MiB must be locked: ulimit -l unlimited".into())
            }
            SetupStep::HandOver if errno == Errno::EPIPE => {
                Some("the helper process that opens ports has ended: restart falaj".into())
            }
            SetupStep::Claim if errno == Errno::EBUSY => Some(
                "another falaj process forwards at this interface: `falaj show` lists it; stop it first"
                    .into(),
            ),
            SetupStep::XdpQueues => Some("ethtool -L INTERFACE combined 1".into()),
            SetupStep::XdpMtu => {
                Some(format!("at most {} B", crate::backend::xdp::chunks::LARGEST_MTU))
            }
            SetupStep::XdpUnits => Some(
                "the MTU of the interface or of its peer may be too large; 1500 B is small enough"
                    .into(),
            ),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(end) = self.end {
            write!(f, "the {end} end: ")?;
        }
        f.write_str(self.step.failed())?;
        if self.errno != 0 {
            let errno = Errno::from_raw(self.errno);
            write!(f, ": {} ({errno:?})", errno.desc())?;
        }
        if let Some(hint) = self.hint() {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

fn tun_hint(errno: Errno) -> Option<String> {
    match errno {
        Errno::EACCES => {
            let who = if Uid::effective().is_root() {
                "root without the right to override it"
            } else {
                "not root"
            };
            let mode = match fs::metadata("/dev/net/tun") {
                Ok(file) => {
                    format!("/dev/net/tun is mode {:04o} and you are {who}", file.mode() & 0o7777)
                }
                Err(_) => format!("you may not open /dev/net/tun ({who})"),
            };
            Some(format!("{mode}: chmod 666 /dev/net/tun, or run as root"))
        }
        Errno::EPERM => Some(
            "opening the device is forbidden here, as in containers: docker run --device /dev/net/tun"
                .into(),
        ),
        Errno::ENOENT => Some(
            "make the device: mkdir -p /dev/net && mknod -m 666 /dev/net/tun c 10 200; in a \
             container: docker run --device /dev/net/tun"
                .into(),
        ),
        Errno::ENODEV | Errno::ENXIO => {
            Some("the kernel has no TUN/TAP driver: modprobe tun".into())
        }
        _ => None,
    }
}

fn namespace_hint(errno: Errno) -> Option<String> {
    let sysctl = |path: &str| {
        fs::read_to_string(format!("/proc/sys/{path}")).ok()?.trim().parse::<u64>().ok()
    };
    match errno {
        Errno::EPERM | Errno::EACCES => {
            Some(if sysctl("kernel/unprivileged_userns_clone") == Some(0) {
                "user namespaces are off: sysctl kernel.unprivileged_userns_clone=1, or run as root"
                    .into()
            } else if sysctl("kernel/apparmor_restrict_unprivileged_userns")
                .is_some_and(|on| on != 0)
            {
                "AppArmor restricts user namespaces: sysctl \
                 kernel.apparmor_restrict_unprivileged_userns=0, or run as root"
                    .into()
            } else {
                "namespaces are forbidden here, as in containers: run as root outside of one, or \
                 allow it (docker run --privileged, or --security-opt seccomp=unconfined)"
                .into()
            })
        }
        Errno::ENOSPC | Errno::EUSERS => {
            let none = ["user", "net", "pid", "mnt"]
                .into_iter()
                .find(|kind| sysctl(&format!("user/max_{kind}_namespaces")) == Some(0));
            Some(match none {
                Some(kind) => format!(
                    "user.max_{kind}_namespaces is 0: sysctl user.max_{kind}_namespaces=10000"
                ),
                None => "too many namespaces, or nested too deeply: see sysctl \
                         user.max_user_namespaces"
                    .into(),
            })
        }
        Errno::EINVAL | Errno::ENOSYS => Some(
            "the kernel was built without namespaces (CONFIG_USER_NS, CONFIG_NET_NS, CONFIG_PID_NS)"
                .into(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_their_numbers() {
        for (number, step) in STEPS.into_iter().enumerate() {
            assert_eq!(step.number(), number as i32);
            assert_eq!(SetupStep::from_number(number as i32), Some(step));
        }
        assert_eq!(SetupStep::from_number(STEPS.len() as i32), None);
        assert_eq!(SetupStep::from_number(-1), None);
    }

    #[test]
    fn an_error_says_what_why_and_what_to_try() {
        let text = Error::new(SetupStep::OpenTun, Some(End::Near), Errno::ENODEV).to_string();
        assert_eq!(
            text,
            "the near end: cannot open /dev/net/tun: No such device (ENODEV); the kernel has no \
             TUN/TAP driver: modprobe tun"
        );
    }
}
