//! A figure as SVG, in Okabe and Ito's colours.

use super::{Figure, Point};
use anyhow::{Result, anyhow};
use plotters::prelude::*;

const SIZE: (u32, u32) = (760, 460);
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(30, 30, 30);
const GRID: RGBColor = RGBColor(224, 224, 224);
const COLOURS: [RGBColor; 7] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

pub(super) fn svg(figure: &Figure) -> Result<String> {
    let mut text = String::new();
    draw(&mut text, figure).map_err(|error| anyhow!("cannot draw {}: {error}", figure.label))?;
    Ok(text)
}

fn draw(text: &mut String, figure: &Figure) -> Result<(), Box<dyn std::error::Error>> {
    let points = || figure.curves.iter().flat_map(|c| &c.points);
    // Over a logarithmic axis nothing is at or below zero.
    let least = points().map(|p| p.y).filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min).min(1e300);
    let place = |y: f64| if figure.log { y.max(least).log10() } else { y };
    let top = points().map(|p| p.y).fold(0.0, f64::max);
    let (bottom, top) = (place(least), place(top));
    // The names of the curves stand above them.
    let room = 0.4 * (top - bottom).max(0.5);
    let (bottom, top) = if figure.log { (bottom - 0.1, top + room) } else { (0.0, 1.08 * top) };
    let (left, right) = points().fold((f64::INFINITY, 0.0f64), |(low, high), p| (low.min(p.x), high.max(p.x)));
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .margin_right(22)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(left..right, bottom..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| if figure.log { short(10f64.powf(*y)) } else { format!("{y:.0}") })
        .x_desc(figure.x)
        .y_desc(figure.y)
        .axis_desc_style((FONT, 15).into_font().color(&INK))
        .label_style((FONT, 13).into_font().color(&INK))
        .draw()?;
    for (curve, colour) in figure.curves.iter().zip(COLOURS.into_iter().cycle()) {
        let line = curve.points.iter().map(|p| (p.x, place(p.y)));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(2)));
        let bar = |p: &Point| {
            let off = p.off.unwrap_or(0.0);
            let ends = [p.y - off, p.y + off].map(|y| (p.x, place(y.max(0.0))));
            PathElement::new(ends, colour.stroke_width(1))
        };
        chart.draw_series(curve.points.iter().map(bar))?;
    }
    let place = if figure.log { SeriesLabelPosition::UpperLeft } else { SeriesLabelPosition::UpperRight };
    chart
        .configure_series_labels()
        .position(place)
        .background_style(WHITE.mix(0.8))
        .border_style(GRID)
        .label_font((FONT, 13).into_font().color(&INK))
        .draw()?;
    root.present()?;
    Ok(())
}

/// A number as an axis has it.
fn short(y: f64) -> String {
    if y >= 10.0 { format!("{y:.0}") } else { format!("{y:.1}") }
}
