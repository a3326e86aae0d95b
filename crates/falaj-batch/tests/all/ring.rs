//! A ring compared with a queue of strings; a peer that writes arbitrary values into the shared
//! memory; two sides that wake each other.

use falaj_batch::endpoint::{Endpoint, line};
use falaj_batch::ring::{CONTROL, Memory, Popped, Pushed, RingReader, RingWriter, Took};
use falaj_sched::units::time::Span;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

#[derive(Clone)]
struct Words(Arc<Vec<AtomicU64>>);

impl Words {
    fn new(room: usize) -> Words {
        Words(Arc::new((0..CONTROL + room).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl Memory for Words {
    type Word = AtomicU64;
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

fn string(number: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (number * 31 + i * 7) as u8).collect()
}

proptest! {
    #[test]
    fn a_ring_is_a_queue(
        log in 0u32..7,
        steps in prop::collection::vec(prop::option::of(0usize..90), 1..300),
    ) {
        let room = 1 << log;
        let words = Words::new(room);
        let mut writer = RingWriter::new(words.clone(), 0, room).unwrap();
        let mut reader = RingReader::new(words, 0, room).unwrap();
        let (mut queue, mut used, mut out) = (VecDeque::new(), 0, Vec::new());
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Some(length) => {
                    let (bytes, takes) = (string(number as u64, length), 1 + length.div_ceil(8));
                    let pushed = writer.push(&bytes).unwrap();
                    if takes > room {
                        prop_assert_eq!(pushed, Pushed::TooLong);
                        prop_assert!(length > writer.longest());
                    } else if used + takes > room {
                        prop_assert_eq!(pushed, Pushed::Full);
                    } else {
                        prop_assert!(matches!(pushed, Pushed::Wake | Pushed::Quiet));
                        used += takes;
                        queue.push_back(bytes);
                    }
                }
                None => match queue.pop_front() {
                    Some(bytes) => {
                        prop_assert_ne!(reader.pop(&mut out).unwrap(), Popped::Empty);
                        used -= 1 + bytes.len().div_ceil(8);
                        prop_assert_eq!(&out, &bytes);
                    }
                    None => {
                        prop_assert_eq!(reader.pop(&mut out).unwrap(), Popped::Empty);
                        let rest = reader.rest().unwrap();
                        prop_assert!(rest.empty && !rest.wake);
                        prop_assert!(writer.is_idle() && writer.ask_idle());
                    }
                },
            }
        }
    }

    #[test]
    fn a_hostile_peer_costs_its_own_strings(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        hostile(&bytes);
    }
}

/// A writer and a reader of a ring, while other values are written into its memory; `bytes`
/// determines which values, and where. A plain function, for any fuzzer. It must end without a
/// panic, and no string may be longer than the ring.
pub(crate) fn hostile(bytes: &[u8]) {
    const ROOM: usize = 16;
    let words = Words::new(ROOM);
    // Both sides share one memory without coordination: the writes of each side attack the other
    // side too.
    let mut writer = RingWriter::new(words.clone(), 0, ROOM).unwrap();
    let mut reader = RingReader::new(words.clone(), 0, ROOM).unwrap();
    let mut out = Vec::new();
    let mut choices = bytes.iter().copied();
    while let Some(choice) = choices.next() {
        let argument = choices.next().unwrap_or(0);
        match choice % 10 {
            0..3 => {
                // Values close to the current one, close to the ends of the range, or arbitrary.
                let at = usize::from(argument) % words.0.len();
                let near = words.0[at].load(Ordering::Relaxed);
                let by = u64::from(choices.next().unwrap_or(0)) % 24;
                let value = match choice / 8 % 5 {
                    0 => near.wrapping_add(by),
                    1 => near.wrapping_sub(by),
                    2 => u64::MAX - by,
                    3 => by << (choice % 64),
                    _ => (1 << 63) + by,
                };
                words.0[at].store(value, Ordering::Relaxed);
            }
            3 => drop(writer.push(&string(3, argument.into()))),
            4 => drop(writer.ask_room(argument.into())),
            5 => {
                writer.ask_idle();
            }
            6 => {
                if matches!(reader.pop(&mut out), Ok(Popped::Wake | Popped::Quiet)) {
                    assert!(out.len() <= writer.longest());
                }
            }
            7 => drop(reader.rest()),
            8 => {
                writer.ask_when(argument.into());
                let _ = writer.took();
            }
            _ => {
                if reader.is_asked() {
                    reader.answer(Took { at: 1, spent: 2 });
                }
            }
        }
    }
}

/// The writer requests a report on one string in three. There is no report before that string was
/// taken, and none on another string.
#[test]
fn a_reader_says_when_it_took_what() {
    let words = Words::new(64);
    let mut writer = RingWriter::new(words.clone(), 0, 64).unwrap();
    let mut reader = RingReader::new(words, 0, 64).unwrap();
    let mut out = Vec::new();
    for round in 1..50u64 {
        for i in 0..3 {
            let bytes = string(round, 7 * i);
            if i == 1 {
                writer.ask_when(bytes.len());
            }
            writer.push(&bytes).unwrap();
        }
        for i in 0..3 {
            assert_eq!(writer.took().is_some(), i == 2, "{round} {i}");
            reader.pop(&mut out).unwrap();
            assert_eq!(reader.is_asked(), i == 1);
            if reader.is_asked() {
                reader.answer(Took { at: round, spent: 2 * round });
            }
        }
        assert_eq!(writer.took(), Some(Took { at: round, spent: 2 * round }));
    }
}

/// Each violation by a peer, separately.
#[test]
fn nonsense_is_told() {
    const ROOM: u64 = 16;
    let (tail, head) = (0, 16);
    let fresh = || {
        let words = Words::new(ROOM as usize);
        let reader = RingReader::new(words.clone(), 0, ROOM as usize).unwrap();
        (RingWriter::new(words.clone(), 0, ROOM as usize).unwrap(), reader, words)
    };
    let mut out = Vec::new();
    // More than there is room for; a string longer than the data; a string longer than the ring.
    for (there, length) in [(ROOM + 1, 0), (2, 9), (2, 8 * ROOM), (2, u64::MAX)] {
        let (_, mut reader, words) = fresh();
        words.0[CONTROL].store(length, Ordering::Relaxed);
        words.0[tail].store(there, Ordering::Relaxed);
        assert!(reader.pop(&mut out).is_err(), "{there} {length}");
    }
    // A writer whose index goes back.
    let (mut writer, mut reader, words) = fresh();
    writer.push(b"12345678").unwrap();
    assert!(reader.pop(&mut out).is_ok());
    words.0[tail].store(1, Ordering::Relaxed);
    assert!(reader.pop(&mut out).is_err());
    // A reader that takes strings that are not there.
    let (mut writer, _, words) = fresh();
    writer.push(&[0; 80]).unwrap();
    words.0[head].store(12, Ordering::Relaxed);
    assert!(writer.push(&[0; 80]).is_err());
}

/// Two sides in two threads, in both directions: every string arrives whole and in order, with few
/// wake-ups, and the end is noticed.
#[test]
fn two_sides_wake_each_other() {
    const STRINGS: u64 = 20_000;
    let length = |number: u64| (number * number % 700) as usize;
    let [a, b] = line().unwrap();
    let mut one = Endpoint::create(a, 4096, &[]).unwrap();
    let other = thread::spawn(move || {
        let (mut other, more) = Endpoint::accept(b).unwrap();
        assert!(more.is_empty());
        let (mut bytes, mut number) = (Vec::new(), 0);
        while !other.is_gone() {
            while other.receive(&mut bytes).unwrap() {
                assert_eq!(bytes, string(number, length(number)));
                number += 1;
                while !other.send(&bytes[..bytes.len().min(4)]).unwrap() {
                    if !other.ask_room(4).unwrap() {
                        other.wait(None).unwrap();
                    }
                }
            }
            if other.rest().unwrap() {
                other.wait(None).unwrap();
            }
        }
        number
    });
    let (mut bytes, mut back) = (Vec::new(), 0);
    for number in 0..STRINGS {
        let sent = string(number, length(number));
        // Answers are read meanwhile: two sides that only wait for room would wait for ever.
        while !one.send(&sent).unwrap() {
            while one.receive(&mut bytes).unwrap() {
                back += 1;
            }
            if one.rest().unwrap() && !one.ask_room(sent.len()).unwrap() {
                one.wait(Some(Span::from_secs(1))).unwrap();
            }
        }
    }
    while back < STRINGS {
        while one.receive(&mut bytes).unwrap() {
            back += 1;
        }
        if back < STRINGS && one.rest().unwrap() {
            one.wait(None).unwrap();
        }
    }
    assert!(one.rung() < STRINGS, "{} wake-ups", one.rung());
    drop(one);
    assert_eq!(other.join().unwrap(), STRINGS);
}

/// Messages over the line are trusted as little as the memory.
#[test]
fn what_is_no_ring_pair_is_refused() {
    let [a, b] = line().unwrap();
    drop(a);
    assert!(Endpoint::accept(b).is_err());
    let [a, _b] = line().unwrap();
    assert!(Endpoint::create(a, 1000, &[]).is_err());
}
