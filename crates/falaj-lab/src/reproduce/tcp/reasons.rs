//! Reasons for differences of a cell: a closed list. A cell that differs and matches no entry has
//! no known reason. The page prints the reason, which also states if the cause was not found.

use super::grid::{Cell, Congestion};
use super::measured::Measured;

/// A reason, and the cells that it applies to.
struct Reason {
    /// Returns true if the reason applies to a cell; arguments: the cell, both sides, and true if
    /// they agree in goodput.
    holds: fn(&Cell, &Measured, &Measured, bool) -> bool,
    why: &'static str,
}

const REASONS: [Reason; 5] = [
    Reason {
        holds: |cell, kernel, ours, agrees_in_goodput| {
            cell.congestion == Congestion::Bbr
                && agrees_in_goodput
                && (0.6..1.4).contains(&(ours.mean / kernel.mean))
        },
        why: "both keep the link busy; the queue that probing for a higher rate leaves is 0.6 \
              to 1.4 times the kernel's. The cause was not found",
    },
    Reason {
        holds: |cell, _, _, _| cell.congestion == Congestion::Dctcp && cell.capacity() < 5.0,
        why: "path and queue hold less than five segments, and nothing is marked: the model's \
              DCTCP is Reno there, and the kernel's has 8 % more. The cause was not found",
    },
    Reason {
        holds: |cell, kernel, ours, _| {
            matches!(cell.congestion, Congestion::Reno | Congestion::Cubic)
                && cell.round_trip <= 10
                && cell.rate < 1_000_000_000
                && (0.88..1.12).contains(&(ours.goodput / kernel.goodput))
                && (0.84..1.16).contains(&(ours.mean / kernel.mean))
        },
        why: "the round trip is no longer than a tick of the guest's clock (10 ms), on which the \
              kernel's timers and CUBIC's growth depend. Timers in ticks did not bring the model \
              nearer; the cause was not found",
    },
    Reason {
        holds: |cell, kernel, ours, _| {
            cell.congestion == Congestion::Cubic
                && cell.loss >= 3.0
                && (0.93..1.07).contains(&(ours.goodput / kernel.goodput))
        },
        why: "a window of five segments on average: the model has 5 % more goodput. The cause was \
              not found",
    },
    Reason {
        holds: |cell, kernel, ours, agrees_in_goodput| {
            cell.loss > 0.0
                && cell.rate >= 100_000_000
                && agrees_in_goodput
                && frames_apart(cell, kernel, ours) <= 8.0
        },
        why: "losses keep the window small, and the queue has a few frames: both sides are less \
              than eight frames apart in delay. The kernel hands several segments to the link at \
              one instant, the model one or two",
    },
];

/// The larger difference of both sides in mean and 99th percentile of the delay, in transmission
/// times of a frame.
fn frames_apart(cell: &Cell, kernel: &Measured, ours: &Measured) -> f64 {
    let apart = (kernel.mean - ours.mean).abs().max((kernel.p99 - ours.p99).abs());
    apart / cell.frame().0 as f64
}

/// The reason, if this cell is known to differ.
pub(super) fn of(
    cell: &Cell,
    kernel: &Measured,
    ours: &Measured,
    agrees_in_goodput: bool,
) -> Option<String> {
    let holds = |reason: &&Reason| (reason.holds)(cell, kernel, ours, agrees_in_goodput);
    let reason = REASONS.iter().find(holds);
    reason.map(|reason| reason.why.to_owned())
}
