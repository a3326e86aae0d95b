//! Checks that the descriptions of the keys are consistent.

use falaj_scenario::keys::{FILE, Fallback, Holds, Key};
use falaj_scenario::{parse_probability, parse_rate, parse_size, parse_span};
use falaj_sched::contract::params::Kind;
use falaj_sched::registry::ENTRIES;

fn walk(keys: &[Key], check: &mut impl FnMut(&Key)) {
    for (n, key) in keys.iter().enumerate() {
        assert!(keys[..n].iter().all(|k| k.name != key.name), "`{}` is described twice", key.name);
        check(key);
        if let Holds::Brief(inner)
        | Holds::Table(inner)
        | Holds::Tables(inner)
        | Holds::Named(inner) = key.holds
        {
            walk(inner, check);
        }
    }
}

#[test]
fn every_default_can_be_read() {
    walk(FILE, &mut |key| {
        let Fallback::Value(text) = key.fallback else { return };
        let readable = match key.holds {
            Holds::Value(Kind::Span) | Holds::PositiveSpan => parse_span(text).is_ok(),
            Holds::Value(Kind::Rate) | Holds::FiniteRate => parse_rate(text).is_ok(),
            Holds::Value(Kind::Bytes) | Holds::BytesIn { .. } => parse_size(text).is_ok(),
            Holds::Value(Kind::Limit)
            | Holds::Brief([Key { holds: Holds::Value(Kind::Limit), .. }, ..]) => {
                falaj_scenario::parse_limit(text).is_ok()
            }
            Holds::Value(Kind::Count { min, max }) => {
                text.parse().is_ok_and(|n| (min..=max).contains(&n))
            }
            Holds::Value(Kind::Probability) => parse_probability(text).is_ok(),
            Holds::Value(Kind::Choice(words)) => words.contains(&text),
            Holds::Scheduler => falaj_sched::registry::entry(text).is_some(),
            _ => false,
        };
        assert!(readable, "`{}` = {text}", key.name);
    });
}

#[test]
fn every_key_says_what_it_means_in_one_line() {
    let check =
        |key: &Key| assert!(!key.doc.is_empty() && !key.doc.contains('\n'), "`{}`", key.name);
    walk(FILE, &mut |key| check(key));
    for entry in ENTRIES {
        let keys: Vec<Key> = entry.scheduler.iter().map(Key::from).collect();
        walk(&keys, &mut |key| check(key));
        // A flow's own keys and the keys of its discipline are in the same table, so their names
        // must differ.
        let keys: Vec<Key> = falaj_scenario::keys::FLOW
            .iter()
            .copied()
            .chain(entry.flow.iter().map(Key::from))
            .collect();
        walk(&keys, &mut |key| check(key));
    }
}
