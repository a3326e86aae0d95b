//! Lack of memory: the number of flows is limited, and packets may take only a part of the
//! process's memory.

use super::scene::{Footprint, Link, LoggedService, Sender, asking, me, number, scenario, until};
use crate::common::program;
use crate::service::THREE;
use serde_json::{Value, json};
use std::process::Command;

/// Flows beyond `max-flows` share queues; no packets are lost because of that.
pub(crate) fn flows() {
    let text = "[link.many]\nrate = \"100mbit\"\nscheduler = { kind = \"drr\" }\n\
                [link.many.flow.users]\nmatch = \"any\"\nmask = \"src sport\"\nmax-flows = 4\n";
    let text = scenario("max-flows.toml", text);
    let (ask, echo) = asking();
    let many = format!("for n in $(seq 40); do {} --send 10.77.0.2:9 0 100 3; done; {ask}", me());
    let link = Link::start("flows", &["--stats", &text, "--peer", &echo, "--", "sh", "-c", &many]);
    until("they have sent", || link.adds_up()[1] > 5);
    let held = Footprint::of(link.child.id());
    link.set("link.many.rate=90mbit");
    link.set("link.many.flow.users.max-flows=6");
    let before = link.adds_up()[1];
    until("answers come", || link.adds_up()[1] > before + 5);
    held.is_that_of(link.child.id());
    let ran = link.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.err.contains("packets had no queue or link of their own"), "{ran:?}");
}

/// Packets for which there is no memory are lost, as at a full queue, and counted. Once queued
/// packets have left, packets pass again.
pub(crate) fn packets() {
    let (ask, echo) = asking();
    // One packet every 20 us, for ten seconds: at a higher rate, packets may be lost before the
    // link reads them.
    let flood = format!("{} --send 10.77.0.2:9 20 1400 500000; {ask}", me());
    let by = |words: &[&str]| {
        let mut command = Command::new("prlimit");
        let inner = program(words);
        // The limit is 1.5 times the memory that the program needs without packets.
        command.arg("--as=420000000").arg(inner.get_program()).args(inner.get_args());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    };
    // The link is slow enough that any host fills it within a minute.
    let words = [
        "--stats", "--rate", "1mbit", "--queue", "1000000p", "--peer", &echo, "--", "sh", "-c",
        &flood,
    ];
    let link = Link::start_by("memory", by, &words);
    let lost = || -> u64 {
        let report: Value = link.ask(&json!({ "do": "show" }));
        let all = report["ok"]["lost_elsewhere"].as_array().expect("a list");
        all.iter()
            .filter(|one| one["what"] == "packets were dropped for lack of memory")
            .map(|one| number(&one["count"]))
            .sum()
    };
    until("memory is used up", || lost() > 1_000);
    let held = Footprint::of(link.child.id());
    link.set("link.rate=1gbit");
    link.adds_up();
    until("those that were on their way have left", || {
        let before = lost();
        let came = link.adds_up()[1];
        std::thread::sleep(std::time::Duration::from_millis(300));
        lost() == before && link.adds_up()[1] > came
    });
    held.is_that_of(link.child.id());
    let ran = link.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.err.contains("packets were dropped for lack of memory"), "{ran:?}");
}

/// An adapter with a practically unlimited queue takes its share of the memory, and its neighbour
/// loses no packets because of that.
pub(crate) fn neighbours() {
    let text = THREE.replace("weight = 1\nqueue = \"50p\"\n", "weight = 1\nqueue = \"1000000p\"\n");
    let told = LoggedService::start_by("neighbours", &text, |command| {
        let mut by = Command::new("prlimit");
        // A quarter of this limit is for packets.
        by.arg("--as=800000000").arg(command.get_program()).args(command.get_args());
        by.current_dir(command.get_current_dir().expect("it has one"))
            .stdin(std::process::Stdio::null());
        *command = by;
    });
    let _calm = Sender::calm(&told, "calm");
    told.passes("calm");
    let held = Footprint::of(told.id());
    let flood = Sender::each(&told, "wild", 0);
    let backlog = || number(&told.up("wild")["backlog"]);
    let mut before = backlog();
    until("wild's backlog reaches its memory limit", || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let now = backlog();
        std::mem::replace(&mut before, now) + 100 > now && now > 50_000
    });
    told.read_again(&text.replace("20mbit", "40mbit"));
    until("the changed scenario file takes effect", || told.rate("calm") == 20_000_000);
    let calm = || number(&told.up("calm")["total"]["sent"]);
    // At one packet per 4 ms, 750 packets take 3 s; a slow host may take longer.
    let first = calm();
    until("the calm one's packets pass", || calm() > first + 750);
    drop(flood);
    // The losses are counted for each adapter: none for the neighbours, all for the flooding one.
    let lost = || -> Vec<[u64; 2]> {
        let of = |name: &str| {
            ["up", "down"].map(|way| number(&told.service.adapter(name)["no_memory"][way]))
        };
        ["calm", "greedy", "wild"].map(of).into()
    };
    let all = || {
        number(
            &told.service.get("/v1/adapters").json()["losses"]["were dropped for lack of memory"],
        )
    };
    let mut known = lost();
    until("none is lost any more", || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        std::mem::replace(&mut known, lost()) == known
    });
    // Answers from behind the uplink to `wild` find no memory either, so both directions count.
    assert!(known[2][0] > 1_000 && known[..2] == [[0; 2]; 2], "{known:?}");
    assert_eq!(all(), known[2].iter().sum::<u64>(), "{known:?}");
    let line = format!(
        "falaj_adapter_no_memory_packets_total{{adapter=\"wild\",direction=\"up\"}} {}",
        known[2][0]
    );
    let metrics = told.service.get("/metrics").body;
    assert!(metrics.lines().any(|said| said == line), "{line} is not in\n{metrics}");
    told.adds_up();
    held.is_that_of(told.id());
    told.end();
}
