//! Masks at work: a queue, or a link, of its own for each value of what a mask
//! looks at, made when its first packet comes and gone when it was idle for long.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mask`] | which parts of a packet count, and what they are in one packet: its id |
//! | `set` | ids and their places: made, shared, gone |
//! | `lookup`, `blocks` | where these are kept, so that no packet pays for all of them |
//! | [`stats`] | what is counted of an id |
//!
//! Drivers know flows and pipes by the names in the scenario: what comes out of a
//! masked one is told under the flow and pipe that it went in by.

mod blocks;
mod lookup;
pub mod mask;
pub(crate) mod set;
pub mod stats;

pub use mask::{Each, Mask, MaskId};
pub use set::MaskStats;
pub use stats::SojournStats;

use crate::key::Key;
use falaj_sched::contract::params::{ConfigError, ConfigErrors, FlowSetup, Setup};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::scheduler;

/// The masks of a pipe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Masks {
    /// A pipe of its own for each id.
    pub link: Option<Each>,
    /// Queues for each id, of a flow; by flow, those at the end may be missing.
    pub flows: Vec<Option<Each>>,
}

/// What a packet is to the masks of a pipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MaskIds {
    /// To that of the link.
    pub link: MaskId,
    /// To that of its flow.
    pub flow: MaskId,
    /// Memory is short: there are to be no more ids than there are.
    pub short: bool,
}

impl MaskIds {
    /// Where there are no masks.
    pub const NONE: MaskIds = MaskIds { link: MaskId::NONE, flow: MaskId::NONE, short: false };
}

impl Masks {
    /// The mask of this flow.
    pub fn of(&self, flow: usize) -> Option<&Each> {
        self.flows.get(flow).and_then(Option::as_ref)
    }

    /// Is there none?
    pub fn is_none(&self) -> bool {
        self.link.is_none() && !self.of_flows()
    }

    /// Do both make the same links, as many?
    pub(crate) fn same_links(&self, other: &Masks) -> bool {
        let links = |masks: &Masks| masks.link.map(|each| (each.mask, each.most));
        links(self) == links(other)
    }

    /// Has a flow one?
    pub(crate) fn of_flows(&self) -> bool {
        self.flows.iter().any(Option::is_some)
    }

    /// What a packet of this flow is to them.
    #[inline]
    pub fn ids(&self, flow: FlowId, key: &Key) -> MaskIds {
        let id = |each: Option<&Each>| each.map_or(MaskId::NONE, |each| each.mask.id(key));
        let (link, flow) = (id(self.link.as_ref()), id(self.of(flow.index())));
        MaskIds { link, flow, short: false }
    }

    /// The setup with as many flows in the place of each masked one as there will ever be.
    pub fn expanded(&self, setup: &Setup) -> Setup {
        let copies = |f: usize| self.of(f).map_or(1, Each::places) as usize;
        let flows = setup.flows.iter().enumerate();
        let flows: Vec<FlowSetup> =
            flows.flat_map(|(f, flow)| std::iter::repeat_n(flow, copies(f)).cloned()).collect();
        Setup { flows, scheduler: setup.scheduler.clone(), ..*setup }
    }

    /// The first flow in the expanded setup of each of so many flows.
    pub fn firsts(&self, flows: usize) -> Vec<FlowId> {
        let first = |next: &mut u32, f: usize| {
            let first = *next;
            *next += self.of(f).map_or(1, Each::places);
            Some(FlowId(first))
        };
        (0..flows).scan(0, first).collect()
    }

    /// What was refused of the expanded setup, told of the flows of `setup`.
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
                    "{} (`each` makes {} queues for their own, and {} that others share)",
                    refused.what,
                    each.most,
                    each.shared()
                ),
                None => refused.what,
            };
            let help = match each {
                Some(_) => format!("{}; or fewer by `max-flows`", refused.help),
                None => refused.help,
            };
            out.push(ConfigError { flow, what, help, ..refused });
        }
        out.into_iter().collect()
    }

    /// Where link and flows have masks, makes fewer of what was not said, so that all the queues
    /// can be: of [`MOST`](Each::MOST) links and as many queues, 16,384 links of 512 queues
    /// each. `link` and `flows` are of those that were.
    pub fn fit(&mut self, link: bool, flows: &[bool]) {
        /// Queues for each link become fewer first, down to this.
        const QUEUES: u32 = 512;
        let mut least = QUEUES;
        while self.link.is_some() && self.queues() > MOST_QUEUES {
            let mut unsaid =
                self.flows.iter_mut().enumerate().filter(|(f, _)| flows.get(*f) != Some(&true));
            let many = |each: &&mut Each| each.most > least;
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

    /// So many queues may there be.
    fn queues(&self) -> u64 {
        let links = self.link.as_ref().map_or(1, |each| u64::from(each.places()));
        links * self.flows.iter().flatten().map(|each| u64::from(each.places())).sum::<u64>()
    }

    /// What no masks can be on.
    pub fn impossible(&self, kind: &str, setup: &Setup) -> Option<ConfigError> {
        let masked = self.flows.iter().position(Option::is_some)?;
        let refused = |what: &str, help: &str| {
            Some(ConfigError {
                flow: Some(masked),
                param: "each",
                what: what.into(),
                help: help.into(),
            })
        };
        if scheduler::build::shared_queue(kind, setup).is_ok_and(|limit| limit.is_some()) {
            let help = "choose another scheduler, such as `drr`";
            return refused("all flows share one queue here, so none can have many", help);
        }
        if setup.flows.iter().any(|flow| flow.inner.is_some()) {
            let help = "put `each` on the link, which makes a scheduler for each, or leave the flows undivided";
            return refused("it stands beside a flow that is divided", help);
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

/// Queues of a link that masks may make: some gigabytes.
const MOST_QUEUES: u64 = 1 << 24;
