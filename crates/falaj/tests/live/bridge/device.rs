//! A link paced by the interface at its end. The interface has a token bucket of the kernel that is
//! slower than the configured rate: the socket refuses packets again and again.

use super::{B, Bridge, DROPPED, LOST, OFFERED, count, hosts};
use crate::common::{Ran, directory, falaj, file};
use falaj_traffic::capture::{self, Capture};
use std::fs::File;
use std::process::Command;

/// A token bucket with a rate one fifth below that of the link.
pub(crate) const TOKEN_BUCKET: [&str; 7] = ["tbf", "rate", "4mbit", "burst", "4kb", "limit", "1mb"];

const LINK: &str = "[link.l]\nrate = \"5mbit\"\npaced-by = \"device\"\nbacklog = \"10p\"\n\
                    [link.l.flow.numbered]\nmatch = \"udp dport 4711\"\n[link.l.flow.rest]\nmatch = \"any\"\n";
const SENT: usize = 1;
const NOT_TAKEN: usize = 4;

/// Lets host a flood host b over the link; returns b's report of the arrivals, and the bridge's
/// statistics.
fn flooded(args: &[&str]) -> (String, String) {
    let (mut a, mut b) = hosts();
    let tc =
        Command::new("tc").args(["qdisc", "add", "dev", "b1", "root"]).args(TOKEN_BUCKET).status();
    assert!(tc.expect("it was there").success());
    let bridge =
        Bridge::start(&[&["a1", "b1", file("device.toml", LINK), "--stats"], args].concat());
    b.begin(&format!("count {}", B[0]));
    assert_eq!(b.answer(), "listening");
    a.does(&format!("flood {}", B[0]));
    let came = b.answer();
    (came, bridge.end())
}

/// More packets arrive than the link carries. Packets without room in the link's queue are dropped
/// there; all packets that it sends arrive, in order.
pub(crate) fn order() {
    let (came, stats) = flooded(&[]);
    let of = |column| count(&stats, "up numbered", column);
    assert!(of(DROPPED) > 0 && of(LOST) == 0 && of(OFFERED) > 1_000, "{stats}");
    assert_eq!(came, format!("{} in order", of(SENT)), "{stats}");
    assert!(of(SENT) > 300, "{stats}");
    assert_eq!(of(NOT_TAKEN), 0, "{stats}");
}

/// The capture contains, between the packets, the port's reports of its free space. With them the
/// replay decides each packet as the live link did.
pub(crate) fn replayed() {
    replayed_with("hybrid");
}

/// Like [`replayed`], with a sleeping event loop.
pub(crate) fn replayed_sleeping() {
    replayed_with("sleep");
}

fn replayed_with(timer: &str) {
    let name = &format!("device-{timer}.pcapng");
    flooded(&["--capture", name, "--timer", timer]);
    let Capture { rooms, packets, .. } =
        capture::read(File::open(directory().join(name)).expect("it is there")).expect("whole");
    let refused = rooms.iter().filter(|room| room.bytes == 0).count();
    assert!(
        refused > 10 && rooms.len() > refused + 10,
        "{refused} of {} say that there is no room",
        rooms.len()
    );
    assert!(packets.len() > 1_000, "{} packets", packets.len());
    let ran = falaj(&["sim", "--replay", name, "--json"]);
    assert!(ran.status == Some(0) && ran.json()["same_decisions"] == true, "{ran:#?}");
    altered(name);
}

/// Alters a report in the capture: the port has no room instead of some. The replay names the first
/// packet that is decided differently.
fn altered(name: &str) {
    let mut bytes = std::fs::read(directory().join(name)).expect("it is there");
    let room = format!("FALAJ_ROOM={}\n", u32::MAX).into_bytes();
    let found: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(&room)).collect();
    let at = found[found.len() / 2];
    bytes[at..at + room.len()].copy_from_slice(b"FALAJ_ROOM=0000000000\n");
    let altered = format!("altered-{name}");
    std::fs::write(directory().join(&altered), bytes).expect("written");
    let ran: Ran = falaj(&["sim", "--replay", &altered]);
    assert!(ran.status == Some(1) && ran.out.contains("first difference: number="), "{ran:#?}");
}
