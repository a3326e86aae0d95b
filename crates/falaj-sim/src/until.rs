//! Replications until the intervals are as narrow as required.

use crate::measure::{Measure, Until};
use crate::replication_plan::more;
use crate::scenario::{all_flows, name_of, pipe_of};
use crate::study::Study;
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::FlowId;
use falaj_traffic::interval::Estimate;

/// Default maximum number of replications.
pub const LIMIT: usize = 1000;

/// Number of replications before the first check: an interval of fewer replications is too
/// unreliable.
pub const FIRST: usize = 10;

/// Checks that the scenario has the flow that `until` names.
///
/// # Errors
/// The scenario has no such flow; the message lists its flows.
pub fn known(scenario: &Scenario, until: &Until) -> Result<(), String> {
    let names: Vec<String> =
        all_flows(scenario).into_iter().map(|at| name_of(scenario, at)).collect();
    match until.flow.as_ref().filter(|flow| !names.contains(flow)) {
        Some(flow) => {
            Err(format!("`{until}`: there is no flow `{flow}`; there are `{}`", names.join("`, `")))
        }
        None => Ok(()),
    }
}

/// The quantiles among the required measures.
pub fn quantiles(asked: &[Until]) -> Vec<f64> {
    asked.iter().filter_map(|until| quantile(until.measure)).collect()
}

/// Returns the quantile, if the measure is a quantile.
pub fn quantile(measure: Measure) -> Option<f64> {
    match measure {
        Measure::DelayQuantile(share) => Some(share),
        _ => None,
    }
}

/// Returns the total number of replications that are needed. If there are several studies with the
/// same arrivals, the intervals are those of the differences from the first study.
pub fn wanted(scenario: &Scenario, asked: &[Until], studies: &[Study]) -> usize {
    let have = studies[0].replications();
    if have < FIRST {
        return FIRST;
    }
    let of = |until: &Until| match width(scenario, until, studies) {
        Some(now) if now <= until.within => have,
        // If the replications are too short for a quantile, more of them do not help.
        None if quantile(until.measure).is_some() => have,
        now => more(have, now, until.within),
    };
    asked.iter().map(of).max().unwrap_or(have)
}

/// Returns half the width of the widest interval, as a fraction of its estimate. If there are
/// several studies, the intervals are those of the differences from the first study, as fractions
/// of the first study's estimate. Returns `None` if one of the intervals is not known.
pub fn width(scenario: &Scenario, until: &Until, studies: &[Study]) -> Option<f64> {
    let mut widest: Option<f64> = None;
    for at in all_flows(scenario) {
        let of = |study: &Study| study.flow(pipe_of(at.0, at.1), FlowId(at.2 as u32)).clone();
        let flows: Vec<_> = studies.iter().map(of).collect();
        let asked = until.flow.as_ref().map(|flow| *flow == name_of(scenario, at));
        if asked.unwrap_or(flows[0].counters.offered > 0) {
            let estimate = flows[0].estimate(until.measure);
            // A flow without losses has no loss rate whose interval could become narrower, so it is
            // skipped, unless the user named this flow.
            if until.flow.is_none()
                && until.measure == Measure::Loss
                && estimate.is_some_and(|e| e.mean == 0.0)
            {
                continue;
            }
            let halves: Vec<f64> = match &flows[..] {
                [_] => vec![estimate?.half_width?],
                [first, others @ ..] => {
                    let half = |other| first.difference(other, until.measure)?.half_width;
                    others.iter().map(half).collect::<Option<_>>()?
                }
                [] => Vec::new(),
            };
            for half in halves {
                let now = Estimate { half_width: Some(half), ..estimate? }.relative()?;
                widest = Some(widest.map_or(now, |widest| widest.max(now)));
            }
        }
    }
    widest
}
