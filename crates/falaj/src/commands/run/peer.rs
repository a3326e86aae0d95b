//! Starts the command once the peer listens.

use anyhow::{Result, bail};

use falaj_live::listening::Transport;
use falaj_live::sandbox::{End, Exit, Sandbox, SideEvent, Subnet};
use falaj_live::signals::Signals;
use falaj_terminal::interrupt::Interrupted;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::time::{Duration, Instant};

/// Longest wait of the command for an explicitly requested port.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait for a peer that may listen at any port, or at none.
const MOMENT: Duration = Duration::from_secs(1);
/// Time between two checks.
const LOOK: Duration = Duration::from_millis(2);

/// A port of the far end: `5201`, `53/udp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerPort {
    transport: Transport,
    port: u16,
}

impl PeerPort {
    /// Parses `PORT`, `PORT/tcp` or `PORT/udp`.
    pub(crate) fn parse(text: &str) -> Result<PeerPort, String> {
        let (port, transport) = match text.split_once('/') {
            None | Some((_, "tcp")) => (text.trim_end_matches("/tcp"), Transport::Tcp),
            Some((port, "udp")) => (port, Transport::Udp),
            Some(_) => (text, Transport::Tcp),
        };
        match port.parse() {
            Ok(0) | Err(_) => Err("write a port, 5201, or 53/udp".to_owned()),
            Ok(port) => Ok(PeerPort { transport, port }),
        }
    }
}

impl fmt::Display for PeerPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transport {
            Transport::Tcp => write!(f, "{}", self.port),
            Transport::Udp => write!(f, "{}/udp", self.port),
        }
    }
}

/// Condition for the start of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Starts at once.
    No,
    /// Waits briefly for any port at which nothing listened before the peer was started.
    AnyPort,
    /// Waits for this port.
    Port(PeerPort),
}

impl Wait {
    /// Returns the default condition for `command`: it waits for a peer if one of its arguments
    /// names the peer.
    pub(crate) fn for_peer_of(command: &[OsString], subnet: Subnet) -> Wait {
        let names = [
            "FALAJ_PEER".to_owned(),
            "MAHIMAHI_BASE".to_owned(),
            subnet.address(End::Far).to_string(),
            subnet.address6(End::Far).to_string(),
        ];
        let is_named = |word: &OsString| {
            let word = word.to_string_lossy();
            names.iter().any(|name| word.contains(name.as_str()))
        };
        if command.iter().any(is_named) { Wait::AnyPort } else { Wait::No }
    }

    /// Starts the peer, and returns when the command may start.
    ///
    /// # Errors
    /// With a requested port: the peer ended, or did not listen in time. In any case: a signal
    /// came.
    pub(crate) fn start_peer(self, sandbox: &mut Sandbox, signals: &mut Signals) -> Result<()> {
        let before = sandbox.listening(End::Far);
        sandbox.go(End::Far)?;
        let since = Instant::now();
        while !self.is_over(&before, &sandbox.listening(End::Far), since.elapsed())? {
            if signals.next_of_any()?.is_some() {
                return Err(Interrupted("while waiting for the peer").into());
            }
            match (self, sandbox.read_event(End::Far)?) {
                (_, None) => std::thread::sleep(LOOK),
                (Wait::Port(port), Some(SideEvent::Exited(Exit::Code(status)))) => {
                    bail!("the peer ended before it listened at port {port}: exit status {status}")
                }
                (Wait::Port(port), Some(_)) => {
                    bail!("the peer was killed before it listened at port {port}")
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn is_over(self, before: &Ports, now: &Ports, waited: Duration) -> Result<bool> {
        match self {
            Wait::No => Ok(true),
            Wait::AnyPort => Ok(waited >= MOMENT || now.difference(before).next().is_some()),
            Wait::Port(PeerPort { transport, port }) if now.contains(&(transport, port)) => {
                Ok(true)
            }
            Wait::Port(port) if waited >= PATIENCE => {
                let others: Vec<String> = now
                    .iter()
                    .map(|&(transport, port)| PeerPort { transport, port }.to_string())
                    .collect();
                let others = match &others[..] {
                    [] => "no port".to_owned(),
                    others => others.join(", "),
                };
                bail!(
                    "the far end does not listen at port {port} after {} s; it listens at {others}",
                    PATIENCE.as_secs()
                )
            }
            Wait::Port(_) => Ok(false),
        }
    }
}

type Ports = BTreeSet<(Transport, u16)>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read() {
        let is = |text: &str, transport, port| {
            assert_eq!(PeerPort::parse(text), Ok(PeerPort { transport, port }), "{text}");
        };
        is("5201", Transport::Tcp, 5201);
        is("80/tcp", Transport::Tcp, 80);
        is("53/udp", Transport::Udp, 53);
        for text in ["", "0", "70000", "80/sctp", "http", "-1", "80/udp/tcp"] {
            assert!(PeerPort::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_command_waits_for_a_peer_that_it_names() {
        let of = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            Wait::for_peer_of(&words, Subnet::default())
        };
        assert_eq!(of(&["iperf3", "-c", "10.77.0.2"]), Wait::AnyPort);
        assert_eq!(of(&["sh", "-c", "curl http://[fd77::2]:80/"]), Wait::AnyPort);
        assert_eq!(of(&["sh", "-c", "iperf3 -c $FALAJ_PEER"]), Wait::AnyPort);
        assert_eq!(of(&["curl", "-O", "https://example.org/"]), Wait::No);
    }
}
