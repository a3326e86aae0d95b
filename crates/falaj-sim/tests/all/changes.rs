//! Scheduled changes in simulated time, at their exact instants.

use falaj_engine::key::Key;
use falaj_scenario::Scenario;
use falaj_scenario::difference::difference;
use falaj_scenario::edit::{Edit, parse_set_or_unset};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use falaj_sim::observer::{Every, PacketEnd};
use falaj_sim::replay::{Arrival, Replay};
use falaj_sim::scenario::experiment;
use falaj_sim::{
    Experiment, Progress, ReplicationPlan, WarmUp, WarmUpMethod, simulate, simulate_watched,
};
use falaj_traffic::capture::Verdict;
use std::sync::atomic::AtomicBool;

static STOP: AtomicBool = AtomicBool::new(false);

fn read(text: &str) -> Scenario {
    falaj_scenario::parse(text, "a.toml").unwrap_or_else(|errors| panic!("{errors}")).0
}

/// A packet of a run: pipe, flow, bytes, arrival, and its departure if it was sent.
type Packet = (u32, u32, u32, u64, Option<[u64; 3]>);

fn packets(experiment: &Experiment) -> Vec<Packet> {
    let mut all = Vec::new();
    let mut each = Every(|event: PacketEnd<'_>| {
        all.push(match event {
            PacketEnd::Sent(e) => {
                let times = [e.start.0, e.end.0, e.due.0];
                (e.pipe.0, e.flow.0, e.bytes, e.arrival.0, Some(times))
            }
            PacketEnd::Lost(l) => {
                let d = &l.dropped;
                (d.pipe.0, d.flow.0, d.bytes, d.arrival.0, None)
            }
        });
    });
    simulate_watched(experiment, 1, &STOP, &mut each).unwrap();
    all
}

const MS: u64 = 1_000_000;

/// Packets of 1000 B every 2 ms on a link of 8 Mbit/s, so each takes 1 ms. In the middle of one
/// packet the rate becomes 4 Mbit/s; in the middle of a later packet the delay becomes 5 ms.
#[test]
fn departures_before_and_after_are_exact() {
    let text = "[link.a]\nrate = \"8mbit\"\n[run]\nduration = \"1010ms\"\n\
                [traffic.t]\nmodel = \"cbr\"\nrate = \"4mbit\"\nsize = \"1000B\"\n\
                [[change]]\nat = \"1000.5ms\"\nset = { \"a.rate\" = \"4mbit\" }\n\
                [[change]]\nat = \"1005ms\"\nset = { \"a.delay\" = \"5ms\" }\n";
    let scenario = read(text);
    let experiment = experiment(&scenario, scenario.run.duration);
    let sent: Vec<[u64; 4]> = packets(&experiment)
        .into_iter()
        .filter_map(|(.., arrival, times)| {
            times.map(|[start, end, due]| [arrival, start, end, due])
        })
        .collect();
    for (n, packet) in sent.iter().take(500).enumerate() {
        let at = 2 * n as u64 * MS;
        assert_eq!(*packet, [at, at, at + MS, at + MS], "{n}");
    }
    // Half of the packet is sent at the old rate; the other half takes twice as long.
    let at = |ms: u64| ms * MS;
    assert_eq!(sent[500], [at(1000), at(1000), at(1001) + MS / 2, at(1001) + MS / 2]);
    assert_eq!(sent[501], [at(1002), at(1002), at(1004), at(1004)]);
    // The delay does not change for a packet whose transmission has begun.
    assert_eq!(sent[502], [at(1004), at(1004), at(1006), at(1006)]);
    assert_eq!(sent[503], [at(1006), at(1006), at(1008), at(1013)]);
    // The run's own meter has the final delays.
    let run = simulate(&experiment, 1, &STOP).unwrap();
    assert_eq!(run.pipes[0][0].delay.max(), Some(Span::from_millis(2)));
    assert_eq!(run.pipes[0][0].delay.count(), 505);
}

/// A packet on the first of two links reaches the second link later, at the instant at which its
/// slower transmission ends.
#[test]
fn a_retimed_packet_enters_the_next_link_at_its_new_end() {
    let text = "[link.a]\nrate = \"8mbit\"\n[link.b]\nrate = \"8mbit\"\n\
                [[rule]]\nto = [\"a\", \"b\"]\n[run]\nduration = \"1010ms\"\n\
                [traffic.t]\nmodel = \"cbr\"\nrate = \"4mbit\"\nsize = \"1000B\"\n\
                [[change]]\nat = \"1000.5ms\"\nset = { \"a.rate\" = \"4mbit\" }\n";
    let scenario = read(text);
    let all = packets(&experiment(&scenario, scenario.run.duration));
    let of = |pipe: u32| -> Vec<[u64; 3]> {
        let sent = all.iter().filter(|packet| packet.0 == pipe);
        sent.filter_map(|p| p.4.map(|[start, end, _]| [p.3, start, end])).collect()
    };
    let half = |ms: u64| ms * MS + MS / 2;
    assert_eq!(of(0)[500], [1000 * MS, 1000 * MS, half(1001)]);
    assert_eq!(of(2)[499], [999 * MS, 999 * MS, 1000 * MS]);
    assert_eq!(of(2)[500], [half(1001), half(1001), half(1002)]);
    assert_eq!(of(2)[501], [1004 * MS, 1004 * MS, 1005 * MS]);
    let run = simulate(&experiment(&scenario, scenario.run.duration), 1, &STOP).unwrap();
    assert_eq!(run.ways[0].max(), Some(Span::from_millis(3)));
}

/// A change written in the file and the same change made in a replay of the same arrivals send the
/// same packets at the same times.
#[test]
fn a_change_of_the_file_is_the_same_change_in_a_replay() {
    let one = "[link.a]\nrate = \"8mbit\"\nloss = \"3%\"\njitter = \"2ms\"\nscheduler = { kind = \"drr\" }\n\
               [link.a.flow.x]\nmatch = \"udp dport 1\"\nqueue = \"20p\"\n\
               [link.a.flow.y]\nmatch = \"any\"\nqueue = \"5p\"\n\
               [traffic.x]\nflow = \"x\"\nmodel = \"poisson\"\nrate = \"6mbit\"\nsize = \"1000B\"\n\
               [traffic.y]\nflow = \"y\"\nmodel = \"poisson\"\nrate = \"3mbit\"\nsize = \"300B-1200B\"\n";
    let sets: [&[&str]; 9] = [
        &["a.rate=5mbit"],
        &["a.rate=20mbit", "a.delay=3ms"],
        &["a.scheduler={ kind = \"wf2q+\" }", "x.weight=3"],
        &["a.scheduler={ kind = \"priority\" }", "x.weight="],
        &["a.loss=20%", "a.jitter="],
        &["a.loss="],
        &["x.queue=3p", "y.queue={ policy = \"codel\", limit = \"50p\" }"],
        &["a.rate=300kbit"],
        &["a.scheduler={ kind = \"drr\" }"],
    ];
    let mut compared = 0;
    for seed in 0..40_u64 {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed + 1);
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut at = 0;
        let mut changes: Vec<(u64, &[&str])> = Vec::new();
        for _ in 0..1 + draw(8) {
            at += 1 + draw(60_000_000);
            let set = sets[draw(9) as usize];
            let needs_order = set.contains(&"x.weight=") || set.contains(&"x.weight=3");
            if !needs_order || changes.is_empty() {
                changes.push((at, set));
            }
        }
        let table = |(at, set): &(u64, &[&str])| {
            let value = |value: &str| match value.starts_with('{') {
                true => value.to_owned(),
                false => format!("\"{value}\""),
            };
            let set: Vec<String> = set
                .iter()
                .filter_map(|set| set.split_once('='))
                .map(|(key, text)| format!("\"{key}\" = {}", value(text)))
                .collect();
            format!("[[change]]\nat = \"{at}ns\"\nset = {{ {} }}\n", set.join(", "))
        };
        let text = one.to_owned() + &changes.iter().map(table).collect::<String>();
        let Ok((scenario, _)) = falaj_scenario::parse(&text, "a.toml") else {
            // Some orders of these changes lead to keys that a discipline does not have.
            continue;
        };
        let experiment = experiment(&scenario, Span::from_millis(400));
        let mut written = packets(&experiment);
        written.sort_unstable_by_key(|p| (p.3, p.1));

        let arrivals: Vec<Arrival> = written
            .iter()
            .map(|&(pipe, flow, bytes, at, _)| Arrival {
                way: pipe,
                flow: Some(FlowId(flow)),
                key: Key::default(),
                // The default layer counts an Ethernet header.
                length: bytes - 14,
                at: Time(at),
            })
            .collect();
        let mut now = read(one);
        let mut document: toml_edit::DocumentMut = one.parse().unwrap();
        let mut replay = Replay::new(&now.network(), &arrivals).unwrap();
        for (at, sets) in &changes {
            let instant = Time(*at);
            let mut edit = Edit::new(&mut document);
            for set in *sets {
                let set = parse_set_or_unset(set).unwrap();
                edit.set(&set.path, set.value.as_ref()).unwrap();
            }
            edit.finish();
            let then = read(&document.to_string());
            replay.enter(arrivals.partition_point(|arrival| arrival.at < instant));
            let places = replay.places(instant);
            let made = difference(&now, &then, (&[0], places), false).unwrap();
            made.change.into_iter().for_each(|change| replay.change(change, instant).unwrap());
            now = then;
        }
        replay.enter(arrivals.len());
        let replayed = replay.end(None);
        let (mut retimed, mut lost) = (0, 0);
        for (packet, verdict) in written.iter().zip(&replayed.verdicts) {
            match (packet.4, verdict) {
                (Some([start, end, due]), Verdict::Sent { start: s, end: e, due: d }) => {
                    assert_eq!(start, s.0, "seed {seed}: {packet:?} {text}");
                    // The verdict of a live packet keeps the times decided at its beginning.
                    let on_the_wire =
                        changes.iter().any(|(at, _)| start <= *at && *at < e.0.max(end));
                    assert!(
                        (end, due) == (e.0, d.0) || on_the_wire,
                        "seed {seed}: {packet:?} {e:?}"
                    );
                    retimed += u32::from(end != e.0);
                }
                (None, Verdict::Dropped(_)) => lost += 1,
                other => panic!("seed {seed}: {packet:?} {other:?}"),
            }
        }
        // The meters of the replay have the final times.
        for flow in 0..2 {
            let ends = written.iter().filter(|p| p.1 == flow as u32);
            let delays = ends.filter_map(|p| p.4.map(|[_, end, _]| end - p.3));
            let longest = delays.max().map(Span);
            assert_eq!(replayed.flows[0][flow].1.max(), longest, "seed {seed}");
        }
        assert!(lost > 0 && retimed < 9, "seed {seed}");
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

/// A run with changes has no steady state, so no warm-up is detected. A given warm-up may end
/// between two changes.
#[test]
fn a_run_with_changes_has_no_steady_state() {
    let text = "[link.a]\nrate = \"8mbit\"\n\
                [traffic.t]\nmodel = \"cbr\"\nrate = \"4mbit\"\nsize = \"1000B\"\n\
                [[change]]\nat = \"100ms\"\nevery = \"20ms\"\nset = { \"a.rate\" = \"5mbit\" }\n\
                [[change]]\nat = \"110ms\"\nevery = \"20ms\"\nset = { \"a.rate\" = \"8mbit\" }\n";
    let experiment = experiment(&read(text), Span::from_millis(300));
    let progress = Progress { gone: &|_| {}, stop: &STOP };
    let plan = |warm_up| ReplicationPlan { seed: 1, warm_up, quantiles: Vec::new(), most: 1 };
    let found = plan(WarmUp::Found).warm_up(&experiment, &progress).unwrap();
    assert_eq!((found.cut, found.how), (Span::ZERO, WarmUpMethod::Scheduled));
    let counted = |cut: u64| {
        let warm_up = Span::from_millis(cut);
        let run = simulate(&Experiment { warm_up, ..experiment.clone() }, 1, &STOP).unwrap();
        let flow = &run.pipes[0][0];
        (flow.counters.offered, flow.delay.count(), flow.delay.max())
    };
    let ms = |ms: u64| Some(Span(ms * MS / 10));
    assert_eq!(counted(0), (150, 150, ms(16)));
    // A packet is on the wire at the end of the warm-up.
    assert_eq!(counted(105), (97, 98, ms(16)));
    assert_eq!(counted(110), (95, 95, ms(16)));
}

/// A trace of rate, delay and loss: packets of 1000 B every 2 ms. The rate halves in the middle of
/// a packet and is zero for a time; the delay grows by 20 ms, and in the end all packets are lost.
#[test]
fn a_trace_sets_rate_delay_and_loss_of_each_phase() {
    let path = std::env::temp_dir().join(format!("falaj-phases-{}.csv", std::process::id()));
    let lines = "time (ms),rate (mbit),delay (ms),loss (%)\n\
                 0,8,10,0\n100.5,4,10,0\n200,8,30,0\n300,0,30,0\n310,80,30,0\n400,80,30,100\n";
    std::fs::write(&path, lines).unwrap();
    let trace = falaj_scenario::LinkTrace::read(&path, None).unwrap();
    let (keys, changes) = (trace.keys(), trace.changes("link.a.up"));
    let text = format!(
        "[link.a]\nrate = \"1mbit\"\n[link.a.up]\n{keys}\
         [run]\nduration = \"500ms\"\n\
         [traffic.t]\nmodel = \"cbr\"\nrate = \"4mbit\"\nsize = \"1000B\"\n{changes}"
    );
    let scenario = read(&text);
    std::fs::remove_file(&path).unwrap();
    let experiment = experiment(&scenario, scenario.run.duration);
    let all = packets(&experiment);
    let sent: Vec<[u64; 4]> = all
        .iter()
        .filter_map(|(.., arrival, times)| {
            times.map(|[start, end, due]| [*arrival, start, end, due])
        })
        .collect();
    let (at, half) = (|ms: u64| ms * MS, MS / 2);
    // 8 Mbit/s, and 10 ms.
    for (n, packet) in sent.iter().take(50).enumerate() {
        let at = 2 * n as u64 * MS;
        assert_eq!(*packet, [at, at, at + MS, at + 11 * MS], "{n}");
    }
    // Half of this packet is sent at 4 Mbit/s.
    assert_eq!(sent[50], [at(100), at(100), at(101) + half, at(111) + half]);
    for (n, packet) in sent.iter().enumerate().take(100).skip(51) {
        let at = 2 * n as u64 * MS;
        assert_eq!(*packet, [at, at, at + 2 * MS, at + 12 * MS], "{n}");
    }
    // 8 Mbit/s, and 30 ms.
    for (n, packet) in sent.iter().enumerate().take(150).skip(100) {
        let at = 2 * n as u64 * MS;
        assert_eq!(*packet, [at, at, at + MS, at + 31 * MS], "{n}");
    }
    // The rate is zero until 310 ms. Then a packet takes 100 us.
    for (n, packet) in sent.iter().enumerate().take(155).skip(150) {
        let (at, end) = (2 * n as u64 * MS, at(310) + (n as u64 - 149) * MS / 10);
        assert_eq!((packet[0], packet[2], packet[3]), (at, end, end + 30 * MS), "{n}");
    }
    assert_eq!(sent[160], [at(320), at(320), at(320) + MS / 10, at(350) + MS / 10]);
    assert_eq!(sent.last().unwrap()[0], at(398));
    assert_eq!((sent.len(), all.len()), (200, 250));
}
