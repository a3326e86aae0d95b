//! The link that a device's tree amounts to.

use super::super::amounts::{rate, size};
use super::super::args::no_equal;
use super::super::draft::{Draft, Table, inline, key, quote};
use super::Host;
use super::aqm::Managed;
use super::device::{Device, Devices, Handle, Node};
use super::qdisc::Qdisc;
use super::tree::Tree;
use crate::diagnostics::Problem;
use std::ops::Range;

/// A link for each device but those that others redirect to.
pub(super) fn links(devices: &Devices, host: &Host, draft: &mut Draft, problems: &mut Vec<Problem>) {
    let down = host.down.as_deref();
    let comes_down =
        |name: &str| down == Some(name) || devices.all.iter().any(|d| d.redirected.as_deref() == Some(name));
    for device in devices.all.iter().filter(|d| !comes_down(&d.name)) {
        let other = device.redirected.as_deref().or(down);
        let back = other.and_then(|name| devices.all.iter().find(|d| d.name == name));
        if device.qdiscs.is_empty() && back.is_none_or(|d| d.qdiscs.is_empty()) {
            continue;
        }
        let name = key(&device.name);
        let mut link = Table::new(format!("[link.{name}]"), at(device));
        link.comments.push(format!("what {} sends goes up", device.name));
        link.text("rate", host.rate.map_or_else(|| "unlimited".to_owned(), |r| rate(r.0)));
        draft.tables.push(link);
        for (direction, of) in [("up", Some(device)), ("down", back)] {
            let Some(of) = of.filter(|d| !d.qdiscs.is_empty()) else { continue };
            let header = format!("link.{name}.{direction}");
            let mut made = Direction {
                of,
                header: &header,
                table: Table::new(format!("[{header}]"), at(of)),
                flows: Vec::new(),
                rated: false,
                costed: false,
                lossy: None,
                host,
                notes: Vec::new(),
                seen: 0,
            };
            match made.make() {
                Ok(()) => {
                    problems.extend(made.notes);
                    draft.tables.push(made.table);
                    draft.tables.extend(made.flows);
                }
                Err(problem) => problems.push(problem),
            }
        }
    }
    if draft.tables.is_empty() && problems.is_empty() {
        problems.push(Problem::error(0..0, "there is no `tc qdisc add` in it, and so no link"));
    }
}

/// One direction as it is being made.
struct Direction<'a> {
    of: &'a Device,
    header: &'a str,
    table: Table,
    flows: Vec<Table>,
    rated: bool,
    /// Something says what packets cost.
    costed: bool,
    /// What loses or doubles packets.
    lossy: Option<&'a Node<Qdisc>>,
    host: &'a Host,
    notes: Vec<Problem>,
    /// Disciplines so far.
    seen: usize,
}

impl Direction<'_> {
    /// From the root down, as far as there is one discipline below the other; then its classes.
    fn make(&mut self) -> Result<(), Problem> {
        let mut below = None;
        while let Some(node) = self.of.qdiscs.iter().find(|q| match below {
            None => q.parent.is_none(),
            Some(major) => q.parent.is_some_and(|p| p.major == major),
        }) {
            self.deeper(node)?;
            self.table.comments.push(node.line.split_whitespace().collect::<Vec<_>>().join(" "));
            if let Some(stab) = &node.stab {
                self.costs(&stab.at, stab.overhead.as_deref(), stab.atm)?;
            }
            let only = match &node.what {
                Qdisc::Netem(netem) => {
                    if netem.rate.is_some() {
                        self.takes_rate(&node.at)?;
                        self.fifo(&format!("{}p", netem.limit));
                    } else if let Some(at) = &netem.limit_at {
                        let what = "netem counts packets on their way; here none waits where there is no rate: `limit` is left out";
                        self.notes.push(Problem::warning(at.clone(), what));
                    }
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
                        let what =
                            format!("tbf drops every packet larger than its burst of {}; here they pass", size(*burst));
                        let help = format!("a `burst` of {LARGEST}b or more lets all packets of Ethernet pass there");
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
                Some(handle) => below = Some(handle.major),
                None => break,
            }
        }
        if self.rated || self.host.rate.is_some() {
            self.notes.extend(self.lossy.map(before_its_rate));
        }
        Ok(())
    }

    /// What a packet costs is said once.
    fn costs(&mut self, at: &Range<usize>, overhead: Option<&str>, atm: bool) -> Result<(), Problem> {
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

    /// A discipline stands below another once; handles that are given twice lead in a circle.
    fn deeper(&mut self, node: &Node<Qdisc>) -> Result<(), Problem> {
        self.seen += 1;
        if self.seen > self.of.qdiscs.len() {
            return Err(Problem::error(node.at.clone(), "it stands below itself")
                .help("give each discipline a handle of its own"));
        }
        Ok(())
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
    fn managed(&mut self, managed: &Managed) -> String {
        self.notes.extend(managed.notes.iter().cloned());
        let limit = [("limit", quote(&managed.limit))].into_iter();
        inline(&limit.chain(managed.policy.iter().cloned()).collect::<Vec<_>>())
    }

    /// One rate in a direction.
    fn takes_rate(&mut self, at: &Range<usize>) -> Result<(), Problem> {
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
    fn needs_rate(&self, node: &Node<Qdisc>, kind: &str) -> Result<(), Problem> {
        if self.rated || self.host.rate.is_some() {
            return Ok(());
        }
        let what = format!("nothing says how fast {} is, and `{kind}` divides the time of a link", self.of.name);
        Err(Problem::error(node.at.clone(), what).help("add `--rate RATE`"))
    }

    /// The classes of the discipline that stands at the link.
    fn classful(&mut self, node: &Node<Qdisc>) -> Result<(), Problem> {
        let mut tree = Tree::of(node, self.of, true)?;
        self.no_links_below(&tree)?;
        if let Some((bits, burst)) = tree.rate {
            self.takes_rate(&node.at)?;
            self.table.text("rate", rate(bits));
            burst.iter().for_each(|burst| self.table.text("burst", size(*burst)));
        }
        self.needs_rate(node, tree.kind)?;
        self.notes.append(&mut tree.notes);
        self.table.set("scheduler", inline(&[("kind", quote(tree.kind))]));
        let header = self.header.to_owned();
        self.level(&tree, 0, &header, false)
    }

    /// The flows of the classes below one of them, in the order in which filters are tried; the one that takes the rest comes last.
    /// Within a flow the last takes what is left of it.
    fn level(&mut self, tree: &Tree, parent: u16, header: &str, within: bool) -> Result<(), Problem> {
        let bands = tree.below(parent);
        for (n, band) in bands.iter().enumerate() {
            let name = key(&format!("{:x}-{:x}", tree.major, band.minor));
            let header = format!("{header}.flow.{name}");
            let mut table = Table::new(format!("[{header}]"), band.at.clone());
            let all = tree.takes_rest(band.minor) || (within && n + 1 == bands.len());
            let rules = if all { vec![quote("any")] } else { tree.rules(band.minor) };
            table.set("match", if rules.len() == 1 { rules.concat() } else { format!("[{}]", rules.join(", ")) });
            for (name, value) in &band.own {
                table.set(name, value.clone());
            }
            if tree.is_leaf(band.minor) {
                self.leaf(table, Handle { major: tree.major, minor: band.minor }, &header)?;
            } else {
                table.set("scheduler", inline(&[("kind", quote(tree.kind))]));
                self.flows.push(table);
                self.level(tree, band.minor, &header, true)?;
            }
        }
        Ok(())
    }

    /// A class has a queue; what delays or limits its packets alone is a link.
    fn no_links_below(&self, tree: &Tree) -> Result<(), Problem> {
        let is_below = |q: &&Node<Qdisc>| q.parent.is_some_and(|p| p.major == tree.major && p.minor != 0);
        for node in self.of.qdiscs.iter().filter(is_below) {
            if let Some(stab) = &node.stab {
                let why = "what a packet costs is for the whole link: give it to the discipline above all classes";
                return Err(no_equal(stab.at.clone(), "stab below a class", why));
            }
            if !matches!(node.what, Qdisc::Netem(_) | Qdisc::Tbf { .. }) {
                continue;
            }
            let rules = node.parent.map(|class| tree.rules(class.minor)).unwrap_or_default();
            let rules = if rules.is_empty() { "…".to_owned() } else { rules.join(", ") };
            let why = format!(
                "a class has a queue, and what delays or limits its packets is a link: write `[link.a]` with that, `[link.b]` with \
                 the rest, and two rules: `[[rule]]`, `match = [{rules}]`, `to = \"a\"`, and `[[rule]]`, `to = \"b\"`"
            );
            return Err(no_equal(node.at.clone(), "this discipline below a class", &why));
        }
        Ok(())
    }

    /// What is below a class that has none of its own: a queue, or a discipline that divides it.
    fn leaf(&mut self, mut table: Table, class: Handle, header: &str) -> Result<(), Problem> {
        let of = self.of;
        let below = of.qdiscs.iter().find(|q| q.parent == Some(class));
        match below.map(|q| (q, &q.what)) {
            None | Some((_, Qdisc::Fifo { packets: None, bytes: None } | Qdisc::Cbs(_))) => {
                table.text("queue", "1000p")
            }
            Some((_, Qdisc::Fifo { packets: Some(n), .. })) => table.text("queue", format!("{n}p")),
            Some((_, Qdisc::Fifo { bytes: Some(n), .. })) => table.text("queue", size(*n)),
            Some((_, Qdisc::Managed(managed))) => {
                let queue = self.managed(managed);
                table.set("queue", queue);
            }
            Some((node, Qdisc::Fair(fair))) => {
                self.notes.extend(fair.notes.iter().cloned());
                table.set("scheduler", inline(&fair.scheduler));
                let mut part = Table::new(format!("[{header}.flow.all]"), node.at.clone());
                part.text("match", "any");
                self.flows.extend([table, part]);
                return Ok(());
            }
            Some((node, _)) => {
                self.deeper(node)?;
                let mut tree = Tree::of(node, of, false)?;
                self.no_links_below(&tree)?;
                self.notes.append(&mut tree.notes);
                table.set("scheduler", inline(&[("kind", quote(tree.kind))]));
                self.flows.push(table);
                return self.level(&tree, 0, header, true);
            }
        }
        self.flows.push(table);
        Ok(())
    }
}

/// The largest packet of Ethernet, as tc counts its bytes.
const LARGEST: u64 = 1514;

/// netem loses and doubles packets where they enter it, and so before any rate.
fn before_its_rate(node: &Node<Qdisc>) -> Problem {
    let has = |name: &str| matches!(&node.what, Qdisc::Netem(netem) if netem.keys.iter().any(|(key, _)| *key == name));
    let mut parts = Vec::new();
    if has("loss") {
        parts.push("what is lost has taken its time");
    }
    if has("duplicate") {
        parts.push("copies take none");
    }
    let what =
        format!("netem loses and doubles packets before the rate; here that is behind it: {}", parts.join(", and "));
    Problem::warning(node.at.clone(), what)
        .help("for netem's order write two links and lead through both, the one that loses first: `to = [\"loses\", \"slow\"]`")
}

/// Where a device is spoken of first.
fn at(device: &Device) -> Range<usize> {
    device.qdiscs.first().map_or(0..0, |q| q.at.clone())
}
