//! Receiving: turns of the ports, and the path of a unit's packets into their queues.

use super::capture::{OriginalBits, record};
use super::timer::Timer;
use super::units::UnitPacket;
use super::{Forwarder, gone, lose};
use crate::backend::port::{Received, is_gone};
use falaj_engine::key::Key;
use falaj_engine::network::{Route, RouteError};
use falaj_engine::{DropReason, ecn, network};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Label;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::capture::Verdict;
use std::io;

/// A unit of which some packets are not in their queue yet.
#[derive(Clone, Copy)]
pub(super) struct PendingUnit {
    pub(super) unit: u32,
    pub(super) received: Received,
    pub(super) key: Key,
    /// Index of the next packet.
    pub(super) next: u32,
    /// The route of that packet, if it is already known.
    pub(super) entry: Option<Route>,
}

/// The outcome of reading the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadOutcome {
    Nothing,
    /// Some units were read, and no more are there.
    All,
    /// Some units were read, and there may be more.
    Part,
}

impl Forwarder {
    /// Returns true if this port was readable, has a unit that waits for room, or its turn was
    /// interrupted.
    fn may_have_packets(&self, i: usize) -> bool {
        self.watch.is_readable(i) || self.waiting[i].is_some() || self.read_quotas.goes_on(i)
    }

    /// Gives a turn to each port, or only to ports for which `may_have_packets` returns true. A
    /// port without quota in this round is skipped, and counts as one that may have more units.
    pub(super) fn receive(&mut self, all: bool) -> io::Result<ReadOutcome> {
        let mut found = ReadOutcome::Nothing;
        self.read_quotas.begin();
        // In virtual time each reading of the clock is a system call, and lets time pass.
        if !all && (0..self.ports.len()).all(|i| !self.may_have_packets(i)) {
            return Ok(found);
        }
        let mut began = self.clock.now();
        for i in 0..self.ports.len() {
            if !(all || self.may_have_packets(i)) {
                continue;
            }
            if !self.read_quotas.may_read(i) {
                found = ReadOutcome::Part;
                continue;
            }
            let read = self.turn(i, began)?;
            if read > ReadOutcome::Nothing {
                let is_exact = self.options.timer == Timer::Exact;
                let now = if is_exact { self.read } else { self.clock.now() };
                // The turn of a port whose unit waits for room in a queue is over, not interrupted.
                self.read_quotas.took(
                    i,
                    now.since(began),
                    read == ReadOutcome::Part && self.waiting[i].is_none(),
                );
                began = now;
            } else {
                self.read_quotas.took(i, Span::ZERO, false);
            }
            found = found.max(read);
        }
        Ok(found)
    }

    /// Reads from a port until it has no more units, its quantum is used up, a unit has to wait for
    /// room in a queue, or a delivery is due soon.
    fn turn(&mut self, i: usize, began: Time) -> io::Result<ReadOutcome> {
        if let Some(waiting) = self.waiting[i].take() {
            self.admit(i, waiting, self.clock.now());
            if self.waiting[i].is_some() {
                return Ok(ReadOutcome::Nothing);
            }
        }
        let may_be_late = if self.sleeps() { self.slack() } else { Span::ZERO };
        let over = self.read_quotas.over(i, began);
        let (mut found, mut last) = (ReadOutcome::Nothing, began);
        while let Some(now) = self.receive_from(i)? {
            self.quiet_window.took(now.since(last));
            last = now;
            let latest = Time(self.releases.next().0.saturating_add(may_be_late.0));
            if now >= over
                || self.waiting[i].is_some()
                || latest.since(now) < self.quiet_window.span()
            {
                return Ok(ReadOutcome::Part);
            }
            found = ReadOutcome::All;
        }
        Ok(found)
    }

    /// Reads a unit, if there is one, and returns the time of the read.
    pub(super) fn receive_from(&mut self, i: usize) -> io::Result<Option<Time>> {
        let port = &mut self.ports[i].port;
        // The unit is read even if there is no memory for it; otherwise the port would stay
        // readable and wake the loop for ever.
        let received = match port.receive(self.units.buffer()) {
            Ok(None) => return Ok(None),
            Err(e) if is_gone(&e) => return Err(gone(port.as_ref(), &e)),
            received => received,
        };
        let now = self.clock.now();
        let Ok(Some(received)) = received else {
            self.losses.unreadable += 1;
            return Ok(Some(now));
        };
        (self.read, self.gap) = (now, now.since(self.read));
        let packets = received.packets();
        let wanted =
            received.flow.is_none() && self.network.wants_key(self.ports[i].pipe.0 as usize);
        let key = if wanted {
            self.ports[i].port.key(&self.units.buffer()[..received.length])
        } else {
            Key::default()
        };
        let owner = self.ports[i].port.owner(&self.units.buffer()[..received.length]);
        let Some(unit) = self.units.keep(received.length, (i, owner), received.train) else {
            self.losses.no_memory += u64::from(packets);
            self.ports[i].port.found_no_memory(&self.units.buffer()[..received.length], packets);
            return Ok(Some(now));
        };
        self.admit(i, PendingUnit { unit, received, key, next: 0, entry: None }, now);
        Ok(Some(now))
    }

    /// Puts the packets of a unit into their queues, one after the other, or keeps them until there
    /// is room.
    pub(super) fn admit(&mut self, i: usize, mut arriving: PendingUnit, now: Time) {
        let PendingUnit { unit, received, key, .. } = arriving;
        let packets = received.packets();
        if self.mask_memory.is_due(now) && self.network.has_masks() {
            self.network.set_short_of_memory(self.mask_memory.is_short());
        }
        let label = if self.network.wants_labels() { ecn::label(&key) } else { Label::default() };
        while arriving.next < packets {
            let length = if arriving.next + 1 == packets { received.last } else { received.bytes };
            let entry = match arriving
                .entry
                .take()
                .map_or_else(|| self.entry(i, &arriving, length, now), Ok)
            {
                Ok(entry) => entry,
                Err(why) => {
                    if self.network.has_rules() {
                        self.not_let_in(&arriving, length, why, now);
                    }
                    arriving.next += 1;
                    self.losses.unmatched += u64::from(why == RouteError::Unmatched);
                    self.units.refused(unit);
                    self.releases.dropped(unit, &self.units);
                    lose(&mut self.units, &mut self.ports, unit);
                    continue;
                }
            };
            if self.options.when_full.waits(entry.pipe) {
                self.network.poll(now, &mut self.out);
                // If no event will ever make room, the queue is too small for the packet, which
                // then does not wait.
                let ever = self.network.next_event() != Time::NEVER || self.any_is_full();
                if ever && !self.network.has_room(&entry, &key, length) {
                    self.waiting[i] = Some(PendingUnit { entry: Some(entry), ..arriving });
                    break;
                }
            }
            let (flow, bytes) = (entry.flow, self.network.bytes(entry.pipe, length));
            self.active[entry.pipe.0 as usize][flow.index()] = now;
            let packet = UnitPacket {
                unit,
                index: arriving.next,
                number: self.arrived,
                arrival: now,
                flow,
                bytes,
            };
            self.check_arrival(entry.pipe, &packet);
            let handle = self.units.packet(packet);
            arriving.next += 1;
            self.arrived += 1;
            self.network.enter(
                entry,
                &key,
                network::IngressPacket { handle, length, label: &label },
                now,
                &mut self.out,
            );
            if !self.network.has_rules() {
                arriving.entry = Some(entry);
            }
        }
        self.note();
    }

    /// The route of a packet; without rules, the route of its whole unit.
    fn entry(
        &mut self,
        i: usize,
        arriving: &PendingUnit,
        length: u32,
        now: Time,
    ) -> Result<Route, RouteError> {
        let pipe = self.ports[i].pipe;
        match arriving.received.flow {
            Some(flow) => Ok(self.network.route_to(pipe, flow)),
            None => self.network.route(&arriving.key, pipe.0 as usize, length, now),
        }
    }

    /// Records a packet that rules do not admit. It must be in the capture too, because random
    /// decisions depend on how many packets were checked.
    fn not_let_in(&mut self, arriving: &PendingUnit, bytes: u32, why: RouteError, arrival: Time) {
        let PendingUnit { unit, next: index, .. } = *arriving;
        let packet =
            UnitPacket { unit, index, number: self.arrived, arrival, flow: FlowId(0), bytes };
        self.arrived += 1;
        if let Some(recorder) = &mut self.recorder {
            let verdict = Verdict::Dropped(match why {
                RouteError::Dropped => DropReason::Rule,
                RouteError::Unmatched => DropReason::Unmatched,
            });
            record(
                recorder,
                &self.units,
                packet,
                verdict,
                (true, OriginalBits::default()),
                &mut self.cut,
            );
        }
    }
}
