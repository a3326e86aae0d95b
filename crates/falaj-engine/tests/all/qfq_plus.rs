//! QFQ+ compared with its definition. One byte takes 8 ns.

use crate::common::aggregates::Naive;
use crate::common::{Arrival, Dice, emits, run};
use falaj_engine::Emit;
use falaj_engine::pipe::PipeSpec;
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

const LARGEST: u32 = crate::common::aggregates::LARGEST;

fn pipe(weights: &[u64]) -> PipeSpec {
    let flow = |&w: &u64| {
        FlowSetup::new(Values::default().with("weight", Value::Count(w)), Limit::Packets(1000))
    };
    let flows = weights.iter().map(flow).collect();
    let setup = Setup {
        rate: Rate::from_mbit(1000),
        largest: LARGEST,
        scheduler: Values::default(),
        flows,
    };
    PipeSpec::new("qfq+", setup, Span::ZERO)
}

/// The engine's departures; the arrivals are (time in byte times, flow, bytes).
fn departures(weights: &[u64], arrivals: &[(u64, usize, u32)]) -> Vec<Emit> {
    let arrival = |&(at, f, bytes): &(u64, usize, u32)| Arrival {
        at: Time(at * 8),
        flow: FlowId(f as u32),
        bytes,
    };
    emits(&run(&pipe(weights), &arrivals.iter().map(arrival).collect::<Vec<_>>(), |_, _, _| {}))
}

/// Asserts that every packet starts when the link becomes free, and that the model could choose its
/// flow at this instant.
fn beside_the_model(weights: &[u64], arrivals: &[(u64, usize, u32)]) {
    let mut model = Naive::new(weights);
    let (mut next, mut free_at) = (arrivals.iter().peekable(), 0);
    for e in departures(weights, arrivals) {
        let mut best = model.choose();
        if best.is_empty() {
            let &(at, f, bytes) = next.next().expect("a packet to send");
            model.arrive(f, bytes);
            free_at = at;
            best = model.choose();
        }
        let f = e.flow.index();
        assert_eq!(e.start.0, free_at * 8, "{weights:?} {arrivals:?}");
        assert!(
            best.contains(&f),
            "{weights:?} {arrivals:?}: {f} at {free_at} instead of {best:?}"
        );
        free_at += u64::from(model.begin(f));
        while let Some((_, f, bytes)) = next.next_if(|a| a.0 < free_at) {
            model.arrive(*f, *bytes);
        }
        model.left(f);
    }
    assert!(next.next().is_none() && model.choose().is_empty());
}

const SIZES: [u32; 7] = [4, 2, 4, 1, 3, 4, 4];

/// All sequences of seven steps: in a step, a packet arrives at one of four flows, or three byte
/// times pass.
#[test]
fn every_short_sequence_is_served_by_definition() {
    let steps = 7u32;
    for weights in [[1, 1, 1, 1], [1, 1, 2, 2], [2, 1, 1, 8]] {
        for n in 0..5u32.pow(steps) {
            let (mut at, mut arrivals) = (0, Vec::new());
            for step in 0..steps {
                match n / 5u32.pow(step) % 5 {
                    4 => at += 3,
                    f => arrivals.push((at, f as usize, SIZES[arrivals.len()])),
                }
            }
            beside_the_model(&weights, &arrivals);
        }
    }
}

/// Longer sequences, with enough flows for several aggregates, and for incomplete ones.
#[test]
fn long_sequences_are_served_by_definition() {
    for seed in 0..3_000 {
        let mut dice = Dice::new(seed);
        let mut weights = Vec::new();
        for w in [1, dice.one_of(&[4, 32])] {
            weights.extend(vec![w; dice.one_of(&[0, 1, 2, 4, 8, 9, 16])]);
        }
        if weights.is_empty() {
            continue;
        }
        let (mut at, mut arrivals) = (0, Vec::new());
        let longest = dice.from(1, 12);
        for _ in 0..dice.from(10, 70) {
            let f = dice.from(0, weights.len() as u64 - 1) as usize;
            for _ in 0..dice.one_of(&[1, 1, 5]) {
                arrivals.push((at, f, dice.from(1, LARGEST.into()) as u32));
            }
            at += dice.from(0, longest);
        }
        beside_the_model(&weights, &arrivals);
    }
}

/// With extreme packet sizes and weights no number overflows, and flows of equal weight send almost
/// equally many packets.
#[test]
fn the_largest_packets_and_weights_are_served() {
    for (weight, largest) in
        [(1, 1 << 18), (65_536, 1 << 18), (65_536, 1), (40_000, 9000), (1, 1 << 16)]
    {
        let mut spec = pipe(&[weight; 20]);
        spec.setup.largest = largest;
        let arrivals: Vec<Arrival> = (0..20 * 40)
            .map(|n| Arrival {
                at: Time(n / 400 * 50_000_000),
                flow: FlowId(n as u32 % 20),
                bytes: largest,
            })
            .collect();
        let out = emits(&run(&spec, &arrivals, |_, _, _| {}));
        let mut sent = [0u32; 20];
        for e in &out[..out.len() / 2] {
            sent[e.flow.index()] += 1;
        }
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(most - least <= 4, "{weight} {largest}: {sent:?}");
    }
}
