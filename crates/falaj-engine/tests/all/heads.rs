//! Changing heads: a packet that leaves its queue without being sent leaves no stale entry behind,
//! in any discipline.

use crate::common::{Dice, any_pipe, become_kind, virtual_links};
use falaj_engine::pipe::PipeSpec;
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::discipline::Decision;
use falaj_sched::contract::params::Setup;
use falaj_sched::queues::queue::{FlowId, Packet};
use falaj_sched::registry::{self, ENTRIES, Visitor};
use falaj_sched::scheduler::Scheduler;
use falaj_sched::scheduler::instance::SchedulerInstance;
use falaj_sched::units::rate::Wire;
use falaj_sched::units::time::{Span, Time};

struct Life<'a>(&'a Setup, &'a mut Dice, &'a str);

impl Visitor for Life<'_> {
    type Output = ();

    /// Draws arrivals and transmissions; now and then it drops the head of a queue while it waits.
    /// Asserts that each chosen queue has a packet, that the discipline is idle only if all queues
    /// are empty, and that a decision to wait ends.
    fn visit<D: CompleteDiscipline>(self, discipline: D) {
        let Life(setup, dice, name) = self;
        let (shared, own) = (discipline.shared_queue().is_some(), discipline.own_queues());
        // A station of a radio channel drops its packet after too many failed attempts.
        let drops = discipline.manages_queues() || discipline.air(FlowId(0)).is_some();
        let mut station = SchedulerInstance::new(setup, discipline);
        let mut wire = Wire::new(setup.rate);
        let (mut now, mut queued) = (Time::ZERO, 0u32);
        let queues =
            if shared { 1 } else { own.map_or(setup.flows.len(), |(queues, _)| queues) as u64 };
        let (come, gone) = (dice.from(1, 6), dice.from(0, 4));
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps < 20_000, "{name}: never comes to an end");
            if steps < 300 {
                for _ in 0..dice.from(0, come) {
                    let flow = FlowId(dice.from(0, setup.flows.len() as u64 - 1) as u32);
                    let bytes = dice.from(1, setup.largest.into()) as u32;
                    queued += u32::from(
                        station
                            .arrive(Packet { handle: 0, bytes, flow, arrival: now }, now)
                            .is_ok(),
                    );
                    queued -= u32::from(station.evicted().is_some());
                }
            }
            for _ in 0..dice.from(0, gone) {
                let queue = FlowId(dice.from(0, queues - 1) as u32);
                if station.head(queue).is_some() {
                    station.drop_head(queue, now);
                    queued -= 1;
                }
                // An additional call of `next` in between makes no difference.
                if dice.from(0, 1) == 0 {
                    station.next(now, &wire);
                }
            }
            match station.next(now, &wire) {
                Decision::Serve(queue) => {
                    assert!(station.head(queue).is_some(), "{name}: {queue:?} has nothing");
                    let (_, sent) = station.take(queue, now, &mut wire);
                    now = sent.end;
                    station.finish(queue, now);
                    queued -= 1;
                }
                Decision::NotBefore(then) => {
                    assert!(then > now && queued > 0, "{name}: {then:?}");
                    now = if dice.from(0, 1) == 0 {
                        then
                    } else {
                        Time(dice.from(now.0 + 1, then.0))
                    };
                }
                Decision::Idle if steps < 300 => {
                    assert_eq!(queued, 0, "{name}: packets wait");
                    now += Span(dice.from(1, 3_000));
                }
                Decision::Idle => return assert_eq!(queued, 0, "{name}: packets wait"),
                Decision::Drop(queue) if drops => {
                    station.drop_head(queue, now);
                    queued -= 1;
                }
                Decision::Drop(queue) => panic!("{name}: {queue:?} is dropped"),
            }
        }
    }
}

#[test]
fn what_goes_another_way_leaves_no_place_behind() {
    for entry in ENTRIES {
        for seed in 0..150 {
            let mut dice = Dice::new(seed ^ 0x4ead);
            let mut spec: PipeSpec = any_pipe(&mut dice);
            spec.setup.flows.iter_mut().for_each(|f| f.inner = None);
            if spec.kind != entry.kind {
                spec = virtual_links(&mut dice, "packet-wise", "clean");
                become_kind(&mut dice, &mut spec, entry);
            }
            let name = format!("{} {seed}", entry.kind);
            registry::build(spec.kind, &spec.setup.clone(), Life(&spec.setup, &mut dice, &name))
                .expect("valid");
        }
    }
}
