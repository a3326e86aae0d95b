//! Running links: messages for clients that query and change them. Their ends are network cards of
//! virtual machines, which need no privileges.

use super::{ADAPTER, place, refused};
use crate::common::{falaj, file, program};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command};
use std::time::Duration;
use tempfile::TempDir;

/// A command that runs beside the test, and is killed when this value is dropped.
struct Running {
    child: Child,
    err: BufReader<ChildStderr>,
    /// Directory of its sockets; the length of socket names is limited.
    at: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts the command and waits until it has printed `said`.
    fn until(at: TempDir, mut command: Command, said: &str) -> Running {
        let mut child = command.spawn().expect("it starts");
        let err = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut running = Running { child, err, at };
        running.says(said);
        running
    }

    /// Reads lines until a line contains `said`; returns all lines read.
    fn says(&mut self, said: &str) -> String {
        let mut all = String::new();
        while !all.lines().last().is_some_and(|line| line.contains(said)) {
            assert!(
                self.err.read_line(&mut all).expect("UTF-8") > 0,
                "`{said}` was not said:\n{all}"
            );
        }
        all
    }

    fn bridge() -> Running {
        let at = tempfile::tempdir().expect("a directory can be made");
        let [a, b] = ["a", "b"].map(|name| format!("vhost:{}", at.path().join(name).display()));
        let control = at.path().join("control");
        let control = control.to_str().expect("UTF-8");
        let command = program(&["bridge", &a, &b, "--rate", "1mbit", "--control", control]);
        Running::until(at, command, "forwarding between vhost:")
    }

    /// Starts a service with one adapter and these further arguments.
    fn service(name: &str, more: &[&str]) -> Running {
        let at = tempfile::tempdir().expect("a directory can be made");
        let file = file(name, &served(at.path()));
        let [control, api] = ["control", "api"].map(|name| at.path().join(name));
        let mut command = program(&["serve", file, "--control"]);
        command.arg(control).arg("--api").arg(api).args(more);
        let service = Running::until(at, command, "serving ");
        // The service answers before it has checked its adapters for the first time.
        let looked = (0..4000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            service.ask("GET /v1/adapters", "").1["adapters"] != json!([])
        });
        assert!(looked, "the service has not checked its adapters");
        service
    }

    fn at(&self, name: &str) -> String {
        self.at.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Sends a request to the API.
    fn ask(&self, request: &str, body: &str) -> (u16, Value) {
        http(UnixStream::connect(self.at("api")).expect("it listens"), request, body)
    }
}

/// Returns a service's file whose adapters are network cards of virtual machines, with sockets in
/// this directory.
fn served(at: &Path) -> String {
    let at = at.display();
    format!(
        "[link.up]\nrate = \"20mbit\"\nuplink = \"vhost:{at}/uplink\"\nscheduler = {{ kind = \"wf2q+\" }}\n\
         [link.up.flow.calm]\nadapter = \"vhost:{at}/calm\"\nweight = 2\n"
    )
}

fn http(mut stream: impl Read + Write, request: &str, body: &str) -> (u16, Value) {
    let head = "HTTP/1.1\r\nHost: falaj\r\nConnection: close\r\nContent-Type: application/json";
    let length = body.len();
    // The request is written at once: a service answers and closes as soon as it has read enough,
    // and a later write would fail.
    let whole = format!("{request} {head}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(whole.as_bytes()).expect("it listens");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("UTF-8");
    let (head, body) = all.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn changes_of_a_link_with_two_ends() {
    let link = Running::bridge();
    let control = link.at("control");
    let asked = |command: &str, words: &[&str], said: &str| {
        refused(&[&[command, "--control", &control], words].concat(), said);
    };
    let set = |words: &[&str], said| asked("set", words, said);
    set(
        &["link"],
        "`link`: there is nothing to set; write a key and its value, as in `link rate=5mbit`",
    );
    set(
        &["link", "rate"],
        "`rate`: there is no `=`; write a key and its value, as in `rate=5mbit`",
    );
    set(
        &["nobody.rate=5mbit"],
        "nobody.rate=5mbit: no table of the scenario has such a key; its tables are `link.link`, ",
    );
    set(&["link.rate="], "error: link `link` lacks `rate`");
    set(&["link.rate="], "falaj: nothing was changed: link.rate=\n");
    set(&["--file", "nowhere"], "cannot read the scenario nowhere: No such file");
    let (a, b) = ("[link.a]\nrate = \"1mbit\"\n", "[link.b]\nrate = \"1mbit\"\n");
    let file = |name, text: &str| file(name, text).to_owned();
    let hosts =
        file("set-hosts.toml", &format!("{a}[host.x]\nlink = \"a\"\n[host.y]\nlink = \"a\"\n"));
    set(&["--file", &hosts], "hosts cannot be changed while a link runs: leave `host` out");
    let adapter = file("set-adapter.toml", ADAPTER);
    set(
        &["--file", &adapter],
        "this link has two ends, and a flow with an `adapter` is for `falaj serve`",
    );
    let two = file("set-two.toml", &format!("{a}{b}"));
    set(&["--file", &two], "this scenario has 2 links, and no rule assigns packets to links");
    let paced =
        "[link.link]\nrate = \"1mbit\"\npaced-by = \"device\"\n[[rule]]\nto = [\"link\", \"b\"]\n";
    let paced = file("set-paced.toml", &format!("{b}{paced}"));
    set(
        &["--file", &paced],
        "link link is paced by its device, and rule `1` leads packets on from it to link b: a device",
    );
    let large = file("set-large.toml", &format!("{a}#{}\n", "x".repeat(4 << 20)));
    set(&["--file", &large], "the scenario is too large for a line of 4194304 bytes");
    asked(
        "show",
        &["nobody"],
        "there is no `nobody`; there are `link`, `link.up`, `up.all`, `link.down`, `down.all`",
    );
    asked("top", &[], "standard output is not a terminal; --once prints one screen as text");

    let netconfig = |words: &[&str], said| asked("netconfig", words, said);
    netconfig(&["delete", "client", "80"], "there is no link `client-80`");
    netconfig(&["config", "client", "80"], "error: `config` has no parameters");
    netconfig(&["config", "nobody", "80"], "error: `nobody` is not a side");
    let config = ["config", "client", "80", "IN", "delay", "10ms"];
    let again = |said| {
        let ran = falaj(&[&["netconfig", "--control", &control][..], &config].concat());
        assert_eq!((ran.status, ran.err.as_str()), (Some(0), said));
    };
    again("");
    again("falaj: no value was different: nothing was changed\n");
    let ran = falaj(&["set", "--control", &control, "link.rate=1mbit"]);
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (Some(0), "falaj: no value was different: nothing was changed\n")
    );
}

#[test]
fn netconfig_in_files_that_have_no_place_for_it() {
    for (text, said) in [
        ("x = \n", "the scenario cannot be read: TOML parse error at line 1, column 5"),
        ("rule = 5\n", "`rule` is not a list of tables"),
        ("link = 5\n", "`link` is not a table"),
    ] {
        let file = ["--print", "--file", file("netconfig.toml", text)];
        let words = ["config", "client", "80", "IN", "delay", "10ms"];
        refused(&[&["netconfig"], &file[..], &words].concat(), said);
    }
}

#[test]
fn lines_that_are_no_requests() {
    let link = Running::bridge();
    let mut lines = BufReader::new(UnixStream::connect(link.at("control")).expect("it listens"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("its hello");
    let mut answered = |request: &str| -> Value {
        writeln!(lines.get_mut(), "{request}").expect("it listens");
        line.clear();
        lines.read_line(&mut line).expect("UTF-8");
        serde_json::from_str(&line).expect("JSON")
    };
    for (request, said) in [
        ("hello", "a request must be a JSON object on one line: expected value at line 1 column 1"),
        (
            "[]",
            "a request must be a JSON object on one line: invalid type: sequence, expected a map at line 1 column 0",
        ),
        ("{}", "`do` must be \"show\", \"set\" or \"scenario\""),
        (r#"{"do":"quit"}"#, "`do` must be \"show\", \"set\" or \"scenario\""),
        (r#"{"do":"show","x":1}"#, "unknown field `x`, expected `histograms`"),
        (r#"{"do":"scenario","x":1}"#, "unknown field `x`, there are no fields"),
        (r#"{"do":"set","set":5}"#, "invalid type: integer `5`, expected a sequence"),
        (r#"{"do":"set","toml":"x","set":["rate=1mbit"]}"#, "the scenario is not valid TOML"),
        (
            r#"{"do":"set","set":["rate"]}"#,
            "rate: there is no `=`; write a key of the scenario and its value, as in `voice.phase=60us`",
        ),
        (
            r#"{"do":"set","set":["=1"]}"#,
            "=1: `` is not a key; write a key of the scenario and its value, as in `voice.phase=60us`",
        ),
    ] {
        assert_eq!(
            answered(request),
            json!({ "error": { "remarks": [], "what": said }, "id": null }),
            "{request}"
        );
    }
    assert_eq!(answered(r#"{"id":7}"#)["id"], 7);
}

/// Links whose answers are invalid or missing.
#[test]
fn answers_that_are_not_to_be_read() {
    let at = tempfile::tempdir().expect("a directory can be made");
    let hello =
        r#"{"falaj": 1, "release": "0.1.0", "command": "run", "pid": 1, "about": "a.toml"}"#;
    for (name, answer, said) in [
        ("words", "what?\n", "the answer cannot be read: expected value"),
        ("other", "{\"ok\": 5}\n", "the answer cannot be read: invalid type: integer `5`"),
        ("error", "{\"error\": 5}\n", "the answer cannot be read: invalid type: integer `5`"),
        (
            "refusal",
            "{\"error\": {\"what\": \"not today\", \"remarks\": []}}\n",
            "falaj: not today\n",
        ),
        ("nothing", "", "falaj: the link is gone\n"),
    ] {
        let path = at.path().join(name);
        let listener = UnixListener::bind(&path).expect("a socket");
        let link = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            writeln!(stream, "{hello}").expect("the client reads");
            BufReader::new(&stream).read_line(&mut String::new()).expect("a request");
            stream.write_all(answer.as_bytes()).expect("the client reads");
        });
        refused(&["show", "--control", path.to_str().expect("UTF-8")], said);
        link.join().expect("it was asked");
    }
}

/// A link that reports its state, but whose scenario is invalid.
#[test]
fn a_scenario_that_is_not_to_be_read() {
    let link = Running::bridge();
    let mut asking = UnixStream::connect(link.at("control")).expect("it listens");
    writeln!(asking, "{{\"do\":\"show\"}}").expect("it listens");
    // Another socket repeats the link's hello and its answer.
    let lines = BufReader::new(asking).lines().take(2);
    let mut said: Vec<String> = lines.map(|line| line.expect("UTF-8")).collect();
    said.push(r#"{"ok": {"toml": "x"}}"#.to_owned());
    let path = link.at("other");
    let listener = UnixListener::bind(&path).expect("a socket");
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut asked = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
        for (n, line) in said.iter().enumerate() {
            if n > 0 {
                asked.next().expect("a request").expect("UTF-8");
            }
            writeln!(stream, "{line}").expect("the client reads");
        }
    });
    refused(
        &["top", "--once", "--control", &path],
        "the link's scenario cannot be read: TOML parse error",
    );
    other.join().expect("it was asked");
}

/// Services with answers that no real service gives.
#[test]
fn services_that_are_none() {
    let at = tempfile::tempdir().expect("a directory can be made");
    let top = |path: &Path| falaj(&["top", "--once", "--api", path.to_str().expect("UTF-8")]);
    for (name, answer, said) in [
        (
            "later",
            "HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n",
            "the service answers 503 to /v1",
        ),
        (
            "words",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhat?",
            "the service's answer cannot be read; the service may be of another release",
        ),
    ] {
        let path = at.path().join(name);
        let listener = UnixListener::bind(&path).expect("a socket");
        let service = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            // The request is read before the answer is written, so that no part of the answer is
            // lost when the socket closes.
            let mut asked = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
            asked.find(|line| line.as_ref().is_ok_and(String::is_empty));
            stream.write_all(answer.as_bytes()).expect("the client reads");
        });
        let ran = top(&path);
        assert!(ran.status == Some(2) && ran.err.contains(said), "{said}\n{ran:?}");
        service.join().expect("it was asked");
    }
    let ran = top(&at.path().join("nobody"));
    assert!(
        ran.status == Some(2)
            && ran.err.contains("nobody: no process listens at this socket: No such file"),
        "{ran:?}"
    );
}

#[test]
fn what_a_service_refuses() {
    let service = Running::service("running-service.toml", &[]);
    let refused = |request: &str, body: &str, status: u16, said: &str| {
        let (is, answer) = service.ask(request, body);
        assert!(
            is == status && answer["what"].as_str().is_some_and(|what| what.contains(said)),
            "{is} {answer}: {said}"
        );
    };
    refused("GET /v1/adapters/nobody", "", 404, "there is no adapter nobody; there are calm");
    refused(
        "PATCH /v1/adapters/nobody",
        "{\"weight\":1}",
        404,
        "there is no adapter nobody; there are calm",
    );
    refused(
        "PUT /v1/adapters/calm",
        "{\"weight\":1}",
        409,
        "there is an adapter calm already: PATCH changes it",
    );
    refused(
        "PUT /v1/adapters/nobody/paused",
        "true",
        404,
        "there is no adapter nobody; there are calm",
    );
    refused("DELETE /v1/adapters/nobody", "", 404, "there is no adapter nobody; there are calm");
    let (status, answer) = service.ask("DELETE /v1/adapters/calm", "");
    let last = answer["remarks"][0]["title"].as_str().unwrap_or_default();
    assert!(
        status == 409
            && last.contains("has the uplink")
            && last.contains("no flow with an `adapter`"),
        "{answer}"
    );
    let name = "a name has letters, digits, `-` and `_`; a part is named `FLOW/PART`";
    refused("PUT /v1/adapters/a.b", "{\"weight\":1}", 400, name);
    refused("PATCH /v1/adapters/calm", "{}", 400, "no key is given; an example: {\"weight\": 3}");
    let own = r#"{"adapter":"namespace","weight":1}"#;
    refused(
        "PUT /v1/adapters/late",
        own,
        409,
        "adapter late: a namespace of its own is only made at the start",
    );
    let queue = r#"{"adapter":"nfqueue:7","weight":1}"#;
    refused(
        "PUT /v1/adapters/late",
        queue,
        409,
        "adapter late: a queue of the firewall is for `falaj bridge`",
    );
    let moved = served(service.at.path()).replace("/uplink", "/elsewhere");
    refused(
        "PUT /v1/scenario",
        &moved,
        409,
        "the uplink cannot change while the service runs: it is `vhost:",
    );
    let (status, answer) = service.ask("PUT /v1/scenario", "\nrate\n");
    assert!(
        status == 409
            && answer["remarks"][0]["title"].as_str().unwrap_or_default().starts_with("line 2: "),
        "{answer}"
    );
    refused(
        "PATCH /v1/adapters/calm?chekc=true",
        "{\"weight\":1}",
        400,
        "unknown field `chekc`, expected `check` or `drop`",
    );
    let api = service.at("api");
    super::refused(
        &["top", "--api", &api],
        "standard output is not a terminal; --once prints one screen as text",
    );
}

#[test]
fn over_tcp_a_token_is_asked_for() {
    let token = file("running-token", "sixteen letters!\n");
    let mut service =
        Running::service("running-tcp.toml", &["--tcp", "127.0.0.1:0", "--token-file", token]);
    let said = service.says("http://127.0.0.1:");
    let address = said
        .split_once("http://")
        .and_then(|(_, rest)| rest.split(['/', ' ', '\n']).next())
        .expect(&said);
    let stream = std::net::TcpStream::connect(address).expect("it listens");
    let (status, answer) = http(stream, "GET /v1", "");
    let wanted = "send the header `Authorization: Bearer TOKEN`, with the contents of --token-file";
    assert_eq!((status, answer["what"].as_str()), (401, Some(wanted)));
}

#[test]
fn services_begin_as_they_ended() {
    let at = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(at.path().join("state.toml"), served(at.path())).expect("a file can be written");
    std::fs::write(at.path().join("state.toml.paused"), "calm\n").expect("a file can be written");
    let [state, control, api] = ["state.toml", "control", "api"].map(|name| at.path().join(name));
    let mut command = program(&["serve", "nowhere.toml", "--state"]);
    command.arg(&state).arg("--control").arg(control).arg("--api").arg(api);
    let mut service = Running::until(
        at,
        command,
        "has changes made before, so it is used instead of nowhere.toml",
    );
    service.says("adapter calm stays paused, as before");
}

#[test]
fn files_that_are_no_services() {
    let serve = |name, text: &str, said: &str| refused(&["serve", file(name, text)], said);
    let hosts = format!("{ADAPTER}[host.x]\nlink = \"up\"\n[host.y]\nlink = \"up\"\n");
    serve(
        "serve-hosts.toml",
        &hosts,
        "a service has adapters instead of [host.NAME] and [[rule]]: leave them out",
    );
    let (silent, _) = ADAPTER.split_once("[traffic").expect("it has some");
    let rules = format!("{silent}[[rule]]\nto = \"up\"\n");
    serve(
        "serve-rules.toml",
        &rules,
        "a service has adapters instead of [host.NAME] and [[rule]]: leave them out",
    );
    let each = ADAPTER.replace("uplink", "mask = \"src\"\nuplink");
    serve(
        "serve-each.toml",
        &each,
        "link up has `mask`, and a service has one link: give `mask` to the flows of its",
    );
    let need = ADAPTER.replace("weight = 2", "weight = 2\nrequires = { rate = \"30mbit\" }");
    serve("serve-need.toml", &need, "error: calm needs 30mbit, is guaranteed 20.0 Mbit/s; ");
    serve(
        "serve-need.toml",
        &need,
        "falaj: the link cannot give all these guarantees: `falaj plan fits` shows which ones",
    );
    for (port, said) in [
        (
            "tap:",
            "adapter calm: write the namespace after `tap:`: a name under /run/netns, or a process",
        ),
        (
            "nfqueue:7",
            "adapter calm: a queue of the firewall is for `falaj bridge`: it is neither an adapter nor an uplink",
        ),
        ("vhost:", "adapter calm: write the path of a socket after `vhost:`"),
        ("memif:", "adapter calm: write the path of a socket and, if needed"),
        ("vhost:/proc/a", "adapter calm: cannot listen there; use a path that does not exist yet"),
        (
            "memif:/proc/a",
            "adapter calm: cannot create that socket; use a path that does not exist yet",
        ),
    ] {
        let at = tempfile::tempdir().expect("a directory can be made");
        let text = served(at.path());
        let calm = format!("vhost:{}/calm", at.path().display());
        serve("serve-port.toml", &text.replace(&calm, port), said);
    }
}

#[test]
fn keys_and_certificates_that_are_none() {
    let both = |certificate: &str, key: &str, said: &str| {
        let tcp = ["--tcp", "127.0.0.1:0", "--token-file", file("tls-token", "sixteen letters!\n")];
        let tls = ["--tls-cert", certificate, "--tls-key", key];
        refused(&[&["serve", file("tls.toml", ADAPTER)], &tcp[..], &tls].concat(), said);
    };
    let made =
        || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (one, other) = (made(), made());
    let certificate = file("tls-certificate.pem", &one.cert.pem());
    let key = file("tls-key.pem", &other.signing_key.serialize_pem());
    let words = file("tls-words.pem", "no PEM\n");
    let torn = file("tls-torn.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    both(
        words,
        key,
        "--tls-cert tls-words.pem: the file has no certificate; it must be PEM (BEGIN CERTIFICATE)",
    );
    both(torn, key, "--tls-cert tls-torn.pem: base64 decode error");
    both("nowhere", key, "--tls-cert nowhere: I/O error: No such file");
    both(
        certificate,
        words,
        "--tls-key tls-words.pem: the file must have a private key in PEM, without a password",
    );
    both(certificate, "nowhere", "--tls-key nowhere: ");
    both(
        certificate,
        key,
        "--tls-cert tls-certificate.pem and --tls-key tls-key.pem cannot be used together",
    );
}

#[test]
fn a_link_runs_without_a_control_socket() {
    let nobodys = place("sockets-unasked", 0o755);
    let at = tempfile::tempdir().expect("a directory can be made");
    let [a, b] = ["a", "b"].map(|name| format!("vhost:{}", at.path().join(name).display()));
    let mut command = program(&["bridge", &a, &b, "--rate", "1mbit"]);
    command.env("XDG_RUNTIME_DIR", &nobodys).env_remove("FALAJ_CONTROL");
    let mut link = Running::until(at, command, "warning: no control socket: ");
    link.says("forwarding between vhost:");
}
