//! The control socket of a link that is running: what it does is asked for and changed from another
//! shell.
//!
//! | module | what it does |
//! |---|---|
//! | [`place`] | where sockets stand, and which are alive |
//! | [`protocol`] | what is said there: JSON, a line each |
//! | [`server`] | connections and their lines, whoever is at the other end |
//! | [`desk`] | answers: the scenario that is running, edited and read anew; statistics |
//! | [`difference`] | from one scenario to another: what changes of a link that runs |
//! | [`client`] | the other end |
//! | [`show`], [`set`], [`netconfig`] | commands of the same name |
//!
//! The forwarder's thread alone has the engine. The socket has a thread of its own, which does all
//! that takes long: reading, checking, building what is to take over, and writing statistics as
//! JSON. What it needs of the forwarder it asks through a channel, and wakes it by a descriptor
//! that the forwarder watches beside its ports in any case: while nobody asks, no packet costs more
//! than without a socket.

pub(crate) mod client;
pub(crate) mod desk;
pub(crate) mod difference;
pub(crate) mod netconfig;
mod place;
pub(crate) mod protocol;
mod server;
pub(crate) mod set;
pub(crate) mod show;

use crate::plan::Standing;
use crate::show::note;
use anyhow::{Context, Result};
use desk::Desk;
use desk::asking::{AdaptersThen, Answer, Ask, Changing, HeldTo, Told};
pub(crate) use desk::lock;
use difference::WAYS;
use falaj_live::adapters::Counts;
use falaj_live::event_loop::{Changed, Forwarder, Terms};
use falaj_scenario::{Direction, Link, Scenario, Towards};
use falaj_sched::contract::params::FlowSetup;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::collections::BTreeMap;
use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// The variable that says to a command behind a link where its control socket is.
pub(crate) const VARIABLE: &str = "FALAJ_CONTROL";
/// So long may statistics be copied in one go while no packet passes.
const COPYING: Span = Span::from_micros(50);
/// So many of what a mask made are shown by name.
const BUSIEST: usize = 10;

/// What commands take that have a control socket.
#[derive(clap::Args)]
pub(crate) struct ControlArgs {
    /// Where the control socket is to be, for `falaj show` and `falaj set` [default: one that they
    /// find].
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

impl ControlArgs {
    /// Where the socket will be. Where nobody asked for one and there can be none, the link runs
    /// without.
    pub(crate) fn place(&self) -> Result<Option<PathBuf>> {
        match (&self.control, place::of_this_process()) {
            (Some(path), _) => Ok(Some(std::path::absolute(path).context("--control")?)),
            (None, Ok(path)) => Ok(Some(path)),
            (None, Err(error)) => {
                note!("warning: no control socket: {error:#}");
                Ok(None)
            }
        }
    }
}

/// What is running, as the control socket tells of it.
pub(crate) struct Running {
    /// The command: `run`, `bridge`.
    pub(crate) command: &'static str,
    /// What it is about, for people.
    pub(crate) about: String,
    /// Its file, beside which those stand that it names.
    pub(crate) file: PathBuf,
    /// The scenario, and its text.
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) text: String,
    /// What passes is written down, and changes have to be as well.
    pub(crate) recording: bool,
    /// What is promised there, if promises are to be kept: then a change that breaks one is
    /// refused.
    pub(crate) standings: Option<Arc<Vec<Vec<Standing>>>>,
}

/// What changes with a link beside the engine: virtual adapters, which come and go.
pub(crate) trait Beside {
    /// Makes what is to come.
    ///
    /// # Errors
    /// Why it cannot, in words; nothing has changed then.
    fn prepare(&mut self, then: &Arc<Scenario>) -> Result<(), String>;
    /// It is to be so from now on; or, if not, what was prepared is not wanted.
    fn settle(&mut self, made: bool);
    /// Of those that stay, these have another weight.
    fn weigh(&mut self, weights: &BTreeMap<&str, u32>);
    /// Pauses an adapter, or lets it go on.
    ///
    /// # Errors
    /// Why it cannot, in words.
    #[cfg(feature = "serve")]
    fn pause(&self, name: &str, paused: bool) -> Result<(), String>;
    /// What each adapter did.
    fn counts(&self) -> Vec<(String, Counts)>;
}

/// How much of the link's processor an adapter may take beside the others: as much as its flow's
/// weight upwards says.
pub(crate) fn weight(flow: &FlowSetup) -> u32 {
    u32::try_from(flow.values.count("weight").unwrap_or(1)).unwrap_or(u32::MAX)
}

/// The same by adapter.
pub(crate) fn weights(scenario: &Scenario) -> BTreeMap<&str, u32> {
    let mut weights = BTreeMap::new();
    for direction in scenario.links.iter().map(|link| link.direction(Towards::Up)) {
        for (flow, setup) in direction.flows.iter().zip(direction.setup.leaves()) {
            if let Some(adapter) = &flow.adapter {
                weights.insert(&adapter.name[..], weight(setup));
            }
        }
    }
    weights
}

/// A direction of a link, and what people call it.
pub(crate) struct Way<'a> {
    link: &'a Link,
    name: &'static str,
    direction: &'a Direction,
}

/// All of them: by pipe.
pub(crate) fn ways(scenario: &Scenario) -> impl Iterator<Item = Way<'_>> {
    let of = |link| {
        WAYS.map(|(towards, name)| Way { link, name, direction: Link::direction(link, towards) })
    };
    scenario.links.iter().flat_map(of)
}

/// To what a flow is held: its delay, what it may send for that, and whether it gets that only
/// then.
type Holds<'a> = (Option<Span>, &'a [(Rate, u64)], bool);

impl Way<'_> {
    /// What a flow is held to. Where a mask makes many of one, promise and envelope are of each of
    /// them, and what is counted is of all: these are held to nothing.
    fn holds<'a>(&self, flow: usize, standing: &'a Standing) -> Option<Holds<'a>> {
        let is_many = self.direction.masks.flows.get(flow).is_some_and(Option::is_some);
        let delay = standing.delay.as_ref().map(|(delay, _)| *delay);
        (!is_many).then_some((delay, &standing.envelope[..], standing.on_condition))
    }

    /// The same as the forwarder has it.
    fn terms(&self, flow: usize, standing: &Standing) -> Terms {
        let name = format!("{} {} {}", self.link.name, self.name, standing.flow);
        match self.holds(flow, standing) {
            None => Terms { name, many: true, ..Terms::default() },
            Some((delay, envelope, on_condition)) => {
                Terms { name, delay, envelope: envelope.to_vec(), on_condition, many: false }
            }
        }
    }
}

/// What flows are held to, by pipe and flow.
pub(crate) fn terms(scenario: &Scenario, standings: &[Vec<Standing>]) -> Vec<Vec<Terms>> {
    let of = |(way, flows): (Way<'_>, &Vec<Standing>)| {
        flows.iter().enumerate().map(|(f, standing)| way.terms(f, standing)).collect()
    };
    ways(scenario).zip(standings).map(of).collect()
}

/// The forwarder's side of a control socket; it is gone with this.
pub(crate) struct Control {
    /// What is running as it is now.
    scenario: Arc<Scenario>,
    ends: Option<Ends>,
    beside: Option<Box<dyn Beside>>,
}

struct Ends {
    asks: Receiver<Ask>,
    answers: Option<Sender<Answer>>,
    woken: PipeReader,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
    #[cfg(feature = "serve")]
    desk: Arc<Mutex<Desk>>,
}

impl Control {
    /// Listens there; without a place it only knows the scenario. From here on the program has a
    /// thread more.
    pub(crate) fn open(place: Option<&Path>, running: Running) -> Result<Control> {
        let scenario = Arc::clone(&running.scenario);
        let Some(path) = place else { return Ok(Control { scenario, ends: None, beside: None }) };
        let listener =
            place::bind(path).with_context(|| format!("the control socket {}", path.display()))?;
        let (ask, asks) = channel();
        let (answers, answer) = channel();
        let (woken, wake) = std::io::pipe()?;
        let (stopped, stop) = std::io::pipe()?;
        let desk = Arc::new(Mutex::new(Desk::new(running, ask, answer, wake)));
        let (hello, at_socket) = (lock(&desk).hello(), Arc::clone(&desk));
        let serve = move || {
            server::serve(&listener, &stopped, &hello, |line| desk::answer_line(&at_socket, line))
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
            #[cfg(feature = "serve")]
            desk,
        };
        Ok(Control { scenario, ends: Some(ends), beside: None })
    }

    /// From now on that changes with the link.
    #[cfg(feature = "serve")]
    pub(crate) fn change_with(&mut self, beside: Box<dyn Beside>) {
        self.beside = Some(beside);
    }

    /// Where others than the socket may ask too, from threads of their own. Never from the
    /// forwarder's: it answers.
    #[cfg(feature = "serve")]
    pub(crate) fn desk(&self) -> Option<Arc<Mutex<Desk>>> {
        self.ends.as_ref().map(|ends| Arc::clone(&ends.desk))
    }

    /// Readable when somebody asks.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.ends.as_ref().map(|ends| ends.woken.as_fd())
    }

    /// What is running as it is now.
    pub(crate) fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Its links.
    pub(crate) fn links(&self) -> &[Link] {
        &self.scenario.links
    }

    /// Answers what was asked; says whether a link is another now.
    pub(crate) fn serve(&mut self, forwarder: &mut Forwarder) -> Result<bool> {
        let Some(Ends { asks, answers: Some(answers), woken, .. }) = &mut self.ends else {
            return Ok(false);
        };
        // Readable, so it does not wait.
        woken.read_exact(&mut [0])?;
        let mut changed = false;
        while let Ok(ask) = asks.try_recv() {
            let began = Instant::now();
            let answer = match ask {
                Ask::Snapshot => {
                    // Nobody's counts lag behind the others'.
                    forwarder.settle();
                    let counts =
                        self.beside.as_ref().map_or_else(Vec::new, |beside| beside.counts());
                    Told::Snapshot(Box::new(forwarder.snapshot()), counts)
                }
                #[cfg(feature = "serve")]
                Ask::Pause { name, paused } => {
                    let none = Err("this link has no adapters".into());
                    Told::Paused(
                        self.beside.as_ref().map_or(none, |beside| beside.pause(&name, paused)),
                    )
                }
                Ask::Places => Told::Places(forwarder.places()),
                Ask::Made(pipe, flow) => {
                    Told::Made(forwarder.report(pipe, flow, BUSIEST).map(Box::new))
                }
                Ask::Measured { mut to, from } => {
                    let end = forwarder.measured(&mut to, from, COPYING);
                    Told::Measured(to, end)
                }
                #[cfg(feature = "serve")]
                Ask::Turns => {
                    forwarder.settle();
                    Told::Turns(forwarder.turns())
                }
                Ask::Change(changing) => {
                    let told = change(*changing, forwarder, &mut self.beside, &mut self.scenario);
                    changed |= matches!(told, Told::Changed(Ok(_), _));
                    told
                }
            };
            // Who asked may be gone.
            let _ = answers.send(Answer { told: answer, took: began.elapsed() });
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
) -> Told {
    let Changing { change, scenario, held_to, adapters, written } = changing;
    let mut others = beside.as_mut().filter(|_| matches!(adapters, AdaptersThen::Others));
    if let Some(Err(why)) = others.as_mut().map(|beside| beside.prepare(&scenario)) {
        return Told::Refused(why);
    }
    let now = Changed { at: forwarder.clock().now(), dropped: 0 };
    let made = change.map_or(Ok(now), |change| forwarder.change(change));
    if let Some(others) = others {
        others.settle(made.is_ok());
    }
    if let Ok(Changed { at, .. }) = made {
        written.into_iter().for_each(|wanted| forwarder.write_down(wanted, at));
        *running = scenario;
        if let (AdaptersThen::Stay(weights), Some(beside)) = (&adapters, beside) {
            beside.weigh(&weights.iter().map(|(name, weight)| (&name[..], *weight)).collect());
        }
        match held_to {
            HeldTo::Same => {}
            HeldTo::Some(others) => forwarder.hold_some_to(others),
            HeldTo::All(terms) => forwarder.hold_to(terms),
        }
    }
    Told::Changed(made, forwarder.take_leavings())
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
