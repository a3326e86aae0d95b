//! What a pipe is made from, and what cannot be together in one.

use crate::each::Masks;
use crate::framing::Framing;
use crate::impair::Impairments;
use falaj_sched::capacity::Capacity;
use falaj_sched::params::{Refused, Setup};
use falaj_sched::promise::NoPromise;
use falaj_sched::time::Span;

/// What a pipe is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct PipeSpec {
    /// The discipline, as the registry names it.
    pub kind: &'static str,
    /// What was set for it; its rate is the link's.
    pub setup: Setup,
    /// How the link turns bytes into time; where its rate changes, the setup's is the mean.
    pub capacity: Capacity,
    /// What a packet costs beyond the bytes that are accounted; `setup` counts that cost.
    pub framing: Option<Framing>,
    /// Propagation delay of the link.
    pub delay: Span,
    /// What the link does to packets.
    pub impairments: Impairments,
    /// Where the random numbers of that begin.
    pub seed: u64,
    /// Which of its flows are many, and whether it is.
    pub masks: Masks,
}

impl PipeSpec {
    /// A pipe whose link does nothing to packets but to delay them.
    pub fn new(kind: &'static str, setup: Setup, delay: Span) -> PipeSpec {
        PipeSpec {
            kind,
            setup,
            capacity: Capacity::Serialise,
            framing: None,
            delay,
            impairments: Impairments::default(),
            seed: 0,
            masks: Masks::default(),
        }
    }

    /// Why no discipline promises anything on this link; on most it does.
    pub fn no_promise(&self) -> Option<NoPromise> {
        let occupied = self.impairments.profile.as_ref().is_some_and(|profile| profile.occupies);
        let why = || NoPromise("packets occupy the link for as long as the profile says, beyond all bounds".into());
        let slots = self.impairments.slots.is_some_and(|slots| slots.can_be_full());
        let full = || NoPromise("packets wait in the queue where a slot is full, beyond all bounds".into());
        self.capacity.no_promise().or_else(|| occupied.then(why)).or_else(|| slots.then(full))
    }

    /// What cannot be together: disciplines that divide the time of a link, and
    /// a link on which a packet's time is not known beforehand.
    pub fn refused(&self) -> Option<Refused> {
        let at_one_rate = self.no_promise().is_none();
        let what = match self.kind {
            _ if at_one_rate => None,
            "dcf" => Some("the stations of `dcf` take their own time on the air"),
            kind => by_time(kind, &self.setup)
                .then_some("`virtual-links` divides the time of a link that serialises at one rate"),
        };
        let refused = what.map(|what| Refused {
            flow: None,
            param: "kind",
            what: what.into(),
            help: "choose another scheduler, or leave out `burst`, `trace`, `profile` and what limits a `slot`".into(),
        });
        refused.or_else(|| self.masks.impossible(self.kind, &self.setup))
    }
}

/// Does the discipline, or one below a flow of it, divide time?
fn by_time(kind: &str, setup: &Setup) -> bool {
    let below = || setup.flows.iter().filter_map(|f| f.inner.as_ref());
    kind == "virtual-links" || below().any(|inner| by_time(inner.kind, &inner.setup))
}
