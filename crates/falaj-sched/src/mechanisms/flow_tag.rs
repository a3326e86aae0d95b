//! State of a flow in the disciplines with a virtual time, and the units of that time.
//!
//! Virtual times wrap around, so they are compared by the sign of their difference, like serial
//! numbers.

/// The largest weight.
pub(crate) const HEAVIEST: u32 = u32::MAX;
pub(crate) const FRACTION: u32 = 38;
/// The most that a byte takes in virtual time. A byte of the lightest flow takes more than a
/// quarter of this.
pub(crate) const BYTE: u64 = 1 << FRACTION;
/// The largest packet, in bytes: it takes at most 1/64 of a lap. A lap is a quarter of the range of
/// virtual time.
pub(crate) const LARGEST: u32 = 1 << 18;
/// The exponent of the finest rounding: the virtual time of one byte at the largest weight, beside
/// a flow of weight 1.
pub(crate) const FINEST: u32 = FRACTION - u32::BITS;
/// Number of roundings: one for each power of two.
pub(crate) const CLASSES: usize = (FRACTION + LARGEST.ilog2() - FINEST) as usize + 1;

/// State of a flow: 20 bytes, so that with its queue and first packet it fills one cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed(4))]
pub struct Share {
    /// Virtual start of the flow's head. If the flow is silent, virtual start of the packet after
    /// its last one.
    pub(crate) start: u64,
    /// Bit fields, from the lowest bit: place (2 bits), rounding (6), virtual time of a byte (39).
    parts: u64,
    /// For a present flow, the next flow in its list; for a silent one, the lap in which it fell
    /// silent.
    link: u32,
}

/// Lowest bits of the fields after the place.
const CLASS: u32 = 2;
const INVERSE: u32 = 8;

/// State of a flow's queue in virtual time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// The flow has no packets, and its weight is not counted.
    #[default]
    Away,
    /// The flow has no packets, but its weight was counted when it fell silent.
    Silent,
    /// The flow waits for its turn, or is being served.
    Present,
}

impl Share {
    /// State of a flow with this weight and largest packet in bytes. `byte` is the virtual time of
    /// a byte at weight 1, so that a byte of this flow takes at most [`BYTE`].
    pub(crate) fn new(byte: u128, weight: u32, largest: u32) -> Share {
        let mut share = Share::default();
        share.set(byte, weight, largest);
        share
    }

    fn set(&mut self, byte: u128, weight: u32, largest: u32) {
        let inverse = inverse(byte, weight);
        self.parts =
            self.place() as u64 | u64::from(class(inverse, largest)) << CLASS | inverse << INVERSE;
    }

    /// Changes the weight or the unit of virtual time. `was` and `now` are the present virtual time
    /// in the former and in the new unit. The distance of the start from virtual time stays the
    /// same in bytes. A flow that is behind loses its lag if `forgets_lag`.
    pub(crate) fn weigh_from(
        &mut self,
        [was, now]: [u64; 2],
        byte: u128,
        weight: u32,
        largest: u32,
        forgets_lag: bool,
    ) {
        let before = self.inverse();
        self.set(byte, weight, largest);
        let mut distance = ahead(self.start, was);
        if forgets_lag {
            distance = distance.max(0);
        }
        let distance = i128::from(distance) * i128::from(self.inverse()) / i128::from(before);
        self.start = now.wrapping_add(distance as u64);
    }

    #[inline]
    pub(crate) fn place(&self) -> Place {
        match self.parts & 3 {
            0 => Place::Away,
            1 => Place::Silent,
            _ => Place::Present,
        }
    }

    #[inline]
    pub(crate) fn set_place(&mut self, place: Place) {
        self.parts = self.parts & !3 | place as u64;
    }

    /// The class of the flow's rounding.
    #[inline]
    pub(crate) fn class(&self) -> u8 {
        (self.parts >> CLASS & 63) as u8
    }

    /// Virtual time of a byte.
    #[inline]
    pub(crate) fn inverse(&self) -> u64 {
        self.parts >> INVERSE
    }

    #[inline]
    pub(crate) fn fall_silent(&mut self, lap: u64) {
        self.set_place(Place::Silent);
        self.link = lap as u32;
    }

    /// Number of laps since the flow fell silent. Valid only for a silent flow.
    #[inline]
    pub(crate) fn silent_for(&self, lap: u64) -> u32 {
        (lap as u32).wrapping_sub(self.link)
    }

    /// The next flow in the flow's list.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.link
    }

    #[inline]
    pub(crate) fn set_next(&mut self, next: u32) {
        self.link = next;
    }

    /// Charges the packet that starts now; the next one starts at its end.
    #[inline]
    pub(crate) fn charge(&mut self, bytes: u32) {
        self.start = self.finish(bytes);
    }

    #[inline]
    pub(crate) fn rounded_start(&self) -> u64 {
        floor(self.start, shift(self.class()))
    }

    #[inline]
    pub(crate) fn finish(&self, bytes: u32) -> u64 {
        self.start.wrapping_add(u64::from(bytes) * self.inverse())
    }
}

/// Virtual time of a byte, rounded up. So a flow may get slightly less than its weight allows, but
/// never more. Rounding down would let virtual time grow faster than the work done.
pub(crate) fn inverse(byte: u128, weight: u32) -> u64 {
    byte.div_ceil(weight.into()) as u64
}

pub(crate) fn class(inverse: u64, largest: u32) -> u8 {
    let packet = u64::from(largest.max(1)) * inverse;
    (packet.next_power_of_two().ilog2().max(FINEST) - FINEST) as u8
}

/// The rounding of a class: the exponent of a power of two.
#[inline]
pub(crate) fn shift(class: u8) -> u32 {
    FINEST + u32::from(class)
}

/// Signed distance of `a` ahead of `b`.
#[inline]
pub(crate) fn ahead(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}

#[inline]
pub(crate) fn floor(time: u64, shift: u32) -> u64 {
    time >> shift << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_share_are_what_was_set() {
        for weight in [1, 2, 3, 1000, HEAVIEST] {
            for largest in [1, 1500, LARGEST] {
                let mut share = Share::new(BYTE.into(), weight, largest);
                let inverse = BYTE.div_ceil(weight.into());
                for place in [Place::Present, Place::Silent, Place::Away] {
                    share.set_place(place);
                    share.set(BYTE.into(), weight, largest);
                    assert_eq!(share.place(), place);
                    assert_eq!(
                        (share.inverse(), share.class()),
                        (inverse, class(inverse, largest))
                    );
                }
            }
        }
    }
}
