//! Sandboxes in real namespaces.
//!
//! A sandbox has to be started in a single-threaded process, which the usual test harness is not.
//! So this program is its own harness: it runs each case in a separate process (`--case`), and is
//! also the command that the cases run inside of their sandboxes (`--probe`).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Stdio, exit};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use falaj_engine::key::Key;
use falaj_engine::network::Network;
use falaj_engine::{Corrupt, PipeId};
use falaj_live::backend::packet::{PacketReader, PacketSocket};
use falaj_live::backend::tap::{Tap, TapPort};
use falaj_live::backend::{Port, PortHandover, Received};
use falaj_live::clock::{Clock, monotonic};
use falaj_live::error::SetupStep;
use falaj_live::event_loop::{Attached, Forwarder, LiveFlow, LiveLosses, Options, Timer, Woken};
use falaj_live::sandbox::{
    End, Exit, INTERFACE, Join, Sandbox, SandboxSide, SandboxSpec, SideEvent, UserNamespace,
    available,
};
use falaj_live::wiring;
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Gid, Pid, Uid};

/// A case, and whether it is run a second time in a forced user namespace if the caller is root.
type Case = (&'static str, fn(UserNamespace), bool);

const CASES: &[Case] = &[
    ("exit_codes_and_signals_pass_through", exits, true),
    ("signals_reach_the_command", signals, true),
    ("what_a_command_leaves_is_reaped", orphans, true),
    ("environment_says_who_and_where", environment, true),
    ("a_command_that_cannot_run_says_why", not_found, true),
    ("no_descriptor_leaks_into_the_command", leaks, true),
    ("the_command_keeps_its_user_and_gets_capabilities", user, true),
    ("first_datagrams_cross_and_nothing_else_does", datagrams, true),
    ("ping_needs_no_privilege", ping, true),
    ("any_address_goes_over_the_link", default_route, true),
    ("tcp_in_large_units", tcp_tso, true),
    ("tcp_in_packets", tcp_packets, true),
    ("large_units_are_packets_to_a_rate", trains, true),
    ("large_units_of_datagrams", datagram_trains, true),
    ("datagrams_that_are_due_together_arrive_one_by_one", datagrams_joined, true),
    ("bursts_wait_for_the_reader", bursts, false),
    ("what_the_reader_misses_is_counted", missed, true),
    ("a_full_frame_may_have_a_vlan_tag", tagged, true),
    ("small_and_large_mtu", mtu, false),
    ("veth_joins_without_the_caller", veth, true),
    ("a_kernel_bridge_joins_without_the_caller", bridge, true),
    ("veth_without_privilege", unprivileged, false),
    ("carrier_ends_with_the_tap", carrier, false),
    ("kill_9_leaves_nothing", kill_9, true),
    ("a_dead_side_is_an_event", dead_side, true),
    ("dropping_leaves_nothing", dropping, true),
    ("ctrl_c_is_for_the_command", ctrl_c, true),
    ("threads_are_refused", threads, false),
    ("errors_lead_on", errors, false),
    ("start_up_takes_little_of_a_processor", start_up, true),
];

const IGNORED: i32 = 77;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--case", name, mode] => {
            let (_, case, _) = CASES.iter().find(|case| case.0 == *name).expect("the case exists");
            case(if *mode == "always" { UserNamespace::Always } else { UserNamespace::Auto });
            ExitCode::SUCCESS
        }
        ["--probe", probe, rest @ ..] => probes(probe, rest),
        ["--holder", mode, token] => holder(mode, token),
        ["--terminal", mode] => at_terminal(mode),
        words => harness(words),
    }
}

// ----------------------------------------------------------------------------------------- harness

fn harness(words: &[&str]) -> ExitCode {
    let exact = words.contains(&"--exact");
    let filters: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
    let mut runs = Vec::new();
    let mut filtered = 0;
    for (name, _, twice) in CASES {
        let forced = Uid::effective().is_root() && *twice;
        for mode in if forced { &["auto", "always"][..] } else { &["auto"] } {
            let shown = if *mode == "always" {
                format!("{name}::user_namespace")
            } else {
                (*name).to_string()
            };
            if filters.is_empty()
                || filters.iter().any(|f| if exact { shown == *f } else { shown.contains(f) })
            {
                runs.push((name, mode, shown));
            } else {
                filtered += 1;
            }
        }
    }
    if words.contains(&"--list") {
        runs.iter().for_each(|(.., shown)| println!("{shown}: test"));
        return ExitCode::SUCCESS;
    }
    let possible = Command::new("unshare").args(["-Urn", "true"]).stderr(Stdio::null()).status();
    let possible = Uid::effective().is_root() || possible.is_ok_and(|status| status.success());
    println!("\nrunning {} tests", runs.len());
    let began = Instant::now();
    let (mut passed, mut ignored, mut failed) = (0, 0, Vec::new());
    for (name, mode, shown) in runs {
        if !possible {
            println!(
                "test {shown} ... ignored, namespaces are not allowed here (unshare -Urn true fails)"
            );
            ignored += 1;
            continue;
        }
        let (code, output) = run_case(name, mode);
        match code {
            Some(0) => {
                println!("test {shown} ... ok");
                passed += 1;
                if words.contains(&"--nocapture") {
                    print!("{output}");
                }
            }
            Some(IGNORED) => {
                println!("test {shown} ... ignored, {}", output.trim());
                ignored += 1;
            }
            _ => {
                println!("test {shown} ... FAILED");
                failed.push((shown, output));
            }
        }
    }
    for (name, output) in &failed {
        println!("\n---- {name} ----\n{output}");
    }
    println!(
        "\ntest result: {}. {passed} passed; {} failed; {ignored} ignored; 0 measured; {filtered} \
         filtered out; finished in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        failed.len(),
        began.elapsed().as_secs_f64()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a case in a separate process, for 60 s at most; returns its exit code if it has one, and
/// its output.
fn run_case(name: &str, mode: &str) -> (Option<i32>, String) {
    let (mut reader, writer) = io::pipe().unwrap();
    let mut child = Command::new(myself())
        .args(["--case", name, mode])
        .stdin(Stdio::null())
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if waiting.recv_timeout(Duration::from_secs(60))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            let _ = kill(pid, Signal::SIGKILL);
        }
    });
    let mut output = Vec::new();
    reader.read_to_end(&mut output).unwrap();
    let status = child.wait().unwrap();
    drop(done);
    watchdog.join().unwrap();
    let mut output = String::from_utf8_lossy(&output).into_owned();
    if let Some(signal) = status.signal() {
        output.push_str(&format!("killed by signal {signal}\n"));
    }
    (status.code(), output)
}

fn ignore(why: &str) -> ! {
    println!("{why}");
    exit(IGNORED)
}

// ------------------------------------------------------------------------------------------- tools

fn myself() -> OsString {
    env::current_exe().unwrap().into()
}

fn probe(words: &[&str]) -> SandboxSide {
    let words = words.iter().map(OsString::from);
    SandboxSide::command([myself(), "--probe".into()].into_iter().chain(words))
}

fn sh(script: &str) -> SandboxSide {
    SandboxSide::command(["sh", "-c", script])
}

/// A sandbox as specified; the case is ignored if this user may not open /dev/net/tun.
fn start(spec: SandboxSpec) -> Sandbox {
    match Sandbox::start(spec) {
        Ok(sandbox) => sandbox,
        Err(error) if error.step == SetupStep::OpenTun && !Uid::effective().is_root() => {
            ignore(&error.to_string())
        }
        Err(error) => panic!("{error}"),
    }
}

/// The side with its standard output on a pipe, and the pipe's other end.
fn captured(mut side: SandboxSide) -> (SandboxSide, BufReader<File>) {
    let (reader, writer) = io::pipe().unwrap();
    side.stdout = Some(writer.into());
    (side, BufReader::new(OwnedFd::from(reader).into()))
}

fn line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line.trim_end().to_string()
}

fn rest(mut reader: impl Read) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

/// The frames that crossed the link while the commands ran.
#[derive(Default)]
struct Crossed {
    exits: BTreeMap<End, Exit>,
    /// Frames by kind.
    kinds: BTreeMap<String, usize>,
    longest: usize,
    refused: usize,
    destinations: Vec<IpAddr>,
}

/// The descriptor by which the caller reads the units of one side.
fn link_fd(sandbox: &Sandbox, end: End) -> Option<BorrowedFd<'_>> {
    sandbox.packet(end).map(AsFd::as_fd).or(sandbox.tap(end).map(AsFd::as_fd))
}

fn read(
    sandbox: &Sandbox,
    end: End,
    packets: &mut Option<PacketReader>,
    unit: &mut [u8],
) -> Option<usize> {
    match packets {
        Some(packets) => packets.read(unit).unwrap(),
        None => sandbox.tap(end).and_then(|tap| tap.read(unit).unwrap()),
    }
}

fn write(sandbox: &Sandbox, end: End, unit: &[u8]) -> bool {
    match sandbox.packet(end) {
        Some(socket) => socket.send(unit).unwrap(),
        None => sandbox.tap(end).is_some_and(|tap| tap.write(unit).unwrap()),
    }
}

/// Copies units between the sides, in each direction through `change`, until the commands of `ends`
/// have ended.
fn forward(sandbox: &mut Sandbox, ends: &[End], change: impl Fn(&mut [u8])) -> Crossed {
    let mut crossed = Crossed::default();
    let mut unit = vec![0; Tap::MAX_UNIT];
    let deadline = Instant::now() + Duration::from_secs(30);
    let reader = |socket: &Arc<PacketSocket>| PacketReader::new(Arc::clone(socket)).unwrap();
    let mut readers = End::BOTH.map(|end| sandbox.packet(end).map(reader));
    while !ends.iter().all(|end| crossed.exits.contains_key(end)) {
        assert!(
            Instant::now() < deadline,
            "the commands do not end: {:?} {:?}",
            crossed.exits,
            crossed.kinds
        );
        {
            let mut fds: Vec<PollFd> = Vec::new();
            for end in End::BOTH {
                fds.push(PollFd::new(sandbox.control_fd(end), PollFlags::POLLIN));
                fds.extend(link_fd(sandbox, end).map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            }
            poll(&mut fds, PollTimeout::from(100u8)).unwrap();
        }
        for end in End::BOTH {
            if link_fd(sandbox, end.other()).is_some() {
                while let Some(length) = read(sandbox, end, &mut readers[end.index()], &mut unit) {
                    let (kind, destination) = kind(&unit[Tap::VNET_HEADER..length]);
                    *crossed.kinds.entry(kind).or_default() += 1;
                    crossed.destinations.extend(destination);
                    crossed.longest = crossed.longest.max(length);
                    change(&mut unit[..length]);
                    crossed.refused += usize::from(!write(sandbox, end.other(), &unit[..length]));
                }
            }
            match sandbox.read_event(end).unwrap() {
                Some(SideEvent::Exited(exit)) => drop(crossed.exits.insert(end, exit)),
                Some(SideEvent::Closed) => panic!("side {end} is gone"),
                Some(SideEvent::Refused(_)) | None => {}
            }
        }
    }
    crossed
}

/// The kind of an Ethernet frame in a word, and its destination.
fn kind(frame: &[u8]) -> (String, Option<IpAddr>) {
    let ip = &frame[14..];
    match u16::from_be_bytes([frame[12], frame[13]]) {
        0x0806 => ("arp".into(), None),
        0x0800 => {
            let to = <[u8; 4]>::try_from(&ip[16..20]).unwrap();
            (format!("ipv4/{}", ip[9]), Some(to.into()))
        }
        0x86dd => {
            let to = <[u8; 16]>::try_from(&ip[24..40]).unwrap();
            let name = match ip[6] {
                0 => "mld".into(), // the only use of hop-by-hop options here
                58 => format!("icmpv6/{}", ip[40]),
                next => format!("ipv6/{next}"),
            };
            (name, Some(to.into()))
        }
        other => (format!("ethertype {other:#06x}"), None),
    }
}

/// Completes a checksum that is unfinished by the virtio-net header, so that the receiving
/// kernel verifies it.
fn finish_checksum(unit: &mut [u8]) {
    const NEEDS_CHECKSUM: u8 = 1;
    let (header, frame) = unit.split_at_mut(Tap::VNET_HEADER);
    if header[0] & NEEDS_CHECKSUM == 0 || header[1] != 0 {
        return;
    }
    let start = usize::from(u16::from_le_bytes([header[6], header[7]]));
    let at = start + usize::from(u16::from_le_bytes([header[8], header[9]]));
    let mut sum = 0u32;
    for pair in frame[start..].chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let sum = !(sum as u16);
    frame[at..at + 2].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
    header[0] = 0;
}

/// Waits for the end of one command without forwarding anything.
fn exit_of(sandbox: &mut Sandbox, end: End) -> Exit {
    forward(sandbox, &[end], |_| {}).exits[&end]
}

/// Processes anywhere whose command line contains `token`, except this process.
fn alive(token: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| *pid != std::process::id() as i32)
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(token.len()).any(|window| window == token.as_bytes())
        })
        .collect()
}

/// Asserts that all processes with this token are gone within 60 seconds.
fn assert_gone(token: &str) {
    let began = Instant::now();
    loop {
        let left = alive(token);
        if left.is_empty() {
            println!("all gone after {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "still alive: {left:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn token(name: &str) -> String {
    format!(
        "falaj-{name}-{}-{:?}",
        std::process::id(),
        clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().num_nanoseconds()
    )
}

fn spec(user_namespace: UserNamespace) -> SandboxSpec {
    SandboxSpec { join: Join::Tap, user_namespace, ..SandboxSpec::default() }
}

// ------------------------------------------------------------------------------------------- cases

fn exits(users: UserNamespace) {
    let mut sandbox =
        start(SandboxSpec { near: sh("exit 7"), far: sh("kill -9 $$"), ..spec(users) });
    assert_eq!(sandbox.read_event(End::Near).unwrap(), None);
    sandbox.go(End::Near).unwrap();
    sandbox.go(End::Far).unwrap();
    sandbox.go(End::Far).unwrap(); // a second call changes nothing
    let crossed = forward(&mut sandbox, &End::BOTH, |_| {});
    assert_eq!(crossed.exits[&End::Near], Exit::Code(7));
    assert_eq!(crossed.exits[&End::Far], Exit::Signal(9));
    assert_eq!(Exit::Signal(9).shell_code(), 137);
    drop(sandbox);

    // A caller that ignores the death of its children still learns that the command has ended.
    // SAFETY: ignoring a signal has no preconditions.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }.unwrap();
    let mut sandbox = start(SandboxSpec { near: sh("true; exit 3"), ..spec(users) });
    sandbox.go(End::Near).unwrap();
    assert_eq!(exit_of(&mut sandbox, End::Near), Exit::Code(3));
    drop(sandbox);
    // SAFETY: as above.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.unwrap();

    // A real-time signal is reported too, and a side without a command reports no event.
    let mut sandbox = start(SandboxSpec { near: probe(&["die-by", "40"]), ..spec(users) });
    sandbox.go(End::Near).unwrap();
    sandbox.go(End::Far).unwrap();
    assert_eq!(exit_of(&mut sandbox, End::Near), Exit::Signal(40));
    assert_eq!(sandbox.read_event(End::Far).unwrap(), None);
}

fn signals(users: UserNamespace) {
    let script = "trap 'exit 5' TERM; trap 'echo usr1' USR1; trap 'echo hup' HUP; echo ready; while :; do sleep 0.02; done";
    // The test process may run with some of these signals ignored, as under `nohup`: a shell cannot
    // trap an ignored signal.
    let shell = SandboxSide::command(["env", "--default-signal=HUP,TERM,USR1", "sh", "-c", script]);
    let (near, mut said) = captured(shell);
    let mut sandbox = start(SandboxSpec { near, ..spec(users) });
    sandbox.signal(End::Near, libc::SIGTERM).unwrap(); // the command does not run yet
    sandbox.go(End::Near).unwrap();
    assert_eq!(line(&mut said), "ready");
    sandbox.signal(End::Near, libc::SIGUSR1).unwrap();
    assert_eq!(line(&mut said), "usr1");
    // Process 1 forwards signals from outside, and survives the signals that it does not forward.
    let init = Pid::from_raw(sandbox.pid(End::Near));
    kill(init, Signal::SIGHUP).unwrap();
    assert_eq!(line(&mut said), "hup");
    kill(init, Signal::SIGTSTP).unwrap();
    kill(init, Signal::SIGTTOU).unwrap();
    kill(init, Signal::SIGALRM).unwrap();
    assert_eq!(sandbox.signal(End::Near, 1000).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    sandbox.signal(End::Near, libc::SIGTERM).unwrap();
    assert_eq!(exit_of(&mut sandbox, End::Near), Exit::Code(5));
    sandbox.signal(End::Near, libc::SIGTERM).unwrap();
}

fn orphans(users: UserNamespace) {
    // Twenty orphans die after their parent; process 1 must reap them.
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.0$i & sleep 0.0$i &) ; done; sleep \
                  0.4; cat /proc/[0-9]*/stat | cut -d' ' -f3 | grep -c Z";
    let (near, said) = captured(sh(script));
    let mut sandbox = start(SandboxSpec { near, ..spec(users) });
    sandbox.go(End::Near).unwrap();
    assert_eq!(exit_of(&mut sandbox, End::Near), Exit::Code(1));
    assert_eq!(rest(said), "0\n");
}

fn environment(users: UserNamespace) {
    let print =
        "echo $FALAJ_SIDE $FALAJ_ADDR $FALAJ_PEER $FALAJ_ADDR6 $FALAJ_PEER6 $EXTRA $HOME; pwd";
    let (mut near, said_near) = captured(sh(print));
    near.env = vec![("EXTRA".into(), "one".into()), ("HOME".into(), "/elsewhere".into())];
    let (mut far, said_far) = captured(sh(print));
    far.env = vec![("FALAJ_PEER".into(), "mine".into())];
    let mut sandbox = start(SandboxSpec { near, far, ..spec(users) });
    sandbox.go(End::Near).unwrap();
    sandbox.go(End::Far).unwrap();
    forward(&mut sandbox, &End::BOTH, |_| {});
    let here = env::current_dir().unwrap();
    let here = here.display();
    assert_eq!(
        rest(said_near),
        format!("a 10.77.0.1 10.77.0.2 fd77::1 fd77::2 one /elsewhere\n{here}\n")
    );
    let home = env::var("HOME").unwrap_or_default();
    assert_eq!(
        rest(said_far).trim_end(),
        format!("b 10.77.0.2 mine fd77::2 fd77::1 {home}\n{here}").trim_end()
    );
}

fn not_found(users: UserNamespace) {
    let (reader, writer) = io::pipe().unwrap();
    let mut near = SandboxSide::command(["falaj-no-such-command", "-x"]);
    near.stderr = Some(writer.into());
    let (reader2, writer2) = io::pipe().unwrap();
    let mut far = SandboxSide::command(["/etc/passwd"]);
    far.stderr = Some(writer2.into());
    let mut sandbox = start(SandboxSpec { near, far, ..spec(users) });
    sandbox.go(End::Near).unwrap();
    sandbox.go(End::Far).unwrap();
    let crossed = forward(&mut sandbox, &End::BOTH, |_| {});
    assert_eq!(crossed.exits[&End::Near], Exit::Code(127));
    assert_eq!(crossed.exits[&End::Far], Exit::Code(126));
    assert_eq!(rest(reader), "falaj: falaj-no-such-command: command not found\n");
    assert_eq!(rest(reader2), "falaj: /etc/passwd: Permission denied\n");
}

fn leaks(users: UserNamespace) {
    // Descriptors that the caller itself has inherited without CLOEXEC must not be inherited
    // either.
    let file = File::open("/dev/null").unwrap();
    // SAFETY: dup has no preconditions.
    let leaky: Vec<i32> = (0..3).map(|_| unsafe { libc::dup(file.as_raw_fd()) }).collect();
    assert!(leaky.iter().all(|fd| *fd > 2));
    let (near, said_near) = captured(probe(&["descriptors"]));
    let (far, said_far) = captured(probe(&["descriptors"]));
    let mut sandbox = start(SandboxSpec { near, far, ..spec(users) });
    sandbox.go(End::Near).unwrap();
    sandbox.go(End::Far).unwrap();
    forward(&mut sandbox, &End::BOTH, |_| {});
    // The last descriptor is that of the directory being listed.
    assert_eq!(rest(said_near), "0 1 2 3 blocked 0 pipe default\n");
    assert_eq!(rest(said_far), "0 1 2 3 blocked 0 pipe default\n");
}

fn user(users: UserNamespace) {
    let script = "id -u; id -g; grep CapEff /proc/self/status | cut -f2; cat \
                  /proc/sys/net/ipv4/ping_group_range; ls /sys/class/net | tr '\\n' ' '; cat \
                  /sys/class/net/falaj0/address; head -n 1 /proc/self/gid_map";
    let (near, said) = captured(sh(script));
    let mut sandbox = start(SandboxSpec { near, ..spec(users) });
    sandbox.go(End::Near).unwrap();
    exit_of(&mut sandbox, End::Near);
    let said = rest(said);
    let said: Vec<&str> = said.lines().collect();
    println!("{said:?}");
    assert_eq!(said[0], Uid::effective().to_string());
    assert_eq!(said[1], Gid::effective().to_string());
    let network = 1 << 10 | 1 << 12 | 1 << 13;
    let capabilities = u64::from_str_radix(said[2], 16).unwrap();
    assert_eq!(capabilities & network, network);
    if !Uid::effective().is_root() {
        assert_eq!(capabilities, network);
    }
    // A user namespace created by the sandbox has one group.
    let map: Vec<u64> = said[5].split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert!(
        users == UserNamespace::Auto || map == [Gid::effective().as_raw().into(), map[1], 1],
        "{map:?}"
    );
    assert_eq!(said[3], format!("{}\t{}", map[0], (map[0] + map[2] - 1).min(i32::MAX as u64)));
    assert!(said[4].split_whitespace().any(|word| word == "falaj0"), "{said:?}");
    assert!(said[4].ends_with("02:fa:1a:00:00:01"), "{said:?}");
}

fn datagrams(users: UserNamespace) {
    for (join, tso) in
        [(Join::Tap, false), (Join::Tap, true), (Join::Packet, false), (Join::Packet, true)]
    {
        for address in ["10.77.0.2", "fd77::2"] {
            let (far, mut server) = captured(probe(&["udp-echo", address]));
            let mut sandbox = start(SandboxSpec {
                near: probe(&["udp-once", address]),
                far,
                join,
                tso,
                ..spec(users)
            });
            sandbox.go(End::Far).unwrap();
            assert_eq!(line(&mut server), "ready");
            sandbox.go(End::Near).unwrap();
            let crossed = forward(&mut sandbox, &End::BOTH, finish_checksum);
            assert_eq!(
                crossed.exits.values().collect::<Vec<_>>(),
                [&Exit::Code(0), &Exit::Code(0)]
            );
            println!("{join:?} {address}: {:?}", crossed.kinds);
            let udp = if address.contains(':') { "ipv6/17" } else { "ipv4/17" };
            assert_eq!(crossed.kinds.of(udp), 2);
            // No address resolution, no duplicate address detection, no router solicitation.
            assert!(
                crossed.kinds.keys().all(|kind| kind == udp || kind == "mld"),
                "{:?}",
                crossed.kinds
            );
        }
    }
}

/// Number of frames of a kind, 0 if there are none.
trait Count {
    fn of(&self, kind: &str) -> usize;
}

impl Count for BTreeMap<String, usize> {
    fn of(&self, kind: &str) -> usize {
        self.get(kind).copied().unwrap_or(0)
    }
}

fn ping(users: UserNamespace) {
    let mut sandbox = start(SandboxSpec { near: probe(&["ping"]), ..spec(users) });
    sandbox.go(End::Near).unwrap();
    let crossed = forward(&mut sandbox, &[End::Near], |_| {});
    assert_eq!(crossed.exits[&End::Near], Exit::Code(0));
    assert_eq!(crossed.kinds.of("ipv4/1"), 2);
}

fn default_route(users: UserNamespace) {
    let mut sandbox = start(SandboxSpec {
        near: probe(&["udp-send", "192.0.2.9", "2001:db8::9"]),
        ..spec(users)
    });
    sandbox.go(End::Near).unwrap();
    let crossed = forward(&mut sandbox, &[End::Near], |_| {});
    assert_eq!(crossed.exits[&End::Near], Exit::Code(0));
    for address in ["192.0.2.9", "2001:db8::9"] {
        assert!(crossed.destinations.contains(&address.parse().unwrap()), "{:?}", crossed.kinds);
    }
}

fn tcp(users: UserNamespace, tso: bool, join: Join, megabytes: &str, finish: bool) -> Crossed {
    let mut last = Crossed::default();
    for address in ["10.77.0.2", "fd77::2"] {
        let (far, mut server) = captured(probe(&["tcp-receive", address, megabytes]));
        let near = probe(&["tcp-send", address, megabytes]);
        let mut sandbox = start(SandboxSpec { near, far, tso, join, ..spec(users) });
        sandbox.go(End::Far).unwrap();
        assert_eq!(line(&mut server), "ready");
        sandbox.go(End::Near).unwrap();
        let began = Instant::now();
        last = forward(&mut sandbox, &End::BOTH, |unit| {
            if finish {
                finish_checksum(unit);
            }
        });
        assert_eq!(last.exits.values().collect::<Vec<_>>(), [&Exit::Code(0), &Exit::Code(0)]);
        println!(
            "{address}: {megabytes} MB in {:.1} ms, longest unit {} B, {} refused, {:?}",
            began.elapsed().as_secs_f64() * 1e3,
            last.longest,
            last.refused,
            last.kinds
        );
    }
    last
}

fn tcp_tso(users: UserNamespace) {
    assert!(tcp(users, true, Join::Tap, "16", false).longest > 10_000);
    assert!(tcp(users, true, Join::Packet, "16", false).longest > 10_000);
}

fn tcp_packets(users: UserNamespace) {
    assert_eq!(tcp(users, false, Join::Tap, "4", false).longest, Tap::VNET_HEADER + 14 + 1500);
    tcp(users, false, Join::Tap, "4", true);
    assert_eq!(tcp(users, false, Join::Packet, "4", false).longest, Tap::VNET_HEADER + 14 + 1500);
    tcp(users, false, Join::Packet, "4", true);
}

/// The side's TAP as the forwarder uses it, except that checksums are completed, so that the
/// receiving kernel verifies them.
struct Finishing {
    port: TapPort,
    /// Number of units that were sent.
    units: Rc<Cell<u64>>,
}

impl Port for Finishing {
    fn name(&self) -> String {
        self.port.name()
    }
    fn longest(&self) -> usize {
        self.port.longest()
    }
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        self.port.receive(buffer)
    }
    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        self.units.set(self.units.get() + 1);
        let mut unit = unit.to_vec();
        finish_checksum(&mut unit);
        self.port.transmit(&unit)
    }
    fn key(&self, unit: &[u8]) -> Key {
        self.port.key(unit)
    }
    fn corrupt(&self, unit: &mut [u8], corrupt: &Corrupt) {
        self.port.corrupt(unit, corrupt);
    }
    fn takes_trains(&self) -> bool {
        self.port.takes_trains()
    }
    fn readable(&self) -> BorrowedFd<'_> {
        self.port.readable()
    }
}

impl PortHandover for Finishing {}

/// Runs the forwarder until both commands have ended successfully; returns the counters of the
/// direction up, and the number of units written. On a busy machine the hybrid timer stops
/// spinning, and then holds packets for longer than the slack: a test of the slack has to name
/// another timer.
fn forwarded(sandbox: &mut Sandbox, rate: Rate, timer: Timer, slack: Span) -> (LiveFlow, u64) {
    let scenario = Scenario::simple(rate, Span::ZERO, Limit::Packets(5000), 1500);
    let network =
        Network::new(&scenario.network()).unwrap_or_else(|(_, refused)| panic!("{refused:?}"));
    let units = [Rc::default(), Rc::default()];
    let ports = End::BOTH.map(|end| {
        let port =
            TapPort::new(format!("interface at the {end} end"), sandbox.take_tap(end).unwrap());
        let port = Finishing { port, units: Rc::clone(&units[end.index()]) };
        Attached {
            port: Box::new(port),
            pipe: PipeId(end.index() as u32),
            leaves_at: end.other().index(),
        }
    });
    let clock = Clock::from_zero(monotonic());
    let options = Options { timer, slack, ..Options::default() };
    let mut forwarder = Forwarder::new(clock, network, ports.into(), options);
    let mut running = End::BOTH.to_vec();
    while !running.is_empty() {
        let deadline = clock.now() + Span::from_secs(20);
        let fds: Vec<_> = running.iter().map(|&end| sandbox.control_fd(end)).collect();
        assert_ne!(
            forwarder.run(deadline, &fds).unwrap(),
            Woken::Deadline,
            "the commands do not end"
        );
        for end in running.clone() {
            match sandbox.read_event(end).unwrap() {
                Some(SideEvent::Exited(exit)) => {
                    assert_eq!(exit, Exit::Code(0), "the {end} end");
                    running.retain(|&other| other != end);
                }
                Some(SideEvent::Closed) => panic!("side {end} is gone"),
                Some(SideEvent::Refused(_)) | None => {}
            }
        }
    }
    assert_eq!(forwarder.losses(), LiveLosses::default());
    (forwarder.flows()[0][0].clone(), units[End::Far.index()].get())
}

fn trains(users: UserNamespace) {
    const MTU: u64 = 1514;
    for (mbit, slack) in [(100, 20), (2000, 20), (2000, 0)] {
        for address in ["10.77.0.2", "fd77::2"] {
            let (far, mut server) = captured(probe(&["tcp-receive", address, "4"]));
            let mut sandbox =
                start(SandboxSpec { near: probe(&["tcp-send", address, "4"]), far, ..spec(users) });
            sandbox.go(End::Far).unwrap();
            assert_eq!(line(&mut server), "ready");
            sandbox.go(End::Near).unwrap();
            let slack = Span::from_micros(slack);
            let (flow, units) = forwarded(&mut sandbox, Rate::from_mbit(mbit), Timer::Spin, slack);
            let c = flow.counters;
            println!(
                "{mbit} Mbit/s, slack {slack}, {address}: {} packets in {units} units",
                c.sent
            );
            assert!(
                c.sent >= (4 << 20) / MTU && c.sent_bytes <= c.sent * MTU && c.dropped() == 0,
                "{c:?}"
            );
            assert!(flow.held.max().unwrap() <= slack, "{:?}", flow.held.max());
            // A packet takes 121 us at 100 Mbit/s, and 6 us at 2 Gbit/s; the last one of its unit
            // may be shorter.
            let expected = match (mbit, slack) {
                (_, Span::ZERO) => c.sent..=c.sent,
                (100, _) => c.sent * 9 / 10..=c.sent,
                _ => 1..=c.sent / 2,
            };
            assert!(
                expected.contains(&units),
                "{units} units for {} packets, not {expected:?}",
                c.sent
            );
        }
    }
}

fn datagram_trains(users: UserNamespace) {
    for address in ["10.77.0.2", "fd77::2"] {
        let (far, mut server) = captured(probe(&["udp-collect", address, "40"]));
        let mut sandbox =
            start(SandboxSpec { near: probe(&["udp-train", address, "4"]), far, ..spec(users) });
        sandbox.go(End::Far).unwrap();
        assert_eq!(line(&mut server), "ready");
        sandbox.go(End::Near).unwrap();
        let (flow, _) =
            forwarded(&mut sandbox, Rate::from_mbit(500), Timer::Spin, Span::from_micros(20));
        assert!(flow.counters.sent >= 40 && flow.counters.dropped() == 0, "{:?}", flow.counters);
    }
}

fn datagrams_joined(users: UserNamespace) {
    // The number of datagrams that fit into a socket while its reader does not run.
    const SENT: &str = "60";
    for (address, socket) in
        [("10.77.0.2", "connected"), ("10.77.0.2", "unconnected"), ("fd77::2", "connected")]
    {
        // While sleeping, all packets due within a millisecond leave together, in units of ten,
        // because each tenth packet is shorter.
        for (slack, together) in [(Span::from_millis(1), true), (Span::ZERO, false)] {
            let (far, mut server) = captured(probe(&["udp-collect", address, SENT]));
            let near = probe(&["udp-single", address, socket, SENT]);
            let mut sandbox = start(SandboxSpec { near, far, ..spec(users) });
            sandbox.go(End::Far).unwrap();
            assert_eq!(line(&mut server), "ready");
            sandbox.go(End::Near).unwrap();
            let (flow, units) = forwarded(&mut sandbox, Rate::from_mbit(500), Timer::Sleep, slack);
            let sent = flow.counters.sent;
            println!("{address}, {socket}, slack {slack}: {sent} packets in {units} units");
            assert!(
                sent >= SENT.parse().unwrap() && flow.counters.dropped() == 0,
                "{:?}",
                flow.counters
            );
            assert_eq!(flow.release_error.count(), sent);
            assert!(
                if together { units <= sent / 2 } else { units == sent },
                "{units} units for {sent} packets"
            );
        }
    }
}

fn bursts(users: UserNamespace) {
    // The command sends 5000 datagrams before any is read.
    let mut sandbox = start(SandboxSpec { near: probe(&["udp-burst", "5000"]), ..spec(users) });
    sandbox.go(End::Near).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let crossed = forward(&mut sandbox, &[End::Near], |_| {});
    assert_eq!(crossed.kinds.of("ipv4/17"), 5000);
}

fn missed(users: UserNamespace) {
    const SENT: usize = 20_000;
    for join in [Join::Tap, Join::Packet] {
        let mut sandbox = start(SandboxSpec {
            near: probe(&["udp-burst", &SENT.to_string()]),
            join,
            ..spec(users)
        });
        assert_eq!(sandbox.unread(), Some(0));
        sandbox.go(End::Near).unwrap();
        let began = Instant::now();
        while sandbox.unread() == Some(0) {
            assert!(began.elapsed() < Duration::from_secs(20), "there is room for all of it");
            std::thread::sleep(Duration::from_millis(5));
        }
        let crossed = forward(&mut sandbox, &[End::Near], |_| {});
        let (read, unread) =
            (crossed.kinds.of("ipv4/17"), sandbox.unread().expect("a number") as usize);
        assert!(read >= 8000 && unread > 0, "{read} read, {unread} not");
        // Multicast reports of the kernel itself may have been among them.
        assert!((SENT..SENT + 10).contains(&(read + unread)), "{read} read, {unread} not");
        // Each query returns the total number.
        assert_eq!(sandbox.unread().expect("a number") as usize, unread);
    }
}

fn tagged(users: UserNamespace) {
    let network =
        Scenario::simple(Rate::from_mbit(100), Span::ZERO, Limit::Packets(100), 1500).network();
    for join in [Join::Tap, Join::Packet] {
        let (near, mut said) = captured(probe(&["tagged", "10"]));
        let mut sandbox = start(SandboxSpec { near, join, tso: false, ..spec(users) });
        let clock = Clock::from_zero(monotonic());
        let mut forwarder =
            wiring::to_sandbox(&network, &mut sandbox, clock, Options::default()).unwrap();
        sandbox.go(End::Near).unwrap();
        assert_eq!(line(&mut said), "sent");
        forwarder.run(clock.now() + Span::from_millis(300), &[]).unwrap();
        let counters = forwarder.counters(PipeId(0), FlowId(0));
        assert!(counters.sent >= 10, "{counters:?}");
        assert_eq!(
            (counters.dropped(), forwarder.losses()),
            (0, LiveLosses::default()),
            "{counters:?}"
        );
    }
}

fn mtu(users: UserNamespace) {
    for (mtu, longest) in [(576, 576), (1280, 1280), (9000, 9000), (65521, 65521)] {
        let (far, mut server) = captured(probe(&["tcp-receive", "10.77.0.2", "2"]));
        let (mut near, said) =
            captured(sh("echo ${FALAJ_ADDR6-none}; exec \"$0\" --probe tcp-send 10.77.0.2 2"));
        near.command.as_mut().unwrap().push(myself());
        let mut sandbox = start(SandboxSpec { near, far, mtu, tso: false, ..spec(users) });
        sandbox.go(End::Far).unwrap();
        assert_eq!(line(&mut server), "ready");
        sandbox.go(End::Near).unwrap();
        let crossed = forward(&mut sandbox, &End::BOTH, |_| {});
        assert_eq!(crossed.exits.values().collect::<Vec<_>>(), [&Exit::Code(0), &Exit::Code(0)]);
        assert!(crossed.longest <= Tap::VNET_HEADER + 14 + longest, "{} at {mtu}", crossed.longest);
        assert_eq!(rest(said).trim(), if mtu < 1280 { "none" } else { "fd77::1" });
    }
    let error = Sandbox::start(SandboxSpec { mtu: 20, ..spec(users) }).unwrap_err();
    assert_eq!(error.step, SetupStep::Interface);
}

fn veth(users: UserNamespace) {
    by_kernel(users, Join::Veth);
}

fn bridge(users: UserNamespace) {
    by_kernel(users, Join::Bridge);
}

/// Sides that the kernel joins: no packet passes this process.
fn by_kernel(users: UserNamespace, join: Join) {
    tcp(users, true, join, "16", false);
    for address in ["10.77.0.2", "fd77::2"] {
        let (far, mut server) = captured(probe(&["udp-echo", address]));
        let mut sandbox =
            start(SandboxSpec { near: probe(&["udp-once", address]), far, join, ..spec(users) });
        assert!(sandbox.tap(End::Near).is_none());
        sandbox.go(End::Far).unwrap();
        assert_eq!(line(&mut server), "ready");
        sandbox.go(End::Near).unwrap();
        let crossed = forward(&mut sandbox, &End::BOTH, |_| {});
        assert_eq!(crossed.exits.values().collect::<Vec<_>>(), [&Exit::Code(0), &Exit::Code(0)]);
    }
}

/// The operations that are available without any privilege. If the caller is root, they are tested
/// as another user.
fn unprivileged(_: UserNamespace) {
    if Uid::effective().is_root() {
        let (uid, gid) = (Uid::from_raw(65534), Gid::from_raw(65534));
        let changed = nix::unistd::setgroups(&[])
            .and_then(|()| nix::unistd::setresgid(gid, gid, gid))
            .and_then(|()| nix::unistd::setresuid(uid, uid, uid));
        if let Err(errno) = changed {
            ignore(&format!(
                "the caller is root in name only and cannot become another user: {errno}"
            ));
        }
        // A process that changes its user loses access to its own files in /proc; after a login it
        // would not.
        prctl::set_dumpable(true).unwrap();
    }
    let (near, said) = captured(sh("id -u; id -g; grep CapEff /proc/self/status | cut -f2"));
    match Sandbox::start(SandboxSpec { near, join: Join::Veth, ..SandboxSpec::default() }) {
        Ok(mut sandbox) => {
            sandbox.go(End::Near).unwrap();
            assert_eq!(exit_of(&mut sandbox, End::Near), Exit::Code(0));
            let (uid, gid) = (Uid::effective(), Gid::effective());
            assert_eq!(rest(said), format!("{uid}\n{gid}\n0000000000003400\n"));
        }
        Err(error)
            if matches!(
                error.step,
                SetupStep::UserNamespace | SetupStep::UserMap | SetupStep::Namespaces
            ) =>
        {
            ignore(&error.to_string())
        }
        Err(error) => panic!("{error}"),
    }
    let sandbox = Sandbox::start(SandboxSpec::default()).expect("with TAPs, or without");
    match sandbox.no_tap() {
        None => assert!(sandbox.tap(End::Near).is_some() && sandbox.packet(End::Near).is_none()),
        Some(error) => {
            println!("{error}");
            assert!(sandbox.tap(End::Near).is_none() && sandbox.packet(End::Near).is_some());
            assert_eq!(error.step, SetupStep::OpenTun);
            assert!(error.to_string().contains("/dev/net/tun"), "{error}");
        }
    }
    drop(sandbox);
    if let Err(error) = Sandbox::start(SandboxSpec { join: Join::Tap, ..SandboxSpec::default() }) {
        assert!(
            error.step == SetupStep::OpenTun && error.to_string().contains("/dev/net/tun"),
            "{error}"
        );
    }
}

fn carrier(users: UserNamespace) {
    let script = "test $(cat /sys/class/net/falaj0/carrier) = 1 && echo up; \
                  for i in 1 2 3 4 5 6 7 8 9 10; do test -e /sys/class/net/falaj0 || exit 3; sleep \
                  0.05; done";
    let (near, mut said) = captured(sh(script));
    let mut sandbox = start(SandboxSpec { near, ..spec(users) });
    sandbox.go(End::Near).unwrap();
    assert_eq!(line(&mut said), "up");
    drop(sandbox.take_tap(End::Near));
    assert_eq!(exit_of(&mut sandbox, End::Near), Exit::Code(3));
}

fn kill_9(users: UserNamespace) {
    let mode = if users == UserNamespace::Always { "always" } else { "auto" };
    let token = token("kill");
    let mut holder = Command::new(myself())
        .args(["--holder", mode, &token])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(holder.stdout.take().unwrap());
    let first = line(&mut said);
    if first.starts_with("ignored") {
        ignore(first.trim_start_matches("ignored "));
    }
    assert_eq!([first, line(&mut said)], ["daemon up", "daemon up"]);
    let before = alive(&token);
    assert!(before.len() >= 5, "the holder, two processes 1 and two daemons: {before:?}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_gone(&token);
}

/// Holds a sandbox in which each command leaves a daemon that ignores signals.
fn holder(mode: &str, token: &str) -> ExitCode {
    let user_namespace = if mode == "always" { UserNamespace::Always } else { UserNamespace::Auto };
    let near = probe(&["daemonise", token]);
    let far = probe(&["daemonise", token]);
    let mut sandbox =
        match Sandbox::start(SandboxSpec { near, far, user_namespace, ..SandboxSpec::default() }) {
            Ok(sandbox) => sandbox,
            Err(error) => {
                println!("ignored {error}");
                return ExitCode::FAILURE;
            }
        };
    sandbox.go(End::Near).unwrap();
    sandbox.go(End::Far).unwrap();
    forward(&mut sandbox, &End::BOTH, |_| {});
    std::thread::sleep(Duration::from_secs(30));
    ExitCode::SUCCESS
}

fn dead_side(users: UserNamespace) {
    let mut sandbox = start(SandboxSpec { near: sh("sleep 30"), ..spec(users) });
    sandbox.go(End::Near).unwrap();
    kill(Pid::from_raw(sandbox.pid(End::Near)), Signal::SIGKILL).unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        match sandbox.read_event(End::Near).unwrap() {
            Some(SideEvent::Closed) => {
                assert_eq!(sandbox.read_event(End::Near).unwrap(), None);
                assert_eq!(sandbox.read_event(End::Far).unwrap(), None);
                assert_eq!(sandbox.go(End::Near).map_err(|e| e.kind()), Ok(()));
                assert_eq!(
                    sandbox.signal(End::Near, 15).unwrap_err().kind(),
                    io::ErrorKind::BrokenPipe
                );
                return;
            }
            Some(event) => panic!("{event:?}"),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    panic!("no event");
}

fn dropping(users: UserNamespace) {
    let token = token("drop");
    let (near, mut said) = captured(probe(&["daemonise", &token]));
    let mut sandbox =
        start(SandboxSpec { near, far: probe(&["daemonise", &token]), ..spec(users) });
    sandbox.go(End::Near).unwrap();
    sandbox.go(End::Far).unwrap();
    assert_eq!(line(&mut said), "daemon up");
    forward(&mut sandbox, &End::BOTH, |_| {});
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    assert!(!alive(&token).is_empty());
    let began = Instant::now();
    drop(sandbox);
    println!("dropped in {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    assert_eq!(alive(&token), [0; 0], "drop returns when all are dead");
    assert!(before - descriptors() >= 6, "two TAPs, sockets and pidfds are closed");
    // Not even a zombie is left.
    assert!(nix::sys::wait::waitpid(None, Some(nix::sys::wait::WaitPidFlag::WNOHANG)).is_err());
    // Many repetitions accumulate no descriptors.
    let before = descriptors();
    for _ in 0..10 {
        drop(start(spec(users)));
    }
    assert_eq!(descriptors(), before);
}

fn ctrl_c(users: UserNamespace) {
    let pty = nix::pty::openpty(None, None).unwrap();
    let terminal = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut command = Command::new(myself());
    command.args(["--terminal", if users == UserNamespace::Always { "always" } else { "auto" }]);
    command.stdin(terminal()).stdout(terminal()).stderr(terminal());
    let mut child = {
        use std::os::unix::process::CommandExt;
        // SAFETY: both calls are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        command.spawn().unwrap()
    };
    drop(command);
    drop(pty.slave);
    let mut keyboard = File::from(pty.master.try_clone().unwrap());
    let mut screen = BufReader::new(File::from(pty.master));
    let mut seen = Vec::new();
    let mut text = String::new();
    // Reading a terminal that no process has open any more returns EIO.
    while screen.read_line(&mut text).is_ok_and(|length| length > 0) {
        let word = text.trim().trim_start_matches("^C").to_string();
        if word == "press" {
            keyboard.write_all(b"\x03").unwrap();
        }
        if word.starts_with("ignored") {
            ignore(word.trim_start_matches("ignored "));
        }
        seen.push(word);
        text.clear();
    }
    let status = child.wait().unwrap();
    assert_eq!(
        (status.code(), seen.last().map(String::as_str)),
        (Some(0), Some("foreground again")),
        "{seen:?}"
    );
    assert!(seen.iter().any(|word| word == "exited Code(9)"), "{seen:?}");
}

/// The part of `ctrl_c` that owns the terminal.
fn at_terminal(mode: &str) -> ExitCode {
    let user_namespace = if mode == "always" { UserNamespace::Always } else { UserNamespace::Auto };
    // The test process may run with SIGINT ignored, as under `nohup`: a shell cannot trap it then.
    let near = "trap 'exit 9' INT; echo press; while :; do sleep 0.02; done";
    let near = SandboxSide::command(["env", "--default-signal=INT", "sh", "-c", near]);
    // This command takes the foreground as an interactive shell does, and does not give it back.
    let far = probe(&["take-terminal"]);
    let mut sandbox =
        match Sandbox::start(SandboxSpec { near, far, user_namespace, ..SandboxSpec::default() }) {
            Ok(sandbox) => sandbox,
            Err(error) => {
                println!("ignored {error}");
                return ExitCode::FAILURE;
            }
        };
    sandbox.go(End::Near).unwrap();
    println!("exited {:?}", exit_of(&mut sandbox, End::Near));
    sandbox.go(End::Far).unwrap();
    println!("exited {:?}", exit_of(&mut sandbox, End::Far));
    let own = nix::unistd::getpgrp();
    assert_eq!(nix::unistd::tcgetpgrp(io::stdin()), Ok(own));
    drop(sandbox);
    println!("foreground again");
    ExitCode::SUCCESS
}

fn threads(users: UserNamespace) {
    let (_hold, held) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || held.recv());
    let error = Sandbox::start(spec(users)).unwrap_err();
    assert_eq!((error.step, error.errno), (SetupStep::OneThread, 0));
    assert!(error.to_string().contains("before the first thread"), "{error}");
    drop(_hold);
    let _ = thread.join();
}

fn errors(_: UserNamespace) {
    match available() {
        Ok(()) => {}
        Err(error) if !Uid::effective().is_root() => ignore(&error.to_string()),
        Err(error) => panic!("{error}"),
    }
    if !Uid::effective().is_root() {
        return;
    }
    // The probe runs in a user namespace that does not allow further ones.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$0\" --probe available";
    let (mut near, said) = captured(sh(script));
    near.command.as_mut().unwrap().push(myself());
    let mut sandbox = start(SandboxSpec { near, ..spec(UserNamespace::Always) });
    sandbox.go(End::Near).unwrap();
    exit_of(&mut sandbox, End::Near);
    let said = rest(said);
    println!("{said}");
    assert!(
        said.starts_with("cannot make a user namespace: No space left on device (ENOSPC)"),
        "{said}"
    );
}

fn start_up(users: UserNamespace) {
    let mut times = Vec::new();
    let mut starts = Vec::new();
    let mut spent = Vec::new();
    for _ in 0..20 {
        let before = processor_time();
        let (near, mut near_said) = captured(probe(&["clock"]));
        let (far, mut far_said) = captured(probe(&["clock"]));
        let now = || clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().num_nanoseconds();
        let began = now();
        let mut sandbox = start(SandboxSpec { near, far, ..spec(users) });
        starts.push((now() - began) as f64 / 1e6);
        sandbox.go(End::Near).unwrap();
        sandbox.go(End::Far).unwrap();
        let clocks =
            [line(&mut near_said), line(&mut far_said)].map(|text| text.parse::<i64>().unwrap());
        times.push((clocks.into_iter().max().unwrap() - began) as f64 / 1e6);
        drop(sandbox);
        spent.push((processor_time() - before).num_microseconds());
    }
    times.sort_by(f64::total_cmp);
    starts.sort_by(f64::total_cmp);
    println!(
        "start() to both commands running: min {:.1} median {:.1} max {:.1} ms; start() alone: median {:.1} ms",
        times[0], times[10], times[19], starts[10]
    );
    // A busy machine may increase the processor time of some starts; the minimum of twenty starts
    // does not depend on that.
    let least = spent.iter().min().expect("twenty of them");
    assert!(*least < 60_000, "{spent:?} us of a processor");
}

/// Processor time of this process and of the children that it has waited for.
fn processor_time() -> TimeVal {
    let of = |who| {
        let usage = getrusage(who).expect("the kernel counts it");
        usage.user_time() + usage.system_time()
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

// ------------------------------------------------------------------------------------------ probes

/// The commands that run inside of the sandboxes.
fn probes(name: &str, words: &[&str]) -> ExitCode {
    let timeout = Some(Duration::from_secs(5));
    match (name, words) {
        ("die-by", [number]) => {
            // SAFETY: raise has no preconditions.
            unsafe { libc::raise(number.parse().unwrap()) };
        }
        ("descriptors", []) => {
            let mut open: Vec<i32> = fs::read_dir("/proc/self/fd")
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
                .collect();
            open.sort_unstable();
            let blocked = nix::sys::signal::SigSet::thread_get_mask().unwrap().iter().count();
            // Rust's own start-up ignores SIGPIPE. A child of sh shows the state at exec, which is
            // the relevant one.
            let status = Command::new("sh")
                .args(["-c", "grep SigIgn /proc/self/status"])
                .output()
                .unwrap()
                .stdout;
            let ignored = String::from_utf8(status).unwrap();
            let ignored =
                u64::from_str_radix(ignored.split_whitespace().last().unwrap(), 16).unwrap();
            let pipe =
                if ignored & (1 << (libc::SIGPIPE - 1)) == 0 { "default" } else { "ignored" };
            let open: Vec<String> = open.iter().map(i32::to_string).collect();
            println!("{} blocked {blocked} pipe {pipe}", open.join(" "));
        }
        ("clock", []) => {
            println!("{}", clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().num_nanoseconds());
        }
        ("udp-echo", [address]) => {
            let socket = UdpSocket::bind(SocketAddr::new(address.parse().unwrap(), 7)).unwrap();
            socket.set_read_timeout(timeout).unwrap();
            println!("ready");
            let mut datagram = [0; 2000];
            let (length, from) = socket.recv_from(&mut datagram).unwrap();
            socket.send_to(&datagram[..length], from).unwrap();
        }
        ("udp-once", [address]) => {
            let address: IpAddr = address.parse().unwrap();
            let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any).unwrap();
            socket.set_read_timeout(timeout).unwrap();
            let message: Vec<u8> = (0..999).map(|i| (i * 7 % 251) as u8).collect();
            socket.send_to(&message, SocketAddr::new(address, 7)).unwrap();
            let mut datagram = [0; 2000];
            let length = socket.recv(&mut datagram).unwrap();
            assert_eq!(&datagram[..length], message);
        }
        // Each system call passes ten datagrams to the kernel in one unit; the tenth is shorter.
        ("udp-train", [address, count]) => {
            const UDP_SEGMENT: i32 = 103;
            let address: IpAddr = address.parse().unwrap();
            let socket =
                UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
            let size: i32 = 1000;
            // SAFETY: the value outlives the call, and the length is its own.
            let done = unsafe {
                let value = (&raw const size).cast();
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_UDP,
                    UDP_SEGMENT,
                    value,
                    size_of_val(&size) as u32,
                )
            };
            assert_eq!(done, 0, "{}", io::Error::last_os_error());
            for _ in 0..count.parse().unwrap() {
                let train: Vec<u8> = (0..9500).map(pattern).collect();
                assert_eq!(socket.send_to(&train, SocketAddr::new(address, 7)).unwrap(), 9500);
            }
        }
        // Sends the same datagrams one by one.
        ("udp-single", [address, socket, count]) => {
            let to = SocketAddr::new(address.parse().unwrap(), 7);
            let from = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
            if *socket == "connected" {
                from.connect(to).unwrap();
            }
            for i in 0..count.parse::<usize>().unwrap() {
                let begins = i % 10 * 1000;
                let datagram: Vec<u8> = (begins..(begins + 1000).min(9500)).map(pattern).collect();
                let sent = if *socket == "connected" {
                    from.send(&datagram)
                } else {
                    from.send_to(&datagram, to)
                };
                assert_eq!(sent.unwrap(), datagram.len());
            }
        }
        ("udp-collect", [address, count]) => {
            let socket = UdpSocket::bind(SocketAddr::new(address.parse().unwrap(), 7)).unwrap();
            socket.set_read_timeout(timeout).unwrap();
            println!("ready");
            let mut datagram = [0; 2000];
            for i in 0..count.parse::<usize>().unwrap() {
                let length = socket.recv(&mut datagram).unwrap();
                let from = i % 10 * 1000;
                let expected: Vec<u8> = (from..(from + 1000).min(9500)).map(pattern).collect();
                assert_eq!(&datagram[..length], expected, "datagram {i}");
            }
        }
        ("udp-send", addresses) => {
            for address in addresses {
                let address: IpAddr = address.parse().unwrap();
                let socket =
                    UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })
                        .unwrap();
                socket.send_to(b"hello", SocketAddr::new(address, 9)).unwrap();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        ("udp-burst", [count]) => {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            for _ in 0..count.parse().unwrap() {
                socket.send_to(b"hello", "10.77.0.2:9").unwrap();
            }
            std::thread::sleep(Duration::from_millis(600));
        }
        // Full-size frames with a VLAN tag each.
        ("tagged", [count]) => {
            let index = nix::net::if_::if_nametoindex(INTERFACE).unwrap();
            // SAFETY: the call has no preconditions.
            let socket =
                unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
            assert!(socket >= 0, "{}", io::Error::last_os_error());
            // SAFETY: an address of zeros is a valid one.
            let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            to.sll_family = libc::AF_PACKET as u16;
            to.sll_ifindex = index as i32;
            let mut frame = [End::Far.mac(), End::Near.mac()].concat();
            frame.extend([0x81, 0x00, 0, 5, 0x08, 0x00]);
            frame.resize(1518, 0);
            for _ in 0..count.parse().unwrap() {
                // SAFETY: frame and address outlive the call, the lengths are theirs.
                let sent = unsafe {
                    libc::sendto(
                        socket,
                        frame.as_ptr().cast(),
                        frame.len(),
                        0,
                        (&raw const to).cast(),
                        size_of_val(&to) as libc::socklen_t,
                    )
                };
                assert_eq!(sent, 1518, "{}", io::Error::last_os_error());
            }
            println!("sent");
        }
        ("tcp-receive", [address, megabytes]) => {
            let listener =
                TcpListener::bind(SocketAddr::new(address.parse().unwrap(), 5001)).unwrap();
            println!("ready");
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(timeout).unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            assert_eq!(got.len(), megabytes.parse::<usize>().unwrap() << 20);
            assert!(
                got.iter().enumerate().all(|(i, byte)| *byte == pattern(i)),
                "the bytes differ"
            );
            stream.write_all(b"ok").unwrap();
        }
        ("tcp-send", [address, megabytes]) => {
            let to = SocketAddr::new(address.parse().unwrap(), 5001);
            let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap();
            let bytes: Vec<u8> =
                (0..megabytes.parse::<usize>().unwrap() << 20).map(pattern).collect();
            stream.write_all(&bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            stream.set_read_timeout(timeout).unwrap();
            assert_eq!(rest(stream), "ok");
        }
        ("ping", []) => {
            // SAFETY: the descriptor is new and owned here alone.
            let socket = unsafe {
                let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP);
                assert!(fd >= 0, "no ping socket: {}", io::Error::last_os_error());
                UdpSocket::from_raw_fd(fd)
            };
            socket.set_read_timeout(timeout).unwrap();
            let request = [8, 0, 0, 0, 0, 0, 0, 1, b'f', b'a', b'l', b'a', b'j'];
            socket.send_to(&request, "10.77.0.2:0").unwrap();
            let mut reply = [0; 100];
            let length = socket.recv(&mut reply).unwrap();
            assert_eq!((reply[0], &reply[8..length]), (0, &b"falaj"[..]));
        }
        ("daemonise", [_token]) => {
            // SAFETY: this process has one thread; nothing here depends on state that fork loses.
            unsafe {
                if libc::fork() > 0 {
                    // The command itself ends after its daemon has begun.
                    std::thread::sleep(Duration::from_millis(100));
                    return ExitCode::SUCCESS;
                }
                libc::setsid();
                if libc::fork() > 0 {
                    libc::_exit(0);
                }
                for number in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGPIPE] {
                    signal(number, SigHandler::SigIgn).unwrap();
                }
            }
            println!("daemon up");
            std::thread::sleep(Duration::from_secs(60));
        }
        ("take-terminal", []) => {
            let own = nix::unistd::getpid();
            nix::unistd::setpgid(own, own).unwrap();
            // SAFETY: ignoring a signal has no preconditions.
            unsafe { signal(Signal::SIGTTOU, SigHandler::SigIgn) }.unwrap();
            nix::unistd::tcsetpgrp(io::stdin(), own).unwrap();
        }
        ("available", []) => match Sandbox::start(spec(UserNamespace::Always)) {
            Ok(_) => println!("available"),
            Err(error) => println!("{error}"),
        },
        _ => panic!("no probe {name} {words:?}"),
    }
    ExitCode::SUCCESS
}

fn pattern(i: usize) -> u8 {
    (i.wrapping_mul(2_654_435_761) >> 13) as u8
}
