//! Links and rules that are added and removed while packets pass: each packet leaves or is lost
//! once, and all are counted.

use crate::common::Dice;
use falaj_engine::change::PipeChange;
use falaj_engine::classifier::{Classifier, Match};
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::handover::FlowMapping;
use falaj_engine::header::Protocol;
use falaj_engine::key::Key;
use falaj_engine::masks::{Mask, MaskConfig, Masks};
use falaj_engine::message::Emit;
use falaj_engine::network::{
    IngressChange, IngressPacket, Network, NetworkChange, NetworkSpec, PlacedPipe, RouteError,
    RuleChange, unlimited,
};
use falaj_engine::pipe::{Counters, PipeSpec};
use falaj_engine::policer::Policer;
use falaj_engine::rules::{MarkChange, RouteRule, RuleAction, RuleTarget};
use falaj_engine::table::{Field, LookupTable, TableEntry};
use falaj_engine::{ChangeError, DropReason, Output, PipeId, Prepared};
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::label::Label;
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::sync::Arc;

fn pipe(delay: Span, flows: usize) -> PipeSpec {
    let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(40)); flows];
    let setup =
        Setup { rate: Rate::from_mbit(8), largest: 1500, scheduler: Values::default(), flows };
    PipeSpec::new("drr", setup, delay)
}

fn place(pipe: PipeSpec) -> PlacedPipe {
    PlacedPipe { classifier: Classifier::new([&[Match::ANY][..]]), layer: CountedLayer::Ip, pipe }
}

fn key(dport: u16) -> Key {
    Key::of_ordinary(
        Protocol::UDP,
        ([10, 77, 0, 1], 1).into(),
        ([10, 77, 0, 2], dport).into(),
        1000,
    )
}

fn to_port(dport: u16) -> Vec<Match> {
    vec![Match { dport: Some((dport, dport)), ..Match::ANY }]
}

fn through(links: &[u32]) -> RouteRule {
    RouteRule { to: RuleAction::Links(links.to_vec()), ..RouteRule::all_to(0) }
}

/// Packets of 1000 B that enter a network, and how they end.
struct Sent {
    network: Network,
    out: Vec<Output>,
    /// By number of a packet: how often it left or was lost.
    ends: Vec<u32>,
    left: Vec<Emit>,
    dropped: Vec<(u32, DropReason)>,
    /// Packets that rules did not admit.
    refused: u64,
}

impl Sent {
    fn new(network: Network) -> Sent {
        Sent { network, out: vec![], ends: vec![], left: vec![], dropped: vec![], refused: 0 }
    }

    fn send(&mut self, at: Time, dport: u16) {
        let (handle, key) = (self.ends.len() as u32, key(dport));
        match self.network.route(&key, 0, 1000, at) {
            Ok(entry) => {
                self.ends.push(0);
                let packet = IngressPacket { handle, length: 1000, label: &Label::default() };
                self.network.enter(entry, &key, packet, at, &mut self.out);
            }
            Err(RouteError::Dropped | RouteError::Unmatched) => self.refused += 1,
        }
        self.note();
    }

    fn change(
        &mut self,
        at: Time,
        change: Prepared,
        ingress: Vec<IngressChange>,
        rules: Option<RuleChange>,
    ) -> Result<(), ChangeError> {
        let around = NetworkChange { flows: &[], ingress, rules };
        let made = self.network.apply(change, around, &|_| Label::default(), at, &mut self.out);
        self.note();
        made
    }

    fn note(&mut self) {
        for output in self.out.drain(..) {
            match output {
                Output::Emit(emit) => {
                    self.ends[emit.handle as usize] += 1;
                    self.left.push(emit);
                }
                Output::Drop(dropped) => {
                    self.ends[dropped.handle as usize] += 1;
                    self.dropped.push((dropped.handle, dropped.why));
                }
                Output::Copy(_)
                | Output::Corrupt(_)
                | Output::Mark(_)
                | Output::Early(_)
                | Output::Retimed(_) => {}
            }
        }
        self.network.passed();
    }

    fn end(&mut self) {
        self.network.poll(Time(Time::NEVER.0 - 1), &mut self.out);
        self.note();
        assert_eq!(self.network.next_event(), Time::NEVER);
        assert!(self.ends.iter().all(|times| *times == 1), "each leaves or is lost once");
    }

    fn due(&self) -> Vec<(u32, u64)> {
        let mut due: Vec<(u32, u64)> =
            self.left.iter().map(|e| (e.handle, e.due.0 / 1_000_000)).collect();
        due.sort_unstable();
        due
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn network(links: &[u64], rules: Vec<RouteRule>) -> Network {
    let places = links
        .iter()
        .flat_map(|ms| [(); 2].map(|()| place(pipe(Span::from_millis(*ms), 1))))
        .collect();
    Network::new(&NetworkSpec { places, rules, seed: 1 })
        .unwrap_or_else(|(pipe, why)| panic!("{pipe:?}: {why}"))
}

fn nothing() -> Prepared {
    Prepared::new(&[]).unwrap_or_else(|_| panic!("nothing to refuse"))
}

fn ending(prepared: Prepared, place: u32) -> Prepared {
    prepared.ending(PipeId(2 * place)).ending(PipeId(2 * place + 1))
}

fn beginning(prepared: Prepared, place: u32, spec: &PipeSpec) -> Prepared {
    let begin = |prepared: Prepared, pipe| {
        prepared.beginning(PipeId(pipe), spec).unwrap_or_else(|(_, unfit)| panic!("{unfit}"))
    };
    begin(begin(prepared, 2 * place), 2 * place + 1)
}

fn sorting(place: u32) -> [IngressChange; 2] {
    [0, 1].map(|way| IngressChange {
        pipe: PipeId(2 * place + way),
        classifier: Classifier::new([&[Match::ANY][..]]),
        layer: CountedLayer::Ip,
        masks: Masks::default(),
    })
}

/// A removed link sends its queued packets as it would have otherwise, and its place is vacant
/// afterwards.
#[test]
fn a_link_that_goes_sends_what_waits() {
    let mut sent = Sent::new(network(&[5, 0], vec![through(&[0])]));
    (0..3).for_each(|_| sent.send(at(0), 1));
    let rules = RuleChange::new(vec![through(&[1])], 1, vec![Some(0)], 0);
    sent.change(at(1), ending(nothing(), 0), vec![], Some(rules)).expect("it fits");
    sent.send(at(1), 1);
    // The place is not vacant as long as packets are queued.
    assert!(sent.network.places().vacant.is_empty());
    let begins = beginning(nothing(), 0, &pipe(Span::ZERO, 1));
    assert_eq!(sent.change(at(2), begins, vec![], None), Err(ChangeError::Occupied));
    assert_eq!(sent.network.ended_pipe_counters().backlog, 1);
    sent.network.poll(at(3), &mut sent.out);
    sent.note();
    assert_eq!(sent.network.places().vacant, [0]);
    let rules = RuleChange::new(vec![through(&[0])], 1, vec![Some(0)], 0);
    let begins = beginning(nothing(), 0, &pipe(Span::from_millis(7), 1));
    sent.change(at(4), begins, sorting(0).into(), Some(rules)).expect("it fits");
    sent.send(at(4), 1);
    sent.end();
    assert_eq!(sent.due(), [(0, 6), (1, 7), (2, 8), (3, 2), (4, 12)]);
    let counted = |pipe| sent.network.counters(PipeId(pipe), FlowId(0)).sent;
    assert_eq!((counted(0), counted(2), sent.network.ended_pipe_counters().sent), (1, 1, 3));
    assert_eq!(sent.network.taken()[0].packets, 5, "the rule's count goes on");
    // An ended pipe is not changed any more.
    sent.change(at(20), ending(nothing(), 0), vec![], None).expect("it fits");
    for again in [
        ending(nothing(), 0),
        Prepared::new(&[PipeChange::new(PipeId(0), pipe(Span::ZERO, 1))]).ok().unwrap(),
    ] {
        assert_eq!(sent.change(at(20), again, vec![], None), Err(ChangeError::NoSuchPipe));
    }
}

/// The packet on the wire of a link whose rate changes reaches the next link with its last bit.
#[test]
fn a_retimed_packet_comes_to_the_next_link_then() {
    let mut sent = Sent::new(network(&[5, 0], vec![through(&[0, 1])]));
    let set_rate = |rate, delay| {
        let mut spec = pipe(Span::from_millis(delay), 1);
        spec.setup.rate = rate;
        Prepared::new(&[PipeChange::new(PipeId(0), spec)])
            .unwrap_or_else(|(_, unfit)| panic!("{unfit}"))
    };
    sent.change(at(0), set_rate(Rate(1), 5), vec![], None).expect("it fits");
    (0..2).for_each(|_| sent.send(at(1), 1));
    // A millisecond for a packet; packets on the wire keep their delay.
    sent.change(at(2), set_rate(Rate::from_mbit(8), 9), vec![], None).expect("it fits");
    sent.network.poll(at(100), &mut sent.out);
    sent.note();
    assert_eq!(sent.due(), [(0, 8), (1, 13)]);
    let rule = &sent.network.active()[0].stats;
    assert!(rule.packets() == 4 && rule.longest < Span::from_millis(5), "{rule:?}");
    sent.end();
}

/// A network without rules gets rules: packets in transit leave after their link, under their own
/// handles.
#[test]
fn the_first_rules_come_while_packets_wait() {
    let mut sent = Sent::new(network(&[5], vec![]));
    (0..4).for_each(|_| sent.send(at(0), 1));
    sent.network.poll(at(1), &mut sent.out);
    sent.note();
    let begins = beginning(beginning(nothing(), 1, &pipe(Span::ZERO, 1)), 2, &unlimited());
    let pass = RouteRule { to: RuleAction::Pass, matches: to_port(9), ..RouteRule::all_to(0) };
    let rules = RuleChange::new(vec![pass, through(&[0, 1])], 1, vec![], 2);
    sent.change(at(1), begins, sorting(1).into(), Some(rules)).expect("it fits");
    sent.send(at(1), 9);
    sent.send(at(1), 1);
    sent.end();
    assert_eq!(sent.due(), [(0, 6), (1, 7), (2, 8), (3, 9), (4, 1), (5, 11)]);
    assert_eq!(sent.network.taken().iter().map(|taken| taken.packets).collect::<Vec<_>>(), [1, 1]);
}

/// After the link that they are in, packets continue with the current rules.
#[test]
fn packets_go_on_with_other_rules() {
    let on = RouteRule { on: true, ..through(&[0]) };
    let before =
        || vec![on.clone(), RouteRule { matches: to_port(7), ..through(&[1]) }, through(&[2])];
    let cases = [
        // Unchanged rules.
        (before(), vec![Some(0), Some(1), Some(2)], 15),
        // The rule between the first and the last is replaced.
        (
            vec![on.clone(), RouteRule { to: RuleAction::Drop, ..through(&[]) }, through(&[2])],
            vec![Some(0), None, Some(2)],
            0,
        ),
        // The rule that led the packets to their link is removed; later rules are kept, or no rule
        // is.
        (
            vec![RouteRule { matches: to_port(3), ..through(&[0]) }, through(&[2])],
            vec![None, None, Some(1)],
            23,
        ),
        (vec![through(&[0])], vec![None; 3], 6),
        // The rule that led the packets to their link now leads elsewhere.
        (
            vec![RouteRule { on: true, ..through(&[1]) }, through(&[2])],
            vec![Some(0), None, Some(1)],
            23,
        ),
    ];
    for (rules, become_others, due) in cases {
        let mut sent = Sent::new(network(&[5, 8, 16], before()));
        sent.send(at(0), 1);
        sent.send(at(0), 7);
        let leading = RuleChange::new(rules, 1, become_others, 0);
        sent.change(Time(1), nothing(), vec![], Some(leading)).expect("it fits");
        // The first packet went on the wire before, and its further route was decided then.
        sent.end();
        let second =
            sent.left.iter().find(|emit| emit.handle == 1).map_or(0, |emit| emit.due.0 / 1_000_000);
        assert!(sent.due().contains(&(0, 23)));
        assert_eq!(
            second,
            if due == 0 || due == 6 { due + u64::from(due > 0) } else { due + 1 },
            "{:?}",
            sent.due()
        );
    }
}

/// The state of the network as the test expects it.
struct Scene {
    /// By link: its place.
    places: Vec<u32>,
    /// By place: its pipes.
    specs: Vec<PipeSpec>,
    rules: Vec<RouteRule>,
    bypass: Option<u32>,
}

fn any_mask(dice: &mut Dice, spec: &mut PipeSpec) {
    let mask = Mask { dport: Some(u16::MAX), ..Mask::default() };
    let each = |dice: &mut Dice| MaskConfig {
        mask,
        most: 1 + dice.from(0, 3) as u32,
        expire: Span(dice.from(1, 3_000_000)),
    };
    let link = (dice.from(0, 3) == 0).then(|| each(dice));
    let flows =
        (0..spec.setup.flows.len()).map(|_| (dice.from(0, 3) == 0).then(|| each(dice))).collect();
    spec.masks = Masks { link, flows };
}

fn any_spec(dice: &mut Dice, masks: bool) -> PipeSpec {
    let mut spec = pipe(Span(dice.from(0, 3_000_000)), 1);
    spec.setup.rate = Rate::from_mbit(dice.from(4, 40));
    spec.kind = ["drr", "fifo", "wf2q+"][dice.from(0, 2) as usize];
    if masks && spec.kind != "fifo" {
        any_mask(dice, &mut spec);
    }
    spec
}

fn any_rule(dice: &mut Dice, places: &[u32]) -> RouteRule {
    let one = |dice: &mut Dice| places[dice.from(0, places.len() as u64 - 1) as usize];
    let to = match dice.from(0, 8) {
        0 => RuleAction::Drop,
        1 => RuleAction::Pass,
        2 => RuleAction::Links((0..dice.from(1, 4)).map(|_| one(dice)).collect()),
        3 => {
            let table =
                LookupTable::new("t", &[TableEntry::Numbers(1, 3), TableEntry::Numbers(5, 6)])
                    .expect("they are apart");
            let targets = vec![Some(RuleTarget::Link(one(dice))), Some(RuleTarget::Pass)];
            RuleAction::Table { table: Arc::new(table), by: Field::Dport, targets }
        }
        _ => RuleAction::Links(vec![one(dice)]),
    };
    let matches =
        if dice.from(0, 1) == 0 { to_port(dice.from(1, 8) as u16) } else { vec![Match::ANY] };
    let on = dice.from(0, 2) == 0 && to != RuleAction::Drop;
    let probability = (dice.from(0, 3) == 0).then(|| Probability::of(dice.from(1, 9), 10));
    let policer = |dice: &mut Dice| Policer {
        rate: Rate(dice.from(0, 100_000_000)),
        burst: dice.from(1, 20_000),
        layer: CountedLayer::Ip,
    };
    let buckets = if dice.from(0, 3) == 0 { dice.from(1, 2) } else { 0 };
    let policers = (0..buckets).map(|_| policer(dice)).collect();
    let mark = (dice.from(0, 3) == 0).then(|| MarkChange::to(dice.from(0, 2) as u32));
    RouteRule { matches, way: None, probability, policers, mark, to, on }
}

/// Counters over all links, removed ones included.
fn sum(network: &Network, scene: &Scene) -> Counters {
    let mut all = network.ended_pipe_counters();
    let flows = network.flows();
    for pipe in
        scene.places.iter().chain(&scene.bypass).flat_map(|place| [2 * place, 2 * place + 1])
    {
        all.add(&network.removed_flow_counters(PipeId(pipe)));
        (0..flows[pipe as usize] as u32)
            .for_each(|flow| all.add(&network.counters(PipeId(pipe), FlowId(flow))));
    }
    all
}

fn taken(network: &Network) -> u64 {
    network.taken().iter().map(|taken| taken.packets).sum::<u64>()
        + network.removed_rule_counters().packets
}

#[test]
fn links_masks_and_rules_change_a_thousand_times_under_load() {
    let (mut made, mut ended, mut reused, mut dropped) = (0, 0, 0, 0);
    for seed in 0..25 {
        let mut dice = Dice::new(seed ^ 0x6c_6976);
        let first = any_spec(&mut dice, false);
        // Half of the networks begin without rules.
        let rules = if seed % 2 == 0 { vec![] } else { vec![RouteRule::all_to(0)] };
        let spec =
            NetworkSpec { places: vec![place(first.clone()); 2], rules: rules.clone(), seed };
        let mut sent = Sent::new(Network::new(&spec).unwrap_or_else(|(_, why)| panic!("{why}")));
        let mut scene = Scene { places: vec![0], specs: vec![first], rules, bypass: None };
        let mut now = Time::ZERO;
        for step in 0..2_000 {
            now += Span(dice.from(0, 700_000));
            sent.send(now, dice.from(1, 8) as u16);
            if step % 40 != 39 {
                continue;
            }
            let places = sent.network.places();
            let (mut vacant, mut number) = (places.vacant.clone(), places.number);
            let mut next = |specs: &mut Vec<PipeSpec>, spec: PipeSpec| {
                let place = vacant.pop().unwrap_or_else(|| {
                    number += 1;
                    number - 1
                });
                specs.resize(specs.len().max(place as usize + 1), unlimited());
                specs[place as usize] = spec;
                place
            };
            let (mut then, mut begin, mut end, mut changes, mut ingress) =
                (vec![], vec![], vec![], vec![], vec![]);
            for &place in &scene.places {
                match dice.from(0, 5) {
                    0 if scene.places.len() > 1 => {
                        if dice.from(0, 1) == 0 {
                            let spec = scene.specs[place as usize].clone();
                            let flows = vec![FlowMapping::Dropped(FlowId(0))];
                            let change = |way| PipeChange {
                                pipe: PipeId(2 * place + way),
                                spec: spec.clone(),
                                flows: flows.clone(),
                                drop: true,
                            };
                            changes.extend([0, 1].map(change));
                        }
                        end.push(place);
                        continue;
                    }
                    1 | 2 => {
                        let spec = any_spec(&mut dice, true);
                        changes.extend(
                            [0, 1]
                                .map(|way| PipeChange::new(PipeId(2 * place + way), spec.clone())),
                        );
                        ingress.extend(
                            sorting(place)
                                .map(|s| IngressChange { masks: spec.masks.clone(), ..s }),
                        );
                        scene.specs[place as usize] = spec;
                    }
                    _ => {}
                }
                then.push(place);
            }
            if then.is_empty() || (then.len() < 5 && dice.from(0, 1) == 0) {
                let spec = any_spec(&mut dice, true);
                let place = next(&mut scene.specs, spec.clone());
                reused += u32::from(places.vacant.contains(&place));
                ingress.extend(
                    sorting(place).map(|s| IngressChange { masks: spec.masks.clone(), ..s }),
                );
                begin.push(place);
                then.push(place);
            }
            // Some rules stay, others are added, in any order.
            let mut rules: Vec<(Option<u32>, RouteRule)> = Vec::new();
            for (n, rule) in scene.rules.iter().enumerate() {
                let leads = |to: &u32| then.contains(to);
                let stays = match &rule.to {
                    RuleAction::Links(links) => links.iter().all(leads),
                    RuleAction::Table { targets, .. } => {
                        targets.iter().flatten().all(|target| match target {
                            RuleTarget::Link(link) => leads(link),
                            _ => true,
                        })
                    }
                    _ => true,
                };
                if stays && dice.from(0, 4) > 0 {
                    rules.push((Some(n as u32), rule.clone()));
                }
            }
            for _ in 0..dice.from(0, 2) {
                let place = dice.from(0, rules.len() as u64) as usize;
                rules.insert(place, (None, any_rule(&mut dice, &then)));
            }
            if dice.from(0, 3) > 0 {
                rules.push((None, RouteRule::all_to(then[0])));
            }
            rules.truncate(9);
            let mut become_others = vec![None; scene.rules.len()];
            for (new, (old, _)) in rules.iter().enumerate() {
                old.iter().for_each(|old| become_others[*old as usize] = Some(new as u32));
            }
            let rules: Vec<RouteRule> = rules.into_iter().map(|(_, rule)| rule).collect();
            let bypass = scene.bypass.or_else(|| {
                rules.iter().any(RouteRule::passes).then(|| {
                    let place = next(&mut scene.specs, unlimited());
                    begin.push(place);
                    place
                })
            });
            begin.sort_unstable();
            let mut prepared =
                Prepared::new(&changes).unwrap_or_else(|(_, why)| panic!("seed {seed}: {why}"));
            for place in begin {
                prepared = beginning(prepared, place, &scene.specs[place as usize]);
            }
            ended += end.len();
            let prepared = end.into_iter().fold(prepared, ending);
            sent.network.poll(now, &mut sent.out);
            sent.note();
            let before = (sum(&sent.network, &scene), taken(&sent.network));
            let leading = RuleChange::new(rules.clone(), seed, become_others, bypass.unwrap_or(0));
            sent.change(now, prepared, ingress, Some(leading))
                .unwrap_or_else(|why| panic!("seed {seed} {step}: {why}"));
            (scene.places, scene.rules, scene.bypass) = (then, rules, bypass);
            let after = (sum(&sent.network, &scene), taken(&sent.network));
            assert_eq!(
                (before.0.offered, before.0.offered_bytes),
                (after.0.offered, after.0.offered_bytes),
                "seed {seed} {step}"
            );
            // A packet that goes on the wire with the change consults the rules after its link at
            // once.
            assert!(before.1 <= after.1, "seed {seed} {step}: rules forget nothing");
            made += 1;
        }
        sent.end();
        let all = sum(&sent.network, &scene);
        let by_change =
            sent.dropped.iter().filter(|(_, why)| *why == DropReason::Changed).count() as u64;
        let behind = sent
            .dropped
            .iter()
            .filter(|(_, why)| matches!(why, DropReason::Rule | DropReason::Unmatched))
            .count() as u64;
        assert_eq!(all.backlog, 0, "seed {seed}");
        assert_eq!(all.offered, all.sent + all.dropped(), "seed {seed}");
        assert_eq!(by_change, all.dropped_by_change, "seed {seed}");
        assert_eq!(
            sent.left.len() as u64 + all.dropped() + behind,
            sent.ends.len() as u64,
            "seed {seed}"
        );
        assert_eq!(sent.ends.len() as u64 + sent.refused, 2_000);
        // All places are in use or vacant.
        let places = sent.network.places();
        let used = scene.places.len() + usize::from(scene.bypass.is_some());
        assert_eq!(places.vacant.len() + used, places.number as usize, "seed {seed}");
        dropped += by_change;
    }
    assert!(
        made >= 1_000 && ended > 200 && reused > 100 && dropped > 20,
        "{made} {ended} {reused} {dropped}"
    );
}
