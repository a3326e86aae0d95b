//! fq compared with a naive model: two lists of queues, and pauses that are scanned.

use crate::common::{Dice, bursts};
use falaj_engine::masks::MaskIds;
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{DropReason, Engine, Output, PipeId};
use falaj_sched::contract::hooks::{MediumHooks, QueueHooks};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::disciplines::fq::Fq;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::draws::mix;
use falaj_sched::units::label::Label;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

#[derive(Clone, Copy, PartialEq, Debug)]
enum List {
    None,
    New,
    Old,
    Held,
}

/// A queue of handles and lengths.
struct Queue {
    packets: VecDeque<(u32, u64)>,
    credit: i64,
    list: List,
    until: u64,
    emptied: u64,
}

struct Model {
    queues: Vec<Queue>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum: i64,
    limit: usize,
    flow_limit: usize,
    refill: u64,
    /// Rate of a queue in bits per second; and `low`, the rate up to which each packet has a pause.
    rate: Option<u64>,
    low: u64,
    /// The queue whose head is on the wire.
    sending: Option<usize>,
}

impl Model {
    fn of(values: &Values) -> Model {
        let initial = values.bytes("initial-quantum").unwrap() as i64;
        let queue = |_| Queue {
            packets: VecDeque::new(),
            credit: initial,
            list: List::None,
            until: 0,
            emptied: 0,
        };
        Model {
            queues: (0..values.count("queues").unwrap()).map(queue).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: values.bytes("quantum").unwrap() as i64,
            limit: values.count("limit").unwrap() as usize,
            flow_limit: values.count("flow-limit").unwrap() as usize,
            refill: values.span("refill-delay").unwrap().0,
            rate: values.rate("flow-max-rate").map(|rate| rate.0),
            low: values.rate("low-rate-threshold").unwrap().0,
            sending: None,
        }
    }

    /// Returns false if the packet is dropped.
    fn enqueue(&mut self, q: usize, packet: (u32, u64), now: u64) -> bool {
        let queued: usize = self.queues.iter().map(|queue| queue.packets.len()).sum();
        let waiting = queued - usize::from(self.sending.is_some());
        let queue = &mut self.queues[q];
        if waiting >= self.limit || queue.packets.len() >= self.flow_limit {
            return false;
        }
        queue.packets.push_back(packet);
        if queue.list == List::None {
            queue.list = List::New;
            self.new.push_back(q);
            if now - queue.emptied > self.refill {
                queue.credit = queue.credit.max(self.quantum);
            }
        }
        true
    }

    /// The packet that begins at `now`: its queue, and the packet.
    fn dequeue(&mut self, now: u64) -> Option<(u32, u64)> {
        if let Some(q) = self.sending.take() {
            self.queues[q].packets.pop_front();
        }
        let mut due: Vec<usize> = (0..self.queues.len())
            .filter(|&q| self.queues[q].list == List::Held && self.queues[q].until <= now)
            .collect();
        due.sort_by_key(|&q| self.queues[q].until);
        for q in due {
            self.queues[q].list = List::Old;
            self.old.push_back(q);
        }
        while let Some(q) = self.new.front().or(self.old.front()).copied() {
            let others = !self.old.is_empty();
            let queue = &mut self.queues[q];
            let head = queue.packets.front().copied();
            if queue.credit > 0
                && queue.until <= now
                && let Some((handle, bytes)) = head
            {
                queue.credit -= bytes as i64;
                self.sending = Some(q);
                self.pause(q, bytes, now);
                return Some((handle, bytes));
            }
            let was = queue.list;
            queue.list = if queue.credit <= 0 {
                queue.credit += self.quantum;
                List::Old
            } else if head.is_some() {
                List::Held
            } else if was == List::New && others {
                List::Old
            } else {
                queue.emptied = now;
                List::None
            };
            let again = queue.list == List::Old;
            if was == List::New {
                self.new.pop_front()
            } else {
                self.old.pop_front()
            };
            if again {
                self.old.push_back(q);
            }
        }
        None
    }

    fn pause(&mut self, q: usize, bytes: u64, now: u64) {
        let Some(rate) = self.rate else { return };
        let queue = &mut self.queues[q];
        let bytes = if rate <= self.low {
            queue.credit = 0;
            bytes
        } else if queue.credit > 0 {
            return;
        } else {
            bytes.max(self.quantum as u64)
        };
        let pause = (bytes * 8_000_000_000).div_ceil(rate);
        let late = if queue.until > 0 { (now - queue.until).min(pause / 2) } else { 0 };
        queue.until = now + pause - late;
    }

    /// The next time at which a packet may begin on a free link.
    fn wakes(&self) -> Option<u64> {
        let held = self.queues.iter().filter(|queue| queue.list == List::Held);
        held.map(|queue| queue.until).min()
    }
}

fn spec(dice: &mut Dice) -> PipeSpec {
    let largest = dice.from(1, 12) as u32;
    let mut scheduler = Values::default()
        .with("limit", Value::Count(dice.from(1, 60)))
        .with("flow-limit", Value::Count(dice.from(1, 30)))
        .with("queues", Value::Count(dice.from(1, 5)))
        .with("quantum", Value::Bytes(dice.from(1, 3 * u64::from(largest))))
        .with("initial-quantum", Value::Bytes(dice.from(1, 6 * u64::from(largest))))
        .with("refill-delay", Value::Span(Span(dice.from(1, 2_000))))
        .with("low-rate-threshold", Value::Rate(Rate(dice.from(1, 300_000_000))));
    if dice.from(0, 2) > 0 {
        scheduler.set("flow-max-rate", Value::Rate(Rate(dice.from(30_000_000, 900_000_000))));
    }
    let flows =
        vec![FlowSetup::new(Values::default(), Limit::Packets(20)); dice.from(1, 3) as usize];
    let setup = Setup { rate: Rate::from_mbit(1000), largest, scheduler, flows };
    PipeSpec::new("fq", setup, Span::ZERO)
}

#[test]
fn fq_is_as_two_lists_and_pauses_say() {
    let (mut dropped_at_all, mut sent, mut held) = (0, 0, 0);
    for seed in 0..1_500 {
        let mut dice = Dice::new(seed ^ 0xf0_9ace);
        let spec = spec(&mut dice);
        let arrivals = bursts(&mut dice, &spec, 15_000);
        let mut hash = Fq::new(&spec.setup).expect("valid");
        hash.seed(mix(spec.seed));
        let mut engine = Engine::new(std::slice::from_ref(&spec)).expect("valid");
        let (mut model, mut out) = (Model::of(&spec.setup.scheduler), Vec::new());
        let (mut theirs, mut lost) = (Vec::new(), Vec::new());
        // The next time at which the link decides: at the end of a packet or of a pause.
        let mut due: Option<u64> = None;
        let mut decide = |model: &mut Model, until: u64, due: &mut Option<u64>| {
            while let Some(now) = due.filter(|&now| now <= until) {
                *due = match model.dequeue(now) {
                    Some((handle, bytes)) => {
                        theirs.push((handle, now));
                        Some(now + 8 * bytes)
                    }
                    None => {
                        held += usize::from(model.wakes().is_some());
                        model.wakes()
                    }
                };
            }
        };
        for (handle, a) in arrivals.iter().enumerate() {
            let (handle, now) = (handle as u32, a.at.0);
            let label = Label { connection: dice.from(0, 6), ..Label::default() };
            hash.announce(label);
            let queue = hash.place(a.flow).index();
            decide(&mut model, now, &mut due);
            if !model.enqueue(queue, (handle, a.bytes.into()), now) {
                lost.push(handle);
            }
            if model.sending.is_none() {
                due = Some(now);
            }
            decide(&mut model, now, &mut due);
            let unit = Unit { flow: a.flow, handle, bytes: a.bytes };
            engine.input_labelled(PipeId(0), unit, &MaskIds::NONE, label, a.at, &mut out);
        }
        decide(&mut model, u64::MAX, &mut due);
        engine.poll(Time(1 << 40), &mut out);
        let (mut ours, mut dropped) = (Vec::new(), Vec::new());
        for output in &out {
            match output {
                Output::Emit(emit) => ours.push((emit.handle, emit.start.0)),
                Output::Drop(drop) => {
                    assert_eq!(drop.why, DropReason::QueueFull);
                    dropped.push(drop.handle);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(ours, theirs, "seed {seed}: {spec:?}");
        assert_eq!(dropped, lost, "seed {seed}: {spec:?}");
        sent += ours.len();
        dropped_at_all += dropped.len();
    }
    assert!(
        sent > 50_000 && dropped_at_all > 5_000 && held > 5_000,
        "{sent} {dropped_at_all} {held}"
    );
}
