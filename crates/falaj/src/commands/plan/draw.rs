//! Draws a flow's arrival curve and service curve over time, with the distances between them: the
//! horizontal one is its delay, the vertical one its backlog. The picture follows the reader's
//! choice of a light or a dark page.

use anyhow::{Context, Result, anyhow, bail};
use falaj_pictures::chart::{Area, Drawn, FONT};
use falaj_pictures::palette::{ASIDE, GRID, INK, PAGE, Tone, finished};
use falaj_pictures::units::{DATA, TIME, digits, unit};
use falaj_pictures::{save, save_one};
use falaj_plan::Way;
use falaj_plan::bounds::Outlook;
use falaj_sched::queues::queue::Limit;
use falaj_terminal::place::is_one_picture;
use falaj_terminal::text;
use falaj_theory::{Curve, Exact, float};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

const PANEL: (u32, u32) = (620, 400);

// Each tone has a colour for light pages and its counterpart for dark ones.
const SENT: Tone = (RGBColor(213, 94, 0), "#FF9F4A");
const SERVED: Tone = (RGBColor(0, 114, 178), "#5CB8F2");
const DISTANCE: Tone = (RGBColor(0, 120, 85), "#63D2A4");

/// One flow's picture, with its link and direction.
struct Picture<'a> {
    link: &'a str,
    way: &'static str,
    flow: &'a Outlook,
    service: &'a Curve,
    /// Capacity of its queue in bytes; a limit in packets counts packets of the largest size.
    queue: f64,
}

impl Picture<'_> {
    fn name(&self) -> String {
        let whose = if self.flow.together { "all flows" } else { &self.flow.name };
        format!("{}-{}-{whose}", self.link, self.way).replace(' ', "-")
    }
}

/// Draws into one file, or into a directory if `path` is not `*.svg`, `*.png` or `*.pdf`. Returns
/// messages about the files written and the flows not drawn.
pub(super) fn write(path: &Path, ways: &[Way<'_>]) -> Result<Vec<String>> {
    let mut said = Vec::new();
    let mut pictures: Vec<Picture<'_>> = Vec::new();
    for way in ways.iter().filter(|w| !w.same) {
        for flow in &way.flows {
            let Some((_, _, service)) = &flow.service else {
                said.push(format!(
                    "not drawn: {} {}, which has no guaranteed rate",
                    way.name(),
                    flow.name
                ));
                continue;
            };
            let queue = match flow.limit {
                Limit::Packets(n) => f64::from(n) * f64::from(way.direction.pipe.setup.largest),
                Limit::Bytes(n) => n as f64,
            };
            let service = flow.distances.as_ref().map_or(service, |d| &d.service);
            let picture = Picture { link: way.link, way: way.name(), flow, service, queue };
            // Flows that share a queue share its picture.
            if pictures.last().is_none_or(|last| last.name() != picture.name()) {
                pictures.push(picture);
            }
        }
    }
    if pictures.is_empty() {
        bail!("--svg: no flow has a guaranteed rate, so there is nothing to draw");
    }
    let drawn =
        |pictures: &[Picture<'_>]| svg(pictures).map_err(|error| anyhow!("cannot draw: {error}"));
    let names = |pictures: &[Picture<'_>]| {
        pictures.iter().map(Picture::name).collect::<Vec<_>>().join(", ")
    };
    if is_one_picture("--svg", path)? {
        save_one(path, &drawn(&pictures)?)?;
        said.push(format!("wrote {}: {}", path.display(), names(&pictures)));
    } else {
        std::fs::create_dir_all(path)
            .with_context(|| format!("cannot make the directory {}", path.display()))?;
        let each =
            |picture: &Picture<'_>| Ok((picture.name(), drawn(std::slice::from_ref(picture))?));
        save(path, &pictures.iter().map(each).collect::<Result<Vec<_>>>()?)?;
        said.extend(
            pictures.iter().map(|p| format!("wrote {}", path.join(p.name() + ".svg").display())),
        );
    }
    Ok(said)
}

fn svg(pictures: &[Picture<'_>]) -> Result<String, Box<dyn std::error::Error>> {
    let columns = pictures.len().min(2);
    let rows = pictures.len().div_ceil(columns);
    let mut text = String::new();
    {
        let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&PAGE.0)?;
        for (area, picture) in root.split_evenly((rows, columns)).iter().zip(pictures) {
            panel(area, picture)?;
        }
        root.present()?;
    }
    Ok(finished(text, &[SENT, SERVED, DISTANCE]))
}

fn panel(area: &Area<'_>, picture: &Picture<'_>) -> Drawn {
    let flow = picture.flow;
    let envelope = flow.envelope.as_ref().ok().map(|e| &e.curve);
    let bends = |curve: &Curve| float(&curve.pieces()[curve.pieces().len() - 1].at);
    // The time axis covers all points of interest, and a margin after them.
    let latest = match (&flow.distances, envelope) {
        (Some(d), Some(envelope)) => (float(&d.delay.at) + float(&d.delay.length))
            .max(float(&d.backlog.at))
            .max(bends(envelope)),
        _ => reached(picture.service, picture.queue).max(bends(picture.service)),
    };
    let width = latest.max(1.0) * 1.4;
    let sent_last = envelope.map_or(picture.queue, |e| height(e, width));
    let highest = match &flow.distances {
        Some(d) => sent_last
            .max(float(&d.delay.level))
            .min(float(&d.backlog.level).max(float(&d.delay.level)) * 2.2),
        None => sent_last.min(picture.queue * 1.2).max(picture.queue),
    };
    let tall = highest.max(1.0) * 1.18;
    let (time, time_unit) = unit(width, &TIME);
    let (data, data_unit) = unit(tall, &DATA);

    let whose = if flow.together { "all flows together" } else { &flow.name };
    let heading = format!("{whose}, {} {}", picture.link, picture.way);
    let mut chart = ChartBuilder::on(area)
        .caption(heading, (FONT, 17).into_font().color(&INK.0))
        .margin(12)
        .margin_right(24)
        .x_label_area_size(46)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..width / time, 0.0..tall / data)?;
    let (time_digits, data_digits) = (digits(0.0, width / time, 8), digits(0.0, tall / data, 7));
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.0)
        .axis_style(INK.0)
        .x_labels(8)
        .y_labels(7)
        .x_label_formatter(&|x| format!("{x:.time_digits$}"))
        .y_label_formatter(&|y| format!("{y:.data_digits$}"))
        .x_desc(format!("Time from the start of a backlog ({time_unit})"))
        .y_desc(format!("Data ({data_unit})"))
        .axis_desc_style((FONT, 14).into_font().color(&INK.0))
        .label_style((FONT, 13).into_font().color(&INK.0))
        .draw()?;

    let frame = CurveFrame { width, tall, time, data };
    if picture.queue < tall {
        let level = picture.queue;
        let ends = [(0.0, level), (width, level)].map(|at| frame.place(at));
        chart.draw_series(DashedLineSeries::new(ends, 5, 4, ASIDE.0.stroke_width(1)))?;
        let label = match flow.limit {
            Limit::Packets(n) => format!("queue {n}p: {}", text::bytes(level)),
            Limit::Bytes(_) => format!("queue {}", text::bytes(level)),
        };
        // The label is on the left or the right side: where the arrival curve is still below the
        // queue's limit, or is far above it.
        let early = envelope.is_some_and(|e| height(e, 0.3 * width) > level)
            && height(picture.service, 0.65 * width) > level;
        let (end, aside, h) = if early { (width, -8, HPos::Right) } else { (0.0, 12, HPos::Left) };
        word(
            &mut chart,
            &label,
            frame.place((end, level)),
            (aside, -5),
            (h, VPos::Bottom),
            ASIDE.0,
        )?;
    }
    chart.draw_series(LineSeries::new(frame.points(picture.service), SERVED.0.stroke_width(3)))?;
    if let Some(envelope) = envelope {
        chart.draw_series(LineSeries::new(frame.points(envelope), SENT.0.stroke_width(3)))?;
    }
    distances(&mut chart, &frame, picture, envelope.is_some())
}

/// Writes the names of the curves, and draws the arrows with their labels.
fn distances(
    chart: &mut Chart<'_, '_>,
    frame: &CurveFrame,
    picture: &Picture<'_>,
    envelope: bool,
) -> Drawn {
    let flow = picture.flow;
    let sent = flow.envelope.as_ref().ok().map(|e| frame.points(&e.curve)).filter(|_| envelope);
    let served = frame.points(picture.service);
    if let Some(sent) = &sent {
        named(chart, frame, sent, Some(&served), "sent at most", SENT.0)?;
    }
    named(chart, frame, &served, sent.as_deref(), "served at least", SERVED.0)?;
    let (Some(d), Some(backlog)) = (&flow.distances, &flow.backlog) else {
        // No curve or label is in the corner below the service curve.
        let corner = frame.place((frame.width, 0.0));
        let why = "only the queue bounds its delay";
        return word(chart, why, corner, (-8, -10), (HPos::Right, VPos::Bottom), ASIDE.0);
    };
    let (at, wait, level) = (float(&d.delay.at), float(&d.delay.length), float(&d.delay.level));
    arrow(chart, frame.place((at, level)), frame.place((at + wait, level)), (6, 0))?;
    let (then, amount, top) =
        (float(&d.backlog.at), float(&d.backlog.length), float(&d.backlog.level));
    arrow(chart, frame.place((then, top - amount)), frame.place((then, top)), (0, 6))?;
    let time = |ns: f64| text::nanos(ns).replace("us", "µs");
    // The delay of a full queue may be shorter than the distance between the curves.
    let by_queue = flow.best().map(|best| best.delay.0 as f64).filter(|best| *best < wait.floor());
    let by_queue = by_queue.map_or(String::new(), |best| format!("; by the queue {}", time(best)));
    let delay = format!("delay ≤ {}{by_queue}", time(wait));
    let backlog = format!("backlog ≤ {}", text::bytes(backlog.bytes as f64));
    // The delay's label goes below its arrow if the gap between the curves is `high` enough.
    // Otherwise it goes above the arrow, left of the backlog arrow, or, without room there, to the
    // right of the arrow.
    let (roomy, high) = (then > 0.3 * frame.width, level - (top - amount) > 0.16 * frame.tall);
    let (from, aside, v) = match (high, roomy) {
        (true, true) => ((at, level), (12, 7), VPos::Top),
        (true, false) => ((at.max(then), level), (12, 7), VPos::Top),
        (false, true) => ((then, level), (-10, -7), VPos::Bottom),
        (false, false) => ((at + wait, level), (10, 2), VPos::Top),
    };
    let h = if !high && roomy { HPos::Right } else { HPos::Left };
    word(chart, &delay, frame.place(from), aside, (h, v), DISTANCE.0)?;
    let share = match (high, roomy) {
        (true, true) => 0.28 * amount.min(level),
        (true, false) => 0.6 * amount.min(level),
        (false, _) => 0.45 * amount,
    };
    let middle = frame.place((then, top - amount + share));
    let (aside, h) = if roomy { (-9, HPos::Right) } else { (9, HPos::Left) };
    word(chart, &backlog, middle, (aside, 0), (h, VPos::Center), DISTANCE.0)
}

/// Writes a curve's name where the curve leaves the picture: above the line or, if the other curve
/// is close above, below it.
fn named(
    chart: &mut Chart<'_, '_>,
    frame: &CurveFrame,
    curve: &[(f64, f64)],
    other: Option<&[(f64, f64)]>,
    name: &str,
    colour: RGBColor,
) -> Drawn {
    let &[.., before, end] = curve else { return Ok(()) };
    let (wide, high) = chart.plotting_area().dim_in_pixel();
    let pixels = |y: f64| y * frame.data / frame.tall * f64::from(high);
    let top = pixels(end.1) > f64::from(high) - 1.0;
    let close_above =
        other.and_then(<[_]>::last).is_some_and(|o| (0.0..20.0).contains(&pixels(o.1 - end.1)));
    let (aside, anchor) = match end.0 * frame.time / frame.width {
        // The curve leaves at the top, with or without room beside it; or at the right.
        part if top && part < 0.75 => ((10, 4), (HPos::Left, VPos::Top)),
        _ if top => ((-12, 4), (HPos::Right, VPos::Top)),
        _ if close_above => {
            // Below the line, at the point where the name begins.
            let slope = pixels(end.1 - before.1)
                / ((end.0 - before.0) * frame.time / frame.width * f64::from(wide));
            ((-8, 6 + (slope * 7.5 * name.len() as f64) as i32), (HPos::Right, VPos::Top))
        }
        _ => ((-8, -10), (HPos::Right, VPos::Bottom)),
    };
    word(chart, name, end, aside, anchor, colour)
}

fn word(
    chart: &mut Chart<'_, '_>,
    text: &str,
    at: (f64, f64),
    aside: (i32, i32),
    (h, v): (HPos, VPos),
    colour: RGBColor,
) -> Drawn {
    let style = (FONT, 14).into_font().style(FontStyle::Bold).color(&colour).pos(Pos::new(h, v));
    chart.draw_series(std::iter::once(
        EmptyElement::at(at) + Text::new(text.to_owned(), aside, style),
    ))?;
    Ok(())
}

/// Draws a line with a head at both ends; `along` points from its beginning to its end, in pixels.
fn arrow(chart: &mut Chart<'_, '_>, from: (f64, f64), to: (f64, f64), along: (i32, i32)) -> Drawn {
    chart.draw_series(std::iter::once(PathElement::new([from, to], DISTANCE.0.stroke_width(2))))?;
    // Pixel rows count downwards.
    let (x, y) = (along.0, -along.1);
    for (at, sign) in [(from, 1), (to, -1)] {
        let (back, side) = ((x * 3 / 2 * sign, y * 3 / 2 * sign), (y * 2 / 3, x * 2 / 3));
        let corners =
            vec![(0, 0), (back.0 + side.0, back.1 + side.1), (back.0 - side.0, back.1 - side.1)];
        chart.draw_series(std::iter::once(
            EmptyElement::at(at) + Polygon::new(corners, DISTANCE.0.filled()),
        ))?;
    }
    Ok(())
}

/// Visible part of the curves (ns, bytes), and the size of the axis units.
struct CurveFrame {
    width: f64,
    tall: f64,
    time: f64,
    data: f64,
}

impl CurveFrame {
    fn place(&self, (t, bytes): (f64, f64)) -> (f64, f64) {
        (t / self.time, bytes / self.data)
    }

    /// Returns the curve as a line, up to the point where it leaves the picture.
    fn points(&self, curve: &Curve) -> Vec<(f64, f64)> {
        let mut all: Vec<(f64, f64)> = Vec::new();
        for p in curve.pieces() {
            let at = float(&p.at);
            if at < self.width {
                all.extend([(at, float(&p.value)), (at, float(&p.after))]);
            }
        }
        all.push((self.width, height(curve, self.width)));
        if let Some(n) = all.iter().position(|(_, y)| *y > self.tall) {
            let end = match n.checked_sub(1).map(|before| (all[before], all[n])) {
                Some(((t, low), (u, high))) => {
                    (t + (u - t) * (self.tall - low) / (high - low), self.tall)
                }
                None => (0.0, self.tall),
            };
            all.truncate(n);
            all.push(end);
        }
        all.into_iter().map(|at| self.place(at)).collect()
    }
}

fn height(curve: &Curve, t: f64) -> f64 {
    Exact::from_float(t).map_or(0.0, |t| float(&curve.at(&t)))
}

/// Returns the time in ns at which the last piece of the curve reaches `bytes`; the start of this
/// piece if it begins above `bytes` or does not rise.
fn reached(curve: &Curve, bytes: f64) -> f64 {
    let last = &curve.pieces()[curve.pieces().len() - 1];
    let slope = float(&last.slope);
    float(&last.at) + if slope > 0.0 { (bytes - float(&last.after)).max(0.0) / slope } else { 0.0 }
}
