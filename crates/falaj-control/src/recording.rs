//! `--capture`: what passes a live link, written down.

use anyhow::{Context, Result};
use falaj_live::event_loop::Forwarder;
use falaj_live::event_loop::Recorder;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit status: packets are missing in the capture.
const NOT_WHOLE: u8 = 1;

/// The option of the commands that carry packets.
#[derive(clap::Args, Default)]
pub struct Recording {
    /// Writes down each packet and what became of it: a pcapng that `falaj sim --replay` replays.
    /// Where packets are missing in it, as on a full disk, the exit status is 1 if it were 0.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
}

impl Recording {
    /// Begins one, if it was asked for, of a link with this scenario.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(&self, forwarder: &mut Forwarder, scenario: &str) -> Result<()> {
        self.begin_at(forwarder, scenario, &["near", "far"])
    }

    /// The same, where the ports are not the ends of one link: these are their names.
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
        let recorder = Recorder::start(path, scenario, ports, forwarder.clock(), memory);
        forwarder.record(
            recorder.with_context(|| format!("cannot write the capture {}", path.display()))?,
        );
        Ok(())
    }

    /// Was it asked for?
    pub fn is_wanted(&self) -> bool {
        self.capture.is_some()
    }

    /// Ends it, and tells if it is not whole. Returns the exit status for where all else has gone
    /// well.
    pub fn end(&self, forwarder: &mut Forwarder) -> ExitCode {
        let (Some(recorder), Some(path)) = (forwarder.stop_recording(), &self.capture) else {
            return ExitCode::SUCCESS;
        };
        let name = path.display();
        let (recorded, written) = recorder.finish();
        match written {
            Err(error) => {
                note!("warning: {} packets are missing in {name}: {error}", recorded.missing);
            }
            Ok(()) if recorded.missing > 0 => {
                note!(
                    "warning: {} packets are missing in {name}: the disk was too slow",
                    recorded.missing
                );
            }
            Ok(()) => return ExitCode::SUCCESS,
        }
        ExitCode::from(NOT_WHOLE)
    }
}
