//! The disciplines by name. A new one is a new file and one line here.

use crate::discipline::Discipline;
use crate::params::{Param, Refused, Setup};
use crate::{drr::Drr, fifo::Fifo, packet_wise::PacketWise, phase_wise::PhaseWise, timer_wheels::TimerWheels};

/// What is said of a discipline where people choose one.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name in a scenario.
    pub kind: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
    /// Where it was described.
    pub source: &'static str,
    /// What may be set for the scheduler.
    pub scheduler: &'static [Param],
    /// What may be set for each flow.
    pub flow: &'static [Param],
}

/// Receives the discipline that was asked for, as its own type, so that all
/// that is built around it is compiled for it alone.
pub trait Visitor {
    /// What the visitor makes of it.
    type Output;
    /// Called once, with the discipline.
    fn visit<D: Discipline + 'static>(self, discipline: D) -> Self::Output;
}

/// All kinds that a scenario may name.
pub const ENTRIES: &[Entry] =
    &[crate::fifo::ENTRY, crate::drr::ENTRY, crate::timer_wheels::ENTRY, crate::virtual_links::ENTRY];

/// What is known of `kind`.
pub fn entry(kind: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|e| e.kind == kind)
}

/// Builds the discipline `kind` and hands it to `visitor`.
///
/// # Panics
/// If there is no such kind: [`entry`] tells.
pub fn build<V: Visitor>(kind: &str, setup: &Setup, visitor: V) -> Result<V::Output, Refused> {
    Ok(match kind {
        "fifo" => visitor.visit(Fifo::new(setup)?),
        "drr" => visitor.visit(Drr::new(setup)?),
        "timer-wheels" => visitor.visit(TimerWheels::new(setup)?),
        "virtual-links" => match setup.scheduler.choice("serve") {
            Some("phase-wise") => visitor.visit(PhaseWise::new(setup)?),
            _ => visitor.visit(PacketWise::new(setup)?),
        },
        other => panic!("no discipline is called {other}"),
    })
}
