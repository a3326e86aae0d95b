//! The parts of the thesis about single packets: the service order of Figure 2.1, and traffic that
//! breaks Theorem 2.

use super::super::curves::{CurvePoint, FigureCurve, PaperFigure, Published};
use anyhow::{Result, anyhow};
use falaj_engine::classifier::Classifier;
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::key::Key;
use falaj_engine::network::{NetworkSpec, PlacedPipe};
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_sim::replay::{Arrival, replay};
use falaj_traffic::capture::Verdict;

/// A flow with these parameters and this queue limit.
fn flow(values: Values, limit: Limit) -> FlowSetup {
    FlowSetup { values, limit, inner: None }
}

fn pipe(kind: &'static str, rate: Rate, largest: u32, flows: Vec<FlowSetup>) -> PipeSpec {
    PipeSpec::new(kind, Setup { rate, largest, scheduler: Values::default(), flows }, Span::ZERO)
}

/// The time at which the last bit of each packet leaves, in the order of `arrivals`.
///
/// # Errors
/// The pipe is invalid, or a packet was not sent.
fn ends(spec: &PipeSpec, arrivals: &[Arrival]) -> Result<Vec<Time>> {
    let place = PlacedPipe {
        pipe: spec.clone(),
        classifier: Classifier::default(),
        layer: CountedLayer::Ip,
    };
    let network = NetworkSpec { places: vec![place], rules: Vec::new(), seed: 0 };
    let replayed = replay(&network, arrivals, None).map_err(|(_, refused)| anyhow!("{refused}"))?;
    let end = |verdict: &Verdict| match *verdict {
        Verdict::Sent { end, .. } => Ok(end),
        other => Err(anyhow!("a packet was not sent: {other:?}")),
    };
    replayed.verdicts.iter().map(end).collect()
}

fn arrival(flow: u32, length: u32, at: Time) -> Arrival {
    Arrival { way: 0, flow: Some(FlowId(flow)), key: Key::default(), length, at }
}

/// Length of all packets of Figure 2.1: 125 B, which take one second at 1 kbit/s.
const CELL: u32 = 125;
const SECOND: u64 = 1_000_000_000;

/// Figure 2.1: two connections, each with half the link. Connection 1 sends a packet a second for
/// 900 s, then one every two seconds. `burst` packets of connection 2 arrive at 900 s. Returns the
/// number of packets of connection 2 that leave between the 900th and the 901st packet of
/// connection 1.
fn between(kind: &'static str, burst: u32) -> Result<usize> {
    let half = || {
        flow(
            Values::default().with("rate", Value::Rate(Rate::from_bits(500))),
            Limit::Packets(100_000),
        )
    };
    let weights = || flow(Values::default(), Limit::Packets(100_000));
    let flows =
        if kind == "virtual-clock" { vec![half(), half()] } else { vec![weights(), weights()] };
    let spec = pipe(kind, Rate::from_bits(1_000), CELL, flows);
    // Packets of connection 1 arrive 1 ns before the full second, so that the decision at that
    // second includes them, as in the thesis.
    let at = |second: u64| Time((second * SECOND).saturating_sub(1));
    let mut arrivals: Vec<Arrival> = (0..900).map(|k| arrival(0, CELL, at(k))).collect();
    arrivals.extend((0..burst).map(|_| arrival(1, CELL, Time(900 * SECOND))));
    arrivals.extend((0..500).map(|k| arrival(0, CELL, at(901 + 2 * k))));
    arrivals.sort_by_key(|a| a.at);
    let ends = ends(&spec, &arrivals)?;
    let of = |flow: u32| {
        arrivals
            .iter()
            .zip(&ends)
            .filter(move |(a, _)| a.flow == Some(FlowId(flow)))
            .map(|(_, end)| *end)
    };
    let first: Vec<Time> = of(0).collect();
    Ok(of(1).filter(|&end| end > first[899] && end < first[900]).count())
}

pub(super) fn figure() -> Result<PaperFigure> {
    let kinds =
        [("virtual-clock", "Virtual Clock"), ("scfq", "SCFQ"), ("wfq", "WFQ"), ("wf2q+", "WF2Q+")];
    let mut curves = Vec::new();
    let mut found = Vec::new();
    for (kind, name) in kinds {
        let mut points = Vec::new();
        for burst in [1, 10, 100, 450, 600] {
            let n = between(kind, burst)? as f64;
            points.push(CurvePoint { x: burst.into(), y: n, off: None });
        }
        let most = points.last().map_or(0.0, |p| p.y);
        match kind {
            "virtual-clock" => {
                found.push((
                    "Virtual Clock: packets of connection 2 before the 901st of connection 1",
                    most,
                ));
            }
            "scfq" => found.push(("SCFQ: the same", most)),
            "wfq" => found.push(("WFQ: the same", most)),
            _ => {}
        }
        curves.push(FigureCurve { name, points });
    }
    Ok(PaperFigure {
        title: "penalty for excess bandwidth used earlier: packets of connection 2 between the 900th and the 901st of connection 1".into(),
        x: "packets of connection 2 at 900 s",
        y: "packets",
        curves,
        published: Published::beside("Virtual Clock", "Virtual Clock, published", [(600.0, 450.0)])
            .and("SCFQ, published", Some("SCFQ"), [(600.0, 1.0)])
            .and("WFQ, published", Some("WFQ"), [(600.0, 1.0)]),
        notes: vec![
            "Two connections have half the link each, and each packet takes one second. \
             Connection 1 sent one packet a second for 900 s while connection 2 was silent. If \
             connection 2 then sends one packet every two seconds, as printed, the link is never \
             backlogged, and all four disciplines alternate. The statement needs at least 450 \
             packets that wait at 900 s."
                .into(),
        ],
        found,
        ..PaperFigure::default()
    })
}

/// Theorem 2's bound, and the delay reached by adversarial packets, in milliseconds: quanta and
/// maximum packets of 1500 B at 8 Mbit/s.
pub(super) fn theorem() -> Result<PaperFigure> {
    const BURST: u64 = 30_001;
    let [mut reached, mut printed, mut ours] = [const { Vec::new() }; 3];
    for n in [1u32, 2, 3, 4, 16, 64] {
        let low = Values::default()
            .with("quantum", Value::Bytes(1_500))
            .with("latency", Value::Choice("low"));
        let normal =
            || flow(Values::default().with("quantum", Value::Bytes(1_500)), Limit::Packets(100));
        let mut flows = vec![flow(low, Limit::Bytes(BURST))];
        flows.extend((0..n).map(|_| normal()));
        let spec = pipe("drr++", Rate::from_mbit(8), 1_500, flows);
        let mut arrivals = Vec::new();
        // Each BE flow carries a deficit of 1499 B over to its next visit. The burst of LC arrives
        // just after such a visit has begun.
        for f in 1..=n {
            let sizes = [1, 1_500, 1_499].into_iter().chain([1_500; 60]);
            arrivals.extend(sizes.map(|bytes| arrival(f, bytes, Time::ZERO)));
        }
        let at = Time(u64::from(n) * 1_000 + 1);
        arrivals.extend([1].into_iter().chain([1_500; 20]).map(|bytes| arrival(0, bytes, at)));
        let ends = ends(&spec, &arrivals)?;
        let lc = arrivals.iter().zip(&ends).filter(|(a, _)| a.flow == Some(FlowId(0)));
        let worst = lc.map(|(_, end)| (*end - at).0).max().unwrap_or(0);
        let engine = Engine::new(std::slice::from_ref(&spec))
            .map_err(|(_, refused)| anyhow!("{refused}"))?;
        let bound =
            engine.guarantee(PipeId(0), FlowId(0)).map_err(|why| anyhow!("{why:?}"))?.delay.delay;
        let x = f64::from(n);
        let ms = |nanos: u64| CurvePoint { x, y: nanos as f64 / 1e6, off: None };
        reached.push(ms(worst));
        // Theorem 2: sigma/r + (Q + 3 Q')/C, with the burst sigma, the rate r and the quantum Q of
        // LC, the quantum Q' of a BE flow and the capacity C. A byte takes 1 us, and r is half of
        // C.
        printed.push(ms(2 * BURST * 1_000 + 4 * 1_500_000));
        ours.push(ms(bound.0));
    }
    let holds = reached.iter().zip(&printed).filter(|(a, b)| a.y <= b.y).count();
    let kept = reached.iter().zip(&ours).all(|(a, b)| a.y <= b.y);
    let found = vec![
        ("its bound holds for 1, 2, 3, 4, 16 and 64 BE flows", holds as f64),
        ("the bound of `falaj plan` is never exceeded", if kept { 1.0 } else { 0.0 }),
    ];
    Ok(PaperFigure {
        title: "the largest delay of LC's burst, and the bound".into(),
        x: "BE flows",
        y: "ms",
        curves: vec![
            FigureCurve { name: "reached", points: reached },
            FigureCurve { name: "Theorem 2", points: printed },
            FigureCurve { name: "falaj plan", points: ours },
        ],
        notes: vec![
            "Lemma 3 counts a single BE flow in place of all n. Each of them may carry over nearly \
             a packet, so the bound is `sigma/r + (Q' + n L)/C` in place of the printed \
             `sigma/r + (Q + 3 Q')/C`."
                .into(),
        ],
        found,
        ..PaperFigure::default()
    })
}
