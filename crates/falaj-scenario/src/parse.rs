//! Parses the text of a file into a scenario.

use crate::adapters;
use crate::changes::{self, Original};
use crate::diagnostics::{Diagnostics, Problem, Severity};
use crate::hosts;
use crate::keys;
use crate::link::{self, Known, Traces};
use crate::lints;
use crate::model::{Run, RunTime, Scenario};
use crate::read::{self, Datum, Fields, Got, fields, get};
use crate::routing::rules;
use crate::routing::tables::Tables;
use crate::schedule::Schedule;
use crate::syntax;
use crate::traffic;
use falaj_sched::contract::params::Value;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads a scenario. `file_name` is used in messages; other files that the scenario names are
/// searched in its directory. The result is the scenario and its warnings.
///
/// # Errors
/// All errors and warnings of the file. The function never panics.
pub fn parse(text: &str, file_name: &str) -> Result<(Scenario, Diagnostics), Diagnostics> {
    parse_with(text, file_name, &Traces::default())
}

/// Reads a scenario, whose files may be among those in `traces`.
pub(crate) fn parse_with(
    text: &str,
    file_name: &str,
    traces: &Traces,
) -> Result<(Scenario, Diagnostics), Diagnostics> {
    let (root, errors) = DeTable::parse_recoverable(text);
    let syntax = syntax::judge(text, root.get_ref(), &errors);
    let mut problems = Vec::new();
    // If a bracket is missing, tables may be at wrong places, and their errors would be misleading.
    let scenario = if syntax.sound {
        scenario(root.get_ref(), (text, file_name), traces, &mut problems)
    } else {
        None
    };
    problems
        .retain(|p| !syntax.broken.iter().any(|b| p.span.start <= b.end && b.start <= p.span.end));
    problems.extend(syntax.problems);
    let diagnostics = Diagnostics::new(file_name, text, problems);
    match scenario {
        Some(scenario) if !diagnostics.has_errors() => Ok((scenario, diagnostics)),
        _ => Err(diagnostics),
    }
}

/// The directory of a file.
pub(crate) fn beside(file_name: &str) -> &Path {
    Path::new(file_name).parent().unwrap_or(Path::new(""))
}

fn scenario<'a>(
    root: &'a DeTable<'a>,
    (text, file_name): (&str, &str),
    traces: &Traces,
    problems: &mut Vec<Problem>,
) -> Option<Scenario> {
    let file = fields(root, 0..0, "a scenario", keys::FILE, &[], problems);
    let scenario = without_changes(root, &file, (beside(file_name), traces), problems);
    let all = match file.field("change").map(|field| field.datum.as_ref()) {
        None if !file.means("change") => return scenario,
        Some(Some(Datum::Tables(all))) => all,
        _ => return None,
    };
    let sound = problems.iter().all(|problem| problem.severity == Severity::Warning);
    let original =
        scenario.filter(|_| sound).map(|scenario| Original { text, file_name, traces, scenario });
    changes::read(all, text, original, problems)
}

fn without_changes<'a>(
    root: &'a DeTable<'a>,
    file: &Fields<'a>,
    (beside, traces): (&Path, &Traces),
    problems: &mut Vec<Problem>,
) -> Option<Scenario> {
    let run = run(file, problems);

    let mut links: Vec<Known> = Vec::new();
    let slips = file.table("link").map_or(Vec::new(), |(table, _)| link::slips(table));
    each_table(
        file,
        "link",
        "rate = \"100mbit\"",
        problems,
        |name, table, at, problems| match slips.iter().find(|slip| slip.name == name) {
            Some(slip) => problems.push(slip.problem(at)),
            None => {
                let files = (beside, traces);
                links.push(link::link(name, table, at, &slips, files, problems));
            }
        },
    );
    if links.is_empty() && !file.field("link").map_or(file.means("link"), |f| f.datum.is_none()) {
        problems.push(
            Problem::error(0..0, "a scenario needs a link, and there is none")
                .help("begin with `[link.uplink]`, and on the next line `rate = \"100mbit\"`"),
        );
    }

    let mut tables = Tables::default();
    each(file, "table", problems, |name, value, problems| {
        tables.add(name, value, problems);
    });
    tables.check(root, problems);
    let rules = match file.field("rule").map(|field| field.datum.as_ref()) {
        None if !file.means("rule") => Some(Vec::new()),
        Some(Some(Datum::Tables(all))) => rules::read(all, &links, &tables, problems),
        _ => None,
    };
    if let Some(rules) = &rules {
        lints::routing::rules(rules, &links, problems);
    }
    if let (Some(rules), Some((links, _))) = (&rules, file.table("link")) {
        lints::routing::marks(links, rules, problems);
    }

    let mut sources = Vec::new();
    let known = (&links[..], rules.as_deref());
    each_table(file, "traffic", "model = \"poisson\"", problems, |name, table, at, problems| {
        sources.push(traffic::source(
            name,
            table,
            at,
            known,
            beside,
            run.map(|r| r.duration),
            problems,
        ));
    });
    let read: Vec<_> = sources.iter().flatten().collect();
    for (n, known) in links.iter().enumerate() {
        traffic::counted(n, known, &read, problems);
    }

    if !slips.is_empty() {
        return None;
    }
    let names: Vec<&str> = links.iter().map(|k| k.name.as_str()).collect();
    let mut hosts = hosts::Reader::new(&names);
    each_table(file, "host", "link = \"uplink\"", problems, |name, table, at, problems| {
        hosts.host(name, table, at, problems);
    });
    let hosts = hosts.all(file, problems);
    let mut links = links.into_iter().map(|k| k.link).collect::<Option<Vec<_>>>()?;
    let traffic = sources.into_iter().map(|s| Some(s?.0)).collect::<Option<_>>()?;
    adapters::check(&links, file, problems);
    let run = run?;
    let rules = rules?.into_iter().map(|read| read.rule).collect();
    for direction in links.iter_mut().flat_map(|link| [&mut link.up, &mut link.down]) {
        direction.pipe.seed = run.seed;
        direction.flows.iter_mut().for_each(|flow| tables.resolve(&mut flow.matches));
    }
    let hosts = hosts?;
    Some(Scenario { links, rules, traffic, hosts, changes: Schedule::default(), run })
}

/// Calls `read` for each named table under `key`, with the place of its header.
fn each_table<'a>(
    file: &Fields<'a>,
    key: &str,
    example: &str,
    problems: &mut Vec<Problem>,
    mut read: impl FnMut(&'a str, &'a DeTable<'a>, std::ops::Range<usize>, &mut Vec<Problem>),
) {
    each(file, key, problems, |name, value, problems| match value.get_ref() {
        DeValue::Table(table) => read(name, table, value.span(), problems),
        _ => problems.push(read::not_a_table(key, name, value.span(), example)),
    });
}

/// Calls `read` for each named entry under `key`.
fn each<'a>(
    file: &Fields<'a>,
    key: &str,
    problems: &mut Vec<Problem>,
    mut read: impl FnMut(&'a str, &'a Spanned<DeValue<'a>>, &mut Vec<Problem>),
) {
    let Some((table, _)) = file.table(key) else { return };
    for (name, value) in table {
        let of = if key == "traffic" { "source of traffic" } else { key };
        // Names of hosts are more restricted; `hosts` checks them.
        if key != "host" {
            read::name_is_fit(name.get_ref(), name.span(), of, problems);
        }
        read(name.get_ref(), value, problems);
    }
}

fn run(file: &Fields<'_>, problems: &mut Vec<Problem>) -> Option<Run> {
    let none = Fields::none(0..0, "`[run]`".to_owned());
    let read;
    let table = match file.field("run") {
        None => &none,
        Some(field) => {
            let Some(Datum::Table(table)) = field.datum else { return None };
            read = fields(table, field.at.clone(), "`[run]`", keys::RUN, &[], problems);
            &read
        }
    };
    let mut value = |name: &str| {
        let key = keys::RUN.iter().find(|k| k.name == name)?;
        match get(&[table], key, problems) {
            Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => Some(value),
            _ => None,
        }
    };
    let (duration, seed, replications) = (value("duration"), value("seed"), value("replications"));
    match (duration, seed, replications, value("time")) {
        (
            Some(Value::Span(duration)),
            Some(Value::Count(seed)),
            Some(Value::Count(replications)),
            Some(Value::Choice(time)),
        ) => Some(Run {
            duration,
            seed,
            replications: u32::try_from(replications).ok()?,
            time: RunTime::named(time)?,
        }),
        _ => None,
    }
}
