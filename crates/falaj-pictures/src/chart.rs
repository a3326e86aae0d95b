//! Lines over axes, in panels with one legend above.

use super::labels::{LabelSpace, MARK, Pixel, Rect};
use super::palette::{ASIDE, GRID, INK, PAGE, stroked, tone};
use super::units::digits;
use anyhow::{Result, anyhow};
use plotters::coord::types::RangedCoordf64;
use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The area in which a part of a picture is drawn.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The result of drawing.
pub type Drawn = Result<(), Box<dyn std::error::Error>>;
type Context<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The font of all words.
pub const FONT: &str = "sans-serif";

/// Height of a line of the legend.
const LEGEND: u32 = 24;

/// The scale of an axis.
#[derive(Clone, Copy, PartialEq)]
pub enum Scale {
    /// Linear.
    Linear,
    /// Whole numbers only.
    Each,
    /// Logarithmic, with labels at powers of ten.
    Decades,
    /// Logarithmic, with labels at powers of two.
    Doublings,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear | Scale::Each => value,
            Scale::Decades => value.log10(),
            Scale::Doublings => value.log2(),
        }
    }

    /// The label at a place, with this number of digits after the point.
    fn label(self, place: f64, digits: usize) -> String {
        match self {
            Scale::Linear => format!("{place:.digits$}"),
            Scale::Decades | Scale::Each if place.fract().abs() > 1e-6 => String::new(),
            Scale::Each => format!("{place:.0}"),
            Scale::Decades if (-2.0..=4.0).contains(&place) => {
                format!("{}", 10f64.powf(place.round()))
            }
            Scale::Decades => format!("10{}", superscript(place.round() as i32)),
            Scale::Doublings => thousands(place.exp2()),
        }
    }
}

/// The number 2048 as `2k`, a quarter as `0.25`.
fn thousands(value: f64) -> String {
    if value >= 1024.0 { format!("{:.0}k", value / 1024.0) } else { format!("{value}") }
}

fn superscript(number: i32) -> String {
    let raised = |c: char| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '0' => '⁰',
        c => char::from_u32('⁰' as u32 + c.to_digit(10).unwrap_or(0)).unwrap_or(c),
    };
    number.to_string().chars().map(raised).collect()
}

/// An axis: its name, its scale and its range.
pub struct Axis {
    /// The name beside the axis.
    pub name: String,
    /// Its scale.
    pub scale: Scale,
    /// Its first value.
    pub from: f64,
    /// Its last value.
    pub to: f64,
}

impl Axis {
    /// A linear axis.
    pub fn linear(name: impl Into<String>, from: f64, to: f64) -> Axis {
        Axis {
            name: name.into(),
            scale: Scale::Linear,
            from,
            to: if to > from { to } else { from + 1.0 },
        }
    }

    /// A logarithmic axis that begins and ends at whole powers of ten or two (`scale`) and contains
    /// `least` and `most`, which are above zero.
    pub fn whole(name: impl Into<String>, scale: Scale, least: f64, most: f64) -> Axis {
        let low = scale.place(least).floor();
        let high = scale.place(most).ceil().max(low + 1.0);
        let back =
            |place: f64| if scale == Scale::Doublings { place.exp2() } else { 10f64.powf(place) };
        Axis { name: name.into(), scale, from: back(low), to: back(high) }
    }

    /// An axis of the whole numbers in a range, with room for bars.
    pub fn each(name: impl Into<String>, least: f64, most: f64) -> Axis {
        Axis {
            name: name.into(),
            scale: Scale::Each,
            from: least.floor() - 0.5,
            to: most.ceil() + 0.5,
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.scale.place(self.from)..self.scale.place(self.to)
    }

    /// The largest number of labels, and the number of digits after their decimal points.
    fn labels(&self, usual: usize) -> (usize, usize) {
        let range = self.range();
        let labels = if self.scale == Scale::Linear {
            usual
        } else {
            ((range.end - range.start) as usize + 1).min(12)
        };
        (labels, digits(self.from, self.to, labels))
    }
}

/// A line of a chart. Values that are NaN make a gap.
pub struct ChartLine {
    /// Its name in the legend.
    pub name: String,
    /// Its number, which determines color and stroke; also the mark, if the chart has marks.
    pub number: usize,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// The outline of an uncertainty band around the line.
    pub band: Vec<(f64, f64)>,
    /// Vertical bars: x, lower end, upper end.
    pub bars: Vec<(f64, f64, f64)>,
    /// Published values: hollow diamonds without a line between them.
    pub published: bool,
}

impl ChartLine {
    /// A line without band or bars.
    pub fn new(name: impl Into<String>, number: usize, points: Vec<(f64, f64)>) -> ChartLine {
        ChartLine {
            name: name.into(),
            number,
            points,
            band: Vec::new(),
            bars: Vec::new(),
            published: false,
        }
    }

    /// Published values, in the color of the line with this number.
    pub fn published(name: impl Into<String>, number: usize, points: Vec<(f64, f64)>) -> ChartLine {
        ChartLine { published: true, ..ChartLine::new(name, number, points) }
    }

    fn is_seen(&self) -> bool {
        self.points.iter().any(|(_, y)| !y.is_nan())
    }

    /// A line in steps: a value holds until the next one.
    pub fn steps(name: impl Into<String>, number: usize, points: &[(f64, f64)]) -> ChartLine {
        let mut all: Vec<(f64, f64)> = Vec::with_capacity(2 * points.len());
        for &(x, y) in points {
            if let Some(&(_, before)) = all.last() {
                all.push((x, before));
            }
            all.push((x, y));
        }
        ChartLine::new(name, number, all)
    }
}

/// A panel with its axes and lines.
pub struct Chart {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines; later ones are drawn over earlier ones.
    pub lines: Vec<ChartLine>,
    /// Vertical dashed lines: the x value of each, and the word beside it.
    pub places: Vec<(f64, String)>,
    /// True if each point has a mark.
    pub marks: bool,
    /// True if the names of the lines stand beside the lines, in addition to the legend.
    pub direct: bool,
    /// Width of lines; larger if they stand for bars.
    pub stroke: u32,
}

/// The usual width of lines.
pub const STROKE: u32 = 2;

/// Panels of one size, in rows.
pub struct Sheet {
    /// Width and height of a panel.
    pub panel: (u32, u32),
    /// Panels in a row.
    pub columns: usize,
    /// The panels.
    pub charts: Vec<Chart>,
}

/// The sheet as SVG.
pub fn svg(sheet: &Sheet) -> Result<String> {
    let mut text = String::new();
    draw(&mut text, sheet).map_err(|error| anyhow!("cannot draw: {error}"))?;
    Ok(stroked(&text))
}

fn draw(text: &mut String, sheet: &Sheet) -> Drawn {
    let columns = sheet.columns.min(sheet.charts.len()).max(1);
    let rows = sheet.charts.len().div_ceil(columns).max(1);
    let mut names: Vec<LegendEntry<'_>> = Vec::new();
    for line in sheet.charts.iter().flat_map(|chart| &chart.lines).filter(|line| line.is_seen()) {
        let entry = (line.name.as_str(), line.number, line.published);
        if !names.contains(&entry) {
            names.push(entry);
        }
    }
    // A letter is about 7.5 pixels wide. Before the name there are the stroke and some space.
    let longest = names.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0) as u32;
    let wide = 72 + longest * 15 / 2;
    let in_a_row = ((sheet.panel.0 * columns as u32 - 62) / wide).max(1) as usize;
    let legend = LEGEND * names.len().div_ceil(in_a_row) as u32 + 14;
    let size = (sheet.panel.0 * columns as u32, sheet.panel.1 * rows as u32 + legend);
    let root = SVGBackend::with_string(text, size).into_drawing_area();
    root.fill(&PAGE.0)?;
    let (top, below) = root.split_vertically(legend);
    let marks = sheet.charts.iter().any(|chart| chart.marks);
    let stroke = sheet.charts.iter().map(|chart| chart.stroke).max().unwrap_or(STROKE);
    self::names(&top, &names, (in_a_row, wide as i32), (marks, stroke))?;
    for (area, chart) in below.split_evenly((rows, columns)).iter().zip(&sheet.charts) {
        panel(area, chart)?;
    }
    root.present()?;
    Ok(())
}

/// A name, the number of its line, and true for published values.
type LegendEntry<'a> = (&'a str, usize, bool);

fn names(
    area: &Area<'_>,
    names: &[LegendEntry<'_>],
    (in_a_row, width): (usize, i32),
    (marks, stroke): (bool, u32),
) -> Drawn {
    let style = (FONT, 14).into_font().color(&INK.0).pos(Pos::new(HPos::Left, VPos::Center));
    for (i, &(name, number, published)) in names.iter().enumerate() {
        let left = 62 + (i % in_a_row) as i32 * width;
        let middle = 20 + (i / in_a_row) as i32 * LEGEND as i32;
        if published {
            diamond(area, (left + 18, middle), number)?;
        } else {
            area.draw(&PathElement::new(
                [(left, middle), (left + 36, middle)],
                tone(number).stroke_width(stroke),
            ))?;
            if marks {
                mark(area, (left + 18, middle), number)?;
            }
        }
        area.draw(&Text::new(name, (left + 44, middle), style.clone()))?;
    }
    Ok(())
}

/// Draws a mark of line `number`; after all colors are used, the shape changes.
fn mark<C: CoordTranslate>(
    area: &DrawingArea<SVGBackend<'_>, C>,
    at: C::From,
    number: usize,
) -> Drawn
where
    C::From: Clone,
{
    let style = tone(number);
    match number / super::palette::SEVERAL.len() {
        0 => area.draw(&Circle::new(at, 3, style.filled())),
        1 => area.draw(&TriangleMarker::new(at, 5, style.filled())),
        2 => area.draw(
            &(EmptyElement::at(at) + Rectangle::new([(-4, -4), (4, 4)], style.stroke_width(1))),
        ),
        _ => area.draw(&Cross::new(at, 4, style.stroke_width(2))),
    }?;
    Ok(())
}

/// Half of the diagonals of a diamond, and of the hole in it.
const DIAMOND: i32 = MARK;
const HOLE: i32 = 3;

/// Draws the mark of a published value.
fn diamond<C: CoordTranslate>(
    area: &DrawingArea<SVGBackend<'_>, C>,
    at: C::From,
    number: usize,
) -> Drawn
where
    C::From: Clone,
{
    let corners = |half: i32| vec![(0, -half), (half, 0), (0, half), (-half, 0)];
    for (half, color) in [(DIAMOND, tone(number)), (HOLE, PAGE.0)] {
        area.draw(&(EmptyElement::at(at.clone()) + Polygon::new(corners(half), color.filled())))?;
    }
    Ok(())
}

fn panel(area: &Area<'_>, chart: &Chart) -> Drawn {
    let (x, y) = (&chart.x, &chart.y);
    let ((across, x_digits), (up, y_digits)) = (x.labels(8), y.labels(7));
    let mut context = ChartBuilder::on(area)
        .caption(&chart.title, (FONT, 16).into_font().color(&INK.0))
        .margin(10)
        .margin_right(26)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(x.range(), y.range())?;
    context
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.0)
        .axis_style(INK.0)
        .x_labels(across)
        .y_labels(up)
        .x_label_formatter(&|place| x.scale.label(*place, x_digits))
        .y_label_formatter(&|place| y.scale.label(*place, y_digits))
        .x_desc(&x.name)
        .y_desc(&y.name)
        .axis_desc_style((FONT, 14).into_font().color(&INK.0))
        .label_style((FONT, 13).into_font().color(&INK.0))
        .draw()?;
    let place = |&(a, b): &(f64, f64)| (x.scale.place(a), y.scale.place(b));
    for (at, _) in &chart.places {
        upright(&mut context, chart, *at)?;
    }
    // Published values lie over all lines.
    let (published, lines): (Vec<_>, Vec<_>) = chart.lines.iter().partition(|l| l.published);
    for line in lines {
        let colour = tone(line.number);
        if !line.band.is_empty() {
            let edges: Vec<_> = line.band.iter().map(place).collect();
            context.draw_series(std::iter::once(Polygon::new(edges, colour.mix(0.18))))?;
        }
        for points in line.points.split(|(_, y)| y.is_nan()).filter(|points| !points.is_empty()) {
            let seen = thinned(&context, points.iter().map(place));
            context.draw_series(LineSeries::new(seen, colour.stroke_width(chart.stroke)))?;
        }
        let bar = |&(at, low, high): &(f64, f64, f64)| {
            PathElement::new([place(&(at, low)), place(&(at, high))], colour.stroke_width(1))
        };
        context.draw_series(line.bars.iter().map(bar))?;
        for at in line.points.iter().filter(|_| chart.marks).map(place) {
            mark(context.plotting_area(), at, line.number)?;
        }
    }
    for line in published {
        for at in line.points.iter().map(place) {
            diamond(context.plotting_area(), at, line.number)?;
        }
    }
    words(&context, chart)
}

/// Draws the dashed line of a place.
fn upright(context: &mut Context<'_, '_>, chart: &Chart, at: f64) -> Drawn {
    let at = chart.x.scale.place(at);
    let (bottom, top) = (chart.y.range().start, chart.y.range().end);
    context.draw_series(DashedLineSeries::new(
        [(at, bottom), (at, top)],
        5,
        4,
        ASIDE.0.stroke_width(1),
    ))?;
    Ok(())
}

/// Size of words within a panel, and the approximate width of a letter and height of a line.
const WORDS: i32 = 13;
const LETTER: f64 = 6.4;
const HIGH: i32 = 13;

/// Writes the words of places and, if the chart wants them beside the lines, the names of lines.
/// Each is written at a position at which it covers no line. Without such a position, the word of a
/// place is written at the top, and the name of a line appears only in the legend.
fn words(context: &Context<'_, '_>, chart: &Chart) -> Drawn {
    if chart.places.is_empty() && !chart.direct {
        return Ok(());
    }
    let area = context.plotting_area();
    let (across, down) = area.get_pixel_range();
    let (wide, high) = (across.end - across.start, down.end - down.start);
    let pixel = |&(x, y): &(f64, f64)| -> Pixel {
        let place = (chart.x.scale.place(x), chart.y.scale.place(y));
        let (x, y) = area.map_coordinate(&place);
        (x - across.start, y - down.start)
    };
    let mut space = LabelSpace::new(Rect { left: 0, top: 0, right: wide, bottom: high });
    for line in &chart.lines {
        add(&mut space, line, chart.marks, &pixel);
    }
    let upright: Vec<i32> =
        chart.places.iter().map(|(at, _)| pixel(&(*at, chart.y.from)).0).collect();
    for (n, &x) in upright.iter().enumerate() {
        space.add_segment(usize::MAX - n, [(x, 0), (x, high)]);
    }
    let flat = area.strip_coord_spec();
    let style = |color: RGBColor| {
        (FONT, WORDS).into_font().color(&color).pos(Pos::new(HPos::Left, VPos::Center))
    };
    let width = |word: &str| (word.chars().count() as f64 * LETTER) as i32;
    for (x, (_, word)) in upright.into_iter().zip(&chart.places) {
        let size = width(word);
        let row = |top: i32| {
            [x + 6, x - 6 - size].map(|left| Rect {
                left,
                top,
                right: left + size,
                bottom: top + HIGH,
            })
        };
        let at = space.place_at((4..high - HIGH).step_by(4).flat_map(row));
        let at = at.unwrap_or(row(4)[0]);
        flat.draw(&Text::new(word.clone(), (at.left, at.top + HIGH / 2), style(ASIDE.0)))?;
    }
    for line in chart.lines.iter().filter(|_| chart.direct) {
        let points = nameable(line, &pixel);
        let Some(label) = space.place(line.number, &points, (width(&line.name), HIGH)) else {
            continue;
        };
        if let Some(leader) = label.leader {
            flat.draw(&PathElement::new(leader, tone(line.number).stroke_width(1)))?;
        }
        let at = (label.place.left, label.place.top + HIGH / 2);
        flat.draw(&Text::new(line.name.clone(), at, style(INK.0)))?;
    }
    Ok(())
}

/// Keeps labels away from a line, its bars and its marks.
fn add(
    space: &mut LabelSpace,
    line: &ChartLine,
    marks: bool,
    pixel: &dyn Fn(&(f64, f64)) -> Pixel,
) {
    for points in line.points.split(|(_, y)| y.is_nan()) {
        let points: Vec<Pixel> = points.iter().map(pixel).collect();
        if line.published || marks {
            points.iter().for_each(|at| space.add_mark(line.number, *at));
        }
        if !line.published {
            points.windows(2).for_each(|w| space.add_segment(line.number, [w[0], w[1]]));
        }
    }
    for &(at, low, high) in &line.bars {
        space.add_segment(line.number, [pixel(&(at, low)), pixel(&(at, high))]);
    }
}

/// The points of a line beside which its name may be written: all its points and, unless they are
/// published values, also the quarters of its segments.
fn nameable(line: &ChartLine, pixel: &dyn Fn(&(f64, f64)) -> Pixel) -> Vec<Pixel> {
    let points: Vec<Pixel> = line.points.iter().filter(|(_, y)| !y.is_nan()).map(pixel).collect();
    if line.published {
        return points;
    }
    let quarters = |w: &[Pixel]| {
        let (a, b) = (w[0], w[1]);
        (0..4).map(move |n| (a.0 + (b.0 - a.0) * n / 4, a.1 + (b.1 - a.1) * n / 4))
    };
    points.windows(2).flat_map(quarters).chain(points.last().copied()).collect()
}

/// The points, without points that are drawn in the same pixel as their neighbors. Of the points in
/// one pixel the first and the last are kept.
fn thinned(context: &Context<'_, '_>, points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let area = context.plotting_area();
    let mut seen: Vec<(f64, f64)> = Vec::new();
    let mut last = None;
    let mut hidden = None;
    for point in points {
        let pixel = area.map_coordinate(&point);
        if last == Some(pixel) {
            hidden = Some(point);
            continue;
        }
        // The last point in a pixel is kept too: the next segment begins there, so that its slope
        // is right.
        seen.extend(hidden.take());
        seen.push(point);
        last = Some(pixel);
    }
    seen.extend(hidden);
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::coord::ranged1d::Ranged;

    fn labels(from: f64, to: f64) -> Vec<String> {
        let axis = Axis::linear("", from, to);
        let (most, digits) = axis.labels(7);
        let range: RangedCoordf64 = axis.range().into();
        range.key_points(most).into_iter().map(|place| axis.scale.label(place, digits)).collect()
    }

    /// Labels far from zero need more digits than labels near it.
    #[test]
    fn no_two_labels_of_an_axis_are_the_same() {
        assert_eq!(labels(0.0, 1.0)[..3], ["0.0", "0.2", "0.4"]);
        assert_eq!(labels(0.0, 5.4)[..3], ["0", "1", "2"]);
        assert_eq!(labels(0.0, 30.0)[..3], ["0", "5", "10"]);
        for step in 1..400 {
            let extent = 1.05f64.powi(step) * 1e-6;
            for from in [0.0, 11.68, 1234.5] {
                let labels = labels(from, from + extent);
                let mut once = labels.clone();
                once.dedup();
                assert_eq!(labels, once, "{from} and {extent} more");
            }
        }
    }
}
