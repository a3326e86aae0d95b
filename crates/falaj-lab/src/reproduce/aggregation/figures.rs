//! The curves of each figure, with remarks.

use super::super::curves::{CurvePoint, FigureCurve, PaperFigure, Published};
use super::live::Live;
use crate::aggregate::CrossingCost;
use anyhow::{Context, Result, bail};
use falaj_queueing::{
    Ask, Effort, Line, Machine, Measure, Policy, Service, Shape, Stream, Superposed, System,
    forward,
};
use falaj_sched::units::time::Span;
use falaj_traffic::interval::Estimate;

/// The service time of a transfer. A packet takes two transfers: so a machine forwards 80,000
/// packets per second one by one, and 800,000 in batches of 62.
const COST: Service =
    Service { per_batch: 5.72e-6, per_packet: 0.533e-6, shape: Shape::Deterministic };
const TIMEOUT: f64 = 200e-6;
/// Number of packets of 64 B in a batch of 4096 B: each needs two bytes more for its length.
const FULL: usize = 62;
const PACKETS: u64 = 400_000;
const SEED: u64 = 1;

pub(super) fn of(label: &str, live: Option<Live>) -> Result<PaperFigure> {
    match label {
        "Figure 1" => forwarded(
            1,
            "native: every packet by itself",
            &[10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 100, 120],
        ),
        "Figure 2" => forwarded(
            2,
            "batches of 62 packets, timeout 200 us",
            &[
                10, 50, 100, 150, 200, 250, 300, 350, 400, 500, 600, 700, 750, 780, 800, 850, 900,
                1000,
            ],
        ),
        "Figure 3" => sojourn(live),
        "Figure 4" => size_for_a_delay(live),
        _ => bail!("there is no {label}: Figures 1 to 4"),
    }
}

/// The service time as the cost that the reader of a ring takes.
fn declared(cost: Service) -> CrossingCost {
    let span = |seconds: f64| Span((seconds * 1e9).round() as u64);
    CrossingCost { batch: span(cost.per_batch), packet: span(cost.per_packet) }
}

fn point(x: f64, y: f64, off: Option<f64>) -> CurvePoint {
    CurvePoint { x, y: y * 1e6, off: off.map(|off| off * 1e6) }
}

const DELAY: &str = "mean delay (us)";

/// Figures 1 and 2: delay, loss and jitter of the whole path, by input rate.
fn forwarded(no: usize, title: &str, rates: &[u32]) -> Result<PaperFigure> {
    let policy = if no == 1 {
        Policy { size: 1, timeout: None }
    } else {
        Policy { size: FULL, timeout: Some(TIMEOUT) }
    };
    let machine = Machine { guests: 1, policy, service: COST, room: 256, shared: true };
    let [mut delays, mut jitters, mut losses] = [const { Vec::new() }; 3];
    // Beyond saturation the output falls: packets are lost on the way back, after they have used
    // the time of the first transfer.
    let mut most = 0.0f64;
    for &rate in rates {
        let found = forward(&machine, f64::from(rate) * 1e3, PACKETS, SEED)?;
        let x = f64::from(rate);
        most = most.max(found.rate);
        delays.push(point(x, found.delay.mean, found.delay.half_width));
        jitters.push(point(x, found.jitter, None));
        losses.push(CurvePoint { x, y: 100.0 * found.loss, off: None });
    }
    let mut found = vec![("largest forwarding rate", most / 1e3)];
    let below = |most: f64| delays.iter().filter(move |p| p.x <= most).map(|p| p.y);
    let mut curves = Vec::new();
    if no == 1 {
        let mean = below(70.0).sum::<f64>() / below(70.0).count().max(1) as f64;
        found.push(("mean delay below saturation", mean));
        // The same machine with room for two batches: an accepted packet has hardly waited.
        let small = Machine { room: 2, ..machine };
        let [before, beyond] = [70e3, 100e3].map(|rate| forward(&small, rate, PACKETS, SEED));
        let (before, beyond) = (before?, beyond?);
        found.extend([
            ("the delay stays: delay at 100 Kp/s over delay at 70", ratio(&delays, 100.0, 70.0)),
            (
                "the delay stays, also with room for two packets",
                beyond.delay.mean / before.delay.mean,
            ),
            (
                "the largest jitter rises: jitter at 100 Kp/s over jitter at 70",
                ratio(&jitters, 100.0, 70.0),
            ),
            (
                "the largest jitter rises, also with room for two packets",
                beyond.jitter / before.jitter,
            ),
        ]);
    } else {
        found.extend(delays.iter().find(|p| p.x == 100.0).map(|p| ("mean delay at 100 Kp/s", p.y)));
        let largest = delays
            .iter()
            .filter(|p| (200.0..600.0).contains(&p.x))
            .max_by(|a, b| a.y.total_cmp(&b.y));
        found.extend(largest.map(|p| ("largest mean delay", p.y)));
        found.extend(largest.map(|p| ("the delay falls from", p.x)));
        found.push((
            "the largest jitter rises: jitter at 900 Kp/s over jitter at 700",
            ratio(&jitters, 900.0, 700.0),
        ));
        // The paper assumes that the machine's output is a Poisson stream. Under this assumption
        // each of the two crossings has two equal streams, so the delay is twice that of one
        // crossing.
        let mut random = Vec::new();
        for &rate in rates.iter().filter(|&&r| r < 800) {
            let streams = [Stream::new(2, f64::from(rate) * 1e3)];
            let delay = delay(&Line::new(&streams, policy, COST)?, ask(None))?;
            random.push(point(
                f64::from(rate),
                2.0 * delay.mean,
                delay.half_width.map(|h| 2.0 * h),
            ));
        }
        curves.push(FigureCurve { name: "delay if the output were Poisson (us)", points: random });
    }
    curves.insert(0, FigureCurve { name: DELAY, points: delays });
    curves.push(FigureCurve { name: "largest jitter (us)", points: jitters });
    curves.push(FigureCurve { name: "loss (%)", points: losses });
    let mut notes = vec![
        "Jitter as RFC 1889 and 3550 smooth it. 256 batches may wait; simulated packet by packet."
            .into(),
    ];
    let published = if no == 1 {
        notes.push(
            "The paper has two delays of the native system: 120 us at any rate, and 50 us at 100 \
             Kp/s, which is beyond the rate that it forwards."
                .into(),
        );
        let at_any_rate = rates.iter().map(|&rate| f64::from(rate)).filter(|&rate| rate <= 80.0);
        Published::beside(DELAY, "mean delay, published", at_any_rate.map(|x| (x, 120.0)))
            .and("mean delay at 100 Kp/s, published", Some(DELAY), [(100.0, 50.0)])
            .at(80.0, "published: maximum forwarding rate")
    } else {
        let points = [(100.0, 280.0), (600.0, 400.0)];
        Published::beside(DELAY, "mean delay, published", points)
            .at(800.0, "published: maximum forwarding rate")
    };
    Ok(PaperFigure {
        label: format!("Figure {no}"),
        title: title.into(),
        x: "input (Kp/s)",
        y: "us; %",
        curves,
        published,
        notes,
        found,
        ..PaperFigure::default()
    })
}

/// The ratio of a curve's values at two rates.
fn ratio(points: &[CurvePoint], of: f64, over: f64) -> f64 {
    let at = |x: f64| points.iter().find(|p| p.x == x).map_or(f64::NAN, |p| p.y);
    at(of) / at(over)
}

fn ask(live: Option<Live>) -> Ask {
    let batches = if quick(live) { 20_000 } else { 200_000 };
    Ask { batches, seed: SEED, percentile: 0.99, longer_than: 0.0 }
}

/// The simulated delay of the first stream's packets.
fn delay(line: &Line, ask: Ask) -> Result<Estimate> {
    let of_first = line.simulate(ask)?.streams.first().copied().flatten();
    Ok(of_first.context("the first stream sent no batch")?.delay)
}

fn quick(live: Option<Live>) -> bool {
    live.is_some_and(Live::is_quick)
}

/// Figure 3: four virtual machines with batches of 200 packets; sojourn time of both ways over the
/// input rate.
fn sojourn(live: Option<Live>) -> Result<PaperFigure> {
    const SIZE: usize = 200;
    const GUESTS: usize = 4;
    let service = COST.mean(SIZE as f64);
    let exponential = Service { shape: Shape::Exponential, ..COST };
    let [mut printed, mut exact, mut simulated, mut timeouts] = [const { Vec::new() }; 4];
    let rates = [100e3, 200e3, 300e3, 400e3, 500e3, 600e3, 700e3, 800e3, 850e3];
    for rate in rates {
        let x = rate / 1e3;
        let streams = [Stream::new(1, rate), Stream::new(GUESTS, rate / GUESTS as f64)];
        let model = Superposed::new(&streams, SIZE, service)?;
        let filled = |rate: f64| (SIZE as f64 - 1.0) / (2.0 * rate);
        let rest = filled(rate) + filled(rate / GUESTS as f64) + 2.0 * service;
        printed.push(point(x, rest + 2.0 * model.as_printed()?.wait, None));
        let mean = model.exact(Effort::Quick)?;
        exact.push(point(x, rest + 2.0 * mean.wait, Some(2.0 * mean.error)));
        let policy = Policy { size: SIZE, timeout: None };
        let wait = Line::new(&streams, policy, exponential)?.simulate(ask(live))?.wait;
        simulated.push(point(x, rest + 2.0 * wait.mean, wait.half_width.map(|h| 2.0 * h)));
        let machine = Machine {
            guests: GUESTS,
            policy: Policy { timeout: Some(TIMEOUT), ..policy },
            service: COST,
            room: 256,
            shared: true,
        };
        let found = forward(&machine, rate, PACKETS, SEED)?.delay;
        timeouts.push(point(x, found.mean, found.half_width));
    }
    let at = |curve: &[CurvePoint], x: f64| curve.iter().find(|p| p.x == x).map_or(0.0, |p| p.y);
    let over =
        (0..).map(|i| 100.0 * f64::from(i + 1)).take(6).all(|x| at(&exact, x) > at(&timeouts, x));
    let found = vec![
        ("the model is above the measured up to", if over { 600.0 } else { 0.0 }),
        ("measured over modelled at 800 Kp/s", at(&timeouts, 800.0) / at(&exact, 800.0)),
    ];
    let mut notes = vec![
        format!(
            "A batch of 200 takes {:.1} us: the load at 800 Kp/s is {:.3}.",
            service * 1e6,
            2.0 * 800e3 / SIZE as f64 * service
        ),
        "As printed, exact and simulated: full batches alone and exponential services, there \
         and back. The curve with timeouts has deterministic services, and each batch enters the \
         machine as a whole. It stands for the paper's measured curve."
            .into(),
    ];
    let mut curves = vec![
        FigureCurve { name: "as printed (us)", points: printed },
        FigureCurve { name: "exact (us)", points: exact },
        FigureCurve { name: "simulated (us)", points: simulated },
        FigureCurve { name: "with timeouts (us)", points: timeouts },
    ];
    if let Some(live) = live {
        let measured = live.there_and_back(&rates, SIZE as u32, declared(COST))?;
        curves.push(measured.curve);
        notes.push(measured.note);
    }
    let title = "four virtual machines, batches of 200: sojourn by input rate".into();
    Ok(PaperFigure {
        label: "Figure 3".into(),
        title,
        x: "input (Kp/s)",
        y: "us",
        curves,
        published: Published::default().at(600.0, "published: model above measured up to here"),
        notes,
        found,
        ..PaperFigure::default()
    })
}

/// One virtual machine with 800,000 packets per second in each direction, and the required delay of
/// Figure 4.
const RATE: f64 = 800e3;
const ASKED: f64 = 300e-6;
const ASKED_SIZE: usize = 160;

fn both_ways(service: f64) -> System {
    System {
        streams: vec![Stream::new(2, RATE)],
        measured: 1,
        service: Service { per_batch: service, per_packet: 0.0, shape: Shape::Exponential },
        timeout: None,
        measure: Measure::Mean,
    }
}

/// Service time of a batch at which batches of 160 packets have the delay [`ASKED`], found by
/// bisection. `fill` is the part of this delay until the batch leaves.
fn implied(streams: &[Stream], fill: f64, printed: bool) -> Result<f64> {
    let rate: f64 =
        streams.iter().map(|s| s.count as f64 * s.rate).sum::<f64>() / ASKED_SIZE as f64;
    let (mut low, mut high) = (0.05 / rate, 0.99 / rate);
    for _ in 0..24 {
        let service = 0.5 * (low + high);
        let model = Superposed::new(streams, ASKED_SIZE, service)?;
        let wait =
            if printed { model.as_printed()?.wait } else { model.exact(Effort::Quick)?.wait };
        if fill + wait + service < ASKED { low = service } else { high = service }
    }
    Ok(0.5 * (low + high))
}

/// Figure 4: the batch size that keeps a required delay, at 800,000 packets per second.
fn size_for_a_delay(live: Option<Live>) -> Result<PaperFigure> {
    const PRINTED: &str = "as printed (us)";
    let fill = (ASKED_SIZE as f64 - 1.0) / (2.0 * RATE);
    let one = [Stream::new(2, RATE)];
    let four = [Stream::new(1, RATE), Stream::new(4, RATE / 4.0)];
    let service = implied(&one, fill, false)?;
    let mut notes = vec![format!(
        "160 packets for 300 us one way, one machine: a service of {:.1} us exactly, {:.1} us as printed.",
        service * 1e6,
        implied(&one, fill, true)? * 1e6
    )];
    let told = |name: &str, fill: f64| -> Result<String> {
        Ok(format!(
            "Four machines, {name}: {:.1} us exactly, {:.1} us as printed.",
            implied(&four, fill, false)? * 1e6,
            implied(&four, fill, true)? * 1e6
        ))
    };
    if !quick(live) {
        notes.push(told("waiting and service alone", 0.0)?);
        notes.push(told("with the driver's filling", fill)?);
    }
    let system = both_ways(service);
    let dimensions = system.dimensions(Some(ASKED), 500)?;
    let [mut printed, mut simulated] = [const { Vec::new() }; 2];
    let mut exact = Vec::new();
    for p in &dimensions.curve {
        let x = p.size as f64;
        exact.push(point(x, p.delay, Some(p.error)));
        let wait = Superposed::new(&one, p.size, service)?.as_printed()?.wait;
        printed.push(point(x, p.fill + wait + p.service, None));
        let line = Line::new(&one, Policy { size: p.size, timeout: None }, system.service)?;
        let delay = delay(&line, ask(live))?;
        simulated.push(point(x, delay.mean, delay.half_width));
    }
    // Near instability the curves would leave the plot.
    for curve in [&mut printed, &mut exact, &mut simulated] {
        curve.retain(|p| p.y < 1200.0);
    }
    let mut found = vec![
        ("delay of batches of 160 packets", system.point(ASKED_SIZE)?.delay * 1e6),
        ("size for 300 us", dimensions.feasible.first().map_or(0.0, |f| f.from.size as f64)),
    ];
    let wait = Superposed::new(&one, ASKED_SIZE, service)?.as_printed()?.wait;
    found.push(("delay of batches of 160 packets, as printed", (fill + wait + service) * 1e6));
    if let Some(f) = dimensions.feasible.first() {
        notes.push(format!(
            "Two sizes have a delay of 300 us: {} and {}. The least delay is {:.0} us at {}; below {} packets nothing is stable.",
            f.from.size,
            f.to.size,
            dimensions.least.delay * 1e6,
            dimensions.least.size,
            dimensions.stable.0
        ));
    }
    let mut curves = vec![
        FigureCurve { name: PRINTED, points: printed },
        FigureCurve { name: "exact (us)", points: exact },
        FigureCurve { name: "simulated (us)", points: simulated },
    ];
    if let Some(live) = live {
        let sizes = [140, 150, 160, 180, 200, 240, 280, 325, 400];
        let measured = live.one_way(&sizes, RATE, declared(system.service))?;
        curves.push(measured.curve);
        notes.push(measured.note);
    }
    let title = "size of batches for a delay, 800 Kp/s both ways".into();
    Ok(PaperFigure {
        label: "Figure 4".into(),
        title,
        x: "packets in a batch",
        y: "us",
        curves,
        published: Published::beside(PRINTED, "published", [(ASKED_SIZE as f64, ASKED * 1e6)]),
        notes,
        found,
        ..PaperFigure::default()
    })
}
