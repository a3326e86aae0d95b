//! A scenario with other values: each combination of them, replicated. What comes of a task follows from the sweep and
//! its number alone, so that any machine may do any of them.
//!
//! Results are lines of JSON: what was asked for, then a line for each task that is done, in order. Files are
//! merged by laying their lines together: in any order and any grouping, and twice is as once.

use crate::cores;
use crate::rows::{COLUMNS, Row, rows};
use crate::scenario::experiment;
use crate::simulate::{Experiment, simulate};
use falaj_scenario::edit::{self, NotSet};
use falaj_scenario::{Diagnostics, Scenario};
use falaj_sched::time::Span;
use falaj_traffic::interval::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use toml_edit::{DocumentMut, Value};

/// What a reader must know to understand the rest; it grows when something that was there means something else.
const VERSION: u32 = 1;
/// More points are hardly meant.
pub const MOST_POINTS: usize = 100_000;

/// Why there is no sweep, or no result of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SweepError {
    /// A value does not go into the scenario: by which words, and what is wrong.
    Scenario(String, Box<Diagnostics>),
    /// Anything else, in words.
    Other(String),
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepError::Scenario(words, diagnostics) if words.is_empty() => diagnostics.fmt(f),
            SweepError::Scenario(words, diagnostics) => write!(f, "with {words}:\n{diagnostics}"),
            SweepError::Other(what) => f.write_str(what),
        }
    }
}
impl std::error::Error for SweepError {}

fn other(what: impl Into<String>) -> SweepError {
    SweepError::Other(what.into())
}

/// A key of the scenario, and the values that it is to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The key, as `falaj set` takes it.
    pub key: String,
    /// Its values, as TOML.
    pub values: Vec<String>,
}

impl Axis {
    /// From values as TOML has them. A word for a `scheduler` is its kind.
    pub fn new(key: &str, values: &[Value]) -> Axis {
        let words = values.iter().all(Value::is_str);
        let scheduler = words && key.rsplit('.').next() == Some("scheduler");
        let key = if scheduler { format!("{key}.kind") } else { key.to_owned() };
        Axis { key, values: values.iter().map(|value| value.to_string().trim().to_owned()).collect() }
    }

    /// Reads `KEY=VALUE,VALUE,…`; a list in brackets is TOML, for values that have commas themselves.
    ///
    /// # Errors
    /// There is no `=`, no key, or no value.
    pub fn parse(text: &str) -> Result<Axis, String> {
        const EXAMPLE: &str = "write a key and its values, as in `uplink.rate=10mbit,20mbit`";
        let (key, values) = text.split_once('=').ok_or_else(|| format!("there is no `=`; {EXAMPLE}"))?;
        let values: Vec<Value> = match values.trim().parse::<Value>() {
            Ok(Value::Array(list)) if values.trim_start().starts_with('[') => list.iter().cloned().collect(),
            _ => values.split(',').map(|value| edit::value(value.trim())).collect(),
        };
        if key.trim().is_empty() || values.iter().any(|value| value.as_str() == Some("")) {
            return Err(format!("a key or a value is missing; {EXAMPLE}"));
        }
        Ok(Axis::new(key.trim(), &values))
    }
}

/// Which part of the tasks: `2/8` is the second of eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// How many tasks of a sweep it has.
    pub fn tasks(self, sweep: &Sweep) -> u64 {
        (sweep.tasks() + self.count - self.index) / self.count
    }

    /// The same tasks in so many parts, or in as many as there are tasks: of the third of eight these are the third, the eleventh
    /// and so on of eight times as many.
    pub fn split(self, sweep: &Sweep, parts: u64) -> Vec<Shard> {
        let parts = parts.min(self.tasks(sweep)).max(1);
        (0..parts).map(|n| Shard { index: self.index + self.count * n, count: self.count * parts }).collect()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;
    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = || format!("`{text}` is no shard; write `1/8` for the first of eight, and `8/8` for the last");
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let (index, count) = (index.parse().map_err(|_| wrong())?, count.parse().map_err(|_| wrong())?);
        if index == 0 || index > count { Err(wrong()) } else { Ok(Shard { index, count }) }
    }
}

/// What is to be simulated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    falaj_sweep: u32,
    /// The scenario's file, beside which those stand that it names.
    file: String,
    /// Its text.
    scenario: String,
    axes: Vec<Axis>,
    replications: u32,
    seed: u64,
    duration_ns: u64,
    warm_up_ns: u64,
}

impl Sweep {
    /// All combinations of the axes' values, set in this scenario, which was read from `file`; the later axes change
    /// fastest. Each is tried.
    ///
    /// # Errors
    /// An axis without values, a key that there is not, a scenario that would be wrong.
    pub fn new(text: &str, file: &str, mut axes: Vec<Axis>) -> Result<Sweep, SweepError> {
        let told = |wrong: Diagnostics| SweepError::Scenario(String::new(), Box::new(wrong));
        let scenario = falaj_scenario::parse(text, file).map_err(told)?.0;
        let run = scenario.run;
        if let [link] = &scenario.links[..] {
            // There is but one that can be meant.
            let of_link = |axis: &&mut Axis| axis.key == "scheduler.kind";
            axes.iter_mut().filter(of_link).for_each(|axis| axis.key = format!("link.{}.{}", link.name, axis.key));
        }
        for (n, axis) in axes.iter().enumerate() {
            if axis.values.is_empty() {
                return Err(other(format!("`{}` has no values", axis.key)));
            }
            if axes[..n].iter().any(|before| before.key == axis.key) {
                return Err(other(format!("`{}` is there twice: give all its values at once", axis.key)));
            }
        }
        let points = axes.iter().try_fold(1, |product: usize, axis| product.checked_mul(axis.values.len()));
        if points.is_none_or(|points| points > MOST_POINTS) {
            return Err(other(format!("there are more than {MOST_POINTS} combinations: take fewer values")));
        }
        let (file, scenario) = (file.to_owned(), text.to_owned());
        let (replications, seed, duration_ns) = (run.replications, run.seed, run.duration.0);
        let sweep =
            Sweep { falaj_sweep: VERSION, file, scenario, axes, replications, seed, duration_ns, warm_up_ns: 0 };
        (0..sweep.points()).try_for_each(|point| sweep.at(point).map(drop))?;
        Ok(sweep)
    }

    /// The same with this many replications of each, 1 to 10000.
    pub fn replicated(self, replications: u32) -> Sweep {
        Sweep { replications: replications.clamp(1, 10_000), ..self }
    }

    /// The same with random numbers that begin here: those of a replication are the same at every point.
    pub fn seeded(self, seed: u64) -> Sweep {
        Sweep { seed, ..self }
    }

    /// The same with replications that are so long, in simulated time; above zero.
    pub fn lasting(self, duration: Span) -> Sweep {
        Sweep { duration_ns: duration.0.max(1), ..self }
    }

    /// The same where so much of each replication is not counted.
    ///
    /// # Errors
    /// That is all of it.
    pub fn warmed_up(self, warm_up: Span) -> Result<Sweep, SweepError> {
        if warm_up.0 >= self.duration_ns {
            let whole = Span(self.duration_ns);
            return Err(other(format!(
                "a warm-up of {warm_up} leaves nothing of {whole}: let replications last longer"
            )));
        }
        Ok(Sweep { warm_up_ns: warm_up.0, ..self })
    }

    /// What varies.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// How many combinations there are.
    pub fn points(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// How many tasks: each point, each replication.
    pub fn tasks(&self) -> u64 {
        self.points() as u64 * u64::from(self.replications)
    }

    /// Which value each axis has at a point.
    fn values(&self, point: usize) -> Vec<&str> {
        let mut rest = point;
        let mut values: Vec<&str> = Vec::new();
        for axis in self.axes.iter().rev() {
            values.push(&axis.values[rest % axis.values.len()]);
            rest /= axis.values.len();
        }
        values.reverse();
        values
    }

    /// The scenario at a point.
    ///
    /// # Errors
    /// There is no such key, or the scenario would be wrong.
    pub fn at(&self, point: usize) -> Result<Scenario, SweepError> {
        let unreadable = |what: &dyn fmt::Display| other(format!("the scenario is no TOML: {what}"));
        let mut document: DocumentMut = self.scenario.parse().map_err(|error| unreadable(&error))?;
        let mut words = Vec::new();
        for (axis, value) in self.axes.iter().zip(self.values(point)) {
            let text = format!("{}={value}", axis.key);
            let set = edit::parse_set(&text).map_err(|what| other(format!("`{text}`: {what}")))?;
            let apply = edit::apply(&mut document, &set.path, set.value.as_ref());
            apply.map_err(|what: NotSet| other(format!("`{}`: {what}", axis.key)))?;
            words.push(text);
        }
        let told = |wrong: Diagnostics| SweepError::Scenario(words.join(" and "), Box::new(wrong));
        let mut scenario = falaj_scenario::parse(&document.to_string(), &self.file).map_err(told)?.0;
        if scenario.traffic.is_empty() {
            return Err(other(format!("{} has no [traffic.NAME]: there is nothing to simulate", self.file)));
        }
        scenario.run.duration = Span(self.duration_ns);
        Ok(scenario)
    }

    /// Simulates the tasks of a shard on all cores; `done` is called behind each with how many are done. Where `stop` is
    /// set meanwhile, the result has those that were done.
    ///
    /// # Errors
    /// A discipline refuses its setup.
    pub fn run(&self, shard: Shard, stop: &AtomicBool, done: &(dyn Fn(usize) + Sync)) -> Result<Results, SweepError> {
        self.run_on(cores::all(), shard, stop, done)
    }

    /// The same on so many cores, for who shares a machine.
    ///
    /// # Errors
    /// A discipline refuses its setup.
    pub fn run_on(
        &self,
        cores: usize,
        shard: Shard,
        stop: &AtomicBool,
        done: &(dyn Fn(usize) + Sync),
    ) -> Result<Results, SweepError> {
        let tasks: Vec<u64> = (shard.index - 1..self.tasks()).step_by(shard.count as usize).collect();
        let replications = u64::from(self.replications);
        let one = |i: usize| -> Result<Option<String>, SweepError> {
            let (point, replication) = ((tasks[i] / replications) as usize, tasks[i] % replications);
            let scenario = self.at(point)?;
            let warm_up = Span(self.warm_up_ns);
            let experiment = Experiment { warm_up, ..experiment(&scenario, scenario.run.duration) };
            let run = simulate(&experiment, self.seed.wrapping_add(replication), stop);
            let run = run.map_err(|(_, refused)| other(refused.to_string()))?;
            let line = serde_json::to_string(&Done { task: tasks[i], flows: rows(&scenario, &run) })
                .map_err(|error| other(error.to_string()))?;
            Ok(run.complete.then_some(line))
        };
        let (mut count, mut lines) = (0, BTreeMap::new());
        cores::on(cores, 0..tasks.len(), stop, one, |i, line| {
            lines.extend(line.map(|line| (tasks[i], line)));
            count += 1;
            done(count);
        })?;
        Ok(Results { sweep: self.clone(), lines })
    }
}

impl fmt::Display for Sweep {
    /// As JSON, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// What came of a task.
#[derive(Serialize, Deserialize)]
struct Done {
    task: u64,
    flows: Vec<Row>,
}

/// What came of some tasks of a sweep, or of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results {
    sweep: Sweep,
    /// By task, its line.
    lines: BTreeMap<u64, String>,
}

impl Results {
    /// Reads what [`Display`](fmt::Display) wrote, a sweep without results among it. `name` is for messages.
    ///
    /// # Errors
    /// It is something else, or not whole.
    pub fn parse(text: &str, name: &str) -> Result<Results, SweepError> {
        let at = |n: usize, what: &dyn fmt::Display| other(format!("{name}, line {}: {what}", n + 1));
        let mut all = text.lines().enumerate();
        let head = all.next().map_or("", |(_, head)| head);
        let sweep: Sweep = serde_json::from_str(head)
            .map_err(|error| at(0, &format!("no sweep of falaj begins so ({error}); `falaj sweep plan` makes one")))?;
        if sweep.falaj_sweep != VERSION {
            return Err(at(0, &format!("of version {}, and this is falaj of {VERSION}", sweep.falaj_sweep)));
        }
        // What is simulated is made of it: it is to be sound again.
        let sound = Sweep::new(&sweep.scenario, &sweep.file, sweep.axes.clone())?;
        let sound = sound.replicated(sweep.replications).seeded(sweep.seed).lasting(Span(sweep.duration_ns));
        let sound = sound.warmed_up(Span(sweep.warm_up_ns))?;
        if sound != sweep {
            return Err(at(0, &"the sweep was changed by hand: make it anew with `falaj sweep plan`"));
        }
        let mut results = Results { sweep, lines: BTreeMap::new() };
        for (n, line) in all {
            let done: Done = serde_json::from_str(line)
                .map_err(|error| at(n, &format!("not whole ({error}); run this shard once more")))?;
            if done.task >= results.sweep.tasks() {
                return Err(at(n, &format!("task {} of {}", done.task, results.sweep.tasks())));
            }
            results.add(done.task, line.to_owned()).map_err(|what| at(n, &what))?;
        }
        Ok(results)
    }

    fn add(&mut self, task: u64, line: String) -> Result<(), String> {
        match self.lines.get(&task) {
            Some(there) if *there != line => {
                Err(format!("task {task} came out otherwise elsewhere: were all shards run by the same falaj?"))
            }
            _ => {
                self.lines.insert(task, line);
                Ok(())
            }
        }
    }

    /// What was asked for.
    pub fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// Lays the results of `other` to these. The order does not matter, nor does how often.
    ///
    /// # Errors
    /// They are of another sweep, or one task came out two ways.
    pub fn merge(&mut self, more: Results) -> Result<(), SweepError> {
        if let Some(what) = self.sweep.differs(&more.sweep) {
            return Err(other(format!("these shards do not belong together: {what}")));
        }
        more.lines.into_iter().try_for_each(|(task, line)| self.add(task, line).map_err(other))
    }

    /// How many tasks are done.
    pub fn done(&self) -> u64 {
        self.lines.len() as u64
    }

    /// How many tasks are not done.
    pub fn missing(&self) -> u64 {
        self.sweep.tasks() - self.lines.len() as u64
    }

    /// One line for each point and flow.
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
            let read = replications.map(|line| serde_json::from_str::<Done>(line).map(|done| done.flows));
            let replications = read.collect::<Result<Vec<_>, _>>().map_err(|error| other(error.to_string()))?;
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

impl Sweep {
    /// In what this is another one than `other`.
    fn differs(&self, other: &Sweep) -> Option<String> {
        let keys = |sweep: &Sweep| sweep.axes.iter().map(|axis| axis.key.clone()).collect::<Vec<_>>().join(", ");
        let two = |what: &str, a: &dyn fmt::Display, b: &dyn fmt::Display| Some(format!("{what} {a} and {b}"));
        match () {
            () if self == other => None,
            () if self.scenario != other.scenario => Some("their scenarios are not the same".into()),
            () if keys(self) != keys(other) => two("they vary", &keys(self), &keys(other)),
            () if self.axes != other.axes => Some(format!("other values of {}", keys(self))),
            () if self.seed != other.seed => two("seeds", &self.seed, &other.seed),
            () if self.replications != other.replications => {
                two("replications:", &self.replications, &other.replications)
            }
            () if self.duration_ns != other.duration_ns => {
                two("durations", &Span(self.duration_ns), &Span(other.duration_ns))
            }
            () if self.warm_up_ns != other.warm_up_ns => {
                two("warm-ups of", &Span(self.warm_up_ns), &Span(other.warm_up_ns))
            }
            () => two("files", &self.file, &other.file),
        }
    }
}

impl fmt::Display for Results {
    /// Lines of JSON, each with its newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.sweep)?;
        self.lines.values().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// A whole sweep, told.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What varied.
    pub axes: Vec<Axis>,
    /// By point, then flow.
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
    /// Each of [`COLUMNS`] over the replications; `None`: never measured.
    pub measures: Vec<Option<Estimate>>,
}

impl Table {
    /// The names of its columns: axes, link, way, flow, and for each measure mean and half-width of the 95 % interval.
    pub fn header(&self) -> Vec<String> {
        let axes = self.axes.iter().map(|axis| axis.key.clone());
        let who = ["link", "way", "flow"].map(str::to_owned);
        let measures = COLUMNS.iter().flat_map(|m| [m.name.to_owned(), format!("{}_half_width", m.name)]);
        axes.chain(who).chain(measures).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
        [link.uplink]
        rate = "10mbit"
        [link.uplink.flow.voice]
        match = "udp dport 5004"
        [link.uplink.flow.rest]
        match = "any"
        [traffic.a]
        flow = "voice"
        model = "poisson"
        rate = "3mbit"
        size = "200B"
        [traffic.b]
        flow = "rest"
        model = "poisson"
        rate = "8mbit"
        size = "1000B"
        [run]
        duration = "100ms"
        replications = 3
    "#;

    fn sweep() -> Sweep {
        let axes = ["uplink.rate=10mbit,20mbit", "scheduler=drr,fifo,qfq"].map(|text| Axis::parse(text).unwrap());
        Sweep::new(SCENARIO, "x.toml", axes.to_vec()).unwrap()
    }

    fn run(sweep: &Sweep, shard: &str) -> Results {
        sweep.run(shard.parse().unwrap(), &AtomicBool::new(false), &|_| {}).unwrap()
    }

    #[test]
    fn any_shards_in_any_order_and_twice_are_the_same_bytes_as_one() {
        let (sweep, whole) = (sweep(), run(&sweep(), "1/1"));
        assert_eq!((sweep.points(), sweep.tasks(), whole.missing()), (6, 18, 0));
        for count in [2, 5, 18, 100] {
            let mut merged = Results::parse(&sweep.to_string(), "plan").unwrap();
            for index in (1..=count).rev().chain([1, count]) {
                let shard = run(&sweep, &format!("{index}/{count}"));
                merged.merge(Results::parse(&shard.to_string(), "shard").unwrap()).unwrap();
            }
            assert_eq!(merged.to_string(), whole.to_string());
        }
        let third: Shard = "3/5".parse().unwrap();
        let mut merged = Results::parse(&sweep.to_string(), "plan").unwrap();
        let parts = third.split(&sweep, 100);
        assert_eq!(parts.iter().map(Shard::to_string).collect::<Vec<_>>(), ["3/20", "8/20", "13/20", "18/20"]);
        parts.iter().for_each(|part| merged.merge(run(&sweep, &part.to_string())).unwrap());
        assert_eq!(merged, run(&sweep, "3/5"));
        let part = |n: usize| run(&sweep, &format!("{n}/3"));
        let (mut left, mut right) = (part(1), part(2));
        left.merge(part(2)).unwrap();
        left.merge(part(3)).unwrap();
        right.merge(part(3)).unwrap();
        let mut all = part(1);
        all.merge(right).unwrap();
        assert_eq!((left.to_string(), left), (all.to_string(), all));
    }

    #[test]
    fn a_table_has_a_line_for_each_point_and_flow() {
        let table = run(&sweep(), "1/1").table().unwrap();
        assert_eq!(table.header()[..5], ["uplink.rate", "link.uplink.scheduler.kind", "link", "way", "flow"]);
        assert_eq!(table.lines.len(), 12);
        let line = &table.lines[11];
        assert_eq!((line.values.join(" "), &*line.flow), ("\"20mbit\" \"qfq\"".into(), "rest"));
        let mean = |line: &Line, name: &str| {
            let n = COLUMNS.iter().position(|measure| measure.name == name).unwrap();
            line.measures[n].unwrap()
        };
        // The same packets come at every point.
        assert_eq!(mean(&table.lines[0], "offered"), mean(&table.lines[10], "offered"));
        assert!(mean(&table.lines[0], "delay_mean_ns").mean > 1.5 * mean(&table.lines[10], "delay_mean_ns").mean);
        assert!(mean(line, "loss").half_width.is_some());
    }

    #[test]
    fn what_does_not_belong_together_is_said() {
        let mut whole = run(&sweep(), "1/2");
        let told = |what: Result<(), SweepError>| what.unwrap_err().to_string();
        assert!(whole.table().unwrap_err().to_string().starts_with("9 of 18 tasks are missing (1, 3, 5, 7, 9, …)"));
        let seeds = told(whole.merge(run(&sweep().seeded(7), "2/2")));
        assert_eq!(seeds, "these shards do not belong together: seeds 1 and 7");
        let longer = told(whole.merge(run(&sweep().lasting(Span::from_millis(5)), "2/2")));
        assert!(longer.contains("durations 100ms and 5ms"), "{longer}");
        let warm = told(whole.merge(run(&sweep().warmed_up(Span::from_millis(5)).unwrap(), "2/2")));
        assert!(warm.contains("warm-ups of 0s and 5ms"), "{warm}");
        assert!(told(sweep().warmed_up(Span::from_millis(100)).map(drop)).contains("leaves nothing of 100ms"));
        let text = whole.to_string();
        let cut = Results::parse(&text[..text.len() - 30], "x.jsonl").unwrap_err().to_string();
        assert!(cut.starts_with("x.jsonl, line 10: not whole") && cut.contains("run this shard once more"), "{cut}");
        let forged = Results::parse(&text.replacen("\"offered\":", "\"offered\":1", 1), "y").unwrap();
        assert!(told(whole.merge(forged)).contains("came out otherwise elsewhere"));
        assert!(Results::parse("{}", "z").unwrap_err().to_string().contains("`falaj sweep plan` makes one"));
    }

    #[test]
    fn what_is_wrong_with_an_axis_is_said_before_anything_runs() {
        let told = |axes: &[&str]| {
            let axes = axes.iter().map(|text| Axis::parse(text)).collect::<Result<Vec<_>, _>>();
            axes.and_then(|axes| Sweep::new(SCENARIO, "x.toml", axes).map_err(|e| e.to_string())).unwrap_err()
        };
        assert!(told(&["uplink.rate"]).starts_with("there is no `=`"));
        assert!(told(&["uplink.rate=10mbit,"]).starts_with("a key or a value is missing"));
        assert!(told(&["nowhere.rate=1mbit"]).contains("no table of the scenario has such a key"));
        assert!(told(&["uplink.rate=10mbit,10"]).starts_with("with uplink.rate=10:\nerror"));
        assert!(told(&["uplink.rate=1mbit", "uplink.rate=2mbit"]).contains("is there twice"));
        for shard in ["0/3", "4/3", "1", "a/b"] {
            assert!(shard.parse::<Shard>().unwrap_err().contains("is no shard"));
        }
    }
}
