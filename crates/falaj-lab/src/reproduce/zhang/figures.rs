//! The thesis' figures and tables, at three capacities: as printed, as implied by the printed
//! utilisations, and as implied by the delays.

use super::super::curves::{Axes, CurvePoint, FigureCell, FigureCurve, PaperFigure, Published};
use super::super::verdict::Allowed;
use super::testbed::{ENDLESS, Lc, SEEDS, Testbed, TestbedResult, TestbedServer};
use super::{clocks, order};
use anyhow::{Context, Result, bail};
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::interval::Estimate;
use falaj_traffic::source::Source;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Capacities in kbit/s: as printed; implied by the printed utilisations; implied by the delays and
/// their intervals.
const PRINTED: u32 = 125;
pub(super) const USED: u32 = 250;
const EFFECTIVE: u32 = 213;
/// Capacities for video in kbit/s, with the same three origins.
const VIDEO_PRINTED: u32 = 1_200;
const VIDEO_USED: u32 = 1_300;
pub(super) const VIDEO_EFFECTIVE: u32 = 770;

/// Loads: packets per second of a BE flow.
const LOADS: [u32; 10] = [0, 5, 7, 10, 11, 13, 15, 16, 18, 20];
const VIDEO_LOADS: [u32; 9] = [0, 5, 10, 12, 13, 15, 18, 24, 30];
const QUANTA: [u32; 8] = [800, 1_000, 1_200, 1_600, 2_000, 2_400, 3_000, 4_000];
const VIDEO_QUANTA: [u32; 10] =
    [1_000, 3_000, 6_000, 9_000, 12_000, 15_000, 18_000, 21_000, 24_000, 27_000];

/// The results of all runs; each run is made once for all figures that need it.
#[derive(Default)]
pub(super) struct Lab(RefCell<BTreeMap<String, TestbedResult>>);

impl Lab {
    fn with<T>(&self, bed: &Testbed, read: impl FnOnce(&TestbedResult) -> T) -> Result<T> {
        let text = bed.text();
        if !self.0.borrow().contains_key(&text) {
            let found = bed.run()?;
            self.0.borrow_mut().insert(text.clone(), found);
        }
        let all = self.0.borrow();
        Ok(read(all.get(&text).context("a run that was made")?))
    }

    pub(super) fn curve(
        &self,
        name: &'static str,
        beds: impl Iterator<Item = (u32, Testbed)>,
        read: impl Fn(&TestbedResult) -> Option<Estimate>,
    ) -> Result<FigureCurve> {
        let mut points = Vec::new();
        for (x, bed) in beds {
            if let Some(e) = self.with(&bed, &read)? {
                points.push(CurvePoint { x: x.into(), y: e.mean, off: e.half_width });
            }
        }
        Ok(FigureCurve { name, points })
    }
}

/// Experiments without video, by the rate of the BE flows in packets per second. A BE flow's
/// quantum has the same proportion to its load as LC's quantum.
fn loaded(server: TestbedServer, capacity: u32) -> impl Iterator<Item = (u32, Testbed)> {
    LOADS.into_iter().map(move |be| (be, at_load(server, capacity, be)))
}

pub(super) fn at_load(server: TestbedServer, capacity: u32, be: u32) -> Testbed {
    // A quantum is needed even without BE traffic.
    let quantum_be = (2_000 * be / 15).max(740);
    Testbed {
        server,
        capacity,
        lc: Lc::Packets(15),
        be,
        quantum_lc: 2_000,
        quantum_be,
        queue: ENDLESS,
    }
}

/// Experiments by the quantum of LC, in which each flow sends `rate` packets per second.
fn by_quantum(
    server: TestbedServer,
    capacity: u32,
    rate: u32,
) -> impl Iterator<Item = (u32, Testbed)> {
    QUANTA.into_iter().map(move |q| (q, at_quantum(server, capacity, rate, q)))
}

fn at_quantum(server: TestbedServer, capacity: u32, rate: u32, quantum_lc: u32) -> Testbed {
    Testbed {
        server,
        capacity,
        lc: Lc::Packets(rate),
        be: rate,
        quantum_lc,
        quantum_be: 2_000,
        queue: ENDLESS,
    }
}

pub(super) const WHOLE: Lc = Lc::Video { whole: true };
pub(super) const DIVIDED: Lc = Lc::Video { whole: false };

pub(super) fn video(
    server: TestbedServer,
    capacity: u32,
    lc: Lc,
    be: u32,
    quantum_lc: u32,
) -> Testbed {
    Testbed { server, capacity, lc, be, quantum_lc, quantum_be: 2_000, queue: ENDLESS }
}

fn video_loaded(
    server: TestbedServer,
    capacity: u32,
    lc: Lc,
) -> impl Iterator<Item = (u32, Testbed)> {
    VIDEO_LOADS.into_iter().map(move |be| (be, video(server, capacity, lc, be, 9_000)))
}

fn video_by_quantum(
    server: TestbedServer,
    capacity: u32,
    lc: Lc,
    be: u32,
) -> impl Iterator<Item = (u32, Testbed)> {
    VIDEO_QUANTA.into_iter().map(move |q| (q, video(server, capacity, lc, be, q)))
}

pub(super) const BE_RATE: &str = "packets/s of each BE flow";
const QUANTUM: &str = "quantum of LC (B)";
pub(super) const DELAY: &str = "mean delay (ms)";

pub(super) fn lc(f: &TestbedResult) -> Option<Estimate> {
    f.lc
}

pub(super) fn be(n: usize) -> impl Fn(&TestbedResult) -> Option<Estimate> {
    move |f| f.be[n - 1]
}

pub(super) fn holds(statement: bool) -> f64 {
    if statement { 1.0 } else { 0.0 }
}

/// The figure or table of this name.
pub(super) fn of(lab: &Lab, label: &str) -> Result<PaperFigure> {
    let mut figure = match label {
        "Figure 2.1" => order::figure()?,
        "Figure 4.4" => clocks::of_lc(lab)?,
        "Figure 4.5" => clocks::of_be(lab)?,
        "Table 5.1" => table_1()?,
        "Table 5.2" => table_2(lab)?,
        "Figure 5.1" => figure_1(lab)?,
        "Figure 5.2" => figure_2(lab)?,
        "Figure 5.3" => figure_3(lab)?,
        "Figure 5.4" => counters(lab, TestbedServer::Modified, 15)?,
        "Figure 5.5" => counters(lab, TestbedServer::Plus, 15)?,
        "Figure 5.6" => high(lab, TestbedServer::Modified)?,
        "Figure 5.7" => high(lab, TestbedServer::Plus)?,
        "Figure 5.8" => counters(lab, TestbedServer::Modified, 18)?,
        "Figure 5.9" => counters(lab, TestbedServer::Plus, 18)?,
        "Figure 5.10" => figure_10(lab)?,
        "Figure 5.11" => figure_11(lab)?,
        "Figure 5.12" => figure_12(lab)?,
        "Figure 5.13" => video_quantum(lab, TestbedServer::Modified)?,
        "Figure 5.14" => video_quantum(lab, TestbedServer::Plain)?,
        "Theorem 2" => order::theorem()?,
        "Finite buffers" => finite(lab)?,
        _ => bail!("the thesis's {label} is not reproduced"),
    };
    label.clone_into(&mut figure.label);
    Ok(figure)
}

fn figure(title: &str, x: &'static str, y: &'static str, curves: Vec<FigureCurve>) -> PaperFigure {
    let (label, title) = (String::new(), title.to_owned());
    PaperFigure { label, title, x, y, axes: Axes::Decades, curves, ..PaperFigure::default() }
}

/// Largest number of bytes that a source sends above its mean rate (in B/s) in any interval.
fn burstiness(packets: &[(Time, u32)], rate: f64) -> f64 {
    let (mut sent, mut least, mut most) = (0.0, 0.0f64, 0.0f64);
    for &(at, bytes) in packets {
        let before = sent - rate * at.0 as f64 / 1e9;
        least = least.min(before);
        sent += f64::from(bytes);
        most = most.max(before + f64::from(bytes) - least);
    }
    most
}

/// Mean bytes of a packet, with its header.
const MEAN: f64 = 410.0;

fn table_1() -> Result<PaperFigure> {
    const RATE: &str = "rate (B/s of payload)";
    const BURSTINESS: &str = "burstiness, own mean rate (B)";
    let published = [
        (5, 8983),
        (7, 7894),
        (10, 12_141),
        (11, 10_270),
        (13, 5810),
        (15, 4179),
        (16, 4146),
        (18, 3717),
        (20, 3576),
    ];
    let [mut rates, mut ours] = [const { Vec::new() }; 2];
    let mut worst = 0.0f64;
    for (load, _) in published {
        let rate = f64::from(load) * 370.0;
        let source = |seed| -> Result<(f64, f64)> {
            let bed = Testbed { lc: Lc::Packets(load), ..at_load(TestbedServer::Plain, USED, 0) };
            let scenario = falaj_terminal::file::parse_quietly(&bed.text(), "zhang")?;
            let packets = Source::new(scenario.traffic[0].spec(), seed, 0);
            let packets: Vec<(Time, u32)> = packets
                .take_while(|p| p.at < Time::ZERO + Span::from_secs(100))
                .map(|p| (p.at, p.bytes - 40))
                .collect();
            let sent: f64 = packets.iter().map(|p| f64::from(p.1)).sum::<f64>() / 100.0;
            Ok((sent, burstiness(&packets, sent)))
        };
        let runs = (1..=4 * SEEDS).map(source).collect::<Result<Vec<_>>>()?;
        let of = |values: Vec<f64>| Estimate::of(&values).map(|e| (e.mean, e.half_width));
        let sent = of(runs.iter().map(|r| r.0).collect()).context("runs")?;
        let sigmas = of(runs.iter().map(|r| r.1).collect()).context("runs")?;
        worst = worst.max((sent.0 / rate - 1.0).abs() * 100.0);
        let x = f64::from(load);
        rates.push(CurvePoint { x, y: sent.0, off: sent.1 });
        ours.push(CurvePoint { x, y: sigmas.0, off: sigmas.1 });
    }
    let sigmas_of_loads = ours.clone();
    let falls = ours.windows(2).all(|w| w[1].y <= w[0].y * 1.1);
    let curves = vec![
        FigureCurve { name: RATE, points: rates },
        FigureCurve { name: BURSTINESS, points: ours },
    ];
    let mut figure =
        figure("rate and burstiness of exponential traffic", BE_RATE, "B/s; B", curves);
    figure.axes = Axes::Plain;
    figure.published = Published::default()
        .and(
            "rate, published",
            Some(RATE),
            published.map(|(load, _)| (f64::from(load), f64::from(load) * 370.0)),
        )
        .and(
            "burstiness, published",
            Some(BURSTINESS),
            published.map(|(load, sigma)| (f64::from(load), f64::from(sigma))),
        );
    figure.notes.push(
        "Burstiness is the most that is sent above a rate in any interval, here of 100 s above the \
         run's own mean; it grows with the length of the run and with the rate. The thesis does \
         not say above which rate it is taken."
            .into(),
    );
    let cell = |((load, sigma), point): (&(u32, u32), CurvePoint)| FigureCell {
        statement: format!("burstiness at {load} packets/s"),
        // A run deviates from the mean of twenty by more than 4.6 half-widths in one of twenty
        // cases.
        allowed: Allowed::near(f64::from(*sigma), 4.6 * point.off.unwrap_or(f64::NAN)),
        unit: "B",
        source: ONE_RUN,
        ours: point.y,
    };
    figure.cells = published.iter().zip(sigmas_of_loads).map(cell).collect();
    figure.cells.extend(video_burstiness()?);
    figure.found = vec![
        ("largest difference of the rates from those printed", worst),
        ("burstiness falls as the rate grows", holds(falls)),
    ];
    Ok(figure)
}

/// The burstiness of video, frame by frame and group by group.
fn video_burstiness() -> Result<[FigureCell; 2]> {
    let bed = video(TestbedServer::Plain, VIDEO_USED, WHOLE, 0, 9_000);
    let scenario = falaj_terminal::file::parse_quietly(&bed.text(), "zhang")?;
    let run = |seed| {
        let frames = Source::new(scenario.traffic[0].spec(), seed, 0);
        let end = Time::ZERO + Span::from_secs(100);
        let frames: Vec<(Time, u32)> =
            frames.take_while(|p| p.at < end).map(|p| (p.at, p.bytes)).collect();
        let rate = frames.iter().map(|f| f64::from(f.1)).sum::<f64>() / 100.0;
        let groups: Vec<(Time, u32)> =
            frames.chunks(10).map(|group| (group[0].0, group.iter().map(|f| f.1).sum())).collect();
        [burstiness(&frames, rate), burstiness(&groups, rate)]
    };
    let runs: Vec<[f64; 2]> = (1..=4 * SEEDS).map(run).collect();
    let cell = |n: usize, statement: &str, published| -> Result<FigureCell> {
        let values: Vec<f64> = runs.iter().map(|run| run[n]).collect();
        let e = Estimate::of(&values).context("runs")?;
        Ok(FigureCell {
            statement: statement.into(),
            allowed: Allowed::near(published, 4.6 * e.half_width.unwrap_or(f64::NAN)),
            unit: "B",
            source: ONE_RUN,
            ours: e.mean,
        })
    };
    Ok([
        cell(0, "burstiness of video, frame by frame", 45_560.0)?,
        cell(1, "burstiness of video, group by group", 31_436.0)?,
    ])
}

/// The source of the tolerance for a published value of one run.
const ONE_RUN: &str = "the 95 % range of one run of 100 s, from the spread of our twenty";

/// Square root of the 97.5 % quantile of F(4, 4), 9.60: the largest ratio, in 95 % of cases, of
/// two standard deviations of five runs each.
const SPREADS: f64 = 3.1;

fn table_2(lab: &Lab) -> Result<PaperFigure> {
    let loads = [5, 7, 10, 11, 13, 16, 18, 20];
    let plus = [0.668, 0.782, 2.172, 4.176, 7.359, 193.893, 970.229, 1743.618];
    let plus_plus = [0.910, 0.772, 1.152, 2.053, 2.402, 4.386, 2.942, 2.689];
    let printed = |values: [f64; 8]| loads.into_iter().map(f64::from).zip(values);
    let ours = |name, server, capacity| -> Result<FigureCurve> {
        let mut points = Vec::new();
        for load in loads {
            let e = lab.with(&at_load(server, capacity, load), lc)?.context("LC sent packets")?;
            // As in the thesis: 1.96 standard errors, not Student's 2.78.
            let y = 1.96 * e.standard_error.unwrap_or(0.0);
            points.push(CurvePoint { x: load.into(), y, off: None });
        }
        Ok(FigureCurve { name, points })
    };
    let curves = vec![
        ours("DRR+, 250 kbit/s", TestbedServer::Plus, USED)?,
        ours("DRR+, 213 kbit/s", TestbedServer::Plus, EFFECTIVE)?,
        ours("DRR++, 250 kbit/s", TestbedServer::Modified, USED)?,
        ours("DRR++, 213 kbit/s", TestbedServer::Modified, EFFECTIVE)?,
    ];
    let at = |curve: usize, load: f64| {
        curves[curve].points.iter().find(|p| p.x == load).map_or(0.0, |p| p.y)
    };
    let found = vec![(
        "at 20 packets/s DRR+ has 10 times the interval of DRR++ and more",
        holds(at(0, 20.0) > 10.0 * at(2, 20.0)),
    )];
    let cells =
        curves.iter().zip([plus, plus, plus_plus, plus_plus]).flat_map(|(curve, printed)| {
            curve.points.iter().zip(printed).map(|(point, published)| FigureCell {
                statement: format!("{}, {} packets/s", curve.name, point.x),
                allowed: Allowed::factor(published, SPREADS),
                unit: "ms",
                source: "the ratio of two standard deviations of five runs each: F(4, 4) at 95 %",
                ours: point.y,
            })
        });
    let cells = cells.collect();
    let mut figure = figure("half of the 95 % interval of LC's mean delay", BE_RATE, "ms", curves);
    figure.published = Published::default()
        .and("DRR+, published", Some("DRR+, 250 kbit/s"), printed(plus))
        .and("DRR++, published", Some("DRR++, 250 kbit/s"), printed(plus_plus));
    figure.notes.push(
        "Five runs, with 1.96 standard errors as in the thesis; Student's factor is 2.78, so the \
         printed intervals are 1.4 times too narrow."
            .into(),
    );
    (figure.found, figure.cells) = (found, cells);
    Ok(figure)
}

fn figure_1(lab: &Lab) -> Result<PaperFigure> {
    let ours = |server, capacity| loaded(server, capacity);
    let curves = vec![
        lab.curve("LC", ours(TestbedServer::Modified, USED), lc)?,
        lab.curve("BE 1", ours(TestbedServer::Modified, USED), be(1))?,
        lab.curve("BE 2", ours(TestbedServer::Modified, USED), be(2))?,
        lab.curve("BE 3", ours(TestbedServer::Modified, USED), be(3))?,
        lab.curve("LC, original form", ours(TestbedServer::Original, USED), lc)?,
        lab.curve("LC at 213 kbit/s", ours(TestbedServer::Modified, EFFECTIVE), lc)?,
        lab.curve("LC at 213 kbit/s, gated", ours(TestbedServer::Gated, EFFECTIVE), lc)?,
        lab.curve("LC at 125 kbit/s", ours(TestbedServer::Modified, PRINTED), lc)?,
    ];
    let at = |capacity, be| at_load(TestbedServer::Modified, capacity, be);
    let mean = |capacity, be| lab.with(&at(capacity, be), |f| f.lc.map_or(0.0, |e| e.mean));
    let (alone, full) = (mean(USED, 0)?, mean(USED, 20)?);
    let gated = at_load(TestbedServer::Gated, EFFECTIVE, 20);
    let gated = lab.with(&gated, |f| f.lc.map_or(0.0, |e| e.mean))?;
    let others = |be| lab.with(&at(USED, be), TestbedResult::be_mean);
    let rise = others(20)? / others(18)?;
    let spread = lab.with(&at(USED, 18), |f| {
        let all: Vec<f64> = f.be.iter().flatten().map(|e| e.mean).collect();
        all.iter().fold(0.0, |m: f64, &y| m.max(y))
            / all.iter().fold(f64::INFINITY, |m, &y| m.min(y))
    })?;
    let rest = lab.with(&at(USED, 20), |f| f.rest.map_or(0.0, |e| e.mean))?;
    // LC's mean delay with the quanta for 20 packets/s, instead of quanta in proportion to the
    // load.
    let held = |be| {
        let quantum_be = at(USED, 20).quantum_be;
        let bed = Testbed { quantum_be, ..at(USED, be) };
        lab.with(&bed, |f| f.lc.map_or(0.0, |e| e.mean))
    };
    let (grown, rested) = (mean(USED, 40)? / full, held(40)? / held(30)?);
    let theorem = |load: u32| {
        let Testbed { quantum_lc, quantum_be, .. } = at(USED, load);
        let cycle = f64::from(quantum_lc + quantum_be);
        let packets = f64::from(quantum_lc) / MEAN;
        500.0 * cycle / (f64::from(USED) * 125.0 - cycle * 15.0 / packets)
    };
    let predicted = |point: &CurvePoint| FigureCell {
        statement: format!("Theorem 1 at {} packets/s", point.x),
        allowed: Allowed::near(theorem(point.x as u32), 1.4 * point.off.unwrap_or(f64::NAN)),
        unit: "ms",
        source: "our 95 % interval of five runs, times 1.4",
        ours: point.y,
    };
    let cells = curves[0].points.iter().filter(|p| p.x >= 15.0).map(predicted).collect();
    let same = lab.with(&at(USED, 20), |f| f.idle.clone())?
        == lab.with(&at_load(TestbedServer::Plus, USED, 20), |f| f.idle.clone())?
        && lab.with(&at(USED, 20), |f| f.idle.clone())?
            == lab.with(&at_load(TestbedServer::Original, USED, 20), |f| f.idle.clone())?;
    let mut figure = figure(
        "DRR++, background of growing rate: LC and BE flows at 250 kbit/s",
        BE_RATE,
        DELAY,
        curves,
    );
    let loads = LOADS.into_iter().filter(|&load| load > 0);
    figure.published = Published::beside("LC", "LC, published", [(0.0, 15.5), (20.0, 106.0)]).and(
        "LC by Theorem 1, published",
        Some("LC"),
        loads.map(|load| (f64::from(load), theorem(load))),
    );
    figure.cells = cells;
    figure.notes = vec![
        "125 kbit/s is printed; with it every row with BE traffic of 11 packets/s and more is \
         beyond the link's rate. 250 kbit/s gives all printed utilisations and LC's delay alone. \
         213 kbit/s with visits that send only packets that were queued as they began (Table 3.1) \
         comes nearest to the delays and intervals."
            .into(),
        format!(
            "Alone LC is an M/G/1 queue: 15.07 ms by Pollaczek and Khinchine. At 20 packets/s a \
             visit of {} B takes 85.3 ms in the mean; LC's longest wait for one was {rest:.0} ms \
             in the mean of the runs, and may be 109.",
            2666
        ),
        "Original form: as MacGregor and Shi published it; packets before all others, with credit for a round.".into(),
    ];
    figure.found = vec![
        ("utilisation at 20 packets/s", (15.0 + 60.0) * 410.0 * 8.0 / 250_000.0 * 100.0),
        ("delay of LC alone", alone),
        ("delay of LC at 20 packets/s", full),
        ("the same at 213 kbit/s in the form `gated`", gated),
        ("increase of LC's delay", full - alone),
        ("LC's longest time without service", rest),
        ("LC's delay comes to rest: delay at 40 packets/s over delay at 20", grown),
        ("the same from 30 packets/s on, with the quanta of 20 packets/s", rested),
        ("at 98.4 % the BE flows' delay is twice that at 18 packets/s and more", holds(rise > 2.0)),
        ("BE flows at 18 packets/s: largest over smallest delay", spread),
        ("a work-conserving order ends its busy periods when any other does", holds(same)),
    ];
    Ok(figure)
}

fn figure_2(lab: &Lab) -> Result<PaperFigure> {
    let curves = vec![
        lab.curve("LC", loaded(TestbedServer::Plus, USED), lc)?,
        lab.curve("BE 1", loaded(TestbedServer::Plus, USED), be(1))?,
        lab.curve("BE 2", loaded(TestbedServer::Plus, USED), be(2))?,
        lab.curve("BE 3", loaded(TestbedServer::Plus, USED), be(3))?,
        lab.curve("LC at 213 kbit/s", loaded(TestbedServer::Plus, EFFECTIVE), lc)?,
        lab.curve("LC at 125 kbit/s", loaded(TestbedServer::Plus, PRINTED), lc)?,
    ];
    let ratio = |capacity, be| -> Result<f64> {
        let of =
            |server| lab.with(&at_load(server, capacity, be), |f| f.lc.map_or(0.0, |e| e.mean));
        Ok(of(TestbedServer::Plus)? / of(TestbedServer::Modified)?)
    };
    let alike = lab.with(&at_load(TestbedServer::Plus, USED, 20), |f| {
        f.lc.map_or(0.0, |e| e.mean) / f.be_mean()
    })?;
    let mut figure = figure(
        "DRR+, background of growing rate: LC and BE flows at 250 kbit/s",
        BE_RATE,
        DELAY,
        curves,
    );
    figure.notes.push(
        "The contract is 1.35 times LC's mean rate in any window of 1 s; the thesis does not say \
         how long its window is, and between a tenth of a second and 10 s it changes when LC is \
         demoted: after 0.2 s to 49 s, or never."
            .into(),
    );
    figure.found = vec![
        ("LC's delay follows that of the BE flows: their ratio at 20 packets/s", alike),
        ("LC's delay at 20 packets/s, over that under DRR++", ratio(USED, 20)?),
        ("the same at 213 kbit/s", ratio(EFFECTIVE, 20)?),
    ];
    Ok(figure)
}

fn figure_3(lab: &Lab) -> Result<PaperFigure> {
    let curves = vec![
        lab.curve("DRR++", by_quantum(TestbedServer::Modified, USED, 15), lc)?,
        lab.curve("DRR+", by_quantum(TestbedServer::Plus, USED, 15), lc)?,
        lab.curve("DRR++, original form", by_quantum(TestbedServer::Original, USED, 15), lc)?,
        lab.curve("DRR++ at 213 kbit/s", by_quantum(TestbedServer::Modified, EFFECTIVE, 15), lc)?,
        lab.curve("DRR+ at 213 kbit/s", by_quantum(TestbedServer::Plus, EFFECTIVE, 15), lc)?,
    ];
    let fall = |n: usize| curves[n].points[0].y - curves[n].points[QUANTA.len() - 1].y;
    let below = curves[0].points.iter().zip(&curves[1].points).all(|(a, b)| a.y < b.y);
    let found = vec![
        ("utilisation", 4.0 * 15.0 * 410.0 * 8.0 / 250_000.0 * 100.0),
        ("DRR++ changes less with LC's quantum than DRR+", holds(fall(0) < fall(1))),
        ("DRR++ has the lower delay at every quantum", holds(below)),
        ("smallest quantum, of all quanta", 800.0 / 6_800.0 * 100.0),
        ("largest quantum, of all quanta", 4_000.0 / 10_000.0 * 100.0),
    ];
    let mut figure = figure(
        "DRR+ and DRR++, 78.7 % of the link: LC's delay by its quantum",
        QUANTUM,
        DELAY,
        curves,
    );
    figure.axes = Axes::Plain;
    figure.found = found;
    Ok(figure)
}

/// Figures 5.4, 5.5, 5.8 and 5.9: how often LC is served, and how often it remains backlogged.
fn counters(lab: &Lab, server: TestbedServer, rate: u32) -> Result<PaperFigure> {
    let beds = || by_quantum(server, USED, rate);
    let curves = vec![
        lab.curve("rounds", beds(), |f| f.rounds)?,
        lab.curve("LC served", beds(), |f| f.services)?,
        lab.curve("LC left waiting", beds(), |f| f.backlogs)?,
        lab.curve("LC left waiting at 213 kbit/s", by_quantum(server, EFFECTIVE, rate), |f| {
            f.backlogs
        })?,
    ];
    let ends = |n: usize| {
        let points = &curves[n].points;
        (points[0].y, points[points.len() - 1].y)
    };
    let ((rounds, rounds_last), (served, served_last)) = (ends(0), ends(1));
    let mut found =
        vec![("LC is served less often with a larger quantum", holds(served_last < served))];
    // The quantum at which a curve falls to 100.
    let down = |n: usize| {
        let points = &curves[n].points;
        let step = points.windows(2).find(|w| w[0].y >= 100.0 && w[1].y < 100.0);
        step.map_or(0.0, |w| w[0].x + (w[0].y - 100.0) / (w[0].y - w[1].y) * (w[1].x - w[0].x))
    };
    match (server, rate) {
        (TestbedServer::Modified, 15) => {
            let more = |served: &FigureCurve, rounds: &FigureCurve| {
                holds(served.points.iter().zip(&rounds.points).all(|(a, b)| a.y > b.y))
            };
            let slow = || by_quantum(server, EFFECTIVE, rate);
            let served = lab.curve("LC served", slow(), |f| f.services)?;
            let rounds_there = lab.curve("rounds", slow(), |f| f.rounds)?;
            found.push((
                "LC is served more often than there are rounds",
                more(&curves[1], &curves[0]),
            ));
            found.push(("the same at 213 kbit/s", more(&served, &rounds_there)));
            found.push((
                "rounds hardly change: most over least",
                rounds.max(rounds_last) / rounds.min(rounds_last),
            ));
            let left = lab.with(&at_quantum(TestbedServer::Plus, USED, 15, 1_600), |f| {
                f.backlogs.map_or(0.0, |e| e.mean)
            })?;
            let ours = curves[2].points.iter().find(|p| p.x == 1_600.0).map_or(0.0, |p| p.y);
            found.push(("LC left waiting at 1600 B, over that of DRR+", ours / left));
        }
        (TestbedServer::Plus, 15) => {
            found.push(("rounds grow as the quantum falls", holds(rounds > rounds_last)));
            let modified = by_quantum(TestbedServer::Modified, USED, rate);
            let modified = lab.curve("LC served", modified, |f| f.services)?;
            let mut both = curves[1].points.iter().zip(&modified.points);
            found.push((
                "LC is served less often than under DRR++ at every quantum",
                holds(both.all(|(plus, modified)| plus.y < modified.y)),
            ));
        }
        _ => {
            found.push(("LC left waiting 100 times from this quantum on", down(2)));
            found.push(("the same at 213 kbit/s", down(3)));
        }
    }
    let name = if server == TestbedServer::Plus { "DRR+" } else { "DRR++" };
    let used = if rate == 15 { "78.7" } else { "94.5" };
    let mut figure =
        figure(&format!("{name}, {used} % of the link: counts in 100 s"), QUANTUM, "times", curves);
    figure.axes = Axes::Plain;
    let hundred = match (server, rate) {
        (_, 15) => None,
        (TestbedServer::Plus, _) => Some(2_000.0),
        _ => Some(1_200.0),
    };
    if let Some(quantum) = hundred {
        let point = [(quantum, 100.0)];
        figure.published =
            Published::beside("LC left waiting", "LC left waiting, published", point);
    }
    figure.notes.push(
        "Counted from what the link sent: served is a run of LC's packets; left waiting, one after \
         which another flow's packet follows while LC has more; a round, one pass over the BE \
         flows."
            .into(),
    );
    figure.found = found;
    Ok(figure)
}

/// Figures 5.6 and 5.7: LC's delay by its quantum, at high utilisation.
fn high(lab: &Lab, server: TestbedServer) -> Result<PaperFigure> {
    let curves = vec![
        lab.curve("250 kbit/s", by_quantum(server, USED, 18), lc)?,
        lab.curve("213 kbit/s", by_quantum(server, EFFECTIVE, 18), lc)?,
        lab.curve("125 kbit/s", by_quantum(server, PRINTED, 18), lc)?,
    ];
    let mean = |server, capacity, q| {
        lab.with(&at_quantum(server, capacity, 18, q), |f| f.lc.map_or(0.0, |e| e.mean))
    };
    let ratio = |capacity, q| -> Result<f64> {
        Ok(mean(TestbedServer::Plus, capacity, q)? / mean(TestbedServer::Modified, capacity, q)?)
    };
    let name = if server == TestbedServer::Plus { "DRR+" } else { "DRR++" };
    let mut found = vec![("utilisation", 4.0 * 18.0 * 410.0 * 8.0 / 250_000.0 * 100.0)];
    if server == TestbedServer::Plus {
        found = vec![
            ("LC's delay at 1200 B, over that under DRR++", ratio(USED, 1_200)?),
            ("the same at 213 kbit/s", ratio(EFFECTIVE, 1_200)?),
        ];
    }
    let mut figure = figure(
        &format!("{name}, 94.5 % of the link: LC's delay by its quantum"),
        QUANTUM,
        DELAY,
        curves,
    );
    figure.found = found;
    Ok(figure)
}

const SHAPES: &str = "1.2 Mbit/s is printed, and its utilisations need 1.3; at either all curves \
                      are flat. 770 kbit/s comes nearest to the thesis' shapes. Frames are single \
                      packets of up to 17,000 B; `divided` sends them as packets of 1500 B.";

fn figure_10(lab: &Lab) -> Result<PaperFigure> {
    let curves = vec![
        lab.curve(
            "LC at 770 kbit/s",
            video_loaded(TestbedServer::Modified, VIDEO_EFFECTIVE, WHOLE),
            lc,
        )?,
        lab.curve(
            "BE 1 at 770 kbit/s",
            video_loaded(TestbedServer::Modified, VIDEO_EFFECTIVE, WHOLE),
            be(1),
        )?,
        lab.curve(
            "LC at 1.3 Mbit/s",
            video_loaded(TestbedServer::Modified, VIDEO_USED, WHOLE),
            lc,
        )?,
        lab.curve(
            "BE 1 at 1.3 Mbit/s",
            video_loaded(TestbedServer::Modified, VIDEO_USED, WHOLE),
            be(1),
        )?,
        lab.curve(
            "LC at 1.2 Mbit/s",
            video_loaded(TestbedServer::Modified, VIDEO_PRINTED, WHOLE),
            lc,
        )?,
        lab.curve(
            "LC, divided, at 770 kbit/s",
            video_loaded(TestbedServer::Modified, VIDEO_EFFECTIVE, DIVIDED),
            lc,
        )?,
    ];
    let at = |n: usize, x: f64| curves[n].points.iter().find(|p| p.x == x).map_or(0.0, |p| p.y);
    let found = vec![
        ("utilisation at 12 packets/s, 1.3 Mbit/s", utilisation(12, 1_300_000.0)),
        ("utilisation at 18 packets/s, 1.3 Mbit/s", utilisation(18, 1_300_000.0)),
        (
            "LC's delay comes to rest: delay at 30 packets/s over delay at 18, at 770 kbit/s",
            at(0, 30.0) / at(0, 18.0),
        ),
        (
            "BE flows wait 5 times as long at 18 packets/s as at 13, and more, at 770 kbit/s",
            holds(at(1, 18.0) > 5.0 * at(1, 13.0)),
        ),
        ("the same at 1.3 Mbit/s", holds(at(3, 18.0) > 5.0 * at(3, 13.0))),
    ];
    let mut figure = figure("DRR++ with video, background of growing rate", BE_RATE, DELAY, curves);
    figure.published = Published::default().at(13.0, "published: BE delays rise from here");
    figure.notes.push(SHAPES.into());
    figure.found = found;
    Ok(figure)
}

fn utilisation(be: u32, capacity: f64) -> f64 {
    (614_400.0 + 3.0 * f64::from(be) * 410.0 * 8.0) / capacity * 100.0
}

fn figure_11(lab: &Lab) -> Result<PaperFigure> {
    let curves = vec![
        lab.curve(
            "LC at 770 kbit/s",
            video_loaded(TestbedServer::Plain, VIDEO_EFFECTIVE, WHOLE),
            lc,
        )?,
        lab.curve(
            "BE 1 at 770 kbit/s",
            video_loaded(TestbedServer::Plain, VIDEO_EFFECTIVE, WHOLE),
            be(1),
        )?,
        lab.curve("LC at 1.3 Mbit/s", video_loaded(TestbedServer::Plus, VIDEO_USED, WHOLE), lc)?,
        lab.curve(
            "BE 1 at 1.3 Mbit/s",
            video_loaded(TestbedServer::Plus, VIDEO_USED, WHOLE),
            be(1),
        )?,
        lab.curve(
            "LC, divided, at 770 kbit/s",
            video_loaded(TestbedServer::Plain, VIDEO_EFFECTIVE, DIVIDED),
            lc,
        )?,
    ];
    let over = |n: usize| {
        curves[n].points.iter().zip(&curves[n + 1].points).all(|(_, be)| be.y > 0.0)
            && curves[n].points.last().map(|p| p.y) > curves[n + 1].points.last().map(|p| p.y)
    };
    let plus_plus = lab
        .with(&video(TestbedServer::Modified, VIDEO_EFFECTIVE, WHOLE, 30, 9_000), |f| {
            f.lc.map_or(0.0, |e| e.mean)
        })?;
    let be_plus_plus = lab
        .with(&video(TestbedServer::Modified, VIDEO_EFFECTIVE, WHOLE, 30, 9_000), |f| {
            f.be_mean()
        })?;
    let last = curves[0].points.last().map_or(0.0, |p| p.y);
    let be_last = curves[1].points.last().map_or(0.0, |p| p.y);
    let found = vec![
        ("LC waits longer than the BE flows at 30 packets/s, at 770 kbit/s", holds(over(0))),
        ("LC's delay at 30 packets/s and 770 kbit/s, over that under DRR++", last / plus_plus),
        (
            "the BE flows' delay at 30 packets/s and 770 kbit/s, over that under DRR++",
            be_last / be_plus_plus,
        ),
    ];
    let mut figure = figure("DRR+ with video, background of growing rate", BE_RATE, DELAY, curves);
    figure.notes = vec![
        SHAPES.into(),
        "At 770 kbit/s the contract, 829 kbit/s, is beyond the link; there LC is demoted from the \
         start, which it is after a second in any case."
            .into(),
    ];
    figure.found = found;
    Ok(figure)
}

fn figure_12(lab: &Lab) -> Result<PaperFigure> {
    let curves = vec![
        lab.curve(
            "DRR++ at 770 kbit/s",
            video_by_quantum(TestbedServer::Modified, VIDEO_EFFECTIVE, WHOLE, 12),
            lc,
        )?,
        lab.curve(
            "DRR+ at 770 kbit/s",
            video_by_quantum(TestbedServer::Plain, VIDEO_EFFECTIVE, WHOLE, 12),
            lc,
        )?,
        lab.curve(
            "DRR++ at 1.3 Mbit/s",
            video_by_quantum(TestbedServer::Modified, VIDEO_USED, WHOLE, 12),
            lc,
        )?,
        lab.curve(
            "DRR+ at 1.3 Mbit/s",
            video_by_quantum(TestbedServer::Plus, VIDEO_USED, WHOLE, 12),
            lc,
        )?,
    ];
    let flat = |n: usize| {
        let all = curves[n].points.iter().map(|p| p.y);
        all.clone().fold(0.0, f64::max) / all.fold(f64::INFINITY, f64::min)
    };
    let found = vec![
        ("DRR++ changes little: largest over least delay, at 1.3 Mbit/s", flat(2)),
        ("DRR+ too", flat(3)),
        ("DRR++ at 770 kbit/s", flat(0)),
    ];
    let mut figure = figure(
        "DRR+ and DRR++ with video, 12 packets/s beside it: LC's delay by its quantum",
        QUANTUM,
        DELAY,
        curves,
    );
    figure.axes = Axes::Plain;
    figure.notes.push(SHAPES.into());
    figure.found = found;
    Ok(figure)
}

/// Figures 5.13 and 5.14.
fn video_quantum(lab: &Lab, server: TestbedServer) -> Result<PaperFigure> {
    let beds = |capacity, lc| video_by_quantum(server, capacity, lc, 18);
    let curves = vec![
        lab.curve("LC at 770 kbit/s", beds(VIDEO_EFFECTIVE, WHOLE), lc)?,
        lab.curve("BE 1 at 770 kbit/s", beds(VIDEO_EFFECTIVE, WHOLE), be(1))?,
        lab.curve("LC at 1.3 Mbit/s", beds(VIDEO_USED, WHOLE), lc)?,
        lab.curve("BE 1 at 1.3 Mbit/s", beds(VIDEO_USED, WHOLE), be(1))?,
        lab.curve(
            "LC, divided, at 770 kbit/s",
            video_by_quantum(server, VIDEO_EFFECTIVE, DIVIDED, 18).filter(|(q, _)| *q >= 3000),
            lc,
        )?,
    ];
    let at = |n: usize, x: f64| curves[n].points.iter().find(|p| p.x == x).map_or(0.0, |p| p.y);
    let mut notes = vec![SHAPES.to_owned()];
    let (title, found) = if server == TestbedServer::Modified {
        let found = vec![
            (
                "from 9000 B on LC's delay is low: that at 6000 B over it, at 770 kbit/s",
                at(0, 6_000.0) / at(0, 9_000.0),
            ),
            (
                "BE flows wait longer at 9000 B than at 3000 B by this factor, at 770 kbit/s",
                at(1, 9_000.0) / at(1, 3_000.0),
            ),
            ("the same fall of LC at 1.3 Mbit/s", at(2, 6_000.0) / at(2, 9_000.0)),
        ];
        notes.push(
            "The knee is where LC's share, Q/(Q + 2000) of the link, carries its 614 kbit/s."
                .into(),
        );
        ("DRR++ with video, 18 packets/s beside it: by LC's quantum", found)
    } else {
        let under = lab
            .with(&video(TestbedServer::Modified, VIDEO_EFFECTIVE, WHOLE, 18, 27_000), |f| {
                f.lc.map_or(0.0, |e| e.mean)
            })?;
        let found = vec![
            (
                "LC's delay falls until 21,000 B: delay at 18,000 B over delay at 27,000 B, at \
                 770 kbit/s",
                at(0, 18_000.0) / at(0, 27_000.0),
            ),
            (
                "at 27,000 B it is above that of DRR++, at 770 kbit/s",
                holds(at(0, 27_000.0) > under),
            ),
        ];
        notes.push(
            "The knee is where LC's share, Q/(Q + 6000) of the link, carries its 614 kbit/s."
                .into(),
        );
        ("DRR+ with video, 18 packets/s beside it: by LC's quantum", found)
    };
    let mut figure = figure(title, QUANTUM, DELAY, curves);
    figure.published = if server == TestbedServer::Modified {
        Published::default().at(9_000.0, "published: LC's delay is low from here")
    } else {
        Published::default().at(21_000.0, "published: LC's delay falls until here")
    };
    figure.notes = notes;
    figure.found = found;
    Ok(figure)
}

/// An experiment that the thesis leaves to future work: finite queues.
fn finite(lab: &Lab) -> Result<PaperFigure> {
    const LENGTHS: [u32; 7] = [2, 5, 10, 20, 50, 100, 200];
    let beds = |server| {
        LENGTHS
            .into_iter()
            .map(move |queue| (queue, Testbed { queue, ..at_load(server, USED, 20) }))
    };
    let curves = vec![
        lab.curve("LC lost, DRR++ (%)", beds(TestbedServer::Modified), |f| f.lost[0])?,
        lab.curve("BE lost, DRR++ (%)", beds(TestbedServer::Modified), |f| f.lost[1])?,
        lab.curve("LC lost, DRR+ (%)", beds(TestbedServer::Plus), |f| f.lost[0])?,
        lab.curve("BE lost, DRR+ (%)", beds(TestbedServer::Plus), |f| f.lost[1])?,
        lab.curve("LC's delay, DRR++ (ms)", beds(TestbedServer::Modified), lc)?,
        lab.curve("LC's delay, DRR+ (ms)", beds(TestbedServer::Plus), lc)?,
        lab.curve("BE 1's delay, DRR++ (ms)", beds(TestbedServer::Modified), be(1))?,
    ];
    let at =
        |n: usize, x: f64| curves[n].points.iter().find(|p| p.x == x).map_or(f64::NAN, |p| p.y);
    let pairs = |a: usize, b: usize| curves[a].points.iter().zip(&curves[b].points);
    let endless =
        lab.with(&at_load(TestbedServer::Modified, USED, 20), |f| f.lc.map_or(0.0, |e| e.mean))?;
    let found = vec![
        (
            "under DRR++ LC loses no more than the BE flows at any length",
            holds(pairs(0, 1).all(|(lc, be)| lc.y <= be.y)),
        ),
        (
            "under DRR++ LC waits less than under DRR+ at every length",
            holds(pairs(4, 5).all(|(ours, plain)| ours.y < plain.y)),
        ),
        (
            "LC's delay with queues of 50 packets, over that with unlimited ones",
            at(4, 50.0) / endless,
        ),
    ];
    let mut figure = figure(
        "DRR+ and DRR++ with queues that fill: 98.4 % of the link at 250 kbit/s",
        "packets that each queue holds",
        "%, ms",
        curves,
    );
    figure.axes = Axes::Plain;
    figure.notes.push(
        "The thesis leaves finite buffers to future work; the statements are those that its own argument implies. A packet that arrives at a full queue is lost."
            .into(),
    );
    figure.found = found;
    Ok(figure)
}
