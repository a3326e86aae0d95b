//! The live loop: ports, the engine between them, and the release timer.
//!
//! The arrival time of a packet is the time at which it has been read. The engine makes all
//! decisions for nominal instants, the times at which events are due. A packet is delivered at its
//! nominal instant or a little later, never earlier. That lateness has two parts: the time for
//! which a packet is held until other packets of its unit are due, and the release error. The
//! release error is the time from the planned instant until the port is called. Both parts are
//! recorded for each packet, and no decision depends on them. The time that the port then takes
//! (the kernel delivers within the call) is part of the delay that the receiver sees.
//!
//! The [`Timer`] determines how the loop waits. In the last microseconds before a delivery is due,
//! a spinning or hybrid loop reads only the clock, and no port: reading a unit then would delay the
//! packet that is due. This period is about as long as reading a unit takes. Each port still gets a
//! turn between two deliveries; otherwise the ports of a link on which a packet is always due soon
//! would never be read. The quota of a port in a round is processor time and not a number of
//! packets: a storm of tiny packets at one port takes no time from the other ports.

mod adaptive_sleep;
mod backpressure;
mod capture;
mod change;
mod continuation;
mod envelope;
mod guarantee;
mod mask_memory;
mod occupancy;
mod options;
mod pool;
mod read_quota;
mod recorder;
mod release;
mod rt_yield;
mod run;
mod run_delay;
mod rx;
mod snapshot;
mod statistics;
mod timer;
mod tx;
mod units;

pub use change::AppliedChange;
pub use continuation::ForwarderState;
pub use guarantee::{
    Compliance, GuaranteeTerms, REMEMBERED, RateViolation, Violation, ViolationCause,
};
pub use occupancy::LinkOccupancy;
pub use options::{Options, WhenFull};
pub use recorder::{Recorded, Recorder};
pub use run::Woken;
pub use snapshot::{FlowSnapshot, Snapshot, Sojourns};
pub use statistics::{LiveFlow, LiveLosses, LoopActivity, NotTaken};
pub use timer::Timer;

use crate::backend::port::Port;
use crate::clock::Clock;
use crate::gso::join::TrainJoin;
use crate::poll::PollSet;
use crate::priority;
use adaptive_sleep::AdaptiveSleep;
use backpressure::RefusedBursts;
use falaj_engine::network::Network;
use falaj_engine::{Output, PipeId};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Ecn;
use falaj_sched::units::time::{Span, Time};
use guarantee::Guarantees;
use mask_memory::MaskMemory;
use occupancy::OccupancyLog;
use read_quota::ReadQuotas;
use release::Releases;
use rt_yield::RtYield;
use run_delay::RunDelay;
use rx::PendingUnit;
use std::collections::BTreeMap;
use std::io;
use timer::{QuietWindow, WakeLead};
use units::UnitStore;

/// A port with the pipe that its units enter and the port at which they leave.
pub struct Attached {
    /// The port.
    pub port: Box<dyn Port>,
    /// The pipe that its units enter; with rules, only the direction of this pipe counts.
    pub pipe: PipeId,
    /// Index of the port at which they leave.
    pub leaves_at: usize,
}

/// State of the report on the first overflow of a queue.
#[derive(Clone, Copy)]
enum Overflow {
    No,
    Wanted,
    Happened(PipeId, FlowId),
}

/// The engine, the ports, and the packets in transit between them.
pub struct Forwarder {
    clock: Clock,
    network: Network,
    ports: Vec<Attached>,
    options: Options,
    wake_lead: WakeLead,
    quiet_window: QuietWindow,
    /// Yields the processor to other threads, if this thread has real-time priority.
    rt_yield: RtYield,
    run_delay: RunDelay,
    adaptive_sleep: AdaptiveSleep,
    /// End of the last sleep in which packets gathered.
    woke: Time,
    /// Time at which the last unit was read.
    read: Time,
    /// Time between reading the last unit and the unit before it.
    gap: Span,
    watch: PollSet,
    /// Other descriptors to wait for, which are not ports.
    watch_others: PollSet,
    units: UnitStore,
    mask_memory: MaskMemory,
    /// By port, the unit that waits for room in a queue.
    waiting: Vec<Option<PendingUnit>>,
    /// By port, the bursts that the port refused for lack of room.
    full: Vec<RefusedBursts>,
    /// By port, the largest backlog of its device, if the device paces a link.
    backlogs: Vec<Option<u32>>,
    read_quotas: ReadQuotas,
    /// Buffer for a part of a unit.
    cut: Vec<u8>,
    /// Bursts that leave together.
    together: Vec<u32>,
    /// The buffer in which bursts that leave together become one unit.
    join: TrainJoin,
    out: Vec<Output>,
    /// Number of packets that have entered the engine, or that rules have not admitted.
    arrived: u64,
    recorder: Option<Recorder>,
    /// With a recorder: the ECN bits that packets had before they were marked, by handle.
    marked: BTreeMap<u32, Ecn>,
    releases: Releases,
    /// The pipes that the forwarder reports, in the callers' numbering.
    order: Vec<PipeId>,
    /// Measurements of flows, by pipe and flow.
    flows: Vec<Vec<LiveFlow>>,
    /// Time at which the last unit arrived, by pipe and flow.
    active: Vec<Vec<Time>>,
    losses: LiveLosses,
    overflow: Overflow,
    /// True if the forwarder is to report when ids of a mask first share a queue or a link.
    tells_of_sharing: bool,
    awake: LoopActivity,
    /// Largest lateness of a delivery since the last query.
    latest: Span,
    guarantees: Guarantees,
    occupancy_log: OccupancyLog,
}

impl Forwarder {
    /// A forwarder whose ports are connected by the network's pipes.
    pub fn new(
        clock: Clock,
        network: impl Into<Network>,
        ports: Vec<Attached>,
        options: Options,
    ) -> Forwarder {
        let network = network.into();
        let flows = network.flows();
        let fresh = LiveFlow::among(flows.iter().sum());
        let size = ports.iter().map(|p| p.port.longest()).max().unwrap_or(1);
        Forwarder {
            clock,
            order: (0..flows.len() as u32).map(PipeId).collect(),
            flows: flows.iter().map(|&n| vec![fresh.clone(); n]).collect(),
            network,
            waiting: vec![None; ports.len()],
            full: ports.iter().map(|_| RefusedBursts::default()).collect(),
            backlogs: vec![None; ports.len()],
            read_quotas: ReadQuotas::new(ports.len()),
            ports,
            options,
            wake_lead: WakeLead::new(),
            quiet_window: QuietWindow::new(),
            rt_yield: RtYield::new(priority::kept_for_others()),
            run_delay: RunDelay::new(),
            adaptive_sleep: AdaptiveSleep::new(),
            woke: Time::ZERO,
            read: Time::ZERO,
            gap: Span::from_secs(1),
            watch: PollSet::default(),
            watch_others: PollSet::default(),
            units: UnitStore::new(size, options.memory),
            mask_memory: MaskMemory::new(options.resident),
            cut: Vec::new(),
            together: Vec::new(),
            join: TrainJoin::default(),
            out: Vec::new(),
            arrived: 0,
            recorder: None,
            marked: BTreeMap::new(),
            releases: Releases::new(options.slack),
            active: flows.iter().map(|&n| vec![Time::NEVER; n]).collect(),
            losses: LiveLosses::default(),
            overflow: Overflow::No,
            tells_of_sharing: false,
            awake: LoopActivity::default(),
            latest: Span::ZERO,
            guarantees: Guarantees::default(),
            occupancy_log: OccupancyLog::default(),
        }
    }

    /// Number of bytes that a capture may use: an eighth of the memory for packets.
    pub fn memory_for_capture(&self) -> usize {
        self.options.memory / 8
    }

    /// From now on, records arriving packets and their fate with this recorder. Its memory is taken
    /// from the memory for packets.
    pub fn record(&mut self, recorder: Recorder) {
        self.units.reserve(recorder.memory());
        self.recorder = Some(recorder);
    }

    /// From now on [`run`](Forwarder::run) returns once when a queue is full for the first time,
    /// and once when ids of a mask have to share queues or links for the first time.
    pub fn tell_of_overflow(&mut self) {
        self.overflow = Overflow::Wanted;
        self.tells_of_sharing = true;
    }

    /// The first mask whose ids have to share, with its pipe in the callers' numbering.
    fn sharing(&self) -> Option<(PipeId, Option<FlowId>)> {
        let mut pipes = self.order.iter().enumerate();
        pipes.find_map(|(n, &pipe)| Some((PipeId(n as u32), self.network.overflowing_mask(pipe)?)))
    }

    /// Returns true if no packet is in transit.
    pub fn is_empty(&self) -> bool {
        self.releases.is_empty() && self.network.next_event() == Time::NEVER
    }

    /// The forwarder's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

fn gone(port: &dyn Port, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{} is gone ({error})", port.name()))
}

/// Drops a packet of a unit. If the packet is the whole unit, notifies the unit's port.
fn lose(units: &mut UnitStore, ports: &mut [Attached], unit: u32) {
    if let Some((port, bytes)) = units.single(unit) {
        ports[port].port.dropped(bytes);
    }
    units.gone(unit, 1);
}
