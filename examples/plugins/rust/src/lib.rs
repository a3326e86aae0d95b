//! Deficit round robin, like falaj's own `drr` and the example in C. Each visit adds a flow's
//! quantum to its deficit. The flow sends while its deficit covers its head-of-line packet. It
//! keeps the rest of the deficit for the next visit, and loses it when its queue is empty.

use falaj_plugin_api::{Answer, Discipline, Queue, Refused, Sent, Setup, Value, export};
use std::collections::VecDeque;
use std::ffi::CStr;

#[derive(Clone, Default)]
struct Flow {
    quantum: u32,
    deficit: u32,
    in_round: bool,
}

struct Drr {
    flows: Vec<Flow>,
    round: VecDeque<u32>,
    /// True if the first flow of the round has got its quantum.
    visiting: bool,
}

export!(Drr);

impl Discipline for Drr {
    const NAME: &'static CStr = c"deficit round robin, in Rust";
    const WORK_CONSERVING: bool = true;
    const CAN_MIGRATE: bool = true;

    fn new(setup: &Setup<'_>) -> Result<Drr, Refused> {
        let mut flows = Vec::with_capacity(setup.flows.len());
        for (f, flow) in setup.flows.iter().enumerate() {
            let refused = |what: &str| Refused {
                flow: Some(f as u32),
                what: what.into(),
                help: format!(
                    "`quantum` is a size: at least `{}B`, the largest packet as the link \
                     accounts it; at most 1 GiB",
                    setup.largest
                ),
            };
            if flow.params.0.iter().any(|(name, _)| *name != "quantum") {
                return Err(refused("the only parameter is `quantum`, a size"));
            }
            let quantum = match flow.params.get("quantum") {
                None => u64::from(setup.largest),
                Some(Value::Bytes(bytes)) => bytes,
                Some(_) => return Err(refused("the only parameter is `quantum`, a size")),
            };
            if !(u64::from(setup.largest)..=1 << 30).contains(&quantum) {
                return Err(refused("the `quantum` is out of range"));
            }
            flows.push(Flow { quantum: quantum as u32, ..Flow::default() });
        }
        Ok(Drr { round: VecDeque::with_capacity(flows.len()), flows, visiting: false })
    }

    fn ready(&mut self, _: &[Queue], flow: u32, _: u64) {
        // A flow keeps its turn if a packet arrives while its last one is sent.
        if !std::mem::replace(&mut self.flows[flow as usize].in_round, true) {
            self.round.push_back(flow);
        }
    }

    fn next(&mut self, queues: &[Queue], _: u64) -> Answer {
        while let Some(&first) = self.round.front() {
            let (queue, flow) = (&queues[first as usize], &mut self.flows[first as usize]);
            if queue.head == 0 {
                self.round.pop_front();
                (flow.in_round, flow.deficit, self.visiting) = (false, 0, false);
                continue;
            }
            if !self.visiting {
                flow.deficit += flow.quantum;
                self.visiting = true;
            }
            if queue.head <= flow.deficit {
                return Answer::Serve(first);
            }
            self.visiting = false;
            self.round.rotate_left(1);
        }
        Answer::Idle
    }

    fn take(&mut self, _: &[Queue], flow: u32, sent: &Sent) {
        self.flows[flow as usize].deficit -= sent.bytes;
    }

    /// Takes over the order of the round and the deficits. A deficit above the flow's new quantum
    /// is reduced to it.
    fn migrate_from(&mut self, old: &mut Drr, _: &[Queue], _: u64) {
        self.visiting = old.visiting;
        self.round.extend(&old.round);
        for (flow, old) in self.flows.iter_mut().zip(&old.flows) {
            (flow.in_round, flow.deficit) = (old.in_round, old.deficit.min(flow.quantum));
        }
    }
}
