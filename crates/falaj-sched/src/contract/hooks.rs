//! Hooks of a discipline beyond its core: calls that few disciplines answer. Each has a default
//! that changes nothing, so that most write `impl QueueHooks for Mine {}` and no more.

use crate::contract::breach::Breach;
use crate::contract::discipline::Discipline;
use crate::contract::transmission::Air;
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::label::Label;
use crate::units::time::{Span, Time};

/// Why a packet was thrown out of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thrown {
    /// The discipline answered so.
    Answered,
    /// Another one needed the room, and the head was not on the wire.
    Head,
    /// Another one needed the room, and the head was on the wire: the one behind it went.
    BehindHead,
}

/// Hooks of disciplines that have queues of their own, manage queues, read labels, or keep account
/// of packets that are thrown out.
pub trait QueueHooks: Discipline {
    /// What is known of the packet that arrives next, where [labels are looked
    /// at](QueueHooks::wants_labels).
    #[inline]
    fn announce(&mut self, label: Label) {
        let _ = label;
    }

    /// Returns true if it looks at labels; every discipline that manages queues does.
    #[inline]
    fn wants_labels(&self) -> bool {
        self.manages_queues()
    }

    /// `Some`: there is but one queue with this limit, for all flows.
    fn shared_queue(&self) -> Option<Limit> {
        None
    }

    /// `Some`: it has so many queues of its own, whatever the flows are, each with this limit.
    fn own_queues(&self) -> Option<(usize, Limit)> {
        None
    }

    /// The queue that a packet of `flow` joins.
    #[inline]
    fn place(&self, flow: FlowId) -> FlowId {
        if self.shared_queue().is_some() { FlowId(0) } else { flow }
    }

    /// Returns true if its own queues together hold as much as they may.
    #[inline]
    fn is_full(&self, flows: &Flows<Self::State, Self::Tag>) -> bool {
        let _ = flows;
        false
    }

    /// A packet got in: the queue whose first waiting packet has to go for it. True: the head of
    /// that queue is on the wire, and the packet behind it goes.
    #[inline]
    fn drop_victim(&mut self, flows: &Flows<Self::State, Self::Tag>) -> Option<(FlowId, bool)> {
        let _ = flows;
        None
    }

    /// The head of `f`, of this length in bytes, was dropped: [`next`](Discipline::next) decided
    /// so, or it was the [victim](QueueHooks::drop_victim) that made room for another packet.
    fn thrown_away(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        f: FlowId,
        bytes: u32,
        because: Thrown,
        now: Time,
    ) {
        let _ = (bytes, because);
        self.head_changed(flows, f, now);
    }

    /// The packet behind the head of `f`, of so many bytes, was thrown out by a policy; the head is
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

    /// Returns true if it drops packets as a policy of queue management does.
    fn manages_queues(&self) -> bool {
        false
    }
}

/// Hooks for a link's tokens, air times on a shared medium, and packets that leave ahead of their
/// time; for random decisions, and for disciplines of libraries.
pub trait MediumHooks: Discipline {
    /// Returns true if, on a link that waits for tokens, it is asked anew while those of the packet
    /// that it named are not there yet, so that a packet that comes meanwhile may go first. Else
    /// the packet is given away, and keeps its place.
    fn peeks(&self) -> bool {
        false
    }

    /// How long the head of `f`, of so many bytes, is on the medium if that is served now;
    /// `None`: as long as it takes at the link's rate.
    #[inline]
    fn airtime(&self, f: FlowId, bytes: u32) -> Option<Span> {
        let _ = (f, bytes);
        None
    }

    /// The head of `f`, which is on the wire, leaves at `end`, and not when
    /// [`on_transmit`](Discipline::on_transmit) said: the link was changed at `now`, after this
    /// discipline [migrated](Discipline::migrate_from). A discipline that keeps the end of what it
    /// sent has to follow.
    fn retimed(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        f: FlowId,
        end: Time,
        now: Time,
    ) {
        let _ = (flows, f, end, now);
    }

    /// What `f` had of the air so far, where there are [air times](MediumHooks::airtime).
    fn air(&self, f: FlowId) -> Option<Air> {
        let _ = f;
        None
    }

    /// By how much the packet that was [sent](Discipline::on_transmit) last leaves sooner than at
    /// the latest that was promised; `None`: it stays as early as it came. It is told once.
    #[inline]
    fn earliness(&mut self) -> Option<Span> {
        None
    }

    /// Where its random decisions begin: a pipe calls it once, before the first packet and before a
    /// change [migrates](Discipline::migrate_from), in which the draws of the old discipline are
    /// taken over. The seed is another one for each pipe and each discipline of a tree.
    ///
    /// Random numbers are [`Draws::new(seed, element)`](crate::units::draws::Draws::new), where
    /// `element` keeps the streams of one discipline apart: the number of a flow, or 0 where there
    /// is one stream. Without this call they begin at seed 0. [`next`](Discipline::next) may be
    /// asked twice and must answer alike, so it draws nothing: the number that decides is drawn
    /// here and in [`on_transmit`](Discipline::on_transmit), and kept until a packet is sent by it.
    fn seed(&mut self, seed: u64) {
        let _ = seed;
    }

    /// How it broke this contract, where it is one that may and did.
    fn breach(&self) -> Option<Breach> {
        None
    }
}
