//! Several pipes and rules: departures, and counters.

use falaj_engine::change::PipeChange;
use falaj_engine::classifier::{Classifier, Match};
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::handover::FlowMapping;
use falaj_engine::header::{Net, Protocol};
use falaj_engine::impair::Impairments;
use falaj_engine::impair::corrupt::Corruption;
use falaj_engine::impair::duplicate::Duplication;
use falaj_engine::impair::event::RandomEvent;
use falaj_engine::impair::loss::Loss;
use falaj_engine::key::Key;
use falaj_engine::masks::{Mask, MaskConfig, Masks};
use falaj_engine::message::Emit;
use falaj_engine::network::{
    IngressChange, IngressPacket, Network, NetworkChange, NetworkSpec, PlacedPipe, RouteError,
};
use falaj_engine::pipe::PipeSpec;
use falaj_engine::policer::Policer;
use falaj_engine::rules::{MarkChange, Passage, RouteRule, RuleAction, RuleCounters, RuleTarget};
use falaj_engine::table::{Field, LookupTable, TableEntry};
use falaj_engine::term::{Literal, Term};
use falaj_engine::{DropReason, Output, PipeId, Prepared};
use falaj_sched::contract::params::{FlowSetup, POLICY, Setup, Value, Values};
use falaj_sched::queues::aqm::policy::Policy;
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::label::{Ecn, Label};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::sync::Arc;

/// Links with 1 ms for 1000 B of IP, and this delay, in both directions.
fn link(delay_ms: u64, impairments: Impairments) -> [PlacedPipe; 2] {
    let flow = FlowSetup::new(Values::default(), Limit::Packets(50));
    let setup = Setup {
        rate: Rate::from_mbit(8),
        largest: 1500,
        scheduler: Values::default(),
        flows: vec![flow],
    };
    let pipe =
        PipeSpec { impairments, ..PipeSpec::new("fifo", setup, Span::from_millis(delay_ms)) };
    let classifier = Classifier::new([&[Match::ANY][..]]);
    [(); 2].map(|()| PlacedPipe {
        pipe: pipe.clone(),
        classifier: classifier.clone(),
        layer: CountedLayer::Ip,
    })
}

fn spec(links: Vec<[PlacedPipe; 2]>, rules: Vec<RouteRule>) -> NetworkSpec {
    NetworkSpec { places: links.into_iter().flatten().collect(), rules, seed: 1 }.seeded(1)
}

fn rule(to: RuleAction) -> RouteRule {
    RouteRule { to, ..RouteRule::all_to(0) }
}

fn key(dport: u16) -> Key {
    Key::of_ordinary(
        Protocol::UDP,
        ([10, 77, 0, 1], 1).into(),
        ([10, 77, 0, 2], dport).into(),
        1000,
    )
}

/// The result of sending packets of 1000 B with these ports at these milliseconds, by their
/// numbers.
struct Ran {
    network: Network,
    left: Vec<Emit>,
    copies: Vec<Emit>,
    dropped: Vec<(u32, DropReason)>,
    refused: Vec<(u32, RouteError)>,
    passed: Vec<Emit>,
}

fn run(spec: &NetworkSpec, packets: &[(u64, u16)], polls: bool) -> Ran {
    let network = Network::new(spec).unwrap_or_else(|(pipe, why)| panic!("{pipe:?}: {why}"));
    let mut ran = Ran {
        network,
        left: vec![],
        copies: vec![],
        dropped: vec![],
        refused: vec![],
        passed: vec![],
    };
    let mut out = Vec::new();
    let at = |ms: u64| Time::ZERO + Span::from_millis(ms);
    for (handle, &(ms, dport)) in packets.iter().enumerate() {
        let handle = handle as u32;
        if polls {
            let before = packets[..handle as usize].last().map_or(0, |p| p.0);
            (before..ms).for_each(|ms| ran.network.poll(at(ms), &mut out));
        }
        match ran.network.route(&key(dport), 0, 1000, at(ms)) {
            Ok(entry) => {
                let packet = IngressPacket { handle, length: 1000, label: &Label::default() };
                ran.network.enter(entry, &key(dport), packet, at(ms), &mut out);
            }
            Err(why) => ran.refused.push((handle, why)),
        }
    }
    ran.network.poll(Time(Time::NEVER.0 - 1), &mut out);
    ran.passed.extend(ran.network.passed());
    for output in out {
        match output {
            Output::Emit(emit) => ran.left.push(emit),
            Output::Copy(emit) => ran.copies.push(emit),
            Output::Drop(dropped) => ran.dropped.push((dropped.handle, dropped.why)),
            Output::Corrupt(_) | Output::Mark(_) | Output::Early(_) | Output::Retimed(_) => {}
        }
    }
    assert_eq!(ran.network.next_event(), Time::NEVER);
    ran
}

/// The due time of each packet in milliseconds, in the order of their numbers.
fn due(ran: &Ran) -> Vec<(u32, u64)> {
    let mut all: Vec<(u32, u64)> =
        ran.left.iter().map(|e| (e.handle, e.due.0 / 1_000_000)).collect();
    all.sort_unstable();
    all
}

fn links(links: &[u32]) -> RuleAction {
    RuleAction::Links(links.to_vec())
}

/// A mark goes with its packet: to later rules, through a link to the rules after it, to flows and
/// to masks.
#[test]
fn marks_go_with_packets() {
    let marked =
        |value| Match::of(Literal { term: Term::Mark { value, mask: u32::MAX }, not: false });
    let to_port = |port| Match { dport: Some((port, port)), ..Match::ANY };
    let notes = |port, mark| RouteRule {
        matches: vec![to_port(port)],
        mark: Some(MarkChange::to(mark)),
        on: true,
        ..rule(RuleAction::Pass)
    };
    let plain = Impairments::default;
    let of_mark = |mark, to| RouteRule { matches: vec![marked(mark)], ..rule(to) };
    let rules = vec![
        notes(1, 7),
        notes(2, 0x1_0007),
        of_mark(7, links(&[1])),
        // Through the first link, marked on the way into it.
        RouteRule { mark: Some(MarkChange::to(9)), on: true, ..of_mark(0x1_0007, links(&[0])) },
        of_mark(9, links(&[2])),
        rule(links(&[0])),
    ];
    let places = || [10, 20, 40].map(|delay| link(delay, plain())).to_vec();
    let ran = run(&spec(places(), rules.clone()), &[(0, 1), (100, 2), (200, 3)], true);
    assert_eq!(due(&ran), [(0, 21), (1, 100 + 11 + 41), (2, 211)]);
    // The third link accepts only packets with one mark: that of the packet, then other marks.
    for (mark, takes) in [(9, true), (7, false), (0, false)] {
        let mut places = places();
        places[2][0].classifier = Classifier::new([&[marked(mark)][..]]);
        let ran = run(&spec(places, rules.clone()), &[(0, 2)], false);
        assert_eq!(ran.left.len(), usize::from(takes), "mark {mark}");
        assert_eq!(ran.dropped, if takes { vec![] } else { vec![(0, DropReason::Unmatched)] });
    }
    // A link for each mark: packets of different marks do not wait for each other.
    let mut one = vec![link(10, plain())];
    let mask = Mask { mark: true, ..Mask::default() };
    one[0][0].pipe.masks.link = Some(MaskConfig { mask, most: 10, expire: MaskConfig::EXPIRE });
    let all = vec![notes(1, 7), notes(2, 8), rule(links(&[0]))];
    let ran = run(&spec(one, all), &[(0, 1), (0, 2), (0, 1), (0, 3)], false);
    assert_eq!(due(&ran), [(0, 11), (1, 11), (2, 12), (3, 11)]);
}

/// Rules change some bits of a mark, and match some bits.
#[test]
fn marks_have_parts() {
    let marked = |value, mask| Match::of(Literal { term: Term::Mark { value, mask }, not: false });
    let sets = |value, mask| RouteRule {
        mark: Some(MarkChange { value, mask }),
        on: true,
        ..rule(RuleAction::Pass)
    };
    let of_mark =
        |value, mask, to| RouteRule { matches: vec![marked(value, mask)], ..rule(links(&[to])) };
    for (rules, to) in [
        (vec![sets(0x12, u32::MAX), sets(0x30, 0xf0), of_mark(0x32, u32::MAX, 1)], 1),
        (vec![sets(0x12, u32::MAX), of_mark(0x13, u32::MAX, 1), of_mark(0x10, 0xf0, 2)], 2),
        (vec![sets(0x8000_0012, u32::MAX), of_mark(0x8000_0000, 0x8000_0001, 2)], 2),
        (vec![sets(0x12, u32::MAX), of_mark(0, 0xf, 1), of_mark(0, 0xf00, 2)], 2),
    ] {
        let rules: Vec<RouteRule> = rules.into_iter().chain([rule(links(&[0]))]).collect();
        let places = [10, 20, 40].map(|delay| link(delay, Impairments::default())).to_vec();
        let ran = run(&spec(places, rules.clone()), &[(0, 1)], false);
        assert_eq!(due(&ran), [(0, [11, 21, 41][to])], "{rules:?}");
        let steps = Passage::of(&rules, &Key::default(), 0).steps;
        assert_eq!(steps.iter().map(|s| s.link).collect::<Vec<_>>(), [to as u32]);
    }
}

/// A rule takes what conforms to its policer, in each direction by a bucket of its own; the rest
/// goes on to the next rule.
#[test]
fn a_rule_takes_what_conforms() {
    let policer = Policer { rate: Rate::from_mbit(8), burst: 2000, layer: CountedLayer::Ip };
    let some = RouteRule { policers: vec![policer], ..rule(links(&[0])) };
    let places = || [10, 20].map(|delay| link(delay, Impairments::default())).to_vec();
    // Packets of 1000 B: 1 us for each byte.
    let times = [(0, 1), (0, 1), (0, 1), (1, 1), (1, 1)];
    let ran = run(&spec(places(), vec![some.clone(), rule(links(&[1]))]), &times, true);
    assert_eq!(due(&ran), [(0, 11), (1, 12), (2, 21), (3, 13), (4, 22)]);
    assert_eq!(ran.network.taken().iter().map(|t| t.packets).collect::<Vec<_>>(), [3, 2]);
    let passage = |rules: &[RouteRule]| Passage::of(rules, &Key::default(), 0);
    let all = passage(&[some.clone(), rule(links(&[1]))]);
    assert_eq!(
        all.steps.iter().map(|s| (s.link, s.share)).collect::<Vec<_>>(),
        [(0, 1.0), (1, 1.0)]
    );
    assert_eq!(all.sure(), None);
    let dropped = passage(&[some, rule(RuleAction::Drop)]);
    assert_eq!((dropped.steps.len(), dropped.dropped, dropped.is_policed), (1, 1.0, true));
}

#[test]
fn chance_and_two_delays_reorder() {
    let some = RouteRule { probability: Some(Probability::of(3, 10)), ..rule(links(&[1])) };
    let plain = || Impairments::default();
    let spec = spec(vec![link(10, plain()), link(50, plain())], vec![some, rule(links(&[0]))]);
    let packets: Vec<(u64, u16)> = (0..1000).map(|n| (10 * n, 5004)).collect();
    let ran = run(&spec, &packets, false);
    let arrival: Vec<(u32, u64)> = due(&ran);
    assert_eq!(arrival.len(), 1000);
    for (n, at) in &arrival {
        let took = at - 10 * u64::from(*n);
        assert!(took == 11 || took == 51, "{n}: {took}");
    }
    let slow = arrival.iter().filter(|(n, at)| at - 10 * u64::from(*n) == 51).count() as u64;
    // 99.99 % of the binomial distribution for 1000 packets with probability 0.3.
    assert!((244..=356).contains(&slow), "{slow}");
    let taken = |packets| RuleCounters { packets, bytes: 1000 * packets };
    assert_eq!(ran.network.taken(), [taken(slow), taken(1000 - slow)]);
    assert!(arrival.windows(2).any(|pair| pair[1].1 < pair[0].1), "some overtake");
    // Polling changes nothing, and a repetition has the same result.
    let again = run(&spec, &packets, true);
    assert_eq!(due(&again), arrival);
}

#[test]
fn links_follow_each_other_at_the_instant() {
    let plain = Impairments::default;
    let spec = spec(
        vec![link(5, plain()), link(0, plain()), link(1, plain())],
        vec![rule(links(&[0, 2, 1]))],
    );
    // 1 ms in each link and its delay; the second packet waits for the first one in the first link.
    let ran = run(&spec, &[(0, 1), (0, 1)], false);
    assert_eq!(due(&ran), [(0, 9), (1, 10)]);
    assert_eq!(ran.passed.iter().map(|e| e.pipe.0).collect::<Vec<_>>(), [0, 0, 4, 4]);
    assert!(ran.left.iter().all(|emit| emit.pipe == PipeId(2)));
    for pipe in [0, 2, 4] {
        assert_eq!(ran.network.counters(PipeId(pipe), FlowId(0)).sent, 2);
        assert_eq!(
            ran.network.counters(PipeId(pipe + 1), FlowId(0)).offered,
            0,
            "nothing went down"
        );
    }
}

#[test]
fn continuing_packets_reach_the_rules_behind() {
    let plain = Impairments::default;
    let two = |dport| vec![Match { dport: Some((dport, dport)), ..Match::ANY }];
    let rules = vec![
        RouteRule { on: true, ..rule(links(&[0])) },
        RouteRule { matches: two(1), ..rule(RuleAction::Drop) },
        RouteRule { matches: two(2), ..rule(RuleAction::SkipTo(4)) },
        RouteRule { matches: two(3), on: true, ..rule(RuleAction::Pass) },
        RouteRule { matches: [two(2), two(4)].concat(), ..rule(links(&[1])) },
    ];
    let ran = run(
        &spec(vec![link(0, plain()), link(9, plain())], rules),
        &[(0, 1), (10, 2), (20, 3), (30, 4), (40, 5)],
        true,
    );
    // The packets are dropped after the link, led to the second link, or leave because no rule
    // matches any more.
    assert_eq!(ran.dropped, [(0, DropReason::Rule)]);
    assert_eq!(due(&ran), [(1, 21), (2, 21), (3, 41), (4, 41)]);
    assert_eq!(ran.network.taken().iter().map(|t| t.packets).collect::<Vec<_>>(), [5, 1, 1, 1, 2]);
}

#[test]
fn tables_lead_and_rules_drop_and_pass() {
    let net = |text: &str, len| TableEntry::Net(Net::new(text.parse().expect("an address"), len));
    let entries = [
        TableEntry::Numbers(1, 1),
        TableEntry::Numbers(2, 2),
        TableEntry::Numbers(3, 9),
        net("10.0.0.0", 8),
    ];
    let table = Arc::new(LookupTable::new("ports", &entries).expect("they differ"));
    let targets =
        vec![Some(RuleTarget::Link(1)), Some(RuleTarget::Drop), Some(RuleTarget::Pass), None];
    let looked_up = rule(RuleAction::Table { table, by: Field::Dport, targets });
    let down = RouteRule { way: Some(1), ..rule(links(&[0])) };
    let plain = Impairments::default;
    let spec = spec(vec![link(0, plain()), link(7, plain())], vec![down, looked_up]);
    let ran = run(&spec, &[(0, 1), (0, 2), (0, 3), (0, 10)], false);
    assert_eq!(due(&ran), [(0, 8), (2, 0)]);
    assert_eq!(ran.refused, [(1, RouteError::Dropped), (3, RouteError::Unmatched)]);
    assert_eq!(ran.network.taken()[1].packets, 3);
}

/// The next link gets the copies that a link has made, and not the packets that it has lost.
#[test]
fn copies_go_on_and_every_packet_ends_once() {
    let often =
        |n| RandomEvent { probability: Probability::of(n, 10), correlation: Probability::NEVER };
    let doubles = || Impairments {
        duplicate: Some(Duplication(often(5))),
        corrupt: Some(Corruption(often(2))),
        ..Impairments::default()
    };
    let loses = Impairments { loss: Some(Loss::Random(often(3))), ..Impairments::default() };
    let spec = spec(
        vec![link(3, doubles()), link(0, loses), link(0, doubles())],
        vec![rule(links(&[0, 1, 2]))],
    );
    let packets: Vec<(u64, u16)> = (0..500).map(|n| (10 * n, 1)).collect();
    let ran = run(&spec, &packets, false);
    let counters = |pipe| ran.network.counters(PipeId(pipe), FlowId(0));
    assert_eq!(counters(2).offered, 500 + counters(0).duplicated);
    assert_eq!(counters(4).offered, counters(2).delivered());
    assert_eq!(
        (ran.left.len() + ran.copies.len()) as u64,
        counters(4).sent + counters(4).duplicated
    );
    // Each handle is returned finally once, after its copies.
    let mut ended = vec![0; packets.len()];
    ran.left
        .iter()
        .map(|e| e.handle)
        .chain(ran.dropped.iter().map(|d| d.0))
        .for_each(|n| ended[n as usize] += 1);
    assert!(ended.iter().all(|times| *times == 1));
    assert!(counters(0).duplicated > 200 && counters(2).lost > 150 && ran.copies.len() > 200);
}

/// Sends packets of 1000 B with these ports at these milliseconds, all with these ECN bits; `None`
/// if a packet is refused.
fn labelled(
    network: &mut Network,
    packets: impl IntoIterator<Item = (u64, u16)>,
    ecn: Ecn,
    out: &mut Vec<Output>,
) -> Option<()> {
    for (handle, (ms, dport)) in packets.into_iter().enumerate() {
        let entry = network.route(&key(dport), 0, 1000, Time::ZERO).ok()?;
        let label = Label { ecn, ..Label::default() };
        let packet = IngressPacket { handle: handle as u32, length: 1000, label: &label };
        network.enter(entry, &key(dport), packet, Time::ZERO + Span::from_millis(ms), out);
    }
    Some(())
}

/// A mask of the second link uses the packet's key at its entrance into the first link.
#[test]
fn masks_and_labels_are_those_of_the_packet_in_every_link() {
    let plain = Impairments::default;
    let chain = || spec(vec![link(3, plain()), link(0, plain())], vec![rule(links(&[0, 1]))]);
    let mut masked = chain();
    let mask = Mask { dport: Some(u16::MAX), ..Mask::default() };
    masked.places[2].pipe.masks.link =
        Some(MaskConfig { mask, most: 9, expire: Span::from_secs(10) });
    let ran = run(&masked, &[(0, 1), (0, 2), (0, 1), (0, 3)], true);
    let report = ran.network.mask_stats(PipeId(2), None, 9).expect("it has a mask");
    assert_eq!((report.made, report.total.packets()), (3, 4));
    assert!(ran.network.mask_stats(PipeId(0), None, 9).is_none());

    // The first link is too fast for a queue; the queue management of the second link marks packets
    // that support it, and drops others.
    let mut managed = chain();
    managed.places[0].pipe.setup.rate = Rate::from_mbit(1000);
    let values = Values::default()
        .with("ecn", Value::Choice("yes"))
        .with("target", Value::Span(Span::from_millis(5)))
        .with("interval", Value::Span(Span::from_millis(50)));
    let policy = Policy::new("codel", &values, Limit::Packets(50))
        .expect("a policy")
        .expect("one of a queue");
    managed.places[2].pipe.setup.flows[0].values.set(POLICY, Value::Policy(policy));
    for ecn in [Ecn::Ect0, Ecn::Not] {
        let (mut network, mut out) = (Network::new(&managed).expect("pipes"), Vec::new());
        assert!(network.wants_labels());
        labelled(&mut network, (0..600).map(|n| (n * 9 / 10, 1)), ecn, &mut out)
            .expect("all enter");
        network.poll(Time(Time::NEVER.0 - 1), &mut out);
        let marked = out
            .iter()
            .filter(|o| matches!(o, Output::Mark(mark) if mark.pipe == PipeId(2)))
            .count() as u64;
        let c = network.counters(PipeId(2), FlowId(0));
        assert_eq!((marked, marked > 0), (c.marked, ecn == Ecn::Ect0));
        assert_eq!(c.dropped_by_policy > 0, ecn == Ecn::Not);
    }
}

/// A packet between two links when the second link changes stays with its flow.
#[test]
fn a_change_finds_packets_between_links() {
    let plain = Impairments::default;
    let spec = spec(vec![link(5, plain()), link(0, plain())], vec![rule(links(&[0, 1]))]);
    let (mut network, mut out) = (Network::new(&spec).expect("pipes"), Vec::new());
    labelled(&mut network, [(0, 1)], Ecn::Not, &mut out).expect("it enters");
    let (pipe, mut after) = (PipeId(2), spec.places[2].pipe.clone());
    after.setup.flows = vec![after.setup.flows[0].clone(); 2];
    let mappings = vec![FlowMapping::Is(FlowId(1))];
    let change = PipeChange { pipe, spec: after, flows: mappings.clone(), drop: false };
    let prepared = Prepared::new(&[change]).unwrap_or_else(|(_, unfit)| panic!("{unfit}"));
    let nine = Match { dport: Some((9, 9)), ..Match::ANY };
    let classifier = Classifier::new([&[nine][..], &[Match::ANY][..]]);
    let ingress =
        vec![IngressChange { pipe, classifier, layer: CountedLayer::Ip, masks: Masks::default() }];
    // It left the first link at 1 ms, and reaches the second link at 6 ms.
    let at = |ms| Time::ZERO + Span::from_millis(ms);
    let around = NetworkChange { flows: &[(pipe, &mappings)], ingress, rules: None };
    network
        .apply(prepared, around, &|_| Label::default(), at(3), &mut out)
        .unwrap_or_else(|unfit| panic!("{unfit}"));
    labelled(&mut network, [(4, 9), (4, 1)], Ecn::Not, &mut out).expect("all enter");
    network.poll(Time(Time::NEVER.0 - 1), &mut out);
    let sent = |flow| network.counters(pipe, FlowId(flow)).sent;
    assert_eq!((sent(0), sent(1)), (1, 2));
}

/// Each packet is duplicated by the first link, and the second link marks some: exactly those leave
/// with a mark, though a packet and its copy share bytes.
#[test]
fn a_copy_is_marked_without_the_other() {
    let twice = Impairments {
        duplicate: Some(Duplication(RandomEvent::independent(Probability::ALWAYS))),
        ..Impairments::default()
    };
    let mut chain =
        spec(vec![link(3, twice), link(0, Impairments::default())], vec![rule(links(&[0, 1]))]);
    chain.places[0].pipe.setup.rate = Rate::from_mbit(1000);
    let values = Values::default()
        .with("ecn", Value::Choice("yes"))
        .with("target", Value::Span(Span::from_millis(5)))
        .with("interval", Value::Span(Span::from_millis(50)));
    let policy = Policy::new("codel", &values, Limit::Packets(50))
        .expect("a policy")
        .expect("one of a queue");
    chain.places[2].pipe.setup.flows[0].values.set(POLICY, Value::Policy(policy));
    let (mut network, mut out) = (Network::new(&chain).expect("pipes"), Vec::new());
    labelled(&mut network, (0..300).map(|n| (n * 19 / 10, 1)), Ecn::Ect0, &mut out)
        .expect("all enter");
    network.poll(Time(Time::NEVER.0 - 1), &mut out);
    // As a driver does it: a packet leaves with the current bits of its bytes.
    let (mut bytes, mut left) = (vec![Ecn::Ect0; 300], [0, 0]);
    for output in &out {
        match output {
            Output::Mark(mark) => bytes[mark.handle as usize] = mark.ecn,
            Output::Emit(emit) | Output::Copy(emit) => {
                left[usize::from(bytes[emit.handle as usize] == Ecn::Ce)] += 1;
            }
            _ => {}
        }
    }
    let c = network.counters(PipeId(2), FlowId(0));
    assert_eq!((left[0] + left[1], left[1]), (600, c.marked));
    assert!(c.marked > 3, "{c:?}");
}

/// No pipe reads labels when packets arrive. Then the second link begins to read them, and gets the
/// labels of the packets in the network.
#[test]
fn labels_are_learned_when_they_are_read() {
    let plain = Impairments::default;
    let chain = spec(vec![link(30, plain()), link(0, plain())], vec![rule(links(&[0, 1]))]);
    for ecn in [Ecn::Ect1, Ecn::Not] {
        let (mut network, mut out) = (Network::new(&chain).expect("pipes"), Vec::new());
        assert!(!network.wants_labels());
        labelled(&mut network, (0..40).map(|_| (0, 1)), Ecn::Not, &mut out).expect("all enter");
        let mut after = chain.places[2].pipe.clone();
        (after.kind, after.setup.rate) = ("dualpi2", Rate::from_mbit(4));
        let change = Prepared::new(&[PipeChange::new(PipeId(2), after)])
            .unwrap_or_else(|(_, unfit)| panic!("{unfit}"));
        let known = |_: u32| Label { ecn, ..Label::default() };
        let at = Time::ZERO + Span::from_millis(20);
        network.apply(change, NetworkChange::default(), &known, at, &mut out).expect("it fits");
        network.poll(Time(Time::NEVER.0 - 1), &mut out);
        let marks =
            out.iter().filter(|o| matches!(o, Output::Mark(mark) if mark.ecn == Ecn::Ce)).count();
        assert_eq!(marks > 20, ecn == Ecn::Ect1, "{marks}");
    }
}
