//! Sets values in the text of a scenario, at the places that their keys name. The ordinary parser
//! reads the result.

mod place;
mod upgrade;

use crate::keys;
use place::{are_both_ways, places, resolve, takes};
use std::fmt;
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};
pub use upgrade::upgrade;

/// The reason why a key cannot be set.
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

/// A setting `KEY=VALUE`, as written.
#[derive(Clone, Debug)]
pub struct Set {
    /// The words of the key.
    pub path: Vec<String>,
    /// The value; `None` if nothing follows the `=`.
    pub value: Option<Value>,
    /// The whole text.
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
        return Err(format!("there is no value after the `=`; {EXAMPLE}"));
    }
    Ok(set)
}

/// Reads `KEY=VALUE`, or `KEY=` for a key to be removed.
///
/// # Errors
/// There is no `=`, or no key.
pub fn parse_set_or_unset(text: &str) -> Result<Set, String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(format!("there is no `=`; {EXAMPLE}"));
    };
    // `a/calls` is a part of a flow; names contain no `/`.
    let path = toml_edit::Key::parse(&key.trim().replace('/', "."))
        .map_err(|_| format!("`{}` is not a key; {EXAMPLE}", key.trim()))?;
    let value = Some(value.trim()).filter(|value| !value.is_empty()).map(self::value);
    Ok(Set { path: path.iter().map(|k| k.get().to_owned()).collect(), value, text: text.into() })
}

/// A value from the command line: whole numbers, lists, tables and quoted texts are TOML. Any other
/// value, such as `60us`, is a text, which would be in quotes in the file.
pub fn value(text: &str) -> Value {
    let toml = text.starts_with(['"', '\'', '[', '{']) || text.parse::<i64>().is_ok();
    match text.parse::<Value>() {
        Ok(value) if toml => value,
        _ => Value::from(text),
    }
}

const RULE: &str = "rule";
const LINK: &str = "link";

/// Name of the rule with index `n`; a rule without a name is called by its number.
fn name_of_rule(n: usize, rule: &Table) -> String {
    let name = rule.get("name").and_then(Item::as_str).filter(|name| !name.is_empty());
    name.map_or_else(|| (n + 1).to_string(), str::to_owned)
}

/// Sets a value, or removes a key or a named table.
///
/// # Errors
/// The key does not exist, or is ambiguous.
pub fn apply(file: &mut DocumentMut, words: &[String], value: Option<&Value>) -> Result<()> {
    let mut edit = Edit::new(file);
    edit.set(words, value)?;
    edit.finish();
    Ok(())
}

/// A scenario's text without its scheduled changes; unchanged if it is not TOML.
pub fn without_changes(text: &str) -> String {
    let Ok(mut file) = text.parse::<DocumentMut>() else { return text.to_owned() };
    file.remove("change");
    file.to_string()
}

/// A scenario's text with this seed, of at most [`keys::SEED_MAX`]; unchanged if it is not TOML.
pub fn with_seed(text: &str, seed: u64) -> String {
    let Ok(mut file) = text.parse::<DocumentMut>() else { return text.to_owned() };
    let run = file.entry("run").or_insert_with(toml_edit::table);
    if let Some(run) = run.as_table_like_mut() {
        run.insert("seed", toml_edit::value(seed.min(keys::SEED_MAX) as i64));
    }
    file.to_string()
}

/// Values that are set in one change.
pub struct Edit<'a> {
    file: &'a mut DocumentMut,
    /// New flows and rules: they are tried before all others, in the order in which they were
    /// written.
    new: Vec<Vec<String>>,
    /// The only link, which takes all packets, if the scenario had no rules before.
    takes_all: Option<String>,
}

impl Edit<'_> {
    /// Begins a change of this scenario.
    pub fn new(file: &mut DocumentMut) -> Edit<'_> {
        // Converts the rules to separate tables.
        if file.get(RULE).is_some_and(Item::is_array)
            && let Some(item) = file.remove(RULE)
        {
            file.insert(
                RULE,
                item.into_array_of_tables().map_or_else(|item| item, Item::ArrayOfTables),
            );
        }
        let links: Vec<&str> = file
            .get(LINK)
            .and_then(Item::as_table_like)
            .map_or(Vec::new(), |l| l.iter().map(|(name, _)| name).collect());
        let takes_all = match links[..] {
            [only] if !has_rules(file) => Some(only.to_owned()),
            _ => None,
        };
        Edit { file, new: Vec::new(), takes_all }
    }

    /// Sets a value, or removes a key or a named table.
    ///
    /// # Errors
    /// The key does not exist, or is ambiguous.
    pub fn set(&mut self, words: &[String], value: Option<&Value>) -> Result<()> {
        let Some(value) = value else { return remove(self.file, words) };
        let places = match resolve(self.file.as_table(), words) {
            Err(why) if !self.begin(words) => return Err(why),
            Err(_) => resolve(self.file.as_table(), words)?,
            Ok(found) => found,
        };
        places.into_iter().try_for_each(|(table, rest)| self.put(table, &rest, value))
    }

    /// Completes the change: packets that no new rule matches still go where all packets went
    /// before.
    pub fn finish(self) {
        let Some(link) = self.takes_all.filter(|_| has_rules(self.file)) else { return };
        let Some(rules) = self.file.get_mut(RULE).and_then(Item::as_array_of_tables_mut) else {
            return;
        };
        let takes_all = |rule: &Table| {
            let any = |(key, value): (&str, &Item)| match key {
                "name" | "to" => true,
                "match" => value.as_str() == Some("any"),
                _ => false,
            };
            rule.iter().all(any)
        };
        if rules.iter().any(takes_all) {
            return;
        }
        let taken: Vec<String> =
            rules.iter().enumerate().map(|(n, rule)| name_of_rule(n, rule)).collect();
        let mut names =
            std::iter::once("rest".to_owned()).chain((2..).map(|n| format!("rest-{n}")));
        let Some(name) = names.find(|name| !taken.contains(name)) else { return };
        let mut rest = Table::new();
        rest.insert("name", toml_edit::value(name));
        rest.insert("to", toml_edit::value(link));
        rest.set_position(rules.iter().last().and_then(Table::position));
        rules.push(rest);
    }

    fn is_new(&self, table: &[String], name: &str) -> bool {
        self.new
            .iter()
            .any(|path| path.split_last().is_some_and(|(last, of)| of == table && last == name))
    }

    /// Sets a value in an existing table.
    fn put(&mut self, table: Vec<String>, rest: &[String], value: &Value) -> Result<()> {
        let Some((key, inner)) = rest.split_last() else { return Err("there is no key".into()) };
        let mut path = table;
        for name in inner {
            let at = table_at(self.file.as_table_mut(), &path)?;
            let nothing = Item::Value(Value::InlineTable(InlineTable::new()));
            if path.last().is_some_and(|within| within == "flow") && !at.contains_key(name) {
                // The first flow that matches a packet takes it: a new flow is put before the old
                // ones.
                let others: Vec<(String, Item)> =
                    at.iter().map(|(name, of)| (name.to_owned(), of.clone())).collect();
                others.iter().for_each(|(name, _)| drop(at.remove(name)));
                let (new, old): (Vec<_>, Vec<_>) =
                    others.into_iter().partition(|(name, _)| self.is_new(&path, name));
                let at = table_at(self.file.as_table_mut(), &path)?;
                for (name, item) in new.into_iter().chain([(name.clone(), nothing)]).chain(old) {
                    at.insert(&name, item);
                }
                self.new.push([&path[..], std::slice::from_ref(name)].concat());
            } else if at.entry(name).or_insert(nothing).as_table_like().is_none() {
                return Err(NotSet(format!("`{name}` is not a table there")));
            }
            path.push(name.clone());
        }
        table_at(self.file.as_table_mut(), &path)?.insert(key, Item::Value(value.clone()));
        Ok(())
    }

    /// Adds the link or the rule to which a key belongs. Returns true if it was added.
    fn begin(&mut self, words: &[String]) -> bool {
        match words {
            [of, name, key @ ..] if of == LINK && takes(keys::LINK, key) => {
                let links = self.file.entry(LINK).or_insert(Item::Table(Table::new()));
                let Some(links) =
                    links.as_table_like_mut().filter(|links| !links.contains_key(name))
                else {
                    return false;
                };
                links.insert(name, Item::Table(Table::new()));
                true
            }
            [of, name, key @ ..] if of == RULE && takes(keys::RULE, key) => {
                let rules =
                    self.file.entry(RULE).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
                let Some(rules) = rules.as_array_of_tables_mut() else { return false };
                let others: Vec<Table> = rules.iter().cloned().collect();
                let mut own = Table::new();
                own.insert("name", Item::Value(name.as_str().into()));
                // Tables are written in the order of their positions in the text; tables with the
                // same position are written in the order of the array.
                own.set_position(others.first().and_then(Table::position));
                rules.clear();
                let place = [RULE.to_owned()];
                let (new, old): (Vec<_>, Vec<_>) =
                    others.into_iter().enumerate().partition(|(n, rule)| {
                        self.new.iter().any(|path| {
                            path[..] == [&place[..], &[name_of_rule(*n, rule)]].concat()
                        })
                    });
                let tables = |rules: Vec<(usize, Table)>| rules.into_iter().map(|(_, rule)| rule);
                tables(new).chain([own]).chain(tables(old)).for_each(|rule| rules.push(rule));
                self.new.push([&place[..], std::slice::from_ref(name)].concat());
                true
            }
            _ => false,
        }
    }
}

fn has_rules(file: &DocumentMut) -> bool {
    file.get(RULE).and_then(Item::as_array_of_tables).is_some_and(|rules| !rules.is_empty())
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

/// Removes the table that these words name, or, if there is none, a key of a table.
fn remove(file: &mut DocumentMut, words: &[String]) -> Result<()> {
    let tables: Vec<Vec<String>> =
        places(file.as_table()).into_iter().filter(|p| p.is_meant(words)).map(|p| p.path).collect();
    match tables.as_slice() {
        [] => resolve(file.as_table(), words)?
            .into_iter()
            .try_for_each(|(table, rest)| take_out(file, [table, rest].concat())),
        several if several.len() == 1 || are_both_ways(several) => {
            several.iter().try_for_each(|table| take_out(file, table.clone()))
        }
        several => {
            let list: Vec<String> = several.iter().map(|path| path.join(".")).collect();
            Err(NotSet(format!(
                "that could be `{}`: write one of them in full",
                list.join("` or `")
            )))
        }
    }
}

fn take_out(file: &mut DocumentMut, mut path: Vec<String>) -> Result<()> {
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
    // If the table does not exist, the key does not exist either.
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
        let mut edit = Edit::new(&mut file);
        for set in sets {
            let set = parse_set_or_unset(set).unwrap();
            edit.set(&set.path, set.value.as_ref()).unwrap();
        }
        edit.finish();
        file.to_string()
    }

    fn flows(text: &str) -> Vec<String> {
        let (scenario, _) = crate::parse(text, "x").unwrap_or_else(|e| panic!("{text}\n{e}"));
        scenario.links[0].up.flows.iter().map(|f| f.name.clone()).collect()
    }

    #[test]
    fn a_seed_is_set_wherever_it_stood() {
        for (text, with) in [
            ("", "[run]\nseed = 7\n"),
            ("[link.l]\nrate = \"1mbit\"\n", "[link.l]\nrate = \"1mbit\"\n\n[run]\nseed = 7\n"),
            ("[run]\nseed = 3 # three\n", "[run]\nseed = 7\n"),
            ("run = { seed = 3 }\n", "run = { seed = 7 }\n"),
            ("no TOML", "no TOML"),
        ] {
            assert_eq!(with_seed(text, 7), with, "{text}");
        }
        let largest = with_seed("", keys::SEED_MAX);
        assert_eq!(largest, format!("[run]\nseed = {}\n", i64::MAX));
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
            assert_eq!(
                flows(&edited(&more, &["video=", "web.queue=", "x.loss=1%", "x.loss="])),
                ["web", "rest"]
            );
        }
        let alone =
            edited("[link.x]\nrate = \"1mbit\"\n", &["x.flow.a.match=any", "x.up.delay=3ms"]);
        assert_eq!(flows(&alone), ["a"]);
    }

    /// Links and rules as `KIND NAME`; the rules are in their order.
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
            let text = if rules.starts_with("rule") {
                [rules, link].concat()
            } else {
                [link, rules].concat()
            };
            let sets = [
                "link.slow.rate=2mbit",
                "link.slow.up.delay=3ms",
                "rule.web.match=tcp",
                "rule.web.to=slow",
            ];
            let more = edited(&text, &sets);
            assert_eq!(
                known(&more),
                ["link x", "link slow", "rule web", "rule rest", "rule 3"],
                "{more}"
            );
            let fewer = edited(&more, &["rule.rest.to=slow", "rule.web=", "link.x="]);
            assert_eq!(known(&fewer), ["link slow", "rule rest", "rule 2"], "{fewer}");
            assert_eq!(
                known(&edited(&more, &["rule.web=", "rule.rest=", "rule.1=", "link.slow="])),
                ["link x"]
            );
        }
        // A direction is not a new link.
        let plain = edited("[link.link]\nrate = \"1mbit\"\n", &["link.up.rate=2mbit"]);
        assert_eq!(known(&plain), ["link link"]);
    }

    #[test]
    fn flows_and_rules_of_one_change_stay_in_their_order() {
        for text in [
            "[link.x]\nrate = \"1mbit\"\n[link.x.flow.old]\nmatch = \"any\"\n",
            "[link.x]\nrate = \"1mbit\"\n",
        ] {
            let two = edited(
                text,
                &[
                    "x.flow.a.match=udp",
                    "x.flow.b.match=tcp",
                    "x.flow.a.queue=9p",
                    "x.flow.c.match=icmp",
                ],
            );
            assert_eq!(flows(&two)[..3], ["a", "b", "c"], "{two}");
            // Flows of a later change are tried before the flows of this one.
            assert_eq!(flows(&edited(&two, &["x.flow.d.match=udp"]))[..3], ["d", "a", "b"]);
        }
        let link = "[link.x]\nrate = \"1mbit\"\n";
        let sets = ["rule.a.match=udp", "rule.b.match=tcp", "rule.a.to=x", "rule.b.to=drop"];
        let ruled = edited(link, &sets);
        assert_eq!(known(&ruled), ["link x", "rule a", "rule b", "rule rest"], "{ruled}");
        let more = edited(
            &ruled,
            &["rule.c.match=icmp", "rule.c.to=drop", "rule.d.match=icmp6", "rule.d.to=drop"],
        );
        assert_eq!(
            known(&more),
            ["link x", "rule c", "rule d", "rule a", "rule b", "rule rest"],
            "{more}"
        );
    }

    #[test]
    fn what_the_first_rule_does_not_take_goes_where_it_went() {
        let link = "[link.x]\nrate = \"1mbit\"\n";
        let slow = ["link.slow.rate=1mbit", "rule.web.match=tcp", "rule.web.to=slow"];
        let ruled = edited(link, &slow);
        assert_eq!(known(&ruled), ["link x", "link slow", "rule web", "rule rest"], "{ruled}");
        assert!(ruled.contains("name = \"rest\"\nto = \"x\""), "{ruled}");
        let named = edited(link, &["rule.rest.match=tcp", "rule.rest.to=drop"]);
        assert_eq!(known(&named), ["link x", "rule rest", "rule rest-2"], "{named}");
        // Explicit targets are not changed.
        for own in [
            &["rule.all.to=drop"][..],
            &["rule.web.match=tcp", "rule.web.to=x", "rule.all.match=any", "rule.all.to=drop"],
        ] {
            assert!(!edited(link, own).contains("rest"), "{own:?}");
        }
        assert!(edited(link, &["rule.half.probability=50%", "rule.half.to=drop"]).contains("rest"));
        // If there were rules already, packets that matched no rule were dropped; this does not
        // change.
        assert!(
            !edited(
                "[link.x]\nrate = \"1mbit\"\n[[rule]]\nmatch = \"udp\"\nto = \"x\"\n",
                &["rule.web.match=tcp", "rule.web.to=x"]
            )
            .contains("rest")
        );
    }

    /// A flow that is set for a link is set in both directions, if these have their own flows.
    #[test]
    fn flows_of_both_directions_are_set_by_one_word() {
        let text = "[link.x]\nrate = \"1mbit\"\n[link.x.up.flow.all]\nmatch = \"any\"\nqueue = \"9p\"\n[link.x.down.flow.all]\nmatch = \"any\"\n";
        let both = |text: &str| {
            let (scenario, warnings) =
                crate::parse(text, "x").unwrap_or_else(|e| panic!("{text}\n{e}"));
            assert!(!warnings.to_string().contains("not used"), "{text}\n{warnings}");
            let names = |flows: &[crate::Flow]| {
                flows.iter().map(|f| f.name.clone()).collect::<Vec<_>>().join(" ")
            };
            [names(&scenario.links[0].up.flows), names(&scenario.links[0].down.flows)]
        };
        let video = edited(
            text,
            &["x.flow.video.match=udp", "x.flow.voice.match=icmp", "x.flow.video.queue=7p"],
        );
        assert_eq!(both(&video), ["video voice all"; 2], "{video}");
        assert_eq!(video.matches("7p").count(), 2, "{video}");
        for words in ["video.queue=5p", "x.flow.video.queue=5p", "x.flow.all.queue=5p"] {
            assert_eq!(edited(&video, &[words]).matches("5p").count(), 2, "{words}");
        }
        assert_eq!(edited(&video, &["x.up.flow.video.queue=5p"]).matches("5p").count(), 1);
        assert_eq!(both(&edited(&video, &["x.flow.video="])), ["voice all"; 2]);
        assert_eq!(both(&edited(&video, &["voice=", "x.down.flow.video="])), ["video all", "all"]);
    }
}
