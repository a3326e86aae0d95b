//! Timer wheels, compared with a naive model without wheels; and the shares of backlogged flows.

use crate::common::emits;
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

/// Nanoseconds of a byte.
const BYTE: u64 = 8;
const LARGEST: u32 = 4;

fn pipe(weights: &[u64], queue: u32) -> PipeSpec {
    let flow = |&weight| FlowSetup {
        values: Values::default().with("weight", Value::Count(weight)),
        limit: Limit::Packets(queue),
        inner: None,
    };
    let flows = weights.iter().map(flow).collect();
    let setup = Setup {
        rate: Rate::from_mbit(1000),
        largest: LARGEST,
        scheduler: Values::default(),
        flows,
    };
    PipeSpec::new("timer-wheels", setup, Span::ZERO)
}

/// The same rules without wheels: each decision compares the due times of all heads.
struct Model {
    weights: Vec<u64>,
    queues: Vec<VecDeque<u32>>,
    due: Vec<u128>,
    /// Sequence number of the head among all heads: its order in its slot.
    sequence: Vec<u64>,
    count: u64,
    time: u128,
    sending: Option<(usize, u64)>,
    out: Vec<(u32, u64)>,
}

impl Model {
    fn new(weights: &[u64]) -> Model {
        let n = weights.len();
        Model {
            weights: weights.to_vec(),
            queues: vec![VecDeque::new(); n],
            due: vec![0; n],
            sequence: vec![0; n],
            count: 0,
            time: 0,
            sending: None,
            out: Vec::new(),
        }
    }

    fn head(&mut self, f: usize, after: u128) {
        let byte = ((1u128 << 24) as f64 / self.weights[f] as f64).round() as u128;
        self.due[f] = after + u128::from(self.queues[f][0]) * byte;
        self.count += 1;
        self.sequence[f] = self.count;
    }

    /// Start and end of the slot of a flow's head, and the least weight whose slots have this
    /// width.
    fn slot(&self, f: usize) -> (u128, u128, u64) {
        let least = (0..).map(|k| 1u64 << k).take_while(|&w| w <= self.weights[f]).last().unwrap();
        let packet = (u128::from(LARGEST) << 24) / u128::from(least);
        let width = (0..).map(|k| 1u128 << k).take_while(|&w| w * 8 <= packet).last().unwrap();
        let start = self.due[f] / width * width;
        (start, start + width, least)
    }

    fn serve(&mut self, now: u64) {
        let waiting = (0..self.queues.len()).filter(|&f| !self.queues[f].is_empty());
        let key = |&f: &usize| {
            let (_, end, least) = self.slot(f);
            (end, u64::MAX - least, self.sequence[f])
        };
        let Some(f) = waiting.min_by_key(key) else { return };
        self.time = self.time.max(self.slot(f).0);
        let end = now + u64::from(self.queues[f][0]) * BYTE;
        self.sending = Some((f, end));
        self.out.push((f as u32, end));
    }

    fn until(&mut self, now: u64) {
        while let Some((f, end)) = self.sending.filter(|&(_, end)| end <= now) {
            self.sending = None;
            self.queues[f].pop_front();
            if !self.queues[f].is_empty() {
                self.head(f, self.due[f]);
            }
            self.serve(end);
        }
    }

    fn arrive(&mut self, f: usize, bytes: u32, now: u64) {
        self.until(now);
        self.queues[f].push_back(bytes);
        if self.queues[f].len() == 1 {
            self.head(f, self.time);
        }
        if self.sending.is_none() {
            self.serve(now);
        }
    }
}

/// All sequences of six steps: a packet of 1 or 4 B for one of three flows, or three byte times
/// without a packet.
#[test]
fn wheels_do_what_looking_at_all_heads_does() {
    for weights in [[1, 1, 1], [1, 2, 4], [3, 1, 5], [65_536, 7, 100]] {
        let spec = pipe(&weights, 9);
        for sequence in 0..7u32.pow(6) {
            let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
            let mut model = Model::new(&weights);
            let (mut out, mut now, mut rest) = (Vec::new(), 0, sequence);
            for _ in 0..6 {
                match rest % 7 {
                    6 => now += 3 * BYTE,
                    step => {
                        let (f, bytes) =
                            (step / 2, if step.is_multiple_of(2) { 1 } else { LARGEST });
                        let unit = Unit { flow: FlowId(f), handle: 0, bytes };
                        engine.input(PipeId(0), unit, Time(now), &mut out);
                        model.arrive(f as usize, bytes, now);
                    }
                }
                rest /= 7;
            }
            engine.poll(Time(10_000), &mut out);
            model.until(10_000);
            let ours: Vec<_> = emits(&out).iter().map(|e| (e.flow.0, e.end.0)).collect();
            assert_eq!(ours, model.out, "weights {weights:?}, sequence {sequence}");
        }
    }
}

/// Serves `packets` packets of flows that are always backlogged. Returns the bytes of each flow,
/// and the time of the last departure.
fn served(engine: &mut Engine, from: Time, flows: u32, packets: usize) -> (Vec<u64>, Time) {
    let (mut bytes, mut now, mut out) = (vec![0; flows as usize], from, Vec::new());
    for _ in 0..packets {
        now = engine.next_event();
        engine.poll(now, &mut out);
        for output in std::mem::take(&mut out) {
            let Output::Emit(e) = output else { panic!("{output:?}") };
            bytes[e.flow.index()] += u64::from(e.bytes);
            let unit = Unit { flow: e.flow, handle: 0, bytes: 1 + (e.handle + e.bytes) % LARGEST };
            engine.input(PipeId(0), unit, now, &mut out);
        }
    }
    (bytes, now)
}

#[test]
fn backlogged_flows_share_by_weight_and_a_change_of_weights_counts_at_once() {
    let mut engine = Engine::new(&[pipe(&[1, 3, 40, 65_536], 9)]).unwrap();
    let mut out = Vec::new();
    for f in 0..4 {
        for _ in 0..4 {
            engine.input(
                PipeId(0),
                Unit { flow: FlowId(f), handle: 0, bytes: LARGEST },
                Time::ZERO,
                &mut out,
            );
        }
    }
    let all = |bytes: &[u64]| bytes.iter().sum::<u64>();
    // Long enough for the least weight to have a share of some packets.
    let (before, now) = served(&mut engine, Time::ZERO, 4, 1_000_000);
    for (f, weight) in [1, 3, 40, 65_536].into_iter().enumerate() {
        let share = all(&before) as f64 * f64::from(weight) / 65_580.0;
        assert!(
            (before[f] as f64 - share).abs() <= 40.0,
            "{before:?}: {share} B for a weight of {weight}"
        );
    }
    let prepared = engine.prepare(PipeId(0), &pipe(&[10, 10, 20, 40], 9)).unwrap();
    engine.apply(prepared, now, &mut out).unwrap();
    let (after, _) = served(&mut engine, now, 4, 1_000);
    for (f, weight) in [10, 10, 20, 40].into_iter().enumerate() {
        let share = all(&after) as f64 * f64::from(weight) / 80.0;
        assert!(
            (after[f] as f64 - share).abs() <= 12.0,
            "{after:?}: {share} B for a weight of {weight}"
        );
    }
}

#[test]
fn a_weight_of_nothing_is_refused() {
    for weight in [0, 65_537, u64::MAX] {
        let (_, refused) = Engine::new(&[pipe(&[1, weight], 9)]).err().unwrap();
        let refused = refused.into_iter().next().expect("a reason");
        assert_eq!((refused.flow, refused.param), (Some(1), "weight"));
    }
}
