//! BBR-like: a model of the path, of its rate and its shortest round trip, says what is sent and
//! how fast (Cardwell and others 2016: version 1, without its answer to losses).

use super::Acked;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

/// As fast as doubles the rate each round trip: 2 / ln 2.
const STARTS: f64 = 2.885;
/// A rate counts for so many round trips.
const ROUNDS: u64 = 10;
/// Faster for a round trip to see whether there is more, slower for one so that its queue goes,
/// then even.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// So many times what the path holds may be under way.
const HOLDS: f64 = 2.0;
/// Its shortest round trip counts for so long; then it is looked for, with as little under way, for
/// so long.
const STALE: Span = Span::from_secs(10);
const LOOKS: Span = Span::from_millis(200);
const LEAST: f64 = 4.0;
/// Pacing margin: the pace is a little less than the rate that was measured, so that a queue
/// drains.
const MARGIN: f64 = 0.99;
/// The least sending quantum, in segments; one segment below 1.2 Mbit/s, which are 100 segments of
/// 1,500 B a second.
const QUANTUM: f64 = 2.0;
const SLOW: f64 = 100.0;

/// What it is about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum BbrState {
    /// How fast is the path?
    Starts,
    /// The queue that this made goes.
    Drains,
    /// In this part of the cycle, since then.
    Cycles(usize, Time),
    /// How long is its round trip? Until then, if that is known.
    Looks(Option<Time>),
}

/// The model of BBR.
#[derive(Clone, Debug)]
pub struct Bbr {
    state: BbrState,
    window: f64,
    initial: f64,
    /// Round trips so far.
    round: u64,
    /// Segments a second, the highest first, each with the round trip that it was seen in.
    rates: VecDeque<(u64, f64)>,
    /// The shortest round trip, and when it was seen.
    shortest: Option<(Span, Time)>,
    /// The rate when it last grew by a quarter, and how many round trips ago.
    grown: (f64, u32),
    /// It has stopped growing.
    is_known: bool,
    /// Something was lost or marked since the cycle went on.
    lost: bool,
    draw: u64,
}

impl Bbr {
    /// At the beginning; where its cycle begins is as random as `draw`.
    pub fn new(initial: u32, draw: u64) -> Bbr {
        Bbr {
            state: BbrState::Starts,
            window: initial.into(),
            initial: initial.into(),
            round: 0,
            rates: VecDeque::new(),
            shortest: None,
            grown: (0.0, 0),
            is_known: false,
            lost: false,
            draw,
        }
    }

    /// In segments.
    pub fn window(&self) -> f64 {
        match self.state {
            BbrState::Looks(_) => self.window.min(LEAST),
            _ => self.window,
        }
    }

    /// Segments a second: the path's rate.
    pub fn rate(&self) -> Option<f64> {
        self.rates.front().map(|&(_, rate)| rate)
    }

    /// Its shortest round trip.
    pub fn shortest(&self) -> Option<Span> {
        self.shortest.map(|(trip, _)| trip)
    }

    /// So many segments a second are sent.
    pub fn pace(&self) -> Option<f64> {
        let gain = match self.state {
            BbrState::Starts => STARTS,
            BbrState::Drains => 1.0 / STARTS,
            BbrState::Cycles(part, _) => CYCLE[part],
            BbrState::Looks(_) => 1.0,
        };
        Some(MARGIN * gain * self.rate()?)
    }

    /// Segments that may be under way for this gain, as in Linux: those that the path holds, and
    /// three sending quanta of 1/1024 s, so that acknowledgements which come together find
    /// something to send; an even number, as every second segment is acknowledged; two more while
    /// it probes for a higher rate.
    fn in_flight(&self, gain: f64) -> Option<f64> {
        let all = (gain * self.holds()?).ceil() + 3.0 * self.quantum()?;
        let more = if matches!(self.state, BbrState::Cycles(0, _)) { 2.0 } else { 0.0 };
        Some(2.0 * (all / 2.0).ceil() + more)
    }

    /// Segments that are sent together: the sending quantum, of 1/1024 s.
    fn quantum(&self) -> Option<f64> {
        let rate = self.rate()?;
        let least = if rate < SLOW { 1.0 } else { QUANTUM };
        Some((rate / 1_024.0).floor().max(least))
    }

    /// Segments that will be under way when the next quantum goes, as in Linux: those before this
    /// acknowledgement, less what arrives until then; with that quantum while it probes for a
    /// higher rate.
    fn in_flight_then(&self, acked: &Acked) -> f64 {
        let now = f64::from(acked.in_flight + acked.segments);
        let arrive = self.rate().unwrap_or(0.0) * acked.paced.as_secs_f64();
        let probes = matches!(self.state, BbrState::Cycles(0, _));
        let goes = if probes { self.quantum().unwrap_or(0.0) } else { 0.0 };
        (now + goes - arrive.floor()).max(0.0)
    }

    /// What the path holds without a queue, in segments.
    fn holds(&self) -> Option<f64> {
        Some(self.rate()? * self.shortest()?.as_secs_f64())
    }

    /// Segments are lost, or marked.
    pub fn congested(&mut self) {
        self.lost = true;
    }

    /// Nothing has arrived for long.
    pub fn timed_out(&mut self) {
        self.window = 1.0;
    }

    /// Segments have arrived.
    pub fn acked(&mut self, acked: &Acked) {
        let stale = self.learns(acked);
        let (Some(drained), Some(probed)) = (self.in_flight(1.0), self.in_flight(CYCLE[0])) else {
            self.window += f64::from(acked.segments);
            return;
        };
        let in_flight = f64::from(acked.in_flight);
        if self.state == BbrState::Starts && self.is_known {
            self.state = BbrState::Drains;
        }
        if self.state == BbrState::Drains && in_flight <= drained {
            self.cycles(acked.now);
        }
        if let BbrState::Cycles(part, since) = self.state {
            let in_flight = self.in_flight_then(acked);
            let passed = self.shortest.is_some_and(|(trip, _)| acked.now.since(since) > trip);
            let on = match part {
                0 => passed && (self.lost || in_flight >= probed),
                1 => passed || in_flight <= drained,
                _ => passed,
            };
            if on {
                self.state = BbrState::Cycles((part + 1) % CYCLE.len(), acked.now);
                self.lost = false;
            }
        }
        if stale && !matches!(self.state, BbrState::Looks(_)) {
            self.state = BbrState::Looks(None);
        }
        if let BbrState::Looks(until) = self.state {
            match until {
                None if in_flight <= LEAST => self.state = BbrState::Looks(Some(acked.now + LOOKS)),
                Some(until) if acked.now >= until => {
                    self.shortest = self.shortest.map(|(trip, _)| (trip, acked.now));
                    if self.is_known {
                        self.cycles(acked.now);
                    } else {
                        self.state = BbrState::Starts;
                    }
                }
                _ => {}
            }
        }
        let gain =
            if matches!(self.state, BbrState::Starts | BbrState::Drains) { STARTS } else { HOLDS };
        let target = self.in_flight(gain).unwrap_or(self.window);
        let more = self.window + f64::from(acked.segments);
        if self.is_known {
            self.window = more.min(target);
        } else if self.window < target.max(self.initial) {
            self.window = more;
        }
        self.window = self.window.max(LEAST);
    }

    /// The cycle begins anywhere but where it is slower.
    fn cycles(&mut self, now: Time) {
        self.draw = self.draw.rotate_right(3);
        let part = [0, 2, 3, 4, 5, 6, 7][(self.draw % 7) as usize];
        self.state = BbrState::Cycles(part, now);
    }

    /// What an acknowledgement says of the path. Was its shortest round trip not seen for long?
    fn learns(&mut self, acked: &Acked) -> bool {
        if acked.round {
            self.round += 1;
        }
        if let Some(rate) = acked.rate {
            while self.rates.back().is_some_and(|&(_, less)| less <= rate) {
                self.rates.pop_back();
            }
            self.rates.push_back((self.round, rate));
        }
        while self.rates.front().is_some_and(|&(round, _)| round + ROUNDS < self.round) {
            self.rates.pop_front();
        }
        if let (true, false, Some(rate)) = (acked.round, self.is_known, self.rate()) {
            let (grown, rounds) = self.grown;
            self.grown = if rate >= 1.25 * grown { (rate, 0) } else { (grown, rounds + 1) };
            self.is_known = self.grown.1 >= 3;
        }
        let stale = self.shortest.is_some_and(|(_, at)| acked.now.since(at) > STALE);
        if stale || self.shortest.is_none_or(|(trip, _)| acked.round_trip <= trip) {
            self.shortest = Some((acked.round_trip, acked.now));
        }
        stale
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::tests::ack;
    use super::*;

    /// A path of 1,000 segments a second and 50 ms, as its acknowledgements show it.
    fn found() -> (Bbr, Time) {
        let mut bbr = Bbr::new(10, 0);
        let mut now = Time::ZERO;
        // Each round trip brings twice as much, up to what the path carries.
        for rate in [200.0, 400.0, 800.0, 1_000.0, 1_000.0, 1_000.0, 1_000.0] {
            now += Span::from_millis(50);
            let seen = Acked {
                now,
                rate: Some(rate),
                round_trip: Span::from_millis(50),
                round: true,
                ..ack(10)
            };
            bbr.acked(&Acked { in_flight: 100, ..seen });
        }
        (bbr, now)
    }

    #[test]
    fn it_finds_rate_and_round_trip_and_drains_its_queue() {
        let (mut bbr, now) = found();
        assert_eq!((bbr.rate(), bbr.shortest()), (Some(1_000.0), Some(Span::from_millis(50))));
        // The rate did not grow by a quarter for three round trips: what was sent too much goes.
        assert_eq!(bbr.state, BbrState::Drains);
        assert!((bbr.pace().unwrap() - 990.0 / STARTS).abs() < 1e-9);
        let after = Acked {
            now,
            rate: Some(1_000.0),
            round_trip: Span::from_millis(60),
            in_flight: 50,
            ..ack(1)
        };
        bbr.acked(&after);
        assert!(matches!(bbr.state, BbrState::Cycles(part, _) if part != 1), "{:?}", bbr.state);
        // Twice 50, and three quanta of two; two more while it probes.
        (0..200).for_each(|_| bbr.acked(&after));
        assert!([106.0, 108.0].contains(&bbr.window()), "{}", bbr.window());
    }

    /// The path holds 50 segments. The quantum is two segments at 1,000 segments a second, four at
    /// 5,000, and one below 100.
    #[test]
    fn three_quanta_are_under_way_beyond_the_path() {
        let (mut bbr, now) = found();
        assert_eq!(bbr.in_flight(1.0), Some(56.0));
        assert_eq!(bbr.in_flight(1.25), Some(70.0), "62.5 are 63, and 69 is odd");
        bbr.state = BbrState::Cycles(0, now);
        assert_eq!(bbr.in_flight(1.25), Some(72.0));
        bbr.state = BbrState::Cycles(2, now);
        for (rate, expected) in [(5_000.0, 250.0 + 12.0), (80.0, 4.0 + 3.0 + 1.0)] {
            bbr.rates = VecDeque::from([(0, rate)]);
            assert_eq!(bbr.in_flight(1.0), Some(expected), "{rate}");
        }
    }

    /// At 1,000 segments a second and 40 under way after two have arrived: 42, less the two that
    /// arrive in the 2.5 ms until the next one goes; two more go while it probes.
    #[test]
    fn what_is_under_way_counts_when_the_next_quantum_goes() {
        let (mut bbr, now) = found();
        bbr.state = BbrState::Cycles(2, now);
        let acked = Acked { in_flight: 40, paced: Span::from_micros(2_500), ..ack(2) };
        assert_eq!(bbr.in_flight_then(&acked), 40.0);
        bbr.state = BbrState::Cycles(0, now);
        assert_eq!(bbr.in_flight_then(&acked), 42.0);
    }

    #[test]
    fn loss_changes_nothing_and_a_timeout_begins_again() {
        let (mut bbr, _) = found();
        let before = (bbr.window(), bbr.pace());
        bbr.congested();
        assert_eq!((bbr.window(), bbr.pace()), before);
        bbr.timed_out();
        assert_eq!((bbr.window(), bbr.pace()), (1.0, before.1));
    }

    #[test]
    fn what_was_not_seen_for_ten_seconds_is_looked_for() {
        let (mut bbr, now) = found();
        let later = now + Span::from_secs(11);
        let seen = Acked {
            now: later,
            rate: Some(1_000.0),
            round_trip: Span::from_millis(80),
            in_flight: 90,
            ..ack(1)
        };
        bbr.acked(&seen);
        assert_eq!((bbr.state, bbr.window()), (BbrState::Looks(None), LEAST));
        bbr.acked(&Acked { in_flight: 4, ..seen });
        let end = later + LOOKS;
        assert_eq!(bbr.state, BbrState::Looks(Some(end)));
        bbr.acked(&Acked { now: end, in_flight: 3, round_trip: Span::from_millis(55), ..seen });
        assert_eq!(bbr.shortest(), Some(Span::from_millis(55)));
        assert!(bbr.window() > LEAST && matches!(bbr.state, BbrState::Cycles(..)));
    }
}
