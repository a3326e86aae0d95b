//! Draws falaj's pictures as SVG; no code here depends on the content of a picture.
//!
//! **Kinds.** [`chart`] draws panels of lines over axes, [`bars`] rows of bars, [`lanes`] packets
//! on a time line, [`heat`] a table coloured by its values.
//!
//! **Common parts.** [`palette`] has colors and strokes that differ in grey print too; [`units`]
//! the units of axes. [`save`] and [`save_one`] write pictures as SVG and, with the feature `png`,
//! as PNG.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

#[cfg(feature = "png")]
#[macro_use]
extern crate falaj_terminal;

pub mod bars;
pub mod chart;
pub mod heat;
pub mod lanes;
pub mod palette;
#[cfg(feature = "png")]
mod png;
pub mod units;

use anyhow::{Context, Result};
use std::path::Path;

/// Writes a picture in the format of the file's name: `*.png`, or else SVG.
pub fn save_one(path: &Path, svg: &str) -> Result<()> {
    if path.extension().is_some_and(|extension| extension == "png") {
        return as_png(path, svg);
    }
    std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(feature = "png")]
fn as_png(path: &Path, svg: &str) -> Result<()> {
    png::write_one(path, svg)
}

#[cfg(not(feature = "png"))]
fn as_png(path: &Path, _: &str) -> Result<()> {
    anyhow::bail!(
        "{}: this falaj was built without PNG; take `.svg`, or build it with `--features png`",
        path.display()
    )
}

/// Writes pictures by their names, as SVG and, if falaj was built with the feature, as PNG.
pub fn save(out: &Path, pictures: &[(String, String)]) -> Result<()> {
    for (name, svg) in pictures {
        let path = out.join(format!("{name}.svg"));
        std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    #[cfg(feature = "png")]
    png::write(out, pictures)?;
    Ok(())
}
