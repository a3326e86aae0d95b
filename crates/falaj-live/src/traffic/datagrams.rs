//! A scenario's sources as real datagrams, and measurements of their arrival.
//!
//! The sender and the receiver are separate processes, one at each end of the link. Both read
//! CLOCK_MONOTONIC, so a datagram's delay is the difference of two readings of one clock.

use crate::clock::{Clock, monotonic};
use crate::poll::PollSet;
use crate::priority::{self, Rank};
use crate::socket_buffer;
use falaj_sched::collections::calendar::Calendar;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::meter::Meter;
use falaj_traffic::source::bucket::Limit;
use falaj_traffic::source::chain::Chain;
use falaj_traffic::source::frames::Frames;
use falaj_traffic::source::greedy::Envelope;
use falaj_traffic::source::recorded::Recording;
use falaj_traffic::source::size::Sizes;
use falaj_traffic::source::{Model, PeriodLaw, Source, SourceSpec};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Bytes of our header in a datagram: magic, source, number, instant of sending.
pub const HEADER: usize = 24;
const MAGIC: u32 = u32::from_le_bytes(*b"flj1");

/// The plan for one end of the link: datagrams to send and to receive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndPlan {
    /// The instant, in nanoseconds of CLOCK_MONOTONIC, at which the scenario begins.
    pub zero: u64,
    /// Duration of the scenario, in nanoseconds.
    pub duration: u64,
    /// Time to wait for the last datagrams after the end of the scenario, in nanoseconds.
    pub grace: u64,
    /// Seed of the sources.
    pub seed: u64,
    /// The sources that are sent from here.
    pub sends: Vec<Sending>,
    /// The sources that are received here.
    pub receives: Vec<Receiving>,
    /// Length in nanoseconds of the windows in which received bytes are also counted; 0: no
    /// windows.
    pub window: u64,
    /// True if the report includes the delay of each datagram.
    pub each: bool,
    /// True if a sender may have megabytes in the kernel's own queues; otherwise it waits once it
    /// has some hundred kilobytes there.
    pub floods: bool,
}

/// A source that is sent as datagrams.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sending {
    /// The source's number in the scenario.
    pub source: u32,
    /// The flow that it feeds.
    pub flow: FlowKey,
    /// Bytes of a packet's length that are not the datagram's payload.
    pub headers: i32,
    /// Address to send from.
    pub from: SocketAddr,
    /// Address to send to.
    pub to: SocketAddr,
    /// Its traffic, with lengths as the link accounts them.
    pub traffic: Traffic,
    /// The type of service of its datagrams: DSCP and ECN.
    pub tos: u8,
}

/// A [`SourceSpec`] in serializable form.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// Rate in bits per second.
    pub rate: u64,
    /// Sizes in bytes.
    pub sizes: Sizes,
    /// A token bucket that the datagrams pass.
    pub limit: Option<Limit>,
    /// Start, in nanoseconds.
    pub start: u64,
    /// Stop, in nanoseconds.
    pub stop: u64,
    /// The kind of source.
    pub model: TrafficModel,
}

/// A [`Model`] in serializable form.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TrafficModel {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Cbr,
    /// Mean times on and off, in nanoseconds, and the shape if they have a Pareto distribution.
    OnOff(u64, u64, Option<f64>),
    /// A Markov chain.
    Markovian(Chain),
    /// Video frames.
    Video(Frames),
    /// The most that an envelope allows.
    Greedy(Envelope),
    /// A recording.
    Recorded(Recording),
}

/// The error for a source that cannot be sent as datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedLoopSource;

impl TryFrom<SourceSpec> for Traffic {
    type Error = ClosedLoopSource;

    fn try_from(spec: SourceSpec) -> Result<Traffic, ClosedLoopSource> {
        let model = match spec.model {
            Model::Poisson => TrafficModel::Poisson,
            Model::Cbr => TrafficModel::Cbr,
            Model::OnOff { on, off, law } => {
                let shape = match law {
                    PeriodLaw::Pareto(shape) => Some(shape),
                    PeriodLaw::Exponential => None,
                };
                TrafficModel::OnOff(on.0, off.0, shape)
            }
            Model::Markovian(chain) => TrafficModel::Markovian(chain),
            Model::Video(frames) => TrafficModel::Video(frames),
            Model::Greedy(envelope) => TrafficModel::Greedy(envelope),
            Model::Recorded(all) => TrafficModel::Recorded(Arc::unwrap_or_clone(all)),
            Model::Tcp(_) => return Err(ClosedLoopSource),
        };
        let (rate, start, stop) = (spec.rate.0, spec.start.0, spec.stop.0);
        Ok(Traffic { rate, sizes: spec.sizes, limit: spec.limit, start, stop, model })
    }
}

impl From<Traffic> for SourceSpec {
    fn from(t: Traffic) -> SourceSpec {
        let model = match t.model {
            TrafficModel::Poisson => Model::Poisson,
            TrafficModel::Cbr => Model::Cbr,
            TrafficModel::OnOff(on, off, shape) => {
                let law = shape.map_or(PeriodLaw::Exponential, PeriodLaw::Pareto);
                Model::OnOff { on: Span(on), off: Span(off), law }
            }
            TrafficModel::Markovian(chain) => Model::Markovian(chain),
            TrafficModel::Video(frames) => Model::Video(frames),
            TrafficModel::Greedy(envelope) => Model::Greedy(envelope),
            TrafficModel::Recorded(all) => Model::Recorded(Arc::new(all)),
        };
        let (start, stop) = (Time(t.start), Time(t.stop));
        SourceSpec { model, rate: Rate(t.rate), sizes: t.sizes, limit: t.limit, start, stop }
    }
}

/// A flow of a pipe, in serializable form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FlowKey {
    /// The pipe.
    pub pipe: u32,
    /// The pipe's flow.
    pub flow: u32,
}

/// A source whose datagrams are received.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Receiving {
    /// The source's number in the scenario.
    pub source: u32,
    /// The flow that it feeds.
    pub flow: FlowKey,
    /// Address to receive at.
    pub at: SocketAddr,
}

/// The report of one end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndReport {
    /// Datagrams sent from here, by source.
    pub sent: Vec<SentReport>,
    /// Datagrams received here, by flow.
    pub received: Vec<ReceivedReport>,
    /// Datagrams that arrived here and were lost because the receiver did not read them in time;
    /// the link did not lose them.
    pub overflowed: u64,
    /// Bytes of payload received in each window since the beginning, in the order of the plan's
    /// [`receives`](EndPlan::receives).
    pub windows: Vec<Vec<u64>>,
    /// Each datagram received, if the plan asks for [`each`](EndPlan::each).
    pub each: Vec<ReceivedDatagram>,
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedDatagram {
    /// The flow that its source feeds.
    pub flow: FlowKey,
    /// Its source's number in the scenario.
    pub source: u32,
    /// The datagram's number among the datagrams of its source, from 0 on.
    pub number: u64,
    /// Length of its payload in bytes.
    pub length: u32,
    /// Delay from `send` to `recv`, in nanoseconds.
    pub delay: u64,
}

/// Counters of a source's sender.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SentReport {
    /// The flow that it feeds.
    pub flow: FlowKey,
    /// Datagrams that the kernel accepted.
    pub datagrams: u64,
    /// Datagrams that the kernel refused.
    pub refused: u64,
    /// Datagrams that could not be sent before the end.
    pub unsent: u64,
    /// 99th percentile of the lateness of sending, in nanoseconds.
    pub late_p99: Option<u64>,
}

/// Measurements of a received flow. Delays are from `send` to `recv`, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReceivedReport {
    /// The flow.
    pub flow: FlowKey,
    /// Number of datagrams.
    pub datagrams: u64,
    /// Mean delay.
    pub mean: Option<f64>,
    /// Median delay.
    pub p50: Option<u64>,
    /// 99th percentile of the delay.
    pub p99: Option<u64>,
    /// Longest delay.
    pub max: Option<u64>,
    /// Time from the first datagram to the last, in nanoseconds.
    pub between: Option<u64>,
}

/// Sends and receives by `plan`; returns when the plan is completed.
pub fn run_end(plan: &EndPlan) -> io::Result<EndReport> {
    let receivers = bind(plan.receives.iter().map(|r| r.at))?;
    // An address may be used for both sending and receiving.
    let (both, apart): (Vec<_>, Vec<_>) =
        plan.sends.iter().map(|s| s.from).partition(|at| receivers.contains_key(at));
    let mut senders = bind(apart.into_iter())?;
    for at in both {
        senders.insert(at, receivers[&at].try_clone()?);
    }
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(plan, &senders));
        let received = receive(plan, &receivers)?;
        let sent = sending.join().map_err(|_| io::Error::other("the sender failed"))??;
        let overflowed = receivers.values().map(socket_buffer::overflowed).sum();
        Ok(EndReport { sent, overflowed, ..received })
    })
}

/// Binds one socket for each address, however many sources share it.
fn bind(
    addresses: impl Iterator<Item = SocketAddr>,
) -> io::Result<BTreeMap<SocketAddr, UdpSocket>> {
    let addresses: BTreeSet<SocketAddr> = addresses.collect();
    let bound = |at| match UdpSocket::bind(at) {
        Ok(socket) => Ok((at, socket)),
        Err(e) => Err(io::Error::new(e.kind(), format!("cannot use the UDP address {at}: {e}"))),
    };
    addresses.into_iter().map(bound).collect()
}

/// Sends each datagram at its instant, or a little later if the machine is late; nothing after the
/// end.
fn send(plan: &EndPlan, sockets: &BTreeMap<SocketAddr, UdpSocket>) -> io::Result<Vec<SentReport>> {
    priority::be_punctual(Rank::Sender);
    let clock = Clock::from_zero(plan.zero);
    let end = Time(plan.duration);
    let mut reports: Vec<SentReport> =
        plan.sends.iter().map(|s| SentReport { flow: s.flow, ..SentReport::default() }).collect();
    let mut sources: Vec<Source> = plan
        .sends
        .iter()
        .map(|s| Source::new(s.traffic.clone().into(), plan.seed, s.source.into()))
        .collect();
    let mut instants = Calendar::new(sources.len());
    // The length of each source's next packet.
    let mut sizes = vec![0; sources.len()];
    for i in 0..sources.len() {
        advance(&mut sources[i], &mut sizes[i], i, &mut instants);
    }
    let mut late = vec![Meter::new(); plan.sends.len()];
    if plan.floods {
        sockets.values().for_each(socket_buffer::enlarge_for_sending);
    }
    // The current type of service of each socket; sources may share one.
    let mut bits: BTreeMap<SocketAddr, u8> = BTreeMap::new();
    // A buffer for the longest datagram.
    let mut payload = vec![0; 65_536];
    payload[..4].copy_from_slice(&MAGIC.to_le_bytes());
    let mut before = None;
    while let Some((i, at)) = instants.first() {
        if at >= end {
            break;
        }
        let length = i64::from(sizes[i]) - i64::from(plan.sends[i].headers);
        let length = (length.max(0) as usize).clamp(HEADER, payload.len());
        advance(&mut sources[i], &mut sizes[i], i, &mut instants);
        if before.is_none_or(|before| before < at) {
            sleep_until(&clock, at);
        }
        let now = clock.now();
        before = Some(now);
        if now >= end {
            // A sender that cannot keep up stops at the end of the scenario; the remaining
            // datagrams are counted.
            reports[i].unsent += 1;
            continue;
        }
        late[i].record(now.since(at));
        let sending = &plan.sends[i];
        payload[4..8].copy_from_slice(&sending.source.to_le_bytes());
        payload[8..16].copy_from_slice(&reports[i].datagrams.to_le_bytes());
        payload[16..24].copy_from_slice(&clock.monotonic_of(now).to_le_bytes());
        let socket = &sockets[&sending.from];
        if bits.insert(sending.from, sending.tos).unwrap_or(0) != sending.tos {
            set_tos(socket, sending)?;
        }
        match socket.send_to(&payload[..length], sending.to) {
            Ok(_) => reports[i].datagrams += 1,
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock
                ) =>
            {
                reports[i].refused += 1;
            }
            // ENOBUFS: the interface's queue is full.
            Err(e) if e.raw_os_error() == Some(nix::libc::ENOBUFS) => reports[i].refused += 1,
            Err(e) => return Err(e),
        }
    }
    for (report, late) in reports.iter_mut().zip(&late) {
        report.late_p99 = late.quantile(0.99).map(|s| s.0);
    }
    Ok(reports)
}

/// Fetches the source's next packet.
fn advance(source: &mut Source, size: &mut u32, number: usize, instants: &mut Calendar) {
    let next = source.next();
    *size = next.map_or(0, |packet| packet.bytes);
    instants.set(number, next.map_or(Time::NEVER, |packet| packet.at));
}

/// Sets the type of service of this socket's datagrams.
fn set_tos(socket: &UdpSocket, sending: &Sending) -> io::Result<()> {
    let bits = i32::from(sending.tos);
    let set = match sending.from {
        SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4Tos, &bits),
        SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6TClass, &bits),
    };
    set.map_err(|e| {
        io::Error::other(format!(
            "cannot send datagrams with DSCP or ECN bits from {}: {e}",
            sending.from
        ))
    })
}

fn sleep_until(clock: &Clock, at: Time) {
    use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
    let instant = clock.monotonic_of(at);
    let then = TimeSpec::new((instant / 1_000_000_000) as i64, (instant % 1_000_000_000) as i64);
    // A signal that interrupts the sleep makes the datagram early by the remaining time; no signal
    // is expected.
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &then);
}

/// Parses source, number and instant of sending of a datagram with our header.
fn stamp(datagram: &[u8]) -> Option<(u32, u64, u64)> {
    let (magic, rest) = datagram.split_first_chunk()?;
    let (source, rest) = rest.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (sent, _) = rest.split_first_chunk()?;
    (u32::from_le_bytes(*magic) == MAGIC).then(|| {
        (u32::from_le_bytes(*source), u64::from_le_bytes(*number), u64::from_le_bytes(*sent))
    })
}

/// Measurements of a source's arrived datagrams.
#[derive(Default)]
struct ArrivedDatagrams {
    delay: Meter,
    first: Option<u64>,
    last: Option<u64>,
}

impl ArrivedDatagrams {
    /// Adds all measurements of `other`.
    fn add(&mut self, other: &ArrivedDatagrams) {
        self.delay.add(&other.delay);
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.max(other.last);
    }
}

/// Bytes received in each window.
struct Windows {
    zero: u64,
    length: u64,
    /// The index of each source in a window.
    places: BTreeMap<u32, usize>,
    bytes: Vec<Vec<u64>>,
}

impl Windows {
    fn new(plan: &EndPlan) -> Windows {
        let places: BTreeMap<u32, usize> =
            plan.receives.iter().enumerate().map(|(n, r)| (r.source, n)).collect();
        let number = plan.duration.checked_div(plan.window).unwrap_or(0);
        let bytes = (0..number).map(|_| vec![0; plan.receives.len()]).collect();
        Windows { zero: plan.zero, length: plan.window, places, bytes }
    }

    fn count(&mut self, source: u32, now: u64, length: usize) {
        let window = now.checked_sub(self.zero).and_then(|since| since.checked_div(self.length));
        let window = window.and_then(|n| self.bytes.get_mut(usize::try_from(n).ok()?));
        if let (Some(window), Some(place)) = (window, self.places.get(&source)) {
            window[*place] += length as u64;
        }
    }
}

/// Receives until the scenario and its grace period are over.
fn receive(plan: &EndPlan, sockets: &BTreeMap<SocketAddr, UdpSocket>) -> io::Result<EndReport> {
    priority::be_punctual(Rank::Receiver);
    let clock = Clock::from_zero(plan.zero);
    let end = Time(plan.duration + plan.grace);
    let mut delays: BTreeMap<u32, ArrivedDatagrams> =
        plan.receives.iter().map(|r| (r.source, ArrivedDatagrams::default())).collect();
    for socket in sockets.values() {
        socket.set_nonblocking(true)?;
        socket_buffer::enlarge(socket);
    }
    let mut watch = PollSet::default();
    watch.set(sockets.values().map(UdpSocket::as_fd));
    let mut windows = Windows::new(plan);
    let flow_of: BTreeMap<u32, FlowKey> =
        plan.receives.iter().map(|r| (r.source, r.flow)).collect();
    let mut each = Vec::new();
    let mut buffer = vec![0; 65_536];
    let mut last = false;
    while !last && !sockets.is_empty() {
        let left = clock.until(end);
        last = left == Span::ZERO;
        watch.wait(left)?;
        for (_, socket) in
            sockets.values().enumerate().filter(|&(i, _)| last || watch.is_readable(i))
        {
            // A limit for each socket, so that all get a turn, and a flood does not extend the run.
            for _ in 0..64 {
                let length = match socket.recv(&mut buffer) {
                    Ok(length) => length,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e),
                };
                let now = monotonic();
                if let Some((source, number, sent)) = stamp(&buffer[..length])
                    && let Some(arrived) = delays.get_mut(&source)
                {
                    let delay = now.saturating_sub(sent);
                    if plan.each {
                        let (flow, length) = (flow_of[&source], length as u32);
                        each.push(ReceivedDatagram { flow, source, number, length, delay });
                    }
                    arrived.delay.record(Span(delay));
                    arrived.first = arrived.first.or(Some(now));
                    arrived.last = Some(now);
                    windows.count(source, now, length);
                }
            }
        }
    }
    let mut flows: BTreeMap<FlowKey, ArrivedDatagrams> = BTreeMap::new();
    for receiving in &plan.receives {
        flows.entry(receiving.flow).or_default().add(&delays[&receiving.source]);
    }
    let report = |(flow, ArrivedDatagrams { delay, first, last }): (FlowKey, ArrivedDatagrams)| {
        ReceivedReport {
            flow,
            between: first.zip(last).map(|(first, last)| last - first),
            datagrams: delay.count(),
            mean: delay.mean_nanos(),
            p50: delay.quantile(0.5).map(|s| s.0),
            p99: delay.quantile(0.99).map(|s| s.0),
            max: delay.max().map(|s| s.0),
        }
    };
    let received = flows.into_iter().map(report).collect();
    Ok(EndReport { received, windows: windows.bytes, each, ..EndReport::default() })
}
