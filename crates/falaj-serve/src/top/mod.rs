//! `falaj top`: the measurements and guarantees of flows on a terminal; a few keys change the link.
//!
//! | module | task |
//! |---|---|
//! | `source` | the source of samples and target of changes: a service's API, or any link's control socket |
//! | `http` | the API's client |
//! | `seen` | the displayed data, independent of its source |
//! | `state` | selection, input, and history |
//! | `screen` | the layout of the screen |

mod http;
mod screen;
mod seen;
mod source;
mod state;

use anyhow::{Context, Result, bail};
use falaj_control::client::LinkSelection;
use falaj_terminal::output::print;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use seen::ScreenDirection;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use source::RunningLink;
use state::ScreenState;
use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval between two samples.
const STEP: Duration = Duration::from_secs(1);
/// Maximum time until a signal is handled.
const POLL: Duration = Duration::from_millis(200);
/// Default number of columns if no width is given.
const DEFAULT_WIDTH: u16 = 120;

/// Arguments of `top`.
#[derive(clap::Args)]
#[command(after_help = "\
Without --api and --control it finds the running link of this user: a service by its API, with its
guarantees, or any other link by its control socket.

Keys:
  up, down, j, k   select a flow            Tab   packets sent, packets received
  + -  w           change the weight        c     change the cap, if the discipline has one
  p                pause or resume the adapter
  q, Esc, Ctrl-C   quit                     space freeze the screen

Examples:
  falaj top
  falaj top --api /run/falaj.http
  falaj top --once --way down")]
pub struct Args {
    /// The socket of a service's HTTP API.
    #[arg(long, value_name = "PATH", conflicts_with = "control")]
    api: Option<PathBuf>,
    #[command(flatten)]
    which: LinkSelection,
    /// Print one screen as text, for scripts.
    #[arg(long)]
    once: bool,
    /// Direction shown first: packets that adapters send, or that they receive.
    #[arg(long, value_enum, default_value_t = ScreenDirection::Up)]
    way: ScreenDirection,
    /// Width of the screen of --once, in columns.
    #[arg(long, value_name = "COLUMNS", requires = "once",
        value_parser = falaj_terminal::arguments::number::<u16>(40..=500))]
    width: Option<u16>,
}

/// Runs `falaj top`.
///
/// # Errors
/// The input is invalid, or there is no running link.
pub fn main(args: &Args) -> Result<ExitCode> {
    let mut source = RunningLink::find(args.api.as_deref(), &args.which)?;
    let mut state = ScreenState::new(args.way);
    state.take(source.look()?);
    if args.once {
        if !source.has_rates() {
            std::thread::sleep(STEP);
            state.take(source.look()?);
        }
        print(&screen::text(&mut state, args.width.unwrap_or(DEFAULT_WIDTH)));
        return Ok(ExitCode::SUCCESS);
    }
    if !stdout().is_terminal() {
        bail!("standard output is not a terminal; --once prints one screen as text");
    }
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).context("signals")?;
    }
    state.coloured = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    // From here on the terminal is also restored after a panic.
    let terminal = ratatui::try_init().context("the terminal")?;
    let outcome = watch(terminal, &mut source, &mut state, &ended);
    ratatui::restore();
    if let ExitReason::Service(why) = outcome? {
        note!("{why:#}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The reason why the screen ends.
enum ExitReason {
    Asked,
    Service(anyhow::Error),
}

fn watch(
    mut terminal: DefaultTerminal,
    source: &mut RunningLink,
    state: &mut ScreenState,
    ended: &AtomicBool,
) -> Result<ExitReason> {
    let mut next = Instant::now() + STEP;
    while !ended.load(Ordering::Relaxed) {
        terminal.draw(|frame| screen::draw(frame, state))?;
        let left = next.saturating_duration_since(Instant::now());
        if event::poll(left.min(POLL))? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && !pressed(key, source, state)
            {
                return Ok(ExitReason::Asked);
            }
            continue;
        }
        if Instant::now() >= next {
            next = Instant::now() + STEP;
            match source.look() {
                Ok(seen) => state.take(seen),
                Err(why) => return Ok(ExitReason::Service(why)),
            }
        }
    }
    Ok(ExitReason::Asked)
}

/// Handles a key; returns false if the program is to end.
fn pressed(key: KeyEvent, source: &mut RunningLink, state: &mut ScreenState) -> bool {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return !matches!(key.code, KeyCode::Char('c' | 'd'));
    }
    if state.types() {
        match key.code {
            KeyCode::Enter => {
                let typed = state.typed();
                change(source, state, typed);
            }
            KeyCode::Esc => state.leave(),
            KeyCode::Backspace => state.erase(),
            KeyCode::Char(c) => state.write(c),
            _ => {}
        }
        return true;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Up | KeyCode::Char('k') => state.step(-1),
        KeyCode::Down | KeyCode::Char('j') => state.step(1),
        KeyCode::PageUp => state.step(-10),
        KeyCode::PageDown => state.step(10),
        KeyCode::Tab => state.turn(),
        KeyCode::Char(' ') => state.hold(),
        KeyCode::Char('w') => state.ask_weight(),
        KeyCode::Char('c') => state.ask_cap(),
        KeyCode::Char('p') => pause(source, state),
        KeyCode::Char('+' | '=') => {
            let heavier = state.weight_by(1);
            change(source, state, heavier);
        }
        KeyCode::Char('-') => {
            let lighter = state.weight_by(-1);
            change(source, state, lighter);
        }
        _ => {}
    }
    true
}

/// Applies a change, and shows the result.
fn change(source: &mut RunningLink, state: &mut ScreenState, wanted: Option<state::WantedChange>) {
    let Some(wanted) = wanted else { return };
    let said = match source.change(&wanted) {
        Ok(()) => format!(
            "{}: {} {}",
            wanted.flow,
            wanted.key,
            wanted.value.as_deref().unwrap_or("was removed")
        ),
        Err(why) => why,
    };
    tell(source, state, said);
}

/// Pauses the selected adapter, or resumes it.
fn pause(source: &mut RunningLink, state: &mut ScreenState) {
    let Some((name, paused)) = state.row().map(|row| (row.adapter.clone(), !row.paused)) else {
        return;
    };
    let name = name.unwrap_or_default();
    let said = match source.pause(&name, paused) {
        Ok(()) => format!("{name} {}", if paused { "is paused" } else { "is resumed" }),
        Err(why) => why,
    };
    tell(source, state, said);
}

fn tell(source: &mut RunningLink, state: &mut ScreenState, said: String) {
    state.say(said);
    // If the link is gone, the next sample reports it.
    if let Ok(seen) = source.look() {
        state.take(seen);
    }
}
