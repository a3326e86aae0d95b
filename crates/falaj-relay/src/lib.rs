//! A relay between sockets: clients that connect to the relay's address reach another address
//! through an emulated link.
//!
//! The relay needs no privileges: it uses sockets and threads of the standard library, and socket
//! options (`socket2`, `nix`). The crate is a stack of layers, described here from the bottom up.
//!
//! # Links
//! `pipes` has the engine of all links, up and down, the packets in transit, and their due times.
//! It does not use sockets, and does not look into the relayed data.
//!
//! # Memory and backpressure
//! `memory` limits the memory of all data in transit. `backpressure` has the limits of the queues,
//! shared with the threads that read: a stream waits for room, a datagram without room is lost.
//!
//! # Sockets
//! `udp` relays datagrams: it remembers their senders, and has a socket for each client.
//! `local_address` sends answers from the address that the client has used. `tcp` relays streams
//! from one socket to the other, including the setup and the end of connections. Sockets show
//! neither packets nor headers. So the relay adds to each datagram the length of the headers that
//! its packet would have, and cuts a stream into segments that fit the link's MTU with their
//! headers. Readers and writers are threads, as the standard library has no other way to wait for
//! several sockets.
//!
//! # Relay
//! [`Relay`] runs all of it in the caller's thread. Only this thread makes decisions; it sends due
//! datagrams, and passes due segments to the writer threads. [`RelaySpec`] is its configuration;
//! [`RelayReport`] is its result.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

mod backpressure;
mod local_address;
mod memory;
mod pipes;
mod tcp;
mod udp;

pub use pipes::RelayFlow;

use falaj_engine::Corrupt;
use falaj_engine::classifier::Match;
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::header::Protocol;
use falaj_engine::impair::Impairments;
use falaj_engine::impair::transit::Impairment;
use falaj_engine::key::Key;
use falaj_engine::masks::SojournStats;
use falaj_engine::network::{Route, RouteError};
use falaj_engine::rules::{RouteRule, RuleCounters};
use falaj_engine::table::Field;
use falaj_engine::term::{Literal, Term};
use falaj_scenario::{Direction, Link, Scenario};
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::units::time::{Span, Time};
use memory::RelayMemory;
use pipes::{Cargo, IngressRoute, PacketOutcome, Pipes, UP};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use std::{fmt, io};

/// The protocols that are relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carries {
    /// Datagrams.
    pub udp: bool,
    /// Streams.
    pub tcp: bool,
}

/// The configuration of a relay.
#[derive(Clone, Debug)]
pub struct RelaySpec {
    /// Address to listen at; with port 0 the system chooses one.
    pub listen: SocketAddr,
    /// Address to which everything is relayed.
    pub to: SocketAddr,
    /// The protocols.
    pub carries: Carries,
    /// The largest number of clients that send datagrams, and of streams.
    pub clients: usize,
    /// A client that neither sends nor gets a datagram for this time is forgotten once the table of
    /// clients is full and another client sends.
    pub idle: Duration,
    /// Limit of memory for all data in transit, in bytes, the records of packets included. When the
    /// memory is used up, arriving datagrams are lost, and each stream has at most one segment in
    /// transit in each direction.
    pub memory: u64,
}

impl RelaySpec {
    /// A relay of both protocols for 1024 clients, with 256 MiB. Clients may be forgotten after two
    /// minutes of silence, the shortest time that RFC 4787 allows.
    pub fn new(listen: SocketAddr, to: SocketAddr) -> RelaySpec {
        RelaySpec {
            listen,
            to,
            carries: Carries { udp: true, tcp: true },
            clients: 1024,
            idle: Duration::from_secs(120),
            memory: 256 << 20,
        }
    }
}

/// The reason why a relay cannot start.
#[derive(Debug)]
pub enum Error {
    /// The relay cannot listen at this address.
    Listen(SocketAddr, io::Error),
    /// A link's discipline refuses its setup.
    Refused(ConfigErrors),
    /// Streams are enabled, but a link has impairments that break streams, or drops packets before
    /// its queues are full.
    Breaks,
    /// Streams are enabled, but rules lead through several links in sequence.
    Chain,
    /// The address to reach is the relay's own.
    Itself(SocketAddr),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Listen(at, error) => write!(f, "cannot listen at {at}: {error}"),
            Error::Refused(refused) => refused.fmt(f),
            Error::Breaks => f.write_str(
                "a stream must arrive whole and in order: a link that loses, duplicates, corrupts \
                 or reorders packets, or whose queues drop any before they are full, accepts only \
                 datagrams (--udp)",
            ),
            Error::Chain => f.write_str(
                "a stream waits only in the queue of one link: if rules lead through several \
                 links, \
                 only datagrams are accepted (--udp)",
            ),
            Error::Itself(to) => write!(
                f,
                "{to} is where this relay would listen itself: each packet would come back to it \
                 without end; listen at another port"
            ),
        }
    }
}
impl std::error::Error for Error {}

/// The results of a relay.
#[derive(Clone, Debug)]
pub struct RelayReport {
    /// Results of the flows: for each link the directions up and down, and for each direction its
    /// flows.
    pub flows: Vec<Vec<RelayFlow>>,
    /// Counters of the packets that each rule has taken, and their statistics. A stream counts as
    /// taken once in each direction; the statistics count its packets.
    pub rules: Vec<(RuleCounters, SojournStats)>,
    /// Number of clients that sent datagrams.
    pub clients: u64,
    /// Number of streams that were accepted.
    pub streams: u64,
    /// Breaches of contract by plugin disciplines: for each link, the directions up and down.
    pub breaches: Vec<Vec<Breach>>,
    /// Datagrams and streams that were lost outside the queues, with the reasons.
    pub losses: [(u64, &'static str); 7],
    /// The largest number of bytes in transit, the records of packets included.
    pub most_memory: u64,
}

#[derive(Clone, Copy, Default)]
struct RelayLosses {
    unmatched: u64,
    full_table: u64,
    forgotten: u64,
    not_taken: u64,
    refused: u64,
    broken: u64,
}

/// Messages to the deciding thread.
enum RelayMessage {
    Udp(udp::UdpMessage),
    Tcp(tcp::TcpMessage),
}

/// Data in transit through the link.
enum RelayItem {
    Udp(udp::Datagram),
    Tcp(tcp::Segment),
}

/// Only datagrams are duplicated or corrupted: with streams, no link has such impairments.
impl Cargo for RelayItem {
    fn copy(&self) -> Option<RelayItem> {
        match self {
            RelayItem::Udp(datagram) => Some(RelayItem::Udp(datagram.clone())),
            RelayItem::Tcp(_) => None,
        }
    }

    fn corrupt(&mut self, corrupt: &Corrupt) {
        if let RelayItem::Udp(datagram) = self {
            datagram.corrupt(corrupt);
        }
    }
}

/// The largest number of packets that were read and wait for the deciding thread; further ones stay
/// in the system's buffers.
const WAITING: usize = 512;
/// The thread spins for this time before a packet is due, because waking up can take about as long.
const SPIN: Duration = Duration::from_micros(60);
/// The longest time until the relay notices a request to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Stack size of a reader or writer; there may be thousands.
const STACK: usize = 128 << 10;

/// The headers of packets, as a relay assumes them.
struct PacketHeaders {
    /// The smallest MTU of all links, up and down.
    mtu: [u32; 2],
    to: SocketAddr,
}

const UDP: Protocol = Protocol::UDP;
const TCP: Protocol = Protocol::TCP;

impl PacketHeaders {
    /// The assumed key of a packet between this client and the far address.
    fn key(&self, way: usize, protocol: Protocol, client: SocketAddr, length: u32) -> Key {
        let (from, to) = if way == UP { (client, self.to) } else { (self.to, client) };
        Key {
            src: Some(from.ip().to_canonical()),
            dst: Some(to.ip().to_canonical()),
            protocol: Some(protocol),
            ports: Some((from.port(), to.port())),
            length: Some(length),
            ..Key::default()
        }
    }

    /// Length of the IP header and the transport header together.
    fn headers(&self, protocol: Protocol) -> u32 {
        let ip = if self.to.ip().to_canonical().is_ipv4() { 20 } else { 40 };
        ip + if protocol == TCP { 20 } else { 8 }
    }

    /// Length of an IP packet with this payload.
    fn length(&self, protocol: Protocol, payload: usize) -> u32 {
        u32::try_from(payload).unwrap_or(u32::MAX).saturating_add(self.headers(protocol))
    }

    /// The largest payload of a segment.
    fn segment(&self, way: usize) -> usize {
        self.mtu[way].saturating_sub(self.headers(TCP)).max(1) as usize
    }
}

/// Terms in the flows and rules of a scenario that depend on fields unknown to a relay, as they are
/// written, each with the flow or rule that has it.
pub fn unknown(scenario: &Scenario) -> Vec<(String, String)> {
    let of = |asks: String, matches: &[Match]| {
        let terms = matches.iter().flat_map(|one| &one.more).filter(|literal| is_unknown(literal));
        terms.map(|literal| (literal.to_string(), asks.clone())).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    for rule in &scenario.rules {
        all.extend(of(format!("rule `{}`", rule.name), &rule.rule.matches));
    }
    let flows = |direction: &Direction| {
        direction
            .flows
            .iter()
            .flat_map(|flow| of(format!("flow `{}`", flow.name), &flow.matches))
            .collect::<Vec<_>>()
    };
    all.extend(
        scenario.links.iter().flat_map(|link| [flows(&link.up), flows(&link.down)]).flatten(),
    );
    let mut told = Vec::new();
    for one in all {
        if !told.contains(&one) {
            told.push(one);
        }
    }
    told
}

fn is_unknown(literal: &Literal) -> bool {
    match &literal.term {
        Term::In(field, _) => matches!(field, Field::Dscp | Field::Vlan),
        Term::Version(_) | Term::Protocol(_) | Term::Src(_) | Term::Dst(_) => false,
        Term::Sport(..) | Term::Dport(..) | Term::Length(..) | Term::Mark { .. } => false,
        _ => true,
    }
}

/// The accounting layer and the headers, from which the bytes that a link counts for a packet are
/// computed.
#[derive(Clone, Copy)]
struct Charge {
    layer: CountedLayer,
    headers: u32,
}

impl Charge {
    /// The bytes that the link counts for a packet with this payload.
    fn of(self, payload: usize) -> u32 {
        let payload = u32::try_from(payload).unwrap_or(u32::MAX);
        self.layer.from_ip(payload.saturating_add(self.headers)).max(1)
    }
}

/// State of the deciding thread.
struct Core {
    pipes: Pipes<RelayItem>,
    headers: PacketHeaders,
    sender: SyncSender<RelayMessage>,
    memory: Arc<RelayMemory>,
    losses: RelayLosses,
    /// Set when the relay ends.
    stop: Arc<AtomicBool>,
}

impl Core {
    /// The route of a packet with this payload, between this client and the far address; `None` if
    /// no rule admits it, or no flow matches.
    fn route(
        &mut self,
        way: usize,
        protocol: Protocol,
        client: SocketAddr,
        payload: usize,
    ) -> Option<IngressRoute> {
        let length = self.headers.length(protocol, payload);
        let key = self.headers.key(way, protocol, client, length);
        let led = self.pipes.route(key, way, length);
        self.losses.unmatched += u64::from(matches!(led, Err(RouteError::Unmatched)));
        led.ok()
    }

    /// The resources of a thread that reads a socket: the channel for its messages, and memory for
    /// them.
    fn reader(&self) -> (SyncSender<RelayMessage>, Arc<RelayMemory>) {
        (self.sender.clone(), Arc::clone(&self.memory))
    }

    /// The accounting of packets of a protocol on this route.
    fn charge(&self, entry: &Route, protocol: Protocol) -> Charge {
        Charge { layer: self.pipes.layer(entry), headers: self.headers.headers(protocol) }
    }
}

/// Listens for the enabled protocols. Both share a port, even if the system chooses it.
fn listen(
    spec: &RelaySpec,
    scenario: &Scenario,
) -> io::Result<(Option<udp::Udp>, Option<tcp::Tcp>)> {
    let Carries { udp, tcp } = spec.carries;
    let mut tries = if spec.listen.port() == 0 { 16 } else { 1 };
    loop {
        tries -= 1;
        let tcp = tcp.then(|| tcp::Tcp::new(spec.listen, spec, scenario)).transpose()?;
        let at = tcp.as_ref().map_or(spec.listen, tcp::Tcp::address);
        match udp.then(|| udp::Udp::new(at, spec)).transpose() {
            // The port that is free for streams may be in use for datagrams.
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
            udp => return Ok((udp?, tcp)),
        }
    }
}

/// Returns true if data sent to the address `to` reach a listener at the address `at`.
fn reaches(at: SocketAddr, to: SocketAddr) -> bool {
    let (listens, sent) = (at.ip().to_canonical(), to.ip().to_canonical());
    // A listener at all addresses listens at each address of this host. An address belongs to this
    // host if it can be bound.
    let is_ours = || UdpSocket::bind((sent, 0)).is_ok();
    at.port() == to.port()
        && (listens == sent
            || listens.is_unspecified() && (sent.is_unspecified() || is_ours())
            || sent.is_unspecified() && listens.is_loopback())
}

/// A listening relay.
pub struct Relay {
    core: Core,
    messages: Receiver<RelayMessage>,
    udp: Option<udp::Udp>,
    tcp: Option<tcp::Tcp>,
}

impl Relay {
    /// Begins to listen; arriving data wait for [`Relay::run`].
    ///
    /// # Errors
    /// The relay cannot listen at its address, a link is invalid or cannot carry streams, or the
    /// address to reach is the relay's own.
    pub fn new(spec: &RelaySpec, scenario: &Scenario) -> Result<Relay, Error> {
        let breaks = |i: &Impairments| i.all().any(Impairment::breaks_streams);
        let pipes = Pipes::new(scenario).map_err(Error::Refused)?;
        let mut directions = scenario.links.iter().flat_map(|link| [&link.up, &link.down]);
        if spec.carries.tcp
            && (pipes.drop_early() || directions.any(|d| breaks(&d.pipe.impairments)))
        {
            return Err(Error::Breaks);
        }
        if spec.carries.tcp && scenario.rules.iter().any(|rule| RouteRule::leads_on(&rule.rule)) {
            return Err(Error::Chain);
        }
        let (sender, messages) = sync_channel(WAITING);
        let mtu =
            |of: fn(&Link) -> &Direction| scenario.links.iter().map(|link| of(link).mtu).min();
        let core = Core {
            pipes,
            headers: PacketHeaders {
                mtu: [mtu(|l| &l.up), mtu(|l| &l.down)].map(|mtu| mtu.unwrap_or(1500)),
                to: spec.to,
            },
            sender,
            memory: RelayMemory::new(spec.memory),
            losses: RelayLosses::default(),
            stop: Arc::new(AtomicBool::new(false)),
        };
        let (udp, tcp) =
            listen(spec, scenario).map_err(|error| Error::Listen(spec.listen, error))?;
        let relay = Relay { core, messages, udp, tcp };
        if relay.address().is_some_and(|at| reaches(at, spec.to)) {
            return Err(Error::Itself(spec.to));
        }
        Ok(relay)
    }

    /// The address at which the relay listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(tcp::Tcp::address).or(self.udp.as_ref().map(udp::Udp::address))
    }

    /// Relays until `stop` is set.
    ///
    /// # Errors
    /// A thread cannot be started, or a socket cannot be set up.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<RelayReport> {
        if let Some(udp) = &self.udp {
            udp.start(&self.core)?;
        }
        if let Some(tcp) = &self.tcp {
            tcp.start(&self.core)?;
        }
        while !stop.load(Ordering::Relaxed) {
            for fate in self.core.pipes.poll() {
                self.hand_over(fate);
            }
            let Some(message) = self.next_message() else { continue };
            self.take(message);
        }
        self.core.stop.store(true, Ordering::Relaxed);
        self.core.pipes.close();
        if let Some(tcp) = &mut self.tcp {
            tcp.end();
        }
        let losses = self.core.losses;
        Ok(RelayReport {
            flows: self.core.pipes.flows(),
            breaches: self.core.pipes.breaches(),
            rules: self.core.pipes.rules(),
            clients: self.udp.as_ref().map_or(0, udp::Udp::clients),
            streams: self.tcp.as_ref().map_or(0, tcp::Tcp::streams),
            most_memory: self.core.memory.most(),
            losses: [
                (
                    losses.unmatched + self.core.pipes.unmatched(),
                    "datagrams and streams matched no rule",
                ),
                (
                    losses.full_table,
                    "datagrams and streams came from clients for which there was no place",
                ),
                (losses.forgotten, "clients were forgotten for newer ones, as the table was full"),
                (
                    self.core.memory.refused(),
                    "datagrams were dropped for lack of memory (--memory)",
                ),
                (losses.not_taken, "datagrams were not accepted by the far end"),
                (losses.refused, "streams were refused by the far end"),
                (losses.broken, "streams were reset because the link lost a part of them"),
            ],
        })
    }

    /// The next message of a reader; `None` if a packet is due first, or if none comes in [`LOOK`].
    fn next_message(&self) -> Option<RelayMessage> {
        let due = self.core.pipes.next_due();
        let now = self.core.pipes.now();
        let left = if due == Time::NEVER { Span::from_secs(1) } else { due.since(now) };
        let sleep = Duration::from_nanos(left.0).saturating_sub(SPIN).min(LOOK);
        // The core has a sender itself, so the channel is never disconnected: an error means that
        // the time has expired.
        if sleep.is_zero() {
            std::hint::spin_loop();
            return self.messages.try_recv().ok();
        }
        self.messages.recv_timeout(sleep).ok()
    }

    fn take(&mut self, message: RelayMessage) {
        match (message, &mut self.udp, &mut self.tcp) {
            (RelayMessage::Udp(message), Some(udp), _) => udp.take(message, &mut self.core),
            (RelayMessage::Tcp(message), _, Some(tcp)) => tcp.take(message, &mut self.core),
            _ => {}
        }
    }

    fn hand_over(&mut self, fate: PacketOutcome<RelayItem>) {
        match (fate, &mut self.udp, &mut self.tcp) {
            (PacketOutcome::Due(RelayItem::Udp(datagram)), Some(udp), _) => {
                udp.hand_over(&datagram, &mut self.core);
            }
            (PacketOutcome::Due(RelayItem::Tcp(segment)), _, Some(tcp)) => {
                tcp.hand_over(segment, &mut self.core);
            }
            (PacketOutcome::Lost(RelayItem::Tcp(segment)), _, Some(tcp)) => {
                tcp.lost(&segment, &mut self.core);
            }
            // A lost datagram was counted where it was lost.
            _ => {}
        }
    }
}
