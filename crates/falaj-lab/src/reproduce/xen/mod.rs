//! Adamczyk and Chydzinski on Xen: their experiments 1 to 5, and the experiment on their
//! improvement (Figures 4 to 9). The experiments run with real packets between virtual adapters in
//! namespaces or guests, and in simulation.
//!
//! | module | content |
//! |---|---|
//! | [`testbed`] | the testbed as a scenario |
//! | [`fixture`] | running experiments |
//! | [`figures`] | the figures |

mod figures;
mod fixture;
mod testbed;

use super::Args;
use super::curves::{Work, figure_number};
use super::verdict::{Allowed, HOLDS};
use crate::adapter_traffic::Guests;
use anyhow::{Result, bail};
use fixture::{Fixture, Thoroughness};
use std::process::ExitCode;

/// Ratio of goodput to the configured rate: rates are configured in IP packets and received as
/// payload, 1472 of 1500 B.
const SET: f64 = 0.981;

const OF_1: &str = "VM 1's actual rate, over the rate that is set";
const OF_2: &str = "VM 2's actual rate, over the rate that is set";
const AFTER: &str = "VM 1's rate once VM 2 sends, over that before, simulated";
const BESIDE: &str = "VM 1's measured rate, over that simulated";
const GROW: &str = "the intervals grow with the rate, simulated";
const SHARE_2: &str = "VM 2's share, simulated";
const LEAST: &str = "smallest share of a machine in any second, simulated";
const LEAST_SENT: &str = "smallest share of a machine in any second, at the link's output";
const RATIO: &str = "VM 2's rate over VM 1's, simulated";
const TURNS: &str = "the same with netback's turns by adapter";
const TURNS_SENT: &str = "the same with netback's turns by adapter, at the link's output";
const LEAST_TURNS: &str =
    "smallest share of a machine in any second with netback's turns by adapter, simulated";
const LEAST_TURNS_SENT: &str = "smallest share of a machine in any second with netback's turns by \
                                adapter, at the link's output";
const RATIO_SENT: &str = "VM 2's rate over VM 1's, at the link's output";
const RATIO_SAME: &str = "the same, simulated";
const DISK: &str = "VM 1's rate while the disk is written to, over that before";
const DISK_LINK: &str = "VM 1's rate while the disk is written to, over what the link carries";
const WEIGHTS_SENT: &str =
    "largest distance of a second's share from its weight, at the link's output";
const FIRST_SENT: &str = "the same in the first 100 ms after a change";
const WEIGHTS: &str = "largest distance of a second's share from its weight, simulated";
const FIRST: &str = "the same in the first 100 ms after a change, simulated";

const IN_GUESTS: &str = "Two virtual machines under QEMU, each with a virtio-net card that is a \
                         virtual adapter (vhost-user); datagrams of 1500 B go over a link of 25 \
                         Mbit/s to a network namespace: all rates are a quarter of the paper's, \
                         as processors that are emulated send no faster, and are multiplied by \
                         four here. Figures 4 and 5 ten times, the others once, in seconds of 300 \
                         ms (with --quick all once, some in 100 ms). Rates are those of payload. \
                         Each figure with what the paper had, and with what falaj has in its \
                         place (\"ours\"). Simulated beside measured: the same scenario, the same \
                         scheduler. The paper prints curves and no numbers: the published values \
                         here are those that its text states, and for ours the guaranteed ones; \
                         in Figures 6a and 6b, whose senders are not the paper's, those of the \
                         scheduler's model.";

/// The sources of tolerances.
const WORDS: &str = "words of the paper";
const RATE: &str =
    "a packet in each of Xen's periods of 50 ms, and one of the 38 periods of the quick run";
const CONSTANT: &str = "one of Xen's periods of 50 ms in the 4 s before, and one in the 19 s after";
const SHARES: &str =
    "four standard errors of a share of 40,000 packets, those of 19 s at the rate of the guests";
const HALF: &str = "four packets of the 417 of the shortest second, which is 50 ms long";
const STARVES: &str =
    "words of the paper, \"the total throughput\"; four packets of a second's 417";
const TIMES: &str =
    "four standard errors of a ratio of 40,000 packets, those of 19 s at the rate of the guests";
const FALLS: &str = "words of the paper, \"a strong impact\"; the limit is ours";
const WEIGHT: &str = "half of a turn: 31 packets take 3.8 ms, and 100 ms are looked at";
const OURS: &str = "ours, not the paper's: a guarantee, or measured and simulated values compared";

const WORK: Work = Work {
    name: "xen",
    title: "Virtual adapters in Xen, reproduced",
    source: "B. Adamczyk and A. Chydzinski, On the Performance Isolation Across Virtual Network Adapters in Xen (2011): Figures 4-9",
    setting: "Two virtual machines are two network namespaces, each behind a virtual adapter; \
              datagrams of 1500 B go over a link of 100 Mbit/s to a third. Rates are those of \
              payload. Each figure with what the paper had, and with what falaj has in its place \
              (\"ours\"). Simulated beside measured: the same scenario, the same scheduler. The \
              paper prints curves and no numbers: the published values here are those that its \
              text states, and for ours the guaranteed ones; in Figures 6a and 6b, whose senders \
              are not the paper's, those of the scheduler's model.",
    published: &[
        ("Figure 4a", OF_1, Allowed::near(SET, 0.036), "", RATE),
        ("Figure 4a", OF_2, Allowed::near(SET, 0.036), "", RATE),
        ("Figure 4a", AFTER, Allowed::near(1.0, 0.015), "", CONSTANT),
        ("Figure 4a", BESIDE, Allowed::near(1.0, 0.04).bound(), "", OURS),
        ("Figure 4a ours", OF_1, Allowed::near(SET, 0.02).bound(), "", OURS),
        ("Figure 4a ours", OF_2, Allowed::near(SET, 0.02).bound(), "", OURS),
        ("Figure 4a ours", AFTER, Allowed::near(1.0, 0.01).bound(), "", OURS),
        ("Figure 4a ours", BESIDE, Allowed::near(1.0, 0.02).bound(), "", OURS),
        ("Figure 4b", OF_1, Allowed::near(SET, 0.036), "", RATE),
        ("Figure 4b", OF_2, Allowed::near(SET, 0.036), "", RATE),
        ("Figure 4b", AFTER, Allowed::near(1.0, 0.015), "", CONSTANT),
        ("Figure 4b", BESIDE, Allowed::near(1.0, 0.04).bound(), "", OURS),
        ("Figure 4b ours", OF_1, Allowed::near(SET, 0.02).bound(), "", OURS),
        ("Figure 4b ours", OF_2, Allowed::near(SET, 0.02).bound(), "", OURS),
        ("Figure 4b ours", AFTER, Allowed::near(1.0, 0.01).bound(), "", OURS),
        ("Figure 4b ours", BESIDE, Allowed::near(1.0, 0.02).bound(), "", OURS),
        ("Figure 4c", OF_1, Allowed::near(SET, 0.036), "", RATE),
        ("Figure 4c", OF_2, Allowed::near(SET, 0.036), "", RATE),
        ("Figure 4c", AFTER, Allowed::near(1.0, 0.015), "", CONSTANT),
        ("Figure 4c", BESIDE, Allowed::near(1.0, 0.04).bound(), "", OURS),
        ("Figure 4c ours", OF_1, Allowed::near(SET, 0.02).bound(), "", OURS),
        ("Figure 4c ours", OF_2, Allowed::near(SET, 0.02).bound(), "", OURS),
        ("Figure 4c ours", AFTER, Allowed::near(1.0, 0.01).bound(), "", OURS),
        ("Figure 4c ours", BESIDE, Allowed::near(1.0, 0.02).bound(), "", OURS),
        ("Figure 4d", OF_1, Allowed::near(SET, 0.036), "", RATE),
        ("Figure 4d", OF_2, Allowed::near(SET, 0.036), "", RATE),
        ("Figure 4d", AFTER, Allowed::near(1.0, 0.015), "", CONSTANT),
        ("Figure 4d", BESIDE, Allowed::near(1.0, 0.04).bound(), "", OURS),
        ("Figure 4d", GROW, Allowed::words(), HOLDS, WORDS),
        ("Figure 4d ours", OF_1, Allowed::near(SET, 0.02).bound(), "", OURS),
        ("Figure 4d ours", OF_2, Allowed::near(SET, 0.02).bound(), "", OURS),
        ("Figure 4d ours", AFTER, Allowed::near(1.0, 0.01).bound(), "", OURS),
        ("Figure 4d ours", BESIDE, Allowed::near(1.0, 0.02).bound(), "", OURS),
        ("Figure 5", OF_1, Allowed::near(SET, 0.036), "", RATE),
        ("Figure 5", OF_2, Allowed::near(SET, 0.036), "", RATE),
        ("Figure 5", AFTER, Allowed::near(1.0, 0.015), "", CONSTANT),
        ("Figure 5", BESIDE, Allowed::near(1.0, 0.04).bound(), "", OURS),
        ("Figure 5 ours", OF_1, Allowed::near(SET, 0.02).bound(), "", OURS),
        ("Figure 5 ours", OF_2, Allowed::near(SET, 0.02).bound(), "", OURS),
        ("Figure 5 ours", AFTER, Allowed::near(1.0, 0.01).bound(), "", OURS),
        ("Figure 5 ours", BESIDE, Allowed::near(1.0, 0.02).bound(), "", OURS),
        ("Figure 6a", SHARE_2, Allowed::near(0.5, 0.01), "", SHARES),
        ("Figure 6a", LEAST_TURNS_SENT, Allowed::near(0.5, 0.01), "", HALF),
        ("Figure 6a", LEAST_TURNS, Allowed::near(0.5, 0.01), "", HALF),
        ("Figure 6a ours", LEAST_SENT, Allowed::near(0.5, 0.01).bound(), "", OURS),
        ("Figure 6a ours", LEAST, Allowed::near(0.5, 0.01).bound(), "", OURS),
        ("Figure 6b", SHARE_2, Allowed::near(0.333, 0.01), "", SHARES),
        ("Figure 6b", LEAST_TURNS_SENT, Allowed::near(0.5, 0.01), "", HALF),
        ("Figure 6b", LEAST_TURNS, Allowed::near(0.5, 0.01), "", HALF),
        ("Figure 6b ours", LEAST_SENT, Allowed::near(0.5, 0.01).bound(), "", OURS),
        ("Figure 6b ours", LEAST, Allowed::near(0.5, 0.01).bound(), "", OURS),
        ("Figure 6c", LEAST, Allowed::near(0.0, 0.01), "", STARVES),
        ("Figure 6c", LEAST_TURNS_SENT, Allowed::near(0.0, 0.01), "", STARVES),
        ("Figure 6c", LEAST_TURNS, Allowed::near(0.0, 0.01), "", STARVES),
        ("Figure 6c", LEAST_SENT, Allowed::near(0.0, 0.01), "", STARVES),
        ("Figure 6c ours", LEAST_SENT, Allowed::near(0.5, 0.01).bound(), "", OURS),
        ("Figure 6c ours", LEAST, Allowed::near(0.5, 0.01).bound(), "", OURS),
        ("Figure 7a", RATIO, Allowed::near(2.0, 0.09), "", TIMES),
        ("Figure 7a", TURNS, Allowed::near(2.0, 0.09), "", TIMES),
        ("Figure 7a", TURNS_SENT, Allowed::near(2.0, 0.09), "", TIMES),
        ("Figure 7a ours", RATIO_SENT, Allowed::near(1.0, 0.01).bound(), "", OURS),
        ("Figure 7a ours", RATIO_SAME, Allowed::near(1.0, 0.01).bound(), "", OURS),
        ("Figure 7b", RATIO, Allowed::near(3.0, 0.14), "", TIMES),
        ("Figure 7b", TURNS, Allowed::near(3.0, 0.14), "", TIMES),
        ("Figure 7b", TURNS_SENT, Allowed::near(3.0, 0.14), "", TIMES),
        ("Figure 7b ours", RATIO_SENT, Allowed::near(1.0, 0.01).bound(), "", OURS),
        ("Figure 7b ours", RATIO_SAME, Allowed::near(1.0, 0.01).bound(), "", OURS),
        ("Figure 8", DISK, Allowed::most(0.9), "", FALLS),
        ("Figure 8 ours", DISK, Allowed::near(1.0, 0.03).bound(), "", OURS),
        ("Figure 8 ours", DISK_LINK, Allowed::near(1.0, 0.03).bound(), "", OURS),
        ("Figure 9", WEIGHTS_SENT, Allowed::near(0.0, 2.0), "%", WEIGHT),
        ("Figure 9", FIRST_SENT, Allowed::near(0.0, 2.0), "%", WEIGHT),
        ("Figure 9", WEIGHTS, Allowed::near(0.0, 2.0), "%", WEIGHT),
        ("Figure 9", FIRST, Allowed::near(0.0, 2.0), "%", WEIGHT),
        ("Figure 9 ours", WEIGHTS_SENT, Allowed::near(0.0, 2.0).bound(), "%", OURS),
        ("Figure 9 ours", FIRST_SENT, Allowed::near(0.0, 2.0).bound(), "%", OURS),
        ("Figure 9 ours", WEIGHTS, Allowed::near(0.0, 2.0).bound(), "%", OURS),
        ("Figure 9 ours", FIRST, Allowed::near(0.0, 2.0).bound(), "%", OURS),
    ],
    seeds: "Simulations are determined by their seed. Measurements are of one machine at one time, \
            and vary slightly from run to run.",
    experiment: |label| format!("--figure {}", figure_number(label)),
    known: include_str!("../../../data/xen-known.json"),
};

/// The paper with virtual machines in place of namespaces.
const GUESTS: Work = Work {
    setting: IN_GUESTS,
    experiment: |label| format!("--guests --figure {}", figure_number(label)),
    known: include_str!("../../../data/xen-guests-known.json"),
    ..WORK
};

const ALL: [&str; 12] = ["4a", "4b", "4c", "4d", "5", "6a", "6b", "6c", "7a", "7b", "8", "9"];
const QUICK: [&str; 5] = ["4d", "6c", "7b", "8", "9"];

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    if args.beyond || args.live || args.tables || args.scenario.is_some() {
        bail!(
            "this paper has figures only, all of them on real packets: leave out --beyond, --live, --tables and --scenario"
        );
    }
    let effort = match (&args.guests, args.quick) {
        (Some(_), true) => Thoroughness::QUICK_GUESTS,
        (Some(_), false) => Thoroughness::GUESTS,
        (None, true) => Thoroughness::QUICK,
        (None, false) => Thoroughness::FULL,
    };
    let of = |name: &&&str| {
        args.figure.is_none_or(|no| name.trim_end_matches(char::is_alphabetic) == no.to_string())
    };
    if args.guests.is_some() && args.figure == Some(8) {
        bail!("Figure 8 loads this host's disk, and guests here have none: leave out --guests");
    }
    let mut names: Vec<&str> = match args.figure {
        Some(no) if !(4..=9).contains(&no) => {
            bail!("there is no figure {no} to be reproduced: 4 to 9")
        }
        None if args.quick => QUICK.to_vec(),
        _ => ALL.iter().filter(of).copied().collect(),
    };
    if args.guests.is_some() {
        names.retain(|name| *name != "8");
    }
    let labels: Vec<String> = names
        .iter()
        .flat_map(|name| [format!("Figure {name}"), format!("Figure {name} ours")])
        .collect();
    let wanted: Vec<&str> = labels.iter().map(String::as_str).collect();
    let guests =
        args.guests.as_ref().map(|root| Guests::start(root, testbed::VMS.len())).transpose()?;
    let work = if guests.is_some() { GUESTS } else { WORK };
    let lab = Fixture::new(effort, guests);
    work.reproduce(args, &wanted, |label| figures::of(&lab, label))
}
