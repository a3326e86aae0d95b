//! Tests commands that make a link for real packets: `run`, `traffic`, `compare`.
//!
//! This program also runs at the ends of the links (`--probe`), so that no other program is needed
//! there.

use crate::common::{Ran, TENANTS, directory, falaj, file, flow, number, program, signal};
use crate::libraries::{drr, naughty};
use crate::storm;
use libtest_mimic::{Completion, Trial};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Port at which probes listen.
const PORT: u16 = 4711;

/// A test, and the other environments in which it runs.
type Test = (&'static str, fn(&Users), Environments);

/// Further environments in which a test runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Environments {
    Nowhere,
    /// In a user namespace, even as root.
    Users,
    /// In a user namespace, and on a machine without TAP devices, whose /dev/net/tun is another
    /// device.
    Tapless,
}
use Environments::{Nowhere, Tapless};

const TESTS: &[Test] = &[
    ("the_exit_status_is_the_commands", exit_status, Environments::Users),
    ("streams_pass_through", streams, Environments::Users),
    ("the_environment_says_where_we_are", environment, Tapless),
    ("signals_reach_the_command", signals, Environments::Users),
    ("it_ends_with_the_terminal_of_its_session", hang_up, Nowhere),
    ("the_peer_runs_beside_and_has_its_own_input", peer, Environments::Users),
    ("the_command_waits_until_its_peer_listens", waits, Environments::Users),
    ("datagrams_reach_the_other_side", reach, Tapless),
    ("a_delay_delays", delay, Tapless),
    ("a_rate_limits", rate, Tapless),
    ("tcp_passes_a_rate", tcp, Tapless),
    ("a_far_end_behind_shared_memory", guest, Environments::Users),
    ("a_scenario_sorts_packets_into_flows", sorts, Nowhere),
    ("rules_lead_packets_through_links", rules, Tapless),
    ("a_capture_is_replayed_to_the_nanosecond", capture, Tapless),
    ("a_capture_grows_while_it_is_taken", growing_capture, Nowhere),
    ("a_capture_on_standard_output_has_it_alone", piped_capture, Nowhere),
    ("changes_are_in_the_capture_and_are_replayed", captured_changes, Tapless),
    ("scheduled_changes_are_made_on_time_and_replayed", scheduled_changes, Nowhere),
    ("what_is_lost_at_the_entrance_is_told", entrance, Tapless),
    ("a_link_that_cannot_be_is_refused", refused, Nowhere),
    ("hosts_reach_each_other_through_a_router", star, Tapless),
    ("hosts_in_a_row_pass_packets_on", chain, Tapless),
    ("hosts_that_cannot_be_are_refused", wrong_hosts, Nowhere),
    ("the_far_end_may_be_in_a_namespace_that_is_there", netns, Tapless),
    ("the_hosts_ports_are_behind_the_link", host_ports, Tapless),
    ("a_port_of_a_container_in_use_is_told", port_in_use, Environments::Users),
    ("links_nest", nest, Environments::Users),
    ("who_has_no_way_out_is_told", no_way_out, Environments::Users),
    ("a_summary_is_json_and_is_judged", summary, Nowhere),
    ("doctor_measures_this_host", doctor, Nowhere),
    ("ctrl_c_ends_a_measurement", interrupted, Nowhere),
    ("a_link_is_shown_and_changed_from_inside", inside, Tapless),
    ("examples_of_changes_work_as_they_stand", examples, Nowhere),
    ("mutated_frames_cost_no_good_one", mutated, Tapless),
    ("what_masks_made_is_shown_while_it_runs", masks_shown, Nowhere),
    ("everything_changes_under_load", changes, Environments::Users),
    ("links_and_rules_come_and_go_under_load", links_change, Tapless),
    ("plug_ins_come_and_go_under_load", plug_ins, Environments::Users),
    ("a_whole_scenario_takes_over", whole_file, Nowhere),
    ("netconfig_gives_traffic_a_link_of_its_own", netconfig, Nowhere),
    ("a_socket_is_its_users_and_goes_with_its_link", socket, Environments::Users),
    ("it_starts_at_once", start_up, Environments::Users),
    ("kill_9_leaves_nothing", kill_9, Tapless),
    ("traffic_reports_what_it_sent", traffic, Nowhere),
    ("compare_keeps_its_bounds", compare, Nowhere),
    ("compare_with_ipv6_and_both_ways", both_ways, Nowhere),
    ("sources_go_by_the_rules", ruled, Nowhere),
    ("section_ii_b_counts_what_wakes_it", section_ii_b, Nowhere),
    ("a_disk_is_written_to_beside_the_network", disk_beside, Nowhere),
    ("a_thesis_flows_pass_a_gateway", thesis, Nowhere),
    ("a_talks_busy_machine", busy_machine, Nowhere),
    ("without_a_tap_there_are_packet_sockets", tapless, Nowhere),
    ("without_namespaces_packets_go_over_loopback", loopback, Nowhere),
];

/// A test of ways out (internet access from the far end), the ways that it tests, and the other
/// environments in which it runs.
type WayOut = (&'static str, fn(&Users, &str), &'static [&'static str], Environments);

const WAYS_OUT: &[WayOut] = &[
    (
        "the_way_out_of_a_link_may_be_another_link",
        nest_outside,
        &["auto", "host", "pasta", "slirp4netns"],
        Environments::Users,
    ),
    ("names_are_found_outside", names, &["pasta", "slirp4netns"], Environments::Users),
    ("the_host_is_as_it_was", host, &["host"], Nowhere),
];

/// A test of a link, or of a way out.
#[derive(Clone, Copy)]
enum LinkTest {
    Link(fn(&Users)),
    WayOut(fn(&Users, &str), &'static str),
}

impl LinkTest {
    /// Runs the test. A way out whose program is missing is left out, with a message.
    fn is_tested(self, users: &Users) -> Completion {
        match self {
            LinkTest::Link(test) => test(users),
            LinkTest::WayOut(test, way) => {
                let (programs, install) = needs(way);
                if !programs.iter().any(|program| is_there(program)) {
                    return Completion::ignored_with(format!(
                        "there is no {} here: {install}",
                        programs.join(" or ")
                    ));
                }
                test(users, way);
            }
        }
        Completion::Completed
    }
}

/// Returns the programs of which a way out needs one, and how to install it.
fn needs(way: &str) -> (&'static [&'static str], &'static str) {
    match way {
        "pasta" => (&["pasta"], "apt install passt"),
        "slirp4netns" => (&["slirp4netns"], "apt install slirp4netns"),
        _ => (&["nft", "iptables"], "apt install iptables"),
    }
}

fn is_there(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("PATH=$PATH:/usr/sbin:/sbin command -v {program}")])
        .output();
    found.is_ok_and(|found| found.status.success())
}

/// Returns all tests as trials, with one trial more for each further environment.
pub(crate) fn trials(possible: bool) -> Vec<Trial> {
    let trial = |name: String, users: Users, what: LinkTest| {
        crate::trial(possible, name, move || Ok(what.is_tested(&users)))
    };
    let tests =
        TESTS.iter().map(|&(name, test, again)| (name.to_owned(), LinkTest::Link(test), again));
    let ways_out = WAYS_OUT.iter().flat_map(|&(name, test, ways, again)| {
        ways.iter().map(move |way| (format!("{name}::{way}"), LinkTest::WayOut(test, way), again))
    });
    let mut trials = Vec::new();
    for (name, what, again) in tests.chain(ways_out) {
        trials.push(trial(name.clone(), Users { flags: &[], tapless: false }, what));
        if again >= Environments::Users {
            let users = Users { flags: &["--user-namespace"], tapless: false };
            trials.push(trial(format!("{name}::user_namespace"), users, what));
        }
        if again >= Tapless {
            trials.push(trial(
                format!("{name}::without_tap"),
                Users { flags: &[], tapless: true },
                what,
            ));
        }
    }
    trials
}

// ------------------------------------------------------------------------------------------- tools

/// Environment of a test: with or without a user namespace, with or without TAP devices.
struct Users {
    flags: &'static [&'static str],
    /// True if there are no TAP devices.
    tapless: bool,
}

impl Users {
    /// Returns the command `falaj run FLAGS… ARGS…`.
    fn command(&self, args: &[&str]) -> Command {
        let args = [&["run"], self.flags, args].concat();
        if self.tapless { without(NO_TAP, &args) } else { program(&args) }
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.command(args).output().expect("the program starts").into()
    }

    /// Like [`Users::run`], and asserts that the command succeeds.
    fn ok(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.status, Some(0), "{args:?}: {ran:?}");
        ran
    }
}

/// Returns falaj as a command on a machine from which this script has removed a facility.
fn without(script: &str, args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "-Urm",
        "sh",
        "-c",
        &format!("{script} && exec \"$0\" \"$@\""),
        env!("CARGO_BIN_EXE_falaj"),
    ]);
    command.args(args).current_dir(env!("CARGO_TARGET_TMPDIR")).env_remove("RUST_BACKTRACE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Hides the TUN device, if there is one.
const NO_TAP: &str = "{ [ ! -e /dev/net/tun ] || mount --bind /dev/null /dev/net/tun; }";

/// Returns the path of this program, for commands inside a link. It has no characters that a shell
/// interprets.
fn me() -> String {
    let path =
        std::env::current_exe().expect("a path").into_os_string().into_string().expect("UTF-8");
    assert!(!path.contains([' ', '\'', '$']), "{path}");
    path
}

fn median<T: Copy + PartialOrd>(values: &mut [T]) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    values[values.len() / 2]
}

// ------------------------------------------------------------------------------------------- tests

fn exit_status(users: &Users) {
    for (command, status) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["sh", "-c", "kill -KILL $$"], 128 + 9),
    ] {
        let ran = users.run(&[&["--"], command].concat());
        assert_eq!(
            (ran.status, ran.out.as_str(), ran.err.as_str()),
            (Some(status), "", ""),
            "{command:?}"
        );
    }
    let ran = users.run(&["--", "falaj-no-such-command"]);
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (Some(127), "falaj: falaj-no-such-command: command not found\n")
    );
    let ran = users.run(&["--", "/etc/passwd"]);
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (Some(126), "falaj: /etc/passwd: Permission denied\n")
    );
}

fn streams(users: &Users) {
    let mut child = users.command(&["--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    let text: Vec<u8> = (0..1 << 20).map(|i| (i * 7 % 251) as u8).collect();
    let mut input = child.stdin.take().unwrap();
    let sent = text.clone();
    let writer = std::thread::spawn(move || input.write_all(&sent).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(
        output.status.success() && output.stdout == text,
        "{} bytes came back",
        output.stdout.len()
    );

    let ran = users.ok(&["--stats", "--", "sh", "-c", "echo to out; echo to err >&2"]);
    assert_eq!(ran.out, "to out\n");
    assert!(ran.err.starts_with("to err\n"), "{}", ran.err);
    assert!(ran.err.contains("up all") && ran.err.contains("release error p50"), "{}", ran.err);
}

fn environment(users: &Users) {
    let print = "echo $FALAJ_SIDE $FALAJ_ADDR $FALAJ_PEER $FALAJ_ADDR6 $FALAJ_PEER6 $EXTRA; pwd";
    let here = std::fs::canonicalize(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut command = users.command(&["--", "sh", "-c", print]);
    let ran: Ran = command.env("EXTRA", "one").output().unwrap().into();
    assert_eq!(
        ran.out,
        format!("a 10.77.0.1 10.77.0.2 fd77::1 fd77::2 one\n{}\n", here.display()),
        "{ran:?}"
    );
    let ran = users.ok(&["--peer", &format!("{print}; echo done"), "--", "sleep", "0.3"]);
    assert_eq!(
        ran.out,
        format!("b 10.77.0.2 10.77.0.1 fd77::2 fd77::1\n{}\ndone\n", here.display())
    );
    let ran = users.ok(&["--mtu", "1000B", "--", "sh", "-c", "echo [$FALAJ_PEER6]"]);
    assert_eq!(ran.out, "[]\n", "a link with so small an mtu carries no IPv6");
}

fn signals(users: &Users) {
    let script = "trap 'exit 5' TERM; trap 'echo int' INT; trap 'echo hup' HUP; echo ready; while :; do sleep 0.02; done";
    // The process that runs the tests may ignore some of these signals, as `nohup` does, and a
    // shell cannot trap ignored signals.
    let heeded = "--default-signal=INT,HUP,TERM";
    let mut child = users.command(&["--", "env", heeded, "sh", "-c", script]).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("ready"));
    // Two pending signals of one kind would be merged.
    for (name, answer) in [("INT", "int"), ("HUP", "hup"), ("INT", "int")] {
        signal(name, child.id());
        assert_eq!(said.next().as_deref(), Some(answer));
    }
    signal("TERM", child.id());
    assert_eq!((said.next(), child.wait().unwrap().code()), (None, Some(5)));

    let mut child =
        users.command(&["--", "sh", "-c", "echo ready; exec sleep 30"]).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("ready"));
    signal("TERM", child.id());
    assert_eq!((said.next(), child.wait().unwrap().code()), (None, Some(128 + 15)));
}

/// The terminal of the session that falaj leads goes away: the kernel signals falaj alone.
fn hang_up(_: &Users) {
    let pty = nix::pty::openpty(None, None).unwrap();
    // No other process has a copy of these descriptors.
    let (master, slave) = (pty.master.try_clone().unwrap(), pty.slave.try_clone().unwrap());
    drop(pty);
    let end = || Stdio::from(slave.try_clone().unwrap());
    let mut command = Command::new("setsid");
    command.args(["--ctty", env!("CARGO_BIN_EXE_falaj"), "run", "--internet", "none", "--"]);
    command.args(["sh", "-c", "echo ready; sleep 60"]).current_dir(directory());
    let mut child = command.stdin(end()).stdout(Stdio::piped()).stderr(end()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("ready"));
    drop((command, master, slave));
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(30), "it goes on without its terminal");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn peer(users: &Users) {
    // The peer reads its whole input before the command reads its own, and runs longer than the
    // command.
    let peer = "wc -c; echo over; exec sleep 60";
    let mut child = users
        .command(&["--peer", peer, "--", "sh", "-c", "sleep 0.3; cat"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"for the command\n").unwrap();
    let began = Instant::now();
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "the command's end is the end: {:?}",
        began.elapsed()
    );
    assert_eq!(out.split_whitespace().collect::<Vec<_>>().join(" "), "0 over for the command");
    // A peer that fails or ends early does not end the link.
    let ran = users.run(&["--peer", "exit 3", "--", "sh", "-c", "sleep 0.3; exit 4"]);
    assert_eq!(ran.status, Some(4));
}

/// A connection is refused until the peer listens, and `bash` tries only once.
fn waits(users: &Users) {
    let serve = format!("sleep 0.3; exec {} --probe serve 10.77.0.2", me());
    let connect = format!(": </dev/tcp/$FALAJ_PEER/{PORT}");
    let port = PORT.to_string();
    for wait in [&[][..], &["--wait", &port]] {
        users.ok(&[wait, &["--peer", &serve, "--", "bash", "-c", &connect][..]].concat());
    }
    let refused = |flags: &[&str], words: &str| {
        let ran = users.run(&[flags, &["--", "echo", "began"][..]].concat());
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.err.contains(words), "{ran:?}");
    };
    refused(
        &["--wait", "9", "--peer", "exit 3"],
        "the peer ended before it listened at port 9: exit status 3",
    );
    refused(&["--wait", "53/udp"], "start it there by --peer COMMAND");
    refused(&["--wait", "http", "--peer", "true"], "write a port, 5201, or 53/udp");
}

fn reach(users: &Users) {
    for address in ["10.77.0.2", "fd77::2"] {
        for flags in [&[][..], &["--rate", "10mbit", "--delay", "5ms"]] {
            let echo = format!("{} --probe echo {address}", me());
            let ran =
                users.ok(&[flags, &["--peer", &echo, "--", &me(), "--probe", "ask", address, "1"]]
                    .concat());
            assert!(number(&ran.json()[0]) > 0.0);
        }
    }
}

fn delay(users: &Users) {
    for address in ["10.77.0.2", "fd77::2"] {
        let echo = format!("{} --probe echo {address}", me());
        let ran = users.ok(&[
            "--delay",
            "20ms",
            "--peer",
            &echo,
            "--",
            &me(),
            "--probe",
            "ask",
            address,
            "20",
        ]);
        let mut times: Vec<f64> = ran.json().as_array().unwrap().iter().map(number).collect();
        // No round trip is too short. On a busy machine some may take longer, but not most.
        assert!(times.iter().all(|&ms| ms >= 40.0), "{times:?}");
        assert!(median(&mut times) < 60.0, "{times:?}");
        if falaj_guest::is_inside() {
            // In virtual time no round trip is late.
            assert!(times.iter().all(|&ms| ms < 40.1), "{times:?}");
        }
    }
}

fn rate(users: &Users) {
    let meter = format!("{} --probe meter 10.77.0.2", me());
    let ran = users.ok(&[
        "--rate",
        "10mbit",
        "--peer",
        &meter,
        "--",
        &me(),
        "--probe",
        "flood",
        "10.77.0.2",
    ]);
    let bits = number(&ran.json());
    assert!((bits / 10e6 - 1.0).abs() < 0.02, "{bits} bit/s");
}

fn sorts(users: &Users) {
    let tenants = file("sorts.toml", TENANTS);
    let send = "for port in 5001 5001 5001 5002; do $0 --probe send 10.77.0.2 $port; done";
    let ran = users.ok(&["--stats", tenants, "--", "sh", "-c", send, &me()]);
    let offered = |flow: &str| -> u64 {
        let row = ran
            .err
            .lines()
            .find(|line| line.trim().starts_with(flow))
            .unwrap_or_else(|| panic!("{ran:?}"));
        row.trim()[flow.len()..].split_whitespace().next().unwrap().parse().unwrap()
    };
    assert_eq!(offered("up a"), 3);
    // The kernels at both ends send a few packets of their own.
    assert!(offered("up b") >= 1, "{}", ran.err);
    assert_eq!(offered("down a"), 0);
}

fn rules(users: &Users) {
    let two = "[link.first]\nrate = \"10mbit\"\n[link.second]\nrate = \"10mbit\"\n[link.spare]\nrate = \"10mbit\"\n\
        [[rule]]\nname = \"chain\"\nmatch = \"udp dport 5001\"\nto = [\"first\", \"second\"]\n\
        [[rule]]\nname = \"gone\"\nmatch = \"udp dport 5002\"\nto = \"drop\"\n\
        [[rule]]\nname = \"on\"\nmatch = \"udp dport 5003\"\nto = \"second\"\nthen = \"on\"\n\
        [[rule]]\nname = \"rest\"\nmatch = \"not ( udp dport 5001 )\"\nto = \"pass\"\n";
    let two = file("rules.toml", two);
    let send = "for port in 5001 5001 5002 5003 5003 5003; do $0 --probe send 10.77.0.2 $port; done; sleep 0.2";
    let ran = users.ok(&["--json", "-", two, "--", "sh", "-c", send, &me()]);
    let json = ran.json();
    let of = |list: &str, key: &str, name: &str, what: &str| {
        let all = json[list].as_array().unwrap_or_else(|| panic!("{json}"));
        let one =
            all.iter().find(|one| one[key] == name).unwrap_or_else(|| panic!("no {name}: {json}"));
        number(&one[what])
    };
    assert_eq!(of("rules", "rule", "chain", "packets"), 2.0);
    assert_eq!(of("rules", "rule", "gone", "packets"), 1.0);
    assert_eq!(of("rules", "rule", "on", "packets"), 3.0);
    // The rule `rest` matches packets that continue after the second link, and a few packets that
    // the kernels send on their own.
    assert!(of("rules", "rule", "rest", "packets") >= 3.0, "{json}");
    assert_eq!(of("flows", "flow", "first up all", "sent"), 2.0);
    assert_eq!(of("flows", "flow", "second up all", "sent"), 5.0);
    assert_eq!(of("flows", "flow", "second down all", "offered"), 0.0);
}

fn capture(users: &Users) {
    let tenants = file("capture-tenants.toml", TENANTS);
    // A replay makes the same decisions, whether a file or flags describe the link, and whether the
    // event loop polls the clock before an instant or sleeps until it.
    for (name, link) in [
        ("capture-file.pcapng", &[tenants][..]),
        (
            "capture-flags.pcapng",
            &["--rate", "5mbit", "--delay", "3ms", "--queue", "30p", "--timer", "sleep"],
        ),
    ] {
        let meter = format!("{} --probe meter 10.77.0.2", me());
        let me = me();
        users.ok(&[
            link,
            &["--capture", name, "--peer", &meter, "--", &me, "--probe", "flood", "10.77.0.2"],
        ]
        .concat());
        let ran = falaj(&["sim", "--replay", name, "--json"]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let json = ran.json();
        assert_eq!(
            (&json["same_decisions"], &json["first_difference"]),
            (&Value::Bool(true), &Value::Null)
        );
        assert!(number(&json["packets"]) > 1000.0, "{json}");
        let dropped: f64 =
            json["flows"].as_array().unwrap().iter().map(|f| number(&f["dropped"])).sum();
        // The flood is well above 5 Mbit/s, but on a busy machine not always above 100 Mbit/s.
        assert!(dropped > 100.0 || link == [tenants], "{json}");

        // A different time in the capture is detected.
        let altered = format!("altered-{name}");
        let mut bytes = std::fs::read(crate::common::directory().join(name)).unwrap();
        let at = bytes.windows(5).rposition(|w| w == b" due=").unwrap() + 5;
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        std::fs::write(crate::common::directory().join(&altered), &bytes).unwrap();
        let ran = falaj(&["sim", "--replay", &altered]);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(ran.out.contains("first difference: number="), "{}", ran.out);

        // Through another link, decisions are not compared.
        let other = file("capture-other.toml", &TENANTS.replace("100mbit", "1gbit"));
        let json = falaj(&["sim", other, "--replay", name, "--json"]).json();
        assert_eq!((&json["same_decisions"], number(&json["unmatched"])), (&Value::Null, 0.0));

        // A truncated capture, as after a full disk: the existing part is replayed. Blocks have
        // lengths of whole words of four bytes, so the cut is within a word.
        let cut = (bytes.len() / 2) | 1;
        std::fs::write(crate::common::directory().join(&altered), &bytes[..cut]).unwrap();
        let ran = falaj(&["sim", "--replay", &altered, "--json"]);
        let ends = format!("the file ends at byte {cut}");
        assert!(
            ran.status == Some(1)
                && ran
                    .err
                    .contains("breaks off: the file was cut off: the block that begins at byte ")
                && ran.err.contains(&ends),
            "{ran:?}"
        );
    }
    captured_rules(users);
    let ran = users.run(&["--capture", "no-such-directory/c.pcapng", "--", "true"]);
    assert_eq!(ran.status, Some(2));
    assert!(
        ran.err.contains("cannot write the capture no-such-directory/c.pcapng: No such file"),
        "{ran:?}"
    );
}

fn entrance(users: &Users) {
    // While falaj is stopped, no packets are read, and the kernel keeps only a limited number.
    let script =
        "echo ready && read go && $0 --probe burst 10.77.0.2 20000 && echo sent && read stop";
    let mut child = users
        .command(&["--stats", "--", "sh", "-c", script, &me()])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("ready"));
    signal("STOP", child.id());
    input.write_all(b"go\n").unwrap();
    assert_eq!(said.next().as_deref(), Some("sent"));
    signal("CONT", child.id());
    input.write_all(b"stop\n").unwrap();
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let line = ran.err.lines().find(|line| line.contains("were not read in time where they enter"));
    let count: u64 = line
        .unwrap_or_else(|| panic!("{ran:?}"))
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!((5_000..20_010).contains(&count), "{}", ran.err);
    // Without losses there is no message.
    let ran = users.ok(&["--stats", "--", "true"]);
    assert!(!ran.err.contains("not read in time"), "{}", ran.err);
}

fn refused(users: &Users) {
    for (flags, words) in [
        (&["--mtu", "65535B"][..], "MTU is out of range"),
        (&["--rate", "10mbit", "--queue", "100B"], "never admits a packet of 1514 B"),
    ] {
        let ran = users.run(&[flags, &["--", "true"]].concat());
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{flags:?}");
        assert!(ran.err.starts_with("falaj: ") && ran.err.contains(words), "{}", ran.err);
    }
    let two = format!("{TENANTS}\n[link.second]\nrate = \"1mbit\"\n")
        .replace("[traffic.a]", "[traffic.a]\nlink = \"uplink\"");
    let two = two.replace("[traffic.b]", "[traffic.b]\nlink = \"uplink\"");
    let ran = users.run(&[file("two.toml", &two), "--", "true"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("this scenario has 2 links"), "{}", ran.err);
}

/// Asserts that every round trip took at least `least` ms, and that the fastest one took so little
/// more that it cannot have passed another link.
fn takes(ran: &Ran, least: f64) {
    let times: Vec<f64> = ran.json().as_array().unwrap().iter().map(number).collect();
    assert!(times.iter().all(|&ms| ms >= least), "{least}: {times:?}");
    assert!(times.iter().any(|&ms| ms < least + 40.0), "{least}: {times:?}");
}

fn star(users: &Users) {
    let star = file(
        "star.toml",
        "[link.x]\nrate = \"20mbit\"\ndelay = \"20ms\"\n[link.y]\nrate = \"unlimited\"\ndelay = \"10ms\"\n\
         [link.z]\nrate = \"unlimited\"\n[host.a]\nlink = \"x\"\n[host.b]\nlink = \
         \"y\"\n[host.c-1]\nlink = \"z\"\n",
    );
    let me = me();
    // A round trip takes at least twice the delay of both links. Each host is found by its name,
    // and by its variable.
    for (find, six, least) in [
        ("$(getent ahostsv4 b | head -n 1 | cut -d ' ' -f 1)", "", 60.0),
        ("$FALAJ_ADDR_B", "", 60.0),
        ("$FALAJ_ADDR6_B", "6", 60.0),
        ("$FALAJ_ADDR_ROUTER", "", 40.0),
    ] {
        let host = if find.contains("ROUTER") { "router" } else { "b" };
        let echo = format!("{host}:{me} --probe echo $FALAJ_ADDR{six}");
        let ask = format!("{me} --probe ask {find} 10");
        let ran = users.ok(&[star, "--in", &echo, "--", "sh", "-c", &ask]);
        takes(&ran, least);
    }
    // A stream passes, in segmentation-offload units of any size that the kernels form. The command
    // runs in a host other than the first.
    let serve = format!("a:{me} --probe serve $FALAJ_ADDR");
    let fetch = format!("{me} --probe fetch $FALAJ_ADDR_A");
    let ran =
        users.ok(&["--stats", star, "--host", "c-1", "--in", &serve, "--", "sh", "-c", &fetch]);
    assert_eq!(ran.out, "whole\n");
    let sent = |flow: &str| {
        let row = ran
            .err
            .lines()
            .find(|line| line.trim().starts_with(flow))
            .unwrap_or_else(|| panic!("{ran:?}"));
        row.trim()[flow.len()..].split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    assert!(sent("x up all") > 1000 && sent("z down all") > 1000, "{}", ran.err);
    assert!(sent("y up all") < 100, "b takes no part: {}", ran.err);
    let ran = users.ok(&[
        star,
        "--host",
        "c-1",
        "--",
        "sh",
        "-c",
        "echo $FALAJ_HOST $FALAJ_ADDR [$FALAJ_PEER]",
    ]);
    assert_eq!(ran.out, "c-1 10.77.2.1 []\n");
    let ran = users.run(&[star, "--fail-if", "rate of x up < 1gbit", "--", "true"]);
    assert_eq!(ran.status, Some(4), "{ran:?}");
    let ran = users.run(&[star, "--", "sh", "-c", "exit 7"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(7), ""));
}

fn chain(users: &Users) {
    let text = "[link.x]\nrate = \"unlimited\"\ndelay = \"20ms\"\n[link.y]\nrate = \"unlimited\"\ndelay = \"20ms\"\n\
                [link.z]\nrate = \"unlimited\"\ndelay = \"20ms\"\n[host.a]\nlink = \"x\"\n[host.b]\nlink = [\"x\", \"y\"]\n\
                [host.c]\nlink = [\"y\", \"z\"]\n[host.d]\nlink = \"z\"\n";
    let me = me();
    let chain = file("chain.toml", text);
    for six in ["", "6"] {
        let echo = format!("d:{me} --probe echo $FALAJ_ADDR{six}");
        let ask = format!("{me} --probe ask $FALAJ_ADDR{six}_D 10");
        takes(&users.ok(&[chain, "--in", &echo, "--", "sh", "-c", &ask]), 120.0);
    }
    // A link in the middle has a small MTU, which the ends learn from the host before the link. The
    // MTU is too small for IPv6, so no host has an IPv6 address.
    let narrow = text.replace("[link.z]", "mtu = \"1000B\"\n[link.z]");
    let narrow = file("narrow.toml", &narrow);
    let serve = format!("d:{me} --probe serve $FALAJ_ADDR");
    let fetch = format!("echo [$FALAJ_ADDR6_D]; {me} --probe fetch $FALAJ_ADDR_D");
    let ran = users.ok(&[narrow, "--in", &serve, "--", "sh", "-c", &fetch]);
    assert_eq!(ran.out, "[]\nwhole\n");
}

fn wrong_hosts(users: &Users) {
    let star = "[link.x]\nrate = \"1mbit\"\n[host.a]\nlink = \"x\"\n";
    let star = file("wrong-hosts.toml", star);
    for (flags, words) in [
        (&[star, "--host", "b"][..], "--host: there is no host `b`; there are a, router"),
        (&[star, "--in", "b:true"], "--in: there is no host `b`; there are a, router"),
        (&[star, "--in", "a:true"], "--in: a command runs in `a` already"),
        (&[star, "--peer", "true"], "this scenario has hosts: write --in HOST:COMMAND"),
        (&[star, "--internet", "pasta"], "a scenario with hosts has no internet access"),
        (&[star, "--host-port", "80"], "--host-port is for a link between two ends"),
        (&["--in", "a:true"], "--host and --in are for a scenario with hosts"),
        (&["--in", "true"], "write the host, a colon and the command"),
        (
            &["--netns", "no-such-name"],
            "--netns no-such-name: cannot enter the network namespace: No such file or directory",
        ),
    ] {
        let ran = users.run(&[flags, &["--", "true"]].concat());
        assert_eq!(ran.status, Some(2), "{flags:?}: {ran:?}");
        assert!(ran.err.contains(words), "{flags:?}: {}", ran.err);
    }
}

/// The far end is the namespace of another process, such as a container's first process.
fn netns(users: &Users) {
    // Root may enter any namespace; other users may enter those inside their own user namespaces.
    let mut container = Command::new("unshare");
    container.args(["-Urn", "sh", "-c", "echo; read line; cat /proc/net/dev"]);
    let mut container = container.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(container.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some(""));
    let (id, me) = (container.id().to_string(), me());
    let link = ["--netns", &id, "--delay", "5ms"];
    for address in ["10.77.0.2", "fd77::2"] {
        let echo = format!("{me} --probe echo {address}");
        let command = ["--peer", &echo, "--", &me, "--probe", "ask", address, "5"];
        let mut command = users.command(&[&link[..], &command].concat());
        if users.tapless {
            // Without TAP, this test runs in a user namespace beside the container's.
            let ran: Ran = command.output().unwrap().into();
            assert_eq!(ran.status, Some(2), "{ran:?}");
            assert!(
                ran.err.contains("you may not enter this namespace: run as root"),
                "{}",
                ran.err
            );
            continue;
        }
        let ran: Ran = command.output().unwrap().into();
        let times = ran.json();
        assert!(times.as_array().unwrap().iter().all(|ms| number(ms) >= 10.0), "{times}");
    }
    // The container is as before.
    writeln!(container.stdin.take().unwrap()).unwrap();
    let rest: Vec<String> = said.collect();
    assert!(
        rest.iter().any(|line| line.contains("lo:"))
            && !rest.iter().any(|line| line.contains("falaj")),
        "{rest:?}"
    );
    assert!(container.wait().unwrap().success());
}

/// Starts a server that echoes one stream and one datagram of each client; returns its port.
fn echo_server(at: &str) -> u16 {
    let listener = TcpListener::bind((at, 0)).expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    let datagrams = UdpSocket::bind((at, port)).expect("the same port");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let mut came = Vec::new();
            stream.read_to_end(&mut came).expect("all of it");
            stream.write_all(&came).expect("a way back");
        }
    });
    std::thread::spawn(move || {
        let mut datagram = [0; 2000];
        loop {
            let (length, from) = datagrams.recv_from(&mut datagram).expect("a datagram");
            datagrams.send_to(&datagram[..length], from).expect("a way back");
        }
    });
    port
}

fn host_ports(users: &Users) {
    let me = me();
    // Servers that listen at one of the two loopback addresses are reached at both addresses.
    for server in ["127.0.0.1", "::1"] {
        let port = echo_server(server);
        let ports = [port.to_string(), format!("{port}:80")];
        let command = ["--delay", "20ms", "--host-port", &ports[0], "--host-port", &ports[1]];
        for (at, of_command) in [("127.0.0.1", ports[0].as_str()), ("::1", "80")] {
            for transport in ["tcp", "udp"] {
                let probe = ["--", &me, "--probe", "round", transport, at, of_command];
                let ran = users.ok(&[&command[..], &probe].concat());
                let ms = number(&ran.json());
                // A stream is opened, then a request and its answer cross the link; a datagram
                // crosses it once each way.
                let least = if transport == "tcp" { 80.0 } else { 40.0 };
                assert!(ms >= least, "{server} at {at}, {transport}: {ms}");
                assert_eq!(ran.err, "");
            }
        }
        // The port is reachable from the far end, too.
        let far = ["--", &me, "--probe", "round", "tcp", "10.77.0.2", &ports[0]];
        assert!(number(&users.ok(&[&command[..], &far].concat()).json()) >= 80.0);
    }
    // Without the option, the first refused connection to a port that the host serves is reported,
    // with the cure.
    let served = echo_server("127.0.0.1").to_string();
    for at in ["127.0.0.1", "::1"] {
        let probe = ["--", &me, "--probe", "round", "tcp", at, &served];
        let ran = users.run(&probe);
        assert_ne!(ran.status, Some(0), "{ran:?}");
        let cure = format!("`--host-port {served}` lets the command reach it");
        assert_eq!(ran.err.matches(&cure).count(), 1, "{ran:?}");
    }
    // If nothing listens at the port, falaj says so, and the command's connection fails.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let probe = ["--", &me, "--probe", "round", "tcp", "127.0.0.1", &port];
    let ran = users.run(&[&["--host-port", &port][..], &probe].concat());
    assert_ne!(ran.status, Some(0), "{ran:?}");
    let yet = format!("nothing on this host listens at port {port} yet");
    assert!(ran.err.contains(&yet), "{ran:?}");
    let ran = users.run(&probe);
    assert!(!ran.err.contains("--host-port"), "not served: {ran:?}");
    for (flags, words) in [
        (&["--host-port", "web"][..], "write a port of the host, such as `8000`"),
        (&["--host-port", "8000:80", "--host-port", "80"], "given twice for the command's port 80"),
    ] {
        let ran = users.run(&[flags, &["--", "true"]].concat());
        assert_eq!(ran.status, Some(2), "{flags:?}: {ran:?}");
        assert!(ran.err.contains(words), "{flags:?}: {}", ran.err);
    }
}

/// A server in the container already listens at the port that the far end needs.
fn port_in_use(users: &Users) {
    let mut server = Command::new("unshare");
    let mut server = server.args(["-Urn", &me(), "--probe", "web", "0.0.0.0"]).spawn().unwrap();
    let (id, port) = (server.id().to_string(), PORT.to_string());
    let table = format!("/proc/{id}/net/tcp");
    let listens =
        || std::fs::read_to_string(&table).is_ok_and(|t| t.contains(&format!(":{PORT:04X} ")));
    while !listens() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let ran = users.run(&["--netns", &id, "--host-port", &port, "--", "true"]);
    server.kill().unwrap();
    server.wait().unwrap();
    let named = format!("--host-port: process {id} (");
    assert!(ran.status == Some(2) && ran.err.contains(&named), "{ran:?}");
    assert!(ran.err.contains(&format!(") listens at port {port} of --netns {id}: ")), "{ran:?}");
}

/// Returns the command line of `falaj run FLAGS…`, to be run inside another `falaj run`.
fn inner(users: &Users, flags: &str) -> String {
    format!("{} run {} {flags}", env!("CARGO_BIN_EXE_falaj"), users.flags.join(" "))
}

fn nest(users: &Users) {
    // The innermost of three links has the third subnet.
    let third = format!(
        "{} -- {} -- sh -c 'echo $FALAJ_ADDR $MAHIMAHI_BASE $FALAJ_PEER6'",
        inner(users, ""),
        inner(users, "")
    );
    let ran = users.ok(&["--", "sh", "-c", &third]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("10.77.2.1 10.77.2.2 fd77:0:0:2::2\n", ""));
}

/// The inner link's way out leads over the outer link, whose far end answers.
fn nest_outside(users: &Users, way: &str) {
    let echo = format!("{} --probe echo 10.77.0.2", me());
    let ask = format!("{} --probe ask 10.77.0.2 10", me());
    let script = format!("{} -- {ask}", inner(users, &format!("--delay 15ms --internet {way}")));
    let ran = users.ok(&["--delay", "20ms", "--peer", &echo, "--", "sh", "-c", &script]);
    let mut times: Vec<f64> = ran.json().as_array().unwrap().iter().map(number).collect();
    assert!(times.iter().all(|&ms| ms >= 70.0), "{times:?}");
    assert!(median(&mut times) < 100.0, "{times:?}");
}

fn names(users: &Users, way: &str) {
    // The host's name server is on its loopback interface, like systemd's resolver.
    let own = file("resolv.conf", "search example.org\nnameserver 127.0.0.53\n");
    let far = file("resolv-far.conf", "nameserver 10.77.0.2\n");
    let web = format!("{} --probe web 10.77.0.2", me());
    let script = format!(
        "mount --bind {own} /etc/resolv.conf && {{ {0} --probe names 127.0.0.53 10.77.0.2 & }} && \
         {1} -- sh -c '{0} --probe get falaj.test; cat /etc/resolv.conf'",
        me(),
        inner(users, &format!("--rate 10mbit --internet {way}")),
    );
    let ran = users.ok(&["--peer", &web, "--", "unshare", "-m", "sh", "-c", &script]);
    assert_eq!(ran.out, "the page\nsearch example.org\nnameserver 10.77.254.3\n", "{way}: {ran:?}");
    // A name server on another machine is queried directly, and its answers come from its own
    // address; the host has its own web server.
    let script = format!(
        "mount --bind {far} /etc/resolv.conf && {{ {0} --probe web 10.77.0.1 & }} && {1} -- sh -c \
         '{0} --probe get falaj.test; {0} --probe get 10.77.0.1; cat /etc/resolv.conf'",
        me(),
        inner(users, &format!("--rate 10mbit --internet {way}")),
    );
    let both = format!("{} --probe names 10.77.0.2 10.77.0.2 & {web}", me());
    let ran = users.ok(&["--peer", &both, "--", "unshare", "-m", "sh", "-c", &script]);
    assert_eq!(ran.out, "the page\nthe page\nnameserver 10.77.0.2\n", "{way}: {ran:?}");
    // All packets that the user-mode TCP/IP stack sends at once wait until the queue of ten packets
    // has room, and arrive: if they were lost, they would be lost again at each retransmission.
    let fetch = format!("{} --probe fetch 10.77.0.2", me());
    let script = inner(users, &format!("--rate 20mbit --queue 10p --stats --internet {way}"))
        + &format!(" -- {fetch}");
    let serve = format!("{} --probe serve 10.77.0.2", me());
    let ran = users.ok(&["--peer", &serve, "--", "sh", "-c", &script]);
    assert_eq!(ran.out, "whole\n", "{way}: {ran:?}");
    let row = ran
        .err
        .lines()
        .find(|line| line.trim().starts_with("down all"))
        .unwrap_or_else(|| panic!("{ran:?}"));
    assert_eq!(row.split_whitespace().nth(4), Some("0"), "none dropped, {way}: {}", ran.err);
}

fn host(users: &Users, way: &str) {
    // The host is the near end of a link, so that the test may change its network. Of iptables,
    // only rules and user-defined chains are compared: iptables may create its tables itself.
    let state = "cat /proc/sys/net/ipv4/ip_forward; cut -d: -f1 /proc/net/dev | sort; \
                 PATH=$PATH:/usr/sbin:/sbin; if command -v nft >/dev/null; then nft list ruleset; \
                 else iptables-save | sed -n '/^-A/p;/^:.* - /p'; fi";
    let run = inner(users, &format!("--internet {way}"));
    let up = "rm -f up";
    let until_up = format!(
        "{run} -- sh -c 'touch up; sleep 30' & P=$!; while [ ! -e up ]; do sleep 0.01; done; {state}"
    );
    let until_over = format!(
        "N=0; while [ \"$({state})\" != \"$BEFORE\" ] && [ $N -lt 200 ]; do N=$((N + 1)); sleep 0.1; done"
    );
    for (ending, how) in [
        ("true", format!("{run} -- true")),
        ("TERM", format!("{until_up}; kill -TERM $P; wait $P")),
        ("KILL", format!("{until_up}; kill -KILL $P; wait $P; {until_over}")),
    ] {
        let script = format!(
            "{up}; {state}; echo ==; BEFORE=$({state}); {{ {how}; }} >during; echo ==; {state}"
        );
        let ran = users.ok(&["--", "sh", "-c", &script]);
        let (before, after) = ran.out.split_once("==\n==\n").unwrap_or_else(|| panic!("{ran:?}"));
        assert_eq!(before, after, "{ending}");
        let during =
            std::fs::read_to_string(format!("{}/during", env!("CARGO_TARGET_TMPDIR"))).unwrap();
        if ending != "true" {
            assert!(during.starts_with("1\n") && during.contains("falaj-1"), "{during}");
        }
    }
    let ran = users.run(&["--internet", way, "--", "sh", "-c", "exit 3"]);
    assert!(matches!(ran.status, Some(3)), "{ran:?}");
}

fn no_way_out(users: &Users) {
    // With this PATH, falaj finds programs only in root's directories, which it always searches.
    let without = |flags: &[&str]| -> Ran {
        let mut command =
            users.command(&[flags, &["--", &me(), "--probe", "knock", "192.0.2.1"]].concat());
        command.env("PATH", "/nowhere").output().unwrap().into()
    };
    let ran = without(&[]);
    let has_host = ["pasta", "slirp4netns"].iter().any(|name| {
        ["/usr/sbin", "/sbin"].iter().any(|place| std::path::Path::new(place).join(name).exists())
    });
    // A host that forwards packets, as one with containers does, is a way out by itself.
    let forwards = std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward");
    let forwards = forwards.is_ok_and(|text| text.trim() == "1");
    if !has_host {
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let told = ran.err.contains("the far end had no internet access: install pasta");
        assert!(told || forwards, "{ran:?}");
        let ran = without(&["--internet", "pasta"]);
        assert_eq!(ran.status, Some(2));
        assert!(ran.err.contains("there is no `pasta` here: apt install passt"), "{ran:?}");
    }
    assert_eq!(without(&["--internet", "none"]).err, "");
}

fn summary(users: &Users) {
    let flags = ["--rate", "10mbit", "--delay", "3ms", "--json", "summary.json", "--fail-if"];
    let run = |condition: &str, status: &str| {
        let script = format!("$0 --probe burst 10.77.0.2 50; sleep 0.3; exit {status}");
        users.run(&[&flags[..], &[condition, "--", "sh", "-c", &script, &me()]].concat())
    };
    let ran = run("sent of up < 50", "0");
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let text =
        std::fs::read_to_string(format!("{}/summary.json", env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert!(number(&flow(&json["flows"], "up all")["sent"]) >= 50.0, "{json}");
    let up = &json["directions"][0];
    assert_eq!(
        (&up["asked"]["rate"], &up["asked"]["delay_ns"]),
        (&10_000_000.into(), &3_000_000.into())
    );
    assert!(number(&up["given"]["delay_p50_ns"]) >= 3e6, "{json}");
    let ran = run("release.max of up >= 0s", "0");
    assert_eq!(ran.status, Some(4));
    assert!(ran.err.starts_with("falaj: failed: release.max of up >= 0s: it is "), "{}", ran.err);
    assert_eq!(
        run("release.max of up >= 0s", "7").status,
        Some(7),
        "a command that fails says so itself"
    );
}

/// The first results of the command would take five minutes.
fn interrupted(_: &Users) {
    let child = program(&["bench", "delay", "--datagrams", "1000000"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let pressed = Instant::now();
    signal("INT", child.id());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert!(pressed.elapsed() < Duration::from_secs(5), "{:?}", pressed.elapsed());
    assert_eq!((ran.status, ran.out.as_str()), (Some(130), ""), "{ran:?}");
    assert!(ran.err.ends_with("interrupted before there was any result\n"), "{ran:?}");
}

fn doctor(_: &Users) {
    let state = format!("{}/doctor-state", env!("CARGO_TARGET_TMPDIR"));
    let kept = |words: &[&str]| -> Ran {
        program(words).env("XDG_STATE_HOME", &state).output().unwrap().into()
    };
    let _ = std::fs::remove_dir_all(&state);
    let beyond = ["run", "--internet", "none", "--rate", "900gbit", "--delay", "1us", "--", "true"];
    let ran = kept(&beyond);
    assert!(ran.status == Some(0) && !ran.err.contains("falaj doctor"), "{ran:?}");
    let ran = kept(&["doctor", "--json"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let json = ran.json();
    // After that, a link beyond the limit causes a warning with the measured limit.
    let ran = kept(&beyond);
    assert!(
        ran.status == Some(0) && ran.err.contains("the measured limit of this host"),
        "{ran:?}"
    );
    assert!(ran.err.contains("with a delay of 1us, 1 of 100 packets is late by"), "{ran:?}");
    let ran =
        kept(&["run", "--internet", "none", "--rate", "1mbit", "--delay", "10s", "--", "true"]);
    assert!(ran.status == Some(0) && !ran.err.contains("falaj doctor"), "{ran:?}");
    let works = |what: &str| {
        let backends = json["backends"].as_array().unwrap();
        backends.iter().find(|b| b["what"] == what).unwrap_or_else(|| panic!("no {what} in {json}"))
            ["works"]
            .clone()
    };
    assert_eq!((works("namespaces"), works("relay")), (true.into(), true.into()));
    let floor = |key: &str| number(&json["floor"][key]);
    assert_eq!(json["floor"]["over"], "namespaces");
    assert!(
        0.0 < floor("empty_link_p50_ns")
            && floor("empty_link_p50_ns") <= floor("empty_link_p99_ns"),
        "{json}"
    );
    assert!(floor("release_error_p50_ns") <= floor("release_error_p99_ns"), "{json}");
    // A lower value would mean that the measurement had failed.
    assert!(
        floor("delivered_per_s") > 1e3
            && floor("packets_per_s") > 1e3
            && floor("tcp_bits_per_s") > 1e7,
        "{json}"
    );
    assert_eq!(number(&json["limits"]["delay_ns"]), 10.0 * floor("release_error_p99_ns"));

    let ran = falaj(&["doctor", "--no-measuring", "-q"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    assert!(
        ran.out.starts_with("namespaces              yes") && !ran.out.contains("measured"),
        "{}",
        ran.out
    );
    let rows = ran.out.lines().count();
    let mut command = program(&["doctor", "--no-measuring"]);
    let ran: Ran = command.env("PATH", "/nowhere").output().unwrap().into();
    assert!(ran.out.contains("yes") && ran.out.lines().count() == rows, "{}", ran.out);
}

fn start_up(users: &Users) {
    // The CPU time of falaj and all its children, which load on the host does not increase. It is
    // measured without a way out, and with one, which has more to set up and remove.
    let spent = || {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("every Linux has it");
        [usage.user_time(), usage.system_time()].map(|time| time.num_microseconds()).iter().sum()
    };
    for (way, options) in [("no way out", &["--internet", "none"][..]), ("a way out", &[])] {
        let mut times: Vec<i64> = Vec::new();
        for _ in 0..5 {
            let before: i64 = spent();
            let ran = users.ok(&[options, &["--", "echo", "up"]].concat());
            assert_eq!(ran.out, "up\n");
            times.push(spent() - before);
        }
        assert!(median(&mut times) < 100_000, "with {way} it took, in microseconds, {times:?}");
    }
}

fn kill_9(users: &Users) {
    // The sleep time is unique to these processes.
    let nanos =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    let token = format!("86400.{nanos:09}{}", std::process::id());
    let script = format!("trap '' TERM HUP INT; sleep {token} & sleep {token} & echo up; wait");
    let mut child = users.command(&["--peer", &script, "--", "sh", "-c", &script]).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!((said.next().as_deref(), said.next().as_deref()), (Some("up"), Some("up")));
    let before = alive(&token);
    // falaj itself, and a shell and two sleeping processes at each end; the first process of each
    // side has falaj's command line.
    assert!(before.len() >= 7, "{before:?}");
    child.kill().unwrap();
    let killed = Instant::now();
    child.wait().unwrap();
    while !alive(&token).is_empty() {
        assert!(killed.elapsed() < Duration::from_secs(60), "still there: {:?}", alive(&token));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the processes whose command lines contain `token`. A dying process has no command line,
/// and holds no resources.
fn alive(token: &str) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(token.len()).any(|window| window == token.as_bytes())
    };
    pids.filter(has_it).collect()
}

/// Repeats the measurement, up to five times in total, as long as a sender got no CPU time when a
/// packet was due, and so did not send the intended traffic. If the report has the link's release
/// error, a late link is a reason too.
fn punctually(measure: impl Fn() -> Value, senders: impl Fn(&Value) -> Vec<&Value>) -> Value {
    let is_late = |sender: &&Value| {
        let link = sender["release_error_p99_ns"].as_f64().unwrap_or(0.0);
        number(&sender["unsent"]) > 0.0 || number(&sender["sent_late_p99_ns"]) > 5e6 || link > 5e6
    };
    for _ in 0..4 {
        let json = measure();
        if !senders(&json).iter().any(is_late) {
            return json;
        }
    }
    measure()
}

fn traffic(_: &Users) {
    let tenants = file("traffic.toml", TENANTS);
    let sent = || {
        let ran = falaj(&["traffic", tenants, "--duration", "1s", "--json"]);
        assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
        ran.json()
    };
    let json = punctually(sent, |json| json["flows"].as_array().expect("flows").iter().collect());
    assert_eq!(
        (&json["over"], &json["duration_ns"]),
        (&"namespaces".into(), &1_000_000_000.into())
    );
    for (name, sent_by_plan) in [("a", 3000.0), ("b", 12_500.0)] {
        let f = flow(&json["flows"], name);
        let [sent, received, p50, p99, max] =
            ["sent", "received", "p50_ns", "p99_ns", "max_ns"].map(|key| number(&f[key]));
        assert!((sent / sent_by_plan - 1.0).abs() < 0.05, "{f}");
        assert!(0.0 < received && received <= sent, "{f}");
        assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{f}");
    }
    let [a, b] = ["a", "b"].map(|name| flow(&json["flows"], name));
    assert!(number(&a["received"]) >= 0.99 * number(&a["sent"]), "{a}");
    // Half of the link: 4000 packets of 1500 B per second, and a queue that empties at the end.
    assert!((number(&b["received"]) / 4000.0 - 1.0).abs() < 0.05, "{b}");

    let ran = falaj(&["traffic", tenants, "--duration", "300ms"]);
    assert_eq!(ran.status, Some(0));
    for words in [
        "measured over namespaces: 300ms",
        "flow",
        "sent",
        "received",
        "lost",
        "rate",
        "delay mean",
        "p99",
    ] {
        assert!(ran.out.contains(words), "no `{words}` in\n{}", ran.out);
    }

    let short = TENANTS.replace("100mbit", "1gbit").replacen("500us", "50us", 1);
    let short = ["traffic", file("short.toml", &short), "--duration", "100ms", "--json"];
    let ran = falaj(&short);
    assert!(
        ran.err.contains(
            "flow `a` has a phase of 50us; below 60us a processor is kept busy to time it"
        ),
        "{}",
        ran.err
    );
    ran.json();
    assert_eq!(falaj(&[&short[..], &["-q"]].concat()).err, "");
}

/// Runs `compare` and asserts what must hold on any machine. Exit status 3 means that this machine
/// is too busy.
fn compared(name: &str, text: &str, flows: &[&str]) -> Value {
    let ran = falaj(&["compare", file(name, text), "--duration", "2s", "--json"]);
    let json = ran.json();
    match json["verdict"].as_str() {
        Some("kept") => assert_eq!(ran.status, Some(0)),
        Some("inconclusive") => assert_eq!(ran.status, Some(3)),
        _ => panic!("{ran:?}"),
    }
    assert_eq!((json["flows"].as_array().unwrap().len(), ran.err.as_str()), (flows.len(), ""));
    for name in flows {
        let f = flow(&json["flows"], name);
        for way in ["simulated", "measured"] {
            let delay = &f[way]["delay"];
            assert!(number(&delay["packets"]) > 0.0, "{way} {f}");
            assert!(number(&delay["max_ns"]) <= number(&f["bound_ns"]), "{way} {f}");
            let [p50, p99, max] = ["p50_ns", "p99_ns", "max_ns"].map(|key| number(&delay[key]));
            assert!(p50 <= p99 && p99 <= max, "{way} {f}");
            assert!(number(&f[way]["dropped"]) <= number(&f[way]["offered"]), "{way} {f}");
        }
        let measured = &f["measured"];
        // Each packet is delivered once, and each delivered packet arrives at a socket.
        assert_eq!(measured["release_error"]["packets"], measured["delay"]["packets"], "{f}");
        assert!(number(&measured["end_to_end"]["datagrams"]) > 0.0, "{f}");
        assert_eq!(f["broken"], false);
    }
    json
}

fn compare(_: &Users) {
    let json = punctually(
        || compared("compare.toml", TENANTS, &["a", "b"]),
        |json| {
            json["flows"].as_array().expect("flows").iter().map(|flow| &flow["measured"]).collect()
        },
    );
    assert_eq!(json["over"], "namespaces", "measured means that a kernel's interface was crossed");
    let [a, b] = ["a", "b"].map(|name| flow(&json["flows"], name));
    assert_eq!((&a["bound_ns"], &a["guaranteed_rate"]), (&5_590_080.into(), &37_888_000.into()));
    // Flow b floods, and gets at least its guaranteed rate, simulated and measured. Flow a loses no
    // packets, except where a busy machine turns evenly spaced packets into a burst.
    for (way, few) in [("simulated", 0.0), ("measured", 0.05)] {
        assert!(number(&b[way]["rate"]) > 37_888_000.0, "{b}");
        assert!(number(&b[way]["dropped"]) > 0.0, "{b}");
        assert!(number(&a[way]["dropped"]) <= few * number(&a[way]["offered"]), "{a}");
        assert!((number(&a[way]["rate"]) / 12e6 - 1.0).abs() <= few + 0.001, "{a}");
    }

    let ran = falaj(&["compare", "compare.toml", "--duration", "300ms"]);
    assert!(matches!(ran.status, Some(0 | 3)), "{ran:?}");
    for words in [
        "bound",
        "simulated",
        "measured",
        "a  delay max",
        ">= 37.9 Mbit/s",
        "release error p50",
        "end to end",
    ] {
        assert!(ran.out.contains(words), "no `{words}` in\n{}", ran.out);
    }
}

fn both_ways(_: &Users) {
    let text = TENANTS.replace("udp dport 5001", "ip6 and udp dport 5001");
    let text = text.replace("150mbit", "60mbit").replace("[run]", DOWN);
    let json = compared("both-ways.toml", &text, &["a up", "b up", "a down", "b down"]);
    assert_eq!(json["over"], "namespaces");
    for way in ["up", "down"] {
        let a = flow(&json["flows"], &format!("a {way}"));
        // Four senders and receivers run beside falaj: two processors are not always enough for
        // evenly spaced packets.
        assert!(number(&a["measured"]["rate"]) > 10e6, "{a}");
        let b = flow(&json["flows"], &format!("b {way}"));
        assert!(number(&b["measured"]["rate"]) > 37_888_000.0, "{b}");
    }
}

/// Scenario: packets to port 5001 pass two links in a chain, packets with DSCP EF are dropped, half
/// of the packets from port 5003 pass the second link, and all others pass the first link.
const RULED: &str = r#"
[link.first]
rate = "20mbit"
delay = "5ms"

[link.second]
rate = "unlimited"
delay = "10ms"

[[rule]]
name = "chain"
match = "udp dport 5001"
direction = "up"
to = ["first", "second"]

[[rule]]
name = "gone"
match = "dscp ef"
to = "drop"

[[rule]]
name = "some"
match = "udp sport 5003"
probability = "50%"
to = "second"

[[rule]]
name = "rest"
to = "first"

[traffic.chain]
headers = "udp dport 5001"
model = "cbr"
rate = "1mbit"
size = "500B"

[traffic.alone]
link = "first"
model = "cbr"
rate = "1mbit"
size = "500B"

[traffic.some]
headers = "udp sport 5003 dport 9"
direction = "down"
model = "cbr"
rate = "1mbit"
size = "500B"

[traffic.gone]
link = "second"
direction = "down"
model = "cbr"
rate = "1mbit"
size = "500B"

[run]
replications = 2
"#;

fn ruled(_: &Users) {
    const NO_NAMESPACES: &str = "echo 0 > /proc/sys/user/max_net_namespaces";
    // No rule sends all packets that it matches to the second link alone. The message says what to
    // change.
    let words = ["traffic", file("ruled.toml", RULED), "--duration", "500ms", "--json"];
    let ran = falaj(&words);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    let said = "traffic `gone` cannot be sent as real datagrams: by the rules, no UDP datagram from 10.77.0.2 ";
    assert!(
        ran.err.contains(said) && ran.err.contains("leave out `link` and `flow`"),
        "{}",
        ran.err
    );
    let text = RULED
        .replace("link = \"second\"\ndirection", "headers = \"udp dport 7 dscp ef\"\ndirection");
    let other =
        text.replace("headers = \"udp dport 5001\"", "headers = \"udp src 10.1.0.7 dport 5001\"");
    let ran = falaj(&["traffic", file("ruled.toml", &other), "--duration", "500ms"]);
    assert!(
        ran.status == Some(2) && ran.err.contains("an address that does not belong to its end"),
        "{ran:?}"
    );

    file("ruled.toml", &text.replace("to = \"drop\"", "to = \"first\""));
    for over in ["namespaces", "loopback"] {
        let mut command =
            if over == "loopback" { without(NO_NAMESPACES, &words) } else { program(&words) };
        let ran: Ran = command.output().unwrap().into();
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let json = ran.json();
        assert_eq!(json["over"], over);
        // Each source sends 125 packets. The packets of two sources pass the first link first, in
        // the up direction.
        let up = flow(&json["flows"], "first.all up");
        let sent = number(&up["sent"]);
        assert!((200.0..=250.0).contains(&sent) && number(&up["received"]) >= 0.9 * sent, "{json}");
        // Half of these packets pass the first link only, the other half both.
        let [p50, max] = ["p50_ns", "max_ns"].map(|key| number(&up[key]));
        assert!(p50 >= 5e6 && max >= 15e6, "{up}");
        let took = |name: &str| {
            let rules = json["rules"].as_array().unwrap();
            number(&rules.iter().find(|rule| rule["rule"] == name).unwrap()["packets"])
        };
        assert!(
            (100.0..=125.0).contains(&took("chain")) && (100.0..=125.0).contains(&took("gone")),
            "{json}"
        );
        assert!((30.0..=95.0).contains(&took("some")), "{json}");
        // The counts include packets that the kernels send on their own.
        for (name, sources) in [("first.all up", 250.0), ("second.all up", 125.0)] {
            let carried = number(&flow(&json["links"], name)["offered"]);
            assert!((0.8 * sources..=sources + 30.0).contains(&carried), "{name}: {json}");
        }
    }

    let ran = falaj(&["compare", "ruled.toml", "--duration", "500ms", "--json"]);
    assert!(matches!(ran.status, Some(0 | 3)), "{ran:?}");
    let json = ran.json();
    let names: Vec<_> =
        json["flows"].as_array().unwrap().iter().map(|f| f["flow"].as_str().unwrap()).collect();
    assert_eq!(names, ["first.all up", "first.all down", "second.all up", "second.all down"]);
    for (name, many) in [("first.all up", 250.0), ("second.all up", 125.0)] {
        let f = flow(&json["flows"], name);
        for way in ["simulated", "measured"] {
            let replications = if way == "simulated" { 2.0 } else { 1.0 };
            let offered = number(&f[way]["offered"]) / replications;
            // Packets that the kernels send on their own pass the links too.
            assert!((0.8 * many..=many + 30.0).contains(&offered), "{way} {f}");
            assert!(number(&f[way]["delay"]["packets"]) > 0.0, "{way} {f}");
        }
    }

    let ran = falaj(&["traffic", "ruled.toml", "--duration", "200ms"]);
    assert!(ran.out.contains("first.all up") && ran.out.contains("bytes (IP)"), "{}", ran.out);
    let (_, links) = ran.out.split_once(" in each link ").expect("a table of the links");
    assert!(links.contains("\n first.all up ") && links.contains("\n second.all up "), "{links}");
}

fn section_ii_b(_: &Users) {
    let measured = || {
        let loads = "idle,light,row4,flood";
        let words = [
            "reproduce",
            "fortuna",
            "--live",
            "--load",
            loads,
            "--phase",
            "300us",
            "--duration",
            "300ms",
            "--json",
        ];
        let ran = falaj(&words);
        assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""), "{ran:?}");
        ran.json()
    };
    let json = punctually(measured, |json| {
        let outcomes = json["live"]["outcomes"].as_array().expect("outcomes").iter();
        let tenants = outcomes.flat_map(|o| o["tenants"].as_array().expect("tenants"));
        let sent = tenants.filter(|t| number(&t["measured"]["packets"]) > 0.0);
        // Even a punctual source leaves out packets due at the very end: several are due within the
        // last 100 us.
        let late = ["sent_late_p99_ns", "release_error_p99_ns"];
        let few = |t: &Value| 1.0 + 0.01 * number(&t["measured"]["packets"]);
        sent.filter(|t| {
            number(&t["unsent"]) > few(t) || late.iter().any(|key| number(&t[key]) > 5e6)
        })
        .collect()
    });
    let outcomes = json["live"]["outcomes"].as_array().expect("outcomes");
    assert_eq!(outcomes.len(), 24, "four loads, three servers, paced by falaj and by the device");
    // The rows are: idle, three loads, missing packets, and a flooded device.
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), &json["summary"]["unexplained"]), (6, &0.into()), "{json}");
    for o in outcomes {
        let count = |key: &str| number(&o[key]);
        assert_eq!(o["over"], "namespaces");
        assert!(
            (250e6..5e9).contains(&count("elapsed_ns")) && count("cpu_ns") <= count("elapsed_ns"),
            "{o}"
        );
        assert!(count("spun_ns") <= count("elapsed_ns"), "{o}");
        if o["load"] == "idle" {
            assert_eq!(count("packets"), 0.0, "{o}");
            continue;
        }
        // Each sleep of the thread is reported, with the reason for its end. Their number depends
        // on the host: where waking up takes as long as the gap between packets, hybrid pacing
        // stays awake.
        let told = [
            "woken_by_timer",
            "woken_by_packet",
            "woken_by_room",
            "woken_by_caller",
            "slept_for_others",
        ];
        let told: f64 = told.iter().map(|key| count(key)).sum();
        let slept = count("voluntary_switches");
        assert!(slept <= told + 50.0 && count("cpu_ns") > 0.0, "{o}");
        // Under light load the link is idle between two packets, and asleep when one arrives. Under
        // the other loads, the link on a slow or busy host has no time to sleep.
        if o["load"] == "light" {
            assert!(slept > 0.0 && count("woken_by_packet") > 0.0, "{o}");
            assert!(count("woken_by_timer") > 0.0 || o["paced_by"] != "device", "{o}");
        }
        let tenants = o["tenants"].as_array().expect("tenants");
        let handed_over: f64 = tenants.iter().map(|t| number(&t["measured"]["packets"])).sum();
        assert_eq!(
            count("packets"),
            handed_over,
            "each packet that the link sent was handed over: {o}"
        );
        for t in tenants {
            // Every packet that the link transmitted was received: none was dropped after the link.
            assert_eq!(t["received"], t["measured"]["packets"], "{o}");
            let [simulated, measured] =
                ["simulated", "measured"].map(|way| number(&t[way]["rate"]));
            // On a busy host the sender may be late, and then the link has less to send.
            assert!(measured > 0.0 && measured < 1.05 * simulated, "{t}");
        }
    }
}

/// Figure 8: the process that writes to the disk runs in its own control group, if one can be
/// created; the group is removed at the end, however the run ends.
fn disk_beside(_: &Users) {
    let words = ["reproduce", "xen", "--figure", "8", "--quick", "--json"];
    let groups = || -> Vec<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("the kernel's");
        let groups = mounts
            .lines()
            .filter(|line| line.split(' ').nth(2).is_some_and(|kind| kind.starts_with("cgroup")));
        groups.flat_map(|line| below(Path::new(line.split(' ').nth(1).expect("a path")))).collect()
    };
    assert_eq!(groups(), Vec::<PathBuf>::new(), "left by others");
    let ran = falaj(&words);
    let json = ran.json();
    for figure in json["figures"].as_array().expect("figures") {
        let notes = figure["notes"].as_array().expect("notes").iter().filter_map(Value::as_str);
        let told: Vec<&str> =
            notes.filter(|note| note.contains("control group of its own")).collect();
        assert_eq!(told.len(), 1, "{figure}");
        assert!(
            told[0].contains("(version ") || told[0].contains(", as "),
            "which one, or why none: {}",
            told[0]
        );
    }
    assert_eq!(groups(), Vec::<PathBuf>::new());
    for name in ["INT", "KILL"] {
        let child = program(&words).stdout(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        let of = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent =
                stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
            parent == Some(child.id())
        };
        let writer = loop {
            if let Some(pid) = alive("disk-load").into_iter().find(of) {
                break pid;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "nobody writes");
            std::thread::sleep(Duration::from_millis(5));
        };
        std::thread::sleep(Duration::from_millis(300));
        signal(name, child.id());
        child.wait_with_output().unwrap();
        let ended = Instant::now();
        while alive("disk-load").contains(&writer) || !groups().is_empty() {
            assert!(ended.elapsed() < Duration::from_secs(20), "{name}: {writer}, {:?}", groups());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the control groups of disk writers below this one.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(below(&path));
            all.extend(
                entry.file_name().to_string_lossy().starts_with("falaj-disk-").then_some(path),
            );
        }
    }
    all
}

/// Sends video frames as packets of up to 17,000 B, whole and divided: each packet arrives at about
/// its simulated time.
fn thesis(_: &Users) {
    let ran =
        falaj(&["reproduce", "zhang", "--live", "--figure", "10", "--duration", "2s", "--json"]);
    let json = ran.json();
    let labels: Vec<&str> = json["figures"]
        .as_array()
        .expect("figures")
        .iter()
        .filter_map(|f| f["label"].as_str())
        .collect();
    assert_eq!(labels, ["Figure 5.10 live", "Figure 5.10 live divided"]);
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6, "{json}");
    for cell in rows {
        let ours = number(&cell["ours"]);
        let well = if cell["statement"] == "datagrams received, of those sent" {
            ours == 1.0
        } else {
            (0.7..2.0).contains(&ours)
        };
        assert!(well, "{cell}");
    }
}

fn busy_machine(_: &Users) {
    let json =
        falaj(&["reproduce", "rizzo", "--live", "--quick", "--figure", "8", "--json"]).json();
    assert_eq!(json["summary"]["comparisons"], 3, "{json}");
    let curves = json["figures"][0]["curves"].as_array().expect("curves");
    let of = |n: usize, load: usize| number(&curves[n]["points"][load]["y"]);
    for load in 0..3 {
        assert!(
            0.0 <= of(0, load) && of(0, load) <= of(1, load) && of(1, load) <= of(2, load),
            "{json}"
        );
    }
}

const DOWN: &str = r#"
[traffic.c]
flow = "a"
direction = "down"
model = "cbr"
rate = "12mbit"
size = "500B"

[traffic.d]
flow = "b"
direction = "down"
model = "poisson"
rate = "60mbit"
size = "1500B"

[run]
"#;

fn tcp(users: &Users) {
    for address in ["10.77.0.2", "fd77::2"] {
        let serve = format!("{} --probe serve {address}", me());
        let flags = ["--rate", "200mbit", "--delay", "2ms", "--stats", "--peer", &serve];
        let ran = users.ok(&[&flags[..], &["--", &me(), "--probe", "fetch", address]].concat());
        assert_eq!(ran.out, "whole\n", "{ran:?}");
        assert_eq!(
            ran.err.contains("no TAP here, so veth and packet sockets are used"),
            users.tapless,
            "{}",
            ran.err
        );
    }
    // The report includes the time for which packets of a unit are held for one another; it is
    // absent if each packet leaves singly.
    for (slack, held) in [("200us", true), ("0s", false)] {
        let serve = format!("{} --probe serve 10.77.0.2", me());
        let flags = ["--rate", "500mbit", "--slack", slack, "--stats", "--peer", &serve];
        let ran = users.ok(&[&flags[..], &["--", &me(), "--probe", "fetch", "10.77.0.2"]].concat());
        assert_eq!(
            ran.err.contains("held for other packets of their unit"),
            held,
            "{slack}: {}",
            ran.err
        );
    }
}

fn guest(users: &Users) {
    for how in ["1", "62,200us", "62,idle", "adaptive,delay=1ms", "adaptive,delay=2ms,p99"] {
        let echo = format!("{} --probe echo 10.77.0.2", me());
        let flags = ["--aggregate", how, "--delay", "5ms", "--peer", &echo];
        let ran =
            users.ok(&[&flags[..], &["--", &me(), "--probe", "ask", "10.77.0.2", "5"]].concat());
        // Batches may add delay, but never remove it.
        let times: Vec<f64> = ran.json().as_array().unwrap().iter().map(number).collect();
        assert!(times.len() == 5 && times.iter().all(|&ms| ms >= 10.0), "{how}: {times:?}");
        let serve = format!("{} --probe serve 10.77.0.2", me());
        let flags = ["--aggregate", how, "--rate", "200mbit", "--peer", &serve];
        let ran = users.ok(&[&flags[..], &["--", &me(), "--probe", "fetch", "10.77.0.2"]].concat());
        assert_eq!(ran.out, "whole\n", "{how}: {ran:?}");
    }
    // Without a TAP device, the far end's process has no interface.
    let ran: Ran =
        without(NO_TAP, &["run", "--aggregate", "62,200us", "--", "true"]).output().unwrap().into();
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("--aggregate needs TAP interfaces"), "{}", ran.err);
}

fn inside(users: &Users) {
    let (echo, program) = (format!("{} --probe echo 10.77.0.2", me()), env!("CARGO_BIN_EXE_falaj"));
    let ask = format!("{} --probe ask 10.77.0.2 15", me());
    let script = format!(
        "{ask} && {program} -q set link delay=20ms && {ask} && {program} -q show --json && {program} set link rate=5 || {program} show"
    );
    let flags = ["--delay", "1ms", "--rate", "20mbit", "--peer", &echo];
    let ran = users.ok(&[&flags[..], &["--", "sh", "-c", &script]].concat());
    let (times, report) = ran.out.split_once('{').expect("JSON behind the times");
    let mut medians = times
        .lines()
        .map(|line| median(&mut serde_json::from_str::<Vec<f64>>(line).expect("numbers")));
    let (before, after) = (medians.next().unwrap(), medians.next().unwrap());
    assert!(before >= 2.0 && after >= 40.0 && after > before + 20.0, "{before} {after}");
    let (json, table) = report.split_once("\n}\n").expect("a table behind it");
    let report: Value = serde_json::from_str(&format!("{{{json}\n}}")).expect("JSON");
    for (n, way) in ["up", "down"].into_iter().enumerate() {
        let direction = &report["links"][0]["directions"][n];
        assert_eq!(
            (&direction["way"], &direction["asked"]["delay_ns"]),
            (&way.into(), &20_000_000.into())
        );
        let flow = &direction["flows"][0];
        assert!(
            number(&flow["sent"]) >= 30.0 && number(&flow["sojourn"]["p99_ns"]) > 0.0,
            "{flow}"
        );
        assert!(number(&flow["idle_ns"]) > 0.0 && number(&flow["max_backlog"]) >= 1.0, "{flow}");
        assert_eq!(flow["offered"], direction["total"]["offered"]);
    }
    assert!(
        ran.err
            .contains("error: `rate`: `5` is a number without a unit\n  write, in quotes, `5mbit`"),
        "{}",
        ran.err
    );
    assert!(
        table.contains("link up: 20.0 Mbit/s, 20.0 ms, fifo; now") && table.contains("up all"),
        "{table}"
    );
}

/// A connection to a control socket.
struct Control(BufReader<UnixStream>);

impl Control {
    /// Connects as soon as the socket exists.
    fn await_at(path: &Path) -> Control {
        for _ in 0..500 {
            if let Ok(stream) = UnixStream::connect(path) {
                stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
                let mut control = Control(BufReader::new(stream));
                assert_eq!(control.line()["falaj"], 1);
                return control;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no socket at {}", path.display());
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a request; returns `None` if the link has ended.
    fn try_ask(&mut self, request: &Value) -> Option<Value> {
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).ok()?;
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        (answer["error"]["what"] != "the link is gone").then_some(answer)
    }

    fn ask(&mut self, request: &Value) -> Value {
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).expect("a link that listens");
        self.line()
    }
}

/// Returns the path of a test's control socket.
fn control_at(name: &str, users: &Users) -> PathBuf {
    std::env::temp_dir().join(format!(
        "falaj-test-{}-{name}-{}",
        std::process::id(),
        users.flags.len()
    ))
}

/// Runs the examples of the help and of the page on changes, one after the other, on a link made by
/// flags.
fn examples(users: &Users) {
    let help = falaj(&["set", "--help"]).out;
    let of_help = help.lines().filter_map(|line| line.strip_prefix("  falaj ")).map(str::to_owned);
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/how-to/change.md"
    ))
    .expect("a page");
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| "))
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let of_page: Vec<String> =
        rows.filter_map(|code| code.strip_prefix("falaj ")).map(str::to_owned).collect();
    for (of, commands) in [("help", of_help.collect::<Vec<_>>()), ("page", of_page)] {
        assert!(commands.len() >= 10, "{commands:?}");
        let program = env!("CARGO_BIN_EXE_falaj");
        let lines = commands
            .iter()
            .map(|command| format!("echo '>>' >&2; {program} {command} || exit 7\n"));
        let script =
            format!("mkdir -p examples-{of} && cd examples-{of}\n{}", lines.collect::<String>());
        let ran = users.ok(&["--rate", "20mbit", "--delay", "5ms", "--", "sh", "-c", &script]);
        let said: Vec<&str> = ran.err.split(">>\n").skip(1).collect();
        assert_eq!(said.len(), commands.len(), "{ran:?}");
        for (command, said) in commands.iter().zip(said) {
            let wrong = ["not used", "no packet reaches", "are dropped"]
                .iter()
                .any(|words| said.contains(words));
            assert!(!wrong, "falaj {command}: {said}");
            let idle = command.contains("--file") || command.contains("--check");
            assert!(idle || !said.contains("nothing was changed"), "falaj {command}: {said}");
        }
    }
}

/// Sends [`storm::frames`] mutated frames; every good frame among them comes back.
fn mutated(users: &Users) {
    let back = format!("{} --probe frames-back", me());
    users.ok(&["--peer", &back, "--", &me(), "--probe", "storm"]);
}

/// For a running link, `show` reports the flows that a mask makes, the flows that share a queue,
/// and the busiest flows. The first flow that has to share a queue causes a message.
fn masks_shown(users: &Users) {
    let text = "[link.a]\nrate = \"10mbit\"\nscheduler = { kind = \"drr\" }\n[link.a.flow.users]\nmatch = \"udp dst 10.77.0.2\"\n\
        mask = \"dport\"\nmax-flows = 3\n[link.a.flow.rest]\nmatch = \"any\"\n";
    let send =
        format!("for port in 1 2 3 4 5 6 7 8; do {} --probe send 10.77.0.2 $port; done", me());
    let program = env!("CARGO_BIN_EXE_falaj");
    let script = format!("{send}; sleep 0.3; {program} -q show users --json; {program} show users");
    let ran = users.ok(&[file("masks.toml", text), "--", "sh", "-c", &script]);
    let (json, table) = ran.out.split_once("\n}\n").expect("JSON, and a table behind it");
    let report: Value = serde_json::from_str(&format!("{json}\n}}")).expect("JSON");
    let up = &report["links"][0]["directions"][0];
    let made = &up["masks"][0];
    assert_eq!(
        (&made["flow"], &made["mask"], &made["most"]),
        (&"up users".into(), &"dport".into(), &3.into()),
        "{up}"
    );
    assert_eq!(
        (&made["active"], &made["made"], &made["gone"]),
        (&3.into(), &3.into(), &0.into()),
        "{up}"
    );
    assert_eq!((&made["beyond_packets"], &made["shared"]), (&5.into(), &1.into()), "{up}");
    assert_eq!(
        (&made["total"]["packets"], &made["busiest"][0]["packets"]),
        (&8.into(), &1.into()),
        "{up}"
    );
    assert_eq!(made["busiest"].as_array().map(Vec::len), Some(3), "{up}");
    assert!(table.contains("up users, mask dport: 3 active of 3, 3 made, 0 gone"), "{table}");
    assert!(table.contains("5 packets had no queue or link of their own"), "{table}");
    assert!(table.contains("dport 2"), "{table}");
    assert_eq!(
        ran.err.matches("makes at most 3 queues. Further ids share additional queues (1)").count(),
        1,
        "{}",
        ran.err
    );
}

/// Changes values of a link as fast as possible, while it is flooded and hostile clients use its
/// socket: each packet is accounted for in every sample.
fn changes(users: &Users) {
    const CHANGES: [&[&str]; 14] = [
        &["link.rate=5mbit"],
        &["link.rate=200mbit", "link.delay=3ms"],
        &["link.up.flow.x.match=udp", "link.up.flow.x.queue=30p"],
        &["link.loss=2%", "link.jitter=1ms"],
        &["link.scheduler={ kind = \"drr\" }"],
        &["link.up.flow.all.queue=5p"],
        &["link.duplicate=1%", "link.corrupt=1%", "link.reorder=5%"],
        &["link.scheduler={ kind = \"wf2q+\" }", "link.up.rate=20mbit"],
        &["link.up.flow.x="],
        &["link.up.flow.all.queue=200p", "link.burst=20kB"],
        &["link.burst=", "link.up.rate=", "link.loss=", "link.layer=ip"],
        &["link.up.mtu=1400B", "link.overhead=-4B"],
        &["link.scheduler=", "link.jitter=", "link.duplicate=", "link.corrupt=", "link.reorder="],
        &["link.up.mtu=", "link.overhead=", "link.layer=", "link.delay=0ms"],
    ];
    let path = control_at("changes", users);
    let capture = format!("changes-{}.pcapng", users.flags.len());
    let meter = format!("{} --probe meter 10.77.0.2", me());
    let at = path.to_str().expect("UTF-8");
    let flags = ["--rate", "10mbit", "--control", at, "--capture", &capture, "--peer", &meter];
    let mut command =
        users.command(&[&flags[..], &["--", &me(), "--probe", "flood", "10.77.0.2"]].concat());
    let mut run = command.spawn().expect("the program starts");
    let mut control = Control::await_at(&path);
    // A client that has received an answer is not displaced by those that only connect.
    assert!(control.ask(&serde_json::json!({ "do": "show" }))["error"].is_null());
    let mut hostile: Vec<UnixStream> =
        (0..100).filter_map(|_| UnixStream::connect(&path).ok()).collect();
    let (mut made, mut looks) = (0, 0);
    for (n, change) in CHANGES.iter().cycle().take(1_000).enumerate() {
        if let Some(hostile) = hostile.get_mut(n % 100) {
            let _ = hostile.set_nonblocking(true);
            let _ = hostile.write_all(b"{\"do\":\"show\"}\n{\"do\":\xff");
        }
        if run.try_wait().expect("a child").is_some() {
            break;
        }
        let request =
            serde_json::json!({ "do": "set", "set": change, "drop": n % 3 == 0, "id": n });
        if control.0.get_mut().write_all(format!("{request}\n").as_bytes()).is_err() {
            break;
        }
        let mut line = String::new();
        if control.0.read_line(&mut line).unwrap_or(0) == 0 {
            break;
        }
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(answer["id"], n, "{answer}");
        if answer["error"]["what"] == "the link is gone" {
            break;
        }
        // Queued packets that would be too large prevent the change, which is then refused as a
        // whole.
        let too_large = answer["error"]["what"]
            .as_str()
            .is_some_and(|what| what.contains("would be too large"));
        assert!(too_large || answer["error"].is_null(), "{change:?}: {answer}");
        made += u32::from(!answer["ok"]["at_ns"].is_null());
        if n % 5 == 0 {
            if control.0.get_mut().write_all(b"{\"do\":\"show\"}\n").is_err() {
                break;
            }
            line.clear();
            if control.0.read_line(&mut line).unwrap_or(0) == 0 {
                break;
            }
            let report: Value = serde_json::from_str(&line).expect("JSON");
            if report["error"]["what"] == "the link is gone" {
                break;
            }
            for direction in report["ok"]["links"][0]["directions"].as_array().expect("directions")
            {
                let (total, count) =
                    (&direction["total"], |value: &Value| value.as_u64().expect("a count"));
                let dropped: u64 =
                    total["dropped"].as_object().expect("reasons").values().map(count).sum();
                let known = count(&total["sent"]) + dropped + count(&total["backlog"]);
                assert_eq!(count(&total["offered"]), known, "{total}");
            }
            looks += 1;
        }
    }
    drop(control);
    let ran: Ran = run.wait_with_output().expect("it ends").into();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(made >= 20 && looks >= 4, "{made} {looks}");
    assert!(!path.exists(), "the socket is still there");
    assert!(replays(&capture).1 >= f64::from(made));
}

/// Links and rules are added and removed while packets pass: in every sample, the counts of links
/// and rules agree, and each packet is accounted for.
fn links_change(users: &Users) {
    const CHANGES: [&[&str]; 8] = [
        &[
            "link.other.rate=4mbit",
            "link.other.delay=2ms",
            "rule.some.match=udp",
            "rule.some.to=other",
        ],
        &["rule.some.probability=40%", "link.third.rate=50mbit", "rule.rest.to=third"],
        &["rule.some=", "link.other="],
        &["link.base="],
        &["link.base.rate=10mbit", "rule.rest.to=base", "link.third="],
        &["rule.out.match=icmp6", "rule.out.to=pass"],
        &["rule.out=", "link.base.delay=1ms", "link.base.scheduler={ kind = \"drr\" }"],
        &["link.base.delay=", "link.base.scheduler="],
    ];
    let text = "[link.base]\nrate = \"10mbit\"\n[[rule]]\nname = \"rest\"\nto = \"base\"\n";
    let path = control_at("links", users);
    let at = path.to_str().expect("UTF-8");
    let meter = format!("{} --probe meter 10.77.0.2", me());
    let capture = format!("links-{}.pcapng", users.flags.len());
    let flags = [
        file("links.toml", text),
        "--control",
        at,
        "--capture",
        &capture,
        "--peer",
        &meter,
        "--json",
        "-",
    ];
    let mut command =
        users.command(&[&flags[..], &["--", &me(), "--probe", "flood", "10.77.0.2"]].concat());
    let mut run = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut control = Control::await_at(&path);
    let (mut made, mut looks, mut gone) = (0, 0, 0);
    for (n, change) in CHANGES.iter().cycle().take(400).enumerate() {
        if run.try_wait().expect("a child").is_some() {
            break;
        }
        let Some(answer) =
            control.try_ask(&serde_json::json!({ "do": "set", "set": change, "drop": n % 3 == 0 }))
        else {
            break;
        };
        assert!(answer["error"].is_null(), "{change:?}: {answer}");
        made += u32::from(!answer["ok"]["at_ns"].is_null());
        let Some(report) = control.try_ask(&serde_json::json!({ "do": "show" })) else { break };
        let report = &report["ok"];
        let count = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no count: {report}"));
        let known = |flow: &Value| {
            let dropped: u64 =
                flow["dropped"].as_object().expect("reasons").values().map(count).sum();
            assert_eq!(
                count(&flow["offered"]),
                count(&flow["sent"]) + dropped + count(&flow["backlog"]),
                "{flow}"
            );
            count(&flow["offered"])
        };
        let list = |value: &Value| value.as_array().expect("a list").clone();
        let directions =
            list(&report["links"]).into_iter().flat_map(|link| list(&link["directions"]));
        let seen = directions.map(|direction| known(&direction["total"])).sum::<u64>()
            + known(&report["gone"]);
        let of_rules =
            |rule: &Value| if rule["rule"] == "out" { 0 } else { count(&rule["packets"]) };
        let taken: u64 = list(&report["rules"]).iter().map(of_rules).sum();
        // Packets that passed no link matched a removed rule, or a rule that is not counted here.
        let passed = taken + count(&report["gone"]["taken"]);
        assert!(passed >= seen && passed <= seen + 20, "{passed} {seen}: {report}");
        gone = count(&report["gone"]["sent"]);
        looks += 1;
    }
    drop(control);
    let ran: Ran = run.wait_with_output().expect("it ends").into();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(made >= 16 && looks >= 16 && gone > 100, "{made} {looks} {gone}");
    assert!(ran.out.contains("\"rule\": \"rest\""), "{}", ran.out);
    assert!(replays(&capture).1 >= f64::from(made));
}

/// Disciplines from libraries take over and are replaced while the link is flooded. Each packet is
/// accounted for in every sample. Contract violations by a library are reported at the end,
/// although the library has been replaced by then.
fn plug_ins(users: &Users) {
    drr("libgood-live.so");
    naughty("libbad-live.so", "UNKNOWN_FLOW");
    let of = |name: &str| {
        let library = directory().join(name);
        format!("link.scheduler={{ kind = \"plugin\", library = \"{}\" }}", library.display())
    };
    let (good, bad) = (of("libgood-live.so"), of("libbad-live.so"));
    let changes: [&[&str]; 8] = [
        &[&good],
        &["link.up.flow.x.match=udp", "link.up.flow.x.queue=30p"],
        &[&bad, "link.rate=20mbit"],
        &["link.scheduler={ kind = \"fq_codel\" }"],
        &[&good, "link.rate=10mbit"],
        &["link.up.flow.x="],
        &[&bad],
        &["link.scheduler={ kind = \"drr\" }"],
    ];
    let path = control_at("plug-ins", users);
    let meter = format!("{} --probe meter 10.77.0.2", me());
    let flags = ["--rate", "10mbit", "--control", path.to_str().expect("UTF-8"), "--peer", &meter];
    let mut command =
        users.command(&[&flags[..], &["--", &me(), "--probe", "flood", "10.77.0.2"]].concat());
    let mut run = command.spawn().expect("the program starts");
    let mut control = Control::await_at(&path);
    let (mut made, mut looks, mut most) = (0, 0, 0);
    for (n, change) in changes.iter().cycle().take(600).enumerate() {
        if run.try_wait().expect("a child").is_some() {
            break;
        }
        let request = serde_json::json!({ "do": "set", "set": change, "drop": n % 3 == 0 });
        let Some(answer) = control.try_ask(&request) else { break };
        assert!(answer["error"].is_null(), "{change:?}: {answer}");
        made += u32::from(!answer["ok"]["at_ns"].is_null());
        let Some(report) = control.try_ask(&serde_json::json!({ "do": "show" })) else { break };
        for direction in report["ok"]["links"][0]["directions"].as_array().expect("directions") {
            let (total, count) =
                (&direction["total"], |value: &Value| value.as_u64().expect("a count"));
            let dropped: u64 =
                total["dropped"].as_object().expect("reasons").values().map(count).sum();
            let known = count(&total["sent"]) + dropped + count(&total["backlog"]);
            assert_eq!(count(&total["offered"]), known, "{total}");
            most = most.max(count(&total["sent"]));
        }
        looks += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(control);
    let ran: Ran = run.wait_with_output().expect("it ends").into();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(made >= 16 && looks >= 16 && most > 100, "{made} {looks} {most}");
    let told = format!(
        "up: the plug-in `{}` broke its contract at ",
        directory().join("libbad-live.so").display()
    );
    assert!(ran.err.contains(&told) && !ran.err.contains("libgood-live.so` broke"), "{}", ran.err);
}

/// Scheduled changes of a link that carries packets are in its capture, which is replayed. In
/// virtual time each change is made at its instant.
fn scheduled_changes(users: &Users) {
    let text = "[link.a]\nrate = \"8mbit\"\n[run]\nduration = \"1s\"\nreplications = 1\n\
                [traffic.t]\nmodel = \"cbr\"\nrate = \"6mbit\"\nsize = \"1000B\"\n\
                [[change]]\nat = \"100.5ms\"\nevery = \"100ms\"\nset = { \"a.rate\" = \"4mbit\" }\n\
                [[change]]\nat = \"150ms\"\nevery = \"100ms\"\nset = { \"a.rate\" = \"9mbit\", \"a.delay\" = \"3ms\" }\n";
    let file = file("scheduled.toml", text);
    let changes = |capture: &str| {
        let bytes = std::fs::read(directory().join(capture)).expect("a capture");
        falaj_traffic::capture::read(&bytes[..]).expect("a capture").changes
    };
    // In virtual time each reading of the clock takes 256 ns, and a change, from the wake-up of its
    // thread to the link, reads it about 30 times.
    let late = if falaj_guest::is_inside() { 40 * 256 } else { 1_000_000_000 };
    let on_time = |at: u64, due: u64| assert!(at >= due && at - due <= late, "{at} {due}");

    let ran = falaj(&["traffic", &file, "--capture", "scheduled-traffic.pcapng", "--json"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let made = changes("scheduled-traffic.pcapng");
    assert!(made.len() >= 17, "{}", made.len());
    for (n, change) in made.iter().enumerate() {
        let due = [100_500_000, 150_000_000][n % 2] + 100_000_000 * (n as u64 / 2);
        on_time(change.at.0, falaj_experiment::measure::LEAD.0 + due);
        assert_eq!(change.wanted.what, ["a.rate=4mbit", "a.rate=9mbit a.delay=3ms"][n % 2]);
    }
    let (packets, replayed) = replays("scheduled-traffic.pcapng");
    assert!(packets >= 750.0, "{packets}");
    assert_eq!(replayed, made.len() as f64);

    let meter = format!("{} --probe meter 10.77.0.2", me());
    let words = [&file, "--capture", "scheduled-run.pcapng", "--peer", &meter, "--"];
    let ran = users.run(&[&words[..], &[&me(), "--probe", "flood", "10.77.0.2"]].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let made = changes("scheduled-run.pcapng");
    assert!(made.len() >= 2, "{}", made.len());
    for (n, change) in made.iter().enumerate().skip(1) {
        // The first change was late too, so the others are measured from it.
        let due = made[0].at.0 + [0, 49_500_000][n % 2] + 100_000_000 * (n as u64 / 2);
        assert!(change.at.0.abs_diff(due) <= late, "{} {due}", change.at.0);
    }
    assert_eq!(replays("scheduled-run.pcapng").1, made.len() as f64);
}

/// Asserts that a capture replays with the same decisions; returns its numbers of packets and
/// changes.
fn replays(name: &str) -> (f64, f64) {
    let ran = falaj(&["sim", "--replay", name, "--json"]);
    let json = ran.json();
    assert_eq!(
        (&json["same_decisions"], &json["first_difference"]),
        (&Value::Bool(true), &Value::Null),
        "{ran:?}"
    );
    assert_eq!(ran.status, Some(0), "{ran:?}");
    (number(&json["packets"]), number(&json["changes"]))
}

/// Packets are in the capture file before the link ends, so that the file can be read meanwhile.
fn growing_capture(_: &Users) {
    let path = directory().join("growing.pcapng");
    let _ = std::fs::remove_file(&path);
    let words = ["run", "--internet", "none", "--capture", "growing.pcapng", "--"];
    // IPv6 packets of the kernel itself pass the link at once.
    let mut child = program(&[&words[..], &["sleep", "60"]].concat()).spawn().unwrap();
    let began = Instant::now();
    let captured = || {
        let bytes = std::fs::read(&path).unwrap_or_default();
        falaj_traffic::capture::read(&bytes[..]).map_or(0, |capture| capture.packets.len())
    };
    while captured() == 0 {
        assert!(child.try_wait().unwrap().is_none(), "the command still runs");
        assert!(began.elapsed() < Duration::from_secs(30), "nothing is in the capture");
        std::thread::sleep(Duration::from_millis(50));
    }
    signal("TERM", child.id());
    child.wait().unwrap();
}

fn piped_capture(_: &Users) {
    let _ = std::fs::remove_file(directory().join("-"));
    let words = ["run", "--internet", "none", "--capture", "-", "--", "echo", "said"];
    let output = program(&words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(falaj_traffic::capture::read(&output.stdout[..]).is_ok(), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "said\n");
    assert!(!directory().join("-").exists());
    // A terminal would show raw bytes.
    let pty = nix::pty::openpty(None, None).unwrap();
    let output = program(&words).stdout(Stdio::from(pty.slave)).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2)
            && said.contains("--capture -: standard output is a terminal"),
        "{said}"
    );
}

/// Rate, weight, discipline, flows, the first rules and another link change under load: the capture
/// replays with the same decisions, but not with a different change.
fn captured_changes(users: &Users) {
    const CHANGES: [&[&str]; 9] = [
        &["link.rate=3mbit"],
        &["link.scheduler={ kind = \"wf2q+\" }", "link.flow.x.match=udp", "link.flow.x.weight=3"],
        &["x.weight=1", "link.delay=2ms", "link.layer=ip"],
        &["link.scheduler={ kind = \"drr\" }", "x.weight=", "x.queue=20p", "link.loss=3%"],
        &["link.flow.x=", "link.jitter=1ms", "link.rate=8mbit"],
        &[
            "link.slow.rate=2mbit",
            "rule.some.match=udp",
            "rule.some.probability=40%",
            "rule.some.to=slow",
        ],
        &["slow.rate=5mbit", "rule.some.probability=70%"],
        &["rule.some=", "link.slow="],
        &[
            "link.jitter=",
            "link.loss=",
            "link.new.rate=4mbit",
            "rule.now.match=udp",
            "rule.now.to=new",
        ],
    ];
    let path = control_at("captured", users);
    let name = format!("capture-changes-{}.pcapng", users.flags.len());
    let meter = format!("{} --probe meter 10.77.0.2", me());
    let flags = [
        "--rate",
        "10mbit",
        "--control",
        path.to_str().expect("UTF-8"),
        "--capture",
        &name,
        "--peer",
        &meter,
    ];
    let mut command =
        users.command(&[&flags[..], &["--", &me(), "--probe", "flood", "10.77.0.2"]].concat());
    let run = command.spawn().expect("the program starts");
    let mut control = Control::await_at(&path);
    let mut made = 0;
    for (n, change) in CHANGES.iter().cycle().take(90).enumerate() {
        // With `layer=ip`, lengths are counted differently, and queued packets may be too large.
        let drop = n % 4 == 3 || change.contains(&"link.layer=ip");
        let Some(answer) =
            control.try_ask(&serde_json::json!({ "do": "set", "set": change, "drop": drop }))
        else {
            break;
        };
        assert!(answer["error"].is_null(), "{change:?}: {answer}");
        made += u32::from(!answer["ok"]["at_ns"].is_null());
        std::thread::sleep(Duration::from_millis(15));
    }
    drop(control);
    let ran: Ran = run.wait_with_output().expect("it ends").into();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let (packets, changes) = replays(&name);
    assert!(
        packets > 1000.0 && changes >= 9.0 && changes == f64::from(made),
        "{packets} {changes} {made}"
    );
    let whole = falaj(&["sim", "--replay", &name]);
    assert!(whole.out.contains(&format!(" packets, {made} changes\n")), "{}", whole.out);

    // A different rate after a change is detected.
    let mut bytes = std::fs::read(directory().join(&name)).expect("it is there");
    let rate = b"rate = \"3mbit\"";
    let changed: Vec<usize> =
        (0..bytes.len()).filter(|&at| bytes[at..].starts_with(rate)).collect();
    changed.iter().for_each(|at| bytes[at + 8] = b'4');
    let altered = format!("altered-{name}");
    std::fs::write(directory().join(&altered), &bytes).expect("written");
    let ran = falaj(&["sim", "--replay", &altered]);
    assert!(ran.status == Some(1) && ran.out.contains("first difference: number="), "{ran:?}");
    // A missing change is detected too, because changes are numbered.
    let number = b"FALAJ_CHANGE=0\n";
    let at = bytes.windows(number.len()).position(|w| w == number).expect("the first one");
    bytes[at + number.len() - 2] = b'x';
    std::fs::write(directory().join(&altered), &bytes).expect("written");
    let ran = falaj(&["sim", "--replay", &altered]);
    assert!(
        ran.out
            .contains("packets or changes are missing in the capture: decisions were not compared"),
        "{ran:?}"
    );
    // Through another link, the recorded changes do not apply.
    let ran = falaj(&[
        "sim",
        file("capture-plain.toml", "[link.a]\nrate = \"1mbit\"\n"),
        "--replay",
        &name,
    ]);
    assert!(
        ran.status == Some(0)
            && ran.err.contains(&format!("{made} changes in {name} are left out")),
        "{ran:?}"
    );
}

/// Random rules, chains of links and packets that match no rule: the capture replays with the same
/// decisions.
fn captured_rules(users: &Users) {
    let text = "[link.slow]\nrate = \"4mbit\"\ndelay = \"3ms\"\ncorrupt = \"2%\"\n[link.fast]\nrate = \"50mbit\"\nlayer = \"ip\"\n\
        [[rule]]\nmatch = \"udp\"\ndirection = \"up\"\nprobability = \"5%\"\nto = \"drop\"\n\
        [[rule]]\nname = \"some\"\nmatch = \"udp\"\nprobability = \"50%\"\nto = [\"fast\", \"slow\"]\n\
        [[rule]]\nmatch = \"udp\"\nto = \"fast\"\nthen = \"on\"\n\
        [[rule]]\nmatch = \"udp\"\nprobability = \"10%\"\nto = \"drop\"\n";
    let (scenario, name) = (file("capture-rules.toml", text), "capture-rules.pcapng");
    let meter = format!("{} --probe meter 10.77.0.2", me());
    users.ok(&[
        scenario,
        "--capture",
        name,
        "--peer",
        &meter,
        "--",
        &me(),
        "--probe",
        "flood",
        "10.77.0.2",
    ]);
    let ran = falaj(&["sim", "--replay", name, "--json"]);
    let json = ran.json();
    assert_eq!(
        (&json["same_decisions"], &json["first_difference"]),
        (&Value::Bool(true), &Value::Null),
        "{ran:?}"
    );
    let rules: Vec<f64> =
        json["rules"].as_array().expect("a list").iter().map(|r| number(&r["packets"])).collect();
    assert!(
        number(&json["packets"]) > 1000.0 && rules.len() == 4 && rules.iter().all(|n| *n > 10.0),
        "{json}"
    );
}

/// A whole scenario is applied at once, or refused as a whole.
fn whole_file(users: &Users) {
    let path = control_at("whole", users);
    let at = path.to_str().expect("UTF-8");
    let mut command = users.command(&["--rate", "10mbit", "--control", at, "--", "cat"]);
    let mut run = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    drop(Control::await_at(&path));
    let two = "[link.link]\nrate = \"9mbit\"\n[link.slow]\nrate = \"1mbit\"\n\
        [[rule]]\nname = \"web\"\nmatch = \"tcp\"\nto = \"slow\"\n[[rule]]\nto = \"link\"\n";
    let set = |args: &[&str]| falaj(&[&["set", "--control", at], args].concat());
    let ran = set(&["--file", file("whole.toml", two), "--json"]);
    assert_eq!(
        ran.json()["changed"],
        serde_json::json!(["link up", "link down", "slow up", "slow down", "rules"])
    );
    let ran = falaj(&["show", "--control", at, "--json"]);
    assert_eq!(
        (&ran.json()["links"][1]["link"], &ran.json()["rules"][0]["rule"]),
        (&"slow".into(), &"web".into())
    );
    // Removing a link requires a change of the rules that lead to it.
    let ran = set(&["link.slow="]);
    assert!(
        ran.status == Some(2) && ran.err.contains("rule `web`: there is no link `slow`"),
        "{}",
        ran.err
    );
    let wrong = file("wrong.toml", &two.replace("\"9mbit\"", "\"9\""));
    let ran = set(&["--file", wrong]);
    assert!(ran.status == Some(2) && ran.err.contains("wrong.toml:2:8"), "{}", ran.err);
    let ran = falaj(&["show", "--control", at, "--toml"]);
    assert_eq!(ran.out, two);
    assert_eq!(set(&["rule.web=", "link.slow="]).status, Some(0));
    let ran = set(&["link.upp", "rate=1mbit"]);
    assert!(ran.status == Some(0) && ran.err.contains("no rule leads to link `upp`"), "{ran:?}");
    let ran = set(&["link"]);
    assert!(ran.err.contains("`link`: there is nothing to set"), "{}", ran.err);
    drop(run.stdin.take());
    assert!(run.wait().expect("it ends").success());
}

/// One command gives an application's traffic, in both directions, a link of its own, and another
/// command removes the link.
fn netconfig(users: &Users) {
    let path = control_at("netconfig", users);
    let at = path.to_str().expect("UTF-8");
    let mut command = users.command(&["--rate", "10mbit", "--control", at, "--", "cat"]);
    let mut run = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    drop(Control::await_at(&path));
    let ask = |words: &[&str]| falaj(&[&["netconfig", "--control", at], words].concat());
    let words = ["config", "client", "80", "IN", "delay", "100ms", "OUT", "bw", "1Mbit/s"];
    let ran = ask(&words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let shown = falaj(&["show", "--control", at, "--json"]).json();
    let links: Vec<&str> = shown["links"]
        .as_array()
        .expect("links")
        .iter()
        .filter_map(|l| l["link"].as_str())
        .collect();
    assert_eq!(links, ["link", "client-80"]);
    assert_eq!(shown["rules"][0]["rule"], "client-80-out");
    let ran = ask(&["config", "client", "80", "IN", "bw", "1Mbit/"]);
    assert!(ran.status == Some(2) && ran.err.contains("is not a bandwidth"), "{}", ran.err);
    assert_eq!(ask(&["delete", "client", "80"]).status, Some(0));
    let shown = falaj(&["show", "--control", at, "--json"]).json();
    assert_eq!(shown["links"].as_array().map(Vec::len), Some(1));
    drop(run.stdin.take());
    assert!(run.wait().expect("it ends").success());
}

fn socket(users: &Users) {
    let path = control_at("socket", users);
    let at = path.to_str().expect("UTF-8");
    // The socket left by a killed link is replaced.
    drop(UnixListener::bind(&path).expect("a socket"));
    let mut command = users.command(&["--rate", "10mbit", "--control", at, "--", "cat"]);
    let mut run = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    drop(Control::await_at(&path));
    let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The socket of a running link is not taken over.
    let ran = users.run(&["--control", at, "--", "true"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("in use"), "{}", ran.err);
    let ran = falaj(&["show", "--control", at, "nobody"]);
    assert!(
        ran.err.contains("there is no `nobody`; there are `link`, `link.up`, `up.all`"),
        "{}",
        ran.err
    );
    let ran = falaj(&["set", "--control", at, "link", "rate=2mbit", "delay=7ms"]);
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
    let ran = falaj(&["set", "--control", at, "link", "rate=2mbit"]);
    assert_eq!(ran.err, "falaj: no value was different: nothing was changed\n");
    let ran = falaj(&["set", "--control", at, "link", "rate=1mbit", "--check", "--json"]);
    assert_eq!(
        (&ran.json()["changed"], &ran.json()["at_ns"]),
        (&serde_json::json!(["up", "down"]), &Value::Null)
    );
    let ran = falaj(&["show", "--control", at, "--toml"]);
    assert!(
        ran.out.contains("rate = \"2mbit\"") && ran.out.contains("delay = \"7ms\""),
        "{}",
        ran.out
    );
    let answer = Control::await_at(&path).ask(&serde_json::json!({ "do": "dance", "id": 9 }));
    assert_eq!((&answer["id"], answer["error"]["what"].is_string()), (&9.into(), true), "{answer}");
    drop(run.stdin.take());
    assert!(run.wait().expect("it ends").success());
    assert!(!path.exists());
    let ran = falaj(&["show", "--control", at]);
    assert!(
        ran.status == Some(2) && ran.err.contains("no process listens at this socket"),
        "{ran:?}"
    );
}

fn tapless(_: &Users) {
    let tenants = file("tapless.toml", TENANTS);
    let ran: Ran = without(NO_TAP, &["compare", tenants, "--duration", "1s", "--json"])
        .output()
        .unwrap()
        .into();
    assert!(matches!(ran.status, Some(0 | 3)), "{ran:?}");
    let json = ran.json();
    assert_eq!((json["over"].as_str(), ran.err.as_str()), (Some("namespaces"), ""));
    for name in ["a", "b"] {
        let f = flow(&json["flows"], name);
        assert!(number(&f["measured"]["delay"]["max_ns"]) <= number(&f["bound_ns"]), "{f}");
        assert!(number(&f["measured"]["end_to_end"]["datagrams"]) > 0.0, "{f}");
    }
    // Links run without TAP devices, but features that need these devices do not.
    let words = ["doctor", "--no-measuring", "--json"];
    let ran: Ran = without(NO_TAP, &words).output().unwrap().into();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let json = ran.json();
    let finding = |what: &str| {
        json["backends"].as_array().unwrap().iter().find(|b| b["what"] == what).unwrap().clone()
    };
    assert_eq!(finding("namespaces")["works"], true, "{json:#}");
    for what in ["TAP between namespaces", "pasta", "slirp4netns"] {
        assert_eq!(finding(what)["works"], false, "{json:#}");
    }
    assert!(finding("TAP between namespaces")["why"].as_str().unwrap().contains("/dev/net/tun"));
}

fn loopback(_: &Users) {
    const NO_NAMESPACES: &str = "echo 0 > /proc/sys/user/max_net_namespaces";
    let tenants = file("loopback.toml", TENANTS);
    let words = ["compare", tenants, "--duration", "1s", "--json"];
    let ran: Ran = without(NO_NAMESPACES, &words).output().unwrap().into();
    assert!(matches!(ran.status, Some(0 | 3)), "{ran:?}");
    assert!(ran.err.contains("packets go over loopback sockets instead"), "{}", ran.err);
    let json = ran.json();
    assert_eq!(json["over"], "loopback");
    for name in ["a", "b"] {
        let f = flow(&json["flows"], name);
        assert!(number(&f["measured"]["delay"]["max_ns"]) <= number(&f["bound_ns"]), "{f}");
        assert!(number(&f["measured"]["end_to_end"]["datagrams"]) > 0.0, "{f}");
    }
    // `doctor` measures what it can, and its exit status is that of a failure.
    let ran: Ran = without(NO_NAMESPACES, &["doctor", "--json"]).output().unwrap().into();
    assert_eq!(
        (ran.status, &ran.json()["floor"]["over"]),
        (Some(1), &"loopback".into()),
        "{ran:?}"
    );
    assert_eq!(ran.json()["backends"][0]["works"], false);
    // Without namespaces, a command cannot run behind a link.
    let ran: Ran = without(NO_NAMESPACES, &["run", "--", "true"]).output().unwrap().into();
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    assert!(
        ran.err.contains("user.max_net_namespaces is 0: sysctl user.max_net_namespaces=10000"),
        "{}",
        ran.err
    );
}

// ------------------------------------------------------------------------------------------ probes

/// Probes that run at the ends of the links.
pub(crate) fn probes(probe: &str, words: &[&str]) {
    let at = |address: &str, port: u16| SocketAddr::new(address.parse().expect("an address"), port);
    let bound = |to: SocketAddr| {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).expect("a socket");
        socket.connect(to).expect("a way there");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
        socket
    };
    let mut datagram = [0; 2000];
    match (probe, words) {
        // Answers the good frames that arrive, forever.
        ("frames-back", []) => storm::echo("falaj0"),
        // Sends randomly mutated frames and good frames; exits with an error if a good frame does
        // not come back.
        ("storm", []) => {
            let said = storm::storm(storm::Interface::at("falaj0", true), storm::frames());
            assert!(
                said.ends_with(" good came back") && !said.ends_with(" 0 good came back"),
                "{said}"
            );
        }
        ("echo", [address]) => {
            let socket = UdpSocket::bind(at(address, PORT)).expect("a socket");
            loop {
                let (length, from) = socket.recv_from(&mut datagram).expect("a datagram");
                socket.send_to(&datagram[..length], from).expect("a way back");
            }
        }
        // Prints the times of round trips to `echo` in milliseconds, as JSON.
        ("ask", [address, times]) => {
            let socket = bound(at(address, PORT));
            await_peer(&socket);
            let mut times: Vec<f64> = vec![0.0; times.parse().expect("a number")];
            for (i, time) in times.iter_mut().enumerate() {
                let began = Instant::now();
                socket.send(&[i as u8; 100]).expect("sent");
                loop {
                    let length = socket.recv(&mut datagram).expect("an answer");
                    // Answers to datagrams sent before the peer was ready are shorter.
                    if datagram[..length] == [i as u8; 100] {
                        break;
                    }
                }
                *time = began.elapsed().as_secs_f64() * 1e3;
            }
            println!("{times:?}");
        }
        // Sends twice the rate of a 10 Mbit/s link for 1.3 s; then queries `meter` for the result.
        ("flood", [address]) => {
            let socket = bound(at(address, PORT));
            await_peer(&socket);
            let began = Instant::now();
            let gap = Duration::from_micros(600);
            for i in 0..1300 * 1000 / 600 {
                std::thread::sleep((began + gap * i).saturating_duration_since(Instant::now()));
                socket.send(&datagram[..PAYLOAD]).expect("sent");
            }
            for _ in 0..50 {
                std::thread::sleep(Duration::from_millis(100));
                socket.send(b"and?").expect("sent");
                while let Ok(length) = socket.recv(&mut datagram) {
                    if length > 1 {
                        print!("{}", std::str::from_utf8(&datagram[..length]).expect("UTF-8"));
                        return;
                    }
                }
            }
            panic!("no answer");
        }
        // Measures the rate, in bit/s with Ethernet headers, at which full packets arrive during
        // one second of a flood.
        ("meter", [address]) => {
            let socket = UdpSocket::bind(at(address, PORT)).expect("a socket");
            let (mut first, mut last, mut count) = (None, None, 0);
            loop {
                let (length, from) = socket.recv_from(&mut datagram).expect("a datagram");
                let now = Instant::now();
                let answer = |text: &[u8]| {
                    assert_eq!(socket.send_to(text, from).expect("a way back"), text.len())
                };
                if length == PAYLOAD {
                    let first = *first.get_or_insert(now);
                    if now - first <= Duration::from_secs(1) {
                        (last, count) = (Some(now), count + 1);
                    }
                } else if length == 4 {
                    let (Some(first), Some(last)) = (first, last) else { panic!("nothing came") };
                    let bits = f64::from(count - 1) * (PAYLOAD + 42) as f64 * 8.0;
                    answer(format!("{}", bits / (last - first).as_secs_f64()).as_bytes());
                } else {
                    answer(b"!");
                }
            }
        }
        // Sends `count` datagrams as fast as possible.
        ("burst", [address, count]) => {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            for _ in 0..count.parse().expect("a number") {
                socket.send_to(b"hello", at(address, PORT)).expect("sent");
            }
        }
        // Sends one client 2 MB whose contents depend on the position.
        ("serve", [address]) => {
            let (mut stream, _) =
                TcpListener::bind(at(address, PORT)).expect("a port").accept().expect("a caller");
            stream.write_all(&content()).expect("all of it");
        }
        ("fetch", [address]) => {
            let connect = |_| {
                std::thread::sleep(Duration::from_millis(10));
                TcpStream::connect_timeout(&at(address, PORT), Duration::from_secs(5)).ok()
            };
            let mut stream = (0..200).find_map(connect).expect("it listens");
            let mut came = Vec::new();
            stream.read_to_end(&mut came).expect("all of it");
            println!("{}", if came == content() { "whole" } else { "broken" });
        }
        // Sends a request over a stream or in a datagram; prints the time in milliseconds until the
        // answer.
        ("round", [transport, address, port]) => {
            let to = at(address, port.parse().expect("a port"));
            let began = Instant::now();
            let mut came = Vec::new();
            if *transport == "tcp" {
                let mut stream = TcpStream::connect(to).expect("a connection");
                stream.write_all(b"hello").expect("sent");
                stream.shutdown(Shutdown::Write).expect("ended");
                stream.read_to_end(&mut came).expect("an answer");
            } else {
                let socket = bound(to);
                socket.send(b"hello").expect("sent");
                let length = socket.recv(&mut datagram).expect("an answer");
                came.extend(&datagram[..length]);
            }
            assert_eq!(came, b"hello");
            println!("{}", began.elapsed().as_secs_f64() * 1e3);
        }
        // Sends datagrams to an address that may not exist.
        ("knock", [address]) => {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            for _ in 0..5 {
                // Without a route, the kernel returns an error.
                let _ = socket.send_to(b"?", at(address, PORT));
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // Serves one page to every client.
        ("web", [address]) => {
            let listener = TcpListener::bind(at(address, PORT)).expect("a socket");
            for stream in listener.incoming() {
                let _ = stream.expect("a client").write_all(b"the page\n");
            }
        }
        ("get", [name]) => {
            let mut page = String::new();
            TcpStream::connect((*name, PORT))
                .expect("a connection")
                .read_to_string(&mut page)
                .expect("a page");
            print!("{page}");
        }
        // A name server that gives this address for every name, and no records of other types.
        ("names", [address, answer]) => {
            let socket = UdpSocket::bind(at(address, 53)).expect("a socket");
            let IpAddr::V4(answer) = answer.parse().expect("an address") else { panic!("IPv4") };
            loop {
                let (length, from) = socket.recv_from(&mut datagram).expect("a question");
                let name =
                    datagram[12..length].iter().position(|&byte| byte == 0).expect("a name's end");
                let question = datagram[12..12 + name + 5].to_vec();
                let known = question[name + 1..name + 3] == [0, 1];
                let mut reply = datagram[..2].to_vec();
                reply.extend([0x81, 0x80, 0, 1, 0, known.into(), 0, 0, 0, 0]);
                reply.extend(question);
                if known {
                    reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4]);
                    reply.extend(answer.octets());
                }
                socket.send_to(&reply, from).expect("sent");
            }
        }
        ("send", [address, port]) => {
            let socket = bound(at(address, port.parse().expect("a port")));
            socket.send(b"hello").expect("sent");
        }
        _ => panic!("no probe {probe} {words:?}"),
    }
}

fn content() -> Vec<u8> {
    (0..2 << 20).map(|i: u32| (i * 7 + i / 251) as u8).collect()
}

/// Payload in bytes of a packet of 1500 B.
const PAYLOAD: usize = 1472;

/// Sends datagrams until the peer answers.
fn await_peer(socket: &UdpSocket) {
    let limit = socket.read_timeout().expect("a time");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
    for _ in 0..100 {
        // Sending fails while no process listens there.
        if socket.send(b"?").is_ok() && socket.recv(&mut [0; 10]).is_ok() {
            // Discards further answers, which are outdated.
            while socket.recv(&mut [0; 10]).is_ok() {}
            socket.set_read_timeout(limit).expect("a time");
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("nobody there");
}
