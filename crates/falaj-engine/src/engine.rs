//! The engine: it takes units, returns them with the times at which they are due, and owns the only
//! calendar of pipe events.

use crate::change::{ChangeError, PipeChange, Prepared, Succession};
use crate::masks::{MaskIds, MaskStats};
use crate::message::{Output, PipeId, Unit};
use crate::pipe::build::{BuildFor, build};
use crate::pipe::draining_links::take_over;
use crate::pipe::{Counters, DeferredDrops, Pipe, PipeLinks, PipeProperties, PipeSpec, PipeState};
use falaj_sched::collections::calendar::Calendar;
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::guarantee::Guarantee;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::time::{Span, Time};
use std::any::Any;

/// A set of pipes and the calendar of their events.
pub struct Engine {
    pipes: Vec<Box<dyn Pipe>>,
    /// For each pipe, true if it has ended.
    ended: Vec<bool>,
    /// Counters of ended pipes whose place another pipe has taken.
    counters_of_ended: Counters,
    calendar: Calendar,
    /// Pipes that are paced by their devices.
    devices: Vec<usize>,
    /// Lower bound, over all pipes, on the time from a scheduling decision to the delivery it
    /// causes.
    least_delay: Span,
    /// State of replaced pipes that is still to be dropped.
    deferred_drops: Vec<DeferredDrops>,
}

impl Engine {
    /// Builds the pipes; [`PipeId`]s follow their order. An error names the pipe.
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

    /// Hands a unit to a pipe at `now`. First runs all events due until `now`, so that it makes no
    /// difference when the engine was polled. `now` never goes back.
    #[inline]
    pub fn input(&mut self, pipe: PipeId, unit: Unit, now: Time, out: &mut Vec<Output>) {
        self.input_of(pipe, unit, &MaskIds::NONE, now, out);
    }

    /// [`input`](Engine::input) for a unit whose mask ids are known: it goes to the queue and the
    /// link of these ids, which are created if they do not exist.
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

    /// [`input`](Engine::input) for a unit with a label, which queue policies and regulators of
    /// delay-jitter read; see [`wants_labels`](Engine::wants_labels).
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

    /// Returns true if this pipe reads the labels of units, and not just their lengths.
    pub fn wants_labels(&self, pipe: PipeId) -> bool {
        self.pipes[pipe.0 as usize].properties().wants_labels
    }

    /// Returns true if this pipe may drop packets that are queued already, or arriving packets for
    /// which there is room.
    pub fn drops_early(&self, pipe: PipeId) -> bool {
        self.pipes[pipe.0 as usize].properties().drops_early
    }

    /// Runs all events due until `now`, each at its own instant.
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

    /// Reports that the port behind a device-paced pipe has room for `room` bytes at `now`. First
    /// runs all events due by then. With no room the port takes nothing until a later report, and
    /// the scheduler decides nothing. Before the first report the port is assumed to have room for
    /// the pipe's backlog, and to drain it at the link's rate. `now` never goes back.
    pub fn port_room(&mut self, pipe: PipeId, room: u32, now: Time, out: &mut Vec<Output>) {
        self.poll(now, out);
        let i = pipe.0 as usize;
        let due = self.pipes[i].port_room(room, now, out);
        self.calendar.set(i, due);
    }

    /// Checks a change of a pipe to this spec, any part of which may differ. Flows keep their
    /// index, and none may be removed; new flows come after them. All work that can fail or takes
    /// long happens here, and nothing changes yet.
    pub fn prepare(&self, pipe: PipeId, spec: &PipeSpec) -> Result<Prepared, ChangeError> {
        let prepared =
            Prepared::new(&[PipeChange::new(pipe, spec.clone())]).map_err(|(_, unfit)| unfit)?;
        prepared.parts.iter().try_for_each(|part| self.fits(part))?;
        Ok(prepared)
    }

    /// Checks that this part of a change may be made now.
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

    /// Checks that the pipes of this change may begin and end now.
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

    /// Counters over all flows of a pipe, removed ones included.
    fn whole(&self, pipe: PipeId) -> Counters {
        let pipe = &self.pipes[pipe.0 as usize];
        let mut sum = pipe.removed_flow_counters();
        (0..pipe.properties().flows as u32).for_each(|flow| sum.add(&pipe.counters(FlowId(flow))));
        sum
    }

    /// Returns true if no packet is queued in a pipe, and none is on its wire.
    pub fn is_empty(&self, pipe: PipeId) -> bool {
        self.whole(pipe).backlog == 0
    }

    /// Returns true if this pipe has ended.
    pub fn has_ended(&self, pipe: PipeId) -> bool {
        self.ended.get(pipe.0 as usize) == Some(&true)
    }

    /// Counters over all pipes that have ended; their backlog is still being sent.
    pub fn ended_pipe_counters(&self) -> Counters {
        let mut sum = self.counters_of_ended;
        let ended = (0..self.pipes.len() as u32).map(PipeId).filter(|pipe| self.has_ended(*pipe));
        ended.for_each(|pipe| sum.add(&self.whole(pipe)));
        sum
    }

    /// Applies a prepared change at `now`, after all events due by then: to all its pipes, or to
    /// none. Only packets that may be dropped are lost. The remaining bits of packets on wires are
    /// sent at the new rates ([`Output::Retimed`]), and packets that have left keep their due
    /// times. Deficits and credits of flows stay as long as the flows and the discipline do.
    ///
    /// If the change no longer fits, it is refused, and nothing changes. For example, another
    /// change may have added flows since this change was prepared, and this change would remove
    /// them.
    pub fn apply(
        &mut self,
        change: Prepared,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Result<(), ChangeError> {
        self.apply_with_labels(change, &|_| Label::default(), now, out)
    }

    /// [`apply`](Engine::apply) with the labels of queued packets, which are needed for packets
    /// that move to another discipline.
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

    /// Returns the state that the last change has replaced. Nothing uses it any more, but with a
    /// hundred thousand flows it takes a while to free; a thread with deadlines lets another thread
    /// free it.
    pub fn take_deferred_drops(&mut self) -> Vec<Box<dyn Any + Send>> {
        std::mem::take(&mut self.deferred_drops)
    }

    /// The state from which a pipe resumes in another process; `None` for a pipe with masks, which
    /// has a state for each id.
    pub fn state(&self, pipe: PipeId) -> Option<PipeState> {
        self.pipes.get(pipe.0 as usize)?.state()
    }

    /// Resumes, in a pipe that has had no packets, the state of a pipe of the same spec that ran in
    /// another process. Returns false if the state does not fit this pipe; nothing has changed
    /// then.
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

    /// Counters of the removed flows of a pipe.
    pub fn removed_flow_counters(&self, pipe: PipeId) -> Counters {
        self.pipes[pipe.0 as usize].removed_flow_counters()
    }

    /// Returns true if another flow may start in the place of this one: it has no packets, no
    /// deficit and no credit.
    pub fn is_reusable(&mut self, pipe: PipeId, flow: FlowId, now: Time) -> bool {
        self.pipes[pipe.0 as usize].is_reusable(flow, now)
    }

    /// The number of flows of each pipe.
    pub fn flows(&self) -> Vec<usize> {
        self.pipes.iter().map(|pipe| pipe.properties().flows).collect()
    }

    /// Time of the next event; [`Time::NEVER`] if nothing happens without input.
    pub fn next_event(&self) -> Time {
        self.calendar.first().map_or(Time::NEVER, |(_, due)| due)
    }

    /// Lower bound on the due time of the units whose departure is not decided yet, if no unit
    /// arrives: a driver that delivers units may sleep until then. An event that only begins
    /// another phase, as in `virtual-links`, needs no wakeup. Packets handed to devices ahead of
    /// time are not included; see [`next_refill`](Engine::next_refill).
    pub fn next_due(&self) -> Time {
        self.calendar.least(self.least_delay, |i| self.pipes[i].next_due())
    }

    /// Time at which the next device that was full needs more packets, or [`Time::NEVER`]. The time
    /// need not be met exactly, because half of the device's backlog is left then;
    /// [`next_due`](Engine::next_due) does not include it.
    pub fn next_refill(&self) -> Time {
        self.devices
            .iter()
            .map(|&i| self.pipes[i].device_times().refill)
            .fold(Time::NEVER, Time::min)
    }

    /// Time until which every sending device has enough packets, whatever arrives: a sleeping
    /// driver need not check earlier. [`Time::NEVER`] if no device sends, and a past time if an
    /// arriving packet may have to be sent at once.
    pub fn supplied_until(&self) -> Time {
        self.devices
            .iter()
            .map(|&i| self.pipes[i].device_times().supplied_until)
            .fold(Time::NEVER, Time::min)
    }

    /// The largest number of bytes that the device behind this pipe holds; `None` if falaj paces
    /// the link.
    pub fn backlog(&self, pipe: PipeId) -> Option<u32> {
        self.pipes[pipe.0 as usize].properties().device_backlog
    }

    /// Returns true if a packet of `bytes` bytes would find room in its queue now. A driver that
    /// waits for room asks again after the next event.
    pub fn has_room(&self, pipe: PipeId, flow: FlowId, ids: &MaskIds, bytes: u32) -> bool {
        self.pipes[pipe.0 as usize].has_room(flow, ids, bytes)
    }

    /// The earliest due time of a packet of `bytes` bytes that this pipe has not sent by `now`, if
    /// it goes next and the link becomes free as early as it can.
    pub fn earliest_due(&self, pipe: PipeId, bytes: u32, now: Time) -> Time {
        self.pipes[pipe.0 as usize].earliest_due(bytes, now)
    }

    /// Counters of a flow.
    pub fn counters(&self, pipe: PipeId, flow: FlowId) -> Counters {
        self.pipes[pipe.0 as usize].counters(flow)
    }

    /// Statistics of the queues that a flow's mask has created, or (`flow` is `None`) of the links
    /// that the pipe's mask has created. At most `busiest` ids, the busiest ones, are listed by
    /// name. Returns `None` if there is no such mask. For a flow of a masked link the statistics
    /// cover all links, and each id is preceded by that of its link.
    pub fn mask_stats(
        &self,
        pipe: PipeId,
        flow: Option<FlowId>,
        busiest: usize,
    ) -> Option<MaskStats> {
        self.pipes[pipe.0 as usize].mask_stats(flow, busiest)
    }

    /// Computes one part of [`mask_stats`](Engine::mask_stats), so that no packet waits for the
    /// whole: about `steps` ids, from place `from` on (0: the beginning). They are added to `all`,
    /// which has the parts before. Returns the place where the next part begins, if there is one.
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
    /// Returns the place where the next part begins, if there is one.
    pub fn counters_part(
        &self,
        (pipe, flow): (PipeId, FlowId),
        (from, steps): (u64, usize),
        sum: &mut Counters,
    ) -> Option<u64> {
        self.pipes[pipe.0 as usize].counters_part(flow, (from, steps), sum)
    }

    /// The mask of this pipe that has reached its maximum number of queues or links, so that
    /// further ids share them: a flow's mask, or (`None`) the link's.
    pub fn overflowing_mask(&self, pipe: PipeId) -> Option<Option<FlowId>> {
        self.pipes[pipe.0 as usize].overflowing_mask()
    }

    /// Breaches of contract by plugin disciplines in this pipe, including those of disciplines that
    /// were replaced.
    pub fn breaches(&self, pipe: PipeId) -> Vec<Breach> {
        let mut out = Vec::new();
        self.pipes[pipe.0 as usize].breaches(&mut out);
        out
    }

    /// The guarantee of a flow.
    pub fn guarantee(&self, pipe: PipeId, flow: FlowId) -> Result<Guarantee, NoGuarantee> {
        self.pipes[pipe.0 as usize].guarantee(flow)
    }
}
