//! The watch: once a second, what each adapter was promised beside what it got.

use super::breaches::{self, keep, tell};
use super::manager::Watchdog;
use super::metrics;
use super::model::{
    Adapter, Breach, Breaches, Bucket, Delays, Flow, Promise, Quantiles, Sample, TooSlow, Total,
    Ways, Window,
};
use anyhow::Result;
use axum::body::Bytes;
use falaj_control::handler::Handler;
use falaj_control::handler::look::{Look, look};
use falaj_live::adapters::AdapterCounts;
use falaj_live::event_loop::{Compliance, FlowSnapshot, Sojourns};
use falaj_plan::standing::Standing;
use falaj_scenario::{Direction, Towards};
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::Span;
use falaj_traffic::meter::Meter;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::broadcast;
use tracing::error;

/// How often.
const STEP: Duration = Duration::from_secs(1);
/// Samples that a slow listener may be behind.
const BEHIND: usize = 4;

/// A text for Prometheus, and when the sample was made that it is of.
type Scrape = Mutex<Option<(u64, Bytes)>>;

/// What the watch knows, for others to read.
pub(super) struct Published {
    sample: RwLock<Arc<Sample>>,
    /// The same as JSON: written once, however many ask.
    json: RwLock<Bytes>,
    /// And for Prometheus and its kin, once somebody asks: of adapters, and of their flows.
    openmetrics: [Scrape; 2],
    breaches: RwLock<VecDeque<Breach>>,
    /// What flows were at the last look.
    flows: RwLock<Arc<Looked>>,
    pub(super) news: broadcast::Sender<Arc<Sample>>,
}

impl Published {
    pub(super) fn new() -> Arc<Published> {
        Arc::new(Published {
            sample: RwLock::default(),
            json: RwLock::new(json(&Sample::default())),
            openmetrics: Default::default(),
            breaches: RwLock::new(breaches::none()),
            flows: RwLock::default(),
            news: broadcast::channel(BEHIND).0,
        })
    }

    /// The last sample.
    pub(super) fn sample(&self) -> Arc<Sample> {
        Arc::clone(&self.sample.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same as JSON.
    pub(super) fn json(&self) -> Bytes {
        self.json.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same as OpenMetrics, of adapters or of each of their flows; of thousands it takes its
    /// time.
    pub(super) fn openmetrics(&self, flows: bool) -> Bytes {
        let sample = self.sample();
        let mut written =
            self.openmetrics[usize::from(flows)].lock().unwrap_or_else(PoisonError::into_inner);
        match &*written {
            Some((at, text)) if *at == sample.at_ns => text.clone(),
            _ => {
                let text = Bytes::from(metrics::text(&sample, flows));
                *written = Some((sample.at_ns, text.clone()));
                text
            }
        }
    }

    /// The last breaches, the oldest first.
    pub(super) fn breaches(&self) -> Vec<Breach> {
        self.breaches.read().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// That one pauses, or goes on, is known at once.
    pub(super) fn pauses(&self, name: &str, paused: bool) {
        let mut sample = self.sample.write().unwrap_or_else(PoisonError::into_inner);
        let found =
            Arc::make_mut(&mut sample).adapters.iter_mut().find(|adapter| adapter.name == name);
        found.into_iter().for_each(|adapter| adapter.paused = paused);
        *self.json.write().unwrap_or_else(PoisonError::into_inner) = json(&sample);
    }

    /// How long packets of an adapter stayed.
    pub(super) fn delays(&self, adapter: &Adapter) -> Vec<Delays> {
        let flows = Arc::clone(&self.flows.read().unwrap_or_else(PoisonError::into_inner));
        let of = |way: &str, flow: &str| match flows.get(&name(&adapter.link, way, flow)) {
            Some(looked) => {
                looked.measured.delay.counts().map(|(delay, times)| [delay.0, times]).collect()
            }
            None => Vec::new(),
        };
        let mut names: Vec<&str> =
            adapter.up.iter().chain(&adapter.down).map(|flow| flow.flow.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .map(|flow| Delays {
                flow: flow.to_owned(),
                up: of("up", flow),
                down: of("down", flow),
            })
            .collect()
    }

    /// What flows were until now, unless somebody looks at it still.
    fn publish(&self, sample: Sample, flows: &Arc<Looked>, new: Vec<Breach>) -> Option<Looked> {
        let sample = Arc::new(sample);
        let mut published = self.flows.write().unwrap_or_else(PoisonError::into_inner);
        let until_now = std::mem::replace(&mut *published, Arc::clone(flows));
        drop(published);
        *self.json.write().unwrap_or_else(PoisonError::into_inner) = json(&sample);
        *self.sample.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&sample);
        let mut breaches = self.breaches.write().unwrap_or_else(PoisonError::into_inner);
        keep(&mut breaches, new);
        // Nobody may be listening.
        let _ = self.news.send(sample);
        Arc::into_inner(until_now)
    }
}

fn json(sample: &Sample) -> Bytes {
    // Numbers, texts and lists of them: there is nothing that JSON does not have.
    serde_json::to_vec(sample).unwrap_or_default().into()
}

/// The watch's thread.
pub(super) struct Watching {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watching {
    pub(super) fn begin(
        handler: Arc<Mutex<Handler>>,
        published: Arc<Published>,
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
                let (sample, new) = watch.sample(look);
                tell(&new);
                let until_now = published.publish(sample, &watch.before, new);
                not_needed =
                    until_now.into_iter().flatten().map(|(_, before)| before.measured).collect();
                // After a stall no window is too short to say anything.
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

/// A flow as it was at the last look.
struct LastLook {
    counted: FlowSnapshot,
    kept: Compliance,
    measured: Sojourns,
}

/// By link, direction and flow.
type Looked = BTreeMap<String, LastLook>;

fn name(link: &str, way: &str, flow: &str) -> String {
    format!("{link} {way} {flow}")
}

/// What is remembered from one look to the next.
#[derive(Default)]
struct Memory {
    /// When the last look was.
    at: u64,
    before: Arc<Looked>,
    spent: BTreeMap<String, Duration>,
    /// Adapters whose interface was gone at the last look.
    gone: BTreeSet<String>,
    /// Windows below the promised rate.
    slow: BTreeMap<String, u64>,
    /// The last breach that was seen.
    seen: u64,
}

impl Memory {
    /// The sample of a look, and the breaches since the one before.
    fn sample(&mut self, look: Look) -> (Sample, Vec<Breach>) {
        let Look { scenario, standings, snapshot, measured, adapters, .. } = look;
        let over = snapshot.at.0.saturating_sub(self.at);
        let (before, mut slow) = (std::mem::take(&mut self.before), std::mem::take(&mut self.slow));
        let mut looked = Looked::new();
        let mut measured = measured.into_iter();
        let mut spent = BTreeMap::new();
        let gone_before = std::mem::take(&mut self.gone);
        let (mut all, mut breaches): (Vec<Adapter>, Vec<Breach>) = (Vec::new(), Vec::new());
        let adapters: BTreeMap<String, AdapterCounts> = adapters.into_iter().collect();
        let mut places = BTreeMap::new();
        for adapter in scenario.adapters() {
            let counts = adapters.get(&adapter.name).copied().unwrap_or_default();
            places.insert(&adapter.name, all.len());
            let share = self.spent.get(&adapter.name).map(|was| {
                counts.spent.saturating_sub(*was).as_nanos() as f64 / over.max(1) as f64
            });
            spent.insert(adapter.name.clone(), counts.spent);
            if counts.gone && !gone_before.contains(&adapter.name) {
                let adapter = adapter.name.as_str();
                error!(
                    adapter,
                    "adapter {adapter}: its interface is gone for good; take the adapter away and add it again"
                );
            }
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
                ..Adapter::default()
            });
        }
        let ways =
            scenario.links.iter().flat_map(|link| [(link, Towards::Up), (link, Towards::Down)]);
        for (pipe, (link, towards)) in ways.enumerate() {
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
                let name = name(&link.name, way, &flow.name);
                let now = LastLook { counted: *counted, kept, measured };
                let mut windows_below = slow.remove(&name).unwrap_or(0);
                let window = before.get(&name).map(|before| window(before, &now, over));
                if let Some(window) = &window
                    && let Some(promised) = below(window, standing, direction)
                {
                    windows_below += 1;
                    breaches.push(Breach::Rate(TooSlow {
                        flow: name.clone(),
                        begin_ns: self.at,
                        end_ns: snapshot.at.0,
                        sent: window.sent.round() as u64,
                        promised: promised.0,
                    }));
                }
                let told = told(&flow.name, standing, &now, window, windows_below);
                let place = flow.adapter.as_ref().and_then(|at| places.get(&at.name));
                if let Some(adapter) = place.and_then(|&place| all.get_mut(place)) {
                    adapter.link.clone_from(&link.name);
                    let flows =
                        if towards == Towards::Up { &mut adapter.up } else { &mut adapter.down };
                    flows.push(told);
                }
                self.slow.insert(name.clone(), windows_below);
                looked.insert(name, now);
            }
        }
        self.gone =
            all.iter().filter(|adapter| adapter.gone).map(|adapter| adapter.name.clone()).collect();
        let late = || snapshot.late.iter().filter(|late| late.number > self.seen);
        breaches.extend(late().map(Breach::from));
        self.seen = late().next_back().map_or(self.seen, |late| late.number);
        (self.at, self.spent, self.before) = (snapshot.at.0, spent, Arc::new(looked));
        let losses = snapshot
            .losses
            .by_reason()
            .into_iter()
            .map(|(count, why)| (why.to_owned(), count))
            .collect();
        (Sample { at_ns: snapshot.at.0, adapters: all, losses }, breaches)
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
        // No packet came to an empty queue meanwhile, and it was never empty at either end.
        demanded: was.backlog > 0 && is.backlog > 0 && before.kept.periods == now.kept.periods,
        dropped: is.dropped().saturating_sub(was.dropped()),
        delay: between(&before.measured.delay, &now.measured.delay),
        release_error: between(&before.measured.release_error, &now.measured.release_error),
    }
}

/// What was measured between two looks.
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

/// The rate that was promised and not sent, in a window in which packets waited all the time.
fn below(window: &Window, standing: &Standing, direction: &Direction) -> Option<Rate> {
    // Where packets cost more than is counted, what was sent says less; and nobody counts how many
    // bytes waited.
    let comparable = window.demanded && direction.pipe.framing.is_none() && !standing.needs_queue;
    let (rate, latency) = standing.rate.filter(|_| comparable)?;
    let time = u128::from(window.over_ns.saturating_sub(latency.0));
    let promised = (u128::from(rate.0) * time / u128::from(BIT_NANOS))
        .saturating_sub(direction.pipe.setup.largest.into());
    let sent = window.sent * window.over_ns as f64 / BIT_NANOS as f64;
    (sent + 1.0 < promised as f64).then_some(rate)
}

fn told(
    name: &str,
    standing: &Standing,
    now: &LastLook,
    window: Option<Window>,
    below: u64,
) -> Flow {
    let c = &now.counted.counters;
    let [own_burst, host, promise] = now.kept.late;
    let reasons = [
        ("queue_full", c.dropped_full),
        ("too_large", c.dropped_large),
        ("discipline", c.dropped_by_discipline),
        ("policy", c.dropped_by_policy),
        ("change", c.dropped_by_change),
    ];
    Flow {
        flow: name.to_owned(),
        promise: Promise {
            rate: standing.rate.map(|(rate, _)| rate.0),
            delay_ns: standing.delay.as_ref().map(|(delay, _)| delay.0),
            formula: standing.delay.as_ref().map(|(_, formula)| formula.clone()),
            envelope: standing
                .envelope
                .iter()
                .map(|(rate, burst)| Bucket { rate: rate.0, burst_bytes: *burst })
                .collect(),
            need_rate: standing.need.rate.map(|rate| rate.0),
            need_delay_ns: standing.need.delay.map(|delay| delay.0),
            none: standing.none.clone(),
        },
        window,
        total: Total {
            offered: c.offered,
            offered_bytes: c.offered_bytes,
            sent: c.sent,
            sent_bytes: c.sent_bytes,
            dropped: reasons.map(|(why, count)| (why.to_owned(), count)).into(),
            delay: since_start(&now.measured.delay),
            release_error: since_start(&now.measured.release_error),
            beyond: now.kept.beyond,
            beyond_bytes: now.kept.beyond_bytes,
        },
        backlog: c.backlog,
        backlog_bytes: c.backlog_bytes,
        breaches: Breaches { own_burst, host, promise, rate: below },
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

    /// One flow of 8 Mbit/s, promised 6 Mbit/s from the second millisecond on.
    #[test]
    fn a_rate_is_broken_where_packets_waited_all_the_time_and_not_elsewhere() {
        let text = "[link.wire]\nrate = \"8mbit\"\nuplink = \"eth1\"\nscheduler = { kind = \"wf2q+\" }\n\
                    [link.wire.flow.a]\nadapter = \"eth0\"\nneed = { rate = \"6mbit\" }\n";
        let scenario = falaj_terminal::file::parse(text, "test.toml").unwrap();
        let direction = &scenario.links[0].up;
        let mut standing = falaj_plan::standing::standings(&scenario).unwrap()[0][0].clone();
        standing.rate = Some((Rate(6_000_000), Span::from_millis(2)));
        // In a second less 2 ms: 748,500 bytes, and a packet may be under way.
        let least = f64::from(8 * (748_500 - direction.pipe.setup.largest));
        let window = |sent: f64, demanded: bool| Window {
            over_ns: 1_000_000_000,
            sent,
            demanded,
            ..Window::default()
        };
        assert_eq!(below(&window(least - 16.0, true), &standing, direction), Some(Rate(6_000_000)));
        assert_eq!(below(&window(least, true), &standing, direction), None, "that much is kept");
        assert_eq!(
            below(&window(0.0, false), &standing, direction),
            None,
            "who asks for less gets less"
        );
        standing.rate = None;
        assert_eq!(below(&window(0.0, true), &standing, direction), None, "nothing was promised");
    }
}
