//! What a device's tree amounts to in one direction of a link.

use super::aqm::Managed;
use super::attachment::Handle;
use super::device::{Device, Node};
use super::netem::Netem;
use super::qdisc::Qdisc;
use crate::amounts::{rate, size};
use crate::args::no_equal;
use crate::draft::{Table, inline, key, quote};
use falaj_scenario::Problem;
use falaj_sched::units::rate::Rate;
use std::ops::Range;

/// One direction as it is being made.
pub(super) struct Direction<'a> {
    pub(super) of: &'a Device,
    pub(super) header: String,
    pub(super) table: Table,
    pub(super) flows: Vec<Table>,
    /// Links that packets of some classes pass before this one.
    pub(super) before: Vec<Table>,
    /// Packets that filters drop.
    pub(super) drops: Vec<String>,
    /// Packets that are in none of `ways` pass beside the link.
    pub(super) direct: bool,
    /// The disciplines that became a part of this.
    pub(super) visited: Vec<Range<usize>>,
    /// The classes that packets go to, in the order in which they are tried.
    pub(super) ways: Vec<Way>,
    pub(super) rated: bool,
    /// It is such a link before a class; and so much netem lets in there.
    pub(super) before_class: Option<u64>,
    /// The place that says how much that is.
    limit_at: Option<Range<usize>>,
    /// Something says what packets cost.
    costed: bool,
    /// What loses or doubles packets.
    pub(super) lossy: Option<&'a Node<Qdisc>>,
    /// How fast the device is, if that is known.
    pub(super) device_rate: Option<Rate>,
    pub(super) notes: Vec<Problem>,
}

/// Which packets go to a class, and what they pass before its link.
#[derive(Debug)]
pub(super) struct Way {
    /// In the grammar of a scenario's `match`.
    pub(super) rules: Vec<String>,
    /// A link.
    pub(super) through: Option<String>,
    pub(super) at: Range<usize>,
}

/// What a discipline stands below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    Nothing,
    Class(Handle),
    Discipline(u16),
}

impl<'a> Direction<'a> {
    pub(super) fn new(
        of: &'a Device,
        header: String,
        at: Range<usize>,
        device_rate: Option<Rate>,
    ) -> Direction<'a> {
        Direction {
            of,
            table: Table::new(format!("[{header}]"), at),
            header,
            flows: Vec::new(),
            before: Vec::new(),
            drops: Vec::new(),
            direct: false,
            visited: Vec::new(),
            ways: Vec::new(),
            rated: false,
            before_class: None,
            limit_at: None,
            costed: false,
            lossy: None,
            device_rate,
            notes: Vec::new(),
        }
    }

    /// What packets of a class pass before its link.
    pub(super) fn before_class(of: &'a Device, name: &str, at: Range<usize>) -> Direction<'a> {
        let mut made = Direction::new(of, format!("link.{}", key(name)), at, None);
        made.table.text("rate", "unlimited");
        Direction { before_class: Some(0), ..made }
    }

    /// All its tables, which is why it has none any more.
    pub(super) fn tables(&mut self) -> Vec<Table> {
        let own = std::iter::once(std::mem::take(&mut self.table));
        own.chain(std::mem::take(&mut self.flows)).chain(std::mem::take(&mut self.before)).collect()
    }

    pub(super) fn below(&self, below: Below) -> Option<&'a Node<Qdisc>> {
        self.of.qdiscs.iter().find(|q| match below {
            Below::Nothing => q.parent.is_none(),
            Below::Class(class) => q.parent == Some(class),
            Below::Discipline(major) => q.parent.is_some_and(|p| p.major == major),
        })
    }

    /// From there down, as far as there is one discipline below the other; then its classes. What
    /// is before a class and no link stays: below what, is returned.
    pub(super) fn make(&mut self, mut below: Below) -> Result<Option<Below>, Problem> {
        while let Some(node) = self.below(below) {
            if self.before_class.is_some() && !self.rated && !is_link(&node.what) {
                return Ok(Some(below));
            }
            self.visited.push(node.at.clone());
            self.table.comments.push(node.line.split_whitespace().collect::<Vec<_>>().join(" "));
            if let Some(stab) = &node.stab {
                self.costs(&stab.at, stab.overhead.as_deref(), stab.atm)?;
            }
            let only = match &node.what {
                Qdisc::Netem(netem) => {
                    self.limited(netem, node)?;
                    if netem.keys.iter().any(|(key, _)| matches!(*key, "overhead" | "cells")) {
                        self.costs(&node.at, None, false)?;
                    }
                    if netem.keys.iter().any(|(key, _)| matches!(*key, "loss" | "duplicate")) {
                        self.lossy = Some(node);
                    }
                    netem.keys.iter().for_each(|(key, value)| self.table.set(key, value.clone()));
                    self.notes.extend(netem.notes.iter().cloned());
                    true
                }
                Qdisc::Tbf { rate: bits, burst, limit, overhead, atm } => {
                    self.takes_rate(&node.at)?;
                    self.table.text("rate", rate(*bits));
                    self.table.text("burst", size(*burst));
                    if overhead.is_some() || *atm {
                        self.costs(&node.at, overhead.as_deref(), *atm)?;
                    }
                    if *burst < LARGEST {
                        let what = format!(
                            "tbf drops every packet larger than its burst of {}; here they pass",
                            size(*burst)
                        );
                        let help = format!(
                            "a `burst` of {LARGEST}b or more lets all packets of Ethernet pass there"
                        );
                        self.notes.push(Problem::warning(node.at.clone(), what).help(help));
                    }
                    self.fifo(&size(*limit));
                    true
                }
                Qdisc::Fifo { packets, bytes } => {
                    let limit = packets.map(|n| format!("{n}p")).or(bytes.map(size));
                    limit.iter().for_each(|limit| self.fifo(limit));
                    false
                }
                Qdisc::Managed(managed) => {
                    if let Some(below) = self.child(node) {
                        let why = "it stands in the place of the queue that `red` looks at: put \
                                   `netem` above, and `red` below it";
                        return Err(no_equal(below.at.clone(), "a discipline below `red`", why));
                    }
                    let queue = self.managed(managed);
                    self.table.unset("scheduler");
                    self.only_flow(node, &[("queue", queue)]);
                    false
                }
                Qdisc::Fair(fair) => {
                    self.needs_rate(node, "fq_codel")?;
                    self.notes.extend(fair.notes.iter().cloned());
                    self.table.set("scheduler", inline(&fair.scheduler));
                    false
                }
                Qdisc::Cbs(cbs) => {
                    self.takes_rate(&node.at)?;
                    self.table.text("rate", rate(cbs.port));
                    self.table.set("scheduler", inline(&[("kind", quote("cbs"))]));
                    let slope = quote(&rate(cbs.idle));
                    self.only_flow(node, &[("idle-slope", slope), ("queue", quote("1000p"))]);
                    false
                }
                _ => {
                    self.classful(node)?;
                    false
                }
            };
            match node.handle.filter(|_| only) {
                Some(handle) => below = Below::Discipline(handle.major),
                None => break,
            }
        }
        if self.rated || self.device_rate.is_some() {
            self.notes.extend(self.lossy.map(before_its_rate));
        }
        Ok(None)
    }

    /// The queue of a netem: with a rate its own, before a class that of the class.
    fn limited(&mut self, netem: &Netem, node: &Node<Qdisc>) -> Result<(), Problem> {
        if netem.rate.is_some() {
            self.takes_rate(&node.at)?;
            self.fifo(&format!("{}p", netem.limit));
        } else if let Some(limit) = &mut self.before_class {
            *limit = netem.limit;
            self.limit_at.clone_from(&netem.limit_at);
        } else if let Some(at) = &netem.limit_at {
            let what = "netem counts packets on their way; here none waits where there is no rate: `limit` is left out";
            self.notes.push(Problem::warning(at.clone(), what));
        }
        Ok(())
    }

    /// How many packets wait in the class that this is before.
    pub(super) fn limit(&self) -> Option<u64> {
        self.before_class.filter(|limit| *limit > 0 && !self.rated)
    }

    /// A limit that has no queue which it could be of.
    pub(super) fn idle_limit(&self) -> Option<Problem> {
        let what = "`limit` was left out: the discipline below has queues with limits of their own";
        self.limit_at.clone().map(|at| Problem::warning(at, what))
    }

    /// What a packet costs is said once.
    pub(super) fn costs(
        &mut self,
        at: &Range<usize>,
        overhead: Option<&str>,
        atm: bool,
    ) -> Result<(), Problem> {
        if std::mem::replace(&mut self.costed, true) {
            let why = "what a packet costs is for the whole link: say it once";
            return Err(no_equal(at.clone(), "a second overhead", why));
        }
        overhead.iter().for_each(|overhead| self.table.text("overhead", overhead));
        if atm {
            self.table.text("cells", "atm");
        }
        Ok(())
    }

    /// The discipline that stands in the place of another's queue.
    pub(super) fn child(&self, node: &Node<Qdisc>) -> Option<&'a Node<Qdisc>> {
        self.below(Below::Discipline(node.handle?.major))
    }

    fn fifo(&mut self, limit: &str) {
        self.table.set("scheduler", inline(&[("kind", quote("fifo")), ("queue", quote(limit))]));
    }

    /// The flow of all packets.
    fn only_flow(&mut self, node: &Node<Qdisc>, keys: &[(&'static str, String)]) {
        let mut flow = Table::new(format!("[{}.flow.all]", self.header), node.at.clone());
        flow.text("match", "any");
        keys.iter().for_each(|(key, value)| flow.set(key, value.clone()));
        self.flows.push(flow);
    }

    /// A queue as TOML has it.
    pub(super) fn managed(&mut self, managed: &Managed) -> String {
        self.notes.extend(managed.notes.iter().cloned());
        let limit = [("limit", quote(&managed.limit))].into_iter();
        inline(&limit.chain(managed.policy.iter().cloned()).collect::<Vec<_>>())
    }

    /// One rate in a direction.
    pub(super) fn takes_rate(&mut self, at: &Range<usize>) -> Result<(), Problem> {
        if std::mem::replace(&mut self.rated, true) {
            return Err(no_equal(
                at.clone(),
                "a second rate below the first",
                "write two links, one behind the other, by a `[[rule]]`",
            ));
        }
        Ok(())
    }

    /// What divides the time of a link has to know how fast it is.
    pub(super) fn needs_rate(&mut self, node: &Node<Qdisc>, kind: &str) -> Result<(), Problem> {
        if self.rated || self.device_rate.is_some() {
            return Ok(());
        }
        // Their classes have rates of their own, which hold however fast the device is.
        if ["htb", "hfsc"].contains(&kind) {
            self.table.text("rate", rate(FAST));
            let what = format!(
                "nothing says how fast {} is, so it is {}: classes without a limit of their own \
                 never wait",
                self.of.name,
                rate(FAST)
            );
            self.notes.push(Problem::warning(node.at.clone(), what).help("`--rate RATE` says it"));
            return Ok(());
        }
        let what = format!(
            "nothing says how fast {} is, and `{kind}` divides the time of a link",
            self.of.name
        );
        Err(Problem::error(node.at.clone(), what).help("add `--rate RATE`"))
    }
}

/// A class has a queue; what delays or limits its packets alone is a link.
pub(super) fn is_link(what: &Qdisc) -> bool {
    matches!(what, Qdisc::Netem(_) | Qdisc::Tbf { .. })
}

/// A device that is faster than its classes, bit/s.
const FAST: u64 = 1_000_000_000_000;

/// The largest packet of Ethernet, as tc counts its bytes.
const LARGEST: u64 = 1514;

/// netem loses and doubles packets where they enter it, and so before any rate.
fn before_its_rate(node: &Node<Qdisc>) -> Problem {
    let has = |name: &str| match &node.what {
        Qdisc::Netem(netem) => netem.keys.iter().any(|(key, _)| *key == name),
        _ => false,
    };
    let mut parts = Vec::new();
    if has("loss") {
        parts.push("what is lost has taken its time");
    }
    if has("duplicate") {
        parts.push("copies take none");
    }
    let what = format!(
        "netem loses and doubles packets before the rate; here that is behind it: {}",
        parts.join(", and ")
    );
    Problem::warning(node.at.clone(), what)
        .help("for netem's order write two links and lead through both, the one that loses first: `to = [\"loses\", \"slow\"]`")
}
