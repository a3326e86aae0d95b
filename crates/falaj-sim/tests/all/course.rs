//! The time bins of a run and the packet window agree with the counters of the run.

use falaj_engine::PipeId;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use falaj_sim::observer::{Every, PacketEnd};
use falaj_sim::packet_window::PacketWindow;
use falaj_sim::scenario::experiment;
use falaj_sim::time_bins::TimeBins;
use falaj_sim::{Experiment, simulate, simulate_watched};
use std::sync::atomic::AtomicBool;

const UP: PipeId = PipeId(0);
static STOP: AtomicBool = AtomicBool::new(false);

/// Two flows that offer more than their link carries; the link also loses some packets.
fn overloaded() -> Experiment {
    let text = "[link.a]\nrate = \"8mbit\"\nloss = \"5%\"\nscheduler = { kind = \"drr\" }\n\
                [link.a.flow.x]\nmatch = \"udp dport 1\"\nqueue = \"20p\"\nquantum = \"1514B\"\n\
                [link.a.flow.y]\nmatch = \"any\"\nqueue = \"5p\"\nquantum = \"1514B\"\n\
                [traffic.x]\nflow = \"x\"\nmodel = \"poisson\"\nrate = \"6mbit\"\nsize = \"1000B\"\n\
                [traffic.y]\nflow = \"y\"\nmodel = \"poisson\"\nrate = \"3mbit\"\nsize = \"300B-1200B\"\n";
    let (scenario, _) = falaj_scenario::parse(text, "a.toml").unwrap();
    experiment(&scenario, Span::from_secs(2))
}

#[test]
fn parts_add_up_to_what_is_counted() {
    let experiment = overloaded();
    let run = simulate(&experiment, 1, &STOP).unwrap();
    let mut course = TimeBins::new(experiment.duration, 100);
    let watched = simulate_watched(&experiment, 1, &STOP, &mut course).unwrap();
    for f in 0..2 {
        let (counters, flow) =
            (&run.pipes[0][f].counters, course.flow(UP, FlowId(f as u32)).unwrap());
        assert_eq!(*counters, watched.pipes[0][f].counters, "an observer changes nothing");
        let sum = |parts: &[u64]| parts.iter().sum::<u64>();
        assert_eq!(sum(&flow.came), counters.offered_bytes);
        assert!(counters.lost > 0 && counters.dropped_full > 0, "{counters:?}");
        // A packet that is in transmission at the end has not left, although its transmission was
        // reported.
        assert!(counters.sent_bytes - counters.lost_bytes - sum(&flow.left) <= 1200);
        let last = flow.backlog().last().unwrap();
        assert!(last <= counters.backlog_bytes + 1200, "{last}, {counters:?}");
        assert_eq!(flow.longest.unwrap().delay(), run.pipes[0][f].delay.max().unwrap());
    }
    assert!(course.flow(UP, FlowId(2)).is_none() && course.flow(PipeId(1), FlowId(0)).is_none());
}

#[test]
fn an_excerpt_is_of_the_longest_delay() {
    let experiment = overloaded();
    let mut course = TimeBins::new(experiment.duration, 10);
    simulate_watched(&experiment, 1, &STOP, &mut course).unwrap();
    let longest = course.flow(UP, FlowId(0)).unwrap().longest.unwrap();
    let mut excerpt = PacketWindow::around(UP, FlowId(0), longest);
    simulate_watched(&experiment, 1, &STOP, &mut excerpt).unwrap();
    // All packets of the flow, observed once more.
    let (mut came, mut left, mut emits) = (Vec::new(), Vec::new(), Vec::new());
    let mut all = Every(|event: PacketEnd<'_>| match event {
        PacketEnd::Sent(e) if e.flow == FlowId(0) && e.arrival >= longest.since => {
            came.push((e.arrival, u64::from(e.bytes)));
            left.push((e.end, u64::from(e.bytes)));
            emits.push(*e);
        }
        PacketEnd::Lost(loss)
            if loss.dropped.why == falaj_engine::DropReason::Lost
                && loss.dropped.flow == FlowId(0) =>
        {
            let came_at = loss.dropped.arrival;
            came.extend((came_at >= longest.since).then_some((came_at, 1000)));
        }
        _ => {}
    });
    simulate_watched(&experiment, 1, &STOP, &mut all).unwrap();
    let until = |steps: &[(Time, u64)], to: Time| -> u64 {
        steps.iter().filter(|(at, _)| *at <= to).map(|(_, bytes)| bytes).sum()
    };
    let counted = |steps: &[(Time, u32)], before: u64| {
        before + steps.iter().map(|(_, n)| u64::from(*n)).sum::<u64>()
    };
    assert_eq!(counted(&excerpt.came, excerpt.before.0), until(&came, excerpt.to));
    // Packets that the link loses also count as left, from the beginning of their transmission.
    assert!(counted(&excerpt.left, excerpt.before.1) >= until(&left, excerpt.to));
    // The window contains the packet with the longest delay, with packets before and after it.
    let place = excerpt
        .sent
        .iter()
        .position(|e| (e.arrival, e.end) == (longest.arrival, longest.end))
        .unwrap();
    assert!(place > 10 && place + 5 < excerpt.sent.len(), "{place} of {}", excerpt.sent.len());
    assert!(
        emits
            .iter()
            .all(|e| e.end - e.arrival <= longest.delay()
                || e.end > Time::ZERO + experiment.duration)
    );
}

#[test]
fn all_that_comes_is_told_of() {
    let experiment = overloaded();
    let run = simulate(&experiment, 3, &STOP).unwrap();
    let (mut sent, mut lost, mut late) = (0, 0, 0);
    let mut all = Every(|event: PacketEnd<'_>| match event {
        PacketEnd::Sent(emit) => {
            sent += 1;
            late += u64::from(emit.end > Time::ZERO + experiment.duration);
        }
        PacketEnd::Lost(loss) => {
            assert!(loss.dropped.arrival <= loss.reported_at);
            lost += 1;
        }
    });
    simulate_watched(&experiment, 3, &STOP, &mut all).unwrap();
    let offered: u64 = run.pipes[0].iter().map(|flow| flow.counters.offered).sum();
    assert_eq!(sent + lost, offered);
    assert!(late > 0, "packets that wait at the end are sent after it");
}
