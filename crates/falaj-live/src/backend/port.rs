//! A port: where units enter and leave. One file for each kind.

use crate::backend::tap::Tap;
use crate::gso::{self, Train};
use falaj_engine::ecn;
use falaj_engine::key::Key;
use falaj_engine::message::Corrupt;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Ecn;
use nix::libc::EINVAL;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A unit that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its bytes in the buffer.
    pub length: usize,
    /// The flow that it belongs to, if the port knows; else its key says it.
    pub flow: Option<FlowId>,
    /// Length of its IP packet, or of each but the last.
    pub bytes: u32,
    /// Length of its last packet.
    pub last: u32,
    /// Several packets in one piece.
    pub train: Option<Train>,
}

impl Received {
    /// A unit that is one packet.
    pub fn packet(length: usize, bytes: u32, flow: Option<FlowId>) -> Received {
        Received { length, flow, bytes, last: bytes, train: None }
    }

    /// How many packets it is.
    pub fn packets(&self) -> u32 {
        self.train.map_or(1, |train| train.packets()) as u32
    }
}

/// Where units enter and leave: Ethernet frames behind a virtio-net header, unless a kind says
/// otherwise.
///
/// An error `EBADF`, `EBADFD` or `ENODEV` says that the port is gone and ends
/// the run; any other concerns one unit, which is then lost and counted.
pub trait Port {
    /// What people call it, at the beginning of a sentence.
    fn name(&self) -> String;
    /// Bytes that a buffer must have to hold any unit of this port.
    fn longest(&self) -> usize;
    /// Reads one unit, if there is one; never waits.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>>;
    /// Hands one unit over; `false` if it was not taken.
    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool>;
    /// Does it say when it has room, so that the device behind it may pace a link?
    fn says_room(&self) -> bool {
        false
    }
    /// From now on the device paces a link, and is handed so many bytes ahead of time at most;
    /// `None`: no link any more. Of ports that [say when they have room](Port::says_room),
    /// which from then on refuse what they have none for: [`transmit`](Port::transmit)
    /// fails with `EAGAIN`, and the port becomes writable when it has room; or with `ENOBUFS` or
    /// `ENOMEM`, of which nobody says when it is over. What it refused is handed over later.
    ///
    /// # Errors
    /// What the kernel says.
    fn pace(&mut self, backlog: Option<u32>) -> io::Result<()> {
        let _ = backlog;
        Ok(())
    }
    /// Does it take datagrams that leave together in one piece? Others are handed over one by one.
    fn takes_trains(&self) -> bool {
        false
    }
    /// A unit of one packet that this port has read will not be handed over to any.
    fn dropped(&mut self, unit: &[u8]) {
        let _ = unit;
    }
    /// For a unit that this port has just read there is no memory: it goes nowhere.
    fn found_no_memory(&mut self, unit: &[u8], packets: u32) {
        let _ = packets;
        self.dropped(unit);
    }
    /// Which of several that share the port, and the memory for units on their way, has read this
    /// one or gets it.
    fn owner(&self, unit: &[u8]) -> Option<u16> {
        let _ = unit;
        None
    }
    /// What rules, masks and policies look at of a unit that this port has read and that is not of
    /// a flow that it knows.
    fn key(&self, unit: &[u8]) -> Key {
        key(unit)
    }
    /// Turns a bit of a unit that this port has read, so that it is found wrong
    /// at the far end as it would be behind a real link.
    fn corrupt(&self, unit: &mut [u8], corrupt: &Corrupt) {
        turn(unit, corrupt);
    }
    /// Writes these ECN bits into a unit that this port has read, where its ends look at them: that
    /// it met congestion.
    fn mark(&self, unit: &mut [u8], ecn: Ecn) {
        mark(unit, ecn);
    }
    /// Readable when a unit may be received, and writable when it has room; the same descriptor
    /// always.
    fn readable(&self) -> BorrowedFd<'_>;
}

/// Is this the end of a port, and not of one unit?
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use nix::libc::{EBADF, EBADFD, ENODEV};
    matches!(error.raw_os_error(), Some(EBADF | EBADFD | ENODEV))
}

/// A side of a sandbox.
pub struct TapPort {
    name: String,
    tap: Tap,
    /// Of a kernel before 6.2 units of many datagrams are not taken.
    takes_trains: bool,
    part: Vec<u8>,
}

const ETHERNET: usize = 14;
/// More where the frame has a VLAN tag.
const TAG: usize = 4;

/// Bytes before the network's packet. A VLAN tag is no part of that packet and
/// is not charged: Linux neither counts it to a device's mtu nor, where the
/// device inserts it, in `tc`. Of two tags the inner one counts.
fn header(frame: &[u8]) -> usize {
    match frame.get(12..14) {
        // 802.1Q and 802.1ad.
        Some([0x81, 0x00] | [0x88, 0xa8]) => ETHERNET + TAG,
        _ => ETHERNET,
    }
}

/// What a unit is, by the frame behind its virtio-net header.
pub(crate) fn received(unit: &[u8]) -> Received {
    let frame = unit.get(Tap::VNET_HEADER..).unwrap_or(&[]);
    let (length, flow) = (unit.len(), None);
    match Train::of(unit) {
        Some(train) => Received {
            length,
            flow,
            bytes: train.each() as u32,
            last: train.last() as u32,
            train: Some(train),
        },
        None => Received::packet(length, frame.len().saturating_sub(header(frame)) as u32, flow),
    }
}

/// Length of a frame's IP packet.
pub(crate) fn length(frame: &[u8]) -> u32 {
    frame.len().saturating_sub(header(frame)) as u32
}

/// The key of the frame behind a virtio-net header. Of several packets in one piece, it is that of
/// the first one.
pub(crate) fn key(unit: &[u8]) -> Key {
    let key = Key::of_ethernet(unit.get(Tap::VNET_HEADER..).unwrap_or(&[]));
    match Train::of(unit) {
        Some(train) => {
            // What the last one alone has: FIN and PSH.
            const LAST: u8 = 0x01 | 0x08;
            let not_here = if train.packets() > 1 { LAST } else { 0 };
            let tcp = key.tcp.map(|flags| flags & !not_here);
            Key { length: key.length.map(|_| train.each() as u32), tcp, ..key }
        }
        None => key,
    }
}

/// Turns a bit of the frame behind a virtio-net header.
pub(crate) fn turn(unit: &mut [u8], corrupt: &Corrupt) {
    Tap::finish_checksum(unit);
    let header = Tap::VNET_HEADER.min(unit.len());
    corrupt.turn(&mut unit[header..]);
}

/// Marks the frame behind a virtio-net header. No checksum but that of the IP header counts the
/// bits.
pub(crate) fn mark(unit: &mut [u8], ecn: Ecn) {
    if let Some(frame) = unit.get_mut(Tap::VNET_HEADER..) {
        ecn::mark_ethernet(frame, ecn);
    }
}

impl TapPort {
    /// `name` says whose interface `tap` is, to be read after "The link's".
    pub fn new(name: String, tap: Tap) -> TapPort {
        TapPort { name, tap, takes_trains: true, part: Vec::new() }
    }
}

impl Port for TapPort {
    fn name(&self) -> String {
        format!("The link's {}", self.name)
    }

    fn longest(&self) -> usize {
        Tap::MAX_UNIT
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Some(length) = self.tap.read(buffer)? else { return Ok(None) };
        Ok(Some(received(&buffer[..length])))
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        match self.tap.write(unit) {
            Err(error) if error.raw_os_error() == Some(EINVAL) && gso::is_of_datagrams(unit) => {
                self.takes_trains = false;
                gso::singly(unit, &mut self.part, |packet| self.tap.write(packet))
            }
            written => written,
        }
    }

    fn takes_trains(&self) -> bool {
        self.takes_trains
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gso::join::Join;
    use falaj_engine::account::Account;
    use proptest::prelude::*;
    use std::os::unix::net::UnixDatagram;

    const MTU: u32 = 1500;

    /// A port that reads what is sent to the socket; as from a TAP, one unit at a time, cut off
    /// where it is too long.
    fn port() -> (TapPort, UnixDatagram) {
        let (kernel, tap) = UnixDatagram::pair().unwrap();
        tap.set_nonblocking(true).unwrap();
        (TapPort::new(String::new(), Tap::adopt(tap.into())), kernel)
    }

    /// What a frame with these tags around an IP packet of so many bytes is charged.
    fn charged(account: Account, tags: &[[u8; 2]], packet: usize) -> u32 {
        let (mut port, kernel) = port();
        let mut unit = vec![0; Tap::VNET_HEADER + 12];
        tags.iter().for_each(|tag| unit.extend([tag[0], tag[1], 0, 5]));
        unit.extend([0x08, 0x00]);
        unit.resize(unit.len() + packet, 0x45);
        kernel.send(&unit).unwrap();
        let mut buffer = vec![0; port.longest()];
        let received = port.receive(&mut buffer).unwrap().unwrap();
        account.from_ip(received.bytes)
    }

    /// A UDP datagram whose checksum is left to the device, as a kernel hands it over.
    #[test]
    fn a_wrong_bit_is_found_by_the_checksum() {
        let (port, _kernel) = port();
        let sum = |bytes: &[u8]| {
            let mut sum: u32 = bytes
                .chunks(2)
                .map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)))
                .sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            sum as u16
        };
        let (payload, transport) = ([7u8; 33], ETHERNET + 20);
        let length = 8 + payload.len() as u16;
        // Addresses 10.77.0.1 and 10.77.0.2, UDP, and its length.
        let pseudo = sum(&[10, 77, 0, 1, 10, 77, 0, 2, 0, 17, 0, length as u8]);
        let mut whole = vec![0u8; Tap::VNET_HEADER + transport];
        (whole[0], whole[6], whole[8]) = (1, transport as u8, 6);
        whole.extend([0x13, 0x8c, 0x13, 0x8c, 0, length as u8]);
        whole.extend(pseudo.to_be_bytes());
        whole.extend(payload);
        // A bit of the Ethernet header, and one of the last byte.
        for draw in [0, u64::MAX] {
            let mut unit = whole.clone();
            port.corrupt(&mut unit, &Corrupt { handle: 0, draw });
            assert_eq!(
                unit[..Tap::VNET_HEADER - 4][0],
                0,
                "nothing is left to do, and nothing is known to be right"
            );
            let datagram = &unit[Tap::VNET_HEADER + transport..];
            let right = u32::from(sum(datagram)) + u32::from(pseudo);
            assert_eq!((right & 0xffff) + (right >> 16) == 0xffff, draw == 0);
            let turned: u32 =
                unit[12..].iter().zip(&whole[12..]).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert!(turned >= 1);
        }
    }

    /// As a kernel does that knows of no units of datagrams.
    #[test]
    fn where_trains_of_datagrams_are_not_taken_they_go_one_by_one() {
        use nix::sys::signal::{SigSet, Signal};
        // Whatever is written to it, it says EINVAL.
        let signals = nix::sys::signalfd::SignalFd::new(&SigSet::from(Signal::SIGUSR2)).unwrap();
        let refuses = signals.as_fd().try_clone_to_owned().unwrap();
        let mut port = TapPort::new(String::new(), Tap::adopt(refuses));
        let mut unit = vec![1, 5, 0, 0, 100, 0, 34, 0, 6, 0, 0, 0];
        unit.resize(Tap::VNET_HEADER + ETHERNET - 2, 2);
        unit.extend([0x08, 0x00, 0x45]);
        unit.resize(Tap::VNET_HEADER + ETHERNET + 20 + 8 + 250, 0);
        assert_eq!(received(&unit).packets(), 3);
        let tcp = {
            let mut tcp = unit.clone();
            (tcp[1], tcp[8], tcp[58]) = (1, 16, 0x50);
            tcp
        };
        assert_eq!(received(&tcp).packets(), 3);
        for (unit, takes) in [(&tcp, true), (&unit, false), (&tcp, false)] {
            assert_eq!(port.transmit(unit).unwrap_err().raw_os_error(), Some(EINVAL));
            assert_eq!(port.takes_trains(), takes);
        }
    }

    /// All that is done to a unit behind a virtio-net header, whatever its bytes are.
    fn handled(bytes: &[u8], draw: u64) {
        let mut bytes = bytes.to_vec();
        let what = received(&bytes);
        assert!(what.length == bytes.len() && what.packets() >= 1 && what.last <= what.bytes);
        key(&bytes);
        if let Some(train) = what.train {
            let (last, mut cut) = (train.packets() - 1, Vec::new());
            for packets in [0..1, last..last + 1, 0..last + 1] {
                train.cut(&bytes, packets.clone(), &mut cut);
                assert_eq!(received(&cut).packets() as usize, packets.len());
            }
        }
        let mut join = Join::default();
        if join.begin(&bytes) && join.add(&bytes) {
            assert_eq!(received(join.unit()).packets(), 2);
        }
        mark(&mut bytes, Ecn::Ce);
        turn(&mut bytes, &Corrupt { handle: 0, draw });
        assert_eq!(bytes.len(), what.length);
    }

    proptest! {
        /// A TCP unit over IPv4 or IPv6 behind tags, bytes of its headers changed, its end cut off.
        #[test]
        fn whatever_comes_is_handled(
            six: bool, tags in 0..4_usize, payload in 0..400_usize, end in 0..600_usize, draw: u64,
            changes in prop::collection::vec((0..120_usize, any::<u8>()), 0..8),
        ) {
            let at = ETHERNET + TAG * tags + if six { 40 } else { 20 };
            let mut unit = vec![1, if six { 4 } else { 1 }, 0, 0, 100, 0, at as u8, 0, 16, 0, 0, 0];
            unit.extend([2; 12]);
            (0..tags).for_each(|_| unit.extend([0x81, 0x00, 0, 5]));
            unit.extend(if six { [0x86, 0xdd, 0x60] } else { [0x08, 0x00, 0x45] });
            unit.resize(Tap::VNET_HEADER + at + 12, 0);
            unit.push(0x50);
            unit.resize(unit.len() + 7 + payload, 3);
            for (at, value) in changes {
                if let Some(byte) = unit.get_mut(at) {
                    *byte = value;
                }
            }
            unit.truncate(end.max(10));
            handled(&unit, draw);
        }

        #[test]
        fn whatever_bytes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..200), draw: u64) {
            handled(&bytes, draw);
        }
    }

    #[test]
    fn a_vlan_tag_is_beside_the_mtu() {
        const Q: [u8; 2] = [0x81, 0x00];
        const AD: [u8; 2] = [0x88, 0xa8];
        for account in Account::NAMES.iter().filter_map(|name| Account::from_name(name)) {
            let largest = account.largest(MTU);
            for tags in [&[][..], &[Q], &[AD]] {
                for packet in [100, 1499, 1500] {
                    assert_eq!(
                        charged(account, tags, packet),
                        account.from_ip(packet as u32),
                        "{tags:?}"
                    );
                }
                // A byte more is too large, however many more.
                for packet in [1501, 1504, 1600, 9000] {
                    assert!(charged(account, tags, packet) > largest, "{packet} {tags:?}");
                }
            }
            // The second tag is what the first one carries, and has to fit.
            assert_eq!(charged(account, &[AD, Q], 1496), largest);
            assert!(charged(account, &[AD, Q], 1497) > largest);
        }
    }
}
