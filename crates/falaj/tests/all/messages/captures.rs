//! Captures in falaj's own format with contents that no link would write; the tests create them.

use crate::common::{Ran, directory, falaj, file};
use falaj_engine::DropReason;
use falaj_sched::units::time::Time;
use falaj_traffic::capture::{BackpressureReport, Change, Taken, Verdict, Wanted, Writer};
use std::time::Duration;

const LINK: &str = "[link.a]\nrate = \"1mbit\"\n";

/// Returns a packet that arrives at `at` ns.
fn packet(number: u64, at: u64) -> Taken {
    let (way, flow, bytes, arrival) = (0, 0, 1514, Time(at));
    Taken {
        number,
        way,
        flow,
        bytes,
        length: Some(1500),
        part: None,
        arrival,
        verdict: Verdict::Waiting,
    }
}

/// Returns a change at `at` ns, after `behind` packets.
fn change(at: u64, behind: u64, scenario: &str, vacant: &[u32]) -> Change {
    let wanted = Wanted {
        what: "x=1".into(),
        scenario: scenario.into(),
        drop: false,
        vacant: vacant.to_vec(),
    };
    Change { number: 0, at: Time(at), behind, wanted }
}

fn capture(name: &str, scenario: &str, packets: &[Taken], changes: &[Change]) -> Vec<u8> {
    with_rooms(name, scenario, packets, changes, &[])
}

fn with_rooms(
    name: &str,
    scenario: &str,
    packets: &[Taken],
    changes: &[Change],
    rooms: &[BackpressureReport],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, scenario, &["near", "far"], Duration::from_secs(1))
        .expect("memory");
    packets.iter().for_each(|taken| writer.write(taken, &[0; 1514]).expect("memory"));
    changes.iter().for_each(|change| writer.change(change).expect("memory"));
    rooms.iter().for_each(|room| writer.room(room).expect("memory"));
    std::fs::write(directory().join(name), &bytes).expect("a file can be written");
    bytes
}

fn replayed(name: &str) -> Ran {
    falaj(&["sim", "--replay", name])
}

#[test]
fn captures_of_what_cannot_have_been() {
    let two = [packet(0, 1_000), packet(1, 2_000)];
    let refused =
        |name: &str, scenario: &str, packets: &[Taken], changes: &[Change], said: &str| {
            capture(name, scenario, packets, changes);
            let ran = replayed(name);
            let said = format!("falaj: {name}{said}");
            assert!(
                ran.status == Some(2) && ran.out.is_empty() && ran.err.contains(&said),
                "{said}\n{ran:#?}"
            );
        };
    let early = [packet(0, 2_000), packet(1, 1_000)];
    refused("early.pcapng", LINK, &early, &[], ": its packets are not in order of arrival");
    let flow = [Taken { flow: 7, ..packet(0, 1_000) }];
    refused(
        "flow.pcapng",
        LINK,
        &flow,
        &[],
        ": a packet belongs to a flow that its scenario does not have",
    );
    let way = [
        Taken { part: Some(0), way: 0, ..packet(0, 1_000) },
        Taken { way: 1, flow: 1, ..packet(1, 2_000) },
    ];
    refused(
        "way.pcapng",
        LINK,
        &way,
        &[],
        ": a packet belongs to a flow that its scenario does not have",
    );
    let unknown = [Taken { length: None, ..packet(0, 1_000) }];
    let rules = format!("{LINK}[[rule]]\nto = \"a\"\n");
    refused(
        "older.pcapng",
        &rules,
        &unknown,
        &[],
        " was written by an older falaj, which did not record the lengths",
    );

    let other = LINK.replace("1mbit", "2mbit");
    for (name, at, behind) in [("soon.pcapng", 500, 1), ("late.pcapng", 3_000, 1)] {
        let said = ": change 0 is not at the position among the packets that it records";
        refused(name, LINK, &two, &[change(at, behind, &other, &[])], said);
    }
    let two_links =
        "[link.a]\nrate = \"1mbit\"\n[link.b]\nrate = \"1mbit\"\n[[rule]]\nto = \"a\"\n";
    refused(
        "places.pcapng",
        LINK,
        &two,
        &[change(1_500, 1, two_links, &[0])],
        ": change 0 (x=1): a new link takes the place of one that has not ended",
    );
    let small = format!("{LINK}mtu = \"500B\"\n");
    let small = [change(1_500, 1, &small, &[])];
    refused(
        "small.pcapng",
        LINK,
        &[packet(0, 1_000), packet(1, 1_000)],
        &small,
        ": change 0 is not at the position",
    );
    let small = [Change { behind: 2, ..small[0].clone() }];
    let waits = [packet(0, 1_000), packet(1, 1_100)];
    refused(
        "small.pcapng",
        LINK,
        &waits,
        &small,
        ": change 0 (x=1): a queued packet of 1514 B would be too large",
    );
    capture("wrong.pcapng", LINK, &two, &[change(1_500, 1, "rate = 1", &[])]);
    let ran = replayed("wrong.pcapng");
    assert!(
        ran.status == Some(2)
            && ran.err.contains("wrong.pcapng (its scenario from change 0 on):1:1"),
        "{ran:#?}"
    );
}

#[test]
fn captures_that_say_less_than_they_might() {
    let two = [packet(0, 1_000), packet(1, 2_000)];
    let whole = capture(
        "whole.pcapng",
        LINK,
        &two,
        &[change(1_500, 1, &LINK.replace("1mbit", "2mbit"), &[])],
    );
    std::fs::write(directory().join("broken.pcapng"), &whole[..whole.len() - 1])
        .expect("a file can be written");
    let ran = replayed("broken.pcapng");
    assert_eq!(ran.status, Some(1), "{ran:#?}");
    assert!(ran.err.starts_with("falaj: warning: broken.pcapng breaks off: "), "{ran:#?}");
    assert!(ran.err.contains(
        ". Only the packets before that are replayed; a capture is complete when its link has ended\n"
    ));
    let ran = falaj(&["sim", file("captures.toml", LINK), "--replay", "whole.pcapng"]);
    assert_eq!(
        ran.err,
        "falaj: 1 changes in whole.pcapng are left out: they belong to the scenario in the capture\n"
    );
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    // The capture says that a packet was dropped although the queue had room.
    let dropped = [
        packet(0, 1_000),
        Taken { verdict: Verdict::Dropped(DropReason::QueueFull), ..packet(1, 2_000) },
    ];
    capture("differs.pcapng", LINK, &dropped, &[]);
    let ran = replayed("differs.pcapng");
    assert!(ran.status == Some(1) && ran.out.contains("first difference: number=1 "), "{ran:#?}");
}

/// A packet of 1514 B takes one millisecond. The device holds two packets; once full, it is offered
/// packets again when its backlog is down to half a packet.
const DEVICE: &str = "[link.a]\nrate = \"12112kbit\"\npaced-by = \"device\"\nbacklog = \"2p\"\n";

/// Returns a packet sent on that link: transmission started at `start`, in microseconds, delivered
/// at `due`.
fn sent(number: u64, arrival: u64, start: u64, due: u64) -> Taken {
    let verdict = Verdict::Sent {
        start: Time(start * 1_000),
        end: Time((start + 1_000) * 1_000),
        due: Time(due * 1_000),
    };
    Taken { verdict, ..packet(number, arrival * 1_000) }
}

/// Returns a port's report of its free space, at `at` microseconds.
fn said(number: u64, at: u64, behind: u64, bytes: u32) -> BackpressureReport {
    BackpressureReport { number, way: 0, bytes, at: Time(at * 1_000), behind }
}

/// Without the port's report, the third packet would have been delivered at 1500 us, half a
/// millisecond before the transmission of the second one ends. The port refuses from 1000 us on,
/// and has room again at 5000 us.
#[test]
fn what_a_port_said_of_its_room_is_replayed() {
    let packets = [
        sent(0, 0, 0, 0),
        sent(1, 100, 1_000, 100),
        sent(2, 200, 5_000, 5_000),
        sent(3, 1_200, 6_000, 5_000),
    ];
    let rooms = [said(0, 1_000, 3, 0), said(1, 5_000, 4, u32::MAX)];
    let replayed_with = |name: &str, rooms: &[BackpressureReport]| {
        with_rooms(name, DEVICE, &packets, &[], rooms);
        replayed(name)
    };
    let ran = replayed_with("room.pcapng", &rooms);
    assert!(
        ran.out.ends_with("every decision is the same as in the live link, to the nanosecond\n")
            && ran.status == Some(0),
        "{ran:#?}"
    );
    // Whatever is altered, the message names the first packet decided differently.
    let first = [
        ("room-sooner", vec![rooms[0], said(1, 4_000, 4, u32::MAX)], 2),
        ("room-less", vec![rooms[0], said(1, 5_000, 4, 1_514)], 2),
        ("room-refused-sooner", vec![said(0, 50, 1, 0), rooms[1]], 1),
        ("room-not-refused", vec![], 2),
    ];
    for (name, rooms, number) in first {
        let ran = replayed_with(&format!("{name}.pcapng"), &rooms);
        let first = format!("first difference: number={number} ");
        assert!(ran.status == Some(1) && ran.out.contains(&first), "{name}: {first}\n{ran:#?}");
    }
    // A missing report is detected by the numbers of the other reports.
    let ran = replayed_with("room-missing.pcapng", &rooms[1..]);
    let missing = "packets or changes are missing in the capture: decisions were not compared";
    assert!(ran.status == Some(0) && ran.out.contains(missing), "{ran:#?}");
    // An impossible report is refused.
    for (name, rooms, said) in [
        (
            "room-late.pcapng",
            [said(0, 1_300, 3, 0)],
            "is not at the position among the packets that it records",
        ),
        (
            "room-way.pcapng",
            [BackpressureReport { way: 7, ..rooms[0] }],
            "is for a direction that its scenario does not have",
        ),
    ] {
        let ran = replayed_with(name, &rooms);
        let said = format!("falaj: {name}: report 0 of a port {said}");
        assert!(
            ran.status == Some(2) && ran.out.is_empty() && ran.err.contains(&said),
            "{said}\n{ran:#?}"
        );
    }
}
