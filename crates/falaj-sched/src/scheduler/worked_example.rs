//! Worked examples for the tests of disciplines: a few packets on a link of 8 Mbit/s, where a byte
//! takes a microsecond, and the times of their departures.
//!
//! Packets are written as (arrival in microseconds, flow, bytes), departures as `B2@14`: the last
//! bit of the second packet of flow B has left after 14 us. The flows of a setup are called A, B, C
//! and so on.

use crate::contract::complete::CompleteDiscipline;
use crate::contract::discipline::Decision;
use crate::contract::guarantee::Guarantee;
use crate::contract::params::{ConfigErrors, FlowSetup, Setup, Value, Values};
use crate::contract::transmission::Sent;
use crate::queues::queue::{FlowId, Limit, Packet};
use crate::scheduler::instance::SchedulerInstance;
use crate::scheduler::{Inspection, Scheduler};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Three flows with packets of several lengths. The packets of the third flow arrive a microsecond
/// later.
pub(crate) const THREE_FLOWS: &[(u64, char, u32)] = &[
    (0, 'A', 2),
    (0, 'A', 2),
    (0, 'A', 2),
    (0, 'A', 2),
    (0, 'B', 4),
    (0, 'B', 1),
    (0, 'B', 3),
    (1, 'C', 3),
    (1, 'C', 3),
];

/// Packets of equal length that arrive at time 0: one for each letter of `flows`.
pub(crate) fn at_once(flows: &str, bytes: u32) -> Vec<(u64, char, u32)> {
    flows.chars().map(|flow| (0, flow, bytes)).collect()
}

/// Setup of the link for packets of up to `largest` bytes. `flows` has the values of each flow;
/// each queue holds 10 000 packets.
pub(crate) fn setup(largest: u32, flows: impl IntoIterator<Item = Values>) -> Setup {
    let flow = |values| FlowSetup::new(values, Limit::Packets(10_000));
    Setup {
        rate: Rate::from_mbit(8),
        largest,
        scheduler: Values::default(),
        flows: flows.into_iter().map(flow).collect(),
    }
}

/// Setup of flows that have only a `weight`.
pub(crate) fn weights(largest: u32, weights: &[u64]) -> Setup {
    setup(largest, weights.iter().map(|&n| values([("weight", Value::Count(n))])))
}

/// Setup of flows that have only a `rate`, in thousandths of the link's rate.
pub(crate) fn rates(largest: u32, thousandths: &[u64]) -> Setup {
    setup(largest, thousandths.iter().map(|&n| values([("rate", rate(n))])))
}

/// Values of a flow or a scheduler, by name.
pub(crate) fn values<const N: usize>(named: [(&'static str, Value); N]) -> Values {
    named.into_iter().fold(Values::default(), |all, (name, value)| all.with(name, value))
}

/// A rate in thousandths of the link's rate.
pub(crate) fn rate(thousandths: u64) -> Value {
    Value::Rate(Rate(8_000 * thousandths))
}

/// A time in microseconds; the link sends one byte in a microsecond.
pub(crate) fn time(us: u64) -> Value {
    Value::Span(Span::from_micros(us))
}

/// A packet of the flow with this number.
pub(crate) fn packet(arrival: Time, flow: u32, bytes: u32) -> Packet {
    Packet { handle: 0, bytes, flow: FlowId(flow), arrival }
}

/// The packets of a written list, numbered, in the order of their arrivals and then of their flows.
pub(crate) fn packets(written: &[(u64, char, u32)]) -> Vec<Packet> {
    let packet = |&(us, flow, bytes): &(u64, char, u32)| {
        packet(Time::ZERO + Span::from_micros(us), flow as u32 - 'A' as u32, bytes)
    };
    let mut all: Vec<Packet> = written.iter().map(packet).collect();
    all.sort_by_key(|packet| (packet.arrival, packet.flow));
    all.iter_mut().zip(0..).for_each(|(packet, handle)| packet.handle = handle);
    all
}

/// Departures of `packets` from a link as a pipe implements it: events at the same instant have an
/// order. First come the end of a transmission and the decision after it, then an instant that the
/// discipline named, then arrivals, one by one. A packet that arrives at a free link may therefore
/// leave before another packet of the same instant has arrived. `new` is the constructor of the
/// discipline.
pub(crate) fn departures<D: CompleteDiscipline>(
    setup: &Setup,
    new: impl FnOnce(&Setup) -> Result<D, ConfigErrors>,
    packets: &[Packet],
) -> Vec<(Packet, Sent)> {
    run(setup, new, packets, false)
}

/// Departures from a link as in most papers: all packets that arrive at an instant are queued
/// before the decision at that instant.
pub(crate) fn departures_together<D: CompleteDiscipline>(
    setup: &Setup,
    new: impl FnOnce(&Setup) -> Result<D, ConfigErrors>,
    packets: &[Packet],
) -> Vec<(Packet, Sent)> {
    run(setup, new, packets, true)
}

/// The [`departures`] of a written list of packets, as text.
pub(crate) fn order<D: CompleteDiscipline>(
    setup: &Setup,
    new: impl FnOnce(&Setup) -> Result<D, ConfigErrors>,
    written: &[(u64, char, u32)],
) -> String {
    names(&departures(setup, new, &packets(written)))
}

/// The [`departures_together`] of a written list of packets, as text.
pub(crate) fn order_together<D: CompleteDiscipline>(
    setup: &Setup,
    new: impl FnOnce(&Setup) -> Result<D, ConfigErrors>,
    written: &[(u64, char, u32)],
) -> String {
    names(&departures_together(setup, new, &packets(written)))
}

/// Removes the instants from an order: `A1@2 B1@6 A2@8` becomes `A1 B1 A2`.
pub(crate) fn without_instants(order: &str) -> String {
    let names = order.split(' ').map(|departure| departure.split('@').next().expect("a name"));
    names.collect::<Vec<_>>().join(" ")
}

/// The longest time from the arrival to the last bit of a packet of this flow.
pub(crate) fn longest_delay(departures: &[(Packet, Sent)], flow: u32) -> Span {
    let own = departures.iter().filter(|(packet, _)| packet.flow.0 == flow);
    own.map(|(packet, sent)| sent.end - packet.arrival).max().expect("the flow has packets")
}

/// The guarantee of this flow.
pub(crate) fn guarantee<D: CompleteDiscipline>(
    setup: &Setup,
    new: impl FnOnce(&Setup) -> Result<D, ConfigErrors>,
    flow: u32,
) -> Guarantee {
    new(setup).expect("a valid setup").service(FlowId(flow)).expect("a guarantee")
}

fn names(departures: &[(Packet, Sent)]) -> String {
    let mut numbers = BTreeMap::new();
    let name = |(packet, sent): &(Packet, Sent)| {
        let (flow, us) = (char::from(b'A' + packet.flow.0 as u8), sent.end.0 / 1_000);
        let number = numbers.entry(flow).and_modify(|n| *n += 1).or_insert(1);
        format!("{flow}{number}@{us}")
    };
    departures.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// Sends all packets. Each query is made twice and must give the same answer.
fn run<D: CompleteDiscipline>(
    setup: &Setup,
    new: impl FnOnce(&Setup) -> Result<D, ConfigErrors>,
    packets: &[Packet],
    together: bool,
) -> Vec<(Packet, Sent)> {
    assert!(packets.is_sorted_by_key(|packet| packet.arrival), "packets come one after the other");
    let mut scheduler = SchedulerInstance::new(setup, new(setup).expect("a valid setup"));
    let (mut wire, mut now) = (Wire::new(setup.rate), Time::ZERO);
    let (mut coming, mut out) = (packets, Vec::new());
    let arrive = |scheduler: &mut SchedulerInstance<D>, coming: &mut &[Packet], n: usize| {
        let (first, rest) = coming.split_at(n);
        for &packet in first {
            scheduler.arrive(packet, packet.arrival).expect("the queue has room");
        }
        *coming = rest;
    };
    loop {
        let decision = scheduler.next(now, &wire);
        assert_eq!(decision, scheduler.next(now, &wire), "the second answer is another one");
        let here = coming.partition_point(|packet| packet.arrival <= now);
        if together && here > 0 {
            arrive(&mut scheduler, &mut coming, here);
            continue;
        }
        let until = match decision {
            Decision::Serve(queue) => {
                let (packet, sent) = scheduler.take(queue, now, &mut wire);
                let meanwhile = coming.partition_point(|packet| packet.arrival < sent.end);
                arrive(&mut scheduler, &mut coming, meanwhile);
                scheduler.finish(queue, sent.end);
                out.push((packet, sent));
                now = sent.end;
                continue;
            }
            Decision::Drop(queue) => {
                scheduler.drop_head(queue, now);
                continue;
            }
            Decision::NotBefore(then) => then,
            Decision::Idle => Time::NEVER,
        };
        match coming.first() {
            Some(packet) if packet.arrival < until => {
                now = packet.arrival;
                arrive(&mut scheduler, &mut coming, usize::from(!together));
            }
            _ if until == Time::NEVER => {
                assert_eq!(scheduler.largest_waiting(None), 0, "a packet stays behind");
                return out;
            }
            _ => now = until,
        }
    }
}
