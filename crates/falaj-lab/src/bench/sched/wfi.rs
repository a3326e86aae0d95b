//! `falaj bench wfi`: the maximum lag of a flow behind its share, for each discipline, under the
//! load of `bench sched`, and under the worst arrivals that a search finds.

#[cfg(feature = "plots")]
mod heat;

use super::flowsets::{Flowsets, Packets};
use super::generator::{Buffer, Controller, FULL, PacketSink};
use super::{LOADS, drive};
use anyhow::{Context, Result, bail, ensure};
use falaj_engine::adversary::{AdversaryStep, Lag, Subject};
use falaj_engine::fairness::{Sizes, WfiBound};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Emit, Engine, Output, PipeId, fairness};
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{FlowSetup, Kind, Setup, Value, Values};
use falaj_sched::queues::queue::{Limit, Packet};
use falaj_sched::registry::{ENTRIES, entry};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::interrupt::interrupts;
#[cfg(feature = "plots")]
use falaj_terminal::place;
use falaj_terminal::{progress, text};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Arguments of `bench wfi`.
#[derive(clap::Args, Clone)]
#[command(after_help = "\
B-WFI, in bytes: maximum lag of a flow behind its share of the bytes sent by the link, over any
part of a backlog that ends with one of its departures. T-WFI: maximum time by which a packet leaves
later than if its flow's queue were served at the flow's own rate. The named flow is the one whose
B-WFI is the largest fraction of its bound, or of WF2Q+'s if no bound is known. A
\"conditional\" bound may be exceeded. --json has the formulas.

Examples:
  falaj bench wfi
  falaj bench wfi --alg qfq,wf2q+,drr --flowsets 100:1500,1:1500:500
  falaj bench wfi --plot wfi.svg
  falaj bench wfi --search --alg wf2q --flowsets 4:1500,1:1500:3 --effort 100000 > worst
  falaj bench wfi --replay worst --alg wf2q,wf2q+ --flowsets 4:1500,1:1500:3")]
pub struct Args {
    /// The load, if no flows are given: `service`, or another one that `--list` prints.
    #[arg(conflicts_with = "flowsets")]
    load: Option<String>,
    /// Print the available loads and disciplines.
    #[arg(long)]
    list: bool,
    /// Disciplines, separated by commas [default: all that divide a link by weights, and some
    /// others].
    #[arg(long, visible_alias = "discipline", value_delimiter = ',', value_name = "KIND")]
    alg: Vec<String>,
    /// Flows as `weight:length:flows,…`; weight and length may be `low-high-steps`. May be given
    /// again.
    #[arg(long, value_name = "LIST")]
    flowsets: Vec<Flowsets>,
    /// Drain the queues to this number of packets; `1n` is one for each flow.
    #[arg(long, value_name = "PACKETS", conflicts_with_all = ["search", "replay"])]
    qmin: Option<Packets>,
    /// Fill the queues to this number of packets; `30n` is 30 for each flow, and the maximum.
    #[arg(long, value_name = "PACKETS", default_value = "30n",
        conflicts_with_all = ["search", "replay"])]
    qmax: Packets,
    /// Search for the arrivals that make a flow lag most, instead of filling and draining.
    #[arg(long)]
    search: bool,
    /// Number of arrival sequences that the search tries for each discipline.
    #[arg(long, default_value_t = 20_000, requires = "search",
        value_parser = falaj_terminal::arguments::number::<u64>(1..=1 << 32))]
    effort: u64,
    /// Seed of the search's random numbers.
    #[arg(long, default_value_t = 1, requires = "search")]
    seed: u64,
    /// Send the packets of this file. Each line has the arrival time in microseconds, the flow,
    /// numbered from 0, and the bytes.
    #[arg(long, value_name = "FILE", conflicts_with = "search")]
    replay: Option<PathBuf>,
    /// Draw a table of disciplines and loads, as `*.svg`, `*.png` or `*.pdf`; the larger the lag of
    /// the worst flow, the darker the cell.
    #[cfg(feature = "plots")]
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The mixes of flows with which dummynet's service quality was measured: nine mixes.
const SERVICE: super::NamedLoad = super::NamedLoad {
    name: "service",
    doc: "one heavy flow among light ones, and equal ones: the mixes with which dummynet's QFQ was measured",
    flowsets: &[
        "1:1500:10",
        "1:1500:64",
        "10:1500,1:1500:10",
        "20:1500,1:1500:20",
        "50:1500,1:1500:50",
        "100:1500,1:1500:500",
        "1:1500:512,100:1500",
        "100:64,1:1500:100",
        "64000:1500,1280:1500:50",
    ],
};

/// A load with flows few enough for a search.
const SEARCHED: super::NamedLoad = super::NamedLoad {
    name: "few",
    doc: "a heavy flow among light ones, few enough to search among",
    flowsets: &["4:1500,1:1500:3"],
};

/// Disciplines in the default list that do not divide a link by weights.
const BESIDE: [&str; 5] = ["fifo", "priority", "rr", "drr", "virtual-clock"];

/// At this rate a byte takes a microsecond, so that all instants are whole microseconds.
const RATE: Rate = Rate::from_mbit(8);

/// Gives the flows the same shares with any discipline, by the discipline's own parameters.
fn spec(entry: &'static Manifest, flowsets: &Flowsets, limit: Limit) -> Result<PipeSpec, String> {
    let (weights, largest) = (flowsets.weights(), flowsets.largest());
    let mut setup = Setup {
        rate: RATE,
        largest,
        scheduler: Values::default(),
        flows: Vec::with_capacity(flowsets.flows() as usize),
    };
    for set in &flowsets.sets {
        let weight = u64::from(set.weight);
        let mut values = Values::default();
        for param in entry.flow {
            let value = match param.name {
                "weight" => Value::Count(weight),
                "quantum" => Value::Bytes(weight * u64::from(largest)),
                "rate" => Value::Rate(Rate(RATE.0 * weight / weights)),
                // The heaviest flow has the highest priority.
                "priority" => Value::Count(
                    flowsets.sets.iter().filter(|other| other.weight > set.weight).count() as u64,
                ),
                _ => continue,
            };
            match (value, param.kind) {
                (Value::Count(n), Kind::Count { min, max }) if !(min..=max).contains(&n) => {
                    return Err(format!("`{}` is {min} to {max}, not {n}", param.name));
                }
                _ => values.set(param.name, value),
            }
        }
        let flow = FlowSetup::new(values, limit);
        setup.flows.extend(std::iter::repeat_n(flow, set.flows as usize));
    }
    for param in entry.scheduler.iter().filter(|param| param.default.is_none()) {
        let value = drive::needed(param, &setup);
        setup.scheduler.set(param.name, value);
    }
    Ok(PipeSpec::new(entry.kind, setup, Span::ZERO))
}

/// Maximum number of packets. All of them are kept until they are evaluated.
const MOST_PACKETS: u64 = 1 << 22;

/// An engine that records the packets sent.
struct RecordingEngine {
    engine: Engine,
    now: Time,
    out: Vec<Output>,
    sent: Vec<Emit>,
    /// Number of recorded packets that have left.
    left: usize,
}

const PIPE: PipeId = PipeId(0);

impl RecordingEngine {
    fn read(&mut self) {
        self.sent.extend(
            self.out.drain(..).filter_map(|o| if let Output::Emit(e) = o { Some(e) } else { None }),
        );
    }
}

impl PacketSink for RecordingEngine {
    fn enqueue(&mut self, packet: Packet, _: &mut [Buffer]) -> bool {
        let unit = Unit { flow: packet.flow, handle: packet.handle, bytes: packet.bytes };
        let before = self.engine.counters(PIPE, packet.flow).dropped();
        self.engine.input(PIPE, unit, self.now, &mut self.out);
        self.read();
        self.engine.counters(PIPE, packet.flow).dropped() == before
    }
    fn dequeue(&mut self, _: &mut [Buffer]) -> Option<(u32, u32)> {
        loop {
            let on_wire = self.sent.get(self.left).copied();
            let due = self.engine.next_event();
            if due == Time::NEVER && on_wire.is_none() {
                return None;
            }
            self.now = on_wire.map_or(due, |emit| emit.end);
            self.engine.poll(self.now, &mut self.out);
            self.read();
            if let Some(emit) = on_wire {
                self.left += 1;
                return Some((emit.handle, emit.flow.0));
            }
        }
    }
    fn now(&self) -> Time {
        self.now
    }
}

/// The result of a discipline with one set of flows.
enum FairnessOutcome {
    Refused(String),
    Measured {
        lag: Lag,
        known: Option<WfiBound>,
        t_wfi: f64,
        /// Maximum lag of any flow at any instant, in bytes.
        behind: f64,
        steps: Option<(Vec<AdversaryStep>, u64)>,
    },
}

struct FairnessFigures {
    kind: &'static str,
    flowsets: String,
    outcome: FairnessOutcome,
}

impl Args {
    fn entries(&self) -> Result<Vec<&'static Manifest>> {
        if self.alg.is_empty() {
            let by_weight = |e: &&Manifest| {
                e.flow.iter().any(|p| p.name == "weight") || BESIDE.contains(&e.kind)
            };
            return Ok(ENTRIES.iter().filter(by_weight).collect());
        }
        let known = |kind: &String| {
            entry(kind)
                .with_context(|| format!("no discipline is called `{kind}`; `--list` names them"))
        };
        self.alg.iter().map(known).collect()
    }

    fn all_flowsets(&self) -> Result<Vec<Flowsets>> {
        if !self.flowsets.is_empty() {
            return Ok(self.flowsets.clone());
        }
        let default =
            if self.search || self.replay.is_some() { SEARCHED.name } else { SERVICE.name };
        let name = self.load.as_deref().unwrap_or(default);
        let mut loads = LOADS.iter().chain([&SERVICE, &SEARCHED]);
        let load = loads.find(|load| load.name == name);
        let load =
            load.with_context(|| format!("no load is called `{name}`; `--list` names them"))?;
        load.flowsets.iter().map(|text| text.parse()).collect()
    }

    /// The worst flow when queues are filled and drained twice.
    fn fill_and_drain(
        &self,
        spec: &PipeSpec,
        flowsets: &Flowsets,
        weights: &[u64],
    ) -> Result<FairnessOutcome> {
        let flows = flowsets.flows();
        let (qmin, qmax) = (self.qmin.map_or(0, |qmin| qmin.of(flows)), self.qmax.of(flows));
        ensure!(
            qmin < qmax,
            "cannot fill to {} and drain to {qmin} packets: --qmax must exceed --qmin",
            self.qmax
        );
        let packets = qmax.min(u64::from(FULL) * u64::from(flows));
        ensure!(
            packets <= MOST_PACKETS,
            "{packets} packets are too many to keep; at most {MOST_PACKETS}"
        );
        let engine = match Engine::new(std::slice::from_ref(spec)) {
            Ok(engine) => engine,
            Err((_, refused)) => return Ok(FairnessOutcome::Refused(refused.to_string())),
        };
        let mut bed =
            RecordingEngine { engine, now: Time::ZERO, out: Vec::new(), sent: Vec::new(), left: 0 };
        let mut controller = Controller::new(flowsets, qmin, qmax);
        controller.run(&mut bed, 1);
        controller.run(&mut bed, 1);
        let sent = &bed.sent[..bed.left];
        let lag =
            Subject { spec, weights, largest: &[] }.lag_of(sent).context("nothing was sent")?;
        Ok(outcome(spec, weights, sent, lag, None))
    }

    fn one(
        &self,
        entry: &'static Manifest,
        flowsets: &Flowsets,
        case: &mut FairnessCase<'_>,
    ) -> Result<FairnessOutcome> {
        let limit =
            Limit::Packets(if self.search || self.replay.is_some() { 1 << 20 } else { FULL + 1 });
        let spec = match spec(entry, flowsets, limit) {
            Ok(spec) => spec,
            Err(why) => return Ok(FairnessOutcome::Refused(why)),
        };
        let weights: Vec<u64> = flowsets.each().map(|set| set.weight.into()).collect();
        let largest: Vec<u32> = flowsets.each().map(|set| set.bytes).collect();
        let subject = Subject { spec: &spec, weights: &weights, largest: &largest };
        let steps = match case.steps {
            None if !self.search => return self.fill_and_drain(&spec, flowsets, &weights),
            None => match subject.search(self.seed, self.effort, case.stop, &mut case.tried) {
                Ok(Some(found)) => (found.steps, found.tried),
                Ok(None) => bail!("interrupted before anything was tried"),
                Err(refused) => return Ok(FairnessOutcome::Refused(refused.to_string())),
            },
            Some(steps) => {
                let fits = |s: &AdversaryStep| {
                    (s.flow as usize) < largest.len() && (1..=flowsets.largest()).contains(&s.bytes)
                };
                let bad = steps.iter().position(|s| !fits(s));
                if let Some(line) = bad {
                    let AdversaryStep { flow, bytes, .. } = steps[line];
                    bail!(
                        "packet {}: flow {flow} of {}, {bytes} B of at most {}",
                        line + 1,
                        largest.len(),
                        flowsets.largest()
                    );
                }
                (steps.to_vec(), 1)
            }
        };
        let sent = match subject.run(&steps.0) {
            Ok(sent) => sent,
            Err(refused) => return Ok(FairnessOutcome::Refused(refused.to_string())),
        };
        let lag = subject.lag_of(&sent).context("nothing was sent")?;
        Ok(outcome(&spec, &weights, &sent, lag, self.search.then_some(steps)))
    }
}

/// The mixes of flows with which dummynet's service was measured.
pub(crate) const MIXES: &[&str] = SERVICE.flowsets;

/// The maximum lag of a flow behind its share.
pub(crate) struct WorstService {
    /// Maximum lag at any instant, in bytes. The flow's own packet in transmission does not count
    /// yet.
    pub(crate) behind: f64,
    /// B-WFI in bytes, at the flow's own departures. The flow is the one whose B-WFI is the largest
    /// fraction of its bound, or of WF2Q+'s bound if none is known.
    pub(crate) b_wfi: f64,
    /// The bound for that flow, if one is known.
    pub(crate) bound: Option<f64>,
}

/// The worst service of these flows, either when queues are filled and drained, or over a number of
/// arrival sequences.
pub(crate) fn service(kind: &str, flowsets: &str, load: ServiceLoad) -> Result<WorstService> {
    let (qmin, effort) = match load {
        ServiceLoad::Filled { from } => (from, None),
        ServiceLoad::Searched { effort } => (0, Some(effort)),
    };
    let args = Args {
        load: None,
        list: false,
        alg: Vec::new(),
        flowsets: Vec::new(),
        qmin: Some(Packets::each(qmin)),
        qmax: Packets::each(FULL.into()),
        search: effort.is_some(),
        effort: effort.unwrap_or(0),
        seed: 1,
        replay: None,
        #[cfg(feature = "plots")]
        plot: None,
        json: false,
    };
    let entry = entry(kind).with_context(|| format!("no discipline is called `{kind}`"))?;
    let stop = interrupts()?;
    stop.store(false, Ordering::Relaxed);
    let one = args.one(
        entry,
        &flowsets.parse()?,
        &mut FairnessCase { steps: None, stop: &stop, tried: &mut || () },
    );
    stop.store(true, Ordering::Relaxed);
    match one? {
        FairnessOutcome::Refused(why) => bail!("{kind} does not accept {flowsets}: {why}"),
        FairnessOutcome::Measured { lag, known, behind, .. } => Ok(WorstService {
            behind,
            b_wfi: lag.fairness.b_wfi.amount,
            bound: known.map(|known| known.bytes[lag.flow]),
        }),
    }
}

/// The load of a measurement of service.
#[derive(Clone, Copy)]
pub(crate) enum ServiceLoad {
    /// Queues are filled to 30 packets each and drained to `from`, twice.
    Filled { from: u64 },
    /// The worst of `effort` arrival sequences.
    Searched { effort: u64 },
}

/// The common settings of all disciplines.
struct FairnessCase<'a> {
    steps: Option<&'a [AdversaryStep]>,
    stop: &'a std::sync::atomic::AtomicBool,
    tried: &'a mut dyn FnMut(),
}

fn outcome(
    spec: &PipeSpec,
    weights: &[u64],
    sent: &[Emit],
    lag: Lag,
    steps: Option<(Vec<AdversaryStep>, u64)>,
) -> FairnessOutcome {
    let mut sizes = vec![Sizes::default(); weights.len()];
    sent.iter().for_each(|e| sizes[e.flow.index()].add(e.bytes));
    let known = fairness::known(spec.kind, weights, &sizes, spec.setup.largest);
    let all = fairness::measure(spec.setup.rate, weights, sent);
    let t_wfi = all.iter().flatten().map(|index| index.t_wfi.amount).fold(f64::MIN, f64::max);
    // Immediately before a departure, the flow's own packet in transmission does not count yet:
    // neither as its service, nor in the total that the link has sent.
    let total = weights.iter().sum::<u64>() as f64;
    let behind = |(n, index): (usize, &Option<fairness::Fairness>)| {
        let own = 1.0 - weights[n] as f64 / total;
        index.map_or(0.0, |index| index.b_wfi.amount + own * f64::from(sizes[n].largest))
    };
    let behind = all.iter().enumerate().map(behind).fold(0.0, f64::max);
    FairnessOutcome::Measured { lag, known, t_wfi, behind, steps }
}

/// Reads lines of instant, flow and bytes; lines that begin with `#` are comments.
fn read(path: &PathBuf) -> Result<Vec<AdversaryStep>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (mut steps, mut last) = (Vec::new(), 0);
    for (n, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let what =
            || format!("{}:{}: `{line}` is not `microseconds flow bytes`", path.display(), n + 1);
        let [at, flow, bytes] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            bail!(what())
        };
        let at = parse_micros(at).with_context(what)?;
        ensure!(at >= last, "{}:{}: earlier than the packet before it", path.display(), n + 1);
        let (flow, bytes) = (flow.parse().with_context(what)?, bytes.parse().with_context(what)?);
        steps.push(AdversaryStep { gap: Span(at - last), flow, bytes });
        last = at;
    }
    ensure!(!steps.is_empty(), "{} has no packets", path.display());
    Ok(steps)
}

/// Microseconds as nanoseconds; up to a day.
fn parse_micros(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || part.len() > 3 || !digits(whole) || !digits(part) {
        return None;
    }
    let whole: u64 = whole.parse().ok().filter(|&us| us <= 86_400_000_000)?;
    Some(whole * 1_000 + format!("{part:0<3}").parse::<u64>().ok()?)
}

/// Runs `falaj bench wfi`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    #[cfg(feature = "plots")]
    if let Some(path) = &args.plot {
        if !place::is_one_picture("--plot", path)? {
            bail!("--plot {}: one picture; name it `*.svg`, `*.png` or `*.pdf`", path.display());
        }
        place::try_file(path)?;
    }
    if args.list {
        say!("Loads:");
        for load in LOADS.iter().chain([&SERVICE, &SEARCHED]) {
            say!("  {:<12} {}", load.name, load.doc);
        }
        say!("\nDisciplines:");
        for entry in args.entries()? {
            say!("  {:<14} {}", entry.kind, entry.doc);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (entries, flowsets) = (args.entries()?, args.all_flowsets()?);
    let steps = args.replay.as_ref().map(read).transpose()?;
    let stop = interrupts()?;
    stop.store(false, Ordering::Relaxed);
    let each = if args.search { args.effort } else { 1 };
    let bar = progress::long_bar((entries.len() * flowsets.len()) as u64 * each, "measuring");
    let mut rows = Vec::new();
    'all: for sets in &flowsets {
        ensure!(
            !args.search || sets.flows() <= 64,
            "the search is for few flows: 64 at most, not {}",
            sets.flows()
        );
        for entry in &entries {
            let mut tried = || bar.inc(1);
            let mut case = FairnessCase { steps: steps.as_deref(), stop: &stop, tried: &mut tried };
            if stop.load(Ordering::Relaxed) {
                note!(
                    "interrupted: {} of {} results are complete",
                    rows.len(),
                    entries.len() * flowsets.len()
                );
                break 'all;
            }
            rows.push(FairnessFigures {
                kind: entry.kind,
                flowsets: sets.text.clone(),
                outcome: args.one(entry, sets, &mut case)?,
            });
            if !args.search {
                bar.inc(1);
            } else {
                // Nothing is tried for a discipline that refuses the flows.
                bar.set_position(rows.len() as u64 * each);
            }
        }
    }
    bar.finish_and_clear();
    stop.store(true, Ordering::Relaxed);
    #[cfg(feature = "plots")]
    if let Some(path) = &args.plot {
        falaj_pictures::save_one(path, &heat::svg(&rows)?)?;
        note!("wrote {}", path.display());
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&rows.iter().map(to_json).collect::<Vec<_>>())?);
    } else {
        print(args, &rows);
    }
    Ok(ExitCode::SUCCESS)
}

fn to_json(row: &FairnessFigures) -> serde_json::Value {
    match &row.outcome {
        FairnessOutcome::Refused(why) => {
            json!({ "discipline": row.kind, "flowsets": row.flowsets, "refused": why })
        }
        FairnessOutcome::Measured { lag, known, t_wfi, steps, .. } => json!({
            "discipline": row.kind, "flowsets": row.flowsets, "flow": lag.flow,
            "b_wfi": lag.fairness.b_wfi.amount, "from": lag.fairness.b_wfi.from.0,
            "to": lag.fairness.b_wfi.to.0,
            "t_wfi": t_wfi, "t_wfi_of_flow": lag.fairness.t_wfi.amount,
            "bound": known.as_ref().map(|known| known.bytes[lag.flow]),
            "formula": known.as_ref().map(|known| known.formula),
            "condition": known.as_ref().and_then(|known| known.condition),
            "of_bound": known.as_ref().map(|_| lag.ratio),
            "of_wf2q+": known.is_none().then_some(lag.ratio),
            "tried": steps.as_ref().map(|(_, tried)| tried),
            "arrivals": steps.as_ref().map(|(steps, _)| instants(steps)
                .map(|(at, s)| json!({
                    "at": at.0, "flow": s.flow, "bytes": s.bytes,
                })).collect::<Vec<_>>()),
        }),
    }
}

fn instants(steps: &[AdversaryStep]) -> impl Iterator<Item = (Time, &AdversaryStep)> {
    steps.iter().scan(Time::ZERO, |now, step| {
        *now += step.gap;
        Some((*now, step))
    })
}

/// Microseconds in the format of `--replay`.
fn micros(at: Time) -> String {
    let text = format!("{}.{:03}", at.0 / 1_000, at.0 % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Prints a table for each set of flows; after a search, the arrivals too, and then all other lines
/// are comments for `--replay`.
fn print(args: &Args, rows: &[FairnessFigures]) {
    let mark = if args.search { "# " } else { "" };
    say!(
        "{mark}bytes behind the fluid share at own departures (B-WFI), at 8 Mbit/s: a byte takes 1 us"
    );
    let header = ["", "B-WFI", "of flow", "from us", "to us", "bound", "used", "T-WFI of all"];
    for rows in rows.chunk_by(|a, b| a.flowsets == b.flowsets) {
        say!("{mark}\n{mark}{}", rows[0].flowsets);
        let cells = |row: &FairnessFigures| match &row.outcome {
            FairnessOutcome::Refused(_) => None,
            FairnessOutcome::Measured { lag, known, t_wfi, .. } => {
                let worst = lag.fairness.b_wfi;
                let mut cells =
                    vec![row.kind.to_owned(), format!("{:.0}", worst.amount), lag.flow.to_string()];
                cells.extend([micros(worst.from), micros(worst.to)]);
                cells.push(
                    known
                        .as_ref()
                        .map_or(text::DASH.into(), |known| format!("{:.0}", known.bytes[lag.flow])),
                );
                cells.push(known.as_ref().map_or(text::DASH.into(), |known| {
                    let doubt = if known.condition.is_some() { " (conditional)" } else { "" };
                    format!("{:.1} %{doubt}", 100.0 * lag.ratio)
                }));
                cells.push(format!("{:.3} ms", t_wfi / 1e6));
                Some(cells)
            }
        };
        let table = text::table(&header, rows.iter().filter_map(cells)).to_string();
        table.lines().for_each(|line| say!("{mark}{line}"));
        for row in rows {
            match &row.outcome {
                FairnessOutcome::Refused(why) => {
                    say!("{mark}{} does not accept these flows: {why}", row.kind);
                }
                FairnessOutcome::Measured { steps: Some((steps, tried)), .. } => {
                    say!(
                        "#\n# {}: worst of {tried} sequences; microseconds, flow, bytes",
                        row.kind
                    );
                    instants(steps)
                        .for_each(|(at, s)| say!("{} {} {}", micros(at), s.flow, s.bytes));
                }
                FairnessOutcome::Measured { .. } => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_as_they_are_written() {
        for at in [0, 1, 999, 1_000, 1_500, 120_034_005] {
            assert_eq!(parse_micros(&micros(Time(at))), Some(at), "{}", micros(Time(at)));
        }
        for text in ["", ".5", "1.2345", "-1", "1e3", "99999999999999999999", "1.é"] {
            assert_eq!(parse_micros(text), None, "{text}");
        }
    }
}
