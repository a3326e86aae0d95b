//! Checks whether a scenario's links can carry real packets, and prints warnings about them.

mod paced;

use anyhow::{Result, bail};
use falaj_engine::PipeId;
use falaj_scenario::{Link, Scenario};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;

/// The index of a scenario's only link. Several links and rules are errors.
pub fn only_link(scenario: &Scenario) -> Result<usize> {
    match scenario.links.len() {
        1 if scenario.rules.is_empty() => Ok(0),
        1 => {
            bail!(
                "this scenario has rules, and with this command all packets pass one link: leave [[rule]] out"
            )
        }
        n => bail!(
            "this scenario has {n} links, and with this command all packets pass one: keep only one [link.NAME]"
        ),
    }
}

/// The links of a scenario, each between two ends. Hosts are an error.
pub fn between_two_ends(scenario: &Scenario) -> Result<&[Link]> {
    if !scenario.hosts.is_empty() {
        bail!(
            "this scenario has hosts, and this command has links between two ends: leave [host.NAME] out, or use `run`"
        );
    }
    live_links(scenario)
}

/// The links of a scenario for real packets. Several links need rules, and a device-paced link must
/// be the last one before a port.
pub fn live_links(scenario: &Scenario) -> Result<&[Link]> {
    let links = links_with_rules(scenario)?;
    paced::before_ports(scenario)?;
    Ok(links)
}

/// Rejects a scenario with scheduled changes.
pub fn no_changes(scenario: &Scenario) -> Result<()> {
    if scenario.changes.is_empty() {
        return Ok(());
    }
    bail!(
        "this scenario has scheduled changes ([[change]], or a --trace with delays or losses), which are for `sim`, `plan`, `run` between two ends, `bridge`, `attach`, `traffic` and `compare`: leave them out here"
    )
}

/// The links of a scenario; several links need rules.
pub fn links_with_rules(scenario: &Scenario) -> Result<&[Link]> {
    match scenario.links.len() {
        n if n > 1 && scenario.rules.is_empty() => {
            bail!(
                "this scenario has {n} links, and no rule assigns packets to links: add [[rule]], or keep only one [link.NAME]"
            )
        }
        _ => Ok(&scenario.links),
    }
}

/// Rejects a scenario with adapters, since the links of this command have two ends.
pub fn no_adapters(scenario: &Scenario) -> Result<()> {
    match scenario.adapters().first() {
        None => Ok(()),
        Some(adapter) => bail!(
            "flow {} has an adapter, and with this command a link has two ends: `falaj serve` gives each adapter its own end; `plan` and `sim` support it too",
            adapter.name
        ),
    }
}

/// Rejects a link with masks, for commands whose packets do not come from the hosts that the masks
/// distinguish.
pub fn no_masks(link: &Link, why: &str) -> Result<()> {
    if [&link.up, &link.down].iter().all(|direction| direction.pipe.masks.is_none()) {
        return Ok(());
    }
    bail!(
        "link {} has `mask`, and here {why}: `falaj sim`, `run` and `bridge` support it",
        link.name
    )
}

/// Warns that a queue was full for the first time and packets are lost. The warning names the key
/// that sets the queue's limit.
pub fn warn_of_overflow(links: &[Link], pipe: PipeId, flow: FlowId) {
    let Some(link) = links.get(pipe.0 as usize / 2) else { return };
    let (way, direction) = [("up", &link.up), ("down", &link.down)][pipe.0 as usize % 2];
    let leaves = direction.pipe.setup.leaves();
    let Some((flow, setup)) = direction.flows.get(flow.index()).zip(leaves.get(flow.index()))
    else {
        return;
    };
    let whose = if links.len() > 1 {
        format!("{} {way} {}", link.name, flow.name)
    } else {
        format!("{way} {}", flow.name)
    };
    note!(
        "warning: the queue of `{whose}` was full, and a packet was lost; it holds {}, `queue` \
         sets another length. Further losses are counted without a warning",
        setup.limit
    );
}

/// Warns, when it first happens, that ids of a mask share queues or links: the mask has reached its
/// maximum or, if `short` is true, memory is short.
pub fn warn_of_sharing(links: &[Link], pipe: PipeId, flow: Option<FlowId>, short: bool) {
    let Some(link) = links.get(pipe.0 as usize / 2) else { return };
    let (way, direction) = [("up", &link.up), ("down", &link.down)][pipe.0 as usize % 2];
    let (each, name) = match flow {
        None => (direction.pipe.masks.link, Some("")),
        Some(flow) => (
            direction.pipe.masks.of(flow.index()).copied(),
            direction.flows.get(flow.index()).map(|flow| flow.name.as_str()),
        ),
    };
    let Some((each, name)) = each.zip(name) else { return };
    let whose = [if links.len() > 1 { link.name.as_str() } else { "" }, way, name];
    let whose: Vec<&str> = whose.into_iter().filter(|word| !word.is_empty()).collect();
    let made = if flow.is_some() { "queues" } else { "links" };
    let (whose, mask, shared) = (whose.join(" "), each.mask, each.shared());
    if short {
        note!(
            "warning: the mask {mask} of `{whose}` makes no more {made}: the process uses half of \
             its available memory. Further ids share additional {made} ({shared}). A mask of \
             fewer bits, \
             such as `src/24`, makes fewer {made}. Their packets are counted without a warning"
        );
    } else {
        note!(
            "warning: the mask {mask} of `{whose}` makes at most {} {made}. Further ids share \
             additional {made} ({shared}); `max-flows` sets another number. Their packets are \
             counted without a \
             warning",
            each.most
        );
    }
}

/// Phases shorter than this are timed by spinning.
const SPINS: Span = Span::from_micros(60);

/// Warns that a short phase keeps a processor busy.
pub fn warn_of_spinning(link: &Link) {
    let mut told = Vec::new();
    for direction in [&link.up, &link.down] {
        for (flow, setup) in direction.flows.iter().zip(direction.pipe.setup.leaves()) {
            if let Some(phase) = setup.values.span("phase").filter(|&phase| phase < SPINS)
                && !told.contains(&(&flow.name, phase))
            {
                told.push((&flow.name, phase));
                note!(
                    "warning: flow `{}` has a phase of {phase}; below {SPINS} a processor is kept busy to time it",
                    flow.name
                );
            }
        }
    }
}
