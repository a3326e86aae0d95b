//! Tests that runs repeat exactly, however busy the host is; delays to the microsecond; and that
//! waiting takes no real time.

use crate::{Ran, directory, falaj, program, run, script, this, trial};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("exact::the_same_bytes_each_time", the_same_bytes),
        trial("exact::chance_begins_at_the_seed", chance),
        trial("exact::round_trips_are_what_the_link_says", round_trips),
        trial("exact::a_delay_of_ten_seconds", ten_seconds),
        trial("exact::an_hour_passes_at_once", an_hour),
        trial("exact::a_connection_is_kept_alive_for_a_day", a_day),
        trial("exact::ping_over_ten_seconds_by_an_ordinary_user", ping),
        trial("exact::pings_of_the_pages_are_answered", pings_of_pages),
        trial("exact::measured_is_simulated", measured),
        trial("exact::what_waits_at_the_end_is_received_and_is_no_rate", queue_at_the_end),
    ]
}

/// Runs `what` while all processors of the host are busy.
fn while_busy<T>(what: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let done = what();
        over.store(true, Ordering::Relaxed);
        done
    })
}

const TENANTS: &str = include_str!("../tenants.toml");

fn the_same_bytes() {
    fs::write(directory().join("virtual-tenants.toml"), TENANTS).expect("a file can be written");
    let compare = |seed: &str| -> Ran {
        let args = ["compare", "virtual-tenants.toml", "--duration", "200ms", "--json"];
        falaj(&[&args[..], &["--virtual-time", "--seed", seed]].concat())
    };
    let first = compare("7");
    assert_eq!(first.status, Some(0), "{first:#?}");
    while_busy(|| {
        for _ in 0..2 {
            let again = compare("7");
            assert_eq!((again.status, again.out), (first.status, first.out.clone()));
        }
    });
    assert_ne!(compare("8").out, first.out, "another seed gives other packets");
    // The capture has every packet that entered the link.
    let peer = format!("{} --probe echo", this());
    let capture = |name: &str| -> (Ran, Vec<u8>) {
        let flags = ["--rate", "1mbit", "--delay", "20ms", "--loss", "10%", "--jitter", "5ms"];
        let flags = [&flags[..], &["--seed", "3", "--capture", name, "--peer", &peer]].concat();
        let ran = script(
            &flags,
            "for i in 1 2 3 4 5; do echo $i > /dev/udp/$FALAJ_PEER/7007 2>/dev/null; \
             cat /proc/net/dev; cat /proc/sys/kernel/random/uuid; done",
        );
        (ran, fs::read(directory().join(name)).expect("a capture"))
    };
    let (first, packets) = capture("virtual-1.pcapng");
    assert_eq!(first.status, Some(0), "{first:#?}");
    let (again, same) = while_busy(|| capture("virtual-2.pcapng"));
    assert_eq!(again.out, first.out);
    assert!(packets == same, "{} and {} bytes", packets.len(), same.len());
}

fn chance() {
    let of = |seed: &str| {
        let ran = run(&["--seed", seed], &[&this(), "--probe", "chance"]);
        assert_eq!(ran.status, Some(0), "{ran:#?}");
        ran.out
    };
    let first = of("1");
    assert_eq!(of("1"), first);
    assert_ne!(of("2"), first);
    let date = |flags: &[&str]| script(flags, "date -u +%Y-%m-%dT%H:%M").out;
    assert_eq!(date(&[]), "2026-01-01T00:00\n");
    assert_eq!(date(&["--epoch", "2024-02-29T23:59:00Z"]), "2024-02-29T23:59\n");
}

/// Returns round-trip times through a link, in nanoseconds.
fn asked(flags: &[&str], count: &str, gap: &str, length: &str) -> Vec<u64> {
    let peer = format!("{} --probe echo", this());
    let flags = [flags, &["--peer", &peer]].concat();
    let ran = run(&flags, &[&this(), "--probe", "ask", count, gap, length]);
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    ran.out.lines().map(|line| line.parse().expect("a number")).collect()
}

fn round_trips() {
    let trips = while_busy(|| asked(&["--rate", "10mbit", "--delay", "40ms"], "100", "50", "472"));
    assert_eq!(trips.len(), 100);
    // A frame of 472 + 8 + 20 + 14 bytes takes 411,200 ns each way.
    let least = 2 * (40_000_000 + 411_200);
    // The kernels and programs at both ends take up to 100 us more: they wake up and read the
    // clock.
    let most = least + 100_000;
    // The first round trip includes the neighbour discovery.
    for trip in &trips[1..] {
        assert!((least..most).contains(trip), "{trip} is not from {least} to {most}: {trips:?}");
    }
    let spread = trips[1..].iter().max().unwrap() - trips[1..].iter().min().unwrap();
    assert!(spread <= 5_000, "{spread} ns: {trips:?}");
}

fn ten_seconds() {
    let began = Instant::now();
    let trips = asked(&["--delay", "10s"], "100", "1000", "100");
    assert_eq!(trips.len(), 100);
    for trip in &trips[1..] {
        assert!((20_000_000_000..20_001_000_000).contains(trip), "{trip}");
    }
    assert!(began.elapsed() < Duration::from_secs(100), "of 120 s of virtual time");
}

fn an_hour() {
    let began = Instant::now();
    let ran = script(&["--delay", "1ms"], "sleep 3600; date -u +%H:%M");
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "01:00\n"), "{ran:#?}");
    assert!(ran.err.contains("virtual time 3600 s"), "{}", ran.err);
    assert!(began.elapsed() < Duration::from_secs(600), "{:?}", began.elapsed());
    // One day with a packet each minute.
    let trips = asked(&["--delay", "50ms"], "1440", "60000", "50");
    assert!(trips[1..].iter().all(|trip| (100_000_000..101_000_000).contains(trip)));
}

/// One day in which a connection is idle, and its kernel sends a keep-alive probe each minute.
fn a_day() {
    let peer = format!("{} --probe answer", this());
    let ran = run(&["--delay", "20ms", "--peer", &peer], &[&this(), "--probe", "idle", "86400"]);
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    // The kernel's one-minute timers fire up to five seconds late.
    let times: u64 = ran.out.trim().parse().expect("a number");
    assert!((1_320..=1_440).contains(&times), "{times}");
}

fn there(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|directory| directory.join(program).exists())
}

/// `ping` gives up ten seconds after its last request if it has no answer. The commands on the
/// pages must be answered before that.
fn pings_of_pages() {
    if !there("ping") {
        println!("left out: ping is not installed");
        return;
    }
    let mut lines = 0;
    for page in ["docs/index.md", "docs/how-to/virtual-time.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let text = fs::read_to_string(&path).expect("a page of the repository");
        let typed =
            |line: &'_ str| Some(line.strip_prefix("    falaj ")?.split("  ").next()?.to_owned());
        let is_ping = |line: &String| line.contains("--virtual-time") && line.contains(" ping ");
        for line in text.lines().filter_map(typed).filter(is_ping) {
            let ran = falaj(&line.split(' ').collect::<Vec<_>>());
            assert_eq!(ran.status, Some(0), "{page}: {line}: {ran:#?}");
            assert!(ran.out.contains(" received, 0% packet loss"), "{page}: {line}: {ran:#?}");
            lines += 1;
        }
    }
    assert!(lines >= 2, "{lines} lines with ping");
}

/// Runs the installed `ping`, as an ordinary user if the test runs as root.
fn ping() {
    if !there("ping") {
        println!("left out: ping is not installed");
        return;
    }
    let words = ["run", "--virtual-time", "--delay", "10s", "--", "ping", "-c", "100", "10.77.0.2"];
    let mut command = program(&words);
    // Other users cannot enter root's directories.
    let open = tempfile::Builder::new().prefix("falaj-ping-").tempdir().expect("a directory");
    if nix::unistd::geteuid().is_root() && there("setpriv") {
        let all = fs::Permissions::from_mode(0o755);
        fs::set_permissions(open.path(), all).expect("it is ours");
        let copies = [(env!("CARGO_BIN_EXE_falaj").into(), "falaj"), (kernel(), "linux")];
        for (from, name) in copies {
            fs::copy::<PathBuf, _>(from, open.path().join(name)).expect("it can be copied");
        }
        command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.arg(open.path().join("falaj")).args(words).current_dir(open.path());
        command.env("FALAJ_KERNEL", open.path().join("linux")).env("HOME", open.path());
        command.stdin(Stdio::null());
    }
    let ran: Ran = command.output().expect("the program starts").into();
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    assert!(ran.out.contains("100 packets transmitted, 100 received, 0% packet loss"), "{ran:#?}");
    let trips: Vec<f64> = ran
        .out
        .lines()
        .filter_map(|line| line.split_once(" time=")?.1.strip_suffix(" ms")?.parse().ok())
        .collect();
    assert_eq!(trips.len(), 100, "{ran:#?}");
    assert!(trips[1..].iter().all(|trip| (20_000.0..20_001.0).contains(trip)), "{trips:?}");
}

/// Returns the kernel that the tests use.
fn kernel() -> PathBuf {
    let ran = falaj(&["kernel", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    told["path"].as_str().expect("a path").into()
}

/// Packets arrive when the simulation says, so the measured values equal the simulated ones.
fn measured() {
    let path = directory().join("virtual-constant.toml");
    let text = "\
[link.l]
rate = \"10mbit\"
delay = \"3ms\"
scheduler = { kind = \"fifo\" }
[link.l.flow.a]
match = \"udp dport 5001\"
queue = \"100p\"
[traffic.a]
link = \"l\"
flow = \"a\"
model = \"cbr\"
rate = \"4mbit\"
size = \"1000B\"
[traffic.b]
link = \"l\"
flow = \"a\"
model = \"cbr\"
rate = \"3mbit\"
size = \"300B\"
[run]
duration = \"500ms\"
replications = 1
";
    fs::write(&path, text).expect("a file can be written");
    let ran =
        while_busy(|| falaj(&["compare", "virtual-constant.toml", "--virtual-time", "--json"]));
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let flow = &told["flows"][0];
    let number = |view: &str, key: &str| flow[view]["delay"][key].as_f64().expect("a number");
    assert_eq!(number("simulated", "packets"), number("measured", "packets"), "{told:#}");
    for key in ["p50_ns", "p99_ns", "max_ns"] {
        let (simulated, measured) = (number("simulated", key), number("measured", key));
        let between = (simulated - measured).abs();
        // Histograms are exact to one part in a hundred.
        assert!(between <= 20_000.0 + simulated / 100.0, "{key}: {simulated} {measured}");
    }
    let error = flow["measured"]["release_error"]["p99_ns"].as_u64().expect("a number");
    assert!(error <= 1_000, "{error} ns");
}

/// An overloaded link whose scheduler has its own limit: receivers wait until its queue is empty,
/// and packets that leave after the sources have ended do not count for the rate.
fn queue_at_the_end() {
    let path = directory().join("virtual-overload.toml");
    let text = "\
[link.l]
rate = \"10mbit\"
scheduler = { kind = \"fq_codel\", limit = 1000, target = \"2s\", interval = \"4s\" }
[traffic.a]
model = \"cbr\"
rate = \"18mbit\"
size = \"1250B\"
[run]
duration = \"1s\"
replications = 1
";
    fs::write(&path, text).expect("a file can be written");
    let ran = falaj(&["compare", "virtual-overload.toml", "--virtual-time", "--json"]);
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let measured = &told["flows"][0]["measured"];
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    assert_eq!(number(&measured["dropped"]), 0.0, "{told:#}");
    assert_eq!(number(&measured["end_to_end"]["datagrams"]), 1800.0, "{told:#}");
    let packet = 1250.0 * 8.0;
    let rate = number(&measured["rate"]);
    assert!((10e6 - 2.0 * packet..=10e6 + packet).contains(&rate), "{told:#}");
}
