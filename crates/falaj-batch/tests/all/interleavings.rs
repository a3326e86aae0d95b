//! Tests falaj's rings and memif's rings under every order in which the steps of two threads may
//! execute, reordering by the processor included, up to a number of preemptions. No string is lost,
//! duplicated, torn or out of order, and neither side sleeps for ever.

use falaj_batch::memif::message::AddRing;
use falaj_batch::memif::region::Region;
use falaj_batch::memif::ring::{
    BUFFER, MemifReceiver, MemifSender, SendOutcome, length, of_master, of_slave,
};
use falaj_batch::ring::{Atomic, CONTROL, Memory, Popped, Pushed, RingReader, RingWriter};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Notify};
use std::collections::BTreeMap;

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

/// Words for strings: room for two strings of one word each, with their lengths.
const ROOM: usize = 4;

fn ring() -> (RingWriter<Words>, RingReader<Words>) {
    let words = Words(Arc::new((0..CONTROL + ROOM).map(|_| Word(AtomicU64::new(0))).collect()));
    let reader = RingReader::new(words.clone(), 0, ROOM).unwrap();
    (RingWriter::new(words, 0, ROOM).unwrap(), reader)
}

/// The wake-ups of either side.
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
    fn write(&self, writer: &mut RingWriter<Words>, bytes: &[u8]) {
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
    fn read(&self, reader: &mut RingReader<Words>) -> Vec<u8> {
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
    bounded(3, model);
}

fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn strings_come_whole_and_in_order() {
    explore(|| {
        let (mut writer, mut reader) = ring();
        let bells = Bells::new();
        let theirs = bells.clone();
        let thread = loom::thread::spawn(move || {
            // Together the strings are longer than the ring: the last string waits for room.
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
fn a_writer_that_holds_packets_back_learns_that_the_reader_sleeps() {
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

/// A slave's memory, in parts that one side writes at a time. A buffer has only its first word,
/// because each packet of this test fits in it.
#[derive(Clone)]
struct Parts(Arc<BTreeMap<usize, AtomicU64>>);

/// Two descriptors in a ring.
const LOG2: u8 = 1;
/// End of a ring's control part.
const CONTROLS: usize = 128;
const COOKIE: usize = 0;
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;

impl Parts {
    fn new() -> Parts {
        let mut parts = BTreeMap::new();
        for ring in 0..2 {
            let at = ring * length(LOG2);
            parts.extend([COOKIE, FLAGS, HEAD, TAIL].map(|part| (at + part, AtomicU64::new(0))));
            parts.extend(
                (at + CONTROLS..at + length(LOG2)).step_by(8).map(|at| (at, AtomicU64::new(0))),
            );
        }
        let buffers = 2 * length(LOG2);
        parts.extend(
            (buffers..buffers + ((2 * BUFFER) << LOG2))
                .step_by(BUFFER)
                .map(|at| (at, AtomicU64::new(0))),
        );
        Parts(Arc::new(parts))
    }

    fn part(&self, at: usize) -> &AtomicU64 {
        &self.0[&at]
    }

    /// Changes a part of a descriptor's word: no other side accesses it meanwhile.
    fn change(&self, at: usize, bits: u32, value: u64) {
        let (word, shift) = (self.part(at - at % 8), 8 * (at % 8) as u32);
        let mask = (1 << bits) - 1;
        let kept = word.load(Ordering::Relaxed) & !(mask << shift);
        word.store(kept | value << shift, Ordering::Relaxed);
    }

    fn is_control(at: usize) -> bool {
        at < 2 * length(LOG2) && at % length(LOG2) < CONTROLS
    }
}

impl Region for Parts {
    fn has(&self, at: usize, bytes: usize) -> bool {
        at + bytes <= 2 * length(LOG2)
    }
    fn load16(&self, at: usize, order: Ordering) -> u16 {
        self.part(at).load(order) as u16
    }
    fn store16(&self, at: usize, value: u16, order: Ordering) {
        if Parts::is_control(at) {
            self.part(at).store(value.into(), order);
        } else {
            self.change(at, 16, value.into());
        }
    }
    fn load32(&self, at: usize) -> u32 {
        self.part(at).load(Ordering::Relaxed) as u32
    }
    fn store32(&self, at: usize, value: u32) {
        if Parts::is_control(at) {
            self.part(at).store(value.into(), Ordering::Relaxed);
        } else {
            self.change(at, 32, value.into());
        }
    }
    fn load64(&self, at: usize) -> u64 {
        self.part(at).load(Ordering::Relaxed)
    }
    fn read(&self, at: usize, out: &mut [u8]) -> bool {
        let word = self.part(at).load(Ordering::Relaxed).to_le_bytes();
        out.copy_from_slice(&word[..out.len()]);
        true
    }
    fn write(&self, at: usize, bytes: &[u8]) -> bool {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        self.part(at).store(u64::from_le_bytes(word), Ordering::Relaxed);
        true
    }
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// A ring in each direction, with its sender and its receiver.
fn memif() -> [(MemifSender<Parts>, MemifReceiver<Parts>); 2] {
    let parts = Parts::new();
    let (to_master, from_master) = of_slave(&parts, LOG2).unwrap();
    let ring = |to_master: bool| {
        let offset = if to_master { 0 } else { length(LOG2) as u32 };
        AddRing { to_master, offset, log2_ring_size: LOG2, ..AddRing::default() }
    };
    let (to_slave, from_slave) = of_master(&[parts], [&ring(false), &ring(true)]).unwrap();
    from_master.lay_out();
    [(to_master, from_slave), (to_slave, from_master)]
}

/// Sends a packet. There is no wake-up for room: the sender tries again.
fn give(sender: &mut MemifSender<Parts>, bell: &Notify, packet: &[u8]) {
    loop {
        match sender.send(packet).unwrap() {
            SendOutcome::Wake => return bell.notify(),
            SendOutcome::Quiet => return,
            SendOutcome::Full => loom::thread::yield_now(),
        }
    }
}

/// Receives a packet, sleeping until there is one; while awake, it is not woken.
fn take(receiver: &mut MemifReceiver<Parts>, bell: &Notify) -> Vec<u8> {
    let mut out = [0; 8];
    loop {
        if let Some(received) = receiver.receive(&mut out).unwrap() {
            receiver.mask(true);
            return out[..received.unwrap()].to_vec();
        }
        receiver.mask(false);
        if receiver.is_empty().unwrap() {
            bell.wait();
        }
    }
}

fn cross(which: usize, preemptions: usize, packets: &'static [&'static [u8]]) {
    bounded(preemptions, move || {
        let (mut sender, mut receiver) = memif().into_iter().nth(which).unwrap();
        let bell = Arc::new(Notify::new());
        let theirs = bell.clone();
        let thread = loom::thread::spawn(move || {
            for packet in packets {
                give(&mut sender, &theirs, packet);
            }
        });
        for packet in packets {
            assert_eq!(take(&mut receiver, &bell), *packet);
        }
        thread.join().unwrap();
    });
}

#[test]
fn packets_come_whole_and_in_order_to_a_master() {
    cross(0, 3, &[b"first", b"second"]);
    // Together the packets are longer than the ring: the last packet waits for room.
    cross(0, 2, &[b"first", b"second", b"third"]);
}

#[test]
fn packets_come_whole_and_in_order_to_a_slave() {
    cross(1, 3, &[b"first", b"second"]);
    cross(1, 2, &[b"first", b"second", b"third"]);
}
