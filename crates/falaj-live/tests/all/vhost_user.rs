//! A guest's card with the guest in this process, with correct and malformed rings. [`rings`] and
//! [`monitor`] are plain functions, for any fuzzer; here they run over random bytes.

use super::guest::{
    CSUM, EVENT_IDX, FROM_GUEST, Guest, HEADER, LEAST, MEMORY, MONITOR, MRG_RXBUF, NEXT, SIZE,
    TO_GUEST, TSO4, WRITE, parts,
};
use falaj_live::backend::vhost_user::{VhostUser, VhostUserPort};
use falaj_live::backend::{InterfaceState, Monitor, Port};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use proptest::prelude::*;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use vhost::VhostBackend;
use vm_memory::{Bytes, GuestAddress};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

const INDIRECT: u16 = 4;

/// A unique name for a socket.
fn path() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("falaj-test-{}-{number}.sock", std::process::id()))
}

/// The card as the forwarder uses it.
struct Card {
    path: PathBuf,
    monitor: Monitor,
    card: Rc<VhostUser>,
    port: VhostUserPort,
}

impl Card {
    fn new() -> Card {
        let path = path();
        let (card, monitor) = VhostUser::listen(&path).expect("a socket");
        let card = Rc::new(card);
        Card { path, monitor, port: VhostUserPort::new(Rc::clone(&card)), card }
    }

    /// Waits until the card has this state.
    fn becomes(&self, state: InterfaceState) {
        loop {
            assert!(is_readable(&self.monitor, 10_000), "it never was {state:?}");
            self.monitor.clear();
            if self.card.look() == Some(state) {
                return;
            }
        }
    }

    fn receives(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0xee; self.port.longest()];
        let received = self.port.receive(&mut buffer).expect("a unit that can be read")?;
        Some(buffer[..received.length].to_vec())
    }
}

fn is_readable(fd: &impl AsFd, milliseconds: u16) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(milliseconds)).expect("it polls") > 0
}

/// A unit of one packet that needs neither checksumming nor segmentation.
fn unit(payload: usize) -> Vec<u8> {
    let mut unit = vec![0; HEADER + 12];
    unit.extend([0x88, 0xb5]);
    unit.extend((0..payload).map(|i| i as u8));
    unit
}

/// A TCP unit of `packets` packets of 100 bytes, with unfinished checksums.
fn train(packets: usize) -> Vec<u8> {
    let mut unit = vec![0; HEADER + 14 + 20 + 20];
    (unit[0], unit[1], unit[4], unit[6], unit[8]) = (1, 1, 100, 34, 16);
    (unit[24], unit[26], unit[35], unit[58]) = (0x08, 0x45, 6, 0x50);
    // The length is the only part of the pseudo-header that is not zero.
    let segment = (20 + 100 * packets) as u16;
    unit[62..64].copy_from_slice(&segment.to_be_bytes());
    unit.resize(unit.len() + 100 * packets, 7);
    unit
}

#[test]
fn units_pass_both_ways() {
    for features in [LEAST, LEAST | EVENT_IDX, LEAST | MRG_RXBUF, 1 << 30] {
        let mut card = Card::new();
        let mut guest = Guest::start(&card.path, features);
        card.becomes(InterfaceState::Up);
        let header = if features & (1 << 32 | MRG_RXBUF) == 0 { HEADER - 2 } else { HEADER };
        // A driver older than virtio 1 has no field for the number of buffers.
        let as_sent = |unit: &[u8]| [&unit[..header], &unit[HEADER..]].concat();
        assert_eq!(card.receives(), None);
        for round in 0..3 * u64::from(SIZE) {
            let unit = unit(100 + round as usize);
            guest.sends(&as_sent(&unit), &[header, 20]);
            assert!(is_readable(&card.port.readable(), 10_000));
            assert_eq!(card.receives().as_ref(), Some(&unit));
            assert_eq!(card.receives(), None);
            assert!(!is_readable(&card.port.readable(), 0), "all was read");
            assert_eq!(u64::from(guest.used(FROM_GUEST)), round + 1);

            assert!(!card.port.transmit(&unit).expect("a guest without room is not an error"));
            guest.offer(TO_GUEST, &[(0x80000, 7), (0x90000, 2000)]);
            if features & EVENT_IDX != 0 {
                let event = parts(TO_GUEST)[1] + 4 + 2 * u64::from(SIZE);
                guest.set_word(event, round as u16);
            }
            assert!(card.port.transmit(&unit).expect("it is right"));
            assert_eq!(guest.calls[TO_GUEST].read().expect("the guest is told"), 1);
            let sent = as_sent(&unit);
            assert_eq!(guest.used_length(TO_GUEST, round as u16) as usize, sent.len());
            let got = [guest.bytes(0x80000, 7), guest.bytes(0x90000, sent.len() - 7)].concat();
            assert_eq!(got[header..], sent[header..]);
            assert_eq!(got[10..header], [1, 0][..header - 10], "one buffer");
        }
    }
}

#[test]
fn a_long_unit_goes_over_several_buffers() {
    let mut card = Card::new();
    let mut guest = Guest::start(&card.path, LEAST | MRG_RXBUF | CSUM | TSO4);
    card.becomes(InterfaceState::Up);
    let unit = train(40);
    guest.offer(TO_GUEST, &[(0x80000, 1500)]);
    guest.offer(TO_GUEST, &[(0x81000, 1500)]);
    assert!(!card.port.transmit(&unit).expect("no error"), "two are too few");
    assert_eq!(guest.used(TO_GUEST), 0, "and wait for another one");
    guest.offer(TO_GUEST, &[(0x82000, 4000)]);
    assert!(card.port.transmit(&unit).expect("no error"));
    assert_eq!(guest.used(TO_GUEST), 3);
    let lengths: Vec<u32> = (0..3).map(|n| guest.used_length(TO_GUEST, n)).collect();
    assert_eq!(lengths, [1500, 1500, unit.len() as u32 - 3000]);
    let got = [
        guest.bytes(0x80000, 1500),
        guest.bytes(0x81000, 1500),
        guest.bytes(0x82000, unit.len() - 3000),
    ]
    .concat();
    assert_eq!(
        (got[10..12].to_vec(), &got[..10], &got[12..]),
        (vec![3, 0], &unit[..10], &unit[12..])
    );
}

#[test]
fn a_guest_gets_what_it_takes() {
    for (features, finished) in [(LEAST, true), (LEAST | CSUM, false)] {
        let mut card = Card::new();
        let mut guest = Guest::start(&card.path, features);
        card.becomes(InterfaceState::Up);
        (0..3).for_each(|n| guest.offer(TO_GUEST, &[(0x80000 + 0x1000 * n, 2000)]));
        assert!(card.port.transmit(&train(3)).expect("no error"));
        assert_eq!(guest.used(TO_GUEST), 3, "packet by packet");
        for n in 0..3 {
            let packet = guest.bytes(0x80000 + 0x1000 * n, HEADER + 14 + 40 + 100);
            assert_eq!((packet[0] == 0, packet[1]), (finished, 0));
            if finished {
                let words = packet[HEADER + 14 + 20..].chunks(2);
                let sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
                let sum = sum + 120;
                assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "with the pseudo-header's length");
            }
        }
        // A unit of unknown kind.
        let strange = [&[1, 3], &train(3)[2..]].concat();
        assert!(card.port.transmit(&strange).is_err());
    }
}

#[test]
fn a_monitor_goes_and_another_comes() {
    let mut card = Card::new();
    for _ in 0..3 {
        let mut guest = Guest::start(&card.path, LEAST);
        card.becomes(InterfaceState::Up);
        guest.sends(&unit(60), &[]);
        assert!(is_readable(&card.port.readable(), 10_000));
        assert_eq!(card.receives(), Some(unit(60)));
        drop(guest);
        card.becomes(InterfaceState::Gone);
        assert_eq!(card.receives(), None);
        assert!(!card.port.transmit(&unit(60)).expect("it may come back"));
    }
    let path = card.path.clone();
    assert!(VhostUser::listen(&path).is_err_and(|e| e.kind() == ErrorKind::AddrInUse));
    drop(card);
    assert!(!path.exists());
    // A socket that was left behind.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists());
    drop(VhostUser::listen(&path).expect("nobody listens there"));
}

#[test]
fn a_ring_that_stops_goes_on_where_it_was() {
    let mut card = Card::new();
    let mut guest = Guest::start(&card.path, LEAST);
    card.becomes(InterfaceState::Up);
    guest.sends(&unit(60), &[]);
    guest.sends(&unit(61), &[]);
    assert_eq!(card.receives(), Some(unit(60)));
    let bases = [TO_GUEST, FROM_GUEST]
        .map(|ring| guest.frontend.get_vring_base(ring).expect("a position") as u16);
    assert_eq!(bases, [0, 1]);
    card.becomes(InterfaceState::Down);
    assert_eq!(card.receives(), None);
    guest.run(bases);
    card.becomes(InterfaceState::Up);
    assert!(is_readable(&card.port.readable(), 10_000), "nobody kicks again");
    assert_eq!(card.receives(), Some(unit(61)));
}

#[test]
fn a_monitor_that_talks_nonsense_is_left() {
    let mut card = Card::new();
    for words in [&b"nonsense"[..], &[0; 4096], &[0xff; 100], &[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]] {
        let mut stream = UnixStream::connect(&card.path).expect("it listens");
        stream.write_all(words).expect("it is read");
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        let _ = stream.read_to_end(&mut Vec::new());
    }
    // An access to memory beyond its file would kill this process.
    let guest = Guest::connect(&card.path, LEAST);
    let _ = guest.share(MEMORY as u64 + 0x1000);
    assert!(guest.frontend.get_features().is_err(), "it was hung up on");
    // The card waits for the rest of half a message, without blocking packets.
    let mut half = UnixStream::connect(&card.path).expect("it listens");
    half.write_all(&[1, 0]).expect("it is read");
    assert_eq!(card.receives(), None);
    drop(half);
    let mut guest = Guest::start(&card.path, LEAST);
    card.becomes(InterfaceState::Up);
    guest.sends(&unit(60), &[]);
    assert!(is_readable(&card.port.readable(), 10_000));
    assert_eq!(card.receives(), Some(unit(60)));
}

/// An access to memory that its monitor has truncated would kill this process.
#[test]
fn memory_that_can_be_sealed_stays_as_long_as_it_is() {
    let mut card = Card::new();
    let mut guest = Guest::connect(&card.path, LEAST);
    guest.file = File::from(memfd_create("guest", MFdFlags::MFD_ALLOW_SEALING).expect("memory"));
    guest.file.set_len(MEMORY as u64).expect("the memfd grows to 1 MiB");
    guest.share(MEMORY as u64).expect("the device maps the memory");
    guest.run([0; 2]);
    card.becomes(InterfaceState::Up);
    guest.file.set_len(0x1000).expect_err("it is sealed");
    assert_eq!(card.receives(), None);
    // The seal forbids shrinking the file. A monitor that wants less memory has to share another
    // file.
    guest.file.set_len(2 * MEMORY as u64).expect("it may become longer");
}

/// Rings written by arbitrary bytes: descriptors outside of the memory, in a loop, or in tables;
/// indices that are too large. Units are read and sent while the bytes are written; in the end a
/// correct unit passes.
pub(crate) fn rings(bytes: &[u8]) {
    let features = LEAST
        | bytes
            .first()
            .map_or(0, |&b| u64::from(b & 1) * MRG_RXBUF + u64::from(b & 2) * (EVENT_IDX / 2));
    let mut card = Card::new();
    let mut guest = Guest::start(&card.path, features);
    card.becomes(InterfaceState::Up);
    let mut buffer = vec![0; card.port.longest()];
    let mut bytes = bytes.iter().copied();
    while let Some(what) = bytes.next() {
        let mut byte = || bytes.next().unwrap_or(0);
        let ring = usize::from(what >> 7);
        match what % 8 {
            0..4 => {
                let ends = [
                    0x40000,
                    0x80000,
                    MEMORY as u64 - 8,
                    parts(0)[0],
                    parts(1)[0],
                    u64::MAX - 4,
                    1 << 40,
                ];
                let lengths = [0, 1, 10, 60, 1514, 16, 16 * 7, 0x10000, 0x7fff_ffff, u32::MAX];
                let at = ends[usize::from(byte()) % ends.len()];
                let length = lengths[usize::from(byte()) % lengths.len()];
                let flags = u16::from(byte()) & (NEXT | WRITE | INDIRECT);
                guest.descriptor(
                    ring,
                    u16::from(byte()) % SIZE,
                    (at, length),
                    flags,
                    u16::from(byte()) % (SIZE + 2),
                );
            }
            4..6 => guest.make_available(ring, u16::from(byte()) % (SIZE + 2)),
            6 => guest.set_word(parts(ring)[1] + 2, u16::from_le_bytes([byte(), byte()])),
            _ => {
                let (at, value) = (u64::from(byte()), byte());
                guest
                    .memory
                    .write_obj(value, GuestAddress(parts(ring)[1 + (at & 1) as usize] + at))
                    .expect("memory");
            }
        }
        for _ in 0..3 {
            let _ = card.port.receive(&mut buffer);
        }
        let _ = card.port.transmit(&train(usize::from(what) % 8 + 2));
        let _ = card.port.transmit(&unit(64));
    }
    drop(guest);
    card.becomes(InterfaceState::Gone);
    let mut guest = Guest::start(&card.path, LEAST);
    card.becomes(InterfaceState::Up);
    guest.sends(&unit(60), &[]);
    assert_eq!(card.receives(), Some(unit(60)));
}

/// Arbitrary messages of a monitor: correct messages in the wrong order, messages with one wrong
/// field, wrong descriptors, memory at wrong addresses. Each message is answered or the connection
/// is closed, and in the end another monitor's guest is served.
pub(crate) fn monitor(bytes: &[u8]) {
    const RIGHT: [u8; 11] = [18, 3, 1, 2, 5, 8, 10, 9, 13, 12, 17];
    const STRANGE: [u32; 8] = [0, 1, 2, 7, 0x100, 0x7fff_ffff, 0xffff_fff0, u32::MAX];
    let mut card = Card::new();
    let mut buffer = vec![0; card.port.longest()];
    let connect = || {
        let stream = UnixStream::connect(&card.path).expect("it listens");
        stream.set_nonblocking(true).expect("it is a socket");
        stream
    };
    let mut stream = connect();
    let memory = File::from(memfd_create("guest", MFdFlags::empty()).expect("memory"));
    memory.set_len(MEMORY as u64).expect("the memfd grows to 1 MiB");
    let event = EventFd::new(EFD_NONBLOCK).expect("a descriptor");
    let null = File::open("/dev/null").expect("it is there");
    let mut bytes = bytes.iter().copied();
    while let Some(what) = bytes.next() {
        let mut byte = || bytes.next().unwrap_or(0);
        // All messages of a correct monitor, for one ring, or one message of any kind.
        let one =
            [if what & 1 == 0 { RIGHT[usize::from(what / 2) % RIGHT.len()] } else { what % 50 }];
        let words = if what >= 0xc0 { &RIGHT[..] } else { &one };
        let (ring, wrong) = (u32::from(what >> 1 & 1), byte());
        for &word in words {
            let longs = |longs: &[u64]| {
                longs.iter().flat_map(|long| [*long as u32, (*long >> 32) as u32]).collect()
            };
            let [descriptors, available, used] = parts(ring as usize).map(|at| MONITOR + at);
            let mut said: Vec<u32> = match word {
                2 | 16 => longs(&[LEAST | (u64::from(wrong & 3) * EVENT_IDX)]),
                5 => [vec![1, 0], longs(&[0, MEMORY as u64, MONITOR, 0])].concat(),
                8 => vec![ring, SIZE.into()],
                9 => [vec![ring, 0], longs(&[descriptors, used, available, 0])].concat(),
                10 | 11 => vec![ring, u32::from(wrong >> 6)],
                12..=14 => longs(&[ring.into()]),
                18 => vec![ring, 1],
                1 | 3 | 4 | 15 | 17 | 34 | 36 => Vec::new(),
                _ => longs(&[byte().into(), byte().into()]),
            };
            let mut passed = match word {
                5 => vec![memory.as_raw_fd()],
                12..=14 => vec![event.as_raw_fd()],
                _ => Vec::new(),
            };
            let (mut flags, mut beyond) = (1, 0);
            match wrong & 7 {
                1 if !said.is_empty() => {
                    let at = usize::from(byte()) % said.len();
                    said[at] = STRANGE[usize::from(byte()) % STRANGE.len()];
                }
                2 => {
                    let all = [memory.as_raw_fd(), event.as_raw_fd(), null.as_raw_fd()];
                    passed = vec![all[usize::from(byte()) % all.len()]];
                }
                3 => passed.clear(),
                4 => passed.extend(passed.clone()),
                5 => flags = u32::from(byte()),
                6 => beyond = STRANGE[usize::from(byte()) % STRANGE.len()],
                _ => {}
            }
            let size = (4 * said.len() as u32).wrapping_add(beyond);
            let message: Vec<u8> = [u32::from(word), flags, size]
                .iter()
                .chain(&said)
                .flat_map(|w| w.to_le_bytes())
                .collect();
            if stream.send_with_fds(&[&message[..]], &passed).is_err() {
                stream = connect();
            }
            let _ = stream.read(&mut [0; 4096]);
        }
        let _ = event.write(1);
        let _ = card.port.receive(&mut buffer);
        let _ = card.port.transmit(&train(2));
        // The byte 0xbf makes the monitor connect again, also after half a message.
        if what == 0xbf {
            stream = connect();
        }
    }
    drop(stream);
    let mut guest = Guest::start(&card.path, LEAST);
    guest.sends(&unit(60), &[]);
    let began = Instant::now();
    while card.receives() != Some(unit(60)) {
        assert!(began.elapsed() < Duration::from_secs(10), "a right guest is not served");
        let _ = is_readable(&card.port.readable(), 10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(128)
    })]
    #[test]
    fn whatever_a_guest_writes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        rings(&bytes);
    }

    #[test]
    fn whatever_a_monitor_says(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        monitor(&bytes);
    }
}
