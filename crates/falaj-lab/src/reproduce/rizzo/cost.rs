//! Cost: nanoseconds per packet enqueued and dequeued, on this machine, under the loads of `falaj
//! bench sched`, compared with dummynet's test program. Only the shape of the curves is judged,
//! because nanoseconds depend on the machine.

use super::super::curves::{Axes, CurvePoint, FigureCurve, PaperFigure, Published};
use super::MeasuringEffort;
use super::published::{COSTS, FLOWS, MIXED, PublishedCost, TALK};
use crate::bench::sched::{Costs, costs};
use crate::bench::{masks, path};
use anyhow::{Context, Result};

/// The disciplines that are measured, and the names of the curves: `none`, then the disciplines in
/// the same order.
const KINDS: [&str; 6] = ["fifo", "drr", "priority", "qfq", "wf2q+", "timer-wheels"];
const NAMES: [&str; 7] = ["none", "fifo", "drr", "priority", "qfq", "wf2q+", "timer-wheels"];

/// The measured costs among equal flows.
struct Equal(Costs);

impl Equal {
    fn nanos(&self, kind: &str, flows: u32) -> Result<f64> {
        let place = self
            .0
            .disciplines
            .iter()
            .position(|name| name == kind)
            .context("a discipline that was measured")?;
        let case = self
            .0
            .cases
            .iter()
            .find(|case| case.flows == flows)
            .context("flows that were measured")?;
        case.nanos[place].context("flows that it takes")
    }

    /// The ratio of the costs at two numbers of flows.
    fn ratio(&self, kind: &str, of: u32, over: u32) -> Result<f64> {
        Ok(self.nanos(kind, of)? / self.nanos(kind, over)?)
    }

    fn net(&self, kind: &str, flows: u32) -> Result<f64> {
        Ok(self.nanos(kind, flows)? - self.nanos("none", flows)?)
    }

    /// 1 if each discipline costs at least as much as the one before it, with this number of flows;
    /// else 0.
    fn in_order(&self, kinds: &[&str], flows: u32) -> Result<f64> {
        let all = kinds.iter().map(|kind| self.nanos(kind, flows)).collect::<Result<Vec<f64>>>()?;
        Ok(f64::from(u8::from(all.is_sorted())))
    }
}

/// Figures 10 and 11.
pub(super) fn equal(effort: MeasuringEffort, filled: bool) -> Result<PaperFigure> {
    let measured = costs("published", &KINDS, filled, effort.pairs, effort.repeat)?;
    let mut curves = Vec::new();
    for (n, name) in NAMES.into_iter().enumerate() {
        // Flow sets of mixed sizes, which come last, are left out.
        let alike = measured.cases.iter().filter(|case| !case.flowsets.contains(','));
        let points = alike
            .filter_map(|case| {
                Some(CurvePoint { x: case.flows.into(), y: case.nanos[n]?, off: None })
            })
            .collect();
        curves.push(FigureCurve { name, points });
    }
    let mut published = Published::default();
    for (PublishedCost { name, empty, full }, ours) in COSTS.into_iter().zip(NAMES) {
        let all = if filled { full } else { empty };
        let points = FLOWS.iter().zip(all).filter_map(|(&x, y)| Some((f64::from(x), y?)));
        published = published.and(name, Some(ours), points);
    }
    published = published.and("none, drr, qfq in 2010, published", None, TALK);
    let all = Equal(measured);
    let mut found = vec![
        ("DRR at 1k flows, over 16", all.ratio("drr", 1_024, 16)?),
        ("QFQ at 1k flows, over 16", all.ratio("qfq", 1_024, 16)?),
        ("QFQ's own cost over DRR's, at 1k flows", all.net("qfq", 1_024)? / all.net("drr", 1_024)?),
        (
            "at 1k flows each costs more: none, FIFO, DRR, QFQ",
            all.in_order(&["none", "fifo", "drr", "qfq"], 1_024)?,
        ),
    ];
    if filled {
        let growth = all.ratio("wf2q+", 1_024, 16)?;
        found.extend([
            (
                "WF2Q+ grows: at 1k flows over 16, beyond DRR's",
                f64::from(u8::from(growth > 1.25 * all.ratio("drr", 1_024, 16)?)),
            ),
            ("QFQ alone in its scheduler, over 16 flows", all.ratio("qfq", 1, 16)?),
            (
                "KPS's own cost over QFQ's, by our timer wheels",
                all.net("timer-wheels", 1_024)? / all.net("qfq", 1_024)?,
            ),
        ]);
    } else {
        found.push(("WF2Q+ at 1k flows, over 16", all.ratio("wf2q+", 1_024, 16)?));
        let [whole, classified] = path::cost(20, effort.pairs, effort.repeat)?;
        let emulated = masks::cost_of_links(1_000, effort.pairs, effort.repeat)?;
        found.extend([
            ("headers and classifier with 20 rules", classified),
            ("emulation with 1000 pipes", emulated),
            ("classifier, scheduling and emulation together", whole),
        ]);
    }
    let (how, swing) = if filled {
        ("filled to 20 packets for each flow, and drained", "0..20n")
    } else {
        ("nearly empty", "0..1")
    };
    Ok(PaperFigure {
        title: format!("cost of a packet, {how}, by number of equal flows"),
        x: "flows",
        y: "ns",
        axes: Axes::Doublings,
        curves,
        published,
        notes: vec![
            format!(
                "The least of {} runs of {} packets, all in turn, {swing} queued; `none` is what \
                 generator and controller cost. Published: dummynet's own test program by gcc -O3 \
                 on an AMD EPYC of two processors. The talk, on a desktop of 2010: none 60 ns, and \
                 beyond that DRR 55, QFQ 110, KPS more than 400.",
                effort.repeat, effort.pairs
            ),
            "`falaj bench sched published` has more of it; with `--against PROGRAM` dummynet's program runs alternately with falaj's measurement."
                .into(),
        ],
        found,
        ..PaperFigure::default()
    })
}

/// Figure 12: flows of several weights and sizes.
pub(super) fn mixes(effort: MeasuringEffort) -> Result<PaperFigure> {
    let [empty, full] = [false, true].map(|filled| {
        costs("mixes", &["drr", "qfq", "wf2q+"], filled, effort.pairs, effort.repeat)
    });
    let (empty, full) = (empty?, full?);
    let of = |costs: &Costs, kind: usize| -> Vec<CurvePoint> {
        let nine = costs.cases.iter().zip(1u32..).take(MIXED.len());
        nine.filter_map(|(case, x)| {
            Some(CurvePoint { x: x.into(), y: case.nanos[kind]?, off: None })
        })
        .collect()
    };
    let theirs = |kind: usize, filled: bool| {
        MIXED.iter().zip(1u32..).map(move |(mix, x)| (x.into(), mix[kind][usize::from(filled)]))
    };
    // The names of the curves, with the panel in the place of a unit; beside each the name of the
    // published values.
    const EMPTY: [[&str; 2]; 3] = [
        ["drr (ns, nearly empty)", "drr, published (ns, nearly empty)"],
        ["qfq (ns, nearly empty)", "qfq, published (ns, nearly empty)"],
        ["wf2q+ (ns, nearly empty)", "wf2q+, published (ns, nearly empty)"],
    ];
    const FILLED: [[&str; 2]; 3] = [
        ["drr (ns, filled)", "drr, published (ns, filled)"],
        ["qfq (ns, filled)", "qfq, published (ns, filled)"],
        ["wf2q+ (ns, filled)", "wf2q+, published (ns, filled)"],
    ];
    let mut curves = Vec::new();
    let mut published = Published::default();
    for (costs, names, filled) in [(&empty, EMPTY, false), (&full, FILLED, true)] {
        for (kind, [ours, printed]) in names.into_iter().enumerate() {
            curves.push(FigureCurve { name: ours, points: of(costs, kind + 1) });
            published = published.and(printed, Some(ours), theirs(kind, filled));
        }
    }
    let span = |n: usize| {
        let all = curves[n].points.iter().map(|p| p.y);
        all.clone().fold(0.0, f64::max) / all.fold(f64::INFINITY, f64::min)
    };
    let at =
        |n: usize, mix: f64| curves[n].points.iter().find(|p| p.x == mix).map_or(f64::NAN, |p| p.y);
    let last = MIXED.len() as f64;
    let found = vec![
        ("QFQ, nearly empty: largest over smallest of nine mixes", span(1)),
        ("QFQ, filled: the same", span(4)),
        ("WF2Q+ over QFQ among 8 equal flows, filled", at(5, 2.0) / at(4, 2.0)),
        (
            "WF2Q+ costs twice as much as QFQ among 39.9k flows, filled, and more",
            f64::from(u8::from(at(5, last) > 2.0 * at(4, last))),
        ),
    ];
    let names: Vec<String> = empty
        .cases
        .iter()
        .zip(1..)
        .take(MIXED.len())
        .map(|(case, n)| format!("{n}: {}", case.flowsets))
        .collect();
    Ok(PaperFigure {
        title: "cost of a packet among flows of several weights and sizes".into(),
        x: "mix",
        y: "ns",
        axes: Axes::DecadesOfKinds,
        curves,
        published,
        notes: vec![
            format!("Mixes, as weight:bytes:flows: {}.", names.join("; ")),
            "Published: dummynet's own test program. Empty: one packet in all; filled: to 20 for each flow, and drained.".into(),
        ],
        found,
        ..PaperFigure::default()
    })
}
