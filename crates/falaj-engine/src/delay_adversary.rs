//! Searches for arrivals that delay the packets of a flow as long as possible. The result shows how
//! close the delay can come to its bound, and whether it exceeds the bound.
//!
//! Each flow has an instant from which it sends a row of packets, each as early as the envelope and
//! the gap of the row allow: a first packet, then packets of two sizes in turn. The search draws
//! such rows and changes a few of their numbers over and over. It keeps a change unless the largest
//! ratio of delay to bound falls. After a number of changes it draws new rows. The result depends
//! on seed and effort only.

use crate::chance::Chance;
use crate::engine::Engine;
use crate::message::{Emit, Output, PipeId, Unit};
use crate::pipe::PipeSpec;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::{Span, Time};
use rand_core::Rng;

/// A packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The instant of its last bit.
    pub at: Time,
    /// Its flow.
    pub flow: FlowId,
    /// Its length in bytes, as the link accounts it.
    pub bytes: u32,
}

/// A pipe whose worst arrivals are searched.
#[derive(Clone, Copy, Debug)]
pub struct Attack<'a> {
    /// The discipline and its setup.
    pub spec: &'a PipeSpec,
    /// The token buckets that each flow conforms to: rate and burst. An empty list: the flow is not
    /// limited.
    pub envelopes: &'a [Vec<(Rate, u64)>],
    /// The bound on the delay of each flow; `None`: the flow's delay is not measured.
    pub bounds: &'a [Option<Span>],
    /// Size of the smallest packet that is tried, in bytes.
    pub smallest: u32,
}

/// The worst arrivals that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Witness {
    /// The arrivals, in the order of their instants.
    pub arrivals: Vec<Arrival>,
    /// The flow whose ratio of delay to bound is the largest.
    pub flow: usize,
    /// The delay of the packet with the largest ratio.
    pub delay: Span,
    /// Delay divided by bound; above 1 the bound is violated.
    pub ratio: f64,
}

/// The packets of one flow.
#[derive(Clone, Debug)]
struct PacketRow {
    /// Instant before which no packet arrives, in nanoseconds.
    start: u64,
    /// Bytes of the first packet.
    first: u32,
    /// Bytes of the packets after it, alternating.
    sizes: [u32; 2],
    packets: u64,
    /// Minimum time between two packets, in nanoseconds; the envelope may require more.
    gap: u64,
    /// Packets of several flows that arrive at one instant come in the order of this number.
    order: u64,
}

/// An exact token bucket: the unit of its level is a byte divided by 8e9.
struct Bucket {
    rate: Rate,
    full: u128,
    level: u128,
    seen: u64,
}

impl Bucket {
    fn new(&(rate, burst): &(Rate, u64)) -> Bucket {
        let full = u128::from(burst) * u128::from(BIT_NANOS);
        Bucket { rate, full, level: full, seen: 0 }
    }

    fn refill(&mut self, now: u64) {
        let more = u128::from(self.rate.0) * u128::from(now - self.seen);
        (self.level, self.seen) = (self.full.min(self.level + more), now);
    }

    /// The first instant from `now` on at which a packet conforms; `None`: never.
    fn earliest(&mut self, now: u64, bytes: u32) -> Option<u64> {
        self.refill(now);
        let needed = u128::from(bytes) * u128::from(BIT_NANOS);
        let short = needed.saturating_sub(self.level);
        let never = needed > self.full || short > 0 && self.rate.0 == 0;
        (!never).then(|| now + short.div_ceil(u128::from(self.rate.0.max(1))) as u64)
    }

    fn take(&mut self, now: u64, bytes: u32) {
        self.refill(now);
        self.level -= u128::from(bytes) * u128::from(BIT_NANOS);
    }
}

/// Number of changes before new rows are drawn.
const CLIMB: u64 = 60;
/// The largest number of packets of a flow.
const PACKETS: u64 = 40;

impl Attack<'_> {
    /// Sends these packets through the pipe, and returns those that left.
    pub fn run(&self, arrivals: &[Arrival]) -> Vec<Emit> {
        let mut engine =
            Engine::new(std::slice::from_ref(self.spec)).expect("the pipe has a guarantee");
        let mut out = Vec::new();
        for (a, handle) in arrivals.iter().zip(0..) {
            engine.input(PipeId(0), Unit { flow: a.flow, handle, bytes: a.bytes }, a.at, &mut out);
        }
        while engine.next_event() != Time::NEVER {
            engine.poll(engine.next_event(), &mut out);
        }
        let sent = out.into_iter();
        sent.filter_map(|o| if let Output::Emit(e) = o { Some(e) } else { None }).collect()
    }

    /// Sends these arrivals through the pipe, and finds the largest ratio of delay to bound, over
    /// all packets of flows that have a bound.
    fn worst(&self, arrivals: Vec<Arrival>) -> Option<Witness> {
        let ratio = |e: &Emit| {
            let (delay, bound) = (e.end - e.arrival, self.bounds[e.flow.index()]?);
            Some((delay.0 as f64 / bound.0.max(1) as f64, e.flow.index(), delay))
        };
        let sent = self.run(&arrivals);
        let worst = sent.iter().filter_map(ratio).max_by(|a, b| a.0.total_cmp(&b.0));
        worst.map(|(ratio, flow, delay)| Witness { arrivals, flow, delay, ratio })
    }

    /// Tries `effort` sequences of arrivals.
    pub fn search(&self, seed: u64, effort: u64) -> Option<Witness> {
        let mut dice = Dice { chance: Chance::new(seed, 0, 0), attack: self };
        let (mut worst, mut here): (Option<Witness>, Option<(Vec<PacketRow>, f64)>) = (None, None);
        for n in 0..effort {
            if n % CLIMB == 0 {
                here = None;
            }
            let rows = match &here {
                Some((rows, _)) => dice.changed(rows),
                None => dice.rows(),
            };
            let Some(found) = self.worst(self.arrivals(&rows)) else { continue };
            if here.as_ref().is_none_or(|&(_, ratio)| found.ratio >= ratio) {
                here = Some((rows, found.ratio));
            }
            if worst.as_ref().is_none_or(|worst| found.ratio > worst.ratio) {
                worst = Some(found);
            }
        }
        worst
    }

    /// The packets of these rows, as early as the envelopes allow.
    fn arrivals(&self, rows: &[PacketRow]) -> Vec<Arrival> {
        let mut all = Vec::new();
        for (f, row) in rows.iter().enumerate() {
            let mut buckets: Vec<Bucket> = self.envelopes[f].iter().map(Bucket::new).collect();
            let mut at = row.start;
            for n in 0..row.packets {
                let bytes = if n == 0 { row.first } else { row.sizes[n as usize % 2] };
                let mut allowed = Some(at);
                // Each bucket may delay the packet. A bucket that allows it at one instant allows
                // it at any later instant, too.
                for bucket in &mut buckets {
                    allowed = allowed.and_then(|at| bucket.earliest(at, bytes));
                }
                let Some(earliest) = allowed else { continue };
                buckets.iter_mut().for_each(|bucket| bucket.take(earliest, bytes));
                let arrival = Arrival { at: Time(earliest), flow: FlowId(f as u32), bytes };
                all.push((earliest, row.order, arrival));
                at = earliest + row.gap;
            }
        }
        all.sort_by_key(|&(at, order, arrival)| (at, order, arrival.flow));
        all.into_iter().map(|(_, _, arrival)| arrival).collect()
    }
}

/// Draws rows of packets.
struct Dice<'a> {
    chance: Chance,
    attack: &'a Attack<'a>,
}

impl Dice<'_> {
    fn below(&mut self, n: u64) -> u64 {
        self.chance.next_u64() % n.max(1)
    }

    /// Draws a packet's length: the largest, the smallest, a byte less than the largest, just above
    /// half of the largest, or any other length.
    fn bytes(&mut self) -> u32 {
        let (least, largest) = (self.attack.smallest, self.attack.spec.setup.largest);
        let bytes = match self.below(6) {
            0 => least,
            1 => largest - 1,
            2 => 1 + self.below(largest.into()) as u32,
            3 => largest / 2 + 1,
            _ => largest,
        };
        bytes.clamp(least, largest)
    }

    /// Draws the start of a row: zero, or later by a few nanoseconds, or by the transmission time
    /// of a few bytes or packets.
    fn start(&mut self) -> u64 {
        let setup = &self.attack.spec.setup;
        let packet = setup.largest_airtime().0.max(1);
        match self.below(7) {
            0 => self.below(4),
            1 => packet + self.below(3),
            2 => self.below(packet),
            3 => self.below(8 * packet),
            4 => setup.rate.airtime_of_many(self.below(8)).0 + self.below(2),
            _ => 0,
        }
    }

    fn gap(&mut self) -> u64 {
        let packet = self.attack.spec.setup.largest_airtime().0.max(1);
        match self.below(6) {
            0 => self.below(packet),
            1 => self.below(8 * packet),
            _ => 0,
        }
    }

    fn packets(&mut self) -> u64 {
        match self.below(4) {
            0 => 1,
            1 => PACKETS,
            _ => 1 + self.below(PACKETS),
        }
    }

    fn row(&mut self) -> PacketRow {
        PacketRow {
            start: self.start(),
            first: self.bytes(),
            sizes: [self.bytes(), self.bytes()],
            packets: self.packets(),
            gap: self.gap(),
            order: self.below(4),
        }
    }

    /// Draws the rows of all flows: the same row for all flows, or a row for each flow. In both
    /// cases the row of one flow is then drawn anew.
    fn rows(&mut self) -> Vec<PacketRow> {
        let flows = self.attack.envelopes.len();
        let alike = self.below(2) == 0;
        let one = self.row();
        let mut rows: Vec<PacketRow> =
            (0..flows).map(|_| if alike { one.clone() } else { self.row() }).collect();
        let victim = self.below(flows as u64) as usize;
        rows[victim] = self.row();
        rows
    }

    /// These rows with a few numbers changed.
    fn changed(&mut self, rows: &[PacketRow]) -> Vec<PacketRow> {
        let mut rows = rows.to_vec();
        for _ in 0..1 + self.below(3) {
            let f = self.below(rows.len() as u64) as usize;
            match self.below(9) {
                0 => rows[f].start = self.start(),
                1 => {
                    let nudge = 1 + self.below(64);
                    let start = rows[f].start;
                    let later = self.below(2) == 0;
                    rows[f].start = if later { start + nudge } else { start.saturating_sub(nudge) };
                }
                2 => rows[f].first = self.bytes(),
                3 => rows[f].sizes = [self.bytes(), self.bytes()],
                4 => rows[f].packets = self.packets(),
                5 => rows[f].gap = self.gap(),
                6 => rows[f].order = self.below(4),
                7 => rows[f] = self.row(),
                _ => {
                    let other = self.below(rows.len() as u64) as usize;
                    rows[f] = rows[other].clone();
                }
            }
        }
        rows
    }
}
