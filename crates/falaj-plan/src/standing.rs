//! What each flow is promised whatever the others do, for whoever has to keep it: admission, and
//! the watch over promises.

use crate::bounds::{Outlook, outlooks};
use crate::solve::unmet;
use falaj_scenario::{Direction, Flow, Need, Scenario, Towards};
use falaj_sched::contract::guarantee::RateCondition;
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;

/// A flow's promise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The flow's name.
    pub flow: String,
    /// What its owner asks for.
    pub need: Need,
    /// While it has packets, this rate after this latency; `None`: no rate is promised.
    pub rate: Option<(Rate, Span)>,
    /// The rate needs more queued than the packet that a backlog is.
    pub needs_queue: bool,
    /// What may come on top of rate and delay after a change, until the link has rested; `None`:
    /// nothing is promised until then.
    pub settling: Option<Span>,
    /// No packet that found room stays longer, and by which formula.
    pub delay: Option<(Span, String)>,
    /// Why nothing is promised.
    pub none: Option<String>,
    /// What it may send at most.
    pub envelope: Vec<(Rate, u64)>,
    /// The delay is promised to those alone that keep to the envelope.
    pub on_condition: bool,
    /// What it needs and is not promised, and what would fit.
    pub refused: Option<(String, String)>,
}

/// All flows, by pipe: up and down of each link.
///
/// # Errors
/// A discipline does not accept its setup.
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

/// Is the same promised there? A discipline of very many flows is not asked twice.
fn are_alike(a: &Direction, b: &Direction) -> bool {
    let ask_alike =
        |(a, b): (&Flow, &Flow)| a.name == b.name && a.need == b.need && a.envelope == b.envelope;
    a.flows.len() == b.flows.len()
        && a.flows.iter().zip(&b.flows).all(ask_alike)
        && a.pipe == b.pipe
}

fn of_direction(direction: &Direction) -> Result<Vec<Standing>, ConfigErrors> {
    // Whatever is sent: sources of the file are not those that will be there.
    let outlooks = outlooks(direction, &[])?;
    let mut all: Vec<Standing> = outlooks
        .iter()
        .zip(&direction.flows)
        .map(|(outlook, flow)| of_flow(outlook, flow.need))
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

fn of_flow(outlook: &Outlook, need: Need) -> Standing {
    let (flow, settling) = (outlook.name.clone(), outlook.settling);
    let mut standing = Standing { flow, need, settling, ..Standing::default() };
    match &outlook.promise {
        Ok(promise) => {
            standing.rate = (promise.rate.0 > 0).then_some((promise.rate, promise.latency));
            standing.needs_queue = outlook.rate_condition == Some(RateCondition::Queued);
            standing.delay =
                outlook.assured.as_ref().map(|delay| (delay.delay, delay.formula.clone()));
            standing.on_condition =
                outlook.assured.as_ref().is_some_and(|delay| delay.delay < promise.delay.delay);
        }
        Err(NoPromise(why)) => match &outlook.assured {
            // To its envelope, and nothing else.
            Some(delay) => {
                standing.delay = Some((delay.delay, delay.formula.clone()));
                standing.on_condition = true;
            }
            None => standing.none = Some(why.clone()),
        },
    }
    standing
}
