//! Connections and their lines. Whoever is at the other end cannot make it wait, grow or end: a client whose answer was
//! not read is asked nothing more until it was, a line has a greatest length, and there are only so many clients.

use super::protocol::{LINE, Refusal, answer};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value as Json;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// So many clients at once. One more takes the place of the one that has been silent for longest.
const CLIENTS: usize = 64;
/// What is read of a client in one go.
const PIECE: usize = 16 << 10;

/// What a client does next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Goes,
    Stays,
}

/// A client, whatever carries its bytes.
struct Client<S> {
    stream: S,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// Nothing more is read: it sent what is no line, or has said all.
    closing: bool,
    /// The turn in which it was heard of last.
    heard: u64,
}

impl<S: Read + Write> Client<S> {
    fn new(stream: S, hello: &str, heard: u64) -> Client<S> {
        Client { stream, input: Vec::new(), output: hello.into(), sent: 0, closing: false, heard }
    }

    /// Writes what is to be written and, when that is gone, reads and answers one line.
    fn turn(&mut self, answer_to: &mut impl FnMut(&[u8]) -> String) -> io::Result<Next> {
        self.write()?;
        if !self.output.is_empty() {
            return Ok(Next::Stays);
        }
        if self.closing {
            return Ok(Next::Goes);
        }
        if !self.input.contains(&b'\n') {
            self.read()?;
        }
        if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line = self.input[..end].trim_ascii().to_vec();
            self.input.drain(..=end);
            if !line.is_empty() {
                self.output = answer_to(&line).into_bytes();
            }
        } else if self.input.len() > LINE {
            let refusal = Err::<(), _>(Refusal::new(format!("a line has {LINE} bytes at most")));
            (self.output, self.closing) = (answer(&Json::Null, &refusal).into_bytes(), true);
            self.input = Vec::new();
        }
        self.write()?;
        Ok(if self.closing && self.output.is_empty() { Next::Goes } else { Next::Stays })
    }

    /// Has it a whole line, for which nothing need be waited for?
    fn has_line(&self) -> bool {
        self.output.is_empty() && self.input.contains(&b'\n')
    }

    fn read(&mut self) -> io::Result<()> {
        let mut piece = [0; PIECE];
        match self.stream.read(&mut piece) {
            Ok(0) => self.closing = true,
            Ok(n) => self.input.extend_from_slice(&piece[..n]),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
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
        Ok(())
    }
}

/// Serves until `stop` is closed at its other end.
pub(super) fn serve(
    listener: &UnixListener,
    stop: &PipeReader,
    hello: &str,
    mut answer_to: impl FnMut(&[u8]) -> String,
) {
    let mut clients: Vec<Client<UnixStream>> = Vec::new();
    let mut turn = 0;
    loop {
        let mut fds = vec![PollFd::new(stop.as_fd(), PollFlags::POLLIN), PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        for client in &clients {
            let events = if client.output.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT };
            fds.push(PollFd::new(client.stream.as_fd(), events));
        }
        let at_once = clients.iter().any(Client::has_line);
        let timeout = if at_once { PollTimeout::ZERO } else { PollTimeout::NONE };
        if poll(&mut fds, timeout).is_err() {
            // Only a signal, or no memory.
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

fn accept(listener: &UnixListener, clients: &mut Vec<Client<UnixStream>>, hello: &str, turn: u64) {
    match listener.accept() {
        Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
            if clients.len() >= CLIENTS
                && let Some(silent) = (0..clients.len()).min_by_key(|&i| clients[i].heard)
            {
                clients.remove(silent);
            }
            clients.push(Client::new(stream, hello, turn));
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
        // No descriptor is left, for now.
        _ => std::thread::sleep(Duration::from_millis(10)),
    }
}
