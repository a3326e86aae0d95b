//! The forwarder's side of a control socket.
//!
//! The forwarder's thread alone has the engine. The socket has a thread of its own, which does all
//! that takes long: reading, checking, building what is to take over, and writing statistics as
//! JSON. What it needs of the forwarder it asks through a channel, and wakes it by a descriptor
//! that the forwarder watches beside its ports in any case: while nobody asks, no packet costs more
//! than without a socket.

use crate::handler::{Handler, answer_line, lock};
use crate::messages::{AdaptersThen, Changing, HeldTo, Query, Reply, TimedReply};
use crate::running::{Beside, Preparer, Running, WholeState};
use crate::{server, sockets};
use anyhow::{Context, Result};
use falaj_live::event_loop::{AppliedChange, Forwarder};
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

/// The variable that says to a command behind a link where its control socket is.
pub const VARIABLE: &str = "FALAJ_CONTROL";
/// So long may statistics be copied in one go while no packet passes.
const COPYING: Span = Span::from_micros(50);
/// So many of what a mask made are shown by name.
const BUSIEST: usize = 10;

/// What commands take that have a control socket.
#[derive(clap::Args)]
#[command(next_help_heading = "Results and control")]
pub struct ControlArgs {
    /// Where the control socket is to be, for `falaj show` and `falaj set` [default: one that they
    /// find].
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    control: Option<PathBuf>,
}

impl ControlArgs {
    /// Where it is said to be.
    pub fn given(&self) -> Result<Option<PathBuf>> {
        self.control.as_ref().map(std::path::absolute).transpose().context("--control")
    }

    /// Where the socket will be. Where nobody asked for one and there can be none, the link runs
    /// without.
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

/// The forwarder's side of a control socket; it is gone with this.
pub struct Control {
    /// What is running as it is now.
    scenario: Arc<Scenario>,
    ends: Option<Ends>,
    beside: Option<Box<dyn Beside>>,
    /// Another process goes on with the link.
    handed_over: bool,
}

struct Ends {
    asks: Receiver<Query>,
    answers: Option<Sender<TimedReply>>,
    woken: PipeReader,
    /// Until it is answered at the socket.
    stopped: Option<PipeReader>,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
    listener: UnixListener,
    /// The socket is another process's.
    stays: bool,
    handler: Arc<Mutex<Handler>>,
}

impl Control {
    /// Listens there; without a place it only knows the scenario. From here on the program has a
    /// thread more.
    pub fn open(place: Option<&Path>, running: Running) -> Result<Control> {
        let scenario = Arc::clone(&running.scenario);
        let Some(path) = place else {
            return Ok(Control { scenario, ends: None, beside: None, handed_over: false });
        };
        let listener = sockets::bind(path)
            .with_context(|| format!("the control socket {}", path.display()))?;
        let mut control = Control::at(listener, path, running)?;
        control.begin()?;
        Ok(control)
    }

    /// The same at a socket that is there. It answers once it [begins](Control::begin).
    pub fn at(listener: UnixListener, path: &Path, running: Running) -> Result<Control> {
        let scenario = Arc::clone(&running.scenario);
        let (ask, asks) = channel();
        let (answers, answer) = channel();
        let (woken, wake) = std::io::pipe()?;
        let (stopped, stop) = std::io::pipe()?;
        let handler = Arc::new(Mutex::new(Handler::new(running, ask, answer, wake)));
        let path = path.to_owned();
        let ends = Ends {
            asks,
            answers: Some(answers),
            woken,
            stopped: Some(stopped),
            stop: Some(stop),
            thread: None,
            path,
            listener,
            stays: false,
            handler,
        };
        Ok(Control { scenario, ends: Some(ends), beside: None, handed_over: false })
    }

    /// From now on the socket is answered at: the program has a thread more.
    pub fn begin(&mut self) -> Result<()> {
        let Some(ends) = &mut self.ends else { return Ok(()) };
        let Some(stopped) = ends.stopped.take() else { return Ok(()) };
        let listener = ends.listener.try_clone().context("the control socket")?;
        let (hello, handler) = (lock(&ends.handler).hello(), Arc::clone(&ends.handler));
        let serve = move || {
            server::serve(&listener, &stopped, &hello, |line| answer_line(&handler, line));
        };
        ends.thread = Some(std::thread::Builder::new().name("control".into()).spawn(serve)?);
        Ok(())
    }

    /// Returns true if another process goes on with the link, and with its sockets.
    pub fn is_handed_over(&self) -> bool {
        self.handed_over
    }

    /// From now on that changes with the link, once it was prepared so.
    pub fn change_with(&mut self, beside: Box<dyn Beside>, preparer: Box<dyn Preparer>) {
        self.beside = Some(beside);
        if let Some(ends) = &self.ends {
            lock(&ends.handler).prepare_with(preparer);
        }
    }

    /// Where others than the socket may ask too, from threads of their own. Never from the
    /// forwarder's: it answers.
    pub fn handler(&self) -> Option<Arc<Mutex<Handler>>> {
        self.ends.as_ref().map(|ends| Arc::clone(&ends.handler))
    }

    /// Readable when somebody asks.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.ends.as_ref().map(|ends| ends.woken.as_fd())
    }

    /// What is running as it is now.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Its links.
    pub fn links(&self) -> &[Link] {
        &self.scenario.links
    }

    /// Answers what was asked; says whether a link is another now.
    pub fn serve(&mut self, forwarder: &mut Forwarder) -> Result<bool> {
        let Some(Ends { asks, answers: Some(answers), woken, stays, .. }) = &mut self.ends else {
            return Ok(false);
        };
        // Readable, so it does not wait.
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
                    // It waited; no packet was kept from it.
                    began = Instant::now();
                    Reply::HandedOver
                }
                Query::Snapshot => {
                    // Nobody's counts lag behind the others'.
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
            // Who asked may be gone.
            let _ = answers.send(TimedReply { told: answer, took: began.elapsed() });
            if self.handed_over {
                break;
            }
        }
        Ok(changed)
    }
}

/// The state by which another process goes on from here.
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
        if !self.stays {
            let _ = std::fs::remove_file(&self.path);
        }
        (self.answers, self.stop) = (None, None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
