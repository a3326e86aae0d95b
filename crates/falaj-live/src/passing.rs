//! Passing bytes and descriptors from one process to another, over a stream socket.

use crate::process;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Maximum number of descriptors sent with one byte; the kernel allows 253.
const TOGETHER: usize = 128;
/// The largest length of a message, in bytes.
const LONGEST: u64 = 4 << 30;

/// Sends a message.
///
/// # Errors
/// The other side is gone, or does not read.
pub fn send(mut stream: &UnixStream, message: &[u8]) -> io::Result<()> {
    stream.write_all(&(message.len() as u64).to_le_bytes())?;
    stream.write_all(message)
}

/// Receives a message.
///
/// # Errors
/// The other side is gone, sends nothing until the stream's timeout, or sends an invalid message.
pub fn receive(mut stream: &UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        return Err(io::Error::other("the message is longer than any valid one"));
    }
    let mut message = Vec::new();
    let got = stream.take(length).read_to_end(&mut message)?;
    if got as u64 == length { Ok(message) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Sends copies of descriptors. The other side must know their number.
///
/// # Errors
/// The other side is gone, or does not read.
pub fn send_descriptors<F: AsFd>(stream: &UnixStream, descriptors: &[F]) -> io::Result<()> {
    for some in descriptors.chunks(TOGETHER) {
        let raw: Vec<RawFd> = some.iter().map(|fd| fd.as_fd().as_raw_fd()).collect();
        let control = [ControlMessage::ScmRights(&raw)];
        let parts = [IoSlice::new(&[0])];
        loop {
            let flags = MsgFlags::MSG_NOSIGNAL;
            match sendmsg::<()>(stream.as_raw_fd(), &parts, &control, flags, None) {
                Err(Errno::EINTR) => {}
                sent => break sent.map(drop)?,
            }
        }
    }
    Ok(())
}

/// Receives this number of descriptors.
///
/// # Errors
/// The other side is gone, or sends a different number.
pub fn receive_descriptors(stream: &UnixStream, number: usize) -> io::Result<Vec<OwnedFd>> {
    let mut all = Vec::new();
    let mut space = cmsg_space!([RawFd; TOGETHER]);
    while all.len() < number {
        let mut byte = [0];
        let mut parts = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let got = match recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Err(Errno::EINTR) => continue,
            got => got?,
        };
        let before = all.len();
        for control in got.cmsgs()? {
            if let ControlMessageOwned::ScmRights(descriptors) = control {
                all.extend(descriptors.into_iter().map(process::adopt));
            }
        }
        if got.bytes == 0 || all.len() == before {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    if all.len() == number { Ok(all) } else { Err(io::Error::other("too many descriptors")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_many_descriptors_arrive_in_their_order() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (readers, writers): (Vec<_>, Vec<_>) = (0..300).map(|_| io::pipe().unwrap()).unzip();
        let sender = std::thread::spawn(move || {
            send(&ours, b"hello").unwrap();
            send_descriptors(&ours, &writers).unwrap();
            send(&ours, b"").unwrap();
        });
        assert_eq!(receive(&theirs).unwrap(), b"hello");
        let got = receive_descriptors(&theirs, 300).unwrap();
        assert_eq!(receive(&theirs).unwrap(), b"");
        sender.join().unwrap();
        for (n, (mut reader, writer)) in readers.into_iter().zip(got).enumerate() {
            std::fs::File::from(writer).write_all(&[n as u8]).unwrap();
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [n as u8]);
        }
        assert!(receive(&theirs).is_err(), "the other side is gone");
    }
}
