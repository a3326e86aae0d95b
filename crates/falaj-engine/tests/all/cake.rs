//! CAKE compared with a naive model: two lists of queues, one queue for each connection, and COBALT
//! as the paper describes it, with BLUE's random numbers.

use crate::common::{Dice, bursts};
use falaj_engine::masks::MaskIds;
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{DropReason, Engine, Output, PipeId};
use falaj_sched::contract::hooks::{MediumHooks, QueueHooks};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::disciplines::cake::Cake;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::draws::{Draws, mix};
use falaj_sched::units::label::{Ecn, Label};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Copy)]
struct Packet {
    handle: u32,
    bytes: u64,
    came: u64,
    capable: bool,
}

#[derive(Default)]
struct Queue {
    packets: VecDeque<Packet>,
    deficit: i64,
    listed: bool,
    count: u64,
    drop_next: u64,
    dropping: bool,
    /// BLUE's probability, in units of 2^-32.
    p_drop: u64,
    blue_timer: u64,
}

struct Model {
    target: u64,
    interval: u64,
    /// Transmission time of the largest packet.
    packet: u64,
    quantum: i64,
    limit: usize,
    /// Rate of the shaper in bits per second; `None`: no shaper.
    rate: Option<u64>,
    next_packet: u64,
    queues: BTreeMap<usize, Queue>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    draws: Draws,
    draw: u64,
    dropped: Vec<u32>,
    marked: Vec<u32>,
    overflows: usize,
}

impl Model {
    fn of(spec: &PipeSpec) -> Model {
        let values = &spec.setup.scheduler;
        let rate = values.rate("rate").map(|rate| rate.0);
        let largest = u64::from(spec.setup.largest);
        let slowest = rate.unwrap_or(u64::MAX).min(spec.setup.rate.0);
        let packet = (largest * 8_000_000_000).div_ceil(slowest);
        let (wanted, interval) =
            (values.span("target").unwrap().0, values.span("interval").unwrap().0);
        let target = wanted.max(packet * 3 / 2);
        let mut draws = Draws::new(mix(spec.seed), 0);
        Model {
            target,
            interval: (interval + wanted).saturating_sub(target).max(2 * target),
            packet,
            quantum: values.bytes("quantum").unwrap() as i64,
            limit: values.count("limit").unwrap() as usize,
            rate,
            next_packet: 0,
            queues: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            draw: draws.draw() & 0xffff_ffff,
            draws,
            dropped: Vec::new(),
            marked: Vec::new(),
            overflows: 0,
        }
    }

    fn waiting(&self) -> usize {
        self.queues.values().map(|queue| queue.packets.len()).sum()
    }

    /// The largest whole number that is at most interval / sqrt(count).
    fn pause(&self, count: u64) -> u64 {
        let fits = |x: u64| x.pow(2) * count.max(1) <= self.interval.pow(2);
        let mut x = (self.interval as f64 / (count.max(1) as f64).sqrt()) as u64 + 2;
        while !fits(x) {
            x -= 1;
        }
        x
    }

    fn enqueue(&mut self, q: usize, packet: Packet, now: u64) {
        if self.waiting() == 0 {
            self.next_packet = self.next_packet.max(now);
        }
        let (target, quantum) = (self.target, self.quantum);
        let queue = self.queues.entry(q).or_default();
        queue.packets.push_back(packet);
        if !queue.listed {
            queue.listed = true;
            queue.deficit = quantum;
            queue.dropping = false;
            self.new.push_back(q);
            // The queue's state has decayed while the queue was empty.
            while queue.p_drop > 0 && now - queue.blue_timer >= target {
                queue.p_drop = queue.p_drop.saturating_sub(1 << 20);
                queue.blue_timer += target;
            }
            self.decay(q, now);
        }
        if self.waiting() > self.limit {
            let bytes = |queue: &Queue| queue.packets.iter().map(|packet| packet.bytes).sum();
            let longest: u64 = self.queues.values().map(bytes).max().unwrap();
            let (_, queue) =
                self.queues.iter_mut().find(|(_, queue)| bytes(queue) == longest).unwrap();
            self.dropped.push(queue.packets.pop_front().unwrap().handle);
            self.overflows += 1;
            if now - queue.blue_timer > target {
                queue.p_drop = (queue.p_drop + (1 << 24)).min(u32::MAX.into());
                queue.blue_timer = now;
            }
            (queue.dropping, queue.drop_next) = (true, now);
            queue.count = queue.count.max(1);
        }
    }

    fn decay(&mut self, q: usize, now: u64) {
        while self.queues[&q].count > 0 && now >= self.queues[&q].drop_next {
            let pause = self.pause(self.queues[&q].count - 1);
            let queue = self.queues.get_mut(&q).unwrap();
            queue.count -= 1;
            queue.drop_next += pause;
        }
    }

    /// Returns whether the head is dropped, and whether it is marked.
    fn should_drop(&mut self, q: usize, packet: Packet, now: u64) -> (bool, bool) {
        let stay = now - packet.came;
        let over = stay > self.target && stay > 4 * self.packet;
        let queue = &self.queues[&q];
        let due = queue.count > 0 && now >= queue.drop_next;
        let mut late = now > queue.drop_next;
        let (mut drop, mut mark) = (false, false);
        if over {
            let first = now + self.pause(queue.count);
            let queue = self.queues.get_mut(&q).unwrap();
            if !queue.dropping {
                (queue.dropping, queue.drop_next) = (true, first);
            }
            queue.count = queue.count.max(1);
        } else {
            self.queues.get_mut(&q).unwrap().dropping = false;
        }
        if due && over {
            (drop, mark) = (!packet.capable, packet.capable);
            let pause = self.pause(self.queues[&q].count + 1);
            let queue = self.queues.get_mut(&q).unwrap();
            queue.count += 1;
            queue.drop_next += pause;
            late = now > queue.drop_next;
        } else if due {
            self.decay(q, now);
            late = now > self.queues[&q].drop_next;
        }
        let interval = self.interval;
        let queue = self.queues.get_mut(&q).unwrap();
        drop |= self.draw < queue.p_drop;
        if queue.count == 0 {
            queue.drop_next = now + interval;
        } else if late && !drop {
            queue.drop_next = now;
        }
        (drop, mark && !drop)
    }

    fn dequeue(&mut self, now: u64) -> Option<Packet> {
        while let Some(&q) = self.new.front().or(self.old.front()) {
            let is_new = !self.new.is_empty();
            let queue = self.queues.get_mut(&q).unwrap();
            if queue.deficit <= 0 {
                queue.deficit += self.quantum;
                if is_new {
                    self.new.pop_front()
                } else {
                    self.old.pop_front()
                };
                self.old.push_back(q);
                continue;
            }
            let Some(&packet) = queue.packets.front() else {
                queue.listed = false;
                if is_new {
                    self.new.pop_front()
                } else {
                    self.old.pop_front()
                };
                continue;
            };
            let (drop, mark) = self.should_drop(q, packet, now);
            self.draw = self.draws.draw() & 0xffff_ffff;
            let queue = self.queues.get_mut(&q).unwrap();
            queue.packets.pop_front();
            if drop && !queue.packets.is_empty() {
                self.dropped.push(packet.handle);
                continue;
            }
            if mark {
                self.marked.push(packet.handle);
            }
            queue.deficit -= packet.bytes as i64;
            if let Some(rate) = self.rate {
                self.next_packet += (packet.bytes * 8_000_000_000).div_ceil(rate);
            }
            return Some(packet);
        }
        None
    }
}

fn spec(dice: &mut Dice) -> PipeSpec {
    let largest = dice.from(1, 12) as u32;
    let mut scheduler = Values::default()
        .with("limit", Value::Count(dice.from(1, 60)))
        .with("quantum", Value::Bytes(dice.from(1, 3 * u64::from(largest))))
        .with("target", Value::Span(Span(dice.from(1, 200))))
        .with("interval", Value::Span(Span(dice.from(201, 2_000))));
    if dice.from(0, 2) == 0 {
        scheduler.set("rate", Value::Rate(Rate(dice.from(300_000_000, 900_000_000))));
    }
    let flows =
        vec![FlowSetup::new(Values::default(), Limit::Packets(20)); dice.from(1, 3) as usize];
    let setup = Setup { rate: Rate::from_mbit(1000), largest, scheduler, flows };
    PipeSpec::new("cake", setup, Span::ZERO)
}

#[test]
fn cake_is_as_the_paper_says() {
    let (mut overflows, mut by_cobalt, mut marked, mut sent) = (0, 0, 0, 0);
    for seed in 0..3_000 {
        let mut dice = Dice::new(seed ^ 0xca6e);
        let spec = spec(&mut dice);
        let arrivals = bursts(&mut dice, &spec, 15_000);
        let labels: Vec<Label> = arrivals
            .iter()
            .map(|_| Label {
                ecn: Ecn::from_bits(dice.from(0, 2) as u8),
                connection: dice.from(0, 6),
                ..Label::default()
            })
            .collect();
        // The queues that the hash chooses. If it chooses one queue for two connections, the second
        // connection gets another queue, which this model does not know.
        let mut hash = Cake::new(&spec.setup).expect("valid");
        hash.seed(mix(spec.seed));
        let mut place = |label: Label, flow| {
            hash.announce(label);
            hash.place(flow).index()
        };
        let all: BTreeMap<_, usize> = arrivals
            .iter()
            .zip(&labels)
            .map(|(a, label)| ((a.flow, label.connection), place(*label, a.flow)))
            .collect();
        if all.values().collect::<BTreeSet<_>>().len() < all.len() {
            continue;
        }
        let mut engine = Engine::new(std::slice::from_ref(&spec)).expect("valid");
        let (mut model, mut out) = (Model::of(&spec), Vec::new());
        let mut theirs = Vec::new();
        // The end of the packet on the wire.
        let mut busy: Option<u64> = None;
        // Sends the packets that begin by `until`; at equal instants ends come before arrivals.
        let mut send = |model: &mut Model, until: u64, busy: &mut Option<u64>| {
            loop {
                let mut now = busy.unwrap_or(0);
                if model.waiting() > 0 && model.rate.is_some() {
                    now = now.max(model.next_packet);
                }
                if now > until {
                    return;
                }
                // A call that returns no packet only takes empty queues out of the lists.
                let Some(packet) = model.dequeue(now) else { return };
                theirs.push((packet.handle, now));
                *busy = Some(now + 8 * packet.bytes);
            }
        };
        for (handle, (a, &label)) in arrivals.iter().zip(&labels).enumerate() {
            let now = a.at.0;
            send(&mut model, now, &mut busy);
            let packet = Packet {
                handle: handle as u32,
                bytes: a.bytes.into(),
                came: now,
                capable: label.ecn.is_capable(),
            };
            model.enqueue(all[&(a.flow, label.connection)], packet, now);
            // A free link decides now.
            busy = busy.max(Some(now));
            send(&mut model, now, &mut busy);
            let unit = Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes };
            engine.input_labelled(PipeId(0), unit, &MaskIds::NONE, label, a.at, &mut out);
        }
        send(&mut model, u64::MAX, &mut busy);
        engine.poll(Time(1 << 40), &mut out);
        let (mut ours, mut dropped, mut marks) = (Vec::new(), Vec::new(), Vec::new());
        for output in &out {
            match output {
                Output::Emit(emit) => ours.push((emit.handle, emit.start.0)),
                Output::Drop(drop) => {
                    assert_eq!(drop.why, DropReason::Policy);
                    dropped.push(drop.handle);
                }
                Output::Mark(mark) => marks.push(mark.handle),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(ours, theirs, "seed {seed}: {spec:?}");
        assert_eq!(dropped, model.dropped, "seed {seed}: {spec:?}");
        assert_eq!(marks, model.marked, "seed {seed}: {spec:?}");
        sent += ours.len();
        overflows += model.overflows;
        by_cobalt += model.dropped.len() - model.overflows;
        marked += marks.len();
    }
    assert!(
        sent > 50_000 && by_cobalt > 1_000 && overflows > 1_000 && marked > 1_000,
        "{sent} {by_cobalt} {overflows} {marked}"
    );
}
