//! The present state of links: counters at one instant, measurements a little later, in parts.

use super::report;
use super::state::{Current, Handler, rested};
use crate::messages::{Query, Reply};
use crate::protocol::{LinksReport, MaskReport, Refusal, ShowRequest};
use falaj_engine::PipeId;
use falaj_engine::masks::Masks;
use falaj_engine::pipe::{Counters, PipeSpec};
use falaj_live::adapters::AdapterCounts;
use falaj_live::event_loop::LinkOccupancy;
use falaj_live::event_loop::{Snapshot, Sojourns};
use falaj_scenario::difference::WAYS;
use falaj_scenario::{Direction, Flow, Scenario};
use falaj_sched::queues::queue::FlowId;
use std::sync::Mutex;

/// The state of links and guarantees at one instant.
pub struct Look {
    /// The running scenario at that instant.
    pub current: Current,
    /// The counters at that instant.
    pub snapshot: Snapshot,
    /// Measurements of flows, in order of pipe and flow, taken a little later.
    pub measured: Vec<Sojourns>,
    /// The counters of each adapter.
    pub adapters: Vec<(String, AdapterCounts)>,
    /// Number of changes, up to that instant, that added, removed or renumbered flows or links.
    others: u64,
}

/// Reads the present state of links and guarantees in parts. The reading begins again if flows or
/// links are added, removed or renumbered between two parts, or if masks change while counters of
/// masked flows are summed. Measurements are written into the memory of `measured`, an earlier
/// result that is no longer needed, so that repeated calls do not allocate it again.
pub fn look(handler: &Mutex<Handler>, mut measured: Vec<Sojourns>) -> Result<Look, Refusal> {
    loop {
        if let Some(look) = undisturbed(handler, &mut measured)? {
            return Ok(look);
        }
    }
}

fn undisturbed(
    handler: &Mutex<Handler>,
    measured: &mut Vec<Sojourns>,
) -> Result<Option<Look>, Refusal> {
    let other = || Refusal::new("unexpected answer to statistics");
    let mut look = {
        let mut handler = rested(handler);
        let Reply::Snapshot(snapshot, _adapters) = handler.forwarder.ask(Query::Snapshot)? else {
            return Err(other());
        };
        Look {
            current: handler.current(),
            snapshot: *snapshot,
            measured: Vec::new(),
            adapters: _adapters,
            others: handler.others,
        }
    };
    for of in look.snapshot.masked.clone() {
        let (mut sum, mut from) = (Box::<Counters>::default(), Some(0));
        while let Some(next) = from {
            let mut handler = rested(handler);
            if is_outdated(&handler, &look) {
                return Ok(None);
            }
            let part = handler.forwarder.ask(Query::Counted { of, from: next, sum })?;
            let Reply::Counted(so_far, then) = part else { return Err(other()) };
            (sum, from) = (so_far, then);
        }
        look.snapshot.flows[of.0.0 as usize][of.1.index()].counters = *sum;
    }
    let flows: usize = look.snapshot.flows.iter().map(Vec::len).sum();
    let mut from = 0;
    while from < flows {
        let mut handler = rested(handler);
        if handler.others != look.others {
            return Ok(None);
        }
        match handler.forwarder.ask(Query::Measured { to: std::mem::take(measured), from })? {
            Reply::Measured(copied, end) if end > from => (*measured, from) = (copied, end),
            _ => return Err(other()),
        }
    }
    look.measured = std::mem::take(measured);
    look.measured.truncate(flows);
    Ok(Some(look))
}

/// Returns true if flows or links were added, removed or renumbered, or masks changed, since `look`
/// was read: the parts of a sum would then not fit together.
fn is_outdated(handler: &Handler, look: &Look) -> bool {
    let masks = |scenario: &Scenario| -> Vec<Masks> {
        let directions = scenario.links.iter().flat_map(|link| [&link.up, &link.down]);
        directions.map(|direction| direction.pipe.masks.clone()).collect()
    };
    let (now, then) = (&handler.running.scenario, &look.current.scenario);
    let changed = handler.changes != look.current.changes;
    handler.others != look.others || changed && masks(now) != masks(then)
}

/// The report on links for `falaj show`.
pub(super) fn show(handler: &Mutex<Handler>, wanted: &ShowRequest) -> Result<LinksReport, Refusal> {
    loop {
        let look = look(handler, Vec::new())?;
        if let Some(made) = made(handler, &look)? {
            return Ok(report::report(
                &look.current.scenario,
                &look.snapshot,
                look.measured,
                made,
                wanted.histograms,
            ));
        }
    }
}

/// The reports on masks, by pipe. They are requested in parts, and packets pass in between. `None`
/// if a change came in between.
fn made(handler: &Mutex<Handler>, look: &Look) -> Result<Option<Vec<Vec<MaskReport>>>, Refusal> {
    let mut all = Vec::new();
    let ways = look
        .current
        .scenario
        .links
        .iter()
        .flat_map(|link| WAYS.map(|(towards, way)| (link.direction(towards), way)));
    for (pipe, (Direction { pipe: PipeSpec { masks, .. }, flows, .. }, way)) in ways.enumerate() {
        let of_link = masks.link.map(|_| (None, None));
        let named = |(f, flow): (usize, &Flow)| {
            masks.of(f).map(|_| (Some(FlowId(f as u32)), Some(format!("{way} {}", flow.name))))
        };
        let mut made = Vec::new();
        for (flow, name) in of_link.into_iter().chain(flows.iter().enumerate().filter_map(named)) {
            let of = (PipeId(pipe as u32), flow);
            let (mut all, mut from) = (None, Some(0));
            while let Some(next) = from {
                let mut handler = rested(handler);
                if is_outdated(&handler, look) {
                    return Ok(None);
                }
                let part = handler.forwarder.ask(Query::Made { of, from: next, all })?;
                let Reply::Made(so_far, then) = part else {
                    return Err(Refusal::new("unexpected answer about masks"));
                };
                (all, from) = (so_far, then);
            }
            made.extend(all.map(|told| MaskReport::new(name, &told)));
        }
        all.push(made);
    }
    Ok(Some(all))
}

impl Handler {
    /// The link occupancy (the last turns of flows), by pipe in the order of links, up before down.
    pub fn turns(&mut self) -> Result<Vec<Vec<(String, LinkOccupancy)>>, Refusal> {
        let Reply::Turns(turns) = self.forwarder.ask(Query::Turns)? else {
            return Err(Refusal::new("unexpected answer about turns"));
        };
        let links = &self.running.scenario.links;
        let ways =
            links.iter().flat_map(|link| WAYS.iter().map(|(towards, _)| link.direction(*towards)));
        let name = |direction: &Direction, turn: &LinkOccupancy| {
            direction.flows.get(turn.flow.index()).map(|flow| flow.name.clone())
        };
        let of = |(direction, turns): (&Direction, Vec<LinkOccupancy>)| {
            turns.into_iter().filter_map(|turn| Some((name(direction, &turn)?, turn))).collect()
        };
        Ok(ways.zip(turns).map(of).collect())
    }
}
