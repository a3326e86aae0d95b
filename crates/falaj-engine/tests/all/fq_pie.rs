//! fq_pie compared with a naive model, written from RFC 8290 and RFC 8033: two lists of queues, and
//! a timer that updates the drop probabilities of all queues. The model uses the discipline's
//! random numbers.

use crate::common::{Dice, bursts};
use falaj_engine::masks::MaskIds;
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{DropReason, Engine, Output, PipeId};
use falaj_sched::contract::hooks::{MediumHooks, QueueHooks};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::disciplines::fq_pie::FqPie;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::draws::{Draws, mix};
use falaj_sched::units::label::{Ecn, Label};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

/// The probability 1.
const ONE: i128 = 1 << 64;

#[derive(Clone, Copy)]
struct Packet {
    handle: u32,
    bytes: u64,
    came: u64,
}

/// A queue and its PIE, by the names of RFC 8033.
#[derive(Default)]
struct Queue {
    packets: VecDeque<Packet>,
    credits: i64,
    listed: bool,
    burst_allowance: u64,
    drop_prob: i128,
    accu_prob: i128,
    qdelay_old: u64,
    current_qdelay: u64,
}

struct Model {
    qdelay_ref: u64,
    t_update: u64,
    max_burst: u64,
    /// Gains per nanosecond, times 16 000 000 000.
    alpha: i128,
    beta: i128,
    ecn: bool,
    mark_ecnth: i128,
    mean_pktsize: u64,
    quantum: i64,
    limit: usize,
    queues: Vec<Queue>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    draws: Draws,
    timer: u64,
    dropped: Vec<u32>,
    marked: Vec<u32>,
    /// The number of packets that the limit dropped.
    by_limit: usize,
}

impl Model {
    fn of(spec: &PipeSpec) -> Model {
        let values = &spec.setup.scheduler;
        let max_burst = values.span("burst").unwrap().0;
        let queue = || Queue { burst_allowance: max_burst, ..Queue::default() };
        let t_update = values.span("update").unwrap().0;
        Model {
            qdelay_ref: values.span("target").unwrap().0,
            t_update,
            max_burst,
            alpha: values.count("alpha").unwrap().into(),
            beta: values.count("beta").unwrap().into(),
            ecn: values.choice("ecn") == Some("yes"),
            mark_ecnth: values.probability("ecn-probability").unwrap().of_all().into(),
            mean_pktsize: spec.setup.largest.into(),
            quantum: values.bytes("quantum").unwrap() as i64,
            limit: values.count("limit").unwrap() as usize,
            queues: (0..values.count("queues").unwrap()).map(|_| queue()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            draws: Draws::new(mix(spec.seed), 0),
            timer: t_update,
            dropped: Vec::new(),
            marked: Vec::new(),
            by_limit: 0,
        }
    }

    /// Section 4.2 of RFC 8033: the probability of each queue.
    fn calculate_drop_prob(&mut self) {
        for queue in &mut self.queues {
            let (current, old) = (i128::from(queue.current_qdelay), i128::from(queue.qdelay_old));
            let term = |gain: i128, delay: i128| ONE / 16 * gain * delay / 1_000_000_000;
            let mut p = term(self.alpha, current - i128::from(self.qdelay_ref))
                + term(self.beta, current - old);
            // The probability is below 1/n.
            let below = |n: i128| queue.drop_prob * n < ONE;
            if below(1_000_000) {
                p /= 2048;
            } else if below(100_000) {
                p /= 512;
            } else if below(10_000) {
                p /= 128;
            } else if below(1_000) {
                p /= 32;
            } else if below(100) {
                p /= 8;
            } else if below(10) {
                p /= 2;
            } else if p > ONE / 50 {
                p = ONE / 50;
            }
            queue.drop_prob += p;
            let is_low = |delay: u64| delay < self.qdelay_ref / 2;
            let low = is_low(queue.current_qdelay) && is_low(queue.qdelay_old);
            if low {
                queue.drop_prob = queue.drop_prob * 98 / 100;
            }
            queue.drop_prob = queue.drop_prob.clamp(0, ONE);
            queue.qdelay_old = queue.current_qdelay;
            queue.burst_allowance = queue.burst_allowance.saturating_sub(self.t_update);
            if queue.drop_prob == 0 && low {
                queue.burst_allowance = self.max_burst;
            }
        }
    }

    /// Updates the probabilities at each time of the timer until now.
    fn run_timer(&mut self, now: u64) {
        while self.timer <= now {
            self.calculate_drop_prob();
            self.timer += self.t_update;
        }
    }

    /// Section 4.1: whether an arriving packet is dropped or marked.
    fn drop_early(&mut self, q: usize, random: u64) -> bool {
        let queue = &mut self.queues[q];
        if queue.burst_allowance > 0 {
            return false;
        }
        if queue.qdelay_old < self.qdelay_ref / 2 && queue.drop_prob < ONE / 5 {
            return false;
        }
        let bytes: u64 = queue.packets.iter().map(|packet| packet.bytes).sum();
        if bytes <= 2 * self.mean_pktsize {
            return false;
        }
        if queue.drop_prob == 0 {
            queue.accu_prob = 0;
        }
        queue.accu_prob += queue.drop_prob;
        if queue.accu_prob < ONE * 85 / 100 {
            return false;
        }
        if queue.accu_prob < ONE * 85 / 10 && i128::from(random) >= queue.drop_prob {
            return false;
        }
        queue.accu_prob = 0;
        true
    }

    fn enqueue(&mut self, q: usize, packet: Packet, capable: bool) {
        let now = packet.came;
        self.run_timer(now);
        if self.queues.iter().map(|queue| queue.packets.len()).sum::<usize>() >= self.limit {
            self.by_limit += 1;
            return self.dropped.push(packet.handle);
        }
        let random = self.draws.draw();
        if self.drop_early(q, random) {
            if !(self.ecn && capable && self.queues[q].drop_prob <= self.mark_ecnth) {
                return self.dropped.push(packet.handle);
            }
            self.marked.push(packet.handle);
        }
        self.queues[q].packets.push_back(packet);
        if !self.queues[q].listed {
            self.queues[q].listed = true;
            self.queues[q].credits = self.quantum;
            self.new.push_back(q);
        }
    }

    fn dequeue(&mut self, now: u64) -> Option<Packet> {
        self.run_timer(now);
        loop {
            let (is_new, q) = match (self.new.front(), self.old.front()) {
                (Some(&q), _) => (true, q),
                (None, Some(&q)) => (false, q),
                (None, None) => return None,
            };
            let list = if is_new { &mut self.new } else { &mut self.old };
            let queue = &mut self.queues[q];
            if queue.credits <= 0 {
                queue.credits += self.quantum;
                list.pop_front();
                self.old.push_back(q);
                continue;
            }
            if let Some(packet) = queue.packets.pop_front() {
                queue.credits -= packet.bytes as i64;
                queue.current_qdelay = if queue.packets.is_empty() { 0 } else { now - packet.came };
                return Some(packet);
            }
            list.pop_front();
            if is_new {
                self.old.push_back(q);
            } else {
                queue.listed = false;
            }
        }
    }
}

/// A link of 8 kbit/s, so that delays are long enough for PIE: a byte takes a millisecond.
fn spec(dice: &mut Dice) -> PipeSpec {
    let largest = dice.from(1, 12) as u32;
    let gain = dice.from(0, 32);
    let millis = |ms| Value::Span(Span::from_millis(ms));
    let scheduler = Values::default()
        .with("limit", Value::Count(dice.one_of(&[10, 40, 1_000])))
        .with("queues", Value::Count(dice.from(1, 5)))
        .with("quantum", Value::Bytes(dice.from(1, 3 * u64::from(largest))))
        .with("target", millis(dice.from(1, 60)))
        .with("update", millis(dice.from(1, 40)))
        .with("burst", millis(dice.from(1, 100)))
        .with("alpha", Value::Count(dice.one_of(&[2, 2, gain])))
        .with("beta", Value::Count(dice.one_of(&[20, 20, gain])))
        .with("ecn", Value::Choice(dice.one_of(&["yes", "no"])))
        .with("ecn-probability", Value::Probability(Probability::of(dice.from(0, 19), 20)));
    let flows =
        vec![FlowSetup::new(Values::default(), Limit::Packets(20)); dice.from(1, 3) as usize];
    let setup = Setup { rate: Rate(8_000), largest, scheduler, flows };
    PipeSpec::new("fq_pie", setup, Span::ZERO)
}

#[test]
fn fq_pie_is_as_the_rfcs_say() {
    let (mut by_pie, mut by_limit, mut marked, mut sent) = (0, 0, 0, 0);
    for seed in 0..3_000 {
        let mut dice = Dice::new(seed ^ 0xf91e);
        let spec = spec(&mut dice);
        // Nanoseconds become milliseconds.
        let mut arrivals = bursts(&mut dice, &spec, 15_000);
        let slower = dice.from(50_000, 250_000);
        arrivals.iter_mut().for_each(|a| a.at = Time(a.at.0 * slower));
        // The queue of a connection is determined by the hash.
        let mut hash = FqPie::new(&spec.setup).expect("valid");
        hash.seed(mix(spec.seed));
        let mut engine = Engine::new(std::slice::from_ref(&spec)).expect("valid");
        let (mut model, mut out) = (Model::of(&spec), Vec::new());
        let mut theirs = Vec::new();
        // Sends the packets that begin by `until`; at equal instants ends come before arrivals.
        let mut send = |model: &mut Model, until: u64, wire: &mut Option<u64>| {
            while let Some(end) = wire.filter(|&end| end <= until) {
                *wire = model.dequeue(end).map(|packet| {
                    theirs.push((packet.handle, end));
                    end + 1_000_000 * packet.bytes
                });
            }
        };
        let mut busy = None;
        for (handle, a) in arrivals.iter().enumerate() {
            let ecn = dice.one_of(&[Ecn::Not, Ecn::Ect0, Ecn::Ect1]);
            let label = Label { ecn, connection: dice.from(0, 6), ..Label::default() };
            hash.announce(label);
            let queue = hash.place(a.flow).index();
            send(&mut model, a.at.0, &mut busy);
            let packet = Packet { handle: handle as u32, bytes: a.bytes.into(), came: a.at.0 };
            model.enqueue(queue, packet, ecn.is_capable());
            busy = busy.or(Some(a.at.0));
            send(&mut model, a.at.0, &mut busy);
            let unit = Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes };
            engine.input_labelled(PipeId(0), unit, &MaskIds::NONE, label, a.at, &mut out);
        }
        send(&mut model, 1 << 50, &mut busy);
        engine.poll(Time(1 << 50), &mut out);
        let (mut ours, mut dropped, mut marks) = (Vec::new(), Vec::new(), Vec::new());
        let mut full = 0;
        for output in &out {
            match output {
                Output::Emit(emit) => ours.push((emit.handle, emit.start.0)),
                Output::Drop(drop) => {
                    full += usize::from(drop.why == DropReason::QueueFull);
                    dropped.push(drop.handle);
                }
                Output::Mark(mark) => marks.push(mark.handle),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(ours, theirs, "seed {seed}: {spec:?}");
        assert_eq!(dropped, model.dropped, "seed {seed}: {spec:?}");
        assert_eq!(marks, model.marked, "seed {seed}: {spec:?}");
        assert_eq!(full, model.by_limit, "seed {seed}: {spec:?}");
        sent += ours.len();
        by_limit += full;
        by_pie += dropped.len() - full;
        marked += marks.len();
    }
    assert!(
        sent > 200_000 && by_pie > 1_000 && by_limit > 1_000 && marked > 1_000,
        "{sent} {by_pie} {by_limit} {marked}"
    );
}
