//! Ports at which programs of a network namespace listen, as `/proc` lists them.

use std::collections::BTreeSet;
use std::fs;

/// A protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// TCP: a socket that accepts connections listens.
    Tcp,
    /// UDP: a socket with a local address and no remote one listens.
    Udp,
}

/// Ports at which the programs in the network namespace of process `pid` listen, at any address;
/// empty where `/proc` hides them.
pub(super) fn listening(pid: i32) -> BTreeSet<(Transport, u16)> {
    let tables = [
        ("tcp", Transport::Tcp),
        ("tcp6", Transport::Tcp),
        ("udp", Transport::Udp),
        ("udp6", Transport::Udp),
    ];
    let mut ports = BTreeSet::new();
    for (file, transport) in tables {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
        ports.extend(text.lines().filter_map(|line| Some((transport, port_of(line, transport)?))));
    }
    ports
}

/// The local port of a line of such a table, if that socket listens.
fn port_of(line: &str, transport: Transport) -> Option<u16> {
    let mut words = line.split_whitespace().skip(1);
    let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
    let listens = match transport {
        Transport::Tcp => state == "0A",
        Transport::Udp => state == "07" && remote.ends_with(":0000"),
    };
    u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok().filter(|_| listens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn sockets_that_listen_are_found_and_others_are_not() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let connected = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        connected.connect(udp.local_addr().expect("bound")).expect("loopback");
        let client = TcpStream::connect(tcp.local_addr().expect("bound")).expect("loopback");
        let found = listening(std::process::id() as i32);
        let port = |address: std::io::Result<std::net::SocketAddr>| address.expect("bound").port();
        assert!(found.contains(&(Transport::Tcp, port(tcp.local_addr()))));
        assert!(found.contains(&(Transport::Udp, port(udp.local_addr()))));
        assert!(!found.contains(&(Transport::Udp, port(connected.local_addr()))));
        assert!(!found.contains(&(Transport::Tcp, port(client.local_addr()))));
        assert!(listening(-1).is_empty());
    }

    #[test]
    fn lines_of_ipv6_are_read_and_headings_are_none() {
        let line = "   0: 00000000000000000000000000000000:1451 \
                    00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000";
        assert_eq!(port_of(line, Transport::Tcp), Some(5201));
        assert_eq!(port_of("  sl  local_address rem_address   st tx_queue", Transport::Tcp), None);
        assert_eq!(port_of("", Transport::Udp), None);
    }
}
