//! The buffers in which a socket keeps datagrams until they are read, or have left.
#![allow(unsafe_code)]

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Bytes of a buffer: enough for arrivals while the reader does not run for some milliseconds.
const ROOM: usize = 8 << 20;

/// Makes the receive buffer [`ROOM`] bytes long, or as long as the kernel allows.
pub(crate) fn enlarge(socket: &UdpSocket) {
    // A privileged process may exceed the system's limit on buffers. If no larger buffer is
    // allowed, losses are counted all the same.
    if setsockopt(socket, sockopt::RcvBufForce, &ROOM).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &ROOM);
    }
}

/// Makes the send buffer [`ROOM`] bytes long, or as long as the kernel allows.
pub(crate) fn enlarge_for_sending(socket: &UdpSocket) {
    if setsockopt(socket, sockopt::SndBufForce, &ROOM).is_err() {
        let _ = setsockopt(socket, sockopt::SndBuf, &ROOM);
    }
}

/// Number of datagrams that found the receive buffer full since the socket was created; 0 if the
/// kernel does not report it.
pub(crate) fn overflowed(socket: &UdpSocket) -> u64 {
    /// SK_MEMINFO_DROPS of linux/sock_diag.h: the index of the ninth figure.
    const DROPS: usize = 8;
    let mut figures = [0_u32; DROPS + 1];
    let mut length = size_of_val(&figures) as libc::socklen_t;
    // SAFETY: the array and its length outlive the call, which writes at most as many bytes as the
    // length.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            figures.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if done == 0 { figures[DROPS].into() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_it_full_is_counted() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        enlarge(&socket);
        let to = socket.local_addr().expect("bound");
        let mut sent = 0;
        while overflowed(&socket) == 0 && sent < 100_000 {
            assert_eq!(socket.send_to(&[0; 8000], to).expect("loopback takes it"), 8000);
            sent += 1;
        }
        assert!(overflowed(&socket) == 1 && sent > 10, "{sent}");
    }
}
