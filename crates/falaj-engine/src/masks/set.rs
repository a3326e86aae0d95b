//! Ids and their places: who has one of his own, who shares one, who goes.
//!
//! Places are handed out; there are as many from the beginning on as there will
//! ever be, so that to make one costs the same however many there are, and what
//! flows are promised does not change when another one comes.
//!
//! All that happens here happens at arrivals, which are the same however often
//! the machine is polled; in between nothing is looked at, and idle ids cost nothing.

use super::blocks::Blocks;
use super::lookup::PlaceLookup;
use super::mask::{Each, MaskId};
use super::stats::SojournStats;
use crate::chance::Chance;
use falaj_sched::units::time::Time;
use siphasher::sip::SipHasher13;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

/// So many that are over are looked at when a packet comes: no packet pays for all of them.
const STEPS: usize = 4;
/// So many of those that went are remembered one by one.
const LAST: usize = 16;

/// A hash that nobody can aim at who does not know the keys.
#[derive(Clone)]
struct Keyed([u64; 2]);

impl Keyed {
    #[inline]
    fn of(&self, id: &MaskId) -> u64 {
        SipHasher13::new_with_keys(self.0[0], self.0[1]).hash(id.bytes())
    }
}

/// The id at a place, and when its last packet came; [`Time::NEVER`] where the place is free. A
/// cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Owner {
    id: MaskId,
    last: Time,
}

/// The ids of one mask.
pub(crate) struct IdTable {
    each: Each,
    keys: Keyed,
    /// The places that are taken, by the hash of their ids: four bytes each, so that the place of
    /// an id is known from what a near cache has. Whether it is that id's is seen later, when
    /// the queue is on its way from memory already.
    taken: PlaceLookup,
    /// By place.
    owners: Blocks<Owner>,
    stats: Blocks<SojournStats>,
    /// The sum over all ids so far, and that over ids that share.
    total: SojournStats,
    of_shared: SojournStats,
    /// Places below this were handed out once.
    used: u32,
    /// Those that were given back.
    free: Vec<u32>,
    /// When a place is to be looked at: one entry for each that is taken.
    checks: BinaryHeap<Reverse<(Time, u32)>>,
    made: u64,
    gone: u64,
    of_gone: SojournStats,
    last_gone: VecDeque<(MaskId, SojournStats)>,
    /// Packets of ids that have none of their own, and the number of places that these share.
    beyond: u64,
    shared: u32,
    /// While memory is short: the number of ids that there were when it became so, which is as many
    /// as may be.
    most_for_now: Option<usize>,
}

impl IdTable {
    pub(crate) fn new(each: Each, seed: u64, pipe: u32, flow: u32) -> IdTable {
        /// Keeps the keys apart from other elements' draws.
        const MASKS: u64 = 0x6d61_736b;
        /// Entries that are quickly copied.
        const FEW: u32 = 8_192;
        let chance = Chance::new(seed, MASKS, u64::from(pipe) << 32 | u64::from(flow));
        let keys = Keyed([chance.draw(0), chance.draw(1)]);
        // A vector that grows is copied: where there may be many ids, it has room for all at once.
        // Memory that is not used takes none of the machine's.
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

    /// The place where a packet of this id would wait behind others; `None`: one of its own, and
    /// nobody is there.
    pub(crate) fn find(&self, id: &MaskId) -> Option<u32> {
        let own = self.own(id, self.keys.of(id));
        own.or_else(|| (self.beyond > 0 || !self.has_free()).then(|| self.shared_by(id)))
    }

    /// The place that is this id's alone.
    #[inline]
    fn own(&self, id: &MaskId, hash: u64) -> Option<u32> {
        self.taken.find(hash, |place| self.owners[place as usize].id == *id)
    }

    fn takes(&mut self, place: u32, hash: u64) {
        let IdTable { taken, owners, keys, .. } = self;
        taken.insert(hash, place, |place| keys.of(&owners[place as usize].id));
    }

    /// Goes on with what another has made: with its ids, as many as there may be, where the mask is
    /// the same; else with what it has counted. The hash's keys stay, so that ids share with
    /// those that they shared with.
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
        // Where ids become fewer, those who shared go on together.
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
                // Whoever waits for less than before is looked at sooner.
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

    /// The mask, and an id of it in words; of those that share, that they do.
    pub(crate) fn words(&self, place: u32) -> String {
        match self.owners.get(place as usize) {
            Some(owner) if place < self.each.most => self.each.mask.words(&owner.id),
            _ => "shared".to_owned(),
        }
    }

    /// Was there an id that had to share?
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

    /// The place of this id, of which a packet comes. While memory is `short` there are no more ids
    /// than before; one that goes makes room for another. `goes` is asked whether a place that was
    /// not used for long may be another's, and if so it is.
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

    /// Memory has become short, or is not any more.
    #[cold]
    fn memory_is(&mut self, short: bool) {
        /// Those that are shared are made now, and take less than half a hundredth of the others.
        const FOR_EACH_SHARED: usize = 256;
        let ids = self.checks.len();
        self.most_for_now = short.then_some(ids);
        // An id that has shared one before stays there, or its packets would be overtaken.
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
        // Packets of its may wait where it had to share: it goes on there until nobody waits, or
        // they would be overtaken.
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
                // It owes something still: once more after as long.
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

    /// Counts something of the id at a place.
    #[inline]
    pub(crate) fn count(&mut self, place: u32, something: impl Fn(&mut SojournStats)) {
        let slot = self.each.slot(place);
        something(&mut self.stats[slot]);
        something(&mut self.total);
        if place >= self.each.most {
            something(&mut self.of_shared);
        }
    }

    /// The places that were handed out once, and those that are shared.
    pub(crate) fn known(&self) -> impl Iterator<Item = u32> + use<> {
        let (own, shared) = self.known_ranges();
        own.chain(shared)
    }

    /// The same, as what is ids' own and what is shared.
    pub(crate) fn known_ranges(&self) -> (Range<u32>, Range<u32>) {
        (0..self.used, self.each.most..self.each.places())
    }

    /// What is known of all ids.
    pub(crate) fn report(&self, busiest: usize) -> MaskStats {
        let mut all = None;
        let done = self.report_part(busiest, 0, usize::MAX, &mut all);
        debug_assert!(done.is_none(), "all of it is a part");
        all.unwrap_or_else(|| self.sums())
    }

    /// The report without single ids. Its cost does not depend on the number of ids.
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
    /// among the next `steps` places and those that `all` has. Returns where the next part begins,
    /// if there is one.
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
            let is_behind = |(_, other): &(String, SojournStats)| other.bytes >= stats.bytes;
            let rank = all.busiest.partition_point(is_behind);
            if *last != Time::NEVER && rank < busiest {
                all.busiest.truncate(busiest - 1);
                all.busiest.insert(rank, (self.each.mask.words(id), *stats));
            }
        }
        (to < self.used).then_some(to)
    }
}

/// What is known of the ids of a mask. An id that is over counts as active until a
/// packet of any id shows that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskStats {
    /// The mask, as a scenario has it.
    pub mask: String,
    /// So many may have one of their own.
    pub most: u32,
    /// So many have.
    pub active: u64,
    /// So many were made.
    pub made: u64,
    /// So many of them went.
    pub gone: u64,
    /// Packets of ids for which there was none.
    pub beyond: u64,
    /// How many such ids share.
    pub shared: u32,
    /// Of all packets.
    pub total: SojournStats,
    /// Of those of ids that went.
    pub of_gone: SojournStats,
    /// Of those of ids that share.
    pub of_shared: SojournStats,
    /// The ids with most bytes, those first.
    pub busiest: Vec<(String, SojournStats)>,
    /// The ids that went last, the very last first.
    pub last_gone: Vec<(String, SojournStats)>,
}

impl MaskStats {
    /// Adds what the same mask made in another link, whose ids are known by its own `name` before
    /// theirs; so many of the busiest stay.
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

    /// The same without counters, for single ids to be added.
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

    /// The same when the link is gone in which these were.
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
        let mask = Mask { sport: Some(16), dport: Some(16), ..Mask::default() };
        mask.id(&Key { ports: Some((n, 7)), ..Key::default() })
    }

    fn set(most: u32, seed: u64) -> IdTable {
        let mask = Mask { sport: Some(16), dport: Some(16), ..Mask::default() };
        IdTable::new(Each { mask, most, expire: Span(100) }, seed, 0, 0)
    }

    #[test]
    fn ids_go_when_they_are_over_and_owe_nothing() {
        let mut set = set(3, 1);
        let never = |_| -> bool { panic!("nobody is over") };
        assert_eq!([1, 2, 1].map(|n| set.comes(&id(n), Time(10), false, never)), [0, 1, 0]);
        set.count(1, |stats| stats.sent(700, Span(5)));
        assert_eq!(set.comes(&id(1), Time(60), false, never), 0);
        // The first is not over, the second owes something and stays.
        assert_eq!(
            set.comes(&id(3), Time(120), false, |place| {
                assert_eq!(place, 1);
                false
            }),
            2
        );
        assert_eq!(set.find(&id(2)), Some(1));
        assert_eq!(set.find(&id(9)), Some(3), "it would share");
        // The others go one by one, oldest first; a place is another's then.
        assert_eq!(set.comes(&id(4), Time(230), false, |_| true), 2, "the last one that went");
        let report = set.report(5);
        assert_eq!((report.active, report.made, report.gone, report.beyond), (1, 4, 3, 0));
        assert_eq!((report.total.bytes, report.of_gone.packets()), (700, 1));
        assert_eq!(
            report.last_gone.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().concat().len(),
            3 * "sport 1 dport 7".len()
        );
    }

    /// A part takes as many steps as it may, however many ids there are; all parts are the whole.
    #[test]
    fn what_is_known_of_many_ids_is_told_in_parts() {
        let mask = Mask { sport: Some(16), dport: Some(16), ..Mask::default() };
        let mut set = IdTable::new(Each { mask, most: 1_500, expire: Span(2_000) }, 1, 0, 0);
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
        // Others share one place, those that are there keep theirs.
        assert!((5..9).all(|n| comes(n, 10, true) == 6_400));
        assert_eq!((comes(0, 60, true), comes(1, 60, true)), (0, 1));
        // Three of the five are over: as many others come, and no more.
        let others: Vec<u32> = (20..25).map(|n| comes(n, 110, true)).collect();
        assert_eq!(others.iter().filter(|place| **place < 5).count(), 3);
        assert_eq!(others.iter().filter(|place| **place == 6_400).count(), 2);
        // There is memory again.
        assert_eq!((comes(30, 120, false), comes(31, 120, false)), (5, 6));
    }

    #[test]
    fn nobody_knows_beforehand_which_ones_share() {
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
        // Ids that share under one seed are spread under another.
        let together: Vec<u32> =
            one.iter().zip(&other).filter(|(place, _)| **place == 640).map(|(_, o)| *o).collect();
        assert!((50..150).contains(&together.len()), "{}", together.len());
        assert!((640..650).all(|place| together.contains(&place)));
    }
}
