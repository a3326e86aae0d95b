//! Restrictions on device-paced links of real packets: the device must be behind a port, because
//! only the port reports its free space, and only for packets that leave by it. A link whose
//! packets go on to another link has no device: it would wait for reports of a device to which it
//! sends nothing. In simulation each such link has its own device.

use anyhow::{Result, bail};
use falaj_engine::pipe::Pace;
use falaj_engine::rules::{RuleAction, RuleTarget};
use falaj_scenario::{Rule, Scenario, Towards};

/// Refuses a device-paced link from which rules route packets on to another link.
pub(super) fn before_ports(scenario: &Scenario) -> Result<()> {
    for (way, towards) in [Towards::Up, Towards::Down].into_iter().enumerate() {
        let paced =
            |link: u32| scenario.links[link as usize].direction(towards).pipe.pace != Pace::Falaj;
        let rules: Vec<&Rule> =
            scenario.rules.iter().filter(|r| r.rule.way.is_none_or(|only| only == way)).collect();
        for (n, rule) in rules.iter().enumerate() {
            let Some((from, to, help)) =
                within(rule, paced).or_else(|| behind(rule, &rules[n + 1..], paced))
            else {
                continue;
            };
            let [from, to] = [from, to].map(|link| &scenario.links[link as usize].name);
            bail!(
                "link {from} is paced by its device, and rule `{}` leads packets on from it to \
                 link {to}: a device stands behind a port, and may pace the last link that packets \
                 pass; {help}, or let falaj pace link {from}: `paced-by = \"falaj\"`",
                rule.name
            );
        }
    }
    Ok(())
}

/// A device-paced link within a rule, the rule's next link, and the remedy.
fn within(rule: &Rule, paced: impl Fn(u32) -> bool) -> Option<(u32, u32, &'static str)> {
    let RuleAction::Links(links) = &rule.rule.to else { return None };
    let two = links.windows(2).find(|two| paced(two[0]))?;
    Some((two[0], two[1], "name it last in `to`"))
}

/// A device-paced link at the end of a rule, the next link and the remedy, if packets go on to the
/// following rules. Which of the following rules match depends on the packets; it is enough that
/// one of them may match.
fn behind(
    rule: &Rule,
    others: &[&Rule],
    paced: impl Fn(u32) -> bool,
) -> Option<(u32, u32, &'static str)> {
    let last = ends(rule)
        .into_iter()
        .filter(|_| rule.rule.on)
        .map(|(_, last)| last)
        .find(|&link| paced(link))?;
    let (first, _) = others.iter().flat_map(|other| ends(other)).next()?;
    Some((last, first, "leave out `then = \"on\"`"))
}

/// The first and the last link of each path of a rule.
fn ends(rule: &Rule) -> Vec<(u32, u32)> {
    match &rule.rule.to {
        RuleAction::Links(links) => {
            links.first().copied().zip(links.last().copied()).into_iter().collect()
        }
        RuleAction::Table { targets, .. } => {
            let link = |target: &Option<RuleTarget>| match target {
                Some(RuleTarget::Link(link)) => Some((*link, *link)),
                _ => None,
            };
            targets.iter().filter_map(link).collect()
        }
        RuleAction::Drop | RuleAction::Pass | RuleAction::SkipTo(_) => Vec::new(),
    }
}
