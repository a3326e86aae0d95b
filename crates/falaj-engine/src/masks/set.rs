//! Ids and their places: an id has its own place or shares one, and is removed when it expires.
//!
//! The number of places is fixed from the beginning, so that creating an id takes the same time for
//! any number of ids, and guarantees of flows do not change when another id appears.
//!
//! Everything here happens at arrivals, which do not depend on how often the engine is polled;
//! nothing runs in between, and idle ids cost nothing.

use super::blocks::Blocks;
use super::lookup::PlaceLookup;
use super::mask::{MaskConfig, MaskId};
use super::stats::SojournStats;
use crate::chance::Chance;
use falaj_sched::units::time::Time;
use siphasher::sip::SipHasher13;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

/// Number of ids that one arrival checks for expiry: no packet waits for the check of all.
const STEPS: usize = 4;
/// Number of removed ids that are remembered one by one.
const LAST: usize = 16;

/// A keyed hash: a sender that does not know the keys cannot cause collisions.
#[derive(Clone)]
struct Keyed([u64; 2]);

impl Keyed {
    #[inline]
    fn of(&self, id: &MaskId) -> u64 {
        SipHasher13::new_with_keys(self.0[0], self.0[1]).hash(id.bytes())
    }
}

/// The id at a place, and when its last packet arrived; [`Time::NEVER`] if the place is free. One
/// cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Owner {
    id: MaskId,
    last: Time,
}

/// The ids of one mask.
pub(crate) struct IdTable {
    each: MaskConfig,
    keys: Keyed,
    /// The places that are taken, by the hash of their ids: four bytes each, so that the lookup of
    /// an id's place stays in a near cache. The ids themselves are in `owners`.
    taken: PlaceLookup,
    /// The owner of each place, and the statistics by slot.
    owners: Blocks<Owner>,
    stats: Blocks<SojournStats>,
    /// The sum over all ids so far, and the sum over ids that share.
    total: SojournStats,
    of_shared: SojournStats,
    /// Places below this were assigned at least once.
    used: u32,
    /// Places that were returned.
    free: Vec<u32>,
    /// Times at which places are checked for expiry: one entry for each place that is taken.
    checks: BinaryHeap<Reverse<(Time, u32)>>,
    made: u64,
    gone: u64,
    of_gone: SojournStats,
    last_gone: VecDeque<(MaskId, SojournStats)>,
    /// Packets of ids without a place of their own, and the number of places that these ids share.
    beyond: u64,
    shared: u32,
    /// While memory is short: the number of ids when it became so, which is the maximum for now.
    most_for_now: Option<usize>,
}

impl IdTable {
    pub(crate) fn new(each: MaskConfig, seed: u64, pipe: u32, flow: u32) -> IdTable {
        /// The element of the keys' random numbers, which no other draws use.
        const MASKS: u64 = 0x6d61_736b;
        /// Number of entries that are quickly copied.
        const FEW: u32 = 8_192;
        let chance = Chance::new(seed, MASKS, u64::from(pipe) << 32 | u64::from(flow));
        let keys = Keyed([chance.draw(0), chance.draw(1)]);
        // A vector that grows is copied: if there may be many ids, room for all is reserved at
        // once. Unused virtual memory takes no physical memory.
        let reserved = if each.most > FEW { each.most as usize } else { 0 };
        IdTable {
            each,
            taken: PlaceLookup::new(each.most),
            keys,
            owners: Blocks::new(),
            stats: Blocks::filled(SojournStats::default(), each.shared() as usize),
            total: SojournStats::default(),
            of_shared: SojournStats::default(),
            used: 0,
            free: Vec::with_capacity(reserved),
            checks: BinaryHeap::with_capacity(reserved),
            made: 0,
            gone: 0,
            of_gone: SojournStats::default(),
            last_gone: VecDeque::new(),
            beyond: 0,
            shared: each.shared(),
            most_for_now: None,
        }
    }

    /// The place at which a packet of this id would be queued: the own place of the id, or a shared
    /// one. `None`: the id would get a new place of its own.
    pub(crate) fn find(&self, id: &MaskId) -> Option<u32> {
        let own = self.own(id, self.keys.of(id));
        own.or_else(|| (self.beyond > 0 || !self.has_free()).then(|| self.shared_by(id)))
    }

    /// The id's own place.
    #[inline]
    fn own(&self, id: &MaskId, hash: u64) -> Option<u32> {
        self.taken.find(hash, |place| self.owners[place as usize].id == *id)
    }

    fn takes(&mut self, place: u32, hash: u64) {
        let IdTable { taken, owners, keys, .. } = self;
        taken.insert(hash, place, |place| keys.of(&owners[place as usize].id));
    }

    /// Takes over the counters of another table and, if the mask is the same, its ids up to the
    /// maximum. It also takes over the keys of the hash, so that the same ids share a place as
    /// before.
    pub(crate) fn migrate_from(&mut self, old: &mut IdTable) {
        if self.each == old.each {
            std::mem::swap(self, old);
            return;
        }
        let most = if self.each.mask == old.each.mask { self.each.most } else { 0 };
        self.keys = old.keys.clone();
        (self.made, self.gone, self.beyond) = (old.made, old.gone, old.beyond);
        (self.of_gone, self.total) = (old.of_gone, old.total);
        self.last_gone =
            if most > 0 { std::mem::take(&mut old.last_gone) } else { VecDeque::new() };
        self.shared = self.each.shared();
        if old.shared < old.each.shared() {
            self.shared = self.shared.min(old.shared);
        }
        // If the mask differs, or there are fewer shared places than before, the old statistics of
        // shared places count as those of removed ids.
        let shared = old.each.shared() as usize;
        let keeps = most > 0 && shared <= self.stats.len();
        for (n, stats) in old.stats.iter().take(shared).enumerate() {
            if keeps { self.stats[n] = *stats } else { self.of_gone.add(stats) }
        }
        if keeps {
            self.of_shared = old.of_shared;
        }
        self.taken = PlaceLookup::new(self.each.most);
        self.used = old.used.min(most);
        for place in 0..self.used {
            self.owners.push(old.owners[place as usize]);
            self.stats.push(old.stats[shared + place as usize]);
        }
        self.free.extend(old.free.iter().copied().filter(|place| *place < most));
        for Reverse((due, place)) in old.checks.drain() {
            if place < most {
                // An id that expires earlier than before is checked earlier.
                self.checks.push(Reverse((
                    due.min(Time(due.0.saturating_sub(old.each.expire.0)) + self.each.expire),
                    place,
                )));
                self.takes(place, self.keys.of(&self.owners[place as usize].id));
            } else {
                let stats = old.stats[shared + place as usize];
                self.gone += 1;
                self.of_gone.add(&stats);
            }
        }
    }

    /// The id at a place in words; "shared" for a shared place.
    pub(crate) fn words(&self, place: u32) -> String {
        match self.owners.get(place as usize) {
            Some(owner) if place < self.each.most => self.each.mask.words(&owner.id),
            _ => "shared".to_owned(),
        }
    }

    /// Returns true if an id ever had to share.
    pub(crate) fn shares(&self) -> bool {
        self.beyond > 0
    }

    fn has_free(&self) -> bool {
        // Each place that is taken has one entry.
        self.checks.len() < self.most_for_now.unwrap_or(self.each.most as usize)
    }

    fn shared_by(&self, id: &MaskId) -> u32 {
        self.each.most + (self.keys.of(id) >> 32) as u32 % self.shared
    }

    /// The place for an arriving packet of this id. While memory is `short`, there are no more ids
    /// than before; an id that is removed makes room for another. `goes` is called for the place of
    /// an expired id, and for the shared place of an id that might get its own. It returns true if
    /// no packet and no deficit is left there, and may then free the place's resources.
    #[inline]
    pub(crate) fn comes(
        &mut self,
        id: &MaskId,
        now: Time,
        short: bool,
        mut goes: impl FnMut(u32) -> bool,
    ) -> u32 {
        if self.checks.peek().is_some_and(|check| check.0.0 <= now) {
            self.expire(now, &mut goes);
        }
        let hash = self.keys.of(id);
        if let Some(place) = self.own(id, hash) {
            self.owners[place as usize].last = now;
            return place;
        }
        if short != self.most_for_now.is_some() {
            self.memory_is(short);
        }
        self.make(id, hash, now, goes)
    }

    /// Memory has become short, or is sufficient again.
    #[cold]
    fn memory_is(&mut self, short: bool) {
        /// Number of ids for each shared place. Shared places are created now, so they are few:
        /// less than half a percent of the others, but at least one.
        const FOR_EACH_SHARED: usize = 256;
        let ids = self.checks.len();
        self.most_for_now = short.then_some(ids);
        // An id that has shared a place before keeps using it, so that its packets are not
        // reordered.
        if short && self.beyond == 0 {
            self.shared = ((ids / FOR_EACH_SHARED) as u32).clamp(1, self.each.shared());
        }
    }

    fn make(
        &mut self,
        id: &MaskId,
        hash: u64,
        now: Time,
        mut goes: impl FnMut(u32) -> bool,
    ) -> u32 {
        // This id may still have packets in a shared queue; it keeps using that queue until it
        // drains, so that packets are not reordered.
        if self.beyond > 0 && !goes(self.shared_by(id)) {
            self.beyond += 1;
            return self.shared_by(id);
        }
        if !self.has_free() {
            self.beyond += 1;
            return self.shared_by(id);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.owners.push(Owner { id: *id, last: now });
            self.stats.push(SojournStats::default());
            self.used - 1
        });
        self.made += 1;
        self.owners[place as usize] = Owner { id: *id, last: now };
        self.takes(place, hash);
        self.checks.push(Reverse((now + self.each.expire, place)));
        place
    }

    #[cold]
    fn expire(&mut self, now: Time, mut goes: impl FnMut(u32) -> bool) {
        for _ in 0..STEPS {
            let Some(mut first) = self.checks.peek_mut().filter(|check| check.0.0 <= now) else {
                return;
            };
            let place = first.0.1;
            let over = self.owners[place as usize].last + self.each.expire;
            if over > now {
                first.0.0 = over;
            } else if goes(place) {
                std::collections::binary_heap::PeekMut::pop(first);
                self.let_go(place);
            } else {
                // The place still has a deficit: check again after the same time.
                first.0.0 = now + self.each.expire;
            }
        }
    }

    fn let_go(&mut self, place: u32) {
        let id = self.owners[place as usize].id;
        self.owners[place as usize].last = Time::NEVER;
        self.taken.remove(self.keys.of(&id), place);
        self.free.push(place);
        self.gone += 1;
        let slot = self.each.slot(place);
        let stats = std::mem::take(&mut self.stats[slot]);
        self.of_gone.add(&stats);
        if self.last_gone.len() == LAST {
            self.last_gone.pop_front();
        }
        self.last_gone.push_back((id, stats));
    }

    /// Counts an event of the id at a place.
    #[inline]
    pub(crate) fn count(&mut self, place: u32, something: impl Fn(&mut SojournStats)) {
        let slot = self.each.slot(place);
        something(&mut self.stats[slot]);
        something(&mut self.total);
        if place >= self.each.most {
            something(&mut self.of_shared);
        }
    }

    /// The places that were assigned at least once, and the shared ones.
    pub(crate) fn known(&self) -> impl Iterator<Item = u32> + use<> {
        let (own, shared) = self.known_ranges();
        own.chain(shared)
    }

    /// The places that were assigned at least once, and the shared ones, as two ranges.
    pub(crate) fn known_ranges(&self) -> (Range<u32>, Range<u32>) {
        (0..self.used, self.each.most..self.each.places())
    }

    /// Statistics of all ids.
    pub(crate) fn report(&self, busiest: usize) -> MaskStats {
        let mut all = None;
        let done = self.report_part(busiest, 0, usize::MAX, &mut all);
        debug_assert!(done.is_none(), "all of it is a part");
        all.unwrap_or_else(|| self.sums())
    }

    /// The report without the busiest ids. Its cost does not depend on the number of ids.
    fn sums(&self) -> MaskStats {
        let told = |id: &MaskId, stats: &SojournStats| (self.each.mask.words(id), *stats);
        MaskStats {
            mask: self.each.mask.to_string(),
            most: self.each.most,
            active: self.checks.len() as u64,
            made: self.made,
            gone: self.gone,
            beyond: self.beyond,
            shared: self.shared,
            total: self.total,
            of_gone: self.of_gone,
            of_shared: self.of_shared,
            busiest: Vec::new(),
            last_gone: self.last_gone.iter().rev().map(|(id, stats)| told(id, stats)).collect(),
        }
    }

    /// One part of the report: the sums with the first part (`from` is 0), and the busiest ids
    /// among the next `steps` places and those that `all` has. Returns the place where the next
    /// part begins, if there is one.
    pub(crate) fn report_part(
        &self,
        busiest: usize,
        from: u32,
        steps: usize,
        all: &mut Option<MaskStats>,
    ) -> Option<u32> {
        if from == 0 {
            *all = Some(self.sums());
        }
        let all = all.get_or_insert_with(|| self.sums().without_sums());
        let to = self.used.min(from.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX)));
        for place in from..to {
            let Owner { id, last } = &self.owners[place as usize];
            let stats = &self.stats[self.each.slot(place)];
            let last_kept = busiest.checked_sub(1).and_then(|n| all.busiest.get(n));
            let least = last_kept.map_or(0, |(_, one)| one.bytes);
            if *last == Time::NEVER || stats.bytes < least {
                continue;
            }
            // Ids with equally many bytes are in the order of their names, as in `MaskStats::add`.
            let name = self.each.mask.words(id);
            let is_before = |(other, of): &(String, SojournStats)| {
                (Reverse(of.bytes), other) <= (Reverse(stats.bytes), &name)
            };
            let rank = all.busiest.partition_point(is_before);
            if rank < busiest {
                all.busiest.truncate(busiest - 1);
                all.busiest.insert(rank, (name, *stats));
            }
        }
        (to < self.used).then_some(to)
    }
}

/// Statistics of the ids of a mask. An expired id counts as active until the arrival of a packet of
/// any id detects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskStats {
    /// The mask, in the syntax of a scenario's key `mask`: `src/24 dport`.
    pub mask: String,
    /// Maximum number of ids with a place of their own.
    pub most: u32,
    /// Number of ids that have a place of their own now.
    pub active: u64,
    /// Number of ids created.
    pub made: u64,
    /// Number of ids removed.
    pub gone: u64,
    /// Packets of ids without a place of their own.
    pub beyond: u64,
    /// Number of places that such ids share.
    pub shared: u32,
    /// Statistics of all packets.
    pub total: SojournStats,
    /// Statistics of packets of removed ids.
    pub of_gone: SojournStats,
    /// Statistics of packets of ids that share.
    pub of_shared: SojournStats,
    /// The ids with most bytes, in descending order.
    pub busiest: Vec<(String, SojournStats)>,
    /// The ids removed last, the most recent first.
    pub last_gone: Vec<(String, SojournStats)>,
}

impl MaskStats {
    /// Adds the statistics of the same mask in another link, whose ids are prefixed with its
    /// `name`; keeps the `busiest` busiest ids.
    pub(crate) fn add(&mut self, mut other: MaskStats, name: Option<&str>, busiest: usize) {
        (self.active, self.made) = (self.active + other.active, self.made + other.made);
        (self.gone, self.beyond) = (self.gone + other.gone, self.beyond + other.beyond);
        self.total.add(&other.total);
        self.of_gone.add(&other.of_gone);
        self.of_shared.add(&other.of_shared);
        if let Some(name) = name {
            let named = other.busiest.iter_mut().chain(&mut other.last_gone);
            named.for_each(|(id, _)| *id = format!("{name}: {id}"));
        }
        self.busiest.append(&mut other.busiest);
        self.busiest.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
        self.busiest.truncate(busiest);
        self.last_gone.append(&mut other.last_gone);
        self.last_gone.truncate(LAST);
    }

    /// These statistics with all sums set to zero, for single ids to be added.
    fn without_sums(self) -> MaskStats {
        let none = SojournStats::default();
        MaskStats {
            active: 0,
            made: 0,
            gone: 0,
            beyond: 0,
            total: none,
            of_gone: none,
            of_shared: none,
            last_gone: Vec::new(),
            ..self
        }
    }

    /// These statistics after the link of the ids was removed: all ids count as removed.
    pub(crate) fn gone_with_its_link(self) -> MaskStats {
        let gone = self.gone + self.active;
        MaskStats {
            active: 0,
            gone,
            of_gone: self.total,
            of_shared: SojournStats::default(),
            last_gone: Vec::new(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::masks::mask::Mask;
    use falaj_sched::units::time::Span;

    fn id(n: u16) -> MaskId {
        let mask = Mask { sport: Some(u16::MAX), dport: Some(u16::MAX), ..Mask::default() };
        mask.id(&Key { ports: Some((n, 7)), ..Key::default() })
    }

    fn set(most: u32, seed: u64) -> IdTable {
        let mask = Mask { sport: Some(u16::MAX), dport: Some(u16::MAX), ..Mask::default() };
        IdTable::new(MaskConfig { mask, most, expire: Span(100) }, seed, 0, 0)
    }

    #[test]
    fn ids_go_when_they_are_over_and_owe_nothing() {
        let mut set = set(3, 1);
        let never = |_| -> bool { panic!("no id is removed") };
        assert_eq!([1, 2, 1].map(|n| set.comes(&id(n), Time(10), false, never)), [0, 1, 0]);
        set.count(1, |stats| stats.sent(700, Span(5)));
        assert_eq!(set.comes(&id(1), Time(60), false, never), 0);
        // The first has not expired, the second has a deficit and stays.
        assert_eq!(
            set.comes(&id(3), Time(120), false, |place| {
                assert_eq!(place, 1);
                false
            }),
            2
        );
        assert_eq!(set.find(&id(2)), Some(1));
        assert_eq!(set.find(&id(9)), Some(3), "it would share");
        // The others are removed one by one, oldest first; their places are reassigned.
        assert_eq!(set.comes(&id(4), Time(230), false, |_| true), 2, "the last one that went");
        let report = set.report(5);
        assert_eq!((report.active, report.made, report.gone, report.beyond), (1, 4, 3, 0));
        assert_eq!((report.total.bytes, report.of_gone.packets()), (700, 1));
        assert_eq!(
            report.last_gone.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().concat().len(),
            3 * "sport 1 dport 7".len()
        );
    }

    /// A part covers the given number of ids, however many there are; all parts together are the
    /// whole report.
    #[test]
    fn what_is_known_of_many_ids_is_told_in_parts() {
        let mask = Mask { sport: Some(u16::MAX), dport: Some(u16::MAX), ..Mask::default() };
        let mut set = IdTable::new(MaskConfig { mask, most: 1_500, expire: Span(2_000) }, 1, 0, 0);
        for n in 0..4_000_u16 {
            let place = set.comes(&id(n), Time(u64::from(n)), false, |_| true);
            set.count(place, |stats| stats.sent(u32::from(n) * 7_919 % 4_001, Span(9)));
        }
        let whole = set.report(5);
        assert_eq!((whole.busiest.len(), whole.total.packets()), (5, 4_000));
        assert!(whole.gone > 100 && whole.beyond > 100 && whole.active > 1_000);
        assert!(whole.busiest.is_sorted_by_key(|(_, s)| Reverse(s.bytes)));
        let mut all = whole.of_gone;
        let (mut parts, mut from, mut together) = (0, Some(0), None);
        assert_eq!(whole.total.bytes, (0..4_000).map(|n| n * 7_919 % 4_001).sum::<u64>());
        while let Some(next) = from {
            from = set.report_part(5, next, 100, &mut together);
            parts += 1;
        }
        assert_eq!((together, parts), (Some(whole), (set.used as usize).div_ceil(100)));
        // The running sum equals the sum over all places.
        set.stats.iter().for_each(|stats| all.add(stats));
        assert_eq!(all, set.total);
    }

    #[test]
    fn while_memory_is_short_there_are_no_more_ids_than_before() {
        let mut set = set(6_400, 1);
        let mut comes = |n, at, short| set.comes(&id(n), Time(at), short, |_| true);
        (0..5).for_each(|n| assert_eq!(comes(n, 0, false), u32::from(n)));
        // Further ids share one place, existing ones keep theirs.
        assert!((5..9).all(|n| comes(n, 10, true) == 6_400));
        assert_eq!((comes(0, 60, true), comes(1, 60, true)), (0, 1));
        // Three of the five have expired: three others replace them, and no more.
        let others: Vec<u32> = (20..25).map(|n| comes(n, 110, true)).collect();
        assert_eq!(others.iter().filter(|place| **place < 5).count(), 3);
        assert_eq!(others.iter().filter(|place| **place == 6_400).count(), 2);
        // Memory is sufficient again.
        assert_eq!((comes(30, 120, false), comes(31, 120, false)), (5, 6));
    }

    #[test]
    fn shared_places_depend_on_the_seed() {
        let shared = |seed| {
            let mut set = set(640, seed);
            (0..640).for_each(|n| {
                set.comes(&id(n), Time(0), false, |_| false);
            });
            let places: Vec<u32> =
                (1000..2000).map(|n| set.comes(&id(n), Time(0), false, |_| false)).collect();
            assert_eq!(set.report(1).beyond, 1000);
            places
        };
        let (one, other) = (shared(1), shared(2));
        assert_eq!(one, shared(1));
        assert!(one.iter().all(|place| (640..650).contains(place)));
        // Ids that share a place under one seed are spread over all shared places under another.
        let together: Vec<u32> =
            one.iter().zip(&other).filter(|(place, _)| **place == 640).map(|(_, o)| *o).collect();
        assert!((50..150).contains(&together.len()), "{}", together.len());
        assert!((640..650).all(|place| together.contains(&place)));
    }
}
