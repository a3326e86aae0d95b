//! Runs commands from the documentation pages in a shell, as printed: each in a network namespace
//! with a loopback interface only, so that their ports are free.

use crate::common::{Ran, directory, signal};
use libtest_mimic::{Completion, Trial};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The beginnings of commands on the pages that need only the repository's files and the tutorial's
/// scenario; and their exit status.
const OF_PAGES: &[(&str, &str, i32)] = &[
    ("docs/tutorial.md", "falaj check office.toml", 0),
    ("docs/tutorial.md", "falaj explain flow.kind", 0),
    ("docs/tutorial.md", "falaj plan office.toml", 0),
    ("docs/tutorial.md", "falaj sim office.toml", 0),
    ("docs/tutorial.md", "falaj traffic office.toml --duration 5s", 0),
    ("docs/how-to/compare.md", "falaj compare office.toml --what-if", 0),
    ("docs/how-to/divide.md", "falaj plan examples/voice-within-tenant.toml", 0),
    ("docs/how-to/divide.md", "falaj sim examples/voice-within-tenant.toml", 0),
    ("docs/how-to/doctor.md", "falaj run --rate 100gbit --delay 20us", 0),
    ("docs/how-to/editor.md", "falaj schema", 0),
    ("docs/how-to/format.md", "echo 'link.uplink", 0),
    ("docs/how-to/plan.md", "falaj plan docs/figures/curves.toml", 0),
    ("docs/how-to/plan.md", "falaj plan examples/chain.toml", 0),
    ("docs/how-to/promises.md", "falaj plan office.toml", 0),
    ("docs/how-to/run.md", "falaj run --rate 10mbit -- true", 0),
    ("docs/how-to/run.md", "falaj run --rate 10mbit --stats -- true", 0),
    ("docs/how-to/run.md", "falaj run --delay 20ms -- falaj run --rate 5mbit -- bash", 0),
    ("docs/how-to/scripts.md", "falaj run --rate 10mbit -- sh -c 'exit 7'; echo $?", 0),
    ("docs/how-to/scripts.md", "falaj run --rate 10mbit -- nosuch; echo $?", 0),
    ("docs/how-to/simulate.md", "falaj sim office.toml --until", 0),
    ("docs/how-to/timing.md", "falaj traffic examples/tenants.toml --timer sleep", 0),
];

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

/// Starts a line of shell in `place`, with falaj installed.
fn shell(line: &str, place: &Path) -> Child {
    let installed = Path::new(env!("CARGO_BIN_EXE_falaj")).parent().expect("a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("unshare");
    let this = std::env::current_exe().expect("this program has a path");
    command.arg("-Urn").arg(this).args(["--page", line]).current_dir(place);
    command.env("PATH", format!("{}:{path}", installed.display()));
    command.env("XDG_STATE_HOME", directory().join("nobody-was-here"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// Becomes the shell of [`shell`].
pub(crate) fn become_shell(line: &str) {
    crate::netlink::set_up("lo", true);
    panic!("{}", Command::new("sh").args(["-c", line]).exec());
}

/// Runs a line to its end; or, for endless commands, until it prints that Ctrl-C ends it, and then
/// ends it so.
fn ran(line: &str, place: &Path) -> Ran {
    if !["falaj relay ", "falaj serve "].iter().any(|endless| line.starts_with(endless)) {
        return shell(line, place).wait_with_output().expect("it ends").into();
    }
    let mut child = shell(&format!("exec {line}"), place);
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
            let ran = ran(line, &root().join("examples"));
            // On a busy host the verdict may be inconclusive.
            let inconclusive = line.starts_with("falaj compare ") && ran.status == Some(3);
            assert!(ran.status == Some(0) || inconclusive, "{line}: {ran:#?}");
        }
    }
}

fn others() {
    let place = directory().join("pages");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir(&place).expect("a directory");
    for name in ["examples", "docs"] {
        let there = root().canonicalize().expect("the repository").join(name);
        std::os::unix::fs::symlink(there, place.join(name)).expect("a link");
    }
    std::fs::write(place.join("office.toml"), office()).expect("a file");
    for &(page, start, status) in OF_PAGES {
        let text = text_of(page);
        let mut typed = text.lines().filter_map(|line| line.strip_prefix("$ "));
        let line = typed.find(|line| line.starts_with(start));
        let line = line.unwrap_or_else(|| panic!("{page} has no `{start}`"));
        let ran = ran(line, &place);
        assert_eq!(ran.status, Some(status), "{page}: {line}: {ran:#?}");
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
