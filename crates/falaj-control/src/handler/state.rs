//! The handler's state: the scenario that is running, its text, and the way to the forwarder.

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

/// Keeps the scenario that is running.
pub struct Handler {
    pub(super) running: Running,
    /// By link, its place in the engine.
    pub(super) at: Vec<u32>,
    /// Its text as it is edited, if a change before has left that.
    pub(super) edited: Option<DocumentMut>,
    /// Is the text of what is running written out, or is it only edited?
    pub(super) is_written: bool,
    /// How often flows or links have become others.
    pub(super) others: u64,
    /// How often anything was changed.
    pub(super) changes: u64,
    /// Warnings that were said already.
    pub(super) said: Vec<String>,
    pub(super) forwarder: ForwarderChannel,
    /// Where the text of what is running is kept.
    pub(super) kept: Option<PathBuf>,
    /// Adapters that pause.
    pub(super) paused: BTreeSet<String>,
    /// What opens adapters that come.
    pub(super) preparer: Option<Box<dyn Preparer>>,
}

/// What is running after a change, and what it promises.
#[derive(Clone, Debug)]
pub struct Current {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// What its flows are promised, by pipe and flow.
    pub standings: Arc<Vec<Vec<Standing>>>,
    /// How often anything was changed until then.
    pub changes: u64,
}

/// Who panicked there has changed nothing that is not whole: it is asked as before.
pub fn lock(handler: &Mutex<Handler>) -> MutexGuard<'_, Handler> {
    handler.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handler, once the forwarder may be asked a question: who waits for that is in nobody's way.
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

    /// A copy of what is running, to answer questions by. It reaches no forwarder.
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

    /// From now on this opens adapters that come.
    pub(crate) fn prepare_with(&mut self, preparer: Box<dyn Preparer>) {
        self.preparer = Some(preparer);
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
            _ => Err(Refusal::new("another answer than one to a pause")),
        }
    }

    /// What is running now.
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

    /// The text of what is running.
    pub fn text(&mut self) -> &str {
        if let Some(edited) = self.edited.as_ref().filter(|_| !self.is_written) {
            (self.running.text, self.is_written) = (edited.to_string(), true);
        }
        &self.running.text
    }
}
