//! A frame from one port to another, through a link that takes 20 ms.
//! `cargo run -p falaj-live --example a_frame_between_two_ports`

use falaj_engine::PipeId;
use falaj_engine::network::Network;
use falaj_live::backend::tap::Tap;
use falaj_live::clock::{Clock, monotonic};
use falaj_live::event_loop::{Attached, Forwarder, Options};
use falaj_live::wiring::unit_port;
use falaj_sched::units::time::Span;
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let text = "[link.slow]\nrate = \"10mbit\"\ndelay = \"20ms\"";
    let (scenario, _) = falaj_scenario::parse(text, "slow.toml").expect("a valid scenario");
    let network = Network::new(&scenario.network()).expect("disciplines that can be made");
    // Sockets that carry frames after a header, in the place of interfaces.
    let [(near, near_end), (far, far_end)] = [unit_port("near")?, unit_port("far")?];
    let attached = |port, pipe, leaves_at| Attached { port, pipe: PipeId(pipe), leaves_at };
    let ports = vec![attached(near, 0, 1), attached(far, 1, 0)];
    let clock = Clock::from_zero(monotonic());
    let mut forwarder = Forwarder::new(clock, network, ports, Options::default());

    let mut frame = vec![0; Tap::VNET_HEADER + 60];
    frame[Tap::VNET_HEADER + 12..Tap::VNET_HEADER + 14].copy_from_slice(&[0x08, 0x00]);
    near_end.send(&frame)?;
    let sent = clock.now();
    let mut came = [0; 2_048];
    let length = loop {
        match far_end.recv(&mut came) {
            Ok(length) => break length,
            // Nothing has arrived yet.
            Err(_) => forwarder.run(clock.now() + Span::from_millis(1), &[])?,
        };
    };
    let took = clock.now().since(sent);
    println!("{} bytes after {took}", length - Tap::VNET_HEADER);
    assert!(took >= Span::from_millis(20));
    Ok(())
}
