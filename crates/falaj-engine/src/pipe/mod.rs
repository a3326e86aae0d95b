//! Pipes: queues, a scheduler and a link (dummynet's word for the whole).
//!
//! The engine holds each pipe as a `Pipe`, which combines three traits: the path of packets
//! (`PacketPath`), counters and guarantees (`Inspection`), and the kind of pipe (`PipeKind`), which
//! matters when another pipe takes over.
//!
//! | module | contents |
//! |---|---|
//! | `spec` | the specification of a pipe |
//! | `build` | builds the pipe of a spec |
//! | `scheduler_pipe` | one scheduler in front of one link |
//! | `pipe_core` | the part of `scheduler_pipe` that does not depend on the scheduler |
//! | `masked_queues` | around a scheduler's pipe: a queue for each id of a flow's mask |
//! | `masked_links` | many pipes: one for each id of the link's mask |
//! | `draining_links` | around a pipe whose link mask was changed: queued packets leave by the old links |
//! | `device` | a link that its device paces |
//! | `stats` | counters of flows |
//! | `state` | the state from which a pipe resumes in another process |

pub(crate) mod build;
mod device;
pub(crate) mod draining_links;
mod masked_links;
mod masked_queues;
mod pipe_core;
mod scheduler_pipe;
mod spec;
mod state;
mod stats;

pub use device::Pace;
pub use spec::PipeSpec;
pub(crate) use state::ImpairmentProgress;
pub use state::PipeState;
pub use stats::{Counters, HotCounters};

use crate::handover::Handover;
use crate::impair::Impairer;
use crate::masks::{MaskIds, MaskStats, Masks};
use crate::message::{Output, Unit};
use crate::transmission::Transmission;
use device::DeviceState;
use draining_links::DrainingLinks;
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::guarantee::Guarantee;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::queues::queue::{FlowId, Packet};
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::rate::Wire;
use falaj_sched::units::time::{Span, Time};
use masked_links::MaskedLinks;
use masked_queues::{MaskedQueues, Unmasked};
use stats::PipeStats;
use std::any::Any;

/// The engine's view of a pipe, whatever its scheduler and its masks.
pub(crate) trait Pipe: PacketPath + Inspection + Send {
    /// The pipe as its concrete kind.
    fn into_kind(self: Box<Self>) -> PipeKind;
    /// The state from which it resumes in another process; `None` for a pipe with masks.
    fn state(&self) -> Option<PipeState> {
        None
    }
    /// Resumes the state of a pipe in another process, before any packet of its own. Returns the
    /// time at which the next event is due; `None` if the state does not fit this pipe.
    fn resume(
        &mut self,
        state: PipeState,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Option<Time> {
        let _ = (state, known, now, out);
        None
    }
}

/// A pipe that may wrap another one.
pub(crate) trait Layer {
    /// The wrapped pipe, which gets the calls that this pipe does not implement; `None` for the
    /// innermost pipe.
    fn inner(&self) -> Option<&dyn Pipe> {
        None
    }
    /// The wrapped pipe, mutable.
    fn inner_mut(&mut self) -> Option<&mut dyn Pipe> {
        None
    }
}

/// The path of packets through a pipe. Methods that change it return the time at which its next
/// event is due.
pub(crate) trait PacketPath: Layer {
    /// A unit arrives, with its ids under the pipe's masks.
    fn arrive(&mut self, unit: Unit, ids: &MaskIds, now: Time, out: &mut Vec<Output>) -> Time;
    /// Runs the event that is due at `now`.
    fn run_event(&mut self, now: Time, out: &mut Vec<Output>) -> Time;
    /// The port behind the pipe has room for `room` bytes; with 0 it refuses packets until it
    /// reports room again. Without effect on a link that falaj paces.
    fn port_room(&mut self, room: u32, now: Time, out: &mut Vec<Output>) -> Time;
    /// The label of the unit that arrives next.
    fn announce(&mut self, label: Label) {
        if let Some(inner) = self.inner_mut() {
            inner.announce(label);
        }
    }
    /// Lower bound on the due time of units that are not decided yet, if no other unit arrives.
    fn next_due(&self) -> Time;
    /// Times at which its device needs more packets, if the device paces the link.
    fn device_times(&self) -> DeviceTimes {
        self.inner().map_or(DeviceTimes::NONE, |inner| inner.device_times())
    }
    /// Returns true if a unit of `bytes` bytes finds room in the queue of its flow and ids.
    fn has_room(&self, flow: FlowId, ids: &MaskIds, bytes: u32) -> bool;
    /// Lower bound on the due time of a packet of `bytes` bytes that is not decided by `now`.
    fn earliest_due(&self, bytes: u32, now: Time) -> Time;
}

/// Counters and guarantees of a pipe.
pub(crate) trait Inspection: Layer {
    /// The properties of the pipe, which are constant.
    fn properties(&self) -> &PipeProperties;
    /// Counters of a flow.
    fn counters(&self, flow: FlowId) -> Counters;
    /// The sum over `number` flows from `first` on.
    fn sum(&self, first: FlowId, number: u32) -> Counters {
        let mut sum = Counters::default();
        (first.0..first.0 + number).for_each(|flow| sum.add(&self.counters(FlowId(flow))));
        sum
    }
    /// Counters of flows that were removed by changes.
    fn removed_flow_counters(&self) -> Counters {
        self.inner().map_or_else(Counters::default, |inner| inner.removed_flow_counters())
    }
    /// The guarantee of a flow.
    fn guarantee(&self, flow: FlowId) -> Result<Guarantee, NoGuarantee>;
    /// Adds the breaches of contract by plugin disciplines, those of predecessors included.
    fn breaches(&self, out: &mut Vec<Breach>) {
        if let Some(inner) = self.inner() {
            inner.breaches(out);
        }
    }
    /// Length in bytes of the largest queued packet, without the packet on the wire; 0 if none is
    /// queued.
    fn largest_waiting(&self) -> u32 {
        self.inner().map_or(0, |inner| inner.largest_waiting())
    }
    /// Returns true if another flow may start in the place of this one: it is empty, and has no
    /// deficit or credit.
    fn is_reusable(&mut self, flow: FlowId, now: Time) -> bool;
    /// Returns true if another pipe may start in the place of this one.
    fn is_at_rest(&mut self, now: Time) -> bool {
        self.inner_mut().is_none_or(|inner| inner.is_at_rest(now))
    }
    /// Statistics of the ids of the mask of `flow`, or of the link's mask; at most `busiest` ids,
    /// the busiest ones, are listed by name. Returns `None` if there is no such mask.
    fn mask_stats(&self, flow: Option<FlowId>, busiest: usize) -> Option<MaskStats> {
        self.inner()?.mask_stats(flow, busiest)
    }
    /// Computes one part of [`mask_stats`](Inspection::mask_stats): about `steps` ids, from place
    /// `from` on (0: the beginning). They are added to `all`, which has the parts before. Returns
    /// the place where the next part begins, if there is one. Links that are removed between two
    /// parts are missing.
    fn mask_stats_part(
        &self,
        flow: Option<FlowId>,
        busiest: usize,
        (from, steps): (u64, usize),
        all: &mut Option<MaskStats>,
    ) -> Option<u64> {
        self.inner()?.mask_stats_part(flow, busiest, (from, steps), all)
    }
    /// One part of [`counters`](Inspection::counters): those of about `steps` of the flow's queues,
    /// from the place `from` on (0: the beginning), are added to `sum`. Returns the place where the
    /// next part begins, if there is one.
    fn counters_part(
        &self,
        flow: FlowId,
        (from, steps): (u64, usize),
        sum: &mut Counters,
    ) -> Option<u64> {
        let _ = (from, steps);
        sum.add(&self.counters(flow));
        None
    }
    /// The mask that has reached its maximum, so that some ids share a queue or link: that of a
    /// flow, or (`None`) that of the link.
    fn overflowing_mask(&self) -> Option<Option<FlowId>> {
        self.inner()?.overflowing_mask()
    }
}

/// Properties of a pipe, which are constant.
#[derive(Debug, Clone)]
pub(crate) struct PipeProperties {
    /// Number of flows; a flow with a mask counts once.
    pub(crate) flows: usize,
    /// The masks of the link and of flows.
    pub(crate) masks: Masks,
    /// Length in bytes of the largest packet that it accepts.
    pub(crate) largest: u32,
    /// Lower bound on the time from a decision of the scheduler to the delivery that it causes.
    pub(crate) least_delay: Span,
    /// The largest number of bytes that its device holds; `None` if falaj paces the link.
    pub(crate) device_backlog: Option<u32>,
    /// True if it reads the labels of units.
    pub(crate) wants_labels: bool,
    /// True if queue management may drop packets that are queued already, or for which there is
    /// room.
    pub(crate) drops_early: bool,
}

/// Times at which a device that paces its link needs attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceTimes {
    /// Time at which it needs more packets, which need not be met precisely; [`Time::NEVER`] if it
    /// is not full.
    pub(crate) refill: Time,
    /// It has enough packets until then, whatever arrives; [`Time::NEVER`] if it has nothing to
    /// send, and [`Time::ZERO`] if an arriving packet may have to leave at once.
    pub(crate) supplied_until: Time,
}

impl DeviceTimes {
    /// The times of a link that falaj paces.
    pub(crate) const NONE: DeviceTimes =
        DeviceTimes { refill: Time::NEVER, supplied_until: Time::ZERO };
}

/// One scheduler in front of one link, and how such a pipe takes over from another.
pub(crate) trait LinkPipe: Pipe + Any {
    /// Takes over the packets, the link's state and the counters of `old`. Returns the time at
    /// which the next event is due.
    fn migrate_from(
        &mut self,
        old: Box<dyn LinkPipe>,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Time;
    /// Takes the pipe apart, for a pipe of another scheduler to take over.
    fn dismantle(self: Box<Self>) -> PipeParts;
    /// State that it no longer needs after it took over, and that takes a while to free.
    fn deferred_drops(&mut self) -> Option<DeferredDrops>;
}

/// State of a predecessor that is no longer needed, to be freed on a thread without deadlines.
pub(crate) type DeferredDrops = Box<dyn Any + Send>;

/// A pipe without its scheduler.
pub(crate) struct PipeParts {
    /// The queued packets, the packet on the wire first.
    packets: Vec<Packet>,
    /// The transmission of the packet on the wire.
    sending: Option<Transmission>,
    wire: Wire,
    device: Option<DeviceState>,
    stats: PipeStats,
    impairer: Option<Box<Impairer>>,
}

/// A pipe as its concrete kind.
pub(crate) enum PipeKind {
    /// Links built from a spec.
    Links(PipeLinks),
    /// Links beside the earlier links, which still drain.
    Draining(Box<DrainingLinks>),
}

/// The links of a spec: one, or one for each id of a mask.
pub(crate) enum PipeLinks {
    /// One link.
    Single(SingleLink),
    /// A link for each id.
    Masked(Box<MaskedLinks>),
}

/// One link, whose flows may have masks.
pub(crate) enum SingleLink {
    /// No flow has a mask.
    Plain(Box<dyn LinkPipe>),
    /// At least one flow has a mask.
    Masked(Box<MaskedQueues>),
}

impl PipeLinks {
    /// The pipe as a trait object, owned.
    pub(crate) fn into_pipe(self) -> Box<dyn Pipe> {
        match self {
            PipeLinks::Single(single) => single.into_pipe(),
            PipeLinks::Masked(links) => links,
        }
    }

    /// The pipe as a trait object.
    pub(crate) fn as_pipe(&self) -> &dyn Pipe {
        match self {
            PipeLinks::Single(single) => single.as_pipe(),
            PipeLinks::Masked(links) => &**links,
        }
    }

    /// The pipe as a trait object, mutable.
    fn as_pipe_mut(&mut self) -> &mut dyn Pipe {
        match self {
            PipeLinks::Single(single) => single.as_pipe_mut(),
            PipeLinks::Masked(links) => &mut **links,
        }
    }

    /// Takes over from `old` and returns the time at which the next event is due. Returns `old` if
    /// its links differ.
    fn migrate_from(
        &mut self,
        old: PipeLinks,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Result<Time, PipeLinks> {
        match (self, old) {
            (PipeLinks::Single(own), PipeLinks::Single(old)) => {
                Ok(own.migrate_from(old, how, known, now, out))
            }
            (PipeLinks::Masked(own), PipeLinks::Masked(old)) if own.has_links_of(&old) => {
                Ok(own.migrate_from(*old, how, known, now, out))
            }
            (_, old) => Err(old),
        }
    }

    /// See [`LinkPipe::deferred_drops`].
    fn deferred_drops(&mut self) -> Option<DeferredDrops> {
        match self {
            PipeLinks::Single(single) => single.deferred_drops(),
            PipeLinks::Masked(_) => None,
        }
    }
}

impl SingleLink {
    fn into_pipe(self) -> Box<dyn Pipe> {
        match self {
            SingleLink::Plain(pipe) => pipe,
            SingleLink::Masked(queues) => queues,
        }
    }

    fn as_pipe(&self) -> &dyn Pipe {
        match self {
            SingleLink::Plain(pipe) => &**pipe,
            SingleLink::Masked(queues) => &**queues,
        }
    }

    fn as_pipe_mut(&mut self) -> &mut dyn Pipe {
        match self {
            SingleLink::Plain(pipe) => &mut **pipe,
            SingleLink::Masked(queues) => &mut **queues,
        }
    }

    /// See [`LinkPipe::migrate_from`].
    fn migrate_from(
        &mut self,
        old: SingleLink,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Time {
        match (self, old) {
            (SingleLink::Plain(own), SingleLink::Plain(old)) => {
                own.migrate_from(old, how, known, now, out)
            }
            (SingleLink::Plain(own), SingleLink::Masked(old)) => {
                let flows = own.properties().flows;
                let (old, how) = old.unmask().into_others(&Masks::default(), flows, how);
                own.migrate_from(old, &how, known, now, out)
            }
            (SingleLink::Masked(own), SingleLink::Plain(old)) => {
                own.migrate_from(Unmasked::of_plain(old), how, known, now, out)
            }
            (SingleLink::Masked(own), SingleLink::Masked(old)) => {
                own.migrate_from(old.unmask(), how, known, now, out)
            }
        }
    }

    /// See [`LinkPipe::deferred_drops`].
    fn deferred_drops(&mut self) -> Option<DeferredDrops> {
        match self {
            SingleLink::Plain(pipe) => pipe.deferred_drops(),
            SingleLink::Masked(queues) => queues.deferred_drops(),
        }
    }
}
