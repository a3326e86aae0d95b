//! netem: the impairments of a link.

use super::attachment::stray;
use super::stab;
use crate::amounts::{rate, tc_percent, tc_rate, tc_size, tc_time, time, whole};
use crate::args::{Args, no_equal, no_equal_phrase};
use crate::draft::{inline, quote};
use crate::lines::Word;
use falaj_scenario::Problem;
use std::ops::Range;

/// The settings of a netem for a link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Netem {
    /// Keys of a link, and their values in TOML's syntax.
    pub(super) keys: Vec<(&'static str, String)>,
    /// netem's own rate in bit/s; `None` if it is not set.
    pub(super) rate: Option<u64>,
    /// netem's limit in packets; packets in transit count too.
    pub(super) limit: u64,
    /// Place of `limit`, if the command has it.
    pub(super) limit_at: Option<Range<usize>>,
    /// Warnings: parts whose meaning differs slightly, and why.
    pub(super) notes: Vec<Problem>,
}

const WORDS: &[&str] = &[
    "limit",
    "delay",
    "latency",
    "distribution",
    "loss",
    "drop",
    "corrupt",
    "duplicate",
    "reorder",
    "gap",
    "rate",
    "slot",
    "seed",
];

/// Reads all words after `netem`.
pub(super) fn read(args: &mut Args<'_>) -> Result<Netem, Problem> {
    let mut netem = Netem { limit: 1000, ..Netem::default() };
    let mut jitter: Option<(u64, Option<String>)> = None;
    let mut distribution = None;
    let mut reorder: Option<(String, Option<String>)> = None;
    let mut gap = None;
    let mut delayed = false;
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "limit" => {
                netem.limit = whole(args.value("a number of packets")?)?;
                netem.limit_at = Some(word.at.clone());
            }
            "delay" | "latency" => {
                let delay = tc_time(args.value("a time")?)?;
                delayed = delay > 0;
                netem.keys.push(("delay", quote(&time(delay))));
                if let Some(amount) = args.number() {
                    let amount = tc_time(amount)?;
                    jitter = (amount > 0).then_some((amount, None));
                    if let (Some(correlation), Some((_, place))) = (args.number(), &mut jitter) {
                        *place = Some(tc_percent(correlation)?).filter(|p| !nothing(p));
                    }
                }
            }
            "distribution" => distribution = Some(args.value("the name of a distribution")?),
            "loss" | "drop" => loss(word, args, &mut netem)?,
            "corrupt" => event("corrupt", args, &mut netem)?,
            "duplicate" => event("duplicate", args, &mut netem)?,
            "reorder" => {
                let probability = tc_percent(args.value("a probability")?)?;
                reorder = Some((probability, args.number().map(tc_percent).transpose()?));
            }
            "gap" => gap = Some(args.value("a number of packets")?),
            "rate" => own_rate(args, &mut netem)?,
            "slot" => slot(args, &mut netem)?,
            "seed" => {
                let seed = whole(args.value("a number")?)?;
                let note = format!(
                    "the seed {seed} was left out: falaj draws other random numbers than netem, \
                     and `seed` in `[run]` fixes them"
                );
                netem.notes.push(Problem::warning(word.at.clone(), note));
            }
            "ecn" => {
                return Err(no_equal(
                    word.at.clone(),
                    "ecn",
                    "no loss model of falaj marks packets: an AQM with `ecn` does, such as `codel ecn`",
                ));
            }
            _ => return Err(stray(word, "netem", WORDS)),
        }
    }
    if let Some((amount, correlation)) = jitter {
        let mut keys = vec![("amount", quote(&time(amount)))];
        match distribution.map(|w| (w, w.text.as_str())) {
            None | Some((_, "uniform")) => {}
            Some((_, known @ ("normal" | "pareto" | "paretonormal"))) => {
                keys.push(("distribution", quote(known)));
            }
            Some((_, table)) => keys.push(("table", quote(&format!("{table}.dist")))),
        }
        keys.extend(correlation.map(|c| ("correlation", quote(&c))));
        // netem with a rate keeps packets in order.
        if netem.rate.is_none() {
            keys.push(("order", quote("free")));
        }
        netem.keys.push(("jitter", inline(&keys)));
    } else if let Some(word) = distribution {
        return Err(Problem::error(
            word.at.clone(),
            "there is no jitter to which this distribution applies",
        )
        .help("as in `delay 20ms 5ms distribution normal`"));
    }
    if let Some((probability, correlation)) = reorder {
        if !delayed {
            return Err(Problem::error(
                args.all(),
                "reorder needs a delay, which packets can skip",
            )
            .help("as in `delay 10ms reorder 25%`"));
        }
        let mut keys = vec![("probability", quote(&probability))];
        keys.extend(correlation.filter(|p| !nothing(p)).map(|c| ("correlation", quote(&c))));
        if let Some(gap) = gap {
            let each = whole(gap)?.max(1);
            keys.push(("gap", each.to_string()));
            if each > 1 && !probability.starts_with("100") {
                let what = format!(
                    "here one of {each} packets overtakes others, with a probability of \
                     {probability}; in netem, after {} delayed packets, each packet has this \
                     probability until one overtakes, so more packets do",
                    each - 1
                );
                netem.notes.push(Problem::warning(gap.at.clone(), what));
            }
        }
        netem.keys.push(("reorder", inline(&keys)));
    } else if let Some(gap) = gap {
        return Err(Problem::error(gap.at.clone(), "`gap` needs `reorder`")
            .help("as in `delay 10ms reorder 100% gap 5`"));
    }
    Ok(netem)
}

/// Returns true if the percentage is zero.
fn nothing(percent: &str) -> bool {
    percent.bytes().all(|b| matches!(b, b'0' | b'.' | b'%'))
}

fn event(name: &'static str, args: &mut Args<'_>, netem: &mut Netem) -> Result<(), Problem> {
    let probability = tc_percent(args.value("a probability")?)?;
    let correlation = args.number().map(tc_percent).transpose()?.filter(|p| !nothing(p));
    if !nothing(&probability) {
        let mut keys = vec![("probability", quote(&probability))];
        keys.extend(correlation.map(|c| ("correlation", quote(&c))));
        netem.keys.push((name, inline(&keys)));
    }
    Ok(())
}

fn loss(word: &Word, args: &mut Args<'_>, netem: &mut Netem) -> Result<(), Problem> {
    if args.take("state").is_some() {
        let mut keys = vec![("kind", quote("four-states"))];
        for name in ["p13", "p31", "p32", "p23", "p14"] {
            let Some(word) =
                (if name == "p13" { Some(args.value("a probability")?) } else { args.number() })
            else {
                break;
            };
            keys.push((name, quote(&tc_percent(word)?)));
        }
        netem.keys.push(("loss", inline(&keys)));
        return Ok(());
    }
    if args.take("gemodel").is_some() {
        let to_bad = tc_percent(args.value("a probability")?)?;
        let mut numbers = Vec::new();
        while let (true, Some(word)) = (numbers.len() < 3, args.peek()) {
            if !word.text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                break;
            }
            args.next();
            numbers.push(tc_percent(word)?);
        }
        // Without `r`, the probability is 100% - `p`: losses are then independent of each other.
        let to_good = match numbers.first() {
            Some(r) => r.clone(),
            None => less(&to_bad),
        };
        let mut keys = vec![
            ("kind", quote("gilbert-elliott")),
            ("to-bad", quote(&to_bad)),
            ("to-good", quote(&to_good)),
        ];
        keys.extend(numbers.get(1).map(|p| ("loss-bad", quote(p))));
        keys.extend(numbers.get(2).map(|p| ("loss-good", quote(p))));
        netem.keys.push(("loss", inline(&keys)));
        return Ok(());
    }
    args.take("random");
    let before = netem.keys.len();
    event("loss", args, netem)?;
    if netem.keys[before..].iter().any(|(_, v)| v.contains("correlation")) {
        let what = "falaj keeps the mean of correlated loss; netem loses far less than configured, often nothing";
        netem.notes.push(Problem::warning(word.at.clone(), what));
    }
    Ok(())
}

/// 100% minus a percentage.
fn less(percent: &str) -> String {
    let text = percent.trim_end_matches('%');
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let scale = 10u128.pow(decimals.len().min(17) as u32);
    let value = whole.parse::<u128>().unwrap_or(0) * scale + decimals.parse::<u128>().unwrap_or(0);
    let rest = (100 * scale).saturating_sub(value);
    match scale {
        1 => format!("{rest}%"),
        _ => format!("{}.{:0width$}%", rest / scale, rest % scale, width = decimals.len()),
    }
}

/// Reads `rate RATE [OVERHEAD [CELL [CELL-OVERHEAD]]]`.
fn own_rate(args: &mut Args<'_>, netem: &mut Netem) -> Result<(), Problem> {
    let bits = tc_rate(args.value("a rate")?)?;
    netem.rate = (bits > 0).then_some(bits);
    netem.keys.push(("rate", quote(&rate(bits))));
    let signed = args
        .peek()
        .filter(|w| w.text.starts_with('-') || w.text.starts_with(|c: char| c.is_ascii_digit()));
    let Some(overhead) = signed else { return Ok(()) };
    args.next();
    netem.keys.extend(stab::bytes(overhead)?.map(|bytes| ("overhead", quote(&bytes))));
    if let Some(cell) = args.number() {
        let bytes = whole(cell)?;
        let more = args.number().map(whole).transpose()?.unwrap_or(0);
        match (bytes, more) {
            (0, _) => {}
            (48, 5) => netem.keys.push(("cells", quote("atm"))),
            _ => {
                return Err(no_equal_phrase(
                    cell.at.clone(),
                    "this size of cells",
                    "cells of ATM can be imported: `rate RATE OVERHEAD 48 5`",
                ));
            }
        }
    }
    Ok(())
}

fn slot(args: &mut Args<'_>, netem: &mut Netem) -> Result<(), Problem> {
    let first = args.value("a time")?;
    if first.text == "distribution" {
        return Err(no_equal(
            first.at.clone(),
            "slot distribution",
            "slots have a shortest and a longest time here: write `slot 10ms 20ms`",
        ));
    }
    let mut keys = vec![("least", quote(&time(tc_time(first)?)))];
    if let Some(most) = args.number() {
        keys.push(("most", quote(&time(tc_time(most)?))));
    }
    while let Some(word) = args.peek() {
        match word.text.as_str() {
            "packets" | "bytes" => {
                args.next();
                let number = args.value("a number")?;
                let (key, n) = if word.text == "packets" {
                    ("packets", whole(number)?)
                } else {
                    ("bytes", tc_size(number)?)
                };
                if n > 0 {
                    keys.push((
                        key,
                        if key == "packets" {
                            n.to_string()
                        } else {
                            quote(&crate::amounts::size(n))
                        },
                    ));
                }
            }
            _ => break,
        }
    }
    netem.keys.push(("slot", inline(&keys)));
    Ok(())
}
