//! Namespaces are not allowed. If they are forbidden before the start, falaj refuses to start and
//! names the cure. If they are forbidden later, a running service is not affected.

use super::scene::{Footprint, LoggedService, Sender, until};
use crate::common::{Ran, directory, file, program};
use crate::service::THREE;
use std::process::{Command, Stdio};

/// Runs falaj with these arguments on a machine that allows no namespaces of this kind.
fn without(kind: &str, words: &[&str]) -> Ran {
    let script = format!("echo 0 > /proc/sys/user/max_{kind}_namespaces && exec \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(["-Ur", "sh", "-c", &script, env!("CARGO_BIN_EXE_falaj")])
        .args(words)
        .current_dir(directory());
    command.stdin(Stdio::null()).output().expect("it starts").into()
}

pub(crate) fn off() {
    let try_this = |kind: &str| {
        format!("user.max_{kind}_namespaces is 0: sysctl user.max_{kind}_namespaces=10000")
    };
    let ran = without("user", &["run", "--user-namespace", "--", "true"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.err.contains(&try_this("user")), "{ran:?}");
    let service = file("namespaces-off.toml", THREE);
    for (kind, words) in [
        ("net", &["run", "--", "true"][..]),
        ("net", &["serve", service]),
        ("pid", &["serve", service]),
    ] {
        let ran = without(kind, words);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.err.contains(&try_this(kind)), "{ran:?}");
    }

    // The limits that are set below apply to this case's user namespace, and so to all namespaces
    // below it.
    let told = LoggedService::start("namespaces", THREE, &[]);
    let _calm = Sender::calm(&told, "calm");
    told.passes("calm");
    let held = Footprint::of(told.id());
    for kind in ["user", "net", "pid", "mnt"] {
        std::fs::write(format!("/proc/sys/user/max_{kind}_namespaces"), "0")
            .expect("it is this namespace's");
    }
    assert!(
        !Command::new("unshare")
            .args(["-n", "true"])
            .stderr(Stdio::null())
            .status()
            .expect("it starts")
            .success()
    );
    told.read_again(&THREE.replace("20mbit", "40mbit"));
    until("the changed scenario file takes effect", || told.rate("calm") == 20_000_000);
    told.passes("calm");
    told.adds_up();
    held.is_that_of(told.id());
    told.end();
    let output = program(&["run", "--", "true"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
