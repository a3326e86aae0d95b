//! Flows ordered by their tags; of equal tags, the flow with the lowest number is first. A change
//! takes O(log N) time and allocates no memory.
//!
//! It is a tournament tree. Each flow has a place. Two neighbouring places are compared (a game),
//! and two winners play the next game. A change repeats the games from its place up, at most until
//! a game keeps a winner other than the changed flow. No branch inside a game depends on the
//! winner, whereas a heap causes a branch misprediction at each level; and the opponents on the
//! path are known beforehand. The depth depends on the places in use, not on the possible number
//! of flows. A new flow takes the place that was vacated last; if no vacated place is free, it
//! takes the lowest place that was never used. When all flows have left, the lowest place is used
//! first again. A single flow at the first place has no opponent.
//!
//! WF2Q+ has a [heap](crate::collections::quad_heap): its flows move between two heaps at each
//! packet, and nearly always the first flow is removed. A [calendar](crate::collections::calendar)
//! has a place for each possible flow, with a due time of 64 bits.

use crate::queues::queue::FlowId;
use crate::units::time::Time;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hint::select_unpredictable;

/// The ordering key of flows.
pub(crate) trait Tag: Ord + Copy {
    /// The largest tag: no tag comes after it.
    const LAST: Self;

    /// The tag itself, or `LAST` if it is larger.
    fn in_range(self) -> Self;

    /// Returns true if this tag comes before the other. For equal tags it returns `tie`.
    /// Implemented by an addition, without a branch and without overflow.
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

/// The place of a flow that is not in the tournament.
const OUT: u32 = u32::MAX;
/// Flag in `Seat::flow` for a free place. The other bits are the free place that was vacated before
/// this one.
const FREE: u32 = 1 << 31;
/// Value of these bits if no other free place was vacated before.
const END: u32 = FREE - 1;

/// The contents of a place: a flow with its tag, or the largest tag if the place is free. The
/// struct is packed without padding, so that more of them fit in a cache.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
struct Seat<K> {
    tag: K,
    flow: u32,
}

/// Flows, each with a tag of type `K`, ordered by tag.
#[derive(Debug, Clone)]
pub(crate) struct Tournament<K: Copy> {
    /// The contents of each place, and after the last one a place that is always free.
    seats: Vec<Seat<K>>,
    /// The place that won each game. Game `i` is between the winners of the games `2 i` and
    /// `2 i + 1`. From `2 i >= games` on, it is between two places. The last two entries are the
    /// places 0 and 1, as if each had won a game.
    winners: Vec<u32>,
    games: usize,
    /// The last game, whose winner is the first of all places in use; `games` if only the first
    /// place is in use.
    last: usize,
    /// The place of each flow, or `OUT`.
    places: Vec<u32>,
    number: u32,
    /// The free place that was vacated last. The next field is the lowest place that was never
    /// used.
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

    /// Makes room for this number of flows, if there is less room. The size at least doubles, so
    /// each added flow takes constant time on average.
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
            // The games on its path are not replayed: a free place as the winner does not affect
            // flows that enter later.
            self.seats[place as usize] = Seat { tag: K::LAST, flow: FREE };
            (self.left, self.unused, self.last) = (END, 0, self.games);
            return;
        }
        self.play(place, Seat { tag: K::LAST, flow: self.left | FREE });
        self.left = place;
        // If only one side of the last game is still in use, the game is left out.
        while self.last < self.games
            && self.seats[self.winners[2 * self.last + 1] as usize].flow >= FREE
        {
            self.last *= 2;
        }
    }

    /// Returns a free place, which from now on takes part in the games.
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

    /// Sets the contents of a place, and repeats its games.
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
                // The winner is the same other place as before, so the later games do not change.
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

    /// Compares with an ordered set after random changes; phases with few flows and with many flows
    /// alternate.
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
