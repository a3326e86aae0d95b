//! What the forwarder is asked for, and how much of its time that may take.

use super::{Desk, lock};
use crate::control::protocol::Refusal;
use falaj_engine::each::Report as Made;
use falaj_engine::network::Places;
use falaj_engine::transaction::Transaction;
use falaj_engine::{ChangeError, PipeId};
use falaj_live::adapters::Counts;
#[cfg(feature = "serve")]
use falaj_live::event_loop::Turn;
use falaj_live::event_loop::{Changed, Snapshot, Sojourns, Terms};
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::FlowId;
use falaj_traffic::capture::Wanted;
use std::any::Any;
use std::io::{PipeWriter, Write};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What the forwarder is asked for.
pub(crate) enum Ask {
    Snapshot,
    /// Where links are, and where others may begin.
    Places,
    /// What was measured of flows, from this one on, to their places there.
    Measured {
        to: Vec<Sojourns>,
        from: usize,
    },
    /// What a mask of this pipe made: that of the flow, or of the link.
    Made(PipeId, Option<FlowId>),
    /// Who held the links when.
    #[cfg(feature = "serve")]
    Turns,
    /// An adapter is to pause, or to go on.
    #[cfg(feature = "serve")]
    Pause {
        name: String,
        paused: bool,
    },
    Change(Box<Changing>),
}

/// What it says.
pub(crate) enum Told {
    Places(Places),
    Snapshot(Box<Snapshot>, Vec<(String, Counts)>),
    /// It is there, up to this place.
    Measured(Vec<Sojourns>, usize),
    Made(Option<Box<Made>>),
    #[cfg(feature = "serve")]
    Turns(Vec<Vec<Turn>>),
    #[cfg(feature = "serve")]
    Paused(Result<(), String>),
    /// What became of the change, and what it has left.
    Changed(Result<Changed, ChangeError>, Vec<Box<dyn Any + Send>>),
    Refused(String),
}

/// A change as the forwarder makes it.
pub(crate) struct Changing {
    /// The engine's, if there is something to change.
    pub(crate) change: Option<Transaction>,
    /// What is running then.
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) held_to: HeldTo,
    pub(crate) adapters: AdaptersThen,
    /// What is to be written down of it.
    pub(crate) written: Option<Wanted>,
}

/// What flows are held to from then on.
pub(crate) enum HeldTo {
    /// As before.
    Same,
    /// These, by the number of the pipe, to other terms.
    Some(Vec<(usize, FlowId, Terms)>),
    /// Each, by pipe and flow, to these.
    All(Vec<Vec<Terms>>),
}

/// What becomes of virtual adapters.
pub(crate) enum AdaptersThen {
    /// They stay; these have another weight.
    Stay(Vec<(String, u32)>),
    Others,
}

/// What it says, and how long no packet passed for that.
pub(crate) struct Answer {
    pub(crate) told: Told,
    pub(crate) took: Duration,
}

/// Questions take at most one part in so many of the forwarder's time, however fast they come; and
/// changes as much.
const PART: u32 = 10;

/// The way to the forwarder.
pub(super) struct Asking {
    ask: Sender<Ask>,
    answers: Receiver<Answer>,
    wake: PipeWriter,
    /// Till then it is not asked questions, or for changes: nobody who looks holds up who changes
    /// something.
    questions_rest: Instant,
    changes_rest: Instant,
}

impl Asking {
    pub(super) fn new(ask: Sender<Ask>, answers: Receiver<Answer>, wake: PipeWriter) -> Asking {
        let now = Instant::now();
        Asking { ask, answers, wake, questions_rest: now, changes_rest: now }
    }

    /// Asks, once the forwarder could do its work for a while after what was asked before.
    pub(super) fn ask(&mut self, ask: Ask) -> Result<Told, Refusal> {
        let gone = || Refusal::new("the link is gone");
        let rests = match ask {
            Ask::Change(_) => &mut self.changes_rest,
            #[cfg(feature = "serve")]
            Ask::Pause { .. } => &mut self.changes_rest,
            _ => &mut self.questions_rest,
        };
        std::thread::sleep(rests.saturating_duration_since(Instant::now()));
        self.ask.send(ask).map_err(|_| gone())?;
        self.wake.write_all(&[0]).map_err(|_| gone())?;
        let Answer { told, took } = self.answers.recv().map_err(|_| gone())?;
        *rests = Instant::now() + took * (PART - 1);
        Ok(told)
    }
}

/// The desk, once the forwarder may be asked a question: who waits for that is in nobody's way.
pub(super) fn rested(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    loop {
        let open = lock(desk);
        let rest = open.asking.questions_rest.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return open;
        }
        drop(open);
        std::thread::sleep(rest);
    }
}
