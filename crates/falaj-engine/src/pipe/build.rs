//! Builds the pipe of a [`PipeSpec`].

use super::masked_links::MaskedLinks;
use super::masked_queues::MaskedQueues;
use super::scheduler_pipe::pipe;
use super::{LinkPipe, PipeLinks, PipeSpec, SingleLink};
use crate::masks::{MaskConfig, Masks};
use crate::message::PipeId;
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::params::{ConfigErrors, Setup};
use falaj_sched::queues::aqm;
use falaj_sched::registry::{self, Visitor};
use falaj_sched::scheduler;
use falaj_sched::scheduler::instance::SchedulerInstance;
use std::ops::Range;
use std::sync::Arc;

/// The purpose for which a pipe is built.
#[derive(Clone, Copy)]
pub(crate) enum BuildFor<'a> {
    /// A pipe that begins empty, or takes over from any other pipe.
    Any,
    /// A pipe that takes over from a pipe of the same discipline and masks; only the queues of
    /// these flows have other limits.
    Values(&'a [Range<u32>]),
}

/// Builds the pipe of `spec`.
pub(crate) fn build(
    id: PipeId,
    spec: &PipeSpec,
    what: BuildFor<'_>,
) -> Result<PipeLinks, ConfigErrors> {
    if let Some(refused) = spec.refused() {
        return Err(refused.into());
    }
    if spec.masks.link.is_some() {
        return Ok(PipeLinks::Masked(Box::new(MaskedLinks::new(id, spec)?)));
    }
    Ok(PipeLinks::Single(single(id, spec, what)?))
}

/// Builds one of the links of a link mask; `spec` has no link mask itself.
pub(super) fn build_single(id: PipeId, spec: &PipeSpec) -> Result<SingleLink, ConfigErrors> {
    if let Some(refused) = spec.refused() {
        return Err(refused.into());
    }
    single(id, spec, BuildFor::Any)
}

/// A pipe of one link.
fn single(id: PipeId, spec: &PipeSpec, what: BuildFor<'_>) -> Result<SingleLink, ConfigErrors> {
    if spec.masks.is_none() {
        return Ok(SingleLink::Plain(plain(id, spec.clone(), what)?));
    }
    let masks = &spec.masks;
    let firsts = masks.firsts(spec.setup.flows.len());
    let places = |f: u32| {
        let first = firsts[f as usize].0;
        first..first + masks.of(f as usize).map_or(1, MaskConfig::places)
    };
    let others: Vec<Range<u32>> = match what {
        BuildFor::Any => Vec::new(),
        BuildFor::Values(others) => others.iter().cloned().flatten().map(places).collect(),
    };
    let what = if matches!(what, BuildFor::Any) { what } else { BuildFor::Values(&others) };
    let setup = masks.expanded(&spec.setup);
    let whole = PipeSpec { setup, masks: Masks::default(), ..spec.clone() };
    let inner = plain(id, whole, what).map_err(|refused| masks.refused(refused, &spec.setup))?;
    Ok(SingleLink::Masked(Box::new(MaskedQueues::new(id, spec, inner))))
}

/// A pipe without masks.
fn plain(
    id: PipeId,
    spec: PipeSpec,
    what: BuildFor<'_>,
) -> Result<Box<dyn LinkPipe>, ConfigErrors> {
    /// A pipe around a single discipline is compiled for that discipline, so that the path of a
    /// packet is one piece of code. Trees, and queues with queue management, are schedulers behind
    /// `dyn`.
    struct Builder<'a>(PipeId, &'a Arc<PipeSpec>, &'a Setup, BuildFor<'a>);
    impl Visitor for Builder<'_> {
        type Output = Box<dyn LinkPipe>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Box<dyn LinkPipe> {
            let Builder(id, spec, setup, what) = self;
            let has_queues = matches!(what, BuildFor::Any);
            let instance = match what {
                BuildFor::Any => SchedulerInstance::new(setup, discipline),
                BuildFor::Values(others) => SchedulerInstance::bare(setup, discipline, others),
            };
            pipe(id, spec, instance, has_queues)
        }
    }
    let spec = &Arc::new(spec);
    let setup = &registry::joined(spec.kind, &spec.setup);
    if setup.flows.iter().any(|f| f.inner.is_some()) {
        return Ok(pipe(id, spec, scheduler::build::scheduler(spec.kind, &spec.setup)?, true));
    }
    if aqm::any(setup) {
        return Ok(pipe(id, spec, scheduler::build::with_aqm(spec.kind, &spec.setup)?, true));
    }
    registry::build(spec.kind, &spec.setup, Builder(id, spec, setup, what))
}
