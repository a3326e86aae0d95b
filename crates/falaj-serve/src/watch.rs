//! The watch: compares each adapter's guarantee with its measurements once a second.

use super::addresses::written;
use super::breaches::tell;
use super::manager::Watchdog;
use super::model::{
    Adapter, Batches, Breach, Breaches, Flow, Guarantee, Quantiles, Sample, Total, Ways, Window,
};
use super::published::{Published, guarantee};
use super::sign_of_life;
use anyhow::Result;
use falaj_control::handler::look::{Look, look};
use falaj_control::handler::{Current, Handler};
use falaj_control::terms;
use falaj_live::adapters::AdapterCounts;
use falaj_live::event_loop::{Compliance, FlowSnapshot, Sojourns};
use falaj_scenario::Towards;
use falaj_sched::units::rate::BIT_NANOS;
use falaj_sched::units::time::Span;
use falaj_traffic::meter::Meter;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::{error, warn};

/// Interval between two samples.
const STEP: Duration = Duration::from_secs(1);
/// Interval between warnings about an adapter that continues to send from addresses of other
/// adapters.
const STRANGERS_AGAIN: Duration = Duration::from_secs(60);
/// The watch's thread.
pub(super) struct Watching {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watching {
    pub(super) fn begin(
        handler: Arc<Mutex<Handler>>,
        published: Arc<Published>,
        control: PathBuf,
    ) -> Result<Watching> {
        let (stop, stopped) = channel();
        let work = move || {
            let mut watch = Memory::default();
            let mut watchdog = Watchdog::new();
            let step = watchdog.at_most().map_or(STEP, |at_most| STEP.min(at_most));
            let mut next = Instant::now();
            let mut not_needed = Vec::new();
            loop {
                let Ok(look) = look(&handler, not_needed) else { return };
                watchdog.is_alive();
                sign_of_life::give(&control);
                let changes = look.current.changes;
                let (sample, new) = watch.sample(look);
                tell(&new);
                let until_now = published.publish((sample, changes), &watch.before, new);
                not_needed =
                    until_now.into_iter().flatten().map(|(_, before)| before.measured).collect();
                // After a stall, the next window is still long enough for a measurement.
                next = (next + step).max(Instant::now() + step / 2);
                match stopped.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
        };
        Ok(Watching { stop, thread: std::thread::Builder::new().name("watch".into()).spawn(work)? })
    }

    pub(super) fn end(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

/// The state of a flow at the last sample.
pub(super) struct LastLook {
    counted: FlowSnapshot,
    kept: Compliance,
    pub(super) measured: Sojourns,
}

/// The states of flows at the last sample, by link, direction and flow.
pub(super) type Looked = BTreeMap<String, LastLook>;

/// The key of a flow in [`Looked`].
pub(super) fn flow_name(link: &str, way: &str, flow: &str) -> String {
    format!("{link} {way} {flow}")
}

/// The state kept from one sample to the next.
#[derive(Default)]
struct Memory {
    /// Time of the last sample in nanoseconds.
    at: u64,
    /// Start of the service, in nanoseconds since 1970, computed at the first sample. Later
    /// corrections of the clock do not change it.
    began_unix_ns: u64,
    before: Arc<Looked>,
    spent: BTreeMap<String, Duration>,
    /// Adapters whose interface was gone at the last sample.
    gone: BTreeSet<String>,
    /// The number of the last violation that was reported.
    seen: u64,
    /// By adapter: the number of packets from addresses of other adapters at the last warning, and
    /// the time of that warning in ns.
    strangers: BTreeMap<String, (u64, u64)>,
}

impl Memory {
    /// Logs that an adapter sends from addresses of other adapters, at most once a minute.
    fn warn_of_stranger(&mut self, name: &str, counts: &AdapterCounts, at_ns: u64) {
        let (logged, last) = self.strangers.get(name).copied().unwrap_or_default();
        let Some(source) = counts.foreign_source.filter(|_| counts.foreign > logged) else {
            return;
        };
        if logged == 0 || at_ns.saturating_sub(last) >= STRANGERS_AGAIN.as_nanos() as u64 {
            warn!(
                adapter = name,
                "adapter {name}: {} packets dropped, the last from {}, an address of another adapter",
                counts.foreign - logged,
                written(source)
            );
            self.strangers.insert(name.to_owned(), (counts.foreign, at_ns));
        }
    }

    /// Creates the sample, and the violations since the previous one.
    fn sample(&mut self, look: Look) -> (Sample, Vec<Breach>) {
        let Look { current, snapshot, measured, adapters, .. } = look;
        let Current { scenario, standings, .. } = current;
        let over = snapshot.at.0.saturating_sub(self.at);
        let before = std::mem::take(&mut self.before);
        let mut looked = Looked::new();
        let mut measured = measured.into_iter();
        let mut spent = BTreeMap::new();
        let gone_before = std::mem::take(&mut self.gone);
        let (mut all, mut breaches): (Vec<Adapter>, Vec<Breach>) = (Vec::new(), Vec::new());
        let adapters: BTreeMap<String, AdapterCounts> = adapters.into_iter().collect();
        let mut places = BTreeMap::new();
        for adapter in scenario.adapters() {
            let counts = adapters.get(&adapter.name).cloned().unwrap_or_default();
            places.insert(&adapter.name, all.len());
            let share = self.spent.get(&adapter.name).map(|was| {
                counts.spent.saturating_sub(*was).as_nanos() as f64 / over.max(1) as f64
            });
            spent.insert(adapter.name.clone(), counts.spent);
            if counts.gone && !gone_before.contains(&adapter.name) {
                let adapter = adapter.name.as_str();
                error!(
                    adapter,
                    "adapter {adapter}: its interface is gone for good; remove the adapter and add it again"
                );
            }
            self.warn_of_stranger(&adapter.name, &counts, snapshot.at.0);
            all.push(Adapter {
                name: adapter.name.clone(),
                port: adapter.port.clone(),
                foreign: counts.foreign,
                malformed: counts.malformed,
                not_taken: counts.not_taken,
                no_memory: Ways { up: counts.no_memory.up, down: counts.no_memory.down },
                paused: counts.paused,
                spent_ns: u64::try_from(counts.spent.as_nanos()).unwrap_or(u64::MAX),
                processor: share,
                held_back: counts.held_back,
                gone: counts.gone,
                interface: counts.interface,
                batches: counts.batches.map(Batches::new),
                ..Adapter::default()
            });
        }
        let ways =
            scenario.links.iter().flat_map(|link| [(link, Towards::Up), (link, Towards::Down)]);
        for (pipe, ((link, towards), named)) in ways.zip(terms::ways(&scenario)).enumerate() {
            let direction = link.direction(towards);
            let way = if towards == Towards::Up { "up" } else { "down" };
            for (f, counted) in snapshot.flows[pipe].iter().enumerate() {
                let Some(measured) = measured.next() else { break };
                let (Some(flow), Some(standing)) =
                    (direction.flows.get(f), standings.get(pipe).and_then(|of| of.get(f)))
                else {
                    continue;
                };
                let kept =
                    snapshot.kept.get(pipe).and_then(|of| of.get(f)).copied().unwrap_or_default();
                let name = flow_name(&link.name, way, &flow.name);
                let now = LastLook { counted: *counted, kept, measured };
                let window = before.get(&name).map(|before| window(before, &now, over));
                let guarantee = guarantee(standing, named.judged(f, standing));
                let told = told(&flow.name, guarantee, &now, window);
                let place = flow.adapter.as_ref().and_then(|at| places.get(&at.name));
                if let Some(adapter) = place.and_then(|&place| all.get_mut(place)) {
                    adapter.link.clone_from(&link.name);
                    let flows =
                        if towards == Towards::Up { &mut adapter.up } else { &mut adapter.down };
                    flows.push(told);
                }
                looked.insert(name, now);
            }
        }
        self.gone =
            all.iter().filter(|adapter| adapter.gone).map(|adapter| adapter.name.clone()).collect();
        let seen = self.seen;
        for late in snapshot.late.iter().filter(|late| late.number > seen) {
            breaches.push(late.into());
            self.seen = self.seen.max(late.number);
        }
        for short in snapshot.short.iter().filter(|short| short.number > seen) {
            breaches.push(short.into());
            self.seen = self.seen.max(short.number);
        }
        (self.at, self.spent, self.before) = (snapshot.at.0, spent, Arc::new(looked));
        let losses = snapshot
            .losses
            .by_reason()
            .into_iter()
            .map(|(count, why)| (why.to_owned(), count))
            .collect();
        if self.began_unix_ns == 0 {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
            self.began_unix_ns = now.saturating_sub(snapshot.at.0);
        }
        let began_unix_ns = self.began_unix_ns;
        (Sample { at_ns: snapshot.at.0, began_unix_ns, adapters: all, losses }, breaches)
    }
}

fn window(before: &LastLook, now: &LastLook, over: u64) -> Window {
    let (was, is) = (&before.counted.counters, &now.counted.counters);
    let rate =
        |was: u64, is: u64| is.saturating_sub(was) as f64 * BIT_NANOS as f64 / over.max(1) as f64;
    Window {
        over_ns: over,
        offered: rate(was.offered_bytes, is.offered_bytes),
        sent: rate(was.sent_bytes, is.sent_bytes),
        // The queue was not empty at either end of the window, and no packet arrived at an empty
        // queue meanwhile.
        demanded: was.backlog > 0 && is.backlog > 0 && before.kept.periods == now.kept.periods,
        dropped: is.dropped().saturating_sub(was.dropped()),
        delay: between(&before.measured.delay, &now.measured.delay),
        release_error: between(&before.measured.release_error, &now.measured.release_error),
    }
}

/// The measurements between two samples.
fn between(before: &Meter, now: &Meter) -> Quantiles {
    let was: BTreeMap<u64, u64> = before.counts().map(|(delay, times)| (delay.0, times)).collect();
    let new: Vec<(u64, u64)> = now
        .counts()
        .map(|(delay, times)| {
            (delay.0, times.saturating_sub(was.get(&delay.0).copied().unwrap_or(0)))
        })
        .filter(|(_, times)| *times > 0)
        .collect();
    let packets: u64 = new.iter().map(|(_, times)| times).sum();
    let quantile = |percent: u64| {
        let (mut left, wanted) = (packets, (packets * (100 - percent)) / 100);
        new.iter().find(|(_, times)| {
            left -= times;
            left <= wanted
        })
    };
    Quantiles {
        packets,
        p50_ns: quantile(50).map(|(delay, _)| *delay),
        p99_ns: quantile(99).map(|(delay, _)| *delay),
        max_ns: new.last().map(|(delay, _)| *delay),
    }
}

fn since_start(meter: &Meter) -> Quantiles {
    let nanos = |span: Option<Span>| span.map(|span| span.0);
    Quantiles {
        packets: meter.count(),
        p50_ns: nanos(meter.quantile(0.5)),
        p99_ns: nanos(meter.quantile(0.99)),
        max_ns: nanos(meter.max()),
    }
}

fn told(name: &str, guarantee: Guarantee, now: &LastLook, window: Option<Window>) -> Flow {
    let c = &now.counted.counters;
    let [own_burst, host, broken] = now.kept.late;
    let reasons = [
        ("queue_full", c.dropped_full),
        ("too_large", c.dropped_large),
        ("discipline", c.dropped_by_discipline),
        ("policy", c.dropped_by_policy),
        ("change", c.dropped_by_change),
    ];
    Flow {
        flow: name.to_owned(),
        guarantee,
        window,
        total: Total {
            offered: c.offered,
            offered_bytes: c.offered_bytes,
            sent: c.sent,
            sent_bytes: c.sent_bytes,
            not_taken: now.counted.not_taken.packets,
            dropped: reasons.map(|(why, count)| (why.to_owned(), count)).into(),
            delay: since_start(&now.measured.delay),
            release_error: since_start(&now.measured.release_error),
            beyond: now.kept.beyond,
            beyond_bytes: now.kept.beyond_bytes,
        },
        backlog: c.backlog,
        backlog_bytes: c.backlog_bytes,
        breaches: Breaches { own_burst, host, guarantee: broken, rate: now.kept.short },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_what_came_since_the_last() {
        let mut before = Meter::new();
        (0..100).for_each(|_| before.record(Span(1_000_000)));
        let mut now = before.clone();
        for n in 1..=100 {
            now.record(Span(n));
        }
        let window = between(&before, &now);
        assert_eq!(
            (window.packets, window.p50_ns, window.p99_ns, window.max_ns),
            (100, Some(50), Some(99), Some(100))
        );
        let none = between(&now, &now);
        assert_eq!((none.packets, none.p50_ns, none.max_ns), (0, None, None));
    }
}
