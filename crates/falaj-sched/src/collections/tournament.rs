//! Flows ordered by their tags. Equal tags: the lowest flow first. O(log N) for each change,
//! without allocation.
//!
//! It is a tournament tree: flows are at places, two places play a game, two winners the next one.
//! A change replays the games from its place up. No branch depends on the winner, while a heap
//! mispredicts one at each level; and the opponents on the path are known beforehand. The depth
//! follows the places in use, not the possible number of flows. New places are taken from the
//! lowest on until a flow leaves; then the place that was left last is taken. When all flows have
//! left, places start from the lowest again. A flow alone at the first place has no opponent.
//!
//! WF2Q+ has a [heap](crate::collections::quad_heap): its flows change sides at each packet, and
//! hardly any except the first is removed. A [calendar](crate::collections::calendar) has a place
//! for each flow, and holds 64 bits for it.

use crate::queues::queue::FlowId;
use crate::units::time::Time;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hint::select_unpredictable;

/// The ordering key of flows.
pub(crate) trait Tag: Ord + Copy {
    /// No tag comes after it.
    const LAST: Self;

    /// The tag itself, limited to the last one.
    fn in_range(self) -> Self;

    /// Returns true if this tag comes before the other; at equality, if `tie` is set. Implemented
    /// by an addition, without a branch and without overflow.
    fn is_before(self, other: Self, tie: bool) -> bool;
}

impl Tag for u64 {
    const LAST: u64 = u64::MAX - 1;

    #[inline(always)]
    fn in_range(self) -> u64 {
        self.min(u64::LAST)
    }

    #[inline(always)]
    fn is_before(self, other: u64, tie: bool) -> bool {
        self < other.wrapping_add(u64::from(tie))
    }
}

impl Tag for u128 {
    const LAST: u128 = u128::MAX - 1;

    #[inline(always)]
    fn in_range(self) -> u128 {
        self.min(u128::LAST)
    }

    #[inline(always)]
    fn is_before(self, other: u128, tie: bool) -> bool {
        self < other.wrapping_add(u128::from(tie))
    }
}

impl Tag for Time {
    const LAST: Time = Time(u64::LAST);

    #[inline(always)]
    fn in_range(self) -> Time {
        Time(self.0.in_range())
    }

    #[inline(always)]
    fn is_before(self, other: Time, tie: bool) -> bool {
        self.0.is_before(other.0, tie)
    }
}

impl Tag for Reverse<u64> {
    const LAST: Reverse<u64> = Reverse(0);

    #[inline(always)]
    fn in_range(self) -> Reverse<u64> {
        Reverse(self.0.in_range())
    }

    #[inline(always)]
    fn is_before(self, other: Reverse<u64>, tie: bool) -> bool {
        other.0.is_before(self.0, tie)
    }
}

impl<A: Tag, B: Tag> Tag for (A, B) {
    const LAST: (A, B) = (A::LAST, B::LAST);

    #[inline(always)]
    fn in_range(self) -> (A, B) {
        (self.0.in_range(), self.1.in_range())
    }

    #[inline(always)]
    fn is_before(self, other: (A, B), tie: bool) -> bool {
        self.0.is_before(other.0, self.1.is_before(other.1, tie))
    }
}

/// The place of a flow that has none.
const OUT: u32 = u32::MAX;
/// Flag of a free place; the rest is the place that was left before it.
const FREE: u32 = 1 << 31;
/// No earlier place was left.
const END: u32 = FREE - 1;

/// A flow with its tag, or a free place with the last tag. Packed without padding: with many flows
/// more of them fit in a cache.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
struct Seat<K> {
    tag: K,
    flow: u32,
}

/// Flows, each with a tag of type `K`, the smallest first.
#[derive(Debug, Clone)]
pub(crate) struct Tournament<K: Copy> {
    /// The occupant of each place, and after them a place that is always free.
    seats: Vec<Seat<K>>,
    /// The place that won each game. Game `i` is between the winners of `2 i` and `2 i + 1`, or
    /// between two places if that is `games` or more; places 0 and 1 are at the end, as if they had
    /// won a game before.
    winners: Vec<u32>,
    games: usize,
    /// The last game, between the places in use; `games` if only the first place is in use.
    last: usize,
    /// The place of each flow, or `OUT`.
    places: Vec<u32>,
    number: u32,
    /// The place that was left last, and the first place that was never taken.
    left: u32,
    unused: u32,
}

impl<K: Tag> Tournament<K> {
    /// An empty tournament with room for this number of flows.
    pub(crate) fn new(flows: usize) -> Tournament<K> {
        let games = flows.next_power_of_two();
        Tournament {
            seats: vec![Seat { tag: K::LAST, flow: FREE }; flows + 1],
            winners: [&vec![flows as u32; games][..], &[0, 1]].concat(),
            games,
            last: games,
            places: vec![OUT; flows],
            number: 0,
            left: END,
            unused: 0,
        }
    }

    /// Makes room for this number of flows, if that is more. The size doubles, so adding flows one
    /// by one takes constant time each on average.
    pub(crate) fn grow(&mut self, flows: usize) {
        if flows <= self.places.len() {
            return;
        }
        let mut more = Tournament::new(flows.max(2 * self.places.len()));
        for f in (0..self.places.len() as u32).map(FlowId) {
            if let Some(tag) = self.tag(f) {
                more.set(f, tag);
            }
        }
        *self = more;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.number == 0
    }

    /// The winner of the last game.
    #[inline]
    fn winner(&self) -> u32 {
        self.winners[self.last]
    }

    /// The smallest tag and its flow.
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, FlowId)> {
        let Seat { tag, flow } = self.seats[self.winner() as usize];
        (flow < FREE).then_some((tag, FlowId(flow)))
    }

    /// Returns true if several flows have the smallest tag.
    pub(crate) fn is_tied(&self) -> bool {
        let Some((tag, _)) = self.first() else { return false };
        let place = self.winner() as usize;
        let (mut rival, mut game) = (place ^ 1, self.games / 2 + place / 2);
        while game >= self.last {
            let other = self.seats[rival];
            if other.flow < FREE && { other.tag } == tag {
                return true;
            }
            rival = self.winners[game ^ 1] as usize;
            game /= 2;
        }
        false
    }

    /// The tag of `f`, if it is present.
    #[inline]
    pub(crate) fn tag(&self, f: FlowId) -> Option<K> {
        match self.places[f.index()] {
            OUT => None,
            place => Some(self.seats[place as usize].tag),
        }
    }

    /// Sets the tag of `f`, and inserts `f` if it is absent.
    #[inline]
    pub(crate) fn set(&mut self, f: FlowId, tag: K) {
        let mut place = self.places[f.index()];
        if place == OUT {
            place = self.enter();
            self.places[f.index()] = place;
        }
        self.play(place, Seat { tag: tag.in_range(), flow: f.0 });
    }

    /// Removes `f`, if it is present.
    #[inline]
    pub(crate) fn remove(&mut self, f: FlowId) {
        let place = core::mem::replace(&mut self.places[f.index()], OUT);
        if place == OUT {
            return;
        }
        self.number -= 1;
        if self.number == 0 {
            // Games that a free place has won need no update: they do not affect later flows.
            self.seats[place as usize] = Seat { tag: K::LAST, flow: FREE };
            (self.left, self.unused, self.last) = (END, 0, self.games);
            return;
        }
        self.play(place, Seat { tag: K::LAST, flow: self.left | FREE });
        self.left = place;
        // A last game with only one side in use is dropped.
        while self.last < self.games
            && self.seats[self.winners[2 * self.last + 1] as usize].flow >= FREE
        {
            self.last *= 2;
        }
    }

    /// Takes a free place, and includes it in the tournament.
    #[inline]
    fn enter(&mut self) -> u32 {
        let mut place = self.left;
        if place < END {
            self.left = self.seats[place as usize].flow & !FREE;
        } else {
            place = self.unused;
            self.unused += 1;
        }
        self.number += 1;
        while place as usize >= self.games / self.last {
            let winner = self.winner();
            self.last /= 2;
            self.winners[self.last] = winner;
        }
        place
    }

    /// Replays the games of a place whose occupant or tag has changed.
    #[inline]
    fn play(&mut self, place: u32, seat: Seat<K>) {
        let was_first = self.winner() == place;
        self.seats[place as usize] = seat;
        let (mut winner, mut best) = (place, seat);
        let (mut rival, mut game) = (place ^ 1, self.games / 2 + place as usize / 2);
        while game >= self.last {
            let other = self.seats[rival as usize];
            let wins = { other.tag }.is_before(best.tag, other.flow < best.flow);
            winner = select_unpredictable(wins, rival, winner);
            best.tag = select_unpredictable(wins, other.tag, best.tag);
            best.flow = select_unpredictable(wins, other.flow, best.flow);
            let before = core::mem::replace(&mut self.winners[game], winner);
            if !was_first && before == winner && winner != place {
                // The winner is another place, as before, so its later games do not change.
                break;
            }
            rival = self.winners[game ^ 1];
            game /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Compared with an ordered set, through random changes: few flows and many in turn.
    #[test]
    fn the_first_is_the_smallest_tag_of_the_lowest_flow() {
        for flows in [1, 2, 5, 20, 33] {
            let mut order = Tournament::new(flows.min(3));
            order.grow(flows);
            let (mut set, mut tags) = (BTreeSet::new(), vec![None; flows]);
            let mut dice = 1u64;
            let mut roll = |n: u64| {
                dice = dice
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (dice >> 33) % n
            };
            let mut deepest = 0;
            for step in 0..50_000 {
                let f = roll(flows as u64) as usize;
                let (stay, of) = if step / 500 % 2 == 0 { (1, 8) } else { (2, 3) };
                let given = (roll(of) < stay)
                    .then(|| if roll(40) == 0 { u64::MAX - roll(2) } else { roll(15) });
                let tag = given.map(Tag::in_range);
                if let Some(old) = core::mem::replace(&mut tags[f], tag) {
                    set.remove(&(old, f as u32));
                }
                match tag {
                    Some(tag) => {
                        set.insert((tag, f as u32));
                        order.set(FlowId(f as u32), given.unwrap_or(tag));
                    }
                    None => order.remove(FlowId(f as u32)),
                }
                let first = set.first().map(|&(tag, f)| (tag, FlowId(f)));
                assert_eq!(order.first(), first, "{flows} flows, step {step}");
                let alike =
                    set.iter().filter(|(tag, _)| Some(*tag) == first.map(|first| first.0)).count();
                assert_eq!(order.is_tied(), alike > 1, "{flows} flows, step {step}");
                assert_eq!((order.tag(FlowId(f as u32)), order.is_empty()), (tag, set.is_empty()));
                deepest = deepest.max(order.games / order.last);
                if set.is_empty() {
                    assert_eq!(order.games / order.last, 1, "nobody plays");
                }
            }
            assert!(deepest >= flows.min(16), "{deepest} places for {flows} flows");
        }
    }

    #[test]
    fn a_single_entry_plays_no_match() {
        let mut order = Tournament::new(1_000);
        for f in (0..1_000).map(FlowId) {
            order.set(f, 5u64);
            assert_eq!((order.first(), order.last), (Some((5, f)), order.games));
            order.remove(f);
        }
        let more = 3 * order.places.len();
        order.set(FlowId(7), 9);
        order.grow(more);
        order.set(FlowId(2_999), 9);
        assert_eq!(
            (order.first(), order.is_tied(), order.games / order.last),
            (Some((9, FlowId(7))), true, 2)
        );
    }
}
