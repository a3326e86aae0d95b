//! BBR-like congestion control: a model of the path determines the window and the pacing rate. The
//! model has the path's rate and its minimum round trip time. (Cardwell and others 2016: version 1,
//! without its reaction to losses.)

use super::Acked;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

/// Pacing gain at startup, which doubles the rate each round trip: 2 / ln 2.
const STARTUP_GAIN: f64 = 2.885;
/// Length of the maximum filter of the rate, in round trips.
const ROUNDS: u64 = 10;
/// Pacing gains of a cycle: one round trip faster, to probe for more bandwidth; one round trip
/// slower, to drain the queue; then at the measured rate.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Window gain: maximum number of segments in flight, as a multiple of the bandwidth-delay product.
const WINDOW_GAIN: f64 = 2.0;
/// A minimum round trip time is valid for `MIN_RTT_VALID`. After that, a new minimum is probed for
/// the time `PROBE_RTT_TIME`, with at most `MIN_WINDOW` segments in flight.
const MIN_RTT_VALID: Span = Span::from_secs(10);
const PROBE_RTT_TIME: Span = Span::from_millis(200);
const MIN_WINDOW: f64 = 4.0;
/// Pacing margin: the pacing rate is slightly less than the measured rate, so that a queue drains.
const MARGIN: f64 = 0.99;
/// Minimum sending quantum, in segments. Below 1.2 Mbit/s, that is `SMALL_QUANTUM_RATE` segments of
/// 1,500 B per second, it is one segment.
const QUANTUM: f64 = 2.0;
const SMALL_QUANTUM_RATE: f64 = 100.0;

/// The state of BBR.
#[derive(Clone, Copy, Debug, PartialEq)]
enum BbrState {
    /// Startup: searching for the rate of the path.
    Startup,
    /// Draining the queue that startup has built.
    Drain,
    /// Cycling the pacing gain. Has the part of the cycle, and the beginning of this part.
    ProbeBw(usize, Time),
    /// Probing the minimum round trip time. Has the end of the probe, if it is already set.
    ProbeRtt(Option<Time>),
}

/// The model of BBR.
#[derive(Clone, Debug)]
pub struct Bbr {
    state: BbrState,
    window: f64,
    initial: f64,
    /// Number of round trips so far.
    round: u64,
    /// Rate samples in segments a second, highest first, each with the round trip in which it was
    /// measured.
    rates: VecDeque<(u64, f64)>,
    /// The minimum round trip time, and the time of its measurement.
    shortest: Option<(Span, Time)>,
    /// The rate when it last grew by a quarter, and the number of round trips since.
    grown: (f64, u32),
    /// True once the rate has stopped growing.
    is_known: bool,
    /// True if a segment was lost or marked since the cycle last advanced.
    lost: bool,
    draw: u64,
}

impl Bbr {
    /// The initial state. The random number `draw` selects the part with which the cycle begins.
    pub fn new(initial: u32, draw: u64) -> Bbr {
        Bbr {
            state: BbrState::Startup,
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

    /// The congestion window in segments.
    pub fn window(&self) -> f64 {
        match self.state {
            BbrState::ProbeRtt(_) => self.window.min(MIN_WINDOW),
            _ => self.window,
        }
    }

    /// The estimated rate of the path, in segments a second.
    pub fn rate(&self) -> Option<f64> {
        self.rates.front().map(|&(_, rate)| rate)
    }

    /// The minimum round trip time.
    pub fn shortest(&self) -> Option<Span> {
        self.shortest.map(|(trip, _)| trip)
    }

    /// The pacing rate in segments a second.
    pub fn pace(&self) -> Option<f64> {
        let gain = match self.state {
            BbrState::Startup => STARTUP_GAIN,
            BbrState::Drain => 1.0 / STARTUP_GAIN,
            BbrState::ProbeBw(part, _) => CYCLE[part],
            BbrState::ProbeRtt(_) => 1.0,
        };
        Some(MARGIN * gain * self.rate()?)
    }

    /// Maximum number of segments in flight for this gain, as in Linux: the bandwidth-delay product
    /// times the gain, plus three sending quanta of 1/1024 s, so that batched acknowledgements
    /// still trigger transmissions. The number is even, because every second segment is
    /// acknowledged. It is two higher while BBR probes for a higher rate.
    fn in_flight(&self, gain: f64) -> Option<f64> {
        let all = (gain * self.holds()?).ceil() + 3.0 * self.quantum()?;
        let more = if matches!(self.state, BbrState::ProbeBw(0, _)) { 2.0 } else { 0.0 };
        Some(2.0 * (all / 2.0).ceil() + more)
    }

    /// The sending quantum: segments that are sent together, 1/1024 s of the rate.
    fn quantum(&self) -> Option<f64> {
        let rate = self.rate()?;
        let least = if rate < SMALL_QUANTUM_RATE { 1.0 } else { QUANTUM };
        Some((rate / 1_024.0).floor().max(least))
    }

    /// Segments in flight when the next quantum is sent, as in Linux: the segments in flight before
    /// this acknowledgement, less the segments that arrive until then. While BBR probes for a
    /// higher rate, the next quantum is included.
    fn in_flight_then(&self, acked: &Acked) -> f64 {
        let now = f64::from(acked.in_flight + acked.segments);
        let arrive = self.rate().unwrap_or(0.0) * acked.paced.as_secs_f64();
        let probes = matches!(self.state, BbrState::ProbeBw(0, _));
        let goes = if probes { self.quantum().unwrap_or(0.0) } else { 0.0 };
        (now + goes - arrive.floor()).max(0.0)
    }

    /// The bandwidth-delay product in segments.
    fn holds(&self) -> Option<f64> {
        Some(self.rate()? * self.shortest()?.as_secs_f64())
    }

    /// Handles lost or marked segments.
    pub fn congested(&mut self) {
        self.lost = true;
    }

    /// Handles a retransmission timeout.
    pub fn timed_out(&mut self) {
        self.window = 1.0;
    }

    /// Handles newly acknowledged segments.
    pub fn acked(&mut self, acked: &Acked) {
        let stale = self.learns(acked);
        let (Some(drained), Some(probed)) = (self.in_flight(1.0), self.in_flight(CYCLE[0])) else {
            self.window += f64::from(acked.segments);
            return;
        };
        let in_flight = f64::from(acked.in_flight);
        if self.state == BbrState::Startup && self.is_known {
            self.state = BbrState::Drain;
        }
        if self.state == BbrState::Drain && in_flight <= drained {
            self.cycles(acked.now);
        }
        if let BbrState::ProbeBw(part, since) = self.state {
            let in_flight = self.in_flight_then(acked);
            let passed = self.shortest.is_some_and(|(trip, _)| acked.now.since(since) > trip);
            let on = match part {
                0 => passed && (self.lost || in_flight >= probed),
                1 => passed || in_flight <= drained,
                _ => passed,
            };
            if on {
                self.state = BbrState::ProbeBw((part + 1) % CYCLE.len(), acked.now);
                self.lost = false;
            }
        }
        if stale && !matches!(self.state, BbrState::ProbeRtt(_)) {
            self.state = BbrState::ProbeRtt(None);
        }
        if let BbrState::ProbeRtt(until) = self.state {
            match until {
                None if in_flight <= MIN_WINDOW => {
                    self.state = BbrState::ProbeRtt(Some(acked.now + PROBE_RTT_TIME));
                }
                Some(until) if acked.now >= until => {
                    self.shortest = self.shortest.map(|(trip, _)| (trip, acked.now));
                    if self.is_known {
                        self.cycles(acked.now);
                    } else {
                        self.state = BbrState::Startup;
                    }
                }
                _ => {}
            }
        }
        let gain = if matches!(self.state, BbrState::Startup | BbrState::Drain) {
            STARTUP_GAIN
        } else {
            WINDOW_GAIN
        };
        let target = self.in_flight(gain).unwrap_or(self.window);
        let more = self.window + f64::from(acked.segments);
        if self.is_known {
            self.window = more.min(target);
        } else if self.window < target.max(self.initial) {
            self.window = more;
        }
        self.window = self.window.max(MIN_WINDOW);
    }

    /// Begins a cycle in a random part other than the slower one.
    fn cycles(&mut self, now: Time) {
        self.draw = self.draw.rotate_right(3);
        let part = [0, 2, 3, 4, 5, 6, 7][(self.draw % 7) as usize];
        self.state = BbrState::ProbeBw(part, now);
    }

    /// Updates the model of the path. Returns true if the minimum round trip time has become stale.
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
        let stale = self.shortest.is_some_and(|(_, at)| acked.now.since(at) > MIN_RTT_VALID);
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

    /// BBR after its startup on a path with 1,000 segments a second and a round trip time of 50 ms.
    fn found() -> (Bbr, Time) {
        let mut bbr = Bbr::new(10, 0);
        let mut now = Time::ZERO;
        // The rate doubles each round trip, up to the rate of the path.
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
        // The rate has not grown by a quarter for three round trips: the excess is drained.
        assert_eq!(bbr.state, BbrState::Drain);
        assert!((bbr.pace().unwrap() - 990.0 / STARTUP_GAIN).abs() < 1e-9);
        let after = Acked {
            now,
            rate: Some(1_000.0),
            round_trip: Span::from_millis(60),
            in_flight: 50,
            ..ack(1)
        };
        bbr.acked(&after);
        assert!(matches!(bbr.state, BbrState::ProbeBw(part, _) if part != 1), "{:?}", bbr.state);
        // The window is twice 50 segments and three quanta of two segments, and two more segments
        // while probing for a higher rate.
        (0..200).for_each(|_| bbr.acked(&after));
        assert!([106.0, 108.0].contains(&bbr.window()), "{}", bbr.window());
    }

    /// The bandwidth-delay product is 50 segments. The quantum is two segments at 1,000 segments a
    /// second, four segments at 5,000, and one segment below 100.
    #[test]
    fn three_quanta_are_under_way_beyond_the_path() {
        let (mut bbr, now) = found();
        assert_eq!(bbr.in_flight(1.0), Some(56.0));
        assert_eq!(bbr.in_flight(1.25), Some(70.0), "62.5 are 63, and 69 is odd");
        bbr.state = BbrState::ProbeBw(0, now);
        assert_eq!(bbr.in_flight(1.25), Some(72.0));
        bbr.state = BbrState::ProbeBw(2, now);
        for (rate, expected) in [(5_000.0, 250.0 + 12.0), (80.0, 4.0 + 3.0 + 1.0)] {
            bbr.rates = VecDeque::from([(0, rate)]);
            assert_eq!(bbr.in_flight(1.0), Some(expected), "{rate}");
        }
    }

    /// At 1,000 segments a second, an acknowledgement of two segments leaves 40 in flight. The
    /// estimate starts from the 42 before it and subtracts the two that arrive in the 2.5 ms until
    /// the next quantum: 40. While probing, the next quantum of two is added: 42.
    #[test]
    fn what_is_under_way_counts_when_the_next_quantum_goes() {
        let (mut bbr, now) = found();
        bbr.state = BbrState::ProbeBw(2, now);
        let acked = Acked { in_flight: 40, paced: Span::from_micros(2_500), ..ack(2) };
        assert_eq!(bbr.in_flight_then(&acked), 40.0);
        bbr.state = BbrState::ProbeBw(0, now);
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
        assert_eq!((bbr.state, bbr.window()), (BbrState::ProbeRtt(None), MIN_WINDOW));
        bbr.acked(&Acked { in_flight: 4, ..seen });
        let end = later + PROBE_RTT_TIME;
        assert_eq!(bbr.state, BbrState::ProbeRtt(Some(end)));
        bbr.acked(&Acked { now: end, in_flight: 3, round_trip: Span::from_millis(55), ..seen });
        assert_eq!(bbr.shortest(), Some(Span::from_millis(55)));
        assert!(bbr.window() > MIN_WINDOW && matches!(bbr.state, BbrState::ProbeBw(..)));
    }
}
