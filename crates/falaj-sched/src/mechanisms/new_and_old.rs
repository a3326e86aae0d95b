//! Turns of queues by RFC 8290: a queue that was empty has its first turn before the other queues.
//!
//! A queue that gets its first packet joins the round of new queues with one quantum. It moves to
//! the round of old queues when it has spent the quantum, or has no packet at its turn. It leaves
//! the rounds when it has no packet at a turn as an old queue.

use crate::mechanisms::active_list::{Place, Round};
use crate::mechanisms::deficit::Surplus;
use crate::queues::queue::{FlowId, Flows};

/// A queue's place in the rounds, and its deficit.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeficitTurn {
    pub(crate) place: Place,
    pub(crate) deficit: Surplus,
}

/// The rounds of new and of old queues.
#[derive(Clone, Debug)]
pub(crate) struct NewAndOld {
    quantum: i64,
    new: Round,
    old: Round,
}

impl NewAndOld {
    /// Empty rounds, with the quantum in bytes.
    pub(crate) fn new(quantum: i64) -> NewAndOld {
        NewAndOld { quantum, new: Round::EMPTY, old: Round::EMPTY }
    }

    /// Keeps the queues, with another quantum.
    pub(crate) fn with_quantum(self, quantum: i64) -> NewAndOld {
        NewAndOld { quantum, ..self }
    }

    pub(crate) fn quantum(&self) -> i64 {
        self.quantum
    }

    /// Adds queue `f`, which has got its first packet, unless it is in a round already.
    #[inline(always)]
    pub(crate) fn join<S, T: Copy>(&mut self, flows: &mut Flows<S, T>, f: FlowId)
    where
        S: AsMut<Place> + AsMut<DeficitTurn>,
    {
        let before = self.new.len();
        self.new.join(flows, f);
        if self.new.len() > before {
            AsMut::<DeficitTurn>::as_mut(flows.state_mut(f)).deficit = Surplus::new(self.quantum);
        }
    }

    /// The queue whose turn it is, with the length of its head in bytes; `None` if all queues are
    /// empty.
    #[inline(always)]
    pub(crate) fn next<S, T: Copy>(&mut self, flows: &mut Flows<S, T>) -> Option<(FlowId, u32)>
    where
        S: AsMut<Place> + AsMut<DeficitTurn>,
    {
        loop {
            let (is_new, f) = match (self.new.first(), self.old.first()) {
                (Some(f), _) => (true, f),
                (None, Some(f)) => (false, f),
                (None, None) => return None,
            };
            let head = flows.head(f);
            let turn: &mut DeficitTurn = flows.state_mut(f).as_mut();
            if turn.deficit.is_positive() {
                if let Some(bytes) = head {
                    return Some((f, bytes));
                }
                if !is_new {
                    self.old.leave(flows);
                    continue;
                }
            } else {
                turn.deficit.add(self.quantum);
            }
            if is_new {
                self.new.leave(flows);
                self.old.join(flows, f);
            } else {
                self.old.rotate(flows);
            }
        }
    }
}
