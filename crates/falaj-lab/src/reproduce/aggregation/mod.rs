//! The aggregation paper: packets in batches between a driver domain and its virtual machines,
//! Figures 1-4.

mod figures;
mod live;

use super::Args;
use super::curves::Work;
use anyhow::{Result, bail};
use live::Live;
use std::process::ExitCode;

const WORK: Work = Work {
    name: "aggregation",
    title: "Packet aggregation, reproduced",
    source: "Packet aggregation between a driver domain and its virtual machines, and its dimensioning (IFIP, 2013), Figures 1-4",
    setting: "A batch costs 5.72 us and 0.533 us for each packet, which is what 80 Kp/s one by \
              one and 800 Kp/s in batches of 62 come to over two transfers; nothing else is \
              fitted. The way through the card is in none of it.",
    published: &[
        ("Figure 1", "largest forwarding rate", 80.0, 4.0, "Kp/s"),
        ("Figure 1", "mean delay below saturation", 120.0, 12.0, "us"),
        ("Figure 2", "largest forwarding rate", 800.0, 40.0, "Kp/s"),
        ("Figure 2", "mean delay at 100 Kp/s", 280.0, 28.0, "us"),
        ("Figure 2", "largest mean delay", 400.0, 40.0, "us"),
        ("Figure 2", "the delay falls from", 600.0, 50.0, "Kp/s"),
        ("Figure 3", "the model is above the measured up to", 600.0, 0.0, "Kp/s"),
        ("Figure 3", "measured over modelled at 800 Kp/s", 1.0, 0.1, ""),
        ("Figure 4", "size for 300 us", 160.0, 1.0, "packets"),
        ("Figure 4", "delay of batches of 160 packets, as printed", 300.0, 3.0, "us"),
    ],
    seeds: "Simulations are determined by their seed, 1: the same command gives the same numbers, \
            bit for bit. Measurements, with --live, are of one machine at one time.",
    known: include_str!("../../../data/aggregation-known.json"),
};

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    if args.tables || args.beyond || args.scenario.is_some() {
        bail!("this paper has figures alone: take --tables, --beyond and --scenario away");
    }
    if args.live && args.figure.is_some_and(|no| no < 3) {
        bail!("--live is for Figures 3 and 4: take it or the figure away");
    }
    const ALL: [&str; 4] = ["Figure 1", "Figure 2", "Figure 3", "Figure 4"];
    let wanted = match args.figure {
        Some(no @ 1..=4) => &ALL[no - 1..no],
        Some(no) => bail!("there is no figure {no}: 1 to 4"),
        None if args.live => &ALL[2..],
        None => &ALL[..],
    };
    let live = Live::asked(args);
    WORK.reproduce(args, wanted, |label| figures::of(label, live))
}
