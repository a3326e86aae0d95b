//! falaj between sockets: whoever connects to one address reaches another one through an emulated
//! link.
//!
//! Nothing here asks for privilege: sockets and threads of the standard library, and options of
//! sockets (`socket2`, `nix`). The crate is a stack of layers, told here from the bottom up.
//!
//! # Links
//! `pipes` has the engine of all links, up and down, the packets on their way through it, and when
//! each is due. It knows no socket: whatever is relayed is its cargo.
//!
//! # Memory and backpressure
//! `memory` is the ceiling of all that is on its way. `backpressure` has the limits of the queues,
//! shared with the threads that read: a stream waits for room, a datagram without room is lost.
//!
//! # Sockets
//! `udp` relays datagrams: it remembers who sent them, and has a socket for each client;
//! `local_address` lets the answer come from the address that was asked. `tcp`
//! relays streams, from one socket to the other, first and last words included. A socket has no
//! packets and so no headers: each datagram is charged with those that it would have, and a stream
//! is cut into segments of the link's mtu with theirs. Readers and writers are threads, as the
//! standard library has no other way to wait for several sockets.
//!
//! # Relay
//! [`Relay`] is all of it in the caller's thread, which alone decides and hands over.
//! [`RelaySpec`] says where it listens and what it takes; [`RelayReport`] says what became of it.
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
use falaj_engine::account::Account;
use falaj_engine::classifier::Match;
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

/// What is relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carries {
    /// Datagrams.
    pub udp: bool,
    /// Streams.
    pub tcp: bool,
}

/// What a relay is to be.
#[derive(Clone, Debug)]
pub struct RelaySpec {
    /// Where it listens; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Where everything goes to.
    pub to: SocketAddr,
    /// What it takes.
    pub carries: Carries,
    /// So many clients that send datagrams, and so many streams, at most.
    pub clients: usize,
    /// A client that neither sends nor gets a datagram for so long is forgotten.
    pub idle: Duration,
    /// Bytes for all that is on its way, the records of packets included. Beyond it a datagram is
    /// lost, and a stream has one segment each way.
    pub memory: u64,
}

impl RelaySpec {
    /// Both protocols, 1024 clients, which are forgotten after two minutes (RFC 4787 has none
    /// forgotten sooner), 256 MiB.
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

/// Why a relay cannot start.
#[derive(Debug)]
pub enum Error {
    /// It cannot listen there.
    Listen(SocketAddr, io::Error),
    /// The link's discipline refuses its setup.
    Refused(ConfigErrors),
    /// Streams were asked for, and the link does to packets what no stream bears.
    Breaks,
    /// Streams were asked for, and rules lead through links one behind the other.
    Chain,
    /// What it is to reach is itself.
    Itself(SocketAddr),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Listen(at, error) => write!(f, "cannot listen at {at}: {error}"),
            Error::Refused(refused) => refused.fmt(f),
            Error::Breaks => f.write_str(
                "a stream comes whole and in order: a link that loses, doubles, corrupts or \
                 reorders packets, or whose queues drop any before they are full, takes datagrams \
                 alone (--udp)",
            ),
            Error::Chain => f.write_str(
                "a stream waits at one queue, that of its link: where rules lead through links one \
                 behind the other, datagrams alone are taken (--udp)",
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

/// What a relay has done.
#[derive(Clone, Debug)]
pub struct RelayReport {
    /// Up and down of each link, by flow.
    pub flows: Vec<Vec<RelayFlow>>,
    /// What each rule has taken, and what became of it. A stream is taken once each way, its
    /// packets are what became of it.
    pub rules: Vec<(RuleCounters, SojournStats)>,
    /// Clients that sent datagrams.
    pub clients: u64,
    /// Streams that were accepted.
    pub streams: u64,
    /// Up and down of each link, how disciplines of libraries broke their contract.
    pub breaches: Vec<Vec<Breach>>,
    /// Datagrams and streams that were lost outside the queues: how many, and why.
    pub losses: [(u64, &'static str); 7],
    /// Bytes that were on their way at most, the records of packets included.
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

/// What the threads tell the one that decides.
enum RelayMessage {
    Udp(udp::UdpMessage),
    Tcp(tcp::TcpMessage),
}

/// What is on its way through the link.
enum RelayItem {
    Udp(udp::Datagram),
    Tcp(tcp::Segment),
}

/// What a link does to packets it does to datagrams: a stream comes once, and as it was.
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

/// So many packets that were read wait for the deciding thread at most; more wait where the system
/// keeps them.
const WAITING: usize = 512;
/// Waking up takes up to about this long; it is spun for.
const SPIN: Duration = Duration::from_micros(60);
/// How soon a wish to stop is seen.
const LOOK: Duration = Duration::from_millis(50);

/// What a reader or a writer needs of a stack; there may be thousands.
const STACK: usize = 128 << 10;

/// What packets look like, as far as a relay knows.
struct PacketHeaders {
    /// The least of all links, up and down.
    mtu: [u32; 2],
    to: SocketAddr,
}

const UDP: Protocol = Protocol::UDP;
const TCP: Protocol = Protocol::TCP;

impl PacketHeaders {
    /// What is known of a packet between this client and the far address.
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

    /// The headers of IP and of the transport.
    fn headers(&self, protocol: Protocol) -> u32 {
        let ip = if self.to.ip().to_canonical().is_ipv4() { 20 } else { 40 };
        ip + if protocol == TCP { 20 } else { 8 }
    }

    /// An IP packet with so much payload.
    fn length(&self, protocol: Protocol, payload: usize) -> u32 {
        u32::try_from(payload).unwrap_or(u32::MAX).saturating_add(self.headers(protocol))
    }

    /// The most payload of a segment.
    fn segment(&self, way: usize) -> usize {
        self.mtu[way].saturating_sub(self.headers(TCP)).max(1) as usize
    }
}

/// What the flows and rules of a scenario ask for that a relay does not know of what it carries, as
/// it was written, and who asks.
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
        Term::Sport(..) | Term::Dport(..) | Term::Length(..) | Term::Mark(_) => false,
        _ => true,
    }
}

/// What a packet is charged.
#[derive(Clone, Copy)]
struct Charge {
    account: Account,
    headers: u32,
}

impl Charge {
    /// With so much payload.
    fn of(self, payload: usize) -> u32 {
        let payload = u32::try_from(payload).unwrap_or(u32::MAX);
        self.account.from_ip(payload.saturating_add(self.headers)).max(1)
    }
}

/// All that the deciding thread has.
struct Core {
    pipes: Pipes<RelayItem>,
    headers: PacketHeaders,
    sender: SyncSender<RelayMessage>,
    memory: Arc<RelayMemory>,
    losses: RelayLosses,
    /// Set when all is over.
    stop: Arc<AtomicBool>,
}

impl Core {
    /// Where a packet with so much payload goes in, between this client and the far address. Where
    /// no rule lets it in, or no flow takes it, it goes nowhere.
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

    /// What a thread that reads a socket needs: where its messages go, and memory for them.
    fn reader(&self) -> (SyncSender<RelayMessage>, Arc<RelayMemory>) {
        (self.sender.clone(), Arc::clone(&self.memory))
    }

    /// What packets of a protocol are charged there.
    fn charge(&self, entry: &Route, protocol: Protocol) -> Charge {
        Charge { account: self.pipes.account(entry), headers: self.headers.headers(protocol) }
    }
}

/// Listens for what is asked for. Both protocols share a port, even where the system chooses it.
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
            // The port that is free for streams may be taken for datagrams.
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
            udp => return Ok((udp?, tcp)),
        }
    }
}

/// Returns true if what is sent to an address comes to who listens at the other.
fn reaches(at: SocketAddr, to: SocketAddr) -> bool {
    let (listens, sent) = (at.ip().to_canonical(), to.ip().to_canonical());
    // Who listens everywhere listens at each address that is of this host, and can be bound.
    let is_ours = || UdpSocket::bind((sent, 0)).is_ok();
    at.port() == to.port()
        && (listens == sent
            || listens.is_unspecified() && (sent.is_unspecified() || is_ours())
            || sent.is_unspecified() && listens.is_loopback())
}

/// A relay that listens.
pub struct Relay {
    core: Core,
    messages: Receiver<RelayMessage>,
    udp: Option<udp::Udp>,
    tcp: Option<tcp::Tcp>,
}

impl Relay {
    /// Listens; what comes waits for [`Relay::run`].
    ///
    /// # Errors
    /// The address is taken or not ours; the links cannot be.
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

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(tcp::Tcp::address).or(self.udp.as_ref().map(udp::Udp::address))
    }

    /// Relays until `stop` is set.
    ///
    /// # Errors
    /// A thread cannot be started, or a socket not be made ready.
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
                (self.core.memory.refused(), "datagrams found no memory (--memory)"),
                (losses.not_taken, "datagrams were not taken by the far end"),
                (losses.refused, "streams were refused by the far end"),
                (losses.broken, "streams were reset because the link lost a part of them"),
            ],
        })
    }

    /// What was read, or nothing if something is due first.
    fn next_message(&self) -> Option<RelayMessage> {
        let due = self.core.pipes.next_due();
        let now = self.core.pipes.now();
        let left = if due == Time::NEVER { Span::from_secs(1) } else { due.since(now) };
        let sleep = Duration::from_nanos(left.0).saturating_sub(SPIN).min(LOOK);
        // The core has a sender itself, so the channel is never disconnected: an error is the end
        // of the time.
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
            // A lost datagram is counted where it was lost.
            _ => {}
        }
    }
}
