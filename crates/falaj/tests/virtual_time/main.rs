//! Tests of virtual time: commands in a guest, run as a user runs them.
//!
//! | module | what it tests |
//! |---|---|
//! | [`commands`] | input and output of a guest, signals, refused requests |
//! | [`exact`] | runs that repeat exactly, however busy the host is; delays; waiting without real time |
//! | [`grid`] | every discipline: bounds, release errors, exact repetition |
//! | [`hostile`] | commands that spin, fork, fill memory, ignore signals |
//! | [`probe`] | probes at both ends of a link, run by this program |
//! | [`tcp`] | the kernel's TCP beside the simulated one |
//! | [`referee`] | the kernel's queueing disciplines and ours, packet by packet |
//! | [`trees`] | random trees of queueing disciplines with filters: in the kernel, and imported |
//!
//! The tests need a kernel (`make kernel`); without one, all but those of
//! `commands::without_kernel` are left out, with a message. Limits of real time are long enough for
//! a busy host.

mod commands;
mod exact;
mod grid;
mod hostile;
mod probe;
mod referee;
mod tcp;
mod trees;

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output, Stdio};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let ["--probe", words @ ..] = &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        probe::main(words);
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let kernel = falaj(&["kernel"]);
    let mut trials = commands::without_kernel();
    if kernel.status == Some(0) {
        trials.extend(commands::trials());
        trials.extend(exact::trials());
        trials.extend(hostile::trials());
        trials.extend(grid::trials());
        trials.extend(tcp::trials());
        trials.extend(referee::trials());
        trials.extend(trees::trials());
    } else {
        println!("left out: virtual time; {}", kernel.err.trim());
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns a test of this name.
fn trial(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok::<(), Failed>(())
    })
}

/// Exit status and output of a run of the program.
#[derive(Debug, PartialEq)]
struct Ran {
    status: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Returns the program as a command, without input.
fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_falaj"));
    command.args(args).current_dir(directory()).env_remove("RUST_BACKTRACE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn falaj(args: &[&str]) -> Ran {
    program(args).output().expect("the program starts").into()
}

/// Runs `falaj run --virtual-time` with these flags and this command.
fn run(flags: &[&str], command: &[&str]) -> Ran {
    falaj(&[&["run", "--virtual-time"], flags, &["--"], command].concat())
}

/// Like [`run`], for a shell script.
fn script(flags: &[&str], script: &str) -> Ran {
    run(flags, &["sh", "-c", script])
}

fn directory() -> PathBuf {
    env!("CARGO_TARGET_TMPDIR").into()
}

/// Returns the path of this program.
fn this() -> String {
    let path = std::env::current_exe().expect("this program has a path");
    path.to_str().expect("UTF-8").to_owned()
}
