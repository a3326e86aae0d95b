//! Zhang's thesis on DRR+ and DRR++: Tables 5.1 and 5.2, Figures 2.1, 4.4, 4.5 and 5.1-5.14, and
//! Theorem 2, and the thesis' future work.
//!
//! | module | content |
//! |---|---|
//! | [`testbed`] | the bottleneck link as a scenario, and the counters of its output |
//! | [`figures`] | the curves |
//! | [`clocks`] | delays by two clocks: Figures 4.4 and 4.5 |
//! | [`live`] | the same flows as real datagrams |
//! | [`topologies`] | several links: the parking lot, and a sink tree |
//! | [`order`] | single packets: Figure 2.1's order, and a counter-example to Theorem 2 |

mod clocks;
mod figures;
mod live;
mod order;
mod testbed;
mod topologies;

use super::Args;
use super::curves::{PaperFigure, Work};
use super::verdict::{Allowed, HOLDS};
use anyhow::{Result, bail};
use figures::Lab;
use std::process::ExitCode;

/// The sources of tolerances.
const EXACT: &str = "nothing is random: no tolerance";
const WORDS: &str = "words of the thesis";
const RUNS: &str = "our 95 % interval of five runs of 100 s, times 1.4, because the thesis' runs \
                    have one of their own; and half a digit";
const RATES: &str = "the 95 % interval of twenty runs of 100 s at 5 packets/s is 2.2 %, and nine \
                     rates are compared";
const ALIKE: &str = "words of the thesis; the limit is ours: 15 % for delays and 10 % for counts \
                     that are alike, a factor of 1.5 in overload";
const ABOUT: &str = "words of the thesis, \"about half\"; the range is ours";
const ORDERS: &str = "words of the thesis, \"more than one hundred times\"";
const FALLS: &str = "words of the thesis, \"dramatically\" or \"very low\"; the limit is ours";
const DIGIT: &str = "half of the unit of the last printed digit";
const GRID: &str = "half of the smallest distance between the quanta, 200 B";
const OURS: &str = "ours, not the thesis': a bound, or measured and simulated values compared";
const CLOCKS: &str = "the rates of the clocks are taken from it";
const ARITHMETIC: &str = "follows from rates, sizes and capacity, whatever the scheduler does";

/// The statement on an implementation in the kernel.
const AS_A_QDISC: &str = "DRR++ as a BPF qdisc orders packets as here";

const WORK: Work = Work {
    name: "zhang",
    title: "DRR+ and DRR++, reproduced",
    source: "C. Zhang, DRR++ (thesis): Tables 5.1 and 5.2, Figures 2.1, 4.4, 4.5 and 5.1 to \
             5.14, Theorem 2",
    setting: "One flow of low latency (LC) and three others (BE), five runs of 100 s; packets of \
              40 B and 40 to 700 B of payload with exponential gaps, or video of 614.4 kbit/s. \
              Delays from the last bit in to the last bit out; intervals are Student's.",
    published: &[
        (
            "Figure 2.1",
            "Virtual Clock: packets of connection 2 before the 901st of connection 1",
            Allowed::near(450.0, 0.0),
            "packets",
            EXACT,
        ),
        ("Figure 2.1", "SCFQ: the same", Allowed::near(1.0, 0.0), "packets", EXACT),
        ("Figure 2.1", "WFQ: the same", Allowed::near(1.0, 0.0), "packets", EXACT),
        (
            "Figure 4.4",
            "growth from the first run to the fifth, at one rate",
            Allowed::unjudged(clocks::GROWTH[0]),
            "ms",
            CLOCKS,
        ),
        (
            "Figure 4.5",
            "growth from the first run to the fifth, at one rate",
            Allowed::unjudged(clocks::GROWTH[1]),
            "ms",
            CLOCKS,
        ),
        ("Figure 4.5", "the delay falls from 10 to 20 packets/s", Allowed::words(), HOLDS, WORDS),
        ("Figure 4.5", "the delay grows beyond 20 packets/s", Allowed::words(), HOLDS, WORDS),
        (
            "Table 5.1",
            "largest difference of the rates from those printed",
            Allowed::most(2.5),
            "%",
            RATES,
        ),
        ("Table 5.1", "burstiness falls as the rate grows", Allowed::words(), HOLDS, WORDS),
        (
            "Table 5.2",
            "at 20 packets/s DRR+ has 10 times the interval of DRR++ and more",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        ("Figure 5.1", "utilisation at 20 packets/s", Allowed::unjudged(98.4), "%", ARITHMETIC),
        ("Figure 5.1", "delay of LC alone", Allowed::near(15.5, 0.35), "ms", RUNS),
        ("Figure 5.1", "delay of LC at 20 packets/s", Allowed::near(106.0, 3.5), "ms", RUNS),
        (
            "Figure 5.1",
            "the same at 213 kbit/s in the form `gated`",
            Allowed::near(106.0, 3.5),
            "ms",
            RUNS,
        ),
        ("Figure 5.1", "increase of LC's delay", Allowed::near(90.5, 3.5), "ms", RUNS),
        ("Figure 5.1", "LC's longest time without service", Allowed::near(85.3, 0.05), "ms", DIGIT),
        (
            "Figure 5.1",
            "LC's delay comes to rest: delay at 40 packets/s over delay at 20",
            Allowed::within(0.85, 1.15),
            "",
            ALIKE,
        ),
        (
            "Figure 5.1",
            "the same from 30 packets/s on, with the quanta of 20 packets/s",
            Allowed::within(0.85, 1.15),
            "",
            ALIKE,
        ),
        (
            "Figure 5.1",
            "at 98.4 % the BE flows' delay is twice that at 18 packets/s and more",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 5.1",
            "BE flows at 18 packets/s: largest over smallest delay",
            Allowed::most(1.15),
            "",
            ALIKE,
        ),
        (
            "Figure 5.1",
            "a work-conserving order ends its busy periods when any other does",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 5.2",
            "LC's delay follows that of the BE flows: their ratio at 20 packets/s",
            Allowed::within(0.5, 1.5),
            "",
            ALIKE,
        ),
        (
            "Figure 5.2",
            "LC's delay at 20 packets/s, over that under DRR++",
            Allowed::printed_least(100.0),
            "",
            ORDERS,
        ),
        ("Figure 5.2", "the same at 213 kbit/s", Allowed::printed_least(100.0), "", ORDERS),
        ("Figure 5.3", "utilisation", Allowed::unjudged(78.72), "%", ARITHMETIC),
        (
            "Figure 5.3",
            "DRR++ changes less with LC's quantum than DRR+",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 5.3",
            "DRR++ has the lower delay at every quantum",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        ("Figure 5.3", "smallest quantum, of all quanta", Allowed::unjudged(11.8), "%", ARITHMETIC),
        ("Figure 5.3", "largest quantum, of all quanta", Allowed::unjudged(40.0), "%", ARITHMETIC),
        (
            "Figure 5.4",
            "LC is served more often than there are rounds",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        ("Figure 5.4", "the same at 213 kbit/s", Allowed::words(), HOLDS, WORDS),
        (
            "Figure 5.4",
            "LC is served less often with a larger quantum",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        ("Figure 5.4", "rounds hardly change: most over least", Allowed::most(1.1), "", ALIKE),
        (
            "Figure 5.4",
            "LC left waiting at 1600 B, over that of DRR+",
            Allowed::near(0.5, 0.2),
            "",
            ABOUT,
        ),
        (
            "Figure 5.5",
            "LC is served less often with a larger quantum",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 5.5",
            "LC is served less often than under DRR++ at every quantum",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        ("Figure 5.5", "rounds grow as the quantum falls", Allowed::words(), HOLDS, WORDS),
        ("Figure 5.6", "utilisation", Allowed::unjudged(94.45), "%", ARITHMETIC),
        (
            "Figure 5.7",
            "LC's delay at 1200 B, over that under DRR++",
            Allowed::printed_least(100.0),
            "",
            ORDERS,
        ),
        ("Figure 5.7", "the same at 213 kbit/s", Allowed::printed_least(100.0), "", ORDERS),
        (
            "Figure 5.8",
            "LC is served less often with a larger quantum",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 5.8",
            "LC left waiting 100 times from this quantum on",
            Allowed::near(1200.0, 100.0),
            "B",
            GRID,
        ),
        ("Figure 5.8", "the same at 213 kbit/s", Allowed::near(1200.0, 100.0), "B", GRID),
        (
            "Figure 5.9",
            "LC is served less often with a larger quantum",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 5.9",
            "LC left waiting 100 times from this quantum on",
            Allowed::near(2000.0, 100.0),
            "B",
            GRID,
        ),
        ("Figure 5.9", "the same at 213 kbit/s", Allowed::near(2000.0, 100.0), "B", GRID),
        (
            "Figure 5.10",
            "utilisation at 12 packets/s, 1.3 Mbit/s",
            Allowed::unjudged(56.0),
            "%",
            ARITHMETIC,
        ),
        (
            "Figure 5.10",
            "utilisation at 18 packets/s, 1.3 Mbit/s",
            Allowed::unjudged(60.0),
            "%",
            ARITHMETIC,
        ),
        (
            "Figure 5.10",
            "LC's delay comes to rest: delay at 30 packets/s over delay at 18, at 770 kbit/s",
            Allowed::within(0.85, 1.15),
            "",
            ALIKE,
        ),
        (
            "Figure 5.10",
            "BE flows wait 5 times as long at 18 packets/s as at 13, and more, at 770 kbit/s",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        ("Figure 5.10", "the same at 1.3 Mbit/s", Allowed::words(), HOLDS, WORDS),
        (
            "Figure 5.11",
            "LC waits longer than the BE flows at 30 packets/s, at 770 kbit/s",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 5.11",
            "LC's delay at 30 packets/s and 770 kbit/s, over that under DRR++",
            Allowed::printed_least(100.0),
            "",
            ORDERS,
        ),
        (
            "Figure 5.11",
            "the BE flows' delay at 30 packets/s and 770 kbit/s, over that under DRR++",
            Allowed::printed_least(100.0),
            "",
            ORDERS,
        ),
        (
            "Figure 5.12",
            "DRR++ changes little: largest over least delay, at 1.3 Mbit/s",
            Allowed::most(1.15),
            "",
            ALIKE,
        ),
        ("Figure 5.12", "DRR+ too", Allowed::most(1.15), "", ALIKE),
        ("Figure 5.12", "DRR++ at 770 kbit/s", Allowed::most(1.15), "", ALIKE),
        (
            "Figure 5.13",
            "from 9000 B on LC's delay is low: that at 6000 B over it, at 770 kbit/s",
            Allowed::least(5.0),
            "",
            FALLS,
        ),
        (
            "Figure 5.13",
            "BE flows wait longer at 9000 B than at 3000 B by this factor, at 770 kbit/s",
            Allowed::least(5.0),
            "",
            FALLS,
        ),
        ("Figure 5.13", "the same fall of LC at 1.3 Mbit/s", Allowed::least(5.0), "", FALLS),
        (
            "Figure 5.14",
            "LC's delay falls until 21,000 B: delay at 18,000 B over delay at 27,000 B, at \
             770 kbit/s",
            Allowed::least(5.0),
            "",
            FALLS,
        ),
        (
            "Figure 5.14",
            "at 27,000 B it is above that of DRR++, at 770 kbit/s",
            Allowed::words(),
            HOLDS,
            WORDS,
        ),
        (
            "Figure 5.1 live",
            "LC's mean delay, measured over simulated",
            Allowed::near(1.0, 0.05).bound(),
            "",
            OURS,
        ),
        (
            "Figure 5.1 live",
            "the BE flows', farthest from 1",
            Allowed::near(1.0, 0.05).bound(),
            "",
            OURS,
        ),
        (
            "Figure 5.1 live",
            "datagrams received, of those sent",
            Allowed::near(1.0, 0.001).bound(),
            "",
            OURS,
        ),
        (
            "Figure 5.2 live",
            "LC's mean delay, measured over simulated",
            Allowed::near(1.0, 0.05).bound(),
            "",
            OURS,
        ),
        (
            "Figure 5.2 live",
            "the BE flows', farthest from 1",
            Allowed::near(1.0, 0.05).bound(),
            "",
            OURS,
        ),
        (
            "Figure 5.2 live",
            "datagrams received, of those sent",
            Allowed::near(1.0, 0.001).bound(),
            "",
            OURS,
        ),
        (
            "Figure 5.10 live",
            "LC's mean delay, measured over simulated",
            Allowed::near(1.0, 0.05).bound(),
            "",
            OURS,
        ),
        (
            "Figure 5.10 live",
            "the BE flows', farthest from 1",
            Allowed::near(1.0, 0.05).bound(),
            "",
            OURS,
        ),
        (
            "Figure 5.10 live",
            "datagrams received, of those sent",
            Allowed::near(1.0, 0.001).bound(),
            "",
            OURS,
        ),
        (
            "Figure 5.10 live divided",
            "LC's mean delay, measured over simulated",
            Allowed::near(1.0, 0.05).bound(),
            "",
            OURS,
        ),
        (
            "Figure 5.10 live divided",
            "the BE flows', farthest from 1",
            Allowed::near(1.0, 0.05).bound(),
            "",
            OURS,
        ),
        (
            "Figure 5.10 live divided",
            "datagrams received, of those sent",
            Allowed::near(1.0, 0.001).bound(),
            "",
            OURS,
        ),
        (
            "Theorem 2",
            "its bound holds for 1, 2, 3, 4, 16 and 64 BE flows",
            Allowed::near(6.0, 0.0),
            "of 6",
            EXACT,
        ),
        (
            "Theorem 2",
            "the bound of `falaj plan` is never exceeded",
            Allowed::words().bound(),
            HOLDS,
            OURS,
        ),
        (
            "Finite buffers",
            "under DRR++ LC loses no more than the BE flows at any length",
            Allowed::words().bound(),
            HOLDS,
            OURS,
        ),
        (
            "Finite buffers",
            "under DRR++ LC waits less than under DRR+ at every length",
            Allowed::words().bound(),
            HOLDS,
            OURS,
        ),
        (
            "Finite buffers",
            "LC's delay with queues of 50 packets, over that with unlimited ones",
            Allowed::near(1.0, 0.1).bound(),
            "",
            OURS,
        ),
        ("In the kernel", AS_A_QDISC, Allowed::words(), HOLDS, WORDS),
    ],
    seeds: "Each run is determined by its seed, 1 to 5: the same command gives the same numbers, \
            bit for bit. Measurements, with --live, are of the packets of seed 1, on one machine \
            at one time.",
    experiment: |label| match label.strip_prefix("Figure 5.") {
        Some(rest) => match rest.split_once(' ') {
            Some((number, _)) => format!("--live --figure {number}"),
            None => format!("--figure {rest}"),
        },
        None if label.starts_with("Figure") => "--figures".into(),
        None if BEYOND.contains(&label) => "--beyond".into(),
        None => "--tables".into(),
    },
    known: include_str!("../../../data/zhang-known.json"),
};

const TABLES: [&str; 4] = ["Table 5.1", "Table 5.2", "Theorem 2", "Finite buffers"];
const FIGURES: [&str; 17] = [
    "Figure 5.1",
    "Figure 5.2",
    "Figure 5.3",
    "Figure 5.4",
    "Figure 5.5",
    "Figure 5.6",
    "Figure 5.7",
    "Figure 5.8",
    "Figure 5.9",
    "Figure 5.10",
    "Figure 5.11",
    "Figure 5.12",
    "Figure 5.13",
    "Figure 5.14",
    "Figure 2.1",
    "Figure 4.4",
    "Figure 4.5",
];

/// The thesis' future work.
const BEYOND: [&str; 3] = ["Parking lot", "Sink tree", "In the kernel"];

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    if args.scenario.is_some() {
        bail!("this thesis has tables and figures only: leave out --scenario");
    }
    if args.live {
        if args.tables || args.figures || args.beyond {
            bail!(
                "--live has Figures 5.1, 5.2 and 5.10 only: take --tables, --figures and --beyond \
                 away"
            );
        }
        let number = |label: &str| label.split([' ', '.']).nth(2).and_then(|no| no.parse().ok());
        let asked = |label: &&str| args.figure.is_none_or(|no| number(label) == Some(no));
        let wanted: Vec<&str> = live::LABELS.into_iter().filter(asked).collect();
        if wanted.is_empty() {
            bail!("--live has Figures 5.1, 5.2 and 5.10 only: --figure 1, 2 or 10");
        }
        let duration = args.duration.unwrap_or(live::DURATION);
        return WORK.reproduce(args, &wanted, |label| {
            let figure = live::figure(label, duration)?;
            Ok(PaperFigure { label: label.to_owned(), ..figure })
        });
    }
    let all = !(args.tables || args.figures || args.beyond);
    let wanted: Vec<&str> = match args.figure {
        Some(no @ 1..=14) => vec![FIGURES[no - 1]],
        Some(no) => bail!("there is no Figure 5.{no}: 1 to 14"),
        None => {
            [(args.tables, &TABLES[..]), (args.figures, &FIGURES[..]), (args.beyond, &BEYOND[..])]
                .into_iter()
                .filter(|(asked, _)| *asked || all)
                .flat_map(|(_, labels)| labels.iter().copied())
                .collect()
        }
    };
    let lab = Lab::default();
    WORK.reproduce(args, &wanted, |label| match label {
        "Parking lot" => topologies::parking_lot(),
        "Sink tree" => topologies::sink_tree(),
        "In the kernel" => Ok(topologies::in_the_kernel()),
        _ => figures::of(&lab, label),
    })
}
