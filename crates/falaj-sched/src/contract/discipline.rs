//! The contract between a discipline and the pipe around it.
//!
//! A discipline says which head goes on the link next, or that none may go
//! before an instant. Time is an argument; it never reads a clock. The pipe
//! keeps these moments:
//!
//! - It asks [`Discipline::next`] when the link is free: at the nominal end of a transmission, at
//!   the instant of an earlier [`Decision::NotBefore`], and when a packet arrives at a free link.
//!   Never while a packet is on the wire.
//! - At equal times transmission ends come first, then timers, then arrivals.
//! - The packet in service stays at the head of its queue until its end, and counts there. Whether
//!   a flow has run empty is therefore concluded in the `next` after that end, not in `on_transmit`
//!   (a reset at the start of the last transmission breaks the bound of DRR).
//! - `next` may be asked any number of times, early, late or twice; only what arrives, what is
//!   taken and the instants of the discipline's own making change what it will decide.

use crate::contract::breach::Breach;
use crate::contract::guarantee::{Bound, Deadlines, Promise, RateCondition, StaircaseCurve};
use crate::contract::no_guarantee::NoPromise;
use crate::contract::transmission::{Air, Sent};
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::label::Label;
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};

/// What may happen on a free link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send the head of this flow now.
    Serve(FlowId),
    /// Throw the head of this flow away and ask again.
    Drop(FlowId),
    /// Nothing may be sent before this instant (later than now); ask again
    /// then, or when a packet arrives.
    NotBefore(Time),
    /// Nothing to send until a packet arrives.
    Idle,
}

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

/// Whose promise is broken by packets that are thrown out of a queue after they found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropImpact {
    /// Nobody's.
    Nobody,
    /// That of their own flow.
    Own,
    /// Those of all flows.
    All,
}

/// Decides which queued packet goes on the link next.
pub trait Discipline: Send + Sized {
    /// What it keeps for each flow; together with a tag up to 16 bytes share
    /// the queue's cache line, and up to 80 its two.
    type State: Default + Clone + Send + core::fmt::Debug + 'static;
    /// What a packet carries from its arrival on; `()` for most.
    type Tag: Copy + Default + Send + core::fmt::Debug + 'static;

    /// Puts what was set for each flow in its place. Called once, before
    /// anything else, with empty queues.
    fn start(&mut self, flows: &mut Flows<Self::State, Self::Tag>);

    /// Instead of [`start`](Discipline::start): takes over from `old`, a
    /// discipline of the same kind with another setup, at `now`. The flows are
    /// as `old` left them, packets queued and perhaps one on the wire, which
    /// was taken by `old`; flows beyond those that `old` knew are new and
    /// empty. No packet is lost, and what a flow owes or is owed stays, as far
    /// as the new setup allows.
    fn migrate_from(&mut self, old: Self, flows: &mut Flows<Self::State, Self::Tag>, now: Time);

    /// Returns true if it may [migrate from](Discipline::migrate_from) `old`. Else the packets that
    /// wait come to it as to one of another kind.
    fn can_migrate_from(&self, old: &Self) -> bool {
        let _ = old;
        true
    }

    /// Tag that a packet of `f`, which waits with `tag`, goes on with: called before this
    /// discipline [migrates from](Discipline::migrate_from) `old`. Never changes the order of a
    /// flow's packets.
    fn retag(&self, old: &mut Self, f: FlowId, tag: Self::Tag, now: Time) -> Self::Tag {
        let _ = (old, f, now);
        tag
    }

    /// A packet of so many bytes is about to join the queue of `f`: the tag
    /// that it carries from now on. [`ready`](Discipline::ready) follows if it is the head.
    #[inline]
    fn arrived(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        f: FlowId,
        bytes: u32,
        now: Time,
    ) -> Self::Tag {
        let _ = (flows, f, bytes, now);
        Self::Tag::default()
    }

    /// Flow `f` had nothing to send and now has a head.
    fn ready(&mut self, flows: &mut Flows<Self::State, Self::Tag>, f: FlowId, now: Time);

    /// The head of `f` was replaced or removed for another reason than `on_transmit`.
    fn head_changed(&mut self, flows: &mut Flows<Self::State, Self::Tag>, f: FlowId, now: Time) {
        let _ = (flows, f, now);
    }

    /// What may happen now. Charges nothing.
    fn next(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        now: Time,
        wire: &Wire,
    ) -> Decision;

    /// On a link that waits for tokens: is it asked anew while those of the packet that it named
    /// are not there yet, so that whoever comes meanwhile may go first? Else the packet is
    /// given away, and keeps its place.
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

    /// What `f` had of the air so far, where there are [air times](Discipline::airtime).
    fn air(&self, f: FlowId) -> Option<Air> {
        let _ = f;
        None
    }

    /// The head of `f` goes on the wire: the moment to charge for it.
    fn on_transmit(&mut self, flows: &mut Flows<Self::State, Self::Tag>, f: FlowId, sent: Sent);

    /// `Some`: there is but one queue with this limit, for all flows.
    fn shared_queue(&self) -> Option<Limit> {
        None
    }

    /// What is known of the packet that arrives next, where [labels are looked
    /// at](Discipline::wants_labels).
    #[inline]
    fn announce(&mut self, label: Label) {
        let _ = label;
    }

    /// The queue that a packet of `flow` joins.
    #[inline]
    fn place(&self, flow: FlowId) -> FlowId {
        if self.shared_queue().is_some() { FlowId(0) } else { flow }
    }

    /// `Some`: it has so many queues of its own, whatever the flows are, each with this limit.
    fn own_queues(&self) -> Option<(usize, Limit)> {
        None
    }

    /// Do its own queues hold as much together as they may?
    #[inline]
    fn is_full(&self, flows: &Flows<Self::State, Self::Tag>) -> bool {
        let _ = flows;
        false
    }

    /// A packet got in; whose first waiting packet has to go for it. True: the head of
    /// that queue is on the wire, and the packet behind it goes.
    #[inline]
    fn drop_victim(&mut self, flows: &Flows<Self::State, Self::Tag>) -> Option<(FlowId, bool)> {
        let _ = flows;
        None
    }

    /// The head of `f`, of this length in bytes, was dropped: [`next`](Discipline::next) decided
    /// so, or it was the [victim](Discipline::drop_victim) that made room for another packet.
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

    /// Was the packet that was [sent](Discipline::on_transmit) last marked? It is told once.
    #[inline]
    fn marked(&mut self) -> bool {
        false
    }

    /// Are packets that it throws away dropped by a policy of queues?
    fn manages_queues(&self) -> bool {
        false
    }

    /// Does it look at labels? Who manages queues does.
    #[inline]
    fn wants_labels(&self) -> bool {
        self.manages_queues()
    }

    /// By how much the packet that was [sent](Discipline::on_transmit) last leaves sooner than at
    /// the latest that was promised; `None`: it stays as early as it came. It is told once.
    #[inline]
    fn earliness(&mut self) -> Option<Span> {
        None
    }

    /// Where its random decisions begin.
    fn seed(&mut self, seed: u64) {
        let _ = seed;
    }

    /// May this empty flow go, and another start afresh in its place? Not
    /// while it owes or is owed anything.
    fn is_reusable(&self, flows: &Flows<Self::State, Self::Tag>, f: FlowId, now: Time) -> bool {
        let _ = (flows, f, now);
        true
    }

    /// How it broke this contract, where it is one that may and did.
    fn breach(&self) -> Option<Breach> {
        None
    }

    /// What flow `f` of the scenario is promised.
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise>;

    /// How flow `f` is served, more finely than its promise says, where that is known: the
    /// delays of those that keep to an envelope may be shorter by it.
    fn turns(&self, f: FlowId) -> Option<StaircaseCurve> {
        let _ = f;
        None
    }

    /// The curve by which the packets of `f` have deadlines, where it promises more than a rate and
    /// a latency, or where only those that keep to an envelope are promised anything.
    fn deadlines(&self, f: FlowId) -> Option<Deadlines> {
        let _ = f;
        None
    }

    /// What must hold, beside a backlog, for the rate that [`service`](Discipline::service)
    /// promises.
    fn rate_condition(&self) -> Option<RateCondition> {
        None
    }

    /// Whom does it harm that a policy of queues drops packets that had found room?
    fn harm_of_drops(&self) -> DropImpact {
        // Who looks at packets when they arrive has counted those that are thrown out later.
        if self.only_over_queues() { DropImpact::Own } else { DropImpact::Nobody }
    }

    /// By how much the delays of two packets of `f` differ at most, from where they first came to a
    /// chain of such links.
    fn jitter(&self, f: FlowId) -> Option<Bound> {
        let _ = f;
        None
    }

    /// Is the rate that [`service`](Discipline::service) promises kept over any
    /// interval in which the flow is backlogged, not only from the start of the
    /// backlog on? Only such a flow is a server that can promise on (a strict
    /// service curve).
    fn serves_strictly(&self) -> bool {
        false
    }

    /// Must its flows be queues, and not be divided by other disciplines? So where it
    /// looks at packets when they [arrive](Discipline::arrived).
    fn only_over_queues(&self) -> bool {
        core::any::TypeId::of::<Self::Tag>() != core::any::TypeId::of::<()>()
    }

    /// Why it can divide a link only, and not a flow of another discipline; most can.
    fn only_on_a_link(&self) -> Option<&'static str> {
        None
    }

    /// What flow `f` is promised where no link is served but a flow of another
    /// discipline, which is promised `server`, strictly; this discipline was built
    /// for that rate.
    fn service_behind(&self, f: FlowId, server: &Promise) -> Result<Promise, NoPromise> {
        let _ = (f, server);
        Err(NoPromise("no bound is known for this discipline below another".into()))
    }
}
