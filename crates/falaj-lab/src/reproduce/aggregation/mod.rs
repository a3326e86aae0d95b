//! The paper on aggregation: packets in batches between a driver domain and its virtual machines
//! (Figures 1 to 4), and streams that differ in all parameters.

mod figures;
mod live;
mod unequal;

use super::Args;
use super::curves::{Work, figure_number};
use super::verdict::Allowed;
use anyhow::{Result, bail};
use live::Live;
use std::process::ExitCode;

/// The sources of tolerances.
const DIGITS: &str = "half of the unit of the second digit";
const MODEL: &str = "words of the paper, \"about\" the same; the limit, 10 %, is ours";
const STATIC: &str = "words of the paper, \"almost static\"; the limit, 10 %, is ours";
const SHARPLY: &str = "words of the paper, \"drastically\"; the limit, twice, is ours";
const STEP: &str = "half of the distance of 100 Kp/s between rates";
const EXACT: &str = "as stated: from the first rate to this one";
const ONE: &str = "half of the unit of the last digit: nothing is random";

const MANY: &str = "a bound of ours; 1.5 of a 95 % interval, because some are compared at once";

/// The label of the experiment with streams that differ in all parameters.
const UNEQUAL: &str = "Unequal streams";

const WORK: Work = Work {
    name: "aggregation",
    title: "Packet aggregation, reproduced",
    source: "Packet aggregation between a driver domain and its virtual machines, and its dimensioning (IFIP, 2013), Figures 1-4",
    setting: "A batch costs 5.72 us, and 0.533 us for each packet. These two values follow from \
              80 Kp/s one by one and 800 Kp/s in batches of 62, over two transfers; nothing else \
              is fitted. The time in the card and its driver is not included.",
    published: &[
        ("Figure 1", "largest forwarding rate", Allowed::near(80.0, 0.5), "Kp/s", DIGITS),
        ("Figure 1", "mean delay below saturation", Allowed::near(120.0, 5.0), "us", DIGITS),
        (
            "Figure 1",
            "the delay stays: delay at 100 Kp/s over delay at 70",
            Allowed::within(0.9, 1.1),
            "",
            STATIC,
        ),
        (
            "Figure 1",
            "the delay stays, also with room for two packets",
            Allowed::within(0.9, 1.1),
            "",
            STATIC,
        ),
        (
            "Figure 1",
            "the largest jitter rises: jitter at 100 Kp/s over jitter at 70",
            Allowed::least(2.0),
            "",
            SHARPLY,
        ),
        (
            "Figure 1",
            "the largest jitter rises, also with room for two packets",
            Allowed::least(2.0),
            "",
            SHARPLY,
        ),
        ("Figure 2", "largest forwarding rate", Allowed::near(800.0, 5.0), "Kp/s", DIGITS),
        ("Figure 2", "mean delay at 100 Kp/s", Allowed::near(280.0, 5.0), "us", DIGITS),
        ("Figure 2", "largest mean delay", Allowed::near(400.0, 5.0), "us", DIGITS),
        ("Figure 2", "the delay falls from", Allowed::near(600.0, 50.0), "Kp/s", STEP),
        (
            "Figure 2",
            "the largest jitter rises: jitter at 900 Kp/s over jitter at 700",
            Allowed::least(2.0),
            "",
            SHARPLY,
        ),
        (
            "Figure 3",
            "the model is above the measured up to",
            Allowed::near(600.0, 0.0),
            "Kp/s",
            EXACT,
        ),
        ("Figure 3", "measured over modelled at 800 Kp/s", Allowed::near(1.0, 0.1), "", MODEL),
        ("Figure 4", "size for 300 us", Allowed::near(160.0, 0.5), "packets", ONE),
        (
            "Figure 4",
            "delay of batches of 160 packets, as printed",
            Allowed::near(300.0, 0.5),
            "us",
            ONE,
        ),
        (
            UNEQUAL,
            "mean wait as printed, over the simulated, at a load of 0.8",
            Allowed::near(1.0, 0.1),
            "",
            MODEL,
        ),
        (
            UNEQUAL,
            "mean wait by matrices: largest distance from the simulated",
            Allowed::most(1.5).bound(),
            "of its 95 % interval",
            MANY,
        ),
        (
            UNEQUAL,
            "delays of five unequal services, packet by packet: largest distance",
            Allowed::most(1.5).bound(),
            "of its 95 % interval",
            MANY,
        ),
    ],
    seeds: "Simulations are determined by their seed, 1: the same command gives the same numbers, \
            bit for bit. Measurements, with --live, are of one machine at one time.",
    experiment: |label| match label {
        UNEQUAL => "--beyond".into(),
        _ => format!("--figure {}", figure_number(label)),
    },
    known: include_str!("../../../data/aggregation-known.json"),
};

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    if args.tables || args.scenario.is_some() {
        bail!("this paper has figures only: leave out --tables and --scenario");
    }
    if args.beyond && args.live {
        bail!("--live is for Figures 3 and 4: leave out --live or --beyond");
    }
    if args.live && args.figure.is_some_and(|no| no < 3) {
        bail!("--live is for Figures 3 and 4: leave out --live or the figure");
    }
    const ALL: [&str; 5] = ["Figure 1", "Figure 2", "Figure 3", "Figure 4", UNEQUAL];
    let wanted = match args.figure {
        Some(no @ 1..=4) => &ALL[no - 1..no],
        Some(no) => bail!("there is no figure {no}: 1 to 4"),
        None if args.beyond => &ALL[4..],
        None if args.live => &ALL[2..4],
        None if args.figures => &ALL[..4],
        None => &ALL[..],
    };
    let live = Live::asked(args);
    WORK.reproduce(args, wanted, |label| match label {
        UNEQUAL => unequal::figure(),
        _ => figures::of(label, live),
    })
}
