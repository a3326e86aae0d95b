//! Values that are legal but hardly meant: what of them is unlikely, and what
//! to write.

pub(crate) mod envelope;

use crate::diagnostics::Problem;
use crate::link::Known;
use crate::model::Source;
use crate::routing::rules::RuleRead;
use crate::suggest::quoted;
use falaj_engine::account::Account;
use falaj_engine::classifier::Match;
use falaj_engine::rules::{RouteRule, RuleAction, RuleTarget};
use falaj_engine::term::Term;
use falaj_sched::contract::params::Manifest;
use falaj_sched::contract::params::Setup;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A queue that holds far less than what is on its way on the link.
pub(crate) struct ShortQueue {
    /// Whose it is; `None`: all flows'.
    pub(crate) flow: Option<usize>,
    limit: Limit,
    /// The rate at which it is served.
    rate: Rate,
    delay: Span,
    /// Rate times delay, in bytes.
    product: u64,
    /// That many of the largest packets.
    packets: u64,
}

/// Queues of less than a tenth of rate times delay, where the rate is what the
/// flow is promised, or the link's.
pub(crate) fn short_queues(
    setup: &Setup,
    delay: Span,
    entry: &Manifest,
    promised: &[Option<Rate>],
) -> Vec<ShortQueue> {
    if setup.rate.is_unlimited() || delay == Span::ZERO {
        return Vec::new();
    }
    let short = |flow: Option<usize>, limits: &[Limit], rate: Rate| {
        let product = u128::from(rate.0) * u128::from(delay.0) / 8_000_000_000;
        let largest = u128::from(setup.largest.max(1));
        let bytes = |limit: &Limit| match *limit {
            Limit::Packets(n) => u128::from(n) * largest,
            Limit::Bytes(n) => n.into(),
        };
        let held: u128 = limits.iter().map(bytes).sum();
        (held * 10 < product).then(|| ShortQueue {
            flow,
            limit: match limits {
                [one] => *one,
                _ => Limit::Bytes(u64::try_from(held).unwrap_or(u64::MAX)),
            },
            rate,
            delay,
            product: u64::try_from(product).unwrap_or(u64::MAX),
            packets: u64::try_from(product.div_ceil(largest)).unwrap_or(u64::MAX),
        })
    };
    let limits: Vec<Limit> = setup.flows.iter().map(|f| f.limit).collect();
    // One queue for all.
    if entry.kind == "fifo" {
        return match (setup.scheduler.limit("queue"), limits.as_slice()) {
            (Some(limit), _) => short(None, &[limit], setup.rate),
            (None, [one]) => short(Some(0), &[*one], setup.rate),
            (None, all) => short(None, all, setup.rate),
        }
        .into_iter()
        .collect();
    }
    let rate =
        |n: usize| promised.get(n).copied().flatten().filter(|r| r.0 > 0).unwrap_or(setup.rate);
    limits.iter().enumerate().filter_map(|(n, limit)| short(Some(n), &[*limit], rate(n))).collect()
}

impl ShortQueue {
    /// `unset`: the limit is the default, and `at` the header of its table.
    pub(crate) fn problem(
        &self,
        at: Range<usize>,
        what: &str,
        unset: bool,
        of_a_flow: bool,
    ) -> Problem {
        let which = if unset { "is not set here: it is" } else { "holds" };
        Problem::warning(at, format!("{what}: its queue is less than a tenth of what is on its way on the link"))
            .label(format!(
                "`queue` {which} {}; {} x {} is {}",
                self.limit,
                rate(self.rate),
                self.delay,
                bytes(self.product)
            ))
            .help(if of_a_flow {
                format!("one TCP connection needs about `queue = \"{}p\"` to use that rate", self.packets)
            } else {
                let queue = format!("scheduler = {{ kind = \"fifo\", queue = \"{}p\" }}", self.packets);
                format!("one TCP connection needs about `{queue}` to use that rate")
            })
            .help("if it is short on purpose, a flow says so by the delay it needs: `need = { delay = \"…\" }`")
    }
}

/// A phase whose end is often wasted.
pub(crate) struct LongTail {
    pub(crate) flow: usize,
    phase: Span,
    tail: Span,
    largest: u32,
    /// Phases without a tail: the next shorter and the next longer one.
    fitting: [Span; 2],
}

/// Phases of which more than a twentieth passes when their packets are of the
/// largest size, where tails are waited for.
pub(crate) fn long_tails(setup: &Setup) -> Vec<LongTail> {
    // Skipped or carried over, a tail is not lost.
    if setup.scheduler.choice("tail") != Some("wait") {
        return Vec::new();
    }
    let of = |n: u64| setup.rate.airtime_of_many(u64::from(setup.largest).saturating_mul(n));
    let packet = setup.largest_airtime().0.max(1);
    let long = |(flow, values): (usize, Span)| {
        let fit = values.0 / packet;
        // Rounding up a packet's time adds up over many; the phase may hold one more.
        let fit = if of(fit + 1) <= values { fit + 1 } else { fit };
        let tail = Span(values.0.checked_sub(of(fit).0)?);
        (fit > 0 && u128::from(tail.0) * 20 > u128::from(values.0)).then(|| LongTail {
            flow,
            phase: values,
            tail,
            largest: setup.largest,
            fitting: [of(fit), of(fit + 1)],
        })
    };
    let phases =
        setup.flows.iter().enumerate().filter_map(|(n, f)| Some((n, f.values.span("phase")?)));
    phases.filter_map(long).collect()
}

impl LongTail {
    pub(crate) fn problem(&self, at: Range<usize>, what: &str) -> Problem {
        let share = self.tail.0 as f64 * 100.0 / self.phase.0 as f64;
        let [shorter, longer] = self.fitting;
        Problem::warning(
            at,
            format!("{what}: {share:.1} % of its phase passes unused behind its largest packets"),
        )
        .label(format!("{} are too short for {} B", self.tail, self.largest))
        .help(format!("write `{shorter}` or `{longer}`, in which they fit without a rest"))
        .help("or give the rest away: `tail = \"skip\"` in the scheduler")
    }
}

/// A mark that these ask for, and that no rule sets.
fn unset(matches: &[Match], rules: &[RuleRead]) -> Option<u32> {
    let set = |mark: u32| mark == 0 || rules.iter().any(|read| read.rule.rule.mark == Some(mark));
    matches.iter().flat_map(|m| m.more.iter()).find_map(|literal| match literal.term {
        Term::Mark(mark) if !literal.not && !set(mark) => Some(mark),
        _ => None,
    })
}

fn nobody_sets(mark: u32, at: Range<usize>, what: &str) -> Problem {
    Problem::warning(at, format!("{what}: no rule sets mark {mark}")).help(format!(
        "a rule before it does with `mark = {mark}`, and lets its packets go on: `then = \"on\"`"
    ))
}

/// Flows, at any depth below this table, that ask for a mark which no rule sets.
pub(crate) fn marks(table: &DeTable<'_>, rules: &[RuleRead], problems: &mut Vec<Problem>) {
    let below = |value: &'_ Spanned<DeValue<'_>>| value.get_ref().as_table().is_some();
    for (key, value) in table.iter().filter(|(_, value)| below(value)) {
        let Some(inner) = value.get_ref().as_table() else { continue };
        if key.get_ref() == "flow" {
            for (name, flow) in inner {
                let rule = flow.get_ref().as_table().and_then(|flow| flow.get("match"));
                let Some(rule) = rule else { continue };
                let one = std::slice::from_ref(rule);
                for text in rule.get_ref().as_array().map_or(one, |list| list) {
                    // What cannot be read is said where it is read.
                    let matches =
                        text.get_ref().as_str().and_then(|text| crate::parse_match(text).ok());
                    let unset = matches.and_then(|matches| unset(&matches, rules));
                    let what = || format!("flow {}", quoted(name.get_ref()));
                    problems.extend(unset.map(|mark| nobody_sets(mark, text.span(), &what())));
                }
            }
        }
        marks(inner, rules, problems);
    }
}

/// Among more rules than this, none is compared with all others.
const COMPARED: usize = 1000;

/// Rules that no packet reaches, packets that no rule takes, and links that no rule leads to.
pub(crate) fn rules(all: &[RuleRead], links: &[Known], problems: &mut Vec<Problem>) {
    if all.is_empty() {
        return;
    }
    // Packets come to a rule from the one before it, unless that takes them all, and by `skip-to`.
    let mut reached = vec![false; all.len() + 1];
    reached[0] = true;
    for (n, read) in all.iter().enumerate() {
        let rule = &read.rule.rule;
        if !reached[n] {
            continue;
        }
        if let RuleAction::SkipTo(to) = rule.to {
            reached[to as usize] = true;
        }
        reached[n + 1] |=
            !keeps(rule) || rule.way.is_some() || !rule.matches.iter().any(Match::is_any);
    }
    let skips = all.iter().any(|read| matches!(read.rule.rule.to, RuleAction::SkipTo(_)));
    for (n, read) in all.iter().enumerate() {
        let taker = if !reached[n] {
            Some(None)
        } else if skips || all.len() > COMPARED {
            None
        } else {
            all[..n].iter().find(|before| covers(&before.rule.rule, &read.rule.rule)).map(Some)
        };
        let Some(taker) = taker else { continue };
        let name = quoted(&read.rule.name);
        problems.push(
            Problem::warning(read.at.clone(), format!("no packet reaches rule {name}")).help(
                match taker {
                    Some(before) => format!(
                        "rule {} before it takes them all; put that one behind",
                        quoted(&before.rule.name)
                    ),
                    None => "a rule before it takes every packet; put that one last".to_owned(),
                },
            ),
        );
    }
    for read in all {
        let what = format!("rule {}", quoted(&read.rule.name));
        problems.extend(
            unset(&read.rule.rule.matches, all)
                .map(|mark| nobody_sets(mark, read.at.clone(), &what)),
        );
    }
    if let (true, Some(last)) = (reached[all.len()], all.last()) {
        let counts = all.iter().any(|read| {
            let rule = &read.rule.rule;
            rule.on
                && rule.probability.is_none()
                && rule.way.is_none()
                && rule.matches.iter().any(Match::is_any)
        });
        if !counts {
            problems.push(
                Problem::warning(last.at.clone(), "packets that no rule takes are dropped")
                    .label("behind the last rule")
                    .help("a last rule without `match` takes them: `to = \"pass\"`, to a link, or `to = \"drop\"`"),
            );
        }
    }
    for (n, known) in links.iter().enumerate() {
        let leads = |to: &RuleAction| match to {
            RuleAction::Links(links) => links.contains(&(n as u32)),
            RuleAction::Table { targets, .. } => {
                targets.contains(&Some(RuleTarget::Link(n as u32)))
            }
            _ => false,
        };
        let Some(link) =
            known.link.as_ref().filter(|_| !all.iter().any(|read| leads(&read.rule.rule.to)))
        else {
            continue;
        };
        let name = quoted(&link.name);
        problems.push(
            Problem::warning(all[0].at.clone(), format!("no rule leads to link {name}"))
                .help(format!("a rule with `to = \"{}\"` does", name.trim_matches('`'))),
        );
    }
}

/// Does a rule keep all packets that it is for?
fn keeps(rule: &RouteRule) -> bool {
    rule.probability.is_none()
        && (!rule.on || matches!(rule.to, RuleAction::SkipTo(_)))
        && !matches!(rule.to, RuleAction::Table { .. })
}

/// Does the first rule take all that the second one is for?
fn covers(first: &RouteRule, second: &RouteRule) -> bool {
    // What it marks may be another's between the two.
    let noted = |m: &Match| m.more.iter().any(|literal| matches!(literal.term, Term::Mark(_)));
    let one = |m: &Match| first.matches.iter().any(|f| f.and(m).as_ref() == Some(m));
    keeps(first)
        && !first.matches.iter().any(noted)
        && (first.way.is_none() || first.way == second.way)
        && second.matches.iter().all(one)
}

/// A rate for people: as it is written, unless that has more digits than anybody reads.
fn rate(rate: Rate) -> String {
    readable(&rate.to_string()).unwrap_or_else(|| {
        let units = [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
        rounded(rate.0, &units, "bit/s")
    })
}

/// The same for a number of bytes.
fn bytes(bytes: u64) -> String {
    let text = format!("{bytes}B");
    readable(&text).unwrap_or_else(|| {
        rounded(bytes, &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")], "B")
    })
}

/// `text`, if it has no more than four digits that count.
fn readable(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let count = digits.trim_matches('0').len();
    let short = digits.len() <= 6;
    (count <= 4 && short).then(|| text.to_owned())
}

/// `about 311.1 Mbit/s`: a digit behind the point; `5 MB`, where that is all of it.
fn rounded(value: u64, units: &[(u64, &str)], least: &str) -> String {
    match units.iter().find(|(unit, _)| value >= *unit) {
        Some((unit, name)) => {
            let tenths = (u128::from(value) * 10 + u128::from(unit / 2)) / u128::from(*unit);
            let about =
                if tenths * u128::from(*unit) == u128::from(value) * 10 { "" } else { "about " };
            match tenths % 10 {
                0 => format!("{about}{} {name}", tenths / 10),
                rest => format!("{about}{}.{rest} {name}", tenths / 10),
            }
        }
        None => format!("{value} {least}"),
    }
}

/// Headers that decide whether a flow's traffic fits.
pub(crate) struct Headers {
    /// What the sources send as it is written, with headers or without.
    written: Rate,
    /// The same, if what is written were of payload; or the payload of what is written.
    other: Rate,
    fits: bool,
    /// What headers add to the payload, in percent.
    added: f64,
    limit: Rate,
    account: Account,
    /// The first source's size, and what it is with headers around it.
    size: (u32, u32),
}

/// Below this many percent nobody counts headers.
const HEADERS: f64 = 10.0;

/// Traffic of small packets that fits in `limit` only as the link counts it,
/// but not as payload with headers around it; or that does not fit by its
/// headers alone. The sources share the direction whose account this is.
pub(crate) fn headers(sources: &[&Source], account: Account, limit: Rate) -> Option<Headers> {
    let size = sources.first()?.sizes.most();
    if limit.is_unlimited() || limit.0 == 0 {
        return None;
    }
    let sum = |of: &dyn Fn(&Source) -> Option<(u32, u32)>| {
        sources.iter().try_fold(0u64, |sum, s| {
            let (to, from) = of(s)?;
            let rate = u128::from(s.mean_rate().0) * u128::from(to) / u128::from(from.max(1));
            Some(sum.saturating_add(u64::try_from(rate).unwrap_or(u64::MAX)))
        })
    };
    let written = sum(&|_| Some((1, 1)))?;
    // Of sizes that differ, what headers are to the mean one.
    let mean = |s: &Source| {
        let (bytes, times) = s.spec().mean_size();
        (bytes / times.max(1)) as u32
    };
    let payload = sum(&|s| Some((account.udp_payload(mean(s))?, mean(s))))?;
    let around = sum(&|s| Some((account.from_udp(mean(s)), mean(s))))?;
    let fits = written <= limit.0;
    let (other, added) = if fits {
        (around, around as f64 / written.max(1) as f64)
    } else {
        (payload, written as f64 / payload.max(1) as f64)
    };
    let added = (added - 1.0) * 100.0;
    ((other <= limit.0) != fits && added >= HEADERS).then_some(Headers {
        written: Rate(written),
        other: Rate(other),
        fits,
        added,
        limit,
        account,
        size: (size, account.from_udp(size)),
    })
}

impl Headers {
    /// `flow` is whose promise the limit is; `None`: the link's rate.
    pub(crate) fn problem(&self, at: Range<usize>, link: &str, flow: Option<&str>) -> Problem {
        let (written, other, limit, added) =
            (rate(self.written), rate(self.other), rate(self.limit), self.added);
        let (who, limit) = match flow {
            Some(flow) => {
                (format!("flow {}", quoted(flow)), format!("the {limit} that it is promised"))
            }
            None => (format!("link {}", quoted(link)), format!("its {limit}")),
        };
        let layer = self.account.name();
        let meant = format!("`account = \"{layer}\"` in the link's table says that this is meant");
        let (size, whole) = self.size;
        if self.fits {
            Problem::warning(at, format!("{who}: its traffic fits only if `rate` and `size` count headers"))
                .label(format!("as payload it takes {added:.0} % more: {other}, beyond {limit}"))
                .help(format!("{meant}: a rate and a size count Ethernet, IP and UDP headers"))
                .help(format!(
                    "an application's {size} B of payload are `size = \"{whole}B\"`, and its `rate` grows alike"
                ))
        } else {
            Problem::warning(at, format!("{who}: its traffic does not fit, by its headers alone"))
                .label(format!("{written} are beyond {limit}; {added:.0} % on top of {other} of payload are headers"))
                .help(format!("{meant}: a rate and a size count Ethernet, IP and UDP headers"))
                .help("`account = \"payload\"`, if all these rates and sizes are to count payload")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_read() {
        for (bits, text) in [
            (100_000_000, "100mbit"),
            (1_250_000_000, "1.25gbit"),
            (311_111_111, "about 311.1 Mbit/s"),
            (37_888_000, "about 37.9 Mbit/s"),
            (999_960_001, "about 1000 Mbit/s"),
            (12_345, "about 12.3 kbit/s"),
        ] {
            assert_eq!(rate(Rate(bits)), text);
        }
        assert_eq!((bytes(5000).as_str(), bytes(500_000).as_str()), ("5000B", "500000B"));
        assert_eq!(
            (bytes(777_777).as_str(), bytes(25_000_000).as_str()),
            ("about 777.8 kB", "25 MB")
        );
    }
}
