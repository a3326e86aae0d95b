//! The live loop with ports in memory and on loopback: no namespace is needed. Nothing depends on
//! the speed of the machine, except the limits on CPU time, which are wide.

use falaj_engine::handover::FlowMapping;
use falaj_engine::impair::Impairments;
use falaj_engine::impair::corrupt::Corruption;
use falaj_engine::impair::duplicate::Duplication;
use falaj_engine::impair::event::RandomEvent;
use falaj_engine::impair::loss::Loss;
use falaj_engine::key::Key;
use falaj_engine::message::{Corrupt, Unit};
use falaj_engine::pipe::{Counters, PipeSpec};
use falaj_engine::transaction::{FlowChange, Transaction};
use falaj_engine::{Engine, Output, PipeId, Prepared, change};
use falaj_live::backend::loopback::{FlowLookup, LoopbackPort};
use falaj_live::backend::port::{Port, PortHandover, Received};
use falaj_live::clock::{Clock, monotonic, thread_cpu};
use falaj_live::event_loop::{
    Attached, Forwarder, LiveLosses, NotTaken, Options, Timer, WhenFull, Woken,
};
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use nix::libc;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

const SIZE: usize = 1514;
const FLOW: FlowId = FlowId(0);

/// The behavior that a unit requests of the port in memory by its first byte.
mod ask {
    pub(crate) const NOTHING: u8 = 0;
    pub(crate) const NO_FLOW: u8 = 1;
    pub(crate) const NO_READING: u8 = 2;
    pub(crate) const NO_WRITING: u8 = 3;
    pub(crate) const NO_ROOM: u8 = 4;
    pub(crate) const NO_LENGTH: u8 = 5;
    pub(crate) const ENDLESS_LENGTH: u8 = 6;
}

/// The test's side of a port in memory.
#[derive(Clone)]
struct Outside {
    clock: Clock,
    inside: Rc<RefCell<Inside>>,
}

struct Inside {
    waiting: VecDeque<Vec<u8>>,
    bell: PipeWriter,
    /// Units that were sent, and the time of sending.
    out: Vec<(Time, Vec<u8>)>,
    gone: bool,
    /// True if the port always has a unit: the last one is read again and again.
    endless: bool,
}

struct Memory {
    outside: Outside,
    bell: PipeReader,
}

impl Outside {
    fn port(clock: Clock) -> io::Result<(Outside, Memory)> {
        let (reader, writer) = io::pipe()?;
        let inside = Inside {
            waiting: VecDeque::new(),
            bell: writer,
            out: Vec::new(),
            gone: false,
            endless: false,
        };
        let outside = Outside { clock, inside: Rc::new(RefCell::new(inside)) };
        Ok((outside.clone(), Memory { outside, bell: reader }))
    }

    /// Puts a unit in front of the port and returns the time.
    fn push(&self, ask: u8, number: u32, length: usize) -> io::Result<Time> {
        let mut unit = vec![0; length.max(5)];
        unit[0] = ask;
        unit[1..5].copy_from_slice(&number.to_le_bytes());
        let now = self.clock.now();
        let mut inside = self.inside.borrow_mut();
        inside.waiting.push_back(unit);
        inside.bell.write_all(&[1])?;
        Ok(now)
    }

    /// Numbers of the units that were sent.
    fn numbers(&self) -> Vec<u32> {
        let number = |unit: &[u8]| u32::from_le_bytes(unit[1..5].try_into().expect("four bytes"));
        self.inside.borrow().out.iter().map(|(_, unit)| number(unit)).collect()
    }
}

impl Port for Memory {
    fn name(&self) -> String {
        "The port in memory".into()
    }
    fn longest(&self) -> usize {
        SIZE
    }
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let mut inside = self.outside.inside.borrow_mut();
        if inside.gone {
            return Err(io::Error::from_raw_os_error(libc::EBADFD));
        }
        let Some(unit) = inside.waiting.pop_front() else { return Ok(None) };
        if inside.endless && inside.waiting.is_empty() {
            inside.waiting.push_back(unit.clone());
        } else {
            self.bell.read_exact(&mut [0])?;
        }
        if unit[0] == ask::NO_READING {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        buffer[..unit.len()].copy_from_slice(&unit);
        let bytes = match unit[0] {
            ask::NO_LENGTH => 0,
            ask::ENDLESS_LENGTH => u32::MAX,
            _ => unit.len() as u32,
        };
        Ok(Some(Received::packet(unit.len(), bytes, (unit[0] != ask::NO_FLOW).then_some(FLOW))))
    }
    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        match unit[0] {
            ask::NO_WRITING => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            ask::NO_ROOM => Ok(false),
            _ => {
                let now = self.outside.clock.now();
                self.outside.inside.borrow_mut().out.push((now, unit.to_vec()));
                Ok(true)
            }
        }
    }
    fn key(&self, _: &[u8]) -> Key {
        Key::default()
    }
    fn corrupt(&self, unit: &mut [u8], corrupt: &Corrupt) {
        corrupt.flip(&mut unit[5..]);
    }
    fn readable(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl PortHandover for Memory {}

fn pipe(rate: Rate, delay: Span) -> PipeSpec {
    let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(100_000))];
    PipeSpec::new(
        "fifo",
        Setup { rate, largest: SIZE as u32, scheduler: Values::default(), flows },
        delay,
    )
}

fn engine(rate: Rate, delay: Span) -> Engine {
    Engine::new(&[pipe(rate, delay), pipe(rate, delay)])
        .unwrap_or_else(|(_, refused)| panic!("{refused:?}"))
}

const MEMORY: usize = 64 << 20;

/// Two ports in memory and a link between them.
fn link(rate: Rate, delay: Span, memory: usize) -> io::Result<(Forwarder, [Outside; 2])> {
    between(engine(rate, delay), Options { memory, ..Options::default() })
}

fn between(engine: Engine, options: Options) -> io::Result<(Forwarder, [Outside; 2])> {
    let clock = Clock::from_zero(monotonic());
    let (near, near_port) = Outside::port(clock)?;
    let (far, far_port) = Outside::port(clock)?;
    let attached = |(i, port)| Attached {
        port: Box::new(port),
        pipe: PipeId(i as u32),
        leaves_at: 1 - i as usize,
    };
    let ports = [(0, near_port), (1, far_port)].map(attached).into();
    Ok((Forwarder::new(clock, engine, ports, options), [near, far]))
}

/// Forwards until no packet is in transit.
fn run_dry(forwarder: &mut Forwarder) -> io::Result<()> {
    let clock = forwarder.clock();
    // The machine may stall for longer than one run, so that this run reads nothing. So three runs
    // in a row must find no packet.
    let mut dry = 0;
    for _ in 0..10_000 {
        assert_eq!(forwarder.run(clock.now() + Span::from_millis(2), &[])?, Woken::Deadline);
        dry = if forwarder.is_empty() { dry + 1 } else { 0 };
        if dry == 3 {
            return Ok(());
        }
    }
    panic!("something never arrives");
}

#[test]
fn nothing_is_lost_doubled_reordered_or_early() -> io::Result<()> {
    for (mbit, delay) in [(50, 0), (50, 3000), (1000, 20), (20_000, 0), (20_000, 1000)] {
        let (rate, delay) = (Rate::from_bits(mbit * 1_000_000), Span::from_micros(delay));
        let (mut forwarder, ends) = link(rate, delay, MEMORY)?;
        let mut earliest = [Vec::new(), Vec::new()];
        let mut free = [Time::ZERO; 2];
        for number in 0..600 {
            for (i, end) in ends.iter().enumerate() {
                let length = 60 + (number as usize * 397 + i * 31) % (SIZE - 60);
                let pushed = end.push(ask::NOTHING, number, length)?;
                free[i] = free[i].max(pushed) + rate.airtime(length as u32);
                earliest[i].push(free[i] + delay);
            }
            // Units come in bursts, and the forwarder runs until arbitrary instants.
            if number % 37 == 0 {
                forwarder
                    .run(forwarder.clock().now() + Span::from_micros(u64::from(number)), &[])?;
            }
        }
        run_dry(&mut forwarder)?;
        for i in 0..2 {
            let out = &ends[1 - i];
            assert_eq!(
                out.numbers(),
                (0..600).collect::<Vec<_>>(),
                "{mbit} Mbit/s, {delay}, from end {i}"
            );
            for ((at, unit), earliest) in out.inside.borrow().out.iter().zip(&earliest[i]) {
                // Each of the 600 airtimes is rounded to a nanosecond, so their sum may differ by
                // 600 ns.
                assert!(
                    *at + Span(600) >= *earliest,
                    "{} bytes at {at:?}, not before {earliest:?}",
                    unit.len()
                );
            }
            let flow = &forwarder.flows()[i][0];
            assert_eq!(
                (flow.delay.count(), flow.release_error.count(), flow.counters.sent),
                (600, 600, 600)
            );
            assert_eq!(flow.gap_error.count(), 599, "one less than there are packets");
            assert!(flow.gap_error.max() <= flow.release_error.max(), "none is early");
        }
        assert_eq!(forwarder.losses(), LiveLosses::default());
    }
    Ok(())
}

#[test]
fn the_deadline_is_kept_idle_and_under_load() -> io::Result<()> {
    for endless in [false, true] {
        let (mut forwarder, [near, _far]) = link(Rate::UNLIMITED, Span::ZERO, MEMORY)?;
        near.inside.borrow_mut().endless = endless;
        near.push(ask::NOTHING, 0, 60)?;
        let deadline = forwarder.clock().now() + Span::from_millis(20);
        assert_eq!(forwarder.run(deadline, &[])?, Woken::Deadline);
        let now = forwarder.clock().now();
        assert!(
            now >= deadline && now.since(deadline) < Span::from_secs(5),
            "{deadline:?}, {now:?}"
        );
        assert_eq!(
            forwarder.run(Time::ZERO, &[])?,
            Woken::Deadline,
            "nothing waits for a deadline that has passed"
        );
    }
    Ok(())
}

#[test]
fn others_are_heard_idle_and_under_load() -> io::Result<()> {
    for endless in [false, true] {
        let (mut forwarder, [near, _far]) = link(Rate::UNLIMITED, Span::ZERO, MEMORY)?;
        near.inside.borrow_mut().endless = endless;
        near.push(ask::NOTHING, 0, 60)?;
        let pipes = [io::pipe()?, io::pipe()?];
        (&pipes[1].1).write_all(b"!")?;
        let others = [pipes[0].0.as_fd(), pipes[1].0.as_fd()];
        assert_eq!(forwarder.run(Time::NEVER, &others)?, Woken::Readable(1));
        (&pipes[0].1).write_all(b"!")?;
        assert_eq!(
            forwarder.run(Time::NEVER, &others)?,
            Woken::Readable(0),
            "the first that is readable"
        );
    }
    Ok(())
}

/// One port always has units, and its packets are lost. Only the end of its turn makes room for the
/// other port, whose packets are delivered at once.
#[test]
fn a_storm_of_tiny_packets_at_one_port_leaves_the_other_its_turns() -> io::Result<()> {
    for timer in [Timer::Spin, Timer::Hybrid, Timer::Sleep] {
        let mut pipes =
            [pipe(Rate::from_bits(1_000), Span::ZERO), pipe(Rate::UNLIMITED, Span::ZERO)];
        pipes[0].setup.flows[0].limit = Limit::Packets(100);
        let engine = Engine::new(&pipes).unwrap_or_else(|(_, refused)| panic!("{refused:?}"));
        let (mut forwarder, [near, far]) =
            between(engine, Options { memory: MEMORY, timer, ..Options::default() })?;
        near.inside.borrow_mut().endless = true;
        near.push(ask::NOTHING, 0, 60)?;
        let mut pushed = Vec::new();
        for number in 0..200 {
            pushed.push(far.push(ask::NOTHING, number, 60)?);
            forwarder.run(forwarder.clock().now() + Span::from_millis(2), &[])?;
        }
        // Units read at the far port leave at the near one.
        assert_eq!(near.numbers(), (0..200).collect::<Vec<_>>());
        let mut took: Vec<Span> = near
            .inside
            .borrow()
            .out
            .iter()
            .zip(&pushed)
            .map(|((out, _), pushed)| out.since(*pushed))
            .collect();
        took.sort_unstable();
        // Two turns take 40 us on an idle machine.
        assert!(
            took[100] < Span::from_millis(2),
            "{timer:?}: {:?}, at most {:?}",
            took[100],
            took[199]
        );
        // With unlimited units at both ports, each gets half of the reading time.
        far.inside.borrow_mut().endless = true;
        far.push(ask::NOTHING, 200, 60)?;
        let read = |forwarder: &Forwarder| [0, 1].map(|i| forwarder.flows()[i][0].counters.offered);
        let before = read(&forwarder);
        forwarder.run(forwarder.clock().now() + Span::from_millis(200), &[])?;
        let after = read(&forwarder);
        let [storm, other] = [0, 1].map(|i| after[i] - before[i]);
        assert!(
            other > 1_000 && storm < 20 * other && other < 20 * storm,
            "{timer:?}: {storm}, {other}"
        );
    }
    Ok(())
}

/// The queue is longer than the memory, but some memory is left for units of the other port.
#[test]
fn a_storm_into_an_endless_queue_leaves_the_other_port_its_memory() -> io::Result<()> {
    let mut pipes = [pipe(Rate::from_bits(1_000), Span::ZERO), pipe(Rate::UNLIMITED, Span::ZERO)];
    pipes[0].setup.flows[0].limit = Limit::Packets(1_000_000);
    let engine = Engine::new(&pipes).unwrap_or_else(|(_, refused)| panic!("{refused:?}"));
    let (mut forwarder, [near, far]) =
        between(engine, Options { memory: 100 * (SIZE + 200), ..Options::default() })?;
    for number in 0..500 {
        near.push(ask::NOTHING, number, 1000)?;
    }
    let read = |forwarder: &mut Forwarder| {
        forwarder.run(forwarder.clock().now() + Span::from_millis(2), &[])
    };
    while !near.inside.borrow().waiting.is_empty() {
        read(&mut forwarder)?;
    }
    let lost = forwarder.losses().no_memory;
    assert!((400..500).contains(&lost), "the storm has found the end of its memory: {lost}");
    for number in 0..50 {
        far.push(ask::NOTHING, number, 1000)?;
        read(&mut forwarder)?;
    }
    assert_eq!(near.numbers(), (0..50).collect::<Vec<_>>());
    assert_eq!(forwarder.losses().no_memory, lost);
    Ok(())
}

#[test]
fn what_finds_no_memory_is_counted_and_the_rest_passes() -> io::Result<()> {
    // A single port may use eight ninths of the memory.
    let room_for_8 = 9 * (SIZE + 600);
    let (mut forwarder, [near, far]) = link(Rate::UNLIMITED, Span::from_millis(100), room_for_8)?;
    for round in 1..=2 {
        for number in 0..50 {
            near.push(ask::NOTHING, number, 60)?;
        }
        run_dry(&mut forwarder)?;
        let passed = far.numbers().len() as u64;
        // On a slow machine memory may be freed before all units are read.
        assert!((8 * round..50 * round).contains(&passed), "{passed}");
        assert_eq!(
            forwarder.losses(),
            LiveLosses { no_memory: 50 * round - passed, ..LiveLosses::default() }
        );
    }
    Ok(())
}

#[test]
fn a_packet_without_room_waits_if_configured() -> io::Result<()> {
    const SENT: u32 = 300;
    for when_full in [WhenFull::Drop, WhenFull::Wait, WhenFull::WaitDown] {
        let clock = Clock::from_zero(monotonic());
        let (near, near_port) = Outside::port(clock)?;
        let (far, far_port) = Outside::port(clock)?;
        let mut spec = pipe(Rate::from_bits(400_000_000), Span::ZERO);
        spec.setup.flows[0].limit = Limit::Bytes(5000);
        let engine =
            Engine::new(&[spec.clone(), spec]).unwrap_or_else(|(_, refused)| panic!("{refused:?}"));
        let attached = |(i, port)| Attached {
            port: Box::new(port),
            pipe: PipeId(i as u32),
            leaves_at: 1 - i as usize,
        };
        let ports = [(0, near_port), (1, far_port)].map(attached).into();
        let options = Options { when_full, ..Options::default() };
        let mut forwarder = Forwarder::new(clock, engine, ports, options);
        for number in 0..SENT {
            near.push(ask::NOTHING, number, 1000)?;
            far.push(ask::NOTHING, number, if when_full == WhenFull::Wait { 100 } else { 1000 })?;
        }
        while [&near, &far].iter().any(|end| !end.inside.borrow().waiting.is_empty()) {
            forwarder.run(clock.now() + Span::from_millis(2), &[])?;
        }
        run_dry(&mut forwarder)?;
        let counters = forwarder.counters(PipeId(0), FLOW);
        if when_full == WhenFull::Wait {
            assert_eq!(
                (counters.offered, counters.dropped(), counters.max_backlog),
                (SENT.into(), 0, 5)
            );
            assert_eq!(far.numbers(), (0..SENT).collect::<Vec<_>>());
        } else {
            assert!(counters.offered == u64::from(SENT) && counters.dropped() > 0, "{counters:?}");
        }
        if when_full == WhenFull::Drop {
            assert!(forwarder.counters(PipeId(1), FLOW).dropped() > 0);
        } else {
            // Packets going down wait for room, so all of them arrive.
            assert_eq!(near.numbers(), (0..SENT).collect::<Vec<_>>());
        }
    }
    Ok(())
}

#[test]
fn trouble_with_one_unit_ends_nothing() -> io::Result<()> {
    let (mut forwarder, [near, far]) = link(Rate::from_bits(1_000_000_000), Span::ZERO, MEMORY)?;
    let all = [
        ask::NOTHING,
        ask::NO_FLOW,
        ask::NO_READING,
        ask::NO_WRITING,
        ask::NO_ROOM,
        ask::NO_LENGTH,
        ask::ENDLESS_LENGTH,
        ask::NOTHING,
    ];
    for (number, &ask) in all.iter().cycle().take(10 * all.len()).enumerate() {
        near.push(ask, number as u32, 100)?;
    }
    run_dry(&mut forwarder)?;
    let passes = |&n: &u32| matches!(all[n as usize % all.len()], ask::NOTHING | ask::NO_LENGTH);
    assert_eq!(far.numbers(), (0..10 * all.len() as u32).filter(passes).collect::<Vec<_>>());
    assert_eq!(
        forwarder.losses(),
        LiveLosses { unmatched: 10, not_taken: 20, unreadable: 10, ..LiveLosses::default() }
    );
    let counters = forwarder.counters(PipeId(0), FLOW);
    assert_eq!((counters.sent, counters.dropped_large), (50, 10));
    let flow = &forwarder.flows()[0][0];
    assert_eq!(flow.release_error.count(), 30, "only of what was handed over");
    assert_eq!(flow.not_taken, NotTaken { packets: 20, bytes: 2_000 }, "they are its losses");
    assert_eq!(forwarder.snapshot().flows[0][0].not_taken, flow.not_taken);
    Ok(())
}

#[test]
fn a_port_that_is_gone_ends_the_run_by_name() -> io::Result<()> {
    let (mut forwarder, [near, _far]) = link(Rate::UNLIMITED, Span::ZERO, MEMORY)?;
    near.push(ask::NOTHING, 0, 60)?;
    near.inside.borrow_mut().gone = true;
    let error = forwarder.run(Time::NEVER, &[]).expect_err("it is gone");
    assert!(error.to_string().starts_with("The port in memory is gone ("), "{error}");
    Ok(())
}

#[test]
fn waiting_costs_little() -> io::Result<()> {
    // Three cases: idle; with a unit in long transit; with the wire busy for long.
    for (mbit, delay, units) in [(1000, 0, 0), (1000, 200, 1), (1, 200, 20)] {
        let (mut forwarder, [near, far]) =
            link(Rate::from_bits(mbit * 1_000_000), Span::from_millis(delay), MEMORY)?;
        for number in 0..units {
            near.push(ask::NOTHING, number, SIZE)?;
        }
        let cpu = thread_cpu();
        forwarder.run(forwarder.clock().now() + Span::from_millis(600), &[])?;
        let cpu = Span(thread_cpu() - cpu);
        assert_eq!(far.numbers().len(), units as usize);
        assert!(cpu < Span::from_millis(150), "{cpu} for {units} units at {mbit} Mbit/s");
    }
    Ok(())
}

#[test]
fn datagrams_pass_over_loopback() -> io::Result<()> {
    let clock = Clock::from_zero(monotonic());
    let delay = Span::from_millis(2);
    let receivers = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    let mut ports = Vec::new();
    let mut ways = Vec::new();
    for (i, receiver) in receivers.iter().enumerate() {
        receiver.set_nonblocking(true)?;
        let port = LoopbackPort::new(receiver.local_addr()?, FlowLookup::Flow(FLOW))?;
        ways.push(port.address()?);
        ports.push(Attached { port: Box::new(port), pipe: PipeId(i as u32), leaves_at: i });
    }
    let mut forwarder = Forwarder::new(
        clock,
        engine(Rate::from_bits(100_000_000), delay),
        ports,
        Options::default(),
    );
    for number in 0..50_u8 {
        for &way in &ways {
            sender.send_to(&[number; 200], way)?;
        }
        // A socket holds few units.
        forwarder.run(clock.now() + Span::from_micros(100), &[])?;
    }
    run_dry(&mut forwarder)?;
    for (i, receiver) in receivers.iter().enumerate() {
        let mut buffer = [0; 300];
        for number in 0..50 {
            assert_eq!(receiver.recv(&mut buffer)?, 200);
            assert_eq!(buffer[..200], [number; 200]);
        }
        assert_eq!(
            receiver.recv(&mut buffer).map_err(|e| e.kind()),
            Err(io::ErrorKind::WouldBlock)
        );
        assert_eq!(forwarder.counters(PipeId(i as u32), FLOW).sent_bytes, 50 * 228);
    }
    Ok(())
}

/// The decisions are the same as in simulated time: packets lost, duplicated, corrupted.
#[test]
fn what_a_link_does_to_packets_is_as_simulated() -> io::Result<()> {
    let half = |what: u64| RandomEvent::independent(Probability::of(what, 10));
    let impairments = Impairments {
        loss: Some(Loss::Random(half(3))),
        duplicate: Some(Duplication(half(2))),
        corrupt: Some(Corruption(half(1))),
        ..Impairments::default()
    };
    let spec =
        PipeSpec { impairments, seed: 11, ..pipe(Rate::from_mbit(1000), Span::from_micros(100)) };
    let engine = || {
        Engine::new(std::slice::from_ref(&spec))
            .unwrap_or_else(|(_, refused)| panic!("{refused:?}"))
    };
    const N: u32 = 400;

    // Simulated: a packet every 100 us.
    let (mut simulated, mut out) = (engine(), Vec::new());
    for handle in 0..N {
        let unit = Unit { flow: FLOW, handle, bytes: 100 };
        simulated.input(PipeId(0), unit, Time(u64::from(handle) * 100_000), &mut out);
    }
    simulated.poll(Time::NEVER, &mut out);
    let mut expected: Vec<(u32, bool)> = Vec::new();
    let mut corrupt = None;
    for output in out {
        match output {
            Output::Corrupt(c) => corrupt = Some(c.handle),
            Output::Emit(e) | Output::Copy(e) => {
                expected.push((e.handle, corrupt == Some(e.handle)));
            }
            Output::Drop(_) | Output::Mark(_) | Output::Early(_) | Output::Retimed(_) => {}
        }
    }

    let clock = Clock::from_zero(monotonic());
    let (near, near_port) = Outside::port(clock)?;
    let (far, far_port) = Outside::port(clock)?;
    let attached =
        |(i, port)| Attached { port: Box::new(port), pipe: PipeId(0), leaves_at: 1 - i as usize };
    let ports = [(0, near_port), (1, far_port)].map(attached).into();
    let mut forwarder = Forwarder::new(clock, engine(), ports, Options::default());
    for number in 0..N {
        near.push(ask::NOTHING, number, 100)?;
        if number % 16 == 0 {
            forwarder.run(clock.now() + Span::from_micros(50), &[])?;
        }
    }
    run_dry(&mut forwarder)?;
    let turned = |unit: &[u8]| unit[5..].iter().any(|b| *b != 0);
    let got: Vec<(u32, bool)> = {
        let inside = far.inside.borrow();
        far.numbers().into_iter().zip(inside.out.iter().map(|(_, unit)| turned(unit))).collect()
    };
    assert_eq!(got, expected);
    let counters = forwarder.counters(PipeId(0), FLOW);
    let harm = |c: Counters| (c.offered, c.sent, c.lost, c.duplicated, c.corrupted, c.reordered);
    assert_eq!(harm(counters), harm(simulated.counters(PipeId(0), FLOW)));
    assert!(
        counters.lost > 50 && counters.duplicated > 20 && counters.corrupted > 10,
        "{counters:?}"
    );
    Ok(())
}

/// While the thread does not run, due events are not counted, and the time of a snapshot does not
/// pass them.
#[test]
fn what_was_counted_is_of_one_instant() -> io::Result<()> {
    const PACKET: Span = Span::from_millis(8);
    let (mut forwarder, [near, _]) = link(Rate::from_mbit(1), Span::ZERO, MEMORY)?;
    let pushed = near.push(ask::NOTHING, 0, 1000)?;
    (1..20).try_for_each(|number| near.push(ask::NOTHING, number, 1000).map(drop))?;
    forwarder.run(forwarder.clock().now() + Span::from_millis(20), &[])?;
    let away = forwarder.clock().now();
    std::thread::sleep(std::time::Duration::from_millis(60));
    let snapshot = forwarder.snapshot();
    let counters = snapshot.flows[0][0].counters;
    assert!(
        counters.backlog > 0 && snapshot.at < away + PACKET,
        "{counters:?} at {:?}",
        snapshot.at
    );
    let passed = snapshot.at.since(pushed).0 / PACKET.0;
    assert!(counters.sent + 2 >= passed, "{counters:?} after {passed} packets' time");
    run_dry(&mut forwarder)?;
    let idle = forwarder.clock().now();
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert!(forwarder.snapshot().at >= idle + Span::from_millis(5), "nothing is due");
    Ok(())
}

/// A packet that went on the wire at 1 bit/s is delivered as soon as the rate is reset, and its
/// measurements are corrected.
#[test]
fn a_rate_that_was_taken_back_blocks_nothing() -> io::Result<()> {
    let rate = Rate::from_mbit(100);
    let (mut forwarder, [near, far]) = link(Rate(1), Span::ZERO, MEMORY)?;
    (1..4).try_for_each(|number| near.push(ask::NOTHING, number, 1000).map(|_| ()))?;
    forwarder.run(forwarder.clock().now() + Span::from_millis(2), &[])?;
    assert!(far.numbers().is_empty());
    let change = change::PipeChange::new(PipeId(0), pipe(rate, Span::ZERO));
    let engine = Prepared::new(&[change]).unwrap_or_else(|(_, unfit)| panic!("{unfit}"));
    let (flows, ingress, order) = (Vec::new(), Vec::new(), vec![PipeId(0), PipeId(1)]);
    let applied = forwarder.change(Transaction { engine, flows, ingress, rules: None, order });
    assert_eq!(applied.map(|applied| applied.dropped), Ok(0));
    run_dry(&mut forwarder)?;
    assert_eq!(far.numbers(), [1, 2, 3]);
    let mut measured = vec![falaj_live::event_loop::Sojourns::default()];
    forwarder.measured(&mut measured, 0, Span::from_secs(1));
    let longest = measured[0].delay.max();
    assert!(longest < Some(Span::from_secs(1000)), "{longest:?}: it was to be 8000 s");
    Ok(())
}

/// A packet that has left its queue keeps its time, and counts for its flow, whatever index that
/// flow has now. The counters of removed flows stay.
#[test]
fn a_change_leaves_what_is_on_its_way_alone() -> io::Result<()> {
    let rate = Rate::from_mbit(100);
    let (mut forwarder, [near, far]) = link(rate, Span::from_millis(50), MEMORY)?;
    let pushed = near.push(ask::NOTHING, 1, 1000)?;
    forwarder.run(forwarder.clock().now() + Span::from_millis(2), &[])?;
    let change = |forwarder: &mut Forwarder, mappings: Vec<FlowMapping>, number: usize| {
        let mut spec = pipe(rate, Span::ZERO);
        spec.setup.flows = vec![spec.setup.flows[0].clone(); number];
        let change =
            change::PipeChange { pipe: PipeId(0), spec, flows: mappings.clone(), drop: false };
        let engine = Prepared::new(&[change]).unwrap_or_else(|(_, unfit)| panic!("{unfit}"));
        let flows = vec![FlowChange { pipe: PipeId(0), mappings, number }];
        forwarder
            .change(Transaction {
                engine,
                flows,
                ingress: Vec::new(),
                rules: None,
                order: vec![PipeId(0), PipeId(1)],
            })
            .unwrap_or_else(|unfit| panic!("{unfit}"))
    };
    assert_eq!(change(&mut forwarder, vec![FlowMapping::Is(FlowId(1))], 2).dropped, 0);
    near.push(ask::NOTHING, 2, 1000)?;
    run_dry(&mut forwarder)?;
    let mut numbers = far.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
    let first = far.inside.borrow().out.iter().find(|(_, unit)| unit[1] == 1).map(|(at, _)| *at);
    assert!(first >= Some(pushed + Span::from_millis(50)), "{first:?}");
    let snapshot = forwarder.snapshot();
    // Both flows in the direction up, and the flow in the direction down; earlier contents are
    // replaced.
    let mut measured = vec![falaj_live::event_loop::Sojourns::default(); 2];
    measured[0].delay.record(Span::from_secs(9));
    assert_eq!(forwarder.measured(&mut measured, 0, Span::from_secs(1)), 3);
    assert_eq!(forwarder.measured(&mut measured, 1, Span::ZERO), 2);
    for (counted, measured) in snapshot.flows[0].iter().zip(measured) {
        assert_eq!((counted.counters.sent, measured.delay.count()), (1, 1));
        assert!(counted.active.is_some_and(|at| at <= snapshot.at));
    }
    assert!(snapshot.flows[1][0].active.is_none());
    change(&mut forwarder, vec![FlowMapping::Is(FlowId(0)), FlowMapping::Joins(FlowId(0))], 1);
    let snapshot = forwarder.snapshot();
    assert_eq!(
        (snapshot.flows[0].len(), snapshot.flows[0][0].counters.sent, snapshot.gone[0].sent),
        (1, 1, 1)
    );
    Ok(())
}
