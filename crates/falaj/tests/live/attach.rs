//! Tests `falaj attach` at interfaces in use.
//!
//! ```text
//! here [a1] === [a0] host a, to which `falaj attach` adds a link
//! ```
//!
//! Each case runs in a process of its own (`--case`), which creates a user and a network namespace
//! for itself. For times, only lower bounds are asserted, because a busy host makes times longer. A
//! link is known to be gone if the shortest of many round trips is shorter than its delay.

use crate::common::{Ran, directory, program, signal};
use crate::host::Host;
use crate::netlink;
use libtest_mimic::{Completion, Trial};
use nix::sched::{CloneFlags, setns};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

const CASES: &[(&str, fn())] = &[
    ("connections_survive_attaching_changing_and_detaching", in_place),
    ("packets_that_are_not_meant_pass_untouched", only_some),
    ("containers_are_found_by_name_or_project", containers),
    ("what_is_gone_or_cannot_be_attached_to_is_told", refused),
];

const HERE: [&str; 2] = ["10.9.0.2", "fd09::2"];
const THERE: [&str; 2] = ["10.9.0.1", "fd09::1"];
/// Port of the echo server.
const PORT: u16 = 7;
/// Default one-way delay.
const DELAY: Duration = Duration::from_millis(20);

pub(crate) fn trials(possible: bool) -> Vec<Trial> {
    let trial = |name: &'static str| {
        crate::trial(possible, name.to_owned(), move || {
            let me = std::env::current_exe().expect("a path");
            let mut command = Command::new("timeout");
            command.args(["-s", "KILL", "120", "unshare", "-Urn"]).arg(me).args(["--case", name]);
            let output = command.stdin(Stdio::null()).output().expect("it starts");
            if output.status.success() {
                return Ok(Completion::Completed);
            }
            Err(format!("{:?}", Ran::from(output)).replace("\\n", "\n").into())
        })
    };
    CASES.iter().map(|&(name, _)| trial(name)).collect()
}

/// Runs the case of this name. Returns true if it exists.
pub(crate) fn case(name: &str) -> bool {
    let case = CASES.iter().find(|case| case.0 == name);
    case.iter().for_each(|case| case.1());
    case.is_some()
}

/// Starts a host, and in this namespace an echo server that the host can reach.
fn host() -> Host {
    let mut host = Host::start();
    netlink::set_up("lo", true);
    netlink::veth("a1", "a0", host.pid());
    netlink::set_up("a1", true);
    for (address, prefix) in HERE.into_iter().zip([24, 64]) {
        netlink::add_address("a1", address.parse().expect("an address"), prefix);
    }
    host.does(&format!("up a0 {}", THERE.join(" ")));
    let listener = TcpListener::bind((HERE[0], PORT)).expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
            });
        }
    });
    host
}

/// Opens a connection from the host to the echo server.
fn connection(host: &Host) -> TcpStream {
    let namespace = File::open(format!("/proc/{}/ns/net", host.pid())).expect("it is there");
    let connect = move || {
        setns(&namespace, CloneFlags::CLONE_NEWNET).expect("it is ours");
        TcpStream::connect(SocketAddr::new(HERE[0].parse().expect("an address"), PORT))
    };
    let stream = std::thread::spawn(connect).join().expect("a thread").expect("it is reached");
    stream.set_nodelay(true).expect("it is TCP");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    stream
}

/// Returns the time of a round trip to the echo server.
fn round_trip(stream: &mut TcpStream) -> Duration {
    let began = Instant::now();
    stream.write_all(&[1]).expect("it is sent");
    stream.read_exact(&mut [0]).expect("it comes back");
    began.elapsed()
}

/// Asserts that every round trip takes at least this time.
fn takes(stream: &mut TcpStream, least: Duration) {
    for _ in 0..5 {
        let took = round_trip(stream);
        assert!(took >= least, "{took:?} instead of {least:?}");
    }
}

/// Asserts that the link is gone: some round trip is short.
fn takes_no_time(stream: &mut TcpStream) {
    let began = Instant::now();
    while round_trip(stream) >= DELAY {
        assert!(began.elapsed() < Duration::from_secs(20), "packets are still held");
    }
}

/// A running `falaj attach`.
struct Attached {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
}

impl Attached {
    fn start(words: &[&str]) -> Attached {
        Attached::by(program(&[&["attach"], words].concat()))
    }

    fn by(mut command: Command) -> Attached {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut attached = Attached { child, said };
        attached.says("falaj: attached to ");
        attached
    }

    fn says(&mut self, words: &str) {
        let mut before = Vec::new();
        for line in self.said.by_ref() {
            before.push(line.expect("text"));
            if before.last().is_some_and(|line| line.contains(words)) {
                return;
            }
        }
        panic!("never said: {words}, but {before:?}");
    }

    /// Returns its exit status; `None` if a signal ended it.
    fn status(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

fn in_place() {
    let host = host();
    let (process, mut stream) = (host.pid().to_string(), connection(&host));
    takes_no_time(&mut stream);
    let targets = [process.clone(), format!("a0@{process}"), "a1".to_owned()];
    let mut ends = ["INT", "TERM", "KILL", "detach"].iter().cycle();
    for (target, end) in targets.iter().chain(&targets).zip(&mut ends) {
        let attached = Attached::start(&[target, "--delay", "20ms"]);
        takes(&mut stream, 2 * DELAY);
        let set = program(&["set", "link", "delay=40ms"]).output().expect("it starts");
        assert!(set.status.success(), "{:?}", Ran::from(set));
        takes(&mut stream, 4 * DELAY);
        if *end == "detach" {
            let detach = program(&["detach", target]).output().expect("it starts");
            assert!(detach.status.success(), "{:?}", Ran::from(detach));
        } else {
            signal(end, attached.child.id());
        }
        assert_eq!(attached.status(), (*end != "KILL").then_some(0), "{end}");
        takes_no_time(&mut stream);
    }
}

fn only_some() {
    let host = host();
    let (process, mut stream) = (host.pid().to_string(), connection(&host));
    let others = format!("tcp dport {}", PORT + 1);
    let attached = Attached::start(&[&process, "--delay", "20ms", "--only", &others]);
    takes_no_time(&mut stream);
    signal("INT", attached.child.id());
    assert_eq!(attached.status(), Some(0));
    // The delay applies to one direction, and not to the other.
    let these = format!("tcp dport {PORT}");
    let attached = Attached::start(&[&process, "--delay", "20ms", "--only", &these]);
    takes(&mut stream, DELAY);
    let began = Instant::now();
    while round_trip(&mut stream) >= 2 * DELAY {
        assert!(began.elapsed() < Duration::from_secs(20), "the way back is delayed too");
    }
    signal("INT", attached.child.id());
    assert_eq!(attached.status(), Some(0));
    takes_no_time(&mut stream);
}

/// Creates commands that stand in for container runtimes, and returns a `PATH` with them.
fn runtimes(scripts: &[(&str, &str)]) -> String {
    let place = directory().join("runtimes");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).expect("a directory can be made");
    for (name, script) in scripts {
        let file = place.join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file can be made");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    place.display().to_string()
}

fn containers() {
    let host = host();
    let mut stream = connection(&host);
    let process = host.pid();
    let docker = format!(
        "case \"$*\" in \
         'inspect --format {{{{.State.Pid}}}} web') echo {process};; \
         'inspect --format {{{{.State.Pid}}}} 0123') echo {process};; \
         'ps --quiet --filter label=com.docker.compose.project=shop') echo 0123;; \
         'ps '*) ;; \
         *) echo \"Error: No such object: $4\" >&2; exit 1;; esac"
    );
    let crictl = format!(
        "case \"$*\" in 'ps --quiet --name ^pod$') echo 4567;; \
         'inspect --output go-template --template {{{{.info.pid}}}} 4567') echo {process};; \
         *) exit 1;; esac"
    );
    let path = runtimes(&[("docker", &docker), ("crictl", &crictl)]);
    let attach = |words: &[&str]| {
        let mut command = program(&[&["attach"], words, &["--delay", "20ms"]].concat());
        command.env("PATH", &path);
        command
    };
    for words in [&["web"][..], &["docker:web"], &["cri:pod"], &["pod"], &["--all-of", "shop"]] {
        let attached = Attached::by(attach(words));
        takes(&mut stream, 2 * DELAY);
        signal("TERM", attached.child.id());
        assert_eq!(attached.status(), Some(0), "{words:?}");
        takes_no_time(&mut stream);
    }
    // The links of a project end with the process that started them.
    let mut attached = Attached::by(attach(&["--all-of", "shop"]));
    attached.child.kill().expect("it is there");
    assert_eq!(attached.status(), None);
    takes_no_time(&mut stream);
    let refuses = |words: &[&str], says: &str| {
        let ran: Ran = attach(words).output().expect("it starts").into();
        assert!(ran.status == Some(2) && ran.err.contains(says), "{words:?}: {ran:?}");
    };
    refuses(&["nobody"], "nobody was not found: no interface of that name; docker: Error: No such");
    refuses(&["podman:web"], "there is no `podman` here");
    refuses(&["--all-of", "none"], "no container of a project `none` is running");
}

fn refused() {
    let host = host();
    let process = host.pid().to_string();
    let refuses = |words: &[&str], says: &str| {
        let ran = program(&[&["attach"], words].concat()).env("PATH", runtimes(&[])).output();
        let ran: Ran = ran.expect("it starts").into();
        assert!(ran.status == Some(2) && ran.err.contains(says), "{words:?}: {ran:?}");
    };
    refuses(
        &["eth9"],
        "no docker, podman or crictl here; the process ID of a container's process works with any \
         runtime",
    );
    refuses(&[&format!("eth9@{process}")], "cannot attach to the interface: No such device");
    refuses(&["4000000"], "cannot enter the network namespace");
    refuses(&[&process, "--only", "tcp dport x"], "--only");
    let ran = program(&["detach"]).output().expect("it starts");
    assert_eq!(Ran::from(ran).status, Some(2));
    // This namespace contains both ends of a veth pair, and `attach` would take both.
    let here = std::process::id();
    netlink::veth("b1", "b0", here);
    refuses(&[&here.to_string()], "are the two ends of one veth pair");
    netlink::delete("b1");
    // This interface carries the SSH session.
    let over_ssh = |words: &[&str]| {
        let mut command = program(&[&["attach"], words].concat());
        command.env("SSH_CONNECTION", format!("{} 5000 {} 22", THERE[0], HERE[0]));
        command
    };
    let ran: Ran = over_ssh(&["a1"]).output().expect("it starts").into();
    assert!(ran.status == Some(2) && ran.err.contains("a1 carries this SSH session"), "{ran:?}");
    let attached = Attached::by(over_ssh(&["a1", "--yes"]));
    signal("INT", attached.child.id());
    assert_eq!(attached.status(), Some(0));
    // A process without the necessary capability.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin", "--"]);
    command.arg(env!("CARGO_BIN_EXE_falaj")).args(["attach", "a1"]).env("PATH", "/usr/bin:/bin");
    let ran: Ran = command.output().expect("setpriv").into();
    assert!(ran.err.contains("that needs CAP_NET_ADMIN"), "{ran:?}");
    // `attach` ends with the last process of its target.
    let mut attached = Attached::start(&[&process, "--delay", "20ms"]);
    drop(host);
    attached.says(&format!("{process} no longer exists"));
    assert_eq!(attached.status(), Some(0));
}
