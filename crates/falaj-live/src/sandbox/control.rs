//! Messages between the caller and the first process of a side.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};

use super::event::Exit;
use crate::error::SetupStep;
use crate::process;

/// One message; some carry a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideMessage {
    /// From the launcher: the process number of a side's first process; with its pidfd.
    Cloned(i32),
    /// From a side: the namespaces are up; with the network namespace if the other side needs it.
    Namespace,
    /// From a side: the interface is up; with the TAP descriptor if there is one. Later: a
    /// requested task is done.
    Ready,
    /// From a side: the interface is up; with a packet socket. The step and errno are those of a
    /// TAP that was tried and failed.
    Packet(Option<SetupStep>, i32),
    /// From a side or the launcher: this step failed with this errno.
    Failed(SetupStep, i32),
    /// From a side: the command ended.
    Exited(Exit),
    /// From a side: a connection to this port of its own loopback addresses was refused.
    Refused(u16),
    /// From the far side: a socket that listens for a port of the host.
    HostPort,
    /// To a side: the other side is up, make or configure the link; with the network namespace of
    /// the other side, if this side needs it. Later, to the far side: configure the way out.
    Link,
    /// To a side: start the command.
    Go,
    /// To the far side: answer ARP requests for the near side at the way out without delay.
    Answer,
    /// To a side: pass this signal to the command.
    Signal(i32),
    /// To a side: from now on live until no process holds the control socket, even if the caller
    /// ends before.
    Outlive,
}

/// The result of reading the socket.
#[derive(Debug)]
pub(crate) enum SideReply {
    /// A message and the descriptor that came with it.
    Message(SideMessage, Option<OwnedFd>),
    /// There is no message yet.
    Nothing,
    /// The other end is closed.
    Closed,
}

const LENGTH: usize = 9;

impl SideMessage {
    fn encode(self) -> [u8; LENGTH] {
        let (tag, a, b) = match self {
            SideMessage::Cloned(pid) => (0, pid, 0),
            SideMessage::Namespace => (1, 0, 0),
            SideMessage::Ready => (2, 0, 0),
            SideMessage::Failed(step, errno) => (3, step.number(), errno),
            SideMessage::Exited(Exit::Code(code)) => (4, code, 0),
            SideMessage::Exited(Exit::Signal(signal)) => (5, signal, 0),
            SideMessage::Link => (6, 0, 0),
            SideMessage::Go => (7, 0, 0),
            SideMessage::Signal(signal) => (8, signal, 0),
            SideMessage::Packet(step, errno) => (9, step.map_or(-1, SetupStep::number), errno),
            SideMessage::Answer => (10, 0, 0),
            SideMessage::HostPort => (11, 0, 0),
            SideMessage::Outlive => (12, 0, 0),
            SideMessage::Refused(port) => (13, port.into(), 0),
        };
        let mut bytes = [tag; LENGTH];
        bytes[1..5].copy_from_slice(&i32::to_ne_bytes(a));
        bytes[5..9].copy_from_slice(&i32::to_ne_bytes(b));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<SideMessage> {
        let (&tag, numbers) = bytes.split_first()?;
        let (a, b) = numbers.split_at_checked(4)?;
        let (a, b) =
            (i32::from_ne_bytes(a.try_into().ok()?), i32::from_ne_bytes(b.try_into().ok()?));
        Some(match tag {
            0 => SideMessage::Cloned(a),
            1 => SideMessage::Namespace,
            2 => SideMessage::Ready,
            3 => SideMessage::Failed(SetupStep::from_number(a)?, b),
            4 => SideMessage::Exited(Exit::Code(a)),
            5 => SideMessage::Exited(Exit::Signal(a)),
            6 => SideMessage::Link,
            7 => SideMessage::Go,
            8 => SideMessage::Signal(a),
            9 => SideMessage::Packet(SetupStep::from_number(a), b),
            10 => SideMessage::Answer,
            11 => SideMessage::HostPort,
            12 => SideMessage::Outlive,
            13 => SideMessage::Refused(a.try_into().ok()?),
            _ => return None,
        })
    }
}

/// Two connected sockets that preserve message boundaries and report the death of the other end.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
}

/// Sends a message, with a descriptor if there is one to send.
pub(crate) fn send(
    socket: &OwnedFd,
    message: SideMessage,
    fd: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let bytes = message.encode();
    let rights: Vec<RawFd> = fd.iter().map(AsRawFd::as_raw_fd).collect();
    let control = [ControlMessage::ScmRights(&rights)];
    let control = if rights.is_empty() { &control[..0] } else { &control[..] };
    loop {
        let sent = sendmsg::<()>(
            socket.as_raw_fd(),
            &[IoSlice::new(&bytes)],
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        );
        match sent {
            Err(Errno::EINTR) => {}
            sent => return sent.map(drop),
        }
    }
}

/// Receives one message; waits for it if `wait`.
pub(crate) fn receive(socket: &OwnedFd, wait: bool) -> Result<SideReply, Errno> {
    let mut flags = MsgFlags::MSG_CMSG_CLOEXEC;
    flags.set(MsgFlags::MSG_DONTWAIT, !wait);
    let mut bytes = [0; LENGTH];
    let mut space = cmsg_space!([RawFd; 1]);
    let (length, fd) = loop {
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        match recvmsg::<()>(socket.as_fd().as_raw_fd(), &mut buffers, Some(&mut space), flags) {
            Ok(got) => {
                let mut fd = None;
                for control in got.cmsgs()? {
                    if let ControlMessageOwned::ScmRights(fds) = control {
                        fd = fds.into_iter().map(process::adopt).next_back().or(fd);
                    }
                }
                break (got.bytes, fd);
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Ok(SideReply::Nothing),
            // The other end was closed before it had read a message of ours.
            Err(Errno::ECONNRESET) => return Ok(SideReply::Closed),
            Err(errno) => return Err(errno),
        }
    };
    match SideMessage::decode(&bytes[..length]) {
        Some(message) => Ok(SideReply::Message(message, fd)),
        None if length == 0 => Ok(SideReply::Closed),
        None => Err(Errno::EPROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_arrive() {
        let (a, b) = pair().unwrap();
        assert!(matches!(receive(&b, false), Ok(SideReply::Nothing)));
        for message in [
            SideMessage::Cloned(77),
            SideMessage::Namespace,
            SideMessage::Failed(SetupStep::Routes, 22),
            SideMessage::Exited(Exit::Code(-1)),
            SideMessage::Exited(Exit::Signal(64)),
            SideMessage::Link,
            SideMessage::Go,
            SideMessage::Answer,
            SideMessage::HostPort,
            SideMessage::Refused(8000),
            SideMessage::Outlive,
            SideMessage::Signal(15),
            SideMessage::Packet(None, 0),
            SideMessage::Packet(Some(SetupStep::OpenTun), 13),
        ] {
            send(&a, message, None).unwrap();
            let Ok(SideReply::Message(got, None)) = receive(&b, true) else {
                panic!("{message:?} did not arrive")
            };
            assert_eq!(got, message);
        }
        send(&a, SideMessage::Ready, Some(a.as_fd())).unwrap();
        let Ok(SideReply::Message(SideMessage::Ready, Some(copy))) = receive(&b, true) else {
            panic!("no descriptor")
        };
        drop((a, copy));
        assert!(matches!(receive(&b, true), Ok(SideReply::Closed)));
    }
}
