//! A figure as SVG.

use super::{Axes, FigureCurve, PaperFigure, PublishedCurve};
use anyhow::{Context, Result};
use falaj_pictures::chart::{Axis, Chart, ChartLine, STROKE, Scale, Sheet, svg as drawn};
use falaj_pictures::palette::SEVERAL;

/// Width and height of a figure with one panel, in units of the SVG.
const SIZE: (u32, u32) = (760, 440);
/// Width and height of each panel, if a figure has several.
const PANEL: (u32, u32) = (760, 280);
/// Width of a bar, in units of the SVG.
const BAR: u32 = 18;
/// Distance between two bars at one whole number of the x axis, as a fraction of the distance
/// between whole numbers.
const BESIDE: f64 = 0.16;

pub(super) fn svg(figure: &PaperFigure) -> Result<String> {
    drawn(&sheet(figure)).with_context(|| figure.label.clone())
}

/// The panels of a figure: one for each unit of its curves.
fn sheet(figure: &PaperFigure) -> Sheet {
    let unit = |curve: &FigureCurve| split_unit(curve.name).map_or(figure.y, |(_, unit)| unit);
    let mut units: Vec<&str> = Vec::new();
    for curve in &figure.curves {
        if !units.contains(&unit(curve)) {
            units.push(unit(curve));
        }
    }
    if units.is_empty() {
        units.push(figure.y);
    }
    let charts: Vec<Chart> = units
        .iter()
        .map(|&own| chart(figure, own, own == units[0], &|curve| unit(curve) == own))
        .collect();
    let panel = if charts.len() == 1 { SIZE } else { PANEL };
    Sheet { panel, columns: 1, charts }
}

/// Splits the name of a curve, such as `mean delay (us)`, into name and unit.
fn split_unit(name: &str) -> Option<(&str, &str)> {
    let (name, unit) = name.strip_suffix(')')?.rsplit_once(" (")?;
    Some((name, unit))
}

fn without_unit(name: &str) -> &str {
    split_unit(name).map_or(name, |(name, _)| name)
}

/// The number of each curve, which determines its color and stroke. A curve keeps its number in all
/// panels, and curves that differ only in their unit have the same number.
fn numbers(figure: &PaperFigure) -> Vec<usize> {
    let mut names: Vec<&str> = Vec::new();
    let number = |curve: &FigureCurve| {
        let name = without_unit(curve.name);
        let known = names.iter().position(|known| *known == name);
        known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        })
    };
    figure.curves.iter().map(number).collect()
}

/// Makes the panel of one unit. The first panel also has the published values that belong to no
/// curve of falaj, and the published places of the x axis.
fn chart(
    figure: &PaperFigure,
    unit: &str,
    first: bool,
    own: &dyn Fn(&FigureCurve) -> bool,
) -> Chart {
    let numbers = numbers(figure);
    let curves: Vec<(usize, &FigureCurve)> =
        numbers.iter().copied().zip(&figure.curves).filter(|(_, curve)| own(curve)).collect();
    let of_curves = numbers.iter().max().map_or(0, |most| most + 1);
    let mut others = of_curves..;
    let published: Vec<(usize, &PublishedCurve)> = figure
        .published
        .curves
        .iter()
        .filter_map(|published| {
            let ours = |curve: &FigureCurve| Some(curve.name) == published.beside;
            match figure.curves.iter().position(ours) {
                Some(n) => own(&figure.curves[n]).then_some((numbers[n], published)),
                None => others.next().filter(|_| first).map(|n| (n, published)),
            }
        })
        .collect();
    let of_ours = curves.iter().flat_map(|(_, curve)| &curve.points);
    let of_paper = published.iter().flat_map(|(_, published)| &published.points);
    let values: Vec<f64> = of_ours.clone().map(|p| p.y).chain(of_paper.map(|p| p.1)).collect();
    let ends = of_ours.map(|p| p.y + p.off.unwrap_or(0.0));
    let most = ends.chain(values.iter().copied()).fold(0.0, f64::max);
    // A logarithmic axis has no values at or below zero.
    let least = values.into_iter().filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min);
    let least = least.min(most.max(1.0));
    let y = match figure.axes {
        Axes::Plain if differ_in_magnitude(&curves) => {
            Axis::whole(unit, Scale::Decades, least, most.max(least))
        }
        Axes::Plain | Axes::Each => Axis::linear(unit, 0.0, 1.08 * most),
        Axes::Decades | Axes::DecadesOfKinds => {
            Axis::whole(unit, Scale::Decades, least, most.max(least))
        }
        Axes::Doublings => Axis::whole(unit, Scale::Doublings, least, most.max(least)),
    };
    let floor = y.from;
    let each = figure.axes == Axes::Each;
    // Bars of several curves stand side by side.
    let aside = |n: usize| {
        let place = curves.iter().position(|(number, _)| *number == n).unwrap_or(0);
        if each { BESIDE * (place as f64 - (curves.len() as f64 - 1.0) / 2.0) } else { 0.0 }
    };
    let line = |&(n, curve): &(usize, &FigureCurve)| {
        let name = without_unit(curve.name);
        // Each bar is a vertical line; a NaN ends the line.
        let bars = |p: &super::CurvePoint| {
            let x = p.x + aside(n);
            [(x, floor), (x, p.y), (x, f64::NAN)]
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
    let diamonds = |&(n, published): &(usize, &PublishedCurve)| {
        let points = published.points.iter().map(|&(x, y)| (x + aside(n), y.max(floor)));
        ChartLine::published(without_unit(published.name), n, points.collect())
    };
    let places = figure.published.places.iter().filter(|_| first);
    Chart {
        title: String::new(),
        x: across(figure),
        y,
        lines: curves.iter().map(line).chain(published.iter().map(diamonds)).collect(),
        places: places.map(|&(x, words)| (x, words.to_owned())).collect(),
        // With more curves than colors, colors repeat, and marks distinguish the curves.
        marks: of_curves > SEVERAL.len() || figure.axes == Axes::DecadesOfKinds,
        direct: figure.axes == Axes::DecadesOfKinds,
        stroke: if each { BAR } else { STROKE },
    }
}

/// The horizontal axis, around all points and published places of a figure.
fn across(figure: &PaperFigure) -> Axis {
    let mut all: Vec<f64> = figure.curves.iter().flat_map(|c| &c.points).map(|p| p.x).collect();
    all.extend(figure.published.curves.iter().flat_map(|c| &c.points).map(|p| p.0));
    all.extend(figure.published.places.iter().map(|p| p.0));
    all.sort_by(f64::total_cmp);
    all.dedup();
    let (left, right) =
        (all.first().copied().unwrap_or(0.0), all.last().copied().unwrap_or(1.0).max(0.0));
    match figure.axes {
        Axes::Doublings => Axis::whole(figure.x, Scale::Doublings, left.max(1.0), right.max(1.0)),
        Axes::Each | Axes::DecadesOfKinds => Axis::each(figure.x, left, right),
        Axes::Plain | Axes::Decades if crowds_on_the_left(&all) => {
            Axis { name: figure.x.into(), scale: Scale::Decades, from: left, to: right }
        }
        Axes::Plain | Axes::Decades => Axis::linear(figure.x, left, right),
    }
}

/// Returns true if half of these values, sorted and above zero, are in the first tenth of a linear
/// axis, and a logarithmic axis would have at least two labels.
fn crowds_on_the_left(all: &[f64]) -> bool {
    let (Some(&first), Some(&last)) = (all.first(), all.last()) else { return false };
    first > 0.0
        && all[(all.len() - 1) / 2] <= last / 10.0
        && last.log10().floor() > first.log10().ceil()
}

/// Returns true if all curves are above zero everywhere, and the largest values of two of them
/// differ by more than a factor of twenty: on a linear axis the smaller curve would look flat.
fn differ_in_magnitude(curves: &[(usize, &FigureCurve)]) -> bool {
    let largest =
        |(_, curve): &(usize, &FigureCurve)| curve.points.iter().map(|p| p.y).fold(0.0, f64::max);
    let positive = curves.iter().flat_map(|(_, c)| &c.points).all(|p| p.y > 0.0);
    let most = curves.iter().map(largest).fold(0.0, f64::max);
    let least = curves.iter().map(largest).fold(f64::INFINITY, f64::min);
    positive && curves.len() > 1 && most > 20.0 * least
}

#[cfg(test)]
mod tests {
    use super::super::{CurvePoint, Published};
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
            ..PaperFigure::default()
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

    /// Curves of different units have separate axes; a logarithmic axis keeps small values visible.
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
            curves: vec![curve("slowest (Mbit/s)", 2.0), curve("a call (ms)", 1e-3)],
            ..PaperFigure::default()
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
        assert!(
            differ_in_magnitude(&[(0, &tall), (1, &flat)])
                && !differ_in_magnitude(&[(0, &tall), (1, &tall)])
        );
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
            ..PaperFigure::default()
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

    fn line(name: &'static str, points: &[(f64, f64)]) -> FigureCurve {
        let point = |&(x, y): &(f64, f64)| CurvePoint { x, y, off: None };
        FigureCurve { name, points: points.iter().map(point).collect() }
    }

    fn drawn_over(axes: Axes, curves: Vec<FigureCurve>, published: Published) -> PaperFigure {
        PaperFigure {
            label: "Figure 1".into(),
            title: String::new(),
            x: "x",
            y: "bytes",
            axes,
            curves,
            published,
            ..PaperFigure::default()
        }
    }

    /// Published values have the color of the curve that they are compared with. They are in its
    /// panel, and within the axes.
    #[test]
    fn published_values_stand_beside_ours() {
        let ours = [(0.0, 1.0), (10.0, 2.0)];
        let curves = vec![line("loss (%)", &ours), line("delay (ms)", &ours)];
        let published = Published::beside("delay (ms)", "delay, published", [(20.0, 5.0)])
            .and("alone, published", None, [(5.0, 3.0)])
            .at(4.0, "published: here");
        let figure = drawn_over(Axes::Plain, curves, published);
        let sheet = sheet(&figure);
        let [loss, delay] = sheet.charts.as_slice() else {
            panic!("{} panels", sheet.charts.len())
        };
        let names = |chart: &Chart| {
            let of = |line: &ChartLine| (line.name.clone(), line.number, line.published);
            chart.lines.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(names(loss), [("loss".into(), 0, false), ("alone, published".into(), 2, true)]);
        assert_eq!(
            names(delay),
            [("delay".into(), 1, false), ("delay, published".into(), 1, true)]
        );
        assert_eq!((loss.x.to, delay.x.to), (20.0, 20.0));
        assert!(delay.y.to > 5.0 && loss.y.to < 5.0);
        assert_eq!((loss.places.len(), delay.places.len()), (1, 0));
        // A diamond is two polygons. The figure has two diamonds, and so has the legend.
        assert_eq!(svg(&figure).unwrap().matches("<polygon").count(), 2 * (2 + 2));
    }

    /// A quantity in two panels has one color and one entry in the legend.
    #[test]
    fn curves_of_one_name_have_one_number() {
        let curves = ["drr (ns, empty)", "qfq (ns, empty)", "drr (ns, filled)"];
        let curves = curves.map(|name| line(name, &[(1.0, 2.0)])).into();
        let figure = drawn_over(Axes::Plain, curves, Published::default());
        assert_eq!(numbers(&figure), [0, 1, 0]);
        let svg = svg(&figure).unwrap();
        assert_eq!(words(&svg).iter().filter(|word| **word == "drr").count(), 1);
    }

    /// Values at powers of ten are apart from each other on the horizontal axis.
    #[test]
    fn an_axis_of_decades_for_values_that_crowd_on_the_left() {
        let decades = |xs: &[f64]| {
            let points: Vec<(f64, f64)> = xs.iter().map(|&x| (x, 1.0)).collect();
            let figure = drawn_over(Axes::Plain, vec![line("a", &points)], Published::default());
            sheet(&figure).charts[0].x.scale == Scale::Decades
        };
        assert!(decades(&[1.0, 10.0, 100.0, 1_000.0]));
        assert!(!decades(&[0.0, 10.0, 100.0, 1_000.0]));
        assert!(!decades(&[1.0, 2.0, 4.0, 8.0, 30.0]) && !decades(&[10.0, 40.0, 60.0, 80.0]));
    }

    /// The figure of the lag of flows: each name is also beside its line, and covers no line.
    #[test]
    fn names_are_beside_lines_and_on_none() {
        let mixes = |values: [f64; 9]| (1..).map(f64::from).zip(values).collect::<Vec<_>>();
        let drr =
            [1_350.0, 1_477.0, 7_500.0, 15_000.0, 1_500.0, 1_500.0, 125_490.0, 1_500.0, 22_500.0];
        let qfq = [5_400.0, 5_906.0, 4_025.0, 3_088.0, 2_610.0, 4_403.0, 4_534.0, 2_229.0, 3_345.0];
        let shipped = [5_400.0, 5_906.0, 15e3, 30e3, 75e3, 250e3, 250_980.0, 149_904.0, 3_345.0];
        let curves = vec![
            line("drr", &mixes(drr)),
            line("qfq", &mixes(qfq)),
            line(
                "bound of qfq",
                &mixes([
                    6_500.0, 6_100.0, 6_300.0, 6_100.0, 6_050.0, 6_050.0, 6_050.0, 6_300.0, 7_700.0,
                ]),
            ),
            line(
                "wf2q+",
                &mixes([
                    1_350.0, 1_477.0, 1_400.0, 1_450.0, 1_500.0, 1_500.0, 1_500.0, 1_500.0, 1_500.0,
                ]),
            ),
        ];
        let published = Published::beside("drr", "drr, published", mixes(drr))
            .and("qfq with a constant sum, published", None, mixes(shipped))
            .and("qfq, published", Some("qfq"), mixes(qfq));
        let figure = drawn_over(Axes::DecadesOfKinds, curves, published);
        let text = svg(&figure).unwrap();
        let words = words(&text);
        for name in ["drr", "qfq", "bound of qfq", "wf2q+", "drr, published", "qfq, published"] {
            assert_eq!(words.iter().filter(|word| **word == name).count(), 2, "{name}: {words:?}");
        }
        let attribute = |element: &str, name: &str| {
            let value = element.split(&format!(" {name}=\"")).nth(1).unwrap();
            value.split('"').next().unwrap().to_owned()
        };
        let point = |xy: &str| {
            let (x, y) = xy.split_once(',').unwrap();
            (x.parse::<f64>().unwrap(), y.parse::<f64>().unwrap())
        };
        let segments: Vec<[(f64, f64); 2]> = text
            .split("<polyline")
            .skip(1)
            .map(|element| attribute(element, "points"))
            .flat_map(|points| {
                let points: Vec<_> = points.split_whitespace().map(point).collect();
                points.windows(2).map(|w| [w[0], w[1]]).collect::<Vec<_>>()
            })
            .collect();
        assert!(segments.len() > 4 * 8);
        let names = ["drr", "qfq", "bound of qfq", "wf2q+"];
        for element in text.split("<text").skip(1) {
            let word = element.split(['>', '<']).nth(1).unwrap().trim();
            let at = |name| attribute(element, name).parse::<f64>().unwrap();
            if !names.contains(&word) || at("y") < 120.0 {
                continue;
            }
            // Letters are at most six units wide and ten units high.
            let (left, middle) = (at("x"), at("y"));
            let right = left + 6.0 * word.len() as f64;
            for step in 0..=100 {
                let share = f64::from(step) / 100.0;
                for [a, b] in &segments {
                    let (x, y) = (a.0 + (b.0 - a.0) * share, a.1 + (b.1 - a.1) * share);
                    let on = (left..right).contains(&x) && (y - middle).abs() < 5.0;
                    assert!(!on, "{word} at {left}, {middle} on {a:?} to {b:?}");
                }
            }
        }
    }
}
