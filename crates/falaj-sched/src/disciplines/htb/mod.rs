//! Hierarchical token buckets (HTB): each class has its own rate, and a ceiling up to which it may
//! borrow.
//!
//! Devera's HTB (2002), as in Linux. A class has two buckets, one for its `rate` and one for its
//! `ceil`. While no bucket is in debt, the class is *green*. If only the bucket of `rate` is in
//! debt, the class is *yellow*; if the bucket of `ceil` is in debt, it is *red*. A green leaf sends
//! on its own account. A yellow leaf borrows from the nearest green class above it, or else from
//! the link, which always lends. A red class sends nothing, and no class below it borrows through
//! it.
//!
//! Green leaves are served first, then leaves that borrow from the deepest classes, and last the
//! leaves that borrow from the link. Among equals the lowest `prio` is served first. At each node
//! from the lender down, classes of equal `prio` share in proportion to their quanta. Quanta are
//! proportional to rates unless they are set. A packet is charged to the rates of the lender and of
//! all classes above it, and to the ceilings of the leaf and of all above it.
//!
//! - A bucket may be overdrawn by the packet that empties it. It may also be overdrawn by green
//!   leaves below it, because they send whatever the state of the classes above them is. The part
//!   of a debt that would take more than a minute to pay is cancelled. All of this is as in Linux.
//! - A burst is one millisecond of the rate by default. Smaller bursts reduce the throughput on
//!   links of many hundred Mbit/s: if a class has to wait while its bucket is full, further tokens
//!   are lost.
//! - Equal classes take turns by virtual start times, whereas Linux uses deficits. The shares are
//!   the same, without Linux's turns of many packets. A chosen class starts no earlier than the
//!   class chosen before it, so that no class accumulates a claim to service while it is idle.

mod order;
mod rule;
mod turns;

use crate::collections::quad_heap::Heap;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Dice, Draw};
use crate::contract::guarantee::{Bound, Guarantee, Guarantees, full_queue};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Idling, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Kind, Param, Setup, Value};
use crate::contract::transmission::Sent;
use crate::mechanisms::bucket::{self, BURST};
use crate::mechanisms::classes::{Classes, LINK, Shape};
use crate::mechanisms::oversubscription::Excess;
use crate::mechanisms::weights::{Instant, ROUNDING, instant};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use order::{Book, Colour};
use rule::Rule;
use turns::{PRIORITIES, Turns, each};

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "htb",
    doc: "hierarchical token buckets: each class has a rate of its own, and a ceiling up to which \
          it borrows from the classes above, O(depth log N)",
    source: "Devera 2002",
    cost: "O(log N), at each level of a tree",
    guarantee: "rate and delay, if the rates fit on the link and the class's bursts are large \
                enough",
    guarantee_source: "own derivation",
    purposes: &[Purpose::Rate, Purpose::Cap],
    aliases: &["hierarchical token bucket"],
    example: Example {
        scheduler: "",
        calls: "rate = \"20mbit\"",
        rest: "rate = \"70mbit\"\nceil = \"90mbit\"",
    },
    flow: &[
        Param {
            doc: "rate that the class may send on its own account, whatever the others do; beyond \
                  it the class borrows, up to `ceil`",
            ..bucket::RATE
        },
        BURST,
        Param {
            name: "ceil",
            kind: Kind::Rate,
            default: Some("the link's rate"),
            doc: "maximum rate of the class, including what it borrows; at least its `rate`",
        },
        Param {
            name: "ceil-burst",
            kind: Kind::Bytes,
            default: Some("the bytes of 1ms at `ceil`, at least one largest packet"),
            doc: "size of the token bucket of `ceil`: bytes that the class may send at once after \
                  a pause; at least one largest packet",
        },
        Param {
            name: "prio",
            kind: Kind::Count { min: 0, max: 7 },
            default: Some("0"),
            doc: "the priority of a class that is not divided: 0 goes first, both within its own \
                  rate and in borrowing",
        },
        Param {
            name: "quantum",
            kind: Kind::Bytes,
            default: Some("the bytes of 100ms at `rate`"),
            doc: "weight in bytes, from 1B to 4GB: classes of equal priority below the same class \
                  share in proportion to their quanta",
        },
    ],
    idles: Idling::because("a class waits at its ceiling"),
    oversubscribed_by: Some("rate"),
    whole_trees: true,
    cap_key: Some("ceil"),
    editable: &[("rate", "Rate"), ("ceil", "Cap")],
    draw: Draw { fit, leaves_only: &["prio"], ..Draw::by(&[("quantum", draw::quantum)]) },
    ..Manifest::PLAIN
};

/// Adjusts a random setup so that no flow's rate is above its ceiling.
fn fit(setup: &mut Setup, _: Dice<'_>) {
    for flow in &mut setup.flows {
        if let (Some(rate), Some(ceil)) = (flow.values.rate("rate"), flow.values.rate("ceil")) {
            flow.values.set("rate", Value::Rate(rate.min(ceil)));
            flow.values.set("ceil", Value::Rate(rate.max(ceil)));
        }
    }
}

/// The largest debt, as the time that it takes to pay it. Larger debts are reduced to it.
const DEBT: Instant = instant(Time(60_000_000_000));

/// Hierarchical token buckets.
#[derive(Debug, Clone)]
pub struct Htb {
    shape: Shape,
    rules: Vec<Rule>,
    books: Vec<Book>,
    /// Classes that send on their own account: first the leaves, then the deepest divided classes,
    /// then each level above them.
    green: Vec<Turns>,
    /// The nodes of the tree: the link, and each class that is divided.
    nodes: Vec<Node>,
    /// Classes that were yellow when they were entered, ordered by the time at which the debt of
    /// their `rate` is paid.
    greening: Heap,
    /// Red classes, ordered by the time at which they are no longer red.
    red: Heap,
    /// The flow of the packet on the wire, until the next decision.
    serving: Option<FlowId>,
    link: Rate,
    largest: u32,
    full_queues: Vec<u64>,
}

/// The link or a divided class, which lends to the classes below it.
#[derive(Debug, Clone)]
struct Node {
    /// Yellow classes directly below the node, which borrow from it or through it.
    yellow: Turns,
    /// The node's state as a class, by priority: virtual start times of the next packet on its own
    /// account, and of the next borrowed packet.
    turns: [[Instant; 2]; PRIORITIES],
}

impl Htb {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Htb, ConfigErrors> {
        let all = Classes::new("htb", "HTB", setup)?;
        let shape = &all.shape;
        let deepest = (shape.leaves() as u32..shape.len() as u32)
            .map(|class| shape.path(class).count())
            .max()
            .unwrap_or(0);
        let rules = all
            .iter()
            .map(|class| Rule::of(setup, shape, deepest, class))
            .collect::<Result<Vec<_>, _>>()?;
        // Leaves come first, then the divided classes in reverse order. A divided class has a lower
        // number than the classes below it, so the sets of the lower classes are complete first.
        let mut below = vec![0u8; shape.len()];
        let mut green = vec![[0; PRIORITIES]; deepest + 1];
        let mut yellow = vec![[0; PRIORITIES]; shape.nodes()];
        for class in (0..shape.len())
            .map(|n| if n < shape.leaves() { n } else { shape.len() - 1 - (n - shape.leaves()) })
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
            full_queues: all.setups[..shape.leaves()]
                .iter()
                .map(|f| full_queue(setup, f.limit))
                .collect(),
            rules,
            shape: all.shape,
        })
    }
}

impl Discipline for Htb {
    type State = ();
    type Tag = ();

    fn start(&mut self, _: &mut Flows<()>) {}

    /// The number of missing tokens of each bucket stays the same, up to the size of the bucket.
    /// Virtual start times stay ahead by the same number of bytes. Classes above the leaves keep
    /// their state if the tree above the leaves is unchanged; otherwise they start with new state.
    fn migrate_from(&mut self, old: Htb, flows: &mut Flows<()>, now: Time) {
        self.serving = old.serving;
        let (now, keeps) = (instant(now), self.shape.keeps(&old.shape));
        self.green[0].now = old.green[0].now;
        if keeps {
            self.nodes
                .iter_mut()
                .zip(&old.nodes)
                .for_each(|(node, was)| node.yellow.now = was.yellow.now);
            self.green.iter_mut().zip(&old.green).for_each(|(turns, was)| turns.now = was.now);
        }
        let leaves = 0..old.shape.leaves() as u32;
        let nodes = (1..old.nodes.len())
            .filter(|_| keeps)
            .map(|node| (old.shape.class(node), self.shape.class(node)));
        for (before, class) in leaves.map(|f| (f, f)).chain(nodes) {
            let (was, is) = (&old.rules[before as usize], self.rules[class as usize]);
            let book = &old.books[before as usize];
            let own = is.own.inherit(&was.own, book.own, now);
            let ceil = is.ceil.inherit(&was.ceil, book.ceil, now);
            let (from, to) = (old.shape.above(before), self.shape.above(class));
            let turns = |prio: usize, after: usize| {
                let [own, borrowed] = *old.turns(before, prio);
                let rule = (after, was.pace, is.pace);
                let own_turns =
                    (&self.green[usize::from(is.level)], &old.green[usize::from(was.level)]);
                [
                    own_turns.0.inherit(own, (prio, own_turns.1), rule),
                    match keeps && from == to {
                        true => self.nodes[to].yellow.inherit(
                            borrowed,
                            (prio, &old.nodes[from].yellow),
                            rule,
                        ),
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

    /// The permission to send depends on tokens only, not on the head. A leaf without a packet is
    /// found and removed at its turn.
    fn head_changed(&mut self, flows: &mut Flows<()>, f: FlowId, now: Time) {
        self.place(f.0, self.wants(flows, f.0), instant(now));
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<()>, now: Time, _: &Wire) -> Decision {
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
            Some(f) => Decision::Serve(f),
            None => self.paid_next(flows).map_or(Decision::Idle, Decision::NotBefore),
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, _: &mut Flows<()>, f: FlowId, sent: Sent) {
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

    fn is_reusable(&self, _: &Flows<()>, f: FlowId, now: Time) -> bool {
        let (rule, book, now) = (&self.rules[f.index()], &self.books[f.index()], instant(now));
        let prio = usize::from(rule.prio);
        let [own, borrowed] = [&self.green[0], &self.nodes[self.shape.above(f.0)].yellow]
            .map(|turns| turns.now[prio]);
        book.own.max(book.ceil) <= now && book.turns[0] <= own && book.turns[1] <= borrowed
    }
}

impl QueueHooks for Htb {}
impl MediumHooks for Htb {}

impl Guarantees for Htb {
    /// Green leaves send before all leaves that borrow. Each sends at most the bytes of its bucket
    /// `b`, an overdraft of a packet `L`, and its rate. If the packets of all other green leaves
    /// are sent first, a green leaf waits for at most `D = (sum (b + L) + L)/(C - R)`, where `C` is
    /// the link's rate and `R` the sum of the others' rates. During this time it loses no tokens if
    /// its bucket has room for the tokens of `D`.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let (own, leaves) = (&self.rules[f.index()], &self.rules[..self.shape.leaves()]);
        let others =
            || leaves.iter().enumerate().filter(|&(n, _)| n != f.index()).map(|(_, rule)| rule);
        let rates: u128 = others().map(|rule| u128::from(rule.own.rate.0)).sum();
        let left = u128::from(self.link.0).saturating_sub(rates);
        let (rate, largest) = (own.own.rate, u64::from(self.largest));
        let all = leaves.iter().enumerate().map(|(n, rule)| (n, rule.own.rate));
        if let Some(excess) = Excess::of("rate", all, self.link) {
            return Err(NoGuarantee(format!(
                "{}, so not every flow gets its rate",
                excess.words("the flows'")
            )));
        }
        let first = others()
            .fold(largest, |sum, rule| sum.saturating_add(rule.own.burst).saturating_add(largest));
        let waits = Rate(left as u64).airtime_of_many(first) + ROUNDING;
        let needed =
            u128::from(rate.0) * u128::from(waits.0) / 8_000_000_000 + u128::from(2 * largest);
        let apart = own.ceil.rate == rate && own.ceil.burst < own.own.burst;
        if u128::from(own.own.burst) < needed || u128::from(own.ceil.burst) < needed || apart {
            return Err(NoGuarantee(format!(
                "bursts of other flows may delay it by {waits}, in which its bucket overflows: \
                 with `burst` and `ceil-burst` of {needed} B, its {rate} is guaranteed"
            )));
        }
        let packets = rate.airtime_of_many(3 * largest);
        Ok(Guarantee {
            rate,
            latency: waits + packets + Span(2),
            rate_formula: "the rate r",
            delay: Bound {
                delay: rate
                    .airtime_of_many(self.full_queues[f.index()].saturating_add(3 * largest))
                    + waits
                    + Span(2),
                formula: "(B + 3 L)/r + (sum (b + L) + L)/(C - R), of the others' bursts and rates",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{at_once, order, rate, setup, values};

    /// A's rate is half of the link, B's a quarter. Buckets hold 4 B, and may be overdrawn by a
    /// packet. A class is green again when its debt is paid. Equal classes share in proportion to
    /// their rates.
    #[test]
    fn htb_overdraws_by_a_packet_and_shares_by_rate() {
        let class = |own, ceil| {
            let bursts = [("burst", Value::Bytes(4)), ("ceil-burst", Value::Bytes(4))];
            values(bursts).with("rate", rate(own)).with("ceil", rate(ceil))
        };
        // A's bucket holds 4 B at time 0, 2 B at 4, and 0 B at 8, which is not a debt. So the third
        // packet overdraws the bucket by 4 B, which are paid at 16.
        let alone = setup(4, [class(500, 500), class(250, 250)]);
        assert_eq!(order(&alone, Htb::new, &at_once("AAAA", 4)), "A1@4 A2@8 A3@12 A4@20");
        // Both are green all the time, so two packets of A are sent for one packet of B. If virtual
        // start times are equal, the first flow is served first.
        let both = setup(4, [class(500, 500), class(250, 1000)]);
        let sent = order(&both, Htb::new, &at_once("AAAAABBBBB", 4));
        assert_eq!(sent, "A1@4 B1@8 A2@12 A3@16 B2@20 A4@24 A5@28 B3@32 B4@36 B5@40");
    }
}
