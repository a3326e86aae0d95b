//! Reads rules, which route packets over links.

use crate::diagnostics::Problem;
use crate::keys;
use crate::link::Known;
use crate::model::{Rule, Towards};
use crate::read::{Datum, Fields, Got, fields, get, values};
use crate::routing::tables::{Read, Tables};
use crate::suggest::{self, quoted};
use falaj_engine::classifier::Match;
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::key::Key;
use falaj_engine::policer::Policer;
use falaj_engine::rules;
use falaj_engine::rules::{MarkChange, RuleAction, RuleTarget};
use falaj_engine::table::Field;
use falaj_sched::contract::params::{Value, Values};
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The target of packets that are dropped.
const DROP: &str = "drop";
/// The target of packets that pass without a link.
const PASS: &str = "pass";

/// A rule as read from the file, with its place.
pub(crate) struct RuleRead {
    pub(crate) rule: Rule,
    pub(crate) at: Range<usize>,
}

/// Reads all tables `[[rule]]`. Returns `None` if one has an error, which was reported.
pub(crate) fn read<'a>(
    all: &[(&'a DeTable<'a>, Range<usize>)],
    links: &[Known],
    tables: &Tables<'a>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<RuleRead>> {
    let named = |(n, (table, _)): (usize, &(&'a DeTable<'a>, _))| {
        let name =
            table.get("name").and_then(|v| v.get_ref().as_str()).filter(|name| !name.is_empty());
        name.map_or_else(|| (n + 1).to_string(), str::to_owned)
    };
    let names: Vec<String> = all.iter().enumerate().map(named).collect();
    let mut out = Vec::new();
    let mut before = BTreeSet::new();
    for (n, (table, at)) in all.iter().enumerate() {
        let what = format!("rule {}", quoted(&names[n]));
        if !before.insert(&names[n]) {
            let at = table.get("name").map_or(at.clone(), Spanned::span);
            problems.push(
                Problem::error(at, format!("a second {what}")).help("give each another name"),
            );
        }
        let fields = fields(table, at.clone(), what, keys::RULE, &[], problems);
        let scene = Scene { links, tables, names: &names, n };
        out.push(rule(&fields, &scene, problems).map(|rule| RuleRead { rule, at: at.clone() }));
    }
    let mut out = out.into_iter().collect::<Option<Vec<_>>>()?;
    out.iter_mut().for_each(|read| tables.resolve(&mut read.rule.rule.matches));
    Some(out)
}

/// The names to which a rule may refer.
struct Scene<'s, 'a> {
    links: &'s [Known],
    tables: &'s Tables<'a>,
    names: &'s [String],
    /// Index of the rule.
    n: usize,
}

fn rule(fields: &Fields<'_>, scene: &Scene<'_, '_>, problems: &mut Vec<Problem>) -> Option<Rule> {
    let mut given = Values::default();
    let mut matches = Some(vec![Match::ANY]);
    let (mut to, mut policers) = (None, Some(Vec::new()));
    let mut whole = true;
    for key in keys::RULE {
        match get(&[fields], key, problems) {
            Got::Given(Datum::Rules(rules)) => matches = Some(rules),
            Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => {
                given.set(key.name, value);
            }
            Got::Given(Datum::Raw(value)) => to = target(value, scene, problems),
            Got::Given(Datum::Tables(tables)) => {
                policers = conforms_to(&tables, fields, problems);
            }
            Got::Wrong => whole = false,
            _ => {}
        }
    }
    let probability = match given.get("probability") {
        Some(Value::Probability(probability)) => Some(probability),
        _ => None,
    };
    let mark = mark_change(fields, &given, problems)?;
    let on = given.choice("then") == Some("on");
    if let (true, Some(RuleAction::Drop | RuleAction::SkipTo(_)), Some(field)) =
        (on, &to, fields.field("then"))
    {
        problems.push(
            Problem::error(
                field.at.clone(),
                format!("{} cannot continue with the next rule", fields.what),
            )
            .help(
                "leave `then` out: `drop` ends a packet's way, and `skip-to` names the rule \
                     that follows",
            ),
        );
        return None;
    }
    let rule = rules::RouteRule {
        matches: matches?,
        way: given.choice("direction").map(|way| usize::from(way == "down")),
        probability,
        policers: policers?,
        mark,
        to: to?,
        on,
    };
    whole.then(|| Rule { name: scene.names[scene.n].clone(), rule })
}

/// The change of the mark by `mark` and `mark-mask`. Returns `None` if they do not fit together,
/// which was reported.
fn mark_change(
    fields: &Fields<'_>,
    given: &Values,
    problems: &mut Vec<Problem>,
) -> Option<Option<MarkChange>> {
    let number = |key| match given.get(key) {
        Some(Value::Count(number)) => u32::try_from(number).ok(),
        _ => None,
    };
    let (value, mask) = match (number("mark"), number("mark-mask")) {
        (Some(mark), None) => return Some(Some(MarkChange::to(mark))),
        (None, None) => return Some(None),
        (value, Some(mask)) => (value, mask),
    };
    if value.is_none() && fields.means("mark") {
        return None;
    }
    let place = |key| fields.field(key).map_or(fields.at.clone(), |field| field.at.clone());
    match value {
        Some(value) if value & !mask == 0 => Some(Some(MarkChange { value, mask })),
        Some(value) => {
            let why = format!("{}: `mark` has bits that `mark-mask` leaves out", fields.what);
            let help = format!("write `mark = {:#x}`, or a wider mask", value & mask);
            problems.push(Problem::error(place("mark"), why).help(help));
            None
        }
        None => {
            let why = format!("{} has a `mark-mask` and no `mark`", fields.what);
            problems.push(
                Problem::error(place("mark-mask"), why)
                    .help("write `mark`, the value of these bits"),
            );
            None
        }
    }
}

/// Reads the token buckets of `conforms-to`.
fn conforms_to<'a>(
    tables: &[(&'a DeTable<'a>, Range<usize>)],
    rule: &Fields<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<Policer>> {
    let read = tables.iter().map(|(table, at)| {
        let what = format!("`conforms-to` of {}", rule.what);
        let fields = fields(table, at.clone(), what, keys::CONFORMS_TO, &[], problems);
        let values = values(&[&fields], keys::CONFORMS_TO.iter().copied(), problems)?;
        let layer = values.choice("layer").and_then(CountedLayer::from_name)?;
        Some(Policer { rate: values.rate("rate")?, burst: values.bytes("burst")?, layer })
    });
    // All buckets are read before the result is built, so that all errors are found.
    read.collect::<Vec<_>>().into_iter().collect()
}

/// Reads the value of `to`.
fn target(
    value: &Spanned<DeValue<'_>>,
    scene: &Scene<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<RuleAction> {
    let whose = format!("rule {}", quoted(&scene.names[scene.n]));
    match value.get_ref() {
        DeValue::String(text) => {
            Some(match one(text, value.span(), &whose, scene.links, problems)? {
                RuleTarget::Link(link) => RuleAction::Links(vec![link]),
                RuleTarget::Drop => RuleAction::Drop,
                RuleTarget::Pass => RuleAction::Pass,
            })
        }
        DeValue::Array(array) => {
            if array.is_empty() {
                problems.push(
                    Problem::error(value.span(), "`to`: an empty list leads nowhere").help(
                        "write the links, as in `[\"loss\", \"slow\"]`, or `\"pass\"` for none",
                    ),
                );
                return None;
            }
            let link = |item: &Spanned<DeValue<'_>>| {
                let text = item.get_ref().as_str().filter(|text| ![DROP, PASS].contains(text));
                let Some(text) = text else {
                    problems.push(
                        Problem::error(item.span(), "`to`: a list may contain only links").help(
                            format!(
                                "links: {}",
                                suggest::list(scene.links.iter().map(|k| k.name.as_str()))
                            ),
                        ),
                    );
                    return None;
                };
                match one(text, item.span(), &whose, scene.links, problems)? {
                    RuleTarget::Link(link) => Some(link),
                    _ => None,
                }
            };
            let links: Vec<Option<u32>> = array.iter().map(link).collect();
            links.into_iter().collect::<Option<Vec<u32>>>().map(RuleAction::Links)
        }
        DeValue::Table(table) => elsewhere(table, value.span(), scene, problems),
        _ => None,
    }
}

/// Reads a target that is a link, `drop` or `pass`.
fn one(
    text: &str,
    at: Range<usize>,
    whose: &str,
    links: &[Known],
    problems: &mut Vec<Problem>,
) -> Option<RuleTarget> {
    match text {
        DROP => return Some(RuleTarget::Drop),
        PASS => return Some(RuleTarget::Pass),
        _ => {}
    }
    let found = links.iter().position(|known| known.name == text);
    if found.is_none() {
        let names = || links.iter().map(|known| known.name.as_str());
        let mut problem = Problem::error(at, format!("{whose}: there is no link {}", quoted(text)));
        if let Some(near) = suggest::nearest(text, names().chain([DROP, PASS])) {
            problem = problem.label(format!("did you mean {}?", quoted(near)));
        }
        problems.push(
            problem.help(format!(
                "links: {}; or `drop`, or `pass` for no link",
                suggest::list(names())
            )),
        );
    }
    found.map(|n| RuleTarget::Link(n as u32))
}

/// Reads a target that is a table, `to = { … }`.
fn elsewhere<'a>(
    table: &'a DeTable<'a>,
    at: Range<usize>,
    scene: &Scene<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<RuleAction> {
    let fields = fields(table, at.clone(), "`to`", keys::TO, &[], problems);
    let mut read = |name: &str| {
        let key = keys::TO.iter().find(|key| key.name == name)?;
        match get(&[&fields], key, problems) {
            Got::Given(datum) | Got::Default(datum) => Some(datum),
            _ => None,
        }
    };
    let (table, by, skip) = (read("table"), read("by"), read("skip-to"));
    let place = |name: &str| fields.field(name).map_or(at.clone(), |field| field.at.clone());
    match (table, skip) {
        (Some(Datum::Name(name)), None) => {
            let Some(Datum::Value(Value::Choice(by))) = by else { return None };
            let by = Field::from_name(by)?;
            let read = scene.tables.get(name, place("table"), problems)?;
            let targets = targets(read, &format!("table {}", quoted(name)), scene.links, problems)?;
            if !read.table.has(by) {
                let what = if by.is_address() { "addresses" } else { "numbers" };
                let why =
                    format!("table {} has no {what}, so the rule matches no packet", quoted(name));
                problems.push(Problem::warning(place("table"), why));
            }
            Some(RuleAction::Table { table: read.table.clone(), by, targets })
        }
        (None, Some(Datum::Name(name))) => {
            if let Some(field) = fields.field("by") {
                problems.push(
                    Problem::error(field.name_at.clone(), "`by` is for `table`")
                        .help("leave it out beside `skip-to`"),
                );
                return None;
            }
            skip_to(name, place("skip-to"), scene, problems)
        }
        (Some(_), Some(_)) => {
            let why = "`to`: `table` and `skip-to` exclude each other";
            problems.push(Problem::error(place("skip-to"), why).help("keep one of the two"));
            None
        }
        _ if ["table", "skip-to"].iter().any(|name| fields.means(name)) => None,
        _ => {
            problems.push(Problem::error(at, "`to` has neither a `table` nor `skip-to`").help(
                "write `{ table = \"customers\", by = \"src\" }` or `{ skip-to = \"web\" }`",
            ));
            None
        }
    }
}

/// Reads the targets of a lookup table's entries.
fn targets(
    read: &Read<'_>,
    whose: &str,
    links: &[Known],
    problems: &mut Vec<Problem>,
) -> Option<Vec<Option<RuleTarget>>> {
    let target = |(text, at): &(&str, Range<usize>)| match *text {
        "" => Some(None),
        text => one(text, at.clone(), whose, links, problems).map(Some),
    };
    let all: Vec<Option<Option<RuleTarget>>> = read.texts.iter().map(target).collect();
    all.into_iter().collect()
}

fn skip_to(
    name: &str,
    at: Range<usize>,
    scene: &Scene<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<RuleAction> {
    let Some(to) = scene.names.iter().position(|n| n == name) else {
        let mut problem = Problem::error(at, format!("there is no rule {}", quoted(name)));
        if let Some(near) = suggest::nearest(name, scene.names.iter().map(String::as_str)) {
            problem = problem.label(format!("did you mean {}?", quoted(near)));
        }
        let behind = suggest::list(scene.names[scene.n + 1..].iter().map(String::as_str));
        problems.push(problem.help(format!("rules after this one: {behind}")));
        return None;
    };
    if to <= scene.n {
        problems.push(
            Problem::error(at, format!("rule {} is not after this one", quoted(name)))
                .help("packets only go forward through the rules, so that they come to an end"),
        );
        return None;
    }
    Some(RuleAction::SkipTo(to as u32))
}

/// The first link that a packet with this key may pass.
pub(crate) fn first_link(rules: &[RuleRead], key: &Key, towards: Towards) -> Option<u32> {
    let way = usize::from(towards == Towards::Down);
    let of = |rule: &rules::RouteRule| {
        let for_it = rule.way.is_none_or(|w| w == way) && rule.matches.iter().any(|m| m.takes(key));
        match &rule.to {
            _ if !for_it => None,
            RuleAction::Links(links) => links.first().copied(),
            RuleAction::Table { table, by, targets } => {
                match table
                    .find(*by, key)
                    .and_then(|entry| targets.get(entry as usize).copied().flatten())
                {
                    Some(RuleTarget::Link(link)) => Some(link),
                    _ => None,
                }
            }
            _ => None,
        }
    };
    rules.iter().find_map(|read| of(&read.rule.rule))
}
