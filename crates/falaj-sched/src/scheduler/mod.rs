//! Schedulers: a discipline with its queues, alone or as a tree, with active queue management in
//! front of the queues, and the guard in front of disciplines that come from a library.
//!
//! A [`Scheduler`] is three traits in one: the path of packets, its [`Inspection`], and its
//! [`Succession`], which matters when another one takes over. A pipe holds it as a
//! [`HeldScheduler`], in place or behind `dyn`.

pub mod build;
pub mod guard;
pub mod instance;
pub mod tree;
pub mod with_aqm;
#[cfg(test)]
pub(crate) mod worked_example;

use crate::contract::breach::Breach;
use crate::contract::discipline::Decision;
use crate::contract::guarantee::Promise;
use crate::contract::no_guarantee::NoPromise;
use crate::contract::params::Setup;
use crate::contract::transmission::{Air, Sent};
use crate::queues::queue::{FlowId, Packet};
use crate::units::label::{Known, Label};
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;

/// Why a packet did not get in: its queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What a link is sent from: an [instance](instance::SchedulerInstance), or a [tree](tree::Tree) of
/// them. Packets are known by their leaf, answers name a queue.
pub trait Scheduler: Inspection + Succession + Send + Any {
    /// A packet comes to the tail of its leaf's queue; true if something may
    /// be sent that could not before: time to ask [`next`](Scheduler::next) if the link is free.
    fn arrive(&mut self, packet: Packet, now: Time) -> Result<bool, Full>;
    /// Returns true if a packet of this length in bytes would get in.
    fn has_room(&self, leaf: FlowId, bytes: u32) -> bool;
    /// Decides what may happen now; see
    /// [`Discipline::next`](crate::contract::discipline::Discipline::next).
    fn next(&mut self, now: Time, wire: &Wire) -> Decision;
    /// Length of the packet that would be taken from `queue`.
    fn head(&mut self, queue: FlowId) -> Option<u32>;
    /// Length of the shortest packet that may be the next to go; `None` where
    /// that is not known, or takes long to find out.
    fn shortest_head(&self) -> Option<u32> {
        None
    }
    /// The head of `queue` goes on the wire, as [`next`](Scheduler::next) said.
    fn take(&mut self, queue: FlowId, start: Time, wire: &mut Wire) -> (Packet, Sent);
    /// The last bit has left: only now does the packet leave its queue.
    fn finish(&mut self, queue: FlowId, now: Time) -> Packet;
    /// The head of `queue` is thrown away, as [`next`](Scheduler::next) said.
    fn throw_away(&mut self, queue: FlowId, now: Time) -> Packet;
    /// What is known of the packet that arrives next.
    #[inline]
    fn announce(&mut self, label: Label) {
        let _ = label;
    }
    /// A packet that had to go because of the one that arrived last; ask until there is none.
    #[inline]
    fn evicted(&mut self) -> Option<Packet> {
        None
    }
    /// Returns true, once, if the packet that arrived or was taken last was marked.
    #[inline]
    fn marked(&mut self) -> bool {
        false
    }
    /// By how much the packet that was taken last leaves before the latest; see
    /// [`MediumHooks::earliness`](crate::contract::hooks::MediumHooks::earliness).
    #[inline]
    fn earliness(&mut self) -> Option<Span> {
        None
    }
    /// Returns true if a policy of queues turned the last packet away or threw it away.
    #[inline]
    fn by_policy(&self) -> bool {
        false
    }
}

/// Properties of a scheduler, the state of its queues, and its promises.
pub trait Inspection {
    /// Returns true if labels of packets are of use.
    fn wants_labels(&self) -> bool {
        false
    }
    /// Returns true if policies of queues drop packets that found room, or for which there is room.
    fn drops_early(&self) -> bool {
        false
    }
    /// Returns true if it is asked anew while tokens are waited for; see
    /// [`MediumHooks::peeks`](crate::contract::hooks::MediumHooks::peeks).
    fn peeks(&self) -> bool {
        false
    }
    /// Length of the largest packet that waits, apart from the one `on_the_wire`; 0 where none
    /// does.
    fn largest_waiting(&self, on_the_wire: Option<FlowId>) -> u32;
    /// Returns true if another flow may start afresh in the place of this one.
    fn is_reusable(&mut self, leaf: FlowId, now: Time) -> bool;
    /// What a leaf had of the air so far, where packets have air times.
    fn air(&self, leaf: FlowId) -> Option<Air> {
        let _ = leaf;
        None
    }
    /// Adds how disciplines of libraries broke the contract.
    fn breaches(&self, out: &mut Vec<Breach>) {
        let _ = out;
    }
    /// What a leaf is promised.
    fn promise(&self, leaf: FlowId) -> Result<Promise, NoPromise>;
    /// What a leaf is promised below a flow that is promised `server`.
    fn promise_behind(&self, leaf: FlowId, server: &Promise) -> Result<Promise, NoPromise>;
}

/// How a scheduler begins, and how its packets come from and go to another one.
pub trait Succession {
    /// Makes its queues, if it was built [without](instance::SchedulerInstance::bare).
    fn start(&mut self, setup: &Setup) {
        let _ = setup;
    }
    /// Where random decisions begin.
    fn seed(&mut self, seed: u64) {
        let _ = seed;
    }
    /// Takes over all packets of another scheduler, in this order; the first is
    /// `on_the_wire`, and the queue that it stands in is returned. None is lost, even beyond a
    /// limit.
    fn inherit(
        &mut self,
        packets: Vec<Packet>,
        on_the_wire: bool,
        known: Known<'_>,
        now: Time,
    ) -> Option<FlowId>;
    /// All packets: the one `on_the_wire` first, then in order of arrival.
    fn packets(&self, on_the_wire: Option<FlowId>) -> Vec<Packet>;
    /// The packet on the wire, which [`next`](Scheduler::next) chose as the head of `queue`.
    fn on_the_wire(&self, queue: FlowId) -> Option<Packet>;
    /// The packet on the wire, the head of `queue`, leaves at `end`, and not when
    /// [`take`](Scheduler::take) said: the link was changed at `now`.
    fn retimed(&mut self, queue: FlowId, end: Time, now: Time);
}

/// A scheduler as it is held: in place, so that the way of a packet is compiled for it alone, or
/// behind `dyn`.
pub trait HeldScheduler: Sized + Send + 'static {
    /// The scheduler itself.
    type Scheduler: Scheduler + ?Sized;
    /// The scheduler, to be looked at.
    fn get(&self) -> &Self::Scheduler;
    /// The scheduler, to be driven.
    fn get_mut(&mut self) -> &mut Self::Scheduler;
    /// Returns true if it may take over from `old` with its queues as they are. Else it
    /// [inherits](Succession::inherit) the packets.
    fn can_migrate_from(&self, old: &Self) -> bool {
        let _ = old;
        true
    }
    /// Takes over from a scheduler of the same type, whose setup was another. The
    /// queue that is on the wire, if one is, is called so from now on.
    fn migrate_from(
        &mut self,
        old: Self,
        setup: &Setup,
        on_the_wire: Option<FlowId>,
        known: Known<'_>,
        now: Time,
    ) -> Option<FlowId>;
}

/// Of a scheduler behind `dyn` the type is not known: packet by packet.
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

    /// Sends from the one of two flows that the seed chooses.
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
        fn service(&self, _: FlowId) -> Result<Promise, NoPromise> {
            Err(NoPromise("the seed chooses".into()))
        }
    }

    /// The flows that are sent from first under a hundred seeds.
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

    /// A hundred throws of a coin: each side 50 times, with a standard deviation of 5.
    #[test]
    fn the_seed_reaches_the_discipline_wherever_it_stands() {
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
