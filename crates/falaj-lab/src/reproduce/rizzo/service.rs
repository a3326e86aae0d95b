//! Service: the maximum lag of a flow behind its share, in the mixes with which dummynet's own
//! schedulers were measured.

use super::super::curves::{Axes, CurvePoint, FigureCurve, PaperFigure, Published};
use super::published::{PublishedService, SEGMENT, SERVICE};
use crate::bench::sched::wfi::{MIXES, ServiceLoad, service};
use anyhow::Result;

/// Number of arrival sequences tried to break a bound.
const EFFORT: u64 = 5_000;
/// A set of flows that is small enough for a search.
const FEW: &str = "4:1500,1:1500:3";

/// Figure 9.
pub(super) fn figure() -> Result<PaperFigure> {
    let filled = ServiceLoad::Filled { from: 0 };
    let [mut drr, mut qfq, mut wf2q, mut bound] = [const { Vec::new() }; 4];
    let (mut kept, mut segments, mut one) = (0u32, 0.0f64, true);
    for (mix, x) in MIXES.iter().zip(1..) {
        let point = |y: f64| CurvePoint { x: f64::from(x), y, off: None };
        drr.push(point(service("drr", mix, filled)?.behind));
        let of = service("qfq", mix, filled)?;
        qfq.push(point(of.behind));
        segments = segments.max(of.behind / SEGMENT);
        if let Some(most) = of.bound {
            kept += u32::from(of.b_wfi <= most);
            bound.push(point(most));
        }
        let of = service("wf2q+", mix, filled)?;
        wf2q.push(point(of.behind));
        one &= of.b_wfi <= SEGMENT;
    }
    let theirs = |of: fn(&PublishedService) -> Option<f64>| {
        let point = move |(s, x): (&PublishedService, u32)| Some((x.into(), of(s)?));
        SERVICE.iter().zip(1..).filter_map(point)
    };
    let published = Published::beside("drr", "drr, published", theirs(|s| s.rr))
        .and("qfq, constant sum, published", None, theirs(|s| Some(s.shipped)))
        .and("qfq, published", Some("qfq"), theirs(|s| Some(s.true_sum)))
        .and("wf2q+, published", Some("wf2q+"), theirs(|s| Some(s.wf2q)));
    let mut found: Vec<(&'static str, f64)> =
        SERVICE.iter().zip(&qfq).map(|(s, ours)| (s.statement, ours.y)).collect();
    let holds = |statement: bool| f64::from(u8::from(statement));
    let searched = |kind| -> Result<f64> {
        let of = service(kind, FEW, ServiceLoad::Searched { effort: EFFORT })?;
        Ok(of.b_wfi / of.bound.unwrap_or(0.0))
    };
    // The published values are whole bytes.
    let better = qfq.iter().zip(SERVICE).filter(|(ours, s)| ours.y <= s.shipped + 1.0).count();
    found.extend([
        ("QFQ keeps 3 phi sigma + 2 phi L, of nine mixes", f64::from(kept)),
        ("QFQ is at most five segments behind", holds(segments <= 5.0)),
        ("WF2Q+ is at most one segment behind, at its departures", holds(one)),
        ("QFQ is no farther behind than the one that dummynet ships, of nine mixes", better as f64),
        (
            "DRR, 50 + 50 x 1 that are never empty",
            service("drr", MIXES[4], ServiceLoad::Filled { from: 15 })?.behind,
        ),
        (
            "QFQ keeps its bound under the worst arrivals of 5000 tried",
            holds(searched("qfq")? <= 1.0),
        ),
        (
            "WF2Q+ keeps its bound under the worst arrivals of 5000 tried",
            holds(searched("wf2q+")? <= 1.0),
        ),
    ]);
    let mixes: Vec<String> = MIXES.iter().zip(1..).map(|(mix, n)| format!("{n}: {mix}")).collect();
    Ok(PaperFigure {
        title: "service: bytes behind the fluid share, the worst flow of each mix".into(),
        x: "mix",
        y: "bytes",
        axes: Axes::DecadesOfKinds,
        curves: vec![
            FigureCurve { name: "drr", points: drr },
            FigureCurve { name: "qfq", points: qfq },
            FigureCurve { name: "bound of qfq", points: bound },
            FigureCurve { name: "wf2q+", points: wf2q },
        ],
        published,
        notes: vec![
            format!("Mixes, as weight:bytes:flows: {}.", mixes.join("; ")),
            "Filled to 30 packets for each flow and drained, twice. Published: dummynet's own test \
             program. Its QFQ moves virtual time by a constant for the sum of weights, and loses \
             its bound by that; the curve beside ours is the same code with the actual sum. \
             The bound is for departures, where a flow's packet on the wire counts. Here the first \
             packet leaves when it arrives, there when all have arrived: among different weights \
             this changes the lag by up to 100 B."
                .into(),
        ],
        found,
        ..PaperFigure::default()
    })
}
