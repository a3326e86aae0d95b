//! Numbers in readable form, and tables.

pub use falaj_plan::words::{DASH, bytes, link_rate, nanos, percent, rate, span};

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle,
};
use falaj_traffic::interval::Estimate;
use std::borrow::Cow;

/// A mean delay with its interval: `4.97 us ± 0.02`.
pub fn delay(e: Option<Estimate>) -> String {
    let Some(e) = e else { return DASH.into() };
    let text = nanos(e.mean);
    match e.half_width {
        Some(half) if half > 0.0 => {
            let unit = if e.mean < 999.5 {
                1.0
            } else if e.mean < 999.5e3 {
                1e3
            } else if e.mean < 999.5e6 {
                1e6
            } else {
                1e9
            };
            format!("{text} ± {}", two_digits(half / unit))
        }
        _ => text,
    }
}

/// A fraction of packets with its interval: `1.58 % ± 0.03`.
pub fn share(part: u64, whole: u64, e: Option<Estimate>) -> String {
    let text = percent(part, whole);
    match e.and_then(|e| e.half_width).filter(|half| *half > 0.0) {
        Some(half) => format!("{text} ± {}", two_digits(half * 100.0)),
        None => text,
    }
}

fn two_digits(value: f64) -> String {
    match value {
        v if v < 0.0995 => format!("{v:.3}"),
        v if v < 0.995 => format!("{v:.2}"),
        v => format!("{v:.1}"),
    }
}

/// Table style with a line only under the header.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A table: the first column left-aligned, the others right-aligned.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A table with a maximum width in characters. All columns are left-aligned. Long texts are
/// wrapped, except in the first and the last column.
pub fn wrapped(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>, width: u16) -> Table {
    let mut table = table(header, rows);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Left);
    }
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    for whole in [0, header.len().saturating_sub(1)] {
        if let Some(column) = table.column_mut(whole) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// Replaces control characters other than newline and tab by visible signs: names of files,
/// interfaces and commands may contain control characters, and a terminal would execute them.
pub fn printable(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let sign = |c: char| match u32::from(c) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        _ => '\u{fffd}',
    };
    Cow::Owned(text.chars().map(|c| if obeyed(c) { sign(c) } else { c }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_name() {
        let name = "a\u{1b}[2Jb\u{7f}\tc\nd\u{9b}";
        assert_eq!(printable(name), "a\u{241b}[2Jb\u{fffd}\tc\nd\u{fffd}");
        assert!(matches!(printable("é, \u{2591}\n"), Cow::Borrowed(_)));
    }
}
