//! Hierarchical token buckets: a rate that is a class's own, and a ceiling up to which it borrows.
//!
//! Devera's HTB (2002), as Linux has it. A class has two buckets. While neither is in debt it is *green*; with debt in that
//! of its `rate` alone it is *yellow*; with debt in that of its `ceil` it is *red*. A green leaf sends on its own account. A
//! yellow one borrows from the class above, if that is green, or that from the one above it, and so on; in the end from the
//! link, which always lends. Who is red sends nothing, and nobody below borrows through it.
//!
//! First go green leaves, then what is borrowed from the deepest classes, last from the link. Among these the best priority goes
//! first; equals, at each step from the lender down, share in proportion to their quanta, that is to their rates unless set. A packet is
//! charged to the rates of the lender and of all above it, and to the ceilings of the leaf and of all above it.
//!
//! - A bucket may be overdrawn by the packet that empties it, and by what green leaves send below it: they ask nobody, as in
//!   Linux. A debt is forgiven beyond a minute, as there.
//! - Bursts are what the rate is in a millisecond if nothing is set. Smaller ones cost throughput on links of many hundred megabits, as
//!   whoever comes back late to a full bucket has lost what did not fit.
//! - Equals take turns by virtual starts, where Linux has deficits: the same shares, without its turns of many packets. Who is
//!   chosen starts no earlier than the last one did, so that nobody saves.
//!
//! Keys only rise. So a class stays in the orders that it has left, and is put out when it has come to the top; its colour
//! is looked at where a packet was charged to it and when its debt is paid. A packet touches the tops of a few heaps.

use crate::bucket::{BURST, Bucket, RATE, begun, bucket, usual_burst};
use crate::classes::{Classes, LINK, Shape};
use crate::discipline::{Answer, Discipline, Sent};
use crate::fits::Excess;
use crate::params::{FlowSetup, Kind, Param, Refusals, Refused, Setup};
use crate::promise::{Bound, NoPromise, Promise, full_queue};
use crate::quad_heap::Heap;
use crate::queue::{FlowId, Flows};
use crate::rate::{Rate, Wire};
use crate::registry::Entry;
use crate::shares::{Instant, ROUNDING, instant, pace, rescaled};
use crate::time::{Span, Time};
use crate::virtual_time::ahead;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// How it is named and set.
pub const ENTRY: Entry = Entry {
    kind: "htb",
    doc: "token buckets: each class a rate of its own, and a ceiling up to which it borrows from the classes above, O(depth log N)",
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
            doc: "0 goes first, on its own account and in borrowing; of flows that are not divided",
        },
        Param {
            name: "quantum",
            kind: Kind::Bytes,
            default: Some("what the rate is in a tenth of a second"),
            doc: "its share among equals, in proportion to their quanta",
        },
    ],
};

/// Turns are compared in 2^-20 ns.
const KEY: u32 = 20;
/// And are never further ahead than this: an hour, so that keys can be told apart.
const FAR: Instant = instant(Time(3_600_000_000_000));
/// Longer debts are forgiven.
const DEBT: Instant = instant(Time(60_000_000_000));
const PRIORITIES: usize = 8;

/// Hierarchical token buckets.
#[derive(Debug, Clone)]
pub struct Htb {
    shape: Shape,
    rules: Vec<Rule>,
    books: Vec<Book>,
    /// Who sends on his own account: leaves, then the deepest divided classes, then those above them.
    green: Vec<Turns>,
    /// The link, and each class that is divided.
    nodes: Vec<Node>,
    /// By when who is not green is it again.
    greening: Heap,
    /// By when who is red is it no longer.
    red: Heap,
    serving: Option<FlowId>,
    link: Rate,
    largest: u32,
    full_queues: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    own: Bucket,
    ceil: Bucket,
    /// Virtual time of a byte.
    pace: Instant,
    /// Of a leaf.
    prio: u8,
    /// Where in `green` its turns are.
    level: u8,
}

/// What is known of a class.
#[derive(Debug, Clone, Default)]
struct Book {
    /// When its buckets will be full.
    own: Instant,
    ceil: Instant,
    /// Of a leaf: virtual starts of its next packet on own account, and borrowed.
    turns: [Instant; 2],
    colour: Colour,
    /// The priorities at which it is in the order of those on own account, and of its node.
    in_green: u8,
    in_node: u8,
    in_greening: bool,
    in_red: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Colour {
    #[default]
    Green,
    Yellow,
    Red,
}

/// Who takes turns, at each priority.
#[derive(Debug, Clone)]
struct Turns {
    orders: [Heap; PRIORITIES],
    /// The last virtual start.
    now: [Instant; PRIORITIES],
    /// Where there may be somebody.
    some: u8,
}

/// What lends to classes.
#[derive(Debug, Clone)]
struct Node {
    yellow: Turns,
    /// As a class: virtual starts of its next packet on own account, and borrowed.
    turns: [[Instant; 2]; PRIORITIES],
}

/// The priorities of a set, the best first.
fn each(mut set: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let first = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        first
    })
}

fn key(turn: Instant) -> u64 {
    (turn >> KEY) as u64
}

impl Turns {
    fn new(classes: [usize; PRIORITIES]) -> Turns {
        Turns { orders: classes.map(Heap::new), now: [0; PRIORITIES], some: 0 }
    }

    #[inline]
    fn push(&mut self, prio: usize, turn: Instant, class: u32) {
        self.orders[prio].push(key(turn), class);
        self.some |= 1 << prio;
    }

    #[inline]
    fn pop(&mut self, prio: usize) {
        self.orders[prio].pop();
        if self.orders[prio].is_empty() {
            self.some &= !(1 << prio);
        }
    }

    /// What `turn` is after so much work.
    #[inline]
    fn go(&mut self, prio: usize, turn: &mut Instant, work: Instant) {
        let now = &mut self.now[prio];
        *now = (*now).max(*turn);
        *turn = (*now).saturating_add(work).min(*now + FAR);
    }

    /// Takes over from turns of which this may be another rule's.
    fn inherit(
        &self,
        turn: Instant,
        (before, was): (usize, &Turns),
        (prio, from, to): (usize, Instant, Instant),
    ) -> Instant {
        self.now[prio] + rescaled(turn.saturating_sub(was.now[before]), from, to).min(FAR)
    }
}

impl Htb {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Htb, Refusals> {
        let all = Classes::new("htb", "HTB", setup)?;
        let shape = &all.shape;
        let depth = |class| shape.path(class).count();
        let deepest = (shape.leaves() as u32..shape.len() as u32).map(depth).max().unwrap_or(0);
        let rule = |(class, number, f): (u32, usize, &FlowSetup)| -> Result<Rule, Refused> {
            let refused = |param, what, help| Refused { flow: Some(number), param, what, help };
            let own = bucket(setup, number, f)?;
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
            let is_leaf = shape.is_leaf(class);
            // As if nothing were set: 0.
            let prio = f.values.count("prio").unwrap_or(0);
            if !is_leaf && prio > 0 {
                let what = "a class that is divided has no priority: its parts have".into();
                return Err(refused("prio", what, "give `prio` to its parts".into()));
            }
            if prio > 7 {
                let what = format!("{prio} is out of range");
                return Err(refused("prio", what, "from 0, which goes first, to 7".into()));
            }
            let quantum = f.values.bytes("quantum");
            if quantum.is_some_and(|bytes| bytes == 0 || bytes > u64::from(u32::MAX)) {
                let what = "such a quantum is no share".into();
                return Err(refused("quantum", what, "from `1B` to `4GB`".into()));
            }
            Ok(Rule {
                own,
                ceil: Bucket::new(ceil, burst),
                // A tenth of a second's bytes.
                pace: pace(quantum.map_or(own.rate, |bytes| Rate(bytes * 80))),
                prio: prio as u8,
                level: if is_leaf { 0 } else { (deepest + 1 - depth(class)) as u8 },
            })
        };
        let rules = all.iter().map(rule).collect::<Result<Vec<_>, _>>()?;
        // Each comes before those below it.
        let mut below = vec![0u8; shape.len()];
        let mut green = vec![[0; PRIORITIES]; deepest + 1];
        let mut yellow = vec![[0; PRIORITIES]; shape.nodes()];
        for class in
            (0..shape.len()).map(|n| if n < shape.leaves() { n } else { shape.len() - 1 - (n - shape.leaves()) })
        {
            if class < shape.leaves() {
                below[class] = 1 << rules[class].prio;
            }
            let node = shape.above(class as u32);
            for prio in each(below[class]) {
                green[usize::from(rules[class].level)][prio] += 1;
                yellow[node][prio] += 1;
            }
            if node != LINK {
                below[shape.class(node) as usize] |= below[class];
            }
        }
        let node = |sizes| Node { yellow: Turns::new(sizes), turns: [[0; 2]; PRIORITIES] };
        Ok(Htb {
            books: vec![Book::default(); rules.len()],
            green: green.into_iter().map(Turns::new).collect(),
            nodes: yellow.into_iter().map(node).collect(),
            greening: Heap::new(rules.len()),
            red: Heap::new(rules.len()),
            serving: None,
            link: setup.rate,
            largest: setup.largest,
            full_queues: all.setups[..shape.leaves()].iter().map(|f| full_queue(setup, f.limit)).collect(),
            rules,
            shape: all.shape,
        })
    }

    /// When its rate, and when its ceiling, is out of debt.
    #[inline]
    fn paid(&self, class: u32) -> [Instant; 2] {
        let (rule, book) = (&self.rules[class as usize], &self.books[class as usize]);
        [rule.own.has(0, book.own), rule.ceil.has(0, book.ceil)]
    }

    #[inline]
    fn colour(&self, class: u32, now: Instant) -> Colour {
        match self.paid(class) {
            [_, ceil] if ceil > now => Colour::Red,
            [own, _] if own > now => Colour::Yellow,
            _ => Colour::Green,
        }
    }

    /// The priorities at which somebody may send in it or below it.
    #[inline]
    fn wants(&self, flows: &Flows<()>, class: u32) -> u8 {
        match self.shape.is_leaf(class) {
            true => u8::from(flows.head(FlowId(class)).is_some()) << self.rules[class as usize].prio,
            false => self.nodes[self.shape.node(class)].yellow.some,
        }
    }

    #[inline]
    fn turns(&self, class: u32, prio: usize) -> &[Instant; 2] {
        match self.shape.is_leaf(class) {
            true => &self.books[class as usize].turns,
            false => &self.nodes[self.shape.node(class)].turns[prio],
        }
    }

    /// Puts a class where its colour says, at these priorities; if it is yellow, those above it too.
    #[inline]
    fn place(&mut self, mut class: u32, mut prios: u8, now: Instant) {
        loop {
            let colour = self.colour(class, now);
            let is_leaf = self.shape.is_leaf(class);
            let book = &mut self.books[class as usize];
            if core::mem::replace(&mut book.colour, colour) != colour && !is_leaf {
                prios |= self.nodes[self.shape.node(class)].yellow.some;
            }
            if prios == 0 {
                return;
            }
            match colour {
                Colour::Green => {
                    let new = prios & !book.in_green;
                    book.in_green |= prios;
                    let level = usize::from(self.rules[class as usize].level);
                    for prio in each(new) {
                        let turn = self.turns(class, prio)[0];
                        self.green[level].push(prio, turn, class);
                    }
                    return;
                }
                Colour::Yellow => {
                    let new = prios & !book.in_node;
                    book.in_node |= prios;
                    if !core::mem::replace(&mut book.in_greening, true) {
                        self.greening.push(begun(self.paid(class)[0]).0, class);
                    }
                    let node = self.shape.above(class);
                    for prio in each(new) {
                        let turn = self.turns(class, prio)[1];
                        self.nodes[node].yellow.push(prio, turn, class);
                    }
                    if node == LINK {
                        return;
                    }
                    class = self.shape.class(node);
                }
                Colour::Red => {
                    if !core::mem::replace(&mut book.in_red, true) {
                        self.red.push(begun(self.paid(class)[1]).0, class);
                    }
                    return;
                }
            }
        }
    }

    /// Those whose debts are paid get another colour.
    #[inline]
    fn wake(&mut self, flows: &Flows<()>, now: Time) {
        while let Some((_, class)) = self.greening.first().filter(|&(at, _)| at <= now.0) {
            let is = begun(self.paid(class)[0]);
            if is > now {
                self.greening.postpone_first(is.0);
            } else {
                self.greening.pop();
                self.books[class as usize].in_greening = false;
                self.place(class, self.wants(flows, class), instant(now));
            }
        }
        while let Some((_, class)) = self.red.first().filter(|&(at, _)| at <= now.0) {
            let is = begun(self.paid(class)[1]);
            if is > now {
                self.red.postpone_first(is.0);
            } else {
                self.red.pop();
                self.books[class as usize].in_red = false;
                self.place(class, self.wants(flows, class), instant(now));
            }
        }
    }

    /// When the next one is paid of those who wait for it: a leaf below a red class may be green before that is yellow.
    fn paid_next(&mut self, flows: &Flows<()>) -> Option<Time> {
        let mut next = None;
        while let Some((at, class)) = self.greening.first() {
            let is = begun(self.paid(class)[0]);
            if self.wants(flows, class) == 0 {
                self.greening.pop();
                self.books[class as usize].in_greening = false;
            } else if is.0 != at {
                self.greening.postpone_first(is.0);
            } else {
                next = Some(is);
                break;
            }
        }
        while let Some((at, class)) = self.red.first() {
            let is = begun(self.paid(class)[1]);
            if self.wants(flows, class) == 0 {
                self.red.pop();
                self.books[class as usize].in_red = false;
            } else if is.0 != at {
                self.red.postpone_first(is.0);
            } else {
                return next.into_iter().chain([is]).min();
            }
        }
        next
    }

    /// The leaf whose turn it is among those of a colour at a priority, on own account at `level` or, without one, of the link.
    #[inline]
    fn first(&mut self, flows: &Flows<()>, level: Option<usize>, prio: usize) -> Option<FlowId> {
        // Whose turns are looked at: the nodes that lend, and at the start maybe those on own account.
        let mut node = level.is_none().then_some(LINK);
        loop {
            let turns = match (node, level) {
                (Some(node), _) => &mut self.nodes[node].yellow,
                (None, Some(level)) => &mut self.green[level],
                (None, None) => unreachable!("it starts somewhere"),
            };
            let (wanted, account) = if node.is_some() { (Colour::Yellow, 1) } else { (Colour::Green, 0) };
            let Some((at, class)) = turns.orders[prio].first() else {
                // Nobody below: back to where this came from, whose first it is.
                match node {
                    None => return None,
                    Some(LINK) if level.is_none() => return None,
                    Some(inner) => {
                        let class = self.shape.class(inner);
                        let lends = self.books[class as usize].colour == Colour::Green;
                        node = (!lends).then(|| self.shape.above(class));
                        self.leave(node, level, prio, class);
                    }
                }
                continue;
            };
            let is_leaf = self.shape.is_leaf(class);
            let idle = is_leaf && flows.head(FlowId(class)).is_none();
            if idle || self.books[class as usize].colour != wanted {
                self.leave(node, level, prio, class);
                continue;
            }
            let is = key(self.turns(class, prio)[account]);
            if ahead(is, at) > 0 {
                match (node, level) {
                    (Some(node), _) => self.nodes[node].yellow.orders[prio].postpone_first(is),
                    (None, Some(level)) => self.green[level].orders[prio].postpone_first(is),
                    (None, None) => {}
                }
            } else if is_leaf {
                return Some(FlowId(class));
            } else {
                node = Some(self.shape.node(class));
            }
        }
    }

    /// The first of an order goes out of it.
    fn leave(&mut self, node: Option<usize>, level: Option<usize>, prio: usize, class: u32) {
        let book = &mut self.books[class as usize];
        match (node, level) {
            (Some(node), _) => {
                book.in_node &= !(1 << prio);
                self.nodes[node].yellow.pop(prio);
            }
            (None, Some(level)) => {
                book.in_green &= !(1 << prio);
                self.green[level].pop(prio);
            }
            (None, None) => {}
        }
    }

    fn choose(&mut self, flows: &Flows<()>) -> Option<FlowId> {
        for level in 0..self.green.len() {
            for prio in each(self.green[level].some) {
                if let Some(f) = self.first(flows, Some(level), prio) {
                    return Some(f);
                }
            }
        }
        each(self.nodes[LINK].yellow.some).find_map(|prio| self.first(flows, None, prio))
    }
}

impl Discipline for Htb {
    type State = ();
    type Tag = ();

    fn start(&mut self, _: &mut Flows<()>) {}

    /// As many tokens are missing as before, or the whole bucket; turns stay as many bytes ahead. Classes above
    /// the leaves stay what they were where all of them stand where they stood, and else begin anew.
    fn succeed(&mut self, old: Htb, flows: &mut Flows<()>, now: Time) {
        self.serving = old.serving;
        let (now, keeps) = (instant(now), self.shape.keeps(&old.shape));
        self.green[0].now = old.green[0].now;
        if keeps {
            self.nodes.iter_mut().zip(&old.nodes).for_each(|(node, was)| node.yellow.now = was.yellow.now);
            self.green.iter_mut().zip(&old.green).for_each(|(turns, was)| turns.now = was.now);
        }
        let leaves = 0..old.shape.leaves() as u32;
        let nodes = (1..old.nodes.len()).filter(|_| keeps).map(|node| (old.shape.class(node), self.shape.class(node)));
        for (before, class) in leaves.map(|f| (f, f)).chain(nodes) {
            let (was, is) = (&old.rules[before as usize], self.rules[class as usize]);
            let book = &old.books[before as usize];
            let own = is.own.inherit(&was.own, book.own, now);
            let ceil = is.ceil.inherit(&was.ceil, book.ceil, now);
            let (from, to) = (old.shape.above(before), self.shape.above(class));
            let turns = |prio: usize, after: usize| {
                let [own, borrowed] = *old.turns(before, prio);
                let rule = (after, was.pace, is.pace);
                let own_turns = (&self.green[usize::from(is.level)], &old.green[usize::from(was.level)]);
                [
                    own_turns.0.inherit(own, (prio, own_turns.1), rule),
                    match keeps && from == to {
                        true => self.nodes[to].yellow.inherit(borrowed, (prio, &old.nodes[from].yellow), rule),
                        false => 0,
                    },
                ]
            };
            if self.shape.is_leaf(class) {
                let turns = turns(was.prio.into(), is.prio.into());
                self.books[class as usize] = Book { own, ceil, turns, ..Book::default() };
            } else {
                let turns = core::array::from_fn(|prio| turns(prio, prio));
                self.books[class as usize] = Book { own, ceil, ..Book::default() };
                self.nodes[self.shape.node(class)].turns = turns;
            }
        }
        for f in 0..old.shape.leaves() as u32 {
            if self.serving != Some(FlowId(f)) {
                self.place(f, self.wants(flows, f), now);
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<()>, f: FlowId, now: Time) {
        self.place(f.0, self.wants(flows, f.0), instant(now));
    }

    /// What it may do depends on its tokens alone; who has nothing is found out when it is his turn.
    fn offer_changed(&mut self, flows: &mut Flows<()>, f: FlowId, now: Time) {
        self.place(f.0, self.wants(flows, f.0), instant(now));
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<()>, now: Time, _: &Wire) -> Answer {
        if let Some(f) = self.serving.take() {
            let mut class = f.0;
            self.place(class, self.wants(flows, class), instant(now));
            while let node @ 1.. = self.shape.above(class) {
                class = self.shape.class(node);
                self.place(class, 0, instant(now));
            }
        }
        self.wake(flows, now);
        match self.choose(flows) {
            Some(f) => Answer::Serve(f),
            None => self.paid_next(flows).map_or(Answer::Idle, Answer::NotBefore),
        }
    }

    #[inline(always)]
    fn take(&mut self, _: &mut Flows<()>, f: FlowId, sent: Sent) {
        let prio = usize::from(self.rules[f.index()].prio);
        let start = instant(sent.start);
        let mut lent = false;
        let mut class = f.0;
        loop {
            let rule = &self.rules[class as usize];
            let node = self.shape.above(class);
            let book = &mut self.books[class as usize];
            if !lent {
                lent = book.colour == Colour::Green;
                let account = usize::from(!lent);
                let mut turn = match self.shape.is_leaf(class) {
                    true => book.turns[account],
                    false => self.nodes[self.shape.node(class)].turns[prio][account],
                };
                let turns = match lent {
                    true => &mut self.green[usize::from(rule.level)],
                    false => &mut self.nodes[node].yellow,
                };
                turns.go(prio, &mut turn, Instant::from(sent.bytes) * rule.pace);
                match self.shape.is_leaf(class) {
                    true => book.turns[account] = turn,
                    false => self.nodes[self.shape.node(class)].turns[prio][account] = turn,
                }
            }
            let most = start + DEBT;
            if lent {
                book.own = rule.own.spend(book.own, start, sent.bytes).min(most + rule.own.depth());
            }
            book.ceil = rule.ceil.spend(book.ceil, start, sent.bytes).min(most + rule.ceil.depth());
            if node == LINK {
                break;
            }
            class = self.shape.class(node);
        }
        self.serving = Some(f);
    }

    fn forgettable(&self, _: &Flows<()>, f: FlowId, now: Time) -> bool {
        let (rule, book, now) = (&self.rules[f.index()], &self.books[f.index()], instant(now));
        let prio = usize::from(rule.prio);
        let [own, borrowed] = [&self.green[0], &self.nodes[self.shape.above(f.0)].yellow].map(|turns| turns.now[prio]);
        book.own.max(book.ceil) <= now && book.turns[0] <= own && book.turns[1] <= borrowed
    }

    /// Green leaves ask nobody, and go before all that is borrowed. They send no more than their buckets, an overdraft, and their rates: with all of those of the others first, a green class waits
    /// for `D = (sum (b + L) + L)/(C - R)`. It loses nothing by that if its own bucket holds what its rate is in that time.
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        let (own, leaves) = (&self.rules[f.index()], &self.rules[..self.shape.leaves()]);
        let others = || leaves.iter().enumerate().filter(|&(n, _)| n != f.index()).map(|(_, rule)| rule);
        let rates: u128 = others().map(|rule| u128::from(rule.own.rate.0)).sum();
        let left = u128::from(self.link.0).saturating_sub(rates);
        let (rate, largest) = (own.own.rate, u64::from(self.largest));
        let all = leaves.iter().enumerate().map(|(n, rule)| (n, rule.own.rate));
        if let Some(excess) = Excess::of("rate", all, self.link) {
            return Err(NoPromise(format!("{}: somebody's is not kept", excess.words("the flows'"))));
        }
        let first = others().fold(largest, |sum, rule| sum.saturating_add(rule.own.burst).saturating_add(largest));
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
