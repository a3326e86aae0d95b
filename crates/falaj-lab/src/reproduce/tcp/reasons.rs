//! Why a cell differs: a closed list. A cell that is on none of its lines is missed. All but the
//! second were tried: with the kernel's rule the model goes where the kernel is, if not always all
//! the way. The second follows from what both do.

use super::grid::{Cell, Congestion};
use super::measured::Measured;

/// A reason, and the cells that it is for.
struct Reason {
    holds: fn(&Cell, &Measured, &Measured) -> bool,
    why: &'static str,
}

const REASONS: [Reason; 4] = [
    Reason {
        holds: |cell, kernel, ours| cell.congestion == Congestion::Bbr && ours.mean < kernel.mean,
        why: "the kernel lets three times its segmentation goal, six segments or more, be under \
              way beyond the path, and does not drain them; the model lets three, and drains them",
    },
    Reason {
        holds: |cell, _, _| cell.congestion != Congestion::Bbr && cell.capacity() < 5.0,
        why: "path and queue hold less than five segments: the three later arrivals by which the \
              model sees a loss seldom come, and it waits for a timeout; the kernel sees losses by \
              time and probes for them (RFC 8985)",
    },
    Reason {
        holds: |cell, kernel, ours| {
            matches!(cell.congestion, Congestion::Reno | Congestion::Dctcp)
                && cell.loss >= 3.0
                && ours.goodput < kernel.goodput
        },
        why: "each loss that comes before an earlier one is repaired halves the model's window; \
              the kernel's is halved once until all is repaired: at 3 %, 6 % more",
    },
    Reason {
        holds: |cell, kernel, ours| {
            cell.congestion == Congestion::Cubic
                && cell.window() < 50.0
                && ours.goodput > kernel.goodput
        },
        why: "as in RFC 9438, the model's window grows by a segment each round trip once it is \
              back where the loss was; the kernel's goes on with half a segment. That is up to a \
              tenth of its mean; the kernel also counts in whole segments",
    },
];

/// The reason, if this cell is known to differ.
pub(super) fn of(cell: &Cell, kernel: &Measured, ours: &Measured) -> Option<String> {
    let reason = REASONS.iter().find(|reason| (reason.holds)(cell, kernel, ours));
    reason.map(|reason| reason.why.to_owned())
}
