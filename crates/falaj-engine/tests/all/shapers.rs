//! Disciplines that hold packets on purpose: worked examples, and each beside a naive
//! model that goes from nanosecond to nanosecond. One byte takes 8 ns.

use crate::common::examples::order;
use crate::common::fraction::Fraction;
use crate::common::stepwise::{Model, beside, many};
use crate::common::{Dice, become_kind, bursts, emits, run, virtual_links};
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry::entry;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::collections::VecDeque;

/// A pipe whose largest packet has 4 B; one flow for each list of values.
fn pipe(kind: &'static str, scheduler: Values, flows: Vec<Values>) -> PipeSpec {
    let flows =
        flows.into_iter().map(|values| FlowSetup::new(values, Limit::Packets(20))).collect();
    PipeSpec::new(
        kind,
        Setup { rate: Rate::from_mbit(1000), largest: 4, scheduler, flows },
        Span::ZERO,
    )
}

fn bucket(mbit: u64, burst: u64) -> Values {
    Values::default()
        .with("rate", Value::Rate(Rate::from_mbit(mbit)))
        .with("burst", Value::Bytes(burst))
}

/// A's bucket of 4 B refills by a byte in two bytes of time: its third packet has its 2 B at 4. B,
/// of an eighth of the link, is held from 4 to 16 on a free link.
#[test]
fn a_shaper_holds_packets_on_a_free_link() {
    let shaper = pipe("shaper", Values::default(), vec![bucket(500, 4), bucket(125, 4)]);
    let all =
        [(0, 'A', 2), (0, 'A', 2), (0, 'A', 2), (0, 'A', 2), (0, 'B', 2), (0, 'B', 2), (0, 'B', 2)];
    assert_eq!(order(&shaper, &all), "A1@2 A2@4 B1@6 B2@8 A3@10 A4@12 B3@18");
}

/// What waits for others has its tokens spent when it became eligible, not when it leaves: A2 is
/// eligible at 4 though B is on the wire until 8, and so A3 at 8.
#[test]
fn what_others_take_costs_no_tokens() {
    let shaper = pipe("shaper", Values::default(), vec![bucket(500, 4), bucket(1000, 8)]);
    let all = [(0, 'A', 4), (0, 'A', 2), (0, 'A', 2), (1, 'B', 4), (1, 'B', 4)];
    assert_eq!(order(&shaper, &all), "A1@4 B1@8 B2@12 A2@14 A3@16");
}

/// Slopes of a half and a quarter of the link, and best effort. A owes 2 B at 4, which takes it
/// until 8; C, which nobody else wants the link of, is on it until then. B has waited since 0 with
/// the credit of 12 quarters.
#[test]
fn credit_is_earned_while_others_send() {
    let slope = |mbit| Values::default().with("idle-slope", Value::Rate(Rate::from_mbit(mbit)));
    let cbs = pipe("cbs", Values::default(), vec![slope(500), slope(250), Values::default()]);
    let all =
        [(0, 'A', 4), (0, 'A', 4), (0, 'A', 4), (0, 'B', 4), (0, 'B', 4), (0, 'C', 4), (0, 'C', 1)];
    // B begins at 4 with 1 B of credit, and has -2 B at 8: until 16. A: -2 B at 4, 0 at 8, -2 at
    // 12, 0 at 16.
    assert_eq!(order(&cbs, &all), "A1@4 B1@8 A2@12 C1@16 A3@20 B2@24 C2@25");
    // Alone, A is held: 4 B every 8.
    assert_eq!(order(&cbs, &all[..3]), "A1@4 A2@12 A3@20");
    // Nobody saves credit while he has nothing.
    assert_eq!(order(&cbs, &[(0, 'C', 4), (20, 'A', 4), (20, 'A', 4)]), "C1@4 A1@24 A2@32");
}

/// Cycles of 20 B: A's gate is open from 0 to 10, B's from 10 to 20, C's always.
#[test]
fn gates_open_and_close_and_packets_are_over_by_then() {
    let gate = |opens: u64, open: u64| {
        Values::default()
            .with("opens", Value::Span(Span(opens * 8)))
            .with("open", Value::Span(Span(open * 8)))
    };
    let cycle = Values::default().with("cycle", Value::Span(Span(160)));
    let tas = pipe("tas", cycle, vec![gate(0, 10), gate(10, 10), Values::default()]);
    let all = [(0, 'A', 4), (0, 'A', 4), (0, 'A', 4), (0, 'B', 4), (0, 'B', 4), (0, 'B', 4)];
    assert_eq!(order(&tas, &all), "A1@4 A2@8 B1@14 B2@18 A3@24 B3@34");
    // What has no gate to mind fills the guards, and may be in the way by a packet.
    let with_c = [all.as_slice(), &[(0, 'C', 3), (0, 'C', 3), (0, 'C', 3)]].concat();
    assert_eq!(order(&tas, &with_c), "A1@4 A2@8 C1@11 B1@15 B2@19 C2@22 A3@26 C3@29 B3@34");
    // A's opens twice in a cycle of 40 B, at 0 and 20, and B's once: nobody's gate meets another's.
    let every = gate(0, 10).with("every", Value::Span(Span(160)));
    let twice = pipe(
        "tas",
        Values::default().with("cycle", Value::Span(Span(320))),
        vec![every, gate(10, 10)],
    );
    assert_eq!(order(&twice, &all), "A1@4 A2@8 B1@14 B2@18 A3@24 B3@54");
    let engine = Engine::new(&[twice]).expect("valid");
    let promised = |flow| engine.promise(PipeId(0), FlowId(flow)).expect("a rate").rate;
    // What is left of 10 B without a packet that does not fit comes twice as often for A.
    assert!(promised(0).0.abs_diff(2 * promised(1).0) <= 1, "{:?} {:?}", promised(0), promised(1));
}

/// Judged at arrival: A's packets are eligible at 0, 0, 4 and 8, B's at 0 and 16; C's class is
/// higher.
#[test]
fn eligibility_times_are_given_at_arrival() {
    let of = |values: Values, class| values.with("class", Value::Count(class));
    let flows = vec![of(bucket(500, 4), 1), of(bucket(125, 4), 1), of(bucket(500, 8), 0)];
    let ats = pipe("ats", Values::default(), flows);
    let all = [(0, 'A', 2), (0, 'A', 2), (0, 'A', 2), (0, 'A', 2), (0, 'B', 4), (0, 'B', 2)];
    assert_eq!(order(&ats, &all), "A1@2 A2@4 B1@8 A3@10 A4@12 B2@18");
    // The third of C's is eligible at 13, and A's last two have been since 4 and 8.
    let with_c = [all.as_slice(), &[(5, 'C', 4), (5, 'C', 4), (5, 'C', 4)]].concat();
    assert_eq!(order(&ats, &with_c), "A1@2 A2@4 B1@8 C1@12 C2@16 C3@20 A3@22 A4@24 B2@26");
}

/// The fifth example of the notes: A's gaps are 2, and 9 for every three; B's 4; C is not
/// regulated. From 8 on all is held.
#[test]
fn regulators_restore_gaps_and_priorities_follow() {
    let flow = |priority, gaps: Option<[u64; 3]>| {
        let values = Values::default().with("priority", Value::Count(priority));
        let names = ["min-gap", "mean-gap", "interval"].into_iter().zip(gaps.into_iter().flatten());
        names.fold(values, |all, (name, gap)| all.with(name, Value::Span(Span(gap * 8))))
    };
    let rcsp = |scheduler| {
        pipe(
            "rcsp",
            scheduler,
            vec![flow(0, Some([2, 3, 9])), flow(1, Some([4, 4, 8])), flow(2, None)],
        )
    };
    let all = [
        (0, 'A', 1),
        (0, 'A', 1),
        (0, 'A', 1),
        (0, 'A', 1),
        (0, 'B', 1),
        (0, 'B', 1),
        (0, 'C', 3),
        (30, 'A', 1),
    ];
    assert_eq!(order(&rcsp(Values::default()), &all), "A1@1 B1@2 A2@3 C1@6 A3@7 B2@8 A4@10 A5@31");
    // On a free link the one that would be eligible first goes at once.
    let release = Values::default().with("idle", Value::Choice("release"));
    assert_eq!(order(&rcsp(release), &all), "A1@1 B1@2 A2@3 C1@6 A3@7 B2@8 A4@9 A5@31");
}

/// The seventh example of the notes: gates every 4, due 12, 8 and 4 after arrival. C is late by
/// what the gates are coarse.
#[test]
fn packets_pass_a_gate_each_period() {
    let due = |after: u64| Values::default().with("deadline", Value::Span(Span(after * 8)));
    let scheduler =
        Values::default().with("period", Value::Span(Span(32))).with("gates", Value::Count(3));
    let mgfq = |scheduler| pipe("mgfq", scheduler, vec![due(12), due(8), due(4)]);
    let (a, b) = ([(0, 'A', 1); 3], [(0, 'B', 1); 2]);
    let all = [&a[..], &b, &[(1, 'C', 1), (1, 'C', 1), (5, 'C', 1)]].concat();
    assert_eq!(order(&mgfq(scheduler.clone()), &all), "B1@5 B2@6 C1@7 C2@8 A1@9 A2@10 A3@11 C3@12");
    // Who comes first to a free link is on it.
    let release = scheduler.with("idle", Value::Choice("release"));
    assert_eq!(order(&mgfq(release), &all), "A1@1 B1@2 B2@3 C1@4 C2@5 A2@6 A3@7 C3@8");
}

/// The queues of the paper: what is behind a gate is moved when it opens.
struct Gated {
    period: u64,
    deadlines: Vec<u64>,
    /// Flows in their order; the first is the queue that is sent.
    groups: Vec<VecDeque<usize>>,
    releases: bool,
}

impl Model for Gated {
    fn came(&mut self, f: usize, _: u32, _: bool, now: u64) {
        let (opened, due) = (now / self.period * self.period, now + self.deadlines[f]);
        let behind = (due - opened).div_ceil(self.period).saturating_sub(1) as usize;
        let last = self.groups.len() - 1;
        self.groups[behind.min(last)].push_back(f);
    }
    fn passes(&mut self, _: &[bool], _: Option<usize>, now: u64) {
        if now > 0 && now.is_multiple_of(self.period) {
            let mut second = self.groups.remove(1);
            self.groups[0].append(&mut second);
            self.groups.push(second);
        }
    }
    fn choose(&self, _: &[Option<u32>], _: u64) -> Option<usize> {
        let groups = if self.releases { &self.groups[..] } else { &self.groups[..1] };
        groups.iter().find_map(|group| group.front().copied())
    }
    fn begin(&mut self, f: usize, _: u32, _: u64) {
        let group = self.groups.iter_mut().find(|group| group.contains(&f)).expect("it is in one");
        assert_eq!(group.pop_front(), Some(f), "the first of the lowest");
    }
    fn left(&mut self, _: usize, _: Option<u32>, _: u64) {}
}

#[test]
fn mgfq_is_its_queues_and_gates() {
    many("mgfq", |spec, dice, seed| {
        let mut spec = spec.clone();
        let (period, gates) = (dice.from(1, 1_500), dice.from(1, 6));
        spec.setup.scheduler.set("period", Value::Span(Span(period)));
        spec.setup.scheduler.set("gates", Value::Count(gates));
        let deadlines: Vec<u64> =
            (0..spec.setup.flows.len()).map(|_| dice.from(0, 6_000)).collect();
        for (f, &deadline) in spec.setup.flows.iter_mut().zip(&deadlines) {
            f.values.set("deadline", Value::Span(Span(deadline)));
        }
        let releases = spec.setup.scheduler.choice("idle") == Some("release");
        let groups = vec![VecDeque::new(); gates as usize + 1];
        beside(&spec, Gated { period, deadlines, groups, releases }, dice, seed);
    });
}

/// A may send 6 B in 20 B of time: two packets of three, then it waits for its next period, which
/// begins then; B takes turns with it.
#[test]
fn a_credit_lasts_for_a_period() {
    let period = Values::default().with("period", Value::Span(Span(160)));
    let credit = Values::default().with("credit", Value::Bytes(6));
    let netback = pipe("netback", period, vec![credit, Values::default()]);
    let all =
        [(2, 'A', 3), (2, 'A', 3), (2, 'A', 3), (2, 'A', 3), (2, 'B', 4), (2, 'B', 4), (2, 'B', 4)];
    assert_eq!(order(&netback, &all), "A1@5 B1@9 A2@12 B2@16 B3@20 A3@25 A4@28");
    // The next period begins with the first packet after the last one: at 43.
    let later = [all.as_slice(), &[(43, 'A', 4), (44, 'A', 4), (61, 'A', 2)]].concat();
    assert_eq!(
        order(&netback, &later),
        "A1@5 B1@9 A2@12 B2@16 B3@20 A3@25 A4@28 A5@47 A6@67 A7@69"
    );
}

/// Bytes that a rate of the spec brings in a nanosecond.
fn rate(spec: &PipeSpec, f: usize, name: &str) -> Option<Fraction> {
    Some(Fraction::new(spec.setup.flows[f].values.rate(name)?.0 / 1_000_000, 8_000u64))
}

/// Tokens, of which each nanosecond brings some and a burst is the most.
struct Tokens {
    each: Fraction,
    burst: Fraction,
    there: Fraction,
    /// Packets that have become eligible, and all that wait for tokens.
    eligible: VecDeque<u64>,
    waiting: VecDeque<u32>,
}

/// Shaper and ATS are the same to a model that sees all packets: each is released when the tokens
/// are there.
struct Released {
    flows: Vec<Tokens>,
    classes: Vec<u64>,
}

impl Released {
    fn release(&mut self, now: u64) {
        for f in &mut self.flows {
            while f.waiting.front().is_some_and(|&bytes| Fraction::of(bytes) <= f.there) {
                let bytes = f.waiting.pop_front().expect("there is one");
                f.there = f.there.minus(Fraction::of(bytes));
                f.eligible.push_back(now);
            }
        }
    }
}

impl Model for Released {
    fn came(&mut self, f: usize, bytes: u32, _: bool, now: u64) {
        self.flows[f].waiting.push_back(bytes);
        self.release(now);
    }
    fn passes(&mut self, _: &[bool], _: Option<usize>, now: u64) {
        if now > 0 {
            for f in &mut self.flows {
                f.there =
                    if f.there.plus(f.each) > f.burst { f.burst } else { f.there.plus(f.each) };
            }
        }
        self.release(now);
    }
    fn choose(&self, _: &[Option<u32>], _: u64) -> Option<usize> {
        let first =
            |f: usize| self.flows[f].eligible.front().map(|&then| (self.classes[f], then, f));
        (0..self.flows.len()).filter_map(first).min().map(|(_, _, f)| f)
    }
    fn begin(&mut self, _: usize, _: u32, _: u64) {}
    fn left(&mut self, f: usize, _: Option<u32>, _: u64) {
        self.flows[f].eligible.pop_front();
    }
}

#[test]
fn ats_releases_packets_as_their_tokens_come() {
    many("ats", |spec, dice, seed| {
        let mut spec = spec.clone();
        for f in &mut spec.setup.flows {
            // A token more each so many whole nanoseconds: eligibility times that are not rounded.
            f.values.set("rate", Value::Rate(Rate::from_mbit(dice.one_of(&[125, 250, 500, 1000]))));
            f.values.set("class", Value::Count(dice.from(0, 2)));
        }
        let flow = |f: usize| {
            let values = &spec.setup.flows[f].values;
            let of_a_millisecond = values.rate("rate").unwrap().0 / 8_000;
            let burst = Fraction::of(values.bytes("burst").unwrap_or(of_a_millisecond));
            let each = rate(&spec, f, "rate").unwrap();
            Tokens {
                each,
                burst,
                there: burst,
                eligible: VecDeque::new(),
                waiting: VecDeque::new(),
            }
        };
        let flows = (0..spec.setup.flows.len()).map(flow).collect();
        let classes = spec.setup.flows.iter().map(|f| f.values.count("class").unwrap()).collect();
        beside(&spec, Released { flows, classes }, dice, seed);
    });
}

struct Credits {
    slopes: Vec<Option<Fraction>>,
    /// What is there, and what is owed: one of them is zero.
    credit: Vec<(Fraction, Fraction)>,
    waits: Vec<bool>,
}

fn add(credit: (Fraction, Fraction), more: Fraction) -> (Fraction, Fraction) {
    match credit.1 >= more {
        true => (Fraction::ZERO, credit.1.minus(more)),
        false => (credit.0.plus(more.minus(credit.1)), Fraction::ZERO),
    }
}

impl Model for Credits {
    fn came(&mut self, _: usize, _: u32, _: bool, _: u64) {}
    fn passes(&mut self, waits: &[bool], sending: Option<usize>, now: u64) {
        if now == 0 {
            return;
        }
        let byte = Fraction::new(1u64, 8u64);
        for (f, credit) in self.credit.iter_mut().enumerate() {
            let Some(slope) = self.slopes[f] else { continue };
            if sending == Some(f) {
                // The send slope: what the idle slope lacks of the link's rate.
                let owed = byte.minus(slope);
                *credit = match credit.0 >= owed {
                    true => (credit.0.minus(owed), credit.1),
                    false => (Fraction::ZERO, credit.1.plus(owed.minus(credit.0))),
                };
            } else if waits[f] {
                *credit = add(*credit, slope);
            } else {
                let (_, owed) = add((Fraction::ZERO, credit.1), slope);
                *credit = (Fraction::ZERO, owed);
            }
        }
        self.waits = waits.to_vec();
    }
    fn choose(&self, heads: &[Option<u32>], _: u64) -> Option<usize> {
        (0..heads.len()).find(|&f| {
            heads[f].is_some() && (self.slopes[f].is_none() || self.credit[f].1 == Fraction::ZERO)
        })
    }
    fn begin(&mut self, _: usize, _: u32, _: u64) {}
    fn left(&mut self, f: usize, head: Option<u32>, _: u64) {
        if head.is_none() {
            self.credit[f].0 = Fraction::ZERO;
        }
    }
}

#[test]
fn cbs_goes_up_and_down_its_slopes() {
    many("cbs", |spec, dice, seed| {
        let slopes: Vec<_> =
            (0..spec.setup.flows.len()).map(|f| rate(spec, f, "idle-slope")).collect();
        let credit = vec![(Fraction::ZERO, Fraction::ZERO); slopes.len()];
        beside(spec, Credits { slopes, credit, waits: Vec::new() }, dice, seed);
    });
}

struct Gates {
    cycle: u64,
    /// Is it open in this nanosecond of the cycle?
    open: Vec<Vec<bool>>,
}

impl Model for Gates {
    fn came(&mut self, _: usize, _: u32, _: bool, _: u64) {}
    fn passes(&mut self, _: &[bool], _: Option<usize>, _: u64) {}
    fn choose(&self, heads: &[Option<u32>], now: u64) -> Option<usize> {
        let free = |f: usize, bytes: u32| {
            (now..now + u64::from(bytes) * 8).all(|t| self.open[f][(t % self.cycle) as usize])
        };
        (0..heads.len()).find(|&f| heads[f].is_some_and(|bytes| free(f, bytes)))
    }
    fn begin(&mut self, _: usize, _: u32, _: u64) {}
    fn left(&mut self, _: usize, _: Option<u32>, _: u64) {}
}

#[test]
fn tas_sends_while_gates_are_open() {
    many("tas", |spec, dice, seed| {
        let cycle = spec.setup.scheduler.span("cycle").unwrap().0;
        let gate = |f: &FlowSetup| -> Vec<bool> {
            let opens = f.values.span("opens").map_or(0, |s| s.0);
            let every = f.values.span("every").map_or(cycle, |s| s.0);
            let closes = f.values.span("open").map_or(every, |s| opens + s.0);
            (0..cycle).map(|t| (opens..closes).contains(&(t % every))).collect()
        };
        // A gate that closes as it opens stays open, in this model too.
        let open = spec.setup.flows.iter().map(gate).collect();
        beside(spec, Gates { cycle, open }, dice, seed);
    });
}

/// The shaper's rule, word for word: in any time `t` no more than `burst + rate t` becomes
/// eligible, heads leave in that order, and the link rests only while all heads are held.
#[test]
fn a_shaper_never_lets_more_through_than_its_bucket() {
    let (mut packets, mut nearest) = (0, 0.0f64);
    for seed in 0..600 {
        let mut dice = Dice::new(seed ^ 0x0b0c);
        let mut spec = virtual_links(&mut dice, "packet-wise", "clean");
        become_kind(&mut dice, &mut spec, entry("shaper").expect("registered"));
        // Alone, a packet leaves when it is eligible.
        spec.setup.flows.truncate(1);
        let values = &spec.setup.flows[0].values;
        let rate = values.rate("rate").unwrap().0 as f64 / 8e9;
        let burst = values.bytes("burst").unwrap_or((rate * 1e6) as u64) as f64;
        let sent = emits(&run(&spec, &bursts(&mut dice, &spec, 20_000), |_, _, _| {}));
        packets += sent.len();
        for (n, first) in sent.iter().enumerate() {
            let mut bytes = 0.0;
            for e in &sent[n..] {
                bytes += f64::from(e.bytes);
                // The first one was eligible up to a nanosecond earlier.
                let most = burst + rate * ((e.start - first.start).0 + 1) as f64;
                assert!(bytes <= most + 1e-6, "seed {seed}: {bytes} > {most}: {spec:?}");
                nearest = nearest.max(bytes / most);
            }
        }
    }
    assert!(packets > 20_000 && nearest > 0.999, "{packets} {nearest}");
}
