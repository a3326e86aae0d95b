//! The sending end: what is under way, what of it is lost, and when to give up waiting.
//!
//! Each transmission has a number of its own, retransmissions too, and acknowledgements name
//! numbers: so a round trip is never mistaken, and a retransmission that is lost is known like any
//! other (as RFC 9002 counts packets).

use super::receiver::Ack;
use super::round_trip::RoundTrip;
use super::{Acked, Control};
use falaj_sched::units::time::{Span, Time};
use std::collections::{BTreeSet, VecDeque};

/// A transmission is lost if one so many after it has arrived.
const REORDERED: u64 = 3;

/// What has become of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SenderState {
    InFlight,
    Arrived,
    Lost,
}

/// A transmission.
#[derive(Clone, Copy, Debug)]
struct Sent {
    segment: u64,
    at: Time,
    state: SenderState,
    /// So many had arrived when it was sent, the last of them then, and that one was sent then.
    arrived: u64,
    arrived_at: Time,
    sent_at: Time,
}

/// What acknowledgements have said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// A round trip was measured.
    pub round_trip: Option<Span>,
    /// The window was reduced.
    pub reduced: bool,
}

/// What is to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Its number.
    pub number: u64,
    /// The segment, from zero on.
    pub segment: u64,
    /// It was sent before.
    pub again: bool,
}

/// The sender of one transfer.
#[derive(Clone, Debug)]
pub struct Sender {
    control: Control,
    trip: RoundTrip,
    /// So many may be under way, whatever the control says.
    most: u32,
    /// There are so many segments.
    segments: u64,
    /// The first that was never sent.
    next: u64,
    /// Transmissions from this number on, until the last one.
    first: u64,
    sent: VecDeque<Sent>,
    in_flight: u32,
    /// To be sent again.
    lost: BTreeSet<u64>,
    /// The highest number that has arrived.
    highest: Option<u64>,
    /// Those before it were sent before the window was last reduced.
    reduced_at: u64,
    /// And those before it before that was by a loss.
    lost_at: u64,
    arrived: u64,
    arrived_at: Time,
    sent_at: Time,
    /// The round lasts until something arrives that was sent when so many had.
    round: u64,
    /// When what is under way is taken for lost.
    gives_up: Time,
    /// Nothing before this, where it is sent evenly.
    paced: Time,
}

impl Sender {
    /// So many segments, of which `most` are under way at once.
    pub(crate) fn new(control: Control, segments: u64, most: u32) -> Sender {
        Sender {
            control,
            trip: RoundTrip::default(),
            most: most.max(1),
            segments,
            next: 0,
            first: 0,
            sent: VecDeque::new(),
            in_flight: 0,
            lost: BTreeSet::new(),
            highest: None,
            reduced_at: 0,
            lost_at: 0,
            arrived: 0,
            arrived_at: Time::ZERO,
            sent_at: Time::ZERO,
            round: 0,
            gives_up: Time::NEVER,
            paced: Time::ZERO,
        }
    }

    /// The round trip divided by what is under way in it.
    pub fn share(&self) -> Option<Span> {
        Some(Span(self.trip.smoothed()?.0 / u64::from(self.in_flight.max(1))))
    }

    /// No more new segments than have been sent.
    pub fn stop(&mut self) {
        self.segments = self.next;
    }

    fn window(&self) -> f64 {
        self.control.window().min(self.most.into())
    }

    /// When the next transmission may go; `None`: not before something arrives, or is taken for
    /// lost.
    pub fn ready(&self) -> Option<Time> {
        let something = !self.lost.is_empty() || self.next < self.segments;
        (something && f64::from(self.in_flight) + 1.0 <= self.window().max(1.0))
            .then_some(self.paced)
    }

    /// When it is no longer waited for what is under way.
    pub fn gives_up(&self) -> Time {
        self.gives_up
    }

    /// The next transmission; [`Sender::ready`] says when there is one.
    pub fn send(&mut self, now: Time) -> Option<Transmission> {
        if self.ready().is_none_or(|at| at > now) {
            return None;
        }
        let again = self.lost.pop_first();
        let segment = again.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        if self.in_flight == 0 {
            (self.arrived_at, self.sent_at) = (now, now);
        }
        let Sender { arrived, arrived_at, sent_at, .. } = *self;
        self.sent.push_back(Sent {
            segment,
            at: now,
            state: SenderState::InFlight,
            arrived,
            arrived_at,
            sent_at,
        });
        self.in_flight += 1;
        if self.gives_up == Time::NEVER {
            self.gives_up = now + self.trip.timeout();
        }
        if let Some(pace) = self.control.pace() {
            self.paced = self.paced.max(now) + Span((1e9 / pace) as u64);
        }
        Some(Transmission {
            number: self.first + self.sent.len() as u64 - 1,
            segment,
            again: again.is_some(),
        })
    }

    /// An acknowledgement has come.
    pub fn acked(&mut self, now: Time, ack: &Ack) -> Heard {
        let (before, window) = (self.in_flight, self.window());
        let mut last: Option<(u64, Sent)> = None;
        let mut segments = 0;
        for number in ack.numbers.into_iter().flatten() {
            let place = number.checked_sub(self.first).and_then(|n| self.sent.get_mut(n as usize));
            // What is not there any more was known to be lost.
            let Some(sent) = place.filter(|sent| sent.state != SenderState::Arrived) else {
                continue;
            };
            match sent.state {
                SenderState::InFlight => self.in_flight -= 1,
                // It was late, and need not be sent again if it was not yet.
                _ => _ = self.lost.remove(&sent.segment),
            }
            sent.state = SenderState::Arrived;
            segments += 1;
            if last.is_none_or(|(highest, _)| number > highest) {
                last = Some((number, *sent));
            }
        }
        while self.lost.first().is_some_and(|segment| *segment < ack.upto) {
            self.lost.pop_first();
        }
        let Some((number, sent)) = last else { return Heard::default() };
        self.arrived += u64::from(segments);
        self.highest = self.highest.max(Some(number));
        let round_trip = now - sent.at;
        self.trip.measured(round_trip);
        let mut reduced = self.lose();
        if ack.marked && number >= self.reduced_at {
            self.reduced_at = self.first + self.sent.len() as u64;
            self.control.marked();
            reduced = true;
        }
        let took = (now - sent.arrived_at).max(sent.at - sent.sent_at);
        let rate =
            (took > Span::ZERO).then(|| (self.arrived - sent.arrived) as f64 / took.as_secs_f64());
        let round = sent.arrived >= self.round;
        if round {
            self.round = self.arrived;
        }
        (self.arrived_at, self.sent_at) = (now, sent.at);
        self.control.acked(&Acked {
            now,
            segments,
            // Who is marked is acknowledged at once, and the one that waited was not.
            marked: u32::from(ack.marked),
            round_trip,
            in_flight: self.in_flight,
            limited: f64::from(before) + 1.0 >= window,
            recovering: reduced || number < self.reduced_at,
            repairing: number < self.lost_at,
            rate,
            round,
        });
        self.gives_up = if self.in_flight > 0 { now + self.trip.timeout() } else { Time::NEVER };
        Heard { round_trip: Some(round_trip), reduced }
    }

    /// What is lost as later ones have arrived. Is the window reduced?
    fn lose(&mut self) -> bool {
        let mut reduced = false;
        let lost_before = self.highest.map_or(0, |highest| (highest + 1).saturating_sub(REORDERED));
        while let Some(sent) = self.sent.front().copied() {
            if sent.state == SenderState::InFlight {
                if self.first >= lost_before {
                    break;
                }
                self.in_flight -= 1;
                self.lost.insert(sent.segment);
                if self.first >= self.reduced_at {
                    self.reduced_at = self.first + self.sent.len() as u64;
                    self.lost_at = self.reduced_at;
                    self.control.congested();
                    reduced = true;
                }
            } else if self.first >= lost_before && sent.state == SenderState::Lost {
                break;
            }
            self.sent.pop_front();
            self.first += 1;
        }
        reduced
    }

    /// It was waited in vain: all that is under way is taken for lost.
    pub fn timed_out(&mut self) {
        let first = self.trip.timed_out();
        for sent in self.sent.iter_mut().filter(|sent| sent.state == SenderState::InFlight) {
            sent.state = SenderState::Lost;
            self.lost.insert(sent.segment);
        }
        self.in_flight = 0;
        self.reduced_at = self.first + self.sent.len() as u64;
        self.lost_at = self.reduced_at;
        self.control.timed_out(first);
        self.gives_up = Time::NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Congestion;
    use super::*;

    fn sender(window: u32, segments: u64) -> Sender {
        Sender::new(Control::new(Congestion::Reno, window, 0), segments, 1_000)
    }

    fn ack(number: u64, upto: u64) -> Ack {
        Ack { numbers: [Some(number), None], upto, marked: false }
    }

    fn all(sender: &mut Sender, now: Time) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| sender.send(now)).map(|t| (t.number, t.segment)).collect()
    }

    /// Of eight the second is lost: the fifth to arrive beyond it says so, and it is sent again
    /// once half has arrived.
    #[test]
    fn three_beyond_a_gap_say_that_it_is_lost() {
        let mut sender = sender(8, 100);
        let ms = |n: u64| Time(n * 1_000_000);
        assert_eq!(all(&mut sender, ms(0)).len(), 8);
        assert!(!sender.acked(ms(10), &ack(0, 1)).reduced);
        assert_eq!(all(&mut sender, ms(10)), [(8, 8), (9, 9)]);
        for number in [2, 3] {
            assert!(!sender.acked(ms(11), &ack(number, 1)).reduced, "{number}");
            all(&mut sender, ms(11));
        }
        // The window was 11 by then, and 11 are under way; it is 5.5 from here on.
        assert!(sender.acked(ms(12), &ack(4, 1)).reduced);
        assert_eq!(all(&mut sender, ms(12)), []);
        let mut again = Vec::new();
        for number in 5..12 {
            assert!(
                !sender.acked(ms(13), &ack(number, 1)).reduced,
                "once for all that were under way"
            );
            again.extend(all(&mut sender, ms(13)));
        }
        assert_eq!(again[0].1, 1, "{again:?}");
    }

    #[test]
    fn what_comes_late_is_not_sent_again() {
        let mut sender = sender(4, 5);
        all(&mut sender, Time::ZERO);
        sender.timed_out();
        assert_eq!(sender.gives_up(), Time::NEVER);
        // All four were taken for lost; the first is sent again, and then all of them were there.
        assert_eq!(all(&mut sender, Time(1)), [(4, 0)]);
        sender.acked(Time(2), &ack(0, 1));
        sender.acked(Time(2), &ack(3, 4));
        // The one that was sent again is under way still.
        assert_eq!(all(&mut sender, Time(2)), []);
        sender.acked(Time(3), &ack(4, 4));
        assert_eq!(all(&mut sender, Time(2)), [(5, 4)]);
    }

    #[test]
    fn a_mark_reduces_once_for_all_that_was_under_way() {
        let mut sender = sender(4, 100);
        all(&mut sender, Time::ZERO);
        let marked = |number| Ack { marked: true, ..ack(number, number + 1) };
        assert!(sender.acked(Time(5), &marked(0)).reduced);
        assert!(!sender.acked(Time(5), &marked(1)).reduced);
        assert_eq!(sender.control.window(), 2.0);
    }

    #[test]
    fn no_more_is_under_way_than_the_receiver_takes() {
        let mut sender = Sender::new(Control::new(Congestion::Cubic, 50, 0), 100, 7);
        assert_eq!(all(&mut sender, Time::ZERO).len(), 7);
    }
}
