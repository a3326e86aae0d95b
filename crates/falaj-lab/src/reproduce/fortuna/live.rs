//! Section II.B on real packets: the cost of keeping phases on a machine that is not a real-time
//! system.
//!
//! The paper's argument: timer interrupts come late, so a phase-wise server has to wait busily, or
//! to sleep until shortly before a phase ends and wait busily from there; that takes a processor
//! and power. A packet-wise server needs the timer only at the end of a cycle. Here the same
//! packets pass servers of both kinds, and the forwarding thread is observed: its wake-ups, its
//! spinning, its CPU time.
//!
//! The paper's 1 Gbit/s is 100 Mbit/s here, its phase of 30 us is 300 us, and its loads are a
//! tenth. So all delays are ten times the paper's, and nothing else differs. Shorter and longer
//! phases are measured too.

use super::claims;
use super::runs::{FIRST_SEED, LinkServer, Scale, SimulationEffort, VirtualLink, scenario_text};
use super::tables::SERVERS;
use crate::reproduce::verdict::JudgedRow;
use anyhow::Result;
use clap::ValueEnum;
use falaj_engine::PipeId;
use falaj_experiment::measure::{Measured, Thread, measure_by_sockets};
use falaj_experiment::replications::{Replications, SimulatedFlow};
use falaj_live::event_loop::Timer;
use falaj_live::event_loop::{LiveLosses, Options};
use falaj_sched::units::time::Span;
use falaj_terminal::interrupt::Interrupted;
use falaj_terminal::{file, progress, text};
use falaj_traffic::meter::Meter;
use serde::Serialize;

/// The offered load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(in crate::reproduce) enum Load {
    /// No packets, on links of types A and B.
    Idle,
    /// 250 packets a second on each link; links of types A and B.
    Light,
    /// Row 7 of the tables: types A and B, each with a tenth of the line.
    Row7,
    /// Row 4 of the tables: types B and A, with 0.8 and 0.2 of the line.
    Row4,
    /// More than the line carries: two links of type B, each with 0.6 of the line.
    Flood,
    /// Row 14 of the tables: types B, A and B, with 0.7, 0.2 and 0.1 of the line.
    Row14,
}

impl Load {
    /// The virtual links, with the load offered to each in Mbit/s.
    fn links(self) -> &'static [VirtualLink] {
        match self {
            Load::Idle => &[('A', 0), ('B', 0)],
            Load::Light => &[('A', 1), ('B', 1)],
            Load::Row7 => &[('A', 10), ('B', 10)],
            Load::Row4 => &[('B', 80), ('A', 20)],
            Load::Flood => &[('B', 60), ('B', 60)],
            Load::Row14 => &[('B', 70), ('A', 20), ('B', 10)],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Load::Idle => "idle",
            Load::Light => "light",
            Load::Row7 => "row 7",
            Load::Row4 => "row 4",
            Load::Flood => "flood",
            Load::Row14 => "row 14",
        }
    }

    /// The load in short, such as `BA 80/20`.
    fn shape(self) -> String {
        let kinds: String = self.links().iter().map(|l| l.0).collect();
        let rates: Vec<String> = self.links().iter().map(|l| l.1.to_string()).collect();
        format!("{kinds} {}", rates.join("/"))
    }
}

/// How the links are paced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(in crate::reproduce) enum Paced {
    /// falaj hands each packet over when it is due.
    Falaj,
    /// The device is handed packets ahead of time.
    Device,
}

impl Paced {
    /// The value of the link's key `paced-by`.
    fn word(self) -> &'static str {
        match self {
            Paced::Falaj => "falaj",
            Paced::Device => "device",
        }
    }
}

/// Slack of a loop that sleeps.
const SLACK: Span = Span::from_micros(50);

/// Default duration.
pub(super) const DURATION: Span = Span::from_secs(2);

/// The loads and phases, and the duration of each measurement.
#[derive(Clone, Debug)]
pub(in crate::reproduce) struct Plan {
    pub(in crate::reproduce) loads: Vec<Load>,
    pub(in crate::reproduce) paces: Vec<Paced>,
    pub(in crate::reproduce) phases: Vec<Span>,
    pub(in crate::reproduce) duration: Span,
}

/// The results of one virtual link, simulated and measured.
#[derive(Serialize)]
pub(super) struct Tenant {
    kind: char,
    offered: u64,
    simulated: View,
    measured: View,
    /// Packets that the source had no time to send, and the 99th percentile of its lateness.
    unsent: u64,
    sent_late_p99_ns: Option<u64>,
    /// Packets sent by the link that arrived at the far end.
    pub(super) received: u64,
    release_error_p99_ns: Option<u64>,
    end_to_end_p50_ns: Option<u64>,
    end_to_end_p99_ns: Option<u64>,
}

/// Number of packets, rate in bit/s, and quantiles of the delay in nanoseconds.
#[derive(Serialize)]
struct View {
    packets: u64,
    rate: f64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
}

impl View {
    fn of(packets: u64, rate: f64, delay: &Meter) -> View {
        let at = |q| delay.quantile(q).map(|s| s.0);
        View { packets, rate, p50_ns: at(0.5), p99_ns: at(0.99) }
    }
}

/// The results of one load under one server with one phase.
#[derive(Serialize)]
pub(super) struct LiveResult {
    load: &'static str,
    shape: String,
    phase_ns: u64,
    pub(super) server: String,
    paced_by: &'static str,
    over: &'static str,
    /// The forwarding thread while the sources sent: the time, and the sleeps that ended because of
    /// the timer, a packet, room in the device, or falaj's own progress display.
    elapsed_ns: u64,
    woken_by_timer: u64,
    woken_by_packet: u64,
    woken_by_room: u64,
    woken_by_caller: u64,
    /// Short sleeps in which the thread yields to threads of lower priority.
    slept_for_others: u64,
    /// Number of times that the device had no room.
    refused: u64,
    /// Context switches, as the kernel counts them.
    voluntary_switches: u64,
    involuntary_switches: u64,
    cpu_ns: u64,
    /// The part of the CPU time that was spent spinning.
    spun_ns: u64,
    /// Packets delivered.
    packets: u64,
    release_error_p50_ns: Option<u64>,
    release_error_p99_ns: Option<u64>,
    tenants: Vec<Tenant>,
    /// Packets lost outside the queues.
    lost_outside: Vec<LostPackets>,
}

#[derive(Serialize)]
struct LostPackets {
    packets: u64,
    why: &'static str,
}

/// The plan and the results.
pub(super) struct LiveResults {
    plan: Plan,
    pub(super) outcomes: Vec<LiveResult>,
    pub(super) rows: Vec<JudgedRow>,
    /// True if Ctrl-C came before everything was done.
    pub(super) interrupted: bool,
}

/// Runs every load under every server, one after the other.
pub(super) fn run(plan: &Plan) -> Result<LiveResults> {
    let mut outcomes = Vec::new();
    let mut interrupted = false;
    let total = plan.loads.len() * plan.phases.len() * SERVERS.len() * plan.paces.len();
    'all: for &load in &plan.loads {
        for &phase in &plan.phases {
            for (server, &paced) in
                SERVERS.into_iter().flat_map(|server| plan.paces.iter().map(move |p| (server, p)))
            {
                if progress::wanted() {
                    let (n, by) = (outcomes.len() + 1, paced.word());
                    eprintln!(
                        "{n}/{total}: {}, {phase}, {}, paced by {by}",
                        load.shape(),
                        server.name()
                    );
                }
                match outcome(load, phase, (server, paced), plan.duration) {
                    Err(error) if error.is::<Interrupted>() && !outcomes.is_empty() => {
                        interrupted = true;
                        break 'all;
                    }
                    outcome => outcomes.push(outcome?),
                }
            }
        }
    }
    let rows = claims::live(&outcomes);
    Ok(LiveResults { plan: plan.clone(), outcomes, rows, interrupted })
}

fn outcome(
    load: Load,
    phase: Span,
    (server, paced): (LinkServer, Paced),
    duration: Span,
) -> Result<LiveResult> {
    let (links, scale) = (load.links(), Scale { rate: "100mbit", phase });
    let title = format!("Section II.B, {}", load.shape());
    let mut text = scenario_text(
        &title,
        links,
        server,
        scale,
        SimulationEffort { seconds: duration.as_secs_f64(), seeds: 1 },
    );
    let link = "[link.virtual]\n";
    text = text.replace(link, &format!("{link}paced-by = \"{}\"\n", paced.word()));
    if load == Load::Idle {
        // A receiver without a sender.
        text.push_str(&format!(
            "\n[traffic.v1]\nflow = \"v1\"\nmodel = \"cbr\"\nrate = \"1mbit\"\nsize = \"500B\"\nstart = \"{duration}\"\n"
        ));
    }
    let scenario = file::parse_quietly(&text, "fortuna, live")?;
    let options = match paced {
        Paced::Falaj => Options::default(),
        // The device sends each packet at its instant, so the loop need not be punctual: it sleeps,
        // like a loop that shares its processor.
        Paced::Device => Options { timer: Timer::Sleep, slack: SLACK, ..Options::default() },
    };
    // Live first: namespaces must be created while the process is single-threaded.
    let measured = measure_by_sockets(&scenario, options, "measuring")?;
    let simulated = Replications::run(&scenario)?;
    if simulated.duration() < duration {
        return Err(Interrupted("while simulating").into());
    }
    let tenants: Vec<Tenant> = links
        .iter()
        .enumerate()
        .map(|(flow, &(kind, offered))| {
            tenant(kind, offered, &simulated.flow(PipeId(0), flow), &measured, flow)
        })
        .collect();
    let mut error = Meter::new();
    measured.flows[0].iter().for_each(|f| error.add(&f.link.release_error));
    let Measured { over, losses, thread: Thread { elapsed, awake, usage }, .. } = measured;
    Ok(LiveResult {
        load: load.name(),
        shape: load.shape(),
        phase_ns: phase.0,
        server: server.name(),
        paced_by: paced.word(),
        over,
        elapsed_ns: elapsed.0,
        woken_by_timer: awake.by_timer,
        woken_by_packet: awake.by_packet,
        woken_by_room: awake.by_room,
        woken_by_caller: awake.by_caller,
        slept_for_others: awake.for_others,
        refused: awake.refused,
        voluntary_switches: usage.slept,
        involuntary_switches: usage.preempted,
        cpu_ns: usage.cpu.0,
        spun_ns: awake.spun.0,
        packets: error.count(),
        release_error_p50_ns: error.quantile(0.5).map(|s| s.0),
        release_error_p99_ns: error.quantile(0.99).map(|s| s.0),
        tenants,
        lost_outside: lost(losses),
    })
}

fn lost(losses: LiveLosses) -> Vec<LostPackets> {
    let lost = losses.by_reason().into_iter().filter(|&(packets, _)| packets > 0);
    lost.map(|(packets, why)| LostPackets { packets, why }).collect()
}

fn tenant(
    kind: char,
    offered: u64,
    simulated: &SimulatedFlow,
    measured: &Measured,
    flow: usize,
) -> Tenant {
    let live = &measured.flows[0][flow];
    Tenant {
        kind,
        offered: offered * 1_000_000,
        simulated: View::of(
            simulated.sent,
            simulated.sent_rate.map_or(0.0, |e| e.mean),
            &simulated.delay,
        ),
        measured: View::of(live.link.counters.delivered(), live.rate, &live.link.delay),
        unsent: live.unsent,
        sent_late_p99_ns: live.late_p99,
        received: live.received.datagrams,
        release_error_p99_ns: live.link.release_error.quantile(0.99).map(|s| s.0),
        end_to_end_p50_ns: live.received.p50,
        end_to_end_p99_ns: live.received.p99,
    }
}

impl LiveResult {
    fn a_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.elapsed_ns as f64
    }

    pub(super) fn timer_wakes_a_second(&self) -> f64 {
        self.a_second(self.woken_by_timer)
    }

    pub(super) fn timer_wakes_for_100_packets(&self) -> f64 {
        self.woken_by_timer as f64 * 100.0 / self.packets as f64
    }

    /// Wake-ups by the timer, by packets and by room in the device, per 100 packets.
    pub(super) fn wakes_for_100_packets(&self) -> f64 {
        (self.woken_by_timer + self.woken_by_packet + self.woken_by_room) as f64 * 100.0
            / self.packets as f64
    }

    pub(super) fn phase(&self) -> Span {
        Span(self.phase_ns)
    }

    pub(super) fn is_paced_by(&self, paced: Paced) -> bool {
        self.paced_by == paced.word()
    }

    /// Packets sent by the link that did not arrive at the far end.
    pub(super) fn missing(&self) -> u64 {
        self.tenants.iter().map(|t| t.measured.packets.saturating_sub(t.received)).sum()
    }

    pub(super) fn load_name(&self) -> &'static str {
        self.load
    }

    pub(super) fn is(&self, load: Load) -> bool {
        self.load == load.name()
    }

    fn names(&self) -> Vec<String> {
        let load = format!("{}: {}", self.load, self.shape);
        vec![load, text::nanos(self.phase_ns as f64), self.server.clone(), self.paced_by.to_owned()]
    }

    /// The row of the thread's table.
    fn cells(&self) -> Vec<String> {
        let share = |ns: u64| format!("{:.1} %", ns as f64 * 100.0 / self.elapsed_ns as f64);
        let each = |ns: u64| match self.packets {
            0 => text::DASH.to_owned(),
            n => text::nanos(ns as f64 / n as f64),
        };
        let mut cells = self.names();
        cells.extend([
            format!("{:.0}", self.a_second(self.packets)),
            format!("{:.0}", self.timer_wakes_a_second()),
            format!("{:.0}", self.a_second(self.woken_by_packet)),
            format!("{:.0}", self.a_second(self.woken_by_room)),
            format!("{:.0}", self.a_second(self.slept_for_others)),
            format!("{:.0}", self.a_second(self.voluntary_switches)),
            share(self.cpu_ns),
            share(self.spun_ns),
            each(self.cpu_ns),
            each(self.cpu_ns.saturating_sub(self.spun_ns)),
            nanos(self.release_error_p99_ns),
        ]);
        cells
    }

    /// A row for each tenant with traffic.
    fn tenant_cells(&self) -> impl Iterator<Item = Vec<String>> {
        let sent = self.tenants.iter().enumerate().filter(|(_, t)| t.offered > 0);
        sent.map(|(i, t)| {
            let mut cells = self.names();
            cells.extend([
                format!("{} {}", i + 1, t.kind),
                text::rate(t.simulated.rate),
                text::rate(t.measured.rate),
                nanos(t.simulated.p50_ns),
                nanos(t.measured.p50_ns),
                nanos(t.simulated.p99_ns),
                nanos(t.measured.p99_ns),
                nanos(t.end_to_end_p50_ns),
            ]);
            cells
        })
    }
}

fn nanos(ns: Option<u64>) -> String {
    text::span(ns.map(Span))
}

/// Columns of the thread's table.
pub(super) const THREAD: [&str; 15] = [
    "load",
    "phase",
    "server",
    "paced by",
    "packets/s",
    "woken/s by timer",
    "by packet",
    "by room",
    "slept for others",
    "switches/s",
    "CPU",
    "spinning",
    "CPU a packet",
    "without spinning",
    "release error p99",
];

/// Columns of the tenants' table.
pub(super) const TENANTS: [&str; 12] = [
    "load",
    "phase",
    "server",
    "paced by",
    "link",
    "rate simulated",
    "measured",
    "delay p50 simulated",
    "measured",
    "p99 simulated",
    "measured",
    "end to end p50",
];

impl LiveResults {
    pub(super) fn title(&self) -> String {
        let over = self.outcomes.first().map_or("", |o| o.over);
        format!(
            "Section II.B live: 100 Mbit/s, packets of 500 B, {} each, measured over {over}",
            self.plan.duration
        )
    }

    pub(super) fn thread_rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.outcomes.iter().map(LiveResult::cells)
    }

    pub(super) fn tenant_rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.outcomes.iter().flat_map(LiveResult::tenant_cells)
    }

    /// Packets lost outside the queues, by load and server.
    pub(super) fn lost(&self) -> impl Iterator<Item = String> {
        let of = |o: &LiveResult| {
            let at = o.names().join(", ");
            o.lost_outside
                .iter()
                .map(move |l| format!("{at}: {} packets {}", l.packets, l.why))
                .collect::<Vec<_>>()
        };
        self.outcomes.iter().flat_map(of)
    }

    pub(super) fn print(&self) {
        say!("{}", self.title());
        say!("{}\n", text::table(&THREAD, self.thread_rows()));
        say!("{}\n", text::table(&TENANTS, self.tenant_rows()));
        self.lost().for_each(|line| say!("{line}"));
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "duration_ns": self.plan.duration.0, "seed": FIRST_SEED, "outcomes": self.outcomes,
        })
    }
}
