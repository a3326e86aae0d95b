//! The channel from the handler to the forwarder, and a limit on the forwarder's time for requests.

use crate::messages::{Query, Reply, TimedReply};
use crate::protocol::Refusal;
use falaj_engine::network::PipePlaces;
use std::io::{PipeWriter, Write};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// Queries take at most 1/`PART` of the forwarder's time, at any rate of requests. Changes have the
/// same limit, counted separately.
const PART: u32 = 10;

/// The channel to the forwarder.
pub(super) struct ForwarderChannel {
    /// Both ends; `None` in a copy of the handler, which sends no requests.
    ends: Option<ChannelEnds>,
    /// Earliest times of the next query and of the next change. They are separate, so that queries
    /// do not delay changes.
    questions_rest: Instant,
    changes_rest: Instant,
}

struct ChannelEnds {
    ask: Sender<Query>,
    answers: Receiver<TimedReply>,
    wake: PipeWriter,
}

impl ForwarderChannel {
    /// A channel through which no request can be sent.
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

    /// Time until the next query may be sent.
    pub(super) fn rest(&self) -> Duration {
        self.questions_rest.saturating_duration_since(Instant::now())
    }

    /// The places in the engine: those taken and those free.
    pub(super) fn places(&mut self) -> Result<PipePlaces, Refusal> {
        match self.ask(Query::Places)? {
            Reply::Places(places) => Ok(places),
            _ => Err(Refusal::new("unexpected answer about places")),
        }
    }

    /// Sends a request, once the forwarder has had time for its own work since the last request.
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
