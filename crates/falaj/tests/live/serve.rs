//! Tests `falaj serve` with real packets: adapters in namespaces, queried and changed over HTTP.
//!
//! This program also sends in the adapters' namespaces (`--send`). Where possible, assertions hold
//! on a busy machine too: they use counts, and the instants at which the service took them.

use crate::common::{directory, file, program, signal};
use crate::service::{Service, THREE, up, within};
use crate::{host, netlink};
use libtest_mimic::{Completion, Trial};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_rustls::rustls;

const TESTS: &[(&str, fn())] = &[
    ("who_floods_takes_nothing_that_others_were_guaranteed", flood),
    ("a_storm_of_tiny_packets_takes_its_own_share", storm),
    ("changes_are_admitted_or_refused_and_take_effect", changes),
    ("the_file_is_read_again", reload),
    ("whatever_is_asked_nothing_breaks", malformed),
    ("what_cannot_be_guaranteed_is_not_served", refused),
    ("a_terminal_shows_and_changes_it", top),
    ("the_page_is_carried_and_asks_for_the_token", page),
    ("it_keeps_no_right_that_it_does_not_need", rights),
    ("all_its_threads_have_one_heap", heap),
    ("a_service_manager_is_told", manager),
    ("a_journal_is_told_levels_and_values", journal),
    ("over_tcp_one_bears_the_token", token),
    ("beyond_this_host_it_is_encrypted", encrypted),
    ("adapters_come_in_other_namespaces", late),
    ("guests_of_a_driver_domain_get_their_packets_in_batches", guests),
    ("addresses_are_their_owners_over_a_restart", addresses),
    ("killed_it_fails_closed_and_comes_up_as_it_was", closed),
    ("killed_it_fails_open_where_that_was_asked_for", open),
];

/// Runs the case of this name. Returns true if it exists.
pub(crate) fn case(name: &str) -> bool {
    match name {
        "addresses" => addresses_within(),
        "open" => open_within(),
        _ => return false,
    }
    true
}

/// Returns all tests as trials.
pub(crate) fn trials(possible: bool) -> Vec<Trial> {
    let trial = |&(name, test): &(&str, fn())| {
        crate::trial(possible, name.to_owned(), move || {
            test();
            Ok(Completion::Completed)
        })
    };
    TESTS.iter().map(trial).collect()
}

// ------------------------------------------------------------------------------------------- tools

/// An existing network namespace, such as a container's. It is removed when this value is dropped.
struct Namespace(Child);

impl Namespace {
    fn new() -> Namespace {
        let all = if nix::unistd::geteuid().is_root() { "-n" } else { "-Urn" };
        let child = Command::new("unshare").args([all, "sleep", "300"]).spawn().expect("unshare");
        let namespace = Namespace(child);
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
        let began = Instant::now();
        // Until the process sleeps, it may not yet have a namespace of its own.
        while of(&namespace.0.id().to_string()) == of("self") {
            assert!(began.elapsed() < Duration::from_secs(10), "no namespace");
            std::thread::sleep(Duration::from_millis(5));
        }
        namespace
    }

    fn process(&self) -> i64 {
        self.0.id().into()
    }

    /// Returns whether its interface has a carrier; `None` if there is no interface.
    fn is_running(&self) -> Option<bool> {
        let output =
            within(self.process()).args(["--running", "falaj0"]).output().expect("nsenter");
        match String::from_utf8(output.stdout).unwrap().trim() {
            "none" => None,
            running => Some(running == "true"),
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether an interface has a carrier, as a word; `none` if it does not exist.
pub(crate) fn is_running(interface: &str) -> String {
    use nix::net::if_::InterfaceFlags;
    let mut all = nix::ifaddrs::getifaddrs().unwrap();
    let found = all.find(|known| known.interface_name == interface);
    found.map_or("none".into(), |known| {
        known.flags.contains(InterfaceFlags::IFF_RUNNING).to_string()
    })
}

// ------------------------------------------------------------------------------------------- tests

fn flood() {
    let service = Service::start("serve-flood.toml", THREE);
    assert_eq!(
        std::fs::metadata(&service.api).unwrap().permissions().mode() & 0o077,
        0,
        "its user's alone"
    );
    // 1000 B and 42 B of headers every 4 ms are 2.1 Mbit/s.
    let mut calm = service.send("calm", 4_000, 1_000, 1_500);
    let mut others =
        [service.send("greedy", 100, 1_400, 60_000), service.send("wild", 20, 1_400, 300_000)];
    // The largest shortfall in a window in which `greedy` was always backlogged.
    let (mut demanded, mut missing) = (0, f64::NEG_INFINITY);
    let mut seen = 0;
    while calm.try_wait().unwrap().is_none() {
        let sample = service.get("/v1/adapters").json();
        let at = sample["at_ns"].as_u64().unwrap();
        let greedy = sample["adapters"]
            .as_array()
            .unwrap()
            .iter()
            .find(|a| a["name"] == "greedy")
            .unwrap()
            .clone();
        let window = &up(&greedy)["window"];
        if at != seen && window["demanded"] == true {
            demanded += 1;
            let seconds = window["over_ns"].as_f64().unwrap() / 1e9;
            missing = missing.max((5e6 - window["sent"].as_f64().unwrap()) * seconds);
        }
        seen = at;
        std::thread::sleep(Duration::from_millis(200));
    }
    others.iter_mut().for_each(|sender| {
        let _ = sender.kill();
        let _ = sender.wait();
    });
    service.until("all that was sent has left", |service| {
        up(&service.adapter("calm"))["backlog"] == 0
    });
    std::thread::sleep(Duration::from_millis(1_100));
    let [calm, greedy, wild] = ["calm", "greedy", "wild"].map(|name| service.adapter(name));
    for adapter in [&calm, &greedy, &wild] {
        assert_eq!(up(adapter)["breaches"]["guarantee"], 0, "{adapter:#}");
        assert_eq!(up(adapter)["breaches"]["rate"], 0, "{adapter:#}");
    }
    // On a busy machine, packets sent evenly may arrive in a burst. The excess is attributed to the
    // sender, and its delay bound does not apply.
    let (total, guarantee) = (&up(&calm)["total"], &up(&calm)["guarantee"]);
    assert_got_through(&calm, 1_000);
    if total["beyond"] == 0 {
        assert!(total["delay"]["max_ns"].as_u64() <= guarantee["delay_ns"].as_u64(), "{calm:#}");
        assert_eq!(total["dropped"]["queue_full"], 0);
    }
    assert!(demanded >= 1, "the flood never filled a queue for a whole window: {greedy:#}");
    // `greedy` gets a quarter of the link, less the packets cut off by the window.
    assert!(missing <= 4.0 * 8.0 * 1_514.0, "{missing} bits");
    assert!(up(&wild)["total"]["dropped"]["queue_full"].as_u64().unwrap() > 0, "{wild:#}");
    assert!(wild["spent_ns"].as_u64().unwrap() > calm["spent_ns"].as_u64().unwrap());

    let metrics = service.get("/metrics").body;
    assert!(
        metrics.contains(
            "falaj_adapter_guaranteed_rate_bits_per_second{adapter=\"calm\",direction=\"up\"} \
             10000000"
        ),
        "{metrics}"
    );
    let each = service.get("/metrics?flows=true").body;
    assert!(
        each.contains("sent_packets_total{adapter=\"calm\",direction=\"up\",flow=\"calm\"}"),
        "{each}"
    );
    assert!(
        metrics.contains("falaj_adapter_dropped_packets_total{adapter=\"wild\"")
            && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );

    // A burst beyond the envelope is attributed to the sender.
    let before = up(&service.adapter("calm"))["total"]["beyond"].as_u64().unwrap();
    service.send("calm", 0, 1_000, 60).wait().unwrap();
    service.until("beyond its envelope", |service| {
        up(&service.adapter("calm"))["total"]["beyond"].as_u64().unwrap() > before
    });
    assert_eq!(up(&service.adapter("calm"))["breaches"]["guarantee"], 0);
    service.end();
}

/// Asserts that an adapter sent at least `packets` packets up, and that all of them left, except
/// those beyond its envelope. A busy host makes bursts of evenly sent packets, and their loss is
/// attributed to the sender.
fn assert_got_through(adapter: &Value, packets: u64) {
    let [offered, sent, beyond] =
        ["offered", "sent", "beyond"].map(|key| up(adapter)["total"][key].as_u64().unwrap());
    assert!(offered >= packets && sent >= offered - beyond, "{adapter:#}");
}

/// While one adapter keeps to its envelope, another sends the smallest packets as fast as possible.
fn storm() {
    let service = Service::start("serve-storm.toml", THREE);
    let mut wild = service.send("wild", 0, 18, 2_000_000);
    service.send("calm", 4_000, 1_000, 500).wait().unwrap();
    wild.kill().unwrap();
    wild.wait().unwrap();
    service.until("all that was sent has left", |service| {
        up(&service.adapter("calm"))["backlog"] == 0
    });
    std::thread::sleep(Duration::from_millis(1_100));
    let [calm, wild] = ["calm", "wild"].map(|name| service.adapter(name));
    assert_got_through(&calm, 500);
    assert_eq!(up(&calm)["breaches"]["guarantee"], 0, "{calm:#}");
    // The processor time for the packets of `wild` is attributed to `wild`, and reported.
    assert!(
        up(&wild)["total"]["offered"].as_u64() > up(&calm)["total"]["offered"].as_u64(),
        "{wild:#}"
    );
    assert!(wild["spent_ns"].as_u64() > calm["spent_ns"].as_u64(), "{wild:#}");
    let metrics = service.get("/metrics").body;
    assert!(metrics.contains("falaj_adapter_held_back_turns_total{adapter=\"wild\"}"), "{metrics}");
    service.end();
}

fn changes() {
    let service = Service::start("serve-changes.toml", THREE);
    let rate =
        |service: &Service, name: &str| up(&service.adapter(name))["guarantee"]["rate"].as_u64();
    // The rate is rounded down.
    assert_eq!(rate(&service, "greedy"), Some(5_000_000));
    // A check changes nothing.
    let asked = service.patch("/v1/adapters/wild?check=true", &json!({ "weight": 10 }));
    assert_eq!(
        (asked.status, asked.json()["what"].as_str()),
        (409, Some("not all requirements can be guaranteed")),
        "{}",
        asked.body
    );
    assert!(
        asked.body.contains("calm needs") && asked.body.contains("would fit"),
        "{}",
        asked.body
    );
    let asked = service.patch("/v1/adapters/greedy?check=true", &json!({ "queue": "60p" }));
    assert_eq!((asked.status, &asked.json()["at_ns"]), (200, &Value::Null), "{}", asked.body);
    // A change that would break a guarantee is refused.
    assert_eq!(service.patch("/v1/adapters/wild", &json!({ "weight": 10 })).status, 409);
    let made = service
        .patch("/v1/adapters/calm", &json!({ "weight": 3, "requires": { "rate": "11mbit" } }));
    assert_eq!(made.status, 200, "{}", made.body);
    service.until("another guarantee", |service| rate(service, "greedy") == Some(4_000_000));
    assert!(service.get("/v1/scenario").body.contains("11mbit"));
    assert_eq!(service.patch("/v1/adapters/nobody", &json!({ "weight": 1 })).status, 404);
    assert_eq!(service.patch("/v1/adapters/wild", &json!({ "wieght": 1 })).status, 409);
    let gone = service.ask("DELETE", "/v1/adapters/wild", "text/plain", "");
    assert_eq!(gone.status, 200, "{}", gone.body);
    service.until("it is gone", |service| service.get("/v1/adapters/wild").status == 404);
    // An adapter in a new namespace can only be created at the start.
    let put =
        service.ask("PUT", "/v1/adapters/late", "application/json", "{\"adapter\": \"namespace\"}");
    assert!(put.status == 409 && put.body.contains("only made at the start"), "{}", put.body);
    service.end();
}

fn reload() {
    let service = Service::start("serve-reload.toml", THREE);
    let rate = |service: &Service| up(&service.adapter("calm"))["guarantee"]["rate"].as_u64();
    assert_eq!(rate(&service), Some(10_000_000));
    // A file that is wrong, or does not fit, changes nothing.
    for wrong in ["[link", &THREE.replace("20mbit", "10mbit")] {
        std::fs::write(&service.file, wrong).unwrap();
        signal("HUP", service.child.id());
    }
    std::fs::write(&service.file, THREE.replace("20mbit", "40mbit")).unwrap();
    signal("HUP", service.child.id());
    service.until("the changed scenario file takes effect", |service| {
        rate(service) == Some(20_000_000)
    });
    service.end();
}

fn malformed() {
    let service = Service::start("serve-malformed.toml", THREE);
    let description = service.get("/v1/openapi.json").json();
    let paths = description["paths"].as_object().unwrap();
    assert!(
        paths.contains_key("/v1/adapters/{name}") && paths.contains_key("/metrics"),
        "{description}"
    );
    let deep = "[".repeat(5_000);
    let long = "x".repeat(100_000);
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "{}",
        "{\"weight\": null}",
        "{\"weight\": 1e999}",
        "{\"weight\": {\"a\": null}}",
        "{\"a=b\": 1}",
        "{\"\": 1}",
        "{\"weight\": \"\\u0000\\n\\\"]\"}",
        "{\"weight\": -1, \"queue\": \"\"}",
        "\u{fffd}",
        &deep,
        &long,
        "{\"need\": {\"rate\": []}}",
        "{\"flow\": {\"x\": {}}}",
        "{\"adapter\": \"tap:\"}",
        "{\"adapter\": \"no-such-interface\"}",
    ];
    let words = [
        "calm",
        "a%2Fb",
        "%00",
        "%ff",
        "..",
        "calm%2F",
        "%22",
        "x",
        "calm?check=maybe",
        "calm?drop=true&drop=1",
        "?",
    ];
    let mut statuses = std::collections::BTreeMap::<u16, u32>::new();
    for method in ["GET", "PUT", "PATCH", "DELETE", "POST", "HEAD", "OPTIONS", "BREW"] {
        for (n, body) in bodies.iter().enumerate() {
            for (m, word) in words.iter().enumerate().filter(|(m, _)| (n + m) % 3 == 0) {
                // A complete request with a real name would be carried out.
                let word = if method == "DELETE" && *word == "calm" { "nobody" } else { word };
                for path in
                    [format!("/v1/adapters/{word}"), "/v1/scenario".into(), format!("/{word}")]
                {
                    let path = if m % 2 == 0 {
                        format!(
                            "{path}{}",
                            if path.contains('?') { "&check=true" } else { "?check=true" }
                        )
                    } else {
                        path
                    };
                    let kind = if n % 5 == 4 { "text/plain" } else { "application/json" };
                    *statuses.entry(service.ask(method, &path, kind, body).status).or_default() +=
                        1;
                }
            }
        }
    }
    assert!(statuses.keys().all(|status| (200..500).contains(status)), "{statuses:?}");
    // Input that is not HTTP at all.
    let mut random = 88_172_645_463_325_252_u64;
    for length in 0..100 {
        let bytes: Vec<u8> = (0..length * 7)
            .map(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random as u8
            })
            .collect();
        let answer = service.raw(&bytes, false);
        assert!(!answer.starts_with(b"HTTP/1.1 5"), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(up(&service.adapter("calm"))["breaches"]["guarantee"], 0);
    service.end();
}

fn refused() {
    let ran = |name: &str, text: &str| {
        let output =
            program(&["serve", file(name, text), "--api", "/nowhere/at/all"]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = ran("serve-refused.toml", &THREE.replace("9mbit", "11mbit"));
    assert_eq!(status, Some(2));
    assert!(
        said.contains("calm needs 11mbit")
            && said.contains("would fit")
            && said.contains("plan fits"),
        "{said}"
    );
    let (status, said) = ran("serve-none.toml", "[link.a]\nrate = \"1mbit\"\n");
    assert!(status == Some(2) && said.contains("no flow of link a has an `adapter`"), "{said}");
    let (status, said) = ran(
        "serve-port.toml",
        &THREE.replacen("\"namespace\"\nweight = 1", "\"nfqueue:3\"\nweight = 1", 1),
    );
    assert!(
        status == Some(2) && said.contains("adapter greedy: a queue of the firewall"),
        "{said}"
    );
    // A start that fails leaves no socket behind.
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let place = directory().join("serve-busy");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir(&place).unwrap();
    let output = program(&["serve", file("serve-busy.toml", THREE), "--tcp", &address])
        .args(["--token-file", file("serve-busy-token", "sixteen letters!\n")])
        .args(["--control", "serve-busy/control.sock"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && said.contains(&format!("--tcp {address}: ")),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "{said}");
    // A link of two ends has no adapters.
    let output = program(&["run", "serve-refused.toml", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // All three adapters fit. If they required less, further adapters would fit too.
    let fits =
        program(&["plan", "fits", file("serve-fits.toml", THREE), "--more", "greedy", "--json"])
            .output()
            .unwrap();
    let fits: Value =
        serde_json::from_slice(&fits.stdout).unwrap_or_else(|error| panic!("{error}: {fits:?}"));
    assert_eq!(
        (&fits["fits"], &fits["directions"][0]["room_for"]),
        (&json!(true), &json!(0)),
        "{fits:#}"
    );
    let easy = THREE
        .replace("9mbit\", delay = \"8ms", "4900kbit")
        .replace("\"3.5mbit\" }\nqueue", "\"1mbit\" }\nqueue");
    let fits =
        program(&["plan", "fits", file("serve-fits.toml", &easy), "--more", "greedy", "--json"])
            .output()
            .unwrap();
    let fits: Value =
        serde_json::from_slice(&fits.stdout).unwrap_or_else(|error| panic!("{error}: {fits:?}"));
    // The weights are 2, 1, 1 and n more of 1. Of 20 Mbit/s, weight 2 gets 2/(4 + n): 5 Mbit/s for
    // n = 4, which covers 4.9 Mbit/s, but 4.4 Mbit/s for n = 5.
    assert_eq!(fits["directions"][0]["room_for"], 4, "{fits:#}");
}

/// A program on a terminal, and its output there.
struct OnTerminal {
    child: Child,
    master: std::fs::File,
    slave: std::os::fd::OwnedFd,
    before: nix::sys::termios::Termios,
    written: String,
}

impl OnTerminal {
    fn start(words: &[&str]) -> OnTerminal {
        let size = nix::pty::Winsize { ws_row: 30, ws_col: 140, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = nix::pty::openpty(&size, None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let before = nix::sys::termios::tcgetattr(&pty.slave).unwrap();
        let mut command = program(words);
        let child =
            command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        OnTerminal {
            child,
            master: pty.master.into(),
            slave: pty.slave,
            before,
            written: String::new(),
        }
    }

    /// Reads output for a moment.
    fn read(&mut self) {
        let mut ready = [nix::poll::PollFd::new(
            std::os::fd::AsFd::as_fd(&self.master),
            nix::poll::PollFlags::POLLIN,
        )];
        if nix::poll::poll(&mut ready, 50_u8).unwrap() > 0 {
            let mut buffer = [0; 65_536];
            let n = self.master.read(&mut buffer).unwrap();
            self.written += &String::from_utf8_lossy(&buffer[..n]);
        }
    }

    fn until(&mut self, what: &str, so: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !so(&self.written) {
            assert!(began.elapsed() < Duration::from_secs(30), "{what}: {:?}", self.tail());
            self.read();
        }
    }

    /// Returns the last part of the output.
    fn tail(&self) -> String {
        let all: Vec<char> = self.written.chars().collect();
        all[all.len().saturating_sub(2_000)..].iter().collect()
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the program has ended, and checks that the terminal is as before.
    fn ended(mut self) -> String {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "it does not end: {:?}",
                self.tail()
            );
            self.read();
        }
        self.read();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", self.tail());
        let now = nix::sys::termios::tcgetattr(&self.slave).unwrap();
        assert_eq!(
            (now.local_flags, now.input_flags),
            (self.before.local_flags, self.before.input_flags)
        );
        let (left, shown) = (self.written.rfind("\x1b[?1049l"), self.written.rfind("\x1b[?25h"));
        assert!(left.is_some() && left > self.written.rfind("\x1b[?1049h"), "{:?}", self.tail());
        assert!(shown.is_some() && shown > self.written.rfind("\x1b[?25l"), "{:?}", self.tail());
        std::mem::take(&mut self.written)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn top() {
    let service = Service::start("serve-top.toml", THREE);
    let mut calm = service.send("calm", 4_000, 1_000, 10_000);
    let once = |words: &[&str]| {
        let output = program(&[&["top", "--once"], words].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    service.until("something was sent", |service| {
        up(&service.adapter("calm"))["window"]["sent"].as_f64() > Some(1e6)
    });
    let screen = once(&["--api", service.api(), "--width", "140"]);
    assert!(
        !screen.contains('\x1b') && screen.lines().all(|line| line.chars().count() <= 140),
        "{screen}"
    );
    let row = |screen: &str, name: &str| {
        screen.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned()
    };
    assert!(row(&screen, "> calm").contains("10.0 Mbit/s"), "{screen}");
    // `wild` is checked because it sends nothing: on a busy machine the packets of `calm` may
    // arrive in a burst beyond its envelope.
    assert!(
        row(&screen, "wild").contains("5.00 Mbit/s") && row(&screen, "wild").contains("kept"),
        "{screen}"
    );
    // With the path of the control socket, `top` finds the API's socket beside it.
    let control = service.api.with_extension("sock");
    let screen = once(&["--control", control.to_str().unwrap(), "--way", "down"]);
    assert!(
        screen.contains("received by adapters") && row(&screen, "greedy").contains("5.00 Mbit/s"),
        "{screen}"
    );

    let mut top = OnTerminal::start(&["top", "--api", service.api()]);
    top.until("it shows adapters", |written| written.contains("greedy"));
    top.press("+");
    service
        .until("a weight more", |service| service.get("/v1/scenario").body.contains("weight = 3"));
    top.press("w\x7f9\r");
    // Only the changes of a screen are written, so not every word of it appears in the output.
    top.until("it is refused", |written| {
        written.contains("needs 3.5mbit, is guaranteed 1.82 Mbit/s")
    });
    top.press("jp");
    service.until("greedy pauses", |service| service.adapter("greedy")["paused"] == true);
    top.press("p");
    service.until("greedy goes on", |service| service.adapter("greedy")["paused"] == false);
    top.press("\x03");
    top.ended();
    let mut signalled = OnTerminal::start(&["top", "--api", service.api()]);
    signalled.until("it shows adapters", |written| written.contains("greedy"));
    let mut left_alone = OnTerminal::start(&["top", "--api", service.api()]);
    left_alone.until("it shows adapters", |written| written.contains("greedy"));
    signal("TERM", signalled.child.id());
    signalled.ended();

    // No packets are read from a paused adapter.
    service.ask("PUT", "/v1/adapters/calm/paused", "application/json", "true");
    service
        .until("calm is silent", |service| up(&service.adapter("calm"))["window"]["sent"] == 0.0);
    service.ask("PUT", "/v1/adapters/calm/paused", "application/json", "false");
    service.until("calm sends", |service| {
        up(&service.adapter("calm"))["window"]["sent"].as_f64() > Some(1e6)
    });
    assert_eq!(
        service.ask("PUT", "/v1/adapters/nobody/paused", "application/json", "true").status,
        404
    );
    let _ = calm.kill();
    let _ = calm.wait();
    service.end();
    let said = left_alone.ended();
    assert!(said.contains("the service at"), "{said:?}");

    // Any link can be watched through its control socket, without guarantees.
    let socket = control.with_extension("run.sock");
    let words =
        ["run", "--rate", "10mbit", "--control", socket.to_str().unwrap(), "--", "sleep", "60"];
    let mut run = program(&words).spawn().unwrap();
    let began = Instant::now();
    while !socket.exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "the link does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let screen = once(&["--control", socket.to_str().unwrap()]);
    assert!(
        screen.starts_with("falaj run ") && row(&screen, "> ").contains("no guarantee"),
        "{screen}"
    );
    signal("TERM", run.id());
    run.wait().unwrap();

    let mut alone = program(&["top", "--once"]);
    let output =
        alone.env("XDG_RUNTIME_DIR", directory().join("nothing-runs-here")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && said.contains("start a service by `falaj serve FILE`"),
        "{said}"
    );
}

fn page() {
    let service = Service::start("serve-page.toml", THREE);
    let page = service.get("/");
    assert!(page.status == 200 && page.body.contains("page.js"), "{}", page.body);
    let head = String::from_utf8(
        service.raw(b"GET / HTTP/1.1\r\nHost: falaj\r\nConnection: close\r\n\r\n", true),
    )
    .unwrap();
    assert!(
        head.contains("content-security-policy: default-src 'none'; script-src 'self'"),
        "{head}"
    );
    for path in ["/page.js", "/page.css"] {
        assert_eq!(service.get(path).status, 200, "{path}");
    }
    // Sends the page's requests, except those for samples.
    let asked = "GET /v1/scenario HTTP/1.1\r\nHost: falaj\r\nAccept: application/json\r\nConnection: close\r\n\r\n";
    let answer = String::from_utf8(service.raw(asked.as_bytes(), true)).unwrap();
    let scenario: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(scenario["link"]["uplink"]["flow"]["calm"]["weight"], 2);
    service.send("calm", 1_000, 1_000, 200).wait().unwrap();
    service.until("all was sent", |service| {
        up(&service.adapter("calm"))["total"]["sent"].as_u64() >= Some(200)
    });
    let delays = service.get("/v1/adapters/calm/delays").json();
    let counted: u64 =
        delays[0]["up"].as_array().unwrap().iter().map(|pair| pair[1].as_u64().unwrap()).sum();
    assert!(counted >= 200, "{delays}");
    let history = service.get("/v1/adapters/calm/history").json();
    let steps = history[0]["up"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["sent"].as_f64() > Some(0.0)), "{history}");
    let turns = service.get("/v1/turns").json();
    let (up, turn) = (&turns[0], &turns[0]["turns"][0]);
    assert_eq!((up["way"].as_str(), turn["flow"].as_str()), (Some("up"), Some("calm")), "{turns}");
    assert!(turn["end_ns"].as_u64() > turn["begin_ns"].as_u64(), "{turns}");

    // Every metric that the Grafana dashboard queries exists, with the labels that it uses.
    let grafana = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/grafana/falaj.json");
    let dashboard: Value =
        serde_json::from_str(&std::fs::read_to_string(grafana).unwrap()).unwrap();
    let metrics = service.get("/metrics").body;
    let mut asked = 0;
    let targets = dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    for expression in targets.map(|target| target["expr"].as_str().unwrap()) {
        let (before, behind) = expression.split_once('{').expect("a selector");
        let name = before.rsplit(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap();
        let labels: Vec<&str> = behind.split('}').next().unwrap().split(", ").collect();
        let labels = labels.iter().map(|label| label.split(['=', '~']).next().unwrap());
        let line = metrics.lines().find(|line| line.starts_with(&format!("{name}{{")));
        let line = line.unwrap_or_else(|| panic!("{expression}: there is no {name}: {metrics}"));
        labels.for_each(|label| {
            assert!(line.contains(&format!("{label}=\"")), "{expression}: {line}")
        });
        asked += 1;
    }
    assert!(asked >= 10);
    service.end();

    // The token is printed only on a terminal, for the user to open the page with.
    let token = directory().join("serve-page.token");
    std::fs::write(&token, "not-to-be-guessed/+\n").unwrap();
    let control =
        std::env::temp_dir().join(format!("falaj-serve-test-{}-token.sock", std::process::id()));
    let words = [
        file("serve-token.toml", THREE),
        "--tcp",
        "127.0.0.1:0",
        "--token-file",
        token.to_str().unwrap(),
    ];
    let words = [&["serve"], &words[..], &["--control", control.to_str().unwrap()]].concat();
    let mut shown = OnTerminal::start(&words);
    shown.until("where the page is", |written| written.contains("/#token=not-to-be-guessed%2F%2B"));
    signal("TERM", shown.child.id());
    assert_eq!(shown.child.wait().unwrap().code(), Some(0));
}

/// Checks the privileges of the service's threads as the kernel reports them.
fn rights() {
    let service = Service::start("serve-rights.toml", THREE);
    let threads: Vec<PathBuf> = std::fs::read_dir(format!("/proc/{}/task", service.child.id()))
        .unwrap()
        .map(|thread| thread.unwrap().path().join("status"))
        .collect();
    assert!(threads.len() >= 4, "{threads:?}");
    for status in threads {
        let text = std::fs::read_to_string(&status).unwrap();
        let of = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(":\t"))
                .unwrap()
                .to_owned()
        };
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(u64::from_str_radix(&of(set), 16), Ok(0), "{text}");
        }
        // The threads can gain no new privileges, and their system calls are filtered.
        assert_eq!((of("NoNewPrivs").as_str(), of("Seccomp").as_str()), ("1", "2"), "{text}");
    }
    // In spite of these limits, the service works.
    service.send("calm", 1_000, 100, 100).wait().unwrap();
    service.until("packets pass", |service| {
        up(&service.adapter("calm"))["total"]["sent"].as_u64() >= Some(100)
    });
    service.end();
}

/// Checks that all threads allocate from one heap.
fn heap() {
    let service = Service::start("serve-heap.toml", THREE);
    service.send("calm", 1_000, 100, 100).wait().unwrap();
    service.until("packets pass", |service| {
        up(&service.adapter("calm"))["total"]["sent"].as_u64() >= Some(100)
    });
    assert_eq!(service.patch("/v1/adapters/wild", &json!({ "queue": "60p" })).status, 200);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", service.child.id())).unwrap();
    // A heap of a single thread begins at a multiple of the size that glibc reserves for it.
    const RESERVED: u64 = 64 << 20;
    let of_a_thread = |line: &&str| {
        let start = line.split_once('-').and_then(|(start, _)| u64::from_str_radix(start, 16).ok());
        line.contains(" rw-p ") && start.is_some_and(|start| start.is_multiple_of(RESERVED))
    };
    assert_eq!(maps.lines().filter(of_a_thread).collect::<Vec<_>>(), [""; 0], "{maps}");
    service.end();
}

/// Checks the notifications to a service manager: ready, alive, reloading and ready again,
/// stopping.
fn manager() {
    use std::os::unix::net::UnixDatagram;
    let path = std::env::temp_dir().join(format!("falaj-notify-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let hears = |what: &str| {
        let mut before = Vec::new();
        loop {
            let mut told = [0; 4096];
            let length = socket
                .recv(&mut told)
                .unwrap_or_else(|error| panic!("{what}: {error}; {before:?}"));
            let told = String::from_utf8_lossy(&told[..length]).into_owned();
            if told.lines().any(|line| line == what) {
                return told;
            }
            before.push(told);
        }
    };
    let service = Service::start_with("serve-manager.toml", THREE, &[], |command| {
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "2000000");
    });
    assert!(hears("READY=1").contains("STATUS=API at "));
    hears("WATCHDOG=1");
    hears("WATCHDOG=1");
    signal("HUP", service.child.id());
    assert!(hears("RELOADING=1").contains("MONOTONIC_USEC="));
    hears("READY=1");
    service.end();
    hears("STOPPING=1");
    let _ = std::fs::remove_file(&path);
}

/// Checks the messages of a service in the form for a journal and, with `--log warn`, in the form
/// for people.
fn journal() {
    use std::os::unix::fs::MetadataExt;
    let said = |much: &str, is_journal: bool| {
        let path = directory().join(format!("serve-journal-{much}"));
        let log = std::fs::File::create(&path).unwrap();
        let is = log.metadata().unwrap();
        let service =
            Service::start_with("serve-journal.toml", THREE, &["--log", much], |command| {
                // The variable may be inherited from a parent service. If it names another file,
                // the process does not write to the journal.
                let made = if is_journal { is.ino() } else { is.ino() + 1 };
                command.env("JOURNAL_STREAM", format!("{}:{made}", is.dev())).stderr(log);
            });
        assert_eq!(
            service
                .ask("PATCH", "/v1/adapters/wild?drop=true", "application/json", "{\"weight\": 2}")
                .status,
            409
        );
        assert_eq!(
            service
                .ask("PATCH", "/v1/adapters/wild", "application/json", "{\"queue\": \"40p\"}")
                .status,
            200
        );
        std::fs::write(&service.file, "nonsense").unwrap();
        signal("HUP", service.child.id());
        service.until("the file is read again", |_| {
            std::fs::read_to_string(&path).unwrap().contains("nothing is changed")
        });
        service.end();
        std::fs::read_to_string(&path).unwrap()
    };
    let all = said("debug", true);
    let levels: Vec<&str> = all.lines().map(|line| line.get(..3).unwrap_or_default()).collect();
    assert!(levels.iter().all(|level| ["<3>", "<6>", "<7>"].contains(level)), "{all}");
    let has = |words: &[&str]| all.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["<6>serving ", "API at "]), "{all}");
    assert!(
        has(&["<6>changed by the API what=\"link.", "flow.wild.queue=", "at_ns=", "dropped=0"]),
        "{all}"
    );
    assert!(
        has(&["<7>asked method=PATCH path=\"/v1/adapters/wild\" status=409 took_us="]),
        "{all}"
    );
    assert!(has(&["<3>", "nothing is changed"]), "{all}");
    let few = said("warn", false);
    assert!(few.starts_with("falaj: ") && few.contains("nothing is changed"), "{few}");
    assert!(!few.contains("serving") && !few.contains("asked"), "{few}");
}

fn token() {
    let secret = "a token that is long enough";
    let name = directory().join("serve-token");
    std::fs::write(&name, format!("{secret}\n")).unwrap();
    // A free port, found by binding it for a moment.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let words = ["--tcp", &address.to_string(), "--token-file", name.to_str().unwrap()];
    let service = Service::start_with("serve-tcp.toml", THREE, &words, |_| {});
    let ask = |header: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(stream, "GET /v1 HTTP/1.1\r\nHost: falaj\r\nConnection: close\r\n{header}\r\n")
            .unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        all
    };
    assert!(ask(&format!("Authorization: Bearer {secret}\r\n")).starts_with("HTTP/1.1 200"));
    let wrong = [
        String::new(),
        secret[..secret.len() - 1].to_owned(),
        format!("{secret} "),
        "x".repeat(secret.len()),
    ];
    for token in wrong {
        let answer = ask(&format!("Authorization: Bearer {token}\r\n"));
        let kept = token.trim() == secret;
        assert!(
            kept || answer.starts_with("HTTP/1.1 401") && answer.contains("www-authenticate"),
            "{token:?}: {answer}"
        );
        assert!(!answer.contains(secret));
    }
    assert!(ask("").starts_with("HTTP/1.1 401"));
    // Silent unauthenticated connections, more than the service accepts: they are closed, and the
    // authenticated one stays open.
    let mut known = std::net::TcpStream::connect(address).unwrap();
    let mut asks = || {
        write!(known, "GET /v1 HTTP/1.1\r\nHost: falaj\r\nAuthorization: Bearer {secret}\r\n\r\n")
            .unwrap();
        let (mut all, mut some) = (String::new(), [0; 4096]);
        while !all.ends_with('}') {
            let length = known.read(&mut some).unwrap();
            assert!(length > 0, "the connection was closed: {all}");
            all += std::str::from_utf8(&some[..length]).unwrap();
        }
        assert!(all.starts_with("HTTP/1.1 200"), "{all}");
    };
    asks();
    let strangers: Vec<_> =
        (0..200).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    assert!(
        ask(&format!("Authorization: Bearer {secret}\r\n")).starts_with("HTTP/1.1 200"),
        "after them"
    );
    for mut stranger in strangers {
        stranger.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(stranger.read(&mut [0; 100]).unwrap(), 0, "the connection was not closed");
    }
    asks();
    service.end();
    // Beyond this host, others could read the token in transit, so the service does not listen
    // there.
    let elsewhere = [
        "serve",
        file("serve-tcp.toml", THREE),
        "--tcp",
        "0.0.0.0:1",
        "--token-file",
        name.to_str().unwrap(),
    ];
    let refused = program(&elsewhere).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("give a certificate"), "{said}");
    // If another process listens at the port, the message names it.
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = held.local_addr().unwrap().to_string();
    let words = elsewhere.map(|word| if word == "0.0.0.0:1" { at.as_str() } else { word });
    let refused = program(&words).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    let named = format!(
        "--tcp {at}: Address already in use (os error 98): process {} (",
        std::process::id()
    );
    assert!(refused.status.code() == Some(2) && said.contains(&named), "{said}");
}

fn encrypted() {
    let secret = "a token that is long enough";
    let write = |name: &str, text: &str| {
        let path = directory().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["falaj.example".to_owned()]).unwrap();
    let token = write("serve-tls-token", secret);
    let (certificate, key) = (
        write("serve-tls-cert", &cert.pem()),
        write("serve-tls-key", &signing_key.serialize_pem()),
    );
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // Listens on all addresses; the test connects over loopback.
    let address = format!("0.0.0.0:{port}");
    let tcp = ["--tcp", &address, "--token-file", &token];
    let words = [&tcp[..], &["--tls-cert", &certificate, "--tls-key", &key]].concat();
    let service = Service::start_with("serve-tls.toml", THREE, &words, |_| {});

    let trusting = |cert: Option<&rcgen::Certificate>| {
        let mut roots = rustls::RootCertStore::empty();
        cert.into_iter().for_each(|cert| roots.add(cert.der().clone()).unwrap());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions();
        Arc::new(config.unwrap().with_root_certificates(roots).with_no_client_auth())
    };
    let connect = || std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let ask = |config: Arc<rustls::ClientConfig>, header: &str| -> std::io::Result<String> {
        let name = "falaj.example".try_into().unwrap();
        let connection = rustls::ClientConnection::new(config, name).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, connect());
        write!(stream, "GET /v1 HTTP/1.1\r\nHost: falaj\r\nConnection: close\r\n{header}\r\n")?;
        let mut all = String::new();
        stream.read_to_string(&mut all)?;
        Ok(all)
    };
    // Silent connections do not hinder others.
    let silent: Vec<_> = (0..20).map(|_| connect()).collect();
    let bears = format!("Authorization: Bearer {secret}\r\n");
    let answer = ask(trusting(Some(&cert)), &bears).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(ask(trusting(Some(&cert)), "").unwrap().starts_with("HTTP/1.1 401"));
    // A client that trusts another certificate aborts.
    assert!(ask(trusting(None), &bears).is_err());
    // A client without encryption gets no readable answer.
    let mut plain = connect();
    plain.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // The service may refuse before everything is written.
    let _ = write!(plain, "GET /v1 HTTP/1.1\r\nHost: falaj\r\nConnection: close\r\n{bears}\r\n");
    let mut all = Vec::new();
    let _ = plain.read_to_end(&mut all);
    assert!(!all.windows(5).any(|five| five == b"HTTP/"), "{:?}", String::from_utf8_lossy(&all));
    drop(silent);
    service.end();

    // Errors in the certificate files are reported.
    let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let other = write("serve-tls-other", &other);
    let wrong = [
        (&token, &key, "the file has no certificate"),
        (&certificate, &token, "the file must have a private key in PEM"),
        (&certificate, &other, "cannot be used together"),
        (&"/nowhere".to_owned(), &key, "--tls-cert /nowhere"),
    ];
    for (certificate, key, why) in wrong {
        let words = [
            &["serve", file("serve-tls.toml", THREE)],
            &tcp[..],
            &["--tls-cert", certificate, "--tls-key", key],
        ];
        let refused = program(&words.concat()).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && said.contains(why), "{said}");
    }
}

fn late() {
    let there = Namespace::new();
    // A scenario with room for further adapters.
    let text = THREE.replace("9mbit", "5mbit").replace("3.5mbit", "2mbit");
    let service = Service::start("serve-late.toml", &text);
    let put = |name: &str, port: &str| {
        let keys = json!({ "adapter": port }).to_string();
        service.ask("PUT", &format!("/v1/adapters/{name}"), "application/json", &keys)
    };
    let made = put("late", &format!("tap:{}", there.process()));
    assert_eq!(made.status, 200, "{}", made.body);
    service.until("it is known", |service| service.get("/v1/adapters/late").status == 200);
    assert_eq!(there.is_running(), Some(true));
    // Hosts behind the uplink can reach the new adapter by its addresses before it has sent
    // anything. The three earlier adapters have the addresses .2 to .4.
    let address = service.uplink().replace(".1:", ".5:");
    let uplink = service.processes[""].as_i64().unwrap();
    within(uplink).args(["--send", &address, "1000", "100", "50"]).spawn().unwrap().wait().unwrap();
    service.until("it is sent to", |service| {
        service.adapter("late")["down"][0]["total"]["sent"].as_u64() >= Some(50)
    });
    service.send_from(there.process(), 1_000, 100, 50).wait().unwrap();
    service.until("its packets pass", |service| {
        up(&service.adapter("late"))["total"]["sent"].as_u64() >= Some(50)
    });
    let wrong = put("nowhere", "tap:no-such-namespace");
    assert!(wrong.status == 409 && wrong.body.contains("namespace"), "{}", wrong.body);
    let gone = service.ask("DELETE", "/v1/adapters/late", "text/plain", "");
    assert_eq!(gone.status, 200, "{}", gone.body);
    service.until("it is gone", |service| service.get("/v1/adapters/late").status == 404);
    assert_eq!(there.is_running(), None, "the interface went with it");
    service.end();
}

/// A service with an adapter for full batches, one for batches by timeout, one for batches of a
/// tuner, and one without batches.
const GUESTS: &str = r#"
[link.uplink]
rate = "20mbit"
uplink = "namespace"
scheduler = { kind = "wf2q+" }

[link.uplink.flow.full]
adapter = "namespace"
batches = "10,1s"

[link.uplink.flow.timed]
adapter = "namespace"
batches = "100,20ms"

[link.uplink.flow.tuned]
adapter = "namespace"
batches = "adaptive,delay=5ms"

[link.uplink.flow.plain]
adapter = "namespace"
"#;

/// Returns an adapter's number of batches and of packets in them, in one direction, and the
/// packets' total wait in nanoseconds.
fn batches(service: &Service, name: &str, way: &str) -> [u64; 3] {
    let all = &service.adapter(name)["batches"];
    [&all["batches"][way], &all["packets"][way], &all["waited_ns"]]
        .map(|value| value.as_u64().unwrap_or_else(|| panic!("{name}: {all}")))
}

fn guests() {
    let service = Service::start("serve-guests.toml", GUESTS);
    let uplink = service.processes[""].as_i64().unwrap();
    // Sends packets from the uplink's host to the guest whose address ends in `place`; returns by
    // how much the adapter's counters have grown.
    let send = |name: &str, place: u8, gap: u64, packets: u64| {
        let before = batches(&service, name, "down");
        let address = service.uplink().replace(".1:", &format!(".{place}:"));
        let numbers = [gap.to_string(), "200".to_owned(), packets.to_string()];
        let mut sender =
            within(uplink).args(["--send", &address]).args(numbers).spawn().expect("nsenter");
        sender.wait().unwrap();
        let since = || {
            let now = batches(&service, name, "down");
            [0, 1, 2].map(|n| now[n] - before[n])
        };
        service.until("its packets have left", |_| since()[1] >= packets);
        since()
    };
    // The counts include a few packets that the hosts send on their own.
    let [number, packets, _] = send("full", 2, 0, 40);
    assert!((4..=5).contains(&number) && packets <= 50, "{number} batches, {packets} packets");
    let [number, packets, waited] = send("timed", 3, 5_000, 200);
    assert!(number >= packets / 100, "{number} batches, {packets} packets");
    if falaj_guest::is_inside() {
        // A batch has the packets that arrive within 20 ms: at 0, 5, 10, 15 and perhaps 20 ms.
        assert!((4 * number..=6 * number).contains(&packets), "{number} of {packets}");
        let mean = waited / packets;
        assert!((9_500_000..=12_600_000).contains(&mean), "{mean} ns");
    }
    let [number, packets, waited] = send("tuned", 4, 1_000, 2_000);
    if falaj_guest::is_inside() {
        let mean = waited / packets;
        assert!(mean <= 5_000_000 && packets >= 2 * number, "{mean} ns, {number} of {packets}");
    }
    assert_eq!(service.adapter("plain")["batches"], Value::Null);

    // A change applies to the batches of both directions.
    for name in ["full", "timed"] {
        let made = service.patch(&format!("/v1/adapters/{name}"), &json!({ "batches": "1" }));
        assert_eq!(made.status, 200, "{}", made.body);
        service
            .until("it is shown", |service| service.adapter(name)["batches"]["most_packets"] == 1);
    }
    let [number, packets, waited] = send("full", 2, 0, 40);
    assert!(number == packets && waited == 0, "{number} batches, {packets} packets, {waited} ns");
    let before = batches(&service, "timed", "up");
    service.send("timed", 0, 200, 40).wait().unwrap();
    let since = || {
        let now = batches(&service, "timed", "up");
        [now[0] - before[0], now[1] - before[1]]
    };
    service.until("its packets have crossed", |_| since()[1] >= 40);
    // At the change, an open batch may have held packets that the host sends on its own.
    let [number, packets] = since();
    assert!(number + 5 >= packets, "{number} batches, {packets} packets");
    let metrics = service.get("/metrics").body;
    for family in ["batches_total", "batched_packets_total"] {
        let line = format!("falaj_adapter_{family}{{adapter=\"full\",direction=\"down\"}} ");
        assert!(metrics.contains(&line), "{metrics}");
    }
    let waits = |name| format!("falaj_adapter_batch_wait_seconds{{adapter=\"{name}\"}}");
    assert!(metrics.contains(&waits("full")) && !metrics.contains(&waits("plain")), "{metrics}");

    // Adapters with guests can be added and removed.
    let there = Namespace::new();
    let put = |port: &str, batches: &str| {
        let keys = json!({ "adapter": port, "batches": batches }).to_string();
        service.ask("PUT", "/v1/adapters/late", "application/json", &keys)
    };
    let port = format!("tap:{}", there.process());
    for (port, batches, why) in [
        (&port[..], "10", "would stay for ever"),
        (&port[..], "adaptive", "adaptive,delay=200us"),
        (
            "vhost:/tmp/falaj-guests.sock",
            "10,1ms",
            "batches cross to an interface that falaj makes",
        ),
        ("memif:@falaj-guests", "10,idle", "memif does not report when"),
    ] {
        let wrong = put(port, batches);
        assert!(wrong.status == 409 && wrong.body.contains(why), "{}", wrong.body);
    }
    let wrong = service.patch("/v1/adapters/plain", &json!({ "batches": "10,1ms" }));
    assert!(wrong.status == 409 && wrong.body.contains("add it again"), "{}", wrong.body);
    let made = put(&port, "10,1ms");
    assert_eq!(made.status, 200, "{}", made.body);
    service.until("it is known", |service| service.get("/v1/adapters/late").status == 200);
    service.send_from(there.process(), 0, 200, 40).wait().unwrap();
    service.until("its packets pass", |service| {
        up(&service.adapter("late"))["total"]["sent"].as_u64() >= Some(40)
    });
    let [number, packets, _] = batches(&service, "late", "up");
    assert!(number < packets, "{number} batches, {packets} packets");
    let gone = service.ask("DELETE", "/v1/adapters/late", "text/plain", "");
    assert_eq!(gone.status, 200, "{}", gone.body);
    service.until("its guest ends, and its interface with it", |_| there.is_running().is_none());

    let control = service.api.with_extension("sock");
    let words =
        ["serve", service.file.to_str().unwrap(), "--upgrade", "--api", service.api(), "--control"];
    let words = [&words[..], &[control.to_str().unwrap()]].concat();
    let refused = program(&words).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        refused.status.code() == Some(2)
            && said.contains("an adapter with batches cannot be handed over"),
        "{said}"
    );
    service.end();
}

fn closed() {
    let there = Namespace::new();
    let port = format!("tap:{}", there.process());
    let text = THREE.replacen(
        "adapter = \"namespace\"\nweight = 2",
        &format!("adapter = \"{port}\"\nweight = 2"),
        1,
    );
    let state = directory().join("serve-closed.state");
    for file in [state.clone(), state.with_extension("state.paused")] {
        let _ = std::fs::remove_file(file);
    }
    let words = ["--keep", "--state", state.to_str().unwrap()];
    let mut service = Service::start_with("serve-closed.toml", &text, &words, |_| {});
    assert_eq!(there.is_running(), Some(true));
    assert_eq!(service.patch("/v1/adapters/greedy", &json!({ "queue": "60p" })).status, 200);
    for (adapter, paused) in [("wild", true), ("greedy", true), ("greedy", false)] {
        let path = format!("/v1/adapters/{adapter}/paused");
        assert_eq!(
            service.ask("PUT", &path, "application/json", &json!(paused).to_string()).status,
            200
        );
    }
    service.send_from(there.process(), 1_000, 100, 50).wait().unwrap();
    service.until("packets pass", |service| {
        up(&service.adapter("calm"))["total"]["sent"].as_u64() >= Some(50)
    });
    let calm = service.adapter("calm");
    service.kill();
    // The adapter's owner keeps the interface, addresses and sockets, but no packets pass.
    let began = Instant::now();
    while there.is_running() != Some(false) {
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", there.is_running());
        std::thread::sleep(Duration::from_millis(20));
    }
    let again = Service::start_with("serve-closed.toml", &text, &words, |_| {});
    assert_eq!(there.is_running(), Some(true));
    assert_eq!(up(&again.adapter("calm"))["guarantee"], up(&calm)["guarantee"]);
    assert!(again.get("/v1/scenario").body.contains("60p"), "the change is kept");
    again.until("it is looked at", |service| service.get("/v1/adapters/wild").status == 200);
    assert_eq!(again.adapter("wild")["paused"], true, "a paused adapter stays paused");
    assert_eq!(again.adapter("greedy")["paused"], false);
    again.send_from(there.process(), 1_000, 100, 50).wait().unwrap();
    again.until("packets pass again", |service| {
        up(&service.adapter("calm"))["total"]["sent"].as_u64() >= Some(50)
    });
    again.end();
    // The adapter `first` is now listed before `calm`: `calm` keeps its addresses, and `first` gets
    // other addresses.
    let before = "[link.uplink.flow.first]\nadapter = \"namespace\"\n[link.uplink.flow.calm]";
    let text = text
        .replacen("[link.uplink.flow.calm]", before, 1)
        .replace("9mbit", "7mbit")
        .replace("8ms", "20ms");
    let third = Service::start_with("serve-closed-third.toml", &text, &["--keep"], |_| {});
    for adapter in ["calm", "first"] {
        let process = if adapter == "calm" {
            there.process()
        } else {
            third.processes[adapter].as_i64().unwrap()
        };
        third.send_from(process, 1_000, 100, 50).wait().unwrap();
        third.until("its packets pass", |service| {
            up(&service.adapter(adapter))["total"]["sent"].as_u64() >= Some(50)
        });
        let address = third.uplink().replace(".1:", if adapter == "calm" { ".2:" } else { ".3:" });
        let uplink = third.processes[""].as_i64().unwrap();
        within(uplink)
            .args(["--send", &address, "1000", "100", "50"])
            .spawn()
            .unwrap()
            .wait()
            .unwrap();
        let down =
            |service: &Service| service.adapter(adapter)["down"][0]["total"]["sent"].as_u64();
        third.until("it is sent to", |service| down(service) >= Some(50));
    }
    third.end();
}

fn addresses() {
    within_namespaces("addresses");
}

fn open() {
    within_namespaces("open");
}

/// Runs a case in namespaces of its own.
fn within_namespaces(case: &str) {
    let me = std::env::current_exe().unwrap();
    // A file, not a pipe: a service that outlives a failed case would keep a pipe open, and this
    // test waiting.
    let said = directory().join(format!("serve-{case}.said"));
    let status = Command::new("timeout")
        .args(["-s", "KILL", "180", "unshare", "-Urn"])
        .arg(me)
        .args(["--case", case])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&said).unwrap())
        .status()
        .unwrap();
    assert!(status.success(), "{}", std::fs::read_to_string(said).unwrap());
}

/// Two adapters, and a host at the uplink; each is joined by a veth pair. After a restart, the
/// first packet with one adapter's source address comes from the other adapter.
fn addresses_within() {
    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const GATEWAY: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];
    // A frame with an Ethernet type for experiments, of minimum length.
    let frame =
        |to: [u8; 6], from: [u8; 6]| host::hex(&[&to[..], &from, &[0x88, 0xb5], &[0; 46]].concat());
    let [mut calm, mut wild, mut uplink] =
        [("a1", "a0"), ("w1", "w0"), ("b1", "b0")].map(|(here, there)| {
            let mut host = host::Host::start();
            netlink::veth(here, there, host.pid());
            netlink::set_up(here, true);
            host.does(&format!("up {there}"));
            host
        });
    let text = "[link.wire]\nrate = \"100mbit\"\nuplink = \"b1\"\nscheduler = { kind = \"wf2q+\" }\n\
                [link.wire.flow.calm]\nadapter = \"a1\"\n\
                [link.wire.flow.wild]\nadapter = \"w1\"\n";
    let state = directory().join("serve-addresses.state");
    let kept = directory().join("serve-addresses.state.addresses");
    let log = directory().join("serve-addresses.log");
    for file in [&state, &kept] {
        let _ = std::fs::remove_file(file);
    }
    let start = || {
        let words = ["--state", state.to_str().unwrap()];
        Service::start_with("serve-addresses.toml", text, &words, |command| {
            command.stderr(std::fs::File::create(&log).unwrap());
        })
    };
    let mut service = start();
    assert_eq!(calm.ask(&format!("send a0 false {}", frame(GATEWAY, OWN))), "1");
    service.until("the address is written down", |_| {
        std::fs::read_to_string(&kept).is_ok_and(|text| text.contains("02:00:00:00:00:01"))
    });
    service.kill();
    let service = start();
    assert_eq!(wild.ask(&format!("send w0 false {}", frame(GATEWAY, OWN))), "1");
    service.until("the stranger is not heard, and counted", |service| {
        service.adapter("wild")["foreign"] == 1
    });
    service.until("and logged", |_| {
        std::fs::read_to_string(&log)
            .is_ok_and(|text| text.contains("adapter wild: 1 packets dropped, the last from 02:00"))
    });
    // The owner of the address has not sent anything yet, but receives the packets for the address.
    for host in [(&mut calm, "a0"), (&mut wild, "w0")] {
        host.0.begin(&format!("await {} 88b5", host.1));
        assert_eq!(host.0.answer(), "listening");
    }
    assert_eq!(uplink.ask(&format!("send b0 false {}", frame(OWN, GATEWAY))), "1");
    assert_ne!(calm.answer(), "nothing");
    assert_eq!(wild.answer(), "nothing");
    service.end();
}

/// Returns the longest gap between arrivals, from now until packets arrive steadily again; they are
/// sent two hundred times a second.
fn interruption(heard: &dyn Fn() -> u64) -> Duration {
    let began = Instant::now();
    let (mut last, mut count, mut steady, mut longest) = (began, heard(), 0, Duration::ZERO);
    // The service itself is restarted a second later, which is tested separately.
    while steady < 10 && longest < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(2));
        let (now, is) = (Instant::now(), heard());
        if is > count {
            longest = longest.max(now - last);
            steady = if now - last < Duration::from_millis(100) { steady + 1 } else { 0 };
            (last, count) = (now, is);
        } else {
            longest = longest.max(now - last);
        }
    }
    longest
}

/// Two hosts behind veth pairs: one behind the adapter, and one behind the uplink.
fn open_within() {
    const ADDRESSES: [&str; 2] = ["10.9.0.1", "10.9.0.2"];
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let hosts =
        [("a1", "a0", ADDRESSES[0]), ("b1", "b0", ADDRESSES[1])].map(|(here, there, address)| {
            let mut host = host::Host::start();
            netlink::veth(here, there, host.pid());
            netlink::set_up(here, true);
            host.does(&format!("up {there} {address}"));
            host
        });
    let text = "[link.wire]\nrate = \"100mbit\"\nuplink = \"b1\"\nscheduler = { kind = \"wf2q+\" }\n\
                [link.wire.flow.only]\nadapter = \"a1\"\n";
    // The executable of the running program is deleted, as after an upgrade of the installed
    // program. A service manager listens.
    let copy = directory().join("falaj-upgraded");
    let path = std::env::temp_dir().join(format!("falaj-notify-open-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let service =
        Service::start_with("serve-open.toml", text, &["--fail-open", "spare"], |command| {
            std::fs::copy(command.get_program(), &copy).unwrap();
            // A service manager's watchdog applies to the process that it started, which is the
            // supervisor.
            let mut upgraded = Command::new("sh");
            upgraded
                .args(["-c", "WATCHDOG_PID=$$ exec \"$0\" \"$@\""])
                .arg(&copy)
                .args(command.get_args());
            upgraded.current_dir(directory()).stdin(Stdio::null()).stdout(Stdio::piped());
            upgraded.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "3000000");
            *command = upgraded;
        });
    std::fs::remove_file(&copy).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let alive = move || {
        let mut told = [0; 100];
        loop {
            match manager.recv(&mut told) {
                Ok(length) if told[..length].starts_with(b"WATCHDOG=1") => return Instant::now(),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("nobody says that packets pass: {error}"),
            }
        }
    };
    let mut last = alive();
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let silence = std::thread::spawn({
        let over = Arc::clone(&over);
        move || {
            let mut longest = Duration::ZERO;
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let next = alive();
                (longest, last) = (longest.max(next - last), next);
            }
            longest
        }
    });
    let pass = |to: usize| {
        let from = i64::from(hosts[1 - to].pid());
        let mut sender = within(from);
        sender
            .args(["--send", &format!("{}:9", ADDRESSES[to]), "5000", "100", "6000"])
            .spawn()
            .unwrap()
    };
    // The service is the supervisor's child.
    let children = format!("/proc/{0}/task/{0}/children", service.child.id());
    let served = || -> Option<u32> {
        std::fs::read_to_string(&children).ok()?.split_whitespace().next()?.parse().ok()
    };
    let first = served().expect("it runs");
    let heard = || {
        let text = std::fs::read_to_string(format!("/proc/{}/net/snmp", hosts[1].pid())).unwrap();
        let udp: Vec<&str> = text.lines().filter(|line| line.starts_with("Udp:")).collect();
        // Datagrams to a closed port count as well: they arrived.
        let number = |n: usize| udp[1].split_whitespace().nth(n).unwrap().parse::<u64>().unwrap();
        number(1) + number(2)
    };
    let comes = |what: &str| {
        let before = heard();
        let began = Instant::now();
        let mut sender = pass(1);
        while heard() == before {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}: nothing passes");
            std::thread::sleep(Duration::from_millis(10));
        }
        sender.kill().unwrap();
        sender.wait().unwrap();
    };
    comes("forwarded");
    let mut out = Vec::new();
    let mut killed = first;
    for _ in 0..3 {
        let mut sender = pass(1);
        // The child process forwards the packets.
        let before = heard();
        service.until("packets pass", |_| heard() > before + 5);
        signal("KILL", killed);
        out.push(interruption(&heard));
        sender.kill().unwrap();
        sender.wait().unwrap();
        // After that, the service is started again.
        let began = Instant::now();
        while served().is_none_or(|now| now == killed) || UnixStream::connect(&service.api).is_err()
        {
            assert!(began.elapsed() < Duration::from_secs(30), "it is not started again");
            std::thread::sleep(Duration::from_millis(20));
        }
        killed = served().unwrap();
    }
    eprintln!("killed, nothing passed for {out:?}");
    out.sort();
    // The documented limit is one second. On a busy host, one of the three times may be twice as
    // long.
    assert!(out[1] <= Duration::from_secs(1) && out[2] <= Duration::from_secs(2), "{out:?}");
    service.until("it is asked as before", |service| service.get("/v1/adapters").status == 200);
    comes("forwarded again");
    service.until("packets are its own again", |service| {
        service.get("/v1/adapters/only").status == 200
            && up(&service.adapter("only"))["total"]["sent"].as_u64() > Some(0)
    });
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    // The pause before the third start is four seconds; the supervisor notifies the manager
    // meanwhile.
    let silence = silence.join().unwrap();
    assert!(
        silence < Duration::from_secs(3),
        "a service manager would have ended it: silent for {silence:?}"
    );
    let _ = std::fs::remove_file(&path);
    service.end();
}
