//! What the loop counts and measures, and how it is asked.

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

/// Packets that the port at the far end did not take: no room there, no reader, its interface down,
/// or not a frame that the kernel accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotTaken {
    /// Number of packets.
    pub packets: u64,
    /// Their bytes, as the link accounts them.
    pub bytes: u64,
}

impl NotTaken {
    /// Adds what another flow lost in this way.
    pub fn add(&mut self, more: &NotTaken) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// What was measured of a flow.
#[derive(Clone, Debug, Default)]
pub struct LiveFlow {
    /// What the engine counted.
    pub counters: Counters,
    /// Packets of it that left the link, and that the far end did not take.
    pub not_taken: NotTaken,
    /// Nominal delay of packets that were handed over: last bit in to last bit out.
    pub delay: Meter,
    /// How late they were handed over: the call of the port, less the instant at
    /// which they were to be handed over.
    pub release_error: Meter,
    /// How much later than due that instant was, so that packets of a unit left together.
    pub held: Meter,
    /// By how much the time between two hand-overs differed from what it was to be.
    pub gap_error: Meter,
    /// How late the last hand-over was.
    pub(super) last_late: Option<Span>,
}

/// So many flows of a forwarder have percentiles to three digits; where there are more, each has
/// them to half an octave.
const FEW: usize = 64;

impl LiveFlow {
    /// Of one among so many: what is measured of thousands has to be small.
    pub fn among(number: usize) -> LiveFlow {
        if number <= FEW {
            return LiveFlow::default();
        }
        let [delay, release_error, held, gap_error] = [const { Meter::coarse() }; 4];
        LiveFlow { delay, release_error, held, gap_error, ..LiveFlow::default() }
    }
}

/// What was lost outside the engine, the link's fault or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveLosses {
    /// No rule took them, or no flow of their link.
    pub unmatched: u64,
    /// The port at the far end did not take them: no room, interface down, or
    /// not a frame that the kernel accepts.
    pub not_taken: u64,
    /// The port could not make sense of them.
    pub unreadable: u64,
    /// There was no memory for them.
    pub no_memory: u64,
    /// Nobody read them in time at the entrance. Who holds the sandbox knows
    /// ([`Sandbox::unread`](crate::sandbox::Sandbox::unread)); the forwarder does not.
    pub unread: u64,
    /// They came to a receiver that did not read them in time; the receiver knows.
    pub overflowed: u64,
    /// They were for an Ethernet address that no adapter has used
    /// ([`Adapters::unknown`](crate::adapters::Adapters::unknown)).
    pub unknown: u64,
}

impl LiveLosses {
    /// How many for which reason, to be read after "packets".
    pub fn by_reason(&self) -> [(u64, &'static str); 7] {
        [
            (self.unmatched, "matched no rule"),
            (self.not_taken, "were not taken by the far end"),
            (self.unreadable, "could not be read"),
            (self.no_memory, "found no memory"),
            (self.unread, "were not read in time at the entrance"),
            (self.overflowed, "were not read in time by the receiver"),
            (self.unknown, "were for an Ethernet address that no adapter has used"),
        ]
    }
}

/// What woke the loop, and what it did awake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopActivity {
    /// Sleeps that ended because something was due soon.
    pub by_timer: u64,
    /// Sleeps that ended because there was a packet, be it at once.
    pub by_packet: u64,
    /// Sleeps that ended because a port had room again.
    pub by_room: u64,
    /// Sleeps that ended for whoever called: a deadline, another descriptor.
    pub by_caller: u64,
    /// Sleeps, soon over, of a loop that is before all other threads, which they were owed as it
    /// had not slept as long by itself.
    pub for_others: u64,
    /// Times that a port which paces a link had no room for what it was handed; that waited, and
    /// nothing was lost.
    pub refused: u64,
    /// Time awake with nothing to do but to look at ports and clock.
    pub spun: Span,
    /// Time in which the hybrid timer slept alone, as others waited for a processor.
    pub rested: Span,
}

impl Forwarder {
    /// What was measured so far, by pipe and flow.
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

    /// The pipe that those who ask call so.
    pub(super) fn called(&self, pipe: PipeId) -> PipeId {
        self.order.get(pipe.0 as usize).copied().unwrap_or(pipe)
    }

    /// The engine's counters of one flow so far.
    pub fn counters(&self, pipe: PipeId, flow: FlowId) -> Counters {
        self.network.counters(self.called(pipe), flow)
    }

    /// What a mask made, of a flow or of the link; see
    /// [`mask_stats`](falaj_engine::network::Network::mask_stats).
    pub fn report(&self, pipe: PipeId, flow: Option<FlowId>, busiest: usize) -> Option<MaskStats> {
        self.network.mask_stats(self.called(pipe), flow, busiest)
    }

    /// What happened in links that were taken away.
    pub fn ended_pipe_counters(&self) -> Counters {
        self.network.ended_pipe_counters()
    }

    /// How disciplines of libraries broke their contract; see
    /// [`breaches`](falaj_engine::network::Network::breaches).
    pub fn breaches(&self, pipe: PipeId) -> Vec<Breach> {
        self.network.breaches(self.called(pipe))
    }

    /// What was lost outside the engine.
    pub fn losses(&self) -> LiveLosses {
        LiveLosses { unmatched: self.losses.unmatched + self.network.unmatched(), ..self.losses }
    }

    /// What became of what each rule has taken, in the links that it leads to.
    pub fn active(&self) -> &[RuleStats] {
        self.network.active()
    }

    /// What each rule has taken so far.
    pub fn taken(&self) -> &[RuleCounters] {
        self.network.taken()
    }

    /// How late the latest hand-over was since this was asked last: a stall of the host is at least
    /// that long.
    pub fn take_latest(&mut self) -> Span {
        std::mem::take(&mut self.latest)
    }

    /// What woke the loop so far, and what it did awake.
    pub fn awake(&self) -> LoopActivity {
        LoopActivity { rested: self.adaptive_sleep.rested(), ..self.awake }
    }
}
