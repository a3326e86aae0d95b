//! Standard error, which may be a pipe that its reader does not empty, or a terminal stopped by
//! Ctrl-S. A write to it may then block indefinitely.
//!
//! A process that forwards packets calls [`detach`] before it begins. From then on lines go through
//! a queue to a thread that only writes them. If the queue is full, lines are dropped and counted;
//! their number is printed after the next line that is written.

use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

/// Capacity of the queue, in writes. A line of the log is one write.
const CAPACITY: usize = 1024;
/// Maximum time that the end of the program waits for the lines in the queue.
const PATIENCE: Duration = Duration::from_millis(500);

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// An item of the queue.
enum Item {
    Bytes(Vec<u8>),
    /// A request for a notification. This sender is dropped once all earlier items have been
    /// written.
    Flush(#[expect(dead_code, reason = "its drop is the answer")] Sender<()>),
}

struct Queue {
    items: SyncSender<Item>,
    dropped: AtomicU64,
}

impl Queue {
    fn new() -> (Queue, Receiver<Item>) {
        let (items, taken) = sync_channel(CAPACITY);
        (Queue { items, dropped: AtomicU64::new(0) }, taken)
    }

    /// Adds bytes without blocking; they are dropped if the queue is full.
    fn put(&self, bytes: &[u8]) {
        if self.items.try_send(Item::Bytes(bytes.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything is written, for at most [`PATIENCE`]. Does not wait if the queue is
    /// full.
    fn flush(&self) {
        let (done, written) = channel();
        if self.items.try_send(Item::Flush(done)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }

    /// Writes the items until the queue is closed. Errors of writing are ignored.
    fn write_all(&self, taken: &Receiver<Item>, mut to: impl Write) {
        for item in taken {
            if let Item::Bytes(bytes) = item {
                let _ = to.write_all(&bytes);
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                let _ = writeln!(
                    to,
                    "falaj: {dropped} lines were dropped because they were not read in time"
                );
            }
        }
    }
}

/// From now on no line waits for the reader of standard error. Call it after the last fork, because
/// it starts a thread. A second call has no effect.
///
/// # Errors
/// The thread cannot be started.
pub fn detach() -> io::Result<()> {
    if QUEUE.get().is_some() {
        return Ok(());
    }
    let (queue, taken) = Queue::new();
    if QUEUE.set(queue).is_ok() {
        let queue = QUEUE.get().expect("set on the line before");
        let write = move || queue.write_all(&taken, io::stderr());
        std::thread::Builder::new().name("standard error".to_owned()).spawn(write)?;
    }
    Ok(())
}

/// Waits until the lines printed so far are written, for at most half a second, and not at all if
/// the queue is full. Call it at the end of a program.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush();
    }
}

/// Writes a line; [`eprintln!`](crate::eprintln) calls it.
pub fn line(words: fmt::Arguments<'_>) {
    let _ = writeln!(StandardError, "{words}");
}

/// Standard error as a writer. One write is one item of the queue: it is written as a whole or
/// dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match QUEUE.get() {
            Some(queue) => {
                queue.put(bytes);
                Ok(bytes.len())
            }
            None => io::stderr().write(bytes),
        }
    }

    /// Makes one write of a line, instead of one write for each of its pieces.
    fn write_fmt(&mut self, words: fmt::Arguments<'_>) -> io::Result<()> {
        self.write_all(words.to_string().as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        if QUEUE.get().is_none() { io::stderr().flush() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;

    fn queue() -> (&'static Queue, Receiver<Item>) {
        let (queue, taken) = Queue::new();
        (Box::leak(Box::new(queue)), taken)
    }

    #[test]
    fn lines_without_room_are_counted_for_the_reader() {
        let (queue, taken) = queue();
        let (reader, pipe) = UnixStream::pair().expect("a pair of sockets");
        (0..CAPACITY + 5).for_each(|i| queue.put(format!("{i}\n").as_bytes()));
        std::thread::spawn(move || queue.write_all(&taken, pipe));
        let lines = BufReader::new(reader).lines().map(|line| line.expect("text"));
        let lines: Vec<String> = lines.take(CAPACITY + 1).collect();
        assert_eq!(lines[0], "0");
        assert_eq!(lines[1], "falaj: 5 lines were dropped because they were not read in time");
        let rest = lines[2..].iter().map(String::as_str);
        assert!(rest.eq((1..CAPACITY).map(|i| i.to_string())));
    }

    /// Ten megabytes exceed a socket's buffer: a test that blocked on the reader would never end.
    #[test]
    fn a_reader_that_reads_nothing_delays_no_writer() {
        let (queue, taken) = queue();
        let (_reader, pipe) = UnixStream::pair().expect("a pair of sockets");
        std::thread::spawn(move || queue.write_all(&taken, pipe));
        let line = [b'x'; 1000];
        (0..10_000).for_each(|_| queue.put(&line));
        assert!(queue.dropped.load(Ordering::Relaxed) > 0);
        queue.flush();
    }
}
