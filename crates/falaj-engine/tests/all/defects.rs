//! Defects of earlier schedulers and emulators, found in dummynet's sources (or by running them)
//! and in the history of Linux's sch_qfq: the tests named here fail if falaj has them. Some tests
//! are in this file; `TESTS` names all.

use crate::common::emits;
use falaj_engine::impair::Impairments;
use falaj_engine::impair::loss::Loss;
use falaj_engine::key::Key;
use falaj_engine::masks::mask::AddressBits;
use falaj_engine::masks::{Mask, MaskConfig, MaskIds, Masks};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

/// The defect, and the test that fails if falaj has it: its file, and its name.
const TESTS: &[(&str, &str, &str)] = &[
    (
        "QFQ's time goes by a constant sum of weights",
        ENGINE_QFQ,
        "lags_are_those_of_the_true_sum_in_every_mix",
    ),
    ("a sum of weights above 131072 crashes QFQ", ENGINE_QFQ, "any_sum_of_weights_is_served"),
    (
        "a priority of 32 or more crashes",
        ROUND_ROBIN,
        "there_is_a_queue_for_each_flow_and_no_last_level",
    ),
    (
        "flows of one priority share a queue and its counters",
        ROUND_ROBIN,
        "there_is_a_queue_for_each_flow_and_no_last_level",
    ),
    (
        "`pri` is read and means nothing",
        "falaj-import/tests/all/ipfw.rs",
        "pri_means_nothing_and_that_is_said",
    ),
    (
        "heaps grow sixteen places at a time",
        "falaj-engine/tests/allocation.rs",
        "heaps_have_room_for_every_flow_from_the_beginning",
    ),
    ("a profile of more than 1024 points overruns the stack", PROFILE, "a_profile_of_dummynet"),
    (
        "gaps of a profile are delays of 0 ms",
        IMPAIRMENTS,
        "a_profile_takes_the_air_and_loses_what_fails",
    ),
    ("1.5Mbit/s is 1 bit/s", "falaj-import/tests/all/ipfw.rs", "a_pipe_in_each_direction"),
    ("a delay below a tick is none", HERE, "a_delay_is_kept_to_the_nanosecond"),
    (
        "a burst is not what the page of the manual says",
        HERE,
        "a_burst_is_what_idle_time_brought_and_at_most_its_size",
    ),
    (
        "marks of RED come whatever the probability",
        "falaj-sched/src/queues/aqm/red.rs",
        "marks_are_as_rare_as_drops_would_be_and_certainty_is_a_drop",
    ),
    (
        "a change drops what is queued",
        "falaj-engine/tests/all/changes.rs",
        "no_change_loses_or_reorders_a_packet",
    ),
    ("counters have 32 bits", HERE, "counters_go_on_beyond_32_bits"),
    ("numbers of buckets have 8 bits", HERE, "more_than_256_ids_have_queues_of_their_own"),
    ("who is forgotten owes nothing", ENGINE_QFQ, "leaving_does_not_cancel_a_debt"),
    (
        "who is forgotten owes nothing, of masks",
        "falaj-engine/tests/all/masks.rs",
        "debts_outlast_idleness",
    ),
    (
        "sch_qfq: a slot's shift below zero",
        ENGINE_QFQ,
        "the_shortest_packets_of_the_heaviest_flows_are_told_apart",
    ),
    (
        "sch_qfq: a longer packet leads out of the groups",
        ENGINE_QFQ,
        "the_largest_packet_grows_while_packets_wait",
    ),
    (
        "sch_qfq: idle classes count in the sum of weights",
        ENGINE_QFQ,
        "silent_neighbours_change_nothing",
    ),
    (
        "sch_qfq: who is active is told from another one's queue",
        "falaj-engine/tests/all/heads.rs",
        "what_goes_another_way_leaves_no_place_behind",
    ),
    (
        "sch_qfq: a change that fails leaves half of itself",
        "falaj-engine/tests/all/changes.rs",
        "flows_do_not_vanish_and_a_bad_setup_changes_nothing",
    ),
];

const HERE: &str = "falaj-engine/tests/all/defects.rs";
const ENGINE_QFQ: &str = "falaj-engine/tests/all/qfq.rs";
const ROUND_ROBIN: &str = "falaj-engine/tests/all/round_robin.rs";
const IMPAIRMENTS: &str = "falaj-engine/tests/all/impairments.rs";
const PROFILE: &str = "falaj-scenario/src/files/profile.rs";

#[test]
fn every_defect_has_its_test() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("crates stand beside each other");
    for (defect, file, test) in TESTS {
        let text =
            std::fs::read_to_string(crates.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let named = lines.iter().position(|line| line.starts_with(&format!("fn {test}()")));
        let named = named.unwrap_or_else(|| panic!("{file} has no test {test} for: {defect}"));
        assert_eq!(lines[named - 1], "#[test]", "{test}");
    }
}

const PIPE: PipeId = PipeId(0);

fn link(kind: &'static str, limit: u32) -> PipeSpec {
    let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(limit))];
    let setup =
        Setup { rate: Rate::from_mbit(80), largest: 1 << 18, scheduler: Values::default(), flows };
    PipeSpec::new(kind, setup, Span::ZERO)
}

fn send(engine: &mut Engine, bytes: u32, at: u64) -> Vec<Output> {
    let mut out = Vec::new();
    engine.input(PIPE, Unit { flow: FlowId(0), handle: 0, bytes }, Time(at), &mut out);
    out
}

/// A kernel with ticks of a millisecond cannot represent shorter delays.
#[test]
fn a_delay_is_kept_to_the_nanosecond() {
    for delay in [1, 999, 999_999, 1_000_001, 1_500_000] {
        for kind in ["fifo", "qfq"] {
            let spec = PipeSpec { delay: Span(delay), ..link(kind, 10) };
            let mut engine = Engine::new(&[spec]).unwrap();
            for at in [0, 123_456_789] {
                let sent = emits(&send(&mut engine, 1_000, at));
                assert_eq!(
                    (sent[0].end, sent[0].due),
                    (Time(at + 100_000), Time(at + 100_000 + delay)),
                    "{kind}"
                );
                engine.poll(Time(at + 100_000), &mut Vec::new());
            }
        }
    }
}

/// Tokens for 1000 B accrue in every 100 us, up to 10 000 B. So a burst has the bytes of the idle
/// time before it, and at most the size of the bucket.
#[test]
fn a_burst_is_what_idle_time_brought_and_at_most_its_size() {
    let spec = PipeSpec { capacity: Capacity::TokenBucket(10_000), ..link("fifo", 50) };
    let mut engine = Engine::new(&[spec]).unwrap();
    let mut at_once = |at| {
        engine.poll(Time(at), &mut Vec::new());
        (0..15)
            .flat_map(|_| emits(&send(&mut engine, 1_000, at)))
            .filter(|e| e.end == Time(at))
            .count()
    };
    // Full at first; the other five have left at 500 us.
    assert_eq!(at_once(0), 10);
    // 300 us of idle time; the other twelve have left at 2 ms.
    assert_eq!(at_once(800_000), 3);
    assert_eq!(at_once(1_000_000_000), 10);
}

#[test]
fn counters_go_on_beyond_32_bits() {
    const N: u64 = 20_000;
    const BYTES: u64 = 1 << 18;
    const { assert!((N - 2) * BYTES > 1 << 32) };
    let of = |spec: PipeSpec, gap: u64| {
        let mut engine = Engine::new(&[spec]).unwrap();
        for n in 0..N {
            engine.poll(Time(n * gap), &mut Vec::new());
            send(&mut engine, BYTES as u32, n * gap);
        }
        engine.poll(Time::NEVER, &mut Vec::new());
        engine.counters(PIPE, FlowId(0))
    };
    let full = of(link("qfq", 2), 0);
    assert_eq!(
        (full.offered_bytes, full.sent_bytes, full.dropped_full),
        (N * BYTES, 2 * BYTES, N - 2)
    );
    let loss = Some(Loss::Every(1));
    let lost = of(
        PipeSpec { impairments: Impairments { loss, ..Impairments::default() }, ..link("qfq", 2) },
        1_000_000_000,
    );
    assert_eq!((lost.lost, lost.lost_bytes), (N, N * BYTES));
}

#[test]
fn more_than_256_ids_have_queues_of_their_own() {
    const IDS: u32 = 1_000;
    let mask = Mask { src: Some(AddressBits::WHOLE), ..Mask::default() };
    let each = MaskConfig { mask, most: IDS, expire: Span(1 << 40) };
    let id = |address: u32| {
        let key =
            Key { src: Some(std::net::Ipv4Addr::from_bits(address).into()), ..Key::default() };
        let id = each.mask.id(&key);
        MaskIds { link: id, flow: id, short: false }
    };
    let spec = PipeSpec { masks: Masks { link: None, flows: vec![Some(each)] }, ..link("drr", 2) };
    let mut engine = Engine::new(&[spec]).unwrap();
    let mut out = Vec::new();
    for handle in 0..3 {
        for address in 0..IDS {
            let unit = Unit { flow: FlowId(0), handle: handle * IDS + address, bytes: 100 };
            engine.input_of(PIPE, unit, &id(address), Time::ZERO, &mut out);
        }
    }
    let report = engine.mask_stats(PIPE, Some(FlowId(0)), 1).expect("it has a mask");
    assert_eq!((report.active, report.beyond), (u64::from(IDS), 0));
    engine.poll(Time::NEVER, &mut out);
    let mut sent = vec![0; IDS as usize];
    emits(&out).iter().for_each(|e| sent[(e.handle % IDS) as usize] += 1);
    assert_eq!(
        sent,
        vec![2; IDS as usize],
        "each queue holds two, and who shared one would have lost more"
    );
}
