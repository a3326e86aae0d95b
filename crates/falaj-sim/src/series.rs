//! Delays in the order of time, in as much memory however long the run is: the mean of those that
//! end in each thousandth of it.

use falaj_engine::PipeId;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::mser::{Cut, cut};

/// A run has so many parts.
const PARTS: usize = 1000;

/// The sum of delays, in nanoseconds, and how many there were.
type Part = (u64, u64);

/// Of each flow that a packet of was sent.
pub(crate) struct Series {
    /// How long a part lasts.
    part: Span,
    /// By pipe and flow; empty until its first packet.
    flows: Vec<Vec<Vec<Part>>>,
}

impl Series {
    /// Of runs of this length.
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

    /// A packet whose last bit has left.
    pub(crate) fn record(&mut self, pipe: PipeId, flow: FlowId, end: Time, delay: Span) {
        let part = ((end.0 / self.part.0) as usize).min(PARTS - 1);
        let (sum, count) = &mut self.of(pipe.0 as usize, flow.index())[part];
        *sum += delay.0;
        *count += 1;
    }

    /// Adds what another one has, part by part.
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

    /// Where each flow that has packets has warmed up, as MSER-5 says.
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

/// When a flow has warmed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warm {
    /// From here on.
    From(Span),
    /// Not in the first half of the run: from here on.
    Late(Span),
    /// There were too few packets to tell.
    Unknown,
}
