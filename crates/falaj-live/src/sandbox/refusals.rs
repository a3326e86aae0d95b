//! Connections to the side's own loopback addresses that are refused, because nothing listens
//! there.
//!
//! A packet socket at the loopback interface receives the resets that refuse these connections. A
//! filter in the kernel keeps all other packets away, so that other loopback traffic does not wake
//! the side's first process, which reads the socket.

use crate::backend::packet;
use crate::listening;
use nix::errno::Errno;
use nix::libc;
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

/// Watches the caller's network namespace for refused connections.
pub(super) struct Refusals {
    socket: Socket,
    /// Ports that were returned before.
    told: BTreeSet<u16>,
}

impl Refusals {
    /// Begins to watch the network namespace.
    pub(super) fn watch() -> Result<Refusals, Errno> {
        let errno = |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        // A socket without a protocol receives nothing before it is bound.
        let kind = Type::DGRAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::PACKET, kind, Some(Protocol::from(0))).map_err(errno)?;
        socket.attach_filter(&resets()).map_err(errno)?;
        packet::bind(socket.as_fd(), if_nametoindex("lo")? as libc::c_int)?;
        Ok(Refusals { socket, told: BTreeSet::new() })
    }

    /// The port of a connection that was refused since the last call. Each port is returned only
    /// once.
    pub(super) fn next(&mut self) -> Option<u16> {
        let mut packet = [0; 64];
        loop {
            let length = match (&self.socket).read(&mut packet) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return None,
            };
            let port = source_port(&packet[..length]);
            // A server that aborts a connection sends a reset too, so ports with a server are
            // skipped.
            let served = |port| listening::ports().contains(&(listening::Transport::Tcp, port));
            if let Some(port) = port.filter(|&port| !served(port))
                && self.told.insert(port)
            {
                return Some(port);
            }
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The source port of a TCP segment in an IP packet.
fn source_port(packet: &[u8]) -> Option<u16> {
    let header = match packet.first()? >> 4 {
        4 => usize::from(packet[0] & 15) * 4,
        _ => 40,
    };
    Some(u16::from_be_bytes(packet.get(header..header + 2)?.try_into().ok()?))
}

/// The filter passes IP packets that carry TCP with exactly the flags of a refusal: reset and
/// acknowledgement.
fn resets() -> [SockFilter; 15] {
    const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    const LOAD_BYTE_AT_X: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_IND) as u16;
    const LOAD_HEADER_LENGTH: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
    const LOAD_X: u16 = (libc::BPF_LDX | libc::BPF_IMM) as u16;
    const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const TCP: u32 = libc::IPPROTO_TCP as u32;
    const RESET_AND_ACK: u32 = 0x14;
    [
        (LOAD_BYTE, 0, 0, 0),
        (AND, 0, 0, 0xf0),
        (EQUAL, 0, 4, 0x40),
        // IPv4.
        (LOAD_BYTE, 0, 0, 9),
        (EQUAL, 0, 9, TCP),
        (LOAD_HEADER_LENGTH, 0, 0, 0),
        (JUMP, 0, 0, 4),
        // IPv6, without extension headers.
        (EQUAL, 0, 6, 0x60),
        (LOAD_BYTE, 0, 0, 6),
        (EQUAL, 0, 4, TCP),
        (LOAD_X, 0, 0, 40),
        // The flags.
        (LOAD_BYTE_AT_X, 0, 0, 13),
        (EQUAL, 0, 1, RESET_AND_ACK),
        (RETURN, 0, 0, 64),
        (RETURN, 0, 0, 0),
    ]
    .map(|(code, jt, jf, k)| SockFilter::new(code, jt, jf, k))
}
