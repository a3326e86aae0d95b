//! What is asked at a control socket, and answered: it keeps the scenario that is running.
//!
//! | module | what it does |
//! |---|---|
//! | [`asking`] | what the forwarder is asked for, and how much of its time that may take |
//! | [`change`] | changes: edited, read, admitted, made |
//! | [`look`] | what is known of links now |
//! | [`report`] | the same as `falaj show` has it |
//! | [`kept`] | what outlasts the service |
//!
//! Where many may ask the desk stands behind a lock: a change has it until it is made, a look for
//! each of its pieces.

pub(crate) mod asking;
mod change;
mod kept;
pub(crate) mod look;
mod report;

use super::Running;
use super::protocol::{Hello, Refusal, Request, ScenarioAnswer, VERSION, answer, request};
#[cfg(feature = "serve")]
use asking::Told;
use asking::{Answer, Ask, Asking};
#[cfg(feature = "serve")]
pub(crate) use kept::paused_beside;
#[cfg(feature = "serve")]
use std::collections::BTreeSet;
use std::io::PipeWriter;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use toml_edit::DocumentMut;

/// Keeps the scenario that is running.
pub(crate) struct Desk {
    running: Running,
    /// By link, its place in the engine.
    at: Vec<u32>,
    /// Its text as it is edited, if a change before has left that.
    edited: Option<DocumentMut>,
    /// Is the text of what is running written out, or is it only edited?
    is_written: bool,
    /// How often flows or links have become others.
    others: u64,
    /// Warnings that were said already.
    said: Vec<String>,
    asking: Asking,
    /// Where the text of what is running is kept.
    kept: Option<PathBuf>,
    /// Adapters that pause.
    #[cfg(feature = "serve")]
    paused: BTreeSet<String>,
}

/// Who panicked there has changed nothing that is not whole: it is asked as before.
pub(crate) fn lock(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers a line by a line, whatever it is.
pub(crate) fn answer_line(desk: &Mutex<Desk>, line: &[u8]) -> String {
    let (id, request) = request(line);
    match request {
        Err(what) => answer::<()>(&id, &Err(Refusal::new(what))),
        Ok(Request::Show(show)) => answer(&id, &look::show(desk, &show)),
        Ok(Request::Set(set)) => answer(&id, &lock(desk).set(&set)),
        Ok(Request::Scenario) => {
            answer(&id, &Ok(ScenarioAnswer { toml: lock(desk).text().to_owned() }))
        }
    }
}

impl Desk {
    pub(crate) fn new(
        running: Running,
        ask: Sender<Ask>,
        answers: Receiver<Answer>,
        wake: PipeWriter,
    ) -> Desk {
        let said = match falaj_scenario::parse(&running.text, &running.file.to_string_lossy()) {
            Ok((_, warnings)) => warnings.problems().iter().map(|p| p.title.clone()).collect(),
            Err(_) => Vec::new(),
        };
        let at = (0..running.scenario.links.len() as u32).collect();
        Desk {
            running,
            at,
            edited: None,
            is_written: true,
            others: 0,
            said,
            asking: Asking::new(ask, answers, wake),
            kept: None,
            #[cfg(feature = "serve")]
            paused: BTreeSet::new(),
        }
    }

    /// The first line that a client gets.
    pub(crate) fn hello(&self) -> String {
        let hello = Hello {
            falaj: VERSION,
            release: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            command: self.running.command.into(),
            about: self.running.about.clone(),
        };
        format!("{}\n", serde_json::json!(hello))
    }

    /// Pauses an adapter, or lets it go on.
    #[cfg(feature = "serve")]
    pub(crate) fn pause(&mut self, name: &str, paused: bool) -> Result<(), Refusal> {
        match self.asking.ask(Ask::Pause { name: name.to_owned(), paused })? {
            Told::Paused(done) => {
                done.map_err(Refusal::new)?;
                let other = if paused {
                    self.paused.insert(name.to_owned())
                } else {
                    self.paused.remove(name)
                };
                if other {
                    self.keep_paused();
                }
                Ok(())
            }
            _ => Err(Refusal::new("another answer than one to a pause")),
        }
    }

    /// The names of its links.
    #[cfg(feature = "serve")]
    pub(crate) fn links(&self) -> Vec<String> {
        self.running.scenario.links.iter().map(|link| link.name.clone()).collect()
    }

    /// The text of what is running.
    pub(crate) fn text(&mut self) -> &str {
        if let Some(edited) = self.edited.as_ref().filter(|_| !self.is_written) {
            (self.running.text, self.is_written) = (edited.to_string(), true);
        }
        &self.running.text
    }
}
