//! The guarantees of each flow that hold whatever the other flows send; a service monitors them.
//! Also the result of admission, which accepts a delay bound that holds only if all flows keep to
//! their envelopes, too.

use crate::bounds::{Outlook, outlooks};
use crate::solve::unmet;
use falaj_scenario::{Direction, Flow, Requirement, Scenario, Towards};
use falaj_sched::contract::guarantee::RateCondition;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;

/// The guarantee of a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The flow's name.
    pub flow: String,
    /// The requirement that the scenario states for the flow.
    pub requires: Requirement,
    /// Guaranteed rate, and its latency, while the flow is backlogged; `None` if no rate is
    /// guaranteed.
    pub rate: Option<(Rate, Span)>,
    /// True if the rate holds only while more than two of the largest packets are queued.
    pub needs_queue: bool,
    /// Additional latency and delay after a change, until the link has been idle; `None` if nothing
    /// is guaranteed until then.
    pub settling: Option<Span>,
    /// Bound on the delay of a packet that found room in its queue, and the formula of the bound.
    pub delay: Option<(Span, String)>,
    /// The reason why nothing is guaranteed.
    pub none: Option<String>,
    /// The declared envelope: rates, and bursts in bytes.
    pub envelope: Vec<(Rate, u64)>,
    /// True if the delay holds only while the flow keeps to its envelope.
    pub on_condition: bool,
    /// The requirement that is not met, and a setting that would meet it.
    pub refused: Option<(String, String)>,
}

/// The guarantees of all flows, by pipe: up and then down of each link.
///
/// # Errors
/// A discipline refuses its setup.
pub fn standings(scenario: &Scenario) -> Result<Vec<Vec<Standing>>, ConfigErrors> {
    let mut all = Vec::new();
    for link in &scenario.links {
        let up = of_direction(link.direction(Towards::Up))?;
        let alike = are_alike(link.direction(Towards::Up), link.direction(Towards::Down));
        let down = if alike { up.clone() } else { of_direction(link.direction(Towards::Down))? };
        all.extend([up, down]);
    }
    Ok(all)
}

/// Returns true if both directions have the same guarantees. A discipline with very many flows is
/// then queried only once.
fn are_alike(a: &Direction, b: &Direction) -> bool {
    let ask_alike = |(a, b): (&Flow, &Flow)| {
        a.name == b.name && a.requires == b.requires && a.envelope == b.envelope
    };
    a.flows.len() == b.flows.len()
        && a.flows.iter().zip(&b.flows).all(ask_alike)
        && a.pipe == b.pipe
}

fn of_direction(direction: &Direction) -> Result<Vec<Standing>, ConfigErrors> {
    // No sources are given: the real traffic may differ from the sources in the file.
    let outlooks = outlooks(direction, &[])?;
    let mut all: Vec<Standing> = outlooks
        .iter()
        .zip(&direction.flows)
        .map(|(outlook, flow)| of_flow(outlook, flow.requires))
        .collect();
    for (standing, flow) in all.iter_mut().zip(&direction.flows) {
        standing.envelope =
            flow.envelope.iter().map(|bucket| (bucket.rate, bucket.burst)).collect();
    }
    for refused in unmet(direction, &outlooks) {
        all[refused.flow].refused = Some((refused.what, refused.help));
    }
    Ok(all)
}

fn of_flow(outlook: &Outlook, requires: Requirement) -> Standing {
    let (flow, settling) = (outlook.name.clone(), outlook.settling);
    let mut standing = Standing { flow, requires, settling, ..Standing::default() };
    match &outlook.guarantee {
        Ok(guarantee) => {
            standing.rate = (guarantee.rate.0 > 0).then_some((guarantee.rate, guarantee.latency));
            standing.needs_queue = outlook.rate_condition == Some(RateCondition::Queued);
            standing.delay =
                outlook.assured.as_ref().map(|delay| (delay.delay, delay.formula.clone()));
            standing.on_condition =
                outlook.assured.as_ref().is_some_and(|delay| delay.delay < guarantee.delay.delay);
        }
        Err(NoGuarantee(why)) => match &outlook.assured {
            // Only the delay is guaranteed, and only while the flow keeps to its envelope.
            Some(delay) => {
                standing.delay = Some((delay.delay, delay.formula.clone()));
                standing.on_condition = true;
            }
            None => standing.none = Some(why.clone()),
        },
    }
    standing
}
