//! Tests the input and output of a guest, signals, and refused requests.

use crate::{Ran, directory, falaj, program, run, script, trial};
use libtest_mimic::Trial;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Tests that need no kernel.
pub(crate) fn without_kernel() -> Vec<Trial> {
    vec![
        trial("commands::a_kernel_that_will_not_do_is_refused", a_kernel_that_will_not_do),
        trial("commands::what_leads_outside_is_refused", what_leads_outside),
    ]
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("commands::status_streams_directory_and_environment", status_and_streams),
        trial("commands::standard_input_arrives", standard_input),
        trial("commands::standard_input_of_many_guests_arrives", standard_input_of_many),
        trial("commands::a_long_output_arrives_whole", long_output),
        trial("commands::a_signal_reaches_the_command", a_signal),
        trial("commands::nothing_survives_a_kill", nothing_survives),
        trial("commands::the_kernel_is_told", the_kernel),
        trial("commands::a_scenario_may_ask_for_it", a_scenario),
        trial("commands::memory_that_is_not_there_is_refused", memory),
    ]
}

fn says(ran: &Ran, words: &str) {
    assert!(ran.err.contains(words), "{words:?} is not in {ran:#?}");
}

fn a_kernel_that_will_not_do() {
    let named = |kernel: &str| {
        let ran = falaj(&["run", "--virtual-time", "--kernel", kernel, "--", "true"]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{ran:#?}");
        ran
    };
    says(&named("/nowhere/linux"), "the kernel /nowhere/linux cannot be used: it cannot be read");
    says(&named("/bin/sh"), "it is not a user-mode Linux with time travel");
    says(&named("/etc/passwd"), "it is not a program for x86-64");
    let mut none = program(&["kernel"]);
    none.env("HOME", "/nowhere").env("XDG_DATA_HOME", "/nowhere/data").env_remove("FALAJ_KERNEL");
    if fs::metadata("/usr/lib/falaj/linux").is_err() {
        let ran: Ran = none.output().expect("the program starts").into();
        assert_eq!(ran.status, Some(2));
        says(&ran, "no kernel for virtual time at /nowhere/data/falaj/linux, ");
        says(&ran, "make kernel");
    }
    // The file has everything that the check looks for, but it is not executable.
    let path = directory().join("kernel-without-right");
    let mut program = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0".to_vec();
    program.extend(b"time-travel=\0inf-cpu\0Universal TUN/TAP\0hostfs\0");
    fs::write(&path, program).expect("a file can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
    says(&named(path.to_str().expect("UTF-8")), "it is not executable");
}

fn what_leads_outside() {
    for (flags, words) in [
        (["--internet", "pasta"], "--internet is not available in virtual time"),
        (["--host-port", "8000"], "--host-port is not available in virtual time"),
        (["--netns", "web"], "--netns is not available in virtual time"),
    ] {
        let ran = run(&flags, &["true"]);
        assert_eq!(ran.status, Some(2), "{ran:#?}");
        says(&ran, words);
    }
    let ran = run(&["--epoch", "tomorrow"], &["true"]);
    says(&ran, "write a date");
    let ran = falaj(&["run", "--stuck", "5s", "--", "true"]);
    says(&ran, "--virtual-time");
}

fn status_and_streams() {
    let ran = script(&[], "echo out; echo err >&2; pwd; echo $NAME; exit 7");
    let mut command =
        program(&["run", "--virtual-time", "--", "sh", "-c", "pwd; echo $NAME; kill -9 $$"]);
    command.env("NAME", "a value\nof two lines");
    assert_eq!(ran.status, Some(7));
    assert_eq!(ran.out, format!("out\n{}\n\n", directory().display()));
    says(&ran, "err\n");
    says(&ran, "falaj: virtual time ");
    let ran: Ran = command.output().expect("the program starts").into();
    assert_eq!(ran.status, Some(137));
    assert_eq!(ran.out, format!("{}\na value of two lines\n", directory().display()));
    let ran = run(&[], &["/nowhere/program"]);
    assert_eq!(ran.status, Some(127), "{ran:#?}");
}

fn standard_input() {
    let text: String = (0..40_000).map(|n| format!("line {n}\n")).collect();
    let cat = ["run", "--virtual-time", "--", "cat"];
    // The whole input exists before the command starts.
    let path = directory().join("virtual-input");
    fs::write(&path, &text).expect("a file can be written");
    let file = fs::File::open(&path).expect("it is there");
    let ran: Ran = program(&cat).stdin(file).output().expect("the program starts").into();
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.out == text, "{} bytes of {}", ran.out.len(), text.len());
    // The input comes in two pieces, the second one late.
    let mut child = program(&cat).stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    let (first, second) = text.split_at(text.len() / 2);
    let (first, second) = (first.to_owned(), second.to_owned());
    let writing = std::thread::spawn(move || {
        input.write_all(first.as_bytes()).expect("it is read");
        std::thread::sleep(Duration::from_secs(1));
        input.write_all(second.as_bytes()).expect("it is read");
    });
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    writing.join().expect("all was written");
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.out == text, "{} bytes of {}", ran.out.len(), text.len());
}

/// On a busy machine a guest often misses the signal for a message of input. The next message wakes
/// the guest.
fn standard_input_of_many() {
    let guests = [(); 12].map(|()| {
        std::thread::spawn(|| {
            let cat = ["run", "--virtual-time", "--", "cat"];
            let mut child = program(&cat).stdin(Stdio::piped()).spawn().expect("it starts");
            let mut input = child.stdin.take().expect("a pipe");
            for _ in 0..3 {
                input.write_all(&[b'x'; 50_000]).expect("it is read");
                std::thread::sleep(Duration::from_millis(300));
            }
            drop(input);
            let ran: Ran = child.wait_with_output().expect("it ends").into();
            assert_eq!((ran.status, ran.out.len()), (Some(0), 150_000), "{}", ran.err);
        })
    });
    for guest in guests {
        guest.join().expect("all its input arrives");
    }
}

fn long_output() {
    let ran = script(&[], "head -c 5000000 /dev/zero | tr '\\0' x; echo end >&2");
    assert_eq!((ran.status, ran.out.len()), (Some(0), 5_000_000));
    says(&ran, "end\n");
    // A reader that has read enough closes the pipe, which ends the command.
    let mut child = program(&["run", "--virtual-time", "--", "yes"]).spawn().expect("it starts");
    let mut some = [0; 10_000];
    child.stdout.take().expect("a pipe").read_exact(&mut some).expect("it writes");
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    assert_eq!(ran.status, Some(141), "{ran:#?}");
}

/// Starts a script and waits for its first line.
fn begin(text: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = program(&["run", "--virtual-time", "--", "sh", "-c", text]);
    let mut child = child.spawn().expect("the program starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    (child, out)
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(sent.expect("there is a shell").success(), "no SIG{name} to {pid}");
}

fn a_signal() {
    for name in ["TERM", "INT", "USR1"] {
        let (mut child, mut out) = begin(&format!(
            "trap 'echo {name}; exit 3' {name}; echo ready; while :; do sleep 1; done"
        ));
        signal(name, child.id());
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("text");
        assert_eq!((child.wait().expect("it ends").code(), rest), (Some(3), format!("{name}\n")));
    }
}

/// Returns the command lines of all visible processes.
fn processes() -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("there is /proc").flatten();
    let line = |entry: fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    };
    entries.filter_map(line).filter(|line| !line.is_empty()).collect()
}

fn nothing_survives() {
    let (mut child, _out) = begin("echo ready; while :; do sleep 1; done");
    // The name of the spool contains the process ID.
    let of_it = format!("/falaj-guest-{}-", child.id());
    let seen = || processes().into_iter().filter(|line| line.contains(&of_it)).collect::<Vec<_>>();
    let running = seen();
    assert!(!running.is_empty(), "the guest's kernel is seen");
    let spool =
        running[0].split_whitespace().find(|word| word.starts_with('/') && word.contains(&of_it));
    let spool = spool.expect("the guest is told its spool").to_owned();
    assert!(fs::metadata(&spool).is_ok(), "{spool}");
    signal("KILL", child.id());
    child.wait().expect("it ends");
    let began = Instant::now();
    while !seen().is_empty() || fs::metadata(&spool).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?} and {spool} are left", seen());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn the_kernel() {
    let ran = falaj(&["kernel", "--json"]);
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let path = told["path"].as_str().expect("a path");
    assert!(fs::metadata(path).is_ok());
    let by = falaj(&["kernel", "--kernel", path]);
    assert!(by.out.starts_with(path) && by.out.contains("(--kernel)"), "{by:#?}");
    let mut variable = program(&["kernel"]);
    let ran: Ran = variable.env("FALAJ_KERNEL", path).output().expect("it starts").into();
    assert!(ran.out.contains("(FALAJ_KERNEL)"), "{ran:#?}");
}

fn a_scenario() {
    let path = directory().join("virtual.toml");
    let text = "[link.l]\nrate = \"10mbit\"\ndelay = \"5ms\"\n[run]\ntime = \"virtual\"\n";
    fs::write(&path, text).expect("a file can be written");
    let ran = falaj(&["run", "virtual.toml", "--", "grep", "-c", "inf-cpu", "/proc/cmdline"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "1\n"), "{ran:#?}");
    let ran = falaj(&["run", "virtual.toml", "--internet", "host", "--", "true"]);
    assert_eq!(ran.status, Some(2));
    says(&ran, "--internet is not available in virtual time");
    // A warning is printed once, and not again in the guest.
    let some = "[link.l.flow.some]\nmatch = \"udp\"\n";
    fs::write(&path, text.replace("[run]", &format!("{some}[run]")))
        .expect("a file can be written");
    let ran = falaj(&["run", "virtual.toml", "--", "true"]);
    assert_eq!((ran.status, ran.err.matches("warning:").count()), (Some(0), 1), "{ran:#?}");
}

fn memory() {
    let ran = run(&["--memory", "1MiB"], &["true"]);
    assert_eq!(ran.status, Some(2), "{ran:#?}");
    says(&ran, "a guest needs 96 MiB at least");
    let ran = run(&["--memory", "900000GiB"], &["true"]);
    assert_eq!(ran.status, Some(2), "{ran:#?}");
    says(&ran, "smaller --memory");
}
