//! The live loop: ports, the engine between them, and the release timer.
//!
//! Arrivals are stamped when they have been read; all decisions are the
//! engine's, at nominal instants. What is due is handed over at its nominal
//! instant or a little later, never earlier. That lateness is the release
//! error: the instant at which the port is called, less the nominal one. It is
//! recorded for each packet and never part of a decision. How long the port
//! then takes (the kernel delivers within the call) is part of the delay that
//! the receiver sees.
//!
//! How it waits is the [`Timer`]'s matter. Spinning and hybrid it looks at
//! nothing but the clock for as long before an instant as reading a unit takes, because a packet
//! read then would make the one that is due late. In between hand-overs each port
//! gets a turn all the same, or a link with a packet always near would never
//! read. What a port may read in a round is so much time of the processor and not
//! so many packets: a storm of tiny ones at one port takes nothing from the others.

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

/// A port, the pipe that its units enter and the port at which they leave.
pub struct Attached {
    /// The port.
    pub port: Box<dyn Port>,
    /// Where its units go in; where there are rules, its direction alone counts.
    pub pipe: PipeId,
    /// The port, by its index, where they come out.
    pub leaves_at: usize,
}

/// Is it told that a queue was full?
#[derive(Clone, Copy)]
enum Overflow {
    No,
    Wanted,
    Happened(PipeId, FlowId),
}

/// Engine, ports and what is on its way between them.
pub struct Forwarder {
    clock: Clock,
    network: Network,
    ports: Vec<Attached>,
    options: Options,
    wake_lead: WakeLead,
    quiet_window: QuietWindow,
    /// What this thread owes others if it is before them all.
    rt_yield: RtYield,
    run_delay: RunDelay,
    adaptive_sleep: AdaptiveSleep,
    /// When it last had let packets gather.
    woke: Time,
    /// When the last unit was read, and how long after the one before.
    read: Time,
    gap: Span,
    watch: PollSet,
    /// Only what is none of the ports.
    watch_others: PollSet,
    units: UnitStore,
    mask_memory: MaskMemory,
    /// By port, what waits there for room.
    waiting: Vec<Option<PendingUnit>>,
    /// By port, what it had no room for.
    full: Vec<RefusedBursts>,
    /// By port, what its device is handed ahead of time at most, where that paces a link.
    backlogs: Vec<Option<u32>>,
    read_quotas: ReadQuotas,
    /// Where a part of a unit is made.
    cut: Vec<u8>,
    /// Bursts that are handed over at once, and where they become one unit.
    together: Vec<u32>,
    join: TrainJoin,
    out: Vec<Output>,
    /// Packets that have entered the engine.
    arrived: u64,
    recorder: Option<Recorder>,
    /// While that is there: the ECN bits that packets had before they were marked, by handle.
    marked: BTreeMap<u32, Ecn>,
    releases: Releases,
    /// The pipes that it tells of, as those who ask number them.
    order: Vec<PipeId>,
    /// By pipe.
    flows: Vec<Vec<LiveFlow>>,
    /// By pipe and flow, when a unit came last.
    active: Vec<Vec<Time>>,
    losses: LiveLosses,
    overflow: Overflow,
    /// It is to be told that ids have to share.
    tells_of_sharing: bool,
    awake: LoopActivity,
    /// How late the latest hand-over was since that was asked last.
    latest: Span,
    guarantees: Guarantees,
    occupancy_log: OccupancyLog,
}

impl Forwarder {
    /// The pipes that the network has carry what comes in at these ports.
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

    /// Bytes of the memory for packets that a capture may take: an eighth of it.
    pub fn memory_for_capture(&self) -> usize {
        self.options.memory / 8
    }

    /// From now on, what enters and what becomes of it is written there. Its memory is taken from
    /// that for packets.
    pub fn record(&mut self, recorder: Recorder) {
        self.units.reserve(recorder.memory());
        self.recorder = Some(recorder);
    }

    /// From now on it comes back when a queue is full, once, and when ids of a mask have to share,
    /// once.
    pub fn tell_of_overflow(&mut self) {
        self.overflow = Overflow::Wanted;
        self.tells_of_sharing = true;
    }

    /// The first mask whose ids have to share, as those who ask number pipes.
    fn sharing(&self) -> Option<(PipeId, Option<FlowId>)> {
        let mut pipes = self.order.iter().enumerate();
        pipes.find_map(|(n, &pipe)| Some((PipeId(n as u32), self.network.overflowing_mask(pipe)?)))
    }

    /// Anything left on its way?
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

/// A packet of a unit is no more; where it was all of it, its port hears of that.
fn lose(units: &mut UnitStore, ports: &mut [Attached], unit: u32) {
    if let Some((port, bytes)) = units.single(unit) {
        ports[port].port.dropped(bytes);
    }
    units.gone(unit, 1);
}
