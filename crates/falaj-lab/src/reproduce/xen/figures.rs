//! The paper's figures, each with the paper's configuration and with falaj's alternative.

use super::super::curves::{CurvePoint, FigureCurve, PaperFigure, Published};
use super::super::disk::Done;
use super::fixture::{Experiment, Fixture, RateSeries, Runs, most};
use super::testbed::{Divider, MachineLoad, Testbed};
use anyhow::{Result, bail};
use falaj_terminal::text;
use falaj_traffic::interval::Estimate;

/// Mbit/s that a machine sends if its rate is capped: more than any cap.
const GREEDY: u32 = 60;
const CAPS: [(&str, u32); 4] = [("4a", 25), ("4b", 30), ("4c", 35), ("4d", 40)];

fn sends(vm: usize, rate: u32) -> MachineLoad {
    MachineLoad { vm, rate, equal_gaps: false, from: 0 }
}

/// Two machines; the second begins after 5 s.
fn capped(server: Divider) -> Experiment {
    let second = MachineLoad { from: 5, ..sends(1, GREEDY) };
    let sends = vec![sends(0, GREEDY), second];
    Experiment::of(Testbed { server, changes: Vec::new(), sends, seconds: 25 })
}

/// The senders of Figures 6 and 7, and the duration.
fn free(lab: &Fixture, server: Divider, sends: Vec<MachineLoad>) -> Experiment {
    let seconds = if lab.effort.long { 60 } else { 20 };
    Experiment::of(Testbed { server, changes: Vec::new(), sends, seconds }).once()
}

const OURS: Divider = Divider::Mclock([None; 2]);

/// The figure of this name; with the suffix `ours`, falaj's alternative to Xen's configuration.
pub(super) fn of(lab: &Fixture, label: &str) -> Result<PaperFigure> {
    let name = label.strip_prefix("Figure ").unwrap_or(label);
    let (name, ours) = name.strip_suffix(" ours").map_or((name, false), |name| (name, true));
    let mut figure = match name {
        "4a" | "4b" | "4c" | "4d" => {
            let cap = CAPS.iter().find(|(known, _)| *known == name).map_or(0, |(_, cap)| *cap);
            caps(lab, [cap; 2], ours)?
        }
        "5" => caps(lab, [30, 40], ours)?,
        "6a" => unlimited(
            lab,
            "two machines that send as much",
            vec![sends(0, 100), sends(1, 100)],
            ours,
        )?,
        "6b" => unlimited(lab, "one sends twice as much", vec![sends(0, 140), sends(1, 70)], ours)?,
        "6c" => {
            let regular = |vm| MachineLoad { equal_gaps: true, ..sends(vm, 100) };
            unlimited(
                lab,
                "two machines that send in step with the link",
                vec![regular(0), regular(1)],
                ours,
            )?
        }
        "7a" => active(lab, 2, ours)?,
        "7b" => active(lab, 3, ours)?,
        "8" => disk(lab, ours)?,
        "9" => priorities(lab, ours)?,
        _ => bail!("the paper has no {label}"),
    };
    label.clone_into(&mut figure.label);
    Ok(figure)
}

/// Throughput of both machines over time, measured and simulated, with confidence intervals if the
/// experiment was repeated.
fn figure(title: String, runs: &Runs) -> PaperFigure {
    let mut curves = Vec::new();
    let names = [["VM 1 measured", "VM 2 measured"], ["VM 1 simulated", "VM 2 simulated"]];
    for ((all, names), parts) in
        [&runs.live, &runs.simulated].into_iter().zip(names).zip(runs.parts)
    {
        for (vm, name) in names.into_iter().enumerate() {
            let seconds = all.iter().map(|series| series.len()).min().unwrap_or(0) / parts.max(1);
            let points: Vec<CurvePoint> = (0..seconds)
                .filter_map(|n| {
                    let values: Vec<f64> = all
                        .iter()
                        .map(|series| mean(series, vm, n * parts, (n + 1) * parts))
                        .collect();
                    let e = Estimate::of(&values)?;
                    Some(CurvePoint { x: n as f64 + 0.5, y: e.mean, off: e.half_width })
                })
                .collect();
            // A machine that sends nothing has no curve.
            if points.iter().any(|point| point.y > 0.0) {
                curves.push(FigureCurve { name, points });
            }
        }
    }
    let late = text::nanos(runs.late.0 as f64);
    let notes =
        vec![format!("Packets were handed over at most {late} after their nominal instants.")];
    PaperFigure {
        title,
        x: "s",
        y: "Mbit/s",
        curves,
        notes,
        unmeasured: runs.stalled.clone(),
        ..PaperFigure::default()
    }
}

/// The mean rate of a machine over these windows.
fn mean(series: &RateSeries, vm: usize, from: usize, to: usize) -> f64 {
    let windows = &series[from.min(series.len())..to.min(series.len())];
    windows.iter().map(|w| w[vm]).sum::<f64>() / windows.len().max(1) as f64
}

/// The mean rate of a machine over these windows and over all repetitions.
fn over_all(all: &[RateSeries], vm: usize, from: usize, to: usize) -> f64 {
    all.iter().map(|series| mean(series, vm, from, to)).sum::<f64>() / all.len().max(1) as f64
}

/// Mean half-width of the confidence intervals of VM 1's rate, over windows in which both machines
/// send.
fn spread(all: &[RateSeries], windows: std::ops::Range<usize>) -> f64 {
    let number = windows.len().max(1) as f64;
    let of = |n: usize| {
        Estimate::of(&all.iter().map(|s| s[n][0]).collect::<Vec<_>>()).and_then(|e| e.half_width)
    };
    windows.filter_map(of).sum::<f64>() / number
}

fn caps(lab: &Fixture, caps: [u32; 2], ours: bool) -> Result<PaperFigure> {
    let server =
        if ours { Divider::Mclock(caps.map(Some)) } else { Divider::Netback(caps.map(Some)) };
    let runs = lab.runs(&capped(server))?;
    let with = if ours { "mClock" } else { "Xen's netback" };
    let title = match caps {
        [a, b] if a == b => format!("rate = {a} Mbit/s for both, {with}"),
        [a, b] => format!("rate = {a} and {b} Mbit/s, {with}"),
    };
    let mut figure = figure(title, &runs);
    // The seconds in which both machines send. The first second of each machine is left out,
    // because its source starts in it.
    let (from, to) = (6, 25);
    let of_cap =
        |vm: usize| runs.measured(over_all(&runs.live, vm, from, to) / f64::from(caps[vm]));
    let simulated = |vm, from, to| over_all(&runs.simulated, vm, from, to);
    figure.found = vec![
        ("VM 1's actual rate, over the rate that is set", of_cap(0)),
        ("VM 2's actual rate, over the rate that is set", of_cap(1)),
        (
            "VM 1's rate once VM 2 sends, over that before, simulated",
            simulated(0, from, to) / simulated(0, 1, 5),
        ),
        (
            "VM 1's measured rate, over that simulated",
            runs.measured(over_all(&runs.live, 0, from, to) / simulated(0, from, to)),
        ),
    ];
    if !ours {
        let set = |vm: usize, at: f64| [(at, f64::from(caps[vm]))];
        figure.published = Published::default()
            .and("VM 1's rate parameter, published", Some("VM 1 measured"), set(0, 23.5))
            .and("VM 2's rate parameter, published", Some("VM 2 measured"), set(1, 24.5));
    }
    if caps == [40, 40] && !ours {
        let low = lab.simulated(&capped(Divider::Netback([Some(25); 2])))?;
        let grown = spread(&runs.simulated, from..to) > 1.5 * spread(&low, from..to);
        figure
            .found
            .push(("the intervals grow with the rate, simulated", f64::from(u8::from(grown))));
    }
    Ok(figure)
}

/// The smaller of both machines' shares in each window; windows without traffic are skipped.
fn shares(series: &RateSeries) -> impl Iterator<Item = f64> {
    let sent = series.iter().filter(|w| w[0] + w[1] > 0.0);
    sent.map(|w| w[0].min(w[1]) / (w[0] + w[1]))
}

fn smallest(all: &[RateSeries]) -> f64 {
    // The first second is left out, because sources start in it.
    all.iter().flat_map(|series| shares(series).skip(1)).fold(1.0, f64::min)
}

/// Runs the same senders with netback's round robin, which has a queue for each machine and no
/// queue behind them. Adds the measured curves to the figure, and returns the runs.
fn turns(lab: &Fixture, figure: &mut PaperFigure, sends: Vec<MachineLoad>) -> Result<Runs> {
    let turns = lab.runs(&free(lab, Divider::Netback([None; 2]), sends))?;
    let of_turns = self::figure(String::new(), &turns);
    figure.unmeasured = figure.unmeasured.take().or(of_turns.unmeasured);
    let curves = of_turns.curves;
    for (name, beside) in [
        ("VM 1 measured", "VM 1 measured, netback's turns"),
        ("VM 2 measured", "VM 2 measured, netback's turns"),
    ] {
        let of = curves.iter().filter(|curve| curve.name == name);
        figure
            .curves
            .extend(of.map(|curve| FigureCurve { name: beside, points: curve.points.clone() }));
    }
    Ok(turns)
}

fn unlimited(
    lab: &Fixture,
    what: &str,
    sends: Vec<MachineLoad>,
    ours: bool,
) -> Result<PaperFigure> {
    let runs = lab.runs(&free(lab, if ours { OURS } else { Divider::Fifo }, sends.clone()))?;
    let with =
        if ours { "mClock, 40 Mbit/s guaranteed to each" } else { "one plain queue for all" };
    let mut figure = figure(format!("no caps, {what}, {with}"), &runs);
    let series = |all: &[RateSeries]| all.first().cloned().unwrap_or_default();
    let (live, simulated) = (series(&runs.live), series(&runs.simulated));
    let last = simulated.len();
    let part = |series: &RateSeries, vm| {
        mean(series, vm, 1, last) / (mean(series, 0, 1, last) + mean(series, 1, 1, last))
    };
    figure.notes.push(format!(
        "VM 2's share: {:.3} measured, {:.3} simulated; smallest share of a machine in any second: {:.3} measured, {:.3} simulated.",
        part(&live, 1),
        part(&simulated, 1),
        smallest(&runs.live),
        smallest(&runs.simulated)
    ));
    figure.found = if ours {
        vec![
            (
                "smallest share of a machine in any second, at the link's output",
                runs.measured(smallest(&runs.sent)),
            ),
            ("smallest share of a machine in any second, simulated", smallest(&runs.simulated)),
        ]
    } else {
        let turns = turns(lab, &mut figure, sends)?;
        vec![
            ("VM 2's share, simulated", part(&simulated, 1)),
            (
                "smallest share of a machine in any second, at the link's output",
                runs.measured(smallest(&runs.sent)),
            ),
            ("smallest share of a machine in any second, simulated", smallest(&runs.simulated)),
            (
                "smallest share of a machine in any second with netback's turns by adapter, at the link's output",
                turns.measured(smallest(&turns.sent)),
            ),
            (
                "smallest share of a machine in any second with netback's turns by adapter, simulated",
                smallest(&turns.simulated),
            ),
        ]
    };
    Ok(figure)
}

fn active(lab: &Fixture, times: u32, ours: bool) -> Result<PaperFigure> {
    let all: Vec<MachineLoad> =
        std::iter::once(sends(0, 80)).chain((0..times).map(|_| sends(1, 80))).collect();
    let runs = lab.runs(&free(lab, if ours { OURS } else { Divider::Fifo }, all.clone()))?;
    let with =
        if ours { "mClock, 40 Mbit/s guaranteed to each" } else { "one plain queue for all" };
    let mut figure = figure(format!("VM 2 is {times} times as active, {with}"), &runs);
    let seconds = runs.simulated.first().map_or(0, Vec::len);
    let ratio = |all: &[RateSeries]| over_all(all, 1, 1, seconds) / over_all(all, 0, 1, seconds);
    figure.found = if ours {
        vec![
            ("VM 2's rate over VM 1's, at the link's output", runs.measured(ratio(&runs.sent))),
            ("the same, simulated", ratio(&runs.simulated)),
        ]
    } else {
        let turns = turns(lab, &mut figure, all)?;
        figure.notes.push(format!("VM 2's rate over VM 1's, measured: {:.2}.", ratio(&runs.live)));
        vec![
            ("VM 2's rate over VM 1's, simulated", ratio(&runs.simulated)),
            ("the same with netback's turns by adapter", ratio(&turns.simulated)),
            (
                "the same with netback's turns by adapter, at the link's output",
                turns.measured(ratio(&turns.sent)),
            ),
        ]
    };
    Ok(figure)
}

fn disk(lab: &Fixture, ours: bool) -> Result<PaperFigure> {
    let (seconds, from, to) = if lab.effort.long { (45, 10, 30) } else { (20, 7, 14) };
    let server = if ours { OURS } else { Divider::Netback([None; 2]) };
    let bed = Testbed { server, changes: Vec::new(), sends: vec![sends(0, 150)], seconds };
    let runs = lab.runs(&Experiment { disk: Some((from, to)), ..Experiment::of(bed).once() })?;
    let with = if ours { "mClock" } else { "Xen's netback" };
    let mut figure =
        figure(format!("the disk is written to from {from} s to {to} s, {with}"), &runs);
    if let Some(Done { written, spent, group }) = &runs.disk {
        figure.notes.push(format!(
            "{} MB were written meanwhile, and forced onto the disk, by a process {group}. It had {} of a processor.",
            written / 1_000_000,
            text::nanos(spent.as_nanos() as f64)
        ));
    }
    let [from, to] = [from, to].map(|second| second as usize);
    let during = over_all(&runs.live, 0, from, to);
    figure.found = vec![
        (
            "VM 1's rate while the disk is written to, over that before",
            runs.measured(during / over_all(&runs.live, 0, 1, from)),
        ),
        (
            "VM 1's rate while the disk is written to, over what the link carries",
            runs.measured(during / most()),
        ),
    ];
    Ok(figure)
}

/// The priorities in each second, from 30:1 to 1:30.
fn steps() -> impl Iterator<Item = [u32; 2]> {
    (1..=30).rev().map(|first| [first, 31 - first])
}

fn priorities(lab: &Fixture, ours: bool) -> Result<PaperFigure> {
    let with = |weights| if ours { Divider::Wf2q(weights) } else { Divider::XenWrr(weights) };
    let all: Vec<[u32; 2]> = steps().collect();
    let bed = Testbed {
        server: with(all[0]),
        changes: (0..).zip(all.iter().copied()).skip(1).collect(),
        sends: vec![sends(0, 150), sends(1, 150)],
        seconds: 30,
    };
    let runs = lab.runs(&Experiment { fine: true, ..Experiment::of(bed).once() })?;
    let name = if ours { "WF2Q+" } else { "the paper's weighted round robin" };
    let mut figure =
        figure(format!("priorities change every second from 30:1 to 1:30, {name}"), &runs);
    let due = |second: usize| f64::from(all[second][0]) / 31.0;
    if !ours {
        // The weights divide the payload that the link carries.
        let by_weight = |vm: usize| {
            let of = move |(n, weights): (usize, &[u32; 2])| {
                (n as f64 + 0.5, most() * f64::from(weights[vm]) / 31.0)
            };
            all.iter().enumerate().map(of).collect::<Vec<_>>()
        };
        figure.published = Published::default()
            .and("VM 1's weight, published", Some("VM 1 measured"), by_weight(0))
            .and("VM 2's weight, published", Some("VM 2 measured"), by_weight(1));
    }
    // Maximum distance of VM 1's share from its weight, in % of the link: over whole seconds, and
    // immediately after changes.
    let [live, simulated] = runs.parts;
    let farthest =
        |series: &[RateSeries], parts: usize, looked: usize| farthest(series, parts, looked, &due);
    figure.notes.push(format!(
        "Measured at the receiver, a second's share is at most {:.2} % of the link from its weight.",
        farthest(&runs.live, live, live)
    ));
    figure.found = vec![
        (
            "largest distance of a second's share from its weight, at the link's output",
            runs.measured(farthest(&runs.sent, live, live)),
        ),
        (
            "the same in the first 100 ms after a change",
            runs.measured(farthest(&runs.sent, live, 1)),
        ),
        (
            "largest distance of a second's share from its weight, simulated",
            farthest(&runs.simulated, simulated, simulated),
        ),
        (
            "the same in the first 100 ms after a change, simulated",
            farthest(&runs.simulated, simulated, 1),
        ),
    ];
    Ok(figure)
}

/// Maximum distance of VM 1's share from the due share in % of the link, over the first `looked`
/// of the `parts` windows of each second. The first second is left out, because sources start in
/// it.
fn farthest(all: &[RateSeries], parts: usize, looked: usize, due: &dyn Fn(usize) -> f64) -> f64 {
    let of = |series: &RateSeries| {
        let seconds = series.chunks(parts).enumerate().skip(1);
        let off = |(n, windows): (usize, &[[f64; 2]])| {
            let sum = |vm: usize| windows.iter().take(looked).map(|w| w[vm]).sum::<f64>();
            (sum(0) / (sum(0) + sum(1)) - due(n)).abs() * 100.0
        };
        seconds.map(off).fold(0.0, f64::max)
    };
    all.iter().map(of).fold(0.0, f64::max)
}
