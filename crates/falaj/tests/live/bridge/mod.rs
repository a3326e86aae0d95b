//! Tests `falaj bridge` between hosts in network namespaces, joined by veth pairs with the kernel's
//! default settings: with offloads.
//!
//! ```text
//! host a [a0] === [a1] falaj bridge [b1] === [b0] host b
//! ```
//!
//! Each case runs in a process of its own (`--case`), which creates a user and a network namespace
//! for itself; the hosts are processes of this program too (`--probe host`). Where namespaces are
//! not allowed, the cases are left out, with a message.

mod device;
mod driver;

use crate::common::{Ran, file, program, signal};
use crate::host::{Host, hex};
use crate::{host, netlink, storm};
use libtest_mimic::{Completion, Trial};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

const CASES: &[(&str, fn())] = &[
    ("tcp_and_udp_pass_with_offloads_on", passes),
    ("a_tagged_frame_keeps_its_tags", tagged),
    ("what_is_longer_than_the_mtu_is_dropped_and_stops_nothing", giants),
    ("hostile_frames_stop_nothing", hostile),
    ("mutated_frames_cost_no_good_one", mutated),
    ("mutated_frames_cost_no_good_one_in_shared_memory", mutated_in_memory),
    ("mutated_frames_of_a_guest_cost_no_good_one", mutated_by_a_guest),
    (MUTATED_IN_QUEUES, mutated_in_queues),
    ("an_interface_that_vanishes_is_told_of_and_taken_again", vanishes),
    ("an_interface_that_is_renamed_is_followed", renamed),
    ("a_burst_that_is_not_read_is_told", unread),
    ("a_storm_of_segments_costs_other_interfaces_nothing", segments),
    ("it_leaves_nothing_behind", leaves_nothing),
    ("interfaces_of_other_namespaces", elsewhere),
    ("interfaces_of_other_users_namespaces", somebody_elses),
    ("two_links_share_memory", shared_memory),
    ("what_cannot_be_is_refused", refused),
    ("interfaces_that_the_kernel_joins_are_refused", loops),
    ("where_there_is_no_xdp_packet_sockets_do_it", no_xdp),
    (QUEUES, queues),
    (ORDER, device::order),
    (REPLAYED, device::replayed),
    (REPLAYED_SLEEPING, device::replayed_sleeping),
];

/// These cases need the command `tc`, and the kernel's token bucket `tbf`.
const ORDER: &str = "what_a_device_paces_stays_in_order_and_whole";
const REPLAYED: &str = "what_a_device_refused_is_in_the_capture_and_is_replayed";
const REPLAYED_SLEEPING: &str = "what_a_device_refused_is_replayed_where_the_loop_sleeps";

/// These cases need the command `iptables`, and the kernel's firewall queues (`NFQUEUE`).
const QUEUES: &str = "packets_of_the_firewalls_queues_are_held_and_go_on";
const MUTATED_IN_QUEUES: &str = "mutated_frames_cost_no_good_one_in_the_firewalls_queues";

/// Cases repeated with AF_XDP, where `falaj doctor` reports it as available: as root, in a network
/// namespace.
const BY_XDP: &[&str] = &[
    "tcp_and_udp_pass_with_offloads_on",
    "hostile_frames_stop_nothing",
    "mutated_frames_cost_no_good_one",
    "an_interface_that_vanishes_is_told_of_and_taken_again",
    "an_interface_that_is_renamed_is_followed",
    "a_storm_of_segments_costs_other_interfaces_nothing",
    "it_leaves_nothing_behind",
    "interfaces_of_other_namespaces",
];

/// Environment variable that sets the `--via` option of a case.
const VIA: &str = "FALAJ_TEST_VIA";

/// Returns the arguments that a case adds to the command.
fn via() -> Vec<String> {
    std::env::var(VIA).map_or(Vec::new(), |via| vec!["--via".into(), via])
}

/// Returns true if a firewall rule can pass packets to a queue.
fn has_queues() -> bool {
    let mut command = Command::new("unshare");
    command.args(["-Urn", "iptables", "-A", "OUTPUT", "-j", "NFQUEUE", "--queue-num", "1"]);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns true if an interface can be given a token bucket.
fn has_token_buckets() -> bool {
    let mut command = Command::new("unshare");
    command.args(["-Urn", "tc", "qdisc", "add", "dev", "lo", "root"]).args(device::TOKEN_BUCKET);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns true if `falaj doctor` reports that AF_XDP works.
fn has_xdp() -> bool {
    let findings =
        Ran::from(program(&["doctor", "--no-measuring", "--json"]).output().expect("it starts"))
            .json();
    let findings = findings["backends"].as_array().expect("a list").clone();
    findings.iter().find(|finding| finding["what"] == "AF_XDP").expect("it is asked for")["works"]
        == true
}

/// Runs the case of this name. Returns true if it exists.
pub(crate) fn case(name: &str) -> bool {
    let case = CASES.iter().find(|case| case.0 == name);
    case.iter().for_each(|case| case.1());
    case.is_some()
}

/// Returns all cases, some of them also with AF_XDP.
pub(crate) fn trials(possible: bool) -> Vec<Trial> {
    let trial = |name: &'static str, via: Option<&'static str>| {
        let title = via.map_or(name.to_owned(), |via| format!("{name}::{via}"));
        crate::trial(possible, title, move || {
            if [QUEUES, MUTATED_IN_QUEUES].contains(&name) && !has_queues() {
                return Ok(Completion::ignored_with("iptables has no NFQUEUE here"));
            }
            if [ORDER, REPLAYED, REPLAYED_SLEEPING].contains(&name) && !has_token_buckets() {
                return Ok(Completion::ignored_with("tc has no tbf here"));
            }
            if via.is_some() && !has_xdp() {
                return Ok(Completion::ignored_with(
                    "there is no AF_XDP here: falaj doctor says why",
                ));
            }
            let me = std::env::current_exe().expect("a path");
            let mut command = Command::new("timeout");
            let seconds = 60 + storm::frames() / 1000;
            command.args([
                "-s",
                "KILL",
                &seconds.to_string(),
                "unshare",
                if via.is_some() { "-n" } else { "-Urn" },
            ]);
            command.arg(me).args(["--case", name]);
            via.map(|via| command.env(VIA, via));
            let output = command.stdin(Stdio::null()).output().expect("it starts");
            if output.status.success() {
                return Ok(Completion::Completed);
            }
            Err(format!("{:?}", Ran::from(output)).replace("\\n", "\n").into())
        })
    };
    let cases = CASES.iter().map(|&(name, _)| trial(name, None));
    cases.chain(BY_XDP.iter().map(|name| trial(name, Some("xdp")))).collect()
}

// ------------------------------------------------------------------------------------------- tools

const A: [&str; 2] = ["10.9.0.1", "fd09::1"];
const B: [&str; 2] = ["10.9.0.2", "fd09::2"];

/// Starts both hosts, each with a veth pair to this namespace.
fn hosts() -> (Host, Host) {
    // The interfaces here need no addresses and should send nothing by themselves. If this cannot
    // be set, their packets do no harm.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let [a, b] = [("a1", "a0", A), ("b1", "b0", B)].map(|(here, there, addresses)| {
        let mut host = Host::start();
        netlink::veth(here, there, host.pid());
        netlink::set_up(here, true);
        host.does(&format!("up {there} {}", addresses.join(" ")));
        host
    });
    (a, b)
}

/// A running bridge.
struct Bridge {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
}

impl Bridge {
    fn start(args: &[&str]) -> Bridge {
        let mut child =
            program(&[&["bridge"], args].concat()).args(via()).spawn().expect("the program starts");
        let said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut bridge = Bridge { child, said };
        // The bridge uses the requested backend: otherwise it would print another message first.
        let first = bridge.said.next().expect("it says something").expect("text");
        assert!(first.starts_with("falaj: forwarding between "), "{first}");
        bridge
    }

    /// Waits for a line that begins with `words`.
    fn says(&mut self, words: &str) {
        let mut before = Vec::new();
        for line in self.said.by_ref() {
            let line = line.expect("text");
            if line.starts_with(words) {
                return;
            }
            before.push(line);
        }
        panic!("never said: {words}, but {before:?}");
    }

    /// Ends the bridge as Ctrl-C does, and returns its remaining output.
    fn end(mut self) -> String {
        assert!(
            self.child.try_wait().expect("a status").is_none(),
            "it must not have ended by itself"
        );
        signal("INT", self.child.id());
        let rest: Vec<String> = self.said.map(|line| line.expect("text")).collect();
        assert_eq!(self.child.wait().expect("a status").code(), Some(0), "{rest:?}");
        rest.join("\n")
    }
}

/// Returns the number in a column of a flow's line of the statistics.
fn count(stats: &str, flow: &str, column: usize) -> u64 {
    let line = stats
        .lines()
        .find(|line| line.trim().starts_with(flow))
        .unwrap_or_else(|| panic!("{stats}"));
    line.trim()[flow.len()..]
        .split_whitespace()
        .nth(column)
        .unwrap_or_else(|| panic!("{line}"))
        .parse()
        .expect("a number")
}
const OFFERED: usize = 0;
const DROPPED: usize = 2;
const LOST: usize = 3;

fn pass_between(a: &mut Host, b: &mut Host, address: &str) {
    b.does(&format!("serve {address}"));
    assert_eq!(a.ask(&format!("ask {address}")), "passed", "{address}");
}

/// Returns an Ethernet frame to an unused address, with these VLAN tags and an Ethernet type
/// reserved for experiments.
fn frame(tags: &[u32], payload: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 0xb0, 0x02, 0, 0, 0, 0, 0xa0];
    tags.iter().for_each(|tag| frame.extend(tag.to_be_bytes()));
    frame.extend(ETHERTYPE.to_be_bytes());
    frame.extend((0..payload).map(|i| i as u8));
    frame
}
const ETHERTYPE: u16 = 0x88b5;

// ------------------------------------------------------------------------------------------- cases

fn passes() {
    let (mut a, mut b) = hosts();
    for flags in [&[][..], &["--delay", "5ms"]] {
        let bridge = Bridge::start(&[&["a1", "b1", "--stats"], flags].concat());
        for address in B {
            pass_between(&mut a, &mut b, address);
        }
        for address in A {
            pass_between(&mut b, &mut a, address);
        }
        let stats = bridge.end();
        assert!(
            count(&stats, "up all", OFFERED) > 100 && count(&stats, "down all", OFFERED) > 100,
            "{stats}"
        );
        assert!(!stats.contains("packets "), "nothing is lost: {stats}");
    }
    // A scenario's rules see the packets inside the frames.
    let two = file(
        "two.toml",
        "[link.two]\nrate = \"unlimited\"\n[link.two.flow.tcp]\nmatch = \"tcp\"\n[link.two.flow.rest]\nmatch = \"any\"\n",
    );
    let bridge = Bridge::start(&["a1", "b1", two, "--stats"]);
    pass_between(&mut a, &mut b, B[0]);
    let stats = bridge.end();
    assert!(
        count(&stats, "up tcp", OFFERED) > 10 && count(&stats, "down tcp", OFFERED) > 10,
        "{stats}"
    );
}

fn tagged() {
    let (mut a, mut b) = hosts();
    let bridge = Bridge::start(&["a1", "b1"]);
    // The kernel removes the outer tag from a received frame, also at the host that reports the
    // arrivals.
    let tags = [
        &[][..],
        &[0x8100_a005],
        &[0x88a8_0005],
        &[0x8100_e00f, 0x8100_0007],
        &[0x88a8_0005, 0x8100_3006],
    ];
    for tags in tags {
        for payload in [46, 1400] {
            let sent = frame(tags, payload);
            let ethertype = tags.get(1).map_or(ETHERTYPE, |tag| (tag >> 16) as u16);
            b.begin(&format!("await b0 {ethertype:x}"));
            assert_eq!(b.answer(), "listening");
            assert_eq!(a.ask(&format!("send a0 false {}", hex(&sent))), "1");
            let outer = tags.first().map_or("untagged".into(), |tag| format!("{tag:08x}"));
            let inner = hex(&frame(tags.get(1..).unwrap_or(&[]), payload));
            assert_eq!(b.answer(), format!("{outer} {inner}"), "{tags:x?} {payload}");
        }
    }
    bridge.end();
}

fn giants() {
    let (mut a, mut b) = hosts();
    a.does("mtu a0 9000");
    netlink::set_mtu("a1", 9000);
    let mut bridge = program(&["bridge", "a1", "b1", "--mtu", "1500B", "--stats"])
        .spawn()
        .expect("the program starts");
    let said = BufReader::new(bridge.stderr.take().expect("a pipe")).lines();
    let mut bridge = Bridge { child: bridge, said };
    bridge.says("falaj: warning: a1 has an mtu of 9000 B and the link one of 1500 B");
    bridge.says("falaj: forwarding");
    // Payloads longer than the link's MTU, than a frame of the ring, and than the MTU of the next
    // interface.
    for payload in [1501, 1600, 2000, 4000, 9000] {
        assert_eq!(
            a.ask(&format!("send a0 false {}", hex(&frame(&[], payload)))),
            "1",
            "{payload}"
        );
    }
    // A full frame with a tag is not too large.
    b.begin(&format!("await b0 {ETHERTYPE:x}"));
    assert_eq!(b.answer(), "listening");
    assert_eq!(a.ask(&format!("send a0 false {}", hex(&frame(&[0x8100_0005], 1500)))), "1");
    assert_eq!(b.answer(), format!("81000005 {}", hex(&frame(&[], 1500))));
    pass_between(&mut a, &mut b, B[0]);
    let stats = bridge.end();
    let lost = count(&stats, "up all", DROPPED)
        + lines_of(
            &stats,
            "were not accepted by the far \
                              end",
        );
    assert!(lost >= 5, "{stats}");
}

/// Returns the count in the line that ends with `words`.
fn lines_of(stats: &str, words: &str) -> u64 {
    let line = stats.lines().find(|line| line.ends_with(words));
    line.map_or(0, |line| line.split(' ').next().expect("a number").parse().expect("a number"))
}

fn hostile() {
    let (mut a, mut b) = hosts();
    let bridge = Bridge::start(&["a1", "b1", "--stats"]);
    let mut sent = 0;
    let mut storm = |host: &mut Host, interface: &str, with_header: bool, frames: &[Vec<u8>]| {
        for some in frames.chunks(200) {
            let frames: Vec<String> = some.iter().map(|frame| hex(frame)).collect();
            let taken: u64 = host
                .ask(&format!("send {interface} {with_header} {}", frames.join(" ")))
                .parse()
                .expect("a number");
            sent += taken;
        }
    };
    for (host, interface) in [(&mut a, "a0"), (&mut b, "b0")] {
        // Truncated frames, with types whose headers would be longer.
        let mut frames = Vec::new();
        for ethertype in [
            [0x08, 0x00],
            [0x86, 0xdd],
            [0x81, 0x00],
            [0x88, 0xa8],
            [0x08, 0x06],
            [0, 0],
            [0xff, 0xff],
        ] {
            let mut whole = frame(&[], 60);
            whole[12..14].copy_from_slice(&ethertype);
            frames.extend((0..=64).map(|length| whole[..length].to_vec()));
            // The same, with all lengths and offsets at their maximum.
            whole[14..].fill(0xff);
            frames.extend((0..=64).map(|length| whole[..length].to_vec()));
        }
        // Stacks of tags, truncated at every length.
        for tags in [1, 2, 3, 8, 40] {
            let whole = frame(&vec![0x8100_0001; tags], 20);
            frames.extend((14..=whole.len()).map(|length| whole[..length].to_vec()));
            frames.push(frame(&vec![0x88a8_0fff; tags], 0));
        }
        storm(host, interface, false, &frames);
        // Segmentation-offload units whose virtio-net header contradicts the frame.
        let mut units = Vec::new();
        for ip in [&IPV4_TCP[..], &IPV6_UDP] {
            for gso in [0_u8, 1, 3, 4, 5, 0x81, 0x84, 0xff] {
                for flags in [0_u8, 1, 2, 7] {
                    for size in [0_u16, 1, 8, 1448, 65_535] {
                        for (headers, start, at) in
                            [(54, 34, 16), (0, 0, 0), (66, 34, 6), (65_535, 65_535, 65_535)]
                        {
                            let mut unit = vec![flags, gso];
                            for field in [headers, size, start, at] {
                                unit.extend(u16::to_le_bytes(field));
                            }
                            unit.extend(&frame(&[], 0)[..12]);
                            unit.extend(ip);
                            unit.resize(unit.len() + 3000, 0x5a);
                            units.push(unit);
                        }
                    }
                }
            }
        }
        storm(host, interface, true, &units);
    }
    assert!(sent > 1000, "most of it gets as far as the link: {sent}");
    for address in B {
        pass_between(&mut a, &mut b, address);
    }
    let stats = bridge.end();
    assert!(
        count(&stats, "up all", OFFERED) > 500 && count(&stats, "down all", OFFERED) > 500,
        "{stats}"
    );
}

/// Sends [`storm::frames`] mutated frames in each direction; every good frame among them comes
/// back.
fn mutated() {
    let (mut a, mut b) = hosts();
    let bridge = Bridge::start(&["a1", "b1", "--stats"]);
    a.does("echo a0");
    b.does("echo b0");
    storm_from(&mut a, "a0", true);
    storm_from(&mut b, "b0", true);
    bridge.end();
}

fn storm_from(host: &mut Host, interface: &str, headers: bool) {
    all_came(&host.ask(&format!("storm {interface} {headers} {}", storm::frames())));
}

fn all_came(said: &str) {
    assert!(said.ends_with(" good came back") && !said.ends_with(" 0 good came back"), "{said}");
}

/// Like [`mutated`], over shared memory between two programs: as frames and in batches.
fn mutated_in_memory() {
    let (mut a, mut b) = hosts();
    let path = format!("{}/falaj-test-{}.sock", std::env::temp_dir().display(), std::process::id());
    let (master, slave) = (format!("memif:{path}"), format!("memif:{path},slave"));
    b.does("echo b0");
    for flags in [&[][..], &["--aggregate", "62,200us"]] {
        let mut first = Bridge::start(&[&["a1", &master], flags].concat());
        let second = Bridge::start(&[&slave, "b1"]);
        first.says(&format!("falaj: memif:{path} is up"));
        storm_from(&mut a, "a0", false);
        second.end();
        first.end();
    }
}

/// Like [`mutated`], from a guest through its network card.
fn mutated_by_a_guest() {
    let (_a, mut b) = hosts();
    let path = std::env::temp_dir().join(format!("falaj-test-{}.sock", std::process::id()));
    let card = format!("vhost:{}", path.display());
    let bridge = Bridge::start(&[&card, "b1"]);
    b.does("echo b0");
    all_came(&storm::storm(driver::Driver::of(&path), storm::frames()));
    bridge.end();
}

/// Like [`mutated`], through the queues of the firewall: packets that the kernel receives for this
/// host, and this host's answers.
fn mutated_in_queues() {
    let mut a = Host::start();
    netlink::veth("a1", "a0", a.pid());
    netlink::set_ethernet_address("a1", storm::BAD_DESTINATION);
    netlink::set_up("a1", true);
    a.does(&format!("up a0 {}", A.join(" ")));
    for (address, prefix) in B.into_iter().zip([24, 64]) {
        netlink::add_address("a1", address.parse().expect("an address"), prefix);
    }
    for command in ["iptables", "ip6tables"] {
        for (chain, interface, queue) in [("INPUT", "-i", "1"), ("OUTPUT", "-o", "2")] {
            let words = ["-A", chain, interface, "a1", "-j", "NFQUEUE", "--queue-num", queue];
            assert!(Command::new(command).args(words).status().expect("it starts").success());
        }
    }
    let bridge = Bridge::start(&["nfqueue:1", "nfqueue:2", "--stats"]);
    let socket = std::net::UdpSocket::bind((B[0], host::PORT)).expect("an address");
    std::thread::spawn(move || {
        let mut datagram = [0; 2000];
        loop {
            let (length, from) = socket.recv_from(&mut datagram).expect("a datagram");
            if storm::answer(&mut datagram[..length]) {
                let _ = socket.send_to(&datagram[..length], from);
            }
        }
    });
    all_came(&a.ask(&format!("storm-to {} a0 {}", B[0], storm::frames())));
    let stats = bridge.end();
    // Packets that the kernel itself rejects, because they are invalid or belong to another
    // network, do not reach the queues.
    let (up, good) = (count(&stats, "up all", OFFERED), storm::frames() / 15);
    assert!(up > good + storm::frames() / 10, "{stats}");
}

/// Headers, from the Ethernet type on, of a packet with 3000 B of payload.
const IPV4_TCP: [u8; 42] = [
    0x08, 0x00, 0x45, 0, 0x0b, 0xe0, 0, 1, 0, 0, 64, 6, 0x4f, 0x0a, 10, 9, 0, 1, 10, 9, 0, 2, 0x10,
    0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
];
const IPV6_UDP: [u8; 50] = [
    0x86, 0xdd, 0x60, 0, 0, 0, 0x0b, 0xc0, 17, 64, 0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x10, 0, 0x20, 0, 0x0b, 0xc0, 0, 0,
];

fn vanishes() {
    let (mut a, mut b) = hosts();
    let mut bridge = Bridge::start(&["a1", "b1"]);
    pass_between(&mut a, &mut b, B[0]);
    netlink::set_up("a1", false);
    bridge.says("falaj: a1 is down: waiting for it");
    netlink::set_up("a1", true);
    bridge.says("falaj: a1 is up: forwarding");
    pass_between(&mut a, &mut b, B[1]);
    netlink::delete("b1");
    bridge.says("falaj: b1 is gone: waiting for it");
    // Packets that arrive meanwhile cannot be forwarded.
    assert_eq!(a.ask(&format!("send a0 false {}", hex(&frame(&[], 100)))), "1");
    netlink::veth("b1", "b0", b.pid());
    netlink::set_up("b1", true);
    b.does(&format!("up b0 {}", B.join(" ")));
    bridge.says("falaj: b1 is up: forwarding");
    assert_eq!(netlink::promiscuity("b1"), 1);
    // The new interface has a new Ethernet address, so host b has to open the connection.
    pass_between(&mut b, &mut a, A[0]);
    bridge.end();
}

/// Renaming an interface does not affect its packets.
fn renamed() {
    let (mut a, mut b) = hosts();
    let mut bridge = Bridge::start(&["a1", "b1"]);
    pass_between(&mut a, &mut b, B[0]);
    netlink::rename("a1", "wan0");
    bridge.says("falaj: the interface a1 was renamed to wan0, and is still an end of the link");
    netlink::set_up("wan0", false);
    bridge.says("falaj: a1 is down: waiting for it");
    netlink::set_up("wan0", true);
    bridge.says("falaj: a1 is up: forwarding");
    pass_between(&mut a, &mut b, B[1]);
    // Under its new name, it still belongs to the link.
    let second = program(&["bridge", "wan0", "b1"]).args(via()).output().expect("it starts");
    let second = Ran::from(second);
    assert!(
        second.err.contains("wan0")
            && second.err.contains("another falaj process forwards at this interface"),
        "{second:?}"
    );
    // While the renamed interface exists, another interface with the old name is not an end of the
    // link.
    let c = Host::start();
    netlink::veth("a1", "c0", c.pid());
    netlink::set_up("a1", true);
    pass_between(&mut b, &mut a, A[0]);
    assert_eq!(netlink::promiscuity("a1"), 0);
    // After the renamed interface is deleted, the interface with the old name becomes the end.
    netlink::delete("wan0");
    bridge.says("falaj: a1 is up: forwarding");
    assert_eq!(netlink::promiscuity("a1"), 1);
    bridge.end();
}

fn unread() {
    const SENT: usize = 20_000;
    let (mut a, _b) = hosts();
    let bridge = Bridge::start(&["a1", "b1", "--stats"]);
    signal("STOP", bridge.child.id());
    let frames = vec![hex(&frame(&[], 46)); SENT].join(" ");
    assert_eq!(a.ask(&format!("send a0 false {frames}")), SENT.to_string());
    signal("CONT", bridge.child.id());
    std::thread::sleep(Duration::from_secs(1));
    let stats = bridge.end();
    let lost = lines_of(&stats, "were not read in time where they enter");
    let [sent, offered] = [SENT as u64, count(&stats, "up all", OFFERED)];
    assert!(lost > sent / 3 && lost < sent, "{stats}");
    // The hosts' kernels send a few packets of their own.
    assert!((sent..sent + 20).contains(&(lost + offered)), "{stats}");
}

/// More segments arrive at one interface than it has room for, while the program is stopped. With
/// AF_XDP each segment takes one slot, and the program learns how many segments found no slot. With
/// packet sockets a unit takes one slot, however many segments it has. All packets that arrive at
/// the other interface meanwhile pass.
fn segments() {
    const GOOD: u64 = 1_000;
    const UNITS: u64 = 60;
    /// Segment size in bytes; a unit has 3000 B of payload.
    const SIZE: u16 = 8;
    /// Number of frames for which AF_XDP has room.
    const RING: u64 = 4_096;
    let mut unit = vec![1, 1];
    for field in [54, SIZE, 34, 16] {
        unit.extend(u16::to_le_bytes(field));
    }
    unit.extend(&frame(&[], 0)[..12]);
    unit.extend(IPV4_TCP);
    unit.resize(unit.len() + 3_000, 0x5a);
    let all = UNITS * 3_000 / u64::from(SIZE);
    let (mut a, mut b) = hosts();
    let bridge = Bridge::start(&["a1", "b1", "--stats"]);
    signal("STOP", bridge.child.id());
    let units = vec![hex(&unit); UNITS as usize].join(" ");
    assert_eq!(a.ask(&format!("send a0 true {units}")), UNITS.to_string());
    let good = vec![hex(&frame(&[], 46)); GOOD as usize].join(" ");
    assert_eq!(b.ask(&format!("send b0 false {good}")), GOOD.to_string());
    signal("CONT", bridge.child.id());
    std::thread::sleep(Duration::from_secs(1));
    let stats = bridge.end();
    let [up, down] = ["up all", "down all"].map(|all| count(&stats, all, OFFERED));
    // The hosts' kernels send a few packets of their own.
    assert!((GOOD..GOOD + 20).contains(&down), "{stats}");
    let words = "were not read in time where they enter";
    let lost = stats.contains(words).then(|| lines_of(&stats, words));
    let by_xdp = via().contains(&"xdp".to_owned());
    assert_eq!(lost.is_some(), by_xdp, "{stats}");
    // The ring of the veth pair is short; losses within the pair are counted at the sender.
    let least = if by_xdp { RING } else { all };
    let known = up + lost.unwrap_or(0);
    assert!((least..all + 20).contains(&known) && up >= least, "{all} segments: {stats}");
}

fn leaves_nothing() {
    let (_a, _b) = hosts();
    assert_eq!(["a1", "b1"].map(netlink::promiscuity), [0, 0]);
    for end in ["INT", "TERM", "KILL"] {
        let mut bridge = Bridge::start(&["a1", "b1"]);
        assert_eq!(["a1", "b1"].map(netlink::promiscuity), [1, 1]);
        signal(end, bridge.child.id());
        let status = bridge.child.wait().expect("a status");
        assert_eq!(status.code(), (end != "KILL").then_some(0), "{end}");
        let ended = Instant::now();
        while ["a1", "b1"].map(netlink::promiscuity) != [0, 0] {
            assert!(ended.elapsed() < Duration::from_secs(2), "{end}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn elsewhere() {
    let (mut a, mut b) = hosts();
    // The bridge runs in another network namespace, which does not have these interfaces.
    let here = std::process::id().to_string();
    let [near, far] = ["a1", "b1"].map(|interface| format!("{interface}@{here}"));
    let me = env!("CARGO_BIN_EXE_falaj");
    // A program of this user namespace may enter the network namespace; a program in another user
    // namespace (`-U` below) may not.
    let mut command = Command::new("unshare");
    command
        .args(["-n", me, "bridge", &near, &far])
        .args(via())
        .stderr(Stdio::piped())
        .stdin(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut bridge = Bridge { child, said };
    bridge.says(&format!("falaj: forwarding between a1@{here} and b1@{here}"));
    pass_between(&mut a, &mut b, B[0]);
    assert_eq!(["a1", "b1"].map(netlink::promiscuity), [1, 1]);
    netlink::set_up("b1", false);
    bridge.says(&format!("falaj: b1@{here} is down"));
    bridge.end();
    let mut command = Command::new("unshare");
    command.args(["-Urn", me, "bridge", &near, &far]).stdin(Stdio::null());
    let ran: Ran = command.output().expect("it starts").into();
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("cannot enter the network namespace"), "{ran:?}");
}

/// AF_XDP needs more privilege than a user namespace gives.
fn no_xdp() {
    let (mut a, mut b) = hosts();
    let mut child =
        program(&["bridge", "a1", "b1", "--via", "xdp"]).spawn().expect("the program starts");
    let said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut bridge = Bridge { child, said };
    let first = bridge.said.next().expect("it says something").expect("text");
    let reason = first
        .strip_prefix("falaj: a1: cannot ")
        .and_then(|rest| rest.strip_suffix("; packet sockets are used instead"));
    assert!(reason.is_some(), "{first}");
    bridge.says("falaj: forwarding between a1 and b1");
    pass_between(&mut a, &mut b, B[0]);
    bridge.end();
    // A process that may use neither AF_XDP nor packet sockets gets a message about each.
    let mut command = Command::new("setpriv");
    command.args(NO_CAPABILITIES).args([
        env!("CARGO_BIN_EXE_falaj"),
        "bridge",
        "a1",
        "b1",
        "--via",
        "xdp",
    ]);
    let ran: Ran = command.stdin(Stdio::null()).output().expect("it starts").into();
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let [xdp, packet] = ran.err.lines().collect::<Vec<_>>()[..] else { panic!("{ran:?}") };
    assert!(
        xdp.starts_with("falaj: a1: ") && xdp.ends_with("; packet sockets are used instead"),
        "{xdp}"
    );
    assert!(packet.contains("a1: ") && packet.contains("CAP_NET_RAW"), "{packet}");
}

/// Runs two hosts in a user namespace of their own; they exchange packets once for each line of
/// standard input.
pub(crate) fn container() {
    let (mut a, mut b) = hosts();
    println!("ready");
    for _ in std::io::stdin().lines() {
        pass_between(&mut a, &mut b, B[0]);
        println!("passed");
    }
}

fn somebody_elses() {
    let me = std::env::current_exe().expect("a path");
    let mut command = Command::new("unshare");
    command
        .arg("-Urn")
        .arg(me)
        .args(["--probe", "container"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut container = command.spawn().expect("it starts");
    let mut said =
        BufReader::new(container.stdout.take().expect("a pipe")).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("ready"));
    // The user who created the container may enter it, without any capability.
    let pid = container.id();
    let mut command = Command::new("setpriv");
    command.args(NO_CAPABILITIES).args([env!("CARGO_BIN_EXE_falaj"), "bridge"]);
    command.args(["a1", "b1"].map(|interface| format!("{interface}@{pid}")));
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let stderr = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut bridge = Bridge { child, said: stderr };
    bridge.says(&format!("falaj: forwarding between a1@{pid} and b1@{pid}"));
    let mut stdin = container.stdin.take().expect("a pipe");
    writeln!(stdin, "go").expect("it listens");
    assert_eq!(said.next().as_deref(), Some("passed"));
    bridge.end();
    drop(stdin);
    assert!(container.wait().expect("a status").success());
}

/// Two links in series, each in its own process, with shared memory between them: as frames, and in
/// batches.
fn shared_memory() {
    let (mut a, mut b) = hosts();
    let path = format!("{}/falaj-test-{}.sock", std::env::temp_dir().display(), std::process::id());
    let (master, slave) =
        (format!("memif:{path},secret=word"), format!("memif:{path},slave,secret=word"));
    for flags in [&[][..], &["--aggregate", "62,200us"]] {
        // The connecting side may start first.
        let mut second = Bridge::start(&[&slave, "b1", "--stats"]);
        let mut first = Bridge::start(&[&["a1", &master, "--stats"], flags].concat());
        first.says(&format!("falaj: memif:{path} is up"));
        second.says(&format!("falaj: memif:{path},slave is up"));
        for address in B {
            pass_between(&mut a, &mut b, address);
        }
        for address in A {
            pass_between(&mut b, &mut a, address);
        }
        // The loss of the peer is reported, and a new peer is accepted.
        second.end();
        first.says(&format!("falaj: memif:{path} is gone"));
        let second = Bridge::start(&[&slave, "b1", "--stats"]);
        first.says(&format!("falaj: memif:{path} is up"));
        pass_between(&mut a, &mut b, B[0]);
        let stats = [first.end(), second.end()];
        for stats in stats {
            assert!(
                count(&stats, "up all", OFFERED) > 10 && count(&stats, "down all", OFFERED) > 10,
                "{stats}"
            );
        }
    }
    let mut first = Bridge::start(&["a1", &master]);
    let mut wrong = Bridge::start(&[&format!("memif:{path},slave,secret=wort"), "b1"]);
    first.says(&format!("falaj: memif:{path}: the secret differs"));
    wrong.says(&format!(
        "falaj: memif:{path},slave: the other side ended the connection: the secret differs"
    ));
    wrong.end();
    first.end();
    assert!(!std::path::Path::new(&path).exists());
}

const NO_CAPABILITIES: [&str; 4] = ["--bounding-set", "-all", "--inh-caps", "-all"];

fn refused() {
    let (_a, _b) = hosts();
    for (args, words) in [
        (&["a1", "a1"][..], "both ends are the interface a1: a link needs two"),
        (&["a1", "nothing"], "nothing: cannot attach to the interface: No such device (ENODEV)"),
        (
            &["a1", "b1@no-such-name"],
            "b1@no-such-name: cannot enter the network namespace: No such file or directory",
        ),
        (&["a1", "b1", "--rate", "10mbit", "--queue", "100B"], "never admits a packet of 1514 B"),
        (&["a1", "../b1"], "write an interface's name"),
        (&["a1", "vhost:"], "write the path of a socket"),
        (&["a1", "vhost:/proc/a.sock"], "vhost:/proc/a.sock: cannot listen there"),
        (&["a1", "vhost:/tmp/a.sock", "--via", "xdp"], "--via xdp is for two interfaces"),
        (&["a1", "memif:"], "write the path of a socket"),
        (&["a1", "memif:/tmp/a.sock,master,id=x"], "`id=x` is not a number"),
        (&["a1", "memif:/tmp/a.sock,client"], "`client`: write the path"),
        (&["a1", "memif:/proc/a.sock"], "memif:/proc/a.sock: cannot create that socket"),
        (&["a1", "memif:/tmp/a.sock", "--aggregate", "62,idle"], "memif does not report when"),
        (&["a1", "b1", "--aggregate", "62,200us"], "--aggregate is for shared memory"),
        (&["a1", "nfqueue:1"], "give two queues, one for each direction"),
        (&["nfqueue:1", "nfqueue:x"], "write a queue's number"),
        (&["a1", "b1", "--fail-open"], "--fail-open is for queues"),
    ] {
        let mut child = program(&[&["bridge"], args].concat()).spawn().expect("the program starts");
        let mut said = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        assert_eq!(child.wait().expect("a status").code(), Some(2), "{args:?}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
    // A user without the right to open packet sockets gets a message that says how to obtain it.
    let mut command = Command::new("setpriv");
    command.args(NO_CAPABILITIES).args([env!("CARGO_BIN_EXE_falaj"), "bridge", "a1", "b1"]);
    let ran: Ran = command.stdin(Stdio::null()).output().expect("setpriv is there").into();
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(
        ran.err.contains("cannot open a packet socket") && ran.err.contains("CAP_NET_RAW"),
        "{ran:?}"
    );
}

/// Returns the message of a bridge that is refused.
fn refusal(a: &str, b: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "20", env!("CARGO_BIN_EXE_falaj"), "bridge", a, b]);
    let ran: Ran = command.stdin(Stdio::null()).output().expect("it starts").into();
    assert_eq!(ran.status, Some(2), "{a} {b}: {ran:?}");
    ran.err
}

fn loops() {
    let (a, _b) = hosts();
    let (me, pid) = (std::process::id(), a.pid());
    netlink::veth("c1", "c0", me);
    netlink::add_bridge("br0");
    netlink::add_bridge("br1");
    netlink::add_to_bridge("c0", "br0");
    netlink::add_to_bridge("b1", "br0");
    netlink::veth("d1", "d0", me);
    netlink::add_to_bridge("d0", "br1");
    for name in ["c0", "c1", "d0", "d1"] {
        netlink::set_up(name, true);
    }
    // Where the kernel has no VLANs, only the rest is tested.
    let has_vlans = [("a1", 5), ("a1", 6), ("c1", 5), ("b1", 6)]
        .map(|(below, id)| netlink::add_vlan(&format!("{below}.{id}"), below, id))
        == [true; 4];
    let is_there = |names: [&str; 2]| has_vlans || names.iter().all(|name| !name.contains('.'));
    netlink::add_macvlan("m1", "d1");
    netlink::add_macvlan("m2", "d1");
    netlink::add_name("a1", "other-a1");
    let [elsewhere, here] = [format!("a0@{pid}"), format!("a1@{me}")];
    for (a, b, how) in [
        ("c0", "c1", "the two ends of one veth pair"),
        ("a1", &elsewhere, "the two ends of one veth pair"),
        ("c0", "b1", "both ports of the kernel's bridge br0"),
        ("br0", "b1", "one a port of the other"),
        ("c1", "b1", "by c0, br0"),
        ("c1", "br0", "by c0"),
        ("a1", "a1.5", "one on top of the other"),
        ("a1.5", &elsewhere, "by a1"),
        ("c1.5", "b1", "by c1, c0, br0"),
        ("m1", "m2", "both on top of one interface"),
        ("d1", "m2", "one on top of the other"),
        ("m2", "br1", "by d1, d0"),
    ] {
        for (a, b) in [(a, b), (b, a)].into_iter().filter(|&(a, b)| is_there([a, b])) {
            let said = refusal(a, b);
            let joined = |by: &str| format!("falaj: {a} and {b} are joined already, {by}: ");
            let back = how.strip_prefix("by ").map(|by| {
                let by: Vec<&str> = by.split(", ").collect();
                format!("by {}", by.into_iter().rev().collect::<Vec<_>>().join(", "))
            });
            let told = [Some(how.to_owned()), back].into_iter().flatten();
            assert!(told.into_iter().any(|by| said.starts_with(&joined(&by))), "{a} {b}: {said}");
        }
    }
    for other in [&here, &format!("other-a1@{me}")] {
        assert!(refusal("a1", other).contains("both ends are the interface a1: a link needs two"));
    }
    assert!(refusal("lo", "a1").contains("lo is a loopback interface"));
    // Two VLANs of one interface, and interfaces that share no path.
    for (a, b) in [("a1.5", "a1.6"), ("a1", "b1"), ("a1", "d1"), ("br0", "br1"), ("c1.5", "b1.6")]
        .into_iter()
        .filter(|&(a, b)| is_there([a, b]))
    {
        for name in [a, b] {
            netlink::set_up(name, true);
        }
        let bridge = Bridge::start(&[a, b]);
        bridge.end();
    }
}

fn queues() {
    use std::net::UdpSocket;
    netlink::set_up("lo", true);
    let socket = |port: u16| UdpSocket::bind(("127.0.0.1", port)).expect("an address");
    let [up, down] = [socket(9001), socket(9002)];
    // If a packet is expected, the wait may be long; if none is expected, a short wait is enough.
    let waits = |socket: &UdpSocket, comes: bool| {
        let time = if comes { Duration::from_secs(20) } else { Duration::from_millis(300) };
        socket.set_read_timeout(Some(time)).expect("a time");
    };
    for (port, queue) in [("9001", "1"), ("9002", "2")] {
        let words =
            ["-A", "OUTPUT", "-p", "udp", "--dport", port, "-j", "NFQUEUE", "--queue-num", queue];
        assert!(Command::new("iptables").args(words).status().expect("it starts").success());
    }
    let mut buffer = [0; 2000];
    let mut passes = |from: &UdpSocket, to: &UdpSocket, length: usize, comes: bool| {
        waits(to, comes);
        let sent: Vec<u8> = (0..length).map(|i| i as u8).collect();
        from.send_to(&sent, to.local_addr().expect("bound")).expect("it is sent");
        let at = Instant::now();
        let got = to.recv(&mut buffer).ok();
        assert_eq!(got.is_some(), comes);
        assert_eq!(&buffer[..got.unwrap_or(0)], &sent[..got.unwrap_or(0)]);
        at.elapsed()
    };
    // Number of packets that the kernel holds: the third column.
    let held = || -> u64 {
        let text = std::fs::read_to_string("/proc/net/netfilter/nfnetlink_queue")
            .expect("the kernel has queues");
        text.lines()
            .map(|line| {
                line.split_whitespace().nth(2).expect("a number").parse::<u64>().expect("one")
            })
            .sum()
    };
    let holds = |packets: u64| {
        let began = Instant::now();
        while held() != packets {
            assert!(began.elapsed() < Duration::from_secs(20), "{} are held", held());
            std::thread::sleep(Duration::from_millis(5));
        }
    };

    // No program reads the queue, and the firewall's rule does not let packets bypass it.
    passes(&down, &up, 100, false);
    let bridge = Bridge::start(&["nfqueue:1", "nfqueue:2", "--delay", "30ms", "--stats"]);
    for (from, to) in [(&down, &up), (&up, &down)] {
        for length in [1, 100, 1400] {
            let took = passes(from, to, length, true);
            assert!(took >= Duration::from_millis(29), "{took:?}");
        }
    }
    let stats = bridge.end();
    assert_eq!(
        (count(&stats, "up all", OFFERED), count(&stats, "down all", OFFERED)),
        (3, 3),
        "{stats}"
    );

    // A second program cannot take over a queue in use.
    let bridge = Bridge::start(&["nfqueue:1", "nfqueue:2"]);
    let ran =
        Ran::from(program(&["bridge", "nfqueue:3", "nfqueue:2"]).output().expect("it starts"));
    assert!(
        ran.status == Some(2) && ran.err.contains("cannot use queue 2 of the firewall"),
        "{ran:?}"
    );
    // The first bridge continues.
    passes(&down, &up, 100, true);
    bridge.end();

    // The kernel does not keep packets that the link dropped.
    let bridge = Bridge::start(&["nfqueue:1", "nfqueue:2", "--loss", "100%", "--stats"]);
    passes(&down, &up, 100, false);
    holds(0);
    let stats = bridge.end();
    assert_eq!(count(&stats, "up all", LOST), 1, "{stats}");

    // Packets held at the end are dropped or, with `--fail-open`, passed on.
    for open in [false, true] {
        let flags: &[&str] = if open { &["--fail-open"] } else { &[] };
        let bridge =
            Bridge::start(&[&["nfqueue:1", "nfqueue:2", "--delay", "10s"], flags].concat());
        passes(&down, &up, 100, false);
        holds(1);
        bridge.end();
        waits(&up, open);
        assert_eq!(up.recv(&mut [0; 200]).is_ok(), open);
    }
}
