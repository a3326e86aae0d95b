//! Messages for impossible requests: each message once, with the command that causes it. Messages
//! about scenarios and other tools' files are tested beside their parsers.

mod captures;
mod options;
mod parser;
mod running;

use crate::common::{Ran, directory, falaj, file, program};
use std::fs::{DirBuilder, Permissions, set_permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// Asserts that the input is refused as wrong, without any action.
fn refused(args: &[&str], said: &str) {
    let ran = falaj(args);
    assert!(
        ran.status == Some(2) && ran.out.is_empty() && ran.err.contains(said),
        "{args:?}: {said}\n{ran:#?}"
    );
}

#[test]
fn loads_that_cannot_be() {
    let sched = |args: &[&str], said| refused(&[&["bench", "sched"], args].concat(), said);
    for (flowsets, said) in [
        ("1:2:3:4", "`1:2:3:4` has more than `weight:length:flows`"),
        ("1:100:0", "`1:100:0` has 0 flows; 1 to 4194304 will do"),
        ("1::3m,1::3m", "`1::3m,1::3m` has 6291456 flows; up to 4194304 will do"),
        ("1-2-3-4", "`1-2-3-4` is not `low-high-steps`"),
        ("9-1", "`9-1`: from 1 to 65536, the lower end first"),
        ("1-9-0", "`1-9-0` has 0 steps; 1 to 1024 will do"),
        ("x", "`x` is not a number; write `512`, `8k` (1024) or `8K` (1000)"),
    ] {
        sched(&["--flowsets", flowsets], said);
    }
    sched(&["none-such"], "no load is called `none-such`; `--list` names them");
    sched(&["--flows", "0"], "1 to 4m flows will do");
    sched(
        &["--flows", "2", "--qmin", "10", "--qmax", "5"],
        "cannot fill to 5 and drain to 10 packets: --qmax must exceed --qmin",
    );
    sched(
        &["--flowsets", "2::2", "--plot", "never.svg"],
        "the plot shows times over the number of equal flows: give `--flows`, or a load of equal flows",
    );

    let wfi = |args: &[&str], said| refused(&[&["bench", "wfi"], args].concat(), said);
    wfi(&["none-such"], "no load is called `none-such`; `--list` names them");
    wfi(
        &["--flowsets", "1::2", "--qmin", "10", "--qmax", "5"],
        "cannot fill to 5 and drain to 10 packets: --qmax must exceed --qmin",
    );
    wfi(&["--search", "--flowsets", "1::70"], "the search is for few flows: 64 at most, not 70");
    wfi(&["--replay", "nowhere"], "cannot read nowhere");
    let replay =
        |text, said| wfi(&["--flowsets", "1::2", "--replay", file("replay.txt", text)], said);
    replay("5 0 100\n1 0 100\n", "replay.txt:2: earlier than the packet before it");
    replay("5 x 100\n", "replay.txt:1: `5 x 100` is not `microseconds flow bytes`");
    replay("5 9 100\n", "packet 1: flow 9 of 2");
}

#[test]
fn papers_have_their_figures() {
    refused(&["reproduce", "zhang", "--guests"], "--guests is for xen: leave it out");
    refused(
        &["reproduce", "fortuna", "--quick"],
        "--quick is for xen, rizzo, tcp, l4s, dualq and cebinae, and for aggregation with --live",
    );
    refused(&["reproduce", "zhang", "--figure", "15"], "there is no Figure 5.15: 1 to 14");
    refused(
        &["reproduce", "xen", "--figure", "3"],
        "there is no figure 3 to be reproduced: 4 to 9",
    );
    refused(
        &["reproduce", "xen", "--guests", "--figure", "8"],
        "guests here have none: leave out --guests",
    );
}

#[test]
fn what_stands_alone() {
    refused(
        &["fmt", "-", file("alone.toml", crate::common::TENANTS)],
        "`-` stands alone: its text is printed, not written to a file",
    );
    refused(&["plan", "aggregate", "--any-timeout"], "--delay <TIME>");
    refused(&["plan", "aggregate", "--fit-vms"], "--delay <TIME>");
}

const ADAPTER: &str = "[link.up]\nrate = \"20mbit\"\nuplink = \"namespace\"\nscheduler = { kind = \"wf2q+\" }\n\
                       [link.up.flow.calm]\nadapter = \"namespace\"\nweight = 2\n\
                       [traffic.x]\nmodel = \"cbr\"\nflow = \"calm\"\nrate = \"1mbit\"\nsize = \
                       \"500B\"\n";
const TRAFFIC: &str = "[traffic.x]\nmodel = \"cbr\"\nrate = \"1mbit\"\nsize = \"500B\"\n";

/// Scenarios that are valid for other commands.
#[test]
fn a_scenario_for_another_command() {
    let text = |text: &str| format!("{text}{TRAFFIC}");
    let adapter = file("for-serve.toml", ADAPTER);
    for args in [&["traffic", adapter][..], &["compare", adapter], &["run", adapter, "--", "true"]]
    {
        refused(
            args,
            "flow calm has an adapter, and with this command a link has two ends: `falaj serve` gives each adapter its own",
        );
    }
    let each = text("[link.up]\nrate = \"20mbit\"\nmask = \"src\"\n");
    let each = file("for-run.toml", &each);
    refused(
        &["traffic", each],
        "link up has `mask`, and here sources send from one address at each end",
    );
    let relay = ["relay", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"];
    refused(
        &[&relay[..], &[each]].concat(),
        "link up has `mask`, and here clients are flows of their own already",
    );
    let two = text(
        "[link.a]\nrate = \"1mbit\"\n[link.b]\nrate = \"1mbit\"\n[[rule]]\nto = \"a\"\nmatch = \"udp\"\n[[rule]]\nto = \"b\"\n",
    );
    let two = file("two-links.toml", &two);
    refused(&["serve", two], "a service has one link; this file has 2");
    let torn = file("torn.toml", "[link.a]\nrate = \"1mbit\"\n[link.b]\nrate = \"1mbit\"\n");
    refused(
        &["run", torn, "--", "true"],
        "no rule assigns packets to links: add [[rule]], or keep only one [link.NAME]",
    );
    refused(
        &["serve", file("bare.toml", "[link.a]\nrate = \"1mbit\"\n")],
        "no flow of link a has an `adapter`",
    );
    let hosts = text("[link.up]\nrate = \"20mbit\"\n[host.a]\nlink = \"up\"\n");
    let hosts = file("hosts.toml", &hosts);
    refused(
        &["traffic", hosts],
        "this scenario has hosts, and this command has links between two ends: leave [host.NAME] out, or use `run`",
    );
    let silent = file("silent.toml", "[link.a]\nrate = \"1mbit\"\n");
    refused(&["traffic", silent], "link a has no [traffic.NAME]: there is nothing to send");
}

/// In a live run the device is behind the port, so only the last link that packets pass may be
/// paced by it. In a simulation, each link may have a device.
#[test]
fn a_device_behind_another_link() {
    let links = "[link.a]\nrate = \"1mbit\"\nup = { paced-by = \"device\" }\n[link.b]\nrate = \"1mbit\"\n\
                 [link.c]\nrate = \"1mbit\"\npaced-by = \"device\"\n";
    let by = |name, rules: &str| file(name, &format!("{links}{TRAFFIC}{rules}")).to_owned();
    let said = |rule: &str, to: &str, help: &str| {
        format!(
            "falaj: link a is paced by its device, and rule `{rule}` leads packets on from it to \
             link {to}: a device stands behind a port, and may pace the last link that packets \
             pass; {help}, or let falaj pace link a: `paced-by = \"falaj\"`\n"
        )
    };
    let two = by("device-two.toml", "[[rule]]\nname = \"both\"\nto = [\"a\", \"c\"]\n");
    let one = by(
        "device-one.toml",
        "[[rule]]\nmatch = \"tcp\"\nto = \"c\"\n[[rule]]\nto = [\"b\", \"a\", \"b\"]\n",
    );
    let on = by(
        "device-on.toml",
        "[[rule]]\nmatch = \"udp\"\nto = \"a\"\nthen = \"on\"\n[[rule]]\nto = \"b\"\n",
    );
    for (two, said) in [
        (&two, said("both", "c", "name it last in `to`")),
        (&one, said("2", "b", "name it last in `to`")),
        (&on, said("1", "b", "leave out `then = \"on\"`")),
    ] {
        for args in [&["run", two, "--", "true"][..], &["compare", two]] {
            refused(args, &said);
        }
        assert_eq!(
            falaj(&["sim", two, "--duration", "10ms", "--replications", "1"]).status,
            Some(0)
        );
    }
    // It is allowed as the last link, or in the other direction.
    let rules = "[[rule]]\ndirection = \"down\"\nto = [\"a\", \"c\"]\n[[rule]]\nmatch = \"udp\"\nto = [\"b\", \"a\"]\n[[rule]]\nto = \"c\"\n";
    let last = by("device-last.toml", rules);
    refused(
        &["run", &last, "--", "true"],
        "the interface does not say when it has room: `paced-by = \"device\"` is for packet sockets",
    );
}

#[test]
fn a_service_that_does_not_begin() {
    let serve = ["serve", file("begins.toml", ADAPTER)];
    let tcp = |more: &[&str], said| {
        refused(&[&serve, &["--tcp", "127.0.0.1:0"][..], more].concat(), said);
    };
    tcp(&["--token-file", "no-token"], "--token-file no-token: No such file");
    tcp(
        &["--token-file", file("short-token", "fifteen letters\n")],
        "--token-file short-token: a token has 16 bytes at least",
    );
    let beyond = ["--tcp", "0.0.0.0:0", "--token-file", file("long-token", "sixteen letters!\n")];
    refused(
        &[&serve, &beyond[..]].concat(),
        "--tcp 0.0.0.0:0: beyond this host the token would be there for all to read",
    );
    let open = directory().join("long-token");
    for (mode, told) in [(0o604, true), (0o640, false)] {
        set_permissions(&open, Permissions::from_mode(mode)).expect("it is ours");
        let ran: Ran = program(&[&serve, &beyond[..]].concat()).output().expect("it starts").into();
        let warned = ran.err.contains(
            "falaj: warning: --token-file long-token: every user of this host may read it: chmod \
             o= long-token\n",
        );
        assert_eq!(warned, told, "{ran:?}");
    }
    refused(
        &[&serve, &["--access", "/nowhere"][..]].concat(),
        "--access /nowhere: no directory is there: make it before the service starts",
    );
    refused(
        &[&serve, &["--fail-open", "br0"][..]].concat(),
        "--fail-open joins existing interfaces, such as `eth1`, but this file has none",
    );
}

/// Asserts that the command is refused with this message. Unlike in [`refused`], the command may
/// write to standard output before it finds the error.
fn ends(args: &[&str], said: &str) {
    let ran = falaj(args);
    assert!(ran.status == Some(2) && ran.err.contains(said), "{args:?}: {said}\n{ran:#?}");
}

/// Returns a directory for this test's own sockets.
fn place(name: &str, mode: u32) -> PathBuf {
    let place = directory().join(name);
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir(&place).expect("a directory can be made");
    DirBuilder::new().mode(mode).create(place.join("falaj")).expect("a directory can be made");
    set_permissions(place.join("falaj"), Permissions::from_mode(mode)).expect("it is ours");
    place
}

fn ran_at(place: &std::path::Path, args: &[&str]) -> Ran {
    program(args)
        .env("XDG_RUNTIME_DIR", place)
        .env_remove("FALAJ_CONTROL")
        .output()
        .expect("it starts")
        .into()
}

/// Listens and sends this hello to the given number of clients.
fn listens(
    place: &std::path::Path,
    name: &str,
    hello: &'static str,
    times: usize,
) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(place.join("falaj").join(name)).expect("a socket");
    std::thread::spawn(move || {
        for _ in 0..times {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = writeln!(stream, "{hello}");
        }
    })
}

#[test]
fn links_that_are_not_found() {
    let nobodys = place("sockets-nobodys", 0o755);
    let said = "falaj is not a directory that only its user can open";
    let ran = ran_at(&nobodys, &["serve", file("nobodys.toml", ADAPTER)]);
    assert!(
        ran.status == Some(2)
            && ran.err.contains(said)
            && ran.err.contains("name a place for it by --control"),
        "{ran:?}"
    );

    let empty = place("sockets-none", 0o700);
    let ran = ran_at(&empty, &["show"]);
    assert!(
        ran.status == Some(2) && ran.err.contains("no link of this user is running (none in "),
        "{ran:?}"
    );
    let ran = ran_at(&empty, &["show", "--control", "nobody.sock"]);
    assert!(
        ran.status == Some(2)
            && ran.err.contains("--control nobody.sock: no process listens at this socket"),
        "{ran:?}"
    );
    let ran: Ran =
        program(&["show"]).env("FALAJ_CONTROL", "nobody.sock").output().expect("it starts").into();
    assert!(
        ran.status == Some(2)
            && ran.err.contains("FALAJ_CONTROL=nobody.sock: no process listens at this socket"),
        "{ran:?}"
    );
    let ran = ran_at(&empty, &["top"]);
    assert!(
        ran.status == Some(2) && ran.err.contains("start a service by `falaj serve FILE`"),
        "{ran:?}"
    );

    let path = |name: &str| empty.join("falaj").join(name).to_str().expect("UTF-8").to_owned();
    let strange = listens(&empty, "strange.sock", "220 mail.example ESMTP", 1);
    let ran = ran_at(&empty, &["show", "--control", &path("strange.sock")]);
    assert!(
        ran.status == Some(2) && ran.err.contains("that is not a control socket of falaj"),
        "{ran:?}"
    );
    strange.join().expect("it was asked");

    let two = place("sockets-two", 0o700);
    let hello =
        r#"{"falaj": 1, "release": "0.1.0", "command": "run", "pid": 1, "about": "a.toml"}"#;
    let running = ["a.sock", "b.sock"].map(|name| listens(&two, name, hello, 1));
    let ran = ran_at(&two, &["show"]);
    assert!(
        ran.status == Some(2) && ran.err.contains("2 links are running: select one"),
        "{ran:?}"
    );
    assert!(ran.err.contains("b.sock  falaj run a.toml (pid 1)"), "{ran:?}");
    running.into_iter().for_each(|one| one.join().expect("it was asked"));

    let other = listens(
        &two,
        "c.sock",
        r#"{"falaj": 99, "release": "9.9", "command": "run", "pid": 1, "about": "a.toml"}"#,
        1,
    );
    let at = two.join("falaj/c.sock");
    let ran = ran_at(&two, &["show", "--control", at.to_str().expect("UTF-8")]);
    assert!(
        ran.status == Some(2)
            && ran.err.contains("that falaj (9.9) speaks version 99 of the protocol, this one"),
        "{ran:?}"
    );
    other.join().expect("it was asked");
}
