//! What a link does to packets that are on it: it loses them, doubles them,
//! turns a bit, delays each by another time, lets some overtake.
//!
//! All of it stands behind the queue: a packet that is lost has used its time
//! on the link, a copy takes none, and neither queue nor discipline nor what
//! they promise knows of it. Profiles and full slots alone occupy the link: then
//! packets wait in the queue, up to its limit. Every draw has an address: of the packet, its flow
//! and its number among those that came for that flow; or, where what happens
//! depends on what happened before, its number among those that left.
//!
//! | module | what it holds |
//! |---|---|
//! | [`event`] | what happens to a packet with a probability, alone or in runs |
//! | [`loss`] | which packets are lost |
//! | [`jitter`], [`distribution`] | by how much the delay of each differs |
//! | `jitter_process` | how delays go on that keep packets in order |
//! | [`profile`] | air time beside the packets' own |
//! | [`reorder`] | which packets overtake |
//! | [`slots`] | delivery in slots |

pub mod distribution;
pub mod event;
pub mod jitter;
mod jitter_process;
pub mod loss;
pub mod profile;
pub mod reorder;
pub mod slots;

use crate::message::{Corrupt, DropReason, Dropped, Emit, Output};
use event::{Chances, Draw, EventState, RandomEvent};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use jitter::{Jitter, JitterState};
use loss::{Loss, LossState};
use profile::Profile;
use reorder::{Reorder, ReorderState};
use slots::{SlotState, Slots};
use std::collections::VecDeque;

/// What a link does to packets; nothing, by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Impairments {
    /// Which are lost.
    pub loss: Option<Loss>,
    /// Which come twice.
    pub duplicate: Option<RandomEvent>,
    /// Which have a bit turned.
    pub corrupt: Option<RandomEvent>,
    /// Which overtake.
    pub reorder: Option<Reorder>,
    /// By how much the delay of each differs.
    pub jitter: Option<Jitter>,
    /// When they are delivered.
    pub slots: Option<Slots>,
    /// How long each takes beyond its own transmission.
    pub profile: Option<Profile>,
}

impl Impairments {
    /// Does it do nothing?
    pub fn is_none(&self) -> bool {
        *self == Impairments::default()
    }

    /// The least and the greatest time that a packet is on its way, by the
    /// delay of the link and what is drawn; packets that wait for one before
    /// them or for a slot are later.
    pub fn delays(&self, delay: Span) -> (Span, Span) {
        let (least, most) =
            self.jitter.as_ref().map_or((delay, delay), |jitter| jitter.range(delay));
        let beyond =
            self.profile.as_ref().filter(|p| !p.occupies).map_or(Span::ZERO, Profile::most);
        (if self.reorder.is_some() { Span::ZERO } else { least }, most + beyond)
    }
}

/// What happened to the packets of a flow on the link.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ImpairmentCounters {
    pub(crate) lost: u64,
    pub(crate) lost_bytes: u64,
    pub(crate) duplicated: u64,
    pub(crate) corrupted: u64,
    pub(crate) reordered: u64,
}

impl ImpairmentCounters {
    pub(crate) fn add(&mut self, more: &ImpairmentCounters) {
        self.lost += more.lost;
        self.lost_bytes += more.lost_bytes;
        self.duplicated += more.duplicated;
        self.corrupted += more.corrupted;
        self.reordered += more.reordered;
    }
}

/// The draws of the impairments, each under a name of its own.
#[derive(Debug, Clone, Copy)]
enum RngStream {
    Loss,
    Duplicate,
    Corrupt,
    Bit,
    Reorder,
    Jitter,
    Slots,
    Profile,
    Course,
}

/// Impairments at work on the packets of a pipe.
pub(crate) struct Impairer {
    delay: Span,
    /// The longest that a packet is on its way.
    longest: Span,
    chances: Chances,
    loss: Option<LossState>,
    duplicate: Option<EventState>,
    corrupt: Option<EventState>,
    reorder: Option<ReorderState>,
    jitter: Option<JitterState>,
    slots: Option<SlotState>,
    profile: Option<Profile>,
    /// Of each flow, the numbers of the packets in its queue; of those behind
    /// the one on the wire, if it was impaired when that was sent.
    numbers: Vec<VecDeque<u64>>,
    /// Packets that left.
    left: u64,
    /// When the last of those that left is due.
    last: Time,
}

impl Impairer {
    pub(crate) fn new(what: &Impairments, delay: Span, chances: Chances, flows: usize) -> Impairer {
        Impairer {
            delay,
            longest: what.delays(delay).1,
            chances,
            loss: what.loss.clone().map(LossState::new),
            duplicate: what.duplicate.map(EventState::new),
            corrupt: what.corrupt.map(EventState::new),
            reorder: what.reorder.map(ReorderState::new),
            jitter: what.jitter.as_ref().map(|jitter| JitterState::new(jitter, delay)),
            slots: what.slots.map(SlotState::new),
            profile: what.profile.clone(),
            numbers: vec![VecDeque::new(); flows],
            left: 0,
            last: Time::ZERO,
        }
    }

    /// The packet `number` of its flow comes to the queue.
    pub(crate) fn comes(&mut self, flow: FlowId, number: u64) {
        self.numbers[flow.index()].push_back(number);
    }

    /// The last packet that came found no room.
    pub(crate) fn turned_away(&mut self, flow: FlowId) {
        self.numbers[flow.index()].pop_back();
    }

    /// The first packet of a flow left its queue in another way than by the link.
    pub(crate) fn thrown_away(&mut self, flow: FlowId) {
        self.numbers[flow.index()].pop_front();
    }

    /// Goes on from another, of as many flows or fewer; with its `numbers`, if what waits is the
    /// same.
    pub(crate) fn migrate_from(&mut self, old: Impairer, numbers: bool) {
        if numbers {
            for (own, old) in self.numbers.iter_mut().zip(old.numbers) {
                *own = old;
            }
        }
        (self.left, self.last) = (old.left, old.last);
    }

    /// A packet goes on the link, of so many that its flow has in the queue:
    /// what becomes of it. Returns until when it occupies the wire, and when the next one may go.
    pub(crate) fn pass(
        &mut self,
        mut emit: Emit,
        backlog: u64,
        harm: &mut ImpairmentCounters,
        out: &mut Vec<Output>,
    ) -> (Time, Time) {
        let numbers = &mut self.numbers[emit.flow.index()];
        while numbers.len() as u64 > backlog {
            numbers.pop_front();
        }
        let number = numbers.pop_front().unwrap_or(0);
        let draw = |of| Draw {
            chances: self.chances,
            of: of as u64,
            flow: emit.flow,
            number,
            left: self.left,
        };
        let (beyond, failed) =
            self.profile.as_ref().map_or((Span::ZERO, false), |p| p.of(draw(RngStream::Profile)));
        if self.profile.as_ref().is_some_and(|profile| profile.occupies) {
            emit.end += beyond;
        }
        if self.loss.as_mut().is_some_and(|loss| loss.loses(draw(RngStream::Loss))) || failed {
            self.left += 1;
            harm.lost += 1;
            harm.lost_bytes += u64::from(emit.bytes);
            let Emit { pipe, flow, handle, bytes, .. } = emit;
            out.push(Output::Drop(Dropped { pipe, flow, handle, bytes, why: DropReason::Lost }));
            return (emit.end, emit.end);
        }
        if self.corrupt.as_mut().is_some_and(|event| event.happens(draw(RngStream::Corrupt))) {
            harm.corrupted += 1;
            out.push(Output::Corrupt(Corrupt {
                handle: emit.handle,
                draw: draw(RngStream::Bit).independent(),
            }));
        }
        let twice =
            self.duplicate.as_mut().is_some_and(|event| event.happens(draw(RngStream::Duplicate)));
        let overtakes = self
            .reorder
            .as_mut()
            .is_some_and(|reorder| reorder.overtakes(draw(RngStream::Reorder)));
        let jittered = |jitter: &mut JitterState| {
            jitter.delay(emit.end, draw(RngStream::Jitter), draw(RngStream::Course))
        };
        let on_its_way = self.jitter.as_mut().map_or(self.delay, jittered);
        emit.due = if overtakes { emit.end } else { emit.end + on_its_way };
        if self.profile.as_ref().is_some_and(|profile| !profile.occupies) {
            emit.due += beyond;
        }
        if !overtakes && self.jitter.as_ref().is_none_or(|jitter| jitter.keeps_order) {
            emit.due = emit.due.max(self.last);
        }
        let mut free = emit.end;
        if let Some(slots) = &mut self.slots {
            let (due, full) = slots.enter(emit.due, emit.bytes, draw(RngStream::Slots));
            emit.due = due;
            // Nothing that leaves before that slot comes would be delivered any sooner: it waits in
            // the queue.
            if let Some(full) = full {
                free = free.max(Time(full.0.saturating_sub(self.longest.0)));
            }
        }
        if emit.due < self.last {
            harm.reordered += 1;
        } else {
            self.last = emit.due;
        }
        self.left += 1;
        if twice {
            harm.duplicated += 1;
            out.push(Output::Copy(emit));
        }
        out.push(Output::Emit(emit));
        (emit.end, free)
    }
}
