//! Adaptive rate-controlled scheduling.
//!
//! Yau and Lam, "Adaptive rate-controlled scheduling for multimedia applications" (1996), as
//! summarized in C. Zhang's thesis (section 2.5): each process has a rate; its rate-controlled
//! value, derived from its expected finishing time, decides which process runs. Rates pass an
//! admission control, and are adapted to the demand that the process reports. The thesis leaves
//! some rules open. For packets they are chosen as follows:
//! - A flow works in slices of `period` at its `rate`. At the start of a slice, its expected
//!   finishing time is set to `E = max(now, E) + period`. `E` is the value of all packets of the
//!   slice; the packet with the smallest value is sent first.
//! - A slice begins with the packet after the one that used up the previous slice, or with the
//!   first packet of a backlog if the time of the previous slice is over. A packet may start while
//!   any bytes of the slice are left; its excess is charged to the next slice.
//! - To adapt a rate means to change the flow's `rate`: the new rate passes the same admission
//!   control, and applies from the next slice on.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Draw};
use crate::contract::guarantee::{Deadlines, Guarantee, Guarantees};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::weights::{Instant, RATE, ROUNDING, instant, pace, rates};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{BIT_NANOS, Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "arc",
    doc: "adaptive rate control: a flow sends in slices of its rate, and the slice that is \
          expected to finish first goes first",
    source: "Yau and Lam 1996, as in C. Zhang's thesis",
    cost: "O(log N)",
    guarantee: "rate and delay, to a flow that keeps to an envelope",
    guarantee_source: "own derivation",
    flow: &[
        RATE,
        Param {
            name: "period",
            kind: Kind::Span,
            default: Some("the time of one largest packet at the flow's rate"),
            doc: "length of the flow's slices, at least the time of one largest packet at its \
                  rate; shorter slices mean shorter delays, longer ones fewer turns",
        },
    ],
    editable: &[("rate", "Rate")],
    draw: Draw::by(&[("period", draw::period)]),
    ..Manifest::PLAIN
};

/// Adaptive rate-controlled scheduling.
#[derive(Debug, Clone)]
pub struct Arc {
    slices: Vec<Slice>,
    /// Flows with packets, ordered by the expected finishing times of their slices.
    values: Tournament<Instant>,
    serving: Option<FlowId>,
    largest: u32,
    /// The longest time by which a packet leaves after its expected finishing time.
    late: Span,
}

#[derive(Debug, Clone)]
struct Slice {
    rate: Rate,
    bytes: i64,
    /// Duration of a slice.
    period: Span,
    /// Time that the slice's bytes take at the flow's rate.
    time: Instant,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct SlicedFlow {
    /// Expected finishing time of the current slice.
    expected: Instant,
    /// Bytes left of the slice; negative after an excess.
    left: i64,
}

/// Maximum size of a slice, in bytes. With it, sums of slices fit 64 bits.
const MOST: u128 = 1 << 40;

impl Arc {
    /// Validates the setup. A slice smaller than a packet is refused, because its excess could be
    /// larger than the next slice.
    pub fn new(setup: &Setup) -> Result<Arc, ConfigErrors> {
        let mut slices = Vec::with_capacity(setup.flows.len());
        for (flow, (f, rate)) in
            setup.flows.iter().zip(rates(setup, "adaptive rate control")?).enumerate()
        {
            let shortest = rate.airtime(setup.largest);
            let period = f.values.span("period").unwrap_or(shortest);
            let bytes = u128::from(rate.0) * u128::from(period.0) / u128::from(BIT_NANOS);
            if period < shortest || bytes > MOST {
                return Err(ConfigError {
                    flow: Some(flow),
                    param: "period",
                    what: format!("a period of {period} is out of range"),
                    help: format!(
                        "at least {shortest}, the time of a packet of {} B at {rate}; at most a \
                         terabyte in a slice",
                        setup.largest
                    ),
                }
                .into());
            }
            slices.push(Slice { rate, bytes: bytes as i64, period, time: bytes * pace(rate) });
        }
        // Bytes that may be sent after a packet's expected finishing time, but before the packet:
        // for each flow a slice and its possible excess, and the packet on the wire.
        let slice = |slice: &Slice| slice.bytes as u64 + u64::from(setup.largest);
        let before = slices.iter().map(slice).fold(setup.largest.into(), u64::saturating_add);
        let late = setup.rate.airtime_of_many(before) + ROUNDING;
        Ok(Arc {
            values: Tournament::new(slices.len()),
            slices,
            serving: None,
            largest: setup.largest,
            late,
        })
    }

    /// Assigns the head of `f` to the current slice, or to a new slice if the current one is used
    /// up.
    fn offer(&mut self, flows: &mut Flows<SlicedFlow>, f: FlowId, now: Time) {
        if flows.head(f).is_none() {
            return self.values.remove(f);
        }
        let slice = &self.slices[f.index()];
        let state = flows.state_mut(f);
        if state.left <= 0 {
            state.left += slice.bytes;
            state.expected = state.expected.max(instant(now)).saturating_add(slice.time);
        }
        self.values.set(f, state.expected);
    }
}

impl Discipline for Arc {
    type State = SlicedFlow;
    type Tag = ();

    fn start(&mut self, _: &mut Flows<SlicedFlow>) {}

    /// Current slices continue; the next slices use the new rates.
    fn migrate_from(&mut self, old: Arc, flows: &mut Flows<SlicedFlow>, _: Time) {
        (self.values, self.serving) = (old.values, old.serving);
        self.values.grow(self.slices.len());
        for (f, slice) in self.slices.iter().enumerate() {
            let state = flows.state_mut(FlowId(f as u32));
            // An excess that is larger than the new slice is reduced to less than that slice.
            state.left = state.left.max(1 - slice.bytes);
        }
    }

    /// The rest of a slice whose time is over is lost.
    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<SlicedFlow>, f: FlowId, now: Time) {
        let state = flows.state_mut(f);
        if state.expected <= instant(now) {
            state.left = state.left.min(0);
        }
        self.offer(flows, f, now);
    }

    fn head_changed(&mut self, flows: &mut Flows<SlicedFlow>, f: FlowId, now: Time) {
        self.offer(flows, f, now);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<SlicedFlow>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.offer(flows, f, now);
        }
        self.values.first().map_or(Decision::Idle, |(_, f)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<SlicedFlow>, f: FlowId, sent: Sent) {
        flows.state_mut(f).left -= i64::from(sent.bytes);
        self.serving = Some(f);
    }

    fn is_reusable(&self, flows: &Flows<SlicedFlow>, f: FlowId, now: Time) -> bool {
        let state = flows.state(f);
        state.left >= 0 && state.expected <= instant(now)
    }
}

impl QueueHooks for Arc {}
impl MediumHooks for Arc {}

impl Guarantees for Arc {
    /// There is no guarantee without an envelope: a flow that has sent more than its rate waits
    /// later.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        Err(NoGuarantee(format!(
            "adaptive rate control guarantees {} only to a flow that never exceeds it: a flow \
             that used others' capacity waits until its expected finish time, however long that \
             takes",
            self.slices[f.index()].rate
        )))
    }

    /// Own derivation. The flow may have an excess of one packet of `L` bytes from before. So the
    /// packet that ends at byte `y` belongs to one of the first `(y + L)/S + 1` slices of `S`
    /// bytes, and its value is at most `(y + L)/r` plus a period, for the rate `r`. Once it is
    /// queued, no packet with a larger value is sent first. Each other flow may send packets with
    /// values up to this one before it. They have at most the bytes of three parts: the other
    /// flow's rate until the time of this value, a slice that was begun earlier, and the excess of
    /// a packet. In addition, one packet is on the wire.
    fn deadlines(&self, f: FlowId) -> Option<Deadlines> {
        let Slice { rate, period, .. } = self.slices[f.index()];
        let value = rate.airtime_of_many(self.largest.into()) + period;
        Some(Deadlines::new((rate, Span::ZERO, rate), value + self.late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{THREE_FLOWS, order_together, rates};

    /// A has half of the link, B and C a quarter each, with slices of 4 B. The expected finishing
    /// times are 8 and 16 for A's slices, 16 and 32 for B's, 17 and 33 for C's.
    #[test]
    fn adaptive_rates_go_by_slices() {
        let sent = order_together(&rates(4, &[500, 250, 250]), Arc::new, THREE_FLOWS);
        // A3 and A4 have the same value as B1. The two other packets of B are in its second slice;
        // C2 starts in C's first slice.
        assert_eq!(sent, "A1@2 A2@4 A3@6 A4@8 B1@12 C1@15 C2@18 B2@19 B3@22");
    }
}
