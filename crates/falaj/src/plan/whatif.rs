//! `--what-if` and `--need`: the scenario with other values, set in its text
//! and read by the ordinary parser.

use crate::file;
use anyhow::{Context, Result, bail};
use falaj_scenario::keys::{self, Holds, Key};
use falaj_scenario::{Problem, Scenario, Severity};
use falaj_sched::registry::ENTRIES;
use toml_edit::{DocumentMut, InlineTable, Item, TableLike, Value};

/// `KEY=VALUE`, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    path: Vec<String>,
    value: Value,
    text: String,
}

/// Reads `KEY=VALUE`.
pub(crate) fn parse_set(text: &str) -> Result<Set, String> {
    let example = "write a key of the scenario and its value, as in `voice.phase=60us`";
    let Some((key, value)) = text.split_once('=') else { return Err(format!("there is no `=`; {example}")) };
    // `a/calls` is a part of a flow; no name has a `/` of its own.
    let path = toml_edit::Key::parse(&key.trim().replace('/', "."))
        .map_err(|_| format!("`{}` is no key; {example}", key.trim()))?;
    let value = value.trim();
    if value.is_empty() {
        return Err(format!("there is no value behind the `=`; {example}"));
    }
    Ok(Set { path: path.iter().map(|k| k.get().to_owned()).collect(), value: toml_value(value), text: text.into() })
}

/// Whole numbers, lists, tables and what has quotes are TOML; all else, such
/// as `60us`, is a text that would have quotes in the file.
fn toml_value(text: &str) -> Value {
    let toml = text.starts_with(['"', '\'', '[', '{']) || text.parse::<i64>().is_ok();
    match text.parse::<Value>() {
        Ok(value) if toml => value,
        _ => Value::from(text),
    }
}

/// One table of a file, and which keys it may have.
struct Place {
    path: Vec<String>,
    keys: Vec<Key>,
}

/// All tables that the file has, whatever they are written as.
fn places(file: &dyn TableLike) -> Vec<Place> {
    let mut out = Vec::new();
    walk(file, &mut Vec::new(), keys::FILE, &mut out);
    out
}

fn walk(table: &dyn TableLike, path: &mut Vec<String>, keys: &[Key], out: &mut Vec<Place>) {
    let mut known = keys.to_vec();
    // Whichever discipline it is: the parser says what it does not take.
    let of_disciplines = |flow: bool| ENTRIES.iter().flat_map(move |e| if flow { e.flow } else { e.scheduler });
    let flow = keys == keys::FLOW || keys == keys::PART;
    if flow || keys == keys::SCHEDULER {
        known.extend(of_disciplines(flow).map(Key::from));
    }
    for (name, item) in table.iter() {
        let Some(inner) = item.as_table_like() else { continue };
        path.push(name.to_owned());
        match known.iter().find(|k| k.name == name).map(|k| k.holds) {
            Some(Holds::Table(keys) | Holds::Tables(keys)) => walk(inner, path, keys, out),
            Some(Holds::Scheduler) => walk(inner, path, keys::SCHEDULER, out),
            Some(Holds::Named(keys)) => {
                for (name, item) in inner.iter() {
                    if let Some(inner) = item.as_table_like() {
                        path.push(name.to_owned());
                        walk(inner, path, keys, out);
                        path.pop();
                    }
                }
            }
            _ => {}
        }
        path.pop();
    }
    out.push(Place { path: path.clone(), keys: known });
}

impl Place {
    /// `voice` and `uplink.voice` mean `link.uplink.flow.voice`: the last word
    /// is the same, and the others come in the same order.
    fn is_meant(&self, words: &[String]) -> bool {
        let mut rest = self.path.iter();
        self.path.last() == words.last() && words.iter().all(|w| rest.any(|p| p == w))
    }

    fn takes(&self, words: &[String]) -> bool {
        takes(&self.keys, words)
    }
}

/// May `words` be set in a table of these keys? More than one are a key of a
/// table of its own, whose last word is left to the parser, which knows the nearest one.
fn takes(keys: &[Key], words: &[String]) -> bool {
    let [first, rest @ ..] = words else { return false };
    let Some(key) = keys.iter().find(|k| k.name == first) else { return false };
    match key.holds {
        _ if rest.is_empty() => true,
        Holds::Table(inner) | Holds::Tables(inner) => rest.len() == 1 || takes(inner, rest),
        Holds::Scheduler => rest.len() == 1,
        _ => false,
    }
}

/// Where `words` are to be set: a table that there is, and the words behind it.
fn resolve(file: &dyn TableLike, words: &[String]) -> Result<(Vec<String>, Vec<String>)> {
    let places = places(file);
    let mut meant = Vec::new();
    for split in 0..words.len() {
        let (table, rest) = words.split_at(split);
        meant.extend(places.iter().filter(|p| p.is_meant(table)).map(|p| (p, rest)));
    }
    let exact = meant.iter().filter(|(place, rest)| [&place.path[..], rest].concat() == words);
    let taken = meant.iter().filter(|(place, rest)| place.takes(rest));
    // So is a word that no table takes.
    let unknown = meant.iter().filter(|(place, rest)| rest.len() == 1 && !place.path.is_empty());
    let mut choices: Vec<_> = exact.filter(|(place, rest)| place.takes(rest)).copied().collect();
    if choices.is_empty() {
        choices = taken.copied().collect();
    }
    if choices.is_empty() {
        choices = unknown.copied().collect();
    }
    let full = |(place, rest): &(&Place, &[String])| [&place.path[..], rest].concat().join(".");
    // A flow's own table is found under both of its halves.
    choices.sort_by_key(|(place, _)| std::cmp::Reverse(place.path.len()));
    choices.dedup_by_key(|choice| full(choice));
    match choices.as_slice() {
        [(place, rest)] => Ok((place.path.clone(), rest.to_vec())),
        [] => {
            let mut names: Vec<String> = places.iter().map(|p| p.path.join(".")).filter(|p| !p.is_empty()).collect();
            names.sort_unstable();
            bail!("no table of the scenario has such a key; it has `{}`", names.join("`, `"))
        }
        several => {
            let list: Vec<String> = several.iter().map(full).collect();
            bail!("that could be `{}`: write one of them in full", list.join("` or `"))
        }
    }
}

fn apply(file: &mut DocumentMut, words: &[String], value: &Value) -> Result<()> {
    let (table, rest) = resolve(file.as_table(), words)?;
    let mut at: &mut dyn TableLike = file.as_table_mut();
    for name in &table {
        at = at.get_mut(name).and_then(Item::as_table_like_mut).context("a table that was there is gone")?;
    }
    let Some((key, inner)) = rest.split_last() else { bail!("there is no key") };
    for name in inner {
        let item = at.entry(name).or_insert(Item::Value(Value::InlineTable(InlineTable::new())));
        at = item.as_table_like_mut().with_context(|| format!("`{name}` is no table there"))?;
    }
    at.insert(key, Item::Value(value.clone()));
    Ok(())
}

/// What the text of a scenario says once the needs and then the what-ifs are
/// set in it.
pub(crate) struct Changed<'a> {
    name: &'a str,
    text: String,
    /// Problems that were said already.
    said: Vec<String>,
    words: Vec<String>,
}

impl<'a> Changed<'a> {
    /// The file as it is.
    ///
    /// # Errors
    /// What is wrong with it, which was said.
    pub(crate) fn new(text: String, name: &'a str) -> Result<(Changed<'a>, Scenario)> {
        let (scenario, warnings) = falaj_scenario::parse(&text, name).map_err(|errors| {
            file::tell(&errors);
            file::Told
        })?;
        file::tell(&warnings);
        let said = warnings.problems().iter().map(|p| p.title.clone()).collect();
        Ok((Changed { name, text, said, words: Vec::new() }, scenario))
    }

    /// Sets values; `option` is what they came by. A need is a flow's.
    ///
    /// # Errors
    /// There is no such key, or the scenario would be wrong, which was said.
    pub(crate) fn set(&mut self, option: &str, sets: &[Set], need: bool) -> Result<Scenario> {
        let mut file: DocumentMut = self.text.parse().context("the scenario is no TOML")?;
        for set in sets {
            let mut words = set.path.clone();
            if need {
                words.insert(words.len() - 1, "need".into());
            }
            apply(&mut file, &words, &set.value).with_context(|| format!("{option} {}", set.text))?;
            self.words.push(format!("{option} {}", set.text));
        }
        self.text = file.to_string();
        let words = self.words.join(" ");
        match falaj_scenario::parse(&self.text, self.name) {
            Ok((scenario, warnings)) => {
                warnings.problems().iter().for_each(|p| self.tell(p, &words));
                Ok(scenario)
            }
            Err(errors) => {
                errors.problems().iter().for_each(|p| self.tell(p, &words));
                Err(file::Told.into())
            }
        }
    }

    /// A problem that the file did not have. Its line would be one of a text
    /// that nobody has seen.
    fn tell(&self, problem: &Problem, words: &str) {
        if self.said.contains(&problem.title) {
            return;
        }
        let severity = if problem.severity == Severity::Error { "error" } else { "warning" };
        eprintln!("{severity}: with {words}: {}", problem.title);
        let label = Some(&problem.label).filter(|l| !l.is_empty());
        for line in label.into_iter().chain(&problem.help) {
            eprintln!("  {line}");
        }
    }
}
