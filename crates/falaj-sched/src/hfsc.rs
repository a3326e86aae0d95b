//! Hierarchical fair service curves: delay and rate set apart.
//!
//! Stoica, Zhang and Ng, "A hierarchical fair service curve algorithm for link-sharing, real-time and priority services"
//! (1997). A flow has up to three curves of two pieces each, `burst-rate` for `burst-time`, then `rate`:
//! - real-time, as in [SCED](crate::sced), but only what was sent to keep it counts, and a packet is sent for it only when
//!   that is needed to keep it later (it is *eligible*). Of the eligible the earliest deadline goes first.
//! - link-sharing, when nobody is eligible: the least virtual time goes first, at which the curve reaches all that the flow has sent.
//!   So who uses what others leave is not punished later, as it is by SCED.
//! - an upper limit: until it is reached by all that the flow has sent, the link is not shared with it. Real-time goes beyond.
//!
//! Each piece is a part of a line, and a line is a clock that a byte advances; `sced.rs` has the arithmetic, and
//! says where it is exact. Virtual times are clocks as well, against a time of their own: that of the last packet sent by link-sharing, at which who comes back
//! starts. (The paper takes the middle between the least and the largest one of those present; the least is at most a packet's
//! virtual time away from that here, and needs no second order.)
//!
//! The classes here are the leaves; nodes between them and the link do not exist yet. A discipline above
//! cannot be such a node: real-time looks at all leaves of a link at once.

use crate::bucket::begun;
use crate::discipline::{Answer, Discipline, Sent};
use crate::params::{FlowSetup, Kind, Param, Refusals, Refused, Setup};
use crate::promise::{Bound, NoPromise, Promise, finite_rate, full_queue, room_for_one};
use crate::quad_heap::Heap;
use crate::queue::{FlowId, Flows};
use crate::rate::{Rate, Wire};
use crate::registry::Entry;
use crate::sced::{Curve, LONGEST, fits};
use crate::shares::{Instant, ROUNDING, instant};
use crate::time::{Span, Time};
use crate::virtual_time::ahead;
use alloc::format;
use alloc::vec::Vec;

/// How it is named and set.
pub const ENTRY: Entry = Entry {
    kind: "hfsc",
    doc: "fair service curves: a real-time, a link-sharing and an upper limit curve of two pieces for each flow, O(log N)",
    source: "Stoica, Zhang and Ng 1997",
    scheduler: &[],
    flow: &[
        Param {
            name: "rate",
            kind: Kind::Rate,
            default: Some("none: link-sharing only"),
            doc: "second slope of the flow's real-time curve: what it is guaranteed",
        },
        Param {
            name: "burst-rate",
            kind: Kind::Rate,
            default: Some("the rate"),
            doc: "first slope of the flow's real-time curve, before `burst-time`",
        },
        Param {
            name: "burst-time",
            kind: Kind::Span,
            default: Some("0s"),
            doc: "how long the burst rate lasts from the start of a backlog on",
        },
        Param {
            name: "share",
            kind: Kind::Rate,
            default: Some("the rate, or 1mbit without one"),
            doc: "second slope of the link-sharing curve; shares count in proportion",
        },
        Param {
            name: "share-burst",
            kind: Kind::Rate,
            default: Some("the share"),
            doc: "first slope of the link-sharing curve, before `share-time`",
        },
        Param {
            name: "share-time",
            kind: Kind::Span,
            default: Some("0s"),
            doc: "how long, in the flow's virtual time, the first slope lasts",
        },
        Param {
            name: "limit",
            kind: Kind::Rate,
            default: Some("none"),
            doc: "second slope of the upper limit on what link-sharing brings the flow",
        },
        Param {
            name: "limit-burst",
            kind: Kind::Rate,
            default: Some("the limit"),
            doc: "first slope of the upper limit, before `limit-time`",
        },
        Param {
            name: "limit-time",
            kind: Kind::Span,
            default: Some("0s"),
            doc: "how long the first slope of the limit lasts",
        },
    ],
};

/// Virtual times are compared in 2^-20 ns.
const KEY: u32 = 20;
/// And are never further ahead than this: an hour, so that keys can be told apart.
const FAR: Instant = instant(Time(3_600_000_000_000));

/// Hierarchical fair service curves.
#[derive(Debug, Clone)]
pub struct Hfsc {
    classes: Vec<Class>,
    /// By eligible time: who is not yet.
    held: Heap,
    /// By deadline: who is eligible.
    eligible: Heap,
    /// By virtual time: who may share the link.
    sharing: Heap,
    /// By the time of the upper limit: who has reached it.
    limited: Heap,
    /// Virtual time of the last packet that was sent by sharing.
    now: Instant,
    /// What was decided last is by sharing, not for a real-time curve.
    by_sharing: bool,
    link: Rate,
    largest: u32,
    full_queues: Vec<u64>,
}

#[derive(Debug, Clone)]
struct Class {
    real_time: Option<Curve>,
    sharing: Curve,
    limit: Option<Curve>,
    /// Of the real-time curve: rate, and by how much it is behind a line of that rate.
    promised: Option<(Rate, Span)>,
}

/// What it keeps for a class.
#[derive(Debug, Clone, Default)]
pub struct HfscFlow {
    /// The clocks of each curve's two lines.
    real_time: [Instant; 2],
    sharing: [Instant; 2],
    limit: [Instant; 2],
    /// Where its real-time entry is.
    timed: Timed,
    place: Place,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Timed {
    #[default]
    Nowhere,
    Held,
    Eligible,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    Sharing,
    Limited,
}

fn late(clocks: [Instant; 2], least: Instant) -> [Instant; 2] {
    clocks.map(|clock| clock.max(least))
}

fn key(virtual_time: Instant) -> u64 {
    (virtual_time >> KEY) as u64
}

impl Hfsc {
    /// Validates the setup: the real-time curves together fit below the link's.
    pub fn new(setup: &Setup) -> Result<Hfsc, Refusals> {
        finite_rate(setup, "fair service curves")?;
        room_for_one(setup)?;
        let mut pieces = Vec::with_capacity(setup.flows.len());
        let mut class = |(flow, f): (usize, &FlowSetup)| {
            let curve = |[rate, first, time]: [&'static str; 3]| curve(flow, f, [rate, first, time]);
            let real_time = curve(["rate", "burst-rate", "burst-time"])?;
            pieces.push(real_time.unwrap_or((Rate(0), Span::ZERO, Rate(0))));
            let rate = real_time.map_or(Rate::from_mbit(1), |(_, _, rate)| rate);
            let sharing = curve(["share", "share-burst", "share-time"])?.unwrap_or((rate, Span::ZERO, rate));
            let limit = curve(["limit", "limit-burst", "limit-time"])?;
            let new = |(first, time, rate)| Curve::new(first, time, rate);
            Ok(Class {
                real_time: real_time.map(new),
                sharing: new(sharing),
                limit: limit.map(new),
                promised: real_time.map(|(first, time, rate)| (rate, behind(first, time, rate))),
            })
        };
        let classes = setup.flows.iter().enumerate().map(&mut class).collect::<Result<Vec<_>, Refused>>()?;
        let rates: u128 = pieces.iter().map(|&(_, _, rate)| u128::from(rate.0)).sum();
        if rates > setup.rate.0.into() {
            let what = format!("the real-time rates add up to more than the link's {}", setup.rate);
            let help = "lower some, or give `share` instead, which counts in proportion".into();
            return Err(Refused { flow: None, param: "rate", what, help }.into());
        }
        fits(setup, &pieces)?;
        let heap = || Heap::new(classes.len());
        Ok(Hfsc {
            held: heap(),
            eligible: heap(),
            sharing: heap(),
            limited: heap(),
            now: 0,
            by_sharing: false,
            link: setup.rate,
            largest: setup.largest,
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
            classes,
        })
    }

    /// When the head of `f` has its deadline.
    fn deadline(&self, flows: &Flows<HfscFlow>, f: FlowId) -> Time {
        let clocks = flows.state(f).real_time;
        let curve = self.classes[f.index()].real_time.as_ref();
        let bytes = flows.head(f).unwrap_or(0);
        curve.map_or(Time::NEVER, |curve| begun(curve.deadline(curve.after(clocks, bytes))))
    }

    fn eligible(&self, state: &HfscFlow, f: FlowId) -> Time {
        let curve = self.classes[f.index()].real_time.as_ref();
        curve.map_or(Time::NEVER, |curve| begun(curve.eligible(state.real_time)))
    }

    fn limit(&self, state: &HfscFlow, f: FlowId) -> Time {
        let curve = self.classes[f.index()].limit.as_ref();
        curve.map_or(Time::ZERO, |curve| begun(curve.deadline(state.limit)))
    }

    fn virtual_time(&self, state: &HfscFlow, f: FlowId) -> Instant {
        self.classes[f.index()].sharing.deadline(state.sharing)
    }

    /// Gives a flow that has packets the entries that it lacks.
    fn enter(&mut self, flows: &mut Flows<HfscFlow>, f: FlowId) {
        let state = flows.state(f);
        let (timed, place) = (state.timed, state.place);
        if timed == Timed::Nowhere && self.classes[f.index()].real_time.is_some() {
            self.held.push(self.eligible(state, f).0, f.0);
            flows.state_mut(f).timed = Timed::Held;
        }
        if place == Place::Nowhere {
            let state = flows.state(f);
            self.sharing.push(key(self.virtual_time(state, f)), f.0);
            flows.state_mut(f).place = Place::Sharing;
        }
    }

    /// When the next one becomes eligible that is not; those that have are, from now on.
    #[inline]
    fn first_held(&mut self, flows: &mut Flows<HfscFlow>, now: Time) -> Option<Time> {
        while let Some((at, f)) = self.held.first() {
            let f = FlowId(f);
            let is = self.eligible(flows.state(f), f);
            if flows.head(f).is_none() {
                self.held.pop();
                flows.state_mut(f).timed = Timed::Nowhere;
            } else if is <= now {
                self.held.pop();
                self.eligible.push(self.deadline(flows, f).0, f.0);
                flows.state_mut(f).timed = Timed::Eligible;
            } else if is.0 != at {
                self.held.postpone_first(is.0);
            } else {
                return Some(is);
            }
        }
        None
    }

    /// Who is eligible and has the earliest deadline.
    #[inline]
    fn first_eligible(&mut self, flows: &mut Flows<HfscFlow>, now: Time) -> Option<FlowId> {
        while let Some((at, f)) = self.eligible.first() {
            let f = FlowId(f);
            let eligible = self.eligible(flows.state(f), f);
            if flows.head(f).is_none() {
                self.eligible.pop();
                flows.state_mut(f).timed = Timed::Nowhere;
            } else if eligible > now {
                self.eligible.pop();
                self.held.push(eligible.0, f.0);
                flows.state_mut(f).timed = Timed::Held;
            } else {
                let is = self.deadline(flows, f);
                if is.0 == at {
                    return Some(f);
                }
                self.eligible.postpone_first(is.0);
            }
        }
        None
    }

    /// When the next one is below its limit; those that are share from now on.
    #[inline]
    fn first_limited(&mut self, flows: &mut Flows<HfscFlow>, now: Time) -> Option<Time> {
        while let Some((at, f)) = self.limited.first() {
            let f = FlowId(f);
            let is = self.limit(flows.state(f), f);
            if flows.head(f).is_none() {
                self.limited.pop();
                flows.state_mut(f).place = Place::Nowhere;
            } else if is <= now {
                self.limited.pop();
                flows.state_mut(f).place = Place::Sharing;
                self.sharing.push(key(self.virtual_time(flows.state(f), f)), f.0);
            } else if is.0 != at {
                self.limited.postpone_first(is.0);
            } else {
                return Some(is);
            }
        }
        None
    }

    /// Who may share the link and has the least virtual time.
    #[inline]
    fn first_sharing(&mut self, flows: &mut Flows<HfscFlow>, now: Time) -> Option<FlowId> {
        while let Some((at, f)) = self.sharing.first() {
            let f = FlowId(f);
            let limit = self.limit(flows.state(f), f);
            if flows.head(f).is_none() {
                self.sharing.pop();
                flows.state_mut(f).place = Place::Nowhere;
            } else if limit > now {
                self.sharing.pop();
                self.limited.push(limit.0, f.0);
                flows.state_mut(f).place = Place::Limited;
            } else {
                let is = key(self.virtual_time(flows.state(f), f));
                if ahead(is, at) <= 0 {
                    return Some(f);
                }
                self.sharing.postpone_first(is);
            }
        }
        None
    }
}

/// A curve of a flow, as first slope, its time, and second slope.
fn curve(
    flow: usize,
    f: &FlowSetup,
    [rate, first, time]: [&'static str; 3],
) -> Result<Option<(Rate, Span, Rate)>, Refused> {
    let refused =
        |param, what: &str, help: &str| Err(Refused { flow: Some(flow), param, what: what.into(), help: help.into() });
    let (second, slope, lasts) = (f.values.rate(rate), f.values.rate(first), f.values.span(time));
    for (param, value) in [(rate, second), (first, slope)] {
        if value == Some(Rate(0)) {
            return refused(param, "a slope of 0 never ends", "any rate above 0; leave the curve out for none");
        }
    }
    if lasts.is_some_and(|lasts| lasts > LONGEST) {
        return refused(time, "it lasts too long", "at most 3600s: it is for a burst at the start of a backlog");
    }
    let Some(second) = second else {
        let given = if slope.is_some() { Some(first) } else { lasts.filter(|l| *l > Span::ZERO).map(|_| time) };
        return match given {
            Some(param) => {
                let help = format!("give it a `{rate}` too: what the curve rises by after the first slope");
                refused(param, "it is the first piece of a curve that has no second", &help)
            }
            None => Ok(None),
        };
    };
    Ok(Some((slope.unwrap_or(second), lasts.unwrap_or(Span::ZERO), second)))
}

/// By how much a curve that begins slowly is behind a line of its second slope.
fn behind(first: Rate, time: Span, rate: Rate) -> Span {
    let missing = u128::from(rate.0.saturating_sub(first.0)) * u128::from(time.0);
    Span(u64::try_from(missing.div_ceil(rate.0.into())).unwrap_or(u64::MAX))
}

impl Discipline for Hfsc {
    type State = HfscFlow;
    type Tag = ();

    fn start(&mut self, _: &mut Flows<HfscFlow>) {}

    /// What clocks are ahead or behind stays as many bytes; a curve that there was not begins now.
    fn succeed(&mut self, old: Hfsc, flows: &mut Flows<HfscFlow>, now: Time) {
        (self.now, self.by_sharing) = (old.now, old.by_sharing);
        let now = instant(now);
        for f in (0..old.classes.len() as u32).map(FlowId) {
            let (was, is) = (&old.classes[f.index()], &self.classes[f.index()]);
            let clocks = |was: &Option<Curve>, is: &Option<Curve>, clocks| match (was, is) {
                (Some(was), Some(is)) => is.inherit(was, clocks, now),
                _ => [now; 2],
            };
            let state = flows.state_mut(f);
            *state = HfscFlow {
                real_time: clocks(&was.real_time, &is.real_time, state.real_time),
                sharing: is.sharing.inherit(&was.sharing, state.sharing, self.now).map(|c| c.min(self.now + FAR)),
                limit: clocks(&was.limit, &is.limit, state.limit),
                ..HfscFlow::default()
            };
            if flows.head(f).is_some() {
                self.enter(flows, f);
            }
        }
    }

    #[inline]
    fn ready(&mut self, flows: &mut Flows<HfscFlow>, f: FlowId, now: Time) {
        let now = instant(now);
        let state = flows.state_mut(f);
        state.real_time = late(state.real_time, now);
        state.limit = late(state.limit, now);
        state.sharing = late(state.sharing, self.now);
        self.enter(flows, f);
    }

    /// Another head may have an earlier deadline, which only who looks inside puts right.
    fn offer_changed(&mut self, flows: &mut Flows<HfscFlow>, f: FlowId, _: Time) {
        if flows.state(f).timed == Timed::Eligible && self.eligible.remove(f.0) {
            flows.state_mut(f).timed = Timed::Nowhere;
        }
        if flows.head(f).is_some() {
            self.enter(flows, f);
        }
    }

    #[inline]
    fn next(&mut self, flows: &mut Flows<HfscFlow>, now: Time, _: &Wire) -> Answer {
        self.first_held(flows, now);
        if let Some(f) = self.first_eligible(flows, now) {
            self.by_sharing = false;
            return Answer::Serve(f);
        }
        self.first_limited(flows, now);
        if let Some(f) = self.first_sharing(flows, now) {
            self.by_sharing = true;
            return Answer::Serve(f);
        }
        // Whoever was found to have to wait meanwhile is there now.
        let held = self.first_held(flows, now);
        match held.into_iter().chain(self.first_limited(flows, now)).min() {
            Some(then) => Answer::NotBefore(then),
            None => Answer::Idle,
        }
    }

    #[inline]
    fn take(&mut self, flows: &mut Flows<HfscFlow>, f: FlowId, sent: Sent) {
        let class = &self.classes[f.index()];
        if self.by_sharing {
            // What a limit kept it from it does not save.
            let state = flows.state_mut(f);
            state.sharing = late(state.sharing, self.now);
            self.now = self.now.max(class.sharing.deadline(state.sharing));
        } else if let Some(curve) = &class.real_time {
            let state = flows.state_mut(f);
            state.real_time = curve.after(state.real_time, sent.bytes);
        }
        let state = flows.state_mut(f);
        state.sharing = class.sharing.after(state.sharing, sent.bytes).map(|clock| clock.min(self.now + FAR));
        if let Some(curve) = &class.limit {
            // Who was kept from using its limit makes up for one packet.
            let packet = curve.after([0; 2], self.largest);
            let least = packet.map(|packet| instant(sent.start).saturating_sub(packet));
            let clocks = [0, 1].map(|line| state.limit[line].max(least[line]));
            state.limit = curve.after(clocks, sent.bytes);
        }
    }

    fn forgettable(&self, flows: &Flows<HfscFlow>, f: FlowId, now: Time) -> bool {
        let state = flows.state(f);
        let over = |clocks| Curve::is_over(clocks, instant(now));
        over(state.real_time) && over(state.limit) && Curve::is_over(state.sharing, self.now)
    }

    /// A packet leaves at most `L/C` after its deadline (theorem 2 of the paper). The deadlines of a flow that
    /// has packets are on its curve, begun at most a packet of the second slope after now; of a curve that begins slowly, later by what it is behind.
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        let Some((rate, behind)) = self.classes[f.index()].promised else {
            return Err(NoPromise(
                "a flow without a real-time `rate` gets its share of what real-time leaves, which may be nothing"
                    .into(),
            ));
        };
        let late = self.link.airtime_of_many(u64::from(self.largest)) + behind + ROUNDING + Span(1);
        let own = rate.airtime(self.largest);
        Ok(Promise {
            rate,
            latency: own + own + late,
            rate_formula: "the second slope r of the real-time curve",
            delay: Bound {
                delay: rate.airtime_of_many(self.full_queues[f.index()].saturating_add(self.largest.into())) + late,
                formula: "(B + L)/r + L/C + what the curve is behind its second slope",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    /// Deadlines do not move while there are packets, whatever else the flow is sent.
    fn serves_strictly(&self) -> bool {
        true
    }
}
