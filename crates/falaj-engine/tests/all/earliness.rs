//! Regulators of delay-jitter: the earliness that a packet carries from link to link, and the
//! resulting jitter.

use crate::common::{Dice, emits};
use falaj_engine::change::PipeChange;
use falaj_engine::classifier::{Classifier, Match};
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::header::Protocol;
use falaj_engine::key::Key;
use falaj_engine::masks::MaskIds;
use falaj_engine::message::Unit;
use falaj_engine::network::{IngressPacket, Network, NetworkChange, NetworkSpec, PlacedPipe};
use falaj_engine::pipe::PipeSpec;
use falaj_engine::rules::{RouteRule, RuleAction};
use falaj_engine::{Engine, Output, PipeId, Prepared};
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::guarantee::Bound;
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry;
use falaj_sched::units::label::Label;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

/// One byte takes 8 ns.
const BYTE: u64 = 8;
const LARGEST: u32 = 12;

fn flow(priority: u64, spans: &[(&'static str, u64)]) -> FlowSetup {
    let values = Values::default().with("priority", Value::Count(priority));
    let values =
        spans.iter().fold(values, |all, &(name, span)| all.with(name, Value::Span(Span(span))));
    FlowSetup::new(values, Limit::Packets(60))
}

fn delay_jitter(mut flow: FlowSetup) -> FlowSetup {
    flow.values.set("regulator", Value::Choice("delay-jitter"));
    flow
}

fn pipe(flows: Vec<FlowSetup>, delay: u64) -> PipeSpec {
    let setup = Setup {
        rate: Rate::from_mbit(1000),
        largest: LARGEST,
        scheduler: Values::default(),
        flows,
    };
    PipeSpec::new("rcsp", setup, Span(delay))
}

/// A worked example of two links, at the second link. Times are counted in transmission times of a
/// byte. The first link guaranteed a delay of 4 from the times at which the packets A1, A2 and A3
/// of a flow were eligible there: 0, 3 and 5. They arrive here at 1, 2 and 6; the first link was
/// idle, and released A2 before its time. Here the guaranteed delay is 4 too: A1 is eligible at 4,
/// A2 at 7, A3 at 9, and each leaves 3 before its guaranteed time.
#[test]
fn what_was_early_is_held_for_as_long() {
    let spec = pipe(vec![delay_jitter(flow(0, &[("delay-bound", 4 * BYTE)])), flow(1, &[])], 0);
    let mut engine = Engine::new(&[spec]).expect("a valid pipe");
    let mut out = Vec::new();
    let all = [(0, 1, 4, 0), (1, 0, 1, 3), (2, 0, 1, 5), (6, 0, 1, 3)];
    for (handle, (at, flow, bytes, early)) in (0..).zip(all) {
        let label = Label { earliness: Span(early * BYTE), ..Label::default() };
        let unit = Unit { flow: FlowId(flow), handle, bytes };
        engine.input_labelled(PipeId(0), unit, &MaskIds::NONE, label, Time(at * BYTE), &mut out);
    }
    engine.poll(Time(1 << 40), &mut out);
    let ends: Vec<(u32, u64)> = emits(&out).iter().map(|e| (e.handle, e.end.0 / BYTE)).collect();
    assert_eq!(ends, [(0, 4), (1, 5), (2, 8), (3, 10)]);
    let early =
        |o: &Output| if let Output::Early(e) = o { Some((e.handle, e.by.0 / BYTE)) } else { None };
    assert_eq!(out.iter().filter_map(early).collect::<Vec<_>>(), [(1, 3), (2, 3), (3, 3)]);
}

/// The bound on the first flow's jitter behind a chain that ends here.
fn bound(spec: &PipeSpec) -> Option<Bound> {
    struct Ask;
    impl registry::Visitor for Ask {
        type Output = Option<Bound>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output {
            discipline.jitter(FlowId(0))
        }
    }
    registry::build(spec.kind, &spec.setup, Ask).expect("it was built before")
}

fn key() -> Key {
    Key::of_ordinary(Protocol::UDP, ([10, 77, 0, 1], 1).into(), ([10, 77, 0, 2], 5004).into(), 100)
}

/// Links in sequence; routed packets pass all of them as their first flow.
fn chain(links: &[PipeSpec]) -> NetworkSpec {
    let classifier = Classifier::new([&[Match::ANY][..]]);
    let place = |pipe: &PipeSpec| PlacedPipe {
        pipe: pipe.clone(),
        classifier: classifier.clone(),
        layer: CountedLayer::Ip,
    };
    let places = links.iter().flat_map(|pipe| [place(pipe), place(pipe)]).collect();
    let to = RuleAction::Links((0..links.len() as u32).collect());
    let rule = RouteRule {
        matches: vec![Match::ANY],
        way: None,
        probability: None,
        policers: Vec::new(),
        mark: None,
        to,
        on: false,
    };
    NetworkSpec { places, rules: vec![rule], seed: 1 }
}

/// A packet: its instant, where it enters (`None`: by the rule, at the first link), its flow, its
/// length.
type Comes = (u64, Option<PipeId>, u32, u32);

/// Time of each routed packet from its arrival to its last bit on the last link; polled at other
/// instants too if `dice` are given.
fn ways(spec: &NetworkSpec, all: &[Comes], mut dice: Option<&mut Dice>) -> Vec<Span> {
    let mut network = Network::new(spec).unwrap_or_else(|(pipe, why)| panic!("{pipe:?}: {why}"));
    let (mut out, mut now) = (Vec::new(), 0);
    for (handle, &(at, pipe, flow, length)) in (0..).zip(all) {
        while let Some(dice) = dice.as_deref_mut()
            && now < at
        {
            now = at.min(now + dice.from(1, 90));
            network.poll(Time(now), &mut out);
        }
        let entry = match pipe {
            Some(pipe) => network.route_to(pipe, FlowId(flow)),
            None => network.route(&key(), 0, length, Time(at)).expect("the rule takes all"),
        };
        network.enter(
            entry,
            &key(),
            IngressPacket { handle, length, label: &Label::default() },
            Time(at),
            &mut out,
        );
    }
    network.poll(Time(1 << 50), &mut out);
    let last = PipeId(spec.places.len() as u32 - 2);
    let way = |e: &falaj_engine::Emit| {
        let (at, pipe, ..) = all[e.handle as usize];
        (e.pipe == last && pipe.is_none()).then(|| e.end - Time(at))
    };
    assert!(
        out.iter().all(|o| !matches!(o, Output::Drop(d) if all[d.handle as usize].1.is_none()))
    );
    emits(&out).iter().filter_map(way).collect()
}

fn jitter(ways: &[Span]) -> Span {
    let (most, least) = (ways.iter().max(), ways.iter().min());
    *most.expect("some came") - *least.expect("some came")
}

/// A flow that keeps its gaps passes three links, on each of which a regulated flow and an
/// unregulated one compete with it. Behind regulators of delay-jitter its delays differ by the
/// contribution of the last link only; behind regulators of rate-jitter they often differ by more.
#[test]
fn over_three_links_jitter_is_that_of_one() {
    let (mut beyond, mut nearest, mut packets) = (0, 0.0f64, 0);
    for seed in 0..300 {
        let mut dice = Dice::new(seed ^ 0xea71);
        let time = u64::from(LARGEST) * BYTE;
        let gap = time * dice.from(3, 9);
        let mut links = Vec::new();
        for n in 0..3 {
            let main = delay_jitter(flow(dice.from(0, 1), &[("min-gap", gap)]));
            let other = flow(dice.from(0, 1), &[("min-gap", time * dice.from(3, 9))]);
            let mut spec = pipe(vec![main, other, flow(2, &[])], dice.from(0, 900));
            if n < 2 && dice.from(0, 3) == 0 {
                spec.setup.scheduler.set("idle", Value::Choice("release"));
            }
            links.push(spec);
        }
        let (mut all, mut at): (Vec<Comes>, u64) = (Vec::new(), 0);
        for _ in 0..60 {
            at += gap + dice.from(0, 2) * dice.from(0, gap);
            all.push((at, None, 0, dice.from(1, LARGEST.into()) as u32));
        }
        for place in 0..3 {
            let mut other = 0;
            while other < at {
                other += dice.from(0, 3) * dice.from(0, 400);
                let flow = dice.from(1, 2) as u32;
                let burst = dice.from(1, 6);
                (0..burst).for_each(|_| {
                    all.push((
                        other,
                        Some(PipeId(2 * place)),
                        flow,
                        dice.from(1, LARGEST.into()) as u32,
                    ));
                });
            }
        }
        all.sort_by_key(|comes| comes.0);
        let spec = chain(&links);
        let found = ways(&spec, &all, None);
        assert_eq!(found, ways(&spec, &all, Some(&mut dice)), "seed {seed}: polls change it");
        let of_one = bound(&links[2]).expect("gaps leave room").delay;
        assert!(jitter(&found) <= of_one, "seed {seed}: {} > {of_one}: {links:?}", jitter(&found));
        nearest = nearest.max(jitter(&found).0 as f64 / of_one.0 as f64);
        packets += found.len();
        // Each packet takes the whole guaranteed delay of the earlier links, because it is held for
        // the time by which it was early. On the last link it takes at most the bound in addition.
        let latest = |link: &PipeSpec| {
            let mut link = link.clone();
            link.setup.scheduler = Values::default();
            bound(&link).expect("gaps leave room").delay + link.delay
        };
        let before: Span = links[..2].iter().map(latest).sum();
        assert!(found.iter().all(|way| (before..=before + of_one).contains(way)), "seed {seed}");
        let mut others = links.clone();
        for link in &mut others {
            link.setup.flows[0].values.set("regulator", Value::Choice("rate-jitter"));
        }
        assert_eq!(bound(&others[2]), None);
        let mut releases = links[2].clone();
        releases.setup.scheduler.set("idle", Value::Choice("release"));
        assert_eq!(bound(&releases), None, "what goes before its time differs by more");
        beyond += usize::from(jitter(&ways(&chain(&others), &all, None)) > of_one);
    }
    assert!(packets == 300 * 60 && nearest > 0.8 && beyond > 100, "{packets} {nearest} {beyond}");
}

/// A link in the middle without regulators passes on the earliness; the last link compensates for
/// the first.
#[test]
fn a_link_that_does_not_look_passes_it_on() {
    let main = || delay_jitter(flow(0, &[("min-gap", 100 * BYTE), ("delay-bound", 50 * BYTE)]));
    let first = pipe(vec![main(), flow(0, &[])], 0);
    let mut middle = pipe(vec![FlowSetup::new(Values::default(), Limit::Packets(60))], 70);
    middle.kind = "fifo";
    let all =
        [(0, None, 0, 10), (160 * BYTE - 1, Some(PipeId(0)), 1, 12), (160 * BYTE, None, 0, 10)];
    // The second packet waits for another on the first link. On the last link it is held for a time
    // that is shorter by that wait.
    let found = ways(&chain(&[first.clone(), middle, first]), &all, None);
    assert_eq!(jitter(&found), Span::ZERO, "{found:?}");
    assert_eq!(found[0], Span((50 + 10 + 10) * BYTE + 70));
}

/// Packets that are held when their link changes are held for the same time.
#[test]
fn a_change_forgets_nobodys_earliness() {
    let main = delay_jitter(flow(0, &[("min-gap", 100 * BYTE), ("delay-bound", 900 * BYTE)]));
    let links = [pipe(vec![main.clone()], 0), pipe(vec![main.clone()], 0)];
    for drop in [false, true] {
        let mut network = Network::new(&chain(&links)).expect("pipes");
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        for n in 0..20 {
            let at = Time(n * 100 * BYTE);
            let entry = network.route(&key(), 0, 10, at).expect("the rule takes all");
            network.enter(
                entry,
                &key(),
                IngressPacket { handle: n as u32, length: 10, label: &Label::default() },
                at,
                &mut out,
            );
            if n % 5 == 4 {
                let mut spec = links[1].clone();
                spec.setup.flows[0].limit = Limit::Packets(30 + n as u32);
                let change = PipeChange { drop, ..PipeChange::new(PipeId(2), spec) };
                let change =
                    Prepared::new(&[change]).unwrap_or_else(|(_, unfit)| panic!("{unfit}"));
                network
                    .apply(change, NetworkChange::default(), &|_| Label::default(), at, &mut out)
                    .expect("it fits");
            }
        }
        network.poll(Time(1 << 50), &mut out);
        ends.extend(emits(&out).iter().map(|e| e.end - Time(u64::from(e.handle) * 100 * BYTE)));
        assert_eq!(ends, [Span(910 * BYTE); 20], "drop {drop}");
    }
}
