//! Link occupancy: which flow sent on a link, and when.

use super::Forwarder;
use falaj_engine::PipeId;
use falaj_engine::message::{Emit, Retimed};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Time;
use std::collections::VecDeque;

/// Number of turns of each pipe that are remembered.
const REMEMBERED: usize = 2048;

/// A turn: packets of one flow, back to back on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOccupancy {
    /// The flow.
    pub flow: FlowId,
    /// Departure of the first bit of the first packet.
    pub begin: Time,
    /// Departure of the last bit of the last packet.
    pub end: Time,
    /// Number of packets.
    pub packets: u32,
}

/// The last turns, by pipe; `None` if they are not recorded.
#[derive(Default)]
pub(super) struct OccupancyLog(Option<Vec<VecDeque<LinkOccupancy>>>);

impl OccupancyLog {
    /// Records a packet that leaves its queue.
    pub(super) fn emitted(&mut self, emit: &Emit) {
        let Some(pipes) = &mut self.0 else { return };
        let place = emit.pipe.0 as usize;
        if place >= pipes.len() {
            pipes.resize_with(place + 1, VecDeque::new);
        }
        let turns = &mut pipes[place];
        let &Emit { flow, start: begin, end, .. } = emit;
        match turns.back_mut() {
            Some(last) if last.flow == flow && last.end == begin => {
                last.end = end;
                last.packets = last.packets.saturating_add(1);
            }
            _ => {
                if turns.len() == REMEMBERED {
                    turns.pop_front();
                }
                turns.push_back(LinkOccupancy { flow, begin, end, packets: 1 });
            }
        }
    }

    /// Corrects the end of a packet's transmission.
    pub(super) fn retimed(&mut self, retimed: &Retimed) {
        let turns = self.0.as_mut().and_then(|pipes| pipes.get_mut(retimed.pipe.0 as usize));
        let last = turns.into_iter().flatten().rev().find(|turn| turn.end == retimed.old_end);
        if let Some(turn) = last {
            turn.end = retimed.end;
        }
    }

    /// Removes all turns, because flows have been renumbered.
    pub(super) fn forget(&mut self) {
        self.0.iter_mut().flatten().for_each(VecDeque::clear);
    }
}

impl Forwarder {
    /// From now on, records the occupancy of links.
    pub fn log_occupancy(&mut self) {
        self.occupancy_log.0.get_or_insert_default();
    }

    /// The occupancy of links since the last change of flows: by pipe, the newest turn last.
    pub fn occupancy(&self) -> Vec<Vec<LinkOccupancy>> {
        let of = |pipe: &PipeId| {
            self.occupancy_log.0.as_ref().and_then(|pipes| pipes.get(pipe.0 as usize))
        };
        self.order.iter().map(|pipe| of(pipe).into_iter().flatten().copied().collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emit(flow: u32, start: u64, end: u64) -> Emit {
        let (start, end) = (Time(start), Time(end));
        Emit {
            pipe: PipeId(1),
            flow: FlowId(flow),
            handle: 0,
            bytes: 1,
            arrival: start,
            start,
            end,
            due: end,
        }
    }

    #[test]
    fn packets_one_behind_the_other_are_a_turn() {
        let mut turns = OccupancyLog::default();
        turns.emitted(&emit(0, 0, 10));
        assert!(turns.0.is_none(), "nobody asked");
        turns.0 = Some(Vec::new());
        for (flow, start, end) in [(0, 0, 10), (0, 10, 20), (1, 20, 25), (0, 25, 30), (0, 31, 40)] {
            turns.emitted(&emit(flow, start, end));
        }
        let all: Vec<_> = turns
            .0
            .iter()
            .flatten()
            .flatten()
            .map(|t| (t.flow.0, t.begin.0, t.end.0, t.packets))
            .collect();
        assert_eq!(all, [(0, 0, 20, 2), (1, 20, 25, 1), (0, 25, 30, 1), (0, 31, 40, 1)]);
        (0..2 * REMEMBERED as u64)
            .for_each(|n| turns.emitted(&emit(0, 100 + 10 * n, 105 + 10 * n)));
        assert_eq!(turns.0.as_ref().map(|pipes| pipes[1].len()), Some(REMEMBERED));
        turns.forget();
        assert_eq!(turns.0.iter().flatten().flatten().count(), 0);
    }
}
