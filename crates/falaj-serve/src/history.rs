//! The last hour of each flow in steps of ten seconds, for the analysis of an incident.
//!
//! A step has the mean rates, the largest delays and backlogs, and the numbers of drops and
//! violations. At most 400,000 steps are kept of all flows, where a flow counts once for each of
//! its directions. So with more than 1,111 flows the history is shorter than an hour. At least 30
//! steps of each flow are kept even then, so above 13,333 flows the memory grows with their number.

use super::model::{Adapter, Flow, FlowHistory, HistoryStep, Sample};
use super::watch::flow_name;
use std::collections::{BTreeMap, VecDeque};

/// Length of a step, ns.
const STEP_NS: u64 = 10_000_000_000;
/// Maximum number of steps that are kept of a flow: an hour.
const STEPS: usize = 360;
/// Maximum number of steps that are kept of all flows together, at about 80 bytes each.
/// [`STEPS_AT_LEAST`] steps of each flow are kept in any case.
const STEPS_OF_ALL: usize = 400_000;
/// Minimum number of steps that are kept of each flow, however many flows there are.
const STEPS_AT_LEAST: usize = 30;

/// The history of all flows.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The history of each flow, by link, direction and flow.
    lanes: BTreeMap<String, Lane>,
    /// Reasons for drops. A step names a reason by its index here.
    reasons: Vec<String>,
}

/// The history of a flow in one direction.
#[derive(Debug, Default)]
struct Lane {
    steps: VecDeque<Step>,
    /// The counts of the last sample: drops by reason, and violations of guarantees.
    dropped: BTreeMap<String, u64>,
    broken: u64,
    /// True if there was a sample before.
    began: bool,
}

/// Ten seconds of a flow. A missing value is NaN.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    /// Number of steps from the service's start.
    number: u64,
    samples: u32,
    /// Sums of the rates over the samples, in bits per second.
    offered: f32,
    sent: f32,
    p50: f32,
    p99: f32,
    longest: f32,
    rate: f32,
    delay: f32,
    backlog: u32,
    broken: u32,
    /// Dropped packets: the index of the reason, and the number of packets.
    dropped: Vec<(u8, u32)>,
}

impl Step {
    fn new(number: u64) -> Step {
        Step {
            number,
            samples: 0,
            offered: 0.0,
            sent: 0.0,
            p50: f32::NAN,
            p99: f32::NAN,
            longest: f32::NAN,
            rate: f32::NAN,
            delay: f32::NAN,
            backlog: 0,
            broken: 0,
            dropped: Vec::new(),
        }
    }
}

impl History {
    /// Adds a sample.
    pub(super) fn push(&mut self, sample: &Sample) {
        let number = sample.at_ns / STEP_NS;
        let mut there = BTreeMap::new();
        for adapter in &sample.adapters {
            for (way, flows) in [("up", &adapter.up), ("down", &adapter.down)] {
                for flow in flows {
                    let name = flow_name(&adapter.link, way, &flow.flow);
                    let mut lane = self.lanes.remove(&name).unwrap_or_default();
                    lane.push(number, flow, &mut self.reasons);
                    there.insert(name, lane);
                }
            }
        }
        // The history of a flow is deleted when the flow no longer exists.
        self.lanes = there;
        let most = (STEPS_OF_ALL / self.lanes.len().max(1)).clamp(STEPS_AT_LEAST, STEPS);
        for lane in self.lanes.values_mut() {
            while lane.steps.len() > most {
                lane.steps.pop_front();
            }
        }
    }

    /// The history of an adapter's flows.
    pub(super) fn of(&self, adapter: &Adapter) -> Vec<FlowHistory> {
        let steps = |way: &str, flow: &str| -> Vec<HistoryStep> {
            let lane = self.lanes.get(&flow_name(&adapter.link, way, flow));
            lane.iter().flat_map(|lane| &lane.steps).map(|step| self.told(step)).collect()
        };
        let mut names: Vec<&str> =
            adapter.up.iter().chain(&adapter.down).map(|flow| flow.flow.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let one = |flow: &str| FlowHistory {
            flow: flow.to_owned(),
            up: steps("up", flow),
            down: steps("down", flow),
        };
        names.into_iter().map(one).collect()
    }

    fn told(&self, step: &Step) -> HistoryStep {
        let whole = |value: f32| (!value.is_nan()).then_some(value as u64);
        let mean = |sum: f32| f64::from(sum) / f64::from(step.samples.max(1));
        let reason = |number: u8| self.reasons.get(usize::from(number)).cloned();
        HistoryStep {
            end_ns: (step.number + 1) * STEP_NS,
            offered: mean(step.offered),
            sent: mean(step.sent),
            p50_ns: whole(step.p50),
            p99_ns: whole(step.p99),
            max_ns: whole(step.longest),
            rate: whole(step.rate),
            delay_ns: whole(step.delay),
            backlog: step.backlog.into(),
            broken: step.broken.into(),
            dropped: step
                .dropped
                .iter()
                .filter_map(|&(number, packets)| Some((reason(number)?, packets.into())))
                .collect(),
        }
    }
}

impl Lane {
    fn push(&mut self, number: u64, flow: &Flow, reasons: &mut Vec<String>) {
        if self.steps.back().is_none_or(|last| last.number != number) {
            self.steps.push_back(Step::new(number));
        }
        let Some(step) = self.steps.back_mut() else { return };
        let larger = |was: &mut f32, value: Option<u64>| {
            // If there was no value before, the new value is the maximum.
            *was = value.map_or(*was, |value| was.max(value as f32));
        };
        if let Some(window) = &flow.window {
            step.samples += 1;
            step.offered += window.offered as f32;
            step.sent += window.sent as f32;
            larger(&mut step.p50, window.delay.p50_ns);
            larger(&mut step.p99, window.delay.p99_ns);
            larger(&mut step.longest, window.delay.max_ns);
        }
        // A step has the guarantee that holds at its end.
        step.rate = flow.guarantee.rate.map_or(f32::NAN, |rate| rate as f32);
        step.delay = flow.guarantee.delay_ns.map_or(f32::NAN, |delay| delay as f32);
        step.backlog = step.backlog.max(u32::try_from(flow.backlog).unwrap_or(u32::MAX));
        let short = |more: u64| u32::try_from(more).unwrap_or(u32::MAX);
        let broken = flow.breaches.guarantee + flow.breaches.rate;
        if self.began {
            step.broken = step.broken.saturating_add(short(broken.saturating_sub(self.broken)));
            for (reason, total) in &flow.total.dropped {
                let before = self.dropped.get(reason).copied().unwrap_or_default();
                let more = short(total.saturating_sub(before));
                if more > 0 {
                    let number = number_of(reason, reasons);
                    match step.dropped.iter_mut().find(|(known, _)| *known == number) {
                        Some((_, packets)) => *packets = packets.saturating_add(more),
                        None => step.dropped.push((number, more)),
                    }
                }
            }
        }
        (self.dropped, self.broken, self.began) = (flow.total.dropped.clone(), broken, true);
    }
}

/// Returns the index of a reason. A new reason is appended. There are about a dozen reasons.
fn number_of(reason: &str, reasons: &mut Vec<String>) -> u8 {
    let at = reasons.iter().position(|known| known == reason).unwrap_or_else(|| {
        reasons.push(reason.to_owned());
        reasons.len() - 1
    });
    u8::try_from(at).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::model::{Quantiles, Window};
    use super::*;

    fn sample(second: u64, flows: usize, longest: u64, dropped: u64) -> Sample {
        let flow = Flow {
            flow: "a".into(),
            window: Some(Window {
                sent: second as f64,
                delay: Quantiles { max_ns: Some(longest), ..Quantiles::default() },
                ..Window::default()
            }),
            ..Flow::default()
        };
        let mut flow = flow;
        flow.total.dropped.insert("queue_full".into(), dropped);
        flow.guarantee.delay_ns = Some(5000);
        let adapter = |n: usize| Adapter {
            name: format!("a{n}"),
            link: format!("l{n}"),
            up: vec![flow.clone()],
            ..Adapter::default()
        };
        Sample {
            at_ns: second * 1_000_000_000,
            adapters: (0..flows).map(adapter).collect(),
            ..Sample::default()
        }
    }

    /// An incident of one second is in the history for an hour, and no longer.
    #[test]
    fn an_hour_is_kept_with_its_worst_moments() {
        let mut history = History::default();
        for second in 0..3600 {
            let bad = second == 17;
            let dropped = if second >= 17 { 40 } else { 0 };
            history.push(&sample(second, 1, if bad { 9000 } else { 1000 }, dropped));
        }
        let adapter = &sample(0, 1, 0, 0).adapters[0];
        let told = history.of(adapter);
        assert_eq!((told.len(), told[0].up.len(), told[0].down.len()), (1, 360, 0));
        let step = &told[0].up[1];
        assert_eq!((step.end_ns, step.sent), (20_000_000_000, 14.5));
        assert_eq!((step.max_ns, step.delay_ns, step.p50_ns), (Some(9000), Some(5000), None));
        assert_eq!(step.dropped.get("queue_full"), Some(&40));
        assert!(told[0].up[2].dropped.is_empty() && told[0].up[2].max_ns == Some(1000));
        for second in 3600..3700 {
            history.push(&sample(second, 1, 1000, 40));
        }
        assert_eq!(history.of(adapter)[0].up.len(), 360);
        assert!(history.of(adapter)[0].up.iter().all(|step| step.max_ns == Some(1000)));
    }

    /// With many flows, each flow has a shorter history. A flow that no longer exists has none.
    #[test]
    fn memory_is_bounded() {
        let mut history = History::default();
        for second in (0..2000).step_by(10) {
            history.push(&sample(second, 4000, 1, 0));
        }
        let kept: usize = history.lanes.values().map(|lane| lane.steps.len()).sum();
        assert_eq!(kept, STEPS_OF_ALL);
        assert!(size_of::<Step>() <= 80);
        history.push(&sample(2000, 1, 1, 0));
        assert_eq!(history.lanes.len(), 1);
    }
}
