//! Round robin by packets, plain and weighted.
//!
//! In a visit (its turn in the round) a flow sends up to `weight` packets, including those that
//! arrive meanwhile; a flow without packets is not visited. Shares are in packets, not in bytes: a
//! flow of larger packets gets more bytes.
//!
//! Notation of the bounds: `w` is the weight of our flow, `F` the sum of the weights, `C` the rate
//! of the link and `L` the largest packet. `X = (F - w) L` is the maximum that other flows send
//! between two visits of our flow. `k` is the number of packets of a full queue: its limit `b` in
//! packets, or one packet for each byte. The last packet of the queue leaves in visit
//! `m = ceil(k/w)` at the latest, and each other flow is visited at most `m` times until then. When
//! `S` bytes of our flow have left, they were at most `S` packets. The next packet then ends before
//! `[S + L + (S/w + 1) X]/C`: a service curve of rate `C w/(w + X)` and latency `(L + X)/C`. If all
//! packets are cells of the length `L`, the rate is `C w/F` (Stiliadis and Varma 1998).

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, Settling, finite_rate, full_queue, room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::{Place, Round};
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::rate::{Rate, Wire};
use crate::units::time::Time;
use alloc::vec::Vec;

/// Name, parameters and guarantee of plain round robin.
pub const RR: Manifest = Manifest {
    kind: "rr",
    doc: "round robin: one packet of each flow in turn",
    source: "Nagle 1987",
    cost: "O(1)",
    guarantee: "rate and delay",
    guarantee_source: "own derivation; for cells Stiliadis and Varma 1998",
    ..Manifest::PLAIN
};

/// Name, parameters and guarantee of weighted round robin.
pub const MANIFEST: Manifest = Manifest {
    kind: "wrr",
    doc: "weighted round robin: in each round, a flow sends up to its weight in packets",
    source: "Katevenis, Sidiropoulos and Courcoubetis 1991",
    cost: "O(1)",
    guarantee: "rate and delay",
    guarantee_source: "own derivation; for cells Stiliadis and Varma 1998",
    aliases: &["weighted round robin"],
    flow: &[Param {
        name: "weight",
        kind: Kind::Count { min: 1, max: 65_536 },
        default: Some("1"),
        doc: "the maximum number of packets that the flow sends in each round; shares are in \
              packets, so larger packets get more of the link",
    }],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    ..Manifest::PLAIN
};

/// Round robin by packets.
#[derive(Debug, Clone)]
pub struct Wrr {
    weights: Vec<u32>,
    round: Round,
    /// Packets sent in the current visit.
    sent: u32,
    rate: Rate,
    largest: u64,
    /// Packets of a whole round.
    frame: u64,
    limits: Vec<Limit>,
    full_queues: Vec<u64>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct WrrFlow {
    weight: u32,
    place: Place,
}

impl AsMut<Place> for WrrFlow {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

impl Wrr {
    /// Validates the setup; flows without a weight get weight 1.
    pub fn new(setup: &Setup) -> Result<Wrr, ConfigErrors> {
        finite_rate(setup, "round robin")?;
        room_for_one(setup)?;
        let mut weights = Vec::new();
        for (flow, f) in setup.flows.iter().enumerate() {
            let weight = f.values.count("weight").unwrap_or(1);
            if !(1..=65_536).contains(&weight) {
                return Err(ConfigError {
                    flow: Some(flow),
                    param: "weight",
                    what: alloc::format!("a weight of {weight} is out of range"),
                    help: "1 to 65536 packets".into(),
                }
                .into());
            }
            weights.push(weight as u32);
        }
        Ok(Wrr {
            frame: weights.iter().map(|&weight| u64::from(weight)).sum(),
            weights,
            round: Round::EMPTY,
            sent: 0,
            rate: setup.rate,
            largest: u64::from(setup.largest).max(1),
            limits: setup.flows.iter().map(|f| f.limit).collect(),
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }
}

impl Discipline for Wrr {
    type State = WrrFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<WrrFlow>) {
        for (f, &weight) in self.weights.iter().enumerate() {
            *flows.state_mut(FlowId(f as u32)) = WrrFlow { weight, place: Place::default() };
        }
    }

    /// The round continues; packets sent in the current visit count against the new weight.
    fn migrate_from(&mut self, old: Wrr, flows: &mut Flows<WrrFlow>, _: Time) {
        (self.round, self.sent) = (old.round, old.sent);
        for (f, &weight) in self.weights.iter().enumerate() {
            flows.state_mut(FlowId(f as u32)).weight = weight;
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<WrrFlow>, f: FlowId, _: Time) {
        self.round.join(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<WrrFlow>, _: Time, _: &Wire) -> Decision {
        while let Some(f) = self.round.first() {
            if flows.head(f).is_none() {
                self.round.leave(flows);
            } else if self.sent >= flows.state(f).weight {
                self.round.rotate(flows);
            } else {
                return Decision::Serve(f);
            }
            self.sent = 0;
        }
        Decision::Idle
    }

    #[inline(always)]
    fn on_transmit(&mut self, _: &mut Flows<WrrFlow>, _: FlowId, _: Sent) {
        self.sent += 1;
    }
}

impl QueueHooks for Wrr {}
impl MediumHooks for Wrr {}

impl Guarantees for Wrr {
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let (full, limit) = (self.full_queues[f.index()], self.limits[f.index()]);
        let weight = u64::from(self.weights[f.index()]);
        let between = (self.frame - weight) * self.largest;
        let until = |packets: u64, bytes: u64| {
            let visits = packets.div_ceil(weight);
            self.rate.airtime_of_many(visits.saturating_mul(between).saturating_add(bytes))
        };
        let (packets, formula) = match limit {
            Limit::Packets(b) => (u64::from(b), "(B + m (F-w) L)/C, m = ceil(b/w)"),
            Limit::Bytes(b) => (b, "(B + m (F-w) L)/C, m = ceil(B/w) as a packet may have 1 B"),
        };
        let mut others = Vec::new();
        if let Limit::Bytes(bytes) = limit {
            others.push(Bound {
                delay: until(bytes / self.largest, bytes),
                formula: "(B + m (F-w) L)/C, m = ceil(B/L/w)",
                condition: "if its packets have the largest size",
            });
        }
        let share = u128::from(self.rate.0) * u128::from(weight) / u128::from(weight + between);
        Ok(Guarantee {
            rate: Rate(share as u64),
            latency: self.rate.airtime_of_many(between + self.largest),
            rate_formula: "C w/(w + (F-w) L) if its packets have 1 B, C w/F if all have one size",
            delay: Bound {
                delay: until(packets, full),
                formula,
                condition: "packets that found room",
            },
            others,
        })
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(0)
    }

    /// Even if a backlogged interval starts within a visit, the next `m` visits are preceded by at
    /// most `m` visits of each other flow.
    fn serves_strictly(&self) -> bool {
        true
    }

    fn service_behind(&self, f: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee> {
        Ok(self.service(f)?.after(server.latency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::{Value, Values};
    use crate::scheduler::worked_example::{
        THREE_FLOWS, at_once, departures, guarantee, longest_delay, order, packets, setup, weights,
    };
    use crate::units::time::Span;

    /// Weights 2 and 1. The first visit sends the packet that arrived at 0 and the packet that
    /// arrives during the visit, at 50 us. The packet of 150 us waits for the next visit.
    #[test]
    fn a_visit_sends_as_many_packets_as_the_weight_says() {
        let packets = [(0, 'A', 100), (0, 'B', 300), (50, 'A', 100), (150, 'A', 100)];
        let sent = order(&weights(500, &[2, 1]), Wrr::new, &packets);
        assert_eq!(sent, "A1@100 A2@200 B1@500 A3@600");
    }

    #[test]
    fn weights_are_packets_of_a_visit() {
        let sent = order(&weights(4, &[2, 1, 1]), Wrr::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 B1@8 C1@11 A3@13 A4@15 B2@16 C2@19 B3@22");
        let cells = order(&weights(4, &[3, 2, 1]), Wrr::new, &at_once("AAAAAABBBBCCCC", 1));
        let expected = "A1@1 A2@2 A3@3 B1@4 B2@5 C1@6 A4@7 A5@8 A6@9 B3@10 B4@11 C2@12 C3@13 C4@14";
        assert_eq!(cells, expected);
        let rr = setup(4, core::iter::repeat_n(Values::default(), 3));
        let sent = order(&rr, Wrr::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 B1@6 C1@9 A2@11 B2@12 C2@15 A3@17 B3@20 A4@22");
    }

    #[test]
    fn a_packet_that_comes_during_the_visit_counts() {
        let setup = weights(4, &[2, 1]);
        let meanwhile = [(0, 'A', 2), (0, 'B', 4), (0, 'B', 4), (1, 'A', 2)];
        assert_eq!(order(&setup, Wrr::new, &meanwhile), "A1@2 A2@4 B1@8 B2@12");
        let too_late = [(0, 'A', 2), (0, 'B', 4), (0, 'B', 4), (2, 'A', 2)];
        assert_eq!(order(&setup, Wrr::new, &too_late), "A1@2 B1@6 A2@8 B2@12");
    }

    /// All other flows send as many of the largest packets as they may before our flow's packets:
    /// the delay bound is reached, less the microsecond by which our packets arrive after the first
    /// one of B.
    #[test]
    fn the_bounds_of_weighted_round_robin_are_reached() {
        let mut setup = weights(4, &[2, 3, 4]);
        setup.flows[0].limit = Limit::Packets(5);
        let mut all = [at_once(&"B".repeat(30), 4), at_once(&"C".repeat(30), 4)].concat();
        all.extend([(1, 'A', 4); 5]);
        let delay = |setup: &Setup| longest_delay(&departures(setup, Wrr::new, &packets(&all)), 0);
        let bound = |setup: &Setup| guarantee(setup, Wrr::new, 0).delay.delay;
        // Five packets of our flow, and three times seven of the others.
        assert_eq!(bound(&setup), Span::from_micros((5 + 3 * 7) * 4));
        assert_eq!(delay(&setup), bound(&setup) - Span::from_micros(1));
        setup.flows[0].values.set("weight", Value::Count(3));
        assert_eq!(delay(&setup), bound(&setup) - Span::from_micros(1));
    }
}
