//! Worst-case fair weighted fair queueing, the practical form.
//!
//! Bennett and Zhang, "Hierarchical packet fair queueing algorithms" (1997). The server chooses
//! among the flows whose head has a start not later than virtual time. It serves the one whose head
//! finishes first. Virtual time advances while a packet is on the wire, and jumps to the first
//! start if no flow has started.
//!
//! The order is that of the definition, including ties, which the flow's number decides. Virtual
//! times are exact where possible, see `virtual_time::exact_byte`.
//!
//! A dequeue costs O(log N) on average; it may examine all starts that virtual time passes during
//! one packet, see `eligible_set.rs`.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, RateCondition, ServiceLimits, Settling, finite_rate, full_queue,
    room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::contract::wfi::{ROUNDED, WfiFormula};
use crate::mechanisms::eligible_set::Starts;
use crate::mechanisms::flow_tag::{Place, Share, ahead};
use crate::mechanisms::proportion::by_starts;
use crate::mechanisms::virtual_time::{Keeps, NONE, PARTS, VirtualTime, WEIGHT, Weights, is_free};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "wf2q+",
    doc: "worst-case fair weighted fair queueing, practical form: flows share the link in \
          proportion to their weights, as evenly as packets allow, O(log N)",
    source: "Bennett and Zhang 1997",
    cost: "O(log N)",
    guarantee: "rate and delay",
    guarantee_source: "Stiliadis and Varma 1998",
    purposes: &[Purpose::Share],
    aliases: &["wf2qplus"],
    example: Example { scheduler: "", calls: "weight = 3", rest: "weight = 1" },
    flow: &[WEIGHT],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    wfi: Some(WfiFormula {
        formula: "L_i + (L - L_i) phi",
        condition: None,
        bytes: |f| f.own + (f.most - f.own) * f.phi + ROUNDED,
    }),
    ..Manifest::PLAIN
};

/// Tolerance, in units of virtual time: a head counts as started if its start is at most this far
/// after virtual time. Rounding of virtual time makes one unit. If the sum of the weights does not
/// divide the virtual time of a byte, a further error accumulates: less than one unit until 64 MB
/// have been sent without a pause.
const NEAR: i64 = 2;

/// Worst-case fair weighted fair queueing, the practical form.
#[derive(Debug, Clone)]
pub struct Wf2qPlus {
    time: VirtualTime,
    starts: Starts,
    /// The flow that is being served, or the only backlogged flow. It is not in `starts`.
    in_hand: u32,
    /// Length of the packet on the wire, in parts of a byte, and the number of parts already
    /// counted in virtual time.
    whole: u64,
    counted: u64,
    from: Time,
    end: Time,
    weights: Weights,
    full_queues: Vec<u64>,
}

impl Wf2qPlus {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Wf2qPlus, ConfigErrors> {
        finite_rate(setup, "worst-case fair queueing")?;
        room_for_one(setup)?;
        let weights = Weights::new(setup)?.exact();
        Ok(Wf2qPlus {
            time: VirtualTime::new(&weights),
            starts: Starts::new(setup.flows.len()),
            in_hand: NONE,
            whole: 0,
            counted: 0,
            from: Time::ZERO,
            end: Time::ZERO,
            weights,
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    /// Advances virtual time to `now`.
    #[inline]
    fn pass(&mut self, flows: &Flows<Share>, now: Time) {
        if self.counted == self.whole {
            return;
        }
        let mut sent = self.whole;
        if now < self.end {
            // The work is counted from the packet's start, so that the result does not depend on
            // earlier calls.
            let (gone, whole) = (now.since(self.from).0, (self.end - self.from).0);
            sent = (u128::from(sent) * u128::from(gone) / u128::from(whole)) as u64;
        }
        let f = FlowId(self.in_hand);
        self.time.work_parts(sent - self.counted, flows.state(f), self.weights.of(f));
        self.counted = sent;
    }

    #[inline]
    fn insert(&mut self, flows: &Flows<Share>, f: FlowId) {
        let share = flows.state(f);
        if ahead(share.start, self.time.now()) > NEAR {
            self.starts.wait(share.start, f.0);
        } else {
            self.starts.begin(share.finish(flows.head(f).unwrap_or(0)), f.0);
        }
    }

    fn idle(&self) -> bool {
        self.starts.is_empty()
    }
}

impl Discipline for Wf2qPlus {
    type State = Share;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<Share>) {
        self.weights.start(flows);
    }

    /// A flow keeps the service that it got in advance. A flow that keeps its weight also keeps its
    /// lag.
    fn migrate_from(&mut self, mut old: Wf2qPlus, flows: &mut Flows<Share>, now: Time) {
        old.pass(flows, now);
        if old.time.rests() && self.weights.byte != old.weights.byte {
            return self.start(flows);
        }
        if self.weights.has_unit_of(&old.weights) {
            self.weights.byte = old.weights.byte;
        }
        (self.time, self.in_hand) = (old.time, old.in_hand);
        (self.whole, self.counted, self.from, self.end) =
            (old.whole, old.counted, old.from, old.end);
        if self.weights.all.len() == old.weights.all.len()
            && self.weights.largest == old.weights.largest
            && self.weights.byte == old.weights.byte
        {
            // Usually only a few of a hundred thousand flows change.
            self.starts = old.starts;
            let weights = self.weights.all.iter().zip(&old.weights.all).enumerate();
            let others = weights
                .filter(|(_, (new, old))| new != old)
                .map(|(f, (&new, &old))| (f as u32, old, new));
            for (f, old, new) in others.collect::<Vec<_>>() {
                let share = flows.state_mut(FlowId(f));
                self.time.reweigh_one(share, old, new, self.weights.largest);
                if flows.state(FlowId(f)).place() == Place::Present && f != self.in_hand {
                    self.starts.remove(f);
                    self.insert(flows, FlowId(f));
                }
            }
            return;
        }
        self.time.reweigh(flows, &old.weights, &self.weights, Keeps::Distances);
        for f in 0..self.weights.all.len() as u32 {
            if flows.state(FlowId(f)).place() == Place::Present && f != self.in_hand {
                self.insert(flows, FlowId(f));
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<Share>, f: FlowId, now: Time) {
        self.pass(flows, now);
        if flows.state(f).place() == Place::Present {
            return;
        }
        let free = self.idle() && is_free(self.in_hand, flows);
        if free && self.in_hand != NONE {
            flows.state_mut(FlowId(self.in_hand)).set_place(Place::Away);
            self.time.rest();
        }
        for other in self.time.due(flows.len()) {
            self.time.over(flows.state_mut(FlowId(other as u32)));
        }
        self.time.join(flows.state_mut(f), self.weights.of(f));
        if free {
            self.in_hand = f.0;
        } else {
            self.insert(flows, f);
        }
    }

    /// Handles the departure of a head that the previous discipline sent.
    fn head_changed(&mut self, flows: &mut Flows<Share>, f: FlowId, _: Time) {
        if self.starts.remove(f.0) {
            match flows.head(f) {
                Some(_) => self.insert(flows, f),
                None => self.time.leave(flows.state_mut(f), self.weights.of(f)),
            }
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<Share>, _: Time, _: &Wire) -> Decision {
        self.pass(flows, self.end);
        if self.in_hand != NONE {
            let f = FlowId(self.in_hand);
            let alone = self.idle();
            if flows.head(f).is_some() {
                if alone {
                    self.time.leap(flows.state(f).start);
                    return Decision::Serve(f);
                }
                self.insert(flows, f);
            } else if alone {
                flows.state_mut(f).set_place(Place::Away);
                self.time.rest();
            } else {
                self.time.leave(flows.state_mut(f), self.weights.of(f));
            }
            self.in_hand = NONE;
        }
        loop {
            // Starts at most `NEAR` units after virtual time count as passed.
            let passed = self.time.now().wrapping_add(NEAR as u64 + 1);
            self.starts.pass(passed, |f| {
                flows.state(FlowId(f)).finish(flows.head(FlowId(f)).unwrap_or(0))
            });
            match (self.starts.first(), self.starts.first_start()) {
                (Some(f), _) => return Decision::Serve(FlowId(f)),
                (None, Some(start)) => self.time.leap(start),
                (None, None) => return Decision::Idle,
            }
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<Share>, f: FlowId, sent: Sent) {
        if self.in_hand != f.0 {
            self.starts.take_first(f.0);
            self.in_hand = f.0;
        }
        flows.state_mut(f).charge(sent.bytes);
        (self.whole, self.counted) = (u64::from(sent.bytes) << PARTS, 0);
        (self.from, self.end) = (sent.start, sent.end);
    }

    fn is_reusable(&self, flows: &Flows<Share>, f: FlowId, _: Time) -> bool {
        !self.time.owes(flows.state(f))
    }
}

impl QueueHooks for Wf2qPlus {}
impl MediumHooks for Wf2qPlus {
    /// The remaining part is spread over the remaining time.
    fn retimed(&mut self, _: &mut Flows<Share>, _: FlowId, end: Time, now: Time) {
        if self.end > now {
            (self.whole, self.counted) = (self.whole - self.counted, 0);
            (self.from, self.end) = (now, end);
        }
    }
}

impl Guarantees for Wf2qPlus {
    /// A packet ends at most one packet's transmission time after virtual time reaches its finish.
    /// This is the latency-rate server of Stiliadis and Varma (1998): `L/r + L/C`, from an instant
    /// at which the flow owes nothing. While the flow has packets, the start of its head is at most
    /// one of its packets ahead of virtual time. Two bytes and two nanoseconds are added for the
    /// rounding of virtual time within a packet.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let Weights { rate, largest, .. } = self.weights;
        let largest = u64::from(largest);
        let after = |bytes: u64| {
            let work = self.weights.work(self.weights.of_bytes(f, bytes) + NEAR as u128);
            rate.airtime_of_many(work.saturating_add(largest + 2)) + Span(2)
        };
        Ok(Guarantee {
            rate: self.weights.rate(f),
            latency: after(largest),
            rate_formula: "C w/sum w",
            delay: Bound {
                delay: after(self.full_queues[f.index()].saturating_add(largest)),
                formula: "(B + L)/r + L/C, r = C w/sum w",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    /// Let a backlog of flow `i`, of weight `w`, begin when virtual time is `v`. The flow
    /// has no packets, and its previous one had started by `v`. So the packet that ends with byte
    /// `S` finishes at `v + (L + S)/w` or earlier.
    ///
    /// Before that packet, a packet of flow `j` is chosen in one of two cases. If the head of flow
    /// `i` has started, the packet of flow `j` does not finish later. If that head has not started,
    /// the packet of flow `j` starts before it, and finishes at most `L/w_j` after that start. In
    /// both cases it finishes at `v + (L + S)/w + L/w_j` at the latest.
    ///
    /// The first packet of flow `j` that is chosen since `v`, of `l` bytes, starts at `v - L/w_j`
    /// or later. Let it finish at `f`, and let it be chosen when virtual time is `u`. If `u <= f`,
    /// it starts at `u - l/w_j` or later. Otherwise let `u'` be virtual time at the last earlier
    /// choice of a packet that finishes after `f`. Then all heads that had started finished after
    /// `f`. So the packets chosen since, and this one, start at `u'` or later and finish by `f`.
    /// Their flows count in between, so the link sends at least all their bytes while virtual time
    /// rises from `u'` to `f`. Of the bytes sent from `u'` to `u`, only the packet chosen at `u'`
    /// is none of these packets, and the `l` bytes are not sent yet. So the link has sent at most
    /// `L - l` bytes since `f`. Flow `j` counts, so `u` is at most `f + (L - l)/w_j`, and the
    /// packet starts at `u - L/w_j` or later. If there was no such choice since a leap of virtual
    /// time or since the link was empty, let `u'` be virtual time at that instant. No start was
    /// earlier then, and all packets sent since are these packets.
    ///
    /// If a packet of flow `j` is on the wire at `v`, this is true of the instant at which it
    /// began. Since then virtual time has risen by at most the bytes sent, divided by `w_j`. So
    /// flow `j` sends at most `w_j (L + S)/w + 2 L` bytes.
    ///
    /// Virtual times are rounded to half a unit when a flow becomes backlogged or silent. Two bytes
    /// are for that, and one is for starts just after virtual time, which count as passed.
    fn limits(&self, f: FlowId) -> Option<ServiceLimits> {
        let largest = u64::from(self.weights.largest);
        by_starts(&self.weights, f, largest, 2 * largest + 3)
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(1)
    }

    fn rate_condition(&self) -> Option<RateCondition> {
        Some(RateCondition::OwesNothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{THREE_FLOWS, at_once, order, weights};
    use alloc::format;
    use alloc::string::String;

    /// Finishes in virtual time: A 1 2 3 4, B 4 5 8. C arrives in the middle of A1, at virtual time
    /// 1/3: its finishes are 10/3 and 19/3.
    #[test]
    fn three_flows_of_different_packets() {
        let sent = order(&weights(4, &[2, 1, 1]), Wf2qPlus::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 C1@5 A2@7 B1@11 A3@13 A4@15 C2@18 B2@19 B3@22");
    }

    /// Like the example of Bennett and Zhang 1996: one flow has half of the link, sixteen others
    /// share the rest.
    #[test]
    fn a_flow_of_half_the_link_takes_turns_with_all_others() {
        let mut all = [1; 17];
        all[0] = 16;
        let packets = at_once("AAAAAAAAAAAAAAAAABCDEFGHIJKLMNOPQ", 4);
        let turn = |n: u8| {
            let [first, second] = [8 * u32::from(n) - 4, 8 * u32::from(n)];
            format!("A{n}@{first} {}1@{second} ", char::from(b'A' + n))
        };
        let turns: String = (1..=16).map(turn).collect();
        assert_eq!(order(&weights(4, &all), Wf2qPlus::new, &packets), turns + "A17@132");
    }
}
