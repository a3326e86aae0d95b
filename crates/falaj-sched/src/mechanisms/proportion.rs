//! Limits on the service of flows that share a link in proportion to weights.

use crate::contract::guarantee::{ProportionalLimits, ServiceLimits};
use crate::mechanisms::weights::{ROUNDING, Shares};
use crate::queues::queue::FlowId;

/// The limits of a discipline that orders packets by tags: see [`ProportionalLimits`]. `None` if
/// the flow's slope is rounded, because its share then differs slightly from its weight.
pub(crate) fn by_tags(shares: &Shares, f: FlowId, ahead: u64) -> Option<ServiceLimits> {
    is_exact(shares, f).then(|| {
        ServiceLimits::Proportion(ProportionalLimits {
            weight: shares.weight(f).into(),
            ahead,
            packet: shares.largest(),
            fluid: false,
            late: ROUNDING,
        })
    })
}

/// The limits of a discipline whose packets leave at most a largest packet's time after the fluid
/// server has finished them (Parekh and Gallager 1993). While flow `i` is backlogged there, the
/// fluid server serves flow `j` at most `w_j/w_i` times as much. `None` if the slope is rounded.
pub(crate) fn by_fluid(shares: &Shares, f: FlowId) -> Option<ServiceLimits> {
    is_exact(shares, f).then(|| {
        ServiceLimits::Proportion(ProportionalLimits {
            weight: shares.weight(f).into(),
            ahead: 0,
            packet: 0,
            fluid: true,
            late: shares.behind_fluid(),
        })
    })
}

/// Returns true if the virtual time of a byte at weight 1 is a multiple of the flow's weight.
fn is_exact(shares: &Shares, f: FlowId) -> bool {
    shares.byte().is_multiple_of(shares.weight(f).into())
}
