//! DRR++: deficit round robin that visits flows of low latency more often.
//!
//! MacGregor and Shi, "Deficits for bursty latency-critical flows: DRR++"
//! (2000), in the form that Zhang's thesis gives it: a visit of a flow of low
//! latency, then one of a normal flow, then again one of a flow of low latency. What such
//! a flow waits for is a visit or two, not a round. If only one of the two
//! sorts has packets, it is visited alone: the link never rests.
//!
//! The thesis' listings move packets to queues of their own, at no time and
//! thereby without an end; its text and figures mean what is done here: visits
//! go on packet by packet, as the link asks. Several flows of low latency take
//! turns, as the normal ones do. The original form is [`crate::disciplines::drr_plus_plus::mw00`].
//!
//! # Bounds
//!
//! The two sorts are treated alike. Let `n` be the flows of our sort, `F` the sum of
//! their quanta, `n'` the flows of the other sort, and `Q'` their largest quantum.
//! Until the last of `B` bytes has left, our flow is visited `m = ceil(B/Q)` times at
//! most. The others of our sort are visited `m` times each; of the other sort there
//! are at most `m n` visits, one before each of ours. A flow sends in `v` visits at
//! most `v Q` and what it carried over, less than a packet, so all is over after `B +
//! m (F - Q + n Q') + (n - 1 + min(m n, n')) (L - 1)` bytes.
//!
//! With one flow of low latency that is `B + m Q' + min(m, n') (L - 1)`, and with `r =
//! C Q/(Q + Q')` at most `B/r + (Q' + n' L)/C`. The thesis' Lemma 3 and Theorem 2 count
//! one normal flow for all of them and are exceeded from four on; its mean delay
//! (Theorem 1) is no prediction.

pub mod mw00;

use self::mw00::Mw00;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Draw};
use crate::contract::guarantee::{Bound, Guarantees, Promise, finite_rate, room_for_one};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoPromise;
use crate::contract::params::{ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::contract::visitor::Visitor;
use crate::mechanisms::deficit::{DeficitFlow, DeficitRound, QUANTA, QUANTUM, Quanta, Visits};
use crate::mechanisms::low_latency::{LATENCY, of_low_latency};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::vec;
use alloc::vec::Vec;

/// How it is named and set.
pub const MANIFEST: Manifest = Manifest {
    kind: "drr++",
    doc: "DRR with flows of low latency, which wait for a visit instead of a round",
    source: "MacGregor and Shi 2000; Zhang's thesis",
    cost: "O(1)",
    guarantee: "rate and delay; more to flows of low latency",
    guarantee_source: "own derivation; the thesis' own is wrong",
    scheduler: &[
        QUANTA,
        Param {
            name: "form",
            kind: Kind::Choice(&["modified", "mw00"]),
            default: Some("modified"),
            doc: "visits of both sorts in turn, or as first published: packets before all others, with credit for a round",
        },
    ],
    flow: &[QUANTUM, LATENCY],
    editable: &[("quantum", "Quantum")],
    draw: Draw::by(&[("quantum", draw::quantum)]),
    ..Manifest::PLAIN
};

/// Hands over the discipline in its `form`.
pub(super) fn construct<V: Visitor>(setup: &Setup, visitor: V) -> Result<V::Output, ConfigErrors> {
    Ok(match setup.scheduler.choice("form") {
        Some("mw00") => visitor.visit(Mw00::new(setup)?),
        _ => visitor.visit(DrrPlusPlus::new(setup)?),
    })
}

/// DRR++ as modified by Zhang.
#[derive(Debug, Clone)]
pub struct DrrPlusPlus {
    quanta: Quanta,
    low: Vec<bool>,
    /// The normal flows, and those of low latency.
    sorts: [DeficitRound; 2],
    /// The sort that is visited, or was last.
    turn: usize,
}

impl DrrPlusPlus {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<DrrPlusPlus, ConfigErrors> {
        finite_rate(setup, "DRR++")?;
        room_for_one(setup)?;
        let sorts = [DeficitRound::EMPTY, DeficitRound::EMPTY];
        Ok(DrrPlusPlus { quanta: Quanta::new(setup)?, low: of_low_latency(setup), sorts, turn: 0 })
    }

    #[inline]
    fn sort(&self, f: FlowId) -> usize {
        usize::from(self.low[f.index()])
    }
}

impl Discipline for DrrPlusPlus {
    type State = DeficitFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<DeficitFlow>) {
        for (f, &quantum) in self.quanta.each.iter().enumerate() {
            *flows.state_mut(FlowId(f as u32)) = DeficitFlow::new(quantum);
        }
    }

    /// The visit under way goes on, even if its flow is of the other sort now;
    /// the order within a sort and the deficits stay.
    fn migrate_from(&mut self, mut old: DrrPlusPlus, flows: &mut Flows<DeficitFlow>, _: Time) {
        for (f, &quantum) in self.quanta.each.iter().enumerate() {
            flows.state_mut(FlowId(f as u32)).set_quantum(quantum);
        }
        self.turn = old.turn;
        let (order, visited) = old.sorts[old.turn].dissolve(flows);
        let (behind, _) = old.sorts[1 - old.turn].dissolve(flows);
        for f in order.into_iter().chain(behind) {
            self.sorts[self.sort(f)].join(flows, f);
        }
        if let Some(f) = visited {
            self.turn = self.sort(f);
            self.sorts[self.turn].resume(f);
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<DeficitFlow>, f: FlowId, _: Time) {
        self.sorts[self.sort(f)].join(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<DeficitFlow>, _: Time, _: &Wire) -> Decision {
        while self.sorts.iter().any(|sort| sort.first().is_some()) {
            if self.sorts[self.turn].first().is_none() {
                self.turn = 1 - self.turn;
            }
            if let Some(f) = self.sorts[self.turn].visit(flows) {
                return Decision::Serve(f);
            }
            self.turn = 1 - self.turn;
        }
        Decision::Idle
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<DeficitFlow>, f: FlowId, sent: Sent) {
        flows.state_mut(f).pay(sent.bytes);
    }
}

impl QueueHooks for DrrPlusPlus {}
impl MediumHooks for DrrPlusPlus {}

impl Guarantees for DrrPlusPlus {
    /// See the module's text.
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        let low = self.low[f.index()];
        let ours = self.quanta.flows(|j| self.low[j.index()] == low).count() as u64;
        let others = self.quanta.flows(|j| self.low[j.index()] != low).count() as u64;
        let most = self
            .quanta
            .flows(|j| self.low[j.index()] != low)
            .map(|j| self.quanta.of(j))
            .max()
            .unwrap_or(0);
        let own = self.quanta.visits(f, |j| j != f && self.low[j.index()] == low);
        let carried = self.quanta.largest - 1;
        // All bounds but that of the curve know how many visits there are.
        let with = |carry: u64| Visits {
            between: own.between + ours * most,
            once: (ours - 1 + carry) * carried,
            ..own
        };
        let until = |bytes: u64| {
            with(bytes.div_ceil(own.quantum).saturating_mul(ours).min(others)).delay(bytes)
        };
        let full = self.quanta.full_queue(f);
        let curve = with(others);
        let line =
            (u128::from(full) * u128::from(curve.between)).div_ceil(u128::from(curve.quantum));
        let line = full.saturating_add(u64::try_from(line).unwrap_or(u64::MAX));
        let simple = curve.rate.airtime_of_many(line.saturating_add(curve.between + curve.once));
        let alone = ours == 1;
        Ok(Promise {
            rate: curve.rate(),
            latency: curve.latency(),
            rate_formula: if alone { "C Q/(Q + Q')" } else { "C Q/(F + n Q')" },
            delay: Bound {
                delay: until(full),
                formula: if alone {
                    "(B + m Q' + min(m, n') (L-1))/C, m = ceil(B/Q)"
                } else {
                    "(B + m (F-Q + n Q') + (n-1 + min(m n, n')) (L-1))/C, m = ceil(B/Q)"
                },
                condition: "packets that found room",
            },
            others: vec![
                Bound {
                    delay: simple,
                    formula: if alone {
                        "B/r + (Q' + n' (L-1))/C"
                    } else {
                        "B/r + (F-Q + n Q' + (n-1 + n') (L-1))/C"
                    },
                    condition: "packets that found room; looser, as a line",
                },
                Bound {
                    delay: until(own.quantum.min(full)),
                    formula: if alone {
                        "(Q + Q' + L-1)/C"
                    } else {
                        "(F + n Q' + (n-1 + min(n, n')) (L-1))/C"
                    },
                    condition: "packets that find, with themselves, no more than a quantum queued",
                },
            ],
        })
    }

    /// Nobody ever carries more than a packet over, so that visits and what others send
    /// between them are counted alike from any instant of a backlog on.
    fn serves_strictly(&self) -> bool {
        true
    }

    fn service_behind(&self, f: FlowId, server: &Promise) -> Result<Promise, NoPromise> {
        Ok(self.service(f)?.after(server.latency))
    }
}
