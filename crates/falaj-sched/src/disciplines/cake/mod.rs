//! Common Applications Kept Enhanced: Høiland-Jørgensen, Täht and Morton, "Piece of CAKE" (2018).
//!
//! A hash with eight ways (a set-associative hash) distributes connections over queues. Queues take
//! turns by DRR++: a queue that was empty is served before the others, until it has sent a quantum.
//! COBALT (the AQMs CoDel and BLUE together) keeps each queue short. If all queues together exceed
//! the limit, the longest queue loses the packet that has waited longest. A shaper without bursts
//! spaces packets: each packet starts when the previous one has had its time at the shaper's rate.
//!
//! Here CAKE has a single tin (priority class), and isolates connections, not hosts: a discipline
//! knows neither the DSCP nor the hosts of a packet.

mod ways;

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Draw};
use crate::contract::guarantee::{Guarantee, Guarantees, finite_rate};
use crate::contract::hooks::{DropCause, MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Idling, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::{Place, Round};
use crate::mechanisms::arrival_stamp::ArrivalStamp;
use crate::mechanisms::deficit::{SURPLUS_QUANTUM, Surplus, surplus_quantum};
use crate::mechanisms::longest_queue::LongestQueue;
use crate::queues::aqm::cobalt::{Cobalt, CobaltParameters};
use crate::queues::aqm::codel;
use crate::queues::aqm::none_besides;
use crate::queues::aqm::policy::CoDelParameters;
use crate::queues::aqm::verdict::{Head, Verdict};
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::draws::Draws;
use crate::units::label::Label;
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use ways::{QUEUES, Ways};

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "cake",
    doc: "CAKE: a shaper without bursts, and a queue for each connection, which share the link as \
          by DRR++ and are each kept short by COBALT",
    source: "Høiland-Jørgensen, Täht and Morton 2018",
    cost: "O(1), O(log N) from when `limit` is exceeded until half of it is queued",
    guarantee: "nothing",
    guarantee_source: "—",
    purposes: &[Purpose::Connections],
    aliases: &["common applications kept enhanced", "sch cake", "cobalt"],
    example: Example { scheduler: "rate = \"90mbit\"", calls: "", rest: "" },
    scheduler: &[
        Param {
            name: "rate",
            kind: Kind::Rate,
            default: Some("the link's rate"),
            doc: "rate of the shaper: a packet starts when the one before it has had its time at \
                  this rate, even on a free link",
        },
        Param {
            name: "limit",
            kind: Kind::Count { min: 1, max: 1 << 20 },
            default: Some("10240"),
            doc: "the maximum number of packets in all queues together; beyond it the longest \
                  queue drops its oldest packets",
        },
        Param { default: Some("from 300B to one largest packet, by the rate"), ..SURPLUS_QUANTUM },
        Param {
            doc: "acceptable queueing delay of a connection; at least 1.5 times the time of a largest packet; below `interval`",
            ..codel::PARAMS[0]
        },
        codel::PARAMS[1],
    ],
    idles: Some(Idling { why: "its shaper has a rate", only_with: Some("rate") }),
    draw: Draw::by(&[("quantum", draw::quantum), ("limit", draw::packets)]),
    ..Manifest::PLAIN
};

/// State of a queue.
#[derive(Clone, Debug, Default)]
pub struct CakeFlow {
    place: Place,
    deficit: Surplus,
    /// Queued bytes, without the packet on the wire.
    waiting: u64,
    cobalt: Cobalt,
}

impl AsMut<Place> for CakeFlow {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

/// CAKE.
#[derive(Debug, Clone)]
pub struct Cake {
    rate: Option<Rate>,
    cobalt: CobaltParameters,
    quantum: i64,
    ways: Ways,
    label: Label,
    /// The round of queues that were empty before. The next field is the round of the other queues.
    new: Round,
    old: Round,
    /// Queued packets, without the one on the wire.
    backlog: LongestQueue,
    /// Earliest time at which the shaper lets the next packet start.
    shaped_until: Time,
    /// COBALT's verdict on the head that was chosen last, and COBALT's state with it.
    chosen: (Cobalt, Verdict),
    marked: bool,
    draws: Draws,
    /// Random number with which BLUE decides about the next packet that is sent or dropped.
    draw: u32,
}

impl Cake {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Cake, ConfigErrors> {
        none_besides(setup, "cake")?;
        let values = &setup.scheduler;
        let rate = values.rate("rate").filter(|rate| !rate.is_unlimited());
        if rate.is_none() {
            finite_rate(setup, "cake")?;
        }
        let slowest = rate.unwrap_or(Rate::UNLIMITED).0.min(setup.rate.0);
        let largest = u64::from(setup.largest);
        // The default quantum is the bytes of 1/4096 of a second, so that packets of slow links are
        // interleaved finely.
        let quantum = (slowest / 8 / 4096).clamp(300.min(largest), largest);
        let mut draws = Draws::new(0, 0);
        Ok(Cake {
            rate,
            cobalt: CobaltParameters::new(
                CoDelParameters::new(values)?,
                Rate(slowest),
                setup.largest,
            ),
            quantum: surplus_quantum(setup, quantum)?,
            ways: Ways::new(),
            label: Label::default(),
            new: Round::EMPTY,
            old: Round::EMPTY,
            backlog: LongestQueue::new(values.count("limit").unwrap_or(10_240), QUEUES),
            shaped_until: Time::ZERO,
            chosen: (Cobalt::default(), Verdict::Pass),
            marked: false,
            draw: draws.draw() as u32,
            draws,
        })
    }

    /// Records that a waiting packet has left.
    #[inline]
    fn left(&mut self, flows: &mut Flows<CakeFlow, ArrivalStamp>, f: FlowId, bytes: u32) {
        let state = flows.state_mut(f);
        state.waiting -= u64::from(bytes);
        self.backlog.left(f, state.waiting);
    }
}

impl Discipline for Cake {
    type State = CakeFlow;
    type Tag = ArrivalStamp;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<CakeFlow, ArrivalStamp>) {}

    fn migrate_from(&mut self, old: Cake, _: &mut Flows<CakeFlow, ArrivalStamp>, now: Time) {
        let Cake { rate, cobalt, quantum, .. } = *self;
        // The rest of the current pause is scaled to the new rate.
        let rest = old.shaped_until.since(now);
        let shaped_until = match (old.rate, rate) {
            (Some(before), Some(after)) if before != after => {
                let rest = u128::from(rest.0) * u128::from(before.0) / u128::from(after.0);
                old.shaped_until.min(now) + Span(u64::try_from(rest).unwrap_or(u64::MAX))
            }
            _ => old.shaped_until,
        };
        let backlog = old.backlog.clone().with_limit(self.backlog.limit(), QUEUES);
        *self = Cake { rate, cobalt, quantum, backlog, shaped_until, ..old };
    }

    #[inline(always)]
    fn arrived(
        &mut self,
        flows: &mut Flows<CakeFlow, ArrivalStamp>,
        f: FlowId,
        bytes: u32,
        now: Time,
    ) -> ArrivalStamp {
        let Label { ecn, waited, .. } = core::mem::take(&mut self.label);
        self.ways.take(f);
        if self.backlog.packets() == 0 {
            // The shaper compensates for packets that started late, but not for times without
            // packets.
            self.shaped_until = self.shaped_until.max(now);
        }
        let state = flows.state_mut(f);
        state.waiting += u64::from(bytes);
        self.backlog.joined(f, state.waiting);
        ArrivalStamp::new(now.before(waited), ecn)
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<CakeFlow, ArrivalStamp>, f: FlowId, now: Time) {
        let before = self.new.len();
        self.new.join(flows, f);
        if self.new.len() > before {
            let state = flows.state_mut(f);
            state.deficit = Surplus::new(self.quantum);
            state.cobalt.was_empty(&self.cobalt, now);
        }
    }

    /// The head that changes is a packet that another discipline had on the wire, and that has
    /// left.
    fn head_changed(&mut self, flows: &mut Flows<CakeFlow, ArrivalStamp>, f: FlowId, _: Time) {
        flows.state_mut(f).waiting = u64::from(flows.bytes(f));
        let packets = (0..flows.len() as u32).map(|f| u64::from(flows.packets(FlowId(f)))).sum();
        self.backlog.recount(packets);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<CakeFlow, ArrivalStamp>, now: Time, _: &Wire) -> Decision {
        if self.rate.is_some() && self.backlog.packets() > 0 && now < self.shaped_until {
            return Decision::NotBefore(self.shaped_until);
        }
        loop {
            let (is_new, f) = match (self.new.first(), self.old.first()) {
                (Some(f), _) => (true, f),
                (None, Some(f)) => (false, f),
                (None, None) => return Decision::Idle,
            };
            if flows.state(f).deficit.is_positive()
                && let Some(bytes) = flows.head(f)
            {
                let stamp = flows.head_tag(f);
                let of = Head {
                    waited: now.since(stamp.arrival()),
                    behind: flows.bytes(f) - bytes,
                    capable: stamp.ecn().is_capable(),
                };
                self.chosen = flows.state(f).cobalt.step(&self.cobalt, of, self.draw, now);
                // The last packet of a queue is never dropped.
                if of.behind == 0 && self.chosen.1 == Verdict::Drop {
                    self.chosen.1 = Verdict::Pass;
                }
                return if self.chosen.1 == Verdict::Drop {
                    Decision::Drop(f)
                } else {
                    Decision::Serve(f)
                };
            }
            let in_debt = !flows.state(f).deficit.is_positive();
            if in_debt {
                flows.state_mut(f).deficit.add(self.quantum);
            }
            match (is_new, in_debt) {
                (true, _) => _ = self.new.leave(flows),
                (false, true) => self.old.rotate(flows),
                (false, false) => _ = self.old.leave(flows),
            }
            if !in_debt {
                self.ways.free(f);
            } else if is_new {
                self.old.join(flows, f);
            }
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<CakeFlow, ArrivalStamp>, f: FlowId, sent: Sent) {
        let state = flows.state_mut(f);
        state.cobalt = self.chosen.0;
        state.deficit.pay(i64::from(sent.bytes));
        self.marked = self.chosen.1 == Verdict::Mark;
        self.draw = self.draws.draw() as u32;
        if let Some(rate) = self.rate {
            self.shaped_until += rate.airtime(sent.bytes);
        }
        self.left(flows, f, sent.bytes);
    }
}

impl QueueHooks for Cake {
    #[inline]
    fn announce(&mut self, label: Label) {
        self.label = label;
    }

    #[inline]
    fn place(&self, flow: FlowId) -> FlowId {
        self.ways.place(self.label.connection, flow)
    }

    fn own_queues(&self) -> Option<(usize, Limit)> {
        Some((QUEUES, Limit::Packets(u32::MAX)))
    }

    #[inline]
    fn drop_victim(&mut self, flows: &Flows<CakeFlow, ArrivalStamp>) -> Option<(FlowId, bool)> {
        let bytes = |f| flows.state(f).waiting;
        let longest = self.backlog.beyond_limit(flows.len(), bytes)?;
        // The packet on the wire stays in its queue, but does not count as waiting. It may have
        // left since the last decision. It is still there if the queue holds more bytes than those
        // that count as waiting.
        Some((longest, u64::from(flows.bytes(longest)) > bytes(longest)))
    }

    fn head_dropped(
        &mut self,
        flows: &mut Flows<CakeFlow, ArrivalStamp>,
        f: FlowId,
        bytes: u32,
        because: DropCause,
        now: Time,
    ) {
        if because == DropCause::Decided {
            flows.state_mut(f).cobalt = self.chosen.0;
            self.draw = self.draws.draw() as u32;
        } else {
            flows.state_mut(f).cobalt.overflowed(&self.cobalt, now);
        }
        self.left(flows, f, bytes);
    }

    #[inline]
    fn marked(&mut self) -> bool {
        core::mem::take(&mut self.marked)
    }

    #[inline]
    fn manages_queues(&self) -> bool {
        true
    }
}

impl MediumHooks for Cake {
    fn seed(&mut self, seed: u64) {
        self.ways.seed(seed);
        self.draws = Draws::new(seed, 0);
        self.draw = self.draws.draw() as u32;
    }
}

impl Guarantees for Cake {
    fn service(&self, _: FlowId) -> Result<Guarantee, NoGuarantee> {
        let why = "connections share queues by a hash, and packets are dropped to keep the others' \
                   delays short";
        Err(NoGuarantee(format!("{why}; `drr` with a queue for each flow gives guarantees")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::{Value, Values};
    use crate::scheduler::worked_example::{THREE_FLOWS, at_once, order, rate, setup, values};

    /// Three flows with packets of up to 4 B, and a quantum of 4 B.
    fn of<const N: usize>(more: [(&'static str, Value); N]) -> Setup {
        let four = Values::default().with("quantum", Value::Bytes(4));
        let scheduler = more.into_iter().fold(four, |all, (name, value)| all.with(name, value));
        Setup { scheduler, ..setup(4, (0..3).map(|_| values([]))) }
    }

    /// A has spent its quantum at 4, B at 8. C is a new queue and is served first. At 14 it owes 2
    /// B, and moves behind the old queues of A and B.
    #[test]
    fn new_queues_go_before_old_ones() {
        let sent = order(&of([]), Cake::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 B1@8 C1@11 C2@14 A3@16 A4@18 B2@19 B3@22");
    }

    /// A queue that is empty before its quantum is spent is a new queue again when a packet
    /// arrives, so A is served before B each time.
    #[test]
    fn sparse_connections_go_first() {
        let bs = [(0, 'B', 4); 5];
        let packets = [&bs[..], &[(1, 'A', 2), (7, 'A', 2), (13, 'A', 2)]].concat();
        let sent = order(&of([]), Cake::new, &packets);
        assert_eq!(sent, "B1@4 A1@6 B2@10 A2@12 B3@16 A3@18 B4@22 B5@26");
    }

    /// A byte takes 2 us in the shaper, and 1 us on the link. A packet that arrives after a pause
    /// starts at once, but the unused time of the pause does not let later packets start earlier.
    #[test]
    fn the_shaper_makes_no_bursts() {
        let shaped = of([("rate", rate(500))]);
        let packets = [&at_once("AAA", 2)[..], &[(100, 'A', 4), (101, 'A', 4)]].concat();
        assert_eq!(order(&shaped, Cake::new, &packets), "A1@2 A2@6 A3@10 A4@104 A5@112");
    }

    #[test]
    fn a_free_link_without_a_rate_has_nothing_to_share() {
        let unlimited = |more| Setup { rate: Rate::UNLIMITED, ..more };
        assert!(Cake::new(&unlimited(of([]))).is_err());
        assert!(Cake::new(&unlimited(of([("rate", rate(1))]))).is_ok());
    }
}
