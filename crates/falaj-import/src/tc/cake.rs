//! `cake`: a rate, the overhead of packets, and a queue for each connection.

use super::aqm::{Fair, set};
use super::attachment::stray;
use super::stab;
use crate::amounts::{rate, tc_rate, tc_size, tc_time, time};
use crate::args::{Args, no_equal};
use crate::draft::quote;
use crate::lines::Word;
use falaj_scenario::Problem;
use std::ops::Range;

/// A `cake` with its parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cake {
    /// `bandwidth` in bit/s; `None` if it is not set, or `unlimited`.
    rate: Option<u64>,
    pub(super) framing: Option<Framing>,
    fair: Fair,
}

/// The size of packets on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Framing {
    /// True if bytes count from the IP header on, and not from the Ethernet header on.
    pub(super) ip: bool,
    pub(super) overhead: i64,
    /// The cells that carry packets, by the name in a scenario: `atm` or `ptm`.
    pub(super) cells: Option<&'static str>,
    pub(super) at: Range<usize>,
}

impl Cake {
    /// `bandwidth` in bit/s; `None` if it is not set, or `unlimited`.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// The discipline. If `shaped`, its `bandwidth` becomes one of its keys; otherwise the caller
    /// sets the link's rate to it.
    pub(super) fn fair(&self, shaped: bool) -> Fair {
        let mut fair = self.fair.clone();
        if let Some(bits) = self.rate.filter(|_| shaped) {
            set(&mut fair.scheduler, "rate", quote(&rate(bits)));
        }
        fair
    }
}

const WORDS: &[&str] = &[
    "bandwidth",
    "unlimited",
    "rtt",
    "besteffort",
    "diffserv3",
    "diffserv4",
    "diffserv8",
    "precedence",
    "flows",
    "flowblind",
    "srchost",
    "dsthost",
    "hosts",
    "dual-srchost",
    "dual-dsthost",
    "triple-isolate",
    "overhead",
    "ether-vlan",
    "mpu",
    "atm",
    "ptm",
    "noatm",
    "raw",
    "memlimit",
    "fwmark",
    "nat",
    "nonat",
    "wash",
    "nowash",
    "ack-filter",
    "ack-filter-aggressive",
    "no-ack-filter",
    "ingress",
    "egress",
    "split-gso",
    "no-split-gso",
];

/// Names of round-trip times, in nanoseconds.
const ROUND_TRIPS: &[(&str, u64)] = &[
    ("datacentre", 100_000),
    ("lan", 1_000_000),
    ("metro", 10_000_000),
    ("regional", 30_000_000),
    ("internet", 100_000_000),
    ("oceanic", 300_000_000),
    ("satellite", 1_000_000_000),
    ("interplanetary", 1_000_000_000_000),
];

/// Names of link technologies, each with the bytes that it adds to a packet's overhead, its cells,
/// and the smallest size that a packet counts as.
const LINKS: &[(&str, i64, Option<&str>, u64)] = &[
    ("conservative", 48, Some("atm"), 0),
    ("pppoa-vcmux", 10, Some("atm"), 0),
    ("pppoa-llc", 14, Some("atm"), 0),
    ("pppoe-vcmux", 32, Some("atm"), 0),
    ("pppoe-llcsnap", 40, Some("atm"), 0),
    ("bridged-vcmux", 24, Some("atm"), 0),
    ("bridged-llcsnap", 32, Some("atm"), 0),
    ("ipoa-vcmux", 8, Some("atm"), 0),
    ("ipoa-llcsnap", 16, Some("atm"), 0),
    ("pppoe-ptm", 30, Some("ptm"), 0),
    ("bridged-ptm", 22, Some("ptm"), 0),
    ("docsis", 18, None, 64),
    ("ethernet", 38, None, 84),
];

/// Reads `cake bandwidth R besteffort …`.
pub(super) fn read(args: &mut Args<'_>, kind: &Word) -> Result<Cake, Problem> {
    let mut cake = Cake::default();
    set(&mut cake.fair.scheduler, "kind", quote("cake"));
    let (mut framing, mut framed, mut raw) = (Framing::default(), false, false);
    let (mut one_tin, mut by_flows) = (false, false);
    while let Some(word) = args.next() {
        let name = word.text.as_str();
        if let Some((_, rtt)) = ROUND_TRIPS.iter().find(|(known, _)| *known == name) {
            round_trip(&mut cake, *rtt, word)?;
            continue;
        }
        if let Some((_, bytes, cells, least)) = LINKS.iter().find(|(known, ..)| *known == name) {
            (framed, framing.at) = (true, word.at.clone());
            framing.overhead += bytes;
            framing.cells = *cells;
            if *least > 0 {
                let what = format!(
                    "`{name}` includes `mpu {least}` in tc; packets count with their own size and \
                     overhead here, also below {least} B"
                );
                args.notes.push(Problem::warning(word.at.clone(), what));
            }
            continue;
        }
        match name {
            "bandwidth" => cake.rate = Some(tc_rate(args.value("a rate")?)?),
            "unlimited" => cake.rate = None,
            "autorate-ingress" => {
                let why = "falaj does not estimate the rate: write `bandwidth RATE`";
                return Err(no_equal(word.at.clone(), name, why));
            }
            "rtt" => {
                let value = args.value("a time")?;
                round_trip(&mut cake, tc_time(value)?, value)?;
            }
            "besteffort" => one_tin = true,
            "diffserv3" | "diffserv4" | "diffserv8" | "precedence" => {
                one_tin = true;
                args.left_out(word, "DSCP gives no precedence here, as with `besteffort`");
            }
            "flows" => by_flows = true,
            "flowblind" | "srchost" | "dsthost" | "hosts" | "dual-srchost" | "dual-dsthost"
            | "triple-isolate" => {
                by_flows = true;
                args.left_out(word, BY_CONNECTION);
            }
            "overhead" => {
                let value = args.value("a number of bytes")?;
                let bytes = stab::bytes(value)?.unwrap_or_default();
                framing.overhead = bytes.trim_end_matches('B').parse().unwrap_or(0);
                (framed, framing.at) = (true, word.at.clone());
            }
            "ether-vlan" => {
                framing.overhead += 4;
                (framed, framing.at) = (true, word.at.clone());
            }
            "mpu" => stab::mpu(word, args)?,
            "atm" => (framing.cells, framing.at) = (Some("atm"), word.at.clone()),
            "ptm" => (framing.cells, framing.at) = (Some("ptm"), word.at.clone()),
            "noatm" => framing.cells = None,
            "raw" => (framing.overhead, raw) = (0, true),
            "memlimit" => {
                tc_size(args.value("a size")?)?;
                args.left_out(word, "the limit is 10,240 packets, whatever memory they take");
            }
            "fwmark" => {
                args.value("a mask")?;
                args.left_out(word, "there is one tin here");
            }
            "nat" => {
                args.left_out(word, "the addresses of packets on the link distinguish connections");
            }
            "wash" => args.left_out(word, "packets keep their DSCP"),
            "ack-filter" | "ack-filter-aggressive" => {
                args.left_out(word, "no acknowledgment is dropped because a later one follows");
            }
            "ingress" => args.left_out(word, "packets that are dropped take none of the rate"),
            "no-split-gso" => args.left_out(word, "each frame is a packet of its own"),
            "nonat" | "nowash" | "no-ack-filter" | "egress" | "split-gso" => {}
            _ => {
                let links = LINKS.iter().map(|(name, ..)| *name);
                let round_trips = ROUND_TRIPS.iter().map(|(name, _)| *name);
                let known = WORDS.iter().copied().chain(links).chain(round_trips);
                return Err(stray(word, "cake", &known.collect::<Vec<_>>()));
            }
        }
    }
    framing.ip = framed && !raw;
    cake.framing = Some(framing).filter(|f| framed || f.cells.is_some());
    let mut differs = |what: &str| {
        cake.fair.notes.push(Problem::warning(kind.at.clone(), what));
    };
    if !one_tin {
        differs("tc has three tins by DSCP unless `besteffort` is given; here there is one");
    }
    if !by_flows {
        differs(&format!("tc isolates hosts too unless `flows` is given; {BY_CONNECTION}"));
    }
    Ok(cake)
}

const BY_CONNECTION: &str =
    "falaj isolates connections, not hosts: a host with more connections gets more of the link";

/// Sets CoDel's interval to the round-trip time, and CoDel's target to a twentieth of this time.
fn round_trip(cake: &mut Cake, rtt: u64, at: &Word) -> Result<(), Problem> {
    if !(20..=4_000_000_000).contains(&rtt) {
        let why =
            "round-trip times from 20ns to 4s can be imported, as CoDel's interval is at most 4s";
        return Err(no_equal(at.at.clone(), &at.text, why));
    }
    set(&mut cake.fair.scheduler, "interval", quote(&time(rtt)));
    set(&mut cake.fair.scheduler, "target", quote(&time(rtt / 20)));
    Ok(())
}
