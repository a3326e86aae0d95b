//! A figure as SVG.

use super::{Axes, FigureCurve, PaperFigure};
use anyhow::{Context, Result};
use falaj_pictures::chart::{Axis, Chart, ChartLine, STROKE, Scale, Sheet, svg as drawn};
use falaj_pictures::palette::SEVERAL;

const SIZE: (u32, u32) = (760, 440);
/// Width of a bar, and the distance to the next bar beside it, as a fraction of the distance
/// between whole numbers.
const BAR: u32 = 18;
const BESIDE: f64 = 0.16;

pub(super) fn svg(figure: &PaperFigure) -> Result<String> {
    drawn(&sheet(figure)).with_context(|| figure.label.clone())
}

fn sheet(figure: &PaperFigure) -> Sheet {
    let points = || figure.curves.iter().flat_map(|c| &c.points);
    let most = points().map(|p| p.y + p.off.unwrap_or(0.0)).fold(0.0, f64::max);
    // A logarithmic axis has no values at or below zero.
    let least =
        points().map(|p| p.y).filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min).min(most.max(1.0));
    let y = match figure.axes {
        Axes::Plain | Axes::Each => Axis::linear(figure.y, 0.0, 1.08 * most),
        Axes::Decades | Axes::DecadesOfKinds => {
            Axis::whole(figure.y, Scale::Decades, least, most.max(least))
        }
        Axes::Doublings => Axis::whole(figure.y, Scale::Doublings, least, most.max(least)),
    };
    let floor = y.from;
    let (left, right) =
        points().fold((f64::INFINITY, 0.0f64), |(low, high), p| (low.min(p.x), high.max(p.x)));
    let each = figure.axes == Axes::Each;
    let line = |(n, curve): (usize, &FigureCurve)| {
        // Bars are side by side; a NaN separates one from the next.
        let aside = BESIDE * (n as f64 - (figure.curves.len() as f64 - 1.0) / 2.0);
        let bars = |p: &super::CurvePoint| {
            [(p.x + aside, floor), (p.x + aside, p.y), (p.x + aside, f64::NAN)]
        };
        if each {
            return ChartLine::new(curve.name, n, curve.points.iter().flat_map(bars).collect());
        }
        let at = |y: f64| y.max(floor);
        let bar = |p: &super::CurvePoint| p.off.map(|off| (p.x, at(p.y - off), at(p.y + off)));
        ChartLine {
            bars: curve.points.iter().filter_map(bar).collect(),
            ..ChartLine::new(curve.name, n, curve.points.iter().map(|p| (p.x, at(p.y))).collect())
        }
    };
    let chart = Chart {
        title: String::new(),
        x: match figure.axes {
            Axes::Doublings => {
                Axis::whole(figure.x, Scale::Doublings, left.max(1.0), right.max(1.0))
            }
            Axes::Plain | Axes::Decades => Axis::linear(figure.x, left, right),
            Axes::Each | Axes::DecadesOfKinds => Axis::each(figure.x, left, right),
        },
        y,
        lines: figure.curves.iter().enumerate().map(line).collect(),
        places: Vec::new(),
        // With more curves than colours, colours repeat with another mark.
        marks: figure.curves.len() > SEVERAL.len() || figure.axes == Axes::DecadesOfKinds,
        stroke: if each { BAR } else { STROKE },
    };
    Sheet { panel: SIZE, columns: 1, charts: vec![chart] }
}

#[cfg(test)]
mod tests {
    use super::super::CurvePoint;
    use super::*;

    /// A figure with one value per number has a bar for each curve, and whole numbers on its axis.
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

    /// The texts in a picture.
    fn words(svg: &str) -> Vec<&str> {
        svg.split("<text")
            .skip(1)
            .filter_map(|text| text.split(['>', '<']).nth(1))
            .map(str::trim)
            .collect()
    }

    /// Kinds have whole numbers, each of them once, and a mark in each curve.
    #[test]
    fn kinds_are_numbered() {
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
        // Including those of the legend.
        assert_eq!(svg.matches("<circle").count(), 20);
    }
}
