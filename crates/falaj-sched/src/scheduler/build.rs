//! Schedulers by the name of their discipline, built by functions that are not generic: they are
//! compiled once, in this crate. A single discipline, for which the packet path is compiled as one
//! piece, is a [`SchedulerInstance`](super::instance::SchedulerInstance).

use crate::contract::complete::CompleteDiscipline;
use crate::contract::params::{ConfigErrors, Setup};
use crate::queues::queue::Limit;
use crate::registry::{self, Visitor};
use crate::scheduler::Scheduler;
use crate::scheduler::tree;
use crate::scheduler::with_aqm::WithAqm;
use alloc::boxed::Box;

/// The scheduler `kind` of `setup`, in which flows may have flows of their own and queue
/// management.
///
/// # Errors
/// A discipline refuses its setup, or refuses to be above or below another one.
pub fn scheduler(kind: &str, setup: &Setup) -> Result<Box<dyn Scheduler>, ConfigErrors> {
    tree::scheduler(kind, setup, false)
}

/// The discipline `kind` behind queues with the queue management of the flows of `setup`.
///
/// # Errors
/// The discipline refuses its setup.
pub fn with_aqm(kind: &str, setup: &Setup) -> Result<WithAqm, ConfigErrors> {
    struct Builder<'a>(&'a Setup);
    impl Visitor for Builder<'_> {
        type Output = WithAqm;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> WithAqm {
            WithAqm::new(self.0, discipline)
        }
    }
    registry::build(kind, setup, Builder(&registry::joined(kind, setup)))
}

/// The limit of the single queue that all flows share, if the discipline `kind` has one.
///
/// # Errors
/// The discipline refuses its setup.
pub fn shared_queue(kind: &str, setup: &Setup) -> Result<Option<Limit>, ConfigErrors> {
    struct Shared;
    impl Visitor for Shared {
        type Output = Option<Limit>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Option<Limit> {
            discipline.shared_queue()
        }
    }
    registry::build(kind, setup, Shared)
}
