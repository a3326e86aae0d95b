//! The forwarder's side of a control socket.
//!
//! The forwarder's thread alone has the engine. The socket has a thread of its own, which does all
//! that takes long: reading, checking, building what is to take over, and writing statistics as
//! JSON. What it needs of the forwarder it asks through a channel, and wakes it by a descriptor
//! that the forwarder watches beside its ports in any case: while nobody asks, no packet costs more
//! than without a socket.

use crate::handler::{Handler, answer_line, lock};
use crate::messages::{AdaptersThen, Changing, HeldTo, Query, Reply, TimedReply};
use crate::running::{Beside, Preparer, Running};
use crate::{server, sockets};
use anyhow::{Context, Result};
use falaj_live::event_loop::{AppliedChange, Forwarder};
use falaj_scenario::{Link, Scenario};
use falaj_sched::units::time::Span;
use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, BorrowedFd};
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
pub struct ControlArgs {
    /// Where the control socket is to be, for `falaj show` and `falaj set` [default: one that they
    /// find].
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

impl ControlArgs {
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
}

struct Ends {
    asks: Receiver<Query>,
    answers: Option<Sender<TimedReply>>,
    woken: PipeReader,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
    handler: Arc<Mutex<Handler>>,
}

impl Control {
    /// Listens there; without a place it only knows the scenario. From here on the program has a
    /// thread more.
    pub fn open(place: Option<&Path>, running: Running) -> Result<Control> {
        let scenario = Arc::clone(&running.scenario);
        let Some(path) = place else { return Ok(Control { scenario, ends: None, beside: None }) };
        let listener = sockets::bind(path)
            .with_context(|| format!("the control socket {}", path.display()))?;
        let (ask, asks) = channel();
        let (answers, answer) = channel();
        let (woken, wake) = std::io::pipe()?;
        let (stopped, stop) = std::io::pipe()?;
        let handler = Arc::new(Mutex::new(Handler::new(running, ask, answer, wake)));
        let (hello, at_socket) = (lock(&handler).hello(), Arc::clone(&handler));
        let serve = move || {
            server::serve(&listener, &stopped, &hello, |line| answer_line(&at_socket, line));
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(serve)?;
        let path = path.to_owned();
        let ends = Ends {
            asks,
            answers: Some(answers),
            woken,
            stop: Some(stop),
            thread: Some(thread),
            path,
            handler,
        };
        Ok(Control { scenario, ends: Some(ends), beside: None })
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
        let Some(Ends { asks, answers: Some(answers), woken, .. }) = &mut self.ends else {
            return Ok(false);
        };
        // Readable, so it does not wait.
        woken.read_exact(&mut [0])?;
        let mut changed = false;
        while let Ok(ask) = asks.try_recv() {
            let began = Instant::now();
            let answer = match ask {
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
                Query::Made(pipe, flow) => {
                    Reply::Made(forwarder.report(pipe, flow, BUSIEST).map(Box::new))
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
        }
        Ok(changed)
    }
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
        let _ = std::fs::remove_file(&self.path);
        (self.answers, self.stop) = (None, None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
