//! Arbitrary behavior of clients and servers, as a plain function for any fuzzer. Here its input is
//! random bytes; `make fuzz` runs it with libFuzzer.

use falaj_relay::{Carries, Relay, RelaySpec};
use proptest::prelude::*;
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);
/// Longer than any step of these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);
/// The first byte of a stream for which the far end sends all data back. The other values of that
/// byte select other behavior.
const ECHOES: u8 = 0;

/// A relay of both protocols, and a relay of datagrams alone with impairments. They are shared by
/// all inputs, so that a failure caused by one input shows in the next one, too.
static RELAYS: LazyLock<[SocketAddr; 2]> = LazyLock::new(|| {
    let to = far_end();
    let plain = "[link.x]\nrate = \"1gbit\"\ndelay = \"100us\"\nscheduler = { kind = \"fifo\", queue = \"20kB\" }\n";
    let rough = "[link.x]\nrate = \"50mbit\"\nmtu = \"600B\"\nloss = \"10%\"\nduplicate = \"10%\"\ncorrupt = \"10%\"\nreorder = \"10%\"\n\
                 delay = \"1ms\"\njitter = \"500us\"\n[link.y]\nrate = \"unlimited\"\n[[rule]]\nmatch = \"length 0-100\"\nto = \"drop\"\n\
                 [[rule]]\nto = [\"x\", \"y\"]\n";
    [(plain, true), (rough, false)].map(|(text, tcp)| {
        let scenario = falaj_scenario::parse(text, "relay.toml").expect("a scenario").0;
        // A small table, so that it is sometimes full.
        let spec = RelaySpec {
            carries: Carries { udp: true, tcp },
            clients: 12,
            idle: Duration::from_millis(50),
            ..RelaySpec::new(ANY.into(), to)
        };
        let relay = Relay::new(&spec, &scenario).expect("a relay");
        let address = relay.address().expect("where it listens");
        thread::spawn(move || relay.run(&AtomicBool::new(false)));
        address
    })
});

/// A far end that answers datagrams, and treats each stream as its first byte says.
fn far_end() -> SocketAddr {
    let (listener, socket) = loop {
        let listener = TcpListener::bind(ANY).expect("a port");
        if let Ok(socket) = UdpSocket::bind(listener.local_addr().expect("an address")) {
            break (listener, socket);
        }
    };
    let address = socket.local_addr().expect("an address");
    thread::spawn(move || {
        let mut datagram = vec![0; 65_536];
        loop {
            // If the client has ended, its host refuses the answer, and the next call reports this.
            let Ok((length, from)) = socket.recv_from(&mut datagram) else { continue };
            for _ in 0..datagram[..length].first().map_or(1, |&first| first % 3) {
                let _ = socket.send_to(&datagram[..length], from);
            }
        }
    });
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || treat(stream));
        }
    });
    address
}

/// Treats a stream as its first byte says; any step may fail.
fn treat(mut stream: TcpStream) -> Option<()> {
    let (mut how, mut bytes) = ([0], [0; 4096]);
    stream.read_exact(&mut how).ok()?;
    match how[0] {
        ECHOES => loop {
            match stream.read(&mut bytes).ok()? {
                0 => return stream.shutdown(Shutdown::Write).ok(),
                length => stream.write_all(&bytes[..length]).ok()?,
            }
        },
        1 => reset(&stream),
        // Closing a socket with unread data resets the stream, too.
        2 => thread::sleep(Duration::from_millis(3)),
        3 => {
            stream.shutdown(Shutdown::Write).ok()?;
            while stream.read(&mut bytes).ok()? > 0 {}
        }
        4 => stream.write_all(&[7; 30_000]).ok()?,
        _ => {}
    }
    Some(())
}

fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// A client's stream; for a stream that is sent back, the data that were sent and that came back.
struct Stream {
    socket: TcpStream,
    echoes: bool,
    sent: Vec<u8>,
    came: Vec<u8>,
    ended: bool,
}

impl Stream {
    fn new(to: SocketAddr, how: u8) -> Option<Stream> {
        let socket = TcpStream::connect(to).ok()?;
        // If nothing listens at the port, the system may choose the same port for the client, which
        // is then its own peer.
        if socket.local_addr().ok()? == to {
            return None;
        }
        socket.set_nonblocking(true).expect("a socket");
        // If the table was full, the stream is reset already.
        (&socket).write_all(&[how]).ok()?;
        Some(Stream {
            socket,
            echoes: how == ECHOES,
            sent: Vec::new(),
            came: Vec::new(),
            ended: false,
        })
    }

    fn write(&mut self, bytes: &[u8]) {
        if !self.ended
            && let Ok(length) = (&self.socket).write(bytes)
        {
            self.sent.extend(&bytes[..length]);
        }
    }

    fn end(&mut self) {
        self.ended = true;
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Reads all available data; returns true if the stream has ended.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match (&self.socket).read(&mut bytes) {
                Ok(0) => return true,
                Ok(length) => self.came.extend(&bytes[..length]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // If the table was full, the stream is reset at once.
                Err(e) => {
                    assert!(
                        !self.echoes || self.came.is_empty(),
                        "{e} after {} of {}",
                        self.came.len(),
                        self.sent.len()
                    );
                    self.echoes = false;
                    return true;
                }
            }
        }
        assert!(
            !self.echoes || self.sent.starts_with(&self.came),
            "what comes back is what was sent, in order"
        );
        false
    }

    /// Ends the stream. Returns true if all data came back, as they must if the stream was
    /// accepted.
    fn whole(mut self) -> bool {
        self.end();
        let began = Instant::now();
        while !self.read() {
            assert!(
                began.elapsed() < PATIENCE,
                "a stream goes on for ever: {} of {} came",
                self.came.len(),
                self.sent.len()
            );
            thread::sleep(Duration::from_micros(50));
        }
        assert!(
            !self.echoes || self.came == self.sent,
            "{} of {} came",
            self.came.len(),
            self.sent.len()
        );
        reset(&self.socket);
        self.echoes
    }
}

/// Interprets bytes as the behavior of clients and of a far end: they send, end, reset, leave, read
/// or do not read. In every case, the data that come back are those that were sent, and a good
/// datagram and a good stream pass afterwards.
pub(crate) fn relay(bytes: &[u8]) {
    const CLIENTS: usize = 3;
    let Some((&which, bytes)) = bytes.split_first() else { return };
    let to = RELAYS[usize::from(which) % 2];
    let client = || {
        let socket = UdpSocket::bind(ANY).expect("a socket");
        socket.connect(to).expect("a way there");
        socket.set_nonblocking(true).expect("a socket");
        socket
    };
    let mut sockets = [(); CLIENTS].map(|()| client());
    let mut streams: [Option<Stream>; CLIENTS] = [const { None }; CLIENTS];
    let mut datagram = vec![0; 65_536];
    for piece in bytes.chunks(3).take(60) {
        let &[what, n, size] = piece else { break };
        let text = vec![n; usize::from(size) * 257];
        let n = usize::from(n) % CLIENTS;
        match what % 10 {
            0 | 1 => drop(sockets[n].send(&text)),
            2 => while sockets[n].recv(&mut datagram).is_ok() {},
            3 => sockets[n] = client(),
            4 => streams[n] = Stream::new(to, size % 6),
            5 => streams[n] = Stream::new(to, ECHOES),
            6 => drop(streams[n].as_mut().map(|stream| stream.write(&text))),
            7 => drop(streams[n].as_mut().map(Stream::read)),
            8 => drop(streams[n].as_mut().map(Stream::end)),
            // The client leaves, with or without a reset.
            _ => {
                if size % 2 == 0
                    && let Some(stream) = &streams[n]
                {
                    reset(&stream.socket);
                }
                streams[n] = None;
            }
        }
    }
    for stream in streams.into_iter().flatten() {
        stream.whole();
    }
    drop(sockets);

    // The table may still be full of clients that have ended, and a link loses packets: a good
    // datagram is sent again until it comes back.
    let (began, socket) = (Instant::now(), client());
    socket.set_nonblocking(false).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time");
    let good = [1; 300];
    loop {
        let _ = socket.send(&good);
        if matches!(socket.recv(&mut datagram), Ok(length) if datagram[..length] == good) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "no good datagram passes any more");
    }
    let began = Instant::now();
    while usize::from(which) % 2 == 0 {
        if let Some(mut stream) = Stream::new(to, ECHOES) {
            stream.write(b"a good one");
            if stream.whole() {
                break;
            }
        }
        assert!(began.elapsed() < PATIENCE, "no good stream passes any more");
        thread::sleep(Duration::from_millis(5));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(48)
    })]

    #[test]
    fn whatever_they_do_it_goes_on(bytes in prop::collection::vec(any::<u8>(), 0..150)) {
        relay(&bytes);
    }
}
