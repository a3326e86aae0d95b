//! The log of a running service: events with a level and values, one line each on standard error.
//!
//! A journal adds its own time and program name, so lines for a journal begin with the level, in
//! the format of `sd-daemon(3)`. Other lines have the same prefixes as the messages of every other
//! command.

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

/// The level of the log.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogLevel {
    /// Only errors.
    Error,
    /// Also warnings.
    Warn,
    /// Also adapters that come and go, and changes.
    Info,
    /// Also each request.
    Debug,
}

impl LogLevel {
    fn level(self) -> LevelFilter {
        match self {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        }
    }
}

/// From now on, logs all messages as events.
pub(super) fn begin(level: LogLevel) {
    let lines = Lines { journal: to_a_journal() };
    // There are no colours, not even on a terminal: programs read these lines, and the colours
    // depend on the library.
    let all = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(level.level())
        .with_writer(|| StandardError)
        .event_format(lines);
    // A subscriber exists already if the process runs several services, as tests do.
    let _ = all.try_init();
    log_to(Box::new(Events));
}

/// Receives the messages of commands for standard error, and turns them into events of the service.
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

/// Returns true if standard error is the file that systemd names as its journal stream.
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
        // The numbers are the priorities of syslog.
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
