//! A figure as SVG.

use super::{Axes, FigureCurve, PaperFigure};
use anyhow::{Context, Result};
use falaj_pictures::chart::{Axis, Chart, ChartLine, STROKE, Scale, Sheet, svg as drawn};
use falaj_pictures::palette::SEVERAL;

/// Width and height of a figure with one panel.
const SIZE: (u32, u32) = (760, 440);
/// Width and height of a panel, if there are several.
const PANEL: (u32, u32) = (760, 280);
/// Width of a bar.
const BAR: u32 = 18;
/// Distance between two bars of one number, as a fraction of the distance between whole numbers.
const BESIDE: f64 = 0.16;

pub(super) fn svg(figure: &PaperFigure) -> Result<String> {
    drawn(&sheet(figure)).with_context(|| figure.label.clone())
}

/// The panels of a figure: one for each unit of its curves.
fn sheet(figure: &PaperFigure) -> Sheet {
    let mut units: Vec<&str> = Vec::new();
    for curve in &figure.curves {
        let unit = split_unit(curve.name).map_or(figure.y, |(_, unit)| unit);
        if !units.contains(&unit) {
            units.push(unit);
        }
    }
    let own = |unit: &str, curve: &FigureCurve| {
        split_unit(curve.name).map_or(figure.y, |(_, unit)| unit) == unit
    };
    let charts: Vec<Chart> = match units.as_slice() {
        [] | [_] => vec![chart(figure, figure.y, &figure.curves.iter().collect::<Vec<_>>())],
        several => several
            .iter()
            .map(|unit| {
                let curves: Vec<_> = figure.curves.iter().filter(|c| own(unit, c)).collect();
                chart(figure, unit, &curves)
            })
            .collect(),
    };
    let panel = if charts.len() == 1 { SIZE } else { PANEL };
    Sheet { panel, columns: 1, charts }
}

/// The name of a curve and its unit, from `mean delay (us)`.
fn split_unit(name: &str) -> Option<(&str, &str)> {
    let (name, unit) = name.strip_suffix(')')?.rsplit_once(" (")?;
    Some((name, unit))
}

/// The curves of one unit.
fn chart(figure: &PaperFigure, unit: &str, curves: &[&FigureCurve]) -> Chart {
    let points = || curves.iter().flat_map(|c| &c.points);
    let x_points = || figure.curves.iter().flat_map(|c| &c.points);
    let most = points().map(|p| p.y + p.off.unwrap_or(0.0)).fold(0.0, f64::max);
    // A logarithmic axis has no values at or below zero.
    let least =
        points().map(|p| p.y).filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min).min(most.max(1.0));
    let y = match figure.axes {
        Axes::Plain if differ_in_magnitude(curves) => {
            Axis::whole(unit, Scale::Decades, least, most.max(least))
        }
        Axes::Plain | Axes::Each => Axis::linear(unit, 0.0, 1.08 * most),
        Axes::Decades | Axes::DecadesOfKinds => {
            Axis::whole(unit, Scale::Decades, least, most.max(least))
        }
        Axes::Doublings => Axis::whole(unit, Scale::Doublings, least, most.max(least)),
    };
    let floor = y.from;
    let (left, right) =
        x_points().fold((f64::INFINITY, 0.0f64), |(low, high), p| (low.min(p.x), high.max(p.x)));
    let each = figure.axes == Axes::Each;
    let line = |(n, curve): (usize, &&FigureCurve)| {
        let name = split_unit(curve.name).map_or(curve.name, |(name, _)| name);
        // Each bar is a vertical line, beside those of the other curves; a NaN ends it.
        let aside = BESIDE * (n as f64 - (curves.len() as f64 - 1.0) / 2.0);
        let bars = |p: &super::CurvePoint| {
            [(p.x + aside, floor), (p.x + aside, p.y), (p.x + aside, f64::NAN)]
        };
        if each {
            return ChartLine::new(name, n, curve.points.iter().flat_map(bars).collect());
        }
        let at = |y: f64| y.max(floor);
        let bar = |p: &super::CurvePoint| p.off.map(|off| (p.x, at(p.y - off), at(p.y + off)));
        ChartLine {
            bars: curve.points.iter().filter_map(bar).collect(),
            ..ChartLine::new(name, n, curve.points.iter().map(|p| (p.x, at(p.y))).collect())
        }
    };
    Chart {
        title: String::new(),
        x: match figure.axes {
            Axes::Doublings => {
                Axis::whole(figure.x, Scale::Doublings, left.max(1.0), right.max(1.0))
            }
            Axes::Plain | Axes::Decades => Axis::linear(figure.x, left, right),
            Axes::Each | Axes::DecadesOfKinds => Axis::each(figure.x, left, right),
        },
        y,
        lines: curves.iter().enumerate().map(line).collect(),
        places: Vec::new(),
        // With more curves than colors, colors repeat, and marks distinguish the curves.
        marks: curves.len() > SEVERAL.len() || figure.axes == Axes::DecadesOfKinds,
        stroke: if each { BAR } else { STROKE },
    }
}

/// Returns true if the largest values of two curves, both above zero everywhere, differ by more
/// than a factor of twenty: on a linear axis the smaller one would be a flat line.
fn differ_in_magnitude(curves: &[&FigureCurve]) -> bool {
    let largest = |curve: &&FigureCurve| curve.points.iter().map(|p| p.y).fold(0.0, f64::max);
    let positive = curves.iter().flat_map(|c| &c.points).all(|p| p.y > 0.0);
    let most = curves.iter().map(largest).fold(0.0, f64::max);
    let least = curves.iter().map(largest).fold(f64::INFINITY, f64::min);
    positive && curves.len() > 1 && most > 20.0 * least
}

#[cfg(test)]
mod tests {
    use super::super::CurvePoint;
    use super::*;

    /// With `Axes::Each` every value has a bar, above a whole number of the x axis.
    #[test]
    fn bars_stand_at_whole_numbers() {
        let curve = |name, of: fn(f64) -> f64| {
            let point = |x| CurvePoint { x, y: of(x), off: None };
            FigureCurve { name, points: [0.0, 1.0, 2.0, 3.0].map(point).into() }
        };
        let figure = PaperFigure {
            label: "Figure 1".into(),
            title: String::new(),
            x: "flow",
            y: "ms",
            axes: Axes::Each,
            curves: vec![curve("measured", |x| 7.0 + x), curve("simulated", |x| 8.0 - x)],
            notes: Vec::new(),
            found: Vec::new(),
        };
        let svg = svg(&figure).unwrap();
        let bars = svg.matches(&format!("stroke-width=\"{BAR}\"")).count();
        // Eight bars, and two of the legend.
        assert_eq!(bars, 10, "{svg}");
        let words = words(&svg);
        for place in ["0", "1", "2", "3"] {
            assert!(words.contains(&place), "{words:?}");
        }
        assert!(!words.iter().any(|word| word.contains(".5")), "{words:?}");
    }

    /// Curves of different units have an axis each; a logarithmic axis keeps small values visible.
    #[test]
    fn each_unit_has_a_panel() {
        let curve = |name, y: f64| {
            let point = |x: u32| CurvePoint { x: x.into(), y: y * f64::from(x + 1), off: None };
            FigureCurve { name, points: (0..4).map(point).collect() }
        };
        let figure = PaperFigure {
            label: "Figure 5".into(),
            title: String::new(),
            x: "customers",
            y: "Mbit/s, ms",
            axes: Axes::Plain,
            curves: vec![curve("slowest (Mbit/s)", 2.0), curve("a call (ms)", 1e-3)],
            notes: Vec::new(),
            found: Vec::new(),
        };
        assert_eq!(sheet(&figure).charts.len(), 2);
        let text = svg(&figure).unwrap();
        let words = words(&text);
        for word in ["slowest", "a call", "Mbit/s", "ms"] {
            assert!(words.contains(&word), "{word}: {words:?}");
        }
        assert!(!words.contains(&"Mbit/s, ms"), "{words:?}");
        let tall = curve("tall (ms)", 1.0);
        let flat = curve("flat (ms)", 1e-3);
        assert!(differ_in_magnitude(&[&tall, &flat]) && !differ_in_magnitude(&[&tall, &tall]));
    }

    /// The words of a picture.
    fn words(svg: &str) -> Vec<&str> {
        svg.split("<text")
            .skip(1)
            .filter_map(|text| text.split(['>', '<']).nth(1))
            .map(str::trim)
            .collect()
    }

    /// With `Axes::DecadesOfKinds` the x axis has each whole number once, and each point a mark.
    #[test]
    fn points_of_kinds_are_numbered_and_marked() {
        let curve = |name| {
            let point = |n: u32| CurvePoint { x: n.into(), y: f64::from(n) * 300.0, off: None };
            FigureCurve { name, points: (1..=9).map(point).collect() }
        };
        let figure = PaperFigure {
            label: "Figure 9".into(),
            title: String::new(),
            x: "mix",
            y: "bytes",
            axes: Axes::DecadesOfKinds,
            curves: vec![curve("one"), curve("other")],
            notes: Vec::new(),
            found: Vec::new(),
        };
        let svg = svg(&figure).unwrap();
        let words = words(&svg);
        for n in 1..=9 {
            assert_eq!(
                words.iter().filter(|word| **word == n.to_string()).count(),
                1,
                "{n}: {words:?}"
            );
        }
        assert!(!words.iter().any(|word| word.contains('.')), "{words:?}");
        // Nine points and a mark in the legend, for each of two curves.
        assert_eq!(svg.matches("<circle").count(), 20);
    }
}
