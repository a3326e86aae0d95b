//! Connections and their lines. A client cannot make the server block, grow or end: it gets no
//! further answer until it has read the previous one, the length of a line is limited, and so is
//! the number of clients.

use crate::protocol::{LINE, Refusal, answer};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value as Json;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// Maximum number of clients. A new client replaces the client that has been silent for longest,
/// preferably a client that has read no answer yet: clients that connect and stay silent do not
/// displace working clients.
const CLIENTS: usize = 64;
/// Maximum number of bytes read from a client at once.
const PIECE: usize = 16 << 10;

/// The result of a client's turn: the connection is closed (`Goes`), or stays open.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Goes,
    Stays,
}

/// A client with any stream.
struct Connection<S> {
    stream: S,
    input: Vec<u8>,
    /// Number of input bytes that were searched, without finding the end of a line.
    looked: usize,
    output: Vec<u8>,
    sent: usize,
    /// True if nothing more is read: the client sent an invalid line, or has closed its side.
    closing: bool,
    /// The turn of its last activity.
    heard: u64,
    /// True if it has sent a request.
    asked: bool,
    /// True if it has taken an answer.
    served: bool,
}

impl<S: Read + Write> Connection<S> {
    fn new(stream: S, hello: &str, heard: u64) -> Connection<S> {
        Connection {
            stream,
            input: Vec::new(),
            looked: 0,
            output: hello.into(),
            sent: 0,
            closing: false,
            heard,
            asked: false,
            served: false,
        }
    }

    /// Writes pending output and, when all of it is written, reads and answers one line.
    fn turn(&mut self, answer_to: &mut impl FnMut(&[u8]) -> String) -> io::Result<Next> {
        self.write()?;
        if !self.output.is_empty() {
            return Ok(Next::Stays);
        }
        if self.closing {
            return Ok(Next::Goes);
        }
        if self.end_of_line().is_none() {
            self.read()?;
        }
        if let Some(end) = self.end_of_line() {
            let line = self.input[..end].trim_ascii().to_vec();
            self.input.drain(..=end);
            self.looked = 0;
            if !line.is_empty() {
                self.output = answer_to(&line).into_bytes();
                self.asked = true;
            }
        } else if self.input.len() > LINE {
            let refusal = Err::<(), _>(Refusal::new(format!("a line has {LINE} bytes at most")));
            (self.output, self.closing) = (answer(&Json::Null, &refusal).into_bytes(), true);
            (self.input, self.looked) = (Vec::new(), 0);
        }
        self.write()?;
        Ok(if self.closing && self.output.is_empty() { Next::Goes } else { Next::Stays })
    }

    /// Returns true if a whole line can be answered without waiting.
    fn has_line(&mut self) -> bool {
        self.output.is_empty() && self.end_of_line().is_some()
    }

    /// The offset of the end of the first line.
    fn end_of_line(&mut self) -> Option<usize> {
        let end = self.input[self.looked..].iter().position(|byte| *byte == b'\n');
        self.looked += end.unwrap_or(self.input.len() - self.looked);
        end.map(|_| self.looked)
    }

    fn read(&mut self) -> io::Result<()> {
        let mut piece = [0; PIECE];
        match self.stream.read(&mut piece) {
            Ok(0) => self.closing = true,
            Ok(n) => self.input.extend_from_slice(&piece[..n]),
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        (self.output, self.sent) = (Vec::new(), 0);
        self.served = self.asked;
        Ok(())
    }
}

/// Serves until `stop` is closed at its other end.
pub(crate) fn serve(
    listener: &UnixListener,
    stop: &PipeReader,
    hello: &str,
    mut answer_to: impl FnMut(&[u8]) -> String,
) {
    let mut clients: Vec<Connection<UnixStream>> = Vec::new();
    let mut turn = 0;
    loop {
        let at_once = clients.iter_mut().any(Connection::has_line);
        let mut fds = vec![
            PollFd::new(stop.as_fd(), PollFlags::POLLIN),
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
        ];
        for client in &clients {
            let events =
                if client.output.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT };
            fds.push(PollFd::new(client.stream.as_fd(), events));
        }
        let timeout = if at_once { PollTimeout::ZERO } else { PollTimeout::NONE };
        if poll(&mut fds, timeout).is_err() {
            // The only possible causes are a signal and a lack of memory.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        drop(fds);
        if ready[0] {
            return;
        }
        turn += 1;
        let mut nth = 0;
        clients.retain_mut(|client| {
            nth += 1;
            if !ready[nth + 1] && !client.has_line() {
                return true;
            }
            client.heard = turn;
            client.turn(&mut answer_to).is_ok_and(|next| next == Next::Stays)
        });
        if ready[1] {
            accept(listener, &mut clients, hello, turn);
        }
    }
}

fn accept(
    listener: &UnixListener,
    clients: &mut Vec<Connection<UnixStream>>,
    hello: &str,
    turn: u64,
) {
    match listener.accept() {
        Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
            if clients.len() >= CLIENTS
                && let Some(silent) =
                    (0..clients.len()).min_by_key(|&i| (clients[i].served, clients[i].heard))
            {
                clients.remove(silent);
            }
            clients.push(Connection::new(stream, hello, turn));
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
        // No descriptor is free for now.
        _ => std::thread::sleep(Duration::from_millis(10)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::request;
    use std::io::{BufRead, BufReader};
    use std::thread;

    /// A stream of these bytes in small pieces, which also accepts small pieces.
    struct Scraps<'a> {
        bytes: &'a [u8],
        said: Vec<u8>,
        turn: usize,
    }

    impl Scraps<'_> {
        /// The number of bytes that pass now; every third call would block.
        fn much(&mut self) -> io::Result<usize> {
            self.turn += 1;
            if self.turn.is_multiple_of(3) {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                Ok(1 + self.turn * 7919 % 4096)
            }
        }
    }

    impl Read for Scraps<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.much()?.min(into.len()).min(self.bytes.len());
            let (now, later) = self.bytes.split_at(n);
            into[..n].copy_from_slice(now);
            self.bytes = later;
            Ok(n)
        }
    }

    impl Write for Scraps<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = self.much()?.min(bytes.len());
            self.said.extend_from_slice(&bytes[..n]);
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Any bytes of a client: each line that is not empty has one answer, and little memory is
    /// used.
    fn any_bytes(bytes: &[u8]) {
        let mut asked = 0;
        let mut client = Connection::new(Scraps { bytes, said: Vec::new(), turn: 0 }, "hello\n", 0);
        let mut answer_to = |line: &[u8]| {
            asked += 1;
            let (id, request) = request(line);
            answer(&id, &request.map(|request| format!("{request:?}")).map_err(Refusal::new))
        };
        while client.turn(&mut answer_to).expect("only the end is one") == Next::Stays {
            assert!(client.input.len() <= LINE + PIECE, "{}", client.input.len());
        }
        let said = String::from_utf8(client.stream.said).expect("UTF-8");
        let answers: Vec<Json> =
            said.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let too_long = answers.last().is_some_and(|last| {
            last["error"]["what"] == format!("a line has {LINE} bytes at most")
        });
        assert_eq!(answers.len(), asked + usize::from(too_long));
    }

    #[test]
    fn any_bytes_are_answered() {
        let deep = [b"[".repeat(60_000), b"\n".to_vec()].concat();
        for odd in [
            &b""[..],
            b"\n\n\r\n  \n",
            b"{\"do\":\"show\"}\n{\"do\":\"show\",\"id\":7}\n{\"id\":[1],\"do\":\"set\",\"set\":[\"link.rate=1mbit\"]}",
            b"{\"do\":\"set\",\"set\":5}\n{\"do\":\"set\",\"sets\":[]}\nnull\n\xff\xfe\n{\"do\":\"quit\"}\n",
            &deep,
            &b"x".repeat(3 * LINE),
            &[b"{}\n".repeat(500), b"y".repeat(2 * LINE)].concat(),
        ] {
            any_bytes(odd);
        }
        // Lines that are nearly valid, with some wrong bytes.
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for _ in 0..500 {
            let line = b"{\"id\":3,\"do\":\"set\",\"set\":[\"link.rate=1mbit\"],\"drop\":true}\n";
            let mut bytes = line.repeat(1 + next() as usize % 9);
            for _ in 0..next() % 6 {
                let at = next() as usize % bytes.len();
                match next() % 3 {
                    0 => bytes[at] = next() as u8,
                    1 => drop(bytes.drain(at..(at + next() as usize % 50).min(bytes.len()))),
                    _ => bytes.insert(at, b"\n{}[]\",:"[next() as usize % 8]),
                }
                bytes.push(b'\n');
            }
            any_bytes(&bytes);
        }
    }

    /// Requests are answered whatever other clients do.
    #[test]
    fn a_slow_client_does_not_delay_the_answers_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (stopped, stop) = io::pipe().unwrap();
        let long = format!("{}\n", "z".repeat(1 << 20));
        let server = thread::spawn(move || serve(&listener, &stopped, "hello\n", |_| long.clone()));
        let connect = || UnixStream::connect(&path).unwrap();
        // Some send requests and never read, some send half a line, some send nothing.
        let mut others = Vec::new();
        for n in 0..3 * CLIENTS {
            let mut other = connect();
            other.set_nonblocking(true).unwrap();
            let _ = match n % 3 {
                0 => other.write_all(&b"{\"do\":\"show\"}\n".repeat(1000)),
                1 => other.write_all(b"{\"do\":"),
                _ => Ok(()),
            };
            others.push(other);
        }
        let mut lines = BufReader::new(connect());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        for _ in 0..3 {
            lines.get_mut().write_all(b"{}\n").unwrap();
            line.clear();
            lines.read_line(&mut line).unwrap();
            assert_eq!(line.len(), (1 << 20) + 1);
        }
        // A line without an end.
        let mut endless = connect();
        while endless.write_all(&[b'e'; 4096]).is_ok() {}
        drop(stop);
        server.join().unwrap();
    }
}
