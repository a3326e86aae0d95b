//! A scheduler behind `dyn` is a scheduler: for trees, whose parts are behind `dyn` anyway.

use crate::contract::breach::Breach;
use crate::contract::discipline::Decision;
use crate::contract::guarantee::Promise;
use crate::contract::no_guarantee::NoPromise;
use crate::contract::params::Setup;
use crate::contract::transmission::{Air, Sent};
use crate::queues::queue::{FlowId, Packet};
use crate::scheduler::instance::{Full, Scheduler};
use crate::units::label::{Known, Label};
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

impl Scheduler for Box<dyn Scheduler> {
    fn start(&mut self, setup: &Setup) {
        (**self).start(setup);
    }

    fn arrive(&mut self, packet: Packet, now: Time) -> Result<bool, Full> {
        (**self).arrive(packet, now)
    }

    fn has_room(&self, leaf: FlowId, bytes: u32) -> bool {
        (**self).has_room(leaf, bytes)
    }

    fn next(&mut self, now: Time, wire: &Wire) -> Decision {
        (**self).next(now, wire)
    }

    fn peeks(&self) -> bool {
        (**self).peeks()
    }

    fn head(&mut self, queue: FlowId) -> Option<u32> {
        (**self).head(queue)
    }

    fn shortest_head(&self) -> Option<u32> {
        (**self).shortest_head()
    }

    fn take(&mut self, queue: FlowId, start: Time, wire: &mut Wire) -> (Packet, Sent) {
        (**self).take(queue, start, wire)
    }

    fn finish(&mut self, queue: FlowId, now: Time) -> Packet {
        (**self).finish(queue, now)
    }

    fn throw_away(&mut self, queue: FlowId, now: Time) -> Packet {
        (**self).throw_away(queue, now)
    }

    /// Packet by packet: the schedulers may be of different types.
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

    fn inherit(
        &mut self,
        packets: Vec<Packet>,
        on_the_wire: bool,
        known: Known<'_>,
        now: Time,
    ) -> Option<FlowId> {
        (**self).inherit(packets, on_the_wire, known, now)
    }

    fn dismantle(&mut self, on_the_wire: Option<FlowId>) -> Vec<Packet> {
        (**self).dismantle(on_the_wire)
    }

    fn largest_waiting(&self, on_the_wire: Option<FlowId>) -> u32 {
        (**self).largest_waiting(on_the_wire)
    }

    fn is_reusable(&mut self, leaf: FlowId, now: Time) -> bool {
        (**self).is_reusable(leaf, now)
    }

    fn announce(&mut self, label: Label) {
        (**self).announce(label);
    }

    fn wants_labels(&self) -> bool {
        (**self).wants_labels()
    }

    fn drops_early(&self) -> bool {
        (**self).drops_early()
    }

    fn evicted(&mut self) -> Option<Packet> {
        (**self).evicted()
    }

    fn marked(&mut self) -> bool {
        (**self).marked()
    }

    fn earliness(&mut self) -> Option<Span> {
        (**self).earliness()
    }

    fn by_policy(&self) -> bool {
        (**self).by_policy()
    }

    fn air(&self, leaf: FlowId) -> Option<Air> {
        (**self).air(leaf)
    }

    fn seed(&mut self, seed: u64) {
        (**self).seed(seed);
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        (**self).breaches(out);
    }

    fn promise(&self, leaf: FlowId) -> Result<Promise, NoPromise> {
        (**self).promise(leaf)
    }

    fn promise_behind(&self, leaf: FlowId, server: &Promise) -> Result<Promise, NoPromise> {
        (**self).promise_behind(leaf, server)
    }
}
