//! Drives deficit round robin by hand: three packets of two flows on a link of 8 Mbit/s, where a
//! byte takes a microsecond.

use falaj_sched::contract::discipline::Decision;
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::disciplines::drr::Drr;
use falaj_sched::queues::queue::{FlowId, Limit, Packet};
use falaj_sched::scheduler::Scheduler;
use falaj_sched::scheduler::instance::SchedulerInstance;
use falaj_sched::units::rate::{Rate, Wire};
use falaj_sched::units::time::Time;

fn main() {
    let quantum = |bytes| Values::default().with("quantum", Value::Bytes(bytes));
    let flow = |bytes| FlowSetup::new(quantum(bytes), Limit::Packets(10));
    let rate = Rate::from_mbit(8);
    let setup = Setup {
        rate,
        largest: 500,
        scheduler: Values::default(),
        flows: vec![flow(500), flow(500)],
    };
    let drr = Drr::new(&setup).expect("each quantum covers the largest packet");

    let (mut scheduler, mut wire, mut now) =
        (SchedulerInstance::new(&setup, drr), Wire::new(rate), Time::ZERO);
    for (handle, (flow, bytes)) in (0..).zip([(0, 400), (0, 400), (1, 300)]) {
        let packet = Packet { handle, bytes, flow: FlowId(flow), arrival: now };
        scheduler.arrive(packet, now).expect("the queue has room");
    }
    loop {
        match scheduler.next(now, &wire) {
            Decision::Serve(queue) => {
                let (packet, sent) = scheduler.take(queue, now, &mut wire);
                let (start, end) = (sent.start.since(Time::ZERO), sent.end.since(Time::ZERO));
                println!("packet {} of flow {}: {start} to {end}", packet.handle, packet.flow.0);
                now = sent.end;
                scheduler.finish(queue, now);
            }
            Decision::Drop(queue) => drop(scheduler.drop_head(queue, now)),
            Decision::NotBefore(then) => now = then,
            Decision::Idle => break,
        }
    }
}
