//! Move-to-rear list scheduling, MTR-LS.
//!
//! Bruno, Gabber, Ozden and Silberschatz, "Move-to-rear list scheduling: a new scheduling algorithm
//! for providing QoS guarantees" (1997), as summarized in C. Zhang's thesis (section 2.5): a
//! virtual time quantum is divided among processes by their shares; each process uses up its part
//! unless it ends or is preempted. The thesis leaves some rules open. For packets they are chosen
//! as follows:
//! - Flows form a list, at first in the scenario's order. The first flow of the list that has a
//!   packet sends; when its part is used up, the flow moves to the rear and gets a new part. A flow
//!   that becomes empty keeps its place and the rest of its part.
//! - A packet on the wire is not preempted: the next decision considers new arrivals.
//! - A packet may start while any bytes of the part are left; its excess is charged to the next
//!   part. Nothing else is carried over to the next part.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Draw};
use crate::contract::guarantee::{Bound, Guarantee, Guarantees};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::weights::{ROUNDING, Shares, WEIGHT};
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::rate::{Rate, Wire};
use crate::units::time::Time;
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "mtr-ls",
    doc: "move-to-rear list: the first flow in the list that has a packet sends; once its part of \
          a time quantum is used up it moves to the rear",
    source: "Bruno, Gabber, Ozden and Silberschatz 1997, as in C. Zhang's thesis",
    cost: "O(log N)",
    guarantee: "rate and delay",
    guarantee_source: "own derivation",
    scheduler: &[Param {
        name: "period",
        kind: Kind::Span,
        default: Some(
            "the time of one largest packet at the rate of the flow with the smallest weight",
        ),
        doc: "virtual time quantum, of which each flow gets a part in proportion to its weight; \
              shorter quanta mean shorter delays, down to the default",
    }],
    flow: &[WEIGHT],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    draw: Draw::by(&[("period", draw::period)]),
    ..Manifest::PLAIN
};

/// Move-to-rear list scheduling.
#[derive(Debug, Clone)]
pub struct MtrLs {
    shares: Shares,
    /// The flows' parts, in bytes.
    parts: Vec<u64>,
    /// For each flow, the maximum number of bytes that can be before a packet in the queue.
    ahead: Vec<u64>,
    /// Backlogged flows, ordered by their place in the list.
    list: Tournament<u64>,
    rear: u64,
    serving: Option<FlowId>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct ListedFlow {
    /// Bytes left of the flow's part.
    left: i64,
    place: u64,
}

/// Maximum size of a part, in bytes. With it, sums of parts fit 64 bits.
const MOST: u64 = 1 << 40;

impl MtrLs {
    /// Validates the setup. A part smaller than a packet is refused, because its excess could be
    /// larger than the next part.
    pub fn new(setup: &Setup) -> Result<MtrLs, ConfigErrors> {
        let shares = Shares::new(setup, "move-to-rear list scheduling")?;
        let shortest = shares.slowest_packet();
        let quantum = setup.scheduler.span("period").unwrap_or(shortest);
        let parts = shares.all().map(|f| shares.own_bytes(quantum, f)).collect::<Vec<_>>();
        if parts.iter().any(|&part| part < shares.largest() || part > MOST) {
            return Err(ConfigError {
                flow: None,
                param: "period",
                what: format!(
                    "in a period of {quantum}, some flow's part is less than a packet, or more \
                     than a terabyte"
                ),
                help: format!(
                    "at least {shortest}, so that the slowest flow's part holds {} B",
                    setup.largest
                ),
            }
            .into());
        }
        let ahead = setup.flows.iter().map(|f| match f.limit {
            Limit::Packets(n) => u64::from(n - 1) * shares.largest(),
            Limit::Bytes(n) => n - 1,
        });
        Ok(MtrLs {
            ahead: ahead.collect(),
            parts,
            list: Tournament::new(shares.flows()),
            rear: shares.flows() as u64,
            shares,
            serving: None,
        })
    }

    /// Updates the place of `f` after its head has left or has changed.
    fn follow(&mut self, flows: &mut Flows<ListedFlow>, f: FlowId) {
        let head = flows.head(f);
        let state = flows.state_mut(f);
        if state.left <= 0 {
            state.left += self.parts[f.index()] as i64;
            state.place = self.rear;
            self.rear += 1;
        }
        match head {
            Some(_) => self.list.set(f, state.place),
            None => self.list.remove(f),
        }
    }
}

impl Discipline for MtrLs {
    type State = ListedFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<ListedFlow>) {
        for (f, &part) in self.parts.iter().enumerate() {
            *flows.state_mut(FlowId(f as u32)) = ListedFlow { left: part as i64, place: f as u64 };
        }
    }

    /// Each flow keeps its place and the rest of its part, but at most the size of its new part.
    /// New flows come last.
    fn migrate_from(&mut self, old: MtrLs, flows: &mut Flows<ListedFlow>, _: Time) {
        (self.list, self.rear, self.serving) = (old.list, old.rear, old.serving);
        self.list.grow(self.parts.len());
        for (f, &part) in self.parts.iter().enumerate() {
            let state = flows.state_mut(FlowId(f as u32));
            if f < old.parts.len() {
                state.left = state.left.min(part as i64);
            } else {
                *state = ListedFlow { left: part as i64, place: self.rear };
                self.rear += 1;
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<ListedFlow>, f: FlowId, _: Time) {
        self.list.set(f, flows.state(f).place);
    }

    fn head_changed(&mut self, flows: &mut Flows<ListedFlow>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<ListedFlow>, _: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        self.list.first().map_or(Decision::Idle, |(_, f)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<ListedFlow>, f: FlowId, sent: Sent) {
        flows.state_mut(f).left -= i64::from(sent.bytes);
        self.serving = Some(f);
    }

    fn is_reusable(&self, flows: &Flows<ListedFlow>, f: FlowId, _: Time) -> bool {
        flows.state(f).left == self.parts[f.index()] as i64
    }
}

impl QueueHooks for MtrLs {}
impl MediumHooks for MtrLs {}

impl Guarantees for MtrLs {
    /// Let `Q` be the flow's part, and `F` the sum of all parts. While a flow waits, each flow that
    /// uses up its part moves behind it. So within `m` parts of the flow, each other flow sends `m`
    /// parts and the excess of a packet. A packet with `A` bytes before it in its queue starts in
    /// the flow's part number `m = ceil(A/Q) + 1` at the latest, because the first part may be
    /// almost used up. In addition, one packet may be on the wire (own derivation, as for deficit
    /// round robin).
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let own = self.parts[f.index()];
        let (largest, ahead) = (self.shares.largest(), self.ahead[f.index()]);
        let total: u64 = self.parts.iter().sum();
        let others = total - own;
        let begun = self.shares.one_of_each_other() + largest;
        let link = self.shares.link();
        let parts = ahead.div_ceil(own) + 1;
        let time = |bytes: u64| link.airtime_of_many(bytes) + ROUNDING;
        let delay = Bound {
            delay: time(
                parts
                    .saturating_mul(others)
                    .saturating_add(ahead)
                    .saturating_add(largest)
                    .saturating_add(begun),
            ),
            formula: "(A + L + m (F - Q) + N L)/C, m = ceil(A/Q) + 1, A = the queue without its \
                      last packet",
            condition: "packets that found room",
        };
        Ok(Guarantee {
            rate: Rate((u128::from(link.0) * u128::from(own) / u128::from(total)) as u64),
            latency: time((2 * others).saturating_add(largest).saturating_add(begun)),
            rate_formula: "C Q/F",
            delay,
            others: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{THREE_FLOWS, order_together, time, weights};

    /// The parts are 8, 4 and 4 B. B's first packet uses up its part. C's first packet leaves one
    /// byte, so its second packet may start.
    #[test]
    fn the_move_to_rear_list_goes_by_parts() {
        let mut list = weights(4, &[2, 1, 1]);
        let sent = order_together(&list, MtrLs::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 A3@6 A4@8 B1@12 C1@15 C2@18 B2@19 B3@22");
        // With a period of twice the length, B's three packets fit one part.
        list.scheduler.set("period", time(2 * 4 * 4));
        let sent = order_together(&list, MtrLs::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 A3@6 A4@8 B1@12 B2@13 B3@16 C1@19 C2@22");
        // A flow that becomes backlogged again keeps its place, so A is served before B, although B
        // waits.
        let back = [(0, 'A', 1), (0, 'B', 4), (0, 'B', 4), (3, 'A', 4), (3, 'A', 4)];
        let sent = order_together(&weights(4, &[2, 1, 1]), MtrLs::new, &back);
        assert_eq!(sent, "A1@1 B1@5 A2@9 A3@13 B2@17");
    }
}
