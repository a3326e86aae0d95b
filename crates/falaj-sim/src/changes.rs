//! The scheduled changes of a run, each made at its exact instant, and the packets that are on the
//! wire meanwhile.

use falaj_engine::message::Retimed;
use falaj_engine::network::{Network, NetworkChange};
use falaj_engine::{Emit, Output};
use falaj_scenario::difference::difference;
use falaj_scenario::{Scenario, ScheduledChange};
use falaj_sched::units::label::Known;
use falaj_sched::units::time::{Span, Time};
use std::iter::Peekable;

/// The changes of one run.
pub(crate) struct Changes<'a> {
    /// The current scenario, with the seed of the run. `None` if there are no changes.
    now: Option<Scenario>,
    /// The place of each link in the engine.
    at: Vec<u32>,
    next: Peekable<Box<dyn Iterator<Item = ScheduledChange> + 'a>>,
}

impl<'a> Changes<'a> {
    /// The changes of this scenario, if there is one, in a run of this length.
    pub(crate) fn new(scenario: Option<&'a Scenario>, duration: Span, seed: u64) -> Changes<'a> {
        let all = scenario.into_iter().flat_map(move |scenario| scenario.changes.before(duration));
        let all: Box<dyn Iterator<Item = ScheduledChange> + 'a> = Box::new(all);
        Changes {
            now: scenario.map(|scenario| seeded(scenario, seed)),
            at: (0..scenario.map_or(0, |scenario| scenario.links.len() as u32)).collect(),
            next: all.peekable(),
        }
    }

    /// Instant of the next change; [`Time::NEVER`] if there is none.
    pub(crate) fn next(&mut self) -> Time {
        self.next.peek().map_or(Time::NEVER, |change| Time::ZERO + change.at)
    }

    /// Makes the next change at its instant. The network must have been polled until then.
    pub(crate) fn make(&mut self, network: &mut Network, known: Known<'_>, out: &mut Vec<Output>) {
        let (Some(before), Some(change)) = (self.now.take(), self.next.next()) else { return };
        let then = seeded(&change.scenario, before.run.seed);
        let made = difference(&before, &then, (&self.at, network.places()), false)
            .expect("the scenario of a change was read, so its disciplines accept it");
        if let Some(transaction) = made.change {
            let around = NetworkChange {
                flows: &[],
                ingress: transaction.ingress,
                rules: transaction.rules,
            };
            network
                .apply(transaction.engine, around, known, Time::ZERO + change.at, out)
                .expect("scheduled changes keep all flows, and room for the largest packet");
        }
        (self.now, self.at) = (Some(then), made.at);
    }
}

/// The scenario with this seed, and without its own changes.
fn seeded(scenario: &Scenario, seed: u64) -> Scenario {
    let mut scenario = Scenario { changes: Default::default(), ..scenario.clone() };
    scenario.begin_at(seed);
    scenario
}

/// A departure whose end of transmission is not final.
#[derive(Clone, Copy)]
pub(crate) enum LateDeparture {
    /// A departure from the network: an [`Output::Emit`] or an [`Output::Copy`].
    Out(Output),
    /// A departure to the next pipe.
    Passed(Emit),
}

impl LateDeparture {
    fn emit(&mut self) -> Option<&mut Emit> {
        match self {
            LateDeparture::Out(Output::Emit(emit) | Output::Copy(emit))
            | LateDeparture::Passed(emit) => Some(emit),
            LateDeparture::Out(_) => None,
        }
    }
}

/// The packets on the wire at the next change: that change may alter their times. Packets behind
/// them in their pipe are held as well, so that the order stays the same.
pub(crate) struct HeldDepartures {
    /// Instant of the next change.
    until: Time,
    departures: Vec<LateDeparture>,
}

impl HeldDepartures {
    pub(crate) fn new(until: Time) -> HeldDepartures {
        HeldDepartures { until, departures: Vec::new() }
    }

    /// Returns true if this departure is not final yet.
    #[inline]
    pub(crate) fn takes(&mut self, emit: &Emit) -> bool {
        emit.end > self.until || !self.departures.is_empty() && self.is_behind(emit)
    }

    #[cold]
    fn is_behind(&mut self, emit: &Emit) -> bool {
        let mut held = self.departures.iter_mut().filter_map(LateDeparture::emit);
        held.any(|held| held.pipe == emit.pipe)
    }

    #[cold]
    pub(crate) fn hold(&mut self, departure: LateDeparture) {
        self.departures.push(departure);
    }

    /// Sets the new times of a packet on the wire.
    pub(crate) fn retime(&mut self, retimed: &Retimed) {
        let old = |emit: &&mut Emit| {
            (emit.pipe, emit.arrival, emit.end, emit.due)
                == (retimed.pipe, retimed.arrival, retimed.old_end, retimed.old_due)
        };
        let mut held = self.departures.iter_mut().filter_map(LateDeparture::emit);
        if let Some(emit) = held.find(old) {
            (emit.end, emit.due) = (retimed.end, retimed.due);
        }
    }

    /// Returns all held departures after a change. The caller must hold those again that end after
    /// the following change, at `until`.
    pub(crate) fn release(&mut self, until: Time) -> Vec<LateDeparture> {
        self.until = until;
        std::mem::take(&mut self.departures)
    }
}
