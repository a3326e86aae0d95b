//! Passes the guest's output from a file of the spool to a descriptor of the host.

use crate::error::{During, Error};
use nix::fcntl::{FallocateFlags, fallocate};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Interval at which a thread polls for more output.
const STEP: Duration = Duration::from_millis(5);
/// Length in bytes of the pieces in which the file system frees output that was passed on.
const PIECE: u64 = 1 << 20;

/// State shared by the monitor and the thread.
#[derive(Debug, Default)]
struct Shared {
    passed_on: AtomicU64,
    /// True when the guest does not write any more.
    is_over: AtomicBool,
    /// True when the reader is gone or cannot be written to.
    is_broken: AtomicBool,
}

/// A thread that passes a file on while it grows.
#[derive(Debug)]
pub(crate) struct Relay {
    file: File,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Relay {
    /// Creates the file and passes on everything that is written to it.
    pub(crate) fn start(path: &Path, to: impl Write + Send + 'static) -> Result<Relay, Error> {
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = open().during("write to the guest's spool")?;
        let reader = open().during("write to the guest's spool")?;
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("relay".into())
            .spawn(move || {
                if pass_on(&reader, to, &its).is_err() {
                    its.is_broken.store(true, Ordering::Release);
                }
            })
            .during("start a thread")?;
        Ok(Relay { file, shared, thread })
    }

    /// Number of bytes that wait for the reader.
    pub(crate) fn backlog(&self) -> u64 {
        let length = self.file.metadata().map_or(0, |is| is.len());
        length.saturating_sub(self.shared.passed_on.load(Ordering::Acquire))
    }

    /// Returns true if the reader is gone.
    pub(crate) fn is_broken(&self) -> bool {
        self.shared.is_broken.load(Ordering::Acquire)
    }

    /// Returns true if all output has been passed on.
    pub(crate) fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Tells the thread that the guest does not write any more: it passes on the rest, and ends.
    pub(crate) fn end_of_output(&self) {
        self.shared.is_over.store(true, Ordering::Release);
    }
}

fn pass_on(from: &File, mut to: impl Write, shared: &Shared) -> io::Result<()> {
    let mut bytes = vec![0; 65_536];
    let (mut at, mut given_back) = (0, 0);
    loop {
        // Loaded before reading, so that everything written before the guest's end is read.
        let is_over = shared.is_over.load(Ordering::Acquire);
        match from.read_at(&mut bytes, at)? {
            0 if is_over => return Ok(()),
            0 => thread::sleep(STEP),
            length => {
                to.write_all(&bytes[..length])?;
                to.flush()?;
                at += length as u64;
                shared.passed_on.store(at, Ordering::Release);
                if at - given_back >= PIECE {
                    let hole =
                        FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
                    let length = (at - given_back) / PIECE * PIECE;
                    // If the file system does not support that, the storage of this output is
                    // freed only with the whole file.
                    let _ = fallocate(from, hole, given_back as i64, length as i64);
                    given_back += length;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::Spool;
    use std::io::Read;

    #[test]
    fn all_arrives_in_order() {
        let spool = Spool::make(1 << 20).unwrap();
        let path = spool.file("output");
        let (mut reader, writer) = io::pipe().unwrap();
        let relay = Relay::start(&path, writer).unwrap();
        let all: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        let expected = all.clone();
        let writing = thread::spawn(move || {
            let mut file = File::options().append(true).open(&path).unwrap();
            for piece in all.chunks(77_777) {
                file.write_all(piece).unwrap();
            }
            relay.end_of_output();
            relay
        });
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert!(read == expected);
        let relay = writing.join().unwrap();
        assert!(!relay.is_broken());
        assert_eq!(relay.backlog(), 0);
    }

    #[test]
    fn a_reader_that_goes_is_noticed() {
        let spool = Spool::make(1 << 20).unwrap();
        let path = spool.file("output");
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let relay = Relay::start(&path, writer).unwrap();
        std::fs::write(&path, b"x").unwrap();
        while !relay.is_done() {
            thread::sleep(STEP);
        }
        assert!(relay.is_broken());
    }
}
