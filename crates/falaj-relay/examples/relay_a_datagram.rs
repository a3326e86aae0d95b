//! Sends a datagram through a relay with a delay of 20 ms in each direction, and gets the answer.
//! `cargo run -p falaj-relay --example relay_a_datagram`

use falaj_relay::{Relay, RelaySpec};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

pub(crate) fn main() -> std::io::Result<()> {
    // The application sends each datagram back.
    let application = UdpSocket::bind(ANY)?;
    let to = application.local_addr()?;
    std::thread::spawn(move || {
        let mut datagram = [0; 1500];
        while let Ok((length, from)) = application.recv_from(&mut datagram) {
            let _ = application.send_to(&datagram[..length], from);
        }
    });

    let text = "[link.slow]\nrate = \"10mbit\"\ndelay = \"20ms\"";
    let (scenario, _) = falaj_scenario::parse(text, "slow.toml").expect("a valid scenario");
    let spec = RelaySpec::new(SocketAddr::from(ANY), to);
    let relay = Relay::new(&spec, &scenario).expect("a relay");
    let address = relay.address().expect("it listens");
    let stop = Arc::new(AtomicBool::new(false));
    let relaying = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || relay.run(&stop)
    });

    let client = UdpSocket::bind(ANY)?;
    client.connect(address)?;
    let sent = Instant::now();
    client.send(b"hello")?;
    let mut answer = [0; 5];
    client.recv(&mut answer)?;
    println!("{} after {:?}", String::from_utf8_lossy(&answer), sent.elapsed());
    assert!(sent.elapsed() >= Duration::from_millis(40));

    stop.store(true, Ordering::Relaxed);
    let report = relaying.join().expect("the relay does not panic")?;
    assert_eq!(report.clients, 1);
    Ok(())
}
