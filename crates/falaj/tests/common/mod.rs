//! Runs the program as a user does.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Two tenants at 100 Mbit/s, each with 500 us of each millisecond and a queue of 20 packets.
pub(crate) const TENANTS: &str = include_str!("../tenants.toml");

/// Exit status and output of a run of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Ran { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Returns the program as a command, in the directory where [`file`] puts scenarios, without
/// terminal input.
pub(crate) fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_falaj"));
    command.args(args).current_dir(directory()).env_remove("RUST_BACKTRACE");
    // Earlier measurements of this host must not influence a test.
    command.env("XDG_STATE_HOME", directory().join("nobody-was-here"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn falaj(args: &[&str]) -> Ran {
    program(args).output().expect("the program starts").into()
}

pub(crate) fn directory() -> PathBuf {
    env!("CARGO_TARGET_TMPDIR").into()
}

/// Writes a scenario file of this name, which must be unique to the test, and returns the name.
pub(crate) fn file<'a>(name: &'a str, text: &str) -> &'a str {
    std::fs::write(directory().join(name), text).expect("a file can be written");
    name
}

/// Sends a signal by name, with the shell's `kill`.
pub(crate) fn signal(name: &str, pid: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(sent.expect("there is a shell").success(), "no SIG{name} to {pid}");
}

/// Returns a JSON value such as `object["a"]["b"]` as a number.
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Returns the flow of this name among `flows`.
pub(crate) fn flow<'a>(flows: &'a Value, name: &str) -> &'a Value {
    let flows = flows.as_array().expect("a list of flows");
    flows
        .iter()
        .find(|f| f["flow"] == name)
        .unwrap_or_else(|| panic!("no flow {name} in {flows:?}"))
}
