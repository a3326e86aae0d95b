//! Generalised processor sharing, the fluid that packet disciplines imitate:
//! every flow that has something is served at once, in proportion to its
//! weight.
//!
//! Parekh and Gallager, "A generalized processor sharing approach to flow
//! control in integrated services networks: the single-node case" (1993).
//! Virtual time `V` grows by `work/sum of the weights present`; a packet starts
//! at `S = max(F of the flow's last, V)` and finishes at `F = S + L/w`, both
//! known when it comes. A flow is present until `V` reaches its last `F`.
//!
//! `Gps` is that clock, driven by work: what a link sends is what its fluid
//! serves, as both keep working while there is anything, so that they run
//! empty together whatever a nanosecond is rounded to. [`Fluid`] is a server
//! of its own, driven by time: what tests and meters compare a discipline with.
//!
//! Work is counted in units of about `2^-63` bytes. Tags are exact and the work
//! that `V` has not shown yet is kept, so `V` is the exact one rounded down. Where
//! the weights have no small common multiple, a packet counts up to a part of
//! `2^-47` longer than it is, in both the link and the fluid.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Sent, Thrown};
use crate::contract::params::{Refusals, Setup};
use crate::mechanisms::weights::{ORIGIN, Shares, Virtual, rescaled, retagged, shifted};
use crate::queues::queue::FlowId;
use crate::units::rate::{BIT_NANOS, Rate};
use crate::units::time::{Span, Time};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes, in units of which [`Shares::byte`] are one.
type Work = u128;

#[derive(Debug, Clone, Copy)]
struct Share {
    /// Of the flow's last packet.
    finish: Virtual,
    /// What was served of packets that were thrown out, in virtual time: less is to be served of
    /// those that come in their stead.
    owed: Virtual,
    slope: u64,
    weight: u32,
}

/// The clock of generalised processor sharing.
#[derive(Debug, Clone)]
pub(crate) struct Gps {
    flows: Vec<Share>,
    /// Who has something, by the finish of his last packet.
    present: Tournament<Virtual>,
    /// The sum of their weights.
    weight: u64,
    now: Virtual,
    /// Work that is done, and too little to move `now`.
    rest: Work,
}

impl Gps {
    pub(crate) fn new(shares: &Shares) -> Gps {
        let share =
            |f| Share { finish: 0, owed: 0, slope: shares.slope(f), weight: shares.weight(f) };
        Gps {
            flows: shares.all().map(share).collect(),
            present: Tournament::new(shares.flows()),
            weight: 0,
            now: ORIGIN,
            rest: 0,
        }
    }

    /// Goes on where `old` stands: with the bytes that it has of each flow, from now on with these
    /// weights.
    fn succeed(&mut self, old: Gps) {
        (self.now, self.rest) = (old.now, old.rest);
        for f in (0..old.flows.len() as u32).map(FlowId) {
            let finish = self.retag(&old, f, old.finish(f));
            let flow = &mut self.flows[f.index()];
            flow.finish = finish;
            if old.present.tag(f).is_some() {
                self.weight += u64::from(flow.weight);
                self.present.set(f, finish);
            }
        }
    }

    /// What a finish of `old`, at its time, is by these weights.
    fn retag(&self, old: &Gps, f: FlowId, tag: Virtual) -> Virtual {
        retagged(tag, old.now, old.slope(f), self.slope(f))
    }

    fn slope(&self, f: FlowId) -> Virtual {
        self.flows[f.index()].slope.into()
    }

    pub(crate) fn now(&self) -> Virtual {
        self.now
    }

    /// Virtual time that a packet of `f` takes.
    #[inline]
    pub(crate) fn length(&self, f: FlowId, bytes: u32) -> Virtual {
        Virtual::from(bytes) * Virtual::from(self.flows[f.index()].slope)
    }

    #[inline]
    fn work(&self, f: FlowId, bytes: u32) -> Work {
        self.length(f, bytes) * Work::from(self.flows[f.index()].weight)
    }

    /// A packet comes to `f`: its finish.
    #[inline]
    pub(crate) fn arrive(&mut self, f: FlowId, bytes: u32) -> Virtual {
        let mut length = self.length(f, bytes);
        let flow = &mut self.flows[f.index()];
        if flow.owed > 0 {
            let less = flow.owed.min(length);
            (flow.owed, length) = (flow.owed - less, length - less);
            if length == 0 {
                return flow.finish;
            }
        }
        if self.present.tag(f).is_none() {
            self.weight += u64::from(flow.weight);
        }
        flow.finish = flow.finish.max(self.now) + length;
        self.present.set(f, flow.finish);
        flow.finish
    }

    /// A packet of `f` is thrown out: as many bytes less are to be served of the flow, from its
    /// end. What of them is served already is owed by who comes in its stead; where nobody
    /// does, it was done for all.
    fn forget(&mut self, f: FlowId, bytes: u32, because: Thrown) {
        let length = self.length(f, bytes);
        let left = self.finish(f).saturating_sub(self.now);
        let flow = &mut self.flows[f.index()];
        flow.finish -= length.min(left);
        if left > length {
            self.present.set(f, flow.finish);
            return;
        }
        let weight = Work::from(flow.weight);
        if because != Thrown::Answered {
            flow.owed += length - left;
        }
        if self.present.tag(f).is_some() {
            self.leave(f);
        }
        if because == Thrown::Answered {
            self.serve((length - left) * weight);
        }
    }

    /// So much work has been done.
    #[inline]
    pub(crate) fn serve(&mut self, work: Work) {
        self.rest += work;
        while let Some((finish, f)) = self.present.first() {
            let needed = self.until(finish);
            if needed > self.rest {
                let step = self.rest / Work::from(self.weight);
                self.now += step;
                self.rest -= step * Work::from(self.weight);
                return;
            }
            self.rest -= needed;
            self.now = finish;
            self.leave(f);
        }
        self.rest = 0;
    }

    /// Work, with what is done of it, until virtual time is `then`.
    #[inline]
    fn until(&self, then: Virtual) -> Work {
        then.saturating_sub(self.now).saturating_mul(Work::from(self.weight))
    }

    fn leave(&mut self, f: FlowId) {
        self.present.remove(f);
        self.weight -= u64::from(self.flows[f.index()].weight);
    }

    /// The link has nothing left. So has the fluid, unless weights changed
    /// meanwhile: then all that it still has is over.
    fn run_empty(&mut self) {
        while let Some((finish, f)) = self.present.first() {
            self.now = self.now.max(finish);
            self.leave(f);
        }
        self.rest = 0;
    }

    fn finish(&self, f: FlowId) -> Virtual {
        self.flows[f.index()].finish
    }
}

/// The fluid beside a link that serves the same packets one by one.
#[derive(Debug, Clone)]
pub(crate) struct Beside {
    gps: Gps,
    /// What the link does in a nanosecond.
    pace: (Work, u64),
    byte: u64,
    sending: Option<Sending>,
}

#[derive(Debug, Clone)]
struct Sending {
    work: Work,
    counted: Work,
    /// Of the rate at which it began.
    pace: (Work, u64),
    start: Time,
    end: Time,
}

impl Beside {
    pub(crate) fn new(shares: &Shares) -> Beside {
        let byte = shares.byte();
        Beside { gps: Gps::new(shares), pace: pace(shares.link(), byte), byte, sending: None }
    }

    /// Goes on where `old` stands at `now`. The link and the fluid have the same bytes left
    /// as before: a flow keeps what it is ahead or behind, and gets its new share from now on.
    pub(crate) fn succeed(&mut self, mut old: Beside, now: Time) {
        old.at(now);
        self.gps.succeed(old.gps);
        self.sending = old.sending.map(|sending| {
            let work = |work| rescaled(work, old.byte.into(), self.byte.into());
            let (left, pace) = (work(sending.work - sending.counted), (work(sending.pace.0), 0));
            Sending { work: left, counted: 0, pace, start: now, end: sending.end }
        });
    }

    /// What the stamp of a packet that waits under `old` is from `now` on.
    pub(crate) fn retag(&self, old: &mut Beside, f: FlowId, tag: Virtual, now: Time) -> Virtual {
        let old = old.at(now);
        shifted(tag, old.now, old.slope(f), self.gps.slope(f))
    }

    /// The clock as it stands at `now`.
    #[inline]
    pub(crate) fn at(&mut self, now: Time) -> &mut Gps {
        if let Some(sending) = &mut self.sending {
            let done = if now >= sending.end {
                sending.work
            } else {
                pace_for(sending.pace, now.since(sending.start)).min(sending.work)
            };
            let work = done - sending.counted;
            sending.counted = done;
            if now >= sending.end {
                self.sending = None;
            }
            if work > 0 {
                self.gps.serve(work);
            }
        }
        &mut self.gps
    }

    /// The link begins to send a packet of `f`.
    #[inline]
    pub(crate) fn take(&mut self, f: FlowId, sent: Sent) {
        let work = self.at(sent.start).work(f, sent.bytes);
        self.sending =
            Some(Sending { work, counted: 0, pace: self.pace, start: sent.start, end: sent.end });
    }

    /// Virtual time that a packet of `f` takes.
    #[inline]
    pub(crate) fn length(&self, f: FlowId, bytes: u32) -> Virtual {
        self.gps.length(f, bytes)
    }

    /// A packet of `f` has gone of which nobody told that it was sent.
    pub(crate) fn gone(&mut self, f: FlowId, bytes: u32) {
        let work = self.gps.work(f, bytes);
        self.gps.serve(work);
    }

    /// A packet of `f` has been thrown out.
    pub(crate) fn forget(&mut self, f: FlowId, bytes: u32, because: Thrown, now: Time) {
        self.at(now).forget(f, bytes, because);
    }

    pub(crate) fn run_empty(&mut self) {
        self.gps.run_empty();
    }

    /// Has the fluid served all of `f`, as far as it has come?
    pub(crate) fn done(&self, f: FlowId) -> bool {
        self.gps.finish(f) <= self.gps.now
    }
}

/// Work that a link of this rate does in a nanosecond, and what of it is lost
/// to rounding, in parts of `BIT_NANOS`.
fn pace(rate: Rate, byte: u64) -> (Work, u64) {
    let whole = Work::from(rate.0) * Work::from(byte);
    (whole / Work::from(BIT_NANOS), (whole % Work::from(BIT_NANOS)) as u64)
}

/// Work in so much time, rounded down.
fn work_in(rate: Rate, byte: u64, time: Span) -> Work {
    pace_for(pace(rate, byte), time)
}

#[inline]
fn pace_for((pace, lost): (Work, u64), time: Span) -> Work {
    let lost = match lost.checked_mul(time.0) {
        Some(lost) => Work::from(lost / BIT_NANOS),
        None => Work::from(lost) * Work::from(time.0) / Work::from(BIT_NANOS),
    };
    pace.saturating_mul(Work::from(time.0)).saturating_add(lost)
}

/// Time for so much work, rounded up.
fn time_of(rate: Rate, byte: u64, work: Work) -> Span {
    let nanos = match work.checked_mul(Work::from(BIT_NANOS)) {
        Some(work) => work.div_ceil(Work::from(rate.0) * Work::from(byte)),
        None => work.div_ceil(pace(rate, byte).0),
    };
    Span(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A fluid server of its own. Fed with a discipline's arrivals, in order of
/// time, it says when each packet starts and finishes in the fluid, and what
/// each flow has got.
///
/// Its instants are the exact ones rounded up to a nanosecond, or one more: each
/// packet that comes may cost it a part of `2^-62` of a byte.
#[derive(Debug, Clone)]
pub struct Fluid {
    gps: Gps,
    rate: Rate,
    byte: u64,
    now: Time,
    /// Bytes that came, for each flow.
    arrived: Vec<u64>,
    /// The flow's last packet.
    last: Vec<Option<usize>>,
    /// Packets that are not finished, by their finish.
    waiting: BTreeSet<(Virtual, usize)>,
    packets: Vec<FluidPacket>,
}

/// What happens to a packet in the fluid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FluidPacket {
    arrival: Time,
    finish: Option<Time>,
    /// The packet of the same flow before it.
    before: Option<usize>,
}

impl Fluid {
    /// A server with the rate and the weights of `setup`.
    pub fn new(setup: &Setup) -> Result<Fluid, Refusals> {
        let shares = Shares::new(setup, "generalised processor sharing")?;
        Ok(Fluid {
            gps: Gps::new(&shares),
            rate: setup.rate,
            byte: shares.byte(),
            now: Time::ZERO,
            arrived: vec![0; shares.flows()],
            last: vec![None; shares.flows()],
            waiting: BTreeSet::new(),
            packets: Vec::new(),
        })
    }

    /// A packet comes to `f`; packets are numbered as they come.
    pub fn arrive(&mut self, f: FlowId, bytes: u32, now: Time) -> usize {
        self.advance(now);
        let packet = self.packets.len();
        self.waiting.insert((self.gps.arrive(f, bytes), packet));
        let before = self.last[f.index()].replace(packet);
        self.packets.push(FluidPacket { arrival: now, finish: None, before });
        self.arrived[f.index()] += u64::from(bytes);
        packet
    }

    /// Serves until `now`.
    pub fn advance(&mut self, now: Time) {
        let work = work_in(self.rate, self.byte, now.since(self.now));
        let mut done = 0;
        while let Some(&(finish, packet)) = self.waiting.first() {
            let step = self.gps.until(finish).saturating_sub(self.gps.rest);
            if step > work - done {
                self.gps.serve(work - done);
                break;
            }
            done += step;
            self.gps.serve(step);
            self.waiting.pop_first();
            self.packets[packet].finish = Some(self.now + time_of(self.rate, self.byte, done));
        }
        self.now = self.now.max(now);
    }

    /// When the last bit of a packet has been served, if it has.
    pub fn finish(&self, packet: usize) -> Option<Time> {
        self.packets.get(packet)?.finish
    }

    /// When its first bit was served: when it came, or after the packet before it.
    pub fn start(&self, packet: usize) -> Option<Time> {
        let packet = self.packets.get(packet)?;
        match packet.before {
            None => Some(packet.arrival),
            Some(before) => Some(packet.arrival.max(self.packets[before].finish?)),
        }
    }

    /// Whole bytes of `f` that have been served so far.
    pub fn served(&self, f: FlowId) -> u64 {
        let left = self.gps.finish(f).saturating_sub(self.gps.now)
            * Work::from(self.gps.flows[f.index()].weight);
        let left = u64::try_from(left.div_ceil(Work::from(self.byte))).unwrap_or(u64::MAX);
        self.arrived[f.index()].saturating_sub(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::{FlowSetup, Value, Values};
    use crate::queues::queue::Limit;
    use crate::units::rate::Rate;

    fn setup(weights: &[u64]) -> Setup {
        let flow = |&w: &u64| FlowSetup {
            values: Values::default().with("weight", Value::Count(w)),
            limit: Limit::Packets(100),
            inner: None,
        };
        let flows = weights.iter().map(flow).collect();
        // A byte takes 1000 ns.
        Setup { rate: Rate::from_mbit(8), largest: 1500, scheduler: Values::default(), flows }
    }

    /// Weights 2, 1, 1; the packets of the notes' first example. Computed by hand:
    /// A has 1/2, B 1/4 from 0 on, of 3/4 together until C comes at 1.
    #[test]
    fn a_fluid_serves_all_at_once() {
        let mut fluid = Fluid::new(&setup(&[2, 1, 1])).unwrap();
        let (a, b, c) = (FlowId(0), FlowId(1), FlowId(2));
        for bytes in [2, 2, 2, 2] {
            fluid.arrive(a, bytes, Time(0));
        }
        for bytes in [4, 1, 3] {
            fluid.arrive(b, bytes, Time(0));
        }
        fluid.advance(Time(1000));
        assert_eq!(
            (fluid.served(a), fluid.served(b)),
            (0, 0),
            "two thirds and one third of a byte"
        );
        fluid.arrive(c, 3, Time(1000));
        fluid.arrive(c, 3, Time(1000));
        fluid.advance(Time(30_000));
        // A: 8 B; 2/3 by 1, then 1/2 a byte each: 22/3 more until 47/3.
        // B: 1/3 by 1, then a quarter: its 4 B at 47/3 too, where A is gone. Half each
        // for B and C until C's last 4/3 B are served, at 61/3; the rest is B's.
        let finish = |n| fluid.finish(n).unwrap().0;
        assert_eq!([0, 1, 2, 3].map(finish), [3_667, 7_667, 11_667, 15_667]);
        assert_eq!([4, 5, 6].map(finish), [15_667, 17_667, 22_000]);
        assert_eq!([7, 8].map(finish), [13_000, 20_334]);
        assert_eq!((fluid.start(5), fluid.start(7)), (Some(Time(15_667)), Some(Time(1_000))));
    }

    /// Virtual time is the exact one rounded down, whatever the weights do.
    #[test]
    fn no_work_is_lost() {
        let setup = setup(&[3, 7, 65_535, 1]);
        let shares = Shares::new(&setup, "").unwrap();
        let mut gps = Gps::new(&shares);
        let mut dice = 1u64;
        let mut roll = |n: u64| {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % n
        };
        let mut owed = 0;
        for _ in 0..200_000 {
            let f = FlowId(roll(4) as u32);
            let bytes = 1 + roll(1500) as u32;
            gps.arrive(f, bytes);
            owed += gps.work(f, bytes);
            let work = owed.min(Work::from(roll(4_000)) * Work::from(shares.byte()) / 3);
            gps.serve(work);
            owed -= work;
            let left = |f: usize| {
                gps.flows[f].finish.saturating_sub(gps.now) * Work::from(gps.flows[f].weight)
            };
            let fluid: Work = (0..4).map(left).sum();
            assert_eq!(fluid, owed + gps.rest, "all that came and was not served is still there");
            assert_eq!(gps.present.is_empty(), owed == 0);
        }
    }
}
