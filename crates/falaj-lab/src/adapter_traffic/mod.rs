//! Sends the packets of a scenario's sources as real datagrams from virtual adapters, in namespaces
//! or in guests, to the uplink. Counts packets and bytes per window. The link may be changed at the
//! beginning of windows.

mod guests;
mod simulated;

use anyhow::{Context, Result, anyhow, bail};
use falaj_engine::PipeId;
use falaj_engine::pipe::Counters;
use falaj_experiment::measure::{LEAD, Piped, read_report, set_times, traffic_side};
use falaj_live::adapters::{Adapters, Addresses, Space, start_with};
use falaj_live::addressing;
use falaj_live::event_loop::{Compliance, Forwarder, GuaranteeTerms, LiveFlow, Options, Woken};
use falaj_live::priority::{self, Rank};
use falaj_live::sandbox::{Exit, Hosts, SideEvent};
use falaj_live::traffic::datagrams::EndReport;
use falaj_live::wiring;
use falaj_scenario::difference::difference;
use falaj_scenario::{Scenario, ScheduledChange};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::interrupt::Interrupted;
pub(crate) use guests::Guests;
use signal_hook::consts::SIGINT;
pub(crate) use simulated::simulate;
use std::cell::RefCell;
use std::io::Write;

const UP: PipeId = PipeId(0);

/// The traffic of a measurement, and its senders.
pub(crate) struct TrafficPlan<'a> {
    pub(crate) scenario: &'a Scenario,
    /// For each source, the index of the adapter that it sends from. Each adapter has a source.
    pub(crate) homes: &'a [usize],
    /// The names of the adapters, which are those of the flows with the key `adapter`.
    pub(crate) adapters: &'a [&'a str],
    pub(crate) window: Span,
    /// Called immediately before the sources begin; it may start threads.
    pub(crate) begins: &'a dyn Fn() -> Result<()>,
    /// The guarantee terms of flows, by pipe and flow, if there are any.
    pub(crate) terms: Option<Vec<Vec<GuaranteeTerms>>>,
    /// The guests of the adapters; `None`: adapters are in namespaces. The uplink is always in a
    /// namespace.
    pub(crate) guests: Option<&'a RefCell<Guests>>,
}

/// The results of a measurement.
pub(crate) struct MeasuredTraffic {
    pub(crate) windows: Vec<Window>,
    /// The results of the direction up, by flow.
    pub(crate) flows: Vec<LiveFlow>,
    /// The compliance of these flows with their guarantees.
    pub(crate) kept: Vec<Compliance>,
}

/// The measurements of a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// Bytes of payload that the uplink received, by adapter.
    pub(crate) received: Vec<u64>,
    /// Packets whose transmission began, by flow of the direction up.
    pub(crate) sent: Vec<u64>,
    /// Bytes whose transmission began, as the link accounts them, by flow of the direction up.
    pub(crate) bytes: Vec<u64>,
    /// For flows with guarantees: true if the flow was backlogged during the whole window.
    pub(crate) demanded: Vec<bool>,
    /// Length of the window.
    pub(crate) lasted: Span,
    /// Maximum lateness of a delivery.
    pub(crate) late: Span,
}

/// The counters of the forwarder at the beginning of a window.
struct Mark {
    at: Time,
    flows: Vec<Counters>,
    kept: Vec<Compliance>,
    late: Span,
}

/// Runs the traffic, and returns the measurements of each window and of the whole run.
///
/// # Errors
/// If network namespaces are not permitted here, or Ctrl-C was pressed.
pub(crate) fn measure(plan: &TrafficPlan) -> Result<MeasuredTraffic> {
    let scenario = plan.scenario;
    let mut guests = plan.guests.map(RefCell::borrow_mut);
    let at = guests.as_ref().map_or_else(Addresses::free, |guests| guests.addresses());
    let place = |adapter: usize| Addresses::UPLINK + 1 + adapter as u8;
    // Number of adapters in namespaces: all or none.
    let inside = if guests.is_some() { 0 } else { plan.adapters.len() };
    let places = (0..inside).map(place).chain([Addresses::UPLINK]);
    let spaces: Vec<Space> = places.map(|place| Space::placed(None, at, place)).collect();
    let (mut sides, mut to, mut from) = (Vec::new(), Vec::new(), Vec::new());
    for _ in &spaces {
        let Piped { side, plan, report } = traffic_side(None)?;
        sides.push(side);
        to.push(plan);
        from.push(report);
    }
    let link = scenario.links.first().context("a link")?;
    let mtu = u16::try_from(link.up.mtu.max(link.down.mtu))
        .context("the mtu does not fit an interface")?;
    let mut hosts = start_with(&spaces, sides, at, mtu)?;
    let addresses: Vec<_> = plan.homes.iter().map(|&adapter| at.address(place(adapter))).collect();
    let mut plans =
        addressing::plan_of_adapters(scenario, &addresses, at.address(Addresses::UPLINK))?;
    plans.iter_mut().for_each(|ends| ends.window = plan.window.0);
    let adapters = Adapters::new()?;
    let cards = guests.as_mut().map(|guests| guests.plug()).transpose()?;
    for (n, name) in plan.adapters.iter().enumerate() {
        let port = match &cards {
            Some(cards) => cards.port(n)?,
            None => wiring::space_port(&mut hosts, n, &format!("adapter {name}"))?,
        };
        adapters.add(name, port, Some(at.mac(place(n))))?;
    }
    let uplink = wiring::space_port(&mut hosts, inside, "the uplink")?;
    let clock = set_times(scenario, &mut plans);
    let mut forwarder =
        wiring::to_adapters(&scenario.network(), &adapters, uplink, clock, Options::default())?;
    if let Some(terms) = &plan.terms {
        forwarder.set_guarantees(terms.clone());
    }
    (plan.begins)()?;
    priority::be_punctual(Rank::Link);
    let (away, here) = plans.split_at(plans.len() - to.len());
    for (n, (mut pipe, plan)) in to.into_iter().zip(here).enumerate() {
        hosts.go(n)?;
        pipe.write_all(&serde_json::to_vec(plan)?)?;
    }
    for (n, plan) in away.iter().enumerate() {
        guests.as_mut().context("adapters are guests")?.send(n, plan)?;
    }
    let marks = forward(plan, &mut forwarder, &mut hosts)?;
    for n in 0..away.len() {
        guests.as_mut().context("adapters are guests")?.done(n)?;
    }
    let report: EndReport =
        from.into_iter().map(read_report).next_back().context("the uplink's end")??;
    let flows = forwarder.flows().into_iter().next().unwrap_or_default();
    Ok(MeasuredTraffic { windows: windows(plan, &marks, &report), flows, kept: kept(&forwarder) })
}

/// The compliance of the direction up, by flow; empty without guarantees.
fn kept(forwarder: &Forwarder) -> Vec<Compliance> {
    forwarder.kept().into_iter().next().unwrap_or_default()
}

/// Forwards until all ends are done; returns the counters at the beginning of each window, and at
/// the end of the last one.
fn forward(plan: &TrafficPlan, forwarder: &mut Forwarder, hosts: &mut Hosts) -> Result<Vec<Mark>> {
    let number = (plan.scenario.run.duration.0 / plan.window.0.max(1)) as usize;
    let begin = |window: usize| Time::ZERO + LEAD + plan.window * window as u64;
    let flows = plan.scenario.links[0].up.flows.len();
    let mut marks = Vec::with_capacity(number + 1);
    let mut changes = plan.scenario.changes.iter().peekable();
    let (mut now, mut places) = (plan.scenario.clone(), vec![0]);
    let mut open: Vec<usize> = (0..hosts.count()).collect();
    while !open.is_empty() {
        let until = if marks.len() <= number { begin(marks.len()) } else { Time::NEVER };
        let fds: Vec<_> = open.iter().map(|&side| hosts.control_fd(side)).collect();
        let woken = forwarder.run(until, &fds)?;
        while marks.len() <= number && forwarder.clock().now() >= begin(marks.len()) {
            forwarder.settle();
            let flows = (0..flows).map(|f| forwarder.counters(UP, FlowId(f as u32))).collect();
            let (at, kept) = (forwarder.clock().now(), kept(forwarder));
            marks.push(Mark { at, flows, kept, late: forwarder.take_latest() });
            let begun = plan.window * (marks.len() - 1) as u64;
            while let Some(ScheduledChange { scenario: then, .. }) =
                changes.next_if(|change| change.at <= begun)
            {
                let made = difference(&now, &then, (&places, forwarder.places()), false)
                    .map_err(|why| anyhow!(why))?;
                if let Some(change) = made.change {
                    forwarder.change(change).map_err(|unfit| anyhow!("{unfit}"))?;
                }
                (now, places) = (Scenario::clone(&then), made.at);
            }
        }
        let Woken::Readable(n) = woken else { continue };
        match hosts.read_event(open[n])? {
            Some(SideEvent::Exited(Exit::Code(0))) => drop(open.remove(n)),
            Some(SideEvent::Exited(Exit::Signal(SIGINT))) => {
                return Err(Interrupted("while measuring").into());
            }
            Some(_) => bail!("the traffic of an adapter failed"),
            None => {}
        }
    }
    Ok(marks)
}

fn windows(plan: &TrafficPlan, marks: &[Mark], report: &EndReport) -> Vec<Window> {
    let received = |bytes: &[u64]| {
        let mut of = vec![0; plan.adapters.len()];
        plan.homes.iter().zip(bytes).for_each(|(&adapter, bytes)| of[adapter] += bytes);
        of
    };
    let one = |(pair, bytes): (&[Mark], &Vec<u64>)| {
        let (was, is) = (&pair[0], &pair[1]);
        let grown = |of: fn(&Counters) -> u64| {
            is.flows.iter().zip(&was.flows).map(|(is, was)| of(is) - of(was)).collect()
        };
        // The queue had packets at the beginning and at the end of the window, and no packet
        // arrived at an empty queue in between.
        let waited = |f: usize| was.flows[f].backlog > 0 && is.flows[f].backlog > 0;
        let demanded = |(f, (is, was)): (usize, (&Compliance, &Compliance))| {
            waited(f) && is.periods == was.periods
        };
        Window {
            received: received(bytes),
            sent: grown(|counters| counters.sent),
            bytes: grown(|counters| counters.sent_bytes),
            demanded: is.kept.iter().zip(&was.kept).enumerate().map(demanded).collect(),
            lasted: is.at.since(was.at),
            late: is.late,
        }
    };
    marks.windows(2).zip(&report.windows).map(one).collect()
}
