//! Warnings about marks that no rule sets, rules that no packet reaches, packets that match no
//! rule, and links to which no rule leads.

use crate::diagnostics::Problem;
use crate::link::Known;
use crate::routing::rules::RuleRead;
use crate::suggest::quoted;
use falaj_engine::classifier::Match;
use falaj_engine::rules::{MarkChange, RouteRule, RuleAction, RuleTarget};
use falaj_engine::term::Term;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The value and the mask of the first mark in these matches that no rule sets.
fn unset(matches: &[Match], rules: &[RuleRead]) -> Option<(u32, u32)> {
    let changes = || rules.iter().filter_map(|read| read.rule.rule.mark);
    // Rules that change a part of a mark may set it together.
    let parts = changes().any(|change| change.mask != u32::MAX);
    let all = changes().fold(0, |all, change| all | change.value);
    let set = |value: u32, mask: u32| {
        let whole = |change: MarkChange| change.value & mask == value;
        value == 0 || changes().any(whole) || (parts && value & !all == 0)
    };
    matches.iter().flat_map(|m| m.more.iter()).find_map(|literal| match literal.term {
        Term::Mark { value, mask } if !literal.not && !set(value, mask) => Some((value, mask)),
        _ => None,
    })
}

fn no_rule_sets((value, mask): (u32, u32), at: Range<usize>, what: &str) -> Problem {
    let keys = match mask {
        u32::MAX => format!("`mark = {value}`"),
        mask => format!("`mark = {value:#x}`, `mark-mask = {mask:#x}`"),
    };
    let mark = Term::Mark { value, mask };
    Problem::warning(at, format!("{what}: no rule sets {mark}")).help(format!(
        "set the mark in an earlier rule whose packets go on: {keys} and `then = \"on\"`"
    ))
}

/// Warns of flows, at any depth below this table, that match a mark which no rule sets.
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
                    // Values that cannot be parsed are reported elsewhere.
                    let matches =
                        text.get_ref().as_str().and_then(|text| crate::parse_match(text).ok());
                    let unset = matches.and_then(|matches| unset(&matches, rules));
                    let what = || format!("flow {}", quoted(name.get_ref()));
                    problems.extend(unset.map(|mark| no_rule_sets(mark, text.span(), &what())));
                }
            }
        }
        marks(inner, rules, problems);
    }
}

/// If there are more rules than this number, they are not compared with each other, as that would
/// take too long.
const COMPARED: usize = 1000;

/// Warns of rules that no packet reaches, packets that match no rule, and links to which no rule
/// leads.
pub(crate) fn rules(all: &[RuleRead], links: &[Known], problems: &mut Vec<Problem>) {
    if all.is_empty() {
        return;
    }
    // For each rule and direction: true if packets can reach the rule. They come from the rule
    // before it, unless that one keeps all packets; or from a rule with `skip-to`.
    let mut reached = vec![[false; 2]; all.len() + 1];
    reached[0] = [true; 2];
    for (n, read) in all.iter().enumerate() {
        let rule = &read.rule.rule;
        let here = reached[n];
        for way in [0, 1].into_iter().filter(|way| here[*way]) {
            let applies = rule.way.is_none_or(|only| only == way);
            if let (RuleAction::SkipTo(to), true) = (&rule.to, applies) {
                reached[*to as usize][way] = true;
            }
            reached[n + 1][way] |=
                !applies || !keeps(rule) || !rule.matches.iter().any(Match::is_any);
        }
    }
    let is_reached = |n: usize| match all.get(n).and_then(|read| read.rule.rule.way) {
        Some(way) => reached[n][way],
        None => reached[n].contains(&true),
    };
    let skips = all.iter().any(|read| matches!(read.rule.rule.to, RuleAction::SkipTo(_)));
    for (n, read) in all.iter().enumerate() {
        let taker = if !is_reached(n) {
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
                        "rule {0} before it matches them all; put rule {0} after it",
                        quoted(&before.rule.name)
                    ),
                    None => "a rule before it matches every packet; put that rule last".to_owned(),
                },
            ),
        );
    }
    for read in all {
        let what = format!("rule {}", quoted(&read.rule.name));
        problems.extend(
            unset(&read.rule.rule.matches, all)
                .map(|mark| no_rule_sets(mark, read.at.clone(), &what)),
        );
    }
    if let (true, Some(last)) = (is_reached(all.len()), all.last()) {
        let counts = all.iter().any(|read| {
            let rule = &read.rule.rule;
            rule.on
                && rule.takes_all()
                && rule.way.is_none()
                && rule.matches.iter().any(Match::is_any)
        });
        if !counts {
            problems.push(
                Problem::warning(last.at.clone(), "packets that match no rule are dropped")
                    .label("after the last rule")
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
                .help(format!("write a rule with `to = \"{}\"`", name.trim_matches('`'))),
        );
    }
}

/// Returns true if no packet that the rule matches goes on to the next rule.
fn keeps(rule: &RouteRule) -> bool {
    rule.takes_all()
        && (!rule.on || matches!(rule.to, RuleAction::SkipTo(_)))
        && !matches!(rule.to, RuleAction::Table { .. })
}

/// Returns true if the first rule takes all packets that the second rule matches.
fn covers(first: &RouteRule, second: &RouteRule) -> bool {
    // A rule between the two may change the mark.
    let noted = |m: &Match| m.more.iter().any(|literal| matches!(literal.term, Term::Mark { .. }));
    let one = |m: &Match| first.matches.iter().any(|f| f.and(m).as_ref() == Some(m));
    keeps(first)
        && !first.matches.iter().any(noted)
        && (first.way.is_none() || first.way == second.way)
        && second.matches.iter().all(one)
}
