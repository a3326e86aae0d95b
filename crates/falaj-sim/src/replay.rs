//! Replays the packets that entered a live link: the same engine, the same instants, the same
//! decisions.

use falaj_engine::handover::FlowMapping;
use falaj_engine::key::Key;
use falaj_engine::network::{
    IngressPacket, Network, NetworkChange, NetworkSpec, PipePlaces, RouteError,
};
use falaj_engine::pipe::Counters;
use falaj_engine::transaction::{FlowChange, Transaction};
use falaj_engine::{ChangeError, DropReason, Output, PipeId, ecn, rules};
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Label;
use falaj_sched::units::time::Time;
use falaj_traffic::capture::{Taken, Verdict};
use falaj_traffic::meter::Meter;

/// A packet that enters the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number of its pipe, if `flow` is known; otherwise its direction: up (0) or down (1).
    pub way: u32,
    /// Its flow, if it is known; otherwise rules and links classify the packet.
    pub flow: Option<FlowId>,
    /// Its fields, as rules, links and masks match them.
    pub key: Key,
    /// Length of the IP packet in bytes; at least 1.
    pub length: u32,
    /// Time of arrival; never before the arrival of the previous packet.
    pub at: Time,
}

/// The result of a replay.
pub struct Replayed {
    /// The fate of each packet, in order of arrival.
    pub verdicts: Vec<Verdict>,
    /// By pipe and flow: counters, and the delays of the packets sent. The pipes are those of the
    /// links that exist at the end.
    pub flows: Vec<Vec<(Counters, Meter)>>,
    /// Counters of each rule.
    pub taken: Vec<rules::RuleCounters>,
    /// Packets that matched no rule, or no flow of their link.
    pub unmatched: u64,
}

/// Feeds these arrivals to a network. Packets still queued after the last arrival are sent, unless
/// `until` comes first.
///
/// # Errors
/// A discipline refuses its setup.
///
/// # Panics
/// If an arrival is before the previous one, or a pipe or flow does not exist.
pub fn replay(
    spec: &NetworkSpec,
    arrivals: &[Arrival],
    until: Option<Time>,
) -> Result<Replayed, (PipeId, ConfigErrors)> {
    let mut replay = Replay::new(spec, arrivals)?;
    replay.enter(arrivals.len());
    Ok(replay.end(until))
}

/// Arrivals on their way into a network, which may be changed between them.
pub struct Replay<'a> {
    network: Network,
    arrivals: &'a [Arrival],
    /// Number of arrivals that have entered or were rejected.
    entered: usize,
    verdicts: Vec<Verdict>,
    /// Delays, by pipe and flow.
    delays: Vec<Vec<Meter>>,
    unmatched: u64,
    out: Vec<Output>,
    /// The outputs since the last call of [`Replay::recorded`]; `None` if none are recorded.
    recorded: Option<Vec<Output>>,
    /// Pipes for which results are returned.
    order: Vec<PipeId>,
}

impl<'a> Replay<'a> {
    /// A replay into which no packet has entered yet.
    ///
    /// # Errors
    /// A discipline refuses its setup.
    pub fn new(
        spec: &NetworkSpec,
        arrivals: &'a [Arrival],
    ) -> Result<Replay<'a>, (PipeId, ConfigErrors)> {
        let network = Network::new(spec)?;
        let delays: Vec<Vec<Meter>> =
            network.flows().into_iter().map(|flows| vec![Meter::new(); flows]).collect();
        Ok(Replay {
            order: (0..delays.len() as u32).map(PipeId).collect(),
            verdicts: vec![Verdict::Waiting; arrivals.len()],
            network,
            arrivals,
            entered: 0,
            delays,
            unmatched: 0,
            out: Vec::new(),
            recorded: None,
        })
    }

    /// Records outputs from now on: one for each link that a packet passes, or at which it is lost.
    pub fn record(&mut self) {
        self.recorded = Some(Vec::new());
    }

    /// Takes the outputs recorded since the last call, in the order of decisions: packets that
    /// leave a link, losses, and corrections of earlier outputs.
    pub fn recorded(&mut self) -> Vec<Output> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Records the decisions of the network.
    fn note(&mut self) {
        for output in self.out.drain(..) {
            if let Some(recorded) = &mut self.recorded {
                recorded.push(output);
            }
            match output {
                Output::Emit(e) => {
                    self.verdicts[e.handle as usize] =
                        Verdict::Sent { start: e.start, end: e.end, due: e.due };
                    self.delays[e.pipe.0 as usize][e.flow.index()].record(e.end - e.arrival);
                }
                Output::Drop(d) => self.verdicts[d.handle as usize] = Verdict::Dropped(d.why),
                // The verdict keeps the times that were decided when the transmission began.
                Output::Retimed(r) => {
                    let [old, new] = [r.old_end, r.end].map(|end| end - r.arrival);
                    self.delays[r.pipe.0 as usize][r.flow.index()].correct(old, new);
                }
                // The replay makes these outputs as the live engine did, but captures do not
                // contain them.
                Output::Copy(_) | Output::Corrupt(_) | Output::Mark(_) | Output::Early(_) => {}
            }
        }
        for e in self.network.passed() {
            self.delays[e.pipe.0 as usize][e.flow.index()].record(e.end - e.arrival);
            if let Some(recorded) = &mut self.recorded {
                recorded.push(Output::Emit(e));
            }
        }
    }

    /// Lets arrivals enter until `number` of them have entered.
    ///
    /// # Panics
    /// If an arrival is before the previous one, or a pipe or flow does not exist.
    pub fn enter(&mut self, number: usize) {
        for handle in self.entered..number.min(self.arrivals.len()) {
            let Arrival { way, flow, key, length, at } = self.arrivals[handle];
            let entry = match flow {
                Some(flow) => Ok(self.network.route_to(PipeId(way), flow)),
                None => self.network.route(&key, way as usize, length, at),
            };
            match entry {
                Ok(entry) => {
                    let label = ecn::label(&key);
                    let packet = IngressPacket { handle: handle as u32, length, label: &label };
                    self.network.enter(entry, &key, packet, at, &mut self.out);
                    self.note();
                }
                Err(RouteError::Dropped) => {
                    self.verdicts[handle] = Verdict::Dropped(DropReason::Rule);
                }
                Err(RouteError::Unmatched) => {
                    self.verdicts[handle] = Verdict::Dropped(DropReason::Unmatched);
                    self.unmatched += 1;
                }
            }
            self.entered = handle + 1;
        }
    }

    /// Reports that the device which paces this pipe's packets has room for `bytes` bytes. The
    /// report takes effect after the arrivals that have entered, and not before the time of the
    /// last arrival.
    pub fn port_room(&mut self, way: PipeId, bytes: u32, at: Time) {
        self.network.port_room(way, bytes, at, &mut self.out);
        self.note();
    }

    /// The present number of flows of a pipe; 0 if the pipe does not exist.
    pub fn flows(&self, pipe: PipeId) -> usize {
        self.delays.get(pipe.0 as usize).map_or(0, Vec::len)
    }

    /// The pipe places (indices; both directions of a link share one) of this instant, and those
    /// free for new links. `now` must not be before the last arrival that has entered.
    pub fn places(&mut self, now: Time) -> PipePlaces {
        self.network.poll(now, &mut self.out);
        self.note();
        self.network.places()
    }

    /// Number of arrivals that have entered or were rejected.
    pub fn entered(&self) -> usize {
        self.entered
    }

    /// Returns true if all arrivals have entered, and no packet is queued or on the wire.
    pub fn is_over(&self) -> bool {
        self.entered == self.arrivals.len() && self.network.next_event() == Time::NEVER
    }

    /// Applies a change after the arrivals that have entered, and not before the time of the last
    /// arrival.
    ///
    /// # Errors
    /// Queued packets would exceed the new maximum packet size, or the change belongs to another
    /// network.
    pub fn change(&mut self, change: Transaction, now: Time) -> Result<(), ChangeError> {
        let Transaction { engine, flows, ingress, rules, order } = change;
        // Decisions before the change use the flows' numbers of that time.
        self.network.poll(now, &mut self.out);
        self.note();
        let mappings: Vec<(PipeId, &[FlowMapping])> =
            flows.iter().map(|flows| (flows.pipe, &flows.mappings[..])).collect();
        let begin: Vec<PipeId> = engine.begins().collect();
        let arrivals = self.arrivals;
        let known = |handle: u32| {
            arrivals.get(handle as usize).map_or(Label::default(), |a| ecn::label(&a.key))
        };
        self.network.apply(
            engine,
            NetworkChange { flows: &mappings, ingress, rules },
            &known,
            now,
            &mut self.out,
        )?;
        for FlowChange { pipe, mappings, number } in flows {
            let old =
                std::mem::replace(&mut self.delays[pipe.0 as usize], vec![Meter::new(); number]);
            for (f, delays) in old.into_iter().enumerate() {
                match mappings.get(f) {
                    Some(FlowMapping::Is(is)) => self.delays[pipe.0 as usize][is.index()] = delays,
                    Some(_) => {}
                    None => self.delays[pipe.0 as usize][f] = delays,
                }
            }
        }
        let all = self.network.flows();
        self.delays.resize(all.len(), Vec::new());
        for p in begin.iter().map(|pipe| pipe.0 as usize) {
            self.delays[p] = vec![Meter::new(); all[p]];
        }
        self.order = order;
        self.note();
        Ok(())
    }

    /// Sends all queued packets, or those that leave by `until`.
    pub fn finish(&mut self, until: Option<Time>) {
        self.network.poll(until.unwrap_or(Time(Time::NEVER.0 - 1)), &mut self.out);
        self.note();
    }

    /// Returns the result, after all queued packets have been sent, or at `until`.
    pub fn end(mut self, until: Option<Time>) -> Replayed {
        self.finish(until);
        let Replay { network, verdicts, mut delays, unmatched, order, .. } = self;
        let with_counters = |pipe: &PipeId| {
            let of = |(f, delay)| (network.counters(*pipe, FlowId(f as u32)), delay);
            std::mem::take(&mut delays[pipe.0 as usize]).into_iter().enumerate().map(of).collect()
        };
        let flows = order.iter().map(with_counters).collect();
        let unmatched = unmatched + network.unmatched();
        Replayed { verdicts, flows, taken: network.taken().to_vec(), unmatched }
    }
}

/// Returns the first packet for which the replay's decision differs from the live engine's. A
/// packet still queued when the capture ended had no decision yet and is skipped.
pub fn first_difference(taken: &[Taken], verdicts: &[Verdict]) -> Option<usize> {
    taken.iter().zip(verdicts).position(|(taken, verdict)| match taken.verdict {
        Verdict::Waiting => false,
        other => other != *verdict,
    })
}
