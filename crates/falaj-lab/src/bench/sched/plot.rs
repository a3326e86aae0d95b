//! The plot of Rizzo's talk on QFQ: nanoseconds per enqueue and dequeue over the number of flows, a
//! panel for each swing (limits of draining and filling), both axes logarithmic with base 2.

use super::{DisciplineFigures, LoadCase};
use anyhow::{Result, ensure};
use falaj_pictures::chart::{Axis, Chart, ChartLine, STROKE, Scale, Sheet, svg as drawn};

/// The swings, each of which has a panel.
///
/// # Errors
/// There is no case of equal flows, so the axis of flows would be empty.
pub(super) fn swings(cases: &[LoadCase]) -> Result<Vec<String>> {
    let mut swings: Vec<String> = Vec::new();
    for case in cases.iter().filter(|case| case.equal_flows().is_some()) {
        if !swings.contains(&case.swing()) {
            swings.push(case.swing());
        }
    }
    ensure!(
        !swings.is_empty(),
        "the plot shows times over the number of equal flows: give `--flows`, or a load of equal flows"
    );
    Ok(swings)
}

pub(super) fn svg(cases: &[LoadCase], rows: &[DisciplineFigures]) -> Result<String> {
    let swings = swings(cases)?;
    let charts = swings.iter().map(|swing| chart(swing, cases, rows)).collect();
    drawn(&Sheet { panel: (560, 400), columns: swings.len(), charts })
}

/// Number of flows and median of each case of this swing that has a figure.
fn curve(row: &DisciplineFigures, swing: &str, cases: &[LoadCase]) -> Vec<(f64, f64)> {
    let point =
        |(i, case): (usize, &LoadCase)| Some((f64::from(case.equal_flows()?), row.median(i)?));
    let mut points: Vec<_> = cases
        .iter()
        .enumerate()
        .filter(|(_, case)| case.swing() == swing)
        .filter_map(point)
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn chart(swing: &str, cases: &[LoadCase], rows: &[DisciplineFigures]) -> Chart {
    let lines: Vec<ChartLine> = rows
        .iter()
        .enumerate()
        .map(|(n, row)| ChartLine::new(row.name.as_str(), n, curve(row, swing, cases)))
        .collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = points().map(|p| p.0).fold(2.0, f64::max);
    let low = points().map(|p| p.1).fold(f64::INFINITY, f64::min).clamp(0.125, 1e12);
    let high = points().map(|p| p.1).fold(0.25, f64::max);
    Chart {
        title: format!("{swing} packets queued"),
        x: Axis::whole("Flows", Scale::Doublings, 1.0, most),
        y: Axis::whole("ns for each packet", Scale::Doublings, low, high.max(low)),
        lines,
        places: Vec::new(),
        marks: true,
        direct: false,
        stroke: STROKE,
    }
}
