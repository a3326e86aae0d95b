//! What a device that paces its link is handed ahead of time; `device.rs` says why that is right.

use super::{LinkState, SchedulerPipe};
use crate::message::Output;
use crate::pipe::device::DeviceRoom;
use crate::pipe::stats::HotCounters;
use falaj_sched::contract::discipline::Decision;
use falaj_sched::scheduler::instance::Scheduler;
use falaj_sched::units::time::Time;

impl<S: Scheduler> SchedulerPipe<S> {
    /// Hands packets to the device as long as that has room and some may go.
    #[cold]
    pub(super) fn fill(&mut self, now: Time, out: &mut Vec<Output>) {
        while let Some(device) = self.device {
            if let LinkState::Handed { queue, leaf, end } = self.link {
                if now < end && device.concludes() && self.stats.hot[leaf.index()].backlog < 2 {
                    return;
                }
                self.finish(queue, end);
                self.link = LinkState::Idle;
            }
            if device.yields() && device.is_empty(now) {
                self.device = None;
                self.plain = self.plain();
                return self.ask(now, out);
            }
            let start = match device.room(now) {
                _ if device.yields() => return self.link = LinkState::Full(device.until()),
                DeviceRoom::From(start) => start,
                DeviceRoom::Not(then) => return self.link = LinkState::Full(then),
            };
            match self.scheduler.next(start, &self.wire) {
                Decision::Serve(queue) => {
                    let end = self.send(queue, start, out);
                    // It is the device's from now on.
                    if let Some(Output::Emit(emit)) = out.last_mut() {
                        emit.due = now;
                        self.link = LinkState::Handed { queue, leaf: emit.flow, end };
                    }
                    self.device.iter_mut().for_each(|device| device.handed(end));
                }
                Decision::Drop(queue) => {
                    let packet = self.scheduler.throw_away(queue, start);
                    let by_policy = self.scheduler.by_policy();
                    self.thrown_out(packet, by_policy, out);
                }
                Decision::NotBefore(then) => {
                    debug_assert!(then > start, "an instant that never comes");
                    return self.link = LinkState::NotBefore(then);
                }
                Decision::Idle => return self.link = LinkState::Idle,
            }
        }
    }

    /// Does nothing wait but what the device was handed last? Where there are many flows, nobody
    /// looks.
    pub(super) fn is_alone(&self) -> bool {
        const FEW: usize = 64;
        let waits = |tally: &HotCounters| u64::from(tally.backlog);
        self.stats.hot.len() <= FEW && self.stats.hot.iter().map(waits).sum::<u64>() < 2
    }
}
