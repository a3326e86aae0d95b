//! A new process takes over a service.

use super::scene::{LoggedService, Sender, until};
use crate::common::{Ran, program, signal};
use crate::service::{THREE, within};
use crate::storm::packet_socket;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{MsgFlags, recv, send, setsockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ethernet type reserved for experiments.
const NUMBERED: u16 = 0x88b5;
const ETHERNET: usize = 14;
/// Number of frames of 1000 B that each sender sends, one every 4 ms. The two senders together
/// exceed the link's rate.
const FRAMES: u32 = 300;
const UPGRADES: usize = 4;

/// Creates a network namespace, which exists as long as its process.
fn namespace() -> Sender {
    let made = Sender::spawn(Command::new("unshare").args(["--net", "sleep", "3600"]));
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    until("a namespace of its own", || {
        of(&made.process().to_string()).is_some_and(|own| Some(own) != of("self"))
    });
    made
}

/// Probes in the namespaces, which send numbered frames, or receive and count them.
pub(crate) fn probe(words: &[&str]) {
    let socket = packet_socket("falaj0", NUMBERED, 0);
    match words {
        ["send", from] => {
            let from: u8 = from.parse().expect("a number");
            let mut frame = vec![0; 1_000];
            frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 99]);
            frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, from]);
            frame[12..ETHERNET].copy_from_slice(&NUMBERED.to_be_bytes());
            let began = Instant::now();
            for n in 0..FRAMES {
                std::thread::sleep((Duration::from_millis(4) * n).saturating_sub(began.elapsed()));
                frame[ETHERNET..ETHERNET + 4].copy_from_slice(&n.to_be_bytes());
                while send(socket.as_raw_fd(), &frame, MsgFlags::empty()).is_err() {}
            }
        }
        // Prints, for each sender, the number of frames received, and how many of them arrived
        // directly after a frame that was sent later.
        ["take"] => {
            setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(20)).expect("a time");
            let (mut frame, mut came) = ([0; 2_000], BTreeMap::<u8, (u32, u32, u32)>::new());
            let all = 2 * FRAMES;
            while came.values().map(|(number, ..)| number).sum::<u32>() < all
                && recv(socket.as_raw_fd(), &mut frame, MsgFlags::empty()).is_ok()
            {
                let bytes = frame[ETHERNET..ETHERNET + 4].try_into().expect("four bytes");
                let (number, next, overtook) = came.entry(frame[11]).or_default();
                let n = u32::from_be_bytes(bytes);
                *overtook += u32::from(n < *next);
                (*number, *next) = (*number + 1, n + 1);
            }
            let counts = came
                .iter()
                .map(|(from, (number, _, overtook))| (from.to_string(), json!([number, overtook])));
            println!("{}", Value::Object(counts.collect()));
        }
        _ => panic!("no probe {words:?}"),
    }
}

/// Returns the command that takes over a service.
fn upgrade(told: &LoggedService) -> Command {
    let file = told.service.file.to_str().expect("UTF-8");
    let control = told.service.api.with_extension("sock");
    program(&["serve", file, "--control", control.to_str().expect("UTF-8"), "--upgrade"])
}

/// Starts a service with this uplink and these two adapters.
fn service_of([uplink, a, b]: [&str; 3]) -> LoggedService {
    let text = format!(
        "[link.l]\nrate = \"2mbit\"\ndelay = \"50ms\"\nuplink = \"{uplink}\"\n\
         scheduler = {{ kind = \"wf2q+\" }}\n\
         [link.l.flow.a]\nadapter = \"{a}\"\nweight = 2\nqueue = \"1000p\"\n\
         [link.l.flow.b]\nadapter = \"{b}\"\nweight = 1\nqueue = \"1000p\"\n"
    );
    LoggedService::start("upgrade", &text, &[])
}

/// Returns the process that keeps the namespace of an adapter, or of the uplink, whose name is
/// empty.
fn keeper(told: &LoggedService, name: &str) -> u32 {
    let processes = &told.service.get("/v1").json()["processes"];
    let process = processes[name].as_u64().expect("it is in a namespace");
    u32::try_from(process).expect("the ID of a process")
}

/// Upgrades in existing namespaces, and in those that the service creates, which are gone with the
/// service's last process.
pub(crate) fn loses_nothing() {
    let spaces = [namespace(), namespace(), namespace()];
    let there = [0, 1, 2].map(|n| spaces[n].process());
    let taps = there.map(|process| format!("tap:{process}"));
    upgrades(service_of(taps.each_ref().map(String::as_str)), there);
    let told = service_of(["namespace"; 3]);
    let made = ["", "a", "b"].map(|name| keeper(&told, name));
    upgrades(told, made);
    // The namespaces are gone also if the last process is killed and cannot clean up.
    let told = service_of(["namespace"; 3]);
    let made = ["", "a", "b"].map(|name| keeper(&told, name));
    let (told, last) = by_a_signal(told);
    assert_eq!(["", "a", "b"].map(|name| keeper(&told, name)), made);
    let is_there = |process: &u32| Path::new(&format!("/proc/{process}/ns/net")).exists();
    assert!(made.iter().all(is_there));
    signal("KILL", last);
    until("its namespaces go with it", || !made.iter().any(is_there));
}

/// Upgrades repeatedly while more frames are sent than the link's rate allows: every frame arrives,
/// in order.
fn upgrades(mut told: LoggedService, [uplink, a, b]: [u32; 3]) {
    let receiver = within(uplink.into())
        .args(["--upgrade", "take"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("nsenter");
    let senders = [Sender::words(a, &["--upgrade", "send", "1"]), {
        Sender::words(b, &["--upgrade", "send", "2"])
    }];
    told.passes("a");
    for n in 1..=UPGRADES {
        let said = told.said().matches("took over from").count();
        let next = upgrade(&told).stderr(told.says_where()).spawn().expect("it starts");
        // The old process ends with status 0.
        let mut before = std::mem::replace(&mut told.service.child, next);
        assert_eq!(before.wait().expect("it ends").code(), Some(0), "{}", told.said());
        until("the new one goes on", || told.said().matches("took over from").count() > said);
        assert_eq!(told.said().matches("took over from").count(), n, "{}", told.said());
    }
    let counts = taken(receiver);
    assert_eq!(counts, json!({"1": [FRAMES, 0], "2": [FRAMES, 0]}), "{}", told.said());
    drop(senders);
    // The counters continue.
    for name in ["a", "b"] {
        told.service.until("all is counted", |service| {
            let up = &service.adapter(name)["up"][0]["total"];
            up["sent"].as_u64().is_some_and(|sent| sent >= FRAMES.into())
        });
    }
    told.adds_up();
    let pause = |told: &LoggedService, paused: &str| {
        told.service.ask("PUT", "/v1/adapters/a/paused", "application/json", paused)
    };
    assert_eq!(pause(&told, "true").status, 200);
    let (told, last) = by_a_signal(told);
    let is_paused = |told: &LoggedService| told.service.adapter("a")["paused"] == true;
    told.service.until("it is looked at", |service| service.get("/v1/adapters/a").status == 200);
    assert!(is_paused(&told), "a paused adapter stays paused");
    assert_eq!(pause(&told, "false").status, 200);
    told.service.until("it goes on", |service| service.adapter("a")["paused"] == false);
    told.adds_up();
    signal("TERM", last);
    until("its sockets go with it", || !told.service.api.exists());
}

/// Signals the service to start the program again; the new process takes over. Returns the new
/// process's ID.
fn by_a_signal(mut told: LoggedService) -> (LoggedService, u32) {
    let before = told.said().matches("took over from").count();
    signal("USR2", told.id());
    let ended = told.service.child.wait().expect("it ends");
    assert_eq!(ended.code(), Some(0), "{}", told.said());
    until("the new one goes on", || told.said().matches("took over from").count() > before);
    let said = told.said();
    let next = said.lines().filter_map(|line| {
        line.strip_prefix("falaj: process ")?.strip_suffix(" has taken over")?.parse::<u32>().ok()
    });
    let next = next.last().expect("its number");
    (told, next)
}

fn taken(receiver: Child) -> Value {
    let ran: Ran = receiver.wait_with_output().expect("it ends").into();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// If an upgrade is impossible, or wrongly requested, everything stays as it is.
pub(crate) fn refused() {
    let wild = "[link.uplink.flow.wild]";
    let lines = THREE.lines().filter(|line| !line.starts_with("requires"));
    let text =
        lines.collect::<Vec<_>>().join("\n").replace(wild, &format!("{wild}\nmask = \"src\""));
    let told = LoggedService::start("not-upgraded", &text, &[]);
    let sender = Sender::calm(&told, "calm");
    told.passes("calm");
    let ran: Ran = upgrade(&told).output().expect("it starts").into();
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(
        ran.err.contains("a flow has `mask`, whose queues this version does not hand over"),
        "{ran:?}"
    );
    let place = told.service.api.with_extension("upgrade");
    for bytes in [&b""[..], b"\x03\0\0\0\0\0\0\0abc", &[0xff; 64]] {
        use std::io::Write;
        let mut stream = UnixStream::connect(&place).expect("it listens");
        // The peer may have closed the connection already.
        let _ = stream.write_all(bytes);
    }
    told.says("the upgrade failed: the new process speaks another protocol");
    told.passes("calm");
    drop(sender);
    let (file, other) =
        (told.service.file.clone(), told.service.api.with_file_name("no-such.sock"));
    let words = [file.to_str(), Some("--control"), other.to_str(), Some("--upgrade")];
    let words = words.map(|word| word.expect("UTF-8"));
    let ran: Ran = program(&[&["serve"], &words[..]].concat()).output().expect("it starts").into();
    assert!(ran.err.contains("start it without --upgrade"), "{ran:?}");
    told.adds_up();
    told.end();
    assert!(!place.exists(), "its socket goes with it");
}
