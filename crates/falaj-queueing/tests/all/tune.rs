//! Tests the tuner with a simulated reader: the delay that it keeps, its cost compared with the
//! best constant policy, and how soon it follows a change of load. All times are whole nanoseconds
//! and drawn from seeds: each run is the same.

use falaj_engine::batch::tuning::{EpochStats, PolicyChooser};
use falaj_engine::batch::{Batch, BatchPolicy, Packer, unpack};
use falaj_engine::chance::Chance;
use falaj_queueing::{
    Cost, Filling, Limits, Load, Measure, Policy as Size, Tuned, Tuner, Wanted, choose, expect,
};
use falaj_sched::units::time::{Span, Time};
use proptest::prelude::*;
use rand_distr::{Distribution, Exp1, Uniform};
use std::sync::{Arc, Mutex};

/// A reader that takes batches one after another. Its costs per batch, per packet and per wake-up
/// are in nanoseconds.
#[derive(Clone, Copy)]
struct Reader {
    batch: u64,
    packet: u64,
    waking: u64,
}

const READER: Reader = Reader { batch: 4_000, packet: 150, waking: 10_000 };

/// Traffic: packets per second as a function of time, the packets of a burst, and the number of
/// destinations, which are used in turn.
struct Traffic<'a> {
    rate: &'a dyn Fn(Time) -> f64,
    burst: u64,
    destinations: u64,
    seed: u64,
}

/// Disturbances by other work on the machine: it stalls either side, wakes the reader sooner or
/// later, and makes its work cheaper or dearer.
#[derive(Clone, Copy)]
struct Noise {
    /// Mean time between two stalls of a side, and the longest stall, in nanoseconds.
    every: f64,
    longest: f64,
    /// Largest relative deviations of waking and work from their means.
    waking: f64,
    work: f64,
}

const QUIET: Noise = Noise { every: f64::INFINITY, longest: 0.0, waking: 0.0, work: 0.0 };
const BUSY: Noise = Noise { every: 150e6, longest: 6e6, waking: 0.9, work: 0.4 };

/// The stalls of one side, in order.
struct Stalls {
    noise: Noise,
    chance: Chance,
    next: (f64, f64),
}

impl Stalls {
    fn new(noise: Noise, seed: u64, side: u64) -> Stalls {
        let mut stalls = Stalls { noise, chance: Chance::new(seed, 2, side), next: (0.0, 0.0) };
        stalls.step();
        stalls
    }

    fn step(&mut self) {
        let gap: f64 = Exp1.sample(&mut self.chance);
        let from = self.next.1 + gap * self.noise.every;
        self.next = (from, from + part(&mut self.chance) * self.noise.longest);
    }

    /// The time at which an action planned for now is done: during a stall, that is the end of the
    /// stall.
    fn until(&mut self, now: Time) -> Time {
        while (now.0 as f64) >= self.next.1 && self.noise.every.is_finite() {
            self.step();
        }
        if (now.0 as f64) < self.next.0 { now } else { now.max(Time(self.next.1 as u64)) }
    }
}

/// A random number between 0 and 1.
fn part(chance: &mut Chance) -> f64 {
    Uniform::new(0.0, 1.0).unwrap().sample(chance)
}

/// A random number around the mean, within a relative deviation.
fn about(mean: u64, by: f64, chance: &mut Chance) -> u64 {
    (mean as f64 * (1.0 + by * (2.0 * part(chance) - 1.0))) as u64
}

/// Results of one tenth of a second.
#[derive(Clone, Default)]
struct Window {
    delays: Vec<u64>,
    /// For each fiftieth of a second, the number of packets and their total delay.
    pieces: Vec<(u64, u64)>,
    spent: u64,
}

impl Window {
    fn mean(&self) -> f64 {
        self.delays.iter().sum::<u64>() as f64 / self.delays.len() as f64
    }

    /// The median of the means of fiftieths of a second: stalls disturb only some of these means.
    fn middle(&self) -> f64 {
        let mut means: Vec<f64> = self
            .pieces
            .iter()
            .filter(|piece| piece.0 > 0)
            .map(|piece| piece.1 as f64 / piece.0 as f64)
            .collect();
        means.sort_by(f64::total_cmp);
        means[means.len() / 2]
    }

    fn quantile(&self, part: f64) -> u64 {
        let mut sorted = self.delays.clone();
        sorted.sort_unstable();
        sorted[(part * sorted.len() as f64) as usize]
    }
}

const WINDOW: u64 = 100_000_000;
const PIECES: u64 = 5;

fn together(windows: &[Window]) -> Window {
    let mut all = Window::default();
    for window in windows {
        all.delays.extend(&window.delays);
        all.pieces.extend(&window.pieces);
        all.spent += window.spent;
    }
    all
}

/// Simulates this number of windows, without disturbances.
fn run(packer: Packer, reader: Reader, traffic: &Traffic<'_>, windows: usize) -> Vec<Window> {
    noisy(packer, reader, traffic, windows, QUIET)
}

fn noisy(
    mut packer: Packer,
    reader: Reader,
    traffic: &Traffic<'_>,
    windows: usize,
    noise: Noise,
) -> Vec<Window> {
    let mut chance = Chance::new(traffic.seed, 1, 1);
    let mut work = Chance::new(traffic.seed, 3, 1);
    let [mut sender, mut slow] = [1, 2].map(|side| Stalls::new(noise, traffic.seed, side));
    let mut found =
        vec![Window { pieces: vec![(0, 0); PIECES as usize], ..Window::default() }; windows];
    let end = Time(WINDOW * windows as u64);
    let (mut next, mut came, mut number, mut free) = (0.0f64, 0u64, 0u64, Time::ZERO);
    let mut gone: Vec<(Time, Vec<u64>)> = Vec::new();
    let mut clock = Time::ZERO;
    loop {
        let arrival = Time(next as u64);
        let idle = if packer.policy().when_idle && !packer.is_empty() { free } else { Time::NEVER };
        let due = arrival.min(packer.next_due()).min(idle);
        if due >= end {
            return found;
        }
        let now = sender.until(due.max(clock));
        clock = now;
        let mut out = |c: Batch<'_>| {
            let stamps = unpack(c.bytes)
                .unwrap()
                .map(|p| u64::from_le_bytes(*p.unwrap().rest.first_chunk().unwrap()));
            gone.push((c.left, stamps.collect()));
        };
        packer.poll(now, &mut out);
        if arrival <= now {
            let mut packet = [0; 60];
            packet[0] = (number / traffic.burst % traffic.destinations) as u8;
            packet[6..14].copy_from_slice(&arrival.0.to_le_bytes());
            packer.offer(&packet, now, &mut out).unwrap();
            number += 1;
            came += 1;
            if came.is_multiple_of(traffic.burst) {
                let gap: f64 = Exp1.sample(&mut chance);
                next += gap * traffic.burst as f64 / (traffic.rate)(arrival) * 1e9;
            }
        }
        if free <= now {
            packer.idle(now, &mut out);
        }
        for (left, stamps) in gone.drain(..) {
            // A busy reader is awake: it begins as soon as it is free.
            let there = left.max(now);
            let begins = if free > there {
                free
            } else {
                there + Span(about(reader.waking, noise.waking, &mut work))
            };
            let service = Span(about(
                reader.batch + reader.packet * stamps.len() as u64,
                noise.work,
                &mut work,
            ));
            free = slow.until(begins) + service;
            packer.crossed(free.since(left));
            packer.spent(service);
            found[(stamps[0] / WINDOW) as usize].spent += service.0;
            for stamp in stamps {
                let window = &mut found[(stamp / WINDOW) as usize];
                window.delays.push(free.0 - stamp);
                let piece = &mut window.pieces[(stamp % WINDOW / (WINDOW / PIECES)) as usize];
                *piece = (piece.0 + 1, piece.1 + free.0 - stamp);
            }
        }
    }
}

/// A tuner that can be examined afterwards, with its choices.
#[derive(Clone, Debug)]
struct Watched(Arc<Mutex<(Tuner, Vec<BatchPolicy>)>>);

impl PolicyChooser for Watched {
    fn choose(&mut self, seen: &EpochStats, now: BatchPolicy) -> BatchPolicy {
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

/// Of several pairs of a size and a timeout, finds the pair that keeps the delay at the least
/// processor time. Returns this time per packet in nanoseconds, the size, and the timeout as a
/// multiple of the delay.
fn best(
    wanted: Wanted,
    reader: Reader,
    traffic: &Traffic<'_>,
    windows: usize,
    noise: Noise,
) -> (f64, u32, f64) {
    let mut best = (f64::INFINITY, 0, 0.0);
    for part in [0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.25, 1.5, 2.0, 3.0] {
        let timeout = wanted.delay * part;
        let spent = |packets: u32| {
            let policy = BatchPolicy {
                packets,
                bytes: BYTES,
                timeout: Span((timeout * 1e9) as u64),
                when_idle: false,
            };
            let all = together(
                &noisy(Packer::new(policy, 0).unwrap(), reader, traffic, windows, noise)[1..],
            );
            let delay = match wanted.measure {
                Measure::Mean if noise.longest > 0.0 => all.middle(),
                Measure::Mean => all.mean(),
                Measure::Percentile(part) => all.quantile(part) as f64,
            };
            (delay <= wanted.delay * 1e9).then_some(all.spent as f64 / all.delays.len() as f64)
        };
        // The largest size that keeps the delay: larger batches take too long to fill.
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

/// Compares the tuner's results after the first window with those of the best constant policy.
fn beside(wanted: Wanted, traffic: &Traffic<'_>, windows: usize) {
    let (packer, watched) = tuned(wanted);
    let all = together(&run(packer, READER, traffic, windows)[1..]);
    let delay = match wanted.measure {
        Measure::Mean => all.mean(),
        Measure::Percentile(part) => all.quantile(part) as f64,
    };
    let spent = all.spent as f64 / all.delays.len() as f64;
    let best = best(wanted, READER, traffic, 2, QUIET);
    let watch = watched.0.lock().unwrap();
    let (load, cost) = (watch.0.load(), watch.0.cost());
    let what = format!(
        "{delay:.0} ns, {spent:.0} ns each; best {best:?}; {:?}; {load:?}, {cost:?}",
        watch.1.last()
    );
    assert!(delay <= wanted.delay * 1e9, "{wanted:?}: {what}");
    assert!(spent <= 1.15 * best.0, "{wanted:?}: {what}");
    // The tuner learns the load in the first half of the run. After that the policy hardly changes.
    let chosen = &watch.1[watch.1.len() / 2..];
    let changes = chosen.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes <= 2, "{wanted:?}: {changes} changes");
    assert!(matches!(watch.0.tuned(), Some(Tuned::Kept(_))));
}

#[test]
fn it_keeps_a_mean_at_little_more_than_the_least_cost() {
    for delay in [50e-6, 100e-6, 300e-6] {
        for rate in [20e3, 100e3, 400e3, 1600e3] {
            let traffic = Traffic { rate: &steady(rate), burst: 1, destinations: 1, seed: 3 };
            beside(mean(delay), &traffic, if rate > 1e6 { 4 } else { 9 });
        }
    }
}

#[test]
fn it_keeps_a_percentile() {
    for (delay, rate) in [(100e-6, 400e3), (300e-6, 50e3), (300e-6, 800e3)] {
        let traffic = Traffic { rate: &steady(rate), burst: 1, destinations: 1, seed: 4 };
        beside(Wanted { delay, measure: Measure::Percentile(0.99) }, &traffic, 6);
    }
}

#[test]
fn it_sees_bursts_and_destinations() {
    for (burst, destinations) in [(8, 1), (1, 4), (5, 3)] {
        for rate in [50e3, 400e3] {
            let traffic = Traffic { rate: &steady(rate), burst, destinations, seed: 5 };
            beside(mean(200e-6), &traffic, 9);
        }
    }
}

/// The load changes tenfold up and down. After a tenth of a second the mean delay exceeds the
/// target by at most 10 %; after half a second the policy no longer changes.
#[test]
fn it_follows_steps_and_does_not_swing() {
    for delay in [100e-6, 300e-6] {
        let rate = |now: Time| if (now.0 / (10 * WINDOW)) % 2 == 1 { 800e3 } else { 80e3 };
        let (packer, watched) = tuned(mean(delay));
        let windows =
            run(packer, READER, &Traffic { rate: &rate, burst: 1, destinations: 1, seed: 6 }, 30);
        for (i, window) in windows.iter().enumerate() {
            if i % 10 > 0 {
                assert!(window.mean() <= 1.1 * delay * 1e9, "window {i}: {}", window.mean());
            }
        }
        let watch = watched.0.lock().unwrap();
        // Each choice covers about ten milliseconds. `end` has the choices of one second: in its
        // second half the policy is constant.
        for end in watch.1.chunks_exact(watch.1.len() / 3) {
            let settled = &end[end.len() / 2..end.len() - 2];
            assert!(settled.iter().all(|policy| policy == &settled[0]), "{settled:?}");
        }
        assert!(watch.0.changes() <= 15, "{} changes", watch.0.changes());
    }
}

/// A machine that stalls for milliseconds several times a second, and whose costs vary: the load is
/// steady, and so is the policy, at little more than the cost of the best constant one.
#[test]
fn noise_does_not_make_it_swing() {
    for (delay, rate) in [(200e-6, 100e3), (200e-6, 400e3), (1e-3, 50e3)] {
        for seed in [8, 9, 10] {
            let traffic = Traffic { rate: &steady(rate), burst: 1, destinations: 1, seed };
            let (packer, watched) = tuned(mean(delay));
            let all = together(&noisy(packer, READER, &traffic, 30, BUSY)[5..]);
            let best = best(mean(delay), READER, &traffic, 6, BUSY);
            let spent = all.spent as f64 / all.delays.len() as f64;
            let watch = watched.0.lock().unwrap();
            let what = format!(
                "{:.0} ns, {spent:.0} ns each; best {best:?}; {:?}",
                all.middle(),
                watch.1.last()
            );
            assert!(all.middle() <= delay * 1e9, "{delay} {rate} {seed}: {what}");
            assert!(spent <= 1.15 * best.0, "{delay} {rate} {seed}: {what}");
            for (second, chosen) in watch.1.chunks_exact(watch.1.len() / 3).enumerate().skip(1) {
                let changes = chosen.windows(2).filter(|pair| pair[0] != pair[1]).count();
                assert!(
                    changes <= 2,
                    "{delay} {rate} {seed}: {changes} changes in second {second}; {what}"
                );
            }
        }
    }
}

/// The same machine, with ten times the load for a second.
#[test]
fn it_follows_steps_of_a_noisy_load() {
    for seed in [11, 12, 13] {
        let rate = |now: Time| if (now.0 / (10 * WINDOW)) % 2 == 1 { 800e3 } else { 80e3 };
        let (packer, watched) = tuned(mean(200e-6));
        let windows = noisy(
            packer,
            READER,
            &Traffic { rate: &rate, burst: 1, destinations: 1, seed },
            30,
            BUSY,
        );
        // Each load lasts for a second; half of that is allowed for following it.
        for (third, windows) in windows.chunks_exact(10).enumerate() {
            let middle = together(&windows[5..]).middle();
            assert!(middle <= 1.1 * 200e3, "{seed}, second {third}: {middle} ns");
        }
        let watch = watched.0.lock().unwrap();
        for chosen in watch.1.chunks_exact(watch.1.len() / 3) {
            let late = &chosen[chosen.len() / 2..];
            let changes = late.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert!(changes <= 2, "{seed}: {changes} changes in half a second");
        }
    }
}

#[test]
fn what_cannot_be_kept_is_told() {
    let traffic = Traffic { rate: &steady(100e3), burst: 1, destinations: 1, seed: 7 };
    // Waking for a batch and carrying it takes 14 us at least.
    let (packer, watched) = tuned(mean(12e-6));
    run(packer, READER, &traffic, 5);
    let Some(Tuned::Missed(least)) = watched.0.lock().unwrap().0.tuned() else {
        panic!("the tuner does not report a miss")
    };
    assert!((12e-6..30e-6).contains(&least.delay), "{least:?}");
    // The load is more than twice the packets that the reader can copy.
    let slow = Reader { packet: 25_000, ..READER };
    let (packer, watched) = tuned(mean(200e-6));
    run(packer, slow, &traffic, 5);
    let Some(Tuned::Missed(least)) = watched.0.lock().unwrap().0.tuned() else {
        panic!("the tuner does not report a miss")
    };
    assert_eq!(least.delay, f64::INFINITY);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Of the tried pairs of a size and a timeout that keep the delay by the same closed form, none
    /// saves more than 3 % of the processor time of the choice.
    #[test]
    fn the_choice_is_the_best(
        delay in 20e-6f64..1e-3, rate in 1e3f64..2e6, burst in 1.0f64..5.0, streams in 1.0f64..5.0,
        per_batch in 1e-6f64..10e-6, per_packet in 0.0f64..500e-9, waking in 0.0f64..20e-6,
    ) {
        let wanted = mean(delay);
        let load = Load { rate, burst, streams, stretch: 1.0 };
        let cost = Cost { per_batch, per_packet, waking, waking_at_most: 2.0 * waking };
        let limits = Limits { packets: 1000, timeouts: (1e-6, 1.0) };
        let left = delay - waking - per_batch - per_packet;
        let (mut least, mut fastest) = (f64::INFINITY, f64::INFINITY);
        for size in (1..40).chain((40..1000).step_by(20)) {
            for part in 1..=20 {
                let timeout = Some((left * 0.2 * f64::from(part)).max(1e-6));
                let Some(found) =
                    expect(&wanted, &load, &cost, Size { size, timeout }, false).unwrap()
                else {
                    continue;
                };
                fastest = fastest.min(found.delay);
                if found.delay <= delay {
                    least = least.min(found.processor);
                }
            }
        }
        match choose(&wanted, &load, &cost, &limits) {
            Ok(Tuned::Kept(choice)) => {
                prop_assert!(choice.delay <= delay * (1.0 + 1e-6));
                prop_assert!(choice.processor <= 1.03 * least, "{:?} {}", choice, least);
                let again = expect(&wanted, &load, &cost, choice.policy, choice.when_idle).unwrap();
                prop_assert_eq!(again, Some(choice));
            }
            Ok(Tuned::Missed(choice)) => {
                prop_assert!(least.is_infinite() && choice.delay > delay);
                prop_assert!(choice.delay <= fastest * 1.1, "{:?} {}", choice, fastest);
            }
            Err(_) => prop_assert!(fastest.is_infinite()),
        }
    }
}

#[test]
fn nonsense_is_refused() {
    let load = Load { rate: 1e5, burst: 1.0, streams: 1.0, stretch: 1.0 };
    let cost = Cost { per_batch: 1e-6, per_packet: 0.0, waking: 0.0, waking_at_most: 0.0 };
    let limits = Limits { packets: 100, timeouts: (1e-6, 1.0) };
    let told = |wanted: Wanted, load: Load, cost: Cost| {
        choose(&wanted, &load, &cost, &limits).unwrap_err().to_string()
    };
    assert!(told(mean(0.0), load, cost).contains("required delay"));
    assert!(told(mean(1e-3), Load { rate: f64::NAN, ..load }, cost).contains("rate of packets"));
    assert!(told(mean(1e-3), load, Cost { per_packet: -1.0, ..cost }).contains("cost of a packet"));
    let half = Wanted { delay: 1e-3, measure: Measure::Percentile(0.5) };
    assert!(told(half, load, cost).contains("0.9 or above"));
}

/// The values computed for all sizes at once equal those of each size alone.
#[test]
fn a_filling_is_of_all_sizes() {
    for (rate, timeout) in [(0.05, 20.0), (1.0, 62.0), (3.0, 400.0)] {
        let filling = Filling::new(rate, timeout).unwrap();
        for size in [1, 2, 7, 62, 900, 5000] {
            // The expected values are computed from the probabilities of fewer than j arrivals
            // within the timeout.
            let (mut fewer, mut log, mut sizes, mut waits) = (0.0, -rate * timeout, 1.0, 0.0);
            for j in 1..size {
                fewer += f64::exp(log);
                log += (rate * timeout).ln() - f64::from(j).ln();
                sizes += f64::max(1.0 - fewer, 0.0);
                waits += f64::from(j) * f64::max(1.0 - fewer, 0.0);
            }
            let found = filling.at(size as usize);
            assert!(
                (found.size / sizes - 1.0).abs() < 1e-9,
                "{rate} {timeout} {size}: {found:?} {sizes}"
            );
            assert!((found.wait - waits / rate / sizes).abs() <= 1e-9 * found.wait, "{found:?}");
        }
    }
}
