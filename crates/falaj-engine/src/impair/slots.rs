//! Delivery in slots, as on a medium that is available now and then: packets that have come
//! meanwhile are delivered together in the next slot.

use super::event::{Draw, RngStream};
use super::transit::{Impairment, ImpairmentState, Irregularity, LinkDelays, Transit};
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::units::time::{Span, Time};

/// The times and capacities of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The shortest time from one slot to the next; above zero.
    pub least: Span,
    /// The longest time from one slot to the next; at least the shortest.
    pub most: Span,
    /// Maximum number of packets in each slot; above zero.
    pub packets: u64,
    /// Maximum number of bytes in each slot, as the link accounts them; one packet always fits.
    pub bytes: u64,
}

impl Slots {
    /// Returns true if a slot can be full. Then packets wait for the next slot, and the link waits
    /// with them.
    pub fn can_be_full(&self) -> bool {
        self.packets < u64::MAX || self.bytes < u64::MAX
    }
}

impl Impairment for Slots {
    fn state(&self, link: &LinkDelays) -> Box<dyn ImpairmentState> {
        Box::new(SlotState::new(*self, link.range().1))
    }

    fn words(&self) -> String {
        match self.least == self.most {
            true => format!("slots every {}", self.least),
            false => format!("slots every {} to {}", self.least, self.most),
        }
    }

    fn no_guarantee(&self) -> Option<NoGuarantee> {
        let why = "while slots are full, packets wait in the queue, so that no bound holds";
        self.can_be_full().then(|| NoGuarantee(why.into()))
    }

    fn irregularity(&self) -> Option<Irregularity> {
        Some(Irregularity::Instants)
    }
}

/// State of slots, with the fill level of the current slot.
///
/// Slot `k` lies at `k` times the mean of the shortest and the longest time, and its own draw
/// delays it by at most half of their difference. So no slot depends on earlier slots, the time
/// between neighboring slots is within both limits, and an idle link costs nothing.
#[derive(Debug)]
struct SlotState {
    slots: Slots,
    /// The longest time of a packet on the link.
    longest: Span,
    period: u64,
    spread: u64,
    /// The first slot that was possible for the last packet, not counting packets that overtook.
    first: u64,
    /// The slot of the last packet.
    slot: u64,
    packets: u64,
    bytes: u64,
    /// The values of the four fields above before the last packet.
    before: [u64; 4],
}

impl SlotState {
    fn new(slots: Slots, longest: Span) -> SlotState {
        let (least, most) = (slots.least.0.max(1), slots.most.0.max(slots.least.0.max(1)));
        // Rounded so that the time between neighboring slots is within both limits.
        let spread = (most - least) / 4;
        SlotState {
            slots,
            longest,
            period: least + 2 * spread,
            spread,
            first: 0,
            slot: 0,
            packets: 0,
            bytes: 0,
            before: [0; 4],
        }
    }

    fn time(&self, slot: u64, draw: Draw) -> Time {
        let moved = (u128::from(draw.at(slot)) * u128::from(2 * self.spread + 1)) >> 64;
        Time(slot.saturating_mul(self.period).saturating_add(moved as u64))
    }

    /// Time of delivery of a packet due at `due`; and the time of an earlier slot without room
    /// for it, if there is one.
    fn enter(&mut self, due: Time, bytes: u32, draw: Draw) -> (Time, Option<Time>) {
        // The first slot that is not before `due`; its shift is at most `2 spread`.
        let mut first = due.0.saturating_sub(2 * self.spread) / self.period;
        while self.time(first, draw) < due {
            first += 1;
        }
        if first < self.first {
            // The packet overtook others, and is delivered in an earlier slot than they are, even
            // if that slot is full.
            return (self.time(first, draw), None);
        }
        self.first = first;
        let bytes = u64::from(bytes);
        let full = self.packets >= self.slots.packets
            || self.bytes.saturating_add(bytes) > self.slots.bytes;
        if first > self.slot {
            (self.slot, self.packets, self.bytes) = (first, 0, 0);
        } else if full && self.packets > 0 {
            (self.slot, self.packets, self.bytes) = (self.slot + 1, 0, 0);
        }
        self.packets += 1;
        self.bytes += bytes;
        let full = (self.slot > first).then(|| self.time(self.slot - 1, draw));
        (self.time(self.slot, draw), full)
    }
}

impl ImpairmentState for SlotState {
    fn withdraw(&mut self) {
        [self.first, self.slot, self.packets, self.bytes] = self.before;
    }

    fn at_delivery(&mut self, packet: &mut Transit) {
        self.before = [self.first, self.slot, self.packets, self.bytes];
        let (due, full) = self.enter(packet.due, packet.bytes, packet.draw(RngStream::Slots));
        packet.due = due;
        // The next packet waits in the queue until it would miss that full slot: leaving earlier
        // would not deliver it any sooner.
        if let Some(full) = full {
            packet.free = packet.free.max(Time(full.0.saturating_sub(self.longest.0)));
        }
    }
}
