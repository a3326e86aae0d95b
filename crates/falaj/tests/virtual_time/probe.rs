//! Probes that run at both ends of a link: an echo of datagrams and its client; numbered datagrams;
//! a flood; a connection that is idle for a long time; values that depend on chance.

use nix::sys::socket::{setsockopt, sockopt};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant, SystemTime};

const PORT: u16 = 7007;

pub(crate) fn main(words: &[&str]) {
    match words {
        ["echo"] => echo(),
        ["ask", count, gap, length] => ask(
            count.parse().expect("a number"),
            Duration::from_millis(gap.parse().expect("milliseconds")),
            length.parse().expect("bytes"),
        ),
        ["numbers", "send", count, gap, length] => send_numbers(
            count.parse().expect("a number"),
            Duration::from_micros(gap.parse().expect("microseconds")),
            length.parse().expect("bytes"),
        ),
        ["numbers", "receive"] => receive_numbers(),
        ["sink", ports] => sink(ports.parse().expect("a number")),
        ["flood", ports, millis, gap] => flood(
            ports.parse().expect("a number"),
            Duration::from_millis(millis.parse().expect("milliseconds")),
            Duration::from_micros(gap.parse().expect("microseconds")),
        ),
        ["chance"] => chance(),
        ["answer"] => answer(),
        ["idle", seconds] => idle(Duration::from_secs(seconds.parse().expect("seconds"))),
        _ => panic!("no probe is called {words:?}"),
    }
}

fn echo() {
    let socket = UdpSocket::bind(("0.0.0.0", PORT)).expect("the port is free");
    let mut bytes = [0; 2048];
    loop {
        let (length, from) = socket.recv_from(&mut bytes).expect("datagrams come");
        socket.send_to(&bytes[..length], from).expect("and go");
    }
}

/// Sends `count` numbered datagrams, one every `gap`.
fn send_numbers(count: u32, gap: Duration, length: usize) {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("an address");
    socket.connect(("10.0.0.2", PORT)).expect("an address");
    let began = Instant::now();
    let mut bytes = vec![0; length];
    for number in 0..count {
        std::thread::sleep((gap * number).saturating_sub(began.elapsed()));
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        socket.send(&bytes).expect("it is sent");
    }
}

/// Prints the numbers of the datagrams that arrive, until none has come for two seconds.
fn receive_numbers() {
    let socket = UdpSocket::bind(("0.0.0.0", PORT)).expect("the port is free");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("it can time out");
    let mut bytes = [0; 2048];
    while socket.recv(&mut bytes).is_ok() {
        println!("{}", u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")));
    }
}

/// Sends `count` datagrams, one every `gap`, and prints each round-trip time in nanoseconds.
fn ask(count: u64, gap: Duration, length: usize) {
    let peer = std::env::var("FALAJ_PEER").expect("there is a peer");
    let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("an address");
    socket.connect((peer, PORT)).expect("an address");
    let receiver = socket.try_clone().expect("a descriptor");
    let began = Instant::now();
    let heard = std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        let mut all = vec![None; count as usize];
        while all.contains(&None) {
            receiver.recv(&mut bytes).expect("an answer");
            let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            let sent = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
            all[number as usize] = Some(began.elapsed().as_nanos() as u64 - sent);
        }
        all.into_iter().flatten().collect::<Vec<_>>()
    });
    // After 100 ms the echo at the other end has started.
    std::thread::sleep(Duration::from_millis(100));
    let mut bytes = vec![0; length.max(16)];
    for number in 0..count {
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..16].copy_from_slice(&(began.elapsed().as_nanos() as u64).to_le_bytes());
        socket.send(&bytes).expect("it goes");
        std::thread::sleep(gap);
    }
    heard.join().expect("all answers came").iter().for_each(|nanos| println!("{nanos}"));
}

/// First destination port of a flood; no process reads from these ports.
const FLOODED: u16 = 5000;

fn sink(ports: u16) {
    let open = |n| UdpSocket::bind(("0.0.0.0", FLOODED + n)).expect("the port is free");
    let _held: Vec<UdpSocket> = (0..ports).map(open).collect();
    loop {
        std::thread::park();
    }
}

/// Sends a datagram every `gap`, to one port after the other, for the time `long`.
fn flood(ports: u16, long: Duration, gap: Duration) {
    let peer = std::env::var("FALAJ_PEER").expect("there is a peer");
    let socket = || UdpSocket::bind(("0.0.0.0", 0)).expect("an address");
    let sockets: Vec<UdpSocket> = (0..ports).map(|_| socket()).collect();
    // After 100 ms the other end has started.
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    let mut number = 0;
    while began.elapsed() < long {
        let port = number % ports;
        let length = 100 + usize::from(number) * 271 % 1300;
        let to = (&*peer, FLOODED + port);
        sockets[usize::from(port)].send_to(&vec![0; length], to).expect("it goes");
        number += 1;
        std::thread::sleep(gap);
    }
}

/// Echoes the data of a connection.
fn answer() {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).expect("the port is free");
    let (mut connection, _) = listener.accept().expect("a connection");
    let mut bytes = [0; 64];
    while let Ok(length @ 1..) = connection.read(&mut bytes) {
        connection.write_all(&bytes[..length]).expect("it goes");
    }
}

/// Opens a connection with a keep-alive interval of one minute, leaves it idle for `time`, and then
/// checks that the other end still answers. Prints the number of keep-alive probes that the kernel
/// sent.
fn idle(time: Duration) {
    let peer = std::env::var("FALAJ_PEER").expect("there is a peer");
    // After 100 ms the other end has started.
    std::thread::sleep(Duration::from_millis(100));
    let mut connection = TcpStream::connect((peer, PORT)).expect("it answers");
    setsockopt(&connection, sockopt::KeepAlive, &true).expect("kept alive");
    setsockopt(&connection, sockopt::TcpKeepIdle, &60).expect("each minute");
    setsockopt(&connection, sockopt::TcpKeepInterval, &60).expect("each minute");
    std::thread::sleep(time);
    connection.write_all(b"there?").expect("it goes");
    let mut bytes = [0; 6];
    connection.read_exact(&mut bytes).expect("an answer");
    assert_eq!(&bytes, b"there?");
    println!("{}", kept_alive());
}

/// Returns the number of keep-alive probes that this namespace's kernel sent.
fn kept_alive() -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").expect("there is /proc/net/netstat");
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = lines.next().zip(lines.next()).expect("names and values");
    let mut both = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = both.find(|(name, _)| *name == "TCPKeepAlive").expect("it is counted");
    value.parse().expect("a number")
}

/// Prints values that differ from run to run unless randomness is fixed.
fn chance() {
    use std::hash::{BuildHasher, RandomState};
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("an address");
    let port = socket.local_addr().expect("an address").port();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let stack = &raw const port as usize;
    let hash = RandomState::new().hash_one(1);
    println!("{} {port} {} {stack:x} {hash:x}", std::process::id(), now.as_nanos());
}
