//! The load of dummynet's test program, implemented independently: a controller fills a scheduler
//! to `qmax` packets and drains it to `qmin`, and a generator gives each packet to the flow with
//! the shortest backlog.
//!
//! The generator itself counts each flow's backlog. Flows are in lists by backlog. A packet goes to
//! the first flow of the lowest list that is not empty, and this flow moves to the end of the next
//! list. When a packet is served, its flow moves to the end of the list below. If there is only one
//! packet at a time, each packet belongs to the next flow in turn: the worst case for caches.
//!
//! Packets are records in a separate pool; the record that was freed last is used next.

use super::flowsets::Flowsets;
use falaj_sched::queues::queue::{FlowId, Packet};
use falaj_sched::units::time::Time;
use std::hint::black_box;

/// A flow with this number of packets gets no more packets.
pub(super) const FULL: u32 = 30;
/// Number of lists: one for each backlog from 0 to `FULL`.
const LISTS: usize = FULL as usize + 1;
const NONE: u32 = u32::MAX;

/// A flow in a list, or the end of a list.
#[derive(Clone, Copy)]
struct Seat {
    before: u32,
    after: u32,
    backlog: u32,
    /// Length of the flow's packets in bytes.
    bytes: u32,
}

/// The record of a packet: its length, its flow, and the next packet in its list.
#[derive(Clone, Copy)]
pub(super) struct Buffer {
    pub(super) bytes: u32,
    pub(super) flow: u32,
    pub(super) next: u32,
}

/// Chooses flows and makes packets.
pub(super) struct Generator {
    /// The flows, followed by the ends of the lists.
    seats: Vec<Seat>,
    flows: u32,
    /// Bit `b` is set if the list of backlog `b` has a flow.
    occupied: u32,
    pub(super) buffers: Vec<Buffer>,
    free: u32,
}

impl Generator {
    pub(super) fn new(flowsets: &Flowsets) -> Generator {
        let flows = flowsets.flows();
        let seat = |i: u32, bytes| Seat { before: i, after: i, backlog: 0, bytes };
        let mut seats: Vec<Seat> =
            flowsets.each().zip(0..).map(|(set, i)| seat(i, set.bytes)).collect();
        seats.extend((0..LISTS as u32).map(|list| seat(flows + list, 0)));
        let mut generator =
            Generator { seats, flows, occupied: 0, buffers: Vec::new(), free: NONE };
        (0..flows).for_each(|f| generator.append(f, 0));
        generator
    }

    fn append(&mut self, f: u32, backlog: u32) {
        let end = self.flows + backlog;
        let last = self.seats[end as usize].before;
        let seat = &mut self.seats[f as usize];
        (seat.before, seat.after, seat.backlog) = (last, end, backlog);
        self.seats[last as usize].after = f;
        self.seats[end as usize].before = f;
        self.occupied |= 1 << backlog;
    }

    fn take_out(&mut self, f: u32) {
        let Seat { before, after, backlog, .. } = self.seats[f as usize];
        self.seats[before as usize].after = after;
        self.seats[after as usize].before = before;
        if before == after {
            // Both neighbours are the end of the list, so the list is now empty.
            self.occupied &= !(1 << backlog);
        }
    }

    /// Makes a packet for the flow with the shortest backlog; `None` if all flows are full.
    #[inline(always)]
    pub(super) fn packet(&mut self, now: Time) -> Option<Packet> {
        let backlog = self.occupied.trailing_zeros();
        if backlog >= FULL {
            return None;
        }
        let f = self.seats[(self.flows + backlog) as usize].after;
        self.take_out(f);
        self.append(f, backlog + 1);
        let bytes = self.seats[f as usize].bytes;
        let buffer = Buffer { bytes, flow: f, next: NONE };
        let handle = match self.free {
            NONE => {
                self.buffers.push(buffer);
                (self.buffers.len() - 1) as u32
            }
            handle => {
                self.free = self.buffers[handle as usize].next;
                self.buffers[handle as usize] = buffer;
                handle
            }
        };
        Some(Packet { handle, bytes, flow: FlowId(f), arrival: now })
    }

    /// Frees the record of a packet of this flow that has left.
    #[inline(always)]
    pub(super) fn gone(&mut self, handle: u32, flow: u32) {
        self.buffers[handle as usize].next = self.free;
        self.free = handle;
        let backlog = self.seats[flow as usize].backlog;
        self.take_out(flow);
        self.append(flow, backlog - 1);
    }
}

/// The subject of the measurement, to which packets are enqueued and from which they are dequeued.
pub(super) trait PacketSink {
    /// Enqueues a packet. Returns false if it was refused: the shared queue holds at most 4 GiB.
    fn enqueue(&mut self, packet: Packet, buffers: &mut [Buffer]) -> bool;
    /// Dequeues a packet, and returns the handle and the flow of a packet that has left.
    fn dequeue(&mut self, buffers: &mut [Buffer]) -> Option<(u32, u32)>;
    /// The time, which advances with each packet that leaves.
    fn now(&self) -> Time;
}

/// Fills and drains a subject in turn.
pub(super) struct Controller {
    generator: Generator,
    qmin: u64,
    qmax: u64,
    pending: u64,
}

impl Controller {
    pub(super) fn new(flowsets: &Flowsets, qmin: u64, qmax: u64) -> Controller {
        // Above this number all flows would be full, and `qmax` would never be reached.
        let qmax = qmax.min(u64::from(FULL) * u64::from(flowsets.flows()));
        Controller {
            generator: Generator::new(flowsets),
            qmin,
            qmax: qmax.max(qmin + 1),
            pending: 0,
        }
    }

    /// Enqueues and dequeues at least `pairs` packets, in complete fillings and drainings; returns
    /// their number. The first call begins with an empty subject.
    #[inline(never)]
    pub(super) fn run(&mut self, subject: &mut impl PacketSink, pairs: u64) -> u64 {
        // Between packets the subject stays in memory, as in practice, where packets arrive one by
        // one. If it stayed in registers, its cost would depend on the number of registers that the
        // loop leaves free.
        let subject = black_box(subject);
        let mut done = 0;
        while done < pairs {
            while self.pending < self.qmax {
                let Some(packet) = self.generator.packet(subject.now()) else { break };
                if !subject.enqueue(packet, &mut self.generator.buffers) {
                    self.generator.gone(packet.handle, packet.flow.0);
                    break;
                }
                self.pending += 1;
            }
            let full = self.pending;
            while self.pending > self.qmin {
                let Some((handle, flow)) = subject.dequeue(&mut self.generator.buffers) else {
                    break;
                };
                self.generator.gone(handle, flow);
                self.pending -= 1;
                done += 1;
            }
            assert!(self.pending < full, "packets do not leave the subject");
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subject that serves the last packet first.
    #[derive(Default)]
    struct Stack(Vec<Packet>, Vec<(u32, u32)>, usize);

    impl PacketSink for Stack {
        fn enqueue(&mut self, packet: Packet, _: &mut [Buffer]) -> bool {
            self.0.push(packet);
            self.1.push((packet.flow.0, packet.bytes));
            self.2 = self.2.max(self.0.len());
            true
        }
        fn dequeue(&mut self, _: &mut [Buffer]) -> Option<(u32, u32)> {
            self.0.pop().map(|p| (p.handle, p.flow.0))
        }
        fn now(&self) -> Time {
            Time::ZERO
        }
    }

    #[test]
    fn flows_are_filled_level_by_level() {
        let mut stack = Stack::default();
        let flowsets = "1:10:2,1:20:1".parse().expect("valid");
        let mut controller = Controller::new(&flowsets, 0, 6);
        assert_eq!(controller.run(&mut stack, 1), 6);
        assert_eq!(stack.1, [(0, 10), (1, 10), (2, 20), (0, 10), (1, 10), (2, 20)]);
        // Drained from the back: flows joined the list of empty flows in the order 2, 1, 0.
        stack.1.clear();
        assert_eq!(controller.run(&mut stack, 7), 12);
        assert_eq!(stack.1[..6], [(2, 20), (1, 10), (0, 10), (2, 20), (1, 10), (0, 10)]);
        assert_eq!(controller.generator.buffers.len(), 6, "freed buffers are used again");
    }

    #[test]
    fn with_one_packet_in_all_flows_take_turns() {
        let mut stack = Stack::default();
        Controller::new(&Flowsets::equal(3), 0, 1).run(&mut stack, 7);
        assert_eq!(stack.1.iter().map(|f| f.0).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(stack.2, 1);
    }

    #[test]
    fn the_backlog_swings_between_its_ends_and_never_beyond_what_flows_hold() {
        let mut stack = Stack::default();
        let mut controller = Controller::new(&Flowsets::equal(4), 3, 9);
        controller.run(&mut stack, 100);
        assert_eq!((stack.0.len(), stack.2), (3, 9));
        let mut stack = Stack::default();
        Controller::new(&Flowsets::equal(2), 0, 1_000).run(&mut stack, 1);
        assert_eq!(stack.2, 2 * FULL as usize);
    }
}
