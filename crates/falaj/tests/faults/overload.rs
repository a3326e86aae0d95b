//! Ten times what the link carries.

use crate::scene::{Footprint, Sender, Told, number, until};
use crate::service::THREE;
use crate::soak::long;
use std::time::{Duration, Instant};

/// Resident memory of a process, in kB.
#[derive(Clone, Copy)]
pub(crate) struct Resident {
    pub(crate) all: u64,
    /// What is no page of a file. Of those the kernel keeps as many as it has room for.
    pub(crate) own: u64,
}

impl Resident {
    pub(crate) fn of(process: u32) -> Resident {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of it");
            line.trim().split(' ').next().expect("a number").parse().expect("one")
        };
        Resident { all: number("VmRSS:"), own: number("RssAnon:") }
    }
}

/// For a minute where [`long`] is as long, who keeps to what was agreed is promised and gets it; what others send beyond is theirs to lose, and takes no memory.
pub(crate) fn tenfold() {
    let told = Told::start("overload", THREE, &[]);
    let _calm = Sender::calm(&told, "calm");
    told.passes("calm");
    let held = Footprint::of(told.id());
    // 1442 B each 100 us are 115 Mbit/s, from both: ten times 20 Mbit/s and more, if the machine can.
    let flood = [Sender::each(&told, "greedy", 100), Sender::each(&told, "wild", 100)];
    until("queues are full", || ["greedy", "wild"].iter().all(|name| dropped(&told, name) > 0));
    let (before, began) = (Resident::of(told.id()).own, Instant::now());
    told.read_again(&THREE.replace("20mbit", "19mbit"));
    while began.elapsed() < long().min(Duration::from_secs(60)) {
        told.adds_up();
        std::thread::sleep(Duration::from_millis(200));
    }
    until("the file as it is now", || told.rate("calm") == 9_500_000);
    told.passes("calm");
    let after = Resident::of(told.id()).own;
    assert!(after <= before + 8_192, "{before} kB, then {after} kB");
    drop(flood);
    until("all that waited has left", || ["greedy", "wild"].iter().all(|name| told.up(name)["backlog"] == 0));
    told.passes("calm");
    told.adds_up();
    for name in ["calm", "greedy"] {
        assert_eq!(told.up(name)["breaches"]["rate"], 0, "{:#}", told.up(name));
    }
    held.is_that_of(told.id());
    told.end();
}

fn dropped(told: &Told, name: &str) -> u64 {
    number(&told.up(name)["total"]["dropped"]["queue_full"])
}
