//! Hooks of a discipline beyond its core: calls that few disciplines implement. Each has a default
//! that changes nothing, so most disciplines write just `impl QueueHooks for Mine {}`.

use crate::contract::breach::Breach;
use crate::contract::discipline::Discipline;
use crate::contract::transmission::Air;
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::label::Label;
use crate::units::time::{Span, Time};

/// The reason why a packet was dropped from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// The discipline decided to drop it.
    Answered,
    /// Another packet needed the room, and the head was not on the wire.
    Head,
    /// Another packet needed the room, and the head was on the wire: the one behind it was dropped.
    BehindHead,
}

/// Hooks of disciplines that have their own queues, manage queues, read labels, or account for
/// packets that are dropped.
pub trait QueueHooks: Discipline {
    /// The label of the packet that arrives next, if [labels are used](QueueHooks::wants_labels).
    #[inline]
    fn announce(&mut self, label: Label) {
        let _ = label;
    }

    /// Returns true if it reads labels; every discipline that manages queues does.
    #[inline]
    fn wants_labels(&self) -> bool {
        self.manages_queues()
    }

    /// `Some`: all flows share a single queue with this limit.
    fn shared_queue(&self) -> Option<Limit> {
        None
    }

    /// `Some`: it has this number of queues of its own, independent of the flows, each with this
    /// limit.
    fn own_queues(&self) -> Option<(usize, Limit)> {
        None
    }

    /// The queue that a packet of `flow` joins.
    #[inline]
    fn place(&self, flow: FlowId) -> FlowId {
        if self.shared_queue().is_some() { FlowId(0) } else { flow }
    }

    /// Returns true if its own queues together are full.
    #[inline]
    fn is_full(&self, flows: &Flows<Self::State, Self::Tag>) -> bool {
        let _ = flows;
        false
    }

    /// Called after a packet was queued: the queue that has to drop its first waiting packet for
    /// it. The flag is true if the head of that queue is on the wire; then the packet behind it is
    /// dropped.
    #[inline]
    fn drop_victim(&mut self, flows: &Flows<Self::State, Self::Tag>) -> Option<(FlowId, bool)> {
        let _ = flows;
        None
    }

    /// The head of `f`, of this length in bytes, was dropped: [`next`](Discipline::next) decided
    /// so, or it was the [victim](QueueHooks::drop_victim) that made room for another packet.
    fn head_dropped(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        f: FlowId,
        bytes: u32,
        because: DropCause,
        now: Time,
    ) {
        let _ = (bytes, because);
        self.head_changed(flows, f, now);
    }

    /// The packet behind the head of `f`, of `bytes`, was dropped by queue management; the head is
    /// on the wire.
    fn dropped_behind_head(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        f: FlowId,
        bytes: u32,
        now: Time,
    ) {
        let _ = (flows, f, bytes, now);
    }

    /// Returns true, once, if the packet that was [sent](Discipline::on_transmit) last was marked.
    #[inline]
    fn marked(&mut self) -> bool {
        false
    }

    /// Returns true if it drops packets as active queue management does.
    fn manages_queues(&self) -> bool {
        false
    }
}

/// Hooks for a link's tokens, air times on a shared medium, and packets that leave ahead of their
/// time; for random decisions, and for disciplines of libraries.
pub trait MediumHooks: Discipline {
    /// Returns true if, on a link that waits for tokens, [`next`](Discipline::next) is called again
    /// until the tokens for the chosen packet are available, so that a packet that arrives
    /// meanwhile may go first. Otherwise the chosen packet keeps its place.
    fn peeks(&self) -> bool {
        false
    }

    /// Time for which the head of `f`, of `bytes`, occupies the medium if it is served now; `None`:
    /// its time at the link's rate.
    #[inline]
    fn airtime(&self, f: FlowId, bytes: u32) -> Option<Span> {
        let _ = (f, bytes);
        None
    }

    /// The head of `f`, which is on the wire, leaves at `end`, and not at the time given to
    /// [`on_transmit`](Discipline::on_transmit): the link was changed at `now`, after this
    /// discipline [migrated](Discipline::migrate_from). A discipline that stores the end of its
    /// transmissions has to update it.
    fn retimed(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        f: FlowId,
        end: Time,
        now: Time,
    ) {
        let _ = (flows, f, end, now);
    }

    /// Air time of `f` so far, if there are [air times](MediumHooks::airtime).
    fn air(&self, f: FlowId) -> Option<Air> {
        let _ = f;
        None
    }

    /// Time by which the packet that was [sent](Discipline::on_transmit) last leaves before the
    /// latest guaranteed time; `None`: its earliness is still that of its arrival. It is returned
    /// once.
    #[inline]
    fn earliness(&mut self) -> Option<Span> {
        None
    }

    /// The seed of its random decisions: a pipe calls it once, before the first packet and before a
    /// change [migrates](Discipline::migrate_from), in which the draws of the old discipline are
    /// taken over. The seed differs for each pipe and each discipline of a tree.
    ///
    /// Random numbers are [`Draws::new(seed, element)`](crate::units::draws::Draws::new), where
    /// `element` separates the streams of one discipline: the number of a flow, or 0 if there is
    /// one stream. Without this call they begin at seed 0. [`next`](Discipline::next) may be called
    /// twice and must return the same, so it draws nothing: the number that decides is drawn here
    /// and in [`on_transmit`](Discipline::on_transmit), and kept until a packet is sent by it.
    fn seed(&mut self, seed: u64) {
        let _ = seed;
    }

    /// Its breach of this contract, if it is a discipline that may break it and did.
    fn breach(&self) -> Option<Breach> {
        None
    }
}
