//! Requirements of flows that their guarantees do not meet, and settings that would meet them.

use crate::bounds::{Envelope, Outlook, Rivals, outlooks, served};
use crate::words;
use falaj_scenario::{Direction, Requirement};
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{Inner, Kind, Param, Setup, Value};
use falaj_sched::queues::queue::Limit;
use falaj_sched::registry::{self, ENTRIES};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_theory::whole;

/// A flow whose guarantee does not meet its requirement.
pub struct Unmet {
    /// The index of the flow.
    pub flow: usize,
    /// The requirement and the guarantee, in words.
    pub what: String,
    /// Settings that would meet the requirement, in words.
    pub help: String,
}

/// The guaranteed rate and the guaranteed delay of a flow; `None` for a value without guarantee.
type RateAndDelay = (Option<Rate>, Option<Span>);

fn met(requires: Requirement, (rate, delay): RateAndDelay) -> bool {
    requires.rate.is_none_or(|needed| rate.is_some_and(|r| r >= needed))
        && requires.delay.is_none_or(|needed| delay.is_some_and(|d| d <= needed))
}

fn guaranteed(flow: &Outlook) -> RateAndDelay {
    (flow.guarantee.as_ref().ok().map(|p| p.rate), flow.guaranteed().map(|d| d.delay))
}

/// Maximum number of flows for which settings that would fit are searched.
const SOLVED: usize = 16;

/// The flows whose guarantees do not meet their requirements.
pub fn unmet(direction: &Direction, flows: &[Outlook]) -> Vec<Unmet> {
    let now: Vec<RateAndDelay> = flows.iter().map(guaranteed).collect();
    let mut all = Vec::new();
    for (flow, &(rate, delay)) in now.iter().enumerate() {
        let requires = direction.flows[flow].requires;
        if met(requires, now[flow]) {
            continue;
        }
        let mut what = Vec::new();
        let rate = rate.unwrap_or(Rate(0));
        if let Some(needed) = requires.rate.filter(|&needed| rate < needed) {
            what.push(format!("needs {needed}, is guaranteed {}", words::link_rate(rate)));
        }
        if let Some(needed) = requires.delay.filter(|&needed| delay.is_none_or(|d| d > needed)) {
            what.push(format!(
                "needs a delay of at most {needed}, is guaranteed {}",
                words::span(delay)
            ));
        }
        // The search queries the discipline many times, so settings are searched only for the first
        // flows.
        let help = match all.len() {
            0..SOLVED => what_would_fit(direction, flow, &flows[flow], &now),
            _ => "settings that would meet the requirement are searched for the first flows only"
                .into(),
        };
        all.push(Unmet { flow, what: what.join(" and "), help });
    }
    all
}

/// The guarantees of all flows with this configuration. Delays by envelopes are computed only for
/// flows that require a delay. `None` if the discipline refuses the setup.
fn guaranteed_with(direction: &Direction) -> Option<Vec<RateAndDelay>> {
    let served = served(direction, &direction.pipe.setup).ok()?;
    if served.shared.is_some() {
        return Some(outlooks(direction, &[]).ok()?.iter().map(guaranteed).collect());
    }
    let declared: Vec<Option<Envelope>> = direction.flows.iter().map(Envelope::declared).collect();
    let needed = direction.flows.iter().any(|flow| flow.requires.delay.is_some());
    let rivals = needed
        .then(|| Rivals::of(&direction.pipe, &served, declared.iter().map(Option::as_ref)))
        .flatten();
    let each =
        direction.flows.iter().zip(&served.guarantees).enumerate().map(|(f, (flow, guarantee))| {
            let own = flow.requires.delay.and(declared[f].as_ref());
            let curves = own.zip(served.service(f)).and_then(|(own, (_, _, service))| {
                Some(served.distances(f, &own.curve, &service)?.delay)
            });
            let left = own.zip(rivals.as_ref()).map_or_else(Vec::new, |(own, rivals)| {
                let left = rivals.left_over(f, &own.curve);
                left.iter().filter_map(|left| own.curve.delay(&left.service)).collect()
            });
            let full = guarantee.as_ref().ok().map(|guarantee| guarantee.delay.delay);
            let delays = curves.into_iter().chain(left).map(|delay| Span(whole(&delay.length)));
            (guarantee.as_ref().ok().map(|guarantee| guarantee.rate), delays.chain(full).min())
        });
    Some(each.collect())
}

/// A quantitative parameter of a flow, by which its share of the link changes.
struct SolvedShare {
    name: &'static str,
    /// The divided flow, if the parameter belongs to the divided flow and not to the part itself.
    of: Option<usize>,
    /// Step of the search: a value that suits the unit, such as the time of a packet.
    step: u64,
    least: u64,
    most: u64,
    value: fn(u64) -> Value,
}

/// The parameters of the discipline by which a flow gets more or less of the link.
fn shares(entry: &Manifest, of: Option<usize>, setup: &Setup) -> Vec<SolvedShare> {
    let share = |param: &Param| {
        let (step, value): (u64, fn(u64) -> Value) = match param.kind {
            // A delay is shortest if a whole number of packets fits into this time.
            Kind::Span => (setup.largest_airtime().0, |v| Value::Span(Span(v))),
            Kind::Bytes => (setup.largest.into(), Value::Bytes),
            Kind::Rate => (setup.rate.0 / 1000, |v| Value::Rate(Rate(v))),
            Kind::Count { .. } => (1, Value::Count),
            Kind::Limit | Kind::Probability | Kind::Choice(_) => return None,
        };
        let (least, most) =
            if let Kind::Count { min, max } = param.kind { (min, max) } else { (1, u64::MAX) };
        Some(SolvedShare { name: param.name, of, step: step.max(1), least, most, value })
    };
    entry.flow.iter().filter_map(share).collect()
}

/// The parameters that change the share of a flow. For a part of a divided flow these are the
/// part's own parameters and those of the divided flow.
fn shares_of(direction: &Direction, leaf: usize) -> Vec<SolvedShare> {
    let setup = &direction.pipe.setup;
    let divided = setup.flow_of_leaf(leaf).and_then(|f| Some((f, deepest(setup, leaf)?)));
    let Some((f, inner)) = divided else { return shares(direction.scheduler(), None, setup) };
    let within = registry::entry(inner.kind)
        .map_or_else(Vec::new, |entry| shares(entry, None, &inner.setup));
    within.into_iter().chain(shares(direction.scheduler(), Some(f), setup)).collect()
}

/// The innermost discipline that serves a leaf within its divided flow; `None` if the leaf's flow
/// is not divided.
fn deepest(setup: &Setup, leaf: usize) -> Option<&Inner> {
    let (f, within) = setup.way_to_leaf(leaf)?;
    let inner = setup.flows[f].inner.as_deref()?;
    deepest(&inner.setup, within).or(Some(inner))
}

/// The value as it is written in a scenario file.
fn written(value: Value) -> String {
    match value {
        Value::Span(v) => format!("\"{v}\""),
        Value::Rate(v) => format!("\"{v}\""),
        Value::Bytes(v) => format!("\"{v}B\""),
        Value::Limit(v) => format!("\"{v}\""),
        Value::Count(v) => v.to_string(),
        Value::Probability(v) => format!("\"{v}\""),
        Value::Choice(v) => format!("\"{v}\""),
        Value::Policy(v) => format!("\"{}\"", v.name()),
    }
}

/// Changes of single settings of the flow that would meet its requirement. No other flow whose
/// requirement is met loses that guarantee.
fn what_would_fit(
    direction: &Direction,
    flow: usize,
    outlook: &Outlook,
    now: &[RateAndDelay],
) -> String {
    let fits = |with: &Direction| {
        guaranteed_with(with).is_some_and(|then| {
            let keeps = |f: usize| met(direction.flows[f].requires, then[f]);
            keeps(flow)
                && (0..then.len()).all(|f| keeps(f) || !met(direction.flows[f].requires, now[f]))
        })
    };
    let shares = shares_of(direction, flow);
    let mut found: Vec<String> = shares
        .iter()
        .filter_map(|share| {
            let value = |v: u64| (share.value)(v.clamp(share.least, share.most));
            let with = |v: u64| {
                let mut with = direction.clone();
                let flow = match share.of {
                    Some(f) => with.pipe.setup.flows.get_mut(f),
                    None => with.pipe.setup.leaf_mut(flow),
                };
                if let Some(flow) = flow {
                    flow.values.set(share.name, value(v));
                }
                with
            };
            let least = smallest(share, |v| fits(&with(v)))?;
            let whose = share.of.map_or("", |_| " of the flow that it is part of");
            Some(format!("`{} = {}`{whose}", share.name, written(value(least))))
        })
        .collect();
    found.extend(shorter_queue(direction, flow, outlook, &fits));
    let own = declare(direction, flow, outlook);
    let names: Vec<&str> = shares.iter().map(|s| s.name).collect();
    let mut help = match (found.as_slice(), names.as_slice()) {
        ([], []) => {
            let divide = ENTRIES
                .iter()
                .filter(|e| !self::shares(e, None, &direction.pipe.setup).is_empty())
                .map(|e| e.kind);
            let divide: Vec<String> = divide.map(|kind| format!("`{kind}`")).collect();
            format!("choose a scheduler that divides the link: {}", divide.join(" or "))
        }
        ([], names) => {
            let names = names.join(" or ");
            format!(
                "no value of this flow's {names} alone is enough: other flows must get less, or the queue must be shorter"
            )
        }
        (found, _) => format!("{} would fit", found.join(" or ")),
    };
    if let Some(own) = own {
        help.push_str(&own);
    }
    help
}

/// The smallest value for which `good` holds. A guarantee does not grow steadily with the share,
/// but in the form of a saw-tooth. So the search tries each of the first multiples of the step, and
/// later multiples at growing distances. Then it bisects below the first good value, to a
/// thousandth.
fn smallest(share: &SolvedShare, good: impl Fn(u64) -> bool) -> Option<u64> {
    let mut low = 0;
    let mut steps = 1;
    let mut high = loop {
        let candidate = share.step.saturating_mul(steps);
        if good(candidate) {
            break candidate;
        }
        if steps > 1 << 25 || candidate >= share.most {
            return None;
        }
        low = candidate;
        steps += 1 + steps / 128;
    };
    while high - low > (low / 1000).max(1) {
        let middle = low + (high - low) / 2;
        if good(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// The longest queue, shorter than the present one, for which a full queue meets the requirement.
/// A shorter queue would lose more packets.
fn shorter_queue(
    direction: &Direction,
    flow: usize,
    outlook: &Outlook,
    fits: &impl Fn(&Direction) -> bool,
) -> Option<String> {
    // A queue must hold a packet of the largest size.
    let (least, most, limit): (u64, u64, fn(u64) -> Limit) = match outlook.limit {
        Limit::Packets(n) => (1, n.into(), |n| Limit::Packets(n as u32)),
        Limit::Bytes(n) => (direction.pipe.setup.largest.into(), n, Limit::Bytes),
    };
    let of_scheduler = direction.scheduler().scheduler.iter().find(|p| p.kind == Kind::Limit);
    let with = |n: u64| {
        let mut with = direction.clone();
        match of_scheduler {
            Some(param) => with.pipe.setup.scheduler.set(param.name, Value::Limit(limit(n))),
            None => {
                if let Some(leaf) = with.pipe.setup.leaf_mut(flow) {
                    leaf.limit = limit(n);
                }
            }
        }
        with
    };
    if least >= most || !fits(&with(least)) {
        return None;
    }
    let (mut good, mut bad) = (least, most);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(&with(middle)) { good = middle } else { bad = middle }
    }
    let key = written(Value::Limit(limit(good)));
    Some(of_scheduler.map_or_else(
        || format!("`queue = {key}`"),
        |p| format!("`{} = {key}` of the scheduler", p.name),
    ))
}

/// Suggests declaring the envelope of the flow's sources, if the requirement would then be met.
fn declare(direction: &Direction, flow: usize, outlook: &Outlook) -> Option<String> {
    let (requires, expected) = (direction.flows[flow].requires, outlook.by_sources.as_ref()?);
    if outlook.together || !met(requires, (guaranteed(outlook).0, Some(expected.delay))) {
        return None;
    }
    let envelope = outlook.envelope.as_ref().ok()?;
    let &[(rate, burst)] = envelope.buckets.as_slice() else { return None };
    Some(format!(
        "; or, if it never sends more than {}, declare `envelope = {{ rate = \"{rate}\", burst = \"{burst}B\" }}`",
        crate::bounds::sources_named(&envelope.sources)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_good_tooth_is_found_to_its_edge() {
        let share = |step, most| SolvedShare {
            name: "weight",
            of: None,
            step,
            least: 1,
            most,
            value: Value::Count,
        };
        assert_eq!(smallest(&share(1, 100), |v| v >= 37), Some(37));
        assert_eq!(smallest(&share(1, 100), |v| v > 100), None);
        // One tooth from 4990 to 6000, and all values from 9000 on. The search finds them in steps
        // of 1000, then to a thousandth.
        let tooth =
            smallest(&share(1000, u64::MAX), |v| v >= 4990 && !(6000..9000).contains(&v)).unwrap();
        assert!((4990..=4995).contains(&tooth), "{tooth}");
        let far = smallest(&share(1000, u64::MAX), |v| v >= 7_777_777_777).unwrap();
        assert!((7_777_777_777..7_785_555_555).contains(&far), "within a thousandth: {far}");
    }
}
