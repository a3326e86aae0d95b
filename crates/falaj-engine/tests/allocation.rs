//! The packet path allocates nothing once a pipe is warm: it has held its largest number of queued
//! packets, and the output list has its full length.

#[path = "all/common/mod.rs"]
mod common;

use common::{Arrival, Dice, become_kind, bursts, virtual_links};
use falaj_engine::key::Key;
use falaj_engine::masks::mask::AddressBits;
use falaj_engine::masks::{Mask, MaskConfig};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry::{self, ENTRIES};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::Ipv4Addr;

/// The system's allocator, which counts the requests of this thread.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
    /// The largest number of bytes requested at once.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn count(size: usize) {
    ASKED.with(|asked| asked.set(asked.get() + 1));
    LARGEST.with(|largest| largest.set(largest.get().max(size)));
}

// Safety: every call is forwarded to the system's allocator. The counters are thread-local cells,
// which allocate no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's guarantees are the system's requirements.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees are the system's requirements.
        unsafe { System.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's guarantees are the system's requirements.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A pipe to which the same packets arrive again and again.
struct Repeated {
    engine: Engine,
    out: Vec<Output>,
    began: Time,
    packets: usize,
}

impl Repeated {
    fn new(spec: &PipeSpec) -> Repeated {
        let engine = Engine::new(std::slice::from_ref(spec)).expect("a valid pipe");
        Repeated { engine, out: Vec::with_capacity(10_000), began: Time::ZERO, packets: 0 }
    }

    /// Runs the arrivals `times` times, each time after the last packet of the previous run has
    /// left; returns the number of memory requests.
    fn run(&mut self, arrivals: &[Arrival], times: usize) -> u64 {
        let before = ASKED.get();
        for _ in 0..times {
            let mut now = self.began;
            for (handle, a) in arrivals.iter().enumerate() {
                now = self.began + Span(a.at.0);
                self.out.clear();
                let unit = Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes };
                self.engine.input(PipeId(0), unit, now, &mut self.out);
            }
            while self.engine.next_event() != Time::NEVER {
                now = self.engine.next_event();
                self.out.clear();
                self.engine.poll(now, &mut self.out);
            }
            self.began = now + Span(1_000);
            self.packets += arrivals.len();
        }
        ASKED.get() - before
    }
}

fn pipe(dice: &mut Dice, entry: &'static Manifest) -> PipeSpec {
    let mut spec = virtual_links(dice, "packet-wise", "clean");
    become_kind(dice, &mut spec, entry);
    spec
}

/// More tiny packets at once for each flow than its queue holds.
fn flood(spec: &PipeSpec) -> Vec<Arrival> {
    let flows = 0..spec.setup.flows.len() as u32;
    let packets =
        |f| std::iter::repeat_n(Arrival { at: Time::ZERO, flow: FlowId(f), bytes: 1 }, 300);
    flows.flat_map(packets).collect()
}

#[test]
fn a_warm_pipe_asks_for_no_memory() {
    for entry in ENTRIES {
        let mut packets = 0;
        for seed in 0..20 {
            let mut dice = Dice::new(seed);
            let spec = pipe(&mut dice, entry);
            let arrivals = bursts(&mut dice, &spec, 20_000);
            let mut repeated = Repeated::new(&spec);
            // The flood fills the queues with as many packets as they hold. It would break the
            // contract of `drr+`.
            if entry.kind != "drr+" {
                repeated.run(&flood(&spec), 1);
            }
            repeated.run(&arrivals, 10);
            let asked = repeated.run(&arrivals, 10);
            packets += repeated.packets / 2;
            assert_eq!(asked, 0, "{}, seed {seed}: {spec:?}", entry.kind);
        }
        assert!(packets > 20_000, "{}: {packets} packets only", entry.kind);
    }
}

/// A new id of a mask requests little memory, however many ids there are: the records of the other
/// ids are neither copied nor rehashed for it.
#[test]
fn an_id_that_comes_asks_for_little_however_many_there_are() {
    const IDS: u32 = 1_000_000;
    let mask = Mask { src: Some(AddressBits::WHOLE), ..Mask::default() };
    let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(10))];
    let rate = Rate(10_000_000_000);
    let setup = Setup { rate, largest: 1_514, scheduler: Values::default(), flows };
    let mut spec = PipeSpec::new("drr", setup, Span::ZERO);
    spec.masks.flows = vec![Some(MaskConfig { mask, most: IDS, expire: Span::from_secs(60) })];
    let mut engine = Engine::new(std::slice::from_ref(&spec)).expect("a valid pipe");
    let mut out = Vec::with_capacity(16);
    LARGEST.set(0);
    for n in 0..IDS {
        let key = Key { src: Some(Ipv4Addr::from_bits(n).into()), ..Key::default() };
        let unit = Unit { flow: FlowId(0), handle: 0, bytes: 100 };
        let now = Time(u64::from(n) * 1_000);
        out.clear();
        let ids = spec.masks.ids(FlowId(0), &key);
        engine.input_of(PipeId(0), unit, &ids, now, &mut out);
        engine.poll(now, &mut out);
    }
    let report = engine.mask_stats(PipeId(0), Some(FlowId(0)), 0).expect("it has a mask");
    assert_eq!((report.active, report.total.packets()), (IDS.into(), IDS.into()));
    assert!(LARGEST.get() <= 256 << 10, "{} bytes at once", LARGEST.get());
}

/// The counter does count requests.
#[test]
fn a_cold_pipe_asks_for_the_memory_of_its_packets() {
    for entry in ENTRIES {
        let mut dice = Dice::new(1);
        let spec = pipe(&mut dice, entry);
        let arrivals = bursts(&mut dice, &spec, 20_000);
        assert!(Repeated::new(&spec).run(&arrivals, 1) > 0, "{}", entry.kind);
    }
}

/// A defect of an earlier emulator: the heaps of its WF2Q+ grew by sixteen places at a time, with a
/// copy each time, when flows began to send. In falaj they have room for all flows from the
/// beginning. A pipe that has held the same number of packets before, all of one flow, requests no
/// memory when each of its flows has a packet.
#[test]
fn heaps_have_room_for_every_flow_from_the_beginning() {
    const FLOWS: u32 = 5_000;
    for kind in ["wf2q+", "wfq", "scfq", "virtual-clock", "edf", "sced"] {
        let entry = registry::entry(kind).expect("it is registered");
        let rate = Values::default().with("rate", Value::Rate(Rate(1_000)));
        let values = match kind {
            "virtual-clock" | "sced" => rate,
            "edf" => Values::default().with("deadline", Value::Span(Span(1_000_000_000))),
            _ => Values::default().with("weight", Value::Count(1)),
        };
        let flows = vec![FlowSetup::new(values, Limit::Packets(FLOWS)); FLOWS as usize];
        let setup = Setup {
            rate: Rate::from_mbit(1_000),
            largest: 100,
            scheduler: Values::default(),
            flows,
        };
        let mut repeated = Repeated::new(&PipeSpec::new(entry.kind, setup, Span::ZERO));
        let arrival = |flow| Arrival { at: Time::ZERO, flow: FlowId(flow), bytes: 100 };
        assert!(
            repeated.run(&vec![arrival(0); FLOWS as usize], 1) > 0,
            "{kind}: its packets need room"
        );
        let all: Vec<Arrival> = (0..FLOWS).rev().map(arrival).collect();
        assert_eq!(repeated.run(&all, 1), 0, "{kind}");
    }
}
