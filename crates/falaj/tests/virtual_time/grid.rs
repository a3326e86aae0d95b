//! Every discipline of the registry with random parameters, in virtual time: no bound is broken,
//! measured and simulated results are equal, and everything repeats exactly.
//!
//! Measurement and simulation are compared packet by packet. Packets arrive at the link when the
//! simulation says. A replay of the capture makes the same scheduling decisions, to the
//! nanosecond, and the live link delivered the packets on time. So a packet's delay is the
//! simulated one, except where other packets arrive within a few microseconds of a scheduling
//! decision: there another order is equally right. One processor sends and forwards all packets,
//! and each reading of the clock lets 256 ns pass: packets due together leave one after the other.
//!
//! For each discipline, one random scenario with each of two kinds of load is tested; `make grid`
//! tests twenty with each (FALAJ_GRID).

use crate::{Ran, directory, falaj, script, this, trial};
use falaj_engine::DropReason;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{FlowSetup, Kind, Param, Setup, Value, Values};
use falaj_sched::queues::queue::Limit;
use falaj_sched::registry::ENTRIES;
use falaj_sched::units::draws::Draws;
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::capture::{self, Taken, Verdict};
use falaj_traffic::meter::Meter;
use libtest_mimic::Trial;
use std::fmt::Write;
use std::fs;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("grid::measured_is_simulated_1", || every_discipline(0)),
        trial("grid::measured_is_simulated_2", || every_discipline(1)),
        trial("grid::changes_and_masks_are_replayed_1", || every_change(0)),
        trial("grid::changes_and_masks_are_replayed_2", || every_change(1)),
    ]
}

/// Rate of the link.
const RATE: Rate = Rate(20_000_000);
/// Largest packet, in bytes as the link counts them.
const LARGEST: u32 = 1514;
/// Largest allowed 99th percentile of a flow's lateness, in nanoseconds: for 9 of 10 flows, and for
/// all flows. In some flows most packets are due just when their source sends the next packet.
const LATE: [u64; 2] = [1_000, 1_600];
/// Longest time to deliver one packet, in nanoseconds.
const HANDING: u64 = 1_400;
/// Time in nanoseconds for which the link polls the clock before it delivers a packet. If a packet
/// of a source is due in that time, the source sends it afterwards.
const LOOKING: u64 = 1_536;
/// Largest delay of an arrival behind the simulated one, in nanoseconds: for 9 of 10 packets, and
/// for all.
const ARRIVAL: [u64; 2] = [2_000 + LOOKING + HANDING, 20_000];
/// Time of the simulation's start on the clock of the measurement.
const LEAD: Span = falaj_experiment::measure::LEAD;

/// The load and the impairments of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LoadKind {
    /// Sources that together send 60 to 120 % of what the link carries.
    Load,
    /// Sources that together send 1.5 to 3 times what the link carries.
    Flood,
    /// A link that loses, duplicates, corrupts, delays and reorders packets.
    Impairments,
    /// A second link of the same kind behind the first one.
    SecondHop,
}

const LOAD_KINDS: [LoadKind; 4] =
    [LoadKind::Load, LoadKind::Flood, LoadKind::Impairments, LoadKind::SecondHop];

type Dice<'a> = &'a mut dyn FnMut(u64, u64) -> u64;

/// Draws parameters of this discipline until `accepted` returns a value for them.
fn drawn<T>(
    entry: &'static Manifest,
    number: u64,
    mut accepted: impl FnMut(&Setup, Dice) -> Option<T>,
) -> Option<T> {
    let mut draws = Draws::new(number, 1);
    let mut dice = |low: u64, high: u64| low + draws.draw() % (high - low + 1);
    (0..2000).find_map(|_| {
        let flows = dice(3, 8) as usize;
        let queue = Limit::Packets(50);
        let mut setup = Setup {
            rate: RATE,
            largest: LARGEST,
            scheduler: Values::default(),
            flows: vec![FlowSetup::new(Values::default(), queue); flows],
        };
        draw_values(entry, &mut setup, &mut dice);
        accepted(&setup, &mut dice)
    })
}

/// Returns a scenario with this discipline and parameters that it accepts; `None` if none were
/// found.
fn scenario(entry: &'static Manifest, number: u64, beside: LoadKind) -> Option<String> {
    drawn(entry, number, |setup, dice| {
        let together = match beside {
            LoadKind::Flood => dice(30_000_000, 60_000_000),
            _ => dice(12_000_000, 24_000_000),
        };
        let shares: Vec<u64> = setup.flows.iter().map(|_| dice(1, 4)).collect();
        let mut text = link("l", entry, setup, beside);
        if beside == LoadKind::SecondHop {
            text += &link("m", entry, setup, beside);
            text += "[[rule]]\nto = [\"l\", \"m\"]\n";
        }
        for (n, share) in shares.iter().enumerate() {
            let rate = together * share / shares.iter().sum::<u64>();
            let way = match beside {
                LoadKind::SecondHop => format!("headers = \"udp dport {}\"", 5000 + n),
                _ => format!("link = \"l\"\nflow = \"f{n}\""),
            };
            let _ = write!(
                text,
                "[traffic.t{n}]\n{way}\nmodel = \"cbr\"\nrate = \"{rate}bit\"\nsize = \"{}B\"\n\
                 start = \"{}us\"\n",
                dice(200, 1500),
                137 * n
            );
        }
        text += "[run]\nduration = \"100ms\"\nreplications = 1\n";
        falaj_scenario::parse(&text, entry.kind).is_ok().then_some(text)
    })
}

/// Draws parameters by their types, or with the discipline's own generator.
fn draw_values(entry: &'static Manifest, setup: &mut Setup, dice: Dice) {
    let (largest, flows) = (u64::from(LARGEST), setup.flows.len() as u64);
    let mut values = |params: &'static [Param], setup: &Setup| {
        params.iter().fold(Values::default(), |all, param| {
            // The default, or another parameter, may already determine the value.
            if param.default.is_some() && dice(0, 2) == 0 {
                return all;
            }
            let own = entry.draw.values.iter().find(|(name, _)| *name == param.name);
            let value = match (own, param.kind) {
                (Some((_, draw)), _) => draw(setup, &mut *dice),
                (None, Kind::Rate) => Value::Rate(Rate(dice(RATE.0 / flows / 10, RATE.0 / flows))),
                (None, Kind::Span) => Value::Span(Span(dice(1, 20_000_000))),
                (None, Kind::Bytes) => Value::Bytes(dice(largest, 20 * largest)),
                (None, Kind::Limit) => Value::Limit(Limit::Packets(dice(1, 60) as u32)),
                (None, Kind::Count { min, max }) => Value::Count(dice(min, max.min(min + 19))),
                (None, Kind::Probability) => Value::Probability(Probability::of(dice(0, 20), 20)),
                (None, Kind::Choice(words)) => {
                    Value::Choice(words[dice(0, words.len() as u64 - 1) as usize])
                }
            };
            all.with(param.name, value)
        })
    };
    let scheduler = values(entry.scheduler, setup);
    let own: Vec<Values> = (0..flows).map(|_| values(entry.flow, setup)).collect();
    setup.scheduler = scheduler;
    for (flow, values) in setup.flows.iter_mut().zip(own) {
        flow.values = values;
    }
    (entry.draw.fit)(setup, dice);
}

/// Returns the text of a link with this discipline.
fn link(name: &str, entry: &Manifest, setup: &Setup, beside: LoadKind) -> String {
    let value = |value: Value| match value {
        Value::Span(span) => format!("\"{}ns\"", span.0),
        Value::Rate(rate) => format!("\"{}bit\"", rate.0),
        Value::Bytes(bytes) => format!("\"{bytes}B\""),
        Value::Limit(limit) => format!("\"{limit}\""),
        Value::Count(count) => count.to_string(),
        Value::Probability(probability) => format!("\"{}%\"", probability.as_f64() * 100.0),
        Value::Choice(word) => format!("\"{word}\""),
        Value::Policy(_) => unreachable!("no discipline has such a parameter"),
    };
    let keys = |values: &Values, between: &str| {
        values.iter().map(|(name, v)| format!("{between}{name} = {}", value(v))).collect::<String>()
    };
    let impairments = match beside {
        LoadKind::Impairments => {
            "loss = \"3%\"\nduplicate = \"2%\"\ncorrupt = \"2%\"\nreorder = \"2%\"\n\
             jitter = \"1ms\"\n"
        }
        _ => "",
    };
    let mut text = format!(
        "[link.{name}]\nrate = \"{}bit\"\ndelay = \"2ms\"\n{impairments}\
         scheduler = {{ kind = \"{}\"{} }}\n",
        setup.rate.0,
        entry.kind,
        keys(&setup.scheduler, ", ")
    );
    for (n, flow) in setup.flows.iter().enumerate() {
        let _ = write!(
            text,
            "[link.{name}.flow.f{n}]\nmatch = \"udp dport {port}\"\nqueue = \"{limit}\"{keys}\n",
            port = 5000 + n,
            limit = flow.limit,
            keys = keys(&flow.values, "\n"),
        );
    }
    text
}

/// Returns the number of scenarios for each discipline.
fn each() -> u64 {
    std::env::var("FALAJ_GRID").map_or(1, |text| text.parse().expect("a number"))
}

/// Checks one half of all disciplines; `wrong` returns the faults of each.
fn every(half: usize, mut wrong: impl FnMut(&'static Manifest, usize, u64) -> Vec<String>) {
    let mut all = Vec::new();
    for (place, entry) in ENTRIES.iter().enumerate().filter(|(place, _)| place % 2 == half) {
        for number in 0..each() {
            all.extend(wrong(entry, place, number));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

fn every_discipline(half: usize) {
    let mut late = Vec::new();
    every(half, |entry, place, number| {
        // Tests the kind `Load` and one of the other kinds, which take turns over the disciplines
        // and scenarios.
        let other = LOAD_KINDS[1 + (place / 2 + number as usize) % (LOAD_KINDS.len() - 1)];
        let mut wrong = Vec::new();
        for beside in [LoadKind::Load, other] {
            let Some(text) = scenario(entry, number, beside) else {
                wrong.push(format!("{} {beside:?}: no values were accepted", entry.kind));
                continue;
            };
            let name = format!("grid-{}-{number}-{beside:?}", entry.kind);
            let compared = Compared::of(&name, &text);
            // A duplicate is delivered right after its packet and is not in any capture: allow for
            // one duplicate of the packet itself, and one of another packet due at the same time.
            let by_copies = if beside == LoadKind::Impairments { 2 * HANDING } else { 0 };
            wrong.extend(compared.wrong(&name, by_copies, &mut late));
            if beside == LoadKind::Load
                && number == 0
                && !Compared::of(&name, &text).same(&compared)
            {
                wrong.push(format!("{name}: not the same twice"));
            }
        }
        wrong
    });
    let (all, late) = (late.len(), late.into_iter().filter(|late| *late).count());
    println!("{late} of {all} flows were late by more than {} ns", LATE[0]);
    assert!(late * 10 <= all, "{late} of {all} flows were late by more than {} ns", LATE[0]);
}

/// The output of `compare`, and its capture.
struct Compared {
    ran: Ran,
    capture: Vec<u8>,
}

impl Compared {
    fn of(name: &str, text: &str) -> Compared {
        let (file, capture) = (format!("{name}.toml"), format!("{name}.pcapng"));
        fs::write(directory().join(&file), text).expect("a file can be written");
        let ran = falaj(&["compare", &file, "--virtual-time", "--json", "--capture", &capture]);
        let capture = fs::read(directory().join(capture)).unwrap_or_default();
        Compared { ran, capture }
    }

    /// Returns true if both are the same, except for the real time that they took.
    fn same(&self, other: &Compared) -> bool {
        self.ran.out == other.ran.out && self.capture == other.capture
    }

    /// Returns the faults of this run; `late` gets an entry for each flow.
    fn wrong(&self, name: &str, by_copies: u64, late: &mut Vec<bool>) -> Vec<String> {
        let Ok(told) = serde_json::from_str::<serde_json::Value>(&self.ran.out) else {
            return vec![format!("{name}: {:#?}", self.ran)];
        };
        let capture = match capture::read(&self.capture[..]) {
            Ok(capture) => capture,
            Err(why) => return vec![format!("{name}: {why}")],
        };
        let taken = capture.packets.iter().filter_map(|packet| packet.taken.as_deref().copied());
        let taken: Vec<Taken> = taken.collect();
        let mut wrong = Vec::new();
        if told["verdict"] == "broken" {
            wrong.push("a bound is broken".to_owned());
        }
        let flows = told["flows"].as_array().expect("flows");
        let due = taken.iter().filter_map(|taken| match taken.verdict {
            Verdict::Sent { due, .. } => Some((due, taken.flow as usize)),
            _ => None,
        });
        for (flow, held_up) in flows.iter().zip(held_up(due, flows.len())) {
            let held_up = quantile(&held_up, 0.99);
            let measured = &flow["measured"];
            if measured["offered"].as_u64().unwrap_or_default() == 0 {
                wrong.push(format!("{}: no packet", flow["flow"]));
            }
            let error = measured["release_error"]["p99_ns"].as_u64().unwrap_or_default();
            late.push(error > LATE[0] + held_up);
            if error > LATE[1] + held_up + by_copies {
                wrong.push(format!(
                    "{}: a release error of {error} ns, {held_up} ns of it by others",
                    flow["flow"]
                ));
            }
        }
        wrong.extend(replayed(name));
        wrong.extend(arrivals(name, &taken));
        wrong.into_iter().map(|what| format!("{name}: {what}")).collect()
    }
}

/// Returns, for each flow, the distribution of the lateness that other packets due at about the
/// same time can cause.
fn held_up(due: impl Iterator<Item = (Time, usize)>, flows: usize) -> Vec<Meter> {
    let mut due: Vec<_> = due.collect();
    due.sort_unstable();
    let mut late = vec![Meter::new(); flows];
    let mut free = Time::ZERO;
    for (due, flow) in due {
        if let Some(late) = late.get_mut(flow) {
            late.record(free.since(due));
        }
        free = free.max(due) + Span(HANDING);
    }
    late
}

/// Returns the lateness in ns that this share of a meter's packets does not exceed.
fn quantile(late: &Meter, share: f64) -> u64 {
    late.quantile(share).map_or(0, |late| late.0)
}

/// Checks that packets arrived when the simulation says; returns the fault, if any.
fn arrivals(name: &str, taken: &[Taken]) -> Option<String> {
    let (file, table) = (format!("{name}.toml"), format!("{name}.csv"));
    let ran = falaj(&["sim", &file, "--replications", "1", "--packets", &table]);
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    let table = fs::read_to_string(directory().join(table)).expect("it was written");
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let place = |name| header.iter().position(|column| *column == name).expect("a column");
    let (link, way, bytes, at) = (place("link"), place("way"), place("bytes"), place("arrival_ns"));
    let mut simulated: Vec<(Time, u32)> = lines
        .filter(|line| line[link] == "l" && line[way] == "up")
        .map(|line| {
            let at: u64 = line[at].parse().expect("nanoseconds");
            (Time(at) + LEAD, line[bytes].parse().expect("bytes"))
        })
        .collect();
    let mut came: Vec<(Time, u32)> = taken
        .iter()
        // Packets that the kernels at either end send on their own are not part of the scenario.
        .filter(|taken| !matches!(taken.verdict, Verdict::Dropped(DropReason::Unmatched)))
        .map(|taken| (taken.arrival, taken.bytes))
        .collect();
    if came.len() != simulated.len() {
        return Some(format!("{} packets came, {} simulated", came.len(), simulated.len()));
    }
    came.sort_unstable();
    simulated.sort_unstable();
    let mut late = Meter::new();
    for (&(came, _), &(due, _)) in came.iter().zip(&simulated) {
        if came < due {
            return Some(format!("a packet came at {came:?}, before its instant, {due:?}"));
        }
        late.record(came.since(due));
    }
    let sent = held_up(simulated.iter().map(|(due, _)| (*due, 0)), 1);
    let late = [0.9, 1.0].map(|share| quantile(&late, share));
    let most = [0.9, 1.0].map(|share| quantile(&sent[0], share));
    let is_late = (0..2).any(|n| late[n] > ARRIVAL[n] + most[n]);
    is_late.then(|| format!("packets came late: 9 of 10 by {} ns, all by {} ns", late[0], late[1]))
}

/// Replays this capture; returns the output if any packet is decided differently than before.
fn replayed(name: &str) -> Option<String> {
    let ran = falaj(&["sim", "--replay", &format!("{name}.pcapng")]);
    let alike =
        ran.status == Some(0) && ran.out.contains("every decision is the same as in the live link");
    (!alike).then(|| format!("{ran:#?}"))
}

fn every_change(half: usize) {
    every(half, |entry, place, number| {
        let mask = if (place / 2 + number as usize).is_multiple_of(2) { "" } else { MASK };
        let text = drawn(entry, number, |setup, _| {
            let text = link("l", entry, setup, LoadKind::Load).replacen(
                "[link.l]\n",
                &format!("[link.l]\n{mask}"),
                1,
            );
            falaj_scenario::parse(&text, entry.kind).is_ok().then_some((text, setup.flows.len()))
        });
        // There is nothing to test if no drawn values were accepted.
        let Some((text, flows)) = text else { return Vec::new() };
        let name = format!("grid-{}-{number}-changes", entry.kind);
        fs::write(directory().join(format!("{name}.toml")), text).expect("a file can be written");
        changed(&name, flows).into_iter().map(|what| format!("{name}: {what}")).collect()
    });
}

/// A separate link for each source port.
const MASK: &str = "mask = \"sport\"\nmax-flows = 8\n";

/// Returns the faults of a flooded link that is changed while packets are queued.
fn changed(name: &str, flows: usize) -> Vec<String> {
    let (file, capture) = (format!("{name}.toml"), format!("{name}.pcapng"));
    let peer = format!("{} --probe sink {flows}", this());
    let falaj = env!("CARGO_BIN_EXE_falaj");
    let changes = format!(
        "{} --probe flood {flows} 200 200 & sleep 0.13; {falaj} set l.rate=7mbit; sleep 0.02; \
         {falaj} set l.delay=1ms l.f1.queue=7p; sleep 0.01; {falaj} set l.rate=31mbit l.mtu=1400; \
         sleep 0.02; {falaj} set l.loss=2% l.f0.queue=30kB; wait; sleep 0.3",
        this()
    );
    let ran = script(&[&file, "--capture", &capture, "--peer", &peer], &changes);
    let mut wrong: Vec<String> = replayed(name).into_iter().collect();
    if ran.status != Some(0) {
        wrong.push(format!("{ran:#?}"));
    }
    wrong
}
