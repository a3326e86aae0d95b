//! A time series of delays, in constant memory for any length of the run. For each thousandth of
//! the run it has the mean delay of the packets that leave in it.

use falaj_engine::PipeId;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::mser::{Cut, cut};

/// Number of parts of a run.
const PARTS: usize = 1000;

/// The sum of delays in nanoseconds, and their number.
type Part = (u64, u64);

/// The time series of each flow that sent a packet.
pub(crate) struct Series {
    /// Length of a part.
    part: Span,
    /// The parts by pipe and flow; empty until the flow's first packet.
    flows: Vec<Vec<Vec<Part>>>,
}

impl Series {
    /// An empty series for runs of this length.
    pub(crate) fn new(duration: Span) -> Series {
        Series { part: Span(duration.0.div_ceil(PARTS as u64).max(1)), flows: Vec::new() }
    }

    /// The parts of a flow.
    fn of(&mut self, pipe: usize, flow: usize) -> &mut Vec<Part> {
        if self.flows.len() <= pipe {
            self.flows.resize(pipe + 1, Vec::new());
        }
        let flows = &mut self.flows[pipe];
        if flows.len() <= flow {
            flows.resize(flow + 1, Vec::new());
        }
        let parts = &mut flows[flow];
        if parts.is_empty() {
            parts.resize(PARTS, (0, 0));
        }
        parts
    }

    /// Records a packet whose last bit has left.
    pub(crate) fn record(&mut self, pipe: PipeId, flow: FlowId, end: Time, delay: Span) {
        let part = ((end.0 / self.part.0) as usize).min(PARTS - 1);
        let (sum, count) = &mut self.of(pipe.0 as usize, flow.index())[part];
        *sum += delay.0;
        *count += 1;
    }

    /// Adds the sums of another series, part by part.
    pub(crate) fn add(&mut self, other: &Series) {
        for (pipe, flows) in other.flows.iter().enumerate() {
            for (flow, others) in flows.iter().enumerate().filter(|(_, others)| !others.is_empty())
            {
                for (mine, other) in self.of(pipe, flow).iter_mut().zip(others) {
                    *mine = (mine.0 + other.0, mine.1 + other.1);
                }
            }
        }
    }

    /// The warm-up of each flow that has packets, by MSER-5.
    pub(crate) fn cuts(&self) -> impl Iterator<Item = (PipeId, FlowId, Warm)> {
        let of = |(p, flows): (usize, &Vec<Vec<Part>>)| {
            let place = move |f: usize| (PipeId(p as u32), FlowId(f as u32));
            let with = |(f, parts): (usize, &Vec<Part>)| {
                let means: Vec<Option<f64>> = parts
                    .iter()
                    .map(|&(sum, count)| (count > 0).then(|| sum as f64 / count as f64))
                    .collect();
                let (pipe, flow) = place(f);
                let at = |parts: usize| Span(self.part.0 * parts as u64);
                let warm = match cut(&means) {
                    Cut::At(parts) => Warm::From(at(parts)),
                    Cut::Late(parts) => Warm::Late(at(parts)),
                    Cut::Unknown => Warm::Unknown,
                };
                (pipe, flow, warm)
            };
            flows
                .iter()
                .enumerate()
                .filter(|(_, parts)| !parts.is_empty())
                .map(with)
                .collect::<Vec<_>>()
        };
        self.flows.iter().enumerate().flat_map(of)
    }
}

/// The end of a flow's warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warm {
    /// The flow is in steady state from here on.
    From(Span),
    /// The flow is in steady state only from here on, in the second half of the run.
    Late(Span),
    /// There were too few packets to find a warm-up.
    Unknown,
}
