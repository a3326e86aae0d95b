//! The hosts at both ends of a link. Each order to a host is a line of its standard input, and each
//! answer a line of its standard output.

use crate::netlink;
use crate::storm::{self, packet_socket};
use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use std::io::{BufRead, IoSliceMut, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

pub(crate) const PORT: u16 = 4711;
/// Bytes of a transfer in each direction.
const TRANSFER: usize = 3 << 20;

/// Executes orders until the input ends.
pub(crate) fn live() {
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("lines");
        let words: Vec<&str> = line.split(' ').collect();
        println!("{}", told(&words));
    }
}

fn told(words: &[&str]) -> String {
    match words {
        ["up", interface, addresses @ ..] => {
            netlink::set_up("lo", true);
            netlink::set_up(interface, true);
            for address in addresses {
                let address: IpAddr = address.parse().expect("an address");
                netlink::add_address(interface, address, if address.is_ipv4() { 24 } else { 64 });
            }
            "done".into()
        }
        ["mtu", interface, mtu] => {
            netlink::set_mtu(interface, mtu.parse().expect("a number"));
            "done".into()
        }
        ["serve", address] => {
            let listener =
                TcpListener::bind((address.parse::<IpAddr>().unwrap(), PORT)).expect("a port");
            let datagrams =
                UdpSocket::bind((address.parse::<IpAddr>().unwrap(), PORT)).expect("a port");
            std::thread::spawn(move || serve(&listener, &datagrams));
            "done".into()
        }
        ["ask", address] => ask(SocketAddr::new(address.parse().expect("an address"), PORT)),
        ["send", interface, with_header, frames @ ..] => {
            send(interface, *with_header == "true", frames)
        }
        ["flood", address] => {
            flood(SocketAddr::new(address.parse().expect("an address"), PORT));
            "done".into()
        }
        ["count", address] => in_order(SocketAddr::new(address.parse().expect("an address"), PORT)),
        ["echo", interface] => {
            let interface = (*interface).to_owned();
            std::thread::spawn(move || storm::echo(&interface));
            "done".into()
        }
        ["storm", interface, headers, frames] => storm::storm(
            storm::Interface::at(interface, *headers == "true"),
            frames.parse().expect("a number"),
        ),
        ["storm-to", address, interface, frames] => {
            let to = SocketAddr::new(address.parse().expect("an address"), PORT);
            storm::storm(storm::Datagrams::to(to, interface), frames.parse().expect("a number"))
        }
        ["await", interface, ethertype] => {
            await_frame(interface, u16::from_str_radix(ethertype, 16).expect("hex"))
        }
        _ => panic!("no such thing: {words:?}"),
    }
}

/// Returns bytes that depend on their position, different for each direction.
fn content(way: usize) -> Vec<u8> {
    (0..TRANSFER).map(|i| (i * 7 + i / 251 + way) as u8).collect()
}

/// Receives a transfer and answers with another; then receives one datagram and returns it.
fn serve(listener: &TcpListener, datagrams: &UdpSocket) {
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut came = Vec::new();
    stream.read_to_end(&mut came).expect("all of it");
    assert!(came == content(0), "{} bytes came", came.len());
    stream.write_all(&content(1)).expect("all of it");
    stream.shutdown(std::net::Shutdown::Write).expect("the end");
    let mut datagram = [0; 2000];
    let (length, from) = datagrams.recv_from(&mut datagram).expect("a datagram");
    datagrams.send_to(&datagram[..length], from).expect("a way back");
}

/// Makes the transfers from the client side: a stream in each direction, and a datagram there and
/// back.
fn ask(to: SocketAddr) -> String {
    let mut stream =
        TcpStream::connect_timeout(&to, Duration::from_secs(10)).expect("the link carries TCP");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&content(0)).expect("all of it");
    stream.shutdown(std::net::Shutdown::Write).expect("the end");
    let mut came = Vec::new();
    stream.read_to_end(&mut came).expect("all of it");
    assert!(came == content(1), "{} bytes came", came.len());
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sent: Vec<u8> = (0..1400).map(|i| (i % 249) as u8).collect();
    socket.send_to(&sent, to).expect("sent");
    let mut datagram = [0; 2000];
    let length = socket.recv(&mut datagram).expect("the link carries UDP");
    assert!(datagram[..length] == sent, "{length} bytes came back");
    "passed".into()
}

/// Sends numbered datagrams for a second, four per millisecond.
fn flood(to: SocketAddr) {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let began = Instant::now();
    for number in 0..4_000_u32 {
        let due = began + Duration::from_millis(u64::from(number / 4));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut datagram = [0; 1000];
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        // A datagram for which the kernel has no room may be missing.
        let _ = socket.send_to(&datagram, to);
    }
}

/// Counts numbered datagrams until no more arrive; returns their number, and whether the sequence
/// was increasing.
fn in_order(at: SocketAddr) -> String {
    let socket = UdpSocket::bind(at).expect("a port");
    // The buffer is as large as the system allows, so that the receiver loses no packets that the
    // link sent.
    let _ = setsockopt(&socket, sockopt::RcvBuf, &(1 << 20));
    println!("listening");
    let (mut came, mut last, mut rise) = (0, None, true);
    let mut datagram = [0; 2000];
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    while socket.recv(&mut datagram).is_ok() {
        let number = datagram[..4].to_vec();
        rise &= last.replace(number.clone()) < Some(number);
        came += 1;
        socket.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    }
    format!("{came} {}", if rise { "in order" } else { "out of order" })
}

/// Sends frames given in hexadecimal, each with a virtio-net header in front or without; returns
/// how many the kernel accepted.
fn send(interface: &str, with_header: bool, frames: &[&str]) -> String {
    let socket = packet_socket(interface, 0, if with_header { libc::PACKET_VNET_HDR } else { 0 });
    let mut taken = 0;
    for frame in frames {
        let byte = |i: usize| u8::from_str_radix(&frame[i..i + 2], 16).expect("hex");
        let frame: Vec<u8> = (0..frame.len()).step_by(2).map(byte).collect();
        taken += usize::from(
            nix::sys::socket::send(socket.as_raw_fd(), &frame, MsgFlags::empty()).is_ok(),
        );
    }
    taken.to_string()
}

/// Waits for a frame with this Ethernet type after the tag that the kernel removes; returns the tag
/// and the frame's bytes, or `nothing`.
fn await_frame(interface: &str, ethertype: u16) -> String {
    let socket = packet_socket(interface, libc::ETH_P_ALL as u16, libc::PACKET_AUXDATA);
    println!("listening");
    let deadline = Instant::now() + Duration::from_secs(3);
    let mut frame = [0; 4000];
    while Instant::now() < deadline {
        let mut space = nix::cmsg_space!(libc::tpacket_auxdata);
        let mut parts = [IoSliceMut::new(&mut frame)];
        let Ok(got) =
            recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_DONTWAIT)
        else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let auxdata = got.cmsgs().expect("whole").find_map(|control| match control {
            ControlMessageOwned::Unknown(unknown) => Some(unknown.data_bytes),
            _ => None,
        });
        let length = got.bytes;
        if frame[12..14] != ethertype.to_be_bytes() {
            continue;
        }
        // Fields of `tpacket_auxdata`: status, len, snaplen: 4 bytes each; mac, net, vlan_tci,
        // vlan_tpid: 2 each.
        let auxdata = auxdata.expect("it was asked for");
        let word = |at: usize| u16::from_ne_bytes([auxdata[at], auxdata[at + 1]]);
        let status = u32::from_ne_bytes(auxdata[..4].try_into().unwrap());
        let tag = if status & libc::TP_STATUS_VLAN_VALID == 0 {
            "untagged".into()
        } else {
            format!("{:04x}{:04x}", word(18), word(16))
        };
        return format!("{tag} {}", hex(&frame[..length]));
    }
    "nothing".into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A host process, with the pipes for its orders and answers.
pub(crate) struct Host {
    process: std::process::Child,
    answers: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Host {
    /// Starts a host in a network namespace of its own.
    pub(crate) fn start() -> Host {
        use std::process::{Command, Stdio};
        let me = std::env::current_exe().expect("a path");
        let mut command = Command::new("unshare");
        command
            .arg("-n")
            .arg(me)
            .args(["--probe", "host"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let answers = std::io::BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let mut host = Host { process, answers };
        assert_eq!(host.answer(), "ready");
        host
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends an order.
    pub(crate) fn begin(&mut self, order: &str) {
        writeln!(self.process.stdin.as_mut().expect("a pipe"), "{order}").expect("it listens");
    }

    pub(crate) fn answer(&mut self) -> String {
        self.answers.next().expect("it answers").expect("text")
    }

    /// Sends an order and waits for its answer.
    pub(crate) fn ask(&mut self, order: &str) -> String {
        self.begin(order);
        self.answer()
    }

    pub(crate) fn does(&mut self, order: &str) {
        assert_eq!(self.ask(order), "done", "{order}");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
