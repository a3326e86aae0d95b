//! Checks each packet against the guarantee of its flow, and arrivals against the envelope.
//!
//! A packet whose delay exceeds the bound of its flow is a violation, with one of these causes:
//!
//! | cause | when |
//! |---|---|
//! | own burst | it exceeded its flow's envelope, or arrived after such a packet in the same busy period |
//! | host | it left its queue in time, but was delivered late; or this host read it late, in a bunch |
//! | guarantee | any other case: the guarantee was not kept |
//!
//! An own burst, or a bunch, is a cause only if the bound holds for conforming packets alone. A
//! *bunch* is a group of packets that are read together after a time in which the link's thread
//! could not run.
//!
//! A guaranteed rate is checked in two ways: for each packet by the flow's guaranteed rate clock,
//! and at each look (a call of [`Forwarder::settle`]) by the backlog of an earlier look. This
//! backlog must have left by its deadline. A check that finds a violation yields its interval.
//! Late delivery by the host does not violate a rate; it is reported for packets with a bound on
//! their delay.
//!
//! A packet that exceeds the envelope is counted, and treated as any other packet. The flow counts
//! as conforming again when its queue has run empty. Without an envelope the bound is that of a
//! full queue, which no sender can exceed.
//!
//! A change may give a flow another guarantee while its packets are queued. No guarantee covers
//! these packets, nor packets that arrive while they are still queued. With an envelope, the new
//! bound applies from the next busy period on; without one, it applies once the old packets have
//! left.
//!
//! Until the link has rested (no packet in its queues or on the wire), the discipline may exceed
//! its guarantee by the time that it declares
//! ([`Settling`](falaj_sched::contract::guarantee::Settling)). If it declares no such time, nothing
//! is checked until the link has rested. Even then, the discipline may remember service from before
//! the change, as a regulator does. Packets are therefore checked only if they arrive after the
//! instant by which the earlier guarantee would have served the packets queued at the change. A
//! flow without an earlier guarantee is then not checked at all.

use super::Forwarder;
use super::envelope::{Conformance, Envelope};
use super::run_delay::Stall;
use super::units::UnitPacket;
use falaj_engine::PipeId;
use falaj_engine::guaranteed_rate::{GuaranteedRateClock, RateShortfall};
use falaj_engine::message::{Emit, Retimed};
use falaj_engine::pipe::Counters;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Number of violations of each cause that are remembered one by one.
pub const REMEMBERED: usize = 64;

/// The guarantee of a flow, and its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuaranteeTerms {
    /// The name of the flow, by which it is identified after a change.
    pub name: String,
    /// A rate and latency that hold while the flow is backlogged; `None`: no rate is guaranteed, or
    /// the counters do not suffice to check it.
    pub rate: Option<(Rate, Span)>,
    /// Additional latency and delay after a change, until the link has rested; `None`: unknown.
    pub settling: Option<Span>,
    /// Bound on the delay from last bit in to last bit out; `None`: no bound.
    pub delay: Option<Span>,
    /// Envelope of the flow, each entry a rate and a burst in bytes. Empty: no envelope.
    pub envelope: Vec<(Rate, u64)>,
    /// True if the bound on the delay holds for conforming packets only.
    pub on_condition: bool,
    /// True if the flow has a mask, so that each id has its own queue. The flow is not checked
    /// then, because its counters are sums over all ids.
    pub many: bool,
}

/// The cause of a packet's late departure or delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationCause {
    /// The packet's flow exceeded its envelope.
    OwnBurst,
    /// This host read the packet late, together with others, or delivered it late.
    Host,
    /// The guarantee was not kept.
    Guarantee,
}

impl ViolationCause {
    /// All causes.
    pub const ALL: [ViolationCause; 3] =
        [ViolationCause::OwnBurst, ViolationCause::Host, ViolationCause::Guarantee];

    /// The name of the cause.
    pub fn name(self) -> &'static str {
        match self {
            ViolationCause::OwnBurst => "own-burst",
            ViolationCause::Host => "host",
            ViolationCause::Guarantee => "guarantee",
        }
    }
}

/// A packet that exceeded its bound on the delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Number of the violation, counted from 1 in the order of detection.
    pub number: u64,
    /// Name of its flow.
    pub flow: String,
    /// The cause.
    pub cause: ViolationCause,
    /// The bound.
    pub bound: Span,
    /// Arrival of its last bit.
    pub arrival: Time,
    /// Departure of its last bit.
    pub end: Time,
    /// Time of delivery, if that was late.
    pub handed_over: Option<Time>,
}

/// A violation of a guaranteed rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateViolation {
    /// Number of the violation, counted from 1 together with violations of delays, in the order of
    /// detection.
    pub number: u64,
    /// Name of its flow.
    pub flow: String,
    /// The guaranteed rate.
    pub rate: Rate,
    /// The interval, and the shortfall of service in it.
    pub proof: RateShortfall,
}

/// Counters of a flow's guarantee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compliance {
    /// Number of packets that arrived at an empty queue. For a flow with a mask: all its packets.
    pub periods: u64,
    /// Packets that exceeded the envelope.
    pub beyond: u64,
    /// Their bytes.
    pub beyond_bytes: u64,
    /// Number of packets that exceeded their bound, for each of [`ViolationCause::ALL`].
    pub late: [u64; 3],
    /// Violations of the guaranteed rate.
    pub short: u64,
}

#[derive(Clone, Debug)]
struct FlowGuarantee {
    terms: GuaranteeTerms,
    envelope: Envelope,
    /// Instant from which on the flow has exceeded its envelope, in this busy period.
    excused: Option<Time>,
    /// Instant at which packets were first read together after a stall of this host, in this busy
    /// period.
    bunched: Option<Time>,
    found: PriorBacklog,
    clock: Option<GuaranteedRateClock>,
    /// Packets that arrived before this instant are not checked.
    judged_from: Time,
    waited: Option<SeenBacklog>,
    kept: Compliance,
}

/// The backlog at a look, and the instant by which it must have left.
#[derive(Clone, Copy, Debug)]
struct SeenBacklog {
    at: Time,
    bytes: u64,
    sent: u64,
    thrown_away: u64,
    deadline: Time,
}

/// The time by which a packet may exceed its guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowance {
    Time(Span),
    /// Unknown: nothing is checked.
    Unknown,
}

/// The backlog of earlier terms that a packet finds in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PriorBacklog {
    Nothing,
    /// Packets that were queued when the present terms began, at this instant.
    Others(Time),
    /// Such packets, which have left by this instant.
    OthersUntil(Time),
}

impl FlowGuarantee {
    /// A guarantee with these terms, which apply from now on.
    fn new(terms: GuaranteeTerms, now: Time) -> FlowGuarantee {
        let clock = |(rate, latency)| GuaranteedRateClock::new(rate, latency, now);
        FlowGuarantee {
            clock: terms.rate.map(clock),
            envelope: Envelope::new(&terms.envelope),
            terms,
            excused: None,
            bunched: None,
            found: PriorBacklog::Nothing,
            judged_from: Time::ZERO,
            waited: None,
            kept: Compliance::default(),
        }
    }

    /// Changes the terms from now on.
    fn change_terms(self, terms: GuaranteeTerms, now: Time, is_empty: bool) -> FlowGuarantee {
        if self.terms == terms {
            return self;
        }
        let found = if is_empty { PriorBacklog::Nothing } else { PriorBacklog::Others(now) };
        let mut new = FlowGuarantee::new(terms, now);
        new.envelope.set_last(now);
        let is_known = new.terms.settling.is_some();
        let clock = match (new.terms.rate, self.clock) {
            (Some((rate, latency)), Some(clock)) => Some(clock.changed(rate, latency, now)),
            _ => new.clock.filter(|_| is_known),
        };
        let waits = [
            self.clock.map(|clock| clock.deadline(now, 0, Span::ZERO)),
            self.terms.delay.map(|delay| now + delay),
        ];
        let judged_from = match waits.into_iter().flatten().max() {
            _ if is_known => self.judged_from,
            until => until.map_or(Time::NEVER, |until| until.max(self.judged_from)),
        };
        FlowGuarantee {
            kept: self.kept,
            excused: self.excused,
            bunched: self.bunched,
            found,
            clock,
            judged_from,
            ..new
        }
    }

    fn arrived(&mut self, bytes: u32, now: Time, was_empty: bool, stall: Stall) {
        if was_empty {
            self.kept.periods += 1;
            (self.excused, self.bunched, self.found) = (None, None, PriorBacklog::Nothing);
        }
        match self.envelope.arrived(bytes, now, stall) {
            Conformance::Within => {}
            Conformance::Bunched => {
                self.bunched.get_or_insert(now);
            }
            Conformance::Beyond => {
                self.kept.beyond += 1;
                self.kept.beyond_bytes += u64::from(bytes);
                self.excused.get_or_insert(now);
            }
        }
    }

    /// Handles the departure of a packet that arrived at `arrival`. Returns the cause to which a
    /// violation of its delay bound is attributed, or `None` if the packet is not checked.
    fn violation_cause(&mut self, arrival: Time, left: Time) -> Option<ViolationCause> {
        if arrival < self.judged_from {
            return None;
        }
        if self.terms.on_condition && self.excused.is_some_and(|since| arrival >= since) {
            return Some(ViolationCause::OwnBurst);
        }
        if self.terms.on_condition && self.bunched.is_some_and(|since| arrival >= since) {
            return Some(ViolationCause::Host);
        }
        match self.found {
            PriorBacklog::Others(since) if arrival >= since && !self.terms.on_condition => {
                self.found = PriorBacklog::OthersUntil(left);
                None
            }
            PriorBacklog::Others(_) => None,
            PriorBacklog::OthersUntil(then) if arrival < then => None,
            PriorBacklog::OthersUntil(_) | PriorBacklog::Nothing => Some(ViolationCause::Guarantee),
        }
    }
}

/// Checks of a flow's rate.
impl FlowGuarantee {
    /// The allowance on top of the guarantee, which depends on whether the pipe has settled.
    fn allowance(&self, settles: Settles) -> Allowance {
        match (settles, self.terms.settling) {
            (Settles::Done, _) => Allowance::Time(Span::ZERO),
            (Settles::Since { wire }, Some(time)) => Allowance::Time(wire + time),
            (Settles::Since { .. }, None) | (Settles::Changing, _) => Allowance::Unknown,
        }
    }

    /// Handles the departure of a packet. Returns the proof if the rate was violated.
    fn rate_of(&mut self, emit: &Emit, allowance: Allowance) -> Option<RateShortfall> {
        let clock = self.clock.as_mut()?;
        let (judged, time) = match allowance {
            Allowance::Time(time) => (true, time),
            Allowance::Unknown => (false, Span(u64::MAX / 4)),
        };
        clock.departed(emit.arrival, emit.end, emit.bytes, time).filter(|_| judged)
    }

    /// Checks if the backlog of an earlier look has left in time. This also finds a flow that is
    /// not served at all, which has no departing packet that could be late.
    fn looked_at(
        &mut self,
        now: Time,
        counters: &Counters,
        allowance: Allowance,
    ) -> Option<RateShortfall> {
        let (Some(clock), Allowance::Time(allowance)) = (self.clock, allowance) else {
            self.waited = None;
            return None;
        };
        let thrown_away = counters.dropped() - counters.dropped_full - counters.dropped_large;
        let sent = counters.sent_bytes;
        if let Some(seen) = self.waited.filter(|seen| seen.thrown_away == thrown_away) {
            let served = sent.saturating_sub(seen.sent);
            if served < seen.bytes {
                if now <= seen.deadline {
                    return None;
                }
                self.waited = None;
                return Some(RateShortfall {
                    from: seen.at,
                    to: now,
                    served,
                    guaranteed: seen.bytes,
                });
            }
        }
        let bytes = counters.backlog_bytes;
        let deadline = clock.deadline(now, bytes, allowance);
        let seen = SeenBacklog { at: now, bytes, sent, thrown_away, deadline };
        self.waited = (bytes > 0).then_some(seen);
        None
    }
}

/// Settling of a pipe since its last change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Settles {
    /// The pipe has rested since the change.
    #[default]
    Done,
    /// The pipe is being changed: no guarantee covers decisions made now.
    Changing,
    /// The pipe has not rested since the change. At the change, the packet on the wire still needed
    /// the time `wire`.
    Since { wire: Span },
}

/// State of a pipe, apart from its flows.
#[derive(Clone, Copy, Debug, Default)]
struct PipeState {
    settles: Settles,
    /// Departure of the last bit sent so far, in the past or the future.
    wire_until: Time,
}

/// All guarantees of a forwarder.
#[derive(Default)]
pub(super) struct Guarantees {
    /// The guarantees by pipe and flow; empty if none are set.
    of: Vec<Vec<FlowGuarantee>>,
    /// The state of each pipe.
    pipes: Vec<PipeState>,
    /// For each of [`ViolationCause::ALL`] separately, so that a flow that exceeds its envelope
    /// cannot displace violations of other causes.
    remembered: [VecDeque<Violation>; 3],
    /// Violations of rates.
    short: VecDeque<RateViolation>,
    number: u64,
}

impl Guarantees {
    fn get(&mut self, pipe: PipeId, flow: FlowId) -> Option<&mut FlowGuarantee> {
        self.of.get_mut(pipe.0 as usize)?.get_mut(flow.index())
    }

    /// Notes that all pipes are about to be changed.
    pub(super) fn change_begins(&mut self, now: Time) {
        for pipe in &mut self.pipes {
            pipe.settles = Settles::Changing;
            pipe.wire_until = pipe.wire_until.max(now);
        }
        self.of.iter_mut().flatten().for_each(|flow| flow.waited = None);
    }

    /// Notes that all pipes have been changed: decisions from now on are checked against the new
    /// guarantees.
    pub(super) fn change_ends(&mut self, now: Time) {
        for pipe in &mut self.pipes {
            pipe.settles = Settles::Since { wire: pipe.wire_until.since(now) };
        }
    }

    /// Counters so far, by pipe and flow.
    pub(super) fn compliance(&self) -> Vec<Vec<Compliance>> {
        self.of.iter().map(|of| of.iter().map(|flow| flow.kept).collect()).collect()
    }

    /// The number of the last violation.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Ends a change that began by taking over packets of another process. That process has checked
    /// these packets, and the backlog that they found is unknown here. Until the instants `wires`,
    /// links are busy with packets that the other process sent. No guarantee applies to the time in
    /// which no packet passed.
    pub(super) fn resume(
        &mut self,
        (kept, number): (&[Vec<Compliance>], u64),
        wires: &[Time],
        now: Time,
        counters: impl Fn(PipeId, FlowId) -> Counters,
    ) {
        for (p, of) in self.of.iter_mut().enumerate() {
            for (f, flow) in of.iter_mut().enumerate() {
                flow.kept = kept.get(p).and_then(|of| of.get(f)).copied().unwrap_or_default();
                let clock = |(rate, latency)| GuaranteedRateClock::new(rate, latency, now);
                flow.clock = flow.terms.rate.map(clock);
                if counters(PipeId(p as u32), FlowId(f as u32)).backlog > 0 {
                    flow.found = PriorBacklog::Others(now);
                }
            }
        }
        for (pipe, &wire) in self.pipes.iter_mut().zip(wires) {
            pipe.wire_until = pipe.wire_until.max(wire);
        }
        self.number = number;
        self.change_ends(now);
    }

    /// Records a violation of a rate.
    fn fell_short(&mut self, pipe: PipeId, flow: FlowId, proof: RateShortfall) {
        let Some(guarantee) = self.get(pipe, flow) else { return };
        let Some((rate, _)) = guarantee.terms.rate else { return };
        guarantee.kept.short += 1;
        let flow = guarantee.terms.name.clone();
        self.number += 1;
        if self.short.len() == REMEMBERED {
            self.short.pop_front();
        }
        self.short.push_back(RateViolation { number: self.number, flow, rate, proof });
    }

    /// Checks a pipe whose decisions until `now` are all made: records the flows whose rate was
    /// violated, and whether the pipe has rested.
    fn look(&mut self, pipe: PipeId, now: Time, counters: impl Fn(FlowId) -> Counters) {
        let Some(flows) = self.of.get(pipe.0 as usize).map(Vec::len) else { return };
        let state = self.pipes[pipe.0 as usize];
        let mut is_empty = true;
        // Flows with a mask: their counters are a sum over the queues of all ids.
        let mut many = Vec::new();
        for f in (0..flows as u32).map(FlowId) {
            let Some(guarantee) = self.get(pipe, f) else { continue };
            if guarantee.terms.many {
                many.push(f);
                continue;
            }
            let (counted, allowance) = (counters(f), guarantee.allowance(state.settles));
            is_empty &= counted.backlog == 0;
            if let Some(proof) = guarantee.looked_at(now, &counted, allowance) {
                self.fell_short(pipe, f, proof);
            }
        }
        let may_rest = state.settles != Settles::Done && is_empty && now >= state.wire_until;
        if may_rest && many.into_iter().all(|f| counters(f).backlog == 0) {
            self.pipes[pipe.0 as usize].settles = Settles::Done;
        }
    }

    fn remember(&mut self, late: Violation) {
        self.number += 1;
        let alike = &mut self.remembered[late.cause as usize];
        if alike.len() == REMEMBERED {
            alike.pop_front();
        }
        alike.push_back(Violation { number: self.number, ..late });
    }

    /// Checks a packet that leaves its queue.
    pub(super) fn emitted(&mut self, emit: &Emit) {
        let Some(state) = self.pipes.get_mut(emit.pipe.0 as usize) else { return };
        state.wire_until = state.wire_until.max(emit.end);
        let settles = state.settles;
        let Some(guarantee) = self.get(emit.pipe, emit.flow) else { return };
        let allowance = guarantee.allowance(settles);
        let (cause, proof) =
            (guarantee.violation_cause(emit.arrival, emit.end), guarantee.rate_of(emit, allowance));
        if let Some(proof) = proof {
            self.fell_short(emit.pipe, emit.flow, proof);
        }
        let Some(guarantee) = self.get(emit.pipe, emit.flow) else { return };
        let (Some(cause), Allowance::Time(more)) = (cause, allowance) else { return };
        let bound = guarantee.terms.delay.map(|delay| delay + more);
        let Some(bound) = bound.filter(|&bound| emit.end - emit.arrival > bound) else { return };
        guarantee.kept.late[cause as usize] += 1;
        let flow = guarantee.terms.name.clone();
        let (arrival, end) = (emit.arrival, emit.end);
        self.remember(Violation { number: 0, flow, cause, bound, arrival, end, handed_over: None });
    }

    /// Notes that a packet on the wire leaves at another instant, because its link was changed. The
    /// packet was already checked when its transmission began.
    pub(super) fn retimed(&mut self, retimed: &Retimed) {
        let Some(state) = self.pipes.get_mut(retimed.pipe.0 as usize) else { return };
        if state.wire_until == retimed.old_end {
            state.wire_until = retimed.end;
        }
        state.wire_until = state.wire_until.max(retimed.end);
    }

    /// Checks the delivery of `times` packets of a flow: at `then`, which is `late` after their
    /// nominal instant. Their delay in the queue was `delay`.
    pub(super) fn handed_over(
        &mut self,
        (pipe, flow): (PipeId, FlowId),
        delay: Span,
        late: Span,
        times: u64,
        then: Time,
    ) {
        let Some(guarantee) = self.get(pipe, flow) else { return };
        // A packet with too long a delay in its queue is already recorded.
        let Some(bound) =
            guarantee.terms.delay.filter(|&bound| delay <= bound && delay + late > bound)
        else {
            return;
        };
        guarantee.kept.late[ViolationCause::Host as usize] += times;
        let flow = guarantee.terms.name.clone();
        let end = Time(then.0.saturating_sub(late.0));
        let arrival = Time(end.0.saturating_sub(delay.0));
        self.remember(Violation {
            number: 0,
            flow,
            cause: ViolationCause::Host,
            bound,
            arrival,
            end,
            handed_over: Some(then),
        });
    }
}

impl Forwarder {
    /// From now on packets are checked against these terms, by pipe and flow. Flows are identified
    /// by their names in the terms: a flow that still exists keeps its counters.
    pub fn set_guarantees(&mut self, terms: Vec<Vec<GuaranteeTerms>>) {
        let mut before: Vec<Vec<Option<FlowGuarantee>>> = std::mem::take(&mut self.guarantees.of)
            .into_iter()
            .map(|of| of.into_iter().map(Some).collect())
            .collect();
        // Most flows keep their place; names are looked up only for the others.
        let mut others: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        let stays = |before: &[Vec<Option<FlowGuarantee>>], p: usize, f: usize, name: &str| {
            let old = before.get(p).and_then(|of| of.get(f)).and_then(Option::as_ref);
            old.is_some_and(|old| old.terms.name == name)
        };
        let all_stay = terms.iter().zip(&self.order).all(|(terms, pipe)| {
            let mut all = terms.iter().enumerate();
            all.all(|(f, terms)| stays(&before, pipe.0 as usize, f, &terms.name))
        });
        if !all_stay {
            for (p, of) in before.iter().enumerate() {
                let names = of
                    .iter()
                    .enumerate()
                    .filter_map(|(f, old)| Some((old.as_ref()?.terms.name.clone(), (p, f))));
                others.extend(names);
            }
        }
        let places = self.order.iter().map(|pipe| pipe.0 as usize + 1).max().unwrap_or(0);
        let mut of = vec![Vec::new(); places];
        self.guarantees.pipes.resize(places, PipeState::default());
        let now = self.clock.now();
        for (terms, pipe) in terms.into_iter().zip(&self.order) {
            let p = pipe.0 as usize;
            let guarantee = |(f, terms): (usize, GuaranteeTerms)| {
                let at = if all_stay { Some((p, f)) } else { others.get(&terms.name).copied() };
                match at.and_then(|(p, f)| before[p][f].take()) {
                    Some(old) if old.terms == terms => old,
                    Some(old) => {
                        let is_empty = self.network.counters(*pipe, FlowId(f as u32)).backlog == 0;
                        old.change_terms(terms, now, is_empty)
                    }
                    None => FlowGuarantee::new(terms, now),
                }
            };
            of[p] = terms.into_iter().enumerate().map(guarantee).collect();
        }
        self.guarantees.of = of;
    }

    /// From now on packets of these flows are checked against other terms; the flows stay the same.
    /// The number of a pipe is its number for the caller.
    pub fn change_guarantees(&mut self, others: Vec<(usize, FlowId, GuaranteeTerms)>) {
        let now = self.clock.now();
        for (number, flow, terms) in others {
            let Some(&pipe) = self.order.get(number) else { continue };
            let is_empty = self.network.counters(pipe, flow).backlog == 0;
            if let Some(guarantee) = self.guarantees.get(pipe, flow) {
                let old = std::mem::replace(
                    guarantee,
                    FlowGuarantee::new(GuaranteeTerms::default(), now),
                );
                *guarantee = old.change_terms(terms, now, is_empty);
            }
        }
    }

    /// Counters of guarantees, by pipe and flow in the caller's numbering.
    pub fn kept(&self) -> Vec<Vec<Compliance>> {
        let of = |pipe: &PipeId| self.guarantees.of.get(pipe.0 as usize);
        self.order
            .iter()
            .map(|pipe| of(pipe).into_iter().flatten().map(|guarantee| guarantee.kept).collect())
            .collect()
    }

    /// The remembered packets that exceeded their bound, in the order of detection.
    pub fn late(&self) -> Vec<Violation> {
        let mut all: Vec<Violation> =
            self.guarantees.remembered.iter().flatten().cloned().collect();
        all.sort_unstable_by_key(|late| late.number);
        all
    }

    /// The remembered violations of rates, in the order of detection.
    pub fn short(&self) -> Vec<RateViolation> {
        self.guarantees.short.iter().cloned().collect()
    }

    /// Makes all decisions due until now, so that all counters are of one instant; then checks
    /// rates by the backlog at an earlier call (a look).
    pub fn settle(&mut self) {
        let now = self.clock.now();
        self.network.poll(now, &mut self.out);
        self.note();
        for pipe in &self.order {
            self.guarantees.look(*pipe, now, |flow| self.network.counters(*pipe, flow));
        }
    }

    /// Checks a packet that arrives at its queue.
    pub(super) fn check_arrival(&mut self, pipe: PipeId, packet: &UnitPacket) {
        match self.guarantees.get(pipe, packet.flow) {
            None => return,
            // Some queues of a flow with a mask are always empty. It is not worth checking all of
            // them for each packet.
            Some(guarantee) if guarantee.terms.many => return guarantee.kept.periods += 1,
            Some(_) => {}
        }
        // Packets that have left by now are not part of this busy period.
        self.network.poll(packet.arrival, &mut self.out);
        self.note();
        let was_empty = self.network.counters(pipe, packet.flow).backlog == 0;
        let stall = self.run_delay.stall(packet.arrival);
        if let Some(guarantee) = self.guarantees.get(pipe, packet.flow) {
            guarantee.arrived(packet.bytes, packet.arrival, was_empty, stall);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarantee() -> FlowGuarantee {
        let envelope = vec![(Rate(8_000_000), 2000)];
        let delay = Some(Span::from_millis(1));
        let terms = GuaranteeTerms {
            name: "a".into(),
            delay,
            settling: Some(Span::ZERO),
            envelope,
            on_condition: true,
            ..GuaranteeTerms::default()
        };
        FlowGuarantee::new(terms, Time::ZERO)
    }

    /// Guarantees of a single pipe with a single flow.
    fn one(flow: FlowGuarantee) -> Guarantees {
        let pipes = vec![PipeState::default()];
        Guarantees { of: vec![vec![flow]], pipes, ..Guarantees::default() }
    }

    fn emit(arrival: u64, end: u64, bytes: u32) -> Emit {
        Emit {
            pipe: PipeId(0),
            flow: FlowId(0),
            handle: 0,
            bytes,
            arrival: Time(arrival),
            start: Time(arrival),
            end: Time(end),
            due: Time(end),
        }
    }

    /// A rate of one byte per microsecond, after a latency of one millisecond.
    fn of_a_rate(settling: Option<Span>) -> Guarantees {
        let rate = Some((Rate(8_000_000), Span::from_millis(1)));
        let terms =
            GuaranteeTerms { name: "a".into(), rate, settling, ..GuaranteeTerms::default() };
        one(FlowGuarantee::new(terms, Time::ZERO))
    }

    #[test]
    fn a_rate_is_broken_by_a_packet_and_not_by_a_second() {
        let mut of = of_a_rate(None);
        of.emitted(&emit(0, 1_500_000, 500));
        assert!(of.short.is_empty());
        of.emitted(&emit(0, 2_000_001, 500));
        assert_eq!((of.of[0][0].kept.short, of.short.len()), (1, 1));
        let proof = of.short[0].proof;
        assert_eq!((proof.served, proof.guaranteed, proof.to), (500, 1_000, Time(2_000_001)));
        // A flow that sends nothing for a second has no claim to that second's service.
        of.emitted(&emit(1_000_000_000, 1_001_500_000, 500));
        assert_eq!(of.of[0][0].kept.short, 1);
    }

    #[test]
    fn after_a_change_a_guarantee_has_as_long_as_the_discipline_needs() {
        for (settling, is_judged) in [(Some(Span(1_000)), true), (None, false)] {
            let mut of = of_a_rate(settling);
            of.emitted(&emit(0, 5_000, 1));
            of.change_begins(Time(3_000));
            of.emitted(&emit(0, 90_000_000, 1));
            of.change_ends(Time(3_000));
            assert!(of.short.is_empty(), "decisions during the change have no guarantee");
            let wire = 90_000_000 - 3_000;
            let latest = 100_000_000 + 1_500_000 + wire + 1_000;
            of.emitted(&emit(100_000_000, latest, 500));
            assert!(of.short.is_empty());
            of.emitted(&emit(300_000_000, latest + 200_000_001, 500));
            assert_eq!(of.short.len(), usize::from(is_judged));
            // The pipe rests.
            of.look(PipeId(0), Time(900_000_000), |_| Counters::default());
            of.emitted(&emit(900_000_000, 901_500_001, 500));
            assert_eq!(of.short.len(), 1 + usize::from(is_judged));
        }
    }

    #[test]
    fn the_queues_of_masks_are_added_where_their_pipe_may_have_settled_and_not_else() {
        let terms = GuaranteeTerms { many: true, ..GuaranteeTerms::default() };
        let mut of = one(FlowGuarantee::new(terms, Time::ZERO));
        let sums = |of: &mut Guarantees, now: u64, backlog: u64| {
            let sums = std::cell::Cell::new(0);
            of.look(PipeId(0), Time(now), |_| {
                sums.set(sums.get() + 1);
                Counters { backlog, ..Counters::default() }
            });
            sums.get()
        };
        assert_eq!(sums(&mut of, 1_000, 5), 0);
        of.emitted(&emit(1_000, 5_000, 1));
        of.change_begins(Time(2_000));
        of.change_ends(Time(2_000));
        assert_eq!(sums(&mut of, 4_000, 5), 0, "the link is busy");
        assert_eq!([sums(&mut of, 6_000, 5), sums(&mut of, 7_000, 0)], [1, 1]);
        assert_eq!(sums(&mut of, 8_000, 5), 0, "it has settled");
    }

    #[test]
    fn a_flow_of_which_nothing_leaves_is_found_at_a_look() {
        let mut of = of_a_rate(None);
        let waits = |backlog_bytes, sent_bytes| {
            move |_| Counters { backlog: 1, backlog_bytes, sent_bytes, ..Counters::default() }
        };
        of.look(PipeId(0), Time(0), waits(500, 0));
        of.look(PipeId(0), Time(1_500_000), waits(500, 499));
        assert!(of.short.is_empty(), "there is time left");
        of.look(PipeId(0), Time(1_500_001), waits(500, 499));
        let proof =
            RateShortfall { from: Time(0), to: Time(1_500_001), served: 499, guaranteed: 500 };
        assert_eq!(of.short.iter().map(|short| short.proof).collect::<Vec<_>>(), [proof]);
        // Dropped packets are not expected to leave.
        of.look(PipeId(0), Time(2_000_000), waits(500, 499));
        let thrown = |_| Counters { dropped_by_policy: 1, ..waits(400, 499)(FlowId(0)) };
        of.look(PipeId(0), Time(9_000_000), thrown);
        assert_eq!(of.short.len(), 1);
    }

    #[test]
    fn what_is_beyond_the_envelope_is_told_to_the_nanosecond() {
        let mut of = guarantee();
        // One byte per microsecond.
        of.arrived(1500, Time(0), true, Stall::default());
        of.arrived(1500, Time(999_999), false, Stall::default());
        assert_eq!((of.kept.beyond, of.kept.beyond_bytes), (1, 1500));
        of.arrived(1500, Time(1_000_000), false, Stall::default());
        assert_eq!(of.kept.beyond, 1, "a packet beyond the envelope takes none of its credit");
        // A pause restores the credit, but not more than that.
        of.arrived(2000, Time(u64::MAX / 2), false, Stall::default());
        of.arrived(1, Time(u64::MAX / 2), false, Stall::default());
        assert_eq!(of.kept.beyond, 2);
    }

    #[test]
    fn busy_periods_decide_the_cause_of_a_violation() {
        let mut of = guarantee();
        of.arrived(1500, Time(10), true, Stall::default());
        let cause = |of: &mut FlowGuarantee, arrival: u64| {
            of.violation_cause(Time(arrival), Time(arrival + 1_000)).unwrap()
        };
        assert_eq!(cause(&mut of, 10), ViolationCause::Guarantee);
        of.arrived(1500, Time(20), false, Stall::default());
        assert_eq!(
            [10, 20, 30].map(|at| cause(&mut of, at)),
            [ViolationCause::Guarantee, ViolationCause::OwnBurst, ViolationCause::OwnBurst]
        );
        of.arrived(1, Time(5_000_000), true, Stall::default());
        assert_eq!((cause(&mut of, 5_000_000), of.kept.periods), (ViolationCause::Guarantee, 2));
    }

    #[test]
    fn packets_that_this_host_bunched_are_neither_a_burst_nor_a_violated_guarantee() {
        let mut of = guarantee();
        of.arrived(900, Time(10), true, Stall::default());
        // The packets are read together after 2 ms in which the thread did not run.
        let (at, span) = (Time(2_000_000), Span::from_millis(2));
        let stall = Stall { seen: at, span };
        let mut read = |is_first: bool| {
            of.arrived(900, at, is_first, stall);
            (of.violation_cause(at, Time(9_000_000)).unwrap(), of.kept.beyond)
        };
        let all = [read(true), read(false), read(false), read(false)];
        let [kept, host] = [ViolationCause::Guarantee, ViolationCause::Host];
        let expected = [(kept, 0), (kept, 0), (host, 0), (ViolationCause::OwnBurst, 1)];
        assert_eq!(all, expected);
        // The next busy period is judged by itself.
        of.arrived(100, Time(20_000_000), true, stall);
        assert_eq!(
            of.violation_cause(Time(20_000_000), Time(29_000_000)),
            Some(ViolationCause::Guarantee)
        );
    }

    #[test]
    fn other_terms_say_nothing_of_what_waited_before_them() {
        let other = |on_condition| GuaranteeTerms {
            delay: Some(Span(500)),
            on_condition,
            ..guarantee().terms
        };
        // With an envelope nothing is checked until the queue has run empty.
        let mut of = guarantee();
        of.arrived(1500, Time(10), true, Stall::default());
        let mut of = of.change_terms(other(true), Time(20), false);
        of.arrived(100, Time(30), false, Stall::default());
        assert_eq!([10, 30].map(|at| of.violation_cause(Time(at), Time(at + 1_000))), [None, None]);
        of.arrived(100, Time(40), true, Stall::default());
        assert_eq!(of.violation_cause(Time(40), Time(1_000)), Some(ViolationCause::Guarantee));
        // A flow that exceeded its envelope counts as nonconforming as long as its packets are
        // queued.
        of.arrived(9_000, Time(50), false, Stall::default());
        let mut of = of.change_terms(guarantee().terms, Time(60), false);
        assert_eq!(of.violation_cause(Time(50), Time(1_000)), Some(ViolationCause::OwnBurst));
        // Without an envelope nothing is checked until the old packets have left.
        let mut of = guarantee().change_terms(other(false), Time(20), false);
        assert_eq!(of.violation_cause(Time(10), Time(100)), None);
        assert_eq!(
            [30, 150, 200].map(|at| of.violation_cause(Time(at), Time(200))),
            [None, None, Some(ViolationCause::Guarantee)]
        );
        let mut of = guarantee().change_terms(other(false), Time(20), true);
        assert_eq!(
            of.violation_cause(Time(30), Time(200)),
            Some(ViolationCause::Guarantee),
            "the queue was empty at the change"
        );
    }

    #[test]
    fn late_packets_are_counted_by_cause_and_the_last_are_remembered() {
        let mut all = one(guarantee());
        let emit = |ms: u64| emit(7, 7 + 1_000_000 * ms, 100);
        all.emitted(&emit(1));
        assert_eq!(all.number, 0, "the bound itself is kept");
        (0..REMEMBERED + 3).for_each(|_| all.emitted(&emit(2)));
        assert_eq!(all.of[0][0].kept.late, [0, 0, REMEMBERED as u64 + 3]);
        let guarantee = &all.remembered[ViolationCause::Guarantee as usize];
        assert_eq!((guarantee.len(), guarantee[0].number), (REMEMBERED, 4));
        let flow = (PipeId(0), FlowId(0));
        let (half, then) = (Span::from_micros(500), Time(9_000_000));
        all.handed_over(flow, half, half, 5, then);
        all.handed_over(flow, Span::from_millis(2), half, 5, then);
        assert_eq!(all.of[0][0].kept.late[1], 0);
        all.handed_over(flow, half, Span::from_micros(501), 5, then);
        assert_eq!(all.of[0][0].kept.late[1], 5);
        let last = all.remembered[ViolationCause::Host as usize].back().unwrap();
        assert_eq!(
            (last.cause, last.end, last.handed_over),
            (ViolationCause::Host, Time(8_499_000), Some(then))
        );
        assert_eq!(
            all.remembered[ViolationCause::Guarantee as usize].len(),
            REMEMBERED,
            "and the others are remembered still"
        );
    }
}
