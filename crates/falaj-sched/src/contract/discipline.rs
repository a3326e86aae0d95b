//! The contract between a discipline and the pipe that calls it.
//!
//! A discipline decides which queue's head is transmitted next, or that no packet may be sent
//! before an instant. Time is an argument; a discipline never reads a clock. The pipe guarantees
//! the following:
//!
//! - It calls [`Discipline::next`] when the link is free: at the nominal end of a transmission, at
//!   the instant of an earlier [`Decision::NotBefore`], and when a packet arrives at a free link.
//!   The pipe never calls it while a packet is on the wire.
//! - At equal times transmission ends come first, then timers, then arrivals.
//! - The packet in service stays at the head of its queue until its transmission ends, and counts
//!   in the queue's length. So a discipline sees that a flow is empty only in the call of `next`
//!   after that end, not in `on_transmit`. (A reset of the deficit at the start of a flow's last
//!   transmission breaks the bound of DRR.)
//! - On a free link `next` may be called any number of times: before the instant that it returned,
//!   long after this instant, or twice. Only arrivals, transmissions and the discipline's own
//!   instants change its decision. Random numbers are drawn
//!   [elsewhere](crate::contract::hooks::MediumHooks::seed).

use crate::contract::transmission::Sent;
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;

/// The decision for a free link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send the head of this flow now.
    Serve(FlowId),
    /// Drop the head of this flow, and call [`Discipline::next`] again.
    Drop(FlowId),
    /// No packet may be sent before this instant, which is later than now. The pipe calls
    /// [`Discipline::next`] again then, or when a packet arrives.
    NotBefore(Time),
    /// There is no packet to send until another packet arrives.
    Idle,
}

/// Decides which queued packet is transmitted next.
///
/// Each discipline also implements its [guarantees](crate::contract::guarantee::Guarantees), and
/// the [hooks](crate::contract::hooks), most of which do nothing.
pub trait Discipline: Send + Sized {
    /// State of each flow. In memory it follows 44 bytes of the flow's queue, and the tag of the
    /// queue's head. State and tag of at most 20 bytes together, padding included, are in the same
    /// cache line as the queue; with at most 84 bytes they take two cache lines.
    type State: Default + Clone + Send + core::fmt::Debug + 'static;
    /// Data that a packet carries from its arrival on; `()` for most disciplines.
    type Tag: Copy + Default + Send + core::fmt::Debug + 'static;

    /// True if the discipline sees packets at their [arrival](Discipline::arrived). Otherwise
    /// `arrived` is not called.
    ///
    /// If another discipline divides a flow, the arrivals of that flow's packets are not visible
    /// here, so a discipline that sees arrivals is then refused. A discipline that tags packets but
    /// leaves this false does not compile into a scheduler.
    ///
    /// ```compile_fail
    /// # use falaj_sched::contract::discipline::{Decision, Discipline};
    /// # use falaj_sched::contract::guarantee::{Guarantees, Guarantee};
    /// # use falaj_sched::contract::hooks::{MediumHooks, QueueHooks};
    /// # use falaj_sched::contract::no_guarantee::NoGuarantee;
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
    /// #     fn service(&self, _: FlowId) -> Result<Guarantee, NoGuarantee> {
    /// #         Err(NoGuarantee("nothing is sent".into()))
    /// #     }
    /// # }
    /// # let rate = Rate::from_mbit(1);
    /// # let setup = Setup { rate, largest: 1_500, scheduler: Values::default(), flows: vec![] };
    /// SchedulerInstance::new(&setup, Tagging);
    /// ```
    const SEES_ARRIVALS: bool = false;

    /// Initializes the state of each flow from the setup. Called once, before anything else, with
    /// empty queues.
    fn start(&mut self, flows: &mut Flows<Self::State, Self::Tag>);

    /// Takes over from `old`, a discipline of the same kind with another setup, at `now`; it is
    /// called instead of [`start`](Discipline::start). The flows are in the state in which `old`
    /// left them: packets may be queued, and one that `old` chose may be on the wire. Flows beyond
    /// those of `old` are new and empty. No packet is lost, and debts and credits of flows are
    /// kept, within the limits of the new setup.
    fn migrate_from(&mut self, old: Self, flows: &mut Flows<Self::State, Self::Tag>, now: Time);

    /// Returns true if this discipline may [migrate from](Discipline::migrate_from) `old`.
    /// Otherwise it receives the waiting packets like a discipline of another kind.
    fn can_migrate_from(&self, old: &Self) -> bool {
        let _ = old;
        true
    }

    /// Returns the new tag of a waiting packet of `f` whose tag is `tag`; called before this
    /// discipline [migrates from](Discipline::migrate_from) `old`. The order of a flow's packets
    /// stays the same.
    fn retag(&self, old: &mut Self, f: FlowId, tag: Self::Tag, now: Time) -> Self::Tag {
        let _ = (old, f, now);
        tag
    }

    /// Called before a packet of `bytes` joins the queue of `f`; returns the tag that the packet
    /// carries from now on. [`ready`](Discipline::ready) follows if the packet is the head. Called
    /// only if [`SEES_ARRIVALS`](Discipline::SEES_ARRIVALS) is set.
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

    /// Called when flow `f`, which had no packet, has a head.
    fn ready(&mut self, flows: &mut Flows<Self::State, Self::Tag>, f: FlowId, now: Time);

    /// Called when the head of `f` was replaced or removed without being transmitted by this
    /// discipline. For example, a packet was on the wire when the discipline was changed, and has
    /// now left.
    fn head_changed(&mut self, flows: &mut Flows<Self::State, Self::Tag>, f: FlowId, now: Time) {
        let _ = (flows, f, now);
    }

    /// Decides what the link does now. It charges no flow: called again in the same state, it
    /// returns the same decision. `flows` has each queue's head, and the queue's length in packets
    /// and bytes, even if another discipline divides the flow. So a discipline that only compares
    /// lengths need not [see arrivals](Discipline::SEES_ARRIVALS). `wire` gives the transmission
    /// time of a packet.
    fn next(
        &mut self,
        flows: &mut Flows<Self::State, Self::Tag>,
        now: Time,
        wire: &Wire,
    ) -> Decision;

    /// Called when the transmission of the head of `f` begins. At this moment the discipline
    /// charges the flow for the packet.
    fn on_transmit(&mut self, flows: &mut Flows<Self::State, Self::Tag>, f: FlowId, sent: Sent);

    /// Returns true if another flow may reuse the index of this empty flow, with new state. That is
    /// allowed only if the flow has neither debt nor credit.
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
