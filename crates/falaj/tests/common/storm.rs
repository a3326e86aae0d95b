//! Sends malformed ("bad") frames to an interface: valid frames with bytes flipped, overwritten,
//! repeated and left out at random. Valid ("good"), numbered frames are sent among them. The other
//! end has to return each good frame, changed only in one byte of its destination address. The
//! sender waits for the good frames before it goes on, so that no frame is lost because a buffer is
//! full, however busy the machine is. So a good frame that does not return was lost because of a
//! bad frame.

use nix::libc;
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Destination address of the good frames, and of the bad ones before mutation.
pub(crate) const BAD_DESTINATION: [u8; 6] = [0x02, 0, 0, 0, 0, QUESTION];
/// Ethernet type of the good frames, reserved for experiments.
const GOOD: u16 = 0x88b5;
const ETHERNET: usize = 14;
/// Index of the address byte that distinguishes sent frames from returned ones.
const TO: usize = 5;
const QUESTION: u8 = 0xb0;
const ANSWER: u8 = 0xb1;
/// Number of bad frames for each good one.
const BAD_PER_GOOD: u64 = 15;
/// Maximum number of good frames in transit.
const WINDOW: u64 = 4;
/// Longest time in ms until a good frame returns, on a busy machine.
const PATIENCE: u16 = 20_000;

/// Returns the number of bad frames: 20,000, or `FALAJ_FRAMES` if set.
pub(crate) fn frames() -> u64 {
    std::env::var("FALAJ_FRAMES").ok().and_then(|frames| frames.parse().ok()).unwrap_or(20_000)
}

/// Opens a packet socket at an interface, for frames of this type, with this option set.
pub(crate) fn packet_socket(interface: &str, ethertype: u16, option: libc::c_int) -> OwnedFd {
    // SAFETY: the call passes no memory, and the descriptor is fresh from the kernel.
    let socket = unsafe {
        OwnedFd::from_raw_fd(libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0))
    };
    let on: libc::c_int = 1;
    // SAFETY: all zeroes are a valid sockaddr_ll. The address and the option's value outlive the
    // calls, and each is passed with its own length.
    unsafe {
        let mut at: libc::sockaddr_ll = std::mem::zeroed();
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = ethertype.to_be();
        at.sll_ifindex = if_nametoindex(interface).expect("the interface is there") as i32;
        let fd = socket.as_raw_fd();
        if option != 0 {
            let (value, size) = ((&raw const on).cast(), size_of_val(&on) as u32);
            assert_eq!(libc::setsockopt(fd, libc::SOL_PACKET, option, value, size), 0);
        }
        assert_eq!(libc::bind(fd, (&raw const at).cast(), size_of_val(&at) as u32), 0);
    }
    socket
}

/// Answers the good frames that arrive at an interface, forever.
pub(crate) fn echo(interface: &str) -> ! {
    let socket = packet_socket(interface, GOOD, 0);
    let mut frame = [0; 4000];
    loop {
        let length = recv(socket.as_raw_fd(), &mut frame, MsgFlags::empty()).expect("a frame");
        if answer(&mut frame[..length]) {
            sent(&socket, &frame[..length]);
        }
    }
}

/// Turns a good frame into its answer. Returns true if the frame was good.
pub(crate) fn answer(frame: &mut [u8]) -> bool {
    let good = number(frame, QUESTION).is_some();
    if good {
        frame[TO] = ANSWER;
    }
    good
}

/// Transport of frames to the link, and of answers back.
pub(crate) trait FrameTransport {
    /// Length of the longest good frame, in bytes.
    const LONGEST: usize = 1514;

    /// Returns true if a good frame could be sent; a buffer may be full for a moment.
    fn good(&mut self, frame: &[u8]) -> bool;

    /// Returns true if a bad frame could be sent; `header` says whether a virtio-net header
    /// precedes it.
    fn bad(&mut self, bytes: &[u8], header: bool) -> bool;

    /// Receives a frame, good or not, within `milliseconds`; returns its length.
    fn comes(&mut self, frame: &mut [u8], milliseconds: u16) -> Option<usize>;
}

/// Packet sockets at an interface.
pub(crate) struct Interface {
    good: OwnedFd,
    bad: [OwnedFd; 2],
}

impl Interface {
    /// Opens sockets at an interface. `headers` must be false where packets are queued one by one:
    /// without virtio-net headers no frame is segmented into a thousand packets, for which such a
    /// queue has no room.
    pub(crate) fn at(interface: &str, headers: bool) -> Interface {
        let bad = [false, true].map(|header| {
            packet_socket(interface, 0, if header && headers { libc::PACKET_VNET_HDR } else { 0 })
        });
        Interface { good: packet_socket(interface, GOOD, 0), bad }
    }
}

impl FrameTransport for Interface {
    fn good(&mut self, frame: &[u8]) -> bool {
        sent(&self.good, frame)
    }

    fn bad(&mut self, bytes: &[u8], header: bool) -> bool {
        send(self.bad[usize::from(header)].as_raw_fd(), bytes, MsgFlags::empty()).is_ok()
    }

    fn comes(&mut self, frame: &mut [u8], milliseconds: u16) -> Option<usize> {
        received(&self.good, frame, milliseconds)
    }
}

/// Sends bad frames to an interface, and good ones in datagrams, because the link sees only IP
/// packets.
pub(crate) struct Datagrams {
    good: UdpSocket,
    bad: Interface,
}

impl Datagrams {
    pub(crate) fn to(address: SocketAddr, interface: &str) -> Datagrams {
        let good = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        good.connect(address).expect("a way there");
        Datagrams { good, bad: Interface::at(interface, true) }
    }
}

impl FrameTransport for Datagrams {
    const LONGEST: usize = 1400;

    fn good(&mut self, frame: &[u8]) -> bool {
        sent(&self.good, frame)
    }

    fn bad(&mut self, bytes: &[u8], header: bool) -> bool {
        self.bad.bad(bytes, header)
    }

    fn comes(&mut self, frame: &mut [u8], milliseconds: u16) -> Option<usize> {
        received(&self.good, frame, milliseconds)
    }
}

/// Waits until the other end answers, then sends `frames` bad frames and good ones among them.
/// Returns a summary of both, or a message if a good frame does not return.
pub(crate) fn storm<W: FrameTransport>(mut way: W, frames: u64) -> String {
    let seeds = seeds();
    let mut random = Random(0x5eed);
    let mut next = 0;
    let (mut taken, mut numbered) = (0, 0);
    while !(way.good(&numbers(numbered, 60)) && comes(&mut way, &mut next, 300)) {
        // Frames sent before the other end was up may be missing.
        numbered += 1;
        next = numbered;
    }
    numbered += 1;
    let first = numbered;
    for frame in 0..frames {
        let header = random.below(2) == 1;
        let bytes = random.mutated(&seeds, header);
        taken += u64::from(way.bad(&bytes, header));
        if frame % BAD_PER_GOOD == 0 {
            if numbered - next >= WINDOW && !comes(&mut way, &mut next, PATIENCE) {
                return format!(
                    "good frame {next} of {numbered} did not come back, after {frame} bad ones"
                );
            }
            assert!(
                way.good(&numbers(numbered, 60 + random.below(W::LONGEST - 59))),
                "a good frame can be sent"
            );
            numbered += 1;
        }
    }
    while next < numbered {
        if !comes(&mut way, &mut next, PATIENCE) {
            return format!(
                "good frame {next} of {numbered} did not come back, after all bad ones"
            );
        }
    }
    assert!(taken > frames / 3, "{taken} of {frames} bad ones got as far as the link");
    format!("{taken} bad taken, {} good came back", numbered - first)
}

/// Returns true if the next good frame returns within `milliseconds`, before any later one. Ignores
/// further copies of earlier frames.
fn comes(way: &mut impl FrameTransport, next: &mut u64, milliseconds: u16) -> bool {
    let mut frame = [0; 4000];
    while let Some(length) = way.comes(&mut frame, milliseconds) {
        match number(&frame[..length], ANSWER) {
            Some(number) if number >= *next => {
                assert_eq!(number, *next, "good frames come in order");
                *next += 1;
                return true;
            }
            _ => {}
        }
    }
    false
}

fn received(socket: &impl AsFd, frame: &mut [u8], milliseconds: u16) -> Option<usize> {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    while poll(&mut fds, PollTimeout::from(milliseconds)).expect("it polls") > 0 {
        // An error here is an ICMP answer to an earlier datagram.
        if let Ok(length) = recv(socket.as_fd().as_raw_fd(), frame, MsgFlags::empty()) {
            return Some(length);
        }
    }
    None
}

/// Returns a good frame: its number, and bytes derived from it.
fn numbers(number: u64, length: usize) -> Vec<u8> {
    let mut frame = ethernet(GOOD);
    frame.extend(number.to_be_bytes());
    frame.extend((ETHERNET + 8..length).map(|i| (i as u64).wrapping_mul(number | 1) as u8));
    frame
}

/// Returns the number of a good frame in this direction, if every byte is right.
fn number(frame: &[u8], way: u8) -> Option<u64> {
    let number = u64::from_be_bytes(frame.get(ETHERNET..ETHERNET + 8)?.try_into().ok()?);
    let mut good = numbers(number, frame.len());
    good[TO] = way;
    (good == frame).then_some(number)
}

/// Sends a frame, and retries while the kernel has no buffer space. Returns true if it was sent
/// whole.
fn sent(socket: &impl AsFd, frame: &[u8]) -> bool {
    (0..1000).any(|_| match send(socket.as_fd().as_raw_fd(), frame, MsgFlags::empty()) {
        Ok(length) => length == frame.len(),
        Err(_) => {
            std::thread::sleep(std::time::Duration::from_millis(1));
            false
        }
    })
}

/// Writes the right checksum into an IPv4 header, if the frame has one.
fn summed(frame: &mut [u8]) {
    let Some((ethernet, packet)) = frame.split_at_mut_checked(ETHERNET) else { return };
    let length = packet.first().map_or(0, |byte| usize::from(byte & 15) * 4);
    if ethernet[12..] != [8, 0] || length < 20 || packet.len() < length {
        return;
    }
    packet[10..12].fill(0);
    let words = packet[..length].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
}

fn ethernet(ethertype: u16) -> Vec<u8> {
    let mut frame = [BAD_DESTINATION, [0x02, 0, 0, 0, 0, 0xa0]].concat();
    frame.extend(ethertype.to_be_bytes());
    frame
}

/// Returns valid frames as seeds: TCP, UDP, ICMP and fragments over IPv4 and IPv6, with options and
/// extension headers, with VLAN tags, and ARP.
fn seeds() -> Vec<Vec<u8>> {
    let v4 = |protocol: u8, fragment: u16, options: &[u8], rest: &[u8]| {
        let length = (20 + options.len() + rest.len()) as u16;
        let mut frame = ethernet(0x0800);
        frame.extend([0x45 + (options.len() / 4) as u8, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([0, 1]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        frame.extend(options);
        frame.extend(rest);
        frame
    };
    let v6 = |next: u8, rest: &[u8]| {
        let mut frame = ethernet(0x86dd);
        frame.extend([0x60, 0, 0, 0]);
        frame.extend((rest.len() as u16).to_be_bytes());
        frame.extend([next, 64]);
        for end in [1, 2] {
            frame.extend([0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
        }
        frame.extend(rest);
        frame
    };
    let tcp = [
        &[0x10, 0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x60, 0x18, 1, 0, 0, 0, 0, 0, 1, 1, 3, 0][..],
        &[0x5a; 1400],
    ]
    .concat();
    let udp = [&[0x10, 0, 0x20, 0, 0x02, 0x08, 0, 0][..], &[0xa5; 512]].concat();
    let extended =
        [&[60, 0, 0, 0, 0, 0, 0, 0, 44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 7][..], &udp]
            .concat();
    let tagged = |tags: &[u32], frame: &[u8]| {
        let tags: Vec<u8> = tags.iter().flat_map(|tag| tag.to_be_bytes()).collect();
        [&frame[..12], &tags, &frame[12..]].concat()
    };
    let plain = [
        v4(6, 0x4000, &[], &tcp),
        v4(17, 0, &[], &udp),
        v4(17, 0x2000, &[], &udp),
        v4(17, 0x00b9, &[], &udp),
        v4(1, 0, &[0x94, 4, 0, 0], &[8, 0, 0, 0, 0, 1, 0, 1]),
        v6(6, &tcp),
        v6(17, &udp),
        v6(0, &extended),
        v6(58, &[128, 0, 0, 0, 0, 1, 0, 1]),
        [&ethernet(0x0806)[..], &[0, 1, 8, 0, 6, 4, 0, 1], &[2; 20]].concat(),
    ];
    let one = plain.iter().map(|frame| tagged(&[0x8100_0005], frame));
    let two = plain.iter().map(|frame| tagged(&[0x88a8_0006, 0x8100_0005], frame));
    plain.iter().cloned().chain(one).chain(two).collect()
}

/// Generator of pseudo-random numbers, which are the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Returns one of these frames with up to eight changes. If `header`, an arbitrary virtio-net
    /// header precedes it.
    fn mutated(&mut self, seeds: &[Vec<u8>], header: bool) -> Vec<u8> {
        let mut frame = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(8) {
            // Most parsed fields are in the first bytes.
            let near = if self.below(4) == 0 { frame.len() } else { frame.len().min(80) };
            let at = self.below(near.max(1));
            let some = 1 + self.below(64);
            match self.below(6) {
                0 if at < frame.len() => frame[at] ^= 1 << self.below(8),
                1 if at < frame.len() => frame[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                2 => frame.truncate(at.max(1)),
                3 => drop(frame.drain(at..(at + some).min(frame.len()))),
                4 => {
                    let again = frame[at..(at + some).min(frame.len())].to_vec();
                    frame.splice(at..at, again);
                }
                _ => frame.resize(frame.len() + some, 0),
            }
        }
        // A link that sees only IP packets receives only packets with a valid header, so most
        // frames get a valid checksum.
        if self.below(4) > 0 {
            summed(&mut frame);
        }
        if frame.get(12..14) == Some(&GOOD.to_be_bytes()) {
            frame[12] = 0x08;
        }
        if header {
            let mut word = |some: [u16; 5]| some[self.below(5)].to_le_bytes();
            let fields = [
                [54, 34, 66, 0, 65_535],
                [1448, 8, 1, 0, 65_535],
                [34, 54, 0, 14, 65_535],
                [16, 6, 2, 0, 65_535],
            ];
            let fields: Vec<u8> = fields.into_iter().flat_map(&mut word).collect();
            let kind = [[0, 0], [1, 0], [1, 1], [1, 4], [1, 5], [0, 0x81], [7, 3], [0xff, 0xff]]
                [self.below(8)];
            frame = [&kind[..], &fields, &frame].concat();
        }
        frame
    }
}
