//! A neighbour that shares a link's thread and attacks or hangs: only its own traffic suffers, and
//! the other adapters keep their guarantees.

use super::hosts::Hosts;
use super::overload::Resident;
use super::scene::{Footprint, LoggedService, Sender, me, number, scenario, until};
use crate::common::{Ran, directory, program, signal};
use crate::host::{Host, hex};
use serde_json::Value;

/// Returns a scenario: half of the link for an adapter that keeps to its envelope, and half for
/// another.
fn text(wild: &str, calm: &str) -> String {
    format!(
        "[link.wire]\nrate = \"20mbit\"\nuplink = \"u1\"\nscheduler = {{ kind = \"wf2q+\" }}\n\
         [link.wire.flow.wild]\nadapter = \"{wild}\"\nqueue = \"50p\"\n\
         [link.wire.flow.calm]\nadapter = \"{calm}\"\nrequires = {{ rate = \"9mbit\", delay = \"10ms\" }}\n\
         envelope = {{ rate = \"4mbit\", burst = \"3kB\" }}\nqueue = \"100p\"\n"
    )
}

/// Sends malformed packets: truncated at each length up to 200 B behind the Ethernet header, and
/// filled with one byte value, which is 0xff in every third packet.
fn malformed(host: &mut Host) {
    for (n, ethertype) in
        [0x0800_u16, 0x86dd, 0x8100, 0x88a8, 0x0806, 0x0000, 0xffff].into_iter().enumerate()
    {
        let frames = (0..=200).map(|length| {
            let mut whole = vec![if length % 3 == 0 { 0xff } else { length as u8 }; 214];
            whole[..6].copy_from_slice(&[0x02, 0, 0, 0, 0, n as u8]);
            whole[12..14].copy_from_slice(&ethertype.to_be_bytes());
            whole.truncate(length + 14);
            hex(&whole)
        });
        let frames: Vec<String> = frames.collect();
        let taken = host.ask(&format!("send a0 false {}", frames.join(" ")));
        assert!(taken.parse::<u64>().expect("a number") > 100, "{taken}");
    }
}

/// Sends a storm of the smallest packets, and then packets of which each belongs to another flow.
/// During both, malformed packets are sent too.
pub(crate) fn misbehaves() {
    let mut hosts = Hosts::new();
    let told = LoggedService::start("neighbour", &text("a1", "b1"), &[]);
    let _calm = hosts.send(1);
    told.passes("calm");
    let wild = hosts.0[0].pid();
    let _first = Sender::words(wild, &["--send", "10.9.0.1:9", "1000", "18", "1000"]);
    told.passes("wild");
    let (held, before) = (Footprint::of(told.id()), Resident::of(told.id()).own);
    let storm = ["--send", "10.9.0.1:9", "0", "18"];
    let flows = ["--flows", "10.9.0.1:9", "0", "700"];
    for kind in [storm, flows] {
        let (offered, spent) = (number(&told.up("wild")["total"]["offered"]), spent(&told));
        let flood = Sender::words(wild, &[&kind[..], &[&u64::MAX.to_string()]].concat());
        until("as many as there are ports", || {
            number(&told.up("wild")["total"]["offered"]) > offered + 40_000
        });
        malformed(&mut hosts.0[0]);
        drop(flood);
        let now = self::spent(&told);
        assert!(
            now[0] - spent[0] > now[1] - spent[1],
            "{kind:?}: what it costs is its own: {spent:?}, {now:?}"
        );
        told.passes("calm");
        told.adds_up();
    }
    until("all that waited has left", || number(&told.up("wild")["backlog"]) == 0);
    let after = Resident::of(told.id()).own;
    assert!(after <= before + 8_192, "{before} kB, then {after} kB");
    let calm = told.up("calm");
    assert_eq!(calm["total"]["dropped"]["queue_full"], 0, "{calm:#}");
    assert_eq!(calm["breaches"]["rate"], 0, "{calm:#}");
    held.is_that_of(told.id());
    told.end();
}

/// Returns the processor time of both adapters, in nanoseconds.
fn spent(told: &LoggedService) -> [u64; 2] {
    ["wild", "calm"].map(|name| number(&told.service.adapter(name)["spent_ns"]))
}

/// The process at the other end of a ring stops, and neither reads nor writes.
pub(crate) fn hangs() {
    let hosts = Hosts::new();
    let ring = format!("memif:{}/ring.sock", std::env::temp_dir().display());
    let told = LoggedService::start("hangs", &text(&ring, "a1"), &[]);
    let peer = Sender::spawn(&mut program(&["bridge", &format!("{ring},slave"), "b1"]));
    told.says("adapter wild is up");
    let _senders = [hosts.send(0), hosts.send(1)];
    told.passes("calm");
    told.passes("wild");
    let held = Footprint::of(told.id());
    signal("STOP", peer.process());
    let not_taken = || number(&told.service.adapter("wild")["not_taken"]);
    let before = not_taken();
    let flood = Sender::words(
        hosts.0[2].pid(),
        &["--send", "10.9.0.3:9", "200", "1000", &u64::MAX.to_string()],
    );
    until("its ring is full", || not_taken() > before + 1_000);
    told.read_again(&text(&ring, "a1").replace("20mbit", "40mbit"));
    until("the changed scenario file takes effect", || told.rate("calm") == 20_000_000);
    told.passes("calm");
    drop(flood);
    signal("CONT", peer.process());
    told.passes("wild");
    told.adds_up();
    assert_eq!(told.up("calm")["total"]["dropped"]["queue_full"], 0);
    held.is_that_of(told.id());
    drop(peer);
    told.end();
}

/// Number of packets of the host with a modest rate.
const STEADY: usize = 1_000;

/// Two hosts, each behind its own link, share one thread. One sends a storm of the smallest
/// packets, which its link either carries or mostly drops as soon as they are read. The packets of
/// the other host pass as if that host were alone.
pub(crate) fn storms() {
    let me = me();
    for (name, rate) in [("storm-passes", "unlimited"), ("storm-is-dropped", "1mbit")] {
        let text = format!(
            "[link.x]\nrate = \"{rate}\"\ndelay = \"2ms\"\n[link.y]\nrate = \"unlimited\"\ndelay = \"5ms\"\n\
             [host.wild]\nlink = \"x\"\n[host.calm]\nlink = \"y\"\n"
        );
        let text = scenario(&format!("{name}.toml"), &text);
        let summary = directory().join(format!("{name}.json"));
        let storm = format!("wild:{me} --send $FALAJ_ADDR_ROUTER:9 0 18 {}", u64::MAX);
        let echo = format!("router:{me} --fault echo");
        let steady = format!("{me} --fault steady $FALAJ_ADDR_ROUTER:4711 2000 {STEADY}");
        let asked = [
            "run",
            &text,
            "--json",
            summary.to_str().expect("UTF-8"),
            "--host",
            "calm",
            "--in",
            &echo,
        ];
        let ran = Ran::from(
            program(&[&asked[..], &["--in", &storm, "--", "sh", "-c", &steady]].concat())
                .output()
                .expect("it starts"),
        );
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let mut times: Vec<f64> = serde_json::from_value(ran.json()).expect("times");
        times.sort_by(f64::total_cmp);
        let summary: Value =
            serde_json::from_slice(&std::fs::read(&summary).expect("it is written")).expect("JSON");
        let of = |flow: &str, what: &str| {
            let flows = summary["flows"].as_array().expect("a list");
            number(
                &flows
                    .iter()
                    .find(|one| one["flow"] == flow)
                    .unwrap_or_else(|| panic!("{summary:#}"))[what],
            )
        };
        assert!(of("x up all", "offered") > 20 * STEADY as u64, "a storm: {summary:#}");
        // The packets with a modest rate have a link of their own: a round trip takes 10 ms and the
        // machine's own delay. On a busy machine a few of them are missing.
        let (came, least, median) = (times.len(), times[0], times[times.len() / 2]);
        assert!(
            came > STEADY * 95 / 100 && least >= 10.0 && median < 100.0,
            "{name}: {came} came, {least} ms, {median} ms"
        );
        println!(
            "{name}: {} tiny packets; {came} came, {least} ms, {median} ms",
            of("x up all", "offered")
        );
    }
}
