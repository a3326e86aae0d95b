//! Delay bounds of whole plans, which use the envelopes of all flows. Searches for the worst
//! arrivals attack them.

use falaj_engine::delay_adversary::{Arrival, Attack, Witness};
use falaj_engine::message::Emit;
use falaj_plan::bounds::Outlook;
use falaj_plan::plan;
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::guarantee::{ProportionalLimits, ServiceLimits};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::registry;
use falaj_sched::units::time::{Span, Time};

/// The planned delays of the flows of the first link, and the worst delay that the search found.
pub(crate) fn attack(text: &str, effort: u64) -> (Vec<Option<Span>>, Witness) {
    attack_flows(text, effort, |_| true)
}

/// As [`attack`], but the search looks only at the delays of these flows. The planned delays of the
/// others are `None`.
fn attack_flows(
    text: &str,
    effort: u64,
    attacked: impl Fn(&Outlook) -> bool,
) -> (Vec<Option<Span>>, Witness) {
    let (scenario, _) = falaj_scenario::parse(text, "a.toml").expect("valid");
    let ways = plan(&scenario).expect("accepted");
    let bound = |flow: &Outlook| flow.guaranteed().map(|bound| bound.delay);
    let bounds: Vec<Option<Span>> =
        ways[0].flows.iter().map(|flow| bound(flow).filter(|_| attacked(flow))).collect();
    let envelopes: Vec<_> = ways[0]
        .direction
        .flows
        .iter()
        .map(|flow| flow.envelope.iter().map(|bucket| (bucket.rate, bucket.burst)).collect())
        .collect();
    let attack = Attack {
        spec: &ways[0].direction.pipe,
        envelopes: &envelopes,
        bounds: &bounds,
        smallest: 1,
    };
    let witness = attack.search(7, effort).expect("packets leave");
    assert!(witness.ratio <= 1.0, "broken: {witness:?} of {bounds:?}:\n{text}");
    (bounds, witness)
}

/// A link of 10 Mbit/s with packets of 1500 B. Its flows have these keys, and each has an envelope
/// of 64 kbit/s and 3000 B.
fn alike(kind: &str, flows: &[&str]) -> String {
    let flow = |(n, keys): (usize, &&str)| {
        format!(
            "[link.l.flow.f{n}]\nmatch = \"udp dport {}\"\n{keys}\n\
             envelope = {{ rate = \"64kbit\", burst = \"3000B\" }}\n",
            n + 1
        )
    };
    let flows: String = flows.iter().enumerate().map(flow).collect();
    format!(
        "[link.l]\nrate = \"10mbit\"\nmtu = \"1486B\"\nscheduler = {{ kind = \"{kind}\" }}\n{flows}"
    )
}

/// Whatever the order is, the last packet leaves when the bursts of all flows have been sent, and
/// also the bytes that came in the meantime.
#[test]
fn envelopes_of_all_flows_bound_the_delay_under_each_order() {
    let strong = "quantum = \"30000B\"";
    let cases: [(&str, Vec<&str>); 6] = [
        ("drr", vec![strong; 5]),
        ("drr++", vec!["latency = \"low\"", strong, strong, strong]),
        ("rr", vec![""; 6]),
        ("wfq", vec!["weight = 2", "", "", ""]),
        ("priority", vec!["priority = 0", "priority = 1", "priority = 1", "priority = 2"]),
        ("edf", vec!["deadline = \"5ms\"", "deadline = \"9ms\"", "deadline = \"1ms\""]),
    ];
    for (kind, flows) in cases {
        let (bounds, witness) = attack(&alike(kind, &flows), 2_000);
        assert!(witness.ratio > 0.8, "{kind}: {witness:?} of {bounds:?}");
    }
}

/// A flow whose envelope is within its contract for the fast lane waits for one visit and for the
/// contracts of the other flows in that lane, whatever all other flows send.
#[test]
fn an_envelope_within_the_contract_of_drr_plus_bounds_the_delay() {
    let contract = |n: u32, window: &str| {
        format!(
            "[link.l.flow.f{n}]\nmatch = \"udp dport {n}\"\nlatency = \"low\"\nrate = \"1mbit\"\n\
             window = \"{window}\"\n"
        )
    };
    let text = |window: &str| {
        format!(
            "[link.l]\nrate = \"100mbit\"\nmtu = \"1486B\"\nscheduler = {{ kind = \"drr+\" }}\n{}\
             envelope = {{ rate = \"64kbit\", burst = \"1500B\" }}\n{}\
             [link.l.flow.b]\nmatch = \"any\"\n",
            contract(1, window),
            contract(2, "12ms"),
        )
    };
    // A visit of 2999 B, a packet of the other flow with a contract, and its own packet of 1500 B.
    let (bounds, witness) = attack(&text("16ms"), 30_000);
    assert_eq!(bounds[0], Some(Span(8 * (2_999 + 1_500 + 1_500) * 10)));
    assert!(witness.flow == 0 && witness.ratio > 0.9, "{witness:?} of {bounds:?}");
    // In 12 ms the flow may send 96 B in addition to its burst: more than the contract allows.
    let (bounds, _) = attack(&text("12ms"), 200);
    assert!(bounds[0] > Some(Span(1_000_000)), "{bounds:?}");
}

/// Each flow of a lower priority has a bound by the envelopes of the flows before it. Requirements
/// are judged by that bound. The bound depends on other flows, so it does not hold whatever they
/// send.
#[test]
fn lower_priorities_have_what_the_envelopes_of_higher_ones_leave_over() {
    let text = alike("priority", &["priority = 0", "priority = 1", "priority = 2"])
        .replace("rate = \"64kbit\"", "rate = \"1mbit\"");
    let (bounds, witness) = attack(&text, 4_000);
    // At 10 Mbit/s: a burst and a packet of 1500 B; then two bursts and that packet, and three
    // bursts, each with the bytes that come in that time.
    assert_eq!(bounds[0], Some(Span(3_600_000)));
    assert_eq!(bounds[1], Some(Span(6_666_667)));
    assert_eq!(bounds[2], Some(Span(9_000_000)));
    assert!(witness.ratio > 0.9, "{witness:?} of {bounds:?}");
    for (delay, refused) in [("7ms", 0), ("6ms", 1)] {
        let needs = text.replace(
            "priority = 1",
            &format!("priority = 1\nrequires = {{ delay = \"{delay}\" }}"),
        );
        let (scenario, _) = falaj_scenario::parse(&needs, "a.toml").expect("valid");
        let ways = plan(&scenario).expect("accepted");
        assert_eq!(ways[0].unmet.len(), refused, "{delay}");
        assert!(ways[0].flows[1].assured.is_none());
    }
}

/// Packets of later deadlines go first only if they came earlier, or were on the wire.
#[test]
fn short_deadlines_wait_for_no_more_than_what_is_due_before_them() {
    let text = alike("edf", &["deadline = \"1ms\"", "deadline = \"5ms\"", "deadline = \"9ms\""]);
    let (bounds, witness) = attack(&text, 20_000);
    // At 10 Mbit/s a byte takes 0.8 us. The first flow waits for a packet of 1500 B and its own
    // burst; the second also for the first flow's burst, with the 32 B of 4 ms more. The third
    // waits for all bursts, with 32 B and 64 B more.
    let by_hand = [1_500 + 3_000, 1_500 + 3_000 + 3_032, 3_000 + 3_032 + 3_064];
    assert_eq!(bounds, by_hand.map(|bytes: u64| Some(Span(800 * bytes))));
    assert!(witness.ratio > 0.9, "{witness:?} of {bounds:?}");
    for (delay, refused) in [("3.7ms", 0), ("3.5ms", 1)] {
        let needs =
            text.replace("\"1ms\"", &format!("\"1ms\"\nrequires = {{ delay = \"{delay}\" }}"));
        let (scenario, _) = falaj_scenario::parse(&needs, "a.toml").expect("valid");
        assert_eq!(plan(&scenario).expect("accepted")[0].unmet.len(), refused, "{delay}");
    }
}

/// A low-latency flow whose burst is less than a quantum waits for one visit of another flow,
/// whatever the number of others.
#[test]
fn a_burst_below_a_quantum_waits_for_one_visit_under_drr_plus_plus() {
    let text = |others: usize| {
        let normal = |n: usize| {
            format!(
                "[link.l.flow.n{n}]\nmatch = \"udp dport {n}\"\nquantum = \"1500B\"\nqueue = \"9p\"\n"
            )
        };
        format!(
            "[link.l]\nrate = \"8mbit\"\nmtu = \"1486B\"\nscheduler = {{ kind = \"drr++\" }}\n\
             [link.l.flow.low]\nmatch = \"icmp\"\nlatency = \"low\"\nquantum = \"1500B\"\n\
             requires = {{ delay = \"3.2ms\" }}\nenvelope = {{ rate = \"64kbit\", burst = \"200B\" }}\n{}",
            (1..=others).map(normal).collect::<String>()
        )
    };
    let (scenario, _) = falaj_scenario::parse(&text(64), "a.toml").expect("valid");
    let ways = plan(&scenario).expect("accepted");
    let guaranteed = ways[0].flows[0].guaranteed().map(|bound| bound.delay);
    // The flow's own 200 B, and a visit of 1500 B with 1499 B carried over.
    assert_eq!((guaranteed, ways[0].unmet.len()), (Some(Span(3_199_000)), 0));
    let (bounds, witness) = attack(&text(3), 20_000);
    assert_eq!(bounds[0], guaranteed);
    assert!(witness.flow == 0 && witness.ratio > 0.9, "{witness:?} of {bounds:?}");
}

/// `n` virtual links of 1 Gbit/s with packets of 500 B, which take 4 us.
fn links(serve: &str, tail: &str, phase: &str, n: u32, keys: &str) -> String {
    let link = |f: u32| {
        format!(
            "[link.l.flow.f{f}]\nmatch = \"udp dport {f}\"\nkind = \"A\"\nphase = \"{phase}\"\n{keys}\n"
        )
    };
    format!(
        "[link.l]\nrate = \"1gbit\"\nmtu = \"486B\"\n\
         scheduler = {{ kind = \"virtual-links\", serve = \"{serve}\", tail = \"{tail}\" }}\n{}",
        (1..=n).map(link).collect::<String>()
    )
}

/// A head-of-line packet that did not fit goes first in the next phase. So two short phases carry
/// more than twice the minimum of one phase. A burst that fits in one phase waits for one phase
/// only.
#[test]
fn short_phases_of_virtual_links_carry_what_two_of_them_must() {
    let bytes = "queue = \"5000B\"";
    let packet = "queue = \"20p\"\nenvelope = { rate = \"1mbit\", burst = \"500B\" }";
    let cases = [
        ("phase-wise", "wait", "4100ns", 3, bytes, 236_664, 0.9),
        ("phase-wise", "wait", "4us", 3, bytes, 231_928, 0.9),
        ("phase-wise", "skip", "4100ns", 3, bytes, 195_800, 0.9),
        ("packet-wise", "wait", "4100ns", 3, bytes, 244_864, 0.9),
        ("packet-wise", "skip", "4us", 3, bytes, 200_000, 0.9),
        ("phase-wise", "wait", "4100ns", 3, packet, 16_200, 0.9),
        ("phase-wise", "wait", "6us", 3, packet, 20_000, 0.9),
        ("phase-wise", "wait", "8us", 3, packet, 24_000, 0.9),
        ("packet-wise", "carry", "7600ns", 2, "queue = \"20p\"", 175_200, 0.9),
        ("packet-wise", "carry", "4us", 2, "queue = \"20p\"", 168_000, 0.9),
    ];
    for (serve, tail, phase, n, keys, bound, near) in cases {
        let (bounds, witness) = attack(&links(serve, tail, phase, n, keys), 6_000);
        let what = format!("{serve}, {tail}, {phase}: {:.3} of {bounds:?}", witness.ratio);
        assert_eq!(bounds[0], Some(Span(bound)), "{what}");
        assert!(witness.ratio > near, "{what}: {witness:?}");
    }
}

/// A flow of 200 B waits for the quanta of rivals whose envelopes are unknown, and for the
/// envelopes of the other rivals. The delay bounds of these others limit the bytes that they have
/// queued, and lower one another.
#[test]
fn envelopes_of_some_rivals_bound_the_delay_under_drr() {
    let envelope = "envelope = { rate = \"64kbit\", burst = \"200B\" }\n";
    let text = |declared: usize| {
        let flow = |n: usize| {
            let known = if n < declared { envelope } else { "" };
            format!("[link.l.flow.f{n}]\nmatch = \"udp dport {}\"\n{known}", n + 1)
        };
        let flows: String = (0..6).map(flow).collect();
        format!(
            "[link.l]\nrate = \"10mbit\"\nmtu = \"1486B\"\nscheduler = {{ kind = \"drr\" }}\n{flows}"
        )
    };
    // If only this flow has an envelope: its 200 B, and a quantum and a carried packet of each
    // rival.
    let (bounds, _) = attack(&text(1), 200);
    assert_eq!(bounds[0], Some(Span(8 * (200 + 5 * 3_000) * 100)));
    // Two rivals are unknown; the three others have 200 B each, and the bytes that come in that
    // time.
    let (bounds, witness) = attack(&text(4), 20_000);
    let least = Span(8 * (200 + 2 * 3_000 + 3 * 200) * 100);
    let most = Span(8 * (200 + 2 * 3_000 + 3 * 330) * 100);
    assert!(bounds[0] > Some(least) && bounds[0] < Some(most), "{bounds:?}");
    assert!(witness.ratio > 0.8, "{witness:?} of {bounds:?}");
}

/// Draws random links of a discipline: flows with any value of `key` between these two, some with
/// envelopes. No search breaks a bound by a formula that contains this text. Returns the number of
/// such bounds, and the largest ratio of a delay to one of them.
fn attack_some_envelopes(
    kind: &str,
    (key, values): (&str, [u64; 2]),
    formula: &str,
    effort: u64,
) -> (usize, f64) {
    let mut state = 1u64;
    let mut from = |low: u64, high: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        low + (state >> 33) % (high - low + 1)
    };
    let (mut used, mut closest) = (0, 0f64);
    for _ in 0..60 {
        let rate = [10_000_000, 987_654_321][from(0, 1) as usize];
        let n = from(3, 6);
        let flow = |f: u64| {
            let value = from(values[0], values[1]);
            // The first flow always has an envelope.
            let envelope = match f == 0 || from(0, 2) > 0 {
                true => format!(
                    "envelope = {{ rate = \"{}bit\", burst = \"{}B\" }}\n",
                    rate / n * from(5, 90) / 100,
                    from(100, 6_000)
                ),
                false => String::new(),
            };
            let value = if key == "quantum" { format!("\"{value}B\"") } else { value.to_string() };
            format!(
                "[link.l.flow.f{f}]\nmatch = \"udp dport {}\"\n{key} = {value}\n\
                 queue = \"50p\"\n{envelope}",
                f + 1
            )
        };
        let flows: String = (0..n).map(flow).collect();
        let text = format!(
            "[link.l]\nrate = \"{rate}bit\"\nmtu = \"1486B\"\nscheduler = {{ kind = \"{kind}\" }}\n{flows}"
        );
        let (scenario, _) = falaj_scenario::parse(&text, "a.toml").expect("valid");
        let by_formula =
            |flow: &Outlook| flow.guaranteed().is_some_and(|bound| bound.formula.contains(formula));
        let ways = plan(&scenario).expect("accepted");
        let count = ways[0].flows.iter().filter(|flow| by_formula(flow)).count();
        if count > 0 {
            used += count;
            closest = closest.max(attack_flows(&text, effort, by_formula).1.ratio);
        }
    }
    (used, closest)
}

#[test]
fn bounds_under_drr_hold_if_some_flows_have_envelopes() {
    let (used, closest) =
        attack_some_envelopes("drr", ("quantum", [1_500, 9_000]), "a_j(t + D_j)", 1_000);
    assert!(used > 40 && closest > 0.8, "{used} {closest}");
}

#[test]
fn bounds_by_weights_hold_if_some_flows_have_envelopes() {
    for (kind, few, near) in [
        ("scfq", 40, 0.8),
        ("sfq", 40, 0.8),
        ("wfq", 40, 0.8),
        ("wf2q", 40, 0.8),
        ("wf2q+", 30, 0.7),
        ("qfq", 20, 0.5),
        ("qfq+", 20, 0.4),
    ] {
        let (used, closest) = attack_some_envelopes(kind, ("weight", [1, 9]), "o_j(t)", 500);
        assert!(used > few && closest > near, "{kind}: {used} {closest}");
    }
}

/// Five flows with weights of 1, 4, 4, 4 and 1 share 10 Mbit/s. The first one has a burst of 3000
/// B, the next ones have small bursts, and the last one has no envelope.
#[test]
fn envelopes_of_some_rivals_bound_the_delay_by_weights() {
    let envelopes =
        [("500kbit", 3_000), ("100kbit", 1_500), ("100kbit", 1_500), ("100kbit", 1_500)];
    let text = |kind: &str, declared: usize| {
        let flow = |(n, weight): (usize, u32)| {
            let known = envelopes[..declared].get(n).map_or_else(String::new, |(rate, burst)| {
                format!("envelope = {{ rate = \"{rate}\", burst = \"{burst}B\" }}\n")
            });
            format!(
                "[link.l.flow.f{n}]\nmatch = \"udp dport {}\"\nweight = {weight}\n{known}",
                n + 1
            )
        };
        let flows: String = [1, 4, 4, 4, 1].into_iter().enumerate().map(flow).collect();
        format!(
            "[link.l]\nrate = \"10mbit\"\nmtu = \"1486B\"\nscheduler = {{ kind = \"{kind}\" }}\n{flows}"
        )
    };
    // If only the first flow has an envelope, rivals have thirteen times its bytes. Under `scfq`
    // and `sfq` each of them has a packet of 1500 B in addition, and under `sfq` the flow may also
    // have sent 1500 B too early. Under `wfq` and `wf2q` one packet is added: it may be on the wire
    // when the fluid server finishes. At 10 Mbit/s a byte takes 800 ns, and two nanoseconds are for
    // rounding. Under `wf2q+` rate and latency give a lower bound than shares. The rate is a
    // fourteenth of the link's, rounded down, and three bytes are for rounding. The same is true of
    // `qfq`, with a rounding of 2048 B at weight 1, and of `qfq+`, where the first and the last
    // flow form an aggregate with the same rounding.
    //
    // The bounds with the envelopes of three rivals are those of an independent program, in
    // fractions of a byte. The plan rounds the bytes of each rival up. The last value is the least
    // part of its bound that the search reaches.
    let by_rate = (3_000 * 8_000_000_000u64).div_ceil(10_000_000 / 14);
    for (kind, alone, nanos, near) in [
        ("scfq", 800 * (14 * 3_000 + 4 * 1_500) + 2, 10_109_536, 0.7),
        ("sfq", 800 * (14 * 3_000 + 13 * 1_500 + 4 * 1_500) + 2, 11_365_979, 0.7),
        ("wfq", 800 * (14 * 3_000 + 1_500) + 2, 9_859_794, 0.7),
        ("wf2q", 800 * (14 * 3_000 + 1_500) + 2, 9_859_794, 0.7),
        ("wf2q+", by_rate + 800 * (14 * 1_500 + 1_500 + 3) + 2, 12_670_569, 0.7),
        ("qfq", by_rate + 800 * (14 * 2 * 2_048 + 2 * 1_500 + 2), 22_188_976, 0.5),
        (
            "qfq+",
            by_rate + 800 * (14 * (3 * 1_500 / 2 + 4 * 2_048) + 4_500 + 1_500 + 2),
            41_760_776,
            0.2,
        ),
    ] {
        let (bounds, _) = attack(&text(kind, 1), 200);
        assert_eq!(bounds[0], Some(Span(alone)), "{kind}");
        let (bounds, witness) = attack_flows(&text(kind, 4), 10_000, |flow| flow.name == "f0");
        let bound = bounds[0].map_or(0, |bound| bound.0);
        assert!((nanos..nanos + 5_000).contains(&bound), "{kind}: {bounds:?}");
        assert!(witness.ratio > near, "{kind}: {witness:?} of {bounds:?}");
    }
}

/// The limits on the shares of the first flows of a discipline; the number of these flows.
struct Limits(u64);

impl registry::Visitor for Limits {
    type Output = Vec<ProportionalLimits>;
    fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output {
        let limits = |f| match discipline.limits(FlowId(f)) {
            Some(ServiceLimits::Proportion(limits)) => limits,
            other => panic!("flow {f} has {other:?}"),
        };
        (0..self.0 as u32).map(limits).collect()
    }
}

/// The largest part of its `extra` bytes that a flow needs: over all backlogs of all flows, the
/// packets of these backlogs, and all rivals. A byte takes 1000 ns.
fn largest_part(limits: &[ProportionalLimits], sent: &[Emit]) -> f64 {
    let nanos = |packet: &Emit| 1_000 * u64::from(packet.bytes);
    let mut largest = f64::MIN;
    for (i, of) in limits.iter().enumerate() {
        let (mut began, mut bytes, mut end) = (Time::ZERO, 0, Time::ZERO);
        for own in sent.iter().filter(|packet| packet.flow.index() == i) {
            if own.arrival >= end {
                (began, bytes) = (own.arrival, 0);
            }
            end = own.end;
            bytes += u64::from(own.bytes);
            for (j, rival) in limits.iter().enumerate().filter(|&(j, _)| j != i) {
                let before = sent.iter().filter(|packet| {
                    packet.flow.index() == j && packet.end > began && packet.end < end
                });
                let time: u64 =
                    before.map(|packet| nanos(packet).min((packet.end - began).0)).sum();
                let share = (bytes + of.ahead) as f64 * rival.weight as f64 / of.divisor as f64;
                let part = (time as f64 / 1_000.0 - share) / rival.extra as f64;
                largest = largest.max(part);
            }
        }
    }
    largest
}

/// Length of the largest packet on links whose limits are attacked, in bytes.
const LARGEST: u64 = 200;

/// A packet of one of `n` flows. Many packets come together; the others come up to a few packets
/// later.
fn arrival(from: &mut impl FnMut(u64, u64) -> u64, n: u64) -> Arrival {
    let at = match from(0, 3) {
        0 => 0,
        1 => 1_000 * LARGEST * from(0, 4) + from(0, 2),
        _ => 1_000 * from(0, 16 * LARGEST),
    };
    let bytes = [1, from(1, LARGEST), LARGEST, LARGEST][from(0, 3) as usize];
    Arrival { at: Time(at), flow: FlowId(from(0, n - 1) as u32), bytes: bytes as u32 }
}

/// Draws random links of a discipline with weights. Changes arrivals again and again, and keeps the
/// changes after which no smaller part of the `extra` bytes is needed. Returns the largest part.
fn attack_limits(kind: &str, links: u64, changes: u64) -> f64 {
    let mut state = 5u64;
    let mut from = |low: u64, high: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        low + (state >> 33) % (high - low + 1)
    };
    let mut most = f64::MIN;
    for _ in 0..links {
        let (n, heaviest) = (from(2, 5), [1, 4, 30][from(0, 2) as usize]);
        let flow = |f| {
            let weight = from(1, heaviest);
            format!("[link.l.flow.f{f}]\nmatch = \"udp dport {f}\"\nweight = {weight}\n")
        };
        let flows: String = (1..=n).map(flow).collect();
        let text = format!(
            "[link.l]\nrate = \"8mbit\"\nmtu = \"186B\"\nscheduler = {{ kind = \"{kind}\" }}\n{flows}"
        );
        let (scenario, _) = falaj_scenario::parse(&text, "a.toml").expect("valid");
        let ways = plan(&scenario).expect("accepted");
        let spec = &ways[0].direction.pipe;
        let limits = registry::build(kind, &spec.setup, Limits(n)).expect("accepted");
        let none = vec![Vec::new(); n as usize];
        let attack = Attack { spec, envelopes: &none, bounds: &[], smallest: 1 };
        let mut arrivals: Vec<Arrival> = (0..20).map(|_| arrival(&mut from, n)).collect();
        let mut here = f64::MIN;
        for _ in 0..changes {
            let mut changed = arrivals.clone();
            for _ in 0..from(1, 3) {
                let other = arrival(&mut from, n);
                let at = from(0, changed.len() as u64 - 1) as usize;
                match from(0, 5) {
                    0 => changed[at] = other,
                    1 => changed[at].at = other.at,
                    2 => changed[at].bytes = other.bytes,
                    3 => changed[at].flow = other.flow,
                    4 if changed.len() < 40 => changed.push(other),
                    _ if changed.len() > 4 => drop(changed.swap_remove(at)),
                    _ => {}
                }
            }
            changed.sort_by_key(|arrival| arrival.at);
            let part = largest_part(&limits, &attack.run(&changed));
            assert!(part <= 1.0, "{kind}: {part} with {changed:?}:\n{text}");
            if part >= here {
                (arrivals, here) = (changed, part);
            }
        }
        most = most.max(here);
    }
    most
}

/// No rival sends more bytes than its limit until a packet of a backlog has left.
#[test]
fn limits_on_shares_hold() {
    let kinds = [("scfq", 0.9), ("sfq", 0.9), ("wf2q+", 0.6), ("qfq", 0.4), ("qfq+", 0.4)];
    for (kind, near) in kinds {
        let most = attack_limits(kind, 60, 1_000);
        assert!(most > near, "{kind}: {most}");
    }
}
