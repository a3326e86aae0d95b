//! A sweep: a scenario is simulated with each combination of values of some keys, and each
//! simulation is replicated. A task is one replication of one combination. Its result depends only
//! on the sweep and the task's number, so that any machine may run any task.
//!
//! Results are lines of JSON: the sweep, then one line per finished task, in order. Files are
//! merged by collecting their lines. The order and the grouping of files do not matter, and
//! repeated lines count once.

mod axis;
mod results;
mod shard;

pub use axis::Axis;
pub use results::{Line, Results, Table};
pub use shard::Shard;

use crate::cores;
use crate::rows::rows;
use crate::scenario::experiment;
use crate::simulate::{Experiment, simulate};
use falaj_scenario::edit::{self, NotSet};
use falaj_scenario::{Diagnostics, Scenario};
use falaj_sched::units::time::Span;
use results::Done;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use toml_edit::DocumentMut;

/// Version of the format. A reader accepts only versions that it knows. The version rises when the
/// meaning of an existing field changes.
const VERSION: u32 = 1;
/// Maximum number of points of a sweep.
pub const MOST_POINTS: usize = 100_000;

/// The reason why a sweep or its results are invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SweepError {
    /// A value is not valid in the scenario. Has the settings and the errors.
    Scenario(String, Box<Diagnostics>),
    /// Any other error, as a message.
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

/// A sweep: the scenario, the axes, and how each point (combination of values) is simulated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    falaj_sweep: u32,
    /// Path of the scenario's file; files that the scenario names are relative to it.
    file: String,
    /// Text of the scenario.
    scenario: String,
    axes: Vec<Axis>,
    replications: u32,
    seed: u64,
    duration_ns: u64,
    warm_up_ns: u64,
}

impl Sweep {
    /// Creates a sweep over all combinations of the axes' values in this scenario, which was read
    /// from `file`. The last axis changes fastest. Each combination is parsed.
    ///
    /// # Errors
    /// An axis without values, a key that is given twice or does not exist, more combinations than
    /// [`MOST_POINTS`], or a scenario that would be invalid or has no traffic.
    pub fn new(text: &str, file: &str, mut axes: Vec<Axis>) -> Result<Sweep, SweepError> {
        let told = |wrong: Diagnostics| SweepError::Scenario(String::new(), Box::new(wrong));
        let scenario = falaj_scenario::parse(text, file).map_err(told)?.0;
        let run = scenario.run;
        if let [link] = &scenario.links[..] {
            // In a scenario with one link, this key without a link means the link's scheduler.
            let of_link = |axis: &&mut Axis| axis.key == "scheduler.kind";
            axes.iter_mut()
                .filter(of_link)
                .for_each(|axis| axis.key = format!("link.{}.{}", link.name, axis.key));
        }
        for (n, axis) in axes.iter().enumerate() {
            if axis.values.is_empty() {
                return Err(other(format!("`{}` has no values", axis.key)));
            }
            if axes[..n].iter().any(|before| before.key == axis.key) {
                return Err(other(format!(
                    "`{}` is given twice: give all its values at once",
                    axis.key
                )));
            }
        }
        let points =
            axes.iter().try_fold(1, |product: usize, axis| product.checked_mul(axis.values.len()));
        if points.is_none_or(|points| points > MOST_POINTS) {
            return Err(other(format!(
                "there are more than {MOST_POINTS} combinations: take fewer values"
            )));
        }
        let (file, scenario) = (file.to_owned(), text.to_owned());
        let (replications, seed, duration_ns) = (run.replications, run.seed, run.duration.0);
        let sweep = Sweep {
            falaj_sweep: VERSION,
            file,
            scenario,
            axes,
            replications,
            seed,
            duration_ns,
            warm_up_ns: 0,
        };
        (0..sweep.points()).try_for_each(|point| sweep.at(point).map(drop))?;
        Ok(sweep)
    }

    /// Returns this sweep with this number of replications per point, 1 to 10000.
    pub fn replicated(self, replications: u32) -> Sweep {
        Sweep { replications: replications.clamp(1, 10_000), ..self }
    }

    /// Returns this sweep with this first seed. Replications with the same number have the same
    /// random numbers at every point.
    pub fn seeded(self, seed: u64) -> Sweep {
        Sweep { seed, ..self }
    }

    /// Returns this sweep with replications of this length in simulated time; above zero.
    pub fn lasting(self, duration: Span) -> Sweep {
        Sweep { duration_ns: duration.0.max(1), ..self }
    }

    /// Returns this sweep with this warm-up in each replication. The warm-up is not counted.
    ///
    /// # Errors
    /// The warm-up is not shorter than the replication.
    pub fn warmed_up(self, warm_up: Span) -> Result<Sweep, SweepError> {
        if warm_up.0 >= self.duration_ns {
            let whole = Span(self.duration_ns);
            return Err(other(format!(
                "a warm-up of {warm_up} is not shorter than the replications of {whole}: make the \
                 replications longer"
            )));
        }
        Ok(Sweep { warm_up_ns: warm_up.0, ..self })
    }

    /// The keys that vary, with their values.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The number of combinations.
    pub fn points(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// The number of tasks: one for each replication of each point.
    pub fn tasks(&self) -> u64 {
        self.points() as u64 * u64::from(self.replications)
    }

    /// The value of each axis at a point.
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

    /// Returns the scenario at a point.
    ///
    /// # Errors
    /// A key does not exist, or the scenario would be invalid or has no traffic.
    pub fn at(&self, point: usize) -> Result<Scenario, SweepError> {
        let unreadable =
            |what: &dyn fmt::Display| other(format!("the scenario is not valid TOML: {what}"));
        let mut document: DocumentMut =
            self.scenario.parse().map_err(|error| unreadable(&error))?;
        let mut words = Vec::new();
        for (axis, value) in self.axes.iter().zip(self.values(point)) {
            let text = format!("{}={value}", axis.key);
            let set = edit::parse_set(&text).map_err(|what| other(format!("`{text}`: {what}")))?;
            let apply = edit::apply(&mut document, &set.path, set.value.as_ref());
            apply.map_err(|what: NotSet| other(format!("`{}`: {what}", axis.key)))?;
            words.push(text);
        }
        let told = |wrong: Diagnostics| SweepError::Scenario(words.join(" and "), Box::new(wrong));
        let mut scenario =
            falaj_scenario::parse(&document.to_string(), &self.file).map_err(told)?.0;
        if scenario.traffic.is_empty() {
            return Err(other(format!(
                "{} has no [traffic.NAME]: there is nothing to simulate",
                self.file
            )));
        }
        scenario.run.duration = Span(self.duration_ns);
        Ok(scenario)
    }

    /// Simulates the tasks of a shard on all cores. After each task, `done` is called with the
    /// number of finished tasks. If `stop` is set meanwhile, the result has the finished tasks.
    ///
    /// # Errors
    /// A discipline refuses its setup.
    pub fn run(
        &self,
        shard: Shard,
        stop: &AtomicBool,
        done: &(dyn Fn(usize) + Sync),
    ) -> Result<Results, SweepError> {
        self.run_on(cores::all(), shard, stop, done)
    }

    /// Simulates the tasks of a shard on `cores` cores, for machines that are shared.
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
        let tasks: Vec<u64> =
            (shard.index - 1..self.tasks()).step_by(shard.count as usize).collect();
        let replications = u64::from(self.replications);
        let one = |i: usize| -> Result<Option<String>, SweepError> {
            let (point, replication) =
                ((tasks[i] / replications) as usize, tasks[i] % replications);
            let scenario = self.at(point)?;
            let warm_up = Span(self.warm_up_ns);
            let experiment = Experiment { warm_up, ..experiment(&scenario, scenario.run.duration) };
            let run = simulate(&experiment, self.seed.wrapping_add(replication), stop);
            let run = run.map_err(|(_, refused)| other(refused.to_string()))?;
            let line =
                serde_json::to_string(&Done { task: tasks[i], flows: rows(&scenario, &run) })
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
    /// Writes the sweep as JSON, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Sweep {
    /// Returns the first difference from `other` as a message, or `None` if the sweeps are equal.
    fn differs(&self, other: &Sweep) -> Option<String> {
        let keys = |sweep: &Sweep| {
            sweep.axes.iter().map(|axis| axis.key.clone()).collect::<Vec<_>>().join(", ")
        };
        let two = |what: &str, a: &dyn fmt::Display, b: &dyn fmt::Display| {
            Some(format!("{what} {a} and {b}"))
        };
        match () {
            () if self == other => None,
            () if self.scenario != other.scenario => {
                Some("their scenarios are not the same".into())
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::COLUMNS;

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
        let axes = ["uplink.rate=10mbit,20mbit", "scheduler=drr,fifo,qfq"]
            .map(|text| Axis::parse(text).unwrap());
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
        assert_eq!(
            parts.iter().map(Shard::to_string).collect::<Vec<_>>(),
            ["3/20", "8/20", "13/20", "18/20"]
        );
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
        assert_eq!(
            table.header()[..5],
            ["uplink.rate", "link.uplink.scheduler.kind", "link", "way", "flow"]
        );
        assert_eq!(table.lines.len(), 12);
        let line = &table.lines[11];
        assert_eq!((line.values.join(" "), &*line.flow), ("\"20mbit\" \"qfq\"".into(), "rest"));
        let mean = |line: &Line, name: &str| {
            let n = COLUMNS.iter().position(|measure| measure.name == name).unwrap();
            line.measures[n].unwrap()
        };
        // The same packets arrive at every point.
        assert_eq!(mean(&table.lines[0], "offered"), mean(&table.lines[10], "offered"));
        assert!(
            mean(&table.lines[0], "delay_mean_ns").mean
                > 1.5 * mean(&table.lines[10], "delay_mean_ns").mean
        );
        assert!(mean(line, "loss").half_width.is_some());
    }

    #[test]
    fn what_does_not_belong_together_is_said() {
        let mut whole = run(&sweep(), "1/2");
        let told = |what: Result<(), SweepError>| what.unwrap_err().to_string();
        assert!(
            whole
                .table()
                .unwrap_err()
                .to_string()
                .starts_with("9 of 18 tasks are missing (1, 3, 5, 7, 9, …)")
        );
        let seeds = told(whole.merge(run(&sweep().seeded(7), "2/2")));
        assert_eq!(seeds, "these shards do not belong together: seeds 1 and 7");
        let longer = told(whole.merge(run(&sweep().lasting(Span::from_millis(5)), "2/2")));
        assert!(longer.contains("durations 100ms and 5ms"), "{longer}");
        let warm = told(whole.merge(run(&sweep().warmed_up(Span::from_millis(5)).unwrap(), "2/2")));
        assert!(warm.contains("warm-ups of 0s and 5ms"), "{warm}");
        assert!(
            told(sweep().warmed_up(Span::from_millis(100)).map(drop))
                .contains("not shorter than the replications of 100ms")
        );
        let text = whole.to_string();
        let cut = Results::parse(&text[..text.len() - 30], "x.jsonl").unwrap_err().to_string();
        assert!(
            cut.starts_with("x.jsonl, line 10: incomplete") && cut.contains("run this shard again"),
            "{cut}"
        );
        let forged =
            Results::parse(&text.replacen("\"offered\":", "\"offered\":1", 1), "y").unwrap();
        assert!(told(whole.merge(forged)).contains("has two different results"));
        assert!(
            Results::parse("{}", "z")
                .unwrap_err()
                .to_string()
                .contains("make one with `falaj sweep plan`")
        );
    }

    #[test]
    fn what_is_wrong_with_an_axis_is_said_before_anything_runs() {
        let told = |axes: &[&str]| {
            let axes = axes.iter().map(|text| Axis::parse(text)).collect::<Result<Vec<_>, _>>();
            axes.and_then(|axes| Sweep::new(SCENARIO, "x.toml", axes).map_err(|e| e.to_string()))
                .unwrap_err()
        };
        assert!(told(&["uplink.rate"]).starts_with("there is no `=`"));
        assert!(told(&["uplink.rate=10mbit,"]).starts_with("a key or a value is missing"));
        assert!(told(&["nowhere.rate=1mbit"]).contains("no table of the scenario has such a key"));
        assert!(told(&["uplink.rate=10mbit,10"]).starts_with("with uplink.rate=10:\nerror"));
        assert!(told(&["uplink.rate=1mbit", "uplink.rate=2mbit"]).contains("is given twice"));
        for shard in ["0/3", "4/3", "1", "a/b"] {
            assert!(shard.parse::<Shard>().unwrap_err().contains("is not a shard"));
        }
    }
}
