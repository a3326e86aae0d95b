//! The control channel: messages over a Unix socket, some with a descriptor. It never blocks.

use super::message::{LENGTH, MemifMessage};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// One side of the channel.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// A channel over a connected socket of type `SOCK_SEQPACKET`.
    pub fn new(socket: OwnedFd) -> Channel {
        Channel(socket)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The peer is gone, or has not read earlier messages.
    pub fn send(&self, message: &MemifMessage, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = fd.map(|fd| [fd]);
        if let Some(fds) = &fds {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let bytes = message.to_bytes();
        sendmsg(
            &self.0,
            &[IoSlice::new(&bytes)],
            &mut control,
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        )?;
        Ok(())
    }

    /// Receives the peer's next message, and its descriptor; `None` if there is none yet.
    ///
    /// # Errors
    /// The peer is gone, or sends an invalid message.
    pub fn receive(&self) -> io::Result<Option<(MemifMessage, Option<OwnedFd>)>> {
        // One byte more, to detect messages that are too long.
        let mut bytes = [0; LENGTH + 1];
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            got => got?,
        };
        let mut fds = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fd = fds.next().and_then(|mut fds| fds.next());
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        if got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(invalid("a message with more than one descriptor".into()));
        }
        match got.bytes {
            0 => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the connection"))
            }
            length => {
                let message = MemifMessage::from_bytes(&bytes[..length])
                    .map_err(|why| invalid(why.to_string()))?;
                Ok(Some((message, fd)))
            }
        }
    }
}

impl AsFd for Channel {
    /// Readable when the peer has sent a message, or is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
