//! Reads a table of the file: its keys, as described in `crate::keys`.

mod brief;
mod file;
mod given;
mod value;

use crate::diagnostics::Problem;
use crate::keys::{self, Fallback, Holds, Key};
use crate::mask::MaskText;
use crate::suggest::{self, quoted};
use crate::units::{self};
use falaj_engine::classifier::Match;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{Given, Kind, Value, Values};
use falaj_sched::registry;
use falaj_traffic::source::size::Sizes;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(crate) use brief::{BriefTable, Kind as TableKind};
pub(crate) use file::read_file;
pub(crate) use value::part_of;
use value::{advice, datum};

/// The value of a key, as read from the file.
#[derive(Clone)]
pub(crate) enum Datum<'a> {
    Value(Value),
    Rules(Vec<Match>),
    Mask(MaskText),
    Name(&'a str),
    /// A value of any type. The caller checks its type, and reports errors.
    Raw(&'a Spanned<DeValue<'a>>),
    /// Names, each with its place.
    Names(Vec<(&'a str, Range<usize>)>),
    Numbers(Vec<RangeInclusive<u64>>),
    Sizes(Sizes),
    Decimal(f64),
    Rows(Vec<Vec<f64>>),
    Signed(i32),
    /// The values for a plug-in.
    Given(Vec<Given>),
    /// A table. The caller reads its contents.
    Table(&'a DeTable<'a>),
    /// One table or several, each with its place.
    Tables(Vec<(&'a DeTable<'a>, Range<usize>)>),
}

/// A key that the file has.
pub(crate) struct Field<'a> {
    pub(crate) key: Key,
    pub(crate) name_at: Range<usize>,
    pub(crate) at: Range<usize>,
    /// The key's value; `None` if it could not be read, which was reported.
    pub(crate) datum: Option<Datum<'a>>,
}

/// The keys of one table that the file has.
pub(crate) struct Fields<'a> {
    /// Place of the table's header, at which missing keys are reported.
    pub(crate) at: Range<usize>,
    /// The table's name in messages, such as `` flow `voice` ``.
    pub(crate) what: String,
    found: Vec<Field<'a>>,
    /// Keys that were probably meant where the file has an unknown key. They are not reported as
    /// missing.
    misspelt: Vec<&'static str>,
}

/// A key's value, as given in the file or by default.
pub(crate) enum Got<'a> {
    /// The file has a value.
    Given(Datum<'a>),
    /// The file has no value, and this is the default.
    Default(Datum<'a>),
    /// The file has no value, and the default is a behavior described in words.
    Absent,
    /// The value is wrong or missing, which was reported.
    Wrong,
}

impl<'a> Fields<'a> {
    /// A table without keys, for a table that the file does not have.
    pub(crate) fn none(at: Range<usize>, what: String) -> Fields<'a> {
        Fields { at, what, found: Vec::new(), misspelt: Vec::new() }
    }

    /// Sets the place of all fields to one place of the file.
    pub(crate) fn placed(mut self, at: &Range<usize>) -> Fields<'a> {
        self.at = at.clone();
        self.found.iter_mut().for_each(|f| (f.name_at, f.at) = (at.clone(), at.clone()));
        self
    }

    /// Copies a field of another table, under another key.
    pub(crate) fn adopt(&mut self, field: &Field<'a>, key: &Key) {
        let Field { name_at, at, datum, .. } = field;
        self.found.push(Field {
            key: *key,
            name_at: name_at.clone(),
            at: at.clone(),
            datum: datum.clone(),
        });
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field<'a>> {
        self.found.iter().find(|f| f.key.name == name)
    }

    /// Returns true if the table has the key `name`, or an unknown key that probably means `name`.
    pub(crate) fn means(&self, name: &str) -> bool {
        self.field(name).is_some() || self.misspelt.contains(&name)
    }

    /// The table under `name`, with its field.
    pub(crate) fn table(&self, name: &str) -> Option<(&'a DeTable<'a>, &Field<'a>)> {
        let field = self.field(name)?;
        match field.datum {
            Some(Datum::Table(table)) => Some((table, field)),
            _ => None,
        }
    }
}

/// Reads `table`, whose keys are `keys`, and reports its errors. Keys in `elsewhere` are allowed
/// too, but are not read here.
pub(crate) fn fields<'a>(
    table: &'a DeTable<'a>,
    at: Range<usize>,
    what: impl Into<String>,
    keys: &[Key],
    elsewhere: &[Key],
    problems: &mut Vec<Problem>,
) -> Fields<'a> {
    let mut out = Fields { at, what: what.into(), found: Vec::new(), misspelt: Vec::new() };
    for (name, value) in table {
        let text: &str = name.get_ref();
        if let Some(key) = keys.iter().find(|k| k.name == text) {
            let datum = datum(key, value, problems);
            out.found.push(Field { key: *key, name_at: name.span(), at: value.span(), datum });
        } else if !elsewhere.iter().any(|k| k.name == text) {
            let all = || keys.iter().chain(elsewhere);
            if let Some(new) = keys::present(text).filter(|new| all().any(|k| k.name == *new)) {
                let given = table.contains_key(new);
                problems.push(renamed(text, name.span(), &out.what, new, given));
                out.misspelt.push(new);
                continue;
            }
            let near = suggest::nearest(text, all().map(|k| k.name));
            problems.push(unknown(text, name.span(), &out.what, all(), near));
            out.misspelt.extend(near);
        }
    }
    out
}

/// The error for a key with its former name; `given` is true if the table has the present name,
/// too.
fn renamed(name: &str, at: Range<usize>, what: &str, new: &str, given: bool) -> Problem {
    let problem = Problem::error(at, format!("{what} has no key {}", quoted(name)));
    if given {
        return problem.label(format!("its name is now `{new}`, which the table has, too"));
    }
    problem
        .label(format!("its name is now `{new}`"))
        .help("`falaj fmt --upgrade FILE` replaces the former names of all keys")
}

fn unknown<'k>(
    name: &str,
    at: Range<usize>,
    what: &str,
    keys: impl Iterator<Item = &'k Key>,
    near: Option<&str>,
) -> Problem {
    let mut names: Vec<&str> = keys.map(|k| k.name).collect();
    names.sort_unstable();
    names.dedup();
    let mut problem = Problem::error(at, format!("{what} has no key {}", quoted(name)));
    if let Some(near) = near {
        problem = problem.label(format!("did you mean `{near}`?"));
    }
    let kinds = |has: fn(&Manifest) -> Vec<Key>| -> Vec<&str> {
        registry::all().filter(|e| has(e).iter().any(|p| p.name == name)).map(|e| e.kind).collect()
    };
    let (flows, schedulers) = (kinds(keys::of_flow), kinds(keys::of_scheduler));
    if !flows.is_empty() {
        problem = problem.help(format!("`{name}` is for flows of {}", of_schedulers(flows)));
    }
    if what.starts_with("link ") && keys::FLOW.iter().any(|key| key.name == name) {
        problem = problem.help(format!("flows have it: `{name} = …` in `[link.NAME.flow.NAME]`"));
    }
    if !schedulers.is_empty() {
        let example = format!("scheduler = {{ kind = \"{}\", {name} = … }}", schedulers[0]);
        problem =
            problem.help(format!("`{name}` is for {}: `{example}`", of_schedulers(schedulers)));
    }
    problem.help(format!("allowed: {}", suggest::list(names)))
}

/// The schedulers in words, as in "the scheduler `drr`" or "the schedulers `drr`, `wrr`".
fn of_schedulers(kinds: Vec<&str>) -> String {
    format!("the scheduler{} {}", if kinds.len() == 1 { "" } else { "s" }, suggest::list(kinds))
}

/// The value of `key` in the first of `tables` that has it, or its default.
pub(crate) fn get<'a>(tables: &[&Fields<'a>], key: &Key, problems: &mut Vec<Problem>) -> Got<'a> {
    for table in tables {
        if let Some(field) = table.field(key.name) {
            return match &field.datum {
                Some(datum) => Got::Given(datum.clone()),
                None => Got::Wrong,
            };
        }
    }
    if tables.iter().any(|t| t.misspelt.contains(&key.name)) {
        return Got::Wrong;
    }
    match (key.fallback, key.holds) {
        (Fallback::Value(text), Holds::Value(kind)) => {
            units::parse_value(kind, text).map_or(Got::Absent, |v| Got::Default(Datum::Value(v)))
        }
        (Fallback::Value(text), Holds::BytesIn { .. }) => units::parse_value(Kind::Bytes, text)
            .map_or(Got::Absent, |v| Got::Default(Datum::Value(v))),
        (Fallback::Value(text), Holds::PositiveSpan) => units::parse_value(Kind::Span, text)
            .map_or(Got::Absent, |v| Got::Default(Datum::Value(v))),
        (Fallback::Value(_) | Fallback::Otherwise(_), _) => Got::Absent,
        (Fallback::Required, _) => {
            // A missing key is reported for the last table, which the other tables override.
            if let Some(table) = tables.last() {
                problems.push(
                    Problem::error(
                        table.at.clone(),
                        format!("{} lacks `{}`", table.what, key.name),
                    )
                    .help(format!(
                        "`{}`: {}; {}",
                        key.name,
                        key.doc,
                        advice(key)
                    )),
                );
            }
            Got::Wrong
        }
    }
}

/// The value of the key `by`, a word that decides which other keys of `all` the table accepts;
/// `None` if it could not be read, which was reported.
pub(crate) fn deciding(
    table: &DeTable<'_>,
    at: &Range<usize>,
    what: &str,
    by: &Key,
    all: &[Key],
    problems: &mut Vec<Problem>,
) -> Option<&'static str> {
    let word = |problems: &mut Vec<Problem>| {
        let alone = fields(table, at.clone(), what, &[*by], all, problems);
        match get(&[&alone], by, problems) {
            Got::Given(Datum::Value(Value::Choice(word)))
            | Got::Default(Datum::Value(Value::Choice(word))) => Some(word),
            _ => None,
        }
    };
    // If the word can be read, errors are dropped here: the caller reads the table again, with the
    // keys that the word selects, and reports them.
    word(&mut Vec::new()).or_else(|| word(problems))
}

/// Reads the values of `keys`, such as the parameters of a discipline. Returns `None` after an
/// error, which was reported.
pub(crate) fn values(
    tables: &[&Fields<'_>],
    keys: impl Iterator<Item = Key>,
    problems: &mut Vec<Problem>,
) -> Option<Values> {
    let mut out = Values::default();
    let mut whole = true;
    for key in keys {
        match get(tables, &key, problems) {
            Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => {
                out.set(key.name, value);
            }
            Got::Given(Datum::Given(given)) => out.give(given),
            // The file is checked when the library is loaded.
            Got::Given(Datum::Name(_)) if matches!(key.holds, Holds::File(_)) => {}
            Got::Absent => {}
            _ => whole = false,
        }
    }
    whole.then_some(out)
}

/// Reports a name that would not fit where names are used: in tables on screens, and in file names.
pub(crate) fn name_is_fit(name: &str, at: Range<usize>, of: &str, problems: &mut Vec<Problem>) {
    let fit = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.chars().count() > 64 || !name.chars().all(fit) {
        problems.push(
            Problem::error(at, format!("{} cannot be the name of a {of}", quoted(name)))
                .help("a name has 1 to 64 letters, digits, `-`, `_` or `.`"),
        );
    }
}

pub(crate) fn not_a_table(of: &str, name: &str, at: Range<usize>, example: &str) -> Problem {
    Problem::error(at, format!("{of} {} has to be a table", quoted(name)))
        .help(format!("write `{{ {example}, … }}`"))
}
