//! Messages between the socket's thread and the forwarder's.

use crate::running::{Prepared, WholeState};
use falaj_engine::masks::MaskStats as Made;
use falaj_engine::network::PipePlaces;
use falaj_engine::pipe::Counters;
use falaj_engine::transaction::Transaction;
use falaj_engine::{ChangeError, PipeId};
use falaj_live::adapters::AdapterCounts;
use falaj_live::event_loop::{AppliedChange, GuaranteeTerms, LinkOccupancy, Snapshot, Sojourns};
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::FlowId;
use falaj_traffic::capture::Wanted;
use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Sends the state of a link, or the reason why there is none, to another process; returns true if
/// that process has taken over.
pub(crate) type Continuation = Box<dyn FnOnce(Result<WholeState, String>) -> bool + Send>;

/// A request to the forwarder.
pub(crate) enum Query {
    Snapshot,
    /// Requests the places of links, and the places that are free for new links.
    Places,
    /// Requests the measurements of flows from number `from` on, written to their places in `to`.
    Measured {
        to: Vec<Sojourns>,
        from: usize,
    },
    /// Requests one part of the report on the mask of a flow, or (`None`) of the link. The part
    /// begins at entry `from` and is added to the previous parts.
    Made {
        of: (PipeId, Option<FlowId>),
        from: u64,
        all: Option<Box<Made>>,
    },
    /// Requests one part of the counters of a flow with a mask. The part begins at entry `from` and
    /// is added to `sum`.
    Counted {
        of: (PipeId, FlowId),
        from: u64,
        sum: Box<Counters>,
    },
    /// Requests the link occupancy: the last turns of flows on each link.
    Turns,
    /// Pauses an adapter, or resumes it.
    Pause {
        name: String,
        paused: bool,
    },
    Change(Box<Changing>),
    /// Requests copies of the descriptors of ports with which another process can take over; the
    /// scenario names them.
    Ports(Arc<Scenario>),
    /// Stops the link, and ends it if the continuation returns true.
    HandOver(Continuation),
}

/// An answer of the forwarder.
pub(crate) enum Reply {
    Places(PipePlaces),
    Snapshot(Box<Snapshot>, Vec<(String, AdapterCounts)>),
    /// The measurements, and the number of flows that have them so far.
    Measured(Vec<Sojourns>, usize),
    /// The sum of the parts so far, and the first entry of the next part, if there is one.
    Made(Option<Box<Made>>, Option<u64>),
    Counted(Box<Counters>, Option<u64>),
    Turns(Vec<Vec<LinkOccupancy>>),
    Paused(Result<(), String>),
    /// Copies of the ports' descriptors, and the zero of the forwarder's clock.
    Ports(Result<Vec<(String, Vec<OwnedFd>)>, String>, u64),
    HandedOver,
    /// The result of the change, and the remains of the old state.
    Changed(Result<AppliedChange, ChangeError>, Vec<Box<dyn Any + Send>>),
}

/// A change for the forwarder.
pub(crate) struct Changing {
    /// The change of the engine, if there is one.
    pub(crate) change: Option<Transaction>,
    /// The scenario after the change.
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) held_to: HeldTo,
    pub(crate) adapters: AdaptersThen,
    /// The change as it is to be recorded.
    pub(crate) written: Option<Wanted>,
}

/// The guarantee terms of flows after a change.
pub(crate) enum HeldTo {
    /// The terms from before the change stay.
    Same,
    /// These terms are new, by the number of the pipe and the flow.
    Some(Vec<(usize, FlowId, GuaranteeTerms)>),
    /// All terms are new, by pipe and flow.
    All(Vec<Vec<GuaranteeTerms>>),
}

/// Changes of virtual adapters.
pub(crate) enum AdaptersThen {
    /// All adapters stay; these have a new weight.
    Stay(Vec<(String, u32)>),
    /// Adapters are added or removed, as prepared.
    Others(Prepared),
}

/// An answer, and the time for which it stopped the forwarding of packets.
pub(crate) struct TimedReply {
    pub(crate) told: Reply,
    pub(crate) took: Duration,
}
