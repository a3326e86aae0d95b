//! Fortuna and Chydzinski, "Packet-wise scheduler for virtualization of links with partial
//! performance isolation": two or three virtual links, 1 Gbit/s, packets of 500 B, phases of 30 us,
//! queues of 20 packets, Poisson arrivals.
//!
//! | module | content |
//! |---|---|
//! | [`runs`] | the servers as scenarios; their results over all seeds |
//! | [`tables`] | Tables I-IV, every cell |
//! | [`figures`], [`claims`], `draw` | Figures 5-13: their runs, their claims, their pictures |
//! | [`beyond`] | additions to the paper: lending, carry-over, a divided link |
//! | [`live`] | Section II.B on real packets: wake-ups and CPU time |
//! | [`report`] | one page with all results |

mod beyond;
mod claims;
#[cfg(feature = "plots")]
mod draw;
mod figures;
mod live;
mod report;
mod runs;
mod tables;

use super::Args;
use super::page::command;
use super::verdict::{self, JudgedRow, VerdictCounts};
use anyhow::{Context, Result};
use falaj_terminal::interrupt::{INTERRUPTED, Interrupted, interruptible};
use figures::{FIGURES, FortunaFigure, LoadSweep};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

pub(super) use live::{Load, Paced};

/// The results that were requested.
struct PaperResults {
    source: String,
    cells: Option<Vec<tables::TableCell>>,
    figures: Option<(LoadSweep, Vec<JudgedRow>)>,
    beyond: Option<[Vec<beyond::VariantResult>; 2]>,
    live: Option<live::LiveResults>,
    /// True if Ctrl-C came before everything was done.
    interrupted: bool,
}

impl PaperResults {
    /// All rows, in the order of the page.
    fn rows(&self) -> Vec<JudgedRow> {
        let cells = self.cells.iter().flatten().map(|cell| cell.row.clone());
        let claims = self.figures.iter().flat_map(|(_, claims)| claims.clone());
        let beyond = self.beyond.iter().flat_map(beyond::rows);
        let live = self.live.iter().flat_map(|live| live.rows.clone());
        cells.chain(claims).chain(beyond).chain(live).collect()
    }

    fn print(&self) {
        say!("{}\n", self.source);
        if let Some(cells) = &self.cells {
            tables::print(cells);
        }
        if self.figures.is_some() {
            let runs::SimulationEffort { seconds, seeds } = figures::EFFORT;
            say!(
                "Figures 5-13: link 1 = B, with an increasing load; link 2 = A at 50 Mbit/s\n{seeds} seeds of {seconds} s\n"
            );
        }
        if let Some(outcomes) = &self.beyond {
            beyond::print(outcomes);
        }
        if let Some(live) = &self.live {
            live.print();
        }
        // The rows of `tables` and `beyond` are printed already. Those that differ, or have a
        // reason, are printed again.
        let is_shown = |row: &JudgedRow| row.place.contains(" row ") && !row.has_reason();
        verdict::print(&self.rows(), |row| !is_shown(row));
    }

    fn json(&self) -> Value {
        let rows = self.rows();
        let mut json = json!({
            "paper": self.source, "setting": SETTING, "seeds": SEEDS, "command": command(),
            "version": env!("CARGO_PKG_VERSION"), "first_seed": runs::FIRST_SEED,
            "complete": !self.interrupted, "rows": rows, "summary": VerdictCounts::of(&rows),
        });
        if self.cells.is_some() {
            json["effort"] = json!(tables::EFFORT);
        }
        if let Some((sweep, _)) = &self.figures {
            json["figures"] = json!({ "effort": figures::EFFORT, "points": sweep.points() });
        }
        if let Some(outcomes) = &self.beyond {
            json["beyond"] = json!({
                "effort": beyond::EFFORT, "outcomes": outcomes[0], "divided": outcomes[1],
            });
        }
        if let Some(live) = &self.live {
            json["live"] = live.json();
        }
        json
    }
}

/// The assumptions for all results, and what the seeds decide.
const SETTING: &str = "1 Gbit/s, packets of 500 B, phases of 30 µs, queues of 20 packets, Poisson \
                       arrivals.";
const SEEDS: &str = "A seed decides a simulated run: the same command gives the same numbers, bit \
                     for bit.";

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    let published = tables::PublishedTables::read()?;
    if let Some(no) = args.scenario {
        say!("{}", tables::scenario(&published, no)?.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let one = match args.figure {
        Some(no) => Some(
            FIGURES
                .iter()
                .find(|f| f.no == no)
                .with_context(|| format!("there is no figure {no}: 5 to 13"))?,
        ),
        None => None,
    };
    // Errors of the directory are reported before the long runs.
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)
            .with_context(|| format!("cannot make the directory {}", out.display()))?;
    }
    let everything = !(args.tables || args.figures || args.beyond || args.live || one.is_some());
    let wanted: Vec<&FortunaFigure> = match one {
        Some(figure) if !args.figures => vec![figure],
        None if !args.figures && !everything => Vec::new(),
        _ => FIGURES.iter().collect(),
    };
    // Live first: namespaces must be created while the process is single-threaded.
    let plan = live::Plan {
        loads: args.load.clone(),
        paces: args.pace.clone(),
        phases: args.phase.clone(),
        duration: args.duration.unwrap_or(live::DURATION),
    };
    let live = args.live.then(|| live::run(&plan)).transpose()?;
    let simulated = interruptible(|stop| {
        if live.as_ref().is_some_and(|live| live.interrupted) {
            stop.store(true, Ordering::Relaxed);
        }
        let cells =
            (args.tables || everything).then(|| tables::cells(&published, stop)).transpose()?;
        let sweep =
            if wanted.is_empty() { None } else { LoadSweep::of(&wanted, figures::EFFORT, stop)? };
        let beyond =
            args.beyond.then(|| beyond::outcomes(&published, beyond::EFFORT, stop)).transpose()?;
        Ok((cells, sweep, beyond))
    });
    let ((cells, sweep, beyond), interrupted) = simulated?;
    // Incomplete rows are not reported.
    let cells = cells.filter(|cells| !cells.is_empty());
    let beyond = beyond.filter(|[links, _]| !links.is_empty());
    let figures = sweep.map(|sweep| {
        let claims = wanted.iter().flat_map(|f| claims::of(f.no, &sweep)).collect();
        (sweep, claims)
    });
    if interrupted && live.is_none() && cells.is_none() && figures.is_none() && beyond.is_none() {
        return Err(Interrupted("before there was any result").into());
    }
    let results =
        PaperResults { source: published.source, cells, figures, beyond, live, interrupted };
    if args.json {
        say!("{}", serde_json::to_string_pretty(&results.json())?);
    } else {
        results.print();
    }
    if interrupted {
        let kept = args.out.as_ref().map_or("", |_| "; nothing is written");
        eprintln!("interrupted: this is what was done until then{kept}");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if let Some(out) = &args.out {
        write(&results, &wanted, out)?;
    }
    Ok(verdict::exit_code(&results.rows()))
}

/// Writes the page, the pictures and the numbers.
fn write(results: &PaperResults, wanted: &[&FortunaFigure], out: &Path) -> Result<()> {
    let put = |name: &str, text: &str| {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let pictures = pictures(results, wanted)?;
    #[cfg(feature = "plots")]
    {
        let named: Vec<(String, String)> =
            pictures.iter().map(|(no, svg)| (format!("figure-{no}"), svg.clone())).collect();
        falaj_pictures::save(out, &named)?;
    }
    put("fortuna.html", &report::page(results, &pictures, &command()))?;
    put("fortuna.json", &serde_json::to_string_pretty(&results.json())?)?;
    let figures = if pictures.len() == 1 { "figure" } else { "figures" };
    note!("{}: fortuna.html, fortuna.json and {} {figures}", out.display(), pictures.len());
    Ok(())
}

#[cfg(feature = "plots")]
fn pictures(results: &PaperResults, wanted: &[&FortunaFigure]) -> Result<Vec<(usize, String)>> {
    let Some((sweep, _)) = &results.figures else { return Ok(Vec::new()) };
    wanted.iter().map(|f| Ok((f.no, draw::svg(f, sweep)?))).collect()
}

#[cfg(not(feature = "plots"))]
fn pictures(_: &PaperResults, wanted: &[&FortunaFigure]) -> Result<Vec<(usize, String)>> {
    if !wanted.is_empty() {
        note!(
            "no pictures: this program was built without them; get them with `cargo build --release --features plots`"
        );
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use runs::SimulationEffort;
    use std::sync::atomic::AtomicBool;

    const SHORT: SimulationEffort = SimulationEffort { seconds: 0.01, seeds: 2 };
    static RUN: AtomicBool = AtomicBool::new(false);

    /// Claims, points, pictures and page of short runs; values are not judged.
    #[test]
    fn figures_are_drawn_and_told() {
        let wanted: Vec<&FortunaFigure> = FIGURES.iter().collect();
        let sweep = LoadSweep::of(&wanted, SHORT, &RUN).unwrap().expect("nobody stopped it");
        // Two servers up to 600 Mbit/s, and one server and DRR's three quanta up to 720 Mbit/s,
        // without duplicates. Link 1 has no point at load 0.
        assert_eq!(sweep.points().len(), 2 * (2 * 21 + 4 * 25) - 6);
        let claims: Vec<JudgedRow> = wanted.iter().flat_map(|f| claims::of(f.no, &sweep)).collect();
        for figure in FIGURES {
            assert!(
                claims.iter().any(|c| c.place == format!("Figure {}", figure.no)),
                "nothing is claimed of figure {}",
                figure.no
            );
        }
        assert!(claims.iter().all(|c| c.ours.is_some()), "a claim has no value");
        let results = PaperResults {
            source: "A & B".into(),
            cells: None,
            figures: Some((sweep, claims)),
            beyond: None,
            live: None,
            interrupted: false,
        };
        let pictures = pictures(&results, &wanted).unwrap();
        if cfg!(feature = "plots") {
            assert_eq!(pictures.len(), FIGURES.len());
            assert!(
                pictures.iter().all(|(_, svg)| svg.starts_with("<svg ") && !svg.contains("NaN"))
            );
        }
        let page = report::page(&results, &pictures, "falaj reproduce fortuna");
        assert_eq!(page.matches("<figure ").count(), pictures.len());
        assert!(page.contains("A &amp; B") && page.contains(env!("CARGO_PKG_VERSION")));
        let json = results.json();
        let row = &json["rows"][0];
        assert_eq!(
            (&row["least"], &row["most"], &row["published"]),
            (&9.0.into(), &Value::Null, &Value::Null)
        );
        assert_eq!(row["experiment"], "falaj reproduce fortuna --figure 5");
        let rows = json["rows"].as_array().unwrap();
        let has_bounds = rows.iter().any(|row| row["verdict"] == "bound_kept");
        assert!(has_bounds && rows.iter().all(|row| row["verdict"].is_string()), "{json}");
    }

    #[test]
    fn what_the_paper_does_not_have_keeps_its_bounds() {
        let published = tables::PublishedTables::read().unwrap();
        let outcomes = beyond::outcomes(&published, SHORT, &RUN).unwrap();
        // Seven rows of two links and eight of three, under four servers; two parts of the first
        // link of each row under two servers.
        assert_eq!(outcomes.each_ref().map(Vec::len), [4 * (7 * 2 + 8 * 3), 2 * 15 * 2]);
        let counts = VerdictCounts::of(&beyond::rows(&outcomes));
        let all = outcomes.iter().flatten().count();
        assert_eq!(counts, VerdictCounts { bounds_kept: all, ..VerdictCounts::default() });
    }

    #[test]
    fn of_a_row_that_was_only_begun_nothing_is_told() {
        let published = tables::PublishedTables::read().unwrap();
        let stopped = AtomicBool::new(true);
        assert!(tables::cells(&published, &stopped).unwrap().is_empty());
        assert!(beyond::outcomes(&published, SHORT, &stopped).unwrap().iter().all(Vec::is_empty));
        assert!(LoadSweep::of(&[&FIGURES[0]], SHORT, &stopped).unwrap().is_none());
    }
}
