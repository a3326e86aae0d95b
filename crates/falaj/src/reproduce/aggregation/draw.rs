//! A figure as SVG, in Okabe and Ito's colours.

use super::figures::Figure;
use anyhow::{Result, anyhow};
use plotters::prelude::*;

const SIZE: (u32, u32) = (760, 460);
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(30, 30, 30);
const GRID: RGBColor = RGBColor(224, 224, 224);
const COLOURS: [RGBColor; 4] =
    [RGBColor(213, 94, 0), RGBColor(0, 114, 178), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];

pub(super) fn svg(figure: &Figure) -> Result<String> {
    let mut text = String::new();
    draw(&mut text, figure).map_err(|error| anyhow!("cannot draw figure {}: {error}", figure.no))?;
    Ok(text)
}

fn draw(text: &mut String, figure: &Figure) -> Result<(), Box<dyn std::error::Error>> {
    let points = || figure.curves.iter().flat_map(|c| &c.points);
    let top = 1.08 * points().map(|p| p.y).fold(0.0, f64::max);
    let (left, right) = points().fold((f64::INFINITY, 0.0f64), |(low, high), p| (low.min(p.x), high.max(p.x)));
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .margin_right(22)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(left..right, 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_desc(figure.x)
        .y_desc(figure.y)
        .axis_desc_style((FONT, 15).into_font().color(&INK))
        .label_style((FONT, 13).into_font().color(&INK))
        .draw()?;
    for (curve, colour) in figure.curves.iter().zip(COLOURS) {
        let line = curve.points.iter().map(|p| (p.x, p.y));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(2)));
        let bar = |p: &super::figures::Point| {
            let off = p.off.unwrap_or(0.0);
            PathElement::new([(p.x, (p.y - off).max(0.0)), (p.x, p.y + off)], colour.stroke_width(1))
        };
        chart.draw_series(curve.points.iter().map(bar))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(GRID)
        .label_font((FONT, 13).into_font().color(&INK))
        .draw()?;
    root.present()?;
    Ok(())
}
