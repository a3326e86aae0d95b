//! Processes killed by SIGKILL.

use super::scene::{
    Footprint, Link, LoggedService, Random, Sender, asking, descendants, network, number_of, until,
};
use crate::common::{self, Ran, directory, falaj, file, signal};
use crate::host::Host;
use crate::netlink;
use crate::service::THREE;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::json;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// The program is killed: everything it created is gone with it, and another process can use its
/// sockets.
pub(crate) fn program() {
    let mut told = LoggedService::start("killed", THREE, &[]);
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
    let again = LoggedService::start("killed", THREE, &[]);
    again.says("killed, or its host stopped: no packet passed for ");
    let sender = Sender::calm(&again, "calm");
    again.passes("calm");
    drop(sender);
    again.adds_up();
    again.end();
}

fn is_zombie(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| stat.contains(") Z"))
}

/// The program is killed while it saves changes: the saved state is complete, has one of the
/// changes, and is served again.
pub(crate) fn state() {
    let place = std::env::temp_dir().join("state.toml");
    let words = ["--state", place.to_str().expect("UTF-8")];
    for round in 0..3 {
        let mut told = LoggedService::start("killed-state", THREE, &words);
        let (api, (made, making)) = (told.service.api.clone(), channel());
        let changes = std::thread::spawn(move || {
            // Makes changes until the service no longer answers.
            (0..)
                .take_while(|n| changed(&api, 100 + n % 50))
                .for_each(|n| made.send(n).expect("it is heard"));
        });
        // After the first change, the next one is in progress.
        making.recv().expect("a change is made");
        std::thread::sleep(Duration::from_millis(20 * round));
        told.service.kill();
        changes.join().expect("it ends");
        let ran = falaj(&["check", place.to_str().expect("UTF-8")]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    let told = LoggedService::start("killed-state", THREE, &words);
    told.says("has changes made before");
    let kept = told.service.get("/v1/scenario").body;
    let queue = (100..150).filter(|n| kept.contains(&format!("queue = \"{n}p\""))).count();
    // The queue of `calm` has 100 packets from the start.
    assert!(queue == 2 || kept.matches("queue = \"100p\"").count() == 2, "{kept}");
    told.end();
}

/// Changes the queue of `wild`. Returns true if the service answered that the change is made.
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

/// Processes inside are killed: the command itself, its namespace's first process, the peer, and
/// the first process of the peer's namespace.
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

    // Returns the first process of a side: if it is killed, all others of its namespace are killed
    // too.
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
        ran.err.contains("processes were killed: that side no longer answers; the link continues"),
        "{ran:?}"
    );
}

/// The processes behind an adapter are killed, and then the helper process that opens ports: the
/// other adapters keep their guarantees.
pub(crate) fn behind_an_adapter() {
    let told = LoggedService::start("behind", THREE, &[]);
    let _calm = Sender::calm(&told, "calm");
    told.passes("calm");
    let wild = told.service.processes["wild"].to_string();
    assert!(Command::new("kill").args(["-9", &wild]).status().expect("there is kill").success());
    told.read_again(&THREE.replace("20mbit", "40mbit"));
    until("the changed scenario file takes effect", || told.rate("calm") == 20_000_000);
    told.passes("calm");
    let gone = told.service.ask("DELETE", "/v1/adapters/wild", "text/plain", "");
    assert_eq!(gone.status, 200, "{}", gone.body);

    // The helper is the child process without a network namespace of its own.
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
        put.status == 409
            && put.body.contains("the helper process that opens ports has ended: restart falaj"),
        "{}",
        put.body
    );
    told.passes("calm");
    told.adds_up();
    told.end();
}

/// The process that receives batches at the far end is killed: the link ends, and reports that this
/// process is gone.
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
    assert!(ran.err.contains("The process at the far end that accepts batches is gone"), "{ran:?}");
    assert!(!control.exists(), "its socket goes with it");
}

/// Returns how often [`at_any_instant`] kills a process (`FALAJ_KILLS`).
pub(crate) fn times() -> u64 {
    number_of("FALAJ_KILLS").unwrap_or(12)
}

/// Kills a random process of a link or a service at a random instant after the start, and then asks
/// the remaining processes to end. After that nothing is left, and the next link or service starts
/// as usual.
pub(crate) fn at_any_instant() {
    let control = std::env::temp_dir().join("killed-any.sock");
    let control = control.to_str().expect("UTF-8");
    let hosts = ["a", "b"].map(|name| {
        let host = Host::start();
        netlink::veth(&format!("{name}0"), &format!("{name}1"), host.pid());
        netlink::set_up(&format!("{name}0"), true);
        host
    });
    let scenario = directory().join(file("killed-any.toml", THREE));
    let served = scenario.to_str().expect("UTF-8");
    let peer = ["--control", control, "--delay", "1ms", "--peer", "exec sleep 60"];
    let kinds: [(&[&str], &[&str]); 5] = [
        (&["run"], &["--", "sleep", "60"]),
        (&["run", "--aggregate", "62,200us"], &["--", "sleep", "60"]),
        (&["bridge", "a0", "b0", "--control", control, "--delay", "1ms"], &[]),
        (&["serve", served, "--control", control], &[]),
        (&["run", "--virtual-time", "--delay", "1ms"], &["--", "sleep", "60"]),
    ];
    let with_guest = falaj_guest::kernel::find(None).is_ok() && !falaj_guest::is_inside();
    let kinds = &kinds[..kinds.len() - usize::from(!with_guest)];
    let before = network();
    let mut random = Random::new(number_of("FALAJ_SEED").unwrap_or(1));
    for round in 0..times() {
        let (begin, end) = kinds[(round % kinds.len() as u64) as usize];
        let is_peered = begin[0] == "run" && !begin.contains(&"--virtual-time");
        let words = [begin, if is_peered { &peer } else { &[] }, end].concat();
        let mut child = common::program(&words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_micros(random.below(400_000)));
        let mut all = descendants(child.id());
        all.push(child.id());
        let victim = all[random.below(all.len() as u64) as usize];
        // The process may have ended by itself meanwhile.
        let _ = kill(Pid::from_raw(victim as i32), Signal::SIGKILL);
        // Processes that do not depend on the killed process continue until they are ended.
        std::thread::sleep(Duration::from_micros(random.below(100_000)));
        let what = format!("round {round}: {words:?}, killed {victim} of {all:?}");
        ends(&mut child, &what);
        until(&format!("nothing is left; {what}"), || {
            // Processes whose parent was killed become children of this one.
            while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|was| was.pid().is_some()) {}
            let left = descendants(std::process::id());
            left.iter().all(|left| hosts.iter().any(|host| host.pid() == *left))
                && network() == before
        });
        match words.iter().position(|word| *word == "--") {
            Some(at) => {
                let ran = falaj(&[&words[..at], &["--", "true"]].concat());
                assert_eq!(ran.status, Some(0), "after {what}: {ran:?}");
            }
            None => {
                let mut next = common::program(&words).spawn().expect("it starts");
                until(&format!("it answers, after {what}"), || {
                    let ended = next.try_wait().expect("it is ours");
                    assert_eq!(ended, None, "after {what}");
                    UnixStream::connect(control).is_ok()
                });
                ends(&mut next, "the next one");
                let ran: Ran = next.wait_with_output().expect("it has ended").into();
                assert_eq!(ran.status, Some(0), "after {what}: {ran:?}");
            }
        }
        let left = files(&std::env::temp_dir());
        assert!(left.is_empty(), "{left:?} left after {what}");
    }
}

/// Ends the process, if it is still running.
fn ends(child: &mut Child, what: &str) {
    if child.try_wait().expect("it is ours").is_none() {
        signal("TERM", child.id());
    }
    until(&format!("it ends; {what}"), || child.try_wait().expect("it is ours").is_some());
}

/// Returns all files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("it is ours");
    entries
        .map(|entry| entry.expect("it can be read").path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}
