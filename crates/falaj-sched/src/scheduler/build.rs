//! Schedulers by the name of their discipline, built by functions that are not generic, so that
//! they are compiled once, in this crate. If the packet path of a single discipline is to be
//! compiled as one piece, use a [`SchedulerInstance`](super::instance::SchedulerInstance).

use crate::contract::complete::CompleteDiscipline;
use crate::contract::params::{ConfigErrors, Setup};
use crate::queues::queue::Limit;
use crate::registry::{self, Visitor};
use crate::scheduler::Scheduler;
use crate::scheduler::tree;
use crate::scheduler::with_aqm::WithAqm;
use alloc::boxed::Box;

/// Builds the scheduler `kind` of `setup`. Its flows may have flows of their own, and active queue
/// management.
///
/// # Errors
/// A discipline refuses its setup, or cannot be above or below another discipline.
pub fn scheduler(kind: &str, setup: &Setup) -> Result<Box<dyn Scheduler>, ConfigErrors> {
    tree::scheduler(kind, setup, false)
}

/// Builds the discipline `kind` with its queues and the active queue management of the flows of
/// `setup`.
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

/// Returns the limit of the single queue that all flows share, if the discipline `kind` has one.
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
