//! The sender: segments in flight, loss detection, and timers.
//!
//! Each transmission has its own number, including each retransmission, and acknowledgements
//! contain these numbers. So a round trip time is never ambiguous, and the loss of a retransmission
//! is detected like any other loss (packet numbers as in RFC 9002).
//!
//! Losses are detected as in RACK-TLP (RFC 8985): by the arrival of a number that is higher by
//! three. The arrival of any higher number also shows a loss, once the transmission is older than
//! the last round trip time plus a quarter of the minimum round trip time. During recovery, the
//! arrival of any higher number shows the loss at once. Recovery lasts until every segment that was
//! in flight at its beginning has arrived (the recovery point of RFC 6675), and reduces the window
//! once. During recovery, transmissions are in proportion to arrivals (PRR, RFC 6937). If nothing
//! arrives for two round trips, a tail loss probe is sent.

use super::receiver::Ack;
use super::round_trip::RoundTrip;
use super::{Acked, Control};
use falaj_sched::units::time::{Span, Time};
use std::collections::{BTreeSet, VecDeque};

/// A transmission counts as lost if a transmission with a number higher by `REORDERED` has arrived.
const REORDERED: u64 = 3;

/// State of a transmission.
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
    /// State at its transmission: the number of segments that had arrived, the time of the last
    /// arrival, and the time at which that last segment had been sent.
    arrived: u64,
    arrived_at: Time,
    sent_at: Time,
}

/// The results of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckResult {
    /// The measured round trip time, if there is a measurement.
    pub round_trip: Option<Span>,
    /// True if the window was reduced.
    pub reduced: bool,
}

/// A segment to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The number of the transmission.
    pub number: u64,
    /// The segment, counted from zero.
    pub segment: u64,
    /// True for a retransmission.
    pub again: bool,
}

/// Proportional rate reduction (RFC 6937) with its slow start bound. In recovery the window
/// decreases to the threshold in proportion to arrivals. If losses have reduced the segments in
/// flight below the threshold, each arrival permits one segment, and a second one if the cumulative
/// acknowledgement advances.
#[derive(Clone, Copy, Debug, Default)]
struct RateReduction {
    /// The window before the loss, in segments.
    before: u32,
    /// Numbers of segments that arrived and that were sent since recovery began.
    arrived: u32,
    sent: u32,
    /// The present window in segments.
    window: u32,
}

impl RateReduction {
    fn new(before: u32) -> RateReduction {
        RateReduction { before: before.max(1), ..RateReduction::default() }
    }

    /// Handles arrived segments; `grows` is true if the cumulative acknowledgement advanced and no
    /// segment is to be sent again.
    fn arrived(&mut self, segments: u32, threshold: u32, in_flight: u32, grows: bool) {
        self.arrived += segments;
        let more = if in_flight > threshold {
            let share = u64::from(self.arrived) * u64::from(threshold);
            (share.div_ceil(self.before.into()) as u32).saturating_sub(self.sent)
        } else {
            let bound = self.arrived.saturating_sub(self.sent).max(segments) + u32::from(grows);
            bound.min(threshold - in_flight)
        };
        self.window = in_flight + more.max(u32::from(self.sent == 0));
    }
}

/// The sender of one transfer.
#[derive(Clone, Debug)]
pub struct Sender {
    control: Control,
    trip: RoundTrip,
    /// Maximum window in segments, whatever the congestion control permits.
    most: u32,
    /// Total number of segments of the transfer.
    segments: u64,
    /// The first segment that was not sent yet.
    next: u64,
    /// Number of the first transmission in `sent`, which also has all later transmissions.
    first: u64,
    sent: VecDeque<Sent>,
    in_flight: u32,
    /// Lost segments, which are to be sent again.
    lost: BTreeSet<u64>,
    /// Highest number of a transmission that has arrived.
    highest: Option<u64>,
    /// Transmissions before this number were sent before the window was last reduced.
    reduced_at: u64,
    arrived: u64,
    arrived_at: Time,
    sent_at: Time,
    /// Number of arrived segments at the beginning of the round trip. The round trip lasts until a
    /// segment arrives that was sent when this number had arrived.
    round: u64,
    /// The cumulative acknowledgement: all segments before this one have arrived.
    cumulative: u64,
    /// Recovery lasts until the cumulative acknowledgement reaches this segment.
    recovery_point: u64,
    /// True if recovery began with a timeout: the window grows during it.
    restarts: bool,
    /// Proportional rate reduction during recovery; BBR does not use it.
    reduction: RateReduction,
    /// True if the fast retransmission is due, which is sent whatever the window.
    retransmits: bool,
    /// Time after which a transmission that was overtaken by a later one counts as lost.
    reordering_window: Span,
    /// RACK's reordering timer: the time at which the first overtaken transmission counts as lost.
    reordering: Time,
    /// Time at which a tail loss probe is due.
    probe: Time,
    /// True if a probe is due now, which is sent whatever the window.
    probes: bool,
    /// Retransmission timer: the time at which all segments in flight count as lost.
    rto_deadline: Time,
    /// Earliest time of the next paced transmission.
    paced: Time,
}

impl Sender {
    /// Creates a sender of `segments` segments, with at most `most` segments in flight at once.
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
            arrived: 0,
            arrived_at: Time::ZERO,
            sent_at: Time::ZERO,
            round: 0,
            cumulative: 0,
            recovery_point: 0,
            restarts: false,
            reduction: RateReduction::default(),
            retransmits: false,
            reordering_window: Span::ZERO,
            reordering: Time::NEVER,
            probe: Time::NEVER,
            probes: false,
            rto_deadline: Time::NEVER,
            paced: Time::ZERO,
        }
    }

    /// The round trip time divided by the number of segments in flight.
    pub fn share(&self) -> Option<Span> {
        Some(Span(self.trip.smoothed()?.0 / u64::from(self.in_flight.max(1))))
    }

    /// Ends the transfer with the segments sent so far.
    pub fn stop(&mut self) {
        self.segments = self.next;
    }

    fn window(&self) -> f64 {
        let window = self.control.window().min(self.most.into());
        if self.is_reducing() { window.min(self.reduction.window.into()) } else { window }
    }

    /// The time at which the next transmission may be sent; `None` if that depends on an
    /// acknowledgement or a timer.
    pub fn ready(&self) -> Option<Time> {
        if self.probes || (self.retransmits && !self.lost.is_empty()) {
            return Some(self.paced);
        }
        let something = !self.lost.is_empty() || self.next < self.segments;
        (something && f64::from(self.in_flight) + 1.0 <= self.window().max(1.0))
            .then_some(self.paced)
    }

    /// The earliest of the timers: reordering, tail loss probe, and retransmission.
    pub fn wakes(&self) -> Time {
        self.rto_deadline.min(self.reordering).min(self.probe)
    }

    /// Handles an expired timer. Returns true if it was the retransmission timer (RFC 6298).
    pub fn woken(&mut self, now: Time) -> bool {
        if self.rto_deadline <= now {
            self.timed_out();
            return true;
        }
        if self.reordering <= now {
            let late =
                self.sent.partition_point(|sent| sent.at + self.reordering_window <= now) as u64;
            self.lose((self.first + late).min(self.highest.unwrap_or(0)));
            self.set_reordering(now);
        }
        if self.probe <= now {
            self.probe = Time::NEVER;
            self.probes = self.in_flight > 0;
        }
        false
    }

    /// Returns true in recovery: a segment that was in flight at the beginning of recovery is still
    /// missing.
    fn is_recovering(&self) -> bool {
        self.cumulative < self.recovery_point
    }

    /// Returns true if proportional rate reduction applies: in a recovery that did not begin with a
    /// timeout.
    fn is_reducing(&self) -> bool {
        self.is_recovering() && !self.restarts && !matches!(self.control, Control::Bbr(_))
    }

    /// Sets the reordering timer for the first transmission that a later transmission has
    /// overtaken.
    fn set_reordering(&mut self, now: Time) {
        let overtaken = self.sent.front().filter(|_| self.first < self.highest.unwrap_or(0));
        self.reordering =
            overtaken.map_or(Time::NEVER, |sent| now.max(sent.at + self.reordering_window));
    }

    /// Sets the timer of the tail loss probe; there is no such timer in recovery.
    fn set_probe(&mut self, now: Time) {
        let waits = self.in_flight > 0 && self.lost.is_empty() && !self.is_recovering();
        let after = self.trip.probe(self.in_flight).filter(|_| waits);
        self.probe = after.map_or(Time::NEVER, |after| now + after);
    }

    /// Returns the next transmission, if [`Sender::ready`] permits one now.
    pub fn send(&mut self, now: Time) -> Option<Transmission> {
        if self.ready().is_none_or(|at| at > now) {
            return None;
        }
        // A probe is a new segment, or a retransmission of the last segment if there is no new one.
        let probes = std::mem::take(&mut self.probes) && self.lost.is_empty();
        self.retransmits = false;
        let again = match self.lost.pop_first() {
            None if probes && self.next == self.segments => self.next.checked_sub(1),
            lost => lost,
        };
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
        self.reduction.sent += 1;
        if self.rto_deadline == Time::NEVER {
            self.rto_deadline = now + self.trip.timeout();
        }
        if !probes {
            self.set_probe(now);
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

    /// Handles an acknowledgement.
    pub fn acked(&mut self, now: Time, ack: &Ack) -> AckResult {
        let (before, window) = (self.in_flight, self.window());
        let mut last: Option<(u64, Sent)> = None;
        let mut segments = 0;
        for number in ack.numbers.into_iter().flatten() {
            let place = number.checked_sub(self.first).and_then(|n| self.sent.get_mut(n as usize));
            // A transmission that is no longer in `sent` already counts as lost or as arrived.
            let Some(sent) = place.filter(|sent| sent.state != SenderState::Arrived) else {
                continue;
            };
            match sent.state {
                SenderState::InFlight => self.in_flight -= 1,
                // The transmission was only late. Its segment need not be sent again, if it was not
                // sent again yet.
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
        let advances = ack.upto > self.cumulative;
        self.cumulative = self.cumulative.max(ack.upto);
        let Some((number, sent)) = last else { return AckResult::default() };
        self.arrived += u64::from(segments);
        self.highest = self.highest.max(Some(number));
        let round_trip = now - sent.at;
        self.trip.measured(round_trip);
        let highest = self.highest.unwrap_or(0);
        let later = if self.is_recovering() { 0 } else { REORDERED - 1 };
        let mut reduced = self.lose(highest.saturating_sub(later));
        let recovering = self.is_recovering() && !self.restarts;
        if self.is_reducing() {
            let threshold = self.control.window() as u32;
            let grows = advances && self.lost.is_empty();
            self.reduction.arrived(segments, threshold, self.in_flight, grows);
        }
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
            // A marked segment is acknowledged at once, so a segment with a delayed acknowledgement
            // before it was not marked.
            marked: u32::from(ack.marked),
            round_trip,
            in_flight: self.in_flight,
            paced: self.paced.since(now),
            limited: f64::from(before) + 1.0 >= window,
            recovering: reduced || recovering || number < self.reduced_at,
            rate,
            round,
        });
        self.rto_deadline =
            if self.in_flight > 0 { now + self.trip.timeout() } else { Time::NEVER };
        self.reordering_window = round_trip + Span(self.trip.least().0 / 4);
        self.set_reordering(now);
        self.set_probe(now);
        AckResult { round_trip: Some(round_trip), reduced }
    }

    /// Counts transmissions before this number as lost, unless they have arrived. Returns true if
    /// the window is reduced.
    fn lose(&mut self, lost_before: u64) -> bool {
        let mut reduced = false;
        while let Some(sent) = self.sent.front().copied() {
            if sent.state == SenderState::InFlight {
                if self.first >= lost_before {
                    break;
                }
                self.in_flight -= 1;
                self.lost.insert(sent.segment);
                if self.first >= self.reduced_at && !self.is_recovering() {
                    (self.recovery_point, self.restarts) = (self.next, false);
                    self.retransmits = true;
                    self.reduction = RateReduction::new(self.control.window() as u32);
                    self.reduced_at = self.first + self.sent.len() as u64;
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

    /// Handles a retransmission timeout: all segments in flight count as lost.
    pub fn timed_out(&mut self) {
        let first = self.trip.timed_out();
        for sent in self.sent.iter_mut().filter(|sent| sent.state == SenderState::InFlight) {
            sent.state = SenderState::Lost;
            self.lost.insert(sent.segment);
        }
        self.in_flight = 0;
        self.reduced_at = self.first + self.sent.len() as u64;
        (self.recovery_point, self.restarts) = (self.next, true);
        self.control.timed_out(first);
        (self.rto_deadline, self.reordering, self.probe) = (Time::NEVER, Time::NEVER, Time::NEVER);
        (self.retransmits, self.probes) = (false, false);
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

    /// The second of eight segments is lost. The third arrival after the gap shows the loss, and
    /// the segment is sent again at once. New segments follow when the window permits them.
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
        // The window was 11 until now, with 11 segments in flight. From here on it is 5.5.
        assert!(sender.acked(ms(12), &ack(4, 1)).reduced);
        assert_eq!(all(&mut sender, ms(12)), [(14, 1)]);
        let mut more = Vec::new();
        for number in 5..12 {
            assert!(
                !sender.acked(ms(13), &ack(number, 1)).reduced,
                "once for all that were under way"
            );
            more.extend(all(&mut sender, ms(13)));
        }
        assert!(more.first().is_some_and(|(_, segment)| *segment == 14), "{more:?}");
    }

    /// The first of ten segments is lost, and its retransmission too. The next arrival shows the
    /// second loss, which does not reduce the window again. The window does not grow before the
    /// segment has arrived.
    #[test]
    fn until_it_is_repaired_a_loss_reduces_once() {
        let mut sender = sender(10, 100);
        let ms = |n: u64| Time(n * 1_000_000);
        all(&mut sender, ms(0));
        assert!(!sender.acked(ms(10), &ack(1, 0)).reduced);
        assert!(!sender.acked(ms(10), &ack(2, 0)).reduced);
        assert!(sender.acked(ms(10), &ack(3, 0)).reduced);
        assert_eq!(all(&mut sender, ms(10))[0], (10, 0));
        let window = sender.control.window();
        for number in 4..10 {
            sender.acked(ms(10), &ack(number, 0));
            all(&mut sender, ms(10));
        }
        // A segment that was sent after the first retransmission arrives before this
        // retransmission.
        assert!(!sender.acked(ms(20), &ack(11, 0)).reduced);
        assert_eq!(all(&mut sender, ms(20))[0].1, 0);
        assert_eq!(sender.control.window(), window);
    }

    /// RFC 6937, computed by hand: the window is 20 before the loss and 10 after it. While more
    /// than 10 segments are in flight, one is sent for every two that arrive. With fewer in flight,
    /// one is sent for each that arrives, up to 10 in flight.
    #[test]
    fn recovery_sends_in_proportion_to_arrivals() {
        let mut reduction = RateReduction::new(20);
        let mut sent = Vec::new();
        for in_flight in [18, 17, 16, 15] {
            reduction.arrived(1, 10, in_flight, false);
            let more = reduction.window - in_flight;
            reduction.sent += more;
            sent.push(more);
        }
        assert_eq!(sent, [1, 0, 1, 0]);
        reduction.arrived(1, 10, 4, false);
        assert_eq!(reduction.window, 4 + 3, "5 arrived, and 2 were sent");
        reduction.sent += 3;
        reduction.arrived(1, 10, 4, true);
        assert_eq!(reduction.window, 4 + 2);
        reduction.arrived(9, 10, 9, true);
        assert_eq!(reduction.window, 10);
    }

    /// Two segments are in flight, and the first is lost. It is sent again a quarter of a round
    /// trip after the second has arrived (RFC 8985, 6.2: the reordering window).
    #[test]
    fn one_later_arrival_and_time_show_a_loss() {
        let mut sender = sender(2, 2);
        let ms = |n: u64| Time(n * 1_000_000);
        all(&mut sender, ms(0));
        sender.acked(ms(40), &ack(1, 0));
        assert_eq!((all(&mut sender, ms(40)), sender.wakes()), (Vec::new(), ms(50)));
        assert!(!sender.woken(ms(50)));
        assert_eq!(all(&mut sender, ms(50)), [(2, 0)]);
        assert_eq!(sender.control.window(), 2.0);
    }

    /// The last three of ten segments are lost. After two round trips the last segment is sent
    /// again, and its acknowledgement shows that the others are lost (RFC 8985, 7).
    #[test]
    fn a_probe_tells_of_a_lost_tail() {
        let mut sender = sender(10, 10);
        let ms = |n: u64| Time(n * 1_000_000);
        all(&mut sender, ms(0));
        (0..7).for_each(|number| _ = sender.acked(ms(40), &ack(number, number + 1)));
        assert_eq!(sender.wakes(), ms(120));
        assert!(!sender.woken(ms(120)));
        assert_eq!(all(&mut sender, ms(120)), [(10, 9)]);
        // The probe has overtaken all three lost transmissions.
        sender.acked(ms(160), &ack(10, 7));
        assert_eq!(sender.wakes(), ms(160));
        sender.woken(ms(160));
        assert_eq!(all(&mut sender, ms(160))[0].1, 7);
    }

    #[test]
    fn what_comes_late_is_not_sent_again() {
        let mut sender = sender(4, 5);
        all(&mut sender, Time::ZERO);
        sender.timed_out();
        assert_eq!(sender.wakes(), Time::NEVER);
        // All four counted as lost. The first is sent again; then an acknowledgement shows that all
        // of them have arrived.
        assert_eq!(all(&mut sender, Time(1)), [(4, 0)]);
        sender.acked(Time(2), &ack(0, 1));
        sender.acked(Time(2), &ack(3, 4));
        // The retransmission is still in flight.
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
