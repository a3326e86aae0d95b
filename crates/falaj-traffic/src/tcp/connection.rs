//! Both ends of a connection, and the way back of acknowledgements.

use super::receiver::{Ack, Receiver};
use super::sender::Sender;
use super::{Congestion, Control, HEADERS, Tcp};
use crate::meter::Meter;
use crate::source::{below, exponential};
use falaj_engine::chance::Chance;
use falaj_sched::units::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// So long a receiver waits for a second segment.
const DELAYED: Span = Span::from_millis(40);

/// A segment on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The transmission's number, and the transfer's.
    number: u64,
    transfer: u64,
    segment: u64,
    /// The length of its IP packet.
    pub length: u32,
}

/// What connections have done since they were looked at.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    /// So many connections.
    pub connections: u32,
    /// Bytes of payload that arrived, each once.
    pub bytes: u64,
    /// Segments that were sent.
    pub segments: u64,
    /// Of these, those that had been sent before.
    pub retransmitted: u64,
    /// How often all that was under way was taken for lost.
    pub timeouts: u64,
    /// How often a window was reduced by loss or by marks.
    pub reductions: u64,
    /// Round trips, of acknowledgements.
    pub round_trip: Meter,
    /// How long transfers took, from their beginning until all had arrived.
    pub completion: Meter,
    /// Transfers that had begun and were not complete at the end.
    pub unfinished: u64,
}

impl Transfers {
    /// These as well.
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

/// Something that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A segment is at the receiver.
    Arrives { number: u64, segment: u64, marked: bool },
    /// An acknowledgement is at the sender.
    Back(Ack),
    /// A segment has waited for a second one since there were so many acknowledgements.
    Waited { acks: u64 },
}

/// Both ends. It is asked at the instants that it names, and told what arrives.
#[derive(Clone, Debug)]
pub struct Connection {
    tcp: Tcp,
    /// Payload of a full segment.
    payload: u32,
    chance: Chance,
    sender: Sender,
    receiver: Receiver,
    /// By instant, and then in the order in which they were known; of this transfer.
    events: BinaryHeap<Reverse<(Time, u64, u64, Event)>>,
    known: u64,
    /// Transfers before this one.
    transfer: u64,
    begins: Time,
    stop: Time,
    complete: bool,
    /// When the last acknowledgement is back: none overtakes another.
    back_at: Time,
    now: Time,
}

impl Connection {
    /// The connection number `index` under `seed`: each has its own random stream. Its full packets
    /// have the IP length `length`.
    pub fn new(
        tcp: Tcp,
        length: u32,
        start: Time,
        stop: Time,
        (seed, index): (u64, u64),
    ) -> Connection {
        /// Keep the streams of connections apart from those of other elements.
        const CONNECTIONS: u64 = 0x7463_7063_6f6e;
        let mut chance = Chance::new(seed, CONNECTIONS, index);
        // Several that begin together would go on in step.
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

    /// When it wants to be asked; not before it was last asked.
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

    /// What is due happens, up to the next acknowledgement; a segment that is to be sent then, if
    /// there is one. [`Connection::next`] says when to ask again: at once, where there is more.
    pub fn ask(&mut self, now: Time, told: &mut Transfers) -> Option<Segment> {
        self.now = now;
        // What one acknowledgement lets go goes before the next one is looked at.
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
            if matches!(event, Event::Back(_)) {
                break;
            }
        }
        // Only if nothing has come at this very instant.
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

    /// A segment arrives then, marked or not; one that is never told of is lost.
    pub fn arrives(&mut self, segment: &Segment, at: Time, marked: bool) {
        let &Segment { number, segment, transfer, .. } = segment;
        self.later(at, transfer, Event::Arrives { number, segment, marked });
    }

    /// Has a transfer begun before `end`, and is it not complete?
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
            Event::Back(ack) => {
                let heard = self.sender.acked(now, &ack);
                heard.round_trip.into_iter().for_each(|trip| told.round_trip.record(trip));
                told.reductions += u64::from(heard.reduced);
            }
        }
    }

    /// An acknowledgement goes back. It takes a little longer at random, or connections would stay
    /// in step for ever: less than a segment's share of the round trip, and than a hundredth of
    /// the shortest. Who is paced is not in step with others, and measures rates by this.
    fn comes_back(&mut self, ack: Ack, now: Time) {
        let share = match self.tcp.congestion {
            Congestion::Bbr => Span::ZERO,
            _ => self.sender.share().unwrap_or(Span::ZERO),
        };
        let more = Span(below(&mut self.chance, share.0.min(self.tcp.base.0 / 100) + 1));
        self.back_at = self.back_at.max(now + self.tcp.back + more);
        self.later(self.back_at, self.transfer, Event::Back(ack));
    }

    /// All has arrived: there may be another transfer.
    fn ended(&mut self, now: Time) {
        let Some(pause) = self.tcp.pause else {
            self.complete = true;
            return;
        };
        self.transfer += 1;
        (self.sender, self.receiver) = ends(&self.tcp, self.payload, &mut self.chance);
        // The longest pauses are longer than any run.
        let nanos = (exponential(&mut self.chance) * pause.0 as f64).min(1e18);
        self.begins = now + Span(nanos as u64);
        self.back_at = Time::ZERO;
    }

    /// Payload of a segment: the last one has what is left.
    fn payload_of(&self, segment: u64) -> u32 {
        let left = self.tcp.bytes.map_or(u64::MAX, |bytes| {
            bytes.saturating_sub(segment.saturating_mul(self.payload.into()))
        });
        u32::try_from(left).unwrap_or(u32::MAX).min(self.payload)
    }
}

/// So many segments these bytes are.
fn segments(bytes: u64, payload: u32) -> u64 {
    bytes.div_ceil(payload.into())
}

/// Both ends of a transfer.
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
        /// Each segment acknowledged, ten at the beginning, as large a window as wanted; there and
        /// back alike.
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

    /// So many segments arrive in a full window.
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

    /// What became of a run.
    pub(crate) struct Ran {
        pub(crate) told: Transfers,
        /// Segments that arrived, each once.
        pub(crate) arrived: u64,
    }

    const LENGTH: u32 = 1_500;

    /// A connection whose packets all take the way back's time there, but for those that are lost
    /// by number.
    pub(crate) fn through(tcp: &Tcp, time: Span, lost: impl Fn(u64) -> bool) -> Ran {
        over(tcp, time, |sent, now| (!lost(sent)).then(|| (now + tcp.back, false)))
    }

    /// So many segments arrive in a round trip in the mean, behind slow start, which goes far where
    /// losses are rare.
    pub(crate) fn mean_window(tcp: &Tcp, lost: impl Fn(u64) -> bool) -> f64 {
        let [begins, all] =
            [100, 600].map(|time| through(tcp, Span::from_secs(time), &lost).arrived as f64);
        (all - begins) / 500.0 * tcp.base.as_secs_f64()
    }

    /// The same through a queue of so many packets, served one after the other; where it is full,
    /// packets are lost.
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

    /// The same through a queue without end that marks whom it finds more than so many packets
    /// before; how many it marked.
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

    /// 10 + 20 + 40 + 30 segments of 1,460 B: in the fourth round trip all are there, half a round
    /// trip after they were sent.
    #[test]
    fn a_transfer_takes_as_many_round_trips_as_slow_start_does() {
        let bytes = 100 * 1_460 - 460;
        let tcp = Tcp { bytes: Some(bytes), ..Tcp::without_end(Span::from_millis(50)) };
        let ran = through(&tcp, Span::from_secs(10), |_| false);
        assert_eq!((ran.told.bytes, ran.told.segments, ran.told.retransmitted), (bytes, 100, 0));
        assert_eq!((ran.told.completion.count(), ran.told.unfinished), (1, 0));
        let took = ran.told.completion.max().unwrap();
        // And what is random on the way back.
        assert!((Span::from_millis(350)..Span::from_millis(353)).contains(&took), "{took}");
    }

    /// The last of all is lost: nothing behind it says so, and after a timeout it is sent again.
    #[test]
    fn a_loss_at_the_end_takes_a_timeout() {
        let tcp = Tcp { bytes: Some(10 * 1_460), ..Tcp::without_end(Span::from_millis(5)) };
        let ran = through(&tcp, Span::from_secs(10), |number| number == 9);
        assert_eq!(
            (ran.told.timeouts, ran.told.retransmitted, ran.told.completion.count()),
            (1, 1, 1)
        );
        // The timeout of 210 ms, 200 ms and a round trip, begins with the last acknowledgement.
        let took = ran.told.completion.max().unwrap();
        assert!((Span::from_millis(225)..Span::from_millis(226)).contains(&took), "{took}");
    }

    #[test]
    fn one_transfer_follows_another() {
        let pause = Some(Span::from_millis(100));
        let tcp = Tcp { bytes: Some(14_600), pause, ..Tcp::without_end(Span::from_millis(50)) };
        let ran = through(&tcp, Span::from_secs(100), |_| false);
        // Each takes 50 ms, and 100 ms of pause in the mean.
        let count = ran.told.completion.count();
        assert!((600..733).contains(&count), "{count}");
        assert_eq!(ran.told.completion.max(), Some(Span::from_millis(50)));
    }

    /// Every second segment acknowledged: a window of Reno grows by a segment each round trip
    /// still, as it is bytes that count.
    #[test]
    fn acknowledgements_may_wait() {
        let tcp = Tcp { delayed: true, ..Tcp::without_end(Span::from_millis(50)) };
        let lost = |number: u64| number % 1_000 == 999;
        let [each, second] = [false, true]
            .map(|delayed| through(&Tcp { delayed, ..tcp.clone() }, Span::from_secs(200), lost));
        let ratio = second.arrived as f64 / each.arrived as f64;
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }

    /// 10 Mbit/s there, 40 ms there and back, and a queue as large as that: 1.2 ms for each packet,
    /// 33 of them.
    #[test]
    fn a_queue_of_the_product_keeps_the_link_busy() {
        for congestion in [Congestion::Reno, Congestion::Cubic, Congestion::Bbr] {
            let tcp = Tcp { congestion, ..Tcp::without_end(Span::from_millis(20)) };
            let ran = queued(&tcp, Span::from_secs(60), (Span::from_micros(1_200), 34));
            let used = ran.arrived as f64 * 0.0012 / 60.0;
            assert!((0.97..1.0).contains(&used), "{congestion:?}: {used}");
            let trip = ran.told.round_trip.mean_nanos().unwrap() / 1e6;
            // Loss fills the queue, a model of the path does not.
            let expected = if congestion == Congestion::Bbr { 41.0..62.0 } else { 58.0..82.0 };
            assert!(expected.contains(&trip), "{congestion:?}: {trip} ms");
        }
    }
}
