//! Measures a scenario with real packets: its sources send datagrams through its links, between two
//! network namespaces or, where namespaces are not allowed, between two processes over loopback
//! sockets.

use anyhow::{Context, Result, bail};
use falaj_control::endpoint::Control;
use falaj_control::live_links::{
    between_two_ends, no_adapters, no_changes, no_masks, warn_of_spinning,
};
use falaj_control::pacing::PacingArgs;
use falaj_control::recording::Recording;
use falaj_control::running::Running;
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::rules::RuleCounters;
use falaj_live::clock::{Clock, Usage, monotonic, thread_usage};
use falaj_live::event_loop::{Forwarder, LiveFlow, LiveLosses, LoopActivity, Options, Woken};
use falaj_live::priority::{self, Rank};
use falaj_live::sandbox::{self, End, Exit, Join, Sandbox, SideEvent};
use falaj_live::traffic::datagrams::{
    EndPlan, EndReport, FlowKey, ReceivedDatagram, ReceivedReport, run_end,
};
use falaj_live::{addressing, wiring};
use falaj_scenario::edit::with_seed;
use falaj_scenario::{Link, Scenario};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::effective_config::EffectiveConfig;
use falaj_terminal::interrupt::Interrupted;
use falaj_terminal::{arguments, file, progress};
use signal_hook::consts::SIGINT;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

/// Time from the start of the two ends (the processes that send and receive) to the first instant
/// of the sources.
pub const LEAD: Span = Span::from_millis(300);

/// Arguments of the commands that measure a scenario.
#[derive(clap::Args)]
pub struct Measuring {
    /// The scenario; with several links, rules select those that each packet passes.
    file: PathBuf,
    /// Duration of the measurement, and of its simulation [default: the scenario's].
    #[arg(long, value_parser = arguments::parse_duration)]
    duration: Option<Span>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pace: PacingArgs,
    #[command(flatten)]
    recording: Recording,
    #[command(flatten)]
    asked: EffectiveConfig,
}

/// A scenario to be measured.
pub struct Measurement {
    /// The scenario.
    pub scenario: Scenario,
    /// The text of the scenario's file, for a capture.
    text: String,
}

impl Measuring {
    /// The options of the event loop.
    pub fn options(&self) -> Options {
        self.pace.options()
    }

    /// The scenario's file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The duration, if given.
    pub fn duration(&self) -> Option<Span> {
        self.duration
    }

    /// Prints the effective scenario, if requested.
    pub fn tell(&self, scenario: &Scenario) {
        self.asked.tell(scenario);
    }

    /// Reads the scenario, with this first seed if one is given.
    ///
    /// # Errors
    /// It cannot be read, or is invalid.
    pub fn read(&self, seed: Option<u64>) -> Result<Measurement> {
        let (name, mut text) = file::text(&self.file)?;
        let mut scenario = file::parse(&text, &name)?;
        if let Some(seed) = seed {
            scenario.begin_at(seed);
            text = with_seed(&text, seed);
        }
        scenario.run.duration = self.duration.unwrap_or(scenario.run.duration);
        between_two_ends(&scenario)?;
        file::make_room_for_marks(&mut scenario);
        Ok(Measurement { scenario, text })
    }

    /// Measures the scenario with the given options, and captures packets if requested.
    ///
    /// # Errors
    /// The errors of [`measure`], or the capture cannot be written.
    pub fn measure(&self, of: &Measurement, what: &'static str) -> Result<Measured> {
        self.recording.take_standard_output()?;
        let how = How {
            recording: Some((&self.recording, &of.text, &self.file)),
            ..How::new(self.options())
        };
        measure_joined(&of.scenario, join_of(&of.scenario.links), &how, what)
    }
}

/// The results of a measurement.
pub struct Measured {
    /// By direction (up and down of each link), then by flow: the measurements.
    pub flows: Vec<Vec<MeasuredFlow>>,
    /// The counters of each rule, by name.
    pub rules: Vec<(String, RuleCounters)>,
    /// Packets lost outside the queues.
    pub losses: LiveLosses,
    /// The path of the packets: `namespaces` or `loopback`.
    pub over: &'static str,
    /// Activity and cost of the forwarding thread while the sources sent.
    pub thread: Thread,
    /// Exit code of the capture: 0 if there was none or it has all packets.
    pub capture: ExitCode,
    /// Each received datagram, if requested.
    pub each: Vec<ReceivedDatagram>,
}

/// The settings of a measurement.
struct How<'a> {
    options: Options,
    /// Called immediately before the sources begin.
    begins: &'a dyn Fn() -> Result<()>,
    /// The capture, if requested, and the text and the file of the scenario.
    recording: Option<(&'a Recording, &'a str, &'a Path)>,
    /// True if the result is to have each datagram.
    each: bool,
}

impl How<'_> {
    fn new(options: Options) -> How<'static> {
        How { options, begins: &|| Ok(()), recording: None, each: false }
    }

    /// Begins the capture.
    fn record(&self, forwarder: &mut Forwarder) -> Result<()> {
        self.recording.map_or(Ok(()), |(recording, text, _)| recording.begin(forwarder, text))
    }

    /// Starts the scheduled changes, whose times count from the start of the sources.
    fn control(&self, scenario: &Scenario, clock: Clock) -> Result<Control> {
        if self.recording.is_none() {
            no_changes(scenario)?;
        }
        let (text, file) =
            self.recording.map_or(("", Path::new("")), |(_, text, file)| (text, file));
        let running = Running {
            command: "traffic",
            about: String::new(),
            file: file.to_owned(),
            scenario: Arc::new(scenario.clone()),
            text: text.to_owned(),
            recording: self.recording.is_some_and(|(recording, ..)| recording.is_wanted()),
            standings: None,
        };
        let mut control = Control::open(None, running)?;
        control.schedule(clock, Time::ZERO + LEAD)?;
        Ok(control)
    }

    /// Ends the capture.
    fn recorded(&self, forwarder: &mut Forwarder) -> ExitCode {
        self.recording.map_or(ExitCode::SUCCESS, |(recording, ..)| recording.end(forwarder))
    }
}

/// Activity and cost of the forwarding thread.
#[derive(Clone, Copy, Default)]
pub struct Thread {
    /// Length of the observation.
    pub elapsed: Span,
    /// Wakeups of the event loop, by cause.
    pub awake: LoopActivity,
    /// Resource usage, as counted by the kernel.
    pub usage: Usage,
}

impl Thread {
    /// The totals since the engine's start.
    fn until_now(forwarder: &Forwarder) -> Thread {
        let elapsed = forwarder.clock().now().since(Time::ZERO);
        Thread { elapsed, awake: forwarder.awake(), usage: thread_usage() }
    }

    fn since(self, then: Thread) -> Thread {
        let (now, was) = (self.awake, then.awake);
        Thread {
            elapsed: self.elapsed - then.elapsed,
            awake: LoopActivity {
                by_timer: now.by_timer - was.by_timer,
                by_packet: now.by_packet - was.by_packet,
                by_room: now.by_room - was.by_room,
                by_caller: now.by_caller - was.by_caller,
                for_others: now.for_others - was.for_others,
                refused: now.refused - was.refused,
                spun: now.spun - was.spun,
                rested: now.rested - was.rested,
            },
            usage: Usage {
                cpu: self.usage.cpu - then.usage.cpu,
                slept: self.usage.slept - then.usage.slept,
                preempted: self.usage.preempted - then.usage.preempted,
            },
        }
    }
}

/// The measurements of a flow.
#[derive(Default)]
pub struct MeasuredFlow {
    /// Counters, nominal delay and release error in the forwarder.
    pub link: LiveFlow,
    /// Bits per second that the link delivered while the sources sent.
    pub rate: f64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams not sent for lack of time.
    pub unsent: u64,
    /// 99th percentile of the sender's lateness, in nanoseconds.
    pub late_p99: Option<u64>,
    /// The received datagrams.
    pub received: ReceivedReport,
}

/// Runs the links of the scenario on real packets.
pub fn measure(scenario: &Scenario, options: Options, what: &'static str) -> Result<Measured> {
    measure_joined(scenario, join_of(&scenario.links), &How::new(options), what)
}

/// Runs the links of the scenario on real packets, and also returns each received datagram.
pub fn measure_each(scenario: &Scenario, options: Options, what: &'static str) -> Result<Measured> {
    let how = How { each: true, ..How::new(options) };
    measure_joined(scenario, join_of(&scenario.links), &how, what)
}

/// Runs the links of the scenario on real packets, with packet sockets between the namespaces and
/// the link, even where a TAP could be used.
pub fn measure_by_sockets(
    scenario: &Scenario,
    options: Options,
    what: &'static str,
) -> Result<Measured> {
    let join = match join_of(&scenario.links) {
        Join::Auto => Join::Packet,
        join => join,
    };
    measure_joined(scenario, join, &How::new(options), what)
}

/// Runs the links of the scenario on real packets, and calls `begins` immediately before the
/// sources begin; it may start threads.
pub fn measure_beside(
    scenario: &Scenario,
    options: Options,
    what: &'static str,
    begins: &dyn Fn() -> Result<()>,
) -> Result<Measured> {
    let how = How { begins, ..How::new(options) };
    measure_joined(scenario, join_of(&scenario.links), &how, what)
}

fn measure_joined(
    scenario: &Scenario,
    join: Join,
    how: &How,
    what: &'static str,
) -> Result<Measured> {
    let links = between_two_ends(scenario)?;
    if scenario.traffic.is_empty() {
        bail!("link {} has no [traffic.NAME]: there is nothing to send", links[0].name);
    }
    no_adapters(scenario)?;
    for link in links {
        no_masks(link, "sources send from one address at each end")?;
        warn_of_spinning(link);
    }
    let mut plans = addressing::plan(scenario)?;
    plans.iter_mut().for_each(|plan| plan.each = how.each);
    match sandbox_of(links, join, None) {
        Ok((sandbox, pipes)) => in_namespaces(scenario, plans, (sandbox, pipes), how, what),
        Err(error) if !matches!(join, Join::Device(_)) => {
            // Repeated measurements print this only once.
            static TOLD: std::sync::Once = std::sync::Once::new();
            TOLD.call_once(|| {
                note!("{error}");
                note!("no network namespaces here: packets go over loopback sockets instead");
            });
            over_loopback(scenario, plans, how, what)
        }
        Err(error) => {
            Err(error).context("only network namespaces can measure a link that its device paces")
        }
    }
}

/// The connection between the sides and the link. If devices pace links, it consists of interfaces
/// that send at the rate of the fastest of these links. The rate is scaled from the bytes that the
/// link accounts to those of frames, in the proportion of its largest packets.
fn join_of(links: &[Link]) -> Join {
    let paced = links
        .iter()
        .flat_map(|link| [&link.up, &link.down])
        .filter(|d| d.pipe.pace != falaj_engine::pipe::Pace::Falaj);
    let rate = paced.map(|direction| {
        let [frame, counted] = [CountedLayer::L2, direction.layer]
            .map(|layer| u128::from(layer.largest(direction.mtu)));
        let rate = u128::from(direction.pipe.setup.rate.0) * frame / counted.max(1);
        Rate(u64::try_from(rate).unwrap_or(u64::MAX))
    });
    rate.max().map_or(Join::Auto, Join::Device)
}

/// The files that the ends write and read.
struct Pipes {
    to: [File; 2],
    from: [File; 2],
}

fn this_program() -> Result<std::path::PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

/// One side of the traffic with its files.
pub struct Piped {
    /// The side itself.
    pub side: sandbox::SandboxSide,
    /// The file that the side's plan is written to.
    pub plan: File,
    /// The file with the side's report.
    pub report: File,
}

/// One side of the traffic; `script` runs there before the traffic begins.
pub fn traffic_side(script: Option<&str>) -> Result<Piped> {
    let (stdin, writer) = std::io::pipe()?;
    let report = report_file()?;
    let program = this_program()?.into_os_string();
    let mut side = match script {
        None => sandbox::SandboxSide::command([program, "traffic-end".into()]),
        Some(script) => {
            let script = format!("set -e\n{script}\nexec \"$0\" traffic-end");
            sandbox::SandboxSide::command(["sh".into(), "-c".into(), script.into(), program])
        }
    };
    side.stdin = Some(OwnedFd::from(stdin));
    side.stdout = Some(OwnedFd::from(report.try_clone()?));
    Ok(Piped { side, plan: File::from(OwnedFd::from(writer)), report })
}

/// The file that an end writes its report to. A pipe would deadlock: the end would wait for space
/// in the full pipe, and the reader for the end's exit. The report of ten minutes is larger than a
/// pipe.
fn report_file() -> Result<File> {
    tempfile::tempfile().context("no temporary file for the traffic's report")
}

/// Both ends of the traffic. The script runs at the near end before the traffic begins, and its
/// standard error goes to the file.
fn sandbox_of(
    links: &[Link],
    join: Join,
    script: Option<(&str, &File)>,
) -> Result<(Sandbox, Pipes)> {
    let (mut sides, mut to, mut from) = (Vec::new(), Vec::new(), Vec::new());
    for end in End::BOTH {
        let script = script.filter(|_| end == End::Near);
        let Piped { mut side, plan, report } = traffic_side(script.map(|(script, _)| script))?;
        if let Some((_, complaints)) = script {
            side.stderr = Some(complaints.try_clone()?.into());
        }
        sides.push(side);
        to.push(plan);
        from.push(report);
    }
    let (Some(far), Some(near)) = (sides.pop(), sides.pop()) else { unreachable!("two ends") };
    let mtu = links.iter().map(|link| link.up.mtu.max(link.down.mtu)).max().unwrap_or(1500);
    let sandbox = Sandbox::start(sandbox::SandboxSpec {
        mtu: u16::try_from(mtu).context("the mtu does not fit an interface")?,
        join,
        near,
        far,
        ..sandbox::SandboxSpec::default()
    })?;
    let (Ok(to), Ok(from)) = (to.try_into(), from.try_into()) else { unreachable!("two ends") };
    Ok((sandbox, Pipes { to, from }))
}

/// Sets the times that all ends share, and returns the clock.
pub fn set_times(scenario: &Scenario, plans: &mut [EndPlan]) -> Clock {
    let zero = monotonic() + LEAD.0;
    for plan in plans {
        plan.zero = zero;
        plan.duration = scenario.run.duration.0;
        plan.grace = addressing::drain(&scenario.links).0;
        plan.seed = scenario.run.seed;
    }
    // The engine's clock begins before the first packet, so that no packet is at time zero.
    Clock::from_zero(zero - LEAD.0)
}

fn in_namespaces(
    scenario: &Scenario,
    mut plans: [EndPlan; 2],
    (mut sandbox, mut pipes): (Sandbox, Pipes),
    how: &How,
    what: &'static str,
) -> Result<Measured> {
    let clock = set_times(scenario, &mut plans);
    let network = scenario.network();
    let mut forwarder = wiring::to_sandbox(&network, &mut sandbox, clock, how.options)?;
    how.record(&mut forwarder)?;
    (how.begins)()?;
    let mut control = how.control(scenario, clock)?;
    priority::be_punctual(Rank::Link);
    for end in End::BOTH {
        sandbox.go(end)?;
        pipes.to[end.index()].write_all(&serde_json::to_vec(&plans[end.index()])?)?;
    }
    drop(pipes.to);
    let mut progress = Progress::new(scenario, what);
    let mut watched = WatchedThread::new(scenario);
    let mut open = [true; 2];
    while open.contains(&true) {
        let waiting: Vec<End> = End::BOTH.into_iter().filter(|e| open[e.index()]).collect();
        let fds = waiting.iter().map(|&e| sandbox.control_fd(e)).chain(control.as_fd());
        let fds: Vec<BorrowedFd<'_>> = fds.collect();
        let woken = forwarder.run(watched.next(clock.now() + progress.step()), &fds)?;
        progress.update(&forwarder);
        watched.look(&forwarder);
        let Woken::Readable(i) = woken else { continue };
        if i == waiting.len() {
            control.serve(&mut forwarder)?;
            continue;
        }
        match sandbox.read_event(waiting[i])? {
            Some(SideEvent::Exited(Exit::Code(0))) => open[waiting[i].index()] = false,
            // Ctrl-C at a terminal also interrupts the ends.
            Some(SideEvent::Exited(Exit::Signal(SIGINT))) => {
                return Err(Interrupted("while measuring").into());
            }
            Some(SideEvent::Exited(Exit::Signal(signal))) => {
                bail!("the traffic at the {} end got signal {signal}", waiting[i])
            }
            Some(_) => bail!("the traffic at the {} end failed", waiting[i]),
            None => {}
        }
    }
    progress.end();
    let reports = pipes.from.into_iter().map(read_report).collect::<Result<Vec<_>>>()?;
    let capture = how.recorded(&mut forwarder);
    let over = "namespaces";
    let measured = collect(scenario, &forwarder, &reports, &watched, over, sandbox.unread());
    Ok(Measured { capture, ..measured })
}

/// Runs the same traffic between two namespaces joined by a veth pair, where `script` configures
/// the kernel. Returns the reports of both ends, each datagram included.
pub fn measure_kernel(scenario: &Scenario, script: &str) -> Result<Vec<EndReport>> {
    let mut plans = addressing::plan(scenario)?;
    plans.iter_mut().for_each(|plan| (plan.each, plan.floods) = (true, true));
    let complaints = tempfile::tempfile().context("no temporary file for the script's errors")?;
    let (mut sandbox, mut pipes) =
        sandbox_of(&scenario.links, Join::Veth, Some((script, &complaints)))?;
    set_times(scenario, &mut plans);
    for end in End::BOTH {
        sandbox.go(end)?;
        // An end that has failed already does not read; its exit status shows the failure.
        let _ = pipes.to[end.index()].write_all(&serde_json::to_vec(&plans[end.index()])?);
    }
    drop(pipes.to);
    for end in End::BOTH {
        loop {
            match sandbox.read_event(end)? {
                Some(SideEvent::Exited(Exit::Code(0))) => break,
                Some(SideEvent::Exited(Exit::Signal(SIGINT))) => {
                    return Err(Interrupted("while measuring").into());
                }
                Some(_) => match first_complaint(complaints) {
                    Some(line) => bail!("the kernel refuses it: {line}"),
                    None => bail!("the traffic at the {end} end failed"),
                },
                // The delay until the exit is noticed does not matter.
                None => std::thread::sleep(std::time::Duration::from_millis(20)),
            }
        }
    }
    pipes.from.into_iter().map(read_report).collect()
}

/// The first line that is not empty.
fn first_complaint(mut from: File) -> Option<String> {
    let mut text = Vec::new();
    from.rewind().ok()?;
    from.read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.to_owned())
}

fn over_loopback(
    scenario: &Scenario,
    mut plans: [EndPlan; 2],
    how: &How,
    what: &'static str,
) -> Result<Measured> {
    let clock = set_times(scenario, &mut plans);
    let mut forwarder = wiring::to_loopback(scenario, &mut plans, clock, how.options)?;
    how.record(&mut forwarder)?;
    let mut children = Vec::new();
    for plan in &plans {
        let report = report_file()?;
        let mut child = Command::new(this_program()?)
            .arg("traffic-end")
            .stdin(Stdio::piped())
            .stdout(report.try_clone()?)
            .spawn()
            .context("cannot start the traffic")?;
        child.stdin.take().context("no pipe")?.write_all(&serde_json::to_vec(plan)?)?;
        children.push((child, report));
    }
    (how.begins)()?;
    let mut control = how.control(scenario, clock)?;
    priority::be_punctual(Rank::Link);
    let mut progress = Progress::new(scenario, what);
    let mut watched = WatchedThread::new(scenario);
    while children.iter_mut().any(|(child, _)| matches!(child.try_wait(), Ok(None))) {
        let next = watched.next(clock.now() + Span::from_millis(20));
        let fds: Vec<BorrowedFd<'_>> = control.as_fd().into_iter().collect();
        if let Woken::Readable(_) = forwarder.run(next, &fds)? {
            control.serve(&mut forwarder)?;
        }
        progress.update(&forwarder);
        watched.look(&forwarder);
    }
    progress.end();
    let mut reports = Vec::new();
    for (mut child, report) in children {
        let status = child.wait()?;
        if !status.success() {
            bail!("the traffic failed: {status}");
        }
        reports.push(read_report(report)?);
    }
    let capture = how.recorded(&mut forwarder);
    let measured = collect(scenario, &forwarder, &reports, &watched, "loopback", None);
    Ok(Measured { capture, ..measured })
}

/// Reads the report of an end that has exited.
pub fn read_report(mut from: File) -> Result<EndReport> {
    let mut text = Vec::new();
    from.rewind()?;
    from.read_to_end(&mut text)?;
    serde_json::from_slice(&text).context("the traffic's report cannot be read")
}

fn collect(
    scenario: &Scenario,
    forwarder: &Forwarder,
    reports: &[EndReport],
    watched: &WatchedThread,
    over: &'static str,
    unread: Option<u64>,
) -> Measured {
    let delivered = watched.delivered.clone().unwrap_or_else(|| delivered_bytes(forwarder));
    let seconds = scenario.run.duration.as_secs_f64();
    let of = |pipe: usize, flow: usize, link: LiveFlow| {
        let key = FlowKey { pipe: pipe as u32, flow: flow as u32 };
        let sent = || reports.iter().flat_map(|r| &r.sent).filter(|s| s.flow == key);
        let received = reports.iter().flat_map(|r| &r.received).find(|r| r.flow == key).cloned();
        MeasuredFlow {
            link,
            rate: delivered[pipe][flow] as f64 * 8.0 / seconds,
            sent: sent().map(|s| s.datagrams).sum(),
            unsent: sent().map(|s| s.unsent).sum(),
            late_p99: sent().filter_map(|s| s.late_p99).max(),
            received: received.unwrap_or_default(),
        }
    };
    let pipe = |(p, flows): (usize, Vec<LiveFlow>)| {
        flows.into_iter().enumerate().map(|(f, flow)| of(p, f, flow)).collect()
    };
    let losses = LiveLosses {
        unread: unread.unwrap_or(0),
        overflowed: reports.iter().map(|r| r.overflowed).sum(),
        ..forwarder.losses()
    };
    let flows = forwarder.flows().into_iter().enumerate().map(pipe).collect();
    let names = scenario.rules.iter().map(|rule| rule.name.clone());
    let rules = names.zip(forwarder.taken().iter().copied()).collect();
    let each = reports.iter().flat_map(|report| &report.each).copied().collect();
    let (thread, capture) = (watched.thread, ExitCode::SUCCESS);
    Measured { flows, rules, losses, over, thread, capture, each }
}

/// Bytes that the links have delivered, by direction and flow.
fn delivered_bytes(forwarder: &Forwarder) -> Vec<Vec<u64>> {
    let of_pipe = |flows: Vec<LiveFlow>| {
        flows.into_iter().map(|flow| flow.counters.delivered_bytes()).collect()
    };
    forwarder.flows().into_iter().map(of_pipe).collect()
}

/// `falaj traffic-end`: one end of the traffic.
pub fn end() -> Result<ExitCode> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let plan: EndPlan =
        serde_json::from_str(&text).context("this command is for falaj's own use")?;
    let report = run_end(&plan)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(ExitCode::SUCCESS)
}

/// The forwarding thread, observed from the first instant of the sources to their last.
struct WatchedThread {
    from: Time,
    to: Time,
    began: Option<Thread>,
    /// Bytes that the links had delivered when the sources ended, by direction and flow.
    delivered: Option<Vec<Vec<u64>>>,
    thread: Thread,
}

impl WatchedThread {
    fn new(scenario: &Scenario) -> WatchedThread {
        let from = Time::ZERO + LEAD;
        let to = from + scenario.run.duration;
        WatchedThread { from, to, began: None, delivered: None, thread: Thread::default() }
    }

    /// The time of the next observation: `then`, or the sources' first or last instant if that
    /// comes earlier.
    fn next(&self, then: Time) -> Time {
        match self.began {
            None => then.min(self.from),
            Some(_) if self.delivered.is_none() => then.min(self.to),
            Some(_) => then,
        }
    }

    fn look(&mut self, forwarder: &Forwarder) {
        let now = forwarder.clock().now();
        match self.began {
            None if now >= self.from => self.began = Some(Thread::until_now(forwarder)),
            Some(began) if self.delivered.is_none() && now >= self.to => {
                self.thread = Thread::until_now(forwarder).since(began);
                self.delivered = Some(delivered_bytes(forwarder));
            }
            _ => {}
        }
    }
}

/// A progress bar on a terminal: the elapsed part of the measurement, in steps of 100 ms.
struct Progress {
    bar: indicatif::ProgressBar,
    zero: Time,
}

impl Progress {
    fn new(scenario: &Scenario, what: &'static str) -> Progress {
        Progress {
            bar: progress::bar(scenario.run.duration.0 / 100_000_000, what),
            zero: Time::ZERO + LEAD,
        }
    }
    /// Interval between updates of the display; without a display the loop is not woken for it.
    fn step(&self) -> Span {
        if self.bar.is_hidden() { Span::from_secs(3600) } else { Span::from_millis(100) }
    }
    fn update(&mut self, forwarder: &Forwarder) {
        self.bar.set_position(forwarder.clock().now().since(self.zero).0 / 100_000_000);
    }
    fn end(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_longer_than_a_pipe_is_read_when_its_end_has_gone() {
        let windows = vec![vec![1_000_000; 20]; 10_000];
        let mut told = tempfile::tempfile().unwrap();
        told.write_all(
            &serde_json::to_vec(&EndReport { windows: windows.clone(), ..EndReport::default() })
                .unwrap(),
        )
        .unwrap();
        told.rewind().unwrap();
        let report = report_file().unwrap();
        let status =
            Command::new("cat").stdin(told).stdout(report.try_clone().unwrap()).status().unwrap();
        assert!(status.success());
        assert_eq!(read_report(report).unwrap().windows, windows);
    }
}
