//! The subjects of the measurement: only a list of packets, a scheduler with its queues, a whole
//! engine.

use super::flowsets::{Flowset, Flowsets};
use super::generator::{Buffer, Controller, FULL, PacketSink};
use super::regimes::Regime;
use crate::bench::cpu_nanos;
use falaj_engine::message::Unit;
use falaj_engine::pipe::{HotCounters, PipeSpec};
use falaj_engine::{Emit, Engine, Output, PipeId};
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::discipline::Decision;
use falaj_sched::contract::library::Loaded;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{
    self, ConfigErrors, FlowSetup, Given, Kind, Param, Setup, Value, Values,
};
use falaj_sched::queues::aqm;
use falaj_sched::queues::queue::{Limit, Packet};
use falaj_sched::registry::{self, Visitor};
use falaj_sched::scheduler::Scheduler;
use falaj_sched::scheduler::guard::Guard;
use falaj_sched::scheduler::instance::SchedulerInstance;
use falaj_sched::scheduler::with_aqm::WithAqm;
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::{Rate, Wire};
use falaj_sched::units::time::{Span, Time};

/// The rate of the link. A byte does not take a whole number of nanoseconds at this rate.
const RATE: Rate = Rate::from_mbit(10_000);

/// The subject between enqueue and dequeue.
#[derive(Clone, Debug)]
pub(super) enum UnderTest {
    /// A list of packets, so that generator, controller and clock are measured alone.
    Nothing,
    /// A scheduler: queues with their limits, a discipline, a transmitter and counters.
    Station(Subject),
    /// A pipe of an engine: queues, discipline, transmitter and counters, with calendar and
    /// outputs.
    Engine(Subject),
}

/// A discipline, built in or from a library. Its parameters come from the flows or from a regime.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) entry: &'static Manifest,
    pub(super) regime: Option<&'static Regime>,
    library: Option<Loaded>,
}

impl Subject {
    pub(super) fn built_in(entry: &'static Manifest, regime: Option<&'static Regime>) -> Subject {
        Subject { entry, regime, library: None }
    }

    pub(super) fn plugin(library: Loaded) -> Subject {
        Subject { entry: registry::PLUGIN, regime: None, library: Some(library) }
    }

    fn name(&self) -> &str {
        let built_in = self.regime.map_or(self.entry.kind, |regime| regime.name);
        self.library.as_ref().map_or(built_in, Loaded::name)
    }
}

impl UnderTest {
    pub(super) fn discipline(&self) -> &str {
        match self {
            UnderTest::Nothing => "none",
            UnderTest::Station(subject) | UnderTest::Engine(subject) => subject.name(),
        }
    }
}

/// Parameters by which a plug-in may get the share of a flow of this set, in the order of
/// preference.
const SHARES: [fn(Flowset, u32) -> Option<Given>; 3] = [
    |set, largest| {
        let number = u64::from(set.weight) * u64::from(largest);
        Some(Given {
            name: "quantum".into(),
            text: format!("{number}B").into(),
            unit: params::Unit::Bytes,
            number,
        })
    },
    |set, _| {
        let number = u64::from(set.weight);
        Some(Given {
            name: "weight".into(),
            text: number.to_string().into(),
            unit: params::Unit::Number,
            number,
        })
    },
    |_, _| None,
];

/// The value of the flow parameter `param` for a flow of this set: its share of the link in the
/// discipline's unit. `None` leaves the default.
fn value(
    param: &Param,
    set: Flowset,
    setup: &Setup,
    weights: u64,
) -> Result<Option<Value>, String> {
    let weight = u64::from(set.weight);
    let largest = u64::from(setup.largest);
    Ok(match (param.name, param.kind) {
        ("weight", _) => Some(Value::Count(weight)),
        ("quantum", _) => Some(Value::Bytes(weight * largest)),
        ("phase", _) => Some(Value::Span(Span(setup.largest_airtime().0 * weight))),
        _ if param.default.is_some() => None,
        // The flow with the largest weight has the highest number, as in dummynet's test program.
        ("priority", _) => Some(Value::Count(weight)),
        ("rate", _) => Some(Value::Rate(Rate(
            (u128::from(RATE.0) * u128::from(weight) / u128::from(weights)) as u64,
        ))),
        // The duration of a round in which this flow sends one packet, and the other flows in
        // proportion.
        ("deadline", _) => {
            Some(Value::Span(RATE.airtime_of_many(largest * weights.div_ceil(weight))))
        }
        _ => Some(needed(param, setup)),
    })
    .and_then(|value| match (value, param.kind) {
        (Some(Value::Count(n)), Kind::Count { min, max }) if !(min..=max).contains(&n) => {
            Err(format!("`{}` is {min} to {max}, not {n}", param.name))
        }
        _ => Ok(value),
    })
}

/// A value for a parameter that has no default.
pub(super) fn needed(param: &Param, setup: &Setup) -> Value {
    let flows = setup.flows.len() as u64;
    match param.kind {
        Kind::Rate => Value::Rate(Rate(RATE.0 / flows)),
        Kind::Span => Value::Span(setup.largest_airtime()),
        Kind::Bytes => Value::Bytes(setup.largest.into()),
        Kind::Limit => Value::Limit(Limit::Packets(FULL)),
        Kind::Count { min, max } => Value::Count(flows.clamp(min, max)),
        Kind::Probability => Value::Probability(Probability::ALWAYS),
        Kind::Choice(words) => Value::Choice(words[0]),
    }
}

/// The setup of a discipline for these flows, with limits that they hardly reach.
fn setup(subject: &Subject, flowsets: &Flowsets) -> Result<Setup, String> {
    let Subject { entry, regime, library } = subject;
    let flow = || FlowSetup::new(Values::default(), Limit::Packets(FULL));
    let mut setup = Setup {
        rate: RATE,
        largest: flowsets.largest(),
        scheduler: Values::default(),
        flows: std::iter::repeat_with(flow).take(flowsets.flows() as usize).collect(),
    };
    for param in entry.scheduler.iter().filter(|param| param.default.is_none()) {
        let value = needed(param, &setup);
        setup.scheduler.set(param.name, value);
    }
    let weights = flowsets.weights();
    let mut first = 0;
    for set in &flowsets.sets {
        let mut values = Values::default();
        for param in entry.flow {
            if let Some(value) = value(param, *set, &setup, weights)? {
                values.set(param.name, value);
            }
        }
        let end = first + set.flows as usize;
        setup.flows[first..end].iter_mut().for_each(|flow| flow.values = values.clone());
        first = end;
    }
    let Some(library) = library else {
        return Ok(regime.map_or(setup.clone(), |regime| (regime.set)(setup)));
    };
    setup.scheduler.set_library(library.clone());
    let mut why = String::new();
    for share in SHARES {
        let mut flows = setup.flows.iter_mut();
        for set in &flowsets.sets {
            let given = Vec::from_iter(share(*set, setup.largest));
            flows
                .by_ref()
                .take(set.flows as usize)
                .for_each(|flow| flow.values.give(given.clone()));
        }
        match Guard::new(&setup) {
            Ok(_) => return Ok(setup),
            Err(refused) => why = refused.to_string(),
        }
    }
    Err(why)
}

/// The load of a run.
pub(super) struct DrivenRun<'a> {
    pub(super) flowsets: &'a Flowsets,
    pub(super) qmin: u64,
    pub(super) qmax: u64,
}

impl DrivenRun<'_> {
    /// Nanoseconds of CPU per pair; the error is the reason why the discipline refuses such flows.
    pub(super) fn nanos(&self, what: &UnderTest, pairs: u64) -> Result<f64, String> {
        self.with(what, |turn| {
            turn(1);
            let before = cpu_nanos();
            let done = turn(pairs);
            (cpu_nanos() - before) as f64 / done as f64
        })
    }

    /// Builds the subject. `drive` gets a function that runs a number of pairs on it and returns
    /// the actual number; its first filling and draining is the warm-up.
    pub(super) fn with<R>(
        &self,
        what: &UnderTest,
        drive: impl FnOnce(&mut dyn FnMut(u64) -> u64) -> R,
    ) -> Result<R, String> {
        let controller = Controller::new(self.flowsets, self.qmin, self.qmax);
        match what {
            UnderTest::Nothing => Ok(go(controller, PacketList::new(), drive)),
            UnderTest::Station(subject) => {
                let kind = subject.entry.kind;
                let setup = setup(subject, self.flowsets)?;
                registry::build(
                    kind,
                    &setup,
                    AtStation { setup: &registry::joined(kind, &setup), controller, drive },
                )
                .map_err(why)
            }
            UnderTest::Engine(subject) => {
                let spec =
                    PipeSpec::new(subject.entry.kind, setup(subject, self.flowsets)?, Span::ZERO);
                let engine = Engine::new(&[spec]).map_err(|(_, refused)| why(refused))?;
                let bed = InEngine {
                    engine,
                    now: Time::ZERO,
                    out: Vec::new(),
                    sending: None,
                    gone: Vec::new(),
                };
                Ok(go(controller, bed, drive))
            }
        }
    }
}

fn go<R>(
    mut controller: Controller,
    mut bed: impl PacketSink,
    drive: impl FnOnce(&mut dyn FnMut(u64) -> u64) -> R,
) -> R {
    drive(&mut |pairs| controller.run(&mut bed, pairs))
}

fn why(refused: ConfigErrors) -> String {
    refused.to_string()
}

struct AtStation<'a, F> {
    setup: &'a Setup,
    controller: Controller,
    drive: F,
}

impl<R, F: FnOnce(&mut dyn FnMut(u64) -> u64) -> R> Visitor for AtStation<'_, F> {
    type Output = R;
    fn visit<D: CompleteDiscipline>(self, discipline: D) -> R {
        if aqm::any(self.setup) {
            let managed = WithAqm::new(self.setup, discipline);
            return go(self.controller, Served::of(managed, self.setup), self.drive);
        }
        go(
            self.controller,
            Served::of(SchedulerInstance::new(self.setup, discipline), self.setup),
            self.drive,
        )
    }
}

/// A FIFO list, linked through the packets' own records.
struct PacketList {
    first: u32,
    last: u32,
    wire: Wire,
    now: Time,
}

const NONE: u32 = u32::MAX;

impl PacketList {
    fn new() -> PacketList {
        PacketList { first: NONE, last: NONE, wire: Wire::new(RATE), now: Time::ZERO }
    }
}

impl PacketSink for PacketList {
    #[inline]
    fn enqueue(&mut self, packet: Packet, buffers: &mut [Buffer]) -> bool {
        match self.first {
            NONE => self.first = packet.handle,
            _ => buffers[self.last as usize].next = packet.handle,
        }
        self.last = packet.handle;
        true
    }
    #[inline]
    fn dequeue(&mut self, buffers: &mut [Buffer]) -> Option<(u32, u32)> {
        let handle = self.first;
        let buffer = buffers.get(handle as usize)?;
        self.first = buffer.next;
        self.now = self.wire.send(buffer.bytes, self.now);
        Some((handle, buffer.flow))
    }
    #[inline]
    fn now(&self) -> Time {
        self.now
    }
}

struct Served<S> {
    server: S,
    wire: Wire,
    now: Time,
    tallies: Vec<HotCounters>,
}

impl<S> Served<S> {
    fn of(server: S, setup: &Setup) -> Served<S> {
        let tallies = vec![HotCounters::default(); setup.flows.len()];
        Served { server, wire: Wire::new(setup.rate), now: Time::ZERO, tallies }
    }
}

impl<S: Scheduler> PacketSink for Served<S> {
    #[inline]
    fn enqueue(&mut self, packet: Packet, _: &mut [Buffer]) -> bool {
        let is_in = self.server.arrive(packet, self.now).is_ok();
        if is_in {
            self.tallies[packet.flow.index()].queued(packet.bytes);
        }
        is_in
    }
    #[inline]
    fn dequeue(&mut self, _: &mut [Buffer]) -> Option<(u32, u32)> {
        loop {
            match self.server.next(self.now, &self.wire) {
                Decision::Serve(queue) => {
                    let sent = self.server.take(queue, self.now, &mut self.wire).1;
                    self.now = sent.end;
                    let packet = self.server.finish(queue, sent.end);
                    self.tallies[packet.flow.index()].gone(packet.bytes);
                    return Some((packet.handle, packet.flow.0));
                }
                Decision::Drop(queue) => {
                    let packet = self.server.drop_head(queue, self.now);
                    self.tallies[packet.flow.index()].gone(packet.bytes);
                    return Some((packet.handle, packet.flow.0));
                }
                Decision::NotBefore(then) => self.now = then,
                Decision::Idle => return None,
            }
        }
    }
    #[inline]
    fn now(&self) -> Time {
        self.now
    }
}

struct InEngine {
    engine: Engine,
    now: Time,
    out: Vec<Output>,
    /// The packet in transmission.
    sending: Option<Emit>,
    /// Handle and flow of packets that have left.
    gone: Vec<(u32, u32)>,
}

const PIPE: PipeId = PipeId(0);

impl InEngine {
    #[inline]
    fn read(&mut self) {
        for output in self.out.drain(..) {
            match output {
                Output::Emit(emit) => self.sending = Some(emit),
                Output::Drop(drop) => self.gone.push((drop.handle, drop.flow.0)),
                // Outputs that occur only on links with impairments, marks or changes.
                Output::Copy(_)
                | Output::Corrupt(_)
                | Output::Mark(_)
                | Output::Early(_)
                | Output::Retimed(_) => {}
            }
        }
    }
}

impl PacketSink for InEngine {
    #[inline]
    fn enqueue(&mut self, packet: Packet, _: &mut [Buffer]) -> bool {
        let unit = Unit { flow: packet.flow, handle: packet.handle, bytes: packet.bytes };
        self.engine.input(PIPE, unit, self.now, &mut self.out);
        self.read();
        true
    }
    #[inline]
    fn dequeue(&mut self, _: &mut [Buffer]) -> Option<(u32, u32)> {
        while self.gone.is_empty() {
            let due = self.engine.next_event();
            if due == Time::NEVER {
                return None;
            }
            self.now = due;
            let sent = self.sending.take_if(|emit| emit.end <= due);
            self.gone.extend(sent.map(|emit| (emit.handle, emit.flow.0)));
            self.engine.poll(due, &mut self.out);
            self.read();
        }
        self.gone.pop()
    }
    #[inline]
    fn now(&self) -> Time {
        self.now
    }
}
