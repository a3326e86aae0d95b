//! Checks that the memory of packets in transit stays below its limit, as the kernel counts it, for
//! all kinds of packets and wherever they wait. This is a separate program, so that its memory
//! contains nothing else.

use falaj_engine::classifier::{Classifier, Match};
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::key::Key;
use falaj_engine::masks::{Mask, MaskConfig, Masks, mask::AddressBits};
use falaj_engine::network::{Network, NetworkSpec, PlacedPipe};
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_live::backend::port::{Port, PortHandover, Received};
use falaj_live::clock::{Clock, monotonic};
use falaj_live::event_loop::{Attached, Forwarder, Options, Woken};
use falaj_live::gso::Train;
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::cell::Cell;
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;

/// A port that reads the same unit again and again, from another address each time.
struct Endless {
    unit: Vec<u8>,
    flow: Option<FlowId>,
    addresses: Cell<u32>,
    readable: PipeReader,
    _writable: PipeWriter,
}

impl Endless {
    fn new(unit: Vec<u8>, flow: Option<FlowId>) -> io::Result<Endless> {
        let (readable, mut writable) = io::pipe()?;
        if !unit.is_empty() {
            writable.write_all(&[0])?;
        }
        Ok(Endless { unit, flow, addresses: Cell::new(0), readable, _writable: writable })
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
        // Each segment consists of its headers and a byte.
        let bytes = if train.is_some() { 41 } else { length as u32 };
        Ok(Some(Received { length, flow: self.flow, bytes, last: bytes, train }))
    }
    fn transmit(&mut self, _: &[u8]) -> io::Result<bool> {
        Ok(true)
    }
    fn key(&self, _: &[u8]) -> Key {
        self.addresses.update(|address| address + 1);
        Key { src: Some(Ipv4Addr::from(self.addresses.get()).into()), ..Key::default() }
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

/// The largest resident memory of the process since the last call, in bytes.
fn most() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is there");
    fs::write("/proc/self/clear_refs", "5").expect("the process is its own");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// Memory for packets, in bytes.
const CEILING: usize = 128 << 20;
/// One port may use eight ninths of the memory, and one hundredth is allowed for buffers.
const ALLOWED: usize = CEILING / 9 * 8 + CEILING / 100;

/// Fills a link's memory with units like this one. Returns the bytes used, and the number of
/// packets.
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
    let ports = [unit, Vec::new()].map(|unit| Endless::new(unit, Some(FlowId(0))));
    let ports = ports.into_iter().enumerate().map(attached).collect::<io::Result<Vec<_>>>()?;
    let options = Options { memory: CEILING, slack: Span::ZERO, ..Options::default() };
    let mut forwarder = Forwarder::new(clock, engine, ports, options);
    while forwarder.losses().no_memory == 0 {
        forwarder.run(clock.now() + Span::from_millis(20), &[])?;
    }
    Ok((most() - before, forwarder.counters(PipeId(0), FlowId(0)).offered))
}

/// The environment variable that names the case for a separate process to measure. In one process,
/// memory that an earlier case has returned to the allocator would hide the use of the next one.
const CASE: &str = "FALAJ_MEMORY_CASE";

/// Measures a case of this test in a separate process; `measure` returns its output.
fn in_its_own_process(
    test: &str,
    case: &str,
    measure: impl FnOnce() -> io::Result<String>,
) -> io::Result<()> {
    match std::env::var(CASE) {
        Ok(name) if name == case => println!("{case}: {}", measure()?),
        Ok(_) => {}
        Err(_) => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["--exact", test, "--nocapture"]);
            let ran = command.env(CASE, case).output()?;
            let said = String::from_utf8_lossy(&ran.stdout);
            print!("{said}");
            assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
            assert!(said.contains(&format!("{case}: ")), "it was measured: {said}");
        }
    }
    Ok(())
}

#[test]
fn packets_take_no_more_than_they_may() -> io::Result<()> {
    // On the long link each segment leaves in a burst of its own, which takes the most memory.
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
            in_its_own_process("packets_take_no_more_than_they_may", &case, || {
                let (took, packets) = fill(unit.clone(), link)?;
                assert!((CEILING / 8..=ALLOWED).contains(&took), "{case}: {took} bytes");
                Ok(format!("{packets} packets take {took} bytes of {CEILING}"))
            })?;
        }
    }
    Ok(())
}

/// Longer than any flood takes, however busy the machine is.
const PATIENCE: Span = Span::from_secs(120);

/// Sends from changing addresses through a link with these masks, until ids have to share because
/// memory is short, and then for the same time again. The process may use `may` bytes in addition
/// to its memory when the link is built. Returns the process's limit and its largest memory, and
/// the number of ids with a queue or link of their own.
fn address_flood(spec: PipeSpec, may: usize) -> io::Result<(usize, usize, u64)> {
    let clock = Clock::from_zero(monotonic());
    let classifier = Classifier::new([[Match::default()].as_slice()]);
    let place = PlacedPipe { pipe: spec, classifier, layer: CountedLayer::Ip };
    let network = NetworkSpec { places: vec![place.clone(), place], rules: Vec::new(), seed: 1 };
    let network = Network::new(&network).unwrap_or_else(|(_, refused)| panic!("{refused:?}"));
    let ports = [vec![0; 60], Vec::new()].map(|unit| Endless::new(unit, None));
    let attached = |(i, port): (usize, io::Result<Endless>)| {
        let (port, pipe) = (Box::new(port?) as Box<dyn Port>, PipeId(i as u32));
        Ok(Attached { port, pipe, leaves_at: 1 - i })
    };
    let ports = ports.into_iter().enumerate().map(attached).collect::<io::Result<Vec<_>>>()?;
    most();
    let resident = most() + may;
    let options = Options { memory: CEILING, resident, ..Options::default() };
    let mut forwarder = Forwarder::new(clock, network, ports, options);
    forwarder.tell_of_overflow();
    let began = clock.now();
    while !matches!(
        forwarder.run(clock.now() + Span::from_millis(20), &[])?,
        Woken::Shared { short: true, .. }
    ) {
        let report = || forwarder.report(PipeId(0), None, 0);
        assert!(clock.now().since(began) < PATIENCE, "memory is never short: {:?}", report());
    }
    let taken = clock.now().since(began);
    forwarder.run(clock.now() + taken, &[])?;
    let ids = [None, Some(FlowId(0))].iter().find_map(|&of| forwarder.report(PipeId(0), of, 0));
    let ids = ids.expect("there is a mask");
    assert!(ids.beyond > 0 && ids.active == ids.made, "{ids:?}");
    Ok((resident, most(), ids.active))
}

/// Memory stays below the limit for any number of addresses, with a queue or a link for each.
#[test]
fn masks_take_no_more_than_they_may() -> io::Result<()> {
    /// Bytes that a process may use in addition to its memory when the link is built, by case. In
    /// the last case queues are built with the link, and further queues take less.
    const MAY: [usize; 3] = [256 << 20, 256 << 20, 128 << 20];
    let each = MaskConfig {
        mask: Mask { src: Some(AddressBits::WHOLE), ..Mask::default() },
        most: MaskConfig::LIMIT,
        expire: Span::from_secs(3_600),
    };
    let link = |flows: usize, kind: &'static str| {
        let flow = FlowSetup::new(Values::default(), Limit::Packets(10));
        let setup = Setup {
            rate: Rate::from_bits(10_000_000_000),
            largest: 1_514,
            scheduler: Values::default(),
            flows: vec![flow; flows],
        };
        PipeSpec::new(kind, setup, Span::ZERO)
    };
    let of_links = Masks { link: Some(each), flows: Vec::new() };
    let of_queues = Masks { link: None, flows: vec![Some(each)] };
    let cases = [
        ("a link for each", PipeSpec { masks: of_links.clone(), ..link(1, "fifo") }),
        ("a link of many flows for each", PipeSpec { masks: of_links, ..link(500, "wfq") }),
        ("a queue for each", PipeSpec { masks: of_queues, ..link(1, "drr") }),
    ];
    for ((case, spec), may) in cases.into_iter().zip(MAY) {
        in_its_own_process("masks_take_no_more_than_they_may", case, || {
            let (resident, took, ids) = address_flood(spec.clone(), may)?;
            let allowed = resident - may / 4..=resident + resident / 100;
            assert!(allowed.contains(&took), "{case}: {took} bytes of {resident}, {ids} ids");
            Ok(format!("{ids} ids, {took} bytes of {resident}"))
        })?;
    }
    Ok(())
}
