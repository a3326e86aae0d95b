//! What is known of links now: counted at one instant, measured a little later, a piece at a time.

use super::asking::{Ask, Told, rested};
use super::{Desk, report};
use crate::control::difference::WAYS;
use crate::control::protocol::{MaskReport, Refusal, Report, ShowRequest};
#[cfg(feature = "serve")]
use crate::plan::Standing;
use falaj_engine::PipeId;
#[cfg(feature = "serve")]
use falaj_live::adapters::Counts;
#[cfg(feature = "serve")]
use falaj_live::event_loop::Turn;
use falaj_live::event_loop::{Snapshot, Sojourns};
use falaj_scenario::{Direction, Flow, Scenario};
use falaj_sched::queues::queue::FlowId;
use std::sync::{Arc, Mutex};

/// All that is known of links and their promises at one instant.
pub(crate) struct Look {
    pub(crate) scenario: Arc<Scenario>,
    #[cfg(feature = "serve")]
    pub(crate) standings: Arc<Vec<Vec<Standing>>>,
    pub(crate) snapshot: Snapshot,
    /// By pipe and flow in a row, measured a little later.
    pub(crate) measured: Vec<Sojourns>,
    #[cfg(feature = "serve")]
    pub(crate) adapters: Vec<(String, Counts)>,
    /// How often flows had become others then.
    others: u64,
}

/// Links and promises as they are now. Others may change something between two pieces; where flows
/// are others then, it begins anew. What was measured goes into the memory of what was `measured`
/// before and is not needed any more: who looks again and again takes no more.
pub(crate) fn look(desk: &Mutex<Desk>, mut measured: Vec<Sojourns>) -> Result<Look, Refusal> {
    loop {
        if let Some(look) = undisturbed(desk, &mut measured)? {
            return Ok(look);
        }
    }
}

fn undisturbed(desk: &Mutex<Desk>, measured: &mut Vec<Sojourns>) -> Result<Option<Look>, Refusal> {
    let other = || Refusal::new("another answer than one to statistics");
    let mut look = {
        let mut desk = rested(desk);
        let Told::Snapshot(snapshot, _adapters) = desk.asking.ask(Ask::Snapshot)? else {
            return Err(other());
        };
        Look {
            scenario: Arc::clone(&desk.running.scenario),
            #[cfg(feature = "serve")]
            standings: desk.running.standings.clone().unwrap_or_default(),
            snapshot: *snapshot,
            measured: Vec::new(),
            #[cfg(feature = "serve")]
            adapters: _adapters,
            others: desk.others,
        }
    };
    let flows: usize = look.snapshot.flows.iter().map(Vec::len).sum();
    let mut from = 0;
    while from < flows {
        let mut desk = rested(desk);
        if desk.others != look.others {
            return Ok(None);
        }
        match desk.asking.ask(Ask::Measured { to: std::mem::take(measured), from })? {
            Told::Measured(copied, end) if end > from => (*measured, from) = (copied, end),
            _ => return Err(other()),
        }
    }
    look.measured = std::mem::take(measured);
    look.measured.truncate(flows);
    Ok(Some(look))
}

/// What links do, for `falaj show`.
pub(super) fn show(desk: &Mutex<Desk>, wanted: &ShowRequest) -> Result<Report, Refusal> {
    loop {
        let look = look(desk, Vec::new())?;
        if let Some(made) = made(desk, &look)? {
            return Ok(report::report(
                &look.scenario,
                &look.snapshot,
                look.measured,
                made,
                wanted.histograms,
            ));
        }
    }
}

/// What masks made, by pipe. They are asked one by one, and packets pass between; `None`: flows
/// have become others.
fn made(desk: &Mutex<Desk>, look: &Look) -> Result<Option<Vec<Vec<MaskReport>>>, Refusal> {
    let mut all = Vec::new();
    let ways = look
        .scenario
        .links
        .iter()
        .flat_map(|link| WAYS.map(|(towards, way)| (link.direction(towards), way)));
    for (pipe, (Direction { masks, flows, .. }, way)) in ways.enumerate() {
        let of_link = masks.link.map(|_| (None, None));
        let named = |(f, flow): (usize, &Flow)| {
            masks.of(f).map(|_| (Some(FlowId(f as u32)), Some(format!("{way} {}", flow.name))))
        };
        let mut made = Vec::new();
        for (flow, name) in of_link.into_iter().chain(flows.iter().enumerate().filter_map(named)) {
            let mut desk = rested(desk);
            if desk.others != look.others {
                return Ok(None);
            }
            let Told::Made(told) = desk.asking.ask(Ask::Made(PipeId(pipe as u32), flow))? else {
                return Err(Refusal::new("another answer than one about masks"));
            };
            made.extend(told.map(|told| MaskReport::new(name, &told)));
        }
        all.push(made);
    }
    Ok(Some(all))
}

#[cfg(feature = "serve")]
impl Desk {
    /// By pipe, which are those of each link up and down: who held it when.
    pub(crate) fn turns(&mut self) -> Result<Vec<Vec<(String, Turn)>>, Refusal> {
        let Told::Turns(turns) = self.asking.ask(Ask::Turns)? else {
            return Err(Refusal::new("another answer than one about turns"));
        };
        let links = &self.running.scenario.links;
        let ways =
            links.iter().flat_map(|link| WAYS.iter().map(|(towards, _)| link.direction(*towards)));
        let name = |direction: &Direction, turn: &Turn| {
            direction.flows.get(turn.flow.index()).map(|flow| flow.name.clone())
        };
        let of = |(direction, turns): (&Direction, Vec<Turn>)| {
            turns.into_iter().filter_map(|turn| Some((name(direction, &turn)?, turn))).collect()
        };
        Ok(ways.zip(turns).map(of).collect())
    }
}
