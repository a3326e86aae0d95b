//! A fluid server that runs by itself, beside a discipline.

use crate::contract::params::{ConfigErrors, Setup};
use crate::mechanisms::gps::clock::{Gps, Work};
use crate::mechanisms::gps::work::{time_of, work_in};
use crate::mechanisms::weights::{Shares, Virtual};
use crate::queues::queue::FlowId;
use crate::units::rate::Rate;
use crate::units::time::Time;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// A fluid server that runs beside a discipline, for comparison. Given the discipline's arrivals,
/// in order of time, it returns the start and finish of each packet in the fluid system, and the
/// service of each flow.
///
/// Its instants are the exact ones rounded up to a nanosecond. They may be a nanosecond more,
/// because each arrival may add a rounding error of less than `2^-62` of a byte.
#[derive(Debug, Clone)]
pub struct Fluid {
    gps: Gps,
    rate: Rate,
    byte: u64,
    now: Time,
    /// Bytes that have arrived, for each flow.
    arrived: Vec<u64>,
    /// The flow's last packet.
    last: Vec<Option<usize>>,
    /// Packets that are not finished, by virtual finish time.
    waiting: BTreeSet<(Virtual, usize)>,
    packets: Vec<FluidPacket>,
}

/// State of a packet in the fluid system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FluidPacket {
    arrival: Time,
    finish: Option<Time>,
    /// The packet of the same flow before it.
    before: Option<usize>,
}

impl Fluid {
    /// A server with the rate and the weights of `setup`.
    pub fn new(setup: &Setup) -> Result<Fluid, ConfigErrors> {
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

    /// Adds a packet of `f`; packets are numbered in order of arrival.
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

    /// Time at which the last bit of a packet was served, or `None` if it is not served yet.
    pub fn finish(&self, packet: usize) -> Option<Time> {
        self.packets.get(packet)?.finish
    }

    /// Time at which the first bit of a packet was served: at its arrival, or after the flow's
    /// previous packet.
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
