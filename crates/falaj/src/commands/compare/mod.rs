//! `falaj compare`: guaranteed bounds, expected, simulated and measured delays, side by side.

mod pairs;
#[cfg(feature = "plots")]
mod picture;

use crate::cli::virtual_time::VirtualTimeArgs;
use crate::commands::traffic::{losses, nanos, rules_json, tell_losses, tell_rules, tell_unsent};
use anyhow::Result;
#[cfg(feature = "plots")]
use anyhow::bail;
use falaj_experiment::measure::{Measured, MeasuredFlow, Measuring};
use falaj_experiment::replications::{Replications, SimulatedFlow};
use falaj_experiment::simulation::{INCONCLUSIVE, ReplicationArgs, SimulationPlan};
use falaj_plan::expected::{Expected, NEGLIGIBLE};
use falaj_plan::plan as plan_of;
use falaj_scenario::Scenario;
use falaj_scenario::edit::{Set, parse_set_or_unset};
use falaj_sched::contract::guarantee::Guarantee;
use falaj_sched::units::time::Span;
use falaj_sim::WarmUp;
use falaj_sim::scenario::{fed_flows, name_of, pipe_of};
use falaj_terminal::interrupt::INTERRUPTED;
use falaj_terminal::text;
use serde_json::{Value as Json, json};
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `compare`.
#[derive(clap::Args)]
#[command(after_help = "\
Where all sources of a link are Poisson, the column `expected` has averages by formulas: the mean
delay, its quantiles and the loss.

It checks that the nominal delay of every packet, simulated and measured, is within its bound,
without slack. The release error (lateness of packets) and the application's end-to-end delay are
printed beside it.

With other scenarios, or --what-if, nothing is measured: all are simulated under the same arrivals,
and differences from the first scenario are printed with their intervals, which are narrower than
those of the scenarios themselves.

Exit status: 0 all delays are within their bounds; 1 a bound was violated, or packets are missing in
the capture; 3 inconclusive: the 99th percentile of the release error, or of a source's lateness,
exceeds a tenth of the smallest bound; a source had no time to send some of its packets; or no
packet of a flow arrived; 130 Ctrl-C ended the simulation, and the results until then are compared.
For several scenarios: 0; 3 and 130 as for `falaj sim`.

With rules, each link that packets reached has its own rows: its guarantees, and its delays,
simulated and measured in that link alone. The end-to-end delay is printed at the flow where a
source begins, and covers all links that its packets pass.

Examples:
  falaj compare examples/tenants.toml --duration 5s
  falaj compare examples/tenants.toml --what-if link.uplink.rate=110mbit --until 'delay.mean ±1%'
  falaj compare fifo.toml drr.toml wf2q.toml --svg delays.svg")]
pub(crate) struct Args {
    #[command(flatten)]
    what: Measuring,
    /// Other scenarios with the same sources: each is simulated, and compared with the first.
    #[arg(value_name = "OTHER", conflicts_with = "capture",
        help_heading = clap::builder::Resettable::Reset)]
    others: Vec<PathBuf>,
    /// Compare with this scenario after a change: `uplink.rate=50mbit`, or `KEY=` to remove a key;
    /// repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_set_or_unset,
        help_heading = "Simulation", conflicts_with_all = ["others", "capture"])]
    what_if: Vec<Set>,
    /// Draw the delays of all scenarios into one picture, `*.svg` or `*.png`, with a panel for each
    /// flow.
    #[cfg(feature = "plots")]
    #[arg(long, value_name = "FILE", help_heading = "Simulation")]
    svg: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Simulation")]
    practice: ReplicationArgs,
    #[command(flatten)]
    virtual_time: VirtualTimeArgs,
}

/// The column of expected values.
const EXPECTED: usize = 2;

/// A flow with its bound, its expected values, its simulated results and its measured results.
pub(crate) struct ComparedFlow {
    pub(crate) name: String,
    pub(crate) guarantee: Option<Guarantee>,
    expected: Result<Expected, String>,
    pub(crate) simulated: SimulatedFlow,
    pub(crate) measured: MeasuredFlow,
}

impl ComparedFlow {
    fn bound(&self) -> Option<Span> {
        self.guarantee.as_ref().map(|p| p.delay.delay)
    }
    fn broken(&self) -> bool {
        let longest = self.simulated.delay.max().max(self.measured.link.delay.max());
        matches!((self.bound(), longest), (Some(bound), Some(longest)) if longest > bound)
    }
    /// Returns the expected values of this flow, if they are not averages over several flows.
    fn own(&self) -> Option<&Expected> {
        self.expected.as_ref().ok().filter(|expected| expected.together.is_empty())
    }

    /// Returns the flow's rows in the table.
    fn table(&self) -> [Vec<String>; 6] {
        let (sim, live) = (&self.simulated.delay, &self.measured.link.delay);
        let (own, none) = (self.own(), String::new);
        let delay = |ns: Option<f64>| ns.map_or(text::DASH.into(), text::nanos);
        let quantile = |n: usize| own.and_then(|own| Some(own.quantiles?[n]));
        let guaranteed = self.guarantee.as_ref().map_or(0, |p| p.rate.0);
        let c = &self.measured.link.counters;
        [
            vec![
                format!("{}  delay max", self.name),
                text::span(self.bound()),
                none(),
                text::span(sim.max()),
                text::span(live.max()),
            ],
            vec![
                "  delay p99".into(),
                none(),
                delay(quantile(1)),
                text::span(sim.quantile(0.99)),
                text::span(live.quantile(0.99)),
            ],
            vec![
                "  delay p50".into(),
                none(),
                delay(quantile(0)),
                text::span(sim.quantile(0.5)),
                text::span(live.quantile(0.5)),
            ],
            vec![
                "  delay mean".into(),
                none(),
                delay(own.map(|own| own.mean)),
                delay(sim.mean_nanos()),
                delay(live.mean_nanos()),
            ],
            vec![
                "  rate".into(),
                if guaranteed == 0 {
                    text::DASH.into()
                } else {
                    format!(">= {}", text::rate(guaranteed as f64))
                },
                none(),
                text::rate(self.simulated.sent_rate.map_or(0.0, |e| e.mean)),
                text::rate(self.measured.rate),
            ],
            vec![
                "  lost".into(),
                none(),
                own.map_or(text::DASH.into(), |own| match own.loss {
                    Some(loss) => format!("{:.2} %", loss * 100.0),
                    None => format!("< {} %", NEGLIGIBLE * 100.0),
                }),
                text::percent(self.simulated.dropped, self.simulated.offered),
                text::percent(c.dropped(), c.offered),
            ],
        ]
    }

    /// Returns true if the flow has a bound, but no measured packet that could have exceeded it.
    fn untried(&self) -> bool {
        self.guarantee.is_some() && self.measured.link.delay.count() == 0
    }
}

fn verdict(rows: &[ComparedFlow]) -> BoundVerdict {
    if rows.iter().any(ComparedFlow::broken) {
        return BoundVerdict::Broken;
    }
    doubt(rows).map_or(BoundVerdict::Kept, BoundVerdict::Inconclusive)
}

/// Returns the reason why the measurement is inconclusive about the link, if it is inconclusive.
fn doubt(rows: &[ComparedFlow]) -> Option<Doubt> {
    let named = |row: &ComparedFlow| row.name.clone();
    if let Some(row) = rows.iter().find(|r| r.untried()) {
        return Some(Doubt::Untried(named(row)));
    }
    if let Some(row) = rows.iter().find(|r| r.measured.unsent > 0) {
        return Some(Doubt::Unsent(named(row), row.measured.unsent));
    }
    let smallest = rows.iter().filter_map(ComparedFlow::bound).min()?;
    let is_late = |late: &Span| late.0.saturating_mul(10) > smallest.0;
    let released = rows.iter().filter_map(|r| r.measured.link.release_error.quantile(0.99)).max();
    if let Some(late) = released.filter(is_late) {
        return Some(Doubt::ReleasedLate(late));
    }
    let sent = rows.iter().filter_map(|r| Some((Span(r.measured.late_p99?), r)));
    let (late, row) = sent.max_by_key(|&(late, _)| late)?;
    is_late(&late).then(|| Doubt::SentLate(named(row), late))
}

/// Verdict from the bounds, the simulation and the measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BoundVerdict {
    Kept,
    Broken,
    Inconclusive(Doubt),
}

/// Reason why a measurement is inconclusive: a limit of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No packet of this flow reached the far end.
    Untried(String),
    /// The source of this flow had no time to send this number of its packets.
    Unsent(String, u64),
    /// The link delivered 1 packet in 100 later than this time after it was due.
    ReleasedLate(Span),
    /// The source of this flow sent 1 packet in 100 later than this time after it was due.
    SentLate(String, Span),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenth = "over a tenth of the smallest bound";
        match self {
            Doubt::Untried(flow) => write!(f, "no packet of flow {flow} reached the far end"),
            Doubt::Unsent(flow, packets) => {
                write!(f, "this host had no time to send {packets} packets of flow {flow}")
            }
            Doubt::ReleasedLate(late) => write!(
                f,
                "this host delivered 1 packet in 100 more than {} late, {tenth}",
                text::span(Some(*late))
            ),
            Doubt::SentLate(flow, late) => write!(
                f,
                "this host sent 1 packet in 100 of flow {flow} more than {} late, {tenth}",
                text::span(Some(*late))
            ),
        }
    }
}

/// The results of a comparison, not yet printed.
pub(crate) struct Comparison {
    pub(crate) rows: Vec<ComparedFlow>,
    measured: Measured,
    title: String,
    /// `notes`: notes about the simulation. `practice`: its warm-up and stopping rule, as JSON.
    notes: Vec<String>,
    practice: (Json, Json),
    /// True if the confidence intervals are as narrow as requested.
    enough: bool,
    /// True if Ctrl-C ended the simulation.
    pub(crate) interrupted: bool,
}

impl Comparison {
    /// Computes the guarantees of a measured scenario and simulates it. The measurement comes
    /// first, because namespaces must be created while the process has a single thread.
    pub(crate) fn of(
        scenario: &Scenario,
        plan: &SimulationPlan,
        mut measured: Measured,
    ) -> Result<Comparison> {
        let simulated = Replications::as_planned(scenario, plan)?;
        let links = &scenario.links;
        let changes = !scenario.changes.is_empty();
        let planned = plan_of(scenario)?;
        // With rules, packets also reach links that no source names.
        let told = if scenario.rules.is_empty() {
            fed_flows(scenario)
        } else {
            simulated.reached(scenario)
        };
        let mut rows = Vec::new();
        for at in told {
            let pipe = pipe_of(at.0, at.1);
            let way = &planned[pipe.0 as usize];
            rows.push(ComparedFlow {
                name: name_of(scenario, at),
                guarantee: way.flows[at.2].guarantee.clone().ok().filter(|_| !changes),
                expected: way.expected[at.2].clone(),
                simulated: simulated.flow(pipe, at.2),
                measured: std::mem::take(&mut measured.flows[pipe.0 as usize][at.2]),
            });
        }
        let what = links.iter().map(|link| {
            let up = &link.up;
            format!(
                "link {:?} {}, {}",
                link.name,
                text::link_rate(up.pipe.setup.rate),
                up.scheduler().kind
            )
        });
        let title = format!(
            "{}; simulated {} x {d}, measured {d} over {}",
            what.collect::<Vec<_>>().join("; "),
            simulated.len(),
            measured.over,
            d = scenario.run.duration,
        );
        let simulation = &simulated.simulation;
        let mut notes = simulation.notes(scenario);
        if changes {
            notes.push(
                "links change: no bound holds for the whole run; `falaj plan` has those of each \
                 phase"
                    .into(),
            );
        }
        Ok(Comparison {
            rows,
            measured,
            title,
            notes,
            practice: simulation.json(scenario),
            enough: simulation.is_enough(),
            interrupted: simulated.interrupted(),
        })
    }

    pub(crate) fn verdict(&self) -> BoundVerdict {
        verdict(&self.rows)
    }

    /// Returns the exit status: 130 after Ctrl-C, 1 if a bound was exceeded, 3 if the comparison is
    /// inconclusive or its intervals are not narrow enough, otherwise that of the capture.
    pub(crate) fn exit(&self) -> ExitCode {
        match self.verdict() {
            _ if self.interrupted => ExitCode::from(INTERRUPTED),
            BoundVerdict::Kept if !self.enough => ExitCode::from(INCONCLUSIVE),
            BoundVerdict::Kept => self.measured.capture,
            BoundVerdict::Broken => ExitCode::from(1),
            BoundVerdict::Inconclusive(_) => ExitCode::from(INCONCLUSIVE),
        }
    }

    /// Prints the table of bound, expected, simulated and measured values, the table of the other
    /// measurements, and the verdict.
    pub(crate) fn print(&self) {
        say!("{}", self.title);
        let mut header = vec!["in the link", "bound", "expected", "simulated", "measured"];
        let mut rows: Vec<Vec<String>> = self.rows.iter().flat_map(ComparedFlow::table).collect();
        if !self.rows.iter().any(|row| row.own().is_some()) {
            header.remove(EXPECTED);
            rows.iter_mut().for_each(|row| drop(row.remove(EXPECTED)));
        }
        say!("{}", text::table(&header, rows));
        self.tell_expected();
        let beside = self.rows.iter().map(|r| {
            let error = &r.measured.link.release_error;
            let end = &r.measured.received;
            vec![
                r.name.clone(),
                nanos(r.measured.late_p99),
                text::span(error.quantile(0.5)),
                text::span(error.quantile(0.99)),
                text::span(error.max()),
                nanos(end.p50),
                nanos(end.p99),
                nanos(end.max),
            ]
        });
        let header = [
            "measured beside",
            "sent late p99",
            "release error p50",
            "p99",
            "max",
            "end to end p50",
            "p99",
            "max",
        ];
        say!("{}", text::table(&header, beside));
        self.notes.iter().for_each(|note| say!("{note}"));
        tell_rules(&self.measured);
        tell_losses(&self.measured);
        self.rows.iter().for_each(|r| tell_unsent(&r.name, &r.measured));
        match self.verdict() {
            BoundVerdict::Kept => say!("every packet stayed within its bound"),
            BoundVerdict::Broken => {
                for r in self.rows.iter().filter(|r| r.broken()) {
                    say!("BROKEN: flow {} exceeded its bound of {}", r.name, text::span(r.bound()));
                }
            }
            BoundVerdict::Inconclusive(doubt) => say!("inconclusive: {doubt}"),
        }
    }

    /// Prints the reasons for missing averages, and the averages over several flows. Of equal lines
    /// in a row, only the first is printed.
    fn tell_expected(&self) {
        let note = |row: &ComparedFlow| match &row.expected {
            Err(why) => Some(format!("no averages are known: {why}")),
            Ok(e) if e.together.is_empty() => None,
            Ok(e) => Some(format!(
                "expected over all bytes of {}: delay mean {}",
                e.flows(),
                text::nanos(e.mean)
            )),
        };
        let mut notes: Vec<String> = self.rows.iter().filter_map(note).collect();
        notes.dedup();
        notes.iter().for_each(|note| say!("{note}"));
    }

    pub(crate) fn to_json(&self) -> Json {
        let delay = |m: &falaj_traffic::meter::Meter| {
            json!({
                "packets": m.count(), "mean_ns": m.mean_nanos(),
                "p50_ns": m.quantile(0.5).map(|s| s.0),
                "p99_ns": m.quantile(0.99).map(|s| s.0), "max_ns": m.max().map(|s| s.0),
            })
        };
        let flows: Vec<Json> = self
            .rows
            .iter()
            .map(|r| {
                json!({
                    "flow": r.name,
                    "bound_ns": r.bound().map(|s| s.0),
                    "formula": r.guarantee.as_ref().map(|p| p.delay.formula),
                    "guaranteed_rate": r.guarantee.as_ref().map(|p| p.rate.0),
                    "expected": falaj_plan::json::expected(&r.expected),
                    "simulated": {
                        "delay": delay(&r.simulated.delay),
                        "rate": r.simulated.sent_rate.map(|e| e.mean),
                        "offered": r.simulated.offered, "dropped": r.simulated.dropped,
                    },
                    "measured": {
                        "delay": delay(&r.measured.link.delay), "rate": r.measured.rate,
                        "offered": r.measured.link.counters.offered,
                        "dropped": r.measured.link.counters.dropped(),
                        "release_error": delay(&r.measured.link.release_error),
                        "end_to_end": r.measured.received,
                        "unsent": r.measured.unsent, "sent_late_p99_ns": r.measured.late_p99,
                    },
                    "broken": r.broken(),
                })
            })
            .collect();
        let (verdict, why) = match self.verdict() {
            BoundVerdict::Kept => ("kept", None),
            BoundVerdict::Broken => ("broken", None),
            BoundVerdict::Inconclusive(doubt) => ("inconclusive", Some(doubt.to_string())),
        };
        json!({
            "over": self.measured.over, "flows": flows, "rules": rules_json(&self.measured),
            "lost_elsewhere": losses(&self.measured),
            "complete": !self.interrupted, "verdict": verdict, "why": why,
            "warm_up": self.practice.0, "until": self.practice.1,
        })
    }
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if !args.others.is_empty() || !args.what_if.is_empty() {
        return pairs::main(args);
    }
    #[cfg(feature = "plots")]
    if args.svg.is_some() {
        bail!("--svg draws several scenarios: name another one, or --what-if");
    }
    if let Some(status) = args.virtual_time.take_over(args.practice.seed())? {
        return Ok(status);
    }
    let mut wanted = args.what.read(args.practice.seed())?;
    args.practice.apply(&mut wanted.scenario);
    let scenario = &wanted.scenario;
    if let Some(status) = args.virtual_time.take_over_for(&scenario.run)? {
        return Ok(status);
    }
    args.what.tell(scenario);
    let plan = args.practice.plan(scenario, WarmUp::Nothing)?;
    let measured = args.what.measure(&wanted, "measuring")?;
    let comparison = Comparison::of(scenario, &plan, measured)?;
    if args.what.json {
        say!("{}", serde_json::to_string_pretty(&comparison.to_json())?);
    } else {
        comparison.print();
    }
    Ok(comparison.exit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::contract::guarantee::Bound;
    use falaj_sched::units::rate::Rate;
    use falaj_traffic::meter::Meter;

    const BOUND: Option<u64> = Some(1_000_000);

    fn meter(of: &[u64]) -> Meter {
        let mut meter = Meter::new();
        of.iter().for_each(|&ns| meter.record(Span(ns)));
        meter
    }

    /// Returns a flow with this bound, these simulated and measured delays, and these release
    /// errors, all in ns.
    fn row(
        bound: Option<u64>,
        simulated: &[u64],
        measured: &[u64],
        errors: &[u64],
    ) -> ComparedFlow {
        let bound = bound.map(|b| Bound { delay: Span(b), formula: "", condition: "" });
        let guarantee = bound.map(|delay| Guarantee {
            rate: Rate(0),
            latency: Span::ZERO,
            rate_formula: "",
            delay,
            others: Vec::new(),
        });
        let mut flow = MeasuredFlow::default();
        flow.link.delay = meter(measured);
        flow.link.release_error = meter(errors);
        let simulated = SimulatedFlow { delay: meter(simulated), ..SimulatedFlow::default() };
        let expected = Err("no traffic".into());
        ComparedFlow { name: "a".into(), guarantee, expected, simulated, measured: flow }
    }

    #[test]
    fn a_bound_is_kept_to_the_nanosecond() {
        assert_eq!(verdict(&[row(BOUND, &[1_000_000], &[1_000_000], &[10])]), BoundVerdict::Kept);
        assert_eq!(
            verdict(&[row(BOUND, &[1_000_001], &[1], &[10])]),
            BoundVerdict::Broken,
            "simulated"
        );
        assert_eq!(
            verdict(&[row(BOUND, &[1], &[1, 1_000_001], &[10])]),
            BoundVerdict::Broken,
            "measured"
        );
        let other = row(Some(10), &[11], &[5], &[0]);
        assert_eq!(
            verdict(&[row(BOUND, &[1], &[1], &[0]), other]),
            BoundVerdict::Broken,
            "any flow's"
        );
    }

    /// Averages of a single flow are in the row of its simulation; averages over several flows are
    /// not.
    #[test]
    fn averages_are_a_column_of_their_own() {
        let cells = |together: &[&str], quantiles| {
            let mut row = row(BOUND, &[2_000], &[], &[]);
            let together = together.iter().map(|&name| name.to_owned()).collect();
            let formula = "M/D/1".to_owned();
            row.expected =
                Ok(Expected { mean: 2e3, quantiles, loss: Some(0.25), together, formula });
            row.table().map(|cells| cells[EXPECTED].clone())
        };
        let own = cells(&[], Some([1e3, 9e3]));
        assert_eq!(own, ["", "9.00 us", "1.00 us", "2.00 us", "", "25.00 %"]);
        assert_eq!(cells(&["a", "b"], None), ["", "—", "—", "—", "", "—"]);
    }

    #[test]
    fn a_late_machine_is_inconclusive_and_no_excuse() {
        let at_a_tenth = row(BOUND, &[1], &[1], &[100_000]);
        assert_eq!(verdict(&[at_a_tenth]), BoundVerdict::Kept);
        let late = row(BOUND, &[1], &[1], &[200_000]);
        let released = Doubt::ReleasedLate(Span(200_000));
        assert_eq!(verdict(&[late]), BoundVerdict::Inconclusive(released.clone()));
        let late_and_broken = row(BOUND, &[1], &[1_000_001], &[200_000]);
        assert_eq!(verdict(&[late_and_broken]), BoundVerdict::Broken);
        // One packet in a hundred may be late.
        let mut errors = vec![10; 199];
        errors.push(900_000);
        assert_eq!(verdict(&[row(BOUND, &[1], &[1], &errors)]), BoundVerdict::Kept);
        // Lateness is compared with the smallest bound, even for flows without a bound.
        let without = row(None, &[1], &[1], &[200_000]);
        let both = [row(BOUND, &[1], &[1], &[0]), without];
        assert_eq!(verdict(&both), BoundVerdict::Inconclusive(released));
    }

    #[test]
    fn a_late_source_is_told_from_a_late_link() {
        let late = |late, unsent| {
            let mut row = row(BOUND, &[1], &[1], &[0]);
            (row.measured.late_p99, row.measured.unsent) = (Some(late), unsent);
            verdict(&[row])
        };
        let inconclusive = BoundVerdict::Inconclusive;
        assert_eq!(late(100_000, 0), BoundVerdict::Kept);
        assert_eq!(late(100_001, 0), inconclusive(Doubt::SentLate("a".into(), Span(100_001))));
        assert_eq!(late(0, 1), inconclusive(Doubt::Unsent("a".into(), 1)));
    }

    #[test]
    fn what_was_not_measured_was_not_kept() {
        let untried = BoundVerdict::Inconclusive(Doubt::Untried("a".into()));
        assert_eq!(verdict(&[row(BOUND, &[1], &[], &[])]), untried);
        assert_eq!(
            verdict(&[row(None, &[1], &[9_000_000], &[9_000_000])]),
            BoundVerdict::Kept,
            "nothing was guaranteed"
        );
    }
}
