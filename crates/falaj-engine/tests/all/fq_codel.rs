//! fq_codel compared with a naive model, written from RFC 8290 and RFC 8289: two lists of queues,
//! and the pseudo-code of CoDel.

use crate::common::{Dice, bursts};
use falaj_engine::masks::MaskIds;
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{DropReason, Engine, Output, PipeId};
use falaj_sched::contract::hooks::{MediumHooks, QueueHooks};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::disciplines::fq_codel::FqCodel;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::draws::mix;
use falaj_sched::units::label::{Ecn, Label};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

#[derive(Clone, Copy)]
struct Packet {
    handle: u32,
    bytes: u64,
    came: u64,
}

/// A queue and its CoDel, by the names of RFC 8289.
#[derive(Default)]
struct Queue {
    packets: VecDeque<Packet>,
    credits: i64,
    listed: bool,
    first_above_time: u64,
    drop_next: u64,
    count: u64,
    lastcount: u64,
    dropping: bool,
}

/// The model of RFC 8290.
struct FqModel {
    target: u64,
    interval: u64,
    maxpacket: u64,
    quantum: i64,
    limit: usize,
    queues: Vec<Queue>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    dropped: Vec<u32>,
    /// The number of drops by CoDel among these.
    by_codel: usize,
}

impl FqModel {
    fn of(spec: &PipeSpec) -> FqModel {
        let values = &spec.setup.scheduler;
        let queues = values.count("queues").unwrap();
        FqModel {
            target: values.span("target").unwrap().0,
            interval: values.span("interval").unwrap().0,
            maxpacket: spec.setup.largest.into(),
            quantum: values.bytes("quantum").unwrap() as i64,
            limit: values.count("limit").unwrap() as usize,
            queues: (0..queues).map(|_| Queue::default()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            dropped: Vec::new(),
            by_codel: 0,
        }
    }

    fn bytes(&self, q: usize) -> u64 {
        self.queues[q].packets.iter().map(|packet| packet.bytes).sum()
    }

    fn enqueue(&mut self, q: usize, packet: Packet) {
        self.queues[q].packets.push_back(packet);
        if !self.queues[q].listed {
            self.queues[q].listed = true;
            self.queues[q].credits = self.quantum;
            self.new.push_back(q);
        }
        if self.queues.iter().map(|queue| queue.packets.len()).sum::<usize>() > self.limit {
            let fattest = (0..self.queues.len()).rev().max_by_key(|&q| self.bytes(q)).unwrap();
            self.dropped.push(self.queues[fattest].packets.pop_front().unwrap().handle);
        }
    }

    fn control_law(&self, t: u64, count: u64) -> u64 {
        // The largest whole number that is at most interval / sqrt(count).
        let fits =
            |x: u64| u128::from(x).pow(2) * u128::from(count) <= u128::from(self.interval).pow(2);
        t + (0..=self.interval).rev().find(|&x| fits(x)).unwrap()
    }

    fn dodequeue(&mut self, q: usize, now: u64) -> (Option<Packet>, bool) {
        let Some(packet) = self.queues[q].packets.pop_front() else {
            self.queues[q].first_above_time = 0;
            return (None, false);
        };
        let rest = self.bytes(q);
        let queue = &mut self.queues[q];
        let mut ok_to_drop = false;
        if now - packet.came < self.target || rest <= self.maxpacket {
            queue.first_above_time = 0;
        } else if queue.first_above_time == 0 {
            queue.first_above_time = now + self.interval;
        } else if now >= queue.first_above_time {
            ok_to_drop = true;
        }
        (Some(packet), ok_to_drop)
    }

    fn drop(&mut self, packet: Option<Packet>) {
        self.dropped.push(packet.expect("what may be dropped is there").handle);
        self.by_codel += 1;
    }

    fn codel(&mut self, q: usize, now: u64) -> Option<Packet> {
        let (mut packet, mut ok_to_drop) = self.dodequeue(q, now);
        if self.queues[q].dropping {
            self.queues[q].dropping = ok_to_drop;
            while now >= self.queues[q].drop_next && self.queues[q].dropping {
                self.drop(packet);
                self.queues[q].count += 1;
                (packet, ok_to_drop) = self.dodequeue(q, now);
                if ok_to_drop {
                    self.queues[q].drop_next =
                        self.control_law(self.queues[q].drop_next, self.queues[q].count);
                } else {
                    self.queues[q].dropping = false;
                }
            }
        } else if ok_to_drop {
            self.drop(packet);
            (packet, _) = self.dodequeue(q, now);
            let delta = self.queues[q].count - self.queues[q].lastcount;
            let lately = now < self.queues[q].drop_next + 16 * self.interval;
            let count = if delta > 1 && lately { delta } else { 1 };
            let drop_next = self.control_law(now, count);
            let queue = &mut self.queues[q];
            (queue.dropping, queue.count, queue.lastcount, queue.drop_next) =
                (true, count, count, drop_next);
        }
        packet
    }

    fn dequeue(&mut self, now: u64) -> Option<Packet> {
        loop {
            let (is_new, q) = match (self.new.front(), self.old.front()) {
                (Some(&q), _) => (true, q),
                (None, Some(&q)) => (false, q),
                (None, None) => return None,
            };
            let list = if is_new { &mut self.new } else { &mut self.old };
            if self.queues[q].credits <= 0 {
                self.queues[q].credits += self.quantum;
                list.pop_front();
                self.old.push_back(q);
                continue;
            }
            if let Some(packet) = self.codel(q, now) {
                self.queues[q].credits -= packet.bytes as i64;
                return Some(packet);
            }
            match is_new {
                true => {
                    self.new.pop_front();
                    self.old.push_back(q);
                }
                false => {
                    self.old.pop_front();
                    self.queues[q].listed = false;
                }
            }
        }
    }
}

fn spec(dice: &mut Dice) -> PipeSpec {
    let largest = dice.from(1, 12) as u32;
    let scheduler = Values::default()
        .with("limit", Value::Count(dice.from(1, 40)))
        .with("queues", Value::Count(dice.from(1, 5)))
        .with("quantum", Value::Bytes(dice.from(1, 3 * u64::from(largest))))
        .with("target", Value::Span(Span(dice.from(1, 200))))
        .with("interval", Value::Span(Span(dice.from(201, 2_000))));
    let flows =
        vec![FlowSetup::new(Values::default(), Limit::Packets(20)); dice.from(1, 3) as usize];
    let setup = Setup { rate: Rate::from_mbit(1000), largest, scheduler, flows };
    PipeSpec::new("fq_codel", setup, Span::ZERO)
}

#[test]
fn fq_codel_is_as_the_rfcs_say() {
    let (mut by_codel, mut dropped_at_all, mut sent) = (0, 0, 0);
    for seed in 0..1_500 {
        let mut dice = Dice::new(seed ^ 0xfc0d);
        let spec = spec(&mut dice);
        let arrivals = bursts(&mut dice, &spec, 15_000);
        // The queue of a connection is determined by the hash.
        let mut hash = FqCodel::new(&spec.setup).expect("valid");
        hash.seed(mix(spec.seed));
        let mut engine = Engine::new(std::slice::from_ref(&spec)).expect("valid");
        let (mut model, mut out) = (FqModel::of(&spec), Vec::new());
        let mut theirs = Vec::new();
        // Sends the packets that begin by `until`; at equal instants ends come before arrivals.
        let mut send = |model: &mut FqModel, until: u64, wire: &mut Option<u64>| {
            while let Some(end) = wire.filter(|&end| end <= until) {
                *wire = model.dequeue(end).map(|packet| {
                    theirs.push((packet.handle, end));
                    end + 8 * packet.bytes
                });
            }
        };
        let mut busy = None;
        for (handle, a) in arrivals.iter().enumerate() {
            let label = Label { ecn: Ecn::Not, connection: dice.from(0, 6), ..Label::default() };
            hash.announce(label);
            let queue = hash.place(a.flow).index();
            send(&mut model, a.at.0, &mut busy);
            model.enqueue(
                queue,
                Packet { handle: handle as u32, bytes: a.bytes.into(), came: a.at.0 },
            );
            busy = busy.or(Some(a.at.0));
            send(&mut model, a.at.0, &mut busy);
            let unit = Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes };
            engine.input_labelled(PipeId(0), unit, &MaskIds::NONE, label, a.at, &mut out);
        }
        send(&mut model, u64::MAX, &mut busy);
        engine.poll(Time(1 << 40), &mut out);
        let (mut ours, mut dropped) = (Vec::new(), Vec::new());
        for output in &out {
            match output {
                Output::Emit(emit) => ours.push((emit.handle, emit.start.0)),
                Output::Drop(drop) => {
                    assert_eq!(drop.why, DropReason::Policy);
                    dropped.push(drop.handle);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(ours, theirs, "seed {seed}: {spec:?}");
        assert_eq!(dropped, model.dropped, "seed {seed}: {spec:?}");
        sent += ours.len();
        by_codel += model.by_codel;
        dropped_at_all += dropped.len();
    }
    assert!(
        sent > 50_000 && by_codel > 1_000 && dropped_at_all > 2 * by_codel,
        "{sent} {by_codel} {dropped_at_all}"
    );
}
