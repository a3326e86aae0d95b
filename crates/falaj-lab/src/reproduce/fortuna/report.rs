//! A self-contained page with all results.

use super::figures::FIGURES;
use super::runs::{FIRST_SEED, SimulationEffort};
use super::tables::{TITLES, TableCell};
use super::{PaperResults, SEEDS, SETTING, beyond, figures, live, tables};
use crate::reproduce::page::{Head, escape, table};
use crate::reproduce::verdict::{self, JudgedRow, VerdictCounts};
use std::collections::BTreeSet;
use std::fmt::Write;

fn effort(e: SimulationEffort) -> String {
    let last = FIRST_SEED + e.seeds as u64 - 1;
    format!("{} runs of {} s, seeds {FIRST_SEED} to {last}", e.seeds, e.seconds)
}

/// The page. `pictures` belong to the requested figures.
pub(super) fn page(results: &PaperResults, pictures: &[(usize, String)], command: &str) -> String {
    let mut html = Head {
        title: "Fortuna and Chydzinski, reproduced",
        source: &results.source,
        setting: SETTING,
        command,
        seeds: SEEDS,
    }
    .html();
    let _ = writeln!(html, "<p>{}.</p>", VerdictCounts::of(&results.rows()));
    if let Some(cells) = &results.cells {
        tables_of(&mut html, cells);
    }
    if let Some((_, claims)) = &results.figures {
        let _ = write!(
            html,
            "<h2>Figures 5-13</h2>\n<p>The load of link 1 increases; that of link 2 is always \
             50 Mbit/s. {}. Bars: 95 % intervals of means and rates; of maxima, from the least of \
             the seeds' maxima to the largest. The paper prints curves and words but no values: \
             the claims are the paper's; we chose the thresholds by the values of an independent \
             model.</p>\n",
            effort(figures::EFFORT)
        );
        for figure in FIGURES.iter().filter(|f| is_of(claims, f.no).next().is_some()) {
            let _ = writeln!(
                html,
                "<h3 id=\"figure-{0}\">Figure {0}: {1}</h3>",
                figure.no, figure.title
            );
            if let Some((_, svg)) = pictures.iter().find(|(no, _)| *no == figure.no) {
                let class = if figure.links.len() == 1 { "one" } else { "two" };
                let label = format!(
                    "<svg role=\"img\" aria-label=\"Figure {}: {}\" ",
                    figure.no, figure.title
                );
                let _ = writeln!(
                    html,
                    "<figure class=\"{class}\">{}</figure>",
                    svg.replacen("<svg ", &label, 1)
                );
            }
            let of_figure: Vec<JudgedRow> = is_of(claims, figure.no).cloned().collect();
            html.push_str(&verdict::html(&of_figure, ""));
        }
    }
    if let Some(outcomes) = &results.beyond {
        let _ = write!(
            html,
            "<h2 id=\"beyond\">Beyond the paper</h2>\n<p>Packet-wise, preset clean: idle time \
             lent, \
             tails \
             carried over. Output rate in Mbit/s; mean delay; maximal delay and its bound, in µs. \
             {}.</p>\n",
            effort(beyond::EFFORT)
        );
        for (title, header, rows) in beyond::tables(outcomes) {
            let header: Vec<&str> = header.iter().map(String::as_str).collect();
            let _ = writeln!(html, "<h3>{title}</h3>");
            let class = |n: usize, cell: &str| match n {
                0..4 => "",
                _ if cell.contains(" > ") => "MISSED",
                _ => "first",
            };
            let rows = rows.into_iter().map(|row| {
                row.into_iter()
                    .enumerate()
                    .map(|(n, cell)| (class(n, &cell), cell))
                    .collect::<Vec<_>>()
            });
            html.push_str(&table(&header, rows));
        }
    }
    if let Some(live) = &results.live {
        live_of(&mut html, live);
    }
    html.push_str("</body></html>\n");
    html
}

/// The rows of the figure with this number.
fn is_of(claims: &[JudgedRow], no: usize) -> impl Iterator<Item = &JudgedRow> {
    claims.iter().filter(move |row| row.place == format!("Figure {no}"))
}

fn live_of(html: &mut String, live: &live::LiveResults) {
    let _ = write!(
        html,
        "<h2 id=\"section-ii.b\">{}</h2>\n<p>Phases of 300 µs are the paper's 30 µs at 1 \
         Gbit/s; all its delays are \
         ten times as long here. The first table is about the forwarding thread: the causes that \
         ended its sleeps, the number of its sleeps (voluntary context switches), its CPU time in \
         percent of a core and for each packet, and the part of that time spent busily waiting. \
         Delays are nominal (last bit in to last bit \
         out), beside end to end on the machine's clock. Figures of one run on one machine.</p>\n",
        escape(&live.title())
    );
    for (header, rows) in [
        (&live::THREAD[..], live.thread_rows().collect::<Vec<_>>()),
        (&live::TENANTS[..], live.tenant_rows().collect()),
    ] {
        let rows = rows.into_iter().map(|row| row.into_iter().map(|text| ("", text)).collect());
        html.push_str(&table(header, rows));
    }
    for line in live.lost() {
        let _ = writeln!(html, "<p>{}</p>", escape(&line));
    }
    html.push_str(&verdict::html(&live.rows, ""));
}

fn tables_of(html: &mut String, cells: &[TableCell]) {
    let _ = write!(
        html,
        "<h2>Tables I-IV</h2>\n<p>{}. Rates in Mbit/s, delays in µs. {}. Maxima are single draws: \
         both must keep the bound, and they are not compared. A row's scenario file: <code>falaj \
         reproduce fortuna --scenario ROW</code>.</p>\n",
        effort(tables::EFFORT),
        VerdictCounts::of(cells.iter().map(|c| &c.row)),
    );
    let sources: BTreeSet<(&str, &str)> =
        cells.iter().map(|c| (c.row.statement.as_str(), c.row.source.as_str())).collect();
    html.push_str("<p>Tolerances: ");
    let told: Vec<String> =
        sources.iter().map(|(of, source)| format!("{of}: {}", escape(source))).collect();
    let _ = writeln!(html, "{}.</p>", told.join("; "));
    for (name, title) in TITLES {
        let anchor = if name == "phase-wise" { name.into() } else { format!("table-{name}") };
        let _ = writeln!(html, "<h3 id=\"{}\">{title}</h3>", anchor.to_lowercase());
        let rows = tables::links(cells, name).map(|(texts, link)| {
            let mut row: Vec<_> = texts.into_iter().map(|text| ("", text)).collect();
            for cell in link {
                let [published, ours, tolerance] = tables::values(cell);
                row.push(("first", published));
                row.push(("", ours));
                row.push(("", tolerance));
                row.push((cell.class(), cell.verdict.word().to_owned()));
            }
            row
        });
        let quantity = |name| [name, "ours", "tolerance", ""];
        let quantities = ["rate", "mean", "max"].map(quantity).concat();
        html.push_str(&table(&[&["row", "types", "link"][..], &quantities].concat(), rows));
        let differ: Vec<JudgedRow> = cells
            .iter()
            .filter(|c| c.table == name && c.row.has_reason())
            .map(|c| c.row.clone())
            .collect();
        if !differ.is_empty() {
            html.push_str(&verdict::html(&differ, ""));
        }
    }
}
