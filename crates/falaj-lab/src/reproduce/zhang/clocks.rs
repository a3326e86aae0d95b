//! Figures 4.4 and 4.5: delays by the clocks of two workstations. They were measured before the
//! thesis used one pulse for both clocks.
//!
//! Five runs follow each other. In each run the rate of the best-effort (BE) flows grows, with
//! 100 s at each rate. The clock of each sender has a rate of its own, so a measured value is the
//! delay plus an offset that grows or shrinks with time. A shrinking offset is zero at the end of
//! the last run.

use super::super::curves::{CurvePoint, FigureCurve, PaperFigure};
use super::figures::{BE_RATE, DELAY, Lab, USED, at_load, be, holds, lc};
use super::testbed::{SEEDS, TestbedResult, TestbedServer};
use anyhow::Result;
use falaj_traffic::interval::Estimate;

/// Packets per second of each BE flow, in the order of a run: 25 minutes.
const LOADS: [u32; 15] = [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21];
/// Seconds at each rate.
const STEP: f64 = 100.0;
/// Growth of the offset between the first and the last run at the same rate, in milliseconds: for
/// the clock of the sender of the latency-critical flow (LC), and for the clock of a BE flow's
/// sender.
pub(super) const GROWTH: [f64; 2] = [130.0, -160.0];

/// The mean delay at each rate, and the values that two clocks measure in the first and in the last
/// run.
fn by_two_clocks(
    lab: &Lab,
    names: [&'static str; 3],
    growth: f64,
    read: impl Fn(&TestbedResult) -> Option<Estimate>,
) -> Result<Vec<FigureCurve>> {
    let beds = LOADS.into_iter().map(|load| (load, at_load(TestbedServer::Modified, USED, load)));
    let true_delay = lab.curve(names[0], beds, read)?;
    let run_length = LOADS.len() as f64 * STEP;
    let slope = growth / ((SEEDS - 1) as f64 * run_length);
    let at_first = (-slope * SEEDS as f64 * run_length).max(0.0);
    let run = |name, number: u64| {
        let began = number as f64 * run_length;
        let points = true_delay.points.iter().enumerate().map(|(n, point)| {
            let offset = at_first + slope * (began + n as f64 * STEP);
            CurvePoint { y: point.y + offset, ..*point }
        });
        FigureCurve { name, points: points.collect() }
    };
    let runs = [run(names[1], 0), run(names[2], SEEDS - 1)];
    Ok([true_delay].into_iter().chain(runs).collect())
}

fn figure(title: &str, curves: Vec<FigureCurve>) -> PaperFigure {
    PaperFigure {
        title: title.into(),
        x: BE_RATE,
        y: DELAY,
        curves,
        notes: vec![
            "Under DRR++ at 250 kbit/s; delays are means of five seeds, with the offset of a clock \
             that runs fast or slow by a constant rate. The thesis' clocks also jumped."
                .into(),
        ],
        ..PaperFigure::default()
    }
}

/// Figure 4.4.
pub(super) fn of_lc(lab: &Lab) -> Result<PaperFigure> {
    let names = ["LC by one clock", "LC, first run", "LC, fifth run"];
    let curves = by_two_clocks(lab, names, GROWTH[0], lc)?;
    let grown = curves[2].points[0].y - curves[1].points[0].y;
    let mut figure = figure("LC's delay by the clocks of sender and receiver", curves);
    figure.found = vec![("growth from the first run to the fifth, at one rate", grown)];
    Ok(figure)
}

/// Figure 4.5.
pub(super) fn of_be(lab: &Lab) -> Result<PaperFigure> {
    let names = ["BE 1 by one clock", "BE 1, first run", "BE 1, fifth run"];
    let curves = by_two_clocks(lab, names, GROWTH[1], be(1))?;
    let grown = curves[2].points[0].y - curves[1].points[0].y;
    let at = |load: f64| curves[1].points.iter().find(|p| p.x == load).map_or(f64::NAN, |p| p.y);
    let found = vec![
        ("growth from the first run to the fifth, at one rate", grown),
        ("the delay falls from 10 to 20 packets/s", holds(at(20.0) < at(10.0))),
        ("the delay grows beyond 20 packets/s", holds(at(21.0) > at(20.0))),
    ];
    let mut figure = figure("a BE flow's delay by the clocks of sender and receiver", curves);
    figure.found = found;
    Ok(figure)
}
