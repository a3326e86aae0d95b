//! A pipe: queues, a discipline and a link (dummynet's word for the whole). What the engine asks of
//! one.

pub(crate) mod build;
mod device;
mod scheduler_pipe;
mod spec;
mod stats;

pub use device::Pace;
pub use spec::PipeSpec;
pub use stats::{Counters, HotCounters};

use crate::handover::Handover;
use crate::impair::Impairer;
use crate::masks::queues::Unmasked;
use crate::masks::{MaskIds, MaskStats, Masks};
use crate::message::{Output, Unit};
use device::DeviceState;
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::guarantee::Promise;
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::queues::queue::{FlowId, Packet};
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::rate::Wire;
use falaj_sched::units::time::{Span, Time};
use stats::PipeStats;
use std::any::Any;

/// The engine's view of a pipe, whatever its discipline.
pub(crate) trait Pipe: Send + Any {
    /// What changes the pipe says when its next event is due.
    fn arrive(&mut self, unit: Unit, ids: &MaskIds, now: Time, out: &mut Vec<Output>) -> Time;
    /// Runs the event that is due at `now`.
    fn event(&mut self, now: Time, out: &mut Vec<Output>) -> Time;
    /// The port behind it has room for so many bytes; none: it takes nothing until it says
    /// otherwise. Nothing to a link that falaj paces.
    fn port_room(&mut self, room: u32, now: Time, out: &mut Vec<Output>) -> Time;
    /// What is known of the unit that arrives next.
    fn announce(&mut self, label: Label);
    fn wants_labels(&self) -> bool;
    /// Do policies of queues drop packets that found room, or for which there is room?
    fn drops_early(&self) -> bool;
    /// No unit that is not decided yet is due before this, unless one arrives.
    fn next_due(&self) -> Time;
    /// When its device is to be handed more, which nobody waits for to the nanosecond;
    /// [`Time::NEVER`] where falaj paces the link.
    fn next_refill(&self) -> Time {
        Time::NEVER
    }
    /// Until then its device has enough to send, whatever comes; [`Time::NEVER`] where it is to
    /// send nothing, and [`Time::ZERO`] where what comes may have to go at once, as wherever
    /// falaj paces the link.
    fn supplied_until(&self) -> Time {
        Time::ZERO
    }
    /// What its device holds at most, where that paces the link.
    fn backlog(&self) -> Option<u32> {
        None
    }
    /// What is due next is so much later than the event that decides it, at least.
    fn least_delay(&self) -> Span;
    fn has_room(&self, flow: FlowId, ids: &MaskIds, bytes: u32) -> bool;
    /// A packet of so many bytes that is not decided by `now` is due no earlier.
    fn soonest(&self, bytes: u32, now: Time) -> Time;
    fn counters(&self, flow: FlowId) -> Counters;
    /// Of so many flows from this one on, all together.
    fn sum(&self, first: FlowId, number: u32) -> Counters {
        let mut sum = Counters::default();
        (first.0..first.0 + number).for_each(|flow| sum.add(&self.counters(FlowId(flow))));
        sum
    }
    fn promise(&self, flow: FlowId) -> Result<Promise, NoPromise>;
    /// Adds how disciplines of libraries broke their contract, those that others have taken over
    /// from too.
    fn breaches(&self, out: &mut Vec<Breach>);
    fn flows(&self) -> usize;
    /// The largest packet that it takes.
    fn largest(&self) -> u32;
    /// The largest of those that wait, the one on the wire not among them.
    fn largest_waiting(&self) -> u32;
    /// What happened to flows that are gone.
    fn of_the_gone(&self) -> Counters;
    /// May another flow start afresh in the place of this one?
    fn is_reusable(&mut self, flow: FlowId, now: Time) -> bool;
    /// May another pipe start afresh in the place of this one?
    fn rests(&mut self, now: Time) -> bool;
    /// Its masks.
    fn masks(&self) -> &Masks;
    /// What is known of those that the mask of this flow made, or that of the link.
    fn report(&self, flow: Option<FlowId>, busiest: usize) -> Option<MaskStats>;
    /// Ids have to share what a mask makes: the mask of this flow, or that of the link.
    fn shares(&self) -> Option<Option<FlowId>>;
    /// Takes over the packets, the link's state and the counters of `old`.
    fn migrate_from(
        &mut self,
        old: Box<dyn Pipe>,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Time;
    /// Without the masks of its flows.
    fn flatten(self: Box<Self>) -> Unmasked;
    /// What another kind of pipe may go on with.
    fn dismantle(self: Box<Self>) -> PipeParts;
    /// What it has no use for after it took over, and takes a while to be dropped.
    fn leavings(&mut self) -> Option<DeferredDrops> {
        None
    }
}

/// What nobody needs any more, to be dropped where nobody waits for it.
pub(crate) type DeferredDrops = Box<dyn Any + Send>;

/// What stays of a pipe without its discipline.
pub(crate) struct PipeParts {
    /// The one on the wire first.
    packets: Vec<Packet>,
    /// When the one on the wire ends.
    sending: Option<Time>,
    wire: Wire,
    device: Option<DeviceState>,
    book: PipeStats,
    impairer: Option<Box<Impairer>>,
}
