//! `falaj plan`: what a scenario promises, before anything runs.

use crate::show::say;
use crate::{file, show};
use anyhow::Result;
use falaj_engine::{Engine, PipeId};
use falaj_scenario::{Direction, Need, Scenario, Towards};
use falaj_sched::params::Value;
use falaj_sched::promise::{NoPromise, Promise};
use falaj_sched::queue::FlowId;
use falaj_sched::time::Span;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// What `plan` takes.
#[derive(clap::Args)]
#[command(after_help = "\
A flow may say what it needs, and the plan is refused where the promise is worse:
  [link.uplink.flow.voice]
  need = { rate = \"10mbit\", delay = \"5ms\" }")]
pub(crate) struct Args {
    /// The scenario.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What one direction of a link promises to each of its flows.
pub(crate) fn promises(direction: &Direction) -> Result<Vec<Result<Promise, NoPromise>>> {
    let engine = Engine::new(&[direction.pipe()]).map_err(|(_, refused)| refused)?;
    Ok((0..direction.flows.len()).map(|f| engine.promise(PipeId(0), FlowId(f as u32))).collect())
}

/// What a flow needs and is not promised, and what would do.
struct Unmet {
    flow: usize,
    what: String,
    help: String,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let scenario = file::read(&args.file)?;
    let mut refused = false;
    let mut links = Vec::new();
    for (l, link) in scenario.links.iter().enumerate() {
        for (towards, way) in [(Towards::Up, "up"), (Towards::Down, "down")] {
            let direction = link.direction(towards);
            let promises = promises(direction)?;
            let unmet = unmet(direction, &promises);
            refused |= !unmet.is_empty();
            if args.json {
                links.push(to_json(&scenario, l, towards, way, &promises, &unmet));
            } else if towards == Towards::Down && same_as_up(&scenario, l) {
                println!("down: the same, without traffic\n");
            } else {
                print(&scenario, l, towards, way, &promises, &unmet);
            }
        }
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&json!({ "admitted": !refused, "directions": links }))?);
    }
    Ok(if refused { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Is the other direction the same in everything, and has nothing to carry?
fn same_as_up(scenario: &Scenario, link: usize) -> bool {
    let l = &scenario.links[link];
    let idle = scenario.traffic.iter().all(|s| s.link != link || s.towards == Towards::Up);
    idle && format!("{:?}", l.up) == format!("{:?}", l.down)
}

/// Bits per second that the scenario's sources offer a flow in the long run.
fn offered(scenario: &Scenario, link: usize, towards: Towards, flow: usize) -> u64 {
    let feeds = scenario.traffic.iter().filter(|s| (s.link, s.towards, s.flow) == (link, towards, flow));
    feeds.map(|s| s.spec().mean_rate().0).sum()
}

/// Has the flow what it needs?
fn met(need: Need, promise: &Result<Promise, NoPromise>) -> bool {
    let promise = promise.as_ref().ok();
    need.rate.is_none_or(|rate| promise.is_some_and(|p| p.rate >= rate))
        && need.delay.is_none_or(|delay| promise.is_some_and(|p| p.delay.delay <= delay))
}

fn unmet(direction: &Direction, promises: &[Result<Promise, NoPromise>]) -> Vec<Unmet> {
    let mut all = Vec::new();
    for (flow, promise) in promises.iter().enumerate() {
        let need = direction.flows[flow].need;
        if met(need, promise) {
            continue;
        }
        let mut what = Vec::new();
        let promised = promise.as_ref().map_or(0, |p| p.rate.0);
        if let Some(rate) = need.rate.filter(|rate| promised < rate.0) {
            what.push(format!("needs {rate}, is promised {}", show::rate(promised as f64)));
        }
        let promised = promise.as_ref().ok().map(|p| p.delay.delay);
        if let Some(delay) = need.delay.filter(|&delay| promised.is_none_or(|d| d > delay)) {
            what.push(format!("needs a delay of at most {delay}, is promised {}", show::span(promised)));
        }
        all.push(Unmet { flow, what: what.join(" and "), help: what_would_fit(direction, flow, promises) });
    }
    all
}

/// The smallest phase or quantum of the flow, all else unchanged, with which
/// it has what it needs and nobody loses what he had.
fn what_would_fit(direction: &Direction, flow: usize, promises_now: &[Result<Promise, NoPromise>]) -> String {
    let setup = &direction.setup;
    // A delay is shortest where a whole number of packets fits: `step` each.
    let (param, step, value): (_, u64, fn(u64) -> Value) = if setup.flows[flow].values.span("phase").is_some() {
        ("phase", setup.largest_airtime().0, |v| Value::Span(Span(v)))
    } else if direction.scheduler.kind == "drr" {
        ("quantum", setup.largest.into(), Value::Bytes)
    } else {
        return "choose a scheduler that divides the link: `virtual-links` or `drr`".into();
    };
    let good = |candidate: u64| -> bool {
        let mut with = direction.clone();
        with.setup.flows[flow].values.set(param, value(candidate));
        promises(&with).is_ok_and(|then| {
            let keeps = |f: usize| met(direction.flows[f].need, &then[f]);
            keeps(flow) && (0..then.len()).all(|f| keeps(f) || !met(direction.flows[f].need, &promises_now[f]))
        })
    };
    // A promise does not simply get better with the phase, it is a saw-tooth:
    // look at all its first teeth and ever more coarsely behind them, then
    // refine below the first that is good.
    let mut low = 0;
    let mut packets = 1;
    let high = loop {
        let candidate = step.saturating_mul(packets);
        if packets > 1 << 25 {
            return format!(
                "no {param} of this flow alone would do: other flows must get less, or its queue be shorter"
            );
        }
        if good(candidate) {
            break candidate;
        }
        low = candidate;
        packets += 1 + packets / 128;
    };
    let mut high = high;
    while high - low > (low / 1000).max(1) {
        let middle = low + (high - low) / 2;
        if good(middle) { high = middle } else { low = middle }
    }
    let written = match value(high) {
        Value::Span(s) => s.to_string(),
        _ => format!("{high}B"),
    };
    format!("`{param} = \"{written}\"` would fit")
}

fn print(
    scenario: &Scenario,
    l: usize,
    towards: Towards,
    way: &str,
    promises: &[Result<Promise, NoPromise>],
    unmet: &[Unmet],
) {
    let link = &scenario.links[l];
    let direction = link.direction(towards);
    say!(
        "link {} {way}: {} of {}, delay {}, packets to {} B; {}",
        link.name,
        show::link_rate(direction.setup.rate),
        direction.account.name(),
        direction.delay,
        direction.setup.largest,
        direction.scheduler.kind
    );
    let rows = promises.iter().enumerate().map(|(f, promise)| {
        let load = offered(scenario, l, towards, f);
        let offered = if load == 0 { show::DASH.into() } else { show::rate(load as f64) };
        let name = direction.flows[f].name.clone();
        match promise {
            Ok(p) => vec![
                name,
                offered,
                if p.rate.0 == 0 { show::DASH.into() } else { show::link_rate(p.rate) },
                p.rate_formula.into(),
                show::nanos(p.delay.delay.0 as f64),
                p.delay.formula.into(),
            ],
            Err(NoPromise(why)) => {
                vec![name, offered, show::DASH.into(), why.clone(), show::DASH.into(), String::new()]
            }
        }
    });
    say!("{}", show::table(&["flow", "offered", "rate, backlogged >=", "by", "delay <=", "by"], rows));
    say!("  delay <= holds for packets that find room in the queue");
    for (f, promise) in promises.iter().enumerate() {
        for other in promise.iter().flat_map(|p| &p.others) {
            say!(
                "  {}: {} {}: {}",
                direction.flows[f].name,
                show::nanos(other.delay.0 as f64),
                other.formula,
                other.condition
            );
        }
    }
    if !direction.setup.rate.is_unlimited() {
        let total: u64 = (0..promises.len()).map(|f| offered(scenario, l, towards, f)).sum();
        say!(
            "  utilisation: {} offered of {}",
            show::percent(total, direction.setup.rate.0),
            show::link_rate(direction.setup.rate)
        );
    }
    for (f, promise) in promises.iter().enumerate() {
        let load = offered(scenario, l, towards, f);
        if promise.as_ref().is_ok_and(|p| p.rate.0 > 0 && load > p.rate.0) {
            say!(
                "  {}: offers more than it is promised; what exceeds the promise may be lost",
                direction.flows[f].name
            );
        }
    }
    for u in unmet {
        say!("  REFUSED {}: {}; {}", direction.flows[u.flow].name, u.what, u.help);
    }
    say!("");
}

fn to_json(
    scenario: &Scenario,
    l: usize,
    towards: Towards,
    way: &str,
    promises: &[Result<Promise, NoPromise>],
    unmet: &[Unmet],
) -> Json {
    let link = &scenario.links[l];
    let direction = link.direction(towards);
    let bound = |b: &falaj_sched::promise::Bound| json!({ "delay_ns": b.delay.0, "formula": b.formula, "condition": b.condition });
    let flows: Vec<Json> = promises
        .iter()
        .enumerate()
        .map(|(f, promise)| {
            let common = (&direction.flows[f].name, offered(scenario, l, towards, f));
            match promise {
                Ok(p) => json!({
                    "flow": common.0, "offered": common.1, "rate": p.rate.0, "latency_ns": p.latency.0, "rate_formula": p.rate_formula,
                    "delay": bound(&p.delay), "others": p.others.iter().map(bound).collect::<Vec<_>>(),
                }),
                Err(NoPromise(why)) => json!({ "flow": common.0, "offered": common.1, "none": why }),
            }
        })
        .collect();
    let refusals: Vec<Json> =
        unmet.iter().map(|u| json!({ "flow": direction.flows[u.flow].name, "what": u.what, "help": u.help })).collect();
    json!({
        "link": link.name, "direction": way, "rate": direction.setup.rate.0, "account": direction.account.name(),
        "largest": direction.setup.largest, "scheduler": direction.scheduler.kind, "flows": flows, "refused": refusals,
    })
}
