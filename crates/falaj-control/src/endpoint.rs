//! The forwarder's side of a control socket.
//!
//! Only the forwarder's thread has access to the engine. The socket has its own thread, which does
//! all long work: reading, checking, building the new state, and writing statistics as JSON. It
//! sends requests to the forwarder through a channel, and wakes it by a descriptor that the
//! forwarder polls together with its ports anyway: without requests, no packet costs more than
//! without a socket.

use crate::handler::{Handler, answer_line, lock};
use crate::messages::{AdaptersThen, Changing, HeldTo, Query, Reply, TimedReply};
use crate::running::{Beside, Preparer, Running, WholeState};
use crate::schedule::Timetable;
use crate::{server, sockets};
use anyhow::{Context, Result};
use falaj_live::clock::Clock;
use falaj_live::event_loop::{AppliedChange, Forwarder};
use falaj_scenario::edit::without_changes;
use falaj_scenario::{Link, Scenario};
use falaj_sched::units::time::{Span, Time};
use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// The environment variable with the path of the control socket, for commands behind a link.
pub const VARIABLE: &str = "FALAJ_CONTROL";
/// Maximum time for which one step of copying statistics may stop the forwarding of packets.
const COPYING: Span = Span::from_micros(50);
/// Number of entries of a mask that are shown by name.
const BUSIEST: usize = 10;

/// Arguments of commands with a control socket.
#[derive(clap::Args)]
#[command(next_help_heading = "Results and control")]
pub struct ControlArgs {
    /// Path of the control socket, for `falaj show` and `falaj set` [default: one that they find].
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    control: Option<PathBuf>,
}

impl ControlArgs {
    /// The path given by the option.
    pub fn given(&self) -> Result<Option<PathBuf>> {
        self.control.as_ref().map(std::path::absolute).transpose().context("--control")
    }

    /// The path of the socket. If no path is given and none can be created, the link runs without a
    /// socket.
    pub fn place(&self) -> Result<Option<PathBuf>> {
        match (&self.control, sockets::of_this_process()) {
            (Some(path), _) => Ok(Some(std::path::absolute(path).context("--control")?)),
            (None, Ok(path)) => Ok(Some(path)),
            (None, Err(error)) => {
                note!("warning: no control socket: {error:#}");
                Ok(None)
            }
        }
    }
}

/// The forwarder's side of a control socket; the socket is removed when this is dropped.
pub struct Control {
    /// The running scenario.
    scenario: Arc<Scenario>,
    ends: Option<Ends>,
    beside: Option<Box<dyn Beside>>,
    /// True if another process has taken the link over.
    handed_over: bool,
}

struct Ends {
    asks: Receiver<Query>,
    answers: Option<Sender<TimedReply>>,
    woken: PipeReader,
    /// The reading end of the pipe that stops the server, until the server's thread takes it.
    stopped: Option<PipeReader>,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    /// The socket and its path, if clients may connect.
    socket: Option<(UnixListener, PathBuf)>,
    /// Makes the scheduled changes.
    timetable: Option<Timetable>,
    /// True if the socket belongs to another process and stays.
    stays: bool,
    handler: Arc<Mutex<Handler>>,
}

impl Control {
    /// Listens at this path; from here on the process has another thread. Without a path, the
    /// control only keeps the scenario and makes the scheduled changes.
    pub fn open(place: Option<&Path>, running: Running) -> Result<Control> {
        let Some(path) = place else { return Control::with(None, running) };
        let listener = sockets::bind(path)
            .with_context(|| format!("the control socket {}", path.display()))?;
        let mut control = Control::at(listener, path, running)?;
        control.begin()?;
        Ok(control)
    }

    /// Prepares to listen at an existing socket. The control answers once it
    /// [begins](Control::begin).
    pub fn at(listener: UnixListener, path: &Path, running: Running) -> Result<Control> {
        Control::with(Some((listener, path.to_owned())), running)
    }

    fn with(socket: Option<(UnixListener, PathBuf)>, mut running: Running) -> Result<Control> {
        let scenario = Arc::clone(&running.scenario);
        if socket.is_none() && scenario.changes.is_empty() {
            return Ok(Control { scenario, ends: None, beside: None, handed_over: false });
        }
        if !scenario.changes.is_empty() {
            // Each change edits the text, and scheduled changes that were made must not be due
            // again.
            running.text = without_changes(&running.text);
        }
        let (ask, asks) = channel();
        let (answers, answer) = channel();
        let (woken, wake) = std::io::pipe()?;
        let (stopped, stop) = std::io::pipe()?;
        let handler = Arc::new(Mutex::new(Handler::new(running, ask, answer, wake)));
        let ends = Ends {
            asks,
            answers: Some(answers),
            woken,
            stopped: Some(stopped),
            stop: Some(stop),
            thread: None,
            socket,
            timetable: None,
            stays: false,
            handler,
        };
        Ok(Control { scenario, ends: Some(ends), beside: None, handed_over: false })
    }

    /// Begins to answer at the socket. From here on the process has another thread.
    pub fn begin(&mut self) -> Result<()> {
        let Some(ends) = &mut self.ends else { return Ok(()) };
        let (Some((listener, _)), Some(stopped)) = (&ends.socket, ends.stopped.take()) else {
            return Ok(());
        };
        let listener = listener.try_clone().context("the control socket")?;
        let (hello, handler) = (lock(&ends.handler).hello(), Arc::clone(&ends.handler));
        let serve = move || {
            server::serve(&listener, &stopped, &hello, |line| answer_line(&handler, line));
        };
        ends.thread = Some(std::thread::Builder::new().name("control".into()).spawn(serve)?);
        Ok(())
    }

    /// Starts a thread that makes the scheduled changes, if there are any. Their times count from
    /// `zero`, the start of the run.
    pub fn schedule(&mut self, clock: Clock, zero: Time) -> Result<()> {
        let Some(ends) = self.ends.as_mut().filter(|_| !self.scenario.changes.is_empty()) else {
            return Ok(());
        };
        let (changes, handler) = (self.scenario.changes.clone(), Arc::clone(&ends.handler));
        ends.timetable = Some(Timetable::begin(changes, handler, (clock, zero))?);
        Ok(())
    }

    /// Returns true if another process goes on with the link, and with its sockets.
    pub fn is_handed_over(&self) -> bool {
        self.handed_over
    }

    /// Sets the parts that change together with the link, and the part that prepares their changes.
    pub fn change_with(&mut self, beside: Box<dyn Beside>, preparer: Box<dyn Preparer>) {
        self.beside = Some(beside);
        if let Some(ends) = &self.ends {
            lock(&ends.handler).prepare_with(preparer);
        }
    }

    /// The handler, for requests of other threads. The forwarder's thread must not use it, because
    /// that thread answers the requests.
    pub fn handler(&self) -> Option<Arc<Mutex<Handler>>> {
        self.ends.as_ref().map(|ends| Arc::clone(&ends.handler))
    }

    /// A descriptor that is readable when there is a request.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.ends.as_ref().map(|ends| ends.woken.as_fd())
    }

    /// The running scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The links of the running scenario.
    pub fn links(&self) -> &[Link] {
        &self.scenario.links
    }

    /// Answers pending requests; returns true if a link has changed.
    pub fn serve(&mut self, forwarder: &mut Forwarder) -> Result<bool> {
        let Some(Ends { asks, answers: Some(answers), woken, stays, .. }) = &mut self.ends else {
            return Ok(false);
        };
        // The pipe is readable, so this does not block.
        woken.read_exact(&mut [0])?;
        let mut changed = false;
        while let Ok(ask) = asks.try_recv() {
            let mut began = Instant::now();
            let answer = match ask {
                Query::Ports(scenario) => {
                    let none = Err("this link has no adapters".into());
                    let ports = self.beside.as_ref().map_or(none, |beside| beside.ports(&scenario));
                    Reply::Ports(ports, forwarder.clock().monotonic_of(Time::ZERO))
                }
                Query::HandOver(go_on) => {
                    let gone = go_on(state(forwarder, self.beside.as_deref()));
                    (self.handed_over, *stays) = (gone, gone);
                    // The waiting time does not count, because it delayed no packet.
                    began = Instant::now();
                    Reply::HandedOver
                }
                Query::Snapshot => {
                    // All counters are brought to the same instant.
                    forwarder.settle();
                    let mut snapshot = Box::new(forwarder.snapshot());
                    let mut counts = Vec::new();
                    if let Some(beside) = &self.beside {
                        counts = beside.counts();
                        let losses = &mut snapshot.losses;
                        [losses.unread, losses.unknown] = beside.unread_and_unknown();
                    }
                    Reply::Snapshot(snapshot, counts)
                }
                Query::Pause { name, paused } => {
                    let none = Err("this link has no adapters".into());
                    Reply::Paused(
                        self.beside.as_ref().map_or(none, |beside| beside.pause(&name, paused)),
                    )
                }
                Query::Places => Reply::Places(forwarder.places()),
                Query::Made { of: (pipe, flow), from, all } => {
                    let (of, mut all) = ((pipe, flow, BUSIEST), all.map(|all| *all));
                    let next = forwarder.report_part(of, from, COPYING, &mut all);
                    Reply::Made(all.map(Box::new), next)
                }
                Query::Counted { of, from, mut sum } => {
                    let next = forwarder.counters_part(of, from, COPYING, &mut sum);
                    Reply::Counted(sum, next)
                }
                Query::Measured { mut to, from } => {
                    let end = forwarder.measured(&mut to, from, COPYING);
                    Reply::Measured(to, end)
                }
                Query::Turns => {
                    forwarder.settle();
                    Reply::Turns(forwarder.occupancy())
                }
                Query::Change(changing) => {
                    let told = change(*changing, forwarder, &mut self.beside, &mut self.scenario);
                    changed |= matches!(told, Reply::Changed(Ok(_), _));
                    told
                }
            };
            // The requester may be gone.
            let _ = answers.send(TimedReply { told: answer, took: began.elapsed() });
            if self.handed_over {
                break;
            }
        }
        Ok(changed)
    }
}

/// The state with which another process takes over.
fn state(forwarder: &mut Forwarder, beside: Option<&dyn Beside>) -> Result<WholeState, String> {
    let state = forwarder.state().map_err(|error| error.to_string())?;
    let state = state.ok_or("queues of masks are not handed over by this version")?;
    Ok((state, beside.map(Beside::state).unwrap_or_default()))
}

/// Makes a change: all of it or nothing.
fn change(
    changing: Changing,
    forwarder: &mut Forwarder,
    beside: &mut Option<Box<dyn Beside>>,
    running: &mut Arc<Scenario>,
) -> Reply {
    let Changing { change, scenario, held_to, adapters, written } = changing;
    let now = AppliedChange { at: forwarder.clock().now(), dropped: 0 };
    let made = change.map_or(Ok(now), |change| forwarder.change(change));
    let mut leavings = forwarder.take_deferred_drops();
    let Ok(AppliedChange { at, .. }) = made else {
        if let AdaptersThen::Others(prepared) = adapters {
            leavings.push(prepared);
        }
        return Reply::Changed(made, leavings);
    };
    written.into_iter().for_each(|wanted| forwarder.write_down(wanted, at));
    *running = scenario;
    match (adapters, beside) {
        (AdaptersThen::Stay(weights), Some(beside)) => {
            beside.weigh(&weights.iter().map(|(name, weight)| (&name[..], *weight)).collect());
        }
        (AdaptersThen::Others(prepared), Some(beside)) => {
            leavings.extend(beside.change(prepared));
        }
        (_, None) => {}
    }
    match held_to {
        HeldTo::Same => {}
        HeldTo::Some(others) => forwarder.change_guarantees(others),
        HeldTo::All(terms) => forwarder.set_guarantees(terms),
    }
    Reply::Changed(made, leavings)
}

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some((_, path)) = self.socket.as_ref().filter(|_| !self.stays) {
            let _ = std::fs::remove_file(path);
        }
        self.timetable.iter_mut().for_each(Timetable::stop);
        (self.answers, self.stop) = (None, None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
