//! Sending: outputs of the engine, and deliveries when they are due.

use super::capture::{OriginalBits, record};
use super::{Forwarder, Overflow, backpressure, gone, lose};
use crate::backend::port::is_gone;
use crate::backend::tap::Tap;
use falaj_engine::message::Corrupt;
use falaj_engine::{DropReason, Output, PipeId, ecn};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::capture::Verdict;
use std::io;

impl Forwarder {
    /// Processes the outputs of the engine.
    pub(super) fn note(&mut self) {
        let rules = self.network.has_rules();
        // The bits that were flipped in the packet of the next `Emit`.
        let mut turned: Vec<Corrupt> = Vec::new();
        for output in self.out.drain(..) {
            match output {
                Output::Emit(emit) => {
                    self.guarantees.emitted(&emit);
                    self.occupancy_log.emitted(&emit);
                    let packet = self.units.decided(emit.handle);
                    self.releases.emitted(packet, &emit);
                    if let Some(recorder) = &mut self.recorder {
                        let verdict =
                            Verdict::Sent { start: emit.start, end: emit.end, due: emit.due };
                        let before =
                            OriginalBits { turned: &turned, ecn: self.marked.remove(&emit.handle) };
                        record(
                            recorder,
                            &self.units,
                            packet,
                            verdict,
                            (rules, before),
                            &mut self.cut,
                        );
                    }
                    turned.clear();
                }
                Output::Copy(emit) => match self.units.copy(emit.handle, &mut self.cut) {
                    Some(packet) => self.releases.emitted(packet, &emit),
                    None => self.losses.no_memory += 1,
                },
                Output::Drop(dropped) => {
                    if matches!(self.overflow, Overflow::Wanted)
                        && dropped.why == DropReason::QueueFull
                    {
                        let called = self.order.iter().position(|pipe| *pipe == dropped.pipe);
                        self.overflow = called.map_or(Overflow::Wanted, |pipe| {
                            Overflow::Happened(PipeId(pipe as u32), dropped.flow)
                        });
                    }
                    let packet = self.units.decided(dropped.handle);
                    self.releases.dropped(packet.unit, &self.units);
                    if let Some(recorder) = &mut self.recorder {
                        let verdict = Verdict::Dropped(dropped.why);
                        let before =
                            OriginalBits { turned: &[], ecn: self.marked.remove(&dropped.handle) };
                        record(
                            recorder,
                            &self.units,
                            packet,
                            verdict,
                            (rules, before),
                            &mut self.cut,
                        );
                    }
                    lose(&mut self.units, &mut self.ports, packet.unit);
                }
                Output::Corrupt(corrupt) => {
                    // The bit is flipped in this packet alone.
                    let Some(unit) = self.units.separate(corrupt.handle, &mut self.cut) else {
                        self.losses.no_memory += 1;
                        continue;
                    };
                    self.releases.dropped(unit, &self.units);
                    let (port, bytes) = self.units.bytes_of(corrupt.handle);
                    self.ports[port].port.corrupt(bytes, &corrupt);
                    if self.recorder.is_some() {
                        turned.push(corrupt);
                    }
                }
                Output::Mark(mark) => {
                    let Some(unit) = self.units.separate(mark.handle, &mut self.cut) else {
                        self.losses.no_memory += 1;
                        continue;
                    };
                    self.releases.dropped(unit, &self.units);
                    let (port, bytes) = self.units.bytes_of(mark.handle);
                    if self.recorder.is_some() {
                        let frame = bytes.get(Tap::VNET_HEADER..).unwrap_or_default();
                        self.marked.entry(mark.handle).or_insert_with(|| ecn::of_ethernet(frame));
                    }
                    self.ports[port].port.mark(bytes, mark.ecn);
                }
                Output::Retimed(retimed) => {
                    self.guarantees.retimed(&retimed);
                    self.occupancy_log.retimed(&retimed);
                    if !self.releases.retimed(&retimed) {
                        // No burst has the packet: it continues to the next link.
                        let [old, new] =
                            [retimed.old_end, retimed.end].map(|end| end - retimed.arrival);
                        self.flows[retimed.pipe.0 as usize][retimed.flow.index()]
                            .delay
                            .correct(old, new);
                    }
                }
                // This output is used within the network, if another link follows.
                Output::Early(_) => {}
            }
        }
        for emit in self.network.passed() {
            self.flows[emit.pipe.0 as usize][emit.flow.index()]
                .delay
                .record(emit.end - emit.arrival);
        }
    }

    /// Delivers everything due by `now`; returns true if there was anything.
    pub(super) fn release(&mut self, now: Time) -> io::Result<bool> {
        let mut any = false;
        while let Some(index) = self.due(now) {
            any = true;
            if !self.joins(index) {
                self.hand_over()?;
                self.together.push(index);
            }
        }
        self.hand_over()?;
        Ok(any)
    }

    /// The next burst that is due by `now`.
    fn due(&mut self, now: Time) -> Option<u32> {
        let network = &self.network;
        self.releases.due(now, &self.units, |burst| {
            network.earliest_due(PipeId(burst.pipe), burst.bytes, now)
        })
    }

    /// Adds a burst to those that are about to be delivered, if all of them can leave as one unit.
    /// Returns true if the burst was added.
    fn joins(&mut self, index: u32) -> bool {
        let Some(&first) = self.together.first() else { return false };
        let [first, this] = [first, index].map(|index| self.releases.burst(index).unit);
        let to = self.ports[self.units.port(this)].leaves_at;
        if self.options.slack == Span::ZERO
            || self.ports[self.units.port(first)].leaves_at != to
            || !self.ports[to].port.takes_trains()
        {
            return false;
        }
        let (Some((_, first)), Some((_, this))) =
            (self.units.single(first), self.units.single(this))
        else {
            return false;
        };
        let joins = (self.together.len() > 1 || self.join.begin(first)) && self.join.add(this);
        if joins {
            self.together.push(index);
        }
        joins
    }

    /// Delivers the bursts that leave together, or keeps them if there is no room.
    fn hand_over(&mut self) -> io::Result<()> {
        let Some(&first) = self.together.first() else { return Ok(()) };
        let to = self.ports[self.units.port(self.releases.burst(first).unit)].leaves_at;
        // If earlier bursts still wait for this port, the new ones wait behind them.
        let wanting = if self.is_full(to) { None } else { Some(self.transmit()?) };
        match wanting {
            Some(None) => {}
            None => self.keep(to),
            Some(Some(wanting)) => {
                self.keep(to);
                self.has_no_room(to, &wanting);
            }
        }
        Ok(())
    }

    /// Delivers the bursts that leave together; returns the error if there is no room for them now.
    pub(super) fn transmit(&mut self) -> io::Result<Option<io::Error>> {
        let Some(&first) = self.together.first() else { return Ok(None) };
        let burst = self.releases.burst(first);
        let to = self.ports[self.units.port(burst.unit)].leaves_at;
        let port = &mut self.ports[to].port;
        let unit = match self.together.len() {
            1 => self.units.part(burst.unit, burst.from, burst.to(), &mut self.cut),
            _ => self.join.unit(),
        };
        let handed_over = self.clock.now();
        let (taken, result) = match port.transmit(unit) {
            Err(e) if is_gone(&e) => (false, Err(gone(port.as_ref(), &e))),
            Err(e) if self.backlogs[to].is_some() && backpressure::is_wanting(&e) => {
                return Ok(Some(e));
            }
            taken => (taken.unwrap_or(false), Ok(None)),
        };
        for index in self.together.drain(..) {
            let burst = self.releases.burst(index);
            let packets = burst.packets.len() as u32;
            if taken {
                let flow = &mut self.flows[burst.pipe as usize][burst.flow as usize];
                // Time in which the burst's port had no room does not count as lateness.
                let late = burst.refused.unwrap_or(handed_over).since(burst.at);
                flow.release_error.record_n(late, packets.into());
                self.latest = self.latest.max(late);
                if let Some(before) = flow.last_late.replace(late) {
                    flow.gap_error.record(Span(late.0.abs_diff(before.0)));
                }
                for alike in burst.packets.chunk_by(|a, b| a == b) {
                    let times = alike.len() as u64;
                    flow.delay.record_n(alike[0].delay, times);
                    flow.held.record_n(burst.at.since(alike[0].due), times);
                    let whose = (PipeId(burst.pipe), FlowId(burst.flow));
                    // Here the time for which packets were held for other packets of their unit
                    // counts as lateness.
                    let late = handed_over.since(alike[0].by);
                    self.guarantees.handed_over(whose, alike[0].delay, late, times, handed_over);
                }
            } else {
                self.losses.not_taken += u64::from(packets);
                let flow = &mut self.flows[burst.pipe as usize][burst.flow as usize];
                flow.not_taken.packets += u64::from(packets);
                flow.not_taken.bytes += burst.length();
            }
            self.units.gone(burst.unit, packets);
            self.releases.done(index);
        }
        result
    }
}
