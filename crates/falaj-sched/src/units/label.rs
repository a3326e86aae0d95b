//! Information on a packet beyond its length, for queue management: if it may be marked instead of
//! dropped, its connection, and how early it is.

use crate::units::time::Span;

/// The two ECN bits of an IP header (RFC 3168), as encoded there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: it has to be dropped.
    #[default]
    Not = 0,
    /// ECN-capable with frequent marks (L4S, RFC 9331).
    Ect1 = 1,
    /// ECN-capable; a mark counts as a loss.
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
    /// Returns true if it may be marked.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::Not)
    }
}

/// Information passed before a packet arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Its ECN bits.
    pub ecn: Ecn,
    /// A number that packets of one connection have in common.
    pub connection: u64,
    /// Time by which it left the previous pipe before the latest time guaranteed there: a
    /// delay-jitter regulator holds it that much longer.
    pub earliness: Span,
    /// Time that it has waited already, under another discipline before a change.
    pub waited: Span,
}

/// Labels of waiting packets by their handles, queried when they move to another discipline.
pub type Known<'a> = &'a dyn Fn(u32) -> Label;
