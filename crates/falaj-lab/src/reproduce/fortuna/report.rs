//! A self-contained page with all results.

use super::claims::Claim;
use super::figures::FIGURES;
use super::runs::{FIRST_SEED, SimulationEffort};
use super::tables::{TITLES, TableCell};
use super::{PaperResults, beyond, figures, live, tables};
use crate::reproduce::page::{Head, escape, table};
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
        setting: "1 Gbit/s, packets of 500 B, phases of 30 µs, queues of 20 packets, Poisson \
                  arrivals.",
        command,
        seeds: "A seed decides a simulated run: the same command gives the same numbers, bit for \
                bit.",
    }
    .html();
    if let Some(cells) = &results.cells {
        tables_of(&mut html, cells);
    }
    if let Some((_, claims)) = &results.figures {
        let _ = write!(
            html,
            "<h2>Figures 5-13</h2>\n<p>Link 1 is offered more and more, link 2 always 50 Mbit/s. \
             {}. Bars: 95 % intervals of means and rates; of maxima, from the least of the seeds' \
             maxima to the largest. The paper prints curves and words but no values: what is \
             claimed is the paper's, thresholds are ours, set beside an independent model's \
             values.</p>\n",
            effort(figures::EFFORT)
        );
        for figure in FIGURES.iter().filter(|f| claims.iter().any(|c| c.figure == Some(f.no))) {
            let _ = writeln!(html, "<h3>Figure {}: {}</h3>", figure.no, figure.title);
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
            html.push_str(&claims_of(claims.iter().filter(|c| c.figure == Some(figure.no))));
        }
    }
    if let Some(outcomes) = &results.beyond {
        let _ = write!(
            html,
            "<h2>Beyond the paper</h2>\n<p>Packet-wise, preset clean: idle time lent, tails \
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

fn claims_of<'c>(claims: impl Iterator<Item = &'c Claim>) -> String {
    let rows = claims.map(|c| {
        vec![
            ("words", c.claim.clone()),
            ("", format!("{:.2} {}", c.ours, c.unit.replace("us", "µs"))),
            ("", c.threshold.show()),
            (c.verdict, c.verdict.to_owned()),
        ]
    });
    table(&["claim", "ours", "threshold", "verdict"], rows)
}

fn live_of(html: &mut String, live: &live::LiveResults) {
    let _ = write!(
        html,
        "<h2>{}</h2>\n<p>Phases of 300 µs are the paper's 30 µs at 1 Gbit/s; all its delays are \
         ten times as long here. Of the thread that forwards: what ended its sleeps, how often it \
         slept (voluntary context switches), its CPU time in percent of a core and for each \
         packet, and what of it passed busily waiting. Delays are nominal (last bit in to last bit \
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
    html.push_str(&claims_of(live.claims.iter()));
}

fn tables_of(html: &mut String, cells: &[TableCell]) {
    let known = cells.iter().filter(|c| c.verdict == "known").count();
    let missed = tables::missed(cells);
    let _ = write!(
        html,
        "<h2>Tables I-IV</h2>\n<p>{}. Rates in Mbit/s, delays in µs. {} cells: {} as published, \
         {known} known misprints, {missed} missed. A row's scenario file: <code>falaj reproduce \
         fortuna --scenario ROW</code>.</p>\n",
        effort(tables::EFFORT),
        cells.len(),
        cells.len() - known - missed
    );
    // Missed cells are listed above the tables; known misprints have footnotes.
    let told = |html: &mut String, c: &TableCell, class: &str, word: &str| {
        let why = c.why.as_deref().unwrap_or(c.rule);
        let _ = writeln!(
            html,
            "<p class=\"{class}\">{word} Table {} row {} link {} {}: published {}, ours {:.2}; \
             {}</p>",
            c.table,
            c.row,
            c.link,
            c.quantity,
            c.published,
            c.ours,
            escape(why)
        );
    };
    for c in cells.iter().filter(|c| c.verdict == "MISSED") {
        told(html, c, "MISSED", "MISSED:");
    }
    for (name, title) in TITLES {
        let _ = writeln!(html, "<h3>{title}</h3>");
        let of_table: Vec<&TableCell> = cells.iter().filter(|c| c.table == name).collect();
        let rows = of_table.chunks(3).map(|link| {
            let mut row = vec![
                ("", link[0].row.to_string()),
                ("", link[0].types.clone()),
                ("", link[0].link.to_string()),
            ];
            for c in link {
                let digits = if c.quantity == "out" { 2 } else { 1 };
                let limit = match (c.tolerance, c.bound) {
                    (Some(tolerance), _) => format!("±{tolerance:.digits$}"),
                    (None, Some(bound)) => format!("≤ {bound:.0}"),
                    (None, None) => "bounds".into(),
                };
                row.push(("first", format!("{}", (c.published * 100.0).round() / 100.0)));
                row.push(("", format!("{:.digits$}", c.ours)));
                row.push(("", limit));
                row.push((
                    c.verdict,
                    if c.verdict == "known" { "*".to_owned() } else { c.verdict.to_owned() },
                ));
            }
            row
        });
        let header = [
            "row",
            "types",
            "link",
            "rate",
            "ours",
            "tolerance",
            "",
            "mean",
            "ours",
            "tolerance",
            "",
            "max",
            "ours",
            "tolerance",
            "",
        ];
        html.push_str(&table(&header, rows));
        for c in of_table.iter().filter(|c| c.verdict == "known") {
            told(html, c, "footnote", "*");
        }
    }
}
