//! Corruption: packets that arrive with a bit flipped.

use super::event::{EventState, RandomEvent, RngStream};
use super::transit::{Impairment, ImpairmentState, LinkDelays, Transit};

/// The impairment that flips one bit of some packets; these packets still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corruption(pub RandomEvent);

impl Impairment for Corruption {
    fn state(&self, _: &LinkDelays) -> Box<dyn ImpairmentState> {
        Box::new(CorruptionState(EventState::new(self.0)))
    }

    fn words(&self) -> String {
        format!("corrupts {}", self.0)
    }

    fn breaks_streams(&self) -> bool {
        true
    }
}

struct CorruptionState(EventState);

impl ImpairmentState for CorruptionState {
    fn on_the_way(&mut self, packet: &mut Transit) {
        if self.0.happens(packet.draw(RngStream::Corrupt)) {
            packet.flipped_bit = Some(packet.draw(RngStream::Bit).independent());
        }
    }
}
