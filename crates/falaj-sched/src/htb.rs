//! Hierarchical token buckets: a rate that is a flow's own, and a ceiling up to which it borrows.
//!
//! Devera's HTB (2002), as Linux has it, with one level of classes below the link. A class has two buckets. While that of its
//! `rate` is not in debt it is *green*, and sends on its own account. Else, while that of its `ceil` is not in debt, it is *yellow*:
//! it sends what green classes leave, on the link's account, which costs tokens of its ceiling only. Else it is *red*, and waits. Among greens,
//! and among yellows, the best priority goes first; equals share in proportion to their rates.
//!
//! - A bucket may be overdrawn by the packet that empties it, as in Linux.
//! - Bursts are what the rate is in a millisecond if nothing is set. Smaller ones cost throughput on links of many hundred megabits, as
//!   whoever comes back late to a full bucket has lost what did not fit.
//! - Equals take turns by virtual starts, where Linux has deficits of `rate/10` bytes: the same shares, without its turns of many packets.
//! - The link is lent by whoever stands for it, always. Classes between it and the leaves do not exist yet.

use crate::bucket::{BURST, Bucket, RATE, begun, buckets, ids, usual_burst};
use crate::discipline::{Answer, Discipline, Sent};
use crate::heap::Heap;
use crate::params::{FlowSetup, Kind, Param, Refusals, Refused, Setup};
use crate::promise::{Bound, NoPromise, Promise, finite_rate, full_queue, room_for_one};
use crate::queue::{FlowId, Flows};
use crate::rate::{Rate, Wire};
use crate::registry::Entry;
use crate::shares::{Instant, ROUNDING, instant, pace, rescaled};
use crate::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// How it is named and set.
pub const ENTRY: Entry = Entry {
    kind: "htb",
    doc: "token buckets: each flow a rate of its own, and a ceiling up to which it borrows what others leave",
    source: "Devera 2002",
    scheduler: &[],
    flow: &[
        RATE,
        BURST,
        Param {
            name: "ceil",
            kind: Kind::Rate,
            default: Some("the link's rate"),
            doc: "up to which rate the flow borrows; never below its rate",
        },
        Param {
            name: "ceil-burst",
            kind: Kind::Bytes,
            default: Some("what the ceiling is in 1ms, or the largest packet if that is more"),
            doc: "what may go at once up to the ceiling",
        },
        Param {
            name: "prio",
            kind: Kind::Count { min: 0, max: 7 },
            default: Some("0"),
            doc: "0 goes first, on its own account and in borrowing",
        },
    ],
};

/// Hierarchical token buckets.
#[derive(Debug, Clone)]
pub struct Htb {
    classes: Vec<Class>,
    /// By priority and virtual start.
    green: Heap<(u8, Instant)>,
    yellow: Heap<(u8, Instant)>,
    /// When who is not green is it again.
    greening: Heap<Time>,
    /// When who is red is yellow.
    red: Heap<Time>,
    /// The last virtual start, of each priority, on own account and borrowed.
    now: [[Instant; 2]; 8],
    serving: Option<FlowId>,
    link: Rate,
    largest: u32,
    full_queues: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Class {
    own: Bucket,
    ceil: Bucket,
    prio: u8,
    /// Virtual time of a byte.
    pace: Instant,
}

/// What it keeps for a class.
#[derive(Debug, Clone, Default)]
pub struct HtbFlow {
    /// When its buckets will be full.
    own: Instant,
    ceil: Instant,
    /// Virtual starts of its next packet on own account, and borrowed.
    turns: [Instant; 2],
}

impl Htb {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Htb, Refusals> {
        finite_rate(setup, "HTB")?;
        room_for_one(setup)?;
        let owns = buckets(setup)?;
        let class = |((flow, f), &own): ((usize, &FlowSetup), &Bucket)| {
            let refused = |param, what, help| Refused { flow: Some(flow), param, what, help };
            let ceil = f.values.rate("ceil").unwrap_or(setup.rate.max(own.rate));
            if ceil < own.rate {
                let what = format!("a ceiling of {ceil} is below the rate of {}", own.rate);
                return Err(refused("ceil", what, format!("at least {}", own.rate)));
            }
            let burst = f.values.bytes("ceil-burst").unwrap_or(usual_burst(ceil, setup.largest));
            if burst < setup.largest.into() {
                let what = format!("a bucket of {burst} B never holds a packet of {} B", setup.largest);
                return Err(refused("ceil-burst", what, format!("at least `{}B`", setup.largest)));
            }
            let prio = f.values.count("prio").unwrap_or(0);
            if prio > 7 {
                return Err(refused(
                    "prio",
                    format!("{prio} is out of range"),
                    "from 0, which goes first, to 7".into(),
                ));
            }
            Ok(Class { own, ceil: Bucket::new(ceil, burst), prio: prio as u8, pace: pace(own.rate) })
        };
        let n = setup.flows.len();
        Ok(Htb {
            classes: setup.flows.iter().enumerate().zip(&owns).map(class).collect::<Result<_, _>>()?,
            green: Heap::new(n),
            yellow: Heap::new(n),
            greening: Heap::new(n),
            red: Heap::new(n),
            now: [[0; 2]; 8],
            serving: None,
            link: setup.rate,
            largest: setup.largest,
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    /// Puts `f` where its tokens say.
    fn place(&mut self, flows: &mut Flows<HtbFlow>, f: FlowId, now: Time) {
        self.leave(f);
        if flows.head(f).is_none() {
            return;
        }
        let class = self.classes[f.index()];
        let state = flows.state_mut(f);
        let (own, ceil) = (begun(class.own.has(0, state.own)), begun(class.ceil.has(0, state.ceil)));
        let turn = |account: usize, turns: &mut [Instant; 2]| {
            turns[account] = turns[account].max(self.now[usize::from(class.prio)][account]);
            (class.prio, turns[account])
        };
        if ceil > now {
            self.red.set(f, ceil);
        } else if own <= now {
            self.green.set(f, turn(0, &mut state.turns));
        } else {
            self.yellow.set(f, turn(1, &mut state.turns));
            self.greening.set(f, own);
        }
    }

    fn leave(&mut self, f: FlowId) {
        self.green.remove(f);
        self.yellow.remove(f);
        self.greening.remove(f);
        self.red.remove(f);
    }
}

impl Discipline for Htb {
    type State = HtbFlow;
    type Tag = ();

    fn start(&mut self, _: &mut Flows<HtbFlow>) {}

    /// As many tokens are missing as before, or the whole bucket; turns stay as many bytes ahead.
    fn succeed(&mut self, old: Htb, flows: &mut Flows<HtbFlow>, now: Time) {
        (self.now, self.serving) = (old.now, old.serving);
        for f in ids(old.classes.len()) {
            let (was, is) = (&old.classes[f.index()], &self.classes[f.index()]);
            let state = flows.state_mut(f);
            state.own = is.own.inherit(&was.own, state.own, instant(now));
            state.ceil = is.ceil.inherit(&was.ceil, state.ceil, instant(now));
            for (account, turn) in state.turns.iter_mut().enumerate() {
                let ahead = turn.saturating_sub(self.now[usize::from(was.prio)][account]);
                *turn = self.now[usize::from(is.prio)][account] + rescaled(ahead, was.pace, is.pace);
            }
            if self.serving != Some(f) {
                self.place(flows, f, now);
            }
        }
    }

    #[inline]
    fn ready(&mut self, flows: &mut Flows<HtbFlow>, f: FlowId, now: Time) {
        self.place(flows, f, now);
    }

    fn offer_changed(&mut self, flows: &mut Flows<HtbFlow>, f: FlowId, _: Time) {
        // What it may do depends on its tokens alone.
        if flows.head(f).is_none() {
            self.leave(f);
        }
    }

    #[inline]
    fn next(&mut self, flows: &mut Flows<HtbFlow>, now: Time, _: &Wire) -> Answer {
        if let Some(f) = self.serving.take() {
            self.place(flows, f, now);
        }
        while let Some((then, f)) = self.red.first()
            && then <= now
        {
            self.place(flows, f, now);
        }
        while let Some((then, f)) = self.greening.first()
            && then <= now
        {
            self.place(flows, f, now);
        }
        match (self.green.first().or(self.yellow.first()), self.red.first()) {
            (Some((_, f)), _) => Answer::Serve(f),
            (None, Some((then, _))) => Answer::NotBefore(then),
            (None, None) => Answer::Idle,
        }
    }

    #[inline]
    fn take(&mut self, flows: &mut Flows<HtbFlow>, f: FlowId, sent: Sent) {
        let (class, state) = (&self.classes[f.index()], flows.state_mut(f));
        let start = instant(sent.start);
        let account = usize::from(self.green.tag(f).is_none());
        if account == 0 {
            state.own = class.own.spend(state.own, start, sent.bytes);
        }
        state.ceil = class.ceil.spend(state.ceil, start, sent.bytes);
        let last = &mut self.now[usize::from(class.prio)][account];
        *last = (*last).max(state.turns[account]);
        state.turns[account] = state.turns[account].saturating_add(Instant::from(sent.bytes) * class.pace);
        self.serving = Some(f);
    }

    fn forgettable(&self, flows: &Flows<HtbFlow>, f: FlowId, now: Time) -> bool {
        let (state, now) = (flows.state(f), instant(now));
        let last = self.now[usize::from(self.classes[f.index()].prio)];
        state.own.max(state.ceil) <= now && state.turns[0] <= last[0] && state.turns[1] <= last[1]
    }

    /// Green classes send no more than their buckets, an overdraft, and their rates: with all of those of the others first, a green class waits
    /// for `D = (sum (b + L) + L)/(C - R)`. It loses nothing by that if its own bucket holds what its rate is in that time.
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        let own = &self.classes[f.index()];
        let others = || self.classes.iter().enumerate().filter(|&(n, _)| n != f.index()).map(|(_, class)| class);
        let rates: u128 = others().map(|class| u128::from(class.own.rate.0)).sum();
        let left = u128::from(self.link.0).saturating_sub(rates);
        let (rate, largest) = (own.own.rate, u64::from(self.largest));
        if left < rate.0.into() {
            return Err(NoPromise(format!(
                "the rates add up to more than the link's {}: somebody's is not kept",
                self.link
            )));
        }
        let first = others().fold(largest, |sum, class| sum.saturating_add(class.own.burst).saturating_add(largest));
        let waits = Rate(left as u64).airtime_of_many(first) + ROUNDING;
        let needed = u128::from(rate.0) * u128::from(waits.0) / 8_000_000_000 + u128::from(2 * largest);
        let apart = own.ceil.rate == rate && own.ceil.burst < own.own.burst;
        if u128::from(own.own.burst) < needed || u128::from(own.ceil.burst) < needed || apart {
            return Err(NoPromise(format!(
                "others' bursts may keep it waiting for {waits}, in which its bucket overflows: with bursts of {needed} B, \
                 for the ceiling too, its {rate} is kept"
            )));
        }
        let packets = rate.airtime_of_many(3 * largest);
        Ok(Promise {
            rate,
            latency: waits + packets + Span(2),
            rate_formula: "the rate r",
            delay: Bound {
                delay: rate.airtime_of_many(self.full_queues[f.index()].saturating_add(3 * largest)) + waits + Span(2),
                formula: "(B + 3 L)/r + (sum (b + L) + L)/(C - R), of the others' bursts and rates",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }
}
