//! Draws falaj's pictures as SVG; no code here depends on the content of a picture.
//!
//! **Kinds.** [`chart`] draws panels of lines over axes, [`bars`] rows of bars, [`lanes`] packets
//! on a time line, [`heat`] a table coloured by its values.
//!
//! **Common parts.** [`palette`] has colors and strokes that differ in grey print too; [`units`]
//! the units of axes. [`save`] and [`save_one`] write pictures as SVG and, with the feature `png`,
//! as PNG and PDF.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

#[cfg(feature = "png")]
#[macro_use]
extern crate falaj_terminal;

pub mod bars;
pub mod chart;
pub mod heat;
mod labels;
pub mod lanes;
pub mod palette;
#[cfg(feature = "png")]
mod rendered;
pub mod units;

use anyhow::{Context, Result};
use std::path::Path;

/// The format of a picture, by the name of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
    Pdf,
}

impl Format {
    fn of(path: &Path) -> Format {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "png" => Format::Png,
            "pdf" => Format::Pdf,
            _ => Format::Svg,
        }
    }
}

/// Writes a picture in the format of the file's name: `*.png`, `*.pdf`, otherwise SVG.
pub fn save_one(path: &Path, svg: &str) -> Result<()> {
    match Format::of(path) {
        Format::Svg => {
            std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))
        }
        other => rendered(path, svg, other),
    }
}

#[cfg(feature = "png")]
fn rendered(path: &Path, svg: &str, format: Format) -> Result<()> {
    rendered::write_one(path, svg, format)
}

#[cfg(not(feature = "png"))]
fn rendered(path: &Path, _: &str, _: Format) -> Result<()> {
    anyhow::bail!(
        "{}: this falaj was built without PNG and PDF; take `.svg`, or build it with \
         `--features png`",
        path.display()
    )
}

/// Writes each picture (name, SVG) into `out` as SVG and, with the feature `png`, also as PNG.
pub fn save(out: &Path, pictures: &[(String, String)]) -> Result<()> {
    for (name, svg) in pictures {
        let path = out.join(format!("{name}.svg"));
        std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    #[cfg(feature = "png")]
    rendered::write(out, pictures)?;
    Ok(())
}
