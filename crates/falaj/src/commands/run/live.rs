//! A line for each flow on the terminal, while a command runs.

use falaj_live::event_loop::{Forwarder, LiveFlow};
use falaj_scenario::Link;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::standard_error::StandardError;
use falaj_terminal::{progress, text};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use terminal_size::{Height, Width, terminal_size_of};

/// Time between two updates of the lines.
const STEP: Span = Span::from_millis(500);
/// Maximum number of lines for each direction; few terminals have room for more.
const LINES: usize = 20;

/// The lines of all flows. Updating them delays the link slightly twice a second, and they share
/// the terminal with the command, so they appear only on request.
pub(crate) struct Live {
    lines: Vec<FlowLine>,
    next: Time,
    last: Time,
}

struct FlowLine {
    name: String,
    pipe: usize,
    flow: usize,
    bar: ProgressBar,
    before: LiveFlow,
}

impl Live {
    /// Creates the lines; there are none if they are not wanted or standard error is not a
    /// terminal.
    pub(crate) fn new(links: &[Link], wanted: bool) -> Live {
        let mut lines = Vec::new();
        if wanted && progress::wanted() {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::term_like(Box::new(
                UnblockedTerminal::default(),
            )));
            let style = ProgressStyle::with_template("{msg}").expect("a valid template");
            let directions =
                links.iter().flat_map(|link| [(link, "up", &link.up), (link, "down", &link.down)]);
            for (pipe, (link, way, direction)) in directions.enumerate() {
                for (flow, known) in direction.flows.iter().enumerate().take(LINES) {
                    let way = if links.len() > 1 {
                        format!("{} {way}", link.name)
                    } else {
                        way.to_owned()
                    };
                    let bar = all.add(ProgressBar::new_spinner().with_style(style.clone()));
                    let name = format!("{way} {}", known.name);
                    lines.push(FlowLine { name, pipe, flow, bar, before: LiveFlow::default() });
                }
            }
        }
        Live { lines, next: Time::ZERO, last: Time::ZERO }
    }

    /// Returns the time of the next update.
    pub(crate) fn next(&self) -> Time {
        if self.lines.is_empty() { Time::NEVER } else { self.next }
    }

    /// Updates the lines, if the time of the next update has come.
    pub(crate) fn update(&mut self, forwarder: &Forwarder) {
        let now = forwarder.clock().now();
        if now < self.next() {
            return;
        }
        let (elapsed, flows) = (now.since(self.last), forwarder.flows());
        for line in &mut self.lines {
            let flow = flows[line.pipe][line.flow].clone();
            line.bar.set_message(format!("{}  {}", line.name, told(&line.before, &flow, elapsed)));
            line.bar.tick();
            line.before = flow;
        }
        (self.last, self.next) = (now, now + STEP);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.lines.iter().for_each(|line| line.bar.finish_and_clear());
    }
}

/// Returns a flow's rate, delay and drops between two updates, and its backlog now, in words.
fn told(before: &LiveFlow, now: &LiveFlow, elapsed: Span) -> String {
    let (was, is) = (&before.counters, &now.counters);
    let rate = (is.sent_bytes - was.sent_bytes) as f64 * 8e9 / elapsed.0.max(1) as f64;
    let sum = |flow: &LiveFlow| flow.delay.mean_nanos().unwrap_or(0.0) * flow.delay.count() as f64;
    let packets = now.delay.count() - before.delay.count();
    let delay =
        (packets > 0).then(|| text::nanos(((sum(now) - sum(before)) / packets as f64).max(0.0)));
    let (delay, dropped) = (delay.unwrap_or(text::DASH.into()), is.dropped() - was.dropped());
    format!("{}  queueing {delay}  {dropped} dropped  {} waiting", text::rate(rate), is.backlog)
}

/// The terminal at standard error. It may be stopped (Ctrl-S) without stopping the link. Output is
/// collected and written in one piece.
#[derive(Debug, Default)]
struct UnblockedTerminal(Mutex<String>);

impl UnblockedTerminal {
    fn push(&self, text: &str) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }

    /// Moves the cursor by the control sequence that ends in `letter`. For zero cells it writes
    /// nothing, because 0 means 1 in that sequence.
    fn go(&self, cells: usize, letter: char) -> io::Result<()> {
        if cells > 0 { self.push(&format!("\x1b[{cells}{letter}")) } else { Ok(()) }
    }
}

impl TermLike for UnblockedTerminal {
    fn width(&self) -> u16 {
        terminal_size_of(io::stderr()).map_or(80, |(Width(columns), _)| columns)
    }

    fn height(&self) -> u16 {
        terminal_size_of(io::stderr()).map_or(24, |(_, Height(lines))| lines)
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.go(lines, 'A')
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.go(lines, 'B')
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.go(columns, 'C')
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.go(columns, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.push(text)?;
        self.push("\r\n")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.push(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.push("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let mut picture = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = StandardError.write_all(picture.as_bytes());
        picture.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_of_the_time_since_the_last() {
        let mut before = LiveFlow::default();
        before.delay.record(Span::from_secs(9));
        before.counters.sent_bytes = 1000;
        let mut now = before.clone();
        now.counters.sent_bytes += 125_000;
        now.counters.dropped_full = 3;
        now.counters.backlog = 7;
        for ms in [10, 30] {
            now.delay.record(Span::from_millis(ms));
        }
        let half = Span::from_millis(500);
        assert_eq!(
            told(&before, &now, half),
            "2.00 Mbit/s  queueing 20.0 ms  3 dropped  7 waiting"
        );
        assert_eq!(told(&now, &now, half), "0.00 bit/s  queueing —  0 dropped  7 waiting");
    }
}
