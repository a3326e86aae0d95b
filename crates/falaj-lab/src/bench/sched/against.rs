//! `--against PROGRAM`: comparison with dummynet's own test program, which the user has built. This
//! program takes `-n LOOPS -alg NAME -qmin A -qmax B -flowsets LIST`, and prints a line `main
//! SCHEDULER … time SECONDS NANOSECONDS qlen …`. The two programs take turns.

use super::{Args, LoadCase, median};
use anyhow::{Context, Result, bail};
use falaj_terminal::interrupt::interrupts;
use falaj_terminal::{progress, text};
use serde_json::json;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering;

/// Names of disciplines: in falaj, and in dummynet's test program.
const NAMES: &[(&str, &str)] = &[
    ("none", "null"),
    ("fifo", "fifo"),
    ("drr", "rr"),
    ("priority", "prio"),
    ("qfq", "qfq"),
    ("wf2q+", "wf2qp"),
];

/// The result of dummynet's test program in nanoseconds; `None` if the program does not know the
/// discipline and measured its list of packets instead.
fn theirs(program: &Path, name: &str, case: &LoadCase, pairs: u64) -> Result<Option<f64>> {
    let flows = case.flowsets.flows();
    let (qmin, qmax) = (case.qmin.of(flows), case.qmax.of(flows));
    // Complete fillings and drainings, as in falaj's measurement.
    let loops = 2 * pairs.next_multiple_of(qmax - qmin);
    let output = Command::new(program)
        .args(["-n", &loops.to_string(), "-alg", name])
        .args([
            "-qmin",
            &qmin.to_string(),
            "-qmax",
            &qmax.to_string(),
            "-flowsets",
            &case.flowsets.text,
        ])
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let figure = text.lines().find_map(|line| {
        let (before, rest) = line.split_once(" time ")?;
        let ran_none = before.split_whitespace().any(|word| word == "NULL");
        Some((ran_none, rest.split_whitespace().nth(1)?.parse().ok()?))
    });
    match figure {
        Some((true, _)) if name != "null" => Ok(None),
        Some((_, nanos)) if output.status.success() => Ok(Some(nanos)),
        _ => bail!(
            "{} printed no time for {name} ({}): {}",
            program.display(),
            output.status,
            text.trim()
        ),
    }
}

pub(super) fn main(args: &Args, program: &Path) -> Result<ExitCode> {
    let cases = args.cases()?;
    let mut pairs = Vec::new();
    for what in args.whats()? {
        match NAMES.iter().find(|(ours, _)| *ours == what.discipline()) {
            Some((_, theirs)) => pairs.push((what, *theirs)),
            None if args.alg.is_empty() => {}
            None => bail!("dummynet's test program has no {}", what.discipline()),
        }
    }
    if let Some(case) = cases.first() {
        let mut known = Vec::new();
        for (what, name) in pairs {
            match theirs(program, name, case, 1)? {
                Some(_) => known.push((what, name)),
                None if args.alg.is_empty() => {
                    eprintln!("{} has no {name}, which is left out", program.display());
                }
                None => {
                    bail!("{} has no {name}: it ran its list of packets instead", program.display())
                }
            }
        }
        pairs = known;
    }
    let stop = interrupts()?;
    stop.store(false, Ordering::Relaxed);
    let repeat = args.repeat.max(1);
    let bar = progress::long_bar((cases.len() * repeat * pairs.len()) as u64, "measuring");
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    'cases: for case in &cases {
        let mut none = (0.0, 0.0);
        let mut figures = vec![(Vec::new(), Vec::new()); pairs.len()];
        for _ in 0..repeat {
            for ((what, name), (ours, others)) in pairs.iter().zip(&mut figures) {
                if stop.load(Ordering::Relaxed) {
                    eprintln!("interrupted: {} rows are complete", rows.len());
                    break 'cases;
                }
                others.extend(theirs(program, name, case, args.n.0)?);
                ours.extend(case.run().nanos(what, args.n.0));
                bar.inc(1);
            }
        }
        for ((what, _), (ours, others)) in pairs.iter().zip(figures) {
            let theirs = median(others);
            if ours.is_empty() {
                continue;
            }
            let ours = median(ours);
            if what.discipline() == "none" {
                none = (ours, theirs);
            }
            let net = (ours - none.0, theirs - none.1);
            all.push(json!({
                "discipline": what.discipline(), "flowsets": case.flowsets.text,
                "swing": case.swing(),
                "ours": ours, "theirs": theirs, "net": net.0, "their_net": net.1,
            }));
            let nets = match what.discipline() {
                "none" => [text::DASH.into(), text::DASH.into()],
                _ => [format!("{:.1}", net.0), format!("{:.1}", net.1)],
            };
            let mut row = vec![what.discipline().into(), case.swing(), case.flowsets.text.clone()];
            row.extend([
                format!("{ours:.1}"),
                format!("{theirs:.1}"),
                format!("{:.2}", ours / theirs),
            ]);
            row.extend(nets);
            rows.push(row);
        }
    }
    bar.finish_and_clear();
    stop.store(true, Ordering::Relaxed);
    if args.json {
        say!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(ExitCode::SUCCESS);
    }
    say!("ns of CPU for each packet enqueued and dequeued; medians of {repeat}, the two in turn");
    rows.sort_by_key(|row| (NAMES.iter().position(|(ours, _)| *ours == row[0]), row[1].len()));
    say!(
        "{}",
        text::table(
            &["", "packets", "flows", "ours", "theirs", "ratio", "our net", "their net"],
            rows
        )
    );
    Ok(ExitCode::SUCCESS)
}
