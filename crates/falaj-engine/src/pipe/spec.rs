//! What a pipe is made from, and what cannot be together in one.

use super::device::Pace;
use crate::framing::Framing;
use crate::impair::Impairments;
use crate::masks::Masks;
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::contract::params::{ConfigError, Setup};
use falaj_sched::disciplines::{dcf, virtual_links};
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::time::Span;

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
    /// Who paces the link.
    pub pace: Pace,
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
            pace: Pace::Falaj,
            delay,
            impairments: Impairments::default(),
            seed: 0,
            masks: Masks::default(),
        }
    }

    /// Why no discipline promises anything on this link; on most it does.
    pub fn no_promise(&self) -> Option<NoPromise> {
        self.capacity.no_promise().or_else(|| self.impairments.no_promise())
    }

    /// What cannot be together: disciplines that divide the time of a link, and
    /// a link on which a packet's time is not known beforehand.
    pub fn refused(&self) -> Option<ConfigError> {
        let at_one_rate = self.no_promise().is_none();
        let what = match self.kind {
            _ if at_one_rate => None,
            kind if kind == dcf::MANIFEST.kind => {
                Some("the stations of `dcf` take their own time on the air")
            }
            kind => by_time(kind, &self.setup).then_some(
                "`virtual-links` divides the time of a link that serialises at one rate",
            ),
        };
        let refused = what.map(|what| ConfigError {
            flow: None,
            param: "kind",
            what: what.into(),
            help: "choose another scheduler, or leave out `burst`, `trace`, `profile` and what limits a `slot`".into(),
        });
        refused
            .or_else(|| self.no_device())
            .or_else(|| self.masks.impossible(self.kind, &self.setup))
    }

    /// What cannot be on a link that its device paces.
    fn no_device(&self) -> Option<ConfigError> {
        let Pace::Device { backlog } = self.pace else { return None };
        let refused = |param, what: String, help: &str| {
            Some(ConfigError { flow: None, param, what, help: help.into() })
        };
        let largest = self.setup.largest;
        if backlog < largest {
            let what =
                format!("a device that holds {backlog} B never takes a packet of {largest} B");
            return refused("backlog", what, &format!("at least `1p` or `{largest}B`"));
        }
        if self.setup.rate.is_unlimited() {
            let what =
                "how long a device takes for what it holds is not known without a rate".into();
            return refused("rate", what, "give the link the `rate` of its device");
        }
        let (does, help) = match self.kind {
            kind if kind == dcf::MANIFEST.kind => (
                "the stations of `dcf` take the air themselves, one packet at a time",
                "choose another scheduler",
            ),
            _ if self.capacity != Capacity::Serialise => {
                ("a device that paces its link sends at one rate", "leave out `burst` or `trace`")
            }
            _ if self.delay > Span::ZERO || !self.impairments.is_none() => (
                "what the device was handed is beyond reach: it is neither delayed nor harmed on purpose",
                "leave out `delay` and what the link does to packets",
            ),
            _ if self.masks.link.is_some() => {
                ("one device is one link, and not one for each id", "leave out `each`")
            }
            _ => return None,
        };
        refused(
            "pace",
            does.into(),
            &format!("{help}, or let falaj pace the link: `pace = \"falaj\"`"),
        )
    }

    /// So much later than if falaj paced the link a packet leaves at most, as a device holds others
    /// before it.
    pub fn held_by_device(&self) -> Span {
        match self.pace {
            Pace::Falaj => Span::ZERO,
            Pace::Device { backlog } => {
                let (rate, largest) = (self.setup.rate, self.setup.largest);
                rate.airtime(backlog.saturating_sub(largest)) + rate.airtime(largest)
            }
        }
    }
}

/// Does the discipline, or one below a flow of it, divide time?
fn by_time(kind: &str, setup: &Setup) -> bool {
    let below = || setup.flows.iter().filter_map(|f| f.inner.as_ref());
    kind == virtual_links::MANIFEST.kind || below().any(|inner| by_time(inner.kind, &inner.setup))
}
