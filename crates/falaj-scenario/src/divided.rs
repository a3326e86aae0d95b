//! A flow that is divided: the parts that it has, and the discipline below it
//! that divides its share among them.

use crate::diagnostics::Problem;
use crate::flows::{FlowRead, FlowTable, flow_table, read_flows};
use crate::keys::{self, Key};
use crate::link::{Chosen, Promised, chosen, refusal, values};
use crate::model::{Flow, Towards};
use crate::read::Fields;
use falaj_engine::classifier::Match;
use falaj_sched::params::{Inner, Setup, Values};
use falaj_sched::queue::FlowId;
use falaj_sched::rate::Rate;
use falaj_sched::registry;
use toml::de::{DeTable, DeValue};

/// What divides a flow, and its parts.
pub(crate) type Parts<'a> = Option<(Chosen<'a>, Values, Vec<FlowRead<'a>>)>;

impl FlowRead<'_> {
    /// The flow, or its parts if it has some: what packets belong to.
    pub(crate) fn leaves(self) -> Vec<Flow> {
        let Some((_, _, parts)) = self.parts else { return vec![self.flow] };
        let within = |part: FlowRead<'_>| {
            let both = |rule: &Match| self.flow.matches.iter().filter_map(|own| own.and(rule)).collect::<Vec<_>>();
            Flow {
                name: part_name(&self.flow.name, &part.flow.name),
                matches: part.flow.matches.iter().flat_map(both).collect(),
                need: part.flow.need,
                envelope: part.flow.envelope,
            }
        };
        parts.into_iter().map(within).collect()
    }
}

/// What the part of a flow is known by.
fn part_name(flow: &str, part: &str) -> String {
    format!("{flow}/{part}")
}

/// The names of what packets belong to, even where not all of it can be read.
pub(crate) fn leaf_names(table: &DeTable<'_>) -> Vec<String> {
    let names = |(name, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| {
        let name: &str = name.get_ref();
        let parts = value.get_ref().get("flow").and_then(|v| v.get_ref().as_table());
        match parts {
            Some(parts) if !parts.is_empty() => parts.keys().map(|part| part_name(name, part.get_ref())).collect(),
            _ => vec![name.to_owned()],
        }
    };
    table.iter().flat_map(names).collect()
}

/// Builds what divides flows, at the rates that they are promised; says what is
/// wrong with it where it stands. False: something is.
pub(crate) fn divide(
    setup: &mut Setup,
    rates: &[Option<Rate>],
    flows: &mut [FlowRead<'_>],
    problems: &mut Vec<Problem>,
) -> bool {
    let mut good = true;
    for (n, flow) in flows.iter_mut().enumerate() {
        let Some((chosen, scheduler, parts)) = &mut flow.parts else { continue };
        let below = Setup {
            rate: rates.get(n).copied().flatten().filter(|r| r.0 > 0).unwrap_or(setup.rate),
            largest: setup.largest,
            scheduler: scheduler.clone(),
            flows: parts.iter().map(|p| p.setup.clone()).collect(),
        };
        if let Err(refused) = registry::build(
            chosen.entry.kind,
            &below,
            Promised { flows: (0..parts.len() as u32).map(FlowId).collect() },
        ) {
            problems.extend(refused.into_iter().map(|r| refusal(r, &[&flow.fields], chosen, parts)));
            good = false;
        }
        for part in parts.iter() {
            let contradict = |own: &Match| part.flow.matches.iter().all(|rule| own.and(rule).is_none());
            if flow.flow.matches.iter().all(contradict) {
                let at = part.fields.field("match").map_or(part.fields.at.clone(), |f| f.at.clone());
                problems.push(
                    Problem::error(at, format!("no packet reaches {}", part.fields.what))
                        .help(format!("what it matches is nothing that {} matches", flow.fields.what)),
                );
                good = false;
            }
        }
        if let Some(last) = parts.last().filter(|last| !last.flow.matches.iter().any(Match::is_any)) {
            problems.push(
                Problem::error(
                    last.fields.at.clone(),
                    format!("the parts of {} do not take all of it", flow.fields.what),
                )
                .help("end them with one that has `match = \"any\"`"),
            );
            good = false;
        }
        setup.flows[n].inner = Some(Box::new(Inner { kind: chosen.entry.kind, setup: below }));
    }
    good
}

/// The parts of a flow and what divides it among them; an error was said.
pub(crate) fn parts<'a>(fields: &Fields<'a>, towards: Towards, problems: &mut Vec<Problem>) -> Result<Parts<'a>, ()> {
    let table = match flow_table(&[fields]) {
        FlowTable::Given(table) => table,
        FlowTable::Wrong => return Err(()),
        FlowTable::Absent => {
            let Some(scheduler) = fields.field("scheduler") else { return Ok(None) };
            problems.push(
                Problem::error(
                    scheduler.name_at.clone(),
                    format!("{} has a scheduler, but nothing to divide", fields.what),
                )
                .help("add its parts, `[link.LINK.flow.FLOW.flow.PART]`, or leave the scheduler out"),
            );
            return Err(());
        }
    };
    // Each says something of packets in a queue, and would be of none.
    let of_a_queue = [
        ("each", "no mask"),
        ("queue", "no queue"),
        ("need", "no need of its own"),
        ("envelope", "no envelope of its own"),
    ];
    let given = of_a_queue.into_iter().filter_map(|(key, what)| Some((key, what, fields.field(key)?)));
    let mut undivided = true;
    for (key, what, field) in given {
        problems.push(
            Problem::error(field.name_at.clone(), format!("{} is divided, so it has {what}", fields.what)).help(
                if key == "each" {
                    "put `each` on the link, which makes a scheduler for each".to_owned()
                } else {
                    format!("its parts have: write `{key}` there")
                },
            ),
        );
        undivided = false;
    }
    if !undivided {
        return Err(());
    }
    let chosen = chosen(&[fields], problems).ok_or(())?;
    let own = chosen.fields.as_ref();
    let scheduler =
        values(&own.into_iter().collect::<Vec<_>>(), chosen.entry.scheduler.iter().map(Key::from), problems);
    let parts = read_flows(table, keys::PART, Some(chosen.entry), &[], towards, problems);
    Ok(Some((chosen, scheduler.ok_or(())?, parts.ok_or(())?)))
}
