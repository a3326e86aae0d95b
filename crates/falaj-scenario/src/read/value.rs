//! Reads a value of the file, as the type that its key holds.

use super::Datum;
use super::given::given;
use crate::diagnostics::Problem;
use crate::keys::{self, Holds, Key};
use crate::mask::{MaskText, parse_mask};
use crate::matching::parse_match;
use crate::suggest::{self, quoted};
use crate::units::{self, Unreadable};
use falaj_engine::classifier::Match;
use falaj_sched::contract::params::{Kind, Value};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads the value of `key`; reports its errors.
pub(super) fn datum<'a>(
    key: &Key,
    value: &'a Spanned<DeValue<'a>>,
    problems: &mut Vec<Problem>,
) -> Option<Datum<'a>> {
    let at = value.span();
    let result = match (key.holds, value.get_ref()) {
        (Holds::Value(Kind::Count { min, max }), DeValue::Integer(n)) => {
            u64::from_str_radix(n.as_str(), n.radix())
                .ok()
                .filter(|n| (min..=max).contains(n))
                .map(|n| Datum::Value(Value::Count(n)))
                .ok_or_else(|| {
                    let number = quoted(&n.to_string());
                    Unreadable::new(
                        format!("{number} is out of range"),
                        format!(
                            "write a whole number from {min} to {max}: `{}` is {}",
                            key.name, key.doc
                        ),
                    )
                })
        }
        (Holds::Value(kind), DeValue::String(text)) if !matches!(kind, Kind::Count { .. }) => {
            units::parse_value(kind, text).map(Datum::Value)
        }
        (Holds::FiniteRate, DeValue::String(text)) => match units::parse_rate(text) {
            Ok(rate) if rate.is_unlimited() => Err(Unreadable::new(
                "`unlimited` is for the rate of a link",
                "write a rate, as in `100mbit`",
            )),
            other => other.map(|r| Datum::Value(Value::Rate(r))),
        },
        (Holds::PositiveSpan, DeValue::String(text)) => match units::parse_span(text) {
            Ok(span) if span.0 == 0 => {
                Err(Unreadable::new("a time of zero", "write one above zero, as in `10ms`"))
            }
            other => other.map(|s| Datum::Value(Value::Span(s))),
        },
        (Holds::BytesIn { min, max }, DeValue::String(text)) => match units::parse_size(text) {
            Ok(bytes) if !(min..=max).contains(&bytes) => Err(Unreadable::new(
                format!("{} is out of range", quoted(text)),
                format!("write a size from `{min}B` to `{max}B`"),
            )),
            other => other.map(|b| Datum::Value(Value::Bytes(b))),
        },
        (Holds::LinkName | Holds::FlowName, DeValue::String(text)) => Ok(Datum::Name(text)),
        (Holds::Name, DeValue::String(text)) if text.is_empty() => {
            Err(Unreadable::new("an empty name", "write a name that describes it"))
        }
        (Holds::Name, DeValue::String(text)) => Ok(Datum::Name(text)),
        (Holds::Target, DeValue::String(_) | DeValue::Array(_) | DeValue::Table(_)) => {
            Ok(Datum::Raw(value))
        }
        (Holds::Settings, DeValue::Table(_)) => Ok(Datum::Raw(value)),
        (Holds::Headers, DeValue::String(text)) => {
            return rule(key, text, &at, problems).map(Datum::Rules);
        }
        (Holds::LinkNames, DeValue::String(text)) => Ok(Datum::Names(vec![(text, at.clone())])),
        (Holds::LinkNames, DeValue::Array(array)) => {
            return names(key, array, &at, problems).map(Datum::Names);
        }
        (Holds::File(_), DeValue::String(text)) if text.is_empty() => Err(Unreadable::new(
            "a file needs a name",
            "write its path, relative to the scenario's directory",
        )),
        (Holds::File(_), DeValue::String(text)) => Ok(Datum::Name(text)),
        (Holds::Given, DeValue::Table(table)) => {
            return given(key, table, problems).map(Datum::Given);
        }
        (Holds::Overhead, DeValue::String(text)) => units::parse_overhead(text).map(Datum::Signed),
        (Holds::Numbers, DeValue::String(text)) => units::parse_numbers(text).map(Datum::Numbers),
        (Holds::Sizes, DeValue::String(text)) => units::parse_sizes(text).map(Datum::Sizes),
        (Holds::Decimal, DeValue::Integer(_) | DeValue::Float(_)) => {
            number(value.get_ref()).map(Datum::Decimal)
        }
        (Holds::Rows, DeValue::Array(array)) => {
            return rows(key, array, &at, problems).map(Datum::Rows);
        }
        (Holds::Brief(_), DeValue::Table(table)) => Ok(Datum::Table(table)),
        (Holds::Brief([first, ..]), _) => {
            return datum(&Key { name: key.name, ..*first }, value, problems);
        }
        (Holds::Rules, DeValue::String(text)) => {
            return rule(key, text, &at, problems).map(Datum::Rules);
        }
        (Holds::Mask, DeValue::String(text)) => {
            return mask(key, text, &at, problems).map(Datum::Mask);
        }
        (Holds::Rules, DeValue::Array(array)) => {
            return rules(key, array, &at, problems).map(Datum::Rules);
        }
        (
            Holds::Scheduler | Holds::Table(_) | Holds::Named(_) | Holds::Parts,
            DeValue::Table(table),
        ) => Ok(Datum::Table(table)),
        (Holds::Tables(_), DeValue::Table(table)) => Ok(Datum::Tables(vec![(table, at.clone())])),
        (Holds::Tables(_), DeValue::Array(array)) => {
            return tables(key, array, &at, problems).map(Datum::Tables);
        }
        (Holds::Scheduler, DeValue::String(text)) => Err(Unreadable::new(
            "a scheduler is a table",
            format!("write `{{ kind = \"{}\" }}`", quoted(text).trim_matches('`')),
        )),
        (_, other) => Err(mistyped(key, other)),
    };
    result.map_err(|error| problems.push(at_value(key, error, &at))).ok()
}

pub(crate) fn at_value(key: &Key, error: Unreadable, at: &Range<usize>) -> Problem {
    let label = error.near.map_or(String::new(), |near| format!("did you mean `{near}`?"));
    Problem::error(at.clone(), format!("`{}`: {}", key.name, error.what))
        .label(label)
        .help(error.help)
}

fn rules(
    key: &Key,
    array: &[Spanned<DeValue<'_>>],
    at: &Range<usize>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<Match>> {
    if array.is_empty() {
        let error =
            Unreadable::new("an empty list matches nothing", "write `\"any\"` for every packet");
        problems.push(at_value(key, error, at));
        return None;
    }
    let read = array.iter().map(|item| match item.get_ref() {
        DeValue::String(text) => rule(key, text, &item.span(), problems),
        other => {
            problems.push(at_value(key, mistyped(key, other), &item.span()));
            None
        }
    });
    // All rules are read before the result is built, so that all errors are reported.
    let all: Option<Vec<Vec<Match>>> = read.collect::<Vec<_>>().into_iter().collect();
    Some(all?.concat())
}

/// Reads a number with or without a decimal point.
fn number(value: &DeValue<'_>) -> Result<f64, Unreadable> {
    let read = match value {
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n as f64),
        DeValue::Float(n) => n.as_str().parse::<f64>().ok(),
        _ => None,
    };
    let finite = read.filter(|n| n.is_finite());
    finite.ok_or_else(|| Unreadable::new("that is not a finite number", "write one such as `1.5`"))
}

fn rows(
    key: &Key,
    array: &[Spanned<DeValue<'_>>],
    at: &Range<usize>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<Vec<f64>>> {
    if array.is_empty() {
        problems.push(at_value(
            key,
            Unreadable::new("an empty list has no meaning", "write a row for each state"),
            at,
        ));
        return None;
    }
    let mut whole = true;
    let mut wrong = |error: Unreadable, at: Range<usize>| {
        problems.push(at_value(key, error, &at));
        whole = false;
    };
    let mut rows = Vec::new();
    for row in array {
        let DeValue::Array(row) = row.get_ref() else {
            wrong(mistyped(key, row.get_ref()), row.span());
            continue;
        };
        let mut numbers = Vec::new();
        for item in row {
            match item.get_ref() {
                DeValue::Integer(_) | DeValue::Float(_) => match number(item.get_ref()) {
                    Ok(n) => numbers.push(n),
                    Err(error) => wrong(error, item.span()),
                },
                other => wrong(mistyped(key, other), item.span()),
            }
        }
        rows.push(numbers);
    }
    whole.then_some(rows)
}

fn tables<'a>(
    key: &Key,
    array: &'a [Spanned<DeValue<'a>>],
    at: &Range<usize>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<(&'a DeTable<'a>, Range<usize>)>> {
    if array.is_empty() {
        problems.push(at_value(
            key,
            Unreadable::new("an empty list has no meaning", "leave it out, or fill it"),
            at,
        ));
        return None;
    }
    let read = array.iter().map(|item| match item.get_ref() {
        DeValue::Table(table) => Some((table, item.span())),
        other => {
            problems.push(at_value(key, mistyped(key, other), &item.span()));
            None
        }
    });
    read.collect::<Vec<_>>().into_iter().collect()
}

fn names<'a>(
    key: &Key,
    array: &'a [Spanned<DeValue<'a>>],
    at: &Range<usize>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<(&'a str, Range<usize>)>> {
    if array.is_empty() {
        problems.push(at_value(
            key,
            Unreadable::new("an empty list names nothing", advice(key)),
            at,
        ));
        return None;
    }
    let read = array.iter().map(|item| match item.get_ref() {
        DeValue::String(text) => Some((&**text, item.span())),
        other => {
            problems.push(at_value(key, mistyped(key, other), &item.span()));
            None
        }
    });
    read.collect::<Vec<_>>().into_iter().collect()
}

fn rule(
    key: &Key,
    text: &str,
    at: &Range<usize>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<Match>> {
    parse_match(text).map_err(|error| problems.push(at_part(key, text, error, at))).ok()
}

fn mask(key: &Key, text: &str, at: &Range<usize>, problems: &mut Vec<Problem>) -> Option<MaskText> {
    parse_mask(text).map_err(|error| problems.push(at_part(key, text, error, at))).ok()
}

/// The problem of a text, at the part of the text that is wrong.
fn at_part(key: &Key, text: &str, mut error: Unreadable, at: &Range<usize>) -> Problem {
    let part = error.at.take().map_or(at.clone(), |part| part_of(text, at, &part));
    at_value(key, error, &part)
}

/// The place in the file of a part of a text. A text without escapes follows the opening quote
/// unchanged; for a text with escapes, the place of the whole text is returned.
pub(crate) fn part_of(text: &str, at: &Range<usize>, part: &Range<usize>) -> Range<usize> {
    let plain = at.len() == text.len() + 2;
    if plain { at.start + 1 + part.start..at.start + 1 + part.end } else { at.clone() }
}

/// Help for writing a value of this key.
pub(super) fn advice(key: &Key) -> String {
    let (what, example) = match key.holds {
        Holds::Value(Kind::Span) | Holds::PositiveSpan => ("a time in quotes", "\"40ms\""),
        Holds::Value(Kind::Rate) | Holds::FiniteRate => ("a rate in quotes", "\"100mbit\""),
        Holds::Value(Kind::Bytes) | Holds::BytesIn { .. } => ("a size in quotes", "\"1500B\""),
        Holds::Value(Kind::Limit) => ("a limit in quotes", "\"20p\""),
        Holds::Value(Kind::Probability) => ("a probability in quotes", "\"1%\""),
        Holds::Overhead => ("a size in quotes", "\"-14B\""),
        Holds::Numbers => ("numbers of packets in quotes", "\"3, 10-12\""),
        Holds::Sizes => ("sizes in quotes", "\"1500B\""),
        Holds::Decimal => return "write a number without quotes, as in `1.5`".into(),
        Holds::Rows => {
            return "write a list of lists of numbers, as in `[[-3, 1], [2, -4]]`".into();
        }
        Holds::File(example) => {
            return format!("write the path of a file in quotes, as in `\"{example}\"`");
        }
        Holds::Brief([first, ..]) => return advice(first),
        Holds::Value(Kind::Count { min, max }) => {
            return format!("write a whole number from {min} to {max}, without quotes");
        }
        Holds::Value(Kind::Choice(words)) => {
            return format!(
                "write one of these in quotes: {}",
                suggest::every(words.iter().copied())
            );
        }
        Holds::Rules => ("a rule in quotes, or a list of them", "\"udp dport 5004\""),
        Holds::Mask => ("parts of a packet in quotes", "\"src/24 dport\""),
        Holds::LinkName => ("the name of a link in quotes", "\"uplink\""),
        Holds::LinkNames => ("the name of a link in quotes, or a list of them", "\"uplink\""),
        Holds::FlowName => ("the name of a flow in quotes", "\"voice\""),
        Holds::Name => ("a name in quotes", "\"web\""),
        Holds::Target => ("a link, a list of links, \"drop\" or \"pass\"", "\"slow\""),
        Holds::Headers => ("a rule in quotes", "\"tcp src 10.1.0.7 dport 443\""),
        Holds::Entries => ("a text in quotes", "\"slow\""),
        Holds::Given => {
            ("a table of texts and whole numbers", "{ quantum = \"3000B\", rounds = 4 }")
        }
        Holds::Settings => ("a table of keys and their values", "{ \"uplink.rate\" = \"5mbit\" }"),
        Holds::Scheduler => ("a table", "{ kind = \"fifo\" }"),
        Holds::Table(keys) | Holds::Brief(keys) => {
            return format!("write a table of {}", suggest::list(keys.iter().map(|k| k.name)));
        }
        Holds::Tables(keys) => {
            let names = suggest::list(keys.iter().map(|k| k.name));
            return format!(
                "write a table of {names}, as in `{}`, or a list of such tables",
                keys::inline(keys)
            );
        }
        Holds::Parts => ("a table for each, with a name", "[link.LINK.flow.FLOW.flow.PART]"),
        Holds::Named(_) if key.name == "flow" => {
            ("a table for each, with a name", "[link.LINK.flow.NAME]")
        }
        Holds::Named(_) => {
            return format!("write a table for each, with a name, as in `[{}.NAME]`", key.name);
        }
    };
    format!("write {what}, as in `{example}`")
}

pub(crate) fn mistyped(key: &Key, value: &DeValue<'_>) -> Unreadable {
    let quantity = matches!(
        key.holds,
        Holds::Value(Kind::Span | Kind::Rate | Kind::Bytes | Kind::Limit | Kind::Probability)
            | Holds::FiniteRate
            | Holds::Overhead
            | Holds::PositiveSpan
            | Holds::BytesIn { .. }
    );
    let number = match value {
        DeValue::Integer(n) => Some(n.to_string()),
        DeValue::Float(n) => Some(n.to_string()),
        _ => None,
    };
    if let (true, Some(number)) = (quantity, number) {
        // For a number without a unit, the help suggests units that fit the key.
        let error = match key.holds {
            Holds::Value(Kind::Span) | Holds::PositiveSpan => units::parse_span(&number).err(),
            Holds::Value(Kind::Rate) | Holds::FiniteRate => units::parse_rate(&number).err(),
            Holds::Value(Kind::Limit) => units::parse_limit(&number).err(),
            Holds::Value(Kind::Probability) => units::parse_probability(&number).err(),
            Holds::Overhead => units::parse_overhead(&number).err(),
            _ => units::parse_size(&number).err(),
        };
        if let Some(mut error) = error {
            error.help = error.help.replacen("write `", "write, in quotes, `", 1);
            return error;
        }
    }
    let found = match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with decimals",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time of day",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    Unreadable::new(format!("{found} is not allowed here"), advice(key))
}
