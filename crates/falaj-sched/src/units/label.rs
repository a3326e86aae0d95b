//! Information on a packet beyond its length, for active queue management and some disciplines. It
//! has the ECN bits, the connection, the time by which the packet left the previous pipe early, and
//! the time that the packet waited before a change of the discipline.

use crate::units::time::Span;

/// The two ECN bits of an IP header (RFC 3168), as encoded there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: the packet can only be dropped.
    #[default]
    Not = 0,
    /// ECN-capable with frequent marks (L4S, RFC 9331).
    Ect1 = 1,
    /// ECN-capable: the sender treats a mark like a loss.
    Ect0 = 2,
    /// Marked already: congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The ECN codepoint of the lowest two bits.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::Not,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
    /// Returns true if the packet may be marked.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::Not)
    }
}

/// Information on a packet, which is passed before the packet arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The packet's ECN bits.
    pub ecn: Ecn,
    /// A number that packets of one connection have in common.
    pub connection: u64,
    /// Time from the packet's departure from the previous pipe to its latest guaranteed departure
    /// there. A delay-jitter regulator holds the packet for this time.
    pub earliness: Span,
    /// Time that the packet has already waited under the previous discipline, before a change.
    pub waited: Span,
}

/// Function that returns the label of a waiting packet, given its handle. It is called when packets
/// move to another discipline.
pub type Known<'a> = &'a dyn Fn(u32) -> Label;
