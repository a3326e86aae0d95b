//! What is known of a packet beyond its length, for those who manage queues:
//! whether it may be marked instead of dropped, which connection it is of, and how early it is.

use crate::units::time::Span;

/// The two bits of an IP header that speak of congestion (RFC 3168), as they are coded there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Its ends do not look at marks: it has to be dropped.
    #[default]
    Not = 0,
    /// Its ends look at marks, and expect many (L4S, RFC 9331).
    Ect1 = 1,
    /// Its ends look at marks, and take one as a loss.
    Ect0 = 2,
    /// It is marked already: congestion was experienced.
    Ce = 3,
}

impl Ecn {
    /// By the lowest two bits.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::Not,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
    /// May it be marked?
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::Not)
    }
}

/// What is told of a packet before it arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Its ECN bits.
    pub ecn: Ecn,
    /// A number that packets of one connection have in common.
    pub connection: u64,
    /// By how much it left the pipe before sooner than at the latest that was promised there: a
    /// regulator of delay-jitter holds it so much longer.
    pub earliness: Span,
    /// How long it has waited already, where another discipline had it before a change.
    pub waited: Span,
}

/// What is known of packets that wait, by their handles: asked when they come to another
/// discipline.
pub type Known<'a> = &'a dyn Fn(u32) -> Label;
