//! The way from the handler to the forwarder, and how much of the forwarder's time questions take.

use crate::messages::{Query, Reply, TimedReply};
use crate::protocol::Refusal;
use falaj_engine::network::PipePlaces;
use std::io::{PipeWriter, Write};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// Questions take at most one part in so many of the forwarder's time, however fast they come; and
/// changes as much.
const PART: u32 = 10;

/// The way to the forwarder.
pub(super) struct ForwarderChannel {
    /// None: that of a copy, which asks nothing.
    ends: Option<ChannelEnds>,
    /// Till then it is not asked questions, or for changes: nobody who looks holds up who changes
    /// something.
    questions_rest: Instant,
    changes_rest: Instant,
}

struct ChannelEnds {
    ask: Sender<Query>,
    answers: Receiver<TimedReply>,
    wake: PipeWriter,
}

impl ForwarderChannel {
    /// One by which nothing can be asked.
    pub(super) fn absent() -> ForwarderChannel {
        let now = Instant::now();
        ForwarderChannel { ends: None, questions_rest: now, changes_rest: now }
    }

    pub(super) fn new(
        ask: Sender<Query>,
        answers: Receiver<TimedReply>,
        wake: PipeWriter,
    ) -> ForwarderChannel {
        let now = Instant::now();
        let ends = Some(ChannelEnds { ask, answers, wake });
        ForwarderChannel { ends, questions_rest: now, changes_rest: now }
    }

    /// How long the forwarder is not to be asked questions yet.
    pub(super) fn rest(&self) -> Duration {
        self.questions_rest.saturating_duration_since(Instant::now())
    }

    /// Places in the engine: those taken and those free.
    pub(super) fn places(&mut self) -> Result<PipePlaces, Refusal> {
        match self.ask(Query::Places)? {
            Reply::Places(places) => Ok(places),
            _ => Err(Refusal::new("another answer than one about places")),
        }
    }

    /// Asks, once the forwarder could do its work for a while after what was asked before.
    pub(super) fn ask(&mut self, ask: Query) -> Result<Reply, Refusal> {
        let gone = || Refusal::new("the link is gone");
        let ends = self.ends.as_mut().ok_or_else(gone)?;
        let rests = match ask {
            Query::Change(_) => &mut self.changes_rest,
            Query::Pause { .. } => &mut self.changes_rest,
            _ => &mut self.questions_rest,
        };
        std::thread::sleep(rests.saturating_duration_since(Instant::now()));
        ends.ask.send(ask).map_err(|_| gone())?;
        ends.wake.write_all(&[0]).map_err(|_| gone())?;
        let TimedReply { told, took } = ends.answers.recv().map_err(|_| gone())?;
        *rests = Instant::now() + took * (PART - 1);
        Ok(told)
    }
}
