//! `falaj sim --replay`: replays the packets that entered a live link, in simulated time.

use crate::commands::sim::export::{Exports, PacketRecord, RecordOutcome, ReplayedPacket};
use crate::commands::sim::name_of_flow;
use anyhow::{Context, Result, anyhow, ensure};
use falaj_control::live_links::links_with_rules;
use falaj_control::summary::{RULE_HEADER, rule_json, rule_row};
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::key::Key;
use falaj_engine::message::Retimed;
use falaj_engine::network::PipePlaces;
use falaj_engine::pipe::Counters;
use falaj_engine::{Output, PipeId};
use falaj_scenario::difference::difference;
use falaj_scenario::{Direction, Scenario};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Time;
use falaj_sim::replay::{Arrival, Replay, Replayed, first_difference};
use falaj_terminal::{file, text};
use falaj_traffic::capture::{self, Capture, Taken, Verdict, Wanted};
use falaj_traffic::meter::Meter;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Exit status if a replay of falaj's own capture differs, or any capture breaks off.
const DIFFERS: u8 = 1;

/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;

/// The wanted output of a replay.
pub(crate) struct ReplayOutput<'a> {
    pub(crate) exports: &'a Exports,
    pub(crate) as_json: bool,
}

/// Replays the capture at `path` through the links of `scenario` or, if that is `None`, of the
/// capture's own scenario.
pub(crate) fn main(
    path: &Path,
    scenario: Option<&Path>,
    ends: Option<&Interfaces>,
    output: &ReplayOutput<'_>,
) -> Result<ExitCode> {
    let name = path.display();
    let from = File::open(path).with_context(|| format!("cannot read the capture {name}"))?;
    let capture = capture::read(from).map_err(|why| anyhow!("{name}: {why}"))?;
    if let Some(broken) = &capture.broken {
        note!(
            "warning: {name} breaks off: {broken}. Only the packets before that are replayed; a capture is complete when its link has ended"
        );
    }
    let own = scenario.is_none();
    let mut scenario = match (scenario, &capture.scenario) {
        (Some(path), _) => file::read(path)?,
        (None, Some(text)) => file::parse_quietly(text, &format!("{name} (its scenario)"))?,
        (None, None) => {
            return Err(anyhow!(
                "{name} contains no scenario: name one, `falaj sim FILE --replay {name}`"
            ));
        }
    };
    let taken: Vec<Taken> =
        capture.packets.iter().filter_map(|p| p.taken.as_deref().copied()).collect();
    let ours = !taken.is_empty() && taken.len() == capture.packets.len();
    let gaps = taken.iter().enumerate().any(|(i, t)| t.number != i as u64)
        || capture.changes.iter().enumerate().any(|(i, change)| change.number != i as u64)
        || capture.rooms.iter().enumerate().any(|(i, room)| room.number != i as u64);
    let changes = if ours && own { &capture.changes[..] } else { &[] };
    if changes.len() < capture.changes.len() {
        note!(
            "{} changes in {name} are left out: they belong to the scenario in the capture",
            capture.changes.len()
        );
    }
    let mut network = scenario.network();
    let arrivals = if ours && own {
        if scenario.rules.is_empty()
            && changes.is_empty()
            && taken.iter().all(|taken| taken.length.is_none())
        {
            // The capture holds the size that the engine counted for each packet, so sizes are
            // taken unchanged.
            network.places.iter_mut().for_each(|place| place.layer = CountedLayer::Ip);
        } else {
            let known = taken.iter().all(|taken| taken.length.is_some());
            ensure!(
                known,
                "{name} was written by an older falaj, which did not record the lengths that rules need"
            );
        }
        own_arrivals(&capture)
    } else {
        links_with_rules(&scenario)?;
        foreign(&capture, ends)
    };
    let (arrivals, numbers): (Vec<Arrival>, Vec<usize>) = arrivals.into_iter().unzip();
    if let (true, Some(_)) = (ours && own, ends) {
        note!("`--interface` is ignored: the capture records the direction of its packets");
    }
    ensure!(
        arrivals.windows(2).all(|w| w[0].at <= w[1].at),
        "{name}: its packets are not in order of arrival"
    );
    let mut replay = Replay::new(&network, &arrivals).map_err(|(_, refused)| refused)?;
    let mut packets = Packets::default();
    if output.exports.wants_packets() {
        replay.record();
    }
    let mut at: Vec<u32> = (0..scenario.links.len() as u32).collect();
    let mut entered = 0;
    let rooms = if ours && own { &capture.rooms[..] } else { &[] };
    let mut between: Vec<Between<'_>> = changes.iter().map(Between::Change).collect();
    between.extend(rooms.iter().map(Between::Room));
    between.sort_by_key(|one| (one.behind(), one.at()));
    for one in between {
        let behind = taken.partition_point(|taken| taken.number < one.behind()).max(entered);
        enter(&mut replay, &arrivals, entered..behind).with_context(|| name.to_string())?;
        entered = behind;
        let around = [behind.checked_sub(1), Some(behind)]
            .map(|n| n.and_then(|n| arrivals.get(n)).map(|a| a.at));
        let in_order = around[0].is_none_or(|before| before <= one.at())
            && around[1].is_none_or(|then| one.at() <= then);
        ensure!(in_order, "{name}: {one} is not at the position among the packets that it records");
        match one {
            Between::Change(change) => {
                let before = (&scenario, &at[..]);
                (scenario, at) =
                    changed(&mut replay, &mut packets, before, change, &name.to_string())
                        .with_context(|| format!("{name}: {one} ({})", change.wanted.what))?;
            }
            Between::Room(room) => {
                ensure!(
                    replay.flows(PipeId(room.way)) > 0,
                    "{name}: {one} is for a direction that its scenario does not have"
                );
                replay.port_room(PipeId(room.way), room.bytes, room.at);
            }
        }
    }
    let mut number = changes.len();
    let mut at_the_end = None;
    if !(ours && own) {
        let end = scheduled(&mut replay, &mut packets, &arrivals, &scenario)?;
        number = end.changes;
        at_the_end = Some(end);
        entered = replay.entered();
    }
    enter(&mut replay, &arrivals, entered..arrivals.len()).with_context(|| name.to_string())?;
    replay.finish(None);
    match &at_the_end {
        Some(end) => packets.add(replay.recorded(), &end.scenario, &end.at),
        None => packets.add(replay.recorded(), &scenario, &at),
    }
    let replayed = replay.end(None);
    if output.exports.wants_packets() {
        let packets = packets.all(&arrivals, &replayed.verdicts, &numbers);
        output.exports.write_replayed(&packets)?;
    }
    let difference = if ours && own && !gaps {
        Some(first_difference(&taken, &replayed.verdicts))
    } else {
        None
    };
    if output.as_json {
        tell_json(&scenario, &replayed, number, difference, &taken)?;
    } else {
        tell(&scenario, &replayed, number);
        match difference {
            Some(None) => say!("every decision is the same as in the live link, to the nanosecond"),
            Some(Some(i)) => {
                say!("first difference: {}\n         replayed: {}", taken[i], replayed.verdicts[i]);
            }
            None if own && ours => {
                say!("packets or changes are missing in the capture: decisions were not compared");
            }
            None => {}
        }
    }
    let differs = matches!(difference, Some(Some(_))) || capture.broken.is_some();
    Ok(if differs { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS })
}

/// An event between two packets.
#[derive(Clone, Copy)]
enum Between<'a> {
    Change(&'a capture::Change),
    Room(&'a capture::BackpressureReport),
}

impl Between<'_> {
    fn behind(&self) -> u64 {
        match self {
            Between::Change(change) => change.behind,
            Between::Room(room) => room.behind,
        }
    }

    fn at(&self) -> Time {
        match self {
            Between::Change(change) => change.at,
            Between::Room(room) => room.at,
        }
    }
}

/// Writes `change 3`, or `report 7 of a port`.
impl fmt::Display for Between<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Between::Change(change) => write!(f, "change {}", change.number),
            Between::Room(room) => write!(f, "report {} of a port", room.number),
        }
    }
}

/// Lets the next arrivals, those in the range `these`, enter the simulated links.
fn enter(replay: &mut Replay<'_>, arrivals: &[Arrival], these: Range<usize>) -> Result<()> {
    for Arrival { way, flow, .. } in &arrivals[these.clone()] {
        let flows = replay.flows(PipeId(*way));
        let known = match flow {
            Some(flow) => flow.index() < flows,
            // Rules choose the flow; `way` is one of the two directions.
            None => *way < 2 && flows > 0,
        };
        ensure!(known, "a packet belongs to a flow that its scenario does not have");
    }
    replay.enter(these.end);
    Ok(())
}

/// Makes the change; returns the scenario that then runs, and the positions of its links.
fn changed(
    replay: &mut Replay<'_>,
    packets: &mut Packets,
    (before, at): (&Scenario, &[u32]),
    change: &capture::Change,
    name: &str,
) -> Result<(Scenario, Vec<u32>)> {
    let Wanted { scenario, drop, vacant, .. } = &change.wanted;
    let after = file::parse_quietly(
        scenario,
        &format!("{name} (its scenario from change {} on)", change.number),
    )?;
    let places = replay.places(change.at);
    let free = vacant.iter().all(|place| places.vacant.contains(place));
    ensure!(free, "a new link takes the place of one that has not ended");
    // The replay may find a position free before the live link did. So the free positions are those
    // that the capture lists.
    let places = PipePlaces { vacant: vacant.clone(), ..places };
    let at = apply(replay, packets, (before, at), &after, (places, *drop), change.at)?;
    Ok((after, at))
}

/// Changes the scenario `before`, whose links are `at` these places, to `after`; returns the places
/// from then on.
fn apply(
    replay: &mut Replay<'_>,
    packets: &mut Packets,
    (before, at): (&Scenario, &[u32]),
    after: &Scenario,
    (places, drop): (PipePlaces, bool),
    instant: Time,
) -> Result<Vec<u32>> {
    let difference = difference(before, after, (at, places), drop).map_err(|why| anyhow!(why))?;
    packets.add(replay.recorded(), before, at);
    if let Some(change) = difference.change {
        replay.change(change, instant).map_err(|unfit| anyhow!("{unfit}"))?;
    }
    packets.add(replay.recorded(), after, &difference.at);
    Ok(difference.at)
}

/// The state after scheduled changes.
struct Scheduled {
    /// Number of changes made.
    changes: usize,
    /// The scenario from then on, and the places of its links.
    scenario: Arc<Scenario>,
    at: Vec<u32>,
}

/// Makes the scheduled changes of a scenario, among the arrivals, until the last packet has left.
fn scheduled(
    replay: &mut Replay<'_>,
    packets: &mut Packets,
    arrivals: &[Arrival],
    scenario: &Scenario,
) -> Result<Scheduled> {
    let mut at: Vec<u32> = (0..scenario.links.len() as u32).collect();
    let (mut before, mut number) = (Arc::new(scenario.clone()), 0);
    for change in scenario.changes.iter() {
        let instant = Time::ZERO + change.at;
        let these = replay.entered()..arrivals.partition_point(|arrival| arrival.at < instant);
        enter(replay, arrivals, these)?;
        if replay.is_over() {
            break;
        }
        let places = replay.places(instant);
        at = apply(replay, packets, (&before, &at), &change.scenario, (places, false), instant)?;
        (before, number) = (change.scenario, number + 1);
    }
    Ok(Scheduled { changes: number, scenario: before, at })
}

/// The packets of a replay at each link that they pass, for a table.
#[derive(Default)]
struct Packets {
    all: Vec<ReplayedPacket>,
    /// By place, the names of a link and of the flows of its directions. The link may have been
    /// removed while it had packets.
    names: BTreeMap<u32, (String, [Vec<String>; 2])>,
}

impl Packets {
    /// Adds recorded outputs, made while `scenario` ran with its links at the places `at`.
    fn add(&mut self, outputs: Vec<Output>, scenario: &Scenario, at: &[u32]) {
        for (link, &place) in scenario.links.iter().zip(at) {
            let flows = |direction: &Direction| {
                direction.flows.iter().map(|flow| flow.name.clone()).collect()
            };
            let flows = [&link.up, &link.down].map(flows);
            self.names.insert(place, (link.name.clone(), flows));
        }
        for output in outputs {
            let (number, record) = match &output {
                Output::Emit(sent) => (sent.handle, PacketRecord::sent(sent)),
                Output::Drop(lost) => (lost.handle, PacketRecord::lost(lost)),
                Output::Retimed(to) => {
                    self.correct(to);
                    continue;
                }
                _ => continue,
            };
            let names = self.names.get(&(record.pipe.0 / 2));
            let flow = names.and_then(|(_, flows)| {
                flows[record.pipe.0 as usize % 2].get(record.flow.index()).cloned()
            });
            self.all.push(ReplayedPacket {
                number: number as usize,
                link: names.map_or(String::new(), |(link, _)| link.clone()),
                way: way(record.pipe.0),
                flow: flow.unwrap_or_default(),
                record,
            });
        }
    }

    /// Corrects the end of the packet that was on the wire at a change.
    fn correct(&mut self, to: &Retimed) {
        for packet in self.all.iter_mut().rev() {
            if let RecordOutcome::Sent { end, due, .. } = &mut packet.record.fate
                && (packet.number, packet.record.pipe) == (to.handle as usize, to.pipe)
                && (*end, *due) == (to.old_end, to.old_due)
            {
                (*end, *due) = (to.end, to.due);
                return;
            }
        }
    }

    /// Returns all packets in the order of the capture, with those that reached no link. `numbers`
    /// are the numbers of the arrivals in the capture.
    fn all(
        mut self,
        arrivals: &[Arrival],
        verdicts: &[Verdict],
        numbers: &[usize],
    ) -> Vec<ReplayedPacket> {
        let mut reached = vec![false; arrivals.len()];
        self.all.iter().for_each(|packet| reached[packet.number] = true);
        for (number, (arrival, verdict)) in arrivals.iter().zip(verdicts).enumerate() {
            if let (false, &Verdict::Dropped(why)) = (reached[number], verdict) {
                let (pipe, flow) = (PipeId(arrival.way), FlowId(0));
                let (bytes, fate) = (arrival.length, RecordOutcome::Lost { why });
                let record = PacketRecord { pipe, flow, bytes, arrival: arrival.at, fate };
                let (link, flow) = (String::new(), String::new());
                self.all.push(ReplayedPacket { number, link, way: way(pipe.0), flow, record });
            }
        }
        self.all.iter_mut().for_each(|packet| packet.number = numbers[packet.number]);
        self.all.sort_by_key(|packet| (packet.number, packet.record.arrival));
        self.all
    }
}

/// The direction of a pipe.
fn way(pipe: u32) -> &'static str {
    if pipe.is_multiple_of(2) { "up" } else { "down" }
}

/// Returns the arrivals recorded in falaj's own capture, with the header fields that rules and
/// masks see in its frames, and the number of each packet in the capture.
fn own_arrivals(capture: &Capture) -> Vec<(Arrival, usize)> {
    // Packets that arrived as one unit share the headers of its first packet.
    let mut first: BTreeMap<u32, Key> = BTreeMap::new();
    let mut of = |taken: &Taken, frame: &[u8]| {
        let key = match taken.part {
            Some(1..) => first.get(&taken.way).copied().unwrap_or_default(),
            _ => Key::of_ethernet(frame),
        };
        first.insert(taken.way, key);
        let flow = taken.part.is_none().then_some(FlowId(taken.flow));
        let length = taken.length.unwrap_or(taken.bytes);
        Arrival { way: taken.way, flow, key, length, at: taken.arrival }
    };
    let packets = capture.packets.iter().zip(0..);
    packets.filter_map(|(p, n)| Some((of(p.taken.as_ref()?, capture.frame(p)), n))).collect()
}

/// The interfaces of a capture at the ends of a link: packets of `up` go up, those of `down` go
/// down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interfaces {
    up: Vec<u32>,
    down: Vec<u32>,
}

impl Interfaces {
    /// Reads `up=0,down=2`.
    pub(crate) fn parse(text: &str) -> Result<Interfaces, String> {
        let mut made = Interfaces { up: Vec::new(), down: Vec::new() };
        for part in text.split(',') {
            let wrong = || format!("`{part}` is neither `up=N` nor `down=N`, as in `up=0,down=2`");
            let (way, number) = part.split_once('=').ok_or_else(wrong)?;
            let number: u32 = number.parse().map_err(|_| wrong())?;
            if made.up.contains(&number) || made.down.contains(&number) {
                return Err(format!("interface {number} is named twice"));
            }
            match way {
                "up" => made.up.push(number),
                "down" => made.down.push(number),
                _ => return Err(wrong()),
            }
        }
        Ok(made)
    }

    /// Returns the direction of an interface's packets; `None` if they are left out.
    fn way(&self, interface: u32) -> Option<u32> {
        match (self.up.contains(&interface), self.down.contains(&interface)) {
            (true, _) => Some(0),
            (_, true) => Some(1),
            _ => None,
        }
    }
}

/// Returns the arrivals of a capture of another program, or of falaj's own capture if it is
/// replayed through another scenario than its own. Times count from the first packet; the
/// scenario's rules choose links and flows. By default, interface 1 is the far end and all others
/// are the near end. Returns the number of each packet in the capture too.
fn foreign(capture: &Capture, ends: Option<&Interfaces>) -> Vec<(Arrival, usize)> {
    let way = |packet: &capture::Packet| match ends {
        Some(ends) => ends.way(packet.way),
        None => Some(u32::from(packet.way == 1)),
    };
    let others = capture.packets.iter().filter(|p| p.way > 1).count();
    if others > 0 && ends.is_none() {
        note!(
            "warning: {others} packets are of a third or later interface, and go up: `--interface up=0,down=1` leaves them out"
        );
    }
    let packets = capture.packets.iter().zip(0..);
    let mut packets: Vec<_> = packets.filter_map(|(p, n)| Some((way(p)?, p, n))).collect();
    let left_out = capture.packets.len() - packets.len();
    if left_out > 0 {
        note!("{left_out} packets are left out: `--interface` does not name their interfaces");
    }
    packets.sort_by_key(|(_, p, _)| p.at);
    let first = packets.first().map_or(0, |(_, p, _)| p.at);
    let arrival = |(way, packet, number): (u32, &capture::Packet, usize)| {
        let (key, at) = (Key::of_ethernet(capture.frame(packet)), Time(packet.at - first));
        let length = packet.length.saturating_sub(ETHERNET).max(1);
        (Arrival { way, flow: None, key, length, at }, number)
    };
    packets.into_iter().map(arrival).collect()
}

/// Returns name, counters and delays of each flow that was offered packets.
fn rows<'a>(scenario: &Scenario, replayed: &'a Replayed) -> Vec<(String, &'a Counters, &'a Meter)> {
    let came = |way: usize| {
        let mut flows = replayed.flows.iter().skip(way).step_by(2).flatten();
        flows.any(|(c, _)| c.offered > 0)
    };
    let both = came(0) && came(1);
    let mut rows = Vec::new();
    // The entries after the links are for packets that pass no link.
    for (p, pipe) in replayed.flows.iter().enumerate().take(2 * scenario.links.len()) {
        let link = &scenario.links[p / 2];
        for (f, (counters, delay)) in pipe.iter().enumerate().filter(|(_, (c, _))| c.offered > 0) {
            let name = name_of_flow(link, p % 2, f, both);
            let name =
                if scenario.links.len() > 1 { format!("{} {name}", link.name) } else { name };
            rows.push((name, counters, delay));
        }
    }
    rows
}

fn tell(scenario: &Scenario, replayed: &Replayed, changes: usize) {
    match changes {
        0 => say!("replayed: {} packets", replayed.verdicts.len()),
        _ => say!("replayed: {} packets, {changes} changes", replayed.verdicts.len()),
    }
    if replayed.unmatched > 0 {
        say!("{} packets matched no rule", replayed.unmatched);
    }
    let header = [
        "flow",
        "offered",
        "delivered",
        "dropped",
        "lost",
        "delay mean",
        "p50",
        "p99",
        "max",
        "backlog max",
    ];
    let row = |(name, c, delay): (String, &Counters, &Meter)| {
        vec![
            name,
            format!("{} p", c.offered),
            format!("{} p", c.delivered()),
            text::percent(c.dropped(), c.offered),
            text::percent(c.lost, c.offered),
            delay.mean_nanos().map_or(text::DASH.into(), text::nanos),
            text::span(delay.quantile(0.5)),
            text::span(delay.quantile(0.99)),
            text::span(delay.max()),
            format!("{} p", c.max_backlog),
        ]
    };
    say!("{}", text::table(&header, rows(scenario, replayed).into_iter().map(row)));
    if !scenario.rules.is_empty() {
        let rows = scenario
            .rules
            .iter()
            .zip(&replayed.taken)
            .map(|(rule, taken)| rule_row(&rule.name, taken));
        say!("{}", text::table(&RULE_HEADER, rows));
    }
}

fn tell_json(
    scenario: &Scenario,
    replayed: &Replayed,
    changes: usize,
    difference: Option<Option<usize>>,
    taken: &[Taken],
) -> Result<()> {
    let row = |(name, c, delay): (String, &Counters, &Meter)| {
        let nanos = |share| delay.quantile(share).map(|s| s.0);
        json!({
            "flow": name, "offered": c.offered, "delivered": c.delivered(), "dropped": c.dropped(),
            "lost": c.lost,
            "delay_mean_ns": delay.mean_nanos(), "delay_p50_ns": nanos(0.5),
            "delay_p99_ns": nanos(0.99),
            "delay_max_ns": delay.max().map(|s| s.0), "max_backlog_packets": c.max_backlog,
        })
    };
    let first = difference.flatten().map(
        |i| json!({ "live": taken[i].to_string(), "replayed": replayed.verdicts[i].to_string() }),
    );
    let json = json!({
        "packets": replayed.verdicts.len(), "changes": changes, "unmatched": replayed.unmatched,
        "same_decisions": difference.map(|d| d.is_none()), "first_difference": first,
        "flows": rows(scenario, replayed).into_iter().map(row).collect::<Vec<_>>(),
        "rules": scenario.rules.iter().zip(&replayed.taken)
            .map(|(rule, taken)| rule_json(&rule.name, taken))
            .collect::<Vec<_>>(),
    });
    say!("{}", serde_json::to_string_pretty(&json)?);
    Ok(())
}
