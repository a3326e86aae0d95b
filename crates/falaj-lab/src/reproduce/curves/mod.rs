//! Papers whose figures and tables are curves. Their statements are compared with falaj's values,
//! and the results are printed, or written as JSON and as a page.
//!
//! | module | content |
//! |---|---|
//! | [`cells`] | compares each statement with falaj's value; shows the reason for each deviation in the closed list |
//! | `draw` | a figure as SVG |

pub(super) mod cells;
#[cfg(feature = "plots")]
mod draw;

use super::Args;
use super::page::{Head, command, escape, table};
use super::verdict::{self, Allowed, JudgedRow, VerdictCounts, anchor};
use anyhow::{Context, Result, ensure};
use cells::{PublishedStatement, judged};
use falaj_terminal::{progress, text};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

/// A paper.
pub(super) struct Work {
    /// The paper's name in `falaj reproduce`, which is also the name of its files.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) source: &'static str,
    /// The assumptions for all results.
    pub(super) setting: &'static str,
    pub(super) published: &'static [PublishedStatement],
    /// The source of random numbers, and the results that depend on each seed.
    pub(super) seeds: &'static str,
    /// The arguments of `falaj reproduce NAME` that make the figure or table of this name.
    pub(super) experiment: fn(&str) -> String,
    /// The closed list of statements that cannot be reproduced, as JSON.
    pub(super) known: &'static str,
}

/// A figure or a table, and the values for the statements.
#[derive(Default, Serialize)]
pub(super) struct PaperFigure {
    /// Label of the figure or table: the paper's number (`Figure 3`, `Table 5.1`), or a name of
    /// falaj's own.
    pub(super) label: String,
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    #[serde(skip)]
    #[cfg_attr(not(feature = "plots"), allow(dead_code, reason = "pictures alone have axes"))]
    pub(super) axes: Axes,
    /// The curves; without any, nothing is drawn.
    pub(super) curves: Vec<FigureCurve>,
    pub(super) published: Published,
    pub(super) notes: Vec<String>,
    /// The values of falaj, each with the statement of the paper that it is compared with; NaN for
    /// a value that could not be measured.
    pub(super) found: Vec<(&'static str, f64)>,
    /// The reason why values are NaN; statements with such values are not judged.
    #[serde(skip)]
    pub(super) unmeasured: Option<String>,
    /// Cells of a table, or other values that the figure itself compares.
    #[serde(skip)]
    pub(super) cells: Vec<FigureCell>,
}

/// A cell of a table, or a point of a figure, with its value.
pub(super) struct FigureCell {
    pub(super) statement: String,
    pub(super) allowed: Allowed,
    pub(super) unit: &'static str,
    /// The source of the tolerance.
    pub(super) source: &'static str,
    pub(super) ours: f64,
}

/// The number of a figure as `--figure` takes it, for example 4 for `Figure 4a ours`.
pub(super) fn figure_number(label: &str) -> &str {
    let number = label.split(' ').nth(1).unwrap_or_default();
    number.trim_end_matches(char::is_alphabetic)
}

/// The axes of a figure.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum Axes {
    #[default]
    Plain,
    /// A bar for each whole number of the x axis, and nothing between these numbers.
    Each,
    /// The vertical axis is logarithmic with base 10.
    Decades,
    /// The vertical axis is logarithmic with base 10; the horizontal axis has numbered kinds, each
    /// with a mark.
    DecadesOfKinds,
    /// Both axes are logarithmic with base 2.
    Doublings,
}

/// A curve, in the figure's units.
#[derive(Serialize)]
pub(super) struct FigureCurve {
    pub(super) name: &'static str,
    pub(super) points: Vec<CurvePoint>,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct CurvePoint {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Error bound, or half of the 95 % interval.
    pub(super) off: Option<f64>,
}

/// The values of a figure that the paper prints.
#[derive(Default, Serialize)]
pub(super) struct Published {
    pub(super) curves: Vec<PublishedCurve>,
    /// Values of x, each with a text that says what happens there.
    pub(super) places: Vec<(f64, &'static str)>,
}

/// Published values, which stand beside one of falaj's curves or alone.
#[derive(Serialize)]
pub(super) struct PublishedCurve {
    pub(super) name: &'static str,
    /// The name of falaj's curve for the same quantity; `None`: the values stand alone.
    pub(super) beside: Option<&'static str>,
    /// The values as (x, y).
    pub(super) points: Vec<(f64, f64)>,
}

impl Published {
    /// Published values beside one of falaj's curves.
    pub(super) fn beside(
        curve: &'static str,
        name: &'static str,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Published {
        Published::default().and(name, Some(curve), points)
    }

    /// Adds these values to those published.
    pub(super) fn and(
        mut self,
        name: &'static str,
        beside: Option<&'static str>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Published {
        let points = points.into_iter().collect();
        self.curves.push(PublishedCurve { name, beside, points });
        self
    }

    /// Adds a value of x, with a text that says what happens there.
    pub(super) fn at(mut self, x: f64, words: &'static str) -> Published {
        self.places.push((x, words));
        self
    }
}

impl PaperFigure {
    /// Returns the figure if it has every curve that its published values name as counterpart.
    fn checked(self) -> Result<PaperFigure> {
        for beside in self.published.curves.iter().filter_map(|published| published.beside) {
            let known = self.curves.iter().any(|curve| curve.name == beside);
            ensure!(
                known,
                "{} has published values beside `{beside}`, which it has not",
                self.label
            );
        }
        Ok(self)
    }

    /// The name of the figure's files, and of its part of the page.
    fn file(&self) -> String {
        anchor(&self.label)
    }
}

impl Work {
    /// Computes these figures and reports everything as the arguments require.
    pub(super) fn reproduce(
        &self,
        args: &Args,
        wanted: &[&str],
        make: impl Fn(&str) -> Result<PaperFigure>,
    ) -> Result<ExitCode> {
        if let Some(out) = &args.out {
            std::fs::create_dir_all(out)
                .with_context(|| format!("cannot make the directory {}", out.display()))?;
        }
        let bar = progress::long_bar(wanted.len() as u64, "figures");
        let mut figures = Vec::new();
        for label in wanted {
            figures.push(make(label)?.checked()?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        let rows = judged(self, &figures)?;
        if args.json {
            say!("{}", serde_json::to_string_pretty(&self.to_json(&figures, &rows))?);
        } else {
            self.print(&figures, &rows);
        }
        if let Some(out) = &args.out {
            let put = |name: &str, text: &str| {
                let path = out.join(name);
                std::fs::write(&path, text)
                    .with_context(|| format!("cannot write {}", path.display()))
            };
            let pictures = pictures(&figures)?;
            #[cfg(feature = "plots")]
            falaj_pictures::save(out, &pictures)?;
            put(&format!("{}.html", self.name), &self.page(&figures, &rows, &pictures))?;
            put(
                &format!("{}.json", self.name),
                &serde_json::to_string_pretty(&self.to_json(&figures, &rows))?,
            )?;
            note!("{}: {name}.html, {name}.json and the figures", out.display(), name = self.name);
        }
        Ok(verdict::exit_code(&rows))
    }

    fn to_json(&self, figures: &[PaperFigure], judged: &[JudgedRow]) -> Value {
        json!({
            "paper": self.source, "setting": self.setting, "version": env!("CARGO_PKG_VERSION"),
            "command": command(), "seeds": self.seeds,
            "figures": figures, "rows": judged, "summary": VerdictCounts::of(judged),
        })
    }

    fn print(&self, figures: &[PaperFigure], judged: &[JudgedRow]) {
        say!("{}\n{}\n", self.source, self.setting);
        for figure in figures {
            say!("{}: {}", figure.label, figure.title);
            if !figure.curves.is_empty() {
                say!("{}", text::table(&header(figure), rows(figure)));
            }
            for line in &figure.notes {
                say!("  {line}");
            }
            say!("");
        }
        verdict::print(judged, |_| true);
    }

    fn page(
        &self,
        figures: &[PaperFigure],
        judged: &[JudgedRow],
        pictures: &[(String, String)],
    ) -> String {
        let head = Head {
            title: self.title,
            source: self.source,
            setting: self.setting,
            command: &command(),
            seeds: self.seeds,
        };
        let mut html = head.html();
        let _ =
            writeln!(html, "<p>{}: <a href=\"#rows\">all rows</a>.</p>", VerdictCounts::of(judged));
        let plain = |row: Vec<String>| row.into_iter().map(|text| ("", text)).collect::<Vec<_>>();
        for figure in figures {
            let _ = writeln!(
                html,
                "<h2 id=\"{}\">{}: {}</h2>",
                figure.file(),
                escape(&figure.label),
                escape(&figure.title)
            );
            if let Some((_, svg)) = pictures.iter().find(|(label, _)| *label == figure.file()) {
                let _ = writeln!(html, "<figure class=\"two\">{svg}</figure>");
            }
            if !figure.curves.is_empty() {
                html.push_str(&table(&header(figure), rows(figure).into_iter().map(plain)));
            }
            for line in &figure.notes {
                let _ = writeln!(html, "<p>{}</p>", escape(line));
            }
        }
        html.push_str("<h2 id=\"rows\">Published and ours</h2>\n");
        html.push_str(&verdict::html(judged, ""));
        html.push_str("</body></html>\n");
        html
    }
}

/// The points of a figure as rows: a value of x, and the value of each curve there, falaj's curves
/// first.
fn rows(figure: &PaperFigure) -> Vec<Vec<String>> {
    let mut columns: Vec<Vec<CurvePoint>> =
        figure.curves.iter().map(|curve| curve.points.clone()).collect();
    columns.extend(figure.published.curves.iter().map(|published| {
        published.points.iter().map(|&(x, y)| CurvePoint { x, y, off: None }).collect()
    }));
    let mut xs: Vec<f64> = columns.iter().flatten().map(|p| p.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let row = |x: &f64| {
        let cell = |points: &Vec<CurvePoint>| {
            let point = points.iter().find(|p| p.x == *x);
            point.map_or(text::DASH.into(), |p| match p.off {
                Some(off) if off >= 0.05 => format!("{:.1} ± {off:.1}", p.y),
                _ if p.y != 0.0 && p.y.abs() < 0.1 => format!("{:.3}", p.y),
                _ => format!("{:.1}", p.y),
            })
        };
        std::iter::once(format!("{x}")).chain(columns.iter().map(cell)).collect()
    };
    xs.iter().map(row).collect()
}

fn header(figure: &PaperFigure) -> Vec<&str> {
    let published = figure.published.curves.iter().map(|published| published.name);
    std::iter::once(figure.x).chain(figure.curves.iter().map(|c| c.name)).chain(published).collect()
}

#[cfg(feature = "plots")]
fn pictures(figures: &[PaperFigure]) -> Result<Vec<(String, String)>> {
    let drawn = figures.iter().filter(|f| !f.curves.is_empty());
    drawn.map(|f| Ok((f.file(), draw::svg(f)?))).collect()
}

#[cfg(not(feature = "plots"))]
fn pictures(_: &[PaperFigure]) -> Result<Vec<(String, String)>> {
    note!(
        "no pictures: this program was built without them; get them with `cargo build --release --features plots`"
    );
    Ok(Vec::new())
}
