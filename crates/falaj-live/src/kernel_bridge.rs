//! Interfaces joined by the kernel's own bridge while no forwarder runs between them.

use crate::sandbox::netlink::Netlink;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use std::io;

fn index(name: &str) -> io::Result<u32> {
    if_nametoindex(name).map_err(|errno| {
        io::Error::new(io::Error::from(errno).kind(), format!("interface {name}: {errno}"))
    })
}

/// Makes these interfaces ports of the bridge of this name, which is created if it does not exist.
/// Frames pass from then on, without guarantees.
///
/// # Errors
/// The bridge is not available; or an interface cannot be joined, and the others are joined all the
/// same.
pub fn plug(bridge: &str, interfaces: &[String]) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    match netlink.add_bridge(bridge) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let master = index(bridge)?;
    netlink.up(master)?;
    let mut join = |name: &String| -> io::Result<()> {
        let port = index(name)?;
        netlink.add_to_bridge(port, master)?;
        Ok(netlink.up(port)?)
    };
    // The first error is returned, and does not keep the other interfaces from being joined.
    let joined: Vec<io::Result<()>> = interfaces.iter().map(&mut join).collect();
    joined.into_iter().collect()
}

/// Removes these interfaces from the bridge that they are in, if any.
///
/// # Errors
/// The kernel does not remove an interface; the others are removed all the same.
pub fn unplug(interfaces: &[String]) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let mut leave = |name: &String| match if_nametoindex(&**name) {
        // Controller 0: no bridge.
        Ok(port) => Ok(netlink.add_to_bridge(port, 0)?),
        // An interface that is gone is in no bridge.
        Err(_) => Ok(()),
    };
    let left: Vec<io::Result<()>> = interfaces.iter().map(&mut leave).collect();
    left.into_iter().collect()
}
