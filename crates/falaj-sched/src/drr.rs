//! Deficit round robin.
//!
//! Shreedhar and Varghese, "Efficient fair queueing using deficit round
//! robin" (1995). Each visit gives a flow its quantum; it sends while its
//! deficit covers the head, keeps the rest for the next visit, and loses it
//! when it runs empty. Whether it ran empty is seen after the transmission
//! ended ("lazy reset"): a packet that came meanwhile keeps the flow's turn.

use crate::discipline::{Answer, Discipline, Sent};
use crate::params::{Kind, Param, Refusals, Refused, Setup};
use crate::promise::{Bound, NoPromise, Promise, finite_rate, full_queue, without_room};
use crate::queue::{FlowId, Flows};
use crate::rate::{Rate, Wire};
use crate::registry::Entry;
use crate::time::Time;
use alloc::format;
use alloc::vec::Vec;

/// How it is named and set.
pub const ENTRY: Entry = Entry {
    kind: "drr",
    doc: "deficit round robin: shares in proportion to the quanta, O(1)",
    source: "Shreedhar and Varghese 1995",
    scheduler: &[],
    flow: &[Param {
        name: "quantum",
        kind: Kind::Bytes,
        default: Some("one packet of the largest size"),
        doc: "bytes that a visit adds to the flow's deficit",
    }],
};

const END: u32 = u32::MAX;

/// Deficit round robin.
#[derive(Debug, Clone)]
pub struct Drr {
    quanta: Vec<u32>,
    /// The flow being visited, and whether it has got its quantum for the visit.
    head: u32,
    visited: bool,
    tail: u32,
    rate: Rate,
    largest: u64,
    full_queues: Vec<u64>,
}

/// What DRR keeps for a flow.
#[derive(Debug, Clone, Default)]
pub struct DrrFlow {
    quantum: u32,
    deficit: u32,
    /// The flow after it in the round.
    next: u32,
    in_round: bool,
}

impl Drr {
    /// Validates the setup: a quantum below the largest packet would make a
    /// decision cost more than O(1).
    pub fn new(setup: &Setup) -> Result<Drr, Refusals> {
        finite_rate(setup, "deficit round robin")?;
        let mut refused = without_room(setup);
        let mut quanta = Vec::new();
        for (flow, f) in setup.flows.iter().enumerate() {
            let quantum = f.values.bytes("quantum").unwrap_or(u64::from(setup.largest));
            if quantum < u64::from(setup.largest) || quantum > u64::from(u32::MAX / 4) {
                refused.push(Refused {
                    flow: Some(flow),
                    param: "quantum",
                    what: format!("a quantum of {quantum} B is out of range"),
                    help: format!(
                        "at least {} B, the largest packet as the link accounts it; at most 1 GiB",
                        setup.largest
                    ),
                });
            }
            quanta.push(quantum as u32);
        }
        Refusals::of(refused)?;
        Ok(Drr {
            quanta,
            head: END,
            visited: false,
            tail: END,
            rate: setup.rate,
            largest: u64::from(setup.largest),
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    fn append(&mut self, flows: &mut Flows<DrrFlow>, f: FlowId) {
        flows.state_mut(f).next = END;
        match self.tail {
            END => self.head = f.0,
            last => flows.state_mut(FlowId(last)).next = f.0,
        }
        self.tail = f.0;
    }

    fn end_visit(&mut self, flows: &mut Flows<DrrFlow>) {
        self.head = flows.state(FlowId(self.head)).next;
        if self.head == END {
            self.tail = END;
        }
        self.visited = false;
    }
}

impl Discipline for Drr {
    type State = DrrFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<DrrFlow>) {
        for (f, &quantum) in self.quanta.iter().enumerate() {
            *flows.state_mut(FlowId(f as u32)) = DrrFlow { quantum, deficit: 0, next: END, in_round: false };
        }
    }

    /// The round and the deficits stay, these as far as they are below what a
    /// flow may carry over under the new quantum.
    fn succeed(&mut self, old: Drr, flows: &mut Flows<DrrFlow>, _: Time) {
        (self.head, self.visited, self.tail) = (old.head, old.visited, old.tail);
        for (f, &quantum) in self.quanta.iter().enumerate() {
            let known = f < old.quanta.len();
            let state = flows.state_mut(FlowId(f as u32));
            let next = if known { state.next } else { END };
            *state = DrrFlow { quantum, deficit: state.deficit.min(quantum), next, in_round: state.in_round };
        }
    }

    #[inline]
    fn ready(&mut self, flows: &mut Flows<DrrFlow>, f: FlowId, _: Time) {
        let state = flows.state_mut(f);
        if !state.in_round {
            state.in_round = true;
            self.append(flows, f);
        }
    }

    #[inline]
    fn next(&mut self, flows: &mut Flows<DrrFlow>, _: Time, _: &Wire) -> Answer {
        loop {
            if self.head == END {
                return Answer::Idle;
            }
            let f = FlowId(self.head);
            let Some(bytes) = flows.head(f) else {
                self.end_visit(flows);
                let state = flows.state_mut(f);
                state.deficit = 0;
                state.in_round = false;
                continue;
            };
            let state = flows.state_mut(f);
            if !self.visited {
                state.deficit += state.quantum;
                self.visited = true;
            }
            if bytes <= state.deficit {
                return Answer::Serve(f);
            }
            self.end_visit(flows);
            self.append(flows, f);
        }
    }

    #[inline]
    fn take(&mut self, flows: &mut Flows<DrrFlow>, f: FlowId, sent: Sent) {
        flows.state_mut(f).deficit -= sent.bytes;
    }

    /// A packet that fills its queue to `B` bytes needs at most `m = ceil(B/Q_i)`
    /// visits of its flow, and in any `m` consecutive visits another flow sends
    /// less than `m Q_j` and a packet. The latency of the service curve is
    /// `[(F - Q)(1 + L/Q) + sum L]/C`, with `F` the sum of the quanta (Boyer, Stea
    /// and Sofack 2012, with completed packets only: a last `L` of one's own).
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        let own = self.full_queues[f.index()];
        let quantum = u64::from(self.quanta[f.index()]);
        let total: u64 = self.quanta.iter().map(|&q| u64::from(q)).sum();
        let others = total - quantum;
        let carried = (self.quanta.len() as u64 - 1) * self.largest;
        let visits = own.div_ceil(quantum);
        let latency = others + (others * self.largest).div_ceil(quantum) + carried + self.largest;
        Ok(Promise {
            rate: Rate((u128::from(self.rate.0) * u128::from(quantum) / u128::from(total)) as u64),
            latency: self.rate.airtime_of_many(latency),
            rate_formula: "C Q/sum Q",
            delay: Bound {
                delay: self
                    .rate
                    .airtime_of_many(visits.saturating_mul(others).saturating_add(own).saturating_add(carried)),
                formula: "(B + sum over others of (m Q_j + L))/C, m = ceil(B/Q)",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    fn serves_strictly(&self) -> bool {
        true
    }

    fn service_behind(&self, f: FlowId, server: &Promise) -> Result<Promise, NoPromise> {
        Ok(self.service(f)?.after(server.latency))
    }
}
