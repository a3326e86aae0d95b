//! A ring in shared memory: one writer, one reader, byte strings in order.
//!
//! Neither side trusts the other. Each side keeps its own index in private memory, and only writes
//! it to the ring. The other side's index and every length are checked before use, and a string is
//! copied out once, word by word, before it is examined. All words are atomics, so a peer that
//! writes to the wrong place or at the wrong time causes wrong numbers but no undefined behavior.
//!
//! Indices count words for ever and never repeat. Each word of the control part is written by one
//! side:
//!
//! | word | written by | meaning |
//! |---|---|---|
//! | `TAIL` | writer | end of the strings |
//! | `ROOM` | writer | wake me when you reach this index: then there is room |
//! | `IDLE` | writer | wake me if you sleep at this index: I hold a string back until you do |
//! | `PROBE` | writer | report when you are done with everything before this index |
//! | `HEAD` | reader | end of the strings that were taken |
//! | `ASLEEP` | reader | wake me if there is a string after this index |
//! | `TOOK`, `TOOK_AT` | reader | the report to `PROBE`, and its time |
//! | `SPENT` | reader | processor time that I have used until then |
//!
//! A wake-up is never lost: each side writes its word, passes a fence and then reads the other
//! side's word, so that at least one of the two sees what the other wrote. A request for a wake-up
//! names an index, and no index repeats, so a request causes at most one wake-up: a reader that is
//! awake is not disturbed.

use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words before the strings. Each side's words have a pair of cache lines of their own (128 B),
/// since processors fetch lines in pairs.
pub const CONTROL: usize = 32;
const TAIL: usize = 0;
const ROOM: usize = 1;
const IDLE: usize = 2;
const PROBE: usize = 3;
const HEAD: usize = 16;
const ASLEEP: usize = 17;
const TOOK: usize = 18;
const TOOK_AT: usize = 19;
const SPENT: usize = 20;

/// Bytes of a word.
const WORD: usize = 8;

/// A word shared by two sides.
pub trait Atomic {
    /// Reads the word.
    fn load(&self, order: Ordering) -> u64;
    /// Writes the word.
    fn store(&self, value: u64, order: Ordering);
    /// A fence: earlier writes are visible to a side that passes a fence later.
    fn fence();
}

impl Atomic for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }
    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
    #[inline]
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// Words shared by two sides.
pub trait Memory {
    /// The type of a word.
    type Word: Atomic;
    /// All words.
    fn words(&self) -> &[Self::Word];
}

/// The peer's indices or lengths are impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenRing;

impl fmt::Display for BrokenRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the process on the other side of the ring writes impossible indices or lengths into it",
        )
    }
}

impl std::error::Error for BrokenRing {}

/// The outcome of writing a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in the ring; the reader sleeps and has to be woken.
    Wake,
    /// It is in the ring, and the reader is awake.
    Quiet,
    /// There is no room for it now.
    Full,
    /// It is longer than the longest string that fits.
    TooLong,
}

/// The outcome of reading a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Popped {
    /// There was a string; the writer waits for the room and has to be woken.
    Wake,
    /// There was a string.
    Quiet,
    /// There was no string.
    Empty,
}

/// A reader's report that it is done with the string of the writer's request. The values are not
/// checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    /// Time at which it was done with the string.
    pub at: u64,
    /// The processor time that the reader has used until then.
    pub spent: u64,
}

/// The result of a request to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// True if there is still no string: sleep.
    pub empty: bool,
    /// True if the writer waits for the reader to sleep, and has to be woken.
    pub wake: bool,
}

/// State of either side.
struct RingSide<M> {
    memory: M,
    /// Offset of the control words.
    base: usize,
    /// Words for strings; a power of two.
    room: u64,
    /// Index of this side.
    own: u64,
    /// Index of the other side when it was last read.
    other: u64,
}

/// Words of a string, its length included.
fn words_of(bytes: usize) -> u64 {
    1 + bytes.div_ceil(WORD) as u64
}

impl<M: Memory> RingSide<M> {
    fn new(memory: M, base: usize, room: usize) -> Option<RingSide<M>> {
        let fits = memory.words().len().checked_sub(base)? >= room.checked_add(CONTROL)?;
        (fits && room.is_power_of_two()).then_some(RingSide {
            memory,
            base,
            room: room as u64,
            own: 0,
            other: 0,
        })
    }

    #[inline]
    fn control(&self, word: usize) -> &M::Word {
        &self.memory.words()[self.base + word]
    }

    /// The `n` words from index `at` on, in two pieces.
    #[inline]
    fn pieces(&self, at: u64, n: usize) -> (&[M::Word], &[M::Word]) {
        let strings = &self.memory.words()[self.base + CONTROL..][..self.room as usize];
        let from = (at & (self.room - 1)) as usize;
        let first = n.min(strings.len() - from);
        (&strings[from..from + first], &strings[..n - first])
    }

    fn longest(&self) -> usize {
        (self.room as usize - 1) * WORD
    }
}

/// The writing side of a ring.
pub struct RingWriter<M>(RingSide<M>);

impl<M: Memory> RingWriter<M> {
    /// The ring whose control words begin at `base`, with `room` words for strings; `None` if the
    /// memory is too small or `room` is not a power of two.
    pub fn new(memory: M, base: usize, room: usize) -> Option<RingWriter<M>> {
        RingSide::new(memory, base, room).map(RingWriter)
    }

    /// Length of the longest string that fits, in bytes.
    pub fn longest(&self) -> usize {
        self.0.longest()
    }

    /// Returns true if there is room for this number of words; reads the other side's index only if
    /// necessary.
    #[inline]
    fn has_room(&mut self, words: u64) -> Result<bool, BrokenRing> {
        let side = &mut self.0;
        if side.room - (side.own - side.other) >= words {
            return Ok(true);
        }
        let head = side.control(HEAD).load(Acquire);
        // A reader goes neither back nor beyond the end of the strings.
        if head.wrapping_sub(side.other) > side.own - side.other {
            return Err(BrokenRing);
        }
        side.other = head;
        Ok(side.room - (side.own - head) >= words)
    }

    /// Writes a string into the ring.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Result<Pushed, BrokenRing> {
        let words = words_of(bytes.len());
        if words > self.0.room {
            return Ok(Pushed::TooLong);
        }
        if !self.has_room(words)? {
            return Ok(Pushed::Full);
        }
        let side = &mut self.0;
        let (first, second) = side.pieces(side.own, words as usize);
        let mut to = first.iter().chain(second);
        if let Some(length) = to.next() {
            length.store(bytes.len() as u64, Relaxed);
        }
        let (whole, rest) = bytes.as_chunks::<WORD>();
        // `whole` comes first: with `to` first, `zip` would take a word too many from `to`.
        for (bytes, word) in whole.iter().zip(to.by_ref()) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
        if let Some(word) = to.next() {
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            word.store(u64::from_le_bytes(last), Relaxed);
        }
        let before = side.own;
        side.own += words;
        side.control(TAIL).store(side.own, Release);
        M::Word::fence();
        let asleep = side.control(ASLEEP).load(Relaxed) == before;
        Ok(if asleep { Pushed::Wake } else { Pushed::Quiet })
    }

    /// Returns true if the reader has taken everything and gone to sleep.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.0.control(ASLEEP).load(Relaxed) == self.0.own
    }

    /// Requests a wake-up when the reader goes to sleep; returns true if it already has. A repeated
    /// request costs one read.
    #[inline]
    pub fn ask_idle(&mut self) -> bool {
        let word = self.0.control(IDLE);
        // Only this side writes the word. A request holds until there is another string.
        if word.load(Relaxed) != self.0.own {
            word.store(self.0.own, Relaxed);
            M::Word::fence();
        }
        self.is_idle()
    }

    /// Requests a wake-up when a string of `bytes` bytes fits and at least half of the ring is
    /// free; returns true if this much is free already.
    pub fn ask_room(&mut self, bytes: usize) -> Result<bool, BrokenRing> {
        let side = &mut self.0;
        let words = words_of(bytes).max(side.room / 2).min(side.room);
        // The index that the reader must reach so that this much is free.
        side.control(ROOM).store((side.own + words).saturating_sub(side.room), Relaxed);
        M::Word::fence();
        self.has_room(words)
    }
}

impl<M: Memory> RingWriter<M> {
    /// Requests a report when the reader is done with the next string, which has `bytes` bytes.
    pub fn ask_when(&mut self, bytes: usize) {
        self.0.control(PROBE).store(self.0.own + words_of(bytes), Relaxed);
    }

    /// The reader's report that [`ask_when`](RingWriter::ask_when) requested; `None` before.
    pub fn took(&self) -> Option<Took> {
        let side = &self.0;
        let asked = side.control(PROBE).load(Relaxed);
        (side.control(TOOK).load(Acquire) == asked).then(|| Took {
            at: side.control(TOOK_AT).load(Relaxed),
            spent: side.control(SPENT).load(Relaxed),
        })
    }
}

/// The reading side of a ring.
pub struct RingReader<M> {
    side: RingSide<M>,
    /// Index at which this side last went to sleep.
    asleep: u64,
    /// Index up to which it has reported that it is done.
    answered: u64,
}

impl<M: Memory> RingReader<M> {
    /// See [`RingWriter::new`].
    pub fn new(memory: M, base: usize, room: usize) -> Option<RingReader<M>> {
        // A reader that has not read yet counts as asleep: all words are zero initially.
        RingSide::new(memory, base, room).map(|side| RingReader { side, asleep: 0, answered: 0 })
    }

    /// Reads the writer's index; returns true if there is a string.
    #[inline]
    pub fn look(&mut self) -> Result<bool, BrokenRing> {
        let side = &mut self.side;
        let tail = side.control(TAIL).load(Acquire);
        // A writer goes neither back nor over strings that were not taken.
        if tail.wrapping_sub(side.own) > side.room || tail < side.other {
            return Err(BrokenRing);
        }
        side.other = tail;
        Ok(tail != side.own)
    }

    /// Takes the next string, which replaces the contents of `out`.
    #[inline]
    pub fn pop(&mut self, out: &mut Vec<u8>) -> Result<Popped, BrokenRing> {
        if self.side.other == self.side.own && !self.look()? {
            return Ok(Popped::Empty);
        }
        let side = &mut self.side;
        let there = side.other - side.own;
        let (length, _) = side.pieces(side.own, 1);
        // Read once, so that the value that is checked is the one that is used.
        let length = usize::try_from(length.first().map_or(0, |l| l.load(Relaxed)))
            .map_err(|_| BrokenRing)?;
        if length > side.longest() || words_of(length) > there {
            return Err(BrokenRing);
        }
        let words = words_of(length);
        let (first, second) = side.pieces(side.own + 1, words as usize - 1);
        out.resize((words as usize - 1) * WORD, 0);
        let (to, _) = out.as_chunks_mut::<WORD>();
        for (to, word) in to.iter_mut().zip(first.iter().chain(second)) {
            *to = word.load(Relaxed).to_le_bytes();
        }
        out.truncate(length);
        let before = side.own;
        side.own += words;
        side.control(HEAD).store(side.own, Release);
        M::Word::fence();
        let wish = side.control(ROOM).load(Relaxed);
        Ok(if before < wish && wish <= side.own { Popped::Wake } else { Popped::Quiet })
    }

    /// Returns true if the writer has requested a report on the last string that was taken, and
    /// there was none yet.
    #[inline]
    pub fn is_asked(&self) -> bool {
        let own = self.side.own;
        self.answered != own && self.side.control(PROBE).load(Relaxed) == own
    }

    /// Writes the report that the writer has requested.
    pub fn answer(&mut self, took: Took) {
        let side = &self.side;
        self.answered = side.own;
        side.control(TOOK_AT).store(took.at, Relaxed);
        side.control(SPENT).store(took.spent, Relaxed);
        side.control(TOOK).store(side.own, Release);
    }

    /// Requests a wake-up by the next string.
    pub fn rest(&mut self) -> Result<Rest, BrokenRing> {
        let side = &mut self.side;
        let mut wake = false;
        if self.asleep != side.own {
            self.asleep = side.own;
            side.control(ASLEEP).store(side.own, Relaxed);
            M::Word::fence();
            wake = side.control(IDLE).load(Relaxed) == side.own;
        }
        let empty = side.other == side.own && !self.look()?;
        Ok(Rest { empty, wake })
    }
}
