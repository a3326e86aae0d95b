//! Ports of the host that the command reaches at its own loopback addresses, through the link.
//!
//! ```text
//!   command - 127.0.0.1:8000 - falaj0 ==link== falaj0 - 10.77.0.2:8000 - host's 127.0.0.1:8000
//!             ::1              10.77.0.1                fd77::2          or ::1
//!             near forwarder                            far forwarder
//! ```
//!
//! A forwarder is a separate process, with plain sockets and no privilege. The near forwarder runs
//! in the near side's namespaces and dies with them. The far forwarder runs in the host's
//! namespaces, with sockets that were created at the far end; it dies with the caller.

mod forwarder;

use crate::process::{self, Cloned, wait};
use forwarder::PortForward;
use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

/// A port of the host, and the port at which the command reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The port on the host's loopback addresses, and on the link.
    pub host: u16,
    /// The port on the command's loopback addresses.
    pub command: u16,
}

impl HostPort {
    /// Parses `PORT` or `HOST_PORT:COMMAND_PORT`.
    ///
    /// # Errors
    /// Returns a message with the expected format.
    pub fn parse(text: &str) -> Result<HostPort, String> {
        let (host, command) = text.split_once(':').unwrap_or((text, text));
        match (host.parse(), command.parse()) {
            (Ok(host @ 1..), Ok(command @ 1..)) => Ok(HostPort { host, command }),
            _ => Err(
                "write a port of the host, such as `8000`, or the host's and the command's port, \
                 such as `8000:80`"
                    .into(),
            ),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.command)
    }
}

/// The loopback addresses: IPv4, then IPv6.
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Starts the forwarder of the near side, in the caller's namespaces: from the loopback addresses
/// to the far side's addresses; the IPv6 address of the far side is optional.
pub(crate) fn start_near(
    ports: &[HostPort],
    far: (Ipv4Addr, Option<Ipv6Addr>),
) -> Result<(), Errno> {
    let mut forwards = Vec::new();
    for port in ports {
        for at in LOOPBACK {
            let six = far.1.filter(|_| at.is_ipv6()).map(IpAddr::V6);
            let to = six.into_iter().chain([far.0.into()]);
            let to: Vec<_> = to.map(|to| SocketAddr::new(to, port.host)).collect();
            for socket in listening(SocketAddr::new(at, port.command))? {
                forwards.push(PortForward::adopt(socket, to.clone())?);
            }
        }
    }
    clone_forwarder(forwards).map(drop)
}

/// Sockets that listen at these addresses of the far side, in the caller's namespace.
pub(crate) fn far_sockets(ports: &[HostPort], at: &[IpAddr]) -> Result<Vec<OwnedFd>, Errno> {
    let hosts: BTreeSet<u16> = ports.iter().map(|port| port.host).collect();
    let mut sockets = Vec::new();
    for port in hosts {
        for &at in at {
            sockets.extend(listening(SocketAddr::new(at, port))?);
        }
    }
    Ok(sockets)
}

/// A socket for streams and one for datagrams at this address; empty if the system has no IPv6.
fn listening(at: SocketAddr) -> Result<Vec<OwnedFd>, Errno> {
    match forwarder::listen(at) {
        Err(Errno::EADDRNOTAVAIL | Errno::EAFNOSUPPORT) if at.is_ipv6() => Ok(Vec::new()),
        sockets => sockets.map(Vec::from),
    }
}

/// The far forwarder; it runs until this value is dropped.
#[derive(Debug)]
pub(crate) struct FarForwarder(Cloned);

impl FarForwarder {
    /// Starts the forwarder: from these sockets to the same ports of the caller's loopback
    /// addresses. The address of the socket's own family is tried first.
    ///
    /// The process must be single-threaded.
    pub(crate) fn start(sockets: Vec<OwnedFd>) -> io::Result<FarForwarder> {
        let mut forwards = Vec::new();
        for socket in sockets {
            let at = forwarder::local_address(&socket)?;
            let mut to = LOOPBACK.map(|address| SocketAddr::new(address, at.port()));
            to.sort_by_key(|to| to.is_ipv6() != at.is_ipv6());
            forwards.push(PortForward::adopt(socket, to.to_vec())?);
        }
        Ok(FarForwarder(clone_forwarder(forwards)?))
    }
}

impl Drop for FarForwarder {
    fn drop(&mut self) {
        // This fails only if the process is dead already.
        let _ = process::pidfd_signal(self.0.pidfd.as_fd(), nix::libc::SIGKILL);
        wait(&self.0);
    }
}

/// A process that forwards until it is killed, or the thread that starts it ends.
fn clone_forwarder(forwards: Vec<PortForward>) -> Result<Cloned, Errno> {
    process::clone_process(CloneFlags::empty(), move || {
        // Copies of the caller's descriptors would keep its link and its sockets open.
        let mut keep: Vec<_> = forwards.iter().map(PortForward::descriptor).collect();
        process::close_all_but(&mut keep);
        if prctl::set_pdeathsig(Signal::SIGKILL).is_err() {
            return 1;
        }
        // Signals of the terminal (Ctrl-C, hangup) are for other processes.
        let _ = nix::unistd::setsid();
        forwarder::run(forwards);
        0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read() {
        let is = |text: &str, host, command| {
            assert_eq!(HostPort::parse(text), Ok(HostPort { host, command }), "{text}");
        };
        is("8000", 8000, 8000);
        is("8000:80", 8000, 80);
        for text in ["", "0", "8000:0", ":80", "8000:", "70000", "localhost:80", "1:2:3", "80/udp"]
        {
            assert!(HostPort::parse(text).is_err(), "{text}");
        }
    }
}
