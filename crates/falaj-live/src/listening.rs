//! Listening sockets, as `/proc` lists them: their ports, and the processes that own them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// A protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// TCP: a socket that accepts connections listens.
    Tcp,
    /// UDP: a socket with a local address and no remote address listens.
    Udp,
}

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListeningSocket {
    transport: Transport,
    at: SocketAddr,
    /// The socket's inode number, by which the descriptors of its processes are found.
    inode: u64,
}

/// Ports at which the programs in the network namespace of process `pid` listen, at any address;
/// empty if `/proc` hides them.
pub(crate) fn ports_of(pid: u32) -> BTreeSet<(Transport, u16)> {
    sockets_of(pid).iter().map(|socket| (socket.transport, socket.at.port())).collect()
}

/// Ports at which programs listen in the caller's network namespace, at any address.
pub fn ports() -> BTreeSet<(Transport, u16)> {
    ports_of(std::process::id())
}

/// Adds to an error "Address already in use" the process that listens at `at`, if it is visible.
pub fn name_process(error: io::Error, at: SocketAddr, transports: &[Transport]) -> io::Error {
    if error.kind() != io::ErrorKind::AddrInUse {
        return error;
    }
    let sockets = sockets_of(std::process::id());
    let held = sockets
        .iter()
        .filter(|socket| transports.contains(&socket.transport) && conflicts(socket.at, at));
    let inodes: Vec<u64> = held.map(|socket| socket.inode).collect();
    name_in(error, &inodes)
}

/// Adds to an error "Address already in use" the process that listens at a socket in the file
/// system, if that process is visible.
pub fn name_process_at(error: io::Error, path: &Path) -> io::Error {
    /// The flag of a socket that accepts connections.
    const ACCEPTS: &str = "00010000";
    if error.kind() != io::ErrorKind::AddrInUse {
        return error;
    }
    let path = path.to_string_lossy();
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let inodes: Vec<u64> = table
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(3);
            let accepts = words.next()? == ACCEPTS;
            let inode = words.nth(2)?.parse().ok()?;
            (accepts && line.ends_with(&format!(" {path}"))).then_some(inode)
        })
        .collect();
    name_in(error, &inodes)
}

/// The process that listens at a port in the network namespace of process `pid`, if it is visible.
pub fn process_at(pid: u32, port: u16) -> Option<String> {
    let sockets = sockets_of(pid);
    let held = sockets.iter().filter(|socket| socket.at.port() == port);
    process_of(&held.map(|socket| socket.inode).collect::<Vec<_>>())
}

/// Adds to the error the process that owns one of these sockets.
fn name_in(error: io::Error, inodes: &[u64]) -> io::Error {
    match process_of(inodes) {
        Some(process) => io::Error::new(error.kind(), format!("{error}: {process} listens there")),
        None => error,
    }
}

/// Returns true if a socket at `held` may be the reason why `wanted` is in use.
fn conflicts(held: SocketAddr, wanted: SocketAddr) -> bool {
    let any = held.ip().is_unspecified() || wanted.ip().is_unspecified();
    held.port() == wanted.port() && (any || held.ip() == wanted.ip())
}

/// The number and the name of a process that owns one of these sockets.
fn process_of(inodes: &[u64]) -> Option<String> {
    let links: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holder = processes.find(|process| {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd"));
        descriptors
            .into_iter()
            .flatten()
            .filter_map(|descriptor| fs::read_link(descriptor.ok()?.path()).ok())
            .any(|to| links.iter().any(|link| to.as_os_str() == link.as_str()))
    })?;
    let name = fs::read_to_string(format!("/proc/{holder}/comm")).unwrap_or_default();
    Some(format!("process {holder} ({})", name.trim()))
}

/// Listening sockets in the network namespace of process `pid`.
fn sockets_of(pid: u32) -> Vec<ListeningSocket> {
    let tables = [
        ("tcp", Transport::Tcp),
        ("tcp6", Transport::Tcp),
        ("udp", Transport::Udp),
        ("udp6", Transport::Udp),
    ];
    let mut sockets = Vec::new();
    for (file, transport) in tables {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
        sockets.extend(text.lines().filter_map(|line| socket_of(line, transport)));
    }
    sockets
}

/// The socket of a line of such a table in `/proc`, if the socket listens.
fn socket_of(line: &str, transport: Transport) -> Option<ListeningSocket> {
    let mut words = line.split_whitespace().skip(1);
    let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
    let inode = words.nth(5)?.parse().ok()?;
    let listens = match transport {
        Transport::Tcp => state == "0A",
        Transport::Udp => state == "07" && remote.ends_with(":0000"),
    };
    let (address, port) = local.rsplit_once(':')?;
    let at = SocketAddr::new(address_of(address)?, u16::from_str_radix(port, 16).ok()?);
    listens.then_some(ListeningSocket { transport, at, inode })
}

/// Parses an address as the kernel writes it: words of 32 bits, each as a number in the machine's
/// byte order.
fn address_of(hex: &str) -> Option<IpAddr> {
    let word = |n: usize| u32::from_str_radix(hex.get(8 * n..8 * n + 8)?, 16).ok();
    if hex.len() == 8 {
        return Some(IpAddr::from(word(0)?.to_ne_bytes()));
    }
    let mut bytes = [0; 16];
    for (n, bytes) in bytes.chunks_exact_mut(4).enumerate() {
        bytes.copy_from_slice(&word(n)?.to_ne_bytes());
    }
    Some(Ipv6Addr::from(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixListener;

    #[test]
    fn sockets_that_listen_are_found_and_others_are_not() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let connected = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        connected.connect(udp.local_addr().expect("bound")).expect("loopback");
        let client = TcpStream::connect(tcp.local_addr().expect("bound")).expect("loopback");
        let found = ports();
        let port = |address: std::io::Result<std::net::SocketAddr>| address.expect("bound").port();
        assert!(found.contains(&(Transport::Tcp, port(tcp.local_addr()))));
        assert!(found.contains(&(Transport::Udp, port(udp.local_addr()))));
        assert!(!found.contains(&(Transport::Udp, port(connected.local_addr()))));
        assert!(!found.contains(&(Transport::Tcp, port(client.local_addr()))));
        assert!(ports_of(u32::MAX).is_empty());
    }

    #[test]
    fn lines_of_ipv6_are_read_and_headings_are_none() {
        let line = "   0: 00000000000000000000000001000000:1451 \
                    00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 \
                    00000000  1000        0 33162 1 0000000000000000 100 0 0 10 0";
        let socket = socket_of(line, Transport::Tcp).expect("it listens");
        assert_eq!((socket.at.port(), socket.inode), (5201, 33162));
        if cfg!(target_endian = "little") {
            assert_eq!(socket.at.ip(), IpAddr::V6(Ipv6Addr::LOCALHOST));
        }
        assert_eq!(
            socket_of("  sl  local_address rem_address   st tx_queue", Transport::Tcp),
            None
        );
        assert_eq!(socket_of("", Transport::Udp), None);
    }

    #[test]
    fn the_process_that_listens_is_named() {
        let named = |error: io::Error| {
            let id = std::process::id();
            assert!(error.to_string().contains(&format!(": process {id} (")), "{error}");
        };
        for (held, wanted) in [("127.0.0.1", "0.0.0.0"), ("0.0.0.0", "127.0.0.1"), ("::1", "::1")] {
            let listener = TcpListener::bind((held, 0)).expect("loopback");
            let wanted = (wanted, listener.local_addr().expect("bound").port());
            let error = TcpListener::bind(wanted).expect_err("it is in use");
            let at = SocketAddr::new(wanted.0.parse().expect("an address"), wanted.1);
            named(name_process(error, at, &[Transport::Tcp]));
            // UDP does not conflict with it.
            let other = io::Error::from(io::ErrorKind::AddrInUse);
            let same = name_process(other, at, &[Transport::Udp]);
            assert!(!same.to_string().contains("process"), "{same}");
        }
        let path = std::env::temp_dir().join(format!("falaj-listening-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a place");
        named(name_process_at(UnixListener::bind(&path).expect_err("it is in use"), &path));
        drop(listener);
        fs::remove_file(&path).expect("it is ours");
    }
}
