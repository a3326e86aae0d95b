//! `falaj bench sched`: the cost of a discipline per packet, that is, of one enqueue and one
//! dequeue. The discipline is built by the registry and called through the scheduler contract, with
//! limits and counters on.
//!
//! The experiment is that of Rizzo's talk on dummynet: a controller fills the scheduler to `qmax`
//! packets and drains it to `qmin`, repeatedly. The result is the time of one enqueue and dequeue,
//! including the time of controller and generator. `none` is a list of packets in place of the
//! discipline; the cost of a discipline is its time less that of `none`. The clock advances by each
//! packet's transmission time.

mod against;
mod drive;
mod flowsets;
mod generator;
mod instructions;
#[cfg(feature = "plots")]
mod plot;
mod record;
mod regimes;
pub mod wfi;

use super::median;
use anyhow::{Context, Result, anyhow, bail, ensure};
use drive::{DrivenRun, Subject, UnderTest};
use falaj_sched::registry::ENTRIES;
use falaj_terminal::interrupt::{Interrupted, interrupts};
#[cfg(feature = "plots")]
use falaj_terminal::place;
use falaj_terminal::{progress, text};
use flowsets::{Flowsets, Number, Packets, short};
use regimes::REGIMES;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Arguments of `bench sched`.
#[derive(clap::Args, Clone)]
pub struct Args {
    /// The load, if no flows are given: `published`, or another one that `--list` prints.
    #[arg(conflicts_with_all = ["flowsets", "flows"])]
    load: Option<String>,
    /// Print the available loads and disciplines.
    #[arg(long)]
    list: bool,
    /// Disciplines, separated by commas, or regimes that `--list` prints, such as `hfsc/real-time`
    /// [default: all]. `none` is always included. Any other name with a `/` is the path of a
    /// plug-in's library, whose flows get `weight` and `quantum`.
    #[arg(long, visible_alias = "discipline", value_delimiter = ',', value_name = "KIND")]
    alg: Vec<String>,
    /// Flows as `weight:length:flows,…`; weight and length may be `low-high-steps`. May be given
    /// again.
    #[arg(long, value_name = "LIST")]
    flowsets: Vec<Flowsets>,
    /// Numbers of flows, separated by commas; all have weight 1 and packets of 1000 B.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    flows: Vec<Number>,
    /// Drain the queues to this number of packets; `1n` is one for each flow.
    #[arg(long, value_name = "PACKETS")]
    qmin: Option<Packets>,
    /// Fill the queues to this number of packets; `20n` is 20 for each flow [default: 1, and then
    /// 20n].
    #[arg(long, value_name = "PACKETS")]
    qmax: Option<Packets>,
    /// Pairs of enqueue and dequeue for each figure, rounded up to whole fillings and drainings.
    #[arg(short, default_value = "1M", value_name = "PAIRS")]
    n: Number,
    /// Runs for each figure, all disciplines in turn; the table shows the median, `--json` also the
    /// minimum.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Also measure each discipline in a pipe of an engine, as `KIND/engine`.
    #[arg(long)]
    engine: bool,
    /// Compare with dummynet's own test program, run alternately with falaj's measurement.
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["instructions", "engine"])]
    against: Option<PathBuf>,
    /// Write the nanoseconds of all disciplines, net of `none`, with machine and date to this file,
    /// for the reference page of the disciplines: 256 flows, filled to 20 packets each and drained.
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["instructions", "against", "engine",
        "alg", "load", "flows", "flowsets", "qmin", "qmax"])]
    record: Option<PathBuf>,
    /// Count instructions instead of time; needs valgrind.
    #[arg(long)]
    instructions: bool,
    /// Compare the instructions with those that this file has for the same compiler; 5 % more are
    /// allowed.
    #[arg(long, value_name = "FILE", requires = "instructions")]
    check: Option<PathBuf>,
    /// Plot the times over the number of flows, as `*.svg`, `*.png` or `*.pdf`.
    #[cfg(feature = "plots")]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["instructions", "against"])]
    plot: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Run once under valgrind, and mark the instructions to count.
    #[arg(long, hide = true)]
    counted: bool,
}

/// A load that was published, or that is measured regularly.
struct NamedLoad {
    name: &'static str,
    doc: &'static str,
    flowsets: &'static [&'static str],
}

const LOADS: &[NamedLoad] = &[
    NamedLoad {
        name: "published",
        doc: "Rizzo's plot: equal flows, 1, 2, 4 … 64k of them; and 64k flows of mixed sizes",
        flowsets: &[
            "1::1", "1::2", "1::4", "1::8", "1::16", "1::32", "1::64", "1::128", "1::256",
            "1::512", "1::1k", "1::2k", "1::4k", "1::8k", "1::16k", "1::32k", "1::64k", MIXED,
        ],
    },
    NamedLoad {
        name: "mixes",
        doc: "flows of one and of several weights and sizes, one to forty thousand of them",
        flowsets: &[
            "1:1500:1",
            "1::8",
            "1::64",
            "1::512",
            ONES_TO_HUNDREDS[0],
            ONES_TO_HUNDREDS[1],
            ONES_TO_HUNDREDS[2],
            "1:64:128,1:200:128,1:576:128,1:1500:128",
            "1::32k,2::4k,4::2k,8::1k,128::16,1k::1",
            MIXED,
        ],
    },
    NamedLoad { name: "mixed", doc: "64k flows of four packet sizes", flowsets: &[MIXED] },
    NamedLoad { name: "million", doc: "a million equal flows", flowsets: &["1::1m"] },
];

const MIXED: &str = "1:64:16k,1:200:16k,1:576:16k,1:1500:16k";
const ONES_TO_HUNDREDS: [&str; 3] = [
    "1::1,2::1,4::1,8::1,16::1,32::1,64::1,100::1",
    "1::8,2::8,4::8,8::8,16::8,32::8,64::8,100::8",
    "1::64,2::64,4::64,8::64,16::64,32::64,64::64,100::64",
];

impl Args {
    fn flowsets(&self) -> Result<Vec<Flowsets>> {
        let mut all = self.flowsets.clone();
        for Number(n) in &self.flows {
            ensure!((1..=1 << 22).contains(n), "1 to 4m flows will do");
            all.push(Flowsets::equal(*n as u32));
        }
        if self.record.is_some() {
            all.push(record::FLOWS.parse()?);
        }
        if all.is_empty() {
            let name = self.load.as_deref().unwrap_or(LOADS[0].name);
            let load = LOADS.iter().find(|load| load.name == name);
            let load =
                load.with_context(|| format!("no load is called `{name}`; `--list` names them"))?;
            all = load.flowsets.iter().map(|text| text.parse()).collect::<Result<_>>()?;
        }
        Ok(all)
    }

    /// Limits of draining and filling. By default there are two cases: nearly empty, and 20 packets
    /// for each flow.
    fn swings(&self) -> Vec<(Packets, Packets)> {
        match (self.qmin, self.qmax) {
            (None, None) if self.record.is_none() => {
                vec![(Packets::all(0), Packets::all(1)), (Packets::all(0), Packets::each(20))]
            }
            (qmin, qmax) => {
                vec![(qmin.unwrap_or(Packets::all(0)), qmax.unwrap_or(Packets::each(20)))]
            }
        }
    }

    fn whats(&self) -> Result<Vec<UnderTest>> {
        let mut subjects = Vec::new();
        for name in self.alg.iter().filter(|name| *name != "none") {
            let regime = regimes::regime(name);
            if regime.is_none() && name.contains('/') {
                let library = falaj_plugin::load(Path::new(name), name);
                subjects.push(Subject::plugin(
                    library.map_err(|wrong| anyhow!("{}; {}", wrong.what, wrong.help))?,
                ));
                continue;
            }
            let kind = regime.map_or(name.as_str(), |regime| regime.kind);
            let entry = ENTRIES.iter().find(|entry| entry.kind == kind);
            let entry = entry.with_context(|| {
                format!("no discipline is called `{name}`; `--list` names them, and a library is named by its path, `./libmine.so`")
            });
            subjects.push(Subject::built_in(entry?, regime));
        }
        if self.alg.is_empty() {
            subjects.extend(ENTRIES.iter().map(|entry| Subject::built_in(entry, None)));
        }
        let mut whats = vec![UnderTest::Nothing];
        for subject in subjects {
            whats.push(UnderTest::Station(subject.clone()));
            whats.extend(self.engine.then_some(UnderTest::Engine(subject)));
        }
        Ok(whats)
    }

    /// All cases; the nearly empty ones come first.
    fn cases(&self) -> Result<Vec<LoadCase>> {
        let flowsets = self.flowsets()?;
        let case = |(qmin, qmax): (Packets, Packets), flowsets: &Flowsets| {
            let flows = flowsets.flows();
            let (low, high) = (qmin.of(flows), qmax.of(flows));
            ensure!(
                low < high,
                "cannot fill to {qmax} and drain to {qmin} packets: --qmax must exceed --qmin"
            );
            Ok(LoadCase { flowsets: flowsets.clone(), qmin, qmax })
        };
        self.swings()
            .into_iter()
            .flat_map(|swing| flowsets.iter().map(move |f| case(swing, f)))
            .collect()
    }
}

/// The load of a discipline.
#[derive(Clone)]
struct LoadCase {
    flowsets: Flowsets,
    qmin: Packets,
    qmax: Packets,
}

impl LoadCase {
    fn run(&self) -> DrivenRun<'_> {
        let flows = self.flowsets.flows();
        DrivenRun { flowsets: &self.flowsets, qmin: self.qmin.of(flows), qmax: self.qmax.of(flows) }
    }
    fn swing(&self) -> String {
        format!("{}..{}", self.qmin, self.qmax)
    }
    /// The number of flows, if all are equal, with weight 1 and packets of 1000 B.
    fn equal_flows(&self) -> Option<u32> {
        match self.flowsets.sets[..] {
            [set] if set.weight == 1 && set.bytes == 1000 => Some(set.flows),
            _ => None,
        }
    }
}

/// The results of one discipline.
#[derive(Clone)]
struct DisciplineFigures {
    name: String,
    /// For each case the figures of all runs, or the reason why the discipline refuses the case.
    figures: Vec<Result<Vec<f64>, String>>,
}

impl DisciplineFigures {
    fn median(&self, case: usize) -> Option<f64> {
        self.figures[case].as_ref().ok().filter(|f| !f.is_empty()).map(|f| median(f.clone()))
    }
    fn least(&self, case: usize) -> Option<f64> {
        self.figures[case].as_ref().ok()?.iter().copied().min_by(f64::total_cmp)
    }
}

/// Runs `falaj bench sched`.
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
        list();
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(args.n.0 > 0, "-n: one pair at least");
    if args.counted {
        return instructions::counted(args);
    }
    if args.instructions {
        return instructions::main(args);
    }
    if let Some(program) = &args.against {
        return against::main(args, program);
    }
    let cases = args.cases()?;
    #[cfg(feature = "plots")]
    if args.plot.is_some() {
        // Errors are reported before the long measurement.
        plot::swings(&cases)?;
    }
    let rows = measure(args, &cases)?;
    if let Some(file) = &args.record {
        record::write(file, &cases, &rows, args.repeat.max(1))?;
    }
    #[cfg(feature = "plots")]
    if let Some(path) = &args.plot {
        let picture = plot::svg(&cases, &rows)?;
        falaj_pictures::save_one(path, &picture)?;
        eprintln!("wrote {}", path.display());
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&to_json(&cases, &rows))?);
    } else {
        say!("ns of CPU for each packet enqueued and dequeued; medians of {}", args.repeat.max(1));
        print(&cases, &rows);
    }
    Ok(ExitCode::SUCCESS)
}

fn list() {
    say!("Loads:");
    for load in LOADS {
        say!("  {:<12} {}", load.name, load.doc);
    }
    say!(
        "\nEach nearly empty (0..1 packets) and filled and drained (0..20n: 20 for each flow).\n\nDisciplines:"
    );
    say!(
        "  {:<14} a list of packets: what generator, controller and clock cost by themselves",
        "none"
    );
    for entry in ENTRIES {
        say!("  {:<14} {}", entry.kind, entry.doc);
    }
    say!("\nRegimes of disciplines, each flow with an equal part:");
    for regime in REGIMES {
        say!("  {:<19} {}", regime.name, regime.doc);
    }
}

/// Minimum costs of disciplines per pair of enqueue and dequeue, `none` first. A run that takes
/// longer than the minimum was disturbed by other work of the machine.
pub(crate) struct Costs {
    pub(crate) disciplines: Vec<String>,
    pub(crate) cases: Vec<DisciplineCost>,
}

/// Costs of the disciplines with one set of flows.
pub(crate) struct DisciplineCost {
    pub(crate) flowsets: String,
    pub(crate) flows: u32,
    /// Minima in nanoseconds, in the order of the disciplines; `None` for a discipline that refuses
    /// such flows.
    pub(crate) nanos: Vec<Option<f64>>,
}

/// Measures these disciplines under a load, nearly empty, or filled to 20 packets for each flow and
/// drained.
pub(crate) fn costs(
    load: &str,
    kinds: &[&str],
    filled: bool,
    pairs: u64,
    repeat: usize,
) -> Result<Costs> {
    let args = Args {
        load: Some(load.to_owned()),
        list: false,
        alg: kinds.iter().map(|&kind| kind.to_owned()).collect(),
        flowsets: Vec::new(),
        flows: Vec::new(),
        qmin: Some(Packets::all(0)),
        qmax: Some(if filled { Packets::each(20) } else { Packets::all(1) }),
        n: Number(pairs),
        repeat,
        engine: false,
        against: None,
        record: None,
        instructions: false,
        check: None,
        #[cfg(feature = "plots")]
        plot: None,
        json: false,
        counted: false,
    };
    let cases = args.cases()?;
    let rows = measure(&args, &cases)?;
    if rows.iter().any(|row| {
        row.figures.iter().any(|figures| figures.as_ref().is_ok_and(|f| f.len() < repeat))
    }) {
        return Err(Interrupted("while measuring").into());
    }
    let cost = |(i, case): (usize, &LoadCase)| DisciplineCost {
        flowsets: case.flowsets.text.clone(),
        flows: case.flowsets.flows(),
        nanos: rows.iter().map(|row| row.least(i)).collect(),
    };
    Ok(Costs {
        cases: cases.iter().enumerate().map(cost).collect(),
        disciplines: rows.iter().map(|row| row.name.clone()).collect(),
    })
}

/// Runs all disciplines and cases in turn, round after round. So other work of the machine affects
/// all alike, and a slow period never affects all runs of a case. Ctrl-C ends the measurement,
/// which then has the results up to that point.
fn measure(args: &Args, cases: &[LoadCase]) -> Result<Vec<DisciplineFigures>> {
    let whats = args.whats()?;
    let repeat = args.repeat.max(1);
    let name = |what: &UnderTest| match what {
        UnderTest::Engine(_) => format!("{}/engine", what.discipline()),
        what => what.discipline().to_owned(),
    };
    let mut rows: Vec<DisciplineFigures> = whats
        .iter()
        .map(|what| DisciplineFigures {
            name: name(what),
            figures: vec![Ok(Vec::new()); cases.len()],
        })
        .collect();
    let stop = interrupts()?;
    stop.store(false, Ordering::Relaxed);
    let bar = progress::long_bar((cases.len() * repeat * whats.len()) as u64, "measuring");
    for round in 0..repeat {
        for (i, case) in cases.iter().enumerate() {
            for (what, row) in whats.iter().zip(&mut rows) {
                if stop.load(Ordering::Relaxed) {
                    bar.finish_and_clear();
                    eprintln!(
                        "interrupted: {round} of {repeat} rounds, and {i} of {} loads",
                        cases.len()
                    );
                    return Ok(rows);
                }
                if let Ok(figures) = &mut row.figures[i] {
                    match case.run().nanos(what, args.n.0) {
                        Ok(nanos) => figures.push(nanos),
                        Err(why) => row.figures[i] = Err(why),
                    }
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    stop.store(true, Ordering::Relaxed);
    if rows.iter().all(|row| row.figures.iter().all(Result::is_err)) {
        bail!("no discipline takes these flows");
    }
    Ok(rows)
}

fn to_json(cases: &[LoadCase], rows: &[DisciplineFigures]) -> serde_json::Value {
    let mut all = Vec::new();
    for (i, case) in cases.iter().enumerate() {
        for row in rows {
            let median = row.median(i);
            let net = median.zip(rows[0].median(i)).map(|(all, none)| all - none);
            all.push(json!({
                "discipline": row.name, "flowsets": case.flowsets.text,
                "flows": case.flowsets.flows(),
                "qmin": case.qmin.of(case.flowsets.flows()),
                "qmax": case.qmax.of(case.flowsets.flows()),
                "least": row.least(i), "median": median, "net": net,
                "refused": row.figures[i].as_ref().err(),
            }));
        }
    }
    all.into()
}

/// Prints a table for each swing (limits of draining and filling): a line for each load, a column
/// for each discipline.
fn print(cases: &[LoadCase], rows: &[DisciplineFigures]) {
    let mut first = 0;
    while first < cases.len() {
        let swing = cases[first].swing();
        let end = first + cases[first..].iter().take_while(|case| case.swing() == swing).count();
        let header: Vec<&str> =
            std::iter::once("flows").chain(rows.iter().map(|row| row.name.as_str())).collect();
        let line = |i: usize| {
            let none = rows[0].median(i);
            let mut cells =
                vec![cases[i].equal_flows().map_or_else(|| cases[i].flowsets.text.clone(), short)];
            cells.extend(rows.iter().enumerate().map(|(r, row)| match (row.median(i), none) {
                (Some(all), Some(none)) if r > 0 => format!("{all:.1} ({:+.1})", all - none),
                (Some(all), _) => format!("{all:.1}"),
                (None, _) => text::DASH.into(),
            }));
            cells
        };
        say!(
            "\n{swing} packets (in parentheses: net of `none`)\n{}",
            text::table(&header, (first..end).map(line))
        );
        first = end;
    }
    for row in rows {
        for (case, figures) in cases.iter().zip(&row.figures) {
            if let Err(why) = figures {
                say!("{} does not accept {}: {why}", row.name, case.flowsets.text);
                break;
            }
        }
    }
}
