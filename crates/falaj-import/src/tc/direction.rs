//! Converts a device's tree to one direction of a link.

use super::aqm::Managed;
use super::attachment::Handle;
use super::cake::Framing;
use super::device::{Device, Node};
use super::netem::Netem;
use super::qdisc::Qdisc;
use crate::amounts::{rate, size};
use crate::args::no_equal_phrase;
use crate::draft::{Table, inline, key, quote};
use falaj_scenario::Problem;
use falaj_sched::units::rate::Rate;
use std::ops::Range;

/// One direction of a link while it is being made.
pub(super) struct Direction<'a> {
    pub(super) of: &'a Device,
    pub(super) header: String,
    pub(super) table: Table,
    pub(super) flows: Vec<Table>,
    /// Links that the packets of some classes pass before this link.
    pub(super) before: Vec<Table>,
    /// Matches of packets that filters drop.
    pub(super) drops: Vec<String>,
    /// True if packets that belong to no class in `ways` bypass the link.
    pub(super) direct: bool,
    /// Places of the disciplines that are part of this direction.
    pub(super) visited: Vec<Range<usize>>,
    /// The classes that packets go to, in the order in which their matches are tried.
    pub(super) ways: Vec<Way>,
    pub(super) rated: bool,
    /// For a link before a class: the `limit` of its netem, in packets; 0 if netem has none.
    pub(super) before_class: Option<u64>,
    /// Place of that `limit`.
    limit_at: Option<Range<usize>>,
    /// True if an overhead is set.
    costed: bool,
    /// The discipline that loses or duplicates packets.
    pub(super) lossy: Option<&'a Node<Qdisc>>,
    /// Rate of the device, if it is known.
    pub(super) device_rate: Option<Rate>,
    pub(super) notes: Vec<Problem>,
}

/// The packets of a class, and the link that they pass before the device's link.
#[derive(Debug)]
pub(super) struct Way {
    /// Matches, in the grammar of a scenario's `match`.
    pub(super) rules: Vec<String>,
    /// Name of the link that they pass before the device's link; `None`: there is no such link.
    pub(super) through: Option<String>,
    pub(super) at: Range<usize>,
}

/// The place of a discipline: at the root, below a class, or below another discipline.
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

    /// A link that the packets of a class pass before the device's link.
    pub(super) fn before_class(of: &'a Device, name: &str, at: Range<usize>) -> Direction<'a> {
        let mut made = Direction::new(of, format!("link.{}", key(name)), at, None);
        made.table.text("rate", "unlimited");
        Direction { before_class: Some(0), ..made }
    }

    /// Takes all tables of this direction.
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

    /// Converts disciplines from `below` on downwards, as long as each has one discipline below it;
    /// then classes. For a link before a class that has no rate yet, the conversion stops at the
    /// first discipline that does not become a link, and this function returns its place.
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
                Qdisc::Tbf { bucket, peak, limit, overhead, atm } => {
                    self.takes_rate(&node.at)?;
                    self.table.text("rate", rate(bucket.rate));
                    self.table.text("burst", size(bucket.burst));
                    if let Some(peak) = peak {
                        let buckets = [("rate", rate(peak.rate)), ("burst", size(peak.burst))];
                        let quoted = buckets.map(|(key, value)| (key, quote(&value)));
                        self.table.set("peak", inline(&quoted));
                    }
                    if overhead.is_some() || *atm {
                        self.costs(&node.at, overhead.as_deref(), *atm)?;
                    }
                    let mtu = peak.as_ref().map(|peak| ("mtu", peak.burst));
                    let sizes = [("burst", bucket.burst)].into_iter().chain(mtu);
                    let least = sizes.min_by_key(|(_, bytes)| *bytes);
                    if let Some((word, bytes)) = least.filter(|(_, bytes)| *bytes < LARGEST) {
                        let what = format!(
                            "tbf drops every packet larger than its {word} of {}; here they pass",
                            size(bytes)
                        );
                        let help = format!(
                            "a `{word}` of {LARGEST}b or more lets all packets of Ethernet pass in tc"
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
                Qdisc::PfifoFast if self.needs_rate(node, "priority").is_err() => {
                    let what = format!(
                        "the rate of {} is unknown, so no packet waits in the bands of \
                         `pfifo_fast`: `--rate` sets it",
                        self.of.name
                    );
                    self.notes.push(Problem::warning(node.at.clone(), what));
                    false
                }
                Qdisc::Managed(managed) => {
                    if let Some(below) = self.child(node) {
                        let why = "it replaces the queue that `red` measures: put \
                                   `netem` above, and `red` below it";
                        return Err(no_equal_phrase(
                            below.at.clone(),
                            "a discipline below `red`",
                            why,
                        ));
                    }
                    let queue = self.managed(managed);
                    self.table.unset("scheduler");
                    self.only_flow(node, &[("queue", queue)]);
                    false
                }
                Qdisc::Fair(fair) => {
                    if fair.needs_rate() {
                        self.needs_rate(node, fair.kind())?;
                    }
                    self.notes.extend(fair.notes.iter().cloned());
                    self.table.set("scheduler", inline(&fair.scheduler));
                    false
                }
                Qdisc::Cake(cake) => {
                    // `cake` sets the link's rate, unless another discipline has set it.
                    let shaped = self.rated;
                    match cake.rate() {
                        Some(bits) if !shaped => {
                            self.takes_rate(&node.at)?;
                            self.table.text("rate", rate(bits));
                        }
                        Some(_) => {}
                        None => self.needs_rate(node, "cake")?,
                    }
                    if let Some(framing) = &cake.framing {
                        self.framed(framing)?;
                    }
                    let fair = cake.fair(shaped);
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

    /// Applies a netem's `limit` to a queue: netem's own queue if it has a rate; otherwise, in a
    /// link before a class, the class's queue. Any other `limit` is left out.
    fn limited(&mut self, netem: &Netem, node: &Node<Qdisc>) -> Result<(), Problem> {
        if netem.rate.is_some() {
            self.takes_rate(&node.at)?;
            self.fifo(&format!("{}p", netem.limit));
        } else if let Some(limit) = &mut self.before_class {
            *limit = netem.limit;
            self.limit_at.clone_from(&netem.limit_at);
        } else if let Some(at) = &netem.limit_at {
            let what = "`limit` was left out: netem counts packets in transit, and without a rate \
                        falaj queues no packet";
            self.notes.push(Problem::warning(at.clone(), what));
        }
        Ok(())
    }

    /// The limit, in packets, of the queue of the class behind this link.
    pub(super) fn limit(&self) -> Option<u64> {
        self.before_class.filter(|limit| *limit > 0 && !self.rated)
    }

    /// The warning for a `limit` that no queue can have.
    pub(super) fn idle_limit(&self) -> Option<Problem> {
        let what = "`limit` was left out: the discipline below has queues with limits of their own";
        self.limit_at.clone().map(|at| Problem::warning(at, what))
    }

    /// Sets the overhead of packets, which a link has only once.
    pub(super) fn costs(
        &mut self,
        at: &Range<usize>,
        overhead: Option<&str>,
        atm: bool,
    ) -> Result<(), Problem> {
        if std::mem::replace(&mut self.costed, true) {
            let why = "a link has one overhead for all packets: give it once";
            return Err(no_equal_phrase(at.clone(), "a second overhead", why));
        }
        overhead.iter().for_each(|overhead| self.table.text("overhead", overhead));
        if atm {
            self.table.text("cells", "atm");
        }
        Ok(())
    }

    /// Sets the size of packets on the wire as `cake` has it.
    fn framed(&mut self, framing: &Framing) -> Result<(), Problem> {
        let overhead = (framing.overhead != 0).then(|| format!("{}B", framing.overhead));
        self.costs(&framing.at, overhead.as_deref(), false)?;
        framing.cells.iter().for_each(|cells| self.table.text("cells", *cells));
        if framing.ip {
            self.table.text("layer", "ip");
        }
        Ok(())
    }

    /// The discipline that replaces the queue of another discipline.
    pub(super) fn child(&self, node: &Node<Qdisc>) -> Option<&'a Node<Qdisc>> {
        self.below(Below::Discipline(node.handle?.major))
    }

    fn fifo(&mut self, limit: &str) {
        self.table.set("scheduler", inline(&[("kind", quote("fifo")), ("queue", quote(limit))]));
    }

    /// Adds one flow that matches all packets.
    fn only_flow(&mut self, node: &Node<Qdisc>, keys: &[(&'static str, String)]) {
        let mut flow = Table::new(format!("[{}.flow.all]", self.header), node.at.clone());
        flow.text("match", "any");
        keys.iter().for_each(|(key, value)| flow.set(key, value.clone()));
        self.flows.push(flow);
    }

    /// A queue in TOML's syntax.
    pub(super) fn managed(&mut self, managed: &Managed) -> String {
        self.notes.extend(managed.notes.iter().cloned());
        let limit = [("limit", quote(&managed.limit))].into_iter();
        inline(&limit.chain(managed.policy.iter().cloned()).collect::<Vec<_>>())
    }

    /// Notes that the direction has a rate. A second rate is an error.
    pub(super) fn takes_rate(&mut self, at: &Range<usize>) -> Result<(), Problem> {
        if std::mem::replace(&mut self.rated, true) {
            return Err(no_equal_phrase(
                at.clone(),
                "a second rate below the first",
                "write two links in the scenario, and a rule that leads through both, `to = \
                 [\"first\", \"second\"]`",
            ));
        }
        Ok(())
    }

    /// Checks that the link's rate is known: disciplines that divide its time need it. With `htb`
    /// and `hfsc` an unknown rate is no error: the link gets the rate `FAST`, with a warning.
    pub(super) fn needs_rate(&mut self, node: &Node<Qdisc>, kind: &str) -> Result<(), Problem> {
        if self.rated || self.device_rate.is_some() {
            return Ok(());
        }
        // Classes of htb and hfsc have rates of their own, which hold at any rate of the device.
        if ["htb", "hfsc"].contains(&kind) {
            self.table.text("rate", rate(FAST));
            let what = format!(
                "the rate of {} is unknown, and taken as {}: classes without a limit of their own \
                 never wait",
                self.of.name,
                rate(FAST)
            );
            self.notes.push(Problem::warning(node.at.clone(), what).help("`--rate RATE` sets it"));
            return Ok(());
        }
        let what = format!(
            "the rate of {} is unknown, and `{kind}` divides the time of a link",
            self.of.name
        );
        Err(Problem::error(node.at.clone(), what).help("add `--rate RATE`"))
    }
}

/// Returns true if a discipline becomes a link, because it impairs packets or limits their rate; a
/// class has only a queue.
pub(super) fn is_link(what: &Qdisc) -> bool {
    matches!(what, Qdisc::Netem(_) | Qdisc::Tbf { .. })
}

/// Rate of a device that is faster than all its classes, bit/s.
const FAST: u64 = 1_000_000_000_000;

/// The largest packet of Ethernet, in bytes as tc counts them.
const LARGEST: u64 = 1514;

/// The warning that netem loses and duplicates packets where they enter it, thus before any rate.
fn before_its_rate(node: &Node<Qdisc>) -> Problem {
    let has = |name: &str| match &node.what {
        Qdisc::Netem(netem) => netem.keys.iter().any(|(key, _)| *key == name),
        _ => false,
    };
    let mut parts = Vec::new();
    if has("loss") {
        parts.push("a lost packet has used the link");
    }
    if has("duplicate") {
        parts.push("copies do not use it");
    }
    let what = format!(
        "netem loses and duplicates packets before the rate, falaj after it: {}",
        parts.join(", and ")
    );
    Problem::warning(node.at.clone(), what)
        .help("for netem's order write two links and route packets through both, first through the one that loses: `to = [\"loses\", \"slow\"]`")
}
