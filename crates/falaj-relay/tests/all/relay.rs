//! A relay between sockets of the loopback interface.

use falaj_relay::{Carries, Error, Relay, RelayReport, RelaySpec};
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);
/// Longer than any step of these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<RelayReport>,
}

impl Running {
    fn new(to: SocketAddr, link: &Scenario) -> Running {
        Running::with(&RelaySpec::new(ANY.into(), to), link)
    }

    fn with(spec: &RelaySpec, link: &Scenario) -> Running {
        let relay = Relay::new(spec, link).unwrap();
        let address = relay.address().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        Running { address, stop, thread: thread::spawn(move || relay.run(&told).unwrap()) }
    }

    fn end(self) -> RelayReport {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn link(rate: Rate, delay_ms: u64, queue: Limit) -> Scenario {
    Scenario::simple(rate, Span::from_millis(delay_ms), queue, 1500)
}

fn delay(ms: u64) -> Scenario {
    link(Rate::UNLIMITED, ms, Limit::Packets(1000))
}

/// Answers each datagram twice with its contents.
fn echo() -> SocketAddr {
    let socket = UdpSocket::bind(ANY).unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(&[&buffer[..length], &buffer[..length]].concat(), from).unwrap();
        }
    });
    address
}

fn client(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(ANY).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(to).unwrap();
    socket
}

fn stream(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Accepts one stream and passes it to `treat`.
fn serve<T: Send + 'static>(
    treat: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (SocketAddr, JoinHandle<T>) {
    let listener = TcpListener::bind(ANY).unwrap();
    let address = listener.local_addr().unwrap();
    (address, thread::spawn(move || treat(listener.accept().unwrap().0)))
}

fn text(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 % 251) as u8).collect()
}

#[test]
fn datagrams_of_many_clients_find_their_way_back() {
    let relay = Running::new(echo(), &delay(10));
    let clients: Vec<UdpSocket> = (0..20).map(|_| client(relay.address)).collect();
    for round in 0u8..3 {
        let began = Instant::now();
        for (n, client) in clients.iter().enumerate() {
            client.send(&[n as u8, round, 9]).unwrap();
        }
        for (n, client) in clients.iter().enumerate() {
            let mut answer = [0; 10];
            assert_eq!(client.recv(&mut answer).unwrap(), 6);
            assert_eq!(answer[..6], [n as u8, round, 9, n as u8, round, 9]);
            assert!(began.elapsed() >= Duration::from_millis(20), "{:?}", began.elapsed());
        }
    }
    let report = relay.end();
    assert_eq!((report.clients, report.streams), (20, 0));
    assert_eq!(report.flows.iter().map(|pipe| pipe[0].counters.sent).collect::<Vec<_>>(), [60, 60]);
    // Bytes are counted with the headers of UDP, IP and Ethernet.
    assert_eq!(report.flows[0][0].counters.sent_bytes, 60 * (3 + 8 + 20 + 14));
    assert!(report.losses.iter().all(|&(n, _)| n == 0), "{:?}", report.losses);
}

#[test]
fn a_full_queue_and_the_mtu_cost_datagrams() {
    let sink = UdpSocket::bind(ANY).unwrap();
    // 10 packets of 1042 B are queued and one is on the wire; the link takes a second for each.
    let scenario = link(Rate(8_336), 0, Limit::Packets(10));
    let relay = Running::new(sink.local_addr().unwrap(), &scenario);
    let client = client(relay.address);
    client.send(&[0; 1473]).unwrap();
    for _ in 0..30 {
        client.send(&[0; 1000]).unwrap();
    }
    sink.set_read_timeout(Some(PATIENCE)).unwrap();
    sink.recv(&mut [0; 2000]).unwrap();
    let report = relay.end();
    let counters = report.flows[0][0].counters;
    assert_eq!((counters.offered, counters.dropped_large), (31, 1));
    assert_eq!(counters.dropped_full, 19, "{counters:?}");
}

#[test]
fn unknown_senders_lock_no_client_out_of_a_full_table() {
    let spec = RelaySpec { clients: 2, ..RelaySpec::new(ANY.into(), echo()) };
    let relay = Running::with(&spec, &delay(0));
    let exchange = |client: &UdpSocket| {
        client.send(b"a").unwrap();
        client.recv(&mut [0; 9]).unwrap();
    };
    // The client sends again after an answer; clients that have sent only once are removed before
    // it.
    let known = client(relay.address);
    exchange(&known);
    exchange(&known);
    for _ in 0..5 {
        exchange(&client(relay.address));
    }
    exchange(&known);
    let report = relay.end();
    assert_eq!(report.clients, 6, "the known one kept its place");
    let forgotten = report.losses.iter().find(|(_, why)| why.contains("forgotten"));
    assert_eq!(forgotten.map(|(n, _)| *n), Some(4), "{report:?}");
}

#[test]
fn a_relay_to_itself_is_refused() {
    for [listen, to] in [["127.0.0.1", "127.0.0.1"], ["0.0.0.0", "127.0.0.1"], ["[::]", "[::1]"]] {
        // The port is free now. If another program takes it before the test uses it, the error
        // differs, and another port is tried.
        let refusals = (0..100).map(|_| {
            let free = UdpSocket::bind(ANY).unwrap().local_addr().unwrap().port();
            let [listen, to] = [listen, to].map(|ip| format!("{ip}:{free}").parse().unwrap());
            Relay::new(&RelaySpec::new(listen, to), &delay(0)).err().unwrap().to_string()
        });
        let refused = refusals.into_iter().find(|refused| !refused.contains("in use")).unwrap();
        assert!(refused.contains("where this relay would listen itself"), "{refused}");
    }
    let other = Relay::new(&RelaySpec::new(ANY.into(), echo()), &delay(0));
    assert!(other.is_ok());
}

/// A client accepts answers only from the address that it has used, one of several of this host.
#[test]
fn an_answer_comes_from_the_address_that_was_asked() {
    for (listen, asked) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "127.0.0.2"), ("[::]:0", "::1")]
    {
        let spec = RelaySpec::new(listen.parse().unwrap(), echo());
        let relay = Running::with(&spec, &delay(0));
        let asked: IpAddr = asked.parse().unwrap();
        let own: IpAddr = if asked.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { asked };
        let client = UdpSocket::bind((own, 0)).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.connect((asked, relay.address.port())).unwrap();
        for _ in 0..3 {
            client.send(b"a").unwrap();
            assert_eq!(client.recv(&mut [0; 9]).unwrap(), 2, "{listen} asked at {asked}");
        }
        relay.end();
    }
}

/// If far ends do not read, waiting data use memory. The memory is bounded, and the next stream
/// still passes.
#[test]
fn unread_streams_leave_memory_for_others() {
    let far = TcpListener::bind(ANY).unwrap();
    let (memory, unread) = (2 << 20, 24);
    let spec = RelaySpec { memory, ..RelaySpec::new(ANY.into(), far.local_addr().unwrap()) };
    let relay = Running::with(&spec, &link(Rate::UNLIMITED, 0, Limit::Packets(1000)));
    let mut held = Vec::new();
    for _ in 0..unread {
        let mut client = stream(relay.address);
        held.push((far.accept().unwrap().0, client.try_clone().unwrap()));
        thread::spawn(move || while client.write(&[0; 1 << 16]).is_ok_and(|n| n > 0) {});
    }
    let mut client = stream(relay.address);
    let (mut server, _) = far.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let sent = text(1 << 20);
    let copy = sent.clone();
    let writer = thread::spawn(move || client.write_all(&copy).map(|()| client));
    let mut came = vec![0; sent.len()];
    server.read_exact(&mut came).unwrap();
    assert_eq!(came, sent);
    drop(writer.join().unwrap());
    let report = relay.end();
    // Beyond the limit, each direction may have a segment, and the data that its threads have just
    // read.
    let beyond = 2 * (unread + 1) * 2 * 2_048;
    assert!(report.most_memory <= memory + beyond, "{}", report.most_memory);
    assert!(report.most_memory > memory / 2, "nobody filled it: {}", report.most_memory);
    drop(held);
}

#[test]
fn a_stream_arrives_whole_and_late() {
    let (to, server) = serve(|mut stream| {
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        // The client has ended its direction; the direction to the client is still open.
        stream.write_all(&got[..100_000]).unwrap();
        got
    });
    let relay = Running::new(to, &delay(10));
    let began = Instant::now();
    let mut client = stream(relay.address);
    let sent = text(3_000_000);
    client.write_all(&sent).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    // The first round trip opens the stream, the second carries the question and the answer.
    assert!(began.elapsed() >= Duration::from_millis(40), "{:?}", began.elapsed());
    assert!(server.join().unwrap() == sent && answer == sent[..100_000]);
    let report = relay.end();
    assert_eq!(report.streams, 1);
    assert_eq!(
        report.flows.iter().map(|pipe| pipe[0].counters.dropped()).collect::<Vec<_>>(),
        [0, 0]
    );
}

#[test]
fn a_full_queue_makes_a_stream_wait() {
    let (to, server) = serve(|mut stream| {
        let began = Instant::now();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        (got, began.elapsed())
    });
    let relay = Running::new(to, &link(Rate::from_mbit(20), 0, Limit::Packets(10)));
    let mut client = stream(relay.address);
    let sent = text(1_000_000);
    client.write_all(&sent).unwrap();
    drop(client);
    let (got, took) = server.join().unwrap();
    assert!(got == sent);
    // A million bytes, with 54 bytes of headers for each 1460 bytes, at 20 Mbit/s.
    let least = Duration::from_secs_f64(8.0 * 1e6 * (1514.0 / 1460.0) / 20e6);
    assert!(took > least - Duration::from_millis(20), "{took:?} is less than {least:?}");
    let counters = relay.end().flows[0][0].counters;
    assert!(counters.dropped() == 0 && counters.max_backlog <= 13, "{counters:?}");
}

#[test]
fn a_receiver_that_does_not_read_stops_the_sender() {
    let (to, server) = serve(|stream| stream);
    let relay = Running::new(to, &link(Rate::from_mbit(1000), 1, Limit::Packets(50)));
    let mut client = stream(relay.address);
    let held = server.join().unwrap();
    client.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let chunk = text(1 << 16);
    let mut written = 0usize;
    while let Ok(n) = client.write(&chunk) {
        written += n;
        assert!(written < 200 << 20, "nobody stops it");
    }
    drop((held, relay.end()));
}

#[test]
fn a_reset_crosses_the_link() {
    for from_server in [false, true] {
        let reset = |stream: &TcpStream| {
            socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
        };
        let (read, has_read) = std::sync::mpsc::channel();
        let (to, server) = serve(move |mut stream| {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_exact(&mut [0; 5]).unwrap();
            read.send(()).unwrap();
            if from_server {
                reset(&stream);
                return None;
            }
            Some(stream.read(&mut [0; 5]).map_err(|error| error.kind()))
        });
        let relay = Running::new(to, &delay(5));
        let mut client = stream(relay.address);
        client.write_all(b"hello").unwrap();
        let seen = if from_server {
            server.join().unwrap();
            client.read(&mut [0; 5]).map_err(|error| error.kind())
        } else {
            // A reset discards data that were not read yet.
            has_read.recv_timeout(PATIENCE).unwrap();
            reset(&client);
            drop(client);
            server.join().unwrap().unwrap()
        };
        assert_eq!(
            seen,
            Err(std::io::ErrorKind::ConnectionReset),
            "from the server: {from_server}"
        );
        relay.end();
    }
}

#[test]
fn a_refusal_comes_back_as_a_reset() {
    let nobody = TcpListener::bind(ANY).unwrap().local_addr().unwrap();
    let relay = Running::new(nobody, &delay(10));
    let began = Instant::now();
    let mut client = stream(relay.address);
    assert_eq!(client.read(&mut [0; 5]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    assert!(began.elapsed() >= Duration::from_millis(20), "{:?}", began.elapsed());
    let report = relay.end();
    assert!(report.losses.contains(&(1, "streams were refused by the far end")), "{report:?}");
}

#[test]
fn many_streams_and_datagrams_share_a_link_and_its_flows() {
    let text = r#"
        [link.shared]
        rate = "50mbit"
        delay = "2ms"
        [link.shared.scheduler]
        kind = "drr"
        [link.shared.flow.streams]
        match = "tcp"
        queue = "10p"
        [link.shared.flow.rest]
        match = "any"
        queue = "100p"
    "#;
    let (scenario, _) = falaj_scenario::parse(text, "shared.toml").unwrap();
    let listener = TcpListener::bind(ANY).unwrap();
    let to = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
        }
    });
    // Datagrams go to the same port, where nothing listens for them; they are counted on the link
    // all the same.
    let relay = Running::new(to, &scenario);
    let talk = |n: usize| {
        let mut client = stream(relay.address);
        thread::spawn(move || {
            let sent: Vec<u8> = self::text(50_000 + n);
            let mut writer = client.try_clone().unwrap();
            let question = sent.clone();
            let writing = thread::spawn(move || {
                writer.write_all(&question).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            let mut got = Vec::new();
            client.read_to_end(&mut got).unwrap();
            writing.join().unwrap();
            got == sent
        })
    };
    let talks: Vec<_> = (0..12).map(talk).collect();
    let datagrams = client(relay.address);
    for _ in 0..5 {
        // Some sends fail, because nothing listens there.
        let _ = datagrams.send(b"x");
    }
    assert!(talks.into_iter().all(|talk| talk.join().unwrap()));
    let report = relay.end();
    let [streams, rest] = [0, 1].map(|flow| report.flows[0][flow].counters);
    assert!(streams.sent_bytes > 12 * 50_000 && streams.dropped() == 0, "{streams:?}");
    assert_eq!((report.streams, rest.offered), (12, 5));
}

#[test]
fn one_protocol_alone() {
    let (udp, tcp) = (Carries { udp: true, tcp: false }, Carries { udp: false, tcp: true });
    let spec = |carries| RelaySpec { carries, ..RelaySpec::new(ANY.into(), echo()) };
    let relay = Running::with(&spec(udp), &delay(0));
    assert!(TcpStream::connect(relay.address).is_err());
    relay.end();
    let relay = Running::with(&spec(tcp), &delay(0));
    let datagrams = client(relay.address);
    let refused = (0..2)
        .map(|_| datagrams.send(b"x").and_then(|_| datagrams.recv(&mut [0; 9])))
        .any(|r| r.is_err());
    assert!(refused);
    relay.end();
}

#[test]
fn what_a_link_does_to_packets_it_does_to_datagrams_alone() {
    let text = "[link.l]\nrate = \"unlimited\"\nduplicate = \"100%\"\n[link.l.down]\nduplicate = \"0%\"\n\
                [link.l.flow.all]\nmatch = \"any\"\nqueue = \"10p\"\n";
    let (link, _) = falaj_scenario::parse(text, "doubles.toml").unwrap();
    let spec = |udp, tcp| RelaySpec {
        carries: Carries { udp, tcp },
        ..RelaySpec::new(ANY.into(), echo())
    };
    for (udp, tcp) in [(true, true), (false, true)] {
        assert!(matches!(Relay::new(&spec(udp, tcp), &link), Err(Error::Breaks)));
    }
    for early in [
        text.replace("\"10p\"", "{ limit = \"60p\", policy = \"codel\" }"),
        text.replace("[link.l.down]", "scheduler = { kind = \"fq_codel\" }\n[link.l.down]"),
    ] {
        let text = early
            .replace("duplicate = \"100%\"", "rate = \"1mbit\"")
            .replace("rate = \"unlimited\"\n", "");
        let (link, _) = falaj_scenario::parse(&text, "early.toml").unwrap();
        assert!(matches!(Relay::new(&spec(true, true), &link), Err(Error::Breaks)), "{text}");
    }
    let relay = Running::with(&spec(true, false), &link);
    let client = client(relay.address);
    client.send(b"once").unwrap();
    for _ in 0..2 {
        let mut answer = [0; 9];
        assert_eq!(client.recv(&mut answer).unwrap(), 8);
        assert_eq!(&answer[..8], b"onceonce");
    }
    assert_eq!(relay.end().flows[0][0].counters.duplicated, 1);
}

const RULED: &str = r#"
    [link.slow]
    rate = "unlimited"
    delay = "40ms"
    [link.fast]
    rate = "unlimited"
    delay = "1ms"
    [[rule]]
    name = "long"
    match = "udp length 500-1500"
    to = "slow"
    [[rule]]
    name = "streams"
    match = "tcp"
    probability = "50%"
    to = "slow"
    [[rule]]
    name = "none"
    match = "udp length 100-499"
    to = "drop"
    [[rule]]
    name = "rest"
    direction = "up"
    to = "fast"
    [[rule]]
    name = "back"
    to = "pass"
"#;

#[test]
fn rules_lead_each_datagram_and_each_stream() {
    let (scenario, _) = falaj_scenario::parse(RULED, "ruled.toml").unwrap();
    // Streams and datagrams have the same address, where both are sent back.
    let (listener, socket) = loop {
        let listener = TcpListener::bind(ANY).unwrap();
        if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()) {
            break (listener, socket);
        }
    };
    let to = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(b"!", from).unwrap();
        }
    });
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
        }
    });
    let relay = Running::new(to, &scenario);
    let asks = client(relay.address);
    let took = |length: usize| {
        let began = Instant::now();
        asks.send(&vec![0; length]).unwrap();
        asks.recv(&mut [0; 9]).map(|_| began.elapsed())
    };
    // With its headers a datagram is longer by 28 bytes; answers pass no link.
    assert!(took(472).unwrap() >= Duration::from_millis(40));
    assert!((0..20).any(|_| took(71).unwrap() < Duration::from_millis(35)));
    asks.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(took(72).is_err(), "it was dropped");
    for n in 0..12 {
        let mut client = stream(relay.address);
        let sent = text(10_000 + n);
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert!(got == sent, "whole and in order");
    }
    let report = relay.end();
    let taken: Vec<u64> = report.rules.iter().map(|(taken, _)| taken.packets).collect();
    let [long, streams, none, rest, back] = taken[..] else { panic!("{taken:?}") };
    assert_eq!((long, none), (1, 1), "{taken:?}");
    // The rules are applied to a stream once in each direction, and choose randomly.
    assert!(0 < streams && streams < 24, "{taken:?}");
    let slow = report.flows[0][0].counters;
    assert!(slow.sent > 1 && slow.dropped() == 0 && report.flows.len() == 4, "{slow:?}");
    assert!(rest > 1 && back > 1 && report.losses.iter().all(|&(n, _)| n == 0), "{report:?}");
}

#[test]
fn datagrams_alone_pass_links_one_behind_the_other() {
    let text = "[link.a]\nrate = \"unlimited\"\ndelay = \"10ms\"\n[link.b]\nrate = \"80kbit\"\ndelay = \"20ms\"\n\
                [link.b.flow.all]\nmatch = \"any\"\nqueue = \"5p\"\n\
                [[rule]]\ndirection = \"up\"\nto = \"a\"\nthen = \"on\"\n[[rule]]\ndirection = \"up\"\nto = \"b\"\n\
                [[rule]]\nto = \"a\"\n";
    let (scenario, _) = falaj_scenario::parse(text, "chain.toml").unwrap();
    let spec = |udp, tcp| RelaySpec {
        carries: Carries { udp, tcp },
        ..RelaySpec::new(ANY.into(), echo())
    };
    assert!(matches!(Relay::new(&spec(true, true), &scenario), Err(Error::Chain)));
    let relay = Running::with(&spec(true, false), &scenario);
    let client = client(relay.address);
    let began = Instant::now();
    client.send(b"x").unwrap();
    client.recv(&mut [0; 9]).unwrap();
    // 10 ms and 20 ms to the far end, 4.3 ms for transmission on the second link, and 10 ms back.
    assert!(began.elapsed() >= Duration::from_millis(44), "{:?}", began.elapsed());
    for _ in 0..20 {
        client.send(&[0; 700]).unwrap();
    }
    client.recv(&mut [0; 2000]).unwrap();
    let report = relay.end();
    let [a, b] = [0, 2].map(|pipe| report.flows[pipe][0].counters);
    // The queue of the second link holds five packets, and one more is in transmission.
    assert_eq!((a.offered, a.dropped(), b.offered), (21, 0, 21));
    assert!(b.dropped_full >= 14, "{b:?}");
    assert!(
        report.rules[0].0.packets == 21 && report.rules[1].1.dropped >= 14,
        "{:?}",
        report.rules
    );
}
