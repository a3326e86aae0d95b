//! As many replications as it takes: until intervals are as narrow as was asked for.

use crate::measure::{Measure, Until};
use crate::replication_plan::more;
use crate::scenario::{all_flows, name_of, pipe_of};
use crate::study::Study;
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::FlowId;
use falaj_traffic::interval::Estimate;

/// So many replications at most, where nothing else is said.
pub const LIMIT: usize = 1000;

/// So many come first: of fewer, an interval hardly says anything.
pub const FIRST: usize = 10;

/// Does a scenario have the flow that is asked about?
///
/// # Errors
/// That it has not, and which there are.
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

/// The quantiles that are asked about.
pub fn quantiles(asked: &[Until]) -> Vec<f64> {
    asked.iter().filter_map(|until| quantile(until.measure)).collect()
}

/// Which quantile it is, if it is one.
pub fn quantile(measure: Measure) -> Option<f64> {
    match measure {
        Measure::DelayQuantile(share) => Some(share),
        _ => None,
    }
}

/// So many replications there should be in all; of several studies under the same arrivals as for
/// the differences from the first.
pub fn wanted(scenario: &Scenario, asked: &[Until], studies: &[Study]) -> usize {
    let have = studies[0].replications();
    if have < FIRST {
        return FIRST;
    }
    let of = |until: &Until| match width(scenario, until, studies) {
        Some(now) if now <= until.within => have,
        // Replications that are too short for a quantile stay so.
        None if quantile(until.measure).is_some() => have,
        now => more(have, now, until.within),
    };
    asked.iter().map(of).max().unwrap_or(have)
}

/// Half of the widest interval, as a part of its estimate; of several studies those of the
/// differences from the first, as a part of its estimate. `None` where one is not known.
pub fn width(scenario: &Scenario, until: &Until, studies: &[Study]) -> Option<f64> {
    let mut widest: Option<f64> = None;
    for at in all_flows(scenario) {
        let of = |study: &Study| study.flow(pipe_of(at.0, at.1), FlowId(at.2 as u32)).clone();
        let flows: Vec<_> = studies.iter().map(of).collect();
        let asked = until.flow.as_ref().map(|flow| *flow == name_of(scenario, at));
        if asked.unwrap_or(flows[0].counters.offered > 0) {
            let estimate = flows[0].estimate(until.measure);
            // Who loses nothing has no share that could be known better, unless it was asked for.
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
