//! Tests that run in virtual time: each in a guest of its own, whose clock stands still while any
//! program computes. Load on the host cannot break their assertions about times, rates and order,
//! and waiting takes no real time.
//!
//! The tests need a kernel (`make kernel`); without one they run in real time, as all others do.

use falaj_guest::boot::{CpuTime, GuestConfig};
use falaj_guest::epoch::Epoch;
use falaj_guest::exit::Exit;
use falaj_guest::job::Job;
use falaj_guest::kernel;
use libtest_mimic::{Completion, Failed};
use std::process::Command;
use std::time::Duration;

/// Names of the tests, without the part after `::`.
const TESTS: &[&str] = &[
    "a_delay_delays",
    "a_rate_limits",
    "tcp_passes_a_rate",
    "rules_lead_packets_through_links",
    "changes_are_in_the_capture_and_are_replayed",
    "scheduled_changes_are_made_on_time_and_replayed",
    "what_is_lost_at_the_entrance_is_told",
    "hosts_reach_each_other_through_a_router",
    "hosts_in_a_row_pass_packets_on",
    "a_summary_is_json_and_is_judged",
    "a_link_is_shown_and_changed_from_inside",
    "examples_of_changes_work_as_they_stand",
    "traffic_reports_what_it_sent",
    "compare_keeps_its_bounds",
    "compare_with_ipv6_and_both_ways",
    "sources_go_by_the_rules",
    "a_thesis_flows_pass_a_gateway",
    "what_a_device_paces_stays_in_order_and_whole",
    "what_a_device_refused_is_in_the_capture_and_is_replayed",
    "what_a_device_refused_is_replayed_where_the_loop_sleeps",
    "changes_are_admitted_or_refused_and_take_effect",
    "the_file_is_read_again",
    "guests_of_a_driver_domain_get_their_packets_in_batches",
    "a_terminal_shows_and_changes_it",
    "over_tcp_one_bears_the_token",
    "a_step_of_the_clock_touches_nothing",
    "stopped_for_five_seconds_it_goes_on",
];

/// Environment variable that selects the tests: `real`, `virtual`, or all.
pub(crate) const CHOICE: &str = "FALAJ_LIVE";

/// Returns true if this test runs in a guest.
pub(crate) fn is_for(name: &str) -> bool {
    let name = name.split_once("::").map_or(name, |(name, _)| name);
    TESTS.contains(&name) && !falaj_guest::is_inside() && kernel::find(None).is_ok()
}

/// Runs the test of this name in a guest.
pub(crate) fn test(name: &str) -> Result<Completion, Failed> {
    let this = std::env::current_exe()?;
    let ran = Command::new(this).args(["--in-guest", name]).env_remove(CHOICE).output()?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&ran.stdout);
    // The last line of a successful run of this program.
    if ran.status.success() && said.contains("1 passed; 0 failed; 0 ignored") {
        return Ok(Completion::Completed);
    }
    Err(format!("in a guest:\n{said}{}", text(&ran.stderr)).into())
}

/// Boots a guest that runs this program's test of this name, and panics unless the test passes.
pub(crate) fn main(name: &str) {
    let config = GuestConfig {
        kernel: kernel::find(None).expect("there is a kernel"),
        cpu: CpuTime::Free,
        epoch: Epoch::default(),
        memory: 1 << 30,
        seed: 1,
        stuck: Duration::from_secs(300),
    };
    let this = std::env::current_exe().expect("this program has a path");
    let command = vec![this.into(), name.into(), "--exact".into(), "--nocapture".into()];
    let job = Job::here(command).expect("there is a directory");
    match falaj_guest::run(&config, job) {
        Ok(ended) => assert_eq!(ended.exit, Exit::Code(0), "{:?}", ended.real_time),
        Err(error) => panic!("{error}"),
    }
}
