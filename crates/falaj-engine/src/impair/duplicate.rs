//! Duplication: packets that arrive twice.

use super::event::{EventState, RandomEvent, RngStream};
use super::transit::{Impairment, ImpairmentState, Irregularity, LinkDelays, Transit};

/// The impairment that delivers some packets twice; the copy takes no time on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplication(pub RandomEvent);

impl Impairment for Duplication {
    fn state(&self, _: &LinkDelays) -> Box<dyn ImpairmentState> {
        Box::new(DuplicationState(EventState::new(self.0)))
    }

    fn words(&self) -> String {
        format!("doubles {}", self.0)
    }

    fn breaks_streams(&self) -> bool {
        true
    }

    fn irregularity(&self) -> Option<Irregularity> {
        Some(Irregularity::Copies)
    }
}

struct DuplicationState(EventState);

impl ImpairmentState for DuplicationState {
    fn on_the_way(&mut self, packet: &mut Transit) {
        packet.twice = self.0.happens(packet.draw(RngStream::Duplicate));
    }
}
