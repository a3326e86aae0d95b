//! The way out: from the far side of a sandbox to the Internet.
//!
//! ```text
//! near - falaj0 ==link== falaj0 - far, a router - out0 - pasta, slirp4netns or host - the world
//! ```
//!
//! | way | needs | changes on the host |
//! |---|---|---|
//! | `pasta` | the program (package `passt`), no privilege | nothing |
//! | `slirp4netns` | the program, no privilege | nothing |
//! | the host | `CAP_NET_ADMIN`; `nft` or `iptables` | an interface; a table (nft) or rule (iptables) for it; forwarding; rules that accept its packets where the chain `FORWARD` drops |
//!
//! A separate process, the caretaker, is responsible for the started program or the changes to the
//! host. When the caller closes the way out or ends, even by SIGKILL, the caretaker ends the
//! program or undoes the changes. Then the caretaker ends too.

mod host;
mod owners;
mod user_mode;

use crate::link_end::{End, Subnet};
use crate::process;
use crate::sandbox::{NAT_INTERFACE, Sandbox};
use caps::{CapSet, Capability};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fmt};

/// The address of the DNS server behind a user-mode stack, if the caller's own resolver is on its
/// loopback interface; the stack passes queries on to that resolver. No link uses 10.77.254.0/24.
const NAMES: Ipv4Addr = Ipv4Addr::new(10, 77, 254, 3);
/// The network between the far side and a user-mode stack. It is not the host's network: if the far
/// side had the host's own address, packets for the host would not reach the stack.
const OWN_NET: &str = "10.77.254.0/24";
/// The far side's address in that network, and the address of its next router.
const OWN: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 254, 100), Ipv4Addr::new(10, 77, 254, 2)];

/// The time within which a way out must be ready.
const PATIENCE: Duration = Duration::from_secs(3);

/// A method for the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatMethod {
    /// By `pasta`, at this path.
    Pasta(PathBuf),
    /// By `slirp4netns`, at this path.
    Slirp4netns(PathBuf),
    /// Through the host, translating addresses.
    Host(Translator),
}

/// A program that translates addresses on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Translator {
    /// `nft`, at this path.
    Nft(PathBuf),
    /// `iptables`, at this path.
    Iptables(PathBuf),
}

impl fmt::Display for NatMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NatMethod::Pasta(_) => "pasta",
            NatMethod::Slirp4netns(_) => "slirp4netns",
            NatMethod::Host(Translator::Nft(_)) => "the host (nft)",
            NatMethod::Host(Translator::Iptables(_)) => "the host (iptables)",
        })
    }
}

impl NatMethod {
    /// Returns true if the method is a program that acts for the far side through its own sockets.
    pub fn is_user_mode(&self) -> bool {
        !matches!(self, NatMethod::Host(_))
    }
}

/// The configured choice of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatChoice {
    /// A method that changes nothing outside of the sandbox, if one is available.
    Auto,
    /// `pasta`.
    Pasta,
    /// `slirp4netns`.
    Slirp4netns,
    /// The host.
    Host,
    /// No way out.
    None,
}

/// The path of a program, in `PATH` or in root's directories of programs.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    places.map(|place| place.join(program)).find(|file| file.is_file())
}

fn may_configure() -> bool {
    caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap_or(false)
}

/// Returns true if this process is at an end of another link: its network is a sandbox, which is
/// removed when that link ends.
fn is_inside() -> bool {
    let own = env::var("FALAJ_ADDR").ok().and_then(|address| address.parse::<Ipv4Addr>().ok());
    let mut interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    own.is_some_and(|own| {
        interfaces
            .any(|i| i.address.is_some_and(|a| a.as_sockaddr_in().map(|a| a.ip()) == Some(own)))
    })
}

/// The available methods, best first, for a sandbox with or without its own user namespace.
///
/// # Errors
/// A method that was chosen by name is not available; the error has the reason and a remedy.
pub fn ways(wish: NatChoice, own_users: bool) -> Result<Vec<NatMethod>, String> {
    let pasta = || find("pasta").map(NatMethod::Pasta);
    let slirp = || find("slirp4netns").map(NatMethod::Slirp4netns);
    let translator = || {
        let nft = find("nft").map(Translator::Nft);
        nft.or_else(|| find("iptables").map(Translator::Iptables)).map(NatMethod::Host)
    };
    let one =
        |way: Option<NatMethod>, why: &str| way.map(|way| vec![way]).ok_or_else(|| why.to_owned());
    match wish {
        NatChoice::None => Ok(Vec::new()),
        NatChoice::Pasta => one(pasta(), "there is no `pasta` here: apt install passt"),
        NatChoice::Slirp4netns => {
            one(slirp(), "there is no `slirp4netns` here: apt install slirp4netns")
        }
        NatChoice::Host if !may_configure() => {
            Err("the way out through the host needs root (CAP_NET_ADMIN)".into())
        }
        NatChoice::Host => {
            one(translator(), "there is neither `nft` nor `iptables` here: apt install nftables")
        }
        NatChoice::Auto => {
            // If this process runs inside another link, "the host" is only its side of that
            // link, so nothing outside of that link is changed.
            let host = translator().filter(|_| may_configure() && is_inside());
            let mut stacks = vec![pasta(), slirp()];
            // pasta is faster, but gives up root's privileges before it opens a namespace that
            // belongs to root.
            if nix::unistd::Uid::effective().is_root() && !own_users {
                stacks.reverse();
            }
            Ok(host.into_iter().chain(stacks.into_iter().flatten()).collect())
        }
    }
}

/// The advice to enable a way out, if none is available.
pub const HOW_TO: &str = "install pasta (apt install passt) or slirp4netns (apt install slirp4netns); root may also use --internet host";

/// The contents of `/etc/resolv.conf` behind a link with this way out; `None` if the caller's own
/// file is used, because it is suitable or there is no better one.
pub fn resolver(way: &NatMethod) -> Option<String> {
    /// The file in which systemd keeps the servers that its own resolver queries.
    const BEHIND: &str = "/run/systemd/resolve/resolv.conf";
    let own = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    if servers(&own).any(|server| !server.is_loopback()) {
        return None;
    }
    if let NatMethod::Host(_) = way {
        return fs::read_to_string(BEHIND)
            .ok()
            .filter(|text| servers(text).any(|server| !server.is_loopback()));
    }
    let kept = own.lines().filter(|line| line.starts_with("search") || line.starts_with("domain"));
    Some(kept.map(|line| format!("{line}\n")).chain([format!("nameserver {NAMES}\n")]).collect())
}

fn servers(text: &str) -> impl Iterator<Item = IpAddr> + '_ {
    text.lines().filter_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse().ok())
}

/// A way out, open until it is dropped.
#[derive(Debug)]
pub struct Nat {
    caretaker: process::Cloned,
    /// Closing this pipe is the signal for the caretaker to close the way out.
    held: Option<OwnedFd>,
    way: NatMethod,
}

/// A resource for which the caretaker is responsible.
trait Caretaker {
    /// Opens the way out; the error is a message.
    fn open(&mut self) -> Result<(), String>;
    /// The reason why the way out has ended by itself, if it has.
    fn over(&mut self) -> Option<String>;
    /// A descriptor that the caretaker needs, if there is one.
    fn descriptor(&self) -> Option<RawFd>;
    /// Undoes all changes made so far.
    fn close(&mut self);
}

impl Nat {
    /// Opens the first of these methods that succeeds; the sandbox's far side must be a
    /// [router](crate::sandbox::SandboxSpec::routes).
    ///
    /// The process must be single-threaded, and the commands must not have been started.
    ///
    /// # Errors
    /// The reasons why none succeeded, as a message.
    pub fn open(sandbox: &Sandbox, ways: &[NatMethod]) -> Result<Nat, String> {
        let mut why = Vec::new();
        for way in ways {
            match Nat::by(sandbox, way) {
                Ok(out) => return Ok(out),
                Err(error) => why.push(format!("{way}: {error}")),
            }
        }
        // These programs open a TUN device. If that is denied, their messages suggest no remedy.
        if let Some(error) =
            ways.iter().any(NatMethod::is_user_mode).then(|| sandbox.no_tap()).flatten()
        {
            why.push(error.to_string());
        }
        Err(why.join("; "))
    }

    fn by(sandbox: &Sandbox, way: &NatMethod) -> Result<Nat, String> {
        let far = FarSide {
            pid: sandbox.pid(End::Far),
            own_users: sandbox.has_own_users(),
            subnet: sandbox.subnet(),
        };
        let mut care: Box<dyn Caretaker> = match way {
            NatMethod::Pasta(program) => Box::new(user_mode::UserMode::pasta(program, &far)?),
            NatMethod::Slirp4netns(program) => {
                Box::new(user_mode::UserMode::slirp4netns(program, &far))
            }
            NatMethod::Host(translator) => Box::new(host::HostNat::new(translator, &far)?),
        };
        let pipe = |e: std::io::Error| format!("cannot make a pipe: {e}");
        let (theirs, ours) = std::io::pipe().map_err(pipe)?;
        let (mut news, say) = std::io::pipe().map_err(pipe)?;
        let (theirs, held): (OwnedFd, OwnedFd) = (theirs.into(), ours.into());
        let say = File::from(OwnedFd::from(say));
        let body = || {
            // A copy of the caller's end would keep the pipe open for ever, and copies of the TAPs
            // would keep the link open.
            let mut keep = vec![theirs.as_raw_fd(), say.as_raw_fd()];
            keep.extend(care.descriptor());
            process::close_all_but(&mut keep);
            watch(care.as_mut(), &theirs, &say);
            0
        };
        let caretaker = process::clone_process(CloneFlags::empty(), body)
            .map_err(|e| format!("cannot fork: {e}"))?;
        drop((theirs, say));
        let out = Nat { caretaker, held: Some(held), way: way.clone() };
        let mut word = [0];
        match news.read(&mut word) {
            Ok(1) if word == *b"+" => {}
            Ok(1) => {
                let mut why = String::new();
                let _ = news.read_to_string(&mut why);
                return Err(why);
            }
            _ => return Err("its helper process has ended".into()),
        }
        if let NatMethod::Host(_) = way {
            sandbox.configure_way_out().map_err(|error| error.to_string())?;
        }
        let began = Instant::now();
        while !has_default_route(far.pid) {
            if out.is_over() {
                let mut why = String::new();
                let _ = news.read_to_string(&mut why);
                return Err(if why.is_empty() { "the program ended at once".into() } else { why });
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("it was not ready within {PATIENCE:?}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if let NatMethod::Slirp4netns(_) = way {
            // slirp4netns sends ARP requests for the near side's address.
            sandbox.answer_at_once().map_err(|error| error.to_string())?;
        }
        Ok(out)
    }

    /// The method.
    pub fn way(&self) -> &NatMethod {
        &self.way
    }

    /// Returns true if the caretaker has ended.
    fn is_over(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let status = waitid(Id::PIDFd(self.caretaker.pidfd.as_fd()), flags);
        !matches!(status, Ok(nix::sys::wait::WaitStatus::StillAlive))
    }
}

impl Drop for Nat {
    /// Waits until the host is restored. Does not wait for the end of a program: the kernel takes
    /// tens of milliseconds to remove its interface.
    fn drop(&mut self) {
        self.held = None;
        if let NatMethod::Host(_) = self.way {
            let exited = || waitid(Id::PIDFd(self.caretaker.pidfd.as_fd()), WaitPidFlag::WEXITED);
            while exited() == Err(nix::errno::Errno::EINTR) {}
        }
    }
}

/// The properties of the far side that a way out needs.
struct FarSide {
    pid: i32,
    own_users: bool,
    subnet: Subnet,
}

impl FarSide {
    fn namespace(&self, kind: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join("ns").join(kind)
    }
}

/// Returns true if the far side has a default route through the way out.
fn has_default_route(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/net/route")).unwrap_or_default();
    text.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(NAT_INTERFACE) && words.next() == Some("00000000")
    })
}

/// The main function of the caretaker: opens the way out, reports that, and closes the way out when
/// the caller has closed its pipe.
fn watch(care: &mut dyn Caretaker, held: &OwnedFd, mut say: &File) {
    // Signals of the terminal (Ctrl-C, hangup) are for other processes: this process ends when the
    // pipe is closed.
    let _ = nix::unistd::setsid();
    if let Err(why) = care.open() {
        care.close();
        let _ = write!(say, "-{why}");
        return;
    }
    // If the reader is gone, the loop below sees the end of the other pipe.
    let _ = say.write_all(b"+");
    let began = Instant::now();
    loop {
        // A program that fails does so at the beginning, so it is watched only then.
        let early = began.elapsed() < PATIENCE;
        let look = if early { PollTimeout::from(5u8) } else { PollTimeout::NONE };
        let mut waiting = [PollFd::new(held.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, look) {
            Ok(0) => {
                if let Some(why) = care.over() {
                    let _ = say.write_all(why.as_bytes());
                    break;
                }
            }
            Err(_) => {}
            Ok(_) => break,
        }
    }
    care.close();
}
