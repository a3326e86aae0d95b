//! One simulated run.

use crate::changes::{Changes, HeldDepartures, LateDeparture};
use crate::closed_loop::{ClosedLoop, is_closed};
use crate::delays::DelayMeters;
use crate::observer::{Loss, Observer};
use crate::series::Series;
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::key::Key;
use falaj_engine::masks::MaskStats;
use falaj_engine::network::{Network, NetworkSpec, RouteError};
use falaj_engine::pipe::Counters;
use falaj_engine::rules::RuleCounters;
use falaj_engine::{Emit, Output, PipeId, network};
use falaj_scenario::Scenario;
use falaj_sched::collections::calendar::Calendar;
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::{Ecn, Label};
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::meter::Meter;
use falaj_traffic::source::{Packet, Source, SourceSpec};
use falaj_traffic::tcp::Transfers;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A source and the flow that it feeds.
#[derive(Clone, Debug)]
pub struct Feed {
    /// The pipe.
    pub pipe: PipeId,
    /// The pipe's flow.
    pub flow: FlowId,
    /// If true, rules route the feed's packets, in the direction of the pipe, and `flow` is
    /// ignored.
    pub routed: bool,
    /// The header fields of its packets that rules and masks match.
    pub key: Key,
    /// The model of its packets.
    pub source: SourceSpec,
    /// The number of its random stream, which also identifies the connection of its packets.
    pub stream: u64,
    /// The ECN bits of its packets.
    pub ecn: Ecn,
    /// The index of its source in the scenario; several feeds may share one.
    pub traffic: usize,
}

/// Everything that a run needs except the seed.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The pipes, and the rules that route packets through them.
    pub network: NetworkSpec,
    /// The sources. At equal instants a feed earlier in this list comes first.
    pub feeds: Vec<Feed>,
    /// The scenario, if its links change during the run. At equal instants, changes come before
    /// arrivals.
    pub changes: Option<Arc<Scenario>>,
    /// Length of the run, in simulated time.
    pub duration: Span,
    /// Events before this time are not counted; shorter than the duration.
    pub warm_up: Span,
}

/// The results of a run after its warm-up.
#[derive(Clone, Debug)]
pub struct Run {
    /// Results of the flows, by pipe, then by flow.
    pub pipes: Vec<Vec<FlowResult>>,
    /// Counters of each rule.
    pub taken: Vec<RuleCounters>,
    /// Packets that matched no rule, or no flow of their link.
    pub unmatched: u64,
    /// If there are rules: delays from the arrival at the first link to the arrival at the far end
    /// of the last link, by source of the scenario.
    pub ways: Vec<Meter>,
    /// The transfers of connections, by source of the scenario.
    pub connections: Vec<(usize, Transfers)>,
    /// Queues and pipes that masks created since the beginning of the run.
    pub many: Vec<Many>,
    /// By pipe: contract violations of disciplines from libraries, since the beginning of the run.
    pub breaches: Vec<Vec<Breach>>,
    /// Length of the run, in simulated time.
    pub duration: Span,
    /// The part of the run that was not counted.
    pub warm_up: Span,
    /// True if the run was not stopped before its end.
    pub complete: bool,
}

impl Run {
    /// The time that was counted.
    pub fn counted(&self) -> Span {
        self.duration - self.warm_up
    }
}

/// The queues or pipes that a mask created in a run.
#[derive(Clone, Debug)]
pub struct Many {
    /// The pipe.
    pub pipe: PipeId,
    /// The flow that has the mask; `None` if the pipe has it.
    pub flow: Option<FlowId>,
    /// The statistics of the mask.
    pub report: MaskStats,
}

/// Maximum number of created queues or pipes that are reported one by one: those with the most
/// traffic.
const BUSIEST: usize = 10;

/// The results of a flow.
#[derive(Clone, Debug)]
pub struct FlowResult {
    /// Counters of its packets until the end of the run; the maximum queue length counts from the
    /// run's beginning.
    pub counters: Counters,
    /// Delays from last bit in to last bit out of the link, of packets sent until the end of the
    /// run.
    pub delay: Meter,
}

impl FlowResult {
    /// Rate of the arrivals in bits per second, counted as the link accounts bytes.
    pub fn offered_rate(&self, duration: Span) -> f64 {
        self.counters.offered_bytes as f64 * 8.0 / duration.as_secs_f64()
    }
    /// Rate in bits per second of the packets that left and were not lost on the link.
    pub fn delivered_rate(&self, duration: Span) -> f64 {
        self.counters.delivered_bytes() as f64 * 8.0 / duration.as_secs_f64()
    }
}

/// The part of a [`Feed`] that each packet needs, in one cache line, so that a processor's caches
/// can hold these parts of many feeds.
#[derive(Clone, Copy)]
struct FeedIngress {
    label: Label,
    traffic: usize,
    pipe: PipeId,
    flow: FlowId,
    routed: bool,
    /// Turns the source's packet size into the size that the pipe accounts.
    layer: CountedLayer,
}

impl FeedIngress {
    fn of(experiment: &Experiment) -> Vec<FeedIngress> {
        let of = |feed: &Feed| {
            let &Feed { pipe, flow, routed, stream, ecn, traffic, .. } = feed;
            let layer = experiment.network.places[pipe.0 as usize].layer;
            let label = Label { ecn, connection: stream, ..Label::default() };
            FeedIngress { label, traffic, pipe, flow, routed, layer }
        };
        experiment.feeds.iter().map(of).collect()
    }
}

/// Packets in the network. They are tracked if there may be several links on a path, if links
/// change, if sources react to the fate of packets, or if the observer receives every packet.
struct PacketsInTransit<'a> {
    follows: bool,
    ingresses: &'a [FeedIngress],
    /// The feed of each packet, and the packet's time of arrival, by handle.
    packets: Vec<(usize, Time)>,
    free: Vec<u32>,
    ways: Vec<Meter>,
}

impl PacketsInTransit<'_> {
    fn new<'a>(
        experiment: &Experiment,
        ingresses: &'a [FeedIngress],
        each: bool,
    ) -> PacketsInTransit<'a> {
        let ruled = !experiment.network.rules.is_empty();
        let sources = experiment.feeds.iter().map(|feed| feed.traffic + 1).max().unwrap_or(0);
        let ways = vec![Meter::new(); if ruled { sources } else { 0 }];
        let follows = ruled || each || experiment.changes.is_some();
        PacketsInTransit { follows, ingresses, packets: Vec::new(), free: Vec::new(), ways }
    }

    /// Returns a handle for a packet that enters.
    fn enters(&mut self, feed: usize, now: Time) -> u32 {
        if !self.follows {
            return 0;
        }
        let handle = self.free.pop().unwrap_or_else(|| {
            self.packets.push((0, now));
            (self.packets.len() - 1) as u32
        });
        self.packets[handle as usize] = (feed, now);
        handle
    }

    /// The label of a packet in the network.
    fn label(&self, handle: u32) -> Label {
        let packet = self.packets.get(handle as usize);
        packet.map_or(Label::default(), |&(feed, _)| self.ingresses[feed].label)
    }

    /// Records that a packet leaves the network. `due` is its arrival time at the far end, if this
    /// time is to be counted.
    #[inline]
    fn leaves(&mut self, handle: u32, due: Option<Time>) {
        if self.follows {
            self.left(handle, due);
        }
    }

    fn left(&mut self, handle: u32, due: Option<Time>) {
        let (feed, came) = self.packets[handle as usize];
        let traffic = self.ingresses[feed].traffic;
        if let (Some(due), Some(way)) = (due, self.ways.get_mut(traffic)) {
            way.record(due - came);
        }
        self.free.push(handle);
    }
}

/// The next packet of each source.
struct SourceCalendar {
    sources: Vec<Source>,
    calendar: Calendar,
    /// Lengths of the next packets, by source.
    sizes: Vec<u32>,
    /// The packet after the next one, drawn one packet ahead: the processor draws it in parallel
    /// with the link's work.
    ahead: Vec<Packet>,
}

impl SourceCalendar {
    fn new(experiment: &Experiment, seed: u64) -> SourceCalendar {
        let source = |feed: &Feed| Source::new(feed.source.clone(), seed, feed.stream);
        let mut sources: Vec<Source> = experiment.feeds.iter().map(source).collect();
        let ahead = sources.iter_mut().map(SourceCalendar::next).collect();
        SourceCalendar {
            calendar: Calendar::new(sources.len()),
            sizes: vec![0; sources.len()],
            ahead,
            sources,
        }
    }

    #[inline(always)]
    fn next(source: &mut Source) -> Packet {
        source.next().unwrap_or(Packet { at: Time::NEVER, bytes: 0 })
    }

    #[inline(always)]
    fn advance(&mut self, i: usize) {
        let Packet { at, bytes } = self.ahead[i];
        self.sizes[i] = bytes;
        self.calendar.set(i, at);
        self.ahead[i] = SourceCalendar::next(&mut self.sources[i]);
    }
}

/// Counts the network's outputs and passes them to the observer.
struct OutputRecorder<'a, W> {
    delays: DelayMeters,
    series: Option<&'a mut Series>,
    each: &'a mut W,
    held: HeldDepartures,
    /// Transmissions that end before this time are not counted.
    first: Time,
}

impl<W: Observer> OutputRecorder<'_, W> {
    /// Records the outputs until `now`. Transmissions that end after `end` are not counted.
    #[inline(always)]
    fn record<const CLOSED: bool>(
        &mut self,
        network: &mut Network,
        (in_transit, closed): (&mut PacketsInTransit<'_>, &mut ClosedLoop),
        out: &mut Vec<Output>,
        (now, end): (Time, Time),
    ) {
        for output in &*out {
            match output {
                Output::Emit(emit) | Output::Copy(emit) if self.held.takes(emit) => {
                    self.held.hold(LateDeparture::Out(*output));
                }
                _ => self.tell::<CLOSED>((in_transit, closed), output, (now, end)),
            }
        }
        out.clear();
        if network.has_passed() {
            network.passed().for_each(|emit| self.passes(emit, end));
        }
    }

    /// Records an output whose times are final.
    #[inline(always)]
    fn tell<const CLOSED: bool>(
        &mut self,
        (in_transit, closed): (&mut PacketsInTransit<'_>, &mut ClosedLoop),
        output: &Output,
        (now, end): (Time, Time),
    ) {
        if CLOSED {
            closed.told(output);
        }
        match output {
            Output::Emit(emit) => {
                in_transit.leaves(
                    emit.handle,
                    (self.first..=end).contains(&emit.end).then_some(emit.arrives()),
                );
                self.sent(emit, end);
            }
            Output::Drop(dropped) => {
                if W::ALL {
                    self.each.lost(&Loss { dropped: *dropped, reported_at: now });
                }
                in_transit.leaves(dropped.handle, None);
            }
            _ => {}
        }
    }

    fn passes(&mut self, emit: Emit, end: Time) {
        match self.held.takes(&emit) {
            true => self.held.hold(LateDeparture::Passed(emit)),
            false => self.sent(&emit, end),
        }
    }

    /// Records the outputs of a change at `now`, and the packets that were on the wire: their times
    /// are now final, unless they end after the following change at `next`.
    fn changed<const CLOSED: bool>(
        &mut self,
        network: &mut Network,
        (in_transit, closed): (&mut PacketsInTransit<'_>, &mut ClosedLoop),
        out: &mut Vec<Output>,
        (now, next, end): (Time, Time, Time),
    ) {
        self.delays.grow(network.flows());
        for output in &*out {
            if let Output::Retimed(retimed) = output {
                self.held.retime(retimed);
            }
        }
        let mut before = Vec::new();
        for departure in self.held.release(next) {
            match departure {
                LateDeparture::Out(output) => before.push(output),
                LateDeparture::Passed(emit) => self.passes(emit, end),
            }
        }
        self.record::<CLOSED>(network, (in_transit, closed), &mut before, (now, end));
        self.record::<CLOSED>(network, (in_transit, closed), out, (now, end));
    }

    #[inline]
    fn sent(&mut self, emit: &Emit, end: Time) {
        // A transmission is reported when it begins, and may end after the run.
        let ours = emit.end <= end;
        if ours && emit.end >= self.first {
            self.delays.record(emit);
        }
        if W::ALL || ours && emit.end >= self.first {
            self.each.sent(emit);
        }
        if let (true, Some(series)) = (ours, &mut self.series) {
            series.record(emit.pipe, emit.flow, emit.end, emit.end - emit.arrival);
        }
    }
}

/// Number of arrivals between two checks of the flag that stops a run.
const STOP_CHECK_INTERVAL: u64 = 4096;

/// Cancellation and progress of a run.
pub(crate) struct RunObservers<'a> {
    /// If set, the run ends at once.
    pub(crate) stop: &'a AtomicBool,
    /// Called at intervals, with the simulated time that has passed since the last call.
    pub(crate) gone: &'a (dyn Fn(Span) + Sync),
}

/// Runs the experiment once. The same experiment and seed give the same result, bit for bit. If
/// `stop` is set meanwhile, returns the results until then.
pub fn simulate(
    experiment: &Experiment,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Run, (PipeId, ConfigErrors)> {
    simulate_watched(experiment, seed, stop, &mut |_: &Emit| {})
}

/// Runs the experiment once with an observer. A closure that takes an [`Emit`] receives each packet
/// that leaves a pipe and is counted; [`Every`](crate::observer::Every) receives all packets.
pub fn simulate_watched(
    experiment: &Experiment,
    seed: u64,
    stop: &AtomicBool,
    each: &mut impl Observer,
) -> Result<Run, (PipeId, ConfigErrors)> {
    run(experiment, seed, &RunObservers { stop, gone: &|_| {} }, None, each)
}

/// Runs the experiment once with an observer, and reports progress; if there is a time series, the
/// delays are added to it.
pub(crate) fn run<W: Observer>(
    experiment: &Experiment,
    seed: u64,
    watch: &RunObservers<'_>,
    series: Option<&mut Series>,
    each: &mut W,
) -> Result<Run, (PipeId, ConfigErrors)> {
    if is_closed(experiment) {
        run_as::<true, W>(experiment, seed, watch, series, each)
    } else {
        run_as::<false, W>(experiment, seed, watch, series, each)
    }
}

/// Runs with sources that react to the fate of their packets (`CLOSED`), or without any.
/// Experiments without such sources have no extra cost.
fn run_as<const CLOSED: bool, W: Observer>(
    experiment: &Experiment,
    seed: u64,
    watch: &RunObservers<'_>,
    series: Option<&mut Series>,
    each: &mut W,
) -> Result<Run, (PipeId, ConfigErrors)> {
    let mut network = Network::new(&experiment.network.seeded(seed))?;
    let whole = Time::ZERO + experiment.duration;
    let mut end = whole;
    // Without a warm-up, a packet at the very first instant counts.
    let first = Time(experiment.warm_up.0 + u64::from(experiment.warm_up > Span::ZERO));
    let delays = DelayMeters::new(network.flows());
    let ingresses = FeedIngress::of(experiment);
    let mut in_transit = PacketsInTransit::new(experiment, &ingresses, CLOSED || W::ALL);
    let mut changes = Changes::new(experiment.changes.as_deref(), experiment.duration, seed);
    let mut closed = if CLOSED { ClosedLoop::new(experiment, seed) } else { ClosedLoop::default() };
    let held = HeldDepartures::new(changes.next());
    let mut recorder = OutputRecorder { delays, series, each, held, first };
    let mut unmatched = 0;

    let mut arrivals = SourceCalendar::new(experiment, seed);
    for i in 0..experiment.feeds.len() {
        match closed.next(i) {
            Some(at) => arrivals.calendar.set(i, at),
            None => arrivals.advance(i),
        }
    }
    let mut out = Vec::new();
    let (mut count, mut told) = (0u64, Time::ZERO);
    let mut before = WarmUpCounts::default();
    let warm = Time::ZERO + experiment.warm_up;
    let mut is_warm = false;
    loop {
        let until = changes.next().min(if is_warm { whole } else { warm });
        loop {
            let next = arrivals.calendar.first();
            if CLOSED {
                // A departure may make a source send before the next known arrival.
                let event = network.next_event();
                if event < until && next.is_none_or(|(_, at)| event <= at) {
                    network.poll(event, &mut out);
                    recorder.record::<CLOSED>(
                        &mut network,
                        (&mut in_transit, &mut closed),
                        &mut out,
                        (event, whole),
                    );
                    closed.wake(&mut arrivals.calendar);
                    continue;
                }
            }
            let Some((i, at)) = next.filter(|(_, at)| *at < until) else { break };
            count += 1;
            if count.is_multiple_of(STOP_CHECK_INTERVAL) {
                (watch.gone)(at - told);
                told = at;
                if watch.stop.load(Ordering::Relaxed) {
                    end = at;
                    break;
                }
            }
            let feed = &ingresses[i];
            let segment = if CLOSED { closed.ask(i, at) } else { None };
            let length = match segment {
                None => feed.layer.to_ip(arrivals.sizes[i]),
                Some(Some(segment)) => segment.length,
                Some(None) => {
                    arrivals.calendar.set(i, closed.next(i).unwrap_or(Time::NEVER));
                    continue;
                }
            };
            let key = &experiment.feeds[i].key;
            let entry = if feed.routed {
                network.route(key, (feed.pipe.0 % 2) as usize, length, at)
            } else {
                Ok(network.route_to(feed.pipe, feed.flow))
            };
            match entry {
                Ok(entry) => {
                    let label = &feed.label;
                    let handle = in_transit.enters(i, at);
                    if CLOSED {
                        closed.enters(handle, i, segment.flatten());
                    }
                    network.enter(
                        entry,
                        key,
                        network::IngressPacket { handle, length, label },
                        at,
                        &mut out,
                    );
                    recorder.record::<CLOSED>(
                        &mut network,
                        (&mut in_transit, &mut closed),
                        &mut out,
                        (at, whole),
                    );
                }
                Err(RouteError::Dropped) => {}
                Err(RouteError::Unmatched) => unmatched += 1,
            }
            match segment {
                Some(_) => arrivals.calendar.set(i, closed.next(i).unwrap_or(Time::NEVER)),
                None => arrivals.advance(i),
            }
            if CLOSED {
                closed.wake(&mut arrivals.calendar);
            }
        }
        let now = until.min(end);
        network.poll(now, &mut out);
        recorder.record::<CLOSED>(
            &mut network,
            (&mut in_transit, &mut closed),
            &mut out,
            (now, end),
        );
        if CLOSED {
            closed.wake(&mut arrivals.calendar);
        }
        if end < whole {
            break;
        }
        if changes.next() == until {
            changes.make(&mut network, &|handle| in_transit.label(handle), &mut out);
            recorder.changed::<CLOSED>(
                &mut network,
                (&mut in_transit, &mut closed),
                &mut out,
                (until, changes.next(), whole),
            );
            if CLOSED {
                closed.wake(&mut arrivals.calendar);
            }
            continue;
        }
        if is_warm {
            break;
        }
        if warm > Time::ZERO {
            before = WarmUpCounts::of(&network, unmatched);
            closed.count();
        }
        is_warm = true;
    }
    (watch.gone)(end - told);

    let result = |(p, meters): (usize, Vec<Meter>)| {
        let flow = |(f, delay)| {
            let counters = network.counters(PipeId(p as u32), FlowId(f as u32));
            let counters = before.flows.get(p).map_or(counters, |flows| counters.since(&flows[f]));
            FlowResult { counters, delay }
        };
        meters.into_iter().enumerate().map(flow).collect()
    };
    let mut many = Vec::new();
    for (p, place) in experiment.network.places.iter().enumerate() {
        let pipe = PipeId(p as u32);
        let flows = (0..place.pipe.masks.flows.len() as u32).map(|flow| Some(FlowId(flow)));
        let reports = std::iter::once(None).chain(flows).filter_map(|flow| {
            let report = network.mask_stats(pipe, flow, BUSIEST)?;
            Some(Many { pipe, flow, report })
        });
        many.extend(reports);
    }
    let places = experiment.network.places.len() as u32;
    let mut taken = network.taken().to_vec();
    for (taken, before) in taken.iter_mut().zip(&before.taken) {
        *taken = RuleCounters {
            packets: taken.packets - before.packets,
            bytes: taken.bytes - before.bytes,
        };
    }
    let ran = Run {
        many,
        breaches: (0..places).map(|p| network.breaches(PipeId(p))).collect(),
        pipes: recorder.delays.into_meters().into_iter().enumerate().map(result).collect(),
        taken,
        unmatched: unmatched + network.unmatched() - before.unmatched,
        ways: std::mem::take(&mut in_transit.ways),
        connections: closed.finish(end),
        duration: end - Time::ZERO,
        warm_up: experiment.warm_up.min(end - Time::ZERO),
        complete: end == whole,
    };
    if W::ALL {
        sent_after(&mut network, recorder.each, end);
    }
    Ok(ran)
}

/// Number of events without a departure after which no more departures are expected: nested gates
/// may never be open at the same time.
const MAX_IDLE_EVENTS: u32 = 100_000;

/// Sends the packets that are still queued after the last counted instant, if they can ever be
/// sent.
fn sent_after(network: &mut Network, each: &mut impl Observer, end: Time) {
    let (mut out, mut idle) = (Vec::new(), 0);
    while idle < MAX_IDLE_EVENTS && network.next_event() < Time::NEVER {
        network.poll(network.next_event(), &mut out);
        idle += 1;
        for output in out.drain(..) {
            match output {
                Output::Emit(emit) => each.sent(&emit),
                Output::Drop(dropped) => {
                    each.lost(&Loss { dropped, reported_at: end });
                }
                _ => continue,
            }
            idle = 0;
        }
        for emit in network.passed() {
            each.sent(&emit);
            idle = 0;
        }
    }
}

/// Counters at the end of the warm-up.
#[derive(Default)]
struct WarmUpCounts {
    flows: Vec<Vec<Counters>>,
    taken: Vec<RuleCounters>,
    unmatched: u64,
}

impl WarmUpCounts {
    fn of(network: &Network, unmatched: u64) -> WarmUpCounts {
        let of = |(p, flows): (usize, usize)| {
            (0..flows).map(|f| network.counters(PipeId(p as u32), FlowId(f as u32))).collect()
        };
        WarmUpCounts {
            flows: network.flows().into_iter().enumerate().map(of).collect(),
            taken: network.taken().to_vec(),
            unmatched: unmatched + network.unmatched(),
        }
    }
}
