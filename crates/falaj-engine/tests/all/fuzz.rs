//! The scheduler's interface driven by arbitrary bytes: arrivals, polls, changes of all kinds,
//! queries. [`scheduler`] is a plain function, for any fuzzer; here it runs over repetitive bytes
//! and over random bytes.

use super::common::Dice;
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{DropReason, Engine, Output, PipeId, Prepared};
use falaj_sched::contract::params::{FlowSetup, Kind, Param, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry::{ENTRIES, entry};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

const PIPE: PipeId = PipeId(0);
const MOST_FLOWS: usize = 8;

/// Bytes as choices; zeros after their end.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn below(&mut self, n: u64) -> u64 {
        u64::from(self.0.next().copied().unwrap_or(0)) % n
    }
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
    fn limit(&mut self) -> Limit {
        match self.below(8) {
            0 => Limit::Bytes(self.below(256) * 4),
            n => Limit::Packets(n as u32 * 4 - 4),
        }
    }
    /// Often a valid value, at the ends of the range too; sometimes an invalid one.
    fn value(&mut self, param: &Param, setup: &Setup) -> Value {
        let airtime = setup.largest_airtime();
        match param.kind {
            Kind::Count { min, max } => {
                let near = self.below(9);
                Value::Count(self.one_of(&[
                    min,
                    min + near,
                    min + near,
                    max,
                    max.saturating_add(near),
                    near * near,
                ]))
            }
            Kind::Bytes => Value::Bytes(u64::from(setup.largest) * self.below(6) + self.below(3)),
            Kind::Rate => {
                Value::Rate(Rate(setup.rate.0 / (setup.flows.len() as u64 * (1 + self.below(4)))))
            }
            Kind::Span => Value::Span(Span(airtime.0 * self.below(40) + self.below(5))),
            Kind::Limit => Value::Limit(self.limit()),
            Kind::Choice(words) => Value::Choice(self.one_of(words)),
            Kind::Probability => Value::Probability(Probability::of(self.below(4), 4)),
        }
    }
    /// Values for the parameters that have no default, and for some of the others.
    fn values(&mut self, params: &[Param], setup: &Setup) -> Values {
        let mut values = Values::default();
        for param in params {
            if param.default.is_none() || self.below(3) == 0 {
                values.set(param.name, self.value(param, setup));
            }
        }
        values
    }
    fn become_kind(&mut self, spec: &mut PipeSpec) {
        let entry = self.one_of(ENTRIES);
        spec.kind = entry.kind;
        spec.setup.scheduler = self.values(entry.scheduler, &spec.setup);
        for f in 0..spec.setup.flows.len() {
            spec.setup.flows[f].values = self.values(entry.flow, &spec.setup);
        }
    }
    fn change(&mut self, spec: &mut PipeSpec) {
        let f = self.below(spec.setup.flows.len() as u64) as usize;
        match self.below(8) {
            0 => self.become_kind(spec),
            1 => spec.setup.rate = Rate(8_000_000_000 / (1 + self.below(20))),
            2 => spec.setup.largest += self.below(9) as u32,
            3 if spec.setup.flows.len() < MOST_FLOWS => {
                spec.setup.flows.push(spec.setup.flows[f].clone());
            }
            4 => spec.setup.flows[f].limit = self.limit(),
            5 => {
                spec.setup.scheduler =
                    self.values(entry(spec.kind).expect("registered").scheduler, &spec.setup);
            }
            _ => {
                spec.setup.flows[f].values =
                    self.values(entry(spec.kind).expect("registered").flow, &spec.setup);
            }
        }
    }
}

/// Invariants that must always hold.
#[derive(Default)]
struct Watch {
    /// Arrivals and handles of the queued packets.
    queued: Vec<VecDeque<(Time, u32)>>,
    free: Time,
    /// The instant since which the discipline is idle only when nothing is queued.
    busy_since: Option<Time>,
    offered: Vec<u64>,
    ends: u64,
}

impl Watch {
    fn see(&mut self, out: &mut Vec<Output>) {
        for output in out.drain(..) {
            match output {
                Output::Emit(e) => {
                    let first = self
                        .queued
                        .iter()
                        .filter_map(|q| q.front())
                        .map(|p| p.0)
                        .min()
                        .expect("it was queued");
                    let own = self.queued[e.flow.index()].pop_front();
                    assert_eq!(own, Some((e.arrival, e.handle)), "order in flow {:?}", e.flow);
                    assert!(
                        e.start >= self.free && e.end >= e.start && e.due >= e.end,
                        "one at a time"
                    );
                    if let Some(since) = self.busy_since {
                        assert!(
                            e.start <= self.free.max(first).max(since),
                            "rests at {:?}",
                            self.free
                        );
                    }
                    self.free = e.end;
                    self.ends += 1;
                }
                Output::Drop(d) if d.why == DropReason::Discipline => {
                    assert_eq!(
                        self.queued[d.flow.index()].pop_front().map(|p| p.1),
                        Some(d.handle)
                    );
                }
                // The packet of its flow that waits longest, not counting the one on the wire.
                Output::Drop(d) if d.why == DropReason::Policy => {
                    assert_eq!(
                        self.queued[d.flow.index()].pop_front().map(|p| p.1),
                        Some(d.handle)
                    );
                }
                // The packet did not get in.
                Output::Drop(d) => {
                    assert_eq!(self.queued[d.flow.index()].pop_back().map(|p| p.1), Some(d.handle));
                }
                Output::Retimed(r) => {
                    assert_eq!(r.old_end, self.free, "not the one on the wire");
                    self.free = r.end;
                }
                Output::Early(_) => {}
                Output::Copy(_) | Output::Corrupt(_) | Output::Mark(_) => {
                    panic!("this link does nothing to packets")
                }
            }
        }
    }
}

/// For any bytes: nothing panics, no packet is lost or passes another of its flow, the link sends
/// one packet at a time and is idle only when its discipline may be, and counters add up. Returns
/// the number of packets sent, and of changes made.
pub(crate) fn scheduler(bytes: &[u8]) -> (u64, u64) {
    let mut bytes = Bytes(bytes.iter());
    let flows =
        (0..1 + bytes.below(5)).map(|_| FlowSetup::new(Values::default(), bytes.limit())).collect();
    let rate = Rate(8_000_000_000 / (1 + bytes.below(20)));
    let setup =
        Setup { rate, largest: 1 + bytes.below(16) as u32, scheduler: Values::default(), flows };
    let mut spec = PipeSpec::new("fifo", setup, Span(bytes.below(3) * 50));
    bytes.become_kind(&mut spec);
    let Ok(mut engine) = Engine::new(std::slice::from_ref(&spec)) else { return (0, 0) };
    let mut changes = 0;
    let never_rests = |spec: &PipeSpec| entry(spec.kind).is_some_and(|entry| entry.idles.is_none());
    let mut watch = Watch {
        queued: vec![VecDeque::new(); MOST_FLOWS],
        offered: vec![0; MOST_FLOWS],
        ..Watch::default()
    };
    watch.busy_since = never_rests(&spec).then_some(Time::ZERO);
    let (mut now, mut out, mut handle, mut kept) =
        (Time::ZERO, Vec::new(), 0, None::<(Prepared, PipeSpec)>);
    while bytes.0.len() > 0 {
        match bytes.below(16) {
            0..8 => {
                let flow = FlowId(bytes.below(spec.setup.flows.len() as u64) as u32);
                // Some are too large.
                let unit = Unit {
                    flow,
                    handle,
                    bytes: 1 + bytes.below(u64::from(spec.setup.largest) + 1) as u32,
                };
                engine.poll(now, &mut out);
                watch.see(&mut out);
                watch.queued[flow.index()].push_back((now, handle));
                watch.offered[flow.index()] += 1;
                engine.input(PIPE, unit, now, &mut out);
                handle += 1;
            }
            8..11 => now += Span(bytes.below(256)),
            11 => engine.poll(now, &mut out),
            12 if engine.next_event() < now + Span(10_000) => {
                now = now.max(engine.next_event());
                engine.poll(now, &mut out);
            }
            13 | 14 => {
                let mut other = spec.clone();
                bytes.change(&mut other);
                let Ok(prepared) = engine.prepare(PIPE, &other) else { continue };
                // The change is made at once, or kept for later and made then, if it still fits.
                let now_or_later = if bytes.below(4) > 0 {
                    Some((prepared, other))
                } else {
                    kept.replace((prepared, other))
                };
                let Some((prepared, other)) = now_or_later else { continue };
                engine.poll(now, &mut out);
                watch.see(&mut out);
                let fits = (other.setup.flows.len(), other.setup.largest);
                let before = (spec.setup.flows.len(), spec.setup.largest);
                let applied = engine.apply(prepared, now, &mut out);
                // A smaller largest packet fits as long as no queued one is larger.
                match applied {
                    Ok(()) => assert!(fits.0 >= before.0),
                    Err(_) => assert!(fits.0 < before.0 || fits.1 < before.1),
                }
                if applied.is_ok() {
                    changes += 1;
                    let since = if never_rests(&spec) { watch.busy_since } else { Some(now) };
                    watch.busy_since = since.filter(|_| never_rests(&other));
                    spec = other;
                }
            }
            _ => {
                for f in (0..spec.setup.flows.len() as u32).map(FlowId) {
                    engine.poll(now, &mut out);
                    let forgettable = engine.is_reusable(PIPE, f, now);
                    assert!(
                        !forgettable || engine.counters(PIPE, f).backlog == 0,
                        "forgets what is queued"
                    );
                    let _ = (engine.guarantee(PIPE, f), engine.next_due());
                }
            }
        }
        watch.see(&mut out);
    }
    let mut steps = 0;
    while engine.next_event() != Time::NEVER {
        engine.poll(engine.next_event(), &mut out);
        steps += 1;
        assert!(steps < 1_000_000, "never comes to an end");
    }
    watch.see(&mut out);
    assert!(watch.queued.iter().all(VecDeque::is_empty), "packets stay behind");
    let mut sent = 0;
    for f in 0..spec.setup.flows.len() {
        let counters = engine.counters(PIPE, FlowId(f as u32));
        assert_eq!((counters.backlog, counters.offered), (0, watch.offered[f]));
        assert_eq!(counters.offered, counters.sent + counters.dropped());
        sent += counters.sent;
    }
    assert_eq!(sent, watch.ends);
    (sent, changes)
}

/// Prints the bytes if they cause a failure.
fn all_is_well(bytes: &[u8]) -> (u64, u64) {
    std::panic::catch_unwind(|| scheduler(bytes)).unwrap_or_else(|panic| {
        eprintln!("{bytes:?}");
        std::panic::resume_unwind(panic)
    })
}

/// Repetitive sequences, from every first byte: of one byte, and in steps of every size.
#[test]
fn bytes_that_repeat_themselves() {
    assert_eq!(scheduler(&[]), (0, 0));
    for first in 0..=255u8 {
        for step in [0, 1, 2, 3, 7, 16, 51, 85, 127, 128, 254, 255] {
            let bytes: Vec<u8> =
                (0..400u16).map(|n| first.wrapping_add((n as u8).wrapping_mul(step))).collect();
            all_is_well(&bytes);
        }
    }
}

#[test]
fn random_bytes() {
    let (mut sent, mut changes) = (0, 0);
    for seed in 0..12_000 {
        let mut dice = Dice::new(seed);
        let n = dice.one_of(&[60, 200, 600]);
        let bytes: Vec<u8> = (0..n).map(|_| dice.from(0, 255) as u8).collect();
        let all = all_is_well(&bytes);
        (sent, changes) = (sent + all.0, changes + all.1);
    }
    assert!(sent > 200_000 && changes > 50_000, "{sent} packets, {changes} changes mean little");
}
