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
//! - On a free link `next` may be asked any number of times: before the instant that it named, long
//!   after it, or twice. Only packets that arrive, packets that are sent and the discipline's own
//!   instants change its decision. Random numbers are drawn
//!   [elsewhere](crate::contract::hooks::MediumHooks::seed).

use crate::contract::transmission::Sent;
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;

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

/// Decides which queued packet goes on the link next.
///
/// Beside this, each discipline says what it [guarantees](crate::contract::guarantee::Guarantees),
/// and has the [hooks](crate::contract::hooks), most of which do nothing.
pub trait Discipline: Send + Sized {
    /// What it keeps for each flow; together with a tag up to 16 bytes share
    /// the queue's cache line, and up to 80 its two.
    type State: Default + Clone + Send + core::fmt::Debug + 'static;
    /// What a packet carries from its arrival on; `()` for most.
    type Tag: Copy + Default + Send + core::fmt::Debug + 'static;

    /// True if it looks at packets when they [arrive](Discipline::arrived), which is not called
    /// otherwise.
    ///
    /// A flow that another discipline divides shows no arrivals, so a discipline that sees them is
    /// refused above such a flow. No scheduler can be built of one that tags packets and leaves
    /// this false: that does not compile.
    ///
    /// ```compile_fail
    /// # use falaj_sched::contract::discipline::{Decision, Discipline};
    /// # use falaj_sched::contract::guarantee::{Guarantees, Promise};
    /// # use falaj_sched::contract::hooks::{MediumHooks, QueueHooks};
    /// # use falaj_sched::contract::no_guarantee::NoPromise;
    /// # use falaj_sched::contract::params::{Setup, Values};
    /// # use falaj_sched::contract::transmission::Sent;
    /// # use falaj_sched::queues::queue::{FlowId, Flows};
    /// # use falaj_sched::scheduler::instance::SchedulerInstance;
    /// # use falaj_sched::units::rate::{Rate, Wire};
    /// # use falaj_sched::units::time::Time;
    /// struct Tagging;
    /// impl Discipline for Tagging {
    ///     type State = ();
    ///     type Tag = u64;
    ///     // const SEES_ARRIVALS: bool = true;
    /// #   fn start(&mut self, _: &mut Flows<(), u64>) {}
    /// #   fn migrate_from(&mut self, _: Self, _: &mut Flows<(), u64>, _: Time) {}
    /// #   fn ready(&mut self, _: &mut Flows<(), u64>, _: FlowId, _: Time) {}
    /// #   fn next(&mut self, _: &mut Flows<(), u64>, _: Time, _: &Wire) -> Decision {
    /// #       Decision::Idle
    /// #   }
    /// #   fn on_transmit(&mut self, _: &mut Flows<(), u64>, _: FlowId, _: Sent) {}
    /// }
    /// # impl QueueHooks for Tagging {}
    /// # impl MediumHooks for Tagging {}
    /// # impl Guarantees for Tagging {
    /// #     fn service(&self, _: FlowId) -> Result<Promise, NoPromise> {
    /// #         Err(NoPromise("nothing is sent".into()))
    /// #     }
    /// # }
    /// # let rate = Rate::from_mbit(1);
    /// # let setup = Setup { rate, largest: 1_500, scheduler: Values::default(), flows: vec![] };
    /// SchedulerInstance::new(&setup, Tagging);
    /// ```
    const SEES_ARRIVALS: bool = false;

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
    /// Called only where [`SEES_ARRIVALS`](Discipline::SEES_ARRIVALS) is set.
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

    /// Decides what may happen now, and charges nothing: asked again in the same state, it answers
    /// the same. `flows` has the head of each queue and its length in packets and bytes, also where
    /// another discipline divides the flow; a discipline that compares lengths here need not
    /// [see arrivals](Discipline::SEES_ARRIVALS). `wire` tells how long a packet would take.
    fn next(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        now: Time,
        wire: &Wire,
    ) -> Decision;

    /// The head of `f` goes on the wire: the moment to charge for it.
    fn on_transmit(&mut self, flows: &mut Flows<Self::State, Self::Tag>, f: FlowId, sent: Sent);

    /// May this empty flow go, and another start afresh in its place? Not
    /// while it owes or is owed anything.
    fn is_reusable(&self, flows: &Flows<Self::State, Self::Tag>, f: FlowId, now: Time) -> bool {
        let _ = (flows, f, now);
        true
    }
}

/// Does not compile for a discipline that tags packets without
/// [seeing them arrive](Discipline::SEES_ARRIVALS).
pub(crate) const fn assert_tags_are_set<D: Discipline>() {
    assert!(
        size_of::<D::Tag>() == 0 || D::SEES_ARRIVALS,
        "a discipline whose packets carry a tag sees them arrive: set `SEES_ARRIVALS`"
    );
}
