//! The state by which a pipe goes on in another process: packets that wait, counters, and how long
//! its link is busy.
//!
//! The discipline is not in it. Packets come to its successor as at a change to another one: in the
//! order in which they came, none lost, and what flows owe or are owed begins anew.

use super::stats::PipeStats;
use falaj_sched::queues::queue::{FlowId, Packet};
use falaj_sched::units::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The state of a pipe, to be written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PipeState {
    pub(super) waiting: Vec<WaitingPacket>,
    pub(super) stats: PipeStats,
    /// When the link may be given the next packet, in nanoseconds.
    pub(super) free_from: u64,
    /// The same by the link's rate alone; of a bucket, when it is full.
    pub(super) wire_end: u64,
    /// Where the link does something to packets.
    pub(super) impairments: Option<ImpairmentProgress>,
}

/// A packet that waits. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WaitingPacket {
    handle: u32,
    bytes: u32,
    flow: u32,
    arrival: u64,
}

/// How far the random numbers of impairments have come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImpairmentProgress {
    /// By flow, the numbers of packets that wait.
    pub(crate) numbers: Vec<VecDeque<u64>>,
    /// How many packets have left.
    pub(crate) left: u64,
    /// When the last of those that left is due, in nanoseconds.
    pub(crate) last: u64,
}

impl From<Packet> for WaitingPacket {
    fn from(packet: Packet) -> WaitingPacket {
        let Packet { handle, bytes, flow, arrival } = packet;
        WaitingPacket { handle, bytes, flow: flow.0, arrival: arrival.0 }
    }
}

impl From<WaitingPacket> for Packet {
    fn from(waiting: WaitingPacket) -> Packet {
        let WaitingPacket { handle, bytes, flow, arrival } = waiting;
        Packet { handle, bytes, flow: FlowId(flow), arrival: Time(arrival) }
    }
}

impl PipeState {
    /// The packets that wait, by their handles, in the order in which they came.
    pub fn handles(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().map(|packet| packet.handle)
    }

    /// The flow of each of these.
    pub fn flows(&self) -> impl Iterator<Item = FlowId> + '_ {
        self.waiting.iter().map(|packet| FlowId(packet.flow))
    }

    /// When the link may be given the next packet.
    pub fn free_from(&self) -> Time {
        Time(self.free_from)
    }

    /// Gives the packets other handles: the driver's that goes on.
    pub fn rename(&mut self, handles: impl Iterator<Item = u32>) {
        for (packet, handle) in self.waiting.iter_mut().zip(handles) {
            packet.handle = handle;
        }
    }

    /// Returns true if all that it says fits a pipe of so many flows: it may come from anywhere.
    pub(super) fn fits(&self, flows: usize, largest: u32) -> bool {
        let waits = |packet: &WaitingPacket| {
            (packet.flow as usize) < flows && (1..=largest).contains(&packet.bytes)
        };
        let numbered = |progress: &ImpairmentProgress| progress.numbers.len() == flows;
        self.stats.fits(flows)
            && self.waiting.iter().all(waits)
            && self.impairments.as_ref().is_none_or(numbered)
    }
}
