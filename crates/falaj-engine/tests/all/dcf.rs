//! Stations of an 802.11b channel: compared with a model that proceeds from slot to slot, and, for
//! stations that always have packets, with Bianchi's fixed point.

use crate::common::{Arrival, Dice, emits, run};
use falaj_engine::message::Unit;
use falaj_engine::pipe::{Counters, PipeSpec};
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::disciplines::dcf::{Channel, DIFS, RATES, SLOT};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::draws::{Draws, mix};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_theory::dcf::{Saturation, saturation};
use std::collections::VecDeque;

/// Length in bytes of an Ethernet frame with 1500 B of IP.
const LONG: u32 = 1514;

fn channel(scheduler: Values, rates: &[Rate]) -> PipeSpec {
    let station = |rate: &Rate| {
        FlowSetup::new(Values::default().with("rate", Value::Rate(*rate)), Limit::Packets(u32::MAX))
    };
    let flows = rates.iter().map(station).collect();
    PipeSpec::new("dcf", Setup { rate: RATES[3], largest: LONG, scheduler, flows }, Span::ZERO)
}

/// Counters of stations that always have packets, after this time.
fn saturated(spec: &PipeSpec, seed: u64, seconds: u64) -> Vec<Counters> {
    let spec = PipeSpec { seed, ..spec.clone() };
    let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
    let mut out = Vec::new();
    let stations = spec.setup.flows.len() as u32;
    let give = |engine: &mut Engine, flow, now, out: &mut Vec<Output>| {
        engine.input(PipeId(0), Unit { flow, handle: 0, bytes: LONG }, now, out);
    };
    (0..3 * stations).for_each(|n| give(&mut engine, FlowId(n % stations), Time::ZERO, &mut out));
    while engine.next_event() < Time::ZERO + Span::from_secs(seconds) {
        let now = engine.next_event();
        engine.poll(now, &mut out);
        // Another packet for each packet that leaves or is dropped.
        let left: Vec<FlowId> = out
            .drain(..)
            .filter_map(|output| match output {
                Output::Emit(emit) => Some(emit.flow),
                Output::Drop(dropped) => Some(dropped.flow),
                _ => None,
            })
            .collect();
        left.into_iter().for_each(|flow| give(&mut engine, flow, now, &mut out));
        assert!(out.is_empty());
    }
    (0..stations).map(|f| engine.counters(PipeId(0), FlowId(f))).collect()
}

/// Mean and half-width of the 95 % interval over ten runs (Student, nine degrees of freedom).
fn estimate(of: impl Fn(u64) -> f64) -> (f64, f64) {
    let all: Vec<f64> = (0..10).map(of).collect();
    let mean = all.iter().sum::<f64>() / 10.0;
    let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 9.0;
    (mean, 2.262 * (variance / 10.0).sqrt())
}

fn expected(spec: &PipeSpec) -> Saturation {
    let stations: Vec<(Rate, u32)> =
        spec.setup.flows.iter().map(|f| (f.values.rate("rate").unwrap(), LONG)).collect();
    saturation(&Channel::new(&spec.setup).unwrap(), &stations)
}

/// The fixed point of the paper of 2000 as printed, without a limit on attempts: throughput in
/// packets per second.
fn as_printed(n: i32, channel: &Channel) -> f64 {
    let (w, m) = ((channel.cw_min + 1) as f64, 5);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let tau: f64 = f64::midpoint(low, high);
        let p = 1.0 - (1.0 - tau).powi(n - 1);
        let geometric: f64 = (0..m).map(|i| (2.0 * p).powi(i)).sum();
        if 2.0 / (1.0 + w + p * w * geometric) > tau { low = tau } else { high = tau }
    }
    let us = |span: Span| span.0 as f64 / 1e3;
    let (some, one) = (1.0 - (1.0 - low).powi(n), f64::from(n) * low * (1.0 - low).powi(n - 1));
    let frame = us(channel.frame(RATES[3], LONG) + DIFS);
    let busy = one * (frame + us(channel.acknowledged(RATES[3])))
        + (some - one) * (frame + us(channel.confused()));
    one / ((1.0 - some) * us(SLOT) + busy) * 1e6
}

/// One to fifty stations, ten runs of 20 s each. The model differs from the simulation by at most
/// half a percent plus the confidence interval.
#[test]
fn saturation_is_bianchis() {
    for n in [1, 2, 5, 10, 20, 50] {
        let spec = channel(Values::default(), &vec![RATES[3]; n]);
        let model = expected(&spec);
        let sent = |run: &[Counters]| run.iter().map(|c| c.sent).sum::<u64>() as f64 / 20.0;
        let (mean, half) = estimate(|seed| sent(&saturated(&spec, seed, 20)));
        let told = model.packets * n as f64;
        assert!(half < 0.005 * mean, "{n}: {mean} +- {half}");
        assert!(
            (mean - told).abs() < half + 0.005 * told,
            "{n}: {mean} +- {half}, the model says {told}"
        );
        let collisions = |run: &[Counters]| {
            let collided = run.iter().map(|c| c.air.collisions).sum::<u64>() as f64;
            collided / (collided + run.iter().map(|c| c.sent).sum::<u64>() as f64)
        };
        let (mean, half) = estimate(|seed| collisions(&saturated(&spec, seed + 100, 20)));
        assert!((mean - model.collisions).abs() < half + 0.011, "{n}: {mean} +- {half}, {model:?}");
    }
}

/// The simulation is within a percent of the paper's own form, which has no last attempt, and
/// counts a slot for each frame of other stations.
#[test]
fn with_endless_attempts_the_paper_is_right_within_a_percent() {
    for n in [1, 5, 20, 50] {
        let spec =
            channel(Values::default().with("attempts", Value::Count(255)), &vec![RATES[3]; n]);
        let (mean, half) = estimate(|seed| {
            saturated(&spec, seed, 20).iter().map(|c| c.sent).sum::<u64>() as f64 / 20.0
        });
        let printed = as_printed(n as i32, &Channel::new(&spec.setup).unwrap());
        assert!(
            (mean - printed).abs() < half + 0.01 * printed,
            "{n}: {mean} +- {half}, the paper says {printed}"
        );
    }
}

/// Frames per second of stations that always have a frame of 1500 B of IP, at 11 Mbit/s: the
/// channel from one busy period to the next, with the numbers of IEEE 802.11b in microseconds.
fn from_busy_to_busy(stations: usize, seconds: f64, seed: u64) -> f64 {
    let mut dice = Dice::new(seed);
    let mut window = vec![31u64; stations];
    let mut tries = vec![0; stations];
    let mut slots: Vec<u64> = (0..stations).map(|_| dice.from(0, 31)).collect();
    let frame = 192.0 + (24.0 + 8.0 + 1500.0 + 4.0) * 8.0 / 11.0;
    let (mut now, mut sent) = (50.0, 0.0);
    while now < seconds * 1e6 {
        let least = *slots.iter().min().unwrap();
        slots.iter_mut().for_each(|left| *left -= least);
        now += 20.0 * least as f64;
        let senders: Vec<usize> = (0..stations).filter(|&s| slots[s] == 0).collect();
        let alone = senders.len() == 1;
        // SIFS, the acknowledgement at 2 Mbit/s and DIFS; or EIFS.
        now += frame + if alone { 10.0 + (192.0 + 56.0) + 50.0 } else { 364.0 };
        for s in senders {
            tries[s] += 1;
            window[s] = (2 * window[s] + 1).min(1023);
            if alone || tries[s] == 7 {
                (tries[s], window[s]) = (0, 31);
            }
            slots[s] = dice.from(0, window[s]);
        }
        sent += f64::from(u8::from(alone));
    }
    sent / now * 1e6
}

/// Throughput is within 0.1 % of that of a simulation that shares no code and no draws with ours.
/// Twenty runs of each are long enough to tell 0.1 % from nothing: the 95 % interval of the
/// difference is smaller.
#[test]
fn throughput_is_that_of_another_simulation() {
    const SECONDS: u64 = 100;
    for n in [1, 2, 5, 10] {
        let spec = channel(Values::default(), &vec![RATES[3]; n]);
        let difference: Vec<f64> = (0..20)
            .map(|seed| {
                let sent: u64 = saturated(&spec, seed, SECONDS).iter().map(|c| c.sent).sum();
                let ours = sent as f64 / SECONDS as f64;
                ours / from_busy_to_busy(n, SECONDS as f64, 1_000 + seed) - 1.0
            })
            .collect();
        let mean = difference.iter().sum::<f64>() / 20.0;
        let variance = difference.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 19.0;
        let half = 2.093 * (variance / 20.0).sqrt();
        assert!(half < 0.001 && mean.abs() < 0.001, "{n}: {mean} +- {half}");
    }
}

/// One station at 1 Mbit/s beside three at 11 Mbit/s: all send equally many packets, and the slow
/// one uses most of the air time.
#[test]
fn one_slow_station_pulls_all_down() {
    let spec = channel(Values::default(), &[RATES[3], RATES[3], RATES[3], RATES[0]]);
    let model = expected(&spec);
    for f in 0..4 {
        let (mean, half) = estimate(|seed| saturated(&spec, seed, 60)[f].sent as f64 / 60.0);
        assert!(
            (mean - model.packets).abs() < half + 0.01 * model.packets,
            "{f}: {mean} +- {half}, {model:?}"
        );
        let air = |c: &Counters| c.air.used.as_secs_f64() / 60.0;
        let (mean, half) = estimate(|seed| air(&saturated(&spec, seed, 60)[f]));
        assert!(
            (mean - model.air[f]).abs() < half + 0.01 * model.air[f],
            "{f}: {mean} +- {half}, {model:?}"
        );
    }
    let alone = expected(&channel(Values::default(), &[RATES[3]; 4]));
    assert!(alone.packets > 2.5 * model.packets, "{} instead of {}", model.packets, alone.packets);
}

/// With small windows and few attempts many frames are dropped.
#[test]
fn what_collides_too_often_is_dropped() {
    let few =
        |name, n| Values::default().with("attempts", Value::Count(3)).with(name, Value::Count(n));
    let spec = channel(few("cw-max", 31), &[RATES[3]; 10]);
    let (model, sum) = (expected(&spec), |run: &[Counters], of: fn(&Counters) -> u64| {
        run.iter().map(of).sum::<u64>() as f64
    });
    let (mean, half) = estimate(|seed| {
        let run = saturated(&spec, seed, 20);
        let dropped = sum(&run, |c| c.dropped_by_discipline);
        dropped / (dropped + sum(&run, |c| c.sent))
    });
    assert!(
        model.dropped > 0.05 && (mean - model.dropped).abs() < half + 0.005,
        "{mean} +- {half}, {model:?}"
    );
}

/// A frame that finds the air free is sent at once; its time is that of preamble and frame. The
/// next frame waits for the acknowledgement, DIFS and one of 32 equally likely numbers of slots:
/// chi-square with 31 degrees of freedom, 99.9 % below 61.1.
#[test]
fn a_station_alone_counts_its_slots() {
    let spec = channel(Values::default(), &[RATES[3]]);
    let all: Vec<Arrival> =
        (0..6_400).map(|_| Arrival { at: Time(1_234_567), flow: FlowId(0), bytes: LONG }).collect();
    let out = emits(&run(&spec, &all, |_, _, _| {}));
    let frame = Span(192_000 + (1536 * 8_000u64).div_ceil(11));
    assert_eq!((out[0].start, out[0].end), (Time(1_234_567), Time(1_234_567) + frame));
    let mut slots = [0u32; 32];
    for two in out.windows(2) {
        assert_eq!(two[1].end - two[1].start, frame);
        let counted = two[1].start - two[0].end - Span::from_micros(10 + 248) - DIFS;
        assert_eq!(counted.0 % SLOT.0, 0);
        slots[(counted / SLOT) as usize] += 1;
    }
    let mean = 6_399.0 / 32.0;
    let chi: f64 = slots.iter().map(|&n| (f64::from(n) - mean).powi(2) / mean).sum();
    assert!(chi < 61.1, "{slots:?}");
}

/// A station of the model, with its counter.
#[derive(Default)]
struct Station {
    draws: Draws,
    /// Queued arrivals, by number.
    queue: VecDeque<usize>,
    left: u64,
    /// True if it has drawn a number of slots since the air was last taken.
    drew: bool,
    collisions: u32,
}

impl Station {
    fn draw(&mut self, channel: &Channel) {
        let slots = u128::from(channel.window(self.collisions)) + 1;
        self.left = ((u128::from(self.draws.draw()) * slots) >> 64) as u64;
        self.drew = true;
    }
}

/// The channel from microsecond to microsecond: for each packet, in order, its start of
/// transmission, or `None` if it was dropped.
fn model(spec: &PipeSpec, arrivals: &[Arrival]) -> Vec<(usize, Option<u64>)> {
    let channel = Channel::new(&spec.setup).unwrap();
    let us = |span: Span| span.0 / 1_000;
    let rate = |f: usize| spec.setup.flows[f].values.rate("rate").unwrap();
    let draws = |f: usize| Draws::new(mix(mix(spec.seed)), f as u64);
    let station = |f| Station { draws: draws(f), ..Station::default() };
    let mut stations: Vec<Station> = (0..spec.setup.flows.len()).map(station).collect();
    let (mut log, mut coming) = (Vec::new(), arrivals.iter().enumerate().peekable());
    // The time since which the air is free and slots are counted; the flow and the end of the
    // current frame; the flows whose packets are dropped when the air is free.
    let (mut free, mut counts) = (0, 0);
    let (mut ends, mut failed): (Option<(usize, u64)>, Vec<usize>) = (None, Vec::new());
    for now in 0.. {
        if let Some((f, _)) = ends.take_if(|(_, end)| *end == now) {
            stations[f].queue.pop_front();
        }
        if now == free {
            for f in std::mem::take(&mut failed) {
                log.push((stations[f].queue.pop_front().unwrap(), None));
                stations[f].collisions = 0;
                stations[f].draw(&channel);
            }
        }
        let send = |stations: &mut Vec<Station>,
                    log: &mut Vec<_>,
                    failed: &mut Vec<usize>,
                    who: &[usize]| {
            let frame = |f: usize| us(channel.frame(rate(f), arrivals[stations[f].queue[0]].bytes));
            let longest = who.iter().map(|&f| frame(f)).max().unwrap();
            stations.iter_mut().for_each(|s| s.drew = false);
            if let [f] = *who {
                log.push((stations[f].queue[0], Some(now)));
                stations[f].collisions = 0;
                stations[f].draw(&channel);
                return (
                    Some((f, now + longest)),
                    now + longest + us(channel.acknowledged(rate(f))),
                );
            }
            // The order in which packets of stations that give up are dropped.
            for &f in who.iter().rev() {
                stations[f].collisions += 1;
                if stations[f].collisions == channel.attempts {
                    failed.push(f);
                } else {
                    stations[f].draw(&channel);
                }
            }
            (None, now + longest + us(channel.confused()))
        };
        let begins = |s: &Station| s.left == 0 && !s.queue.is_empty();
        let is_slot = |counts: u64| now >= counts && (now - counts).is_multiple_of(us(SLOT));
        if is_slot(counts) {
            if now > counts {
                stations.iter_mut().for_each(|s| s.left = s.left.saturating_sub(1));
            }
            let who: Vec<usize> = (0..stations.len()).filter(|&f| begins(&stations[f])).collect();
            if !who.is_empty() {
                (ends, free) = send(&mut stations, &mut log, &mut failed, &who);
                counts = free + us(DIFS);
            }
        }
        while let Some((n, a)) = coming.next_if(|(_, a)| a.at.0 == 1_000 * now) {
            let f = a.flow.index();
            let contending = stations.iter().any(|s| !s.queue.is_empty());
            let alone = stations[f].queue.is_empty();
            if now < free && alone && stations[f].left == 0 && !stations[f].drew {
                stations[f].draw(&channel);
            }
            stations[f].queue.push_back(n);
            if now >= counts && alone && stations[f].left == 0 && (!contending || is_slot(counts)) {
                (ends, free) = send(&mut stations, &mut log, &mut failed, &[f]);
                counts = free + us(DIFS);
            }
        }
        if coming.peek().is_none() && stations.iter().all(|s| s.queue.is_empty()) {
            break;
        }
    }
    log
}

/// Rates at which all durations are whole microseconds; small windows, few attempts, loads from
/// idle to overload.
#[test]
fn stations_are_those_of_the_model() {
    let (mut sent, mut dropped) = (0, 0);
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let [few, more, attempts] =
            [dice.from(1, 7), dice.from(7, 31), dice.from(1, 4)].map(Value::Count);
        let values =
            Values::default().with("cw-min", few).with("cw-max", more).with("attempts", attempts);
        let rates: Vec<Rate> = (0..dice.from(1, 6)).map(|_| dice.one_of(&RATES[..2])).collect();
        let spec = PipeSpec { seed, ..channel(values, &rates) };
        let longest = dice.one_of(&[300, 2_000, 10_000, 60_000]);
        let mut all = Vec::new();
        for f in 0..rates.len() as u32 {
            let mut at = 0;
            for _ in 0..dice.from(1, 60) {
                at += dice.from(0, longest) * dice.from(0, 1);
                all.push(Arrival {
                    at: Time(1_000 * at),
                    flow: FlowId(f),
                    bytes: dice.from(1, 200) as u32,
                });
            }
        }
        all.sort_by_key(|a| (a.at, a.flow));
        let out = run(&spec, &all, |_, _, _| {});
        let ours: Vec<(usize, Option<u64>)> = out
            .iter()
            .filter_map(|output| match output {
                Output::Emit(emit) => Some((emit.handle as usize, Some(emit.start.0 / 1_000))),
                Output::Drop(dropped) => Some((dropped.handle as usize, None)),
                _ => None,
            })
            .collect();
        assert_eq!(ours, model(&spec, &all), "seed {seed}: {spec:?}");
        sent += emits(&out).len();
        dropped += out.len() - emits(&out).len();
    }
    assert!(sent > 20_000 && dropped > 1_000, "{sent} sent, {dropped} dropped");
}
