//! The instants and the number of polls make no difference.

use crate::common::{Dice, any_pipe, bursts, by_device, impair, run};
use falaj_sched::units::time::Time;

#[test]
fn extra_spurious_and_late_polls_change_no_decision() {
    for seed in 0..3_000 {
        let mut dice = Dice::new(seed);
        let mut spec = any_pipe(&mut dice);
        if seed % 2 == 1 {
            impair(&mut dice, &mut spec);
        } else if seed % 4 == 2 {
            by_device(&mut dice, &mut spec);
        }
        let arrivals = bursts(&mut dice, &spec, 15_000);
        let late = run(&spec, &arrivals, |_, _, _| {});
        let mut now = Time::ZERO;
        let eager = run(&spec, &arrivals, |engine, until, out| {
            while now < until {
                now = Time(now.0 + dice.from(0, 300)).min(until);
                if dice.from(0, 3) == 0 {
                    // Also at the exact instants of its own events.
                    now = now.max(engine.next_event().min(until));
                }
                for _ in 0..dice.from(1, 3) {
                    engine.poll(now, out);
                }
            }
        });
        assert_eq!(late, eager, "seed {seed}: {spec:?}");
    }
}
