//! Rates that flows get out of a link's rate, and the treatment of a sum above the link's rate.
//!
//! All disciplines follow one rule. If a discipline guarantees each flow its rate whatever the
//! others send, a sum of rates above the link's rate is an error (*refused*). If the rates are
//! still useful as caps, the sum is accepted (*taken*): the flows that it may hurt get no
//! guarantee, with the sum as the reason, and the user is warned ([`taken`]). Ceilings, limits,
//! shares and weights are not added up, because they are only caps or proportions.

use crate::contract::manifest::Manifest;
use crate::contract::params::{ConfigError, FlowSetup, Setup};
use crate::mechanisms::classes::Classes;
use crate::units::rate::Rate;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Rates of flows whose sum exceeds the link's rate.
pub(crate) struct Excess {
    /// The first flow with whose rate the sum exceeds the link's rate.
    flow: usize,
    param: &'static str,
    sum: Rate,
    link: Rate,
}

impl Excess {
    /// Returns the rates that `param` sets for these flows, if their sum exceeds the link's rate.
    /// The flows are given by number.
    pub(crate) fn of(
        param: &'static str,
        rates: impl IntoIterator<Item = (usize, Rate)>,
        link: Rate,
    ) -> Option<Excess> {
        let (mut sum, mut first) = (0u128, None);
        for (flow, rate) in rates {
            sum += u128::from(rate.0);
            if sum > link.0.into() {
                first = first.or(Some(flow));
            }
        }
        Some(Excess {
            flow: first?,
            param,
            sum: Rate(u64::try_from(sum).unwrap_or(u64::MAX)),
            link,
        })
    }

    /// Describes the excess in words. `whose` says whose rates they are, for example `the flows'`.
    pub(crate) fn words(&self, whose: &str) -> String {
        format!(
            "{whose} `{}`s add up to {}, more than the link's {}",
            self.param, self.sum, self.link
        )
    }

    /// Returns the error of disciplines whose guarantees depend on the sum. `or` names an
    /// alternative cure.
    pub(crate) fn refused(&self, or: &str) -> ConfigError {
        let (flow, param, what) = (Some(self.flow), self.param, self.words("the flows'"));
        ConfigError {
            flow,
            param,
            what,
            help: format!("at most {} for all flows together{or}", self.link),
        }
    }
}

/// Returns a warning if the sum of the rates in `setup` exceeds the link's rate and the discipline
/// of `manifest` accepts that. It names a flow by its place among all classes, depth first.
pub fn taken(manifest: &Manifest, setup: &Setup) -> Option<ConfigError> {
    let (kind, param) = (manifest.kind, manifest.oversubscribed_by?);
    let rate = |(n, flow): (usize, &FlowSetup)| Some((n, flow.values.rate(param)?));
    let rates: Vec<_> = if manifest.whole_trees {
        let classes = Classes::new(kind, kind, setup).ok()?;
        let leaves = classes.iter().filter(|(class, ..)| classes.shape.is_leaf(*class));
        leaves.filter_map(|(_, n, flow)| rate((n, flow))).collect()
    } else {
        setup.flows.iter().enumerate().filter_map(rate).collect()
    };
    let excess = Excess::of(param, rates, setup.rate)?;
    Some(excess.refused(
        " keep all guarantees; `falaj plan` shows which flows lose their guarantee by this",
    ))
}
