//! Flows that conform to an envelope, among flows that do not: the bounds given by the distances
//! between envelope and service curve are never exceeded.

use crate::common::{Arrival, Dice, any_pipe, become_kind, bursts, emits, run};
use falaj_engine::{Engine, PipeId};
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::guarantee::{Deadlines, StaircaseCurve};
use falaj_sched::contract::params::{FlowSetup, Value};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry;
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::{Span, Time};
use falaj_theory::{Curve, exact, float};

/// An exact token bucket that fills at `rate` up to `burst` bytes.
#[derive(Clone, Debug)]
struct Bucket {
    rate: Rate,
    burst: u64,
    /// Tokens, in units of a byte divided by 8e9.
    level: u128,
    seen: u64,
}

impl Bucket {
    fn new(rate: Rate, burst: u64) -> Bucket {
        Bucket { rate, burst, level: u128::from(burst * BIT_NANOS), seen: 0 }
    }
    fn refill(&mut self, now: u64) {
        let full = u128::from(self.burst * BIT_NANOS);
        self.level = full.min(self.level + u128::from(self.rate.0) * u128::from(now - self.seen));
        self.seen = now;
    }
    /// The first instant from `now` on at which `bytes` bytes conform.
    fn earliest(&mut self, now: u64, bytes: u32) -> u64 {
        self.refill(now);
        let short = u128::from(u64::from(bytes) * BIT_NANOS).saturating_sub(self.level);
        now + short.div_ceil(u128::from(self.rate.0)) as u64
    }
    fn take(&mut self, now: u64, bytes: u32) {
        self.refill(now);
        self.level -= u128::from(u64::from(bytes) * BIT_NANOS);
    }
}

/// Packets as early as the buckets allow, with pauses in which they fill.
fn greedy(dice: &mut Dice, buckets: &mut [Bucket], largest: u32, horizon: u64) -> Vec<Arrival> {
    let sizes = dice.from(0, 2);
    let pauses = dice.from(0, 2);
    let mut at = dice.from(0, 4_000);
    let mut all = Vec::new();
    while at < horizon {
        let bytes = match sizes {
            0 => largest,
            1 => dice.from(1, largest.into()) as u32,
            _ => 1,
        };
        for _ in 0..buckets.len() {
            at = buckets.iter_mut().fold(at, |at, b| b.earliest(at, bytes));
        }
        buckets.iter_mut().for_each(|b| b.take(at, bytes));
        all.push(Arrival { at: Time(at), flow: FlowId(0), bytes });
        if pauses > 0 && dice.from(0, 20) == 0 {
            at += dice.from(0, if pauses == 1 { 300 } else { 8_000 });
        }
    }
    all
}

/// A queue that all flows share serves them as one: the bound follows from the sum of their
/// envelopes.
#[test]
fn a_shared_queue_serves_all_flows_as_one() {
    let mut closest = 0f64;
    for seed in 0..1_500 {
        let mut dice = Dice::new(seed ^ 0xf1f0);
        let mut spec = any_pipe(&mut dice);
        (spec.kind, spec.setup.scheduler) = ("fifo", Default::default());
        spec.setup
            .flows
            .iter_mut()
            .for_each(|f| *f = FlowSetup::new(Default::default(), Limit::Packets(100_000)));
        let (largest, n) = (spec.setup.largest, spec.setup.flows.len() as u64);
        let mut alone = spec.clone();
        alone.setup.flows.truncate(1);
        let guarantee = Engine::new(std::slice::from_ref(&alone))
            .unwrap()
            .guarantee(PipeId(0), FlowId(0))
            .unwrap();
        let service = Curve::rate_latency(guarantee.rate, guarantee.latency);
        let (mut envelope, mut arrivals) = (Curve::zero(), Vec::new());
        for f in 0..n as u32 {
            let rate = Rate(dice.from(guarantee.rate.0 / 20 / n, guarantee.rate.0 / n));
            let bucket = Bucket::new(rate, dice.from(largest.into(), 300));
            envelope = envelope.sum(&Curve::token_bucket(rate, bucket.burst));
            let own = greedy(&mut dice, &mut [bucket], largest, 20_000);
            arrivals.extend(own.into_iter().map(|a| Arrival { flow: FlowId(f), ..a }));
        }
        arrivals.sort_by_key(|a| (a.at, a.flow));
        let delay = envelope.delay(&service).unwrap().length;
        for e in emits(&run(&spec, &arrivals, |_, _, _| {})) {
            let waited = e.end - e.arrival;
            assert!(exact(waited.0) <= delay, "seed {seed}: {waited} > {delay} ns: {spec:?}");
            closest = closest.max(waited.0 as f64 / float(&delay));
        }
    }
    assert!(closest > 0.9, "{closest}");
}

#[test]
fn neither_delay_nor_backlog_exceeds_its_distance() {
    let (mut bounded, mut tight_delay, mut tight_backlog) = (0, 0f64, 0f64);
    for seed in 0..6_000 {
        let mut dice = Dice::new(seed ^ 0x5ca1ab1e);
        let mut spec = any_pipe(&mut dice);
        if spec.kind == "fifo" {
            spec.setup.flows.truncate(1);
            spec.setup.scheduler = Default::default();
        }
        // The flow's own queue has to hold its whole backlog.
        if spec.setup.flows[0].inner.as_ref().is_some_and(|inner| inner.kind == "fifo") {
            spec.setup.flows[0].inner = None;
        }
        spec.setup.leaf_mut(0).unwrap().limit = Limit::Packets(1_000_000);
        let guarantee =
            Engine::new(std::slice::from_ref(&spec)).unwrap().guarantee(PipeId(0), FlowId(0));
        let Some(guarantee) = guarantee.ok().filter(|p| p.rate.0 > 0) else { continue };
        let largest = spec.setup.largest;
        // One to three buckets; the bucket for the long run is no faster than the service.
        let slow = Bucket::new(
            Rate(dice.from(guarantee.rate.0 / 10, guarantee.rate.0).max(1)),
            dice.from(largest.into(), 400),
        );
        let mut buckets = vec![slow];
        for _ in 0..dice.from(0, 2) {
            let rate = dice.from(guarantee.rate.0, 12 * guarantee.rate.0);
            buckets.push(Bucket::new(Rate(rate), dice.from(largest.into(), 200)));
        }
        let curves = buckets.iter().map(|b| Curve::token_bucket(b.rate, b.burst));
        let envelope = curves.reduce(|a, b| a.min(&b)).unwrap();
        let service = Curve::rate_latency(guarantee.rate, guarantee.latency);
        let (delay, backlog) =
            (envelope.delay(&service).unwrap().length, envelope.backlog(&service).unwrap().length);

        let mut arrivals = bursts(&mut dice, &spec, 20_000);
        arrivals.retain(|a| a.flow != FlowId(0));
        let own = greedy(&mut dice, &mut buckets, largest, 20_000);
        arrivals.extend(&own);
        arrivals.sort_by_key(|a| (a.at, a.flow));
        let sent: Vec<_> = emits(&run(&spec, &arrivals, |_, _, _| {}))
            .into_iter()
            .filter(|e| e.flow == FlowId(0))
            .collect();
        assert_eq!(sent.len(), own.len(), "nothing is lost");
        let (mut longest, mut most, mut gone) = (0, 0, 0);
        let mut inside = 0u64;
        for a in &own {
            inside += u64::from(a.bytes);
            // A packet that ends at this instant has left before.
            while sent[gone].end <= a.at {
                inside -= u64::from(sent[gone].bytes);
                gone += 1;
            }
            most = most.max(inside);
        }
        for e in &sent {
            longest = longest.max((e.end - e.arrival).0);
        }
        assert!(
            exact(longest) <= delay,
            "seed {seed}: {longest} ns > {delay}: {buckets:?} {guarantee:?} {spec:?}"
        );
        assert!(
            exact(most) <= backlog,
            "seed {seed}: {most} B > {backlog}: {buckets:?} {guarantee:?} {spec:?}"
        );
        bounded += 1;
        tight_delay = tight_delay.max(longest as f64 / float(&delay));
        tight_backlog = tight_backlog.max(most as f64 / float(&backlog));
    }
    // Bounds far above the actual values would hold too, so the test prints how close they are.
    println!(
        "{bounded} pipes; the closest: delay {tight_delay:.3}, backlog {tight_backlog:.3} of the bound"
    );
    assert!(
        bounded > 2_000 && tight_delay > 0.9 && tight_backlog > 0.9,
        "{bounded} {tight_delay} {tight_backlog}"
    );
}

/// Disciplines that assign deadlines by a curve. A flow that conforms to an envelope waits no
/// longer than the distance from its envelope to the curve, plus the lateness of packets after
/// their deadlines. This holds for any traffic of the other flows, and whether or not the
/// discipline also guarantees the flow a rate.
#[test]
fn a_flow_within_its_envelope_waits_no_longer_than_its_curve() {
    struct Ask;
    impl registry::Visitor for Ask {
        type Output = Option<Deadlines>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Option<Deadlines> {
            discipline.deadlines(FlowId(0))
        }
    }
    let (mut closest, mut bent) = (std::collections::BTreeMap::new(), 0);
    for seed in 0..3_000 {
        let mut dice = Dice::new(seed ^ 0xdead_11e5);
        let mut spec = any_pipe(&mut dice);
        spec.setup.flows.iter_mut().for_each(|f| f.inner = None);
        let kind = dice.one_of(&["virtual-clock", "sced", "arc", "hfsc"]);
        become_kind(&mut dice, &mut spec, registry::entry(kind).unwrap());
        spec.setup.flows[0].limit = Limit::Packets(1_000_000);
        let Some(deadlines) = registry::build(kind, &spec.setup, Ask).unwrap() else { continue };
        let largest = spec.setup.largest;
        let rate = deadlines.rate.0;
        let mut buckets = vec![Bucket::new(
            Rate(dice.from(rate / 10, rate).max(1)),
            dice.from(largest.into(), 200),
        )];
        if dice.from(0, 1) == 0 {
            buckets.push(Bucket::new(
                Rate(dice.from(rate, 12 * rate)),
                dice.from(largest.into(), 100),
            ));
        }
        let curves = buckets.iter().map(|b| Curve::token_bucket(b.rate, b.burst));
        let envelope = curves.reduce(|a, b| a.min(&b)).unwrap();
        let curve = Curve::by_deadlines(&deadlines);
        let (delay, backlog) =
            (envelope.delay(&curve).unwrap().length, envelope.backlog(&curve).unwrap().length);
        bent += u32::from(deadlines.first > deadlines.rate);
        let mut arrivals = bursts(&mut dice, &spec, 20_000);
        arrivals.retain(|a| a.flow != FlowId(0));
        let own = greedy(&mut dice, &mut buckets, largest, 20_000);
        arrivals.extend(&own);
        arrivals.sort_by_key(|a| (a.at, a.flow));
        let sent: Vec<_> = emits(&run(&spec, &arrivals, |_, _, _| {}))
            .into_iter()
            .filter(|e| e.flow == FlowId(0))
            .collect();
        let (mut inside, mut gone) = (0u64, 0);
        for (a, e) in own.iter().zip(&sent) {
            let waited = (e.end - e.arrival).0;
            assert!(
                exact(waited) <= delay,
                "seed {seed}: {waited} ns > {delay}: {buckets:?} {deadlines:?} {spec:?}"
            );
            let near = closest.entry(kind).or_insert(0f64);
            *near = near.max(waited as f64 / float(&delay));
            inside += u64::from(a.bytes);
            while sent[gone].end <= a.at {
                inside -= u64::from(sent[gone].bytes);
                gone += 1;
            }
            assert!(
                exact(inside) <= &backlog + exact(largest),
                "seed {seed}: {inside} B > {backlog}: {spec:?}"
            );
        }
    }
    let near = |kind| closest.get(kind).is_some_and(|&near| near > 0.8);
    assert!(
        bent > 150 && ["virtual-clock", "sced", "arc", "hfsc"].into_iter().all(near),
        "{bent} {closest:?}"
    );
}

/// Disciplines that serve flows in turns. A flow that conforms to an envelope waits no longer than
/// the distance from its envelope to the curve of its turns, for any traffic of the other flows.
/// Rates at which a byte takes a fraction of a nanosecond are included.
#[test]
fn a_flow_that_keeps_to_an_envelope_waits_no_longer_than_its_turns_say() {
    struct Ask;
    impl registry::Visitor for Ask {
        type Output = Option<StaircaseCurve>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Option<StaircaseCurve> {
            discipline.turns(FlowId(0))
        }
    }
    let kinds = ["drr", "drr+", "drr++", "virtual-links"];
    let mut closest = std::collections::BTreeMap::new();
    for seed in 0..700 {
        let mut dice = Dice::new(seed ^ 0x7a_12e5);
        let mut spec = any_pipe(&mut dice);
        spec.setup.flows.iter_mut().for_each(|f| f.inner = None);
        let kind = dice.one_of(&kinds);
        become_kind(&mut dice, &mut spec, registry::entry(kind).unwrap());
        if kind == "virtual-links" && dice.from(0, 1) == 0 {
            // Phases of exactly one packet, or of one to two.
            for f in &mut spec.setup.flows {
                let airtime = spec.setup.rate.airtime(spec.setup.largest);
                let phase = Span(airtime.0 + dice.from(0, 1) * dice.from(0, airtime.0));
                f.values.set("phase", Value::Span(phase));
            }
        }
        spec.setup.flows[0].limit = Limit::Packets(1_000_000);
        let Some(turns) = registry::build(kind, &spec.setup, Ask).unwrap() else { continue };
        let (largest, curve) = (spec.setup.largest, Curve::in_turns(&turns, 12));
        let rate = float(curve.last_slope()) * BIT_NANOS as f64;
        let mut buckets = vec![Bucket::new(
            Rate(dice.from(rate as u64 / 10, rate as u64).max(1)),
            dice.from(largest.into(), 200),
        )];
        if dice.from(0, 1) == 0 {
            let fast = Rate(dice.from(rate as u64, 12 * rate as u64));
            buckets.push(Bucket::new(fast, dice.from(largest.into(), 100)));
        }
        let curves = buckets.iter().map(|b| Curve::token_bucket(b.rate, b.burst));
        let envelope = curves.reduce(|a, b| a.min(&b)).unwrap();
        let Some(delay) = envelope.delay(&curve) else { continue };
        let mut arrivals = bursts(&mut dice, &spec, 20_000);
        arrivals.retain(|a| a.flow != FlowId(0));
        arrivals.extend(greedy(&mut dice, &mut buckets, largest, 20_000));
        arrivals.sort_by_key(|a| (a.at, a.flow));
        for e in emits(&run(&spec, &arrivals, |_, _, _| {})) {
            let waited = (e.end - e.arrival).0;
            assert!(
                e.flow != FlowId(0) || exact(waited) <= delay.length.ceil(),
                "seed {seed}: {waited} ns > {}: {buckets:?} {turns:?} {spec:?}",
                float(&delay.length)
            );
            if e.flow == FlowId(0) {
                let near = closest.entry(kind).or_insert(0f64);
                *near = near.max(waited as f64 / float(&delay.length));
            }
        }
    }
    let near = |kind: &&str| closest.get(kind).is_some_and(|&near| near > 0.8);
    assert!(kinds.iter().all(near), "{closest:?}");
}
