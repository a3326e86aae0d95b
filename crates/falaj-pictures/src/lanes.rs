//! Link occupancy: a lane for each flow, with the waiting and the transmission of its packets.

use super::chart::{Area, Drawn, FONT};
use super::palette::{ASIDE, GRID, INK, PAGE, SEVERAL, finished, tone};
use super::units::{TIME, digits, unit};
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A packet: its arrival, its transmission and its lane; times in nanoseconds.
pub struct LanePacket {
    /// The number of its lane.
    pub lane: usize,
    /// Time of its arrival.
    pub came: f64,
    /// Start of its transmission.
    pub start: f64,
    /// End of its transmission.
    pub end: f64,
    /// True if it has the longest delay, which the picture is about.
    pub longest: bool,
}

/// A link's lanes over an interval of time.
pub struct Lanes {
    /// The title.
    pub title: String,
    /// The lanes' names.
    pub names: Vec<String>,
    /// The packets.
    pub packets: Vec<LanePacket>,
    /// Start of the interval.
    pub from: f64,
    /// End of the interval.
    pub to: f64,
}

const WIDTH: i32 = 1060;
const LANE: i32 = 40;
const LEFT: i32 = 150;
const HEAD: i32 = 58;

/// The lanes as SVG.
///
/// # Errors
/// They cannot be drawn.
pub fn svg(all: &[Lanes]) -> Result<String> {
    let mut text = String::new();
    draw(&mut text, all).map_err(|error| anyhow!("cannot draw: {error}"))?;
    Ok(finished(text, &SEVERAL))
}

fn height(lanes: &Lanes) -> i32 {
    HEAD + LANE * lanes.names.len() as i32 + 56
}

fn draw(text: &mut String, all: &[Lanes]) -> Drawn {
    let whole: i32 = all.iter().map(height).sum();
    let root =
        SVGBackend::with_string(text, (WIDTH as u32, whole.max(1) as u32)).into_drawing_area();
    root.fill(&PAGE.0)?;
    let mut below = root.clone();
    for lanes in all {
        let (top, rest) = below.split_vertically(height(lanes));
        panel(&top, lanes)?;
        below = rest;
    }
    root.present()?;
    Ok(())
}

fn panel(area: &Area<'_>, lanes: &Lanes) -> Drawn {
    let words =
        |size: i32, h: HPos| (FONT, size).into_font().color(&INK.0).pos(Pos::new(h, VPos::Center));
    let whole = (lanes.to - lanes.from).max(1.0);
    let across = f64::from(WIDTH - LEFT - 30);
    let x = |at: f64| LEFT + ((at - lanes.from).clamp(0.0, whole) / whole * across) as i32;
    let bottom = HEAD + LANE * lanes.names.len() as i32;
    area.draw(&Text::new(lanes.title.as_str(), (16, 18), words(16, HPos::Left)))?;
    let legend = "a block: on the link; the line before it: waiting, from a tick where its last bit came; bold: the longest delay";
    area.draw(&Text::new(
        legend,
        (16, 40),
        (FONT, 12).into_font().color(&ASIDE.0).pos(Pos::new(HPos::Left, VPos::Center)),
    ))?;
    let (one, name) = unit(whole, &TIME);
    let step = nice(whole / one / 8.0);
    let places = digits(0.0, whole / one, 8).max(usize::from(step < 1.0));
    let mut at = 0.0;
    while at <= whole / one {
        let px = x(lanes.from + at * one);
        area.draw(&PathElement::new([(px, HEAD), (px, bottom)], GRID.0))?;
        area.draw(&Text::new(
            format!("{at:.places$}"),
            (px, bottom + 12),
            words(13, HPos::Center),
        ))?;
        at += step;
    }
    let since = format!("Time since {:.6} s ({name})", lanes.from / 1e9);
    area.draw(&Text::new(since, (LEFT + across as i32 / 2, bottom + 34), words(14, HPos::Center)))?;
    for (n, name) in lanes.names.iter().enumerate() {
        let low = HEAD + LANE * (n as i32 + 1);
        area.draw(&PathElement::new([(16, low), (WIDTH - 30, low)], GRID.0))?;
        area.draw(&Text::new(name.as_str(), (16, low - LANE / 2), words(14, HPos::Left)))?;
    }
    for packet in &lanes.packets {
        let middle = HEAD + LANE * packet.lane as i32 + LANE / 2 + 2;
        let (came, start, end) = (x(packet.came), x(packet.start), x(packet.end));
        let waits = if packet.longest { INK.0.stroke_width(3) } else { ASIDE.0.stroke_width(1) };
        area.draw(&PathElement::new([(came, middle + 12), (start, middle + 12)], waits))?;
        if packet.came >= lanes.from {
            area.draw(&PathElement::new(
                [(came, middle + 8), (came, middle + 15)],
                ASIDE.0.stroke_width(2),
            ))?;
        }
        area.draw(&Rectangle::new(
            [(start, middle - 13), (end.max(start + 1), middle + 7)],
            tone(packet.lane).filled(),
        ))?;
        if packet.longest {
            let corners = [(start, middle - 13), (end.max(start + 1), middle + 7)];
            area.draw(&Rectangle::new(corners, INK.0.stroke_width(2)))?;
            continue;
        }
        // A line separates packets that follow one another directly.
        area.draw(&PathElement::new(
            [(end.max(start + 1), middle - 13), (end.max(start + 1), middle + 7)],
            PAGE.0,
        ))?;
    }
    Ok(())
}

/// The smallest of 1, 2 or 5 times a power of ten that is at least `step`.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|n| *n >= step).unwrap_or(step)
}
