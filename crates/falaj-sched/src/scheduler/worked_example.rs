//! Worked examples for the tests of disciplines: a few packets on a link on which a byte takes a
//! microsecond, and the instants at which they have left.

use crate::contract::complete::CompleteDiscipline;
use crate::contract::discipline::Decision;
use crate::contract::params::{FlowSetup, Setup, Values};
use crate::queues::queue::{FlowId, Limit, Packet};
use crate::scheduler::Scheduler;
use crate::scheduler::instance::SchedulerInstance;
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::vec::Vec;

/// Setup of a link of 8 Mbit/s, where a byte takes a microsecond, for packets of up to 500 bytes.
/// It has a flow for each of `flows`, the values of the flow; each queue holds 10 000 packets.
pub(crate) fn setup(flows: impl IntoIterator<Item = Values>) -> Setup {
    let flow = |values| FlowSetup::new(values, Limit::Packets(10_000));
    Setup {
        rate: Rate::from_mbit(8),
        largest: 500,
        scheduler: Values::default(),
        flows: flows.into_iter().map(flow).collect(),
    }
}

/// Sends `packets` through `discipline`: (arrival in microseconds, flow, bytes) each, in the order
/// of their arrival. Returns the flow of each packet that was sent and the end of its transmission
/// in microseconds. Every question is asked twice.
///
/// Moments are those of the [contract](crate::contract::discipline): at equal instants the end of a
/// transmission comes first, then an instant that the discipline named, then arrivals, one by one.
/// A packet that comes to a free link may therefore leave before another of the same instant is
/// there.
pub(crate) fn departures<D: CompleteDiscipline>(
    setup: &Setup,
    discipline: D,
    packets: &[(u64, u32, u32)],
) -> Vec<(u32, u64)> {
    let mut scheduler = SchedulerInstance::new(setup, discipline);
    let (mut wire, mut now) = (Wire::new(setup.rate), Time::ZERO);
    let mut arrivals = (0..).zip(packets).map(|(handle, &(us, flow, bytes))| {
        let arrival = Time::ZERO + Span(us * 1_000);
        Packet { handle, bytes, flow: FlowId(flow), arrival }
    });
    let mut coming = arrivals.next();
    let mut sent = Vec::new();
    loop {
        let decision = scheduler.next(now, &wire);
        assert_eq!(decision, scheduler.next(now, &wire), "the second answer is another one");
        let until = match decision {
            Decision::Serve(queue) => {
                let (packet, transmission) = scheduler.take(queue, now, &mut wire);
                let end = transmission.end;
                while let Some(packet) = coming.filter(|packet| packet.arrival < end) {
                    scheduler.arrive(packet, packet.arrival).expect("the queue has room");
                    coming = arrivals.next();
                }
                scheduler.finish(queue, end);
                sent.push((packet.flow.0, end.since(Time::ZERO).0 / 1_000));
                now = end;
                continue;
            }
            Decision::Drop(queue) => {
                scheduler.throw_away(queue, now);
                continue;
            }
            Decision::NotBefore(then) => Some(then),
            Decision::Idle => None,
        };
        match (coming, until) {
            (Some(packet), until) if until.is_none_or(|then| packet.arrival < then) => {
                now = packet.arrival;
                scheduler.arrive(packet, now).expect("the queue has room");
                coming = arrivals.next();
            }
            (_, Some(then)) => now = then,
            (_, None) => return sent,
        }
    }
}
