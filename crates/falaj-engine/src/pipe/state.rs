//! The state from which a pipe resumes in another process: queued packets, counters, and how long
//! its link is busy.
//!
//! The discipline's state is not part of it. Packets move to the pipe that resumes as at a change
//! to another discipline: in their order of arrival, none lost, and without deficits or credits of
//! flows.

use super::stats::PipeStats;
use falaj_sched::queues::queue::{FlowId, Packet};
use falaj_sched::units::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The state of a pipe, in serializable form.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PipeState {
    pub(super) waiting: Vec<WaitingPacket>,
    pub(super) stats: PipeStats,
    /// Time at which the link is free for the next packet, in nanoseconds.
    pub(super) free_from: u64,
    /// The end of the last transmission by the link's rate alone; for a token bucket, the time at
    /// which it is full.
    pub(super) wire_end: u64,
    /// Time at which the token bucket of the peak rate is full; zero without one.
    pub(super) peak_end: u64,
    /// State of impairments, if the link has any.
    pub(super) impairments: Option<ImpairmentProgress>,
}

/// A queued packet. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WaitingPacket {
    handle: u32,
    bytes: u32,
    flow: u32,
    arrival: u64,
}

/// Position in the random numbers of impairments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImpairmentProgress {
    /// By flow, the numbers of queued packets.
    pub(crate) numbers: Vec<VecDeque<u64>>,
    /// Number of packets that have left.
    pub(crate) left: u64,
    /// The latest due time of the packets that have left, in nanoseconds.
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
    /// Handles of the queued packets, in their order of arrival.
    pub fn handles(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().map(|packet| packet.handle)
    }

    /// The flow of each queued packet, in the same order.
    pub fn flows(&self) -> impl Iterator<Item = FlowId> + '_ {
        self.waiting.iter().map(|packet| FlowId(packet.flow))
    }

    /// Time at which the link is free for the next packet.
    pub fn free_from(&self) -> Time {
        Time(self.free_from)
    }

    /// Gives the packets other handles: those of the driver that resumes.
    pub fn rename(&mut self, handles: impl Iterator<Item = u32>) {
        for (packet, handle) in self.waiting.iter_mut().zip(handles) {
            packet.handle = handle;
        }
    }

    /// Returns true if the state fits a pipe of `flows` flows and packets of at most `largest`
    /// bytes; it may come from an untrusted source.
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
