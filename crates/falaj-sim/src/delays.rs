//! Delays of all flows, buffered per flow and counted a few at a time.

use falaj_engine::{Emit, PipeId};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_traffic::meter::Meter;

/// A meter for each flow. The counts of a meter take more than a hundred kilobytes. With many
/// flows, the count that the next delay increments is in no cache. Therefore the delays of a flow
/// are buffered and counted together: successive packets of a flow have similar delays, whose
/// counts are close together in memory.
pub(crate) struct DelayMeters {
    /// By pipe and flow.
    meters: Vec<Vec<Meter>>,
    waiting: Vec<Vec<Waiting>>,
}

/// Delays of a flow that are not counted yet, in nanoseconds: two cache lines.
#[derive(Clone)]
#[repr(align(64))]
struct Waiting {
    number: u32,
    delays: [u32; Waiting::MOST],
}

impl Waiting {
    const MOST: usize = 31;
    const NONE: Waiting = Waiting { number: 0, delays: [0; Waiting::MOST] };

    /// Counts the buffered delays in the flow's meter.
    #[inline(never)]
    fn count(&mut self, meter: &mut Meter) {
        meter.record_short(&self.delays[..self.number as usize]);
        self.number = 0;
    }
}

impl DelayMeters {
    /// Meters for these numbers of flows, one number per pipe.
    pub(crate) fn new(flows: impl IntoIterator<Item = usize>) -> DelayMeters {
        let flows: Vec<usize> = flows.into_iter().collect();
        DelayMeters {
            meters: flows.iter().map(|&flows| vec![Meter::new(); flows]).collect(),
            waiting: flows.iter().map(|&flows| vec![Waiting::NONE; flows]).collect(),
        }
    }

    /// Adds meters for pipes that have begun.
    pub(crate) fn grow(&mut self, flows: Vec<usize>) {
        for flows in flows.into_iter().skip(self.meters.len()) {
            self.meters.push(vec![Meter::new(); flows]);
            self.waiting.push(vec![Waiting::NONE; flows]);
        }
    }

    /// Counts the delay of a packet that left.
    #[inline]
    pub(crate) fn record(&mut self, emit: &Emit) {
        let delay = emit.end - emit.arrival;
        let waiting = &mut self.waiting[emit.pipe.0 as usize][emit.flow.index()];
        let Ok(short) = u32::try_from(delay.0) else {
            return self.record_long(emit.pipe, emit.flow, delay);
        };
        waiting.delays[waiting.number as usize] = short;
        waiting.number += 1;
        if waiting.number as usize == Waiting::MOST {
            waiting.count(&mut self.meters[emit.pipe.0 as usize][emit.flow.index()]);
        }
    }

    /// Counts a delay of more than four seconds, which does not fit into 32 bits.
    #[cold]
    fn record_long(&mut self, pipe: PipeId, flow: FlowId, delay: Span) {
        let meter = &mut self.meters[pipe.0 as usize][flow.index()];
        self.waiting[pipe.0 as usize][flow.index()].count(meter);
        meter.record(delay);
    }

    /// The meters, with all that was recorded in them.
    pub(crate) fn into_meters(mut self) -> Vec<Vec<Meter>> {
        let meters = self.meters.iter_mut().flatten();
        meters
            .zip(self.waiting.iter_mut().flatten())
            .for_each(|(meter, waiting)| waiting.count(meter));
        self.meters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::units::time::Time;

    /// Two flows in turn have short and long delays, in numbers below and above the size of the
    /// buffer. The delays are counted as if each were recorded alone.
    #[test]
    fn all_are_counted_in_their_order() {
        for number in [0, 1, 30, 31, 32, 62, 100] {
            let mut delays = DelayMeters::new([1, 2]);
            let mut plain = [Meter::new(), Meter::new()];
            for n in 0..number {
                let (flow, delay) =
                    (n % 2, Span(if n % 7 == 3 { 5_000_000_000 + n } else { 1000 * n }));
                let end = Time::ZERO + delay;
                let of = (PipeId(1), FlowId(flow as u32));
                let emit = Emit {
                    pipe: of.0,
                    flow: of.1,
                    handle: 0,
                    bytes: 1,
                    arrival: Time::ZERO,
                    start: end,
                    end,
                    due: end,
                };
                delays.record(&emit);
                plain[flow as usize].record(delay);
            }
            let meters = delays.into_meters();
            assert_eq!(meters[0][0].count(), 0);
            for (is, should) in meters[1].iter().zip(&plain) {
                assert_eq!(format!("{is:?}"), format!("{should:?}"));
            }
        }
    }
}
