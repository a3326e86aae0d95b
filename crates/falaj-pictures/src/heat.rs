//! A table whose cells are colored by their values.

use super::chart::{Area, Drawn, FONT};
use super::palette::{INK, PAGE, coloured};
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Rows and columns with their names; a cell's color depends on the logarithm of its value.
pub struct Heat {
    /// The title.
    pub title: String,
    /// The rows' names.
    pub rows: Vec<String>,
    /// The columns' names.
    pub columns: Vec<String>,
    /// Cells by row and column: a value, and the text in the cell.
    pub cells: Vec<Vec<Option<(f64, String)>>>,
}

const LEFT: i32 = 140;
const ROW: i32 = 27;
const CELL: i32 = 112;
const HEAD: i32 = 76;

// The color scale has one hue, from light for the lowest value to dark for the highest, so that it
// is also readable in grey print.
const LIGHT: (f64, f64, f64) = (239.0, 246.0, 251.0);
const DARK: (f64, f64, f64) = (8.0, 61.0, 119.0);

/// The table as SVG.
///
/// # Errors
/// It cannot be drawn.
pub fn svg(heat: &Heat) -> Result<String> {
    let mut text = String::new();
    draw(&mut text, heat).map_err(|error| anyhow!("cannot draw: {error}"))?;
    Ok(coloured(text, &[]))
}

fn draw(text: &mut String, heat: &Heat) -> Drawn {
    let size =
        (LEFT + CELL * heat.columns.len() as i32 + 16, HEAD + ROW * heat.rows.len() as i32 + 12);
    let area: Area<'_> =
        SVGBackend::with_string(text, (size.0 as u32, size.1 as u32)).into_drawing_area();
    area.fill(&PAGE.0)?;
    let words =
        |size: i32, h: HPos| (FONT, size).into_font().color(&INK.0).pos(Pos::new(h, VPos::Center));
    area.draw(&Text::new(heat.title.as_str(), (12, 18), words(16, HPos::Left)))?;
    for (n, column) in heat.columns.iter().enumerate() {
        let middle = LEFT + CELL * n as i32 + CELL / 2;
        // A name with a comma takes two lines.
        let cut = column.find(',').map_or(column.len(), |n| n + 1);
        for (line, part) in
            [&column[..cut], &column[cut..]].into_iter().filter(|part| !part.is_empty()).enumerate()
        {
            area.draw(&Text::new(part, (middle, 46 + 16 * line as i32), words(12, HPos::Center)))?;
        }
    }
    let values = || heat.cells.iter().flatten().flatten().map(|(value, _)| value.max(1e-9).ln());
    let (low, high) = values()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    for (row, (name, cells)) in heat.rows.iter().zip(&heat.cells).enumerate() {
        let top = HEAD + ROW * row as i32;
        area.draw(&Text::new(name.as_str(), (12, top + ROW / 2), words(13, HPos::Left)))?;
        for (column, cell) in cells.iter().enumerate() {
            let left = LEFT + CELL * column as i32;
            let Some((value, said)) = cell else {
                area.draw(&Text::new(
                    "–",
                    (left + CELL / 2, top + ROW / 2),
                    words(13, HPos::Center),
                ))?;
                continue;
            };
            let part = if high > low { (value.max(1e-9).ln() - low) / (high - low) } else { 0.0 };
            let mix = |a: f64, b: f64| (a + (b - a) * part) as u8;
            let colour = RGBColor(mix(LIGHT.0, DARK.0), mix(LIGHT.1, DARK.1), mix(LIGHT.2, DARK.2));
            area.draw(&Rectangle::new(
                [(left + 1, top + 1), (left + CELL - 1, top + ROW - 1)],
                colour.filled(),
            ))?;
            // The style for dark pages replaces only the palette's colors. These two text colors
            // are not in the palette, so a cell looks the same on light and dark pages.
            let ink = if part > 0.45 { RGBColor(254, 254, 254) } else { RGBColor(16, 16, 16) };
            let style =
                (FONT, 13).into_font().color(&ink).pos(Pos::new(HPos::Center, VPos::Center));
            area.draw(&Text::new(said.as_str(), (left + CELL / 2, top + ROW / 2), style))?;
        }
    }
    area.present()?;
    Ok(())
}
