//! Limits on the service of flows that share a link in proportion to weights.

use crate::contract::guarantee::{ProportionalLimits, ServiceLimits};
use crate::mechanisms::virtual_time::Weights;
use crate::mechanisms::weights::{ROUNDING, Shares};
use crate::queues::queue::FlowId;

/// The limits of a discipline that orders packets by tags: see [`ProportionalLimits`]. `None` if
/// the flow's slope is rounded, because its share then differs slightly from its weight.
pub(crate) fn by_tags(shares: &Shares, f: FlowId, ahead: u64) -> Option<ServiceLimits> {
    is_exact(shares.byte().into(), shares.weight(f)).then(|| {
        ServiceLimits::Proportion(ProportionalLimits {
            weight: shares.weight(f).into(),
            divisor: shares.weight(f).into(),
            ahead,
            extra: shares.largest(),
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
    is_exact(shares.byte().into(), shares.weight(f)).then(|| {
        ServiceLimits::Proportion(ProportionalLimits {
            weight: shares.weight(f).into(),
            divisor: shares.weight(f).into(),
            ahead: 0,
            extra: 0,
            packet: 0,
            fluid: true,
            late: shares.behind_fluid(),
        })
    })
}

/// The least virtual time of a byte for which there are limits by starts. A flow that becomes
/// backlogged or silent may gain half a unit by rounding, up to half a millionth of a byte.
const FINE_BYTE: u128 = 1 << 20;

/// The limits of a discipline that serves packets from their virtual starts on, in the order of
/// their virtual finishes. `None` if the virtual time of a byte of the flow is rounded or below
/// [`FINE_BYTE`].
pub(crate) fn by_starts(
    weights: &Weights,
    f: FlowId,
    ahead: u64,
    extra: u64,
) -> Option<ServiceLimits> {
    let is_fine = weights.of_bytes(f, 1) >= FINE_BYTE;
    (is_fine && is_exact(weights.byte, weights.of(f))).then(|| {
        ServiceLimits::Proportion(ProportionalLimits {
            weight: weights.of(f).into(),
            divisor: weights.of(f).into(),
            ahead,
            extra,
            packet: weights.largest.into(),
            fluid: false,
            // The part of the packet on the wire that counts in virtual time is rounded too.
            late: ROUNDING + ROUNDING,
        })
    })
}

/// Virtual time in which flows are compared by [`by_slots`]. Even the lightest flow may send 2^24
/// bytes in it.
const LONG: u64 = 1 << 62;

/// The limits of a discipline that rounds virtual starts to slots. `inverse` is the virtual time of
/// a byte of the flow, whether rounded or not. If the flow is one of `flows` that are sorted
/// together, it is that of a byte of all of them; as a rival, each may send what all of them may.
/// `None` if `inverse` is below [`FINE_BYTE`].
pub(crate) fn by_slots(
    inverse: u64,
    flows: u32,
    largest: u32,
    ahead: u64,
    extra: u64,
) -> Option<ServiceLimits> {
    (u128::from(inverse) >= FINE_BYTE).then(|| {
        ServiceLimits::Proportion(ProportionalLimits {
            weight: LONG.div_ceil(inverse),
            divisor: LONG / (inverse * u64::from(flows)),
            ahead,
            extra,
            packet: largest.into(),
            fluid: false,
            late: ROUNDING,
        })
    })
}

/// Returns true if `byte`, the virtual time of a byte at weight 1, is a multiple of the weight.
fn is_exact(byte: u128, weight: u32) -> bool {
    byte.is_multiple_of(weight.into())
}
