//! Counters and measurements of the loop.

use super::Forwarder;
use falaj_engine::PipeId;
use falaj_engine::masks::MaskStats;
use falaj_engine::pipe::Counters;
use falaj_engine::rules::{RuleCounters, RuleStats};
use falaj_sched::contract::breach::Breach;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_traffic::meter::Meter;
use serde::{Deserialize, Serialize};

/// Packets that the port at the far end did not accept: it had no room or no reader, its interface
/// was down, or the kernel rejected the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotTaken {
    /// Number of packets.
    pub packets: u64,
    /// Their bytes, as the link accounts them.
    pub bytes: u64,
}

impl NotTaken {
    /// Adds the packets of another flow.
    pub fn add(&mut self, more: &NotTaken) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// Measurements of a flow.
#[derive(Clone, Debug, Default)]
pub struct LiveFlow {
    /// The engine's counters.
    pub counters: Counters,
    /// Packets that left the link, but were not accepted by the far end.
    pub not_taken: NotTaken,
    /// Nominal delay of delivered packets: last bit in to last bit out.
    pub delay: Meter,
    /// Release error: the instant of the port's call, less the instant of planned delivery.
    pub release_error: Meter,
    /// Time by which planned delivery was later than due, so that packets of a unit left together.
    pub held: Meter,
    /// Difference between the actual and the planned time from one delivery to the next.
    pub gap_error: Meter,
    /// Lateness of the last delivery.
    pub(super) last_late: Option<Span>,
}

/// Up to this number of flows, percentiles have three digits; with more flows, they have a
/// resolution of half an octave (a factor of 1.4).
const FEW: usize = 64;

impl LiveFlow {
    /// Measurements of one of `number` flows. With thousands of flows they have to be small.
    pub fn among(number: usize) -> LiveFlow {
        if number <= FEW {
            return LiveFlow::default();
        }
        let [delay, release_error, held, gap_error] = [const { Meter::coarse() }; 4];
        LiveFlow { delay, release_error, held, gap_error, ..LiveFlow::default() }
    }
}

/// Numbers of packets lost outside the engine, whether the link caused the loss or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveLosses {
    /// No rule matched them, or no flow of their link.
    pub unmatched: u64,
    /// The port at the far end did not accept them: no room, interface down, or a frame that the
    /// kernel rejects.
    pub not_taken: u64,
    /// The port could not parse them.
    pub unreadable: u64,
    /// There was no memory for them.
    pub no_memory: u64,
    /// They were not read in time at the interface where they enter. The owner of the sandbox
    /// counts them ([`Sandbox::unread`](crate::sandbox::Sandbox::unread)); the forwarder does not.
    pub unread: u64,
    /// Their receiver did not read them in time; the receiver counts them.
    pub overflowed: u64,
    /// They were for an Ethernet address that no adapter has used
    /// ([`Adapters::unknown`](crate::adapters::Adapters::unknown)).
    pub unknown: u64,
}

impl LiveLosses {
    /// Counts with their reasons; each reason continues a sentence that begins with "packets".
    pub fn by_reason(&self) -> [(u64, &'static str); 7] {
        [
            (self.unmatched, "matched no rule"),
            (self.not_taken, "were not accepted by the far end"),
            (self.unreadable, "could not be read"),
            (self.no_memory, "were dropped for lack of memory"),
            (self.unread, "were not read in time where they enter"),
            (self.overflowed, "were not read in time by the receiver"),
            (self.unknown, "were for an Ethernet address that no adapter has used"),
        ]
    }
}

/// Causes of wake-ups, and activity while awake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopActivity {
    /// Sleeps that ended because a packet was due soon.
    pub by_timer: u64,
    /// Sleeps that ended because a packet arrived, including those that ended at once.
    pub by_packet: u64,
    /// Sleeps that ended because a port had room again.
    pub by_room: u64,
    /// Sleeps that ended for the caller: a deadline, another descriptor.
    pub by_caller: u64,
    /// Short sleeps of a real-time loop that were owed to other threads, because it had not slept
    /// long enough by itself.
    pub for_others: u64,
    /// Number of times that a port which paces a link had no room for a packet; the packet was
    /// kept, and nothing was lost.
    pub refused: u64,
    /// Time awake with nothing to do except polling ports and clock.
    pub spun: Span,
    /// Time in which the hybrid timer slept without spinning, because other threads waited for a
    /// processor.
    pub rested: Span,
}

impl Forwarder {
    /// Measurements so far, by pipe and flow.
    pub fn flows(&self) -> Vec<Vec<LiveFlow>> {
        let flow = |pipe: PipeId, (f, flow): (usize, &LiveFlow)| {
            let counters = self.network.counters(pipe, FlowId(f as u32));
            LiveFlow { counters, ..flow.clone() }
        };
        let pipe = |&pipe: &PipeId| {
            self.flows[pipe.0 as usize].iter().enumerate().map(|of| flow(pipe, of)).collect()
        };
        self.order.iter().map(pipe).collect()
    }

    /// The pipe of this number in the callers' numbering.
    pub(super) fn called(&self, pipe: PipeId) -> PipeId {
        self.order.get(pipe.0 as usize).copied().unwrap_or(pipe)
    }

    /// The engine's counters of a flow.
    pub fn counters(&self, pipe: PipeId, flow: FlowId) -> Counters {
        self.network.counters(self.called(pipe), flow)
    }

    /// Statistics of the mask of a flow or of the link; see
    /// [`mask_stats`](falaj_engine::network::Network::mask_stats).
    pub fn report(&self, pipe: PipeId, flow: Option<FlowId>, busiest: usize) -> Option<MaskStats> {
        self.network.mask_stats(self.called(pipe), flow, busiest)
    }

    /// Counters of removed links.
    pub fn ended_pipe_counters(&self) -> Counters {
        self.network.ended_pipe_counters()
    }

    /// Breaches of contract by plugin disciplines; see
    /// [`breaches`](falaj_engine::network::Network::breaches).
    pub fn breaches(&self, pipe: PipeId) -> Vec<Breach> {
        self.network.breaches(self.called(pipe))
    }

    /// Losses outside the engine.
    pub fn losses(&self) -> LiveLosses {
        LiveLosses { unmatched: self.losses.unmatched + self.network.unmatched(), ..self.losses }
    }

    /// Statistics of the packets that each rule has taken, in the links that it leads to.
    pub fn active(&self) -> &[RuleStats] {
        self.network.active()
    }

    /// Counters of the packets that each rule has taken.
    pub fn taken(&self) -> &[RuleCounters] {
        self.network.taken()
    }

    /// The largest lateness of a delivery since the last call. The host was stalled for at least
    /// that time.
    pub fn take_latest(&mut self) -> Span {
        std::mem::take(&mut self.latest)
    }

    /// Causes of wake-ups and activity so far.
    pub fn awake(&self) -> LoopActivity {
        LoopActivity { rested: self.adaptive_sleep.rested(), ..self.awake }
    }
}
