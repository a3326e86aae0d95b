//! Tests of links with real packets, in one test binary, so that it is linked once.
//!
//! | module | what it tests |
//! |---|---|
//! | [`links`] | commands that make a link: `run`, `traffic`, `compare` |
//! | [`bridge`] | `falaj bridge` between hosts |
//! | [`attach`] | `falaj attach` at interfaces in use |
//! | [`import`] | scripts that `falaj import` runs in a sandbox |
//! | `serve` | `falaj serve`, queried and changed |
//! | `faults` | faults outside of falaj |
//! | `attacks` | attacks on a service |
//! | `pages` | commands on the documentation pages |
//!
//! These tests measure, so they run one after the other. Where namespaces are not allowed they are
//! left out, with a message. This program also runs in the namespaces that the tests create.
//!
//! Tests that assert times, rates or order run in virtual time where there is a kernel for it
//! ([`in_guest`]). `FALAJ_LIVE=virtual` runs these tests alone, and `FALAJ_LIVE=real`
//! all others.

mod attach;
#[cfg(feature = "serve")]
mod attacks;
mod bridge;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "serve")]
mod faults;
#[expect(dead_code, reason = "other test programs use the rest")]
#[path = "../../../falaj-live/tests/all/guest.rs"]
mod guest;
mod host;
mod import;
mod in_guest;
#[path = "../common/libraries.rs"]
mod libraries;
mod links;
#[cfg_attr(not(feature = "serve"), expect(dead_code, reason = "other test programs use the rest"))]
mod netlink;
#[cfg(feature = "serve")]
mod pages;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
#[path = "../common/service.rs"]
mod service;
#[path = "../common/storm.rs"]
mod storm;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::process::{Command, ExitCode, Stdio};

fn main() -> ExitCode {
    falaj_guest::take_over();
    let words: Vec<String> = std::env::args().skip(1).collect();
    if is_of_a_test(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    let kept = match std::env::var(in_guest::CHOICE).as_deref() {
        Ok("virtual") => Some(true),
        Ok("real") => Some(false),
        _ => None,
    };
    arguments.test_threads = Some(1);
    let possible = Command::new("unshare").args(["-Urn", "true"]).stderr(Stdio::null()).status();
    let possible = possible.is_ok_and(|status| status.success());
    let mut trials = links::trials(possible);
    trials.extend(bridge::trials(possible));
    trials.extend(attach::trials(possible));
    trials.extend(import::trials(possible));
    #[cfg(feature = "serve")]
    trials.extend(
        [serve::trials, faults::trials, attacks::trials, pages::trials]
            .iter()
            .flat_map(|of| of(possible)),
    );
    if let Some(kept) = kept {
        trials.retain(|trial| in_guest::is_for(trial.name()) == kept);
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// If a test started this program in a role, such as a probe, runs that role. Returns true if there
/// was a role.
fn is_of_a_test(words: &[&str]) -> bool {
    #[cfg(feature = "serve")]
    if service::sends(words) {
        return true;
    }
    match words {
        ["--probe", "host"] => host::live(),
        ["--probe", "container"] => bridge::container(),
        ["--probe", probe, words @ ..] => links::probes(probe, words),
        #[cfg(feature = "serve")]
        ["--running", interface] => println!("{}", serve::is_running(interface)),
        #[cfg(feature = "serve")]
        ["--fault", words @ ..] => faults::scene::probe(words),
        #[cfg(feature = "serve")]
        ["--page", line] => pages::become_shell(line),
        ["--upgrade", words @ ..] => faults::upgrade::probe(words),
        ["--in-guest", name] => in_guest::main(name),
        ["--case", name] => assert!(is_case(name), "the case exists"),
        _ => return false,
    }
    true
}

/// Runs the case of this name. Returns true if it exists.
fn is_case(name: &str) -> bool {
    #[cfg(feature = "serve")]
    if serve::case(name) || faults::case(name) {
        return true;
    }
    bridge::case(name) || attach::case(name)
}

/// Returns a test that runs in a guest if [`in_guest`] has its name, and that is otherwise left out
/// where namespaces are not allowed.
fn trial(
    possible: bool,
    name: String,
    test: impl FnOnce() -> Result<Completion, Failed> + Send + 'static,
) -> Trial {
    let in_guest = in_guest::is_for(&name).then(|| name.clone());
    Trial::ignorable_test(name, move || {
        if let Some(name) = in_guest {
            return in_guest::test(&name);
        }
        if !possible {
            return Ok(Completion::ignored_with(
                "namespaces are not allowed here: unshare -Urn true fails",
            ));
        }
        test()
    })
}
