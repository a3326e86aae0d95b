//! Divided flows: the parts of a flow, and the discipline that divides its rate among them.

use crate::diagnostics::Problem;
use crate::link::flows::FlowRead;
use crate::link::plugin;
use crate::link::refusal::{refusal, taken_all_the_same};
use crate::link::scheduler::Guaranteed;
use crate::model::{Adapter, Flow};
use falaj_engine::classifier::Match;
use falaj_sched::contract::params::{FlowSetup, Inner, Setup, Values};
use falaj_sched::mechanisms::oversubscription;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::registry;
use falaj_sched::units::rate::Rate;
use std::path::Path;
use toml::de::{DeTable, DeValue};

impl FlowRead<'_> {
    /// Returns the flow itself, or its leaves if it has parts. Packets belong to leaves.
    pub(crate) fn leaves(self) -> Vec<Flow> {
        let Some((_, _, parts)) = self.parts else { return vec![self.flow] };
        let within = |leaf: Flow| {
            let both = |rule: &Match| {
                self.flow.matches.iter().filter_map(|own| own.and(rule)).collect::<Vec<_>>()
            };
            Flow {
                name: part_name(&self.flow.name, &leaf.name),
                matches: leaf.matches.iter().flat_map(both).collect(),
                adapter: match leaf.adapter {
                    Some(Adapter { name, port, batches }) => {
                        Some(Adapter { name: part_name(&self.flow.name, &name), port, batches })
                    }
                    None => self.flow.adapter.clone(),
                },
                ..leaf
            }
        };
        parts.into_iter().flat_map(FlowRead::leaves).map(within).collect()
    }
}

/// The name of a part of a flow.
fn part_name(flow: &str, part: &str) -> String {
    format!("{flow}/{part}")
}

/// The names of the leaves, even if some of the flows' tables have errors.
pub(crate) fn leaf_names(table: &DeTable<'_>) -> Vec<String> {
    let names = |(name, value): (
        &toml::Spanned<std::borrow::Cow<'_, str>>,
        &toml::Spanned<DeValue<'_>>,
    )| {
        let name: &str = name.get_ref();
        let parts = value.get_ref().get("flow").and_then(|v| v.get_ref().as_table());
        match parts {
            Some(parts) if !parts.is_empty() => {
                leaf_names(parts).into_iter().map(|part| part_name(name, &part)).collect()
            }
            _ => vec![name.to_owned()],
        }
    };
    table.iter().flat_map(names).collect()
}

/// Returns true if a discipline of `kind` schedules the parts of this flow itself, because it works
/// on the whole tree of flows.
pub(crate) fn is_joined(kind: &str, flow: &FlowRead<'_>) -> bool {
    let by_its_own = flow.parts.as_ref().is_some_and(|(chosen, ..)| chosen.entry.kind == kind);
    by_its_own && registry::takes_trees(kind)
}

/// The setups of these flows for a discipline of `kind`. If the discipline schedules the parts of a
/// flow too, the flow's setup includes them, with the rate and the largest packet of `link`.
pub(crate) fn joined(kind: &str, link: &Setup, flows: &[FlowRead<'_>]) -> Vec<FlowSetup> {
    let one = |flow: &FlowRead<'_>| {
        let mut setup = flow.setup.clone();
        if let Some((chosen, scheduler, parts)) =
            flow.parts.as_ref().filter(|_| is_joined(kind, flow))
        {
            let flows = joined(kind, link, parts);
            let below = Setup {
                rate: link.rate,
                largest: link.largest,
                scheduler: scheduler.clone(),
                flows,
            };
            setup.inner = Some(Box::new(Inner { kind: chosen.entry.kind, setup: below }));
        }
        setup
    };
    flows.iter().map(one).collect()
}

/// All flows that a discipline of `kind` sees, depth first.
pub(crate) fn classes<'r, 'a>(kind: &str, flows: &'r [FlowRead<'a>]) -> Vec<&'r FlowRead<'a>> {
    let below = |flow: &'r FlowRead<'a>| match &flow.parts {
        Some((_, _, parts)) if is_joined(kind, flow) => classes(kind, parts),
        _ => Vec::new(),
    };
    flows.iter().flat_map(|flow| std::iter::once(flow).chain(below(flow))).collect()
}

/// For each flow, the guaranteed rates of its leaves, of which there is one at least. The rate is
/// `None` for leaves below another discipline.
pub(crate) fn guaranteed(
    kind: &str,
    rates: &[Option<Rate>],
    flows: &[FlowRead<'_>],
) -> Vec<Vec<Option<Rate>>> {
    fn leaves(
        kind: &str,
        rates: &mut impl Iterator<Item = Option<Rate>>,
        flow: &FlowRead<'_>,
    ) -> Vec<Option<Rate>> {
        let Some((_, _, parts)) = &flow.parts else { return vec![rates.next().flatten()] };
        if is_joined(kind, flow) {
            return parts.iter().flat_map(|part| leaves(kind, rates, part)).collect();
        }
        rates.next();
        vec![None; count(parts)]
    }
    fn count(flows: &[FlowRead<'_>]) -> usize {
        flows.iter().map(|flow| flow.parts.as_ref().map_or(1, |(_, _, parts)| count(parts))).sum()
    }
    let mut rates = rates.iter().copied();
    flows.iter().map(|flow| leaves(kind, &mut rates, flow)).collect()
}

/// Completes `setup`, whose flows were [joined]: each flow with parts gets an inner discipline,
/// unless the outer discipline schedules the parts too. The inner discipline's rate is the flow's
/// guaranteed rate (from `rates`). Without a guarantee it is the rate of `setup`: the link's, or
/// that of the enclosing inner discipline. Reports errors at their places, and returns false if
/// there are any.
pub(crate) fn divide(
    setup: &mut Setup,
    rates: &mut std::slice::Iter<'_, Option<Rate>>,
    flows: &[FlowRead<'_>],
    beside: &Path,
    problems: &mut Vec<Problem>,
) -> bool {
    let mut good = true;
    let link = Setup { flows: Vec::new(), scheduler: Values::default(), ..*setup };
    for (own, flow) in setup.flows.iter_mut().zip(flows) {
        let Some((chosen, scheduler, parts)) = &flow.parts else {
            rates.next();
            continue;
        };
        good &= takes_all(flow, parts, problems);
        if let Some(inner) = &mut own.inner {
            good &= divide(&mut inner.setup, rates, parts, beside, problems);
            continue;
        }
        let inner = chosen.entry.kind;
        let rate = rates.next().copied().flatten().filter(|r| r.0 > 0).unwrap_or(link.rate);
        let link = Setup { rate, ..link.clone() };
        let mut scheduler = scheduler.clone();
        if plugin::load(chosen.entry, chosen.fields.as_ref(), &mut scheduler, beside, problems)
            .is_none()
        {
            good = false;
            continue;
        }
        let mut below = Setup { flows: joined(inner, &link, parts), scheduler, ..link };
        let slots = registry::joined(inner, &below).flows.len() as u32;
        match registry::build(inner, &below, Guaranteed { flows: (0..slots).map(FlowId).collect() })
        {
            Ok(rates) => {
                let taken = oversubscription::taken(chosen.entry, &below);
                let classes = classes(inner, parts);
                problems.extend(
                    taken.map(|t| taken_all_the_same(t, &[&flow.fields], chosen, &classes)),
                );
                good &= divide(&mut below, &mut rates.iter(), parts, beside, problems);
            }
            Err(refused) => {
                let classes = classes(inner, parts);
                problems.extend(
                    refused.into_iter().map(|r| refusal(r, &[&flow.fields], chosen, &classes)),
                );
                good = false;
            }
        }
        own.inner = Some(Box::new(Inner { kind: inner, setup: below }));
    }
    good
}

/// Returns true if each part gets packets, and each packet of the flow belongs to a part; otherwise
/// reports errors.
fn takes_all(flow: &FlowRead<'_>, parts: &[FlowRead<'_>], problems: &mut Vec<Problem>) -> bool {
    let mut good = true;
    for part in parts {
        let contradict = |own: &Match| part.flow.matches.iter().all(|rule| own.and(rule).is_none());
        if flow.flow.matches.iter().all(contradict) {
            let at = part.fields.field("match").map_or(part.fields.at.clone(), |f| f.at.clone());
            problems.push(
                Problem::error(at, format!("no packet reaches {}", part.fields.what))
                    .help(format!("no packet matches both it and {}", flow.fields.what)),
            );
            good = false;
        }
    }
    // True if all packets of the flow come from the adapters of its parts.
    let adapters = flow.flow.adapter.is_none() && parts.iter().any(|part| part.adapters);
    if let Some(last) =
        parts.last().filter(|last| !adapters && !last.flow.matches.iter().any(Match::is_any))
    {
        problems.push(
            Problem::error(
                last.fields.at.clone(),
                format!("the parts of {} do not match all of its packets", flow.fields.what),
            )
            .help("end them with one that has `match = \"any\"`"),
        );
        good = false;
    }
    good
}
