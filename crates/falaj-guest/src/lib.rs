//! Virtual time: a command in a guest of its own, whose clock moves only while everything in it
//! waits.
//!
//! The guest is user-mode Linux, a kernel that is an ordinary program, built with time travel. Its
//! file tree is the host's, so the same programs run in it; its network, its clock and its chance
//! are its own. No root, no namespaces and no devices of the host are needed.
//!
//! [`kernel`] finds the kernel and checks it, [`epoch`] says when its clock starts, [`boot`] how
//! it is started, [`error`] why there is none. The host's side is [`run`] (`monitor`): a [`job`]
//! goes in, its [`exit`] comes out, and meanwhile `input`, `message`, `relay` and `terminal` pass
//! on what both say, through a directory of files (`spool`) and a line into the guest; `watchdog`
//! looks by the guest's `beat` whether time passes, and `spinning` names what keeps it from that;
//! `reaper` clears up where nothing else can. The guest's side is [`init`], with the command's
//! streams in `pump`. The system calls that need `unsafe` are in `sys`.
//!
//! The program that calls [`run`] is the guest's init and the reaper too: its `main` begins with
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

/// Does what a guest has started this program for, if that is so: then it never returns.
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
