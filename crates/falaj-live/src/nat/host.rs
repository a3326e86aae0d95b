//! The way out to the Internet through the host: a pair of interfaces, a return route, forwarding,
//! and the translation of addresses.
//!
//! The interface and the nft table are named `falaj-N`, where N is the link's number, so that links
//! do not disturb each other. Each link is registered as an owner of the host's forwarding
//! ([`Owners`](super::owners::Owners)). The last owner switches forwarding off if the first owner
//! has switched it on. Each new link undoes the changes that killed links have left.

use super::owners::{Owner, Owners};
use super::{Caretaker, FarSide, Translator};
use crate::link_end::Subnet;
use crate::sandbox::NAT_INTERFACE;
use crate::sandbox::netlink::{Netlink, NetlinkInterface};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use std::fs::{self, File};
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
/// The prefix of the names of falaj's interfaces and tables on the host.
const PREFIX: &str = "falaj-";
const QUEUE: u32 = 1000;

pub(super) struct HostNat {
    translator: Translator,
    iptables: Option<PathBuf>,
    name: String,
    subnet: Subnet,
    namespace: File,
    /// The index of the host's interface, once it is made. This field and the next three record the
    /// changes that have to be undone.
    interface: Option<u32>,
    translated: bool,
    owner: Option<Owner>,
    accepted: Vec<Vec<String>>,
}

impl HostNat {
    pub(super) fn new(translator: &Translator, far: &FarSide) -> Result<HostNat, String> {
        let path = far.namespace("net");
        Ok(HostNat {
            translator: translator.clone(),
            iptables: super::find("iptables"),
            name: format!("{PREFIX}{}", far.subnet.number()),
            subnet: far.subnet,
            namespace: File::open(&path)
                .map_err(|e| format!("cannot open {}: {e}", path.display()))?,
            interface: None,
            translated: false,
            owner: None,
            accepted: Vec::new(),
        })
    }

    /// The link's IPv4 prefix, as rules state it.
    fn net(&self) -> String {
        net(self.subnet.number())
    }

    fn interfaces(&mut self) -> Result<(), String> {
        let failed = |what: &'static str| move |e: Errno| format!("cannot {what}: {}", e.desc());
        let mac = |n| [0x02, 0xfa, 0x1a, 1, self.subnet.number(), n];
        let interface =
            |name, n| NetlinkInterface { name, mac: mac(n), mtu: 1500, queue: QUEUE, large: true };
        let mut netlink = Netlink::open().map_err(failed("open a netlink socket"))?;
        netlink
            .add_veth(interface(&self.name, 1), interface(NAT_INTERFACE, 2), self.namespace.as_fd())
            .map_err(failed("make a pair of veth interfaces"))?;
        let index = if_nametoindex(&*self.name).map_err(failed("find the interface"))?;
        self.interface = Some(index);
        let [far, own] = self.subnet.way_out();
        netlink.up(index).map_err(failed("bring the interface up"))?;
        netlink
            .add_address(index, own.into(), 30)
            .map_err(failed("set the interface's address"))?;
        let net = Ipv4Addr::new(10, 77, self.subnet.number(), 0);
        netlink.add_route(index, (net.into(), 24), far.into()).map_err(failed("set the route back"))
    }

    /// Undoes the changes that killed links have left, then switches forwarding on if it is off.
    fn forward(&mut self) -> Result<(), String> {
        let failed = |e| format!("cannot switch forwarding on: {e}");
        let mut owners = Owners::open().map_err(failed)?;
        for number in owners.dead().map_err(failed)? {
            self.undo(number);
            owners.remove(number).map_err(failed)?;
        }
        let is_on = fs::read_to_string(FORWARD).map_err(failed)?.trim() != "0";
        let number = self.subnet.number();
        self.owner = Some(owners.join(number, !is_on).map_err(failed)?);
        if !is_on {
            fs::write(FORWARD, "1").map_err(failed)?;
        }
        Ok(())
    }

    /// Undoes the changes that a link of this number has left, if there are any.
    fn undo(&self, number: u8) {
        let name = format!("{PREFIX}{number}");
        let _ = match &self.translator {
            Translator::Nft(nft) => run(nft, &["delete", "table", "ip", &name], ""),
            Translator::Iptables(iptables) => {
                run(iptables, &words("-D", &rule(&net(number), &name)), "")
            }
        };
        if let Some(iptables) = &self.iptables {
            for way in ["-i", "-o"] {
                let _ = run(iptables, &words("-D", &accepts(way, &name)), "");
            }
        }
    }

    fn translate(&mut self) -> Result<(), String> {
        let (name, net) = (&self.name, self.net());
        match &self.translator {
            Translator::Nft(nft) => {
                // The rules add the table before they delete it, so that the deletion cannot fail.
                let rules = format!(
                    "add table ip {name}\ndelete table ip {name}\ntable ip {name} {{\n chain out \
                     {{\n  type nat hook postrouting priority srcnat;\n  ip saddr {net} oifname != \
                     \"{name}\" masquerade\n }}\n}}\n"
                );
                run(nft, &["-f", "-"], &rules)?;
            }
            Translator::Iptables(iptables) => {
                let rule = self.rule();
                if run(iptables, &words("-C", &rule), "").is_err() {
                    run(iptables, &words("-A", &rule), "")?;
                }
            }
        }
        self.translated = true;
        Ok(())
    }

    /// The translation as an iptables rule.
    fn rule(&self) -> Vec<String> {
        rule(&self.net(), &self.name)
    }

    /// Accepts forwarding for the link on a host that drops forwarded packets by default (as with
    /// Docker).
    fn accept(&mut self) {
        let Some(iptables) = self.iptables.clone() else { return };
        let policy =
            Command::new(&iptables).args(["-w", "-S", "FORWARD"]).stderr(Stdio::null()).output();
        if !policy.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("-P FORWARD DROP"))
        {
            return;
        }
        for way in ["-i", "-o"] {
            let rule = accepts(way, &self.name);
            if run(&iptables, &words("-I", &rule), "").is_ok() {
                self.accepted.push(rule);
            }
        }
    }
}

/// The IPv4 prefix of the link of this number.
fn net(number: u8) -> String {
    format!("{}/24", Ipv4Addr::new(10, 77, number, 0))
}

fn rule(net: &str, name: &str) -> Vec<String> {
    let rule = format!("POSTROUTING -t nat -s {net} ! -o {name} -j MASQUERADE");
    rule.split_whitespace().map(Into::into).collect()
}

fn accepts(way: &str, name: &str) -> Vec<String> {
    ["FORWARD", way, name, "-j", "ACCEPT"].map(Into::into).into()
}

fn words<'a>(verb: &'a str, rule: &'a [String]) -> Vec<&'a str> {
    ["-w", verb].into_iter().chain(rule.iter().map(String::as_str)).collect()
}

/// Runs a program with this input; an error is the program's message.
fn run(program: &Path, arguments: &[&str], input: &str) -> Result<(), String> {
    let cannot = |e| format!("cannot run {}: {e}", program.display());
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(cannot)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(cannot)?;
    }
    let output = child.wait_with_output().map_err(cannot)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}", program.display(), said.lines().next().unwrap_or("it failed").trim()))
}

impl Caretaker for HostNat {
    fn open(&mut self) -> Result<(), String> {
        self.interfaces()?;
        self.forward()?;
        self.translate()?;
        self.accept();
        Ok(())
    }

    fn over(&mut self) -> Option<String> {
        None
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.namespace.as_raw_fd())
    }

    fn close(&mut self) {
        // An operation that fails here is ignored: what it should remove is already gone.
        if let Some(iptables) = &self.iptables {
            for rule in std::mem::take(&mut self.accepted) {
                let _ = run(iptables, &words("-D", &rule), "");
            }
        }
        if std::mem::take(&mut self.translated) {
            let _ = match &self.translator {
                Translator::Nft(nft) => run(nft, &["delete", "table", "ip", &self.name], ""),
                Translator::Iptables(iptables) => run(iptables, &words("-D", &self.rule()), ""),
            };
        }
        if let Some(index) = self.interface.take() {
            let _ = Netlink::open().and_then(|mut netlink| netlink.remove(index));
        }
        if self.owner.take().is_some_and(Owner::leave) {
            let _ = fs::write(FORWARD, "0");
        }
    }
}
