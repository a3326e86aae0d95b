//! The handler's state: the running scenario, its text, and the channel to the forwarder.

use super::channel::ForwarderChannel;
use crate::messages::{Query, Reply, TimedReply};
use crate::protocol::{Hello, Refusal, VERSION};
use crate::running::{Preparer, Running};
use falaj_plan::standing::Standing;
use falaj_scenario::Scenario;
use std::collections::BTreeSet;
use std::io::PipeWriter;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toml_edit::DocumentMut;

/// Keeps the running scenario.
pub struct Handler {
    pub(super) running: Running,
    /// Each link's place in the engine.
    pub(super) at: Vec<u32>,
    /// The scenario as a parsed document, kept from the last change by keys. `None` if there was no
    /// such change since the text was last replaced as a whole.
    pub(super) edited: Option<DocumentMut>,
    /// True if the text of the running scenario is up to date with the edited document.
    pub(super) is_written: bool,
    /// Number of changes that added, removed or renumbered flows or links.
    pub(super) others: u64,
    /// Number of all changes.
    pub(super) changes: u64,
    /// Warnings that were given already.
    pub(super) said: Vec<String>,
    pub(super) forwarder: ForwarderChannel,
    /// The file in which the running scenario is kept.
    pub(super) kept: Option<PathBuf>,
    /// The names of paused adapters.
    pub(super) paused: BTreeSet<String>,
    /// Opens adapters that are added.
    pub(super) preparer: Option<Box<dyn Preparer>>,
}

/// The running scenario at one instant, and its guarantees.
#[derive(Clone, Debug)]
pub struct Current {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The guarantees of its flows, by pipe and flow.
    pub standings: Arc<Vec<Vec<Standing>>>,
    /// The number of all changes so far.
    pub changes: u64,
}

/// Locks the handler. A panic in another thread leaves it in a consistent state, so it remains
/// usable.
pub fn lock(handler: &Mutex<Handler>) -> MutexGuard<'_, Handler> {
    handler.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the handler once the forwarder accepts queries; while waiting, the lock is free.
pub(super) fn rested(handler: &Mutex<Handler>) -> MutexGuard<'_, Handler> {
    loop {
        let open = lock(handler);
        let rest = open.forwarder.rest();
        if rest.is_zero() {
            return open;
        }
        drop(open);
        std::thread::sleep(rest);
    }
}

impl Handler {
    pub(crate) fn new(
        running: Running,
        ask: Sender<Query>,
        answers: Receiver<TimedReply>,
        wake: PipeWriter,
    ) -> Handler {
        let said = match falaj_scenario::parse(&running.text, &running.file.to_string_lossy()) {
            Ok((_, warnings)) => warnings.problems().iter().map(|p| p.title.clone()).collect(),
            Err(_) => Vec::new(),
        };
        let at = (0..running.scenario.links.len() as u32).collect();
        Handler {
            running,
            at,
            edited: None,
            is_written: true,
            others: 0,
            changes: 0,
            said,
            forwarder: ForwarderChannel::new(ask, answers, wake),
            kept: None,
            paused: BTreeSet::new(),
            preparer: None,
        }
    }

    /// A copy of the state for computations. It has no channel to the forwarder.
    pub(super) fn copy(&mut self) -> Handler {
        self.text();
        Handler {
            running: self.running.clone(),
            at: self.at.clone(),
            edited: None,
            is_written: true,
            others: self.others,
            changes: self.changes,
            said: self.said.clone(),
            forwarder: ForwarderChannel::absent(),
            kept: None,
            paused: BTreeSet::new(),
            preparer: None,
        }
    }

    /// Sets the part that opens new adapters.
    pub(crate) fn prepare_with(&mut self, preparer: Box<dyn Preparer>) {
        self.preparer = Some(preparer);
    }

    /// The greeting for a client.
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

    /// Pauses an adapter, or resumes it.
    pub fn pause(&mut self, name: &str, paused: bool) -> Result<(), Refusal> {
        match self.forwarder.ask(Query::Pause { name: name.to_owned(), paused })? {
            Reply::Paused(done) => {
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
            _ => Err(Refusal::new("unexpected answer to a pause")),
        }
    }

    /// The running scenario and its guarantees.
    pub fn current(&self) -> Current {
        Current {
            scenario: Arc::clone(&self.running.scenario),
            standings: self.running.standings.clone().unwrap_or_default(),
            changes: self.changes,
        }
    }

    /// The names of its links.
    pub fn links(&self) -> Vec<String> {
        self.running.scenario.links.iter().map(|link| link.name.clone()).collect()
    }

    /// The text of the running scenario.
    pub fn text(&mut self) -> &str {
        if let Some(edited) = self.edited.as_ref().filter(|_| !self.is_written) {
            (self.running.text, self.is_written) = (edited.to_string(), true);
        }
        &self.running.text
    }
}
