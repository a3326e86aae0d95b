//! Trees of classes that a discipline handles as a whole: worked examples, naive models, and the
//! guarantees of every node. One byte takes 8 ns.

use crate::common::copies::{Copies, nanos_of_a_byte, whole};
use crate::common::examples::longest_wait_of_a_victim;
use crate::common::fraction::Fraction;
use crate::common::stepwise::{Model, beside, with};
use crate::common::{Arrival, Dice, bursts, emits, run};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_sched::contract::params::{FlowSetup, Inner, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::collections::BTreeSet;

/// Largest number of levels of classes in these tests.
const LEVELS: usize = 4;

/// A class with its subclasses.
#[derive(Clone, Debug)]
struct Class {
    values: Values,
    limit: Limit,
    parts: Vec<Class>,
}

fn leaf(values: Values) -> Class {
    Class { values, limit: Limit::Packets(40), parts: Vec::new() }
}

fn inner(values: Values, parts: Vec<Class>) -> Class {
    Class { parts, ..leaf(values) }
}

fn mbit(set: &[(&'static str, u64)]) -> Values {
    set.iter().fold(Values::default(), |all, &(name, mbit)| {
        all.with(name, Value::Rate(Rate::from_mbit(mbit)))
    })
}

fn setup(kind: &'static str, rate: Rate, largest: u32, classes: &[Class]) -> Setup {
    let flow = |class: &Class| {
        let below = (!class.parts.is_empty()).then(|| {
            let setup = setup(kind, rate, largest, &class.parts);
            Box::new(Inner { kind, setup })
        });
        FlowSetup { inner: below, ..FlowSetup::new(class.values.clone(), class.limit) }
    };
    Setup { rate, largest, scheduler: Values::default(), flows: classes.iter().map(flow).collect() }
}

fn tree(kind: &'static str, largest: u32, classes: &[Class]) -> PipeSpec {
    PipeSpec::new(kind, setup(kind, Rate::from_mbit(1000), largest, classes), Span::ZERO)
}

/// Random classes: several levels with several parts each.
fn grown(
    dice: &mut Dice,
    levels: u64,
    values: &mut impl FnMut(&mut Dice, bool) -> Values,
) -> Vec<Class> {
    let one = |dice: &mut Dice,
               values: &mut dyn FnMut(&mut Dice, bool) -> Values,
               parts: Vec<Class>| Class {
        values: values(dice, parts.is_empty()),
        limit: Limit::Packets(dice.from(1, 12) as u32),
        parts,
    };
    let n = dice.from(1, 3);
    (0..n)
        .map(|_| {
            let parts = if levels > 1 && dice.from(0, 2) > 0 {
                grown(dice, levels - 1, values)
            } else {
                Vec::new()
            };
            one(dice, values, parts)
        })
        .collect()
}

/// A class of a model: its position, the path to it from the link, and its parts.
#[derive(Clone)]
struct Place<T> {
    own: T,
    /// Leaves are numbered first, then the inner classes in order: of equal classes the class with
    /// the lower number goes first.
    number: usize,
    leaf: Option<usize>,
    parts: Vec<Place<T>>,
}

fn places<T>(classes: &[Class], make: &mut impl FnMut(&Class) -> T) -> Vec<Place<T>> {
    fn count(classes: &[Class]) -> usize {
        classes.iter().map(|c| if c.parts.is_empty() { 1 } else { count(&c.parts) }).sum()
    }
    fn grow<T>(
        classes: &[Class],
        make: &mut impl FnMut(&Class) -> T,
        leaves: &mut usize,
        others: &mut usize,
    ) -> Vec<Place<T>> {
        let mut out = Vec::new();
        for class in classes {
            let own = make(class);
            if class.parts.is_empty() {
                out.push(Place { own, number: *leaves, leaf: Some(*leaves), parts: Vec::new() });
                *leaves += 1;
            } else {
                let number = *others;
                *others += 1;
                out.push(Place {
                    own,
                    number,
                    leaf: None,
                    parts: grow(&class.parts, make, leaves, others),
                });
            }
        }
        out
    }
    grow(classes, make, &mut 0, &mut count(classes))
}

impl<T> Place<T> {
    fn holds(&self, f: usize) -> bool {
        self.leaf == Some(f) || self.parts.iter().any(|part| part.holds(f))
    }
}

/// The classes from the link down to a leaf.
fn way<T>(places: &mut [Place<T>], f: usize, mut each: impl FnMut(&mut Place<T>)) {
    let mut level = places;
    while let Some(place) = level.iter_mut().find(|place| place.holds(f)) {
        each(place);
        level = &mut place.parts;
    }
}

fn leaf_of<T>(places: &[Place<T>], f: usize) -> &T {
    let place = places.iter().find(|place| place.holds(f)).expect("somebody has it");
    if place.leaf == Some(f) { &place.own } else { leaf_of(&place.parts, f) }
}

/// A class of H-FSC.
#[derive(Clone)]
struct Curves {
    real_time: Option<Copies>,
    sharing: Copies,
    /// Nanoseconds per byte at the upper limit, and when the class may share the link again.
    limit: Option<u64>,
    limited: u64,
    /// Bytes sent by the real-time curve, and in total.
    kept: u64,
    sent: u64,
    /// Virtual time of its parts.
    v: Fraction,
}

struct ByCurves {
    classes: Vec<Place<Curves>>,
    v: Fraction,
    largest: u64,
}

impl ByCurves {
    fn of(spec: &PipeSpec, classes: &[Class]) -> ByCurves {
        fn slope(class: &Class) -> u64 {
            let own = ["share", "rate"].iter().find_map(|name| class.values.rate(name));
            let below = || class.parts.iter().map(slope).sum();
            own.map_or_else(
                || if class.parts.is_empty() { 1_000_000 } else { below() },
                |rate| rate.0,
            )
        }
        let mut make = |class: &Class| {
            let line = 8_000_000_000 / slope(class);
            Curves {
                real_time: Copies::of(&class.values, ["rate", "burst-rate", "burst-time"]),
                sharing: Copies {
                    begins: vec![(Fraction::ZERO, 0)],
                    ..Copies::of(&class.values, ["share", "share-burst", "share-time"])
                        .unwrap_or(Copies { slopes: (line, 0, line), begins: Vec::new() })
                },
                limit: nanos_of_a_byte(&class.values, "limit"),
                limited: 0,
                kept: 0,
                sent: 0,
                v: Fraction::ZERO,
            }
        };
        ByCurves {
            classes: places(classes, &mut make),
            v: Fraction::ZERO,
            largest: spec.setup.largest.into(),
        }
    }

    fn eligible(&self, f: usize, now: u64) -> bool {
        let class = leaf_of(&self.classes, f);
        class.real_time.as_ref().is_some_and(|curve| curve.reaches(class.kept) <= Fraction::of(now))
    }
}

fn shares(places: &[Place<Curves>], heads: &[Option<u32>], now: u64) -> Option<usize> {
    let one = |place: &Place<Curves>| {
        let below = match place.leaf {
            Some(f) => heads[f].map(|_| f),
            None => shares(&place.parts, heads, now),
        };
        let open = place.own.limit.is_none() || place.own.limited <= now;
        below.filter(|_| open).map(|f| (place.own.sharing.reaches(place.own.sent), place.number, f))
    };
    places.iter().filter_map(one).min().map(|(_, _, f)| f)
}

impl Model for ByCurves {
    fn came(&mut self, f: usize, _: u32, first: bool, now: u64) {
        let mut v = self.v;
        way(&mut self.classes, f, |place| {
            let class = &mut place.own;
            if first && place.leaf.is_some() {
                if let Some(curve) = &mut class.real_time {
                    curve.begins.push((Fraction::of(now), class.kept));
                }
                class.sharing.begins.push((v, class.sent));
                class.limited = class.limited.max(now);
            }
            v = class.v;
        });
    }
    fn passes(&mut self, _: &[bool], _: Option<usize>, _: u64) {}
    fn choose(&self, heads: &[Option<u32>], now: u64) -> Option<usize> {
        let deadline = |f: usize| {
            let bytes = heads[f].filter(|_| self.eligible(f, now))?;
            let class = leaf_of(&self.classes, f);
            Some((whole(class.real_time.as_ref()?.reaches(class.kept + u64::from(bytes))), f))
        };
        let first = (0..heads.len()).filter_map(deadline).min().map(|(_, f)| f);
        first.or_else(|| shares(&self.classes, heads, now))
    }
    fn begin(&mut self, f: usize, bytes: u32, now: u64) {
        let kept = self.eligible(f, now);
        let (mut v, largest, bytes) = (self.v, self.largest, u64::from(bytes));
        let mut later = Vec::new();
        way(&mut self.classes, f, |place| {
            let class = &mut place.own;
            if !kept {
                class.sharing.begins.push((v, class.sent));
                v = v.max(class.sharing.reaches(class.sent));
            } else if place.leaf.is_some() {
                class.kept += bytes;
            }
            later.push(v);
            v = class.v;
            class.sent += bytes;
            if let Some(byte) = class.limit {
                class.limited =
                    class.limited.max(now.saturating_sub(largest * byte)) + bytes * byte;
            }
        });
        let mut later = later.into_iter();
        self.v = later.next().expect("a leaf is somewhere");
        way(&mut self.classes, f, |place| {
            if let Some(v) = later.next() {
                place.own.v = v;
            }
        });
    }
    fn left(&mut self, _: usize, _: Option<u32>, _: u64) {}
}

#[test]
fn hfsc_goes_by_its_curves_at_every_node() {
    let (mut accepted, mut deep, mut limits) = (0, 0, 0);
    for seed in 0..1_500 {
        let mut dice = Dice::new(seed ^ 0x7cf5c);
        let largest = dice.from(1, 12) as u32;
        let mut values = |dice: &mut Dice, is_leaf: bool| {
            let mut values = Values::default();
            for [rate, first, time] in
                [["rate", "burst-rate", "burst-time"], ["share", "share-burst", "share-time"]]
            {
                if dice.from(0, 3) == 0 || rate == "rate" && !is_leaf {
                    continue;
                }
                // A power of two apart, so that the clocks are exact.
                let slow = dice.from(1, 2);
                values.set(rate, Value::Rate(Rate::from_mbit(125 * slow)));
                if dice.from(0, 1) == 0 {
                    values.set(
                        first,
                        Value::Rate(Rate::from_mbit(125 * slow * dice.one_of(&[1, 2, 4]))),
                    );
                    values.set(time, Value::Span(Span(dice.from(0, 400))));
                }
            }
            if values.rate("share").is_none() && values.rate("rate").is_none() {
                values.set("share", Value::Rate(Rate::from_mbit(125)));
            }
            if dice.from(0, 3) == 0 {
                values.set("limit", Value::Rate(Rate::from_mbit(dice.one_of(&[125, 250, 500]))));
            }
            values
        };
        let classes = grown(&mut dice, LEVELS as u64, &mut values);
        let spec = tree("hfsc", largest, &classes);
        if Engine::new(std::slice::from_ref(&spec)).is_err() {
            continue;
        }
        accepted += 1;
        deep += u64::from(classes.iter().any(|c| c.parts.iter().any(|c| !c.parts.is_empty())));
        limits += u64::from(
            classes.iter().any(|c| !c.parts.is_empty() && c.values.rate("limit").is_some()),
        );
        beside(&spec, ByCurves::of(&spec, &classes), &mut dice, seed);
    }
    assert!(accepted > 500 && deep > 150 && limits > 100, "{accepted} {deep} {limits}");
}

/// A token bucket whose tokens are nanoseconds at its rate.
#[derive(Clone)]
struct TokenBucket {
    byte: i64,
    most: i64,
    holds: i64,
}

impl TokenBucket {
    fn of(values: &Values, rate: &str, burst: &str) -> TokenBucket {
        let byte = nanos_of_a_byte(values, rate).expect("it is set") as i64;
        let most = byte * values.bytes(burst).expect("it is set") as i64;
        TokenBucket { byte, most, holds: most }
    }
    fn pay(&mut self, bytes: u32) {
        self.holds -= self.byte * i64::from(bytes);
    }
}

/// A class of HTB.
#[derive(Clone)]
struct HtbClass {
    own: TokenBucket,
    ceil: TokenBucket,
    prio: u64,
    /// Virtual time per byte; and the next start at each priority, on its own account and on
    /// borrowed tokens.
    byte: u64,
    turns: [[u64; 2]; 8],
    /// The last start of the classes that borrow from it.
    now: [u64; 8],
}

struct HtbModel {
    classes: Vec<Place<HtbClass>>,
    /// Virtual times of leaves on their own account; of lenders, by depth; and of borrowers from
    /// the link.
    leaves: [u64; 8],
    lenders: [[u64; 8]; LEVELS + 1],
    link: [u64; 8],
}

impl HtbClass {
    fn is_red(&self) -> bool {
        self.ceil.holds < 0
    }
    fn is_green(&self) -> bool {
        !self.is_red() && self.own.holds >= 0
    }
    fn is_yellow(&self) -> bool {
        !self.is_red() && self.own.holds < 0
    }
}

type Heads<'a> = &'a [Option<u32>];

/// The leaf that a class would lend to at a priority: at each step the part with the earliest turn.
fn borrower(places: &[Place<HtbClass>], heads: Heads<'_>, prio: u64) -> Option<usize> {
    let one = |place: &Place<HtbClass>| {
        let f = match place.leaf {
            Some(f) => heads[f].filter(|_| place.own.prio == prio).map(|_| f),
            None => borrower(&place.parts, heads, prio),
        };
        f.filter(|_| place.own.is_yellow())
            .map(|f| (place.own.turns[prio as usize][1], place.number, f))
    };
    places.iter().filter_map(one).min().map(|(_, _, f)| f)
}

/// The leaf that sends next, as (turn, number, leaf): on its own account if `depth` is `None`, else
/// by borrowing from a lender at this depth.
fn on_own(
    places: &[Place<HtbClass>],
    heads: Heads<'_>,
    prio: u64,
    depth: Option<usize>,
) -> Option<(u64, usize, usize)> {
    let one = |place: &Place<HtbClass>| {
        let below = on_own(&place.parts, heads, prio, depth.map(|d| d.wrapping_sub(1)));
        let f = match (place.leaf, depth) {
            (Some(f), None) => heads[f].filter(|_| place.own.prio == prio).map(|_| f),
            (None, Some(1)) => borrower(&place.parts, heads, prio),
            _ => None,
        };
        let own = f
            .filter(|_| place.own.is_green())
            .map(|f| (place.own.turns[prio as usize][0], place.number, f));
        own.into_iter().chain(below).min()
    };
    places.iter().filter_map(one).min()
}

impl HtbModel {
    fn of(classes: &[Class]) -> HtbModel {
        let mut make = |class: &Class| HtbClass {
            own: TokenBucket::of(&class.values, "rate", "burst"),
            ceil: TokenBucket::of(&class.values, "ceil", "ceil-burst"),
            prio: class.values.count("prio").unwrap_or(0),
            byte: match class.values.bytes("quantum") {
                Some(bytes) => 100_000_000 / bytes,
                None => nanos_of_a_byte(&class.values, "rate").expect("it is set"),
            },
            turns: [[0; 2]; 8],
            now: [0; 8],
        };
        let classes = places(classes, &mut make);
        HtbModel { classes, leaves: [0; 8], lenders: [[0; 8]; LEVELS + 1], link: [0; 8] }
    }
}

fn turn(now: &mut u64, turn: &mut u64, work: u64) {
    *now = (*now).max(*turn);
    *turn = *now + work;
}

fn all(places: &mut [Place<HtbClass>], each: &mut impl FnMut(&mut HtbClass)) {
    for place in places {
        each(&mut place.own);
        all(&mut place.parts, each);
    }
}

impl Model for HtbModel {
    fn came(&mut self, _: usize, _: u32, _: bool, _: u64) {}
    fn passes(&mut self, _: &[bool], _: Option<usize>, now: u64) {
        if now > 0 {
            all(&mut self.classes, &mut |class| {
                for bucket in [&mut class.own, &mut class.ceil] {
                    bucket.holds = (bucket.holds + 1).min(bucket.most);
                }
            });
        }
    }
    fn choose(&self, heads: &[Option<u32>], _: u64) -> Option<usize> {
        // A red leaf sends nothing; most of the time all leaves with packets are red.
        let may = |f: usize| heads[f].is_some() && !leaf_of(&self.classes, f).is_red();
        let prios: BTreeSet<u64> =
            (0..heads.len()).filter(|&f| may(f)).map(|f| leaf_of(&self.classes, f).prio).collect();
        let levels = std::iter::once(None).chain((1..=LEVELS).rev().map(Some));
        let mut own = levels.flat_map(|level| prios.iter().map(move |&prio| (level, prio)));
        let found = own.find_map(|(level, prio)| on_own(&self.classes, heads, prio, level));
        let first = found.map(|(_, _, f)| f);
        first.or_else(|| prios.iter().find_map(|&prio| borrower(&self.classes, heads, prio)))
    }
    fn begin(&mut self, f: usize, bytes: u32, _: u64) {
        let prio = leaf_of(&self.classes, f).prio as usize;
        // The lender is the deepest green class; the link is above all.
        let mut greens = Vec::new();
        way(&mut self.classes, f, |place| greens.push(place.own.is_green()));
        let lender = greens.iter().rposition(|&green| green);
        let (mut depth, mut before) = (0, self.link[prio]);
        let mut later = Vec::new();
        let (leaves, lenders) = (&mut self.leaves[prio], &mut self.lenders);
        way(&mut self.classes, f, |place| {
            let class = &mut place.own;
            if lender.is_some_and(|lender| depth <= lender) {
                class.own.pay(bytes);
            }
            class.ceil.pay(bytes);
            let work = u64::from(bytes) * class.byte;
            if lender == Some(depth) {
                let now =
                    if place.leaf.is_some() { &mut *leaves } else { &mut lenders[depth + 1][prio] };
                turn(now, &mut class.turns[prio][0], work);
            } else if lender.is_none_or(|lender| depth > lender) {
                turn(&mut before, &mut class.turns[prio][1], work);
            }
            later.push(before);
            before = class.now[prio];
            depth += 1;
        });
        let mut later = later.into_iter();
        self.link[prio] = later.next().expect("a leaf is somewhere");
        way(&mut self.classes, f, |place| {
            if let Some(now) = later.next() {
                place.own.now[prio] = now;
            }
        });
    }
    fn left(&mut self, _: usize, _: Option<u32>, _: u64) {}
}

fn htb_class(dice: &mut Dice, largest: u32, is_leaf: bool) -> Values {
    let rate = dice.one_of(&[50, 100, 125, 200, 250, 500]);
    let ceil = dice.one_of(&[50, 100, 125, 200, 250, 500, 1000]).max(rate);
    let mut values = mbit(&[("rate", rate), ("ceil", ceil)]);
    for burst in ["burst", "ceil-burst"] {
        values.set(burst, Value::Bytes(dice.from(largest.into(), 4 * u64::from(largest))));
    }
    if is_leaf && dice.from(0, 1) == 0 {
        values.set("prio", Value::Count(dice.from(0, 2)));
    }
    if dice.from(0, 2) == 0 {
        values.set("quantum", Value::Bytes(dice.one_of(&[10_000, 500_000, 1_000_000, 5_000_000])));
    }
    values
}

#[test]
fn htb_follows_its_token_buckets_at_every_node() {
    let mut deep = 0;
    for seed in 0..900 {
        let mut dice = Dice::new(seed ^ 0x7eb7b);
        let largest = dice.from(1, 12) as u32;
        let classes =
            grown(&mut dice, LEVELS as u64, &mut |dice, is_leaf| htb_class(dice, largest, is_leaf));
        let spec = tree("htb", largest, &classes);
        deep += u64::from(classes.iter().any(|c| c.parts.iter().any(|c| !c.parts.is_empty())));
        beside(&spec, HtbModel::of(&classes), &mut dice, seed);
    }
    assert!(deep > 300, "{deep}");
}

/// A class of hClock.
#[derive(Clone)]
struct Tags {
    /// Nanoseconds per byte at the reservation, and at the limit; the weight.
    rules: (Option<u64>, Option<u64>, u64),
    /// The clocks of the reservation (`R`), the limit (`L`) and the weight (`P`).
    clocks: (u64, u64, Fraction),
    /// Virtual time of its parts.
    v: Fraction,
    /// Queued packets, the one on the wire included.
    waiting: u32,
}

struct ByTags {
    classes: Vec<Place<Tags>>,
    v: Fraction,
    largest: u64,
}

/// Reservation in bits per second: the configured one, or the sum of the parts.
fn reservation(class: &Class) -> u64 {
    let below = || class.parts.iter().map(reservation).sum();
    class.values.rate("reservation").map_or_else(below, |rate| rate.0)
}

impl ByTags {
    fn of(spec: &PipeSpec, classes: &[Class]) -> ByTags {
        let mut make = |class: &Class| Tags {
            rules: (
                8_000_000_000u64.checked_div(reservation(class)),
                nanos_of_a_byte(&class.values, "limit"),
                class.values.count("weight").unwrap_or(1),
            ),
            clocks: (0, 0, Fraction::ZERO),
            v: Fraction::ZERO,
            waiting: 0,
        };
        ByTags {
            classes: places(classes, &mut make),
            v: Fraction::ZERO,
            largest: spec.setup.largest.into(),
        }
    }
}

fn serves(places: &[Place<Tags>], heads: Heads<'_>, now: u64) -> Option<usize> {
    let below = |place: &Place<Tags>| match place.leaf {
        Some(f) => heads[f].map(|_| f),
        None => serves(&place.parts, heads, now),
    };
    let due = |place: &Place<Tags>| {
        let ((reserved, ..), (r, ..)) = (place.own.rules, place.own.clocks);
        below(place).filter(|_| reserved.is_some() && r <= now).map(|f| (r, place.number, f))
    };
    let weighed = |place: &Place<Tags>| {
        let ((_, limited, _), (_, l, p)) = (place.own.rules, place.own.clocks);
        below(place).filter(|_| limited.is_none() || l <= now).map(|f| (p, place.number, f))
    };
    let first = places.iter().filter_map(due).min().map(|(_, _, f)| f);
    first.or_else(|| places.iter().filter_map(weighed).min().map(|(_, _, f)| f))
}

impl Model for ByTags {
    fn came(&mut self, f: usize, _: u32, _: bool, now: u64) {
        let mut v = self.v;
        way(&mut self.classes, f, |place| {
            let class = &mut place.own;
            let (r, l, p) = &mut class.clocks;
            if class.waiting == 0 {
                (*r, *l, *p) = ((*r).max(now), (*l).max(now), (*p).max(v));
            }
            class.waiting += 1;
            v = class.v;
        });
    }
    fn passes(&mut self, _: &[bool], _: Option<usize>, _: u64) {}
    fn choose(&self, heads: &[Option<u32>], now: u64) -> Option<usize> {
        serves(&self.classes, heads, now)
    }
    fn begin(&mut self, f: usize, bytes: u32, now: u64) {
        let (mut v, largest) = (self.v, self.largest);
        let mut later = Vec::new();
        way(&mut self.classes, f, |place| {
            let class = &mut place.own;
            let ((reserved, limited, weight), (r, l, p)) = (class.rules, &mut class.clocks);
            match reserved.filter(|_| *r <= now) {
                Some(byte) => *r += u64::from(bytes) * byte,
                None => {
                    *p = (*p).max(v);
                    v = *p;
                }
            }
            if let Some(byte) = limited {
                *l = (*l).max(now.saturating_sub(largest * byte)) + u64::from(bytes) * byte;
            }
            *p = p.plus(Fraction::new(bytes, weight));
            later.push(v);
            v = class.v;
        });
        let mut later = later.into_iter();
        self.v = later.next().expect("a leaf is somewhere");
        way(&mut self.classes, f, |place| {
            if let Some(v) = later.next() {
                place.own.v = v;
            }
        });
    }
    fn left(&mut self, f: usize, _: Option<u32>, _: u64) {
        way(&mut self.classes, f, |place| place.own.waiting -= 1);
    }
}

/// Without limits below reservations: a reservation that no part may use is lost, which another
/// test covers.
#[test]
fn hclock_goes_by_its_clocks_at_every_node() {
    fn plain(class: &Class, reserved: bool) -> bool {
        let own = reservation(class);
        let whole = own == 0 || 8_000_000_000u64.is_multiple_of(own);
        let free = !reserved || class.values.rate("limit").is_none();
        whole && free && class.parts.iter().all(|part| plain(part, reserved || own > 0))
    }
    let (mut accepted, mut deep, mut limits) = (0, 0, 0);
    for seed in 0..4_000 {
        let mut dice = Dice::new(seed ^ 0x7c10c);
        let largest = dice.from(1, 12) as u32;
        let mut values = |dice: &mut Dice, _: bool| {
            let mut values = Values::default().with("weight", Value::Count(1 << dice.from(0, 4)));
            for (name, all, often) in [
                ("reservation", [50, 100, 125, 250, 500], 2),
                ("limit", [125, 200, 250, 500, 1000], 4),
            ] {
                if dice.from(1, often) == 1 {
                    values.set(name, Value::Rate(Rate::from_mbit(dice.one_of(&all))));
                }
            }
            values
        };
        let classes = grown(&mut dice, LEVELS as u64, &mut values);
        let spec = tree("mclock", largest, &classes);
        let divided = classes.iter().any(|c| !c.parts.is_empty());
        if !divided
            || Engine::new(std::slice::from_ref(&spec)).is_err()
            || !classes.iter().all(|c| plain(c, false))
        {
            continue;
        }
        accepted += 1;
        deep += u64::from(classes.iter().any(|c| c.parts.iter().any(|c| !c.parts.is_empty())));
        limits += u64::from(
            classes.iter().any(|c| !c.parts.is_empty() && c.values.rate("limit").is_some()),
        );
        beside(&spec, ByTags::of(&spec, &classes), &mut dice, seed);
    }
    assert!(accepted > 200 && deep > 50 && limits > 20, "{accepted} {deep} {limits}");
}

/// All orders of four packets: of any leaf, of two lengths, at once or after a pause.
fn small_scope(spec: &PipeSpec, leaves: u64, mut model: impl FnMut(&[Arrival], u64)) {
    let choices = leaves * 2 * 3;
    for n in 0..choices.pow(4) {
        let (mut rest, mut at, mut arrivals) = (n, 0, Vec::new());
        for _ in 0..4 {
            let choice = rest % choices;
            rest /= choices;
            at += [0, 13, 64][(choice / (2 * leaves)) as usize];
            let bytes = if (choice / leaves).is_multiple_of(2) { 1 } else { spec.setup.largest };
            arrivals.push(Arrival { at: Time(at), flow: FlowId((choice % leaves) as u32), bytes });
        }
        model(&arrivals, n);
    }
}

#[test]
fn whatever_few_packets_do_the_models_do() {
    let share = |mbit_: u64| mbit(&[("share", mbit_)]);
    let curves = vec![
        inner(
            mbit(&[("share", 250), ("limit", 250)]),
            vec![leaf(mbit(&[("rate", 125)])), leaf(share(250))],
        ),
        leaf(share(125)),
    ];
    let spec = tree("hfsc", 3, &curves);
    small_scope(&spec, 3, |arrivals, n| with(&spec, ByCurves::of(&spec, &curves), arrivals, n));
    let rates = |rate: u64, ceil: u64| {
        let values = mbit(&[("rate", rate), ("ceil", ceil)]);
        values.with("burst", Value::Bytes(3)).with("ceil-burst", Value::Bytes(3))
    };
    let classes = vec![
        inner(rates(250, 500), vec![leaf(rates(125, 500)), leaf(rates(50, 250))]),
        leaf(rates(250, 1000)),
    ];
    let spec = tree("htb", 3, &classes);
    small_scope(&spec, 3, |arrivals, n| with(&spec, HtbModel::of(&classes), arrivals, n));
    let weight = |values: Values, weight| values.with("weight", Value::Count(weight));
    let classes = vec![
        inner(
            mbit(&[("limit", 500)]),
            vec![leaf(mbit(&[("reservation", 250)])), leaf(weight(Values::default(), 4))],
        ),
        leaf(weight(mbit(&[("reservation", 125)]), 2)),
    ];
    let spec = tree("mclock", 3, &classes);
    small_scope(&spec, 3, |arrivals, n| with(&spec, ByTags::of(&spec, &classes), arrivals, n));
}

/// Random values, which are valid together often enough.
fn values(kind: &str, dice: &mut Dice, is_leaf: bool) -> Values {
    let part = |dice: &mut Dice| Rate::from_mbit(dice.from(5, 90));
    match kind {
        "hfsc" => {
            let mut values = Values::default().with("share", Value::Rate(part(dice)));
            if is_leaf && dice.from(0, 3) > 0 {
                values.set("rate", Value::Rate(part(dice)));
                if dice.from(0, 1) == 0 {
                    values.set("burst-rate", Value::Rate(part(dice)));
                    values.set("burst-time", Value::Span(Span(dice.from(0, 2_000))));
                }
            }
            if dice.from(0, 3) == 0 {
                values.set("limit", Value::Rate(part(dice)));
            }
            values
        }
        "htb" => {
            let rate = part(dice);
            let burst = |dice: &mut Dice| Value::Bytes(dice.from(12, 1_500));
            let ceil = Rate(rate.0 + dice.from(0, 200) * 1_000_000);
            let values =
                Values::default().with("rate", Value::Rate(rate)).with("ceil", Value::Rate(ceil));
            values.with("burst", burst(dice)).with("ceil-burst", burst(dice))
        }
        _ => {
            let mut values = Values::default().with("weight", Value::Count(dice.from(1, 20)));
            if is_leaf && dice.from(0, 2) > 0 {
                values.set("reservation", Value::Rate(part(dice)));
            }
            if dice.from(0, 3) == 0 {
                values.set("limit", Value::Rate(Rate::from_mbit(dice.from(90, 800))));
            }
            values
        }
    }
}

/// A leaf's real-time curve, reservation or rate is kept with any classes above it, also if these
/// and other classes have limits.
#[test]
fn no_leaf_of_a_tree_waits_longer_than_guaranteed() {
    for kind in ["hfsc", "htb", "mclock"] {
        let (mut guaranteed, mut nearest) = (0, 0.0f64);
        for seed in 0..700 {
            let mut dice = Dice::new(seed ^ 0x9a0f);
            let classes =
                grown(&mut dice, LEVELS as u64, &mut |dice, is_leaf| values(kind, dice, is_leaf));
            let spec = tree(kind, 12, &classes);
            let Ok(engine) = Engine::new(std::slice::from_ref(&spec)) else { continue };
            for e in emits(&run(&spec, &bursts(&mut dice, &spec, 30_000), |_, _, _| {})) {
                let Ok(guarantee) = engine.guarantee(PipeId(0), e.flow) else { continue };
                guaranteed += 1;
                let delay = e.end - e.arrival;
                assert!(
                    delay <= guarantee.delay.delay,
                    "seed {seed}: {delay} > {}: {spec:?}",
                    guarantee.delay.delay
                );
                nearest = nearest.max(delay.0 as f64 / guarantee.delay.delay.0 as f64);
            }
        }
        assert!(guaranteed > 20_000 && nearest > 0.6, "{kind}: {guaranteed} {nearest}");
    }
}

/// Bytes of each leaf between two instants, if all leaves are backlogged throughout.
fn backlogged(spec: &PipeSpec, from: u64, to: u64) -> Vec<u64> {
    let leaves = spec.setup.leaves().len() as u32;
    let largest = spec.setup.largest;
    let mut spec = spec.clone();
    (0..leaves as usize)
        .for_each(|n| spec.setup.leaf_mut(n).expect("there is one").limit = Limit::Packets(4));
    let mut engine = Engine::new(&[spec]).expect("accepted");
    let (mut out, mut sent, mut queued) =
        (Vec::new(), vec![0; leaves as usize], vec![0; leaves as usize]);
    let mut now = Time::ZERO;
    while now.0 < to {
        for f in 0..leaves {
            while queued[f as usize] < 4 {
                queued[f as usize] += 1;
                engine.input(
                    PipeId(0),
                    Unit { flow: FlowId(f), handle: 0, bytes: largest },
                    now,
                    &mut out,
                );
            }
        }
        now = engine.next_event();
        engine.poll(now, &mut out);
        for e in emits(&std::mem::take(&mut out)) {
            queued[e.flow.index()] -= 1;
            if (from..to).contains(&e.start.0) {
                sent[e.flow.index()] += u64::from(e.bytes);
            }
        }
    }
    sent
}

/// Passes the sum of the leaves below each class to `each`, class by class, depth first.
fn sums(
    classes: &[Class],
    leaves: &mut impl Iterator<Item = u64>,
    each: &mut impl FnMut(&Class, u64),
) -> u64 {
    let one = |class: &Class| {
        let own = if class.parts.is_empty() {
            leaves.next().expect("one each")
        } else {
            sums(&class.parts, leaves, each)
        };
        each(class, own);
        own
    };
    classes.iter().map(one).sum()
}

/// With all leaves backlogged, every class has its rate if the rates below it fit into it, and none
/// exceeds its ceiling; and the link is idle only if ceilings prevent its use.
#[test]
fn htb_keeps_rates_and_ceilings_and_lends_the_rest() {
    const T: u64 = 2_000_000;
    let bytes = |rate: u64| rate * T / 8_000_000_000;
    let fits = |class: &Class| {
        let below: u64 = class.parts.iter().map(|part| part.values.rate("rate").unwrap().0).sum();
        below <= class.values.rate("rate").unwrap().0
    };
    fn whole(class: &Class, fits: &impl Fn(&Class) -> bool) -> bool {
        fits(class) && class.parts.iter().all(|part| whole(part, fits))
    }
    fn reach(class: &Class) -> u64 {
        let below = class.parts.iter().map(reach).sum();
        class.values.rate("ceil").unwrap().0.min(if class.parts.is_empty() {
            u64::MAX
        } else {
            below
        })
    }
    let (mut lent, mut full, mut tested) = (0, 0, 0);
    for seed in 0..2_000 {
        let mut dice = Dice::new(seed ^ 0x4ea1);
        let mut rates = |dice: &mut Dice, is_leaf: bool| {
            let rate = dice.from(10, if is_leaf { 80 } else { 300 });
            let ceil = rate + dice.from(0, 400);
            let values = mbit(&[("rate", rate), ("ceil", ceil)]);
            values.with("burst", Value::Bytes(400)).with("ceil-burst", Value::Bytes(400))
        };
        let classes = grown(&mut dice, 3, &mut rates);
        let top: u64 = classes.iter().map(|class| class.values.rate("rate").unwrap().0).sum();
        if top > 1_000_000_000 || !classes.iter().all(|class| whole(class, &fits)) {
            continue;
        }
        tested += 1;
        let spec = tree("htb", 10, &classes);
        let sent = backlogged(&spec, 200_000, 200_000 + T);
        let slack = 2_000 + 20 * sent.len() as u64;
        let all = sums(&classes, &mut sent.iter().copied(), &mut |class, own| {
            let (rate, ceil) =
                (class.values.rate("rate").unwrap(), class.values.rate("ceil").unwrap());
            let least = bytes(rate.0.min(reach(class)));
            assert!(own + slack >= least, "seed {seed}: {own} B, not {least} of {class:?}");
            assert!(
                own <= bytes(ceil.0) + slack,
                "seed {seed}: {own} B, ceiling {}: {class:?}",
                bytes(ceil.0)
            );
            lent += u64::from(own > bytes(rate.0) + slack);
        });
        let reach: u64 = classes.iter().map(reach).sum();
        let least = bytes(reach.min(1_000_000_000));
        full += u64::from(reach >= 1_000_000_000);
        assert!(
            all + slack >= least,
            "seed {seed}: {all} B, and {least} could be used: {classes:?}"
        );
    }
    assert!(tested > 150 && lent > 150 && full > 10, "{tested} {lent} {full}");
}

/// A class in the middle of a tree, whose parts have weights only, gets its reservation beside
/// neighbors of great weight, and no more than its limit.
#[test]
fn hclock_reserves_and_limits_for_classes_above_the_leaves() {
    let weight = |values: Values, weight| values.with("weight", Value::Count(weight));
    for (reserved, limit) in [(300, 1000), (100, 250), (450, 450)] {
        let heavy = || leaf(weight(Values::default(), 1000));
        let parts = vec![leaf(Values::default()), leaf(weight(Values::default(), 3))];
        let group = inner(mbit(&[("reservation", reserved), ("limit", limit)]), parts);
        let spec = tree("mclock", 10, &[inner(Values::default(), vec![group, heavy()]), heavy()]);
        let sent = backlogged(&spec, 100_000, 1_100_000);
        let (own, least) = (sent[0] + sent[1], reserved * 125);
        assert!(own + 60 >= least && own <= limit * 125 + 60, "{sent:?}");
        assert!((3 * sent[0]).abs_diff(sent[1]) <= 60, "{sent:?}");
    }
}

/// If all parts of a class are at their limits, the class cannot use its whole reservation. The
/// unused part is lost: it is not a debt that others pay later.
#[test]
fn a_reservation_that_no_class_below_may_use_is_lost() {
    let group = inner(
        mbit(&[("reservation", 600)]),
        vec![leaf(mbit(&[("limit", 10)])), leaf(Values::default())],
    );
    let spec = tree("mclock", 10, &[group, leaf(mbit(&[("reservation", 400)]))]);
    // For a long time, the limited part of the group and the other class send. Then the other part
    // of the group sends, too.
    let every = |f: u32, from: u64| (from..400_000).step_by(160).map(move |at| (at, f));
    let mut arrivals: Vec<(u64, u32)> =
        every(0, 0).chain(every(1, 200_000)).chain(every(2, 0)).collect();
    arrivals.sort_unstable();
    let arrival = |(at, f)| Arrival { at: Time(at), flow: FlowId(f), bytes: 10 };
    let mut spec = spec;
    for n in 0..3 {
        spec.setup.leaf_mut(n).expect("there are three").limit = Limit::Packets(4_000);
    }
    let arrivals: Vec<Arrival> = arrivals.into_iter().map(arrival).collect();
    let sent = emits(&run(&spec, &arrivals, |_, _, _| {}));
    let of = |f: u32| {
        sent.iter().filter(|e| e.flow.0 == f && (200_000..220_000).contains(&e.start.0)).count()
    };
    // In 20 us the link sends 250 packets, two fifths of which are reserved for the other class.
    assert!(of(2) >= 98, "{} and {}", of(1), of(2));
}

/// Two classes exchange their rates while packets are queued: from then on each has the other's
/// rate.
#[test]
fn classes_change_while_packets_wait() {
    for (kind, name) in [("hfsc", "share"), ("htb", "rate"), ("mclock", "reservation")] {
        let set = |a: u64, b: u64| {
            let rate = |mbit_: u64| mbit(&[(name, mbit_)]);
            let group = |of: u64| {
                let own = if kind == "mclock" { Values::default() } else { rate(of) };
                inner(own, vec![leaf(rate(of / 2)), leaf(rate(of / 2))])
            };
            let mut spec = tree(kind, 4, &[group(a), group(b)]);
            for n in 0..4 {
                spec.setup.leaf_mut(n).expect("there are four").limit = Limit::Packets(4_000);
            }
            spec
        };
        let mut engine = Engine::new(&[set(750, 250)]).unwrap();
        let mut out = Vec::new();
        for f in 0..4 {
            for handle in 0..2_000 {
                engine.input(
                    PipeId(0),
                    Unit { flow: FlowId(f), handle, bytes: 4 },
                    Time(0),
                    &mut out,
                );
            }
        }
        engine.poll(Time(32_000), &mut out);
        let change = engine.prepare(PipeId(0), &set(250, 750)).unwrap();
        engine.apply(change, Time(32_000), &mut out).unwrap();
        engine.poll(Time(1 << 40), &mut out);
        let sent = emits(&out);
        assert_eq!(sent.len(), 8_000, "{kind}");
        let first = |from: u64| {
            let within = sent.iter().filter(|e| (from..from + 32_000).contains(&e.start.0));
            within.filter(|e| e.flow.0 < 2).count()
        };
        let (before, after) = (first(0), first(32_000));
        assert!(
            (730..=770).contains(&before) && (230..=280).contains(&after),
            "{kind}: {before} {after}"
        );
    }
}

/// A victim flow in one class and its neighbor in another, with the same parameters as in the test
/// without classes in `minima.rs`.
#[test]
fn a_victim_in_a_tree_waits_for_a_whole_frame() {
    let (ours, theirs) = (193.6, 833.6);
    let none = Values::default;
    for (kind, victim, neighbour) in [
        (
            "hfsc",
            [mbit(&[("share", 1)]), mbit(&[("share", 1)])],
            [mbit(&[("share", 9)]), mbit(&[("share", 9)])],
        ),
        ("hfsc", [none(), mbit(&[("rate", 1)])], [mbit(&[("share", 9)]), mbit(&[("share", 9)])]),
        (
            "htb",
            [mbit(&[("rate", 1)]), mbit(&[("rate", 1)])],
            [mbit(&[("rate", 9)]), mbit(&[("rate", 9)])],
        ),
        ("mclock", [none(), mbit(&[("reservation", 1)])], [none(), none()]),
    ] {
        let class = |[above, below]: [Values; 2]| {
            inner(above, vec![Class { limit: Limit::Bytes(100_000), ..leaf(below) }])
        };
        let setup = setup(kind, Rate::from_mbit(10), 1514, &[class(victim), class(neighbour)]);
        let longest = longest_wait_of_a_victim(&PipeSpec::new(kind, setup, Span::ZERO));
        let most = ours + theirs;
        assert!(
            longest <= most + 0.001 && longest > most - 10.0,
            "{kind}: {longest} us, not {most} us"
        );
    }
}
