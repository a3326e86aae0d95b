//! Scheduled changes: settings as `falaj set` accepts them, each at a given time of the run.
//!
//! All settings of one instant are one change of the scenario's text, and the ordinary parser reads
//! the changed text. Changes that repeat for ever lead to a cycle of scenarios. So even an endless
//! run has a limited number of scenarios, and each is checked beforehand.

use crate::diagnostics::{Diagnostics, Problem, Severity};
use crate::edit::{Edit, Set, parse_set_or_unset, without_changes};
use crate::keys;
use crate::link::Traces;
use crate::model::{Scenario, Source, Towards};
use crate::parse::parse_with;
use crate::read::{Datum, Got, fields, get};
use crate::schedule::{Schedule, ScheduledChange};
use falaj_sched::contract::params::Value;
use falaj_sched::units::time::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_edit::DocumentMut;

/// A table `[[change]]`.
struct ChangeEntry {
    at: Span,
    every: Option<Span>,
    until: Option<Span>,
    sets: Vec<Placed>,
    /// The place of the entry's `set` in the file.
    place: Range<usize>,
}

/// A setting and its place in the file.
struct Placed {
    set: Set,
    place: Range<usize>,
}

/// The text of a file and its scenario, to which the changes apply.
pub(crate) struct Original<'a> {
    pub(crate) text: &'a str,
    pub(crate) file_name: &'a str,
    /// The traces that were read for the scenario.
    pub(crate) traces: &'a Traces,
    /// The scenario without its changes.
    pub(crate) scenario: Scenario,
}

/// Reads all tables `[[change]]`, and returns the scenario with its changes; `None` if there was an
/// error, which is then in `problems`. Without an `original` it only checks the tables themselves,
/// and returns `None`.
pub(crate) fn read(
    all: &[(&DeTable<'_>, Range<usize>)],
    text: &str,
    original: Option<Original<'_>>,
    problems: &mut Vec<Problem>,
) -> Option<Scenario> {
    let entries: Vec<Option<ChangeEntry>> =
        all.iter().map(|(table, at)| entry(table, at, text, problems)).collect();
    let entries = entries.into_iter().collect::<Option<Vec<ChangeEntry>>>()?;
    let original = original?;
    let changes = Planner::new(&original, &entries, problems).schedule()?;
    Some(Scenario { changes, ..original.scenario })
}

fn entry(
    table: &DeTable<'_>,
    at: &Range<usize>,
    text: &str,
    problems: &mut Vec<Problem>,
) -> Option<ChangeEntry> {
    let fields = fields(table, at.clone(), "the change", keys::CHANGE, &[], problems);
    let mut time = |name: &str| {
        let key = keys::CHANGE.iter().find(|key| key.name == name).ok_or(())?;
        match get(&[&fields], key, problems) {
            Got::Given(Datum::Value(Value::Span(span))) => Ok(Some(span)),
            Got::Absent => Ok(None),
            _ => Err(()),
        }
    };
    let (at, every, until) = (time("at"), time("every"), time("until"));
    let key = keys::CHANGE.iter().find(|key| key.name == "set")?;
    let set = match get(&[&fields], key, problems) {
        Got::Given(Datum::Raw(value)) => value,
        _ => return None,
    };
    let mut sets = Some(Vec::new());
    settings(set, "", text, &mut sets, problems);
    let sets = sets?;
    if sets.is_empty() {
        problems.push(
            Problem::error(set.span(), "the change sets nothing")
                .help("write a key and its value, as in `set = { \"uplink.rate\" = \"5mbit\" }`"),
        );
        return None;
    }
    let (at, every, until) = (at.ok()??, every.ok()?, until.ok()?);
    if let (Some(until), Some(field)) = (until, fields.field("until")) {
        let problem = match every {
            None => Problem::error(field.at.clone(), "`until` is for a change that repeats")
                .help("add `every`, as in `every = \"2s\"`"),
            Some(_) if until < at => {
                Problem::error(field.at.clone(), "`until` is before the change itself")
                    .help(format!("the first change is at {at}"))
            }
            Some(_) => {
                return Some(ChangeEntry {
                    at,
                    every,
                    until: Some(until),
                    sets,
                    place: set.span(),
                });
            }
        };
        problems.push(problem);
        return None;
    }
    Some(ChangeEntry { at, every, until, sets, place: set.span() })
}

/// Reads the settings below `prefix`: `uplink.rate = "5mbit"` is one setting, whether its key is in
/// quotes or not.
fn settings(
    value: &Spanned<DeValue<'_>>,
    prefix: &str,
    text: &str,
    sets: &mut Option<Vec<Placed>>,
    problems: &mut Vec<Problem>,
) {
    let DeValue::Table(table) = value.get_ref() else { return };
    for (name, value) in table {
        let key = [prefix, name.get_ref()].concat();
        let literal = text.get(value.span()).unwrap_or_default();
        let written = match value.get_ref() {
            DeValue::Table(_) if !literal.starts_with('{') => {
                settings(value, &format!("{key}."), text, sets, problems);
                continue;
            }
            DeValue::String(bare) if crate::edit::value(bare).as_str() == Some(bare) => bare,
            _ => literal,
        };
        match parse_set_or_unset(&format!("{key}={written}")) {
            Ok(set) => {
                let place = value.span();
                sets.iter_mut().for_each(|sets| {
                    sets.push(Placed { set: set.clone(), place: place.clone() });
                });
            }
            Err(what) => {
                *sets = None;
                problems.push(Problem::error(name.span(), what));
            }
        }
    }
}

/// The settings of one instant in words, and the index of the scenario to which they lead.
type ScheduleStep = (Arc<[String]>, usize);

/// Computes the scenarios to which the changes lead.
struct Planner<'a> {
    original: &'a Original<'a>,
    entries: &'a [ChangeEntry],
    problems: &'a mut Vec<Problem>,
    /// The scenarios found so far with their texts; the first scenario is that of the file.
    scenarios: Vec<(Arc<Scenario>, Arc<str>)>,
    numbers: BTreeMap<Arc<str>, usize>,
    /// For the index of a scenario and the indices of entries: the change that these entries make
    /// in this scenario.
    steps: BTreeMap<(usize, Vec<usize>), ScheduleStep>,
    /// True if a change was refused.
    refused: bool,
}

impl<'a> Planner<'a> {
    fn new(
        original: &'a Original<'a>,
        entries: &'a [ChangeEntry],
        problems: &'a mut Vec<Problem>,
    ) -> Planner<'a> {
        let text: Arc<str> = without_changes(original.text).into();
        Planner {
            scenarios: vec![(Arc::new(original.scenario.clone()), Arc::clone(&text))],
            original,
            entries,
            problems,
            numbers: BTreeMap::from([(text, 0)]),
            steps: BTreeMap::new(),
            refused: false,
        }
    }

    fn schedule(mut self) -> Option<Schedule> {
        // The instant at which each entry is due next, with the entry's index, in the order of
        // instants.
        let mut next: BTreeSet<(Span, usize)> =
            self.entries.iter().enumerate().map(|(n, entry)| (entry.at, n)).collect();
        // After this time, only changes without an end remain, each with its own period.
        let settled = self.entries.iter().map(|e| e.until.unwrap_or(e.at)).max()?;
        let endless = self.entries.iter().filter(|entry| entry.until.is_none());
        let period = endless.filter_map(|entry| entry.every).map(|every| u128::from(every.0));
        let period = period.reduce(least_common_multiple);
        let mut boundary = u128::from(settled.0);
        let (mut changes, mut now, mut cycle) = (Vec::new(), 0, None);
        // The number of changes and the index of the scenario at the beginning of the present
        // cycle.
        let mut began: Option<(usize, usize)> = None;
        while let Some(&(at, _)) = next.first() {
            if let Some(period) = period.filter(|_| u128::from(at.0) > boundary) {
                if let Some((from, _)) = began.filter(|(_, scenario)| *scenario == now) {
                    cycle = u64::try_from(period).ok().map(|period| (from, Span(period)));
                    break;
                }
                began = Some((changes.len(), now));
                boundary += period;
            }
            let due: Vec<usize> =
                next.iter().take_while(|(other, _)| *other == at).map(|&(_, n)| n).collect();
            if changes.len() == keys::CHANGES_MAX {
                self.too_many(&due);
                return None;
            }
            for &n in &due {
                let ChangeEntry { every, until, .. } = self.entries[n];
                let again = every.and_then(|every| Some(Span(at.0.checked_add(every.0)?)));
                next.remove(&(at, n));
                let again = again.filter(|again| until.is_none_or(|until| *again <= until));
                next.extend(again.map(|again| (again, n)));
            }
            let (sets, scenario) = self.step(now, due, at);
            now = scenario;
            let scenario = Arc::clone(&self.scenarios[now].0);
            changes.push(ScheduledChange { at, sets, scenario });
            if self.refused && self.problems.len() > Diagnostics::MOST {
                break;
            }
        }
        (!self.refused).then(|| Schedule::new(changes, cycle))
    }

    fn too_many(&mut self, due: &[usize]) {
        let place = due.first().map_or(0..0, |&n| self.entries[n].place.clone());
        self.problems.push(
            Problem::error(place, format!("more than {} changes", keys::CHANGES_MAX)).help(
                "write a longer `every`, or an earlier `until`; without `until`, changes repeat \
                 with the least common multiple of their periods",
            ),
        );
    }

    /// The change that these entries make in this scenario.
    fn step(&mut self, now: usize, due: Vec<usize>, at: Span) -> ScheduleStep {
        if let Some(known) = self.steps.get(&(now, due.clone())) {
            return known.clone();
        }
        let sets: Vec<&Placed> = due.iter().flat_map(|&n| &self.entries[n].sets).collect();
        let then = self.change(now, &sets, at).unwrap_or_else(|problems| {
            self.refused = true;
            self.problems.extend(problems);
            now
        });
        let words = sets.iter().map(|placed| placed.set.text.clone()).collect();
        self.steps.entry((now, due)).or_insert((words, then)).clone()
    }

    /// The index of the scenario after these settings.
    fn change(&mut self, now: usize, sets: &[&Placed], at: Span) -> Result<usize, Vec<Problem>> {
        let (before, text) = self.scenarios[now].clone();
        let text = edited(&text, sets)?;
        if let Some(&known) = self.numbers.get(&text[..]) {
            self.fits(&before, &Arc::clone(&self.scenarios[known].0), sets)?;
            return Ok(known);
        }
        let whole = || {
            let ends = (sets.first(), sets.last());
            let (Some(first), Some(last)) = ends else { return 0..0 };
            first.place.start..last.place.end.max(first.place.end)
        };
        let (scenario, notes) = match self.parse(&text) {
            Ok(read) => read,
            Err(errors) => {
                let errors = errors.problems().iter().filter(|p| p.severity == Severity::Error);
                let errors = errors.map(|error| {
                    let place = self.cause(now, sets, &error.title).unwrap_or_else(whole);
                    placed(error, place, at)
                });
                return Err(errors.collect());
            }
        };
        self.fits(&before, &scenario, sets)?;
        for note in notes.problems() {
            if !self.problems.iter().any(|known| known.title == note.title) {
                self.problems.push(placed(note, whole(), at));
            }
        }
        let text: Arc<str> = text.into();
        self.numbers.insert(Arc::clone(&text), self.scenarios.len());
        self.scenarios.push((Arc::new(scenario), text));
        Ok(self.scenarios.len() - 1)
    }

    fn parse(&self, text: &str) -> Result<(Scenario, Diagnostics), Diagnostics> {
        parse_with(text, self.original.file_name, self.original.traces)
    }

    /// The place of the setting that causes this error: without the setting, the scenario does not
    /// have the error.
    fn cause(&self, now: usize, sets: &[&Placed], title: &str) -> Option<Range<usize>> {
        let text = &self.scenarios[now].1;
        let without = |n: usize| {
            let others: Vec<&Placed> =
                sets.iter().enumerate().filter(|(i, _)| *i != n).map(|(_, set)| *set).collect();
            let text = edited(text, &others).ok()?;
            self.parse(&text).err()
        };
        let has = |errors: Diagnostics| errors.problems().iter().any(|p| p.title == title);
        let cause = (0..sets.len()).find(|&n| !without(n).is_some_and(has))?;
        Some(sets[cause].place.clone())
    }

    /// Checks that a run can continue with this scenario.
    fn fits(
        &self,
        before: &Scenario,
        then: &Scenario,
        sets: &[&Placed],
    ) -> Result<(), Vec<Problem>> {
        let place = sets.first().map_or(0..0, |set| set.place.clone());
        let problem = |title: &str, help: &str| Err(vec![Problem::error(place, title).help(help)]);
        if names(before) != names(then) {
            return problem(
                "a scheduled change adds, removes or moves a link, a flow or a rule",
                "declare all of them from the start; `falaj set` adds and removes them while a \
                 link runs",
            );
        }
        let sources = |scenario: &Scenario| -> Vec<Source> {
            let of = |source: &Source| Source { link: 0, flow: 0, ..source.clone() };
            scenario.traffic.iter().map(of).collect()
        };
        let others = (before.run, &before.hosts) != (then.run, &then.hosts);
        if others || sources(before) != sources(then) {
            return problem(
                "a scheduled change can set keys of links, flows and rules only",
                "sources of traffic, hosts and `[run]` keep their keys: a source begins and ends \
                 by its `start` and `stop`",
            );
        }
        let largest = |scenario: &Scenario| -> Vec<u32> {
            let ways = scenario.links.iter().flat_map(|link| [&link.up, &link.down]);
            ways.map(|way| way.pipe.setup.largest).collect()
        };
        if largest(before).iter().zip(largest(then)).any(|(before, then)| then < *before) {
            return problem(
                "the change makes a link's largest packet smaller, and larger packets may be queued",
                "keep `mtu`, `layer`, `overhead` and `cells`, or choose values with which packets \
                 count as no fewer bytes",
            );
        }
        Ok(())
    }
}

/// The names of links, flows and rules, in their order.
fn names(scenario: &Scenario) -> Vec<Vec<&str>> {
    let flows = |way: Towards| {
        scenario.links.iter().map(move |link| {
            let flows = link.direction(way).flows.iter().map(|flow| &flow.name[..]);
            std::iter::once(&link.name[..]).chain(flows).collect()
        })
    };
    let rules = scenario.rules.iter().map(|rule| &rule.name[..]).collect();
    flows(Towards::Up).chain(flows(Towards::Down)).chain([rules]).collect()
}

/// The text with these settings.
fn edited(text: &str, sets: &[&Placed]) -> Result<String, Vec<Problem>> {
    let mut document: DocumentMut = text.parse().unwrap_or_default();
    let mut edit = Edit::new(&mut document);
    for Placed { set, place } in sets {
        edit.set(&set.path, set.value.as_ref()).map_err(|why| {
            vec![Problem::error(place.clone(), format!("`{}`: {why}", set.path.join(".")))]
        })?;
    }
    edit.finish();
    Ok(document.to_string())
}

/// A problem of the changed scenario at the place of the change.
fn placed(problem: &Problem, span: Range<usize>, at: Span) -> Problem {
    let label = Some(problem.label.clone()).filter(|label| !label.is_empty());
    Problem { span, label: label.unwrap_or_else(|| format!("from {at} on")), ..problem.clone() }
}

fn least_common_multiple(a: u128, b: u128) -> u128 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}
