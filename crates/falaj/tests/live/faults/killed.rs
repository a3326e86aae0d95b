//! kill -9.

use super::scene::{Footprint, Link, Sender, Told, asking, descendants, until};
use crate::common::{falaj, signal};
use crate::service::THREE;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

/// The program: what it made goes with it, and another one takes its sockets.
pub(crate) fn program() {
    let mut told = Told::start("killed", THREE, &[]);
    let sender = Sender::calm(&told, "calm");
    told.passes("calm");
    told.read_again(&THREE.replace("20mbit", "40mbit"));
    let all = descendants(told.id());
    assert!(all.len() >= 5, "adapters' namespaces, the uplink's, and who opens ports: {all:?}");
    told.service.kill();
    drop(sender);
    until("all of it has ended", || {
        all.iter()
            .all(|process| !Path::new(&format!("/proc/{process}")).exists() || is_zombie(*process))
    });
    let again = Told::start("killed", THREE, &[]);
    let sender = Sender::calm(&again, "calm");
    again.passes("calm");
    drop(sender);
    again.adds_up();
    again.end();
}

fn is_zombie(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| stat.contains(") Z"))
}

/// The program in the middle of changes that are kept: what is kept is one of them, whole, and is
/// served again.
pub(crate) fn state() {
    let place = std::env::temp_dir().join("state.toml");
    let words = ["--state", place.to_str().expect("UTF-8")];
    for round in 0..3 {
        let mut told = Told::start("killed-state", THREE, &words);
        let (api, (made, making)) = (told.service.api.clone(), channel());
        let changes = std::thread::spawn(move || {
            // Until nobody answers.
            (0..)
                .take_while(|n| changed(&api, 100 + n % 50))
                .for_each(|n| made.send(n).expect("it is heard"));
        });
        // Then another one is under way.
        making.recv().expect("a change is made");
        std::thread::sleep(Duration::from_millis(20 * round));
        told.service.kill();
        changes.join().expect("it ends");
        let ran = falaj(&["check", place.to_str().expect("UTF-8")]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    let told = Told::start("killed-state", THREE, &words);
    told.says("holds changes made before");
    let kept = told.service.get("/v1/scenario").body;
    let queue = (100..150).filter(|n| kept.contains(&format!("queue = \"{n}p\""))).count();
    // `calm` has 100 packets from the start.
    assert!(queue == 2 || kept.matches("queue = \"100p\"").count() == 2, "{kept}");
    told.end();
}

/// Another queue for `wild`; says whether there was an answer.
fn changed(api: &Path, packets: u64) -> bool {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::os::unix::net::UnixStream::connect(api) else { return false };
    let body = json!({ "queue": format!("{packets}p") }).to_string();
    let head = "PATCH /v1/adapters/wild HTTP/1.1\r\nHost: falaj\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let mut answer = String::new();
    let sent =
        stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    sent.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200")
}

/// What runs inside: the command itself, its namespace, the peer, the peer's namespace.
pub(crate) fn command() {
    let sleeps = ["--peer", "exec sleep 3600", "--", "sh", "-c", "sleep 1800 & cat; exit 7"];
    let begin = |name: &str| {
        let link = Link::start(name, &[&["--delay", "1ms"], &sleeps[..]].concat());
        until("both commands run", || {
            ["sleep 3600", "sleep 1800"].iter().all(|words| link.process(words).is_some())
        });
        link.set("link.delay=2ms");
        link
    };
    let link = begin("command");
    signal("KILL", link.process("sh -c sleep 1800").expect("it runs"));
    let ran = link.ended();
    assert_eq!((ran.status, ran.err.as_str()), (Some(128 + 9), ""));

    // The first process of a side: all others of its namespace go with it.
    let first = |link: &Link, words: &str| {
        let inside = link.process(words).expect("it runs");
        let stat = std::fs::read_to_string(format!("/proc/{inside}/stat")).expect("it runs");
        let parent: u32 = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split(' ').nth(2))
            .expect("a parent")
            .parse()
            .expect("a number");
        assert_ne!(parent, link.child.id());
        parent
    };
    let link = begin("near");
    signal("KILL", first(&link, "sh -c sleep 1800"));
    let ran = link.ended();
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (Some(2), "falaj: the command's namespace was killed\n")
    );

    let link = begin("peer");
    signal("KILL", link.process("sleep 3600").expect("it runs"));
    until("it has ended", || link.process("sleep 3600").is_none());
    link.set("link.delay=3ms");
    let ran = link.end();
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (Some(7), ""),
        "who asked for a peer may be done with it"
    );

    let link = begin("far");
    signal("KILL", first(&link, "sleep 3600"));
    until("it has ended", || link.process("sleep 3600").is_none());
    link.set("link.delay=3ms");
    link.adds_up();
    let ran = link.end();
    assert_eq!(ran.status, Some(7), "{ran:?}");
    assert!(
        ran.err.contains("processes were killed: nobody answers there; the link goes on"),
        "{ran:?}"
    );
}

/// What is behind an adapter, and who opens ports: the others keep what they were promised.
pub(crate) fn behind_an_adapter() {
    let told = Told::start("behind", THREE, &[]);
    let _calm = Sender::calm(&told, "calm");
    told.passes("calm");
    let wild = told.service.processes["wild"].to_string();
    assert!(Command::new("kill").args(["-9", &wild]).status().expect("there is kill").success());
    told.read_again(&THREE.replace("20mbit", "40mbit"));
    until("the file as it is now", || told.rate("calm") == 20_000_000);
    told.passes("calm");
    let gone = told.service.ask("DELETE", "/v1/adapters/wild", "text/plain", "");
    assert_eq!(gone.status, 200, "{}", gone.body);

    // The one without a namespace of its own, among its children.
    let namespace = |process: u32| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let opener =
        descendants(told.id()).into_iter().find(|child| namespace(*child) == namespace(told.id()));
    signal("KILL", opener.expect("a process that opens ports"));
    let put = told.service.ask(
        "PUT",
        "/v1/adapters/late",
        "application/json",
        "{\"adapter\": \"tap:1\"}",
    );
    assert!(
        put.status == 409 && put.body.contains("the process that does it has ended: start anew"),
        "{}",
        put.body
    );
    told.passes("calm");
    told.adds_up();
    told.end();
}

/// The process that takes containers at the far end: the link is told of as gone, by a name.
pub(crate) fn peer_of_a_ring() {
    let (ask, echo) = asking();
    let words =
        ["--aggregate", "62,200us", "--delay", "1ms", "--peer", &echo, "--", "sh", "-c", &ask];
    let link = Link::start("ring", &words);
    until("packets pass", || link.adds_up()[0] > 20);
    link.set("link.delay=2ms");
    let held = Footprint::of(link.child.id());
    link.adds_up();
    held.is_that_of(link.child.id());
    let (control, program) = (link.control.clone(), env!("CARGO_BIN_EXE_falaj"));
    signal("KILL", link.process(&format!("{program} aggregate guest")).expect("it runs"));
    let ran = link.ended();
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(
        ran.err.contains("The process at the far end that takes containers is gone"),
        "{ran:?}"
    );
    assert!(!control.exists(), "its socket goes with it");
}
