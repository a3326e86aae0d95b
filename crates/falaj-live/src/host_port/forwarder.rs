//! A port forwarder: threads that pass on the streams and datagrams of some sockets, and the
//! answers.
//!
//! The end of a stream is passed on in each direction, and so is a reset. If nothing listens at the
//! destination, the stream is reset, which its client sees only after the connection was opened.
//! For datagrams each client has its own socket to the server, so that answers find their way back.

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{SockType, getsockopt, setsockopt, sockopt};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::Duration;

/// Stack size of a thread in bytes; there may be thousands of threads.
const STACK: usize = 128 << 10;
/// Number of bytes read at once.
const BUFFER: usize = 64 << 10;
/// A client that neither sends nor receives a datagram for this time is forgotten, at the latest
/// after twice this time (RFC 4787 allows no shorter time).
const IDLE: Duration = Duration::from_secs(120);
/// The largest number of clients that send datagrams; datagrams of further clients are dropped.
const CLIENTS: usize = 1024;
/// Pause when the system has no resources for another connection.
const PAUSE: Duration = Duration::from_millis(10);

/// A listening socket and its destination: the first of these addresses that answers.
#[derive(Debug)]
pub(super) struct PortForward {
    socket: ListeningSocket,
    to: Vec<SocketAddr>,
}

#[derive(Debug)]
enum ListeningSocket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl PortForward {
    /// Adopts a socket that [`listen`] has created.
    pub(super) fn adopt(socket: OwnedFd, to: Vec<SocketAddr>) -> Result<PortForward, Errno> {
        let socket = match getsockopt(&socket, sockopt::SockType)? {
            SockType::Stream => ListeningSocket::Tcp(socket.into()),
            _ => ListeningSocket::Udp(socket.into()),
        };
        Ok(PortForward { socket, to })
    }

    pub(super) fn descriptor(&self) -> RawFd {
        match &self.socket {
            ListeningSocket::Tcp(socket) => socket.as_raw_fd(),
            ListeningSocket::Udp(socket) => socket.as_raw_fd(),
        }
    }
}

/// Two sockets that listen at an address: one for streams, one for datagrams.
pub(super) fn listen(at: SocketAddr) -> Result<[OwnedFd; 2], Errno> {
    let failed = |error: io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    let tcp = TcpListener::bind(at).map_err(failed)?;
    let udp = UdpSocket::bind(at).map_err(failed)?;
    Ok([tcp.into(), udp.into()])
}

/// The address of a socket that [`listen`] has created.
pub(super) fn local_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    UdpSocket::from(socket.try_clone()?).local_addr()
}

/// Forwards for ever.
pub(super) fn run(forwards: Vec<PortForward>) {
    thread::scope(|scope| {
        for PortForward { socket, to } in forwards {
            let serve = move || match socket {
                ListeningSocket::Tcp(listener) => serve_tcp(&listener, &to),
                ListeningSocket::Udp(socket) => serve_udp(&Arc::new(socket), &to),
            };
            let started = Builder::new().stack_size(STACK).spawn_scoped(scope, serve);
            started.expect("the system has room for a thread");
        }
    });
}

fn serve_tcp(listener: &TcpListener, to: &[SocketAddr]) {
    loop {
        let accepted = listener.accept().and_then(|(client, _)| {
            let to = to.to_vec();
            Builder::new().stack_size(STACK).spawn(move || pass_stream(&client, &to))
        });
        if accepted.is_err() {
            thread::sleep(PAUSE);
        }
    }
}

/// Passes a stream on until it has ended in both directions.
fn pass_stream(client: &TcpStream, to: &[SocketAddr]) {
    let Ok(server) = TcpStream::connect(to) else { return reset_on_close(client) };
    for stream in [client, &server] {
        // Coalescing of segments (Nagle) is left to the first sender.
        let _ = stream.set_nodelay(true);
    }
    let broken = AtomicBool::new(false);
    thread::scope(|scope| {
        let back = Builder::new().stack_size(STACK);
        if back.spawn_scoped(scope, || copy(&server, client, &broken)).is_ok() {
            copy(client, &server, &broken);
        } else {
            broken.store(true, Ordering::Relaxed);
        }
    });
    if broken.into_inner() {
        reset_on_close(client);
        reset_on_close(&server);
    }
}

/// Copies one direction of a stream, its end included.
fn copy(mut from: &TcpStream, mut to: &TcpStream, broken: &AtomicBool) {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            // The end of the stream, unless the other direction has failed and ended this wait.
            Ok(0) => {
                if !broken.load(Ordering::Relaxed) {
                    let _ = to.shutdown(Shutdown::Write);
                }
                return;
            }
            Ok(length) => {
                if to.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    broken.store(true, Ordering::Relaxed);
    // Ends the other direction's wait for data.
    let _ = (from.shutdown(Shutdown::Read), to.shutdown(Shutdown::Read));
}

/// Makes the stream end by a reset when it is closed.
fn reset_on_close(stream: &TcpStream) {
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    // A stream that is already closed needs no reset.
    let _ = setsockopt(stream, sockopt::Linger, &at_once);
}

/// Clients that have sent datagrams.
type Clients = Arc<Mutex<HashMap<SocketAddr, Client>>>;

struct Client {
    /// The socket that is connected to the server.
    socket: Arc<UdpSocket>,
    /// True if the client has sent a datagram since its thread last checked.
    active: Arc<AtomicBool>,
}

fn serve_udp(socket: &Arc<UdpSocket>, to: &[SocketAddr]) {
    let clients = Clients::default();
    let mut datagram = vec![0; BUFFER];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut datagram) else {
            // The error concerns an earlier answer, whose client is gone by now.
            continue;
        };
        let datagram = &datagram[..length];
        let mut known = clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = known.get(&from) {
            client.active.store(true, Ordering::Relaxed);
            let _ = client.socket.send(datagram);
            continue;
        }
        if known.len() >= CLIENTS {
            continue;
        }
        let Some(server) = first_datagram(datagram, to).map(Arc::new) else { continue };
        let active = Arc::new(AtomicBool::new(true));
        known.insert(from, Client { socket: Arc::clone(&server), active: Arc::clone(&active) });
        drop(known);
        let (back, all) = (Arc::clone(socket), Arc::clone(&clients));
        let answers = move || pass_answers(&server, &active, (&back, from), &all);
        if Builder::new().stack_size(STACK).spawn(answers).is_err() {
            clients.lock().unwrap_or_else(PoisonError::into_inner).remove(&from);
        }
    }
}

/// Sends a client's first datagram to the first address at which something listens, or to the last
/// address. Returns a socket that is connected to that address.
fn first_datagram(datagram: &[u8], to: &[SocketAddr]) -> Option<UdpSocket> {
    let mut last = None;
    for to in to {
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let sent = UdpSocket::bind((any, 0)).and_then(|socket| {
            socket.connect(to)?;
            socket.send(datagram)?;
            Ok(socket)
        });
        let Ok(socket) = sent else { continue };
        // On a loopback interface the refusal arrives as soon as the datagram is sent.
        if matches!(socket.take_error(), Ok(None)) {
            return Some(socket);
        }
        last = Some(socket);
    }
    last
}

/// Passes a server's answers to a client, and forgets the client when it is idle.
fn pass_answers(
    server: &UdpSocket,
    active: &AtomicBool,
    (back, client): (&UdpSocket, SocketAddr),
    clients: &Clients,
) {
    let _ = server.set_read_timeout(Some(IDLE));
    let mut datagram = vec![0; BUFFER];
    loop {
        match server.recv(&mut datagram) {
            Ok(length) => {
                let _ = back.send_to(&datagram[..length], client);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let mut clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
                if !active.swap(false, Ordering::Relaxed) {
                    clients.remove(&client);
                    return;
                }
            }
            // Nothing listens there (yet).
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a forwarder's thread for streams to these addresses; returns its own address.
    fn streams_to(to: Vec<SocketAddr>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let at = listener.local_addr().expect("bound");
        thread::spawn(move || serve_tcp(&listener, &to));
        at
    }

    /// An address of the loopback interface where nothing listens.
    fn deserted() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback")
    }

    #[test]
    fn a_stream_passes_with_its_ends_and_goes_to_the_first_that_answers() {
        let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let at = streams_to(vec![deserted(), server.local_addr().expect("bound")]);
        let mut client = TcpStream::connect(at).expect("it listens");
        client.write_all(&[7; 300_000]).expect("sent");
        client.shutdown(Shutdown::Write).expect("ended");
        let (mut accepted, _) = server.accept().expect("a connection");
        let mut came = Vec::new();
        accepted.read_to_end(&mut came).expect("whole");
        assert!(came == [7; 300_000], "{} bytes came", came.len());
        accepted.write_all(b"answer").expect("the other direction is open");
        drop(accepted);
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("whole");
        assert_eq!(answer, "answer");
    }

    #[test]
    fn a_reset_passes_in_both_directions() {
        let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let at = streams_to(vec![server.local_addr().expect("bound")]);
        for by_server in [true, false] {
            let client = TcpStream::connect(at).expect("it listens");
            let (accepted, _) = server.accept().expect("a connection");
            let (ends, mut other) = if by_server { (accepted, client) } else { (client, accepted) };
            reset_on_close(&ends);
            drop(ends);
            let error = other.read(&mut [0]).expect_err("a reset is not an end");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "by the server: {by_server}");
        }
    }

    #[test]
    fn where_nothing_listens_a_stream_is_reset() {
        let mut client = TcpStream::connect(streams_to(vec![deserted()])).expect("it listens");
        let error = client.read(&mut [0]).expect_err("nothing answers");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }

    #[test]
    fn datagrams_of_each_client_have_their_answers() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let refuses = UdpSocket::bind("127.0.0.1:0").and_then(|s| s.local_addr()).expect("bound");
        let to = vec![refuses, server.local_addr().expect("bound")];
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").expect("loopback"));
        let at = socket.local_addr().expect("bound");
        thread::spawn(move || serve_udp(&socket, &to));
        let clients = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback"));
        let mut datagram = [0; 100];
        for round in 0..3 {
            for (n, client) in clients.iter().enumerate() {
                client.send_to(format!("{round} {n}").as_bytes(), at).expect("sent");
            }
            for _ in &clients {
                let (length, from) = server.recv_from(&mut datagram).expect("a datagram");
                server.send_to(&datagram[..length], from).expect("answered");
            }
            for (n, client) in clients.iter().enumerate() {
                client.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
                let length = client.recv(&mut datagram).expect("an answer");
                assert_eq!(datagram[..length], *format!("{round} {n}").as_bytes());
            }
        }
    }
}
