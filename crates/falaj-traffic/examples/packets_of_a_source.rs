//! The packets of a source, which are the same for the same seed, and a meter of their delays.
//! `cargo run -p falaj-traffic --example packets_of_a_source`

use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::meter::Meter;
use falaj_traffic::source::size::Sizes;
use falaj_traffic::source::{Model, Source, SourceSpec};

pub(crate) fn main() {
    let spec = SourceSpec {
        model: Model::Poisson,
        rate: Rate::from_mbit(1),
        sizes: Sizes::Fixed(500),
        limit: None,
        start: Time::ZERO,
        stop: Time::NEVER,
    };
    let packets: Vec<_> = Source::new(spec.clone(), 7, 0).take(5).collect();
    for packet in &packets {
        println!("{} B at {} ns", packet.bytes, packet.at.0);
    }
    let again: Vec<_> = Source::new(spec, 7, 0).take(5).collect();
    assert_eq!(packets, again);

    // On a link of 10 Mbit/s, one packet takes 0.4 ms.
    let (mut meter, mut free) = (Meter::default(), Time::ZERO);
    for packet in packets {
        free = free.max(packet.at) + Span::from_micros(400);
        meter.record(free.since(packet.at));
    }
    println!("delay: {:?} at most", meter.max());
    assert!(meter.min() >= Some(Span::from_micros(400)));
}
