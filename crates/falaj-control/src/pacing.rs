//! The options of the event loop's timer.

use falaj_live::clock;
use falaj_live::event_loop::Timer;
use falaj_live::event_loop::{Options, WhenFull};
use falaj_live::host;
use falaj_scenario::parse_span;
use falaj_sched::units::time::Span;

/// Arguments of every command that hands packets over.
#[derive(clap::Args)]
#[command(next_help_heading = "Pacing")]
pub struct PacingArgs {
    /// How to wait until a packet is due
    ///
    /// spin: occupies a processor of its own; sleep: wakes at most once per --slack; hybrid:
    /// sleeps, and spins at the end, unless other threads wait for a processor.
    #[arg(long, default_value_t, value_name = "spin|hybrid|sleep")]
    timer: Timer,
    /// Maximum lateness of a packet, so that others leave together with it: the segments of one
    /// large packet, and with `--timer sleep` all packets that are due; 0s: each packet at its own
    /// instant.
    #[arg(long, value_name = "TIME", default_value = "20us", value_parser = parse_span,
        hide_short_help = true)]
    slack: Span,
    /// Treatment of a packet that finds its queue full: drop it, or let it wait at its interface
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

    /// The options of the live loop, with this default for full queues.
    pub fn options_or(&self, when_full: WhenFull) -> Options {
        let asked = Options {
            timer: self.timer,
            slack: self.slack,
            when_full: self.when_full.unwrap_or(when_full),
            memory: host::memory_for_packets(),
            resident: host::memory_with_masks(),
        };
        if clock::is_virtual() { in_virtual_time(asked) } else { asked }
    }
}

/// The default options of the event loop.
pub fn default_options() -> Options {
    if clock::is_virtual() { in_virtual_time(Options::default()) } else { Options::default() }
}

/// Adapts the options to virtual time, in which waking up takes no time and spinning is of no use.
/// Each packet leaves at its own instant, unless a slack was given. The timer `sleep` stays.
fn in_virtual_time(options: Options) -> Options {
    let usual = Options::default().slack;
    match options.timer {
        Timer::Sleep => options,
        _ if options.slack == usual => {
            Options { timer: Timer::Exact, slack: Span::ZERO, ..options }
        }
        _ => Options { timer: Timer::Exact, ..options },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_spins_in_virtual_time() {
        let slack = Span::from_micros(50);
        for timer in [Timer::Spin, Timer::Hybrid] {
            let usual = in_virtual_time(Options { timer, ..Options::default() });
            assert_eq!((usual.timer, usual.slack), (Timer::Exact, Span::ZERO));
            let asked = in_virtual_time(Options { timer, slack, ..Options::default() });
            assert_eq!((asked.timer, asked.slack), (Timer::Exact, slack));
        }
        let sleeps = Options { timer: Timer::Sleep, slack, ..Options::default() };
        assert_eq!(in_virtual_time(sleeps), sleeps);
    }
}
