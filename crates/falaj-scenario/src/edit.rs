//! Values set in the text of a scenario, at the place that their key names; the ordinary parser reads what that makes.

use crate::keys::{self, Holds, Key};
use falaj_sched::registry;
use std::fmt;
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// Why a key cannot be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSet(String);

impl fmt::Display for NotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for NotSet {}

impl From<&str> for NotSet {
    fn from(what: &str) -> NotSet {
        NotSet(what.to_owned())
    }
}

type Result<T, E = NotSet> = std::result::Result<T, E>;

/// `KEY=VALUE`, as it was written.
#[derive(Clone, Debug)]
pub struct Set {
    /// The words of the key.
    pub path: Vec<String>,
    /// `None`: nothing behind the `=`.
    pub value: Option<Value>,
    /// All of it.
    pub text: String,
}

const EXAMPLE: &str = "write a key of the scenario and its value, as in `voice.phase=60us`";

/// Reads `KEY=VALUE`.
///
/// # Errors
/// There is no `=`, no key, or no value.
pub fn parse_set(text: &str) -> Result<Set, String> {
    let set = parse_set_or_unset(text)?;
    if set.value.is_none() {
        return Err(format!("there is no value behind the `=`; {EXAMPLE}"));
    }
    Ok(set)
}

/// Reads `KEY=VALUE`, or `KEY=` for a key that shall not be there any more.
///
/// # Errors
/// There is no `=`, or no key.
pub fn parse_set_or_unset(text: &str) -> Result<Set, String> {
    let Some((key, value)) = text.split_once('=') else { return Err(format!("there is no `=`; {EXAMPLE}")) };
    // `a/calls` is a part of a flow; no name has a `/` of its own.
    let path = toml_edit::Key::parse(&key.trim().replace('/', "."))
        .map_err(|_| format!("`{}` is no key; {EXAMPLE}", key.trim()))?;
    let value = Some(value.trim()).filter(|value| !value.is_empty()).map(self::value);
    Ok(Set { path: path.iter().map(|k| k.get().to_owned()).collect(), value, text: text.into() })
}

/// A value as it is given on the command line: whole numbers, lists, tables and what has quotes are TOML; all else, such
/// as `60us`, is a text that would have quotes in the file.
pub fn value(text: &str) -> Value {
    let toml = text.starts_with(['"', '\'', '[', '{']) || text.parse::<i64>().is_ok();
    match text.parse::<Value>() {
        Ok(value) if toml => value,
        _ => Value::from(text),
    }
}

const RULE: &str = "rule";
const LINK: &str = "link";

/// What a rule is known by.
fn name_of_rule(n: usize, rule: &Table) -> String {
    let name = rule.get("name").and_then(Item::as_str).filter(|name| !name.is_empty());
    name.map_or_else(|| (n + 1).to_string(), str::to_owned)
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
    let flow = keys == keys::FLOW || keys == keys::PART;
    if flow || keys == keys::SCHEDULER {
        known.extend(registry::all().flat_map(if flow { keys::of_flow } else { keys::of_scheduler }));
    }
    for (name, item) in table.iter() {
        if let (Some(rules), RULE) = (item.as_array_of_tables(), name) {
            for (n, rule) in rules.iter().enumerate() {
                path.extend([RULE.to_owned(), name_of_rule(n, rule)]);
                walk(rule, path, keys::RULE, out);
                path.truncate(path.len() - 2);
            }
        }
        let Some(inner) = item.as_table_like() else { continue };
        path.push(name.to_owned());
        match known.iter().find(|k| k.name == name).map(held) {
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

/// What a key holds; parts of flows are tables by their names too.
fn held(key: &Key) -> Holds {
    if key.holds == Holds::Parts { Holds::Named(keys::PART) } else { key.holds }
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
    match held(key) {
        _ if rest.is_empty() => true,
        Holds::Table(inner) | Holds::Tables(inner) | Holds::Brief(inner) => rest.len() == 1 || takes(inner, rest),
        Holds::Scheduler => rest.len() == 1 || rest.len() == 2 && rest[0] == "with",
        Holds::Given => rest.len() == 1,
        // A flow that is not there yet: the parser says what it lacks.
        Holds::Named(inner) if key.name == "flow" => {
            rest.len() == 2 || rest.split_first().is_some_and(|(_, rest)| takes(inner, rest))
        }
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
            Err(NotSet(format!("no table of the scenario has such a key; it has `{}`", names.join("`, `"))))
        }
        several => {
            let list: Vec<String> = several.iter().map(full).collect();
            Err(NotSet(format!("that could be `{}`: write one of them in full", list.join("` or `"))))
        }
    }
}

/// Sets a value, or takes a key or a named table out.
///
/// # Errors
/// There is no such key, or there could be several.
pub fn apply(file: &mut DocumentMut, words: &[String], value: Option<&Value>) -> Result<()> {
    // As they would be written one by one.
    if file.get(RULE).is_some_and(Item::is_array)
        && let Some(item) = file.remove(RULE)
    {
        file.insert(RULE, item.into_array_of_tables().map_or_else(|item| item, Item::ArrayOfTables));
    }
    let Some(value) = value else { return remove(file, words) };
    let (table, rest) = match resolve(file.as_table(), words) {
        Err(why) if !begin(file, words) => return Err(why),
        Err(_) => resolve(file.as_table(), words)?,
        Ok(found) => found,
    };
    let Some((key, inner)) = rest.split_last() else { return Err("there is no key".into()) };
    let mut at = table_at(file.as_table_mut(), &table)?;
    for (name, within) in inner.iter().zip(table.last().into_iter().chain(inner)) {
        if within == "flow" && !at.contains_key(name) {
            // The first that takes a packet has it: one that is new is tried before all others.
            let others: Vec<(String, Item)> = at.iter().map(|(name, item)| (name.to_owned(), item.clone())).collect();
            others.iter().for_each(|(name, _)| drop(at.remove(name)));
            at.insert(name, Item::Value(Value::InlineTable(InlineTable::new())));
            for (name, other) in others {
                at.insert(&name, other);
            }
        }
        let item = at.entry(name).or_insert(Item::Value(Value::InlineTable(InlineTable::new())));
        at = item.as_table_like_mut().ok_or_else(|| NotSet(format!("`{name}` is no table there")))?;
    }
    at.insert(key, Item::Value(value.clone()));
    Ok(())
}

/// Adds the link or the rule that a key is of; says whether it is one's. A rule that is new is tried before all others.
fn begin(file: &mut DocumentMut, words: &[String]) -> bool {
    match words {
        [of, name, key @ ..] if of == LINK && takes(keys::LINK, key) => {
            let links = file.entry(LINK).or_insert(Item::Table(Table::new()));
            let Some(links) = links.as_table_like_mut().filter(|links| !links.contains_key(name)) else { return false };
            links.insert(name, Item::Table(Table::new()));
            true
        }
        [of, name, key @ ..] if of == RULE && takes(keys::RULE, key) => {
            let rules = file.entry(RULE).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
            let Some(rules) = rules.as_array_of_tables_mut() else { return false };
            let mut first = Table::new();
            first.insert("name", Item::Value(name.as_str().into()));
            let others: Vec<Table> = rules.iter().cloned().collect();
            // Tables are written by their places in the text, those of one place in order.
            first.set_position(others.first().and_then(Table::position));
            rules.clear();
            std::iter::once(first).chain(others).for_each(|rule| rules.push(rule));
            true
        }
        _ => false,
    }
}

fn table_at<'a>(file: &'a mut dyn TableLike, path: &[String]) -> Result<&'a mut dyn TableLike> {
    const GONE: &str = "a table that was there is gone";
    let (mut at, mut names) = (file, path.iter());
    while let Some(name) = names.next() {
        at = match at.get_mut(name).ok_or(GONE)? {
            Item::ArrayOfTables(rules) => {
                let (_, rule) = rule_of(rules, names.next().ok_or(GONE)?).ok_or(GONE)?;
                rule
            }
            item => item.as_table_like_mut().ok_or(GONE)?,
        };
    }
    Ok(at)
}

/// The rule of this name, and its index.
fn rule_of<'a>(rules: &'a mut ArrayOfTables, name: &str) -> Option<(usize, &'a mut Table)> {
    rules.iter_mut().enumerate().find(|(n, rule)| name_of_rule(*n, rule) == name)
}

/// Takes a table of that name out, or else a key of a table.
fn remove(file: &mut DocumentMut, words: &[String]) -> Result<()> {
    let tables: Vec<Vec<String>> =
        places(file.as_table()).into_iter().filter(|p| p.is_meant(words)).map(|p| p.path).collect();
    let mut path = match tables.as_slice() {
        [] => {
            let (table, rest) = resolve(file.as_table(), words)?;
            [table, rest].concat()
        }
        [table] => table.clone(),
        several => {
            let list: Vec<String> = several.iter().map(|path| path.join(".")).collect();
            return Err(NotSet(format!("that could be `{}`: write one of them in full", list.join("` or `"))));
        }
    };
    let Some(key) = path.pop() else { return Err("there is no key".into()) };
    if path == [RULE]
        && let Some(Item::ArrayOfTables(rules)) = file.get_mut(RULE)
    {
        if let Some((n, _)) = rule_of(rules, &key) {
            rules.remove(n);
        }
        if rules.is_empty() {
            file.remove(RULE);
        }
        return Ok(());
    }
    // Where there is no such table there is no such key either.
    if let Ok(table) = table_at(file.as_table_mut(), &path) {
        table.remove(&key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, sets: &[&str]) -> String {
        let mut file: DocumentMut = text.parse().unwrap();
        for set in sets {
            let set = parse_set_or_unset(set).unwrap();
            apply(&mut file, &set.path, set.value.as_ref()).unwrap();
        }
        file.to_string()
    }

    fn flows(text: &str) -> Vec<String> {
        let (scenario, _) = crate::parse(text, "x").unwrap_or_else(|e| panic!("{text}\n{e}"));
        scenario.links[0].up.flows.iter().map(|f| f.name.clone()).collect()
    }

    #[test]
    fn a_new_flow_is_tried_before_the_others_and_one_may_go() {
        for text in [
            "[link.x]\nrate = \"1mbit\"\n[link.x.flow.web]\nmatch = \"tcp\"\n[link.x.flow.rest]\nmatch = \"any\"\n",
            "[link.x]\nrate = \"1mbit\"\nflow = { web = { match = \"tcp\" }, rest = { match = \"any\" } }\n",
            "link.x = { rate = \"1mbit\", flow = { web = { match = \"tcp\" }, rest = { match = \"any\" } } }\n",
        ] {
            let more = edited(text, &["x.flow.video.match=udp", "x.flow.video.queue=9p"]);
            assert_eq!(flows(&more), ["video", "web", "rest"], "{more}");
            assert_eq!(flows(&edited(&more, &["x.flow.web="])), ["video", "rest"]);
            assert_eq!(flows(&edited(&more, &["video=", "web.queue=", "x.loss=1%", "x.loss="])), ["web", "rest"]);
        }
        let alone = edited("[link.x]\nrate = \"1mbit\"\n", &["x.flow.a.match=any", "x.up.delay=3ms"]);
        assert_eq!(flows(&alone), ["a"]);
    }

    /// Links and rules by `KIND NAME`, rules in order.
    fn known(text: &str) -> Vec<String> {
        let (scenario, _) = crate::parse(text, "x").unwrap_or_else(|e| panic!("{text}\n{e}"));
        let links = scenario.links.iter().map(|link| format!("link {}", link.name));
        links.chain(scenario.rules.iter().map(|rule| format!("rule {}", rule.name))).collect()
    }

    #[test]
    fn links_and_rules_come_and_go() {
        for rules in [
            "[[rule]]\nname = \"rest\"\nto = \"x\"\n[[rule]]\nto = \"drop\"\n[link.x.flow.a]\nmatch = \"any\"\n",
            "rule = [{ name = \"rest\", to = \"x\" }, { to = \"drop\" }]\n",
        ] {
            let link = "[link.x]\nrate = \"1mbit\"\n";
            let text = if rules.starts_with("rule") { [rules, link].concat() } else { [link, rules].concat() };
            let sets = ["link.slow.rate=2mbit", "link.slow.up.delay=3ms", "rule.web.match=tcp", "rule.web.to=slow"];
            let more = edited(&text, &sets);
            assert_eq!(known(&more), ["link x", "link slow", "rule web", "rule rest", "rule 3"], "{more}");
            let fewer = edited(&more, &["rule.rest.to=slow", "rule.web=", "link.x="]);
            assert_eq!(known(&fewer), ["link slow", "rule rest", "rule 2"], "{fewer}");
            assert_eq!(known(&edited(&more, &["rule.web=", "rule.rest=", "rule.1=", "link.slow="])), ["link x"]);
        }
        // A direction is no new link.
        let plain = edited("[link.link]\nrate = \"1mbit\"\n", &["link.up.rate=2mbit"]);
        assert_eq!(known(&plain), ["link link"]);
    }
}
