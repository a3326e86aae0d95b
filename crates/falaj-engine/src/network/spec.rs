//! The specification of a network.

use crate::classifier::Classifier;
use crate::counted_layer::CountedLayer;
use crate::pipe::PipeSpec;
use crate::rules::RouteRule;
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::disciplines::fifo;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;

/// The specification of a network.
#[derive(Debug, Clone)]
pub struct NetworkSpec {
    /// The two directions of each link, up and then down.
    pub places: Vec<PlacedPipe>,
    /// The rules that determine the links of a packet. If empty, all packets pass the first link.
    pub rules: Vec<RouteRule>,
    /// Seed of the rules' random numbers.
    pub seed: u64,
}

/// A pipe with its classification and accounting.
#[derive(Debug, Clone)]
pub struct PlacedPipe {
    /// The pipe.
    pub pipe: PipeSpec,
    /// Assigns packets to the pipe's flows.
    pub classifier: Classifier,
    /// The bytes of a packet that count there.
    pub layer: CountedLayer,
}

impl NetworkSpec {
    /// This specification with another seed.
    pub fn seeded(&self, seed: u64) -> NetworkSpec {
        let mut spec = self.clone();
        spec.seed = seed;
        spec.places.iter_mut().for_each(|place| place.pipe.seed = seed);
        spec
    }
}

/// A pipe without delay and rate limit: one direction of the bypass, for packets that the rules
/// send over no link.
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
