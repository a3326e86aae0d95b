//! Tests of memif: two ends in one process, a peer that sends and writes arbitrary data, and a peer
//! that is absent. [`hostile`] is a plain function, for any fuzzer; here it runs over random bytes,
//! and its parts run over nearly correct messages.

use falaj_batch::crossing::Crossing;
use falaj_batch::memif::channel::Channel;
use falaj_batch::memif::link::MemifLink;
use falaj_batch::memif::message::{
    AddRing, ETHERNET, Hello, Init, LENGTH, MalformedMessage, MemifMessage, VERSION,
};
use falaj_batch::memif::ring::BUFFER;
use falaj_batch::memif::session::{Agreed, MemifRole, MemifTerms, Session};
use falaj_batch::memif::socket::{MemifSocket, SocketEvent};
use falaj_batch::memory::SharedMemory;
use falaj_engine::batch::{BatchPolicy, Packer};
use falaj_sched::units::time::{Span, Time};
use proptest::prelude::*;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{self, MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    send, sendmsg, socketpair,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

const LONGEST: usize = 70_000;

fn pair() -> [OwnedFd; 2] {
    let (a, b) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    [a, b]
}

fn terms(role: MemifRole) -> MemifTerms {
    MemifTerms { role, id: 3, secret: "word".into(), batches: false, longest: LONGEST }
}

/// Runs the dialog of both sides; returns the results of the master and of the slave.
fn talk(master: MemifTerms, slave: MemifTerms) -> [Result<Option<Agreed>, String>; 2] {
    let [a, b] = pair();
    let mut sides = [Session::new(a, master).unwrap(), Session::new(b, slave).unwrap()];
    let mut came = [Ok(None), Ok(None)];
    for _ in 0..20 {
        for (side, came) in sides.iter_mut().zip(&mut came) {
            if matches!(came, Ok(None)) {
                *came = side.turn().map_err(|error| error.to_string());
            }
        }
    }
    came
}

fn connected(master: MemifTerms, slave: MemifTerms) -> [Agreed; 2] {
    talk(master, slave).map(|came| came.unwrap().expect("they agree"))
}

fn is_readable(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

fn packet(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (number * 31 + i * 7) as u8).collect()
}

/// All packets in the ring.
fn all(link: &mut MemifLink) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; LONGEST];
    let mut packets = Vec::new();
    while let Some(length) = link.receive(&mut buffer).unwrap() {
        packets.push(buffer[..length.unwrap()].to_vec());
    }
    packets
}

#[test]
fn packets_both_ways() {
    let [mut master, mut slave] =
        connected(terms(MemifRole::Master), terms(MemifRole::Slave)).map(|agreed| {
            assert!(!agreed.batches && agreed.peer.starts_with("falaj"), "{}", agreed.peer);
            agreed.link
        });
    let mut number = 0;
    // The rings wrap many times: indices have 16 bits, rings 1024 places.
    for round in 0..400 {
        turn(&mut master, &mut slave, &mut number, round);
        turn(&mut slave, &mut master, &mut number, round);
    }
    assert!(number > 2 * 70_000, "{number}");
}

fn turn(from: &mut MemifLink, to: &mut MemifLink, number: &mut usize, round: usize) {
    assert!(to.rest().unwrap(), "nothing is there");
    to.clear().unwrap();
    assert!(!is_readable(to));
    let lengths = [60, 0, 1, BUFFER, BUFFER + 1, 9000, 65_535];
    let sent: Vec<Vec<u8>> = (0..200)
        .map(|i| packet(*number + i, lengths[(i + round) % if i < 7 { 7 } else { 3 }]))
        .collect();
    for packet in &sent {
        assert!(from.send(packet).unwrap());
    }
    *number += sent.len();
    assert!(is_readable(to), "it was woken");
    assert!(!to.rest().unwrap(), "something is there");
    assert!(all(to) == sent);
}

/// A receiver that is awake is not woken. A sender without room reports that, and packets sent
/// before and after arrive.
#[test]
fn wake_ups_and_room() {
    let [master, slave] =
        connected(terms(MemifRole::Master), terms(MemifRole::Slave)).map(|agreed| agreed.link);
    for (mut from, mut to) in [(master, slave)] {
        for _ in 0..2 {
            assert!(to.rest().unwrap());
            assert!(from.send(b"first").unwrap() && is_readable(&to));
            assert_eq!(all(&mut to), [b"first"]);
            to.clear().unwrap();
            assert!(from.send(b"second").unwrap() && !is_readable(&to), "it has not rested since");
            assert!(!to.rest().unwrap() && all(&mut to) == [b"second"]);
            let mut sent = 0;
            while from.send(&packet(sent, 100)).unwrap() {
                sent += 1;
            }
            assert_eq!(sent, 1024);
            let came = all(&mut to);
            assert!(
                came.len() == sent
                    && came.iter().enumerate().all(|(i, came)| *came == packet(i, 100))
            );
            assert!(from.send(b"again").unwrap());
            assert_eq!(all(&mut to), [b"again"]);
            std::mem::swap(&mut from, &mut to);
        }
    }
}

#[test]
fn batches_only_if_both_sides_will() {
    for (wants, agreed) in [
        ([false, false], false),
        ([true, false], true),
        ([false, true], true),
        ([true, true], true),
    ] {
        let [master, slave] = [MemifRole::Master, MemifRole::Slave].map(terms);
        let [master, slave] = connected(
            MemifTerms { batches: wants[0], ..master },
            MemifTerms { batches: wants[1], ..slave },
        );
        assert_eq!([master.batches, slave.batches], [agreed; 2], "{wants:?}");
    }
    // Other programs do not get batches, in either role.
    for name in ["VPP 24.02", "", "falaj"] {
        let (mut session, other) = against(MemifTerms { batches: true, ..terms(MemifRole::Slave) });
        let hello = Hello {
            name: name.into(),
            versions: (VERSION, VERSION),
            max_log2_ring_size: 10,
            ..Hello::default()
        };
        other.send(&MemifMessage::Hello(hello), None).unwrap();
        session.turn().unwrap();
        let Some((MemifMessage::Init(init), None)) = other.receive().unwrap() else {
            panic!("an answer")
        };
        assert_eq!((init.name.as_str(), init.id, &init.secret[..5]), ("falaj", 3, &b"word\0"[..]));
    }
}

#[test]
fn batches_cross() {
    let of = |role| MemifTerms { batches: true, ..terms(role) };
    let policy = BatchPolicy {
        packets: 62,
        bytes: 1 << 16,
        timeout: Span::from_micros(200),
        when_idle: false,
    };
    let [mut a, mut b] = connected(of(MemifRole::Master), of(MemifRole::Slave))
        .map(|agreed| Crossing::new(agreed.link, Packer::new(policy, 0).unwrap()));
    let mut buffer = vec![0; LONGEST];
    for round in 0..50 {
        let sent: Vec<Vec<u8>> = (0..62 + 10).map(|i| packet(0, 60 + i + round)).collect();
        for packet in &sent {
            assert!(a.offer(packet, Time(round as u64 * 1_000_000)).unwrap());
        }
        let mut came = Vec::new();
        let mut take = |from: &mut Crossing<MemifLink>, came: &mut Vec<Vec<u8>>| {
            while let Some(length) = from.receive(&mut buffer).unwrap() {
                came.push(buffer[..length.unwrap()].to_vec());
            }
        };
        take(&mut b, &mut came);
        assert_eq!(came, sent[..62], "one batch is full");
        a.poll(Time(round as u64 * 1_000_000 + 200_000)).unwrap();
        take(&mut b, &mut came);
        assert_eq!(came, sent, "and one was late");
        std::mem::swap(&mut a, &mut b);
    }
}

/// Packets without room wait within their batches until there is some.
#[test]
fn batches_wait_for_room() {
    let of = |role| MemifTerms { batches: true, ..terms(role) };
    let policy = BatchPolicy::one_by_one(1 << 16);
    let [mut b, mut a] = connected(of(MemifRole::Master), of(MemifRole::Slave))
        .map(|agreed| Crossing::new(agreed.link, Packer::new(policy, 0).unwrap()));
    let (mut sent, now) = (0, Time(0));
    while a.offer(&packet(0, 100 + sent % 100), now).unwrap() {
        sent += 1;
    }
    assert!(sent > 1024, "beyond the ring");
    assert!(a.rest().unwrap());
    let (mut buffer, mut came) = (vec![0; LONGEST], 0);
    while came < sent {
        while let Some(length) = b.receive(&mut buffer).unwrap() {
            assert_eq!(buffer[..length.unwrap()], packet(0, 100 + came % 100));
            came += 1;
        }
        a.poll(now).unwrap();
    }
}

/// A session and its peer's channel.
fn against(terms: MemifTerms) -> (Session, Channel) {
    let [a, b] = pair();
    (Session::new(a, terms).unwrap(), Channel::new(b))
}

#[test]
fn a_peer_that_does_not_agree_gets_the_reason() {
    let [master, slave] = [MemifRole::Master, MemifRole::Slave].map(terms);
    for (other, told) in [
        (MemifTerms { id: 4, ..slave.clone() }, "another number"),
        (MemifTerms { secret: "wort".into(), ..slave.clone() }, "secret"),
        (MemifTerms { secret: String::new(), ..slave.clone() }, "secret"),
    ] {
        let [first, second] = talk(master.clone(), other);
        let (first, second) = (first.err().expect("refused"), second.err().expect("told"));
        assert!(
            first.contains(told)
                && second.contains(told)
                && second.contains("ended the connection"),
            "{first}; {second}"
        );
    }
    // A master without a secret accepts any.
    assert!(talk(MemifTerms { secret: String::new(), ..master }, slave)[0].is_ok());
}

#[test]
fn messages_are_their_bytes() {
    let all = [
        MemifMessage::Ack,
        MemifMessage::Hello(Hello {
            name: "VPP".into(),
            versions: (VERSION, VERSION),
            max_region: 255,
            max_m2s_ring: 1,
            max_s2m_ring: 2,
            max_log2_ring_size: 14,
        }),
        MemifMessage::Init(Init {
            version: VERSION,
            id: 7,
            mode: ETHERNET,
            secret: [7; 24],
            name: "x".repeat(31),
        }),
        MemifMessage::AddRegion { index: 1, size: 1 << 40 },
        MemifMessage::AddRing(AddRing {
            to_master: true,
            index: 1,
            region: 2,
            offset: 3,
            log2_ring_size: 4,
            private_header: 5,
        }),
        MemifMessage::Connect { interface: "memif0/0".into() },
        MemifMessage::Connected { interface: String::new() },
        MemifMessage::Disconnect { code: 5, why: "for no reason".into() },
    ];
    for (kind, message) in all.iter().enumerate() {
        let bytes = message.to_bytes();
        assert_eq!(bytes[..2], (kind as u16 + 1).to_ne_bytes());
        assert_eq!(MemifMessage::from_bytes(&bytes).as_ref(), Ok(message));
        assert_eq!(
            MemifMessage::from_bytes(&bytes[1..]),
            Err(MalformedMessage::Length(LENGTH - 1))
        );
    }
    // The offsets of a region's size and a ring's offset in VPP's `memif.h`.
    assert_eq!(all[3].to_bytes()[4..12], (1u64 << 40).to_ne_bytes());
    assert_eq!(all[4].to_bytes()[8..12], 3u32.to_ne_bytes());
    assert_eq!(MemifMessage::from_bytes(&[0; LENGTH]), Err(MalformedMessage::Kind(0)));
    // A text that is too long is truncated, and control characters are replaced.
    let long = MemifMessage::Connect { interface: format!("{}\u{1b}[2J", "é".repeat(12)) };
    let Ok(MemifMessage::Connect { interface }) = MemifMessage::from_bytes(&long.to_bytes()) else {
        panic!("one of its kind")
    };
    assert_eq!(interface, format!("{}?[2J", "é".repeat(12)));
}

/// A slave with its own memory that sends arbitrary descriptions of it.
struct Slave {
    session: Session,
    channel: Channel,
    memory: OwnedFd,
    shared: Arc<SharedMemory>,
    bells: [OwnedFd; 2],
}

const WORDS: usize = 4096;
const REGION: u64 = 8 * WORDS as u64;
/// Its rings have sixteen descriptors each, one ring after the other, then buffers.
const LOG2: u8 = 4;
const TO_MASTER: usize = 0;
const TO_SLAVE: usize = 128 + (16 << LOG2);
const DATA: usize = 2 * TO_SLAVE;

impl Slave {
    fn new() -> Slave {
        let (session, channel) = against(terms(MemifRole::Master));
        let (memory, shared) = SharedMemory::create(WORDS).unwrap();
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        for ring in [TO_MASTER, TO_SLAVE] {
            shared.cell::<AtomicU32>(ring).unwrap().store(0x3E3_1F20, Relaxed);
        }
        assert!(matches!(channel.receive().unwrap(), Some((MemifMessage::Hello(_), None))));
        Slave { session, channel, memory, shared, bells: [bell(), bell()] }
    }

    fn ring(to_master: bool) -> AddRing {
        let offset = if to_master { TO_MASTER } else { TO_SLAVE } as u32;
        AddRing { to_master, offset, log2_ring_size: LOG2, ..AddRing::default() }
    }

    fn init() -> MemifMessage {
        let mut secret = [0; 24];
        secret[..4].copy_from_slice(b"word");
        MemifMessage::Init(Init { version: VERSION, id: 3, secret, ..Init::default() })
    }

    /// Sends a message; returns the session's result.
    fn says(
        &mut self,
        message: &MemifMessage,
        fd: Option<&OwnedFd>,
    ) -> Result<Option<Agreed>, String> {
        self.channel.send(message, fd.map(AsFd::as_fd)).unwrap();
        self.session.turn().map_err(|error| error.to_string())
    }

    /// Sends all messages, in the right order.
    fn connect(&mut self, rings: [AddRing; 2]) -> Result<Option<Agreed>, String> {
        let [memory, first, second] =
            [&self.memory, &self.bells[0], &self.bells[1]].map(|fd| fd.try_clone().unwrap());
        self.says(&Slave::init(), None)?;
        self.says(&MemifMessage::AddRegion { index: 0, size: REGION }, Some(&memory))?;
        self.says(&MemifMessage::AddRing(rings[0]), Some(&first))?;
        self.says(&MemifMessage::AddRing(rings[1]), Some(&second))?;
        self.says(&MemifMessage::Connect { interface: String::new() }, None)
    }

    fn index(&self, ring: usize, at: usize, value: u16) {
        self.shared.cell::<AtomicU16>(ring + at).unwrap().store(value, Relaxed);
    }

    fn descriptor(
        &self,
        ring: usize,
        slot: usize,
        flags: u16,
        region: u16,
        length: u32,
        offset: u32,
    ) {
        let at = ring + 128 + 16 * slot;
        let first = u64::from(length) << 32 | u64::from(region) << 16 | u64::from(flags);
        self.shared.cell::<AtomicU64>(at).unwrap().store(first.to_le(), Relaxed);
        self.shared.cell::<AtomicU32>(at + 8).unwrap().store(offset, Relaxed);
    }
}

const HEAD: usize = 6;
const TAIL: usize = 64;

#[test]
fn what_a_slave_must_not_say() {
    let right = [Slave::ring(true), Slave::ring(false)];
    assert!(Slave::new().connect(right).unwrap().is_some());
    for (ring, told) in [
        (AddRing { index: 1, ..right[0] }, "more than one ring in a direction"),
        (right[1], "more than one ring in a direction"),
        (AddRing { private_header: 8, ..right[0] }, "private"),
        (AddRing { region: 1, ..right[0] }, "a region that does not exist"),
        (AddRing { log2_ring_size: 15, ..right[0] }, "larger"),
        (AddRing { log2_ring_size: 255, ..right[0] }, "larger"),
        (AddRing { log2_ring_size: 14, ..right[0] }, "not within its region"),
        (AddRing { offset: REGION as u32 - 8, ..right[0] }, "not within its region"),
        (AddRing { offset: u32::MAX, ..right[0] }, "not within its region"),
        (AddRing { offset: 4, ..right[0] }, "not within its region"),
        (AddRing { offset: 8, ..right[0] }, "cookie"),
    ] {
        let mut slave = Slave::new();
        let why =
            slave.connect([ring, right[1]]).err().unwrap_or_else(|| panic!("{ring:?} is taken"));
        assert!(why.contains(told), "{ring:?}: {why}");
        let mut last = None;
        while let Ok(Some((message, _))) = slave.channel.receive() {
            last = Some(message);
        }
        assert!(
            matches!(&last, Some(MemifMessage::Disconnect { why: heard, .. }) if *heard == why),
            "{last:?}"
        );
    }

    let (region, ring) =
        (MemifMessage::AddRegion { index: 0, size: REGION }, MemifMessage::AddRing(right[0]));
    let connect = MemifMessage::Connect { interface: String::new() };
    let refused = |first: &[(&MemifMessage, bool)], told: &str| {
        let mut slave = Slave::new();
        let memory = slave.memory.try_clone().unwrap();
        let mut why = None;
        for (message, with) in first {
            why = slave.says(message, with.then_some(&memory)).err();
        }
        assert!(why.as_ref().is_some_and(|why| why.contains(told)), "{first:?}: {why:?}");
    };
    let init = Slave::init();
    refused(&[(&region, true)], "not allowed at this point");
    refused(&[(&connect, false)], "not allowed at this point");
    refused(&[(&MemifMessage::Ack, false)], "not allowed at this point");
    refused(&[(&init, false), (&init, false)], "not allowed at this point");
    refused(&[(&init, false), (&region, false)], "without its memory");
    refused(&[(&init, false), (&ring, false)], "without the descriptor that wakes");
    refused(
        &[(&init, false), (&MemifMessage::AddRegion { index: 1, size: REGION }, true)],
        "not the next one",
    );
    refused(
        &[(&init, false), (&MemifMessage::AddRegion { index: 0, size: REGION + 1 }, true)],
        "shorter",
    );
    refused(
        &[(&init, false), (&MemifMessage::AddRegion { index: 0, size: u64::MAX }, true)],
        "shorter",
    );
    refused(&[(&init, false), (&MemifMessage::AddRegion { index: 0, size: 0 }, true)], "empty");
    refused(&[(&init, false), (&region, true), (&connect, false)], "a ring is missing");
    // Memory is not an eventfd.
    refused(
        &[
            (&init, false),
            (&region, true),
            (&ring, true),
            (&MemifMessage::AddRing(right[1]), true),
            (&connect, false),
        ],
        "",
    );
    refused(&[(&MemifMessage::Disconnect { code: 0, why: "enough".into() }, false)], "enough");
    for wrong in [
        Init { version: 0x300, ..Init::default() },
        Init { version: VERSION, id: 4, ..Init::default() },
        Init { version: VERSION, id: 3, mode: 1, ..Init::default() },
        Init { version: VERSION, id: 3, ..Init::default() },
    ] {
        refused(&[(&MemifMessage::Init(wrong), false)], "");
    }
}

/// Memory that could shrink while the master uses it is not touched.
#[test]
fn memory_that_is_not_sealed() {
    let mut slave = Slave::new();
    let memory = fs::memfd_create("plain", MemfdFlags::ALLOW_SEALING).unwrap();
    fs::ftruncate(&memory, REGION).unwrap();
    slave.says(&Slave::init(), None).unwrap();
    let region = MemifMessage::AddRegion { index: 0, size: REGION };
    assert!(slave.says(&region, Some(&memory)).err().unwrap().contains("not sealed"));
    // libmemif seals its memory against shrinking only.
    let mut slave = Slave::new();
    fs::fcntl_add_seals(&memory, SealFlags::SHRINK).unwrap();
    slave.says(&Slave::init(), None).unwrap();
    slave.says(&region, Some(&memory)).unwrap();
}

#[test]
fn bytes_that_are_no_message_end_it() {
    for bytes in [&[0; LENGTH][..], &[1; LENGTH], &[1, 0], &[1; LENGTH + 1]] {
        let [a, b] = pair();
        let mut session = Session::new(a, terms(MemifRole::Master)).unwrap();
        send(&b, bytes, SendFlags::empty()).unwrap();
        assert!(session.turn().is_err(), "{} B", bytes.len());
    }
    let [a, b] = pair();
    let mut session = Session::new(a, terms(MemifRole::Master)).unwrap();
    drop(b);
    assert!(session.turn().is_err());
}

/// A packet with an invalid descriptor is lost, and an impossible index ends the connection.
#[test]
fn hostile_descriptors() {
    let mut slave = Slave::new();
    let mut link = slave.connect([Slave::ring(true), Slave::ring(false)]).unwrap().unwrap().link;
    let mut buffer = vec![0; LONGEST];
    let mut head = 0;
    for (flags, region, length, offset) in [
        (0, 0, 10, REGION as u32),
        (0, 0, 10, REGION as u32 - 9),
        (0, 0, 10, u32::MAX),
        (0, 0, u32::MAX, 0),
        (0, 0, LONGEST as u32 + 1, 0),
        (0, 1, 10, 0),
        (0, u16::MAX, 10, 0),
        // The end of the packet is missing.
        (1, 0, 10, DATA as u32),
    ] {
        slave.descriptor(TO_MASTER, head % 16, flags, region, length, offset);
        head += 1;
        slave.index(TO_MASTER, HEAD, head as u16);
        assert!(
            link.receive(&mut buffer).unwrap().unwrap().is_err(),
            "{flags} {region} {length} {offset}"
        );
        slave.descriptor(TO_MASTER, head % 16, 0, 0, 5, (DATA + head) as u32);
        assert!(slave.shared.write(DATA + head, b"right"));
        head += 1;
        slave.index(TO_MASTER, HEAD, head as u16);
        assert_eq!(link.receive(&mut buffer).unwrap(), Some(Ok(5)));
        assert_eq!(&buffer[..5], b"right");
        assert_eq!(link.receive(&mut buffer).unwrap(), None);
        assert_eq!(
            slave.shared.cell::<AtomicU16>(TO_MASTER + TAIL).unwrap().load(Relaxed),
            head as u16
        );
    }
    // A chain through the whole ring, whose parts together are too long.
    for slot in 0..16 {
        slave.descriptor(TO_MASTER, slot, u16::from(slot != 15), 0, REGION as u32, 0);
    }
    slave.index(TO_MASTER, HEAD, head as u16 + 16);
    assert!(link.receive(&mut buffer).unwrap().unwrap().is_err());
    slave.index(TO_MASTER, HEAD, head as u16 + 16 + 17);
    assert!(link.receive(&mut buffer).is_err(), "more than the ring holds");

    // The buffer to be filled is invalid.
    assert!(!link.send(b"no room yet").unwrap());
    slave.descriptor(TO_SLAVE, 0, 0, 0, 2048, DATA as u32);
    slave.index(TO_SLAVE, HEAD, 1);
    assert!(link.send(b"right").unwrap());
    let mut there = [0; 5];
    assert!(slave.shared.read(DATA, &mut there) && &there == b"right");
    for (region, length, offset) in [(0, 100, REGION as u32 - 4), (7, 100, 0), (0, 0, 0)] {
        slave.descriptor(TO_SLAVE, 1, 0, region, length, offset);
        slave.index(TO_SLAVE, HEAD, 2);
        assert!(link.send(b"wrong").is_err(), "{region} {length} {offset}");
    }
    slave.index(TO_SLAVE, HEAD, 1 + 17);
    assert!(link.send(b"wrong").is_err(), "more than the ring holds");
}

/// The descriptor sent with a message.
#[derive(Clone, Copy, Debug)]
enum With {
    Nothing,
    Memory,
    Bell,
}

/// Sends arbitrary messages to a master or a slave; returns true if there was a connection. The
/// only requirement is that no message causes a panic or blocks the session.
fn told(role: MemifRole, messages: &[(Vec<u8>, With)]) -> bool {
    let [a, b] = pair();
    let mut session = Session::new(a, terms(role)).unwrap();
    let (memory, shared) = SharedMemory::create(WORDS).unwrap();
    for ring in [TO_MASTER, TO_SLAVE] {
        shared.cell::<AtomicU32>(ring).unwrap().store(0x3E3_1F20, Relaxed);
    }
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    for (message, with) in messages {
        let fd = match with {
            With::Nothing => None,
            With::Memory => Some([memory.as_fd()]),
            With::Bell => Some([bell.as_fd()]),
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(fds) = &fd {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if sendmsg(&b, &[IoSlice::new(message)], &mut control, flags).is_err() {
            break;
        }
        match session.turn() {
            Ok(None) => {}
            Ok(Some(mut agreed)) => {
                look(&mut agreed.link, &mut [0; 3000]);
                return true;
            }
            Err(_) => break,
        }
    }
    false
}

/// Uses a connection. Received packets fit into the buffer.
fn look(link: &mut MemifLink, buffer: &mut [u8]) {
    for _ in 0..3 {
        match link.receive(buffer) {
            Ok(Some(Ok(length))) => assert!(length <= buffer.len()),
            Ok(Some(Err(_))) => {}
            Ok(None) | Err(_) => break,
        }
    }
    let _ = link.send(&[7; 100]);
    let _ = link.rest();
}

/// A slave with a correct master, and its memory.
fn with_master() -> (Session, Channel, MemifLink, Arc<SharedMemory>) {
    let (mut session, master) = against(terms(MemifRole::Slave));
    let hello = Hello {
        name: "falaj".into(),
        versions: (VERSION, VERSION),
        max_log2_ring_size: LOG2,
        ..Hello::default()
    };
    let (mut says, mut memory) = (MemifMessage::Hello(hello), None);
    loop {
        master.send(&says, None).unwrap();
        if let Some(agreed) = session.turn().unwrap() {
            return (session, master, agreed.link, memory.expect("a region"));
        }
        says = match master.receive().unwrap().expect("an answer") {
            (MemifMessage::AddRegion { size, .. }, fd) => {
                memory = Some(SharedMemory::open_first(fd.unwrap(), size).unwrap());
                MemifMessage::Ack
            }
            (MemifMessage::Connect { .. }, _) => {
                MemifMessage::Connected { interface: String::new() }
            }
            _ => MemifMessage::Ack,
        };
    }
}

/// A peer writes arbitrary values into the memory between our accesses. Received packets fit into
/// the buffer, and sent packets stay within the region.
fn rings(role: MemifRole, writes: &[(u16, u64)]) {
    let mut slave = Slave::new();
    let (shared, mut link, kept) = match role {
        MemifRole::Master => {
            let link =
                slave.connect([Slave::ring(true), Slave::ring(false)]).unwrap().unwrap().link;
            (Arc::clone(&slave.shared), link, None)
        }
        MemifRole::Slave => {
            let (session, channel, link, shared) = with_master();
            (shared, link, Some((session, channel)))
        }
    };
    let mut buffer = [0; 3000];
    for &(at, value) in writes {
        // Most writes are within the rings.
        let word = usize::from(at) % if at < 60_000 { DATA / 8 } else { WORDS };
        shared.cell::<AtomicU64>(8 * word).unwrap().store(value, Relaxed);
        look(&mut link, &mut buffer);
    }
    drop(kept);
}

/// A peer whose messages and writes are determined by the bytes: a plain function, for any fuzzer.
pub(crate) fn hostile(bytes: &[u8]) {
    let Some((how, rest)) = bytes.split_first() else { return };
    let role = if how % 2 == 0 { MemifRole::Master } else { MemifRole::Slave };
    let mut bytes = rest.iter().copied();
    if how / 2 % 2 == 0 {
        let mut messages = Vec::new();
        // Some more messages than a connection has.
        while let (Some(kind), true) = (bytes.next(), messages.len() < 16) {
            messages.push(said(kind, &mut bytes));
        }
        told(role, &messages);
    } else {
        let mut writes = Vec::new();
        while let (Some(at), Some(kind)) = (bytes.next(), bytes.next()) {
            let value = u64::from(bytes.next().unwrap_or(0));
            // At the control words of both rings, at their descriptors, or anywhere; the value is
            // an index, a descriptor, or an offset.
            let at = match kind % 4 {
                0 => u16::from(at) % 2 * (TO_SLAVE / 8) as u16,
                1 => u16::from(at) % 2 * (TO_SLAVE / 8) as u16 + 8,
                2 => u16::from(at) % (DATA / 8) as u16,
                _ => 60_000 + u16::from(at) * 21,
            };
            let value = match kind / 4 % 5 {
                0 => value,
                1 => value << 48 | 0x3E3_1F20,
                2 => value << 32 | u64::from(kind >> 7),
                3 => REGION - 128 + value,
                _ => u64::MAX - value,
            };
            writes.push((at, value));
        }
        rings(role, &writes);
    }
}

/// A correct message, except for some of its bytes.
fn said(kind: u8, bytes: &mut impl Iterator<Item = u8>) -> (Vec<u8>, With) {
    let hello =
        Hello { versions: (VERSION, VERSION), max_log2_ring_size: LOG2, ..Hello::default() };
    let (message, with) = match kind % 9 {
        0 => (MemifMessage::Ack, With::Nothing),
        1 => (MemifMessage::Hello(hello), With::Nothing),
        2 => (Slave::init(), With::Nothing),
        3 => (MemifMessage::AddRegion { index: 0, size: REGION }, With::Memory),
        4 => (MemifMessage::AddRing(Slave::ring(true)), With::Bell),
        5 => (MemifMessage::AddRing(Slave::ring(false)), With::Bell),
        6 => (MemifMessage::Connect { interface: String::new() }, With::Nothing),
        7 => (MemifMessage::Connected { interface: String::new() }, With::Nothing),
        _ => (MemifMessage::Disconnect { code: 0, why: String::new() }, With::Nothing),
    };
    let mut message = message.to_bytes().to_vec();
    let with = match kind / 9 % 9 {
        6 => With::Memory,
        7 => With::Bell,
        8 => With::Nothing,
        _ => with,
    };
    for _ in 0..kind / 81 * 2 {
        let at = bytes.next().map_or(0, usize::from) % LENGTH;
        message[at] = bytes.next().unwrap_or(0);
    }
    (message, with)
}

/// The messages that a fuzzer changes are correct before the change: they lead to a connection.
#[test]
fn what_is_changed_was_right() {
    for (role, kinds) in
        [(MemifRole::Master, &[2, 3, 4, 5, 6][..]), (MemifRole::Slave, &[1, 0, 0, 0, 0, 7])]
    {
        let messages: Vec<_> =
            kinds.iter().map(|&kind| said(kind, &mut std::iter::empty())).collect();
        assert!(told(role, &messages));
        assert!(!told(role, &messages[1..]));
    }
}

/// Numbers close to meaningful ones.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..40_u64,
        (0..20_u64, 0..20_u64).prop_map(|(length, flags)| length << 32 | flags),
        (0..20_u64).prop_map(|index| index << 48),
        (0..3_u64).prop_map(|over| REGION - 1 + over),
    ]
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..LENGTH + 2);
    let changed = (0..9_u8, prop::collection::vec((0..LENGTH, any::<u8>()), 0..6)).prop_map(
        |(kind, changes)| {
            let mut bytes = if kind == 3 { Slave::init().to_bytes() } else { [0; LENGTH] };
            bytes[0] = kind;
            changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            bytes.to_vec()
        },
    );
    prop_oneof![bytes, changed]
}

proptest! {
    #[test]
    fn whatever_is_said(master: bool, messages in prop::collection::vec(message(), 0..8)) {
        let all: Vec<_> = messages.iter().map(|message| (message.clone(), With::Nothing)).collect();
        told(if master { MemifRole::Master } else { MemifRole::Slave }, &all);
        for bytes in messages {
            if let Ok(message) = MemifMessage::from_bytes(&bytes) {
                prop_assert_eq!(MemifMessage::from_bytes(&message.to_bytes()), Ok(message));
            }
        }
    }

    #[test]
    fn whatever_is_written(
        master: bool,
        writes in prop::collection::vec((any::<u16>(), number()), 0..60),
    ) {
        rings(if master { MemifRole::Master } else { MemifRole::Slave }, &writes);
    }

    #[test]
    fn a_hostile_peer_costs_itself_alone(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        hostile(&bytes);
    }
}

fn path() -> PathBuf {
    std::env::temp_dir().join(format!("falaj-memif-{}.sock", std::process::id()))
}

/// Polls until there is an event of this socket.
fn news(sockets: &mut [&mut MemifSocket], whose: usize) -> SocketEvent {
    for _ in 0..1000 {
        for (i, socket) in sockets.iter_mut().enumerate() {
            match socket.look().unwrap() {
                Some(news) if i == whose => return news,
                _ => {}
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("no news");
}

/// With a named socket: a slave that connects before a master listens tries again, the death of a
/// peer is noticed, and the next peer is accepted.
#[test]
fn peers_come_and_go() {
    let path = path();
    let mut slave = MemifSocket::open(&path, terms(MemifRole::Slave)).unwrap();
    assert!(slave.look().unwrap().is_none());
    let mut master = MemifSocket::open(&path, terms(MemifRole::Master)).unwrap();
    assert!(MemifSocket::open(&path, terms(MemifRole::Master)).is_err(), "the path is in use");
    let mut connected = [None, None];
    for _ in 0..1000 {
        for (socket, connected) in [&mut master, &mut slave].into_iter().zip(&mut connected) {
            if let Some(SocketEvent::Connected(agreed)) = socket.look().unwrap() {
                *connected = Some(agreed.link);
            }
        }
        if connected.iter().all(Option::is_some) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let [Some(mut a), Some(mut b)] = connected else { panic!("they never met") };
    assert!(b.send(b"hello").unwrap() && all(&mut a) == [b"hello"]);
    assert!(a.send(b"yes").unwrap() && all(&mut b) == [b"yes"]);
    // The master's link can still send, into memory that no other process has any more.
    drop((slave, b));
    let SocketEvent::Gone(why) = news(&mut [&mut master], 0) else { panic!("it is gone") };
    assert!(why.contains("falaj ends"), "{why}");
    assert!(a.send(b"into the void").unwrap());
    drop(a);
    let mut next = MemifSocket::open(&path, terms(MemifRole::Slave)).unwrap();
    let SocketEvent::Connected(again) = news(&mut [&mut master, &mut next], 0) else {
        panic!("another one")
    };
    drop(again);
    drop(master);
    assert!(!path.exists());
    // A socket of another kind belongs to another program, and a socket left behind by a killed
    // process is removed.
    let other = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    assert!(MemifSocket::open(&path, terms(MemifRole::Master)).is_err());
    drop(other);
    drop(MemifSocket::open(&path, terms(MemifRole::Master)).unwrap());
    assert!(!path.exists());
}
