//! Colors and strokes of all pictures: the palette of Okabe and Ito, which color-blind readers can
//! distinguish; in grey print the strokes differ. A picture follows the reader's choice of a light
//! or a dark page.

use plotters::style::RGBColor;

/// A color on a light page, and its counterpart on a dark page. The color on a light page
/// identifies the elements that get the counterpart.
pub type Tone = (RGBColor, &'static str);

/// The page.
pub const PAGE: Tone = (RGBColor(255, 255, 255), "#15181C");
/// Words and axes.
pub const INK: Tone = (RGBColor(30, 30, 30), "#E8E8E8");
/// Lines of the grid.
pub const GRID: Tone = (RGBColor(228, 228, 228), "#31363D");
/// Secondary elements: limits, waiting.
pub const ASIDE: Tone = (RGBColor(112, 112, 112), "#A2A8B0");

/// The colors of flows and other numbered lines.
pub const SEVERAL: [Tone; 7] = [
    (RGBColor(213, 94, 0), "#FF9F4A"),
    (RGBColor(0, 114, 178), "#5CB8F2"),
    (RGBColor(0, 158, 115), "#4FD0A8"),
    (RGBColor(204, 121, 167), "#E8A5CB"),
    (RGBColor(230, 159, 0), "#F5C04D"),
    (RGBColor(86, 180, 233), "#A5DAFB"),
    (RGBColor(90, 90, 90), "#C4C4C4"),
];

/// The strokes of [`SEVERAL`]: lengths of dashes and gaps, in turn.
const STROKES: [&str; 7] = ["", "7 3", "2 3", "12 3 2 3", "5 4", "16 4", "7 2 2 2 2 2"];

/// The color of line `n`.
pub fn tone(n: usize) -> RGBColor {
    SEVERAL[n % SEVERAL.len()].0
}

/// A color in SVG's syntax, as `plotters` writes it.
fn hex(c: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", c.0, c.1, c.2)
}

/// Adds the colors for dark pages, also those of `own`, to a picture.
pub fn coloured(mut svg: String, own: &[Tone]) -> String {
    let mut dark = String::new();
    for (light, colour) in [PAGE, INK, GRID, ASIDE].iter().chain(own) {
        let light = hex(*light);
        dark += &format!(
            "[fill=\"{light}\"] {{ fill: {colour} }}\n[stroke=\"{light}\"] {{ stroke: {colour} }}\n"
        );
    }
    let style = format!("\n<style>\n@media (prefers-color-scheme: dark) {{\n{dark}}}\n</style>");
    svg.insert_str(behind_the_head(&svg), &style);
    svg
}

fn behind_the_head(svg: &str) -> usize {
    svg.find('>').map_or(0, |n| n + 1)
}

/// As `coloured`; in addition, words get an outline in the color of the page, so that no line below
/// a word touches its letters.
pub fn finished(svg: String, own: &[Tone]) -> String {
    let mut svg = coloured(svg, own);
    let style = format!(
        "\n<style>\ntext {{ paint-order: stroke; stroke: {}; stroke-width: 4px; stroke-linejoin: round }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ stroke: {} }} }}\n</style>",
        hex(PAGE.0),
        PAGE.1
    );
    svg.insert_str(behind_the_head(&svg), &style);
    svg
}

/// As `finished`; each numbered line also has its own stroke. Lines of one pixel, which are error
/// bars and leaders, are not dashed.
pub fn stroked(svg: &str) -> String {
    let mut svg = svg.to_owned();
    for ((light, _), stroke) in SEVERAL.iter().zip(STROKES).filter(|(_, stroke)| !stroke.is_empty())
    {
        let plain = format!("fill=\"none\" opacity=\"1\" stroke=\"{}\"", hex(*light));
        let dashes = format!("{plain} stroke-dasharray=\"{stroke}\"");
        let (thin, kept) = (format!("{plain} stroke-width=\"1\""), "\u{1}");
        svg = svg.replace(&thin, kept).replace(&plain, &dashes).replace(kept, &thin);
    }
    finished(svg, &SEVERAL)
}
