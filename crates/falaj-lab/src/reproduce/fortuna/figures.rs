//! Figures 5-13: an increasing load is offered to link 1, of type B, beside link 2, of type A, with
//! a load of 50 Mbit/s. This module has the servers and the quantity of each figure, and the runs
//! that all figures share.

use super::runs::{LinkServer, Ours, ProgressWatch, SimulationEffort, VirtualLink, run};
use anyhow::Result;
use falaj_terminal::progress;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

/// Our simulated time and number of seeds; the paper does not describe the runs of its figures.
pub(super) const EFFORT: SimulationEffort = SimulationEffort { seconds: 10.0, seeds: 8 };

const STEP: u64 = 30;
const OF_A: u64 = 50;
/// Index of link 1 (type B), whose load increases, and of link 2 (type A).
pub(super) const B: usize = 0;
pub(super) const A: usize = 1;

/// Quanta of DRR, which the paper does not give: from the smallest sensible one, a packet, to the
/// bytes of a phase.
pub(super) const DRR: [LinkServer; 3] =
    [LinkServer::Drr(500), LinkServer::Drr(1500), LinkServer::Drr(3750)];
const PAPER: &[LinkServer] = &[LinkServer::PhaseWise, LinkServer::PacketWise];
const TAIL: &[LinkServer] = &[LinkServer::PacketWise, LinkServer::PacketWiseSkip];
const AGAINST_DRR: &[LinkServer] = &[LinkServer::PacketWiseSkip, DRR[0], DRR[1], DRR[2]];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    Mean,
    Max,
    Rate,
}

/// A figure of the paper.
pub(super) struct FortunaFigure {
    pub(super) no: usize,
    pub(super) title: &'static str,
    #[cfg_attr(not(feature = "plots"), expect(dead_code, reason = "for the picture"))]
    pub(super) quantity: Quantity,
    /// The links, with a panel for each.
    pub(super) links: &'static [usize],
    pub(super) servers: &'static [LinkServer],
    /// Maximum load offered to link 1, in Mbit/s.
    pub(super) until: u64,
}

const fn figure(
    no: usize,
    title: &'static str,
    quantity: Quantity,
    links: &'static [usize],
    servers: &'static [LinkServer],
) -> FortunaFigure {
    FortunaFigure { no, title, quantity, links, servers, until: if no < 12 { 600 } else { 720 } }
}

pub(super) const FIGURES: [FortunaFigure; 9] = [
    figure(5, "Average latency of the type-A link", Quantity::Mean, &[A], PAPER),
    figure(6, "Average latency of the type-B link", Quantity::Mean, &[B], PAPER),
    figure(7, "Rate of links", Quantity::Rate, &[B, A], PAPER),
    figure(8, "Maximum latency of the type-A link", Quantity::Max, &[A], PAPER),
    figure(9, "Maximum latency of the type-B link", Quantity::Max, &[B], PAPER),
    figure(
        10,
        "Average latency with and without the tail optimisation",
        Quantity::Mean,
        &[B, A],
        TAIL,
    ),
    figure(
        11,
        "Maximum latency with and without the tail optimisation",
        Quantity::Max,
        &[B, A],
        TAIL,
    ),
    figure(12, "Average latency beside DRR", Quantity::Mean, &[B, A], AGAINST_DRR),
    figure(13, "Output rates beside DRR", Quantity::Rate, &[B, A], AGAINST_DRR),
];

/// All runs, by server and load of link 1.
pub(super) struct LoadSweep {
    runs: BTreeMap<(LinkServer, u64), Vec<Option<Ours>>>,
}

impl LoadSweep {
    /// Runs the simulations for these figures, each scenario once; `None` if it was stopped.
    pub(super) fn of(
        figures: &[&FortunaFigure],
        effort: SimulationEffort,
        stop: &AtomicBool,
    ) -> Result<Option<LoadSweep>> {
        let points = |f: &&FortunaFigure| {
            let until = f.until;
            f.servers
                .iter()
                .flat_map(move |s| (0..=until / STEP).map(move |i| (*s, i * STEP)))
                .collect::<Vec<_>>()
        };
        let needed: BTreeSet<(LinkServer, u64)> = figures.iter().flat_map(points).collect();
        let bar = progress::long_bar((needed.len() * effort.seeds) as u64, "figures");
        let mut runs = BTreeMap::new();
        for (server, x) in needed {
            let links: [VirtualLink; 2] = [('B', x), ('A', OF_A)];
            let ours = run(&links, server, effort, ProgressWatch { bar: &bar, stop })?;
            if ours.is_empty() {
                bar.finish_and_clear();
                return Ok(None);
            }
            runs.insert((server, x), ours);
        }
        bar.finish_and_clear();
        Ok(Some(LoadSweep { runs }))
    }

    /// A server's curve from one offered rate to another, both included.
    pub(super) fn curve(
        &self,
        server: LinkServer,
        link: usize,
        from: u64,
        to: u64,
    ) -> Vec<(u64, &Ours)> {
        let points = self.runs.range((server, from)..=(server, to));
        points.filter_map(|((_, x), links)| Some((*x, links[link].as_ref()?))).collect()
    }

    /// One point. At `x` = 0 nothing is offered to link 1.
    pub(super) fn at(&self, server: LinkServer, link: usize, x: u64) -> &Ours {
        self.runs[&(server, x)][link].as_ref().expect("traffic was offered")
    }

    pub(super) fn points(&self) -> Vec<FigurePoint> {
        let links = |(&(server, x), links): (&(LinkServer, u64), &Vec<Option<Ours>>)| {
            let point = |link: usize| {
                let ours = links[link].as_ref()?;
                Some(FigurePoint {
                    server: server.name(),
                    x,
                    link: link + 1,
                    out: ours.out.mean,
                    out_half_width: ours.out.half_width,
                    avg: ours.avg.mean,
                    avg_half_width: ours.avg.half_width,
                    max: ours.max,
                    least_max: ours.least_max,
                    bound: ours.bound,
                })
            };
            [B, A].into_iter().filter_map(point).collect::<Vec<_>>()
        };
        self.runs.iter().flat_map(links).collect()
    }
}

/// A point of the figures: Mbit/s and us.
#[derive(Serialize)]
pub(super) struct FigurePoint {
    server: String,
    x: u64,
    link: usize,
    out: f64,
    out_half_width: Option<f64>,
    avg: f64,
    avg_half_width: Option<f64>,
    max: f64,
    least_max: f64,
    bound: Option<f64>,
}
