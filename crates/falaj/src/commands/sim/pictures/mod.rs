//! Pictures of a simulation. [`series`] turns the results into lines, bars and lanes, which
//! `falaj-pictures` draws.

mod series;

use anyhow::{Context, Result};
use falaj_pictures::{bars, chart, lanes, save};
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_sim::observer::{Every, Observer, PacketEnd};
use falaj_sim::packet_window::PacketWindow;
use falaj_sim::scenario::experiment;
use falaj_sim::time_bins::TimeBins;
use falaj_sim::{Study, simulate_watched};
use series::{PARTS, PictureInput};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Quantiles of the delay that need confidence intervals, for the picture of the distribution.
pub(crate) const SHARES: &[f64] = &series::SHARES;

/// Draws the results of all replications, and the first replication over time, into a directory.
pub(crate) fn write(out: &Path, scenario: &Scenario, study: &Study, warm_up: Span) -> Result<()> {
    std::fs::create_dir_all(out)
        .with_context(|| format!("cannot make the directory {}", out.display()))?;
    // Simulates the first replication twice more: to find when its delays are longest, and to
    // record the packets around these instants.
    let duration = study.duration();
    let (experiment, seed) = (experiment(scenario, duration), scenario.run.seed);
    let stop = AtomicBool::new(false);
    let mut bins = TimeBins::new(duration, PARTS);
    simulate_watched(&experiment, seed, &stop, &mut bins).map_err(|(_, refused)| refused)?;
    let shown = series::shown(scenario, study);
    let mut windows: Vec<PacketWindow> = Vec::new();
    for way in &shown {
        for flow in way.flows.iter().map(|shown| FlowId(shown.flow as u32)) {
            let longest = bins.flow(way.pipe, flow).and_then(|flow| flow.longest);
            windows.extend(longest.map(|longest| PacketWindow::around(way.pipe, flow, longest)));
        }
    }
    let mut all = Every(|event: PacketEnd<'_>| {
        windows.iter_mut().for_each(|window| match event {
            PacketEnd::Sent(emit) => window.sent(emit),
            PacketEnd::Lost(loss) => window.lost(loss),
        });
    });
    simulate_watched(&experiment, seed, &stop, &mut all).map_err(|(_, refused)| refused)?;
    let plan = falaj_plan::plan(scenario)?;
    let material = PictureInput {
        study,
        bins: &bins,
        windows: &windows,
        plan: &plan,
        shown: &shown,
        duration,
        warm_up,
    };
    let timeline = material.timeline();
    let mut pictures = vec![
        ("throughput", chart::svg(&material.throughput())?),
        ("backlog", chart::svg(&material.backlog())?),
        ("fairness", chart::svg(&material.fairness())?),
        ("delay-cdf", chart::svg(&material.delays(false))?),
        ("delay-ccdf", chart::svg(&material.delays(true))?),
        ("drops", bars::svg(&material.drops())?),
    ];
    if !timeline.is_empty() {
        pictures.push(("cumulative", chart::svg(&material.cumulative())?));
        pictures.push(("timeline", lanes::svg(&timeline)?));
    }
    let pictures: Vec<(String, String)> =
        pictures.into_iter().map(|(name, svg)| (name.to_owned(), svg)).collect();
    save(out, &pictures)?;
    let names: Vec<&str> = pictures.iter().map(|(name, _)| name.as_str()).collect();
    note!("{}: {}", out.display(), names.join(", "));
    Ok(())
}
