//! The transmission of a packet, as pipes and impairments track it.

use falaj_sched::units::time::Time;

/// The transmission of the packet on the wire, as it was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// Departure of its last bit.
    pub(crate) end: Time,
    /// Earliest start of the next packet.
    pub(crate) free: Time,
    /// Time of delivery.
    pub(crate) due: Time,
    /// Number of deliveries: zero if it is lost, two if it is duplicated.
    pub(crate) deliveries: u8,
    /// True if the packet was handed to the device behind the link, which sends it.
    pub(crate) handed: bool,
}
