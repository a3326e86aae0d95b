//! Attachment to interfaces in use, whose packets stay on their own path: firewall rules put the
//! packets that the interfaces send into one queue, and those that they receive into another.
//! Addresses, routes and connections do not change. The rules belong to a descriptor, and are
//! removed with it.

use super::table::{self, Taken};
use super::{Nfqueue, take_queue};
use crate::error::{Error, SetupStep};
use crate::netns::made_in;
use crate::{process, sys};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// The interfaces of a network namespace to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A name under `/run/netns` or the ID of a process; `None`: this namespace.
    pub namespace: Option<String>,
    /// The interface; `None`: all but the loopback interface.
    pub interface: Option<String>,
}

/// A set of interfaces in use whose packets are queued as long as this value exists.
#[derive(Debug)]
pub struct Attached {
    /// The queue of packets that the interfaces send, and the queue of packets that they receive.
    pub queues: [Rc<Nfqueue>; 2],
    /// The largest IP packet of the interfaces, in bytes.
    pub mtu: u32,
    /// The names of the interfaces.
    pub interfaces: Vec<String>,
    _rules: OwnedFd,
    process: Option<OwnedFd>,
}

impl Attached {
    /// Attaches to these interfaces. Packets pass, instead of being dropped, if a queue has no room
    /// for them or is closed while it holds them. The process must be single-threaded if the
    /// namespace is another one.
    ///
    /// # Errors
    /// The step that failed, its cause, and a remedy.
    pub fn open(target: &Target) -> Result<Attached, Error> {
        let namespace = target.namespace.as_deref();
        let failed = |step| move |errno| Error::new(step, None, errno);
        let made = made_in(namespace, || {
            let read = File::open("/proc/self/net/dev");
            let read = read.map_err(|_| (SetupStep::FindInterface, Errno::ENOENT))?;
            let (family, flags) = (AddressFamily::Inet, SockFlag::SOCK_CLOEXEC);
            let ask = socket(family, SockType::Datagram, flags, None)
                .map_err(|errno| (SetupStep::Sockets, errno))?;
            Ok(vec![read.into(), ask])
        })?;
        let [list, ask] = <[OwnedFd; 2]>::try_from(made)
            .map_err(|_| Error::new(SetupStep::HandOver, None, Errno::EPROTO))?;
        let (interfaces, mtu) = interfaces(target, File::from(list), ask.as_fd())?;
        let taken = target.interface.clone().map_or(Taken::OfAll, Taken::Of);
        let process = namespace.and_then(|namespace| namespace.parse().ok());
        let process = process.map(process::pidfd_open).transpose();
        let process = process.map_err(failed(SetupStep::EnterNamespace))?;
        let (numbers, [up, down, rules, counts]) = take(namespace, &taken)?;
        let counts = Rc::new(File::from(counts));
        let queue = |socket, number| {
            Rc::new(Nfqueue::adopt(socket, number, true, Some(Rc::clone(&counts))))
        };
        Ok(Attached {
            queues: [queue(up, numbers[0]), queue(down, numbers[1])],
            mtu,
            interfaces,
            _rules: rules,
            process,
        })
    }

    /// A descriptor that is readable when the process that names the namespace has ended; `None` if
    /// the namespace was not given by the ID of a process.
    pub fn ended(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(AsFd::as_fd)
    }
}

/// The names of the target's interfaces, and their largest IP packet in bytes.
fn interfaces(
    target: &Target,
    mut list: File,
    ask: BorrowedFd<'_>,
) -> Result<(Vec<String>, u32), Error> {
    let mut text = String::new();
    let no_such = |_| Error::new(SetupStep::FindInterface, None, Errno::ENODEV);
    list.read_to_string(&mut text).map_err(|error| no_such(error.kind()))?;
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    let is_meant = |name: &String| match &target.interface {
        Some(interface) => name == interface,
        None => name != "lo",
    };
    let names: Vec<String> = names.filter(is_meant).collect();
    let mtus = names.iter().filter_map(|name| u32::try_from(sys::mtu(ask, name).ok()?).ok());
    let mtu = mtus.max().ok_or(Error::new(SetupStep::FindInterface, None, Errno::ENODEV))?;
    Ok((names, mtu))
}

/// Binds two free queues; returns their numbers and four descriptors: their two sockets, the rules,
/// and the file of the kernel's counters.
fn take(namespace: Option<&str>, taken: &Taken) -> Result<([u16; 2], [OwnedFd; 4]), Error> {
    /// The first number that is tried, and the number of pairs.
    const FIRST: u16 = 0xfa00;
    const PAIRS: u16 = 64;
    let mut refused = None;
    for pair in 0..PAIRS {
        let numbers = [FIRST + 2 * pair, FIRST + 2 * pair + 1];
        let made = made_in(namespace, || {
            let queue = |number| {
                take_queue(number, true).map_err(|error| {
                    let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
                    (SetupStep::FirewallQueue, errno)
                })
            };
            let mut made = vec![queue(numbers[0])?, queue(numbers[1])?];
            let rules = table::make(taken, numbers);
            made.push(rules.map_err(|errno| (SetupStep::FirewallRules, errno))?);
            let counts = File::open("/proc/self/net/netfilter/nfnetlink_queue");
            made.push(counts.map_err(|_| (SetupStep::FirewallQueue, Errno::ENOENT))?.into());
            Ok(made)
        });
        match made {
            Ok(made) => {
                let made = <[OwnedFd; 4]>::try_from(made);
                let made =
                    made.map_err(|_| Error::new(SetupStep::HandOver, None, Errno::EPROTO))?;
                return Ok((numbers, made));
            }
            // Another process has the queue, or this process lacks the privilege.
            Err(error) if error.step == SetupStep::FirewallQueue => refused = Some(error),
            Err(error) => return Err(error),
        }
        if pair == 0 && refused.as_ref().is_some_and(|error| !is_taken(namespace, error)) {
            break;
        }
    }
    Err(refused.unwrap_or(Error::new(SetupStep::FirewallQueue, None, Errno::EBUSY)))
}

/// Returns true if a queue was refused because another process has it, not because the privilege is
/// missing. Without the privilege a rarely used queue is refused too.
fn is_taken(namespace: Option<&str>, error: &Error) -> bool {
    /// A number that is rarely used.
    const LAST: u16 = u16::MAX;
    error.errno == Errno::EBUSY as i32
        || made_in(namespace, || {
            let free = take_queue(LAST, true).map_err(|_| (SetupStep::FirewallQueue, Errno::EPERM));
            Ok(vec![free?])
        })
        .is_ok()
}
