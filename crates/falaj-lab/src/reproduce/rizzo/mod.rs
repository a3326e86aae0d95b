//! Rizzo's talk on dummynet and QFQ: its examples, the limits of an emulator's accuracy, the costs
//! of schedulers, and their service.
//!
//! | module | what it holds |
//! |---|---|
//! | [`pipes`] | commands of dummynet as a network |
//! | [`examples`] | Figures 1 to 5: the talk's configurations |
//! | [`accuracy`] | Figures 6 and 7: the timer, and packets that compete for the card |
//! | [`system`] | Figure 8: the operating system |
//! | [`service`] | Figure 9: the lag of flows |
//! | [`cost`] | Figures 10 to 12: the cost of a packet |
//! | [`published`] | figures of dummynet's own test program |

mod accuracy;
mod cost;
mod examples;
mod pipes;
mod published;
mod service;
mod system;

use super::Args;
use super::curves::{PaperFigure, Work};
use anyhow::{Result, bail};
use falaj_sched::units::time::Span;
use std::process::ExitCode;

/// The effort of measurements on this machine.
#[derive(Clone, Copy)]
struct MeasuringEffort {
    /// Number of packets for each figure of a cost.
    pairs: u64,
    repeat: usize,
    /// Time for which real packets are sent.
    live: Span,
}

impl MeasuringEffort {
    const FULL: MeasuringEffort =
        MeasuringEffort { pairs: 1_000_000, repeat: 7, live: Span::from_secs(5) };
    const QUICK: MeasuringEffort =
        MeasuringEffort { pairs: 100_000, repeat: 7, live: Span::from_secs(1) };
}

const WORK: Work = Work {
    name: "rizzo",
    title: "Dummynet and QFQ, reproduced",
    source: "L. Rizzo, New Developments in Link Emulation and Packet Scheduling in FreeBSD, Linux, and Windows (Google Tech Talk, 2010)",
    setting: "The talk's slides have no numbers; its figures are counted here in the order in \
              which it comes to them. What is published is what the talk states, and, where it \
              shows a plot or a table only, what its own test program gives today. Examples are \
              commands of dummynet, imported. Costs are judged by their shape.",
    published: &[
        ("Figure 1", "a packet of 1500 B alone, up", 66.875, 0.001, "ms"),
        ("Figure 1", "a packet of 1500 B alone, down", 23.0, 0.001, "ms"),
        ("Figure 1", "a full line carries, up", 256.0, 0.5, "kbit/s"),
        ("Figure 1", "a full line carries, down", 4_000.0, 8.0, "kbit/s"),
        ("Figure 2", "share of the queue of weight 10 beside 20 others", 0.3333, 0.002, ""),
        ("Figure 2", "these 20: largest over smallest share", 1.0, 0.02, ""),
        ("Figure 3", "packets that took the longer pipe", 30.0, 1.0, "%"),
        ("Figure 3", "overtaken, of a packet each 45 ms", 21.0, 1.0, "%"),
        ("Figure 3", "overtaken where gaps are longer than the pipes differ", 0.0, 0.0, "%"),
        ("Figure 3", "farthest from what is worked out by hand", 0.0, 1.0, "%"),
        ("Figure 4", "half of the packets took at most", 2.0, 0.1, "ms"),
        ("Figure 4", "nine of ten took at most", 5.0, 0.3, "ms"),
        ("Figure 4", "lost", 2.0, 0.3, "%"),
        ("Figure 4", "packets in a second of a full link", 222.7, 3.0, ""),
        ("Figure 5", "the slowest of 1000 customers", 5.0, 0.05, "Mbit/s"),
        ("Figure 5", "the fastest of 1000 customers", 5.0, 0.05, "Mbit/s"),
        (
            "Figure 5",
            "longest delay of a call among 1000 customers, over that of one alone",
            1.0,
            0.01,
            "",
        ),
        ("Figure 6", "largest error, ticks of 1 ms", 1_000.0, 10.0, "us"),
        ("Figure 6", "mean error, ticks of 1 ms", 500.0, 10.0, "us"),
        ("Figure 6", "largest error, 50,000 ticks a second", 20.0, 0.2, "us"),
        ("Figure 6", "largest error without a tick", 0.0, 0.0, "us"),
        ("Figure 7", "two pipes, a card of 1 Gbit/s", 12.0, 0.01, "us"),
        ("Figure 7", "eight pipes, a card of 1 Gbit/s", 84.0, 0.01, "us"),
        ("Figure 7", "two pipes, a card of 100 Mbit/s", 120.0, 0.01, "us"),
        ("Figure 7", "eight pipes, a card of 100 Mbit/s", 840.0, 0.01, "us"),
        ("Figure 8", "at rest half of the packets are handed over within 100 us", 1.0, 0.0, ""),
        ("Figure 8", "at rest 99 of 100 are", 1.0, 0.0, ""),
        ("Figure 8", "on a busy machine these 99 are later", 1.0, 0.0, ""),
        ("Figure 9", "QFQ, 10 equal flows", 5_400.0, 1.0, "B"),
        ("Figure 9", "QFQ, 64 equal flows", 5_906.0, 1.0, "B"),
        ("Figure 9", "QFQ, 10 + 10 x 1", 4_125.0, 100.0, "B"),
        ("Figure 9", "QFQ, 20 + 20 x 1", 3_188.0, 100.0, "B"),
        ("Figure 9", "QFQ, 50 + 50 x 1", 2_610.0, 100.0, "B"),
        ("Figure 9", "QFQ, 100 + 500 x 1", 4_503.0, 100.0, "B"),
        ("Figure 9", "QFQ, 512 x 1 + 100", 4_534.0, 100.0, "B"),
        ("Figure 9", "QFQ, 100 of 64 B + 100 x 1", 2_229.0, 100.0, "B"),
        ("Figure 9", "QFQ, 64000 + 50 x 1280", 3_345.0, 1.0, "B"),
        ("Figure 9", "QFQ keeps 3 phi sigma + 2 phi L, of nine mixes", 9.0, 0.0, ""),
        ("Figure 9", "QFQ is at most five segments behind", 1.0, 0.0, ""),
        ("Figure 9", "WF2Q+ is at most one segment behind, at its departures", 1.0, 0.0, ""),
        (
            "Figure 9",
            "QFQ is no farther behind than the one that dummynet ships, of nine mixes",
            9.0,
            0.0,
            "",
        ),
        ("Figure 9", "DRR, 50 + 50 x 1 that are never empty", 36_750.0, 750.0, "B"),
        ("Figure 9", "QFQ keeps its bound under the worst arrivals of 5000 tried", 1.0, 0.0, ""),
        ("Figure 9", "WF2Q+ keeps its own", 1.0, 0.0, ""),
        ("Figure 10", "DRR at 1k flows, over 16", 1.0, 0.3, ""),
        ("Figure 10", "QFQ at 1k flows, over 16", 1.0, 0.3, ""),
        ("Figure 10", "QFQ's own cost over DRR's, at 1k flows", 2.0, 1.0, ""),
        ("Figure 10", "at 1k flows each costs more: none, FIFO, DRR, QFQ", 1.0, 0.0, ""),
        ("Figure 10", "WF2Q+ at 1k flows, over 16", 1.95, 0.3, ""),
        ("Figure 11", "DRR at 1k flows, over 16", 1.15, 0.3, ""),
        ("Figure 11", "QFQ at 1k flows, over 16", 1.04, 0.3, ""),
        ("Figure 11", "QFQ's own cost over DRR's, at 1k flows", 2.0, 1.0, ""),
        ("Figure 11", "at 1k flows each costs more: none, FIFO, DRR, QFQ", 1.0, 0.0, ""),
        ("Figure 11", "WF2Q+ grows: at 1k flows over 16, beyond DRR's", 1.0, 0.0, ""),
        ("Figure 11", "QFQ alone in its scheduler, over 16 flows", 1.48, 0.2, ""),
        ("Figure 11", "KPS's own cost over QFQ's", 3.6, 0.5, ""),
        ("Figure 12", "QFQ, nearly empty: largest over smallest of nine mixes", 1.12, 0.3, ""),
        ("Figure 12", "QFQ, filled: the same", 1.71, 0.6, ""),
        ("Figure 12", "WF2Q+ over QFQ among 8 equal flows, filled", 1.58, 0.5, ""),
        (
            "Figure 12",
            "WF2Q+ costs twice as much as QFQ among 39.9k flows, filled, and more",
            1.0,
            0.0,
            "",
        ),
    ],
    seeds: "Simulations are determined by their seed, 1: the same command gives the same numbers, \
            bit for bit. Measurements, Figures 8 and 10 to 12, are of one machine at one time.",
    known: include_str!("../../../data/rizzo-known.json"),
};

const ALL: [&str; 12] = [
    "Figure 1",
    "Figure 2",
    "Figure 3",
    "Figure 4",
    "Figure 5",
    "Figure 6",
    "Figure 7",
    "Figure 8",
    "Figure 9",
    "Figure 10",
    "Figure 11",
    "Figure 12",
];

/// Returns true if the figure is measured on this machine.
fn is_measured(label: &str) -> bool {
    matches!(label, "Figure 8" | "Figure 10" | "Figure 11" | "Figure 12")
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    if args.beyond || args.tables || args.scenario.is_some() {
        bail!("of this talk there are figures alone: take --beyond, --tables and --scenario away");
    }
    let wanted: Vec<&str> = match args.figure {
        Some(no @ 1..=12) if !args.live && is_measured(ALL[no - 1]) => {
            bail!("figure {no} is measured on this machine: add --live")
        }
        Some(no @ 1..=12) => vec![ALL[no - 1]],
        Some(no) => bail!("there is no figure {no}: 1 to 12"),
        None => ALL.into_iter().filter(|label| args.live || !is_measured(label)).collect(),
    };
    let effort = if args.quick { MeasuringEffort::QUICK } else { MeasuringEffort::FULL };
    WORK.reproduce(args, &wanted, |label| of(label, effort))
}

fn of(label: &str, effort: MeasuringEffort) -> Result<PaperFigure> {
    let mut figure = match label {
        "Figure 1" => examples::dsl()?,
        "Figure 2" => examples::weights()?,
        "Figure 3" => examples::reordering()?,
        "Figure 4" => examples::profile()?,
        "Figure 5" => examples::customers()?,
        "Figure 6" => accuracy::timer()?,
        "Figure 7" => accuracy::competing()?,
        "Figure 8" => system::load(effort)?,
        "Figure 9" => service::figure()?,
        "Figure 10" => cost::equal(effort, false)?,
        "Figure 11" => cost::equal(effort, true)?,
        "Figure 12" => cost::mixes(effort)?,
        _ => bail!("the talk has no {label} among what is reproduced"),
    };
    label.clone_into(&mut figure.label);
    Ok(figure)
}
