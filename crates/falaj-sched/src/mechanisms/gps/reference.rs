//! The fluid server beside a link that serves the same packets one by one.

use crate::contract::hooks::DropCause;
use crate::contract::transmission::Sent;
use crate::mechanisms::gps::clock::{Gps, Work};
use crate::mechanisms::gps::work::{pace, pace_for};
use crate::mechanisms::weights::{Shares, Virtual, rescaled, shifted};
use crate::queues::queue::FlowId;
use crate::units::time::Time;

/// The fluid server beside a link; the link serves the same packets one by one.
#[derive(Debug, Clone)]
pub(crate) struct ReferenceFluid {
    gps: Gps,
    /// Work of the link in a nanosecond: whole units, and the rest in `1 / BIT_NANOS` of a unit.
    pace: (Work, u64),
    byte: u64,
    sending: Option<Sending>,
}

#[derive(Debug, Clone)]
struct Sending {
    work: Work,
    counted: Work,
    /// Work of the link in a nanosecond, as in [`ReferenceFluid`], at the rate from `start` on.
    pace: (Work, u64),
    start: Time,
    end: Time,
}

impl ReferenceFluid {
    pub(crate) fn new(shares: &Shares) -> ReferenceFluid {
        let byte = shares.byte();
        ReferenceFluid {
            gps: Gps::new(shares),
            pace: pace(shares.link(), byte),
            byte,
            sending: None,
        }
    }

    /// Continues from the state of `old` at `now`. The link and the fluid server have the same
    /// bytes left as before. A flow stays ahead or behind by the same amount, and has its new share
    /// from now on.
    pub(crate) fn migrate_from(&mut self, mut old: ReferenceFluid, now: Time) {
        old.at(now);
        self.gps.migrate_from(old.gps);
        self.sending = old.sending.map(|sending| {
            let work = |work| rescaled(work, old.byte.into(), self.byte.into());
            let (left, pace) = (work(sending.work - sending.counted), (work(sending.pace.0), 0));
            Sending { work: left, counted: 0, pace, start: now, end: sending.end }
        });
    }

    /// Returns the new stamp, from `now` on, of a packet that was stamped by `old` and still waits.
    pub(crate) fn retag(
        &self,
        old: &mut ReferenceFluid,
        f: FlowId,
        tag: Virtual,
        now: Time,
    ) -> Virtual {
        let old = old.at(now);
        shifted(tag, old.now, old.slope(f), self.gps.slope(f))
    }

    /// The clock at `now`.
    #[inline]
    pub(crate) fn at(&mut self, now: Time) -> &mut Gps {
        if let Some(sending) = &mut self.sending {
            let done = if now >= sending.end {
                sending.work
            } else {
                pace_for(sending.pace, now.since(sending.start)).min(sending.work)
            };
            let work = done - sending.counted;
            sending.counted = done;
            if now >= sending.end {
                self.sending = None;
            }
            if work > 0 {
                self.gps.serve(work);
            }
        }
        &mut self.gps
    }

    /// Records that the link begins to send a packet of `f`.
    #[inline]
    pub(crate) fn take(&mut self, f: FlowId, sent: Sent) {
        let work = self.at(sent.start).work(f, sent.bytes);
        self.sending =
            Some(Sending { work, counted: 0, pace: self.pace, start: sent.start, end: sent.end });
    }

    /// Records that the packet on the link now ends at `end`, because the link was changed at
    /// `now`. The rest of the packet is sent at the new pace.
    pub(crate) fn retimed(&mut self, end: Time, now: Time) {
        self.at(now);
        if let Some(sending) = &mut self.sending {
            let left = sending.work - sending.counted;
            *sending = Sending { work: left, counted: 0, pace: self.pace, start: now, end };
        }
    }

    /// Virtual length of a packet of `f`.
    #[inline]
    pub(crate) fn length(&self, f: FlowId, bytes: u32) -> Virtual {
        self.gps.length(f, bytes)
    }

    /// Records that a packet of `f` has left without a call of [`take`](ReferenceFluid::take).
    pub(crate) fn gone(&mut self, f: FlowId, bytes: u32) {
        let work = self.gps.work(f, bytes);
        self.gps.serve(work);
    }

    /// Records that a packet of `f` was dropped.
    pub(crate) fn forget(&mut self, f: FlowId, bytes: u32, because: DropCause, now: Time) {
        self.at(now).forget(f, bytes, because);
    }

    pub(crate) fn run_empty(&mut self) {
        self.gps.run_empty();
    }

    /// Returns true if the fluid server has served all packets of `f` so far.
    pub(crate) fn done(&self, f: FlowId) -> bool {
        self.gps.finish(f) <= self.gps.now
    }
}
