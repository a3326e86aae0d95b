//! Policers of filters: rules with a token bucket, before all other rules of their direction.

use super::filter::Filter;
use crate::amounts::{rate, size, tc_rate, whole};
use crate::args::{Args, no_equal, no_equal_phrase};
use crate::draft::{Table, inline, quote};
use crate::lines::Word;
use crate::tc::classes;
use falaj_scenario::Problem;
use std::ops::Range;

/// The longest frame that an Ethernet link carries, in bytes without the frame check sequence.
const LARGEST: u64 = 1514;

/// A policer: packets that exceed its token bucket are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Police {
    rate: u64,
    burst: u64,
    pub(super) at: Range<usize>,
}

/// Reads the words after `police`.
pub(super) fn read(police: &Word, args: &mut Args<'_>) -> Result<Police, Problem> {
    let (mut bits, mut burst, mut exceed) = (None, None, None);
    while let Some(word) = args.peek() {
        match word.text.as_str() {
            "rate" => {
                args.next();
                bits = Some(tc_rate(args.value("a rate")?)?);
            }
            "burst" | "buffer" | "maxburst" => {
                args.next();
                burst = Some(classes::bucket(args)?);
            }
            "mtu" | "minburst" => {
                args.next();
                let value = args.value("a number of bytes")?;
                if whole(value)? < LARGEST {
                    let why = "each packet that is longer exceeds the policer: match the length, \
                               by a rule of its own";
                    return Err(no_equal_phrase(value.at.clone(), "an `mtu` below a frame", why));
                }
                args.left_out(word, "no packet is longer");
            }
            "index" => {
                args.next();
                args.value("a number")?;
                args.left_out(word, "no other filter shares the policer");
            }
            "conform-exceed" => {
                args.next();
                let value = args.value("`EXCEED` or `EXCEED/CONFORM`")?;
                let (over, within) = value.text.split_once('/').unwrap_or((&value.text, "pipe"));
                if !["ok", "pass", "pipe"].contains(&within) {
                    let why = "packets that conform pass, `ok` or `pipe`";
                    return Err(no_equal_phrase(value.at.clone(), "this action", why));
                }
                exceed = Some((over, value));
            }
            over @ ("drop" | "shot" | "ok" | "pass" | "pipe" | "continue" | "reclassify") => {
                args.next();
                exceed = Some((over, word));
            }
            "peakrate" | "avrate" | "overhead" | "linklayer" | "pkts_rate" | "pkts_burst" => {
                let why = "a policer has one token bucket of bytes, `rate` and `burst`";
                return Err(no_equal(word.at.clone(), &word.text, why));
            }
            _ => break,
        }
    }
    match exceed {
        Some(("drop" | "shot", _)) => {}
        Some((over, word)) => {
            let why = "packets that exceed are dropped, `drop` or `conform-exceed drop`";
            return Err(no_equal(word.at.clone(), over, why));
        }
        None => {
            let why = "without a word for packets that exceed, tc classifies them again: write \
                       `drop` or `conform-exceed drop`";
            return Err(no_equal_phrase(police.at.clone(), "this policer", why));
        }
    }
    let missing = |what: &str| Problem::error(police.at.clone(), format!("police needs {what}"));
    Ok(Police {
        rate: bits.ok_or_else(|| missing("a `rate`"))?,
        burst: burst.ok_or_else(|| missing("a `burst`"))?,
        at: police.at.clone(),
    })
}

/// The rules for filters that are tried in this order: packets that exceed their filter's policer
/// are dropped, and all others skip to the rule `next`. Empty if no filter has a policer.
pub(super) fn rules(filters: &[&Filter], direction: &str, layer: &str, next: &str) -> Vec<Table> {
    let Some(last) = filters.iter().rposition(|filter| filter.police.is_some()) else {
        return Vec::new();
    };
    let mut rules = Vec::new();
    for filter in filters[..=last].iter().filter(|filter| filter.parent == filters[last].parent) {
        let mut rule = Table::new("[[rule]]", filter.at.clone());
        if filter.rule != "any" {
            rule.text("match", &filter.rule);
        }
        rule.text("direction", direction);
        let mut over = rule.clone();
        if let Some(police) = &filter.police {
            let bucket =
                [("rate", quote(&rate(police.rate))), ("burst", quote(&size(police.burst)))];
            let layer = Some(("layer", quote(layer))).filter(|_| layer != "ip");
            rule.set("conforms-to", inline(&bucket.into_iter().chain(layer).collect::<Vec<_>>()));
        }
        rule.set("to", inline(&[("skip-to", quote(next))]));
        rules.push(rule);
        if filter.police.is_some() {
            over.text("to", "drop");
            rules.push(over);
        }
    }
    rules
}
