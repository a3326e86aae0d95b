//! Streams that differ in rate, batch size and service. The paper's notation allows such streams,
//! but none of its figures shows them.

use super::super::curves::{CurvePoint, FigureCurve, PaperFigure};
use anyhow::{Context, Result};
use falaj_engine::chance::Chance;
use falaj_queueing::{Ask, Effort, Line, Policy, Service, Shape, Stream, Superposed};
use falaj_traffic::interval::Estimate;

/// Packets per second of each stream, before they are scaled to a load.
const RATES: [f64; 5] = [100e3, 90e3, 60e3, 80e3, 30e3];
/// Packets in a batch of each stream: so few that matrices have only 144 phases.
const SIZES: [usize; 5] = [2, 3, 2, 4, 3];
/// Mean service times of the streams' batches, in seconds, for the case of unequal services.
const SERVICES: [f64; 5] = [4e-6, 5e-6, 3e-6, 7e-6, 6e-6];
const LOADS: [f64; 7] = [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
const ASK: Ask = Ask { batches: 400_000, seed: 1, percentile: 0.99, longer_than: 0.0 };
const PACKETS: u32 = 4_000_000;

fn exponential(per_batch: f64) -> Service {
    Service { per_batch, per_packet: 0.0, shape: Shape::Exponential }
}

fn streams(services: Option<[f64; 5]>) -> Vec<Stream> {
    let stream = |n: usize| Stream {
        size: Some(SIZES[n]),
        service: services.map(|services| exponential(services[n])),
        ..Stream::new(1, RATES[n])
    };
    (0..5).map(stream).collect()
}

/// Mean delay of each stream's packets, simulated packet by packet. The simulation shares no code
/// with [`Line::simulate`], which draws batches as a whole.
fn packet_by_packet() -> [f64; 5] {
    let chance = Chance::new(ASK.seed, 4, 0);
    let mut drawn = 0;
    // A random number between 0 and 1.
    let mut uniform = || {
        drawn += 1;
        ((chance.draw(drawn) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let all: f64 = RATES.iter().sum();
    let mut open: [Vec<f64>; 5] = Default::default();
    let (mut sums, mut counts) = ([0.0; 5], [0u32; 5]);
    let (mut now, mut free) = (0.0f64, 0.0f64);
    for _ in 0..PACKETS {
        now -= uniform().ln() / all;
        let part = uniform();
        let mut below = 0.0;
        let stream = RATES.iter().position(|rate| {
            below += rate;
            part * all < below
        });
        let n = stream.unwrap_or(4);
        open[n].push(now);
        if open[n].len() == SIZES[n] {
            free = free.max(now) - SERVICES[n] * uniform().ln();
            sums[n] += open[n].drain(..).map(|at| free - at).sum::<f64>();
            counts[n] += SIZES[n] as u32;
        }
    }
    std::array::from_fn(|n| sums[n] / f64::from(counts[n]))
}

/// Distance of a value from an estimate, in units of half the width of the estimate's interval.
fn distance(value: f64, estimate: Estimate) -> f64 {
    (value - estimate.mean).abs() / estimate.half_width.unwrap_or(0.0)
}

pub(super) fn figure() -> Result<PaperFigure> {
    let policy = Policy { size: 1, timeout: None };
    let equal = streams(None);
    let batches: f64 = (0..5).map(|n| RATES[n] / SIZES[n] as f64).sum();
    let point =
        |x: f64, y: f64, off: Option<f64>| CurvePoint { x, y: 1e6 * y, off: off.map(|o| 1e6 * o) };
    let [mut printed, mut exact, mut simulated] = [const { Vec::new() }; 3];
    let (mut farthest, mut over) = (0.0f64, f64::NAN);
    for load in LOADS {
        let service = load / batches;
        let model = Superposed::new(&equal, policy.size, service)?;
        let by_print = model.as_printed()?.wait;
        let mean = model.exact(Effort::Quick)?;
        let wait = Line::new(&equal, policy, exponential(service))?.simulate(ASK)?.wait;
        farthest = farthest.max(distance(mean.wait, wait));
        if load == 0.8 {
            over = by_print / wait.mean;
        }
        printed.push(point(load, by_print, None));
        exact.push(point(load, mean.wait, Some(mean.error)));
        simulated.push(point(load, wait.mean, wait.half_width));
    }
    let own = Line::new(&streams(Some(SERVICES)), policy, exponential(1e-6))?.simulate(ASK)?;
    let mut own_farthest = 0.0f64;
    for (of, delay) in own.streams.iter().zip(packet_by_packet()) {
        own_farthest =
            own_farthest.max(distance(delay, of.context("a stream sent nothing")?.delay));
    }
    let kilo = |rate: f64| format!("{:.0}", rate / 1e3);
    let rates = RATES.map(kilo).join(", ");
    let sizes = SIZES.map(|size| size.to_string()).join(", ");
    Ok(PaperFigure {
        label: super::UNEQUAL.into(),
        title: "mean wait of the batches of five unequal streams".into(),
        x: "load",
        y: "us",
        curves: vec![
            FigureCurve { name: "as printed (us)", points: printed },
            FigureCurve { name: "exact (us)", points: exact },
            FigureCurve { name: "simulated (us)", points: simulated },
        ],
        notes: vec![format!(
            "Streams of {rates} Kp/s in batches of {sizes} packets, exponential services with the \
             same mean. With unequal service times (3 to 7 us) no model gives the delays."
        )],
        found: vec![
            ("mean wait as printed, over the simulated, at a load of 0.8", over),
            ("mean wait by matrices: largest distance from the simulated", farthest),
            ("delays of five unequal services, packet by packet: largest distance", own_farthest),
        ],
        ..PaperFigure::default()
    })
}
