//! Changes of several pipes at one instant, made in all pipes or in none: every property of a pipe,
//! flows that are added, removed and exchanged, packets that may be dropped. Every packet is
//! accounted for.

use crate::common::{Dice, any_pipe, become_kind, divide, impair};
use falaj_engine::change::PipeChange;
use falaj_engine::handover::FlowMapping;
use falaj_engine::impair::Impairments;
use falaj_engine::message::Unit;
use falaj_engine::pipe::{Counters, PipeSpec};
use falaj_engine::{ChangeError, DropReason, Engine, Output, PipeId, Prepared};
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry;
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

const PIPES: usize = 3;

fn pipe(p: usize) -> PipeId {
    PipeId(p as u32)
}

/// Changes any property of a pipe; returns the mapping of its flows.
fn change(dice: &mut Dice, spec: &mut PipeSpec) -> Vec<FlowMapping> {
    let flows = spec.setup.leaves().len();
    let mut fates = Vec::new();
    spec.setup.flows = spec.setup.leaves().into_iter().cloned().collect();
    match dice.from(0, 3) {
        0 => {
            // Some flows are removed, the others are exchanged, and new flows may be added.
            let number = dice.from(1, 6) as usize;
            let mut places: Vec<usize> = (0..number).collect();
            for _ in 0..flows {
                let other = FlowId(dice.from(0, number as u64 - 1) as u32);
                fates.push(match dice.from(0, 3) {
                    0 => FlowMapping::Joins(other),
                    1 => FlowMapping::Dropped(other),
                    _ if places.is_empty() => FlowMapping::Joins(other),
                    _ => FlowMapping::Is(FlowId(
                        places.swap_remove(dice.from(0, places.len() as u64 - 1) as usize) as u32,
                    )),
                });
            }
            let any = spec.setup.flows[0].clone();
            spec.setup.flows = vec![any; number];
        }
        1 if flows < 8 => spec.setup.flows.push(spec.setup.flows[0].clone()),
        _ => {}
    }
    let mut entry = registry::entry(spec.kind).expect("registered");
    for _ in 0..2 {
        match dice.from(0, 8) {
            0 => entry = dice.one_of(&registry::ENTRIES.iter().collect::<Vec<_>>()),
            1 => spec.setup.rate = Rate::from_bits(dice.from(900_000_000, 1_100_000_000)),
            2 => spec.delay = Span(dice.from(0, 2_000)),
            3 => impair(dice, spec),
            4 => (spec.impairments, spec.capacity) = (Impairments::default(), Capacity::Serialise),
            5 => spec.setup.largest += 1,
            6 if spec.setup.largest > 3 => spec.setup.largest -= 1,
            _ => {}
        }
    }
    if matches!(entry.kind, "virtual-links" | "dcf") {
        (spec.capacity, spec.impairments.profile) = (Capacity::Serialise, None);
    }
    spec.framing = None;
    // A limit in bytes may be too small for packets that have become larger.
    for flow in &mut spec.setup.flows {
        flow.limit = Limit::Packets(dice.from(2, 12) as u32);
    }
    become_kind(dice, spec, entry);
    if dice.from(0, 3) == 0 && spec.setup.flows.len() < 6 {
        divide(dice, spec);
    }
    fates
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Waits,
    Sent,
    Lost,
    Turned,
    Dropped,
}

/// Counters over all flows of a pipe, removed ones included.
fn all(engine: &Engine, p: usize, spec: &PipeSpec) -> Counters {
    let mut sum = engine.removed_flow_counters(pipe(p));
    (0..spec.setup.leaves().len() as u32)
        .for_each(|f| sum.add(&engine.counters(pipe(p), FlowId(f))));
    sum
}

#[test]
fn everything_changes_a_thousand_times_under_load() {
    let (mut made, mut refused, mut dropped_by_changes) = (0, 0, 0);
    for seed in 0..40 {
        let mut dice = Dice::new(seed ^ 0x7ea_5ac7);
        let mut specs: Vec<PipeSpec> = (0..PIPES).map(|_| any_pipe(&mut dice)).collect();
        let mut engine = Engine::new(&specs).unwrap();
        let (mut ends, mut of_pipe): (Vec<(u32, End)>, Vec<u32>) = (Vec::new(), Vec::new());
        let (mut now, mut out) = (Time::ZERO, Vec::new());
        let mut free = [Time::ZERO; PIPES];
        for step in 0..1_000 {
            // Pipes are kept busy: a packet takes a few hundred nanoseconds.
            let p = dice.from(0, PIPES as u64 - 1) as usize;
            let flow = FlowId(dice.from(0, specs[p].setup.leaves().len() as u64 - 1) as u32);
            let bytes = 1 + dice.from(0, u64::from(specs[p].setup.largest) - 1) as u32;
            now += Span(dice.from(0, 60));
            engine.input(pipe(p), Unit { flow, handle: ends.len() as u32, bytes }, now, &mut out);
            ends.push((p as u32, End::Waits));
            of_pipe.push(bytes);
            let mut may_drop = [false; PIPES];
            if step % 25 == 24 {
                engine.poll(now, &mut out);
                settle(&mut out, &mut ends, &mut free, [false; PIPES]);
                let (mut after, mut changes) = (specs.clone(), Vec::new());
                for (p, spec) in after.iter_mut().enumerate() {
                    if dice.from(0, 3) > 0 {
                        let flows = change(&mut dice, spec);
                        let drop = dice.from(0, 2) == 0;
                        may_drop[p] = drop
                            || flows.iter().any(|fate| matches!(fate, FlowMapping::Dropped(_)));
                        changes.push(PipeChange { pipe: pipe(p), spec: spec.clone(), flows, drop });
                    }
                }
                let before: Vec<Counters> =
                    (0..PIPES).map(|p| all(&engine, p, &specs[p])).collect();
                let prepared =
                    Prepared::new(&changes).unwrap_or_else(|(_, e)| panic!("seed {seed}: {e}"));
                match engine.apply(prepared, now, &mut out) {
                    Ok(()) => {
                        specs = after;
                        made += 1;
                    }
                    Err(unfit) => {
                        assert!(
                            matches!(
                                unfit,
                                ChangeError::Fewer { .. } | ChangeError::Smaller { .. }
                            ),
                            "seed {seed}: {unfit}"
                        );
                        assert!(
                            out.is_empty(),
                            "seed {seed}: a change that is not made does nothing"
                        );
                        let same = (0..PIPES).all(|p| all(&engine, p, &specs[p]) == before[p]);
                        assert!(same, "seed {seed}: a change that is not made changes nothing");
                        refused += 1;
                    }
                }
                for p in 0..PIPES {
                    let [was, is] = [before[p], all(&engine, p, &specs[p])];
                    assert_eq!(
                        (was.offered, was.offered_bytes),
                        (is.offered, is.offered_bytes),
                        "seed {seed}"
                    );
                    dropped_by_changes += is.dropped_by_change - was.dropped_by_change;
                }
            }
            settle(&mut out, &mut ends, &mut free, may_drop);
        }
        let mut steps = 0;
        while engine.next_event() != Time::NEVER {
            engine.poll(engine.next_event(), &mut out);
            steps += 1;
            assert!(steps < 1_000_000, "seed {seed}: never comes to an end");
        }
        settle(&mut out, &mut ends, &mut free, [false; PIPES]);
        for (p, spec) in specs.iter().enumerate() {
            let of = |end: End| ends.iter().filter(|e| **e == (p as u32, end)).count() as u64;
            let c = all(&engine, p, spec);
            assert_eq!(
                (c.backlog, c.backlog_bytes, of(End::Waits)),
                (0, 0, 0),
                "seed {seed}: some stay behind"
            );
            assert_eq!(
                c.offered,
                ends.iter().filter(|e| e.0 == p as u32).count() as u64,
                "seed {seed}"
            );
            assert_eq!(
                (c.sent, c.lost),
                (of(End::Sent) + of(End::Lost), of(End::Lost)),
                "seed {seed}"
            );
            assert_eq!(c.dropped(), of(End::Turned) + of(End::Dropped), "seed {seed}");
            assert_eq!(c.dropped_by_change, of(End::Dropped), "seed {seed}");
            let bytes = ends
                .iter()
                .zip(&of_pipe)
                .filter(|(e, _)| e.0 == p as u32)
                .map(|(_, b)| u64::from(*b))
                .sum::<u64>();
            assert!(
                c.sent_bytes <= c.offered_bytes
                    && (spec.framing.is_some() || c.offered_bytes <= bytes + 64 * c.offered)
            );
        }
    }
    assert!(
        made >= 1_000 && refused > 50 && dropped_by_changes > 100,
        "{made} {refused} {dropped_by_changes}"
    );
}

/// Checks the outputs: each packet comes out once, a wire never carries two packets at once, and a
/// change drops packets only where that is allowed.
fn settle(
    out: &mut Vec<Output>,
    ends: &mut [(u32, End)],
    free: &mut [Time; PIPES],
    may_drop: [bool; PIPES],
) {
    for output in out.drain(..) {
        let (handle, end) = match output {
            Output::Emit(e) => {
                let free = &mut free[e.pipe.0 as usize];
                assert!(e.start >= *free, "two at once");
                *free = e.end;
                (e.handle, End::Sent)
            }
            Output::Drop(d) => (
                d.handle,
                match d.why {
                    DropReason::Lost => End::Lost,
                    DropReason::Changed => {
                        assert!(may_drop[d.pipe.0 as usize], "dropped without permission");
                        End::Dropped
                    }
                    _ => End::Turned,
                },
            ),
            Output::Copy(_) | Output::Corrupt(_) | Output::Mark(_) | Output::Early(_) => continue,
            Output::Retimed(r) => {
                let free = &mut free[r.pipe.0 as usize];
                // A duplicate is retimed as well, so the new end may be recorded already.
                assert!([r.old_end, r.end].contains(free), "not the one on the wire");
                *free = r.end;
                continue;
            }
        };
        let place = &mut ends[handle as usize].1;
        assert_eq!(*place, End::Waits, "decided twice");
        *place = end;
    }
}

fn plain(limit: u32, flows: usize) -> PipeSpec {
    let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(limit)); flows];
    let setup =
        Setup { rate: Rate::from_mbit(8), largest: 1000, scheduler: Values::default(), flows };
    PipeSpec::new("drr", setup, Span::from_millis(5))
}

fn filled(limit: u32, flows: usize, packets: u32) -> (Engine, Vec<Output>) {
    let mut engine = Engine::new(&[plain(limit, flows), plain(limit, flows)]).unwrap();
    let mut out = Vec::new();
    for handle in 0..packets {
        let unit = Unit { flow: FlowId(handle % flows as u32), handle, bytes: 1000 };
        (0..2).for_each(|p| engine.input(pipe(p), unit, Time::ZERO, &mut out));
    }
    (engine, out)
}

/// A change does not fit one of two pipes: the other pipe stays unchanged as well.
#[test]
fn a_change_is_made_of_all_pipes_or_of_none() {
    let (mut engine, mut out) = filled(10, 1, 5);
    let (mut faster, mut smaller) = (plain(10, 1), plain(10, 1));
    faster.setup.rate = Rate::from_mbit(80);
    smaller.setup.largest = 999;
    let changes =
        [PipeChange::new(pipe(0), faster.clone()), PipeChange::new(pipe(1), smaller.clone())];
    let prepared = Prepared::new(&changes).unwrap();
    let unfit = engine.apply(prepared, Time(500_000), &mut out).unwrap_err();
    assert_eq!(unfit, ChangeError::Smaller { largest: 1000 });
    // With the refused change, the first pipe would send its packets in a tenth of the time.
    engine.poll(Time(4_999_999), &mut out);
    assert_eq!([0, 1].map(|p| engine.counters(pipe(p), FlowId(0)).backlog), [1, 1]);
    let changes = [
        PipeChange::new(pipe(0), faster),
        PipeChange { drop: true, ..PipeChange::new(pipe(1), smaller) },
    ];
    engine.apply(Prepared::new(&changes).unwrap(), Time(4_999_999), &mut out).unwrap();
    assert_eq!(
        engine.apply(
            Prepared::new(&[PipeChange::new(pipe(2), plain(1, 1))]).unwrap(),
            Time(4_999_999),
            &mut out
        ),
        Err(ChangeError::NoSuchPipe)
    );
}

/// A packet that has left its queue keeps its due time, even if the delay changes. The packet on
/// the wire keeps its end, even if its flow is removed or it exceeds the new largest packet.
#[test]
fn what_has_left_is_due_when_it_was_to_be() {
    let (mut engine, mut out) = filled(10, 2, 4);
    let began = crate::common::emits(&out);
    assert!(
        began.iter().all(|e| (e.end, e.due) == (Time(1_000_000), Time(6_000_000)))
            && began.len() == 2
    );
    out.clear();
    let mut spec = plain(10, 1);
    (spec.delay, spec.setup.largest) = (Span::ZERO, 500);
    let flows = vec![FlowMapping::Dropped(FlowId(0)), FlowMapping::Is(FlowId(0))];
    let change = PipeChange { pipe: pipe(0), spec, flows, drop: true };
    engine.apply(Prepared::new(&[change]).unwrap(), Time(1), &mut out).unwrap();
    assert_eq!(
        out.len(),
        3,
        "all but the one on the wire were too large, or of the flow that went: {out:?}"
    );
    assert_eq!(engine.next_event(), Time(1_000_000));
    engine.input(pipe(0), Unit { flow: FlowId(0), handle: 9, bytes: 500 }, Time(2), &mut out);
    engine.poll(Time(1_000_000), &mut out);
    let last = crate::common::emits(&out).into_iter().rfind(|e| e.pipe == pipe(0)).unwrap();
    assert_eq!((last.handle, last.start, last.due), (9, Time(1_000_000), Time(1_500_000)));
    engine.poll(Time(9_000_000), &mut out);
    let (gone, stays) =
        (engine.removed_flow_counters(pipe(0)), engine.counters(pipe(0), FlowId(0)));
    assert_eq!((gone.offered, gone.sent, gone.dropped_by_change), (1, 0, 1));
    assert_eq!(
        (stays.offered, stays.sent, stays.dropped_by_change, stays.backlog_bytes),
        (4, 2, 2, 0)
    );
    assert_eq!((stays.offered_bytes, stays.sent_bytes), (3_500, 1_500));
}

/// A smaller limit keeps the queued packets, or cuts the queue to the new length if drops are
/// allowed.
#[test]
fn a_shorter_queue_keeps_what_waits_unless_it_may_be_dropped() {
    for drop in [false, true] {
        let (mut engine, mut out) = filled(10, 1, 8);
        out.clear();
        let change = PipeChange { drop, ..PipeChange::new(pipe(0), plain(3, 1)) };
        engine.apply(Prepared::new(&[change]).unwrap(), Time(1), &mut out).unwrap();
        let counters = engine.counters(pipe(0), FlowId(0));
        assert_eq!(
            (counters.backlog, counters.dropped_by_change),
            if drop { (3, 5) } else { (8, 0) }
        );
        // The last packets to arrive are the first to be dropped.
        let dropped: Vec<u32> = out
            .iter()
            .filter_map(|o| if let Output::Drop(d) = o { Some(d.handle) } else { None })
            .collect();
        assert_eq!(dropped, if drop { vec![3, 4, 5, 6, 7] } else { vec![] });
    }
}

#[test]
fn flows_cannot_become_what_there_is_not() {
    let (mut engine, mut out) = filled(10, 2, 2);
    let change = |flows: &[FlowMapping]| {
        Prepared::new(&[PipeChange {
            flows: flows.to_vec(),
            ..PipeChange::new(pipe(0), plain(10, 2))
        }])
    };
    let is = |f| FlowMapping::Is(FlowId(f));
    let refused = Some((pipe(0), ChangeError::NoSuchFlow { flows: 2 }));
    assert_eq!(change(&[is(0), is(2)]).err(), refused);
    assert_eq!(change(&[is(1), is(1)]).err(), refused);
    let of_another_pipe = change(&[is(0), is(1), FlowMapping::Joins(FlowId(0))]).ok().unwrap();
    assert_eq!(
        engine.apply(of_another_pipe, Time(1), &mut out),
        Err(ChangeError::NoSuchFlow { flows: 2 })
    );
}
