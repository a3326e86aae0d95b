//! A figure as SVG, with a different mark for each server, so that it is readable in print without
//! colour.

use super::figures::{B, FortunaFigure, LoadSweep, Quantity};
use super::runs::{LinkServer, Ours};
use anyhow::{Result, anyhow};
use falaj_pictures::chart::{Area, Drawn, FONT};
use falaj_pictures::palette::{ASIDE, GRID, INK, PAGE, SEVERAL, finished, tone};
use plotters::coord::CoordTranslate;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const PANEL: (u32, u32) = (560, 380);
const LEGEND: u32 = 36;

fn colour(server: LinkServer) -> RGBColor {
    tone(match server {
        LinkServer::PhaseWise => 0,
        LinkServer::PacketWise => 1,
        LinkServer::PacketWiseSkip | LinkServer::Clean { .. } | LinkServer::Divided { .. } => 2,
        LinkServer::Drr(1500) => 3,
        LinkServer::Drr(500) => 4,
        LinkServer::Drr(_) => 5,
    })
}

/// Marks of curves that may overlap: small marks are visible within large marks.
fn mark<C: CoordTranslate>(
    area: &DrawingArea<SVGBackend<'_>, C>,
    at: C::From,
    server: LinkServer,
) -> Drawn
where
    C::From: Clone,
{
    let style = colour(server);
    match server {
        LinkServer::PhaseWise => area.draw(
            &(EmptyElement::at(at) + Rectangle::new([(-5, -5), (5, 5)], style.stroke_width(1))),
        ),
        LinkServer::PacketWise => area.draw(&Circle::new(at, 3, style.filled())),
        LinkServer::PacketWiseSkip | LinkServer::Clean { .. } | LinkServer::Divided { .. } => {
            area.draw(&TriangleMarker::new(at, 5, style.filled()))
        }
        LinkServer::Drr(500) => area.draw(&Cross::new(at, 4, style.stroke_width(2))),
        LinkServer::Drr(1500) => area.draw(&Circle::new(at, 6, style.stroke_width(1))),
        LinkServer::Drr(_) => {
            let corners = vec![(0, -4), (4, 0), (0, 4), (-4, 0)];
            area.draw(&(EmptyElement::at(at) + Polygon::new(corners, style.filled())))
        }
    }?;
    Ok(())
}

/// A value with the ends of its error bar.
fn value(quantity: Quantity, ours: &Ours) -> (f64, f64, f64) {
    let interval = |e: falaj_traffic::interval::Estimate| {
        let half = e.half_width.unwrap_or(0.0);
        (e.mean - half, e.mean, e.mean + half)
    };
    match quantity {
        Quantity::Mean => interval(ours.avg),
        Quantity::Rate => interval(ours.out),
        Quantity::Max => (ours.least_max, ours.max, ours.max),
    }
}

pub(super) fn svg(figure: &FortunaFigure, sweep: &LoadSweep) -> Result<String> {
    let mut text = String::new();
    draw(&mut text, figure, sweep)
        .map_err(|error| anyhow!("cannot draw figure {}: {error}", figure.no))?;
    Ok(finished(text, &SEVERAL))
}

fn draw(text: &mut String, figure: &FortunaFigure, sweep: &LoadSweep) -> Drawn {
    let width = PANEL.0 * figure.links.len() as u32;
    let root = SVGBackend::with_string(text, (width, PANEL.1 + LEGEND)).into_drawing_area();
    root.fill(&PAGE.0)?;
    let (top, below) = root.split_vertically(LEGEND);
    legend(&top, figure)?;
    for (area, link) in below.split_evenly((1, figure.links.len())).iter().zip(figure.links) {
        panel(area, figure, *link, sweep)?;
    }
    root.present()?;
    Ok(())
}

/// The legend, above the panels, where there are no data.
fn legend(area: &Area<'_>, figure: &FortunaFigure) -> Drawn {
    let (width, height) = area.dim_in_pixel();
    let column = (width as i32 - 70) / figure.servers.len() as i32;
    let middle = height as i32 / 2 + 2;
    let style = (FONT, 14).into_font().color(&INK.0).pos(Pos::new(HPos::Left, VPos::Center));
    for (i, server) in figure.servers.iter().enumerate() {
        let left = 62 + i as i32 * column;
        area.draw(&PathElement::new(
            [(left, middle), (left + 32, middle)],
            colour(*server).stroke_width(2),
        ))?;
        mark(area, (left + 16, middle), *server)?;
        area.draw(&Text::new(server.name(), (left + 40, middle), style.clone()))?;
    }
    Ok(())
}

fn panel(area: &Area<'_>, figure: &FortunaFigure, link: usize, sweep: &LoadSweep) -> Drawn {
    let curves: Vec<_> =
        figure.servers.iter().map(|s| (*s, sweep.curve(*s, link, 0, figure.until))).collect();
    let points = || curves.iter().flat_map(|(_, curve)| curve);
    let highest = points().map(|(_, ours)| value(figure.quantity, ours).2).fold(0.0, f64::max);
    // A bound is drawn if it is less than twice the highest value.
    let bounds: Vec<(LinkServer, f64)> = match figure.quantity {
        Quantity::Max => {
            let bound =
                |(s, curve): &(LinkServer, Vec<(u64, &Ours)>)| Some((*s, curve.first()?.1.bound?));
            curves.iter().filter_map(bound).filter(|(_, b)| *b < 2.0 * highest).collect()
        }
        _ => Vec::new(),
    };
    let top = bounds.iter().map(|(_, b)| *b).fold(highest, f64::max) * 1.08;

    let heading = if link == B {
        "Link 1, type B".to_owned()
    } else {
        "Link 2, type A, 50 Mbit/s".to_owned()
    };
    let mut chart = ChartBuilder::on(area)
        .caption(heading, (FONT, 16).into_font().color(&INK.0))
        .margin(10)
        .margin_right(22)
        .x_label_area_size(46)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..figure.until as f64, 0.0..top)?;
    let unit = match figure.quantity {
        Quantity::Mean => "Mean delay (µs)",
        Quantity::Max => "Maximal delay (µs)",
        Quantity::Rate => "Output rate (Mbit/s)",
    };
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.0)
        .axis_style(INK.0)
        .x_labels(figure.until as usize / 60 + 1)
        .y_labels(8)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| if top < 8.0 { format!("{y:.1}") } else { format!("{y:.0}") })
        .x_desc("Offered to link 1 (Mbit/s)")
        .y_desc(unit)
        .axis_desc_style((FONT, 15).into_font().color(&INK.0))
        .label_style((FONT, 13).into_font().color(&INK.0))
        .draw()?;

    for (server, bound) in &bounds {
        let ends = [(0.0, *bound), (figure.until as f64, *bound)];
        chart.draw_series(DashedLineSeries::new(ends, 6, 4, ASIDE.0.stroke_width(1)))?;
        // The label is below its line if another bound is close above.
        let crowded = bounds.iter().any(|(_, b)| b > bound && b - bound < 0.07 * top);
        let (side, gap) = if crowded { (VPos::Top, -0.012) } else { (VPos::Bottom, 0.008) };
        let style = (FONT, 12).into_font().color(&ASIDE.0).pos(Pos::new(HPos::Left, side));
        let label = format!("bound {}: {bound:.0} µs", server.name());
        let at = (figure.until as f64 * 0.02, bound + top * gap);
        chart.draw_series(std::iter::once(Text::new(label, at, style)))?;
    }
    for (server, curve) in &curves {
        let at = |(x, ours): &(u64, &Ours)| (*x as f64, value(figure.quantity, ours));
        let style = colour(*server);
        chart.draw_series(LineSeries::new(
            curve.iter().map(at).map(|(x, (_, y, _))| (x, y)),
            style.stroke_width(2),
        ))?;
        // An error bar that its mark would cover is left out.
        let seen = |(_, (low, _, high)): &(f64, (f64, f64, f64))| high - low > top * 0.01;
        let bar = |(x, (low, _, high)): (f64, (f64, f64, f64))| {
            PathElement::new([(x, low.max(0.0)), (x, high)], style.stroke_width(1))
        };
        chart.draw_series(curve.iter().map(at).filter(seen).map(bar))?;
        for (x, (_, y, _)) in curve.iter().map(at) {
            mark(chart.plotting_area(), (x, y), *server)?;
        }
    }
    Ok(())
}
