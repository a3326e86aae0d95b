//! The stamp of packets in queues that a discipline manages itself.

use crate::units::label::Ecn;
use crate::units::time::Time;

/// A packet's arrival time and its ECN bits, in one number.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalStamp(u64);

impl ArrivalStamp {
    #[inline]
    pub(crate) fn new(arrival: Time, ecn: Ecn) -> ArrivalStamp {
        ArrivalStamp(arrival.0 << 2 | ecn as u64)
    }
    #[inline]
    pub(crate) fn arrival(self) -> Time {
        Time(self.0 >> 2)
    }
    #[inline]
    pub(crate) fn ecn(self) -> Ecn {
        Ecn::from_bits(self.0 as u8)
    }
}
