//! The table of a scenario's file to which a key belongs: `voice.phase` means
//! `link.uplink.flow.voice.phase`.

use super::{LINK, NotSet, RULE, Result, name_of_rule};
use crate::keys::{self, Holds, Key};
use crate::suggest::list;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::registry;
use std::ops::Range;
use std::rc::Rc;
use toml_edit::{Item, TableLike};

const WAYS: [&str; 2] = ["up", "down"];

/// A table of a file, and the keys that it may have.
pub(super) struct Place {
    pub(super) path: Vec<String>,
    keys: Rc<[Key]>,
}

/// The keys of tables that may have keys of a discipline. They include the keys of all disciplines:
/// the parser reports the keys that the chosen discipline does not have.
struct KnownPlace {
    flow: Rc<[Key]>,
    part: Rc<[Key]>,
    scheduler: Rc<[Key]>,
}

impl KnownPlace {
    fn new() -> KnownPlace {
        let with = |keys: &[Key], of: fn(&Manifest) -> Vec<Key>| -> Rc<[Key]> {
            keys.iter().copied().chain(registry::all().flat_map(of)).collect()
        };
        KnownPlace {
            flow: with(keys::FLOW, keys::of_flow),
            part: with(keys::PART, keys::of_flow),
            scheduler: with(keys::SCHEDULER, keys::of_scheduler),
        }
    }

    fn all(&self, keys: &[Key]) -> Rc<[Key]> {
        let of_disciplines = [
            (keys::FLOW, &self.flow),
            (keys::PART, &self.part),
            (keys::SCHEDULER, &self.scheduler),
        ];
        let known =
            of_disciplines.into_iter().find(|(of, _)| *of == keys).map(|(_, all)| Rc::clone(all));
        known.unwrap_or_else(|| keys.into())
    }
}

/// All tables of the file, in any notation.
pub(super) fn places(file: &dyn TableLike) -> Vec<Place> {
    let mut out = Vec::new();
    walk(file, &mut Vec::new(), keys::FILE, &KnownPlace::new(), &mut |_, path, keys| {
        out.push(Place { path: path.to_vec(), keys: Rc::clone(keys) });
    });
    out
}

/// The keys that have a former name: for each its place in the text and its present name, in order.
/// If several lines write such a key with dots, the first line is found.
pub(super) fn renamed(file: &dyn TableLike) -> Vec<(Range<usize>, &'static str)> {
    let mut out = Vec::new();
    walk(file, &mut Vec::new(), keys::FILE, &KnownPlace::new(), &mut |table, _, keys| {
        out.extend(table.iter().filter_map(|(name, item)| {
            let new = keys::present(name)?;
            // Lines `new.a` and `former.b` belong to one table.
            let is_dotted = |item: &Item| item.as_table_like().is_some_and(TableLike::is_dotted);
            let fits = table.get(new).is_none_or(|present| is_dotted(present) && is_dotted(item));
            let (key, _) = table.get_key_value(name)?;
            (fits && keys.iter().any(|key| key.name == new)).then_some((key.span()?, new))
        }));
    });
    out.sort_by_key(|(at, _)| at.start);
    out
}

/// A function that is called with a table, its path, and the keys that the table may have.
type Visit<'a> = dyn FnMut(&dyn TableLike, &[String], &Rc<[Key]>) + 'a;

/// Calls `visit` for each table of the file.
fn walk(
    table: &dyn TableLike,
    path: &mut Vec<String>,
    keys: &[Key],
    all: &KnownPlace,
    visit: &mut Visit<'_>,
) {
    let known = all.all(keys);
    for (name, item) in table.iter() {
        if let (Some(rules), RULE) = (item.as_array_of_tables(), name) {
            for (n, rule) in rules.iter().enumerate() {
                path.extend([RULE.to_owned(), name_of_rule(n, rule)]);
                walk(rule, path, keys::RULE, all, visit);
                path.truncate(path.len() - 2);
            }
        }
        let Some(inner) = item.as_table_like() else { continue };
        path.push(name.to_owned());
        match known.iter().find(|k| k.name == name).map(held) {
            Some(Holds::Table(keys) | Holds::Tables(keys) | Holds::Brief(keys)) => {
                walk(inner, path, keys, all, visit);
            }
            Some(Holds::Scheduler) => walk(inner, path, keys::SCHEDULER, all, visit),
            Some(Holds::Named(keys)) => {
                for (name, item) in inner.iter() {
                    if let Some(inner) = item.as_table_like() {
                        path.push(name.to_owned());
                        walk(inner, path, keys, all, visit);
                        path.pop();
                    }
                }
            }
            _ => {}
        }
        path.pop();
    }
    visit(table, path, &known);
}

/// The type of a key; a flow's parts are named tables too.
fn held(key: &Key) -> Holds {
    if key.holds == Holds::Parts { Holds::Named(keys::PART) } else { key.holds }
}

impl Place {
    /// Returns true if `words` may mean this table, as `voice` and `uplink.voice` mean
    /// `link.uplink.flow.voice`: the last word must be equal, and the other words must be in the
    /// same order.
    pub(super) fn is_meant(&self, words: &[String]) -> bool {
        let mut rest = self.path.iter();
        self.path.last() == words.last() && words.iter().all(|w| rest.any(|p| p == w))
    }

    fn takes(&self, words: &[String]) -> bool {
        takes(&self.keys, words)
    }
}

/// Returns true if `words` may be set in a table with these keys. Several words name a key of an
/// inner table. The last word is not checked here: the parser checks it, and suggests the most
/// similar key.
pub(super) fn takes(keys: &[Key], words: &[String]) -> bool {
    let [first, rest @ ..] = words else { return false };
    let Some(key) = keys.iter().find(|k| k.name == first) else { return false };
    match held(key) {
        _ if rest.is_empty() => true,
        Holds::Table(inner) | Holds::Tables(inner) | Holds::Brief(inner) => {
            rest.len() == 1 || takes(inner, rest)
        }
        Holds::Scheduler => rest.len() == 1 || rest.len() == 2 && rest[0] == "with",
        Holds::Given => rest.len() == 1,
        // A new flow: the parser reports its missing keys.
        Holds::Named(inner) if key.name == "flow" => {
            rest.len() == 2 || rest.split_first().is_some_and(|(_, rest)| takes(inner, rest))
        }
        _ => false,
    }
}

/// The place at which `words` are to be set: existing tables, and for each the remaining words. It
/// is one table, or one table for each direction of a link.
pub(super) fn resolve(
    file: &dyn TableLike,
    words: &[String],
) -> Result<Vec<(Vec<String>, Vec<String>)>> {
    let places = places(file);
    let mut meant = Vec::new();
    for split in 0..words.len() {
        let (table, rest) = words.split_at(split);
        meant.extend(places.iter().filter(|p| p.is_meant(table)).map(|p| (p, rest)));
    }
    let exact = meant.iter().filter(|(place, rest)| [&place.path[..], rest].concat() == words);
    let taken = meant.iter().filter(|(place, rest)| place.takes(rest));
    // For a key that no table has, these are the tables that are named by the words before the key.
    let unknown = meant.iter().filter(|(place, rest)| rest.len() == 1 && !place.path.is_empty());
    let mut choices: Vec<_> = exact.filter(|(place, rest)| place.takes(rest)).copied().collect();
    if choices.is_empty() {
        choices = taken.copied().collect();
    }
    if choices.is_empty() {
        choices = unknown.copied().collect();
    }
    let used = |(place, rest): (&Place, &[String])| -> Vec<(Vec<String>, Vec<String>)> {
        used(&places, &place.path, rest).into_iter().map(|table| (table, rest.to_vec())).collect()
    };
    let mut choices: Vec<(Vec<String>, Vec<String>)> = choices.into_iter().flat_map(used).collect();
    // One key may be found in two tables: `phase` in the table of a flow, and `flow.voice.phase` in
    // the table of its link. The innermost table is kept.
    choices.sort_by_key(|(table, _)| std::cmp::Reverse(table.len()));
    let mut full: Vec<Vec<String>> = Vec::new();
    choices.retain(|(table, rest)| {
        let whole = [&table[..], rest].concat();
        let first = !full.contains(&whole);
        full.extend(first.then_some(whole));
        first
    });
    match full.as_slice() {
        [] => {
            let mut names: Vec<String> =
                places.iter().map(|p| p.path.join(".")).filter(|p| !p.is_empty()).collect();
            names.sort_unstable();
            let former = words.iter().find_map(|word| Some((word, keys::present(word)?)));
            if let Some((former, new)) = former {
                return Err(NotSet(format!("the key `{former}` is now called `{new}`")));
            }
            let tables = match names.as_slice() {
                [] => "it has no tables".to_owned(),
                names => format!("its tables are {}", list(names.iter().map(String::as_str))),
            };
            Err(NotSet(format!("no table of the scenario has such a key; {tables}")))
        }
        several if several.len() == 1 || are_both_ways(several) => Ok(choices),
        several => {
            let list: Vec<String> = several.iter().map(|path| path.join(".")).collect();
            Err(NotSet(format!(
                "that could be `{}`: write one of them in full",
                list.join("` or `")
            )))
        }
    }
}

/// The tables in which `rest` has an effect if it is set for the table at `path`: if both
/// directions of a link have their own flows, the tables of the directions are used.
fn used(places: &[Place], path: &[String], rest: &[String]) -> Vec<Vec<String>> {
    if let ([of, _], Some("flow")) = (path, rest.first().map(String::as_str))
        && of == LINK
    {
        let ways = WAYS.map(|way| [path, &[way.to_owned()]].concat());
        let has_flows = |way: &Vec<String>| {
            places.iter().any(|p| {
                p.path
                    .strip_prefix(&way[..])
                    .is_some_and(|rest| rest.len() == 2 && rest[0] == "flow")
            })
        };
        if ways.iter().all(has_flows) {
            return ways.to_vec();
        }
    }
    vec![path.to_vec()]
}

/// Returns true if these are the same table in both directions of a link.
pub(super) fn are_both_ways(paths: &[Vec<String>]) -> bool {
    let of = |path: &Vec<String>| match path.as_slice() {
        [of, link, way, rest @ ..] if of == LINK => {
            Some((link.clone(), way.clone(), rest.to_vec()))
        }
        _ => None,
    };
    match paths {
        [one, other] => of(one).zip(of(other)).is_some_and(|(one, other)| {
            let ways = [&one.1[..], &other.1[..]];
            (&one.0, &one.2) == (&other.0, &other.2) && (ways == WAYS || ways == [WAYS[1], WAYS[0]])
        }),
        _ => false,
    }
}
