//! Virtual time: runs a command in a guest, whose clock by default advances only while everything
//! in it waits.
//!
//! The guest is user-mode Linux: a kernel that runs as an ordinary program, here built with time
//! travel. Its file tree is the host's, so the same programs run in the guest; its network, its
//! clock and its random numbers are its own. It needs no root, no namespaces and no devices of the
//! host.
//!
//! [`kernel`] finds and checks the guest's kernel, [`epoch`] is the start of the guest's clock,
//! [`boot`] starts the guest, [`error`] has the errors. The host's side is [`run`] (`monitor`): it
//! takes a [`job`] and returns its [`exit`]. Meanwhile `input`, `message`, `relay` and `terminal`
//! pass data between both sides, through a directory of files (`spool`) and the *line*, a console
//! of the guest to which the host writes.
//! `watchdog` checks by the guest's `beat` that time passes, and `spinning` names the programs that
//! prevent it; `reaper` clears up after a run that cannot do so itself. The guest's side is
//! [`init`], with the command's streams in `pump`. The system calls that need `unsafe` are in
//! `sys`.
//!
//! The program that calls [`run`] is also the guest's init and the reaper: its `main` begins with
//! [`take_over`].
#![deny(unsafe_code)]
#![warn(clippy::unwrap_used)]

mod beat;
pub mod boot;
pub mod epoch;
pub mod error;
pub mod exit;
pub mod init;
mod input;
pub mod job;
pub mod kernel;
mod message;
mod monitor;
mod pump;
mod reaper;
mod relay;
mod spinning;
mod spool;
mod sys;
mod terminal;
mod watchdog;

pub use init::is_inside;
pub use monitor::{Ended, run};

/// Runs the guest's init or the reaper, if the program was started as one of these; in this case it
/// never returns.
pub fn take_over() {
    let mut words = std::env::args_os().skip(1);
    let Some(word) = words.next() else { return };
    if word == boot::INIT && std::process::id() == 1 {
        init::main();
    }
    if let Some(spool) = words.next().filter(|_| word == reaper::REAPER) {
        reaper::reap(&spool);
        std::process::exit(0);
    }
}
