//! Finds which disciplines may divide the flows of which other disciplines. All pairs are built,
//! and the refused pairs are listed with their reasons.

use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{FlowSetup, Inner, Kind, Param, Setup, Value, Values};
use falaj_sched::queues::queue::Limit;
use falaj_sched::registry::{self, ENTRIES};
use falaj_sched::scheduler::tree;
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::collections::BTreeMap;

/// The result of building a pair.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
enum Outcome {
    /// The pair is accepted, and the parts have a guarantee.
    Guaranteed,
    /// The pair is accepted, and the parts have no guarantee.
    Taken,
    /// The pair is refused, for this reason.
    Refused(String),
}

/// A valid value for a required parameter, on a link of `mbit` Mbit/s.
fn example(param: &Param, mbit: u64) -> Value {
    match param.kind {
        Kind::Span => Value::Span(Span::from_millis(10)),
        Kind::Rate => Value::Rate(Rate::from_mbit(mbit / 5)),
        Kind::Bytes => Value::Bytes(1514),
        Kind::Limit => Value::Limit(Limit::Packets(20)),
        Kind::Count { min, max } => Value::Count(min.max(8).min(max)),
        Kind::Probability => Value::Probability(Probability::of(1, 2)),
        Kind::Choice(words) => Value::Choice(words[0]),
    }
}

fn examples(params: &[Param], mbit: u64) -> Values {
    let needed = params.iter().filter(|param| param.default.is_none());
    needed.fold(Values::default(), |values, param| values.with(param.name, example(param, mbit)))
}

/// A setup of this discipline with two flows, and with only the required parameters.
fn smallest(entry: &Manifest, mbit: u64) -> Setup {
    let flow = || FlowSetup::new(examples(entry.flow, mbit), Limit::Packets(20));
    let scheduler = examples(entry.scheduler, mbit);
    Setup { rate: Rate::from_mbit(mbit), largest: 1514, scheduler, flows: vec![flow(), flow()] }
}

/// Rates of the link and of a flow, in Mbit/s. The flow's rate is low, because some disciplines
/// guarantee only the rate that holds even if packets have a single byte.
const MBIT: [u64; 2] = [100_000, 5];

fn pair(above: &Manifest, below: &Manifest) -> Outcome {
    let mut setup = smallest(above, MBIT[0]);
    let mut part = smallest(below, MBIT[1]);
    if above.kind == below.kind && registry::takes_trees(above.kind) {
        // The parts of a class share the parameters of the class.
        part.flows.truncate(1);
    }
    setup.flows[0].inner = Some(Box::new(Inner { kind: below.kind, setup: part }));
    match tree::guarantees(above.kind, &setup) {
        Ok(guarantees) if guarantees[0].is_ok() => Outcome::Guaranteed,
        Ok(_) => Outcome::Taken,
        Err(refusals) => {
            // An error of the lower discipline is reported at the upper flow, after the name of the
            // part.
            let why = refusals.into_iter().next().map_or(String::new(), |refused| refused.what);
            Outcome::Refused(why.rsplit_once("`: ").map_or(why.clone(), |(_, why)| why.to_owned()))
        }
    }
}

/// The refused pairs in as few rows as possible: upper disciplines, lower disciplines, and the
/// reason.
pub(crate) fn refused() -> Vec<(String, String, String)> {
    let mut rows = Vec::new();
    let mut by_below: BTreeMap<&str, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    let mut divide_nothing: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for above in ENTRIES {
        let outcomes: Vec<Outcome> = ENTRIES.iter().map(|below| pair(above, below)).collect();
        match &outcomes[0] {
            Outcome::Refused(why) if outcomes.iter().all(|outcome| *outcome == outcomes[0]) => {
                divide_nothing.entry(why.clone()).or_default().push(above.kind);
            }
            _ => {
                for (below, outcome) in ENTRIES.iter().zip(outcomes) {
                    if let Outcome::Refused(why) = outcome {
                        by_below
                            .entry(below.kind)
                            .or_default()
                            .entry(why)
                            .or_default()
                            .push(above.kind);
                    }
                }
            }
        }
    }
    let dividing = ENTRIES.len() - divide_nothing.values().map(Vec::len).sum::<usize>();
    rows.extend(
        divide_nothing.into_iter().map(|(why, kinds)| (listed(&kinds), "any".to_owned(), why)),
    );
    for (below, reasons) in by_below {
        for (why, above) in reasons {
            let above = if above.len() == dividing { "any".to_owned() } else { listed(&above) };
            rows.push((above, format!("`{below}`"), why));
        }
    }
    rows
}

/// The pairs for which parts have a guarantee: a list of upper disciplines and a list of lower
/// disciplines, any combination of which gives a guarantee.
pub(crate) fn guaranteed() -> (String, String) {
    let gives =
        |above: &&Manifest| ENTRIES.iter().any(|below| pair(above, below) == Outcome::Guaranteed);
    let above: Vec<&Manifest> = ENTRIES.iter().filter(gives).collect();
    let gets =
        |below: &&Manifest| above.iter().all(|above| pair(above, below) == Outcome::Guaranteed);
    let below: Vec<&str> = ENTRIES.iter().filter(gets).map(|entry| entry.kind).collect();
    (listed(&above.iter().map(|entry| entry.kind).collect::<Vec<_>>()), listed(&below))
}

fn listed(kinds: &[&str]) -> String {
    kinds.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples are valid: a pair that failed because of its example would be listed as
    /// refused.
    #[test]
    fn what_has_to_be_given_is_enough() {
        for entry in ENTRIES {
            let built = tree::guarantees(entry.kind, &smallest(entry, MBIT[0]));
            assert!(built.is_ok(), "{}: {}", entry.kind, built.unwrap_err());
        }
    }

    #[test]
    fn reasons_are_those_of_the_rules_and_no_example_s() {
        let rows = refused();
        let whys: Vec<&str> = rows.iter().map(|row| row.2.as_str()).collect();
        let values =
            |why: &&&str| why.contains(|c: char| c.is_ascii_digit()) && !why.contains("802.11");
        assert_eq!(whys.iter().find(values), None, "{rows:?}");
        let any = |below: &str| rows.iter().any(|row| row.0 == "any" && row.1 == below);
        assert!(any("`hrr`") && any("`virtual-links`") && any("`dcf`"), "{rows:?}");
        let divides = |kind: &str| {
            !rows.iter().any(|row| row.1 == "any" && row.0.contains(&format!("`{kind}`")))
        };
        assert!(
            divides("drr") && divides("wf2q+") && !divides("fifo") && !divides("wfq"),
            "{rows:?}"
        );
        let (above, below) = guaranteed();
        assert!(
            above.contains("`drr`") && below.contains("`fifo`") && !above.contains("`wf2q+`"),
            "{above}; {below}"
        );
    }
}
