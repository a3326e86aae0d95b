//! Tests `falaj relay` from the command line.

use crate::common::{Ran, TENANTS, falaj, file, flow, number, program, signal};
use crate::libraries::naughty;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

/// Sends a datagram through a relay to an echo server and back, and then interrupts the relay.
/// Returns the relay's output, and the round-trip time.
fn relayed(flags: &[&str]) -> (Ran, Duration) {
    relayed_times(1, flags)
}

/// Like [`relayed`], with `times` datagrams, one after the other; returns the total time.
fn relayed_times(times: u32, flags: &[&str]) -> (Ran, Duration) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap().to_string();
    let echo = std::thread::spawn(move || {
        let mut buffer = [0; 100];
        for _ in 0..times {
            let (length, from) = server.recv_from(&mut buffer).unwrap();
            server.send_to(&buffer[..length], from).unwrap();
        }
    });
    let mut child = program(&[&["relay", "--listen", "127.0.0.1:0", "--to", &to], flags].concat())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    let address = line
        .strip_prefix("falaj: relaying ")
        .and_then(|l| l.split_whitespace().next())
        .expect(&line);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let began = Instant::now();
    for _ in 0..times {
        client.send_to(b"hello", address).unwrap();
        assert_eq!(client.recv(&mut [0; 100]).unwrap(), 5);
    }
    let took = began.elapsed();
    echo.join().unwrap();
    signal("INT", child.id());
    let mut err = String::new();
    told.read_to_string(&mut err).unwrap();
    let ran: Ran = child.wait_with_output().unwrap().into();
    (Ran { err, ..ran }, took)
}

#[test]
fn a_port_in_use_is_told_with_its_process() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = held.local_addr().unwrap().to_string();
    let ran = falaj(&["relay", "--listen", &at, "--to", "127.0.0.1:1"]);
    let named = format!(
        "cannot listen at {at}: Address already in use (os error 98): process {} (",
        std::process::id()
    );
    assert!(ran.status == Some(2) && ran.err.contains(&named), "{ran:?}");
}

#[test]
fn ctrl_c_ends_it_with_a_summary() {
    let (ran, took) = relayed(&["--rate", "1mbit", "--delay", "30ms", "--json", "-"]);
    assert!(took >= Duration::from_millis(60), "{took:?}");
    assert_eq!(ran.status, Some(0), "{ran:?}");
    for words in [
        "1 clients sent datagrams",
        "up all",
        "release error p50",
        "up: configured 1.00 Mbit/s and 30.0 ms; delivered ",
    ] {
        assert!(ran.err.contains(words), "no `{words}` in\n{}", ran.err);
    }
    let json = ran.json();
    assert_eq!(json["flows"][0]["sent"], 1);
    assert!(number(&json["directions"][1]["given"]["delay_p50_ns"]) >= 30e6);
}

#[test]
fn a_scenario_sorts_by_addresses_and_ports() {
    let (ran, _) = relayed(&[file("relay.toml", TENANTS), "--udp", "--json", "-"]);
    let json = ran.json();
    // No process sends to port 5001.
    assert_eq!(
        ["up a", "up b"].map(|name| number(&flow(&json["flows"], name)["sent"])),
        [0.0, 1.0]
    );
}

#[test]
fn what_a_plug_in_breaks_is_told() {
    naughty("librelay.so", "UNKNOWN_FLOW");
    let text = "[link.l]\nrate = \"10mbit\"\n\
                scheduler = { kind = \"plugin\", library = \"./librelay.so\" }\n";
    let (ran, _) = relayed_times(6, &[file("relay-plugin.toml", text), "--udp", "--json", "-"]);
    let told = ["up", "down"]
        .map(|way| format!("{way}: the plug-in `./librelay.so` broke its contract at "));
    assert!(told.iter().all(|told| ran.err.contains(told)), "{ran:?}");
    let json = ran.json();
    assert_eq!(
        (&json["breaches"][1]["way"], number(&json["flows"][0]["sent"])),
        (&"down".into(), 6.0),
        "{json}"
    );
}

#[test]
fn a_condition_fails_it() {
    let (ran, _) = relayed(&["--fail-if", "sent of up > 0", "--fail-if", "dropped > 0"]);
    assert_eq!(ran.status, Some(4), "{ran:?}");
    assert!(ran.err.ends_with("falaj: failed: sent of up > 0: it is 1\n"), "{}", ran.err);
}

#[test]
fn what_cannot_be_is_refused_at_once() {
    let ran = falaj(&["relay", "--listen", "192.0.2.1:9", "--to", "127.0.0.1:9"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("cannot listen at 192.0.2.1:9"), "{}", ran.err);
    let ran = falaj(&["relay", "--listen", "127.0.0.1:0", "--to", "localhost:http"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("`localhost:5000` or `5000`"), "{}", ran.err);
    let relay = ["relay", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"];
    let ran = falaj(&[&relay[..], &["--fail-if", "loss of nobody > 1%"]].concat());
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("there is no flow `nobody`"), "{}", ran.err);
    let ran = falaj(&[&relay[..], &["--fail-if", "lost > 1%"]].concat());
    assert_eq!(ran.status, Some(2));
    assert!(
        ran.err.contains("there is no quantity `lost`; there are offered, sent"),
        "{}",
        ran.err
    );
}
