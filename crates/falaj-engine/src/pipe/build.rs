//! Builds the pipe that a [`PipeSpec`] asks for.

use super::scheduler_pipe::pipe;
use super::{Pipe, PipeSpec};
use crate::masks::links::MaskedLinks;
use crate::masks::queues::MaskedQueues;
use crate::masks::{Each, Masks};
use crate::message::PipeId;
use falaj_sched::contract::discipline::Discipline;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::queues::aqm;
use falaj_sched::registry::{self, Visitor};
use falaj_sched::scheduler::instance::SchedulerInstance;
use falaj_sched::scheduler::tree::Tree;
use falaj_sched::scheduler::with_aqm::WithAqm;
use std::ops::Range;
use std::sync::Arc;

/// For what a pipe is built.
#[derive(Clone, Copy)]
pub(crate) enum BuildFor<'a> {
    /// To begin empty, or to take over from whatever there was.
    Any,
    /// To take over from one of the same discipline and masks, in which these flows alone have
    /// another limit of their queue.
    Values(&'a [Range<u32>]),
}

/// Builds the pipe that `spec` asks for.
pub(crate) fn build(
    id: PipeId,
    spec: &PipeSpec,
    what: BuildFor<'_>,
) -> Result<Box<dyn Pipe>, ConfigErrors> {
    if let Some(refused) = spec.refused() {
        return Err(refused.into());
    }
    if spec.masks.link.is_some() {
        return Ok(Box::new(MaskedLinks::new(id, spec)?));
    }
    if !spec.masks.is_none() {
        return masked(id, spec, what);
    }
    plain(id, spec.clone(), what)
}

/// The same for one in which flows have masks: around a pipe in which each has all its queues.
fn masked(id: PipeId, spec: &PipeSpec, what: BuildFor<'_>) -> Result<Box<dyn Pipe>, ConfigErrors> {
    let masks = &spec.masks;
    let firsts = masks.firsts(spec.setup.flows.len());
    let places = |f: u32| {
        let first = firsts[f as usize].0;
        first..first + masks.of(f as usize).map_or(1, Each::places)
    };
    let others: Vec<Range<u32>> = match what {
        BuildFor::Any => Vec::new(),
        BuildFor::Values(others) => others.iter().cloned().flatten().map(places).collect(),
    };
    let what = if matches!(what, BuildFor::Any) { what } else { BuildFor::Values(&others) };
    let setup = masks.expanded(&spec.setup);
    let whole = PipeSpec { setup, masks: Masks::default(), ..spec.clone() };
    let inner = plain(id, whole, what).map_err(|refused| masks.refused(refused, &spec.setup))?;
    Ok(Box::new(MaskedQueues::new(id, spec, inner)))
}

/// The same for one that has no masks and that nothing refuses.
fn plain(id: PipeId, spec: PipeSpec, what: BuildFor<'_>) -> Result<Box<dyn Pipe>, ConfigErrors> {
    struct Builder<'a>(PipeId, &'a Arc<PipeSpec>, BuildFor<'a>);
    impl Visitor for Builder<'_> {
        type Output = Result<Box<dyn Pipe>, ConfigErrors>;
        fn visit<D: Discipline + 'static>(self, discipline: D) -> Self::Output {
            let Builder(id, spec, what) = self;
            let setup = registry::joined(spec.kind, &spec.setup);
            if setup.flows.iter().any(|f| f.inner.is_some()) {
                return Ok(pipe(id, spec, Tree::new(&setup, discipline)?, true));
            }
            if aqm::any(&setup) {
                return Ok(pipe(id, spec, WithAqm::new(&setup, discipline), true));
            }
            Ok(match what {
                BuildFor::Any => pipe(id, spec, SchedulerInstance::new(&setup, discipline), true),
                BuildFor::Values(others) => {
                    pipe(id, spec, SchedulerInstance::bare(&setup, discipline, others), false)
                }
            })
        }
    }
    let spec = Arc::new(spec);
    registry::build(spec.kind, &spec.setup, Builder(id, &spec, what))?
}
