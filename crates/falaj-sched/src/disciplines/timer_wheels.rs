//! Timer wheels, one for each class of weights: a scheduler with which Rizzo compares QFQ.
//!
//! Rizzo's talk on QFQ measures Karsten's scheduler, "interleaved stratified timer wheels": flows
//! are divided into strata by their weight, each stratum keeps its flows in the slots of a wheel,
//! and a decision costs one step per stratum. Karsten's paper was not available. The following
//! details are therefore our own choice, and may differ from his:
//!
//! - Stratum `k` has the weights from `2^k` to `2^(k+1) - 1`. A flow's head is due at
//!   `F = max(V, F of the packet before) + L/w`; `V` is virtual time, `L` the length of the packet
//!   and `w` the weight of the flow. As in self-clocked fair queueing, virtual time is the time of
//!   the slot served last.
//! - The length of a stratum's slot is between 1/16 and 1/8 of the virtual length of a largest
//!   packet at the stratum's least weight. Thus 32 slots cover the due times of all heads.
//! - The server takes the earliest slot of each stratum, and serves the one that ends first. If two
//!   end together, it serves the slot of the larger weights. Within a slot flows are served in the
//!   order in which they joined it.
//!
//! A slot rounds a due time by less than the slot's length. The due time of an empty flow is not
//! kept: the flow's next packet counts from the virtual time of its arrival. The error of this is
//! less than a slot.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Guarantee, Guarantees, room_for_one};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "timer-wheels",
    doc: "flows share the link by weight, with a timer wheel for each power of two of weights; for \
          comparison in benchmarks, without a guarantee",
    source: "after Karsten 2006, whose paper was not available",
    cost: "O(1)",
    guarantee: "nothing",
    guarantee_source: "—",
    aliases: &["kps", "timing wheel"],
    flow: &[Param {
        name: "weight",
        kind: Kind::Count { min: 1, max: MOST },
        default: Some("1"),
        doc: "the flow's weight: flows with packets share the link in proportion to their weights",
    }],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    ..Manifest::PLAIN
};

/// The largest weight.
const MOST: u64 = 65_536;
/// One stratum for each doubling from 1 to the largest weight.
const STRATA: usize = MOST.ilog2() as usize + 1;
/// Virtual length of a byte at weight 1. Virtual time is a `u64` that wraps around (at 400 Gbit/s
/// and weight 1 in 22 s); only differences are compared, and the differences between heads are only
/// a few largest packets.
const BYTE: u64 = 1 << 24;
const SLOTS: usize = 32;
const NONE: u32 = u32::MAX;

/// First and last flow of a slot.
#[derive(Debug, Clone, Copy)]
struct Slot {
    first: u32,
    last: u32,
}

/// Flows of one stratum by the due times of their heads.
#[derive(Debug, Clone)]
struct Wheel {
    /// A slot covers `2^shift` of virtual time.
    shift: u32,
    /// Bit `s`: slot `s` has a flow.
    occupied: u32,
    slots: [Slot; SLOTS],
}

impl Wheel {
    /// Returns the first slot to serve from `time` on, and the distance from `time` to its end.
    #[inline]
    fn first(&self, time: u64) -> (usize, u64) {
        let base = time >> self.shift;
        let ahead = self.occupied.rotate_right(base as u32 % SLOTS as u32).trailing_zeros();
        let slot = base.wrapping_add(ahead.into());
        (slot as usize % SLOTS, (slot.wrapping_add(1) << self.shift).wrapping_sub(time))
    }
}

/// Timer wheels.
#[derive(Debug, Clone)]
pub struct TimerWheels {
    weights: Vec<u32>,
    wheels: Vec<Wheel>,
    /// Bit `k`: the wheel of stratum `k` has a flow.
    occupied: u32,
    /// Virtual time.
    time: u64,
    /// The flow whose packet is on the wire.
    sending: Option<FlowId>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct WheelFlow {
    /// Due time of the flow's head, or of its packet on the wire.
    due: u64,
    /// Virtual length of a byte.
    byte: u32,
    /// Length in bytes of the head for which the flow was put into its slot.
    bytes: u32,
    /// The flow after it in its slot.
    next: u32,
    stratum: u8,
    /// True if the flow is in a slot.
    queued: bool,
}

impl TimerWheels {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<TimerWheels, ConfigErrors> {
        room_for_one(setup)?;
        let mut weights = Vec::new();
        for (flow, f) in setup.flows.iter().enumerate() {
            let weight = f.values.count("weight").unwrap_or(1);
            if !(1..=MOST).contains(&weight) {
                return Err(ConfigError {
                    flow: Some(flow),
                    param: "weight",
                    what: format!("a weight of {weight} is out of range"),
                    help: format!("from 1 to {MOST}"),
                }
                .into());
            }
            weights.push(weight as u32);
        }
        let wheel = |stratum: usize| {
            let packet = (u64::from(setup.largest.max(1)) * BYTE) >> stratum;
            let empty = Slot { first: NONE, last: NONE };
            Wheel { shift: packet.ilog2() - 3, occupied: 0, slots: [empty; SLOTS] }
        };
        let wheels = (0..STRATA).map(wheel).collect();
        Ok(TimerWheels { weights, wheels, occupied: 0, time: 0, sending: None })
    }

    /// Enters a flow whose head is due at `due`. A due time beyond the wheel can occur after a
    /// change of the setup; it goes to the last slot.
    fn insert(&mut self, flows: &mut Flows<WheelFlow>, f: FlowId, due: u64) {
        let bytes = flows.head(f).unwrap_or(0);
        let state = flows.state_mut(f);
        (state.due, state.bytes, state.next, state.queued) = (due, bytes, NONE, true);
        let stratum = usize::from(state.stratum);
        let wheel = &mut self.wheels[stratum];
        let base = self.time >> wheel.shift;
        let ahead = (due >> wheel.shift).wrapping_sub(base) & (u64::MAX >> wheel.shift);
        let slot = base.wrapping_add(ahead.min(SLOTS as u64 - 1)) as usize % SLOTS;
        let last = core::mem::replace(&mut wheel.slots[slot].last, f.0);
        if wheel.occupied & (1 << slot) == 0 {
            wheel.slots[slot].first = f.0;
        } else {
            flows.state_mut(FlowId(last)).next = f.0;
        }
        wheel.occupied |= 1 << slot;
        self.occupied |= 1 << stratum;
    }

    /// Virtual length of a head at its flow's weight.
    #[inline]
    fn cost(flows: &Flows<WheelFlow>, f: FlowId, bytes: u32) -> u64 {
        u64::from(bytes) * u64::from(flows.state(f).byte)
    }

    /// Returns the stratum and the slot to serve next.
    #[inline]
    fn choose(&self) -> Option<(usize, usize)> {
        let mut best = None;
        let mut rest = self.occupied;
        while rest != 0 {
            // Strata of larger weights come first: another slot replaces theirs only if it ends
            // earlier.
            let stratum = rest.ilog2() as usize;
            rest &= !(1 << stratum);
            let (slot, end) = self.wheels[stratum].first(self.time);
            if best.is_none_or(|(_, least)| end < least) {
                best = Some(((stratum, slot), end));
            }
        }
        best.map(|(place, _)| place)
    }

    /// Removes the first flow of a slot.
    #[inline]
    fn take_out(&mut self, flows: &mut Flows<WheelFlow>, (stratum, slot): (usize, usize)) {
        let wheel = &mut self.wheels[stratum];
        let state = flows.state_mut(FlowId(wheel.slots[slot].first));
        state.queued = false;
        wheel.slots[slot].first = state.next;
        if state.next == NONE {
            wheel.occupied &= !(1 << slot);
            if wheel.occupied == 0 {
                self.occupied &= !(1 << stratum);
            }
        }
    }

    /// Inserts the flow whose packet has left, at the due time of its next head.
    #[inline]
    fn settle(&mut self, flows: &mut Flows<WheelFlow>) {
        let Some(f) = self.sending.take() else { return };
        if let Some(bytes) = flows.head(f) {
            let due = flows.state(f).due.wrapping_add(Self::cost(flows, f, bytes));
            self.insert(flows, f, due);
        }
    }

    fn set(&self, state: &mut WheelFlow, f: usize) {
        let weight = self.weights[f];
        state.byte = ((BYTE + u64::from(weight) / 2) / u64::from(weight)) as u32;
        state.stratum = weight.ilog2() as u8;
    }
}

impl Discipline for TimerWheels {
    type State = WheelFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<WheelFlow>) {
        for f in 0..self.weights.len() {
            self.set(flows.state_mut(FlowId(f as u32)), f);
        }
    }

    /// A head keeps its due time, unless the new weight makes it due earlier. Heads are inserted in
    /// the order of their due times.
    fn migrate_from(&mut self, old: TimerWheels, flows: &mut Flows<WheelFlow>, _: Time) {
        (self.time, self.sending) = (old.time, old.sending);
        let mut heads = Vec::new();
        for f in 0..self.weights.len() {
            let id = FlowId(f as u32);
            let stratum = flows.state(id).stratum;
            self.set(flows.state_mut(id), f);
            if let (true, Some(bytes)) = (flows.state(id).queued, flows.head(id)) {
                // The head may be due already, although its slot has not ended yet.
                let left = flows.state(id).due.wrapping_sub(self.time) as i64;
                let left = if stratum == flows.state(id).stratum { left } else { left.max(0) };
                heads.push((left.min(Self::cost(flows, id, bytes) as i64), id));
            }
            flows.state_mut(id).queued = false;
        }
        heads.sort();
        for (left, f) in heads {
            self.insert(flows, f, self.time.wrapping_add_signed(left));
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<WheelFlow>, f: FlowId, _: Time) {
        // A flow whose last packet has just left continues from that packet's due time. A flow
        // whose head was dropped is still in its slot.
        if self.sending == Some(f) || flows.state(f).queued {
            return;
        }
        let Some(bytes) = flows.head(f) else { return };
        let due = self.time.wrapping_add(Self::cost(flows, f, bytes));
        self.insert(flows, f, due);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<WheelFlow>, _: Time, _: &Wire) -> Decision {
        self.settle(flows);
        while let Some(place) = self.choose() {
            let f = FlowId(self.wheels[place.0].slots[place.1].first);
            let WheelFlow { due, bytes: before, .. } = *flows.state(f);
            match flows.head(f) {
                // A shorter head that replaced a longer one stays in the slot, and is charged for
                // the longer length.
                Some(bytes) if bytes <= before => return Decision::Serve(f),
                Some(bytes) => {
                    self.take_out(flows, place);
                    self.insert(flows, f, due.wrapping_add(Self::cost(flows, f, bytes - before)));
                }
                None => self.take_out(flows, place),
            }
        }
        Decision::Idle
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<WheelFlow>, f: FlowId, _: Sent) {
        let Some(place) = self.choose() else { return };
        let wheel = &self.wheels[place.0];
        let start = wheel.first(self.time).1.saturating_sub(1 << wheel.shift);
        self.take_out(flows, place);
        self.time = self.time.wrapping_add(start);
        self.sending = Some(f);
    }

    fn is_reusable(&self, _: &Flows<WheelFlow>, f: FlowId, _: Time) -> bool {
        self.sending != Some(f)
    }
}

impl QueueHooks for TimerWheels {}
impl MediumHooks for TimerWheels {}

impl Guarantees for TimerWheels {
    fn service(&self, _: FlowId) -> Result<Guarantee, NoGuarantee> {
        Err(NoGuarantee(
            "timer wheels are for comparison: no bound is proven for them; `qfq` and `wf2q+` have one".into(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{THREE_FLOWS, at_once, order, weights};

    /// A slot is half a byte long here, so heads that are due at different bytes are in different
    /// slots.
    #[test]
    fn equal_flows_go_by_when_their_heads_are_due() {
        // Due times: A 2 4 6 8; B 6 7 10 (it arrives at V = 2); C 5 8. Within a slot, flows are
        // served in the order in which they joined it.
        let sent = order(&weights(4, &[1, 1, 1]), TimerWheels::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 C1@7 B1@11 A3@13 B2@14 C2@17 A4@19 B3@22");
    }

    #[test]
    fn the_narrower_slot_of_larger_weights_ends_first() {
        // Due times: A 2 4 6, B 6 10. A's slot ends at 6.25, B's at 6.5.
        let sent = order(&weights(4, &[2, 1]), TimerWheels::new, &at_once("AAABB", 4));
        assert_eq!(sent, "A1@4 A2@8 A3@12 B1@16 B2@20");
    }
}
