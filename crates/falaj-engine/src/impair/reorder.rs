//! Which packets overtake those before them.

use super::event::{Draw, Event, Happening};

/// Packets that overtake: they skip the delay of the link and arrive with
/// their last bit out of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// How often.
    pub event: Event,
    /// Only each so many-th packet of a flow may; 1: any.
    pub gap: u64,
}

/// Packets that overtake, and how the last one fared.
#[derive(Debug)]
pub(crate) struct Overtaking {
    happening: Happening,
    gap: u64,
}

impl Overtaking {
    pub(crate) fn new(reorder: Reorder) -> Overtaking {
        Overtaking { happening: Happening::new(reorder.event), gap: reorder.gap }
    }

    #[inline]
    pub(crate) fn overtakes(&mut self, draw: Draw) -> bool {
        (draw.number + 1).is_multiple_of(self.gap) && self.happening.happens(draw)
    }
}
