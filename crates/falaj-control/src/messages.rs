//! What the socket's thread and the forwarder's say to each other.

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

/// Takes the state of a link to another process, or why there is none, and says whether that one
/// goes on.
pub(crate) type Continuation = Box<dyn FnOnce(Result<WholeState, String>) -> bool + Send>;

/// What the forwarder is asked for.
pub(crate) enum Query {
    Snapshot,
    /// Where links are, and where others may begin.
    Places,
    /// What was measured of flows, from this one on, to their places there.
    Measured {
        to: Vec<Sojourns>,
        from: usize,
    },
    /// One part of the report on a mask, of a flow or of the link: from this place on, added to the
    /// parts before.
    Made {
        of: (PipeId, Option<FlowId>),
        from: u64,
        all: Option<Box<Made>>,
    },
    /// One part of the counters of a flow with a mask, in the same way.
    Counted {
        of: (PipeId, FlowId),
        from: u64,
        sum: Box<Counters>,
    },
    /// Who held the links when.
    Turns,
    /// An adapter is to pause, or to go on.
    Pause {
        name: String,
        paused: bool,
    },
    Change(Box<Changing>),
    /// Copies of what ports need to go on in another process; the scenario names them.
    Ports(Arc<Scenario>),
    /// The link is to stop, and to end if this says that another process goes on.
    HandOver(Continuation),
}

/// What it says.
pub(crate) enum Reply {
    Places(PipePlaces),
    Snapshot(Box<Snapshot>, Vec<(String, AdapterCounts)>),
    /// It is there, up to this place.
    Measured(Vec<Sojourns>, usize),
    /// The parts so far, and where the next one begins, if there is one.
    Made(Option<Box<Made>>, Option<u64>),
    Counted(Box<Counters>, Option<u64>),
    Turns(Vec<Vec<LinkOccupancy>>),
    Paused(Result<(), String>),
    /// Copies of the ports' descriptors, and the zero of the forwarder's clock.
    Ports(Result<Vec<(String, Vec<OwnedFd>)>, String>, u64),
    HandedOver,
    /// What became of the change, and what it has left.
    Changed(Result<AppliedChange, ChangeError>, Vec<Box<dyn Any + Send>>),
}

/// A change as the forwarder makes it.
pub(crate) struct Changing {
    /// The engine's, if there is something to change.
    pub(crate) change: Option<Transaction>,
    /// What is running then.
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) held_to: HeldTo,
    pub(crate) adapters: AdaptersThen,
    /// What is to be written down of it.
    pub(crate) written: Option<Wanted>,
}

/// What flows are held to from then on.
pub(crate) enum HeldTo {
    /// As before.
    Same,
    /// These, by the number of the pipe, to other terms.
    Some(Vec<(usize, FlowId, GuaranteeTerms)>),
    /// Each, by pipe and flow, to these.
    All(Vec<Vec<GuaranteeTerms>>),
}

/// What becomes of virtual adapters.
pub(crate) enum AdaptersThen {
    /// They stay; these have another weight.
    Stay(Vec<(String, u32)>),
    /// Others come or go, as it was prepared.
    Others(Prepared),
}

/// What it says, and how long no packet passed for that.
pub(crate) struct TimedReply {
    pub(crate) told: Reply,
    pub(crate) took: Duration,
}
