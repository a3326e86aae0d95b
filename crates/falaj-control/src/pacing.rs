//! How the live loop waits, as it is asked for on the command line.

use falaj_live::event_loop::Timer;
use falaj_live::event_loop::{Options, WhenFull};
use falaj_live::host;
use falaj_scenario::parse_span;
use falaj_sched::units::time::Span;

/// What every command takes that hands packets over.
#[derive(clap::Args)]
pub struct PacingArgs {
    /// How to wait for an instant: spin (a processor of its own), sleep (wakes at most once in
    /// --slack), hybrid (sleeps, and spins for the last part, unless others wait for a processor).
    #[arg(long, default_value_t, value_name = "spin|hybrid|sleep")]
    timer: Timer,
    /// How late a packet may be handed over so that others leave with it: segments of one unit,
    /// and with `--timer sleep` whatever is due; 0s: each at its own instant.
    #[arg(long, value_name = "TIME", default_value = "20us", value_parser = parse_span)]
    slack: Span,
    /// What becomes of a packet that finds its queue full: drop, or wait at its interface
    /// [default: drop].
    #[arg(long, value_name = "drop|wait", value_parser = when_full)]
    when_full: Option<WhenFull>,
}

fn when_full(text: &str) -> Result<WhenFull, String> {
    match text {
        "drop" => Ok(WhenFull::Drop),
        "wait" => Ok(WhenFull::Wait),
        _ => Err("a packet that finds its queue full may `drop` or `wait`".into()),
    }
}

impl PacingArgs {
    /// The options of the live loop.
    pub fn options(&self) -> Options {
        self.options_or(WhenFull::default())
    }

    /// The same, with this where nothing was said of full queues.
    pub fn options_or(&self, when_full: WhenFull) -> Options {
        let memory = host::memory_for_packets();
        let when_full = self.when_full.unwrap_or(when_full);
        Options { timer: self.timer, slack: self.slack, when_full, memory }
    }
}
