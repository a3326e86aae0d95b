//! Environment of the cases: the state before and after, processes and the resources that they
//! hold, links and their reports.

use crate::common::{directory, file, program, signal};
use crate::service::{Service, within};
use nix::sys::prctl;
use nix::sys::wait::{WaitPidFlag, waitpid};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

// ------------------------------------------------------------------------------------------------
// before and after

/// Runs a case, and asserts that nothing of it is left afterwards.
pub(crate) fn around(case: fn()) {
    prctl::set_child_subreaper(true).expect("the kernel has subreapers");
    let before = network();
    case();
    let ended = Instant::now();
    loop {
        // Processes whose parent was killed become children of this one.
        while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status.pid().is_some()) {
        }
        let (left, now) = (descendants(std::process::id()), network());
        if left.is_empty() && now == before {
            return;
        }
        if ended.elapsed() > Duration::from_secs(5) {
            let commands: Vec<String> = left.iter().map(|process| command(*process)).collect();
            panic!("left behind: {commands:#?}\nbefore: {before:#?}\nafter: {now:#?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the state of this network namespace: names of interfaces, number of packet sockets,
/// names of falaj's Unix sockets, firewall rules.
pub(crate) fn network() -> Vec<String> {
    let read =
        |name: &str| fs::read_to_string(format!("/proc/self/net/{name}")).unwrap_or_default();
    let interfaces = read("dev")
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
        .collect();
    let packet = read("packet").lines().skip(1).count();
    let names: Vec<String> = read("unix")
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7))
        .map(str::to_owned)
        .collect();
    let mut all: Vec<String> = interfaces;
    all.push(format!("{packet} packet sockets"));
    all.extend(names.into_iter().filter(|name| name.contains("falaj")));
    for words in [&["nft", "list", "ruleset"][..], &["iptables-save"]] {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stderr(Stdio::null());
        // A machine without this command has no such rules.
        if let Ok(output) = command.output() {
            let rules = String::from_utf8_lossy(&output.stdout).into_owned();
            all.extend(rules.lines().filter(|line| !line.starts_with('#')).map(str::to_owned));
        }
    }
    all.sort();
    all
}

/// Returns all descendants of a process that have not ended.
pub(crate) fn descendants(process: u32) -> Vec<u32> {
    let mut all = Vec::new();
    for child in children(process) {
        let state = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        if !state
            .rsplit(')')
            .next()
            .is_none_or(|rest| rest.trim().is_empty() || rest.trim().starts_with('Z'))
        {
            all.push(child);
        }
        all.extend(descendants(child));
    }
    all
}

fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of = |thread: fs::DirEntry| {
        fs::read_to_string(thread.path().join("children")).unwrap_or_default()
    };
    threads
        .flat_map(|thread| {
            of(thread).split(' ').filter_map(|n| n.parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}

/// Returns the command line of a process.
pub(crate) fn command(process: u32) -> String {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

/// Resources that a process holds: threads, children, open files by type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    threads: usize,
    children: usize,
    files: BTreeMap<String, usize>,
}

impl Footprint {
    /// Returns the resources, as soon as they stay the same for 50 ms: until then the connection of
    /// the last client may still be open.
    pub(crate) fn of(process: u32) -> Footprint {
        let mut last = Footprint::now(process);
        for alike in std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(50));
            Footprint::now(process)
        }) {
            if alike == last {
                break;
            }
            last = alike;
        }
        last
    }

    fn now(process: u32) -> Footprint {
        let count =
            |what: &str| fs::read_dir(format!("/proc/{process}/{what}")).map_or(0, Iterator::count);
        let mut files = BTreeMap::new();
        for file in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
            let Ok(target) = fs::read_link(file.path()) else { continue };
            let kind = target.to_string_lossy().split(":[").next().unwrap_or_default().to_owned();
            *files.entry(kind).or_default() += 1;
        }
        Footprint { threads: count("task"), children: children(process).len(), files }
    }

    /// Asserts that the process holds the same as before, within 60 s: the connection of the last
    /// client may still be open for a moment.
    pub(crate) fn is_that_of(&self, process: u32) {
        let began = Instant::now();
        loop {
            let now = Footprint::now(process);
            if now == *self {
                return;
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "before: {self:#?}\nafter: {now:#?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the number in an environment variable.
pub(crate) fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Generator of pseudo-random numbers, which are the same in each run; their effect may depend on
/// the machine's timing.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Waits until the condition holds.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

// --------------------------------------------------------------------------------------- a service

/// A service, and its messages.
pub(crate) struct LoggedService {
    pub(crate) service: Service,
    said: PathBuf,
}

impl LoggedService {
    pub(crate) fn start(name: &str, text: &str, more: &[&str]) -> LoggedService {
        LoggedService::start_with(name, text, more, |_| {})
    }

    /// Starts the service; `by` may change the command.
    pub(crate) fn start_by(name: &str, text: &str, by: impl FnOnce(&mut Command)) -> LoggedService {
        LoggedService::start_with(name, text, &[], by)
    }

    fn start_with(
        name: &str,
        text: &str,
        more: &[&str],
        by: impl FnOnce(&mut Command),
    ) -> LoggedService {
        let said = directory().join(format!("{name}.said"));
        File::create(&said).expect("a file can be made");
        // Several processes may write to the file, one after the other.
        let to = File::options().append(true).open(&said).expect("it was made");
        let service = Service::start_with(&format!("{name}.toml"), text, more, |command| {
            // With this watchdog interval the service notifies the service manager every 100 ms,
            // and checks its adapters as often.
            command.stderr(to).env("WATCHDOG_USEC", "200000");
            by(command);
        });
        LoggedService { service, said }
    }

    pub(crate) fn id(&self) -> u32 {
        self.service.child.id()
    }

    /// Returns the messages so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.said).expect("it is there")
    }

    /// Returns the file, opened so that another process appends its messages.
    pub(crate) fn says_where(&self) -> File {
        File::options().append(true).open(&self.said).expect("it is there")
    }

    /// Waits until the service has printed these words.
    pub(crate) fn says(&self, words: &str) {
        let began = Instant::now();
        while !self.said().contains(words) {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "never said: {words}, but {}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Replaces the service's file with `text`, and makes the service read it.
    pub(crate) fn read_again(&self, text: &str) {
        fs::write(&self.service.file, text).expect("it is ours");
        signal("HUP", self.id());
    }

    /// Returns the guaranteed rate of an adapter in bit/s.
    pub(crate) fn rate(&self, name: &str) -> u64 {
        number(&self.up(name)["guarantee"]["rate"])
    }

    /// Returns the report on an adapter's flow in the up direction.
    pub(crate) fn up(&self, name: &str) -> Value {
        self.service.adapter(name)["up"][0].clone()
    }

    /// Returns the number of an adapter's packets sent so far.
    pub(crate) fn passed(&self, name: &str) -> u64 {
        number(&self.up(name)["total"]["sent"])
    }

    /// Waits until further packets of the adapter pass.
    pub(crate) fn passes(&self, name: &str) {
        let before = self.passed(name);
        self.service.until(&format!("packets of {name} pass"), |_| self.passed(name) >= before + 5);
    }

    /// Asserts that every packet of each flow is accounted for, and that no guarantee was violated.
    pub(crate) fn adds_up(&self) {
        let sample = self.service.get("/v1/adapters").json();
        for adapter in sample["adapters"].as_array().expect("adapters") {
            for flow in
                ["up", "down"].iter().flat_map(|way| adapter[way].as_array().expect("flows"))
            {
                let total = &flow["total"];
                let dropped: u64 =
                    total["dropped"].as_object().expect("reasons").values().map(number).sum();
                let known = number(&total["sent"]) + dropped + number(&flow["backlog"]);
                assert_eq!(number(&total["offered"]), known, "{flow:#}");
                assert_eq!(flow["breaches"]["guarantee"], 0, "{flow:#}");
            }
        }
    }

    /// Ends the service as an operator does.
    pub(crate) fn end(self) {
        self.service.end();
    }
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

/// A process that sends until this value is dropped.
pub(crate) struct Sender(Child);

impl Sender {
    /// Sends a packet of 1000 B every 4 ms, from the namespace of a process.
    pub(crate) fn from(process: u32, to: &str) -> Sender {
        Sender::words(process, &["--send", to, "4000", "1000", &u64::MAX.to_string()])
    }

    /// Runs a role of [`crate::service::sends`] in the namespace of a process.
    pub(crate) fn words(process: u32, words: &[&str]) -> Sender {
        Sender::spawn(within(process.into()).args(words))
    }

    /// Starts any command.
    pub(crate) fn spawn(command: &mut Command) -> Sender {
        Sender(command.spawn().expect("it starts"))
    }

    pub(crate) fn process(&self) -> u32 {
        self.0.id()
    }
}

/// Senders in an adapter's namespace, towards the uplink.
impl Sender {
    /// Sends a packet of 1000 B every 4 ms.
    pub(crate) fn calm(told: &LoggedService, name: &str) -> Sender {
        Sender(told.service.send(name, 4_000, 1_000, u64::MAX))
    }

    /// Sends packets of 1400 B, one every `gap` microseconds.
    pub(crate) fn each(told: &LoggedService, name: &str, gap: u64) -> Sender {
        Sender(told.service.send(name, gap, 1_400, u64::MAX))
    }

    /// Sends each packet from another source port.
    pub(crate) fn flows(told: &LoggedService, name: &str, gap: u64, size: u64) -> Sender {
        let numbers = [gap, size, u64::MAX].map(|number| number.to_string());
        Sender::behind(told, name, "--flows", &numbers)
    }

    /// Sends over TCP to a [`Sender::sink`].
    pub(crate) fn stream(told: &LoggedService, name: &str) -> Sender {
        Sender::behind(told, name, "--stream", &[])
    }

    /// Receives the streams of [`Sender::stream`] behind the uplink.
    pub(crate) fn sink(told: &LoggedService) -> Sender {
        Sender::behind(told, "", "--sink", &[])
    }

    fn behind(told: &LoggedService, name: &str, how: &str, numbers: &[String]) -> Sender {
        let process = told.service.processes[name].as_i64().expect("it is in a namespace");
        let uplink = told.service.uplink();
        Sender::spawn(within(process).args([how, &uplink]).args(numbers))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// ------------------------------------------------------------------------------------------ a link

/// A running `falaj run`, and its control socket.
pub(crate) struct Link {
    pub(crate) child: Child,
    pub(crate) control: PathBuf,
}

impl Link {
    /// Starts a link with these arguments, which end with the command, and waits until it has
    /// begun.
    pub(crate) fn start(name: &str, words: &[&str]) -> Link {
        Link::start_by(name, program, words)
    }

    /// Like [`Link::start`]; `by` builds the command from the arguments.
    pub(crate) fn start_by(
        name: &str,
        by: impl FnOnce(&[&str]) -> Command,
        words: &[&str],
    ) -> Link {
        let control = std::env::temp_dir().join(format!("{name}.sock"));
        let at = ["run", "--internet", "none", "--control", control.to_str().expect("UTF-8")];
        let child = by(&[&at[..], words].concat())
            .stdin(Stdio::piped())
            .spawn()
            .expect("the program starts");
        until("the link begins", || UnixStream::connect(&control).is_ok());
        Link { child, control }
    }

    /// Sends a request to the control socket, and returns the answer.
    pub(crate) fn ask(&self, request: &Value) -> Value {
        let mut lines = BufReader::new(UnixStream::connect(&self.control).expect("it listens"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("it says who it is");
        lines.get_mut().write_all(format!("{request}\n").as_bytes()).expect("it reads");
        line.clear();
        lines.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Sets a value of the link.
    pub(crate) fn set(&self, set: &str) {
        let answer = self.ask(&json!({ "do": "set", "set": [set] }));
        assert!(answer["error"].is_null(), "{answer}");
    }

    /// Asserts that every packet is accounted for; returns how many were offered to the link, by
    /// direction.
    pub(crate) fn adds_up(&self) -> [u64; 2] {
        let report = self.ask(&json!({ "do": "show" }));
        [0, 1].map(|direction| {
            let total = &report["ok"]["links"][0]["directions"][direction]["total"];
            let dropped: u64 =
                total["dropped"].as_object().expect("reasons").values().map(number).sum();
            assert_eq!(
                number(&total["offered"]),
                number(&total["sent"]) + dropped + number(&total["backlog"]),
                "{total}"
            );
            number(&total["offered"])
        })
    }

    /// Closes the input, which ends the command; returns the exit status and output.
    pub(crate) fn end(mut self) -> crate::common::Ran {
        drop(self.child.stdin.take());
        self.child.wait_with_output().expect("it ends").into()
    }

    /// Waits for the link to end by itself; returns the exit status and output.
    pub(crate) fn ended(mut self) -> crate::common::Ran {
        let input = self.child.stdin.take();
        let ran = self.child.wait_with_output().expect("it ends").into();
        drop(input);
        ran
    }

    /// Returns the process inside the link whose command line begins with `words`.
    pub(crate) fn process(&self, words: &str) -> Option<u32> {
        descendants(self.child.id())
            .into_iter()
            .find(|process| command(*process).starts_with(words))
    }
}

/// Returns the path of this program, for commands inside a link. It has no characters that a shell
/// interprets.
pub(crate) fn me() -> String {
    let path =
        std::env::current_exe().expect("a path").into_os_string().into_string().expect("UTF-8");
    assert!(!path.contains([' ', '\'', '$']), "{path}");
    path
}

/// Probes that run at the ends of links.
pub(crate) fn probe(words: &[&str]) {
    let far = ("10.77.0.2", 4711);
    match words {
        // Echoes datagrams forever.
        ["echo"] => {
            let socket = UdpSocket::bind(("0.0.0.0", far.1)).expect("a socket");
            let mut datagram = [0; 2000];
            loop {
                let (length, from) = socket.recv_from(&mut datagram).expect("a datagram");
                socket.send_to(&datagram[..length], from).expect("a way back");
            }
        }
        // Sends requests forever, one at a time; prints each round-trip time, in milliseconds, on a
        // line.
        ["ask"] => {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
            for n in 0_u64.. {
                let began = Instant::now();
                // Sending fails while no process listens there.
                let _ = socket.send_to(&n.to_be_bytes(), far);
                let mut answer = [0; 8];
                while socket.recv(&mut answer).is_ok() {
                    if answer == n.to_be_bytes() {
                        println!("{}", began.elapsed().as_secs_f64() * 1e3);
                        break;
                    }
                }
            }
        }
        // Sends `times` datagrams of 1000 B, one every `gap` microseconds; prints the round-trip
        // times of those that came back, in milliseconds, as JSON.
        ["steady", to, gap, times] => {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a time");
            // Sending fails while no process listens there.
            until("somebody is there", || {
                socket.send_to(b"?", to).is_ok() && socket.recv(&mut [0; 8]).is_ok()
            });
            let (reader, began) = (socket.try_clone().expect("a descriptor"), Instant::now());
            let came = std::thread::spawn(move || {
                let (mut datagram, mut took) = ([0; 2000], Vec::new());
                while let Ok(length) = reader.recv(&mut datagram) {
                    if length == 1_000 {
                        let sent =
                            u64::from_be_bytes(datagram[..8].try_into().expect("eight bytes"));
                        took.push(
                            (began.elapsed() - Duration::from_nanos(sent)).as_secs_f64() * 1e3,
                        );
                    }
                }
                took
            });
            let (gap, mut datagram) =
                (Duration::from_micros(gap.parse().expect("a number")), [0; 1_000]);
            for n in 0..times.parse().expect("a number") {
                std::thread::sleep((gap * n).saturating_sub(began.elapsed()));
                datagram[..8].copy_from_slice(&(began.elapsed().as_nanos() as u64).to_be_bytes());
                socket.send_to(&datagram, to).expect("sent");
            }
            println!("{:?}", came.join().expect("it reads"));
        }
        // Removes an interface.
        ["remove", interface] => crate::netlink::delete(interface),
        _ => panic!("no probe {words:?}"),
    }
}

/// Returns a command that sends requests until its link's input ends, and the peer that answers.
pub(crate) fn asking() -> (String, String) {
    let me = me();
    (format!("{me} --fault ask & cat; kill $!"), format!("{me} --fault echo"))
}

/// Creates a file system of this size, for this case alone.
pub(crate) fn small_disk(name: &str, size: &str) -> PathBuf {
    let place = std::env::temp_dir().join(name);
    fs::create_dir_all(&place).expect("it is ours");
    let status = Command::new("mount")
        .args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"])
        .arg(&place)
        .status();
    assert!(status.expect("there is mount").success(), "a tmpfs in a mount namespace of one's own");
    place
}

/// Fills the file system.
pub(crate) fn fill(place: &Path) {
    let mut file = File::create(place.join("filler")).expect("there is a name left");
    while file.write_all(&[0; 4096]).is_ok() {}
}

/// Writes a scenario to the directory of the others; returns its absolute path.
pub(crate) fn scenario(name: &str, text: &str) -> String {
    directory().join(file(name, text)).to_str().expect("UTF-8").to_owned()
}
