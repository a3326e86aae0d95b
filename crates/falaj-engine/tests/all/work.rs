//! Work conservation: the unfinished work of a link is the same as with one queue, at every
//! instant.

use crate::common::{Dice, any_pipe, become_kind, bursts, emits, run};
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Emit, Output};
use falaj_sched::contract::params::{Value, Values};
use falaj_sched::queues::queue::Limit;
use falaj_sched::registry::ENTRIES;
use falaj_sched::units::time::Time;

/// Number of random pipes that are compared for each scheduler.
const SEEDS: u64 = 150;

/// The intervals in which the link is busy without a pause.
fn busy(sent: &[Emit]) -> Vec<(Time, Time)> {
    let mut all: Vec<(Time, Time)> = Vec::new();
    for e in sent {
        match all.last_mut() {
            Some((_, end)) if *end == e.start => *end = e.end,
            _ => all.push((e.start, e.end)),
        }
    }
    all
}

/// The unfinished work under two disciplines is equal at every instant if and only if both use the
/// link at the same times. The test compares these times. Rates are odd, so ends are rounded to
/// nanoseconds.
#[test]
fn unfinished_work_is_that_of_one_queue_at_every_instant() {
    for entry in ENTRIES {
        let limited = entry.idles.and_then(|idles| idles.only_with);
        let waits = entry.idles.is_some() && limited.is_none();
        let (mut periods, mut compared, mut waited) = (0, 0, 0);
        for seed in 0..4 * SEEDS {
            if compared == SEEDS {
                break;
            }
            let mut dice = Dice::new(seed ^ 0x3029_4b1d);
            let mut spec = any_pipe(&mut dice);
            spec.setup.flows = spec.setup.leaves().into_iter().cloned().collect();
            become_kind(&mut dice, &mut spec, entry);
            // Without its rate limits, a flow is not held back.
            let free = |values: &mut Values| {
                let held = |name: &str| limited.is_some_and(|key| name.starts_with(key));
                let kept = values.iter().filter(|(name, _)| !held(name));
                *values = kept.fold(Values::default(), |all, (name, value)| all.with(name, value));
            };
            free(&mut spec.setup.scheduler);
            for f in &mut spec.setup.flows {
                f.limit = Limit::Packets(1_000_000);
                free(&mut f.values);
            }
            let mut one = PipeSpec { kind: "fifo", ..spec.clone() };
            one.setup.scheduler =
                Values::default().with("queue", Value::Limit(Limit::Packets(1_000_000)));
            one.setup.flows.iter_mut().for_each(|f| f.values = Values::default());
            if entry.kind == "fifo" {
                spec.setup.scheduler = one.setup.scheduler.clone();
            }
            let arrivals = bursts(&mut dice, &spec, 15_000);
            let [ours, queue] = [&spec, &one].map(|spec| run(spec, &arrivals, |_, _, _| {}));
            // Some disciplines drop packets themselves, because of their delay or after collisions;
            // runs with drops are not compared.
            if ours.iter().any(|o| matches!(o, Output::Drop(_))) {
                continue;
            }
            let [ours, queue] = [ours, queue].map(|out| busy(&emits(&out)));
            assert!(waits || ours == queue, "seed {seed}: {ours:?} instead of {queue:?}: {spec:?}");
            waited += u64::from(ours != queue);
            compared += 1;
            periods += queue.len();
        }
        assert!(!waits || waited > SEEDS / 20, "{} waits {waited} times", entry.kind);
        assert!(
            waits || compared == SEEDS && periods > 2 * SEEDS as usize,
            "{}: {compared} of {periods}",
            entry.kind
        );
    }
}
