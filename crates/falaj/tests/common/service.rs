//! Starts a service and queries it over HTTP. A test program that uses this calls [`sends`] first.

use crate::common::{directory, file, program, signal};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Three adapters: `calm` has an envelope; `greedy` and `wild` have none, and may send without
/// limit.
pub(crate) const THREE: &str = r#"
[link.uplink]
rate = "20mbit"
uplink = "namespace"
scheduler = { kind = "wf2q+" }

[link.uplink.flow.calm]
adapter = "namespace"
weight = 2
requires = { rate = "9mbit", delay = "8ms" }
envelope = { rate = "4mbit", burst = "3kB" }
queue = "100p"

[link.uplink.flow.greedy]
adapter = "namespace"
weight = 1
requires = { rate = "3.5mbit" }
queue = "50p"

[link.uplink.flow.wild]
adapter = "namespace"
weight = 1
queue = "50p"
"#;

/// A running service, which is killed when this value is dropped.
pub(crate) struct Service {
    pub(crate) child: Child,
    pub(crate) api: PathBuf,
    pub(crate) file: PathBuf,
    pub(crate) processes: Value,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An HTTP answer: status and body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.body))
    }
}

impl Service {
    pub(crate) fn start(name: &str, text: &str) -> Service {
        Service::start_with(name, text, &[], |_| {})
    }

    /// Starts a service with these further arguments; `prepare` may change the command.
    pub(crate) fn start_with(
        name: &str,
        text: &str,
        more: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Service {
        let file = directory().join(file(name, text));
        // The length of socket names is limited.
        let short =
            std::env::temp_dir().join(format!("falaj-serve-test-{}-{name}", std::process::id()));
        let (api, control) = (short.with_extension("http"), short.with_extension("sock"));
        let words =
            [file.to_str(), Some("--api"), api.to_str(), Some("--control"), control.to_str()]
                .map(Option::unwrap);
        let mut command = program(&[&["serve"], &words[..], more].concat());
        prepare(command.stderr(Stdio::inherit()));
        let child = command.spawn().unwrap();
        let mut service = Service { child, api, file, processes: Value::Null };
        let began = Instant::now();
        // The socket of a killed service may still exist.
        let listens = |service: &Service| UnixStream::connect(&service.api).is_ok();
        while !listens(&service) || service.get("/v1/adapters").json()["adapters"] == json!([]) {
            assert_eq!(service.child.try_wait().unwrap(), None, "it ended");
            assert!(began.elapsed() < Duration::from_secs(60), "it does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        service.processes = service.get("/v1").json()["processes"].clone();
        service
    }

    /// Writes these bytes and returns the answer. If they are not the whole request, closes the
    /// sending side after them.
    pub(crate) fn raw(&self, bytes: &[u8], whole: bool) -> Vec<u8> {
        let mut stream = UnixStream::connect(&self.api).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // The service may refuse before everything is written.
        let _ = stream.write_all(bytes);
        // A client that closes its sending side before the answer gets none.
        if !whole {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        all
    }

    pub(crate) fn api(&self) -> &str {
        self.api.to_str().expect("UTF-8")
    }

    pub(crate) fn ask(&self, method: &str, path: &str, kind: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: falaj\r\nConnection: close\r\n");
        let text = format!("{head}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}");
        let all = self.raw(text.as_bytes(), true);
        let text = String::from_utf8(all).expect("UTF-8");
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("no answer to {method} {path}: {text}"));
        Answer { status: head.split(' ').nth(1).unwrap().parse().unwrap(), body: body.to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "text/plain", "")
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> Answer {
        self.ask("PATCH", path, "application/json", &body.to_string())
    }

    pub(crate) fn adapter(&self, name: &str) -> Value {
        self.get(&format!("/v1/adapters/{name}")).json()
    }

    /// Starts sending from an adapter's namespace to the uplink: `packets` datagrams of `size`
    /// bytes, one every `gap` microseconds.
    pub(crate) fn send(&self, name: &str, gap: u64, size: usize, packets: u64) -> Child {
        let process = self.processes[name].as_i64().expect("it is in a namespace");
        self.send_from(process, gap, size, packets)
    }

    /// Like [`Service::send`], from the namespace of a process.
    pub(crate) fn send_from(&self, process: i64, gap: u64, size: usize, packets: u64) -> Child {
        let numbers = [gap.to_string(), size.to_string(), packets.to_string()];
        within(process).args(["--send", &self.uplink()]).args(numbers).spawn().expect("nsenter")
    }

    /// Kills the service with `SIGKILL`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the uplink's address, the first one of the subnet, with port 9.
    pub(crate) fn uplink(&self) -> String {
        let process = self.processes[""].as_i64().expect("the uplink is in a namespace");
        let routes = std::fs::read_to_string(format!("/proc/{process}/net/fib_trie")).unwrap();
        let address = routes
            .lines()
            .filter_map(|line| line.split("-- ").nth(1))
            .find(|a| a.starts_with("10.77.") && a.ends_with(".1"));
        format!("{}:9", address.expect("it has an address"))
    }

    /// Waits until the condition holds.
    pub(crate) fn until(&self, what: &str, so: impl Fn(&Service) -> bool) {
        let began = Instant::now();
        while !so(self) {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "{what}: {}",
                self.get("/v1/adapters").body
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends the service as an operator does, with `SIGTERM`; its sockets are gone then.
    pub(crate) fn end(mut self) {
        signal("TERM", self.child.id());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        assert!(!self.api.exists() && !self.api.with_extension("sock").exists());
    }
}

/// Returns this program as a command in the network namespace of a process.
pub(crate) fn within(process: i64) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &process.to_string(), "--net"]);
    if !nix::unistd::geteuid().is_root() {
        command.args(["--user", "--preserve-credentials"]);
    }
    command.arg(std::env::current_exe().unwrap());
    command
}

pub(crate) fn up(adapter: &Value) -> &Value {
    &adapter["up"][0]
}

/// If these arguments name a role, such as `--send`, runs this program in that role. Returns true
/// if they name one.
pub(crate) fn sends(words: &[&str]) -> bool {
    let number = |text: &str| text.parse().expect("a number");
    match words {
        ["--send", to, gap, size, packets] => {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            each(number(gap), number(packets), number(size), |payload| {
                drop(socket.send_to(payload, to))
            });
        }
        // Sends each datagram from another source port.
        ["--flows", to, gap, size, packets] => {
            each(number(gap), number(packets), number(size), |payload| {
                let _ = UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(payload, to));
            })
        }
        // Sends at TCP's full speed, in one connection after the other, until killed.
        ["--stream", to] => loop {
            if let Ok(mut stream) = TcpStream::connect(to) {
                while stream.write_all(&[0; 1 << 16]).is_ok() {}
            }
            std::thread::sleep(Duration::from_millis(20));
        },
        // Accepts the connections of `--stream`, and reads from them.
        ["--sink", at] => {
            for stream in TcpListener::bind(at).expect("the port is free").incoming() {
                std::thread::spawn(|| {
                    std::io::copy(&mut stream.expect("a connection"), &mut std::io::sink())
                });
            }
        }
        _ => return false,
    }
    true
}

/// Calls `send` `times` times with `size` bytes: once every `gap` microseconds or, if `gap` is 0,
/// without pauses.
fn each(gap: u64, times: u64, size: u64, mut send: impl FnMut(&[u8])) {
    let (began, payload) = (Instant::now(), vec![0; size as usize]);
    for n in 0..times {
        let then = Duration::from_micros(n * gap);
        std::thread::sleep(then.saturating_sub(began.elapsed()));
        send(&payload);
    }
}
