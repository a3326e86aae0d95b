//! Datagrams: each client has a socket, as in a network address translator, so that answers reach
//! the right client.

use crate::local_address::{AnsweringSocket, Received};
use crate::memory::{Held, RelayMemory};
use crate::pipes::{DOWN, UP};
use crate::{Core, RelayItem, RelayMessage as Any, RelaySpec, STACK};
use falaj_engine::Corrupt;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

/// The longest datagram, in bytes.
const LONGEST: usize = 65_536;
/// The longest time until a reader thread notices that it is no longer needed.
const LOOK: Duration = Duration::from_millis(200);

/// A message from a reader.
pub(crate) enum UdpMessage {
    /// The sender, the address of this host to which it has sent (if the relay listens at all
    /// addresses), and the payload.
    FromClient(SocketAddr, Option<IpAddr>, Held),
    /// The client to which the answer goes, and the payload.
    FromServer(SocketAddr, Held),
}

/// A datagram in transit.
#[derive(Clone)]
pub(crate) struct Datagram {
    pipe: usize,
    client: SocketAddr,
    bytes: Held,
}

impl Datagram {
    /// Flips a bit of the payload.
    pub(crate) fn corrupt(&mut self, corrupt: &Corrupt) {
        corrupt.flip(&mut self.bytes);
    }
}

struct UdpClient {
    socket: Arc<UdpSocket>,
    /// The address of this host to which the client sends, if the relay listens at all addresses;
    /// answers are sent from this address.
    asked: Option<IpAddr>,
    active: Instant,
    /// True if the client has sent again after an answer: its address is not forged, and it sends
    /// more than once.
    is_known: bool,
    answered: bool,
    gone: Arc<AtomicBool>,
}

impl Drop for UdpClient {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

/// The clients, and the address to which their datagrams are sent.
pub(crate) struct Udp {
    socket: Arc<AnsweringSocket>,
    address: SocketAddr,
    to: SocketAddr,
    limit: usize,
    idle: Duration,
    clients: BTreeMap<SocketAddr, UdpClient>,
    seen: u64,
}

/// Starts a thread that calls `receive` until `gone` is set.
fn read(
    gone: Arc<AtomicBool>,
    (sender, memory): (SyncSender<Any>, Arc<RelayMemory>),
    receive: impl Fn(&mut [u8]) -> io::Result<Received> + Send + 'static,
    message: impl Fn(&Received, Held) -> UdpMessage + Send + 'static,
) -> io::Result<()> {
    let body = move || {
        let mut buffer = vec![0; LONGEST];
        while !gone.load(Ordering::Relaxed) {
            match receive(&mut buffer) {
                Ok(received) => {
                    let Some(bytes) = memory.try_hold(&buffer[..received.length]) else { continue };
                    if sender.send(Any::Udp(message(&received, bytes))).is_err() {
                        return;
                    }
                }
                // If no server listens at the far address, its host refuses the datagram.
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
                    ) => {}
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                // The pause prevents a busy loop after other errors.
                Err(_) => thread::sleep(LOOK),
            }
        }
    };
    thread::Builder::new().stack_size(STACK).spawn(body).map(drop)
}

impl Udp {
    pub(crate) fn new(listen: SocketAddr, spec: &RelaySpec) -> io::Result<Udp> {
        let socket = AnsweringSocket::bind(listen)?;
        Ok(Udp {
            address: socket.socket().local_addr()?,
            socket: Arc::new(socket),
            to: spec.to,
            limit: spec.clients,
            idle: spec.idle,
            clients: BTreeMap::new(),
            seen: 0,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn clients(&self) -> u64 {
        self.seen
    }

    pub(crate) fn start(&self, core: &Core) -> io::Result<()> {
        let socket = self.socket.clone();
        socket.socket().set_read_timeout(Some(LOOK))?;
        let from_client =
            |received: &Received, bytes| UdpMessage::FromClient(received.from, received.to, bytes);
        read(core.stop.clone(), core.reader(), move |buffer| socket.receive(buffer), from_client)
    }

    pub(crate) fn take(&mut self, message: UdpMessage, core: &mut Core) {
        let (pipe, client, asked, bytes) = match message {
            UdpMessage::FromClient(client, asked, bytes) => (UP, client, asked, bytes),
            UdpMessage::FromServer(client, bytes) => (DOWN, client, None, bytes),
        };
        if pipe == UP && !self.clients.contains_key(&client) && self.admit(client, core).is_err() {
            core.losses.full_table += 1;
            return;
        }
        // An answer for a forgotten client is dropped.
        let Some(known) = self.clients.get_mut(&client) else { return };
        known.active = Instant::now();
        known.asked = asked.or(known.asked);
        known.is_known |= pipe == UP && known.answered;
        known.answered |= pipe == DOWN;
        let Some(way) = core.route(pipe, crate::UDP, client, bytes.len()) else { return };
        let length = core.headers.length(crate::UDP, bytes.len());
        core.pipes.offer(&way, length, RelayItem::Udp(Datagram { pipe, client, bytes }));
    }

    /// Adds a new client and opens its socket. If the table is full, all clients that have been
    /// silent for the idle time are removed. If there are none, the client that has been silent for
    /// the longest time is removed. Clients that have not sent again after an answer are removed
    /// first, so that a thousand unknown senders cannot displace a known client.
    fn admit(&mut self, client: SocketAddr, core: &mut Core) -> io::Result<()> {
        if self.clients.len() >= self.limit {
            let idle = self.idle;
            self.clients.retain(|_, client| client.active.elapsed() < idle);
        }
        if self.clients.len() >= self.limit {
            let oldest = self.clients.iter().min_by_key(|(_, one)| (one.is_known, one.active));
            let oldest = oldest.map(|(address, _)| *address);
            if oldest.and_then(|address| self.clients.remove(&address)).is_some() {
                core.losses.forgotten += 1;
            }
        }
        let any: SocketAddr = if self.to.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = Arc::new(UdpSocket::bind(any)?);
        socket.connect(self.to)?;
        socket.set_read_timeout(Some(LOOK))?;
        let gone = Arc::new(AtomicBool::new(false));
        let from_server = socket.clone();
        let receive = move |buffer: &mut [u8]| {
            let (length, from) = from_server.recv_from(buffer)?;
            Ok(Received { length, from, to: None })
        };
        let answer = move |_: &Received, bytes| UdpMessage::FromServer(client, bytes);
        read(gone.clone(), core.reader(), receive, answer)?;
        let (active, is_known, answered) = (Instant::now(), false, false);
        let known = UdpClient { socket, asked: None, active, is_known, answered, gone };
        self.clients.insert(client, known);
        self.seen += 1;
        Ok(())
    }

    pub(crate) fn hand_over(&mut self, datagram: &Datagram, core: &mut Core) {
        let sent = match (datagram.pipe, self.clients.get(&datagram.client)) {
            (UP, Some(client)) => client.socket.send(&datagram.bytes),
            (DOWN, client) => {
                let asked = client.and_then(|client| client.asked);
                self.socket.send(&datagram.bytes, datagram.client, asked)
            }
            _ => Err(ErrorKind::NotConnected.into()),
        };
        if sent.is_err() {
            core.losses.not_taken += 1;
        }
    }
}
