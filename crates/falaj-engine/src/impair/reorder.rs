//! Which packets overtake those before them.

use super::event::{Draw, EventState, RandomEvent};

/// Packets that overtake: they skip the delay of the link and arrive with
/// their last bit out of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// How often.
    pub event: RandomEvent,
    /// Only each so many-th packet of a flow may; 1: any.
    pub gap: u64,
}

/// Packets that overtake, and how the last one fared.
#[derive(Debug)]
pub(crate) struct ReorderState {
    happening: EventState,
    gap: u64,
}

impl ReorderState {
    pub(crate) fn new(reorder: Reorder) -> ReorderState {
        ReorderState { happening: EventState::new(reorder.event), gap: reorder.gap }
    }

    #[inline]
    pub(crate) fn overtakes(&mut self, draw: Draw) -> bool {
        (draw.number + 1).is_multiple_of(self.gap) && self.happening.happens(draw)
    }
}
