//! Masks in operation: each id of a mask has its own queue or link, created when its first packet
//! arrives and removed after a long idle time.
//!
//! | module | contents |
//! |---|---|
//! | [`mask`] | the parts of a packet that count, and their values in one packet: its id |
//! | `set` | ids and their places: created, shared, removed |
//! | `lookup`, `blocks` | storage of ids and places, which grows in small steps so that no packet waits for all of it |
//! | [`stats`] | statistics of an id |
//!
//! Drivers know only the flows and pipes of the scenario, not those that masks create: outputs of a
//! masked flow or pipe name the flow and pipe by which the packet entered.

mod blocks;
mod lookup;
pub mod mask;
pub(crate) mod set;
pub mod stats;

pub use mask::{Mask, MaskConfig, MaskId};
pub use set::MaskStats;
pub use stats::SojournStats;

use crate::key::Key;
use falaj_sched::contract::params::{ConfigError, ConfigErrors, FlowSetup, Setup};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::scheduler;

/// The masks of a pipe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Masks {
    /// The mask of the link; each id gets a link of its own.
    pub link: Option<MaskConfig>,
    /// By flow, its mask; each id gets a queue of its own. Entries at the end may be missing.
    pub flows: Vec<Option<MaskConfig>>,
}

/// The ids of a packet under the masks of a pipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MaskIds {
    /// The id under the link's mask.
    pub link: MaskId,
    /// The id under its flow's mask.
    pub flow: MaskId,
    /// True if memory is short: no additional ids may be created.
    pub short: bool,
}

impl MaskIds {
    /// Ids for a pipe without masks.
    pub const NONE: MaskIds = MaskIds { link: MaskId::NONE, flow: MaskId::NONE, short: false };
}

impl Masks {
    /// The mask of this flow.
    pub fn of(&self, flow: usize) -> Option<&MaskConfig> {
        self.flows.get(flow).and_then(Option::as_ref)
    }

    /// Returns true if there are no masks.
    pub fn is_none(&self) -> bool {
        self.link.is_none() && !self.of_flows()
    }

    /// Returns true if both have the same mask of the link, with the same maximum number of links.
    pub(crate) fn same_links(&self, other: &Masks) -> bool {
        let links = |masks: &Masks| masks.link.map(|each| (each.mask, each.most));
        links(self) == links(other)
    }

    /// Returns true if a flow has a mask.
    pub(crate) fn of_flows(&self) -> bool {
        self.flows.iter().any(Option::is_some)
    }

    /// The ids of a packet of this flow.
    #[inline]
    pub fn ids(&self, flow: FlowId, key: &Key) -> MaskIds {
        let id = |each: Option<&MaskConfig>| each.map_or(MaskId::NONE, |each| each.mask.id(key));
        let (link, flow) = (id(self.link.as_ref()), id(self.of(flow.index())));
        MaskIds { link, flow, short: false }
    }

    /// Expands the setup: each masked flow is replaced by the maximum number of its queues.
    pub fn expanded(&self, setup: &Setup) -> Setup {
        let copies = |f: usize| self.of(f).map_or(1, MaskConfig::places) as usize;
        let flows = setup.flows.iter().enumerate();
        let flows: Vec<FlowSetup> =
            flows.flat_map(|(f, flow)| std::iter::repeat_n(flow, copies(f)).cloned()).collect();
        Setup { flows, scheduler: setup.scheduler.clone(), ..*setup }
    }

    /// The first flow in the expanded setup of each of `flows` flows.
    pub fn firsts(&self, flows: usize) -> Vec<FlowId> {
        let first = |next: &mut u32, f: usize| {
            let first = *next;
            *next += self.of(f).map_or(1, MaskConfig::places);
            Some(FlowId(first))
        };
        (0..flows).scan(0, first).collect()
    }

    /// Translates errors of the expanded setup to the flows of `setup`.
    pub fn refused(&self, refused: ConfigErrors, setup: &Setup) -> ConfigErrors {
        let firsts = self.firsts(setup.flows.len());
        let mut out: Vec<ConfigError> = Vec::new();
        for refused in refused {
            let flow = refused
                .flow
                .map(|f| firsts.partition_point(|first| first.index() <= f).saturating_sub(1));
            if out.iter().any(|told| (told.flow, told.param) == (flow, refused.param)) {
                continue;
            }
            let each = flow.and_then(|f| self.of(f)).or_else(|| self.flows.iter().flatten().next());
            let what = match each {
                Some(each) => format!(
                    "{} (`mask` makes {} queues for one id each, and {} that further ids share)",
                    refused.what,
                    each.most,
                    each.shared()
                ),
                None => refused.what,
            };
            let help = match each {
                Some(_) => format!("{}; or fewer queues by `max-flows`", refused.help),
                None => refused.help,
            };
            out.push(ConfigError { flow, what, help, ..refused });
        }
        out.into_iter().collect()
    }

    /// If both link and flows have masks, lowers maxima that are not configured, so that all queues
    /// fit. With one masked flow, [`MOST`](MaskConfig::MOST) links with as many queues each become
    /// 16,384 links of 512 queues each. `link` and `flows` are true for configured maxima.
    pub fn fit(&mut self, link: bool, flows: &[bool]) {
        /// Queues of each link are reduced first, down to this number.
        const QUEUES: u32 = 512;
        let mut least = QUEUES;
        while self.link.is_some() && self.queues() > MOST_QUEUES {
            let mut unsaid =
                self.flows.iter_mut().enumerate().filter(|(f, _)| flows.get(*f) != Some(&true));
            let many = |each: &&mut MaskConfig| each.most > least;
            if let Some(each) = unsaid
                .by_ref()
                .filter_map(|(_, each)| each.as_mut())
                .filter(many)
                .max_by_key(|each| each.most)
            {
                each.most /= 2;
            } else if let Some(each) = self.link.as_mut().filter(|each| !link && each.most > 1) {
                each.most /= 2;
            } else if least > 1 {
                least = 1;
            } else {
                return;
            }
        }
    }

    /// The maximum number of queues.
    fn queues(&self) -> u64 {
        let links = self.link.as_ref().map_or(1, |each| u64::from(each.places()));
        links * self.flows.iter().flatten().map(|each| u64::from(each.places())).sum::<u64>()
    }

    /// The error of a combination with masks that is impossible.
    pub fn impossible(&self, kind: &str, setup: &Setup) -> Option<ConfigError> {
        let masked = self.flows.iter().position(Option::is_some)?;
        let refused = |what: &str, help: &str| {
            Some(ConfigError {
                flow: Some(masked),
                param: "mask",
                what: what.into(),
                help: help.into(),
            })
        };
        if scheduler::build::shared_queue(kind, setup).is_ok_and(|limit| limit.is_some()) {
            let help = "choose another scheduler, such as `drr`";
            return refused("all flows share one queue, so no flow can have several", help);
        }
        if setup.flows.iter().any(|flow| flow.inner.is_some()) {
            let help = "put `mask` on the link, so that each value has a link of its own, or leave the flows undivided";
            return refused("another flow of this link is divided", help);
        }
        let links = self.link.as_ref().map_or(1, |each| u64::from(each.places()));
        let flows: u64 = self.flows.iter().flatten().map(|each| u64::from(each.places())).sum();
        if self.queues() > MOST_QUEUES {
            let what =
                format!("{links} links of {flows} queues each are more than {MOST_QUEUES} queues");
            return refused(&what, "set `max-flows` of the link, of its flows, or of both");
        }
        None
    }
}

/// The largest number of queues of a link that masks may create: some gigabytes.
const MOST_QUEUES: u64 = 1 << 24;
