//! Describes the keys of the file and the disciplines for users: a single one, a list, or a whole
//! page. The texts are generated from [`crate::keys`] and [`falaj_sched::registry::all`], so they
//! cannot contradict the parser.

mod choose;
mod costs;
mod nesting;
mod schema;
mod words;

use crate::impairments;
use crate::keys::{self, FILE, Fallback, Holds, Key, TABLES, TO, Table, inline, sample};
use crate::mask::PARTS;
use crate::matching::TERMS;
use crate::suggest::{self, quoted};
use crate::units::{RATE_MAX, RATE_UNITS, SIZE_UNITS, SPAN_UNITS};
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::Kind;
use falaj_sched::registry::{self, entry};
use std::fmt::{self, Write};

pub use choose::{Wish, choose, example as example_of};
pub use schema::schema;

/// The error if no key, discipline or word has the requested name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The name that was requested.
    pub name: String,
    /// The most similar name, if one is similar.
    pub near: Option<String>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no key, discipline or word {}", quoted(&self.name))?;
        match (keys::present(&self.name), &self.near) {
            (Some(new), _) => write!(f, "; the key of this name is now `{new}`"),
            (None, Some(near)) => write!(f, "; did you mean `{near}`?"),
            (None, None) => Ok(()),
        }
    }
}
impl std::error::Error for Unknown {}

/// A key, its table, and, for keys of disciplines, the discipline.
#[derive(Clone, Copy)]
struct Topic {
    table: &'static Table,
    key: Key,
    of: Option<&'static Manifest>,
}

impl Topic {
    /// The path of the key, such as `flow.phase` or `link`.
    fn path(&self) -> String {
        match self.table.word {
            "" => self.key.name.to_owned(),
            word => format!("{word}.{}", self.key.name),
        }
    }

    /// Returns true if `asked` names this key, by its name or by a path such as
    /// `link.uplink.flow.a.queue`.
    fn answers(&self, asked: &str) -> bool {
        let mut words: Vec<&str> = asked.split('.').collect();
        if words.pop() != Some(self.key.name) {
            return false;
        }
        let mut tables = words.iter().filter(|w| TABLES.iter().any(|t| t.word == **w));
        match tables.next_back() {
            Some(word) => *word == self.table.word,
            None if words.is_empty() => true,
            // A discipline's name may precede its key.
            None => self.of.is_some_and(|e| words == [e.kind]),
        }
    }
}

/// All keys, in the order of the reference. In each table, the disciplines' keys follow the other
/// keys.
fn topics() -> Vec<Topic> {
    let mut all = Vec::new();
    for table in TABLES {
        all.extend(table.keys.iter().map(|key| Topic { table, key: *key, of: None }));
        for entry in registry::all() {
            let own = match table.word {
                "scheduler" => keys::of_scheduler(entry),
                "flow" => keys::of_flow(entry),
                _ => continue,
            };
            all.extend(own.into_iter().map(|key| Topic { table, key, of: Some(entry) }));
        }
    }
    all
}

/// The explanation of a key (`delay`, `flow.phase`, `link.uplink.rate`), of a discipline (`drr`, or
/// another name of it) or of a word of the field, for a terminal. It ends with a newline.
///
/// # Errors
/// There is no such name; the error has the most similar name.
pub fn explain(asked: &str) -> Result<String, Unknown> {
    let topics = topics();
    let mut parts: Vec<String> = words::explain(asked).into_iter().collect();
    parts.extend(topics.iter().filter(|t| t.answers(asked)).map(key_text));
    parts.extend(entry(asked).or_else(|| words::alias(asked)).map(discipline_text));
    if !parts.is_empty() {
        return Ok(parts.join("\n"));
    }
    let paths: Vec<String> = topics.iter().map(Topic::path).collect();
    let names = topics.iter().map(|t| t.key.name).chain(registry::all().map(|e| e.kind));
    let names = names.chain(words::all()).chain(paths.iter().map(String::as_str));
    let near = suggest::nearest(asked, names);
    // `link.dealy`: perhaps only the last word is wrong.
    let last = asked.rsplit('.').next().unwrap_or(asked);
    let near = near.or_else(|| suggest::nearest(last, topics.iter().map(|t| t.key.name)));
    Err(Unknown { name: asked.to_owned(), near: near.map(str::to_owned) })
}

/// A list of all keys and disciplines, each in one line, for a terminal.
pub fn list() -> String {
    let mut out = String::new();
    for table in TABLES {
        line(&mut out, format_args!("{}", table.header));
        for topic in topics().iter().filter(|t| t.table == table) {
            let of = topic.of.map_or(String::new(), |e| format!(" ({})", e.kind));
            line(&mut out, format_args!("  {:<22} {}{of}", topic.path(), topic.key.doc));
        }
        out.push('\n');
    }
    line(&mut out, format_args!("disciplines"));
    for entry in registry::all() {
        line(&mut out, format_args!("  {:<22} {}", entry.kind, entry.doc));
    }
    out
}

fn key_text(topic: &Topic) -> String {
    let key = &topic.key;
    let mut out = String::new();
    line(&mut out, format_args!("{}: {}\n", topic.path(), key.doc));
    match topic.table.word {
        "link" if crate::keys::DIRECTION.iter().any(|k| k.name == key.name) => {
            row(&mut out, "in", "[link.NAME]; [link.NAME.up], [link.NAME.down]");
        }
        _ => row(&mut out, "in", topic.table.header),
    }
    row(&mut out, "value", &value(key.holds));
    row(&mut out, "default", &default(key, false));
    match topic.of {
        Some(entry) => {
            row(&mut out, "used by", entry.kind);
            row(&mut out, "source", entry.source);
        }
        None if topic.table.word == "flow" => row(&mut out, "used by", "every discipline"),
        None => {}
    }
    row(&mut out, "example", &example(topic));
    if matches!(key.holds, Holds::Mask) {
        out.push_str("\n  parts of a mask:\n");
        for (part, doc) in PARTS {
            line(&mut out, format_args!("    {part:<10} {doc}"));
        }
    }
    if matches!(key.holds, Holds::Rules) {
        out.push_str("\n  terms of a rule, all of which must match:\n");
        for (term, doc) in TERMS {
            line(&mut out, format_args!("    {term:<6} {doc}"));
        }
    }
    out
}

fn discipline_text(entry: &Manifest) -> String {
    let mut out = String::new();
    line(&mut out, format_args!("{}: {}\n", entry.kind, entry.doc));
    if !entry.aliases.is_empty() {
        row(&mut out, "also", &entry.aliases.join(", "));
    }
    row(&mut out, "source", entry.source);
    let (scheduler, flow) = (keys::of_scheduler(entry), keys::of_flow(entry));
    for (what, keys) in [("scheduler", &scheduler), ("flow", &flow)] {
        let lines: Vec<String> = keys
            .iter()
            .map(|k| match k.fallback {
                Fallback::Required => format!("{:<8} {}; required", k.name, k.doc),
                _ => format!("{:<8} {}; default {}", k.name, k.doc, default(k, false)),
            })
            .collect();
        row(
            &mut out,
            what,
            if lines.is_empty() { "no keys of its own".into() } else { lines.join("\n") }.as_str(),
        );
    }
    row(&mut out, "example", choose::example(entry).trim_end());
    out
}

/// The values that a key accepts, in words.
pub(crate) fn value(holds: Holds) -> String {
    match holds {
        Holds::Value(Kind::Span) => SPAN_UNITS.replacen("units of", "a", 1),
        Holds::PositiveSpan => format!("{}; above zero", SPAN_UNITS.replacen("units of", "a", 1)),
        Holds::Value(Kind::Rate) => {
            format!("a rate up to {RATE_MAX}, or `unlimited`; {RATE_UNITS}")
        }
        Holds::FiniteRate => format!("a rate up to {RATE_MAX}; {RATE_UNITS}"),
        Holds::Value(Kind::Bytes) => SIZE_UNITS.replacen("units of", "a", 1),
        Holds::BytesIn { min, max } => format!("a size from {min}B to {max}B; {SIZE_UNITS}"),
        Holds::Value(Kind::Limit) => {
            format!("packets, `20p`, or a size, `64kB`; above zero; {SIZE_UNITS}")
        }
        Holds::Value(Kind::Probability) => "a probability in percent, `0.1%`".into(),
        Holds::Overhead => format!("a size, which may be negative; {SIZE_UNITS}"),
        Holds::Numbers => "numbers of packets, `3, 10-12`".into(),
        Holds::Sizes => {
            format!(
                "a size, `500B`; a range, `80B-740B`; or a mix, `74B x 7, 590B x 4, 1514B x 1`, \
                 for which `imix` is short (`imix-ip` for IP packets); {SIZE_UNITS}"
            )
        }
        Holds::Decimal => "a number".into(),
        Holds::Rows => "a list of lists of numbers".into(),
        Holds::File(_) => "the path of a file, relative to the scenario file".into(),
        Holds::Brief(keys) => {
            let names = suggest::list(keys.iter().map(|k| k.name));
            let first = keys.first().map_or(String::new(), |k| value(k.holds));
            format!("{first}; or a table of {names}")
        }
        Holds::Value(Kind::Count { min, max }) => format!("a whole number from {min} to {max}"),
        Holds::Value(Kind::Choice(words)) => {
            format!("one of {}", suggest::list(words.iter().copied()))
        }
        Holds::Rules => "a rule, or a list of rules".into(),
        Holds::Mask => "parts of a packet".into(),
        Holds::LinkName => "the name of a link".into(),
        Holds::LinkNames => "the name of a link, or a list of names".into(),
        Holds::FlowName => "the name of a flow".into(),
        Holds::Name => "a name".into(),
        Holds::Target => {
            format!(
                "a link, a list of links, `drop`, `pass`, or a table of {}",
                suggest::list(TO.iter().map(|k| k.name))
            )
        }
        Holds::Headers => "a rule with a single value for each field".into(),
        Holds::Entries => "a text".into(),
        Holds::Given => "a table of texts and whole numbers".into(),
        Holds::Settings => "a table of keys, `LINK.KEY`, and their values".into(),
        Holds::Scheduler => {
            format!("a table with the `kind`, {}", suggest::list(registry::all().map(|e| e.kind)))
        }
        Holds::Table(keys) => format!("a table of {}", suggest::list(keys.iter().map(|k| k.name))),
        Holds::Tables(keys) => {
            format!(
                "a table of {}, or a list of such tables",
                suggest::list(keys.iter().map(|k| k.name))
            )
        }
        Holds::Parts => value(Holds::Named(crate::keys::PART)),
        Holds::Named(keys) => {
            format!("tables with names, each of {}", suggest::list(keys.iter().map(|k| k.name)))
        }
    }
}

fn default(key: &Key, markdown: bool) -> String {
    match key.fallback {
        Fallback::Required => "none, it is required".into(),
        Fallback::Value(text) if markdown => format!("`{text}`"),
        Fallback::Value(text) | Fallback::Otherwise(text) => text.into(),
    }
}

/// An example of a key, within its table.
fn example(topic: &Topic) -> String {
    let key = &topic.key;
    let set = format!("{} = {}", key.name, sample(key, topic.of.is_some()));
    let header = topic
        .table
        .header
        .replace("NAME", "uplink")
        .replace("FLOW", "voice")
        .replace("PART", "calls");
    match (topic.table.word, key.holds, topic.of) {
        ("", _, _) if matches!(key.holds, Holds::Table(_)) => {
            format!("[{}]\nduration = \"30s\"", key.name)
        }
        ("", Holds::Tables(crate::keys::CHANGE), _) | ("change", _, _) => {
            let [every, until] = ["every", "until"].map(|name| key.name == name);
            let more = match every || until {
                true => "\nevery = \"2s\"\nuntil = \"60s\"",
                false => "",
            };
            format!("[[change]]\nat = \"10s\"\nset = {{ \"uplink.rate\" = \"5mbit\" }}{more}")
        }
        ("", Holds::Tables(_), _) => {
            format!("[[{}]]\nmatch = \"tcp dport 80,443\"\nto = \"uplink\"", key.name)
        }
        ("", _, _) if key.name == "table" => {
            "[table.customers]\n\"10.1.0.0/16\" = \"uplink\"".into()
        }
        ("table", _, _) => "[table.customers]\n\"10.1.0.0/16\" = \"uplink\"".into(),
        ("to", _, _) if key.name == "by" => "to = { table = \"customers\", by = \"dst\" }".into(),
        ("to", _, _) => format!("to = {{ {set} }}"),
        ("", Holds::Named(crate::keys::HOST), _) => "[host.laptop]\nlink = \"uplink\"".into(),
        ("", _, _) => format!("[{}.uplink]\nrate = \"100mbit\"", key.name),
        ("link", Holds::Table(_), _) => format!("[link.uplink.{}]\nrate = \"10mbit\"", key.name),
        ("link", Holds::Named(_), _) => {
            "[link.uplink.flow.voice]\nmatch = \"udp dport 5004\"".into()
        }
        ("flow", Holds::Parts, _) => {
            "[link.uplink.flow.voice.flow.calls]\nmatch = \"udp dport 5004\"".into()
        }
        ("part", Holds::Parts, _) => {
            "[link.uplink.flow.voice.flow.calls.flow.home]\nmatch = \"src 10.1.0.0/16\"".into()
        }
        ("scheduler", _, None) => format!("scheduler = {{ {set} }}"),
        ("scheduler", Holds::Given, Some(entry)) => {
            format!(
                "scheduler = {{ kind = \"{}\", library = \"./libmine.so\", {set} }}",
                entry.kind
            )
        }
        ("scheduler", _, Some(entry)) => {
            format!("scheduler = {{ kind = \"{}\", {set} }}", entry.kind)
        }
        ("requires", _, _) => format!("requires = {{ {set} }}"),
        ("queue", _, _) => crate::link::queue::example(key.name).to_owned(),
        (word, _, _) if is_brief(word) => match impairments::example(word, key.name) {
            Some(example) => example.to_owned(),
            None => with_first(word, topic.table.keys, key, &set),
        },
        ("envelope", _, _) => format!("envelope = {}", inline(topic.table.keys)),
        ("traffic", _, _) => format!("[traffic.calls]\n{set}"),
        ("host", _, _) => format!("[host.laptop]\n{set}"),
        _ => format!("{header}\n{set}"),
    }
}

/// Returns true if a direction has a key of this name that holds a table or a single value.
fn is_brief(word: &str) -> bool {
    keys::direction(word).is_some_and(|key| matches!(key.holds, Holds::Brief(_)))
}

/// An inline table with its first key, if that is not `key`, and the assignment `set` of `key`.
fn with_first(word: &str, keys: &[Key], key: &Key, set: &str) -> String {
    match keys.first().filter(|first| first.name != key.name) {
        Some(first) => format!("{word} = {{ {} = {}, {set} }}", first.name, sample(first, false)),
        None => format!("{word} = {{ {set} }}"),
    }
}

/// The page of the scenario file, `docs/reference/scenario.md`.
pub fn markdown() -> String {
    let mut out = String::from(
        "# The scenario file\n\n\
         <!-- Made by `falaj explain --reference`; a test fails where it is not up to date. -->\n\n\
         `falaj explain KEY` prints the same text in a terminal, and `falaj schema` prints a JSON Schema for editors.\n\
         Quantities are strings with a unit. Times: ns, us, ms, s, min, h. Rates in bits per second: bit, kbit, mbit, gbit, tbit;\n\
         in bytes per second: B/s, kB/s, MB/s, GB/s. Sizes: B, kB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024).\n\
         Limits of queues: a size, or a number of packets, `20p`.\n",
    );
    for table in TABLES {
        let header =
            if table.word.is_empty() { "The file".into() } else { format!("`{}`", table.header) };
        line(&mut out, format_args!("\n## {header}\n\n{}.\n", capital(table.doc)));
        keys_table(&mut out, table.keys.iter().copied());
    }
    out.push_str(
        "\n## Rules\n\nA rule is one or more terms, all of which must match; the value of `match` is a rule, or a list of rules of which one must match.\n\n",
    );
    out.push_str("| term | meaning |\n|---|---|\n");
    for (term, doc) in TERMS {
        line(&mut out, format_args!("| `{term}` | {} |", cell(doc)));
    }
    out.push_str(
        "\n## Masks\n\nA `mask` is one or more fields of a packet; packets with equal values in all of them share a queue or a link.\n\n\
         | field | meaning |\n|---|---|\n",
    );
    for (part, doc) in PARTS {
        line(&mut out, format_args!("| `{part}` | {} |", cell(doc)));
    }
    out.push_str(
        "\n## Disciplines\n\nEach discipline has keys of its own for the scheduler and for each flow: [Disciplines](disciplines.md).\n",
    );
    out
}

/// The page of the disciplines, `docs/reference/disciplines.md`.
pub fn disciplines() -> String {
    let mut out = String::from(
        "# Disciplines\n\n\
         <!-- Made by `falaj explain --reference=disciplines`; a test fails where it is not up to date. -->\n\n\
         The values of `kind` in a `scheduler`. `falaj explain NAME` prints the same text in a terminal,\n\
         and `falaj plan` computes the guarantee of each flow, with its formula.\n\n\
         Steps: the cost of enqueuing and dequeuing a packet, where `N` flows have packets. Instructions: those that the discipline adds\n\
         to a plain list of packets, for each packet enqueued and dequeued, with 256 flows of 20 packets each; they are\n\
         [counted](../instructions.toml), and the same on every machine. ns: nanoseconds of CPU time under the same load, minus those of\n\
         the list, [measured](../nanoseconds.toml)\n",
    );
    line(
        &mut out,
        format_args!(
            "on {} ({}), {}, with `falaj bench sched --record`; [Benchmarks](../benchmarks.md) have more flows and loads. Property tests\n\
             attack the guarantees.\n\n\
             | discipline | how it works | source | steps | instructions | ns | guarantee to a flow | source of the bound |\n|---|---|---|---|---|---|---|---|",
            costs::measured("machine"),
            costs::measured("compiler"),
            costs::measured("day")
        ),
    );
    for entry in registry::all() {
        let (steps, guarantee, whose) = (entry.cost, entry.guarantee, entry.guarantee_source);
        let counted = costs::instructions(entry.kind).map_or("—".into(), |n| n.to_string());
        let ns = costs::nanoseconds(entry.kind).unwrap_or("—");
        let (doc, paper) = (cell(entry.doc), cell(entry.source));
        line(
            &mut out,
            format_args!(
                "| [`{0}`](#{0}) | {doc} | {paper} | {steps} | {counted} | {ns} | {guarantee} | {whose} |",
                entry.kind
            ),
        );
    }
    nesting(&mut out);
    for entry in registry::all() {
        line(
            &mut out,
            format_args!(
                "\n## `{}`\n\n{}. Source: {}.",
                entry.kind,
                capital(entry.doc),
                entry.source
            ),
        );
        for (what, params) in [
            ("of the scheduler", keys::of_scheduler(entry)),
            ("of each flow", keys::of_flow(entry)),
        ] {
            if params.is_empty() {
                line(&mut out, format_args!("\nNo keys {what}."));
            } else {
                line(&mut out, format_args!("\nKeys {what}:\n"));
                keys_table(&mut out, params.into_iter());
            }
        }
    }
    out
}

/// Writes which disciplines may divide the flows of which other disciplines.
fn nesting(out: &mut String) {
    out.push_str(
        "\n## Disciplines below other disciplines\n\n\
         Every discipline may divide a flow of every other one, [up to eight levels](../how-to/divide.md), except for these pairs. The table is made by\n\
         building all pairs, so it agrees with `falaj check`.\n\n\
         | above | below | reason |\n|---|---|---|\n",
    );
    for (above, below, why) in nesting::refused() {
        line(out, format_args!("| {above} | {below} | {} |", cell(&why)));
    }
    let (above, below) = nesting::guaranteed();
    line(
        out,
        format_args!(
            "\nA plug-in that examines arrivals cannot divide its flows; any plug-in may divide a flow of another discipline. Parts have a guarantee with one of {above} above,\n\
             which keep a rate over any interval, and one of {below} below. Otherwise they have none, and `falaj plan` reports it."
        ),
    );
}

fn keys_table(out: &mut String, keys: impl Iterator<Item = Key>) {
    out.push_str("| key | meaning | value | default |\n|---|---|---|---|\n");
    for key in keys {
        let value = match key.holds {
            Holds::Value(Kind::Span) => "a time".into(),
            Holds::PositiveSpan => "a time above zero".into(),
            Holds::Value(Kind::Rate) => format!("a rate up to `{RATE_MAX}`, or `unlimited`"),
            Holds::FiniteRate => format!("a rate up to `{RATE_MAX}`"),
            Holds::Value(Kind::Bytes) => "a size".into(),
            Holds::BytesIn { min, max } => format!("a size from `{min}B` to `{max}B`"),
            Holds::Value(Kind::Limit) => "packets or a size, above zero".into(),
            Holds::Table(_) | Holds::Named(_) if FILE.iter().any(|k| k.name == key.name) => {
                "tables, see below".into()
            }
            holds => value(holds),
        };
        line(
            out,
            format_args!(
                "| `{}` | {} | {} | {} |",
                key.name,
                cell(key.doc),
                cell(&value),
                cell(&default(&key, true))
            ),
        );
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// Writes `  what      text`; further lines of the text are aligned below its first line.
fn row(out: &mut String, what: &str, text: &str) {
    let mut what = what;
    for part in text.split('\n') {
        let whole = format!("  {what:<10} {part}");
        line(out, format_args!("{}", whole.trim_end()));
        what = "";
    }
}

fn line(out: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a string never fails.
    let _ = writeln!(out, "{text}");
}
