//! The system calls about interfaces that several backends share and that need `unsafe`, each in
//! the smallest safe-to-use wrapper.
#![allow(unsafe_code)]

use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc::{self, c_int, c_uint, c_ulong};

/// Queries a property of an interface, by name, in the network namespace of the socket.
fn request(socket: BorrowedFd<'_>, name: &str, what: libc::Ioctl) -> Result<libc::ifreq, Errno> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(Errno::ENODEV);
    }
    // SAFETY: a zeroed ifreq is a valid one, without a name.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the callers name requests that read and write an ifreq, which outlives the call.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) })?;
    Ok(request)
}

/// The number of an interface.
pub(crate) fn index(socket: BorrowedFd<'_>, name: &str) -> Result<c_int, Errno> {
    let answer = request(socket, name, libc::SIOCGIFINDEX as libc::Ioctl)?;
    // SAFETY: the kernel has written this member; every bit pattern is a number.
    Ok(unsafe { answer.ifr_ifru.ifru_ifindex })
}

/// The name of an interface, by its number, in the network namespace of the socket.
pub(crate) fn name(socket: BorrowedFd<'_>, index: c_int) -> Result<String, Errno> {
    // SAFETY: a zeroed ifreq is a valid one, without a name.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = index;
    let what = libc::SIOCGIFNAME as libc::Ioctl;
    // SAFETY: the request reads and writes an ifreq, which outlives the call.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) })?;
    let bytes = request.ifr_name.iter().map(|&byte| byte as u8);
    let name: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    // A name may have any bytes; a name that is not UTF-8 is never requested here.
    String::from_utf8(name).map_err(|_| Errno::EILSEQ)
}

/// An interface's flags: `IFF_UP` and the like.
pub(crate) fn flags(socket: BorrowedFd<'_>, name: &str) -> Result<c_int, Errno> {
    let answer = request(socket, name, libc::SIOCGIFFLAGS as libc::Ioctl)?;
    // SAFETY: as above.
    Ok(unsafe { answer.ifr_ifru.ifru_flags }.into())
}

/// The largest IP packet of an interface, in bytes.
pub(crate) fn mtu(socket: BorrowedFd<'_>, name: &str) -> Result<c_int, Errno> {
    let answer = request(socket, name, libc::SIOCGIFMTU as libc::Ioctl)?;
    // SAFETY: as above.
    Ok(unsafe { answer.ifr_ifru.ifru_mtu })
}

/// An interface's Ethernet address. `name` may be empty if `socket` is the descriptor of a TAP,
/// which identifies its interface.
pub(crate) fn mac(socket: BorrowedFd<'_>, name: &str) -> Result<[u8; 6], Errno> {
    let answer = request(socket, name, libc::SIOCGIFHWADDR as libc::Ioctl)?;
    // SAFETY: as above.
    let all = unsafe { answer.ifr_ifru.ifru_hwaddr.sa_data };
    Ok(std::array::from_fn(|n| all[n] as u8))
}

nix::ioctl_write_int!(tun_set_iff, b'T', 202);
nix::ioctl_write_int!(tun_set_persist, b'T', 203);
nix::ioctl_write_int!(tun_set_offload, b'T', 208);
nix::ioctl_write_ptr!(tun_set_vnet_header_size, b'T', 216, c_int);
nix::ioctl_write_ptr!(tun_set_vnet_le, b'T', 220, c_int);

/// Makes the kernel pass only units of one packet to this TAP; checksums may still be unfinished.
pub(crate) fn tap_without_tso(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the argument is a number.
    unsafe { tun_set_offload(fd.as_raw_fd(), c_ulong::from(libc::TUN_F_CSUM)) }.map(drop)
}

/// Turns a new descriptor of `/dev/net/tun` into the TAP interface `name` with a virtio-net header.
/// A TAP that `stays` when its descriptor is closed may exist already.
pub(crate) fn tap_configure(
    fd: BorrowedFd<'_>,
    name: &str,
    header: c_int,
    tso: bool,
    stays: bool,
) -> Result<(), Errno> {
    assert!(
        name.len() < libc::IFNAMSIZ,
        "an interface's name is shorter than {} bytes",
        libc::IFNAMSIZ
    );
    // SAFETY: a zeroed ifreq is a valid one, without a name.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let new = if stays { 0 } else { libc::IFF_TUN_EXCL };
    let kind = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | new;
    request.ifr_ifru.ifru_flags = kind as libc::c_short;
    // From linux/if_tun.h since Linux 6.2: UDP in units of many datagrams, for IPv4 and IPv6; the
    // kernel accepts both flags or none.
    const TUN_F_USO: c_uint = 0x20 | 0x40;
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    let offloads: &[c_uint] = if tso { &[tcp | TUN_F_USO, tcp] } else { &[libc::TUN_F_CSUM] };
    let fd = fd.as_raw_fd();
    // SAFETY: TUNSETIFF is declared as taking an int and in fact takes the address of an ifreq; it,
    // and the two ints, outlive their calls.
    unsafe {
        tun_set_iff(fd, &raw mut request as c_ulong)?;
        tun_set_vnet_header_size(fd, &raw const header)?;
        tun_set_vnet_le(fd, &1)?;
        let set = |&offload: &c_uint| tun_set_offload(fd, c_ulong::from(offload));
        if stays {
            tun_set_persist(fd, 1)?;
        }
        offloads[1..]
            .iter()
            .fold(set(&offloads[0]), |done, offload| done.or_else(|_| set(offload)))?;
    }
    Ok(())
}
