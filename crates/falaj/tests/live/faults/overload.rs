//! Overload of ten times the link's rate.

use super::scene::{Footprint, LoggedService, Sender, number, until};
use super::soak::long;
use crate::service::THREE;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Resident memory of a process, in kB.
#[derive(Clone, Copy)]
pub(crate) struct Resident {
    pub(crate) all: u64,
    /// Memory that is not file-backed. The kernel keeps file pages as long as it has room for them.
    pub(crate) own: u64,
}

impl Resident {
    pub(crate) fn of(process: u32) -> Resident {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let number = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of it");
            line.trim().split(' ').next().expect("a number").parse().expect("one")
        };
        Resident { all: number("VmRSS:"), own: number("RssAnon:") }
    }
}

/// For up to a minute (less if [`long`] is shorter), an adapter that keeps to its envelope gets its
/// guarantees. Excess packets of the others are dropped from their own queues, and take no memory.
pub(crate) fn tenfold() {
    let told = LoggedService::start("overload", THREE, &[]);
    let _calm = Sender::calm(&told, "calm");
    told.passes("calm");
    let held = Footprint::of(told.id());
    // 1442 B every 100 us are 115 Mbit/s from each of the two: more than ten times 20 Mbit/s, if
    // the machine is fast enough.
    let flood = [Sender::each(&told, "greedy", 100), Sender::each(&told, "wild", 100)];
    until("queues are full", || ["greedy", "wild"].iter().all(|name| dropped(&told, name) > 0));
    let (before, began) = (Resident::of(told.id()).own, Instant::now());
    told.read_again(&THREE.replace("20mbit", "19mbit"));
    while began.elapsed() < long().min(Duration::from_secs(60)) {
        told.adds_up();
        std::thread::sleep(Duration::from_millis(200));
    }
    until("the changed scenario file takes effect", || told.rate("calm") == 9_500_000);
    told.passes("calm");
    let after = Resident::of(told.id()).own;
    assert!(after <= before + 8_192, "{before} kB, then {after} kB");
    drop(flood);
    until("all that waited has left", || {
        ["greedy", "wild"].iter().all(|name| told.up(name)["backlog"] == 0)
    });
    told.passes("calm");
    told.adds_up();
    for name in ["calm", "greedy"] {
        assert_eq!(told.up(name)["breaches"]["rate"], 0, "{:#}", told.up(name));
    }
    held.is_that_of(told.id());
    told.end();
}

/// Two adapters with weights 3 and 1 send more than the link carries. Every packet that the round
/// robin transmits arrives at the uplink's other end; packets are lost only in the queues, before
/// the scheduler chooses them.
pub(crate) fn decided() {
    let text = "[link.wire]\nrate = \"20mbit\"\nuplink = \"namespace\"\nscheduler = { kind = \"xen-wrr\" }\n\
                [link.wire.flow.heavy]\nadapter = \"namespace\"\nweight = 3\nqueue = \"400p\"\n\
                [link.wire.flow.light]\nadapter = \"namespace\"\nqueue = \"400p\"\n";
    // Each packet is delivered singly; otherwise the interface would count several as one.
    let told = LoggedService::start("decided", text, &["--slack", "0s"]);
    let sent = || {
        let sample = told.service.get("/v1/adapters").json();
        let of = |adapter: &Value| number(&adapter["up"][0]["total"]["sent"]);
        [0, 1].map(|n| of(&sample["adapters"][n]))
    };
    let flood = ["heavy", "light"].map(|name| Sender::each(&told, name, 0));
    until("queues are full", || ["heavy", "light"].iter().all(|name| dropped(&told, name) > 1_000));
    // Only windows in which both adapters were always backlogged count. An adapter may have one
    // turn more than its share; a whole round has four packets.
    let (mut seen, mut alike) = (0, 0);
    until("they have had turns", || {
        let sample = told.service.get("/v1/adapters").json();
        let at = number(&sample["at_ns"]);
        let [heavy, light] = [0, 1].map(|n| sample["adapters"][n]["up"][0]["window"].clone());
        if std::mem::replace(&mut seen, at) != at
            && heavy["demanded"] == true
            && light["demanded"] == true
        {
            let bytes = |window: &Value| {
                window["sent"].as_f64().expect("a rate") * number(&window["over_ns"]) as f64 / 8e9
            };
            let [heavy, light] = [bytes(&heavy) / 1442.0, bytes(&light) / 1442.0];
            assert!((heavy - 3.0 * light).abs() <= 2.0 * 4.0, "{heavy} and {light}");
            alike += 1;
        }
        alike == 3
    });
    drop(flood);
    let waits = || ["heavy", "light"].map(|name| number(&told.up(name)["backlog"]));
    until("all that waited has left", || waits() == [0, 0]);
    told.adds_up();
    let lost = told.service.get("/v1/adapters").json()["losses"].clone();
    assert!(lost.as_object().expect("reasons").values().all(|count| *count == 0), "{lost}");
    for name in ["heavy", "light"] {
        let up = told.up(name);
        let reasons = up["total"]["dropped"].as_object().expect("reasons");
        assert!(reasons.iter().all(|(why, count)| why == "queue_full" || *count == 0), "{up:#}");
    }
    // Compares the packets that the link sent with those that arrived at the interface behind the
    // uplink.
    let process = told.service.processes[""].as_i64().expect("the uplink is in a namespace");
    let came = || {
        let text =
            std::fs::read_to_string(format!("/proc/{process}/net/dev")).expect("it is there");
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("falaj0:"))
            .expect("its interface");
        let columns: Vec<u64> =
            line.split_whitespace().map(|word| word.parse().expect("a count")).collect();
        assert_eq!(columns[2..4], [0, 0], "neither errors nor drops: {line}");
        columns[1]
    };
    until("as many came as were sent", || came() == sent().iter().sum::<u64>());
    told.end();
}

fn dropped(told: &LoggedService, name: &str) -> u64 {
    number(&told.up(name)["total"]["dropped"]["queue_full"])
}
