//! Hooks of a discipline beyond its core: calls that few disciplines implement. Each has a default
//! that changes nothing, so most disciplines write just `impl QueueHooks for Mine {}`.

use crate::contract::breach::Breach;
use crate::contract::discipline::Discipline;
use crate::contract::transmission::Air;
use crate::queues::aqm::verdict::Verdict;
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::label::Label;
use crate::units::time::{Span, Time};

/// The reason why a packet was dropped from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// The discipline decided to drop it.
    Decided,
    /// Another packet needed the room. The packet was the head of its queue, and was not on the
    /// wire.
    Head,
    /// Another packet needed the room. The head of the queue was on the wire, so the packet behind
    /// it was dropped.
    BehindHead,
}

/// Hooks of disciplines that have their own queues, manage queues, read labels, or account for
/// packets that are dropped.
pub trait QueueHooks: Discipline {
    /// Receives the label of the packet that arrives next, if the discipline [wants
    /// labels](QueueHooks::wants_labels).
    #[inline]
    fn announce(&mut self, label: Label) {
        let _ = label;
    }

    /// Returns true if the discipline reads labels, as every discipline that manages queues does.
    #[inline]
    fn wants_labels(&self) -> bool {
        self.manages_queues()
    }

    /// The limit of the single queue that all flows share; `None` if flows have separate queues.
    fn shared_queue(&self) -> Option<Limit> {
        None
    }

    /// The number of the discipline's own queues, and the limit of each; `None` if it uses the
    /// flows' queues.
    fn own_queues(&self) -> Option<(usize, Limit)> {
        None
    }

    /// The queue that a packet of `flow` joins.
    #[inline]
    fn place(&self, flow: FlowId) -> FlowId {
        if self.shared_queue().is_some() { FlowId(0) } else { flow }
    }

    /// Returns true if the discipline's own queues together are full.
    #[inline]
    fn is_full(&self, flows: &Flows<Self::State, Self::Tag>) -> bool {
        let _ = flows;
        false
    }

    /// Returns the verdict on a packet of `bytes` that arrives and for which queue `f` has room.
    /// After [`Verdict::Drop`] the packet does not [arrive](Discipline::arrived). After
    /// [`Verdict::Mark`] it does, and the next call of [`marked`](QueueHooks::marked) returns true.
    #[inline(always)]
    fn verdict_at_arrival(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        f: FlowId,
        bytes: u32,
        now: Time,
    ) -> Verdict {
        let _ = (flows, f, bytes, now);
        Verdict::Pass
    }

    /// Returns the queue that has to drop its first waiting packet, after another packet was
    /// queued. The flag is true if the head of that queue is on the wire; then the packet behind
    /// the head is dropped.
    #[inline]
    fn drop_victim(&mut self, flows: &Flows<Self::State, Self::Tag>) -> Option<(FlowId, bool)> {
        let _ = flows;
        None
    }

    /// Called when the head of `f`, of this length in bytes, was dropped: either
    /// [`next`](Discipline::next) decided it, or it was the [victim](QueueHooks::drop_victim) that
    /// made room for another packet.
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

    /// Called when queue management has dropped the packet behind the head of `f`, of length
    /// `bytes`; the head is on the wire.
    fn dropped_behind_head(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        f: FlowId,
        bytes: u32,
        now: Time,
    ) {
        let _ = (flows, f, bytes, now);
    }

    /// Returns true if the packet that [arrived](QueueHooks::verdict_at_arrival) or was
    /// [sent](Discipline::on_transmit) last was marked. A second call for the same packet returns
    /// false.
    #[inline]
    fn marked(&mut self) -> bool {
        false
    }

    /// Returns true if the discipline drops packets as active queue management does.
    fn manages_queues(&self) -> bool {
        false
    }
}

/// Hooks for a link's tokens, for air times on a shared medium, for packets that leave before their
/// time, for random decisions, and for disciplines of libraries.
pub trait MediumHooks: Discipline {
    /// Returns true if the choice of [`next`](Discipline::next) may still change while the link
    /// waits for the chosen packet's tokens. Then `next` is called again, and a packet that arrives
    /// in the meantime may be sent first. If false, the chosen packet stays chosen.
    fn peeks(&self) -> bool {
        false
    }

    /// Time for which the head of `f`, of length `bytes`, occupies the medium if it is served now;
    /// `None` for its transmission time at the link's rate.
    #[inline]
    fn airtime(&self, f: FlowId, bytes: u32) -> Option<Span> {
        let _ = (f, bytes);
        None
    }

    /// Called when the head of `f`, which is on the wire, leaves at `end` instead of the time given
    /// to [`on_transmit`](Discipline::on_transmit). The reason is a change of the link at `now`,
    /// after this discipline has [migrated](Discipline::migrate_from). A discipline that stores the
    /// end of a transmission has to update it.
    fn retimed(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        f: FlowId,
        end: Time,
        now: Time,
    ) {
        let _ = (flows, f, end, now);
    }

    /// Air time of `f` so far, if the discipline has [air times](MediumHooks::airtime).
    fn air(&self, f: FlowId) -> Option<Air> {
        let _ = f;
        None
    }

    /// Interval from the departure of the packet that was [sent](Discipline::on_transmit) last to
    /// its latest guaranteed time. `None` if the discipline does not determine such a time; then
    /// the packet is as early as it was at its arrival. A second call for the same packet returns
    /// `None`.
    #[inline]
    fn earliness(&mut self) -> Option<Span> {
        None
    }

    /// Sets the seed of the discipline's random decisions. A pipe calls it once, before the first
    /// packet, and before a [migration](Discipline::migrate_from), which takes over the random
    /// numbers of the old discipline. Each pipe and each discipline of a tree has a different seed.
    ///
    /// Random numbers are [`Draws::new(seed, element)`](crate::units::draws::Draws::new), where
    /// `element` separates the streams of one discipline: it is the number of a flow, or 0 if there
    /// is one stream. Without this call the seed is 0. [`next`](Discipline::next) may be called
    /// twice and must return the same decision, so it draws no numbers. The number for the next
    /// decision is drawn here and in [`on_transmit`](Discipline::on_transmit), and is kept until a
    /// packet has been sent according to it.
    fn seed(&mut self, seed: u64) {
        let _ = seed;
    }

    /// The discipline's breach of this contract, if there was one. Only a library's discipline can
    /// break it.
    fn breach(&self) -> Option<Breach> {
        None
    }
}
