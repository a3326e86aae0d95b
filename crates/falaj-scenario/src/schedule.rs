//! The scheduled changes of a run, in the order of their instants.

use crate::model::Scenario;
use falaj_sched::units::time::Span;
use std::sync::Arc;

/// A change of the scenario at an instant of the run.
#[derive(Debug, Clone)]
pub struct ScheduledChange {
    /// Instant of the change, from the start of the run.
    pub at: Span,
    /// The settings, each `KEY=VALUE` as `falaj set` accepts them.
    pub sets: Arc<[String]>,
    /// The scenario after the change. It has no scheduled changes itself.
    pub scenario: Arc<Scenario>,
}

/// The scheduled changes of a run.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// The changes in the order of their instants, at most [`crate::keys::CHANGES_MAX`].
    changes: Vec<ScheduledChange>,
    /// If set, the changes from this index on repeat with this period.
    cycle: Option<(usize, Span)>,
}

impl Schedule {
    /// A schedule of these changes, which are in the order of their instants. If `cycle` is set,
    /// the changes from its index on repeat with its period.
    pub(crate) fn new(changes: Vec<ScheduledChange>, cycle: Option<(usize, Span)>) -> Schedule {
        Schedule { changes, cycle }
    }

    /// Returns true if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changes in the order of their instants, one for each instant. The iterator may never
    /// end.
    pub fn iter(&self) -> impl Iterator<Item = ScheduledChange> + '_ {
        let again = self.cycle.into_iter().flat_map(move |(from, period)| {
            (1..).flat_map(move |round| {
                let later = move |change: &ScheduledChange| {
                    let by = period.0.checked_mul(round)?;
                    let at = Span(change.at.0.checked_add(by)?);
                    Some(ScheduledChange { at, ..change.clone() })
                };
                self.changes[from..].iter().map(later)
            })
        });
        self.changes.iter().cloned().map(Some).chain(again).map_while(|change| change)
    }

    /// The changes before this time of the run.
    pub fn before(&self, end: Span) -> impl Iterator<Item = ScheduledChange> + '_ {
        self.iter().take_while(move |change| change.at < end)
    }
}
