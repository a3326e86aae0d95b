//! `bench sched --instructions`: instructions per packet enqueued and dequeued.

use super::{Args, LoadCase};
use crate::bench::instructions;
use crate::bench::instructions::{Length, parts, reported, section};
use anyhow::Result;
use falaj_terminal::text;
use std::process::ExitCode;

/// Minimum number of pairs of the shorter run; the longer one has three times that.
const PAIRS: u64 = 2_000;

fn load(case: &LoadCase) -> String {
    format!("{} {}", case.flowsets.text, case.swing())
}

/// The cases that are counted. By default these have few flows: with most disciplines, more flows
/// take no more instructions.
fn cases(args: &Args) -> Result<Vec<LoadCase>> {
    let mut args = args.clone();
    if args.load.is_none() && args.flows.is_empty() && args.flowsets.is_empty() {
        args.flowsets = vec!["1::1".parse()?, "1::256".parse()?];
    }
    args.cases()
}

/// The run under valgrind.
pub(super) fn counted(args: &Args) -> Result<ExitCode> {
    for case in cases(args)? {
        for what in args.whats()? {
            // A case is skipped if the discipline refuses its flows.
            let counted = case.run().with(&what, |turn| {
                turn(1);
                let pairs = |length| if length == Length::Short { PAIRS } else { 3 * PAIRS };
                parts(what.discipline(), &load(&case), |length| Ok(turn(pairs(length))))
            });
            counted.unwrap_or(Ok(()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    let mut words = vec!["sched".into(), "--counted".into()];
    for case in [&args.load].into_iter().flatten() {
        words.push(case.into());
    }
    for kind in &args.alg {
        words.extend(["--alg".into(), kind.into()]);
    }
    for flowsets in &args.flowsets {
        words.extend(["--flowsets".into(), flowsets.text.clone().into()]);
    }
    for flows in &args.flows {
        words.extend(["--flows".into(), flows.0.to_string().into()]);
    }
    for (name, packets) in [("--qmin", args.qmin), ("--qmax", args.qmax)] {
        if let Some(packets) = packets {
            words.extend([name.into(), packets.to_string().into()]);
        }
    }
    let counts = instructions::counts(&words)?;
    if let Some(exit) = reported(&counts, "discipline", args.json, args.check.as_ref())? {
        return Ok(exit);
    }
    say!("instructions per packet enqueued and dequeued (in parentheses: less those of `none`)");
    let loads: Vec<String> = cases(args)?.iter().map(load).collect();
    let header: Vec<&str> = std::iter::once("").chain(loads.iter().map(String::as_str)).collect();
    let none = counts.get("none");
    let rows = counts.iter().map(|(kind, row)| {
        let cell = |load: &String| match (row.get(load), none.and_then(|none| none.get(load))) {
            (Some(n), Some(none)) if kind != "none" => {
                format!("{:.0} ({:+.0})", *n as f64 / 100.0, (*n as f64 - *none as f64) / 100.0)
            }
            (Some(n), _) => format!("{:.0}", *n as f64 / 100.0),
            (None, _) => text::DASH.into(),
        };
        std::iter::once(kind.clone()).chain(loads.iter().map(cell)).collect()
    });
    say!("{}", text::table(&header, rows));
    say!("\n{}", section(&counts));
    Ok(ExitCode::SUCCESS)
}
