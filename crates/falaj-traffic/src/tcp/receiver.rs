//! The receiving end: what has arrived, and when that is acknowledged.

use std::collections::BTreeSet;

/// What comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ack {
    /// The transmissions that it tells of: those that have arrived since the last one.
    pub numbers: [Option<u64>; 2],
    /// All segments before this one have arrived.
    pub upto: u64,
    /// One of them was marked.
    pub marked: bool,
}

/// What has arrived.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    delayed: bool,
    /// All segments before.
    upto: u64,
    /// Beyond a gap.
    beyond: BTreeSet<u64>,
    /// A transmission that was not acknowledged yet.
    waits: Option<u64>,
    /// How many acknowledgements there were.
    acks: u64,
}

impl Receiver {
    /// Acknowledges each, or every second one.
    pub fn new(delayed: bool) -> Receiver {
        Receiver { delayed, ..Receiver::default() }
    }

    /// All segments before this one have arrived.
    pub fn upto(&self) -> u64 {
        self.upto
    }

    /// A segment arrives, as the transmission of this number. Is it new, and what is acknowledged
    /// at once?
    pub fn arrives(&mut self, number: u64, segment: u64, marked: bool) -> (bool, Option<Ack>) {
        let is_new = segment >= self.upto && self.beyond.insert(segment);
        let in_order = segment == self.upto && self.beyond.len() == 1;
        while self.beyond.first() == Some(&self.upto) {
            self.beyond.pop_first();
            self.upto += 1;
        }
        // Where there is a gap, or was one until now, the sender is to know at once; marks too.
        if self.delayed && in_order && !marked && self.waits.is_none() {
            self.waits = Some(number);
            return (is_new, None);
        }
        self.acks += 1;
        (is_new, Some(Ack { numbers: [self.waits.take(), Some(number)], upto: self.upto, marked }))
    }

    /// So many acknowledgements there were: one that waits is known by that.
    pub fn acks(&self) -> u64 {
        self.acks
    }

    /// What has waited for long enough since there were so many acknowledgements, if it still does.
    pub fn waited(&mut self, acks: u64) -> Option<Ack> {
        let number = self.waits.take_if(|_| acks == self.acks)?;
        self.acks += 1;
        Some(Ack { numbers: [Some(number), None], upto: self.upto, marked: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_segment_and_gaps_at_once() {
        let mut receiver = Receiver::new(true);
        assert_eq!(receiver.arrives(0, 0, false), (true, None));
        let both = Ack { numbers: [Some(0), Some(1)], upto: 2, marked: false };
        assert_eq!(receiver.arrives(1, 1, false), (true, Some(both)));
        // Segment 2 is missing; then it is there, and once more.
        let gap = Ack { numbers: [None, Some(3)], upto: 2, marked: false };
        assert_eq!(receiver.arrives(3, 3, false), (true, Some(gap)));
        assert_eq!(receiver.arrives(4, 2, false).1.unwrap().upto, 4);
        assert!(!receiver.arrives(5, 2, false).0);
        // A mark, and one that waits until its time is over.
        assert!(receiver.arrives(6, 4, true).1.unwrap().marked);
        let acks = receiver.acks();
        assert_eq!(receiver.arrives(7, 5, false), (true, None));
        assert_eq!(receiver.waited(acks - 1), None);
        assert_eq!(receiver.waited(acks).unwrap().upto, 6);
        assert_eq!(receiver.waited(acks), None);
    }
}
