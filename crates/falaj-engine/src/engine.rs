//! The machine: units in, units out, and the only calendar of pipe events.

use crate::change::{ChangeError, PipeChange, Prepared, Succession};
use crate::masks::{MaskIds, MaskStats};
use crate::message::{Output, PipeId, Unit};
use crate::pipe::build::{BuildFor, build};
use crate::pipe::draining_links::take_over;
use crate::pipe::{Counters, DeferredDrops, Pipe, PipeLinks, PipeProperties, PipeSpec, PipeState};
use falaj_sched::collections::calendar::Calendar;
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::guarantee::Promise;
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::time::{Span, Time};
use std::any::Any;

/// The machine.
pub struct Engine {
    pipes: Vec<Box<dyn Pipe>>,
    /// By pipe, it has ended.
    ended: Vec<bool>,
    /// Of those that have ended and whose place is another's.
    counters_of_ended: Counters,
    calendar: Calendar,
    /// Pipes that their devices pace.
    devices: Vec<usize>,
    /// Of no pipe is what is due next sooner after the event that decides it.
    least_delay: Span,
    /// Of pipes that others took over from.
    deferred_drops: Vec<DeferredDrops>,
}

impl Engine {
    /// Builds its pipes; [`PipeId`]s follow their order. An error names the pipe.
    pub fn new(pipes: &[PipeSpec]) -> Result<Engine, (PipeId, ConfigErrors)> {
        let build = |(i, spec)| {
            let id = PipeId(i as u32);
            build(id, spec, BuildFor::Any)
                .map(PipeLinks::into_pipe)
                .map_err(|refused| (id, refused))
        };
        let pipes = pipes.iter().enumerate().map(build).collect::<Result<Vec<_>, _>>()?;
        let calendar = Calendar::new(pipes.len());
        let ended = vec![false; pipes.len()];
        let counters_of_ended = Counters::default();
        let (least_delay, devices, deferred_drops) = (Span::ZERO, Vec::new(), Vec::new());
        let mut engine = Engine {
            pipes,
            ended,
            counters_of_ended,
            calendar,
            devices,
            least_delay,
            deferred_drops,
        };
        engine.measure();
        Ok(engine)
    }

    fn measure(&mut self) {
        self.least_delay =
            self.pipes.iter().map(|pipe| pipe.properties().least_delay).min().unwrap_or_default();
        self.devices = (0..self.pipes.len())
            .filter(|&i| self.pipes[i].properties().device_backlog.is_some())
            .collect();
    }

    /// A unit arrives at a pipe. Runs all that is due until `now` first, so
    /// that it makes no difference when the engine was polled. `now` never
    /// goes back.
    #[inline]
    pub fn input(&mut self, pipe: PipeId, unit: Unit, now: Time, out: &mut Vec<Output>) {
        self.input_of(pipe, unit, &MaskIds::NONE, now, out);
    }

    /// The same for a unit of which these masks' ids are known: it goes to the queue
    /// and the link that they have, or that are made for them.
    #[inline]
    pub fn input_of(
        &mut self,
        pipe: PipeId,
        unit: Unit,
        ids: &MaskIds,
        now: Time,
        out: &mut Vec<Output>,
    ) {
        self.poll(now, out);
        let i = pipe.0 as usize;
        let due = self.pipes[i].arrive(unit, ids, now, out);
        self.calendar.set(i, due);
    }

    /// A unit of which more is known than its length arrives; see [`input`](Engine::input).
    /// Policies of queues look at that, and regulators of delay-jitter:
    /// [`wants_labels`](Engine::wants_labels).
    pub fn input_labelled(
        &mut self,
        pipe: PipeId,
        unit: Unit,
        ids: &MaskIds,
        label: Label,
        now: Time,
        out: &mut Vec<Output>,
    ) {
        self.poll(now, out);
        self.pipes[pipe.0 as usize].announce(label);
        self.input_of(pipe, unit, ids, now, out);
    }

    /// Does this pipe look at more than the length of units?
    pub fn wants_labels(&self, pipe: PipeId) -> bool {
        self.pipes[pipe.0 as usize].properties().wants_labels
    }

    /// Does this pipe drop packets that found room, or for which there is room?
    pub fn drops_early(&self, pipe: PipeId) -> bool {
        self.pipes[pipe.0 as usize].properties().drops_early
    }

    /// Runs all that is due until `now`, each event at its own instant.
    #[inline(always)]
    pub fn poll(&mut self, now: Time, out: &mut Vec<Output>) {
        while let Some((i, due)) = self.calendar.first() {
            if due > now {
                return;
            }
            let due = self.pipes[i].run_event(due, out);
            self.calendar.set(i, due);
        }
    }

    /// The port behind a pipe that its device paces has room for so many bytes at `now`, after all
    /// that is due by then; with none it takes nothing until it is told otherwise, and nobody
    /// is decided on. Before anything is said it has room for the pipe's backlog, and goes on
    /// having it at the link's rate. `now` never goes back.
    pub fn port_room(&mut self, pipe: PipeId, room: u32, now: Time, out: &mut Vec<Output>) {
        self.poll(now, out);
        let i = pipe.0 as usize;
        let due = self.pipes[i].port_room(room, now, out);
        self.calendar.set(i, due);
    }

    /// Checks a change of a pipe: whatever of its spec is to be another.
    /// Flows keep their index, and none may go; new ones stand behind them.
    /// All that can fail or takes long happens here, and nothing changes yet.
    pub fn prepare(&self, pipe: PipeId, spec: &PipeSpec) -> Result<Prepared, ChangeError> {
        let prepared =
            Prepared::new(&[PipeChange::new(pipe, spec.clone())]).map_err(|(_, unfit)| unfit)?;
        prepared.parts.iter().try_for_each(|part| self.fits(part))?;
        Ok(prepared)
    }

    /// May this part of a change be made now?
    fn fits(&self, part: &Succession) -> Result<(), ChangeError> {
        let Succession { pipe, successor, handover } = part;
        let now = self
            .pipes
            .get(pipe.0 as usize)
            .filter(|_| !self.ended[pipe.0 as usize])
            .ok_or(ChangeError::NoSuchPipe)?;
        let &PipeProperties { flows, largest, .. } = now.properties();
        let then = successor.as_pipe().properties();
        if handover.flows.is_empty() && then.flows < flows {
            return Err(ChangeError::Fewer { flows });
        }
        if !handover.flows.is_empty() && handover.flows.len() != flows {
            return Err(ChangeError::NoSuchFlow { flows });
        }
        if then.largest < largest && !handover.drop {
            let largest = now.largest_waiting();
            if then.largest < largest {
                return Err(ChangeError::Smaller { largest });
            }
        }
        Ok(())
    }

    /// May these pipes begin and end now?
    fn may_begin_and_end(&self, change: &Prepared) -> Result<(), ChangeError> {
        let mut behind = self.pipes.len();
        for pipe in change.begins() {
            match pipe.0 as usize {
                i if i == behind => behind += 1,
                i if i < self.pipes.len() && self.ended[i] && self.is_empty(pipe) => {}
                _ => return Err(ChangeError::Occupied),
            }
        }
        let there = |pipe: &PipeId| self.ended.get(pipe.0 as usize) == Some(&false);
        if change.end.iter().all(there) { Ok(()) } else { Err(ChangeError::NoSuchPipe) }
    }

    /// All that happened in a pipe.
    fn whole(&self, pipe: PipeId) -> Counters {
        let pipe = &self.pipes[pipe.0 as usize];
        let mut sum = pipe.removed_flow_counters();
        (0..pipe.properties().flows as u32).for_each(|flow| sum.add(&pipe.counters(FlowId(flow))));
        sum
    }

    /// Does no packet wait in a pipe, and is none on its wire?
    pub fn is_empty(&self, pipe: PipeId) -> bool {
        self.whole(pipe).backlog == 0
    }

    /// Has this pipe ended?
    pub fn has_ended(&self, pipe: PipeId) -> bool {
        self.ended.get(pipe.0 as usize) == Some(&true)
    }

    /// What happened in all pipes that have ended; what is their backlog goes still.
    pub fn ended_pipe_counters(&self) -> Counters {
        let mut sum = self.counters_of_ended;
        let ended = (0..self.pipes.len() as u32).map(PipeId).filter(|pipe| self.has_ended(*pipe));
        ended.for_each(|pipe| sum.add(&self.whole(pipe)));
        sum
    }

    /// Makes a prepared change at `now`, after all that is due by then: of all its pipes, or of
    /// none. No packet is lost that may not be dropped, the rest of those on wires goes at the new
    /// rates ([`Output::Retimed`]), what has left is due when it was to be, and what flows owe or
    /// are owed stays as long as they and the discipline do.
    ///
    /// It is refused, and nothing changes, where another change came between that
    /// added flows: it would take them out again.
    pub fn apply(
        &mut self,
        change: Prepared,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Result<(), ChangeError> {
        self.apply_with_labels(change, &|_| Label::default(), now, out)
    }

    /// The same where it is known what packets that wait are like: those that come to another
    /// discipline come with their labels.
    pub fn apply_with_labels(
        &mut self,
        change: Prepared,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Result<(), ChangeError> {
        self.poll(now, out);
        self.deferred_drops.clear();
        change.parts.iter().try_for_each(|part| self.fits(part))?;
        self.may_begin_and_end(&change)?;
        let old = std::mem::take(&mut self.pipes);
        let mut parts: Vec<Option<Succession>> = (0..old.len()).map(|_| None).collect();
        change.parts.into_iter().for_each(|part| {
            let i = part.pipe.0 as usize;
            parts[i] = Some(part);
        });
        for (i, (old, part)) in old.into_iter().zip(parts).enumerate() {
            let Some(Succession { successor, handover, .. }) = part else {
                self.pipes.push(old);
                continue;
            };
            let (pipe, due, drops) =
                take_over(successor, (old, self.calendar.due(i)), &handover, known, now, out);
            self.deferred_drops.extend(drops);
            self.pipes.push(pipe);
            self.calendar.set(i, due);
        }
        for (pipe, fresh) in change.begin {
            let i = pipe.0 as usize;
            if i < self.pipes.len() {
                self.counters_of_ended.add(&self.whole(pipe));
                (self.pipes[i], self.ended[i]) = (fresh.into_pipe(), false);
            } else {
                self.pipes.push(fresh.into_pipe());
                self.ended.push(false);
                self.calendar.grow(self.pipes.len());
            }
            self.calendar.set(i, Time::NEVER);
        }
        change.end.iter().for_each(|pipe| self.ended[pipe.0 as usize] = true);
        self.measure();
        Ok(())
    }

    /// What the last change has left of what was there before it: nobody needs it, and of a hundred
    /// thousand flows it takes a while to be dropped. Whoever is in a hurry has another thread
    /// do that.
    pub fn take_deferred_drops(&mut self) -> Vec<Box<dyn Any + Send>> {
        std::mem::take(&mut self.deferred_drops)
    }

    /// The state by which a pipe goes on in another process; `None` where a mask makes many of it.
    pub fn state(&self, pipe: PipeId) -> Option<PipeState> {
        self.pipes.get(pipe.0 as usize)?.state()
    }

    /// A pipe that has had no packets goes on from where one of the same spec ended in another
    /// process. Returns false if the state is not of such a pipe; nothing has changed then.
    pub fn resume(
        &mut self,
        pipe: PipeId,
        state: PipeState,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> bool {
        let i = pipe.0 as usize;
        let due = self.pipes.get_mut(i).and_then(|own| own.resume(state, known, now, out));
        if let Some(due) = due {
            self.calendar.set(i, due);
        }
        due.is_some()
    }

    /// What happened to the flows of a pipe that are gone.
    pub fn removed_flow_counters(&self, pipe: PipeId) -> Counters {
        self.pipes[pipe.0 as usize].removed_flow_counters()
    }

    /// May another flow start afresh in the place of this one? It has no
    /// packets, and owes or is owed nothing.
    pub fn is_reusable(&mut self, pipe: PipeId, flow: FlowId, now: Time) -> bool {
        self.pipes[pipe.0 as usize].is_reusable(flow, now)
    }

    /// How many flows each pipe has.
    pub fn flows(&self) -> Vec<usize> {
        self.pipes.iter().map(|pipe| pipe.properties().flows).collect()
    }

    /// When the next event is due; [`Time::NEVER`] if nothing happens without input.
    pub fn next_event(&self) -> Time {
        self.calendar.first().map_or(Time::NEVER, |(_, due)| due)
    }

    /// No unit that is still to be decided is due before this, unless one
    /// arrives: whoever hands units over may sleep until then, and events that
    /// only move a phase on wake nobody. What devices are to be handed ahead of
    /// time is apart: [`next_refill`](Engine::next_refill).
    pub fn next_due(&self) -> Time {
        self.calendar.least(self.least_delay, |i| self.pipes[i].next_due())
    }

    /// When the next device is to be handed more that was full; [`Time::NEVER`] if none is. That is
    /// no matter of nanoseconds, as half of what it holds is left then:
    /// [`next_due`](Engine::next_due) leaves it out.
    pub fn next_refill(&self) -> Time {
        self.devices
            .iter()
            .map(|&i| self.pipes[i].device_times().refill)
            .fold(Time::NEVER, Time::min)
    }

    /// Until then all devices that send have enough to send, whatever comes: who sleeps need not
    /// look sooner. [`Time::NEVER`] where none sends, and the past where what comes may have to
    /// go at once.
    pub fn supplied_until(&self) -> Time {
        self.devices
            .iter()
            .map(|&i| self.pipes[i].device_times().supplied_until)
            .fold(Time::NEVER, Time::min)
    }

    /// How many bytes the device behind this pipe holds at most; `None` where falaj paces the link.
    pub fn backlog(&self, pipe: PipeId) -> Option<u32> {
        self.pipes[pipe.0 as usize].properties().device_backlog
    }

    /// Would a packet of so many bytes find room in its queue now? Whoever is
    /// asked to wait for that asks again after the next event.
    pub fn has_room(&self, pipe: PipeId, flow: FlowId, ids: &MaskIds, bytes: u32) -> bool {
        self.pipes[pipe.0 as usize].has_room(flow, ids, bytes)
    }

    /// A packet of so many bytes that this pipe has not sent yet by `now` is due
    /// no earlier than this: it goes next, and the link is free as soon as it can be.
    pub fn earliest_due(&self, pipe: PipeId, bytes: u32, now: Time) -> Time {
        self.pipes[pipe.0 as usize].earliest_due(bytes, now)
    }

    /// What happened to a flow so far.
    pub fn counters(&self, pipe: PipeId, flow: FlowId) -> Counters {
        self.pipes[pipe.0 as usize].counters(flow)
    }

    /// What is known of the queues that a flow's mask made, or of the links that the pipe's
    /// made (`None`), so many of the busiest by name; `None` where there is no such mask.
    /// Of a flow of a link that is many it is of all links together, and ids have their link's
    /// before them.
    pub fn mask_stats(
        &self,
        pipe: PipeId,
        flow: Option<FlowId>,
        busiest: usize,
    ) -> Option<MaskStats> {
        self.pipes[pipe.0 as usize].mask_stats(flow, busiest)
    }

    /// One part of the same, so that no packet waits for the whole: about `steps` ids, from the
    /// place `from` on (0: the beginning). It is added to `all`, which has the parts before.
    /// Returns where the next part begins, if there is one.
    pub fn mask_stats_part(
        &self,
        pipe: PipeId,
        (flow, busiest): (Option<FlowId>, usize),
        (from, steps): (u64, usize),
        all: &mut Option<MaskStats>,
    ) -> Option<u64> {
        self.pipes[pipe.0 as usize].mask_stats_part(flow, busiest, (from, steps), all)
    }

    /// Returns true if ids of this flow have queues of their own.
    pub fn is_masked(&self, pipe: PipeId, flow: FlowId) -> bool {
        self.pipes[pipe.0 as usize].properties().masks.of(flow.index()).is_some()
    }

    /// One part of [`counters`](Engine::counters), which are a sum over all queues of a flow with a
    /// mask: about `steps` queues, from the place `from` on (0: the beginning), are added to `sum`.
    /// Returns where the next part begins, if there is one.
    pub fn counters_part(
        &self,
        (pipe, flow): (PipeId, FlowId),
        (from, steps): (u64, usize),
        sum: &mut Counters,
    ) -> Option<u64> {
        self.pipes[pipe.0 as usize].counters_part(flow, (from, steps), sum)
    }

    /// Ids have to share what a mask of this pipe makes, as there are more than it may: the mask of
    /// this flow, or that of the link.
    pub fn overflowing_mask(&self, pipe: PipeId) -> Option<Option<FlowId>> {
        self.pipes[pipe.0 as usize].overflowing_mask()
    }

    /// How disciplines of libraries broke their contract in this pipe; those that others have taken
    /// over from too.
    pub fn breaches(&self, pipe: PipeId) -> Vec<Breach> {
        let mut out = Vec::new();
        self.pipes[pipe.0 as usize].breaches(&mut out);
        out
    }

    /// What a flow is promised.
    pub fn promise(&self, pipe: PipeId, flow: FlowId) -> Result<Promise, NoPromise> {
        self.pipes[pipe.0 as usize].promise(flow)
    }
}
