//! Pictures as PNG and PDF, made from their SVG with the system's fonts.

use crate::Format;
use anyhow::{Context, Result, anyhow};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, Query};
use resvg::usvg::{Options, Tree};
use std::path::Path;
use svg2pdf::{ConversionOptions, PageOptions};

/// Pixels for each unit of the SVG: sharp in print and on dense screens.
const SCALE: f32 = 2.0;

/// Fonts for `sans-serif`, if the system does not configure one.
const SANS: [&str; 5] = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica"];

/// Writes a PNG for each picture, by its name. Without a font the PNGs would have no text; then no
/// PNG is written, and a note says so.
pub(crate) fn write(out: &Path, figures: &[(String, String)]) -> Result<()> {
    if figures.is_empty() {
        return Ok(());
    }
    let Some(options) = with_fonts() else {
        note!("no PNG, because this system has no fonts; the SVGs are complete");
        return Ok(());
    };
    figures.iter().try_for_each(|(name, svg)| put(&out.join(format!("{name}.png")), svg, &options))
}

/// Writes one picture in this format.
pub(super) fn write_one(path: &Path, svg: &str, format: Format) -> Result<()> {
    let none = || format!("{}: this system has no fonts for it; use `.svg`", path.display());
    let options = with_fonts().with_context(none)?;
    match format {
        Format::Pdf => {
            let pdf = pdf(svg, &options);
            let pdf = pdf.with_context(|| format!("cannot make {}", path.display()))?;
            std::fs::write(path, pdf).with_context(|| format!("cannot write {}", path.display()))
        }
        Format::Png | Format::Svg => put(path, svg, &options),
    }
}

fn put(path: &Path, svg: &str, options: &Options<'_>) -> Result<()> {
    let png = png(svg, options).with_context(|| format!("cannot make {}", path.display()))?;
    std::fs::write(path, png).with_context(|| format!("cannot write {}", path.display()))
}

/// The options for rendering, if the system has fonts.
fn with_fonts() -> Option<Options<'static>> {
    let mut options = Options::default();
    options.fontdb_mut().load_system_fonts();
    has_sans(options.fontdb_mut()).then_some(options)
}

/// Sets a font for `sans-serif`. Returns true if there is any.
fn has_sans(fonts: &mut Database) -> bool {
    let known = |fonts: &Database, family| {
        fonts.query(&Query { families: &[family], ..Query::default() }).is_some()
    };
    if known(fonts, Family::SansSerif) {
        return true;
    }
    let any = || Some(fonts.faces().next()?.families.first()?.0.clone());
    let usual = SANS.into_iter().find(|name| known(fonts, Family::Name(name))).map(str::to_owned);
    let Some(family) = usual.or_else(any) else { return false };
    fonts.set_sans_serif_family(family);
    true
}

fn png(svg: &str, options: &Options<'_>) -> Result<Vec<u8>> {
    let tree = Tree::from_str(svg, options)?;
    let size = tree.size().to_int_size().scale_by(SCALE).context("the figure has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).context("the figure is too large")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    Ok(pixels.encode_png()?)
}

/// Converts the picture to a PDF page of the same size; its words remain text.
fn pdf(svg: &str, options: &Options<'_>) -> Result<Vec<u8>> {
    let tree = Tree::from_str(svg, options)?;
    svg2pdf::to_pdf(&tree, ConversionOptions::default(), PageOptions::default())
        .map_err(|error| anyhow!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_fonts_is_told_apart() {
        assert!(!has_sans(&mut Database::new()));
    }

    #[test]
    fn shapes_need_no_font() {
        let svg = r##"<svg width="4" height="3" xmlns="http://www.w3.org/2000/svg"><rect width="4" height="3" fill="#fff"/></svg>"##;
        let pixels = Pixmap::decode_png(&png(svg, &Options::default()).unwrap()).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (8, 6));
        assert!(pixels.pixels().iter().all(|p| (p.red(), p.alpha()) == (255, 255)));
        assert!(png("no picture", &Options::default()).is_err());
        let pdf = pdf(svg, &Options::default()).unwrap();
        assert!(pdf.starts_with(b"%PDF-") && pdf.windows(13).any(|at| at == b"/MediaBox [0 "));
    }
}
