//! `--virtual-time`: runs the same command in a guest whose clock stands still while any program
//! computes.

use anyhow::{Result, bail};
use falaj_guest::boot::{CpuTime, GuestConfig};
use falaj_guest::epoch::Epoch;
use falaj_guest::error::Error;
use falaj_guest::job::Job;
use falaj_guest::kernel;
use falaj_scenario::{Run, RunTime, parse_size};
use falaj_sched::units::time::Span;
use falaj_terminal::arguments::parse_duration;
use falaj_terminal::{output, text};
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Default memory of a guest.
const MEMORY: &str = "1GiB";

/// Arguments for virtual time, of commands with live packets.
#[derive(clap::Args)]
#[command(next_help_heading = "Virtual time")]
pub(crate) struct VirtualTimeArgs {
    /// Run in a guest whose clock stands still while any program computes: exact, and repeatable
    ///
    /// The guest is user-mode Linux, without root; its clock jumps while everything waits. It has
    /// no access to the host's internet, interfaces or links.
    #[arg(long)]
    virtual_time: bool,
    /// The guest's kernel [default: FALAJ_KERNEL, or where `falaj kernel` finds it].
    #[arg(long, value_name = "FILE", requires = "virtual_time", hide_short_help = true)]
    kernel: Option<PathBuf>,
    /// Start of the guest's clock: a date, an instant of UTC, or `now`.
    #[arg(
        long,
        value_name = "DATE",
        default_value_t,
        requires = "virtual_time",
        hide_short_help = true
    )]
    epoch: Epoch,
    /// Virtual time that computing takes. free: none, so that results are exact and repeatable.
    /// counted: its duration on this host, so that only waiting is skipped, for programs that wait
    /// in a busy loop.
    #[arg(
        long,
        value_name = "free|counted",
        default_value_t,
        requires = "virtual_time",
        hide_short_help = true
    )]
    cpu: CpuTime,
    /// The guest's memory.
    #[arg(long, value_name = "SIZE", default_value = MEMORY, value_parser = parse_size,
        requires = "virtual_time", hide_short_help = true)]
    memory: u64,
    /// Stop the guest if no virtual time passes for this long in real time, and name the program
    /// that computes.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration,
        requires = "virtual_time", hide_short_help = true)]
    stuck: Span,
}

impl VirtualTimeArgs {
    /// Runs this program again in a guest, with the same arguments, if `--virtual-time` was given,
    /// and returns its exit status. Returns `None` if time is real or this process already runs in
    /// the guest. Without a seed, random numbers use the default seed of a scenario.
    pub(crate) fn take_over(&self, seed: Option<u64>) -> Result<Option<ExitCode>> {
        if !self.virtual_time {
            // If the scenario requested the guest, the process outside already parsed it and
            // printed its warnings.
            if falaj_guest::is_inside() && parent_id() == 1 {
                output::warnings_are_told();
            }
            return Ok(None);
        }
        self.run(seed.unwrap_or(Run::default().seed))
    }

    /// Runs this program again in a guest, as [`Self::take_over`] does, if the scenario requests
    /// virtual time.
    pub(crate) fn take_over_for(&self, run: &Run) -> Result<Option<ExitCode>> {
        match run.time {
            RunTime::Real => Ok(None),
            RunTime::Virtual => self.run(run.seed),
        }
    }

    fn run(&self, seed: u64) -> Result<Option<ExitCode>> {
        if falaj_guest::is_inside() {
            return Ok(None);
        }
        let config = GuestConfig {
            kernel: kernel::find(self.kernel.as_deref())?,
            cpu: self.cpu,
            epoch: self.epoch,
            memory: self.memory,
            seed,
            stuck: Duration::from_nanos(self.stuck.0),
        };
        let mut command = vec![std::env::current_exe()?.into_os_string()];
        command.extend(std::env::args_os().skip(1));
        match falaj_guest::run(&config, Job::here(command)?) {
            Ok(ended) => {
                let nanos = |time: Duration| text::nanos(time.as_nanos() as f64);
                note!(
                    "virtual time {}, real time {}",
                    nanos(ended.virtual_time),
                    nanos(ended.real_time)
                );
                Ok(Some(ExitCode::from(ended.exit.shell_code())))
            }
            // The same exit status as that of a program killed by `SIGPIPE`.
            Err(Error::ReaderGone) => Ok(Some(ExitCode::from(128 + 13))),
            Err(error @ Error::Signal(signal)) => {
                note!("{error}");
                Ok(Some(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns an error, with a cure, for an option that a guest does not support.
    pub(crate) fn refuse(&self, time: RunTime, wanted: bool, what: &str, cure: &str) -> Result<()> {
        if wanted && (self.virtual_time || time == RunTime::Virtual) {
            bail!("{what} is not available in virtual time: {cure}");
        }
        Ok(())
    }
}
