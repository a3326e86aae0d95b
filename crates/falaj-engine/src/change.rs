//! A change of one pipe or of several, at one instant: all of it or nothing.
//!
//! What can fail or takes long is done beforehand ([`Prepared::new`]), by any thread: it needs no
//! engine. [`Engine::apply`](crate::Engine::apply) then looks whether the change still fits, and
//! cannot fail behind that.
//!
//! A change of parameters is a succession: queues, the packet on the wire and what flows owe or are
//! owed stay. Where flows go or change places, where packets become too large, where packets may be
//! dropped, and where the discipline is another, the packets that wait join the new queues in their
//! order of arrival.
//!
//! Pipes may begin and end with it: one that ends sends what waits, and its place may be another's
//! when it is empty.
//!
//! The bits that are left of a packet on the wire go at the new rate, and its new end is told by an
//! [`Output::Retimed`](crate::Output::Retimed). What has left the wire is due when it was to be.

use crate::handover::{FlowMapping, Handover};
use crate::message::PipeId;
use crate::pipe::build::{BuildFor, build};
use crate::pipe::{PipeLinks, PipeSpec};
use falaj_sched::contract::params::ConfigErrors;
use std::ops::Range;

/// What is to become of a pipe.
#[derive(Clone, Debug)]
pub struct PipeChange {
    /// Which one.
    pub pipe: PipeId,
    /// What it is from now on.
    pub spec: PipeSpec,
    /// What becomes of the flows that it has; empty: each keeps its index, and those beyond are
    /// new.
    pub flows: Vec<FlowMapping>,
    /// May packets that wait and do not fit any more be dropped? Those are what is larger than the
    /// largest packet, and what is beyond the new limit of its queue. Without it the former
    /// make the change unfit, and the latter stay.
    pub drop: bool,
}

impl PipeChange {
    /// All flows stay, nothing is dropped.
    pub fn new(pipe: PipeId, spec: PipeSpec) -> PipeChange {
        PipeChange { pipe, spec, flows: Vec::new(), drop: false }
    }
}

/// Why a change of a pipe is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeError {
    /// The discipline refuses its new setup.
    Refused(ConfigErrors),
    /// It has fewer flows than the pipe has now.
    Fewer {
        /// As many as there are now.
        flows: usize,
    },
    /// A packet that waits is larger than its largest packet.
    Smaller {
        /// As large as that one.
        largest: u32,
    },
    /// What becomes of the flows was not said for those that there are, or they were to become what
    /// there is not.
    NoSuchFlow {
        /// As many as there would be.
        flows: usize,
    },
    /// There is no such pipe, or it has ended.
    NoSuchPipe,
    /// A pipe would begin where another one is.
    Occupied,
    /// A pipe would be paced by its device, and the port behind it does not say when it has room.
    Unpaced,
}

impl std::fmt::Display for ChangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChangeError::Refused(refused) => refused.fmt(f),
            ChangeError::Fewer { flows } => {
                write!(f, "a pipe of {flows} flows keeps them: packets may wait in each")
            }
            ChangeError::Smaller { largest } => {
                write!(f, "a packet of {largest} B waits, and would be too large")
            }
            ChangeError::NoSuchFlow { flows } => {
                write!(f, "flows would become others than the {flows} that there are")
            }
            ChangeError::NoSuchPipe => f.write_str("there is no such pipe"),
            ChangeError::Occupied => f.write_str("its place is another's still"),
            ChangeError::Unpaced => f.write_str(
                "the interface does not say when it has room: `pace = \"device\"` is for packet \
                 sockets, as of `falaj bridge`",
            ),
        }
    }
}
impl std::error::Error for ChangeError {}

/// The successor of a pipe, and how it takes over.
pub(crate) struct Succession {
    pub(crate) pipe: PipeId,
    pub(crate) successor: PipeLinks,
    pub(crate) handover: Handover,
}

/// A change that was found good.
pub struct Prepared {
    pub(crate) parts: Vec<Succession>,
    pub(crate) begin: Vec<(PipeId, PipeLinks)>,
    pub(crate) end: Vec<PipeId>,
}

impl Prepared {
    /// Builds what is to take over. No pipe comes twice.
    ///
    /// # Errors
    /// A discipline refuses its new setup, or flows were to become what there is not.
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

    /// Values of a pipe change with it, and nothing else: its discipline, its flows and masks stay
    /// what they are, and of queues these flows' alone have another limit. Queues and counts
    /// stay where they are, and none are made for it.
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

    /// Another pipe begins with it: behind all that there are, in order, or in the place of one
    /// that has ended and holds no packet any more.
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

    /// A pipe ends with it, after what else is changed of it. It sends what waits, and who hands
    /// packets in has none for it any more.
    pub fn ending(mut self, pipe: PipeId) -> Prepared {
        self.end.push(pipe);
        self
    }

    /// Which pipes begin.
    pub fn begins(&self) -> impl Iterator<Item = PipeId> {
        self.begin.iter().map(|(pipe, _)| *pipe)
    }

    /// Which pipes are paced by their devices from then on, of those that it changes or begins.
    pub fn by_devices(&self) -> impl Iterator<Item = PipeId> {
        let changed = self.parts.iter().map(|part| (part.pipe, &part.successor));
        let all = changed.chain(self.begin.iter().map(|(pipe, fresh)| (*pipe, fresh)));
        let by_device = |pipe: &PipeLinks| pipe.as_pipe().properties().device_backlog.is_some();
        all.filter(move |(_, pipe)| by_device(pipe)).map(|(pipe, _)| pipe)
    }

    /// Which pipes it changes.
    pub fn pipes(&self) -> impl Iterator<Item = PipeId> {
        self.parts.iter().map(|part| part.pipe)
    }
}
