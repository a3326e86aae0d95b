//! Both ends of a connection, and the return path of acknowledgements.

use super::receiver::{Ack, Receiver};
use super::sender::Sender;
use super::{Congestion, Control, HEADERS, Tcp};
use crate::meter::Meter;
use crate::source::{below, exponential};
use falaj_engine::chance::Chance;
use falaj_sched::units::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Time for which a receiver delays an acknowledgement to wait for a second segment.
const DELAYED: Span = Span::from_millis(40);

/// A segment in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The numbers of the transmission, of the transfer, and of the segment within the transfer.
    number: u64,
    transfer: u64,
    segment: u64,
    /// The length of the segment's IP packet in bytes.
    pub length: u32,
}

/// Counters of connections since the last reset.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    /// Number of connections.
    pub connections: u32,
    /// Bytes of payload delivered, each counted once.
    pub bytes: u64,
    /// Number of segments sent, including retransmissions.
    pub segments: u64,
    /// Number of retransmitted segments.
    pub retransmitted: u64,
    /// Number of retransmission timeouts, after each of which all segments in flight count as lost.
    pub timeouts: u64,
    /// Number of window reductions because of losses or marks.
    pub reductions: u64,
    /// Round trip times, one sample per acknowledgement.
    pub round_trip: Meter,
    /// Completion times of transfers, from the start until all bytes have arrived.
    pub completion: Meter,
    /// Number of transfers that had begun and were not complete at the end.
    pub unfinished: u64,
}

impl Transfers {
    /// Adds the counters of another run of the same connections. The number of connections becomes
    /// the larger of both numbers.
    pub fn add(&mut self, other: &Transfers) {
        self.connections = self.connections.max(other.connections);
        self.bytes += other.bytes;
        self.segments += other.segments;
        self.retransmitted += other.retransmitted;
        self.timeouts += other.timeouts;
        self.reductions += other.reductions;
        self.round_trip.add(&other.round_trip);
        self.completion.add(&other.completion);
        self.unfinished += other.unfinished;
    }
}

/// A scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A segment arrives at the receiver.
    Arrives { number: u64, segment: u64, marked: bool },
    /// An acknowledgement arrives at the sender.
    AckArrives(Ack),
    /// The delay of an acknowledgement ends; `acks` is the number of acknowledgements at its
    /// beginning.
    Waited { acks: u64 },
}

/// Both ends of a connection. The caller polls it at the times that it names, and notifies it of
/// arriving segments.
#[derive(Clone, Debug)]
pub struct Connection {
    tcp: Tcp,
    /// Payload of a full segment in bytes.
    payload: u32,
    chance: Chance,
    sender: Sender,
    receiver: Receiver,
    /// Scheduled events, by their time, then by the order in which they were scheduled. Each has
    /// the number of its transfer.
    events: BinaryHeap<Reverse<(Time, u64, u64, Event)>>,
    known: u64,
    /// The number of transfers before the present one.
    transfer: u64,
    begins: Time,
    stop: Time,
    complete: bool,
    /// Arrival time of the last acknowledgement at the sender. Later acknowledgements do not arrive
    /// before it.
    back_at: Time,
    now: Time,
}

impl Connection {
    /// Creates the connection number `index` under `seed`. Each connection has its own random
    /// stream. `length` is the IP length of full packets in bytes.
    pub fn new(
        tcp: Tcp,
        length: u32,
        start: Time,
        stop: Time,
        (seed, index): (u64, u64),
    ) -> Connection {
        /// Separates the streams of connections from those of other elements.
        const CONNECTIONS: u64 = 0x7463_7063_6f6e;
        let mut chance = Chance::new(seed, CONNECTIONS, index);
        // A random offset: without it, connections that begin together would stay synchronised.
        let begins = start + Span(below(&mut chance, tcp.base.0 + 1));
        let payload = length.saturating_sub(HEADERS).max(1);
        let (sender, receiver) = ends(&tcp, payload, &mut chance);
        Connection {
            payload,
            chance,
            sender,
            receiver,
            events: BinaryHeap::new(),
            known: 0,
            transfer: 0,
            begins,
            stop,
            complete: false,
            back_at: Time::ZERO,
            now: begins,
            tcp,
        }
    }

    /// The time of the next poll; not before the last poll.
    pub fn next(&self) -> Time {
        let event = self.events.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        let begins = if self.begins >= self.stop { Time::NEVER } else { self.begins };
        let sends = if self.complete {
            Time::NEVER
        } else {
            self.sender.ready().map_or(Time::NEVER, |at| at.max(begins))
        };
        let waits = if self.complete { Time::NEVER } else { self.sender.wakes() };
        event.min(sends).min(waits).max(self.now)
    }

    /// Processes due events up to the next acknowledgement. Returns the segment that is to be sent
    /// after it, if there is one. [`Connection::next`] returns the time of the next poll, which is
    /// `now` if more events are due.
    pub fn ask(&mut self, now: Time, told: &mut Transfers) -> Option<Segment> {
        self.now = now;
        // The segments that one acknowledgement permits are sent before the next acknowledgement is
        // processed.
        if let Some(segment) = self.sends(now, told) {
            return Some(segment);
        }
        while let Some(&Reverse((at, _, transfer, event))) = self.events.peek() {
            if at > now {
                break;
            }
            self.events.pop();
            if transfer == self.transfer && !self.complete {
                self.happens(event, now, told);
            }
            if matches!(event, Event::AckArrives(_)) {
                break;
            }
        }
        // A timer expires only if no event is due at the same time.
        let waits = self.events.peek().is_none_or(|Reverse((at, ..))| *at > now);
        if waits && !self.complete && self.sender.wakes() <= now {
            told.timeouts += u64::from(self.sender.woken(now));
        }
        self.sends(now, told)
    }

    fn sends(&mut self, now: Time, told: &mut Transfers) -> Option<Segment> {
        if self.complete || now < self.begins {
            return None;
        }
        if now >= self.stop {
            self.sender.stop();
        }
        let sent = self.sender.send(now)?;
        told.segments += 1;
        told.retransmitted += u64::from(sent.again);
        let length = self.payload_of(sent.segment) + HEADERS;
        Some(Segment {
            number: sent.number,
            transfer: self.transfer,
            segment: sent.segment,
            length,
        })
    }

    /// Schedules the arrival of a segment, marked or not. A segment for which this is never called
    /// is lost.
    pub fn arrives(&mut self, segment: &Segment, at: Time, marked: bool) {
        let &Segment { number, segment, transfer, .. } = segment;
        self.later(at, transfer, Event::Arrives { number, segment, marked });
    }

    /// Returns true if a transfer has begun before `end` and is not complete.
    pub fn is_underway(&self, end: Time) -> bool {
        self.tcp.bytes.is_some() && !self.complete && self.begins < end.min(self.stop)
    }

    fn later(&mut self, at: Time, transfer: u64, event: Event) {
        self.known += 1;
        self.events.push(Reverse((at, self.known, transfer, event)));
    }

    fn happens(&mut self, event: Event, now: Time, told: &mut Transfers) {
        match event {
            Event::Arrives { number, segment, marked } => {
                let (is_new, ack) = self.receiver.arrives(number, segment, marked);
                if is_new {
                    told.bytes += u64::from(self.payload_of(segment));
                }
                if self
                    .tcp
                    .bytes
                    .is_some_and(|bytes| self.receiver.upto() == segments(bytes, self.payload))
                {
                    told.completion.record(now - self.begins);
                    return self.ended(now);
                }
                match ack {
                    Some(ack) => self.comes_back(ack, now),
                    None => {
                        let acks = self.receiver.acks();
                        self.later(now + DELAYED, self.transfer, Event::Waited { acks });
                    }
                }
            }
            Event::Waited { acks } => {
                if let Some(ack) = self.receiver.waited(acks) {
                    self.comes_back(ack, now);
                }
            }
            Event::AckArrives(ack) => {
                let heard = self.sender.acked(now, &ack);
                heard.round_trip.into_iter().for_each(|trip| told.round_trip.record(trip));
                told.reductions += u64::from(heard.reduced);
            }
        }
    }

    /// Sends an acknowledgement back. It is delayed by a small random time, because connections
    /// would otherwise stay synchronised for ever. This time is at most a segment's share of the
    /// round trip, and at most a hundredth of the base round trip. A paced connection (BBR) has no
    /// such delay: it is not synchronised with others, and it measures rates by acknowledgements.
    fn comes_back(&mut self, ack: Ack, now: Time) {
        let share = match self.tcp.congestion {
            Congestion::Bbr => Span::ZERO,
            _ => self.sender.share().unwrap_or(Span::ZERO),
        };
        let more = Span(below(&mut self.chance, share.0.min(self.tcp.base.0 / 100) + 1));
        self.back_at = self.back_at.max(now + self.tcp.back + more);
        self.later(self.back_at, self.transfer, Event::AckArrives(ack));
    }

    /// Ends a transfer whose bytes have all arrived; another one may follow.
    fn ended(&mut self, now: Time) {
        let Some(pause) = self.tcp.pause else {
            self.complete = true;
            return;
        };
        self.transfer += 1;
        (self.sender, self.receiver) = ends(&self.tcp, self.payload, &mut self.chance);
        // The limit of 1e18 ns is longer than any run.
        let nanos = (exponential(&mut self.chance) * pause.0 as f64).min(1e18);
        self.begins = now + Span(nanos as u64);
        self.back_at = Time::ZERO;
    }

    /// Payload of a segment in bytes; the last segment of a transfer has the rest.
    fn payload_of(&self, segment: u64) -> u32 {
        let left = self.tcp.bytes.map_or(u64::MAX, |bytes| {
            bytes.saturating_sub(segment.saturating_mul(self.payload.into()))
        });
        u32::try_from(left).unwrap_or(u32::MAX).min(self.payload)
    }
}

/// The number of segments for these bytes.
fn segments(bytes: u64, payload: u32) -> u64 {
    bytes.div_ceil(payload.into())
}

/// Sender and receiver of a transfer.
fn ends(tcp: &Tcp, payload: u32, chance: &mut Chance) -> (Sender, Receiver) {
    let control = Control::new(tcp.congestion, tcp.initial_window, below(chance, u64::MAX));
    let most = u32::try_from(tcp.window / u64::from(payload)).unwrap_or(u32::MAX);
    let all = tcp.bytes.map_or(u64::MAX, |bytes| segments(bytes, payload));
    (Sender::new(control, all, most), Receiver::new(tcp.delayed))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::Acked;
    use super::*;

    impl Tcp {
        /// Parameters: each segment is acknowledged, the initial window is ten, window and transfer
        /// are unlimited, and both directions have the same delay.
        pub(crate) fn without_end(way: Span) -> Tcp {
            Tcp {
                congestion: Congestion::Reno,
                back: way,
                base: way * 2,
                bytes: None,
                pause: None,
                initial_window: 10,
                window: u64::MAX,
                delayed: false,
            }
        }
    }

    /// The acknowledgement of `segments` segments with a full window.
    pub(crate) fn ack(segments: u32) -> Acked {
        Acked {
            now: Time::ZERO,
            segments,
            marked: 0,
            round_trip: Span::from_millis(100),
            in_flight: 0,
            paced: Span::ZERO,
            limited: true,
            recovering: false,
            rate: None,
            round: false,
        }
    }

    /// The result of a run.
    pub(crate) struct Ran {
        pub(crate) told: Transfers,
        /// Number of segments that arrived, each counted once.
        pub(crate) arrived: u64,
    }

    const LENGTH: u32 = 1_500;

    /// Runs a connection whose segments have the same delay as acknowledgements on the return path.
    /// A segment is lost if `lost` returns true for its number.
    pub(crate) fn through(tcp: &Tcp, time: Span, lost: impl Fn(u64) -> bool) -> Ran {
        over(tcp, time, |sent, now| (!lost(sent)).then(|| (now + tcp.back, false)))
    }

    /// Mean number of segments that arrive in a round trip. Slow start is not counted, because it
    /// reaches large windows if losses are rare.
    pub(crate) fn mean_window(tcp: &Tcp, lost: impl Fn(u64) -> bool) -> f64 {
        let [begins, all] =
            [100, 600].map(|time| through(tcp, Span::from_secs(time), &lost).arrived as f64);
        (all - begins) / 500.0 * tcp.base.as_secs_f64()
    }

    /// Runs a connection through a FIFO queue for `room` packets; packets that find the queue full
    /// are lost.
    pub(crate) fn queued(tcp: &Tcp, time: Span, (service, room): (Span, u64)) -> Ran {
        let mut free = Time::ZERO;
        over(tcp, time, |_, now| {
            let before = free.since(now).0.div_ceil(service.0);
            if before >= room {
                return None;
            }
            free = free.max(now) + service;
            Some((free + tcp.back, false))
        })
    }

    /// Runs a connection through an unlimited queue that marks packets that find more than
    /// `threshold` packets before them. Also returns the number of marks.
    pub(crate) fn over_threshold(
        tcp: &Tcp,
        time: Span,
        (service, threshold): (Span, u64),
    ) -> (Ran, u64) {
        let (mut free, mut marks) = (Time::ZERO, 0);
        let ran = over(tcp, time, |_, now| {
            let marked = free.since(now).0.div_ceil(service.0) > threshold;
            marks += u64::from(marked);
            free = free.max(now) + service;
            Some((free + tcp.back, marked))
        });
        (ran, marks)
    }

    fn over(tcp: &Tcp, time: Span, mut when: impl FnMut(u64, Time) -> Option<(Time, bool)>) -> Ran {
        let mut connection = Connection::new(tcp.clone(), LENGTH, Time::ZERO, Time::NEVER, (1, 0));
        let mut told = Transfers::default();
        while connection.next() < Time::ZERO + time {
            let now = connection.next();
            let Some(segment) = connection.ask(now, &mut told) else { continue };
            if let Some((at, marked)) = when(segment.number, now) {
                connection.arrives(&segment, at, marked);
            }
        }
        told.unfinished += u64::from(connection.is_underway(Time::ZERO + time));
        let arrived = told.bytes / u64::from(LENGTH - HEADERS);
        Ran { told, arrived }
    }

    /// The transfer is sent in rounds of 10, 20, 40 and 30 segments of 1,460 B; the last one has
    /// 1,000 B. All segments have arrived half a round trip after the fourth round was sent.
    #[test]
    fn a_transfer_takes_as_many_round_trips_as_slow_start_does() {
        let bytes = 100 * 1_460 - 460;
        let tcp = Tcp { bytes: Some(bytes), ..Tcp::without_end(Span::from_millis(50)) };
        let ran = through(&tcp, Span::from_secs(10), |_| false);
        assert_eq!((ran.told.bytes, ran.told.segments, ran.told.retransmitted), (bytes, 100, 0));
        assert_eq!((ran.told.completion.count(), ran.told.unfinished), (1, 0));
        let took = ran.told.completion.max().unwrap();
        // The range includes the random delays on the return path.
        assert!((Span::from_millis(350)..Span::from_millis(353)).contains(&took), "{took}");
    }

    /// The last segment is lost: no later segment shows the loss, so it is sent again after a
    /// timeout.
    #[test]
    fn a_loss_at_the_end_takes_a_timeout() {
        let tcp = Tcp { bytes: Some(10 * 1_460), ..Tcp::without_end(Span::from_millis(5)) };
        let ran = through(&tcp, Span::from_secs(10), |number| number == 9);
        assert_eq!(
            (ran.told.timeouts, ran.told.retransmitted, ran.told.completion.count()),
            (1, 1, 1)
        );
        // The timeout of 210 ms (200 ms and a round trip) begins with the last acknowledgement.
        let took = ran.told.completion.max().unwrap();
        assert!((Span::from_millis(225)..Span::from_millis(226)).contains(&took), "{took}");
    }

    #[test]
    fn one_transfer_follows_another() {
        let pause = Some(Span::from_millis(100));
        let tcp = Tcp { bytes: Some(14_600), pause, ..Tcp::without_end(Span::from_millis(50)) };
        let ran = through(&tcp, Span::from_secs(100), |_| false);
        // Each transfer takes 50 ms, and the pause after it 100 ms on average.
        let count = ran.told.completion.count();
        assert!((600..733).contains(&count), "{count}");
        assert_eq!(ran.told.completion.max(), Some(Span::from_millis(50)));
    }

    /// With every second segment acknowledged, Reno's window still grows by a segment each round
    /// trip, because growth counts bytes.
    #[test]
    fn acknowledgements_may_wait() {
        let tcp = Tcp { delayed: true, ..Tcp::without_end(Span::from_millis(50)) };
        let lost = |number: u64| number % 1_000 == 999;
        let [each, second] = [false, true]
            .map(|delayed| through(&Tcp { delayed, ..tcp.clone() }, Span::from_secs(200), lost));
        let ratio = second.arrived as f64 / each.arrived as f64;
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }

    /// 10 Mbit/s, a round trip of 40 ms, and a queue of the bandwidth-delay product: 33 packets of
    /// 1.2 ms each.
    #[test]
    fn a_queue_of_the_product_keeps_the_link_busy() {
        for congestion in [Congestion::Reno, Congestion::Cubic, Congestion::Bbr] {
            let tcp = Tcp { congestion, ..Tcp::without_end(Span::from_millis(20)) };
            let ran = queued(&tcp, Span::from_secs(60), (Span::from_micros(1_200), 34));
            let used = ran.arrived as f64 * 0.0012 / 60.0;
            assert!((0.97..1.0).contains(&used), "{congestion:?}: {used}");
            let trip = ran.told.round_trip.mean_nanos().unwrap() / 1e6;
            // Loss-based congestion control fills the queue; control by a model of the path does
            // not.
            let expected = if congestion == Congestion::Bbr { 41.0..62.0 } else { 58.0..82.0 };
            assert!(expected.contains(&trip), "{congestion:?}: {trip} ms");
        }
    }
}
