//! Two flows share a link of 8 Mbit/s: packets go in with the time of their arrival, and come out
//! with the time at which they are due.
//! `cargo run -p falaj-engine --example packets_through_an_engine`

use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

pub(crate) fn main() {
    // A pipe: two queues of at most 3 packets, deficit round robin, a link with 2 ms of delay.
    let flow = FlowSetup::new(Values::default(), Limit::Packets(3));
    let flows = vec![flow.clone(), flow];
    let (rate, scheduler) = (Rate::from_mbit(8), Values::default());
    let setup = Setup { rate, largest: 1514, scheduler, flows };
    let pipe = PipeSpec::new("drr", setup, Span::from_micros(2_000));
    let mut engine = Engine::new(&[pipe]).expect("a valid pipe");

    // Flow 0 sends five packets at once, which is more than its queue holds; flow 1 sends one. A
    // handle identifies a packet whose bytes are stored elsewhere.
    let mut out = Vec::new();
    for (handle, flow) in [0, 0, 0, 0, 0, 1].into_iter().enumerate() {
        let unit = Unit { flow: FlowId(flow), handle: handle as u32, bytes: 1000 };
        engine.input(PipeId(0), unit, Time::ZERO, &mut out);
    }
    // The driver owns the clock: the engine says when something happens next.
    while engine.next_event() != Time::NEVER {
        engine.poll(engine.next_event(), &mut out);
    }

    let mut due = Vec::new();
    for output in out {
        match output {
            Output::Emit(emit) => {
                println!(
                    "packet {} of flow {} is due at {} ns",
                    emit.handle, emit.flow.0, emit.due.0
                );
                due.push((emit.handle, emit.due.0));
            }
            Output::Drop(lost) => println!("packet {} is lost: {:?}", lost.handle, lost.why),
            _ => {}
        }
    }
    // A packet takes 1 ms on the link. Flow 1 has its turn after the first packet of flow 0.
    assert_eq!(due, [(0, 3_000_000), (5, 4_000_000), (1, 5_000_000), (2, 6_000_000)]);
}
