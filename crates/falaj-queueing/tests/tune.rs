//! The tuner before a simulated reader: what it keeps, what it costs beside the best that does not change, how soon it
//! follows. Everything is in whole nanoseconds and from seeds: the same each time.

use falaj_engine::chance::Chance;
use falaj_engine::container::{Container, Packer, Policy, unload};
use falaj_engine::tuning::{Choose, Seen};
use falaj_queueing::{Cost, Filling, Limits, Load, Measure, Tuned, Tuner, Wanted, choose, expect};
use falaj_sched::time::{Span, Time};
use rand_distr::{Distribution, Exp1};
use std::sync::{Arc, Mutex};

/// What a reader is like: it takes containers one after another.
#[derive(Clone, Copy)]
struct Reader {
    container: u64,
    packet: u64,
    waking: u64,
}

const READER: Reader = Reader { container: 4_000, packet: 150, waking: 10_000 };

/// What comes: packets a second by the time, so many at once, to so many destinations in turn.
struct Traffic<'a> {
    rate: &'a dyn Fn(Time) -> f64,
    burst: u64,
    destinations: u64,
    seed: u64,
}

/// What became of it, for each tenth of a second.
#[derive(Clone, Default)]
struct Window {
    delays: Vec<u64>,
    spent: u64,
}

impl Window {
    fn mean(&self) -> f64 {
        self.delays.iter().sum::<u64>() as f64 / self.delays.len() as f64
    }

    fn quantile(&self, part: f64) -> u64 {
        let mut sorted = self.delays.clone();
        sorted.sort_unstable();
        sorted[(part * sorted.len() as f64) as usize]
    }
}

const WINDOW: u64 = 100_000_000;

fn together(windows: &[Window]) -> Window {
    let mut all = Window::default();
    for window in windows {
        all.delays.extend(&window.delays);
        all.spent += window.spent;
    }
    all
}

/// Runs for so many windows.
fn run(mut packer: Packer, reader: Reader, traffic: &Traffic<'_>, windows: usize) -> Vec<Window> {
    let mut chance = Chance::new(traffic.seed, 1, 1);
    let mut found = vec![Window::default(); windows];
    let end = Time(WINDOW * windows as u64);
    let (mut next, mut came, mut number, mut free) = (0.0f64, 0u64, 0u64, Time::ZERO);
    let mut gone: Vec<(Time, Vec<u64>)> = Vec::new();
    loop {
        let arrival = Time(next as u64);
        let idle = if packer.policy().when_idle && !packer.is_empty() { free } else { Time::NEVER };
        let now = arrival.min(packer.next_due()).min(idle);
        if now >= end {
            return found;
        }
        let mut out = |c: Container<'_>| {
            let stamps = unload(c.bytes).unwrap().map(|p| u64::from_le_bytes(*p.unwrap().rest.first_chunk().unwrap()));
            gone.push((c.left, stamps.collect()));
        };
        packer.poll(now, &mut out);
        if now == arrival {
            let mut packet = [0; 60];
            packet[0] = (number / traffic.burst % traffic.destinations) as u8;
            packet[6..14].copy_from_slice(&now.0.to_le_bytes());
            packer.offer(&packet, now, &mut out).unwrap();
            number += 1;
            came += 1;
            if came.is_multiple_of(traffic.burst) {
                let gap: f64 = Exp1.sample(&mut chance);
                next += gap * traffic.burst as f64 / (traffic.rate)(now) * 1e9;
            }
        }
        if free <= now {
            packer.idle(now, &mut out);
        }
        for (left, stamps) in gone.drain(..) {
            // Who is awake begins at once.
            let begins = if free > left { free } else { left + Span(reader.waking) };
            let service = Span(reader.container + reader.packet * stamps.len() as u64);
            free = begins + service;
            packer.crossed(begins.since(left));
            packer.spent(service);
            found[(stamps[0] / WINDOW) as usize].spent += service.0;
            for stamp in stamps {
                found[(stamp / WINDOW) as usize].delays.push(free.0 - stamp);
            }
        }
    }
}

/// A tuner that can be asked afterwards, and what it chose.
#[derive(Clone, Debug)]
struct Watched(Arc<Mutex<(Tuner, Vec<Policy>)>>);

impl Choose for Watched {
    fn choose(&mut self, seen: &Seen, now: Policy) -> Policy {
        let (tuner, chosen) = &mut *self.0.lock().unwrap();
        let next = tuner.choose(seen, now);
        chosen.push(next);
        next
    }
}

const BYTES: u32 = 1 << 16;

fn tuned(wanted: Wanted) -> (Packer, Watched) {
    let tuner = Tuner::new(wanted);
    let (slot, slots) = tuner.epoch();
    let first = tuner.first(BYTES);
    let watched = Watched(Arc::new(Mutex::new((tuner, Vec::new()))));
    (Packer::new(first, 0).unwrap().tuned(Box::new(watched.clone()), slot, slots), watched)
}

fn mean(delay: f64) -> Wanted {
    Wanted { delay, measure: Measure::Mean }
}

/// The least processor time of all sizes with all these timeouts that keep the delay, and that pair.
fn best(wanted: Wanted, reader: Reader, traffic: &Traffic<'_>, windows: usize) -> (f64, u32, f64) {
    let mut best = (f64::INFINITY, 0, 0.0);
    for part in [0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.25, 1.5, 2.0, 3.0] {
        let timeout = wanted.delay * part;
        let spent = |packets: u32| {
            let policy = Policy { packets, bytes: BYTES, timeout: Span((timeout * 1e9) as u64), when_idle: false };
            let all = together(&run(Packer::new(policy, 0).unwrap(), reader, traffic, windows)[1..]);
            let delay = match wanted.measure {
                Measure::Mean => all.mean(),
                Measure::Percentile(part) => all.quantile(part) as f64,
            };
            (delay <= wanted.delay * 1e9).then_some(all.spent as f64 / all.delays.len() as f64)
        };
        // The largest that keeps it: from there on containers take too long to fill.
        let (mut low, mut high) = (0, 1024);
        let mut size = high;
        while size > 0 {
            if let Some(spent) = spent(size) {
                low = size;
                if spent < best.0 {
                    best = (spent, size, part);
                }
                break;
            }
            high = size;
            size /= 2;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match spent(middle) {
                Some(spent) => {
                    low = middle;
                    if spent < best.0 {
                        best = (spent, middle, part);
                    }
                }
                None => high = middle,
            }
        }
    }
    best
}

fn steady(rate: f64) -> impl Fn(Time) -> f64 {
    move |_| rate
}

#[test]
fn it_keeps_the_delay_at_little_more_than_the_least_cost() {
    for delay in [50e-6, 100e-6, 200e-6, 300e-6] {
        for rate in [20e3, 100e3, 400e3, 1600e3] {
            let traffic = Traffic { rate: &steady(rate), burst: 1, destinations: 1, seed: 3 };
            let windows = if rate > 1e6 { 5 } else { 9 };
            let (packer, watched) = tuned(mean(delay));
            let all = together(&run(packer, READER, &traffic, windows)[1..]);
            let spent = all.spent as f64 / all.delays.len() as f64;
            let best = best(mean(delay), READER, &traffic, 3);
            let (tuner, chosen) = &*watched.0.lock().unwrap();
            let what = format!(
                "{delay} {rate}: {:.1} us, {spent:.0} ns, best {best:?} {:?} {}",
                all.mean() / 1e3, chosen.last(), tuner.changes()
            );
            println!("{what}  {:.3} {:.3}", all.mean() / delay / 1e9, spent / best.0);
        }
    }
}
