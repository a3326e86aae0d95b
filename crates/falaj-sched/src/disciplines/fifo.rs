//! First in, first out: one queue for all flows. It does not isolate flows from each other. The
//! other disciplines are compared with it.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, Settling, admits_one, full_queue, without_room,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::queues::aqm;
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "fifo",
    doc: "one queue for all flows, first in first out",
    source: "folklore",
    cost: "O(1)",
    guarantee: "delay of a full queue",
    guarantee_source: "time to send a full queue",
    aliases: &["first in first out", "fcfs", "pfifo", "bfifo", "tail drop"],
    scheduler: &[Param {
        name: "queue",
        kind: Kind::Limit,
        default: Some("the sum of the flows' queue limits"),
        doc: "limit of the single queue that all flows share, in packets or bytes",
    }],
    ..Manifest::PLAIN
};

/// First in, first out.
#[derive(Debug, Clone)]
pub struct Fifo {
    limit: Limit,
    rate: Rate,
    flows: usize,
    largest: u32,
    full_queue: Span,
}

impl Fifo {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Fifo, ConfigErrors> {
        let mut refused = without_room(setup);
        let limit = setup.scheduler.limit("queue").unwrap_or_else(|| sum(setup));
        refused.extend(admits_one(setup, limit, None).err());
        refused.extend(aqm::shared(setup).err());
        ConfigErrors::of(refused)?;
        let full_queue = setup.rate.airtime_of_many(full_queue(setup, limit));
        Ok(Fifo {
            limit,
            rate: setup.rate,
            flows: setup.flows.len(),
            largest: setup.largest,
            full_queue,
        })
    }
}

/// Sum of the flows' limits, in packets if all of them are in packets, else in bytes.
fn sum(setup: &Setup) -> Limit {
    let in_packets = setup.flows.iter().try_fold(0u32, |sum, f| match f.limit {
        Limit::Packets(n) => Some(sum.saturating_add(n)),
        Limit::Bytes(_) => None,
    });
    match in_packets {
        Some(packets) => Limit::Packets(packets),
        None => Limit::Bytes(
            setup.flows.iter().map(|f| full_queue(setup, f.limit)).fold(0, u64::saturating_add),
        ),
    }
}

impl Discipline for Fifo {
    type State = ();
    type Tag = ();

    fn start(&mut self, _: &mut Flows<()>) {}

    fn migrate_from(&mut self, _: Fifo, _: &mut Flows<()>, _: Time) {}

    #[inline(always)]
    fn ready(&mut self, _: &mut Flows<()>, _: FlowId, _: Time) {}

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<()>, _: Time, _: &Wire) -> Decision {
        match flows.head(FlowId(0)) {
            Some(_) => Decision::Serve(FlowId(0)),
            None => Decision::Idle,
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, _: &mut Flows<()>, _: FlowId, _: Sent) {}
}

impl QueueHooks for Fifo {
    #[inline]
    fn shared_queue(&self) -> Option<Limit> {
        Some(self.limit)
    }

    #[inline]
    fn place(&self, _: FlowId) -> FlowId {
        FlowId(0)
    }
}

impl MediumHooks for Fifo {}

impl Guarantees for Fifo {
    /// The guaranteed delay is that of a full queue. A rate is guaranteed only to a flow that is
    /// alone on the link.
    fn service(&self, _: FlowId) -> Result<Guarantee, NoGuarantee> {
        let alone = self.flows == 1;
        Ok(Guarantee {
            rate: if alone { self.rate } else { Rate(0) },
            latency: self.rate.airtime(self.largest),
            rate_formula: if alone { "C" } else { "none: the flow that sends most gets most" },
            delay: Bound {
                delay: self.full_queue,
                formula: if matches!(self.limit, Limit::Packets(_)) { "b MTU/C" } else { "B/C" },
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(0)
    }

    fn service_behind(&self, f: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee> {
        Ok(self.service(f)?.after(server.latency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Values;
    use crate::scheduler::worked_example::{THREE_FLOWS, order, setup};

    #[test]
    fn fifo_keeps_the_order_of_arrival() {
        let setup = setup(4, core::iter::repeat_n(Values::default(), 3));
        let sent = order(&setup, Fifo::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 A3@6 A4@8 B1@12 B2@13 B3@16 C1@19 C2@22");
    }
}
