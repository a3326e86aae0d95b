//! Reordering: packets that overtake those before them.

use super::event::{EventState, RandomEvent, RngStream};
use super::transit::{Impairment, ImpairmentState, Irregularity, LinkDelays, Transit};

/// Packets that overtake: they skip the delay of the link, and arrive when their last bit has left
/// the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// The random event of overtaking.
    pub event: RandomEvent,
    /// Only every `gap`-th packet of a flow may overtake; 1: any.
    pub gap: u64,
}

impl Impairment for Reorder {
    fn state(&self, _: &LinkDelays) -> Box<dyn ImpairmentState> {
        Box::new(ReorderState { event: EventState::new(self.event), gap: self.gap })
    }

    fn words(&self) -> String {
        format!("reorders {}", self.event)
    }

    fn widen(&self, delays: &mut LinkDelays) {
        delays.may_skip = true;
    }

    fn breaks_streams(&self) -> bool {
        true
    }

    fn irregularity(&self) -> Option<Irregularity> {
        Some(Irregularity::Delay)
    }
}

/// Reordering, and the outcome of the last packet.
struct ReorderState {
    event: EventState,
    gap: u64,
}

impl ImpairmentState for ReorderState {
    fn on_the_way(&mut self, packet: &mut Transit) {
        let draw = packet.draw(RngStream::Reorder);
        packet.overtakes = (draw.number + 1).is_multiple_of(self.gap) && self.event.happens(draw);
    }
}
