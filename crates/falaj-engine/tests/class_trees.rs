//! Trees of classes that a discipline is handed whole: worked examples, naive models, and what every node is to have. One
//! byte takes 8 ns.

mod common;

use common::fraction::Fraction;
use common::stepwise::{Model, beside, with};
use common::{Arrival, Dice};
use falaj_engine::Engine;
use falaj_engine::pipe::PipeSpec;
use falaj_sched::params::{FlowSetup, Inner, Setup, Value, Values};
use falaj_sched::queue::{FlowId, Limit};
use falaj_sched::rate::Rate;
use falaj_sched::time::{Span, Time};
use std::collections::BTreeSet;

/// Levels of classes here.
const LEVELS: usize = 4;

/// A class, and those below it.
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
    set.iter().fold(Values::default(), |all, &(name, mbit)| all.with(name, Value::Rate(Rate::from_mbit(mbit))))
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

/// Random classes: some levels, some parts each.
fn grown(dice: &mut Dice, levels: u64, values: &mut impl FnMut(&mut Dice, bool) -> Values) -> Vec<Class> {
    let one = |dice: &mut Dice, values: &mut dyn FnMut(&mut Dice, bool) -> Values, parts: Vec<Class>| Class {
        values: values(dice, parts.is_empty()),
        limit: Limit::Packets(dice.from(1, 12) as u32),
        parts,
    };
    let n = dice.from(1, 3);
    (0..n)
        .map(|_| {
            let parts = if levels > 1 && dice.from(0, 2) > 0 { grown(dice, levels - 1, values) } else { Vec::new() };
            one(dice, values, parts)
        })
        .collect()
}

fn nanos_of_a_byte(values: &Values, name: &str) -> Option<u64> {
    Some(8_000_000_000 / values.rate(name)?.0)
}

/// A class of a model: its place, the way to it from the link, and what is below it.
#[derive(Clone)]
struct Place<T> {
    own: T,
    /// Leaves are numbered first, then the others as they come: of equals the lower one goes first.
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
                out.push(Place { own, number, leaf: None, parts: grow(&class.parts, make, leaves, others) });
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

/// A curve's first slope, how long, second slope; and all the points at which it began anew, in (time, bytes): the
/// curve is the least of all copies from these points. In nanoseconds of a byte.
#[derive(Clone)]
struct Copies {
    slopes: (u64, u64, u64),
    begins: Vec<(Fraction, u64)>,
}

impl Copies {
    fn of(values: &Values, [rate, first, time]: [&str; 3]) -> Option<Copies> {
        let second = nanos_of_a_byte(values, rate)?;
        let slopes = (nanos_of_a_byte(values, first).unwrap_or(second), values.span(time).map_or(0, |s| s.0), second);
        Some(Copies { slopes, begins: Vec::new() })
    }
    /// When it reaches so many bytes.
    fn reaches(&self, bytes: u64) -> Fraction {
        let (first, time, second) = self.slopes;
        let one = |&(from, at): &(Fraction, u64)| {
            let more = Fraction::of(bytes).minus(Fraction::of(at));
            let steep = more.times(first, 1u64);
            let then = Fraction::of(time).plus(more.minus(Fraction::new(time, first)).times(second, 1u64));
            from.plus(steep.max(then))
        };
        self.begins.iter().map(one).max().unwrap_or(Fraction::ZERO)
    }
}

fn whole(time: Fraction) -> Fraction {
    Fraction::ZERO.minus(Fraction::ZERO.minus(time).floor(Fraction::of(1)))
}

/// A class of H-FSC.
#[derive(Clone)]
struct Curves {
    real_time: Option<Copies>,
    sharing: Copies,
    /// Nanoseconds of a byte, and when it may be shared with again.
    limit: Option<u64>,
    limited: u64,
    /// Bytes sent for the real-time curve, and at all.
    kept: u64,
    sent: u64,
    /// Of those below it.
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
            own.map_or_else(|| if class.parts.is_empty() { 1_000_000 } else { below() }, |rate| rate.0)
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
        ByCurves { classes: places(classes, &mut make), v: Fraction::ZERO, largest: spec.setup.largest.into() }
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
                class.limited = class.limited.max(now.saturating_sub(largest * byte)) + bytes * byte;
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
            for [rate, first, time] in [["rate", "burst-rate", "burst-time"], ["share", "share-burst", "share-time"]] {
                if dice.from(0, 3) == 0 || rate == "rate" && !is_leaf {
                    continue;
                }
                // A power of two apart, so that the clocks are exact.
                let slow = dice.from(1, 2);
                values.set(rate, Value::Rate(Rate::from_mbit(125 * slow)));
                if dice.from(0, 1) == 0 {
                    values.set(first, Value::Rate(Rate::from_mbit(125 * slow * dice.one_of(&[1, 2, 4]))));
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
        limits += u64::from(classes.iter().any(|c| !c.parts.is_empty() && c.values.rate("limit").is_some()));
        beside(&spec, ByCurves::of(&spec, &classes), &mut dice, seed);
    }
    assert!(accepted > 500 && deep > 150 && limits > 100, "{accepted} {deep} {limits}");
}

/// A bucket as a purse, in nanoseconds of its rate.
#[derive(Clone)]
struct Purse {
    byte: i64,
    most: i64,
    holds: i64,
}

impl Purse {
    fn of(values: &Values, rate: &str, burst: &str) -> Purse {
        let byte = nanos_of_a_byte(values, rate).expect("it is set") as i64;
        let most = byte * values.bytes(burst).expect("it is set") as i64;
        Purse { byte, most, holds: most }
    }
    fn pay(&mut self, bytes: u32) {
        self.holds -= self.byte * i64::from(bytes);
    }
}

/// A class of HTB.
#[derive(Clone)]
struct Purses {
    own: Purse,
    ceil: Purse,
    prio: u64,
    /// Virtual time of a byte, and the next start: at each priority, on own account and borrowed.
    byte: u64,
    turns: [[u64; 2]; 8],
    /// The last start of those that borrow from it.
    now: [u64; 8],
}

struct ByPurses {
    classes: Vec<Place<Purses>>,
    /// Of leaves on their own account; of lenders, by how deep they are; and of who borrows from the link.
    leaves: [u64; 8],
    lenders: [[u64; 8]; LEVELS + 1],
    link: [u64; 8],
}

impl Purses {
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

/// Whom a class would lend to at a priority: from step to step the one with the earliest turn.
fn borrower(places: &[Place<Purses>], heads: Heads<'_>, prio: u64) -> Option<usize> {
    let one = |place: &Place<Purses>| {
        let f = match place.leaf {
            Some(f) => heads[f].filter(|_| place.own.prio == prio).map(|_| f),
            None => borrower(&place.parts, heads, prio),
        };
        f.filter(|_| place.own.is_yellow()).map(|f| (place.own.turns[prio as usize][1], place.number, f))
    };
    places.iter().filter_map(one).min().map(|(_, _, f)| f)
}

/// The leaf of those on own account, or of a lender at this depth, as (turn, number, leaf).
fn on_own(places: &[Place<Purses>], heads: Heads<'_>, prio: u64, depth: Option<usize>) -> Option<(u64, usize, usize)> {
    let one = |place: &Place<Purses>| {
        let below = on_own(&place.parts, heads, prio, depth.map(|d| d.wrapping_sub(1)));
        let f = match (place.leaf, depth) {
            (Some(f), None) => heads[f].filter(|_| place.own.prio == prio).map(|_| f),
            (None, Some(1)) => borrower(&place.parts, heads, prio),
            _ => None,
        };
        let own = f.filter(|_| place.own.is_green()).map(|f| (place.own.turns[prio as usize][0], place.number, f));
        own.into_iter().chain(below).min()
    };
    places.iter().filter_map(one).min()
}

impl ByPurses {
    fn of(classes: &[Class]) -> ByPurses {
        let mut make = |class: &Class| Purses {
            own: Purse::of(&class.values, "rate", "burst"),
            ceil: Purse::of(&class.values, "ceil", "ceil-burst"),
            prio: class.values.count("prio").unwrap_or(0),
            byte: match class.values.bytes("quantum") {
                Some(bytes) => 100_000_000 / bytes,
                None => nanos_of_a_byte(&class.values, "rate").expect("it is set"),
            },
            turns: [[0; 2]; 8],
            now: [0; 8],
        };
        let classes = places(classes, &mut make);
        ByPurses { classes, leaves: [0; 8], lenders: [[0; 8]; LEVELS + 1], link: [0; 8] }
    }
}

fn turn(now: &mut u64, turn: &mut u64, work: u64) {
    *now = (*now).max(*turn);
    *turn = *now + work;
}

fn all(places: &mut [Place<Purses>], each: &mut impl FnMut(&mut Purses)) {
    for place in places {
        each(&mut place.own);
        all(&mut place.parts, each);
    }
}

impl Model for ByPurses {
    fn came(&mut self, _: usize, _: u32, _: bool, _: u64) {}
    fn passes(&mut self, _: &[bool], _: Option<usize>, now: u64) {
        if now > 0 {
            all(&mut self.classes, &mut |class| {
                for purse in [&mut class.own, &mut class.ceil] {
                    purse.holds = (purse.holds + 1).min(purse.most);
                }
            });
        }
    }
    fn choose(&self, heads: &[Option<u32>], _: u64) -> Option<usize> {
        // Who is red sends nothing: most of the time that is all there is to see.
        let may = |f: usize| heads[f].is_some() && !leaf_of(&self.classes, f).is_red();
        let prios: BTreeSet<u64> =
            (0..heads.len()).filter(|&f| may(f)).map(|f| leaf_of(&self.classes, f).prio).collect();
        let levels = std::iter::once(None).chain((1..=LEVELS).rev().map(Some));
        let own = levels.flat_map(|level| prios.iter().map(move |&prio| (level, prio)));
        let found = own.filter_map(|(level, prio)| on_own(&self.classes, heads, prio, level)).next();
        let first = found.map(|(_, _, f)| f);
        first.or_else(|| prios.iter().find_map(|&prio| borrower(&self.classes, heads, prio)))
    }
    fn begin(&mut self, f: usize, bytes: u32, _: u64) {
        let prio = leaf_of(&self.classes, f).prio as usize;
        // Who lends: the deepest class that is green. The link is above all.
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
                let now = if place.leaf.is_some() { &mut *leaves } else { &mut lenders[depth + 1][prio] };
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
fn htb_goes_by_its_purses_at_every_node() {
    let mut deep = 0;
    for seed in 0..900 {
        let mut dice = Dice::new(seed ^ 0x7eb7b);
        let largest = dice.from(1, 12) as u32;
        let classes = grown(&mut dice, LEVELS as u64, &mut |dice, is_leaf| htb_class(dice, largest, is_leaf));
        let spec = tree("htb", largest, &classes);
        deep += u64::from(classes.iter().any(|c| c.parts.iter().any(|c| !c.parts.is_empty())));
        beside(&spec, ByPurses::of(&classes), &mut dice, seed);
    }
    assert!(deep > 300, "{deep}");
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
            let bytes = if choice / leaves % 2 == 0 { 1 } else { spec.setup.largest };
            arrivals.push(Arrival { at: Time(at), flow: FlowId((choice % leaves) as u32), bytes });
        }
        model(&arrivals, n);
    }
}

#[test]
fn whatever_few_packets_do_the_models_do() {
    let share = |mbit_: u64| mbit(&[("share", mbit_)]);
    let curves = vec![
        inner(mbit(&[("share", 250), ("limit", 250)]), vec![leaf(mbit(&[("rate", 125)])), leaf(share(250))]),
        leaf(share(125)),
    ];
    let spec = tree("hfsc", 3, &curves);
    small_scope(&spec, 3, |arrivals, n| with(&spec, ByCurves::of(&spec, &curves), arrivals, n));
    let purses = |rate: u64, ceil: u64| {
        let values = mbit(&[("rate", rate), ("ceil", ceil)]);
        values.with("burst", Value::Bytes(3)).with("ceil-burst", Value::Bytes(3))
    };
    let classes =
        vec![inner(purses(250, 500), vec![leaf(purses(125, 500)), leaf(purses(50, 250))]), leaf(purses(250, 1000))];
    let spec = tree("htb", 3, &classes);
    small_scope(&spec, 3, |arrivals, n| with(&spec, ByPurses::of(&classes), arrivals, n));
}
