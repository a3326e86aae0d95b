//! Impairments of a link: frequency, size, and independence from everything else.

use crate::common::{Dice, any_pipe, bursts, emits, impair, run};
use falaj_engine::framing::{Cells, Framing};
use falaj_engine::impair::Impairments;
use falaj_engine::impair::corrupt::Corruption;
use falaj_engine::impair::distribution::{DelayTable, Distribution};
use falaj_engine::impair::duplicate::Duplication;
use falaj_engine::impair::event::RandomEvent;
use falaj_engine::impair::jitter::Jitter;
use falaj_engine::impair::loss::{FourStates, GilbertElliott, Loss};
use falaj_engine::impair::profile::Profile;
use falaj_engine::impair::reorder::Reorder;
use falaj_engine::impair::slots::Slots;
use falaj_engine::message::Unit;
use falaj_engine::pipe::{Counters, PipeSpec};
use falaj_engine::{DropReason, Emit, Engine, Output, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

const SEEDS: [u64; 3] = [1, 2, 77];
const DELAY: Span = Span::from_millis(50);
const FLOW: FlowId = FlowId(0);
const PIPE: PipeId = PipeId(0);

fn percent(p: u64) -> Probability {
    Probability::of(p, 100)
}

fn link(impairments: Impairments, seed: u64) -> PipeSpec {
    let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(1000)); 2];
    // A packet takes a nanosecond.
    let setup = Setup {
        rate: Rate::from_mbit(1_000_000),
        largest: 1514,
        scheduler: Values::default(),
        flows,
    };
    PipeSpec { impairments, seed, ..PipeSpec::new("drr", setup, DELAY) }
}

/// Sends `n` packets of flow 0 through the link, one every `gap`; handles are their numbers.
fn through(spec: &PipeSpec, n: u32, gap: Span) -> (Vec<Output>, Counters) {
    let mut engine = Engine::new(std::slice::from_ref(spec)).expect("a valid pipe");
    let mut out = Vec::new();
    for handle in 0..n {
        let unit = Unit { flow: FLOW, handle, bytes: 100 };
        engine.input(PIPE, unit, Time::ZERO + gap * u64::from(handle), &mut out);
    }
    engine.poll(Time::NEVER, &mut out);
    (out, engine.counters(PIPE, FLOW))
}

/// For each of `n` packets, true if it was lost.
fn lost(loss: Loss, seed: u64, n: u32) -> Vec<bool> {
    let (out, counters) = through(
        &link(Impairments { loss: Some(loss), ..Impairments::default() }, seed),
        n,
        Span(10),
    );
    let mut lost = vec![false; n as usize];
    for output in out {
        if let Output::Drop(dropped) = output {
            assert_eq!(dropped.why, DropReason::Lost);
            lost[dropped.handle as usize] = true;
        }
    }
    assert_eq!(counters.lost, lost.iter().filter(|l| **l).count() as u64);
    assert_eq!((counters.sent, counters.delivered()), (u64::from(n), u64::from(n) - counters.lost));
    lost
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|l| **l).count() as f64 / lost.len() as f64
}

/// Correlation of neighbors.
fn correlation(lost: &[bool]) -> f64 {
    let p = share(lost);
    let both = lost.windows(2).filter(|w| w[0] && w[1]).count() as f64 / (lost.len() - 1) as f64;
    (both - p * p) / (p * (1.0 - p))
}

/// A distance in standard deviations: one of 1000 normal samples is further away.
const FAR: f64 = 3.29;

#[test]
fn independent_loss_is_as_often_as_asked_for() {
    const N: u32 = 200_000;
    for seed in SEEDS {
        for p in [0, 1, 10, 50, 99, 100] {
            let lost = lost(Loss::Random(RandomEvent::independent(percent(p))), seed, N);
            let p = p as f64 / 100.0;
            let far = FAR * (p * (1.0 - p) / f64::from(N)).sqrt();
            assert!((share(&lost) - p).abs() <= far, "seed {seed}: {} for {p}", share(&lost));
            if far > 0.0 {
                // For independent losses the correlation is normal around 0.
                assert!(
                    correlation(&lost).abs() < FAR / f64::from(N).sqrt(),
                    "seed {seed}: {}",
                    correlation(&lost)
                );
            }
        }
    }
}

#[test]
fn correlated_loss_keeps_its_mean() {
    const N: u32 = 400_000;
    for seed in SEEDS {
        for (p, c) in [(1, 25), (10, 50), (30, 90), (50, 25)] {
            let event = RandomEvent { probability: percent(p), correlation: percent(c) };
            let lost = lost(Loss::Random(event), seed, N);
            let (p, c) = (p as f64 / 100.0, c as f64 / 100.0);
            // Correlated samples count as fewer independent ones.
            let far = FAR * (p * (1.0 - p) / f64::from(N) * (1.0 + c) / (1.0 - c)).sqrt();
            assert!((share(&lost) - p).abs() <= far, "seed {seed}: {} for {p}", share(&lost));
            assert!(
                (correlation(&lost) - c).abs() < 0.02,
                "seed {seed}: {} for {c}",
                correlation(&lost)
            );
        }
    }
}

#[test]
fn bursts_of_loss_are_those_of_their_chain() {
    const N: u32 = 400_000;
    let gilbert = |to_bad, to_good, loss_bad, loss_good| {
        let [to_bad, to_good, loss_bad, loss_good] =
            [to_bad, to_good, loss_bad, loss_good].map(percent);
        Loss::GilbertElliott(GilbertElliott { to_bad, to_good, loss_bad, loss_good })
    };
    let four = |p13, p31, p32, p23, p14| {
        let [p13, p31, p32, p23, p14] = [p13, p31, p32, p23, p14].map(percent);
        Loss::FourStates(FourStates { p13, p31, p32, p23, p14 })
    };
    for seed in SEEDS {
        for (loss, mean) in [
            // Transitions to bad by 0.05 and back by 0.2: 1 of 5 packets is sent in the bad state.
            (gilbert(5, 20, 100, 0), 0.2),
            (gilbert(5, 20, 50, 10), 0.2 * 0.5 + 0.8 * 0.1),
            (gilbert(2, 30, 80, 0), 2.0 / 32.0 * 0.8),
            // Without losses in gaps (p14) and without packets that arrive within a loss burst
            // (p32), this is the chain of two states.
            (four(5, 20, 0, 100, 0), 0.2),
            // States 1, 3, 2 and 4 have the ratio 1 : 0.25 : 0.25 * 0.3 / 0.6 : 0.01, because
            // transitions into and out of each state balance.
            (four(5, 20, 30, 60, 1), (0.25 + 0.01) / (1.0 + 0.25 + 0.125 + 0.01)),
        ] {
            assert!((loss.mean() - mean).abs() < 1e-9, "{loss:?}: {}", loss.mean());
            let lost = lost(loss.clone(), seed, N);
            // Losses correlate most in the chain whose two transition probabilities add up to
            // 0.25: neighbours by 0.75, so the variance of the mean is (1 + 0.75) / (1 - 0.75)
            // times that of independent losses.
            let far = FAR * (mean * (1.0 - mean) / f64::from(N) * 1.75 / 0.25).sqrt();
            assert!(
                (share(&lost) - mean).abs() < far,
                "seed {seed}: {} for {mean}: {loss:?}",
                share(&lost)
            );
        }
        // The mean length of a burst is 1 / 0.2 packets.
        let lost = lost(gilbert(5, 20, 100, 0), seed, N);
        let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        let mean = lost.iter().filter(|l| **l).count() as f64 / bursts;
        assert!((mean - 5.0).abs() < 0.2, "seed {seed}: bursts of {mean}");
    }
}

#[test]
fn losses_by_number() {
    let of = |lost: Vec<bool>| -> Vec<usize> { (1..=lost.len()).filter(|n| lost[n - 1]).collect() };
    assert_eq!(of(lost(Loss::Every(7), 1, 30)), [7, 14, 21, 28]);
    assert_eq!(of(lost(Loss::Every(1), 1, 3)), [1, 2, 3]);
    assert_eq!(
        of(lost(Loss::Numbers([1..=1, 4..=6, 29..=40].into()), 1, 30)),
        [1, 4, 5, 6, 29, 30]
    );
}

/// The delays of `n` packets that do not wait for each other.
fn delays(jitter: Jitter, seed: u64, n: u32) -> Vec<f64> {
    let spec = link(Impairments { jitter: Some(jitter), ..Impairments::default() }, seed);
    let (out, counters) = through(&spec, n, Span::from_secs(10));
    assert_eq!(counters.reordered, 0);
    emits(&out).iter().map(|e| (e.due - e.end).0 as f64).collect()
}

fn mean_and_deviation(of: &[f64]) -> (f64, f64) {
    let mean = of.iter().sum::<f64>() / of.len() as f64;
    (mean, (of.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / of.len() as f64).sqrt())
}

/// A table with a long tail, as in a measurement.
fn measured() -> Distribution {
    let samples: Vec<i32> = (0..500).map(|i| 3 * i + i * i * i / 4000).collect();
    Distribution::Table(DelayTable::new(&samples).expect("they differ"))
}

#[test]
fn mean_and_deviation_are_those_asked_for() {
    const N: u32 = 200_000;
    const AMOUNT: Span = Span::from_millis(5);
    for seed in SEEDS {
        for distribution in [
            Distribution::Uniform,
            Distribution::Normal,
            Distribution::Pareto,
            Distribution::ParetoNormal,
            measured(),
        ] {
            for c in [0, 50] {
                let deviation = match distribution {
                    Distribution::Uniform => AMOUNT.0 as f64 / 3f64.sqrt(),
                    _ => AMOUNT.0 as f64,
                };
                let jitter = Jitter {
                    amount: AMOUNT,
                    distribution: distribution.clone(),
                    correlation: percent(c),
                    keeps_order: true,
                };
                // Pareto's fourth moment is so large that the measured deviation is within 2 % only
                // with ten times as many samples. With a correlation of 50 %, half of the samples
                // equal the sample before, so twice that number is needed.
                let tail =
                    matches!(distribution, Distribution::Pareto | Distribution::ParetoNormal);
                let n = if tail { 10 * N * (1 + c as u32 / 50) } else { N };
                let delays = delays(jitter, seed, n);
                let (mean, measured) = mean_and_deviation(&delays);
                let c = c as f64 / 100.0;
                let far = FAR * deviation * ((1.0 + c) / (1.0 - c) / f64::from(n)).sqrt();
                assert!(
                    (mean - DELAY.0 as f64).abs() < far,
                    "seed {seed}: {mean}, {distribution:?}"
                );
                assert!(
                    (measured / deviation - 1.0).abs() < 0.02,
                    "seed {seed}: {measured}, {distribution:?} {c}"
                );
                let pairs = delays.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>();
                let neighbours = pairs / f64::from(n - 1) / (measured * measured);
                assert!(
                    (neighbours - c).abs() < 0.05,
                    "seed {seed}: {neighbours}, {distribution:?}"
                );
            }
        }
    }
}

/// Packets that follow each other closely keep their order, and each delay has the configured
/// distribution: neither the maximum of many delays nor less deviation.
#[test]
fn delays_that_keep_order_are_those_asked_for() {
    const N: u32 = 200_000;
    const AMOUNT: Span = Span::from_millis(10);
    // A table with more values at both ends than between them.
    let ends: Vec<i32> =
        [(0..150).collect::<Vec<i32>>(), (0..100).map(|i| 150 + 10 * i).collect(), vec![1150; 100]]
            .concat();
    let shapes: [(Distribution, f64); 4] = [
        (Distribution::Uniform, 1.0 / 3f64.sqrt()),
        (Distribution::Normal, 1.0),
        (measured(), 1.0),
        (Distribution::Table(DelayTable::new(&ends).expect("they differ")), 1.0),
    ];
    for seed in SEEDS {
        for (distribution, deviation) in &shapes {
            for correlation in [0, 50] {
                let distribution = distribution.clone();
                let jitter = Jitter {
                    amount: AMOUNT,
                    distribution,
                    correlation: percent(correlation),
                    keeps_order: true,
                };
                let spec = link(
                    Impairments { jitter: Some(jitter.clone()), ..Impairments::default() },
                    seed,
                );
                let (out, counters) = through(&spec, N, Span::from_millis(6));
                let emits = emits(&out);
                assert!(
                    counters.reordered == 0 && emits.is_sorted_by_key(|e| e.due),
                    "seed {seed}: {jitter:?}"
                );
                let mut close: Vec<f64> = emits.iter().map(|e| (e.due - e.end).0 as f64).collect();
                let (mean, measured) = mean_and_deviation(&close);
                let asked = deviation * AMOUNT.0 as f64;
                // The delay stays constant for about its standard deviation or longer, and then
                // moves to the next draw. So about three packets share a draw.
                assert!(
                    (mean - DELAY.0 as f64).abs() < 0.03 * asked,
                    "seed {seed}: {mean}, {jitter:?}"
                );
                assert!(
                    (measured / asked - 1.0).abs() < 0.02,
                    "seed {seed}: {measured}, {jitter:?}"
                );
                // The same distribution as for packets that are far apart.
                let mut apart = delays(
                    Jitter { correlation: Probability::NEVER, ..jitter.clone() },
                    seed,
                    20_000,
                );
                close.sort_by(f64::total_cmp);
                apart.sort_by(f64::total_cmp);
                for p in [0.05, 0.25, 0.5, 0.75, 0.95] {
                    let of = |all: &[f64]| all[(p * all.len() as f64) as usize];
                    let other = (of(&close) - of(&apart)).abs() / asked;
                    assert!(other < 0.1, "seed {seed}: {other} at {p}, {jitter:?}");
                }
            }
        }
    }
}

/// Tables of any shape: of two values, with most of the mass in the middle, at both ends, far to
/// one side; in the form of netem's files, 16 bits, truncated at their ends.
#[test]
fn every_table_has_the_deviation_asked_for() {
    const N: u32 = 200_000;
    const AMOUNT: Span = Span::from_millis(3);
    let netem = |z: f64| (z * 8192.0).clamp(-32768.0, 32767.0) as i32;
    let quantile = |i: i32| (f64::from(i) + 0.5) / 4096.0;
    let logistic = |p: f64| (p / (1.0 - p)).ln() / 1.8;
    let shapes: [(&str, Vec<i32>); 7] = [
        ("two values", vec![-7, 12]),
        ("mostly one", [vec![0; 90], vec![1000; 10]].concat()),
        ("both ends", [vec![-500; 50], vec![500; 50]].concat()),
        ("a ramp", (0..4096).collect()),
        ("logistic", (0..4096).map(|i| netem(logistic(quantile(i)))).collect()),
        ("exponential", (0..4096).map(|i| netem(-(1.0 - quantile(i)).ln() - 1.0)).collect()),
        (
            "Pareto, cut off",
            (0..4096).map(|i| netem((1.0 - quantile(i)).powf(-1.0 / 3.0) - 1.5)).collect(),
        ),
    ];
    for seed in SEEDS {
        for (name, samples) in &shapes {
            let distribution = Distribution::Table(DelayTable::new(samples).expect("they differ"));
            let jitter = Jitter {
                amount: AMOUNT,
                distribution,
                correlation: Probability::NEVER,
                keeps_order: true,
            };
            let (mean, measured) = mean_and_deviation(&delays(jitter, seed, N));
            let deviation = AMOUNT.0 as f64;
            assert!((measured / deviation - 1.0).abs() < 0.02, "seed {seed}: {measured}, {name}");
            assert!(
                (mean - DELAY.0 as f64).abs() < FAR * deviation / f64::from(N).sqrt(),
                "seed {seed}: {mean}, {name}"
            );
        }
    }
}

/// The Kolmogorov-Smirnov distance between delays and a distribution function.
fn distance(mut delays: Vec<f64>, below: impl Fn(f64) -> f64) -> f64 {
    delays.sort_by(f64::total_cmp);
    let n = delays.len() as f64;
    let apart = |(i, x): (usize, &f64)| {
        let p = below(*x);
        (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
    };
    delays.iter().enumerate().map(apart).fold(0.0, f64::max)
}

#[test]
fn delays_are_distributed_as_asked_for() {
    const N: u32 = 100_000;
    let (mean, amount) = (DELAY.0 as f64, 5e6);
    // One of 1000 sample sets is further away; a nanosecond is negligible.
    let far = 1.95 / f64::from(N).sqrt();
    let jitter = |distribution| Jitter {
        amount: Span(amount as u64),
        distribution,
        correlation: Probability::NEVER,
        keeps_order: true,
    };
    // The normal distribution function, summed up from its density, from both ends.
    let z = |i: usize| i as f64 / 1000.0 - 4.0;
    let density: Vec<f64> = (0..8000).map(|i| (-(z(i) + 0.0005).powi(2) / 2.0).exp()).collect();
    let sum: f64 = density.iter().sum();
    let mut below = vec![0.0; 8001];
    (0..8000).for_each(|i| below[i + 1] = below[i] + density[i] / sum);
    let above = |i: usize| below[8000 - i];
    let normal =
        |x: f64| below[(((x - mean) / amount + 4.0) * 1000.0).round().clamp(0.0, 8000.0) as usize];
    // Pareto with the exponent 3 has mean 1.5 and variance 0.75.
    let pareto = |x: f64| {
        let y = (x - mean) / amount * 0.75f64.sqrt() + 1.5;
        if y < 1.0 { 0.0 } else { 1.0 - y.powi(-3) }
    };
    // A quarter of the normal and three quarters of the Pareto distribution at the same
    // probability; their covariance determines the deviation.
    let of_pareto = |above: f64| (above.powf(-1.0 / 3.0) - 1.5) / 0.75f64.sqrt();
    let middle = |i: usize| f64::midpoint(above(i), above(i + 1));
    let common: f64 =
        (0..8000).map(|i| (z(i) + 0.0005) * of_pareto(middle(i)) * density[i] / sum).sum();
    let deviation = (1.0f64 / 16.0 + 9.0 / 16.0 + 2.0 * 3.0 / 16.0 * common).sqrt();
    let mixed: Vec<f64> =
        (0..8000).map(|i| (0.25 * z(i) + 0.75 * of_pareto(above(i))) / deviation).collect();
    let pareto_normal = |x: f64| below[mixed.partition_point(|m| *m <= (x - mean) / amount)];
    let uniform = |x: f64| (x - mean + amount) / (2.0 * amount);
    let all: [(Distribution, &dyn Fn(f64) -> f64); 4] = [
        (Distribution::Uniform, &uniform),
        (Distribution::Normal, &normal),
        (Distribution::Pareto, &pareto),
        (Distribution::ParetoNormal, &pareto_normal),
    ];
    for seed in SEEDS {
        let of = |distribution| delays(jitter(distribution), seed, N);
        for (distribution, function) in &all {
            let delays = of(distribution.clone());
            // Allowance for the steps of the tabulated functions.
            let slack = if *distribution == Distribution::Uniform { 0.0 } else { 0.0005 };
            let apart = distance(delays.clone(), function);
            assert!(apart < far + slack, "seed {seed}: {apart}, {distribution:?}");
            // The fraction below a quantile is correct, from the 0.001 to the 0.999 quantile.
            for p in [0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999] {
                let (mut low, mut high) = (0.0, mean + 100.0 * amount);
                while high - low > 1.0 {
                    let middle = f64::midpoint(low, high);
                    if function(middle) < p { low = middle } else { high = middle }
                }
                let share = delays.iter().filter(|d| **d <= high).count() as f64 / f64::from(N);
                // The interpolated table has the correct mean and deviation, and represents an
                // infinite tail by one straight segment. So its quantiles differ from those of the
                // function by up to a 500th of the deviation. At Pareto's steep beginning, this is
                // a large difference in probability.
                let (least, most) =
                    (function(high - amount / 500.0), function(high + amount / 500.0));
                let far = FAR * (p * (1.0 - p) / f64::from(N)).sqrt();
                assert!(
                    least - far < share && share < most + far,
                    "seed {seed}: {share} below the {p} quantile, {distribution:?}"
                );
            }
        }
        // The table's points are its quantiles.
        let mut measured = of(measured());
        measured.sort_by(f64::total_cmp);
        let quantile = |p: f64| measured[(p * f64::from(N)) as usize];
        let raw = |i: f64| 3.0 * i + (i * i * i / 4000.0).floor();
        let ratio =
            |a: f64, b: f64, c: f64| (quantile(c) - quantile(b)) / (quantile(b) - quantile(a));
        let expected = (raw(449.0) - raw(250.0)) / (raw(250.0) - raw(50.0));
        let got = ratio(50.0 / 499.0, 250.0 / 499.0, 449.0 / 499.0);
        assert!((got / expected - 1.0).abs() < 0.03, "seed {seed}: {got} for {expected}");
    }
}

#[test]
fn order_is_kept_unless_it_need_not_be() {
    let jitter = |keeps_order| Jitter {
        amount: Span::from_millis(5),
        distribution: Distribution::Normal,
        correlation: Probability::NEVER,
        keeps_order,
    };
    for seed in SEEDS {
        for keeps_order in [true, false] {
            let spec = link(
                Impairments { jitter: Some(jitter(keeps_order)), ..Impairments::default() },
                seed,
            );
            let (out, counters) = through(&spec, 10_000, Span::from_millis(1));
            let emits = emits(&out);
            let sorted = emits.windows(2).all(|w| w[0].due <= w[1].due);
            assert_eq!(
                (sorted, counters.reordered == 0),
                (keeps_order, keeps_order),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn an_overtaking_packet_skips_the_delay() {
    let reorder = |p, gap| Reorder { event: RandomEvent::independent(percent(p)), gap };
    for seed in SEEDS {
        let spec = |r| link(Impairments { reorder: Some(r), ..Impairments::default() }, seed);
        let (out, counters) = through(&spec(reorder(100, 5)), 100, Span::from_millis(1));
        for (n, e) in emits(&out).iter().enumerate() {
            assert_eq!(e.due - e.end, if (n + 1) % 5 == 0 { Span::ZERO } else { DELAY });
        }
        assert_eq!(counters.reordered, 20);
        let n = 100_000;
        let (_, counters) = through(&spec(reorder(25, 1)), n, Span::from_millis(1));
        let far = FAR * (0.25 * 0.75 / f64::from(n)).sqrt();
        assert!(
            (counters.reordered as f64 / f64::from(n) - 0.25).abs() < far,
            "seed {seed}: {}",
            counters.reordered
        );
    }
}

#[test]
fn copies_and_wrong_bits() {
    const N: u32 = 100_000;
    for seed in SEEDS {
        let what = Impairments {
            duplicate: Some(Duplication(RandomEvent::independent(percent(10)))),
            corrupt: Some(Corruption(RandomEvent::independent(percent(20)))),
            ..Impairments::default()
        };
        let (out, counters) = through(&link(what, seed), N, Span::from_micros(1));
        let mut told: Vec<Emit> = Vec::new();
        let (mut copies, mut corrupted, mut bits) = (0, 0, [0u32; 8]);
        for (i, output) in out.iter().enumerate() {
            match output {
                Output::Copy(copy) => {
                    copies += 1;
                    assert_eq!(out[i + 1], Output::Emit(*copy), "its own emit follows");
                }
                Output::Corrupt(corrupt) => {
                    corrupted += 1;
                    let (mut bytes, next) = ([0u8; 100], &out[i + 1]);
                    corrupt.flip(&mut bytes);
                    assert_eq!(
                        bytes.iter().map(|b| b.count_ones()).sum::<u32>(),
                        1,
                        "one bit is flipped"
                    );
                    bits[bytes.iter().position(|b| *b > 0).unwrap() * 8 / 100] += 1;
                    assert!(matches!(
                        next,
                        Output::Emit(e) | Output::Copy(e) if e.handle == corrupt.handle
                    ));
                }
                Output::Emit(emit) => told.push(*emit),
                Output::Drop(_) | Output::Mark(_) | Output::Early(_) | Output::Retimed(_) => {
                    panic!("{output:?}")
                }
            }
        }
        assert_eq!(
            (counters.duplicated, counters.corrupted, told.len()),
            (copies, corrupted, N as usize)
        );
        let far = |p: f64| FAR * (p * (1.0 - p) * f64::from(N)).sqrt();
        assert!((copies as f64 - 0.1 * f64::from(N)).abs() < far(0.1), "seed {seed}: {copies}");
        assert!(
            (corrupted as f64 - 0.2 * f64::from(N)).abs() < far(0.2),
            "seed {seed}: {corrupted}"
        );
        assert!(
            bits.iter().all(|&n| (2200..2800).contains(&n)),
            "flipped bits are spread evenly over the packet: {bits:?}"
        );
    }
}

#[test]
fn slots_deliver_together() {
    let slots =
        Slots { least: Span::from_millis(10), most: Span::from_millis(30), packets: 8, bytes: 650 };
    for seed in SEEDS {
        let spec = link(Impairments { slots: Some(slots), ..Impairments::default() }, seed);
        // With the first gap, more packets of 100 B arrive than the slots take; with the other
        // gaps, fewer.
        for (gap, n) in
            [(Span::from_millis(1), 2000), (Span::from_millis(7), 2000), (Span::from_secs(3), 50)]
        {
            let (out, _) = through(&spec, n, gap);
            let emits = emits(&out);
            let mut together: Vec<(Time, u64)> = Vec::new();
            for e in &emits {
                assert!(e.due >= e.end + DELAY);
                match together.last_mut() {
                    Some((at, n)) if *at == e.due => *n += 1,
                    _ => together.push((e.due, 1)),
                }
            }
            assert!(
                together.windows(2).all(|w| w[0].0 + Span::from_millis(10) <= w[1].0),
                "seed {seed}: slots are too close"
            );
            assert!(together.iter().all(|&(_, n)| n <= 6), "650 B hold six packets");
            if gap == Span::from_millis(1) {
                assert!(
                    together.windows(2).all(|w| w[1].0 <= w[0].0 + Span::from_millis(30)),
                    "seed {seed}: slots are too far apart"
                );
            }
        }
    }
}

/// If slots are full, packets wait in the queue up to its limit, and further packets are dropped.
/// Delivery is the same as if packets waited behind the queue.
#[test]
fn what_waits_for_slots_is_in_the_queue() {
    let slots = Slots {
        least: Span::from_millis(100),
        most: Span::from_millis(100),
        packets: 2,
        bytes: u64::MAX,
    };
    for (limit, jitter) in [(50, false), (7, false), (7, true)] {
        let jitter = jitter.then_some(Jitter {
            amount: Span::from_millis(5),
            distribution: Distribution::Uniform,
            correlation: Probability::NEVER,
            keeps_order: true,
        });
        let mut spec =
            link(Impairments { slots: Some(slots), jitter, ..Impairments::default() }, 1);
        spec.setup.flows[0].limit = Limit::Packets(limit);
        assert!(spec.no_guarantee().is_some());
        let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let mut out = Vec::new();
        // A thousand packets per second arrive; the slots take twenty.
        for handle in 0..10_000 {
            let now = Time::ZERO + Span::from_millis(1) * u64::from(handle);
            engine.input(PIPE, Unit { flow: FLOW, handle, bytes: 100 }, now, &mut out);
            let held = emits(&out).iter().filter(|e| e.due > now).count();
            let counters = engine.counters(PIPE, FLOW);
            assert!(held <= 6 && counters.backlog <= u64::from(limit), "{held} {counters:?}");
            // Packets delivered more than 2 s ago need not be kept.
            out.retain(
                |o| matches!(o, Output::Emit(e) if e.due > now || e.due + Span::from_secs(2) > now),
            );
        }
        engine.poll(Time::ZERO + Span::from_secs(60), &mut out);
        let counters = engine.counters(PIPE, FLOW);
        assert_eq!((counters.backlog, counters.sent + counters.dropped_full), (0, 10_000));
        let expected = 2 * 100 + u64::from(limit);
        assert!(
            counters.sent.abs_diff(expected) <= 6,
            "{} sent, expected {expected}",
            counters.sent
        );
        let late = emits(&out);
        for two in late[late.len() - 8..].windows(3) {
            assert_eq!(
                two[2].due - two[0].due,
                Span::from_millis(100),
                "no slot is left out, and none has more"
            );
        }
    }
    // If slots cannot be full, no packet waits for one.
    let open = Slots { packets: u64::MAX, ..slots };
    assert!(
        link(Impairments { slots: Some(open), ..Impairments::default() }, 1)
            .no_guarantee()
            .is_none()
    );
}

/// The loss of a packet depends neither on other flows nor on the time of arrivals or the rate of
/// the link. The same holds for independent delays.
#[test]
fn a_decision_depends_on_nothing_but_the_packet() {
    let what = Impairments {
        loss: Some(Loss::Random(RandomEvent::independent(percent(20)))),
        duplicate: Some(Duplication(RandomEvent::independent(percent(20)))),
        jitter: Some(Jitter {
            amount: Span::from_millis(5),
            distribution: Distribution::Normal,
            correlation: Probability::NEVER,
            keeps_order: false,
        }),
        ..Impairments::default()
    };
    let fates = |rate: Rate, other: u32, gap: u64, queue: u32| {
        let mut spec = link(what.clone(), 5);
        spec.setup.rate = rate;
        spec.setup.flows[0].limit = Limit::Packets(queue);
        let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let mut out = Vec::new();
        let mut now = Time::ZERO;
        for handle in 0..1000 {
            for _ in 0..other {
                engine.input(
                    PIPE,
                    Unit { flow: FlowId(1), handle: u32::MAX, bytes: 1000 },
                    now,
                    &mut out,
                );
            }
            engine.input(PIPE, Unit { flow: FLOW, handle, bytes: 100 }, now, &mut out);
            now += Span(gap);
        }
        engine.poll(now + Span::from_secs(100), &mut out);
        let mut fates = vec![None; 1000];
        for output in out {
            match output {
                Output::Emit(e) if e.flow == FLOW => {
                    fates[e.handle as usize] = Some(Some(e.due - e.end));
                }
                Output::Drop(d) if d.flow == FLOW && d.why == DropReason::Lost => {
                    fates[d.handle as usize] = Some(None);
                }
                _ => {}
            }
        }
        fates
    };
    let plain = fates(Rate::from_mbit(1_000_000), 0, 1000, 2000);
    assert!(plain.iter().all(Option::is_some));
    for (rate, other, gap) in [
        (Rate::from_mbit(1), 0, 5),
        (Rate::from_mbit(100), 3, 1_000_000),
        (Rate::from_mbit(7), 1, 0),
    ] {
        assert_eq!(fates(rate, other, gap, 2000), plain, "{rate}");
    }
    // Packets dropped at the full queue are numbered too, so the random numbers of the others stay
    // the same.
    let few = fates(Rate::from_mbit(1), 0, 100_000, 5);
    assert!(few.iter().filter(|f| f.is_none()).count() > 100);
    for (few, plain) in few.iter().zip(&plain).filter(|(few, _)| few.is_some()) {
        assert_eq!(few, plain);
    }
}

/// A driver that sleeps until the next unit may be due misses no unit.
#[test]
fn nothing_is_due_before_it_may_be() {
    for seed in 0..1_000 {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let mut spec = any_pipe(&mut dice);
        impair(&mut dice, &mut spec);
        let arrivals = bursts(&mut dice, &spec, 5_000);
        let mut announced = Time::ZERO;
        let mut seen = 0;
        run(&spec, &arrivals, |engine, until, out| {
            // Checks only units sent by events between arrivals, because an arrival may itself send
            // a unit at once.
            while engine.next_event() < until {
                announced = engine.next_due();
                seen = out.len();
                engine.poll(engine.next_event(), out);
                for output in &out[seen..] {
                    if let Output::Emit(e) | Output::Copy(e) = output {
                        assert!(
                            e.due >= announced,
                            "seed {seed}: {e:?} before {announced:?}: {spec:?}"
                        );
                    }
                }
            }
        });
    }
}

/// A third of the packets takes 1 ms, a third from 2 ms to 4 ms, and the others from 4 ms to 10 ms.
/// The slower half of these others is lost.
#[test]
fn a_profile_takes_the_air_and_loses_what_fails() {
    const N: u32 = 60_000;
    let ms = Span::from_millis;
    let third = |n| Probability::of(n, 3);
    let points = vec![
        (third(0), ms(1)),
        (third(1), ms(1)),
        (third(1), ms(2)),
        (third(2), ms(4)),
        (third(3), ms(10)),
    ];
    for seed in SEEDS {
        for occupies in [true, false] {
            let profile = Profile::new(points.clone(), Probability::of(5, 6), occupies).unwrap();
            let mut spec =
                link(Impairments { profile: Some(profile), ..Impairments::default() }, seed);
            spec.setup.flows[0].limit = Limit::Packets(N);
            let gap = if occupies { Span::ZERO } else { ms(20) };
            let (out, counters) = through(&spec, N, gap);
            let emits = emits(&out);
            let far = FAR * (1.0 / 6.0 * 5.0 / 6.0 * f64::from(N)).sqrt();
            assert!(
                (counters.lost as f64 - f64::from(N) / 6.0).abs() < far,
                "seed {seed}: {}",
                counters.lost
            );
            let beyond: Vec<f64> = match occupies {
                // The packet itself takes a nanosecond at most.
                true => emits.iter().map(|e| (e.end - e.start).0 as f64 - 1.0).collect(),
                false => emits.iter().map(|e| (e.due - e.end - DELAY).0 as f64).collect(),
            };
            if occupies {
                let total: f64 = emits.last().unwrap().end.0 as f64;
                // Mean times of the three thirds, lost packets included: 1 ms, 3 ms and 7 ms.
                assert!(
                    (total / f64::from(N) / (11.0 / 3.0 * 1e6) - 1.0).abs() < 0.02,
                    "seed {seed}: {total}"
                );
                assert!(emits.windows(2).all(|w| w[1].start >= w[0].end));
            }
            // Distribution function of packets that arrive: 0.4 from 1 ms to 2 ms, 0.8 at 4 ms, 1
            // from 7 ms on, where lost packets begin.
            let below = |x: f64| match x / 1e6 {
                x if x < 1.0 - 1e-5 => 0.0,
                x if x < 2.0 - 1e-5 => 0.4,
                x if x < 4.0 => 0.4 + 0.4 * (x - 2.0) / 2.0,
                x => (0.8 + 0.2 * (x - 4.0) / 3.0).min(1.0),
            };
            for x in [0.5e6, 1.5e6, 2.5e6, 3.5e6, 5e6, 6.5e6, 7.1e6] {
                let share = beyond.iter().filter(|b| **b <= x).count() as f64 / beyond.len() as f64;
                assert!(
                    (share - below(x)).abs() < 1.95 / (beyond.len() as f64).sqrt(),
                    "seed {seed}: {share} at {x}"
                );
            }
        }
    }
    assert!(Profile::new(points[1..].to_vec(), third(3), true).is_none(), "a gap at the beginning");
    assert!(Profile::new(points[..4].to_vec(), third(3), true).is_none(), "a gap at the end");
}

/// Cells make a packet as long as whole cells, for the link, the queue and the counters. The
/// maximum packet size applies to the length without framing.
#[test]
fn packets_cost_what_their_framing_says() {
    let mut spec = link(Impairments::default(), 1);
    spec.setup.rate = Rate::from_mbit(8);
    let framing = Framing { overhead: 8, cells: Cells::Atm, largest: 1514 };
    (spec.framing, spec.setup.largest) = (Some(framing), framing.of(1514));
    let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
    let mut out = Vec::new();
    for (handle, bytes) in [40, 41, 1514, 1515].into_iter().enumerate() {
        engine.input(PIPE, Unit { flow: FLOW, handle: handle as u32, bytes }, Time::ZERO, &mut out);
    }
    engine.poll(Time::NEVER, &mut out);
    let ends: Vec<u64> = emits(&out).iter().map(|e| e.end.0 / 1000).collect();
    assert_eq!(ends, [53, 53 + 106, 53 + 106 + 32 * 53], "a byte takes a microsecond");
    let counters = engine.counters(PIPE, FLOW);
    assert_eq!((counters.dropped_large, counters.sent_bytes), (1, 53 + 106 + 32 * 53));
}
