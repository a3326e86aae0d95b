//! Delivery in slots, as of a medium that is ours now and then: what has come
//! meanwhile is delivered together at the next one.

use super::event::{Draw, RngStream};
use super::transit::{Impairment, ImpairmentState, Irregularity, LinkDelays, Transit};
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::units::time::{Span, Time};

/// When there are slots, and what each takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The shortest time from one to the next; above zero.
    pub least: Span,
    /// The longest; at least the shortest.
    pub most: Span,
    /// Packets in each; above zero.
    pub packets: u64,
    /// Bytes in each, as the link accounts them; one packet is always taken.
    pub bytes: u64,
}

impl Slots {
    /// Can a slot be full? Then packets wait for the next one, and the link with them.
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

    fn no_promise(&self) -> Option<NoPromise> {
        let why = "packets wait in the queue where a slot is full, beyond all bounds";
        self.can_be_full().then(|| NoPromise(why.into()))
    }

    fn irregularity(&self) -> Option<Irregularity> {
        Some(Irregularity::Instants)
    }
}

/// Slots, and how full the one is that packets enter now.
///
/// Slot `k` lies at `k` times the mean of both times, and a draw of its own
/// moves it by a quarter of their difference at most: so none depends on those
/// before it, neighbours keep both limits, and an idle link costs nothing.
#[derive(Debug)]
struct SlotState {
    slots: Slots,
    /// The longest that a packet is on its way.
    longest: Span,
    period: u64,
    spread: u64,
    /// The first slot that the last packet might have had, but for an overtaking one.
    first: u64,
    /// The one that it has.
    slot: u64,
    packets: u64,
    bytes: u64,
    /// These four before the last packet.
    before: [u64; 4],
}

impl SlotState {
    fn new(slots: Slots, longest: Span) -> SlotState {
        let (least, most) = (slots.least.0.max(1), slots.most.0.max(slots.least.0.max(1)));
        // Rounded so that neighbours stay within both.
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

    /// When a packet that is due then is delivered; and, if a slot before that one had no room for
    /// it, when that one is.
    fn enter(&mut self, due: Time, bytes: u32, draw: Draw) -> (Time, Option<Time>) {
        // The first one that is not before; what moves it is at most `2 spread`.
        let mut first = due.0.saturating_sub(2 * self.spread) / self.period;
        while self.time(first, draw) < due {
            first += 1;
        }
        if first < self.first {
            // It overtook, and goes with those before.
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
        // Nothing that leaves before that slot comes would be delivered any sooner: it waits in
        // the queue.
        if let Some(full) = full {
            packet.free = packet.free.max(Time(full.0.saturating_sub(self.longest.0)));
        }
    }
}
