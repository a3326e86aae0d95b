//! Several links, which the thesis leaves to future work: its parking lot (Figure 4.2 b), and a
//! sink tree. One flow of low latency competes with flows whose packets are three times as large.
//!
//! Delays are those of flows that conform to a token bucket and send bursts as large as it allows;
//! each delay is compared with the bound of `falaj plan`. Shares are measured while every flow
//! sends at twice the link's rate.

use super::super::curves::{CurvePoint, FigureCell, FigureCurve, PaperFigure};
use super::super::verdict::Allowed;
use anyhow::{Context, Result, anyhow};
use falaj_plan::network::Routes;
use falaj_sched::units::time::Span;
use falaj_sim::scenario::experiment;
use falaj_sim::{Experiment, Run, simulate};
use falaj_terminal::file;
use std::fmt::Write;
use std::sync::atomic::AtomicBool;

/// The disciplines of all links: kind, name, and names of the curves.
const DISCIPLINES: [(&str, &str, [&str; 2]); 4] = [
    ("fifo", "FIFO", ["FIFO", "FIFO, bound"]),
    ("drr", "DRR", ["DRR", "DRR, bound"]),
    ("drr++", "DRR++", ["DRR++", "DRR++, bound"]),
    ("wf2q+", "WF2Q+", ["WF2Q+", "WF2Q+, bound"]),
];
/// Rate of each link, in bits per second.
const RATE: u64 = 10_000_000;
/// Number of links in the longest parking lot.
const LINKS: usize = 5;
/// Flows of cross traffic at each link of the parking lot.
const CROSS: usize = 3;
const DURATION: Span = Span::from_secs(20);
const BOUND: &str = "a bound of ours: nothing of it is printed";
const SHARE: &str = "three of the largest packets at each link, the fairness of deficit round \
                     robin (Shreedhar and Varghese 1996), in the 15 s that are counted";
const UNFAIR: &str = "less than a fair share, by more than the tolerance of the others";
/// Bytes of the largest packets.
const LARGEST: u32 = 1_500;
/// The time in overload before shares are counted.
const WARM_UP: Span = Span::from_secs(5);
/// The share of each flow at a link of the parking lot, if all are equal.
const FAIR: f64 = 1.0 / (CROSS + 1) as f64;

/// A network. Flow 0 is the flow of low latency.
struct LinkNetwork {
    links: usize,
    /// The links on the path of each flow.
    paths: Vec<Vec<usize>>,
    /// Rate in bit/s and burst in bytes of each flow except flow 0.
    other: (u64, u32),
}

/// The traffic of all flows.
#[derive(Clone, Copy, PartialEq)]
enum Demand {
    /// As much as a token bucket allows, in bursts.
    Envelope,
    /// Twice the link's rate, at random.
    Overload,
}

impl LinkNetwork {
    /// Links in a row, with one flow over all links and [`CROSS`] flows at each link.
    fn parking_lot(links: usize) -> LinkNetwork {
        let cross = (0..links).flat_map(|link| vec![vec![link]; CROSS]);
        let paths = [(0..links).collect()].into_iter().chain(cross).collect();
        LinkNetwork { links, paths, other: (2_300_000, 6_000) }
    }

    /// A binary tree of seven links. A flow from each link leads to the root, link 0; the flow of
    /// low latency starts at a leaf.
    fn sink_tree() -> LinkNetwork {
        let before = |link: &usize| link.checked_sub(1).map(|link| link / 2);
        let path = |from: usize| std::iter::successors(Some(from), before).collect();
        LinkNetwork { links: 7, paths: (0..7).rev().map(path).collect(), other: (800_000, 6_000) }
    }

    fn scenario(&self, kind: &str, demand: Demand) -> String {
        let mut text = String::from("[run]\nduration = \"20s\"\n");
        for link in 0..self.links {
            let _ = write!(
                text,
                "\n[link.l{link}]\nrate = \"{RATE}bit\"\nlayer = \"ip\"\nmtu = \"1500B\"\n\
                 scheduler = {{ kind = \"{kind}\" }}\n"
            );
            if kind == "fifo" {
                let _ =
                    write!(text, "[link.l{link}.flow.all]\nmatch = \"any\"\nqueue = \"300p\"\n");
                continue;
            }
            for (n, _) in self.paths.iter().enumerate().filter(|(_, path)| path.contains(&link)) {
                let latency = if kind == "drr++" && n == 0 { "latency = \"low\"\n" } else { "" };
                let _ = write!(
                    text,
                    "[link.l{link}.flow.f{n}]\nmatch = \"udp dport {}\"\n{latency}\
                     queue = \"300p\"\n",
                    5_000 + n
                );
            }
        }
        for (n, path) in self.paths.iter().enumerate() {
            let to: Vec<String> = path.iter().map(|link| format!("\"l{link}\"")).collect();
            let (to, port) = (to.join(", "), 5_000 + n);
            let _ = write!(text, "\n[[rule]]\nmatch = \"udp dport {port}\"\nto = [{to}]\n");
        }
        text.push_str("\n[[rule]]\nto = \"drop\"\n");
        for n in 0..self.paths.len() {
            let (size, (rate, burst)) =
                if n == 0 { (500, (1_000_000, 1_500)) } else { (1_500, self.other) };
            let _ = write!(
                text,
                "\n[traffic.f{n}]\nheaders = \"udp dport {}\"\nsize = \"{size}B\"\n",
                5_000 + n
            );
            let _ = match demand {
                Demand::Envelope => write!(
                    text,
                    "model = \"greedy\"\nallowed = {{ rate = \"{rate}bit\", burst = \"{burst}B\" }}\n"
                ),
                Demand::Overload => {
                    write!(text, "model = \"poisson\"\nrate = \"{}bit\"\n", 2 * RATE)
                }
            };
        }
        text
    }

    /// The largest delay and the bound of each of the first `flows` flows, in milliseconds.
    fn delays(&self, kind: &str, flows: usize) -> Result<Vec<(f64, f64)>> {
        let scenario = file::parse_quietly(&self.scenario(kind, Demand::Envelope), "topology")?;
        let ways = falaj_plan::plan(&scenario).map_err(|errors| anyhow!("{errors:?}"))?;
        let routes = Routes::of(&scenario, &ways).map_err(|why| anyhow!("{why}"))?;
        let run = ran(&experiment(&scenario, DURATION))?;
        let delay = |(n, outlook): (usize, falaj_plan::network::Outlook<'_>)| {
            let largest = run.ways[n].max().context("a flow sent nothing")?;
            let bound = outlook.delay.with_context(|| format!("no bound: {:?}", outlook.none))?;
            Ok((largest.as_micros_f64() / 1e3, bound.as_micros_f64() / 1e3))
        };
        routes.outlooks(None).into_iter().enumerate().take(flows).map(delay).collect()
    }

    /// The share of a link's rate that the flow of low latency has at the end of its path.
    fn share(&self, kind: &str) -> Result<f64> {
        let scenario = file::parse_quietly(&self.scenario(kind, Demand::Overload), "topology")?;
        let run = ran(&Experiment { warm_up: WARM_UP, ..experiment(&scenario, DURATION) })?;
        let bits = run.ways[0].count() * 500 * 8;
        Ok(bits as f64 / run.counted().as_secs_f64() / RATE as f64)
    }
}

fn ran(experiment: &Experiment) -> Result<Run> {
    simulate(experiment, 1, &AtomicBool::new(false)).map_err(|(_, errors)| anyhow!("{errors:?}"))
}

/// Largest possible distance of a flow's share from its fair share of the last link's rate, as
/// [`SHARE`] states.
fn unfairness() -> f64 {
    let bits = f64::from(LARGEST * 8) * 3.0 * LINKS as f64;
    bits / (RATE as f64 * DURATION.saturating_sub(WARM_UP).as_secs_f64())
}

/// The parking lot.
pub(super) fn parking_lot() -> Result<PaperFigure> {
    let mut curves = Vec::new();
    let mut cells = Vec::new();
    for (kind, name, names) in DISCIPLINES {
        let mut points = [Vec::new(), Vec::new()];
        let mut of_bound = 0.0f64;
        for links in 1..=LINKS {
            // The cross traffic offers more than its guarantee under DRR++, and has no bound there.
            let delays = LinkNetwork::parking_lot(links).delays(kind, 1)?;
            let &(largest, bound) = delays.first().context("there is no flow")?;
            of_bound = of_bound.max(largest / bound);
            for (points, y) in points.iter_mut().zip([largest, bound]) {
                points.push(CurvePoint { x: links as f64, y, off: None });
            }
        }
        cells.push(kept(format!("{name}: largest delay over its bound, at most"), of_bound));
        let near = |share: f64| Allowed::within(share - unfairness(), share + unfairness());
        let (allowed, source) = match kind {
            "fifo" => (Allowed::most(FAIR - unfairness()), UNFAIR),
            // Visits to the two groups of flows alternate, with equal quanta.
            "drr++" => (near(0.5), SHARE),
            _ => (near(FAIR), SHARE),
        };
        cells.push(FigureCell {
            statement: format!("{name}: share of the flow over {LINKS} links in overload"),
            allowed: allowed.bound(),
            unit: "",
            source,
            ours: LinkNetwork::parking_lot(LINKS).share(kind)?,
        });
        let [delays, bounds] = points;
        curves.push(FigureCurve { name: names[0], points: delays });
        curves.push(FigureCurve { name: names[1], points: bounds });
    }
    let longest = |curve: usize| {
        let last = curves.get(curve).and_then(|curve: &FigureCurve| curve.points.last());
        last.map_or(f64::NAN, |point| point.y)
    };
    let over = longest(4) / longest(2);
    cells.push(kept("DRR++: largest delay over that of DRR, over all links".into(), over));
    Ok(figure(
        "Parking lot",
        "one flow over several links, with cross traffic at each",
        "links",
        curves,
        cells,
    ))
}

/// The sink tree.
pub(super) fn sink_tree() -> Result<PaperFigure> {
    let mut curves = Vec::new();
    let mut cells = Vec::new();
    for (kind, name, names) in DISCIPLINES {
        let delays = LinkNetwork::sink_tree().delays(kind, 7)?;
        let of_bound = delays.iter().map(|(largest, bound)| largest / bound).fold(0.0, f64::max);
        cells.push(kept(format!("{name}: largest delay over its bound, of all flows"), of_bound));
        let curve = |name, of: fn(&(f64, f64)) -> f64| {
            let point = |(n, delay)| CurvePoint { x: n as f64, y: of(delay), off: None };
            FigureCurve { name, points: delays.iter().enumerate().map(point).collect() }
        };
        curves.push(curve(names[0], |delay| delay.0));
        curves.push(curve(names[1], |delay| delay.1));
    }
    Ok(figure(
        "Sink tree",
        "a binary tree of seven links, with a flow from each to the root",
        "flow (0: low latency, from a leaf)",
        curves,
        cells,
    ))
}

fn kept(statement: String, ours: f64) -> FigureCell {
    FigureCell { statement, allowed: Allowed::most(1.0).bound(), unit: "", source: BOUND, ours }
}

fn figure(
    label: &str,
    title: &str,
    x: &'static str,
    curves: Vec<FigureCurve>,
    cells: Vec<FigureCell>,
) -> PaperFigure {
    PaperFigure {
        label: label.into(),
        title: title.into(),
        x,
        y: "largest delay (ms)",
        curves,
        notes: vec![
            "Links of 10 Mbit/s. The flow of low latency sends packets of 500 B at 1 Mbit/s in \
             bursts of 1500 B, the others packets of 1500 B in bursts of 6000 B. Delays are from \
             end to end; bounds are those of `falaj plan`."
                .into(),
        ],
        cells,
        ..PaperFigure::default()
    }
}

/// DRR++ within the kernel, which falaj does not have.
pub(super) fn in_the_kernel() -> PaperFigure {
    let mut figure = figure("In the kernel", "DRR++ within the Linux kernel", "", vec![], vec![]);
    figure.notes = vec![
        "Instead, `examples/plugins/c/drr_plus_plus.c` is DRR++ in C, in one file. The tests of \
         `falaj-plugin` compare it with the built-in discipline packet by packet."
            .into(),
    ];
    figure.found = vec![(super::AS_A_QDISC, f64::NAN)];
    figure
}
