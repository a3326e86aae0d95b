//! A change of one pipe or of several at one instant, made as a whole or not at all.
//!
//! [`Prepared::new`] does all work that can fail or takes long in advance. It needs no engine, so
//! any thread may run it. [`Engine::apply`](crate::Engine::apply) then checks that the change still
//! fits; after that check nothing can fail.
//!
//! At a change of parameters a new pipe replaces the old one and takes over its queues, the packet
//! on the wire, and the deficits and credits of flows. The queued packets join new queues in their
//! order of arrival where flows are removed or get another index, where packets become too large,
//! where packets may be dropped, and where the discipline changes.
//!
//! Pipes may begin and end with a change. A pipe that ends still sends its queued packets; when it
//! is empty, another pipe may take its place.
//!
//! The remaining bits of a packet on the wire are sent at the new rate; an
//! [`Output::Retimed`](crate::Output::Retimed) reports its new end. The due time of a packet that
//! has left the wire does not change.

use crate::handover::{FlowMapping, Handover};
use crate::message::PipeId;
use crate::pipe::build::{BuildFor, build};
use crate::pipe::{PipeLinks, PipeSpec};
use falaj_sched::contract::params::ConfigErrors;
use std::ops::Range;

/// The change of one pipe.
#[derive(Clone, Debug)]
pub struct PipeChange {
    /// The pipe to change.
    pub pipe: PipeId,
    /// Its new spec.
    pub spec: PipeSpec,
    /// The mapping of each existing flow. Empty: each flow keeps its index, and flows beyond those
    /// are new.
    pub flows: Vec<FlowMapping>,
    /// True if queued packets that no longer fit may be dropped: those larger than the largest
    /// packet, and those beyond the new limit of their queue. If false, a packet that is too large
    /// makes the change fail, and packets beyond a limit stay queued.
    pub drop: bool,
}

impl PipeChange {
    /// A change in which all flows stay and nothing is dropped.
    pub fn new(pipe: PipeId, spec: PipeSpec) -> PipeChange {
        PipeChange { pipe, spec, flows: Vec::new(), drop: false }
    }
}

/// The reason why a change of a pipe is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeError {
    /// The discipline refuses the new setup.
    Refused(ConfigErrors),
    /// The new spec has fewer flows than the pipe has now.
    Fewer {
        /// The number of flows now.
        flows: usize,
    },
    /// A queued packet is larger than the new largest packet.
    Smaller {
        /// Length of that packet in bytes.
        largest: u32,
    },
    /// The flow mapping misses an existing flow, names a flow that does not exist, or makes two
    /// flows become the same flow.
    NoSuchFlow {
        /// The number of flows after the change; if the mapping has the wrong length, the number
        /// before the change.
        flows: usize,
    },
    /// The pipe does not exist, or it has ended.
    NoSuchPipe,
    /// A pipe would begin in a place that is in use, or leave a gap after the existing pipes.
    Occupied,
    /// The device would pace the pipe, but the port behind the pipe does not report when it has
    /// room.
    Unpaced,
}

impl std::fmt::Display for ChangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChangeError::Refused(refused) => refused.fmt(f),
            ChangeError::Fewer { flows } => {
                write!(f, "the pipe has {flows} flows, and the new setup has fewer; map them")
            }
            ChangeError::Smaller { largest } => {
                write!(f, "a queued packet of {largest} B would be too large")
            }
            ChangeError::NoSuchFlow { flows } => {
                write!(f, "the flow mapping does not fit the pipe's {flows} flows")
            }
            ChangeError::NoSuchPipe => f.write_str("there is no such pipe"),
            ChangeError::Occupied => f.write_str("the pipe's place is not free, or leaves a gap"),
            ChangeError::Unpaced => f.write_str(
                "the interface does not say when it has room: `paced-by = \"device\"` is for \
                 packet sockets, as of `falaj bridge`",
            ),
        }
    }
}
impl std::error::Error for ChangeError {}

/// The successor of a pipe, and how it takes over the state of the pipe.
pub(crate) struct Succession {
    pub(crate) pipe: PipeId,
    pub(crate) successor: PipeLinks,
    pub(crate) handover: Handover,
}

/// A change that was checked and built, ready to apply.
pub struct Prepared {
    pub(crate) parts: Vec<Succession>,
    pub(crate) begin: Vec<(PipeId, PipeLinks)>,
    pub(crate) end: Vec<PipeId>,
}

impl Prepared {
    /// Builds the successors of the pipes. No pipe may occur twice.
    ///
    /// # Errors
    /// A discipline refuses its new setup, or a flow mapping names a flow that does not exist or
    /// makes two flows become the same flow.
    pub fn new(changes: &[PipeChange]) -> Result<Prepared, (PipeId, ChangeError)> {
        let build = |change: &PipeChange| {
            let successor =
                build(change.pipe, &change.spec, BuildFor::Any).map_err(ChangeError::Refused)?;
            let flows = successor.as_pipe().properties().flows;
            let mut taken = vec![false; flows];
            for fate in &change.flows {
                let place =
                    taken.get_mut(fate.flow().index()).ok_or(ChangeError::NoSuchFlow { flows })?;
                if matches!(fate, FlowMapping::Is(_)) && std::mem::replace(place, true) {
                    return Err(ChangeError::NoSuchFlow { flows });
                }
            }
            let handover = Handover { flows: change.flows.clone(), drop: change.drop };
            Ok(Succession { pipe: change.pipe, successor, handover })
        };
        let parts =
            changes.iter().map(|change| build(change).map_err(|unfit| (change.pipe, unfit)));
        Ok(Prepared { parts: parts.collect::<Result<_, _>>()?, begin: Vec::new(), end: Vec::new() })
    }

    /// Changes values of a pipe and nothing else: its discipline, flows and masks stay the same,
    /// and only the queues of the flows in `limits` get another limit. Queues and counters stay in
    /// place, and none are created.
    ///
    /// # Errors
    /// The discipline refuses its new setup.
    pub fn with_values(
        mut self,
        pipe: PipeId,
        spec: PipeSpec,
        limits: &[Range<u32>],
    ) -> Result<Prepared, (PipeId, ChangeError)> {
        let successor = build(pipe, &spec, BuildFor::Values(limits));
        let successor = successor.map_err(|refused| (pipe, ChangeError::Refused(refused)))?;
        self.parts.push(Succession { pipe, successor, handover: Handover::default() });
        Ok(self)
    }

    /// Begins another pipe: after all existing pipes, in order, or in the place of a pipe that has
    /// ended and holds no packets.
    ///
    /// # Errors
    /// The discipline refuses its setup.
    pub fn beginning(
        mut self,
        pipe: PipeId,
        spec: &PipeSpec,
    ) -> Result<Prepared, (PipeId, ChangeError)> {
        let fresh = build(pipe, spec, BuildFor::Any)
            .map_err(|refused| (pipe, ChangeError::Refused(refused)))?;
        self.begin.push((pipe, fresh));
        Ok(self)
    }

    /// Ends a pipe, after the other changes to it. The pipe still sends its queued packets; drivers
    /// must hand no more packets to it.
    pub fn ending(mut self, pipe: PipeId) -> Prepared {
        self.end.push(pipe);
        self
    }

    /// The pipes that begin.
    pub fn begins(&self) -> impl Iterator<Item = PipeId> {
        self.begin.iter().map(|(pipe, _)| *pipe)
    }

    /// The changed and new pipes that are paced by their devices after the change.
    pub fn by_devices(&self) -> impl Iterator<Item = PipeId> {
        let changed = self.parts.iter().map(|part| (part.pipe, &part.successor));
        let all = changed.chain(self.begin.iter().map(|(pipe, fresh)| (*pipe, fresh)));
        let by_device = |pipe: &PipeLinks| pipe.as_pipe().properties().device_backlog.is_some();
        all.filter(move |(_, pipe)| by_device(pipe)).map(|(pipe, _)| pipe)
    }

    /// The pipes that it changes.
    pub fn pipes(&self) -> impl Iterator<Item = PipeId> {
        self.parts.iter().map(|part| part.pipe)
    }
}
