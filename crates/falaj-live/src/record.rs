//! Writing a capture beside the live loop: the loop fills pieces of memory, a
//! thread of its own writes them to the file. A slow disk costs packets of the
//! capture, never of the link.

use crate::clock::Clock;
use falaj_traffic::capture::{Taken, Writer};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Pieces of about this size go to the file at once.
const PIECE: usize = 256 << 10;
/// So many may be on their way to it.
const PIECES: usize = 256;

/// A capture that is being written.
pub struct Recorder {
    writer: Writer<Vec<u8>>,
    to_file: SyncSender<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
    /// Packets in the piece that is being filled.
    filling: u64,
    recorded: Recorded,
}

/// What became of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Packets that are in the file.
    pub packets: u64,
    /// Packets that are not: the disk was too slow or full.
    pub missing: u64,
}

impl Recorder {
    /// Begins a capture in a new file: of a link with these names of its ways in, and this scenario.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn start(path: &Path, scenario: &str, ways: &[&str], clock: Clock) -> io::Result<Recorder> {
        let file = File::create(path)?;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let zero = since_1970.saturating_sub(Duration::from_nanos(clock.now().0));
        let writer = Writer::new(Vec::with_capacity(2 * PIECE), scenario, ways, zero)?;
        let (to_file, pieces) = sync_channel(PIECES);
        let thread = std::thread::Builder::new().name("capture".into()).spawn(move || write(file, &pieces))?;
        Ok(Recorder { writer, to_file, thread, filling: 0, recorded: Recorded::default() })
    }

    /// A packet's frame, and what became of it.
    pub(crate) fn take(&mut self, taken: &Taken, frame: &[u8]) {
        if self.writer.write(taken, frame).is_err() {
            // Memory takes everything; what cannot be written is not representable.
            self.recorded.missing += 1;
            return;
        }
        self.filling += 1;
        if self.writer.sink().len() >= PIECE {
            self.hand_over();
        }
    }

    /// The piece goes to the file, if that keeps up.
    fn hand_over(&mut self) {
        let piece = std::mem::replace(self.writer.sink(), Vec::with_capacity(2 * PIECE));
        let count = match self.to_file.try_send(piece) {
            Ok(()) => &mut self.recorded.packets,
            Err(_) => &mut self.recorded.missing,
        };
        *count += std::mem::take(&mut self.filling);
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// The file could not be written to its end.
    pub fn finish(mut self) -> io::Result<Recorded> {
        // Nobody is waiting for the link any more: there is time.
        let piece = std::mem::take(self.writer.sink());
        self.recorded.packets += self.filling;
        // A thread that is gone says why when it is joined.
        let _ = self.to_file.send(piece);
        drop(self.to_file);
        self.thread.join().map_err(|_| io::Error::other("the capture's thread failed"))??;
        Ok(self.recorded)
    }
}

fn write(mut file: File, pieces: &Receiver<Vec<u8>>) -> io::Result<()> {
    pieces.iter().try_for_each(|piece| file.write_all(&piece))
}
