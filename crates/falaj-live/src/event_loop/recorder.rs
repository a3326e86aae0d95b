//! Writing of a capture beside the live loop: the loop fills pieces of memory, and a separate
//! thread writes them to the file. If the disk is slow, packets are missing in the capture, but the
//! link loses none.

use crate::clock::Clock;
use falaj_engine::PipeId;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::capture::{BackpressureReport, Change, Taken, Wanted, Writer};
use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Size in bytes from which on a piece is handed to the writing thread.
const PIECE: usize = 256 << 10;
/// Number of pieces that may wait to be written, if memory allows.
const PIECES: usize = 256;
/// Memory of a piece in bytes: its last packet may extend beyond [`PIECE`].
const PIECE_ROOM: usize = PIECE + (64 << 10);

/// Records are handed over after this time at the latest, so that a capture can be read while it
/// grows.
const FLUSH: Span = Span::from_secs(1);

/// A capture that is being written.
pub struct Recorder {
    writer: Writer<Vec<u8>>,
    to_file: SyncSender<CapturePiece>,
    /// The largest number of bytes that the pieces take.
    memory: usize,
    /// The writing thread; it returns the number of packets written, and the error that stopped it.
    thread: JoinHandle<(u64, io::Result<()>)>,
    /// Number of packets in the piece that is being filled.
    filling: u64,
    taken: u64,
    /// A copy of the changes in the current piece.
    changes: Vec<u8>,
    changed: u64,
    /// Number of recorded reports of ports about their room.
    rooms: u64,
    /// Time at which a piece was last handed over because [`FLUSH`] had passed.
    handed_over: Time,
}

/// A part of the file, with the number of its packets.
struct CapturePiece {
    bytes: Vec<u8>,
    packets: u64,
}

/// The outcome of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Number of packets in the file.
    pub packets: u64,
    /// Number of packets that are missing, because the disk was too slow or full.
    pub missing: u64,
}

impl Recorder {
    /// Begins a capture in an empty file, for a link with these names of its ports and this
    /// scenario. Pieces on their way to the file take `memory` bytes at most, but three are always
    /// allowed: one being filled, one waiting, and one being written.
    ///
    /// # Errors
    /// The writing thread cannot be started.
    pub fn start(
        file: File,
        scenario: &str,
        ways: &[&str],
        clock: Clock,
        memory: usize,
    ) -> io::Result<Recorder> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = clock.now();
        let zero = since_1970.saturating_sub(Duration::from_nanos(now.0));
        let writer = Writer::new(Vec::with_capacity(2 * PIECE), scenario, ways, zero)?;
        let waiting = (memory / PIECE_ROOM).saturating_sub(2).clamp(1, PIECES);
        let (to_file, pieces) = sync_channel(waiting);
        let thread = std::thread::Builder::new()
            .name("capture".into())
            .spawn(move || write(file, &pieces))?;
        Ok(Recorder {
            writer,
            to_file,
            memory: (waiting + 2) * PIECE_ROOM,
            thread,
            filling: 0,
            taken: 0,
            changes: Vec::new(),
            changed: 0,
            rooms: 0,
            handed_over: now,
        })
    }

    /// The largest number of bytes of memory that the recorder uses.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Records a packet's frame, and its fate.
    pub(crate) fn take(&mut self, taken: &Taken, frame: &[u8]) {
        self.taken += 1;
        // Writing to memory always succeeds, unless the record cannot be represented.
        self.filling += u64::from(self.writer.write(taken, frame).is_ok());
        if self.writer.sink().len() >= PIECE {
            self.hand_over();
        }
    }

    /// Records a change of the link, before which `behind` packets had arrived.
    pub(crate) fn changed(&mut self, wanted: Wanted, at: Time, behind: u64) {
        let change = Change { number: self.changed, at, behind, wanted };
        self.changed += 1;
        let before = self.writer.sink().len();
        // Writing to memory always succeeds.
        let _ = self.writer.change(&change);
        self.changes.extend_from_slice(&self.writer.sink()[before..]);
    }

    /// Records that the port where packets of this pipe leave has reported room for `bytes` bytes.
    /// `behind` packets had arrived before.
    pub(crate) fn room(&mut self, PipeId(way): PipeId, bytes: u32, at: Time, behind: u64) {
        let room = BackpressureReport { number: self.rooms, way, bytes, at, behind };
        self.rooms += 1;
        // Writing to memory always succeeds.
        let _ = self.writer.room(&room);
    }

    /// Time at which the current piece goes to the file even if it is not full.
    pub(crate) fn next_flush(&mut self) -> Time {
        if self.writer.sink().is_empty() { Time::NEVER } else { self.handed_over + FLUSH }
    }

    /// Hands the piece over, if that is due.
    pub(crate) fn flush(&mut self, now: Time) {
        if self.next_flush() <= now {
            self.hand_over();
            self.handed_over = now;
        }
    }

    /// Hands the piece to the writing thread, if that thread keeps up.
    fn hand_over(&mut self) {
        let bytes = std::mem::replace(self.writer.sink(), Vec::with_capacity(2 * PIECE));
        let packets = std::mem::take(&mut self.filling);
        match self.to_file.try_send(CapturePiece { bytes, packets }) {
            // The packets of this piece are missing; its changes are kept, as a replay of later
            // packets needs them.
            Err(TrySendError::Full(_)) => self.writer.sink().extend_from_slice(&self.changes),
            _ => self.changes.clear(),
        }
    }

    /// Ends the capture. Returns its outcome, and the error if the file could not be written to its
    /// end.
    pub fn finish(mut self) -> (Recorded, io::Result<()>) {
        // The link does not wait for this thread any more, so blocking is allowed.
        let bytes = std::mem::take(self.writer.sink());
        // The error of a thread that has ended is returned by `join`.
        let _ = self.to_file.send(CapturePiece { bytes, packets: self.filling });
        drop(self.to_file);
        let failed = |_| (0, Err(io::Error::other("the capture's thread failed")));
        let (packets, written) = self.thread.join().unwrap_or_else(failed);
        (Recorded { packets, missing: self.taken - packets }, written)
    }
}

/// Writes pieces until there are no more, or a piece cannot be written.
fn write(mut file: File, pieces: &Receiver<CapturePiece>) -> (u64, io::Result<()>) {
    let mut packets = 0;
    let written = pieces.iter().try_for_each(|piece| {
        file.write_all(&piece.bytes)?;
        packets += piece.packets;
        Ok(())
    });
    (packets, written)
}
