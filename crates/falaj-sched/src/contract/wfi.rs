//! The bound on a flow's worst-case fair index (B-WFI): the bytes by which a backlogged flow may
//! be behind its share of the link.

use core::fmt;

/// The bound that a discipline declares, as a formula.
#[derive(Clone, Copy)]
pub struct WfiFormula {
    /// The formula, in which `phi = w/sum w` is the flow's share of the link by its weight `w`, `L`
    /// the link's largest packet, and `L_i` the flow's own largest packet.
    pub formula: &'static str,
    /// The condition under which the bound holds; `None` if it always holds.
    pub condition: Option<&'static str>,
    /// The bound of one flow, in bytes.
    pub bytes: fn(&WfiFlow) -> f64,
}

/// Does not print the function: the compiler may give one function several addresses.
impl fmt::Debug for WfiFormula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WfiFormula")
            .field("formula", &self.formula)
            .field("condition", &self.condition)
            .finish_non_exhaustive()
    }
}

/// The weight and the packets of a flow, and those of the other flows of its link.
#[derive(Debug, Clone, Copy)]
pub struct WfiFlow {
    /// The flow's weight.
    pub weight: u64,
    /// The flow's share of the link: its weight divided by the sum of all weights.
    pub phi: f64,
    /// The flow's largest packet, in bytes.
    pub own: f64,
    /// Bytes by which the flow's largest packet is longer than its smallest.
    pub spread: f64,
    /// Number of flows.
    pub flows: usize,
    /// Sum of all weights.
    pub weights: f64,
    /// The smallest weight.
    pub lightest: f64,
    /// Sum of all flows' largest packets, in bytes.
    pub all: f64,
    /// The largest packet of any flow, in bytes.
    pub most: f64,
    /// The largest packet that the link allows, in bytes.
    pub link: u32,
}

/// Bound on the bytes by which the rounding of tags and nanoseconds changes the index, on links up
/// to 8 Gbit/s.
pub(crate) const ROUNDED: f64 = 1.0;
