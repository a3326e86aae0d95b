//! Faults outside of falaj, caused while packets pass. During most faults, the configuration of the
//! link is changed.
//!
//! | file | fault |
//! |---|---|
//! | [`killed`] | SIGKILL of the program, of the command inside, of the peer at the other end of a ring |
//! | [`ports`] | an interface is removed and comes back |
//! | [`clocks`] | the clock is stepped; the process is stopped |
//! | [`disk`] | the disk is full |
//! | [`memory`] | no memory for a new flow, and none for packets |
//! | [`descriptors`] | no file descriptors are left |
//! | [`namespaces`] | namespaces are no longer allowed |
//! | [`overload`] | ten times the rate of the link; and the packets of a round robin under overload |
//! | [`neighbour`] | an adapter's owner, or a host at another port, attacks or hangs |
//! | [`twice`] | two processes for one interface |
//! | [`unread_log`] | the messages are not read |
//! | [`upgrade`] | a new process takes over a service |
//! | [`soak`] | random traffic of all kinds and random changes, for an hour or less |
//!
//! Each case runs in a process of its own (`--case`), in its own namespaces, and adopts orphaned
//! descendants. So nothing is left behind if, afterwards, that process has no descendants and its
//! namespace is as before. A network namespace, a memfd or a thread exists only as long as a
//! process holds it. For a service that continues, [`scene::Footprint`] lists what its process
//! holds. Where namespaces are not allowed, the cases are left out, with a message.

mod clocks;
mod descriptors;
mod disk;
mod hosts;
mod killed;
mod memory;
mod namespaces;
mod neighbour;
mod overload;
mod ports;
pub(crate) mod scene;
mod soak;
mod twice;
mod unread_log;
pub(crate) mod upgrade;

use crate::common::directory;
use libtest_mimic::{Completion, Trial};
use std::fs::{File, read_to_string};
use std::process::{Command, Stdio};

const CASES: &[(&str, fn())] = &[
    ("killed_the_program_leaves_nothing_and_begins_anew", killed::program),
    ("killed_in_the_middle_of_changes_the_state_is_whole", killed::state),
    ("killed_the_command_is_told_of", killed::command),
    ("killed_behind_an_adapter_others_go_on", killed::behind_an_adapter),
    ("killed_the_peer_of_a_ring_is_told_of", killed::peer_of_a_ring),
    ("a_port_is_removed_and_comes_back", ports::comes_back),
    ("an_adapters_interface_is_removed_for_good", ports::for_good),
    ("a_step_of_the_clock_touches_nothing", clocks::step),
    ("another_time_since_the_start_touches_nothing", clocks::other_zero),
    ("stopped_for_five_seconds_it_goes_on", clocks::stopped),
    ("a_full_disk_costs_packets_of_the_capture_alone", disk::capture),
    ("a_full_disk_keeps_the_state_as_it_was", disk::state),
    ("no_memory_for_a_new_flow", memory::flows),
    ("no_memory_for_packets", memory::packets),
    ("no_memory_for_an_adapter_is_its_own_affair", memory::neighbours),
    ("without_a_descriptor_packets_pass", descriptors::used_up),
    ("user_namespaces_are_off", namespaces::off),
    ("ten_times_the_links_rate", overload::tenfold),
    ("what_was_decided_on_is_not_dropped", overload::decided),
    ("who_misbehaves_takes_its_own_share", neighbour::misbehaves),
    ("a_storm_at_one_port_takes_nothing_from_others", neighbour::storms),
    ("a_ring_that_hangs_is_its_owners_affair", neighbour::hangs),
    ("two_for_one_interface", twice::interface),
    ("two_for_one_socket_and_one_namespace", twice::socket_and_namespace),
    ("a_log_that_nobody_reads_stops_nothing", unread_log::stops_nothing),
    ("an_upgrade_loses_nothing", upgrade::loses_nothing),
    ("an_upgrade_that_cannot_be_changes_nothing", upgrade::refused),
    ("any_process_is_killed_at_any_instant", killed::at_any_instant),
    ("everything_at_random", soak::everything),
];

/// Runs the case of this name. Returns true if it exists.
pub(crate) fn case(name: &str) -> bool {
    let case = CASES.iter().find(|case| case.0 == name);
    case.iter().for_each(|case| scene::around(case.1));
    case.is_some()
}

/// Returns all cases.
pub(crate) fn trials(possible: bool) -> Vec<Trial> {
    let trial = |&(name, _): &(&'static str, fn())| {
        crate::trial(possible, name.to_owned(), move || run(name))
    };
    CASES.iter().map(trial).collect()
}

/// Runs a case in a process and namespaces of its own, with its own directory for sockets.
fn run(name: &str) -> Result<Completion, libtest_mimic::Failed> {
    let me = std::env::current_exe().expect("a path");
    // The length of socket names is limited.
    let place = std::env::temp_dir().join(format!("falaj-faults-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory can be made");
    let most = (60 + soak::long().as_secs() + 4 * killed::times()).to_string();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", &most, "unshare", "-Urnm"]).arg(me).args(["--case", name]);
    command.env("TMPDIR", &place).env("XDG_RUNTIME_DIR", &place).stdin(Stdio::null());
    // Files, not pipes: a process that outlives the case would keep a pipe open, and this test
    // waiting.
    let [said, errors] = ["stdout", "stderr"].map(|end| directory().join(format!("{name}.{end}")));
    let [stdout, stderr] = [&said, &errors].map(|file| File::create(file).expect("a file"));
    let status = command.stdout(stdout).stderr(stderr).status().expect("it starts");
    std::fs::remove_dir_all(&place).expect("it is ours");
    let [said, errors] = [&said, &errors].map(|file| read_to_string(file).expect("UTF-8"));
    if status.success() {
        print!("{said}");
        return Ok(Completion::Completed);
    }
    Err(format!("{status}\n{said}{errors}").into())
}
