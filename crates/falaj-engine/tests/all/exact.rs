//! Departures are exact: within any busy period the last bit of each packet leaves at the instant
//! given by integer arithmetic.

use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Emit, Engine, Output, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use proptest::prelude::*;

const PIPE: PipeId = PipeId(0);
const DELAY: Span = Span::from_micros(123);

/// A packet: time after the packet before it, in tenths of the time of a packet of 1000 B; its
/// flow; its length.
type Arrival = (u64, u32, u32);

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    // Bursts at one instant, gaps of fractions of a packet's time, and pauses that end busy
    // periods.
    let gap = prop_oneof![3 => Just(0u64), 4 => 0u64..12, 1 => 20u64..200];
    prop::collection::vec((gap, 0u32..3, 1u32..=1514), 1..300)
}

fn rate() -> impl Strategy<Value = u64> {
    prop_oneof![
        1_000u64..100_000_000,
        100_000_000u64..400_000_000_000,
        Just(3_000_000),
        Just(1_000_000_007)
    ]
}

/// Departures of a pipe of three flows with room for all, and the arrival of each packet.
fn through(kind: &'static str, rate: u64, arrivals: &[Arrival]) -> (Vec<Emit>, Vec<Time>) {
    let mut values = Values::default();
    match kind {
        "priority" => values.set("priority", Value::Count(0)),
        "scfq" | "sfq" | "wf2q+" | "qfq" => values.set("weight", Value::Count(1)),
        _ => {}
    }
    let flows = vec![FlowSetup::new(values, Limit::Packets(1000)); 3];
    let setup = Setup { rate: Rate(rate), largest: 1514, scheduler: Values::default(), flows };
    let mut engine = Engine::new(&[PipeSpec::new(kind, setup, DELAY)]).expect("a valid pipe");
    let (mut out, mut now, mut came) = (Vec::new(), Time::ZERO, Vec::new());
    for (handle, (gap, flow, bytes)) in arrivals.iter().enumerate() {
        now += Span((u128::from(*gap) * 800_000_000_000 / u128::from(rate)) as u64);
        came.push(now);
        engine.input(
            PIPE,
            Unit { flow: FlowId(*flow), handle: handle as u32, bytes: *bytes },
            now,
            &mut out,
        );
    }
    engine.poll(Time::NEVER, &mut out);
    let emit = |output: Output| match output {
        Output::Emit(emit) => emit,
        other => panic!("nothing is lost here: {other:?}"),
    };
    (out.into_iter().map(emit).collect(), came)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_departure_of_every_busy_period_is_exact(
        arrivals in arrivals(),
        rate in rate(),
        kind in prop::sample::select(vec![
            "fifo", "priority", "wrr", "drr", "scfq", "sfq", "wf2q+", "qfq",
        ]),
    ) {
        let (emits, came) = through(kind, rate, &arrivals);
        prop_assert_eq!(emits.len(), arrivals.len());
        // Start of the busy period, the bits sent in it, and the number of packets sent before.
        let (mut began, mut bits, mut free) = (Time::ZERO, 0u128, Time::ZERO);
        for (sent, emit) in emits.iter().enumerate() {
            if sent == 0 || emit.start > free {
                // The link was idle: nothing was queued, and the first packet to arrive begins at
                // once.
                prop_assert_eq!(
                    emit.start,
                    came[sent],
                    "the {}th that leaves is the {}th that came",
                    sent,
                    sent
                );
                (began, bits) = (emit.start, 0);
            }
            prop_assert!(emit.start >= emit.arrival && emit.start >= free, "one at a time");
            bits += 8 * u128::from(emit.bytes);
            // Rate times time compared with bits, in bits and nanoseconds, without a division.
            let served = u128::from((emit.end - began).0) * u128::from(rate);
            prop_assert!(
                served.abs_diff(bits * 1_000_000_000) <= u128::from(rate),
                "{:?}: {} bits since {}",
                emit,
                bits,
                began.0
            );
            prop_assert_eq!(emit.due - emit.end, DELAY);
            free = emit.end;
        }
    }
}
