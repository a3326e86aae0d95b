//! The virtual clock of generalised processor sharing, driven by work.

use crate::collections::tournament::Tournament;
use crate::contract::hooks::DropCause;
use crate::mechanisms::weights::{ORIGIN, Shares, Virtual, retagged};
use crate::queues::queue::FlowId;
use alloc::vec::Vec;

/// An amount of work in small units: [`Shares::byte`] units are one byte.
pub(super) type Work = u128;

#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Finish of the flow's last packet.
    pub(super) finish: Virtual,
    /// Virtual time for which dropped packets had already been served. The packets that replace
    /// them need this amount less.
    owed: Virtual,
    slope: u64,
    pub(super) weight: u32,
}

/// The clock of generalised processor sharing.
#[derive(Debug, Clone)]
pub(crate) struct Gps {
    pub(super) flows: Vec<Share>,
    /// Flows in the fluid system, by the finish of their last packet.
    pub(super) present: Tournament<Virtual>,
    /// The sum of their weights.
    pub(super) weight: u64,
    pub(super) now: Virtual,
    /// Work that is done but too small to advance `now`.
    pub(super) rest: Work,
}

impl Gps {
    pub(crate) fn new(shares: &Shares) -> Gps {
        let share =
            |f| Share { finish: 0, owed: 0, slope: shares.slope(f), weight: shares.weight(f) };
        Gps {
            flows: shares.all().map(share).collect(),
            present: Tournament::new(shares.flows()),
            weight: 0,
            now: ORIGIN,
            rest: 0,
        }
    }

    /// Continues from the state of `old`: each flow keeps its bytes, and has the new weight from
    /// now on.
    pub(super) fn migrate_from(&mut self, old: Gps) {
        (self.now, self.rest) = (old.now, old.rest);
        for f in (0..old.flows.len() as u32).map(FlowId) {
            let finish = self.retag(&old, f, old.finish(f));
            let flow = &mut self.flows[f.index()];
            flow.finish = finish;
            if old.present.tag(f).is_some() {
                self.weight += u64::from(flow.weight);
                self.present.set(f, finish);
            }
        }
    }

    /// Converts a virtual finish time of `old` to these weights.
    pub(super) fn retag(&self, old: &Gps, f: FlowId, tag: Virtual) -> Virtual {
        retagged(tag, old.now, old.slope(f), self.slope(f))
    }

    pub(super) fn slope(&self, f: FlowId) -> Virtual {
        self.flows[f.index()].slope.into()
    }

    pub(crate) fn now(&self) -> Virtual {
        self.now
    }

    /// Virtual length of a packet of `f`.
    #[inline]
    pub(crate) fn length(&self, f: FlowId, bytes: u32) -> Virtual {
        Virtual::from(bytes) * Virtual::from(self.flows[f.index()].slope)
    }

    #[inline]
    pub(super) fn work(&self, f: FlowId, bytes: u32) -> Work {
        self.length(f, bytes) * Work::from(self.flows[f.index()].weight)
    }

    /// Adds a packet of `f`; returns its virtual finish time.
    #[inline]
    pub(crate) fn arrive(&mut self, f: FlowId, bytes: u32) -> Virtual {
        let mut length = self.length(f, bytes);
        let flow = &mut self.flows[f.index()];
        if flow.owed > 0 {
            let less = flow.owed.min(length);
            (flow.owed, length) = (flow.owed - less, length - less);
            if length == 0 {
                return flow.finish;
            }
        }
        if self.present.tag(f).is_none() {
            self.weight += u64::from(flow.weight);
        }
        flow.finish = flow.finish.max(self.now) + length;
        self.present.set(f, flow.finish);
        flow.finish
    }

    /// Removes a dropped packet of `f`: its bytes are subtracted from the end of the flow's work.
    /// A part of them may have been served already. After a drop that made room, the flow's next
    /// arriving packets need this part less (`owed`). After a drop that the discipline decided
    /// ([`DropCause::Decided`]), this part counts as work done for all flows.
    pub(super) fn forget(&mut self, f: FlowId, bytes: u32, because: DropCause) {
        let length = self.length(f, bytes);
        let left = self.finish(f).saturating_sub(self.now);
        let flow = &mut self.flows[f.index()];
        flow.finish -= length.min(left);
        if left > length {
            self.present.set(f, flow.finish);
            return;
        }
        let weight = Work::from(flow.weight);
        if because != DropCause::Decided {
            flow.owed += length - left;
        }
        if self.present.tag(f).is_some() {
            self.leave(f);
        }
        if because == DropCause::Decided {
            self.serve((length - left) * weight);
        }
    }

    /// Advances the clock by this work.
    #[inline]
    pub(crate) fn serve(&mut self, work: Work) {
        self.rest += work;
        while let Some((finish, f)) = self.present.first() {
            let needed = self.until(finish);
            if needed > self.rest {
                let step = self.rest / Work::from(self.weight);
                self.now += step;
                self.rest -= step * Work::from(self.weight);
                return;
            }
            self.rest -= needed;
            self.now = finish;
            self.leave(f);
        }
        self.rest = 0;
    }

    /// Work until virtual time is `then`, including the part that is already done.
    #[inline]
    pub(super) fn until(&self, then: Virtual) -> Work {
        then.saturating_sub(self.now).saturating_mul(Work::from(self.weight))
    }

    pub(super) fn leave(&mut self, f: FlowId) {
        self.present.remove(f);
        self.weight -= u64::from(self.flows[f.index()].weight);
    }

    /// Records that the link is empty. The fluid server is empty too, unless weights have changed
    /// meanwhile; in that case its remaining work is discarded.
    pub(super) fn run_empty(&mut self) {
        while let Some((finish, f)) = self.present.first() {
            self.now = self.now.max(finish);
            self.leave(f);
        }
        self.rest = 0;
    }

    pub(super) fn finish(&self, f: FlowId) -> Virtual {
        self.flows[f.index()].finish
    }
}
