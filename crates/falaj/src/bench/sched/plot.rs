//! The plot of the talk: nanoseconds for a pair over the number of flows, a
//! panel for each swing, both axes in doublings. On a ground of its own, so
//! that it can be read on a light page and on a dark one.

use super::flowsets::short;
use super::{Case, Row};
use anyhow::{Result, anyhow, ensure};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const PANEL: (u32, u32) = (560, 400);
/// One line of the legend, and how many names it holds.
const LINE: u32 = 24;
const COLUMNS: usize = 5;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(30, 30, 30);
const GRID: RGBColor = RGBColor(224, 224, 224);
/// Okabe and Ito's, without the yellow.
const COLOURS: [RGBColor; 7] = [
    RGBColor(110, 110, 110),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A colour for each, and another mark when the colours are used up.
fn mark<C: plotters::coord::CoordTranslate>(
    area: &DrawingArea<SVGBackend<'_>, C>,
    at: C::From,
    row: usize,
) -> Result<(), Box<dyn std::error::Error>>
where
    C::From: Clone,
{
    let style = COLOURS[row % COLOURS.len()];
    match row / COLOURS.len() {
        0 => area.draw(&Circle::new(at, 3, style.filled())),
        1 => area.draw(&TriangleMarker::new(at, 5, style.filled())),
        2 => area.draw(&(EmptyElement::at(at) + Rectangle::new([(-4, -4), (4, 4)], style.stroke_width(1)))),
        _ => area.draw(&Cross::new(at, 4, style.stroke_width(2))),
    }?;
    Ok(())
}

pub(super) fn svg(cases: &[Case], rows: &[Row]) -> Result<String> {
    let mut swings: Vec<String> = Vec::new();
    for case in cases.iter().filter(|case| case.equal_flows().is_some()) {
        if !swings.contains(&case.swing()) {
            swings.push(case.swing());
        }
    }
    ensure!(
        !swings.is_empty(),
        "the plot is of equal flows, their number on one axis: give `--flows` or a load of such"
    );
    let mut text = String::new();
    draw(&mut text, &swings, cases, rows).map_err(|error| anyhow!("cannot draw: {error}"))?;
    Ok(text)
}

fn draw(text: &mut String, swings: &[String], cases: &[Case], rows: &[Row]) -> Drawn {
    let legend = LINE * rows.len().div_ceil(COLUMNS) as u32 + 14;
    let root = SVGBackend::with_string(text, (PANEL.0 * swings.len() as u32, PANEL.1 + legend)).into_drawing_area();
    root.fill(&WHITE)?;
    let (top, below) = root.split_vertically(legend);
    names(&top, rows)?;
    for (area, swing) in below.split_evenly((1, swings.len())).iter().zip(swings) {
        panel(area, swing, cases, rows)?;
    }
    root.present()?;
    Ok(())
}

fn names(area: &Area<'_>, rows: &[Row]) -> Drawn {
    let columns = rows.len().min(COLUMNS);
    let width = (area.dim_in_pixel().0 as i32 - 70) / columns as i32;
    let style = (FONT, 14).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    for (i, row) in rows.iter().enumerate() {
        let left = 62 + (i % columns) as i32 * width;
        let middle = 20 + (i / columns) as i32 * LINE as i32;
        let line = COLOURS[i % COLOURS.len()].stroke_width(2);
        area.draw(&PathElement::new([(left, middle), (left + 32, middle)], line))?;
        mark(area, (left + 16, middle), i)?;
        area.draw(&Text::new(row.name.as_str(), (left + 40, middle), style.clone()))?;
    }
    Ok(())
}

/// Flows and median of each case of this swing that there is a figure for.
fn curve(row: &Row, swing: &str, cases: &[Case]) -> Vec<(f64, f64)> {
    let point = |(i, case): (usize, &Case)| Some((f64::from(case.equal_flows()?), row.median(i)?));
    let mut points: Vec<_> =
        cases.iter().enumerate().filter(|(_, case)| case.swing() == swing).filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn panel(area: &Area<'_>, swing: &str, cases: &[Case], rows: &[Row]) -> Drawn {
    let curves: Vec<_> = rows.iter().map(|row| curve(row, swing, cases)).collect();
    let points = || curves.iter().flatten();
    let most = points().map(|p| p.0).fold(2.0, f64::max);
    // Whole doublings, so that the grid has lines at both ends.
    let low = points().map(|p| p.1).fold(f64::INFINITY, f64::min).max(0.125).log2().floor();
    let high = points().map(|p| p.1).fold(0.0, f64::max).max(0.25).log2().ceil();
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{swing} packets queued"), (FONT, 16).into_font().color(&INK))
        .margin(10)
        .margin_right(26)
        .x_label_area_size(46)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..most.log2().max(1.0), low..high.max(low + 1.0))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .x_labels(10)
        .y_labels((high - low) as usize + 1)
        .x_label_formatter(&|x| short(x.exp2().round() as u32))
        .y_label_formatter(&|y| format!("{}", y.exp2()))
        .x_desc("Flows")
        .y_desc("ns for each packet")
        .axis_desc_style((FONT, 15).into_font().color(&INK))
        .label_style((FONT, 13).into_font().color(&INK))
        .draw()?;
    for (i, curve) in curves.iter().enumerate() {
        let points = || curve.iter().map(|(flows, nanos)| (flows.log2(), nanos.log2()));
        chart.draw_series(LineSeries::new(points(), COLOURS[i % COLOURS.len()].stroke_width(2)))?;
        for at in points() {
            mark(chart.plotting_area(), at, i)?;
        }
    }
    Ok(())
}
