//! The guard in front of a discipline that comes from a library.
//!
//! The guard checks the answers of an [`Instance`] before it follows them. An instance names flows
//! and never holds a packet, so it can neither lose nor invent a packet. If an instance breaks the
//! contract, it gets no further events. The flows then take turns, one packet each, until another
//! discipline takes over.
//!
//! The guard also filters polls: it calls the instance once for each instant at which the answer
//! may change.

use crate::contract::breach::Breach;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Bound, Guarantee, Guarantees};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::library::{Declared, Instance, LibraryDecision, Loaded, QueueView, Traits};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::{Place, Round};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Name and guarantee of the discipline. The library defines further parameters.
pub const MANIFEST: Manifest = Manifest {
    kind: "plugin",
    doc: "a discipline of your own, loaded from a shared library; if it breaks the contract, the \
          flows take turns instead",
    source: "the author of the library",
    cost: "depends on the library",
    guarantee: "as the library declares",
    guarantee_source: "the library",
    ..Manifest::PLAIN
};

/// Number of waits in a row, without an arrival or a departure, that counts as waiting for ever.
const MOST_WAITS: u32 = 1_000;

/// State of a flow, used only after a breach, when the discipline gets no further events.
#[derive(Debug, Clone, Default)]
pub struct Turn(Place);

impl AsMut<Place> for Turn {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.0
    }
}

/// State after a breach of the contract.
struct Broken {
    what: String,
    at: Time,
    instead: u64,
    turns: Round,
}

/// A library's discipline, with the checks of its answers.
pub struct Guard {
    instance: Box<dyn Instance>,
    seen: Vec<QueueView>,
    /// The discipline's last answer; valid until an arrival, the start of a transmission, another
    /// change of a head, or the named instant.
    answer: Option<Decision>,
    /// The flow whose head is being transmitted. The head leaves the queue at the end of the
    /// transmission, so the view of the queue is updated only at the next decision.
    serving: Option<FlowId>,
    /// The flow that was served last, for messages.
    last: Option<FlowId>,
    waits: u32,
    traits: Traits,
    /// True if the library's discipline sees arrivals.
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
    /// Creates an instance from the library of `setup`.
    pub fn new(setup: &Setup) -> Result<Guard, ConfigErrors> {
        let Some(library) = setup.scheduler.library() else {
            let (what, help) = (
                "a plug-in needs a library".into(),
                "name one: `library = \"./libmine.so\"`".into(),
            );
            return Err(ConfigError { flow: None, param: "library", what, help }.into());
        };
        let named = |refused: ConfigError| ConfigError {
            what: format!("`{}`: {}", library.name(), refused.what),
            ..refused
        };
        let instance = library.0.make(setup).map_err(named)?;
        Ok(Guard {
            instance,
            seen: vec![QueueView::default(); setup.flows.len()],
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

    /// Updates the view of the queue of `f`.
    #[inline]
    fn look(&mut self, flows: &Flows<Turn, u64>, f: FlowId) {
        let head = flows.head(f).unwrap_or(0);
        let (tag, packets) = (flows.head_tag(f), flows.packets(f));
        self.seen[f.index()] = QueueView { tag, bytes: u64::from(flows.bytes(f)), head, packets };
    }

    #[inline]
    fn has_head(&self, f: u32) -> bool {
        self.seen.get(f as usize).is_some_and(|seen| seen.head > 0)
    }

    /// Describes the fault of an answer.
    fn judged(&self, said: LibraryDecision, waiting: usize, now: Time) -> String {
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
            LibraryDecision::Serve(f) => flow("serves", f),
            LibraryDecision::Drop(f) => flow("drops from", f),
            LibraryDecision::Wait(_) | LibraryDecision::Idle if self.traits.work_conserving => {
                format!(
                    "it waits while {waiting} flows have packets, and declares to be work-conserving"
                )
            }
            LibraryDecision::Wait(then) if then <= now => {
                format!("it waits until {}, which is over", then.since(Time::ZERO))
            }
            LibraryDecision::Wait(Time::NEVER) | LibraryDecision::Idle => {
                format!("it waits for ever while {waiting} flows have packets")
            }
            LibraryDecision::Wait(_) => {
                format!("it waited {MOST_WAITS} times in a row while {waiting} flows have packets")
            }
            LibraryDecision::Failed => format!("it failed: {}", self.instance.why()),
            LibraryDecision::Unknown(number) => format!(
                "it answers {number}, which is not an \
                                                         answer"
            ),
        }
    }

    #[cold]
    fn breaks(
        &mut self,
        flows: &mut Flows<Turn, u64>,
        said: LibraryDecision,
        now: Time,
    ) -> Decision {
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

    /// The replacement after a breach: one packet of each flow in turn.
    fn in_turns(&mut self, flows: &mut Flows<Turn, u64>) -> Decision {
        let Some(broken) = &mut self.broken else { return Decision::Idle };
        if let Some(f) = self.serving.take().filter(|&f| flows.head(f).is_some()) {
            broken.turns.join(flows, f);
        }
        while let Some(f) = broken.turns.first() {
            if flows.head(f).is_some() {
                return Decision::Serve(f);
            }
            broken.turns.leave(flows);
        }
        Decision::Idle
    }

    /// Discards the last answer, because the queues have changed since then.
    #[inline]
    fn news(&mut self) {
        (self.answer, self.waits) = (None, 0);
    }
}

impl Discipline for Guard {
    type State = Turn;
    type Tag = u64;
    /// Some libraries see arrivals; [`only_over_queues`](Guarantees::only_over_queues) is true only
    /// for these.
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<Turn, u64>) {}

    fn can_migrate_from(&self, old: &Guard) -> bool {
        self.traits.can_migrate
            && old.broken.is_none()
            && self.library.0.code() == old.library.0.code()
    }

    /// Takes over only from an unbroken guard of the same library, see
    /// [`can_migrate_from`](Discipline::can_migrate_from).
    fn migrate_from(&mut self, old: Guard, flows: &mut Flows<Turn, u64>, now: Time) {
        (self.serving, self.last) = (old.serving, old.last);
        for f in (0..flows.len() as u32).map(FlowId) {
            self.look(flows, f);
        }
        self.instance.migrate_from(old.instance, &self.seen, now);
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

    fn head_changed(&mut self, flows: &mut Flows<Turn, u64>, f: FlowId, now: Time) {
        self.look(flows, f);
        self.news();
        match &mut self.broken {
            None => self.instance.changed(&self.seen, f, now),
            Some(broken) if flows.head(f).is_some() => broken.turns.join(flows, f),
            Some(_) => {}
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<Turn, u64>, now: Time, _: &Wire) -> Decision {
        if self.broken.is_some() {
            return self.in_turns(flows);
        }
        if let Some(f) = self.serving.take() {
            self.look(flows, f);
        }
        match self.answer {
            Some(Decision::NotBefore(then)) if then <= now => self.waits += 1,
            Some(answer) => return answer,
            None => {}
        }
        let said = self.instance.next(&self.seen, now);
        let waiting = flows.backlogged() > 0;
        let may_wait = !self.traits.work_conserving && self.waits < MOST_WAITS;
        let answer = match said {
            LibraryDecision::Serve(f) if self.has_head(f) => Decision::Serve(FlowId(f)),
            LibraryDecision::Drop(f) if self.has_head(f) => Decision::Drop(FlowId(f)),
            LibraryDecision::Wait(_) | LibraryDecision::Idle if !waiting => Decision::Idle,
            LibraryDecision::Wait(then) if may_wait && then > now && then < Time::NEVER => {
                Decision::NotBefore(then)
            }
            wrong => return self.breaks(flows, wrong, now),
        };
        self.answer = Some(answer);
        answer
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<Turn, u64>, f: FlowId, sent: Sent) {
        self.news();
        (self.serving, self.last) = (Some(f), Some(f));
        match &mut self.broken {
            None => self.instance.on_transmit(&self.seen, f, sent),
            Some(broken) => {
                broken.instead += 1;
                broken.turns.leave(flows);
            }
        }
    }

    fn is_reusable(&self, _: &Flows<Turn, u64>, f: FlowId, now: Time) -> bool {
        self.broken.is_some() || self.instance.is_reusable(f, now)
    }
}

impl QueueHooks for Guard {}

impl MediumHooks for Guard {
    fn breach(&self) -> Option<Breach> {
        let broken = self.broken.as_ref()?;
        let (library, what) = (self.library.name().into(), broken.what.clone());
        Some(Breach { library, what, at: broken.at, times: 1, instead: broken.instead })
    }
}

impl Guarantees for Guard {
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        if self.broken.is_some() {
            return Err(NoGuarantee(format!(
                "the plug-in `{}` has broken its contract, and flows are served round robin",
                self.library.name()
            )));
        }
        let Some(Declared { rate, latency, delay }) = self.instance.guarantee(f) else {
            return Err(NoGuarantee(format!(
                "the plug-in `{}` declares no guarantee",
                self.library.name()
            )));
        };
        Ok(Guarantee {
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
}
