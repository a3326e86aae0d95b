//! `bench sim --instructions`: instructions per packet from its source to the end of its link.

use super::{Args, packets_of, read};
use crate::bench::instructions;
use crate::bench::instructions::{Length, parts, reported, section};
use anyhow::Result;
use falaj_sim::scenario::experiment;
use falaj_sim::simulate;
use falaj_terminal::text;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Packets of the shorter run. The longer run has three times this number, and begins with the same
/// packets.
const PACKETS: u64 = 10_000;
/// Maximum number of flows: with more flows, memory dominates the cost, and instructions tell
/// little about it.
const FEW: u32 = 16;

/// The run under valgrind.
pub(super) fn counted(args: &Args) -> Result<ExitCode> {
    for case in args.cases() {
        for &flows in case.flows.iter().filter(|&&flows| flows <= FEW) {
            parts(&format!("sim: {}", case.name), &format!("{flows} flows"), |length| {
                let packets = if length == Length::Short { PACKETS } else { 3 * PACKETS };
                let simulated = read(&case.scenario(flows, packets))?;
                let experiment = experiment(&simulated, simulated.run.duration);
                let run = simulate(&experiment, 1, &AtomicBool::new(false))
                    .map_err(|(_, refused)| refused)?;
                Ok(packets_of(&run))
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    let mut words = vec!["sim".into(), "--counted".into()];
    if let Some(only) = &args.only {
        words.extend(["--only".into(), only.into()]);
    }
    let counts = instructions::counts(&words)?;
    if let Some(exit) = reported(&counts, "case", args.json, args.check.as_ref())? {
        return Ok(exit);
    }
    say!("instructions for each packet simulated, on each link");
    let rows = counts.iter().flat_map(|(case, loads)| {
        loads.iter().map(|(flows, n)| {
            vec![case.clone(), flows.clone(), format!("{:.0}", *n as f64 / 100.0)]
        })
    });
    say!("{}", text::table(&["", "", "instructions"], rows));
    say!("\n{}", section(&counts));
    Ok(ExitCode::SUCCESS)
}
