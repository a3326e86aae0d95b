//! Untrusted input of ports, as plain functions for any fuzzer. Here they run over random bytes;
//! `make fuzz` runs them under libFuzzer.

use falaj_engine::key;
use falaj_engine::message::Corrupt;
use falaj_live::adapters::Adapters;
use falaj_live::backend::port::Port;
use falaj_live::backend::tap::Tap;
use falaj_live::backend::xdp;
use falaj_live::gso::Train;
use falaj_live::wiring::unit_port;
use falaj_sched::units::label::Ecn;
use proptest::prelude::*;
use std::os::unix::net::UnixDatagram;

/// A port and the socket that feeds it, as a TAP is fed by its kernel.
fn port() -> (Box<dyn Port>, UnixDatagram) {
    let (port, socket) = unit_port("fuzzed").expect("a pair of sockets");
    socket.set_nonblocking(true).expect("a socket");
    (port, socket)
}

/// Handles any bytes as a unit after a virtio-net header (TAP, packet sockets, guests): it is read,
/// classified, cut, marked, corrupted and sent. Handles them also as a frame of AF_XDP, whose
/// checksum may be unfinished.
pub(crate) fn unit(bytes: &[u8]) {
    let ((mut port, socket), mut buffer) = (port(), vec![0; Tap::MAX_UNIT]);
    let bytes = &bytes[..bytes.len().min(4_000)];
    if socket.send(bytes).is_err() {
        return;
    }
    let Some(received) = port.receive(&mut buffer).expect("it is read, whatever it is") else {
        return;
    };
    let unit = &mut buffer[..received.length];
    assert!(unit == bytes && received.packets() >= 1 && received.last <= received.bytes);
    let _ = port.key(unit);
    assert_eq!(received.train, Train::of(unit));
    if let Some(train) = received.train {
        let (mut part, mut length, packets) = (Vec::new(), 0, train.packets());
        for packet in 0..packets {
            train.cut(unit, packet..packet + 1, &mut part);
            assert!(Train::of(&part).is_none(), "it is one");
            length += part.len();
        }
        train.cut(unit, 0..packets, &mut part);
        assert_eq!(part.len(), unit.len(), "the range of all packets is the whole unit");
        // Each packet has the headers, and its part of the payload.
        let headers = (length - unit.len()) / (packets - 1).max(1);
        assert_eq!(
            length - packets * headers,
            unit.len() - headers,
            "each byte of the payload is in one packet"
        );
    }
    let mut whole = unit.to_vec();
    xdp::complete(&mut whole);
    assert_eq!(whole.len(), unit.len());
    let draw =
        bytes.iter().fold(1, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    port.mark(unit, Ecn::Ce);
    port.corrupt(unit, &Corrupt { handle: 0, draw });
    let _ = port.transmit(unit);
}

/// Frames of three adapters and of the uplink, with any addresses, while adapters are paused,
/// removed and added. Each received frame was sent by an adapter, no adapter gets frames for
/// another's address, and in the end a correct frame passes in both directions.
pub(crate) fn adapters(bytes: &[u8]) {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    /// The first address of each adapter is its own; the other addresses may be used by any
    /// adapter.
    const MACS: [u8; 8] = [1, 2, 3, 4, 5, 0xfe, 0, 0xff];
    let mac = |n: u8| match MACS[usize::from(n) % MACS.len()] {
        0xff => [0xff; 6],
        last => [2, 0, 0, 0, 0, last],
    };
    let all = Adapters::new().expect("an epoll");
    let add = |n: usize| {
        let (port, socket) = port();
        all.add(NAMES[n], port, Some(mac(n as u8))).expect("another one");
        Some(socket)
    };
    let mut outside: Vec<Option<UnixDatagram>> = (0..NAMES.len()).map(add).collect();
    let (port, uplink) = port();
    let [mut near, mut far] = all.ends(port);
    let frame = |to: u8, from: u8, body: &[u8]| {
        [&[0; Tap::VNET_HEADER][..], &mac(to), &mac(from), &[0x08, 0, 0x45, 0, 0, 0], body].concat()
    };
    let mut buffer = vec![0; Tap::MAX_UNIT];
    let mut pass = |near: &mut Box<dyn Port>, far: &mut Box<dyn Port>| {
        // Skipped units end a turn now and then.
        for _ in 0..4 {
            while let Some(received) = near.receive(&mut buffer).expect("it is read") {
                let unit = &buffer[..received.length];
                let of = near.key(unit).adapter.expect("whose it is");
                assert!(NAMES.iter().any(|name| key::AdapterId::named(name) == of));
                let _ = far.transmit(unit);
            }
            while let Some(received) = far.receive(&mut buffer).expect("it is read") {
                let unit = &buffer[..received.length];
                let _ = far.key(unit);
                let _ = near.transmit(unit);
            }
        }
    };
    let mut got = [0; 2048];
    // Adapters whose address cannot have been taken over.
    let mut always = [true; NAMES.len()];
    for piece in bytes.chunks(5).take(200) {
        let &[what, n, to, from, length] = piece else { break };
        let n = usize::from(n) % NAMES.len();
        let body = &bytes[..usize::from(length).min(bytes.len())];
        match what % 8 {
            0..3 => {
                let unit = frame(to, from, body);
                let _ = outside[n].as_ref().map(|socket| socket.send(&unit));
            }
            // A frame shorter than an Ethernet header.
            3 => drop(outside[n].as_ref().map(|socket| socket.send(body))),
            4 => drop(uplink.send(&frame(to, from, body))),
            5 => drop(uplink.send(body)),
            6 => drop(all.pause(NAMES[n], from & 1 == 1)),
            _ if outside[n].is_some() => {
                all.remove(NAMES[n]);
                (outside[n], always[n]) = (None, false);
            }
            _ => outside[n] = add(n),
        }
        pass(&mut near, &mut far);
        for (n, socket) in outside.iter().enumerate() {
            while let Some(Ok(length)) = socket.as_ref().map(|socket| socket.recv(&mut got)) {
                // The address of an adapter that was never removed belongs to no other adapter.
                let to = got
                    .get(Tap::VNET_HEADER..Tap::VNET_HEADER + 6)
                    .filter(|_| length >= Tap::VNET_HEADER + 6);
                let another = (0..NAMES.len()).find(|&other| to == Some(&mac(other as u8)));
                assert!(
                    another.is_none_or(|other| other == n || !always[other]),
                    "{n} hears {another:?}"
                );
            }
        }
        while uplink.recv(&mut got).is_ok() {}
    }
    // An adapter that is added again gets its address back, even if another adapter has used it in
    // between.
    NAMES.iter().for_each(|name| drop(all.remove(name)));
    outside = (0..NAMES.len()).map(add).collect();
    pass(&mut near, &mut far);
    while uplink.recv(&mut got).is_ok() {}
    let (up, down) = (frame(5, 0, b"up"), frame(0, 5, b"down"));
    let socket = outside[0].as_ref().expect("just added");
    while socket.recv(&mut got).is_ok() {}
    socket.send(&up).expect("room");
    pass(&mut near, &mut far);
    let length = uplink.recv(&mut got).expect("a right one passes");
    assert_eq!(got[Tap::VNET_HEADER..length], up[Tap::VNET_HEADER..]);
    uplink.send(&down).expect("room");
    pass(&mut near, &mut far);
    let length = socket.recv(&mut got).expect("and the answer");
    assert_eq!(got[Tap::VNET_HEADER..length], down[Tap::VNET_HEADER..]);
}

#[test]
fn units_that_fuzzers_begin_with() {
    let all = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/unit"))
        .expect("it is there");
    for file in all {
        unit(&std::fs::read(file.expect("a file").path()).expect("bytes"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(256)
    })]

    #[test]
    fn whatever_comes_is_handled(
        six: bool, tags in 0..4_usize, udp: bool, size in 0..200_u8, payload in 0..900_usize,
        changes in prop::collection::vec((0..120_usize, any::<u8>()), 0..6), end in 0..1_200_usize,
    ) {
        let at = 14 + 4 * tags + if six { 40 } else { 20 };
        let kind = match (udp, six) {
            (true, _) => 5,
            (_, true) => 4,
            _ => 1,
        };
        let mut bytes =
            vec![1, kind, 0, 0, size, 0, at as u8, 0, if udp { 6 } else { 16 }, 0, 0, 0];
        bytes.extend([2; 12]);
        (0..tags).for_each(|_| bytes.extend([0x81, 0x00, 0, 5]));
        bytes.extend(if six { [0x86, 0xdd, 0x60] } else { [0x08, 0x00, 0x45] });
        bytes.resize(Tap::VNET_HEADER + at + 12, 0);
        bytes.push(0x50);
        bytes.resize(bytes.len() + 7 + payload, 3);
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(end.max(1));
        unit(&bytes);
    }

    #[test]
    fn whatever_adapters_do(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        adapters(&bytes);
    }
}
