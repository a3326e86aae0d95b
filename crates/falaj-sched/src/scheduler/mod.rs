//! Schedulers: a discipline with its queues, alone or as a tree, with active queue management in
//! front of the queues, and the guard in front of disciplines that come from a library.
//!
//! The trait [`Scheduler`] has the calls on the path of packets. It includes [`Inspection`], the
//! queries, and [`Succession`], the calls at the start and when one scheduler replaces another. A
//! pipe holds a scheduler as a [`HeldScheduler`]: by value, or as `Box<dyn Scheduler>`.

pub mod build;
pub mod guard;
pub mod instance;
pub mod tree;
pub mod with_aqm;
#[cfg(test)]
pub(crate) mod worked_example;

use crate::contract::breach::Breach;
use crate::contract::discipline::Decision;
use crate::contract::guarantee::Guarantee;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::Setup;
use crate::contract::transmission::{Air, Sent};
use crate::queues::queue::{FlowId, Packet};
use crate::units::label::{Known, Label};
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;

/// The error if a packet is not queued, because its queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The scheduler of a link: an [instance](instance::SchedulerInstance), or a [tree](tree::Tree) of
/// them. A packet names its leaf; a decision names a queue.
pub trait Scheduler: Inspection + Succession + Send + Any {
    /// Adds a packet at the tail of its leaf's queue. Returns true if a packet may be sent now that
    /// could not be sent before: call [`next`](Scheduler::next) if the link is free.
    fn arrive(&mut self, packet: Packet, now: Time) -> Result<bool, Full>;
    /// Returns true if a packet of this length in bytes would be queued.
    fn has_room(&self, leaf: FlowId, bytes: u32) -> bool;
    /// Decides what may happen now; see
    /// [`Discipline::next`](crate::contract::discipline::Discipline::next).
    fn next(&mut self, now: Time, wire: &Wire) -> Decision;
    /// Length in bytes of the packet that [`take`](Scheduler::take) would take from `queue`.
    fn head(&mut self, queue: FlowId) -> Option<u32>;
    /// Length in bytes of the shortest packet that may be sent next; `None` if it is unknown, or
    /// would take long to find.
    fn shortest_head(&self) -> Option<u32> {
        None
    }
    /// Puts the head of `queue` on the wire at `start`, as [`next`](Scheduler::next) decided.
    fn take(&mut self, queue: FlowId, start: Time, wire: &mut Wire) -> (Packet, Sent);
    /// Removes the packet on the wire from its queue, because its last bit has left.
    fn finish(&mut self, queue: FlowId, now: Time) -> Packet;
    /// Drops the head of `queue`, as [`next`](Scheduler::next) decided.
    fn drop_head(&mut self, queue: FlowId, now: Time) -> Packet;
    /// Sets the label of the packet that arrives next.
    #[inline]
    fn announce(&mut self, label: Label) {
        let _ = label;
    }
    /// Returns a packet that was dropped to make room for the one that arrived last; call it until
    /// it returns `None`.
    #[inline]
    fn evicted(&mut self) -> Option<Packet> {
        None
    }
    /// Returns true, once, if the packet that arrived or was taken last has been marked (ECN).
    #[inline]
    fn marked(&mut self) -> bool {
        false
    }
    /// Interval from the departure of the packet that was taken last to its latest guaranteed time;
    /// see [`MediumHooks::earliness`](crate::contract::hooks::MediumHooks::earliness).
    #[inline]
    fn earliness(&mut self) -> Option<Span> {
        None
    }
    /// Returns true if active queue management rejected or dropped the last packet.
    #[inline]
    fn by_policy(&self) -> bool {
        false
    }
}

/// Properties of a scheduler, the state of its queues, and its guarantees.
pub trait Inspection {
    /// Returns true if the scheduler uses labels of packets.
    fn wants_labels(&self) -> bool {
        false
    }
    /// Returns true if active queue management drops packets that were queued, or for which there
    /// is room.
    fn drops_early(&self) -> bool {
        false
    }
    /// Returns true if [`next`](Scheduler::next) must be called again while the link waits for
    /// tokens; see [`MediumHooks::peeks`](crate::contract::hooks::MediumHooks::peeks).
    fn peeks(&self) -> bool {
        false
    }
    /// Length in bytes of the largest waiting packet, except the head of the queue `on_the_wire`; 0
    /// if no packet waits.
    fn largest_waiting(&self, on_the_wire: Option<FlowId>) -> u32;
    /// Returns true if another flow may reuse the index of this flow, with a new state.
    fn is_reusable(&mut self, leaf: FlowId, now: Time) -> bool;
    /// Air time that a leaf has used so far, if packets have air times.
    fn air(&self, leaf: FlowId) -> Option<Air> {
        let _ = leaf;
        None
    }
    /// Appends the breaches of the contract by disciplines from libraries.
    fn breaches(&self, out: &mut Vec<Breach>) {
        let _ = out;
    }
    /// The guarantee of a leaf.
    fn guarantee(&self, leaf: FlowId) -> Result<Guarantee, NoGuarantee>;
    /// The guarantee of a leaf if this scheduler divides a flow with the guarantee `server`.
    fn guarantee_behind(&self, leaf: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee>;
}

/// The start of a scheduler, and the transfer of its packets from and to another one.
pub trait Succession {
    /// Creates the queues, if the scheduler was built [without
    /// queues](instance::SchedulerInstance::bare).
    fn start(&mut self, setup: &Setup) {
        let _ = setup;
    }
    /// Sets the seed of random decisions.
    fn seed(&mut self, seed: u64) {
        let _ = seed;
    }
    /// Takes over all packets of another scheduler, in this order. If `on_the_wire`, the first
    /// packet is on the wire, and its queue is returned. No packet is lost, even beyond a limit.
    fn inherit(
        &mut self,
        packets: Vec<Packet>,
        on_the_wire: bool,
        known: Known<'_>,
        now: Time,
    ) -> Option<FlowId>;
    /// Returns all packets: first the head of the queue `on_the_wire`, then the others in order of
    /// arrival.
    fn packets(&self, on_the_wire: Option<FlowId>) -> Vec<Packet>;
    /// The packet on the wire, which [`next`](Scheduler::next) chose as the head of `queue`.
    fn on_the_wire(&self, queue: FlowId) -> Option<Packet>;
    /// Records that the packet on the wire, the head of `queue`, leaves at `end` instead of the
    /// time that [`take`](Scheduler::take) returned, because the link was changed at `now`.
    fn retimed(&mut self, queue: FlowId, end: Time, now: Time);
}

/// A scheduler as a pipe stores it: by value, so that the packet path is compiled for its type, or
/// as `Box<dyn Scheduler>`.
pub trait HeldScheduler: Sized + Send + 'static {
    /// The scheduler itself.
    type Scheduler: Scheduler + ?Sized;
    /// The scheduler, read-only.
    fn get(&self) -> &Self::Scheduler;
    /// The scheduler, mutable.
    fn get_mut(&mut self) -> &mut Self::Scheduler;
    /// Returns true if this scheduler may take over from `old` and keep the queues of `old`.
    /// Otherwise the packets are [inherited](Succession::inherit) one by one.
    fn can_migrate_from(&self, old: &Self) -> bool {
        let _ = old;
        true
    }
    /// Takes over from a scheduler of the same type with another setup. Returns the new number of
    /// the queue whose head is on the wire, if there is one.
    fn migrate_from(
        &mut self,
        old: Self,
        setup: &Setup,
        on_the_wire: Option<FlowId>,
        known: Known<'_>,
        now: Time,
    ) -> Option<FlowId>;
}

/// A scheduler behind a pointer. The old scheduler's type is unknown, so packets are taken over one
/// by one.
impl HeldScheduler for Box<dyn Scheduler> {
    type Scheduler = dyn Scheduler;

    #[inline]
    fn get(&self) -> &dyn Scheduler {
        &**self
    }

    #[inline]
    fn get_mut(&mut self) -> &mut dyn Scheduler {
        &mut **self
    }

    fn migrate_from(
        &mut self,
        old: Box<dyn Scheduler>,
        _: &Setup,
        on_the_wire: Option<FlowId>,
        known: Known<'_>,
        now: Time,
    ) -> Option<FlowId> {
        let packets = old.packets(on_the_wire);
        self.inherit(packets, on_the_wire.is_some(), known, now)
    }
}

#[cfg(test)]
mod tests {
    use super::instance::SchedulerInstance;
    use super::tree::Tree;
    use super::with_aqm::WithAqm;
    use super::worked_example;
    use super::*;
    use crate::contract::discipline::Discipline;
    use crate::contract::guarantee::Guarantees;
    use crate::contract::hooks::{MediumHooks, QueueHooks};
    use crate::contract::params::{Inner, Values};
    use crate::queues::queue::Flows;
    use crate::units::draws::mix;
    use crate::units::rate::Rate;

    /// Serves the one of two flows that the seed selects.
    struct BySeed(u64);

    impl Discipline for BySeed {
        type State = ();
        type Tag = ();
        fn start(&mut self, _: &mut Flows<()>) {}
        fn migrate_from(&mut self, _: BySeed, _: &mut Flows<()>, _: Time) {}
        fn ready(&mut self, _: &mut Flows<()>, _: FlowId, _: Time) {}
        fn next(&mut self, _: &mut Flows<()>, _: Time, _: &Wire) -> Decision {
            Decision::Serve(FlowId((self.0 & 1) as u32))
        }
        fn on_transmit(&mut self, _: &mut Flows<()>, _: FlowId, _: Sent) {}
    }
    impl QueueHooks for BySeed {}
    impl MediumHooks for BySeed {
        fn seed(&mut self, seed: u64) {
            self.0 = mix(seed);
        }
    }
    impl Guarantees for BySeed {
        fn service(&self, _: FlowId) -> Result<Guarantee, NoGuarantee> {
            Err(NoGuarantee("the seed chooses".into()))
        }
    }

    /// Number of seeds, of a hundred, that select each of the two flows.
    fn chosen<S: Scheduler>(build: impl Fn() -> S) -> [usize; 2] {
        let mut chosen = [0; 2];
        for seed in 0..100 {
            let mut scheduler = build();
            scheduler.seed(seed);
            for flow in [0, 1] {
                let packet =
                    Packet { handle: flow, bytes: 100, flow: FlowId(flow), arrival: Time::ZERO };
                scheduler.arrive(packet, Time::ZERO).expect("there is room");
            }
            let mut wire = Wire::new(Rate::from_mbit(8));
            let Decision::Serve(queue) = scheduler.next(Time::ZERO, &wire) else {
                panic!("packets wait")
            };
            let (packet, _) = scheduler.take(queue, Time::ZERO, &mut wire);
            chosen[packet.flow.index()] += 1;
        }
        chosen
    }

    /// A fair choice selects each flow 50 times out of 100, with a standard deviation of 5.
    #[test]
    fn the_seed_reaches_the_discipline_in_every_kind_of_scheduler() {
        let flat = worked_example::setup(500, [Values::default(), Values::default()]);
        let mut divided = flat.clone();
        let inner = worked_example::setup(500, [Values::default()]);
        divided.flows[1].inner = Some(Box::new(Inner { kind: "fifo", setup: inner }));
        for [first, second] in [
            chosen(|| SchedulerInstance::new(&flat, BySeed(0))),
            chosen(|| WithAqm::new(&flat, BySeed(0))),
            chosen(|| Tree::new(&divided, BySeed(0)).expect("a flow is divided by `fifo`")),
        ] {
            assert!(first.min(second) > 25, "{first} and {second}");
        }
    }
}
