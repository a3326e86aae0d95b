//! Virtual time: commands in a guest, as a user sees them.
//!
//! | module | what it tests |
//! |---|---|
//! | [`commands`] | what goes in and comes out, signals, and what is refused |
//! | [`exact`] | the same each time, whatever the host does; delays; time that passes at once |
//! | [`grid`] | every discipline: bounds, release errors, the same twice |
//! | [`hostile`] | commands that spin, fork, fill memory, hear no signal |
//! | [`probe`] | what runs at both ends of a link: this program again |
//! | [`tcp`] | the kernel's TCP beside the simulated one |
//! | [`referee`] | the kernel's queueing disciplines and ours, packet by packet |
//!
//! They take a kernel (`make kernel`); where there is none they are left out, and say so. No limit
//! of real time is one that a busy host can break.

mod commands;
mod exact;
mod grid;
mod hostile;
mod probe;
mod referee;
mod tcp;

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
    } else {
        println!("left out: virtual time; {}", kernel.err.trim());
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A test of this name.
fn trial(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok::<(), Failed>(())
    })
}

/// What a run of the program left behind.
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

/// The program, without input.
fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_falaj"));
    command.args(args).current_dir(directory()).env_remove("RUST_BACKTRACE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn falaj(args: &[&str]) -> Ran {
    program(args).output().expect("the program starts").into()
}

/// `falaj run --virtual-time` with these flags and this command.
fn run(flags: &[&str], command: &[&str]) -> Ran {
    falaj(&[&["run", "--virtual-time"], flags, &["--"], command].concat())
}

/// The same for a script.
fn script(flags: &[&str], script: &str) -> Ran {
    run(flags, &["sh", "-c", script])
}

fn directory() -> PathBuf {
    env!("CARGO_TARGET_TMPDIR").into()
}

/// This program's path.
fn this() -> String {
    let path = std::env::current_exe().expect("this program has a path");
    path.to_str().expect("UTF-8").to_owned()
}
