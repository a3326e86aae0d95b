//! Policers of filters: rules with token buckets, before all other rules of their direction.

use super::filter::Filter;
use crate::amounts::{rate, size, tc_rate, time};
use crate::args::{Args, no_equal, no_equal_phrase, not_imported};
use crate::draft::{Table, inline, quote};
use crate::lines::Word;
use crate::tc::classes;
use falaj_scenario::Problem;
use std::ops::Range;

/// The longest frame that an Ethernet link carries, in bytes without the frame check sequence.
const LARGEST: u64 = 1514;

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    /// The rate at which it fills, bit/s.
    pub(super) rate: u64,
    /// Its size in bytes.
    pub(super) burst: u64,
}

impl Bucket {
    /// The time in which the empty bucket becomes full, in whole nanoseconds.
    fn fill_time(self) -> u64 {
        let units = u128::from(self.burst) * 8_000_000_000;
        u64::try_from(units / u128::from(self.rate.max(1))).unwrap_or(u64::MAX)
    }

    /// Returns why tc fills `peak`, the bucket of `peakrate`, less than falaj does: between two
    /// packets, tc counts at most the time in which this bucket, of `rate`, becomes full. `None` if
    /// both fill it alike.
    pub(super) fn limits_peak(self, peak: Bucket) -> Option<String> {
        (peak.fill_time() > self.fill_time()).then(|| {
            format!(
                "tc fills the bucket of `peakrate` for at most {} between two packets, in which \
                 the bucket of `rate` becomes full; here it fills up to its `mtu` of {}",
                time(self.fill_time()),
                size(peak.burst)
            )
        })
    }

    /// The bucket as a table of `conforms-to`.
    fn table(self, layer: &str) -> String {
        let bucket = [("rate", quote(&rate(self.rate))), ("burst", quote(&size(self.burst)))];
        let layer = Some(("layer", quote(layer))).filter(|_| layer != "ip");
        inline(&bucket.into_iter().chain(layer).collect::<Vec<_>>())
    }
}

/// The effect of a policer on the packets that conform to it, or on those that exceed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// `ok`, `pass`: the filter takes the packet, and runs no action after the policer.
    Ends,
    /// `pipe`: the filter takes the packet, and runs the next action.
    Pipes,
    /// `continue`: the filter does not take the packet, which goes on to the next filter.
    Continues,
    /// `drop`, `shot`.
    Drops,
    /// `reclassify`: tc tries all filters again, in vain, and drops the packet.
    Reclassifies,
}

impl Effect {
    fn is_taken(self) -> bool {
        matches!(self, Effect::Ends | Effect::Pipes)
    }
}

/// A policer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Police {
    bucket: Bucket,
    /// The second bucket: `peakrate`, with `mtu` as its size.
    peak: Option<Bucket>,
    conforming: Effect,
    exceeding: Effect,
    pub(super) at: Range<usize>,
}

/// Reads the words after `police`.
pub(super) fn read(police: &Word, args: &mut Args<'_>) -> Result<Police, Problem> {
    let (mut bits, mut burst, mut exceed) = (None, None, None);
    let (mut peak, mut mtu, mut conforming) = (None, None, Effect::Ends);
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
                let (over, within) = value.text.split_once('/').unwrap_or((&value.text, "ok"));
                let is_possible =
                    |effect: &Effect| effect.is_taken() || *effect == Effect::Continues;
                conforming = effect(within).filter(is_possible).ok_or_else(|| {
                    let possible = EFFECTS.iter().filter(|(_, effect)| is_possible(effect));
                    let word = Word { text: within.to_owned(), at: value.at.clone() };
                    let names: Vec<&str> = possible.map(|(name, _)| *name).collect();
                    not_imported(&word, "actions for conforming packets", &names)
                })?;
                exceed = Some((over, value));
            }
            over if effect(over).is_some() => {
                args.next();
                exceed = Some((over, word));
            }
            "avrate" | "overhead" | "linklayer" | "mpu" | "pkts_rate" | "pkts_burst" => {
                let why = "a policer has token buckets of bytes: `rate` and `burst`, `peakrate` \
                           and `mtu`";
                return Err(no_equal(word.at.clone(), &word.text, why));
            }
            _ => break,
        }
    }
    let (over, at) = exceed.map_or(("reclassify", &police.at), |(over, word)| (over, &word.at));
    let Some(exceeding) = effect(over) else {
        let names: Vec<&str> = EFFECTS.iter().map(|(name, _)| *name).collect();
        let word = Word { text: over.to_owned(), at: at.clone() };
        return Err(not_imported(&word, "actions for exceeding packets", &names));
    };
    if exceeding == Effect::Reclassifies {
        let what = "tc tries all filters again for packets that exceed, finds them too fast at \
                    each of 17 tries, and drops them";
        args.notes.push(
            Problem::warning(at.clone(), what)
                .help("`drop` says so; `continue` leaves them to the next filter"),
        );
    }
    let missing = |what: &str| {
        Problem::error(police.at.clone(), format!("police needs {what}"))
            .help("as in `police rate 1mbit burst 10k drop`")
    };
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
            let why = "in tc longer packets exceed the policer: leave `mtu` out, and drop long \
                       packets by a rule of the scenario that matches `length`";
            return Err(no_equal_phrase(word.at.clone(), "an `mtu` below a frame", why));
        }
        (None, Some((_, word))) => {
            args.left_out(word, "no packet is longer");
            None
        }
        (None, None) => None,
    };
    if let Some(what) = peak.and_then(|peak| bucket.limits_peak(peak)) {
        args.notes.push(Problem::warning(police.at.clone(), what));
    }
    Ok(Police { bucket, peak, conforming, exceeding, at: police.at.clone() })
}

/// The names of the effects.
const EFFECTS: &[(&str, Effect)] = &[
    ("ok", Effect::Ends),
    ("pass", Effect::Ends),
    ("pipe", Effect::Pipes),
    ("continue", Effect::Continues),
    ("drop", Effect::Drops),
    ("shot", Effect::Drops),
    ("reclassify", Effect::Reclassifies),
];

/// The effect of this word.
fn effect(word: &str) -> Option<Effect> {
    EFFECTS.iter().find(|(name, _)| *name == word).map(|(_, effect)| *effect)
}

impl Police {
    /// The value of `conforms-to`.
    fn buckets(&self, layer: &str) -> String {
        let bucket = self.bucket.table(layer);
        match self.peak {
            Some(peak) => format!("[{bucket}, {}]", peak.table(layer)),
            None => bucket,
        }
    }

    /// Returns true if the filter takes no packet: those that the policer does not drop go on to
    /// the next filter.
    pub(super) fn takes_none(&self) -> bool {
        !self.conforming.is_taken() && !self.exceeding.is_taken()
    }

    /// Returns true if the filter takes all packets that it matches, as without the policer.
    pub(super) fn takes_all(&self) -> bool {
        self.conforming.is_taken() && self.exceeding.is_taken()
    }

    /// Returns true if the filter takes some packets, and others go on to the next filter.
    fn divides(&self) -> bool {
        let continues = [self.conforming, self.exceeding].contains(&Effect::Continues);
        !self.takes_none() && continues
    }

    /// Checks the action after the policer: packets that the filter takes must come to it.
    pub(super) fn before_action(&self, action: &Word) -> Result<(), Problem> {
        for (effect, whose, write) in [
            (self.conforming, "conform", "`conform-exceed EXCEED/pipe`"),
            (self.exceeding, "exceed", "`conform-exceed pipe/CONFORM`"),
        ] {
            if effect == Effect::Ends {
                let why = format!(
                    "tc does not run it for packets that {whose}, as they leave at the policer: \
                     write {write}"
                );
                return Err(no_equal_phrase(
                    action.at.clone(),
                    "this action after the policer",
                    &why,
                ));
            }
        }
        Ok(())
    }
}

/// Gives a mark to each policer that leaves some packets to the next filter, in the order in which
/// filters are tried: a packet with the mark N was not taken by the first N of them.
pub(super) fn mark(filters: &mut [Filter]) -> Result<(), Problem> {
    let mut order: Vec<&mut Filter> = filters.iter_mut().collect();
    order.sort_by_key(|filter| filter.prio);
    let policers = order.iter().filter_map(|filter| filter.police.as_ref());
    let mut behind = policers.skip_while(|police| police.conforming != Effect::Continues).skip(1);
    if let Some(police) = behind.find(|police| police.exceeding == Effect::Reclassifies) {
        let why = "at each try tc takes tokens of the policer before it: write `drop`";
        let what = "`reclassify` behind a policer that leaves packets to the next filter";
        return Err(no_equal_phrase(police.at.clone(), what, why));
    }
    let divides = |filter: &Filter| filter.police.as_ref().is_some_and(Police::divides);
    let all = order.iter().filter(|filter| divides(filter)).count() as u32;
    let reads_marks = order.iter().find(|filter| filter.marks.is_some()).map(|f| f.at.clone());
    let mut count = 0;
    for filter in order.iter_mut().filter(|filter| divides(filter)) {
        if let Some(at) = reads_marks {
            let why = "packets that a policer leaves to the next filter have marks of their own \
                       here, so another filter cannot match marks: match other fields";
            let what = "a filter of kind `fw` beside a policer with `continue`";
            return Err(no_equal_phrase(at, what, why));
        }
        count += 1;
        filter.past = (count..=all).collect();
    }
    Ok(())
}

/// The rules for filters that are tried in this order. Packets that policers drop go no further;
/// those that a policer leaves to the next filter get a mark; and all others skip to the rule
/// `next`. Empty if no filter has a policer.
pub(super) fn rules(filters: &[&Filter], direction: &str, layer: &str, next: &str) -> Vec<Table> {
    let Some(last) = filters.iter().rposition(|filter| filter.police.is_some()) else {
        return Vec::new();
    };
    let filters: Vec<&Filter> =
        filters[..=last].iter().copied().filter(|f| f.parent == filters[last].parent).collect();
    let mut rules: Vec<Table> = Vec::new();
    // Name of the next rule, if a rule skips to it.
    let mut name = None;
    for (n, filter) in filters.iter().enumerate() {
        let mut rule = Table::new("[[rule]]", filter.at.clone());
        name.take().into_iter().for_each(|name: String| rule.text("name", name));
        if filter.rule != "any" {
            rule.text("match", &filter.rule);
        }
        rule.text("direction", direction);
        let skip = |to: &str| inline(&[("skip-to", quote(to))]);
        let Some(police) = &filter.police else {
            rule.set("to", skip(next));
            rules.push(rule);
            continue;
        };
        let mut over = rule.clone();
        over.unset("name");
        rule.set("conforms-to", police.buckets(layer));
        let mark = filter.past.first().map(u32::to_string);
        if police.conforming == Effect::Continues {
            mark.iter().for_each(|mark| rule.set("mark", mark));
            if n == filters.len() - 1 {
                rule.set("to", skip(next));
            } else {
                let after = format!("{next}-after-{}", n + 1);
                rule.set("to", skip(&after));
                name = Some(after);
            }
        } else {
            rule.set("to", skip(next));
        }
        rules.push(rule);
        match police.exceeding {
            Effect::Drops | Effect::Reclassifies => over.text("to", "drop"),
            Effect::Continues => {
                mark.iter().for_each(|mark| over.set("mark", mark));
                over.text("to", "pass");
                over.text("then", "on");
            }
            Effect::Ends | Effect::Pipes => over.set("to", skip(next)),
        }
        rules.push(over);
    }
    rules
}
