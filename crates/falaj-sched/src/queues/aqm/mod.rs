//! Active queue management: the rules by which a queue drops or marks packets before it is full.
//!
//! | module | policy |
//! |---|---|
//! | [`red`] | by the average queue length, at random: RED and gentle RED |
//! | [`codel`] | by the queueing delay of packets, at their departure |
//! | `cobalt` | like CoDel, and also at random after overflows; only for `cake` |
//! | [`pie`] | by the queueing delay, at random, at the arrival of packets |
//!
//! A queue without a policy is a tail-drop queue. Head drop needs no state: if the queue is full,
//! the packet that has waited longest is dropped.

pub(crate) mod cobalt;
pub mod codel;
pub mod pie;
pub mod policy;
pub mod red;
pub mod settings;
pub mod verdict;

use crate::contract::params::{ConfigError, Param, Setup, Values};
use crate::queues::queue::Limit;
use crate::units::draws::Draws;
use crate::units::time::{Span, Time};
use alloc::format;
use codel::CoDel;
use pie::Pie;
use policy::{CoDelParameters, PieParameters, Policy, RedParameters};
use red::Red;
use verdict::{Head, Level, Link, Verdict};

/// Names of the policies. If the queue is full, `tail` drops the arriving packet and `head` drops
/// the first packet of the queue. The others also drop or mark packets before the queue is full.
pub const NAMES: &[&str] = &["tail", "head", "red", "gred", "codel", "pie"];

/// The parameters of a policy.
pub fn params(name: &str) -> &'static [Param] {
    match name {
        "red" | "gred" => red::PARAMS,
        "codel" => codel::PARAMS,
        "pie" => pie::PARAMS,
        _ => &[],
    }
}

impl Policy {
    /// The policy of this name for a queue with this limit; `None` for tail drop, which needs no
    /// state.
    pub fn new(name: &str, values: &Values, limit: Limit) -> Result<Option<Policy>, ConfigError> {
        Ok(Some(match name {
            "head" => Policy::Head,
            "red" | "gred" => Policy::Red(RedParameters::new(values, limit, name == "gred")?),
            "codel" => Policy::CoDel(CoDelParameters::new(values)?),
            "pie" => Policy::Pie(PieParameters::new(values)?),
            _ => return Ok(None),
        }))
    }
}

/// The one policy of a queue that all flows share.
pub(crate) fn shared(setup: &Setup) -> Result<Option<Policy>, ConfigError> {
    let mut policies = setup.flows.iter().map(|f| f.values.policy());
    let first = policies.next().flatten();
    match setup.flows.iter().position(|f| f.values.policy() != first) {
        None => Ok(first),
        Some(flow) => Err(ConfigError {
            flow: Some(flow),
            param: "queue",
            what: "the flows share one queue, and their policies differ".into(),
            help:
                "give all of them the same policy, or choose a scheduler with a queue for each flow"
                    .into(),
        }),
    }
}

/// Refuses policies of flows whose queues `kind` manages itself.
pub(crate) fn none_besides(setup: &Setup, kind: &str) -> Result<(), ConfigError> {
    match setup.flows.iter().position(|f| f.values.policy().is_some()) {
        None => Ok(()),
        Some(flow) => Err(ConfigError {
            flow: Some(flow),
            param: "queue",
            what: format!("`{kind}` manages its queues itself"),
            help: "leave the `policy` out here, or choose another scheduler, as `drr`".into(),
        }),
    }
}

/// Returns true if any queue has a policy.
pub fn any(setup: &Setup) -> bool {
    setup.any_leaf(&mut |f| f.values.policy().is_some())
}

/// Returns true if any queue has a policy that drops packets after they were queued.
pub fn any_later(setup: &Setup) -> bool {
    setup.any_leaf(&mut |f| f.values.policy().is_some_and(|policy| policy.drops_later()))
}

/// The state of a policy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AqmState {
    Head,
    Red(Red),
    CoDel(CoDel),
    Pie(Pie),
}

impl AqmState {
    pub(crate) fn new(policy: Policy, link: Link) -> AqmState {
        match policy {
            Policy::Head => AqmState::Head,
            Policy::Red(red) => AqmState::Red(Red::new(red, link)),
            Policy::CoDel(codel) => AqmState::CoDel(CoDel::new(codel, link.largest)),
            Policy::Pie(pie) => AqmState::Pie(Pie::new(pie, link.largest)),
        }
    }

    /// Returns the verdict on a packet that arrives.
    #[inline]
    pub(crate) fn comes(
        &mut self,
        level: Level,
        capable: bool,
        now: Time,
        draws: &mut Draws,
    ) -> Verdict {
        match self {
            AqmState::Head | AqmState::CoDel(_) => Verdict::Pass,
            AqmState::Red(red) => red.comes(level, capable, now, draws.draw()),
            AqmState::Pie(pie) => pie.comes(level, capable, now, draws.draw()),
        }
    }

    /// Returns the verdict on a head that is to be sent. The state does not change.
    #[inline]
    pub(crate) fn judge(&self, head: Head, now: Time) -> Verdict {
        match self {
            AqmState::CoDel(codel) => codel.step(head, now).1,
            _ => Verdict::Pass,
        }
    }

    /// Returns the verdict on a head that is to be sent, and stores the new state.
    #[inline]
    pub(crate) fn settle(&mut self, head: Head, now: Time) -> Verdict {
        match self {
            AqmState::CoDel(codel) => {
                let (then, verdict) = codel.step(head, now);
                *codel = then;
                verdict
            }
            AqmState::Pie(pie) => {
                pie.leaves(head.waited, now);
                Verdict::Pass
            }
            _ => Verdict::Pass,
        }
    }

    /// Records that the queue has become empty.
    #[inline]
    pub(crate) fn emptied(&mut self, now: Time) {
        match self {
            AqmState::Red(red) => red.emptied(now),
            AqmState::Pie(pie) => pie.leaves(Span::ZERO, now),
            AqmState::Head | AqmState::CoDel(_) => {}
        }
    }

    /// Continues from a state of the same policy, with the new parameters.
    pub(crate) fn migrate_from(&mut self, old: AqmState) {
        match (self, old) {
            (AqmState::Red(own), AqmState::Red(old)) => own.migrate_from(old),
            (AqmState::CoDel(own), AqmState::CoDel(old)) => own.migrate_from(old),
            (AqmState::Pie(own), AqmState::Pie(old)) => own.migrate_from(old),
            _ => {}
        }
    }
}
