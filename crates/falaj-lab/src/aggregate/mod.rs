//! `falaj aggregate`: measures packets that cross in batches from one process to another.

pub mod bench;
pub mod consumer;
mod producer;
#[cfg(feature = "queueing")]
pub(crate) mod streams;
pub mod tune;

use falaj_scenario::parse_span;
use falaj_sched::units::time::Span;

/// The declared cost of a crossing for the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CrossingCost {
    /// Cost of each batch.
    pub(crate) batch: Span,
    /// Cost of each packet in the batch.
    pub(crate) packet: Span,
}

impl CrossingCost {
    /// The cost of a batch of this number of packets.
    fn of(self, packets: u32) -> Span {
        self.batch + self.packet * u64::from(packets)
    }
}

/// Parses `11.4us,1.07us`: the costs of a batch and of a packet.
fn cost(text: &str) -> Result<CrossingCost, String> {
    let both = text
        .split_once(',')
        .ok_or("two times with a comma between: of a batch, of a packet: 11.4us,1.07us")?;
    let span = |text: &str| parse_span(text).map_err(|error| error.to_string());
    Ok(CrossingCost { batch: span(both.0)?, packet: span(both.1)? })
}
