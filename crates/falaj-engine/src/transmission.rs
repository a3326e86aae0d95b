//! The transmission of a packet, as pipes and impairments track it.

use falaj_sched::units::time::Time;

/// The transmission of the packet on the wire, as it was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// When its last bit leaves.
    pub(crate) end: Time,
    /// When the next packet may go.
    pub(crate) free: Time,
    /// When it is delivered.
    pub(crate) due: Time,
    /// How many times it is delivered: not at all if it is lost, twice if it is duplicated.
    pub(crate) deliveries: u8,
    /// The packet was handed to the device behind the link, which sends it.
    pub(crate) handed: bool,
}
