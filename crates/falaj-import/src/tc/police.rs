//! Policers of filters: rules with token buckets, before all other rules of their direction.

use super::filter::Filter;
use crate::amounts::{rate, size, tc_rate, time};
use crate::args::{Args, no_equal, no_equal_phrase};
use crate::draft::{Table, inline, quote};
use crate::lines::Word;
use crate::tc::classes;
use falaj_scenario::Problem;
use std::ops::Range;

/// The longest frame that an Ethernet link carries, in bytes without the frame check sequence.
const LARGEST: u64 = 1514;

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    /// The rate at which it fills, bit/s.
    rate: u64,
    /// Its size in bytes.
    burst: u64,
}

impl Bucket {
    /// The time in which the empty bucket becomes full, in whole nanoseconds.
    fn fill_time(self) -> u64 {
        let units = u128::from(self.burst) * 8_000_000_000;
        u64::try_from(units / u128::from(self.rate.max(1))).unwrap_or(u64::MAX)
    }

    /// The bucket as a table of `conforms-to`.
    fn table(self, layer: &str) -> String {
        let bucket = [("rate", quote(&rate(self.rate))), ("burst", quote(&size(self.burst)))];
        let layer = Some(("layer", quote(layer))).filter(|_| layer != "ip");
        inline(&bucket.into_iter().chain(layer).collect::<Vec<_>>())
    }
}

/// A policer: packets that exceed one of its token buckets are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Police {
    bucket: Bucket,
    /// The second bucket: `peakrate`, with `mtu` as its size.
    peak: Option<Bucket>,
    pub(super) at: Range<usize>,
}

/// Reads the words after `police`.
pub(super) fn read(police: &Word, args: &mut Args<'_>) -> Result<Police, Problem> {
    let (mut bits, mut burst, mut exceed) = (None, None, None);
    let (mut peak, mut mtu) = (None, None);
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
            "peakrate" => {
                args.next();
                peak = Some((tc_rate(args.value("a rate")?)?, word));
            }
            "mtu" | "minburst" => {
                args.next();
                mtu = Some((classes::bucket(args)?, word));
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
            "avrate" | "overhead" | "linklayer" | "pkts_rate" | "pkts_burst" => {
                let why = "a policer has token buckets of bytes: `rate` and `burst`, `peakrate` \
                           and `mtu`";
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
    let bucket = Bucket {
        rate: bits.ok_or_else(|| missing("a `rate`"))?,
        burst: burst.ok_or_else(|| missing("a `burst`"))?,
    };
    let peak = match (peak, mtu) {
        (Some((rate, _)), Some((burst, _))) => Some(Bucket { rate, burst }),
        (Some((_, word)), None) => {
            return Err(Problem::error(word.at.clone(), "`peakrate` needs an `mtu`")
                .help("its number of bytes is the size of the second token bucket"));
        }
        (None, Some((mtu, word))) if mtu < LARGEST => {
            let why = "each packet that is longer exceeds the policer: match the length, by a rule \
                       of its own";
            return Err(no_equal_phrase(word.at.clone(), "an `mtu` below a frame", why));
        }
        (None, Some((_, word))) => {
            args.left_out(word, "no packet is longer");
            None
        }
        (None, None) => None,
    };
    if let Some(peak) = peak.filter(|peak| peak.fill_time() > bucket.fill_time()) {
        let what = format!(
            "tc fills the bucket of `peakrate` for at most {} between two packets, in which the \
             bucket of `rate` becomes full; here it fills up to its `mtu` of {}",
            time(bucket.fill_time()),
            size(peak.burst)
        );
        args.notes.push(Problem::warning(police.at.clone(), what));
    }
    Ok(Police { bucket, peak, at: police.at.clone() })
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
            let bucket = police.bucket.table(layer);
            let buckets = match police.peak {
                Some(peak) => format!("[{bucket}, {}]", peak.table(layer)),
                None => bucket,
            };
            rule.set("conforms-to", buckets);
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
