//! What a service says while it runs: events with a level and values, a line each on standard
//! error.
//!
//! A journal has its own time and name for who speaks, so a line for it begins with its level
//! instead, as `sd-daemon(3)` has it; people get the words that every other command has.

use clap::ValueEnum;
use falaj_terminal::output::{Log, log_to};
use falaj_terminal::standard_error::StandardError;
use nix::sys::stat::fstat;
use std::fmt;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How much is said.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Much {
    /// What ends it.
    Error,
    /// And what is not as it should be.
    Warn,
    /// And what comes, goes and changes.
    Info,
    /// And each request.
    Debug,
}

impl Much {
    fn level(self) -> LevelFilter {
        match self {
            Much::Error => LevelFilter::ERROR,
            Much::Warn => LevelFilter::WARN,
            Much::Info => LevelFilter::INFO,
            Much::Debug => LevelFilter::DEBUG,
        }
    }
}

/// From here on what is said goes by events.
pub(super) fn begin(much: Much) {
    let lines = Lines { journal: to_a_journal() };
    // Plain on a terminal too: lines are read by machines, and whether the library knows colours is
    // not ours to say.
    let all = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(much.level())
        .with_writer(|| StandardError)
        .event_format(lines);
    // There is one already where a process is more than one service: in tests.
    let _ = all.try_init();
    log_to(Box::new(Events));
}

/// Takes what commands write on standard error: once there is a service, it goes by events.
struct Events;

impl Log for Events {
    fn remark(&self, words: fmt::Arguments<'_>) -> bool {
        if !tracing::dispatcher::has_been_set() {
            return false;
        }
        let text = words.to_string();
        match text.strip_prefix("warning: ") {
            Some(text) => tracing::warn!("{text}"),
            None if text.starts_with("error: ") => tracing::error!("{text}"),
            None => tracing::info!("{text}"),
        }
        true
    }

    fn failure(&self, error: &anyhow::Error) -> bool {
        let is_on = tracing::dispatcher::has_been_set();
        if is_on {
            tracing::error!("{error:#}");
        }
        is_on
    }
}

/// Is standard error a journal's? systemd says which file it has made for that.
fn to_a_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    fstat(std::io::stderr()).is_ok_and(|is| named == format!("{}:{}", is.st_dev, is.st_ino))
}

/// An event as a line.
struct Lines {
    journal: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        of: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // The numbers are those of syslog.
        let (number, word) = match *event.metadata().level() {
            Level::ERROR => (3, ""),
            Level::WARN => (4, "warning: "),
            Level::INFO => (6, ""),
            _ => (7, ""),
        };
        match self.journal {
            true => write!(line, "<{number}>")?,
            false => write!(line, "falaj: {word}")?,
        }
        of.field_format().format_fields(line.by_ref(), event)?;
        writeln!(line)
    }
}
