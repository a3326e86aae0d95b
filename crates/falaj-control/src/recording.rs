//! `--capture`: the packets of a live link, recorded in a file.

use anyhow::{Context, Result, bail};
use falaj_live::event_loop::Forwarder;
use falaj_live::event_loop::Recorder;
use nix::unistd::dup2_stdout;
use std::cell::OnceCell;
use std::fs::File;
use std::io::{IsTerminal, stderr, stdout};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit status if packets are missing in the capture.
const NOT_WHOLE: u8 = 1;

/// The option of the commands that carry packets.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Results and control")]
pub struct Recording {
    /// Record each packet, and when it left or why it was lost, in a pcapng file, which
    /// `falaj sim --replay` replays
    ///
    /// `-`: to standard output; all other output then goes to standard error. If packets are
    /// missing in the capture, as on a full disk, the exit status is 1 instead of 0.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Standard output, if the capture goes there.
    #[arg(skip)]
    standard_output: OnceCell<File>,
}

impl Recording {
    /// Reserves standard output for the capture if it goes there; from now on all other output goes
    /// to standard error. It must be called before any process starts.
    ///
    /// # Errors
    /// Standard output is a terminal.
    pub fn take_standard_output(&self) -> Result<()> {
        if self.capture.as_ref().is_none_or(|path| path.as_os_str() != "-") {
            return Ok(());
        }
        if stdout().is_terminal() {
            bail!(
                "--capture -: standard output is a terminal, and a capture is not text: redirect \
                 it \
                 into a program or a file, as in `| wireshark -k -i -`"
            );
        }
        let file = stdout().as_fd().try_clone_to_owned().context("--capture -")?;
        dup2_stdout(stderr()).context("--capture -")?;
        let _ = self.standard_output.set(file.into());
        Ok(())
    }

    /// Begins a capture, if requested, of a link with this scenario.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(&self, forwarder: &mut Forwarder, scenario: &str) -> Result<()> {
        self.begin_at(forwarder, scenario, &["near", "far"])
    }

    /// Begins a capture, if requested, at ports that are not the ends of one link; `ports` are
    /// their names.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin_at(
        &self,
        forwarder: &mut Forwarder,
        scenario: &str,
        ports: &[&str],
    ) -> Result<()> {
        let Some(path) = &self.capture else { return Ok(()) };
        let memory = forwarder.memory_for_capture();
        let file = match self.standard_output.get() {
            Some(file) => file.try_clone(),
            None => File::create(path),
        };
        let recorder = file
            .and_then(|file| Recorder::start(file, scenario, ports, forwarder.clock(), memory))
            .with_context(|| format!("cannot write the capture {}", path.display()))?;
        forwarder.record(recorder);
        Ok(())
    }

    /// Returns true if a capture was requested.
    pub fn is_wanted(&self) -> bool {
        self.capture.is_some()
    }

    /// Ends the capture, and prints a warning if it is incomplete. Returns the exit status for a
    /// run that otherwise succeeded.
    pub fn end(&self, forwarder: &mut Forwarder) -> ExitCode {
        let (Some(recorder), Some(path)) = (forwarder.stop_recording(), &self.capture) else {
            return ExitCode::SUCCESS;
        };
        let (name, slow) = match self.standard_output.get() {
            Some(_) => ("the capture on standard output".to_owned(), "its reader or disk"),
            None => (path.display().to_string(), "the disk"),
        };
        let (recorded, written) = recorder.finish();
        match written {
            Err(error) => {
                note!("warning: {} packets are missing in {name}: {error}", recorded.missing);
            }
            Ok(()) if recorded.missing > 0 => {
                note!(
                    "warning: {} packets are missing in {name}: {slow} was too slow",
                    recorded.missing
                );
            }
            Ok(()) => return ExitCode::SUCCESS,
        }
        ExitCode::from(NOT_WHOLE)
    }
}
