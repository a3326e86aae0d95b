//! Interfaces by name, in this network namespace or another one.

use std::fmt;
use std::os::fd::OwnedFd;
use std::str::FromStr;

use nix::errno::Errno;

use super::{Monitor, PacketSocket, claim};
use crate::error::{Error, Step};
use crate::netns::made_in;

/// An interface: `eth0`, or one of another network namespace, `eth0@NETNS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The interface.
    pub interface: String,
    /// A name under `/run/netns`, or the number of a process in that namespace; `None` is where
    /// the caller is.
    pub namespace: Option<String>,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let (interface, namespace) = match text.rsplit_once('@') {
            Some((interface, namespace)) => (interface, Some(namespace)),
            None => (text, None),
        };
        // As the kernel has it, and a file's name.
        let name_is_wrong = |name: &str| {
            name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".."
        };
        if name_is_wrong(interface) || interface.len() >= nix::libc::IFNAMSIZ {
            return Err("write an interface's name, such as `eth0`".into());
        }
        if namespace.is_some_and(name_is_wrong) {
            return Err(
                "write `IF@NETNS`: a name under /run/netns, or the number of a process".into()
            );
        }
        Ok(Place { interface: interface.to_owned(), namespace: namespace.map(str::to_owned) })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.interface)?;
        match &self.namespace {
            Some(namespace) => write!(f, "@{namespace}"),
            None => Ok(()),
        }
    }
}

/// Opens a packet socket at an interface, and what tells of changes there. The interface is
/// `promiscuous` (takes frames for Ethernet addresses that are not its own) until the socket is
/// dropped.
///
/// Another network namespace is entered by a copy of the process, which must have one thread only.
/// A namespace whose users are somebody else's is entered together with that user namespace:
/// whoever made it may do that without being root.
///
/// # Errors
/// Says which step failed, why, and what to try.
pub fn open(place: &Place, promiscuous: bool) -> Result<(PacketSocket, Monitor), Error> {
    let failed = |(step, errno)| Error::new(step, None, errno);
    let made = made_in(place.namespace.as_deref(), || claimed(&place.interface, promiscuous))?;
    take_over(made, &place.interface, promiscuous).map_err(failed)
}

/// A packet socket, what tells of changes, and the claim that nobody else forwards there, in the
/// network namespace that the process is in now.
pub(crate) fn claimed(interface: &str, promiscuous: bool) -> Result<Vec<OwnedFd>, (Step, Errno)> {
    // The monitor first: what happens from here on is told.
    let monitor = Monitor::make().map_err(|errno| (Step::Netlink, errno))?;
    let socket = PacketSocket::make(interface, promiscuous)?;
    Ok(vec![socket, monitor, claim(interface)?])
}

/// Takes over what [`claimed`] made, be it in another process.
pub(crate) fn take_over(
    made: Vec<OwnedFd>,
    interface: &str,
    promiscuous: bool,
) -> Result<(PacketSocket, Monitor), (Step, Errno)> {
    let [socket, monitor, claim] =
        <[OwnedFd; 3]>::try_from(made).map_err(|_| (Step::EnterNamespace, Errno::EPROTO))?;
    let socket = PacketSocket::adopt(socket, interface, promiscuous)?;
    Ok((socket.claimed(claim), Monitor::adopt(monitor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_may_be_in_another_namespace() {
        let place = |text: &str| text.parse::<Place>().map(|p| (p.interface, p.namespace));
        let is = |interface: &str, namespace: Option<&str>| {
            Ok((interface.to_owned(), namespace.map(str::to_owned)))
        };
        assert_eq!(place("eth0"), is("eth0", None));
        assert_eq!(place("eth0@blue"), is("eth0", Some("blue")));
        assert_eq!(place("a@b@4711"), is("a@b", Some("4711")));
        for wrong in ["", "@blue", "eth0@", "eth0@../blue", "eth0@..", "a/b", "sixteen-letters-"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
        for text in ["eth0", "eth0@blue"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
    }
}
