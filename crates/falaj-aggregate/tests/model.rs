//! The ring under every order of its steps that two threads may take, and that
//! a processor may make of them, up to a number of preemptions: no string is
//! lost, doubled, torn or out of order, and nobody sleeps for ever.

use falaj_aggregate::ring::{Atomic, CONTROL, Memory, Popped, Pushed, Reader, Writer};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Notify};

struct Word(AtomicU64);

impl Atomic for Word {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

#[derive(Clone)]
struct Words(Arc<Vec<Word>>);

impl Memory for Words {
    type Word = Word;
    fn words(&self) -> &[Word] {
        &self.0
    }
}

/// Words for strings: two of a word each with their lengths.
const ROOM: usize = 4;

fn ring() -> (Writer<Words>, Reader<Words>) {
    let words = Words(Arc::new((0..CONTROL + ROOM).map(|_| Word(AtomicU64::new(0))).collect()));
    let reader = Reader::new(words.clone(), 0, ROOM).unwrap();
    (Writer::new(words, 0, ROOM).unwrap(), reader)
}

/// What wakes either side.
#[derive(Clone)]
struct Bells {
    writer: Arc<Notify>,
    reader: Arc<Notify>,
}

impl Bells {
    fn new() -> Bells {
        Bells { writer: Arc::new(Notify::new()), reader: Arc::new(Notify::new()) }
    }

    /// Writes a string, sleeping until there is room.
    fn write(&self, writer: &mut Writer<Words>, bytes: &[u8]) {
        loop {
            match writer.push(bytes).unwrap() {
                Pushed::Wake => return self.reader.notify(),
                Pushed::Quiet => return,
                Pushed::Full => {
                    if !writer.ask_room(bytes.len()).unwrap() {
                        self.writer.wait();
                    }
                }
                Pushed::TooLong => unreachable!("it fits"),
            }
        }
    }

    /// Reads a string, sleeping until there is one.
    fn read(&self, reader: &mut Reader<Words>) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            match reader.pop(&mut out).unwrap() {
                Popped::Quiet => return out,
                Popped::Wake => {
                    self.writer.notify();
                    return out;
                }
                Popped::Empty => {
                    let rest = reader.rest().unwrap();
                    if rest.wake {
                        self.writer.notify();
                    }
                    if rest.empty {
                        self.reader.wait();
                    }
                }
            }
        }
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn strings_come_whole_and_in_order() {
    explore(|| {
        let (mut writer, mut reader) = ring();
        let bells = Bells::new();
        let theirs = bells.clone();
        let thread = loom::thread::spawn(move || {
            // Longer than the ring together: the last waits for room.
            for string in [&b"first"[..], b"second", b"the third one"] {
                theirs.write(&mut writer, string);
            }
        });
        for string in [&b"first"[..], b"second", b"the third one"] {
            assert_eq!(bells.read(&mut reader), string);
        }
        thread.join().unwrap();
    });
}

#[test]
fn who_holds_something_back_hears_when_the_reader_sleeps() {
    explore(|| {
        let (mut writer, mut reader) = ring();
        let bells = Bells::new();
        let theirs = bells.clone();
        let thread = loom::thread::spawn(move || {
            theirs.write(&mut writer, b"now");
            if !writer.ask_idle() {
                theirs.writer.wait();
            }
            theirs.write(&mut writer, b"later");
        });
        assert_eq!(bells.read(&mut reader), b"now");
        assert_eq!(bells.read(&mut reader), b"later");
        thread.join().unwrap();
    });
}
