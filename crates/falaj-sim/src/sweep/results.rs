//! Results of tasks as lines, and a table of the complete results. Results are merged by collecting
//! their lines.

use super::{Axis, Sweep, SweepError, VERSION, other};
use crate::rows::{COLUMNS, Row};
use falaj_sched::units::time::Span;
use falaj_traffic::interval::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The result of a task.
#[derive(Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) task: u64,
    pub(super) flows: Vec<Row>,
}

/// The results of some tasks of a sweep, or of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results {
    pub(super) sweep: Sweep,
    /// The line of each finished task, by task number.
    pub(super) lines: BTreeMap<u64, String>,
}

impl Results {
    /// Reads results in the format of their [`Display`](fmt::Display). A sweep without results is
    /// valid too. `name` is used in messages.
    ///
    /// # Errors
    /// The text is not in this format, or is incomplete.
    pub fn parse(text: &str, name: &str) -> Result<Results, SweepError> {
        let at =
            |n: usize, what: &dyn fmt::Display| other(format!("{name}, line {}: {what}", n + 1));
        let mut all = text.lines().enumerate();
        let head = all.next().map_or("", |(_, head)| head);
        let sweep: Sweep = serde_json::from_str(head).map_err(|error| {
            at(
                0,
                &format!(
                    "this is not a sweep of falaj ({error}); make one with `falaj sweep plan`"
                ),
            )
        })?;
        if sweep.falaj_sweep != VERSION {
            return Err(at(
                0,
                &format!(
                    "the sweep has format version {}, but this falaj reads only version {VERSION}",
                    sweep.falaj_sweep
                ),
            ));
        }
        // The sweep determines the simulations, so it is validated again.
        let sound = Sweep::new(&sweep.scenario, &sweep.file, sweep.axes.clone())?;
        let sound = sound
            .replicated(sweep.replications)
            .seeded(sweep.seed)
            .lasting(Span(sweep.duration_ns));
        let sound = sound.warmed_up(Span(sweep.warm_up_ns))?;
        if sound != sweep {
            return Err(at(
                0,
                &"the sweep was changed by hand: make it again with `falaj sweep plan`",
            ));
        }
        let mut results = Results { sweep, lines: BTreeMap::new() };
        for (n, line) in all {
            let done: Done = serde_json::from_str(line)
                .map_err(|error| at(n, &format!("incomplete ({error}); run this shard again")))?;
            if done.task >= results.sweep.tasks() {
                return Err(at(n, &format!("task {} of {}", done.task, results.sweep.tasks())));
            }
            results.add(done.task, line.to_owned()).map_err(|what| at(n, &what))?;
        }
        Ok(results)
    }

    fn add(&mut self, task: u64, line: String) -> Result<(), String> {
        match self.lines.get(&task) {
            Some(there) if *there != line => Err(format!(
                "task {task} has two different results; run all shards with the same version of falaj"
            )),
            _ => {
                self.lines.insert(task, line);
                Ok(())
            }
        }
    }

    /// The sweep that these results belong to.
    pub fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// Adds the results of `more`. Merging is commutative and idempotent.
    ///
    /// # Errors
    /// The results belong to another sweep, or one task has two different results.
    pub fn merge(&mut self, more: Results) -> Result<(), SweepError> {
        if let Some(what) = self.sweep.differs(&more.sweep) {
            return Err(other(format!("these shards do not belong together: {what}")));
        }
        more.lines.into_iter().try_for_each(|(task, line)| self.add(task, line).map_err(other))
    }

    /// The number of finished tasks.
    pub fn done(&self) -> u64 {
        self.lines.len() as u64
    }

    /// The number of unfinished tasks.
    pub fn missing(&self) -> u64 {
        self.sweep.tasks() - self.lines.len() as u64
    }

    /// Returns the table, with one line for each point and flow.
    ///
    /// # Errors
    /// Tasks are missing.
    pub fn table(&self) -> Result<Table, SweepError> {
        if self.missing() > 0 {
            let first: Vec<String> = (0..self.sweep.tasks())
                .filter(|task| !self.lines.contains_key(task))
                .take(5)
                .map(|t| t.to_string())
                .collect();
            let more = if self.missing() > 5 { ", …" } else { "" };
            return Err(other(format!(
                "{} of {} tasks are missing ({}{more}): merge the other shards too",
                self.missing(),
                self.sweep.tasks(),
                first.join(", ")
            )));
        }
        let mut table = Table { axes: self.sweep.axes.clone(), lines: Vec::new() };
        let mut done = self.lines.values();
        for point in 0..self.sweep.points() {
            let replications = done.by_ref().take(self.sweep.replications as usize);
            let read =
                replications.map(|line| serde_json::from_str::<Done>(line).map(|done| done.flows));
            let replications =
                read.collect::<Result<Vec<_>, _>>().map_err(|error| other(error.to_string()))?;
            let flows = replications.iter().map(Vec::len).min().unwrap_or(0);
            for flow in 0..flows {
                let rows: Vec<&Row> = replications.iter().map(|rows| &rows[flow]).collect();
                let estimate = |of: fn(&Row) -> Option<f64>| {
                    Estimate::of(&rows.iter().filter_map(|row| of(row)).collect::<Vec<_>>())
                };
                table.lines.push(Line {
                    values: self.sweep.values(point).into_iter().map(str::to_owned).collect(),
                    link: rows[0].link.clone(),
                    way: rows[0].way.clone(),
                    flow: rows[0].flow.clone(),
                    measures: COLUMNS.iter().map(|measure| estimate(measure.of)).collect(),
                });
            }
        }
        Ok(table)
    }
}

impl fmt::Display for Results {
    /// Writes lines of JSON, each with a newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.sweep)?;
        self.lines.values().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// The results of a whole sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The keys that vary, with their values.
    pub axes: Vec<Axis>,
    /// Lines in the order of points, then of flows.
    pub lines: Vec<Line>,
}

/// One flow at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The value of each axis, as TOML.
    pub values: Vec<String>,
    /// The link.
    pub link: String,
    /// `up` or `down`.
    pub way: String,
    /// The flow.
    pub flow: String,
    /// Each of [`COLUMNS`] over the replications; `None` if no replication has a value.
    pub measures: Vec<Option<Estimate>>,
}

impl Table {
    /// The names of the columns: axes, link, way, flow, then for each measure its mean and the
    /// half-width of its 95 % interval.
    pub fn header(&self) -> Vec<String> {
        let axes = self.axes.iter().map(|axis| axis.key.clone());
        let who = ["link", "way", "flow"].map(str::to_owned);
        let measures =
            COLUMNS.iter().flat_map(|m| [m.name.to_owned(), format!("{}_half_width", m.name)]);
        axes.chain(who).chain(measures).collect()
    }
}
