//! The memory of packets on their way stays below its ceiling, as the kernel counts it, whatever
//! packets are like and wherever they wait. A program of its own, so that nothing else is in it.

use falaj_engine::key::Key;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_live::backend::port::{Port, PortHandover, Received};
use falaj_live::clock::{Clock, monotonic};
use falaj_live::event_loop::{Attached, Forwarder, Options};
use falaj_live::gso::Train;
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;

/// A port that has the same unit again and again.
struct Endless {
    unit: Vec<u8>,
    readable: PipeReader,
    _writable: PipeWriter,
}

impl Endless {
    fn new(unit: Vec<u8>) -> io::Result<Endless> {
        let (readable, mut writable) = io::pipe()?;
        if !unit.is_empty() {
            writable.write_all(&[0])?;
        }
        Ok(Endless { unit, readable, _writable: writable })
    }
}

impl PortHandover for Endless {}

impl Port for Endless {
    fn name(&self) -> String {
        "The endless port".into()
    }
    fn longest(&self) -> usize {
        65_536
    }
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let length = self.unit.len();
        if length == 0 {
            return Ok(None);
        }
        buffer[..length].copy_from_slice(&self.unit);
        let train = Train::of(&self.unit);
        // Each segment is its headers and a byte.
        let bytes = if train.is_some() { 41 } else { length as u32 };
        Ok(Some(Received { length, flow: Some(FlowId(0)), bytes, last: bytes, train }))
    }
    fn transmit(&mut self, _: &[u8]) -> io::Result<bool> {
        Ok(true)
    }
    fn key(&self, _: &[u8]) -> Key {
        Key::default()
    }
    fn readable(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

/// A unit of TCP, of `number` segments of one byte.
fn segments(number: usize) -> Vec<u8> {
    let mut unit = vec![0; 12 + 14 + 20 + 20];
    (unit[0], unit[1], unit[4], unit[6]) = (1, 1, 1, 34);
    (unit[24], unit[26], unit[58]) = (0x08, 0x45, 0x50);
    unit.resize(unit.len() + number, 0);
    assert_eq!(Train::of(&unit).map_or(1, |train| train.packets()), number);
    unit
}

fn pipe(rate: Rate, delay: Span) -> PipeSpec {
    let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(100_000_000))];
    let setup = Setup { rate, largest: 65_536, scheduler: Values::default(), flows };
    PipeSpec::new("fifo", setup, delay)
}

/// The most memory that the process had resident since the last call.
fn most() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is there");
    fs::write("/proc/self/clear_refs", "5").expect("the process is its own");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// Memory that packets may take, in bytes.
const CEILING: usize = 128 << 20;
/// One port may take eight ninths of it, and one part in a hundred is for buffers.
const ALLOWED: usize = CEILING / 9 * 8 + CEILING / 100;

/// Fills a link's memory with units like this one. Returns the bytes that this took, and the number
/// of packets.
fn fill(unit: Vec<u8>, (rate, delay): (Rate, Span)) -> io::Result<(usize, u64)> {
    most();
    let before = most();
    let clock = Clock::from_zero(monotonic());
    let engine = Engine::new(&[pipe(rate, delay), pipe(rate, delay)])
        .unwrap_or_else(|(_, refused)| panic!("{refused:?}"));
    let attached = |(i, port): (usize, io::Result<Endless>)| {
        let (port, pipe) = (Box::new(port?) as Box<dyn Port>, PipeId(i as u32));
        Ok(Attached { port, pipe, leaves_at: 1 - i })
    };
    let ports = [unit, Vec::new()].map(Endless::new).into_iter().enumerate();
    let ports = ports.map(attached).collect::<io::Result<Vec<_>>>()?;
    let options = Options { memory: CEILING, slack: Span::ZERO, ..Options::default() };
    let mut forwarder = Forwarder::new(clock, engine, ports, options);
    while forwarder.losses().no_memory == 0 {
        forwarder.run(clock.now() + Span::from_millis(20), &[])?;
    }
    Ok((most() - before, forwarder.counters(PipeId(0), FlowId(0)).offered))
}

/// Names the case that a process of its own is to measure: memory that another case has given back
/// to the allocator would hide what it takes.
const CASE: &str = "FALAJ_MEMORY_CASE";

#[test]
fn packets_take_no_more_than_they_may() -> io::Result<()> {
    // On the long link each segment leaves by itself: that takes most.
    let queue = (Rate::from_bits(1_000), Span::ZERO);
    let long = (Rate::from_bits(1_000_000_000), Span(1 << 50));
    let units = [
        ("short packets", vec![0; 60]),
        ("full packets", vec![0; 1_514]),
        ("units of few segments", segments(8)),
        ("units of many segments", segments(60_000)),
    ];
    for (of, unit) in units {
        for (place, link) in [("a queue", queue), ("a long link", long)] {
            let case = format!("{of} in {place}");
            match std::env::var(CASE) {
                Ok(name) if name == case => {
                    let (took, packets) = fill(unit.clone(), link)?;
                    println!("{case}: {packets} packets take {took} bytes of {CEILING}");
                    let expected = CEILING / 8..=ALLOWED;
                    assert!(expected.contains(&took), "{case}: {took} bytes");
                }
                Ok(_) => {}
                Err(_) => {
                    let mut command = Command::new(std::env::current_exe()?);
                    command.args(["--exact", "packets_take_no_more_than_they_may", "--nocapture"]);
                    let ran = command.env(CASE, &case).output()?;
                    let said = String::from_utf8_lossy(&ran.stdout);
                    assert!(said.contains(&format!("{case}: ")), "it was measured: {said}");
                    print!("{said}");
                    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
                }
            }
        }
    }
    Ok(())
}
