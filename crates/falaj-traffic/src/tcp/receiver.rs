//! The receiver of a connection: the segments that have arrived, and their acknowledgements.

use std::collections::BTreeSet;

/// An acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ack {
    /// Numbers of the acknowledged transmissions, which are those that arrived since the last
    /// acknowledgement.
    pub numbers: [Option<u64>; 2],
    /// Cumulative acknowledgement: all segments before this one have arrived.
    pub upto: u64,
    /// True if one of these transmissions was marked.
    pub marked: bool,
}

/// The state of a receiver.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    delayed: bool,
    /// Cumulative: all segments before this one have arrived.
    upto: u64,
    /// Segments beyond a gap.
    beyond: BTreeSet<u64>,
    /// A transmission whose acknowledgement is delayed.
    waits: Option<u64>,
    /// Number of acknowledgements sent.
    acks: u64,
}

impl Receiver {
    /// Creates a receiver that acknowledges each segment or, if `delayed` is true, every second
    /// one.
    pub fn new(delayed: bool) -> Receiver {
        Receiver { delayed, ..Receiver::default() }
    }

    /// Returns the cumulative acknowledgement: all segments before this one have arrived.
    pub fn upto(&self) -> u64 {
        self.upto
    }

    /// Handles the arrival of a segment, sent as the transmission with this number. Returns true if
    /// the segment is new, and the acknowledgement to send at once, if there is one.
    pub fn arrives(&mut self, number: u64, segment: u64, marked: bool) -> (bool, Option<Ack>) {
        let is_new = segment >= self.upto && self.beyond.insert(segment);
        let in_order = segment == self.upto && self.beyond.len() == 1;
        while self.beyond.first() == Some(&self.upto) {
            self.beyond.pop_first();
            self.upto += 1;
        }
        // A segment beyond a gap, a segment that fills a gap, and a marked segment are acknowledged
        // at once.
        if self.delayed && in_order && !marked && self.waits.is_none() {
            self.waits = Some(number);
            return (is_new, None);
        }
        self.acks += 1;
        (is_new, Some(Ack { numbers: [self.waits.take(), Some(number)], upto: self.upto, marked }))
    }

    /// The number of acknowledgements sent, which identifies a delayed acknowledgement.
    pub fn acks(&self) -> u64 {
        self.acks
    }

    /// Returns the delayed acknowledgement, if no other was sent since the count was `acks`.
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
        // Segment 2 is missing; then it arrives, and then it arrives once more.
        let gap = Ack { numbers: [None, Some(3)], upto: 2, marked: false };
        assert_eq!(receiver.arrives(3, 3, false), (true, Some(gap)));
        assert_eq!(receiver.arrives(4, 2, false).1.unwrap().upto, 4);
        assert!(!receiver.arrives(5, 2, false).0);
        // A marked segment, then a segment whose acknowledgement is delayed until its timeout.
        assert!(receiver.arrives(6, 4, true).1.unwrap().marked);
        let acks = receiver.acks();
        assert_eq!(receiver.arrives(7, 5, false), (true, None));
        assert_eq!(receiver.waited(acks - 1), None);
        assert_eq!(receiver.waited(acks).unwrap().upto, 6);
        assert_eq!(receiver.waited(acks), None);
    }
}
