//! Packets in the network, on their way through pipes.

use super::{IngressPacket, Network};
use crate::key::Key;
use crate::message::{Corrupt, DropReason, Dropped, Early, EcnMark, Emit, Output, Retimed};
use crate::rules::{RuleOutcome, RulePosition};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::{Ecn, Label};
use falaj_sched::units::time::Time;
use std::cmp::Reverse;

/// A packet in the network.
#[derive(Debug, Clone, Default)]
pub(super) struct InTransit {
    /// The driver's handle.
    pub(super) handle: u32,
    pub(super) length: u32,
    pub(super) label: Label,
    /// ECN bits in the packet's bytes. If several packets share the bytes and only one of them is
    /// marked, its mark is only in its label until it leaves.
    pub(super) bits: Ecn,
    pub(super) at: Option<RulePosition>,
    /// Index in `shares` of the number of packets that share its bytes; zero if no other does.
    shared: u32,
    /// Bits to flip when it leaves; the bytes are unchanged until then.
    turned: Vec<u64>,
}

impl InTransit {
    /// A packet of which only the driver's handle is known.
    pub(super) fn known_by(handle: u32) -> InTransit {
        InTransit { handle, ..InTransit::default() }
    }
}

/// A packet on its way to the next pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hop {
    pub(super) due: Time,
    order: u64,
    pub(super) pipe: u32,
    pub(super) flow: u32,
    pub(super) slot: u32,
}

/// The packets on the wires of a pipe; it has several wires if a mask creates links.
#[derive(Debug, Clone, Default)]
pub(super) struct WireLog {
    packets: Vec<OnWire>,
    /// The number of entries at which the entries of packets that have left are removed.
    limit: usize,
}

/// A packet on a wire.
#[derive(Debug, Clone, Copy)]
struct OnWire {
    slot: u32,
    /// The driver's handle.
    handle: u32,
    /// The rule that took it.
    at: Option<RulePosition>,
    end: Time,
    due: Time,
}

impl WireLog {
    const FEW: usize = 4;

    fn sent(&mut self, packet: OnWire, now: Time) {
        if self.packets.len() >= self.limit.max(WireLog::FEW) {
            self.packets.retain(|packet| packet.end > now);
            self.limit = 2 * self.packets.len();
        }
        self.packets.push(packet);
    }

    /// Sets new times for the packet that was reported with the old times.
    fn retimed(&mut self, retimed: &Retimed) -> Option<OnWire> {
        let &Retimed { handle, old_end, old_due, end, due, .. } = retimed;
        let packet = self
            .packets
            .iter_mut()
            .find(|packet| (packet.slot, packet.end, packet.due) == (handle, old_end, old_due))?;
        (packet.end, packet.due) = (end, due);
        Some(*packet)
    }
}

impl Network {
    pub(super) fn keep(
        &mut self,
        packet: IngressPacket<'_>,
        at: Option<RulePosition>,
        key: Key,
    ) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.passing.push(InTransit::default());
            self.keys.push(Key::default());
            (self.passing.len() - 1) as u32
        });
        let place = &mut self.passing[slot as usize];
        (place.handle, place.length, place.label) = (packet.handle, packet.length, *packet.label);
        (place.at, place.shared, place.bits) = (at, 0, packet.label.ecn);
        place.turned.clear();
        self.keys[slot as usize] = key;
        slot
    }

    /// Translates the outputs of the engine into outputs of whole paths.
    #[inline]
    pub(super) fn sort(&mut self, out: &mut Vec<Output>) {
        let mut inner = std::mem::take(&mut self.inner);
        for output in inner.drain(..) {
            match output {
                Output::Emit(emit) => self.emitted(emit, out),
                Output::Copy(emit) => {
                    let copy = self.copied(emit.handle);
                    self.emitted(Emit { handle: copy, ..emit }, out);
                }
                Output::Drop(dropped) => self.lost(dropped, out),
                Output::Corrupt(corrupt) => {
                    self.passing[corrupt.handle as usize].turned.push(corrupt.draw);
                }
                Output::Mark(mark) => {
                    let place = &mut self.passing[mark.handle as usize];
                    place.label.ecn = mark.ecn;
                    if self.shares[place.shared as usize] <= 1 {
                        place.bits = mark.ecn;
                        out.push(Output::Mark(EcnMark { handle: place.handle, ..mark }));
                    }
                }
                Output::Retimed(retimed) => self.retimed(retimed, out),
                Output::Early(Early { handle, by, .. }) => {
                    self.passing[handle as usize].label.earliness = by;
                }
            }
        }
        self.inner = inner;
    }

    /// Handles a packet on a wire that leaves at another instant, and reaches the next pipe at
    /// another instant.
    #[cold]
    fn retimed(&mut self, retimed: Retimed, out: &mut Vec<Output>) {
        let log = self.sending.get_mut(retimed.pipe.0 as usize);
        let Some(packet) = log.and_then(|log| log.retimed(&retimed)) else {
            // The packet entered when there were no rules.
            return out.push(Output::Retimed(retimed));
        };
        let [old, new] = [retimed.old_end, retimed.end].map(|end| end - retimed.arrival);
        if let Some(stats) = self.rules.as_mut().and_then(|rules| rules.stats_mut(packet.at)) {
            stats.retimed(old, new);
        }
        let old_due = retimed.old_due.max(retimed.old_end);
        let mut hops = std::mem::take(&mut self.hops).into_vec();
        let hop = hops.iter_mut().find(|hop| (hop.0.slot, hop.0.due) == (packet.slot, old_due));
        if let Some(Reverse(hop)) = hop {
            hop.due = retimed.due.max(retimed.end);
        }
        self.hops = hops.into();
        out.push(Output::Retimed(Retimed { handle: packet.handle, ..retimed }));
    }

    /// Adds another packet with the same bytes; returns its slot.
    #[cold]
    fn copied(&mut self, slot: u32) -> u32 {
        let InTransit { handle, length, label, bits, at, shared, turned } =
            self.passing[slot as usize].clone();
        let shared = if shared == 0 {
            let unused = self
                .shares
                .iter()
                .skip(1)
                .position(|n| *n == 0)
                .map_or(self.shares.len(), |n| n + 1);
            if unused == self.shares.len() {
                self.shares.push(0);
            }
            self.shares[unused] = 1;
            unused as u32
        } else {
            shared
        };
        self.shares[shared as usize] += 1;
        self.passing[slot as usize].shared = shared;
        let copy = self.keep(
            IngressPacket { handle, length, label: &label },
            at,
            self.keys[slot as usize],
        );
        let place = &mut self.passing[copy as usize];
        (place.shared, place.turned, place.bits) = (shared, turned, bits);
        copy
    }

    /// Handles a packet that leaves a pipe: for the next pipe, or for good.
    fn emitted(&mut self, emit: Emit, out: &mut Vec<Output>) {
        let slot = emit.handle;
        let InTransit { at, length, handle, .. } = self.passing[slot as usize];
        self.on_the_wire(OnWire { slot, handle, at, end: emit.end, due: emit.due }, &emit);
        let way = (emit.pipe.0 % 2) as usize;
        if let Some(stats) = self.rules.as_mut().and_then(|rules| rules.stats_mut(at)) {
            stats.sent(emit.bytes, emit.end - emit.arrival);
        }
        let next = match (at, &mut self.rules) {
            (Some(at), Some(rules)) if rules.goes_on(at) => {
                rules.behind(at, &mut self.keys[slot as usize], way, length, emit.start)
            }
            _ => RuleOutcome::Nothing,
        };
        let why = match next {
            RuleOutcome::Nothing | RuleOutcome::Pass => return self.leaves(emit, out),
            RuleOutcome::Drop => DropReason::Rule,
            RuleOutcome::Link(link, at) => {
                let pipe = 2 * link as usize + way;
                self.passing[slot as usize].at = Some(at);
                if let Some(FlowId(flow)) =
                    self.places[pipe].classifier.flow_of(&self.keys[slot as usize])
                {
                    self.made += 1;
                    let (order, pipe) = (self.made, pipe as u32);
                    self.hops.push(Reverse(Hop { due: emit.arrives(), order, pipe, flow, slot }));
                    self.passed.push(Emit { handle, ..emit });
                    return;
                }
                self.unmatched += 1;
                DropReason::Unmatched
            }
        };
        self.passed.push(Emit { handle, ..emit });
        let Emit { pipe, flow, bytes, arrival, .. } = emit;
        self.lost(Dropped { pipe, flow, handle: slot, bytes, arrival, why }, out);
    }

    #[inline]
    fn on_the_wire(&mut self, packet: OnWire, emit: &Emit) {
        let place = emit.pipe.0 as usize;
        if place >= self.sending.len() {
            self.sending.resize_with(place + 1, WireLog::default);
        }
        self.sending[place].sent(packet, emit.start);
    }

    /// Handles a packet that leaves for good.
    fn leaves(&mut self, emit: Emit, out: &mut Vec<Output>) {
        let place = &mut self.passing[emit.handle as usize];
        let (handle, shared) = (place.handle, place.shared as usize);
        let turned = std::mem::take(&mut place.turned);
        let (ecn, bits) = (place.label.ecn, place.bits);
        let marked = |ecn| Output::Mark(EcnMark { pipe: emit.pipe, flow: emit.flow, handle, ecn });
        self.free.push(emit.handle);
        if ecn != bits {
            out.push(marked(ecn));
        }
        let flip = |draw: &u64| Output::Corrupt(Corrupt { handle, draw: *draw });
        out.extend(turned.iter().map(flip));
        let emit = Emit { handle, ..emit };
        if shared > 0 && self.shares[shared] > 1 {
            self.shares[shared] -= 1;
            out.push(Output::Copy(emit));
            // The bytes of the other packets stay as they were.
            out.extend(turned.iter().map(flip));
            if ecn != bits {
                out.push(marked(bits));
            }
        } else {
            self.shares[shared] = 0;
            out.push(Output::Emit(emit));
        }
    }

    /// Handles a packet in the network that is lost.
    fn lost(&mut self, dropped: Dropped, out: &mut Vec<Output>) {
        let place = &self.passing[dropped.handle as usize];
        let (handle, shared) = (place.handle, place.shared as usize);
        if let Some(stats) = self.rules.as_mut().and_then(|rules| rules.stats_mut(place.at)) {
            match dropped.why {
                // The link has sent the packet. Behind the link, a rule drops it, or no flow
                // matches it.
                DropReason::Rule | DropReason::Unmatched => {}
                DropReason::Lost => stats.lost += 1,
                _ => stats.dropped += 1,
            }
        }
        self.free.push(dropped.handle);
        if shared > 0 && self.shares[shared] > 1 {
            self.shares[shared] -= 1;
            return;
        }
        self.shares[shared] = 0;
        out.push(Output::Drop(Dropped { handle, ..dropped }));
    }
}
