//! Firewall rules that pass an interface's packets to two queues, written as the bytes of netlink
//! messages. The rules are in two nftables tables, one for IPv4 and one for IPv6, that belong to a
//! socket. The kernel removes the tables when the socket is closed, however the process ends.

use super::message::MessageBuilder;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    socket,
};
use std::os::fd::{AsRawFd, OwnedFd};

/// `NFNL_SUBSYS_NFTABLES`.
const SUBSYSTEM: u16 = 10;
/// `NFNL_MSG_BATCH_BEGIN` and `_END`: all messages between them take effect, or none.
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;

const ACK: u16 = 4;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// The hooks of the rules: `NF_INET_PRE_ROUTING` and `NF_INET_POST_ROUTING`, at the priority of the
/// table `mangle`, which comes before the translation of source addresses.
const ARRIVING: u32 = 0;
const LEAVING: u32 = 4;
const PRIORITY: i32 = -150;

/// `NFT_META_IIFNAME` and `NFT_META_OIFNAME`.
const NAME_ARRIVING: u32 = 6;
const NAME_LEAVING: u32 = 7;
/// Bytes of an interface's name.
const NAME: usize = 16;

/// The interfaces whose packets are queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The interface of this name.
    Of(String),
    /// All interfaces but the loopback interface.
    OfAll,
}

/// The form in which a rule names a queue; some kernels support only one form.
#[derive(Clone, Copy)]
enum Naming {
    /// By an nftables expression.
    Expression,
    /// By the iptables target.
    Target,
}

/// Passes packets that leave by an interface to the queue `up`, and packets that arrive at it to
/// the queue `down`. If a queue has no reader, packets pass. The rules exist as long as the socket.
/// # Errors
/// The kernel's error: the rules require CAP_NET_ADMIN, Linux 5.12 and nftables.
pub(super) fn make(taken: &Taken, [up, down]: [u16; 2]) -> Result<OwnedFd, Errno> {
    make_by(Naming::Expression, taken, [up, down]).or_else(|errno| match errno {
        Errno::ENOENT | Errno::EOPNOTSUPP => make_by(Naming::Target, taken, [up, down]),
        errno => Err(errno),
    })
}

fn make_by(naming: Naming, taken: &Taken, [up, down]: [u16; 2]) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket =
        socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkNetFilter)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    let table = format!("falaj-{up}");
    let mut batch = MessageBuilder::new(BEGIN, 0, 0, SUBSYSTEM).done();
    for family in [IPV4, IPV6] {
        batch.extend(new_table(family, &table));
        for (chain, hook, name, queue) in
            [("down", ARRIVING, NAME_ARRIVING, down), ("up", LEAVING, NAME_LEAVING, up)]
        {
            batch.extend(new_chain(family, &table, chain, hook));
            batch.extend(new_rule(
                family,
                [&table, chain],
                &expressions(naming, taken, name, queue),
            ));
        }
    }
    batch.extend(MessageBuilder::new(END, 0, 0, SUBSYSTEM).done());
    send(socket.as_raw_fd(), &batch, MsgFlags::empty())?;
    answers(&socket)?;
    Ok(socket)
}

/// Reads the kernel's answers, one for each message with the flag `ACK`; returns the first error.
fn answers(socket: &OwnedFd) -> Result<(), Errno> {
    let mut answers = [0; 16 << 10];
    loop {
        let length = match recv(socket.as_raw_fd(), &mut answers, MsgFlags::MSG_DONTWAIT) {
            Ok(length) => length,
            // The kernel answers before `send` returns.
            Err(Errno::EAGAIN) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        let mut rest = &answers[..length];
        while let Some((length, _)) = rest.split_first_chunk::<4>() {
            let next = (u32::from_ne_bytes(*length) as usize).next_multiple_of(4).max(4);
            if let super::message::KernelMessage::Answer(error @ 1..) = super::message::read(rest) {
                return Err(Errno::from_raw(error));
            }
            rest = rest.get(next..).unwrap_or(&[]);
        }
    }
}

/// A text in the kernel's form, with a zero byte at its end.
fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// An attribute of a netlink message. The kind of an attribute that contains others has a flag.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn nested(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    const NESTED: u16 = 0x8000;
    attribute(kind | NESTED, &attributes.concat())
}

/// An expression of a rule, as an element of its list.
fn expression(name: &str, data: &[Vec<u8>]) -> Vec<u8> {
    const ELEMENT: u16 = 1;
    nested(ELEMENT, &[attribute(1, &text(name)), nested(2, data)])
}

fn new_table(family: u8, table: &str) -> Vec<u8> {
    /// `NFT_TABLE_F_OWNER`.
    const OWNER: u32 = 2;
    MessageBuilder::new(NEW_TABLE, CREATE | ACK, family, 0)
        .with(1, &[&text(table)])
        .with(2, &[&OWNER.to_be_bytes()])
        .done()
}

fn new_chain(family: u8, table: &str, chain: &str, hook: u32) -> Vec<u8> {
    let at = [attribute(1, &hook.to_be_bytes()), attribute(2, &PRIORITY.to_be_bytes())];
    let mut message = MessageBuilder::new(NEW_CHAIN, CREATE | ACK, family, 0)
        .with(1, &[&text(table)])
        .with(3, &[&text(chain)]);
    message.append(&nested(4, &at));
    message.with(7, &[&text("filter")]).done()
}

fn new_rule(family: u8, [table, chain]: [&str; 2], expressions: &[Vec<u8>]) -> Vec<u8> {
    let mut message = MessageBuilder::new(NEW_RULE, CREATE | APPEND | ACK, family, 0)
        .with(1, &[&text(table)])
        .with(2, &[&text(chain)]);
    message.append(&nested(4, expressions));
    message.done()
}

/// Loads the interface's name, compares it, and passes the packet to the queue.
fn expressions(naming: Naming, taken: &Taken, name: u32, queue: u16) -> [Vec<u8>; 3] {
    const REGISTER: u32 = 1;
    const IS: u32 = 0;
    const IS_NOT: u32 = 1;
    const GOES_ON: u16 = 1;
    let register = REGISTER.to_be_bytes();
    let read = expression("meta", &[attribute(1, &register), attribute(2, &name.to_be_bytes())]);
    let (how, interface) = match taken {
        Taken::Of(interface) => (IS, &interface[..]),
        Taken::OfAll => (IS_NOT, "lo"),
    };
    let mut value = text(interface);
    value.resize(NAME, 0);
    let compare = expression(
        "cmp",
        &[
            attribute(1, &register),
            attribute(2, &how.to_be_bytes()),
            nested(3, &[attribute(1, &value)]),
        ],
    );
    let give = match naming {
        Naming::Expression => expression(
            "queue",
            &[
                attribute(1, &queue.to_be_bytes()),
                attribute(2, &1_u16.to_be_bytes()),
                attribute(3, &GOES_ON.to_be_bytes()),
            ],
        ),
        Naming::Target => {
            /// The revision of the iptables target that supports flags.
            const VERSION: u32 = 3;
            let info = [queue, 1, GOES_ON, 0].map(u16::to_ne_bytes).concat();
            expression(
                "target",
                &[
                    attribute(1, &text("NFQUEUE")),
                    attribute(2, &VERSION.to_be_bytes()),
                    attribute(3, &info),
                ],
            )
        }
    };
    [read, compare, give]
}
