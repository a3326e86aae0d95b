//! Scripts in which time passes, because they contain `sleep`.
//!
//! The first commands make the scenario. The commands after each `sleep` lead to another scenario,
//! and a `[[change]]` sets the keys that differ. Times count from the first command that makes a
//! link.

use crate::amounts::{self, time};
use crate::args::Args;
use crate::draft::{Draft, Table, key, quote};
use crate::has_errors;
use crate::lines::{self, Word};
use falaj_scenario::Problem;
use std::collections::BTreeSet;
use std::ops::Range;

/// The drafts of a script in the order of time.
#[derive(Default)]
pub(crate) struct Timeline {
    /// The time since the first draft, in nanoseconds.
    now: u64,
    stages: Vec<Stage>,
    /// True if the script ends with a pause without an end.
    is_endless: bool,
    /// Place and title of the warnings that were added to the problems of the script.
    warned: BTreeSet<(usize, String)>,
}

/// A draft, and the time from which it holds.
struct Stage {
    from: u64,
    /// Place of the last command that this draft includes.
    at: Range<usize>,
    draft: Draft,
    /// True if the commands removed all links.
    is_removed: bool,
}

/// Makes the scenario of a script, with its changes. `command` changes the `state` of the host by a
/// command, and `draft` makes the scenario of a state. The result is empty if there is no link. It
/// has no meaning if there is an error.
pub(crate) fn run<S>(
    commands: &[Vec<Word>],
    state: &mut S,
    problems: &mut Vec<Problem>,
    command: impl Fn(&mut S, &[Word], &mut Vec<Problem>) -> Result<(), Problem>,
    draft: impl Fn(&S, &mut Vec<Problem>) -> Draft,
) -> Draft {
    if let Some(problem) = commands.iter().find_map(|words| lines::branches(words)) {
        problems.push(problem);
        return Draft::default();
    }
    let mut timeline = Timeline::default();
    // The place of the last command since the last pause.
    let mut since: Option<Range<usize>> = None;
    for (n, words) in commands.iter().enumerate() {
        let at = Args::new(words).all();
        match pause(words) {
            Ok(None) => {
                if let Err(problem) = command(state, words, problems) {
                    problems.push(problem);
                }
                since = Some(at);
            }
            Ok(Some(FOR_EVER)) => {
                if n + 1 < commands.len() {
                    let what =
                        "the script waits here until it is ended: commands after this are left out";
                    problems.push(Problem::warning(at, what));
                }
                timeline.is_endless = true;
                break;
            }
            Ok(Some(nanos)) => {
                if let Some(at) = since.take() {
                    timeline.add(at, problems, |problems| draft(state, problems));
                }
                timeline.pass(nanos);
            }
            Err(problem) => problems.push(problem),
        }
    }
    if let Some(at) = since {
        timeline.add(at, problems, |problems| draft(state, problems));
    }
    timeline.into_draft(problems)
}

/// Length of a pause without an end, in nanoseconds.
const FOR_EVER: u64 = u64::MAX;

/// The time of a pause, in nanoseconds, if this command is `sleep` or `usleep`.
fn pause(words: &[Word]) -> Result<Option<u64>, Problem> {
    let mut args = Args::new(words);
    args.take("sudo");
    let Some(program) = args.next() else { return Ok(None) };
    let read: fn(&Word) -> Result<u64, Problem> = match program.text.rsplit('/').next() {
        Some("sleep") => amounts::sleep_time,
        Some("usleep") => |word| amounts::whole(word).map(|us| us.saturating_mul(1_000)),
        _ => return Ok(None),
    };
    let mut sum = read(args.value("a time")?)?;
    while let Some(word) = args.next() {
        sum = sum.saturating_add(read(word)?);
    }
    Ok(Some(sum))
}

impl Timeline {
    /// Lets time pass. Time before the first link does not count.
    fn pass(&mut self, nanos: u64) {
        if !self.stages.is_empty() {
            self.now = self.now.saturating_add(nanos);
        }
    }

    /// Adds the state after the command at this place.
    fn add(
        &mut self,
        at: Range<usize>,
        problems: &mut Vec<Problem>,
        draft: impl FnOnce(&mut Vec<Problem>) -> Draft,
    ) {
        if has_errors(problems) {
            return;
        }
        let mut new = Vec::new();
        let mut draft = draft(&mut new);
        new.retain(|problem| self.warned.insert((problem.span.start, problem.title.clone())));
        problems.append(&mut new);
        let is_removed = draft.tables.is_empty();
        match self.stages.last() {
            None if is_removed => return,
            // Packets then pass their link without a discipline.
            Some(before) if is_removed => {
                draft = before.draft.clone();
                draft.tables.retain(|table| is_link(&table.header));
            }
            _ => {}
        }
        self.stages.push(Stage { from: self.now, at, draft, is_removed });
    }

    /// The first draft, with a change to each later one. A script that removes all links in the end
    /// ends the run.
    fn into_draft(mut self, problems: &mut Vec<Problem>) -> Draft {
        let removed = self.stages.pop_if(|stage| stage.is_removed);
        let mut draft = self.stages.first().map_or_else(Draft::default, |s| s.draft.clone());
        let mut changes = Vec::new();
        for stages in self.stages.windows(2) {
            match change(&stages[0], &stages[1]) {
                Ok(change) => changes.extend(change.map(|table| (stages[1].from, table))),
                Err(problem) => {
                    problems.push(problem);
                    return Draft::default();
                }
            }
        }
        draft.tables.extend(repeated(changes, self.is_endless));
        let end = match &removed {
            Some(stage) if stage.from > 0 => {
                let what = "all links end here: this becomes the `duration` of the run";
                problems.push(Problem::warning(stage.at.clone(), what));
                stage.from
            }
            Some(_) => return Draft::default(),
            None if self.is_endless => 0,
            // After its last change the script waits.
            None => match &self.stages[..] {
                [_, .., last] if self.now > last.from => self.now,
                _ => 0,
            },
        };
        if end > 0 {
            let mut run = Table::new("[run]", 0..0);
            run.text("duration", time(end));
            draft.tables.push(run);
        }
        draft
    }
}

/// Largest number of changes in one period that is recognized.
const PERIOD_MAX: usize = 64;

/// Tables of the changes, which come with their times, in the order of time. If all changes repeat
/// one sequence, at least three times in all, one sequence remains, with `every`, and with `until`
/// unless the script has no end.
fn repeated(changes: Vec<(u64, Table)>, is_endless: bool) -> Vec<Table> {
    let all = &changes[..];
    let period = (1..=PERIOD_MAX.min(all.len() / 3)).find_map(|p| {
        let length = all[p].0 - all[0].0;
        let same = |(early, late): (&(u64, Table), &(u64, Table))| {
            late.0 - early.0 == length && late.1.get("set") == early.1.get("set")
        };
        all.iter().zip(&all[p..]).all(same).then_some((p, length))
    });
    let last = all.last().map_or(0, |(at, _)| *at);
    let number = period.map_or(all.len(), |(p, _)| p);
    let table = |(_, mut table): (u64, Table)| {
        if let Some((_, length)) = period {
            table.text("every", time(length));
            if !is_endless {
                table.text("until", time(last));
            }
        }
        table
    };
    changes.into_iter().take(number).map(table).collect()
}

/// The change from a stage to the next one; `None` if they are the same.
fn change(before: &Stage, after: &Stage) -> Result<Option<Table>, Problem> {
    let refused = || {
        let from = time(after.from);
        let what = format!("other links, classes or filters begin {from} after the first link");
        Problem::error(after.at.clone(), what).help(
            "a scheduled change sets keys, and neither adds nor removes tables: import the \
             commands before and after the `sleep` separately",
        )
    };
    let (old, new) = (&before.draft.tables, &after.draft.tables);
    let fixed = |tables: &[Table]| -> Vec<String> {
        let fixed = tables.iter().filter(|table| !is_direction(&table.header));
        fixed.map(|table| table.header.clone()).collect()
    };
    let rules = |tables: &[Table]| -> Vec<Table> {
        tables.iter().filter(|table| table.header == "[[rule]]").cloned().collect()
    };
    if fixed(old) != fixed(new) || rules(old) != rules(new) {
        return Err(refused());
    }
    let mut change = Table::new("[[change]]", after.at.clone());
    let mut sets = Vec::new();
    let none = Table::default();
    let headers: BTreeSet<&str> = old.iter().chain(new).map(|table| &*table.header).collect();
    for header in headers.into_iter().filter(|header| header.starts_with("[link.")) {
        let is_it = |table: &&Table| table.header == header;
        let was = old.iter().find(is_it).unwrap_or(&none);
        let is = new.iter().find(is_it).unwrap_or(&none);
        let path = &header[1..header.len() - 1];
        let differ = is.differences(was);
        if !differ.is_empty() {
            change.comments.extend(is.comments.iter().cloned());
        }
        sets.extend(differ.into_iter().map(|(k, value)| {
            let value = value.unwrap_or("\"\"");
            format!("{} = {value}", quote(&format!("{path}.{}", key(k))))
        }));
    }
    change.text("at", time(after.from));
    change.set("set", format!("{{ {} }}", sets.join(", ")));
    Ok((!sets.is_empty()).then_some(change))
}

/// Returns true for `[link.NAME]`, and false for its directions and flows.
fn is_link(header: &str) -> bool {
    header.starts_with("[link.") && !is_direction(header) && !header.contains(".flow.")
}

/// Returns true for `[link.NAME.up]` and `[link.NAME.down]`. A direction has this table if it has
/// keys of its own.
fn is_direction(header: &str) -> bool {
    header.starts_with("[link.") && (header.ends_with(".up]") || header.ends_with(".down]"))
}
