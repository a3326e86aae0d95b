//! Tests of adapters whose interfaces are replaced by datagram sockets, with one unit in each
//! datagram.

use super::*;
use crate::backend::tap::TapPort;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

const ALL: Mac = [0xff; 6];
const GATEWAY: Mac = [2, 0, 0, 0, 0, 0xfe];

fn mac(n: u8) -> Mac {
    [2, 0, 0, 0, 0, n]
}

fn port() -> (Box<dyn Port>, UnixDatagram) {
    let (outside, inside) = UnixDatagram::pair().unwrap();
    inside.set_nonblocking(true).unwrap();
    outside.set_nonblocking(true).unwrap();
    (Box::new(TapPort::new(String::new(), Tap::adopt(inside.into()))), outside)
}

fn unit(to: Mac, from: Mac) -> Vec<u8> {
    [&[0; Tap::VNET_HEADER][..], &to, &from, &[0x08, 0, 0x45, 0, 0, 0]].concat()
}

struct Three {
    adapters: Adapters,
    near: Box<dyn Port>,
    far: Box<dyn Port>,
    outside: Vec<UnixDatagram>,
    uplink: UnixDatagram,
}

fn three() -> Three {
    let adapters = Adapters::new().unwrap();
    let mut outside = Vec::new();
    for name in ["a", "b", "c"] {
        let (port, socket) = port();
        adapters.add(name, port, None).unwrap();
        outside.push(socket);
    }
    let (port, uplink) = port();
    let [near, far] = adapters.ends(port);
    Three { adapters, near, far, outside, uplink }
}

/// Reads all units of a port; returns the names of their adapters.
fn read(port: &mut dyn Port, names: &[&str]) -> String {
    let mut buffer = vec![0; port.longest()];
    let mut of = String::new();
    // A turn may end without a unit, because of skipped units.
    for _ in 0..10 {
        while let Some(received) = port.receive(&mut buffer).unwrap() {
            let id = port.key(&buffer[..received.length]).adapter.unwrap();
            of += names.iter().find(|name| key::AdapterId::named(name) == id).unwrap();
            // Simulates long processing: longer than a turn.
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    of
}

const NAMES: &[&str] = &["a", "b", "c"];

#[test]
fn each_has_its_turn_however_much_another_sends() {
    let mut three = three();
    for _ in 0..4 {
        three.outside[0].send(&unit(GATEWAY, mac(1))).unwrap();
    }
    three.outside[1].send(&unit(GATEWAY, mac(2))).unwrap();
    three.outside[2].send(&unit(GATEWAY, mac(3))).unwrap();
    assert_eq!(read(&mut *three.near, NAMES), "abcaaa");
}

/// A port that always has another unit.
struct Endless(UnixDatagram, Vec<u8>);

impl Port for Endless {
    fn name(&self) -> String {
        "endless".into()
    }

    fn longest(&self) -> usize {
        Tap::MAX_UNIT
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        buffer[..self.1.len()].copy_from_slice(&self.1);
        Ok(Some(Received::packet(self.1.len(), 20, None)))
    }

    fn transmit(&mut self, _: &[u8]) -> io::Result<bool> {
        Ok(false)
    }

    fn key(&self, unit: &[u8]) -> Key {
        frame::key(unit)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl PortHandover for Endless {}

#[test]
fn an_endless_port_does_not_starve_the_others() {
    let three = three();
    let (own, other) = UnixDatagram::pair().unwrap();
    other.send(&[0]).unwrap();
    let endless: Box<dyn Port> = Box::new(Endless(own, unit(GATEWAY, mac(4))));
    three.adapters.add("d", endless, None).unwrap();
    let mut near = three.near;
    let mut buffer = vec![0; near.longest()];
    let mut next = || {
        let received = near.receive(&mut buffer).unwrap().unwrap();
        // Simulates long processing: longer than a turn.
        std::thread::sleep(Duration::from_micros(50));
        near.key(&buffer[..received.length]).adapter.unwrap()
    };
    let [a, d] = ["a", "d"].map(key::AdapterId::named);
    for _ in 0..10 {
        assert_eq!(next(), d);
    }
    for _ in 0..3 {
        three.outside[0].send(&unit(GATEWAY, mac(1))).unwrap();
        // The next poll finds this unit, and the turn of `a` comes after the current turn.
        let within = (0..3).find(|_| next() == a);
        assert!(within.is_some());
    }
}

#[test]
fn packets_from_the_uplink_go_to_the_owner_of_their_address() {
    let mut three = three();
    three.outside[1].send(&unit(GATEWAY, mac(2))).unwrap();
    read(&mut *three.near, NAMES);
    three.uplink.send(&unit(mac(2), GATEWAY)).unwrap();
    assert_eq!(read(&mut *three.far, NAMES), "b");
    let mut noted = unit(mac(2), GATEWAY);
    note(&mut noted, 1);
    assert!(three.near.transmit(&noted).unwrap());
    let mut got = [0; 100];
    assert_eq!(three.outside[1].recv(&mut got).unwrap(), noted.len());
    assert!(three.outside[0].recv(&mut got).is_err() && three.outside[2].recv(&mut got).is_err());
}

/// Without flooding, an adapter that only receives would get nothing after a restart.
#[test]
fn packets_to_an_unknown_address_are_flooded_within_a_limit() {
    let mut three = three();
    three.uplink.send(&unit(mac(2), GATEWAY)).unwrap();
    assert_eq!(read(&mut *three.far, NAMES), "abc", "no adapter has used that address");
    let sent = 20 * u64::from(FLOODED);
    let (mut flooded, began) = (0, Instant::now());
    let mut buffer = vec![0; three.far.longest()];
    for _ in 0..sent {
        three.uplink.send(&unit(mac(2), GATEWAY)).unwrap();
        while three.far.receive(&mut buffer).unwrap().is_some() {
            flooded += 1;
        }
    }
    let most = u64::from(FLOODED) * (2 + began.elapsed().as_secs());
    assert!(flooded % 3 == 0 && flooded / 3 <= most, "{flooded} copies");
    assert_eq!(three.adapters.unknown(), sent - flooded / 3, "the others are counted");
    three.outside[1].send(&unit(GATEWAY, mac(2))).unwrap();
    assert_eq!(read(&mut *three.near, NAMES), "b");
    three.uplink.send(&unit(mac(2), GATEWAY)).unwrap();
    assert_eq!(read(&mut *three.far, NAMES), "b");
}

/// The address that an interface was created with belongs to it, even if another adapter has used
/// the address before.
#[test]
fn a_made_address_is_taken_back() {
    let mut three = three();
    three.outside[0].send(&unit(GATEWAY, mac(9))).unwrap();
    assert_eq!(read(&mut *three.near, NAMES), "a");
    let (port, outside) = port();
    three.adapters.add("d", port, Some(mac(9))).unwrap();
    three.uplink.send(&unit(mac(9), GATEWAY)).unwrap();
    let names = ["a", "b", "c", "d"];
    assert_eq!(read(&mut *three.far, &names), "d");
    three.outside[0].send(&unit(GATEWAY, mac(9))).unwrap();
    assert_eq!(read(&mut *three.near, &names), "");
    outside.send(&unit(GATEWAY, mac(9))).unwrap();
    assert_eq!(read(&mut *three.near, &names), "d");
}

#[test]
fn a_broadcast_is_a_packet_of_each_adapter() {
    let mut three = three();
    three.uplink.send(&unit(ALL, GATEWAY)).unwrap();
    assert_eq!(read(&mut *three.far, NAMES), "abc");
    three.adapters.remove("b");
    three.uplink.send(&unit(ALL, GATEWAY)).unwrap();
    assert_eq!(read(&mut *three.far, NAMES), "ac");
}

#[test]
fn an_address_belongs_to_its_first_user() {
    let mut three = three();
    three.outside[0].send(&unit(GATEWAY, mac(1))).unwrap();
    assert_eq!(read(&mut *three.near, NAMES), "a");
    three.outside[2].send(&unit(GATEWAY, mac(1))).unwrap();
    assert_eq!(read(&mut *three.near, NAMES), "");
    assert_eq!(three.adapters.counts()[2].1.foreign, 1);
    three.uplink.send(&unit(mac(1), GATEWAY)).unwrap();
    assert_eq!(read(&mut *three.far, NAMES), "a");
    // The address is free when its owner is removed.
    three.adapters.remove("a");
    three.outside[2].send(&unit(GATEWAY, mac(1))).unwrap();
    assert_eq!(read(&mut *three.near, NAMES), "c");
}

/// Reports of changes since the last call.
fn reported(from: &std::sync::mpsc::Receiver<AddressChange>) -> Vec<AddressChange> {
    from.try_iter().collect()
}

#[test]
fn an_address_stays_its_owners_over_a_restart() {
    let (tell, told) = std::sync::mpsc::channel();
    let mut first = three();
    first.adapters.report_addresses(Some(tell.clone()));
    first.outside[0].send(&unit(GATEWAY, mac(1))).unwrap();
    assert_eq!(read(&mut *first.near, NAMES), "a");
    assert_eq!(reported(&told), [AddressChange::Learned("a".into(), mac(1))]);
    drop(first);
    // After the restart another adapter uses the address first.
    let mut second = three();
    second.adapters.recall("a", [mac(1), ALL]);
    second.adapters.recall("c", [mac(1)]);
    second.adapters.recall("gone", [mac(7)]);
    second.adapters.report_addresses(Some(tell));
    second.outside[2].send(&unit(GATEWAY, mac(1))).unwrap();
    assert_eq!(read(&mut *second.near, NAMES), "");
    let counts = second.adapters.counts().swap_remove(2).1;
    assert_eq!((counts.foreign, counts.foreign_source), (1, Some(mac(1))));
    second.uplink.send(&unit(mac(1), GATEWAY)).unwrap();
    assert_eq!(read(&mut *second.far, NAMES), "a");
    second.outside[0].send(&unit(GATEWAY, mac(1))).unwrap();
    assert_eq!(read(&mut *second.near, NAMES), "a");
    assert_eq!(reported(&told), []);
    // An interface that was created with the address takes it over from its owner; a removed
    // adapter frees its addresses.
    let (port, _outside) = port();
    second.adapters.add("d", port, Some(mac(1))).unwrap();
    assert_eq!(reported(&told), [AddressChange::Forgotten("a".into(), mac(1))]);
    second.adapters.remove("a");
    assert_eq!(reported(&told), [AddressChange::Gone("a".into())]);
}

/// Recalled addresses that are not used any more are replaced by new ones; addresses in use stay.
#[test]
fn recalled_addresses_make_room() {
    let of = |n: u32| {
        let [_, _, a, b] = n.to_be_bytes();
        [2, 1, 0, 0, a, b]
    };
    let (tell, told) = std::sync::mpsc::channel();
    let mut three = three();
    three.adapters.recall("a", (0..2 * MOST_ADDRESSES).map(of));
    three.adapters.report_addresses(Some(tell));
    assert_eq!(three.adapters.shared.borrow().macs.len(), MOST_ADDRESSES as usize);
    let used = MOST_ADDRESSES - 1;
    for n in [used, MOST_ADDRESSES, MOST_ADDRESSES + 1] {
        three.outside[0].send(&unit(GATEWAY, of(n))).unwrap();
        assert_eq!(read(&mut *three.near, NAMES), "a");
    }
    let a = || "a".to_owned();
    assert_eq!(
        reported(&told),
        [
            AddressChange::Forgotten(a(), of(used - 1)),
            AddressChange::Learned(a(), of(MOST_ADDRESSES)),
            AddressChange::Forgotten(a(), of(used - 2)),
            AddressChange::Learned(a(), of(MOST_ADDRESSES + 1)),
        ]
    );
    three.outside[1].send(&unit(GATEWAY, of(used))).unwrap();
    assert_eq!(read(&mut *three.near, NAMES), "", "in use");
    three.outside[1].send(&unit(GATEWAY, of(used - 1))).unwrap();
    assert_eq!(read(&mut *three.near, NAMES), "b", "free again");
}

#[test]
fn the_number_of_addresses_is_limited() {
    let mut three = three();
    for n in 0..2 * MOST_ADDRESSES {
        let [_, _, a, b] = n.to_be_bytes();
        three.outside[0].send(&unit(GATEWAY, [2, 1, 0, 0, a, b])).unwrap();
        assert_eq!(read(&mut *three.near, NAMES), "a");
    }
    assert_eq!(three.adapters.shared.borrow().macs.len(), MOST_ADDRESSES as usize);
}

#[test]
fn malformed_units_are_skipped_and_counted() {
    let mut three = three();
    for length in 0..Tap::VNET_HEADER + ETHERNET {
        three.outside[0].send(&vec![0xff; length.max(1)]).unwrap();
        three.uplink.send(&vec![0xff; length.max(1)]).unwrap();
    }
    three.outside[0].send(&unit(GATEWAY, ALL)).unwrap();
    three.outside[1].send(&unit(GATEWAY, mac(2))).unwrap();
    assert_eq!(read(&mut *three.near, NAMES), "b");
    assert_eq!(read(&mut *three.far, NAMES), "");
    assert_eq!(three.adapters.counts()[0].1.malformed, (Tap::VNET_HEADER + ETHERNET) as u64 + 1);
}

/// A unit of three packets sent by one adapter, and one packet for another.
#[test]
fn packets_without_memory_are_counted_of_their_adapter() {
    let mut three = three();
    let mut noted = unit(mac(2), GATEWAY);
    note(&mut noted, 0);
    three.near.found_no_memory(&noted, 3);
    note(&mut noted, 1);
    three.far.found_no_memory(&noted, 1);
    // A unit without an adapter is not counted.
    noted[NOTE].fill(0);
    three.near.found_no_memory(&noted, 1);
    let lost: Vec<LostBothWays> =
        three.adapters.counts().into_iter().map(|(_, counts)| counts.no_memory).collect();
    assert_eq!(
        lost,
        [LostBothWays { up: 3, down: 0 }, LostBothWays { up: 0, down: 1 }, LostBothWays::default()]
    );
}

/// A unit whose note names no existing adapter is dropped.
#[test]
fn a_note_of_no_adapter_is_refused() {
    let mut three = three();
    for n in [0, 4, u16::MAX] {
        let mut noted = unit(mac(1), GATEWAY);
        noted[NOTE].copy_from_slice(&n.to_le_bytes());
        assert!(!three.near.transmit(&noted).unwrap());
    }
}

/// Adapters are added and removed in the long run of a service.
#[test]
fn numbers_of_removed_adapters_are_reused() {
    let mut three = three();
    let numbers = |three: &Three| three.adapters.shared.borrow().adapters.len();
    // A number is not reused directly after its adapter was removed.
    for _ in 0..RESTING + 10 {
        three.adapters.add("d", port().0, None).unwrap();
        three.adapters.remove("d");
    }
    assert_eq!(numbers(&three), 3 + RESTING + 10);
    let most = RESTING + 10;
    for n in 0..2 * RESTING {
        // A minute later.
        three.adapters.shared.borrow_mut().free.iter_mut().for_each(|(_, left)| *left -= REST);
        let (port, outside) = port();
        three.adapters.add("d", port, None).unwrap();
        if n % 100 == 0 {
            outside.send(&unit(GATEWAY, mac(9))).unwrap();
            assert_eq!(read(&mut *three.near, &["d"]), "d");
        }
        three.adapters.remove("d");
        // Units in transit to the removed adapter are dropped.
        let mut noted = unit(mac(9), GATEWAY);
        note(&mut noted, 3 + (n % most) as u16);
        assert!(!three.near.transmit(&noted).unwrap());
    }
    assert_eq!(numbers(&three), 3 + most);
}
