//! A figure as SVG.

use super::{Axes, Curve, Figure};
use crate::pictures::chart::{Axis, Chart, Line, Scale, Sheet, svg as drawn};
use crate::pictures::palette::SEVERAL;
use anyhow::{Context, Result};

const SIZE: (u32, u32) = (760, 440);

pub(super) fn svg(figure: &Figure) -> Result<String> {
    drawn(&sheet(figure)).with_context(|| figure.label.clone())
}

fn sheet(figure: &Figure) -> Sheet {
    let points = || figure.curves.iter().flat_map(|c| &c.points);
    let most = points().map(|p| p.y + p.off.unwrap_or(0.0)).fold(0.0, f64::max);
    // Over a logarithmic axis nothing is at or below zero.
    let least = points().map(|p| p.y).filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min).min(most.max(1.0));
    let y = match figure.axes {
        Axes::Plain => Axis::linear(figure.y, 0.0, 1.08 * most),
        Axes::Decades => Axis::whole(figure.y, Scale::Decades, least, most.max(least)),
        Axes::Doublings => Axis::whole(figure.y, Scale::Doublings, least, most.max(least)),
    };
    let floor = y.from;
    let (left, right) = points().fold((f64::INFINITY, 0.0f64), |(low, high), p| (low.min(p.x), high.max(p.x)));
    let line = |(n, curve): (usize, &Curve)| {
        let at = |y: f64| y.max(floor);
        let bar = |p: &super::Point| p.off.map(|off| (p.x, at(p.y - off), at(p.y + off)));
        Line {
            bars: curve.points.iter().filter_map(bar).collect(),
            ..Line::new(curve.name, n, curve.points.iter().map(|p| (p.x, at(p.y))).collect())
        }
    };
    let chart = Chart {
        title: String::new(),
        x: match figure.axes {
            Axes::Doublings => Axis::whole(figure.x, Scale::Doublings, left.max(1.0), right.max(1.0)),
            Axes::Plain | Axes::Decades => Axis::linear(figure.x, left, right),
        },
        y,
        lines: figure.curves.iter().enumerate().map(line).collect(),
        places: Vec::new(),
        // Beyond so many a colour comes again, with another mark.
        marks: figure.curves.len() > SEVERAL.len(),
    };
    Sheet { panel: SIZE, columns: 1, charts: vec![chart] }
}
