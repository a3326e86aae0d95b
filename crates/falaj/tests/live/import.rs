//! Tests scripts that `falaj import` runs in its sandbox: their commands are recorded, and have no
//! other effect.

use crate::common::{directory, program};
use libtest_mimic::{Completion, Trial};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CASES: &[(&str, fn())] = &[
    ("a_script_with_functions_loops_and_arguments_is_imported", expanded),
    ("a_script_runs_also_where_root_is_the_only_user", alone),
    ("a_script_that_never_ends_repeats_its_changes", endless),
    ("a_script_reaches_nothing_outside_of_its_sandbox", hostile),
    ("a_script_without_an_end_or_of_many_processes_is_ended", ended),
];

pub(crate) fn trials(possible: bool) -> Vec<Trial> {
    let trial = |&(name, test): &(&str, fn())| {
        crate::trial(possible, name.to_owned(), move || {
            test();
            Ok(Completion::Completed)
        })
    };
    CASES.iter().map(trial).collect()
}

/// Imports a script from standard input; returns the scenario and the messages.
fn import(script: &str, args: &[&str]) -> (String, String) {
    let mut command = program(&["import", "tc", "-"]);
    command.args(args);
    output(command, script)
}

fn output(mut command: Command, script: &str) -> (String, String) {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(script.as_bytes()).expect("it is read");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

fn expanded() {
    let script = "#!/bin/bash\n\
        DEV=${1:?a device}\n\
        class() { tc class add dev $DEV parent 1: classid 1:$1 htb rate \"$2\"; }\n\
        sudo -n tc qdisc add dev $DEV root handle 1: htb default 20\n\
        for n in 10 20; do class $n ${n}mbit; done\n\
        if [ $(id -u) = 0 ]; then /sbin/tc filter add dev $DEV parent 1: protocol ip u32 match ip dport $((40 * 2)) 0xffff flowid 1:10; fi\n\
        date +%s > /dev/null; sleep 30\n\
        tc class change dev $DEV parent 1: classid 1:10 htb rate \"$(echo 5mbit)\"\n";
    let (scenario, messages) = import(script, &["--", "wlan0"]);
    let commands = "tc qdisc add dev wlan0 root handle 1: htb default 20\n\
        tc class add dev wlan0 parent 1: classid 1:10 htb rate 10mbit\n\
        tc class add dev wlan0 parent 1: classid 1:20 htb rate 20mbit\n\
        tc filter add dev wlan0 parent 1: protocol ip u32 match ip dport 80 0xffff flowid 1:10\n\
        sleep 30\n\
        tc class change dev wlan0 parent 1: classid 1:10 htb rate 5mbit\n";
    let (by_hand, _) = import(commands, &[]);
    // Without `tc` on the host there is no `/sbin/tc` in the sandbox.
    if std::path::Path::new("/sbin/tc").exists() {
        assert_eq!(scenario, by_hand, "{messages}");
    }
    assert!(scenario.contains("at = \"30s\""), "{scenario}{messages}");
    let (none, messages) = import(script, &[]);
    assert!(none.is_empty() && messages.contains("give them after `--`"), "{messages}");
    let (none, messages) = import(script, &["--no-run"]);
    assert!(none.is_empty() && messages.contains("only a shell"), "{messages}");
    let (none, messages) = import(script, &["--no-run", "--", "wlan0"]);
    assert!(none.is_empty() && messages.contains("omit `--no-run`"), "{messages}");
}

/// Imports a script as the root of a user namespace in which there is no other user.
fn alone() {
    let mut command = Command::new("unshare");
    let falaj = program(&[]);
    command.arg("-Ur").arg(falaj.get_program()).args(["import", "tc", "-"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let script = "for n in 1; do tc qdisc add dev eth0 root netem delay 3ms; done";
    let (scenario, messages) = output(command, script);
    assert!(scenario.contains("delay = \"3ms\""), "{scenario}{messages}");
}

fn endless() {
    let script = "while true; do\n\
        tc qdisc replace dev eth0 root netem delay 10ms; sleep 5\n\
        tc qdisc replace dev eth0 root netem delay 90ms; sleep 2\n\
        done\n";
    let (scenario, messages) = import(script, &[]);
    assert!(messages.contains("does not end"), "{messages}");
    let changes: Vec<&str> = scenario.split("[[change]]").skip(1).collect();
    assert_eq!(changes.len(), 2, "{scenario}");
    assert!(changes[0].contains("at = \"5s\"") && changes[0].contains("every = \"7s\""));
    assert!(changes[1].contains("at = \"7s\"") && !scenario.contains("until"));
}

fn hostile() {
    let kept = directory().join("import-kept");
    fs::write(&kept, "as before").expect("it is written");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it does not block");
    let port = listener.local_addr().expect("an address").port();
    let (scenario, messages) = import(
        &format!(
            "#!/bin/bash\n\
             for file in {0} {0}-new /usr/falaj-was-here /usr/sbin/tc /etc/falaj-was-here; do echo x > $file; rm $file; done\n\
             mount -o remount,bind,rw /usr && touch /usr/falaj-was-here\n\
             umount /usr\n\
             kill -KILL {1}\n\
             echo x > /dev/tcp/127.0.0.1/{port}\n\
             tc qdisc add dev eth0 root netem delay $((1 + 1))ms\n",
            kept.display(),
            std::process::id(),
        ),
        &[],
    );
    assert!(scenario.contains("delay = \"2ms\""), "{scenario}{messages}");
    assert_eq!(fs::read_to_string(&kept).expect("it is there"), "as before");
    assert!(!kept.with_file_name("import-kept-new").exists());
    for path in ["/usr/falaj-was-here", "/etc/falaj-was-here"] {
        assert!(!std::path::Path::new(path).exists(), "{path}");
    }
    assert!(listener.accept().is_err(), "nothing connected");
}

fn ended() {
    let began = Instant::now();
    let (none, messages) =
        import("while :; do :; done\ntc qdisc add dev a root netem delay 1ms", &[]);
    assert!(none.is_empty() && messages.contains("has not ended after 10 s"), "{messages}");
    assert!(began.elapsed() >= Duration::from_secs(10));
    let mark = format!("falaj-{}", std::process::id());
    let bomb = format!(
        "f() {{ f {mark} | f {mark} & }}\nf\nfor n in 1; do tc qdisc add dev a root netem delay 1ms; done"
    );
    import(&bomb, &[]);
    let left = Command::new("pgrep").args(["-f", &mark]).output().expect("it starts");
    assert!(left.stdout.is_empty(), "{left:?}");
}
