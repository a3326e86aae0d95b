//! Rows of stacked bars.

use super::chart::{Area, Drawn, FONT};
use super::palette::{ASIDE, GRID, INK, PAGE, SEVERAL, finished, tone};
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A row: its name, the lengths of its parts, and the text after the bar.
pub struct BarRow {
    /// The name before the bar.
    pub name: String,
    /// The length of each part.
    pub parts: Vec<f64>,
    /// The text after the bar.
    pub words: String,
}

/// The names of the parts, and the rows.
pub struct Bars<'a> {
    /// The title.
    pub title: String,
    /// The names of the parts.
    pub parts: &'a [&'static str],
    /// The rows, from top to bottom.
    pub rows: Vec<BarRow>,
}

const WIDTH: u32 = 860;
const ROW: i32 = 34;
/// The left edge of bars, and the length of the longest bar, in pixels.
const LEFT: i32 = 170;
const LONGEST: f64 = 270.0;
/// Number of parts that differ without colors.
pub const HATCHINGS: usize = 5;

/// The bars as SVG.
///
/// # Errors
/// They cannot be drawn.
pub fn svg(bars: &Bars<'_>) -> Result<String> {
    let mut text = String::new();
    draw(&mut text, bars).map_err(|error| anyhow!("cannot draw: {error}"))?;
    Ok(finished(text, &SEVERAL))
}

fn draw(text: &mut String, bars: &Bars<'_>) -> Drawn {
    let top = 66 + 22 * (bars.parts.len() as i32 - 1) / 3;
    let size = (WIDTH, (top + ROW * bars.rows.len() as i32 + 14) as u32);
    let area: Area<'_> = SVGBackend::with_string(text, size).into_drawing_area();
    area.fill(&PAGE.0)?;
    let style =
        |size: i32| (FONT, size).into_font().color(&INK.0).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(bars.title.as_str(), (16, 18), style(16)))?;
    for (n, part) in bars.parts.iter().enumerate() {
        let (x, y) = (16 + (n as i32 % 3) * 270, 46 + (n as i32 / 3) * 22);
        swatch(&area, (x, y - 7), 14, 14, n)?;
        area.draw(&Text::new(*part, (x + 22, y), style(13)))?;
    }
    let most = bars.rows.iter().map(|row| row.parts.iter().sum::<f64>()).fold(0.0, f64::max);
    for (n, row) in bars.rows.iter().enumerate() {
        let middle = top + ROW * n as i32 + ROW / 2;
        area.draw(&PathElement::new(
            [(16, middle + ROW / 2), (WIDTH as i32 - 16, middle + ROW / 2)],
            GRID.0,
        ))?;
        area.draw(&Text::new(row.name.as_str(), (16, middle), style(14)))?;
        let mut x = f64::from(LEFT);
        for (part, value) in row.parts.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let wide = value / most * LONGEST;
            // A part with a small value is still visible.
            swatch(&area, (x as i32, middle - 9), (wide as i32).max(2), 18, part)?;
            x += wide.max(2.0);
        }
        let words = (FONT, 13).into_font().color(&ASIDE.0).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(row.words.as_str(), (x as i32 + 8, middle), words))?;
    }
    area.present()?;
    Ok(())
}

/// Distance between the lines of a hatching, in pixels; it is small enough that a rectangle of the
/// legend has some lines.
const GAP: i32 = 5;

/// Draws a rectangle of the n-th part. The hatchings of the parts are: none, vertical, horizontal,
/// vertical and horizontal, diagonal.
fn swatch(area: &Area<'_>, (x, y): (i32, i32), wide: i32, high: i32, n: usize) -> Drawn {
    area.draw(&Rectangle::new([(x, y), (x + wide, y + high)], tone(n).filled()))?;
    let line = |from: (i32, i32), to: (i32, i32)| area.draw(&PathElement::new([from, to], PAGE.0));
    let (upright, level, aslant) = match n % HATCHINGS {
        0 => return Ok(()),
        1 => (true, false, false),
        2 => (false, true, false),
        3 => (true, true, false),
        _ => (false, false, true),
    };
    for at in (x + GAP..x + wide).step_by(GAP as usize).filter(|_| upright) {
        line((at, y), (at, y + high))?;
    }
    for at in (y + GAP..y + high).step_by(GAP as usize).filter(|_| level) {
        line((x, at), (x + wide, at))?;
    }
    // Slanted lines from the left or lower edge to the upper or right edge.
    for at in (GAP..wide + high).step_by(GAP as usize).filter(|_| aslant) {
        let from = (x + (at - high).max(0), y + at.min(high));
        line(from, (x + at.min(wide), y + (at - wide).max(0)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts also differ without their colors, in the legend and in a row.
    #[test]
    fn each_part_has_a_hatching_of_its_own() {
        let parts: Vec<String> = (0..HATCHINGS)
            .map(|n| {
                let mut text = String::new();
                let area = SVGBackend::with_string(&mut text, (40, 40)).into_drawing_area();
                swatch(&area, (4, 4), 14, 14, n).unwrap();
                area.present().unwrap();
                drop(area);
                let lines = text
                    .lines()
                    .filter(|line| line.starts_with("<poly") || line.starts_with("<line"));
                lines.collect()
            })
            .collect();
        assert!(parts[0].is_empty());
        for (n, part) in parts.iter().enumerate().skip(1) {
            assert!(!part.is_empty() && !parts[..n].contains(part), "{n}: {part}");
        }
    }
}
