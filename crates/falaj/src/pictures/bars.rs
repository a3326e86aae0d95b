//! Rows of bars that are put together of parts.

use super::chart::{Area, Drawn, FONT};
use super::palette::{ASIDE, GRID, INK, PAGE, SEVERAL, finished, tone};
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A row: its name, its parts by their number, and what stands behind it.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) parts: Vec<f64>,
    pub(crate) words: String,
}

/// The names of the parts, and the rows.
pub(crate) struct Bars<'a> {
    pub(crate) title: String,
    pub(crate) parts: &'a [&'static str],
    pub(crate) rows: Vec<Row>,
}

const WIDTH: u32 = 860;
const ROW: i32 = 34;
/// Where bars begin, and how long the longest is.
const LEFT: i32 = 170;
const LONGEST: f64 = 270.0;

pub(crate) fn svg(bars: &Bars<'_>) -> Result<String> {
    let mut text = String::new();
    draw(&mut text, bars).map_err(|error| anyhow!("cannot draw: {error}"))?;
    Ok(finished(text, &SEVERAL))
}

fn draw(text: &mut String, bars: &Bars<'_>) -> Drawn {
    let top = 66 + 22 * (bars.parts.len() as i32 - 1) / 3;
    let size = (WIDTH, (top + ROW * bars.rows.len() as i32 + 14) as u32);
    let area: Area<'_> = SVGBackend::with_string(text, size).into_drawing_area();
    area.fill(&PAGE.0)?;
    let style = |size: i32| (FONT, size).into_font().color(&INK.0).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(bars.title.as_str(), (16, 18), style(16)))?;
    for (n, part) in bars.parts.iter().enumerate() {
        let (x, y) = (16 + (n as i32 % 3) * 270, 46 + (n as i32 / 3) * 22);
        swatch(&area, (x, y - 7), 14, 14, n)?;
        area.draw(&Text::new(*part, (x + 22, y), style(13)))?;
    }
    let most = bars.rows.iter().map(|row| row.parts.iter().sum::<f64>()).fold(0.0, f64::max);
    for (n, row) in bars.rows.iter().enumerate() {
        let middle = top + ROW * n as i32 + ROW / 2;
        area.draw(&PathElement::new([(16, middle + ROW / 2), (WIDTH as i32 - 16, middle + ROW / 2)], GRID.0))?;
        area.draw(&Text::new(row.name.as_str(), (16, middle), style(14)))?;
        let mut x = f64::from(LEFT);
        for (part, value) in row.parts.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let wide = value / most * LONGEST;
            // A sliver says that there is something.
            swatch(&area, (x as i32, middle - 9), (wide as i32).max(2), 18, part)?;
            x += wide.max(2.0);
        }
        let words = (FONT, 13).into_font().color(&ASIDE.0).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(row.words.as_str(), (x as i32 + 8, middle), words))?;
    }
    area.present()?;
    Ok(())
}

/// A rectangle of the n-th part, with a hatching of its own.
fn swatch(area: &Area<'_>, (x, y): (i32, i32), wide: i32, high: i32, n: usize) -> Drawn {
    area.draw(&Rectangle::new([(x, y), (x + wide, y + high)], tone(n).filled()))?;
    let gap = match n % 4 {
        0 => return Ok(()),
        1 => 5,
        2 => 9,
        _ => 14,
    };
    let mut at = x + gap;
    while at < x + wide {
        area.draw(&PathElement::new([(at, y), (at, y + high)], PAGE.0))?;
        at += gap;
    }
    Ok(())
}
