//! A flood of as many small datagrams as the machine can send, to measure how many a link forwards.

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Number of datagrams that are passed to the kernel at once; it splits them for the interface.
const AT_ONCE: usize = 64;

/// Sends datagrams of `payload` bytes for `long`; returns how many the kernel accepted.
pub fn flood(to: SocketAddr, payload: u16, long: Duration) -> io::Result<u64> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    setsockopt(&socket, sockopt::UdpGsoSegment, &i32::from(payload))?;
    socket.connect(to)?;
    let datagrams = vec![0; usize::from(payload) * AT_ONCE];
    let began = Instant::now();
    let mut sent = 0;
    while began.elapsed() < long {
        match socket.send(&datagrams) {
            Ok(_) => sent += AT_ONCE as u64,
            // The interface has no room now, or nothing listens there.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(e) if e.raw_os_error() == Some(Errno::ENOBUFS as i32) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(sent)
}
