//! The specification of a pipe, and its impossible combinations.

use super::device::Pace;
use crate::framing::Framing;
use crate::impair::Impairments;
use crate::masks::Masks;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::contract::params::{ConfigError, Setup};
use falaj_sched::disciplines::{dcf, virtual_links};
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::time::Span;

/// The specification of a pipe.
#[derive(Debug, Clone, PartialEq)]
pub struct PipeSpec {
    /// The discipline, as the registry names it.
    pub kind: &'static str,
    /// The discipline's configuration; its rate is the link's.
    pub setup: Setup,
    /// The conversion of bytes into time; if the link's rate varies, the setup has the mean rate.
    pub capacity: Capacity,
    /// The cost of a packet beyond its accounted bytes; lengths in `setup` include it.
    pub framing: Option<Framing>,
    /// The pacing of the link.
    pub pace: Pace,
    /// Propagation delay of the link.
    pub delay: Span,
    /// The impairments of the link.
    pub impairments: Impairments,
    /// Seed of the impairments' random numbers.
    pub seed: u64,
    /// The masks of its flows and of the link.
    pub masks: Masks,
}

impl PipeSpec {
    /// A pipe whose link has a delay and no other impairment.
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

    /// The reason why no discipline has a guarantee on this link; `None` on most links.
    pub fn no_guarantee(&self) -> Option<NoGuarantee> {
        self.capacity.no_guarantee().or_else(|| self.impairments.no_guarantee())
    }

    /// The error of an impossible combination. A discipline that divides the time of a link needs a
    /// link on which the time of a packet is known beforehand. A device-paced link and masks cannot
    /// be combined with some other settings.
    pub fn refused(&self) -> Option<ConfigError> {
        let at_one_rate = self.no_guarantee().is_none();
        let what = match self.kind {
            _ if at_one_rate => None,
            kind if kind == dcf::MANIFEST.kind => {
                Some("the stations of `dcf` determine the time of their packets themselves")
            }
            kind => by_time(kind, &self.setup).then_some(
                "`virtual-links` divides the time of a link that serialises at one rate",
            ),
        };
        let refused = what.map(|what| ConfigError {
            flow: None,
            param: "kind",
            what: what.into(),
            help: "choose another scheduler, or leave out `burst`, `trace`, `profile` and the limits of a `slot`".into(),
        });
        refused
            .or_else(|| self.no_device())
            .or_else(|| self.masks.impossible(self.kind, &self.setup))
    }

    /// The error of a combination that is impossible on a device-paced link.
    fn no_device(&self) -> Option<ConfigError> {
        let Pace::Device { backlog } = self.pace else { return None };
        let refused = |param, what: String, help: &str| {
            Some(ConfigError { flow: None, param, what, help: help.into() })
        };
        let largest = self.setup.largest;
        if backlog < largest {
            let what =
                format!("a device that holds {backlog} B never accepts a packet of {largest} B");
            return refused("backlog", what, &format!("at least `1p` or `{largest}B`"));
        }
        if self.setup.rate.is_unlimited() {
            let what =
                "the time that a device needs for its backlog is unknown without a rate".into();
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
                "packets that the device was handed can be neither delayed nor impaired",
                "leave out `delay` and impairments",
            ),
            _ if self.masks.link.is_some() => {
                ("one device is one link, not a link for each id", "leave out `mask`")
            }
            _ => return None,
        };
        refused(
            "paced-by",
            does.into(),
            &format!("{help}, or let falaj pace the link: `paced-by = \"falaj\"`"),
        )
    }

    /// The longest additional delay compared with a link that falaj paces, as a device holds other
    /// packets before this one.
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

/// Returns true if the discipline, or a discipline below one of its flows, divides time.
fn by_time(kind: &str, setup: &Setup) -> bool {
    let below = || setup.flows.iter().filter_map(|f| f.inner.as_ref());
    kind == virtual_links::MANIFEST.kind || below().any(|inner| by_time(inner.kind, &inner.setup))
}
