//! Reads the queue of a flow: its limit and its AQM.

use crate::diagnostics::Problem;
use crate::keys::{self, Key};
use crate::read::{Datum, Fields, Got, deciding, fields, get, values};
use crate::suggest;
use falaj_sched::contract::params::{Value, Values};
use falaj_sched::queues::aqm;
use falaj_sched::queues::aqm::policy::Policy;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::ops::Range;
use toml::de::DeTable;

/// A queue as read from the scenario.
pub(crate) struct Queue {
    pub(crate) limit: Limit,
    pub(crate) policy: Option<Policy>,
}

/// The limit of a queue for which the scenario sets none: the bytes that the link carries in a
/// round trip, which is twice the delay, or in 50 ms if that is longer. It is at least two packets
/// of `largest` bytes, and less than 4 GiB. On a link with an unlimited rate the limit is 1000
/// packets.
pub fn default_queue(rate: Rate, delay: Span, largest: u32) -> Limit {
    if rate.is_unlimited() {
        return Limit::Packets(1000);
    }
    let time = Span(delay.0.saturating_mul(2)).max(Span::from_millis(50));
    let bytes = u128::from(rate.0) * u128::from(time.0) / 8_000_000_000;
    let two = 2 * u64::from(largest);
    Limit::Bytes(u64::try_from(bytes).unwrap_or(u64::MAX).min(u32::MAX.into()).max(two))
}

/// Reads the key `queue` of a flow. Without a limit of its own the queue has the limit `default`.
/// Returns `None` after errors, which were added to `problems`.
pub(crate) fn read(
    got: Got<'_>,
    flow: &Fields<'_>,
    default: Limit,
    problems: &mut Vec<Problem>,
) -> Option<Queue> {
    match got {
        Got::Given(Datum::Value(Value::Limit(limit))) => Some(Queue { limit, policy: None }),
        Got::Given(Datum::Table(table)) => {
            let at = flow.field("queue").map_or(flow.at.clone(), |f| f.at.clone());
            of_table(table, at, &format!("the queue of {}", flow.what), default, problems)
        }
        Got::Absent => Some(Queue { limit: default, policy: None }),
        _ => None,
    }
}

/// The keys of an AQM, without `limit` and `policy`.
fn own(name: &str) -> Vec<Key> {
    let takes = aqm::params(name);
    keys::MANAGED.iter().filter(|k| takes.iter().any(|p| p.name == k.name)).copied().collect()
}

fn of_table(
    table: &DeTable<'_>,
    at: Range<usize>,
    what: &str,
    default: Limit,
    problems: &mut Vec<Problem>,
) -> Option<Queue> {
    let name = deciding(table, &at, what, &keys::POLICY, keys::MANAGED, problems)?;
    let own = own(name);
    let allowed: Vec<Key> =
        [keys::LIMIT, keys::POLICY].into_iter().chain(own.iter().copied()).collect();
    let before = problems.len();
    let fields = fields(table, at, what, &allowed, &[], problems);
    let values = values(&[&fields], own.into_iter(), problems);
    for problem in &mut problems[before..] {
        problem.help.extend(whose(&problem.title));
    }
    let limit = match get(&[&fields], &keys::LIMIT, problems) {
        Got::Given(Datum::Value(Value::Limit(limit))) => limit,
        Got::Absent => default,
        _ => return None,
    };
    match Policy::new(name, &values?, limit) {
        Ok(policy) => Some(Queue { limit, policy }),
        Err(refused) => {
            let at = fields.field(refused.param).map_or(fields.at.clone(), |f| f.at.clone());
            let title = format!("{what}: `{}`: {}", refused.param, refused.what);
            problems.push(Problem::error(at, title).help(refused.help));
            None
        }
    }
}

/// A help text that names the AQMs that have this key, if there are any.
fn whose(title: &str) -> Option<String> {
    let key = title.split_once("has no key `")?.1.trim_end_matches('`');
    let takes = |name: &&&str| aqm::params(name).iter().any(|p| p.name == key);
    let names: Vec<&str> = aqm::NAMES.iter().filter(takes).copied().collect();
    let plural = if names.len() == 1 { "policy" } else { "policies" };
    (!names.is_empty()).then(|| format!("`{key}` is for the {plural} {}", suggest::list(names)))
}

/// An example of a queue's table with this key.
pub(crate) fn example(key: &str) -> &'static str {
    let name = aqm::NAMES.iter().find(|name| aqm::params(name).iter().any(|p| p.name == key));
    match (key, name) {
        ("ecn", _) => "queue = { limit = \"1000p\", policy = \"codel\", ecn = \"yes\" }",
        (_, Some(&"red")) => {
            "queue = { limit = \"60p\", policy = \"red\", min = \"5p\", max = \"15p\", probability = \"10%\", weight = \"0.2%\" }"
        }
        ("target" | "interval", _) => {
            "queue = { limit = \"1000p\", policy = \"codel\", target = \"5ms\", interval = \"100ms\" }"
        }
        (_, Some(&"pie")) => {
            "queue = { limit = \"1000p\", policy = \"pie\", update = \"15ms\", burst = \"150ms\" }"
        }
        _ => "queue = { limit = \"1000p\", policy = \"codel\" }",
    }
}

/// Adds the AQM to the values of a flow's setup.
pub(crate) fn among(values: Values, policy: Option<Policy>) -> Values {
    match policy {
        Some(policy) => values.with(falaj_sched::contract::params::POLICY, Value::Policy(policy)),
        None => values,
    }
}
