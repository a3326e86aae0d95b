//! The guarantees from each scheduled change on.

use super::report::{rate_of, refusals};
use anyhow::Result;
use falaj_plan::{Way, plan};
use falaj_scenario::Scenario;
use falaj_sched::units::time::Span;
use falaj_terminal::text;
use falaj_theory::network::BoundMethod;
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// Maximum number of phases that are printed as text.
const MOST: usize = 20;

/// A phase: all periods of the run in which the same scenario holds.
pub(super) struct Phase {
    scenario: Arc<Scenario>,
    /// The settings that began its first period.
    sets: Arc<[String]>,
    /// Start of each period, measured from the start of the run.
    from: Vec<Span>,
}

/// Returns the phases that scheduled changes begin, in the order in which they first occur. The
/// phase at the start of the run is left out.
pub(super) fn phases(scenario: &Scenario) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut numbers = std::collections::BTreeMap::new();
    for change in scenario.changes.before(scenario.run.duration) {
        let next = phases.len();
        let number = *numbers.entry(Arc::as_ptr(&change.scenario)).or_insert(next);
        if number == next {
            phases.push(Phase { scenario: change.scenario, sets: change.sets, from: Vec::new() });
        }
        phases[number].from.push(change.at);
    }
    phases
}

impl Phase {
    fn begins(&self) -> String {
        match &self.from[..] {
            [only] => only.to_string(),
            [first, second] => format!("{first}, {second}"),
            [first, second, more @ ..] => format!("{first}, {second}, {} more", more.len()),
            [] => text::DASH.into(),
        }
    }
}

/// Prints the guarantees of each phase. Returns true if a requirement is not met in one.
pub(super) fn print(phases: &[Phase]) -> Result<bool> {
    if phases.is_empty() {
        return Ok(false);
    }
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    for (n, phase) in phases.iter().enumerate() {
        let ways = plan(&phase.scenario)?;
        refused.extend(ways.iter().filter(|way| !way.unmet.is_empty()).flat_map(|way| {
            let begins = phase.begins();
            refusals(way).map(move |refusal| format!("  from {begins} on: {refusal}"))
        }));
        if n < MOST {
            let mut first = [phase.begins(), phase.sets.join(" ")];
            for row in ways.iter().filter(|way| !way.same).flat_map(way_rows) {
                rows.push([std::mem::take(&mut first).to_vec(), row].concat());
            }
        }
    }
    say!("scheduled changes:");
    let header = ["from", "change", "link", "flow", "rate, backlogged >=", "delay <="];
    say!("{}", text::table(&header, rows));
    if phases.len() > MOST {
        say!("  and {} more: --json has all", phases.len() - MOST);
    }
    say!(
        "  delay <= holds for packets that arrive at queues without a backlog of the phase before"
    );
    refused.iter().for_each(|line| say!("{line}"));
    say!("");
    Ok(!refused.is_empty())
}

fn way_rows<'a>(way: &'a Way<'_>) -> impl Iterator<Item = Vec<String>> + 'a {
    way.flows.iter().map(|flow| {
        let rate = flow.guarantee.as_ref().map_or(text::DASH.into(), |_| rate_of(flow));
        let delay = flow.guaranteed().map(|delay| text::nanos(delay.delay.0 as f64));
        let link = format!("{} {}", way.link, way.name());
        vec![link, flow.name.clone(), rate, delay.unwrap_or(text::DASH.into())]
    })
}

/// Returns the phases as JSON, each with its whole plan, and true if a requirement is not met in
/// one. Bounds over several links are those of all methods, or of the method `only`.
pub(super) fn json(phases: &[Phase], only: Option<BoundMethod>) -> Result<(Json, bool)> {
    let (mut all, mut refused) = (Vec::new(), false);
    for phase in phases {
        let ways = plan(&phase.scenario)?;
        refused |= ways.iter().any(|way| !way.unmet.is_empty());
        let mut out = falaj_plan::json::all(&phase.scenario, &ways, None, only);
        out["set"] = json!(phase.sets[..]);
        out["from_ns"] = phase.from.iter().map(|at| at.0).collect();
        all.push(out);
    }
    Ok((json!(all), refused))
}
