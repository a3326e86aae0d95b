//! The disk is full.

use super::scene::{Footprint, Link, LoggedService, asking, fill, number, small_disk, until};
use crate::common::{directory, falaj};
use crate::service::THREE;
use serde_json::json;

/// The link goes on carrying packets, and reports with a reason that packets are missing in the
/// capture.
pub(crate) fn capture() {
    let capture = small_disk("disk", "400k").join("c.pcapng");
    let at = capture.to_str().expect("UTF-8");
    let (ask, echo) = asking();
    let flood = format!("{} --send 10.77.0.2:9 100 1400 3000; {ask}", super::scene::me());
    let words =
        ["--rate", "1gbit", "--capture", at, "--stats", "--peer", &echo, "--", "sh", "-c", &flood];
    let link = Link::start("capture", &words);
    // A change is made, whether or not it can be recorded.
    let made = link.ask(&json!({ "do": "set", "set": ["link.rate=2gbit"] }));
    assert!(made["ok"]["at_ns"].is_u64(), "{made}");
    until("the flood has passed, and answers come", || link.adds_up()[1] > 20);
    let held = Footprint::of(link.child.id());
    let before = link.adds_up()[1];
    until("answers come", || link.adds_up()[1] > before + 20);
    held.is_that_of(link.child.id());
    let ran = link.end();
    // The link did its work; the requested capture is incomplete.
    assert!(ran.status == Some(1) && ran.out.lines().count() > 20, "{ran:?}");
    let warning = ran
        .err
        .lines()
        .find(|line| line.contains("packets are missing in"))
        .unwrap_or_else(|| panic!("{ran:?}"));
    assert!(
        warning.ends_with(&format!("{at}: No space left on device (os error 28)")),
        "{warning}"
    );
    let missing: u64 = warning.split(' ').nth(2).expect("a number").parse().expect("one");
    // The recorded part is replayed, and has all packets that are not reported missing.
    let replayed = falaj(&["sim", "--replay", at, "--json"]);
    assert!(replayed.status == Some(1) && replayed.err.contains("breaks off"), "{replayed:?}");
    let there = number(&replayed.json()["packets"]);
    assert!(there > 100 && missing > 1_000, "{there} {missing}");
    let offered: u64 = ["up all", "down all"]
        .iter()
        .map(|flow| {
            ran.err.lines().find_map(|line| line.trim().strip_prefix(flow)).expect("its line")
        })
        .map(|line| line.split_whitespace().next().expect("a number").parse::<u64>().expect("one"))
        .sum();
    assert!(offered <= there + missing, "{offered} came, {there} are there, {missing} are missing");
}

/// A change is made, with a message that it will not survive a restart. The saved state stays as it
/// was, and no partly written file is left beside it.
pub(crate) fn state() {
    let place = small_disk("disk", "64k");
    let kept = place.join("state.toml");
    let told =
        LoggedService::start("disk-state", THREE, &["--state", kept.to_str().expect("UTF-8")]);
    let change =
        |queue: &str| told.service.patch("/v1/adapters/wild", &json!({ "queue": queue })).status;
    assert_eq!(change("60p"), 200);
    fill(&place);
    assert_eq!(change("70p"), 200);
    told.says("No space left on device (os error 28); the change is made, and is forgotten when the service ends");
    assert!(told.service.get("/v1/scenario").body.contains("70p"));
    let text = std::fs::read_to_string(&kept).expect("it is there");
    assert!(text.contains("60p") && !text.contains("70p"), "{text}");
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&place)
            .expect("ours")
            .map(|entry| entry.expect("one").file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["filler", "state.toml"]);
    told.read_again(&THREE.replace("20mbit", "40mbit"));
    told.says("was read again");
    std::fs::remove_file(place.join("filler")).expect("ours");
    assert_eq!(change("80p"), 200);
    let text = std::fs::read_to_string(&kept).expect("it is there");
    assert!(text.contains("80p") && text.contains("40mbit"), "{text}");
    assert!(directory().exists() && names() == ["state.toml"], "{:?}", names());
    told.end();
}
