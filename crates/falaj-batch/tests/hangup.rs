//! A peer that stops, and a peer that is killed: only the strings that the killed peer had not
//! taken are lost.

use falaj_batch::endpoint::{Endpoint, line};
use falaj_sched::units::time::Span;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Environment variable that is set when this program is the peer.
const PEER: &str = "FALAJ_TEST_PEER";
/// Bytes of a ring.
const RING: usize = 4096;

/// Not a test, but the peer process that the test of this file starts: it returns every string
/// until the line ends.
#[test]
fn peer() {
    if std::env::var_os(PEER).is_none() {
        return;
    }
    let (mut endpoint, _) =
        Endpoint::accept(std::io::stdin().as_fd().try_clone_to_owned().unwrap()).unwrap();
    let mut bytes = Vec::new();
    while !endpoint.is_gone() {
        while endpoint.receive(&mut bytes).unwrap() {
            while !endpoint.send(&bytes).unwrap() && !endpoint.is_gone() {
                if !endpoint.ask_room(bytes.len()).unwrap() {
                    endpoint.wait(None).unwrap();
                }
            }
        }
        if endpoint.rest().unwrap() {
            endpoint.wait(None).unwrap();
        }
    }
}

fn start() -> (Endpoint, Child) {
    let [ours, theirs] = line().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "peer"]).env(PEER, "1").stdin(theirs).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    drop(command);
    (Endpoint::create(ours, RING, &[]).unwrap(), child)
}

/// Number of descriptors of rings, and of mappings of their memory.
fn held() -> (usize, usize) {
    let fds = fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    let ours =
        |to: &str| to.contains("memfd:falaj") || to.contains("eventfd") || to.contains("timerfd");
    let fds = fds
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .filter(|to| ours(&to.to_string_lossy()))
        .count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    (fds, maps.lines().filter(|line| line.contains("memfd:falaj")).count())
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Reads the returned strings, for a limited time; returns the number of the last string.
fn back(endpoint: &mut Endpoint, until: u64) -> u64 {
    let (mut bytes, mut last, began) = (Vec::new(), 0, Instant::now());
    while last < until && began.elapsed().as_secs() < 20 {
        while endpoint.receive(&mut bytes).unwrap() {
            let number = u64::from_le_bytes(*bytes.first_chunk().unwrap());
            assert_eq!(number, last + 1, "in order, and whole");
            assert_eq!(bytes.len(), 100);
            last = number;
        }
        if last < until && endpoint.rest().unwrap() {
            endpoint.wait(Some(Span::from_millis(100))).unwrap();
        }
        if endpoint.is_gone() {
            break;
        }
    }
    last
}

fn numbered(number: u64) -> Vec<u8> {
    let mut bytes = vec![7; 100];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// All in one test, because it counts the resources of the process, and tests of one program run in
/// parallel.
#[test]
fn a_peer_that_stops_or_dies_costs_its_own() {
    let before = held();
    let (mut endpoint, mut child) = start();
    for number in 1..=20 {
        assert!(endpoint.send(&numbered(number)).unwrap());
    }
    assert_eq!(back(&mut endpoint, 20), 20);

    // A stopped peer: the ring fills, nothing blocks, and when it continues nothing is missing.
    signal(&child, Signal::STOP);
    let mut sent = 0;
    while endpoint.send(&numbered(sent + 1)).unwrap() {
        sent += 1;
        assert!(sent < RING as u64, "it never fills");
    }
    assert!(sent > 20 && !endpoint.ask_room(100).unwrap());
    let began = Instant::now();
    endpoint.wait(Some(Span::from_millis(50))).unwrap();
    assert!(began.elapsed().as_millis() < 10_000 && !endpoint.is_gone());
    signal(&child, Signal::CONT);
    assert_eq!(back(&mut endpoint, sent), sent);

    // A peer killed with strings to take: these are lost, and its end is noticed at once.
    signal(&child, Signal::STOP);
    for number in 1..=5 {
        assert!(endpoint.send(&numbered(number)).unwrap());
    }
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    endpoint.wait(Some(Span::from_secs(20))).unwrap();
    assert!(endpoint.is_gone());
    // Further sending causes no error and does not block.
    let mut more = 0;
    while endpoint.send(&numbered(more)).unwrap() {
        more += 1;
    }
    assert!(!endpoint.ask_room(100).unwrap());
    endpoint.wait(None).unwrap();
    drop(endpoint);
    assert_eq!(held(), before, "descriptors and memory of the rings");

    // Another pair is not affected.
    let (mut endpoint, mut child) = start();
    assert!(endpoint.send(&numbered(1)).unwrap());
    assert_eq!(back(&mut endpoint, 1), 1);
    drop(endpoint);
    assert!(child.wait().unwrap().success(), "it ends with the line");
    assert_eq!(held(), before);
}
