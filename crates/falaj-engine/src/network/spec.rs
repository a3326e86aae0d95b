//! What a network is made from.

use crate::account::Account;
use crate::classifier::Classifier;
use crate::pipe::PipeSpec;
use crate::rules::RouteRule;
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::disciplines::fifo;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;

/// What a network is made from.
#[derive(Debug, Clone)]
pub struct NetworkSpec {
    /// Up and down of each link, one after the other.
    pub places: Vec<PlacedPipe>,
    /// Which links packets pass. None: all pass the first one.
    pub rules: Vec<RouteRule>,
    /// Where the random numbers of rules begin.
    pub seed: u64,
}

/// A pipe in its place.
#[derive(Debug, Clone)]
pub struct PlacedPipe {
    /// The pipe.
    pub pipe: PipeSpec,
    /// Which flow of it a packet belongs to.
    pub classifier: Classifier,
    /// Which bytes of a packet count there.
    pub account: Account,
}

impl NetworkSpec {
    /// The same with random numbers that begin elsewhere.
    pub fn seeded(&self, seed: u64) -> NetworkSpec {
        let mut spec = self.clone();
        spec.seed = seed;
        spec.places.iter_mut().for_each(|place| place.pipe.seed = seed);
        spec
    }
}

/// What carries all, at once: each direction of what passes no link.
pub fn unlimited() -> PipeSpec {
    let flow = FlowSetup::new(Values::default(), Limit::Packets(u32::MAX));
    let setup = Setup {
        rate: Rate::UNLIMITED,
        largest: u32::MAX / 2,
        scheduler: Values::default(),
        flows: vec![flow],
    };
    PipeSpec::new(fifo::MANIFEST.kind, setup, Span::ZERO)
}
