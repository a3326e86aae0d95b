//! Delay from socket to socket, measured by a program that never sleeps while a datagram is in
//! transit: the latency of a link, without the time to wake a receiver.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use falaj_sched::units::time::Span;
use falaj_traffic::meter::Meter;
use nix::errno::Errno;

use crate::clock::monotonic;
use crate::error::{Error, SetupStep};
use crate::netns::made_in;

/// The time after which a datagram counts as lost.
const LOST: Span = Span::from_secs(1);

/// A socket at this address, and any port, in the network namespace of a process. A fork of this
/// process enters the namespace, so this process must be single-threaded.
///
/// # Errors
/// The namespace cannot be entered, or has no such address.
pub fn socket(process: i32, address: IpAddr) -> Result<UdpSocket, Error> {
    let errno = |error: io::Error| {
        (SetupStep::Sockets, error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
    };
    let made = made_in(Some(&process.to_string()), || {
        let socket = UdpSocket::bind((address, 0)).map_err(errno)?;
        socket.set_nonblocking(true).map_err(errno)?;
        Ok(vec![OwnedFd::from(socket)])
    })?;
    made.into_iter().next().map(UdpSocket::from).ok_or(Error::new(
        SetupStep::Sockets,
        None,
        Errno::EPROTO,
    ))
}

/// Sends `datagrams` datagrams from one socket to the other, until `stop` is set. Each is sent when
/// the datagram before it has arrived, or counts as lost, and `pause` is over. Returns the delays,
/// and how many datagrams were lost.
///
/// # Errors
/// The kernel's error, of either socket.
pub fn probe(
    from: &UdpSocket,
    to: &UdpSocket,
    datagrams: u64,
    pause: Duration,
    stop: &AtomicBool,
) -> io::Result<(Meter, u64)> {
    from.connect(to.local_addr()?)?;
    let (mut delays, mut lost) = (Meter::new(), 0);
    for number in 0..datagrams {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(pause);
        let began = monotonic();
        from.send(&number.to_le_bytes())?;
        loop {
            let mut came = [0; 8];
            let read = to.recv(&mut came);
            let took = Span(monotonic() - began);
            match read {
                Ok(8) if came == number.to_le_bytes() => {
                    delays.record(took);
                    break;
                }
                // This datagram was already counted as lost.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => return Err(error),
            }
            if took >= LOST {
                lost += 1;
                break;
            }
        }
    }
    Ok((delays, lost))
}
