//! The paper's servers as scenario files, and the results of a scenario over its seeds.

use anyhow::Result;
use falaj_engine::{Engine, PipeId};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_sim::scenario::experiment;
use falaj_sim::simulate::FlowResult;
use falaj_sim::{Progress, replicate};
use falaj_terminal::file;
use falaj_traffic::interval::Estimate;
use serde::Serialize;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) const FIRST_SEED: u64 = 1;

/// The simulated time and the number of seeds of each scenario.
#[derive(Clone, Copy, Serialize)]
pub(super) struct SimulationEffort {
    pub(super) seconds: f64,
    pub(super) seeds: usize,
}

/// A server of the links.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum LinkServer {
    PhaseWise,
    PacketWise,
    PacketWiseSkip,
    /// Deficit round robin with this quantum in bytes.
    Drr(u32),
    /// Packet-wise with the preset `clean`, and with additions to the paper.
    Clean {
        lend: bool,
        carry: bool,
    },
    /// Packet-wise with the preset `clean`, with the first link divided into two parts: one has a
    /// tenth of the link's load, the other has the rest. The parts share one queue, or DRR serves
    /// them.
    Divided {
        drr: bool,
    },
}

impl LinkServer {
    pub(super) fn name(self) -> String {
        match self {
            LinkServer::PhaseWise => "phase-wise".into(),
            LinkServer::PacketWise => "packet-wise".into(),
            LinkServer::PacketWiseSkip => "packet-wise, tail skipped".into(),
            LinkServer::Drr(quantum) => format!("DRR, quantum {quantum} B"),
            LinkServer::Clean { lend: false, carry: false } => "plain".into(),
            LinkServer::Clean { lend: true, carry: false } => "lending".into(),
            LinkServer::Clean { lend: false, carry: true } => "tail carried".into(),
            LinkServer::Clean { lend: true, carry: true } => "both".into(),
            LinkServer::Divided { drr: false } => "one queue".into(),
            LinkServer::Divided { drr: true } => "DRR within".into(),
        }
    }

    fn scheduler(self) -> &'static str {
        match self {
            LinkServer::PhaseWise => r#"kind = "virtual-links", serve = "phase-wise""#,
            LinkServer::PacketWise => {
                r#"kind = "virtual-links", serve = "packet-wise", preset = "paper""#
            }
            LinkServer::PacketWiseSkip => {
                r#"kind = "virtual-links", serve = "packet-wise", preset = "paper", tail = "skip""#
            }
            LinkServer::Drr(_) => r#"kind = "drr""#,
            LinkServer::Clean { carry: false, .. } | LinkServer::Divided { .. } => {
                r#"kind = "virtual-links", serve = "packet-wise", preset = "clean""#
            }
            LinkServer::Clean { carry: true, .. } => {
                r#"kind = "virtual-links", serve = "packet-wise", preset = "clean", tail = "carry""#
            }
        }
    }

    /// The keys of a link of this type with this phase.
    fn flow(self, kind: char, phase: Span) -> String {
        match self {
            LinkServer::Drr(quantum) => format!("quantum = \"{quantum}B\"\n"),
            LinkServer::Clean { lend: true, .. } => {
                format!("kind = \"{kind}\"\nphase = \"{phase}\"\nlend = \"yes\"\n")
            }
            _ => format!("kind = \"{kind}\"\nphase = \"{phase}\"\n"),
        }
    }
}

/// The parts of a divided link: their names, and their percentages of its load.
pub(super) const PARTS: [(&str, u64); 2] = [("small", 10), ("rest", 90)];

/// A virtual link: its type, and the load offered to it in Mbit/s.
pub(super) type VirtualLink = (char, u64);

/// The line's rate and the phase of each link; loads are in Mbit/s at any scale.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    pub(super) rate: &'static str,
    pub(super) phase: Span,
}

/// The paper's scale.
pub(super) const PUBLISHED: Scale = Scale { rate: "1gbit", phase: Span::from_micros(30) };

/// The scenario file. The paper counts payload, and all packets have the maximum size.
pub(super) fn scenario_text(
    title: &str,
    links: &[VirtualLink],
    server: LinkServer,
    scale: Scale,
    effort: SimulationEffort,
) -> String {
    let mut text = format!(
        "# Fortuna and Chydzinski, {title}\n\n[run]\nduration = \"{}s\"\nseed = {FIRST_SEED}\nreplications = {}\n\n\
         [link.virtual]\nrate = \"{}\"\nlayer = \"payload\"\nmtu = \"528B\"\nscheduler = {{ {} }}\n",
        effort.seconds,
        effort.seeds,
        scale.rate,
        server.scheduler()
    );
    for (i, (kind, mbit)) in links.iter().enumerate() {
        let n = i + 1;
        let rule =
            if n == links.len() { "any".to_owned() } else { format!("udp dport {}", 5000 + n) };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n[link.virtual.flow.v{n}]\nmatch = \"{rule}\"\n{}",
            server.flow(*kind, scale.phase)
        );
        let source = |name: &str, flow: &str, kbit: u64| {
            format!(
                "\n[traffic.{name}]\nflow = \"{flow}\"\nmodel = \"poisson\"\nrate = \"{kbit}kbit\"\nsize = \"500B\"\n"
            )
        };
        match server {
            LinkServer::Divided { drr } if i == 0 => {
                let scheduler =
                    if drr { "kind = \"drr\"" } else { "kind = \"fifo\", queue = \"20p\"" };
                let _ = writeln!(text, "scheduler = {{ {scheduler} }}");
                for (part, share) in PARTS {
                    let rule = if part == "rest" { "any".to_owned() } else { rule.clone() };
                    let _ = write!(
                        text,
                        "\n[link.virtual.flow.v{n}.flow.{part}]\nmatch = \"{rule}\"\nqueue = \"10p\"\n{}",
                        source(part, &format!("v{n}/{part}"), mbit * 10 * share)
                    );
                }
            }
            _ => {
                text.push_str("queue = \"20p\"\n");
                if *mbit > 0 {
                    text.push_str(&source(&format!("v{n}"), &format!("v{n}"), mbit * 1000));
                }
            }
        }
    }
    text
}

/// The results of one link of a scenario, over all seeds.
pub(super) struct Ours {
    /// Output rate in Mbit/s.
    pub(super) out: Estimate,
    /// Output rate in Mbit/s and mean delay in us of each seed's run.
    pub(super) runs: Vec<[f64; 2]>,
    pub(super) offered: f64,
    /// Mean delay in us.
    pub(super) avg: Estimate,
    /// The maximum delay over all seeds, and the smallest of the seeds' maxima, in us.
    pub(super) max: f64,
    pub(super) least_max: f64,
    /// The guaranteed delay in us; `None` without a guarantee.
    pub(super) bound: Option<f64>,
}

impl Ours {
    /// Returns true if the link loses packets. In this case the paper's output rate has no sampling
    /// error; otherwise the load of the paper's run differs from the nominal load by sampling.
    pub(super) fn saturated(&self) -> bool {
        self.out.mean < 0.995 * self.offered
    }
}

/// Progress and cancellation of long runs.
#[derive(Clone, Copy)]
pub(super) struct ProgressWatch<'a> {
    pub(super) bar: &'a indicatif::ProgressBar,
    /// Set by Ctrl-C.
    pub(super) stop: &'a AtomicBool,
}

/// Runs a scenario; returns the results of its links, or of their parts, with `None` for those
/// without load. The result is empty if the run was stopped.
pub(super) fn run(
    links: &[VirtualLink],
    server: LinkServer,
    effort: SimulationEffort,
    watch: ProgressWatch<'_>,
) -> Result<Vec<Option<Ours>>> {
    let scenario =
        file::parse_quietly(&scenario_text("", links, server, PUBLISHED, effort), "fortuna")?;
    let experiment = experiment(&scenario, scenario.run.duration);
    // The bar counts runs: whenever the simulated times of all runs add up to the length of another
    // run, it advances.
    let simulated = AtomicU64::new(0);
    let gone = |span: Span| {
        let before = simulated.fetch_add(span.0, Ordering::Relaxed);
        watch.bar.inc((before + span.0) / experiment.duration.0 - before / experiment.duration.0);
    };
    let progress = Progress { gone: &gone, stop: watch.stop };
    let runs = replicate(&experiment, FIRST_SEED, effort.seeds, &progress)
        .map_err(|(_, refused)| refused)?;
    if runs.len() < effort.seeds || runs.iter().any(|run| !run.complete) {
        return Ok(Vec::new());
    }
    let engine =
        Engine::new(&[scenario.links[0].up.pipe.clone()]).map_err(|(_, refused)| refused)?;
    let duration = experiment.duration;
    let link = |f: usize| -> Option<Ours> {
        let flows: Vec<_> = runs.iter().map(|r| &r.pipes[0][f]).collect();
        let of = |values: Vec<f64>| Estimate::of(&values);
        let maxima: Vec<f64> =
            flows.iter().filter_map(|r| r.delay.max()).map(|s| s.as_micros_f64()).collect();
        let guarantee = engine.guarantee(PipeId(0), FlowId(f as u32)).ok();
        let out = |r: &FlowResult| r.delivered_rate(duration) / 1e6;
        let avg = |r: &FlowResult| r.delay.mean_nanos().map(|ns| ns / 1e3);
        Some(Ours {
            out: of(flows.iter().map(|r| out(r)).collect())?,
            runs: flows.iter().filter_map(|r| Some([out(r), avg(r)?])).collect(),
            offered: of(flows.iter().map(|r| r.offered_rate(duration) / 1e6).collect())?.mean,
            avg: of(flows.iter().filter_map(|r| avg(r)).collect())?,
            max: maxima.iter().copied().fold(0.0, f64::max),
            least_max: maxima.iter().copied().fold(f64::INFINITY, f64::min),
            bound: guarantee.map(|p| p.delay.delay.as_micros_f64()),
        })
    };
    Ok((0..scenario.links[0].up.flows.len()).map(link).collect())
}
