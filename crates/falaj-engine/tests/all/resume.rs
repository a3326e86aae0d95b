//! A pipe resumes in another process: no packet is lost, no packet overtakes another, and the link
//! never carries two packets at once.

use crate::common::{Dice, any_pipe, bursts, emits, impair};
use falaj_engine::message::Unit;
use falaj_engine::pipe::{Counters, PipeState};
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Label;
use falaj_sched::units::time::Time;

const PIPE: PipeId = PipeId(0);

/// The state after it was written as JSON and read back.
fn through_a_file(state: &PipeState) -> PipeState {
    serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
}

fn all_counters(engine: &Engine, flows: usize) -> Vec<Counters> {
    (0..flows as u32).map(|flow| engine.counters(PIPE, FlowId(flow))).collect()
}

#[test]
fn nothing_is_lost_or_overtakes_and_the_link_is_given_one_at_a_time() {
    let mut resumed = 0;
    for seed in 0..4_000 {
        let mut dice = Dice::new(seed);
        let mut spec = any_pipe(&mut dice);
        let is_impaired = seed % 4 == 3;
        if is_impaired {
            impair(&mut dice, &mut spec);
        }
        let arrivals = bursts(&mut dice, &spec, 15_000);
        let flows = spec.setup.number_of_leaves();
        let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let (mut out, mut before) = (Vec::new(), Vec::new());
        let stops = dice.from(1, arrivals.len() as u64) as usize;
        for (n, arrival) in arrivals.iter().enumerate() {
            if n == stops {
                let now = Time(arrivals[n - 1].at.0 + dice.from(0, 300)).min(arrival.at);
                engine.poll(now, &mut out);
                before = std::mem::take(&mut out);
                let Some(state) = engine.state(PIPE) else { break };
                let then = all_counters(&engine, flows);
                let sending = before.iter().filter(|output| is_on_the_wire(output, now)).count();
                let mut other = Engine::new(std::slice::from_ref(&spec)).unwrap();
                let same = other.resume(
                    PIPE,
                    through_a_file(&state),
                    &|_| Label::default(),
                    now,
                    &mut out,
                );
                assert!(same, "seed {seed}: {spec:?}");
                let dropped = out.iter().filter(|output| is_dropped(output)).count();
                let is = all_counters(&other, flows);
                let sum = |all: &[Counters], of: fn(&Counters) -> u64| -> u64 {
                    all.iter().map(of).sum()
                };
                for of in [|c: &Counters| c.offered, |c: &Counters| c.dropped_full] {
                    assert_eq!(sum(&then, of), sum(&is, of), "seed {seed}: {spec:?}");
                }
                assert_eq!(dropped, 0, "seed {seed}: {spec:?}");
                assert!(sending <= 1 || is_impaired, "seed {seed}");
                engine = other;
                resumed += 1;
            }
            let unit = Unit { flow: arrival.flow, handle: n as u32, bytes: arrival.bytes };
            engine.input(PIPE, unit, arrival.at, &mut out);
        }
        engine.poll(Time(1 << 50), &mut out);
        let all: Vec<Output> = before.into_iter().chain(out).collect();
        assert_eq!(
            decided(&all),
            arrivals.len(),
            "seed {seed}: each is sent or dropped, and once: {spec:?}"
        );
        let sent = emits(&all);
        let free = sent.windows(2).all(|two| two[0].end <= two[1].start || is_impaired);
        assert!(free, "seed {seed}: {spec:?}");
    }
    assert!(resumed > 3_000, "{resumed}");
}

fn is_on_the_wire(output: &Output, now: Time) -> bool {
    matches!(output, Output::Emit(emit) if emit.end > now)
}

fn is_dropped(output: &Output) -> bool {
    matches!(output, Output::Drop(dropped) if dropped.why == falaj_engine::DropReason::QueueFull)
}

/// Number of packets that were sent or dropped, by their handles. Panics if a handle occurs twice.
fn decided(all: &[Output]) -> usize {
    let mut handles: Vec<u32> = all
        .iter()
        .filter_map(|output| match output {
            Output::Emit(emit) => Some(emit.handle),
            Output::Drop(dropped) => Some(dropped.handle),
            _ => None,
        })
        .collect();
    let number = handles.len();
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(handles.len(), number, "one was decided twice");
    number
}

/// The state of another pipe is refused, and nothing changes.
#[test]
fn a_state_of_another_pipe_is_refused() {
    let mut dice = Dice::new(1);
    let (one, other) = (any_pipe(&mut dice), any_pipe(&mut dice));
    let state = Engine::new(std::slice::from_ref(&one)).unwrap().state(PIPE).unwrap();
    let mut engine = Engine::new(std::slice::from_ref(&other)).unwrap();
    assert_ne!(one.setup.number_of_leaves(), other.setup.number_of_leaves(), "drawn to differ");
    let mut out = Vec::new();
    assert!(!engine.resume(PIPE, state, &|_| Label::default(), Time::ZERO, &mut out));
    assert!(out.is_empty());
}
