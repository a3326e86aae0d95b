//! Disciplines that come from elsewhere, and the guard in front of them.
//!
//! Nothing is known here of libraries and how they are loaded: whoever does that is a [`Library`],
//! and makes an [`Instance`] for each pipe. What an instance says is looked at before it is obeyed.
//! It names flows and never holds a packet, so it can neither lose nor invent one; where it breaks
//! the contract, it is not asked again, and the flows take turns, a packet each, until another
//! discipline takes over.
//!
//! The guard also keeps polls from it: it is asked once for each moment at which the answer may be
//! another one.

use crate::contract::discipline::{Answer, Discipline, Sent};
use crate::contract::guarantee::{Bound, NoPromise, Promise};
use crate::contract::params::{Manifest, Refusals, Refused, Setup};
use crate::mechanisms::active_list::{Place, Round};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

/// How it is named; what it takes beyond that is the library's matter.
pub const MANIFEST: Manifest = Manifest {
    kind: "plugin",
    doc: "a discipline of one's own, in a shared library; what breaks the contract is not obeyed",
    source: "whoever wrote the library",
    scheduler: &[],
    flow: &[],
    whole_trees: false,
};

/// So many waits in a row, and nothing came or left: it waits for ever.
const MOST_WAITS: u32 = 1_000;

/// What an instance sees of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Seen {
    /// What [`Instance::arrived`] said of the packet at the head.
    pub tag: u64,
    /// Bytes that are queued, the packet in service included.
    pub bytes: u64,
    /// Length of the packet at the head; 0 where there is none.
    pub head: u32,
    /// Packets that are queued, the one in service included.
    pub packets: u32,
}

/// What a library said, before anybody has looked at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The head of this flow goes.
    Serve(u32),
    /// The head of this flow is thrown away.
    Drop(u32),
    /// Nothing before this instant.
    Wait(Time),
    /// Nothing until a packet comes.
    Idle,
    /// It cannot go on; [`Instance::why`] knows more.
    Failed,
    /// A number that is no answer.
    Unknown(u32),
}

/// What a library declares of a flow, without a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// See [`Promise::rate`].
    pub rate: Rate,
    /// See [`Promise::latency`].
    pub latency: Span,
    /// See [`Promise::delay`].
    pub delay: Span,
}

/// A discipline of a library, at work for one pipe. The moments are those of [`Discipline`].
pub trait Instance: Send + Any {
    /// See [`Discipline::arrived`]; the tag is shown while the packet is the head.
    fn arrived(&mut self, queues: &[Seen], f: FlowId, bytes: u32, now: Time) -> u64;
    /// See [`Discipline::ready`].
    fn ready(&mut self, queues: &[Seen], f: FlowId, now: Time);
    /// See [`Discipline::offer_changed`].
    fn changed(&mut self, queues: &[Seen], f: FlowId, now: Time);
    /// See [`Discipline::next`].
    fn next(&mut self, queues: &[Seen], now: Time) -> Said;
    /// Why it has just [failed](Said::Failed).
    fn why(&self) -> String;
    /// See [`Discipline::take`].
    fn take(&mut self, queues: &[Seen], f: FlowId, sent: Sent);
    /// See [`Discipline::succeed`]; `old` is of the same library.
    fn succeed(&mut self, old: Box<dyn Instance>, queues: &[Seen], now: Time);
    /// See [`Discipline::forgettable`].
    fn forgettable(&self, f: FlowId, now: Time) -> bool;
    /// What it declares of a flow.
    fn promise(&self, f: FlowId) -> Option<Declared>;
}

/// What is known of a library's discipline before there is an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// It says that it never waits while there is a packet.
    pub work_conserving: bool,
    /// It looks at packets when they arrive.
    pub sees_arrivals: bool,
    /// It can take over from another instance of its own.
    pub succeeds: bool,
}

/// A library that was loaded, and holds one discipline.
pub trait Library: Send + Sync + fmt::Debug {
    /// As the scenario names it.
    fn name(&self) -> &str;
    /// Two with the same number are the same code.
    fn code(&self) -> usize;
    /// What it says of itself.
    fn traits(&self) -> Traits;
    /// An instance for this setup.
    ///
    /// # Errors
    /// It refuses a value, of a flow or of its own.
    fn make(&self, setup: &Setup) -> Result<Box<dyn Instance>, Refused>;
}

/// A library, shared by all that are built from it.
#[derive(Clone, Debug)]
pub struct Loaded(Arc<dyn Library>);

impl Loaded {
    /// From whoever has loaded it.
    pub fn new(library: impl Library + 'static) -> Loaded {
        Loaded(Arc::new(library))
    }

    /// As the scenario names it.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

impl PartialEq for Loaded {
    fn eq(&self, other: &Loaded) -> bool {
        (self.0.name(), self.0.code()) == (other.0.name(), other.0.code())
    }
}
impl Eq for Loaded {}

/// How a library's discipline broke the contract, and what was done instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// As the scenario names it.
    pub library: String,
    /// What it did.
    pub what: String,
    /// When, the first time.
    pub at: Time,
    /// How many instances did so.
    pub times: u64,
    /// Packets that were sent by turns since then.
    pub instead: u64,
}

impl Breach {
    /// Puts it among others: those that are alike are one.
    pub fn join(self, all: &mut Vec<Breach>) {
        match all
            .iter_mut()
            .find(|other| (&other.library, &other.what) == (&self.library, &self.what))
        {
            Some(other) => {
                other.at = other.at.min(self.at);
                other.times += self.times;
                other.instead += self.instead;
            }
            None => all.push(self),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Breach { library, what, at, times, instead } = self;
        write!(
            f,
            "the plug-in `{library}` broke its contract at {}: {what}",
            at.since(Time::ZERO)
        )?;
        if *times > 1 {
            write!(f, " ({times} times, each in a pipe of its own)")?;
        }
        write!(f, "; it is not asked again, and {instead} packets took turns")
    }
}

/// What is kept of a flow in place of a discipline that is not asked any more.
#[derive(Debug, Clone, Default)]
pub struct Turn(Place);

impl AsMut<Place> for Turn {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.0
    }
}

/// After a breach.
struct Broken {
    what: String,
    at: Time,
    instead: u64,
    turns: Round,
}

/// A library's discipline, and what looks at all that it says.
pub struct Guard {
    instance: Box<dyn Instance>,
    seen: Vec<Seen>,
    /// What it said; it holds until something comes, goes or is due.
    answer: Option<Answer>,
    /// The flow whose packet was taken; how its queue is then, is not known before the end.
    serving: Option<FlowId>,
    /// The one before, for messages.
    last: Option<FlowId>,
    waits: u32,
    traits: Traits,
    /// It looks at packets that arrive.
    stamps: bool,
    broken: Option<Box<Broken>>,
    library: Loaded,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("library", &self.library).finish_non_exhaustive()
    }
}

impl Guard {
    /// Asks the library of `setup` for an instance.
    pub fn new(setup: &Setup) -> Result<Guard, Refusals> {
        let Some(library) = setup.scheduler.library() else {
            let (what, help) = (
                "a plug-in needs a library".into(),
                "name one: `library = \"./libmine.so\"`".into(),
            );
            return Err(Refused { flow: None, param: "library", what, help }.into());
        };
        let named = |refused: Refused| Refused {
            what: format!("`{}`: {}", library.name(), refused.what),
            ..refused
        };
        let instance = library.0.make(setup).map_err(named)?;
        Ok(Guard {
            instance,
            seen: vec![Seen::default(); setup.flows.len()],
            answer: None,
            serving: None,
            last: None,
            waits: 0,
            traits: library.0.traits(),
            stamps: library.0.traits().sees_arrivals,
            broken: None,
            library: library.clone(),
        })
    }

    /// Looks how the queue of `f` is now.
    #[inline]
    fn look(&mut self, flows: &Flows<Turn, u64>, f: FlowId) {
        let head = flows.head(f).unwrap_or(0);
        let (tag, packets) = (flows.head_tag(f), flows.packets(f));
        self.seen[f.index()] = Seen { tag, bytes: u64::from(flows.bytes(f)), head, packets };
    }

    #[inline]
    fn has_head(&self, f: u32) -> bool {
        self.seen.get(f as usize).is_some_and(|seen| seen.head > 0)
    }

    /// What was wrong with that.
    fn judged(&self, said: Said, waiting: usize, now: Time) -> String {
        let flow = |verb: &str, f: u32| match self.seen.get(f as usize) {
            None => format!(
                "it {verb} flow {f}, and there are {}, the first of which is 0",
                self.seen.len()
            ),
            Some(_) if self.last == Some(FlowId(f)) => {
                format!("it {verb} flow {f} (the first is 0) once more, whose last packet has left")
            }
            Some(_) => format!("it {verb} flow {f} (the first is 0), which has no packet"),
        };
        match said {
            Said::Serve(f) => flow("serves", f),
            Said::Drop(f) => flow("throws away from", f),
            Said::Wait(_) | Said::Idle if self.traits.work_conserving => {
                format!(
                    "it waits while {waiting} flows have packets, and declares to be work-conserving"
                )
            }
            Said::Wait(then) if then <= now => {
                format!("it waits until {}, which is over", then.since(Time::ZERO))
            }
            Said::Wait(Time::NEVER) | Said::Idle => {
                format!("it waits for ever while {waiting} flows have packets")
            }
            Said::Wait(_) => {
                format!("it waited {MOST_WAITS} times in a row while {waiting} flows have packets")
            }
            Said::Failed => format!("it failed: {}", self.instance.why()),
            Said::Unknown(number) => format!("it answers {number}, which is no answer"),
        }
    }

    #[cold]
    fn breaks(&mut self, flows: &mut Flows<Turn, u64>, said: Said, now: Time) -> Answer {
        let what = self.judged(said, flows.backlogged(), now);
        let mut turns = Round::EMPTY;
        for f in (0..self.seen.len() as u32).map(FlowId).filter(|&f| self.seen[f.index()].head > 0)
        {
            turns.join(flows, f);
        }
        self.stamps = false;
        self.broken = Some(Box::new(Broken { what, at: now, instead: 0, turns }));
        self.in_turns(flows)
    }

    /// What is done instead: a packet of each flow in turn.
    fn in_turns(&mut self, flows: &mut Flows<Turn, u64>) -> Answer {
        let Some(broken) = &mut self.broken else { return Answer::Idle };
        if let Some(f) = self.serving.take().filter(|&f| flows.head(f).is_some()) {
            broken.turns.join(flows, f);
        }
        while let Some(f) = broken.turns.first() {
            if flows.head(f).is_some() {
                return Answer::Serve(f);
            }
            broken.turns.leave(flows);
        }
        Answer::Idle
    }

    /// Something is other than it was when it was asked.
    #[inline]
    fn news(&mut self) {
        (self.answer, self.waits) = (None, 0);
    }
}

impl Discipline for Guard {
    type State = Turn;
    type Tag = u64;

    fn start(&mut self, _: &mut Flows<Turn, u64>) {}

    fn succeeds(&self, old: &Guard) -> bool {
        self.traits.succeeds
            && old.broken.is_none()
            && self.library.0.code() == old.library.0.code()
    }

    /// Only a sound one of the same library, see [`succeeds`](Discipline::succeeds).
    fn succeed(&mut self, old: Guard, flows: &mut Flows<Turn, u64>, now: Time) {
        (self.serving, self.last) = (old.serving, old.last);
        for f in (0..flows.len() as u32).map(FlowId) {
            self.look(flows, f);
        }
        self.instance.succeed(old.instance, &self.seen, now);
    }

    #[inline(always)]
    fn arrived(&mut self, _: &mut Flows<Turn, u64>, f: FlowId, bytes: u32, now: Time) -> u64 {
        let seen = &mut self.seen[f.index()];
        seen.packets += 1;
        seen.bytes += u64::from(bytes);
        self.news();
        if self.stamps { self.instance.arrived(&self.seen, f, bytes, now) } else { 0 }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<Turn, u64>, f: FlowId, now: Time) {
        self.look(flows, f);
        self.news();
        match &mut self.broken {
            None => self.instance.ready(&self.seen, f, now),
            Some(broken) => broken.turns.join(flows, f),
        }
    }

    fn offer_changed(&mut self, flows: &mut Flows<Turn, u64>, f: FlowId, now: Time) {
        self.look(flows, f);
        self.news();
        match &mut self.broken {
            None => self.instance.changed(&self.seen, f, now),
            Some(broken) if flows.head(f).is_some() => broken.turns.join(flows, f),
            Some(_) => {}
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<Turn, u64>, now: Time, _: &Wire) -> Answer {
        if self.broken.is_some() {
            return self.in_turns(flows);
        }
        if let Some(f) = self.serving.take() {
            self.look(flows, f);
        }
        match self.answer {
            Some(Answer::NotBefore(then)) if then <= now => self.waits += 1,
            Some(answer) => return answer,
            None => {}
        }
        let said = self.instance.next(&self.seen, now);
        let waiting = flows.backlogged() > 0;
        let may_wait = !self.traits.work_conserving && self.waits < MOST_WAITS;
        let answer = match said {
            Said::Serve(f) if self.has_head(f) => Answer::Serve(FlowId(f)),
            Said::Drop(f) if self.has_head(f) => Answer::Drop(FlowId(f)),
            Said::Wait(_) | Said::Idle if !waiting => Answer::Idle,
            Said::Wait(then) if may_wait && then > now && then < Time::NEVER => {
                Answer::NotBefore(then)
            }
            wrong => return self.breaks(flows, wrong, now),
        };
        self.answer = Some(answer);
        answer
    }

    #[inline(always)]
    fn take(&mut self, flows: &mut Flows<Turn, u64>, f: FlowId, sent: Sent) {
        self.news();
        (self.serving, self.last) = (Some(f), Some(f));
        match &mut self.broken {
            None => self.instance.take(&self.seen, f, sent),
            Some(broken) => {
                broken.instead += 1;
                broken.turns.leave(flows);
            }
        }
    }

    fn forgettable(&self, _: &Flows<Turn, u64>, f: FlowId, now: Time) -> bool {
        self.broken.is_some() || self.instance.forgettable(f, now)
    }

    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        let Some(Declared { rate, latency, delay }) = self.instance.promise(f) else {
            return Err(NoPromise(format!(
                "the plug-in `{}` declares no promise",
                self.library.name()
            )));
        };
        Ok(Promise {
            rate,
            latency,
            rate_formula: "as the plug-in declares",
            delay: Bound {
                delay,
                formula: "as the plug-in declares",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    fn only_over_queues(&self) -> bool {
        self.traits.sees_arrivals
    }

    fn breach(&self) -> Option<Breach> {
        let broken = self.broken.as_ref()?;
        let (library, what) = (self.library.name().into(), broken.what.clone());
        Some(Breach { library, what, at: broken.at, times: 1, instead: broken.instead })
    }
}
