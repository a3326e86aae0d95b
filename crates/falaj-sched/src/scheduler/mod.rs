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
    /// Gives all packets away, the one `on_the_wire` first, then in order of
    /// arrival. It is of no use afterwards.
    fn dismantle(&mut self, on_the_wire: Option<FlowId>) -> Vec<Packet>;
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
        mut old: Box<dyn Scheduler>,
        _: &Setup,
        on_the_wire: Option<FlowId>,
        known: Known<'_>,
        now: Time,
    ) -> Option<FlowId> {
        let packets = old.dismantle(on_the_wire);
        self.inherit(packets, on_the_wire.is_some(), known, now)
    }
}
