//! Faults of the clock. falaj reads CLOCK_MONOTONIC, which cannot be set: a step of the time of day
//! affects no packet. While the machine is suspended, that clock stops. While only the process is
//! stopped, the clock continues, and packets that came due meanwhile are delivered at once
//! afterwards.

use super::scene::{Footprint, Link, LoggedService, Sender, asking, number, until};
use crate::common::{Ran, directory, falaj, program, signal};
use crate::service::{THREE, up};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Asserts that round trips take the link's delay, whatever the time of day.
fn as_ever(ran: &Ran) {
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let times: Vec<f64> = ran.out.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(times.len() >= 10 && times.iter().all(|&ms| ms >= 20.0), "{times:?}");
    // On a busy machine some round trips may take longer, but not most.
    assert!(times.iter().filter(|&&ms| ms < 120.0).count() * 2 > times.len(), "{times:?}");
}

/// Each reading of the time of day is an hour ahead of or behind the true time, in turn.
pub(crate) fn step() {
    let library = directory().join("step.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/faults/step.c");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    let status = compiler
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .args(["-ldl"])
        .status();
    assert!(status.expect("there is a compiler of C").success());
    let capture = directory().join("step.pcapng");
    let (ask, echo) = asking();
    let by = |words: &[&str]| {
        let mut command = program(words);
        command.env("LD_PRELOAD", &library);
        command
    };
    let words = [
        "--delay",
        "10ms",
        "--capture",
        capture.to_str().expect("UTF-8"),
        "--peer",
        &echo,
        "--",
        "sh",
        "-c",
        &ask,
    ];
    let link = Link::start_by("step", by, &words);
    until("packets pass", || link.adds_up()[0] > 25);
    as_ever(&link.end());
    // The steps are visible only where the time of day is read: in a capture, which records when it
    // began.
    let began = first_stamp(&capture);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let off = Duration::from_nanos(began.abs_diff(now.as_nanos() as u64));
    assert!(off > Duration::from_secs(3_000), "it is off by {off:?}");
    let ran = falaj(&["sim", "--replay", capture.to_str().expect("UTF-8"), "--json"]);
    assert_eq!((ran.status, &ran.json()["same_decisions"]), (Some(0), &true.into()), "{ran:?}");

    let link =
        Link::start_by("step", by, &["--delay", "10ms", "--peer", &echo, "--", "sh", "-c", &ask]);
    until("packets pass", || link.adds_up()[0] > 10);
    link.set("link.up.flow.all.queue=20p");
    until("packets pass", || link.adds_up()[0] > 25);
    as_ever(&link.end());
}

/// Returns the arrival of a capture's first packet, in nanoseconds since 1970.
fn first_stamp(capture: &Path) -> u64 {
    let bytes = std::fs::read(capture).expect("it is there");
    // The capture is big-endian.
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    // Blocks have a type and a length; packet blocks also an interface and both halves of a time
    // stamp.
    let mut at = 0;
    while word(at) != 6 {
        at += word(at + 4) as usize;
    }
    u64::from(word(at + 12)) << 32 | u64::from(word(at + 16))
}

/// The clocks do not start at zero, as on a machine that has run for a long time, or after a guest
/// was migrated from one.
pub(crate) fn other_zero() {
    let (ask, echo) = asking();
    let by = |words: &[&str]| {
        let mut command = Command::new("unshare");
        // Ten years, in seconds.
        command.args(["-T", "--monotonic", "315360000", "--boottime", "315360000", "--fork"]);
        let inner = program(words);
        command.arg(inner.get_program()).args(inner.get_args()).current_dir(directory());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    };
    let link =
        Link::start_by("zero", by, &["--delay", "10ms", "--peer", &echo, "--", "sh", "-c", &ask]);
    until("packets pass", || link.adds_up()[0] > 10);
    link.set("link.up.flow.all.queue=20p");
    until("packets pass", || link.adds_up()[0] > 25);
    as_ever(&link.end());
}

/// The process is stopped for a while. The report must not show this as a violated guarantee: the
/// kernel keeps the packets that arrive meanwhile, and they reach the link all at once.
pub(crate) fn stopped() {
    let told = LoggedService::start("stopped", THREE, &[]);
    let _calm = Sender::calm(&told, "calm");
    let _greedy = Sender::each(&told, "greedy", 1_000);
    told.passes("calm");
    let held = Footprint::of(told.id());
    let before = told.up("calm");
    signal("STOP", told.id());
    // The file is read as soon as the process continues.
    told.read_again(&THREE.replace("20mbit", "40mbit"));
    std::thread::sleep(Duration::from_secs(5));
    signal("CONT", told.id());
    until("the changed scenario file takes effect", || told.rate("calm") == 20_000_000);
    told.passes("calm");
    told.adds_up();
    let after = told.up("calm");
    // 250 packets per second, which the kernel kept meanwhile.
    let came = number(&after["total"]["offered"]) - number(&before["total"]["offered"]);
    assert!(came >= 1_000, "{after:#}");
    // The guarantee is not violated: the packets arrived late, all at once, beyond the envelope.
    assert!(number(&after["total"]["beyond"]) > number(&before["total"]["beyond"]), "{after:#}");
    let breaches = &up(&told.service.adapter("calm"))["breaches"].clone();
    assert_eq!((&breaches["guarantee"], &breaches["rate"]), (&0.into(), &0.into()), "{breaches}");
    held.is_that_of(told.id());
    told.end();
}
