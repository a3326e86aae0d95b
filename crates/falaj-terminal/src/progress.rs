//! Progress of work: bars on a terminal; without a terminal, lines at intervals for long work.

use crate::output::quiet;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum interval between lines without a terminal.
const LINE: Duration = Duration::from_secs(10);

/// Returns true if progress may be drawn: on a terminal, without `--quiet`.
pub fn wanted() -> bool {
    io::stderr().is_terminal() && !quiet()
}

/// A progress bar of `steps` steps on a terminal; without a terminal, or with `--quiet`, the bar is
/// hidden.
pub fn bar(steps: u64, what: &'static str) -> ProgressBar {
    if !wanted() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len}, {eta} left")
        .expect("a valid template");
    ProgressBar::new(steps).with_style(style).with_message(what)
}

/// A progress bar for work that takes minutes. Without a terminal, lines report the progress. A
/// line is printed only when a step ends: there is no thread that prints between steps, because a
/// sandbox must be started by a single-threaded process.
pub fn long_bar(steps: u64, what: &'static str) -> ProgressBar {
    if wanted() || quiet() {
        return bar(steps, what);
    }
    lines(steps, what, RemarkLines::new(LINE, |line| note!("{line}")))
}

fn lines(steps: u64, what: &'static str, to: RemarkLines) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg}: {pos} of {len}, {elapsed}").expect("a valid template");
    let target = ProgressDrawTarget::term_like(Box::new(to));
    ProgressBar::with_draw_target(Some(steps), target).with_style(style).with_message(what)
}

/// A drawing target for a progress bar without a terminal: the drawing is printed as a line, at
/// most once in a period.
#[derive(Debug)]
struct RemarkLines {
    period: Duration,
    tell: fn(&str),
    drawing: Mutex<Drawing>,
}

#[derive(Debug)]
struct Drawing {
    line: String,
    /// Time of the last line, or of the beginning of the work.
    told: Instant,
}

impl RemarkLines {
    fn new(period: Duration, tell: fn(&str)) -> RemarkLines {
        let drawing = Drawing { line: String::new(), told: Instant::now() };
        RemarkLines { period, tell, drawing: Mutex::new(drawing) }
    }

    fn with_drawing(&self, change: impl FnOnce(&mut Drawing)) -> io::Result<()> {
        change(&mut self.drawing.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

impl TermLike for RemarkLines {
    fn width(&self) -> u16 {
        100
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.with_drawing(|drawing| drawing.line.push_str(text))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.with_drawing(|drawing| drawing.line.clear())
    }

    fn flush(&self) -> io::Result<()> {
        self.with_drawing(|drawing| {
            let line = std::mem::take(&mut drawing.line);
            if !line.trim().is_empty() && drawing.told.elapsed() >= self.period {
                (self.tell)(line.trim());
                drawing.told = Instant::now();
            }
        })
    }
}

/// A progress bar for simulated time: like [`bar`], with a percentage instead of the number of
/// steps.
pub fn bar_of_time(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:30} {percent} %, {eta} left")
        .expect("a valid template");
    bar(steps, "simulating").with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn lines_come_with_steps_and_not_too_often() {
        let tell = |line: &str| TOLD.lock().expect("no other test has it").push(line.to_owned());
        let told = || std::mem::take(&mut *TOLD.lock().expect("no other test has it"));
        let often = lines(8, "cells", RemarkLines::new(Duration::ZERO, tell));
        often.inc(3);
        often.inc(1);
        often.finish_and_clear();
        let lines_told = told();
        assert!(
            lines_told.iter().any(|line| line.starts_with("cells: 3 of 8, ")),
            "{lines_told:?}"
        );
        let seldom = lines(8, "cells", RemarkLines::new(Duration::from_secs(3600), tell));
        seldom.inc(3);
        seldom.finish_and_clear();
        assert_eq!(told(), [""; 0]);
    }
}
