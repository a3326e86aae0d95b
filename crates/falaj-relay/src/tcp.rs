//! Streams: read from one socket, cut into segments, carried through the link, and written to the
//! other socket.
//!
//! No part of a stream is lost. If a packet would find no room, the reader waits; then TCP's own
//! window makes the sender wait, too. The messages that open, end and reset a stream cross the link
//! like its data. A connection is made at the far end when the open message arrives, and the
//! client's data are read when the answer has come back, one round trip later.

use crate::backpressure::QueueRoom;
use crate::memory::Held;
use crate::pipes::{DOWN, IngressRoute, UP};
use crate::{Core, RelayItem, RelayMessage as Any, RelaySpec, STACK};
use falaj_engine::network::Route;
use falaj_scenario::{Direction, Scenario};
use falaj_sched::queues::queue::Limit;
use socket2::SockRef;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// The longest time until a blocked writer thread notices that it is no longer needed.
const LOOK: Duration = Duration::from_millis(200);
/// The longest time for the far end to accept a connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// The smallest and the largest window of a stream in one direction, in bytes.
const WINDOW: (u64, u64) = (1 << 20, 64 << 20);

/// Events of the sockets.
pub(crate) enum TcpMessage {
    Accepted(TcpStream, SocketAddr),
    Connected(u64, Option<TcpStream>),
    /// Data were read, and have taken room in the queue that they enter.
    Read(u64, usize, Queued),
    /// The sender in this direction has ended the stream.
    Ended(u64, usize),
    /// The socket that feeds this direction is broken.
    Broken(u64, usize),
}

/// Bytes of a stream to be queued, and their route.
pub(crate) struct Queued {
    way: IngressRoute,
    bytes: Held,
}

/// A packet of a stream on the link: a message or data.
pub(crate) struct Segment {
    stream: u64,
    pipe: usize,
    what: SegmentContent,
}

enum SegmentContent {
    Open,
    Opened,
    Bytes(Held),
    End,
    Reset,
}

/// Commands for a writer.
enum WriterCommand {
    Bytes(Held),
    End,
}

/// One socket of a stream.
struct StreamSide {
    socket: Arc<TcpStream>,
    /// True if the socket has been reset.
    broken: Arc<AtomicBool>,
    /// The channel to the socket's writer thread.
    writer: Option<Sender<WriterCommand>>,
}

impl StreamSide {
    /// Resets the socket, so that its peer learns that the stream is incomplete.
    fn reset(&mut self) {
        if self.broken.swap(true, Ordering::Relaxed) {
            return;
        }
        // With a linger time of zero, closing the last handle sends a reset. Readers and writers
        // have handles too: readers wake up, and writers notice the reset.
        let _ = SockRef::from(&*self.socket).set_linger(Some(Duration::ZERO));
        let _ = self.socket.shutdown(Shutdown::Read);
        self.writer = None;
    }
}

/// The last message of one direction of a stream. A reset may still follow an end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LastWord {
    Nothing,
    End,
    Reset,
}

struct RelayStream {
    /// Routes up and down. All data of a direction take the same route, so that they stay in order.
    ways: [IngressRoute; 2],
    /// The client's socket, then the server's.
    sides: [Option<StreamSide>; 2],
    /// For each direction: room for the data that are read and not yet written.
    windows: [Arc<QueueRoom>; 2],
    /// For each direction: the last message that was sent, if any.
    said: [LastWord; 2],
    /// For each direction: true if its last message has arrived, or none can arrive any more.
    over: [bool; 2],
}

/// The streams, and the socket that accepts them.
pub(crate) struct Tcp {
    listener: Arc<TcpListener>,
    address: SocketAddr,
    to: SocketAddr,
    limit: usize,
    /// The window of a stream in each pipe.
    windows: Vec<Limit>,
    streams: BTreeMap<u64, RelayStream>,
    seen: u64,
}

/// The window of a stream: the link's rate times twice its delay, within the bounds of `WINDOW`;
/// the upper bound if the rate is unlimited.
fn window(direction: &Direction) -> Limit {
    let rate = direction.pipe.setup.rate;
    let bytes = u128::from(rate.0) * u128::from(direction.pipe.delay.0) / 8_000_000_000;
    let bytes =
        if rate.is_unlimited() { WINDOW.1 } else { u64::try_from(bytes).unwrap_or(u64::MAX) };
    Limit::Bytes(bytes.saturating_mul(2).clamp(WINDOW.0, WINDOW.1))
}

impl Tcp {
    pub(crate) fn new(
        listen: SocketAddr,
        spec: &RelaySpec,
        scenario: &Scenario,
    ) -> io::Result<Tcp> {
        let listener = TcpListener::bind(listen)?;
        Ok(Tcp {
            address: listener.local_addr()?,
            listener: Arc::new(listener),
            to: spec.to,
            limit: spec.clients,
            windows: scenario
                .links
                .iter()
                .flat_map(|link| [&link.up, &link.down])
                .map(window)
                .collect(),
            streams: BTreeMap::new(),
            seen: 0,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn streams(&self) -> u64 {
        self.seen
    }

    /// The window of a stream; if its packets pass no link (the bypass), the upper bound.
    fn window(&self, entry: &Route) -> Limit {
        self.windows.get(entry.pipe.0 as usize).copied().unwrap_or(Limit::Bytes(WINDOW.1))
    }

    pub(crate) fn start(&self, core: &Core) -> io::Result<()> {
        let (listener, sender, stop) =
            (self.listener.clone(), core.sender.clone(), core.stop.clone());
        let body = move || {
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, client)) => {
                        if sender.send(Any::Tcp(TcpMessage::Accepted(stream, client))).is_err() {
                            return;
                        }
                    }
                    // Perhaps no file descriptors are available, or a client has left. The pause
                    // prevents a busy loop.
                    Err(_) => thread::sleep(LOOK),
                }
            }
        };
        thread::Builder::new().stack_size(STACK).spawn(body).map(drop)
    }

    /// Resets all open streams, and wakes the thread that accepts.
    pub(crate) fn end(&mut self) {
        for stream in self.streams.values_mut() {
            stream.windows.iter().for_each(|window| window.close());
            stream.sides.iter_mut().flatten().for_each(StreamSide::reset);
        }
        let mut own = self.address;
        if own.ip().is_unspecified() {
            own.set_ip(if own.is_ipv4() {
                Ipv4Addr::LOCALHOST.into()
            } else {
                Ipv6Addr::LOCALHOST.into()
            });
        }
        let _ = TcpStream::connect_timeout(&own, LOOK);
    }

    pub(crate) fn take(&mut self, message: TcpMessage, core: &mut Core) {
        match message {
            TcpMessage::Accepted(socket, client) => self.accept(socket, client, core),
            TcpMessage::Connected(id, server) => self.connected(id, server, core),
            // Data of a stream that has ended cross the link too, and are dropped at its far end.
            TcpMessage::Read(id, pipe, Queued { way, bytes }) => {
                let length = core.headers.length(crate::TCP, bytes.len());
                let segment = Segment { stream: id, pipe, what: SegmentContent::Bytes(bytes) };
                core.pipes.input(&way, length, RelayItem::Tcp(segment), true);
            }
            TcpMessage::Ended(id, pipe) => self.say(id, pipe, SegmentContent::End, core),
            TcpMessage::Broken(id, pipe) => self.say(id, pipe, SegmentContent::Reset, core),
        }
    }

    fn accept(&mut self, socket: TcpStream, client: SocketAddr, core: &mut Core) {
        let mut side = StreamSide::new(socket);
        if self.streams.len() >= self.limit {
            core.losses.full_table += 1;
            side.reset();
            return;
        }
        let up = core.route(UP, crate::TCP, client, 0);
        let ways = up.and_then(|up| Some([up, core.route(DOWN, crate::TCP, client, 0)?]));
        let Some(ways) = ways else {
            side.reset();
            return;
        };
        self.seen += 1;
        let id = self.seen;
        let stream = RelayStream {
            sides: [Some(side), None],
            windows: ways
                .map(|way| Arc::new(QueueRoom::window(self.window(&way.entry), &core.memory))),
            ways,
            said: [LastWord::Nothing; 2],
            over: [false; 2],
        };
        self.streams.insert(id, stream);
        self.say(id, UP, SegmentContent::Open, core);
    }

    fn connected(&mut self, id: u64, server: Option<TcpStream>, core: &mut Core) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let Some(server) = server else {
            core.losses.refused += 1;
            stream.over[UP] = true;
            self.say(id, DOWN, SegmentContent::Reset, core);
            return;
        };
        let side = stream.sides[1].insert(StreamSide::new(server));
        if side.start(id, DOWN, stream.ways[DOWN], &stream.windows, core).is_err() {
            side.reset();
            self.say(id, DOWN, SegmentContent::Reset, core);
            return;
        }
        self.say(id, DOWN, SegmentContent::Opened, core);
    }

    /// Sends a message without data. In each direction, an end and a reset are sent at most once,
    /// and no end after a reset.
    fn say(&mut self, id: u64, pipe: usize, what: SegmentContent, core: &mut Core) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let last = match what {
            SegmentContent::End => LastWord::End,
            SegmentContent::Reset => LastWord::Reset,
            SegmentContent::Open | SegmentContent::Opened | SegmentContent::Bytes(_) => {
                LastWord::Nothing
            }
        };
        if last != LastWord::Nothing {
            if last <= stream.said[pipe] {
                return;
            }
            stream.said[pipe] = last;
        }
        let segment = Segment { stream: id, pipe, what };
        core.pipes.input(
            &stream.ways[pipe],
            core.headers.length(crate::TCP, 0),
            RelayItem::Tcp(segment),
            false,
        );
    }

    pub(crate) fn hand_over(&mut self, segment: Segment, core: &mut Core) {
        let Segment { stream: id, pipe, what } = segment;
        let Some(stream) = self.streams.get_mut(&id) else { return };
        match what {
            SegmentContent::Open => {
                let (to, sender) = (self.to, core.sender.clone());
                let connect = move || {
                    let server = TcpStream::connect_timeout(&to, PATIENCE).ok();
                    let _ = sender.send(Any::Tcp(TcpMessage::Connected(id, server)));
                };
                if thread::Builder::new().stack_size(STACK).spawn(connect).is_err() {
                    self.connected(id, None, core);
                }
            }
            SegmentContent::Opened => {
                let RelayStream { sides: [Some(client), _], ways, windows, .. } = stream else {
                    return;
                };
                if client.start(id, UP, ways[UP], windows, core).is_err() {
                    client.reset();
                    self.say(id, UP, SegmentContent::Reset, core);
                }
            }
            SegmentContent::Bytes(bytes) => {
                let length = bytes.len() as u32;
                let writer = stream.sides[1 - pipe].as_ref().and_then(|side| side.writer.as_ref());
                // A writer that has ended takes no data; the other direction reports that the
                // socket is broken.
                if writer.is_none_or(|writer| writer.send(WriterCommand::Bytes(bytes)).is_err()) {
                    stream.windows[pipe].give_back(length);
                }
            }
            SegmentContent::End => {
                if let Some(side) = &mut stream.sides[1 - pipe]
                    && let Some(writer) = side.writer.take()
                {
                    let _ = writer.send(WriterCommand::End);
                }
                self.ends(id, pipe);
            }
            SegmentContent::Reset => {
                if let Some(side) = &mut stream.sides[1 - pipe] {
                    side.reset();
                }
                // The reader of that socket, which feeds the other direction, ends too.
                stream.windows[1 - pipe].close();
                stream.over[1 - pipe] = true;
                self.ends(id, pipe);
            }
        }
    }

    fn ends(&mut self, id: u64, pipe: usize) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.over[pipe] = true;
            if stream.over == [true; 2] {
                self.streams.remove(&id);
            }
        }
    }

    /// Resets a stream of which a segment was lost: it cannot continue.
    pub(crate) fn lost(&mut self, segment: &Segment, core: &mut Core) {
        let Some(mut stream) = self.streams.remove(&segment.stream) else { return };
        core.losses.broken += 1;
        stream.windows.iter().for_each(|window| window.close());
        stream.sides.iter_mut().flatten().for_each(StreamSide::reset);
    }
}

impl StreamSide {
    fn new(socket: TcpStream) -> StreamSide {
        // A segment leaves when it is due and does not wait for others.
        let _ = socket.set_nodelay(true);
        StreamSide { socket: Arc::new(socket), broken: Arc::default(), writer: None }
    }

    /// Starts two threads: one reads the data for `pipe`, and one writes the data of the other
    /// direction.
    fn start(
        &mut self,
        id: u64,
        pipe: usize,
        way: IngressRoute,
        windows: &[Arc<QueueRoom>; 2],
        core: &Core,
    ) -> io::Result<()> {
        self.socket.set_write_timeout(Some(LOOK))?;
        let (writer, orders) = channel();
        let (socket, window, broken) =
            (self.socket.clone(), windows[1 - pipe].clone(), self.broken.clone());
        let sender = core.sender.clone();
        let write = move || {
            if write(&socket, &orders, &window, &broken).is_err() {
                window.close();
                let _ = sender.send(Any::Tcp(TcpMessage::Broken(id, pipe)));
            }
        };
        thread::Builder::new().stack_size(STACK).spawn(write)?;
        self.writer = Some(writer);

        let (socket, window, room) =
            (self.socket.clone(), windows[pipe].clone(), core.pipes.room(&way.entry).clone());
        let ((sender, memory), broken) = (core.reader(), self.broken.clone());
        let (charge, segment) = (core.charge(&way.entry, crate::TCP), core.headers.segment(pipe));
        let read = move || {
            let mut buffer = vec![0; segment];
            loop {
                let message = match (&*socket).read(&mut buffer) {
                    Ok(0) if broken.load(Ordering::Relaxed) => return,
                    Ok(0) => TcpMessage::Ended(id, pipe),
                    Ok(length) => {
                        let charge = charge.of(length);
                        if !window.wait_and_take(length as u32) {
                            return;
                        }
                        let bytes = memory.hold(&buffer[..length]);
                        if !room.wait_and_take(charge) {
                            return;
                        }
                        TcpMessage::Read(id, pipe, Queued { way, bytes })
                    }
                    Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                    Err(_) => TcpMessage::Broken(id, pipe),
                };
                let last = !matches!(message, TcpMessage::Read(..));
                if sender.send(Any::Tcp(message)).is_err() || last {
                    return;
                }
            }
        };
        thread::Builder::new().stack_size(STACK).spawn(read).map(drop)
    }
}

/// Executes the commands for a writer. An error means that the socket is broken.
fn write(
    socket: &TcpStream,
    orders: &Receiver<WriterCommand>,
    window: &QueueRoom,
    broken: &AtomicBool,
) -> io::Result<()> {
    for order in orders {
        let bytes = match order {
            WriterCommand::Bytes(bytes) => bytes,
            WriterCommand::End => return socket.shutdown(Shutdown::Write),
        };
        let mut left = &bytes[..];
        while !left.is_empty() {
            if broken.load(Ordering::Relaxed) {
                return Ok(());
            }
            match (&*socket).write(left) {
                Ok(written) => left = &left[written..],
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(e) => return Err(e),
            }
        }
        window.give_back(bytes.len() as u32);
    }
    Ok(())
}
