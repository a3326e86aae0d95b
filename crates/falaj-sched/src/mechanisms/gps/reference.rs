//! The fluid beside a link that serves the same packets one by one.

use crate::contract::hooks::Thrown;
use crate::contract::transmission::Sent;
use crate::mechanisms::gps::clock::{Gps, Work};
use crate::mechanisms::gps::work::{pace, pace_for};
use crate::mechanisms::weights::{Shares, Virtual, rescaled, shifted};
use crate::queues::queue::FlowId;
use crate::units::time::Time;

/// The fluid beside a link that serves the same packets one by one.
#[derive(Debug, Clone)]
pub(crate) struct ReferenceFluid {
    gps: Gps,
    /// What the link does in a nanosecond.
    pace: (Work, u64),
    byte: u64,
    sending: Option<Sending>,
}

#[derive(Debug, Clone)]
struct Sending {
    work: Work,
    counted: Work,
    /// Of the rate at which it began.
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

    /// Goes on where `old` stands at `now`. The link and the fluid have the same bytes left
    /// as before: a flow keeps what it is ahead or behind, and gets its new share from now on.
    pub(crate) fn migrate_from(&mut self, mut old: ReferenceFluid, now: Time) {
        old.at(now);
        self.gps.migrate_from(old.gps);
        self.sending = old.sending.map(|sending| {
            let work = |work| rescaled(work, old.byte.into(), self.byte.into());
            let (left, pace) = (work(sending.work - sending.counted), (work(sending.pace.0), 0));
            Sending { work: left, counted: 0, pace, start: now, end: sending.end }
        });
    }

    /// What the stamp of a packet that waits under `old` is from `now` on.
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

    /// The clock as it stands at `now`.
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

    /// The link begins to send a packet of `f`.
    #[inline]
    pub(crate) fn take(&mut self, f: FlowId, sent: Sent) {
        let work = self.at(sent.start).work(f, sent.bytes);
        self.sending =
            Some(Sending { work, counted: 0, pace: self.pace, start: sent.start, end: sent.end });
    }

    /// What is on the link ends then, as the link was changed at `now`: what is left of it goes at
    /// the new pace.
    pub(crate) fn retimed(&mut self, end: Time, now: Time) {
        self.at(now);
        if let Some(sending) = &mut self.sending {
            let left = sending.work - sending.counted;
            *sending = Sending { work: left, counted: 0, pace: self.pace, start: now, end };
        }
    }

    /// Virtual time that a packet of `f` takes.
    #[inline]
    pub(crate) fn length(&self, f: FlowId, bytes: u32) -> Virtual {
        self.gps.length(f, bytes)
    }

    /// A packet of `f` has gone of which nobody told that it was sent.
    pub(crate) fn gone(&mut self, f: FlowId, bytes: u32) {
        let work = self.gps.work(f, bytes);
        self.gps.serve(work);
    }

    /// A packet of `f` has been thrown out.
    pub(crate) fn forget(&mut self, f: FlowId, bytes: u32, because: Thrown, now: Time) {
        self.at(now).forget(f, bytes, because);
    }

    pub(crate) fn run_empty(&mut self) {
        self.gps.run_empty();
    }

    /// Has the fluid served all of `f`, as far as it has come?
    pub(crate) fn done(&self, f: FlowId) -> bool {
        self.gps.finish(f) <= self.gps.now
    }
}
