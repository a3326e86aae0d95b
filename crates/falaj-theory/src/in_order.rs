//! The delay over servers in a row that serve in the order of arrival.
//!
//! A flow shares a server of rate `R` and latency `T` with other flows, which together have a burst
//! `b` and a rate `r`. For each `s >= 0` the server leaves over to the flow: nothing up to the time
//! `T + (b + s)/R`, then `s` at once and the rate `R - r` (Le Boudec and Thiran, proposition
//! 6.4.1). Servers in a row leave over nothing up to the sum of these times, and then the lowest of
//! all servers' lines `s + (R - r) t`. A larger `s` makes the time longer and the line higher.
//!
//! The flow has a burst `B`. The bound on its delay is lowest if each server's line reaches the
//! burst after the same time `x`, or earlier if `s` is zero: `s = max(0, B - (R - r) x)`. The best
//! `x` is zero, or one at which some `s` becomes zero (Bisti, Lenzini, Mingozzi and Stea,
//! "Numerical analysis of worst-case end-to-end delay bounds in FIFO tandem networks", 2012).

use crate::curve::{Curve, Exact};
use num_traits::Zero;

/// A server that serves in the order of arrival, given by two straight lines: one below its service
/// curve, and one above the arrival curve of the other flows.
#[derive(Clone, Debug)]
pub(crate) struct SharedServer {
    /// Rate `R` in bytes per nanosecond.
    rate: Exact,
    /// Time until all bursts of the other flows have left, `T + b/R`, in nanoseconds.
    latency: Exact,
    /// Rate that the other flows leave over, `R - r`.
    left: Exact,
}

impl SharedServer {
    /// The server with this service curve, and other flows with this arrival curve. `None` if
    /// nothing is left over.
    pub(crate) fn of(service: &Curve, others: &Curve) -> Option<SharedServer> {
        let (rate, taken) = (service.last_slope(), others.last_slope());
        if taken >= rate {
            return None;
        }
        let latency = service.pieces().iter().map(|p| &p.at - &p.value / rate).max()?;
        let burst = others.pieces().iter().map(|p| &p.after - taken * &p.at).max()?;
        Some(SharedServer {
            latency: latency + burst / rate,
            left: rate - taken,
            rate: rate.clone(),
        })
    }
}

/// The bound on the delay of a flow with this arrival curve over these servers. `None` if the flow
/// may send more than is left over.
pub(crate) fn delay(sent: &Curve, servers: &[SharedServer]) -> Option<Exact> {
    let burst = sent.after(&Exact::zero());
    let times = servers.iter().map(|server| &burst / &server.left).chain([Exact::zero()]);
    times.filter_map(|time| delay_with(sent, servers, &burst, &time)).min()
}

/// The bound if each server's line reaches the burst after this time `x`, or earlier.
fn delay_with(
    sent: &Curve,
    servers: &[SharedServer],
    burst: &Exact,
    time: &Exact,
) -> Option<Exact> {
    let mut latency = Exact::zero();
    let mut longest = Exact::zero();
    for SharedServer { rate, latency: until, left } in servers {
        let at_once = (burst - left * time).max(Exact::zero());
        latency += until + &at_once / rate;
        // The distance to the lowest of several lines is the largest of the distances to each.
        let line = Curve::affine(left.clone(), at_once);
        longest = longest.max(sent.delay(&line)?.length);
    }
    Some(latency + longest)
}
