//! Rizzo's talk on dummynet and QFQ: its examples, the limits of an emulator's accuracy, the costs
//! of schedulers, and their service.
//!
//! | module | content |
//! |---|---|
//! | [`pipes`] | commands of dummynet as a network |
//! | [`examples`] | Figures 1 to 5: the talk's configurations |
//! | [`accuracy`] | Figures 6 and 7: the timer, and packets that compete for the card |
//! | [`system`] | Figure 8: the operating system |
//! | [`service`] | Figure 9: the lag of flows |
//! | [`cost`] | Figures 10 to 12: the cost of a packet |
//! | [`published`] | values measured with dummynet's own test program |

mod accuracy;
mod cost;
mod examples;
mod pipes;
mod published;
mod service;
mod system;

use super::Args;
use super::curves::{PaperFigure, Work, figure_number};
use super::verdict::{Allowed, HOLDS};
use anyhow::{Result, bail};
use falaj_sched::units::time::Span;
use std::process::ExitCode;

/// The effort of measurements on this machine.
#[derive(Clone, Copy)]
struct MeasuringEffort {
    /// Number of packets for each measured cost.
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

/// The sources of tolerances.
const WORDS: &str = "words of the talk";
const EXACT: &str =
    "worked out by hand; the tolerance is of its last digit or 1 % of a random mean";
const SHARES: &str = "worked out by hand; the tolerance is a packet of the window that is counted";
const SAMPLES: &str = "random packets; the tolerance is four standard errors of their number, and \
                       half of a sample of the profile";
const LAG: &str = "dummynet's own test program; the tolerance is one byte among equal flows. Where \
                   packets of equal finish may leave in another order, each shifts a lag by its \
                   flow's share of 1500 B, 2.5 to 75 B, and the tolerance is 100 B";
const NOISE: &str =
    "the shape of a plot, as costs are those of two programs on two machines; the limits are ours";
const LARGEST: &str = "the talk's largest cost, of a kernel on a PC of 2010: ours is at most that";
const OURS: &str = "ours, not the talk's: a bound";

const WORK: Work = Work {
    name: "rizzo",
    title: "Dummynet and QFQ, reproduced",
    source: "L. Rizzo, New Developments in Link Emulation and Packet Scheduling in FreeBSD, Linux, and Windows (Google Tech Talk, 2010)",
    setting: "The talk's slides have no numbers; its figures are counted here in the order in \
              which it comes to them. Published values are those that the talk states, and, where \
              it shows a plot or a table only, those that its own test program gives today. \
              Examples are commands of dummynet, imported. Costs are judged by their shape.",
    published: &[
        ("Figure 1", "a packet of 1500 B alone, up", Allowed::near(66.875, 0.001), "ms", EXACT),
        ("Figure 1", "a packet of 1500 B alone, down", Allowed::near(23.0, 0.001), "ms", EXACT),
        ("Figure 1", "a full line carries, up", Allowed::near(256.0, 0.5), "kbit/s", EXACT),
        ("Figure 1", "a full line carries, down", Allowed::near(4_000.0, 8.0), "kbit/s", EXACT),
        (
            "Figure 2",
            "share of the queue of weight 10 beside 20 others",
            Allowed::near(0.3333, 0.0005),
            "",
            SHARES,
        ),
        (
            "Figure 2",
            "these 20: largest over smallest share",
            Allowed::near(1.0, 0.013),
            "",
            SHARES,
        ),
        ("Figure 3", "packets that took the longer pipe", Allowed::near(30.0, 0.82), "%", SAMPLES),
        (
            "Figure 3",
            "overtaken, with a packet each 45 ms",
            Allowed::near(21.0, 0.73),
            "%",
            SAMPLES,
        ),
        (
            "Figure 3",
            "overtaken, with gaps above the pipes' difference in delay",
            Allowed::near(0.0, 0.0),
            "%",
            SAMPLES,
        ),
        (
            "Figure 3",
            "largest difference from the value by hand",
            Allowed::near(0.0, 0.82),
            "%",
            SAMPLES,
        ),
        ("Figure 4", "half of the packets took at most", Allowed::near(2.0, 0.02), "ms", SAMPLES),
        ("Figure 4", "nine of ten took at most", Allowed::near(5.0, 0.26), "ms", SAMPLES),
        ("Figure 4", "lost", Allowed::near(2.0, 0.06), "%", SAMPLES),
        ("Figure 4", "packets in a second of a full link", Allowed::near(222.7, 1.5), "", SAMPLES),
        ("Figure 5", "the slowest of 1000 customers", Allowed::near(5.0, 0.015), "Mbit/s", SHARES),
        ("Figure 5", "the fastest of 1000 customers", Allowed::near(5.0, 0.015), "Mbit/s", SHARES),
        (
            "Figure 5",
            "longest delay of a call among 1000 customers, over that of one alone",
            Allowed::near(1.0, 0.01),
            "",
            SHARES,
        ),
        ("Figure 6", "largest error, ticks of 1 ms", Allowed::near(1_000.0, 10.0), "us", EXACT),
        ("Figure 6", "mean error, ticks of 1 ms", Allowed::near(500.0, 10.0), "us", EXACT),
        ("Figure 6", "largest error, 50,000 ticks a second", Allowed::near(20.0, 0.2), "us", EXACT),
        ("Figure 6", "largest error without a tick", Allowed::near(0.0, 0.0), "us", EXACT),
        ("Figure 7", "two pipes, a card of 1 Gbit/s", Allowed::near(12.0, 0.01), "us", EXACT),
        ("Figure 7", "eight pipes, a card of 1 Gbit/s", Allowed::near(84.0, 0.01), "us", EXACT),
        ("Figure 7", "two pipes, a card of 100 Mbit/s", Allowed::near(120.0, 0.01), "us", EXACT),
        ("Figure 7", "eight pipes, a card of 100 Mbit/s", Allowed::near(840.0, 0.01), "us", EXACT),
        (
            "Figure 8",
            "at rest half of the packets are handed over within 100 us",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 8",
            "at rest 99 of 100 packets are handed over within 100 us",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 8",
            "on a busy machine these 99 of 100 packets are later",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        ("Figure 9", "QFQ, 10 equal flows", Allowed::near(5_400.0, 1.0), "B", LAG),
        ("Figure 9", "QFQ, 64 equal flows", Allowed::near(5_906.0, 1.0), "B", LAG),
        ("Figure 9", "QFQ, 10 + 10 x 1", Allowed::near(4_125.0, 100.0), "B", LAG),
        ("Figure 9", "QFQ, 20 + 20 x 1", Allowed::near(3_188.0, 100.0), "B", LAG),
        ("Figure 9", "QFQ, 50 + 50 x 1", Allowed::near(2_610.0, 100.0), "B", LAG),
        ("Figure 9", "QFQ, 100 + 500 x 1", Allowed::near(4_503.0, 100.0), "B", LAG),
        ("Figure 9", "QFQ, 512 x 1 + 100", Allowed::near(4_534.0, 100.0), "B", LAG),
        ("Figure 9", "QFQ, 100 of 64 B + 100 x 1", Allowed::near(2_229.0, 100.0), "B", LAG),
        ("Figure 9", "QFQ, 64000 + 50 x 1280", Allowed::near(3_345.0, 1.0), "B", LAG),
        (
            "Figure 9",
            "QFQ keeps 3 phi sigma + 2 phi L, of nine mixes",
            Allowed::near(9.0, 0.0).bound(),
            "",
            OURS,
        ),
        ("Figure 9", "QFQ is at most five segments behind", Allowed::words().bound(), HOLDS, OURS),
        (
            "Figure 9",
            "WF2Q+ is at most one segment behind, at its departures",
            Allowed::words().bound(),
            HOLDS,
            OURS,
        ),
        (
            "Figure 9",
            "QFQ is no farther behind than the one that dummynet ships, of nine mixes",
            Allowed::near(9.0, 0.0).bound(),
            "",
            OURS,
        ),
        (
            "Figure 9",
            "DRR, 50 + 50 x 1 that are never empty",
            Allowed::near(36_750.0, 750.0),
            "B",
            LAG,
        ),
        (
            "Figure 9",
            "QFQ keeps its bound under the worst arrivals of 5000 tried",
            Allowed::words().bound(),
            HOLDS,
            OURS,
        ),
        (
            "Figure 9",
            "WF2Q+ keeps its bound under the worst arrivals of 5000 tried",
            Allowed::words().bound(),
            HOLDS,
            OURS,
        ),
        ("Figure 10", "DRR at 1k flows, over 16", Allowed::near(1.0, 0.3), "", NOISE),
        ("Figure 10", "QFQ at 1k flows, over 16", Allowed::near(1.0, 0.3), "", NOISE),
        ("Figure 10", "QFQ's own cost over DRR's, at 1k flows", Allowed::near(2.0, 1.0), "", NOISE),
        (
            "Figure 10",
            "at 1k flows each costs more: none, FIFO, DRR, QFQ",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        ("Figure 10", "WF2Q+ at 1k flows, over 16", Allowed::near(1.95, 0.3), "", NOISE),
        (
            "Figure 10",
            "headers and classifier with 20 rules",
            Allowed::printed_most(1_000.0),
            "ns",
            LARGEST,
        ),
        ("Figure 10", "emulation with 1000 pipes", Allowed::printed_most(1_500.0), "ns", LARGEST),
        (
            "Figure 10",
            "classifier, scheduling and emulation together",
            Allowed::printed_most(3_000.0),
            "ns",
            LARGEST,
        ),
        ("Figure 11", "DRR at 1k flows, over 16", Allowed::near(1.15, 0.3), "", NOISE),
        ("Figure 11", "QFQ at 1k flows, over 16", Allowed::near(1.04, 0.3), "", NOISE),
        ("Figure 11", "QFQ's own cost over DRR's, at 1k flows", Allowed::near(2.0, 1.0), "", NOISE),
        (
            "Figure 11",
            "at 1k flows each costs more: none, FIFO, DRR, QFQ",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 11",
            "WF2Q+ grows: at 1k flows over 16, beyond DRR's",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 11",
            "QFQ alone in its scheduler, over 16 flows",
            Allowed::near(1.48, 0.2),
            "",
            NOISE,
        ),
        (
            "Figure 11",
            "KPS's own cost over QFQ's, by our timer wheels",
            Allowed::near(3.6, 0.5),
            "",
            NOISE,
        ),
        (
            "Figure 12",
            "QFQ, nearly empty: largest over smallest of nine mixes",
            Allowed::near(1.12, 0.3),
            "",
            NOISE,
        ),
        ("Figure 12", "QFQ, filled: the same", Allowed::near(1.71, 0.6), "", NOISE),
        (
            "Figure 12",
            "WF2Q+ over QFQ among 8 equal flows, filled",
            Allowed::near(1.58, 0.5),
            "",
            NOISE,
        ),
        (
            "Figure 12",
            "WF2Q+ costs twice as much as QFQ among 39.9k flows, filled, and more",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
    ],
    seeds: "Simulations are determined by their seed, 1: the same command gives the same numbers, \
            bit for bit. Measurements, Figures 8 and 10 to 12, are of one machine at one time.",
    experiment: |label| {
        let live = if is_measured(label) { "--live " } else { "" };
        format!("{live}--figure {}", figure_number(label))
    },
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
        bail!("this talk has figures only: leave out --beyond, --tables and --scenario");
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
        _ => bail!("the talk's {label} is not reproduced"),
    };
    label.clone_into(&mut figure.label);
    Ok(figure)
}
