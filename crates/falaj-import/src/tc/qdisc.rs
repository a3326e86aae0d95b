//! Kinds of disciplines and of classes; and the parameters of the disciplines that have no module
//! of their own.

use super::aqm::{self, Fair, Managed};
use super::attachment::stray;
use super::cake::{self, Cake};
use super::classes::{self, Cbs, Hfsc, Htb};
use super::fq;
use super::netem::{self, Netem};
use super::police::Bucket;
use super::stab;
use crate::amounts::{tc_rate, tc_size, tc_time, whole};
use crate::args::{Args, no_equal, unknown};
use crate::draft::quote;
use crate::lines::Word;
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;

/// A discipline with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Qdisc {
    Netem(Netem),
    /// A token bucket filter, which may have a second bucket for a peak rate; `limit` is in bytes.
    Tbf {
        bucket: Bucket,
        peak: Option<Bucket>,
        limit: u64,
        overhead: Option<String>,
        atm: bool,
    },
    /// A queue with a limit in packets or in bytes; both are `None` if no limit is set.
    Fifo {
        packets: Option<u64>,
        bytes: Option<u64>,
    },
    /// A queue with an AQM.
    Managed(Managed),
    /// A discipline with a queue for each connection.
    Fair(Fair),
    Cake(Cake),
    Cbs(Cbs),
    /// A tree of classes, with its default class.
    Htb {
        rest: Option<u16>,
        r2q: Option<u64>,
    },
    Hfsc(Option<u16>),
    /// Three bands, to which no filter sends packets.
    PfifoFast,
    /// Bands; a band of a lower number has priority.
    Prio {
        bands: u64,
        map: PriorityMap,
    },
    Ets {
        bands: u64,
        strict: u64,
        quanta: Vec<u64>,
        map: PriorityMap,
    },
    Drr,
    Qfq,
}

/// A class with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Class {
    Drr { quantum: Option<u64> },
    Qfq { weight: u64 },
    Htb(Htb),
    Hfsc(Hfsc),
}

/// Kinds that can be imported, for messages.
const KINDS: &[&str] = &[
    "netem",
    "tbf",
    "pfifo",
    "bfifo",
    "pfifo_head_drop",
    "pfifo_fast",
    "mq",
    "red",
    "codel",
    "pie",
    "fq_codel",
    "fq_pie",
    "fq",
    "sfq",
    "cake",
    "cbs",
    "prio",
    "ets",
    "drr",
    "qfq",
    "htb",
    "hfsc",
    "noqueue",
];

/// Reads the parameters after the kind.
pub(super) fn read(kind: &Word, args: &mut Args<'_>) -> Result<Qdisc, Problem> {
    match kind.text.as_str() {
        "netem" => netem::read(args).map(Qdisc::Netem),
        "tbf" => tbf(args),
        "pfifo" | "bfifo" | "pfifo_head_drop" => fifo(kind, args),
        "pfifo_fast" => nothing_more(args, "pfifo_fast").map(|()| Qdisc::PfifoFast),
        "noqueue" | "mq" => {
            nothing_more(args, &kind.text).map(|()| Qdisc::Fifo { packets: None, bytes: None })
        }
        "red" => aqm::red(args).map(Qdisc::Managed),
        "codel" => aqm::codel(args).map(Qdisc::Managed),
        "pie" => aqm::pie(args).map(Qdisc::Managed),
        "fq_codel" => aqm::fq_codel(args).map(Qdisc::Fair),
        "fq_pie" => aqm::fq_pie(args).map(Qdisc::Fair),
        "fq" => fq::read(args, kind).map(Qdisc::Fair),
        "sfq" => aqm::sfq(args, kind).map(Qdisc::Fair),
        "cake" => cake::read(args, kind).map(Qdisc::Cake),
        "cbs" => classes::cbs(args).map(Qdisc::Cbs),
        "prio" => prio(kind, args),
        "ets" => ets(kind, args),
        "drr" => nothing_more(args, "drr").map(|()| Qdisc::Drr),
        "qfq" => nothing_more(args, "qfq").map(|()| Qdisc::Qfq),
        "htb" => classes::htb_qdisc(args).map(|(rest, r2q)| Qdisc::Htb { rest, r2q }),
        "hfsc" => classes::hfsc_qdisc(args).map(Qdisc::Hfsc),
        other => match without_equal(other) {
            Some(why) => Err(no_equal(kind.at.clone(), other, why)),
            None => Err(unknown(kind, "a discipline that can be imported", KINDS)),
        },
    }
}

/// The reason why a discipline of tc has no equivalent here.
fn without_equal(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "sfb" | "choke" | "gred" => "a queue is kept short by `red`, `codel` or `pie`",
        "hhf" => "it detects heavy connections: `fq_codel` gives each its turn",
        "cbq" => "kernels no longer have it: write `htb` or `hfsc`",
        "dsmark" => "packets keep their DSCP",
        "atm" => "cells are for links: `netem rate … 48 5`",
        "mqprio" | "multiq" | "etf" | "taprio" => {
            "it is for the queues of a network card; for gates that open at times of a cycle, add \
             `scheduler = { kind = \"tas\", … }` to the scenario"
        }
        "skbprio" => {
            "it sorts by the kernel's priorities, which falaj does not see: write `prio` with filters"
        }
        "plug" | "teql" | "blackhole" => "a link always sends the packets that it has",
        _ => return None,
    })
}

fn nothing_more(args: &mut Args<'_>, kind: &str) -> Result<(), Problem> {
    match args.next() {
        None => Ok(()),
        Some(word) => Err(stray(word, kind, &[])),
    }
}

/// Reads `tbf rate R burst B latency T`, or `limit L`, with `peakrate R mtu B`.
fn tbf(args: &mut Args<'_>) -> Result<Qdisc, Problem> {
    const WORDS: &[&str] = &[
        "rate",
        "burst",
        "buffer",
        "maxburst",
        "limit",
        "latency",
        "peakrate",
        "mtu",
        "minburst",
        "overhead",
        "linklayer",
        "mpu",
    ];
    let (mut rate, mut burst, mut limit, mut latency) = (None, None, None, None);
    let (mut peak, mut mtu, mut overhead, mut atm) = (None, None, None, false);
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "rate" => rate = Some(tc_rate(args.value("a rate")?)?),
            "burst" | "buffer" | "maxburst" => burst = Some(classes::bucket(args)?),
            "limit" => limit = Some(tc_size(args.value("a size")?)?),
            "latency" => latency = Some(tc_time(args.value("a time")?)?),
            "overhead" => overhead = Some(format!("{}B", whole(args.value("a number of bytes")?)?)),
            "linklayer" => atm = stab::cells(args)?,
            "mpu" => stab::mpu(word, args)?,
            "peakrate" => peak = Some((tc_rate(args.value("a rate")?)?, word)),
            "mtu" | "minburst" => mtu = Some((classes::bucket(args)?, word)),
            _ => return Err(stray(word, "tbf", WORDS)),
        }
    }
    let all = args.all();
    let missing = |what: &str| {
        Problem::error(all.clone(), format!("tbf needs {what}"))
            .help("as in `tbf rate 1mbit burst 10kb latency 50ms`")
    };
    let (rate, burst) =
        (rate.ok_or_else(|| missing("a `rate`"))?, burst.ok_or_else(|| missing("a `burst`"))?);
    let bucket = Bucket { rate, burst };
    let peak = match (peak, mtu) {
        (Some((peak, word)), Some(_)) if peak <= rate => {
            return Err(Problem::error(word.at.clone(), "the `peakrate` is not above the `rate`")
                .help(
                    "tc refuses it: write a higher `peakrate`, or leave out `peakrate` and `mtu`",
                ));
        }
        (Some((rate, _)), Some((burst, _))) => Some(Bucket { rate, burst }),
        (Some((_, word)), None) => {
            return Err(Problem::error(word.at.clone(), "`peakrate` needs an `mtu`")
                .help("its number of bytes is the size of the second token bucket"));
        }
        (None, Some((_, word))) => {
            args.left_out(word, "it is the size of a second bucket, which `peakrate` would make");
            None
        }
        (None, None) => None,
    };
    let limit = match (limit, latency) {
        (Some(limit), _) => limit,
        // The bytes that the buckets let pass in that time: the lesser of the two numbers.
        (None, Some(latency)) => {
            let within = |bucket: Bucket| {
                let gained = u128::from(bucket.rate) * u128::from(latency) / 8_000_000_000;
                u64::try_from(gained).unwrap_or(u64::MAX).saturating_add(bucket.burst)
            };
            peak.map_or(within(bucket), |peak| within(peak).min(within(bucket)))
        }
        (None, None) => return Err(missing("a `limit` or a `latency`")),
    };
    if let Some(what) = peak.and_then(|peak| bucket.limits_peak(peak)) {
        args.notes.push(Problem::warning(all, what));
    }
    Ok(Qdisc::Tbf { bucket, peak, limit, overhead, atm })
}

fn fifo(kind: &Word, args: &mut Args<'_>) -> Result<Qdisc, Problem> {
    let mut limit = None;
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "limit" if kind.text != "bfifo" => {
                limit = Some(whole(args.value("a number of packets")?)?);
            }
            "limit" => limit = Some(tc_size(args.value("a size")?)?),
            _ => return Err(stray(word, &kind.text, &["limit"])),
        }
    }
    Ok(match kind.text.as_str() {
        "pfifo" => Qdisc::Fifo { packets: limit, bytes: None },
        // A full queue drops the packet that has waited longest.
        "pfifo_head_drop" => Qdisc::Managed(Managed {
            limit: format!("{}p", limit.unwrap_or(1000)),
            policy: vec![("policy", quote("head"))],
            ..Managed::default()
        }),
        _ => Qdisc::Fifo { packets: None, bytes: limit },
    })
}

/// The band of each priority that Linux gives a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PriorityMap([u64; 16]);

/// The priorities that Linux gives packets of IPv4 whose type of service is not 0: the bits 0x18 of
/// the TOS byte, and the priority (`rt_tos2priority`).
const BY_SERVICE: [(u8, usize); 3] = [(0x08, 2), (0x10, 6), (0x18, 4)];

impl PriorityMap {
    /// The map of `prio` if a script gives none.
    pub(super) const OF_PRIO: PriorityMap =
        PriorityMap([1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);

    /// Reads the bands of the first priorities.
    fn read(args: &mut Args<'_>) -> Result<Vec<u64>, Problem> {
        std::iter::from_fn(|| args.number().map(whole)).collect()
    }

    /// Sets the bands of the first priorities; the others keep theirs.
    fn with(mut self, first: &[u64], kind: &Word, bands: u64) -> Result<PriorityMap, Problem> {
        let refused = |what: String| {
            let help = "write a `priomap` with at most 16 bands, all of which exist";
            Err(Problem::error(kind.at.clone(), what + ": tc refuses this line").help(help))
        };
        if first.len() > self.0.len() {
            return refused(format!("there are 16 priorities, and {} bands for them", first.len()));
        }
        self.0[..first.len()].copy_from_slice(first);
        match self.0.iter().enumerate().find(|(_, band)| **band >= bands) {
            Some((priority, band)) => refused(format!(
                "the map of priorities sends priority {priority} to band {band}, and the last \
                 band is {}",
                bands - 1
            )),
            None => Ok(self),
        }
    }

    /// The band of packets without a priority.
    pub(super) fn of_best_effort(&self) -> u64 {
        self.0[0]
    }

    /// Matches of packets whose type of service gives them another band, each with this band.
    pub(super) fn by_service(&self) -> impl Iterator<Item = (String, u64)> {
        let others = BY_SERVICE.iter().filter(|(_, priority)| self.0[*priority] != self.0[0]);
        others.map(|(tos, priority)| (format!("ip tos {tos:#04x}/0x18"), self.0[*priority]))
    }
}

fn prio(kind: &Word, args: &mut Args<'_>) -> Result<Qdisc, Problem> {
    let (mut bands, mut first) = (3, Vec::new());
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "bands" => bands = band_count("prio", args.value("a number")?, 2)?,
            "priomap" => first = PriorityMap::read(args)?,
            _ => return Err(stray(word, "prio", &["bands", "priomap"])),
        }
    }
    Ok(Qdisc::Prio { bands, map: PriorityMap::OF_PRIO.with(&first, kind, bands)? })
}

/// The largest number of bands of `prio` and `ets`.
const BANDS_MAX: u64 = 16;

/// Reads the number of bands of a discipline.
fn band_count(kind: &str, word: &Word, least: u64) -> Result<u64, Problem> {
    let bands = whole(word)?;
    if (least..=BANDS_MAX).contains(&bands) {
        return Ok(bands);
    }
    let what = format!("{} is not a number of bands of {kind}", quoted(&word.text));
    Err(Problem::error(word.at.clone(), what).help(format!("write {least} to {BANDS_MAX}")))
}

fn ets(kind: &Word, args: &mut Args<'_>) -> Result<Qdisc, Problem> {
    let (mut bands, mut strict, mut quanta, mut first) = (None, 0, Vec::new(), Vec::new());
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "bands" => bands = Some(band_count("ets", args.value("a number")?, 1)?),
            "strict" => strict = whole(args.value("a number")?)?,
            "quanta" => {
                while let Some(word) = args.number() {
                    quanta.push(whole(word)?);
                }
            }
            "priomap" => first = PriorityMap::read(args)?,
            _ => return Err(stray(word, "ets", &["bands", "strict", "quanta", "priomap"])),
        }
    }
    let described = strict.saturating_add(quanta.len() as u64);
    let bands = bands.unwrap_or(described);
    if !(1..=BANDS_MAX).contains(&bands) || described > bands {
        return Err(Problem::error(
            args.all(),
            "ets has 1 to 16 bands, of which some are strict and the others have quanta",
        )
        .help(format!("here {strict} are strict and {} have quanta, of {bands}", quanta.len())));
    }
    // Priorities that the map does not have go to the last band.
    let map = PriorityMap([bands - 1; 16]).with(&first, kind, bands)?;
    Ok(Qdisc::Ets { bands, strict, quanta, map })
}

/// Reads the parameters after the kind of a class.
pub(super) fn class(kind: &Word, args: &mut Args<'_>) -> Result<Class, Problem> {
    match kind.text.as_str() {
        "drr" => {
            let mut quantum = None;
            while let Some(word) = args.next() {
                match word.text.as_str() {
                    "quantum" => quantum = Some(tc_size(args.value("a size")?)?),
                    _ => return Err(stray(word, "drr", &["quantum"])),
                }
            }
            Ok(Class::Drr { quantum })
        }
        "qfq" => {
            let mut weight = 1;
            while let Some(word) = args.next() {
                match word.text.as_str() {
                    "weight" => weight = whole(args.value("a number")?)?,
                    "maxpkt" => {
                        tc_size(args.value("a size")?)?;
                        args.left_out(word, "the largest packet is that of the link");
                    }
                    _ => return Err(stray(word, "qfq", &["weight", "maxpkt"])),
                }
            }
            Ok(Class::Qfq { weight })
        }
        "htb" => classes::htb(args).map(Class::Htb),
        "hfsc" => classes::hfsc(args).map(Class::Hfsc),
        _ => Err(unknown(
            kind,
            "a discipline whose classes can be imported",
            &["drr", "qfq", "htb", "hfsc"],
        )),
    }
}
