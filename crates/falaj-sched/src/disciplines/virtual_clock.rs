//! Virtual Clock.
//!
//! Zhang, "VirtualClock: a new traffic control algorithm for packet switching networks" (1990).
//! Each flow has a clock, `aux`. A packet of length `L` advances the clock when it arrives, by the
//! packet's time at the flow's rate `r`: `aux = max(now, aux) + L/r`. The new reading of the clock
//! is the packet's stamp. The packet with the smallest reading goes first.
//!
//! Packets are stamped at their arrival. If a packet still waits when its reading has passed, and
//! the flow's next packet arrives then, the clock advances for the next packet from its arrival
//! time, not from the earlier reading. A dropped packet does not advance the clock.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Deadlines, DropImpact, Guarantee, Guarantees};
use crate::contract::hooks::{DropCause, MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::substitute_arrivals::SubstituteTimes;
use crate::mechanisms::timestamp::FlowTimestamps;
use crate::mechanisms::weights::{Instant, ORIGIN, RATE, ROUNDING, instant, pace, rates, shifted};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "virtual-clock",
    doc: "virtual clock: a packet is stamped with the time at which the flow's rate would have \
          sent it, and the smallest stamp goes first; service beyond the rate counts against the \
          flow later",
    source: "L. Zhang 1990",
    cost: "O(log N)",
    guarantee: "rate and delay, to a flow that keeps to an envelope",
    guarantee_source: "Figueira and Pasquale 1995",
    aliases: &["virtual clock"],
    flow: &[RATE],
    editable: &[("rate", "Rate")],
    ..Manifest::PLAIN
};

/// Converts a time into a reading of a flow's clock.
#[inline]
fn clock(now: Time) -> Instant {
    ORIGIN + instant(now)
}

/// Virtual Clock.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    rates: Vec<Rate>,
    paces: Vec<Instant>,
    /// The longest time from a packet's reading to its departure.
    late: Span,
    /// Readings of the heads.
    heads: Tournament<Instant>,
    substitutes: SubstituteTimes<Instant>,
    serving: Option<FlowId>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct ClockedFlow {
    /// The flow's clock, `aux`.
    clock: FlowTimestamps,
}

impl VirtualClock {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<VirtualClock, ConfigErrors> {
        let rates = rates(setup, "virtual clock")?;
        let paces = rates.iter().map(|&rate| pace(rate)).collect();
        Ok(VirtualClock {
            heads: Tournament::new(rates.len()),
            substitutes: SubstituteTimes::new(setup),
            rates,
            paces,
            late: setup.largest_airtime() + ROUNDING,
            serving: None,
        })
    }

    /// Transmission time of `bytes` at the flow's rate.
    #[inline]
    fn length(&self, f: FlowId, bytes: u32) -> Instant {
        Instant::from(bytes) * self.paces[f.index()]
    }

    fn follow(&mut self, flows: &Flows<ClockedFlow, Instant>, f: FlowId) {
        match flows.head(f) {
            Some(bytes) => {
                let (clock, came) = (
                    &flows.state(f).clock,
                    self.substitutes.effective_arrival(f, flows.head_tag(f)),
                );
                self.substitutes.set_head_time(f, clock.start(came));
                self.heads.set(f, clock.finish(came, self.length(f, bytes)));
            }
            None => self.heads.remove(f),
        }
    }
}

impl Discipline for VirtualClock {
    type State = ClockedFlow;
    /// The packet's arrival time.
    type Tag = Instant;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<ClockedFlow, Instant>) {}

    fn retag(&self, old: &mut VirtualClock, f: FlowId, tag: Instant, now: Time) -> Instant {
        shifted(tag, clock(now), old.paces[f.index()], self.paces[f.index()])
    }

    /// A clock that is ahead of now stays ahead by the same number of bytes.
    fn migrate_from(
        &mut self,
        mut old: VirtualClock,
        flows: &mut Flows<ClockedFlow, Instant>,
        now: Time,
    ) {
        self.serving = old.serving;
        for f in (0..old.rates.len() as u32).map(FlowId) {
            flows.state_mut(f).clock.map(|reading| self.retag(&mut old, f, reading, now));
            self.follow(flows, f);
        }
    }

    #[inline(always)]
    fn arrived(
        &mut self,
        _: &mut Flows<ClockedFlow, Instant>,
        _: FlowId,
        _: u32,
        now: Time,
    ) -> Instant {
        clock(now)
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<ClockedFlow, Instant>, f: FlowId, now: Time) {
        self.substitutes.ready(f, now);
        self.follow(flows, f);
    }

    /// Handles the departure of a head that the previous discipline sent.
    fn head_changed(&mut self, flows: &mut Flows<ClockedFlow, Instant>, f: FlowId, _: Time) {
        if let Some(reading) = self.heads.tag(f) {
            flows.state_mut(f).clock.left(reading);
        }
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<ClockedFlow, Instant>, _: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        self.heads.first().map_or(Decision::Idle, |(_, f)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<ClockedFlow, Instant>, f: FlowId, sent: Sent) {
        let (came, length) =
            (self.substitutes.effective_arrival(f, flows.head_tag(f)), self.length(f, sent.bytes));
        flows.state_mut(f).clock.sent(came, length);
        self.substitutes.taken(f, clock(sent.start));
        self.serving = Some(f);
    }

    fn is_reusable(&self, flows: &Flows<ClockedFlow, Instant>, f: FlowId, now: Time) -> bool {
        flows.state(f).clock.is_over(clock(now))
    }
}

impl QueueHooks for VirtualClock {
    fn head_dropped(
        &mut self,
        flows: &mut Flows<ClockedFlow, Instant>,
        f: FlowId,
        _: u32,
        _: DropCause,
        now: Time,
    ) {
        self.substitutes.head_dropped(f, now);
        if let Some(reading) = self.heads.tag(f) {
            flows.state_mut(f).clock.head_dropped(reading);
        }
        self.follow(flows, f);
    }

    fn dropped_behind_head(
        &mut self,
        _: &mut Flows<ClockedFlow, Instant>,
        f: FlowId,
        _: u32,
        _: Time,
    ) {
        self.substitutes.dropped_behind_head(f);
    }
}

impl MediumHooks for VirtualClock {}

impl Guarantees for VirtualClock {
    /// A dropped packet has not advanced the clock.
    fn harm_of_drops(&self) -> DropImpact {
        DropImpact::NoFlow
    }

    /// A flow that exceeded its rate has no bound: its reading may be any time ahead.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        Err(NoGuarantee(format!(
            "virtual clock guarantees {} only to a flow that never exceeds it: a flow that used \
             others' capacity waits until its clock is back at real time, however long that takes",
            self.rates[f.index()]
        )))
    }

    /// A packet leaves at most `L/C` after its reading (Figueira and Pasquale 1995). The reading is
    /// the time at which the flow's rate has carried all packets that the flow sent since its clock
    /// was last set to real time.
    fn deadlines(&self, f: FlowId) -> Option<Deadlines> {
        let rate = self.rates[f.index()];
        Some(Deadlines::new((rate, Span::ZERO, rate), self.late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disciplines::scfq::Scfq;
    use crate::disciplines::wf2q::Wf2q;
    use crate::disciplines::wfq::Wfq;
    use crate::queues::queue::Packet;
    use crate::scheduler::worked_example::{
        THREE_FLOWS, at_once, departures_together, order_together, packets, rates, weights,
        without_instants,
    };

    /// Flows of 1/2, 1/4 and 1/4 of the link.
    #[test]
    fn three_flows_of_different_packets() {
        let sent = order_together(&rates(4, &[500, 250, 250]), VirtualClock::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 A3@6 C1@9 A4@11 B1@15 B2@16 C2@19 B3@22");
    }

    /// The example of Bennett and Zhang 1996.
    #[test]
    fn one_flow_of_half_the_link_among_ten() {
        let setup = rates(1, &[500, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50]);
        let sent = order_together(&setup, VirtualClock::new, &at_once("AAAAAAAAAAABCDEFGHIJK", 1));
        let expected = "A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 B1 C1 D1 E1 F1 G1 H1 I1 J1 K1 A11";
        assert_eq!(without_instants(&sent), expected);
    }

    /// The example of Zhang's thesis, section 2.3.3. Flows A and B have half of the link each. A
    /// sends 900 packets alone at the full rate, then at half of that rate. At time 900, 460
    /// packets of B arrive, enough for the statement of the thesis: Virtual Clock serves 450 of
    /// them before it continues with A; fair disciplines serve A at once.
    #[test]
    fn virtual_clock_remembers_450_packets_of_excess() {
        let (shares, rates) = (weights(1, &[1, 1]), rates(1, &[500, 500]));
        let ends = |sent: &[(Packet, Sent)]| -> Vec<(u32, u64)> {
            sent.iter().map(|(packet, sent)| (packet.flow.0, sent.end.0 / 1_000)).collect()
        };
        let alone = (0..900).map(|at| (at, 'A', 1));
        let mut all: Vec<_> = alone.clone().collect();
        all.extend((0..40).map(|n| (901 + 2 * n, 'A', 1)));
        all.extend([(900, 'B', 1); 460]);
        let all = packets(&all);
        let clocks = ends(&departures_together(&rates, VirtualClock::new, &all));
        assert!(clocks[..900].iter().all(|&(flow, _)| flow == 0));
        assert!(clocks[900..1350].iter().all(|&(flow, _)| flow == 1));
        assert_eq!(clocks[1350], (0, 1351));
        for (name, fair) in [
            ("SCFQ", departures_together(&shares, Scfq::new, &all)),
            ("WFQ", departures_together(&shares, Wfq::new, &all)),
            ("WF2Q", departures_together(&shares, Wf2q::new, &all)),
        ] {
            let fair = ends(&fair);
            assert!(fair[..900].iter().all(|&(flow, _)| flow == 0), "{name}");
            for (n, &departure) in (0..).zip(&fair[900..980]) {
                assert_eq!(departure, ((n + 1) % 2, 901 + u64::from(n)), "{name}");
            }
        }
        // While B also sends at its rate, Virtual Clock, SCFQ and WFQ agree.
        let mut all: Vec<_> = alone.collect();
        all.extend((0..100).flat_map(|n| [(901 + 2 * n, 'A', 1), (900 + 2 * n, 'B', 1)]));
        let all = packets(&all);
        let clocks = departures_together(&rates, VirtualClock::new, &all);
        for (n, (packet, _)) in (0..).zip(&clocks[900..1100]) {
            assert_eq!(packet.flow, FlowId((n + 1) % 2));
        }
        assert_eq!(departures_together(&shares, Scfq::new, &all), clocks);
        assert_eq!(departures_together(&shares, Wfq::new, &all), clocks);
    }

    /// If a packet arrives after the reading of a packet that still waits, the clock advances from
    /// the arrival time. A1 has the reading 1 + 4 = 5 and waits until 10. A2 has the reading
    /// 9 + 4 = 13, after C1's 2 + 10 = 12. If A2 were tagged only when it became the head, its
    /// reading would follow A1's and be 9.
    #[test]
    fn virtual_clock_must_tag_at_arrival() {
        let packets = [(0, 'B', 10), (1, 'A', 1), (2, 'C', 4), (9, 'A', 1)];
        let sent = order_together(&rates(10, &[250, 350, 400]), VirtualClock::new, &packets);
        assert_eq!(sent, "B1@10 A1@11 C1@15 A2@16");
    }
}
