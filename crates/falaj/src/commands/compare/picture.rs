//! The delays of several scenarios in one picture: a panel for each flow, a line for each scenario.

use super::pairs::PairedFlow;
use anyhow::{Result, bail};
use falaj_pictures::chart::{Axis, Chart, ChartLine, STROKE, Scale, Sheet, svg};
use falaj_pictures::save_one;
use falaj_pictures::units::{TIME, unit};
use falaj_sim::Gathered;
use falaj_terminal::place::{is_one_picture, try_file};
use std::path::Path;

/// Maximum number of panels; further flows are left out.
const MOST: usize = 8;

/// Checks, before the simulation, that the picture can be written.
pub(super) fn try_place(path: &Path) -> Result<()> {
    if !is_one_picture("--svg", path)? {
        bail!("--svg {}: it is one picture; name it `*.svg`, `*.png` or `*.pdf`", path.display());
    }
    try_file(path)
}

/// Draws the picture into the file.
pub(super) fn write(path: &Path, names: &[String], flows: &[PairedFlow<'_>]) -> Result<()> {
    if flows.is_empty() {
        bail!("--svg: no flow has packets in all scenarios, so there is nothing to draw");
    }
    let charts: Vec<Chart> = flows.iter().take(MOST).map(|flow| chart(names, flow)).collect();
    let columns = if charts.len() > 1 { 2 } else { 1 };
    save_one(path, &svg(&Sheet { panel: (760, 430), columns, charts })?)?;
    let left_out = match flows.len().saturating_sub(MOST) {
        0 => String::new(),
        n => format!("; {n} more flows are left out"),
    };
    note!("wrote {}{left_out}", path.display());
    Ok(())
}

/// Returns a flow's panel: the share of its packets delayed longer than each delay, for each
/// scenario.
fn chart(names: &[String], flow: &PairedFlow<'_>) -> Chart {
    let all: Vec<&Gathered> = std::iter::once(flow.first).chain(flow.others.clone()).collect();
    let longest = all.iter().filter_map(|of| of.delay.max()).max().unwrap_or_default();
    let (one, unit) = unit(longest.0 as f64, &TIME);
    let mut least: f64 = 0.1;
    let lines = names.iter().zip(&all).enumerate().map(|(number, (name, of))| {
        let packets = of.delay.count();
        let (mut sum, mut longer) = (0, 1.0);
        let mut points = vec![(0.0, longer)];
        for (delay, times) in of.delay.counts() {
            sum += times;
            // The line ends at the maximum delay: no packet is delayed longer, and a logarithmic
            // axis has no zero.
            if sum < packets {
                longer = 1.0 - sum as f64 / packets as f64;
            }
            points.push((delay.0 as f64 / one, longer));
        }
        least = least.min(longer);
        ChartLine::steps(name.as_str(), number, &points)
    });
    let lines: Vec<ChartLine> = lines.collect();
    Chart {
        title: flow.name.clone(),
        x: Axis::linear(format!("Delay ({unit})"), 0.0, longest.0 as f64 / one * 1.04),
        y: Axis::whole(
            "Share of packets with a longer delay",
            Scale::Decades,
            least.max(1e-9),
            1.0,
        ),
        lines,
        places: Vec::new(),
        marks: false,
        direct: false,
        stroke: STROKE,
    }
}
