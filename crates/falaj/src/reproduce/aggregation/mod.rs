//! The aggregation paper: packets in containers between a driver domain and its virtual machines, Figures 1-4.
//!
//! | module | what it holds |
//! |---|---|
//! | [`figures`] | the curves: as printed, exact, simulated |
//! | [`cells`] | what the paper states beside what we get; what is known not to be reproducible |
//! | `draw` | the figures as SVG |

mod cells;
#[cfg(feature = "plots")]
mod draw;
mod figures;

use super::Args;
use super::page::{STYLE, escape, table};
use crate::show::{self, note, say};
use anyhow::{Context, Result, bail};
use cells::Cell;
use figures::Figure;
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

const SOURCE: &str = "Packet aggregation between a driver domain and its virtual machines, and its dimensioning (IFIP, 2013), Figures 1-4";
const SETTING: &str = "A container costs 5.72 us and 0.533 us for each packet, which is what 80 Kp/s one by one and 800 Kp/s in \
                       containers of 62 come to over two transfers; nothing else is fitted. The way through the card is in none of it.";

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    if args.tables || args.beyond || args.live || args.scenario.is_some() {
        bail!("this paper has figures alone: take --tables, --beyond, --live and --scenario away");
    }
    let wanted: Vec<usize> = match args.figure {
        Some(no @ 1..=4) => vec![no],
        Some(no) => bail!("there is no figure {no}: 1 to 4"),
        None => (1..=4).collect(),
    };
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).with_context(|| format!("cannot make the directory {}", out.display()))?;
    }
    let bar = show::progress(wanted.len() as u64, "figures");
    let mut figures = Vec::new();
    for no in wanted {
        figures.push(figures::of(no)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let cells = cells::judged(&figures)?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&to_json(&figures, &cells))?);
    } else {
        print(&figures, &cells);
    }
    if let Some(out) = &args.out {
        let put = |name: &str, text: &str| {
            let path = out.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        let pictures = pictures(&figures)?;
        for (no, svg) in &pictures {
            put(&format!("figure-{no}.svg"), svg)?;
        }
        #[cfg(feature = "png")]
        super::png::write(out, &pictures)?;
        put("aggregation.html", &page(&figures, &cells, &pictures))?;
        put("aggregation.json", &serde_json::to_string_pretty(&to_json(&figures, &cells))?)?;
        note!("{}: aggregation.html, aggregation.json and the figures", out.display());
    }
    Ok(ExitCode::from(u8::from(cells.iter().any(|c| c.verdict == "MISSED"))))
}

fn to_json(figures: &[Figure], cells: &[Cell]) -> Value {
    json!({
        "paper": SOURCE, "setting": SETTING, "version": env!("CARGO_PKG_VERSION"),
        "figures": figures, "cells": cells,
        "summary": {
            "cells": cells.len(),
            "known": cells.iter().filter(|c| c.verdict == "known").count(),
            "missed": cells.iter().filter(|c| c.verdict == "MISSED").count(),
        },
    })
}

/// A figure's points as rows: one value of x, and what each curve has there.
fn rows(figure: &Figure) -> Vec<Vec<String>> {
    let mut xs: Vec<f64> = figure.curves.iter().flat_map(|c| c.points.iter().map(|p| p.x)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let row = |x: &f64| {
        let cell = |curve: &figures::Curve| {
            let point = curve.points.iter().find(|p| p.x == *x);
            point.map_or(show::DASH.into(), |p| match p.off {
                Some(off) if off >= 0.05 => format!("{:.1} ± {off:.1}", p.y),
                _ if p.y != 0.0 && p.y.abs() < 0.1 => format!("{:.3}", p.y),
                _ => format!("{:.1}", p.y),
            })
        };
        std::iter::once(format!("{x}")).chain(figure.curves.iter().map(cell)).collect()
    };
    xs.iter().map(row).collect()
}

fn header(figure: &Figure) -> Vec<&str> {
    std::iter::once(figure.x).chain(figure.curves.iter().map(|c| c.name)).collect()
}

const CELLS: [&str; 7] = ["figure", "statement", "published", "ours", "tolerance", "", "why"];

fn cell_row(c: &Cell) -> Vec<String> {
    vec![
        c.figure.to_string(),
        c.statement.clone(),
        format!("{} {}", c.published, c.unit),
        format!("{:.3} {}", c.ours, c.unit),
        format!("± {}", c.tolerance),
        c.verdict.to_owned(),
        c.why.clone().unwrap_or_default(),
    ]
}

fn print(figures: &[Figure], cells: &[Cell]) {
    say!("{SOURCE}\n{SETTING}\n");
    for figure in figures {
        say!("Figure {}: {}", figure.no, figure.title);
        say!("{}", show::table(&header(figure), rows(figure)));
        for line in &figure.notes {
            say!("  {line}");
        }
        say!("");
    }
    say!("{}", show::table(&CELLS, cells.iter().map(cell_row)));
}

fn page(figures: &[Figure], cells: &[Cell], pictures: &[(usize, String)]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Packet aggregation, reproduced</title><style>\n{STYLE}\n</style></head><body>\n\
         <h1>Packet aggregation, reproduced</h1>\n<p>{}</p>\n<p>{} falaj {}.</p>\n",
        escape(SOURCE),
        escape(SETTING),
        env!("CARGO_PKG_VERSION")
    );
    let plain = |row: Vec<String>| row.into_iter().map(|text| ("", text)).collect::<Vec<_>>();
    for figure in figures {
        let _ = writeln!(html, "<h2>Figure {}: {}</h2>", figure.no, escape(&figure.title));
        if let Some((_, svg)) = pictures.iter().find(|(no, _)| *no == figure.no) {
            let _ = writeln!(html, "<figure class=\"two\">{svg}</figure>");
        }
        html.push_str(&table(&header(figure), rows(figure).into_iter().map(plain)));
        for line in &figure.notes {
            let _ = writeln!(html, "<p>{}</p>", escape(line));
        }
    }
    html.push_str("<h2>Published and ours</h2>\n");
    let judged = |c: &Cell| {
        let class = |n: usize| {
            if n == 5 {
                c.verdict
            } else if n == 1 || n == 6 {
                "words"
            } else {
                ""
            }
        };
        cell_row(c).into_iter().enumerate().map(|(n, text)| (class(n), text)).collect::<Vec<_>>()
    };
    html.push_str(&table(&CELLS, cells.iter().map(judged)));
    html.push_str("</body></html>\n");
    html
}

#[cfg(feature = "plots")]
fn pictures(figures: &[Figure]) -> Result<Vec<(usize, String)>> {
    figures.iter().map(|f| Ok((f.no, draw::svg(f)?))).collect()
}

#[cfg(not(feature = "plots"))]
fn pictures(_: &[Figure]) -> Result<Vec<(usize, String)>> {
    note!("no pictures: this program was built without them; get them with `cargo build --release --features plots`");
    Ok(Vec::new())
}
