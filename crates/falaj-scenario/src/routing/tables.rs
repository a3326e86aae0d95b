//! Reads lookup tables. An entry has an address or a number as its key, and a value.

use crate::diagnostics::Problem;
use crate::matching::{Named, net_or_numbers, parse_named};
use crate::read::{not_a_table, part_of};
use crate::suggest::{self, quoted};
use falaj_engine::classifier::Match;
use falaj_engine::table::{Field, LookupTable};
use falaj_engine::term::{Literal, Term};
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A lookup table, and the texts of its entries' values, each with its place.
pub(crate) struct Read<'a> {
    pub(crate) table: Arc<LookupTable>,
    pub(crate) texts: Vec<(&'a str, Range<usize>)>,
    at: Range<usize>,
}

/// The lookup tables of a file. A table with errors is known by name alone.
#[derive(Default)]
pub(crate) struct Tables<'a> {
    pub(crate) read: Vec<Read<'a>>,
    wrong: Vec<&'a str>,
}

impl<'a> Tables<'a> {
    /// Reads a table `[table.NAME]`.
    pub(crate) fn add(
        &mut self,
        name: &'a str,
        value: &'a Spanned<DeValue<'a>>,
        problems: &mut Vec<Problem>,
    ) {
        let DeValue::Table(table) = value.get_ref() else {
            problems.push(not_a_table("table", name, value.span(), "\"10.1.0.0/16\" = \"slow\""));
            self.wrong.push(name);
            return;
        };
        match entries(name, table, value.span(), problems) {
            Some(read) => self.read.push(read),
            None => self.wrong.push(name),
        }
    }

    /// The lookup table with this name; `None` if it is missing or has an error, which was
    /// reported.
    pub(crate) fn get(
        &self,
        name: &str,
        at: Range<usize>,
        problems: &mut Vec<Problem>,
    ) -> Option<&Read<'a>> {
        let found = self.read.iter().find(|read| read.table.name() == name);
        if found.is_none() && !self.wrong.contains(&name) {
            let names =
                || self.read.iter().map(|read| read.table.name()).chain(self.wrong.iter().copied());
            let mut problem = Problem::error(at, format!("there is no table {}", quoted(name)));
            if let Some(near) = suggest::nearest(name, names()) {
                problem = problem.label(format!("did you mean {}?", quoted(near)));
            }
            problems.push(if names().next().is_none() {
                problem.help(
                    "tables are written `[table.NAME]`, and below it `\"10.1.0.0/16\" = \"slow\"`",
                )
            } else {
                problem.help(format!("tables: {}", suggest::list(names())))
            });
        }
        found
    }

    /// Replaces the names of lookup tables by the tables. [`Tables::check`] has reported missing
    /// tables.
    pub(crate) fn resolve(&self, matches: &mut [Match]) {
        for literal in matches.iter_mut().flat_map(|m| &mut m.more) {
            if let Literal { term: Term::In(_, table), .. } = literal
                && let Some(read) = self.read.iter().find(|read| read.table.name() == table.name())
            {
                *table = Arc::clone(&read.table);
            }
        }
    }

    /// Reports lookup tables that rules name but the file does not have, and tables that no rule
    /// names.
    pub(crate) fn check(&self, root: &DeTable<'_>, problems: &mut Vec<Problem>) {
        let mut named = Vec::new();
        walk(root, &mut named);
        for Place { name, field, at } in &named {
            if let Some(read) = self.get(name, at.clone(), problems)
                && !read.table.has(*field)
            {
                let what = if field.is_address() { "addresses" } else { "numbers" };
                problems.push(
                    Problem::warning(at.clone(), format!("table {} has no {what}", quoted(name)))
                        .label(format!("no packet's `{}` is in it", field.name())),
                );
            }
        }
        let mut used: Vec<&str> = named.iter().map(|place| place.name.as_str()).collect();
        targets(root, &mut used);
        for read in self.read.iter().filter(|read| !used.contains(&read.table.name())) {
            let name = quoted(read.table.name());
            let title = format!("no rule uses table {name}");
            problems.push(Problem::warning(read.at.clone(), title).help(format!(
                "write `src table {0}` in a `match`, or `to = {{ table = \"{0}\" }}` in a rule",
                name.trim_matches('`')
            )));
        }
    }
}

/// The name of a lookup table in a rule, and its place.
struct Place {
    name: String,
    field: Field,
    at: Range<usize>,
}

/// Finds all lookup tables that a `match` names, at any depth.
fn walk(table: &DeTable<'_>, out: &mut Vec<Place>) {
    fn of_text(text: &str, at: &Range<usize>, out: &mut Vec<Place>) {
        let named = parse_named(text).map_or(Vec::new(), |(_, named)| named);
        out.extend(named.into_iter().map(|Named { name, field, at: part }| Place {
            name,
            field,
            at: part_of(text, at, &part),
        }));
    }
    for (name, value) in table {
        match value.get_ref() {
            DeValue::String(text) if name.get_ref() == "match" => of_text(text, &value.span(), out),
            DeValue::Table(table) => walk(table, out),
            DeValue::Array(array) => {
                for item in array {
                    match item.get_ref() {
                        DeValue::String(text) if name.get_ref() == "match" => {
                            of_text(text, &item.span(), out);
                        }
                        DeValue::Table(table) => walk(table, out),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

/// Finds the lookup tables that rules use in `to`.
fn targets<'a>(root: &'a DeTable<'_>, out: &mut Vec<&'a str>) {
    let rules = root.get("rule").map(|rules| match rules.get_ref() {
        DeValue::Array(array) => array.iter().collect(),
        _ => vec![rules],
    });
    let named = |rule: &'a Spanned<DeValue<'_>>| {
        rule.get_ref().get("to")?.get_ref().get("table")?.get_ref().as_str()
    };
    out.extend(rules.into_iter().flatten().filter_map(named));
}

fn entries<'a>(
    name: &str,
    table: &'a DeTable<'a>,
    at: Range<usize>,
    problems: &mut Vec<Problem>,
) -> Option<Read<'a>> {
    let (mut all, mut texts, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let mut whole = true;
    for (key, value) in table {
        match net_or_numbers(key.get_ref()) {
            Ok(entry) => {
                all.push(entry);
                places.push(key.span());
            }
            Err(error) => {
                problems.push(Problem::error(key.span(), error.what).help(error.help));
                whole = false;
            }
        }
        match value.get_ref() {
            DeValue::String(text) => texts.push((&**text, value.span())),
            _ => {
                problems.push(
                    Problem::error(value.span(), "the value of an entry must be a text").help(
                        "write the name of a link, `\"drop\"` or `\"pass\"`; or `\"\"` if only \
                     `match` uses the entry",
                    ),
                );
                whole = false;
            }
        }
    }
    if !whole {
        return None;
    }
    match LookupTable::new(name, &all) {
        Ok(table) => Some(Read { table: Arc::new(table), texts, at }),
        Err((first, second)) => {
            let before = format!("{:?}", table.keys().nth(first).map_or("", |key| key.get_ref()));
            problems.push(
                Problem::error(places[second].clone(), "another entry of this table covers it too")
                    .help(format!("{before} covers it, or a part of it; keep one of the two")),
            );
            None
        }
    }
}
