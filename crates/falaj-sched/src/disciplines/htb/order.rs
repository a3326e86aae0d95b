//! The order of service: which classes may send, on which account, and which class is next.
//!
//! Keys only rise, so orders are updated late: a class that no longer belongs to an order stays in
//! it until it reaches the top, and is removed there. The color of a class is updated when a packet
//! is charged to the class, and when its debt is paid. So a packet changes only the tops of a few
//! heaps.

use super::Htb;
use super::turns::{each, key};
use crate::mechanisms::bucket::begun;
use crate::mechanisms::classes::LINK;
use crate::mechanisms::flow_tag::ahead;
use crate::mechanisms::weights::{Instant, instant};
use crate::queues::queue::{FlowId, Flows};
use crate::units::time::Time;

/// State of a class.
#[derive(Debug, Clone, Default)]
pub(super) struct Book {
    /// Time at which the bucket of `rate` will be full. The next field is that of the bucket of
    /// `ceil`.
    pub(super) own: Instant,
    pub(super) ceil: Instant,
    /// For a leaf: virtual start times of the next packet on its own account, and of the next
    /// borrowed packet.
    pub(super) turns: [Instant; 2],
    pub(super) colour: Colour,
    /// The priorities, one bit each, at which the class is in an order of classes that send on
    /// their own account. The next field is the same for the order of its node.
    pub(super) in_green: u8,
    pub(super) in_node: u8,
    pub(super) in_greening: bool,
    pub(super) in_red: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Colour {
    #[default]
    Green,
    Yellow,
    Red,
}

/// The account on which a class sends. Each account has an order of the classes that send on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Account {
    /// The class's own account. The order has all classes of this level.
    Own(usize),
    /// The account of this node, from which the class borrows.
    Lent(usize),
}

impl Htb {
    /// Times at which the debts of the buckets of `rate` and of `ceil` are paid.
    #[inline]
    pub(super) fn paid(&self, class: u32) -> [Instant; 2] {
        let (rule, book) = (&self.rules[class as usize], &self.books[class as usize]);
        [rule.own.has(0, book.own), rule.ceil.has(0, book.ceil)]
    }

    #[inline]
    pub(super) fn colour(&self, class: u32, now: Instant) -> Colour {
        match self.paid(class) {
            [_, ceil] if ceil > now => Colour::Red,
            [own, _] if own > now => Colour::Yellow,
            _ => Colour::Green,
        }
    }

    /// The priorities, one bit each, at which this leaf, or a leaf below this class, may have
    /// packets.
    #[inline]
    pub(super) fn wants(&self, flows: &Flows<()>, class: u32) -> u8 {
        match self.shape.is_leaf(class) {
            true => {
                u8::from(flows.head(FlowId(class)).is_some()) << self.rules[class as usize].prio
            }
            false => self.nodes[self.shape.node(class)].yellow.some,
        }
    }

    #[inline]
    pub(super) fn turns(&self, class: u32, prio: usize) -> &[Instant; 2] {
        match self.shape.is_leaf(class) {
            true => &self.books[class as usize].turns,
            false => &self.nodes[self.shape.node(class)].turns[prio],
        }
    }

    /// Enters a class, at these priorities, into the orders of its color. A yellow class borrows,
    /// so the classes above it are entered too.
    #[inline]
    pub(super) fn place(&mut self, mut class: u32, mut prios: u8, now: Instant) {
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

    /// Updates the color of classes whose debts are paid.
    #[inline]
    pub(super) fn wake(&mut self, flows: &Flows<()>, now: Time) {
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

    /// Earliest time at which the debt of a waiting class is paid, which turns a yellow class
    /// green, or a red class yellow. Both times matter, because a leaf below a red class may become
    /// green before that class becomes yellow.
    pub(super) fn paid_next(&mut self, flows: &Flows<()>) -> Option<Time> {
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

    /// The leaf whose turn it is, among the leaves of priority `prio` that send on the account
    /// `start`.
    #[inline]
    pub(super) fn first(
        &mut self,
        flows: &Flows<()>,
        start: Account,
        prio: usize,
    ) -> Option<FlowId> {
        // The account whose order is examined: `start`, or that of a node below it.
        let mut account = start;
        loop {
            let (turns, wanted, which) = match account {
                Account::Own(level) => (&mut self.green[level], Colour::Green, 0),
                Account::Lent(node) => (&mut self.nodes[node].yellow, Colour::Yellow, 1),
            };
            let Some((at, class)) = turns.orders[prio].first() else {
                // No class below this node has a packet. The search goes back to the order from
                // which it came, and removes the node's class, which is the first there.
                match account {
                    Account::Lent(node) if account != start => {
                        let class = self.shape.class(node);
                        let lends = self.books[class as usize].colour == Colour::Green;
                        account =
                            if lends { start } else { Account::Lent(self.shape.above(class)) };
                        self.leave(account, prio, class);
                    }
                    _ => return None,
                }
                continue;
            };
            let is_leaf = self.shape.is_leaf(class);
            let idle = is_leaf && flows.head(FlowId(class)).is_none();
            if idle || self.books[class as usize].colour != wanted {
                self.leave(account, prio, class);
                continue;
            }
            let is = key(self.turns(class, prio)[which]);
            if ahead(is, at) > 0 {
                let turns = match account {
                    Account::Own(level) => &mut self.green[level],
                    Account::Lent(node) => &mut self.nodes[node].yellow,
                };
                turns.orders[prio].postpone_first(is);
            } else if is_leaf {
                return Some(FlowId(class));
            } else {
                account = Account::Lent(self.shape.node(class));
            }
        }
    }

    /// Removes the first class of an order.
    pub(super) fn leave(&mut self, account: Account, prio: usize, class: u32) {
        let book = &mut self.books[class as usize];
        match account {
            Account::Own(level) => {
                book.in_green &= !(1 << prio);
                self.green[level].pop(prio);
            }
            Account::Lent(node) => {
                book.in_node &= !(1 << prio);
                self.nodes[node].yellow.pop(prio);
            }
        }
    }

    pub(super) fn choose(&mut self, flows: &Flows<()>) -> Option<FlowId> {
        for level in 0..self.green.len() {
            for prio in each(self.green[level].some) {
                if let Some(f) = self.first(flows, Account::Own(level), prio) {
                    return Some(f);
                }
            }
        }
        each(self.nodes[LINK].yellow.some)
            .find_map(|prio| self.first(flows, Account::Lent(LINK), prio))
    }
}
