//! `falaj sim --replay`: what entered a live link, once more, in simulated time.

use crate::measure::only_link;
use crate::show::{note, say};
use crate::sim::name_of_flow;
use crate::{file, show};
use anyhow::{Context, Result, anyhow, ensure};
use falaj_engine::PipeId;
use falaj_engine::each::Ids;
use falaj_engine::key::Key;
use falaj_engine::pipe::Counters;
use falaj_scenario::{Link, Scenario};
use falaj_sched::queue::FlowId;
use falaj_sched::time::Time;
use falaj_sim::replay::{Arrival, Replayed, first_difference, replay};
use falaj_traffic::capture::{self, Capture, Taken};
use falaj_traffic::meter::Meter;
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

/// Exit status: a replay of falaj's own capture decided otherwise.
const DIFFERS: u8 = 1;

/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;

/// Replays `path` through the link of `scenario`, or of the capture's own if none is given.
pub(crate) fn main(path: &Path, scenario: Option<&Path>, as_json: bool) -> Result<ExitCode> {
    let name = path.display();
    let from = File::open(path).with_context(|| format!("cannot read the capture {name}"))?;
    let capture = capture::read(from).map_err(|why| anyhow!("{name}: {why}"))?;
    if capture.broken {
        note!("warning: {name} breaks off; replayed is what can be read of it");
    }
    let own = scenario.is_none();
    let scenario = match (scenario, &capture.scenario) {
        (Some(path), _) => file::read(path)?,
        (None, Some(text)) => file::parse_quietly(text, &format!("{name} (its scenario)"))?,
        (None, None) => {
            return Err(anyhow!("{name} has no scenario in it: name one, `falaj sim FILE --replay {name}`"));
        }
    };
    let link = &scenario.links[only_link(&scenario)?];
    let taken: Vec<Taken> = capture.packets.iter().filter_map(|p| p.taken).collect();
    let ours = !taken.is_empty() && taken.len() == capture.packets.len();
    let gaps = taken.iter().enumerate().any(|(i, t)| t.number != i as u64);
    let (arrivals, unmatched) = if ours && own { (own_arrivals(&capture, link), 0) } else { foreign(&capture, link) };
    for arrival in &arrivals {
        let flows = [&link.up, &link.down].get(arrival.pipe.0 as usize).map_or(0, |d| d.flows.len());
        ensure!(arrival.flow.index() < flows, "{name}: a packet of a flow that its scenario does not have");
    }
    ensure!(
        arrivals.windows(2).all(|w| w[0].at <= w[1].at),
        "{name}: packets that arrived before those that came first"
    );
    let pipes = [link.up.pipe(), link.down.pipe()];
    let replayed = replay(&pipes, &arrivals, None).map_err(|(_, refused)| refused)?;
    let difference = if ours && own && !gaps { Some(first_difference(&taken, &replayed.verdicts)) } else { None };
    if as_json {
        tell_json(&scenario, &replayed, arrivals.len(), unmatched, difference, &taken)?;
    } else {
        tell(&scenario, &replayed, arrivals.len(), unmatched);
        match difference {
            Some(None) => say!("every packet decided as live, to the nanosecond"),
            Some(Some(i)) => say!("first difference: {}\n         replayed: {}", taken[i], replayed.verdicts[i]),
            None if own && ours => say!("packets are missing in the capture: decisions were not compared"),
            None => {}
        }
    }
    Ok(if matches!(difference, Some(Some(_))) { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS })
}

/// What a capture of ours says, and what masks see in its frames.
fn own_arrivals(capture: &Capture, link: &Link) -> Vec<Arrival> {
    let masks = [&link.up.masks, &link.down.masks];
    let ids = |taken: &Taken, frame: &[u8]| {
        masks.get(taken.way as usize).map_or(Ids::NONE, |masks| masks.ids(FlowId(taken.flow), &Key::of_ethernet(frame)))
    };
    let of = |taken: &Taken, frame: &[u8]| Arrival::of(taken, ids(taken, frame));
    capture.packets.iter().filter_map(|p| Some(of(p.taken.as_ref()?, &p.frame))).collect()
}

/// Arrivals alone: instants from the first one on, flows by the scenario's rules. Interface 1 is the far
/// end, all others the near one.
fn foreign(capture: &Capture, link: &Link) -> (Vec<Arrival>, u64) {
    let classifiers = [link.up.classifier(), link.down.classifier()];
    let accounts = [link.up.account, link.down.account];
    let masks = [&link.up.masks, &link.down.masks];
    let mut packets: Vec<_> = capture.packets.iter().collect();
    packets.sort_by_key(|p| p.at);
    let first = packets.first().map_or(0, |p| p.at);
    let mut unmatched = 0;
    let mut arrivals = Vec::new();
    for packet in packets {
        let way = usize::from(packet.way == 1);
        let key = Key::of_ethernet(&packet.frame);
        let Some(flow) = classifiers[way].flow_of(&key) else {
            unmatched += 1;
            continue;
        };
        let bytes = accounts[way].from_ip(packet.length.saturating_sub(ETHERNET)).max(1);
        let ids = masks[way].ids(flow, &key);
        arrivals.push(Arrival { pipe: PipeId(way as u32), flow, ids, bytes, at: Time(packet.at - first) });
    }
    (arrivals, unmatched)
}

/// Flows that packets came for.
fn rows<'a>(scenario: &Scenario, replayed: &'a Replayed) -> Vec<(String, &'a Counters, &'a Meter)> {
    let both = replayed.flows.iter().all(|pipe| pipe.iter().any(|(c, _)| c.offered > 0));
    let mut rows = Vec::new();
    for (p, pipe) in replayed.flows.iter().enumerate() {
        for (f, (counters, delay)) in pipe.iter().enumerate().filter(|(_, (c, _))| c.offered > 0) {
            rows.push((name_of_flow(&scenario.links[0], p, f, both), counters, delay));
        }
    }
    rows
}

fn tell(scenario: &Scenario, replayed: &Replayed, packets: usize, unmatched: u64) {
    say!("replayed: {packets} packets");
    if unmatched > 0 {
        say!("{unmatched} packets matched no rule");
    }
    let header = ["flow", "offered", "delivered", "dropped", "lost", "delay mean", "p50", "p99", "max", "backlog max"];
    let row = |(name, c, delay): (String, &Counters, &Meter)| {
        vec![
            name,
            format!("{} p", c.offered),
            format!("{} p", c.delivered()),
            show::percent(c.dropped(), c.offered),
            show::percent(c.lost, c.offered),
            delay.mean_nanos().map_or(show::DASH.into(), show::nanos),
            show::span(delay.quantile(0.5)),
            show::span(delay.quantile(0.99)),
            show::span(delay.max()),
            format!("{} p", c.max_backlog),
        ]
    };
    say!("{}", show::table(&header, rows(scenario, replayed).into_iter().map(row)));
}

fn tell_json(
    scenario: &Scenario,
    replayed: &Replayed,
    packets: usize,
    unmatched: u64,
    difference: Option<Option<usize>>,
    taken: &[Taken],
) -> Result<()> {
    let row = |(name, c, delay): (String, &Counters, &Meter)| {
        let nanos = |share| delay.quantile(share).map(|s| s.0);
        json!({
            "flow": name, "offered": c.offered, "delivered": c.delivered(), "dropped": c.dropped(), "lost": c.lost,
            "delay_mean_ns": delay.mean_nanos(), "delay_p50_ns": nanos(0.5), "delay_p99_ns": nanos(0.99),
            "delay_max_ns": delay.max().map(|s| s.0), "max_backlog_packets": c.max_backlog,
        })
    };
    let first = difference
        .flatten()
        .map(|i| json!({ "live": taken[i].to_string(), "replayed": replayed.verdicts[i].to_string() }));
    let json = json!({
        "packets": packets, "unmatched": unmatched,
        "same_decisions": difference.map(|d| d.is_none()), "first_difference": first,
        "flows": rows(scenario, replayed).into_iter().map(row).collect::<Vec<_>>(),
    });
    say!("{}", serde_json::to_string_pretty(&json)?);
    Ok(())
}
