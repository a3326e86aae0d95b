//! Commands that spin, fork, fill memory, close their streams or ignore signals: each run ends. If
//! virtual time stands still or signals are ignored, a message says so.

use crate::{Ran, program, run, script, trial};
use libtest_mimic::Trial;
use std::io::{BufRead, BufReader};
use std::process::Command;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("hostile::a_busy_wait_is_named", busy_wait),
        trial("hostile::memory_ends_the_command_alone", memory),
        trial("hostile::forks_are_bounded", forks),
        trial("hostile::closed_streams_close_nothing_else", closed_streams),
        trial("hostile::processes_left_behind_are_ended", left_behind),
        trial("hostile::deaf_commands_are_ended", deaf),
    ]
}

fn busy_wait() {
    let ran = script(&["--stuck", "3s"], "while :; do :; done");
    assert_eq!(ran.status, Some(2), "{ran:#?}");
    assert!(ran.err.contains("virtual time stood still for 3 s"), "{}", ran.err);
    assert!(ran.err.contains("sh`"), "the program has a name: {}", ran.err);
    // A command that reads the clock meanwhile finishes.
    let ran = script(
        &["--stuck", "20s"],
        "end=$(($(date +%s%N) + 2000000)); \
        while [ $(date +%s%N) -lt $end ]; do sleep 0.0001; done; echo done",
    );
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "done\n"), "{ran:#?}");
}

fn memory() {
    let ran =
        script(&["--memory", "192MiB", "--stuck", "120s"], "tail /dev/zero; echo \"ended: $?\"");
    // The kernel kills the process that fills the memory, or its parent.
    let says = ran.out.contains("ended: 137") || ran.status == Some(137);
    assert!(says, "{ran:#?}");
}

fn forks() {
    let ran = script(&["--memory", "256MiB", "--stuck", "15s"], "f() { while :; do f & done; }; f");
    assert_ne!(ran.status, Some(0), "{}", ran.err.lines().last().unwrap_or(""));
}

fn closed_streams() {
    let ran = script(&[], "exec 0<&- 1>&- 2>&-; sleep 1; exit 5");
    assert_eq!((ran.status, ran.out.as_str()), (Some(5), ""), "{ran:#?}");
}

fn left_behind() {
    // The process runs in its own session, with the command's streams.
    let ran = run(&[], &["sh", "-c", "setsid sh -c 'while :; do sleep 1; done' & echo main"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "main\n"), "{ran:#?}");
}

fn deaf() {
    let kill = |pid: u32| {
        let sent = Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).status();
        assert!(sent.expect("there is a shell").success());
    };
    let start = |text: &str| {
        let mut child = program(&["run", "--virtual-time", "--", "sh", "-c", text]);
        let mut child = child.spawn().expect("it starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        (child, out)
    };
    // The command ignores the signals: the third one kills it.
    let (child, _out) = start("trap '' TERM; echo ready; while :; do sleep 1; done");
    for _ in 0..3 {
        kill(child.id());
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    assert_eq!(ran.status, Some(143), "{ran:#?}");
    assert!(ran.err.contains("did not end at signal 15"), "{}", ran.err);
    // The command never gets to handle the signals.
    let (child, _out) = start("echo ready; while :; do :; done");
    kill(child.id());
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    assert_eq!(ran.status, Some(143), "{ran:#?}");
}
