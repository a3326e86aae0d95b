//! Ports of the host that the command reaches: checks for conflicts, and whether a server listens
//! there.

use anyhow::{Result, bail};
use falaj_live::host_port::HostPort;
use falaj_live::listening::{self, Transport};
use falaj_terminal::note;

/// Refuses two host ports mapped to the same port of the command.
pub(super) fn check(ports: &[HostPort]) -> Result<()> {
    for (n, port) in ports.iter().enumerate() {
        let at = port.command;
        if ports[..n].iter().any(|other| other.command == at) {
            bail!(
                "--host-port is given twice for the command's port {at}; give one of them another port, as in {}:{}",
                port.host,
                at.saturating_add(1)
            );
        }
    }
    Ok(())
}

/// Prints a note for each port at which nothing on the host listens: connections to it fail until a
/// server listens there.
pub(super) fn tell(ports: &[HostPort]) {
    let there = listening::ports();
    let is_served = |port| {
        [Transport::Tcp, Transport::Udp].iter().any(|&transport| there.contains(&(transport, port)))
    };
    for port in ports.iter().map(|port| port.host).filter(|&port| !is_served(port)) {
        note!("--host-port: nothing on this host listens at port {port} yet");
    }
}

/// Prints a note about the command's refused connection to a loopback port, if a program on the
/// host listens at that port.
pub(super) fn tell_of_refusal(port: u16) {
    if listening::ports().contains(&(Transport::Tcp, port)) {
        note!(
            "the command was refused at localhost:{port}: nothing listens there behind the link, \
             but this host does; `--host-port {port}` lets the command reach it through the link"
        );
    }
}

/// Returns a message for a port that is already in use in `namespace`, which is given by name or
/// process ID. With a process ID, the message names the process that listens, if it is visible.
pub(super) fn conflict(ports: &[HostPort], namespace: &str) -> String {
    let held = namespace.parse().ok().and_then(|pid| {
        let at = |port: u16| Some((port, listening::process_at(pid, port)?));
        ports.iter().find_map(|port| at(port.host))
    });
    match held {
        Some((port, process)) => {
            format!("--host-port: {process} listens at port {port} of --netns {namespace}")
        }
        None => format!("--host-port, --netns {namespace}"),
    }
}
