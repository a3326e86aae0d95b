//! A plan as JSON.

use crate::bounds::{Delay, Outlook};
use crate::expected::Expected;
use crate::network::Routes;
use crate::{Way, counterpart, stations};
use falaj_scenario::Scenario;
use falaj_sched::contract::guarantee::{Bound, RateCondition};
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::units::rate::BIT_NANOS;
use falaj_theory::network::BoundMethod;
use falaj_theory::{Curve, float};
use serde_json::{Value as Json, json};

/// The points at which a curve bends: time in nanoseconds, bytes at and just after it, and the rate
/// from there on in bits per second.
fn points(curve: &Curve) -> Vec<Json> {
    let point = |p: &falaj_theory::Piece| {
        json!({
            "at_ns": float(&p.at), "bytes": float(&p.value), "bytes_after": float(&p.after),
            "rate": float(&p.slope) * BIT_NANOS as f64,
        })
    };
    curve.pieces().iter().map(point).collect()
}

/// Mean delay, quantiles and loss of a flow, as JSON.
pub fn expected(expected: &Result<Expected, String>) -> Json {
    match expected {
        Ok(e) => json!({
            "mean_ns": e.mean, "p50_ns": e.quantiles.map(|of| of[0]),
            "p99_ns": e.quantiles.map(|of| of[1]), "loss": e.loss, "flows": e.together.len().max(1),
            "formula": e.formula,
        }),
        Err(why) => json!({ "none": why }),
    }
}

fn flow_json(way: &Way<'_>, flow: usize) -> Json {
    let (flow, to_expect) = (&way.flows[flow], &way.expected[flow]);
    let bound = |b: &Bound| {
        json!({
            "delay_ns": b.delay.0, "formula": b.formula, "condition": b.condition,
        })
    };
    let mut out = json!({
        "flow": flow.name, "offered": flow.offered, "connections": flow.connections,
        "queue": flow.limit.to_string(),
    });
    if let Some(many) = &flow.many {
        out["masks"] = json!(many);
    }
    match &flow.guarantee {
        Ok(p) => {
            out["rate"] = json!(p.rate.0);
            out["latency_ns"] = json!(p.latency.0);
            out["rate_formula"] = json!(p.rate_formula);
            out["rate_condition"] = json!(flow.rate_condition.map(RateCondition::words));
            out["delay"] = bound(&p.delay);
            out["others"] = p.others.iter().map(bound).collect();
        }
        Err(NoGuarantee(why)) => out["none"] = json!(why),
    }
    out["envelope"] = match &flow.envelope {
        Ok(e) => json!({
            "declared": e.is_declared(), "traffic": e.sources, "points": points(&e.curve),
            "buckets": e.buckets.iter().map(|(rate, burst)| json!({
                "rate": rate.0, "burst": burst,
            })).collect::<Vec<_>>(),
        }),
        Err(why) => json!({ "none": why }),
    };
    if let Some((rate, latency, curve)) = &flow.service {
        out["service"] =
            json!({ "rate": rate.0, "latency_ns": latency.0, "points": points(curve) });
    }
    if let Some(d) = &flow.deadlines {
        out["deadlines"] = json!({
            "rate": d.rate.0, "first": d.first.0, "time_ns": d.time.0, "late_ns": d.late.0,
            "points": points(&Curve::by_deadlines(d)),
        });
    }
    out["shared"] = json!(flow.together);
    out["jitter"] = flow.jitter.as_ref().map_or(Json::Null, bound);
    let delay = |d: &Delay| {
        json!({
            "delay_ns": d.delay.0, "formula": d.formula, "condition": d.condition, "limit": d.limit,
        })
    };
    out["assured"] = flow.assured.as_ref().map_or(Json::Null, delay);
    out["mutual"] = flow.mutual.as_ref().map_or(Json::Null, delay);
    out["by_sources"] = flow.by_sources.as_ref().map_or(Json::Null, delay);
    out["expected"] = expected(to_expect);
    out["backlog"] = flow.backlog.as_ref().map_or(Json::Null, |b| {
        json!({
            "bytes": b.bytes, "packets": b.packets, "lossless": b.lossless, "fits": b.fits,
            "enough": b.enough.map(|limit| limit.to_string()),
        })
    });
    out
}

/// All directions of a scenario as JSON; `before` is the plan before the change, if there is one.
/// Bounds over several links are given by all methods, or only by the method `only`.
pub fn all(
    scenario: &Scenario,
    ways: &[Way<'_>],
    before: Option<&Vec<Way<'_>>>,
    only: Option<BoundMethod>,
) -> Json {
    let admitted = ways.iter().all(|way| way.unmet.is_empty());
    let directions: Vec<Json> =
        ways.iter().map(|way| self::way(way, counterpart(way, before))).collect();
    let end_to_end = Routes::of(scenario, ways)
        .map_or_else(|why| json!({ "none": why }), |routes| routes.json(only));
    json!({ "admitted": admitted, "directions": directions, "end_to_end": end_to_end })
}

/// One direction as JSON; `before` is the same direction before the change, if there is one.
fn way(way: &Way<'_>, before: Option<&Way<'_>>) -> Json {
    let direction = way.direction;
    let flows = (0..way.flows.len()).map(|f| {
        let mut out = flow_json(way, f);
        let named = |of: &Outlook| of.name == way.flows[f].name;
        if let Some((b, was)) = before.and_then(|b| Some((b, b.flows.iter().position(named)?))) {
            out["before"] = flow_json(b, was);
        }
        out
    });
    let refusals: Vec<Json> = way
        .unmet
        .iter()
        .map(|u| json!({ "flow": way.flows[u.flow].name, "what": u.what, "help": u.help }))
        .collect();
    json!({
        "link": way.link, "direction": way.name(), "rate": direction.pipe.setup.rate.0,
        "layer": direction.layer.name(),
        "largest": direction.pipe.setup.largest, "scheduler": direction.scheduler().kind,
        "flows": flows.collect::<Vec<_>>(), "refused": refusals,
        "saturated": stations::json(direction),
    })
}
