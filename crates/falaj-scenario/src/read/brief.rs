//! Reads a key that holds a table, or the value of the table's first key alone.

use super::{Datum, Fields, Got, deciding, fields, get};
use crate::diagnostics::Problem;
use crate::keys::{Holds, Key};
use falaj_engine::impair::event::RandomEvent;
use falaj_sched::contract::params::Values;
use falaj_sched::units::probability::Probability;
use std::ops::Range;

/// A value of a table's key `kind`. It decides which other keys the table may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The value as written.
    pub(crate) name: &'static str,
    /// The other keys that the table may have.
    pub(crate) takes: &'static [&'static str],
    /// The keys in `takes` that are required.
    pub(crate) needs: &'static [&'static str],
    /// An example of the table.
    pub(crate) example: &'static str,
}

/// A key whose value is a table, or the brief form of a table.
pub(crate) struct BriefTable<'a> {
    pub(crate) values: Values,
    pub(crate) fields: Fields<'a>,
}

impl<'a> BriefTable<'a> {
    /// Reads the value or table of `key`; `Err` if it has an error, which was reported.
    pub(crate) fn read(
        key: &Key,
        tables: &[&Fields<'a>],
        problems: &mut Vec<Problem>,
    ) -> Result<Option<BriefTable<'a>>, ()> {
        BriefTable::of_kinds(key, &[], tables, problems)
    }

    /// Reads the value or table of `key`. Each of `kinds` lists the keys that a table of this kind
    /// may have; without kinds, the table may have all keys.
    pub(crate) fn of_kinds(
        key: &Key,
        kinds: &[Kind],
        tables: &[&Fields<'a>],
        problems: &mut Vec<Problem>,
    ) -> Result<Option<BriefTable<'a>>, ()> {
        let Holds::Brief(inner) = key.holds else { return Err(()) };
        let got = get(tables, key, problems);
        let field = tables.iter().find_map(|t| t.field(key.name));
        let owner = tables.iter().find(|t| t.field(key.name).is_some());
        let what = owner.map_or(String::new(), |t| format!("`{}` of {}", key.name, t.what));
        let at = field.map_or(0..0, |f| f.at.clone());
        match got {
            Got::Given(Datum::Value(value)) => {
                let mut given =
                    BriefTable { values: Values::default(), fields: Fields::none(at, what) };
                given.values.set(inner.first().map_or("", |k| k.name), value);
                given.take(&inner[1..], problems)?;
                Ok(Some(given))
            }
            // The name of a file. The caller reads it from the field.
            Got::Given(Datum::Name(_)) => {
                let mut fields = Fields::none(at, what);
                fields.adopt(field.ok_or(())?, inner.first().ok_or(())?);
                Ok(Some(BriefTable { values: Values::default(), fields }))
            }
            Got::Given(Datum::Table(table)) => {
                let allowed = match inner.iter().find(|k| k.name == "kind") {
                    Some(by) if !kinds.is_empty() => {
                        let kind = deciding(table, &at, &what, by, inner, problems).ok_or(())?;
                        let takes =
                            kinds.iter().find(|k| k.name == kind).map_or(&[][..], |k| k.takes);
                        let own = |k: &&Key| k.name == by.name || takes.contains(&k.name);
                        inner.iter().filter(own).copied().collect()
                    }
                    _ => inner.to_vec(),
                };
                let mut given = BriefTable {
                    values: Values::default(),
                    fields: fields(table, at, what, &allowed, &[], problems),
                };
                given.take(&allowed, problems)?;
                Ok(Some(given))
            }
            Got::Absent => Ok(None),
            _ => Err(()),
        }
    }

    fn take(&mut self, keys: &[Key], problems: &mut Vec<Problem>) -> Result<(), ()> {
        let mut whole = Ok(());
        for key in keys {
            match get(&[&self.fields], key, problems) {
                Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => {
                    self.values.set(key.name, value);
                }
                Got::Wrong => whole = Err(()),
                _ => {}
            }
        }
        whole
    }

    /// The place of this key's value; if the key is not set, the place of the table.
    pub(crate) fn at(&self, name: &str) -> Range<usize> {
        self.fields.field(name).map_or(self.fields.at.clone(), |f| f.at.clone())
    }

    /// The probability that this key sets; zero if the key is not set.
    pub(crate) fn probability(&self, name: &str) -> Probability {
        self.values.probability(name).unwrap_or_default()
    }

    /// The event that the keys `probability` and `correlation` describe.
    pub(crate) fn event(&self) -> RandomEvent {
        RandomEvent {
            probability: self.probability("probability"),
            correlation: self.probability("correlation"),
        }
    }
}
