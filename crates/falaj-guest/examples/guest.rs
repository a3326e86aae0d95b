//! Runs a command in virtual time, without a link: `guest sleep 3600` takes a moment.

use falaj_guest::boot::{CpuTime, GuestConfig};
use falaj_guest::epoch::Epoch;
use falaj_guest::job::Job;
use falaj_guest::{kernel, run, take_over};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // In the guest this program is the first process.
    take_over();
    let mut command: Vec<_> = std::env::args_os().skip(1).collect();
    if command.is_empty() {
        command = vec!["sleep".into(), "3600".into()];
    }
    let config = GuestConfig {
        kernel: match kernel::find(None) {
            Ok(kernel) => kernel,
            Err(error) => {
                eprintln!("{error}");
                return Ok(ExitCode::SUCCESS);
            }
        },
        cpu: CpuTime::Free,
        epoch: Epoch::default(),
        memory: 256 << 20,
        seed: 1,
        stuck: Duration::from_secs(5),
    };
    let ended = run(&config, Job::here(command)?)?;
    eprintln!("virtual time {:?}, real time {:?}", ended.virtual_time, ended.real_time);
    Ok(ExitCode::from(ended.exit.shell_code()))
}
