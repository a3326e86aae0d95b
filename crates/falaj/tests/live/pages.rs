//! Runs commands from the documentation pages in a shell, as printed: each in a network namespace
//! with a loopback interface and two veth pairs, so that their ports are free. Commands that are
//! not run are listed with the reason.

use crate::common::{Ran, directory, signal};
use libtest_mimic::{Completion, Trial};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A page of the documentation, and its falaj commands.
struct Page {
    name: &'static str,
    /// Files that its commands read.
    files: &'static [(&'static str, Content)],
    /// Beginnings of commands that are not run, with the reason.
    left_out: &'static [(&'static str, &'static str)],
    /// Beginnings of commands with an exit status other than 0, and that status.
    ends: &'static [(&'static str, i32)],
}

/// The content of a file that a page's commands read.
#[derive(Clone, Copy)]
enum Content {
    /// The page's TOML block with this index, from 0.
    Block(usize),
    /// This file of the repository.
    File(&'static str),
    /// This text.
    Text(&'static str),
    /// The tutorial's scenario with another scheduler.
    Office(&'static str),
}
use Content::{Block, File, Office, Text};

const OFFICE: (&str, Content) = ("office.toml", Office(""));
const UPLINK: (&str, Content) = (
    "uplink.toml",
    Text(
        "[link.uplink]\nrate = \"20mbit\"\n[link.uplink.flow.a]\nmatch = \"any\"\n\
         [traffic.a]\nflow = \"a\"\nmodel = \"poisson\"\nrate = \"5mbit\"\nsize = \"500B\"\n\
         [run]\nduration = \"100ms\"\n",
    ),
);
const SERVICE: (&str, Content) = ("service.toml", Block(0));
const LONG: &str = "it takes minutes";
const INSTALLED: &str = "it is tested where it is installed, by `make dist`";
const IN_USE: &str = "it takes an interface, a container or a socket of the host";
const INSIDE: &str = "it is typed inside of a link that runs";
const ELSEWHERE: &str = "it needs a second terminal or another host";

const fn page(name: &'static str) -> Page {
    Page { name, files: &[], left_out: &[], ends: &[] }
}

const PAGES: &[Page] = &[
    Page {
        files: &[OFFICE, ("fifo.toml", Office("kind = \"fifo\""))],
        left_out: &[(
            "falaj compare ",
            "the verdict depends on the host; the tests of `compare` check its verdicts",
        )],
        ..page("docs/tutorial.md")
    },
    Page {
        left_out: &[("falaj aggregate ", LONG), ("falaj bridge ", IN_USE)],
        ..page("docs/how-to/aggregate.md")
    },
    Page { left_out: &[("sudo falaj attach ", IN_USE)], ..page("docs/how-to/attach.md") },
    Page {
        files: &[("link.toml", File("examples/jitter.toml"))],
        left_out: &[
            ("falaj bridge a1 ", "its refusals are tested with interfaces that are joined"),
            ("falaj bridge eth1 eth2 --via xdp", IN_USE),
            ("falaj bridge eth1@blue ", IN_USE),
            ("falaj bridge vhost:", IN_USE),
            ("falaj bridge memif:", IN_USE),
        ],
        ..page("docs/how-to/bridge.md")
    },
    Page {
        files: &[
            ("changes.sh", Text("falaj set link rate=2mbit\n")),
            ("other.toml", File("examples/tenants.toml")),
        ],
        left_out: &[("falaj sim uplink.toml --replay trace.pcap", "it needs a capture of yours")],
        ..page("docs/how-to/capture.md")
    },
    Page {
        left_out: &[("falaj set ", INSIDE), ("falaj show", INSIDE)],
        ..page("docs/how-to/change.md")
    },
    Page {
        files: &[
            OFFICE,
            ("drr.toml", Office("kind = \"drr\"")),
            ("wf2q.toml", Office("kind = \"wf2q+\"")),
        ],
        ..page("docs/how-to/compare.md")
    },
    page("docs/how-to/dimension.md"),
    page("docs/how-to/divide.md"),
    Page { left_out: &[("falaj doctor", "it measures the host")], ..page("docs/how-to/doctor.md") },
    Page {
        files: &[("crowd.toml", File("examples/customers.toml"))],
        ..page("docs/how-to/mask.md")
    },
    page("docs/how-to/editor.md"),
    Page {
        files: &[
            ("client", Text("#!/bin/sh\n")),
            ("train.csv", Text("time (s),rate (mbit),delay (ms)\n0,8,20\n10,2,60\n")),
            ("up.trace", Text("1\n2\n3\n")),
            ("down.trace", Text("1\n1\n2\n")),
        ],
        ..page("docs/how-to/emulate.md")
    },
    Page { files: &[UPLINK, ("links/office.toml", Office(""))], ..page("docs/how-to/format.md") },
    Page { files: &[("star.toml", Block(0))], ..page("docs/how-to/hosts.md") },
    Page {
        files: &[
            (
                "shape.sh",
                Text(
                    "tc qdisc add dev eth0 root handle 1: tbf rate 10mbit burst 32kb latency 400ms\n",
                ),
            ),
            (
                "limit.sh",
                Text(
                    "limit() { tc class add dev $DEV parent 1: classid 1:$1 htb rate $2; }\nDEV=$1\n\
                     tc qdisc add dev $DEV root handle 1: htb default 20\n\
                     limit 10 5mbit; limit 20 20mbit\n",
                ),
            ),
            (
                "fading.sh",
                Text(
                    "tc qdisc add dev eth0 root netem rate 1mbit delay 400ms\nsleep 100\n\
                     tc qdisc change dev eth0 root netem rate 350kbit delay 400ms\nsleep 75\n\
                     tc qdisc del dev eth0 root\n",
                ),
            ),
        ],
        left_out: &[("falaj netconfig ", INSIDE)],
        ..page("docs/how-to/import.md")
    },
    Page {
        left_out: &[("falaj demo", INSTALLED), ("falaj-0.1.0-", INSTALLED)],
        ..page("docs/how-to/install.md")
    },
    Page { files: &[OFFICE, UPLINK], ..page("docs/how-to/phases.md") },
    Page { files: &[OFFICE], ..page("docs/how-to/pictures.md") },
    Page {
        left_out: &[("falaj plan docs/figures/curves.toml --svg", "it draws into the repository")],
        ends: &[("falaj plan docs/figures/curves.toml --requires files.delay=20ms", 1)],
        ..page("docs/how-to/plan.md")
    },
    Page {
        files: &[("longest.toml", Block(0))],
        left_out: &[
            ("falaj sim longest.toml", "it needs a C compiler; the plug-ins are tested with one"),
            ("falaj bench sched ", "it needs a C compiler; the plug-ins are tested with one"),
        ],
        ..page("docs/how-to/plugin.md")
    },
    Page { files: &[OFFICE], ..page("docs/how-to/guarantees.md") },
    // The other shards would come from other machines.
    Page { files: &[UPLINK], ends: &[("falaj sweep merge ", 2)], ..page("docs/how-to/python.md") },
    Page { files: &[("shared.toml", Office(""))], ..page("docs/how-to/relay.md") },
    Page { left_out: &[("falaj reproduce fortuna", LONG)], ..page("docs/how-to/reproduce.md") },
    Page {
        files: &[("dsl.toml", Block(0)), ("measure.sh", Text("#!/bin/sh\n"))],
        left_out: &[
            ("falaj run --rate 20mbit --delay 15ms --netns ", IN_USE),
            ("falaj run --rate 10mbit --fail-if ", "the verdict depends on the host"),
        ],
        ..page("docs/how-to/run.md")
    },
    Page {
        files: &[(
            "fading.toml",
            Text(
                "[link.radio]\nrate = \"20mbit\"\n[[change]]\nat = \"10s\"\n\
                 set = { \"radio.rate\" = \"2\" }\n",
            ),
        )],
        ends: &[("falaj check fading.toml", 2)],
        ..page("docs/how-to/scheduled-changes.md")
    },
    Page {
        files: &[OFFICE, ("links/office.toml", Office(""))],
        left_out: &[("falaj check links/*.toml && falaj plan", "the verdict depends on the host")],
        ..page("docs/how-to/scripts.md")
    },
    Page {
        files: &[SERVICE, ("token", Text("a-token-of-forty-characters-for-this-test"))],
        left_out: &[
            ("falaj serve service.toml --tcp 0.0.0.0:7700", "it needs a certificate"),
            ("falaj plan fits /etc/falaj", "it reads a file of the host"),
            ("falaj top ", ELSEWHERE),
        ],
        ..page("docs/how-to/serve.md")
    },
    Page { files: &[OFFICE], ..page("docs/how-to/simulate.md") },
    Page { files: &[("uplink.toml", Block(0))], ..page("docs/how-to/slice.md") },
    Page { left_out: &[("falaj bench ", LONG)], ..page("docs/how-to/timing.md") },
    Page {
        files: &[
            ("service.toml", File("examples/service.toml")),
            ("token", Text("a-token-of-forty-characters-for-this-test")),
        ],
        left_out: &[("falaj top", ELSEWHERE)],
        ..page("docs/how-to/watch.md")
    },
];

/// Programs other than falaj that the pages use. In these tests, each one is a script that only
/// reads its input.
const STAND_INS: [&str; 6] = ["curl", "iperf3", "jq", "ping", "sudo", "tshark"];

pub(crate) fn trials(possible: bool) -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        crate::trial(possible, name.to_owned(), move || {
            test();
            Ok(Completion::Completed)
        })
    };
    vec![
        trial("the_readme_is_short_and_its_commands_work_as_printed", readme),
        trial("commands_of_other_pages_work_as_printed", others),
    ]
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text_of(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// Starts a line of shell in `place`, with falaj installed, and with further programs in `bin`.
fn shell(line: &str, place: &Path, bin: Option<&Path>) -> Child {
    let installed = Path::new(env!("CARGO_BIN_EXE_falaj")).parent().expect("a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("unshare");
    let this = std::env::current_exe().expect("this program has a path");
    command.arg("-Urn").arg(this).args(["--page", line]).current_dir(place);
    let bin = bin.map_or_else(String::new, |bin| format!("{}:", bin.display()));
    command.env("PATH", format!("{bin}{}:{path}", installed.display()));
    command.env("XDG_STATE_HOME", directory().join("nobody-was-here"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// Creates the interfaces, and then replaces this process by a shell that runs the line of
/// [`shell`].
pub(crate) fn become_shell(line: &str) {
    crate::netlink::set_up("lo", true);
    for name in ["eth1", "eth2"] {
        let far = format!("{name}-far");
        crate::netlink::veth(name, &far, std::process::id());
        crate::netlink::set_up(name, true);
        crate::netlink::set_up(&far, true);
    }
    panic!("{}", Command::new("sh").args(["-c", line]).exec());
}

/// Runs a line to its end. An endless command runs until it prints that Ctrl-C ends it, and is then
/// ended with that signal.
fn ran(line: &str, place: &Path, bin: Option<&Path>) -> Ran {
    let endless = ["falaj relay ", "falaj serve ", "falaj bridge "];
    if !endless.iter().any(|endless| line.starts_with(endless)) {
        return shell(line, place, bin).wait_with_output().expect("it ends").into();
    }
    let mut child = shell(&format!("exec {line}"), place, bin);
    let mut said = BufReader::new(child.stderr.take().expect("it is a pipe"));
    let mut err = String::new();
    while !err.contains("Ctrl-C ends it") {
        assert_ne!(said.read_line(&mut err).expect("text"), 0, "{line}: {err}");
    }
    signal("INT", child.id());
    said.read_to_string(&mut err).expect("text");
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    Ran { err, ..ran }
}

fn readme() {
    let text = text_of("README.md");
    assert!(text.lines().count() <= 60, "{} lines", text.lines().count());
    for audience in ["Test an app", "Study schedulers", "Slice a host"] {
        let section = text.split(&format!("\n## {audience}\n")).nth(1).expect("a section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let lines: Vec<&str> =
            section.lines().filter_map(|line| line.strip_prefix("    ")).collect();
        assert_eq!(lines.len(), 3, "{audience}: {lines:?}");
        for line in lines {
            let ran = ran(line, &root().join("examples"), None);
            // On a busy host the verdict may be inconclusive.
            let inconclusive = line.starts_with("falaj compare ") && ran.status == Some(3);
            assert!(ran.status == Some(0) || inconclusive, "{line}: {ran:#?}");
        }
    }
}

/// Returns the falaj commands on a page.
fn commands(page: &str) -> Vec<String> {
    let text = text_of(page);
    let typed = text.split("\n```console\n").skip(1);
    let typed = typed.flat_map(|block| {
        block.split("\n```").next().unwrap_or_default().lines().filter_map(|l| l.strip_prefix("$ "))
    });
    typed
        .filter(|line| ["falaj", "sudo falaj", "echo 'link"].iter().any(|f| line.starts_with(f)))
        .map(str::to_owned)
        .collect()
}

fn others() {
    let bin = directory().join("stand-ins");
    std::fs::create_dir_all(&bin).expect("a directory");
    for name in STAND_INS {
        script(&bin.join(name), "#!/bin/sh\nexec cat >/dev/null\n");
    }
    let mut listed: Vec<&str> = PAGES.iter().map(|page| page.name).collect();
    listed.sort_unstable();
    let folder = std::fs::read_dir(root().join("docs/how-to")).expect("a directory");
    let there =
        folder.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
    let there = there.map(|name| format!("docs/how-to/{name}")).chain(["docs/tutorial.md".into()]);
    for name in there.filter(|name| name.ends_with(".md") && !commands(name).is_empty()) {
        assert!(listed.binary_search(&&*name).is_ok(), "{name} is not among the pages here");
    }
    let wrong: Vec<String> = PAGES.iter().flat_map(|page| run_page(page, &bin)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs a page's commands one after the other in a directory of its own; returns those with an
/// unexpected exit status.
fn run_page(page: &Page, bin: &Path) -> Vec<String> {
    let place = directory().join("pages").join(page.name.replace('/', "-"));
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(place.join("links")).expect("a directory");
    for name in ["examples", "docs"] {
        let there = root().canonicalize().expect("the repository").join(name);
        std::os::unix::fs::symlink(there, place.join(name)).expect("a link");
    }
    for (file, content) in page.files {
        script(&place.join(file), &content_of(page.name, *content));
    }
    let commands = commands(page.name);
    let named = page.left_out.iter().map(|(start, _)| start);
    for start in named.chain(page.ends.iter().map(|(start, _)| start)) {
        let found = commands.iter().any(|line| line.starts_with(start));
        assert!(found, "{} has no `{start}`", page.name);
    }
    let mut wrong = Vec::new();
    for line in commands {
        let starts = |start: &str| line.starts_with(start);
        if page.left_out.iter().any(|(start, _)| starts(start)) {
            continue;
        }
        let status = page.ends.iter().find(|(start, _)| starts(start)).map_or(0, |end| end.1);
        let ran = ran(&line, &place, Some(bin));
        // On a busy host the verdict of a comparison may be inconclusive.
        let inconclusive = starts("falaj compare ") && ran.status == Some(3);
        if ran.status != Some(status) && !inconclusive {
            wrong.push(format!("{}: {line}: {ran:?}", page.name));
        }
    }
    wrong
}

/// Writes an executable file.
fn script(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(path, mode).expect("its mode");
}

fn content_of(page: &str, content: Content) -> String {
    match content {
        File(file) => text_of(file),
        Text(text) => text.to_owned(),
        Block(n) => {
            let text = text_of(page);
            let block = text.split("\n```toml\n").nth(n + 1).expect("a block");
            block.split("```").next().unwrap_or_default().to_owned()
        }
        Office("") => office(),
        Office(scheduler) => {
            let scheduled = |line: &str| match line {
                line if line.starts_with("scheduler") => {
                    Some(format!("scheduler = {{ {scheduler} }}\n"))
                }
                line if line.starts_with("kind") || line.starts_with("phase") => None,
                line => Some(format!("{line}\n")),
            };
            office().lines().filter_map(scheduled).collect()
        }
    }
}

/// Returns the final scenario of the tutorial.
fn office() -> String {
    let text = text_of("docs/tutorial.md");
    let block = |n: usize| {
        let blocks = text.split("\n```toml\n").nth(n + 1).expect("a block");
        blocks.split("```").next().unwrap_or_default()
    };
    let first = block(0).replacen("1.25ms", "2.4224ms", 1);
    format!("{first}\n{}", block(2))
}
