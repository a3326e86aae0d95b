//! Reads the discipline that divides a link or a flow.

use crate::diagnostics::Problem;
use crate::keys::{self, Key};
use crate::read::{Datum, Fields, deciding, fields};
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::registry;
use falaj_sched::units::rate::Rate;

/// The discipline that was chosen for a direction or for the parts of a flow.
pub(crate) struct Chosen<'a> {
    pub(crate) entry: &'static Manifest,
    /// The table that names it, unless the scheduler is the default.
    pub(crate) fields: Option<Fields<'a>>,
}

pub(crate) fn chosen<'a>(
    tables: &[&Fields<'a>],
    problems: &mut Vec<Problem>,
) -> Option<Chosen<'a>> {
    let Some(field) = tables.iter().find_map(|t| t.field("scheduler")) else {
        let unclear = tables.iter().any(|t| t.means("scheduler"));
        return (!unclear).then_some(Chosen { entry: registry::DEFAULT, fields: None });
    };
    let Some(Datum::Table(table)) = field.datum else { return None };
    let all: Vec<Key> = registry::all().flat_map(keys::of_scheduler).collect();
    let kind = deciding(table, &field.at, "the scheduler", &keys::KIND, &all, problems)?;
    let entry = registry::entry(kind)?;
    let known: Vec<Key> =
        keys::SCHEDULER.iter().copied().chain(keys::of_scheduler(entry)).collect();
    let what = format!("the scheduler `{kind}`");
    Some(Chosen {
        entry,
        fields: Some(fields(table, field.at.clone(), what, &known, &[], problems)),
    })
}

/// Gets the rate that a discipline with a valid setup guarantees to each flow.
pub(crate) struct Guaranteed {
    /// The flows whose rates are returned.
    pub(crate) flows: Vec<FlowId>,
}
impl registry::Visitor for Guaranteed {
    type Output = Vec<Option<Rate>>;
    fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output {
        self.flows.into_iter().map(|f| discipline.service(f).ok().map(|p| p.rate)).collect()
    }
}
