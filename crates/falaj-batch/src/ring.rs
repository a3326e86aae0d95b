//! A ring in shared memory: one writer, one reader, byte strings in order.
//!
//! Nobody believes the other side. Each keeps its own index to itself and only
//! tells it; the other's index and every length are checked before use, and a
//! string is copied out once, word by word, before anybody looks at it. All
//! words are atomics, so a peer that writes where and when it may not makes
//! other numbers and no undefined behaviour.
//!
//! Indices count words for ever and never repeat. Each word of the control
//! part has one side that writes it:
//!
//! | word | written by | says |
//! |---|---|---|
//! | `TAIL` | writer | up to where there are strings |
//! | `ROOM` | writer | wake me when you are there: there is room then |
//! | `IDLE` | writer | wake me if you sleep there: I hold something back until you do |
//! | `PROBE` | writer | tell me when you are done with all before this |
//! | `HEAD` | reader | up to where they were taken |
//! | `ASLEEP` | reader | wake me if there is something behind this |
//! | `TOOK`, `TOOK_AT` | reader | I am, and since when |
//! | `SPENT` | reader | what processor time I have needed until then |
//!
//! A wake-up is never lost: each side writes its word, passes a fence and then
//! reads the other's, so that one of the two sees what the other wrote. It is
//! asked for anew each time, since an index never comes again: a reader that is
//! awake is left in peace.

use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words before the strings. Each side's own are on a line of their own, and on
/// a pair of lines, since processors fetch them in pairs.
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

/// A word that two sides share.
pub trait Atomic {
    /// Reads it.
    fn load(&self, order: Ordering) -> u64;
    /// Writes it.
    fn store(&self, value: u64, order: Ordering);
    /// What was written before is seen by whoever passes one later.
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

/// Words that two sides share.
pub trait Memory {
    /// What they are.
    type Word: Atomic;
    /// All of them.
    fn words(&self) -> &[Self::Word];
}

/// The peer's indices or lengths make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenRing;

impl fmt::Display for BrokenRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the process on the other side of the ring writes nonsense into it")
    }
}

impl std::error::Error for BrokenRing {}

/// What became of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in the ring; the reader sleeps and is to be woken.
    Wake,
    /// It is in the ring, and the reader is awake.
    Quiet,
    /// There is no room for it now.
    Full,
    /// It never fits.
    TooLong,
}

/// Whether there was a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Popped {
    /// Yes; the writer waits for the room and is to be woken.
    Wake,
    /// Yes.
    Quiet,
    /// No.
    Empty,
}

/// What a reader tells of a string that it was asked about, when it is done with it. It may be
/// anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    /// When that was.
    pub at: u64,
    /// The processor time that the reader has needed until then.
    pub spent: u64,
}

/// What is to be done before sleeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// There is still nothing: sleep.
    pub empty: bool,
    /// The writer waits for that and is to be woken.
    pub wake: bool,
}

/// What both sides know.
struct RingSide<M> {
    memory: M,
    /// Where the control words begin.
    base: usize,
    /// Words for strings; a power of two.
    room: u64,
    /// Where this side is.
    own: u64,
    /// Where the other was when it was looked at last.
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

    /// Where `n` words from `at` on are, in two pieces.
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

/// The side that writes.
pub struct RingWriter<M>(RingSide<M>);

impl<M: Memory> RingWriter<M> {
    /// The ring whose control words begin at `base`, with `room` words for
    /// strings; `None` if the memory is too small or `room` is no power of two.
    pub fn new(memory: M, base: usize, room: usize) -> Option<RingWriter<M>> {
        RingSide::new(memory, base, room).map(RingWriter)
    }

    /// Bytes of the longest string that fits.
    pub fn longest(&self) -> usize {
        self.0.longest()
    }

    /// Words that are free, as far as is known; looks if these are not enough.
    #[inline]
    fn has_room(&mut self, words: u64) -> Result<bool, BrokenRing> {
        let side = &mut self.0;
        if side.room - (side.own - side.other) >= words {
            return Ok(true);
        }
        let head = side.control(HEAD).load(Acquire);
        // A reader goes neither back nor beyond what is there.
        if head.wrapping_sub(side.other) > side.own - side.other {
            return Err(BrokenRing);
        }
        side.other = head;
        Ok(side.room - (side.own - head) >= words)
    }

    /// Puts a string into the ring.
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
        // In this order: the other one would take a word too many.
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

    /// Has the reader taken everything and gone to sleep?
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.0.control(ASLEEP).load(Relaxed) == self.0.own
    }

    /// Asks to be woken when the reader goes to sleep; `true` if it does already. To ask again
    /// costs a look.
    #[inline]
    pub fn ask_idle(&mut self) -> bool {
        let word = self.0.control(IDLE);
        // It is this side's own. Asked for once, it holds until there is another string.
        if word.load(Relaxed) != self.0.own {
            word.store(self.0.own, Relaxed);
            M::Word::fence();
        }
        self.is_idle()
    }

    /// Asks to be woken when there is room for a string of so many bytes, and
    /// half of the ring is free if that is more; `true` if there is room already.
    pub fn ask_room(&mut self, bytes: usize) -> Result<bool, BrokenRing> {
        let side = &mut self.0;
        let words = words_of(bytes).max(side.room / 2).min(side.room);
        // Where the reader will be then.
        side.control(ROOM).store((side.own + words).saturating_sub(side.room), Relaxed);
        M::Word::fence();
        self.has_room(words)
    }
}

impl<M: Memory> RingWriter<M> {
    /// Asks when the reader will be done with the next string, which has so many bytes.
    pub fn ask_when(&mut self, bytes: usize) {
        self.0.control(PROBE).store(self.0.own + words_of(bytes), Relaxed);
    }

    /// What the reader says to that; `None` before it is.
    pub fn took(&self) -> Option<Took> {
        let side = &self.0;
        let asked = side.control(PROBE).load(Relaxed);
        (side.control(TOOK).load(Acquire) == asked).then(|| Took {
            at: side.control(TOOK_AT).load(Relaxed),
            spent: side.control(SPENT).load(Relaxed),
        })
    }
}

/// The side that reads.
pub struct RingReader<M> {
    side: RingSide<M>,
    /// Where this side went to sleep last.
    asleep: u64,
    /// Up to where it has said that it is done.
    answered: u64,
}

impl<M: Memory> RingReader<M> {
    /// As [`RingWriter::new`].
    pub fn new(memory: M, base: usize, room: usize) -> Option<RingReader<M>> {
        // Whoever has not looked yet is asleep: all words are zero in the beginning.
        RingSide::new(memory, base, room).map(|side| RingReader { side, asleep: 0, answered: 0 })
    }

    /// Looks at how far the writer is; says whether there is anything.
    #[inline]
    pub fn look(&mut self) -> Result<bool, BrokenRing> {
        let side = &mut self.side;
        let tail = side.control(TAIL).load(Acquire);
        // A writer goes neither back nor over what was not taken.
        if tail.wrapping_sub(side.own) > side.room || tail < side.other {
            return Err(BrokenRing);
        }
        side.other = tail;
        Ok(tail != side.own)
    }

    /// Takes the next string and puts it in the place of what is in `out`.
    #[inline]
    pub fn pop(&mut self, out: &mut Vec<u8>) -> Result<Popped, BrokenRing> {
        if self.side.other == self.side.own && !self.look()? {
            return Ok(Popped::Empty);
        }
        let side = &mut self.side;
        let there = side.other - side.own;
        let (length, _) = side.pieces(side.own, 1);
        // Read once: what is checked is what is used.
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

    /// Does the writer ask about the last string that was taken, and has nothing been said to that
    /// yet?
    #[inline]
    pub fn is_asked(&self) -> bool {
        let own = self.side.own;
        self.answered != own && self.side.control(PROBE).load(Relaxed) == own
    }

    /// Says it.
    pub fn answer(&mut self, took: Took) {
        let side = &self.side;
        self.answered = side.own;
        side.control(TOOK_AT).store(took.at, Relaxed);
        side.control(SPENT).store(took.spent, Relaxed);
        side.control(TOOK).store(side.own, Release);
    }

    /// Asks to be woken by the next string.
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
