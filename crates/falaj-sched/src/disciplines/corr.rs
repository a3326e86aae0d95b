//! Carry-over round robin: fractional quotas of packets per cycle.
//!
//! Saha, Mukherjee and Tripathi, "Carry-over round robin: a simple cell scheduling mechanism for
//! ATM networks" (1998). A cycle has room for `T` packets, and a flow of rate `r_i` on a link of
//! rate `C` has a quota of `R_i = T r_i/C` packets in each cycle. Packets are planned at the start
//! of a cycle. Each flow with packets adds `R_i` to its credit. In the major part, the number of
//! packets assigned to each flow is the integer part of its credit. In the minor part, flows that
//! still have packets and credit are assigned one more packet each while the cycle has room, and
//! owe the missing fraction; the flow with the largest credit comes first. Then the plan is
//! executed. A cycle with fewer than `T` packets ends early.
//!
//! Two rules are not in the paper. A flow whose queue is emptied by the plan loses its credit;
//! otherwise credit would accumulate, and be spent at once while other flows starve. A flow that
//! becomes idle keeps its debt; otherwise it could repeatedly get a whole packet for a fraction. So
//! in any number of cycles a flow with packets sends its quotas, within two packets.
//!
//! Credits are integers in parts of `1/C` of a packet, so that nothing is rounded.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, finite_rate, full_queue, room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::rate::{Rate, Wire};
use crate::units::time::Time;
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "corr",
    doc: "carry-over round robin: a flow has a quota of packets in each cycle, and carries \
          fractions of a packet over to the next",
    source: "Saha, Mukherjee and Tripathi 1998",
    cost: "O(1), and O(N log N) once a cycle",
    guarantee: "rate and delay",
    guarantee_source: "own derivation",
    aliases: &["carry-over round robin"],
    scheduler: &[Param {
        name: "cycle",
        kind: Kind::Count { min: 1, max: 65_536 },
        default: Some("64"),
        doc: "the length of a cycle, in packets; delays grow with it, and a shorter cycle costs \
              more planning",
    }],
    flow: &[Param {
        name: "rate",
        kind: Kind::Rate,
        default: None,
        doc: "the flow's part of each cycle, given as its rate if all packets have the same size; \
              the sum over all flows must not exceed the link's rate",
    }],
    editable: &[("rate", "Rate")],
    ..Manifest::PLAIN
};

/// Carry-over round robin.
#[derive(Debug, Clone)]
pub struct Corr {
    /// Number of packets in a cycle, `T`.
    cycle: u64,
    /// A packet in units of credit: the link's rate `C`.
    packet: i64,
    /// Quotas `R_i` in units of credit.
    quotas: Vec<i64>,
    /// Flows that had packets at the start of the cycle, and those that became backlogged since.
    active: Vec<FlowId>,
    /// The plan of the cycle: flows with numbers of packets. The rest of the plan begins at index
    /// `at`.
    plan: Vec<(FlowId, u32)>,
    at: usize,
    /// Candidates for a packet in the minor part, with their credits.
    minor: Vec<(i64, FlowId)>,
    largest: u64,
    limits: Vec<Limit>,
    full_queues: Vec<u64>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct CorrFlow {
    /// Credit; its absolute value is below one packet.
    credit: i64,
    active: bool,
}

impl Corr {
    /// Validates the setup: the sum of the rates must fit on the link.
    pub fn new(setup: &Setup) -> Result<Corr, ConfigErrors> {
        finite_rate(setup, "carry-over round robin")?;
        room_for_one(setup)?;
        let cycle = setup.scheduler.count("cycle").unwrap_or(64);
        let all = cycle.checked_mul(setup.rate.0).and_then(|all| i64::try_from(all).ok());
        let Some(all) = all.filter(|&all| cycle > 0 && all < i64::MAX / 4) else {
            return Err(ConfigError {
                flow: None,
                param: "cycle",
                what: format!("a cycle of {cycle} packets at {} cannot be counted", setup.rate),
                help: format!(
                    "1 to {} packets",
                    (i64::MAX as u64 / 4 / setup.rate.0).clamp(1, 65_536)
                ),
            }
            .into());
        };
        let mut left = all;
        let mut quotas = Vec::new();
        for (flow, f) in setup.flows.iter().enumerate() {
            let refused = |what| ConfigError {
                flow: Some(flow),
                param: "rate",
                what,
                help: format!("at most {}, which is left of the link", Rate(left as u64 / cycle)),
            };
            let rate = f.values.rate("rate").ok_or_else(|| refused("is missing".into()))?;
            let quota = cycle
                .checked_mul(rate.0)
                .and_then(|q| i64::try_from(q).ok())
                .filter(|q| (1..=left).contains(q));
            let quota = quota.ok_or_else(|| {
                refused(format!("a rate of {rate} does not fit on the link with the others"))
            })?;
            left -= quota;
            quotas.push(quota);
        }
        let flows = quotas.len();
        Ok(Corr {
            cycle,
            packet: setup.rate.0 as i64,
            quotas,
            active: Vec::with_capacity(flows),
            plan: Vec::with_capacity(2 * flows),
            at: 0,
            minor: Vec::with_capacity(flows),
            largest: u64::from(setup.largest).max(1),
            limits: setup.flows.iter().map(|f| f.limit).collect(),
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    /// Plans a cycle. Returns false if no flow has a packet.
    fn plan(&mut self, flows: &mut Flows<CorrFlow>) -> bool {
        let Corr { active, plan, minor, quotas, packet, .. } = self;
        loop {
            plan.clear();
            minor.clear();
            self.at = 0;
            let mut room = self.cycle;
            // Not `retain`, whose closure is not always inlined.
            let mut kept = 0;
            for n in 0..active.len() {
                let f = active[n];
                let packets = flows.packets(f);
                let state = flows.state_mut(f);
                if packets == 0 {
                    state.active = false;
                    continue;
                }
                active[kept] = f;
                kept += 1;
                state.credit += quotas[f.index()];
                let whole =
                    if state.credit >= *packet { (state.credit / *packet) as u64 } else { 0 };
                let sends = whole.min(packets.into());
                if sends > 0 {
                    state.credit -= sends as i64 * *packet;
                    plan.push((f, sends as u32));
                    room = room.saturating_sub(sends);
                }
                if sends == u64::from(packets) {
                    state.credit = state.credit.min(0);
                } else if state.credit > 0 {
                    minor.push((-state.credit, f));
                }
            }
            active.truncate(kept);
            if room > 0 {
                minor.sort_unstable();
                for &(_, f) in minor.iter().take(room as usize) {
                    flows.state_mut(f).credit -= *packet;
                    plan.push((f, 1));
                }
            }
            if !plan.is_empty() || active.is_empty() {
                return !plan.is_empty();
            }
            // All flows are in debt: skips the cycles that send no packet.
            let cycles = |&f: &FlowId| -flows.state(f).credit / quotas[f.index()];
            let cycles = active.iter().map(cycles).min().unwrap_or(0);
            for &f in active.iter() {
                flows.state_mut(f).credit += cycles * quotas[f.index()];
            }
        }
    }

    /// The unit of the credits of `f`: each credit is a multiple of it, and its absolute value is
    /// at most a packet minus this unit.
    fn grain(&self, f: FlowId) -> i64 {
        let (mut a, mut b) = (self.packet, self.quotas[f.index()]);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    }

    /// Maximum difference between two credits of `f`.
    fn swing(&self, f: FlowId) -> u128 {
        2 * (self.packet - self.grain(f)) as u128
    }
}

impl Discipline for Corr {
    type State = CorrFlow;
    type Tag = ();

    fn start(&mut self, _: &mut Flows<CorrFlow>) {}

    /// The current cycle continues as planned; fractions of packets are kept.
    fn migrate_from(&mut self, old: Corr, flows: &mut Flows<CorrFlow>, _: Time) {
        (self.active, self.plan, self.at) = (old.active, old.plan, old.at);
        let all = self.quotas.len();
        self.active.reserve(all - self.active.len());
        for f in (0..all as u32).map(FlowId) {
            let grain = self.grain(f);
            let state = flows.state_mut(f);
            let scaled =
                i128::from(state.credit) * i128::from(self.packet) / i128::from(old.packet);
            state.credit =
                (scaled as i64 / grain * grain).clamp(grain - self.packet, self.packet - grain);
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<CorrFlow>, f: FlowId, _: Time) {
        let state = flows.state_mut(f);
        if !state.active {
            state.active = true;
            self.active.push(f);
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<CorrFlow>, _: Time, _: &Wire) -> Decision {
        loop {
            let Some(&(f, packets)) = self.plan.get(self.at) else {
                if self.plan(flows) {
                    continue;
                }
                return Decision::Idle;
            };
            if flows.head(f).is_some() {
                return Decision::Serve(f);
            }
            // The planned packets were removed from the queue without being sent: their charge is
            // returned, but the credit does not rise above zero.
            let state = flows.state_mut(f);
            state.credit = (state.credit + i64::from(packets) * self.packet).min(0);
            self.at += 1;
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, _: &mut Flows<CorrFlow>, _: FlowId, _: Sent) {
        self.plan[self.at].1 -= 1;
        if self.plan[self.at].1 == 0 {
            self.at += 1;
        }
    }

    fn is_reusable(&self, flows: &Flows<CorrFlow>, f: FlowId, _: Time) -> bool {
        flows.state(f).credit == 0
    }
}

impl QueueHooks for Corr {}
impl MediumHooks for Corr {}

impl Guarantees for Corr {
    /// In units of credit a packet is `C`. A flow's credit is a multiple of `g_i = gcd(T r_i, C)`,
    /// and its absolute value is below a packet, so two credits differ by at most
    /// `d_i = 2 (C - g_i)`. A packet that arrives during a cycle as the `k`-th of its queue leaves
    /// at the latest in the `K`-th cycle after this one, where
    /// `K = floor(((k-1) C + d_i)/T r_i) + 1`. In these `K + 1` cycles flow `j` sends at most
    /// `floor((d_j + (K+1) T r_j)/C)` packets. Own derivation, tested.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let (full, limit) = (self.full_queues[f.index()], self.limits[f.index()]);
        let (packet, own, largest) =
            (self.packet as u128, self.quotas[f.index()] as u128, u128::from(self.largest));
        let others = || (0..self.quotas.len() as u32).map(FlowId).filter(|&j| j != f);
        let quota = |j: FlowId| self.quotas[j.index()] as u128;
        let rate = Rate(self.packet as u64);
        let until = |packets: u64, bytes: u64| {
            let cycles = (u128::from(packets.max(1) - 1) * packet + self.swing(f)) / own + 2;
            let sent = others()
                .map(|j| cycles.saturating_mul(quota(j)).saturating_add(self.swing(j)) / packet);
            let sent = sent.fold(0, u128::saturating_add).saturating_mul(largest);
            rate.airtime_of_many(u64::try_from(sent).unwrap_or(u64::MAX).saturating_add(bytes))
        };
        let (packets, formula) = match limit {
            Limit::Packets(b) => {
                (u64::from(b), "(B + sum over others of n_j L)/C, n_j packets in K(b) + 1 cycles")
            }
            Limit::Bytes(b) => (
                b,
                "(B + sum over others of n_j L)/C, n_j packets in K(B) + 1 cycles as a packet may have 1 B",
            ),
        };
        let mut bounds = Vec::new();
        if let Limit::Bytes(bytes) = limit {
            bounds.push(Bound {
                delay: until(bytes / self.largest, bytes),
                formula: "(B + sum over others of n_j L)/C, n_j packets in K(B/L) + 1 cycles",
                condition: "if its packets have the largest size",
            });
        }
        // When S bytes in p <= S packets have been sent, the next packet ends before [S + L + ((p C
        // + d_i)/T r_i + 2) Q L + D L]/C. Q and D are the sums of the other flows' quotas and
        // swings, in packets; L is the largest packet.
        let (quotas, swings) = others().fold((0, 0), |(q, d), j| (q + quota(j), d + self.swing(j)));
        let carried = (self.swing(f) * quotas).div_ceil(own) + 2 * quotas + swings;
        let latency = u64::try_from(largest + carried.saturating_mul(largest).div_ceil(packet))
            .unwrap_or(u64::MAX);
        Ok(Guarantee {
            rate: Rate((packet * own / (own + quotas * largest)) as u64),
            latency: rate.airtime_of_many(latency),
            rate_formula: "C R/(R + L sum over others of R_j) if its packets have 1 B, at least its own if all have one size",
            delay: Bound {
                delay: until(packets, full),
                formula,
                condition: "packets that found room",
            },
            others: bounds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Value;
    use crate::scheduler::worked_example::{at_once, order, rates, values, without_instants};

    fn cycles_of_four(thousandths: [u64; 3]) -> Setup {
        Setup { scheduler: values([("cycle", Value::Count(4))]), ..rates(1, &thousandths) }
    }

    /// The first packet of A delays the others, so that all of them are there when the next cycle
    /// is planned.
    #[test]
    fn parts_of_packets_are_carried_over() {
        let sent = |thousandths| {
            let packets = at_once("AAAAAAABBBBCCCC", 1);
            without_instants(&order(&cycles_of_four(thousandths), Corr::new, &packets))
        };
        // The quotas are 2.4, 1 and 0.6 packets.
        let expected = "A1 | A2 A3 B1 C1 | A4 A5 B2 A6 | A7 B3 C2 | B4 C3 | C4";
        assert_eq!(sent([600, 250, 150]), expected.replace("| ", ""));
        // The quotas are 1.5, 1.5 and 1 packets.
        let expected = "A1 | A2 B1 C1 A3 | A4 B2 B3 C2 | A5 B4 C3 A6 | A7 C4";
        assert_eq!(sent([375, 375, 250]), expected.replace("| ", ""));
    }

    /// A flow that sends one packet at a time owes the missing fraction even after it was idle, so
    /// other flows are served first.
    #[test]
    fn idle_flows_keep_their_debt() {
        // The quotas are 0.4, 1.2 and 2.4 packets. A's first packet costs 0.6 more than A's credit.
        // At 10 the credit is -0.2, so A's second packet waits for the next cycle. Without the debt
        // it would be the fourth packet of this cycle.
        let mut packets = Vec::from([(0, 'A', 1), (8, 'B', 1), (8, 'B', 1), (9, 'A', 1)]);
        packets.extend([(9, 'B', 1); 4]);
        packets.extend([(9, 'C', 1); 4]);
        let sent = order(&cycles_of_four([100, 300, 600]), Corr::new, &packets);
        let expected = "A1@1 B1@9 B2@10 B3@11 C1@12 C2@13 C3@14 B4@15 C4@16 B5@17 A2@18 B6@19";
        assert_eq!(sent, expected);
    }
}
