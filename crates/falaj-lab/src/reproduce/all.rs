//! `falaj reproduce all`: runs every paper in turn, each in a process of its own, and writes one
//! page with the counts of each paper and links to all rows.

use super::Args;
use super::page::{Head, command, escape, html_table};
use super::verdict::{self, JudgedRow, RowVerdict, VerdictCounts};
use anyhow::{Context, Result, bail};
use falaj_terminal::interrupt::INTERRUPTED;
use falaj_terminal::text;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// A paper of the generated site.
struct PaperRun {
    name: &'static str,
    arguments: &'static [&'static str],
    /// True if `--quick` shortens the paper's run.
    is_quick: bool,
}

const fn paper(name: &'static str, arguments: &'static [&'static str], is_quick: bool) -> PaperRun {
    PaperRun { name, arguments, is_quick }
}

const PAPERS: &[PaperRun] = &[
    paper("fortuna", &["--tables", "--figures", "--beyond"], false),
    paper("zhang", &[], false),
    paper("xen", &[], true),
    paper("rizzo", &["--live"], true),
    #[cfg(feature = "queueing")]
    paper("aggregation", &[], false),
    paper("tcp", &[], true),
    paper("l4s", &[], true),
    paper("dualq", &[], true),
    paper("cebinae", &[], true),
];

/// The fields of a paper's JSON that the index reads.
#[derive(Deserialize)]
struct PaperFile {
    paper: String,
    rows: Vec<JudgedRow>,
}

/// The outcome of a paper's run.
#[derive(Serialize)]
struct PaperOutcome {
    name: &'static str,
    /// The source, or the reason why there are no results.
    paper: String,
    command: String,
    summary: VerdictCounts,
    seconds: f64,
    #[serde(skip)]
    rows: Vec<JudgedRow>,
    /// False if the paper could not be run on this machine.
    complete: bool,
}

impl PaperOutcome {
    fn cells(&self) -> [String; 7] {
        let VerdictCounts { reproduced, differs, bounds_kept, not_judged, .. } = self.summary;
        [
            self.name.into(),
            reproduced.to_string(),
            differs.to_string(),
            self.summary.unexplained.to_string(),
            bounds_kept.to_string(),
            not_judged.to_string(),
            format!("{:.0}", self.seconds),
        ]
    }
}

const HEADER: [&str; 7] =
    ["paper", "reproduced", "differs", "of them unexplained", "bound kept", "not judged", "s"];

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    let Some(out) = &args.out else {
        bail!("all writes a site: name its directory with --html DIR");
    };
    let only = args.tables || args.figures || args.figure.is_some() || args.beyond || args.live;
    if only || args.scenario.is_some() {
        bail!(
            "all is every paper as a whole: take --tables, --figures, --figure, --beyond, --live \
             and --scenario away"
        );
    }
    std::fs::create_dir_all(out)
        .with_context(|| format!("cannot make the directory {}", out.display()))?;
    let mut outcomes = Vec::new();
    for paper in PAPERS {
        match run(paper, args, out)? {
            Some(outcome) => outcomes.push(outcome),
            None => return Ok(ExitCode::from(INTERRUPTED)),
        }
        // After each paper, the index is complete for the papers that are done.
        write(&outcomes, out)?;
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&outcomes)?);
    } else {
        let cells = outcomes.iter().map(|outcome| outcome.cells().into());
        say!("{}\n", text::wrapped(&HEADER, cells, verdict::WIDTH));
        say!("{}", VerdictCounts::of(outcomes.iter().flat_map(|outcome| &outcome.rows)));
    }
    note!("{}: index.html, index.json and the pages of the papers", out.display());
    let is_well = |outcome: &PaperOutcome| outcome.complete && outcome.summary.unexplained == 0;
    Ok(ExitCode::from(u8::from(!outcomes.iter().all(is_well))))
}

/// Runs a paper in a process of its own, because measurements need namespaces, which only a process
/// without other threads can make. Returns `None` if Ctrl-C or another signal ended the run.
fn run(paper: &PaperRun, args: &Args, out: &Path) -> Result<Option<PaperOutcome>> {
    let mut words = vec!["reproduce", paper.name];
    words.extend(paper.arguments);
    if args.quick && paper.is_quick {
        words.push("--quick");
    }
    let told = format!("falaj {}", words.join(" "));
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut process = Command::new(program);
    process.args(&words).arg("--html").arg(out).stdout(Stdio::null());
    if let (Some(kernel), "tcp") = (&args.kernel, paper.name) {
        process.arg("--kernel").arg(kernel);
    }
    note!("{told}");
    let began = Instant::now();
    let status = process.status().with_context(|| format!("cannot run {told}"))?;
    let seconds = began.elapsed().as_secs_f64();
    let (paper_words, rows, complete) = match status.code() {
        Some(0 | 1) => {
            let path = out.join(format!("{}.json", paper.name));
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let PaperFile { paper, rows } = serde_json::from_str(&text)
                .with_context(|| format!("{} has no rows", path.display()))?;
            (paper, rows, true)
        }
        Some(code) if code != i32::from(INTERRUPTED) => {
            (format!("not run: this machine cannot run it (exit status {code})"), Vec::new(), false)
        }
        _ => return Ok(None),
    };
    Ok(Some(PaperOutcome {
        name: paper.name,
        paper: paper_words,
        command: told,
        summary: VerdictCounts::of(&rows),
        seconds,
        rows,
        complete,
    }))
}

fn write(outcomes: &[PaperOutcome], out: &Path) -> Result<()> {
    let all = VerdictCounts::of(outcomes.iter().flat_map(|outcome| &outcome.rows));
    let index = json!({
        "version": env!("CARGO_PKG_VERSION"), "command": command(), "summary": all,
        "papers": outcomes,
    });
    for (name, text) in
        [("index.html", page(outcomes, all)), ("index.json", serde_json::to_string_pretty(&index)?)]
    {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn page(outcomes: &[PaperOutcome], all: VerdictCounts) -> String {
    let head = Head {
        title: "Papers, reproduced",
        source: "Each statement, table cell and figure of a paper is a row: published, ours, \
                 tolerance and verdict. A bound that is kept compares nothing with print, and is \
                 counted separately.",
        setting: "The page of a paper has its figures and all rows; each row names the command \
                  that shows it.",
        command: &command(),
        seeds: "",
    };
    let mut html = head.html();
    let _ = writeln!(html, "<p>{all}.</p>");
    let counts = outcomes.iter().map(|outcome| {
        let link = format!("<a href=\"#{0}\">{0}</a>", outcome.name);
        let mut cells: Vec<_> = outcome.cells().into_iter().map(|text| ("", text)).collect();
        cells[0] = ("words", link);
        if outcome.summary.unexplained > 0 {
            cells[3].0 = "MISSED";
        }
        cells
    });
    html.push_str(&html_table(&HEADER, counts));
    for outcome in outcomes {
        let page = format!("{}.html", outcome.name);
        let title = if outcome.complete {
            format!("<a href=\"{page}\">{}</a>", outcome.name)
        } else {
            outcome.name.to_owned()
        };
        let _ = writeln!(
            html,
            "<h2 id=\"{}\">{title}</h2>\n<p>{}</p>\n<p>{}. <code>{}</code></p>",
            outcome.name,
            escape(&outcome.paper),
            outcome.summary,
            escape(&outcome.command)
        );
        let is_settled =
            |row: &JudgedRow| matches!(row.verdict, RowVerdict::Reproduced | RowVerdict::BoundKept);
        let (settled, others): (Vec<_>, Vec<_>) =
            outcome.rows.iter().cloned().partition(is_settled);
        if !others.is_empty() {
            html.push_str(&verdict::html(&others, &page));
        }
        if !settled.is_empty() {
            let _ = writeln!(
                html,
                "<details><summary>{} rows reproduced or kept</summary>\n{}</details>",
                settled.len(),
                verdict::html(&settled, &page)
            );
        }
    }
    html.push_str("</body></html>\n");
    html
}

#[cfg(test)]
mod tests {
    use super::super::verdict::{Allowed, Statement};
    use super::*;

    fn row(statement: &str, ours: f64) -> JudgedRow {
        let of = Statement {
            place: "Figure 5.1".into(),
            statement: statement.into(),
            unit: "ms",
            source: "a digit".into(),
            experiment: "falaj reproduce zhang --figure 1".into(),
        };
        JudgedRow::judge(of, Allowed::near(1.0, 0.1), ours, Some("lost capacity"))
    }

    #[test]
    fn the_index_links_each_row_and_counts_each_paper() {
        let rows = vec![row("A < B", 1.0), row("delay", 2.0)];
        let outcome = PaperOutcome {
            name: "zhang",
            paper: "A & B".into(),
            command: "falaj reproduce zhang".into(),
            summary: VerdictCounts::of(&rows),
            seconds: 17.2,
            rows,
            complete: true,
        };
        assert_eq!(outcome.cells(), ["zhang", "1", "1", "0", "0", "0", "17"]);
        let html = page(&[outcome], VerdictCounts::default());
        assert_eq!(html.matches("<a href=\"zhang.html#figure-5.1\">").count(), 2, "{html}");
        assert!(html.contains("A &amp; B") && html.contains("A &lt; B"), "{html}");
        let (differs, settled) = html.split_once("<details>").expect("the rest is folded");
        assert!(differs.contains("lost capacity") && !settled.contains("lost capacity"));
    }

    /// Every paper that this build contains is part of the site.
    #[test]
    fn every_paper_is_part_of_the_site() {
        use clap::ValueEnum;
        let names: Vec<String> = super::super::Paper::value_variants()
            .iter()
            .filter_map(|paper| Some(paper.to_possible_value()?.get_name().to_owned()))
            .filter(|name| name != "all")
            .collect();
        assert_eq!(names, PAPERS.iter().map(|paper| paper.name).collect::<Vec<_>>());
    }
}
